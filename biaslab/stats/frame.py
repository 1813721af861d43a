"""The estimates frame: one scalar per row with its uncertainty, and q-values over families of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from biaslab.core.arrays import Floats
from biaslab.core.checks import did_you_mean, require_one_of, require_share
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError, warn
from biaslab.stats.estimate import ALPHA, Estimate, notes_of
from biaslab.stats.resample import Resampling
from biaslab.stats.t_inference import inflation, rare_inflation

#: Share of missing judgements above which a warning is issued.
MISSING_SHARE = 0.05

LEADING = ("probe", "judge", "dataset", "metric")
#: Columns that define a family of tests: the rows of one metric and judge, which a card summarises in one statement.
FAMILY = ("judge", "probe", "metric")
TRAILING = (
    "estimate", "se", "ci_low", "ci_high", "ci_level", "bound_low", "bound_high", "p_value", "q_value", "mde",
    "n_contexts", "n_trials", "n_dropped", "method", "seed", "note", "notes",
)  # fmt: skip


def estimate_rows(
    estimates: Mapping[str, Estimate], cell: Mapping[str, Any], resampling: Resampling, n_trials: int, n_dropped: int
) -> list[dict[str, Any]]:
    """Return one row per estimate of one cell, for `estimates_frame`.

    Parameters
    ----------
    estimates : mapping of str to Estimate
        By metric name.
    cell : mapping
        Judge, data set and condition columns.
    resampling : Resampling
        Resampling settings.
    n_trials, n_dropped : int
        Numbers of judgements used, and of planned judgements that were not.
    """
    counts = {"n_trials": n_trials, "n_dropped": n_dropped}
    settings = {"ci_level": resampling.level, "seed": resampling.seed}
    return [{"metric": m, **cell, **estimate.row(), **counts, **settings} for m, estimate in estimates.items()]


def estimates_frame(
    rows: Sequence[Mapping[str, Any]], probe: str, primary: Sequence[str], conditions: Sequence[str]
) -> pd.DataFrame:
    """Build the estimates frame from rows and add q-values.

    Parameters
    ----------
    rows : sequence of mapping
        As made by `estimate_rows`.
    probe : str
        Name of the probe.
    primary : sequence of str
        Metrics that are tested: q-values are computed over their rows, see `corrected`.
    conditions : sequence of str
        Names of the condition columns, in order.

    Returns
    -------
    pandas.DataFrame
        ``probe, judge, dataset, metric, <conditions>, estimate, se, ci_low, ci_high, ci_level, bound_low,
        bound_high, p_value, q_value, mde, n_contexts, n_trials, n_dropped, method, seed, note, notes``.
    """
    columns = {name: [row.get(name, np.nan) for row in rows] for name in (*LEADING, *conditions, *TRAILING)}
    # words without codes have an empty list, so that a saved table shows that no code is missing
    columns["notes"] = [row.get("notes") or ("[]" if row.get("note") else "") for row in rows]
    frame = pd.DataFrame(columns | {"probe": [probe] * len(rows)})
    return corrected(frame, frame["metric"].isin(list(primary)))


def with_numpy_types(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return estimates with NumPy's types, also if pandas read them with nullable or Arrow types.

    Examples
    --------
    >>> frame = pd.DataFrame({"estimate": [None], "seed": [1]}).astype({"estimate": "Float64", "seed": "Int64"})
    >>> with_numpy_types(frame).dtypes.tolist()
    [dtype('float64'), dtype('int64')]
    """
    converted = estimates.copy()
    for name, values in estimates.items():
        if not isinstance(values.dtype, np.dtype):
            is_number = pd.api.types.is_numeric_dtype(values.dtype) and values.isna().any()
            kind = float if is_number else getattr(values.dtype, "numpy_dtype", object)
            converted[name] = values.to_numpy(kind if values.notna().all() or is_number else object, na_value=np.nan)
    return converted


def corrected(estimates: pd.DataFrame, tested: ArrayLike | None = None) -> pd.DataFrame:
    """Return estimates with q-values recomputed over exactly these rows.

    The rows of one metric and judge form a family: see `biaslab.stats.adjust_families`.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Rows of one or more estimates frames.
    tested : array_like of bool, shape (rows,), optional
        Which rows to test; by default those with a q-value.

    Returns
    -------
    pandas.DataFrame
        A copy; ``q_value`` is NaN for rows without a test.
    """
    require_columns(estimates, (*FAMILY, "p_value", *(("q_value",) if tested is None else ())), "estimates")
    chosen = estimates["q_value"].notna().to_numpy() if tested is None else np.asarray(tested, bool)
    p_values = np.where(chosen, estimates["p_value"].to_numpy(float), np.nan)
    return estimates.assign(q_value=adjust_families(p_values, _families(estimates)))


