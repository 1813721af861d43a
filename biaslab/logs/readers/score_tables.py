"""Read tables of scores: an answer or a system, with scores by judges and people on one or more attributes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.common_names import (
    is_graded,
    ranks,
    side_of,
    worth_between,
    worth_of_two,
)
from biaslab.logs.readers.refusals import Entries, Refusal
from biaslab.logs.readers.rows import NUMERAL
from biaslab.logs.readers.table_columns import (
    COUNTS,
    FEW,
    GIVEN_OUTCOMES,
    KNOWN,
    PLAIN,
    LogTable,
    TableReading,
    add_scale,
    attribute_of,
    context_of,
    fields_of,
    is_attribute,
    is_called,
    is_explained,
    judge_name,
    judged_by_people,
    no_context,
    other_scale_of_people,
    people_or_judges,
    shared_entries,
    within_scores,
)
from biaslab.logs.readers.verdict_columns import refuse_flag, refuse_listed_scores

_TWO = 2  # words of grades such as pass and fail
_MOST = 101  # maximum number of different scores


class _Columns(NamedTuple):
    """Columns of scores by judges, by people, as two words (with the score of each), and in texts."""

    scores: list[str]
    people: list[str]
    grades: dict[str, dict[str, int]]
    texts: list[str]


def of_scores(table: LogTable) -> TableReading | Refusal | None:
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


def _text_and_system_columns(table: LogTable, columns: _Columns) -> tuple[list[str], list[str]]:
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


def _agents(table: LogTable, scores: Sequence[str]) -> list[str]:
    """Return the columns of who gave a score, in its object: ``rating.agent`` next to ``rating.value``."""
    heads = {name.rpartition(".")[0] for name in scores} - {""}
    return [f"{head}.agent" for head in sorted(heads) if f"{head}.agent" in table.names]


def _judge_beside(table: LogTable, scores: Sequence[str]) -> Entries:
    """Return the mapping of the judge in the object of the only score."""
    agents = _agents(table, scores)
    if len(agents) != 1 or len(scores) != 1:
        return {}
    table.notes.append(f"judge = {agents[0]}")
    return {"judge": agents[0]}


def _no_candidate(table: LogTable) -> Refusal | None:
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


def _is_verdict(table: LogTable, name: str) -> bool:
    """Return whether a column holds a few verdicts, such as decisions, by its name."""
    return bool(set(named.tokens(name)) & named.VERDICT) and table.distinct(name) <= FEW


def _no_score(table: LogTable) -> Refusal | None:
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


def _best_of_list(table: LogTable) -> Refusal | None:
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


def _columns(table: LogTable) -> _Columns | Refusal:
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


def _mappings(table: LogTable, entries: Entries, columns: _Columns) -> tuple[Entries, ...] | Refusal:
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


def _who_judged(table: LogTable, entries: Entries, answer: Sequence[str], systems: Sequence[str]) -> Refusal | None:
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


def _with_people(table: LogTable, entries: Entries, scores: Sequence[str], people: Sequence[str]) -> Refusal | None:
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
    table: LogTable, entries: Entries, name: str, people: Sequence[str], grades: Mapping[str, int] | None
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


_OF_JUDGES = {"judge", "evaluation", "evaluator", "grader", "review", "critique", "raw", "reply"}
_NUMBERED = re.compile(
    r"(?:^|[\s_.-])(?:llm[\s_-]?)?(?:judge|evaluator|grader)[\s_-]?(?:\d+|[a-d])(?![a-z\d])", re.IGNORECASE
)
_BETWEEN = 0.5  # the worth of a grade between two
_VERDICTS = 3  # maximum number of different verdicts
_MOST_GRADES, _LONGEST = 14, 40  # maximum number of different grades in words, and characters of one


def score_columns(table: LogTable) -> tuple[list[str], list[str]]:
    """Return the columns of scores by judges, and those of scores by people."""
    scores, people, judges = [], [], []
    for name in table.names:
        words = set(named.tokens(name))
        if name in table.used or words & COUNTS or name.endswith("#") or not table.is_numeric(name):
            continue
        by_person = named.also_names_a_person(table.names, name)
        if by_person or (words & named.HUMAN and not words & {"judge", "llm"}):
            people.append(name)
        elif (
            words & (named.SCORE | named.ATTRIBUTES)
            or (named.is_model(name) and table.distinct(name) <= 100)
            or (table.distinct(name) > 1 and (within_scores(name) or is_explained(table, name)))
        ):
            scores.append(name)
        elif words & {"judge", "evaluator", "grader", "llm", "ai"}:
            judges.append(name)
    return _without_copies(table, scores or [name for name in judges if table.distinct(name) > 1]), people


def is_judge(name: str) -> bool:
    """Return whether a column of scores is named after a judge: a model, or a numbered one such as ``judge_2``."""
    return named.is_model(name) or _NUMBERED.search(name) is not None


def _without_copies(table: LogTable, names: Sequence[str]) -> list[str]:
    """Drop and note fields of an object that repeat another field of it under a longer name."""
    kept: list[str] = []
    for name in names:
        head, words = name.rpartition(".")[0], set(named.tokens(name))
        same = (
            other for other in kept if head and other.rpartition(".")[0] == head and set(named.tokens(other)) < words
        )
        twin = next((other for other in same if table.columns[other] == table.columns[name]), None)
        if twin is None:
            kept.append(name)
        else:
            table.notes.append(f"{name} repeats {twin}")
    return kept


def verdict_numbers(table: LogTable) -> list[str]:
    """Return the numeric columns that are named like verdicts."""
    return [name for name in table.names if set(named.tokens(name)) & named.VERDICT and name not in table.used
            and not set(named.tokens(name)) & (named.HUMAN | COUNTS) and table.is_numeric(name)]  # fmt: skip


def grades_of_words(table: LogTable) -> dict[str, dict[str, int]]:
    """Return the columns with grades in two known words, such as pass and fail, and the score of each word."""
    grades = {}
    for name in _graded(table):
        if (worth := worth_of_two(sorted(set(table.present(name))))) is not None:
            grades[name] = worth
    return grades if len(grades) == 1 or all(is_attribute(table, name) for name in grades) else {}


def flags_within_scores(table: LogTable) -> dict[str, dict[str, int]]:
    """Return the true-or-false columns within an object of scores, with the score of each value."""
    names = [name for name in table.names if within_scores(name) and name not in table.used]
    flags = [name for name in names if {value.lower() for value in table.present(name)} == {"true", "false"}]
    return {name: {value: int(value.lower() == "true") for value in sorted(set(table.present(name)))} for name in flags}


def graded_in_words(table: LogTable) -> Refusal | None:
    """Refuse a column of grades in words, suggesting their usual order, both orders of two, or categories."""
    for name in _graded(table):
        values = [value for value, _ in Counter(table.present(name)).most_common()]
        if (
            any(sign.isdigit() for value in values for sign in value)
            or _may_be_verdicts(values)
            or any("," in value or "->" in value for value in values)
        ):
            continue
        if len(values) > 2 and (worth := _worth_of_some(values)) is not None:
            others = ", ".join(value for value in values if value not in worth)
            return Refusal(
                f"{name} has grades in words", ((f"if {others} is no grade", _in_words(name, worth, "0-1")),)
            )
        if (between := worth_between(values)) is not None:
            reason = f"with {', '.join(value for value, worth in between.items() if worth == _BETWEEN)} halfway"
            return Refusal(f"{name} has grades in words", ((reason, _in_words(name, between, "0-1")),))
        ordered = ranks(values)
        if ordered is not None and len(values) > 2:
            top = max(ordered.values())
            return Refusal(
                f"{name} has grades in words",
                ((f"from {next(iter(ordered))}, the worst", _in_words(name, ordered, f"1-{top}")),),
            )
        if len(values) == 2:
            one, two = values
            options = tuple((f"if {better} is better than {worse}", _in_words(name, {worse: 0, better: 1}, "0-1"))
                            for better, worse in ((one, two), (two, one)))  # fmt: skip
            return Refusal(f"{name} has two words as grades", options, is_guess=True)
        numbers = {value: number for number, value in enumerate(values, start=1)}
        reason = "as categories, for which only nominal measures are meaningful"
        return Refusal(
            f"{name} has {len(values)} words as grades", ((reason, _in_words(name, numbers, f"1-{len(values)}")),)
        )
    return None


def _worth_of_some(values: Sequence[str]) -> dict[str, int] | None:
    """Return the scores of two opposite words among several, if the others are not grades on the same ladder."""
    pairs = (worth_of_two([one, two]) for at, one in enumerate(values) for two in values[at + 1 :])
    known = next((worth for worth in pairs if worth is not None), None)
    return known if known is not None and ranks(values) is None else None


def _in_words(name: str, worth: Mapping[str, float], scale: str) -> Entries:
    values = {value: str(number) for value, number in worth.items()}
    return {"score": {"field": name, "values": values}, "scale": f"={scale}"}


def _graded(table: LogTable) -> list[str]:
    """Return the columns that may hold grades in words."""
    words = [name for name in table.names if name not in table.used and not table.is_numeric(name) and is_graded(name)]
    few = [name for name in words if 1 < table.distinct(name) <= _MOST_GRADES]
    return [name for name in few if max(map(len, table.present(name))) <= _LONGEST]


def score_texts(table: LogTable) -> list[str]:
    """Return the columns that are named like scores and contain texts with numbers."""
    return [
        name
        for name in table.names
        if name not in table.used
        and not table.is_numeric(name)
        and set(named.tokens(name)) & (named.SCORE | named.ATTRIBUTES | named.VERDICT | _OF_JUDGES)
        and not named.first_named([name], (*named.CONTEXT, *named.ANSWER, *named.JUDGE))
        and (values := table.present(name))
        and sum(any(sign.isdigit() for sign in value) for value in values) >= KNOWN * len(values)
    ]


def unclear_scores(table: LogTable, columns: Sequence[str]) -> Refusal | None:
    """Ask which of several columns of scores to use if their names do not tell them apart; None if they do."""
    if len(columns) < 2:
        return None
    plain = [name for name in columns if not is_judge(name) and not is_attribute(table, name)]
    unclear = [name for name in plain if not set(named.tokens(name)) <= named.SCORE | PLAIN]
    if unclear:
        each_alone = tuple((f"only {name}", {"score": name}) for name in columns[:3])
        return Refusal(f"{', '.join(unclear)} may be an attribute's or a judge's score", each_alone)
    judges = [name for name in columns if is_judge(name)]
    if plain and judges:
        options = ((f"if {plain[0]} is people's", {"ratings": plain[0]}), (f"only {plain[0]}", {"score": plain[0]}))
        return Refusal(f"{plain[0]} may be people's or a judge's, next to {', '.join(judges)}", options)
    whose = Counter((judge_name(name) if is_judge(name) else "", attribute_of(table, name)) for name in columns)
    twice = [
        name for name in columns if whose[judge_name(name) if is_judge(name) else "", attribute_of(table, name)] > 1
    ]
    if twice:
        each_alone = tuple((f"only {name}", {"score": name}) for name in twice[:3])
        return Refusal(f"{', '.join(twice)} are scores of one attribute", each_alone)
    return None


def _may_be_verdicts(values: Sequence[str]) -> bool:
    """Return whether a few values name both sides, as verdicts do, unlike grades from A to F."""
    return {"first", "second"} <= {side_of(value) for value in values} and len(values) <= _VERDICTS


_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COMMA = re.compile(r"[-+]?\d+,\d+")
_SAID = re.compile(r"\b(?:rating|score|grade)\W{1,8}\d", re.IGNORECASE)
_SEVERAL = 2  # scores in an object
_OUT_OF = re.compile(r"\d\s*(?:/|out of)\s*(\d+)")


def of_texts(table: LogTable, entries: Entries, names: Sequence[str]) -> Refusal:
    """Refuse columns of texts with numbers, with a mapping for each possible scale."""
    for name in names:
        if (refusal := _of_decimal_commas(table, entries, name)) is not None:
            return refusal
    for name in names:
        if (refusal := _of_objects(table, entries, name)) is not None:
            return refusal
    options = tuple(
        (f"if {name} is on a scale of {scale.removeprefix('=')}", {**entries, "reply": name, "scale": scale})
        for name in names[:3] for scale in _scales_of_texts(table, name)
    )  # fmt: skip
    return Refusal(f"{', '.join(names)} {'holds' if len(names) == 1 else 'hold'} texts with numbers", options)


def says_scores(table: LogTable, name: str) -> bool:
    """Return whether nearly all texts of a column say a score, as in "Rating: [[7]]"."""
    values = table.present(name)
    return bool(values) and sum(_SAID.search(value) is not None for value in values) >= KNOWN * len(values)


def _of_objects(table: LogTable, entries: Entries, name: str) -> Refusal | None:
    """Ask which of several scores in JSON objects is meant; None unless nearly all texts are such objects."""
    objects = [made for text in table.present(name) if isinstance(made := _loaded(text), dict)]
    counts = Counter(key for each in objects for key, value in each.items() if type(value) in (int, float))
    keys = [key for key, number in counts.items() if number >= KNOWN * len(table.present(name))]
    if len(keys) < _SEVERAL:
        return None
    high = max(each[key] for each in objects for key in keys if type(each.get(key)) in (int, float))
    ends = next((f"=1-{top}" if top > 1 else "=0-1" for top in (1, 5, 10, 100) if high <= top), "=1-100")
    scale = {} if "scale" in table.given else {"scale": ends}
    options = tuple(
        (
            f"only {key}",
            {**entries, "score": f'{name}~"{re.escape(key)}"\\s*:\\s*(-?[0-9.]+)', "attribute": f"={key}"} | scale,
        )
        for key in keys[:4]
    )
    return Refusal(f"{name} holds objects with several scores ({', '.join(keys[:4])})", options)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_decimal_commas(table: LogTable, entries: Entries, name: str) -> Refusal | None:
    """Ask whether texts such as 4,5 are numbers with decimal commas; None for other texts."""
    texts = {value for value in table.valued(name) if not NUMERAL.fullmatch(value)}
    if not texts or not all(_COMMA.fullmatch(text) for text in texts):
        return None
    reason = f"{name} has numbers with commas, such as {min(texts)}"
    values = sorted(set(table.valued(name)), key=lambda text: float(text.replace(",", ".")))
    numbers = {value: value.replace(",", ".") for value in values}
    if len(numbers) > FEW:
        return Refusal(f"{reason}: replace the commas by points, or save the file with semicolons between its fields")
    ends = next((f"=1-{top}" if float(numbers[values[0]]) >= 1 else f"=0-{top}" for top in (1, 5, 10, 100)
                 if float(numbers[values[-1]]) <= top), None)  # fmt: skip
    scale = {} if "scale" in table.given or ends is None else {"scale": ends}
    entries = {**entries, "score": {"field": name, "values": numbers}, **scale}
    return Refusal(reason, (("if they are decimal commas", entries),))


def _scales_of_texts(table: LogTable, name: str) -> list[str]:
    """Return the possible scales of scores in texts: the one that the texts name, or usual ones."""
    if "scale" in table.given:
        return [str(table.given["scale"])]
    texts = table.present(name)
    ends = Counter(match[1] for text in texts if (match := _OUT_OF.search(text)))
    if ends:
        return [f"=1-{ends.most_common(1)[0][0]}"]
    if any("%" in text for text in texts):
        return ["=0-100"]
    highest = max((float(number) for text in texts for number in _NUMBER.findall(text)), default=0)
    return [f"=1-{top}" for top in (5, 10, 100) if top >= highest][:2]
