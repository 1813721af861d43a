"""Position bias of pairs that were judged in one random order each."""

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

_FEWEST = 10  # judgements a system must have to be one; texts of which each stands once or twice are none
_UNBALANCED = 0.01  # level of the test of balance; below it the covariate enters the model
_SHOWN_FIRST = "position"
_FIXED = "undefined: {} is always shown first where it is judged, so its quality and its place cannot be told apart"


@dataclass(frozen=True)
class OneOrder(CellMeasure):
    """Measure position bias where every pair was judged in one order.

    Notes
    -----
    Estimates, one a judge × data set × attribute × template, of decisions (ties aside):

    ``first_position_log_odds`` (primary; log odds, null 0)
        The log odds that the first of two equally good candidates wins: the intercept of a logistic regression, beside
        the strengths of the systems (Bradley and Terry 1952, with a term for the order as in Davidson and Beaver 1977)
        where candidates are systems. Contexts are clusters. The share of decisions for the first, whatever stood
        first, is ``first_position_rate`` of `biaslab.logs.audit.replies.Replies`.

    **Assumption.** Which of two candidates of a pair stood first does not depend on their quality, beyond that of their
    systems. It holds where the order was random; ``method`` says whether lengths, and people's preferences, are
    balanced over both places. One that is not, at the level .01, enters the regression. Both orders of each pair need
    no such assumption and are the better design: a pair then is its own control.

    References
    ----------
    Bradley & Terry 1952, Biometrika 39; Davidson & Beaver 1977, *On extending the Bradley-Terry model to incorporate
    within-pair order effects*, Biometrics 33.
    """

    name: ClassVar[str] = "one_order"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "first_position_log_odds",
            "log odds of the first at equal quality, one order a pair",
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
        """Take pairs of cells in which no pair was judged in both orders and the order is known."""
        judged = paired(trials)
        if judged.empty:
            return Accepted(judged, "needs judgements of two candidates shown one after the other")
        shown = judged[judged["order_known"].astype(bool)]
        if shown.empty:
            return Accepted(shown, "needs to know which candidate was shown first, which the log does not say")
        cell = [shown[name] for name in self.cell]
        both = pairs.in_both_orders(shown, cell).groupby(cell).transform("any")
        why = "pairs were judged in both orders: position says more" if both.all() else ""
        note = "takes the order as random; both orders of every pair need no assumption and find more"
        return Accepted(shown[~both], why or note)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell."""
        found = usable(trials)
        won = pd.Series(pairs.decisions(found), found.index)
        decided = found[won.notna()].assign(won=won[won.notna()])
        metrics = {"first_position_log_odds": first_position_log_odds(decided, self)}
        yield Part(metrics, (len(decided), len(trials) - len(decided)))


def first_position_log_odds(decided: pd.DataFrame, measure: OneOrder) -> Estimate:
    """Estimate the log odds of the first at equal quality.

    Parameters
    ----------
    decided : pandas.DataFrame
        One row a decision, with ``won`` 1 where the first shown won and 0 otherwise.
    measure : OneOrder
        Whose resampling says the level and the clusters.
    """
    contexts = decided["context_id"].nunique()
    if decided.empty:
        return undefined("undefined: no pair was decided")
    systems = _systems(decided)
    fixed = _always_first(decided) if len(systems) == 2 else None
    if fixed is not None:
        return undefined(_FIXED.format(fixed), contexts)
    frame, said = decided.assign(**{_SHOWN_FIRST: 1.0}), []
    terms = [_SHOWN_FIRST]
    if systems:
        said.append(f"strengths of {len(systems)} systems")
        for number, system in enumerate(systems[1:]):
            name = f"system {number}"
            signs = (frame["candidate_id"] == system).astype(float) - (frame["opponent_id"] == system).astype(float)
            frame, terms = frame.assign(**{name: signs}), [*terms, name]
    checks = []
    for name, what, values in _covariates(decided):
        p_value = _balance(values, decided["context_id"])
        unbalanced = p_value < _UNBALANCED
        checks.append(f"{what} {'not balanced, in the model' if unbalanced else 'balanced'} (p {p_value:.2g})")
        if unbalanced:
            frame, terms = frame.assign(**{name: values}), [*terms, name]
    estimate = logistic_model(frame, "won", terms, measure.resampling)[_SHOWN_FIRST]
    beside = f" beside {', '.join(said)}" if said else ""
    checked = f"; order taken as random: {', '.join(checks) or 'nothing in the log to check it by'}"
    return replace(estimate, method=f"{estimate.method}{beside}{checked}")


def _systems(decided: pd.DataFrame) -> list[str]:
    """Return the systems, where candidates are systems: each judged often. None where they are single texts."""
    counts = pd.concat([decided["candidate_id"], decided["opponent_id"]]).value_counts()
    return sorted(map(str, counts.index)) if len(counts) > 1 and counts.min() >= _FEWEST else []


def _always_first(decided: pd.DataFrame) -> str | None:
    first = decided["candidate_id"].unique()
    return str(first[0]) if len(first) == 1 else None


def _covariates(decided: pd.DataFrame) -> Iterator[tuple[str, str, pd.Series]]:
    """Yield covariates of both candidates: first minus second, in standard deviations."""
    if (decided[["words", "opponent_words"]] > 0).all(axis=None):
        longer = np.log(decided["words"] / decided["opponent_words"])
        if longer.std() > 0:
            yield "length", "lengths", longer / longer.std()
    if decided["human_gap"].notna().all() and decided["human_gap"].std() > 0:
        yield "human", "people's preferences", decided["human_gap"] / decided["human_gap"].std()


def _balance(values: pd.Series, contexts: pd.Series) -> float:
    """Return the p-value of the test, over contexts, that a covariate is as often greater first as second."""
    means = values.groupby(contexts.to_numpy()).mean()
    return float(stats.ttest_1samp(means, 0.0).pvalue) if len(means) > 1 and means.std() > 0 else 1.0
