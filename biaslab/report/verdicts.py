"""Verdicts on estimates: biases found, excluded or inconclusive, in words and beside other judges.

Two estimates are comparable if they are over all items, have the same probe and metric, and agree in the conditions
that the metric names (`biaslab.core.Comparison`). Verdicts on pairs compare with verdicts on pairs, whether parsed from
text or taken from the likelier label; points compare only on the same scale. Metrics that depend on the answer mode,
such as logits, declare no comparison. The judged texts still differ, so a rank among other judges shows what is usual;
it is not a test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.metrics import Comparison, Metric, find_metric
from biaslab.core.output import count, interval, percent
from biaslab.report import wording
from biaslab.stats import frame
from biaslab.stats.estimate import ROUNDING, is_above, notes_of, side_of, significant, unseen_share
from biaslab.stats.frame import FAMILY, LEADING, require_columns, with_numpy_types, without_breakdowns
from biaslab.stats.missing import first_doubt, plausible_intervals
from biaslab.stats.reliability import depends_on_reliability

#: The columns that `findings` adds.
ADDED = (
    "detectable", "finding", "doubt", "slight", "hedge", "null", "matters", "cell", "standing", "words", "sentence",
)  # fmt: skip
#: Log odds that move an even chance to .993: an interval that reaches further does not bound the size.
_ANY_SIZE = 5.0
_NARROWER = "use more contexts, label probabilities instead of verdicts, or human scores by two annotators"
_ALWAYS = ("attribute", "covariate", "contrast")  # conditions that are named even if they do not vary
#: Values of columns that a table of a figure may lack.
_UNTESTED: Any = {"judge": "", "probe": "", "ci_level": 0.95, "p_value": np.nan, "mde": np.nan, "dataset": ""}
_NEEDED = (*LEADING, "estimate", "ci_low", "ci_high", "ci_level", "p_value", "mde", "n_contexts")


def verdicts(
    estimates: pd.DataFrame,
    matters: Mapping[str, float] | None = None,
    null: float | None = None,
    reference: str | pd.DataFrame | None = None,
    metric: str | Sequence[str] | None = None,
) -> list[str]:
    """Return one sentence per estimate that says what it shows, and one for all that are undefined.

    **Multiple testing.** q-values are recomputed over the tests in exactly these rows, and each sentence says how many
    there are. Pass all rows that will be interpreted together; select rows by condition, never by result.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame, or rows of several.
    matters : mapping of str to float, optional
        Smallest distance from the null that matters, by metric; overrides the one that the probe declares.
    null : float, optional
        Null value for metrics without a declared one, such as 0 for differences.
    reference : {"atlas"} or pandas.DataFrame, optional
        Compare each estimate with the judges of the atlas, or with those in another estimates frame, if at least five
        are comparable; see `biaslab.report.verdicts`.
    metric : str or sequence of str, optional
        Use only these metrics; q-values are then over their tests.

    Returns
    -------
    list of str
        One sentence per defined estimate, in the words that its probe declares, with the judge's name if there are
        several; last one on the metrics that are undefined, with each reason once.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=12)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> judge = bl.SimulatedJudge(data, position=2.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["first_position_rate"])
    >>> verdicts(estimates)[0]
    'coherence: 0.927 [0.926, 0.928], p <0.001: prefers the candidate shown first'
    """
    found = classify(wording.of_metrics(estimates, metric), matters, null, reference)
    empty: dict[str, dict[str, None]] = {}
    for finding in found:
        if math.isnan(finding.estimate):
            empty.setdefault(finding.note or "no estimate", {})[finding.metric.label] = None
    rest = "; ".join(f"{', '.join(labels)} ({why})" for why, labels in empty.items())
    sentences = [finding.sentence for finding in found if not math.isnan(finding.estimate)]
    return [*sentences, *([f"not tested: {rest}"] if rest else [])]


def findings(
    estimates: pd.DataFrame,
    matters: Mapping[str, float] | None = None,
    null: float | None = None,
    reference: str | pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Classify each estimate as above the null, below it, no bias that matters, or inconclusive.

    Parameters
    ----------
    estimates, matters, null, reference
        As in `verdicts`.

    Returns
    -------
    pandas.DataFrame
        The estimates with ``q_value`` over the rows that have a test and a null (see `biaslab.stats.corrected`), and:

        * ``detectable`` — smallest shift detected with 80 % power after correction for these rows, given the other
          results; ``mde`` is the same for the single test (see `biaslab.stats.corrected_effects`). NaN if none.
        * ``finding`` — *above* or *below* the null (q is below .05, and no plausible interval contains the null),
          *none* (no plausible interval contains a shift that matters or, if none is declared, reaches further from the
          estimate, beyond its sampling error, than a shift that is detected), *open* (inconclusive) or *untested*.
          Plausible
          are the interval, the missing-data bounds (Horowitz & Manski 2000; unlimited if missing values are unbounded),
          and intervals over the reliabilities that human scores may have: `biaslab.stats.missing.plausible_intervals`.
        * ``doubt`` — why it is inconclusive.
        * ``slight`` — above or below, but no plausible interval contains a shift that matters.
        * ``hedge`` — what else could explain the finding.
        * ``null``, ``matters`` — fair value, and the smallest distance from it that matters.
        * ``cell`` — the attribute and the conditions that vary.
        * ``standing`` — comparison with the reference judges.
        * ``words``, ``sentence`` — the verdict, without and with the numbers.

    Raises
    ------
    InputError
        If a value of `matters` is not above 0, its metric is not in the frame, or the reference is unknown.
    TrialsError
        If a column is missing.

    Notes
    -----
    *None* is an equivalence test (Schuirmann 1987): a 95 % interval inside ± the smallest effect that matters excludes
    a shift of that size at the 2.5 % level.

    **No variation between contexts.** If G contexts show no effect, a share of up to 1 − (α/2)^(1/G) of all contexts
    may still have one. If the metric has bounds, the interval allows for that. Otherwise, or if no smallest effect that
    matters is declared, *none* requires a share below `biaslab.report.verdicts.RARE`, reached with 36 contexts.

    References
    ----------
    Schuirmann 1987, *A comparison of the two one-sided tests procedure and the power approach*.
    """
    return tidy(estimates, classify(estimates, matters, null, reference))


