"""Format estimates as tables for papers: LaTeX (booktabs), Markdown, HTML and CSV."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from biaslab.core.csv_files import csv_of
from biaslab.core.errors import InputError
from biaslab.core.output import replacing, require_file
from biaslab.report.layout import Layout, chosen_rows, lay_out, metric_of, probe_column
from biaslab.report.wording import check_digits, conditions, templates, version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LABEL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_."


def to_latex(
    estimates: pd.DataFrame,
    metric: str | Sequence[str] | None = None,
    *,
    across: str | None = None,
    stars: bool = False,
    digits: int = 3,
    caption: str | None = None,
    label: str | None = None,
) -> str:
    r"""Format estimates as a LaTeX table; needs ``\usepackage{booktabs}``.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame. Rows for single bins, such as those of ``human_gap``, are left out.
    metric : str or sequence of str, optional
        Which metrics; default: all.
    across : str, optional
        Condition to spread over columns, one per value, with the interval next to each estimate.
    stars : bool
        Mark q-values (p-values if a metric has no q) below .05, .01 and .001. Off by default: intervals say more.
    digits : int
        Decimals.
    caption : str, optional
        Text before the standard caption: metric, judge, data set, n, level, seed, version.
    label : str, optional
        Key for ``\label``.

    Returns
    -------
    str
        A ``table`` with a ``tabular``. Text from data is escaped.

    Raises
    ------
    InputError
        If ``digits`` is not an integer from 0 to 12, or the label contains anything but letters, digits and ``:-_.``.
    TrialsError
        If a column is missing, no row is left, or two rows share a cell of ``across``.

    Examples
    --------
    >>> print(to_latex(estimates, "first_position_rate", across="attribute"))  # doctest: +SKIP
    """
    if label is not None and (not label or set(label) - set(_LABEL)):
        raise InputError("label", label, "letters, digits and : - _ .")
    layout = lay_out(estimates, metric, across, stars, digits, caption)
    return _render("table.tex.j2", layout, label=label)


def to_markdown(
    estimates: pd.DataFrame,
    metric: str | Sequence[str] | None = None,
    *,
    across: str | None = None,
    stars: bool = False,
    digits: int = 3,
    caption: str | None = None,
) -> str:
    """Format estimates as a Markdown table with a caption; parameters as in `to_latex`."""
    return _render("table.md.j2", lay_out(estimates, metric, across, stars, digits, caption))


def to_html(
    estimates: pd.DataFrame,
    metric: str | Sequence[str] | None = None,
    *,
    across: str | None = None,
    stars: bool = False,
    digits: int = 3,
    caption: str | None = None,
) -> str:
    """Format estimates as an HTML table with a caption; parameters as in `to_latex`."""
    return _render("table.html.j2", lay_out(estimates, metric, across, stars, digits, caption))


def to_csv(estimates: pd.DataFrame, metric: str | Sequence[str] | None = None, *, digits: int = 3) -> str:
    """Format estimates as CSV for a spreadsheet: conditions, estimate, interval, test and counts, rounded.

    Text that a spreadsheet would read as a formula is prefixed with an apostrophe.
    """
    rows = chosen_rows(estimates, metric)
    check_digits(digits)
    named = ["judge", "dataset", "metric", *conditions(rows)]
    named = [*probe_column(rows, named), *named]
    table = rows[named]
    table.insert(named.index("metric") + 1, "unit", [metric_of(row).unit for row in rows.to_dict("records")])
    numbers = ["estimate", "se", "ci_low", "ci_high", "ci_level", "p_value", "q_value", "mde"]
    counts = ["n_contexts", "n_trials", "n_dropped", "method", "seed", "note"]
    whole = pd.concat([table, rows[[c for c in numbers if c in rows]].round(digits)], axis=1)
    return csv_of(pd.concat([whole, rows[[c for c in counts if c in rows]]], axis=1))


def write(estimates: pd.DataFrame, path: str | PathLike[str], **options: Any) -> Path:
    """Write a table to a .tex, .md, .html or .csv file.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame.
    path : str or path
        Output file; overwritten if it exists. Its suffix sets the format.
    **options
        Options of `to_latex`, `to_markdown`, `to_html` or `to_csv`.

    Raises
    ------
    InputError
        If the suffix is not supported, or the folder cannot be created.
    """
    writers: dict[str, Callable[..., str]] = {".tex": to_latex, ".md": to_markdown, ".html": to_html, ".csv": to_csv}
    target = require_file("path", path, *writers)
    with replacing(target) as partial:
        partial.write_text(writers[target.suffix](estimates, **options), encoding="utf-8")
    return target


def _render(template: str, layout: Layout, **more: Any) -> str:
    return templates().get_template(template).render(**vars(layout), version=version(), **more)
