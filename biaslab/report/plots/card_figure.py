"""The figure of a bias card: each tested estimate as a distance from no bias."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from biaslab.report.plots import MARKERS, PALETTE, note, panels, styled
from biaslab.report.plots.figure_words import judge_words
from biaslab.report.plots.style import OTHERS, family_colour
from biaslab.report.summary import STATUS
from biaslab.report.verdicts import by_metric

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from biaslab.report.verdicts import Finding

_INCH, _LINE, _POINTS = 2.54, 0.28, 8.4  # centimetres per inch and per line of a verdict; points per such line
_WIDTH, _NAME = 72, 110  # characters per line of a verdict, and maximum number of characters of a judge's name
_SHORT = 20  # maximum number of characters of a name next to a judge's rows
_LEFT, _RIGHT = -0.9, 2.1  # left and right end of the rows, in widths of the axes
#: Traffic-light colours that colour-blind readers can distinguish; each also has its own mark.
_LIGHTS = {"bias": "#9c2f00", "slight": "#8a6400", "none": "#00614d", "unclear": "0.3", "untested": "0.3"}
_CROWDED = 20  # axis limit, in units of what matters, beyond which three labels per decade do not fit


@styled
def draw(biases: pd.DataFrame, found: Sequence[Finding], facts: str) -> Axes:
    """Draw one row per judge and metric, with its cells in units of the smallest effect that matters, and its verdict.

    The worst verdicts come first, as in the card's table. Metrics that were not tested for any judge have no row; a
    line above the axes names them.

    Parameters
    ----------
    biases : pandas.DataFrame
    found : sequence of Finding
        Attributes ``biases`` and ``findings`` of a `biaslab.report.Card`.
    facts : str
        Line above the axes: data, n, level.

    Returns
    -------
    matplotlib.axes.Axes
    """
    judges = list(dict.fromkeys(each.row["judge"] for each in found))
    severity = biases["status"].map({status: place for place, status in enumerate(STATUS)})
    worst = severity.groupby([biases["probe"], biases["metric"]], sort=False).min().sort_values(kind="stable")
    order = {key: place for place, key in enumerate(worst.index)}
    tested = biases.groupby(["probe", "metric"])["status"].transform(lambda statuses: (statuses != "untested").any())
    shown = biases if not tested.any() else biases[tested]
    keys = zip(shown["probe"], shown["metric"], shown["judge"], strict=True)
    rows = sorted(keys, key=lambda key: (order[key[:2]], judges.index(key[2])))
    names, colours = _short_names(judges), _colours(judges)
    [ax] = panels(1)
    figure: Figure = ax.figure  # type: ignore[assignment]
    figure.set_layout_engine("none")  # the text lies outside the axes, which must not shrink to make room for it
    most = max(len(_words(row)) for row in shown.to_dict("records"))
    figure.set_size_inches(9 / _INCH, (2.6 + max(1.0, _LINE * (most + 2.1)) * len(rows)) / _INCH)
    ax.axvspan(-1, 1, color="0.92", zorder=0, linewidth=0)
    ax.axvline(0, color="0.4", linestyle="--", linewidth=1, zorder=0)
    cells = by_metric(found)
    for place, (probe, metric, judge) in enumerate(rows):
        bias = biases[(biases["probe"] == probe) & (biases["metric"] == metric) & (biases["judge"] == judge)].iloc[0]
        first = not place or rows[place - 1][:2] != (probe, metric)
        if first and place:
            line: dict[str, Any] = {"color": "0.8", "linewidth": 0.5, "clip_on": False}
            ax.plot([_LEFT, _RIGHT], [place - 0.5] * 2, transform=ax.get_yaxis_transform(), **line)
        marker = MARKERS[judges.index(judge) % len(MARKERS)]
        _draw_cells(ax, cells[judge, probe, metric], place, {"marker": marker, "color": colours[judge]})
        _write(ax, bias.to_dict(), place, names[judge] if len(judges) > 1 else "", first)
    left = biases[~tested] if tested.any() else biases.iloc[:0]
    above = [f"{names[name]}: {name}" if names[name] else name for name in judges if names[name] != name]
    above = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in above]
    _finish(ax, len(rows), [*above, *textwrap.wrap(facts, _NAME), *_not_tested(left)])
    return ax


def _short_names(judges: list[str]) -> dict[str, str]:
    """Return a label per judge: its name if all are short and distinct, else a number; "" for a single judge."""
    if len(judges) == 1:
        return {judges[0]: ""}
    short = [judge_words(judge) for judge in judges]
    if len(set(short)) == len(judges) and max(map(len, short)) <= _SHORT:
        return dict(zip(judges, short, strict=True))
    return {judge: f"judge {number}" for number, judge in enumerate(judges, 1)}


def _colours(judges: list[str]) -> dict[str, Any]:
    """Return the colour of each judge: that of its model family, as in every figure, if any family is known."""
    families = {judge: family_colour(judge_words(judge)) for judge in judges}
    if set(families.values()) != {OTHERS}:
        return families
    return {judge: PALETTE[place % len(PALETTE)] for place, judge in enumerate(judges)}


def _draw_cells(ax: Axes, found: Sequence[Finding], place: int, own: Mapping[str, Any]) -> None:
    """Draw the tested cells of one judge and metric, in units of the smallest effect that matters."""
    drawn = [each for each in found if each.kind != "untested" and each.matters and each.estimate == each.estimate]
    x, low, high = (
        np.array([(getattr(each, end) - each.null) / each.matters for each in drawn], float)
        for end in ("estimate", "low", "high")
    )
    y = place + (np.linspace(-0.3, 0.3, len(drawn)) if len(drawn) > 1 else np.zeros(len(drawn)))
    look: dict[str, Any] = {"markersize": 3.5, "elinewidth": 1.6, "linestyle": "", **own}
    ax.errorbar(x, y, xerr=np.abs(np.array([x - low, high - x])), **look)


def _write(ax: Axes, row: Mapping[Any, Any], place: int, judge: str, first: bool) -> None:
    """Write the metric on the left of a row and the verdict on the right."""
    if judge:
        at: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "parse_math": False, "fontsize": 6.5}
        ax.text(-0.03, place, judge, ha="right", va="center", **at)
    label = textwrap.wrap(str(row["label"]), 36)
    if first:
        probe = str(row["probe"]).replace("_", " ")
        top = {"y": place - 0.42, "middle": False} if judge else {"y": place}
        _write_block(ax, _LEFT, probe, label, "black", "0.3", **top)
    mark, word = STATUS[row["status"]]
    lines, light = _words(row), _LIGHTS[row["status"]]
    _write_block(ax, 1.03, mark, lines, light, y=place, body=False)
    _write_block(ax, 1.08, word, lines, light, y=place)


def _write_block(
    ax: Axes, x: float, head: str, lines: list[str], bold: str, colour: str = "black", *, y: float, middle: bool = True,
    body: bool = True,
) -> None:  # fmt: skip
    """Write a bold line above further lines, vertically centred at `y` or, unless `middle`, below it."""
    below = _POINTS * ((len(lines) - 1) / 2 if middle else -1)
    at: dict[str, Any] = {"xy": (x, y), "xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    at |= {"xytext": (0, below), "annotation_clip": False, "parse_math": False, "fontsize": 6.5, "ha": "left"}
    ax.annotate(head, va="bottom", color=bold, fontweight="bold", **at)
    if body:
        ax.annotate("\n".join(lines), va="top", color=colour, **at)


def _words(row: Mapping[Any, Any]) -> list[str]:
    """Return the lines below a verdict's word: the verdict and, if a bias was found, the numbers."""
    is_bias = row["status"] in ("bias", "slight")
    evidence = [f"{row['estimate']} {row['interval']}, q {row['q']}"] if is_bias else []
    verdict = "; ".join(filter(None, (row["verdict"], row["rank"] if is_bias else "")))
    return [*textwrap.wrap(verdict, _WIDTH), *evidence]


