"""Tooltips on the marks of a figure (condition, estimate, interval and n), in SVG without scripts."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pandas as pd
from matplotlib.lines import Line2D

from biaslab.core import find_metric
from biaslab.report.plots.style import in_style
from biaslab.report.wording import with_interval
from biaslab.stats import LEADING, TRAILING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_NAMESPACES = {"": _SVG, "xlink": "http://www.w3.org/1999/xlink"}
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
    with _mouse_targets(figure) as texts, in_style(**{"svg.hashsalt": "biaslab"}), io.StringIO() as file:
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
        written = file.getvalue()
    for prefix, uri in _NAMESPACES.items():
        ET.register_namespace(prefix, uri)
    root = ET.fromstring(written)  # noqa: S314 - matplotlib wrote it
    for group in root.iter(f"{{{_SVG}}}g"):
        text = texts.get(group.get("id", ""))
        if text is not None:
            title = ET.Element(f"{{{_SVG}}}title")
            title.text = text
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
