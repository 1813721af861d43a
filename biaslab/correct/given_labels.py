"""Read labels from a table, a file, a data set's human scores, or columns of the judgements themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.scales import scale_named
from biaslab.stats import ITEM, require_columns

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

#: Ratio of ranges above which a judge's values and labels are on different scales.
_RANGES = 8.0
_ENOUGH = 10  # minimum number of labels whose range identifies their scale


@dataclass(frozen=True)
class Labels:
    """Labels of items.

    Parameters
    ----------
    table : pandas.DataFrame or None
        ``context_id, candidate_id, score`` and optionally ``attribute, opponent_id, system``; None if the judgements
        contain the human labels.
    probability : pandas.Series or None
        Probability that each context was labelled.
    scale : tuple of float or None
        Scale of the scores, if known.
    named : pandas.Series or None
        System of each context and candidate, if the data set has it.
    """

    table: pd.DataFrame | None
    probability: pd.Series | None = None
    scale: tuple[float, float] | None = None
    named: pd.Series | None = None

    @classmethod
    def read(cls, labels: Dataset | pd.DataFrame | str | Path | None, judged: pd.DataFrame) -> Labels:
        """Read labels from any of these sources.

        Raises
        ------
        InputError
            If the labels have another type, or there are none.
        TrialsError
            If a column is missing, or a score is not a number.
        """
        if labels is None:
            if not {"human", "human_gap"} & set(judged.columns):
                remedy = "pass a table, a file or a data set"
                raise InputError("labels", None, "judgements with a column human or human_gap", remedy)
            return cls(None)
        if isinstance(labels, str | Path):
            file = Path(labels)
            if not file.is_file():
                raise InputError("labels", str(labels), "an existing CSV file")
            try:
                labels = pd.read_csv(file, dtype={"context_id": str, "candidate_id": str, "opponent_id": str})
            except ValueError as error:  # also raised by pandas
                raise InputError("labels", str(labels), "a CSV file", "save it as CSV with a header line") from error
        if not isinstance(labels, pd.DataFrame):
            if hasattr(labels, "human_means"):
                return cls._of_dataset(labels)
            raise InputError("labels", type(labels).__name__, "a data frame, a CSV file or a data set")
        return cls._of_table(labels)

    @classmethod
    def _of_dataset(cls, data: Dataset) -> Labels:
        long = data.human_means.reset_index().melt(list(ITEM), var_name="attribute", value_name="score")
        long = long[long["score"].notna()]
        system = data.candidates.set_index(["context_id", "candidate_id"])["system"]
        named = system if (system.str.strip() != "").all() else None
        return cls(long, None, (float(data.scale[0]), float(data.scale[1])), named)

    @classmethod
    def _of_table(cls, table: pd.DataFrame) -> Labels:
        require_columns(table, ("context_id", "candidate_id", "score"), "labels")
        score = pd.to_numeric(table["score"], errors="coerce")
        wrong = score.isna() & table["score"].notna()
        if wrong.any():
            raise TrialsError("labels, score", table.loc[wrong, "score"].iloc[0], "numbers, or empty")
        ids = [name for name in ("context_id", "candidate_id", "opponent_id") if name in table]
        known = table.assign(score=score, **{name: table[name].astype(str) for name in ids})
        known = known[known["score"].notna()]
        probability = None
        if "probability" in known:
            probability = known.groupby("context_id", sort=False)["probability"].first().astype(float)
        return cls(known, probability)

    @property
    def examples(self) -> str:
        """Description of the labelled contexts, for messages."""
        if self.table is None or self.table.empty:
            return "none"
        names = self.table["context_id"].unique()
        return f"{len(names)} contexts such as {', '.join(map(str, names[:2]))}"

    @property
    def remedy(self) -> str:
        """Remedy in the message if no label matches an item."""
        return "context_id, candidate_id and, if present, attribute must be the same in both"

    def systems(self, items: pd.DataFrame) -> pd.DataFrame:
        """Return the systems of items: from the judgements, else from the data set, else the candidate ids."""
        if "opponent_id" not in items:
            items = items.assign(opponent_id="", opponent="")
        known = self.named
        for role, name in (("candidate_id", "system"), ("opponent_id", "opponent")):
            if name in items and role == "candidate_id":
                continue
            keys = pd.MultiIndex.from_arrays([items["context_id"], items[role]])
            listed = None if known is None else known.reindex(keys).to_numpy(object)
            items = items.assign(**{name: items[role] if listed is None or pd.isna(listed).any() else listed})
        return items

    def of_items(self, items: pd.DataFrame, attribute: str, paired: bool) -> Floats:
        """Return the label of each item, NaN if missing; for pairs 1, ½ or 0, by the order of the scores."""
        if self.table is None:
            return items["own"].to_numpy(float)
        table = self.table
        if "attribute" in table:
            table = table[table["attribute"].astype(str) == attribute]
        if "opponent_id" in table:
            if not paired:
                raise TrialsError("labels", "preferences between pairs", "scores of candidates, like the judgements")
            return _of_pairs(table, items)
        means = table.groupby(["context_id", "candidate_id"], sort=False)["score"].mean()
        first, second = (_looked_up(means, items, name) for name in ("candidate_id", "opponent_id"))
        return (np.sign(np.round(first - second, 12)) + 1) / 2 if paired else first

    def require_scale(self, judged: pd.DataFrame, items: pd.DataFrame, judge: str) -> tuple[float, float] | None:
        """Return the scale if known; raise `TrialsError` if labels are on a different scale than the judge's values."""
        human = items["human"].dropna()
        theirs = self.scale or (float(human.min()), float(human.max()))
        own, exact = _scale_of(judged)
        value = own or (float(items["value"].min()), float(items["value"].max()))
        if exact and self.scale:
            differ = own != self.scale
        elif exact:
            differ = not (value[0] <= theirs[0] and theirs[1] <= value[1]) or _wider(value, theirs)
        else:
            few = len(human) < _ENOUGH  # a narrow range is then uninformative
            differ = (not few and _wider(value, theirs)) or _wider(theirs, value) or _apart(value, theirs)
        if differ:
            ranges = f"from {theirs[0]:g} to {theirs[1]:g}, scores from {value[0]:g} to {value[1]:g} by {judge}"
            raise TrialsError("labels", ranges, "scores on the judge's scale", "convert one to the other's scale")
        return own or self.scale


