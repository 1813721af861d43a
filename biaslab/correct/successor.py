"""A new judge for an old one: what changes, whether it matters, and a bridge for old scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import fits
from biaslab.core.errors import BiaslabError, InputError, TrialsError
from biaslab.core.metrics import find_metric
from biaslab.core.output import PrintedText, count, number, with_interval
from biaslab.correct.comparison import compare
from biaslab.correct.labels import HumanLabels, pair_items, score_items
from biaslab.logs.audit.run import prepared
from biaslab.probes import available, find_probe
from biaslab.probes.base.feature_probe import bounded_scale
from biaslab.probes.base.probe import Probe
from biaslab.stats.blocks import has_value, sum_by_context
from biaslab.stats.estimate import Estimate, because, undefined, without_interval
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import require_fixed
from biaslab.stats.t_inference import estimate_by_t

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

Equivalence = Literal["equivalent", "different", "cannot tell"]
NAME = "replace"
#: Smallest differences that matter: of shares, and of scores as shares of the scale.
MATTERS = 0.05
_CONDITIONS = ("attribute", "system", "old_judge", "margin", "equivalence")
_KEYS = ["attribute", "context_id", "candidate_id", "opponent_id"]
_DIGITS = 2


@dataclass(frozen=True)
class Bridge:
    """A straight line from scores of the old judge to those of the new one, fitted on items that both judged.

    Attributes
    ----------
    intercept, slope : float
        New score = intercept + slope × old score, on average.
    error : float
        Standard deviation of single new scores about the line.
    items : int
        Number of items that both judged.

    Examples
    --------
    >>> Bridge(0.5, 0.9, 0.3, 100).translate(np.array([4.0])).round(1).tolist()
    [[4.1, 3.5, 4.7]]
    """

    intercept: float
    slope: float
    error: float
    items: int

    @classmethod
    def fit(cls, old: Floats, new: Floats) -> Bridge:
        """Fit the line; without variation of old scores its slope is NaN."""
        spread = float(np.var(old))
        slope = float(np.cov(old, new, bias=True)[0, 1]) / spread if spread > 0 else math.nan
        intercept = float(new.mean() - slope * old.mean())
        left = new - intercept - slope * old
        return cls(intercept, slope, math.sqrt(float(left @ left) / max(len(old) - 2, 1)), len(old))

    def translate(self, scores: Floats) -> Floats:
        """Return the expected new score of each old one, and the ends of 95 % of single ones; shape (scores, 3)."""
        value = self.intercept + self.slope * np.asarray(scores, float)
        return np.column_stack([value, value - 1.96 * self.error, value + 1.96 * self.error])


@dataclass(frozen=True, eq=False)
class Succession(PrintedText):
    """What changes with a new judge; prints as sentences.

    Attributes
    ----------
    estimates : pandas.DataFrame
        An estimates frame: see `replace_judge`.
    bridges : dict of str to Bridge
        By attribute, for scores.
    """

    estimates: pd.DataFrame
    bridges: dict[str, Bridge]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def to_html(self) -> str:
        """Return the sentences as HTML."""
        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in self._lines())}</ul>"

    _repr_html_ = to_html

    def _lines(self) -> Iterator[str]:
        rows = self.estimates.to_dict("records")
        for row in rows:
            if row["estimate"] == row["estimate"]:
                where = ", ".join(str(row[name]) for name in ("attribute", "system") if isinstance(row[name], str))
                margin = f" (± {row['margin']:.3g} matters)" if row["margin"] == row["margin"] else ""
                outcome = f": {row['equivalence']}{margin}" if isinstance(row["equivalence"], str) else ""
                label = find_metric(row["metric"], row["probe"]).label
                yield f"{label} ({where}): {with_interval(row, _DIGITS)}{outcome}"
        for attribute, bridge in self.bridges.items():
            line = f"new score = {number(bridge.intercept)} + {number(bridge.slope)} × old score"
            yield f"bridge ({attribute}): {line}, ± {number(1.96 * bridge.error)} ({count(bridge.items, 'item')})"
        outcomes = [row["equivalence"] for row in rows if isinstance(row["equivalence"], str)]
        same = outcomes.count("equivalent")
        yield f"equivalent in {same} of {len(outcomes)}, different in {outcomes.count('different')}"


def replace_judge(
    old: pd.DataFrame,
    new: pd.DataFrame,
    labels: Dataset | pd.DataFrame | str | Path | HumanLabels | None = None,
    *,
    matters: Mapping[str, float] | None = None,
    biases: bool = True,
    resampling: Resampling | None = None,
) -> Succession:
    """Compare a new judge with an old one on what both judged, and separate its part in a change of numbers.

    Parameters
    ----------
    old, new : pandas.DataFrame
        Trials of one judge each. What both judged are anchor items; each may also have judged others, such as the
        outputs of earlier and of later systems.
    labels : optional
        People's labels, as in `biaslab.correct`; by default those that the new trials hold, if any.
    matters : mapping of str to float, optional
        Smallest difference that matters, by metric; by default that of the bias, .05 for shares, and .05 of the width
        of the scale for scores.
    biases : bool
        Whether to compare the primary metrics of the probes that can read both.
    resampling : Resampling, optional
        Confidence level of the intervals.

    Returns
    -------
    Succession
        Estimates with the columns ``margin`` and ``equivalence``: *equivalent* if the interval lies within ± margin
        (two one-sided tests at 2.5 %; Schuirmann 1987), *different* if it lies outside, else *cannot tell*, whatever
        the verdicts that one of them lacks, for which ``bound_low`` and ``bound_high`` allow. Metrics:
        ``headline_change``, the new mean of the new items minus the old mean of the old ones; ``judge_part``, the new
        judge minus the old on anchor items; ``systems_part``, the rest; ``system_shift``, the judge's part for one
        system minus that for all (all equivalent: the ranking stays); ``agreement_gain``, closeness to people of the
        new minus that of the old; and ``<metric>_difference`` of each bias.

    Raises
    ------
    InputError
        If a frame has several judges, or a difference that matters is not above 0.
    TrialsError
        If no item was judged by both, or a judge gave no verdict that could be read.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"context_id": [f"c{n}" for n in range(60)], "candidate_id": "x", "scale": "1-5"})
    >>> frame = frame.assign(dataset="d", attribute="a", status="ok", value=rng.uniform(1, 5, 60))
    >>> new = frame.assign(judge="new", value=frame["value"] + 0.5 + rng.normal(0, 0.1, 60))
    >>> found = replace_judge(frame.assign(judge="old"), new, biases=False).estimates.set_index("metric")
    >>> round(float(found.loc["judge_part", "estimate"]), 1), found.loc["judge_part", "equivalence"]
    (0.5, 'different')
    """
    for frame in (old, new):
        require_fixed(frame, "a replaced judge")
    how = resampling or Resampling()
    sides = [_Side.of(frame, name) for frame, name in ((old, "old"), (new, "new"))]
    rows: list[dict[str, Any]] = []
    bridges: dict[str, Bridge] = {}
    given = matters or {}
    if not all(fits(size, float) and 0 < size < math.inf for size in given.values()):
        raise InputError("matters", dict(given), "numbers above 0, by metric")
    for attribute in dict.fromkeys(sides[0].items["attribute"]):
        one, two = (each.items[each.items["attribute"] == attribute] for each in sides)
        both = two.merge(one, on=_KEYS, suffixes=("", "_old"))
        if both.empty:
            continue
        pairs, width = sides[1].pairs, _width(sides, one, two)
        cell = {"judge": sides[1].judge, "old_judge": sides[0].judge, "dataset": sides[1].dataset}
        parts = _Parts(one, two, both, how, width)
        lost = sum(len(mine.unread.merge(its, on=_KEYS)) for mine, its in ((sides[0], two), (sides[1], one)))
        for metric, system, estimate, n in parts.estimates(_people(labels, new, both, pairs)):
            tested = metric not in ("headline_change", "systems_part")
            reach = 1.0 if metric == "agreement_gain" else width
            margin = given.get(metric, MATTERS * reach)
            estimate = _bounded(estimate, lost / (lost + n), reach) if tested else estimate
            where = {**cell, "attribute": attribute, "system": system or math.nan}
            where |= {"margin": margin, "equivalence": _outcome(estimate, margin)} if tested else {"margin": math.nan}
            rows += estimate_rows({metric: estimate}, where, how, n, lost)
        if not pairs:
            bridges[str(attribute)] = Bridge.fit(both["value_old"].to_numpy(float), both["value"].to_numpy(float))
    if not rows:
        raise TrialsError.plain("no item was judged by both; judge a random part again with the new judge")
    frame = estimates_frame(rows, NAME, (), _CONDITIONS)
    if biases and sides[0].judge == sides[1].judge:
        old = old.assign(judge=f"{sides[0].judge} (old)")
    differing = list(_biases(old, new, given)) if biases else []
    whole = pd.concat([frame, *differing], ignore_index=True)
    if strangers := set(given) - (known := set(whole["metric"][whole["margin"].notna()])):
        raise InputError("matters", sorted(strangers), f"metrics of these judges: {', '.join(sorted(known))}")
    return Succession(whole, bridges)


@dataclass(frozen=True)
class _Side:
    """The items of one judge: ``value``, the mean over replicates and both orders; and those without a verdict."""

    judge: str
    dataset: str
    items: pd.DataFrame
    unread: pd.DataFrame
    pairs: bool
    scales: tuple[str, ...]

    @classmethod
    def of(cls, trials: pd.DataFrame, name: str) -> _Side:
        require_columns(trials, ("judge", "dataset", "attribute", "context_id", "candidate_id", "value"), name)
        if len(judges := trials["judge"].unique()) != 1:
            raise InputError(name, list(judges), "trials of one judge", "select those of one")
        known = has_value(trials) if "status" in trials else trials["value"].notna()
        read = trials[known]
        pairs = "opponent_id" in read and bool(read["opponent_id"].notna().all())
        if read.empty:
            raise TrialsError.plain(f"{name} has no verdict that could be read")
        items, unread = _items(read, pairs), _items(trials[~known].assign(value=0.0), pairs)
        again = pd.MultiIndex.from_frame(unread[_KEYS]).isin(pd.MultiIndex.from_frame(items[_KEYS]))
        scales = tuple(map(str, read["scale"].dropna().unique())) if "scale" in read else ()
        return cls(str(judges[0]), str(trials["dataset"].iloc[0]), items, unread.loc[~again, _KEYS], pairs, scales)


def _items(trials: pd.DataFrame, pairs: bool) -> pd.DataFrame:
    """Return one row per item and attribute, with its mean value."""
    groups = trials.groupby("attribute", sort=False)
    parts = [(pair_items(own) if pairs else score_items(own)).assign(attribute=str(name)) for name, own in groups]
    items = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=_KEYS)
    return items if pairs else items.assign(opponent_id="")


def _bounded(estimate: Estimate, missing: float, reach: float) -> Estimate:
    """Return an estimate with bounds for a share of differences that are missing, each of which may be ± reach."""
    if not missing:
        return estimate
    low, high = (
        (1 - missing) * end + missing * side for end, side in ((estimate.ci_low, -reach), (estimate.ci_high, reach))
    )
    return replace(estimate, bound_low=low, bound_high=high)


def _width(sides: list[_Side], one: pd.DataFrame, two: pd.DataFrame) -> float:
    """Return the width of the scale in points: that of pairs is 1."""
    if sides[0].pairs != sides[1].pairs or set(sides[0].scales) != set(sides[1].scales):
        raise TrialsError.plain("old and new judge answer on different scales; ask the new judge on the old one")
    scale = bounded_scale(sides[0].scales[0]) if len(sides[0].scales) == 1 else None
    if sides[0].pairs or scale is not None:
        return 1.0 if scale is None else scale.high - scale.low
    return float(np.ptp(np.concatenate([one["value"], two["value"]]))) or 1.0


@dataclass(frozen=True)
class _Parts:
    """Items of the old judge, of the new one, and of both."""

    old: pd.DataFrame
    new: pd.DataFrame
    both: pd.DataFrame
    how: Resampling
    width: float

    def estimates(self, people: Floats | None) -> Iterator[tuple[str, str, Estimate, int]]:
        """Yield metric, system, estimate and number of items."""
        shift = (self.both["value"] - self.both["value_old"]).to_numpy(float)
        means = [self._mean(self.new, self.new["value"]), self._mean(self.old, self.old["value"])]
        anchor = self._mean(self.both, shift)
        n = len(self.both)
        yield "headline_change", "", self._combined((means[0], 1), (means[1], -1)), len(self.new)
        yield "judge_part", "", self._combined((anchor, 1)), n
        yield "systems_part", "", self._combined((means[0], 1), (means[1], -1), (anchor, -1)), n
        systems = self.both["system"] if "system" in self.both else self.both["candidate_id"]
        often = systems.value_counts()
        for system in often.index[often > 1] if len(often) > 1 and (self.both["opponent_id"] == "").all() else ():
            own = self.both[systems == system]
            part = self._mean(own, shift[systems == system])
            yield "system_shift", str(system), self._combined((part, 1), (anchor, -1)), len(own)
        if people is not None:
            known = ~np.isnan(people)
            closer = [np.abs(self.both[name].to_numpy(float) - people)[known] for name in ("value_old", "value")]
            gain = self._mean(self.both[known], (closer[0] - closer[1]) / self.width)
            yield "agreement_gain", "", self._combined((gain, 1)), int(known.sum())

    def _mean(self, items: pd.DataFrame, values: Any) -> pd.Series:
        """Return each context's contribution to the error of a mean, and the mean under the name ""."""
        context = self.how.cluster_of(items["context_id"])
        sums, names = sum_by_context(context, np.asarray(values, float), np.ones(len(items)))
        if not len(sums):
            return pd.Series({"": math.nan})
        mean = sums[:, 0].sum() / sums[:, 1].sum()
        errors = (sums[:, 0] - mean * sums[:, 1]) / sums[:, 1].sum() * math.sqrt(len(sums) / max(len(sums) - 1, 1))
        return pd.concat([pd.Series(errors, names.astype(str)), pd.Series({"": mean})])

    def _combined(self, *parts: tuple[pd.Series, int]) -> Estimate:
        total = pd.concat([part * sign for part, sign in parts], axis=1).fillna(0.0).sum(axis=1)
        contexts = min(len(part) for part, _ in parts) - 1
        if contexts < 2:
            return undefined(because("few_common_contexts", "fewer than two contexts with these items"), contexts)
        error = float(np.linalg.norm(total.drop("")))
        if not error > 0:
            value = float(total[""])
            if 0.5**contexts > (1 - self.how.level) / 2:  # equal by chance, if each is as often above as below
                return without_interval(value, contexts)
            return Estimate(value, 0.0, value, value, math.nan, math.nan, contexts, "no variation between contexts")
        return estimate_by_t(float(total[""]), error, contexts, self.how.level, "t over contexts")


