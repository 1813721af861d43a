"""An estimate over contexts: value, standard error, interval and test, or why it is undefined."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.core.arrays import Floats
from biaslab.core.errors import TrialsError
from biaslab.core.files import declared

#: Methods of interval and test: resampling contexts and flipping their signs, Student's t, or the score test of a rate
#: with the t distribution.
Inference = Literal["resampling", "t", "score"]
#: Relative to the size of the inputs, anything smaller is a rounding error.
ROUNDING = 1e-9
#: A difference of sums of squares that is smaller than this, relative to them, is a rounding error.
ROUNDING_OF_SQUARES = 1e-12
#: A q-value below this is significant.
ALPHA = 0.05
#: Note if only the value was requested.
VALUES_ONLY = "no interval: only values were requested"
#: Number of contexts below which two-sided sign-flip tests cannot reach p < .05.
FEWEST = 6
_NAN = math.nan
_DECIMALS, _BITS = 10, 1e-14  # decimals of a short decimal; maximum relative distance of a float from it


#: The words of the notes on which verdicts depend, by code. Other notes bring their own words.
NOTE_WORDS: dict[str, str] = declared("biaslab.stats", "notes.toml")


@dataclass(frozen=True)
class Note:
    """What is known about an estimate besides its numbers, or why it is undefined: a code and its values.

    Attributes
    ----------
    code : str
        Names the fact, such as ``"few_differ"``.
    values : mapping of str to number or str
        Values that the words name; ``no_variation`` has ``bounded``, whether the interval allows for contexts that were
        not observed.
    words : str
        The words, with the names of the values in braces; by default those of the code in `NOTE_WORDS`.

    Examples
    --------
    >>> str(Note("few_differ", {"needed": 4}))
    'few contexts differ: a test needs 4 that do, to one side'
    """

    code: str
    values: Mapping[str, float | str] = field(default_factory=dict, hash=False)
    words: str = ""

    def __getitem__(self, name: str) -> float | str:
        return self.values[name]

    def __str__(self) -> str:
        return (self.words or NOTE_WORDS[self.code]).format(**self.values)

    def with_values(self, **values: float | str) -> Self:
        """Return the note with its values.

        Examples
        --------
        >>> str(because("few_rows", "only {rows} rows are left").with_values(rows=2))
        'undefined: only 2 rows are left'
        """
        return replace(self, values=values)


def because(code: str, words: str) -> Note:
    """Return a reason why an estimate is undefined.

    Examples
    --------
    >>> undefined(because("no_pair", "no pair was judged in both orders")).note
    'undefined: no pair was judged in both orders'
    """
    return Note(code, words=f"undefined: {words}")


#: Reason why the mean of no values is undefined.
NO_TRIALS = because("no_trials", "no trials left")

#: A note, or words for people, on which nothing depends.
Remark = Note | str


def notes_as_json(remarks: Iterable[Remark]) -> str:
    """Return the notes among remarks as JSON, for the column ``notes`` of an estimates frame; empty without remarks.

    Examples
    --------
    >>> notes_as_json(["one sample", Note("few_differ", {"needed": 4}), Note("unbounded")])
    '[["few_differ", {"needed": 4}], ["unbounded", {}]]'
    >>> notes_as_json(["one sample"])
    '[]'
    """
    remarks = list(remarks)
    notes = [(each.code, each.values) for each in remarks if isinstance(each, Note)]
    return json.dumps(notes, sort_keys=True, default=lambda number: number.item()) if remarks else ""


def notes_of(row: Mapping[Any, Any]) -> dict[str, Note]:
    """Return the notes of a row of an estimates frame, by code.

    Raises
    ------
    TrialsError
        If the column ``notes`` is missing where ``note`` has words, since words are for people and nothing reads them;
        or if it holds something else.

    Examples
    --------
    >>> notes_of({"notes": '[["few_differ", {"needed": 4}]]'})["few_differ"]["needed"]
    4
    >>> notes_of({"estimate": 0.5})
    {}
    """
    text, words = row.get("notes"), row.get("note")
    if not isinstance(text, str) and isinstance(words, str) and words.strip():
        remedy = "keep the column notes of estimates, or estimate again"
        raise TrialsError.plain(f"the note {words!r} has no code in the column notes; {remedy}")
    if not text or not isinstance(text, str):
        return {}
    try:
        notes = {code: Note(code, values) for code, values in json.loads(text)}
        _ = [str(note) for code, note in notes.items() if code in NOTE_WORDS]  # fails if a value is missing
    except (ValueError, TypeError, KeyError) as error:
        own = "rename a column of your own"
        raise TrialsError("notes", text, "notes as JSON, as biaslab writes them", own) from error
    return notes


@dataclass(frozen=True)
class Estimate:
    """A value over contexts with its uncertainty; NaN with a note if undefined.

    Attributes
    ----------
    estimate : float
        The point estimate.
    se : float
        Standard error over contexts, in the unit of the estimate, whatever the interval: linearised, jackknifed, or
        cluster-robust. NaN with fewer than two contexts, if contexts do not vary (nothing is then known about it), and
        for measures without one (Myers' index).
    ci_low, ci_high : float
        The confidence interval.
    p_value : float
        Two-sided test against the null (sign-flip over contexts unless `method` says otherwise); NaN without a null.
    mde : float
        Minimum detectable effect: the smallest difference from the null that this design detects with 80 % power at α
        = .05. NaN, with a note, if contexts do not vary, or with fewer than 6 contexts, for which no sign-flip test
        reaches .05.
    n_contexts : int
        Number of contexts used.
    method : str
        Method of the interval.
    notes : tuple of Note or str
        Why something is NaN, and caveats.
    bound_low, bound_high : float
        Missing-data bounds: from the lower end of the interval with every missing judgement at its minimum to the
        upper end with every one at its maximum (Horowitz & Manski 2000). Valid whatever the missing values, and
        conservative if they are missing at random. NaN if nothing is missing, and for metrics without bounds.
    leave_one_out : tuple of numpy.ndarray, optional
        Names of the contexts or clusters, shape (contexts,), and values, shape (1 + contexts,): the estimate, then that
        without each; None if unknown.
    """

    estimate: float
    se: float
    ci_low: float
    ci_high: float
    p_value: float
    mde: float
    n_contexts: int
    method: str
    notes: tuple[Remark, ...] = ()
    bound_low: float = _NAN
    bound_high: float = _NAN
    leave_one_out: tuple[NDArray[Any], Floats] | None = field(default=None, compare=False, repr=False)

    @property
    def note(self) -> str:
        """The notes in words."""
        return "; ".join(filter(None, map(str, self.notes)))

    def noted(self, *remarks: Remark) -> Self:
        """Return the estimate with further notes; empty words are left out.

        Examples
        --------
        >>> undefined(because("no_pair", "no pair")).noted("", "ask both orders").note
        'undefined: no pair; ask both orders'
        """
        return replace(self, notes=(*self.notes, *(each for each in remarks if each)))

    def has_note(self, code: str) -> bool:
        """Return whether there is a note of this code."""
        return any(isinstance(each, Note) and each.code == code for each in self.notes)

    def row(self) -> dict[str, Any]:
        """Return the columns of an estimates frame: all fields, with the notes in words and as JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"note": self.note, "notes": notes_as_json(self.notes)}


