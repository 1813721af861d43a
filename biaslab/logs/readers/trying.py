"""Try mappings on the first records of a file, so that an error shows only lines that read it."""

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

_DEEPEST = 4  # questions that follow from the answer to another one
_MOST = 6  # lines of a message
_FIELDS = 20  # named in a message
_SHOWN = 3  # files without records explained in a message
_READ = 0.5  # share of the records that a mapping must read
_DOTS = "…"  # for what only the user knows
_READABLE = ("ok", "tie", "refused")


class Trial(NamedTuple):
    """What a mapping makes of some records: whether they are read, or why not yet."""

    works: bool
    refusal: Refusal | None = None


def explain(reading: Reading, path: object) -> None:
    """Raise an error that says why a path has no judgement, with mappings that read its first file.

    Raises
    ------
    InputError
        Always.
    """
    given = str(path) if isinstance(path, str | Path) else "a table"
    wanted = "a log with at least one judgement"
    if reading.files:
        problem = next(filter(None, map(first_problem, reading.logs)), None)
        reasons = "; ".join({reason: None for log in reading.logs for reason in log.left_out})
        left_out = f"every record was left out{reasons and ': '}{reasons}"
        raise InputError("path", given, wanted, problem or left_out)
    if reading.fields:
        allowed = "a log of a known format (`biaslab.logs.readers.available`), or a table with a mapping"
        raise InputError("path", given, allowed, _of_unknown_format(reading))
    if len(reading.empty) == 1:
        raise InputError("path", given, wanted, next(iter(reading.empty.values())))
    if not reading.empty:
        raise InputError("path", given, wanted, "it contains no file")
    reasons = "; ".join(f"{name}: {why}" for name, why in list(reading.empty.items())[:_SHOWN])
    raise InputError("path", given, wanted, f"none of its {len(reading.empty)} files has a record ({reasons})")


def lines_of(refusal: Refusal, sample: Rows, mapping: LogMapping) -> str:
    """Return why records are not read with a mapping, and the mappings that read them."""
    return printable((followed(refusal, sample, mapping) or refusal).lines())


def followed(refusal: Refusal, sample: Rows, mapping: LogMapping, depth: int = _DEEPEST) -> Refusal | None:
    """Return a refusal whose options were tried: those that read the records, each with all that it takes.

    An option after which there is another question is replaced by those of that question. Guesses count only where
    nothing else works. None if no option does.
    """
    options: list[tuple[str, Entries]] = []
    guessed: list[tuple[str, Entries]] = []
    for said, entries in refusal.options:
        trial = try_mapping(sample, mapping, entries)
        if trial.works:
            (guessed if refusal.is_guess else options).append((said, entries))
        elif trial.refusal is not None and depth > 1 and (more := _with(mapping, entries)) is not None:
            inner = followed(trial.refusal, sample, more, depth - 1)
            if inner is not None:
                into = guessed if inner.is_guess or refusal.is_guess else options
                into += [(f"{said}, {then}", {**entries, **rest}) for then, rest in inner.options]
    kept = tuple((options or guessed)[:_MOST])
    return Refusal(refusal.reason, kept, is_guess=not options) if kept else None


def try_mapping(sample: Rows, mapping: LogMapping, entries: Mapping[str, Any]) -> Trial:
    """Return what a mapping with further entries makes of some records."""
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
        more = make_mapping(entries)
    except InputError:
        return None
    return replace(mapping, columns={**mapping.columns, **more.columns}, shape=more.shape or mapping.shape)


def _of_unknown_format(reading: Reading) -> str:
    """Return the fields of the first file that was not read, the mappings that read it, and its first rows."""
    refusal, sample = reading.refused[0]
    mapping = replace(reading.mapping, format=None)
    examples = reading.examples
    lists = lists_of(examples)
    if lists and (refusal is None or len(examples) == 1):
        options = tuple((f"a row an item of {name}", {"explode": name}) for name in lists)
        refusal = Refusal(f"it is one JSON object with lists in {', '.join(lists[:5])}", options)
    shown = _lines(refusal, sample, mapping, within_lists(examples, lists) if lists else suggestion(examples))
    fields = f"its fields are {', '.join(reading.fields[:_FIELDS])}"
    return printable([fields, *shown, "the first rows:", *example_rows(examples)])


def _lines(refusal: Refusal | None, sample: Rows, mapping: LogMapping, closest: Refusal) -> list[str]:
    """Return why records are not read, and mappings that read them; the closest one where none does."""
    if refusal is not None and not refusal.options:
        return refusal.lines()
    tried = followed(refusal, sample, mapping) if refusal is not None else None
    if tried is None or tried.is_guess:
        tried = followed(closest, sample, mapping) or tried
    if tried is not None and refusal is not None:
        return Refusal(refusal.reason, tried.options).lines()
    if tried is not None or refusal is None:
        return (tried or closest).lines()
    dots = tuple((said, entries) for said, entries in refusal.options if _DOTS in str(entries))
    return Refusal(refusal.reason, dots or closest.options).lines()
