"""Draw estimates as marks on Axes, with one look per value of a condition and the numbers at the right edge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb

from biaslab.core import Metric, find_metric
from biaslab.core.output import number
from biaslab.report.plots.hover import remember
from biaslab.report.plots.naming import HOLLOW, named
from biaslab.report.plots.style import OTHERS, dots, family_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    log: bool = False,
) -> None:
    """Draw estimates at their positions, with one look per value of `hue`, offset so that they do not overlap."""
    values: list[Any] = [None]
    if hue is not None:
        blank = rows[hue].isna() | (rows[hue] == "")  # rows without the condition look like its first value
        values = list(rows.loc[~blank, hue].unique() if order is None else order)
    ranks = np.zeros(len(rows), int) if hue is None else rows[hue].where(~blank, values[0]).map(values.index).to_numpy()
    if vertical:
        offsets = np.linspace(-reach, reach, len(values))[ranks] if len(values) > 1 else 0.0 * places
        at = places * 10**offsets if log else places + offsets
    else:
        at = places + _within_rows(places, ranks)
    largest = float(rows["estimate"].abs().max())
    digits = 0 if largest >= 100 else 3 if 0 < largest < 0.1 else 2
    by_family = hue in _JUDGES and {family_colour(str(each)) for each in values} != {OTHERS}
    for index, value in enumerate(values):
        part = rows[ranks == index]
        if part.empty:
            continue
        label = metrics_of(part)[0].label if hue == "metric" else None if hue is None else named(hue, value)
        own = [(family_colour(str(value)) if by_family else None, part)]
        for colour, same in own if vertical or hue is not None else _by_family(part):
            along = same.index[np.argsort(places[same.index])] if vertical else same.index
            drawn = rows.loc[along]
            container = dots(ax, drawn, at[along], index, label, vertical, (hue, value) in HOLLOW, colour)
            remember(container[0], drawn, at[along].tolist(), vertical)
            if not vertical:
                _write_numbers(ax, drawn["estimate"], digits, at[along], container[0].get_color())


def _within_rows(places: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the offset of each estimate from the middle of its row, so that estimates in one row do not overlap."""
    offsets = np.zeros(len(places))
    for place in set(places.tolist()):
        [same_place] = np.nonzero(places == place)
        reach = _SPREAD * (1 - 1 / len(same_place))
        offsets[same_place[np.argsort(ranks[same_place], kind="stable")]] = np.linspace(-reach, reach, len(same_place))
    return offsets


def _by_family(rows: pd.DataFrame) -> list[tuple[Any, pd.DataFrame]]:
    """Split rows by their judges' family colours; one part without a colour for a single judge or unknown families."""
    judges = rows["judge"].astype(str) if "judge" in rows else pd.Series("", index=rows.index)
    colours: dict[Any, list[Any]] = {}
    for place, judge in judges.items():
        colours.setdefault(family_colour(judge), []).append(place)
    if len(judges.unique()) == 1 or set(colours) == {OTHERS}:
        return [(None, rows)]
    return [(colour, rows.loc[places]) for colour, places in colours.items()]


def _write_numbers(ax: Axes, values: pd.Series, digits: int, places: np.ndarray, colour: Any) -> None:
    """Write the estimates as numbers at the right edge of their rows."""
    ink = tuple(_INK * part for part in to_rgb(colour))
    look: dict[str, Any] = {"va": "center", "fontsize": 6.5, "color": ink, "annotation_clip": False}
    look |= {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    for value, place in zip(values, places.tolist(), strict=True):
        if not math.isnan(value):
            ax.annotate(number(value, digits), (1, place), (3, 0), **look)
