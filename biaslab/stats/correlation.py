"""Correlations with humans and their differences, with intervals over contexts, corrected for attenuation.

Integer weights give the correlation of a frame in which each context is repeated that often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import scipy  # its subpackages load when they are first used
from numpy.typing import ArrayLike, NDArray

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.stats import resample
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.estimate import Estimate, Inference, Note, Remark, because, is_rounding, undefined, without_interval
from biaslab.stats.frame import require_columns
from biaslab.stats.ratio import Ratio
from biaslab.stats.reliability import Corrected, rating_error, too_unreliable
from biaslab.stats.resample import IntervalScale, Resampling, Statistic, cluster_statistic, without_each
from biaslab.stats.t_inference import estimate_by_t

Level = Literal["context", "dataset", "system"]
CorrelationMethod = Literal["spearman", "kendall", "pearson"]
DIGITS = 12
_LARGE = 64  # candidates per context above which sorting is faster than comparing all pairs


_SCORES_DO_NOT_VARY = Note("scores_do_not_vary", words="in no context do both scores vary")
_FEW = Note("few_units", words="fewer than two {units}")
_CONSTANT = Note("constant_score", words="one of the scores is the same for all {units}")


class Correlation(NamedTuple):
    """A correlation and its sample size.

    Parameters
    ----------
    value : float
        From -1 to 1; NaN if undefined.
    n : int
        Number of contexts averaged, of candidates, or of systems, depending on the level.
    reason : Note or str
        Why the value is NaN; empty otherwise.
    """

    value: float
    n: int
    reason: Remark


def correlation(
    frame: pd.DataFrame,
    x: str,
    y: str,
    level: Level = "context",
    method: CorrelationMethod = "spearman",
    context: str = "context_id",
    system: str = "system",
) -> Correlation:
    """Correlate two columns, for example a judge's score and the mean human score.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate. Rows with a missing score are dropped.
    x, y : str
        Numeric columns.
    level : {"context", "dataset", "system"}
        *context*: over the candidates of each context, averaged over the contexts in which both scores vary
        ("summary-level" in papers). *dataset*: over all candidates, pooled. *system*: over the means of systems.
    method : {"spearman", "kendall", "pearson"}
        Spearman's ρ with midranks, Kendall's τ-b, or Pearson's r. Scores that differ by less than 1e-12 of the largest
        are ties, because such differences are rounding errors of means.
    context, system : str
        Columns of the context and of the system, used at the level of that name.

    Returns
    -------
    Correlation
        ``value``, ``n`` and ``reason``. With two candidates or systems the value is -1 or 1; no minimum size is
        applied.

    Raises
    ------
    InputError
        If the level or method is unknown, or a score is infinite.
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"context_id": list("aaab"), "judge": [1, 2, 3, 4], "human": [1, 3, 2, 5]})
    >>> correlation(frame, "judge", "human", level="context")
    Correlation(value=0.5, n=1, reason='')
    """
    check_options(level, method)
    keys = {"context": [context], "dataset": [], "system": [system]}[level]
    scored = paired(frame, [x, y], keys)
    if level == "context":
        values = context_correlations(scored, x, y, method, context)
        values = values[~np.isnan(values)]
        if not len(values):
            return Correlation(math.nan, 0, _SCORES_DO_NOT_VARY)
        return Correlation(float(np.mean(values)), len(values), "")
    if level == "system":
        scored = scored.groupby(system)[[x, y]].mean()
    a, b = rounded(scored[x].to_numpy(float)), rounded(scored[y].to_numpy(float))
    units = "systems" if level == "system" else "candidates"
    if len(a) < 2:
        return Correlation(math.nan, len(a), _FEW.with_values(units=units))
    value = float(correlate_rows(a[None], b[None], method)[0])
    return Correlation(value, len(a), _CONSTANT.with_values(units=units) if math.isnan(value) else "")


def check_options(level: str, method: str) -> None:
    """Raise `InputError` if the level or the method is unknown."""
    for name, value, allowed in (("level", level, get_args(Level)), ("method", method, get_args(CorrelationMethod))):
        require_one_of(name, value, allowed)


def paired(frame: pd.DataFrame, scores: list[str], keys: list[str]) -> pd.DataFrame:
    """Return the rows in which no score is missing; raise if a column is missing or a score is infinite."""
    require_columns(frame, (*scores, *keys), "frame")
    scored = frame[frame[scores].notna().all(axis=1)]
    for column in scores:
        if np.isinf(scored[column].to_numpy(float)).any():
            raise InputError.plain(f"column {column!r} has an infinite number; write NaN if it is missing")
    return scored


def context_correlations(scored: pd.DataFrame, x: str, y: str, method: CorrelationMethod, context: str) -> Floats:
    """Return the correlation within each context, shape (contexts,); NaN if a score does not vary."""
    codes = pd.factorize(scored[context])[0]
    return correlate_within(scored[x].to_numpy(float), scored[y].to_numpy(float), codes, method)


def correlate_within(x: Floats, y: Floats, codes: Codes, method: CorrelationMethod) -> Floats:
    """Correlate two scores within each context, given by index; NaN if a score does not vary.

    Parameters
    ----------
    x, y : numpy.ndarray, shape (items,)
        Scores; items with a NaN are dropped.
    codes : numpy.ndarray, shape (items,)
        Index of each item's context, from 0.
    method : {"spearman", "kendall", "pearson"}
        As in `correlation`.

    Returns
    -------
    numpy.ndarray, shape (contexts,)

    Examples
    --------
    >>> scores, context = np.array([1.0, 2, 3, 1]), np.array([0, 0, 0, 1])
    >>> correlate_within(scores, np.array([1.0, 3, 2, 1]), context, "spearman").tolist()
    [0.5, nan]
    """
    values = np.full(int(codes.max(initial=-1)) + 1, np.nan)
    known = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    order = known[np.argsort(codes[known], kind="stable")]
    a, b = rounded(x[order]), rounded(y[order])
    sizes = np.bincount(codes[order], minlength=len(values))
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 1]):
        alike = np.flatnonzero(sizes == size)
        rows = starts[alike, None] + np.arange(size)
        values[alike] = correlate_rows(a[rows], b[rows], method)
    return values


def rounded(values: Floats) -> Floats:
    """Scale each row by its largest value and round to 12 decimals; correlations do not depend on the unit."""
    largest = np.fmax.reduce(np.abs(values), axis=-1, keepdims=True, initial=0.0)
    return np.round(values / np.where(is_rounding(largest), np.inf, largest), DIGITS)


def correlate_rows(a: Floats, b: Floats, method: CorrelationMethod) -> Floats:
    """Correlate row by row, shape (rows, items), ignoring NaN items; NaN if either side does not vary."""
    if method != "kendall":
        if method == "spearman":
            a, b = (pd.DataFrame(v).rank(axis=1).to_numpy() for v in (a, b))
        return pearson_rows(a, b, (~np.isnan(a)).astype(float))
    if a.shape[1] > _LARGE and not np.isnan(a).any():
        return _kendall_pairs(zip(a, b, strict=True))
    first, second = np.triu_indices(a.shape[1], 1)
    u, v = (np.nan_to_num(np.sign(side[:, first] - side[:, second])) for side in (a, b))
    return bounded((u * v).sum(axis=1), (u * u).sum(axis=1) * (v * v).sum(axis=1))


def _kendall_pairs(pairs: Iterable[Any]) -> Floats:
    return np.array([scipy.stats.kendalltau(*pair, variant="b").statistic for pair in pairs], float)


def pearson_rows(a: Floats, b: Floats, weights: Floats) -> Floats:
    """Return Pearson's r of each row, for arrays of shape (rows, items); NaN if either side does not vary."""
    a, b = (_standardised(side, weights) for side in (a, b))
    aa, bb, ab = (np.sum(weights * one * other, axis=1) for one, other in ((a, a), (b, b), (a, b)))
    return bounded(ab, aa * bb)


