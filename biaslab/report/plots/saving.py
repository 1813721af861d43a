"""Save figures to files, with the estimates that they show."""

from __future__ import annotations

import io
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.image import imread

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

_SEEN = 0.02  # visible difference of a pixel, as a share of the full range
_DIGIT = 64  # pixels; replacing a digit of the smallest text by another changes at least 119


def save(
    axes: Axes | Sequence[Axes],
    estimates: pd.DataFrame,
    study: str,
    name: str,
    out: str | PathLike[str] = "figures",
    formats: Sequence[str] = ("png", "pdf"),
    finding: str | None = None,
) -> list[Path]:
    """Save a figure as PNG and PDF, with its finding as the headline, and its estimates as CSV.

    Parameters
    ----------
    axes : matplotlib.axes.Axes or sequence of them
        Any Axes of the figure, which is saved as drawn; or all its panels, which first get a common legend
        (`share_legend`).
    estimates : pandas.DataFrame
        Estimates that the figure shows.
    study, name : str
        The files are named ``<study>__<name>.{png,pdf,csv}``.
    out : path
        Folder; created if missing.
    formats : sequence of {"png", "pdf", "svg"}
        Formats of the figure. Marks of an SVG have tooltips in a browser: condition, estimate, interval and n.
    finding : str, optional
        Headline of the figure, also written to the table's column ``finding``; default: the sentence that
        `biaslab.plots.finding` returns for the estimates drawn. Empty: no headline.

    Returns
    -------
    list of Path
        The figure in each format, then the CSV. An existing PNG that looks the same keeps its bytes.

    Raises
    ------
    InputError
        If a format is not one of these.
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
    changing = "Software" if path.suffix == ".png" else "CreationDate"  # left out for reproducible files
    with in_style(), io.BytesIO() as file:
        figure.savefig(file, format=path.suffix[1:], bbox_inches="tight", metadata={changing: None})
        drawn = file.getvalue()
    if path.suffix == ".png" and _shows(path, drawn):
        path.touch()
    else:
        path.write_bytes(drawn)


def _shows(path: Path, drawn: bytes) -> bool:
    """Return whether a file shows the same picture, ignoring single pixels that rounding changes between machines."""
    try:
        before, now = imread(path), imread(io.BytesIO(drawn))
    except (OSError, SyntaxError):  # missing or damaged
        return False
    return before.shape == now.shape and int((np.abs(before - now) > _SEEN).any(axis=-1).sum()) < _DIGIT