def _people(labels: Any, new: pd.DataFrame, both: pd.DataFrame, pairs: bool) -> Floats | None:
    """Return people's mean label of each anchor item; None if there is none."""
    if labels is None and not {"human", "human_gap"} & set(new.columns):
        return None
    known = HumanLabels.read(labels, new)
    values = known.of_items(both, str(both["attribute"].iloc[0]), pairs)
    return None if np.isnan(values).all() else values


def _biases(old: pd.DataFrame, new: pd.DataFrame, given: Mapping[str, float]) -> Iterator[pd.DataFrame]:
    """Yield the differences of primary metrics of each probe that reads both."""
    recorded = "probe" not in new or (new["probe"] == "recorded").any()
    sides = [prepared(side) for side in (old, new)] if recorded else [old, new]
    kinds = available().values() if recorded else map(find_probe, dict.fromkeys(map(str, new["probe"])))
    for probe in (kind() for kind in kinds):
        try:
            if recorded and not all(_has_estimate(probe, side) for side in sides):
                continue
            found = compare(sides, probe=probe, progress=False)
        except BiaslabError:  # no common cell, or nothing estimated
            continue
        rows = found[(found["role"] == "difference") & found["estimate"].notna()]
        records = rows.to_dict("records")
        sizes = (given.get(row["metric"], find_metric(row["metric"], row["probe"]).matters) for row in records)
        margins = [math.nan if size is None else size for size in sizes]
        outcomes = [_outcome(row, margin) for row, margin in zip(records, margins, strict=True)]
        yield rows.assign(margin=np.array(margins, float), equivalence=outcomes).drop(columns=["role", "compared"])


def _has_estimate(probe: Probe, trials: pd.DataFrame) -> bool:
    """Return whether a probe can estimate one of its primary metrics from recorded trials."""
    accepted = probe.accepts(trials)
    if accepted.trials.empty:
        return False
    found = (accepted.probe or probe).estimate(accepted.trials, list(probe.primary))
    return bool(found["estimate"].notna().any())


def _outcome(estimate: Estimate | Mapping[Any, Any], margin: float) -> Equivalence:
    """Return whether the interval of a difference lies within ± margin, outside, or neither."""
    row = estimate.row() if isinstance(estimate, Estimate) else estimate
    low, high = float(np.fmin(row["ci_low"], row["bound_low"])), float(np.fmax(row["ci_high"], row["bound_high"]))
    if max(-low, high) < margin:
        return "equivalent"
    return "different" if low > margin or high < -margin else "cannot tell"