def tidy(estimates: pd.DataFrame, found: Sequence[Finding]) -> pd.DataFrame:
    """Return estimates with the columns of `findings`, rendered from the finding on each row."""
    columns = pd.DataFrame([each.columns for each in found], columns=list(ADDED), index=estimates.index)
    q_values = np.array([each.row["q_value"] for each in found], float)
    return with_numpy_types(estimates).assign(q_value=q_values, **columns)


def with_findings(rows: pd.DataFrame, null: float | Mapping[str, float | None] | None = None) -> pd.DataFrame:
    """Add the finding on each row, in the columns ``finding``, ``slight`` and ``matters`` of `findings`.

    q-values are those of the study; rows without the column get q-values over exactly these rows. Rows that have
    findings keep them. With another ``null`` than the one that a metric was tested against, it is not tested.
    """
    if not {"finding", "slight", "matters"} <= set(rows.columns):
        rows = _found(rows)
    if null is None:
        return rows
    nulls = [find_metric(*named).null for named in zip(rows["metric"], rows.get("probe", rows["metric"]), strict=True)]
    drawn = [null.get(metric) if isinstance(null, Mapping) else null for metric in rows["metric"]]
    moved = np.array([None not in (own, other) and own != other for own, other in zip(nulls, drawn, strict=True)], bool)
    finding = rows["finding"].mask(moved & rows["finding"].ne("plain"), "untested")
    return rows.assign(finding=finding, slight=rows["slight"] & ~moved)


