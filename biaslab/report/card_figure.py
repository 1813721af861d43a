"""The figure of a bias card: each tested estimate as a distance from no bias."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from biaslab.report.plots import MARKERS, PALETTE, note, panels, styled
from biaslab.report.summary import STATUS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCH, _LINE = 2.54, 0.28  # centimetres of an inch, and of a line of a verdict
_WIDTH, _NAME = 60, 90  # letters of a line of a verdict, and of a judge's name
#: The colours of a traffic light, told apart by the colour-blind and, by their marks, by everybody.
_LIGHTS = {"bias": "#9c2f00", "slight": "#8a6400", "none": "#00614d", "unclear": "0.3", "untested": "0.3"}
_CROWDED = 20  # axis limit, in units of what matters, beyond which three labels per decade do not fit


@styled
def draw(biases: pd.DataFrame, cells: pd.DataFrame, facts: str) -> Axes:
    """Draw one row per judge and metric, with its cells in units of the smallest effect that matters, and its verdict.

    Metrics tested for no judge have no row; a line above the axes names them.

    Parameters
    ----------
    biases, cells : pandas.DataFrame
        Attributes of a `biaslab.report.Card`.
    facts : str
        Line above the axes: data, n, level.

    Returns
    -------
    matplotlib.axes.Axes
    """
    judges = list(dict.fromkeys(cells["judge"]))
    order = {key: place for place, key in enumerate(dict.fromkeys(zip(biases["probe"], biases["metric"], strict=True)))}
    tested = biases.groupby(["probe", "metric"])["status"].transform(lambda found: (found != "untested").any())
    shown = biases if not tested.any() else biases[tested]
    keys = zip(shown["probe"], shown["metric"], shown["judge"], strict=True)
    rows = sorted(keys, key=lambda key: (order[key[:2]], judges.index(key[2])))
    [ax] = panels(1)
    figure: Figure = ax.figure  # type: ignore[assignment]
    figure.set_layout_engine("none")  # the text lies outside the axes, which must not shrink to make room for it
    most = max(len(_words(row)) for row in shown.to_dict("records"))
    figure.set_size_inches(9 / _INCH, (2.6 + max(1.0, _LINE * (most + 0.4)) * len(rows)) / _INCH)
    ax.axvspan(-1, 1, color="0.92", zorder=0, linewidth=0)
    ax.axvline(0, color="0.4", linestyle="--", linewidth=1, zorder=0)
    for place, (probe, metric, judge) in enumerate(rows):
        here, there = ((f["probe"] == probe) & (f["metric"] == metric) & (f["judge"] == judge) for f in (cells, biases))
        index = judges.index(judge)
        first = not place or rows[place - 1][:2] != (probe, metric)
        if first and place:
            line: dict[str, Any] = {"color": "0.8", "linewidth": 0.5, "clip_on": False}
            ax.plot([-0.9, 2.05], [place - 0.5] * 2, transform=ax.get_yaxis_transform(), **line)
        _draw_cells(ax, cells[here], place, index)
        _write(ax, biases[there].iloc[0].to_dict(), place, str(index + 1) if len(judges) > 1 else "", first)
    left = biases[~tested] if tested.any() else biases.iloc[:0]
    _finish(ax, len(rows), [*textwrap.wrap(facts, _NAME), *_not_tested(left)], judges)
    return ax


def _draw_cells(ax: Axes, rows: pd.DataFrame, place: int, index: int) -> None:
    drawn = rows[rows[["estimate", "null", "matters"]].notna().all(axis=1) & (rows["finding"] != "untested")]
    unit, null = drawn["matters"].to_numpy(float), drawn["null"].to_numpy(float)
    x, low, high = ((drawn[c].to_numpy(float) - null) / unit for c in ("estimate", "ci_low", "ci_high"))
    y = place + (np.linspace(-0.3, 0.3, len(drawn)) if len(drawn) > 1 else np.zeros(len(drawn)))
    look: dict[str, Any] = {"markersize": 3.5, "elinewidth": 1.6, "linestyle": ""}
    look |= {"marker": MARKERS[index % len(MARKERS)], "color": PALETTE[index % len(PALETTE)]}
    ax.errorbar(x, y, xerr=np.abs(np.array([x - low, high - x])), **look)


def _write(ax: Axes, row: Mapping[Any, Any], place: int, number: str, first: bool) -> None:
    """Write the metric left and the verdict right of a row, as plain text rather than mathtext."""
    at: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "parse_math": False, "fontsize": 6.5}
    light: dict[str, Any] = {"color": _LIGHTS[row["status"]], "fontweight": "bold"}
    name = [f"{str(row['probe']).replace('_', ' ')}:", *textwrap.wrap(str(row["label"]), 34)] if first else []
    if number:
        ax.text(-0.03, place, f"judge {number}", ha="right", **at)
        ax.text(-0.22, place - 0.42, "\n".join(name), ha="right", **at | {"va": "top"})
    else:
        ax.text(-0.03, place, "\n".join(name), ha="right", **at)
    lines = _words(row)
    ax.text(1.08, place, "\n".join(lines), ha="left", **at)
    ax.text(1.03, place, "\n".join([STATUS[row["status"]][0], *[" "] * (len(lines) - 1)]), ha="left", **at | light)


def _words(row: Mapping[Any, Any]) -> list[str]:
    """Return the lines of a verdict, with the numbers if a bias was found."""
    is_bias = row["status"] in ("bias", "slight")
    standing = str(row["standing"]).partition(" (")[0] if is_bias else ""  # the count only
    evidence = [f"{row['estimate']} {row['interval']}, q {row['q']}"] if is_bias else []
    verdict = "; ".join(filter(None, (row["verdict"], standing)))
    return [*textwrap.wrap(f"{STATUS[row['status']][1]}: {verdict}", _WIDTH), *evidence]


def _not_tested(left: pd.DataFrame) -> list[str]:
    """Return lines that name the metrics without a row."""
    names = [
        f"{str(probe).replace('_', ' ')} ({label})" for probe, label in zip(left["probe"], left["label"], strict=True)
    ]
    return textwrap.wrap(f"not tested: {', '.join(dict.fromkeys(names))}", _NAME) if names else []


def _finish(ax: Axes, rows: int, facts: list[str], judges: list[str]) -> None:
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
    names = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in judges]
    note(
        ax, "\n".join([*(f"judge {i}: {name}" if len(judges) > 1 else name for i, name in enumerate(names, 1)), *facts])
    )


def _mark(ax: Axes, reach: float) -> None:
    """Label 1, 2, 5, 10, …, or only powers of ten if space is short; put minor ticks between."""
    steps = (1, 2, 5) if reach < _CROWDED else (1,)
    ticks = [step * 10**power for power in range(4) for step in steps if step * 10**power <= reach]
    ax.set_xticks([*(-tick for tick in ticks), 0, *ticks], [*(f"−{tick}" for tick in ticks), "0", *map(str, ticks)])
    between = [step * 10**power for power in range(4) for step in range(2, 10) if step * 10**power <= reach]
    ax.set_xticks([*(-tick for tick in between), *between], minor=True)
    ax.tick_params(axis="x", labelsize=7)
