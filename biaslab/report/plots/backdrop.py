"""Other judges as light ticks behind the estimates of the judge under study, if they are comparable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from biaslab.report.comparing import Peers, find_peers, judges_of
from biaslab.report.plots.style import RECORDED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_LOOK: dict[str, Any] = {"linestyle": "", "marker": "|", "color": "0.68", "markeredgewidth": 0.9, "zorder": 0}
_TALL = 11  # points


def draw_judges(ax: Axes, rows: pd.DataFrame, places: np.ndarray, reference: str | pd.DataFrame) -> None:
    """Draw comparable judges as light ticks behind each row, once per position, metric and kind of comparison.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The Axes to draw on.
    rows : pandas.DataFrame
        Rows of an estimates frame.
    places : numpy.ndarray, shape (rows,)
        Position of each row on the vertical axis.
    reference : {"atlas"} or pandas.DataFrame
        See `biaslab.report.comparing.judges_of`.
    """
    judges = judges_of(reference)
    peers_by_place: dict[tuple[object, ...], Peers] = {}
    for place, row in zip(places.tolist(), rows.to_dict("records"), strict=True):
        peers = find_peers(row, judges)
        if peers is not None:
            alike = (row[name] for name in peers.comparison.alike)
            peers_by_place.setdefault((place, row["metric"], *alike), peers)
    labels = _labels(list(peers_by_place.values()))
    for (place, *_), peers in peers_by_place.items():
        values = peers.judges["estimate"].to_numpy(float)
        label = labels.pop(peers.comparison.of, None)
        ax.plot(values, np.full(len(values), place), markersize=_TALL, label=label, **_LOOK)


def _labels(groups: list[Peers]) -> dict[str, str]:
    """Return one legend label for each kind of comparison, with the number of judges per row."""
    sizes: dict[str, list[int]] = {}
    for peers in groups:
        sizes.setdefault(peers.comparison.of, []).append(len(peers.judges))
    spans = {of: f"{min(n)} to {max(n)}" if min(n) < max(n) else f"{n[0]}" for of, n in sizes.items()}
    return {of: f"{span} {RECORDED} ({of})" for of, span in spans.items()}
