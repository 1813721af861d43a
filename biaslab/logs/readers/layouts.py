"""Turn tables of other layouts into one row per judgement: nested objects, lists of scores, columns per system.

Annotations in one JSON object, annotator → item → label, as in the files of the Alt-Test (arXiv 2501.10970).

They become rows ``annotator, item, label``. Numeric labels are scores of the item; annotators with the name of a
language model are judges. Other labels need a mapping, which the refusal suggests: as verdicts on two candidates named
in the item, as yes and no, or as categories. In a joined file, each item is a row with one field per annotator, so that
human labels can be ``ratings`` or ``preference``.

Extract the table in a file that is one JSON object: by column, by row, or as a list within it.

Examples are ``DataFrame.to_json()`` in any orientation, ``Dataset.to_dict()``, records keyed by their identifier, and
results with shared metadata, ``{"judge": …, "results": [{…}, …]}``.

Split records with several scores into rows: lists of named scores, as tools export them, or parallel lists.

A named score is an object such as ``{"name": "relevance", "score": 0.5, "reason": "…"}``. Each becomes a row, with the
record's other fields. Human scores become the ``human_score`` of the model's score with the same name; scores by code
are left out. Parallel lists, such as ``answers`` and ``ratings`` of the same length, become one row per position.

Split tables in which each system has its own columns of texts and scores into one row per system.

An example is ``question, gpt-4o_answer, gpt-4o_score, llama_answer, llama_score``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.common_names import side_of
from biaslab.logs.readers.detection import detect
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.readings import BY_CODE, number_of
from biaslab.logs.readers.refusals import Entries, Refusal
from biaslab.logs.readers.rows import NUMERAL, Rows, at
from biaslab.logs.readers.table_columns import (
    FEW,
    GIVEN_OUTCOMES,
    LogTable,
    TableReading,
    add_scale,
)

ANNOTATOR, ITEM, LABEL = "annotator", "item", "label"
_UNIT = "annotation"
_LEAST = 10  # minimum number of items; smaller objects are something else
_SHOWN = 4  # annotators shown in messages
_SEPARATORS = ("__", "||", "::", "|", "/")
_PARTS = 3  # minimum parts of an item's name with two candidates: the question and both candidates
_WORDS = {"yes": 1, "no": 0, "true": 1, "false": 0, "pass": 1, "fail": 0, "correct": 1, "incorrect": 0}


def is_nested(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a file is one object, annotator → item → label, with shared items or only language models.

    Examples
    --------
    >>> items = {f"item {n}": 1 + n % 5 for n in range(12)}
    >>> is_nested([{"ann": items, "bob": items}]), is_nested([items]), is_nested([{"ann": items}])
    (True, False, False)
    """
    if len(records) != 1 or not records[0]:
        return False
    values = list(records[0].values())
    if not all(isinstance(labels, dict) and all(map(_is_label, labels.values())) for labels in values):
        return False
    items = {item for labels in values for item in labels}
    shared = sum(map(len, values)) > len(items) or all(named.is_model(str(name)) for name in records[0])
    return len(items) >= _LEAST and shared


def unnested(chunks: Iterable[Rows], mapping: Mapping[str, Any]) -> Iterator[Rows]:
    """Yield the records of a file, unnesting those of unknown format.

    An object that contains a table, or annotations, becomes one record per row. Records with several scores or systems
    are split, and records with one candidate of a comparison each are merged into pairs.
    """
    for rows in chunks:
        if detect(rows.records, mapped=False) is not None:
            yield rows
            continue
        records = records_within(rows.records[0]) if len(rows.records) == 1 else None
        if records is not None:
            rows.log.unit = "row"
            rows = Rows(records, range(1, len(records) + 1), rows.log, textual=False)
        elif is_nested(rows.records):
            yield _by_annotation(rows)
            continue
        known = detect(rows.records, mapped=False) is not None
        forms = () if known else (rows_of_scores, rows_of_pairs, rows_of_systems)
        yield next(filter(None, (form(rows, mapping) for form in forms)), rows)


