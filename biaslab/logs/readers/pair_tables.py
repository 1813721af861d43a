"""Read tables of pairs: two columns of answers or systems, with verdicts by judges and people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.common_names import side_of
from biaslab.logs.readers.refusals import Entries, Refusal, either_order
from biaslab.logs.readers.rows import NUMERAL
from biaslab.logs.readers.table_columns import (
    FEW,
    GIVEN_OUTCOMES,
    KNOWN,
    LogTable,
    TableReading,
    add_scale,
    context_of,
    fields_of,
    judge_name,
    judged_by_people,
    no_context,
    people_or_judges,
    shared_entries,
)
from biaslab.logs.readers.verdict_columns import (
    is_measure,
    judge_of_flag,
    measure_of,
    of_verdict,
    refuse_listed,
    reply_columns,
    verdict_columns,
)

_SHOWN_THEN = {"shown", "presented", "position"}  # words in names of verdicts that refer to positions as shown
_JUDGES = named.JUDGES | {"llm"}  # words in names of columns that each belong to a judge
_COUNTED = {"id", "len", "length", "words", "chars", "tokens", "score", "rating", "elo", "rank", "cost", "time"}


class _Shown(NamedTuple):
    """The two candidate columns, with the index in `SIDES` of the words that distinguish them, and their mapping."""

    columns: tuple[str, str, int]
    entries: Entries


def of_pairs(table: LogTable, pairs: Mapping[named.Tokens, tuple[str, str, int]]) -> TableReading | Refusal | None:
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


def _first_turn(table: LogTable, shown: tuple[str, str, int]) -> str | None:
    """Return the path to the question in two conversations that start with the same one, or None."""
    pairs = [pair[:2] for pair in named.find_pairs(table.names).values()]
    for one, two in dict.fromkeys((shown[:2], *pairs)):
        asked = [table.rows.values(f"{name}.0.content") for name in (one, two)]
        if asked[0] == asked[1] and all(isinstance(text, str) for text in asked[0]):
            return f"{one}.0.content"
    return None


def _in_one_order(table: LogTable, entries: Entries, shown: tuple[str, str, int]) -> TableReading | Refusal:
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
        as_judge = "" if judged else f", to audit {people[0]} as a judge next to the others"
        options.append(
            (f"{assumption}{as_judge}", entries | one | ({"preference": labels} if labels["fields"] else {}))
        )
    return Refusal(refusal.reason, tuple(options))


def _in_both_orders(
    table: LogTable, entries: Entries, shown: tuple[str, str, int], orders: tuple[str, str]
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


def _candidates(table: LogTable, pairs: Mapping[named.Tokens, tuple[str, str, int]]) -> _Shown | None:
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


def _who_judged(table: LogTable, entries: Entries, shown: tuple[str, str, int]) -> Refusal | None:
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


def _order_note(table: LogTable, entries: Entries, reading: Any, shown: tuple[str, str, int]) -> str:
    """Return a note on which candidate counts as shown first; empty if a column gives the order."""
    if "order_known" in table.given or {"shown_first", "swapped"} & {*entries, *table.given}:
        return ""
    if entries.get("order_known") == "=false":
        return f"unknown which was shown first: --map order_known==true if it was always {shown[0]}"
    values = reading["values"] if isinstance(reading, dict) and "values" in reading else {}
    first = next((value for value, side in values.items() if side == "first"), "")
    column = f"{first} = {shown[0]}" if first and first != shown[0] else shown[0]
    return f"{column}, assumed to be shown first (--order-unknown if not)"


def _judge_mapping(table: LogTable, entries: Entries, name: str, reading: Any, judges: int) -> Entries:
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
    table: LogTable, verdicts: Sequence[str], entries: Entries, readings: Mapping[str, Any]
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


def _names_winners(table: LogTable, entries: Entries) -> list[tuple[str, Entries]]:
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


_SWAPS = {"swap", "swapped", "swapping", "flipped", "reversed", "exchanged", "toggled"}
_BACK = {"first": "candidate", "second": "opponent"}


def order_of(
    table: LogTable, shown: tuple[str, str, int], verdicts: Mapping[str, Any], people: Sequence[str],
    readings: Mapping[str, Any],
) -> Entries | Refusal:  # fmt: skip
    """Return the mapping of the order shown, or a refusal that asks how to read the column that gives it.

    Empty if no column gives the order: then the candidate of the first column is assumed to be shown first. If the
    columns are named by preference (chosen and rejected), the order is unknown instead.
    """
    if {"swapped", "shown_first", "order_known"} & set(table.given):
        return {}
    for name in table.names:
        if name in shown or name in table.used or not table.present(name):
            continue
        words = set(named.tokens(name))
        if not words & named.ORDER and not ("first" in words and words & (named.SYSTEM | named.TEXT)):
            continue
        order = _expression(table, name, shown, words)
        if order is None:
            continue
        named_by_name = bool(verdicts) and all(isinstance(reading, str) for reading in verdicts.values())
        if named_by_name and "…" not in str(order):
            table.notes.append(f"shown first = {name}")
            return order
        return _ask(name, order, shown, verdicts, {person: readings[person] for person in people})
    return {"order_known": "=false"} if shown[2] == named.CHOSEN else {}


def _expression(table: LogTable, name: str, shown: tuple[str, str, int], words: set[str]) -> Entries | None:
    """Return the mapping of a column that says which candidate was shown first; None if its values do not."""
    values = table.present(name)
    rows = zip(table.columns[name], table.columns[shown[0]], table.columns[shown[1]], strict=True)
    by_name = [value in (one, two) for value, one, two in rows if value is not None]
    if sum(by_name) >= KNOWN * len(by_name):
        return {"shown_first": name}
    if table.distinct(name) > FEW:
        return None
    distinct = sorted(set(values))
    flags = {value: _flag(value, shown, distinct) for value in distinct}
    if len(distinct) == 1:
        flag = flags[distinct[0]]
        doubtful = flag == "true" and (words & _SWAPS or not distinct[0].isdigit())
        return {"swapped": name} if doubtful and distinct[0].lower() == "true" else (
            {"swapped": {"field": name, "values": flags}} if doubtful else None)  # fmt: skip
    if all(value.lower() in ("true", "false", "0", "1") for value in distinct):
        return {"swapped": name}
    return {"swapped": {"field": name, "values": {value: flag or "…" for value, flag in flags.items()}}}


def _ask(
    name: str, order: Entries, shown: tuple[str, str, int], verdicts: Mapping[str, Any], people: Mapping[str, Any]
) -> Refusal:
    column = next(iter(verdicts), "")
    reading = verdicts.get(column)
    sides = dict(reading["values"]) if isinstance(reading, dict) and "values" in reading else {}
    seen: Entries = {"winner": {"field": column, "values": sides}} if sides and column else {}
    back: Entries = (
        {"winner": {"field": column, "values": {value: _BACK.get(side, side) for value, side in sides.items()}}}
        if sides and column else {}
    )  # fmt: skip
    gold = next((label for label in people.values() if isinstance(label, dict) and "values" in label), None)
    if gold is not None and len(people) == 1:  # human labels refer to columns, regardless of the order shown
        labels = {value: _BACK.get(side, side) for value, side in gold["values"].items()}
        seen, back = (each | {"preference": {**gold, "values": labels}} for each in (seen, back))
    always: tuple[str, Entries] = (f"{shown[0]} was always shown first", {"order_known": "=true"})
    if isinstance(reading, dict) and "p_first" in reading:  # a probability refers to a column, not to a position
        return Refusal(f"{name} gives the order shown", (always,))
    swapped = "shown second where the column says so" if "swapped" in order else "shown first where it is named"
    if isinstance(reading, str) or not sides:
        readings = [(f"{shown[0]} is {swapped}", order | back)]
    else:
        readings = [
            (f"{shown[0]} is {swapped}, verdicts name positions", order | seen),
            (f"{shown[0]} is {swapped}, verdicts name columns", order | back),
        ]
    why = f"{name} gives the order shown, but its relation to {shown[0]} is unclear"
    return Refusal(why, (*readings, always))


def _flag(value: str, shown: tuple[str, str, int], distinct: Sequence[str]) -> str | None:
    """Return whether a value says that the second candidate was shown first: "true", "false", or None."""
    low = value.lower()
    if set(distinct) == {"1", "2"}:
        return "false" if value == "1" else "true"
    if low in ("true", "false", "0", "1"):
        return {"0": "false", "1": "true"}.get(low, low)
    one, two = named.SIDES[shown[2]]
    marks = [word for word in (*named.tokens(low), *low) if word in (one, two, "a", "b", "1", "2")]
    places = {one: "false", two: "true", "a": "false", "b": "true", "1": "false", "2": "true"}
    if low in ("original", "normal", "forward", "first", shown[0].lower(), "unswapped", "not swapped"):
        return "false"
    if low in ("swapped", "reversed", "reverse", "backward", "second", shown[1].lower(), "swap", "flipped"):
        return "true"
    words = named.tokens(low)
    known = {one, two, "a", "b", "1", "2", "ab", "ba", "model", "answer", "response", "output", "first", "then",
             "12", "21"}  # fmt: skip
    return places[marks[0]] if marks and set(words) <= known else None


_SIDE_MEASURES = {"prob", "probability", "p", "win", "wins", "won", "better", "preferred", "prefers", "pref", "winner",
                  "score", "scores", "rating", "ratings", "reward", "rewards", "logprob", "likelihood", "votes",
                  "vote"}  # fmt: skip
_DEGREES = named.SCORE | named.VERDICT | {"strength", "margin", "degree", "gap", "difference", "diff", "delta"}
_CHOSEN_WINS = ("results", "result", "correct", "accuracy", "is_correct")  # RewardBench's: 1 where the chosen one wins
_RANKS = {"rank", "ranks", "ranking", "rankings", "order"}
_SURE = 1e-6


def measure_of_sides(table: LogTable, shown: tuple[str, str, int], entries: Entries) -> Entries | Refusal | None:
    """Return how to read columns with a number or probability per side, or a flag of the winner; None without any."""
    taken = {*fields_of(entries), *table.used}
    free = [name for name in table.names if name not in taken and not set(named.tokens(name)) & named.HUMAN]
    for words, (one, two, place) in named.find_pairs(free).items():
        if place == shown[2] and set(words) & _SIDE_MEASURES and all(is_measure(table, name) for name in (one, two)):
            return _of_both(table, one, two, entries)
    for name in free:
        listed = [value for value in table.rows.values(name) if value is not None]
        if listed and all(isinstance(value, list) and len(value) == 2 for value in listed):
            numbers = [each for value in listed for each in value]
            if all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
                if set(named.tokens(name)) & _RANKS:
                    lower = {**entries, "winner": f"{name}.1 > {name}.0"}
                    return Refusal(
                        f"{name} has two ranks", (("if the best comes first, or has the lower rank", lower),)
                    )
                greater = {**entries, "winner": f"{name}.0 > {name}.1"}
                reason = f"{name} has a number for each side"
                alone = _scored_in_lists(name, entries)
                return Refusal(reason, (("if the judge saw both, and the higher one wins", greater), *alone))
    if shown[2] == named.CHOSEN:
        judged = [name for name in named.first_named(free, _CHOSEN_WINS) if _within(table, name, 0, 1)]
        judged = judged or [name for name in free if "correct" in named.tokens(name) and _within(table, name, 0, 1)]
        if judged:
            return _of_agreement(table, judged[0])
    if (of_one := _of_one(table, free, shown[2])) is not None:
        return of_one
    return _ranks(table, free, shown, entries) or _degrees(table, free, shown, entries)


def _of_agreement(table: LogTable, name: str) -> Entries:
    """Return how to read a number or a flag that says whether the judge agrees with people's choice."""
    known: Entries = {"order_known": "=false", "preference": "=candidate"}
    if table.is_numeric(name):
        return {"p_first": name, **known}
    words = {1.0: "candidate", 0.0: "opponent"}
    return {
        "winner": {"field": name, "values": {v: words[measure_of(v)] for v in sorted(set(table.present(name)))}},
        **known,
    }


