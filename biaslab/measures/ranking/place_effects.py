"""List metrics: the effect of a candidate's position, and agreement between orders.

For two candidates these equal the metrics of pairs (`biaslab.measures.ranking.pairs`), up to rounding.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from biaslab.core.arrays import Floats
from biaslab.measures.ranking.list_blocks import ListBlocks
from biaslab.measures.ranking.order_odds import common_log_odds
from biaslab.stats import Estimate, Ratio, Resampling

_UNIT = (0.0, 1.0)
_NO_DECISION = "undefined: no order has a single best candidate"
_NO_ODDS = "undefined: no two orders both choose the first, or none chooses the other's first; use more lists"


def place_rate(blocks: ListBlocks, place: int, tested: bool = False) -> Ratio:
    """Return the share of decisions for the candidate at a position (from 0; -1 is the last); the null is 1/k."""
    best = blocks.best[:, :, place]
    decided = np.isfinite(best).sum(axis=1)
    null, method = (1 / blocks.k, "score" if blocks.k == 2 else "t") if tested else (None, "resampling")
    return Ratio(blocks.context, np.nansum(best, axis=1), decided, null, _UNIT, _NO_DECISION, method)  # type: ignore[arg-type]


def place_excess(blocks: ListBlocks, place: int, resampling: Resampling) -> Estimate:
    """Estimate the share of decisions for a position minus 1/k, with the test and interval of the share."""
    rate = place_rate(blocks, place, tested=True).estimate(resampling)
    fair = 1 / blocks.k
    excess = {name: getattr(rate, name) - fair for name in ("estimate", "ci_low", "ci_high")}
    return replace(rate, **excess)


def first_place_logit(blocks: ListBlocks, resampling: Resampling) -> Ratio | Estimate:
    """Return the advantage of the first position in log odds against each other position, adjusted for candidates.

    For exact probabilities: the mean over orders of log p at the first position minus the mean of log p at the others;
    over a Latin square the candidates' worths cancel. For decisions: half the common log odds ratio of two orders of a
    list, with i first in one and j in the other: how often each order's first candidate is chosen over the other
    order's (Mantel–Haenszel, with a pair of orders as the stratum).
    """
    if not blocks.exact:
        return _counted_logit(blocks, resampling)
    advantage = blocks.log_shares[:, :, 0].mean(axis=1) * blocks.k / (blocks.k - 1)
    return Ratio(blocks.context, advantage, np.ones(len(advantage)), 0.0, None, _NO_DECISION, "t")


def _counted_logit(blocks: ListBlocks, resampling: Resampling) -> Estimate:
    """Estimate it from counts of decisions, summed over replicates."""
    counts = np.nan_to_num(blocks.by_candidate(blocks.best)) * np.nan_to_num(blocks.samples, nan=1.0)[..., None]
    codes, names = pd.factorize(blocks.context)
    total = np.zeros((len(names), *counts.shape[1:]))
    np.add.at(total, codes, counts)
    first = np.zeros((len(names), counts.shape[1]), int)
    first[codes] = blocks.who[:, :, 0]
    strata = [_of_two_orders(total, first, *two) for two in combinations(range(counts.shape[1]), 2)]
    won, lost, won_there, lost_there = np.concatenate(strata, axis=1)
    context = np.tile(names, len(strata))
    return common_log_odds(context, won, lost, won_there, lost_there, resampling, 0.0, _NO_ODDS, 0.5)


def _of_two_orders(counts: Floats, first: NDArray[np.int_], one: int, other: int) -> Floats:
    """Return decisions, shape (4, contexts): in each of two orders, for its own first and for the other's first."""
    rows, i, j = np.arange(len(counts)), first[:, one], first[:, other]
    four = [counts[rows, order, who] for order in (one, other) for who in (i, j)]
    return np.where(i != j, np.array(four), 0.0)


def same_best(blocks: ListBlocks) -> Ratio:
    """Return how often two orders of a list have the same best candidate, or neither has one."""
    best = blocks.by_candidate(blocks.best)
    decided = np.isfinite(best[:, :, 0]).astype(float)
    best = np.nan_to_num(best)
    agree = np.einsum("boc,bpc->bop", best, best) + (1 - decided)[:, :, None] * (1 - decided)[:, None, :]
    return _mean_of_pairs(blocks, agree)


