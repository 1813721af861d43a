"""Estimates to matplotlib Axes: a dot with its interval, the null as a dashed line, n in the title.

Every function takes an estimates frame and, optionally, Axes, and returns the Axes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from biaslab.errors import TrialsError
from biaslab.stats.frame import LEADING, TRAILING, require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")
_INCH = 2.54
PALETTE = sns.color_palette("colorblind")
MARKERS = "osD^vP"
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
}
LABELS = {
    "first_position_rate": "P(A), share of decisions for the first",
    "first_position_logit": "first-position bias (logits)",
    "order_consistency": "same winner in both orders",
    "resampling_consistency": "two samples of one request agree",
    "primacy_share": "primacy among flipped pairs",
    "comparative_accuracy": "pairs ordered as the reference scores do (share)",
    "tie_rate": "share of ties",
    "label_mass": "probability of all labels together",
    "reason_first_shift": "reasons first minus score first (points)",
    "reason_shift": "score before reasons minus score alone (points)",
    "sample_difference": "samples of two conditions",
    "resampling_difference": "samples of one request",
    "source_shift": "score with source minus without (points)",
    "agreement_loss": "agreement lost without the source",
    "familiarity_correlation": "Spearman's ρ of score and log perplexity",
    "familiarity_excess": "ρ of the judge − ρ of the humans",
    "familiarity_slope": "SD of the score per nat of log perplexity",
    "mean_perplexity": "mean perplexity (per token)",
    "source_correlation": "Spearman's ρ of score and source's log perplexity",
    "source_perplexity": "mean perplexity of the source (per token)",
}
NULLS = {
    "first_position_rate": 0.5,
    "first_position_logit": 0.0,
    "primacy_share": 0.5,
    "comparative_accuracy": 0.5,
    "reason_first_shift": 0.0,
    "reason_shift": 0.0,
    "source_shift": 0.0,
    "agreement_loss": 0.0,
    "familiarity_correlation": 0.0,
    "familiarity_excess": 0.0,
    "familiarity_slope": 0.0,
    "source_correlation": 0.0,
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw in biaslab's style without changing anybody else's."""

    @functools.wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with plt.rc_context(STYLE):
            result: R = draw(*args, **kwargs)
        return result

    return wrapped


