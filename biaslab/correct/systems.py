"""The corrected number of each system, beside the judge's, as ``biaslab correct`` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.checks import require_one_of
from biaslab.core.errors import BiaslabError, InputError
from biaslab.core.metrics import find_metric
from biaslab.core.output import PrintedText, count, number, with_interval
from biaslab.core.schema import Dataset
from biaslab.correct.correction import NAME, correct
from biaslab.correct.label_plan import LabelPlan, plan_labels
from biaslab.correct.labels import HumanLabels, read_cells
from biaslab.stats.blocks import CELL, ITEM, has_value

_VALUES = ("pass_rate", "mean_score", "win_rate")
_COLUMNS = {"judge": "judge", "ppi": "corrected", "human": "labels alone"}
_MOST = 10  # differences that are printed
_DIGITS = 2
_NONE = "(none)"  # an empty value of a column


@dataclass(frozen=True)
class CorrectedSystems(PrintedText):
    """Corrected numbers of systems; prints as text.

    Attributes
    ----------
    estimates : pandas.DataFrame
        From `biaslab.correct` with the estimand *systems*.
    plan : LabelPlan or None
        How many contexts to label to detect effects half as large as with the widest corrected interval now; None if
        all are labelled or there is no interval.
    items : pandas.DataFrame
        Number of ``items`` of each judge, attribute and ``system``, and how many of them people ``labelled``.
    matched, unmatched : int
        Number of labels of items that the judge judged, and of other items; 0 if the judgements contain the labels.
    matched_by : tuple of str
        The columns that match labels with judgements, with the columns of the file in parentheses.
    ambiguous : int
        Number of items with different labels by people who are not named; their mean counts.
    weighted : bool
        Whether labels are weighted by the probability with which their context was to be labelled.
    """

    estimates: pd.DataFrame
    plan: LabelPlan | None
    items: pd.DataFrame
    matched: int
    unmatched: int
    matched_by: tuple[str, ...] = ()
    ambiguous: int = 0
    weighted: bool = False

    def __str__(self) -> str:
        given = self.matched + self.unmatched
        counts = f"{self.matched:,} of items that were judged, {self.unmatched:,} of others"
        lines = [f"labels: {counts}; matched by {', '.join(self.matched_by)}"] if given else []
        if self.ambiguous:
            lines += [f"different labels of {count(self.ambiguous, 'item')}, whose mean counts; name who gave each"]
        several = [name for name in CELL if len(self.estimates[name].unique()) > 1]
        for _, cell in self.estimates.merge(self.items, "left").groupby(list(CELL), sort=False):
            lines += [", ".join(map(str, cell.iloc[0][several]))] if several else []
            lines += _lines(cell)
        return "\n".join([*lines, *self._closing()])

    def _closing(self) -> Iterator[str]:
        """Yield what the numbers assume, and how many labels would halve the detectable effect."""
        values = _of_systems(self.estimates)
        if (self.items["labelled"] == self.items["items"]).all():
            yield "all items are labelled: corrected numbers are those of people, and the judge is not used"
            return
        if values.loc[values["correction"] == "ppi", "ci_low"].isna().all():
            yield "no corrected number has an interval: too few contexts are labelled (at least 5); label more"
            return
        how = "were drawn with the stated probabilities" if self.weighted else "are a random part of all"
        yield f"assumes that the labelled items {how}"
        widths = (values["ci_high"] - values["ci_low"]).groupby(values["correction"]).max()
        if widths["ppi"] >= widths["human"]:
            yield "the judge adds nothing: intervals from the labels alone are as narrow"
        if self.plan is not None:
            most, wanted = self.plan.judged, self.plan.with_judge
            whose = f" of {self.plan.system}" if self.plan.system else ""
            enough = f"{wanted:,} of {most:,}" if wanted else f"more than all {most:,}"
            half = f"to detect shifts{whose} of {self.plan.effect:g}, half of what is detected now"
            yield f"{half}, contexts to label: {enough} ({self.plan.pilot:,} are)"


def correct_systems(
    judged: pd.DataFrame, labels: Dataset | pd.DataFrame | str | Path | None = None, by: str = "system"
) -> CorrectedSystems:
    """Correct the pass rate, mean score or win rate of each system with people's labels.

    Parameters
    ----------
    judged, labels
        As in `biaslab.correct`; items without a label of the table keep the label that they have in the judgements.
    by : str
        For scores: the column whose values are compared instead of systems, such as ``subset``.

    Returns
    -------
    CorrectedSystems

    Raises
    ------
    InputError, TrialsError
        As in `biaslab.correct`; also if a candidate has several values of the column.

    Examples
    --------
    >>> import biaslab as bl
    >>> verdicts = {"verdict": ["pass", "pass", "pass", "fail"] * 10, "human_label": ["pass", "fail", "", ""] * 10}
    >>> log = pd.DataFrame({"case_id": [f"c{n}" for n in range(40)], **verdicts})
    >>> rates = correct_systems(bl.read_judgements(log)).estimates.head(2)
    >>> rates[["correction", "metric", "estimate", "n_labelled"]].to_numpy().tolist()
    [['judge', 'pass_rate', 0.75, 20], ['human', 'pass_rate', 0.5, 20]]
    """
    pairs = "opponent_id" in judged and judged["opponent_id"].notna().any()
    require_one_of("by", by, ("system", *(() if pairs else map(str, judged.columns))))
    if by != "system":
        if judged.drop_duplicates([*CELL, *ITEM, by]).duplicated([*CELL, *ITEM]).any():
            raise InputError("by", by, "a column with one value for each candidate of a context")
        judged = judged.assign(system=judged[by].where(judged[by].notna() & (judged[by] != ""), _NONE).astype(str))
    known = replace(HumanLabels.read(labels, judged), fills=True)
    matches = known.matched(judged)
    estimates = correct(judged, known, "systems")
    plan, items, matched = _plan(judged, known, estimates), _count_items(judged, known), int(matches.sum())
    unmatched, weighted = len(matches) - matched, known.probability is not None
    return CorrectedSystems(estimates, plan, items, matched, unmatched, known.matched_by, known.ambiguous, weighted)


def corrected_overall(trials: pd.DataFrame) -> pd.DataFrame:
    """Estimate the corrected number of all items, if people labelled a part.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`, of one judge or several.

    Returns
    -------
    pandas.DataFrame
        Of each judge and attribute two rows of an estimates frame: the judge as it is, and corrected (*ppi*). For pairs
        those of the system that is judged most often. With the numbers of ``items`` and of ``labelled`` ones. Without
        rows if no part is labelled, or nothing can be estimated.
    """
    rated = trials[["human", "human_gap"]].notna().any(axis=1)[has_value(trials)]
    nothing = pd.DataFrame(columns=[*CELL, "system"])
    if not rated.any() or rated.all():
        return nothing
    pairs = trials["opponent_id"].notna().any()
    items, systems = (trials, [str(trials["candidate_id"].mode()[0])]) if pairs else (trials.assign(system=""), None)
    try:
        values = correct(items, None, "systems", systems=systems, corrections=["judge", "ppi"])
        counts = _count_items(items, HumanLabels(None))
    except BiaslabError:  # several conditions, too few labels, or pairs of texts
        return nothing
    known = values.loc[(values["correction"] == "ppi") & values["ci_low"].notna(), [*CELL]]
    return values.merge(known).merge(counts, "left")


def corrected_line(trials: pd.DataFrame) -> str:
    """Return a line for each judge and attribute from `corrected_overall`; an empty text if there is none."""
    estimates = corrected_overall(trials)
    several = [name for name in CELL if len(estimates[name].unique()) > 1]
    cells = [cell for _, cell in estimates.groupby(list(CELL), sort=False)]
    heads = [", ".join(str(name) for name in cell.iloc[0][[*several, "system"]] if name) for cell in cells]
    sentences = zip(heads, map(_sentence, cells), strict=True)
    return "\n".join(f"{head}: {sentence}" if head else sentence for head, sentence in sentences)


def _of_systems(estimates: pd.DataFrame) -> pd.DataFrame:
    return estimates[estimates["metric"].isin(_VALUES)]


def _count_items(judged: pd.DataFrame, labels: HumanLabels) -> pd.DataFrame:
    """Count the items of each system, and the labelled ones; pairs count for both systems."""
    parts = []
    for cell in read_cells(judged, labels, None, ()):
        sides = [cell.items["system"], *([cell.items["opponent"]] if cell.pairs else [])]
        for system, rows in pd.concat([cell.items.assign(system=side) for side in sides]).groupby("system", sort=False):
            where = {name: cell.where[name] for name in CELL}
            parts.append({**where, "system": system, "items": len(rows), "labelled": int(rows["human"].notna().sum())})
    return pd.DataFrame(parts)


def _plan(judged: pd.DataFrame, labels: HumanLabels, estimates: pd.DataFrame) -> LabelPlan | None:
    """Plan labels that halve the detectable effect of the widest corrected interval."""
    values = _of_systems(estimates[estimates["correction"] == "ppi"])
    effect = values.loc[values["n_labelled"] < values["n_contexts"], "mde"].max()
    try:
        return plan_labels(judged, labels, float(f"{effect / 2:.2g}"), "systems")
    except BiaslabError:  # all are labelled, or labels do not vary
        return None


def _lines(cell: pd.DataFrame) -> Iterator[str]:
    """Yield the table of systems, best first, a sentence for each, their differences, and the judge's rates."""
    values = _of_systems(cell)
    best = values[values["correction"] == "ppi"].sort_values("estimate", ascending=False)
    systems = [(str(name), rows) for name, rows in best[["system"]].merge(values).groupby("system", sort=False)]
    ranks = cell[(cell["metric"] == "rank") & (cell["correction"] == "ppi")].set_index("system").to_dict("index")
    yield pd.DataFrame([_columns(system, rows, ranks) for system, rows in systems]).to_string(index=False)
    yield from (f"{system or 'all'}: {_sentence(rows)}" for system, rows in systems)
    pairs = cell[cell["metric"].str.endswith("_difference") & (cell["correction"] == "ppi")]
    for row in pairs.head(_MOST).to_dict("records"):
        test = f"p {row['p_value']:.2g}, q {row['q_value']:.2g}"
        yield f"{row['system']} − {row['other']}: corrected difference {_value(row)}, {test}"
    if len(pairs) > _MOST:
        yield f"… and {len(pairs) - _MOST:,} more differences (--out FILE.csv)"
    for _, rows in cell[cell["correction"] == "rogan_gladen"].groupby("system", sort=False):
        rate, passed, failed = map(_value, rows.to_dict("records"))  # in the order of `biaslab.correct`
        whose = rows["system"].iloc[0] or "all"
        passes = f"the judge passes {passed} of what people pass (true-positive rate)"
        yield f"{whose}: Rogan–Gladen {rate}; {passes} and fails {failed} of what they fail (true-negative rate)"


def _columns(system: str, rows: pd.DataFrame, ranks: dict[Any, Any]) -> dict[str, str]:
    """Return a line of the table: labels, each correction, and the rank."""
    own = rows.set_index("correction").to_dict("index")
    line = {"system": system or "all", "labelled": f"{own['ppi']['labelled']:,} of {own['ppi']['items']:,}"}
    line |= {words: _value(own[name]) for name, words in _COLUMNS.items()}
    return line | ({"rank": _value(ranks[system])} if system in ranks else {})


def _sentence(rows: pd.DataFrame) -> str:
    """Return a system's corrected number beside the judge's."""
    judge, own = (rows[rows["correction"] == name].iloc[0] for name in ("judge", "ppi"))
    noun = find_metric(own["metric"], NAME).label.partition(" (")[0]
    labelled = f"people labelled {own['labelled']:,} of {own['items']:,}"
    return f"{labelled}: corrected {noun} {_value(own)}, the judge says {number(judge['estimate'], _DIGITS)}"


def _value(row: Any) -> str:
    return with_interval(row, _DIGITS, row["metric"] == "rank")