def _found(rows: pd.DataFrame) -> pd.DataFrame:
    known: dict[str, Any] = {name: value for name, value in _UNTESTED.items() if name not in rows}
    found = classify(rows.assign(**known), as_tested="q_value" in rows)
    columns = pd.DataFrame([each.columns for each in found], columns=list(ADDED), index=rows.index)
    return rows.assign(**{name: columns[name] for name in ("finding", "slight", "matters")})


def classify(
    estimates: pd.DataFrame,
    matters: Mapping[str, float] | None = None,
    null: float | None = None,
    reference: str | pd.DataFrame | None = None,
    as_tested: bool = False,
) -> list[Finding]:
    """Return the finding on each estimate; parameters and errors as in `findings`.

    With `as_tested`, q-values are kept as they are, over the tests of their study.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(metric="first_position_rate", source="mt_bench", judge="gpt-4-0613")
    >>> [(finding.kind, finding.words) for finding in classify(rows)]
    [('none', 'no bias of ≥ 0.10'), ('none', 'no bias of ≥ 0.10')]
    """
    require_columns(estimates, _NEEDED, "estimates")
    estimates = with_numpy_types(estimates)
    wanted = _sizes({} if matters is None else matters, estimates)
    metrics = [_metric(*named, null) for named in zip(estimates["metric"], estimates["probe"], strict=True)]
    if as_tested:
        require_columns(estimates, ["q_value"], "estimates")
    else:
        has_null = np.array([metric.null is not None for metric in metrics], bool)
        estimates = frame.corrected(estimates, has_null & estimates["p_value"].notna().to_numpy())
    return _classified(estimates, metrics, wanted, None if reference is None else judges_of(reference))


def _classified(
    tested: pd.DataFrame, metrics: Sequence[Metric], wanted: Mapping[str, float], others: pd.DataFrame | None
) -> list[Finding]:
    """Classify estimates with q-values."""
    metrics_differ, judges_differ = (len(set(tested[name])) > 1 for name in ("metric", "judge"))
    over = wording.correction(tested)
    names = _telling_apart(tested)
    found = []
    for row, metric, effect in zip(tested.to_dict("records"), metrics, frame.corrected_effects(tested), strict=True):
        where = wording.cell(row, names[row["judge"], row["probe"], row["metric"]])
        parts = (row["judge"] if judges_differ else "", where, metric.label if metrics_differ else "")
        matters = wanted.get(row["metric"], metric.matters)
        kind, doubt = _decided(row, metric.null, matters, effect)
        value, low, high, mde = (float(row[name]) for name in ("estimate", "ci_low", "ci_high", "mde"))
        numbers = (value, low, high, mde, float(effect), matters)
        standing = None if others is None else _standing(row, kind, others)
        name = ", ".join(map(str, filter(None, parts)))
        found.append(Finding(metric, where, name, kind, doubt, *numbers, over, standing, row))
    return found