def _by_annotation(rows: Rows) -> Rows:
    """Return a row per annotation: annotator, item and label."""
    records = [
        {ANNOTATOR: annotator, ITEM: item, LABEL: label}
        for annotator, labels in rows.records[0].items()
        for item, label in labels.items()
    ]
    rows.log.unit = _UNIT
    return Rows(records, range(1, len(records) + 1), rows.log, textual=False)


def by_item(rows: Rows) -> Rows:
    """Return a row per item, with one field per annotator."""
    items: dict[str, dict[str, Any]] = {}
    for annotator, labels in rows.records[0].items():
        for item, label in labels.items():
            items.setdefault(item, {ITEM: item})[annotator] = label
    return Rows(list(items.values()), range(1, len(items) + 1), rows.log, textual=False)


def read_annotations(rows: Rows, mapping: Mapping[str, Any]) -> TableReading | Refusal | None:
    """Return how to read annotations, or a refusal; None if the rows are not annotations.

    Parameters
    ----------
    rows : Rows
        The first rows from `unnested`.
    mapping : mapping
        The user's mapping.
    """
    if rows.log.unit != _UNIT:
        return None
    table = LogTable(rows, mapping)
    who = list(dict.fromkeys(table.present(ANNOTATOR)))
    listed = ", ".join(who[:_SHOWN]) + (", …" if len(who) > _SHOWN else "")
    entries: Entries = {"judge": ANNOTATOR, "context_id": ITEM, "candidate_id": "=annotated"}
    if not table.is_numeric(LABEL) and not GIVEN_OUTCOMES & set(mapping):
        return _refuse_names(table, entries)
    if "judge" not in mapping and not any(map(named.is_model, who)):
        judges = (("each is a judge, or with --humans a person", {"judge": ANNOTATOR}),)
        return Refusal(f"the annotators {listed} may be people or judges", judges)
    if (refusal := add_scale(table, entries, [LABEL])) is not None:
        return refusal
    notes = [f"labels of each {ITEM}; judges = {listed}", *table.notes]
    return TableReading((entries | {"score": LABEL},), "; ".join(notes))


def _refuse_names(table: LogTable, entries: Entries) -> Refusal:
    """Refuse labels that are not numbers, suggesting mappings that read them."""
    counts = Counter(table.present(LABEL))
    labels = [label for label, _ in counts.most_common() if "," not in label and "->" not in label]
    reason = f"the labels are not numbers ({', '.join(labels[:_SHOWN])}{', …' if len(counts) > _SHOWN else ''})"
    if not 1 < len(labels) <= FEW:
        return Refusal(f"{reason}; there are {len(counts)} different ones")
    sides = {label: side for label in labels if (side := side_of(label)) is not None}
    parts = _of_pairs(list(dict.fromkeys(table.present(ITEM)))) if len(sides) == len(labels) else None
    if parts is not None:
        verdict = {"winner": {"field": LABEL, "values": sides}}
        return Refusal(reason, (("if they name positions as shown", {"judge": ANNOTATOR, **parts, **verdict}),))
    known = {label: str(_WORDS[label.lower()]) for label in labels if label.lower() in _WORDS}
    if len(set(known.values())) == len(known) == 2:
        score = {"score": {"field": LABEL, "values": known}, "scale": "=0-1"}
        return Refusal(reason, (("as scores of 0 and 1", entries | score),))
    numbers = {label: str(number) for number, label in enumerate(labels, start=1)}
    score = {"score": {"field": LABEL, "values": numbers}, "scale": f"=1-{len(labels)}"}
    return Refusal(reason, (("as categories, for which only nominal measures are meaningful", entries | score),))


