"""The visual style: sizes of journal columns, colours distinct in greyscale and for colour-blind readers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from biaslab.core.checks import require_count
from biaslab.core.errors import InputError
from biaslab.report.wording import WORDS

P = ParamSpec("P")
R = TypeVar("R")
_INCH = 2.54
_LETTERS, _LINE = 8.6, 0.36  # of a headline: characters per centimetre, centimetres per line
#: Roboto Condensed (Apache-2.0), a narrow font shipped with the package; missing glyphs come from matplotlib's font.
FACE = ["Roboto Condensed", "DejaVu Sans"]
for _file in sorted((Path(__file__).parent / "fonts").glob("*.ttf")):
    fontManager.addfont(_file)
_TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=,) (?=[^\[\]]*\])")  # no line break in "61 %" and "[0.1, 0.2]"
PALETTE = sns.color_palette("colorblind")
OTHERS, PEOPLE = "0.45", "black"
#: Model families: the beginning of their judges' names, and their colour in every figure.
FAMILIES: dict[str, tuple[str, Any]] = {
    "GPT": ("gpt|chatgpt|text.davinci", PALETTE[0]),
    "Claude": ("claude", PALETTE[1]),
    "Gemini, PaLM": ("gemini|palm", PALETTE[2]),
    "Llama": (r"(meta-)?llama|tulu", PALETTE[3]),
    "Mistral": ("mi[sx]tral", PALETTE[4]),
    "Falcon": ("falcon", PALETTE[5]),
    "DeepSeek": ("deepseek", PALETTE[6]),
    "Qwen": ("qwen|athene", PALETTE[9]),
    "people": ("expert|human|annotator|reference scores", PEOPLE),
}
MARKERS = "osD^vP"
PUBLISHED_MARKERS = "x+1234"  # of published values, which have no interval
LINES = ("-", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
PUBLISHED = "published: "
PLANTED = "planted (simulated)"
BEYOND = "with missing or unreliable ratings"
_BEYOND: dict[str, Any] = {"color": "0.35", "linewidth": 0.4, "zorder": 1}
_PLANTED: dict[str, Any] = {"markersize": 9, "markeredgewidth": 1.6, "zorder": 1.5}
_LONGEST_NOTE = 1000  # letters of a headline or a caption
RECORDED = "recorded judges"  # in the legend label of reference judges
NULL: dict[str, Any] = {"color": "0.4", "linestyle": "--", "linewidth": 1.2, "zorder": 0}  # line at the null
BAND: dict[str, Any] = {"color": "0.965", "linewidth": 0, "zorder": -3}  # background of every second row
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
    """Apply biaslab's style within a context, without changing other settings.

    `plt.rc_context` would restore every setting. In a notebook, the first figure loads a backend that turns
    ``interactive`` on; if that were restored, no later figure would be shown.
    """
    settings = STYLE | more
    before = {name: plt.rcParams[name] for name in settings}
    plt.rcParams.update(settings)
    try:
        yield
    finally:
        plt.rcParams.update(before)


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Make a function draw in biaslab's style."""
    return in_style()(draw)


@styled
def panels(
    columns: int,
    height: float = 6.0,
    sharex: bool = True,
    width: float | None = None,
    rows: int = 1,
    sharey: bool = True,
) -> list[Axes]:
    """Create Axes side by side with common axes, to be drawn on and finished with `share_legend`.

    Parameters
    ----------
    columns : int
        Number of panels per row: a single one is a journal column wide (8 cm), two or more fill a page (17 cm).
    height : float
        Height of each row of panels, in centimetres.
    sharex : bool
        Share the horizontal axis; panels of different metrics cannot.
    width : float, optional
        Width of the figure in centimetres, if long names need another one.
    rows : int
        Number of rows of panels; the list goes row by row.
    sharey : bool
        Share the vertical axis.
    """
    require_count("columns", columns, 1)
    require_count("rows", rows, 1)
    for name, centimetres in (("height", height), ("width", width)):
        if centimetres is not None and not centimetres > 0:
            raise InputError(name, centimetres, "centimetres above 0", "such as 6")
    size = ((width or (8.0 if columns == 1 else 17.0)) / _INCH, rows * height / _INCH)
    figure, axes = plt.subplots(rows, columns, figsize=size, sharex=sharex, sharey=sharey, squeeze=False)
    figure.set_layout_engine("constrained", wspace=0.06)
    for ax in axes.flat:  # tick labels are created when the figure is shown, outside this style
        ax.tick_params(labelfontfamily=FACE)
    return list(axes.flat)


