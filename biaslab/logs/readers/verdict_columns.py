"""Find the verdict columns of tables of pairs, interpret their values, and refuse those that are ambiguous."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.common_names import CHOSEN, meanings, side_of
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.refusals import Entries, Refusal
from biaslab.logs.readers.rows import NUMERAL, is_no_value, items_in
from biaslab.logs.readers.table_columns import (
    FEW,
    KNOWN,
    OUTCOMES,
    LogTable,
    fields_of,
    mostly_sides,
    names_the_winner,
)

#: Words in names of columns that accompany a verdict.
_BESIDE = {"reason", "reasons", "reasoning", "rationale", "explanation", "comment", "confidence", "strength", "why",
           "justification", "raw", "time", "count", "type", "prompt", "statement", "elaboration"}  # fmt: skip
_ABOUT = {"id", "agent", "status", "user", "version", "at", "model"}  # other fields of an object with a verdict
_REPLIES = {"raw", "reply", "output", "completion", "evaluation", "review", "judge", "critique", "explanation"}
_LONG = 10  # mean characters above which texts may be replies
_MOST_WORDS, _LONGEST_TIE = 6, 20  # verdicts, and characters of one that may mean a tie
_FROM_0_OR_TIES = {"0", "1", "2"}  # places in a list counted from 0, with 2 for a tie, or from 1, with 0 for a tie
_NUMBERS_OF_SIDES = {"-1", "0", "1", "2"}


def verdict_columns(table: LogTable, entries: Entries, shown: tuple[str, str, int]) -> tuple[list[str], list[str]]:
    """Return the columns of verdicts by judges, and those of verdicts by people.

    A column counts as one by its name, because its values name sides, or because it says whether one side wins.
    """
    taken = {*fields_of(entries), *table.used}
    verdicts: list[str] = []
    people: list[str] = []
    unread: list[str] = []
    flags = _flags_of_sides(table, shown)
    beside_texts = {
        name for *pair, place in named.find_pairs(table.names).values() if place == named.CHOSEN for name in pair
    }
    for name in table.names:
        words = set(named.tokens(name))
        if "judge" in words:
            words -= {"reference", "user"}
        if name not in taken and (name in flags or (shown[2] == named.CHOSEN and names_the_winner(table, name))):
            (people if words & named.HUMAN else verdicts).append(name)
            continue
        if name in taken or name in beside_texts or _is_about(name, words) or _is_flag_of_ties(table, name):
            continue
        is_verdict = bool(words & named.VERDICT) or name.lower() == "gold"
        if not table.present(name) or (table.distinct(name) > FEW and not _names_systems(words)):
            continue
        sides = mostly_sides(table, name) or _names_both(table, name)
        if (words & named.HUMAN or named.also_names_a_person(table.names, name)) and (
            is_verdict or sides or _names_candidates(table, name, entries) or _has_side_numbers(table, name, words)
        ):
            people.append(name)
        elif sides:
            verdicts.append(name)
        elif is_verdict:
            verdicts.append(name)
            if not any(map(side_of, table.present(name))):
                unread.append(name)
    plain = [name for name in verdicts if name not in unread]
    words_only = [name for name in unread if not table.is_numeric(name) and not _names_candidates(table, name, entries)]
    return ([name for name in verdicts if name not in words_only] if plain else verdicts), people


def _flags_of_sides(table: LogTable, shown: tuple[str, str, int]) -> list[str]:
    """Return the columns that say whether one side wins; a single one of 0 and 1 may be a probability."""
    flags = [name for name in table.names if sides_of_flag(table, name, shown) is not None and is_alone(table, name)]
    judged = [name for name in flags if not set(named.tokens(name)) & named.HUMAN]
    if shown[2] != named.CHOSEN and len(judged) == 1 and table.is_numeric(judged[0]):
        flags.remove(judged[0])
    return flags


def _is_about(name: str, words: set[str]) -> bool:
    """Return whether a column's name suggests a companion of a verdict: an order, a reason, one side, an index."""
    side = bool(words & {"a", "b"}) and len(words) > 1
    within = "." in name and bool(set(named.tokens(name.rpartition(".")[2])) & _ABOUT)
    return bool(words & (named.ORDER | _BESIDE)) or side or within or name.endswith("#")