def by_metric(found: Iterable[Finding], *names: str) -> dict[tuple[Any, ...], list[Finding]]:
    """Group findings by columns of their rows, by default judge, probe and metric, in their order."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for each in found:
        groups.setdefault(tuple(each.row[name] for name in names or FAMILY), []).append(each)
    return groups


def _sizes(matters: Mapping[str, float], estimates: pd.DataFrame) -> dict[str, float]:
    """Check the smallest distances that matter."""
    if not isinstance(matters, Mapping):
        example = next(iter(estimates["metric"]), "first_position_rate")
        raise InputError("matters", matters, "metric → smallest distance", f"write matters={{{example!r}: {matters}}}")
    for name, least in matters.items():
        if name not in set(estimates["metric"]) or not (isinstance(least, int | float) and 0 < least < math.inf):
            allowed = f"numbers above 0 for metrics among {', '.join(dict.fromkeys(estimates['metric']))}"
            raise InputError("matters", {name: least}, allowed)
    return dict(matters)


def _metric(name: str, probe: str, null: float | None) -> Metric:
    metric = find_metric(name, probe)
    return metric if metric.null is not None else replace(metric, null=null)


def _telling_apart(estimates: pd.DataFrame) -> dict[Any, list[str]]:
    """Return the columns that distinguish the rows of one judge and metric, always including `_ALWAYS`."""
    names: dict[Any, list[str]] = {}
    for key, part in estimates.groupby(["judge", "probe", "metric"], sort=False):
        columns = wording.conditions(part)
        always = [name for name in _ALWAYS if name in columns]
        names[key] = always + wording.varying(part, [name for name in columns if name not in always])
    return names


def _standing(row: Mapping[Any, Any], kind: Kind, others: pd.DataFrame) -> Standing | None:
    """Compare an estimate with those of other judges; if it shows no bias, give their range."""
    peers = None if kind == "untested" else find_peers(row, others)
    if peers is None:
        return None
    return peers.standing(row, kind == "above") if kind in ("above", "below") else peers.spread


Kind = Literal["above", "below", "none", "open", "untested"]
#: Why a finding is inconclusive: the test is significant but the interval contains the null, or the reverse; there is
#: no interval; the interval contains shifts that matter; no context has an effect, but there are too few contexts; too
#: few contexts for the number of tests; the result depends on missing judgements, on human scores' reliability, on the
#: judge's, or on a narrow peak of scores.
Doubt = Literal[
    "", "contains", "leaves out", "unknown", "wide", "few", "powerless", "missing", "reliability", "noise", "peak"
]
#: Share of contexts that may have an unseen effect, for a metric without bounds that does not vary.
RARE = 0.1


@dataclass(frozen=True, eq=False)
class Finding:
    """What one estimate shows, after correction for the other tests; its words are written from it.

    Attributes
    ----------
    metric : Metric
        The metric, with the null against which it was tested.
    where : str
        The attribute and the conditions that vary.
    name : str
        What distinguishes the estimate from the others.
    kind : {"above", "below", "none", "open", "untested"}
        On which side of the null the estimate lies; no bias that matters; inconclusive; without a test.
    doubt : str
        Why it is inconclusive, see `Doubt`; empty otherwise.
    estimate, low, high : float
        The estimate and its interval.
    mde, detectable : float
        Smallest effect detected with 80 % power, by the single test and after correction.
    matters : float or None
        Smallest distance from the null that matters.
    over : str
        Number of tests that were corrected for, in words.
    standing : Standing or None
        Comparison with the reference judges.
    row : mapping
        The row of the estimates frame, with ``q_value``.
    """

    metric: Metric
    where: str
    name: str
    kind: Kind
    doubt: Doubt
    estimate: float
    low: float
    high: float
    mde: float
    detectable: float
    matters: float | None
    over: str
    standing: Standing | None
    row: Mapping[Any, Any]

    @property
    def is_bias(self) -> bool:
        """Whether the estimate lies above or below the null."""
        return self.kind in ("above", "below")

    @property
    def null(self) -> float:
        """Fair value; NaN if there is none."""
        return math.nan if self.metric.null is None else self.metric.null

    @property
    def note(self) -> str:
        """The notes of the estimate in words."""
        note = self.row.get("note")
        return note if isinstance(note, str) else ""

    @property
    def slight(self) -> bool:
        """Whether there is a bias, but no plausible interval contains a shift that matters."""
        null, size = self.metric.null, self.matters
        if not self.is_bias or null is None or size is None:
            return False
        return first_doubt(self.row, null - size, null + size) is None

    @property
    def hedge(self) -> str:
        """What else could explain a verdict: the notes of the estimate."""
        return self.note if self.metric.null is not None and (self.is_bias or self.kind == "none") else ""

    @property
    def clauses(self) -> list[str]:
        """The verdict in words, clause by clause."""
        if self.doubt:
            return [self._why_open()]
        if self.kind == "untested":
            return [f"not tested ({'no test' if self.metric.null is None else self.note or 'no test'})"]
        if self.kind == "none":
            return self._excluded()
        words = side_words(self.metric, self.kind)
        if self.matters is None or not self.slight:
            return [words]
        return [f"{words}, but {self._no_effect} of ≥ {wording.size(self.matters)}"]

    @property
    def words(self) -> str:
        """The verdict in words."""
        return "; ".join(self.clauses)

    @property
    def sentence(self) -> str:
        """The verdict with the numbers, and with what distinguishes the estimate."""
        verdict = f"inconclusive: {self.words}" if self.doubt else self.words
        whole = "; ".join(filter(None, (verdict, self.standing.words if self.standing else "", self.hedge)))
        return f"{self.name}: {self._evidence}{whole}".removeprefix(": ")

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of `findings`."""
        return {
            "detectable": self.detectable,
            "finding": self.kind,
            "doubt": self.doubt,
            "slight": self.slight,
            "hedge": self.hedge,
            "null": self.null,
            "matters": math.nan if self.matters is None else self.matters,
            "cell": self.where,
            "standing": self.standing.words if self.standing else "",
            "words": self.words,
            "sentence": self.sentence,
        }

    @property
    def _evidence(self) -> str:
        """Estimate, interval and test in words; a single test, which needs no correction, as p."""
        if math.isnan(self.estimate):
            return ""
        value, bounds = wording.evidence(self.row, self.metric.null)
        q = wording.probability(self.row["q_value"])
        sign = "" if q.startswith("<") else "= "
        test = f"p {sign}{q}" if self.over == wording.ONE_TEST else f"q {sign}{q} over {self.over}"
        return f"{value} {bounds}{'' if np.isnan(self.row['q_value']) else f', {test}'}: "

    @property
    def _no_effect(self) -> str:
        return f"no distance from {wording.fair(self.metric.null)}" if self.metric.quality else "no bias"

    @property
    def _contexts(self) -> str:
        return f"{self.row['n_contexts']:,.0f} contexts"

    def _excluded(self) -> list[str]:
        """Say which effects are excluded."""
        if "by_construction" in notes_of(self.row):
            return [f"{self._no_effect}, by construction"]
        if _is_never(self.row, self.matters):
            few = f"at most {percent(_share_unseen(self.row), 2)} of all contexts can have one"
            return [f"no effect in any of {self._contexts}: {few}"]
        if self.matters is None:
            can = f"can detect {detectable(self.mde, self.detectable, self.over)} (80 % power)"
            return ["no effect detected", can]
        return [f"{self._no_effect} of ≥ {wording.size(self.matters)}"]

    def _why_open(self) -> str:
        """Say why an estimate is inconclusive."""
        null, size = self.metric.null, self.matters
        if self.doubt == "contains":
            has_interval = not np.isnan([self.low, self.high]).any()
            why = f"the interval contains {wording.fair(null)}" if has_interval else "there is no interval"
            return f"significant, but {why}"
        if self.doubt == "leaves out":
            lost = f"is not significant after correction for {self.over}"
            why = lost if significant(self.row["p_value"]) else "does not reject"
            return f"the interval excludes {wording.fair(null)}, but the test {why}"
        if self.doubt == "few":
            unseen = percent(_share_unseen(self.row), 2)
            return f"no effect in any of {self._contexts}, but up to {unseen} of all contexts could have one"
        if self.doubt == "missing":
            return self._why_missing()
        if self.doubt in _NOTED:
            notes, (unknown, words) = notes_of(self.row), _NOTED[self.doubt]
            note = next(notes[code] for code in words if code in notes)
            return f"{replace(note, words=words[note.code] or note.words)}{unknown}"
        if self.doubt == "powerless":
            return f"{self._contexts} cannot show an effect of any size among {self.over}"
        if self.doubt == "unknown" or null is None or size is None:
            return self.note or "no interval"
        reach = max(null - self.low, self.high - null)
        if self.metric.unit == "logits" and reach > _ANY_SIZE:
            return f"{self._contexts} do not bound the size: {_NARROWER}"
        possible = f"a shift of up to {wording.size(reach, size)} is possible; ≥ {wording.size(size, reach)} matters"
        notes = notes_of(self.row)
        rate_again = ["a second rating of each item narrows it"] if "single_ratings" in notes else []
        weigh = [f'{notes["uneven_contexts"]}: see weights="contexts"'] if "uneven_contexts" in notes else []
        return "; ".join([possible, *rate_again, *weigh])

    def _why_missing(self) -> str:
        dropped, low, high = (float(self.row.get(name, math.nan)) for name in ("n_dropped", "bound_low", "bound_high"))
        depends = f"depends on {count(int(dropped), 'missing judgement') if dropped > 0 else 'missing judgements'}"
        if np.isnan([low, high]).any():
            return f"{depends}, whose effect is unbounded"
        words = f"{depends}: with them, the interval could lie anywhere in {interval(low, high)}"
        tipping = notes_of(self.row).get("tipping_point")
        return f"{words}; {tipping}" if tipping else words


