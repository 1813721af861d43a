"""Printed numbers next to ours: which are comparable, and one page that opens to how both are computed.

*Their replies, our estimator, their number.* Printed numbers are in `biaslab.published`, our estimates in
`biaslab.atlas.estimates`; this module matches them, and says which are comparable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.atlas import published
from biaslab.atlas.estimates_table import estimates
from biaslab.atlas.judgements import JudgementNames
from biaslab.atlas.sources import SOURCES
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.files import declared
from biaslab.core.metrics import find_metric
from biaslab.core.output import MISSING, Page, count, number, percent
from biaslab.stats.frame import require_columns

if TYPE_CHECKING:
    from jinja2 import Template

_ROUNDED = 5e-6  # precision of the table of estimates
_UNITS = {"percent": 0.01}  # printed unit → factor to that of our estimates
_NAMED = re.compile(r"(\w+)=([^|]+?)(?: \||$)")  # conditions in the label of a row
_PARTS = ("subset", "system", "human_gap")  # conditions that are empty for an estimate of the whole data set
_COUNTS = ("n_contexts", "n_trials", "n_dropped")
_SHOWN = [
    *("paper", "table", "row", "column", "source", "probe", "metric", "judge", "dataset", "attribute", "template"),
    *("subset", "printed", "theirs", "estimate", "ci_low", "ci_high", "ci_level", "n_contexts", "n_trials"),
    *("n_dropped", "equal", "outcome", "why", "converted", "theirs_is", "ours_is"),
]


def replications() -> pd.DataFrame:
    """Compare every printed number whose replies are in the atlas with biaslab's estimate.

    Returns
    -------
    pandas.DataFrame
        One row per printed number: ``paper, table, row, column``, its location (see `biaslab.published`);
        ``source, probe, metric, judge, dataset, attribute, template, subset`` of our estimate; ``printed``, the number
        as printed; ``theirs``, the same in our unit;
        ``estimate, ci_low, ci_high, ci_level, n_contexts, n_trials, n_dropped``, ours; ``equal``, whether they agree
        in all printed digits, or in the six that we keep; ``outcome``, *equal*, *different*, or *not comparable* if
        the two are not the same quantity (another coefficient, denominator or text, or other data), even if they
        agree; ``why`` it is not equal; ``converted``, theirs converted to our definition, if the counts allow it;
        ``theirs_is, ours_is``, how each is computed.

    Raises
    ------
    TrialsError
        If a number matches several estimates, or no number of a paper and metric matches any.

    Examples
    --------
    >>> found = replications()
    >>> found.loc[found["paper"] == "zheng2024", ["printed", "estimate", "equal"]].values.tolist()
    [['76.91979180386511', 0.769198, True]]
    >>> found["outcome"].value_counts().to_dict()
    {'equal': 698, 'not comparable': 271, 'different': 2}
    """
    printed, ours = published.load(), estimates()
    has_judge = printed["judge"].isin([*ours["judge"].unique(), "Human experts"])
    included = has_judge & ~printed["attribute"].str.contains(" ")
    metrics = printed_metrics()
    parts = [
        _beside(
            printed[included & (printed["paper"] == paper) & (printed["metric"] == one.printed)], ours, one.conditions
        )
        for (paper, _), one in metrics.items()
    ]
    rows = pd.concat(parts, ignore_index=True).astype(dict.fromkeys(_COUNTS, "Int64"))
    records = rows.to_dict("records")
    outcomes, reasons = zip(*map(outcome, records), strict=True)
    computed = [metrics[row["paper"], row["metric"]] for row in records]
    rows = rows.assign(outcome=outcomes, why=reasons)
    rows = rows.assign(theirs_is=[one.theirs for one in computed], ours_is=[one.ours for one in computed])
    return rows.assign(converted=[converted(row) for row in records])[_SHOWN]


def _beside(rows: pd.DataFrame, ours: pd.DataFrame, conditions: dict[str, str]) -> pd.DataFrame:
    """Join printed numbers of one paper and metric with the estimates that have the same conditions."""
    named = pd.DataFrame([dict(_NAMED.findall(row)) for row in rows["row"]], index=rows.index)
    columns = ["metric", "judge", "dataset", *(["attribute"] if rows["attribute"].ne("").all() else [])]
    keys = rows[columns].assign(**{str(name): column for name, column in named.items()}).assign(**conditions)
    whole = ours[[name for name in _PARTS if name not in keys]].isna().all(axis=1)
    joined = keys.merge(ours[whole], on=list(keys), how="left", suffixes=("", " "))
    if len(joined) != len(rows) or joined["estimate"].isna().all():
        where = f"{rows['paper'].iloc[0]}, {rows['metric'].iloc[0]}: {len(rows)} numbers, {len(joined)} estimates"
        raise TrialsError.plain(f"estimates do not match the printed numbers ({where}); rebuild the atlas's")
    place = rows[["paper", "table", "row", "column", "printed"]].reset_index(drop=True)
    unit = np.array([_UNITS.get(name, 1.0) for name in rows["unit"]])
    digits = np.array([len(text.partition(".")[2]) for text in place["printed"]])
    theirs = rows["value"].to_numpy(float) * unit
    close = np.maximum(0.5 * unit * 10.0**-digits, _ROUNDED) * (1 + 1e-9)
    equal = np.abs(joined["estimate"].to_numpy(float) - theirs) <= close
    return pd.concat([place, joined], axis=1).assign(theirs=theirs, equal=equal)


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
        papers = {name: cited(name)[0] for name in dict.fromkeys(self.rows["paper"])}
        return _template().render(pairs=pairs, outcomes=outcomes, papers=papers, headline=self.headline)

    def _heading(self) -> str:
        return _TITLE

    def _rows_at(self, places: list[int]) -> pd.DataFrame:
        return self.rows.iloc[places]

    @property
    def headline(self) -> str:
        """Number of comparable values that are reproduced, and of others; those without an estimate are left out."""
        known = self.rows[self.rows["estimate"].notna()]
        same = known.loc[known["outcome"] != INCOMPARABLE, "outcome"]
        equal = f"{(same == EQUAL).sum()} of {len(same):,} comparable numbers are reproduced to every digit"
        apart = len(known) - len(same)
        alike = ((known["converted"] - known["estimate"]).abs() < _LAST_DIGIT).sum()
        others = f"{apart:,} of {len(known):,} printed numbers measure a different quantity"
        others += f", {alike:,} of them equal once converted" if alike else ""
        return "; ".join([equal] * (len(same) > 0) + [others] * (apart > 0))

    def __repr__(self) -> str:
        return f"ReplicationPage: {self.headline}; save(path) writes the page"


def replication_page(rows: pd.DataFrame | None = None) -> ReplicationPage:
    """Show printed numbers next to ours; each pair opens to how both are computed, and how to compute ours again.

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
        raise InputError.plain("rows is empty, expected: at least one row of atlas.replications()")
    return ReplicationPage(shown.reset_index(drop=True))


