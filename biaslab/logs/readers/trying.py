"""Try mappings on the first records of a file, so that an error message suggests only those that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from biaslab.core.errors import InputError
from biaslab.logs.readers.mapping_files import LogMapping, make_mapping
from biaslab.logs.readers.reading import Reading, UnclearError, first_problem
from biaslab.logs.readers.refusing import (
    Entries,
    Refusal,
    example_rows,
    lists_of,
    printable,
    suggestion,
    within_lists,
)
from biaslab.logs.readers.rows import Log, Rows
from biaslab.logs.readers.sense import ImplausibleError

_DEEPEST = 4  # maximum number of refusals in a row, each of which follows from an option of the one before
_MOST = 6  # maximum options in a message
_FIELDS = 20  # maximum fields named in a message
_SHOWN = 3  # maximum files without records named in a message
_READ = 0.5  # share of the records above which a mapping works
_DOTS = "…"  # marks values that only the user knows
_READABLE = ("ok", "tie", "refused")


class Trial(NamedTuple):
    """Result of trying a mapping: whether it works, or the refusal that asks for more."""

    works: bool
    refusal: Refusal | None = None


def explain(reading: Reading, path: object) -> None:
    """Raise the error for a path without judgements, with the reason and mappings that would read its first file.

    Raises
    ------
    InputError
        Always.
    """
    source = str(path) if isinstance(path, str | Path) else "a table"
    wanted = "a log with at least one judgement"
    if reading.files:
        problem = next(filter(None, map(first_problem, reading.logs)), None)
        reasons = "; ".join({reason: None for log in reading.logs for reason in log.left_out})
        left_out = f"every record was left out{reasons and ': '}{reasons}"
        raise InputError("path", source, wanted, problem or left_out)
    if reading.fields:
        allowed = "a log of a known format (`biaslab.logs.readers.available`), or a table with a mapping"
        raise InputError("path", source, allowed, _of_unknown_format(reading))
    if len(reading.empty) == 1:
        raise InputError("path", source, wanted, next(iter(reading.empty.values())))
    if not reading.empty:
        raise InputError("path", source, wanted, "it contains no file")
    reasons = "; ".join(f"{name}: {why}" for name, why in list(reading.empty.items())[:_SHOWN])
    raise InputError("path", source, wanted, f"none of its {len(reading.empty)} files has a record ({reasons})")


def lines_of(refusal: Refusal, sample: Rows, mapping: LogMapping) -> str:
    """Return the reason why a mapping does not read some records, and the extended mappings that do, as one text."""
    return printable((followed(refusal, sample, mapping) or refusal).lines())


def followed(refusal: Refusal, sample: Rows, mapping: LogMapping, depth: int = _DEEPEST) -> Refusal | None:
    """Return a refusal with only those options that read the records, each completed by the entries that it needs.

    An option that leads to another refusal is combined with the options of that one. Guesses are kept only if nothing
    else works. None if no option works.
    """
    options: list[tuple[str, Entries]] = []
    guessed: list[tuple[str, Entries]] = []
    for assumption, entries in refusal.options:
        trial = try_mapping(sample, mapping, entries)
        if trial.works:
            (guessed if refusal.is_guess else options).append((assumption, entries))
        elif trial.refusal is not None and depth > 1 and (extended := _with(mapping, entries)) is not None:
            inner = followed(trial.refusal, sample, extended, depth - 1)
            if inner is not None:
                into = guessed if inner.is_guess or refusal.is_guess else options
                into += [(f"{assumption}, {then}", {**entries, **rest}) for then, rest in inner.options]
    kept = tuple((options or guessed)[:_MOST])
    return Refusal(refusal.reason, kept, is_guess=not options) if kept else None


def try_mapping(sample: Rows, mapping: LogMapping, entries: Mapping[str, Any]) -> Trial:
    """Try a mapping with further entries on some records."""
    whole = _with(mapping, entries)
    if whole is None:
        return Trial(False)
    reading = Reading(None, whole, False)
    reading.alone = True
    log = Log(sample.log.file, unit=sample.log.unit)
    rows = Rows(sample.records, sample.lines, log, sample.textual)
    try:
        parts = list(reading.of_rows(iter([rows]), log))
        if not parts:
            return Trial(False, next((refusal for refusal, _ in reading.refused if refusal), None))
        trials = reading.trials(parts)
    except UnclearError as unclear:
        return Trial(False, unclear.refusal)
    except ImplausibleError as error:
        apart = [
            (f"{entry} = {field}", {entry: field}) for entry, field in error.entries.items() if entry != "configuration"
        ]
        return Trial(False, Refusal(error.args[0], tuple(apart)) if apart else None)
    except InputError:
        return Trial(False)
    return Trial(float(trials["status"].isin(_READABLE).mean()) > _READ)


def _with(mapping: LogMapping, entries: Mapping[str, Any]) -> LogMapping | None:
    """Return a mapping with further entries; None if one of them is invalid."""
    try:
        extension = make_mapping(entries)
    except InputError:
        return None
    return replace(mapping, columns={**mapping.columns, **extension.columns}, shape=extension.shape or mapping.shape)


def _of_unknown_format(reading: Reading) -> str:
    """Return a text with the fields of the first file that was not read, mappings that read it, and its first rows."""
    refusal, sample = reading.refused[0]
    mapping = replace(reading.mapping, format=None)
    examples = reading.examples
    lists = lists_of(examples)
    if lists and (refusal is None or len(examples) == 1):
        options = tuple((f"one row per item of {name}", {"explode": name}) for name in lists)
        refusal = Refusal(f"it is one JSON object with lists in {', '.join(lists[:5])}", options)
    shown = _lines(refusal, sample, mapping, within_lists(examples, lists) if lists else suggestion(examples))
    fields = f"its fields are {', '.join(reading.fields[:_FIELDS])}"
    return printable([fields, *shown, "the first rows:", *example_rows(examples)])


def _lines(refusal: Refusal | None, sample: Rows, mapping: LogMapping, closest: Refusal) -> list[str]:
    """Return the reason why records are not read, and the mappings that read them, or else the closest one."""
    if refusal is not None and not refusal.options:
        return refusal.lines()
    tried = followed(refusal, sample, mapping) if refusal is not None else None
    if tried is None or tried.is_guess:
        tried = followed(closest, sample, mapping) or tried
    if tried is not None and refusal is not None:
        return Refusal(refusal.reason, tried.options).lines()
    if tried is not None or refusal is None:
        return (tried or closest).lines()
    dots = tuple((assumption, entries) for assumption, entries in refusal.options if _DOTS in str(entries))
    return Refusal(refusal.reason, dots or closest.options).lines()
