"""Check that trials' values are in range: probabilities between 0 and 1, scores on their scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Floats
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.scales import REWARD, scale_named

_ROUNDING, _BEYOND = 1e-6, 0.25  # the second as a share of the scale's width
_UNIT = (0.0, 1.0)


def require_values(trials: pd.DataFrame) -> None:
    """Raise `TrialsError` if a value is outside the range of its request.

    Probabilities (of a pair's first candidate, or of a label) lie between 0 and 1. Scores lie on their scale, or on the
    human scale after `biaslab.mitigation.human_scale`, and up to a quarter of its width beyond, for regression
    evaluators. Log perplexities and unknown scales have no range.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of one cell, with ``value``.

    Examples
    --------
    >>> try:
    ...     require_values(pd.DataFrame({"opponent_id": ["b"], "value": [7.0]}))
    ... except TrialsError as error:
    ...     error.value, error.allowed
    (7.0, 'from 0 to 1, the probability that the first candidate is better')
    """
    try:
        values = trials["value"].to_numpy(float)
    except (TypeError, ValueError) as error:
        words = f"of the type {trials['value'].dtype}"
        raise TrialsError("value", words, "a numeric column", "load the saved table with its dtypes") from error
    for rows, (low, high), what in _ranges(trials, values):
        beyond = _BEYOND * (high - low) if (low, high) != _UNIT else _ROUNDING
        outside = rows & ((values < low - beyond) | (values > high + beyond))
        if outside.any():
            allowed = f"from {low:g} to {high:g}, {what}"
            remedy = f"check the source of the values; {int(outside.sum())} of {len(values)} are out of range"
            raise TrialsError("value", float(values[outside][0]), allowed, remedy)


def in_points(trials: pd.DataFrame) -> Floats:
    """Return the values of a cell's trials, with unbounded scores in standard deviations.

    Examples
    --------
    >>> in_points(pd.DataFrame({"scale": ["reward"] * 3, "value": [-30.0, 0.0, 30.0]})).tolist()
    [-1.0, 0.0, 1.0]
    """
    values = trials["value"].to_numpy(float)
    rewards = (trials["scale"] == REWARD.name).to_numpy(bool) if "scale" in trials else np.array([False])
    scored = np.isfinite(values) & rewards
    spread = float(values[scored].std(ddof=1)) if scored.sum() > 1 else 0.0
    return np.where(rewards, values / spread, values) if spread else values


def _ranges(trials: pd.DataFrame, values: Floats) -> Iterator[tuple[Bools, tuple[float, float], str]]:
    """Yield selections of rows with their range and the meaning of their values."""
    if not len(values) or (np.nanmin(values, initial=np.inf) >= 0 and np.nanmax(values, initial=-np.inf) <= 1):
        return
    pairs = _has(trials, "opponent_id")
    yield pairs, _UNIT, "the probability that the first candidate is better"
    labels = _has(trials, "label")
    if "asked" in trials:
        labels = labels | (trials["asked"] == "label").to_numpy()
    yield labels & ~pairs, _UNIT, "the probability of a label"
    if "scale" not in trials:
        return
    scores = _has(trials, "scale") & ~pairs & ~labels
    human = trials["human"].to_numpy(float) if "human" in trials else np.array([])
    for name in trials.loc[scores, "scale"].unique():
        try:
            scale = scale_named(str(name))
        except InputError:  # an unknown scale
            continue
        low = np.nanmin(human, initial=scale.low)
        high = np.nanmax(human, initial=scale.high)
        yield scores & (trials["scale"] == name).to_numpy(), (float(low), float(high)), f"a score on the scale {name}"


def _has(trials: pd.DataFrame, column: str) -> Bools:
    """Return which rows have a non-empty value in a column."""
    if column not in trials:
        return np.zeros(len(trials), dtype=bool)
    present: Bools = (trials[column].notna() & (trials[column] != "")).to_numpy(dtype=bool)
    return present
