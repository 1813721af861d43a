r"""Tables and macros of estimates for papers: LaTeX (booktabs), Markdown, HTML and CSV."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.errors import InputError, TrialsError
from biaslab.core.files import csv_of
from biaslab.core.metrics import Metric, find_metric
from biaslab.core.output import AnyPath, estimate_and_interval, replacing, require_file
from biaslab.report import wording
from biaslab.stats.frame import LEADING, corrected, require_columns, without_breakdowns

_WIDEST = 80  # characters of a line, with gaps, that fit the text of a page in 10 pt
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
    r"""Format estimates as a LaTeX table; needs ``\usepackage{booktabs}``, and ``{graphicx}`` if it is wide.

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
        A ``table`` with a ``tabular``, scaled to the width of the text if its lines are long. Text is escaped.

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
    columns = zip(layout.header, *layout.rows, strict=True)
    wide = sum(2 + max(map(len, column)) for column in columns) > _WIDEST
    return _render("table.tex.j2", layout, label=label, wide=wide)


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
    wording.check_digits(digits)
    named = ["judge", "dataset", "metric", *wording.conditions(rows)]
    named = [*probe_column(rows, named), *named]
    table = rows[named]
    table.insert(named.index("metric") + 1, "unit", [metric_of(row).unit for row in rows.to_dict("records")])
    numbers = ["estimate", "se", "ci_low", "ci_high", "ci_level", "p_value", "q_value", "mde"]
    counts = ["n_contexts", "n_trials", "n_dropped", "method", "seed", "note"]
    whole = pd.concat([table, rows[[c for c in numbers if c in rows]].round(digits)], axis=1)
    return csv_of(pd.concat([whole, rows[[c for c in counts if c in rows]]], axis=1))


def write(estimates: pd.DataFrame, path: AnyPath, **options: Any) -> Path:
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
    return wording.templates().get_template(template).render(**vars(layout), version=wording.version(), **more)


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
    if whole.empty:
        raise TrialsError.plain("estimates have no row over all items; select at least one row")
    if unknown:
        raise TrialsError("metric", unknown, f"among {', '.join(map(str, dict.fromkeys(whole['metric'])))}")
    rows = whole if wanted is None else whole[whole["metric"].isin(wanted)]
    return corrected(rows) if {"q_value", "p_value"} <= set(rows.columns) else rows


def probe_column(rows: pd.DataFrame, named: list[str]) -> list[str]:
    """Return ``["probe"]`` if rows of several probes agree in the columns `named`; else an empty list."""
    return wording.varying(rows[rows.duplicated(named, keep=False)], ["probe"])


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
    wording.check_digits(digits)
    rows = chosen_rows(estimates, metric)
    named = [*wording.varying(rows, ["judge", "dataset"]), *wording.varying(rows, wording.conditions(rows))]
    named = [*probe_column(rows, ["metric", *named]), *named]
    if across is not None and across not in rows:
        raise TrialsError("across", across, f"one of {', '.join(['judge', 'dataset', *wording.conditions(rows)])}")
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
            cells |= {"q": wording.probability(record["q_value"])} if with_q else {}
            cells |= {"n": str(record["n_contexts"])} if with_n else {}
        else:
            line = lines.setdefault(tuple(texts), {})
            cells = {wording.condition_text(record[across]): " ".join(estimate)}
        if line.keys() & cells.keys():
            shared = f"two rows share the cell {wording.cell(record, [across or ''])}; {', '.join(texts)}"
            raise TrialsError("across", across, "a column that distinguishes all rows", shared)
        line |= cells
    columns = list(dict.fromkeys(name for line in lines.values() for name in line))
    body = [[*map(str, key[: len(leading)]), *(line.get(name, "") for name in columns)] for key, line in lines.items()]
    numeric = [False] * len(leading) + [True] * len(columns)
    return Layout([*map(_head, leading), *columns], body, numeric, _caption(rows, caption, several, stars))