def _has_side_numbers(table: LogTable, name: str, words: set[str]) -> bool:
    """Return whether a column named only after a person, such as ``annotator1``, contains numbers of sides."""
    plain = all(word in named.HUMAN or word.isdigit() for word in words)
    return plain and table.distinct(name) > 1 and set(table.present(name)) <= _NUMBERS_OF_SIDES


def _names_both(table: LogTable, name: str) -> bool:
    """Return whether a column's few values name both sides, with a single further value, which may mean a tie."""
    values = set(table.present(name))
    sides = {value: side_of(value) for value in values}
    others = [value for value, side in sides.items() if side is None]
    both = {"first", "second"} <= set(sides.values()) and not table.is_numeric(name)
    return both and len(others) == 1 and len(values) <= _MOST_WORDS and len(others[0]) <= _LONGEST_TIE


def of_verdict(table: LogTable, name: str, entries: Entries, shown: tuple[str, str, int]) -> Entries | str | Refusal:
    """Return the expression that reads a column of verdicts, or a refusal if they are ambiguous."""
    if (flag := sides_of_flag(table, name, shown)) is not None and is_alone(table, name):
        return {"field": name, "values": flag}
    values = Counter(value for value in table.present(name) if side_of(value) is not None or not is_no_value(value))
    values = values or Counter(table.present(name))
    candidates = {*table.present(shown[0]), *table.present(shown[1])}
    by_name = sum(n for value, n in values.items() if value in candidates or side_of(value) == "tie")
    sides = None if shown[0].endswith(".0") and set(values) >= _FROM_0_OR_TIES else meanings(values, shown[2])
    by_side = 0 if sides is None else sum(n for value, n in values.items() if sides.get(value))
    total = sum(values.values())
    if by_name >= KNOWN * total and any(value in candidates for value in values):
        if by_side >= KNOWN * total and sides is not None and any(s in ("first", "second") for s in sides.values()):
            as_side: Entries = entries | {"winner": {"field": name, "values": sides}}
            options = (("as places", as_side), ("as names of candidates", entries | {"winner": name}))
            return Refusal(f"{name} may name a position or a candidate ({most_common(values)})", options)
        tied = {value: "tie" for value in values if value not in candidates and side_of(value) == "tie"}
        if set(tied) - {"tie"}:
            return {"field": name, "values": {value: value for value in sorted(candidates & set(values))} | tied}
        return name
    columns = _sides_by_name(values, shown, entries)
    if sides is not None or columns:
        sides = {value: side for value in values if (side := columns.get(value) or (sides or {}).get(value))}
        known = sum(n for value, n in values.items() if value in sides)
        if known >= KNOWN * total and set(sides.values()) - {"tie"}:
            return {"field": name, "values": dict(sorted(sides.items()))}
    return unclear(name, values, entries, shown)


def reply_columns(table: LogTable, entries: Entries) -> list[str]:
    """Return the columns that may contain a judge's replies."""
    taken = {*fields_of(entries), *table.used}
    return [
        name
        for name in table.names
        if name not in taken and set(named.tokens(name)) & (named.VERDICT | _REPLIES)
        and not table.is_numeric(name) and sum(map(len, table.present(name))) > _LONG * len(table.present(name)) > 0
    ]  # fmt: skip


def _is_flag_of_ties(table: LogTable, name: str) -> bool:
    return bool({"tie", "ties", "draw"} & set(named.tokens(name))) and is_measure(table, name)


def _names_systems(words: set[str]) -> bool:
    return bool(words & {"winner", "preferred", "preference", "better", "best", "chosen"})


def _names_candidates(table: LogTable, name: str, entries: Entries) -> bool:
    names = {value for column in fields_of(entries) if column in table.columns for value in table.present(column)}
    names |= {str(entries.get(which, "")).removeprefix("=") for which in ("candidate_id", "opponent_id")}
    values = table.present(name)
    return 2 * sum(value in names for value in values) >= len(values)