def undefined(reason: Remark, contexts: int = 0) -> Estimate:
    """Return an undefined estimate (all NaN) with the reason."""
    return without_interval(_NAN, contexts, reason)


def without_interval(value: float, contexts: int, reason: Remark = "no interval: only one context") -> Estimate:
    """Return a value without interval and test, with the reason."""
    return Estimate(value, _NAN, _NAN, _NAN, _NAN, _NAN, contexts, "none", (reason,) if reason else ())


def by_construction(value: float, contexts: int, reason: str) -> Estimate:
    """Return a value that is certain by construction, with the reason and without a test."""
    notes = (Note("by_construction"), reason)
    return Estimate(value, 0.0, value, value, _NAN, _NAN, contexts, "by construction", notes)


def unvarying(
    value: float,
    contexts: int,
    level: float,
    bounds: tuple[float, float] | None,
    p_value: float,
    test: str = "",
    null: float | None = None,
) -> Estimate:
    """Return the estimate if all contexts have the same value, so that resampling shows no variation.

    With bounds the interval is Clopper and Pearson's, counting each context as one trial: up to a share 1 −
    (α/2)^(1/G) of contexts may differ without any being observed, and they may lie at either bound. That is
    conservative. Without bounds they are unknown, and the interval has zero width, unless there are too
    few contexts to reject a null: then it is extended to the null.

    With a null, bounds and a p-value that is not NaN, the test matches the interval: 2 (1 − r)^G, where r is the share
    that must have gone unobserved if the null were true. Differences from the null within rounding error count as 0.

    Examples
    --------
    >>> estimate = unvarying(1.0, 8, 0.95, (0.0, 1.0), p_value=2**-7)
    >>> round(estimate.ci_low, 3), estimate.ci_high, estimate.method
    (0.631, 1.0, 'clopper-pearson over contexts')
    """
    notes = (Note("no_variation", {"bounded": bounds is not None}),)
    if null is not None and is_rounding(value - null, value):
        value, p_value = null, p_value if math.isnan(p_value) else 1.0
    if bounds is None:
        low, high = extended_to_null((value, value), null, p_value, level)
        return Estimate(value, _NAN, low, high, p_value, _NAN, contexts, "none" + test, notes)
    if null is not None and not math.isnan(p_value):
        p_value = _p_of_unseen(value, null, contexts, bounds)
    unseen = unseen_share(contexts, level)
    low, high = value - unseen * (value - bounds[0]), value + unseen * (bounds[1] - value)
    method = f"clopper-pearson over contexts{test}"
    return Estimate(value, _NAN, low, high, p_value, _NAN, contexts, method, notes)