def _standardised(values: Floats, weights: Floats) -> Floats:
    """Return each row minus its mean, divided by the largest deviation; 0 if it does not vary."""
    enters = weights > 0
    varies = np.where(enters, values, np.inf).min(axis=1) < np.where(enters, values, -np.inf).max(axis=1)
    drawn = np.where(enters & varies[:, None], values, 0.0)
    with np.errstate(invalid="ignore"):
        mean = np.sum(weights * drawn, axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    centred = np.where(enters, drawn - mean, 0.0)
    return centred / np.where(varies, np.abs(centred).max(axis=1), 1.0)[:, None]


def bounded(products: Floats, squares: Floats) -> Floats:
    """Return products / √squares, clipped to −1 to 1; NaN for 0 / 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        r: Floats = np.clip(products / np.sqrt(squares), -1, 1)
    return r


Constant = Literal["drop", "zero"]
_BOUNDS = (-1.0, 1.0)


def estimate_correlation(
    frame: pd.DataFrame,
    x: str,
    y: str,
    resampling: Resampling,
    level: Level = "context",
    method: CorrelationMethod = "spearman",
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
        one number) and `biaslab.stats.resample.cluster_statistic` at the others.
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
        missing = _SCORES_DO_NOT_VARY
        return _mean(complete[context].unique(), values, null, _BOUNDS, missing).estimate(resampling)
    whole = correlation(complete, x, y, level, method, context, system)
    if math.isnan(whole.value):
        return undefined(whole.reason, complete[context].nunique())
    make, names = arranged(_clustered(complete, context, resampling), [x, y], level, method, keys)
    if level == "system" and method != "pearson":
        return _of_ranked_systems(make(0, 1), names, resampling, _BOUNDS)
    scale: IntervalScale = "plain" if level == "system" else "fisher"
    return cluster_statistic(make(0, 1), names, resampling, null, _BOUNDS, scale=scale)


def correlation_difference(
    frame: pd.DataFrame,
    first: str,
    second: str,
    y: str,
    resampling: Resampling,
    level: Level = "context",
    method: CorrelationMethod = "spearman",
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
        missing = Note("scores_do_not_vary", words="in no context do all three scores vary")
        names = complete[context].unique()
        return _mean(names, firsts - seconds, 0.0, (-2.0, 2.0), missing, inference).estimate(resampling)
    for x in (first, second):
        whole = correlation(complete, x, y, level, method, context, system)
        if math.isnan(whole.value):
            return undefined(whole.reason, complete[context].nunique())
    make, names = arranged(_clustered(complete, context, resampling), [first, second, y], level, method, keys)
    one, two = make(0, 2), make(1, 2)
    if level == "system" and method != "pearson":
        return _of_ranked_systems(lambda weights: one(weights) - two(weights), names, resampling, (-2.0, 2.0))
    return resample.cluster_difference(one, two, names, resampling, inference=inference)


def agreement_loss(
    frame: pd.DataFrame,
    first: str,
    second: str,
    y: str,
    resampling: Resampling,
    level: Level = "context",
    method: CorrelationMethod = "spearman",
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
    method: CorrelationMethod = "spearman",
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
        reason = because("agreement_not_above_0", "the first agreement is not shown to be above 0")
        return undefined("", whole.n_contexts).noted(*(whole.notes if np.isnan(whole.estimate) else (reason,)))
    if level == "context":
        both = _by_context(complete, first, second, y, method, resampling)
        missing = because("scores_do_not_vary", "in no context do all three scores vary")
        return cluster_statistic(lambda w: _share(*(w @ both).T), len(both), resampling, missing=missing)
    complete = _clustered(complete, "context_id", resampling)
    make, names = arranged(complete, [first, second, y], level, method, ["context_id"])
    one, two = make(0, 2), make(1, 2)
    return cluster_statistic(lambda w: _share(one(w), two(w)), names, resampling)


def _mean(
    names: ArrayLike,
    values: Floats,
    null: float | None,
    bounds: tuple[float, float],
    missing: Remark,
    inference: Inference = "resampling",
) -> Ratio:
    """Return the mean of one number per context as a `Ratio`; contexts with NaN are dropped."""
    defined = ~np.isnan(values)
    numbers = np.where(defined, values, 0.0)
    return Ratio(names, numbers, defined, null, bounds, missing, inference)


def _of_ranked_systems(
    statistic: Statistic, names: NDArray[Any], resampling: Resampling, bounds: tuple[float, float]
) -> Estimate:
    """Estimate with a percentile interval and no test, because system ranks are discontinuous in the data."""
    method = "percentile" if resampling.method == "studentised" else resampling.method
    estimate = cluster_statistic(statistic, names, replace(resampling, method=method), None, bounds)
    return estimate.noted("not a smooth statistic: no test, and the coverage of the interval is not established")


def _clustered(frame: pd.DataFrame, context: str, resampling: Resampling) -> pd.DataFrame:
    """Rename contexts to their clusters, which suffices for statistics pooled over all candidates."""
    return frame.assign(**{context: resampling.cluster_of(frame[context])}) if resampling.clusters else frame


def _by_context(
    frame: pd.DataFrame, first: str, second: str, y: str, method: CorrelationMethod, resampling: Resampling
) -> Floats:
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


_CHUNK = 1 << 18
#: Up to this size, counts for pairs of contexts are stored for Kendall's tau; beyond, it is recomputed for each
#: replicate.
_LARGEST = 2000


def arranged(
    scored: pd.DataFrame, columns: list[str], level: Level, method: CorrelationMethod, keys: list[str]
) -> tuple[Callable[[int, int], Statistic], NDArray[Any]]:
    """Return a function that builds the statistic for two of the columns, and the names of the contexts.

    Rows are sorted by score within contexts, and contexts by their rows, so that a seed gives the same resamples
    whatever the names and order of contexts.
    """
    scores = np.column_stack([rounded(scored[column].to_numpy(float)) for column in columns])
    systems = pd.factorize(scored[keys[1]], sort=True)[0] if level == "system" else np.zeros(len(scored), np.intp)
    codes, names = pd.factorize(scored[keys[0]])
    order = np.lexsort((systems, *scores.T[::-1], codes))
    scores, systems, codes = scores[order], systems[order], codes[order]
    blocks = np.split(np.column_stack([scores, systems]), np.flatnonzero(np.diff(codes)) + 1)
    contexts = sorted(range(len(blocks)), key=lambda number: blocks[number].tobytes())
    blocks = [blocks[number] for number in contexts]
    rows, codes = np.concatenate(blocks), np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])

    def make(i: int, j: int) -> Statistic:
        if level == "system":
            return by_system(rows[:, i], rows[:, j], codes, rows[:, -1].astype(np.intp), method)
        return whole(rows[:, i], rows[:, j], codes, method)

    return make, np.asarray(names, object)[contexts]


def whole(x: Floats, y: Floats, codes: Codes, method: CorrelationMethod) -> Statistic:
    """Return the pooled correlation as a function of weights, by the cheapest algorithm; parameters as in `pooled`."""
    if method == "kendall" and codes.max(initial=0) >= _LARGEST:
        return _kendall_by_resample(np.column_stack([x, y]), codes)
    return pooled(x, y, codes, method)


def pooled(x: Floats, y: Floats, codes: Codes, method: CorrelationMethod) -> Statistic:
    """Return the correlation over all candidates as a function of the weights of contexts.

    Parameters
    ----------
    x, y : numpy.ndarray, shape (candidates,)
        Finite scores.
    codes : numpy.ndarray, shape (candidates,)
        Index of each candidate's context, from 0.
    method : {"spearman", "kendall", "pearson"}
        As in `correlation`.

    Examples
    --------
    >>> rho = pooled(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), np.arange(3), "spearman")
    >>> rho(np.array([[1.0, 1, 1], [1, 2, 0]])).round(3).tolist()
    [0.5, 1.0]
    """
    if method == "kendall":
        return _kendall(x, y, codes)
    levels = [_levels(values, codes) for values in (x, y)]

    def statistic(weights: Floats) -> Floats:
        replicates = []
        for chunk in _chunks(weights, len(x)):
            if method == "spearman":
                a, b = (_midranks(chunk @ counts)[:, level] for counts, level in levels)
            else:
                a, b = (np.broadcast_to(values, (len(chunk), len(x))) for values in (x, y))
            replicates.append(pearson_rows(a, b, chunk[:, codes]))
        return np.concatenate(replicates)

    return statistic


def by_system(x: Floats, y: Floats, codes: Codes, systems: Codes, method: CorrelationMethod) -> Statistic:
    """Return the correlation of system means as a function of weights, dropping systems without a drawn context.

    Parameters
    ----------
    x, y, codes, method
        As in `pooled`.
    systems : numpy.ndarray, shape (candidates,)
        Index of each candidate's system, from 0.
    """
    shape = (int(codes.max()) + 1, int(systems.max()) + 1)
    place = codes * shape[1] + systems
    counts, sum_x, sum_y = (np.bincount(place, v, shape[0] * shape[1]).reshape(shape) for v in (np.ones(len(x)), x, y))

    def statistic(weights: Floats) -> Floats:
        replicates = []
        for chunk in _chunks(weights, shape[1] ** 2):
            n = chunk @ counts
            with np.errstate(invalid="ignore", divide="ignore"):
                a, b = (rounded(np.where(n > 0, chunk @ total / n, np.nan)) for total in (sum_x, sum_y))
            replicates.append(correlate_rows(a, b, method))
        return np.concatenate(replicates)

    return statistic


def _kendall(x: Floats, y: Floats, codes: Codes) -> Statistic:
    """Kendall's τ-b as a ratio of quadratic forms in the weights of contexts."""
    contexts = int(codes.max()) + 1
    order = np.argsort(codes, kind="stable")
    x, y, borders = x[order], y[order], np.searchsorted(codes[order], np.arange(contexts))
    forms = np.zeros((3, contexts, contexts))
    for start, end in zip(borders, np.r_[borders[1:], len(x)], strict=True):
        sx, sy = np.sign(x[start:end, None] - x), np.sign(y[start:end, None] - y)
        for form, product in zip(forms, (sx * sy, sx * sx, sy * sy), strict=True):
            form[codes[order[start]]] = np.add.reduceat(product.sum(axis=0), borders)

    def statistic(weights: Floats) -> Floats:
        both, one, other = (np.sum((weights @ form) * weights, axis=1) for form in forms)
        return bounded(both, one * other)

    return statistic