def _sides_by_name(values: Counter[str], shown: tuple[str, str, int], entries: Entries) -> dict[str, str]:
    """Return the meaning of values that repeat the names of the two columns, or of the systems in these names."""
    meant = ("candidate", "opponent") if shown[2] == named.CHOSEN else ("first", "second")
    called: dict[str, str] = dict(OUTCOMES) if shown[2] == named.CHOSEN else {}
    for name, which, side in zip(shown[:2], ("candidate_id", "opponent_id"), meant, strict=True):
        system = str(entries[which])
        called |= {name.lower(): side}
        called |= {system[1:].lower(): system[1:]} if system.startswith("=") else {}
    sides = {value: called[value.lower()] for value in values if value.lower() in called}
    ties = {value: "tie" for value in values if side_of(value) == "tie"}
    return ties | sides if sides else {}


def is_measure(table: LogTable, name: str) -> bool:
    """Return whether all values of a column are numbers or flags."""
    values = table.present(name)
    return bool(values) and all(measure_of(value) is not None for value in values)


def measure_of(text: str) -> Any:
    """Return a number, with 1 and 0 for true and false or yes and no; None for other texts."""
    word = text.lower()
    return {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}.get(
        word, float(text) if NUMERAL.fullmatch(text) else None
    )


_MOST_VERDICTS = 6  # maximum number of different verdicts considered
_BRACKETS = re.compile(r"\[\[\W{0,3}[ABC]\b")


def unclear(name: str, values: Counter[str], entries: Entries, shown: tuple[str, str, int]) -> Refusal:
    """Refuse a column of ambiguous verdicts, with a mapping for each interpretation.

    Parameters
    ----------
    name : str
        The column of verdicts.
    values : Counter
        Counts of its values.
    entries : dict
        The mapping of the other columns.
    shown : tuple of (str, str, int)
        The two candidate columns, and the index in `common_names.SIDES` of the words that distinguish their names.
    """
    if shown[2] == CHOSEN:  # names that say nothing about the order
        entries = entries | {"order_known": "=false"}
    numbers = sorted({float(value.removesuffix("%")) for value in values if NUMERAL.fullmatch(value.removesuffix("%"))})
    counted = sum(n for value, n in values.items() if NUMERAL.fullmatch(value.removesuffix("%")))
    if counted >= KNOWN * values.total():
        return _of_numbers(name, numbers, entries, shown)
    options = _guesses(name, values, entries, shown)
    if len(values) > FEW or sum(n for value, n in values.items() if _BRACKETS.search(value)) >= KNOWN * values.total():
        options = [("if it holds the judge's words", entries | {"reply": name})]
    return Refusal(
        f"{name} contains {most_common(values)}, which names neither a position nor a candidate", tuple(options)
    )


def _guesses(
    name: str, values: Counter[str], entries: Entries, shown: tuple[str, str, int]
) -> list[tuple[str, Entries]]:
    """Return the interpretations of verdicts with one or two unknown words; one with dots to fill in if more."""
    sides = {value: side for value, _ in values.most_common(_MOST_VERDICTS) if (side := side_of(value)) is not None}
    other = [value for value, _ in values.most_common(_MOST_VERDICTS) if value not in sides]

    def option(assumption: str, meanings: Mapping[str, str]) -> tuple[str, Entries]:
        return assumption, entries | {"winner": {"field": name, "values": {**sides, **meanings}}}

    if len(other) == 1 and {"first", "second"} <= set(sides.values()) and "tie" not in sides.values():
        return [option(f"if {other[0]} is a tie", {other[0]: "tie"})]
    if len(other) == 2 and not {"first", "second"} & set(sides.values()):
        one, two = other
        return [option(f"if {one} is {shown[0]} and {two} is {shown[1]}", {one: "first", two: "second"}),
                option(f"if {two} is {shown[0]} and {one} is {shown[1]}", {one: "second", two: "first"})]  # fmt: skip
    return [option("with first, second or tie for dots", dict.fromkeys(other, "…"))]


def _of_numbers(name: str, numbers: Sequence[float], entries: Entries, shown: tuple[str, str, int]) -> Refusal:
    low, high = numbers[0], numbers[-1]
    if not all(number.is_integer() for number in numbers) or high > FEW or -low > FEW:
        return _of_shares(name, _ends(low, high), entries, shown)
    ranks = [int(number) for number in numbers]
    readings, reason = _readings(ranks, *shown[:2])
    options = [
        (words, entries | {"winner": {"field": name, "values": {str(k): side for k, side in sides.items()}}})
        for words, sides in readings
    ]
    return Refusal(f"{name} {reason}", tuple(options))