def corrected_effects(estimates: pd.DataFrame) -> pd.Series:
    """Return the smallest effect that each test detects with 80 % power after correction for all rows.

    ``mde`` is for a test on its own at .05. Among others, a test needs a p-value below a lower critical value
    (`critical_p`), which depends on the other p-values, and therefore a larger effect.

    Parameters
    ----------
    estimates : pandas.DataFrame
        With q-values computed over these rows: see `corrected`.

    Returns
    -------
    pandas.Series
        In the unit of the metric; equal to ``mde`` for a single test. NaN without a test or ``mde``, and if too few
        contexts can reach a sufficiently small p-value, whatever the effect.
    """
    require_columns(estimates, (*FAMILY, "p_value", "q_value"), "estimates")
    tested = estimates["q_value"].notna().to_numpy()
    levels = critical_p(np.where(tested, estimates["p_value"].to_numpy(float), np.nan), _families(estimates))
    rows = zip(estimates.to_dict("records"), levels.tolist(), strict=True)
    sizes = [row["mde"] * _inflation(row, p) if p > 0 and row["mde"] > 0 else np.nan for row, p in rows]
    return pd.Series(sizes, estimates.index, float)


def _inflation(row: Mapping[Any, Any], level: float) -> float:
    """Return the growth of a detectable effect at a lower level, with its own model if few contexts differ."""
    contexts = max(int(row["n_contexts"]), 1)
    few = notes_of(row).get("few_differ")
    rare = rare_inflation(contexts, int(few["needed"]), level) if few else 1.0
    return float(np.maximum(inflation(contexts, level), rare))


def _families(estimates: pd.DataFrame) -> list[int]:
    """Return the family number of each row; a family is one metric of one judge."""
    names = [*zip(*(map(str, estimates[name]) for name in FAMILY), strict=True)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] for name in names]


def adjust(p_values: ArrayLike) -> Floats:
    """Return the q-values of one family of tests; reject if at most the level.

    Controls the false discovery rate under independence and positive dependence (Benjamini & Hochberg 1995).

    Parameters
    ----------
    p_values : array_like, shape (tests,)
        From 0 to 1. NaN means no test: it stays NaN and does not count.

    Returns
    -------
    numpy.ndarray, shape (tests,)

    Raises
    ------
    InputError
        If a p-value is outside 0 to 1.

    Examples
    --------
    >>> adjust([0.01, 0.02, float("nan"), 0.04]).tolist()
    [0.03, 0.03, nan, 0.04]
    """
    p = np.asarray(p_values, float)
    known = ~np.isnan(p)
    tested = p[known]
    if ((tested < 0) | (tested > 1)).any():
        raise InputError("p_values", tested.tolist(), "numbers from 0 to 1, or NaN if missing")
    order = np.argsort(tested)[::-1]
    adjusted, q = np.full(p.shape, np.nan), np.empty(tested.size)
    q[order] = np.minimum.accumulate(tested[order] * tested.size / np.arange(tested.size, 0, -1))
    adjusted[known] = q
    return adjusted


def adjust_families(p_values: ArrayLike, family: ArrayLike) -> Floats:
    """Return the q-values of tests in families, such as the rows of one metric; reject if at most the level.

    A family is selected by its Simes p-value, corrected over the m families (Benjamini & Hochberg 1995); within each
    of the R selected families, tests are corrected at the level times R/m (Benjamini & Bogomolov 2014). A family is
    selected if and only if one of its tests is rejected. Under independence and positive dependence this controls the
    false discovery rate among selected families and, on average over these, among the tests within each.

    The q-value of a test is the smallest level at which it is rejected: the minimum over k of m/k times the larger of
    a and s(k), where a is the test's q-value within its own family, and s(k) the k-th smallest Simes p-value.

    Parameters
    ----------
    p_values : array_like, shape (tests,)
        From 0 to 1. NaN means no test: it stays NaN, and a family without tests does not count.
    family : array_like, shape (tests,)
        The family of each test, as numbers or text.

    Returns
    -------
    numpy.ndarray, shape (tests,)
        From 0 to 1. Equal to `adjust` if there is one family, or if every family has one test.

    Raises
    ------
    InputError
        If a p-value is outside 0 to 1, or the numbers of families and tests differ.

    References
    ----------
    Benjamini & Bogomolov 2014, *Selective inference on multiple families of hypotheses*, JRSS B 76(1), procedure 1;
    Simes 1986, Biometrika 73(3).

    Examples
    --------
    Only the first family is selected, at .05 · 1/2:

    >>> adjust_families([0.01, 0.04, 0.2, 0.9], ["a", "a", "b", "b"]).tolist()
    [0.04, 0.08, 0.4, 0.9]
    """
    p, of = np.asarray(p_values, float), np.asarray(family)
    if of.shape != p.shape:
        raise InputError("family", of.shape, f"one per test: {p.shape}")
    within, simes = np.full(p.shape, np.nan), []
    for name in dict.fromkeys(of[~np.isnan(p)].tolist()):
        within[of == name] = adjust(p[of == name])
        simes.append(np.nanmin(within[of == name]))
    return _hierarchical(within, np.sort(simes)) if simes else within


