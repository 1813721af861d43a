"""The power of a rate that only pairs which flip with their order move: simulated, where flips are few."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from biaslab.core.errors import InputError
from biaslab.stats.power import KURTOSIS
from biaslab.study.planning.pilot import Spread, Unvarying

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
RATE = "first_position_rate"
#: With more flips than this in a study the noncentral t distribution is near enough, and nothing is simulated.
MANY = 30
_STUDIES, _STEP, _ASSUMED = 1_000, 1.2, 5_000
_HALF, _FINE, _MOST = 0.5, 0.001, 0.95
_POINTS, _NODES = 14, 32  # of the curve of power, and of what a pilot does not know
_TOGETHER = 2, 0.1  # flips that are added to a pilot's, and how far pairs flip together in their contexts
_CELL = ["judge", "dataset", "attribute", "template"]
_PAIR = ["context_id", "one", "two", "replicate"]


@dataclass(frozen=True)
class Flips(Spread):
    """Flips of pairs in the contexts of a pilot, from which the power of `RATE` is simulated with the probe's test.

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
    unflipped : Unvarying, optional
        Of a pilot in which no pair flips, or all do to one side: which shifts as many equal contexts exclude.

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
    unflipped: Unvarying | None = field(default=None, repr=False, kw_only=True)

    @property
    def rate(self) -> float:
        """Share of pairs that flip, 0 to 1."""
        return float((self.first + self.second).sum() / self.pairs.sum())

    def power(self, effect: float, contexts: int, alpha: float = 0.05) -> float:
        """Return the share of simulated studies in which the test finds a shift, averaged over the pilot's uncertainty.

        A study draws contexts of the pilot with replacement, each with its bias turned round at random, so that there
        is none on average. Then the log odds of the first are raised until the metric shifts.
        """
        if not 0 <= effect < _HALF:
            return math.nan
        entering = max(int(contexts * self.share + 1e-9), 1)
        if self._is_normal(effect, entering):
            return super().power(effect, contexts, alpha)
        return float(self._powers(np.array([effect]), entering, alpha)[0])

    def detectable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that a number of contexts detects; NaN if too few for a test to reach α."""
        entering, least = int(contexts * self.share + 1e-9), super().detectable(contexts, power, alpha)
        if math.isnan(least) or self._is_normal(least, entering):
            return least
        effects = np.arange(1.0, round(_HALF / _FINE)) * _FINE
        enough = np.flatnonzero(self._powers(effects, entering, alpha) >= power)
        return float(effects[enough[0]]) if len(enough) else math.nan

    def excludable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that a number of contexts excludes, with a given power, if there is none."""
        if self.unflipped is not None:
            return self.unflipped.excludable(contexts, power, alpha)
        return super().excludable(contexts, power, alpha)

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

    def _is_normal(self, effect: float, entering: int) -> bool:
        """Return whether flips are frequent enough for the formula, so that nothing is simulated."""
        return entering * self._flips >= MANY and effect <= self.rate / 2

    def _powers(self, effects: Floats, entering: int, alpha: float) -> Floats:
        """Return the power against each shift, averaged over how much contexts may vary in truth.

        What varies without a bias is known from the pilot alone, and may be more or less; a bias adds flips that vary
        by themselves. So the power of studies that are drawn from the pilot is taken where the shift is as many
        standard deviations as it would be then.
        """
        at = np.geomspace(_FINE, _HALF - _FINE, _POINTS)
        nets = [self.studies(each, entering, np.random.default_rng([entering, len(self.pairs)])) for each in at]
        powers = np.maximum.accumulate([np.mean(p_values(each) < alpha) for each in nets])
        spread = np.array([each.std() for each in nets])
        ratios = np.maximum.accumulate(at / np.maximum(spread, _FINE))
        unbiased = float((self._drawn[:, 1:] @ (1, -1)) @ (self._drawn[:, 1:] @ (1, -1))) / len(self._drawn)
        square = np.interp(effects, at, spread)[:, None] ** 2 + unbiased * (self._unknown() - 1)
        wanted = effects[:, None] / np.sqrt(np.maximum(square, _FINE**2))
        return np.asarray(np.interp(wanted, ratios, powers).mean(axis=1))

    def _unknown(self) -> Floats:
        """Return quantiles of how many times the variance of a pilot's contexts may be in truth.

        A gamma distribution, as of the rate of a Poisson count: of as many independent flips as the contexts' squares
        amount to, the squared sum of these over the sum of their squares (Satterthwaite 1946), but no more than of
        contexts whose kurtosis is 4; and one.
        """
        if not self.pilot:
            return np.ones(1)
        squares = (self.first - self.second).astype(float) ** 2
        total, most = float(squares.sum()), float((squares**2).sum())
        least = most / total**2 - 1 / len(squares) if total else math.inf
        half = min(1 / least if least > 0 else math.inf, (len(squares) - 1) / (KURTOSIS - 1)) + 1
        return np.asarray(stats.gamma.ppf((np.arange(_NODES) + 0.5) / _NODES, half) / half)

    def studies(self, effect: float, contexts: int, rng: np.random.Generator) -> Floats:
        """Return what each context of simulated studies adds to the shift, in pairs; shape (studies, contexts)."""
        drawn = self._drawn[rng.integers(len(self._drawn), size=(_STUDIES, contexts))]
        swapped = rng.uniform(size=drawn.shape[:2]) < 0.5
        pairs, one, two = np.moveaxis(drawn, -1, 0)
        first, second = np.where(swapped, two, one), np.where(swapped, one, two)
        kept, moved = _tilted(min(float(self._drawn[:, 1:].sum() / self._drawn[:, 0].sum()), _MOST), effect)
        staying = rng.binomial(second, self._of_contexts(kept, second.shape, rng))
        alike = pairs - first - staying
        return np.asarray(first + rng.binomial(alike, self._of_contexts(moved, alike.shape, rng)) - staying, float)

    @cached_property
    def _drawn(self) -> NDArray[np.int64]:
        """Contexts that studies draw: pairs, flips to the first, and to the second.

        To those of a pilot half a flip is added, Jeffreys' prior of a count, so that none knows a rate of 0.
        """
        known = np.column_stack([self.pairs, self.first, self.second])
        return np.vstack([known, known, [max(1, round(float(self.pairs.mean()))), 1, 0]]) if self.pilot else known

    def _of_contexts(self, share: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw the share of each context: pairs of a context flip together as far as they do in the pilot."""
        share, size, net = min(max(share, 0.0), 1.0), float(self.pairs.mean()), self.first - self.second
        more, together = _TOGETHER if self.pilot else (0, 0.0)
        flips = float((self.first + self.second).sum()) + more
        spread = (float((net**2).sum()) + more * (1 + together * (size - 1))) / max(flips, 1.0)  # 1: independent
        together = min((spread - 1) / (size - 1), _MOST) if size > 1 else 0.0
        if together <= 0:
            return np.full(shape, share)
        scale, inside = 1 / together - 1, min(max(share, _FINE**2), 1 - _FINE**2)
        return np.asarray(rng.beta(inside * scale, (1 - inside) * scale, size=shape), float)


def _tilted(rate: float, effect: float) -> tuple[float, float]:
    """Return which share of flips to the second stays, and of all but flips to the first becomes one, for a shift.

    A rise of the log odds of the first in both orders multiplies the odds of two verdicts for it against one by x, and
    of one against none: shares (f/2, 1 − f, f/2) become (f x/2, 1 − f, f/(2x)), divided by their sum.
    """
    half, alike, gap = rate / 2, 1 - rate, 2 * effect
    square, linear, constant = half * (1 - gap), -gap * alike, -half * (1 + gap)
    odds = (-linear + math.sqrt(linear**2 - 4 * square * constant)) / (2 * square)
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
    made = Flips(found.deviation, found.share, found.origin, *counts, pilot=len(worst))
    made = replace(made, unflipped=found if isinstance(found, Unvarying) else None)
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