def _ends(low: float, high: float) -> tuple[float, float]:
    """Return the first usual range that contains the numbers, else their own minimum and maximum."""
    usual = ((0, 1), (1, 2), (-1, 1), (0, 100))
    return next(((least, most) for least, most in usual if least <= low and high <= most), (low, high))


def _readings(ranks: Sequence[int], first: str, second: str) -> tuple[list[tuple[str, dict[int, str]]], str]:
    """Return the interpretations of a few whole numbers as verdicts on two sides, and what is unclear about them."""
    if set(ranks) <= {0, 1}:
        flags = [
            ("counted from 0", {0: "first", 1: "second"}),
            ("1 means that the first wins", {0: "second", 1: "first"}),
        ]
        return flags, "is 0 or 1, which may be positions or flags"
    if set(ranks) <= {0, 1, 2} and 0 in ranks:
        from_0 = {0: "first", 1: "second", 2: "tie"}
        counts = [("counted from 0", from_0), ("0 is a tie", {0: "tie", 1: "first", 2: "second"})]
        return counts, "is 0, 1 or 2, which may be counted from 0 or have 0 for a tie"
    end = max(-ranks[0], ranks[-1])
    places = range(-end, end + 1) if ranks[0] < 0 else range(min(ranks[0], 1), max(ranks[-1], 2) + 1)
    middle = (places[0] + places[-1]) / 2
    rising = {at: "tie" if at == middle else "first" if at < middle else "second" for at in places}
    falling = {at: {"first": "second", "second": "first"}.get(side, side) for at, side in rising.items()}
    readings = [(f"if {places[0]} is {first} and {places[-1]} is {second}", rising),
                (f"if {places[0]} is {second} and {places[-1]} is {first}", falling)]  # fmt: skip
    if list(places) == [1, 2, 3]:
        readings.append(("if 3 is a tie", {1: "first", 2: "second", 3: "tie"}))
    if list(places) == [1, 2]:
        readings[1] = ("counted from 0, and 2 is a tie", {0: "first", 1: "second", 2: "tie"})
    if set(ranks) == {-1, 0, 1}:
        readings.append(("counted from 0, and -1 is a tie", {0: "first", 1: "second", -1: "tie"}))
    return readings, f"ranges from {ranks[0]} to {ranks[-1]}, and it is unclear which end stands for which candidate"


def _of_shares(name: str, ends: tuple[float, float], entries: Entries, shown: tuple[str, str, int]) -> Refusal:
    """Refuse a column of numbers that may be the probability of either candidate, with both interpretations."""
    low, high = (f"{end:g}" for end in ends)
    first: Any = name if ends == (0, 1) else {"field": name, "values": {low: "0", high: "1"}}
    second = {"field": name, "values": {low: "1", high: "0"}}
    options = [(f"the probability of {shown[0]}", entries | {"p_first": first}),
               (f"the probability of {shown[1]}", entries | {"p_first": second})]  # fmt: skip
    if ends == (1, 2):  # as AlpacaEval counts
        options.reverse()
    return Refusal(f"{name} ranges from {low} to {high}, and it is unclear for which candidate", tuple(options))


def most_common(values: Counter[str]) -> str:
    """Return the most common values of a column, for a message."""
    return ", ".join(value if len(value) <= 30 else f"{value[:30]}…" for value, _ in values.most_common(4))


BASELINES = frozenset(["baseline", "base", "reference", "ref", "control", "opponent", "competitor", "old", "before",
                       "previous", "original", "production", "champion"])  # fmt: skip
_CHALLENGERS = frozenset(["candidate", "new", "treatment", "ours", "challenger", "finetuned", "tuned", "after",
                          "variant", "test", "experiment"])  # fmt: skip
_PREFERS = frozenset(["prefers", "prefer", "preferred", "favors", "favours", "favored", "favoured"])
_BEATS = frozenset(["beats", "beat", "outperforms"])
_WINS = frozenset(["better", "wins", "win", "won", "superior", "winner", "winning"]) | _PREFERS | _BEATS
_NOUNS = ("winner", "better", "preferred", "winning")
_OVER = frozenset(["than", "over", "against", "vs", "versus", "to"])
_FILLING = frozenset(["is", "was", "does", "did", "has", "the", "overall", "flag"]) | named.HUMAN
_NO_TEXT = named.VERDICT | named.HUMAN | {"reason", "reasoning", "rationale", "explanation", "comment", "judge",
                                          "evaluator", "grader", "id", "category", "split"}  # fmt: skip
