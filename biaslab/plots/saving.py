"""Figures to files, with the estimates that they show."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import pandas as pd

from biaslab.plots.style import STYLE, share_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def save(
    axes: Axes | Sequence[Axes], estimates: pd.DataFrame, study: str, name: str, out: str | PathLike[str] = "figures"
) -> list[Path]:
    """Write a figure as PNG and PDF, and the estimates it shows as CSV beside it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes or sequence of them
        Any Axes of the figure, drawn as it is; or all its panels, which get one legend first (`share_legend`).
    estimates : pandas.DataFrame
        What the figure shows.
    study, name : str
        The files are called ``<study>__<name>.{png,pdf,csv}``.
    out : path
        Folder, made if it is not there.

    Returns
    -------
    list of Path
        The three files.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{study}__{name}"
    if isinstance(axes, Sequence):
        share_legend(axes)
    first = axes[0] if isinstance(axes, Sequence) else axes
    figure: Figure = first.figure  # type: ignore[assignment]
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "pdf", "csv")]
    with plt.rc_context(STYLE):
        figure.savefig(paths[0], bbox_inches="tight", metadata={"Software": None})
        figure.savefig(paths[1], bbox_inches="tight", metadata={"CreationDate": None})
    estimates.to_csv(paths[2], index=False)
    return paths
