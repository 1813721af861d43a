"""One visual language: sizes of a journal's column, colours that the colour-blind and a grey copy tell apart."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.font_manager import fontManager

from biaslab.core.checked import checked
from biaslab.core.checks import require_count
from biaslab.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")
_INCH = 2.54
_HALF = NormalDist().inv_cdf(0.75)  # standard deviations on both sides of the middle hold half of a normal distribution
_LETTERS, _LINE = 8.6, 0.36  # of a headline: letters of a centimetre, centimetres of a line
#: A narrow face, Roboto Condensed (Apache-2.0), which comes with the package; what it lacks is drawn in matplotlib's.
FACE = ["Roboto Condensed", "DejaVu Sans"]
for _file in sorted((Path(__file__).parent / "fonts").glob("*.ttf")):
    fontManager.addfont(_file)
_TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=,) (?=[^\[\]]*\])")  # spaces of "61 %" and "[0.1, 0.2]", where no line ends
PALETTE = sns.color_palette("colorblind")
OTHERS, PEOPLE = "0.45", "black"
#: The colour of a family of judges in every figure, by how their names begin.
FAMILIES: dict[str, Any] = {
    "gpt|chatgpt|text.davinci": PALETTE[0],
    "claude": PALETTE[1],
    "gemini|palm": PALETTE[2],
    r"(meta-)?llama|tulu": PALETTE[3],
    "mi[sx]tral": PALETTE[4],
    "falcon": PALETTE[5],
    "deepseek": PALETTE[6],
    "qwen|athene": PALETTE[9],
    "expert|human|annotator|reference scores": PEOPLE,
}
MARKERS = "osD^vP"
LINES = ("-", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
PUBLISHED = "published: "
RECORDED = "recorded judges"  # in the label of other judges' marks
NULL: dict[str, Any] = {"color": "0.4", "linestyle": "--", "linewidth": 1.2, "zorder": 0}  # the line of no effect
BAND: dict[str, Any] = {"color": "0.965", "linewidth": 0, "zorder": -3}  # behind every second row
SMALL: dict[str, Any] = {"color": "0.88", "linewidth": 0, "zorder": -2, "label": "too small to matter"}
STYLE: dict[Any, Any] = {
    "font.family": FACE,
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


@contextmanager
def in_style(**more: Any) -> Iterator[None]:
    """Draw in biaslab's style without changing anybody else's.

    `plt.rc_context` resets every setting. A notebook's backend is loaded by the first figure and turns ``interactive``
    on; reset, it would show no figure after that one.
    """
    settings = STYLE | more
    before = {name: plt.rcParams[name] for name in settings}
    plt.rcParams.update(settings)
    try:
        yield
    finally:
        plt.rcParams.update(before)


@checked
def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw what a function draws in biaslab's style."""
    return in_style()(draw)


@checked
@styled
def panels(
    columns: int,
    height: float = 6.0,
    sharex: bool = True,
    width: float | None = None,
    rows: int = 1,
    sharey: bool = True,
) -> list[Axes]:
    """Return Axes side by side with a common vertical axis, to be drawn into and closed with `share_legend`.

    Parameters
    ----------
    columns : int
        Number of panels; one is a journal column wide (8 cm), two or more fill a page (17 cm).
    height : float
        In centimetres.
    sharex : bool
        Have one horizontal scale; panels of different metrics have none in common.
    width : float, optional
        In centimetres, where long names need another than that of a column or a page.
    rows : int
        Of panels, of which each has this height; the list holds them row by row.
    sharey : bool
        Have one vertical scale.
    """
    require_count("columns", columns, 1)
    require_count("rows", rows, 1)
    for name, centimetres in (("height", height), ("width", width)):
        if centimetres is not None and not centimetres > 0:
            raise InputError(name, centimetres, "centimetres above 0", "such as 6")
    size = ((width or (8.0 if columns == 1 else 17.0)) / _INCH, rows * height / _INCH)
    figure, axes = plt.subplots(rows, columns, figsize=size, sharex=sharex, sharey=sharey, squeeze=False)
    figure.set_layout_engine("constrained", wspace=0.06)
    for ax in axes.flat:  # ticks are made when a figure is shown, whoever's style holds then
        ax.tick_params(labelfontfamily=FACE)
    return list(axes.flat)