def same_best_resampled(blocks: ListBlocks) -> Ratio:
    """Return how often two samples of one request have the same best candidate: the noise floor of `same_best`.

    Computed from exact probabilities, from sample shares without bias, or between replicates.
    """
    if not blocks.exact and not np.isfinite(blocks.samples).any():
        return _between_replicates(blocks, np.nan_to_num(blocks.by_candidate(blocks.best)))
    square, n = (blocks.value**2).sum(axis=2), blocks.samples
    with np.errstate(divide="ignore", invalid="ignore"):
        unbiased = np.where(np.isnan(n), square, np.where(n > 1, (n * square - 1) / (n - 1), np.nan))
    missing = "undefined: needs at least 2 samples per request (k=2)"
    return Ratio(blocks.context, unbiased.mean(axis=1), np.ones(len(unbiased)), bounds=_UNIT, missing=missing)


def rank_consistency(blocks: ListBlocks) -> Ratio:
    """Return the mean Kendall's tau between rankings of the same list in two orders; -1 to 1."""
    ahead = _orderings(blocks.by_candidate(blocks.value))
    return _mean_of_pairs(blocks, np.einsum("bod,bpd->bop", ahead, ahead), (-1.0, 1.0))


def rank_consistency_resampled(blocks: ListBlocks) -> Ratio:
    """Return the mean Kendall's tau between two samples of one request: the noise floor of `rank_consistency`."""
    return _between_replicates(blocks, _orderings(blocks.by_candidate(blocks.value)), (-1.0, 1.0))


def mean_rank(blocks: ListBlocks, place: int) -> Ratio:
    """Return the mean rank of the candidate at a position (from 0): 1 to k, (k + 1) / 2 without a position effect."""
    ranks = blocks.value[:, :, place].mean(axis=1)
    return Ratio(blocks.context, ranks, np.ones(len(ranks)), bounds=(1.0, float(blocks.k)))


def spearman_place_rank(blocks: ListBlocks) -> Ratio:
    """Return the mean Spearman correlation of position and rank; 0 means no position effect, above 0 primacy."""
    ranks = rankdata(blocks.value, axis=2)
    places = np.arange(blocks.k) - (blocks.k - 1) / 2
    spread = float((places**2).sum())
    rho = ((ranks - (blocks.k + 1) / 2) @ places / spread).mean(axis=1)
    return Ratio(blocks.context, rho, np.ones(len(rho)), 0.0, (-1.0, 1.0), inference="t")


def _orderings(ranks: Floats) -> Floats:
    """Return which of two candidates is ahead, shape (blocks, orders, pairs), scaled so that products sum to tau-a."""
    pairs = np.array(list(combinations(range(ranks.shape[2]), 2)))
    return np.asarray(np.sign(ranks[:, :, pairs[:, 0]] - ranks[:, :, pairs[:, 1]]) / np.sqrt(len(pairs)))


def _mean_of_pairs(blocks: ListBlocks, agree: Floats, bounds: tuple[float, float] = _UNIT) -> Ratio:
    """Return the mean over pairs of orders of an agreement, shape (blocks, orders, orders)."""
    one, other = np.triu_indices(agree.shape[1], 1)
    mean = agree[:, one, other].mean(axis=1)
    return Ratio(
        blocks.context, mean, np.ones(len(mean)), bounds=bounds, missing="undefined: no list was read completely"
    )


def _between_replicates(blocks: ListBlocks, answers: Floats, bounds: tuple[float, float] = _UNIT) -> Ratio:
    """Return the mean over pairs of replicates of the product of answers, shape (blocks, orders, …)."""
    rows = pd.Series(np.arange(len(blocks.context))).groupby(blocks.context, sort=False)
    pairs = np.array([two for _, group in rows for two in combinations(group, 2)], int).reshape(-1, 2)
    agree = (answers[pairs[:, 0]] * answers[pairs[:, 1]]).sum(axis=2).mean(axis=1)
    missing = "undefined: only one replicate"
    return Ratio(blocks.context[pairs[:, 0]], agree, np.ones(len(agree)), bounds=bounds, missing=missing)
