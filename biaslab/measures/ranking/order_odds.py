"""Estimate advantages in logits, such as that of the first position, from counts of decisions."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from biaslab.stats import Estimate, Resampling, cluster_statistic, sum_by_context

Floats = NDArray[np.float64]
_TINY = 1e-15  # probabilities are kept off 0 and 1, where a logit is infinite
_MISSING = "undefined: no pair where the first wins both orders, or none where the second does; use more samples"


def first_position_log_odds(blocks: pd.DataFrame, resampling: Resampling, null: float | None = 0.0) -> Estimate:
    """Estimate half the common log odds ratio of "i beats j" between both orders, from counts.

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
    counts = {}
    for order in ("ij", "ji"):
        decided = blocks[f"first_{order}"].notna()
        samples = blocks[f"samples_{order}"].fillna(1.0).where(decided, 0.0)
        counts[f"first_{order}"] = blocks[f"first_{order}"].fillna(0.0) * samples
        counts[f"second_{order}"] = samples - counts[f"first_{order}"]
    table = pd.DataFrame(counts).groupby([blocks["context_id"], blocks["pair"]], sort=False).sum()
    won_and_lost = table["first_ij"], table["second_ij"], table["second_ji"], table["first_ji"]
    return common_log_odds(table.index.get_level_values(0), *won_and_lost, resampling, null, _MISSING, 0.5)


def common_log_odds(
    context: ArrayLike,
    won: ArrayLike,
    lost: ArrayLike,
    won_there: ArrayLike,
    lost_there: ArrayLike,
    resampling: Resampling,
    null: float | None = 0.0,
    missing: str = "undefined: no stratum has decisions for both sides",
    share: float = 1.0,
) -> Estimate:
    """Estimate the common log odds ratio of strata (Mantel–Haenszel), with a jackknife over contexts.

    Parameters
    ----------
    context : array_like, shape (strata,)
        The context of each stratum.
    won, lost, won_there, lost_there : array_like of float, shape (strata,)
        Decisions for and against under the condition of interest, and under the other one.
    resampling, null
        As for `first_position_log_odds`.
    missing : str
        What to note where it is undefined.
    share : float
        Of the log odds ratio to estimate: ½ where both conditions lie as far from what is compared with.

    Examples
    --------
    >>> round(common_log_odds(list("ab"), [3, 3], [1, 1], [1, 2], [3, 2], Resampling()).estimate, 3)  # log(15 / 3)
    1.609
    """
    wins, losses, wins_there, losses_there = (np.asarray(v, float) for v in (won, lost, won_there, lost_there))
    total = np.maximum(wins + losses + wins_there + losses_there, 1e-300)
    up, down = wins * losses_there / total, losses * wins_there / total
    sums = sum_by_context(resampling.cluster_of(context), up, down)[0]

    def shared_log_odds(weights: Floats) -> Floats:
        up, down = (weights @ sums).T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(up / down) * share, float)

    return cluster_statistic(shared_log_odds, len(sums), resampling, null, missing=missing, inference="t")


def is_counted(trials: pd.DataFrame) -> bool:
    """Check whether values are verdicts or shares of samples, so that log odds are taken of their mean."""
    sampled = "samples" in trials and bool(trials["samples"].notna().any())
    return sampled or (len(trials) > 0 and bool(trials["value"].isin([0.0, 0.5, 1.0]).all()))


def log_odds(p: Floats) -> Floats:
    """Return log odds, clipped to be finite."""
    odds: Floats = logit(np.clip(p, _TINY, 1 - _TINY))
    return odds
