"""The alphas of the consistency probe: between samples, annotators and configurations of the same items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.probes._answer_metrics import ONE_SAMPLE
from biaslab.probes.base import Cell, Estimable, Part, label_mass
from biaslab.stats import (
    ITEM,
    Estimate,
    Measurement,
    Resampling,
    alpha_difference,
    estimate_alpha,
    number_items,
    of_items,
    undefined,
    usable,
)

_UNIT = ("candidate_id", "unit")
_NO_SAMPLE = "undefined: no score that can be read"


def unit_scores(trials: pd.DataFrame) -> pd.DataFrame:
    """Return usable samples: ``context_id, candidate_id, configuration, replicate``, ``score`` on the unit scale."""
    found = usable(trials)
    score = found["value"].to_numpy(float).copy()
    for name, at in found.groupby("scale", sort=False).indices.items():
        score[at] = scale_named(str(name)).unit(score[at])  # type: ignore[arg-type]
    return found[[*ITEM, "configuration", "replicate"]].assign(score=score)


def within(
    cell: Cell, scores: pd.DataFrame, name: str, levels: Sequence[Measurement], is_reference: bool
) -> Iterator[Part]:
    """Yield alpha between the samples of one configuration, of the reference beside that between annotators."""
    items = _items(cell, [name])
    samples = of_items(scores[scores["configuration"] == name], items)
    samples = samples.rename(columns={"configuration": "unit", "replicate": "annotator"})
    few = _too_few(samples, "unit")
    human = _ratings(cell.trials, items) if is_reference and cell.wants("human_alpha", "alpha_gap") else None
    for level in levels:
        found: dict[str, Estimable] = {"sample_alpha": few or _alpha(samples, cell.resampling, level)}
        if human is not None:
            found["human_alpha"] = _alpha(human, cell.resampling, level)
            found["alpha_gap"] = few or partial(_gap, samples, human, cell.resampling, level)
        yield Part(found, items, {"configuration": name, "level": level})
    mass = label_mass(cell.trials[cell.trials["configuration"] == name])
    yield Part({"label_mass": mass}, items, {"configuration": name, "level": ""})


def between(
    cell: Cell, scores: pd.DataFrame, reference: str, name: str, levels: Sequence[Measurement]
) -> Iterator[Part]:
    """Yield alpha between one sample of either configuration, and that less alpha between two samples of one."""
    names = [reference, name]
    items = _items(cell, names)
    samples = of_items(scores[scores["configuration"].isin(names)], items)
    across = samples.rename(columns={"replicate": "unit", "configuration": "annotator"})
    floor = samples.rename(columns={"configuration": "unit", "replicate": "annotator"})
    few = _too_few(samples, "configuration")
    one_scale = len({*cell.trials.loc[cell.trials["configuration"].isin(names), "scale"]}) == 1
    for level in levels:
        found: dict[str, Estimable] = {
            "configuration_alpha": _alpha(across, cell.resampling, level),
            "configuration_gap": few or partial(_gap, across, floor, cell.resampling, level, one_scale),
        }
        yield Part(found, items, {"configuration": f"{reference} vs {name}", "level": level})


def _too_few(samples: pd.DataFrame, configuration: str) -> Estimate | None:
    """Return why samples of one request cannot be compared, if there is but one of each, or none."""
    if samples.duplicated([*ITEM, configuration]).any():
        return None
    return undefined(ONE_SAMPLE if len(samples) else _NO_SAMPLE, samples["context_id"].nunique())


def _items(cell: Cell, names: Sequence[str]) -> pd.DataFrame:
    """Return the items that have samples in all of some configurations."""
    blocks = cell.blocks("configuration", names, keep=(), of=" and ".join(names))
    return blocks[list(ITEM)]


def _ratings(trials: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of the items' annotators, who count as exchangeable."""
    given = of_items(trials.iloc[number_items(trials)[1]], items)
    scores = [text.split() if isinstance(text, str) else [] for text in given["ratings"]]
    counts = [len(of_item) for of_item in scores]
    annotator = [number for count in counts for number in range(count)]
    rated = given[list(ITEM)].iloc[np.repeat(np.arange(len(given)), counts)].reset_index(drop=True)
    return rated.assign(score=np.array([*chain(*scores)], float), unit="", annotator=annotator)


def _alpha(scores: pd.DataFrame, resampling: Resampling, level: Measurement) -> Estimable:
    return partial(estimate_alpha, scores, resampling, level, _UNIT)


def _gap(
    first: pd.DataFrame, second: pd.DataFrame, resampling: Resampling, level: Measurement, tested: bool = True
) -> Estimate:
    null = 0.0 if tested else None
    return alpha_difference(first, second, resampling, level, _UNIT, null=null, inference="t")
