"""Exact instead of sampled: what a label distribution says about every temperature and every number of samples.

A judge that gives the probabilities of its labels once has answered all of it: samples at temperature T follow
p_T ∝ p^(1/T), and the mean of N of them has the mean of p_T and its standard deviation divided by √N.

Notes
-----
p_T ∝ p^(1/T) is exact where every label is one token and is sure to end there. A label of several tokens is tempered
token by token when it is sampled, which this formula approximates; at T = 1 there is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from biaslab.errors import InputError


def tempered(logprobs: Sequence[float], temperature: float = 1.0) -> NDArray[np.float64]:
    """Return the distribution over labels at a temperature.

    Parameters
    ----------
    logprobs : sequence of float, shape (labels,)
        Log-probabilities at temperature 1 as `biaslab.Reply` has them, normalised or not.
    temperature : float
        0 is greedy: all on the likeliest label, shared out where several are equally likely.

    Returns
    -------
    numpy.ndarray, shape (labels,)
        Probabilities that sum to 1; all NaN where no label has any probability.

    Raises
    ------
    InputError
        If the temperature is negative or not a number.

    Examples
    --------
    >>> tempered([np.log(0.2), np.log(0.1)], temperature=0.5).round(2).tolist()
    [0.8, 0.2]
    """
    if not temperature >= 0 or np.isinf(temperature):
        raise InputError("temperature", temperature, "a finite number of at least 0")
    values = np.asarray(logprobs, float)
    if not np.isfinite(values).any():
        return np.full(values.shape, np.nan)
    if temperature == 0:
        best = values == values.max()
        return np.asarray(best / best.sum(), float)
    with np.errstate(over="ignore"):  # what lies below the maximum may fall to -inf, which is right
        p = np.exp((values - values.max()) / temperature)
    return np.asarray(p / p.sum(), float)
