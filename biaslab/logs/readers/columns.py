"""Describe the columns of a table: the kind of their values, and the roles that their names suggest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

from biaslab.core.files import declared
from biaslab.logs.readers.cells import NUMERAL, is_no_value, keyed, whole, written
from biaslab.logs.readers.rows import Rows

ColumnType = Literal["empty", "number", "flag", "word", "name", "id", "text", "object"]

_NEARLY = 0.9  # share of values that decides the kind of a column; the others count as unreadable
_FLAGS = ({"true", "false"}, {"yes", "no"}, {"true", "false", "none"})
_HALF = 0.5  # the same of a column that its name gives for scores
_LONG, _WORDY = 60, 5  # mean characters or words of a text
_FEW = 12  # most values of a column of words
_REPEATED = 2  # mean number of rows with each name


def aliases() -> dict[str, Any]:
    """Return the table of usual names."""
    return declared("biaslab.logs.readers", "aliases.toml")


def alias_words(meaning: str) -> frozenset[str]:
    """Return the words that suggest a role, or another meaning in the table such as ``"documents"``."""
    words: dict[str, list[str]] = aliases()["words"]
    return frozenset(words[meaning] if meaning in words else aliases()["role"][meaning]["words"])


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def tokens(name: str) -> tuple[str, ...]:
    """Return the words of a column name, in lower case.

    Examples
    --------
    >>> tokens("answerA"), tokens("model_1.response"), tokens("humanWinner")
    (('answer', 'a'), ('model', '1', 'response'), ('human', 'winner'))
    """
    return tuple(word.lower() for word in _WORD.findall(name))


def last_part(path: str) -> str:
    """Return the last name of a dotted path; points within a number, as in ``gpt-5.2``, belong to the name.

    Examples
    --------
    >>> last_part("runs[].judge_score"), last_part("scores.gpt-5.2")
    ('judge_score', 'gpt-5.2')
    """
    return parts_of(path)[-1]


def parts_of(path: str) -> list[str]:
    """Return the names of a dotted path."""
    return re.split(r"(?<!\d)\.|\.(?!\d)", path)


def is_model(name: str) -> bool:
    """Return whether a name contains that of a language model."""
    return re.search(aliases()["models"]["pattern"], name, re.IGNORECASE) is not None


def sides() -> list[tuple[str, str]]:
    """Return the pairs of words for the first and the second of two candidates."""
    return [(one, two) for one, two in aliases()["sides"]["pairs"]]


@dataclass(frozen=True)
class LogColumn:
    """A column of a flat table, with its first values.

    Parameters
    ----------
    name : str
        Its name, a dotted path for nested objects.
    values : tuple of str or None
        The values as text; None where one is missing.
    nested : bool
        Whether a value is a list or an object.
    rare : tuple of str
        Values that only later rows have: all of them if they are few, else the least and the greatest number.
    """

    name: str
    values: tuple[str | None, ...]
    nested: bool = False
    rare: tuple[str, ...] = ()

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of its name."""
        return tokens(self.name)

    @cached_property
    def known(self) -> list[str]:
        """The values that are present and are no mark of a missing one."""
        return [value for value in self.values if value is not None and value.strip() and not is_no_value(value)]

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of rows with each value."""
        return Counter(whole(value) for value in self.known)

    @cached_property
    def kind(self) -> ColumnType:
        """The kind of the values."""
        if self.nested:
            return "object"
        if not self.known:
            return "empty"
        lower = {value.strip().lower() for value in self.counts}
        if any(lower <= flags for flags in _FLAGS) and len(lower) > 1:
            return "flag"
        numerals = {value: n for value, n in self.counts.items() if NUMERAL.fullmatch(value)}
        replies = self._may_be_scores and 1 < len(numerals) <= _FEW  # scores, and words instead of some
        if sum(numerals.values()) >= (_HALF if replies else _NEARLY) * len(self.known):
            return "number"
        size = sum(map(len, self.known)) / len(self.known)
        if size > _LONG or self._spaces >= _WORDY:
            return "text"
        if len(self.counts) <= _FEW and (len(self.known) >= _REPEATED * len(self.counts) or len(self.counts) == 1):
            return "word"
        return "name" if len(self.known) >= _REPEATED * len(self.counts) else "id"

    @property
    def _may_be_scores(self) -> bool:
        of_person = {"score", "person"} & set(self.roles) or "human" in self.words
        return "verdict" not in self.roles and (bool(of_person) or is_model(self.name))

    @cached_property
    def numbers(self) -> list[float]:
        """The values that are numbers."""
        return [float(value) for value in (*self.known, *self.rare) if NUMERAL.fullmatch(value)]

    def is_wordy(self, *, named_apart: bool = False) -> bool:
        """Return whether the values are texts, the length of which means something.

        Short values that repeat are names, unless another column names the candidates.
        """
        return self.kind in ("text", "object") or ((named_apart or self.kind == "id") and self._spaces > 0.5)

    def has_values_of(self, other: LogColumn) -> bool:
        """Return whether another column has the same different values, but for case."""
        return len(self.counts) > 1 and {v.lower() for v in self.counts} == {v.lower() for v in other.counts}

    @property
    def is_prose(self) -> bool:
        """Whether most values are several words, or have brackets or braces as replies do."""
        some = self.known[:_FEW]
        wordy = [value for value in some if " " in value or "[[" in value or "{" in value]
        return self.kind == "text" or len(wordy) > len(some) / 2

    @property
    def _spaces(self) -> float:
        return sum(value.count(" ") for value in self.known) / len(self.known) if self.known else 0.0

    @property
    def is_empty(self) -> bool:
        """Whether no value is present."""
        return self.kind == "empty"

    @property
    def is_constant(self) -> bool:
        """Whether all present values are the same, also in later rows."""
        return len(self.counts) + len(self.rare) <= 1

    @property
    def examples(self) -> list[str]:
        """Up to three different values."""
        return list(dict.fromkeys(self.known))[:3]

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that the name suggests, best first: that of its last word, then those of the words before."""
        return ("ignore",) if self.name.endswith("#") else roles_of(self.words)

    @property
    def role(self) -> str:
        """The first of the roles; empty if there is none."""
        return next(iter(self.roles), "")

    @property
    def criteria(self) -> set[str]:
        """The words of the name that are criteria."""
        return set(self.words) & set(aliases()["criteria"]["words"])

    @property
    def is_plain(self) -> bool:
        """Whether the name consists of words that mean nothing."""
        return set(self.words) <= set(aliases()["plain"]["words"])

    def has(self, meaning: str) -> bool:
        """Return whether the name has a word of a role, or of another meaning."""
        if meaning == "people":
            return names_people(self.words)
        return bool(set(self.words) & alias_words(meaning))


