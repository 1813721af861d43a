"""Refuse tables that need a mapping, and mappings that are implausible, with a suggestion."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.common_names import side_of
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.rows import identity_of

Entries = dict[str, Any]
READ = 50  # records used to suggest a mapping
_SHOWN = 3  # example rows
_LONG = 30  # maximum characters of a verdict; a longer text contains it
_LONGEST = 160  # characters of an example row
_NO_CANDIDATE = {
    "id",
    "len",
    "length",
    "words",
    "chars",
    "tokens",
    "score",
    "rating",
    "rank",
    "place",
    "votes",
    "cost",
    "latency",
    "time",
}  # words in names of other columns
_PARTS = ("language_pair", "lang_pair", "language", "lang", "subset", "task", "split")
_SCALES = {1: "=0-1", 5: "=1-5", 10: "=1-10", 100: "=0-100"}
_QUOTED = set(" |<>&;()$`\"'*?[]#~\\!")  # characters special to a shell


@dataclass(frozen=True)
class Refusal:
    """The reason why a table cannot be read without a mapping, and the mappings that would read it.

    Parameters
    ----------
    reason : str
        What is ambiguous or missing.
    options : tuple of (str, dict)
        The assumption behind each interpretation, and its mapping; "…" marks values that only the user knows.
    is_guess : bool
        Whether the options are based on the values of columns rather than on their names.
    """

    reason: str
    options: tuple[tuple[str, Entries], ...] = ()
    is_guess: bool = False

    def lines(self) -> list[str]:
        """Return the reason and, for each interpretation, the command-line options."""
        return [self.reason, *(f"{when}: {map_line(entries)}" for when, entries in self.options)]


def map_line(entries: Mapping[str, Any]) -> str:
    """Return a mapping as command-line options.

    Examples
    --------
    >>> map_line({"context_id": "q", "winner": {"field": "w", "values": {"A": "first", "B": "second"}}})
    '--map context_id=q --map "winner=w | A -> first, B -> second"'
    """
    return " ".join(f"--map {_quoted(name, expression)}" for name, expression in entries.items())


def _quoted(name: str, expression: Any) -> str:
    if isinstance(expression, Mapping):
        field = ", ".join(expression["fields"]) if "fields" in expression else expression["field"]
        meanings = ", ".join(f"{value} -> {meaning}" for value, meaning in expression.get("values", {}).items())
        expression = f"{field} | {meanings}" if meanings else field
    text = f"{name}={expression}"
    if set(text) & set("$`\\!"):
        return shlex.quote(text)
    return text if not set(text) & _QUOTED else '"' + text.replace('"', '\\"') + '"'


def lists_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields with lists of objects, for a file that is one object."""
    if len(records) != 1:
        return []
    listed = {str(name): value for name, value in records[0].items() if isinstance(value, list)}
    return [name for name, items in listed.items() if items and isinstance(items[0], dict)]


def within_lists(records: Sequence[Mapping[str, Any]], lists: Sequence[str]) -> Refusal:
    """Suggest a mapping for the list in an object whose items look most like judgements."""
    field = _list_of_judgements(records[0], lists)
    inner = suggestion(records[0][field][:READ])
    options = tuple((when, {"explode": field, **_prefixed(field, entries)}) for when, entries in inner.options)
    return Refusal(f"it is one JSON object with lists in {', '.join(lists[:5])}", options)


def _list_of_judgements(record: Mapping[str, Any], lists: Sequence[str]) -> str:
    """Return the list whose items lack the fewest required columns, and the longest of these."""

    def lack(name: str) -> tuple[int, int]:
        lines = suggestion([item for item in record[name][:READ] if isinstance(item, dict)]).lines()
        return min(line.count("FIELD") for line in lines[1:]), -len(record[name])

    return min(lists, key=lack)


