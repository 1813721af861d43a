"""The joint model: verdicts, or scores, on several biases at once at equal human label.

What asks for one bias at equal label calls it with one term: `biaslab.audit` for length and position in pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.probes.base.feature_probe import (
    MissingScores,
    allowing_for_bends,
    bound_missing_verdicts,
    has_several_ratings,
    human_error_sums,
    human_scores,
    log_odds_given_quality,
    over_reliabilities,
    slope_given_quality,
    without_ratings,
)
from biaslab.stats.estimate import Estimate, Note, because, undefined
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import JointLogOdds, JointSlopes, demeaned, identified, logistic_model
from biaslab.stats.reliability import LEAST_RELIABILITY, Corrected, known_reliability
from biaslab.stats.resample import Resampling

_ALIKE = 1e-9  # relative difference that may be due to rounding
_UNIT = (0.0, 1.0)
_OF_SIGNS = 2 / np.pi  # squared correlation of a centred normal variable with its sign
_FIXED = because("constant_term", "{term} has one value throughout")
_SPANNED = because("spanned_term", "{term} cannot be told apart from {others}")


@dataclass(frozen=True)
class JointPairs:
    """Verdicts on pairs: a logistic model of the log odds that a text wins, on differences from its opponent.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per verdict: ``context_id``; ``won``, 1, 0 or NaN if it is missing; the terms; and ``human``, the
        difference of human scores.
    seen : pandas.DataFrame
        The comparisons, from `biaslab.probes.base.feature_probe.seen_from`.
    resampling : Resampling
        Confidence level and clusters.
    reliability : float, optional
        Reliability that is declared of the difference of human scores.
    effective : bool
        As in `biaslab.stats.regression.logistic_model`.
    """

    frame: pd.DataFrame
    seen: pd.DataFrame
    resampling: Resampling
    reliability: float | None = None
    effective: bool = False

    outcome = "won"

    def effect(self, terms: Sequence[str], quality: bool = True) -> Estimate:
        """Return the log odds of the last term given the others and, unless told otherwise, people's preferences.

        Bounds are those of `biaslab.probes.base.feature_probe.bound_missing_verdicts`.
        """
        frame, resampling, others = self.frame, self.resampling, list(terms)
        won = frame["won"].to_numpy(float)
        decided = ~np.isnan(won)
        contexts = frame["context_id"][decided].nunique()
        x = frame.loc[decided, others].to_numpy(float)
        kept, reasons = identified(won[decided], x, others, contexts, verdicts=True)
        if others[-1] in reasons:
            return undefined(reasons[others[-1]], contexts)
        others = [others[k] for k in kept]  # strengths of all systems add up to 0, so that of the last follows
        unexplained = self._unexplained(others) if quality else 0.0
        errs = unexplained >= _ALIKE  # otherwise the systems say how much people prefer one

        def given(won: Floats) -> Estimate:
            whole = ~np.isnan(won)
            of, sides = frame.assign(won=won)[whole], human_scores(self.seen[whole])
            if not errs:
                return logistic_model(of, "won", others, resampling, self.effective)[others[-1]]
            known = self._reliability(of, sides, unexplained)
            return log_odds_given_quality(of, others, sides, resampling, *known, self.effective)

        logit = given(won)
        if decided.all() or np.isnan(logit.ci_low) or resampling.values_only:
            return logit
        x, sides = frame[[*others, *(["human"] if errs else [])]].to_numpy(float), human_scores(self.seen)
        known = self._reliability(frame.fillna({"won": 0.5}), sides, unexplained)
        errors = human_error_sums(sides, x[:, -1], *known) if errs else [None]
        return bound_missing_verdicts(logit, won, x, errors, given)

    def fit(self, terms: Sequence[str]) -> tuple[JointLogOdds | Estimate, Sequence[float], str]:
        """Return the fit of decided verdicts, and the shares of error in human scores to allow for, with their name."""
        decided = self.frame["won"].notna()
        of, sides = self.frame[decided], human_scores(self.seen[decided])
        known, least = self._reliability(of, sides, self._unexplained(terms))
        rated, shares, why = shares_of_error(sides, known, least)
        return JointLogOdds.of(of, "won", terms, rated, self.resampling, least, self.effective), shares, why

    def _unexplained(self, terms: Sequence[str]) -> float:
        """Return the share of the variance of people's preferences that the terms leave."""
        decided = self.frame["won"].notna()
        x, label = self.frame.loc[decided, [*terms]].to_numpy(float), self.frame.loc[decided, "human"].to_numpy(float)
        left = label - x @ np.linalg.lstsq(x, label, rcond=None)[0]
        return float(left.var() / label.var())

    def _reliability(
        self, verdicts: pd.DataFrame, sides: pd.DataFrame, unexplained: float
    ) -> tuple[float | None, float]:
        """Return the reliability of labels, if known, and the least: lower if labels only name the better text."""
        known, least = self.reliability, LEAST_RELIABILITY
        label: Floats = verdicts["human"].to_numpy(float)
        if not known_reliability(sides, None) and len(np.unique(np.abs(label[label != 0]))) <= 1:
            if known is not None:  # of the graded difference; texts may differ by degrees or all by as much
                return None, 1 - (1 - _OF_SIGNS * known) * unexplained
            agrees = np.where(label > 0, verdicts["won"], 1 - verdicts["won"]) * (label != 0)
            ratio = Ratio(verdicts["context_id"], agrees, label != 0, None, _UNIT, inference="score")
            excess = max(2 * ratio.estimate(self.resampling).ci_low - 1, 0.0)
            least = float(_OF_SIGNS * np.nanmax([LEAST_RELIABILITY, excess**2]))
        return known, 1 - (1 - least) * unexplained


