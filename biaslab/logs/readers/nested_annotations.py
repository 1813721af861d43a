"""Annotations in one JSON object, annotator → item → label, as in the files of the Alt-Test (arXiv 2501.10970).

They become rows ``annotator, item, label``. Numeric labels are scores of the item; annotators with the name of a
language model are judges. Other labels need a mapping, which the refusal suggests: as verdicts on two candidates named
in the item, as yes and no, or as categories. In a joined file, each item is a row with one field per annotator, so that
human labels can be ``ratings`` or ``preference``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.detection import detect
from biaslab.logs.readers.field_values import NUMERAL
from biaslab.logs.readers.paired_rows import rows_of_pairs
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.rows import Rows
from biaslab.logs.readers.score_lists import rows_of_scores
from biaslab.logs.readers.score_scales import add_scale
from biaslab.logs.readers.table_columns import FEW, GIVEN_OUTCOMES, Table, TableReading
from biaslab.logs.readers.verdict_words import side_of
from biaslab.logs.readers.whole_objects import records_within
from biaslab.logs.readers.wide_systems import rows_of_systems

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
    table = Table(rows, mapping)
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


def _refuse_names(table: Table, entries: Entries) -> Refusal:
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
