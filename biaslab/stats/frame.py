"""The estimates frame: one scalar a row, with its uncertainty, the only thing that plots, tables and papers see."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from biaslab.errors import InputError, MissingDataWarning, TrialsError
from biaslab.stats.estimate import Estimate
from biaslab.stats.inference import Resampling

Floats = NDArray[np.float64]
#: More than this share of judgements missing is warned of.
MISSING_SHARE = 0.05

LEADING = ("probe", "judge", "dataset", "metric")
TRAILING = (
    "estimate",
    "se",
    "ci_low",
    "ci_high",
    "ci_level",
    "bound_low",
    "bound_high",
    "p_value",
    "q_value",
    "mde",
    "n_contexts",
    "n_trials",
    "n_dropped",
    "method",
    "seed",
    "note",
)


def estimate_rows(
    estimates: Mapping[str, Estimate], cell: Mapping[str, Any], resampling: Resampling, n_trials: int, n_dropped: int
) -> list[dict[str, Any]]:
    """Return one row an estimate of one cell, ready for `estimates_frame`.

    Parameters
    ----------
    estimates : mapping of str to Estimate
        By name of the metric.
    cell : mapping
        Judge, data set and the condition columns.
    resampling : Resampling
        How uncertainty was computed.
    n_trials, n_dropped : int
        Judgements that enter, and that were planned but do not.
    """
    counts = {"n_trials": n_trials, "n_dropped": n_dropped}
    settings = {"ci_level": resampling.level, "seed": resampling.seed}
    return [{"metric": m, **cell, **asdict(found), **counts, **settings} for m, found in estimates.items()]


def estimates_frame(
    rows: Sequence[Mapping[str, Any]],
    probe: str,
    primary: Sequence[str],
    conditions: Sequence[str],
) -> pd.DataFrame:
    """Put rows into the frame and add q-values.

    Parameters
    ----------
    rows : sequence of mapping
        Made by `estimate_rows`.
    probe : str
        Name of the probe.
    primary : sequence of str
        Metrics that form the family of the q-values.
    conditions : sequence of str
        Names of the condition columns, in order.

    Returns
    -------
    pandas.DataFrame
        ``probe, judge, dataset, metric, <conditions>, estimate, se, ci_low, ci_high, ci_level, bound_low,
        bound_high, p_value, q_value, mde, n_contexts, n_trials, n_dropped, method, seed, note``.
    """
    columns = {name: [row.get(name, np.nan) for row in rows] for name in (*LEADING, *conditions, *TRAILING)}
    p_values = np.array(columns["p_value"], float)
    family = np.isin(columns["metric"], list(primary)) & ~np.isnan(p_values)
    q_values = np.full(len(rows), np.nan)
    q_values[family] = adjust(p_values[family])
    return pd.DataFrame(columns | {"probe": [probe] * len(rows), "q_value": q_values})


def adjust(p_values: ArrayLike) -> Floats:
    """Return the q-values of one family of tests; reject where they are at most the level.

    That keeps the expected share of false discoveries below the level under independence and positive dependence
    (Benjamini & Hochberg 1995).

    Parameters
    ----------
    p_values : array_like, shape (tests,)
        From 0 to 1. NaN is no test: it stays NaN and does not count.

    Returns
    -------
    numpy.ndarray, shape (tests,)

    Raises
    ------
    InputError
        If a p-value lies outside 0 to 1.

    Examples
    --------
    >>> adjust([0.01, 0.02, float("nan"), 0.04]).tolist()
    [0.03, 0.03, nan, 0.04]
    """
    given = np.asarray(p_values, float)
    known = ~np.isnan(given)
    family = given[known]
    if ((family < 0) | (family > 1)).any():
        raise InputError("p_values", family.tolist(), "numbers from 0 to 1, and NaN where there is none")
    adjusted = np.full(given.shape, np.nan)
    if family.size:
        adjusted[known] = stats.false_discovery_control(family)
    return adjusted


def choose_metrics(known: Sequence[str], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the metrics that are wanted, all known ones when ``wanted`` is None, in the order of the known ones.

    Raises
    ------
    InputError
        If one is unknown or none is wanted; the message lists the known ones.

    Examples
    --------
    >>> choose_metrics(("rate", "logit"), ["logit"])
    ('logit',)
    """
    if wanted is None:
        return tuple(known)
    unknown = [wanted] if isinstance(wanted, str) else [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise InputError("metrics", unknown or wanted, f"a list of some of {', '.join(known)}")
    return tuple(name for name in known if name in wanted)


def require_columns(frame: pd.DataFrame, wanted: Sequence[str], what: str) -> None:
    """Raise `TrialsError` if a frame lacks one of the columns that are read from it."""
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise TrialsError(what, f"without {', '.join(missing)}", f"a frame with the columns {', '.join(wanted)}")


def warn_missing(what: str, missing: int, planned: int, why: str) -> None:
    """Warn if more than 5 % of the planned judgements do not enter an estimate.

    Parameters
    ----------
    what : str
        What is estimated.
    missing, planned : int
        Judgements that do not enter, and that were planned.
    why : str
        Why they do not, after "because".

    Warns
    -----
    MissingDataWarning
        Naming what is estimated.
    """
    if missing > MISSING_SHARE * planned:
        message = (
            f"{what}: {missing} of {planned} judgements do not enter, because {why}; what is missing may bias the rest"
        )
        warnings.warn(message, MissingDataWarning, stacklevel=3)