def names_people(words: Sequence[str]) -> bool:
    """Return whether the words of a name are those of people's columns; what a model is, is none of theirs.

    Examples
    --------
    >>> names_people(("user", "rating")), names_people(("user", "prompt")), names_people(("reviewer", "model"))
    (True, False, False)
    """
    if " ".join(words) in aliases()["role"]["people"]["names"]:
        return True
    if words[-1:] in (("model",), ("llm",)):
        return False
    of_user = "user" in words and bool(set(words) & (alias_words("score") | alias_words("verdict")))
    return of_user or bool(set(words) & alias_words("people"))


def person_words() -> frozenset[str]:
    """Return the words for a person, and those that change nothing."""
    return alias_words("person") | frozenset(aliases()["plain"]["words"]) | {"who", "by", "human"}


def roles_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the roles that the words of a name suggest, best first.

    Words for people and for derived values decide wherever they stand: ``human_score`` is never the judge's.

    Examples
    --------
    >>> roles_of(("model", "output")), roles_of(("judge", "score")), roles_of(("manual", "label"))
    (('text', 'system'), ('score', 'judge'), ('people', 'verdict'))
    """
    plain = set(aliases()["plain"]["words"])
    role_words = {role: alias_words(role) for role in aliases()["role"]}
    role_words["score"] |= frozenset(aliases()["criteria"]["words"])
    found: dict[str, None] = {}
    if any(_among(word, role_words["derived"]) for word in words):
        found.setdefault("derived")
    of_model = words[-1:] in (("model",), ("llm",))
    if of_model and set(words) & role_words["person"]:
        found.setdefault("judge")
    elif not of_model and (names_people(words) or any(_among(word, role_words["people"]) for word in words)):
        found.setdefault("people")
    for word in reversed(words):
        for role, known in role_words.items():
            if word not in plain - known and _among(word, known):
                found.setdefault(role)
    return tuple(found)


def _among(word: str, known: frozenset[str]) -> bool:
    return word in known or (len(word) > 3 and word.removesuffix("s") in known)


def columns_of_rows(rows: Rows, most: int) -> dict[str, LogColumn]:
    """Return the columns of flat rows, with at most so many values each."""
    records = rows.records[:most]
    names = dict.fromkeys(str(name) for record in records for name in record)
    columns = {}
    for name in names:
        values = [record.get(name) for record in records]
        nested = any(isinstance(value, list | dict) and value for value in values)
        texts = tuple(written(keyed(value)) for value in values)
        columns[name] = LogColumn(name, texts, nested, () if nested else _rare(rows, name, texts))
    return columns


def _rare(rows: Rows, name: str, first: tuple[str | None, ...]) -> tuple[str, ...]:
    """Return the values that only rows after the first ones have."""
    try:
        later = {record.get(name) for record in rows.records[len(first) :]}
    except TypeError:  # lists or objects
        return ()
    seen = set(first)
    many = len(later) > _FEW + len(seen)
    if many and not all(value is None or NUMERAL.fullmatch(value) for value in first[:_FEW]):
        return ()  # of texts and identifiers nothing hangs on the rare ones
    unseen = {text for value in later if (text := written(value)) and text not in seen}
    known = [value for value in unseen if not is_no_value(value)] if len(unseen) <= _FEW else []
    numbers = sorted((value for value in unseen if NUMERAL.fullmatch(value)), key=float)
    return tuple(sorted(known) or dict.fromkeys(numbers[:1] + numbers[-1:]))


class SidePair(NamedTuple):
    """The columns of two candidates, with the words that their names share and those that differ."""

    first: LogColumn
    second: LogColumn
    stem: tuple[str, ...]
    side_words: tuple[str, str]

    @property
    def names(self) -> tuple[str, str]:
        """The names of the columns."""
        return self.first.name, self.second.name

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that the shared words suggest."""
        return roles_of(self.stem)

    @property
    def role(self) -> str:
        """The first of these; empty if there is none."""
        return next(iter(self.roles), "")


