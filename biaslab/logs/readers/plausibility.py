"""Refuse a reading that cannot be right: a single question, contradicting judgements, too many judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.logs.readers.columns import aliases, roles_of, tokens
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.rows import identity_of

_SOME_TWICE, _SHARE_TWICE = 2, 0.02  # tolerated number and share of contradictions
_SHARE_AGREEING = 0.1  # share of agreeing duplicates above which no column may tell them apart
_MANY = 10  # minimum judgements for a single context to be implausible
_MOST_JUDGES, _FEWEST = 20, 5  # judges of whom each has fewer rows than this are no judges
_IDENTITY = ("context_id", "candidate_id", "opponent_id")
_FIELDS = 8  # fields shown in a message


def require_plausible(
    trials: pd.DataFrame,
    with_duplicates: pd.DataFrame,
    mapping: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
) -> None:
    """Raise `InputError` if the reading of a table is implausible.

    Parameters
    ----------
    trials : pandas.DataFrame
        The judgements without duplicates, with the counts of duplicates in ``attrs``.
    with_duplicates : pandas.DataFrame
        The judgements with duplicates.
    mapping : mapping
        The user's mapping.
    records : mapping of str to mapping
        A sample of the original records, by the key of their trial.

    Raises
    ------
    InputError
        If an identifier is a constant that is the name of a field; if there is only one context although other fields
        differ; if there are many judges of few judgements each; or if many judgements are duplicates that contradict
        each other.
    """
    fields = list(dict.fromkeys(str(name) for record in records.values() for name in record))
    for name in _IDENTITY:
        expression = mapping.get(name)
        if isinstance(expression, str) and expression.startswith("=") and expression[1:] in fields:
            remedy = f"for the field of that name, omit the first =: {name} = {expression[1:]}"
            raise InputError(f"mapping[{name!r}]", expression, "a field ('=' makes it a constant for all rows)", remedy)
    used = {name for entry in mapping.values() if isinstance(entry, str) for name in (entry, *entry.split(","))}
    _require_contexts(trials, len(with_duplicates), records, used)
    _require_judges(trials)
    _require_one_row_each(trials, with_duplicates, records)


def _require_contexts(
    trials: pd.DataFrame, rows: int, records: Mapping[str, Mapping[str, Any]], used: set[str]
) -> None:
    contexts = set(trials["context_id"])
    if len(contexts) > 1 or rows < _MANY:
        return
    differing = [name for name in _differing(list(records.values())) if _is_question(name) and name not in used]
    if differing:
        remedy = f"map the field that identifies the question; these differ: {', '.join(differing)}"
        raise InputError("context_id", contexts.pop(), "more than one question", remedy)


def _is_question(name: str) -> bool:
    words = tokens(name)
    return "_".join(words) in aliases()["role"]["question"]["first"] or roles_of(words)[:1] == ("question",)


def _require_judges(trials: pd.DataFrame) -> None:
    counts = trials["judge"].value_counts()
    if len(counts) > _MOST_JUDGES and counts.median() < _FEWEST:
        shown = ", ".join(map(str, counts.index[:3]))
        allowed = f"judges with at least {_FEWEST} judgements each, if there are more than {_MOST_JUDGES}"
        remedy = "map another field to judge, or map this one to person if it names people"
        raise InputError("judge", f"{len(counts)} different ones ({shown}, …)", allowed, remedy)


def _require_one_row_each(
    trials: pd.DataFrame, with_duplicates: pd.DataFrame, records: Mapping[str, Mapping[str, Any]]
) -> None:
    twice, contradictory = trials.attrs["duplicates"], trials.attrs["contradictions"]
    few = contradictory <= max(_SOME_TWICE, _SHARE_TWICE * len(with_duplicates))
    if few and twice <= _SHARE_AGREEING * len(with_duplicates):
        return
    keys = identity_of(with_duplicates)
    seen = with_duplicates[with_duplicates["key"].isin(list(records))]
    groups = seen[seen.duplicated(keys, keep=False)].groupby(keys, sort=False, dropna=False)["key"]
    examples = [[records[key] for key in group] for _, group in list(groups)[:_MANY]]
    differing = list(dict.fromkeys(name for each in examples for name in _differing(each)))[:_FIELDS]
    if few and not _tells_apart(examples, differing):
        return
    problem = f"{twice:,} duplicate judgements, {contradictory:,} of which contradict the first"
    where = f"they differ in {', '.join(differing)}; " if differing else ""
    remedy = f"{where}map what tells them apart, or number repetitions without a field: --map replicate==#"
    raise InputError("mapping", problem, "one row per judgement", remedy)


def _tells_apart(groups: Sequence[Sequence[Mapping[str, Any]]], fields: Sequence[str]) -> bool:
    """Return whether a field with few values, unlike a number of rows, differs within each group of duplicates."""
    for name in fields:
        values = [[written(record.get(name)) for record in group] for group in groups]
        distinct = {value for group in values for value in group}
        if all(len(set(group)) == len(group) for group in values) and len(distinct) <= _FIELDS:
            return True
    return False


def _differing(records: list[Mapping[str, Any]]) -> list[str]:
    """Return the fields in which records differ."""
    names = dict.fromkeys(str(name) for record in records for name in record)
    return [name for name in names if len({written(record.get(name)) for record in records}) > 1][:_FIELDS]
