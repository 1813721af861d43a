"""Turn estimates into the text of a table (headers, rows, caption) for any output format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from biaslab.core import Metric, find_metric
from biaslab.core.binned import without_breakdowns
from biaslab.core.errors import TrialsError
from biaslab.core.output import number
from biaslab.report.wording import (
    cell,
    check_digits,
    condition_text,
    conditions,
    correction,
    interval,
    levels,
    probability,
    span,
    varying,
    version,
)
from biaslab.stats import LEADING, corrected, require_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

_STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


@dataclass(frozen=True)
class Layout:
    """The text of a table: headers, rows, which columns are numeric, and the caption."""

    header: list[str]
    rows: list[list[str]]
    numeric: list[bool]
    caption: str


def chosen_rows(estimates: pd.DataFrame, metric: str | Sequence[str] | None) -> pd.DataFrame:
    """Select the rows of the metrics, without breakdowns, and recompute q-values over their tests.

    Raises
    ------
    TrialsError
        If no row is left, or a column is missing.
    """
    require_columns(estimates, [*LEADING, "estimate", "ci_low", "ci_high", "n_contexts"], "estimates")
    whole = without_breakdowns(estimates)
    wanted = [metric] if isinstance(metric, str) else metric
    unknown = [name for name in wanted or () if name not in set(whole["metric"])]
    if unknown or whole.empty:
        present = ", ".join(map(str, dict.fromkeys(whole["metric"]))) or "at least one row"
        raise TrialsError("metric", unknown or "an empty frame", f"among {present}")
    rows = whole if wanted is None else whole[whole["metric"].isin(wanted)]
    return corrected(rows) if {"q_value", "p_value"} <= set(rows.columns) else rows


def probe_column(rows: pd.DataFrame, named: list[str]) -> list[str]:
    """Return ``["probe"]`` if rows of several probes agree in the columns `named`; else an empty list."""
    return varying(rows[rows.duplicated(named, keep=False)], ["probe"])


def metric_of(row: dict[Any, Any]) -> Metric:
    """Return the metric of a row."""
    return find_metric(row["metric"], row["probe"])


def lay_out(
    estimates: pd.DataFrame,
    metric: str | Sequence[str] | None,
    across: str | None,
    stars: bool,
    digits: int,
    caption: str | None,
) -> Layout:
    """Lay out a table: see `biaslab.report.to_latex`."""
    check_digits(digits)
    rows = chosen_rows(estimates, metric)
    named = [*varying(rows, ["judge", "dataset"]), *varying(rows, conditions(rows))]
    named = [*probe_column(rows, ["metric", *named]), *named]
    if across is not None and across not in rows:
        raise TrialsError("across", across, f"one of {', '.join(['judge', 'dataset', *conditions(rows)])}")
    several = len(rows["metric"].unique()) > 1
    leading = [*(["metric", "unit"] if several else []), *(name for name in named if name != across)]
    records = rows.to_dict("records")
    heads = ("estimate" if several else metric_of(records[0]).axis, f"{_level(rows)} interval")
    with_q = "q_value" in rows and rows["q_value"].notna().any()
    with_n = len(rows["n_contexts"].drop_duplicates()) > 1
    lines: dict[tuple[object, ...], dict[str, str]] = {}
    for place, record in enumerate(records):
        texts, estimate = _leading(record, leading), _estimate(record, stars, digits)
        if across is None:
            line = lines.setdefault((*texts, place), {})
            cells = dict(zip(heads, estimate, strict=True))
            cells |= {"q": probability(record["q_value"])} if with_q else {}
            cells |= {"n": str(record["n_contexts"])} if with_n else {}
        else:
            line = lines.setdefault(tuple(texts), {})
            cells = {condition_text(record[across]): " ".join(estimate)}
        if line.keys() & cells.keys():
            where = f"{cell(record, [across or ''])}; {', '.join(texts)}"
            raise TrialsError(
                "across", across, "a column that distinguishes all rows", f"two rows share the cell {where}"
            )
        line |= cells
    columns = list(dict.fromkeys(name for line in lines.values() for name in line))
    body = [[*map(str, key[: len(leading)]), *(line.get(name, "") for name in columns)] for key, line in lines.items()]
    numeric = [False] * len(leading) + [True] * len(columns)
    return Layout([*map(_head, leading), *columns], body, numeric, _caption(rows, caption, several, stars))


def _leading(record: dict[Any, Any], columns: list[str]) -> list[str]:
    words = {"metric": metric_of(record).label, "unit": metric_of(record).unit}
    return [words[name] if name in words else condition_text(record[name]) for name in columns]


def _estimate(record: dict[Any, Any], stars: bool, digits: int) -> tuple[str, str]:
    """Format an estimate, optionally with stars, and its interval."""
    q, p = record.get("q_value", float("nan")), record.get("p_value", float("nan"))
    mark = next((sign for bound, sign in _STARS if (q if q == q else p) < bound), "") if stars else ""
    return number(record["estimate"], digits) + mark, interval(record["ci_low"], record["ci_high"], digits)


def _head(column: str) -> str:
    return column.replace("_", " ")


def _level(rows: pd.DataFrame) -> str:
    return levels(rows) if "ci_level" in rows else "95 %"


def _caption(rows: pd.DataFrame, caption: str | None, several: bool, stars: bool) -> str:
    """Return the caption: metric, judge, data, n, level, seed, version, and why values are missing."""
    alone = [name for name in conditions(rows) if not varying(rows, [name])]
    what = cell(rows.iloc[0].to_dict(), alone)
    first = "Estimates" if several else metric_of(rows.iloc[0].to_dict()).axis
    facts = [
        f"{first}{f': {what}' if what else ''}",
        f"Judge: {_one_or_count(rows['judge'], 'judges')}",
        f"Data: {_one_or_count(rows['dataset'], 'data sets')}",
        f"n = {span(rows['n_contexts'].dropna())} contexts, {_level(rows)} intervals",
    ]
    if "q_value" in rows and rows["q_value"].notna().any():
        facts.append(f"q: p corrected for the tests in this table, {correction(rows)}")
    if stars:
        facts.append("* q < .05, ** q < .01, *** q < .001 (p if there is no q)")
    notes: list[str] = list(rows.loc[rows["estimate"].isna(), "note"].dropna().unique()) if "note" in rows else []
    facts += [f"–: {note}" for note in notes if note]
    seeds: list[float] = list(rows["seed"].dropna().unique()) if "seed" in rows else []
    facts.append(f"{''.join(f'Seed {seed:.0f}, ' for seed in seeds)}biaslab {version()}")
    return ". ".join([*([caption.rstrip(". ")] if caption else []), *facts]) + "."


def _one_or_count(names: pd.Series, noun: str) -> str:
    different = list(dict.fromkeys(names))
    return str(different[0]) if len(different) == 1 else f"{len(different)} {noun}"
