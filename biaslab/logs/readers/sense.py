"""Refuse implausible mappings, with a single context or contradictory duplicates, and suggest a plausible one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.log_columns import identity_of
from biaslab.logs.readers.refusing import Entries, map_line

_SOME_TWICE, _SHARE_TWICE = 2, 0.02  # tolerated number and share of contradictions
_HALF = 0.5  # share of duplicates above which the mapping must lack an identifying field
_MANY = 10  # minimum judgements for a single context to be implausible
_TELLS = 0.9  # share of groups of duplicates in which a field must differ to count as identifying
_IDENTITY = ("context_id", "candidate_id", "opponent_id")
_ROLES = {
    "judge": (*named.JUDGE, "llm", "judged_by", "scored_by", "graded_by", "evaluated_by", "rater"),
    "attribute": named.ATTRIBUTE,
    "template": named.TEMPLATE,
    "dataset": named.DATASET,
    "candidate_id": named.CANDIDATE,
    "context_id": named.CONTEXT,
    "replicate": (*named.REPLICATE, "sample", "sample_id", "seed", "attempt"),
}
_OUTCOMES = named.VERDICT | named.SCORE | named.ATTRIBUTES | named.HUMAN
_ROWS = ("id", "idx", "uid")  # row numbers
_OTHERWISE = "configuration"  # the column for a field with an uninformative name


class ImplausibleError(InputError):
    """A mapping is implausible; ``entries`` would probably correct it."""

    entries: Entries = {}  # noqa: RUF012 - replaced, never changed


def require_sense(
    trials: pd.DataFrame, whole: pd.DataFrame, mapping: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise `InputError` if a mapping is implausible.

    Parameters
    ----------
    trials : pandas.DataFrame
        The judgements without duplicates, with the counts of duplicates in ``attrs``.
    whole : pandas.DataFrame
        The judgements with duplicates.
    mapping : mapping
        The user's mapping.
    records : mapping of str to mapping
        A sample of the original records, by the key of their trial.

    Raises
    ------
    ImplausibleError
        If an identifier is a constant that is the name of a field; if there is only one context although a field
        identifies several items; or if many judgements are duplicates that contradict each other, or that a field
        distinguishes.
    """
    fields = list(dict.fromkeys(str(name) for record in records.values() for name in record))
    for name in _IDENTITY:
        expression = mapping.get(name)
        if isinstance(expression, str) and expression.startswith("=") and expression[1:] in fields:
            remedy = f"to use the field of that name: {map_line({name: expression[1:]})}"
            allowed = "a field ('=' makes it a constant for all rows)"
            raise _implausible(f"mapping[{name!r}]", expression, allowed, remedy, {name: expression[1:]})
    twice, contradictory = trials.attrs["duplicates"], trials.attrs["contradictions"]
    clash = contradictory > max(_SOME_TWICE, _SHARE_TWICE * len(whole))
    apart = _distinguishing_field(whole, records, fields) if clash or twice > _HALF * len(whole) else None
    contexts = set(trials["context_id"])
    items = _item_field(records, fields) if len(contexts) == 1 and len(whole) >= _MANY else None
    if items is not None:
        remedy = f"{items} seems to identify the items: {map_line({'context_id': items})}"
        raise _implausible("context_id", contexts.pop(), "more than one context", remedy, {"context_id": items})
    if clash or apart is not None:
        problem = f"{twice:,} duplicate judgements, {contradictory:,} of which contradict the first"
        pairs = bool(whole["opponent_id"].notna().any())
        values = {written(record.get(apart)) for record in records.values()} if apart is not None else set()
        few = len(values) < whole["context_id"].nunique()
        remedy, entries = _remedy(apart, fields, mapping, pairs, few)
        raise _implausible("mapping", problem, "one row per judgement", remedy, entries)


def _implausible(name: str, value: object, allowed: str, remedy: str, entries: Entries) -> ImplausibleError:
    error = ImplausibleError(name, value, allowed, remedy)
    error.entries = entries
    return error


def _remedy(
    apart: str | None, fields: Sequence[str], mapping: Mapping[str, Any], pairs: bool, few: bool
) -> tuple[str, Entries]:
    if apart is None:
        columns = "judge, attribute, template, configuration or replicate"
        return (
            f"map the field that distinguishes them to {columns}; fields: {', '.join(fields[:20])}; to number "
            "repetitions without a field, use --map replicate==#"
        ), {}
    pair = next((pair for pair in named.find_pairs(fields).values() if apart in pair), None)
    if pair is not None and str(mapping.get("candidate_id")).startswith("="):
        entries = {"candidate_id": pair[0], "opponent_id": pair[1]}
        return f"{apart} distinguishes them: {map_line(entries)}", entries
    role = next((role for role, names in _ROLES.items() if apart.lower() in names), _OTHERWISE)
    role = "judge" if role == "candidate_id" and pairs else role  # a pair has two candidates already
    if role == "context_id" and few:  # fewer values than contexts: the field tells how items were asked, not which
        role = "template" if pairs else _OTHERWISE
    other = " (or is a judge, attribute, template or replicate)" if role == _OTHERWISE else ""
    return f"{apart} distinguishes them{other}: {map_line({role: apart})}", {role: apart}


def _item_field(records: Mapping[str, Mapping[str, Any]], fields: Sequence[str]) -> str | None:
    """Return a field with a common name for items and several values, or None."""
    usual = named.first_named(fields, named.CONTEXT)
    return next((name for name in usual if len({written(record.get(name)) for record in records.values()}) > 1), None)


def _distinguishing_field(
    whole: pd.DataFrame, records: Mapping[str, Mapping[str, Any]], fields: Sequence[str]
) -> str | None:
    """Return the field that differs within nearly all groups of duplicates, or None.

    Row numbers and times differ in any log and do not count.
    """
    keys = identity_of(whole)
    seen = whole[whole["key"].isin(list(records))]
    several = seen[seen.duplicated(keys, keep=False)]
    if several.empty:
        return None
    group = several.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
    shares: dict[str, float] = {}
    for name in fields:
        if set(named.tokens(name)) & _OUTCOMES and name.lower() not in {each for of in _ROLES.values() for each in of}:
            continue
        values = [written(records[key].get(name)) for key in several["key"]]
        items = "_".join(named.tokens(name)) in named.CONTEXT
        if name.lower() in _ROWS or (len(set(values)) == len(values) and not items):
            continue
        differs = ~pd.DataFrame({"group": group, "value": values}).duplicated(keep=False)
        shares[name] = float(differs.groupby(group).all().mean())
    best = max(shares.values(), default=0.0)
    usual = [name for names in _ROLES.values() for name in named.first_named(list(shares), names)]
    return next((name for name in [*usual, *shares] if shares[name] == best), None) if best >= _TELLS else None
