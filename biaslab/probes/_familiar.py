"""What `Familiarity` and `Verbosity` estimate of scores and a feature of the text: excess, slope, tables by score."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from biaslab.stats import (
    ITEM,
    Estimate,
    Level,
    Ratio,
    Resampling,
    correlation_difference,
    linear_model,
    usable,
)


def excess(blocks: pd.DataFrame, level: Level, resampling: Resampling, feature: str = "log_perplexity") -> Estimate:
    """Return the judge's correlation with a feature of the text minus the humans', tested against 0.

    Within contexts both are rank correlations of few candidates, and in half of the contexts they are the same. A
    sign-flip test then has a type-I error of .005 with 8 contexts of 3 candidates, not .05, and a studentised bootstrap
    covers about .92 with 24. Interval and test are therefore Student's t over contexts.

    Parameters
    ----------
    blocks : pandas.DataFrame
        One row an item: ``context_id, score, human`` and the feature.
    level : {"context", "dataset"}
        As for `biaslab.stats.correlation_intervals.correlation_difference`, which this is at the level of the data set.
    resampling : Resampling
        How to resample; at the level of contexts only where another interval than the studentised one is wanted.
    feature : str
        Column of the feature.
    """
    return correlation_difference(blocks, "score", "human", feature, resampling, level, inference="t")


def slope(blocks: pd.DataFrame, within: bool, resampling: Resampling, feature: str = "log_perplexity") -> Estimate:
    """Return how many standard deviations the judge's score moves per unit of a feature at equal human score.

    Parameters
    ----------
    blocks : pandas.DataFrame
        One row an item: ``context_id, score, human`` and the feature.
    within : bool
        Give each context an intercept of its own.
    resampling : Resampling
        Its level and clusters.
    feature : str
        Column of the feature.
    """
    known = blocks[blocks["human"].notna()]
    spread = float(known["score"].std()) if len(known) > 1 else 0.0
    frame = known.assign(score=known["score"] / (spread or 1.0))
    formula, clusters = f"score ~ {feature} + human", resampling.clusters
    return linear_model(frame, formula, within=within, level=resampling.level, clusters=clusters)[feature]


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
