"""The power of a rate that only pairs which flip with their order move: simulated, where flips are few."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from biaslab.core import Probe
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.stats import Resampling
from biaslab.study.planning.pilot import Spread

if TYPE_CHECKING:
    import pandas as pd

RATE = "first_position_rate"
#: With more flips than this in a study the noncentral t distribution is near enough, and nothing is simulated.
MANY = 30
_STUDIES, _STEP, _GRID, _ASSUMED = 200, 1.2, 6, 5_000
_CELL = ["judge", "dataset", "attribute", "template"]
_MISSING = ("human_gap", "label_mass", "samples")
_SAME = {
    "probe": "position",
    "dataset": "simulated",
    "attribute": "simulated",
    "template": 1,
    "replicate": 0,
    "status": "ok",
}
_PAIR = ["context_id", "one", "two", "replicate"]


@dataclass(frozen=True)
class Flips(Spread):
    """How pairs flip in the contexts of a pilot, from which the power of `RATE` is simulated with the probe's own test.

    Parameters
    ----------
    deviation, share, origin
        As of `biaslab.study.planning.pilot.Spread`.
    probe : Probe
        Whose test it is.
    pairs : numpy.ndarray of int, shape (contexts,)
        Pairs of each context that were decided in both orders.
    first, second : numpy.ndarray of int, shape (contexts,)
        Those that went to the first, and to the second, both times.

    Examples
    --------
    >>> import biaslab as bl
    >>> import numpy as np
    >>> pairs, one = np.full(50, 3), np.repeat([1, 0], 25)
    >>> found = Flips(0.1, 1.0, "an earlier study", bl.probes.Position(), pairs, one, 1 - one)
    >>> round(found.rate, 3)
    0.333
    """

    probe: Probe
    pairs: NDArray[np.int64] = field(repr=False)
    first: NDArray[np.int64] = field(repr=False)
    second: NDArray[np.int64] = field(repr=False)

    @property
    def rate(self) -> float:
        """Share of pairs that flip, 0 to 1; the metric lies at most half of it from its null."""
        return float((self.first + self.second).sum() / self.pairs.sum())

    def power(self, effect: float, contexts: int, alpha: float = 0.05) -> float:
        """Return the share of simulated studies in which the probe's own test finds a shift.

        A study draws contexts of the pilot with replacement, each with its bias turned round at random, so that there
        is none on average. Then flips to the second are turned to the first, by so many that the metric shifts.
        NaN where the flips are too few for the shift.
        """
        if effect > self.rate / 2:
            return math.nan
        if contexts * self.share * self._flips >= MANY:
            return super().power(effect, contexts, alpha)
        rng = np.random.default_rng([contexts, len(self.pairs)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissingDataWarning)
            found = self._test(self._studies(min(1.0, 2 * effect / self.rate), contexts, rng))
        return float((found["p_value"] < alpha).sum() / _STUDIES)

    def detectable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that this many contexts detect; NaN where so few flips cannot make one that is."""
        least, most = super().detectable(contexts, power, alpha), self.rate / 2
        if math.isnan(least) or least > most:
            return math.nan
        if contexts * self.share * self._flips >= MANY:
            return least
        grid = np.linspace(least, most, _GRID)
        return next((float(effect) for effect in grid if self.power(effect, contexts, alpha) >= power), math.nan)

    def required(self, effect: float, power: float = 0.8, alpha: float = 0.05) -> int:
        """Return how many contexts it takes to detect a shift.

        Raises
        ------
        InputError
            If the effect is not above 0, or larger than the flips allow.
        """
        if effect > self.rate / 2:
            allowed = f"at most {self.rate / 2:.3g}, half of the share of pairs that flip"
            raise InputError("effect", effect, allowed, "a smaller one, or pairs of candidates that are more alike")
        contexts = Spread(self.deviation, self.share, self.origin).required(effect, power, alpha)
        while contexts * self.share * self._flips < MANY and self.power(effect, contexts, alpha) < power:
            contexts = math.ceil(contexts * _STEP)
        return contexts

    @property
    def _flips(self) -> float:
        """Flips of a context, on average."""
        return float((self.first + self.second).mean())

    def _studies(self, turned: float, contexts: int, rng: np.random.Generator) -> pd.DataFrame:
        """Return the trials of all studies, each under the name of another judge."""
        import pandas as pd

        drawn = rng.integers(len(self.pairs), size=(_STUDIES, contexts)).ravel()
        swapped = rng.uniform(size=len(drawn)) < 0.5
        one, two = self.first[drawn], self.second[drawn]
        first, second = np.where(swapped, two, one), np.where(swapped, one, two)
        moved = rng.binomial(second, turned)
        first, second = first + moved, second - moved
        sizes = self.pairs[drawn]
        pair = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        unit = np.repeat(np.arange(len(drawn)), sizes)
        wins = np.where(pair < first[unit], 2, np.where(pair < (first + second)[unit], 0, 1))
        shown = {"judge": unit // contexts, "context_id": unit, **dict.fromkeys(_MISSING, math.nan), **_SAME}
        orders = [
            {"candidate_id": 2 * pair + k, "opponent_id": 2 * pair + 1 - k, "value": (wins > k).astype(float)} | shown
            for k in (0, 1)
        ]
        trials = pd.concat([pd.DataFrame(order) for order in orders], ignore_index=True)
        return trials.assign(key=np.arange(len(trials)))

    def _test(self, trials: pd.DataFrame) -> pd.DataFrame:
        probe = replace(self.probe, resampling=Resampling(n=100))  # type: ignore[type-var]
        return probe.estimate(trials, [RATE])


def flips_of(probe: Probe, trials: pd.DataFrame, found: Spread) -> Flips:
    """Read off a pilot how its pairs flip: of several cells, in the one where contexts vary most.

    Parameters
    ----------
    probe : Probe
        What the trials are of.
    trials : pandas.DataFrame
        Judgements of pairs in both orders.
    found : Spread
        What was read off them already.
    """
    cells = [part for _, part in _outcomes(trials).groupby(_CELL, sort=False)]
    worst = max(cells, key=lambda part: float(((part["first"] - part["second"]) / part["pairs"]).var()))
    counts = [worst[name].to_numpy() for name in ("pairs", "first", "second")]
    made = Flips(found.deviation, found.share, found.origin, probe, *counts)
    return replace(made, origin=f"{found.origin}; {made.rate:.2g} of the pairs flip with their order")


def assumed_flips(probe: Probe, trials: pd.DataFrame, share: float) -> Flips:
    """Assume that a share of the pairs of a pilot flips, one pair as likely as another.

    Parameters
    ----------
    probe, trials
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
    return Flips(deviation, 1.0, origin, probe, pairs, first, flips - first)


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
