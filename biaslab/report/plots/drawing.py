"""Draw estimates with their intervals on Axes: marks, tooltips, other judges behind them, and panels."""

from __future__ import annotations

import io
import math
import re
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from biaslab.core.checks import did_you_mean, require_one_of
from biaslab.core.errors import TrialsError
from biaslab.core.metrics import Metric, find_metric
from biaslab.core.output import number, percent, with_interval, written
from biaslab.report.plots import style
from biaslab.report.plots.figure_words import FLOORS, marked, named, remember_rows, row_name
from biaslab.report.verdicts import Peers, find_peers, judges_of, with_findings
from biaslab.report.wording import WORDS, conditions, varying
from biaslab.stats.frame import LEADING, TRAILING, require_columns, without_breakdowns
from biaslab.stats.missing import plausible_intervals

_ENTRY = 0.3  # centimetres of height for an entry of the legend
_HIGHEST = 13.0  # centimetres of rows above which they move closer together, so that a figure fits a page
_LOWEST = 1.6  # centimetres of rows, so that a single one stands apart from the axis
_UPRIGHT = 38  # characters per line of a vertical axis' label
_LABEL_WIDTH = 52  # characters per line of a horizontal axis' label, below Axes of a column's width


@style.styled
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
        have none; see `biaslab.report.verdicts`.
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
    chosen = with_findings(_rows(without_breakdowns(estimates), metric), null)
    chosen = plain_if_untested(chosen) if ax is None else chosen
    named_by = [name for name in ("judge", "dataset") if name in chosen]
    differing = varying(chosen, [*named_by, *conditions(chosen)])
    for name, column in (("by", by), ("hue", hue)):
        if isinstance(column, str) and column:
            require_one_of(name, column, [each for each in chosen if each not in TRAILING])
    if by is not None and not isinstance(by, str):
        require_columns(chosen, by, "estimates")
        chosen, by = chosen.assign(row=_row_names(chosen, by)), "row"
    by = by or (differing[0] if differing else "attribute" if "attribute" in chosen else "judge")
    if hue is None:
        hue = "metric" if len(chosen["metric"].unique()) > 1 else next((c for c in differing if c != by), None)
    hue = hue if hue and len(hue_order or chosen[hue].unique()) > 1 else None  # nothing to distinguish
    if ax is None:
        chosen, by = _separate(sorted_judges(chosen) if by == "judge" else chosen, by, hue, differing)
    levels = list(dict.fromkeys(chosen[by]))
    entries = len(chosen[hue].unique()) if hue else 0
    room = height_of(len(levels), int(chosen[by].value_counts().max())) + _ENTRY * (entries + _marks(chosen))
    drawn = ax or style.panels(1, room)[0]
    for band in range(1, len(levels), 2):
        drawn.axhspan(band - 0.5, band + 0.5, **style.BAND)
    places = np.array([levels.index(level) for level in chosen[by]])
    if reference is not None:
        draw_judges(drawn, chosen, places, reference)
    draw_marks(drawn, chosen, places, hue, order=hue_order)
    remember_rows(drawn, chosen, label)
    names = [style.shortened(row_name(by, level)) for level in levels]
    drawn.set_yticks(range(len(levels)), names, parse_math=False, va="center")  # the default hangs below its row
    drawn.set_ylim(len(levels) - 0.5, -0.5)
    _finish(drawn, chosen, title, label, null)
    if ax is None:
        fit_text(drawn)
        style.share_legend([drawn])
    return drawn


