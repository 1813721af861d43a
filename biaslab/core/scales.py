"""Scales for scores: the literal answers, their values, and their wording in prompts.

`SCALES` holds the five scales of Stureborg et al. 2024 (arXiv 2405.01724, §3.2, Table 2).

Examples
--------
>>> list(SCALES)
['1-5', '1-5 words', '1-5 float', '1-10', '1-100']
>>> SCALES["1-5 words"].labels[:4]
('weak 1', '1', 'strong 1', 'weak 2')
>>> SCALES["1-10"].unit(5.5)
0.5
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError

_SPAN = re.compile(r"(\d{1,6})-(\d{1,6})")
_LONGEST = 1000  # maximum number of steps of a scale given by its end points
_WHOLE = re.compile(r"a whole number from (\d+) \(worst\) to (\d+) \(best\)")


@dataclass(frozen=True)
class Scale:
    """A scoring scale.

    Parameters
    ----------
    name : str
        Name, such as ``"1-10"``.
    labels : tuple of str
        The literal answers, at least two.
    values : tuple of float
        The value of each label, ascending.
    wording : str
        Description of the scale in a prompt, to follow "with".

    Raises
    ------
    InputError
        If there are fewer than two labels, a different number of values, or values that are not ascending.

    Examples
    --------
    >>> Scale("grades", ("C", "B", "A"), (1.0, 2.0, 3.0), "one of the grades A (best), B and C (worst)").high
    3.0
    """

    name: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    wording: str

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels) or len(self.labels) < 2:
            raise InputError("labels", self.labels, "at least two different strings")
        if len(self.values) != len(self.labels) or list(self.values) != sorted(set(self.values)):
            raise InputError("values", self.values, "one number per label, in ascending order")

    @property
    def low(self) -> float:
        """The lowest value."""
        return self.values[0]

    @property
    def high(self) -> float:
        """The highest value."""
        return self.values[-1]

    def at(self, number: float) -> float:
        """Map an evaluator's number from the unit interval to this scale; unchanged if the scale is unbounded."""
        return number if math.isinf(self.high) else self.low + number * (self.high - self.low)

    def unit(self, value: float) -> float:
        """Map a value linearly so that the lowest becomes 0 and the highest 1; NaN stays NaN."""
        return (value - self.low) / (self.high - self.low)


@lru_cache(maxsize=64)
def whole_numbers(low: int, high: int) -> Scale:
    """Return the scale of whole numbers from ``low`` to ``high``, inclusive.

    Raises
    ------
    InputError
        If ``low`` is negative, or ``high`` is not above it.

    Examples
    --------
    >>> whole_numbers(0, 100).wording
    'a whole number from 0 (worst) to 100 (best)'
    """
    if not 0 <= low < high:
        raise InputError("low, high", (low, high), "whole numbers with 0 <= low < high")
    numbers = range(low, high + 1)
    wording = f"a whole number from {low} (worst) to {high} (best)"
    return Scale(f"{low}-{high}", tuple(map(str, numbers)), tuple(map(float, numbers)), wording)


def _words() -> Scale:
    """1-5 with an optional modifier: "weak" subtracts a third, "strong" adds one."""
    steps = [(f"{word} {n}".strip(), n + third / 3) for n in range(1, 6) for word, third in _MODIFIERS.items()]
    labels, values = zip(*steps, strict=True)
    wording = (
        'a rating from 1 (worst) to 5 (best), alone or with the word "weak" or "strong" before it '
        '(such as "weak 4", "4" or "strong 4")'
    )
    return Scale("1-5 words", labels, values, wording)


def _floats() -> Scale:
    """1-5 in steps of a third, like grade points."""
    labels = ("1.0", *(f"{n}.{part}" for n in range(1, 5) for part in ("33", "67")), "2.0", "3.0", "4.0", "5.0")
    labels = tuple(sorted(labels, key=float))
    wording = "a number from 1.0 (worst) to 5.0 (best) in steps like grade points: 1.0, 1.33, 1.67, 2.0 and so on"
    return Scale("1-5 float", labels, tuple(map(float, labels)), wording)


_MODIFIERS = {"weak": -1, "": 0, "strong": 1}
_ALL = (whole_numbers(1, 5), _words(), _floats(), whole_numbers(1, 10), whole_numbers(1, 100))
SCALES: dict[str, Scale] = {scale.name: scale for scale in _ALL}
"""The scales of Stureborg et al. by name. Their Table 2 counts 13 answers with word modifiers, as if "weak 1" and
"strong 5" were excluded; here every number takes both modifiers, which makes 15.
"""

REWARD = Scale("reward", ("-inf", "inf"), (-math.inf, math.inf), "any number")
"""Scale of judges with unbounded scores; estimates use the standard deviation within a cell as one point."""


def find_scale(name: str) -> Scale:
    """Return one of `SCALES`.

    Raises
    ------
    InputError
        If there is no scale of that name; the message lists all.

    Examples
    --------
    >>> find_scale("1-5 float").labels[:4]
    ('1.0', '1.33', '1.67', '2.0')
    """
    require_one_of("scale", name, tuple(SCALES), "in Python, create others with whole_numbers(low, high)")
    return SCALES[name]


def scale_named(name: str) -> Scale:
    """Return one of `SCALES`, `REWARD`, or a whole-number scale such as "1-3", for recorded scores.

    Raises
    ------
    InputError
        If the name is neither.

    Examples
    --------
    >>> scale_named("1-3").labels, scale_named("1-5 words").labels[0]
    (('1', '2', '3'), 'weak 1')
    """
    if name == REWARD.name:
        return REWARD
    span = _SPAN.fullmatch(name)
    if name in SCALES or span is None or not 0 < int(span[2]) - int(span[1]) <= _LONGEST:
        return find_scale(name)
    return whole_numbers(int(span[1]), int(span[2]))


def stated_scale(prompt: str) -> Scale | None:
    """Return the scale that a prompt describes last, or None.

    Examples
    --------
    >>> stated_scale("Answer with a whole number from 0 (worst) to 20 (best) alone.").name
    '0-20'
    """
    places = {prompt.rfind(scale.wording): scale for scale in SCALES.values()}
    for match in _WHOLE.finditer(prompt):
        low, high = int(match[1]), int(match[2])
        if low < high:
            places[match.start()] = whole_numbers(low, high)
    last = max(places)
    return places[last] if last >= 0 else None