def side_pairs(columns: Mapping[str, LogColumn]) -> list[SidePair]:
    """Return pairs of columns whose names differ in a word for the first and for the second of two candidates.

    Examples
    --------
    >>> names = ("question", "answer_a", "answer_b", "winner")
    >>> [pair[2:] for pair in side_pairs({name: LogColumn(name, ()) for name in names})]
    [(('answer',), ('a', 'b'))]
    """
    by_words = {column.words: column for column in columns.values()}
    found: dict[tuple[str, str], SidePair] = {}
    for one, two in sides():
        for words, column in by_words.items():
            for place, word in enumerate(words):
                other = (*words[:place], two, *words[place + 1 :])
                if word == one and other in by_words:
                    stem = (*words[:place], *words[place + 1 :])
                    pair = SidePair(column, by_words[other], stem, (one, two))
                    found.setdefault(pair.names, pair)
    return list(found.values())


def _verdict(name: str) -> re.Pattern[str]:
    """Return the pattern of a verdict for a side or of a tie, with its parts filled in."""
    patterns = aliases()["verdicts"]
    return re.compile(re.sub(r"<(\w+)>", lambda part: patterns[part[1]], patterns[name]))


_SIDE, _TIE = _verdict("side"), _verdict("tie")
_DEGREES: dict[str, str] = {
    degree: side for side, degrees in aliases()["verdicts"]["degrees"].items() for degree in degrees
}
_MARKS = re.compile(r"[\[\]*\"'().:_\-!]")


