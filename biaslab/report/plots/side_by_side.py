"""Plot estimates in two panels: judges and their differences, or teacher, student and inherited shares."""

from __future__ import annotations

import textwrap
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.core import find_metric
from biaslab.core.errors import TrialsError
from biaslab.report.plots.drawing import caption, intervals
from biaslab.report.plots.figure import close
from biaslab.report.plots.headline import remember_rows
from biaslab.report.plots.naming import named
from biaslab.report.plots.style import NULL, dots, note, panels, styled
from biaslab.report.wording import varying, with_interval
from biaslab.stats import corrected, require_columns, significant
from biaslab.stats.together import condition_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONG = 40  # maximum number of characters of a judge's name
_WIDE = 30  # characters per line of a row label
#: Verdicts on an inherited share, as verbs of a sentence, if they are not so already.
_VERBS = {"keeps a part": "keeps a part of", "cannot be told": "is not shown to keep or lose"}


@styled
def compared(
    estimates: pd.DataFrame,
    metric: str | None = None,
    title: str | None = None,
    name: str | None = None,
    out: str | PathLike[str] = "figures",
    finding: str | None = None,
) -> list[Axes]:
    """Plot the result of `biaslab.compare` for one metric: estimates on the left, differences on the right.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Result of `biaslab.compare`.
    metric : str, optional
        Metric to plot; default: the first in the frame.
    title : str, optional
        Title above n; default: the data set's name before n.
    name, out
        As in `biaslab.plots.draw`: with a name, save the figure and its estimates.
    finding : str, optional
        Headline; default: how many pairs of judges differ, and the largest difference.

    Returns
    -------
    list of matplotlib.axes.Axes
        Estimates, one row per judge, with the null dashed; and differences from the reference, one row per pair of
        judges, with 0 dashed. Attributes and other conditions that vary have separate rows.

    Raises
    ------
    TrialsError
        If the frame has no row of the metric.

    Examples
    --------
    >>> left, right = compared(found, "first_position_rate")  # doctest: +SKIP
    """
    require_columns(estimates, ["role", "compared", "metric", "probe", "estimate"], "estimates")
    own = estimates[estimates["role"] != "difference"]
    metric = metric or str(own["metric"].iloc[0])
    rows = estimates[estimates["metric"].isin([metric, f"{metric}_difference"])]
    if rows.empty:
        raise TrialsError("metric", metric, f"one of {', '.join(dict.fromkeys(own['metric']))}")
    names = varying(rows, condition_names(rows, "role", "compared"))
    rows = rows.assign(
        cell=[", ".join(named(name, row[name]) for name in names) for row in rows.to_dict("records")],
        who=["\n− ".join(map(_short, str(text).split(" − "))) for text in rows["compared"]],
    )
    shifts = rows["role"] == "difference"
    shown, apart = rows[~shifts].drop_duplicates(["who", "cell"]), rows[shifts]
    left, right = panels(2, 3.0 + 0.85 * max(len(shown), len(apart)), sharex=False, sharey=False)
    by = ["cell", "who"] if names else ["who"]
    intervals(shown, metric, by=by, hue="metric", ax=left, title=title)
    intervals(apart, f"{metric}_difference", by=by, hue="metric", ax=right, title="difference")
    finding = _largest(apart, metric) if finding is None else finding
    return list(close([left, right], estimates, name, out, finding).axes)


def _largest(shifts: pd.DataFrame, metric: str) -> str | None:
    """Say how many of several differences are found and which one is largest, or what a single one shows."""
    shifts = shifts[shifts["estimate"].notna()]
    if shifts.empty:
        return None
    tests = corrected(shifts, shifts["p_value"].notna())
    found = sum(map(significant, tests["q_value"]))
    largest = tests.iloc[int(tests["estimate"].abs().to_numpy().argmax())].to_dict()
    value = f"{with_interval(largest, 2)} over {largest['n_contexts']} contexts"
    if len(tests) > 1:
        what = "pairs of judges differ" if tests["compared"].is_unique else "differences are found"
        return f"{found} of {len(tests)} {what}; {largest['compared']}: {value}"
    other, _, reference = str(largest["compared"]).partition(" − ")
    label = find_metric(metric, str(largest["probe"])).label.split(",")[0]
    return f"{other} {'differs' if found else 'is not shown to differ'} from {reference} in {label}: {value}"


def _short(name: str) -> str:
    return name if len(name) <= _LONG else f"{name[: _LONG - 1]}…"


@styled
def inherited(
    estimates: pd.DataFrame,
    unit: str = "SD",
    title: str | None = None,
    name: str | None = None,
    out: str | PathLike[str] = "figures",
    finding: str | None = None,
) -> list[Axes]:
    """Plot the result of `biaslab.distill.bias_inheritance`: estimates on the left, inherited shares on the right.

    Parameters
    ----------
    estimates : pandas.DataFrame
        One result of `biaslab.distill.bias_inheritance`, or several concatenated. Any ``role`` besides "difference" and
        "share", such as a control, is drawn with teacher and student.
    unit : str
        Plot the rows in this unit.
    title : str, optional
        Title above n; default: the data set's name before n.
    name, out, finding
        As in `biaslab.plots.draw`: with a name, save the figure and its estimates.

    Returns
    -------
    list of matplotlib.axes.Axes
        Estimates with the null dashed; and shares with their verdicts, with 0 (no bias inherited) and 1 (all of it)
        dashed. An undefined share has no dot.

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
        text = (f"{probe}: " if probes else "") + find_metric(of, probe).label
        labels.append(textwrap.fill(text + (f", {attribute}" if attributes else ""), _WIDE))
    levels = list(dict.fromkeys(labels))
    places = np.array([levels.index(label) for label in labels], float)
    left, right = panels(2, 3.4 + 1.3 * len(levels), sharex=False)
    left.get_gridspec().set_width_ratios([1.25, 1])  # type: ignore[union-attr]
    _estimates(left, rows, places, unit)
    shares = (rows["role"] == "share").to_numpy()
    remember_rows(right, _in_words(rows[shares]))
    _shares(right, rows[shares], places[shares])
    left.set_yticks(range(len(levels)), levels, parse_math=False)
    left.set_ylim(len(levels) - 0.5, -0.5)
    note(left, caption(rows, title))
    return list(close([left, right], estimates[estimates["unit"] == unit], name, out, finding).axes)


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
    """Add a column ``finding``: one sentence on the share of each bias that the student inherits."""
    rows = shares[["of", "probe", "verdict"]].itertuples(index=False)
    clauses = [
        f"{_VERBS.get(verdict, verdict)} its teacher's {find_metric(of, probe).label}" for of, probe, verdict in rows
    ]
    return shares.assign(finding=f"The student {'; '.join(clauses)}")


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
