"""Two judges side by side, and beside them their difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.errors import TrialsError
from biaslab.report.plots.drawing import intervals
from biaslab.report.plots.naming import named
from biaslab.report.plots.style import panels, share_legend, styled
from biaslab.stats import require_columns
from biaslab.stats.together import condition_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONG = 40  # letters of a judge's name


@checked
@styled
def compared(estimates: pd.DataFrame, metric: str | None = None, title: str | None = None) -> list[Axes]:
    """Plot what `biaslab.compare` finds of a metric: the estimates of all, and beside them differences.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Its frame.
    metric : str, optional
        Which metric; the first of the frame by default.
    title : str, optional
        Stands above n; by default the data set's name stands before it.

    Returns
    -------
    list of matplotlib.axes.Axes
        Estimates with the null dashed, and differences from the reference with 0 dashed; one row a cell, such as an
        attribute. The legend is drawn: give `save` one of them, not the list.

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
    varying = [name for name in condition_names(rows, "role", "compared") if len(rows[name].drop_duplicates()) > 1]
    rows = rows.assign(
        cell=[", ".join(named(name, row[name]) for name in varying) or "all" for row in rows.to_dict("records")],
        compared=[" − ".join(map(_short, str(text).split(" − "))) for text in rows["compared"]],
    )
    shifts = rows["role"] == "difference"
    shown, apart = rows[~shifts].drop_duplicates(["compared", "cell"]), rows[shifts]
    marks = max(len(shown), len(apart)) / rows["cell"].nunique()
    left, right = panels(2, 3.0 + (0.4 + 0.5 * marks) * rows["cell"].nunique(), sharex=False)
    intervals(shown, metric, by="cell", hue="compared", ax=left, title=title)
    intervals(apart, f"{metric}_difference", by="cell", hue="compared", ax=right, title="difference")
    share_legend([left, right] if len(set(apart["compared"])) > 1 else [left])
    if len(set(rows["cell"])) == 1:  # its name would say nothing
        left.tick_params(left=False, labelleft=False)
    left.set_ylabel("")
    return [left, right]


def _short(name: str) -> str:
    return name if len(name) <= _LONG else f"{name[: _LONG - 1]}…"
