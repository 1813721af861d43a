"""Base for probes that regress a judge's score on a text feature, controlling for human scores."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from biaslab.core import About, Likelihood, Reply, Scalar, Status, Trial
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Question, ratings_by_item
from biaslab.probes.base.human_errors import has_several_ratings, noted, without_ratings, without_test
from biaslab.probes.base.own_protocol import protocol_column
from biaslab.probes.base.scale_ends import bounded_scale, crowded_end
from biaslab.probes.base.score_probe import ScoreProbe
from biaslab.probes.base.slope_bounds import MissingScores
from biaslab.stats import (
    ITEM,
    LEAST_RELIABILITY,
    Corrected,
    Estimate,
    Level,
    Resampling,
    completed,
    correlation_difference,
    disattenuated_difference,
    estimate_correlation,
    holds_above,
    linear_model,
    slope_at_equal,
)

_ALIKE = 0.05  # p-value below which human scores are associated with the feature


@dataclass(frozen=True)
class FeatureProbe(ScoreProbe):
    """Base for probes that regress a judge's score on a text feature, controlling for human scores.

    Further parameters: `biaslab.probes.base.ScoreProbe`.

    **Measurement error.** Human scores are noisy proxies for quality. If better texts are also longer, controlling for
    a noisy score leaves residual confounding, and an accurate judge looks biased. When items have ratings from several
    annotators (``ratings``, ``annotators``), slopes are corrected by errors-in-variables regression (Fuller 1987) and
    correlations for attenuation, both by cross-products of different annotators. With one rating per item the error is
    unknown: ``note`` gives the reliability that a finding requires, `sensitivity` gives estimates at assumed
    reliabilities, and the verdict is inconclusive unless the finding holds down to .3. Errors shared by annotators are
    not corrected; ``note`` says how large they would have to be to explain a finding.

    Parameters
    ----------
    reliability : float, optional
        Assumed reliability of mean human scores (share of variance that is not error) within contexts (over all items
        for pooled metrics), .3 to 1, instead of the one estimated from single ratings; see `sensitivity`.

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

    def _likelihood_trial(
        self, question: Question, text: str, condition: Mapping[str, Scalar], own: bool = True
    ) -> Trial:
        """Plan the likelihood of a question's candidate or, unless ``own``, of another text such as its source."""
        item, attributes = question.item, (question.attribute,)
        candidates, texts = ((item.candidate_id,), (text,)) if own else ((), ())
        about = About(item.context_id, candidates, texts, attributes, source=not own)
        return Trial(
            Likelihood(text, about=about), item.context_id, *attributes, item.candidate_id, condition=condition
        )

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score or, for a likelihood, the log perplexity (−mean log P per token), and the status."""
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
            Without interval and test if more than a fifth of the scores lie at one end of the scale and human scores
            are associated with the feature: a linear model then confounds quality with the feature.
        """
        rated = items[items["human"].notna()]
        spread = (float(rated["score"].std()) if len(rated) > 1 else 0.0) or 1.0

        def of(scores: pd.DataFrame) -> Estimate:
            return self._slope_given_quality(scores, self.resampling, within_contexts, covariates)

        slope = of(rated.assign(score=rated["score"] / spread))
        if planned is not None and len(planned) > len(items):
            missing = self._missing_scores(rated, planned, within_contexts, covariates, spread)
            slope = missing.bound(slope, of, spread)
        crowded = crowded_end(rated)
        if not crowded or math.isnan(slope.estimate):
            return slope
        options = {"within": within_contexts, "level": self.resampling.level, "clusters": self.resampling.clusters}
        alike = linear_model(rated, f"{self.feature} ~ human", **options)["human"]  # type: ignore[arg-type]
        if not alike.p_value < _ALIKE:
            return noted(slope, f"{crowded}; {self.feature} is not associated with human scores")
        why_not = f"no test: {crowded}, where scores hardly reflect quality, and human scores depend on the feature"
        return noted(without_test(slope), why_not)

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

    def _slope_given_quality(
        self,
        items: pd.DataFrame,
        resampling: Resampling,
        within_contexts: bool = True,
        covariates: Sequence[str] = (),
        feature: str = "",
    ) -> Estimate:
        """Regress the score on the feature, controlling for human score and covariates; return the slope.

        Parameters as in `_slope`; ``resampling`` sets level and clusters, and ``feature`` overrides the probe's own.
        """
        feature = feature or self.feature
        formula = " + ".join([*covariates, feature, "human"])
        options = {"within": within_contexts, "level": resampling.level, "clusters": resampling.clusters}
        return self._allowing_for_errors(
            items,
            lambda: linear_model(items, f"score ~ {formula}", **options)[feature],  # type: ignore[arg-type]
            lambda rated: slope_at_equal(rated, "score", feature, resampling, within_contexts, covariates),
        )

    def _excess(self, items: pd.DataFrame, level: Level) -> Estimate:
        """Return the judge's correlation with the feature minus the humans', tested against 0.

        Within contexts, both are rank correlations of few candidates and agree in half of the contexts. A sign-flip
        test then has a type-I error of .005 instead of .05 with 8 contexts of 3 candidates, and a studentised bootstrap
        a coverage of about .92 with 24. Interval and test are therefore Student's t over contexts, also if the humans'
        correlation is corrected for attenuation.

        Parameters
        ----------
        items : pandas.DataFrame
            As in `_slope`.
        level : {"context", "dataset"}
            "dataset" uses `biaslab.stats.correlation_intervals.correlation_difference`; "context" uses the bootstrap
            only for intervals other than the studentised one.
        """
        columns = ("score", "human", self.feature)
        return self._allowing_for_errors(
            items,
            lambda: correlation_difference(items, *columns, self.resampling, level, inference="t"),
            lambda rated: disattenuated_difference(rated, "score", self.feature, self.resampling, level),
        )

    def _correlation(self, items: pd.DataFrame, scorer: str, level: Level) -> Estimate:
        """Return the correlation of the feature with the scores of the judge or of humans, tested against 0."""
        column = "score" if scorer == "judge" else scorer
        return estimate_correlation(items, column, self.feature, self.resampling, level, null=0.0)

    def _allowing_for_errors(
        self,
        items: pd.DataFrame,
        uncorrected: Callable[[], Estimate],
        correct: Callable[[pd.DataFrame], Corrected],
    ) -> Estimate:
        """Correct an estimate for error in human scores, as far as known; note what could explain a finding.

        Parameters
        ----------
        items : pandas.DataFrame
            As in `_slope`.
        uncorrected : callable
            Returns the estimate without correction.
        correct : callable
            Maps items to estimates at a given share of error in the variance of human scores (shared error, if items
            have ratings of several annotators).
        """
        unrated = without_ratings(items)
        if self.reliability is not None:
            return correct(unrated)(1 - self.reliability)
        several = has_several_ratings(items)
        corrected = correct(items) if several else None
        estimate = corrected(0.0) if corrected else uncorrected()
        if self.resampling.values_only or not _excludes_0(estimate):
            return estimate
        at = corrected or correct(unrated)
        share = bisect_left(range(100), True, key=lambda percent: not _excludes_0(at(percent / 100)))
        if several:
            hedge = f"holds if error shared by annotators is less than {share} % of the variance they agree on"
        else:
            hedge = holds_above(max(1 - share / 100, LEAST_RELIABILITY))
        return noted(estimate, hedge)


def kept_columns(trials: pd.DataFrame) -> list[str]:
    """Return the available columns on the precision of scores: single human ratings, and the scale."""
    return [name for name in ("ratings", "annotators", "scale") if name in trials]


def with_missing_scores(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with missing scores replaced by placeholders, to recover the planned items."""
    scores = trials["asked"] == "score" if "asked" in trials else pd.Series(True, trials.index)
    return completed(trials, np.where(scores, 0.0, math.nan))


def _excludes_0(estimate: Estimate) -> bool:
    return estimate.ci_low > 0 or estimate.ci_high < 0
