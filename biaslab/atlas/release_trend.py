"""Meta-regression of recorded judges' estimates on release month and on whether they are reasoning models."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.atlas.estimates_table import Contribution, contributions
from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.core.metrics import find_metric
from biaslab.core.output import AnyPath
from biaslab.probes import available

if TYPE_CHECKING:
    from biaslab.report.plots import DrawnFigures

#: Dates are counted in years from here, so the intercept refers to a judge released in this month.
ORIGIN = "2023-01"
_ASKED = ("source", "dataset", "judge", "probe", "metric")  # columns that determine the form
FEWEST = 4  # minimum number of estimates in excess of coefficients


def released(folder: AnyPath | None = None) -> pd.DataFrame:
    """Return family, release month and whether it is a reasoning model, for each recorded judge.

    Parameters
    ----------
    folder : path, optional
        Folder of contributions made by `biaslab.atlas.add`, whose judges are included: the one passed to
        `biaslab.atlas.estimates`.

    Returns
    -------
    pandas.DataFrame
        ``judge, family, released`` ("2023-06"), ``reasons`` (bool). The month is that of general availability, or of
        the preview that the name refers to; names without a version have that of the first version. ``reasons`` is
        whether the model is trained to think before it answers; logs rarely say for how long. Judges that are people,
        or whose month is not public, have no row. For judges from a contribution, its own statements are used.

    Raises
    ------
    InputError
        If the folder does not exist.

    Examples
    --------
    >>> released().set_index("judge").loc["gpt-5.2", "released"]
    '2025-12'
    """
    known = _of_the_atlas()
    return known.copy() if folder is None else with_judges(known, contributions(folder))


@cache
def _of_the_atlas() -> pd.DataFrame:
    with files("biaslab.atlas").joinpath("released.csv").open(encoding="utf-8") as stream:
        return with_judges(pd.read_csv(stream), contributions())


def with_judges(known: pd.DataFrame, added: Iterable[Contribution]) -> pd.DataFrame:
    """Add the dated judges of contributions, unless they are known already."""
    dated = [judge for one in added for judge in one.judges if judge["released"]]
    new = [judge for judge in dated if judge["judge"] not in set(known["judge"])]
    if not new:
        return known
    return pd.concat([known, pd.DataFrame(new)], ignore_index=True).drop_duplicates("judge").fillna({"reasons": False})


def with_dates(estimates: pd.DataFrame, folder: AnyPath | None = None) -> pd.DataFrame:
    """Return the estimates of dated judges with ``family, released, reasons`` and ``years`` since `ORIGIN`."""
    return dated_by(estimates, released(folder))


def dated_by(estimates: pd.DataFrame, judges: pd.DataFrame) -> pd.DataFrame:
    """As `with_dates`, with the dates in a frame like that of `released`."""
    plain = estimates.drop(columns=["family", "released", "reasons"], errors="ignore")
    dated = plain.merge(judges, on="judge")
    months = pd.to_datetime(dated["released"]) - pd.Timestamp(ORIGIN)
    return dated.assign(years=months.dt.days / 365.25)


def one_each(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep one row per judge and source, the one with most contexts, so that all judges count equally.

    Ties between attributes are broken by name, independent of row order.
    """
    by_size = rows.sort_values(["n_contexts", "attribute", "dataset"], ascending=[False, True, True], kind="stable")
    return rows.loc[by_size.drop_duplicates(["source", "judge"]).index].sort_index()


def trend(estimates: pd.DataFrame, null: float | None = None, folder: AnyPath | None = None) -> pd.DataFrame:
    """Regress estimates of one metric on the judges' release date, on whether they reason, and on the form.

    A random-effects meta-regression: judges differ by more than their standard errors, with τ² by the method of
    moments (DerSimonian & Laird) and inference by Knapp & Hartung's t.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Rows of one metric from `biaslab.atlas.estimates`, with ``judge, estimate, ci_low, ci_high``; one row per judge
        and source, because rows based on the same judgements are not independent.
    null : float, optional
        Value for an unbiased judge. If given, the absolute distance from it is regressed: has the bias become smaller,
        whatever its direction? Noise contributes to the distance, so an unbiased judge with a wide interval counts as
        somewhat biased: if newer judges have fewer contexts, a decline is underestimated.
    folder : path, optional
        Folder of contributions whose judges are included: the one passed to `biaslab.atlas.estimates`.

    Returns
    -------
    pandas.DataFrame
        One row per term: ``term`` ("at 2023-01", "a year", "reasons" where some judges do and others do not, "scores"
        where some gave scores and others compared pairs), ``estimate, ci_low, ci_high, p_value`` in the metric's unit,
        ``tau`` (SD between judges), ``i_squared`` (share of the variance that is between judges, 0-1),
        ``prediction_low, prediction_high`` (95 % for a new judge released with the latest one, that does not reason and
        compares pairs), ``n`` (estimates), ``judges``.

    Raises
    ------
    InputError
        If there are several metrics, too few dated judges with an interval, or the folder does not exist.

    References
    ----------
    Knapp & Hartung 2003, *Improved tests for a random effects meta-regression*, Statistics in Medicine 22.

    Examples
    --------
    >>> import biaslab as bl
    >>> rates = bl.atlas.estimates(metric="first_position_rate", breakdowns=False)
    >>> rates = bl.stats.without_breakdowns(rates, "subset").drop_duplicates(["judge", "dataset"])
    >>> found = trend(rates, null=0.5).set_index("term")
    >>> bool(found.loc["a year", "ci_low"] < found.loc["a year", "estimate"])
    True
    """
    metrics = sorted(set(estimates["metric"])) if "metric" in estimates else []
    if len(metrics) > 1:
        raise InputError.plain(f"estimates has several metrics ({', '.join(metrics)}); use atlas.estimates(metric=…)")
    rows = estimates.assign(asked=forms(estimates)) if {*_ASKED} <= {*estimates} else estimates
    return regressed(with_dates(rows, folder), null)


