"""The atlas explorer: every estimate of every recorded judge, on one page that needs no server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from biaslab.atlas.contributed import contributions
from biaslab.atlas.estimates_table import estimates as all_estimates
from biaslab.core.errors import InputError
from biaslab.core.output import count
from biaslab.core.page_widget import Page
from biaslab.stats import require_columns

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Environment

    from biaslab.atlas.contributed import Contribution

_NEEDED = (
    *("source", "probe", "judge", "dataset", "metric", "template", "subset", "estimate", "ci_low", "ci_high"),
    *("q_value", "n_contexts", "n_trials", "n_dropped", "method", "note", "repository", "version"),
)
_TITLE = "Atlas of recorded judges"


@dataclass(frozen=True, eq=False)
class Explorer(Page):
    """A page to filter and sort estimates of judges; displayed in JupyterLab.

    Attributes
    ----------
    estimates : pandas.DataFrame
        The rows of the page, from `biaslab.atlas.estimates`.
    added : tuple of Contribution
        Contributions outside the package that have some of these rows.
    """

    estimates: pd.DataFrame
    added: tuple[Contribution, ...] = ()
    _height: ClassVar[int] = 760

    def to_html(self) -> str:
        """Return a self-contained page."""
        from biaslab.atlas.explorer_data import explorer_data

        data = explorer_data(self.estimates, self.added) | {
            "versions": sorted(set(map(str, self.estimates["version"])))
        }
        facts = {"judges": self.estimates["judge"].nunique(), "sources": self.estimates["source"].nunique()}
        return _templates().get_template("explorer.html.j2").render(data=_script_safe(data), **facts)

    def _heading(self) -> str:
        return _TITLE

    def _rows_at(self, places: list[int]) -> pd.DataFrame:
        return self.estimates.iloc[places]

    def __repr__(self) -> str:
        judges, sources = (self.estimates[name].nunique() for name in ("judge", "source"))
        rows = count(len(self.estimates), "estimate")
        return (
            f"Explorer: {rows} of {count(judges, 'judge')} from {count(sources, 'source')}; save(path) writes the page"
        )


def explorer(estimates: pd.DataFrame | None = None, folder: str | PathLike[str] | None = None) -> Explorer:
    """Explore the atlas: filter and sort judge × metric × data, with intervals, findings and sources.

    Parameters
    ----------
    estimates : pandas.DataFrame, optional
        Rows of `biaslab.atlas.estimates`; by default all except single bins of the human score gap.
    folder : path, optional
        Folder of contributions made by `biaslab.atlas.add`; by default their rows are included.

    Returns
    -------
    Explorer
        Displayed in JupyterLab; ``save`` writes a self-contained page. Its last line is the call of
        `biaslab.atlas.estimates` that returns the displayed rows.

    Raises
    ------
    InputError
        If there are no rows, or the folder does not exist.
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> explorer(bl.atlas.estimates(metric="first_position_rate", source="mt_bench"))
    Explorer: 12 estimates of 9 judges from 1 source; save(path) writes the page
    """
    rows = all_estimates(breakdowns=False, folder=folder) if estimates is None else estimates
    require_columns(rows, _NEEDED, "estimates")
    if rows.empty:
        raise InputError("estimates", "no rows", "at least one row of atlas.estimates()")
    added = () if folder is None else tuple(contributions(folder))
    return Explorer(rows.reset_index(drop=True), added)


def _script_safe(data: Any) -> str:
    """Write data as JSON that cannot close its script element, whatever names it contains."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, select_autoescape

    loader = PackageLoader("biaslab.atlas")
    return Environment(loader=loader, autoescape=select_autoescape(["html.j2"]), trim_blocks=True, lstrip_blocks=True)