def _of_pairs(items: Sequence[str]) -> Entries | None:
    """Return patterns for the parts of items such as ``"82__one__other__1"``; None if these name no two candidates."""
    for separator in _SEPARATORS:
        columns = list(zip(*(item.split(separator) for item in items), strict=False))
        if len(columns) < _PARTS or any(item.count(separator) != len(columns) - 1 for item in items):
            continue
        for one, two in pairwise(range(len(columns))):
            rest = [place for place in range(len(columns)) if place not in (one, two) and len(set(columns[place])) > 1]
            if rest and _are_sides(columns[one], columns[two]):
                places = {"context_id": rest[0], "candidate_id": one, "opponent_id": two}
                places |= {"configuration": rest[1]} if len(rest) > 1 else {}
                return {name: _pattern(place, len(columns), separator) for name, place in places.items()}
    return None


def _are_sides(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two parts name candidates: never equal, not numeric, and with shared names or names of models."""
    names = {*first, *second}
    known = bool({*first} & {*second}) or any(map(named.is_model, names))
    numbers = any(NUMERAL.fullmatch(name) for name in names)
    return known and not numbers and all(one != two for one, two in zip(first, second, strict=True))


def _pattern(place: int, count: int, separator: str) -> str:
    """Return the pattern that extracts a part of an item."""
    between = re.escape(separator) if separator in ("||", "|") else separator
    before = f"(?:.+?{between}){{{place}}}" if place else ""
    return f"{ITEM}~^{before}(.+?){between}" if place < count - 1 else f"{ITEM}~^{before}(.+)"


def _is_label(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


_DEEPEST_TABLE = 2  # maximum depth of nested objects
_FEWEST_ROWS = 2  # minimum rows or columns of a table
_NUMBERED = 3  # minimum number of records with numbers as keys, if no field has a common name
_KEY = "key"  # the field for the identifiers of records that are keyed by them


def records_within(record: Mapping[str, Any], depth: int = 1) -> list[dict[str, Any]] | None:
    """Return the records in an object; None if it is a record itself.

    Examples
    --------
    >>> records_within({"question": {"0": "Why?", "1": "Who?"}, "score": {"0": 4, "1": 5}})
    [{'question': 'Why?', 'score': 4}, {'question': 'Who?', 'score': 5}]
    >>> records_within({"judge": "j", "results": [{"question": "Why?", "score": 4}]})
    [{'judge': 'j', 'question': 'Why?', 'score': 4}]
    >>> records_within({"question": "Why?", "score": 4}) is None
    True
    """
    for reading in (_split, _by_column, _by_list, _by_key):
        if (rows := reading(record)) is not None:
            return rows
    lists = [name for name, value in record.items() if _are_records(value)]
    if len(lists) == 1:
        about = {name: value for name, value in record.items() if name != lists[0] and not isinstance(value, list)}
        return [{**about, **row} for row in record[lists[0]]]
    inner = [value for value in record.values() if isinstance(value, dict) and value]
    if lists or len(inner) != 1 or depth > _DEEPEST_TABLE:
        return None
    if detect(inner, mapped=False) is not None:
        return [dict(inner[0])]
    return records_within(inner[0], depth + 1)


def _split(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object with column names and a list of rows, or None."""
    columns = record.get("columns")
    rows = next((record[name] for name in ("data", "rows", "values") if isinstance(record.get(name), list)), None)
    if not isinstance(columns, list) or not rows or not all(isinstance(row, list) for row in rows):
        return None
    names = [str(column.get("name")) if isinstance(column, dict) else str(column) for column in columns]
    if len(set(names)) < len(names) or any(len(row) != len(names) for row in rows):
        return None
    return [dict(zip(names, row, strict=True)) for row in rows]


def _by_column(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object whose columns are objects, keyed by the same row numbers, or None."""
    columns = list(record.values())
    if len(columns) < _FEWEST_ROWS or not all(isinstance(column, dict) and column for column in columns):
        return None
    keys = list(columns[0])
    if not all(str(key).isdigit() for key in keys) or any(set(column) != set(keys) for column in columns[1:]):
        return None
    if not _is_usual([str(name) for name in record]):
        return None
    return [{str(name): column[key] for name, column in record.items()} for key in keys]


def _by_list(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object whose columns are lists of the same length, or None."""
    columns = {str(name): value for name, value in record.items() if isinstance(value, list)}
    lengths = {len(column) for column in columns.values()}
    if len(columns) < _FEWEST_ROWS or len(columns) < len(record) or len(lengths) != 1 or lengths == {0}:
        return None
    if lengths == {1} or not _is_usual(list(columns)):
        return None
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _by_key(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the records of an object that is keyed by their identifiers, or None."""
    rows = list(record.values())
    if len(rows) < _FEWEST_ROWS or not all(isinstance(row, dict) and row for row in rows):
        return None
    shared = sorted(map(str, set(rows[0]).intersection(*rows[1:])))
    numbered = all(str(key).isdigit() for key in record) and len(shared) > 1 and len(rows) >= _NUMBERED
    if not numbered and not named.first_named(shared, named.CONTEXT) and detect(rows, mapped=False) is None:
        return None
    return [{_KEY: str(key), **row} for key, row in record.items()]


def _are_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _is_usual(names: Sequence[str]) -> bool:
    """Return whether names include common ones of columns of judgements."""
    usual = (*named.CONTEXT, *named.ANSWER, *named.CANDIDATE)
    return len(names) >= _FEWEST_ROWS and bool(named.first_named(names, usual) or named.find_pairs(names))


_NAMES = ("assessment_name", "metric_name", "annotation_name", "name", "key", "metric", "criterion", "criteria",
          "attribute", "aspect", "dimension", "path", "evaluator_name", "evaluator", "label_name")  # fmt: skip
_VALUES = ("score", "value", "result", "rating", "judgment", "judgement", "grade", "feedback", "score_raw")
_KINDS = ("annotator_kind", "source_type", "evaluator_type", "source", "kind", "type")
_BY_PEOPLE = frozenset(["human", "annotation", "annotator", "ui", "app", "person", "user", "expert", "manual"])
_BY_PROGRAM = frozenset(["code", "heuristic", "python", "builtin", "rule", "regex", "function"])
_MODELS = ("evaluation_model", "judge_model", "evaluator_model", "judge", "source_id", "model_identifier", "model",
           "agent", "model_name")  # fmt: skip
_REASONS = ("reason", "explanation", "rationale", "comment", "justification")
_PERSONS = "a person's score (used as the human score of the same item)"
_DEEPEST_SCORE = 4  # maximum depth of nested objects
_LONGEST = 30  # maximum characters of a score in words
_SEEN = 50  # records examined
_FEWEST_PARALLEL = 3  # minimum length of parallel lists; two items are a pair


class _Score(NamedTuple):
    """A named score: who gave it (``kind``: person, code or model), the model, and the reason."""

    name: str
    value: Any
    kind: str
    judge: str | None
    reason: str | None


def rows_of_scores(rows: Rows, mapping: Mapping[str, Any]) -> Rows | None:
    """Return one row per score of records with several; None for other records, or if the mapping names the lists.

    Parameters
    ----------
    rows : Rows
        Records of unknown format.
    mapping : mapping
        The user's mapping.
    """
    if rows.textual:
        return None
    seen = rows.records[:_SEEN]
    named_fields = " ".join(map(str, mapping.values()))
    path = next(filter(None, map(_path, seen)), "")
    if path and f"{path}." not in named_fields and _are_mostly(bool(_scores(at(r, path))) for r in seen):
        return _spread(
            rows, ((place, row) for place, r in enumerate(rows.records) for row in _rows_of_list(rows, r, path))
        )
    lists = _parallel_lists(seen)
    if lists and not any(name in named_fields for name in lists):
        return _spread(
            rows, ((place, row) for place, r in enumerate(rows.records) for row in _rows_of_positions(r, lists))
        )
    return None


def _spread(rows: Rows, new_rows: Iterator[tuple[int, dict[str, Any]]]) -> Rows:
    """Return the new rows, each with the line of the record at its position."""
    numbered = list(new_rows)
    return Rows([row for _, row in numbered], [rows.lines[place] for place, _ in numbered], rows.log, textual=False)


def _are_mostly(values: Iterator[bool]) -> bool:
    flags = list(values)
    return 2 * sum(flags) > len(flags)


def _path(value: Any, path: str = "", depth: int = 0) -> str:
    """Return the path to the first list of named scores in a record, searching shallow levels first; empty if none."""
    if depth > _DEEPEST_SCORE or not isinstance(value, dict):
        return ""
    inner = {str(name): item for name, item in value.items() if "." not in str(name)}
    for name, item in inner.items():
        if _scores(item):
            return f"{path}{name}"
    return next(filter(None, (_path(item, f"{path}{name}.", depth + 1) for name, item in inner.items())), "")


def _scores(value: Any) -> list[_Score]:
    """Return the scores in a list if all of its items are named scores; otherwise an empty list."""
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return []
    scores = [_score(item) for item in value]
    known = [score for score in scores if score is not None]
    return known if len(known) == len(scores) else []


def _score(item: Mapping[str, Any]) -> _Score | None:
    by_words = {"_".join(named.tokens(str(key))): value for key, value in item.items()}
    name = next((by_words[key] for key in _NAMES if isinstance(by_words.get(key), str) and by_words[key]), None)
    values = [by_words[key] for key in _VALUES if by_words.get(key) is not None]
    values = [_inner(value) if isinstance(value, dict) else value for value in values]
    value = next((value for value in values if _is_score(value)), None)
    if name is None or (value is None and not set(_VALUES) & set(by_words)):
        return None
    return _Score(name, value, _kind(by_words), _judge(item), _reason(by_words))


def _inner(value: Mapping[str, Any]) -> Any:
    return next((value[key] for key in _VALUES if value.get(key) is not None), None)


def _is_score(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and 0 < len(value) <= _LONGEST)


def _kind(item: Mapping[str, Any]) -> str:
    for key in _KINDS:
        kind = item.get(key)
        kind = next((v for k, v in kind.items() if "type" in k), None) if isinstance(kind, dict) else kind
        words = set(named.tokens(kind)) if isinstance(kind, str) else set()
        if words & _BY_PEOPLE or words & _BY_PROGRAM:
            return "person" if words & _BY_PEOPLE else "code"
        if isinstance(item.get("evaluator"), dict):
            return _kind(item["evaluator"].get("spec") or {})
    return "model"


def _judge(value: Any, depth: int = 0) -> str | None:
    """Return the model that gave a score; None if its object does not name one."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict) or depth > 2:
        return None
    by_words = {"_".join(named.tokens(str(key))): inner for key, inner in value.items()}
    own = next((by_words[key] for key in _MODELS if isinstance(by_words.get(key), str) and by_words[key]), None)
    inner = (_judge(each, depth + 1) for each in value.values() if isinstance(each, dict | list))
    return own or next(filter(None, inner), None)


def _reason(item: Mapping[str, Any]) -> str | None:
    return next((item[key] for key in _REASONS if isinstance(item.get(key), str)), None)


def _rows_of_list(rows: Rows, record: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    """Yield one row per score of a record that a model gave, counting the others as left out."""
    scores = _scores(at(record, path))
    about = {name: value for name, value in _without(record, path.split(".")).items() if name not in _VALUES}
    people: dict[str, list[float]] = {}
    for score in scores:
        if score.kind == "person" and (number := number_of(score.value)) == number:
            people.setdefault(score.name, []).append(number)
    for score in scores:
        if score.kind != "model":
            rows.log.left_out[_PERSONS if score.kind == "person" else BY_CODE] += 1
            continue
        row = {**about, "attribute": score.name, "score": score.value, "explanation": score.reason}
        if score.judge is not None:
            row["judge"] = score.judge
        if rated := people.get(score.name):
            row["human_score"] = sum(rated) / len(rated)
        yield row


def _without(record: Mapping[str, Any], steps: Sequence[str]) -> dict[str, Any]:
    """Return a record without the value at a path."""
    kept = {str(name): value for name, value in record.items()}
    inner = kept.pop(steps[0], None)
    if len(steps) > 1 and isinstance(inner, dict) and (rest := _without(inner, steps[1:])):
        kept[steps[0]] = rest
    return kept


def _parallel_lists(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields with parallel lists, if these include numeric scores, and texts or systems; else none."""
    names = [
        name for name, value in (records[0] if records else {}).items()
        if isinstance(value, list) and all(isinstance(r.get(name), list) for r in records)
    ]  # fmt: skip
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(len(record[name]) for record in records), []).append(name)
    for lengths, lists in groups.items():
        numbers = [name for name in lists if all(map(_is_number, records[0][name]))]
        scores = [name for name in numbers if {*_singular(name)} & (named.SCORE | named.ATTRIBUTES)]
        judged = [name for name in lists if name not in numbers and (
            named.is_text(_singular(name)) or {*_singular(name)} & named.SYSTEM)]  # fmt: skip
        if scores and judged and max(lengths) >= _FEWEST_PARALLEL:
            return lists
    return []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _singular(name: str) -> list[str]:
    return [word.removesuffix("s") for word in named.tokens(name)]


def _rows_of_positions(record: Mapping[str, Any], lists: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield one row per position in the parallel lists of a record."""
    about = {str(name): value for name, value in record.items() if name not in lists}
    for values in zip(*(record[name] for name in lists), strict=False):
        yield about | {name.removesuffix("s"): value for name, value in zip(lists, values, strict=True)}


_WON = frozenset(["winner", "won", "win", "wins", "chosen", "selected", "preferred", "best", "picked", "better"])
_COMPARISON = frozenset(["comparison", "pair", "battle", "match", "game", "round"])
_PLACES = frozenset(["position", "place", "slot", "side", "shown", "order", "index", "rank"])
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_MOST = 0.95  # minimum share of groups that are pairs with at most one winner
_FEWEST_PAIRS = 3  # minimum number of pairs
_ALONE = "a candidate without the other of its comparison"


def rows_of_pairs(rows: Rows, mapping: Mapping[str, Any]) -> Rows | None:
    """Return a row per comparison if each record is one of its candidates; None if not, or if there is a mapping.

    Fields that differ between the two become ``NAME_1`` and ``NAME_2``, in the order of a position field or else of
    the file; in the latter case the order shown is unknown. ``winner`` is "1", "2" or "tie".
    """
    names = list(rows.records[0]) if rows.records else []
    flag = next((name for name in names if _is_flag(rows.records, str(name))), None)
    if mapping or flag is None or named.find_pairs(list(map(str, names))):
        return None
    for item in _comparison_fields(names):
        groups: dict[Any, list[int]] = {}
        for index, record in enumerate(rows.records):
            groups.setdefault(written(record.get(item)), []).append(index)
        pairs = [group for group in groups.values() if _is_pair(rows.records, group, flag)]
        if len(pairs) >= max(_FEWEST_PAIRS, _MOST * len(groups)):
            place = _place(rows.records, names, pairs)
            records = [_pair(rows.records, group, flag, place) for group in pairs]
            if len(rows.records) > 2 * len(pairs):
                rows.log.left_out[_ALONE] += len(rows.records) - 2 * len(pairs)
            return Rows(records, [rows.lines[one] for one, _ in pairs], rows.log, textual=False)
    return None


def _is_flag(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    words = set(named.tokens(name))
    if not words & _WON or words & named.HUMAN:
        return False
    values = {(written(record.get(name)) or "").strip().lower() for record in records}
    return len({_FLAGS[word] for word in values if word in _FLAGS}) > 1 and values <= {*_FLAGS, ""}


def _comparison_fields(names: Sequence[str]) -> list[str]:
    """Return the fields that may identify a comparison: those named so, then common names of items."""
    own = [name for name in names if set(named.tokens(str(name))) & _COMPARISON]
    return [*own, *named.first_named([str(name) for name in names], named.CONTEXT)]


def _won(record: Mapping[str, Any], flag: str) -> bool:
    return _FLAGS.get((written(record.get(flag)) or "").strip().lower(), False)


def _is_pair(records: Sequence[Mapping[str, Any]], group: Sequence[int], flag: str) -> bool:
    return len(group) == 2 and sum(_won(records[at], flag) for at in group) <= 1


def _place(records: Sequence[Mapping[str, Any]], names: Sequence[str], pairs: Sequence[Sequence[int]]) -> str | None:
    """Return the field that gives the position of each candidate, with the same two values in every pair, or None."""
    for name in names:
        if set(named.tokens(str(name))) & _PLACES:
            values = {frozenset(written(records[at].get(name)) for at in pair) for pair in pairs}
            if len(values) == 1 and len(next(iter(values))) == 2 and None not in next(iter(values)):
                return name
    return None


def _pair(records: Sequence[Mapping[str, Any]], group: Sequence[int], flag: str, place: str | None) -> dict[str, Any]:
    one, two = (records[at] for at in group)
    if place is not None:
        one, two = sorted((one, two), key=lambda record: str(written(record.get(place))))
    merged: dict[str, Any] = {} if place is not None else {"order_known": False}
    for name in one:
        if name in (flag, place):
            continue
        if one[name] == two.get(name):
            merged[name] = one[name]
        else:
            merged |= {f"{name}_1": one[name], f"{name}_2": two.get(name)}
    return merged | {"winner": "1" if _won(one, flag) else "2" if _won(two, flag) else "tie"}


_FEWEST_SYSTEMS = 2  # minimum number of systems
_SIDES = {word for sides in named.SIDES for word in sides if not word.isdigit()} | {"c", "d"}


def rows_of_systems(rows: Rows, mapping: Mapping[str, Any]) -> Rows | None:
    """Return one row per system, named by ``model``; None if records do not have several, or if there is a mapping."""
    names = [str(name) for name in (rows.records[0] if rows.records else {})]
    if mapping or any(set(named.tokens(name)) & named.VERDICT for name in names):
        return None
    systems: dict[str, dict[str, str]] = {}  # system → noun → column
    for name in names:
        system, noun = _parts(name)
        if system and noun:
            systems.setdefault(system, {})[noun] = name
    nouns = set.intersection(*map(set, systems.values())) if len(systems) >= _FEWEST_SYSTEMS else set()
    first = next(iter(systems.values()), {})
    texts = [noun for noun in nouns if named.is_text([noun]) and not _are_numbers(rows, first[noun])]
    scores = [noun for noun in nouns if {noun} & (named.SCORE | named.ATTRIBUTES) and _are_numbers(rows, first[noun])]
    if not texts or not scores:
        return None
    own = {column for columns in systems.values() for column in columns.values()}
    records = [
        (at, {name: value for name, value in record.items() if name not in own}
         | {"model": system, **{noun: record.get(columns[noun]) for noun in nouns}})
        for at, record in enumerate(rows.records) for system, columns in systems.items()
    ]  # fmt: skip
    return Rows([row for _, row in records], [rows.lines[at] for at, _ in records], rows.log, rows.textual)


def _parts(name: str) -> tuple[str, str]:
    """Split a column's name into system and noun, such as "gpt-4o" and "score"; two empty texts for other names."""
    words = named.tokens(name)
    nouns = named.SCORE | named.ATTRIBUTES | named.TEXT
    if len(words) < 2 or words[-1] not in nouns or set(words[:-1]) & (_SIDES | named.HUMAN | nouns | {"judge", "llm"}):
        return "", ""
    if {word for word in words[:-1] if not word.isdigit()} <= named.SYSTEM:  # a numbered candidate, such as model_1
        return "", ""
    head = name[: name.lower().rindex(words[-1])].strip(" _-./")
    return head, words[-1]


def _are_numbers(rows: Rows, name: str) -> bool:
    values = [text for record in rows.records[:_SEEN] if (text := written(record.get(name)))]
    return bool(values) and all(NUMERAL.fullmatch(value) for value in values)