def unseen_share(contexts: int, level: float) -> float:
    """Return the largest share of contexts that may differ although all observed ones are equal.

    The upper end of Clopper and Pearson's interval for 0 of G contexts: 1 − (α/2)^(1/G).

    Parameters
    ----------
    contexts : int
        Number of observed contexts G, at least 1.
    level : float
        Confidence level, between 0 and 1.

    Examples
    --------
    >>> round(unseen_share(96, 0.95), 3)
    0.038
    """
    return float(1 - ((1 - level) / 2) ** (1 / contexts))


def extended_to_null(
    interval: tuple[float, float], null: float | None, p_value: float, level: float
) -> tuple[float, float]:
    """Return the interval, extended to the null if the test does not reject it.

    Examples
    --------
    >>> extended_to_null((0.2, 0.4), 0.0, p_value=0.0625, level=0.95)
    (0.0, 0.4)
    """
    if null is None or math.isnan(p_value) or is_above(1 - level, p_value):
        return interval
    return min(interval[0], null), max(interval[1], null)


def settled(
    interval: tuple[float, float], null: float | None, p_value: float, level: float
) -> tuple[float, float, float]:
    """Make an interval and the p-value of a separate test consistent, and return both.

    The null is rejected only if both exclude it: otherwise the interval is extended to the null, or the p-value raised
    to its level. Neither becomes more confident.

    Examples
    --------
    >>> settled((0.01, 0.4), 0.0, p_value=0.06, level=0.95)
    (0.0, 0.4, 0.06)
    >>> low, high, p_value = settled((-0.01, 0.4), 0.0, p_value=0.04, level=0.95)
    >>> low, high, round(p_value, 3)
    (-0.01, 0.4, 0.05)
    """
    low, high = extended_to_null(interval, null, p_value, level)
    if null is None or math.isnan(low) or math.isnan(high) or is_above(low, null) or is_above(null, high):
        return low, high, p_value
    return low, high, max(p_value, 1 - level)  # NaN stays NaN