def side_words(metric: Metric, side: str) -> str:
    """Return the probe's words for an estimate on one side of the null.

    Examples
    --------
    >>> side_words(Metric("charm", "charm", null=0.5, above="charms"), "above")
    'charms'
    >>> side_words(Metric("charm", "charm", null=0.5, above="charms"), "below")
    'below 0.5'
    """
    return (metric.above if side == "above" else metric.below) or f"{side} {wording.fair(metric.null)}"


def detectable(alone: float, among: float, over: str) -> str:
    """Return the smallest effect detected with 80 % power, by the single test and after correction, in words.

    Examples
    --------
    >>> detectable(0.12, 0.17, "14 tests")
    '≥ 0.12 alone, ≥ 0.17 among 14 tests'
    >>> detectable(0.3, float("nan"), "14 tests")
    '≥ 0.30 alone, nothing among 14 tests'
    """
    if not alone > 0:
        return wording.size(alone)
    if not math.isnan(among) and (not is_above(among, alone) or wording.size(among) == wording.size(alone)):
        return f"≥ {wording.size(alone)}"
    return f"≥ {wording.size(alone)} alone, {f'≥ {wording.size(among)}' if among > 0 else 'nothing'} among {over}"


def _decided(row: Mapping[Any, Any], null: float | None, size: float | None, detectable: float) -> tuple[Kind, Doubt]:
    """Return the kind of finding and, if inconclusive, the reason."""
    if "by_construction" in notes_of(row):
        return "none", ""
    if np.isnan(row["q_value"]) or null is None:
        return "untested", ""
    side = side_of(row, null)
    if significant(row["q_value"]):
        return _significant(row, null, side)
    if side:
        return "open", "leaves out"
    if np.isnan([row["ci_low"], row["ci_high"]]).any():
        return "open", "unknown"
    never = _is_never(row, size)
    if never and _share_unseen(row) >= RARE:
        return "open", "few"
    if size is None:
        if not (never or detectable > 0):
            return "open", "powerless" if row["mde"] > 0 else "unknown"
        value, reach = row["estimate"], detectable if detectable > 0 else 0.0
        intervals = {name: ends for name, ends in plausible_intervals(row).items() if name}
        beyond = [n for n, (low, high) in intervals.items() if max(value - low, high - value) > reach + ROUNDING]
        return ("open", _doubt(beyond[0])) if beyond else ("none", "")
    doubt = first_doubt(row, null - size, null + size)
    if doubt == "":
        return "open", "reliability" if "over_reliabilities" in notes_of(row) or depends_on_reliability(row) else "wide"
    return ("none", "") if doubt is None else ("open", _doubt(doubt))


