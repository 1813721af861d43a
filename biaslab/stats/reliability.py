"""Krippendorff's alpha: how far several annotators, or several samples of one judge, agree beyond chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import krippendorff
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from biaslab.checks import require_one_of
from biaslab.errors import InputError, TrialsError
from biaslab.stats.blocks import number_items

Measurement = Literal["interval", "ordinal", "nominal"]
#: The package holds units × values × values numbers; beyond this many the same formula is summed directly.
LARGEST = 20_000_000
_SAME = "all scores are the same"


class Alpha(NamedTuple):
    """Krippendorff's alpha and what it rests on.

    Parameters
    ----------
    value : float
        1 is perfect agreement, 0 what chance gives, below 0 systematic disagreement; NaN where it is
        undefined.
    reason : str
        Why the value is NaN; empty otherwise.
    n_units : int
        Units with at least two scores; the others do not enter.
    n_scores : int
        Scores of these units.
    """

    value: float
    reason: str
    n_units: int
    n_scores: int


def krippendorff_alpha(
    scores: pd.DataFrame,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
) -> float:
    """Return Krippendorff's alpha of tidy scores; NaN where it is undefined (`explain_alpha` says why).

    Parameters
    ----------
    scores : pandas.DataFrame
        One row per unit × annotator. Missing scores are allowed, as NaN or as no row. Pass one attribute at a
        time: alpha over several mixes their disagreement.
    level : {"interval", "ordinal", "nominal"}
        Distance between two scores: squared difference, squared difference of ranks, or equal and not equal.
    units : sequence of str, optional
        Columns that identify a unit; all but ``annotator`` and ``score`` unless given.
    annotator, score : str
        Columns of the annotator and of the score (numbers).

    Returns
    -------
    float
        At most 1; computed by the package `krippendorff`.

    Raises
    ------
    InputError
        If the level is unknown or a score is infinite.
    TrialsError
        If a column is missing, or an annotator scored a unit twice.

    References
    ----------
    Krippendorff 2019, *Content Analysis*, 4th ed., ch. 12.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"item": [1, 1, 2, 2], "annotator": ["a", "b"] * 2, "score": [1, 1, 5, 4]})
    >>> round(krippendorff_alpha(frame), 4)
    0.9412
    """
    return explain_alpha(scores, level, units, annotator, score).value


def explain_alpha(
    scores: pd.DataFrame,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
) -> Alpha:
    """Return Krippendorff's alpha with the reason where it is undefined.

    Parameters are those of `krippendorff_alpha`. It is undefined when there are fewer than two annotators, no
    unit has two scores, or all scores that can be paired are the same: then nothing tells agreement from
    chance.

    Examples
    --------
    >>> import pandas as pd
    >>> explain_alpha(pd.DataFrame({"item": [1, 1], "annotator": ["a", "b"], "score": [3, 3]})).reason
    'all scores are the same'
    """
    found = _pairable(scores, level, units, annotator, score)
    if isinstance(found, str):
        return Alpha(math.nan, found, 0, 0)
    codes, values, ranks = found
    size = (int(codes.max()) + 1, len(codes))
    if len(values) == 1:
        return Alpha(math.nan, _SAME, *size)
    if size[0] * len(values) ** 2 > LARGEST:
        return Alpha(_sum_directly(codes, values[ranks], level), "", *size)
    counts = np.zeros((size[0], len(values)), dtype=np.int64)
    np.add.at(counts, (codes, ranks), 1)
    alpha = krippendorff.alpha(value_counts=counts, value_domain=values, level_of_measurement=level)
    return Alpha(float(alpha), "", *size)


def why_undefined(
    scores: pd.DataFrame,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
) -> str:
    """Return the reason of `explain_alpha` without computing alpha; empty where alpha is defined."""
    found = _pairable(scores, level, units, annotator, score)
    if isinstance(found, str):
        return found
    return _SAME if len(found[1]) == 1 else ""


def _pairable(
    scores: pd.DataFrame, level: Measurement, units: Sequence[str] | None, annotator: str, score: str
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64], npt.NDArray[np.intp]] | str:
    """Return unit and number of each score that can be paired, and the distinct scores; or why there is none."""
    require_one_of("level", level, get_args(Measurement))
    given, keys = _scored(scores, units, annotator, score)
    if given[annotator].nunique() < 2:
        return "fewer than two annotators"
    unit, _ = number_items(given, keys)
    paired = np.bincount(unit)[unit] > 1
    if not paired.any():
        return "no unit has two scores"
    values, ranks = np.unique(given[score].to_numpy(float)[paired], return_inverse=True)
    return pd.factorize(unit[paired])[0], values, ranks


def _scored(
    scores: pd.DataFrame, units: Sequence[str] | None, annotator: str, score: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that have a score, on a fresh index, and the columns that identify a unit."""
    keys = [c for c in scores.columns if c not in (annotator, score)] if units is None else list(units)
    missing = [column for column in (*keys, annotator, score) if column not in scores.columns]
    if missing or not keys:
        raise TrialsError("scores columns", missing or keys, f"unit columns, {annotator!r} and {score!r}")
    given = scores[scores[score].notna()].reset_index(drop=True)
    infinite = np.isinf(given[score].to_numpy(float))
    if infinite.any():
        raise InputError(f"score column {score!r}", math.inf, "finite numbers, and NaN where there is none")
    rating, firsts = number_items(given, [*keys, annotator])
    if len(firsts) < len(given):
        repeated = np.flatnonzero(firsts[rating] != np.arange(len(given)))[0]
        first = given.iloc[repeated][[*keys, annotator]].to_dict()
        raise TrialsError("scores", first, "one score per unit and annotator", "pass the columns of the unit")
    return given, keys


def _sum_directly(codes: npt.NDArray[np.intp], scores: npt.NDArray[np.float64], level: Measurement) -> float:
    """Return alpha from sums over units: needs memory in proportion to the scores, whatever their values.

    The ordinal distance of two values is the squared difference of their midranks. For the nominal one, the
    pairs within a unit that differ are all pairs less those that are equal.
    """
    sizes = np.bincount(codes)
    n = len(scores)
    if level == "nominal":
        pairs = pd.DataFrame({"unit": codes, "value": scores}).value_counts()
        unit = pairs.index.get_level_values("unit").to_numpy()
        equal = np.bincount(unit, pairs.to_numpy() * (pairs.to_numpy() - 1.0))
        observed = float(((sizes * (sizes - 1.0) - equal) / (sizes - 1)).sum())
        totals = np.unique(scores, return_counts=True)[1]
        return 1 - observed / ((n * n - float((totals.astype(float) ** 2).sum())) / (n - 1))
    x = stats.rankdata(scores) if level == "ordinal" else scores
    x = x - x.mean()
    within = sizes * np.bincount(codes, x**2) - np.bincount(codes, x) ** 2
    observed = float((2 * within / (sizes - 1)).sum())
    return 1 - observed / (2 * n * float((x**2).sum()) / (n - 1))
