"""The power of a rate that only pairs which flip with their order move: simulated, where flips are few."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from biaslab.core.errors import InputError
from biaslab.study.planning.pilot import Spread

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
RATE = "first_position_rate"
#: With more flips than this in a study the noncentral t distribution is near enough, and nothing is simulated.
MANY = 30
_STUDIES, _STEP, _ASSUMED = 1_000, 1.2, 5_000
_HALF, _FINE, _MOST_TOGETHER = 0.5, 0.001, 0.9
_FEW_FLIPS = 0.5  # added to those of a pilot, so that one without a flip knows no rate of 0
_CELL = ["judge", "dataset", "attribute", "template"]
_PAIR = ["context_id", "one", "two", "replicate"]


@dataclass(frozen=True)
class Flips(Spread):
    """How pairs flip in the contexts of a pilot, from which the power of `RATE` is simulated with the probe's own test.

    A shift of the log odds of the first makes flips: pairs that both orders decided alike begin to flip to the first,
    and flips to the second end. So a pilot without bias, in which few pairs flip, plans for any shift below ½.

    Parameters
    ----------
    deviation, share, origin
        As of `biaslab.study.planning.pilot.Spread`.
    pairs : numpy.ndarray of int, shape (contexts,)
        Pairs of each context that were decided in both orders.
    first, second : numpy.ndarray of int, shape (contexts,)
        Those that went to the first, and to the second, both times.
    pilot : int
        Contexts of the pilot; 0 where the flips are an assumption.

    Examples
    --------
    >>> import numpy as np
    >>> pairs, one = np.full(50, 3), np.repeat([1, 0], 25)
    >>> found = Flips(0.1, 1.0, "an earlier study", pairs, one, 1 - one)
    >>> round(found.rate, 3)
    0.333
    """

    pairs: NDArray[np.int64] = field(repr=False)
    first: NDArray[np.int64] = field(repr=False)
    second: NDArray[np.int64] = field(repr=False)

    @property
    def rate(self) -> float:
        """Share of pairs that flip, 0 to 1."""
        return float((self.first + self.second).sum() / self.pairs.sum())

    def power(self, effect: float, contexts: int, alpha: float = 0.05) -> float:
        """Return the share of simulated studies in which the test finds a shift.

        A study draws contexts of the pilot with replacement, each with its bias turned round at random, so that there
        is none on average; of a pilot that was drawn itself, so that the power is averaged over its uncertainty. Then
        the log odds of the first are raised until the metric shifts.
        """
        if not 0 <= effect < _HALF:
            return math.nan
        entering = max(int(contexts * self.share + 1e-9), 1)
        if entering * self._flips >= MANY and effect <= self.rate / 2:
            return super().power(effect, contexts, alpha)
        rng = np.random.default_rng([entering, len(self.pairs)])
        return float(np.mean(p_values(self.studies(effect, entering, rng)) < alpha))

    def detectable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that this many contexts detect; NaN where too few for a test to reach α."""
        least = super().detectable(contexts, power, alpha)
        if math.isnan(least) or self.power(_HALF - _FINE, contexts, alpha) < power:
            return math.nan
        if contexts * self.share * self._flips >= MANY and least <= self.rate / 2:
            return least
        low, high = 0.0, _HALF - _FINE
        while high - low > _FINE:
            middle = (low + high) / 2
            low, high = (low, middle) if self.power(middle, contexts, alpha) >= power else (middle, high)
        return high

    def required(self, effect: float, power: float = 0.8, alpha: float = 0.05) -> int:
        """Return how many contexts it takes to detect a shift.

        Raises
        ------
        InputError
            If the effect is not above 0, or not below ½, which no rate can shift by.
        """
        if effect >= _HALF:
            raise InputError("effect", effect, f"a shift of {RATE} below 0.5", "it cannot shift from ½ to above 1")
        contexts = Spread(self.deviation, self.share, self.origin, pilot=self.pilot).required(effect, power, alpha)
        while self.power(effect, contexts, alpha) < power - _FINE:
            contexts = math.ceil(contexts * _STEP)
        return contexts

    @property
    def _flips(self) -> float:
        """Flips of a context, on average."""
        return float((self.first + self.second).mean())

    def studies(self, effect: float, contexts: int, rng: np.random.Generator) -> Floats:
        """Return what each context of simulated studies adds to the shift, in pairs; shape (studies, contexts)."""
        count = len(self.pairs)
        if self.pilot:
            pilots = rng.integers(count, size=(_STUDIES, count))
            drawn = np.take_along_axis(pilots, rng.integers(count, size=(_STUDIES, contexts)), axis=1)
        else:
            pilots = np.arange(count)[None]
            drawn = rng.integers(count, size=(_STUDIES, contexts))
        flips = (self.first + self.second)[pilots].sum(axis=1, keepdims=True) + _FEW_FLIPS
        rate = flips / (self.pairs[pilots].sum(axis=1, keepdims=True) + 2 * _FEW_FLIPS)
        kept, moved = _tilted(rate, effect)
        swapped = rng.uniform(size=drawn.shape) < 0.5
        one, two = self.first[drawn], self.second[drawn]
        first, second = np.where(swapped, two, one), np.where(swapped, one, two)
        staying = rng.binomial(second, self._of_contexts(kept, second.shape, rng))
        alike = self.pairs[drawn] - first - staying
        return np.asarray(first + rng.binomial(alike, self._of_contexts(moved, alike.shape, rng)) - staying, float)

    def _of_contexts(self, share: Floats, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw the share of each context: pairs of a context flip together as far as they do in the pilot."""
        size, net = float(self.pairs.mean()), self.first - self.second
        spread = float((net**2).sum()) / max(float((self.first + self.second).sum()), 1.0)  # 1 if they are independent
        together = min((spread - 1) / (size - 1), _MOST_TOGETHER) if size > 1 else 0.0
        whole = np.broadcast_to(np.clip(share, 0.0, 1.0), shape)
        if together <= 0:
            return whole
        scale, inside = 1 / together - 1, np.clip(whole, _FINE * _FINE, 1 - _FINE * _FINE)
        return np.asarray(rng.beta(inside * scale, (1 - inside) * scale), float)


def _tilted(rate: Floats, effect: float) -> tuple[Floats, Floats]:
    """Return which share of flips to the second stays, and of all but flips to the first becomes one, for a shift.

    A rise of the log odds of the first in both orders multiplies the odds of two verdicts for it against one by x, and
    of one against none: shares (f/2, 1 − f, f/2) become (f x/2, 1 − f, f/(2x)), divided by their sum.
    """
    half, alike, gap = rate / 2, 1 - rate, 2 * effect
    square, linear, constant = half * (1 - gap), -gap * alike, -half * (1 + gap)
    odds = (-linear + np.sqrt(linear**2 - 4 * square * constant)) / (2 * square)
    total = half * odds + alike + half / odds
    first, second = half * odds / total, half / odds / total
    return second / half, (first - half) / (1 - half - second)


def p_values(nets: Floats) -> Floats:
    """Return the p-value of each study by the probe's test: the t test of what contexts add (`biaslab.stats.t_test`).

    At the null the score test of the rate is this test.
    """
    contexts = nets.shape[1]
    mean, error = nets.mean(axis=1), nets.std(axis=1, ddof=1) / math.sqrt(contexts) if contexts > 1 else 0 * nets[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 2 * stats.t.sf(np.abs(mean) / error, max(contexts - 1, 1))
    found = np.where(error > 0, found, np.where(mean == 0, 1.0, 0.0))
    return np.asarray(np.maximum(found, 2.0 ** (1 - contexts)), float)


def flips_of(trials: pd.DataFrame, found: Spread) -> Flips:
    """Read off a pilot how its pairs flip: of several cells, in the one where contexts vary most.

    Parameters
    ----------
    trials : pandas.DataFrame
        Judgements of pairs in both orders.
    found : Spread
        What was read off them already.
    """
    cells = [part for _, part in _outcomes(trials).groupby(_CELL, sort=False)]
    worst = max(cells, key=lambda part: float(((part["first"] - part["second"]) / part["pairs"]).var()))
    counts = [worst[name].to_numpy() for name in ("pairs", "first", "second")]
    made = Flips(found.deviation, found.share, found.origin, *counts, pilot=found.pilot)
    return replace(made, origin=f"{found.origin}; {made.rate:.2g} of the pairs flip with their order")


def assumed_flips(trials: pd.DataFrame, share: float) -> Flips:
    """Assume that a share of the pairs of a pilot flips, one pair as likely as another.

    Parameters
    ----------
    trials : pandas.DataFrame
        As for `flips_of`.
    share : float
        Above 0, at most 1.

    Raises
    ------
    InputError
        If the share lies outside its range.
    """
    if not 0 < share <= 1:
        raise InputError("flips", share, "a share of the pairs, above 0 and at most 1")
    pairs = _outcomes(trials).groupby("context_id")["pairs"].min().to_numpy()
    pairs = np.resize(pairs, max(len(pairs), _ASSUMED))
    rng = np.random.default_rng(0)
    flips = rng.binomial(pairs, share)
    first = rng.binomial(flips, 0.5)
    deviation = math.sqrt(share / (4 * float(pairs.mean())))
    origin = (
        f"contexts vary with a standard deviation of {deviation:.3g} if {share:.2g} of the pairs flip with their order"
        f" (an assumption), {pairs.mean():.3g} pairs a context"
    )
    return Flips(deviation, 1.0, origin, pairs, first, flips - first)


def _outcomes(trials: pd.DataFrame) -> pd.DataFrame:
    """Return, for each cell and context, how many pairs were decided in both orders, and went to one place twice."""
    import pandas as pd

    decided = trials[(trials["status"] == "ok") & trials["opponent_id"].notna()]
    names = np.sort(decided[["candidate_id", "opponent_id"]].astype(str).to_numpy(), axis=1)
    decided = decided.assign(won=np.sign(decided["value"] - 0.5), one=names[:, 0], two=names[:, 1])
    orders = decided.groupby([*_CELL, *_PAIR], sort=False)["won"].agg(["sum", "size"])
    net = orders.loc[orders["size"] == 2, "sum"]
    counted = pd.DataFrame({"pairs": 1, "first": net == 2, "second": net == -2})
    return counted.groupby([*_CELL, "context_id"], sort=False).sum().reset_index()
