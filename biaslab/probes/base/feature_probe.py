"""Bases of probes of a text feature's effect on scores and on verdicts, at equal human scores."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Bools, Floats
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Nearest
from biaslab.core.requests import About, Compare, Likelihood, Request
from biaslab.core.scales import REWARD, Scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.pairs import is_counted, log_odds
from biaslab.measures.scoring.pointwise import Question, ratings_by_item
from biaslab.probes.base.probe import Cell, Part, label_mass, mean_of
from biaslab.probes.base.questions import ScoreProbe, protocol_column
from biaslab.stats import regression
from biaslab.stats.blocks import ITEM, each_cell, has_value, sum_by_context, usable
from biaslab.stats.correlation import Level, correlation_difference, disattenuated_difference, estimate_correlation
from biaslab.stats.estimate import Estimate, Note, Remark, is_rounding
from biaslab.stats.frame import warn_missing
from biaslab.stats.missing import completed, note_missing
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import NO_RESIDUALS, linear_model, log_odds_at_equal, logistic_model, slope_at_equal
from biaslab.stats.reliability import LEAST_RELIABILITY, Corrected, known_reliability, rating_error
from biaslab.stats.resample import Resampling

_SEVERAL = 0.1  # share of contexts with several items up to which items are compared across contexts


@dataclass(frozen=True)
class FeatureProbe(ScoreProbe):
    """Base for probes that regress a judge's score on a text feature, controlling for human scores.

    Further parameters: `biaslab.probes.base.ScoreProbe`.

    **Measurement error.** Human scores are noisy proxies for quality. If better texts are also longer, controlling for
    a noisy score leaves residual confounding, and an accurate judge looks biased. When items have ratings from several
    annotators (``ratings``, ``annotators``), slopes are corrected by errors-in-variables regression (Fuller 1987) and
    correlations for attenuation, both by cross-products of different annotators. With one rating per item the error is
    unknown: interval and test of slopes hold for every reliability from .3 to 1 (across contexts from .5, see
    `slope_given_quality`), `sensitivity` gives estimates at assumed reliabilities, and ``note`` the reliability that a
    finding requires; the verdict is inconclusive unless it holds, on the same side, down to .3. Errors shared by
    annotators are not corrected; ``note`` says how large they would have to be to explain a finding.

    **Pass or fail.** Scores or labels of two values enter the same model, as linear probabilities. That is right if the
    truth has two values and labels err independently of the feature. If quality is finer than its labels, and the judge
    sees it, better texts among those that pass may be longer too: a single label then counts as unreliable, but what
    several labels of an item have in common is taken for the truth.

    Parameters
    ----------
    reliability : float, optional
        Reliability that you declare of mean human scores (share of variance that is not error) within contexts (over
        all items for pooled metrics), .3 to 1, instead of the one estimated from single ratings; see `sensitivity`.
        Scores by the annotator ``"construction"`` are exact.

    Attributes
    ----------
    feature : str
        Column of items with the feature.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    feature: ClassVar[str]

    reliability: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reliability is not None and not LEAST_RELIABILITY <= self.reliability <= 1:
            raise InputError("reliability", self.reliability, f"a number from {LEAST_RELIABILITY} to 1, or None")

    def _rated_questions(self, dataset: Dataset) -> Iterator[tuple[Question, dict[str, Scalar]]]:
        """Yield the question for each score, with the columns of single human ratings if there are several."""
        ratings = ratings_by_item(dataset)
        known = protocol_column(self.protocol)
        for question in self.questions(dataset):
            item = question.item
            yield question, known | ratings.get((item.context_id, item.candidate_id, question.attribute), {})

    def _likelihood_trial(self, question: Question, text: str, at: Mapping[str, Scalar], own: bool = True) -> Trial:
        """Plan the likelihood of a question's candidate or, unless ``own``, of another text such as its source."""
        item, attributes = question.item, (question.attribute,)
        candidates, texts = ((item.candidate_id,), (text,)) if own else ((), ())
        about = About(item.context_id, candidates, texts, attributes, source=not own)
        where = (item.context_id, *attributes, item.candidate_id)
        return Trial(Likelihood(text, about=about), *where, condition=at)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the log perplexity (−mean log P per token), or the score or verdict, and the status."""
        if not isinstance(trial.request, Likelihood):
            return super().read(trial, reply)
        value = -float(np.mean(reply.logprobs)) if reply.logprobs else math.nan
        return (value + 0.0, "ok") if math.isfinite(value) else (math.nan, "refused")

    def sensitivity(
        self,
        trials: pd.DataFrame,
        reliabilities: Sequence[float] = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5),
        metrics: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Estimate metrics that depend on human error at assumed reliabilities of the mean human score.

        Parameters
        ----------
        trials : pandas.DataFrame
            As in `estimate`.
        reliabilities : sequence of float
            Reliabilities, .3 to 1; 1 takes human scores as error-free.
        metrics : sequence of str, optional
            Slopes and excess correlations; default: all primary ones.

        Returns
        -------
        pandas.DataFrame
            The estimates frame, with a column ``reliability``.

        Examples
        --------
        >>> import biaslab as bl
        >>> data = bl.load_dataset("graded", limit=8)
        >>> probe = bl.probes.Verbosity(attributes=["coherence"])
        >>> trials = bl.collect(probe, bl.SimulatedJudge(data, verbosity=1.0), data, progress=False)
        >>> probe.sensitivity(trials, [1.0, 0.8])[["metric", "reliability"]].to_numpy().tolist()
        [['verbosity_slope', 1.0], ['verbosity_slope', 0.8]]
        """
        wanted = list(self.primary if metrics is None else metrics)
        frames = [replace(self, reliability=r).estimate(trials, wanted).assign(reliability=r) for r in reliabilities]
        return pd.concat(frames, ignore_index=True)

    def _slope(
        self,
        items: pd.DataFrame,
        within_contexts: bool = True,
        covariates: Sequence[str] = (),
        planned: pd.DataFrame | None = None,
    ) -> Estimate:
        """Regress the score, in standard deviations, on the feature and the human score; return the slope.

        Parameters
        ----------
        items : pandas.DataFrame
            One row per item: ``context_id, score, human``, the feature and, if known, ``ratings, annotators, scale``.
        within_contexts : bool
            Fit an intercept per context.
        covariates : sequence of str
            Additional columns to control for.
        planned : pandas.DataFrame, optional
            All items, including those with missing scores (`with_missing_scores`), for bounds and the tipping point.

        Returns
        -------
        Estimate
            Interval and test as in `allowing_for_bends`.
        """
        rated = items[items["human"].notna()]
        spread = (float(rated["score"].std()) if len(rated) > 1 else 0.0) or 1.0

        scaled = rated.assign(score=rated["score"] / spread)

        def of(scores: pd.DataFrame, bent: bool = False) -> Estimate:
            return slope_given_quality(
                scores, self.feature, self.resampling, within_contexts, covariates, self.reliability, bent
            )

        def bounded(bent: bool = False) -> Estimate:
            slope = of(scaled, bent)
            if planned is None or len(planned) <= len(items):
                return slope
            missing = self._missing_scores(rated, planned, within_contexts, covariates, spread)
            return missing.bound(slope, partial(of, bent=bent), spread, has_note=not bent)

        slope = allowing_for_bends(bounded(), lambda: bounded(bent=True), rated, self.resampling)
        return _rescaled(slope, rated, spread, self.resampling)

    def _missing_scores(
        self, rated: pd.DataFrame, planned: pd.DataFrame, within: bool, covariates: Sequence[str], spread: float
    ) -> MissingScores:
        """Return all planned items with scores in standard deviations of the available ones."""
        names = [self.feature, *covariates]
        whole = planned[planned[["human", *names]].notna().all(axis=1)]
        keys = pd.MultiIndex.from_frame(rated[list(ITEM)])
        scores = pd.Series(rated["score"].to_numpy(float) / spread, keys)
        score = scores.reindex(pd.MultiIndex.from_frame(whole[list(ITEM)])).to_numpy(float)
        names = whole["scale"].unique().tolist() if "scale" in whole else []
        scale = bounded_scale(names[0]) if len(names) == 1 else None
        bounds = (scale.low / spread, scale.high / spread) if scale else (-math.inf, math.inf)
        return MissingScores(whole.assign(score=score), self.feature, covariates, within, bounds)

    def _excess(self, items: pd.DataFrame, level: Level) -> Estimate:
        """Return the judge's correlation with the feature minus the humans', tested against 0.

        Within contexts, both are rank correlations of few candidates and agree in half of the contexts. A sign-flip
        test then has a type-I error of .005 instead of .05 with 8 contexts of 3 candidates, and a studentised bootstrap
        a coverage of about .92 with 24. Interval and test are therefore Student's t over contexts, also if the humans'
        correlation is corrected for attenuation.

        That of the judge, whose scores have errors of their own, is not corrected: a note has an interval for
        reliabilities of its scores from .3 to 1, which verdicts respect too. It adds what noise may hide at either end
        of the interval of the judge's correlation, so that it is conservative.

        Parameters
        ----------
        items : pandas.DataFrame
            As in `_slope`.
        level : {"context", "dataset"}
            "dataset" uses `biaslab.stats.correlation.correlation_difference`; "context" uses the bootstrap
            only for intervals other than the studentised one.
        """
        columns = ("score", "human", self.feature)
        excess = allowing_for_errors(
            items,
            lambda: correlation_difference(items, *columns, self.resampling, level, inference="t"),
            lambda rated: disattenuated_difference(rated, "score", self.feature, self.resampling, level),
            self.resampling,
            self.reliability,
        )
        if self.resampling.values_only or math.isnan(excess.ci_low):
            return excess
        judge = self._correlation(items, "judge", level)
        ends = np.array([judge.ci_low, judge.ci_high] if judge.ci_low <= judge.ci_high else [judge.estimate] * 2)
        hidden = np.clip(ends / math.sqrt(LEAST_RELIABILITY), -1, 1) - ends
        low, high = excess.ci_low + min(hidden[0], 0.0), excess.ci_high + max(hidden[1], 0.0)
        return excess.noted(Note("judge_noise", {"low": float(f"{low:.6g}"), "high": float(f"{high:.6g}")}))

    def _correlation(self, items: pd.DataFrame, scorer: str, level: Level) -> Estimate:
        """Return the correlation of the feature with the scores of the judge or of humans, tested against 0."""
        column = "score" if scorer == "judge" else scorer
        return estimate_correlation(items, column, self.feature, self.resampling, level, null=0.0)


