"""Figures to files, with the estimates that they show."""

from __future__ import annotations

import io
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.image import imread

from biaslab.core.checked import checked
from biaslab.core.checks import require_some_of
from biaslab.core.csv_files import write_csv
from biaslab.core.errors import InputError
from biaslab.core.output import replacing
from biaslab.report.plots.headline import headline_of
from biaslab.report.plots.hover import svg_of
from biaslab.report.plots.style import head, in_style, share_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SEEN = 0.02  # of the full range: how far a pixel differs visibly
_DIGIT = 64  # pixels: a digit of the smallest text that becomes another changes 119 of them or more


@checked
def save(
    axes: Axes | Sequence[Axes],
    estimates: pd.DataFrame,
    study: str,
    name: str,
    out: str | PathLike[str] = "figures",
    formats: Sequence[str] = ("png", "pdf"),
    finding: str | None = None,
) -> list[Path]:
    """Write a figure as PNG and PDF, with its finding as a headline, and the estimates it shows as CSV.

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
        The files of the formats, then the CSV. A PNG that looks the same as before keeps its bytes.

    Raises
    ------
    InputError
        If a format is none of these.
    """
    require_some_of("formats", formats, ("png", "pdf", "svg"))
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("out", str(out), "a folder that exists or can be created", "use another path") from error
    stem = folder / f"{study}__{name}"
    if isinstance(axes, Sequence):
        share_legend(axes)
    first = axes[0] if isinstance(axes, Sequence) else axes
    figure: Figure = first.figure  # type: ignore[assignment]
    headline = headline_of(figure, estimates) if finding is None else finding
    if headline:
        head(figure, headline)
        estimates = estimates.assign(finding=headline)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in (*formats, "csv")]
    for path in paths[:-1]:
        _write(figure, path)
    write_csv(estimates, paths[-1])
    return paths


def _write(figure: Figure, path: Path) -> None:
    if path.suffix == ".svg":
        with replacing(path) as partial:
            partial.write_text(svg_of(figure), encoding="utf-8")
        return
    changing = "Software" if path.suffix == ".png" else "CreationDate"  # alike for equal figures
    with in_style(), io.BytesIO() as file:
        figure.savefig(file, format=path.suffix[1:], bbox_inches="tight", metadata={changing: None})
        drawn = file.getvalue()
    if path.suffix == ".png" and _shows(path, drawn):
        path.touch()
    else:
        path.write_bytes(drawn)


def _shows(path: Path, drawn: bytes) -> bool:
    """Return whether a file shows the same picture, up to single pixels that rounding moves on another machine."""
    try:
        before, now = imread(path), imread(io.BytesIO(drawn))
    except (OSError, SyntaxError):  # there is none, or it is damaged
        return False
    return before.shape == now.shape and int((np.abs(before - now) > _SEEN).any(axis=-1).sum()) < _DIGIT