@style.styled
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

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TrialsError
        If the frame has no row of the metric with a value of ``x``.
    """
    require_columns(estimates, [x], "estimates")
    chosen = with_findings(_rows(estimates[estimates[x].notna()], metric), null)
    chosen = plain_if_untested(chosen) if ax is None else chosen
    places = chosen[x].to_numpy(float)
    drawn = ax or style.panels(1)[0]
    width = float(np.ptp(places)) or 1.0
    draw_marks(drawn, chosen, places, hue, 0.012 * width, vertical=True, order=hue_order)
    remember_rows(drawn, chosen, label)
    drawn.set_xlabel(xlabel or WORDS["axes"].get(x, x.replace("_", " ")))
    _finish(drawn, chosen, title, label, null, vertical=True)
    if (places % 1 == 0).all():
        drawn.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    if ax is None:
        fit_text(drawn)
        style.share_legend([drawn])
    return drawn


def caption(rows: pd.DataFrame, title: str | None) -> str:
    """Return the caption of Axes: the title or data set, simulated and toy judges, n and the interval level."""
    names = [] if title or "dataset" not in rows else list(rows["dataset"].unique())
    n = "–".join(map(str, sorted({rows["n_contexts"].min(), rows["n_contexts"].max()})))
    level = rows["ci_level"].iloc[0] if "ci_level" in rows else 0.95
    bare = int((rows["ci_low"].isna() & rows["estimate"].notna()).sum())
    without = "no intervals" if bare == len(rows) else f"{percent(level)} intervals"
    without += f" ({bare} of {len(rows)} have none)" if 0 < bare < len(rows) else ""
    if "planted" in rows and rows["planted"].notna().any():
        known = rows[rows["planted"].notna() & rows["ci_low"].notna()]
        covered = known["planted"].between(known["ci_low"], known["ci_high"]).sum()
        without += f", planted value in {covered} of {len(known)}"
    marks = sorted({marked(str(judge)) for judge in rows.get("judge", ())} - {"", *(title or "").split(", ")})
    about = [*marks, *(map(written, names) if len(names) == 1 else [])]
    facts = " · ".join([*about, f"n = {n} contexts", without])
    return facts if title is None else f"{title}\n{facts}"


def sorted_judges(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by their judges' mean estimates of the first metric, people last."""
    means = rows[rows["metric"] == rows["metric"].iloc[0]].groupby("judge")["estimate"].mean()
    people = {judge: style.family_colour(str(judge)) == style.PEOPLE for judge in rows["judge"]}
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


