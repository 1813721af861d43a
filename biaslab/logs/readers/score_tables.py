"""Tables of scores: an answer or a system, and scores of judges and people on one attribute or several."""

from __future__ import annotations

from collections.abc import Sequence

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.rows import NUMERAL
from biaslab.logs.readers.table_columns import (
    GIVEN_OUTCOMES,
    Table,
    TableReading,
    beside,
    context_of,
    judge_name,
    no_context,
)

_TOPS = (5, 10, 100, 7)  # of scales that start at 1, or at 0 where a 0 stands in the table


def of_scores(table: Table) -> TableReading | Refusal | None:
    """Return how scores are read: each of a system where it is named, and of a text otherwise."""
    scores, people = _score_columns(table)
    answer = named.first_named(table.names, named.ANSWER)
    systems = [name for name in named.first_named(table.names, named.CANDIDATE) if table.distinct(name) >= 1]
    if not (scores or people) or not (answer or systems):
        return None
    candidate = (systems or answer)[0]
    entries: Entries = {"candidate_id": candidate}
    if (answer and answer[0] != candidate) or not systems:
        entries["text"] = answer[0]
    if (context := context_of(table)) is None or context == candidate:
        return no_context(table, entries)
    entries = {"context_id": context} | entries | beside(table, "configuration")
    attribute = next(iter(named.first_named(table.names, named.ATTRIBUTE)), None)
    if attribute is not None:
        entries["attribute"] = attribute
    who = [name for name in named.first_named(table.names, named.PEOPLE) if table.distinct(name) > 1]
    if who and "judge" not in entries and "judge" not in table.given:
        options = ((f"each {who[0]} is a judge", {"judge": who[0]}),)
        return Refusal(f"{who[0]} may be people or judges", options)
    if refusal := add_scale(table, entries, scores or people) or _with_people(table, entries, scores, people):
        return refusal
    columns = [""] if GIVEN_OUTCOMES & set(table.given) or not scores else scores
    if unclear := [name for name in columns if name and _kind(name) is None and len(columns) > 1]:
        kinds = tuple((f"only {name}", {"score": name}) for name in columns[:3])
        return Refusal(f"{', '.join(unclear)} may be an attribute's or a judge's score", kinds)
    made = tuple(_of_score(table, entries, name, people) for name in columns)
    told = [f"scores of {candidate} on each {context}", *table.told]
    return TableReading(made, "; ".join(told))


def add_scale(table: Table, entries: Entries, columns: Sequence[str]) -> Refusal | None:
    """Add the scale of some columns of numbers to a mapping, or return why it cannot be told."""
    if "scale" in table.given:
        return None
    scale = _scale(table, columns)
    if isinstance(scale, Refusal):
        return scale
    entries["scale"] = scale
    return None


def _with_people(table: Table, entries: Entries, scores: Sequence[str], people: Sequence[str]) -> Refusal | None:
    """Add the scores of people to a mapping, where they are of one attribute; those of several are told by it."""
    if not people or {"ratings", "human"} & set(table.given):
        return None
    attributes = {_attribute(name) for name in people}
    if len(attributes) > 1 and attributes != {_attribute(name) for name in scores}:
        said = f"the human columns {', '.join(people)} are of several attributes"
        return Refusal(said, (("with one of them", {"ratings": people[0]}),))
    if len(attributes) == 1:
        entries["ratings"] = {"fields": list(people)}
    table.told.append(f"humans = {', '.join(people)}")
    return None


def _of_score(table: Table, entries: Entries, name: str, people: Sequence[str]) -> Entries:
    """Return the mapping of one column of scores, which is a judge's or an attribute's, or the only one."""
    if not name:
        return entries
    made = entries | {"score": name}
    kind = _kind(name)
    if kind == "judge":
        made["judge"] = f"={judge_name(name)}"
        table.told.append(f"judge {judge_name(name)} = {name}")
    elif kind == "attribute" and "attribute" not in entries:
        made["attribute"] = f"={_attribute(name)}"
        table.told.append(f"attribute {_attribute(name)} = {name}")
        own = [human for human in people if _attribute(human) == _attribute(name)]
        if own and "ratings" not in entries:
            made["ratings"] = {"fields": own}
    return made


def _score_columns(table: Table) -> tuple[list[str], list[str]]:
    """Return the columns of judges' scores, and those of people."""
    scores, people = [], []
    for name in table.names:
        words = set(named.tokens(name))
        counted = words & {"scale", "max", "min", "count", "length", "tokens", "words", "id", "norm", "normalized"}
        if counted or not table.is_numeric(name):
            continue
        is_score = bool(words & (named.SCORE | named.ATTRIBUTES))
        if words & named.HUMAN and not words & {"judge", "llm"}:
            people.append(name)
        elif is_score:
            scores.append(name)
    return scores, people


def _kind(name: str) -> str | None:
    words = set(named.tokens(name))
    if named.is_model(name):
        return "judge"
    if words & named.ATTRIBUTES:
        return "attribute"
    return "only" if words <= named.SCORE | {"judge", "llm", "the", "final"} else None


def _attribute(name: str) -> str:
    words = [word for word in named.tokens(name) if word in named.ATTRIBUTES]
    return " ".join(words) or "overall"


def _scale(table: Table, scores: Sequence[str]) -> str | Refusal:
    """Return the usual scale that ends at the largest score of the table; None if there is none."""
    values = [float(value) for name in scores for value in table.present(name) if NUMERAL.fullmatch(value)]
    low, high = min(values), max(values)
    if low >= 0 and (high in _TOPS or (low < high <= 1)):
        scale = f"{0 if low < 1 else 1}-{max(high, 1):.0f}"
        table.told.append(
            f"scale {scale}, as the scores run from {low:g} to {high:g}: say --map scale==LOW-HIGH otherwise"
        )
        return f"={scale}"
    tops = [top for top in sorted(_TOPS) if top >= high][:2] or [100]
    options = tuple((f"if it ends at {top}", {"scale": f"={0 if low <= 0 else 1}-{top}"}) for top in tops)
    return Refusal(f"the scores run from {low:g} to {high:g}, which no usual scale does", options)
