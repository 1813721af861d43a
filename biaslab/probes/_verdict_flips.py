"""How often a verdict on a pair changes: with the template, with the order, and when the same is asked again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from biaslab.measures.ranking import pairs
from biaslab.probes.base import Cell, Part
from biaslab.stats import Ratio


def flips(cell: Cell, names: Sequence[str], factors: Mapping[str, str]) -> Iterator[Part]:
    """Yield the rates of flips of one cell.

    Parameters
    ----------
    cell : Cell
        Whose ``candidate_id`` names both candidates of a pair in their order, as `_prompt_variance.combined` does it.
    names : sequence of str
        Of the templates, the base first.
    factors : mapping of str to str
        What each of them has different.
    """
    verdicts = cell.trials.assign(value=pairs.decisions(cell.trials))
    for name in names:
        where = {"template": name, "factor": factors[name]}
        if name != names[0]:
            yield _between_templates(verdicts, names[0], name, where)
        part = _restored(cell.trials[cell.trials["template"] == name])
        blocks = pairs.both_orders(part, cell.what)
        rate = pairs.order_consistency(blocks["context_id"], blocks["first_ij"], blocks["first_ji"])
        yield Part({"flip_rate": _changed(rate)}, blocks, where | {"between": "order"})
        if part["replicate"].max() > 0:
            seen = pairs.replicate_agreement(part)
            again = Ratio(seen["context_id"], seen["agree"], seen["pairs"], bounds=(0.0, 1.0))
            counts = int(part["value"].notna().sum()), int(part["value"].isna().sum())
            yield Part({"flip_rate": _changed(again)}, counts, where | {"between": "resampling"})


def _between_templates(verdicts: pd.DataFrame, base: str, name: str, where: dict[str, str]) -> Part:
    """Compare the verdicts on the same pair in the same order, replicate by replicate."""
    keys = ["context_id", "candidate_id", "replicate"]
    usable = verdicts[verdicts["status"].isin(["ok", "tie"])]
    one, two = (usable[usable["template"] == each].set_index(keys)["value"] for each in (name, base))
    shared = one.index.intersection(two.index, sort=False)
    won, other = one.loc[shared].to_numpy(float), two.loc[shared].to_numpy(float)
    rate = pairs.order_consistency(shared.get_level_values(0), won, 1 - other)
    planned = int(verdicts["template"].isin([base, name]).sum())
    counts = 2 * len(shared), planned - 2 * len(shared)
    return Part({"flip_rate": _changed(rate)}, counts, where | {"between": "template"})


def _changed(same: Ratio) -> Ratio:
    """Turn a rate of agreement into one of change."""
    numerator = np.asarray(same.denominator, float) - np.asarray(same.numerator, float)
    return replace(same, numerator=numerator, missing="undefined: no verdict that has its counterpart")


def _restored(trials: pd.DataFrame) -> pd.DataFrame:
    return trials.assign(candidate_id=trials["candidate_id"].str.partition("\t")[0])