def regressed(rows: pd.DataFrame, null: float | None = None) -> pd.DataFrame:
    """Regress estimates of judges dated by `with_dates`: see `trend`."""
    errors = (rows["ci_high"] - rows["ci_low"]).to_numpy(float) / (2 * 1.96)
    rows, errors = rows[errors > 0], errors[errors > 0]
    outcome = rows["estimate"].to_numpy(float)
    outcome = outcome if null is None else np.abs(outcome - null)
    terms = {f"at {ORIGIN}": np.ones(len(rows)), "a year": rows["years"].to_numpy(float)}
    if 0 < rows["reasons"].sum() < len(rows):
        terms["reasons"] = rows["reasons"].to_numpy(float)
    if {PAIRS, SCORES} <= set(rows.get("asked", ())):
        terms["scores"] = (rows["asked"] == SCORES).to_numpy(float)
    design = np.column_stack(list(terms.values())) if len(rows) else np.empty((0, len(terms)))
    if len(rows) - len(terms) < FEWEST:
        raise InputError.plain(f"too few dated judges with an interval: {len(rows)} of at least {len(terms) + FEWEST}")
    fit = _Fit(design, outcome, errors**2)
    latest = np.where(np.isin(list(terms), ["reasons", "scores"]), 0.0, design.max(axis=0))
    facts = {**fit.predict(latest), "n": len(rows), "judges": rows["judge"].nunique()}
    table = pd.DataFrame({"term": list(terms), **fit.table()})
    return table.assign(tau=fit.tau2**0.5, i_squared=fit.i_squared, **facts)


def has_fallen(
    trend: pd.DataFrame, rows: pd.DataFrame, bias: str = "The bias", distance: str = "its distance from fair"
) -> str:
    """State in one sentence whether a bias has fallen.

    Parameters
    ----------
    trend : pandas.DataFrame
        The regression of the distance from the null on the release date, from `trend`.
    rows : pandas.DataFrame
        The estimates in the regression, with ``released``.
    bias, distance : str
        Name of the bias, and of its measure.
    """
    terms, (first, last) = trend.set_index("term"), (rows["released"].min(), rows["released"].max())
    slope, whose = terms.loc["a year"], {"reasons": "does not reason", "scores": "compares pairs"}
    named = " and ".join(words for term, words in whose.items() if term in terms.index)
    described = f" that {named}" if named else ""
    verb = (
        "has fallen" if slope["ci_high"] < 0 else "has grown" if slope["ci_low"] > 0 else "has not been shown to fall"
    )
    return (
        f"{bias} of {slope['judges']:.0f} judges released from {first} to {last} {verb}: {distance} changes by "
        f"{slope['estimate']:+.3f} a year [{slope['ci_low']:+.3f}, {slope['ci_high']:+.3f}], judges of one date differ "
        f"by {slope['tau']:.2f} (SD), and for another one released in {last}{described} "
        f"{max(0.0, slope['prediction_low']):.2f} to {slope['prediction_high']:.2f} is predicted."
    ).replace("-0.", "−0.")


