"""Bound pair metrics over all values that missing judgements could take."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Floats
from biaslab.core.errors import MissingDataWarning
from biaslab.measures.ranking import pairs
from biaslab.stats import Ratio, completed, has_value, note_missing

_ORDERED = ["context_id", "candidate_id", "opponent_id", "replicate"]


def missing_data_bounds(trials: pd.DataFrame) -> dict[str, tuple[Ratio, Ratio]]:
    """Return pair metrics with missing judgements set to minimise, and to maximise, the metric.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of one cell, as for `biaslab.ranking.pairs.both_orders`. All pairs requested in both orders are
        used, even if only one order was answered.

    Returns
    -------
    dict of str to tuple of Ratio
        ``first_position_rate``, ``comparative_accuracy``, ``order_consistency`` and ``tie_rate``; for ``extremes`` of
        `biaslab.stats.ratio.Ratio`. See `biaslab.stats.missing`.
    """
    planned = _planned(trials)
    known = planned[["p_ij", "p_ji"]].notna().to_numpy()
    won = planned[["first_ij", "first_ji"]].to_numpy(float)
    context, gap = planned["context_id"].repeat(2), np.outer(planned["human_gap"].to_numpy(float), (1, -1)).ravel()
    right = (gap > 0).astype(float)

    def put(value: Floats | float) -> Floats:
        return np.where(known.ravel(), won.ravel(), value)

    alike, apart = (_consistency(context, known, won, same) for same in (True, False))
    return {
        "first_position_rate": (
            pairs.first_position_rate(planned["context_id"], put(0.0).reshape(known.shape)),
            pairs.first_position_rate(planned["context_id"], put(1.0).reshape(known.shape)),
        ),
        "comparative_accuracy": (
            pairs.comparative_accuracy(context, put(1 - right), gap),
            pairs.comparative_accuracy(context, put(right), gap),
        ),
        "order_consistency": (apart, alike),
        "tie_rate": (pairs.tie_rate(context, put(0.0)), pairs.tie_rate(context, put(np.nan))),
    }


def note_missing_pairs(trials: pd.DataFrame) -> str:
    """Return a note if judgements are missing more often when the better candidate is shown first, or second."""
    better = np.sign(trials["human_gap"].to_numpy(float))
    better[better == 0] = np.nan
    return note_missing(trials["context_id"], ~has_value(trials), better, "whether the better candidate is shown first")


def _planned(trials: pd.DataFrame) -> pd.DataFrame:
    """Return both orders of each pair as requested, with p = NaN if missing."""
    once = trials.iloc[np.argsort(~has_value(trials), kind="stable")].drop_duplicates(_ORDERED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)  # about pairs requested in one order only
        return pairs.both_orders(completed(once, np.nan), "")


def _consistency(context: pd.Series, known: Bools, won: Floats, same: bool) -> Ratio:
    """Return the consistency if missing verdicts agree with the other order, or contradict it."""
    reversed_known, twin = known[:, ::-1], won[:, ::-1]
    neither = np.array([1.0, 0.0]) if same else np.ones(2)
    like = 1 - twin if same else np.where(np.isnan(twin), 1.0, twin)
    filled = np.where(known, won, np.where(reversed_known, like, neither))
    return pairs.order_consistency(context, filled.ravel(), filled[:, ::-1].ravel())