def _pair(row: Mapping[Any, Any], names: JudgementNames, places: Mapping[tuple[str, ...], dict[str, str]]) -> Any:
    """Return the fields shown for a pair of numbers."""
    authors, arxiv = cited(row["paper"])
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


#: Outcomes of a replication.
EQUAL, DIFFERENT, INCOMPARABLE = "equal", "different", "not comparable"
_LAST_DIGIT = 5e-5  # half a unit of the fourth digit


class Rule(NamedTuple):
    """Why a printed number differs from ours, of rows with some data set, template or judge."""

    why: str
    where: tuple[str, ...] = ()
    outcome: str = INCOMPARABLE
    always: bool = False  # even if both agree in all printed digits, by coincidence

    def applies(self, row: Mapping[Any, Any]) -> bool:
        """Return whether the rule applies to a row of its paper and metric."""
        return {row["dataset"], row["template"], row["judge"]} >= set(self.where)


class PrintedMetric(NamedTuple):
    """A metric of a paper: how it is computed there and here, and why they differ by the first rule that applies."""

    paper: str
    printed: str
    conditions: dict[str, str]
    theirs: str
    ours: str
    rules: tuple[Rule, ...] = ()


def _document() -> dict[str, Any]:
    return declared("biaslab.atlas.published", "replications.toml")


def cited(paper: str) -> tuple[str, str]:
    """Return the authors of a paper as they are cited, and its number on arXiv."""
    authors, arxiv = _document()["papers"][paper]
    return authors, arxiv


@cache
def printed_metrics() -> dict[tuple[str, str], PrintedMetric]:
    """Return the printed metrics that the atlas has replies for, by paper and our name of the metric."""
    entries = ({**entry, "rules": tuple(map(_rule, entry.get("rules", ())))} for entry in _document()["number"])
    metrics = [PrintedMetric(**entry) for entry in entries]
    return {(one.paper, one.conditions.get("metric", one.printed)): one for one in metrics}


def _rule(entry: dict[str, Any]) -> Rule:
    return Rule(**{**entry, "where": tuple(entry.get("where", ()))})


def outcome(row: Mapping[Any, Any]) -> tuple[str, str]:
    """Return whether a printed number is equal to ours, different, or not comparable; and why not equal.

    Parameters
    ----------
    row : mapping
        A row of `biaslab.atlas.replications`: ``paper, metric, judge, dataset, template, equal``.

    Examples
    --------
    >>> row = {"paper": "wang2024", "metric": "human_alpha", "judge": "humans", "dataset": "pandalm", "template": ""}
    >>> outcome(row | {"equal": True})[0]
    'not comparable'
    """
    rules = printed_metrics()[row["paper"], row["metric"]].rules
    rule = next((one for one in rules if one.applies(row)), None)
    if row["equal"] and not (rule and rule.always):
        return EQUAL, ""
    return (DIFFERENT, "") if rule is None else (rule.outcome, rule.why)


def converted(row: Mapping[Any, Any]) -> float:
    """Return the printed number converted to our definition, if the counts allow it; else NaN."""
    if row["equal"]:
        return float("nan")
    if row["paper"] == "zeng2024" and row["metric"] == "comparative_accuracy":
        return float(row["theirs"] * (row["n_trials"] + row["n_dropped"]) / row["n_trials"])
    if row["paper"] == "panickssery2024" and row["template"] == "authors named wrongly":
        return float("nan") if row["judge"] == "llama-2-7b-chat" else 1 - float(row["theirs"])
    return float("nan")
