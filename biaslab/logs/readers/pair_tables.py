"""Read tables of pairs: two columns of answers or systems, with verdicts by judges and people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.context_columns import context_of, no_context
from biaslab.logs.readers.listed_verdicts import refuse_listed
from biaslab.logs.readers.pair_orders import order_of
from biaslab.logs.readers.pair_verdicts import (
    of_verdict,
    reply_columns,
    verdict_columns,
)
from biaslab.logs.readers.refusing import Entries, Refusal, either_order
from biaslab.logs.readers.side_measures import measure_of_sides
from biaslab.logs.readers.table_columns import (
    FEW,
    GIVEN_OUTCOMES,
    Table,
    TableReading,
    judge_name,
    judged_by_people,
    people_or_judges,
    shared_entries,
)
from biaslab.logs.readers.verdict_words import side_of
from biaslab.logs.readers.winning_flags import judge_of_flag

_SHOWN_THEN = {"shown", "presented", "position"}  # words in names of verdicts that refer to positions as shown
_JUDGES = named.JUDGES | {"llm"}  # words in names of columns that each belong to a judge
_COUNTED = {"id", "len", "length", "words", "chars", "tokens", "score", "rating", "elo", "rank", "cost", "time"}


class _Shown(NamedTuple):
    """The two candidate columns, with the index in `SIDES` of the words that distinguish them, and their mapping."""

    columns: tuple[str, str, int]
    entries: Entries


def of_pairs(table: Table, pairs: Mapping[named.Tokens, tuple[str, str, int]]) -> TableReading | Refusal | None:
    """Return how to read pairs; candidates are systems if the table names them, and texts otherwise."""
    candidates = _candidates(table, pairs)
    if candidates is None:
        return None
    shown, entries = candidates
    if (context := context_of(table) or _first_turn(table, shown)) is None:
        return no_context(table, entries)
    entries = {"context_id": context, **entries, **shared_entries(table, "template")}
    if refusal := _who_judged(table, entries, shown) or judged_by_people(table, entries):
        return refusal
    if (orders := named.both_orders(table.names)) is not None and not GIVEN_OUTCOMES & set(table.given):
        return _in_both_orders(table, entries, shown, orders)
    return _in_one_order(table, entries, shown)


def _first_turn(table: Table, shown: tuple[str, str, int]) -> str | None:
    """Return the path to the question in two conversations that start with the same one, or None."""
    pairs = [pair[:2] for pair in named.find_pairs(table.names).values()]
    for one, two in dict.fromkeys((shown[:2], *pairs)):
        asked = [table.rows.values(f"{name}.0.content") for name in (one, two)]
        if asked[0] == asked[1] and all(isinstance(text, str) for text in asked[0]):
            return f"{one}.0.content"
    return None


def _in_one_order(table: Table, entries: Entries, shown: tuple[str, str, int]) -> TableReading | Refusal:
    """Return how to read rows with the verdict in one order."""
    verdicts, people = verdict_columns(table, entries, shown)
    if GIVEN_OUTCOMES & set(table.given):
        verdicts = [""]
    readings: dict[str, Any] = {name: of_verdict(table, name, entries, shown) for name in [*verdicts, *people] if name}
    if not verdicts and (measured := measure_of_sides(table, shown, entries)) is not None:
        verdicts, readings = [""], readings | {"": measured}
    order = order_of(table, shown, {name: readings[name] for name in verdicts if name in readings}, people, readings)
    if isinstance(order, Refusal):
        return order
    refusals = [reading for name in verdicts if isinstance(reading := readings.get(name), Refusal)]
    if refusals:
        return refusals[0]
    if refusals := [reading for name in people if isinstance(reading := readings[name], Refusal)]:
        return _unclear_labels(refusals[0], people, bool(verdicts), entries)
    entries = {**entries, **order}
    if people and not {"preference", "human_gap"} & set(table.given):
        preferred: Any = readings[people[0]] if len(people) == 1 else _combined(readings, people)
        entries = {**entries, "preference": preferred}
        table.notes.append(f"humans = {', '.join(people)}")
    if (refusal := _which_verdict(table, verdicts, entries, readings)) is not None:
        return refusal
    about = _by_attribute(verdicts)
    mappings = tuple(
        _judge_mapping(table, entries | about.get(name, {}), name, readings.get(name), len(verdicts) - len(about))
        for name in verdicts
    )
    place = _order_note(table, entries, readings.get(verdicts[0]), shown)
    table.note_unused(mappings)
    notes = [f"pairs: {shown[0]} and {shown[1]} on each {entries['context_id']}", place, *table.notes]
    return TableReading(mappings, "; ".join(filter(None, notes)))


def _unclear_labels(refusal: Refusal, people: Sequence[str], judged: bool, entries: Entries) -> Refusal:
    """Ask what ambiguous human verdicts mean; without a judge, also offer to audit the first person as one."""
    options: list[tuple[str, Entries]] = []
    for assumption, option in refusal.options:
        reading = option.get("winner")
        if not isinstance(reading, dict):
            return refusal
        labels = {"fields": list(people if judged else people[1:]), "values": reading["values"]}
        one = {} if judged else {"judge": f"={people[0]}", "winner": {**reading, "field": people[0]}}
        as_judge = "" if judged else f", to audit {people[0]} as a judge beside the others"
        options.append(
            (f"{assumption}{as_judge}", entries | one | ({"preference": labels} if labels["fields"] else {}))
        )
    return Refusal(refusal.reason, tuple(options))


def _in_both_orders(
    table: Table, entries: Entries, shown: tuple[str, str, int], orders: tuple[str, str]
) -> TableReading | Refusal:
    """Return how to read rows with the verdicts in both orders."""
    verdict, other = (of_verdict(table, name, entries, shown) for name in orders)
    if isinstance(verdict, Refusal) or isinstance(other, Refusal):
        return verdict if isinstance(verdict, Refusal) else Refusal(**vars(other))
    whole: Entries = {**entries, "winner": verdict, "winner_swapped": other}
    if people := [name for name in verdict_columns(table, entries, shown)[1] if name not in orders]:
        readings = {name: of_verdict(table, name, entries, shown) for name in people}
        if refusals := [each for each in readings.values() if isinstance(each, Refusal)]:
            return refusals[0]
        whole["preference"] = readings[people[0]] if len(people) == 1 else _combined(readings, people)
    sides = other["values"] if isinstance(other, dict) else {}
    if {"first", "second"} & set(sides.values()) and not _SHOWN_THEN & set(named.tokens(orders[1])):
        return Refusal(
            f"{orders[1]} is the verdict in the other order, but what its values mean is unclear",
            either_order(whole, shown[0], shown[1]),
        )
    note = f"pairs: {shown[0]} and {shown[1]} on each {entries['context_id']}; {orders[0]} has {shown[0]} shown first"
    return TableReading((whole,), "; ".join([f"{note}, {orders[1]} has it shown second", *table.notes]))


def _candidates(table: Table, pairs: Mapping[named.Tokens, tuple[str, str, int]]) -> _Shown | None:
    """Return the candidate columns, and the mapping of candidates and their texts.

    Of several pairs of columns, the shortest name wins, because ``answer_a_tokens`` only describes ``answer_a``.
    """
    possible = {
        words: pair
        for words, pair in sorted(pairs.items(), key=lambda pair: len(pair[0]))
        if not set(words) & (_COUNTED | (named.VERDICT - named.TEXT)) and all(map(table.present, pair[:2]))
    }
    if not possible or {"id"} & {word for words in pairs for word in words}:
        known = {words: pair for words, pair in pairs.items() if "id" in words and not set(words) & (_COUNTED - {"id"})}
        possible |= {words: pair for words, pair in known.items() if set(words) & named.SYSTEM or not possible}
    texts = next((pair for words, pair in possible.items() if named.is_compared(words)), None)
    systems = next((pair for words, pair in possible.items() if set(words) & named.SYSTEM and pair != texts), None)
    if texts is None and () in possible and table.distinct(possible[()][0]) > FEW:
        texts = possible[()]
    shown = systems or texts or next(iter(possible.values()), None)
    if shown is None:
        return None
    entries: Entries = {"candidate_id": shown[0], "opponent_id": shown[1]}
    if (
        shown == texts
        and (words := (_system_in_name(shown[0]), _system_in_name(shown[1])))
        and shown[2] == named.CHOSEN
        and all(words)
        and words[0] != words[1]
    ):
        entries = {"candidate_id": f"={words[0]}", "opponent_id": f"={words[1]}"}
    if texts is not None and not any(table.is_numeric(name) or "id" in named.tokens(name) for name in texts[:2]):
        entries |= {"text": texts[0], "opponent_text": texts[1]}
    return _Shown(shown, entries)


def _system_in_name(name: str) -> str:
    """Return the system that names a column of its texts ("gpt-4" in ``gpt-4 answer``); empty for chosen, rejected."""
    words = named.tokens(name)
    if {"chosen", "rejected"} & set(words) or len(words) < 2:
        return ""
    return name[: name.lower().rindex(words[-1].lower())].strip(" _-.")


def _who_judged(table: Table, entries: Entries, shown: tuple[str, str, int]) -> Refusal | None:
    """Ask whether a further column of people or models gives the judge; None if there is no such column."""
    if "judge" in entries or {"judge", "dataset", "template", "replicate"} & set(table.given):
        return None
    if (refusal := people_or_judges(table)) is not None:
        return refusal
    for name in named.first_named(table.names, (*named.CANDIDATE, "llm", "provider", "deployment")):
        if name in (*shown[:2], *table.used) or table.distinct(name) < 2 or table.distinct(name) > FEW:
            continue
        options = (("if each is a judge", {"judge": name}), ("if each wrote both candidates", {"dataset": name}))
        models = ", ".join(sorted(set(table.present(name)))[:3])
        return Refusal(f"{name} may be the judge or the author of both candidates ({models})", options)
    return None


def _order_note(table: Table, entries: Entries, reading: Any, shown: tuple[str, str, int]) -> str:
    """Return a note on which candidate counts as shown first; empty if a column gives the order."""
    if "order_known" in table.given or {"shown_first", "swapped"} & {*entries, *table.given}:
        return ""
    if entries.get("order_known") == "=false":
        return f"unknown which was shown first: --map order_known==true if it was always {shown[0]}"
    values = reading["values"] if isinstance(reading, dict) and "values" in reading else {}
    first = next((value for value, side in values.items() if side == "first"), "")
    column = f"{first} = {shown[0]}" if first and first != shown[0] else shown[0]
    return f"{column}, assumed to be shown first (--order-unknown if not)"


def _judge_mapping(table: Table, entries: Entries, name: str, reading: Any, judges: int) -> Entries:
    """Return the mapping of one verdict column."""
    outcome = {} if reading is None else reading if not name else {"winner": reading}
    if "attribute" in entries and "attribute" not in table.given and str(entries["attribute"]).startswith("="):
        table.notes.append(f"attribute {str(entries['attribute'])[1:]} = {name}")
    judge = judge_of_flag(table, name)
    if judge is None and (judges > 1 or named.is_model(name)):
        judge = judge_name(name)
    if not judge:
        return entries | outcome
    table.notes.append(f"judge {judge} = {name}")
    return {"judge": f"={judge}"} | entries | outcome


def _by_attribute(verdicts: Sequence[str]) -> dict[str, Entries]:
    """Return the attribute of each of several verdicts by one judge, if all are named after different ones."""
    words = [[word for word in named.tokens(name) if word in named.ATTRIBUTES] for name in verdicts]
    about = [" ".join(dict.fromkeys(own)) for own in words]
    if len(verdicts) < 2 or not all(about) or len(set(about)) < len(about) or any(map(named.is_model, verdicts)):
        return {}
    return {name: {"attribute": f"={attribute}"} for name, attribute in zip(verdicts, about, strict=True)}


def _which_verdict(
    table: Table, verdicts: Sequence[str], entries: Entries, readings: Mapping[str, Any]
) -> Refusal | None:
    """Ask which of several verdict columns is the judge's, unless each names one, or for one if there is none."""
    if not verdicts and (refusal := refuse_listed(table)) is not None:
        return refusal
    if not verdicts:
        replies = reply_columns(table, entries)
        options = tuple((f"if {name} holds the judge's words", {**entries, "reply": name}) for name in replies[:2])
        people = [(f"to audit the people of {name} as a judge", {**_without(entries, "preference"), "judge": "=people",
                   **_outcome(readings[name])}) for name in readings if name]  # fmt: skip
        options = (*_names_winners(table, entries), *options)
        guess = {**entries, "winner": {"field": "FIELD", "values": {"A": "first", "B": "second", "tie": "tie"}}}
        options = (*options, *people[:1]) or (("with the field that does", guess),)
        return Refusal("no column holds the judge's verdicts", options)
    if len(verdicts) < 2 or all(named.is_model(name) or set(named.tokens(name)) & _JUDGES for name in verdicts):
        return None
    if _by_attribute(verdicts):
        return None
    if (refusal := refuse_listed(table, verdicts)) is not None:
        return refusal
    others = [name for name in verdicts if not named.is_model(name)]
    if len(others) == 1 and len(verdicts) > 2:
        option = (f"if {others[0]} is people's, or the gold label", {"preference": readings[others[0]]})
        return Refusal(f"{', '.join(verdicts)} are all verdicts", (option,))
    options = tuple(
        (
            f"if {name} is the judge's and {other} the humans'",
            entries | {"winner": readings[name], "preference": readings[other]},
        )
        for name, other in (verdicts[:2], verdicts[1::-1])
    )
    return Refusal(f"{' and '.join(verdicts)} are {'both' if len(verdicts) == 2 else 'all'} verdicts", options)


