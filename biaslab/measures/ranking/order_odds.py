"""Estimate advantages in logits, for example of the first position, from counts of decisions."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import logit

from biaslab.core.arrays import Floats
from biaslab.stats import Estimate, Resampling, cluster_statistic, sum_by_context

_TINY = 1e-15  # keeps probabilities off 0 and 1, where the logit is infinite
_MISSING = "undefined: no pair where the first wins both orders, or none where the second does; use more samples"


def first_position_log_odds(blocks: pd.DataFrame, resampling: Resampling, null: float | None = 0.0) -> Estimate:
    """Estimate half the common log odds ratio of "i beats j" between both orders, from counts.

    Each pair is a stratum: its two orders are the rows of a 2 × 2 table, decisions for i and for j the columns. If i
    wins with logits q + θ and q − θ in the two orders, the odds ratio is exp(2θ) whatever q. The Mantel–Haenszel
    estimator works with few decisions per stratum; with one decision per order it is the ratio of pairs in which the
    first wins both times to pairs in which the second does. Interval and test: Student's t on the jackknife over
    contexts.

    Parameters
    ----------
    blocks : pandas.DataFrame
        As made by `biaslab.ranking.pairs.both_orders`.
    resampling : Resampling
        Settings of the estimate.
    null : float, optional
        Null value; None for no test.

    Returns
    -------
    Estimate
        In logits. If logits vary between requests beyond what candidates and order explain, it is closer to 0 than
        their mean, like any odds ratio of averages; undefined, with the reason, if no pair is informative.

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
        Decisions for and against: under the condition of interest, and under the other one.
    resampling, null
        As in `first_position_log_odds`.
    missing : str
        Note if the estimate is undefined.
    share : float
        Share of the log odds ratio to estimate: ½ if the reference lies halfway between both conditions.

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
    """Check whether values are verdicts or sample shares, so that log odds are taken of their mean."""
    sampled = "samples" in trials and bool(trials["samples"].notna().any())
    return sampled or (len(trials) > 0 and bool(trials["value"].isin([0.0, 0.5, 1.0]).all()))


def log_odds(p: Floats) -> Floats:
    """Return log odds, clipped to be finite."""
    odds: Floats = logit(np.clip(p, _TINY, 1 - _TINY))
    return odds
