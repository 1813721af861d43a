"""Mean perplexity of the texts that get a given score, from a judge and from humans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pandas as pd

from biaslab.stats import ITEM, Ratio, usable


def shares_of_judge(trials: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each item at each of the judge's scores: one row per label or per sample."""
    scores = usable(trials[trials["asked"] == "label"])
    if len(scores):
        scores = scores.assign(score=scores["label"], share=scores["value"])
    else:
        scores = usable(trials[trials["asked"] == "score"])
        samples = scores.groupby(list(ITEM))["value"].transform("size")
        scores = scores.assign(score=scores["value"], share=1 / samples)
    return scores[[*ITEM, "score", "share"]].merge(blocks[[*ITEM, "log_perplexity"]], on=list(ITEM))


def shares_of_humans(blocks: pd.DataFrame, humans: Literal["means", "single"]) -> pd.DataFrame:
    """Return each item at its mean human score (rounded, halves up), or in equal parts at its single ratings."""
    rated = blocks[blocks["human"].notna()]
    if humans == "single" and "ratings" in rated:
        ratings = rated["ratings"].fillna(rated["human"].map(repr)).str.split()
        parts = rated.assign(score=ratings, share=1 / ratings.map(len)).explode("score")
        return parts.astype({"score": float})
    return rated.assign(score=np.floor(rated["human"] + 0.5), share=1.0)


def by_score(shares: pd.DataFrame) -> Iterator[tuple[float, Ratio, Ratio]]:
    """Yield each score, the mean perplexity of the items with it, and their share."""
    share, context = shares["share"].to_numpy(float), shares["context_id"]
    perplexity = np.exp(shares["log_perplexity"].to_numpy(float))
    for score in sorted(shares["score"].unique()):
        here = share * (shares["score"].to_numpy(float) == score)
        yield float(score), Ratio(context, here * perplexity, here), Ratio(context, here, share, bounds=(0.0, 1.0))
