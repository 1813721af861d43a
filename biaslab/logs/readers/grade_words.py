"""Order grades that are words, such as pass and fail, or poor, good and excellent."""

from __future__ import annotations

from collections.abc import Iterable

from biaslab.logs.readers import common_names as named

#: Words for the worse of two grades, for one in between, and for the better; tools agree on their direction.
_OF_TWO = (
    ("fail", "failed", "false", "no", "incorrect", "wrong", "i", "n", "unacceptable", "irrelevant", "unrelated",
     "not relevant", "not correct", "hallucinated", "hallucination", "unfaithful", "unsupported", "not supported",
     "inconsistent", "unsafe", "unhelpful", "invalid", "bad", "👎", "❌", "✗", "✘"),
    ("partial", "partially", "partly", "partially correct", "partially relevant", "partially supported", "somewhat",
     "p", "mixed", "maybe", "borderline"),
    ("pass", "passed", "true", "yes", "correct", "right", "c", "y", "acceptable", "relevant", "factual", "faithful",
     "supported", "fully supported", "fully correct", "fully relevant", "consistent", "safe", "helpful", "valid",
     "good", "👍", "✅", "✓", "✔"),
)  # fmt: skip
#: Ladders of grades, from the worst; words at one step mean the same.
_LADDERS = (
    _OF_TWO,
    (("terrible", "awful", "unusable"), ("very bad", "very poor"), ("bad", "poor", "weak"),
     ("mediocre", "below average"), ("fair", "ok", "okay", "average", "acceptable", "neutral", "adequate"),
     ("above average",), ("good", "strong"), ("very good", "great"),
     ("excellent", "outstanding", "perfect", "exceptional")),
    (("strongly disagree",), ("disagree",), ("somewhat disagree", "slightly disagree"),
     ("neutral", "neither agree nor disagree", "neither", "undecided"), ("somewhat agree", "slightly agree"),
     ("agree",), ("strongly agree",)),
    (("none", "not at all", "never"), ("very low", "minimal"), ("low", "minor", "slightly", "rarely"),
     ("medium", "moderate", "mid", "sometimes", "moderately"), ("high", "major", "often", "very"),
     ("very high", "severe", "always", "extremely", "critical")),
    tuple((grade,) for grade in ("f", "e", "d-", "d", "d+", "c-", "c", "c+", "b-", "b", "b+", "a-", "a", "a+")),
)  # fmt: skip
_LETTERS = frozenset("abcdef")
_STARS = frozenset("★⭐☆\ufe0f ")


def worth_of_two(values: Iterable[str]) -> dict[str, int] | None:
    """Return 1 for the better of two grades and 0 for the worse; None if their words do not say which is better.

    Examples
    --------
    >>> worth_of_two(["Pass", "Fail"]), worth_of_two(["factual", "hallucinated"]), worth_of_two(["A", "B"])
    ({'Pass': 1, 'Fail': 0}, {'factual': 1, 'hallucinated': 0}, None)
    """
    places = {value: (_plain(value) in _OF_TWO[2]) - (_plain(value) in _OF_TWO[0]) for value in values}
    if len(places) != 2 or set(places.values()) != {-1, 1}:
        return None
    return {value: int(place > 0) for value, place in places.items()}


def worth_between(values: Iterable[str]) -> dict[str, float] | None:
    """Return 0, 0.5 and 1 for words such as incorrect, partially correct and correct; None unless all three occur.

    Examples
    --------
    >>> worth_between(["C", "P", "I"]), worth_between(["Poor", "Good", "Excellent"])
    ({'I': 0, 'P': 0.5, 'C': 1}, None)
    """
    steps = {value: next((at for at, words in enumerate(_OF_TWO) if _plain(value) in words), -1) for value in values}
    if set(steps.values()) != {0, 1, 2}:
        return None
    return {value: (0, 0.5, 1)[at] for value, at in sorted(steps.items(), key=lambda each: each[1])}


def ranks(values: Iterable[str]) -> dict[str, int] | None:
    """Return the rank of each grade, from 1 for the worst; None unless all words are from one ladder, or all are stars.

    Stars rank by their number. Letters that skip one, such as A and C, rank among all of A, B, C, D and F; other grades
    rank among those given.

    Examples
    --------
    >>> ranks(["Good", "Poor", "Excellent"]), ranks(["★★★☆☆", "★☆☆☆☆"]), ranks(["red", "blue"])
    ({'Poor': 1, 'Good': 2, 'Excellent': 3}, {'★☆☆☆☆': 1, '★★★☆☆': 3}, None)
    """
    distinct = list(dict.fromkeys(values))
    if distinct and all(set(value) <= _STARS and value.strip() for value in distinct):
        stars = {value: sum(sign in "★⭐" for sign in value) for value in distinct}
        return dict(sorted(stars.items(), key=lambda each: each[1]))
    for ladder in _LADDERS:
        place = {word: at for at, words in enumerate(ladder) for word in words}
        if len(distinct) > 1 and all(_plain(value) in place for value in distinct):
            steps = {value: place[_plain(value)] for value in distinct}
            used = sorted(set(steps.values()))
            if ladder is _LADDERS[-1] and not _is_whole(steps):
                used = [at for at, (grade,) in enumerate(ladder) if grade in "abcdf" or at in used]
            return {value: used.index(at) + 1 for value, at in sorted(steps.items(), key=lambda each: each[1])}
    return None


def is_graded(name: str) -> bool:
    """Return whether a column's name suggests grades by a judge."""
    words = set(named.tokens(name))
    graded = named.SCORE | named.VERDICT | named.ATTRIBUTES | {"correct", "passed", "pass", "evaluation", "assessment"}
    return bool(words & graded) and not words & named.HUMAN


def _is_whole(steps: dict[str, int]) -> bool:
    """Return whether the letters start at A and skip none."""
    letters = sorted({_plain(value)[0] for value in steps})
    return letters == sorted(_LETTERS)[: len(letters)] and "a" in letters


def _plain(value: str) -> str:
    return " ".join(value.lower().replace("_", " ").replace("\ufe0f", "").split()).strip(" .!")