def _levels(values: Floats, codes: Codes) -> tuple[Floats, Codes]:
    """Return the counts of distinct values per context, and each candidate's value index."""
    distinct, level = np.unique(values, return_inverse=True)
    shape = (int(codes.max()) + 1, len(distinct))
    counts = np.bincount(codes * shape[1] + level, minlength=shape[0] * shape[1])
    return counts.reshape(shape).astype(float), level


def _midranks(counts: Floats) -> Floats:
    """Return the midrank of each distinct value minus ½, from counts; shape (replicates, values)."""
    return np.cumsum(counts, axis=1) - counts / 2


def _chunks(weights: Floats, items: int) -> list[Floats]:
    rows = max(1, _CHUNK // max(items, weights.shape[1]))
    return [weights[start : start + rows] for start in range(0, len(weights), rows)]


def _kendall_by_resample(scores: Floats, codes: Codes) -> Statistic:
    def statistic(weights: Floats) -> Floats:
        drawn = (np.repeat(scores, row[codes].astype(int), axis=0).T for row in weights)
        return _kendall_pairs(drawn)

    return statistic


_LEAST_LEFT = 0.1  # if the reliability without a context is below this, that context decides the estimate


def disattenuated_difference(
    frame: pd.DataFrame, first: str, y: str, resampling: Resampling, level: Level = "context"
) -> Corrected:
    """Estimate Spearman's ρ of a column with `y` minus that of error-free human scores.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate: ``context_id, human``, the named columns and, if known, ``ratings`` and ``annotators``
        as read by `biaslab.stats.reliability.rating_error`. Rows with a missing score are dropped.
    first, y : str
        Numeric columns: a judge's score, and a feature of the text.
    resampling : Resampling
        Confidence level and clusters; the jackknife leaves out whole clusters.
    level : {"context", "dataset"}
        Within contexts, averaged over those in which all three vary, or pooled.

    Returns
    -------
    Corrected
        For a share of shared errors, ρ(first, y) − ρ(human, y) / √λ, where λ is the reliability of the mean human
        score around its context's (or the overall) mean, from cross-products of different annotators. Interval and
        test use t over contexts; the standard error leaves out one context at a time and recomputes λ. The factor is
        exact for Pearson's r. For rank correlations of normally distributed scores it is close: bias at most .02 with
        3 to 12 candidates, reliability .4 to .6 and correlations up to .8. NaN, with a note, if λ is at most .3.

    References
    ----------
    Spearman 1904, *The proof and measurement of association between two things*, American Journal of Psychology 15(1).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quality, context = rng.normal(size=600), np.repeat(np.arange(100), 6)
    >>> frame = pd.DataFrame({"context_id": context, "score": quality, "length": quality + rng.normal(size=600)})
    >>> ratings = quality[:, None] + rng.normal(size=(600, 2))
    >>> frame = frame.assign(human=ratings.mean(axis=1), ratings=[f"{one} {two}" for one, two in ratings])
    >>> corrected = disattenuated_difference(frame, "score", "length", Resampling())
    >>> raw = disattenuated_difference(frame.drop(columns="ratings"), "score", "length", Resampling())
    >>> round(corrected(0.0).estimate, 2), round(raw(0.0).estimate, 2)
    (0.04, 0.17)
    """
    complete = paired(frame, [first, "human", y], ["context_id"]).sort_values("context_id", kind="stable")
    if complete.empty:
        return lambda _: undefined(because("no_item_with_all_scores", "no item has all three scores"))
    complete, groups = resample.grouped(complete, level == "context", resampling)
    of_judge, of_humans, entering = _correlations(complete, [first, "human"], y, level, groups)
    if not entering.any() or math.isnan(of_judge[0] - of_humans[0]):
        reason = because("scores_do_not_vary", "in no context do all three scores vary")
        return lambda _: undefined(reason, complete["context_id"].nunique())
    error, contexts = rating_error(complete, level == "context").of_clusters(groups), int(entering.sum())
    names = pd.unique(resampling.cluster_of(complete["context_id"].unique()))

    def at(shared: float) -> Estimate:
        reliability = error.with_shared(shared).reliability
        if why_not := too_unreliable(error, shared):
            return undefined(why_not, contexts)
        with np.errstate(invalid="ignore"):
            values = of_judge - of_humans / np.sqrt(np.where(reliability > _LEAST_LEFT, reliability, np.nan))
        method = "jackknife t over contexts, humans' correlation corrected for attenuation; t test"
        estimate = jackknife_t(values, contexts, resampling.level, method)
        return replace(estimate, leave_one_out=(np.asarray(names, object), values))

    return at


def _correlations(
    frame: pd.DataFrame, scores: list[str], y: str, level: Level, groups: Codes | None
) -> tuple[Floats, Floats, Bools]:
    """Return ρ of either score with y, for all contexts and leaving out each (or group), and the contexts used."""
    if level == "context":
        own = np.array([context_correlations(frame, x, y, "spearman", "context_id") for x in scores])
        entering = np.isfinite(own).all(axis=0)
        sums = (without_each(totals) for totals in (*np.where(entering, own, 0.0), entering * 1.0))
        first, second, count = (resample.without_clusters(totals, groups) for totals in sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            return first / count, second / count, entering if groups is None else np.bincount(groups, entering) > 0
    codes = pd.factorize(frame["context_id"])[0]
    contexts = codes.max() + 1
    weights = np.vstack([np.ones((1, contexts)), 1 - np.eye(contexts)])
    values = {name: rounded(frame[name].to_numpy(float)) for name in (*scores, y)}
    one, two = (pooled(values[x], values[y], codes, "spearman")(weights) for x in scores)
    return one, two, np.ones(contexts, bool)


def jackknife_t(
    values: Floats,
    contexts: int,
    level: float,
    method: str,
    null: float | None = 0.0,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Return the first value with its jackknife error, by t; the other values each leave out one context."""
    value, left_out = float(np.clip(values[0], *bounds)), values[1:]
    if contexts < 2 or np.isnan(left_out).any():
        return without_interval(value, contexts, "no interval: whether there is a value depends on a single context")
    error = float(np.sqrt((contexts - 1) / contexts * np.sum((left_out - left_out.mean()) ** 2)))
    if is_rounding(error, np.abs(left_out).max()):
        return without_interval(value, contexts, "no interval: no variation between contexts")
    return estimate_by_t(value, error, contexts, level, method, null, bounds)
