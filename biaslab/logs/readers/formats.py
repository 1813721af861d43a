"""Detect the format of a log by its fields, and read formats that ``biaslab/logs/formats/NAME.toml`` declares.

``help``, ``tool``
    One line, and the name of the data set of scores, and of judges without a name, unless it is that of the format.
``fields``
    Fields that identify the format: a list, or several lists of which one is complete. ``holds`` lists further values
    that some row has, ``only`` gives for a field the pattern of all its values.
``items``
    Lists whose items become rows, one list after the other: ``answer = "answers[]"`` puts each item into the field
    ``answer`` and its index into ``answer#``. ``"metrics{}"`` is an object, with its keys as ``#``; ``"*~regex"`` are
    the fields that match, with their first group; ``"table(columns, data)"`` a list of names and one of rows. Of a list
    of paths, all that there are count, and ``"."``, the record itself, if there is none.
``columns``
    Column of the trials → value: one of the entries below, or a list of which the first that is not empty counts.
``leave_out``, ``refuse``
    Reasons why a row is no judgement, or is malformed: a value is ``absent``, or its text ``like`` or ``unlike`` a
    pattern.
``people``
    Which scores are by people; the mean of those that agree in ``same`` is the human score.
``grades``
    The ``letters``, worst first, that replies name instead of a number, where a field is ``like`` a pattern.
``others``
    The reason to leave out numbers in fields that are no items.

=======================  ===============================================================================
``answer.score``         a path of object keys and list indices
``{metric#}/reason``     a path with other values in it
``/outputs[.].+/``       the first field whose name matches; ``[/annotator.+/]`` all of them
``=text {field}``        a text with values in it; ``{field|x}`` is x where there is none
``field~pattern``        and ``field | a -> b``, as in `biaslab.logs.readers.mapping`
``one - two``            the difference of two fields or numbers
``#ENTRY``               a key of the text of any of the entries above
``$field``               the text of a message, or in an object with a single field
``@file``                the name of the file, within its folder or archive
=======================  ===============================================================================

Rows with a ``score`` are read as evaluation tools write them (`biaslab.logs.readers.readings.score_trials`), others as
a mapping says (`biaslab.logs.readers.mapping.read_mapped`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.checks import unknown
from biaslab.core.files import declared
from biaslab.datasets._files import text_key
from biaslab.logs.readers import coded_formats, readings
from biaslab.logs.readers.cells import WRONG, items_in, value_at, written
from biaslab.logs.readers.mapping import LogReader, overridden, parse_expression, read_mapped
from biaslab.logs.readers.rows import MALFORMED, Judged, LogSource, RefusedRecordError, Rows, judged_records
from biaslab.prompts.parsing.replies import ParsedScore

Row = Mapping[str, Any]
RowValue = Callable[[Row], Any]
_SPACE = re.compile(r"\{([^}]+)\}")
_NAME = re.compile(r"\[?/(?P<name>.+)/\]?")
_DIFFERENCE = re.compile(r"(\w+) - (\w+)")
_TABLE = re.compile(r"table\((?P<names>\S+), (?P<rows>\S+)\)")
_TEXTS: dict[str, Callable[[Any], Any]] = {
    "#": lambda text: text_key(text) if isinstance(text, str) else WRONG,
    "$": readings.text_of,
}
#: How verdicts in replies are read, instead of any label.
_VERDICTS: dict[str | None, Callable[[pd.Series], pd.DataFrame] | None] = {
    None: None,
    "brackets": lambda texts: readings.parse_texts(texts, readings.bracketed),
    "brackets where asked for": readings.of_pairs,
}


@cache
def load_spec(name: str) -> FormatSpec:
    """Return the spec of a format."""
    return FormatSpec(name, declared("biaslab.logs", f"formats/{name}.toml"))


class FormatSpec:
    """A format as its file declares it.

    Parameters
    ----------
    name : str
        Name of the format.
    entries : mapping
        The content of the file.
    """

    def __init__(self, name: str, entries: Mapping[str, Any]) -> None:
        self.help, self.tool = str(entries["help"]), str(entries.get("tool", name))
        fields = entries.get("fields", [])
        self.fields = [frozenset(names) for names in fields if isinstance(names, list)] or [frozenset(fields)]
        self.columns = {column: value(entry) for column, entry in entries.get("columns", {}).items()}
        self._only, self._holds = entries.get("only", {}), [value(path) for path in entries.get("holds", ())]
        items = enumerate(entries.get("items", {}).items())
        self._items = {item: _lists(paths, needed=depth == 0) for depth, (item, paths) in items}
        self._people, self._others = entries.get("people"), entries.get("others")
        left_out = [*entries.get("leave_out", ()), *([] if self._people is None else [self._people])]
        self._left_out = [(str(entry["reason"]), _condition(entry)) for entry in left_out]
        self._refused = [(str(entry["reason"]), _condition(entry)) for entry in entries.get("refuse", ())]
        self._verdicts, self._pattern = _VERDICTS[entries.get("verdicts")], entries.get("score_pattern")
        self._refusals, self._one = entries.get("refusals", False), entries.get("one")
        self._grades = entries.get("grades")
        self._mapping = {column: _named_as(column, entry) for column, entry in entries.get("columns", {}).items()}
        self._fields = [(field, self.columns[column]) for column, field in self._mapping.items() if field[:1] != "="]
        self._of_file = "@file" in str(entries.get("columns"))

    def tells(self, records: Sequence[Row]) -> bool:
        """Return whether records are of this format, beyond the fields that they have."""
        only = self._only.items()
        if not all(re.fullmatch(pattern, str(record.get(field))) for record in records for field, pattern in only):
            return False
        rows = [row for record in records for row in self._some_rows(record)] if self._holds else []
        if self._one is not None and len({row[f"{self._one}#"] for row in rows}) != 1:
            return False
        return all(any(get(row) is not WRONG for row in rows) for get in self._holds)

    def _some_rows(self, record: Row) -> list[Row]:
        try:
            return self.rows(record)
        except MALFORMED:
            return []

    def rows(self, record: Row, file: str = "") -> list[Row]:
        """Return a record's rows, one per item of its lists.

        Raises
        ------
        KeyError
            If it lacks the first list.
        TypeError
            If one of them is something else.
        """
        rows: list[Row] = [{**record, "@file": file} if self._of_file else record]
        for name, items in self._items.items():
            rows = [{**row, name: item, f"{name}#": key} for row in rows for key, item in items(row)]
        return rows

    def read(self, rows: Rows, source: LogSource) -> pd.DataFrame:
        """Return the trials of records."""
        if "score" not in self.columns:
            return self._mapped(rows, source)
        human, columns = self._human_scores(rows.records), self.columns.items()

        def score(row: Row) -> Judged:
            found = {name: value for name, get in columns if (value := get(row)) is not WRONG}
            return {**found, "human": human(row)}

        return readings.score_trials(rows, source, partial(self._judgements, source.file, score), self.tool)

    def _judgements(self, file: str, judgement: Callable[[Row], Judged], record: Row) -> Iterator[Judged | str]:
        """Yield the judgements of a record, or the reasons for leaving them out."""
        made = self.rows(record, file)
        for why, applies in self._refused:
            if any(map(applies, made or [record])):
                raise RefusedRecordError(why)
        for row in made:
            reason = next((reason for reason, applies in self._left_out if applies(row)), None)
            yield judgement(row) if reason is None else reason
        yield from self._unknown_numbers(record, made)

    def _human_scores(self, records: Sequence[Row]) -> Callable[[Row], float]:
        """Return a function that gives the mean score by people of the same item; NaN if there is none."""
        if self._people is None:
            return lambda _: math.nan
        is_by_people, same = _condition(self._people), [value(entry) for entry in self._people["same"]]
        numbers: dict[tuple[str, ...], list[float]] = {}
        for row in (row for record in records for row in self._some_rows(record) if is_by_people(row)):
            if not math.isnan(number := readings.number_of(self.columns["score"](row))):
                numbers.setdefault(tuple(str(get(row)) for get in same), []).append(number)
        means = {key: sum(scores) / len(scores) for key, scores in numbers.items()}
        if not means:
            return lambda _: math.nan
        return lambda row: means.get(tuple(str(get(row)) for get in same), math.nan)

    def _unknown_numbers(self, record: Row, made: Sequence[Row]) -> Iterator[str]:
        if self._others is None:
            return
        within = record.get(self._others["within"]) if "within" in self._others else record
        known, name = re.compile(self._others.get("unlike", "")), next(iter(self._items))
        items = {row[f"{name}#"] for row in made}
        for field, number in within.items() if isinstance(within, dict) else ():
            if field not in items and not math.isnan(readings.number_of(number)) and not known.fullmatch(field):
                yield self._others["reason"].format(field=field)

    def _mapped(self, rows: Rows, source: LogSource) -> pd.DataFrame:
        def fields(row: Row) -> Judged:
            found = ((field, get(row)) for field, get in self._fields)
            return {field: None if value is WRONG else value for field, value in found}

        places, flat = judged_records(rows, partial(self._judgements, source.file, fields), self.tool)
        if not flat:
            return pd.DataFrame()
        inner = Rows(flat, [rows.lines[place] for place in places], rows.log, rows.textual)
        mapping = self._mapping | ({} if source.scale is None else {"scale": f"={source.scale}"})
        pattern = source.score_pattern or self._pattern
        trials = read_mapped(inner, replace(source, score_pattern=pattern, verdicts=self._verdicts), mapping)
        trials = trials[inner.good[trials.index.to_numpy()]]
        trials = self._with_grades(trials, flat)
        if self._refusals:
            trials = trials.assign(status=readings.with_refusals(trials["status"], trials["reply"]))
        whole_tokens: pd.DataFrame = trials.astype({"tokens": "int64"})
        return whole_tokens.set_axis(np.array(places)[trials.index.to_numpy()])

    def _with_grades(self, trials: pd.DataFrame, flat: Sequence[Row]) -> pd.DataFrame:
        """Return trials in which grades in letters are read as numbers, where replies name them."""
        if self._grades is None:
            return trials
        applies = _condition(self._grades)
        worth: dict[str, ParsedScore] = {name: (float(n), "ok") for n, name in enumerate(self._grades["letters"], 1)}
        texts = trials["reply"][[applies(flat[place]) for place in trials.index]]
        read = readings.parse_texts(texts, partial(readings.lettered, worth=worth))
        trials.loc[texts.index, ["value", "status"]] = read
        return trials


def _named_as(column: str, entry: Any) -> str:
    """Return the mapping of a column: a constant, or the field that holds its values, named as in the log if it can."""
    plain = isinstance(entry, str) and (entry.isidentifier() or (entry.startswith("=") and "{" not in entry))
    return entry if plain else column


def value(entry: Any) -> RowValue:
    """Return the function that gives an entry's value for a row, or `WRONG` if it has none.

    Examples
    --------
    >>> value(["answer.text", "=none"])({"answer": {"text": ""}}), value("={a} {b|y}")({"a": "x"})
    ('none', 'x y')
    """
    if not isinstance(entry, list):
        return _single(entry)
    alternatives = [_single(one) for one in entry]

    def first(row: Row) -> Any:
        empty: Any = WRONG
        for get in alternatives:
            found = get(row)
            if found is not WRONG and (found or found == 0):
                return found
            empty = empty if found is WRONG else found
        return empty

    return first


def _single(entry: Any) -> RowValue:
    if isinstance(entry, str) and entry[:1] in _TEXTS:
        convert, get = _TEXTS[entry[0]], _single(entry[1:])
        return lambda row: found if (found := get(row)) is WRONG else convert(found)
    if isinstance(entry, str) and (numbers := _DIFFERENCE.fullmatch(entry)) is not None:
        one, two = (_single(f"={part}" if part.isdigit() else part) for part in numbers.groups())
        return lambda row: _difference(one(row), two(row))
    expression = parse_expression("context_id", entry)
    if expression.constant is not None:
        return _template(expression.constant)
    get = _path(expression.fields[0])
    if expression.is_plain:
        return get
    read = expression.reader()
    if expression.fields[0].startswith("["):
        return lambda row: list(map(read, get(row)))
    return lambda row: read(None if (found := get(row)) is WRONG else found)


def _difference(one: Any, two: Any) -> Any:
    """Return the difference of two numbers; a value that is no number, to be refused, or `WRONG` if one is missing."""
    numbers = [readings.number_of(value) for value in (one, two)]
    if not any(map(math.isnan, numbers)):
        return numbers[0] - numbers[1]
    return WRONG if any(value is WRONG or value is None for value in (one, two)) else one


def _template(text: str) -> RowValue:
    """Return the function that fills the spaces of a text; `WRONG` if a value without a default is missing."""
    texts = _SPACE.split(text)
    if len(texts) == 1:
        return lambda _: text
    spaces = [path.partition("|") for path in texts[1::2]]
    defaults = [default if bar else None for _, bar, default in spaces]
    getters = [_path(path) for path, _, _ in spaces]

    def fill(row: Row) -> Any:
        found = [get(row) for get in getters]
        values = [default if value is WRONG or value is None else written(value)
                  for value, default in zip(found, defaults, strict=True)]  # fmt: skip
        given = [str(value) for value in values if value is not None]
        if len(given) < len(values):
            return WRONG
        return "".join(chain.from_iterable(zip(texts[::2], [*given, ""], strict=True)))

    return fill


def _path(path: str) -> RowValue:
    if (regex := _NAME.fullmatch(path)) is not None:
        name, several = re.compile(regex["name"]), path.startswith("[")
        return lambda row: _named(row, name, several)
    if _SPACE.search(path):
        fill = _template(path)
        return lambda row: WRONG if (filled := fill(row)) is WRONG else value_at(row, filled)
    first, dot, second = path.partition(".")
    if not dot:
        return lambda row: row.get(path, WRONG)
    deep = "." in second

    def at(row: Row) -> Any:
        inner = row.get(first)
        return value_at(row, path) if deep or not isinstance(inner, dict) else inner.get(second, WRONG)

    return at


def _named(row: Row, name: re.Pattern[str], several: bool) -> Any:
    values = [found for field, found in row.items() if name.fullmatch(field)]
    return values if several else next(iter(values), WRONG)


def _condition(entry: Mapping[str, Any]) -> Callable[[Row], bool]:
    """Return whether a row's value has a text like a pattern, or unlike it, or is absent; null is an empty text.

    An absent value is like an empty text, but makes a record malformed where it has to be unlike a pattern.
    """
    get = value(entry["absent"] if "absent" in entry else entry["field"])
    if "absent" in entry:
        return lambda row: get(row) is WRONG
    wanted = "like" in entry
    pattern = re.compile(entry["like" if wanted else "unlike"], re.DOTALL)

    def applies(row: Row) -> bool:
        found = get(row)
        if found is WRONG and not wanted:
            raise KeyError(entry["field"])
        text = str(found) if isinstance(found, list | dict) else written(None if found is WRONG else found)
        return (pattern.fullmatch(text or "") is not None) == wanted

    return applies


def _lists(paths: str | list[str], *, needed: bool) -> Callable[[Row], list[tuple[Any, Any]]]:
    """Return the function that gives keys and items of the lists at some paths.

    Without a list, it gives the row itself if ``"."`` is one of the paths, or raises `KeyError` if one is needed.
    """
    several = [paths] if isinstance(paths, str) else paths
    getters = [_list_at(path, strict=len(several) == 1) for path in several if path != "."]

    def items(row: Row) -> list[tuple[Any, Any]]:
        lists = [found for get in getters if (found := get(row)) is not None]
        if not lists and needed and "." not in several:
            raise KeyError("no list")
        return list(chain.from_iterable(lists)) if lists or "." not in several else [(None, row)]

    return items


def _list_at(path: str, *, strict: bool) -> Callable[[Row], list[tuple[Any, Any]] | None]:
    """Return the function that gives the keys and items of one list; None if there is none.

    Another value is an error if `strict`, and no list otherwise.
    """
    if (table := _TABLE.fullmatch(path)) is not None:
        return lambda row: _of_table(row.get(table["names"]), row.get(table["rows"]))
    within, star, pattern = path.partition("*~")
    if star:
        name, get = re.compile(pattern), _path(within[:-1]) if within else (lambda row: row)
        return lambda row: _of_fields(get(row), name)
    kind, get = {"[]": list, "{}": dict}[path[-2:]], _path(path[:-2])

    def items(row: Row) -> list[tuple[Any, Any]] | None:
        found = get(row)
        if found is WRONG or found is None:
            return None if found is WRONG else []
        if strict and not isinstance(found, kind):
            raise TypeError(path)
        return items_in(found) if isinstance(found, kind) else None

    return items


def _of_table(names: Any, lines: Any) -> list[tuple[Any, Any]] | None:
    if not isinstance(names, list) or not isinstance(lines, list):
        return None
    return [(number, dict(zip(names, line, strict=True))) for number, line in enumerate(lines)]


def _of_fields(record: Any, name: re.Pattern[str]) -> list[tuple[Any, Any]] | None:
    if not isinstance(record, dict):
        return None
    items: dict[str, Any] = {}
    for field, item in record.items():
        if (match := name.fullmatch(str(field))) is not None:
            items.setdefault((match[1] or "") if name.groups else match[0], item)
    return list(items.items())


_SEEN = 50  # records used for detection; several, so that a damaged one does not decide

#: All formats; records are of the first that they have the fields of.
ORDER: tuple[str, ...] = tuple(declared("biaslab.logs", "formats.toml")["order"])
#: Formats that need code, for what a spec cannot say.
_READERS: dict[str, Callable[[Rows, LogSource], pd.DataFrame]] = {
    "collected": coded_formats.read_collected,
    "alpaca_eval": coded_formats.read_alpaca_eval,
    "llmbar": coded_formats.read_llmbar,
    "all_responses": coded_formats.read_all_responses,
    "socreval": coded_formats.read_socreval,
    "rankings": coded_formats.read_rankings,
    "self_recognition": coded_formats.read_self_recognition,
    "self_recognition_scores": coded_formats.read_self_recognition_scores,
    "promptfoo": partial(readings.score_trials, scores=coded_formats.promptfoo_scores, tool="promptfoo"),
    "promptfoo_table": partial(readings.score_trials, scores=coded_formats.promptfoo_table_scores, tool="promptfoo"),
}
#: Readers that take the mapping themselves.
_MAPPED: dict[str, LogReader] = {"openai_batch": coded_formats.read_openai_batch, "mapping": read_mapped}


def available() -> dict[str, str]:
    """Return all readable formats with a description."""
    specs = {name: load_spec(name).help for name in ORDER}
    return specs | {"inspect": "Inspect logs, through inspect_ai", "table": "tables with common column names"}


def find_reader(name: str) -> LogReader:
    """Return the reader of a format.

    Raises
    ------
    InputError
        If the format is unknown; the message lists all.
    """
    if not isinstance(name, str) or name not in ORDER:
        raise unknown("format", name, available())
    return _MAPPED.get(name) or overridden(_READERS.get(name, load_spec(name).read))


def detect(records: Sequence[Mapping[str, Any]], mapped: bool) -> str | None:
    """Return the first format whose fields each occur in at least half of the first records, or None.

    With a mapping, a table of any other format is accepted as "mapping".
    """
    first = records[:_SEEN]
    seen = Counter(name for record in first for name in record)
    common = {name for name, count in seen.items() if 2 * count >= len(first)}
    for name in ORDER if first else ():
        spec = load_spec(name)
        if any(fields <= common for fields in spec.fields) and spec.tells(first):
            return name
    return "mapping" if mapped and common else None