def draw_trend(
    rows: pd.DataFrame, null: float, headline: str | None = None, name: str | None = None, out: AnyPath = "figures"
) -> DrawnFigures:
    """Plot the distance of each judge from the unbiased value against its release date, with the regression line.

    Parameters
    ----------
    rows : pandas.DataFrame
        Estimates of one metric, as in `trend`.
    null : float
        Value for an unbiased judge.
    headline : str, optional
        The sentence above the figure.
    name, out
        As in `biaslab.plots.draw`.

    Returns
    -------
    DrawnFigures
        The line is the mean distance of judges that do not reason; the bar at its end holds 95 % of new judges.

    Examples
    --------
    >>> draw_trend(panel.rows, 0.5, panel.headline, name="atlas__over_time")  # doctest: +SKIP
    """
    from biaslab.report.plots import style
    from biaslab.report.plots.drawing import caption, fills
    from biaslab.report.plots.figure import close
    from biaslab.report.plots.figure_words import short_label
    from biaslab.report.verdicts import with_findings

    found = trend(rows, null)
    rows = with_findings(rows if "years" in rows else with_dates(rows))
    ends = np.sort(np.abs(rows[["ci_low", "ci_high"]].to_numpy(float) - null), axis=1)
    ends[((rows["ci_low"] <= null) & (rows["ci_high"] >= null)).to_numpy(), 0] = 0.0
    apart = rows.assign(estimate=(rows["estimate"] - null).abs(), ci_low=ends[:, 0], ci_high=ends[:, 1])
    [ax] = style.panels(1, 9.5, width=12.0)
    for family, part in apart.groupby(apart["judge"].map(style.family_of), sort=False):
        look = {"colour": style.family_colour(str(part["judge"].iloc[0])), "fills": fills(part), "join": False}
        style.dots(ax, part, part["years"].to_numpy(float), 0, family, vertical=True, **look)
    style.explain_marks(ax, fills(rows))
    start, slope = found["estimate"].iloc[:2]
    years = np.array([rows["years"].min(), rows["years"].max()], float)
    ax.plot(years, np.maximum(start + slope * years, 0.0), color="0.2", label="mean of judges that do not reason")
    bar = np.maximum(found[["prediction_low", "prediction_high"]].iloc[0].to_numpy(float), 0.0)
    ax.plot([years[1] + 0.08] * 2, bar, color="0.6", linewidth=4, label="95 % of new judges", solid_capstyle="butt")
    first = int(ORIGIN[:4])
    ax.set_xticks(range(int(years[1]) + 2), [str(first + year) for year in range(int(years[1]) + 2)])
    label = short_label(find_metric(rows["metric"].iloc[0], rows["probe"].iloc[0]))
    ax.set(xlabel="release of the judge", ylabel=f"|{label} − {null:g}|")
    style.note(ax, caption(rows, "recorded judges"))
    return close([ax], rows, name, out, headline)


class _Fit:
    """A random-effects meta-regression with Knapp and Hartung's standard errors."""

    def __init__(self, design: Floats, outcome: Floats, variances: Floats) -> None:
        from statsmodels.regression.linear_model import WLS

        n, k = design.shape
        fixed = WLS(outcome, design, weights=1 / variances).fit()
        residual = float(np.sum(fixed.resid**2 / variances))
        weighted = design / variances[:, None]
        spread = np.sum(1 / variances) - np.trace(np.linalg.solve(design.T @ weighted, weighted.T @ weighted))
        self.tau2 = max(0.0, (residual - (n - k)) / float(spread))
        self.i_squared = max(0.0, 1 - (n - k) / residual) if residual else 0.0
        self._result: Any = WLS(outcome, design, weights=1 / (variances + self.tau2)).fit()  # its scale is Knapp's

    def table(self) -> dict[str, Floats]:
        """Return estimates with intervals and p-values, one per term."""
        low, high = self._result.conf_int().T
        p_value = self._result.pvalues
        return {"estimate": self._result.params, "ci_low": low, "ci_high": high, "p_value": p_value}

    def predict(self, at: Floats) -> dict[str, float]:
        """Return the prediction interval for another judge with these terms."""
        from scipy import stats

        mean = float(at @ self._result.params)
        error = float(np.sqrt(self.tau2 + at @ self._result.cov_params() @ at))
        half = float(stats.t.ppf(0.975, self._result.df_resid)) * error
        return {"prediction_low": mean - half, "prediction_high": mean + half}


#: The two forms.
PAIRS, SCORES = "pairs", "scores"
_FORMS = {"pair": PAIRS, "score": SCORES}
#: Forms of audit measures that read only one; probes and metrics declare theirs.
_OF_MEASURES = dict.fromkeys(("one_order", "pair_length", "subsets"), PAIRS) | {"halo": SCORES}


def forms(rows: pd.DataFrame) -> pd.Series:
    """Return the form of each estimate, "pairs" or "scores"; empty if unknown.

    Parameters
    ----------
    rows : pandas.DataFrame
        From `biaslab.atlas.estimates`.

    Examples
    --------
    >>> import biaslab as bl
    >>> forms(bl.atlas.estimates(metric="first_position_rate", source="mt_bench")).unique().tolist()
    ['pairs']
    """
    import pandas as pd

    asked = {named: _form_of(*named) for named in set(zip(rows["probe"], rows["metric"], strict=True))}
    known = pd.Series([asked[named] for named in zip(rows["probe"], rows["metric"], strict=True)], rows.index)
    if "form" in rows:
        known = rows["form"].map(_FORMS).fillna(known)
    grouped = known.groupby([rows["source"], rows["dataset"], rows["judge"]])
    only = grouped.transform("first").where(grouped.transform("nunique") == 1)
    return known.fillna(only).fillna("").astype(str)


def _form_of(probe: str, metric: str) -> str | None:
    """Return the form that a metric, its probe or the audit measure declares."""
    form = find_metric(metric, probe).form
    kinds = available()[probe].asks_for if not form and probe in available() else ()
    return _FORMS.get(form or (kinds[0] if len(kinds) == 1 else "")) or _OF_MEASURES.get(probe)