def _scored_in_lists(name: str, entries: Entries) -> list[tuple[str, Entries]]:
    """Return the reading of a list of two scores next to a list of two answers, each judged on its own."""
    answers = str(entries["candidate_id"]).rpartition(".")[0]
    if not answers or str(entries["opponent_id"]).rpartition(".")[0] != answers:
        return []
    listed = {"explode": f"{answers}+{name}", "context_id": entries["context_id"], "candidate_id": answers}
    return [("if each answer was scored alone", listed | {"text": answers, "score": name})]


def _degrees(
    table: LogTable, free: Sequence[str], shown: tuple[str, str, int], entries: Entries
) -> Entries | Refusal | None:
    """Return how a column of degrees of preference is read: of both signs, or a few whole numbers."""
    signed = [name for name in free if set(named.tokens(name)) & _DEGREES and _has_both_signs(table, name)]
    degrees = signed or [name for name in free if set(named.tokens(name)) & _DEGREES and _is_scale(table, name)]
    if len(degrees) != 1:
        return None
    reading = of_verdict(table, degrees[0], entries, shown)
    return reading if isinstance(reading, Refusal) else {"winner": reading}


def _ranks(table: LogTable, free: Sequence[str], shown: tuple[str, str, int], entries: Entries) -> Refusal | None:
    """Ask whether the lower of two ranks wins."""
    for words, (one, two, place) in named.find_pairs(free).items():
        if place == shown[2] and set(words) & _RANKS and table.is_numeric(one) and table.is_numeric(two):
            lower = ("if 1 is the best", entries | {"winner": f"{two} > {one}"})
            return Refusal(f"{one} and {two} are ranks", (lower,))
    return None