_DEPENDS = "depends on single human ratings having a reliability above {reliability:.2f}"
#: What a doubt's note leaves unsaid, and the codes of notes that may give its reason, with words if other than theirs.
_NOTED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "reliability": (
        ", which a single rating cannot show",
        {"depends_on_reliability": _DEPENDS, "over_reliabilities": ""},
    ),
    "noise": (", which is not known", {"judge_noise": ""}),
    "peak": ("", {"narrow_peak": ""}),
}


def _doubt(interval: str) -> Doubt:
    """Return the doubt that comes with an interval of `biaslab.stats.missing.plausible_intervals`."""
    return cast("Doubt", interval or "contains")


def _significant(row: Mapping[Any, Any], null: float, side: Literal["above", "below"] | None) -> tuple[Kind, Doubt]:
    """Return the finding for a significant estimate, unless its interval, missing data or human error leave it open."""
    if side is None:
        return "open", "contains"
    doubt = first_doubt(row, low=null) if side == "above" else first_doubt(row, high=null)
    return (side, "") if doubt is None else ("open", _doubt(doubt))


def _is_never(row: Mapping[Any, Any], size: float | None) -> bool:
    """Return whether no context shows an effect and no interval bounds its size."""
    return "no_variation" in notes_of(row) and (size is None or row["ci_low"] == row["ci_high"])