def side_of(value: str) -> str | None:
    """Return "first", "second" or "tie" for a verdict that names a position; None otherwise.

    ``0`` gives None because it is ambiguous: the first, counted from 0, or a tie.

    Examples
    --------
    >>> side_of("A"), side_of("[[B]]"), side_of("model_b"), side_of("Response 1"), side_of("tie (bothbad)")
    ('first', 'second', 'second', 'first', 'tie')
    >>> side_of("A is slightly better"), side_of("Strongly prefer B"), side_of("B++"), side_of("about the same")
    ('first', 'second', 'second', 'tie')
    >>> side_of("gpt-4") is None, side_of("0") is None, side_of("-2") is None
    (True, True, True)
    """
    if NUMERAL.fullmatch(value):
        return {"1": "first", "2": "second"}.get(whole(value))
    plain = " ".join(_MARKS.sub(" ", value.lower()).split())
    if _TIE.fullmatch(plain):
        return "tie"
    if plain.replace(" ", "") in _DEGREES:
        return _DEGREES[plain.replace(" ", "")]
    match = _SIDE.fullmatch(plain)
    if match is None or match[1] == "0":
        return None
    return "first" if match[1] in {one for one, _ in sides() if one != "0"} else "second"


Meanings = dict[str, str]


def verdict_readings(column: LogColumn, pair: SidePair | None) -> list[Meanings]:
    """Return each possible meaning of a column's values as verdicts on two candidates; none if it is no such column.

    Examples
    --------
    >>> verdict_readings(LogColumn("winner", ("A", "B", "tie", "B")), None)
    [{'A': 'first', 'B': 'second', 'tie': 'tie'}]
    >>> verdict_readings(LogColumn("winner", ("0", "1", "1")), None)
    [{'0': 'first', '1': 'second'}, {'0': 'second', '1': 'first'}]
    >>> verdict_readings(LogColumn("grade", ("pass", "fail")), None)
    []
    """
    counts = column.counts + Counter(map(whole, column.rare))
    if not counts or len(counts) > _FEW:
        return []
    meanings = {value: side for value in sorted(counts) if (side := side_of(value)) is not None}
    numeric = sum(counts[value] for value in counts if NUMERAL.fullmatch(value))
    if numeric > (1 - _NEARLY) * counts.total():
        words = {value: side for value, side in meanings.items() if not NUMERAL.fullmatch(value)}
        return [found | words for found in _numeric_readings(column, pair)] if column.has("verdict") or pair else []
    if not {"first", "second"} & set(meanings.values()):
        return []
    third = next((v for v in ("C", "c", "[[C]]") if v in counts), None)
    if third is not None and "tie" not in meanings.values():
        meanings[third] = "tie"
    known = sum(counts[value] for value in meanings)
    if len(counts) > len(meanings) and not {"first", "second"} <= set(meanings.values()):
        return []  # "right" beside "wrong" is no side
    return [meanings] if known >= _NEARLY * counts.total() else []


def _numeric_readings(column: LogColumn, pair: SidePair | None) -> list[Meanings]:
    """Return the possible meanings of numbers: places counted from 1 or 0, or degrees around a tie."""
    seen = {*column.counts, *map(whole, column.rare)}
    values = sorted((value for value in seen if NUMERAL.fullmatch(value)), key=float)
    numbers = [float(value) for value in values]
    if any(number % 1 for number in numbers):
        return []
    sides_of_pair = list(pair.side_words) if pair is not None else None
    for case in aliases()["verdicts"]["numbers"]:
        fits = set(values) <= set(case["some"]) if "some" in case else values == case["all"]
        if fits and case.get("sides", sides_of_pair) == sides_of_pair:
            return [{value: meanings[value] for value in values} for meanings in case["readings"]]
    middle = 0.0 if numbers[0] < 0 else (numbers[0] + numbers[-1]) / 2
    of_each = zip(values, numbers, strict=True)
    low_first = {v: "tie" if n == middle else "first" if n < middle else "second" for v, n in of_each}
    swap = {"first": "second", "second": "first", "tie": "tie"}
    return [low_first, {value: swap[side] for value, side in low_first.items()}]


def verdict_meanings(column: LogColumn, pair: SidePair | None) -> Meanings | None:
    """Return the meaning of a column's values as verdicts, if there is a single one."""
    readings = verdict_readings(column, pair)
    return readings[0] if len(readings) == 1 else None


