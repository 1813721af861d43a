"""Inference for studies that may stop early: rules that stop, confidence sequences, and group-sequential bounds.

A confidence sequence covers the truth at all numbers of contexts at once, so that a study may stop after any context,
whatever it has seen. Group-sequential bounds allow for a few planned looks. Contexts are the units, in random order.

References
----------
Waudby-Smith & Ramdas 2024, *Estimating means of bounded random variables by betting*, JRSS B 86; Waudby-Smith, Arbour,
Sinha, Kennedy & Ramdas 2024, *Time-uniform central limit theory and asymptotic confidence sequences*, Annals of
Statistics 52; Wang & Ramdas 2025, *Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
variance*, Sequential Analysis 44; Hall 1992, *On the removal of skewness by transformation*, JRSS B 54; Jennison &
Turnbull 2000, *Group Sequential Methods with Applications to Clinical Trials*; Lan & DeMets 1983, *Discrete sequential
boundaries for clinical trials*, Biometrika 70.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import special

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_count, require_fields
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.metrics import find_metric
from biaslab.stats.estimate import ROUNDING, Estimate, Note, is_above, is_rounding, notes_of, without_interval
from biaslab.stats.t_inference import root_between

if TYPE_CHECKING:
    import pandas as pd

#: How the error is spread over planned looks.
Spending = Literal["obrien-fleming", "pocock"]
#: Column of trials that says how their study was stopped, as JSON.
UNTIL = "until"
_BETS = ((np.arange(30) + 0.5) / 30) ** 2  # shares of the largest bet, dense near 0 for small effects
_FIRST = 10  # contexts before which an asymptotic sequence has no interval
_TIGHTEST = 50  # contexts at which it is tightest, at least; else a quarter of the most
_FEW_JUDGEMENTS = 4  # of a context, whose rate is far from normal
_MIDDLE = 0.2  # rates nearer to 0 or 1 than this are too skewed for an asymptotic sequence
_POWER = float(special.ndtri(0.8))
_POINTS = 401  # of the numerical integration over the statistic
_FARTHEST = 30.0  # standard errors
_ASYMPTOTIC = "asymptotic confidence sequence"
_LEAST_P, _TINY = 1e-12, 1e-300
Ends = tuple[float, float]


@dataclass(frozen=True)
class Until:
    """When `biaslab.collect` stops before all contexts are asked, with inference that is valid at that stop.

    Without `half_width` and `effect`, a study stops once the interval excludes the null. The rule must hold in each row
    of the metric, such as each attribute. Contexts are asked in random order, and all of them if no rule holds before.

    Parameters
    ----------
    half_width : float, optional
        Stop once the interval is no wider than twice this.
    effect : float, optional
        Stop once the interval excludes the null, or excludes every effect of at least this size.
    metric : str, optional
        The metric; default: the probe's first primary one.
    contexts : int, optional
        The most contexts; default: all of the data set.
    looks : sequence of int
        Planned looks, after so many contexts each; the last is the most. The bounds are then group-sequential: narrower
        than a confidence sequence, but valid at these looks only.
    spending : {"obrien-fleming", "pocock"}
        Spending function of planned looks (Lan & DeMets 1983): hardly any error early, or about equal bounds.
    exact : bool
        Use the betting sequence for all rates: exact for any number of contexts, but wide if contexts have many
        judgements. By default for contexts of at most 4; other sequences are asymptotic, for rates below .2 and above
        .8 no narrower than by betting.
    every : int
        Contexts between looks of a confidence sequence; a judge that answers many requests at once is asked for more.
    seed : int
        Random seed of the order.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> Until(half_width=0.05).reason([{"ci_low": 0.56, "ci_high": 0.65}], 0.5)
    'half_width'
    """

    half_width: float | None = None
    effect: float | None = None
    metric: str | None = None
    contexts: int | None = None
    looks: Sequence[int] = ()
    spending: Spending = "obrien-fleming"
    exact: bool = False
    every: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        require_fields(self)
        looks = tuple(map(int, self.looks))
        sizes = [size for size in (self.half_width, self.effect) if size is not None]
        if len(sizes) > 1 or not all(0 < size < math.inf for size in sizes):
            raise InputError("until", sizes, "one number above 0, a half-width or an effect")
        for name, least in (("contexts", 2), ("every", 1), ("seed", 0)):
            if getattr(self, name) is not None:
                require_count(f"until.{name}", getattr(self, name), least)
        if looks and not (looks[0] > 1 and all(a < b for a, b in pairwise(looks))):
            raise InputError("until.looks", self.looks, "increasing numbers of contexts from 2, such as [20, 40, 60]")
        if looks and (self.contexts is not None or self.every > 1 or self.exact):
            raise InputError("until.looks", self.looks, "without contexts, every and exact, which are of a sequence")
        if self.spending != "obrien-fleming" and not looks:
            raise InputError(
                "until.spending", self.spending, "with planned looks only", "plan some: looks=[20, 40, 60]"
            )
        object.__setattr__(self, "looks", looks)

    def most(self, available: int) -> int:
        """Return the most contexts; raise `InputError` if there are fewer."""
        wanted = self.looks[-1] if self.looks else self.contexts
        if wanted is not None and wanted > available:
            name = "until.looks" if self.looks else "until.contexts"
            raise InputError(name, wanted, f"at most {available}, the contexts of the data set")
        return wanted or available

    def reason(self, rows: Sequence[Mapping[str, Any]], null: float | None) -> str:
        """Return the rule that holds in all rows of the metric; empty if none does."""
        ends = [(float(row["ci_low"]), float(row["ci_high"])) for row in rows]
        if self.half_width is not None:
            holds = [high - low <= 2 * self.half_width * (1 + ROUNDING) for low, high in ends]
            return "half_width" if ends and all(holds) else ""
        at = 0.0 if null is None else null
        excluded = [is_above(low, at) or is_above(at, high) for low, high in ends]
        if ends and all(excluded):
            return "null_excluded"
        small = [self.effect is not None and at - self.effect < low and high < at + self.effect for low, high in ends]
        return "settled" if ends and all(map(max, excluded, small)) else ""

    def words(self, reason: str) -> str:
        """Return a reason in words."""
        if reason == "half_width":
            return f"the half-width of {self.metric} is at most {self.half_width:g}"
        if reason == "contexts":
            return "all contexts are asked"
        small = f", or effects of {self.effect:g}" if reason == "settled" else ""
        return f"the interval of {self.metric} excludes the null{small}"

    def power(self, most: int, drift: float, alpha: float) -> float:
        """Return the power to exclude the null with at most so many contexts; of a sequence, that at its end alone.

        Parameters
        ----------
        most : int
            Contexts at most.
        drift : float
            Effect in standard errors of this many contexts.
        alpha : float
            Two-sided level.
        """
        if self.looks:
            shares = tuple(n / self.looks[-1] for n in self.looks)
            return float(crossing(bounds(shares, self.spending, alpha), shares, drift).sum())
        (_, limit), _ = t_mixture(drift, most, alpha, _tightest(most))
        return float(special.ndtr(drift - limit))


def require_fixed(found: pd.DataFrame, what: str) -> None:
    """Raise `TrialsError` if trials or estimates come from a study that could stop early."""
    notes = "notes" in found and any("stopped" in notes_of(row) for row in found.to_dict("records"))
    if notes or (UNTIL in found and found[UNTIL].notna().any()):
        allowed = f"a fixed number of contexts, because {what} allows for no early stop"
        raise TrialsError(UNTIL, "a rule", allowed, "collect without until; with a store, nothing is asked twice")


@dataclass(frozen=True)
class Stopping:
    """How a study was stopped: what the inference from its trials depends on, in their column ``until``.

    Parameters
    ----------
    until : Until
        The rule, with its metric.
    contexts, most : int
        Contexts asked, and the most that were planned.
    reason : str
        "half_width", "null_excluded", "settled" (a rule) or "contexts" (all were asked).
    growth : float
        Largest planned number of judgements of a context, relative to the largest of those asked.

    Examples
    --------
    >>> stopping = Stopping(Until(), 40, 40)
    >>> estimate = stopping.of_sums(np.ones((40, 2)), 1.0, 0.0, np.zeros(40), 0.95, 0.5, betting=True)
    >>> round(estimate.ci_low, 2), estimate.method
    (0.86, 'betting confidence sequence')
    """

    until: Until
    contexts: int
    most: int
    reason: str = ""
    growth: float = 1.0

    @classmethod
    def of(cls, trials: pd.DataFrame) -> Stopping | None:
        """Return how the study of these trials was stopped; None if its number of contexts was fixed.

        Raises
        ------
        TrialsError
            If the trials come from studies that were stopped differently, or the column holds something else.
        """
        texts = list(trials[UNTIL].unique()) if UNTIL in trials else []
        if not texts or all(text != text or text is None for text in texts):
            return None
        if len(texts) > 1:
            remedy = "estimate each study on its own"
            raise TrialsError(UNTIL, len(texts), "trials of one judge and data set that were stopped once", remedy)
        try:
            values = json.loads(texts[0])
            return cls(**{**values, "until": Until(**values["until"])})
        except (ValueError, TypeError, KeyError) as error:
            raise TrialsError(UNTIL, texts[0], "JSON, as biaslab.collect writes it", "keep the column") from error

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def of_sums(
        self, sums: Floats, value: float, error: float, parts: Floats, level: float, null: float | None, betting: bool
    ) -> Estimate:
        """Return the estimate of a function of sums over contexts.

        Parameters
        ----------
        sums : numpy.ndarray, shape (contexts, columns)
            Numerators and denominators of each context.
        value, error : float
            The value, and its linearised standard error.
        parts : numpy.ndarray, shape (contexts,)
            Linearised contribution of each context.
        level, null
            Level of the interval, and null value.
        betting : bool
            Whether the value is a rate, a ratio of sums between 0 and 1, to whose contexts bets apply.
        """
        flat, n = is_rounding(error, np.abs(parts).sum() + abs(value)), len(sums)
        made = self.of_error(value, 0.0 if flat else error, n, level, null, parts)
        if not betting or (self.until.looks and not flat):
            return made
        largest = float(sums[:, 1].max()) * self.growth
        interval, p_value = bet(sums[:, 0], sums[:, 1], largest, level, null)
        exact = self._estimate(value, error, interval, p_value, n, "betting confidence sequence")
        if flat or self.until.exact or largest <= _FEW_JUDGEMENTS or n < _FIRST:
            return exact
        if _MIDDLE <= value <= 1 - _MIDDLE:
            return made
        ends = min(made.ci_low, exact.ci_low), max(made.ci_high, exact.ci_high)
        method = f"{_ASYMPTOTIC}, no narrower than by betting"
        return self._estimate(value, error, ends, max(made.p_value, p_value), n, method)

    def of_error(
        self, value: float, error: float, contexts: int, level: float, null: float | None, parts: Floats | None = None
    ) -> Estimate:
        """Return the estimate of an asymptotically linear statistic, from its value and standard error."""
        if not error > 0 or contexts < (2 if self.until.looks else _FIRST):
            reason = f"no interval: fewer than {_FIRST} contexts, or no variation between them"
            return without_interval(value, contexts, reason).noted(self._note())
        skew, shift = _skewness(parts), math.nan if null is None else (value - null) / error
        if self.until.looks:
            limits, p_value, method = self._at_look(contexts - 1, level, shift, skew)
        else:
            limits, p_value = t_mixture(shift, contexts, 1 - level, _tightest(self.most), skew)
            method = _ASYMPTOTIC
        interval = (value - limits[1] * error, value - limits[0] * error)
        return self._estimate(value, error, interval, p_value, contexts, method)

    def of_estimate(self, estimate: Estimate, level: float, metric: str) -> Estimate:
        """Return an estimate made for a fixed number of contexts, with the inference of this study."""
        if math.isnan(estimate.estimate) or estimate.has_note("stopped") or estimate.has_note("by_construction"):
            return estimate
        left_out, n = estimate.leave_one_out, estimate.n_contexts
        parts = None if left_out is None else np.nan_to_num(left_out[1][0] - left_out[1][1:])
        null = None if math.isnan(estimate.p_value) else find_metric(metric).null or 0.0
        made = self.of_error(estimate.estimate, estimate.se, n, level, null, parts)
        return replace(made, notes=(*made.notes, *estimate.notes), leave_one_out=left_out)

    def _at_look(self, freedom: int, level: float, shift: float, skew: float) -> tuple[Ends, float, str]:
        """Return limits of the t statistic and the repeated p-value at the present look (Jennison & Turnbull 1989)."""
        looks, spending = self.until.looks, self.until.spending
        if self.contexts not in looks:
            raise TrialsError(UNTIL, self.contexts, f"a planned look: {', '.join(map(str, looks))}")
        shares = tuple(n / self.most for n in looks if n <= self.contexts)
        tail = special.ndtr(-bounds(shares, spending, 1 - level)[-1])
        limits = _within(float(special.stdtrit(freedom, 1 - tail)), skew)
        beyond = float(np.maximum(special.stdtr(freedom, -_least(shift, skew)), _TINY))
        p_value = repeated_p(-float(special.ndtri(beyond)), shares, spending)
        method = f"group sequential, look {len(shares)} of {len(looks)} ({spending} spending); t over contexts"
        return limits, p_value, method

    def _estimate(
        self, value: float, error: float, interval: tuple[float, float], p_value: float, n: int, method: str
    ) -> Estimate:
        half = max(interval[1] - value, value - interval[0])
        mde = half + _POWER * error if error > 0 else math.nan
        return Estimate(value, error or math.nan, *interval, p_value, mde, n, method, (self._note(),))

    def _note(self) -> Note:
        words = self.until.words(self.reason)
        facts: dict[str, float | str] = {
            "reason": self.reason,
            "rule": words,
            "contexts": self.contexts,
            "most": self.most,
        }
        return Note("stopped", facts)


def _skewness(parts: Floats | None) -> float:
    """Return the skewness of contributions over the root of their number; 0 if unknown."""
    n = 0 if parts is None else len(parts)
    if parts is None or n < 3:
        return 0.0
    centred = parts - parts.mean()
    square = float((centred**2).sum())
    return float((centred**3).sum()) / square**1.5 * math.sqrt((n - 1) / n) * n / (n - 2) if square else 0.0


def _least(statistic: float, skew: float) -> float:
    """Return how extreme a statistic is, or if that is less, the same transformed for skewness (Hall 1992)."""
    cubic = statistic + skew * statistic**2 / 3 + skew**2 * statistic**3 / 27
    return min(abs(statistic), abs(cubic)) if statistic * cubic > 0 else 0.0 * statistic


def _within(limit: float, skew: float) -> Ends:
    """Return the smallest and largest statistic that is no more extreme than a limit by `_least`."""
    if is_rounding(skew) or math.isinf(limit):
        return -limit, limit
    moved = [3 / skew * (float(np.cbrt(1 + skew * end)) - 1) for end in (-limit, limit)]
    return min(-limit, moved[0]), max(limit, moved[1])


def _tightest(most: int) -> float:
    """Return the number of contexts at which the sequence of a study of at most so many is tightest."""
    return max(_TIGHTEST, most / 4)


def t_mixture(statistic: float, contexts: int, alpha: float, tightest: float, skew: float = 0.0) -> tuple[Ends, float]:
    """Return the smallest and largest t statistic that an asymptotic confidence sequence contains, and a p-value.

    The mixture of t likelihoods over standardised effects N(0, g) is an exact e-process for normal contributions (Wang
    & Ramdas 2025) and for others asymptotically that of Waudby-Smith et al. (2024). Skewed contributions, such as rare
    events, break it at a few dozen contexts, so a value is rejected only if the statistic transformed for skewness
    (Hall 1992) is as extreme, too. The p-value, always valid, is the inverse of the e-value of a statistic.

    Parameters
    ----------
    statistic : float
        The t statistic; NaN gives no p-value.
    contexts : int
        Number of contexts.
    alpha : float
        Level of the limits.
    tightest : float
        Number of contexts at which the sequence is tightest.
    skew : float
        Skewness of the contexts' contributions over the root of their number.

    Examples
    --------
    >>> (low, high), p_value = t_mixture(3.17, 50, 0.05, 50)
    >>> round(high, 2), round(p_value, 3)
    (3.17, 0.05)
    """
    freedom, twice = contexts - 1, -2 * math.log(alpha)
    ratio = 1 + contexts * (twice + math.log(twice) + 1) / tightest  # of the variance with effects to that without
    factor = (math.sqrt(ratio) / alpha) ** (2 / contexts)
    limit = math.inf if factor >= ratio else math.sqrt(freedom * (factor - 1) / (1 - factor / ratio))
    square = _least(statistic, skew) ** 2 / freedom
    mixed = math.log1p(square) - math.log1p(square / ratio)
    return _within(limit, skew), float(np.minimum(1.0, math.exp((math.log(ratio) - contexts * mixed) / 2)))


def bet(
    numerator: Floats, denominator: Floats, largest: float, level: float, null: float | None = None
) -> tuple[Ends, float]:
    """Return the betting confidence interval of a rate Σ numerators / Σ denominators, and an always-valid p-value.

    A gambler who bets a fixed share on numerator − m × denominator of each context wins nothing in expectation if the
    rate is m, however contexts differ in size. The wealth, a mean over shares, is a martingale: it exceeds 2/α to
    either side, at any time, with a probability of at most α. The order of contexts does not matter. This is the hedged
    grid of Waudby-Smith & Ramdas (2024).

    Parameters
    ----------
    numerator, denominator : numpy.ndarray, shape (contexts,)
        Sums of each context; numerators from 0 to the denominator.
    largest : float
        Largest possible denominator.
    level : float
        Level of the interval: the rates at which the wealth is below 2/α to both sides.
    null : float, optional
        Null value, between 0 and 1, of the test; without one the p-value is NaN.

    Examples
    --------
    >>> interval, p_value = bet(np.repeat([1.0, 0.0], [45, 15]), np.ones(60), 1.0, 0.95, null=0.5)
    >>> [round(end, 3) for end in interval], round(p_value, 4)
    ([0.551, 0.898], 0.0038)
    """
    rest, needed = denominator - numerator, math.log(2 / (1 - level))
    low, high = (_lower_end(won, denominator, largest, needed) for won in (numerator, rest))
    if null is None:
        return (low, 1 - high), math.nan
    wealth = max(log_wealth(numerator, denominator, largest, null), log_wealth(rest, denominator, largest, 1 - null))
    return (low, 1 - high), min(1.0, 2 * math.exp(-wealth))


def log_wealth(numerator: Floats, denominator: Floats, largest: float, rate: float) -> float:
    """Return the logarithm of the wealth of bets that a rate is above a value; it falls with the value."""
    odds = (numerator / rate - denominator) / largest
    return float(special.logsumexp(np.log1p(_BETS[:, None] * odds).sum(axis=1))) - math.log(len(_BETS))


def _lower_end(numerator: Floats, denominator: Floats, largest: float, needed: float) -> float:
    """Return the largest rate below the observed one at which the log wealth is at least this."""

    def room(rate: float) -> float:
        return log_wealth(numerator, denominator, largest, rate) - needed

    low = float(numerator.sum() / denominator.sum())
    while low and room(low) < 0:
        low /= 2
    return root_between(room, low, 2 * low) if low else 0.0


@cache
def bounds(shares: tuple[float, ...], spending: Spending, alpha: float) -> tuple[float, ...]:
    """Return the two-sided bounds of the z statistic at planned looks, by numerical integration.

    Parameters
    ----------
    shares : tuple of float
        Share of the information at each look, increasing, at most 1.
    spending : {"obrien-fleming", "pocock"}
        Spending function of Lan and DeMets (1983).
    alpha : float
        Two-sided level over all looks.

    Examples
    --------
    >>> [round(bound, 3) for bound in bounds((0.2, 0.4, 0.6, 0.8, 1.0), "obrien-fleming", 0.05)]
    [4.877, 3.357, 2.68, 2.29, 2.031]
    """
    spent = np.diff([_spent(share, spending, alpha) for share in shares], prepend=0.0)
    made: list[float] = []
    state = _START
    for look, error in enumerate(spent):
        before = shares[look - 1] if look else 0.0
        made.append(_bound(state, before, shares[look], float(error)))
        state = _continued(state, before, shares[look], made[-1])
    return tuple(made)


def crossing(limits: Sequence[float], shares: Sequence[float], drift: float = 0.0) -> Floats:
    """Return the probability that the z statistic first crosses its two-sided bound at each look.

    Parameters
    ----------
    limits, shares : sequence of float
        Bounds, and shares of the information, at each look.
    drift : float
        Expected z statistic with all information.

    Examples
    --------
    Pocock's and O'Brien and Fleming's bounds for five looks at .05 (Jennison & Turnbull 2000, Tables 2.1, 2.3):

    >>> shares = np.arange(1, 6) / 5
    >>> [round(float(crossing(limits, shares).sum()), 4) for limits in ([2.413] * 5, 2.040 / np.sqrt(shares))]
    [0.05, 0.05]
    """
    state, before, made = _START, 0.0, []
    for limit, share in zip(limits, shares, strict=True):
        made.append(_beyond(state, before, share, float(limit), drift))
        state, before = _continued(state, before, share, float(limit), drift), share
    return np.array(made)


def repeated_p(statistic: float, shares: tuple[float, ...], spending: Spending) -> float:
    """Return the level at which the bound of the last look equals a z statistic (Jennison & Turnbull 1989)."""

    def room(log_level: float) -> float:
        return bounds.__wrapped__(shares, spending, math.exp(log_level))[-1] - statistic

    if math.isnan(statistic):
        return math.nan
    least, most = math.log(_LEAST_P), math.log(0.999)
    if room(least) <= 0:
        return _LEAST_P
    return 1.0 if room(most) >= 0 else math.exp(root_between(room, least, most, 1e-7))


def _spent(share: float, spending: Spending, alpha: float) -> float:
    """Return the error spent at a share of the information, two-sided."""
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1) * share)
    return 4 * float(special.ndtr(special.ndtri(alpha / 4) / math.sqrt(share)))


#: Values of the score statistic (z times the root of the share), and their density weights, while a study goes on.
_State = tuple[Floats, Floats]
_START: _State = (np.zeros(1), np.ones(1))


def _beyond(state: _State, before: float, share: float, limit: float, drift: float = 0.0) -> float:
    """Return the probability of going on until a look and being beyond its bound."""
    (at, weight), step = state, math.sqrt(share - before)
    centre, edge = at + drift * (share - before), limit * math.sqrt(share)
    tails = special.ndtr((centre - edge) / step) + special.ndtr((-edge - centre) / step)
    return float(weight @ tails)


def _continued(state: _State, before: float, share: float, limit: float, drift: float = 0.0) -> _State:
    """Return the statistic's density within the bound of a look, by Simpson's rule."""
    (at, weight), step, edge = state, math.sqrt(share - before), min(limit, _FARTHEST / 3) * math.sqrt(share)
    values = np.linspace(-edge, edge, _POINTS)
    simpson = np.where(np.arange(_POINTS) % 2, 4.0, 2.0)
    simpson[[0, -1]] = 1.0
    distance = (values[:, None] - at - drift * (share - before)) / step
    density = np.exp(-(distance**2) / 2) @ weight / (step * math.sqrt(2 * math.pi))
    return values, density * simpson * (values[1] - values[0]) / 3


def _bound(state: _State, before: float, share: float, error: float) -> float:
    """Return the bound that a statistic first exceeds at a look with this probability."""
    least = math.log(max(error, _TINY))
    return root_between(lambda c: math.log(max(_beyond(state, before, share, c), _TINY)) - least, 0.0, _FARTHEST, 1e-9)
