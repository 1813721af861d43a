"""Missing judgements: bounds on their effect, and tests whether missingness depends on the condition.

A refused judgement has a value that was not observed. Without assumptions about it, a mean is only known to lie in an
interval: from all missing values at their minimum to all at their maximum (Horowitz & Manski 2000, *Nonparametric
analysis of randomized experiments with missing covariate and outcome data*, JASA 95(449), §3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from biaslab.core.arrays import Bools
from biaslab.core.errors import InputError
from biaslab.stats.blocks import has_value, whole_blocks
from biaslab.stats.estimate import Note, is_above, notes_of
from biaslab.stats.ratio import Ratio
from biaslab.stats.reliability import depends_on_reliability
from biaslab.stats.resample import Resampling

_ALPHA = 0.05


def completed(trials: pd.DataFrame, values: ArrayLike) -> pd.DataFrame:
    """Return trials with missing values replaced by a given value.

    Parameters
    ----------
    trials : pandas.DataFrame
        With ``value`` and ``status``.
    values : array_like of float, shape (trials,) or ()
        The replacements.

    Examples
    --------
    >>> trials = pd.DataFrame({"value": [0.3, np.nan], "status": ["ok", "refused"]})
    >>> completed(trials, 1.0)["value"].tolist()
    [0.3, 1.0]
    """
    missing = ~has_value(trials)
    value, status = np.where(missing, values, trials["value"]), np.where(missing, "ok", trials["status"])
    return trials.assign(value=value, status=status)


def shift_extremes(
    trials: pd.DataFrame,
    condition: str,
    levels: Sequence[Any],
    ends: tuple[float, float],
    shift: Callable[[pd.DataFrame], Ratio],
) -> tuple[Ratio, Ratio]:
    """Return the smallest and largest shift between two conditions that missing scores allow.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials of one cell.
    condition : str
        Column of the conditions.
    levels : sequence of two
        The condition of interest, and the one to compare it with.
    ends : tuple of float
        Minimum and maximum score.
    shift : callable
        Maps blocks (`biaslab.stats.blocks.whole_blocks`) to the mean of first minus second.

    Returns
    -------
    tuple of Ratio
        With every missing score of the first condition at the minimum and of the second at the maximum, and the
        reverse; for ``extremes`` of `biaslab.stats.ratio.Ratio`.
    """
    if len(levels) != 2:
        raise InputError("levels", levels, "two levels of the condition", "list the compared level, then the reference")

    def filled(values: Mapping[Any, float]) -> Ratio:
        whole = completed(trials, trials[condition].map(values).astype(float))
        return shift(whole_blocks(whole, condition, levels, None, keep=()))

    (first, second), (low, high) = levels, ends
    return filled({first: low, second: high}), filled({first: high, second: low})


def plausible_intervals(record: Mapping[Any, Any]) -> dict[str, tuple[float, float]]:
    """Return the intervals that nothing rules out, by what they allow for beyond sampling error.

    Parameters
    ----------
    record : mapping
        A row of an estimates frame: ``ci_low``, ``ci_high``, and, if known, ``bound_low``, ``bound_high`` and
        ``notes``.

    Returns
    -------
    dict of str to tuple of float
        ``""``: the confidence interval. ``"missing"``: the missing-data bounds, unlimited if nothing bounds what is
        missing. ``"reliability"``: from the lowest to the highest end over the reliabilities that human scores may
        have, unlimited if the estimate only notes that it depends on them. ``"noise"``: the same of the judge's scores.
        ``"peak"``: of an index of heaping, less what a smooth peak of the scores explains.

    Examples
    --------
    >>> plausible_intervals({"ci_low": 0.52, "ci_high": 0.6, "bound_low": 0.48, "bound_high": 0.9})
    {'': (0.52, 0.6), 'missing': (0.48, 0.9)}
    """
    notes, everything = notes_of(record), (-math.inf, math.inf)
    intervals = {"": (float(record["ci_low"]), float(record["ci_high"]))}
    low, high = (float(record.get(name, math.nan)) for name in ("bound_low", "bound_high"))
    if not (math.isnan(low) or math.isnan(high)):
        intervals["missing"] = low, high
    elif "unbounded" in notes:
        intervals["missing"] = everything
    if depends_on_reliability(record):
        intervals["reliability"] = everything
    elif over := notes.get("over_reliabilities"):
        intervals["reliability"] = float(over["low"]), float(over["high"])
    if noise := notes.get("judge_noise"):
        intervals["noise"] = float(noise["low"]), float(noise["high"])
    if peak := notes.get("narrow_peak"):
        intervals["peak"] = float(peak["low"]), float(peak["high"])
    return intervals


def first_doubt(record: Mapping[Any, Any], low: float = -math.inf, high: float = math.inf) -> str | None:
    """Return the first plausible interval that does not lie between two values; None if all do.

    A verdict is what survives everything that is not ruled out: an estimate is above a null if all plausible intervals
    are, and shows no bias that matters if all lie within the margin.

    Parameters
    ----------
    record : mapping
        As in `plausible_intervals`.
    low, high : float
        The values.

    Examples
    --------
    >>> row = {"ci_low": 0.52, "ci_high": 0.6, "bound_low": 0.48, "bound_high": 0.7}
    >>> first_doubt(row, low=0.5), first_doubt(row, low=0.4, high=0.8)
    ('missing', None)
    """
    for name, (least, most) in plausible_intervals(record).items():
        if not ((math.isinf(low) or is_above(least, low)) and (math.isinf(high) or is_above(high, most))):
            return name
    return None


def missing_by_condition(context: ArrayLike, missing: ArrayLike, condition: ArrayLike) -> float:
    """Test whether the share of missing judgements differs between conditions.

    Parameters
    ----------
    context, condition : array_like, shape (judgements,)
        The context and the condition of each planned judgement; those with a NaN condition are ignored.
    missing : array_like of bool, shape (judgements,)
        Whether it is missing.

    Returns
    -------
    float
        The p-value of Student's t over contexts for the difference between two rates; with more than two conditions,
        that of the condition that differs most from the rest times the number of conditions (Bonferroni). NaN if there
        is nothing to compare.

    Examples
    --------
    >>> context, first = np.repeat(np.arange(8), 4), np.tile([True, True, False, False], 8)
    >>> round(missing_by_condition(context, first & (np.arange(32) % 3 > 0), first), 4)
    0.0078
    """
    home, lost = np.asarray(context), np.asarray(missing, float)
    codes, levels = pd.factorize(np.asarray(condition))
    sides = range(1 if len(levels) == 2 else len(levels)) if len(levels) > 1 else ()
    p_values = [_differing(home, lost, codes == side, (codes != side) & (codes >= 0)) for side in sides]
    known = [p for p in p_values if not np.isnan(p)]
    return min(1.0, min(known) * len(sides)) if known else float("nan")


def _differing(home: NDArray[Any], lost: NDArray[Any], one: Bools, other: Bools) -> float:
    first, second = (Ratio(home[at], lost[at], np.ones(at.sum()), inference="t") for at in (one, other))
    return first.difference(second, Resampling(n=100)).p_value


def note_missing(context: ArrayLike, missing: ArrayLike, condition: ArrayLike, what: str) -> tuple[Note, ...]:
    """Return a note if more judgements are missing under one condition than another.

    Parameters
    ----------
    context, missing, condition
        As in `missing_by_condition`.
    what : str
        Description of the condition.

    Returns
    -------
    tuple of Note
        Empty unless the test rejects at .05.
    """
    if not np.any(missing):
        return ()
    p_value = missing_by_condition(context, missing, condition)
    values: dict[str, float | str] = {"condition": what, "p_value": float(f"{p_value:.2g}")}
    return (Note("depends_on_condition", values),) if p_value < _ALPHA else ()