def _share_unseen(row: Mapping[Any, Any]) -> float:
    """Return the largest share of contexts that may have an effect although none was observed."""
    return unseen_share(max(int(row["n_contexts"]), 1), row["ci_level"])


#: Minimum number of comparable judges.
FEWEST = 5
_REFERENCES = "biaslab.references"  # entry points: estimates frames of reference judges, by name
_PEER_COLUMNS = ("probe", "judge", "dataset", "metric", "estimate", "ci_low", "ci_high")
_NAMED = 5  # maximum number of data sets named in a sentence
_NUMBERS = ["estimate", "ci_low", "ci_high"]


@dataclass(frozen=True)
class Standing:
    """Comparison with other judges: how many there are or are exceeded, and the details.

    Examples
    --------
    >>> Standing("more so than 2 of 9 recorded judges", " (verdicts on pairs; chats)").words
    'more so than 2 of 9 recorded judges (verdicts on pairs; chats)'
    """

    brief: str
    details: str

    @property
    def words(self) -> str:
        """Both in one."""
        return f"{self.brief}{self.details}"


@dataclass(frozen=True, eq=False)
class Peers:
    """Judges with comparable estimates of a metric.

    Attributes
    ----------
    judges : pandas.DataFrame
        One row per judge, indexed by name: ``estimate, ci_low, ci_high``, each the median over the cells (data sets,
        prompts, attributes) in which the judge was measured, so that every judge counts once.
    datasets : tuple of str
        The data sets they judged.
    comparison : Comparison
        What makes them comparable.
    """

    judges: pd.DataFrame
    datasets: tuple[str, ...]
    comparison: Comparison

    @property
    def label(self) -> str:
        """Number of judges and what they judged, for a legend."""
        return f"{self._counted} ({self.comparison.of})"

    def standing(self, row: Mapping[Any, Any], above: bool) -> Standing:
        """Count the judges that an estimate exceeds, and how many of their intervals do not overlap its own.

        Parameters
        ----------
        row : mapping
            ``estimate``, ``ci_low`` and ``ci_high`` of this judge.
        above : bool
            Whether "more so" means a higher estimate; otherwise a lower one.

        Examples
        --------
        >>> from biaslab.core import Comparison
        >>> rows = {"estimate": [0.5, 0.6, 0.9], "ci_low": [0.4, 0.5, 0.8], "ci_high": [0.6, 0.7, 1.0]}
        >>> peers = Peers(pd.DataFrame(rows, index=list("abc")), ("chats",), Comparison("verdicts on pairs"))
        >>> peers.standing({"estimate": 0.7, "ci_low": 0.65, "ci_high": 0.75}, above=True).words
        'more so than 2 of 3 recorded judges (verdicts on pairs; chats), 1 of them with a non-overlapping interval'
        """
        value, low, high = (float(row[name]) for name in _NUMBERS)
        if above:
            behind = [is_above(value, one) for one in self.judges["estimate"]]
            apart = [is_above(low, one) for one in self.judges["ci_high"]]
        else:
            behind = [is_above(one, value) for one in self.judges["estimate"]]
            apart = [is_above(one, high) for one in self.judges["ci_low"]]
        clearly = sum(both for both in map(all, zip(behind, apart, strict=True)))
        apart_words = f", {clearly} of them with a non-overlapping interval" if any(behind) else ""
        return Standing(f"more so than {sum(behind)} of {self._counted}", f" {self._judged}{apart_words}")

    @property
    def spread(self) -> Standing:
        """Range and median of the judges' estimates, to accompany an estimate that shows no bias."""
        values = self.judges["estimate"]
        reach = f": {values.min():.2f} to {values.max():.2f}, median {values.median():.2f}"
        return Standing(self._counted, f" {self._judged}{reach}")

    @property
    def _counted(self) -> str:
        return count(len(self.judges), "recorded judge")

    @property
    def _judged(self) -> str:
        more = len(self.datasets) - _NAMED
        named = [*self.datasets[:_NAMED], *([f"{more} more"] if more > 0 else [])]
        return f"({self.comparison.of}; {', '.join(named)})"