_FLAGS = {"yes": True, "y": True, "true": True, "t": True, "1": True, "no": False, "n": False, "false": False,
          "f": False, "0": False}  # fmt: skip
_HALF = ("0.5", ".5", "0.50")


class _Claim(NamedTuple):
    """Words in the name of a flag for the candidate that wins, and for the one that loses; either may be empty."""

    winner: tuple[str, ...]
    loser: tuple[str, ...]


def is_flag(table: LogTable, name: str) -> bool:
    """Return whether a column is named after winning, and contains yes and no, true and false, or 1 and 0."""
    if not set(named.tokens(name)) & _WINS or name in table.used:
        return False
    values = [value.strip().lower() for value in table.present(name) if not is_no_value(value)]
    flags = [value for value in values if value in _FLAGS]
    ties = sum(value in _HALF or (value not in _FLAGS and side_of(value) == "tie") for value in values)
    return bool(flags) and len(flags) + ties >= KNOWN * len(values)


def sides_of_flag(table: LogTable, name: str, shown: tuple[str, str, int]) -> dict[str, str] | None:
    """Return the meaning of a flag's values for two candidate columns; None if it does not name one of them.

    Parameters
    ----------
    table : Table
        The records.
    name : str
        The flag.
    shown : tuple of (str, str, int)
        The two candidate columns, and the index in `common_names.SIDES` of the words that distinguish their names.
    """
    if not is_flag(table, name) or (name.lower() in _NOUNS and table.is_numeric(name)):  # 1 may be a place
        return None
    claim, places = _claim(name), named.SIDES[shown[2]]
    one, two = (_own_words(mine, other) for mine, other in (shown[:2], shown[1::-1]))
    if shown[2] != named.CHOSEN:
        one, two = {places[0]}, {places[1]}
    wins = _which(claim.winner, one, two)
    loses = _which(claim.loser, one, two)
    side = wins if wins is not None else 1 - loses if loses is not None else None
    if side is None and not claim.winner and not claim.loser and set(named.tokens(shown[1])) & BASELINES:
        side = 0
    if side is None or (wins is not None and wins == loses):
        return None
    words = ("candidate", "opponent") if shown[2] == named.CHOSEN else ("first", "second")
    return _meant(table.present(name), words[side], words[1 - side])


def is_alone(table: LogTable, name: str) -> bool:
    """Return whether no flag is next to one for the other candidate, such as ``b_wins`` next to ``a_wins``."""
    return not any(name in pair[:2] for pair in named.find_pairs(table.names).values())


def judge_of_flag(table: LogTable, name: str) -> str | None:
    """Return the judge in the name of a flag, as in ``gpt-4o prefers B``; "" if it names none, None for no flag."""
    if not is_flag(table, name):
        return None
    words = named.tokens(name)
    at = next(place for place, word in enumerate(words) if word in _WINS)
    if words[at] not in _PREFERS or at == 0 or len(words) == at + 1:
        return ""
    head = name[: name.lower().index(words[at])].strip(" _-.:/")
    return "" if set(words[:at]) <= _FILLING | {"judge", "llm", "model", "ai"} else head


def by_flag(table: LogTable) -> dict[named.Tokens, tuple[str, str, int]]:
    """Return the columns of a candidate and of the one that it is compared with, if a flag says which of them wins."""
    for name in table.names:
        if not is_flag(table, name):
            continue
        claim = _claim(name)
        possible = [other for other in table.names if other != name and _may_be_compared(table, other, claim)]
        one = _only(possible, claim.winner) or _only(_without(possible, claim.loser), _CHALLENGERS)
        two = _only([other for other in possible if other != one], claim.loser)
        two = two or _opponent(one, [other for other in possible if other != one], claim)
        one = one or _only([other for other in possible if other != two], ())
        if one and two and one != two:
            if set(named.tokens(one)) & BASELINES and not set(named.tokens(two)) & BASELINES:
                one, two = two, one
            return {tuple(named.tokens(one)): (one, two, named.CHOSEN)}
    return {}


