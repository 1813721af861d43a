"""Draw estimates with their intervals on Axes: one row per condition, or against a numeric condition."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from biaslab.core.binned import without_breakdowns
from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.names import written
from biaslab.core.output import percent
from biaslab.report.plots.backdrop import draw_judges
from biaslab.report.plots.grid import fit_text
from biaslab.report.plots.headline import remember_rows
from biaslab.report.plots.marks import draw_marks, metrics_of
from biaslab.report.plots.naming import AXES, marked, row_name
from biaslab.report.plots.style import (
    BAND,
    NULL,
    PEOPLE,
    SMALL,
    family_colour,
    note,
    panels,
    share_legend,
    styled,
)
from biaslab.report.wording import conditions, varying
from biaslab.stats import require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UPRIGHT = 38  # characters per line of a vertical axis' label
_ACROSS = 52  # characters per line of a horizontal axis' label, below Axes of a column's width


@styled
def intervals(
    estimates: pd.DataFrame,
    metric: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    hue: str | None = None,
    ax: Axes | None = None,
    title: str | None = None,
    label: str | None = None,
    null: float | None = None,
    reference: str | pd.DataFrame | None = None,
    hue_order: Sequence[Any] | None = None,
) -> Axes:
    """Plot a metric as dots with intervals, one row per condition.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame. Rows for single bins, such as those of ``human_gap``, are left out; see `against`.
    metric : str or sequence of str, optional
        Metrics to plot; default: the first in the frame. Several are distinguished like values of ``hue``, and the axis
        is labelled with their common unit.
    by : str or sequence of str, optional
        Condition column on the vertical axis; default: the first one that varies. The values of several columns are
        joined to name a row, as in "gpt-4 · coherence"; missing values are skipped.
    hue : str, optional
        Condition column shown by colour and marker, if it varies; default: the next one that varies. "": none.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on, without a legend (see `share_legend`); default: new Axes of a column's width (8 cm).
    title : str, optional
        Title above n; default: the data set's name before n.
    label, null : optional
        Label of the axis and position of the dashed line; default: as declared by the probe.
    reference : {"atlas"} or pandas.DataFrame, optional
        Draw the judges of the atlas, or of another estimates frame, as light ticks behind the rows: one tick per judge,
        at the median of its comparable estimates. The legend counts them. Rows with fewer than five comparable judges
        have none; see `biaslab.report.comparing`.
    hue_order : sequence, optional
        Values of ``hue`` in the order of the colours, so that panels agree; default: order of appearance.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TrialsError
        If the frame has no row of the metric.
    InputError
        If the name of the reference is unknown.

    Examples
    --------
    >>> ax = intervals(estimates, "first_position_rate", by="attribute", hue="template")  # doctest: +SKIP
    """
    chosen = _rows(without_breakdowns(estimates), metric)
    named_by = [name for name in ("judge", "dataset") if name in chosen]
    differing = varying(chosen, [*named_by, *conditions(chosen)])
    if by is not None and not isinstance(by, str):
        require_columns(chosen, by, "estimates")
        chosen, by = chosen.assign(row=_row_names(chosen, by)), "row"
    by = by or (differing[0] if differing else "attribute" if "attribute" in chosen else "judge")
    if hue is None:
        hue = "metric" if len(chosen["metric"].unique()) > 1 else next((c for c in differing if c != by), None)
    hue = hue if hue and len(hue_order or chosen[hue].unique()) > 1 else None  # nothing to distinguish
    chosen = sorted_judges(chosen) if by == "judge" and ax is None else chosen
    levels = list(dict.fromkeys(chosen[by]))
    drawn = ax or panels(1, 3.0 + 0.8 * len(levels))[0]
    for band in range(1, len(levels), 2):
        drawn.axhspan(band - 0.5, band + 0.5, **BAND)
    places = np.array([levels.index(level) for level in chosen[by]])
    if reference is not None:
        draw_judges(drawn, chosen, places, reference)
    draw_marks(drawn, chosen, places, hue, order=hue_order)
    remember_rows(drawn, chosen, label, null)
    names = [row_name(by, level) for level in levels]
    drawn.set_yticks(range(len(levels)), names, parse_math=False, va="center")  # the default hangs below its row
    drawn.set_ylim(len(levels) - 0.5, -0.5)
    _finish(drawn, chosen, title, label, null)
    if ax is None:
        fit_text(drawn)
        share_legend([drawn])
    return drawn


@styled
def against(
    estimates: pd.DataFrame,
    x: str,
    metric: str | Sequence[str] | None = None,
    hue: str | None = None,
    ax: Axes | None = None,
    xlabel: str | None = None,
    title: str | None = None,
    hue_order: Sequence[Any] | None = None,
    null: float | None = None,
    label: str | None = None,
    log: bool = False,
) -> Axes:
    """Plot a metric against a numeric condition, such as the human score gap, as a line of dots with intervals.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame; rows in which ``x`` is NaN are left out.
    x : str
        Numeric condition column.
    metric, hue, ax, title, hue_order, null, label
        As in `intervals`; ``label`` is that of the vertical axis.
    xlabel : str, optional
        Label of the horizontal axis; default: a description of the column.
    log : bool
        Use a logarithmic horizontal axis with a tick at each value; all values must be above 0.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TrialsError
        If the frame has no row of the metric with a value of ``x``.
    InputError
        If the axis is logarithmic and a value is not above 0.
    """
    require_columns(estimates, [x], "estimates")
    chosen = _rows(estimates[estimates[x].notna()], metric)
    places = chosen[x].to_numpy(float)
    if log and not (places > 0).all():
        raise InputError("log", log, f"False, because {x} is {places.min():g}")
    drawn = ax or panels(1)[0]
    width = float(np.ptp(np.log10(places) if log else places)) or 1.0
    draw_marks(drawn, chosen, places, hue, 0.012 * width, vertical=True, order=hue_order, log=log)
    remember_rows(drawn, chosen, label, null)
    drawn.set_xlabel(xlabel or AXES.get(x, x.replace("_", " ")))
    _finish(drawn, chosen, title, label, null, vertical=True)
    if log:
        ticks = sorted(set(places))
        drawn.set_xscale("log")
        drawn.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
        drawn.minorticks_off()
    elif (places % 1 == 0).all():
        drawn.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    if ax is None:
        fit_text(drawn)
        share_legend([drawn])
    return drawn


def caption(rows: pd.DataFrame, title: str | None) -> str:
    """Return the caption of Axes: the title or data set, simulated and toy judges, n and the interval level."""
    names = [] if title or "dataset" not in rows else list(rows["dataset"].unique())
    n = "–".join(map(str, sorted({rows["n_contexts"].min(), rows["n_contexts"].max()})))
    level = rows["ci_level"].iloc[0] if "ci_level" in rows else 0.95
    marks = sorted({marked(str(judge)) for judge in rows.get("judge", ())} - {"", *(title or "").split(", ")})
    about = [*marks, *(map(written, names) if len(names) == 1 else [])]
    facts = " · ".join([*about, f"n = {n} contexts", f"{percent(level)} intervals"])
    return facts if title is None else f"{title}\n{facts}"


def sorted_judges(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by their judges' mean estimates of the first metric, people last."""
    means = rows[rows["metric"] == rows["metric"].iloc[0]].groupby("judge")["estimate"].mean()
    people = {judge: family_colour(str(judge)) == PEOPLE for judge in rows["judge"]}
    order = sorted(dict.fromkeys(rows["judge"]), key=lambda judge: (people[judge], means.get(judge, np.inf)))
    return rows.sort_values("judge", key=lambda judges: judges.map(order.index), kind="stable", ignore_index=True)


