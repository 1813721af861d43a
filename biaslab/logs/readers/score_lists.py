"""Split records with several scores into rows: lists of named scores, as tools export them, or parallel lists.

A named score is an object such as ``{"name": "relevance", "score": 0.5, "reason": "…"}``. Each becomes a row, with the
record's other fields. Human scores become the ``human_score`` of the model's score with the same name; scores by code
are left out. Parallel lists, such as ``answers`` and ``ratings`` of the same length, become one row per position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.field_values import at
from biaslab.logs.readers.judged_scores import BY_CODE, number_of
from biaslab.logs.readers.rows import Rows

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
_DEEPEST = 4  # maximum depth of nested objects
_LONGEST = 30  # maximum characters of a score in words
_SEEN = 50  # records examined
_FEWEST = 3  # minimum length of parallel lists; two items are a pair


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
    if depth > _DEEPEST or not isinstance(value, dict):
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
        if scores and judged and max(lengths) >= _FEWEST:
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
