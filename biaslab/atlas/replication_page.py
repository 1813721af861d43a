"""Printed numbers beside ours on one page: each pair opens to how both are computed, and how to compute ours again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from biaslab.atlas import published
from biaslab.atlas.named import JudgementNames
from biaslab.atlas.replicating import replications
from biaslab.atlas.replication_rules import DIFFERENT, EQUAL, INCOMPARABLE
from biaslab.atlas.sources import SOURCES
from biaslab.core import find_metric
from biaslab.core.errors import InputError
from biaslab.core.output import MISSING, count, number, percent
from biaslab.core.page_widget import Page
from biaslab.stats import require_columns

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Template

_TITLE = "Printed numbers and ours"
_LONG = 6  # characters of a printed number that a row shows as they are
_WHERE = ("paper", "table", "row", "column")
_NEEDED = (
    *_WHERE,
    *("source", "probe", "metric", "judge", "dataset", "attribute", "template", "subset", "printed", "theirs"),
    *("estimate", "ci_low", "ci_high", "ci_level", "n_contexts", "n_trials", "n_dropped", "outcome", "why"),
    *("converted", "theirs_is", "ours_is"),
)
_UNSAID = ("", "overall", "recorded")  # conditions that tell nothing apart
_CONDITIONS = ("attribute", "template", "subset")
#: Authors as they are cited, and the number of their paper on arXiv.
_CITED = {
    "stureborg2024": ("Stureborg et al. 2024", "2405.01724"),
    "zeng2024": ("Zeng et al. 2024", "2310.07641"),
    "shi2024": ("Shi et al. 2024", "2406.07791"),
    "panickssery2024": ("Panickssery et al. 2024", "2404.13076"),
    "wang2024": ("Wang et al. 2024", "2306.05087"),
    "zheng2024": ("Zheng et al. 2024", "2410.07137"),
    "dubois2024": ("Dubois et al. 2024", "2404.04475"),
}


@dataclass(frozen=True, eq=False)
class ReplicationPage(Page):
    """A page of pairs of numbers, each of which opens to how both are computed; displayed in JupyterLab.

    Attributes
    ----------
    rows : pandas.DataFrame
        The pairs, from `biaslab.atlas.replications`.
    """

    rows: pd.DataFrame

    def to_html(self) -> str:
        """Return a self-contained page; it opens and closes pairs without a script, and filters them with one."""
        names, places = JudgementNames(), _printed_at()
        pairs = [_pair(record, names, places) for record in self.rows.to_dict("records")]
        outcomes = [each for each in (EQUAL, DIFFERENT, INCOMPARABLE) if (self.rows["outcome"] == each).any()]
        papers = {name: _CITED[name][0] for name in dict.fromkeys(self.rows["paper"])}
        return _template().render(pairs=pairs, outcomes=outcomes, papers=papers, finding=self.finding)

    def _heading(self) -> str:
        return _TITLE

    def _rows_at(self, places: list[int]) -> pd.DataFrame:
        return self.rows.iloc[places]

    @property
    def finding(self) -> str:
        """Number of comparable values that are reproduced, and of printed values that measure something else."""
        same = self.rows.loc[self.rows["outcome"] != INCOMPARABLE, "outcome"]
        equal = f"{(same == EQUAL).sum()} of {len(same):,} comparable numbers are reproduced to every digit"
        apart, every = len(self.rows) - len(same), len(self.rows)
        others = f"{apart:,} of {every:,} printed numbers measure a different quantity"
        return "; ".join([equal] * (len(same) > 0) + [others] * (apart > 0))

    def __repr__(self) -> str:
        return f"ReplicationPage: {self.finding}; save(path) writes the page"


def replication_page(rows: pd.DataFrame | None = None) -> ReplicationPage:
    """Show printed numbers beside ours; each pair opens to how both are computed, and how to compute ours again.

    Parameters
    ----------
    rows : pandas.DataFrame, optional
        Rows of `biaslab.atlas.replications`; by default all.

    Returns
    -------
    ReplicationPage
        Displayed in JupyterLab; ``save`` writes a self-contained page. A pair has the place of the printed number, the
        numerator and denominator of both, n, why they differ, and the command that estimates ours again.

    Raises
    ------
    InputError
        If there are no rows.
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> found = bl.atlas.replications()
    >>> replication_page(found[found["paper"] == "dubois2024"])
    ReplicationPage: 2 of 2 comparable numbers are reproduced to every digit; save(path) writes the page
    """
    shown = replications() if rows is None else rows
    require_columns(shown, _NEEDED, "replications")
    if shown.empty:
        raise InputError("rows", "no rows", "at least one row of atlas.replications()")
    return ReplicationPage(shown.reset_index(drop=True))


def _pair(row: Mapping[Any, Any], names: JudgementNames, places: Mapping[tuple[str, ...], dict[str, str]]) -> Any:
    """Return the fields shown for a pair of numbers."""
    authors, arxiv = _CITED[row["paper"]]
    place = places[tuple(str(row[name]) for name in _WHERE)]
    conditions = [str(row[name]) for name in _CONDITIONS if _is_said(row[name])]
    unit = {"percent": " %"}.get(place["unit"], "")
    return {
        "outcome": row["outcome"],
        "paper": row["paper"],
        "who": " · ".join([row["judge"], row["dataset"], *conditions]),
        "what": find_metric(row["metric"], row["probe"]).label,
        "theirs": f"{row['printed']}{unit}",
        "short": number(row["theirs"], 4) if unit or len(row["printed"]) > _LONG else row["printed"],
        "theirs_is": row["theirs_is"],
        "note": place["note"],
        "cited": authors,
        "arxiv": arxiv,
        "place": " · ".join(filter(None, [row["table"], place["page_or_section"], row["row"], row["column"]])),
        "ours": number(row["estimate"], 4),
        "interval": _interval(row),
        "ours_is": row["ours_is"],
        "n": _n(row),
        "why": row["why"],
        "converted": "" if row["converted"] != row["converted"] else number(row["converted"], 4),
        "again": _again(row, names) if row["estimate"] == row["estimate"] else "",
        "call": _call(row) if row["estimate"] == row["estimate"] else "",
    }


def _is_said(value: Any) -> bool:
    return value == value and value is not None and str(value) not in _UNSAID


def _interval(row: Mapping[Any, Any]) -> str:
    if row["ci_low"] != row["ci_low"]:
        return ""
    return f"[{number(row['ci_low'], 4)}, {number(row['ci_high'], 4)}], {percent(row['ci_level'])} over contexts"


def _n(row: Mapping[Any, Any]) -> str:
    if row["estimate"] != row["estimate"]:
        return MISSING
    read, unread = int(row["n_trials"]), int(row["n_dropped"])
    of = f"{read:,} of {read + unread:,} judgements, {unread:,} unread" if unread else count(read, "judgement")
    return f"{count(int(row['n_contexts']), 'context')}, {of}"


def _again(row: Mapping[Any, Any], names: JudgementNames) -> str:
    """Return the command or call that estimates our number again from judgements."""
    if name := names.name(row):
        return f'biaslab audit "{name}"'
    if next(one.carried for one in SOURCES if one.name == row["source"]):
        return f'bl.audit(bl.atlas.trials("{row["source"]}"))'
    return f"biaslab atlas build FOLDER --estimates --source {row['source']}"


def _call(row: Mapping[Any, Any]) -> str:
    named = ", ".join(f'{name}="{row[name]}"' for name in ("probe", "metric", "judge", "source"))
    return f"bl.atlas.estimates({named})"


@cache
def _printed_at() -> dict[tuple[str, ...], dict[str, str]]:
    """Return section, unit and note of each printed number, by where it is printed."""
    rows = published.load()[[*_WHERE, "page_or_section", "unit", "note"]].astype(str).to_dict("records")
    records = [{str(name): str(value) for name, value in row.items()} for row in rows]
    return {tuple(row[name] for name in _WHERE): row for row in records}


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("biaslab.atlas")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("replications.html.j2")