def grade_values(*columns: LogColumn) -> dict[str, str] | None:
    """Return the number that each grade of columns of flags or words stands for, worst first; None if they are none.

    Several columns have one vocabulary: a grade that only one of them has counts for all.

    Examples
    --------
    >>> grade_values(LogColumn("label", ("Pass", "Fail"))), grade_values(LogColumn("x", ("red", "blue")))
    ({'Fail': '0', 'Pass': '1'}, None)
    >>> grade_values(LogColumn("grade", ("Good", "Poor", "Excellent")))
    {'Poor': '1', 'Good': '2', 'Excellent': '3'}
    """
    own = [Counter(dict.fromkeys(column.rare, 1)) | column.counts for column in columns]
    grades = aliases()["grades"]
    ladders = list(enumerate((grades["opposite"], *grades["ladders"], grades["counted"])))
    for lost, (number, ladder) in product((0, 1 - _NEARLY), ladders):
        places = {word: at for at, step in enumerate(ladder) for word in step}
        steps = {value: places[plain] for each in own for value in each if (plain := _plain(value)) in places}
        known = [{_plain(value): steps[value] for value in each if value in steps} for each in own]
        fits = all(sum(each[value] for value in each if value not in steps) <= lost * each.total() for each in own)
        reached = sorted(set(steps.values()))
        if fits and len(reached) > 1 and len(steps) <= _FEW and all(len(set(k.values())) == len(k) for k in known):
            every = range(len(ladder)) if ladder is grades["counted"] else reached
            return {v: str(every.index(steps[v]) + (number > 0)) for v in sorted(steps, key=lambda v: steps[v])}
    return None


def is_defect(column: LogColumn) -> bool:
    """Return whether a column of flags, or of 0 and 1, is named after what is bad.

    Examples
    --------
    >>> is_defect(LogColumn("human_hallucination", ("yes", "no"))), is_defect(LogColumn("no_error", ("yes", "no")))
    (True, False)
    """
    flags = column.kind == "flag" or (column.kind == "number" and set(column.numbers) == {0.0, 1.0})
    return flags and names_defect(column.name)


#: Values of flags that say yes, in lower case.
YES = frozenset({"yes", "true", "y", "t", "1", "1.0"})


def names_defect(name: str) -> bool:
    """Return whether a column has the name of what is bad.

    Examples
    --------
    >>> names_defect("human_hallucination"), names_defect("no_error")
    (True, False)
    """
    words, grades = set(tokens(name)), aliases()["grades"]
    return bool(words & {*grades["defects"], *grades["opposite"][0]}) and not words & set(grades["negations"])


def _plain(value: str) -> str:
    return " ".join(value.lower().replace("_", " ").replace("\ufe0f", "").split()).strip(" .!")


def both_orders(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the columns with the verdicts in one order and in the other, or None.

    Examples
    --------
    >>> both_orders(["question", "winner", "winner_swapped"]), both_orders(["verdict_ab", "verdict_ba"])
    (('winner', 'winner_swapped'), ('verdict_ab', 'verdict_ba'))
    """
    own, other_order = (set(aliases()["sides"][name]) for name in ("same_order", "other_order"))
    known = {name: set(tokens(name)) for name in names}
    for other, words in known.items():
        noun = words - other_order - {"order", "shown"}
        if words & other_order and noun & alias_words("verdict"):
            same = [name for name, has in known.items() if name != other and not has & other_order
                    and has - own - {"order"} == noun]  # fmt: skip
            same.sort(key=lambda name: not known[name] & own)
            if same:
                return same[0], other
    return None


def functional(one: LogColumn, two: LogColumn) -> bool:
    """Return whether each value of one column goes with a single value of another."""
    seen: dict[str | None, str | None] = {}
    return all(seen.setdefault(a, b) == b for a, b in zip(one.values, two.values, strict=True))


def is_mean(column: LogColumn, others: Sequence[LogColumn]) -> bool:
    """Return whether a column is the mean of others in all rows that have all of them."""
    if len(others) < 2:
        return False
    rows = [values for values in zip(column.values, *(each.values for each in others), strict=True)
            if all(value is not None and NUMERAL.fullmatch(value) for value in values)]  # fmt: skip
    if len(rows) < 2:
        return False
    gaps = (abs(float(own) - sum(map(float, rest)) / len(rest)) for own, *rest in rows)
    return all(gap < 0.006 for gap in gaps)