def _p_of_unseen(value: float, null: float, contexts: int, bounds: tuple[float, float]) -> float:
    """Return the p-value matching Clopper and Pearson's interval for a share of contexts that was never observed."""
    bound = bounds[0] if null < value else bounds[1]
    unseen = (value - null) / (value - bound) if value != null else 0.0
    return min(1.0, 2 * max(0.0, 1 - unseen) ** contexts)


def is_rounding(value: ArrayLike | float, size: ArrayLike | float = 0.0) -> Any:
    """Return whether numbers are rounding errors relative to their inputs; False for NaN.

    Metrics are rates, log odds, correlations, and scale points: numbers around 1. So anything up to 1e-9 is rounding,
    and proportionally more if it was computed from larger numbers: a spread, a standard error, a distance from a null.

    Parameters
    ----------
    value : float or array_like
        The values to test.
    size : float or array_like
        Magnitude of the numbers from which they were computed.

    Examples
    --------
    >>> is_rounding(3.5e-17), is_rounding(1e-8), is_rounding(1e-8, size=100.0)
    (True, False, True)
    """
    with np.errstate(invalid="ignore"):
        small = np.abs(value) <= ROUNDING * np.maximum(1.0, np.abs(size))
    return small if np.ndim(small) else bool(small)


def without_rounding(values: ArrayLike) -> Floats:
    """Round numbers that differ from a short decimal only in their last bits.

    Values that should be equal become equal to the last bit, however they were computed, so ties are ties, and ½ is ½.

    Parameters
    ----------
    values : array_like of float
        Values of judgements.

    Examples
    --------
    >>> without_rounding([0.1 + 0.2, 0.5 - 1e-16, 1e-13, 1 / 3]).tolist()
    [0.3, 0.5, 1e-13, 0.3333333333333333]
    """
    raw = np.asarray(values, float)
    decimal = np.round(raw, _DECIMALS)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(raw - decimal) <= _BITS * np.maximum(1.0, np.abs(raw)), decimal, raw)


def is_above(value: float, other: float, size: float = 0.0) -> bool:
    """Return whether a value exceeds another by more than rounding error; False for NaN.

    Parameters
    ----------
    value, other : float
        The values to compare.
    size : float
        Magnitude of the numbers from which both were computed, if larger than the values themselves.

    Examples
    --------
    >>> is_above(0.1 + 0.2, 0.3), is_above(0.31, 0.3), is_above(1e-16, 0)
    (False, True, False)
    """
    return value > other and not is_rounding(value - other, max(abs(value), abs(other), size))


def significant(q: float) -> bool:
    """Return whether a q-value is below .05 by more than rounding error; False for NaN.

    Examples
    --------
    >>> significant(0.049), significant(0.05), significant(float("nan"))
    (True, False, False)
    """
    return is_above(ALPHA, q)


def side_of(row: Mapping[Any, Any], null: float) -> Literal["above", "below"] | None:
    """Return the side of the null on which an estimate and its interval lie, if any.

    Parameters
    ----------
    row : mapping
        A row of an estimates frame: ``estimate``, ``ci_low``, ``ci_high``.
    null : float
        Value without an effect.

    Examples
    --------
    >>> row = {"estimate": 0.6, "ci_low": 0.52, "ci_high": 0.7}
    >>> side_of(row, 0.5), side_of(row, 0.55)
    ('above', None)
    """
    if "ci_low" not in row:
        raise TrialsError("row", row, "a row of an estimates frame", "such as one of estimates.to_dict('records')")
    if is_above(row["ci_low"], null) and is_above(row["estimate"], null):
        return "above"
    if is_above(null, row["ci_high"]) and is_above(null, row["estimate"]):
        return "below"
    return None
