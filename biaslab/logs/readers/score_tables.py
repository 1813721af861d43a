"""Read tables of scores: an answer or a system, with scores by judges and people on one or more attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.attribute_columns import attribute_of, is_attribute
from biaslab.logs.readers.context_columns import context_of, no_context
from biaslab.logs.readers.grade_words import worth_of_two
from biaslab.logs.readers.listed_verdicts import refuse_listed_scores
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.score_columns import (
    flags_within_scores,
    graded_in_words,
    grades_of_words,
    is_judge,
    score_columns,
    score_texts,
    unclear_scores,
    verdict_numbers,
)
from biaslab.logs.readers.score_scales import add_scale, other_scale_of_people
from biaslab.logs.readers.score_texts import of_texts, says_scores
from biaslab.logs.readers.table_columns import (
    FEW,
    GIVEN_OUTCOMES,
    Table,
    TableReading,
    fields_of,
    is_called,
    judge_name,
    judged_by_people,
    people_or_judges,
    shared_entries,
)
from biaslab.logs.readers.winning_flags import refuse_flag

_TWO = 2  # words of grades such as pass and fail
_MOST = 101  # maximum number of different scores


class _Columns(NamedTuple):
    """Columns of scores by judges, by people, as two words (with the score of each), and in texts."""

    scores: list[str]
    people: list[str]
    grades: dict[str, dict[str, int]]
    texts: list[str]


def of_scores(table: Table) -> TableReading | Refusal | None:
    """Return how to read scores; candidates are systems if the table names them, and texts otherwise."""
    columns = _columns(table)
    if isinstance(columns, Refusal):
        return columns
    answer, systems = _text_and_system_columns(table, columns)
    if refusal := refuse_flag(table, [*columns.scores, *columns.grades], answer or systems):
        return refusal
    if not any(columns):
        return _no_score(table)
    if not (answer or systems or "candidate_id" in table.given):
        return _no_candidate(table) if columns.scores or columns.grades else None
    candidate = str(table.given["candidate_id"]) if "candidate_id" in table.given else (systems or answer)[0]
    entries: Entries = {"candidate_id": candidate}
    if (
        answer
        and (answer[0] != candidate or not systems)
        and any(isinstance(t, str) for t in table.rows.values(answer[0]))
    ):
        entries["text"] = answer[0]
    if (context := context_of(table)) is None or context == candidate:
        refusal = no_context(table, entries)
        own = ("if each of them is an item of its own", {"context_id": candidate, "candidate_id": "=answer"})
        return refusal if refusal.options or not answer else Refusal(refusal.reason, (own,))
    entries = {"context_id": context} | entries | shared_entries(table, "configuration")
    entries |= {} if "judge" in entries else _judge_beside(table, columns.scores)
    if about := named.first_named(table.names, named.ATTRIBUTE):
        entries["attribute"] = about[0]
    if refusal := _who_judged(table, entries, answer, systems) or judged_by_people(table, entries):
        return refusal
    mappings = _mappings(table, entries, columns)
    if isinstance(mappings, Refusal):
        return mappings
    table.note_unused(mappings)
    return TableReading(mappings, "; ".join([f"scores of {candidate} on each {context}", *table.notes]))


def _text_and_system_columns(table: Table, columns: _Columns) -> tuple[list[str], list[str]]:
    """Return the columns of the judged texts, and those of the systems that wrote them."""
    taken = {name for names in columns for name in names}
    answer = [
        name for name in named.first_named(table.names, named.ANSWER) if name not in taken and table.present(name)
    ]
    like = [name for name in table.names if name not in taken and not table.is_numeric(name) and table.present(name)]
    answer = answer or [name for name in like if named.like_answer(name)]
    judging = _agents(table, columns.scores)
    systems = [
        name
        for name in named.first_named(table.names, named.CANDIDATE)
        if table.distinct(name) >= 1 and name not in judging
    ]
    return answer, systems or [name for name in like if named.like_system(name)]


def _agents(table: Table, scores: Sequence[str]) -> list[str]:
    """Return the columns of who gave a score, in its object: ``rating.agent`` beside ``rating.value``."""
    heads = {name.rpartition(".")[0] for name in scores} - {""}
    return [f"{head}.agent" for head in sorted(heads) if f"{head}.agent" in table.names]


def _judge_beside(table: Table, scores: Sequence[str]) -> Entries:
    """Return the mapping of the judge that stands in the object of the only score."""
    agents = _agents(table, scores)
    if len(agents) != 1 or len(scores) != 1:
        return {}
    table.notes.append(f"judge = {agents[0]}")
    return {"judge": agents[0]}


def _no_candidate(table: Table) -> Refusal | None:
    """Ask which column has the answer or its author, or whether each item has one answer outside the table."""
    context = context_of(table)
    if context is None and not (refusal := no_context(table, {})).options:
        return None
    if context is None:
        return Refusal(refusal.reason, refusal.options, is_guess=True)
    texts = [name for name in table.names if name not in (context, *table.used) and not table.is_numeric(name)
             and table.distinct(name) > 1 and not is_called(name) and not _is_verdict(table, name)]  # fmt: skip
    options = [(f"if {name} was judged, or wrote it", {"candidate_id": name}) for name in texts[:3]]
    options += [("if each item has one answer, which is not in the table", {"candidate_id": "=answer"})]
    return Refusal("no column has a common name for what was judged (answer, model, …)", tuple(options), is_guess=True)


def _is_verdict(table: Table, name: str) -> bool:
    """Return whether a column holds a few verdicts, such as decisions, by its name."""
    return bool(set(named.tokens(name)) & named.VERDICT) and table.distinct(name) <= FEW


def _no_score(table: Table) -> Refusal | None:
    """Ask which column has the scores if none is named so; None if none may have them."""
    free = [name for name in table.names if name not in table.used and table.distinct(name) > 1 and not is_called(name)]
    values = {name: sorted(set(table.present(name)), reverse=True) for name in free if table.distinct(name) == _TWO}
    worth = {name: {"field": name, "values": {value: str(number) for value, number in grade.items()}}
             for name, two in values.items() if (grade := worth_of_two(two)) is not None}  # fmt: skip
    numbers = [name for name in free if table.is_numeric(name) and table.distinct(name) <= _MOST]
    options = [(f"if {name} is the judge's grade", {"score": worth[name], "scale": "=0-1"}) for name in list(worth)[:2]]
    options += [(f"if {name} is the judge's score", {"score": name}) for name in numbers[:3]]
    if not options and (said_in := [name for name in free if says_scores(table, name)]):
        return of_texts(table, {}, said_in)
    reason = "no column has a common name for a score or a verdict"
    return Refusal(reason, tuple(options), is_guess=True) if options else None


def _best_of_list(table: Table) -> Refusal | None:
    """Refuse a verdict that names the best of a list of three or more candidates."""
    seen = table.rows.records[:FEW]
    for name in seen[0] if seen else ():
        lists = [record.get(name) for record in seen]
        texts = all(isinstance(items, list) and all(isinstance(text, str) for text in items) for items in lists)
        if texts and min(len(items or ()) for items in lists) > 2 and named.is_text([str(name).lower()]):
            verdict = next((each for each in table.names if set(named.tokens(each)) & named.VERDICT), None)
            if verdict is not None and name not in table.used:
                reason = f"{verdict} names the best of a list, {name}, and only whole rankings of lists are read"
                return Refusal(f"{reason}: candidates and ranking, a list of names or places from the best on")
    return None


def _columns(table: Table) -> _Columns | Refusal:
    """Return the columns of scores; those that the user maps replace the others."""
    scores, people = score_columns(table)
    mapped_outcomes = GIVEN_OUTCOMES & set(table.given)
    if mapped_outcomes:
        mapped = fields_of({name: table.given[name] for name in mapped_outcomes})
        own = [name for name in mapped if name in table.names and table.is_numeric(name)]
        return _Columns(own or scores or [""], people, {}, [])
    if not scores and (refusal := _best_of_list(table)) is not None:
        return refusal
    if not scores:
        scores = verdict_numbers(table)
        if len(scores) > 1:
            return _judge_or_people(scores)
    grades = flags_within_scores(table) if scores else grades_of_words(table)
    if not (scores or grades) and (refusal := graded_in_words(table)) is not None:
        return refusal
    return _Columns(scores, people, grades, [] if scores or people or grades else score_texts(table))


def _mappings(table: Table, entries: Entries, columns: _Columns) -> tuple[Entries, ...] | Refusal:
    """Return a mapping for each column of scores, or a single one if there are only human scores."""
    scores, people, grades, texts = columns
    is_mapped = bool(GIVEN_OUTCOMES & set(table.given))
    if texts:
        return of_texts(table, entries, texts)
    if grades and scores:
        table.own_scales |= dict.fromkeys(grades, "=0-1")
        table.notes.append(f"true and false of {', '.join(grades)} are 1 and 0")
    elif grades:
        worth = {value: number for grade in grades.values() for value, number in grade.items()}
        table.notes.append(f"scale 0-1: {', '.join(f'{value} = {number}' for value, number in worth.items())}")
        entries["scale"] = "=0-1"
    numbers = [name for name in scores or ([] if grades else people) if name]
    if refusal := add_scale(table, entries, numbers, entries.get("attribute")):
        return refusal
    if refusal := _with_people(table, entries, scores, people):
        return refusal
    names = [""] if is_mapped or not (scores or grades) else [*scores, *grades]
    if refusal := refuse_listed_scores(names) or unclear_scores(table, names):
        return refusal
    return tuple(_score_mapping(table, entries, name, people, grades.get(name)) for name in names)


def _who_judged(table: Table, entries: Entries, answer: Sequence[str], systems: Sequence[str]) -> Refusal | None:
    """Ask whether a column of people names judges, and whether models judged texts or wrote them; None if clear."""
    if "judge" in entries or "judge" in table.given:
        return None
    if (refusal := people_or_judges(table)) is not None:
        return refusal
    if not (answer and systems) or "candidate_id" in table.given or table.distinct(systems[0]) < 2:
        return None
    if answer[0] == systems[0] or table.is_within(systems[0], answer[0]):
        return None
    reason = f"several values of {systems[0]} share the same {answer[0]}"
    options = (
        (f"if each {systems[0]} is a judge", {"judge": systems[0], "candidate_id": answer[0]}),
        (f"if each {systems[0]} wrote the same text", {"candidate_id": systems[0]}),
    )
    return Refusal(reason, options)


def _with_people(table: Table, entries: Entries, scores: Sequence[str], people: Sequence[str]) -> Refusal | None:
    """Add the human scores of a single judged attribute, or ask which they are; `_of_score` adds those of several."""
    if not people or {"ratings", "human"} & set(table.given):
        return None
    attributes, judged = (
        {attribute_of(table, name) for name in people},
        sorted({attribute_of(table, name) for name in scores}),
    )
    if len(judged) > 1 and not attributes <= set(judged):
        reason = f"it is not clear which of {', '.join(judged)} people rated in {', '.join(people)}"
        options = tuple(
            (f"{people[0]} is of {attribute_of(table, name)}", {"score": name, "ratings": people[0]}) for name in scores
        )
        return Refusal(reason, options)
    if len(attributes) > 1 and len(judged) < 2:
        reason = f"the human columns {', '.join(people)} are of several attributes"
        return Refusal(reason, (("with one of them", {"ratings": people[0]}),))
    if len(judged) < 2:
        entries["ratings"] = {"fields": list(people)}
    table.notes.append(f"humans = {', '.join(people)}")
    if not scores or "human_scale" in table.given:
        return None
    scale = str(table.given.get("scale", entries.get("scale", ""))).removeprefix("=")
    return other_scale_of_people(table, scale, people)


def _score_mapping(
    table: Table, entries: Entries, name: str, people: Sequence[str], grades: Mapping[str, int] | None
) -> Entries:
    """Return the mapping of one column of scores, with the judge or attribute in its name."""
    if not name:
        return entries
    score = name if grades is None else {"field": name, "values": {value: str(n) for value, n in grades.items()}}
    mapping = entries | {"score": score} | ({"scale": table.own_scales[name]} if name in table.own_scales else {})
    if is_judge(name):
        mapping["judge"] = f"={judge_name(name)}"
        table.notes.append(f"judge {judge_name(name)} = {name}")
    if is_attribute(table, name) and "attribute" not in entries:
        mapping["attribute"] = f"={attribute_of(table, name)}"
        table.notes.append(f"attribute {attribute_of(table, name)} = {name}")
        own = [human for human in people if attribute_of(table, human) == attribute_of(table, name)]
        if own and "ratings" not in entries:
            mapping["ratings"] = {"fields": own}
    return mapping


def _judge_or_people(names: Sequence[str]) -> Refusal:
    both = ((names[0], names[1]), (names[1], names[0]))
    options = tuple((f"{one} is the judge's, {two} people's", {"score": one, "ratings": two}) for one, two in both)
    return Refusal(f"{' and '.join(names)} are both numbers", options)
