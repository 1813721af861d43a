"""Columns of tables that hold scores: judges' and people's, in numbers, in two words or in texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.refusing import Refusal
from biaslab.logs.readers.table_columns import COUNTS, KNOWN, Table, judge_name

_OWN = {"judge", "llm", "the", "final", "model", "auto", "evaluator", "grader"}
_GRADES = {"pass": 1, "passed": 1, "true": 1, "yes": 1, "correct": 1, "fail": 0, "failed": 0, "false": 0, "no": 0,
           "incorrect": 0, "wrong": 0}  # fmt: skip


def score_columns(table: Table) -> tuple[list[str], list[str]]:
    """Return the columns of judges' scores, and those of people."""
    scores, people, judges = [], [], []
    for name in table.names:
        words = set(named.tokens(name))
        if name in table.used or words & COUNTS or not table.is_numeric(name):
            continue
        if words & named.HUMAN and not words & {"judge", "llm"}:
            people.append(name)
        elif words & (named.SCORE | named.ATTRIBUTES) or (named.is_model(name) and table.distinct(name) <= 100):
            scores.append(name)
        elif words & {"judge", "evaluator", "grader"}:
            judges.append(name)
    return scores or [name for name in judges if table.distinct(name) > 1], people


def verdict_numbers(table: Table) -> list[str]:
    """Return columns of numbers that are called as verdicts are."""
    return [name for name in table.names if set(named.tokens(name)) & named.VERDICT and name not in table.used
            and not set(named.tokens(name)) & (named.HUMAN | COUNTS) and table.is_numeric(name)]  # fmt: skip


def grades_of_words(table: Table) -> dict[str, dict[str, int]]:
    """Return the columns of scores in two words, such as pass and fail, and what these are worth."""
    found = {}
    for name in table.names:
        words = set(named.tokens(name))
        values = set(table.present(name))
        asked = words & (named.SCORE | named.VERDICT | {"correct", "passed", "pass"}) and not words & named.HUMAN
        known = {value: _GRADES[value.lower()] for value in sorted(values) if value.lower() in _GRADES}
        if name not in table.used and asked and len(values) == len(known) == len(set(known.values())) == 2:
            found[name] = known
    return found if len(found) == 1 else {}


def score_texts(table: Table) -> list[str]:
    """Return columns that are called as scores are and hold texts with numbers."""
    return [
        name
        for name in table.names
        if name not in table.used
        and not table.is_numeric(name)
        and set(named.tokens(name)) & (named.SCORE | named.ATTRIBUTES | named.VERDICT)
        and (values := table.present(name))
        and sum(any(sign.isdigit() for sign in value) for value in values) >= KNOWN * len(values)
    ]


def whose(columns: Sequence[str]) -> Refusal | None:
    """Ask what columns are of which no name says it, where there are several."""
    if len(columns) < 2:
        return None
    plain = [name for name in columns if not named.is_model(name) and not is_attribute(name)]
    unclear = [name for name in plain if not set(named.tokens(name)) <= named.SCORE | _OWN]
    if unclear:
        kinds = tuple((f"only {name}", {"score": name}) for name in columns[:3])
        return Refusal(f"{', '.join(unclear)} may be an attribute's or a judge's score", kinds)
    judges = [name for name in columns if named.is_model(name)]
    if plain and judges:
        options = ((f"if {plain[0]} is people's", {"ratings": plain[0]}), (f"only {plain[0]}", {"score": plain[0]}))
        return Refusal(f"{plain[0]} may be people's or a judge's, beside {', '.join(judges)}", options)
    whose = Counter((judge_name(name) if named.is_model(name) else "", attribute_of(name)) for name in columns)
    twice = [
        name for name in columns if whose[judge_name(name) if named.is_model(name) else "", attribute_of(name)] > 1
    ]
    if twice:
        kinds = tuple((f"only {name}", {"score": name}) for name in twice[:3])
        return Refusal(f"{', '.join(twice)} are scores of one attribute", kinds)
    return None


def is_attribute(name: str) -> bool:
    """Return whether a column is called after an attribute."""
    return bool(set(named.tokens(name)) & named.ATTRIBUTES or _within_scores(name))


def _within_scores(name: str) -> str:
    """Return the name of a score within an object of scores, such as ``scores.depth``; nothing for another one."""
    head, dot, tail = name.rpartition(".")
    return tail if dot and set(named.tokens(head)) & (named.SCORE | {"metrics", "ratings"}) else ""


def attribute_of(name: str) -> str:
    """Return the attribute after which a column is called; "overall" for none."""
    words = [word for word in named.tokens(name) if word in named.ATTRIBUTES]
    return _within_scores(name).lower() or " ".join(words) or "overall"
