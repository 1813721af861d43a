"""Match judgements and labels item by item."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.given_labels import Labels
from biaslab.stats import CELL, has_value, require_columns

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

#: Conditions that must not be averaged over implicitly.
_CONDITIONS = (
    "template", "scale", "configuration", "form", "order", "asked", "answer", "source", "naming", "edit", "edited",
    "defence", "remedy", "scorer", "temperature",
)  # fmt: skip
ITEM_COLUMNS = ("context_id", "candidate_id", "opponent_id", "system", "opponent", "value", "covariate", "human")


@dataclass(frozen=True)
class Cell:
    """Judgements and labels of one judge, attribute and data set.

    Parameters
    ----------
    where : dict
        Judge, data set, attribute and further columns.
    items : pandas.DataFrame
        One row per candidate, or pair of candidates, with the columns `ITEM_COLUMNS`. For pairs, ``value`` is the
        probability that the candidate beats its opponent, averaged over both orders, and ``human`` likewise; NaN
        without a label.
    pairs : bool
        Whether items are pairs.
    probability : pandas.Series or None
        By context: the probability of being labelled, if it varies.
    n_trials, n_dropped : int
        Numbers of usable and unusable judgements.
    scale : tuple of float or None
        Scale of the scores, if known.
    """

    where: dict[str, Any]
    items: pd.DataFrame
    pairs: bool
    probability: pd.Series | None
    n_trials: int
    n_dropped: int
    scale: tuple[float, float] | None = None

    @property
    def contexts(self) -> list[str]:
        """The contexts, in order of appearance."""
        return list(dict.fromkeys(self.items["context_id"]))


def read_cells(
    judged: pd.DataFrame,
    labels: Dataset | pd.DataFrame | str | Path | None,
    labelled: Sequence[str] | Mapping[str, float] | None,
    by: Sequence[str],
    covariate: str,
) -> list[Cell]:
    """Match judgements with labels; parameters as in `biaslab.correct.correct`.

    Raises
    ------
    TrialsError, InputError
        As in `biaslab.correct.correct`.
    """
    frame = judged.rename(columns={"score": "value"}) if "value" not in judged else judged
    require_columns(frame, (*CELL, "context_id", "candidate_id", "value", *by), "judged")
    frame = frame if "status" in frame else frame.assign(status="ok")
    if frame.empty:
        raise TrialsError("judged", "empty", "at least one judgement")
    parsed = Labels.read(labels, frame)
    _require_judged(labelled, frame)
    cells = []
    for values, judgements in frame.groupby([*CELL, *by], sort=False):
        where = dict(zip([*CELL, *by], values, strict=True))
        _require_one_condition(judgements, by)
        cells.append(_cell(where, judgements, parsed, labelled, covariate))
    return cells


def _cell(
    where: dict[str, Any],
    judgements: pd.DataFrame,
    labels: Labels,
    labelled: Sequence[str] | Mapping[str, float] | None,
    covariate: str,
) -> Cell:
    """Match the judgements and labels of one judge, attribute and data set."""
    readable = judgements[has_value(judgements)]
    counts = (len(readable), len(judgements) - len(readable))
    paired = "opponent_id" in readable and bool(readable["opponent_id"].notna().all()) and len(readable) > 0
    items = pair_items(readable, covariate) if paired else _score_items(readable, covariate)
    items = labels.systems(items)
    items = items.assign(human=labels.of_items(items, str(where["attribute"]), paired))
    items, probability = _labelled_part(items, labelled, labels.probability)
    _require_labels(items, labels, str(where["judge"]))
    scale = None if paired else labels.require_scale(judgements, items, str(where["judge"]))
    return Cell(where, items, paired, probability, *counts, scale)


def _score_items(readable: pd.DataFrame, covariate: str) -> pd.DataFrame:
    """Average scores over replicates, one row per candidate."""
    own = readable.get("human", math.nan)
    table = pd.DataFrame({"value": readable["value"], "covariate": _covariate(readable, covariate), "own": own})
    ids = {name: readable[name].astype(str) for name in ("context_id", "candidate_id")}
    system = {"system": readable["system"]} if "system" in readable else {}
    grouped = table.astype(float).assign(**ids, **system).groupby(list(ids), sort=False)
    means = grouped[["value", "covariate", "own"]].mean()
    if system:
        means["system"] = grouped["system"].first()
    return means.reset_index()


def pair_items(readable: pd.DataFrame, covariate: str) -> pd.DataFrame:
    """Reorient every pair to one candidate order, and average over both orders and replicates."""
    first, second = (readable[name].astype(str) for name in ("candidate_id", "opponent_id"))
    turned = (first > second).to_numpy()
    value = readable["value"].to_numpy(float)
    gap = readable["human_gap"].to_numpy(float) if "human_gap" in readable else np.full(len(readable), math.nan)
    length = _covariate(readable, covariate) - _covariate(readable, f"opponent_{covariate}")
    sign = np.where(turned, -1.0, 1.0)
    table = pd.DataFrame(
        {
            "context_id": readable["context_id"].astype(str),
            "candidate_id": np.where(turned, second, first),
            "opponent_id": np.where(turned, first, second),
            "value": np.where(turned, 1 - value, value),
            "covariate": sign * length,
            "own": (np.sign(sign * gap) + 1) / 2,
        }
    )
    return table.groupby(["context_id", "candidate_id", "opponent_id"], sort=False).mean().reset_index()


def _covariate(judgements: pd.DataFrame, name: str) -> Floats:
    """Return a covariate; word counts as log2."""
    if name not in judgements:
        return np.full(len(judgements), math.nan)
    values = pd.to_numeric(judgements[name], errors="coerce").to_numpy(float)
    return np.log2(np.maximum(values, 1.0)) if name.removeprefix("opponent_") == "words" else values


def _labelled_part(
    items: pd.DataFrame, labelled: Sequence[str] | Mapping[str, float] | None, own: pd.Series | None
) -> tuple[pd.DataFrame, pd.Series | None]:
    """Keep the labels of the given contexts; return the items and the labelling probabilities."""
    probability = own
    if labelled is not None:
        names = [str(name) for name in labelled]
        items = items.assign(human=items["human"].where(items["context_id"].isin(names)))
        if isinstance(labelled, Mapping):
            probability = pd.Series([float(value) for value in labelled.values()], names)
    if probability is None:
        return items, None
    with_labels = items.loc[items["human"].notna(), "context_id"].unique()
    likely = probability.reindex(with_labels)
    if not likely.between(0, 1, inclusive="right").all():
        wrong = likely[~likely.between(0, 1, inclusive="right")]
        allowed = "above 0 and at most 1 for every labelled context"
        raise InputError("probability", {str(k): float(v) for k, v in wrong.head(2).items()}, allowed)
    return items, probability


def _require_judged(labelled: Sequence[str] | Mapping[str, float] | None, frame: pd.DataFrame) -> None:
    """Raise `InputError` unless ``labelled`` is a list of contexts that the judge judged."""
    if isinstance(labelled, str):
        raise InputError("labelled", labelled, "a list of contexts, or the labelling probability of each")
    known = list(dict.fromkeys(frame["context_id"].astype(str)))
    strangers = sorted({str(name) for name in labelled or ()} - set(known))
    if strangers:
        raise TrialsError("labelled", strangers[:3], f"contexts that were judged, such as {', '.join(known[:3])}")


def _require_labels(items: pd.DataFrame, labels: Labels, judge: str) -> None:
    """Raise `TrialsError` if no items, or items of only one context, are labelled."""
    rated = items.loc[items["human"].notna(), "context_id"].unique()
    if not len(rated):
        mine = f"{judge} judged contexts such as {', '.join(items['context_id'].unique()[:2])}"
        raise TrialsError("labels", f"{labels.examples}; {mine}", "labels of items that were judged", labels.remedy)
    if len(rated) == 1:
        rated_part = f"all in one context, {rated[0]}, of {items['context_id'].nunique()} that {judge} judged"
        raise TrialsError("labels", rated_part, "labels in several contexts", "label a random part of the contexts")


def _require_one_condition(judgements: pd.DataFrame, by: Sequence[str]) -> None:
    """Raise `InputError` if judgements under different conditions would be averaged."""
    for name in _CONDITIONS:
        if name in judgements and name not in by and len(judgements[name].unique()) > 1:
            values = ", ".join(map(str, judgements[name].unique()[:4]))
            raise InputError(name, values, "one condition at a time", f"select one, or pass by=[{name!r}]")