def _not_tested(left: pd.DataFrame) -> list[str]:
    """Return lines that name the metrics without a row."""
    names = [
        f"{str(probe).replace('_', ' ')} ({label})" for probe, label in zip(left["probe"], left["label"], strict=True)
    ]
    return textwrap.wrap(f"not tested: {', '.join(dict.fromkeys(names))}", _NAME) if names else []


def _finish(ax: Axes, rows: int, above: list[str]) -> None:
    """Set limits, scale and labels of the horizontal axis, and write the caption."""
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xscale("symlog", linthresh=1, linscale=0.6)
    reach = 1.3 * max(2.0, *map(abs, ax.get_xlim()))
    ax.set_xlim(-reach, reach)
    _mark(ax, reach)
    ax.set_xlabel(
        "distance from no bias, in units of what matters\n(grey: less than that; bars: intervals)", fontsize=7
    )
    note(ax, "\n".join(above))


def _mark(ax: Axes, reach: float) -> None:
    """Label 1, 2, 5, 10, … (only powers of ten if space is short), with minor ticks between them."""
    steps = (1, 2, 5) if reach < _CROWDED else (1,)
    ticks = [step * 10**power for power in range(4) for step in steps if step * 10**power <= reach]
    ax.set_xticks([*(-tick for tick in ticks), 0, *ticks], [*(f"−{tick}" for tick in ticks), "0", *map(str, ticks)])
    between = [step * 10**power for power in range(4) for step in range(2, 10) if step * 10**power <= reach]
    ax.set_xticks([*(-tick for tick in between), *between], minor=True)
    ax.tick_params(axis="x", labelsize=7)
