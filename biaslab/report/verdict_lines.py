"""The verdicts on a judge as lines of text: what was found, what not, what is open, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from biaslab.core.metrics import find_metric
from biaslab.core.output import MISSING, wrapped
from biaslab.logs.audit.measures import Covariates
from biaslab.report.summary import STATUS

#: Headings and the verdicts below them.
_VERDICTS = {"found": ("bias", "slight"), "not found": ("none",), "cannot tell": ("unclear", "untested")}
_SLIGHT = {"slight": "slight: "}


def verdict_lines(rows: Iterable[Mapping[Any, Any]], width: int) -> list[str]:
    """Return the verdicts by what they say, with their numbers; none for metrics without an estimate.

    Parameters
    ----------
    rows : iterable of mapping
        One per metric of one judge, from `biaslab.report.summary.sum_up`.
    width : int
        Characters per line.
    """
    shown = [row for row in rows if row["estimate"] != MISSING]
    lines: list[str] = []
    for words, statuses in _VERDICTS.items():
        of = [row for status in statuses for row in shown if row["status"] == status]
        lines += [f"  {words}:"] if of else []
        for row in of:
            where = f" ({row['strongest']})" if _names_cell(row) else ""
            bounds = "" if row["interval"] == MISSING else f" {row['interval']}"
            test = "" if row["q"] == MISSING else f", q {row['q']}"
            numbers = f": {row['estimate']}{bounds}{row['share']}{test}{where}"
            verdict = "; ".join(filter(None, (row["verdict"], row["standing"])))
            mark = f"{STATUS[row['status']][0]} {_SLIGHT.get(row['status'], '')}"
            lines += item(f"{mark}{_named(row)}{numbers}: {verdict}", width)
    return lines


def item(text: str, width: int) -> Sequence[str]:
    """Return the lines of a text with a mark, indented."""
    return wrapped(f"  {text}", width)


def spaced(name: object) -> str:
    """Return the name of a probe in words."""
    return str(name).replace("_", " ")


def _names_cell(row: Mapping[Any, Any]) -> bool:
    """Return whether a line names the cell of its estimate: one of several, or of a column that the user named."""
    return bool(row["strongest"]) and (row["n_cells"] > 1 or row["probe"] == Covariates.name)


def _named(row: Mapping[Any, Any]) -> str:
    return f"{spaced(row['probe'])}, {find_metric(row['metric'], row['probe']).axis}"


def advice_lines(rows: Iterable[Mapping[Any, Any]], width: int) -> list[str]:
    """Return the advice on the biases found, each once."""
    advice: dict[str, list[str]] = {}
    for row in rows:
        if row["advice"]:
            advice.setdefault(row["advice"], []).append(spaced(row["probe"]))
    lines = ["  what to do:"] if advice else []
    for sentence, probes in advice.items():
        lines += item(f"→ {sentence} ({', '.join(dict.fromkeys(probes))})", width)
    return lines