def _prefixed(field: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping of a list's items, rewritten for the exploded records."""
    mapping: dict[str, Any] = {}
    for name, expression in entries.items():
        if isinstance(expression, str):
            mapping[name] = (
                expression if expression.startswith("=") or expression == "FIELD" else f"{field}.{expression}"
            )
        else:
            mapping[name] = {**expression, "field": f"{field}.{expression['field']}"}
    return mapping


def printable(lines: Sequence[str]) -> str:
    """Join lines to one text, replacing unprintable characters."""
    return "\n  ".join("".join(sign if sign.isprintable() else "�" for sign in line) for line in lines)


def suggestion(records: Sequence[Mapping[str, Any]]) -> Refusal:
    r"""Suggest the mapping closest to the fields of records, with "FIELD" for missing ones.

    Examples
    --------
    >>> print("\n".join(suggestion([{"q": 1, "system": "x", "mark": 3}]).lines()))
    map context_id, candidate_id, and either opponent_id and winner (pairs) or score and scale (scores)
    closest mapping: --map context_id=q --map candidate_id=system --map score=mark --map scale==LOW-HIGH
    """
    every = dict.fromkeys(str(name) for record in records for name in record)
    names = [name for name in every if any(_can_be_mapped(record.get(name)) for record in records)] or list(every)
    pairs = {words: pair for words, pair in named.find_pairs(names).items() if not set(words) & _NO_CANDIDATE}
    orders, winner = named.both_orders(names) or _listed_verdicts(records, names), _winner_among(records, names)
    named_alike = next((pair[:2] for pair in pairs.values()), None)
    candidates = winner[1:] if winner else ("=A", "=B") if orders else named_alike
    rest = [name for name in names if candidates is None or name not in candidates]
    context = _context_among(records, rest)
    rest = [name for name in rest if name != context]
    if candidates is None and (lists := _lists_of_scores(records)):
        reason = "the scores stand in lists"
        parts = tuple(_list_mapping(records, name, context, rest) for name in lists[:3])
        return Refusal(reason, (*_of_samples(lists, parts), *parts))
    if candidates is None:
        entries = _score_mapping(context, rest)
    else:
        entries = {"context_id": context, "candidate_id": candidates[0], "opponent_id": candidates[1]}
        verdict = next((name for name in rest if set(named.tokens(name)) & named.VERDICT), None)
        verdict = verdict or next((name for name in rest if _name_sides(_values(records, name), candidates)), None)
        if winner:
            entries["winner"] = winner[0]
        elif orders:
            for name, column in zip(("winner", "winner_swapped"), orders, strict=True):
                entries |= {name: _outcome(column, _values(records, column)).get("winner", column)}
        else:
            entries |= _outcome(verdict, _values(records, verdict) if verdict else [], candidates)
    reason = "map context_id, candidate_id, and either opponent_id and winner (pairs) or score and scale (scores)"
    if isinstance(entries.get("winner_swapped"), dict):
        return Refusal(reason, either_order(entries, "the first", "the second"))
    return Refusal(reason, (("closest mapping", entries),))


def _can_be_mapped(value: Any) -> bool:
    return written(value) is not None or (isinstance(value, list) and len(value) == 2)


def _context_among(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return the field most likely to identify items, by its name and its number of distinct values."""
    values = {name: len({written(record.get(name)) for record in records}) for name in names}
    varied = [name for name in names if values[name] > 1] or list(names)
    all_different = [name for name in varied if values[name] == len(records) and "id" in named.tokens(name)]
    texts = [name for name in named.first_named(varied, named.CONTEXT) if values[name] == len(records)]
    return next(iter([*texts, *all_different, *named.first_named(varied, named.CONTEXT), *varied, "FIELD"]))


def either_order(entries: Entries, one: str, two: str) -> tuple[tuple[str, Entries], ...]:
    """Return both interpretations of a verdict in the swapped order: it names positions as shown, or columns."""
    swapped = entries["winner_swapped"]
    places = {"first": "candidate", "second": "opponent"}
    columns = {
        "field": swapped["field"],
        "values": {v: places.get(side, side) for v, side in swapped["values"].items()},
    }
    return (
        (f"if {swapped['field']} names positions as shown in that order", entries),
        (
            f"if {swapped['field']} names the columns {one} and {two}, regardless of the order shown",
            entries | {"winner_swapped": columns},
        ),
    )


def _values(records: Sequence[Mapping[str, Any]], name: str) -> list[str | None]:
    """Return the values of a field, or of an item in lists of two, such as ``"decisions.0"``."""
    field, _, place = name.rpartition(".")
    if not place.isdigit():
        return [written(record.get(name)) for record in records]
    lists = [record.get(field) for record in records]
    return [written(pair[int(place)]) if isinstance(pair, list) and len(pair) == 2 else None for pair in lists]


def _listed_verdicts(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[str, str] | None:
    """Return the paths of both items in a list of two verdicts, one per order, or None."""
    for name in names:
        verdicts = [value for record in records for value in _values([record], f"{name}.0") if value]
        if verdicts and len(verdicts) == len(records) and any(side_of(value) for value in verdicts):
            return f"{name}.0", f"{name}.1"
    return None


def _score_mapping(context: str, rest: Sequence[str]) -> Entries:
    """Return the closest mapping for scores, from the fields other than the context."""
    own = [*named.first_named(rest, named.CANDIDATE), *named.first_named(rest, named.ANSWER)]
    candidate = next(iter([*own, *rest, "FIELD"]))
    score = next((name for name in rest if set(named.tokens(name)) & (named.SCORE | named.ATTRIBUTES)), None)
    return {"context_id": context, "candidate_id": candidate, "score": score or "FIELD", "scale": "=LOW-HIGH"}


def _lists_of_scores(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields with lists of numbers, at least one of which has several."""
    lists = {name: [record.get(name) or [] for record in records] for name in (records[0] if records else {})}
    return [
        str(name) for name, scores in lists.items()
        if all(isinstance(value, list) for value in scores) and max(map(len, scores)) > 1
        and all(isinstance(item, int | float | None) for value in scores for item in value)
    ]  # fmt: skip


def _list_mapping(
    records: Sequence[Mapping[str, Any]], name: str, context: str, rest: Sequence[str]
) -> tuple[str, Entries]:
    """Return the mapping of a list of scores to one row per score; position and language become part of the context."""
    about = [each for each in named.first_named(rest, _PARTS) if each != context]
    highest = max((item for record in records for item in record.get(name) or [] if item is not None), default=0)
    scale = next((scale for top, scale in _SCALES.items() if top >= highest), "=LOW-HIGH")
    entries = {"explode": name, "context_id": ", ".join([context, *about, f"{name}#"])}
    reason = f"if {name} holds a judge's scores of each part of an item"
    return reason, {**entries, **_score_mapping(context, rest), "score": name,
                                               "judge": f"={name}", "scale": scale,
                                               "context_id": entries["context_id"]}  # fmt: skip


def _of_samples(lists: Sequence[str], parts: Sequence[tuple[str, Entries]]) -> tuple[tuple[str, Entries], ...]:
    """Return the readings of a single list that is named after scores: of several judges, or repetitions by one."""
    if len(lists) != 1 or not set(named.tokens(lists[0])) & named.SCORE:
        return ()
    (name,), ((_, entries),) = lists, parts
    item = str(entries["context_id"]).removesuffix(f", {name}#")
    rest = {column: value for column, value in entries.items() if column != "judge"} | {"context_id": item}
    return ((f"if {name} holds the scores of several judges", rest | {"judge": f"{name}#"}),
            (f"if {name} holds repetitions by one judge", rest | {"replicate": f"{name}#"}))  # fmt: skip


def _winner_among(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[str, str, str] | None:
    """Return a verdict field and the two fields of which it repeats one in every record that is not a tie."""
    columns = {name: [written(record.get(name)) for record in records] for name in names}
    for verdict in (name for name in names if set(named.tokens(name)) & named.VERDICT):
        named_values = [(at, value) for at, value in enumerate(columns[verdict]) if value and side_of(value) is None]
        others = [
            name for name in names if name != verdict and any(columns[name][at] == value for at, value in named_values)
        ]
        for one, two in combinations(others, 2):
            matches = [(columns[one][at] == value, columns[two][at] == value) for at, value in named_values]
            if all(map(any, matches)) and all(map(any, zip(*matches, strict=True))) and not any(map(all, matches)):
                return verdict, one, two
    return None


def _name_sides(values: Sequence[str | None], columns: Sequence[str]) -> bool:
    """Return whether all values name a position or one of two columns."""
    given = {value for value in values if value}
    return len(given) > 1 and all(value in columns or side_of(value) is not None for value in given)


def _outcome(verdict: str | None, values: Sequence[str | None], columns: Sequence[str] = ()) -> Entries:
    """Return the mapping of verdicts that name positions or columns, or of texts that contain them."""
    known = Counter(value for value in values if value)
    sides = {value: side for value in known if (side := side_of(value)) is not None}
    sides |= {value: side for value, side in zip(columns, ("first", "second"), strict=False) if value in known}
    for one, two in (*named.SIDES, ("a>b", "b>a")):  # values missing from the first records
        for pair in ({one: "first", two: "second"}, {one.upper(): "first", two.upper(): "second"}):
            sides |= pair if any(sides.get(value) == side for value, side in pair.items()) else {}
    if verdict and known and not sides and max(map(len, known)) > _LONG:
        return {"reply": verdict}
    return {"winner": {"field": verdict or "FIELD", "values": sides or {"A": "first", "B": "second", "tie": "tie"}}}


def example_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the first records, each shortened to one line."""
    return [_brief(record) for record in records[:_SHOWN]]


def _brief(record: Mapping[str, Any]) -> str:
    text = json.dumps({str(name): _cut(value) for name, value in record.items()}, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _cut(value: Any) -> Any:
    return f"{value[:30]}…" if isinstance(value, str) and len(value) > 30 else value


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


def require_plausible(
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
