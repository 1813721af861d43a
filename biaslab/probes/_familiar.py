"""What `Familiarity` and `Verbosity` estimate of scores and a feature of the text: excess, slope, tables by score."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from biaslab.errors import InputError
from biaslab.probes.base import ScoreProbe
from biaslab.stats import (
    ITEM,
    LEAST_RELIABILITY,
    Estimate,
    Level,
    Ratio,
    Resampling,
    correlation_difference,
    disattenuated_difference,
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

    Raises
    ------
    InputError
        If a value lies outside its range.
    """

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


def single_columns(trials: pd.DataFrame) -> list[str]:
    """Return which columns of single human scores trials have; those of earlier versions have none."""
    return [name for name in ("ratings", "annotators") if name in trials]


def excess(
    blocks: pd.DataFrame,
    level: Level,
    resampling: Resampling,
    feature: str = "log_perplexity",
    reliability: float | None = None,
) -> Estimate:
    """Return the judge's correlation with a feature of the text minus the humans', tested against 0.

    Within contexts both are rank correlations of few candidates, and in half of the contexts they are the same. A
    sign-flip test then has a type-I error of .005 with 8 contexts of 3 candidates, not .05, and a studentised bootstrap
    covers about .92 with 24. Interval and test are therefore Student's t over contexts.

    Parameters
    ----------
    blocks : pandas.DataFrame
        One row an item: ``context_id, score, human``, the feature and, where they are known, ``ratings, annotators``.
    level : {"context", "dataset"}
        As for `biaslab.stats.correlation_intervals.correlation_difference`, which this is at the level of the data set.
    resampling : Resampling
        How to resample; at the level of contexts only where another interval than the studentised one is wanted. Where
        the humans' correlation is corrected for attenuation, the interval is Student's t.
    feature : str
        Column of the feature.
    reliability : float, optional
        Of the mean human score, assumed.
    """
    options = (resampling, level)
    return _allowing_for_errors(
        blocks,
        lambda: correlation_difference(blocks, "score", "human", feature, *options, inference="t"),
        lambda given, shared: disattenuated_difference(
            given, "score", "human", feature, level, shared, resampling.level, clusters=resampling.clusters
        ),
        reliability,
    )


def slope(
    blocks: pd.DataFrame,
    within: bool,
    resampling: Resampling,
    feature: str = "log_perplexity",
    reliability: float | None = None,
) -> Estimate:
    """Return how many standard deviations the judge's score moves per unit of a feature at equal human score.

    Parameters
    ----------
    blocks : pandas.DataFrame
        One row an item: ``context_id, score, human``, the feature and, where they are known, ``ratings, annotators``.
    within : bool
        Give each context an intercept of its own.
    resampling : Resampling
        Its level and clusters.
    feature : str
        Column of the feature.
    reliability : float, optional
        Of the mean human score, assumed.
    """
    known = blocks[blocks["human"].notna()]
    spread = float(known["score"].std()) if len(known) > 1 else 0.0
    frame = known.assign(score=known["score"] / (spread or 1.0))
    level, clusters = resampling.level, resampling.clusters
    plain = f"score ~ {feature} + human"
    return _allowing_for_errors(
        frame,
        lambda: linear_model(frame, plain, within=within, level=level, clusters=clusters)[feature],
        lambda given, shared: slope_at_equal(given, "score", feature, within, shared, level, clusters=clusters),
        reliability,
    )


def _allowing_for_errors(
    frame: pd.DataFrame,
    plain: Callable[[], Estimate],
    corrected: Callable[[pd.DataFrame, float], Estimate],
    reliability: float | None,
) -> Estimate:
    """Return the estimate without what humans err in, as far as it is known, and note what would explain a finding."""
    unrated = frame.drop(columns=["ratings", "annotators"], errors="ignore")
    if reliability is not None:
        return corrected(unrated, 1 - reliability)
    several = "ratings" in frame and frame["ratings"].fillna("").str.contains(" ", regex=False).any()
    given, found = (frame, corrected(frame, 0.0)) if several else (unrated, plain())
    if not _excludes_0(found):
        return found
    share = bisect_left(range(100), True, key=lambda percent: not _excludes_0(corrected(given, percent / 100)))
    if several:
        hedge = f"holds if errors that annotators share are less than {share} % of the variance that they agree on"
    else:
        hedge = f"holds if human scores, one rating an item, have a reliability above {1 - share / 100:.2f}"
    return replace(found, note="; ".join(filter(None, (found.note, hedge))))


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


def rated(blocks: pd.DataFrame) -> pd.DataFrame:
    """Return each item whole at its mean human score, rounded, halves up."""
    known = blocks[blocks["human"].notna()]
    return known.assign(score=np.floor(known["human"] + 0.5), share=1.0)


def by_score(given: pd.DataFrame) -> Iterator[tuple[float, Ratio, Ratio]]:
    """Yield each score, the mean perplexity of what has it, and the share of items that have it."""
    share, context = given["share"].to_numpy(float), given["context_id"]
    perplexity = np.exp(given["log_perplexity"].to_numpy(float))
    for score in sorted(given["score"].unique()):
        here = share * (given["score"].to_numpy(float) == score)
        yield float(score), Ratio(context, here * perplexity, here), Ratio(context, here, share, bounds=(0.0, 1.0))
