"""Correlations with humans, and their differences between judges or conditions, with intervals over contexts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.correlation import Level, Method, check_options, context_correlations, correlation, paired
from biaslab.stats.estimate import Estimate, Inference, undefined
from biaslab.stats.inference import Resampling
from biaslab.stats.jackknife import Scale, Statistic, cluster_difference, cluster_statistic
from biaslab.stats.ratio import Ratio
from biaslab.stats.weighted_correlation import arranged

Constant = Literal["drop", "zero"]
_BOUNDS = (-1.0, 1.0)


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
    constant: Constant = "drop",
) -> Estimate:
    """Correlate two columns, for example a judge's and the mean human score, with an interval over contexts.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate. Rows with a missing score are dropped.
    x, y : str
        Numeric columns.
    resampling : Resampling
        Resampling settings, for `biaslab.stats.ratio.Ratio` at the level of contexts (each context's correlation is
        one number) and `biaslab.stats.jackknife.cluster_statistic` at the others.
    level : {"context", "dataset", "system"}
        As in `biaslab.stats.correlation.correlation`. At the level of systems the interval generalises to other
        contexts, not to other systems; rank correlations have a percentile interval and no test there.
    method : {"spearman", "kendall", "pearson"}
        As in `biaslab.stats.correlation.correlation`.
    context, system : str
        Columns of the context (always used) and of the system (used at its level).
    null : float, optional
        Value under the null hypothesis; None for no test.
    constant : {"drop", "zero"}
        At the level of contexts: whether contexts in which `y` varies but `x` does not, so that the correlation is
        undefined, are dropped or count as 0 (constant scores rank nothing).

    Returns
    -------
    Estimate
        The value equals that of `correlation`; ``n_contexts`` counts the contexts used.

    Raises
    ------
    InputError
        If the level or method is unknown, or a score is infinite.
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"context_id": [*"aaabbbcccddd"], "judge": [1, 2, 3] * 4, "human": [1, 2, 3, 2, 1, 3] * 2})
    >>> estimate = estimate_correlation(frame, "judge", "human", Resampling())
    >>> round(estimate.estimate, 3), estimate.n_contexts
    (0.75, 4)
    """
    check_options(level, method)
    keys = [context, system] if level == "system" else [context]
    complete = paired(frame, [x, y], keys)
    if level == "context":
        values = context_correlations(complete, x, y, method, context)
        if constant == "zero":
            spread = complete.groupby(context, sort=False)[[x, y]].nunique()
            values[((spread[x] == 1) & (spread[y] > 1)).to_numpy()] = 0.0
        missing = "in no context do both scores vary"
        return _mean(values, null, _BOUNDS, missing).estimate(resampling.numbered(complete[context].unique()))
    whole = correlation(complete, x, y, level, method, context, system)
    if math.isnan(whole.value):
        return undefined(whole.reason, complete[context].nunique())
    make, contexts = arranged(_clustered(complete, context, resampling), [x, y], level, method, keys)
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
    inference: Inference = "resampling",
) -> Estimate:
    """Estimate the difference between two columns' correlations with `y` on the same candidates.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate. Rows with any of the three scores missing are dropped.
    first, second, y : str
        Numeric columns, for example two judges' scores and the mean human score.
    resampling, level, method, context, system
        As in `estimate_correlation`. At the level of contexts, only contexts in which all three scores vary are used.
    inference : {"resampling", "t"}
        "t": at the level of contexts, the test uses Student's t, and so does the interval unless a bootstrap other
        than the studentised one is requested. Rank correlations of a few candidates take few values, often the same
        for both columns; with 24 contexts of 3 candidates (300 studies) the sign-flip test rejected a true null in .02
        of them, and the bootstrap covered .89 to .96. Student's t rejected in .044 to .056 and covered .947 to .961
        with Kendall's tau and 8, 24 and 100 contexts (20,000 studies each). At other levels the studentised interval
        and the test both use the jackknife's t.

    Returns
    -------
    Estimate
        Correlation of the first with y minus that of the second, tested against 0; both are recomputed on the same
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
    complete = paired(frame, [first, second, y], keys)
    if level == "context":
        firsts, seconds = (context_correlations(complete, x, y, method, context) for x in (first, second))

        by_number = resampling.numbered(complete[context].unique())
        missing = "in no context do all three scores vary"
        return _mean(firsts - seconds, 0.0, (-2.0, 2.0), missing, inference).estimate(by_number)
    for x in (first, second):
        whole = correlation(complete, x, y, level, method, context, system)
        if math.isnan(whole.value):
            return undefined(whole.reason, complete[context].nunique())
    make, contexts = arranged(_clustered(complete, context, resampling), [first, second, y], level, method, keys)
    one, two = make(0, 2), make(1, 2)
    if level == "system" and method != "pearson":
        return _of_ranked_systems(lambda weights: one(weights) - two(weights), contexts, resampling, (-2.0, 2.0))
    return cluster_difference(one, two, contexts, resampling, inference=inference)


