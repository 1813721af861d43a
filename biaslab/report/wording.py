"""Format numbers, conditions and data text for readers, and escape them for LaTeX, Markdown and HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, select_autoescape

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.core.files import declared
from biaslab.core.metrics import is_declared
from biaslab.core.output import MISSING, count, interval, markdown, number, percent, with_interval
from biaslab.stats.estimate import ALPHA, is_above
from biaslab.stats.frame import LEADING, TRAILING, require_columns

ONE_TEST = "1 test"
_MOST = 12  # decimals, to which `biaslab.core.output.number` rounds
_NO_CONDITIONS = ("bound_low", "bound_high", "finding", "slight", "matters", "planted")
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi - pi rho - sigma tau upsilon phi chi psi "
    "omega"
)
#: Words of reports and figures, and LaTeX for characters.
WORDS: dict[str, Any] = declared("biaslab.report", "words.toml")
_LETTERS = {chr(945 + i): rf"$\{name}$" for i, name in enumerate(_GREEK.split()) if name != "-"}
_TEX = str.maketrans(WORDS["tex"] | _LETTERS)


def digits_apart(values: Iterable[float], other: float | None, digits: int = 3) -> int:
    """Return the number of decimals (at least ``digits``) that shows on which side of `other` each value lies.

    Examples
    --------
    >>> digits_apart([0.0004, 0.2], 0.0), digits_apart([0.0, 0.2], 0.0), digits_apart([0.104], 0.1, digits=2)
    (4, 3, 3)
    """
    if other is None or math.isnan(other):
        return digits
    apart = [value for value in values if is_above(value, other) or is_above(other, value)]
    while digits < _MOST and any(number(value, digits) == number(other, digits) for value in apart):
        digits += 1
    return digits


def size(value: float, *others: float | None) -> str:
    """Format a size to two decimals, or more if it would otherwise read as 0 or as one of `others`.

    Examples
    --------
    >>> size(0.05), size(0.0031), size(0.104, 0.1), size(0.1, 0.104), size(0.0)
    ('0.05', '0.003', '0.104', '0.100', '–')
    """
    if not value > 0:
        return MISSING
    return number(value, max(digits_apart([value], other, 2) for other in (0.0, *others)))


def fair(null: float | None) -> str:
    """Format a null value without trailing zeros.

    Examples
    --------
    >>> fair(0.5), fair(0.0), fair(0.25), fair(None)
    ('0.5', '0', '0.25', '–')
    """
    return MISSING if null is None else f"{null:g}".replace("-", "−")


def evidence(row: Mapping[Any, Any], null: float | None) -> tuple[str, str]:
    """Format an estimate and its interval with enough decimals to show on which side of the null they lie.

    Examples
    --------
    >>> evidence({"estimate": 0.00031, "ci_low": 0.00012, "ci_high": 0.0005}, 0.0)
    ('0.0003', '[0.0001, 0.0005]')
    """
    value, low, high = (row[name] for name in ("estimate", "ci_low", "ci_high"))
    digits = digits_apart((value, low, high), null)
    return number(value, digits), interval(low, high, digits)


def check_digits(digits: int) -> None:
    """Raise `InputError` unless `digits` is a valid number of decimals."""
    if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= 12:
        raise InputError("digits", digits, "a whole number from 0 to 12")


def of_metrics(estimates: pd.DataFrame, metric: str | Sequence[str] | None) -> pd.DataFrame:
    """Select the estimates of one or more metrics; default: all.

    A metric that a probe of these estimates declares, but did not estimate, selects none of its rows; so that a
    notebook may ask for what only some of its parameters measure. Another name is refused.

    Examples
    --------
    >>> import pandas as pd
    >>> len(of_metrics(pd.DataFrame({"metric": ["tie_rate", "accuracy"]}), "tie_rate"))
    1
    """
    if metric is None:
        return estimates
    wanted, known = [metric] if isinstance(metric, str) else list(metric), list(dict.fromkeys(estimates["metric"]))
    probes = set(estimates["probe"]) if "probe" in estimates else set()
    for name in wanted:
        if not any(is_declared(name, probe) for probe in probes):
            require_one_of("metric", name, known)
    return estimates[estimates["metric"].isin(wanted)]


def with_intervals(estimates: pd.DataFrame, digits: int = 2) -> list[str]:
    """Format each estimate of a frame with its interval; an en dash if there is none.

    Examples
    --------
    >>> import pandas as pd
    >>> with_intervals(pd.DataFrame({"estimate": [0.4712, None], "ci_low": [0.43, None], "ci_high": [0.51, None]}))
    ['0.47 [0.43, 0.51]', '–']
    """
    check_digits(digits)
    columns = ["estimate", "ci_low", "ci_high"]
    require_columns(estimates, columns, "estimates")
    return [with_interval(row, digits) for row in estimates[columns].to_dict("records")]


def probability(value: float) -> str:
    """Format a p- or q-value to three decimals, "<0.001" for the smallest, and more decimals near .05.

    Examples
    --------
    >>> probability(0.0312), probability(1e-9), probability(0.04996)
    ('0.031', '<0.001', '0.04996')
    """
    return MISSING if math.isnan(value) else "<0.001" if value < 0.001 else number(value, digits_apart([value], ALPHA))


def correction(estimates: pd.DataFrame) -> str:
    """Say how many tests the q-values of these rows are corrected for.

    Examples
    --------
    >>> import pandas as pd
    >>> named = {"judge": "j", "probe": "sweep", "q_value": 0.2}
    >>> correction(pd.DataFrame([named | {"metric": name} for name in ("cot_shift", "cot_shift", "temperature_shift")]))
    '3 tests of 2 metrics'
    """
    tested = estimates[estimates["q_value"].notna()]
    metrics, judges = len(tested[["probe", "metric"]].drop_duplicates()), tested["judge"].nunique()
    of = [count(metrics, "metric")] * (metrics > 1) + [count(judges, "judge")] * (judges > 1)
    return " of ".join(filter(None, [count(len(tested), "test"), " and ".join(of)]))


def levels(rows: pd.DataFrame) -> str:
    """Format the confidence levels of intervals, such as "95 %"."""
    return "/".join(percent(level) for level in rows["ci_level"].dropna().unique())


def span(values: Iterable[float]) -> str:
    """Format the range of integers, such as numbers of contexts.

    Examples
    --------
    >>> span([8, 12, 1000]), span([8, 8])
    ('8 to 1,000', '8')
    """
    low, high = min(values := list(values)), max(values)
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def tex(text: object) -> str:
    r"""Escape text for LaTeX; line breaks become spaces.

    Unknown non-ASCII letters are kept and need an engine that supports them, such as LuaLaTeX.

    Examples
    --------
    >>> print(tex("50 % of α_1 & {x}"))
    50 \% of $\alpha$\_1 \& \{x\}
    """
    return " ".join(str(text).split()).translate(_TEX)


def conditions(estimates: pd.DataFrame) -> list[str]:
    """Return the non-empty condition columns of an estimates frame, in order."""
    fixed = {*LEADING, *TRAILING, *_NO_CONDITIONS}
    return [name for name in estimates.columns if name not in fixed and estimates[name].notna().any()]


def varying(estimates: pd.DataFrame, columns: list[str]) -> list[str]:
    """Return the columns with more than one value."""
    return [name for name in columns if len(estimates[name].drop_duplicates()) > 1]


def condition_text(condition: Any) -> str:
    """Format a condition's value: integers without decimals, booleans as yes and no, missing as empty.

    Examples
    --------
    >>> condition_text(1.0), condition_text(True), condition_text("kendall"), condition_text(None)
    ('1', 'yes', 'kendall', '')
    """
    if condition is None or condition != condition:
        return ""
    if isinstance(condition, bool) or type(condition).__name__ == "bool_":
        return "yes" if condition else "no"
    return f"{condition:.4g}" if isinstance(condition, int | float) else str(condition)


def cell(row: Mapping[Any, Any], columns: list[str]) -> str:
    """Name a row by its conditions: "coherence, template 1".

    Examples
    --------
    >>> cell({"attribute": "coherence", "template": 1.0, "level": None}, ["attribute", "template", "level"])
    'coherence, template 1'
    """
    parts = [(name, condition_text(row[name])) for name in columns]
    return ", ".join(text if name == "attribute" else f"{name} {text}" for name, text in parts if text)


def version() -> str:
    """Return the version of biaslab."""
    return metadata.version("biaslab")


@cache
def templates(package: str = "biaslab.report") -> Environment:
    """Return a package's templates, with HTML auto-escaping and the filters ``tex`` and ``markdown``."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="{##",  # {# may occur in LaTeX
        comment_end_string="##}",
    )
    environment.filters |= {"tex": tex, "markdown": markdown}
    return environment