@checked
@styled
def share_legend(axes: Sequence[Axes]) -> None:
    """Put one legend of all panels below them; a vertical axis that all share is labelled on the first one."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    last = SMALL["label"]
    labels = sorted(
        handles, key=lambda name: (name == last, name.startswith(PUBLISHED), RECORDED in name)
    )  # ours first
    for drawn in axes[0].figure.legends:
        drawn.remove()
    widest = max(map(len, labels), default=0)
    width: float = axes[0].figure.get_figwidth() * _INCH  # type: ignore[union-attr]
    letters = 9 * width if len(axes) > 1 else 62 * width / 8
    columns = max(1, min(len(labels), int(letters / (widest + 6))))
    if handles:
        axes[0].figure.legend(
            [handles[label] for label in labels], labels, loc="outside lower center", frameon=False, ncols=columns
        )
    for ax in axes[1:]:
        place = ax.get_subplotspec()
        if (place is None or not place.is_first_col()) and ax.get_ylabel() == axes[0].get_ylabel():
            ax.set_ylabel("")


def family_colour(name: str) -> Any:
    """Return the colour of a judge's family, by its name.

    Examples
    --------
    >>> family_colour("gpt-4o") == family_colour("GPT-5") == PALETTE[0], family_colour("expert-1")
    (True, 'black')
    """
    known = (colour for begins, colour in FAMILIES.items() if re.match(begins, name, re.IGNORECASE))
    return next(known, OTHERS)


def dots(
    ax: Axes,
    rows: pd.DataFrame,
    places: np.ndarray,
    index: int,
    label: object = None,
    vertical: bool = False,
    hollow: bool = False,
    colour: Any = None,
) -> ErrorbarContainer:
    """Draw estimates with their intervals in the look that belongs to an index, filled or hollow.

    The thick part of a line would hold half of a normal distribution that has the interval as its middle part.
    """
    values, ends = rows["estimate"].to_numpy(float), rows[["ci_low", "ci_high"]].to_numpy(float).T
    level = rows["ci_level"].to_numpy(float) if "ci_level" in rows else np.full(len(rows), 0.95)
    half = [_HALF / NormalDist().inv_cdf((1 + one) / 2) if 0 < one < 1 else np.nan for one in level]
    colour = PALETTE[index % len(PALETTE)] if colour is None else colour
    look: dict[str, Any] = {
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": LINES[index % len(LINES)] if vertical else "",
        "color": colour,
        "markersize": 4,
        "linewidth": 1,
        "elinewidth": 0.9,
        "capsize": 0,
        "label": None if label is None else str(label),
        **({"markerfacecolor": "white"} if hollow else {}),
    }
    (ax.vlines if vertical else ax.hlines)(places, *(values + half * (ends - values)), color=colour, linewidth=2.4)
    if vertical:
        return ax.errorbar(places, values, yerr=np.abs(ends - values), **look)
    return ax.errorbar(values, places, xerr=np.abs(ends - values), **look)


@checked
def note(ax: Axes, text: str) -> None:
    """Write the facts of a figure (data set, n, level) above Axes, small and grey; a $ in a name is a $."""
    ax.set_title(text, loc="left", color="0.3", fontsize=6.5, parse_math=False)


def head(figure: Figure, text: str) -> None:
    """Write in a line, or as many about equal ones as it takes, what a figure tells; the figure grows by them."""
    letters = int(_LETTERS * figure.get_figwidth() * _INCH)
    text = _TOGETHER.sub("\xa0", text)
    lines = textwrap.wrap(text, letters)
    while letters > 1 and len(even := textwrap.wrap(text, letters)) == len(lines):
        lines, letters = even, letters - 1
    grown = len(lines) - len(figure.get_suptitle().splitlines())
    figure.set_figheight(figure.get_figheight() + _LINE * grown / _INCH)
    look: dict[str, Any] = {"family": FACE, "fontsize": 7.5, "fontweight": "bold", "color": "0.1", "parse_math": False}
    figure.suptitle("\n".join(lines).replace("\xa0", " "), x=0.0, ha="left", **look)