def _is_scale(table: LogTable, name: str) -> bool:
    """Return whether a column holds a few whole numbers, as degrees of preference do."""
    numbers = [float(value) for value in table.valued(name) if NUMERAL.fullmatch(value)]
    whole = bool(numbers) and all(number.is_integer() for number in numbers) and min(numbers) >= 0
    return table.is_numeric(name) and whole and 2 <= len(set(numbers)) <= FEW and max(numbers) <= FEW


def _has_both_signs(table: LogTable, name: str) -> bool:
    numbers = [float(value) for value in table.present(name) if NUMERAL.fullmatch(value)]
    return table.is_numeric(name) and bool(numbers) and min(numbers) < 0 < max(numbers)


def _of_both(table: LogTable, one: str, two: str, entries: Entries) -> Entries | Refusal:
    """Return how to read two columns with a number per side: as probabilities, flags, or scores to compare."""
    pairs = [
        (measure_of(a), measure_of(b)) for a, b in zip(table.columns[one], table.columns[two], strict=True) if a and b
    ]
    if all(abs(a + b - 1) < _SURE for a, b in pairs) and not all({a, b} == {0.0, 1.0} for a, b in pairs):
        return {"p_first": one}
    greater = {"winner": f"{one} > {two}"}
    if {value for pair in pairs for value in pair} <= {0.0, 1.0} and (1.0, 1.0) not in pairs:
        ties = [name for name in table.names if {"tie", "draw"} & set(named.tokens(name)) and is_measure(table, name)]
        marked = [table.columns[name] for name in ties[:1]]
        empty = zip(table.columns[one], table.columns[two], *marked, strict=True)
        if all(any(value and measure_of(value) for value in row) for row in empty):
            return greater
        reason = f"{one} and {two} are both 0 in some rows, and no column marks this as a tie"
        return Refusal(reason, (("if it is one", entries | greater),))
    reason = f"{one} and {two} are numbers for each side"
    both = ("if the judge saw both, and the higher one wins", entries | greater)
    return Refusal(reason, (both, *_scored_alone(table, (one, two), entries)))