def _separate(rows: pd.DataFrame, by: str, hue: str | None, differing: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """Return the rows and the column that names them; conditions that neither `by` nor `hue` shows are joined to it."""
    more = [name for name in differing if name not in (by, hue)]
    if not more or not rows.duplicated([by, *([hue] if hue else []), "metric"]).any():
        return rows, by
    return rows.assign(row=_row_names(rows, [by, *more])), "row"


def height_of(rows: int, marks: int) -> float:
    """Return the height in centimetres of Axes with some rows, each of which has up to so many marks."""
    return 3.0 + max(_LOWEST, min(rows * (0.33 + 0.27 * marks), max(_HIGHEST, rows * 0.31 * marks)))


def _row_names(rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return a name for each row: its non-empty values of the columns, joined."""
    values = rows[list(columns)].astype(object).where(rows[list(columns)].notna(), "")
    each = (row.items() for row in values.to_dict("records"))
    return [" · ".join(row_name(str(name), value) for name, value in row if value != "") for row in each]


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
        (ax.axhline if vertical else ax.axvline)(null, **style.NULL)
        size, *others = {metric.matters if metric.null == null else None for metric in metrics}
        if size is not None and not others:
            (ax.axhspan if vertical else ax.axvspan)(null - size, null + size, **style.SMALL)
    text = metrics[0].axis if len(metrics) == 1 else units.pop() if len(units) == 1 else "estimate"
    if vertical:
        ax.set_ylabel(label or textwrap.fill(text, _UPRIGHT))
    else:
        ax.set_xlabel(label or textwrap.fill(text, _LABEL_WIDTH))
    ax.locator_params(axis="y" if vertical else "x", nbins=6)
    style.note(ax, caption(rows, title))


_JUDGES = frozenset(["judge", "family"])  # conditions that are coloured by model family
_SPREAD = 0.36  # maximum offset of a mark from the middle of its row, as a share of the row
_INK = 0.62  # factor that darkens a mark's colour for its number, because small text needs more contrast


def metrics_of(rows: pd.DataFrame) -> list[Metric]:
    """Return the declarations of the metrics among the rows, each once."""
    probes = rows["probe"] if "probe" in rows else [None] * len(rows)
    return [find_metric(*pair) for pair in dict.fromkeys(zip(rows["metric"], probes, strict=True))]


def draw_marks(
    ax: Axes,
    rows: pd.DataFrame,
    places: np.ndarray,
    hue: str | None,
    reach: float = 0.0,
    vertical: bool = False,
    order: Sequence[Any] | None = None,
) -> None:
    """Draw estimates at their positions, with one look per value of `hue`, offset so that they do not overlap."""
    values: list[Any] = [None]
    if hue is not None:
        blank = rows[hue].isna() | (rows[hue] == "")  # rows without the condition look like its first value
        values = list(rows.loc[~blank, hue].unique() if order is None else order)
    ranks = np.zeros(len(rows), int) if hue is None else rows[hue].where(~blank, values[0]).map(values.index).to_numpy()
    if vertical:
        apart = len(values) > 1 and len(set(places.tolist())) < len(places)
        at = places + (np.linspace(-reach, reach, len(values))[ranks] if apart else 0.0)
    else:
        at = places + _within_rows(places, ranks)
    largest = float(rows["estimate"].abs().max())
    whole = all(metric.whole for metric in metrics_of(rows))  # such as ranks
    digits = 0 if largest >= 100 or whole else 3 if 0 < largest < 0.1 else 2
    by_family = hue in _JUDGES and {style.family_colour(str(each)) for each in values} != {style.OTHERS}
    for index, value in enumerate(values):
        part = rows[ranks == index]
        if part.empty:
            continue
        label = metrics_of(part)[0].label if hue == "metric" else None if hue is None else named(hue, value)
        own = [(label, style.family_colour(str(value)) if by_family else None, part)]
        for entry, own_colour, same in own if vertical or hue is not None else _by_family(part):
            along = same.index[np.argsort(places[same.index])] if vertical else same.index
            drawn = rows.loc[along]
            colour = style.OTHERS if (hue, value) in FLOORS else own_colour
            marks = style.dots(ax, drawn, at[along], index, entry, vertical, colour, fills(drawn))
            for container, chosen in marks:
                remember(container[0], drawn.iloc[chosen], at[along][chosen].tolist(), vertical)
            if not vertical:
                _write_numbers(ax, drawn["estimate"], digits, at[along], marks[0][0][0].get_color())
    style.beyond_intervals(ax, _decisive(rows), at, vertical)
    style.explain_marks(ax, fills(rows))
    if "planted" in rows:
        style.planted(ax, rows["planted"].to_numpy(float), at, vertical)


def _decisive(rows: pd.DataFrame) -> np.ndarray:
    """Return the ends of what else is plausible, shape (rows, 2), where that and not the interval decides; else NaN."""
    ends = np.full((len(rows), 2), np.nan)
    for place, row in enumerate(rows.to_dict("records")):
        null, size, (low, *_, high) = find_metric(row["metric"], row.get("probe")).null, row["matters"], _ends(row)
        if null is not None and row["ci_low"] == row["ci_low"] and row["finding"] not in ("untested", "plain"):
            edges = [null] if size != size else [null, null - size, null + size]
            if any(low <= edge <= high and not row["ci_low"] <= edge <= row["ci_high"] for edge in edges):
                ends[place] = low, high
    return ends


def _ends(row: Mapping[Any, Any]) -> list[float]:
    """Return the ends of all plausible intervals that have some, in increasing order."""
    known = plausible_intervals(row).values()
    return sorted(end for each in known for end in each if math.isfinite(end)) or [math.nan] * 2


def plain_if_untested(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a figure in which nothing is tested with plain marks; others as they are."""
    return rows.assign(finding="plain") if (rows["finding"] == "untested").all() else rows


def fills(rows: pd.DataFrame) -> list[str]:
    """Return how the mark of each row is filled: a key of `biaslab.report.plots.style.FILLS`."""
    kinds = []
    for row in rows.to_dict("records"):
        kind = str(row["finding"])
        if kind in ("above", "below"):
            kind = "slight" if row["slight"] else "found"
        elif kind == "none" and row["matters"] != row["matters"]:
            kind = "undetected"
        elif kind == "untested" and find_metric(row["metric"], row.get("probe")).null is None:
            kind = "plain"
        kinds.append(kind)
    return kinds


def _marks(rows: pd.DataFrame) -> int:
    """Return the number of entries in a legend that explain how marks are filled."""
    return len(set(fills(rows)) - {"plain"})


def _within_rows(places: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the offset of each estimate from the middle of its row, so that estimates in one row do not overlap."""
    offsets = np.zeros(len(places))
    for place in set(places.tolist()):
        [same_place] = np.nonzero(places == place)
        reach = _SPREAD * (1 - 1 / len(same_place))
        offsets[same_place[np.argsort(ranks[same_place], kind="stable")]] = np.linspace(-reach, reach, len(same_place))
    return offsets


def _by_family(rows: pd.DataFrame) -> list[tuple[str | None, Any, pd.DataFrame]]:
    """Split rows by model family, with its name and colour; one part without them for one judge or unknown families."""
    judges = rows["judge"].astype(str) if "judge" in rows else pd.Series("", index=rows.index)
    families = judges.map(style.family_of)
    if len(set(judges)) == 1 or set(families) == {"others"}:
        return [(None, None, rows)]
    several = len(set(families)) > 1
    parts = [part for _, part in rows.groupby(families, sort=False)]
    names = [families[part.index[0]] if several else None for part in parts]
    colours = [style.family_colour(str(judges[part.index[0]])) for part in parts]
    return list(zip(names, colours, parts, strict=True))


def _write_numbers(ax: Axes, values: pd.Series, digits: int, places: np.ndarray, colour: Any) -> None:
    """Write the estimates as numbers at the right edge of their rows."""
    ink = tuple(_INK * part for part in to_rgb(colour))
    look: dict[str, Any] = {"va": "center", "fontsize": 7, "color": ink, "annotation_clip": False}
    look |= {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    for value, place in zip(values, places.tolist(), strict=True):
        if not math.isnan(value):
            ax.annotate(number(value, digits), (1, place), (3, 0), **look)


_PANELS_ACROSS = 4  # maximum number of panels per line
_PAIR, _LETTERS = 2, 150  # number of panels per line that are still a column wide; characters across a page
_DENSE, _ROWS, _LEAST = 25, 20, 20  # characters per inch of a caption and of a row name; least per caption line
_LINES = 0.7  # extra height in centimetres for the caption lines that narrow panels need
_LABEL = 0.2  # inches per line of the vertical axis' label, and between row names and axis
_LONG = 26  # characters of a row's name that fit next to Axes of a column's width


def each_panel(
    rows: pd.DataFrame,
    metrics: list[str],
    along: str,
    upright: bool,
    hue: str | None,
    col: str | None,
    row: str | None,
    series: int,
) -> Iterator[tuple[Axes, pd.DataFrame, list[str]]]:
    """Yield the Axes, the rows, and the named values of `row` and `col` of each panel; remove Axes without rows."""
    places = list(product(values_of(rows, row, metrics), values_of(rows, col, metrics)))
    across = len(values_of(rows, col, metrics))
    columns = across if row is not None else min(across, _PANELS_ACROSS)
    own = "metric" in (row, col)
    levels = {value: place for place, value in enumerate(dict.fromkeys(rows[along]))}
    parts = []
    for row_value, col_value in places:
        part = rows_of(rows_of(rows, row, row_value), col, col_value)
        parts.append(part.sort_values(along, key=lambda values: values.map(levels), kind="stable"))
    if upright:
        height, alike, width = 6.5, not own, None
    else:
        marks = series + max(int(part[along].value_counts().max()) for part in parts if len(part))
        most = max(part[along].nunique() for part in parts)
        entries = series + (1 if hue is None else rows[hue].nunique())
        entries = entries + _marks(rows) if columns == 1 else 1
        height = height_of(most, marks) + _ENTRY * entries
        height += _LINES if columns > _PAIR else 0.0
        alike = all(part[along].nunique() == len(levels) for part in parts)
        width = 17.0 if max(len(row_name(along, value)) for value in levels) > _LONG else None
    axes = style.panels(columns, height, not own, width, -(-len(parts) // columns), alike)
    for ax in axes[len(parts) :]:
        ax.remove()
    for ax, place, part in zip(axes, places, parts, strict=False):
        ax.tick_params(labelbottom=True)
        if part.empty:
            ax.remove()
        else:
            named_by = zip((row, col), place, strict=True)
            yield ax, part, [named(column, value) for column, value in named_by if column not in (None, "metric")]


def make_logarithmic(ax: Axes) -> None:
    """Make the vertical axis logarithmic, with plain numbers as tick labels."""
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_formatter(NullFormatter())


def fit_text(ax: Axes) -> None:
    """Wrap the caption to the width of its panel (if single, without row names), and axis labels of narrow panels."""
    place = ax.get_subplotspec()
    columns = 1 if place is None else place.get_gridspec().ncols
    names = ax.yaxis.get_major_formatter().format_ticks(list(ax.get_yticks()))  # panels hide shared labels
    longest = max((len(line) for name in names for line in name.splitlines()), default=0)
    across: float = ax.figure.get_figwidth()  # type: ignore[union-attr]
    room = across - longest / _ROWS - _LABEL * (1 + len(ax.get_ylabel().splitlines()))
    width = (_LETTERS - longest) // columns if columns > 1 else max(_LEAST, round(_DENSE * room))
    style.note(ax, "\n".join(_fill(line, width) for line in ax.get_title(loc="left").splitlines()))
    if columns > _PAIR:
        ax.locator_params(axis="x", nbins=3)
        ax.set_xlabel(textwrap.fill(" ".join(ax.get_xlabel().split()), round(0.8 * _LETTERS / columns)))


def _fill(line: str, width: int) -> str:
    """Wrap a line between its facts, where the line's end separates them, and within a fact only if it is too long."""
    facts = [fact if len(fact) > width - 2 else fact.replace(" ", "\xa0") for fact in line.split(" · ")]
    lines = textwrap.wrap("\xa0· ".join(facts), width)
    return "\n".join(part.removesuffix("\xa0·") for part in lines).replace("\xa0", " ")


def values_of(rows: pd.DataFrame, column: str | None, metrics: list[str]) -> list[Any]:
    """Return the distinct non-empty values of a column, metrics in the given order; ``[None]`` without a column."""
    if column is None:
        return [None]
    require_columns(rows, [column], "estimates")
    values = [value for value in dict.fromkeys(rows[column]) if not pd.isna(value) and value != ""]
    return [metric for metric in metrics if metric in values] if column == "metric" else values


def rows_of(rows: pd.DataFrame, column: str | None, value: object) -> pd.DataFrame:
    """Return the rows with a value in a column; all rows without a column."""
    return rows if column is None else rows[rows[column] == value]


_LOOK: dict[str, Any] = {"linestyle": "", "marker": "|", "color": "0.68", "markeredgewidth": 0.9, "zorder": 0}
_TALL = 11  # points


def draw_judges(ax: Axes, rows: pd.DataFrame, places: np.ndarray, reference: str | pd.DataFrame) -> None:
    """Draw comparable judges as light ticks behind each row, once per position, metric and kind of comparison.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The Axes to draw on.
    rows : pandas.DataFrame
        Rows of an estimates frame.
    places : numpy.ndarray, shape (rows,)
        Position of each row on the vertical axis.
    reference : {"atlas"} or pandas.DataFrame
        See `biaslab.report.verdicts.judges_of`.
    """
    judges = judges_of(reference)
    peers_by_place: dict[tuple[object, ...], Peers] = {}
    for place, row in zip(places.tolist(), rows.to_dict("records"), strict=True):
        peers = find_peers(row, judges)
        if peers is not None:
            alike = (row[name] for name in peers.comparison.alike)
            peers_by_place.setdefault((place, row["metric"], *alike), peers)
    labels = _labels(list(peers_by_place.values()))
    for (place, *_), peers in peers_by_place.items():
        values = peers.judges["estimate"].to_numpy(float)
        label = labels.pop(peers.comparison.of, None)
        ax.plot(values, np.full(len(values), place), markersize=_TALL, label=label, **_LOOK)


def _labels(groups: list[Peers]) -> dict[str, str]:
    """Return one legend label for each kind of comparison, with the number of judges per row."""
    sizes: dict[str, list[int]] = {}
    for peers in groups:
        sizes.setdefault(peers.comparison.of, []).append(len(peers.judges))
    spans = {of: f"{min(n)} to {max(n)}" if min(n) < max(n) else f"{n[0]}" for of, n in sizes.items()}
    return {of: f"{span} {style.RECORDED} ({of})" for of, span in spans.items()}


_SVG = "http://www.w3.org/2000/svg"
_NAMESPACES = {"": _SVG, "xlink": "http://www.w3.org/1999/xlink"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARK = "biaslab-hover-"
_REACH = 9  # diameter in points of the area around a mark that reacts to the mouse


@dataclass(frozen=True)
class _Mark:
    """Position of an estimate and its interval, in data coordinates, and its tooltip."""

    x: tuple[float, float, float]
    y: tuple[float, float, float]
    text: str


_MARKS: WeakKeyDictionary[Artist, list[_Mark]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Hover:
    """A figure with tooltips; JupyterLab displays it.

    Attributes
    ----------
    svg : str
        The figure as SVG.
    """

    svg: str

    def _repr_html_(self) -> str:
        return self.svg


def hover(axes: Axes) -> Hover:
    """Add a tooltip to each mark of a figure: condition, estimate, interval and n.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Any Axes of a figure drawn by `intervals`, `against` or `draw`.

    Returns
    -------
    Hover
        JupyterLab displays it. `save` with ``formats=("svg",)`` writes the same to a file.

    Examples
    --------
    >>> hover(bl.plots.intervals(estimates, "first_position_rate"))  # doctest: +SKIP
    """
    figure: Figure = axes.figure  # type: ignore[assignment]
    return Hover(svg_of(figure).partition("?>")[2].strip())


def remember(artist: Artist, rows: pd.DataFrame, places: Sequence[float], vertical: bool) -> None:
    """Store the tooltip of each mark of a line, for as long as the line exists."""
    marks = []
    for row, place in zip(rows.to_dict("records"), places, strict=True):
        value = float(row["estimate"])
        bounds = [float(row[name]) if row[name] == row[name] else value for name in ("ci_low", "ci_high")]
        along, across = (bounds[0], value, bounds[1]), (float(place),) * 3
        if value == value:  # NaN is not drawn
            x, y = (across, along) if vertical else (along, across)
            marks.append(_Mark(x, y, tooltip({str(name): each for name, each in row.items()})))
    _MARKS[artist] = marks


def tooltip(row: Mapping[str, Any]) -> str:
    """Describe an estimate in two lines: its conditions, then its value.

    Examples
    --------
    >>> print(tooltip({"metric": "first_position_rate", "probe": "position", "judge": "j", "attribute": "fluency",
    ...             "estimate": 0.5312, "ci_low": 0.49, "ci_high": 0.57, "n_contexts": 24, "n_trials": 960}))
    j, attribute fluency
    P(A), decisions for the first: 0.531 [0.490, 0.570], n = 24 contexts, 960 judgements
    """
    fixed = {*LEADING, *TRAILING}
    conditions = [f"{name.replace('_', ' ')} {_short(value)}" for name, value in row.items()
                  if name not in fixed and not pd.isna(value)]  # fmt: skip
    subject = [str(row[name]) for name in ("judge", "dataset") if name in row]
    metric = find_metric(str(row["metric"]), row.get("probe"))
    facts = [with_interval(row), f"n = {row['n_contexts']:,} contexts"]
    facts += [f"{row['n_trials']:,} judgements"] if "n_trials" in row else []
    q = row.get("q_value")
    facts += [f"q {q:.3f}" if q >= 0.001 else "q < .001"] if q is not None and not pd.isna(q) else []
    return f"{', '.join([*subject, *conditions])}\n{metric.label}: {', '.join(facts)}"


def svg_of(figure: Figure) -> str:
    """Render a figure as SVG; each remembered mark gets a title, which browsers show as a tooltip."""
    figure.draw_without_rendering()  # a first layout differs from later ones in the last digits
    with _mouse_targets(figure) as texts, style.in_style(**{"svg.hashsalt": "biaslab"}), io.StringIO() as file:
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
        written = _NOT_XML.sub("\ufffd", file.getvalue())
    for prefix, uri in _NAMESPACES.items():
        ET.register_namespace(prefix, uri)
    root = ET.fromstring(written)  # noqa: S314 - matplotlib wrote it
    for group in root.iter(f"{{{_SVG}}}g"):
        text = texts.get(group.get("id", ""))
        if text is not None:
            title = ET.Element(f"{{{_SVG}}}title")
            title.text = _NOT_XML.sub("\ufffd", text)
            group.insert(0, title)
            group.set("style", "cursor: help")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


@contextmanager
def _mouse_targets(figure: Figure) -> Iterator[dict[str, str]]:
    """Add invisible mouse targets over the marks for the duration of the context; yield the tooltips by target id."""
    texts: dict[str, str] = {}
    targets: list[Line2D] = []
    for ax in figure.axes:
        for mark in (mark for line in ax.lines for mark in _MARKS.get(line, ())):
            name = f"{_MARK}{len(texts)}"
            texts[name] = mark.text
            look: dict[str, Any] = {"linewidth": _REACH, "marker": "o", "markersize": _REACH, "markevery": [1]}
            over = Line2D(mark.x, mark.y, alpha=0.0, transform=ax.transData, gid=name, zorder=10, **look)
            over.set_in_layout(False)
            targets.append(over)
            figure.add_artist(over)
    try:
        yield texts
    finally:
        for over in targets:
            over.remove()


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
