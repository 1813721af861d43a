"""Nodes and weights that integrate over normal noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_REACH = 8.5  # standard deviations; beyond lies less than 1e-16
_COARSEST, _FINEST = 0.25, 0.002


def normal_rule(ratio: float, smooth: bool = True) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights for the mean of a function of a standard normal number.

    The trapezoidal rule on an even grid: for analytic functions its error falls exponentially with the number of nodes
    (Trefethen and Weideman 2014, The exponentially convergent trapezoidal rule, SIAM Review 56), also where the
    function rises too steeply for the fixed nodes of Gauss and Hermite.

    Parameters
    ----------
    ratio : float
        Standard deviation of the noise over the width of what it moves; 0 is no noise.
    smooth : bool
        Whether the function is; a function with steps gets the finest grid, which is right to about 1e-3.

    Examples
    --------
    >>> nodes, weights = normal_rule(1.0)
    >>> round(float(weights @ nodes**4), 9)
    3.0
    """
    if ratio == 0:
        return np.zeros(1), np.ones(1)
    step = max(min(_COARSEST, 0.5 / ratio), _FINEST) if smooth else _FINEST
    nodes = step * np.arange(-np.ceil(_REACH / step), np.ceil(_REACH / step) + 1)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()