def _of_pairs(table: pd.DataFrame, items: pd.DataFrame) -> Floats:
    """Return the mean label of each pair of candidates, reoriented to the order of the items; NaN without a label."""
    score = table["score"].to_numpy(float)
    if not ((score >= 0) & (score <= 1)).all():
        wrong = float(score[(score < 0) | (score > 1)][0])
        raise TrialsError("labels, score", wrong, "1 if the candidate wins, 0 if its opponent does, ½ for a tie")
    turned = (table["candidate_id"] > table["opponent_id"]).to_numpy()
    names = {"candidate_id": table["candidate_id"], "opponent_id": table["opponent_id"]}
    first = names["candidate_id"].where(~turned, names["opponent_id"])
    second = names["opponent_id"].where(~turned, names["candidate_id"])
    put = table.assign(candidate_id=first, opponent_id=second, score=np.where(turned, 1 - score, score))
    keys = ["context_id", "candidate_id", "opponent_id"]
    means = put.groupby(keys, sort=False)["score"].mean()
    return means.reindex(pd.MultiIndex.from_frame(items[keys])).to_numpy(float)


def _looked_up(means: pd.Series, items: pd.DataFrame, name: str) -> Floats:
    return means.reindex(pd.MultiIndex.from_arrays([items["context_id"], items[name]])).to_numpy(float)


def _scale_of(judged: pd.DataFrame) -> tuple[tuple[float, float] | None, bool]:
    """Return the ends of the judge's scale, and whether the judgements state them."""
    named = list(judged["scale"].dropna().unique()) if "scale" in judged else []
    if len(named) != 1:
        return None, False
    try:
        scale = scale_named(str(named[0]))
    except InputError:  # a scale unknown to biaslab
        return None, False
    return (scale.low, scale.high), True


def _wider(one: tuple[float, float], other: tuple[float, float]) -> bool:
    span = other[1] - other[0]
    return 0 < span < (one[1] - one[0]) / _RANGES


def _apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Check whether the midpoint of each interval lies outside the other."""
    middles = [sum(interval) / 2 for interval in (one, other)]
    return not other[0] <= middles[0] <= other[1] and not one[0] <= middles[1] <= one[1]
