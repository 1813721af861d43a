"""Read columns that say whether one of two candidates wins, such as ``candidate_better`` with yes, no and tie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.field_values import is_no_value
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import KNOWN, Table
from biaslab.logs.readers.verdict_words import side_of

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


def is_flag(table: Table, name: str) -> bool:
    """Return whether a column is named after winning, and contains yes and no, true and false, or 1 and 0."""
    if not set(named.tokens(name)) & _WINS or name in table.used:
        return False
    values = [value.strip().lower() for value in table.present(name) if not is_no_value(value)]
    flags = [value for value in values if value in _FLAGS]
    ties = sum(value in _HALF or (value not in _FLAGS and side_of(value) == "tie") for value in values)
    return bool(flags) and len(flags) + ties >= KNOWN * len(values)


def sides_of_flag(table: Table, name: str, shown: tuple[str, str, int]) -> dict[str, str] | None:
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


def is_alone(table: Table, name: str) -> bool:
    """Return whether no flag stands beside a flag for the other candidate, such as ``b_wins`` beside ``a_wins``."""
    return not any(name in pair[:2] for pair in named.find_pairs(table.names).values())


def judge_of_flag(table: Table, name: str) -> str | None:
    """Return the judge in the name of a flag, as in ``gpt-4o prefers B``; "" if it names none, None for no flag."""
    if not is_flag(table, name):
        return None
    words = named.tokens(name)
    at = next(place for place, word in enumerate(words) if word in _WINS)
    if words[at] not in _PREFERS or at == 0 or len(words) == at + 1:
        return ""
    head = name[: name.lower().index(words[at])].strip(" _-.:/")
    return "" if set(words[:at]) <= _FILLING | {"judge", "llm", "model", "ai"} else head


def by_flag(table: Table) -> dict[named.Tokens, tuple[str, str, int]]:
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


def refuse_flag(table: Table, names: Iterable[str], answer: Sequence[str]) -> Refusal | None:
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
    said = f"{name} says whether something wins, but not over which column"
    compared = (f"if each {answer[0] if answer else 'item'} was compared with one that is not in the table", pair)
    return Refusal(said, (compared, ("if it is a grade of one answer", grade | (candidate if answer else {}))))


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


def _may_be_compared(table: Table, name: str, claim: _Claim) -> bool:
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
