"""Scores at the ends of their scale, where a point more of quality makes less than a point of score."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.scales import REWARD, Scale, scale_named

_CROWDED = 0.2  # share of scores at an end from which on they are no straight line of quality


def crowded_end(items: pd.DataFrame) -> str:
    """Return that more than a fifth of the scores lie nearest to one end of their scale; "" where they do not.

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
    """Return the scale of a name; None where it has no ends, or nobody knows them."""
    try:
        scale = scale_named(str(name))
    except InputError:
        return None
    return None if scale is REWARD else scale


def width_of(scale: object) -> float:
    """Return the width of a scale in points; infinite where it has no ends, or nobody knows them."""
    known = bounded_scale(scale)
    return known.high - known.low if known else math.inf
