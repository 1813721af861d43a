"""Figures to files, with the estimates that they show."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from biaslab.checks import require_some_of
from biaslab.plots.headline import told_by
from biaslab.plots.hover import svg_of
from biaslab.plots.style import head, in_style, share_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def save(
    axes: Axes | Sequence[Axes],
    estimates: pd.DataFrame,
    study: str,
    name: str,
    out: str | PathLike[str] = "figures",
    formats: Sequence[str] = ("png", "pdf"),
    finding: str | None = None,
) -> list[Path]:
    """Write a figure, as PNG and PDF by default, with what it tells, and the estimates it shows as CSV beside it.

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
    formats : sequence of {"png", "pdf", "svg"}
        In a browser marks of an SVG tell, when the mouse rests on them, condition, estimate, interval and n.
    finding : str, optional
        What the figure tells, which stands above it and in the table's column ``finding``; by default what
        `biaslab.plots.finding` says of the estimates that are drawn. Empty leaves it out.

    Returns
    -------
    list of Path
        The files of the formats, then the CSV.

    Raises
    ------
    InputError
        If a format is none of these.
    """
    require_some_of("formats", formats, ("png", "pdf", "svg"))
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{study}__{name}"
    if isinstance(axes, Sequence):
        share_legend(axes)
    first = axes[0] if isinstance(axes, Sequence) else axes
    figure: Figure = first.figure  # type: ignore[assignment]
    told = told_by(figure, estimates) if finding is None else finding
    if told:
        head(figure, told)
        estimates = estimates.assign(finding=told)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in (*formats, "csv")]
    for path in paths[:-1]:
        _write(figure, path)
    estimates.to_csv(paths[-1], index=False)
    return paths


def _write(figure: Figure, path: Path) -> None:
    if path.suffix == ".svg":
        path.write_text(svg_of(figure), encoding="utf-8")
        return
    told = "Software" if path.suffix == ".png" else "CreationDate"  # alike for equal figures
    with in_style():
        figure.savefig(path, bbox_inches="tight", metadata={told: None})