def _rescaled(slope: Estimate, rated: pd.DataFrame, spread: float, resampling: Resampling) -> Estimate:
    """Return a slope whose values without each context are in standard deviations of the scores that are left."""
    if slope.leave_one_out is None:
        return slope
    score = rated["score"].to_numpy(float) / spread
    score = score - score.mean()
    sums, names = sum_by_context(resampling.cluster_of(rated["context_id"]), np.ones(len(score)), score, score**2)
    n, total, squares = (sums.sum(axis=0) - sums).T
    left = np.sqrt(np.maximum(squares - total**2 / np.maximum(n, 1), 0.0) / np.maximum(n - 1, 1))
    values = pd.Series(slope.leave_one_out[1][1:], slope.leave_one_out[0]).reindex(names, fill_value=slope.estimate)
    values = values / np.where(left > 0, left, 1 / spread)
    return replace(slope, leave_one_out=(names, np.r_[slope.estimate, values]))


def slope_given_quality(
    items: pd.DataFrame,
    feature: str,
    resampling: Resampling,
    within_contexts: bool = True,
    covariates: Sequence[str] = (),
    reliability: float | None = None,
    bent: bool = False,
) -> Estimate:
    """Regress the score on a feature, controlling for human score and covariates; return the slope.

    Parameters
    ----------
    items : pandas.DataFrame
        One row per item: ``context_id, score, human``, the named columns and, if known, ``ratings, annotators``.
    feature : str
        Column of the feature.
    resampling : Resampling
        Confidence level and clusters.
    within_contexts : bool
        Fit an intercept per context. If items have one rating, interval and test hold for every reliability from .3 to
        1; across contexts, where ratings vary more, from .5, and from .3 for pass and fail: quality cut in two keeps
        2/π of its reliability (Cohen 1983).
    covariates : sequence of str
        Additional columns to control for.
    reliability : float, optional
        Assumed reliability of the mean human score.
    bent : bool
        Whether the effect of quality may bend: `biaslab.stats.regression.bent_slope_at_equal`.
    """
    formula = " + ".join([*covariates, "human", feature])  # the feature comes last, so it is dropped if collinear
    equation = regression.bent_slope_at_equal if bent else slope_at_equal

    def at_equal(rated: pd.DataFrame) -> Corrected:
        return equation(rated, "score", feature, resampling, within_contexts, covariates)

    def uncorrected() -> Estimate:
        if bent:
            return at_equal(without_ratings(items))(0.0)
        options = {"within": within_contexts, "level": resampling.level, "clusters": resampling.clusters}
        return linear_model(items, f"score ~ {formula}", **options)[feature]  # type: ignore[arg-type]

    graded_across = not within_contexts and items["human"].nunique() > 2
    least = _LEAST_ACROSS if graded_across else LEAST_RELIABILITY
    return allowing_for_errors(items, uncorrected, at_equal, resampling, reliability, least, within_contexts)