def _rows(estimates: pd.DataFrame, metric: str | Sequence[str] | None) -> pd.DataFrame:
    require_columns(estimates, ["metric", "estimate", "ci_low", "ci_high", "n_contexts"], "estimates")
    wanted = [metric] if isinstance(metric, str) else list(metric or estimates["metric"].head(1))
    chosen = estimates[estimates["metric"].isin(wanted)]
    if chosen.empty:
        metrics = list(dict.fromkeys(estimates["metric"]))
        remedy = did_you_mean(wanted[0], metrics) if wanted else ""
        raise TrialsError("metric", metric, f"one of {', '.join(metrics)}", remedy)
    return chosen.reset_index(drop=True)


def _row_names(rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return a name for each row: its non-empty values of the columns, joined."""
    values = rows[list(columns)].astype(object).where(rows[list(columns)].notna(), "")
    texts = (
        [row_name(str(name), value) for name, value in row.items() if value != ""] for row in values.to_dict("records")
    )
    return [" · ".join(parts) for parts in texts]


def _finish(
    ax: Axes,
    rows: pd.DataFrame,
    title: str | None,
    label: str | None = None,
    null: float | None = None,
    vertical: bool = False,
) -> None:
    """Draw the null, label the axis of the estimates and write the caption."""
    metrics = metrics_of(rows)
    nulls, units = {metric.null for metric in metrics}, {metric.unit for metric in metrics}
    null = nulls.pop() if null is None and len(nulls) == 1 else null
    if null is not None:
        (ax.axhline if vertical else ax.axvline)(null, **NULL)
        size, *others = {metric.matters if metric.null == null else None for metric in metrics}
        if size is not None and not others:
            (ax.axhspan if vertical else ax.axvspan)(null - size, null + size, **SMALL)
    text = metrics[0].axis if len(metrics) == 1 else units.pop() if len(units) == 1 else "estimate"
    if vertical:
        ax.set_ylabel(label or textwrap.fill(text, _UPRIGHT))
    else:
        ax.set_xlabel(label or textwrap.fill(text, _ACROSS))
    ax.locator_params(axis="y" if vertical else "x", nbins=6)
    note(ax, caption(rows, title))