@styled
def share_legend(axes: Sequence[Axes]) -> None:
    """Put a common legend below all panels, and label a common vertical axis only in the first column."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    after = [*FOUND_WORDS.values(), BEYOND, SMALL["label"]]  # own estimates first
    places = {name: place for place, name in enumerate(after, 1)}
    labels = sorted(handles, key=lambda name: (places.get(name, 0), name.startswith(PUBLISHED), RECORDED in name))
    for drawn in axes[0].figure.legends:
        drawn.remove()
    widest = max((len(shortened(label)) for label in labels), default=0)
    width: float = axes[0].figure.get_figwidth() * _INCH  # type: ignore[union-attr]
    letters = 9 * width if len(axes) > 1 else 62 * width / 8
    columns = max(1, min(len(labels), int(letters / (widest + 6))))
    if handles:
        shown, names = [handles[label] for label in labels], [shortened(label) for label in labels]
        how: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "ncols": columns}
        legend = axes[0].figure.legend(shown, names, **how)
        for text in legend.get_texts():
            text.set_parse_math(False)
    for ax in axes[1:]:
        place = ax.get_subplotspec()
        if (place is None or not place.is_first_col()) and ax.get_ylabel() == axes[0].get_ylabel():
            ax.set_ylabel("")


def family_of(judge: str) -> str:
    """Return the model family of a judge.

    Examples
    --------
    >>> family_of("gpt-4o"), family_of("expert-1"), family_of("pandalm")
    ('GPT', 'people', 'others')
    """
    known = (name for name, (begins, _) in FAMILIES.items() if re.match(begins, judge, re.IGNORECASE))
    return next(known, "others")


def family_colour(judge: str) -> Any:
    """Return the colour of a judge's model family.

    Examples
    --------
    >>> family_colour("gpt-4o") == family_colour("GPT-5") == PALETTE[0], family_colour("expert-1")
    (True, 'black')
    """
    return FAMILIES.get(family_of(judge), ("", OTHERS))[1]


#: Look of a mark by its finding; "plain" are estimates that nothing is found of, since they have no fair value.
FILLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "found": {},
    "slight": {"fillstyle": "left", "markerfacecoloralt": "white"},
    "none": {"markerfacecolor": "white"},
    "undetected": {"markerfacecolor": "0.8"},
    "open": {"markerfacecolor": "white"},
    "untested": {"markersize": 2.4},
}
#: What the marks mean, in a legend.
FOUND_WORDS: dict[str, str] = WORDS["found"]


def dots(
    ax: Axes,
    rows: pd.DataFrame,
    places: np.ndarray,
    index: int,
    label: object = None,
    vertical: bool = False,
    colour: Any = None,
    fills: Sequence[str] | None = None,
    join: bool = True,
) -> list[tuple[ErrorbarContainer, np.ndarray]]:
    """Draw estimates with their intervals, in the look of an index; each mark is filled as its finding says.

    Parameters
    ----------
    fills : sequence of str, optional
        Keys of `FILLS`, one per row; default: all filled.
    join : bool
        Join marks of vertical intervals by a line.

    Returns
    -------
    list of (ErrorbarContainer, numpy.ndarray)
        The marks of each fill, and which rows they show.
    """
    values, ends = rows["estimate"].to_numpy(float), rows[["ci_low", "ci_high"]].to_numpy(float).T
    known = ~np.isnan(ends).any(axis=0)
    kinds = np.array(["plain"] * len(rows) if fills is None else list(fills), object)
    color = PALETTE[index % len(PALETTE)] if colour is None else colour
    base: dict[str, Any] = {"marker": MARKERS[index % len(MARKERS)], "color": color, "markersize": 4, "linestyle": ""}
    if label is not None:  # in the legend, a filled mark of the look
        line = LINES[index % len(LINES)] if vertical and join else ""
        ax.plot([], [], label=str(label), **base | {"linestyle": line, "linewidth": 1})
    if vertical and join:
        ax.plot(places, values, color=color, linestyle=LINES[index % len(LINES)], linewidth=1)
    drawn = []
    for kind, fill in FILLS.items():
        chosen = np.flatnonzero(kinds == kind)
        if not len(chosen):
            continue
        reach = np.where(known[chosen], np.abs(ends[:, chosen] - values[chosen]), 0.0)
        look = {**base, "elinewidth": 0.9, "capsize": 0, **fill, "yerr" if vertical else "xerr": reach}
        at = (places[chosen], values[chosen]) if vertical else (values[chosen], places[chosen])
        container = ax.errorbar(*at, **look)
        for bar in container[2] if kind == "open" else ():
            bar.set_linestyle((0, (1, 1)))
        drawn.append((container, chosen))
    return drawn


def explain_marks(ax: Axes, kinds: Iterable[str]) -> None:
    """Add an entry to the legend for each kind of finding among the marks."""
    for kind in (kind for kind in FOUND_WORDS if kind in set(kinds)):
        line = (0, (1, 1)) if kind == "open" else "-"
        look = {"marker": "o", "color": "0.35", "markersize": 4, "linestyle": line, "linewidth": 0.9, **FILLS[kind]}
        ax.plot([], [], label=FOUND_WORDS[kind], **look)


def beyond_intervals(ax: Axes, ends: np.ndarray, places: np.ndarray, vertical: bool = False) -> None:
    """Draw thin lines between ends, shape (places, 2), that decide about a finding; NaN is not drawn."""
    known = ~np.isnan(ends).any(axis=1)
    if known.any():
        (ax.vlines if vertical else ax.hlines)(places[known], *ends[known].T, label=BEYOND, **_BEYOND)


def planted(ax: Axes, values: np.ndarray, places: np.ndarray, vertical: bool = False) -> None:
    """Mark the values that a simulated judge was given, across the estimates; NaN is not drawn."""
    if not np.isnan(values).all():
        at = (places, values) if vertical else (values, places)
        ax.plot(*at, label=PLANTED, color="black", linestyle="", marker="_" if vertical else "|", **_PLANTED)


def shortened(text: str, most: int = 120) -> str:
    """Cut a text that would make a figure too large for memory.

    Examples
    --------
    >>> shortened("a judge"), shortened("x" * 10_000, 5)
    ('a judge', 'xxxx…')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def note(ax: Axes, text: str) -> None:
    """Write the caption above Axes (data set, n, level), small and grey; a $ in a name is printed as such."""
    ax.set_title(shortened(text, _LONGEST_NOTE), loc="left", color="0.3", fontsize=7, parse_math=False)


def head(figure: Figure, text: str) -> None:
    """Write the headline of a figure, wrapped into lines of about equal length, and make the figure higher to fit."""
    letters = int(_LETTERS * figure.get_figwidth() * _INCH)
    text = _TOGETHER.sub("\xa0", shortened(text, _LONGEST_NOTE))
    lines = textwrap.wrap(text, letters)
    while letters > 1 and len(even := textwrap.wrap(text, letters)) == len(lines):
        lines, letters = even, letters - 1
    grown = len(lines) - len(figure.get_suptitle().splitlines())
    figure.set_figheight(figure.get_figheight() + _LINE * grown / _INCH)
    look: dict[str, Any] = {"family": FACE, "fontsize": 7.5, "fontweight": "bold", "color": "0.1", "parse_math": False}
    figure.suptitle("\n".join(lines).replace("\xa0", " "), x=0.0, ha="left", **look)