def _leading(record: dict[Any, Any], columns: list[str]) -> list[str]:
    words = {"metric": metric_of(record).label, "unit": metric_of(record).unit}
    return [words[name] if name in words else wording.condition_text(record[name]) for name in columns]


def _estimate(record: dict[Any, Any], stars: bool, digits: int) -> tuple[str, str]:
    """Format an estimate, optionally with stars, and its interval."""
    q, p = record.get("q_value", float("nan")), record.get("p_value", float("nan"))
    mark = next((sign for bound, sign in _STARS if (q if q == q else p) < bound), "") if stars else ""
    shown, bounds = estimate_and_interval(record, digits, metric_of(record).whole)
    return shown + mark, bounds


def _head(column: str) -> str:
    return column.replace("_", " ")


def _level(rows: pd.DataFrame) -> str:
    return wording.levels(rows) if "ci_level" in rows else "95 %"


def _caption(rows: pd.DataFrame, caption: str | None, several: bool, stars: bool) -> str:
    """Return the caption: metric, judge, data, n, level, seed, version, and why values are missing."""
    alone = [name for name in wording.conditions(rows) if not wording.varying(rows, [name])]
    what = wording.cell(rows.iloc[0].to_dict(), alone)
    first = "Estimates" if several else metric_of(rows.iloc[0].to_dict()).axis
    facts = [
        f"{first}{f': {what}' if what else ''}",
        f"Judge: {_one_or_count(rows['judge'], 'judges')}",
        f"Data: {_one_or_count(rows['dataset'], 'data sets')}",
        f"n = {wording.span(rows['n_contexts'].dropna())} contexts, {_level(rows)} intervals",
    ]
    if "q_value" in rows and rows["q_value"].notna().any():
        facts.append(f"q: p corrected for the tests in this table, {wording.correction(rows)}")
    if stars:
        facts.append("* q < .05, ** q < .01, *** q < .001 (p if there is no q)")
    notes: list[str] = list(rows.loc[rows["estimate"].isna(), "note"].dropna().unique()) if "note" in rows else []
    facts += [f"–: {note}" for note in notes if note]
    seeds: list[float] = list(rows["seed"].dropna().unique()) if "seed" in rows else []
    facts.append(f"{''.join(f'Seed {seed:.0f}, ' for seed in seeds)}biaslab {wording.version()}")
    return ". ".join([*([caption.rstrip(". ")] if caption else []), *facts]) + "."


def _one_or_count(names: pd.Series, noun: str) -> str:
    different = list(dict.fromkeys(names))
    return str(different[0]) if len(different) == 1 else f"{len(different)} {noun}"


_COUNTS = ("n_labelled", "contexts_labelled")  # conditions that grow with the data, so that no name may depend on them
_DIGITS = dict(
    zip("0123456789", ["Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"], strict=True)
)
_SIGNS = {".": " Point ", "+": " Plus ", "%": " Percent "}
_MINUS = re.compile(r"(?<![A-Za-z0-9])-(?=[0-9])")  # a minus sign, as opposed to a hyphen