def _hierarchical(within: Floats, simes: Floats) -> Floats:
    """Return the smallest level at which each test is rejected, from q within its family and sorted Simes p."""
    share: NDArray[Any] = np.arange(1, len(simes) + 1) / len(simes)
    return (np.maximum(within[:, None], simes) / share).min(axis=1)  # type: ignore[no-any-return]


def critical_p(p_values: ArrayLike, family: ArrayLike, alpha: float = ALPHA) -> Floats:
    """Return the critical p-value of each test, given the other tests.

    Whether a test is rejected depends on its own p-value and on the others: `adjust_families` rejects it at alpha if
    and only if its p-value is at most this critical value. The power of the test after correction is thus its power at
    this level.

    Parameters
    ----------
    p_values : array_like, shape (tests,)
        From 0 to 1; NaN means no test.
    family : array_like, shape (tests,)
        The family of each test.
    alpha : float
        Level for the q-values, between 0 and 1.

    Returns
    -------
    numpy.ndarray, shape (tests,)
        From alpha / (families · tests in the family), if no other test is rejected, to alpha. NaN for no test.

    Raises
    ------
    InputError
        If a p-value or alpha is outside 0 to 1, or the numbers of families and tests differ.

    Notes
    -----
    With k of m families selected, a test in a family of n is rejected if its family's j smallest p-values are at most
    alpha · k/m · j/n. The critical value is given by the largest k and j that the other tests allow, counting this one
    as rejected.

    Examples
    --------
    >>> critical_p([0.01, 0.04, 0.2, 0.9], ["a", "a", "b", "b"]).tolist()
    [0.0125, 0.025, 0.025, 0.025]
    >>> critical_p([0.3], ["a"]).tolist()
    [0.05]
    """
    require_share("alpha", alpha)
    p, of = np.asarray(p_values, float), np.asarray(family)
    adjust_families(p, of)  # validates both
    tested = ~np.isnan(p)
    names = list(dict.fromkeys(of[tested].tolist()))
    simes = {name: float(adjust(p[tested & (of == name)]).min()) for name in names}
    critical = np.full(p.shape, np.nan)
    for place in np.flatnonzero(tested):
        in_family = tested & (of == of[place])
        in_family[place] = False
        level = _step_up([each for name, each in simes.items() if name != of[place]], alpha)
        critical[place] = _step_up(p[in_family], level)
    return critical


def _step_up(others: ArrayLike, alpha: float) -> float:
    """Return the critical p-value of one additional test among others (Benjamini & Hochberg)."""
    ordered = np.sort(np.asarray(others, float))
    tests = len(ordered) + 1
    steps = alpha * np.arange(1, tests + 1) / tests
    below = np.flatnonzero(ordered <= steps[1:])  # with the additional test, the i-th of the others has rank i + 1
    return float(steps[below[-1] + 1] if len(below) else steps[0])


