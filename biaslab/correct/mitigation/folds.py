"""The parts into which contexts are cut, so that nothing is applied where it was fitted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def held_out(context: pd.Series, labelled: Mask, folds: int) -> Iterator[tuple[Mask, Mask]]:
    """Yield where to fit and where to apply it: labelled contexts are dealt in turn, all others use every label.

    Examples
    --------
    >>> context, labelled = pd.Series(["a", "b", "c"]), np.array([True, False, True])
    >>> [(np.flatnonzero(fit).tolist(), np.flatnonzero(use).tolist()) for fit, use in held_out(context, labelled, 2)]
    [([0, 2], [1]), ([2], [0]), ([0], [2])]
    """
    codes, names = pd.factorize(context)
    known = np.unique(codes[labelled])
    fold = np.full(len(names), -1)
    fold[known] = np.arange(len(known)) % folds
    for each in np.unique(fold):
        here = fold[codes] == each
        yield labelled & ~here, here
