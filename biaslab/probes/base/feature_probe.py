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
from biaslab.probes.base.own_protocol import protocol_column
from biaslab.probes.base.score_probe import ScoreProbe
from biaslab.stats import (
    LEAST_RELIABILITY,
    Corrected,
    Estimate,
    Level,
    Resampling,
    correlation_difference,
    disattenuated_difference,
    estimate_correlation,
    holds_above,
    linear_model,
    slope_at_equal,
)

_ASSUMED = (0.85, 0.7, 0.55, 0.4, LEAST_RELIABILITY)  # reliabilities; estimates go one way as it falls


@dataclass(frozen=True)
class FeatureProbe(ScoreProbe):
    """Base for probes that regress a judge's score on a text feature, controlling for human scores.

    Its further parameters are those of `biaslab.probes.base.ScoreProbe`.

    **Measurement error.** Human scores are noisy proxies for quality. If better texts are also longer, controlling for
    a noisy score leaves residual confounding, and an accurate judge looks biased. When items have ratings from several
    annotators (``ratings``, ``annotators``), slopes are corrected by errors-in-variables regression (Fuller 1987) and
    correlations for attenuation, both by cross-products of different annotators. With one rating an item the error is
    unknown: ``note`` says which reliability a finding needs, `sensitivity` gives estimates at assumed ones, and the
    verdict is inconclusive unless the finding holds down to .3, below which nothing is tested. Errors that annotators
    share remain; ``note`` says how large they would have to be to explain a finding.

    Parameters
    ----------
    reliability : float, optional
        Share of the variance of mean human scores that is no error, within contexts (over all items for what is
        pooled), .3 to 1, assumed in place of the one that single ratings show; see `sensitivity`.

    Attributes
    ----------
    feature : str
        The column of items that scores may follow.

    Raises
    ------
    InputError
        If a value lies outside its range.
    """

    feature: ClassVar[str]

    reliability: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reliability is not None and not LEAST_RELIABILITY <= self.reliability <= 1:
            raise InputError("reliability", self.reliability, f"a number from {LEAST_RELIABILITY} to 1, or None")

    def _rated_questions(self, dataset: Dataset) -> Iterator[tuple[Question, dict[str, Scalar]]]:
        """Yield the question for each score, and the columns of the single human ratings where there are several."""
        ratings = ratings_by_item(dataset)
        known = protocol_column(self.protocol)
        for question in self.questions(dataset):
            item = question.item
            yield question, known | ratings.get((item.context_id, item.candidate_id, question.attribute), {})

    def _likelihood_trial(
        self, question: Question, text: str, condition: Mapping[str, Scalar], own: bool = True
    ) -> Trial:
        """Plan the likelihood of a question's candidate or, if not its ``own`` text, of another such as its source."""
        item, attributes = question.item, (question.attribute,)
        candidates, texts = ((item.candidate_id,), (text,)) if own else ((), ())
        about = About(item.context_id, candidates, texts, attributes, source=not own)
        return Trial(
            Likelihood(text, about=about), item.context_id, *attributes, item.candidate_id, condition=condition
        )

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score or, of a likelihood, the log perplexity, −mean log P of a token; and the status."""
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
        """Estimate what human errors touch at assumed reliabilities of the mean human score.

        Parameters
        ----------
        trials : pandas.DataFrame
            As `estimate` takes them.
        reliabilities : sequence of float
            .3 to 1. At 1 human scores are taken as they are.
        metrics : sequence of str, optional
            Some of the slopes and excess correlations; all primary ones by default.

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

    def _slope(self, items: pd.DataFrame, within_contexts: bool = True, covariates: Sequence[str] = ()) -> Estimate:
        """Regress the score, in standard deviations, on the feature and the human score; return the slope.

        Parameters
        ----------
        items : pandas.DataFrame
            One row an item: ``context_id, score, human``, the feature and, where they are known, ``ratings,
            annotators``.
        within_contexts : bool
            Give each context an intercept of its own.
        covariates : sequence of str
            Further columns to control for.
        """
        rated = items[items["human"].notna()]
        spread = float(rated["score"].std()) if len(rated) > 1 else 0.0
        standardised = rated.assign(score=rated["score"] / (spread or 1.0))
        return self._slope_given_quality(standardised, self.resampling, within_contexts, covariates)

    def _slope_given_quality(
        self,
        items: pd.DataFrame,
        resampling: Resampling,
        within_contexts: bool = True,
        covariates: Sequence[str] = (),
    ) -> Estimate:
        """Regress the score on the feature, controlling for human score and covariates; return the slope.

        Parameters are those of `_slope`; level and clusters are those of ``resampling``.
        """
        formula = " + ".join([*covariates, self.feature, "human"])
        options = {"within": within_contexts, "level": resampling.level, "clusters": resampling.clusters}
        return self._allowing_for_errors(
            items,
            lambda: linear_model(items, f"score ~ {formula}", **options)[self.feature],  # type: ignore[arg-type]
            lambda rated: slope_at_equal(rated, "score", self.feature, resampling, within_contexts, covariates),
        )

    def _excess(self, items: pd.DataFrame, level: Level) -> Estimate:
        """Return the judge's correlation with the feature minus the humans', tested against 0.

        Within contexts both are rank correlations of few candidates, and in half of the contexts they are the same. A
        sign-flip test then has a type-I error of .005 with 8 contexts of 3 candidates, not .05, and a studentised
        bootstrap covers about .92 with 24. Interval and test are therefore Student's t over contexts, also where the
        humans' correlation is corrected for attenuation.

        Parameters
        ----------
        items : pandas.DataFrame
            As for `_slope`.
        level : {"context", "dataset"}
            As for `biaslab.stats.correlation_intervals.correlation_difference`, which this is at the level of the data
            set. At that of contexts the bootstrap is only for intervals other than the studentised one.
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
        """Correct an estimate for errors of human scores, as far as they are known; note what would explain a finding.

        Parameters
        ----------
        items : pandas.DataFrame
            As for `_slope`.
        uncorrected : callable
            Returns the estimate that takes human scores as they are.
        correct : callable
            Maps items to estimates at a share of the variance of human scores that is error, or is shared error where
            the items have ratings of several annotators.
        """
        unrated = without_ratings(items)
        if self.reliability is not None:
            return correct(unrated)(1 - self.reliability)
        several = has_several_ratings(items)
        corrected = correct(items) if several else None
        estimate = corrected(0.0) if corrected else uncorrected()
        if not _excludes_0(estimate):
            return estimate
        at = corrected or correct(unrated)
        share = bisect_left(range(100), True, key=lambda percent: not _excludes_0(at(percent / 100)))
        if several:
            hedge = f"holds if errors that annotators share are less than {share} % of the variance that they agree on"
        else:
            hedge = holds_above(1 - share / 100)
        return replace(estimate, note="; ".join(filter(None, (estimate.note, hedge))))


def rating_columns(trials: pd.DataFrame) -> list[str]:
    """Return which columns of single human ratings trials have; those of earlier versions have none."""
    return [name for name in ("ratings", "annotators") if name in trials]


def has_several_ratings(items: pd.DataFrame) -> bool:
    """Return whether some item has ratings of several annotators, so that the error in human scores is known."""
    return "ratings" in items and bool(items["ratings"].fillna("").str.contains(" ", regex=False).any())


def without_ratings(items: pd.DataFrame) -> pd.DataFrame:
    """Return items of which only the mean human score is known."""
    return items.drop(columns=["ratings", "annotators"], errors="ignore")


def over_reliabilities(estimate: Estimate, at: Corrected) -> Estimate:
    """Return an estimate with the interval and the test that hold whatever the reliability of human scores, .3 to 1.

    Parameters
    ----------
    estimate : Estimate
        That takes human scores as they are.
    at : Corrected
        The estimate at a share of their variance that is error.
    """
    each = [estimate, *(at(1 - reliability) for reliability in _ASSUMED)]
    ends = [(one.ci_low, one.ci_high) for one in each]
    if np.isnan(ends).any():
        why_not = "no test: how reliable human scores are is not known, and nothing can be said of every reliability"
        nothing = dict.fromkeys(("ci_low", "ci_high", "p_value", "mde"), math.nan)
        return replace(estimate, **nothing, note="; ".join(filter(None, (estimate.note, why_not))))
    return replace(
        estimate,
        ci_low=min(low for low, _ in ends),
        ci_high=max(high for _, high in ends),
        p_value=max(one.p_value for one in each),
        mde=max(one.mde for one in each),
        method=f"{estimate.method}; at every reliability of human scores from {LEAST_RELIABILITY} to 1",
    )


def _excludes_0(estimate: Estimate) -> bool:
    return estimate.ci_low > 0 or estimate.ci_high < 0