def refuse_flag(table: LogTable, names: Iterable[str], answer: Sequence[str]) -> Refusal | None:
    """Ask whether a flag of winning compares each answer with one outside the table; None if no column is a flag."""
    name = next((each for each in names if each and is_flag(table, each)), None)
    if name is None:
        return None
    values = table.present(name)
    sides = _meant(values, "candidate", "opponent")
    candidate: Entries = {"candidate_id": answer[0]} if answer else {"candidate_id": "=candidate"}
    pair = candidate | {"opponent_id": "=baseline", "winner": {"field": name, "values": sides}, "order_known": "=false"}
    worth = {value: {"candidate": "1", "opponent": "0"}.get(side, "0.5") for value, side in sides.items()}
    grade: Entries = {"score": {"field": name, "values": worth}, "scale": "=0-1"}
    reason = f"{name} says whether something wins, but not over which column"
    compared = (f"if each {answer[0] if answer else 'item'} was compared with one that is not in the table", pair)
    return Refusal(reason, (compared, ("if it is a grade of one answer", grade | (candidate if answer else {}))))


def _claim(name: str) -> _Claim:
    words = named.tokens(name)
    at = next(place for place, word in enumerate(words) if word in _WINS)
    before = tuple(word for word in words[:at] if word not in _FILLING)
    after = tuple(word for word in words[at + 1 :] if word not in _FILLING | _WINS)
    if words[at] in _PREFERS and after and after[0] not in _OVER:
        over = next((place for place, word in enumerate(after) if word in _OVER), len(after))
        return _Claim(after[:over], after[over + 1 :])
    if words[at] in _BEATS or (after and after[0] in _OVER):
        return _Claim(before, tuple(word for word in after if word not in _OVER))
    return _Claim(before or after, ())


def _own_words(name: str, other: str) -> set[str]:
    """Return the words of a column's name that the other candidate's column does not have; all if there are none."""
    words = set(named.tokens(name))
    return words - set(named.tokens(other)) or words


def _which(words: Sequence[str], one: set[str], two: set[str]) -> int | None:
    """Return 0 if words name the first candidate, 1 if they name the second, None if neither or both."""
    first, second = bool(words) and bool(one & set(words)), bool(words) and bool(two & set(words))
    return None if first == second else int(second)


def _meant(values: Iterable[str], won: str, lost: str) -> dict[str, str]:
    made = {}
    for value in sorted({value.strip() for value in values}):
        flag = _FLAGS.get(value.lower())
        if flag is not None:
            made[value] = won if flag else lost
        elif value in _HALF or side_of(value) == "tie":
            made[value] = "tie"
    return made


def _may_be_compared(table: LogTable, name: str, claim: _Claim) -> bool:
    words = set(named.tokens(name))
    if not words or table.is_numeric(name) or not table.present(name) or words & _NO_TEXT - named.TEXT - BASELINES:
        return False
    if is_flag(table, name) or named.first_named([name], named.CONTEXT) or named.like_question(name):
        return False
    candidates = BASELINES | _CHALLENGERS | named.SYSTEM | set(claim.winner) | set(claim.loser)
    return bool(words & candidates) or named.is_text(words)


def _only(names: Sequence[str], words: Iterable[str]) -> str | None:
    """Return the only name with one of some words, or the only name if there are no words; None if not one."""
    wanted = set(words)
    found = [name for name in names if not wanted or wanted & set(named.tokens(name))]
    return found[0] if len(found) == 1 else None


def _without(names: Sequence[str], words: Sequence[str]) -> list[str]:
    return [name for name in names if not set(words) & set(named.tokens(name))]


def _opponent(one: str | None, names: Sequence[str], claim: _Claim) -> str | None:
    """Return the column that the winner's is compared with: of the same noun, of a baseline, or the only other one."""
    if one is not None:
        noun = set(named.tokens(one)) - set(claim.winner) - BASELINES - _CHALLENGERS
        alike = [name for name in names if noun and noun <= set(named.tokens(name))]
        if len(alike) == 1:
            return alike[0]
    return _only(names, BASELINES) or _only(names, _CHALLENGERS) or (_only(names, ()) if one else None)


