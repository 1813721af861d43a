"""Flatten records of any shape by one rule: objects become dotted columns, lists that hold verdicts become rows.

``queries[].retrieved[].judge_score`` names a value in a list within a list: each item is a row, with everything above
it repeated. ``*`` is the key of an object whose values are lists of objects of one shape, and ``*[].grade`` a value in
them. Lists of single values become ``name[0]``, ``name[1]``, and a list of one object ``name[0].field``, but for
messages of a conversation and for lists that are longer in other records. Lists of equal length next to each other
become rows, as in ``answers[]`` and ``ratings[]``, if one of them holds verdicts or scores. Other lists of objects stay
in one column.

A mapping can also explode lists and join the records of another file, before or instead of this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.logs.readers.cells import at, items_in
from biaslab.logs.readers.documents import iter_documents, read_frame, read_rows
from biaslab.logs.readers.rows import Log, Rows

KEY, ITEM = "*", "[]"
_SEEN = 200  # records whose shape is examined
_MOST_ITEMS = 12  # longest list of single values that becomes columns
_FEWEST = 2  # smallest number of lists next to each other, and of keys of an object of lists
_LEAST = 10  # smallest number of items of annotations by item
_NO_ITEM = "no item in its list"
_SPEAKER = {"role", "from", "speaker"}  # fields of the messages of a conversation, which stay together


IsOutcome = Callable[[str, Any], bool]
Steps = tuple[str, ...]


class Unnesting(NamedTuple):
    """How the records of a file become rows.

    Parameters
    ----------
    steps : tuple of str
        Paths of the lists and keyed objects that become rows, outermost first: ``("queries[]",
        "queries[].retrieved[]")``. Lists next to each other are one step, with their names joined by ``+``.
    others : tuple of tuple of str
        The same for other lists that hold verdicts or scores as deep.
    """

    steps: Steps = ()
    others: tuple[Steps, ...] = ()


def unnesting(records: Sequence[Mapping[str, Any]], is_outcome: IsOutcome) -> Unnesting:
    """Return which lists become rows: the innermost whose items hold a verdict or a score.

    Parameters
    ----------
    records : sequence of mapping
        Records of a file.
    is_outcome : callable
        Whether a column's name, and one of its values, are those of a verdict or a score.

    Examples
    --------
    >>> record = {"id": 1, "runs": [{"winner": "A"}, {"winner": "B"}], "tags": ["x"]}
    >>> unnesting([record], lambda name, value: name.endswith("winner"))
    Unnesting(steps=('runs[]',), others=())
    """
    found: dict[Steps, None] = {}
    for record in records[:_SEEN]:
        for steps in _steps_to_outcomes(record, "", (), is_outcome):
            found.setdefault(steps)
    deepest = max((len(steps) for steps in found), default=0)
    alike = sorted((steps for steps in found if len(steps) == deepest), key=lambda steps: steps[-1:][0].count("+"))
    first, *others = alike or [()]
    own = set("+".join(first).split("+"))  # lists that happen to be as long in some records are the same lists
    return Unnesting(first, tuple(steps for steps in others if not own & set("+".join(steps).split("+"))))


def _steps_to_outcomes(value: Mapping[str, Any], prefix: str, steps: Steps, is_outcome: IsOutcome) -> Iterator[Steps]:
    """Yield, for each verdict or score in an object, the lists that lead to it."""
    if _is_keyed(value):
        path = f"{prefix}{KEY}{ITEM}"
        for items in value.values():
            yield from _steps_of_items(items, path, (*steps, path), is_outcome)
        return
    for name in _side_by_side(value, is_outcome):
        yield (*steps, name if not prefix else "+".join(f"{prefix}{part}" for part in name.split("+")))
    for name, inner in value.items():
        path = f"{prefix}{name}"
        if isinstance(inner, dict):
            yield from _steps_to_outcomes(inner, f"{path}.", steps, is_outcome)
        elif isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner):
            yield from _steps_of_items(inner, f"{path}{ITEM}", (*steps, f"{path}{ITEM}"), is_outcome)
        elif steps and not isinstance(inner, list) and is_outcome(path, inner):
            yield steps


def _steps_of_items(items: Iterable[Any], path: str, steps: Steps, is_outcome: IsOutcome) -> Iterator[Steps]:
    for item in islice(items, _SEEN):
        yield from _steps_to_outcomes(item, f"{path}.", steps, is_outcome)


def _is_keyed(value: Mapping[str, Any]) -> bool:
    """Return whether an object has lists of objects of one shape as values, so that its keys are data."""
    lists = list(value.values())
    if len(lists) < _FEWEST or not all(isinstance(each, list) and each for each in lists):
        return False
    if not all(isinstance(item, dict) for each in lists for item in islice(each, _SEEN)):
        return False
    return all(set(each[0]) == set(lists[0][0]) for each in lists)


def _side_by_side(value: Mapping[str, Any], is_outcome: IsOutcome) -> list[str]:
    """Return the names of lists of single values of one length, more than one, of which one is an outcome."""
    lists = {name: each for name, each in value.items() if isinstance(each, list) and len(each) >= _FEWEST}
    lists = {name: each for name, each in lists.items() if not any(isinstance(item, dict | list) for item in each)}
    by_length: dict[int, list[str]] = {}
    for name, each in lists.items():
        by_length.setdefault(len(each), []).append(name)
    alike = (sorted(names) for names in by_length.values() if len(names) >= _FEWEST)
    with_outcome = (names for names in alike if any(is_outcome(name, value[name][0]) for name in names))
    return ["+".join(f"{name}{ITEM}" for name in names) for names in with_outcome]


def steps_of_paths(paths: Iterable[str]) -> Steps:
    """Return the lists that become rows because a mapping names values in them.

    Examples
    --------
    >>> steps_of_paths(["queries[].retrieved[].score", "queries[].query_id", "config.judge"])
    ('queries[]', 'queries[].retrieved[]')
    """
    deepest = max((path for path in paths if ITEM in path), key=lambda path: path.count(ITEM), default="")
    ends = [end + len(ITEM) for end in range(len(deepest)) if deepest.startswith(ITEM, end)]
    steps = [deepest[:end] for end in ends]
    if not steps:
        return ()
    beside = sorted({path for path in paths if path.endswith(ITEM) and path.count(ITEM) == len(steps)})
    return (*steps[:-1], "+".join(beside)) if len(beside) >= _FEWEST else tuple(steps)


def flattened(rows: Rows, steps: Sequence[str]) -> Rows:
    """Return rows of flat records, one per item of the innermost list.

    Records without such an item are left out and counted.

    Examples
    --------
    >>> from biaslab.logs.readers.rows import Log
    >>> record = {"q": "Why?", "runs": [{"winner": "A"}, {"winner": "B"}], "meta": {"judge": "j"}}
    >>> flattened(Rows([record], [1], Log("x"), False), ["runs[]"]).records[1]
    {'q': 'Why?', 'meta.judge': 'j', 'runs[]#': 1, 'runs[].winner': 'B'}
    """
    if not steps and not any(isinstance(v, dict | list) for record in rows.records[:_SEEN] for v in record.values()):
        return rows
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    lost = 0
    for record, line in zip(rows.records, rows.lines, strict=True):
        made = list(_rows_of(record, "", tuple(steps)))
        records += made
        lines += [line] * len(made)
        lost += not made
    if lost:
        rows.log.left_out[_NO_ITEM] += lost
    if steps and len(rows.records) == 1:
        rows.log.unit, lines = "row", list(range(1, len(records) + 1))
    lists = {name for record in records for name, value in record.items() if isinstance(value, list)}
    return Rows([_with_lists(record, lists) for record in records] if lists else records, lines, rows.log, rows.textual)


def _with_lists(record: dict[str, Any], lists: set[str]) -> dict[str, Any]:
    """Return a record with a list of one object in one column if it is among the lists that others have there.

    Examples
    --------
    >>> _with_lists({"q": 1, "runs[0].text": "a"}, {"runs"})
    {'q': 1, 'runs': [{'text': 'a'}]}
    """
    whole: dict[str, Any] = {}
    for name, value in record.items():
        path, entry, field = name.partition("[0].")
        if entry and path in lists:
            whole.setdefault(path, [{}])[0][field] = value
        else:
            whole[name] = value
    return whole


def _rows_of(value: Mapping[str, Any], prefix: str, steps: Steps) -> Iterator[dict[str, Any]]:
    """Yield the flat records of an object."""
    if not steps:
        yield _flat(value, prefix)
        return
    step, rest = steps[0], steps[1:]
    if step.endswith(f"{KEY}{ITEM}"):
        yield from _rows_of_keys(value, prefix, step, rest)
        return
    names = [name.removesuffix(ITEM).removeprefix(prefix) for name in step.split("+")]
    if len(names) > 1:
        yield from _rows_side_by_side(value, prefix, names)
        return
    own = _flat(value, prefix, without=step.removesuffix(ITEM))
    for inner in _items_as_rows(value.get(names[0], at(value, names[0])), step, rest):
        yield own | inner


def _rows_of_keys(value: Mapping[str, Any], prefix: str, step: str, rest: Steps) -> Iterator[dict[str, Any]]:
    """Yield the flat records of an object whose keys are data, which may lie within other objects."""
    path = step.removesuffix(f"{KEY}{ITEM}")
    inside = at(value, path.removeprefix(prefix).removesuffix(".")) if path != prefix else value
    own = _flat(value, prefix, without=path.removesuffix(".")) if path != prefix else {}
    for key, items in inside.items() if isinstance(inside, dict) else ():
        for inner in _items_as_rows(items, step, rest):
            yield own | {f"{path}{KEY}": key, **inner}


def _items_as_rows(items: Any, step: str, rest: Steps) -> Iterator[dict[str, Any]]:
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if not isinstance(item, dict):
            yield {f"{step}#": place, step: item}
            continue
        for inner in _rows_of(item, f"{step}.", rest):
            yield {f"{step}#": place, **inner}


def _rows_side_by_side(value: Mapping[str, Any], prefix: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    lists = [value.get(name) for name in names]
    if not all(isinstance(each, list) for each in lists) or len({len(each or ()) for each in lists}) > 1:
        return
    own = _flat({name: each for name, each in value.items() if name not in names}, prefix)
    for place, items in enumerate(zip(*(each or () for each in lists), strict=True)):
        own_items = {f"{prefix}{name}{ITEM}": item for name, item in zip(names, items, strict=True)}
        yield own | own_items | {f"{prefix}{ITEM}#": place}


def _flat(value: Mapping[str, Any], prefix: str = "", without: str = "") -> dict[str, Any]:
    """Return an object with dotted names, and short lists of single values as numbered columns."""
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        path = f"{prefix}{name}"
        if path == without:
            continue
        if isinstance(inner, dict) and inner:  # a field of the same dotted name goes first
            flat |= {key: each for key, each in _flat(inner, f"{path}.", without).items() if key not in flat}
        elif isinstance(inner, list) and len(inner) == 1 and _is_entry(inner[0]):
            flat |= _flat(inner[0], f"{path}[0].", without)
        elif isinstance(inner, list) and 0 < len(inner) <= _MOST_ITEMS and not _has_objects(inner):
            flat |= {f"{path}[{place}]": item for place, item in enumerate(inner)}
        else:
            flat[path] = inner
    return flat


def _is_entry(item: Any) -> bool:
    """Return whether an item is an object, and no message of a conversation."""
    return isinstance(item, dict) and not _SPEAKER & set(item)


def _has_objects(items: Sequence[Any]) -> bool:
    return any(isinstance(item, dict | list) for item in items)


def table_within(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of a table that is written as one object; None for other objects.

    ``DataFrame.to_json`` writes a table by column, or as names and rows; ``Dataset.to_dict`` as lists.

    Examples
    --------
    >>> table_within({"question": {"0": "Why?", "1": "Who?"}, "score": {"0": 4, "1": 5}})
    [{'question': 'Why?', 'score': 4}, {'question': 'Who?', 'score': 5}]
    >>> table_within({"columns": ["q", "score"], "data": [["Why?", 4]]})
    [{'q': 'Why?', 'score': 4}]
    >>> table_within({"question": ["Why?", "Who?"], "score": [4, 5]})
    [{'question': 'Why?', 'score': 4}, {'question': 'Who?', 'score': 5}]
    """
    columns = list(record.values())
    names, rows = record.get("columns"), record.get("data", record.get("rows"))
    if isinstance(names, list) and isinstance(rows, list) and rows:
        labels = [str(name.get("name")) if isinstance(name, dict) else str(name) for name in names]
        fitting = len(set(labels)) == len(labels) and all(isinstance(r, list) and len(r) == len(labels) for r in rows)
        return [dict(zip(labels, row, strict=True)) for row in rows] if fitting else None
    if len(columns) < _FEWEST:
        return None
    if all(isinstance(column, dict) and column and set(column) == set(columns[0]) for column in columns):
        keys = list(columns[0])
        numbered = all(str(key).isdigit() for key in keys)
        return [{str(name): column[key] for name, column in record.items()} for key in keys] if numbered else None
    if all(isinstance(column, list) and len(column) == len(columns[0]) > 1 for column in columns):
        if any(isinstance(item, dict) for column in columns for item in column):
            return None
        return [dict(zip(map(str, record), row, strict=True)) for row in zip(*columns, strict=True)]
    return None


