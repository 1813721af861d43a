"""Plot what simulated studies found of a metric's test and interval beside what they promise."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from biaslab.report.plots.figure import Drawn, close, draw
from biaslab.report.plots.style import styled
from biaslab.stats import require_columns

#: What is promised, in the order of the panels.
_LABELS = {
    "type_i_error": "type-I error (share of studies)",
    "coverage": "coverage (share)",
    "power": "power (share)",
}


@styled
def promises(
    shares: pd.DataFrame,
    hue: str | None = None,
    title: str | None = None,
    name: str | None = None,
    out: str | PathLike[str] = "figures",
) -> Drawn:
    """Plot type-I error, coverage and power of one metric against the number of contexts.

    Parameters
    ----------
    shares : pandas.DataFrame
        Rows of one metric from `biaslab.validate`.
    hue : str, optional
        Column shown by colour, such as the kind of bias.
    title : str, optional
        Title above n.
    name, out
        As in `biaslab.plots.draw`.

    Returns
    -------
    Drawn
        A panel per quantity, with the promised share dashed and its band grey; the headline counts the shares that
        keep their band.

    Raises
    ------
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> promises(found[found["metric"] == "first_position_rate"])  # doctest: +SKIP
    """
    require_columns(shares, ["quantity", "n_contexts", "promised", "low", "high", "kept"], "shares")
    rows = shares.sort_values("n_contexts").assign(metric=shares["quantity"])
    label = _LABELS | {"n_contexts": "contexts of a study"}
    axes = draw(rows, list(_LABELS), x="n_contexts", hue=hue, col="metric", label=label, title=title).axes
    shown = [quantity for quantity in _LABELS if quantity in set(rows["quantity"])]
    for ax, quantity in zip(axes, shown, strict=True):
        part = rows[rows["quantity"] == quantity]
        for _, line in [(None, part)] if hue is None else part.groupby(hue):
            ax.fill_between(line["n_contexts"], line["low"], line["high"], color="0.4", alpha=0.12, linewidth=0)
            ax.plot(line["n_contexts"], line["promised"], color="0.4", linewidth=1, linestyle="--")
    finding = f"{rows['kept'].sum()} of {len(rows)} shares keep their band, within the error of the simulation"
    return close(list(axes), rows, name, out, finding)