def to_macros(
    estimates: pd.DataFrame, metric: str | Sequence[str] | None = None, *, digits: int = 3, prefix: str = "bias"
) -> str:
    r"""Write a ``\newcommand`` for every estimate, its interval and its n.

    ``\biasPositionRateCoherence`` is the estimate; the suffix ``CI`` gives the interval, ``N`` the number of contexts
    and ``Labelled``, of corrected estimates, that of those with labels. A name consists of the prefix, the probe, the
    rest of the metric's name, the attribute, and every other condition that varies within the metric, such as
    ``TemplateOne``; digits are spelled out.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame. Rows for single bins, such as those of ``human_gap``, are left out.
    metric : str or sequence of str, optional
        Which metrics; default: all.
    digits : int
        Decimals.
    prefix : str
        Prefix of every name; letters only.

    Returns
    -------
    str
        Content of a ``.tex`` file to ``\input`` in the preamble.

    Raises
    ------
    InputError
        If the prefix contains anything but letters.
    TrialsError
        If two rows would get the same name; the message names both.

    Examples
    --------
    >>> row = {"probe": "position", "judge": "j", "dataset": "d", "metric": "first_position_rate"}
    >>> row |= {"attribute": "coherence", "estimate": 0.3721, "ci_low": 0.341, "ci_high": 0.402, "n_contexts": 30}
    >>> print(*to_macros(pd.DataFrame([row])).splitlines()[1:], sep="\n")
    \newcommand{\biasPositionRateCoherence}{0.372}
    \newcommand{\biasPositionRateCoherenceCI}{[0.341, 0.402]}
    \newcommand{\biasPositionRateCoherenceN}{30}
    """
    wording.check_digits(digits)
    if not re.fullmatch(r"[A-Za-z]+", prefix):
        raise InputError("prefix", prefix, "letters A to Z only, as in LaTeX command names")
    rows = chosen_rows(estimates, metric)
    macros: dict[str, str] = {}
    origin: dict[str, str] = {}
    for (_, _), part in rows.groupby(["probe", "metric"], sort=False):
        conditions = [name for name in wording.conditions(part) if name not in ("attribute", *_COUNTS)]
        columns = wording.varying(part, ["judge", "dataset", *conditions])
        columns = [*(["attribute"] if "attribute" in part else []), *columns]
        for record in part.to_dict("records"):
            stem = prefix + macro_name(record, columns)
            where = f"{record['metric']} ({wording.cell(record, ['judge', 'dataset', *wording.conditions(part)])})"
            shown = dict(zip(("", "CI"), _estimate(record, stars=False, digits=digits), strict=True))
            values = shown | {"N": str(record["n_contexts"])}
            if pd.notna(record.get("n_labelled")):
                values |= {"Labelled": f"{record['n_labelled']:.0f}"}
            for suffix, text in values.items():
                name = stem + suffix
                if name in macros:
                    both = f"{origin[name]} and {where}"
                    raise TrialsError.plain(f"\\{name} would mean both {both}; rename a condition or select rows")
                macros[name], origin[name] = text, where
    lines = [f"\\newcommand{{\\{name}}}{{{_in_text(text)}}}" for name, text in macros.items()]
    return "\n".join([f"% biaslab {wording.version()}; one macro per estimate", *lines]) + "\n"


def macro_name(record: dict[Any, Any], columns: Sequence[str]) -> str:
    """Return the macro name of a row, without prefix, in letters only.

    Examples
    --------
    >>> macro_name({"probe": "sweep", "metric": "cot_shift", "temperature": 0.5}, ["temperature"])
    'SweepCotShiftTemperatureZeroPointFive'
    """
    probe, metric = str(record["probe"]), str(record["metric"])
    _, separator, rest = metric.partition(f"{probe}_")
    parts = [probe, rest if separator else metric]
    for column in columns:
        text = wording.condition_text(record[column])
        parts += [text] if column == "attribute" or not text else [column, text]
    return "".join(map(_letters, parts))


def _letters(text: str) -> str:
    """Spell text in letters only, with each word capitalised."""
    plain = unicodedata.normalize("NFKD", _MINUS.sub(" Minus ", text))
    spelt = "".join(f" {_DIGITS[letter]} " if letter in _DIGITS else _SIGNS.get(letter, letter) for letter in plain)
    words = re.findall(r"[A-Za-z]+", "".join(letter for letter in spelt if not unicodedata.combining(letter)))
    return "".join(word[0].upper() + word[1:] for word in words)


def _in_text(text: str) -> str:
    """Format a number for running text, in math mode only if it has a minus sign."""
    return f"\\ensuremath{{{text.replace('−', '-')}}}" if "−" in text else wording.tex(text)
