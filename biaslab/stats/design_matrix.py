"""Design matrices for regressions: read a formula, take out contexts' means, find the terms the data identify."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.errors import InputError, TrialsError
from biaslab.stats.intervals import ROUNDING

Floats = NDArray[np.float64]


def read_formula(frame: pd.DataFrame, formula: str, context: str) -> tuple[Floats, Floats, list[str], NDArray[np.intp]]:
    """Return outcome, variables, their names, and the number of each row's context."""
    import patsy  # type: ignore[import-untyped]

    if context not in frame.columns:
        raise TrialsError("frame columns", list(frame.columns), f"the column of the context, {context!r}")
    known = frame[frame[context].notna()].reset_index(drop=True)
    if known.select_dtypes("number").isin([np.inf, -np.inf]).any(axis=None):
        raise InputError("frame", math.inf, "finite numbers, and NaN where there is none")
    try:
        y, x = patsy.dmatrices(formula, known, return_type="dataframe")
    except (patsy.PatsyError, ValueError) as error:
        raise InputError("formula", formula, f"a formula over the columns of the frame ({error})") from None
    if y.shape[1] != 1:
        raise InputError("formula", formula, "an outcome that is one number a row")
    return y.to_numpy(float)[:, 0], x.to_numpy(float), list(x.columns), pd.factorize(known.loc[x.index, context])[0]


def demeaned(columns: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return each column less the mean of its context; what is left of a constant after rounding is 0."""
    count = np.bincount(codes)
    means = np.column_stack([np.bincount(codes, column) / count for column in columns.T])
    left = columns - means[codes]
    return np.where(np.abs(left) <= ROUNDING * np.abs(columns).max(axis=0, initial=0.0), 0.0, left)


def identified(y: Floats, x: Floats, names: list[str], contexts: int) -> tuple[list[int], dict[str, str]]:
    """Return the numbers of the terms that can be estimated, first come first served, and why the others cannot."""
    if contexts < 2:
        reason = "undefined: no row is left" if contexts == 0 else "undefined: one context only"
        return [], dict.fromkeys(names, reason)
    if np.ptp(y) <= ROUNDING * np.abs(y).max():
        return [], dict.fromkeys(names, "undefined: the outcome does not vary")
    kept: list[int] = []
    reasons: dict[str, str] = {}
    scale = np.abs(x).max(axis=0)
    scaled = x / np.where(scale > 0, scale, 1.0)
    for k, name in enumerate(names):
        if np.linalg.matrix_rank(scaled[:, [*kept, k]], tol=1e-9 * math.sqrt(len(x))) > len(kept):
            kept.append(k)
        else:
            reasons[name] = "undefined: the term does not vary apart from the others"
    if len(kept) >= len(x):
        return [], dict.fromkeys(names, "undefined: as many terms as rows")
    return kept, reasons