_SEEN = 50  # records examined
_LONGEST_VERDICT = 30  # maximum characters of a verdict
_RANKS = {"rank", "ranks", "ranking", "rankings", "order"}
_SEVERAL = 2  # scores of an object
_ORDERS = 2  # verdicts in both orders


def refuse_listed(table: LogTable, outcomes: Sequence[str] = ()) -> Refusal | None:
    """Ask what lists or objects of verdicts hold; None if there are none.

    Parameters
    ----------
    table : Table
        The records, of pairs.
    outcomes : sequence of str
        Columns of verdicts that were found: items of one list or object, or others.
    """
    heads = {name.rpartition(".")[0] for name in outcomes}
    if outcomes:
        return _ask(table, heads.pop()) if len(heads) == 1 and heads != {""} else None
    if "explode" in table.given:
        return None
    names = dict.fromkeys(str(name) for record in table.rows.records[:_SEEN] for name in record)
    free = [name for name in names if name not in table.used and not set(named.tokens(name)) & _RANKS]
    return next((refusal for name in free if (refusal := _ask(table, name))), None)


def refuse_listed_scores(columns: Sequence[str]) -> Refusal | None:
    """Ask whether an object of a judge's scores, or of judges, has a score for each judge or for each attribute."""
    heads = {name.rpartition(".")[0] for name in columns}
    head = heads.pop() if len(heads) == 1 else ""
    words = set(named.tokens(head))
    if (
        len(columns) < _SEVERAL
        or not words & named.JUDGES
        or any(named.is_model(name.rpartition(".")[2]) for name in columns)
    ):
        return None
    if any(set(named.tokens(name.rpartition(".")[2])) & named.ATTRIBUTES for name in columns):
        return None
    each = ", ".join(name.rpartition(".")[2] for name in columns[:4])
    options = tuple(
        (f"if each is {what}", {"explode": head, column: f"{head}#", "score": head})
        for what, column in (("a judge", "judge"), ("an attribute", "attribute"))
    )
    return Refusal(f"{head} has a score for each of {each}", options)


def _ask(table: LogTable, name: str) -> Refusal | None:
    """Ask what the items at a path are; None if they are not verdicts."""
    listed = [items_in(value, table.rows.textual) for value in table.rows.values(name)[:_SEEN] if value is not None]
    given = [items for items in listed if items]
    if not given or len(given) < len(listed) or not all(map(_are_verdicts, given)):
        return None
    options: list[tuple[str, Entries]] = []
    if all(isinstance(key, str) for items in given for key, _ in items):
        keys = list(dict.fromkeys(str(key) for items in given for key, _ in items))
        options += [(f"if {_some(keys)} are judges", _exploded(name, "judge")),
                    (f"if {_some(keys)} are attributes", _exploded(name, "attribute"))]  # fmt: skip
        return Refusal(f"{name} has several verdicts in each record", tuple(options))
    options += [("if each is another judge's", _exploded(name, "judge")),
                ("if they are repetitions by one judge", _exploded(name, "replicate"))]  # fmt: skip
    if not table.rows.textual and {len(items) for items in given} == {_ORDERS}:
        options += _of_orders(name, given)
    return Refusal(f"{name} has a list of verdicts in each record", tuple(options))


def _exploded(name: str, column: str) -> Entries:
    return {"explode": name, column: f"{name}#"}


def _of_orders(name: str, given: Sequence[Sequence[tuple[Any, Any]]]) -> list[tuple[str, Entries]]:
    """Return the reading of two verdicts as those in both orders, if all of them name positions."""
    words = sorted({text for items in given for _, value in items if (text := written(value)) is not None})
    sides = {word: side for word in words if (side := side_of(word)) is not None}
    if len(sides) < len(words):
        return []
    entries: Mapping[str, Any] = {which: {"field": f"{name}.{place}", "values": sides}
                                  for place, which in enumerate(("winner", "winner_swapped"))}  # fmt: skip
    return [("if the second was given in the other order, and names positions as shown in it", dict(entries))]


def _are_verdicts(items: Sequence[tuple[Any, Any]]) -> bool:
    texts = [written(value) for _, value in items]
    short = [text for text in texts if text is not None and 0 < len(text) <= _LONGEST_VERDICT]
    return len(short) >= KNOWN * len(texts) and sum(side_of(text) is not None for text in short) >= KNOWN * len(texts)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
