"""The advantage of standing first, in logits, from decisions that are counted rather than from probabilities."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.stats import Estimate, Resampling, cluster_statistic, sum_by_context

Floats = NDArray[np.float64]
_MISSING = "undefined: no pair takes the first in both orders, or none the second; more samples may show both"


def first_position_log_odds(blocks: pd.DataFrame, resampling: Resampling, null: float | None = 0.0) -> Estimate:
    """Estimate half the log odds ratio of "i beats j" between both orders, common to all pairs, from counts.

    A pair is a stratum: its two orders are the rows of a 2 × 2 table, decisions for i and for j the columns. With
    logits q + θ and q − θ of i's winning, the odds ratio is exp(2θ) whatever q. Mantel and Haenszel's estimator needs
    few decisions a stratum; of one decision an order it is the ratio of pairs that take the first twice to those that
    take the second twice. Interval and test: Student's t on the jackknife over contexts.

    Parameters
    ----------
    blocks : pandas.DataFrame
        Made by `biaslab.ranking.pairs.both_orders`.
    resampling : Resampling
        Of the estimate.
    null : float, optional
        What is tested; none means no test.

    Returns
    -------
    Estimate
        In logits. Where logits scatter from request to request, beyond what candidates and order explain, it is nearer
        to 0 than their mean, as odds ratios of averages are; undefined, with the reason, where no pair is informative.

    References
    ----------
    Mantel & Haenszel 1959, *Statistical aspects of the analysis of data from retrospective studies of disease*, JNCI
    22; Efron & Stein 1981, *The jackknife estimate of variance*, Annals of Statistics 9.

    Examples
    --------
    >>> blocks = pd.DataFrame({"context_id": list("aabbccdd"), "pair": range(8)})
    >>> blocks = blocks.assign(samples_ij=np.nan, first_ij=[1, 1, 1, 0] * 2)
    >>> blocks = blocks.assign(samples_ji=np.nan, first_ji=[1, 1, 0, 0] * 2)
    >>> round(first_position_log_odds(blocks, Resampling()).estimate, 3)  # ½ log(4 / 2)
    0.347
    """
    sums = _informative(blocks, resampling)

    def log_odds(weights: Floats) -> Floats:
        up, down = (weights @ sums).T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(up / down) / 2, float)

    return cluster_statistic(log_odds, len(sums), resampling, null, missing=_MISSING, inference="t")


def _informative(blocks: pd.DataFrame, resampling: Resampling) -> Floats:
    """Return what the pairs of each context, or cluster of them, add to both sums, shape (contexts, 2)."""
    counts = {}
    for order in ("ij", "ji"):
        decided = blocks[f"first_{order}"].notna()
        samples = blocks[f"samples_{order}"].fillna(1.0).where(decided, 0.0)
        counts[f"first_{order}"] = blocks[f"first_{order}"].fillna(0.0) * samples
        counts[f"second_{order}"] = samples - counts[f"first_{order}"]
    table = pd.DataFrame(counts).groupby([blocks["context_id"], blocks["pair"]], sort=False).sum()
    total = table.sum(axis=1).clip(lower=1e-300)
    up = table["first_ij"] * table["first_ji"] / total
    down = table["second_ij"] * table["second_ji"] / total
    return sum_by_context(resampling.cluster_of(table.index.get_level_values(0)), up, down)[0]