def choose_metrics(known: Sequence[str], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the requested metrics (all if ``wanted`` is None), in the order of the known ones.

    Raises
    ------
    InputError
        If a metric is unknown, or none is requested; the message lists the known ones.

    Examples
    --------
    >>> choose_metrics(("rate", "logit"), ["logit"])
    ('logit',)
    """
    if wanted is None:
        return tuple(known)
    unknown = [wanted] if isinstance(wanted, str) else [name for name in wanted if name not in known]
    if unknown or not wanted:
        meant = did_you_mean(unknown[0], known) if unknown else ""
        raise InputError("metrics", unknown or wanted, f"a list of names among {', '.join(known)}", meant)
    return tuple(name for name in known if name in wanted)


def require_columns(frame: Any, wanted: Sequence[str], what: str) -> None:
    """Raise `TrialsError` if a frame, or a file of trials, lacks a required column."""
    if not hasattr(frame, "columns"):
        allowed = f"a frame with the columns {', '.join(wanted)}"
        raise TrialsError(what, frame, allowed, "create one: pandas.DataFrame(…)")
    missing = [str(column) for column in wanted if column not in frame.columns]
    if missing:
        lacks = f"{what} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}"
        raise TrialsError.plain(f"{lacks}, expected: a frame with the columns {', '.join(map(str, wanted))}")


def warn_missing(what: str, missing: int, planned: int, why: str) -> None:
    """Warn if more than 5 % of the planned judgements of an estimate are missing.

    Parameters
    ----------
    what : str
        Name of the estimate.
    missing, planned : int
        Numbers of judgements not used, and planned.
    why : str
        The reason, to follow "because".

    Warns
    -----
    MissingDataWarning
        Names the estimate.
    """
    if missing > MISSING_SHARE * planned:
        share = f"{missing} of {planned} judgements are left out"
        facts = f"{what}: {share} because {why}"
        warn(MissingDataWarning(facts, "missing judgements may bias the estimate"), MissingDataWarning)


AVERAGE = "average"
METHOD = "mean of {} estimates, with the mean of their intervals"


def average_over(estimates: pd.DataFrame, column: str, name: str = AVERAGE) -> pd.DataFrame:
    """Average estimates over the values of one condition, all other conditions being equal.

    The estimates come from the same contexts and are therefore correlated, to a degree that the frame does not reveal.
    The standard error of their mean is at most the mean of their standard errors, with equality under perfect
    correlation (Cauchy–Schwarz). So the mean of the intervals is a conservative interval for the mean. There is no
    test.

    Parameters
    ----------
    estimates : pandas.DataFrame
        An estimates frame.
    column : str
        The condition to average over, for example "attribute" or "template".
    name : str
        Value of that column in the rows of averages.

    Returns
    -------
    pandas.DataFrame
        The averages alone, in the same columns: one row per group of at least two rows that differ in ``column`` only;
        none if there is a single value. ``n_trials`` and ``n_dropped`` are summed, ``n_contexts`` is the minimum. If
        one estimate is undefined so is the average, and the note names it.

    Raises
    ------
    InputError
        If the frame has no such condition, or two rows are equal in all conditions.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> trials = bl.collect(bl.scoring.GEval(), bl.SimulatedJudge(data, noise=1.0), data, progress=False)
    >>> found = bl.scoring.agreement(bl.scoring.scores(trials), data, ["context"], ["spearman"])
    >>> average = average_over(found, "attribute")
    >>> average["attribute"].tolist(), bool(abs(average["estimate"].item() - found["estimate"].mean()) < 1e-12)
    (['average'], True)
    """
    require_columns(estimates, ("metric", *TRAILING[:-1]), "estimates")
    conditions = [each for each in estimates.columns if each not in TRAILING]
    require_one_of("column", column, tuple(conditions))
    if estimates.duplicated(conditions).any():
        raise InputError.plain("estimates has two rows of the same cell, expected: rows that differ in a condition")
    keys = [each for each in conditions if each != column]
    rows = []
    for _, group in estimates.groupby(keys, sort=False, dropna=False):
        if len(group) > 1:
            rows.append(group.iloc[0].to_dict() | {column: name} | _averaged(group, column))
    return pd.DataFrame(rows, columns=estimates.columns) if rows else estimates.iloc[:0]


def _averaged(group: pd.DataFrame, column: str) -> dict[str, Any]:
    columns = ("estimate", "se", "ci_low", "ci_high", "bound_low", "bound_high")
    means = {each: float(group[each].mean(skipna=False)) for each in columns}
    undefined = group.loc[group["estimate"].isna(), column]
    note = f"undefined for {', '.join(map(str, undefined))}" if len(undefined) else ""
    counts = {"n_contexts": group["n_contexts"].min()} | {e: group[e].sum() for e in ("n_trials", "n_dropped")}
    none = dict.fromkeys(("p_value", "q_value", "mde"), np.nan)
    return means | counts | none | {"method": METHOD.format(len(group)), "note": note, "notes": "[]" if note else ""}


#: Condition columns of breakdowns, by bin of the human score gap, by person left out or by another judge; missing in
#: estimates over all items.
BINS = ("human_gap", "left_out", "other_judge")


def without_breakdowns(estimates: pd.DataFrame, by: str | Sequence[str] = BINS) -> pd.DataFrame:
    """Return the estimates over all items, dropping those of bins or subsets, which count the same items twice.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame.
    by : str or sequence of str
        Condition columns that break estimates down, such as ``"subset"`` in `biaslab.atlas.estimates`; they are
        missing in estimates over everything. Columns not in the frame are ignored.

    Returns
    -------
    pandas.DataFrame
        The rows in which all these columns are missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"human_gap": [None, 0.5, None], "subset": [None, None, "hard"], "estimate": [6, 7, 8]})
    >>> without_breakdowns(frame)["estimate"].tolist()
    [6, 8]
    >>> without_breakdowns(frame, ["human_gap", "subset"])["estimate"].tolist()
    [6]
    """
    columns = [name for name in ([by] if isinstance(by, str) else by) if name in estimates]
    return estimates[estimates[columns].isna().all(axis=1)].reset_index(drop=True) if columns else estimates
