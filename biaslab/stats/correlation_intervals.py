"""Correlations with humans, and differences between two judges', with intervals and tests over contexts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.stats import weighted_correlation as weighted
from biaslab.stats.correlation import Level, Method, check_options, context_correlations, correlation, paired, rounded
from biaslab.stats.estimate import Estimate, Resampling, undefined
from biaslab.stats.jackknife import Scale, Statistic, cluster_difference, cluster_statistic, on_blocks
from biaslab.stats.resampling import cluster_ratio

Floats = NDArray[np.float64]
_BOUNDS = (-1.0, 1.0)
#: Contexts × contexts counts are held for Kendall's tau; with more contexts it is recomputed resample by resample.
_LARGEST = 2000


def estimate_correlation(
    frame: pd.DataFrame,
    x: str,
    y: str,
    resampling: Resampling,
    level: Level = "context",
    method: Method = "spearman",
    context: str = "context_id",
    system: str = "system",
    null: float | None = None,
) -> Estimate:
    """Correlate two columns, such as a judge's and the mean human score, with an interval over contexts.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate. Rows where either score is missing are left out.
    x, y : str
        Columns of numbers.
    resampling : Resampling
        How to resample: `biaslab.stats.resampling.cluster_ratio` at the level of contexts (each context's correlation
        is one number), `biaslab.stats.jackknife.cluster_statistic` at the others.
    level : {"context", "dataset", "system"}
        As for `biaslab.stats.correlation.correlation`. At the level of systems the interval is for these systems and
        other contexts, not for other systems; rank correlations there have a percentile interval and no test.
    method : {"spearman", "kendall", "pearson"}
        As there.
    context, system : str
        Columns of the context, always read, and of the system, read at its level.
    null : float, optional
        Value under the null hypothesis; none means no test.

    Returns
    -------
    Estimate
        The value is that of `correlation`; ``n_contexts`` counts those that enter.

    Raises
    ------
    InputError
        If level or method is unknown, or a score is infinite.
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"context_id": [*"aaabbbcccddd"], "judge": [1, 2, 3] * 4, "human": [1, 2, 3, 2, 1, 3] * 2})
    >>> found = estimate_correlation(frame, "judge", "human", Resampling())
    >>> round(found.estimate, 3), found.n_contexts
    (0.75, 4)
    """
    check_options(level, method)
    keys = [context, system] if level == "system" else [context]
    given = paired(frame, [x, y], keys)
    if level == "context":
        values = context_correlations(given, x, y, method, context)
        defined = ~np.isnan(values)
        found = cluster_ratio(np.where(defined, values, 0.0), defined, resampling, null, _BOUNDS)
        reason = "no context in which both scores vary"
        return found if found.n_contexts else replace(found, note=reason)
    whole = correlation(given, x, y, level, method, context, system)
    if math.isnan(whole.value):
        return undefined(whole.reason, given[context].nunique())
    make, contexts = arranged(given, [x, y], level, method, keys)
    if level == "system" and method != "pearson":
        return _of_ranked_systems(make(0, 1), contexts, resampling, _BOUNDS)
    scale: Scale = "plain" if level == "system" else "fisher"
    return cluster_statistic(make(0, 1), contexts, resampling, null, _BOUNDS, scale=scale)


def correlation_difference(
    frame: pd.DataFrame,
    first: str,
    second: str,
    y: str,
    resampling: Resampling,
    level: Level = "context",
    method: Method = "spearman",
    context: str = "context_id",
    system: str = "system",
) -> Estimate:
    """Estimate how much better one column correlates with `y` than another does, on the same candidates.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate. Rows where any of the three scores is missing are left out.
    first, second, y : str
        Columns of numbers: two judges', say, and the mean human score.
    resampling, level, method, context, system
        As for `estimate_correlation`. At the level of contexts, those enter where all three scores vary.

    Returns
    -------
    Estimate
        Correlation of the first with y minus that of the second, tested against 0; both are recomputed with the same
        resampled contexts.

    Examples
    --------
    >>> import pandas as pd
    >>> scores = {"one": [1, 2, 3] * 4, "two": [3, 2, 1] * 4, "human": [1, 2, 3, 2, 1, 3] * 2}
    >>> frame = pd.DataFrame({"context_id": [*"aaabbbcccddd"], **scores})
    >>> correlation_difference(frame, "one", "two", "human", Resampling()).estimate
    1.5
    """
    check_options(level, method)
    keys = [context, system] if level == "system" else [context]
    given = paired(frame, [first, second, y], keys)
    if level == "context":
        firsts, seconds = (context_correlations(given, x, y, method, context) for x in (first, second))
        both = ~np.isnan(firsts) & ~np.isnan(seconds)
        found = cluster_ratio(np.where(both, firsts - seconds, 0.0), both, resampling, 0.0, (-2.0, 2.0))
        return found if found.n_contexts else replace(found, note="no context in which all three scores vary")
    for x in (first, second):
        whole = correlation(given, x, y, level, method, context, system)
        if math.isnan(whole.value):
            return undefined(whole.reason, given[context].nunique())
    make, contexts = arranged(given, [first, second, y], level, method, keys)
    one, two = make(0, 2), make(1, 2)
    if level == "system" and method != "pearson":
        return _of_ranked_systems(lambda weights: one(weights) - two(weights), contexts, resampling, (-2.0, 2.0))
    return cluster_difference(one, two, contexts, resampling)


def _of_ranked_systems(
    statistic: Statistic, contexts: int, resampling: Resampling, bounds: tuple[float, float]
) -> Estimate:
    """Estimate with a percentile interval and no test: a context more or less makes ranks jump or changes nothing."""
    method = "percentile" if resampling.method == "studentised" else resampling.method
    found = cluster_statistic(statistic, contexts, replace(resampling, method=method), None, bounds)
    note = "ranks of systems jump: no test, and the coverage of the interval is not established"
    return replace(found, note="; ".join(filter(None, [found.note, note])))


def arranged(
    given: pd.DataFrame, columns: list[str], level: Level, method: Method, keys: list[str]
) -> tuple[Callable[[int, int], Statistic], int]:
    """Return what makes the statistic of two of the columns, and the number of contexts.

    Rows are sorted by scores within contexts and contexts by their rows, so that a seed gives the same resamples
    however contexts are named or ordered.
    """
    scores = np.column_stack([rounded(given[column].to_numpy(float)) for column in columns])
    systems = pd.factorize(given[keys[1]], sort=True)[0] if level == "system" else np.zeros(len(given), np.intp)
    codes, names = pd.factorize(given[keys[0]])
    order = np.lexsort((systems, *scores.T[::-1], codes))
    scores, systems, codes = scores[order], systems[order], codes[order]
    blocks = np.split(np.column_stack([scores, systems]), np.flatnonzero(np.diff(codes)) + 1)
    blocks = sorted(blocks, key=lambda block: block.tobytes())
    rows, codes = np.concatenate(blocks), np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])

    def make(i: int, j: int) -> Statistic:
        if level == "system":
            return weighted.by_system(rows[:, i], rows[:, j], codes, rows[:, -1].astype(np.intp), method)
        if method == "kendall" and len(blocks) > _LARGEST:
            return on_blocks([block[:, [i, j]] for block in blocks], _kendall_of)
        return weighted.pooled(rows[:, i], rows[:, j], codes, method)

    return make, len(names)


def _kendall_of(drawn: list[Floats]) -> float:
    frame = pd.DataFrame(np.concatenate(drawn), columns=["x", "y"])
    return correlation(frame, "x", "y", "dataset", "kendall").value
