"""Lay out the panels of a figure: their number, height and rows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from biaslab.report.plots.naming import named, row_name
from biaslab.report.plots.style import note, panels
from biaslab.stats import require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS = 4  # maximum number of panels per line
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
    places = [
        (row_value, col_value)
        for row_value in values_of(rows, row, metrics)
        for col_value in values_of(rows, col, metrics)
    ]
    across = len(values_of(rows, col, metrics))
    columns = across if row is not None else min(across, _ACROSS)
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
        height = (
            3.0 + most * (0.33 + 0.27 * marks) + 0.35 * (entries if columns == 1 and len(levels) < _PAIR * 4 else 1)
        )
        height += _LINES if columns > _PAIR else 0.0
        alike = all(part[along].nunique() == len(levels) for part in parts)
        width = 17.0 if max(len(row_name(along, value)) for value in levels) > _LONG else None
    axes = panels(columns, height, not own, width, -(-len(parts) // columns), alike)
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
    note(ax, "\n".join(_fill(line, width) for line in ax.get_title(loc="left").splitlines()))
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