def log_odds_given_quality(
    verdicts: pd.DataFrame,
    terms: Sequence[str],
    sides: pd.DataFrame,
    resampling: Resampling,
    reliability: float | None = None,
    least: float = LEAST_RELIABILITY,
    effective: bool = False,
) -> Estimate:
    """Regress verdicts on terms, controlling for the difference in human scores; return the log odds of the last term.

    Parameters
    ----------
    verdicts, sides : pandas.DataFrame
        As ``frame`` and ``sides`` of `biaslab.stats.regression.log_odds_at_equal`; the outcome is ``won``.
    terms : sequence of str
        Numeric columns without error.
    resampling : Resampling
        Confidence level and clusters.
    reliability : float, optional
        Assumed reliability of the human scores. By default, it is estimated from several ratings per text; if there
        are none, interval and test hold for every reliability from ``least`` to 1.
    least : float
        Lowest reliability that human scores may have.
    effective : bool
        As in `biaslab.stats.regression.logistic_model`.
    """
    feature = terms[-1]

    def at_equal(rated: pd.DataFrame) -> Corrected:
        return log_odds_at_equal(verdicts, "won", terms, rated, resampling, least, effective)

    def uncorrected() -> Estimate:
        ordered = [*terms[:-1], "human", feature]  # the feature comes last, so it is dropped if collinear
        return logistic_model(verdicts, "won", ordered, resampling, effective)[feature]

    return allowing_for_errors(sides, uncorrected, at_equal, resampling, reliability, least)


def human_error_sums(
    sides: pd.DataFrame, human: Floats, reliability: float | None, least: float = LEAST_RELIABILITY
) -> list[float]:
    """Return the error part of a sum of squared differences in human scores, at each reliability to allow for.

    Parameters as in `log_odds_given_quality`; ``human`` has the differences.
    """
    declared = known_reliability(sides, reliability)
    if declared is None and has_several_ratings(sides):
        return [2 * float(rating_error(sides).error[0])]
    assumed = (1.0, least) if declared is None else (declared,)
    return [(1 - each) * float(human.var() * len(human)) for each in assumed]


def bound_missing_verdicts(
    logit: Estimate, won: Floats, x: Floats, errors: Sequence[float | None], refit: Callable[[Floats], Estimate]
) -> Estimate:
    """Return log odds with bounds: intervals where missing verdicts (NaN) make them smallest and largest.

    ``won`` and ``x`` as in `biaslab.stats.regression.extreme_outcomes`, errors from `human_error_sums`; ``refit``
    returns the log odds of complete verdicts. Nothing bounds log odds that some missing verdicts make infinite, or
    leave without an interval.
    """
    tried = [logit]
    for error in errors:
        for sign in (1.0, -1.0):
            filled = regression.extreme_outcomes(won, x, error, sign)
            if filled is None:
                return logit.noted(_UNBOUNDED)
            tried.append(refit(filled))
    return _bounded_by(tried)


def _bounded_by(tried: Sequence[Estimate]) -> Estimate:
    """Return the first estimate with bounds from all, each with the widest interval of any.

    Of other completions of what is missing, estimates are less extreme, but intervals may be wider.
    """
    values = np.array([(one.estimate, one.ci_low, one.ci_high) for one in tried])
    if np.isnan(values).any():
        return tried[0].noted(_UNBOUNDED)
    value, low, high = values.T
    least, most = value.min() - (value - low).max(), value.max() + (high - value).max()
    return replace(tried[0], bound_low=float(least), bound_high=float(most))