@dataclass(frozen=True)
class JointScores:
    """Scores: a linear model on features of the texts, with an intercept for each context.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per item: ``context_id``, ``score`` (NaN if missing), the terms, ``human``, and ``ratings`` and
        ``annotators`` if known.
    resampling : Resampling
        Confidence level and clusters.
    reliability : float, optional
        Reliability that is declared of mean human scores.
    within : bool
        Whether each context has its own intercept.
    ends : tuple of float
        Lowest and highest score.
    """

    frame: pd.DataFrame
    resampling: Resampling
    reliability: float | None = None
    within: bool = True
    ends: tuple[float, float] = (-np.inf, np.inf)

    outcome = "score"

    def effect(self, terms: Sequence[str]) -> Estimate:
        """Return the slope of the last term given the others and people's scores, also if their effect bends."""
        *others, term = terms
        read = self.frame[self.frame["score"].notna()]
        missing = MissingScores(self.frame, term, others, self.within, self.ends)

        def slope(bent: bool = False) -> Estimate:
            of = partial(self._slope, term, others, bent)
            return missing.bound(of(read), of, has_note=not bent)

        return allowing_for_bends(slope(), lambda: slope(bent=True), read, self.resampling)

    def _slope(self, term: str, others: Sequence[str], bent: bool, items: pd.DataFrame) -> Estimate:
        return slope_given_quality(items, term, self.resampling, self.within, others, self.reliability, bent)

    def fit(self, terms: Sequence[str]) -> tuple[JointSlopes | Estimate, Sequence[float], str]:
        """Return the fit of scored items, and the shares of error in human scores to allow for, with their name."""
        read = self.frame[self.frame["score"].notna()]
        rated, shares, why = shares_of_error(read, self.reliability, LEAST_RELIABILITY)
        return JointSlopes.of(rated, "score", terms, self.resampling, self.within), shares, why


def shares_of_error(
    items: pd.DataFrame, reliability: float | None, least: float
) -> tuple[pd.DataFrame, Sequence[float], str]:
    """Return items with the ratings that are used, and the shares of error to allow for in their human scores.

    As in `biaslab.probes.base.feature_probe.allowing_for_errors`: the known share; 0, beyond what several ratings show;
    or, of single labels, every share that leaves them at least the least reliability.
    """
    known = known_reliability(items, reliability)
    if known is not None:
        return without_ratings(items), [1 - known], f"reliability {known:g} of human scores"
    if has_several_ratings(items):
        return items, [0.0], "error of human scores from several ratings"
    return without_ratings(items), (1 - np.linspace(1, least, 6)).tolist(), ""


def at_each_share(at: Corrected, shares: Sequence[float], why: str) -> Estimate:
    """Return an estimate that holds for every share of error in human scores to allow for."""
    first = at(shares[0])
    if len(shares) == 1 or np.isnan(first.ci_low):
        return replace(first, method=f"{first.method}; {why}") if why else first
    return over_reliabilities(first, at, 1 - shares[-1])


def confounded(x: pd.DataFrame, contexts: pd.Series | None = None) -> dict[str, Note]:
    """Return why terms cannot be estimated: those of one value, and all that are in the span of others.

    Parameters
    ----------
    x : pandas.DataFrame
        The terms and, last, the human score.
    contexts : pandas.Series, optional
        The context of each row, if each has its own intercept.

    Examples
    --------
    >>> x = pd.DataFrame({"position": [1.0, 1.0, 1.0], "own": 1.0, "length": [1.0, 2.0, 4.0], "human": [3.0, 1.0, 2.0]})
    >>> {name: str(note) for name, note in confounded(x).items()}["own"]
    'undefined: own cannot be told apart from position'
    """
    values = x.to_numpy(float)
    if contexts is not None:
        values = demeaned(values, pd.factorize(contexts)[0])
    scale = np.abs(values).max(axis=0, initial=0.0)
    names = [str(name) for name, size in zip(x.columns, scale, strict=True) if size > 0]
    reasons = {str(name): _FIXED.with_values(term=str(name)) for name in x.columns if name not in names}
    scaled = dict(zip(names, (values[:, scale > 0] / scale[scale > 0]).T, strict=True))
    rank = partial(_rank, scaled)
    whole = rank(names)
    spanned = [name for name in names if rank([other for other in names if other != name]) == whole]
    for name in spanned:
        alike = [other for other in spanned if other != name and rank([*_without(names, name, other)]) < whole]
        reasons[name] = _SPANNED.with_values(term=name, others=", ".join(alike or _without(spanned, name)))
    return {name: reason for name, reason in reasons.items() if name != "human"}


def _without(names: Sequence[str], *left_out: str) -> list[str]:
    return [name for name in names if name not in left_out]


def _rank(columns: Mapping[str, Floats], names: Sequence[str]) -> int:
    matrix = np.column_stack([columns[name] for name in names]) if names else np.zeros((1, 0))
    return int(np.linalg.matrix_rank(matrix, tol=_ALIKE * np.sqrt(len(matrix)))) if names else 0
