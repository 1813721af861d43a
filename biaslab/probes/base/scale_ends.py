"""Detect crowding of scores at the ends of a scale, where scores are not linear in quality."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.scales import REWARD, Scale, scale_named

_CROWDED = 0.2  # share of scores at an end above which linearity in quality is not assumed


def crowded_end(items: pd.DataFrame) -> str:
    """Return a message if more than a fifth of the scores lie at one end of their scale, else "".

    Examples
    --------
    >>> crowded_end(pd.DataFrame({"scale": "1-5", "score": [5.0, 4.6, 3.0, 2.0, 4.4]}))
    '40 % of scores lie at the top of the scale'
    """
    names = items["scale"].unique().tolist() if "scale" in items else []
    scale = bounded_scale(names[0]) if len(names) == 1 else None
    if scale is None:
        return ""
    worth, score = np.array(scale.values), items["score"].to_numpy(float)
    shares = {"top": np.mean(score > worth[-2:].mean()), "bottom": np.mean(score < worth[:2].mean())}
    end = max(shares, key=lambda name: shares[name])
    return f"{100 * shares[end]:.0f} % of scores lie at the {end} of the scale" if shares[end] > _CROWDED else ""


def bounded_scale(name: object) -> Scale | None:
    """Return the named scale; None if it is unbounded or unknown."""
    try:
        scale = scale_named(str(name))
    except InputError:
        return None
    return None if scale is REWARD else scale


def width_of(scale: object) -> float:
    """Return the width of a scale in points; infinite if it is unbounded or unknown."""
    known = bounded_scale(scale)
    return known.high - known.low if known else math.inf
