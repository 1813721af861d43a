"""What `Familiarity` and `Verbosity` estimate of scores and a feature of the text: excess, slope, tables by score."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.probes.base import ScoreProbe
from biaslab.stats import (
    ITEM,
    LEAST_RELIABILITY,
    Corrected,
    Estimate,
    Level,
    Ratio,
    Resampling,
    correlation_difference,
    disattenuated_difference,
    estimate_correlation,
    linear_model,
    slope_at_equal,
    usable,
)


@dataclass(frozen=True)
class EqualQuality(ScoreProbe):
    """A probe of what a judge rewards at equal quality, as humans see quality: what they err in is taken out.

    Its further parameters are those of `biaslab.probes.base.ScoreProbe`.

    Parameters
    ----------
    reliability : float, optional
        Share of the variance of mean human scores that is no error, within contexts (over all items for what is
        pooled), above .1 to 1, assumed in place of the one that single ratings show; see `sensitivity`.

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
        if self.reliability is not None and not LEAST_RELIABILITY < self.reliability <= 1:
            raise InputError("reliability", self.reliability, f"a number above {LEAST_RELIABILITY} to 1, or None")

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
            Above .1 to 1. At 1 human scores are taken as they are.
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
        found = [replace(self, reliability=r).estimate(trials, wanted).assign(reliability=r) for r in reliabilities]
        return pd.concat(found, ignore_index=True)

    def _slope(self, items: pd.DataFrame, within: bool = True, beside: Sequence[str] = ()) -> Estimate:
        """Return how many standard deviations the judge's score moves per unit of the feature at equal human score.

        Parameters
        ----------
        items : pandas.DataFrame
            One row an item: ``context_id, score, human``, the feature and, where they are known, ``ratings,
            annotators``.
        within : bool
            Give each context an intercept of its own.
        beside : sequence of str
            Further columns that are held equal.
        """
        known = items[items["human"].notna()]
        spread = float(known["score"].std()) if len(known) > 1 else 0.0
        return self._at_equal(known.assign(score=known["score"] / (spread or 1.0)), self.resampling, within, beside)

    def _at_equal(
        self, frame: pd.DataFrame, resampling: Resampling, within: bool = True, beside: Sequence[str] = ()
    ) -> Estimate:
        """Return what the column ``score`` gains per unit of the feature at equal human score and all that is beside.

        Parameters
        ----------
        frame : pandas.DataFrame
            As for `_slope`, with the columns beside.
        resampling : Resampling
            Its level and clusters.
        within : bool
            Give each context an intercept of its own.
        beside : sequence of str
            Further columns that are held equal.
        """
        level, clusters, plain = resampling.level, resampling.clusters, " + ".join([*beside, self.feature, "human"])
        return self._allowing_for_errors(
            frame,
            lambda: linear_model(frame, f"score ~ {plain}", within=within, level=level, clusters=clusters)[
                self.feature
            ],
            lambda given: slope_at_equal(given, "score", self.feature, resampling, within, beside),
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
        return self._allowing_for_errors(
            items,
            lambda: correlation_difference(
                items, "score", "human", self.feature, self.resampling, level, inference="t"
            ),
            lambda given: disattenuated_difference(given, "score", self.feature, self.resampling, level),
        )

    def _correlation(self, items: pd.DataFrame, scorer: str, level: Level) -> Estimate:
        """Return the correlation of the feature with the scores of the judge or of humans, tested against 0."""
        column = "score" if scorer == "judge" else scorer
        return estimate_correlation(items, column, self.feature, self.resampling, level, null=0.0)

    def _allowing_for_errors(
        self,
        items: pd.DataFrame,
        plain: Callable[[], Estimate],
        correct: Callable[[pd.DataFrame], Corrected],
    ) -> Estimate:
        """Return the estimate less what humans err in, as far as it is known, and note what would explain a finding."""
        unrated = items.drop(columns=["ratings", "annotators"], errors="ignore")
        if self.reliability is not None:
            return correct(unrated)(1 - self.reliability)
        several = "ratings" in items and items["ratings"].fillna("").str.contains(" ", regex=False).any()
        corrected = correct(items) if several else None
        found = corrected(0.0) if corrected else plain()
        if not _excludes_0(found):
            return found
        at = corrected or correct(unrated)
        share = bisect_left(range(100), True, key=lambda percent: not _excludes_0(at(percent / 100)))
        if several:
            hedge = f"holds if errors that annotators share are less than {share} % of the variance that they agree on"
        else:
            hedge = f"holds if human scores, one rating an item, have a reliability above {1 - share / 100:.2f}"
        return replace(found, note="; ".join(filter(None, (found.note, hedge))))


def single_columns(trials: pd.DataFrame) -> list[str]:
    """Return which columns of single human scores trials have; those of earlier versions have none."""
    return [name for name in ("ratings", "annotators") if name in trials]


def _excludes_0(found: Estimate) -> bool:
    return found.ci_low > 0 or found.ci_high < 0


def judged(cell: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """Return how much of each item is at each score of the judge: one row a label, or one a sample."""
    given = usable(cell[cell["asked"] == "label"])
    if len(given):
        given = given.assign(score=given["label"], share=given["value"])
    else:
        given = usable(cell[cell["asked"] == "score"])
        samples = given.groupby(list(ITEM))["value"].transform("size")
        given = given.assign(score=given["value"], share=1 / samples)
    return given[[*ITEM, "score", "share"]].merge(blocks[[*ITEM, "log_perplexity"]], on=list(ITEM))


def rated(blocks: pd.DataFrame, single: bool = False) -> pd.DataFrame:
    """Return each item whole at its mean human score, rounded, halves up; or in equal parts at its single ratings."""
    known = blocks[blocks["human"].notna()]
    if single and "ratings" in known:
        ratings = known["ratings"].fillna(known["human"].map(repr)).str.split()
        parts = known.assign(score=ratings, share=1 / ratings.map(len)).explode("score")
        return parts.astype({"score": float})
    return known.assign(score=np.floor(known["human"] + 0.5), share=1.0)


def by_score(given: pd.DataFrame) -> Iterator[tuple[float, Ratio, Ratio]]:
    """Yield each score, the mean perplexity of what has it, and the share of items that have it."""
    share, context = given["share"].to_numpy(float), given["context_id"]
    perplexity = np.exp(given["log_perplexity"].to_numpy(float))
    for score in sorted(given["score"].unique()):
        here = share * (given["score"].to_numpy(float) == score)
        yield float(score), Ratio(context, here * perplexity, here), Ratio(context, here, share, bounds=(0.0, 1.0))