_SHARED, _UNBOUNDED = "depends_on_shared_error", Note("unbounded")


def allowing_for_errors(
    items: pd.DataFrame,
    uncorrected: Callable[[], Estimate],
    correct: Callable[[pd.DataFrame], Corrected],
    resampling: Resampling,
    reliability: float | None = None,
    least: float | None = None,
    partly: bool = False,
) -> Estimate:
    """Correct an estimate for error in human scores, as far as known; note what could explain a finding.

    Parameters
    ----------
    items : pandas.DataFrame
        As in `slope_given_quality`.
    uncorrected : callable
        Returns the estimate without correction.
    correct : callable
        Maps items to estimates at a given share of error in the variance of human scores (shared error, if items have
        ratings of several annotators).
    resampling : Resampling
        Whether only values are wanted.
    reliability : float, optional
        Assumed reliability of the mean human score.
    least : float, optional
        If the error is unknown, least reliability for which interval and test hold; default: they take scores as exact.
    partly : bool
        As in `over_reliabilities`, for an estimate whose interval does not contain 0.
    """
    unrated, reliability = without_ratings(items), known_reliability(items, reliability)
    if reliability is not None:
        given, exact = correct(unrated)(1 - reliability), reliability == known_reliability(items, None)
        why = "human scores exact by construction" if exact else f"reliability {reliability:g} of human scores declared"
        return replace(given, method=f"{given.method}; {why}")
    several = has_several_ratings(items)
    corrected = correct(items) if several else None
    estimate = corrected(0.0) if corrected else uncorrected()
    side, at = _side(estimate), corrected or correct(unrated)
    if resampling.values_only or math.isnan(estimate.estimate):
        return estimate
    if side:
        share = bisect_left(range(100), True, key=lambda percent: _side(at(percent / 100)) != side)
        ruled_out = least is not None and share / 100 > 1 - least  # the side holds for all that are left
        needed = LEAST_RELIABILITY if ruled_out else round(max(1 - share / 100, LEAST_RELIABILITY), 2)
        shared = Note(_SHARED, {"percent": share})
        estimate = estimate.noted(shared if several else Note("depends_on_reliability", {"reliability": needed}))
    if several or least is None:
        return estimate
    return over_reliabilities(estimate, at, least, partly and bool(side))


def level_of(items: pd.DataFrame, level: Level | None) -> Level:
    """Return the level asked for or, by default, "dataset" if at most a tenth of the contexts have several rated items.

    Examples
    --------
    >>> level_of(pd.DataFrame({"context_id": [*"abc"], "candidate_id": "x", "human": [1.0, 2.0, 3.0]}), None)
    'dataset'
    """
    if level is not None:
        return level
    rated = items[items["human"].notna()] if items["human"].notna().any() else items
    sizes = rated.drop_duplicates(list(ITEM))["context_id"].value_counts()
    return "dataset" if len(sizes) and (sizes > 1).mean() <= _SEVERAL else "context"


def kept_columns(trials: pd.DataFrame) -> list[str]:
    """Return the available columns on the precision of scores: single human ratings, and the scale."""
    return [name for name in ("ratings", "annotators", "scale") if name in trials]