def _scored_alone(table: LogTable, columns: tuple[str, str], entries: Entries) -> list[tuple[str, Entries]]:
    """Return the reading of each side's scores as those of answers that the judge saw alone, if they have a scale."""
    made: Entries = {name: value for name, value in entries.items() if name in ("context_id", "judge", "template")}
    if not all(set(named.tokens(name)) & named.SCORE for name in columns) or add_scale(table, made, columns):
        return []
    table.notes.pop()  # the note applies only to a table that is read
    return [
        (f"if each answer was scored alone, those of {name}", made | {"candidate_id": entries[which], "score": name})
        for name, which in zip(columns, ("candidate_id", "opponent_id"), strict=True)
    ]


def _of_one(table: LogTable, names: Sequence[str], place: int) -> Entries | None:
    """Return how to read a column with the probability or flag that one side wins, such as ``a_is_better``, or None."""
    one, two = named.SIDES[place]
    for name in names:
        words = set(named.tokens(name))
        if not words & _SIDE_MEASURES - named.SCORE or len(words & {one, two}) != 1 or not _within(table, name, 0, 1):
            continue
        if all(value.lower() in ("true", "false") for value in table.present(name)):
            won, lost = ("first", "second") if one in words else ("second", "first")
            values = {value: won if value.lower() == "true" else lost for value in sorted(set(table.present(name)))}
            return {"winner": {"field": name, "values": values}}
        return {"p_first": name if one in words else {"field": name, "values": {"0": "1", "1": "0"}}}
    return None


def _within(table: LogTable, name: str, low: float, high: float) -> bool:
    return is_measure(table, name) and all(low <= measure_of(value) <= high for value in table.present(name))
