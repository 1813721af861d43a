"""Position bias from pairs that were each judged in one random order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.core import Comparison, Metric
from biaslab.logs.audit.measure import CellMeasure
from biaslab.measures.ranking import pairs
from biaslab.probes.base import Accepted, Part, paired
from biaslab.stats import Estimate, logistic_model, undefined, usable

_FEWEST = 10  # minimum judgements for a candidate to count as a system; single texts occur once or twice
_UNBALANCED = 0.01  # significance level of the balance test; unbalanced covariates enter the model
_ALIKE = 1e-9  # relative difference that may be due to rounding
_SHOWN_FIRST = "position"
_FIXED = "undefined: {} is always shown first, so its quality cannot be separated from its position"


@dataclass(frozen=True)
class OneOrder(CellMeasure):
    """Measure position bias from pairs judged in one order only.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template, from decisions (ties excluded):

    ``first_position_log_odds`` (primary; log odds, null 0)
        Log odds that the candidate shown first wins at equal quality: the intercept of a logistic regression that
        includes the strengths of the candidates if these are systems (Bradley and Terry 1952, with an order term as in
        Davidson and Beaver 1977). Clustered by context. ``first_position_rate`` of
        `biaslab.logs.audit.replies.Replies` is the raw share of decisions for the first.

    **Assumption.** Given their systems, the order of two candidates does not depend on their quality. This holds if the
    order was random. ``method`` reports whether lengths and human preferences are balanced over both positions; those
    unbalanced at the .01 level enter the regression. Judging each pair in both orders needs no such assumption and is
    the better design, because each pair is its own control.

    References
    ----------
    Bradley & Terry 1952, Biometrika 39; Davidson & Beaver 1977, *On extending the Bradley-Terry model to incorporate
    within-pair order effects*, Biometrics 33.
    """

    name: ClassVar[str] = "one_order"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "first_position_log_odds",
            "log odds of the first at equal quality, one order per pair",
            "log odds",
            null=0.0,
            above="prefers the candidate shown first",
            below="prefers the candidate shown second",
            advice="ask every pair in both orders and average",
            use="pairs shown in one order only",
            matters=0.2,
            primary=True,
            comparison=Comparison("verdicts on pairs in one order"),
        ),
    )
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select pairs with known order from cells in which no pair was judged in both orders."""
        judged = paired(trials)
        if judged.empty:
            return Accepted(judged, "needs judgements of two candidates shown one after the other")
        shown = judged[judged["order_known"].astype(bool)]
        if shown.empty:
            return Accepted(shown, "needs to know which candidate was shown first; the log does not say")
        cell = [shown[name] for name in self.cell]
        both = pairs.in_both_orders(shown, cell).groupby(cell).transform("any")
        why = "pairs were judged in both orders; the probe position uses them better" if both.all() else ""
        note = "assumes a random order; judging both orders needs no assumption and has more power"
        return Accepted(shown[~both], why or note)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell."""
        readable = usable(trials)
        won = pd.Series(pairs.decisions(readable), readable.index)
        decided = readable[won.notna()].assign(won=won[won.notna()])
        metrics = {"first_position_log_odds": first_position_log_odds(decided, self)}
        yield Part(metrics, (len(decided), len(trials) - len(readable)))


def first_position_log_odds(decided: pd.DataFrame, measure: OneOrder) -> Estimate:
    """Estimate the log odds of choosing the candidate shown first at equal quality.

    Parameters
    ----------
    decided : pandas.DataFrame
        One row per decision, with ``won`` 1 if the first won and 0 otherwise.
    measure : OneOrder
        Its ``resampling`` sets the confidence level and the clusters.
    """
    contexts = decided["context_id"].nunique()
    if decided.empty:
        return undefined("undefined: no pair was decided")
    systems = _systems(decided)
    fixed = _always_first(decided) if len(systems) == 2 else None
    if fixed is not None:
        return undefined(_FIXED.format(fixed), contexts)
    frame, adjustments = decided.assign(**{_SHOWN_FIRST: 1.0}), []
    terms = [_SHOWN_FIRST]
    if systems:
        adjustments.append(f"strengths of {len(systems)} systems")
        for number, system in enumerate(systems[1:]):
            name = f"system {number}"
            signs = (frame["candidate_id"] == system).astype(float) - (frame["opponent_id"] == system).astype(float)
            frame, terms = frame.assign(**{name: signs}), [*terms, name]
    checks = []
    for name, description, values in _covariates(decided):
        spread = values.std()
        if not spread > _ALIKE * values.abs().max():
            checks.append(f"{description} differ in the same way in every pair, which cannot be separated from order")
            continue
        p_value = _balance(values / spread, decided["context_id"])
        unbalanced = p_value < _UNBALANCED
        checks.append(f"{description} {'not balanced, in the model' if unbalanced else 'balanced'} (p {p_value:.2g})")
        if unbalanced:
            frame, terms = frame.assign(**{name: values / spread}), [*terms, name]
    estimate = logistic_model(frame, "won", terms, measure.resampling)[_SHOWN_FIRST]
    adjusted = f" adjusted for {', '.join(adjustments)}" if adjustments else ""
    checked = f"; assumes random order: {', '.join(checks) or 'the log has nothing to check this with'}"
    return replace(estimate, method=f"{estimate.method}{adjusted}{checked}")


def _systems(decided: pd.DataFrame) -> list[str]:
    """Return the systems if candidates are systems, each judged often; an empty list if they are single texts."""
    counts = pd.concat([decided["candidate_id"], decided["opponent_id"]]).value_counts()
    return sorted(map(str, counts.index)) if len(counts) > 1 and counts.min() >= _FEWEST else []


def _always_first(decided: pd.DataFrame) -> str | None:
    """Return the candidate that is shown first in every pair, or None."""
    first = decided["candidate_id"].unique()
    return str(first[0]) if len(first) == 1 else None


def _covariates(decided: pd.DataFrame) -> Iterator[tuple[str, str, pd.Series]]:
    """Yield name, description and difference (first minus second) of covariates known for all pairs and not all 0."""
    if (decided[["words", "opponent_words"]] > 0).all(axis=None):
        ratios = pd.Series(np.log(decided["words"] / decided["opponent_words"]), decided.index)
        if ratios.any():
            yield "length", "lengths", ratios
    if decided["human_gap"].notna().all() and decided["human_gap"].any():
        yield "human", "people's preferences", decided["human_gap"]


def _balance(values: pd.Series, contexts: pd.Series) -> float:
    """Return the p-value of a t-test, over contexts, that the mean difference in a covariate (in SD) is 0."""
    means = values.groupby(contexts.to_numpy()).mean()
    if len(means) < 2:
        return 1.0
    if means.std() <= _ALIKE:
        return float(abs(means.mean()) <= _ALIKE)
    return float(stats.ttest_1samp(means, 0.0).pvalue)