def agreement_loss(
    frame: pd.DataFrame,
    first: str,
    second: str,
    y: str,
    resampling: Resampling,
    level: Level = "context",
    method: Method = "spearman",
) -> Estimate:
    """Estimate r(first, y) − r(second, y), tested against 0.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate, with ``context_id``. Rows with any of the three scores missing are dropped.
    first, second, y : str
        Numeric columns: a judge's scores under two conditions, and the mean human score.
    resampling : Resampling
        Resampling settings.
    level : {"context", "dataset"}
        As in `correlation_difference`.
    method : {"spearman", "kendall", "pearson"}
        As in `correlation_difference`.

    Returns
    -------
    Estimate
        As `correlation_difference` with ``inference="t"``.

    Examples
    --------
    >>> scores = {"one": [1, 2, 3, 4] * 4, "two": [1, 3, 2, 4] * 4, "human": [1, 2, 3, 4, 1, 2, 4, 3] * 2}
    >>> frame = pd.DataFrame({"context_id": np.repeat(list("abcd"), 4), **scores})
    >>> estimate = agreement_loss(frame, "one", "two", "human", Resampling())
    >>> round(estimate.estimate, 3), round(estimate.p_value, 4), estimate.method
    (0.3, 0.125, 't over contexts; t test')
    """
    return correlation_difference(frame, first, second, y, resampling, level, method, inference="t")


def relative_loss(
    frame: pd.DataFrame,
    first: str,
    second: str,
    y: str,
    resampling: Resampling,
    level: Level = "context",
    method: Method = "spearman",
) -> Estimate:
    """Estimate 1 − r(second, y) / r(first, y), the relative loss of correlation.

    Parameters
    ----------
    frame, first, second, y, resampling, level, method
        As in `agreement_loss`. There is no test, because that of the loss is equivalent.

    Returns
    -------
    Estimate
        1 if all agreement is lost, 0 if none, negative if the second agrees better. NaN with a note unless the
        interval of the first correlation lies above 0: the ratio is meaningless if the denominator may be 0.

    Examples
    --------
    >>> scores = {"one": [1, 2, 3, 4] * 4, "two": [1, 3, 2, 4] * 4, "human": [1, 2, 3, 4, 1, 2, 4, 3] * 2}
    >>> frame = pd.DataFrame({"context_id": np.repeat(list("abcd"), 4), **scores})
    >>> round(relative_loss(frame, "one", "two", "human", Resampling()).estimate, 3)
    0.333
    """
    check_options(level, method)
    complete = paired(frame, [first, second, y], ["context_id"])
    whole = estimate_correlation(complete, first, y, resampling, level, method)
    if not whole.ci_low > 0:
        reason = whole.note if np.isnan(whole.estimate) else "undefined: the first agreement is not shown to be above 0"
        return undefined(reason, whole.n_contexts)
    if level == "context":
        both = _by_context(complete, first, second, y, method, resampling)
        missing = "undefined: in no context do all three scores vary"
        return cluster_statistic(lambda w: _share(*(w @ both).T), len(both), resampling, missing=missing)
    complete = _clustered(complete, "context_id", resampling)
    make, contexts = arranged(complete, [first, second, y], level, method, ["context_id"])
    one, two = make(0, 2), make(1, 2)
    return cluster_statistic(lambda w: _share(one(w), two(w)), contexts, resampling)


def _mean(
    values: Floats,
    null: float | None,
    bounds: tuple[float, float],
    missing: str,
    inference: Inference = "resampling",
) -> Ratio:
    """Return the mean of one number per context as a `Ratio`; contexts with NaN are dropped."""
    defined = ~np.isnan(values)
    numbers = np.where(defined, values, 0.0)
    return Ratio(np.arange(len(values)), numbers, defined, null, bounds, missing, inference)


def _of_ranked_systems(
    statistic: Statistic, contexts: int, resampling: Resampling, bounds: tuple[float, float]
) -> Estimate:
    """Estimate with a percentile interval and no test, because system ranks are discontinuous in the data."""
    method = "percentile" if resampling.method == "studentised" else resampling.method
    estimate = cluster_statistic(statistic, contexts, replace(resampling, method=method), None, bounds)
    note = "not a smooth statistic: no test, and the coverage of the interval is not established"
    return replace(estimate, note="; ".join(filter(None, [estimate.note, note])))


def _clustered(frame: pd.DataFrame, context: str, resampling: Resampling) -> pd.DataFrame:
    """Rename contexts to their clusters, which suffices for statistics pooled over all candidates."""
    return frame.assign(**{context: resampling.cluster_of(frame[context])}) if resampling.clusters else frame


def _by_context(frame: pd.DataFrame, first: str, second: str, y: str, method: Method, resampling: Resampling) -> Floats:
    """Return both correlations summed over each cluster's contexts in which all three scores vary."""
    values = np.column_stack([context_correlations(frame, x, y, method, "context_id") for x in (first, second)])
    varies = ~np.isnan(values).any(axis=1)
    names = frame["context_id"].unique()[varies]
    values, _ = sum_by_context(resampling.cluster_of(names), *values[varies].T)
    return values[np.lexsort(values.T)]  # resamples then depend on the seed only, not on the order of contexts


def _share(first: Floats, second: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Floats = 1 - second / np.where(first > 0, first, np.nan)
    return share
