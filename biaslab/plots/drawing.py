"""Estimates with their intervals on Axes, and published values beside them as hollow marks."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from biaslab.core import Metric
from biaslab.core.binned import over_all_items
from biaslab.errors import InputError, TrialsError
from biaslab.plots.style import LINES, MARKERS, PALETTE, PUBLISHED, note, panels, share_legend, styled
from biaslab.probes import find_metric
from biaslab.stats import LEADING, TRAILING, require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UPRIGHT = 30  # letters of a line of an upright label, beside axes of a column's height


@styled
def intervals(
    estimates: pd.DataFrame,
    metric: str | Sequence[str] | None = None,
    by: str | None = None,
    hue: str | None = None,
    ax: Axes | None = None,
    title: str | None = None,
    label: str | None = None,
    null: float | None = None,
) -> Axes:
    """Plot a metric as dots with intervals, a row a condition.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame. Estimates of single bins, such as those of ``human_gap``, are for `against` and left out.
    metric : str or sequence of str, optional
        Which metric; the first of the frame by default. Several are told apart like a ``hue``; their common unit labels
        the axis.
    by : str, optional
        Condition column on the vertical axis; by default the first one that varies.
    hue : str, optional
        Condition column told apart by colour and marker; by default the next one that varies.
    ax : matplotlib.axes.Axes, optional
        Where to draw, without a legend (see `share_legend`); new Axes of a column's width (8 cm) by default.
    title : str, optional
        Stands above n; by default the data set's name stands before it.
    label, null : optional
        Label of the axis and where the dashed line stands, in place of what the probe declares of the metric.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TrialsError
        If the frame has no row of the metric.

    Examples
    --------
    >>> ax = intervals(estimates, "first_position_rate", by="attribute", hue="template")  # doctest: +SKIP
    """
    whole = over_all_items(estimates)
    chosen = _rows(whole, metric)
    several = _varies(chosen, "metric")
    varying = [c for c in _conditions(chosen) if _varies(chosen, c)]
    by = by or (varying[0] if varying else "attribute" if "attribute" in chosen else "judge")
    hue = hue or ("metric" if several else next((c for c in varying if c != by), None))
    levels = list(dict.fromkeys(chosen[by]))
    own, ax = ax is None, ax or panels(1, 3.0 + 0.8 * len(levels))[0]
    groups = [(None, chosen)] if hue is None else list(chosen.groupby(hue, sort=False))
    offsets = np.linspace(-0.18, 0.18, len(groups)) if len(groups) > 1 else [0.0]
    for index, ((value, rows), offset) in enumerate(zip(groups, offsets, strict=True)):
        places = np.array([levels.index(level) for level in rows[by]]) + offset
        _dots(ax, rows, places, index, None if value is None else _legend(hue, value, rows))
    ax.set_yticks(range(len(levels)), [str(level) for level in levels], parse_math=False)
    ax.set_ylim(len(levels) - 0.5, -0.5)
    _finish(ax, chosen, "x", title, label, null)
    if own and hue is not None:
        share_legend([ax])
    return ax


@styled
def against(
    estimates: pd.DataFrame,
    x: str,
    metric: str | Sequence[str] | None = None,
    hue: str | None = None,
    ax: Axes | None = None,
    xlabel: str | None = None,
    title: str | None = None,
) -> Axes:
    """Plot one metric against a numeric condition, such as the human score gap, as a line of dots with intervals.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame; rows where ``x`` is NaN are left out.
    x : str
        Numeric condition column.
    metric, hue, ax, title
        As in `intervals`.
    xlabel : str, optional
        Label of the horizontal axis; the column's name by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TrialsError
        If the frame has no row of the metric with a value of ``x``.
    """
    require_columns(estimates, [x], "estimates")
    chosen = _rows(estimates[estimates[x].notna()], metric)
    own, ax = ax is None, ax or panels(1)[0]
    groups = [(None, chosen)] if hue is None else list(chosen.groupby(hue, sort=False))
    width = float(np.ptp(chosen[x])) or 1.0
    offsets = np.linspace(-0.012, 0.012, len(groups)) * width if len(groups) > 1 else [0.0]
    for index, ((label, rows), offset) in enumerate(zip(groups, offsets, strict=True)):
        rows = rows.sort_values(x)
        text = _legend(hue, label, rows) if hue == "metric" else label
        _dots(ax, rows, rows[x].to_numpy(float) + offset, index, text, vertical=True)
    ax.set_xlabel(xlabel or x.replace("_", " "))
    _finish(ax, chosen, "y", title)
    if own and hue is not None:
        share_legend([ax])
    return ax


@styled
def hollow(
    ax: Axes,
    values: pd.Series | Mapping[Any, float],
    label: str,
    offset: float = 0.0,
    marker: str = "o",
    color: Any = "0.35",
    line: bool = False,
) -> Axes:
    """Draw published values as hollow marks beside estimates: another judge, other data, so company and not a target.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Made by `intervals` or `against`.
    values : pandas.Series or mapping
        On Axes of `intervals` by the label of the row, on Axes of `against` by the number on the horizontal axis. What
        has no row is left out.
    label : str
        Who published them; "published: " is put before it in the legend.
    offset : float
        Rows downwards, or units to the right, so that no mark hides another.
    marker, color
        As matplotlib takes them.
    line : bool
        Join the marks, on Axes of `against`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If the label is blank: a published value names its origin.

    Examples
    --------
    >>> ax = intervals(estimates, by="attribute")  # doctest: +SKIP
    >>> ax = hollow(ax, {"coherence": 0.37}, "FlanT5-3B, prompt 1", offset=0.3)  # doctest: +SKIP
    """
    if not label.strip():
        raise InputError("label", label, "the name of who published the values")
    given = pd.Series(dict(values), dtype=float).dropna()
    upright = len(given) > 0 and all(isinstance(key, int | float | np.number) for key in given.index)
    if upright:
        x, y = np.array(given.index, np.float64) + offset, np.array(given, np.float64)
    else:
        rows = ax.yaxis.get_major_formatter().format_ticks(list(ax.get_yticks()))  # panels hide shared labels
        given = given[[name for name in given.index if str(name) in rows]]
        x = np.array(given, np.float64)
        y = np.array([rows.index(str(name)) + offset for name in given.index], np.float64)
    if len(given):
        style: dict[str, Any] = {"marker": marker, "markerfacecolor": "white", "markersize": 4.5, "color": color}
        dots = ":" if line and upright else ""
        ax.plot(x, y, linestyle=dots, linewidth=1, label=f"{PUBLISHED}{label}", **style)
    return ax


def _rows(estimates: pd.DataFrame, metric: str | Sequence[str] | None) -> pd.DataFrame:
    require_columns(estimates, ["metric", "estimate", "ci_low", "ci_high", "n_contexts"], "estimates")
    wanted = [metric] if isinstance(metric, str) else list(metric or estimates["metric"].head(1))
    chosen = estimates[estimates["metric"].isin(wanted)]
    if chosen.empty:
        raise TrialsError("metric", metric, f"one of {', '.join(dict.fromkeys(estimates['metric']))}")
    return chosen


def _varies(rows: pd.DataFrame, column: str) -> bool:
    return len(rows[column].drop_duplicates()) > 1


def _metrics(rows: pd.DataFrame) -> list[Metric]:
    """Return how each metric among the rows is read."""
    probes = rows["probe"] if "probe" in rows else [None] * len(rows)
    return [find_metric(*pair) for pair in dict.fromkeys(zip(rows["metric"], probes, strict=True))]


def _legend(hue: str | None, label: object, rows: pd.DataFrame) -> str:
    return _metrics(rows)[0].label if hue == "metric" else f"{hue} {label}"


def _conditions(estimates: pd.DataFrame) -> list[str]:
    fixed = {*LEADING, *TRAILING} - {"judge", "dataset"}
    return [c for c in ("judge", "dataset", *estimates.columns) if c in estimates and c not in fixed]


def _dots(
    ax: Axes,
    rows: pd.DataFrame,
    places: Sequence[float] | np.ndarray,
    index: int,
    label: Any,
    vertical: bool = False,
) -> None:
    values = rows["estimate"].to_numpy(float)
    spread = np.abs(rows[["ci_low", "ci_high"]].to_numpy(float).T - values)
    look: dict[str, Any] = {
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": LINES[index % len(LINES)] if vertical else "",
        "color": PALETTE[index % len(PALETTE)],
        "markersize": 4,
        "linewidth": 1,
        "capsize": 2,
        "label": None if label is None else str(label),
    }
    if vertical:
        ax.errorbar(places, values, yerr=spread, **look)
    else:
        ax.errorbar(values, places, xerr=spread, **look)


def _finish(
    ax: Axes,
    rows: pd.DataFrame,
    axis: Literal["x", "y"],
    title: str | None,
    label: str | None = None,
    null: float | None = None,
) -> None:
    line, write = (ax.axvline, ax.set_xlabel) if axis == "x" else (ax.axhline, ax.set_ylabel)
    metrics = _metrics(rows)
    nulls, units = {metric.null for metric in metrics}, {metric.unit for metric in metrics}
    if null is None and len(nulls) == 1:
        null = metrics[0].null
    if null is not None:
        line(null, color="0.4", linestyle="--", linewidth=1, zorder=0)
    text = metrics[0].axis if len(metrics) == 1 else units.pop() if len(units) == 1 else "estimate"
    write(label or (text if axis == "x" else textwrap.fill(text, _UPRIGHT)))
    ax.locator_params(axis=axis, nbins=5)
    note(ax, _caption(rows, title))


def _caption(rows: pd.DataFrame, title: str | None) -> str:
    names = [str(rows[c].iloc[0]) for c in ("dataset",) if c in rows and not _varies(rows, c)]
    contexts = rows["n_contexts"]
    n = f"{contexts.max()}" if contexts.min() == contexts.max() else f"{contexts.min()}–{contexts.max()}"
    level = rows["ci_level"].iloc[0] if "ci_level" in rows else 0.95
    facts = " · ".join([*([] if title else names), f"n = {n} contexts", f"{level:.0%} intervals"])
    return facts if title is None else f"{title}\n{facts}"