def judges_of(reference: str | pd.DataFrame) -> pd.DataFrame:
    """Return the estimates of the reference judges.

    Parameters
    ----------
    reference : {"atlas"} or pandas.DataFrame
        The recorded judges of `biaslab.atlas`, or your own estimates frame.

    Raises
    ------
    InputError
        If the name is unknown.
    TrialsError
        If a column is missing.
    """
    estimates = _named(reference) if isinstance(reference, str) else reference
    require_columns(estimates, _PEER_COLUMNS, "reference")
    rows = without_breakdowns(estimates)
    return rows[rows["estimate"].notna()]


def _named(reference: str) -> pd.DataFrame:
    """Return the estimates registered under a name by the entry points."""
    entries = {entry.name: entry for entry in entry_points(group=_REFERENCES)}
    if reference not in entries:
        raise InputError("reference", reference, f"{' or '.join(map(repr, entries))}, or an estimates frame")
    estimates: pd.DataFrame = entries[reference].load()()
    return estimates


def find_peers(row: Mapping[Any, Any], reference: pd.DataFrame) -> Peers | None:
    """Return the judges comparable with an estimate, or None if there are fewer than five.

    Parameters
    ----------
    row : mapping
        A row of an estimates frame.
    reference : pandas.DataFrame
        From `judges_of`. The row's own judge is excluded.

    Returns
    -------
    Peers or None

    Examples
    --------
    >>> row = {"probe": "position", "metric": "first_position_rate", "dataset": "chats", "ci_low": 0.4, "ci_high": 0.6}
    >>> reference = pd.DataFrame([row | {"judge": f"judge {i}", "estimate": 0.5} for i in range(5)])
    >>> peers = find_peers(row | {"judge": "mine", "estimate": 0.7}, reference)
    >>> peers.label
    '5 recorded judges (verdicts on pairs)'
    >>> find_peers(row | {"judge": "judge 0", "estimate": 0.7}, reference) is None
    True
    """
    comparison = find_metric(row["metric"], row.get("probe")).comparison
    if comparison is None:
        return None
    same = (reference["metric"] == row["metric"]) & (reference["judge"] != row["judge"])
    same &= reference["probe"] == row.get("probe", "")
    for name in comparison.alike:
        if name not in reference or name not in row:
            return None
        same &= reference[name].astype(str) == str(row[name])
    rows = reference[same]
    judges = rows.groupby("judge", sort=True)[_NUMBERS].median()
    if len(judges) < FEWEST:
        return None
    return Peers(judges, tuple(sorted(map(str, set(rows["dataset"])))), comparison)
