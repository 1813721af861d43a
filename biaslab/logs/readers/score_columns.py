"""Find the columns with scores by judges and people, as numbers, words or texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.attribute_columns import PLAIN, attribute_of, is_attribute, is_explained, within_scores
from biaslab.logs.readers.grade_words import is_graded, ranks, worth_between, worth_of_two
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import COUNTS, KNOWN, Table, judge_name
from biaslab.logs.readers.verdict_words import side_of

_OF_JUDGES = {"judge", "evaluation", "evaluator", "grader", "review", "critique", "raw", "reply"}
_NUMBERED = re.compile(
    r"(?:^|[\s_.-])(?:llm[\s_-]?)?(?:judge|evaluator|grader)[\s_-]?(?:\d+|[a-d])(?![a-z\d])", re.IGNORECASE
)
_BETWEEN = 0.5  # the worth of a grade between two
_VERDICTS = 3  # maximum number of different verdicts
_MOST_GRADES, _LONGEST = 14, 40  # maximum number of different grades in words, and characters of one


def score_columns(table: Table) -> tuple[list[str], list[str]]:
    """Return the columns of scores by judges, and those of scores by people."""
    scores, people, judges = [], [], []
    for name in table.names:
        words = set(named.tokens(name))
        if name in table.used or words & COUNTS or name.endswith("#") or not table.is_numeric(name):
            continue
        by_person = named.beside_a_person(table.names, name)
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


def _without_copies(table: Table, names: Sequence[str]) -> list[str]:
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


def verdict_numbers(table: Table) -> list[str]:
    """Return the numeric columns that are named like verdicts."""
    return [name for name in table.names if set(named.tokens(name)) & named.VERDICT and name not in table.used
            and not set(named.tokens(name)) & (named.HUMAN | COUNTS) and table.is_numeric(name)]  # fmt: skip


def grades_of_words(table: Table) -> dict[str, dict[str, int]]:
    """Return the columns with grades in two known words, such as pass and fail, and the score of each word."""
    grades = {}
    for name in _graded(table):
        if (worth := worth_of_two(sorted(set(table.present(name))))) is not None:
            grades[name] = worth
    return grades if len(grades) == 1 or all(is_attribute(table, name) for name in grades) else {}


def flags_within_scores(table: Table) -> dict[str, dict[str, int]]:
    """Return the true-or-false columns within an object of scores, with the score of each value."""
    names = [name for name in table.names if within_scores(name) and name not in table.used]
    flags = [name for name in names if {value.lower() for value in table.present(name)} == {"true", "false"}]
    return {name: {value: int(value.lower() == "true") for value in sorted(set(table.present(name)))} for name in flags}


def graded_in_words(table: Table) -> Refusal | None:
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


def _graded(table: Table) -> list[str]:
    """Return the columns that may hold grades in words."""
    words = [name for name in table.names if name not in table.used and not table.is_numeric(name) and is_graded(name)]
    few = [name for name in words if 1 < table.distinct(name) <= _MOST_GRADES]
    return [name for name in few if max(map(len, table.present(name))) <= _LONGEST]


def score_texts(table: Table) -> list[str]:
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


def unclear_scores(table: Table, columns: Sequence[str]) -> Refusal | None:
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
        return Refusal(f"{plain[0]} may be people's or a judge's, beside {', '.join(judges)}", options)
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
