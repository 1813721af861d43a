"""Random-effects synthesis: independent estimates of a metric, such as those on several data sets, as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy import special

from biaslab.core.checks import require_one_of
from biaslab.core.errors import TrialsError
from biaslab.core.metrics import Metric, find_metric
from biaslab.stats.estimate import ALPHA
from biaslab.stats.frame import FAMILY, corrected, require_columns
from biaslab.stats.t_inference import student

#: Scales on which estimates are pooled.
PoolingScale = Literal["plain", "arcsine", "logit"]
#: Estimates of a judge that are pooled, at least.
FEWEST_POOLED = 3
_SHARES = ("share", "probability")  # units of metrics between 0 and 1
_METHOD = "random effects (Paule-Mandel), Hartung-Knapp t"
#: By scale: the value on it, the value again (an angle beyond 0 or 90 degrees is that of a share of 0 or 1), the slope.
_SCALES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "plain": (np.asarray, np.asarray, np.ones_like),
    "arcsine": (
        lambda share: np.arcsin(np.sqrt(share)),
        lambda angle: np.sin(np.clip(angle, 0, np.pi / 2)) ** 2,
        lambda share: 0.5 / np.sqrt(share * (1 - share)),
    ),
    "logit": (special.logit, special.expit, lambda share: 1 / (share * (1 - share))),
}


def synthesis(estimates: pd.DataFrame, by: str = "dataset", scale: PoolingScale | None = None) -> pd.DataFrame:
    """Pool each judge's independent estimates of a metric, such as those on several data sets.

    A random-effects synthesis: the judge's bias itself differs between data sets, by a variance τ² (Paule & Mandel
    1982). Interval and test are those of Hartung & Knapp (2001).

    Parameters
    ----------
    estimates : pandas.DataFrame
        An estimates frame. Rows without a finite standard error, or where it is 0, are left out and counted.
    by : str
        Column of the independent parts, each in one row of a judge's metric. They must not share contexts.
    scale : {"plain", "arcsine", "logit"}, optional
        Scale on which estimates are pooled; results are transformed back, so that the estimate is the median of a
        population of data sets. By default *arcsine* for shares and probabilities, and *plain* for others.

    Returns
    -------
    pandas.DataFrame
        One row for each probe, judge and metric with at least three estimates, with ``n_estimates``, ``n_left_out``,
        ``i_squared`` (share of the variance of the estimates that is not sampling error), ``tau`` (standard deviation
        between parts, on the scale), ``q`` and ``q_p_value`` (Cochran's test that τ is 0), and ``prediction_low,
        prediction_high``, which hold 95 % of other parts (Higgins, Thompson & Spiegelhalter 2009).

    Raises
    ------
    TrialsError
        If a column is missing, a row has no part, a judge has several estimates of one, or no judge has three.

    Notes
    -----
    **No ad hoc safeguard.** Some take an interval no narrower than with τ² as known (Knapp & Hartung 2003). If data
    sets do not differ, such intervals cover .997 with 5 data sets and .98 with 10; without it .93 to .96 at every τ.
    With three or four estimates that agree by chance, intervals may be very narrow.

    **Shares.** The standard error of a share falls towards 0 and 1, so that extreme shares get the largest weights: on
    the plain scale, intervals for 30 data sets with a share of .97 covered .72, on the arcsine scale .94.

    References
    ----------
    Paule & Mandel 1982, J. Res. Natl. Bur. Stand. 87(5); Hartung & Knapp 2001, Statistics in Medicine 20(12);
    Higgins, Thompson & Spiegelhalter 2009, JRSS A 172(1); Rücker et al. 2009, Statistics in Medicine 28(5), for the
    arcsine.

    Examples
    --------
    >>> rows = pd.DataFrame({"estimate": [0.48, 0.46, 0.40, 0.47], "se": [0.02, 0.02, 0.02, 0.02]})
    >>> rows = rows.assign(probe="position", judge="j", metric="first_position_rate", n_contexts=50, n_trials=100)
    >>> found = synthesis(rows.assign(dataset=[*"abcd"]))
    >>> found[["estimate", "ci_low", "ci_high", "i_squared"]].round(2).to_numpy().tolist()
    [[0.45, 0.4, 0.51, 0.69]]
    """
    require_one_of("scale", scale, (None, *get_args(PoolingScale)))
    require_columns(estimates, [*FAMILY, by, "estimate", "se", "n_contexts", "n_trials"], "estimates")
    if estimates[by].isna().any():
        raise TrialsError.plain(f"estimates have rows without {by}: leave them out")
    rows = []
    for (judge, probe, metric), part in estimates.groupby(list(FAMILY), sort=False):
        if part[by].duplicated().any():
            what = f"{judge} has several estimates of {metric} for {by} {part[by][part[by].duplicated()].iloc[0]}"
            remedy = "keep one of each, or give by= a column that tells independent parts apart"
            raise TrialsError.plain(f"{what}: {remedy}")
        declared = find_metric(str(metric), str(probe))
        is_share = declared.unit in _SHARES and declared.null != 0 and not (part["estimate"] < 0).any()
        chosen = scale or ("arcsine" if is_share else "plain")
        inside = part["estimate"].between(0, 1, "neither") if chosen != "plain" else True
        known = part[np.isfinite(part[["estimate", "se"]].to_numpy(float)).all(axis=1) & (part["se"] > 0) & inside]
        if len(known) < FEWEST_POOLED:
            continue
        row = {"judge": judge, "probe": probe, "metric": metric} | _pooled(known, declared, chosen)
        row |= known[["n_contexts", "n_trials"]].sum().to_dict()
        rows.append(row | {"n_estimates": len(known), "n_left_out": len(part) - len(known)})
    if not rows:
        raise TrialsError.plain(f"estimates to pool are too few: a judge needs {FEWEST_POOLED} with standard errors")
    table = pd.DataFrame(rows)
    return corrected(table, table["p_value"].notna())


def _pooled(known: pd.DataFrame, metric: Metric, scale: PoolingScale) -> dict[str, Any]:
    """Return the pooled estimate of independent ones, with interval, test, prediction and heterogeneity."""
    from statsmodels.stats.meta_analysis import combine_effects

    values, errors = known[["estimate", "se"]].to_numpy(float).T
    (put, back, slope), k = _SCALES[scale], len(known)
    with np.errstate(divide="ignore"):  # I² of equal estimates
        fit = combine_effects(put(values), (errors * slope(values)) ** 2, method_re="iterated", use_t=True)
    mean, tau, se = float(fit.mean_effect_re), float(fit.tau2) ** 0.5, float(fit.sd_eff_w_re_hksj)
    se = se or float(fit.sd_eff_w_re)  # estimates that are equal to the last digit do not vary
    estimate = float(back(mean))
    row: dict[str, Any] = {"estimate": estimate, "se": se / float(slope(estimate)), "tau": tau}
    row |= {"i_squared": float(np.clip(fit.i2, 0, 1)), "q": float(fit.q), "ci_level": 1 - ALPHA, "p_value": np.nan}
    row |= {"q_p_value": float(special.chdtrc(k - 1, fit.q)), "method": f"{_METHOD}, {scale} scale"}
    if metric.null is not None:
        row["p_value"] = 2 * special.stdtr(k - 1, -abs(mean - float(put(metric.null))) / se)
    for name, error, df in (("ci", se, k - 1), ("prediction", float(np.hypot(tau, se)), k - 2)):
        row[f"{name}_low"], row[f"{name}_high"] = back(np.array(student(mean, error, df + 1, 1 - ALPHA)))
    return row