def _names_winners(table: Table, entries: Entries) -> list[tuple[str, Entries]]:
    """Return the reading of a column taken for the judge as its verdicts, if all values name candidates or ties."""
    name = str(entries.get("judge", ""))
    if name not in table.columns or table.distinct(name) < len(named.SIDES[0]):
        return []
    shown = {value for which in ("candidate_id", "opponent_id") for value in table.columns.get(str(entries[which]), [])}
    if not all(value in shown or side_of(value) == "tie" for value in table.present(name)):
        return []
    return [(f"if {name} holds its verdicts", {**entries, "judge": f"={name}", "winner": name})]


def _without(entries: Entries, name: str) -> Entries:
    return {column: expression for column, expression in entries.items() if column != name}


def _outcome(reading: Any) -> Entries:
    """Return the mapping of a reading of verdicts: as probabilities if it has ``p_first``, else as winners."""
    return reading if isinstance(reading, dict) and "p_first" in reading else {"winner": reading}


def _combined(readings: Mapping[str, Any], people: Sequence[str]) -> Entries:
    """Return the verdicts of several people as one expression, with the same meaning of values for all."""
    merged: dict[str, str] = {}
    for name in people:
        merged |= readings[name]["values"] if isinstance(readings[name], dict) else {}
    return {"fields": list(people), "values": merged} if merged else {"fields": list(people)}
