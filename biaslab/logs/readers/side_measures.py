"""Read columns with a number or probability for each of two sides, or ranks or degrees of preference."""

from __future__ import annotations

from collections.abc import Sequence

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.field_values import NUMERAL
from biaslab.logs.readers.pair_verdicts import is_measure, measure_of, of_verdict
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.score_scales import add_scale
from biaslab.logs.readers.table_columns import FEW, Table, fields_of

_SIDE_MEASURES = {"prob", "probability", "p", "win", "wins", "won", "better", "preferred", "prefers", "pref", "winner",
                  "score", "scores", "rating", "ratings", "reward", "rewards", "logprob", "likelihood", "votes",
                  "vote"}  # fmt: skip
_DEGREES = named.SCORE | named.VERDICT | {"strength", "margin", "degree", "gap", "difference", "diff", "delta"}
_CHOSEN_WINS = ("results", "result", "correct", "accuracy", "is_correct")  # RewardBench's: 1 where the chosen one wins
_RANKS = {"rank", "ranks", "ranking", "rankings", "order"}
_SURE = 1e-6


def measure_of_sides(table: Table, shown: tuple[str, str, int], entries: Entries) -> Entries | Refusal | None:
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
                said = f"{name} has a number for each side"
                alone = _scored_in_lists(name, entries)
                return Refusal(said, (("if the judge saw both, and the higher one wins", greater), *alone))
    if shown[2] == named.CHOSEN:
        judged = [name for name in named.first_named(free, _CHOSEN_WINS) if _within(table, name, 0, 1)]
        judged = judged or [name for name in free if "correct" in named.tokens(name) and _within(table, name, 0, 1)]
        if judged:
            return _of_agreement(table, judged[0])
    if (of_one := _of_one(table, free, shown[2])) is not None:
        return of_one
    return _ranks(table, free, shown, entries) or _degrees(table, free, shown, entries)


def _of_agreement(table: Table, name: str) -> Entries:
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
    """Return the reading of a list of two scores beside a list of two answers, each of which the judge saw alone."""
    answers = str(entries["candidate_id"]).rpartition(".")[0]
    if not answers or str(entries["opponent_id"]).rpartition(".")[0] != answers:
        return []
    listed = {"explode": f"{answers}+{name}", "context_id": entries["context_id"], "candidate_id": answers}
    return [("if each answer was scored alone", listed | {"text": answers, "score": name})]


def _degrees(
    table: Table, free: Sequence[str], shown: tuple[str, str, int], entries: Entries
) -> Entries | Refusal | None:
    """Return how a column of degrees of preference is read: of both signs, or a few whole numbers."""
    signed = [name for name in free if set(named.tokens(name)) & _DEGREES and _has_both_signs(table, name)]
    degrees = signed or [name for name in free if set(named.tokens(name)) & _DEGREES and _is_scale(table, name)]
    if len(degrees) != 1:
        return None
    reading = of_verdict(table, degrees[0], entries, shown)
    return reading if isinstance(reading, Refusal) else {"winner": reading}


def _ranks(table: Table, free: Sequence[str], shown: tuple[str, str, int], entries: Entries) -> Refusal | None:
    """Ask whether the lower of two ranks wins."""
    for words, (one, two, place) in named.find_pairs(free).items():
        if place == shown[2] and set(words) & _RANKS and table.is_numeric(one) and table.is_numeric(two):
            lower = ("if 1 is the best", entries | {"winner": f"{two} > {one}"})
            return Refusal(f"{one} and {two} are ranks", (lower,))
    return None


def _is_scale(table: Table, name: str) -> bool:
    """Return whether a column holds a few whole numbers, as degrees of preference do."""
    numbers = [float(value) for value in table.valued(name) if NUMERAL.fullmatch(value)]
    whole = bool(numbers) and all(number.is_integer() for number in numbers) and min(numbers) >= 0
    return table.is_numeric(name) and whole and 2 <= len(set(numbers)) <= FEW and max(numbers) <= FEW


def _has_both_signs(table: Table, name: str) -> bool:
    numbers = [float(value) for value in table.present(name) if NUMERAL.fullmatch(value)]
    return table.is_numeric(name) and bool(numbers) and min(numbers) < 0 < max(numbers)


def _of_both(table: Table, one: str, two: str, entries: Entries) -> Entries | Refusal:
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
        said = f"{one} and {two} are both 0 in some rows, and no column marks this as a tie"
        return Refusal(said, (("if it is one", entries | greater),))
    said = f"{one} and {two} are numbers for each side"
    both = ("if the judge saw both, and the higher one wins", entries | greater)
    return Refusal(said, (both, *_scored_alone(table, (one, two), entries)))


def _scored_alone(table: Table, columns: tuple[str, str], entries: Entries) -> list[tuple[str, Entries]]:
    """Return the reading of each side's scores as those of answers that the judge saw alone, if they have a scale."""
    made: Entries = {name: said for name, said in entries.items() if name in ("context_id", "judge", "template")}
    if not all(set(named.tokens(name)) & named.SCORE for name in columns) or add_scale(table, made, columns):
        return []
    table.notes.pop()  # the note applies only to a table that is read
    return [
        (f"if each answer was scored alone, those of {name}", made | {"candidate_id": entries[which], "score": name})
        for name, which in zip(columns, ("candidate_id", "opponent_id"), strict=True)
    ]


def _of_one(table: Table, names: Sequence[str], place: int) -> Entries | None:
    """Return how to read a column with the probability or flag that one side wins, such as ``a_is_better``, or None."""
    one, two = named.SIDES[place]
    for name in names:
        words = set(named.tokens(name))
        if not words & _SIDE_MEASURES - named.SCORE or len(words & {one, two}) != 1 or not _within(table, name, 0, 1):
            continue
        if all(value.lower() in ("true", "false") for value in table.present(name)):
            won, lost = ("first", "second") if one in words else ("second", "first")
            said = {value: won if value.lower() == "true" else lost for value in sorted(set(table.present(name)))}
            return {"winner": {"field": name, "values": said}}
        return {"p_first": name if one in words else {"field": name, "values": {"0": "1", "1": "0"}}}
    return None


def _within(table: Table, name: str, low: float, high: float) -> bool:
    return is_measure(table, name) and all(low <= measure_of(value) <= high for value in table.present(name))