def keyed_records(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the records of an object that is keyed by their identifiers, with the key as ``*``; None for others.

    Examples
    --------
    >>> keyed_records({"q1": {"score": 4}, "q2": {"score": 5}, "q3": {"score": 3}})[0]
    {'*': 'q1', 'score': 4}
    """
    rows = list(record.values())
    if len(rows) <= _FEWEST or not all(isinstance(row, dict) and row for row in rows):
        return None
    shared = set(rows[0]).intersection(*rows[1:])
    return [{KEY: str(key), **row} for key, row in record.items()] if shared else None


ANNOTATOR, ANNOTATED, LABEL = "annotator", "item", "label"


def are_annotations(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a file is one object, annotator → item → label, with items that several annotators share.

    Examples
    --------
    >>> items = {f"item {n}": 1 + n % 5 for n in range(12)}
    >>> are_annotations([{"ann": items, "bob": items}]), are_annotations([items]), are_annotations([{"ann": items}])
    (True, False, True)
    """
    if len(records) != 1 or not records[0]:
        return False
    values = list(records[0].values())
    if not all(isinstance(labels, dict) and not any(_has_objects([v]) for v in labels.values()) for labels in values):
        return False
    items = {item for labels in values for item in labels}
    shared = len(values) == 1 or sum(map(len, values)) > len(items)
    return len(items) >= _LEAST and shared


def annotated_records(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a record per annotation: annotator, item and label."""
    annotations = ((person, item, label) for person, labels in record.items() for item, label in labels.items())
    return [dict(zip((ANNOTATOR, ANNOTATED, LABEL), each, strict=True)) for each in annotations]


def by_item(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a record per item of annotations, with one field per annotator."""
    items: dict[str, dict[str, Any]] = {}
    for annotator, labels in record.items():
        for item, label in labels.items():
            items.setdefault(item, {ANNOTATED: item})[annotator] = label
    return list(items.values())


TableFunction = Callable[[pd.DataFrame], pd.DataFrame]
_JOIN = re.compile(r"(?P<file>.+?)\s+on\s+(?P<left>[^=\s]+)(?:\s*=\s*(?P<right>\S+))?\s*")
_TOGETHER = "+"  # between fields with parallel lists
_NUMBER = "#"  # suffix of an exploded field: the index in its list, or the key in its object


@dataclass(frozen=True)
class Shape:
    """Reshaping steps, applied in this order.

    Parameters
    ----------
    explode : tuple of str
        Fields or paths to explode, one after the other: lists into one row per item, objects into one row per key. The
        item replaces the list, and ``field#`` is its index, from 0, or its key. ``answers+scores`` explodes two lists
        of the same length together.
    joined : mapping of str to dict, optional
        Records of another file, by the value of the field to join on.
    on : str
        The field of this file to join on.
    """

    explode: tuple[str, ...] = ()
    joined: Mapping[str, dict[str, Any]] | None = None
    on: str = ""

    def of(self, rows: Rows) -> Rows:
        """Return the reshaped records, refusing those without a join partner or a list."""
        if self.joined is not None:
            rows = _merged(rows, self.joined, self.on)
        for name in self.explode:
            rows = _exploded(rows, name)
        return rows


def make_shape(explode: Any, join: Any) -> Shape | None:
    """Return the reshaping in a mapping, or None.

    Parameters
    ----------
    explode : str or list of str, optional
        Fields, separated by commas.
    join : str, optional
        ``"FILE on FIELD"`` or ``"FILE on FIELD=ITS FIELD"``.

    Raises
    ------
    InputError
        If one has another form, or the file cannot be read.
    """
    if explode is None and join is None:
        return None
    fields = explode.split(",") if isinstance(explode, str) else explode if isinstance(explode, list) else []
    named = tuple(field.strip() for field in fields if isinstance(field, str) and field.strip())
    if explode is not None and not named:
        raise InputError("mapping['explode']", explode, "names of fields with lists, separated by commas")
    if join is None:
        return Shape(named)
    match = _JOIN.fullmatch(join) if isinstance(join, str) else None
    if match is None:
        raise InputError("mapping['join']", join, "'FILE on FIELD' or 'FILE on FIELD=FIELD OF THE OTHER FILE'")
    return Shape(named, _by_value(Path(match["file"]), match["right"] or match["left"]), match["left"])


def shaped(chunks: Iterator[Rows], shape: Shape | TableFunction | None) -> Iterator[Rows]:
    """Yield reshaped chunks, skipping empty ones."""
    if shape is not None:
        chunks = map(shape.of, chunks) if isinstance(shape, Shape) else _through(list(chunks), shape)
    return (rows for rows in chunks if rows.records)


def _through(chunks: list[Rows], function: TableFunction) -> Iterator[Rows]:
    """Apply the user's function to a table of all records, with dotted names of nested fields, and yield its rows."""
    if not chunks:
        return
    lines = list(chain.from_iterable(rows.lines for rows in chunks))
    log, unit = chunks[0].log, chunks[0].log.unit
    table = pd.json_normalize(list(chain.from_iterable(rows.records for rows in chunks)))
    result = function(table.set_axis(pd.Index(lines, name=unit)))
    if not isinstance(result, pd.DataFrame):
        raise InputError.plain(f"mapping returned a {type(result).__name__}, not a pandas.DataFrame")
    kept = result.index.isin(lines).all()
    start = 0
    for rows in read_frame(result, log):
        end = start + len(rows.records)
        yield Rows(rows.records, result.index[start:end].tolist() if kept else rows.lines, log, chunks[0].textual)
        start = end
    log.unit = unit if kept else log.unit


def _by_value(path: Path, field: str) -> dict[str, dict[str, Any]]:
    """Return the records of a file by the value of a field, which must be unique."""
    records: dict[str, dict[str, Any]] = {}
    for document in iter_documents(path):
        for rows in read_rows(document, Log(document.name)):
            if are_annotations(rows.records):
                items = by_item(rows.records[0])
                rows = Rows(items, range(1, len(items) + 1), rows.log, textual=False)
            for value, record in zip(rows.take(field, "name"), rows.records, strict=True):
                if isinstance(value, str) and records.setdefault(value, record) is not record:
                    where, remedy = f"{field} = {value}", "join on a field that identifies the records"
                    raise InputError("mapping['join']", where, f"unique values in {path}", remedy)
    if not records:
        raise InputError("mapping['join']", str(path), f"a file whose records have the field {field}")
    return records


def _merged(rows: Rows, joined: Mapping[str, dict[str, Any]], on: str) -> Rows:
    """Join the fields of the other file to each record, refusing records without a match; the log's fields win."""
    values = rows.take(on, "id")
    alone = rows.good & ~values.isin(list(joined)).to_numpy()
    for place in np.flatnonzero(alone).tolist():
        rows.log.refuse(rows.lines[place], f"no record to join for {on} = {values[place]}")
    rows.good &= ~alone
    places = np.flatnonzero(rows.good).tolist()
    records = [joined[values[place]] | rows.records[place] for place in places]
    return Rows(records, [rows.lines[place] for place in places], rows.log, rows.textual)


def _exploded(rows: Rows, field: str) -> Rows:
    """Return one row per item of a list, or of parallel lists, or per key of an object; refuse records without."""
    several = _TOGETHER in field and not rows.has(field)
    fields = [name.strip() for name in field.split(_TOGETHER)] if several else [field]
    lists = [[items_in(value, rows.textual) for value in rows.values(name)] for name in fields]
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    alike = np.zeros(len(rows.records), bool)
    for place, own in enumerate(zip(*lists, strict=True)):
        alike[place] = None not in own and len({len(items or ()) for items in own}) == 1
        for items in zip(*(items or () for items in own), strict=True) if alike[place] else ():
            record = rows.records[place]
            for name, (key, item) in zip(fields, items, strict=True):
                record = {**_with_item(record, name, item), f"{name}{_NUMBER}": key}
            records.append(record)
            lines.append(rows.lines[place])
    why = "are not lists of the same length" if several else "is neither a list nor an object"
    rows.refuse(~alike, f"{' and '.join(fields)} {why}")
    return Rows(records, lines, rows.log, rows.textual)


def _with_item(record: dict[str, Any], path: str, item: Any) -> dict[str, Any]:
    """Return the record with an item at a path, or in a field with that exact name; unchanged parts are shared."""
    first, dot, rest = path.partition(".")
    if path in record or not dot or not isinstance(record.get(first), dict):
        return {**record, path: item}
    return {**record, first: _with_item(record[first], rest, item)}
