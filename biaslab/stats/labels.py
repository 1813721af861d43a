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


def expected_score(scores: Sequence[float], logprobs: Sequence[float], temperature: float = 1.0) -> float:
    """Return the expected score at a temperature, as in G-Eval (Liu et al. 2023), without sampling.

    Parameters
    ----------
    scores : sequence of float, shape (labels,)
        The number that each label stands for.
    logprobs, temperature
        As for `tempered`.

    Examples
    --------
    >>> round(expected_score([1, 2, 3], np.log([0.2, 0.3, 0.5])), 2)
    2.3
    """
    return mean_of_samples(scores, logprobs, 1, temperature)[0]


def mean_of_samples(
    scores: Sequence[float], logprobs: Sequence[float], n: int, temperature: float = 1.0
) -> tuple[float, float]:
    """Return mean and standard deviation of the mean of N sampled scores.

    Parameters
    ----------
    scores, logprobs, temperature
        As for `expected_score`.
    n : int
        Number of samples, at least 1.

    Returns
    -------
    tuple of float
        Mean and standard deviation, in points of the scale; NaN where no label has any probability.

    Raises
    ------
    InputError
        If ``n`` is below 1, or there are not as many scores as log-probabilities.

    Examples
    --------
    >>> mean_of_samples([0, 1], np.log([0.5, 0.5]), n=25)
    (0.5, 0.1)
    """
    if n < 1:
        raise InputError("n", n, "at least one sample")
    values = np.asarray(scores, float)
    if values.shape != np.shape(logprobs):
        raise InputError("scores", values.shape, f"one score a label, shape {np.shape(logprobs)}")
    p = tempered(logprobs, temperature)
    mean = float(p @ values)
    return mean, float(np.sqrt(p @ (values - mean) ** 2 / n))