@styled
def panels(columns: int, height: float = 6.0) -> list[Axes]:
    """Return Axes side by side with a common vertical axis, to be drawn into and closed with `share_legend`.

    Parameters
    ----------
    columns : int
        Number of panels; one is a journal column wide (8 cm), two or more fill a page (17 cm).
    height : float
        In centimetres.
    """
    width = 8.0 if columns == 1 else 17.0
    size = (width / _INCH, height / _INCH)
    figure, axes = plt.subplots(1, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    figure.set_layout_engine("constrained", wspace=0.06)
    return list(axes[0])


@styled
def share_legend(axes: Sequence[Axes]) -> None:
    """Put one legend below all panels, and keep the labels of the vertical axis on the first one."""
    handles, labels = axes[0].get_legend_handles_labels()
    widest = max(map(len, labels), default=0)
    columns = max(1, min(len(labels), int((len(axes) * 60 if len(axes) > 1 else 50) / (widest + 6))))
    axes[0].figure.legend(handles, labels, loc="outside lower center", frameon=False, ncols=columns)
    for ax in axes[1:]:
        ax.set_ylabel("")


@styled
def intervals(
    estimates: pd.DataFrame,
    metric: str | Sequence[str] | None = None,
    by: str | None = None,
    hue: str | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Plot a metric as dots with intervals, a row a condition.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame. Rows that belong to a bin of ``human_gap`` are left out: they are for `against`.
    metric : str or sequence of str, optional
        Which metric; the first of the frame by default. Several of one unit are told apart like a ``hue``.
    by : str, optional
        Condition column on the vertical axis; by default the first one that varies.
    hue : str, optional
        Condition column told apart by colour and marker; by default the next one that varies.
    ax : matplotlib.axes.Axes, optional
        Where to draw, without a legend (see `share_legend`); new Axes of a column's width (8 cm) by default.
    title : str, optional
        Stands above n; by default the data set's name stands before it.

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
    whole = estimates[estimates["human_gap"].isna()] if "human_gap" in estimates else estimates
    chosen = _rows(whole, metric)
    several = _varies(chosen, "metric")
    name = "share" if several else str(chosen["metric"].iloc[0])
    varying = [c for c in _conditions(chosen) if _varies(chosen, c)]
    by = by or (varying[0] if varying else "attribute" if "attribute" in chosen else "judge")
    hue = hue or ("metric" if several else next((c for c in varying if c != by), None))
    levels = list(dict.fromkeys(chosen[by]))
    own, ax = ax is None, ax or panels(1, 3.0 + 0.8 * len(levels))[0]
    groups = [(None, chosen)] if hue is None else list(chosen.groupby(hue, sort=False))
    offsets = np.linspace(-0.18, 0.18, len(groups)) if len(groups) > 1 else [0.0]
    for index, ((label, rows), offset) in enumerate(zip(groups, offsets, strict=True)):
        places = np.array([levels.index(level) for level in rows[by]]) + offset
        _dots(ax, rows, "estimate", places, index, None if label is None else _legend(hue, label))
    ax.set_yticks(range(len(levels)), [str(level) for level in levels])
    ax.set_ylim(len(levels) - 0.5, -0.5)
    _finish(ax, chosen, name, "x", title)
    if own and hue is not None:
        share_legend([ax])
    return ax


@styled
def against(
    estimates: pd.DataFrame,
    x: str,
    metric: str | None = None,
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
    name = str(chosen["metric"].iloc[0])
    own, ax = ax is None, ax or panels(1)[0]
    groups = [(None, chosen)] if hue is None else list(chosen.groupby(hue, sort=False))
    width = float(np.ptp(chosen[x])) or 1.0
    offsets = np.linspace(-0.012, 0.012, len(groups)) * width if len(groups) > 1 else [0.0]
    for index, ((label, rows), offset) in enumerate(zip(groups, offsets, strict=True)):
        rows = rows.sort_values(x)
        _dots(ax, rows, "estimate", rows[x].to_numpy(float) + offset, index, label, vertical=True)
    ax.set_xlabel(xlabel or x.replace("_", " "))
    _finish(ax, chosen, name, "y", title)
    if own and hue is not None:
        share_legend([ax])
    return ax


def save(ax: Axes, estimates: pd.DataFrame, study: str, name: str, out: str | PathLike[str] = "figures") -> list[Path]:
    """Write a figure as PNG and PDF, and the estimates it shows as CSV beside it.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Any Axes of the figure.
    estimates : pandas.DataFrame
        What the figure shows.
    study, name : str
        The files are called ``<study>__<name>.{png,pdf,csv}``.
    out : path
        Folder, made if it is not there.

    Returns
    -------
    list of Path
        The three files.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{study}__{name}"
    figure: Figure = ax.figure  # type: ignore[assignment]
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "pdf", "csv")]
    with plt.rc_context(STYLE):
        figure.savefig(paths[0], bbox_inches="tight", metadata={"Software": None})
        figure.savefig(paths[1], bbox_inches="tight", metadata={"CreationDate": None})
    estimates.to_csv(paths[2], index=False)
    return paths


def _rows(estimates: pd.DataFrame, metric: str | Sequence[str] | None) -> pd.DataFrame:
    require_columns(estimates, ["metric", "estimate", "ci_low", "ci_high", "n_contexts"], "estimates")
    wanted = [metric] if isinstance(metric, str) else list(metric or estimates["metric"].head(1))
    chosen = estimates[estimates["metric"].isin(wanted)]
    if chosen.empty:
        raise TrialsError("metric", metric, f"one of {', '.join(dict.fromkeys(estimates['metric']))}")
    return chosen


def _varies(rows: pd.DataFrame, column: str) -> bool:
    return len(rows[column].drop_duplicates()) > 1


def _legend(hue: str | None, label: object) -> str:
    return LABELS.get(str(label), str(label)) if hue == "metric" else f"{hue} {label}"


def _conditions(estimates: pd.DataFrame) -> list[str]:
    fixed = {*LEADING, *TRAILING} - {"judge", "dataset"}
    return [c for c in ("judge", "dataset", *estimates.columns) if c in estimates and c not in fixed]


def _dots(
    ax: Axes,
    rows: pd.DataFrame,
    column: str,
    places: Sequence[float] | np.ndarray,
    index: int,
    label: Any,
    vertical: bool = False,
) -> None:
    values = rows[column].to_numpy(float)
    spread = np.abs(rows[["ci_low", "ci_high"]].to_numpy(float).T - values)
    look: dict[str, Any] = {
        "fmt": MARKERS[index % len(MARKERS)] + ("-" if vertical else ""),
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


def _finish(ax: Axes, rows: pd.DataFrame, metric: str, axis: Literal["x", "y"], title: str | None) -> None:
    draw, label = (ax.axvline, ax.set_xlabel) if axis == "x" else (ax.axhline, ax.set_ylabel)
    if metric in NULLS:
        draw(NULLS[metric], color="0.4", linestyle="--", linewidth=1, zorder=0)
    label(LABELS.get(metric, metric.replace("_", " ")))
    ax.locator_params(axis=axis, nbins=5)
    ax.set_title(_caption(rows, title), loc="left", color="0.3", fontsize=6.5)


def _caption(rows: pd.DataFrame, title: str | None) -> str:
    names = [str(rows[c].iloc[0]) for c in ("dataset",) if c in rows and not _varies(rows, c)]
    contexts = rows["n_contexts"]
    n = f"{contexts.max()}" if contexts.min() == contexts.max() else f"{contexts.min()}–{contexts.max()}"
    level = rows["ci_level"].iloc[0] if "ci_level" in rows else 0.95
    facts = " · ".join([*([] if title else names), f"n = {n} contexts", f"{level:.0%} intervals"])
    return facts if title is None else f"{title}\n{facts}"
