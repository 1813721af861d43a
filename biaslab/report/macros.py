r"""Write estimates as LaTeX macros, so that the numbers in a paper always match the last run."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

import pandas as pd

from biaslab.core.errors import InputError, TrialsError
from biaslab.core.output import number
from biaslab.report.layout import chosen_rows
from biaslab.report.wording import cell, check_digits, condition_text, conditions, interval, tex, varying, version

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIGITS = dict(
    zip("0123456789", ["Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"], strict=True)
)
_SIGNS = {".": " Point ", "+": " Plus ", "%": " Percent "}
_MINUS = re.compile(r"(?<![A-Za-z0-9])-(?=[0-9])")  # a minus sign, as opposed to a hyphen


def to_macros(
    estimates: pd.DataFrame, metric: str | Sequence[str] | None = None, *, digits: int = 3, prefix: str = "bias"
) -> str:
    r"""Write a ``\newcommand`` for every estimate, its interval and its n.

    ``\biasPositionRateCoherence`` is the estimate; the suffix ``CI`` gives the interval and ``N`` the number of
    contexts. A name consists of the prefix, the probe, the rest of the metric's name, the attribute, and every other
    condition that varies within the metric, such as ``TemplateOne``; digits are spelled out.

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
    check_digits(digits)
    if not re.fullmatch(r"[A-Za-z]+", prefix):
        raise InputError("prefix", prefix, "letters A to Z only, as in LaTeX command names")
    rows = chosen_rows(estimates, metric)
    macros: dict[str, str] = {}
    origin: dict[str, str] = {}
    for (_, _), part in rows.groupby(["probe", "metric"], sort=False):
        columns = varying(part, ["judge", "dataset", *(name for name in conditions(part) if name != "attribute")])
        columns = [*(["attribute"] if "attribute" in part else []), *columns]
        for record in part.to_dict("records"):
            stem = prefix + macro_name(record, columns)
            where = f"{record['metric']} ({cell(record, ['judge', 'dataset', *conditions(part)])})"
            bounds = interval(record["ci_low"], record["ci_high"], digits)
            values = {"": number(record["estimate"], digits), "CI": bounds, "N": str(record["n_contexts"])}
            for suffix, text in values.items():
                name = stem + suffix
                if name in macros:
                    remedy = f"\\{name} would mean both {origin[name]} and {where}; rename a condition or select rows"
                    raise TrialsError("macros", name, "one row per name", remedy)
                macros[name], origin[name] = text, where
    lines = [f"\\newcommand{{\\{name}}}{{{_in_text(text)}}}" for name, text in macros.items()]
    return "\n".join([f"% biaslab {version()}; one macro per estimate", *lines]) + "\n"


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
        text = condition_text(record[column])
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
    return f"\\ensuremath{{{text.replace('−', '-')}}}" if "−" in text else tex(text)
