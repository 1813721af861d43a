"""Estimates in panels side by side, one for each value of a condition or for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from biaslab.core.checked import checked
from biaslab.core.errors import TrialsError
from biaslab.report.plots.drawing import intervals
from biaslab.report.plots.style import panels, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
@styled
def facets(
    estimates: pd.DataFrame,
    column: str,
    titles: Mapping[Any, str],
    metric: str | Sequence[str] | None = None,
    *,
    labels: Mapping[Any, str] | None = None,
    height: float | None = None,
    **options: Any,
) -> list[Axes]:
    """Plot intervals side by side, a panel for each value of a column.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame.
    column : str
        A condition column, or ``"metric"``, whose panels then have horizontal axes of their own.
    titles : mapping
        What stands above the panel of each value, in their order. Values without rows have no panel.
    metric : str or sequence of str, optional
        As in `intervals`; not needed where the panels are of metrics.
    labels : mapping, optional
        Label of the horizontal axis by value.
    height : float, optional
        In centimetres; by the number of rows by default.
    **options
        Of `intervals`: ``by``, ``hue``, ``label``, ``null``.

    Returns
    -------
    list of matplotlib.axes.Axes
        Without a legend, so that `hollow` can add to it; `save` and `share_legend` draw it.

    Raises
    ------
    TrialsError
        If no value has a row.

    Examples
    --------
    >>> axes = facets(estimates, "template", {1: "template 1", 2: "template 2"}, by="attribute")  # doctest: +SKIP
    """
    shown = [value for value in titles if (estimates[column] == value).any()]
    if not shown:
        raise TrialsError(column, list(titles), f"one of {', '.join(map(str, dict.fromkeys(estimates[column])))}")
    rows = estimates[options["by"]].nunique() if options.get("by") else len(estimates) / len(shown)
    axes = panels(len(shown), height or 3.4 + 0.9 * rows, sharex=column != "metric")
    for ax, value in zip(axes, shown, strict=True):
        part, more = estimates[estimates[column] == value], dict(options)
        if labels is not None:
            more["label"] = labels[value]
        intervals(part, value if column == "metric" else metric, ax=ax, title=titles[value], **more)
    return axes