def with_missing_scores(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with missing scores replaced by placeholders, to recover the planned items."""
    scores = trials["asked"] == "score" if "asked" in trials else pd.Series(True, trials.index)
    return completed(trials, np.where(scores, 0.0, math.nan))


def _side(estimate: Estimate) -> int:
    """Return the side of 0 on which the interval lies: 1, -1, or 0 if it contains 0 or is undefined."""
    return int(estimate.ci_low > 0) - int(estimate.ci_high < 0)


_LEAST_ACROSS = 0.5  # reliability of a single rating across contexts; a lower one is poor (Koo & Li 2016)


def has_several_ratings(items: pd.DataFrame) -> bool:
    """Return whether items have ratings of several annotators, so that the error in human scores is known."""
    return "ratings" in items and bool(items["ratings"].fillna("").str.contains(" ", regex=False).any())


def without_ratings(items: pd.DataFrame) -> pd.DataFrame:
    """Return items with only their mean human score."""
    return items.drop(columns=["ratings", "annotators"], errors="ignore")


def over_reliabilities(estimate: Estimate, at: Corrected, least: float, partly: bool = False) -> Estimate:
    """Return an estimate with interval and test valid for every reliability of human scores from the least to 1.

    Parameters
    ----------
    estimate : Estimate
        Estimate without correction, with null 0.
    at : Corrected
        Function that returns the estimate at a given share of error; it changes monotonically.
    least : float
        The least reliability.
    partly : bool
        If low reliabilities allow no correction, use the others instead of giving no interval and test.
    """
    assumed = np.linspace(1, least, 6)
    each = [estimate, *(at(1 - reliability) for reliability in assumed[1:])]
    known = [one for one in each if not math.isnan(one.ci_low)]
    if len(known) < len(each) and not (partly and known):
        why_not = "no test: the reliability of human scores is unknown, and no conclusion holds for all reliabilities"
        return without_test(estimate).noted(why_not)
    wide = holding_for(known, f"valid for reliabilities of human scores from {assumed[len(known) - 1]:.2g} to 1")
    return wide.noted(Note("single_ratings", {"se": float(f"{max(one.se for one in known):.6g}")}))


def holding_for(each: Sequence[Estimate], what: str) -> Estimate:
    """Return the first estimate with the interval, bounds and test that hold for all of them, named in its method."""
    first, lows, highs = each[0], [one.ci_low for one in each], [one.ci_high for one in each]
    shares = [note["percent"] for one in each for note in one.notes if _is_shared(note)]
    lacks = [one.has_note(_UNBOUNDED.code) for one in each]
    unbounded = [_UNBOUNDED] if any(lacks) and not lacks[0] else []
    return replace(
        first,
        ci_low=min(lows),
        ci_high=max(highs),
        bound_low=float(np.min([*lows, *(one.bound_low for one in each)])),  # NaN if one has none
        bound_high=float(np.max([*highs, *(one.bound_high for one in each)])),
        p_value=max(one.p_value for one in each) if len({one.estimate > 0 for one in each}) == 1 else 1.0,
        mde=float(np.max([one.mde for one in each])),
        method=f"{first.method}; {what}",
        notes=tuple(Note(_SHARED, {"percent": min(shares)}) if _is_shared(note) else note for note in first.notes),
    ).noted(*unbounded)


def _is_shared(note: Remark) -> TypeGuard[Note]:
    return isinstance(note, Note) and note.code == _SHARED


def without_test(estimate: Estimate) -> Estimate:
    """Return an estimate without interval, bounds and test."""
    missing = ("ci_low", "ci_high", "p_value", "mde", "bound_low", "bound_high")
    return replace(estimate, **dict.fromkeys(missing, math.nan))  # type: ignore[arg-type]


#: Answer modes in which the test of a slope may reject less often: it holds for two models, see `allowing_for_bends`.
WITH_BENDS = ("exact", "text", "sampled:3", "sampled:5")


def allowing_for_bends(
    slope: Estimate, bent: Callable[[], Estimate], rated: pd.DataFrame, resampling: Resampling
) -> Estimate:
    """Return a slope with interval and test that hold for a straight effect of quality and for one that bends.

    Scores are rarely linear in people's, at the ends of the scale least of all, so that a linear model alone confounds
    quality with a feature unless both are jointly normal (Brillinger 1983). With scores or human scores of two values
    no bend can be seen.

    Parameters
    ----------
    slope : Estimate
        From `slope_given_quality`.
    bent : callable
        Returns the slope if the effect of quality may bend.
    rated : pandas.DataFrame
        The items, with ``score`` and ``human``.
    resampling : Resampling
        Whether only values are wanted.
    """
    two_values = min(rated["score"].nunique(), rated["human"].nunique()) <= 2
    if two_values or math.isnan(slope.ci_low) or resampling.values_only:
        return slope
    other = bent()
    if [*map(id, other.notes)] == [id(NO_RESIDUALS)]:  # quality, and perhaps the feature, explain all of the scores
        value = 0.0 if is_rounding(other.estimate, max(abs(slope.estimate), slope.se)) else other.estimate
        other = replace(other, estimate=value, ci_low=value, ci_high=value, p_value=float(value == 0), mde=0.0)
        other = replace(other, bound_low=slope.bound_low, bound_high=slope.bound_high)
    elif math.isnan(other.ci_low):
        return without_test(slope).noted("no test: an effect of quality that may bend leaves no interval")
    return holding_for([slope, other], "with and without bends in the effect of quality")


def bounded_scale(name: object) -> Scale | None:
    """Return the named scale; None if it is unbounded or unknown."""
    try:
        scale = scale_named(str(name))
    except InputError:
        return None
    return None if scale is REWARD else scale


def width_of(scale: object) -> float:
    """Return the width of a scale in points; infinite if it is unbounded or unknown."""
    known = bounded_scale(scale)
    return known.high - known.low if known else math.inf


_HALVINGS = 7
_WIDTH = 4.0  # assumed maximum deviation of unbounded scores, in standard deviations


@dataclass(frozen=True)
class MissingScores:
    """Items with missing scores, and their possible effect on a slope at equal human score.

    A slope is a weighted sum of scores, so its smallest and largest values have each missing score at one end of the
    scale, by the sign of its weight (Horowitz & Manski 2000). The tipping point is the deviation of missing scores from
    their prediction at which a finding vanishes (Yan, Lee & Li 2009, *Missing data handling methods in medical device
    clinical trials*, J. Biopharm. Stat. 19).

    Parameters
    ----------
    items : pandas.DataFrame
        All planned items: ``context_id, score, human``, the feature and the covariates; only ``score`` may be NaN.
    feature : str
        Column of the feature.
    covariates : sequence of str
        Columns controlled for in addition to the human score.
    within : bool
        Whether each context has its own intercept.
    ends : tuple of float
        Lowest and highest score, in the unit of ``score``; infinite if unbounded.
    """

    items: pd.DataFrame
    feature: str
    covariates: Sequence[str]
    within: bool
    ends: tuple[float, float]

    def bound(
        self, estimate: Estimate, slope: Callable[[pd.DataFrame], Estimate], unit: float = 1.0, has_note: bool = True
    ) -> Estimate:
        """Add bounds to an estimate and, if these contain 0 but the interval does not, its tipping point.

        Parameters
        ----------
        estimate : Estimate
            The slope over items with a score.
        slope : callable
            Returns the slope of complete items.
        unit : float
            Scale points per unit of ``score``, for the note.
        has_note : bool
            Whether to search for the tipping point.
        """
        lost = self.items["score"].isna().to_numpy()
        if not lost.any() or math.isnan(estimate.ci_low):
            return estimate
        up = self._weights()[lost] > 0
        if np.isfinite(self.ends).all():
            filled = (self._filled(np.where(up, *ends)) for ends in (self.ends, self.ends[::-1]))
            estimate = _bounded_by([estimate, *map(slope, filled)])
        low, high = estimate.bound_low, estimate.bound_high
        if not has_note or estimate.ci_low <= 0 <= estimate.ci_high or low > 0 or high < 0:
            return estimate
        off = self._tipping_point(estimate, slope, np.where(up, 1.0, -1.0) * math.copysign(1.0, estimate.estimate))
        if off is None:
            return estimate
        return estimate.noted(Note("tipping_point", {"points": float(f"{off * unit:.2g}")}))

    def _weights(self) -> Floats:
        """Return each score's weight in the slope: the feature's residual on human score and covariates."""
        names = [*self.covariates, "human", self.feature]
        x = self.items[names].to_numpy(float)
        x = regression.demeaned(x, pd.factorize(self.items["context_id"])[0]) if self.within else x - x.mean(axis=0)
        gram = x.T @ x
        gram[-2, -2] -= rating_error(self.items, self.within).error[0]
        solved: Floats = np.linalg.lstsq(gram, np.eye(len(names))[-1], rcond=None)[0]
        return x @ solved

    def _filled(self, values: Floats) -> pd.DataFrame:
        score = self.items["score"].to_numpy(float).copy()
        score[np.isnan(score)] = np.clip(values, *self.ends)
        return self.items.assign(score=score)

    def _tipping_point(
        self, estimate: Estimate, slope: Callable[[pd.DataFrame], Estimate], sides: Floats
    ) -> float | None:
        """Return how far missing scores must deviate to overturn the finding; None if no deviation does."""
        predicted = self._predicted()
        spread = float(self.items["score"].std())
        width = self.ends[1] - self.ends[0] if np.isfinite(self.ends).all() else _WIDTH * spread

        def holds(off: float) -> bool:
            there = slope(self._filled(predicted - off * sides))
            return there.ci_low > 0 if estimate.estimate > 0 else there.ci_high < 0

        if holds(width):
            return None
        low, high = 0.0, width
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return high

    def _predicted(self) -> Floats:
        """Return the regression predictions for the missing scores."""
        known = self.items["score"].notna().to_numpy()
        names = [*self.covariates, "human", self.feature]
        x, y = self.items[names].to_numpy(float), self.items["score"].to_numpy(float)
        codes = pd.factorize(self.items["context_id"])[0] if self.within else np.zeros(len(x), np.intp)
        count = np.bincount(codes[known], minlength=codes.max() + 1)
        whole = np.column_stack([x, y])
        means = np.column_stack([np.bincount(codes[known], column[known], len(count)) for column in whole.T])
        means = np.where(count[:, None] > 0, means / np.maximum(count, 1)[:, None], whole[known].mean(axis=0))
        centred = whole - means[codes]
        slopes = np.linalg.lstsq(centred[known, :-1], centred[known, -1], rcond=None)[0]
        predicted: Floats = means[codes[~known], -1] + centred[~known, :-1] @ slopes
        return predicted


_WAYS = ("template", "configuration")


@dataclass(frozen=True)
class PairFeatureProbe(FeatureProbe):
    """Base for probes of a text feature's effect on scores, on comparisons in both orders, or on both.

    Effects on scores: see `biaslab.probes.base.FeatureProbe`. Effects on comparisons: regression of the log odds that a
    text wins on the differences of both texts in the feature and in human scores, and on position. Least squares for
    exact log odds; logistic for verdicts and for shares of samples, which noise pulls towards ½. Both are corrected for
    error in human scores; if it is unknown, interval and test of verdicts hold for every reliability from .3 to 1.

    Parameters
    ----------
    asks : sequence of {"pairs", "scores"}
        Compare texts in both orders, score them, or both; evaluators support only one of them.
    template : {1, 2}
        Comparative template.
    """

    protocol_forms = ("pair", "score")

    asks: Sequence[Literal["pairs", "scores"]] = field(default=("scores",), kw_only=True)
    template: Literal[1, 2] = field(default=1, kw_only=True)

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms to ask for: "pairs", "scores", or both."""
        return tuple(self.asks)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design; for an evaluator that lacks one of the forms, a design with only the other."""
        if self.answer == "score" and len(self.forms) > 1:
            left: Literal["pairs", "scores"] = "scores" if isinstance(refused, Compare) else "pairs"
            words = f"asks for {left} only"
            return Nearest(replace(self, asks=(left,)), words, omits=words)
        return super().nearest(refused)

    def _apart(self, cell: Cell) -> tuple[Cell, Iterator[tuple[dict[str, Any], Cell]]]:
        """Split a cell into its scores and, per prompt, its comparisons with their condition columns."""
        compared = column_or_blank(cell.trials, "opponent_id") != ""
        if not compared.any():
            return cell, iter(())
        pairs = cell.trials[compared]
        named = pairs.assign(**{name: column_or_blank(pairs, name) for name in _WAYS})
        each = each_cell(named, _WAYS)
        parts = ((dict(zip(_WAYS, values, strict=True)), replace(cell, trials=part)) for values, part in each)
        return replace(cell, trials=cell.trials[~compared]), parts

    def _per_doubling(self, cell: Cell, metric: str, at: Mapping[str, Any]) -> Iterator[Part]:
        """Yield the log odds per doubling of a feature, at equal human score, and the label mass.

        Parameters
        ----------
        cell : Cell
            Comparisons, with log2 of the feature of both texts in ``doublings`` and ``opponent_doublings``; missing
            ones count as dropped.
        metric : str
            Name of the log odds.
        at : mapping
            Condition columns.
        """
        rated = cell.trials[cell.trials["human_gap"].notna()]
        known = rated[["doublings", "opponent_doublings"]].notna().all(axis=1)
        rated = rated.assign(value=rated["value"].where(known), status=rated["status"].where(known, "refused"))
        seen = seen_from(rated, np.ones(len(rated), bool), ["doublings"])
        yield from self._at_equal_quality(cell, metric, seen, [(at, ["doublings"])])
        if not is_recorded(cell.trials):
            yield Part({"label_mass": label_mass(cell.trials)}, cell.trials, at)

    def _at_equal_quality(
        self, cell: Cell, metric: str, rated: pd.DataFrame, each: Sequence[tuple[Mapping[str, Any], Sequence[str]]]
    ) -> Iterator[Part]:
        """Yield the log odds of a feature at equal human score.

        Parameters
        ----------
        cell : Cell
            The cell of the judgements.
        metric : str
            Name of the log odds.
        rated : pandas.DataFrame
            From `biaslab.probes.base.feature_probe.seen_from`, for pairs judged by humans.
        each : sequence of tuple
            For each estimate, the condition columns and the regression terms in addition to human scores and position,
            the feature last; each term has columns ``…_here`` and ``…_there``.
        """
        if not cell.wants(metric):
            return
        whole = usable(rated) if is_recorded(rated) else in_both_orders(rated)
        dropped = len(rated) - len(whole)
        why = "their value is missing or, in this probe's own design, that of the other order"
        warn_missing(cell.what, dropped, len(rated), why)
        notes = note_missing(rated["context_id"], ~has_value(rated), rated["seen_first"], "the order")
        for at, terms in each:
            logit = self._log_odds(whole, terms, cell.resampling)
            bounded = dropped and not cell.resampling.values_only and not is_exact(whole)
            if bounded and not math.isnan(logit.estimate):
                logit = self._with_bounds(logit, rated, terms, cell.resampling)
            yield Part({metric: logit}, (len(whole), dropped), at, notes)

    def _with_bounds(
        self, logit: Estimate, rated: pd.DataFrame, terms: Sequence[str], resampling: Resampling
    ) -> Estimate:
        """Return log odds of verdicts with bounds, as of `bound_missing_verdicts`."""
        verdicts = as_verdicts(rated, terms)
        x = verdicts[["first", *terms, "human"]].to_numpy(float)
        known = np.isfinite(x).all(axis=1)
        errors = human_error_sums(human_scores(rated[known]), x[known, -1], self.reliability)

        def refit(won: Floats) -> Estimate:
            wins = np.zeros(len(x), bool)
            wins[known] = won > 0
            return self._verdict_log_odds(with_verdicts(rated, wins), terms, resampling)

        won = verdicts["won"].where(has_value(rated)).to_numpy(float)
        return bound_missing_verdicts(logit, won[known], x[known], errors, refit)

    def _log_odds(self, judged: pd.DataFrame, terms: Sequence[str], resampling: Resampling) -> Estimate:
        """Regress the log odds for a text on its differences from the other; return the last term's coefficient."""
        if is_exact(judged):
            sides = by_side(judged, terms)
            clusters = dict(enumerate(resampling.cluster_of([*judged["context_id"]])))
            within, covariates = replace(resampling, clusters=clusters), ["first", *terms[:-1]]
            return slope_given_quality(sides, terms[-1], within, True, covariates, self.reliability)
        return self._verdict_log_odds(judged, terms, resampling)

    def _verdict_log_odds(self, judged: pd.DataFrame, terms: Sequence[str], resampling: Resampling) -> Estimate:
        """Regress verdicts on the differences between both texts; return the log odds of the last term.

        If the error in human scores is unknown, interval and test hold for every reliability down to .3.
        """
        verdicts, feature = as_verdicts(judged, terms), terms[-1]
        covariates = ["first", *terms[:-1]]
        known = verdicts[["won", "human", *covariates]].notna().all(axis=1) & verdicts[feature].notna()
        sides = human_scores(judged[known])
        return log_odds_given_quality(verdicts[known], [*covariates, feature], sides, resampling, self.reliability)


_HUMANS = ("human", "ratings", "annotators")
_WINNING = ("context_id", "value", "status", "p_both_orders", "human_gap", "words", "opponent_words")


def add_perplexities(trials: pd.DataFrame, likelihood: str) -> pd.DataFrame:
    """Add the judge's own log perplexity of each text, if it was asked for, to scores and pairs.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of one cell.
    likelihood : str
        Value of the column ``asked`` for trials of a candidate's likelihood.
    """
    if "asked" not in trials or not (read := trials["asked"] == likelihood).any():
        return trials
    perplexity = usable(trials[read]).groupby(["context_id", "candidate_id"])["value"].mean()
    rest = trials[~read]
    columns = {
        f"{side}log_perplexity": perplexity.reindex(pd.MultiIndex.from_frame(rest[["context_id", who]])).to_numpy(float)
        for side, who in (("", "candidate_id"), ("opponent_", "opponent_id"))
        if who in rest
    }
    return rest.assign(**columns)


def seen_from(judged: pd.DataFrame, first: ArrayLike, known: Sequence[str] = ()) -> pd.DataFrame:
    """Re-express comparisons from the side of one text.

    Parameters
    ----------
    judged : pandas.DataFrame
        Pair trials.
    first : array_like of bool, shape (judged,)
        Whether this text is shown first.
    known : sequence of str
        Columns of the text shown first, such as ``"words"``; its opponent's are named ``opponent_…``.

    Returns
    -------
    pandas.DataFrame
        The trials with ``seen_first``; ``won``, the probability that the text wins (the mean of both orders, if a log
        has only that); ``one``, that of this judgement; ``gap``, how much higher humans score it; and the columns of
        both texts, ``human_here``, ``human_there`` and so on. If only the difference of human scores is known, they are
        plus and minus half of it.
    """
    ahead = np.asarray(first, bool)
    shown = judged["p_both_orders"].fillna(judged["value"]) if "p_both_orders" in judged else judged["value"]
    gap = judged["human_gap"].to_numpy(float) * np.where(ahead, 1, -1)
    won, single = (each.where(ahead, 1 - each) for each in (shown, judged["value"]))
    columns: dict[str, Any] = {"seen_first": ahead, "won": won, "one": single, "gap": gap}
    for name in dict.fromkeys((*_HUMANS, "log_perplexity", *known)):
        one, two = (judged.get(column) for column in (name, f"opponent_{name}"))
        if one is None or two is None:
            continue
        columns[f"{name}_here"], columns[f"{name}_there"] = one.where(ahead, two), two.where(ahead, one)
    if "human_here" not in columns or not pd.Series(columns["human_here"]).notna().any():
        columns |= {"human_here": gap / 2, "human_there": -gap / 2}
        if "annotators" in judged:
            columns |= dict.fromkeys(("annotators_here", "annotators_there"), judged["annotators"])
    return judged.assign(**columns)


def from_longer_side(pairs: pd.DataFrame) -> pd.DataFrame:
    """Re-express the comparisons of texts of different length that humans judged from the side of the longer one."""
    used = pairs[[name for name in _WINNING if name in pairs]]  # of millions of pairs, a copy of all columns is large
    differ = used[(used["words"] != used["opponent_words"]) & used["human_gap"].notna()]
    return seen_from(differ, differ["words"] > differ["opponent_words"])


def in_both_orders(judged: pd.DataFrame) -> pd.DataFrame:
    """Return the readable judgements of pairs judged in both orders."""
    whole: pd.DataFrame = judged[has_value(judged) & pairs.in_both_orders(judged, [])]
    return whole


def is_exact(judged: pd.DataFrame) -> bool:
    """Return whether values are exact probabilities rather than shares of samples or verdicts."""
    return len(judged) > 0 and not is_counted(judged)


def by_side(judged: pd.DataFrame, terms: Sequence[str]) -> pd.DataFrame:
    """Return one row per text and judgement.

    The difference between the two rows of a judgement is its log odds, so a regression within judgements regresses
    log odds on differences in human scores, terms and position.

    Parameters
    ----------
    judged : pandas.DataFrame
        From `seen_from`.
    terms : sequence of str
        Numeric terms, given as ``…_here`` and ``…_there``.

    Returns
    -------
    pandas.DataFrame
        ``context_id``, the number of the judgement; ``score``, half the log odds, up or down; ``first``, 0 or 1; the
        terms; and the human scores of the text.
    """
    half, first = log_odds(judged["one"].to_numpy(float)) / 2, judged["seen_first"].to_numpy(bool)
    columns = {"score": np.concatenate([half, -half]), "first": np.concatenate([first, ~first]).astype(float)}
    return _of_both(judged, ("human", *terms)).assign(**columns)


def human_scores(judged: pd.DataFrame) -> pd.DataFrame:
    """Return the human scores alone of what `by_side` returns: ``context_id``, ``human`` and any ratings."""
    return _of_both(judged, ("human",))


def _of_both(judged: pd.DataFrame, numbers: Sequence[str]) -> pd.DataFrame:
    """Return numbers and ratings of both texts, one row per text and judgement, all first texts first."""
    sides: dict[str, Any] = {"context_id": np.tile(np.arange(len(judged)), 2)}
    for name in dict.fromkeys((*_HUMANS, *numbers)):
        both = [judged[f"{name}_{side}"] for side in ("here", "there") if f"{name}_{side}" in judged]
        if name in numbers:
            sides[name] = np.concatenate([side.to_numpy(float) for side in both])
        elif any((side.fillna("") != "").any() for side in both):
            sides[name] = np.concatenate([side.to_numpy() for side in both])
    return pd.DataFrame(sides)


def as_verdicts(judged: pd.DataFrame, terms: Sequence[str]) -> pd.DataFrame:
    """Return one row per verdict: ``won`` by the text, and the differences that may explain it.

    Parameters
    ----------
    judged, terms
        As in `by_side`.
    """
    columns: dict[str, Any] = {"context_id": judged["context_id"], "won": judged["one"]}
    columns["first"] = np.where(judged["seen_first"], 1.0, -1.0)
    for name in ("human", *terms):
        columns[name] = judged[f"{name}_here"].astype(float) - judged[f"{name}_there"].astype(float)
    return pd.DataFrame(columns)


def with_verdicts(judged: pd.DataFrame, wins: Bools) -> pd.DataFrame:
    """Fill in missing judgements as wins or losses of the text."""
    lost = ~has_value(judged)
    filled = {name: judged[name].where(~lost, wins.astype(float)) for name in ("one", "won")}
    return judged.assign(**filled, status=judged["status"].where(~lost, "ok"))


def win_excess(judged: pd.DataFrame) -> Ratio:
    """Return the mean probability that the text wins minus the share in which humans prefer it."""
    read = usable(judged)
    return mean_of(read, read["won"] - (np.sign(read["gap"]) + 1) / 2, 0.0, (-1.0, 1.0))


def is_recorded(trials: pd.DataFrame) -> bool:
    """Return whether judgements come from a log rather than a probe's design."""
    return "probe" in trials and bool((trials["probe"] == "recorded").all())


def column_or_blank(trials: pd.DataFrame, name: str) -> pd.Series:
    """Return a column, with "" for missing values or a missing column."""
    if name not in trials:
        return pd.Series("", trials.index, object)
    return trials[name].astype(object).where(trials[name].notna(), "")
