"""A teacher's and a student's biases side by side, and the share that the student has."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from biaslab.core import find_metric
from biaslab.core.checked import checked
from biaslab.core.errors import TrialsError
from biaslab.report.plots.drawing import caption
from biaslab.report.plots.headline import remember_rows
from biaslab.report.plots.style import NULL, dots, note, styled
from biaslab.stats import require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCH = 2.54
_WIDE = 30  # letters of a line of a row's label


@checked
@styled
def inherited(estimates: pd.DataFrame, unit: str = "SD", title: str | None = None) -> list[Axes]:
    """Plot what `biaslab.distill.bias_inheritance` finds: estimates of both judges, and beside them the shares.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Its frame, or several below one another. Any ``role`` besides "difference" and "share", such as a control, is
        drawn beside teacher and student.
    unit : str
        Which rows: those that are counted in this unit.
    title : str, optional
        Stands above n; by default the data set's name stands before it.

    Returns
    -------
    list of matplotlib.axes.Axes
        Estimates with the null dashed, and shares with none (0) and all of the bias (1) dashed and the verdict in a
        word. A share that is not defined has no dot.

    Raises
    ------
    TrialsError
        If the frame has no row in this unit.

    Examples
    --------
    >>> left, right = inherited(found, "points")  # doctest: +SKIP
    """
    require_columns(estimates, ["of", "unit", "role", "verdict", "probe", "attribute", "estimate"], "estimates")
    rows = estimates[(estimates["unit"] == unit) & (estimates["role"] != "difference")]
    if rows.empty:
        raise TrialsError("unit", unit, f"one of {', '.join(dict.fromkeys(estimates['unit']))}")
    probes, attributes = (len(set(rows[name])) > 1 for name in ("probe", "attribute"))
    labels = []
    for of, probe, attribute in rows[["of", "probe", "attribute"]].itertuples(index=False):
        name = (f"{probe}: " if probes else "") + find_metric(of, probe).label
        labels.append(textwrap.fill(name + (f", {attribute}" if attributes else ""), _WIDE))
    levels = list(dict.fromkeys(labels))
    places = np.array([levels.index(label) for label in labels], float)
    size = (17 / _INCH, (3.4 + 1.3 * len(levels)) / _INCH)
    figure, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=(1.25, 1))
    figure.set_layout_engine("constrained", wspace=0.06)
    _estimates(left, rows, places, unit)
    shares = (rows["role"] == "share").to_numpy()
    remember_rows(right, _in_words(rows[shares]))
    _shares(right, rows[shares], places[shares])
    left.set_yticks(range(len(levels)), levels, parse_math=False)
    left.set_ylim(len(levels) - 0.5, -0.5)
    note(left, caption(rows, title))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=4)
    return [left, right]


def _estimates(ax: Axes, rows: pd.DataFrame, places: np.ndarray, unit: str) -> None:
    roles = [role for role in dict.fromkeys(rows["role"]) if role != "share"]
    for index, (role, offset) in enumerate(zip(roles, np.linspace(-0.2, 0.2, len(roles)), strict=True)):
        mine = (rows["role"] == role).to_numpy()
        dots(ax, rows[mine], places[mine] + offset, index, role)
    nulls = {find_metric(of, probe).null for of, probe in zip(rows["of"], rows["probe"], strict=True)}
    if len(nulls) == 1:
        ax.axvline(float(nulls.pop() or 0.0), **NULL)
    ax.set_xlabel(f"estimate ({unit})")


def _in_words(shares: pd.DataFrame) -> pd.DataFrame:
    """Say in one sentence what the student has of each bias."""
    rows = shares[["of", "probe", "verdict"]].itertuples(index=False)
    told = [f"{verdict} ({find_metric(of, probe).label})" for of, probe, verdict in rows]
    return shares.assign(finding=f"what the student has of its teacher's bias: {'; '.join(told)}")


def _shares(ax: Axes, rows: pd.DataFrame, places: np.ndarray) -> None:
    for value in (0.0, 1.0):
        ax.axvline(value, **NULL)
    defined = rows["estimate"].notna().to_numpy()
    dots(ax, rows[defined], places[defined], 3)
    ax.set_xlabel("share of the teacher's bias (0: none, 1: all)")
    ax.margins(x=0.12)
    for place, verdict, low, high in zip(places, rows["verdict"], rows["ci_low"], rows["ci_high"], strict=True):
        middle = 0.5 if np.isnan(low) else (low + high) / 2
        look: dict[str, Any] = {
            "ha": "center",
            "fontsize": 7,
            "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1},
        }
        ax.annotate(str(verdict), (middle, place), (0, 7), textcoords="offset points", **look)
