"""Variation of a metric between contexts, from a real or simulated pilot study, and the power that follows."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from biaslab.core.arrays import Floats, Ints
from biaslab.core.checks import unknown
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.interfaces import ProbeInterface
from biaslab.judges.repetition import AnswerMode
from biaslab.judges.simulated import SimulatedJudge
from biaslab.stats.estimate import FEWEST, notes_of, unseen_share
from biaslab.stats.t_inference import KURTOSIS, assured_power, assured_shift, detectable_effect
from biaslab.study.collect import collect

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.datasets import Dataset

#: Maximum number of contexts in a simulated pilot.
CONTEXTS = 24
#: Noise per request and per context, in points of a five-point scale (log odds for pairs).
NOISE, CONTEXT_NOISE = 1.0, 0.5
_MOST_CONTEXTS = 10**9
_LARGE = 3_000  # number of contexts above which the normal distribution replaces Student's t


@dataclass(frozen=True)
class Spread:
    """Variation of a metric between contexts.

    Parameters
    ----------
    deviation : float
        Standard deviation between contexts, in the unit of the metric.
    share : float
        Share of planned contexts in which the metric is defined; above 0, at most 1.
    origin : str
        Source of both, in words.
    pilot : int
        Number of contexts in the pilot, over whose uncertainty power is averaged (`assured_power`);
        0 if the deviation is an assumption.

    Examples
    --------
    >>> spread = Spread(0.2, 1.0, "an earlier study")
    >>> spread.required(0.05)
    128
    >>> round(spread.detectable(128), 4)
    0.0499
    """

    aim: ClassVar[str] = "detect"

    deviation: float
    share: float
    origin: str
    pilot: int = field(default=0, kw_only=True)

    def power(self, effect: float, contexts: int, alpha: float = 0.05) -> float:
        """Return the power of a two-sided test for a shift with a number of contexts."""
        entering = max(int(contexts * self.share + 1e-9), 1)
        return assured_power(effect, self.deviation / math.sqrt(entering), entering, alpha, self.pilot)

    def detectable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that a number of contexts can detect; NaN if too few for a sign-flip test to reach α."""
        entering = int(contexts * self.share + 1e-9)
        if entering < FEWEST or 2.0 ** (1 - entering) > alpha:
            return math.nan
        error = self.deviation / math.sqrt(entering)
        known = detectable_effect(error, entering, power, alpha)
        if not self.pilot:
            return known
        return assured_shift(min(entering, _LARGE), power, alpha, self.pilot) * error

    def excludable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that a number of contexts can exclude, with a given power, if there is none.

        The interval of level 1 − α then lies within ± the shift (Schuirmann 1987); for known s, the shift is
        (t_{1−α/2} + t_{(1+power)/2}) s / √G.
        """
        return Spread.detectable(self, contexts, (1 + power) / 2, alpha)

    def required(self, effect: float, power: float = 0.8, alpha: float = 0.05) -> int:
        """Return the smallest number of contexts that can detect a shift.

        Raises
        ------
        InputError
            If the effect is not above 0, or too small for a billion contexts.
        """
        if not 0 < effect < math.inf:
            raise InputError("effect", effect, "a number above 0")
        planned = range(1, _MOST_CONTEXTS)
        contexts = bisect_left(planned, True, key=lambda n: self.detectable(n, power, alpha) <= effect)
        if contexts == len(planned):
            raise InputError("effect", effect, "a shift that a billion contexts can detect")
        return planned[contexts]


@dataclass(frozen=True)
class Unvarying(Spread):
    """A metric without variation between the contexts of a pilot: the shifts that equal contexts exclude.

    Parameters
    ----------
    deviation, share, origin
        As in `Spread`; the deviation is 0.
    reach : float
        Distance from the value to the farther bound of the metric.

    Examples
    --------
    >>> spread = Unvarying(0.0, 1.0, "a pilot without a flip", reach=0.5)
    >>> round(spread.detectable(96), 3), spread.required(0.05)
    (0.019, 36)
    """

    aim: ClassVar[str] = "exclude"

    reach: float

    def detectable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:  # noqa: ARG002
        """Return the shift that the exact interval of equal contexts excludes, at any power."""
        entering = int(contexts * self.share + 1e-9)
        return self.reach * unseen_share(entering, 1 - alpha) if entering else math.nan

    def excludable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the same shift as `detectable`."""
        return self.detectable(contexts, power, alpha)


def spread_of(probe: ProbeInterface, trials: pd.DataFrame, metric: str, origin: str = "") -> Spread:
    """Estimate the variation of a metric between contexts from the trials of a study.

    The deviation is the estimate's ``se`` times √``n_contexts``. If interval and test allow for errors of single
    ratings, it is that of the least reliability. With several cells (attributes, templates, judges), the largest is
    used.

    Parameters
    ----------
    probe : Probe
        The probe of the trials.
    trials : pandas.DataFrame
        Trials with at least six contexts.
    metric : str
        A metric of the probe.
    origin : str, optional
        Source of the trials, in words.

    Raises
    ------
    InputError
        If the probe does not estimate the metric, there are too few contexts, or an unbounded metric does not vary.
    """
    estimates = probe.estimate(trials)
    rows = estimates[estimates["metric"] == metric]
    if rows.empty:
        raise unknown("metric", metric, estimates["metric"].unique())
    for column in rows.columns[: rows.columns.get_loc("estimate")]:  # NaN in a condition: over all bins
        if rows[column].isna().any():
            rows = rows[rows[column].isna()]
    known = rows[(rows["se"] > 0) & (rows["n_contexts"] >= FEWEST)]
    planned = int(trials["context_id"].nunique())
    whose = origin or f"a pilot of {planned} contexts from {', '.join(trials['dataset'].unique())}"
    if known.empty:
        return _unvarying(rows, planned, whose, metric)
    entering = known["n_contexts"].to_numpy(float)
    single = [notes_of(row).get("single_ratings") for row in known.to_dict("records")]
    errors = [se if note is None else float(note["se"]) for se, note in zip(known["se"], single, strict=True)]
    deviation, share = np.array(errors) * np.sqrt(entering), np.minimum(entering / planned, 1.0)
    worst = int(np.argmax(deviation / np.sqrt(share)))
    cells = f" (the largest of {len(known)} cells)" if len(known) > 1 else ""
    described = f"standard deviation between contexts {deviation[worst]:.3g}{cells}, from {whose}"
    return Spread(float(deviation[worst]), float(share[worst]), described, pilot=int(entering[worst]))


def _unvarying(rows: pd.DataFrame, planned: int, whose: str, metric: str) -> Unvarying:
    """Return the reach of a metric from the exact interval of a pilot without variation."""
    notes = [notes_of(row).get("no_variation") for row in rows.to_dict("records")]
    bounded = np.array([note is not None and bool(note["bounded"]) for note in notes], bool)
    known = rows[bounded & (rows["n_contexts"] >= FEWEST)]
    if known.empty:
        why = "; ".join(dict.fromkeys(filter(None, rows["note"].astype(str)))) or "no variation between contexts"
        remedy = f"note on {metric}: {why}"
        raise InputError.plain(f"{whose} needs at least 6 contexts with variation between them; {remedy}")
    entering = known["n_contexts"].to_numpy(float)
    unseen = np.array([unseen_share(int(n), level) for n, level in zip(entering, known["ci_level"], strict=True)])
    reach = np.maximum(known["ci_high"] - known["estimate"], known["estimate"] - known["ci_low"]) / unseen
    share = min(1.0, float(entering.min()) / planned)
    return Unvarying(0.0, share, f"no variation between contexts in {whose}", float(reach.max()))


def simulated_pilot(probe: ProbeInterface, dataset: Dataset, answer: str | None = None) -> tuple[pd.DataFrame, str]:
    """Run the probe's design with an unbiased simulated judge on the first contexts of a data set.

    Parameters
    ----------
    probe : Probe
        The probe to plan for.
    dataset : Dataset
        The data set; its first 24 contexts are used.
    answer : str, optional
        Answer mode, see `biaslab.judges.repetition.AnswerMode`: texts, and shares of few samples, vary more than exact
        distributions. Default: the probe's.

    Returns
    -------
    tuple of pandas.DataFrame and str
        The trials, and the assumption in words.

    Raises
    ------
    InputError
        If the simulated judge cannot answer the probe's requests, the data set has no human scores, or the answer mode
        is unknown.

    Notes
    -----
    The judge is unbiased on average. A point on a five-point scale is worth 1 log odds, the noise per request has
    standard deviation 1, and each context has a random shift (for pairs: of the preference for the first) with standard
    deviation ½; other scales are rescaled. These values reproduce the comparisons of SummEval summaries by GPT-3.5
    (coherence, 11 pairs of systems, both orders, 100 documents): the standard deviation of its first-position rate
    between documents is .147, simulated .146. Judges differ, so a pilot with the judge itself is better.
    """
    data = dataset.head(CONTEXTS)
    if data.human.empty:
        raise InputError("dataset", data.name, "a data set with human scores", "pass trials of a first study as pilot=")
    point = (data.scale[1] - data.scale[0]) / 4
    judge = SimulatedJudge(data, noise=NOISE * point, context_noise=CONTEXT_NOISE * point)
    asked, answering = (probe, judge) if answer is None else AnswerMode(answer).asked(probe, judge)
    try:
        trials = collect(asked, answering, data, progress=False)
    except JudgeError as error:
        remedy = "pass trials of a first study with a few contexts as pilot="
        raise InputError(
            "probe", probe.name, f"a probe that the simulated judge can answer ({error})", remedy
        ) from error
    return trials, (
        f"a simulated pilot of {data.n_contexts} contexts (assumes an unbiased judge with quality 1 and noise "
        f"{judge.noise:g} per request and {judge.context_noise:g} per context, in points of the human scale"
        f"{f', answers {answer}' if answer else ''}; trials of the judge itself would be a better pilot)"
    )


RATE = "first_position_rate"
#: With more flips than this in a study, the noncentral t distribution is accurate enough and replaces simulation.
MANY = 30
_STUDIES, _STEP, _ASSUMED = 1_000, 1.2, 5_000
_HALF, _FINE, _LARGEST_SHARE = 0.5, 0.001, 0.95
_POINTS, _NODES = 14, 32  # grid points of the power curve, and of the pilot's uncertainty
_TOGETHER = 2, 0.1  # prior for the correlation of flips within contexts: number of flips, correlation
_CELL = ["judge", "dataset", "attribute", "template"]
_PAIR = ["context_id", "one", "two", "replicate"]


@dataclass(frozen=True)
class Flips(Spread):
    """Flips of pairs in a pilot, from which the power for `RATE` is simulated with the probe's test.

    A shift of the log odds of the first creates flips to the first among pairs with a stable decision, and removes
    flips to the second. So even an unbiased pilot, in which few pairs flip, can be used to plan for any shift below ½.

    Parameters
    ----------
    deviation, share, origin
        As in `biaslab.study.pilot.Spread`.
    pairs : numpy.ndarray of int, shape (contexts,)
        Pairs of each context decided in both orders.
    first, second : numpy.ndarray of int, shape (contexts,)
        Pairs won by the first, and by the second, in both orders.
    pilot : int
        Contexts of the pilot; 0 if the flips are an assumption.
    unflipped : Unvarying, optional
        For a pilot with no flips, or flips to one side only: the shifts that as many equal contexts exclude.

    Examples
    --------
    >>> import numpy as np
    >>> pairs, one = np.full(50, 3), np.repeat([1, 0], 25)
    >>> found = Flips(0.1, 1.0, "an earlier study", pairs, one, 1 - one)
    >>> round(found.rate, 3)
    0.333
    """

    pairs: Ints = field(repr=False)
    first: Ints = field(repr=False)
    second: Ints = field(repr=False)
    unflipped: Unvarying | None = field(default=None, repr=False, kw_only=True)

    @property
    def rate(self) -> float:
        """Share of pairs that flip, 0 to 1."""
        return float((self.first + self.second).sum() / self.pairs.sum())

    def power(self, effect: float, contexts: int, alpha: float = 0.05) -> float:
        """Return the simulated power to detect a shift, averaged over the pilot's uncertainty.

        A simulated study draws contexts of the pilot with replacement and flips the sign of each context's bias at
        random, so that there is none on average. Then the log odds of the first are raised to give the shift.
        """
        if not 0 <= effect < _HALF:
            return math.nan
        entering = max(int(contexts * self.share + 1e-9), 1)
        if self._is_normal(effect, entering):
            return super().power(effect, contexts, alpha)
        return float(self._powers(np.array([effect]), entering, alpha)[0])

    def detectable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that a number of contexts can detect; NaN if too few for a test to reach α."""
        entering, least = int(contexts * self.share + 1e-9), super().detectable(contexts, power, alpha)
        if math.isnan(least) or self._is_normal(least, entering):
            return least
        effects = np.arange(1.0, round(_HALF / _FINE)) * _FINE
        enough = np.flatnonzero(self._powers(effects, entering, alpha) >= power)
        return float(effects[enough[0]]) if len(enough) else math.nan

    def excludable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that a number of contexts can exclude, with a given power, if there is none."""
        if self.unflipped is not None:
            return self.unflipped.excludable(contexts, power, alpha)
        return super().excludable(contexts, power, alpha)

    def required(self, effect: float, power: float = 0.8, alpha: float = 0.05) -> int:
        """Return the number of contexts required to detect a shift.

        Raises
        ------
        InputError
            If the effect is not between 0 and ½, the largest possible shift of a rate from ½.
        """
        if effect >= _HALF:
            raise InputError("effect", effect, f"a shift of {RATE} below 0.5", "a rate cannot shift from ½ to above 1")
        contexts = Spread(self.deviation, self.share, self.origin, pilot=self.pilot).required(effect, power, alpha)
        while self.power(effect, contexts, alpha) < power - _FINE:
            contexts = math.ceil(contexts * _STEP)
        return contexts

    @property
    def _flips(self) -> float:
        """Mean number of flips per context."""
        return float((self.first + self.second).mean())

    def _is_normal(self, effect: float, entering: int) -> bool:
        """Return whether flips are frequent enough for the formula instead of simulation."""
        return entering * self._flips >= MANY and effect <= self.rate / 2

    def _powers(self, effects: Floats, entering: int, alpha: float) -> Floats:
        """Return the power for each shift, averaged over the uncertainty of the variance between contexts.

        The variance without bias is estimated from the pilot and uncertain; a bias adds flips with their own variance.
        So the power of studies drawn from the pilot is read off at the shift with the same standardised size.
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
        """Return quantiles of the ratio of the true variance between contexts to the pilot's.

        A gamma distribution, as for the rate of a Poisson count, with the effective number of independent flips: the
        squared sum of the contexts' squares over the sum of their squares (Satterthwaite 1946), at most that of
        contexts with kurtosis 4, plus one.
        """
        if not self.pilot:
            return np.ones(1)
        squares = (self.first - self.second).astype(float) ** 2
        total, most = float(squares.sum()), float((squares**2).sum())
        least = most / total**2 - 1 / len(squares) if total else math.inf
        half = min(1 / least if least > 0 else math.inf, (len(squares) - 1) / (KURTOSIS - 1)) + 1
        return np.asarray(special.gammaincinv(half, (np.arange(_NODES) + 0.5) / _NODES) / half)

    def studies(self, effect: float, contexts: int, rng: np.random.Generator) -> Floats:
        """Return the net flips of each context in simulated studies, in pairs; shape (studies, contexts)."""
        drawn = self._drawn[rng.integers(len(self._drawn), size=(_STUDIES, contexts))]
        swapped = rng.uniform(size=drawn.shape[:2]) < 0.5
        pairs, one, two = np.moveaxis(drawn, -1, 0)
        first, second = np.where(swapped, two, one), np.where(swapped, one, two)
        kept, moved = _tilted(min(float(self._drawn[:, 1:].sum() / self._drawn[:, 0].sum()), _LARGEST_SHARE), effect)
        staying = rng.binomial(second, self._of_contexts(kept, second.shape, rng))
        alike = pairs - first - staying
        return np.asarray(first + rng.binomial(alike, self._of_contexts(moved, alike.shape, rng)) - staying, float)

    @cached_property
    def _drawn(self) -> Ints:
        """The contexts to draw from: pairs, flips to the first, and flips to the second.

        Adds half a flip to those of a pilot (Jeffreys' prior of a count), so that no rate is exactly 0.
        """
        known = np.column_stack([self.pairs, self.first, self.second])
        return np.vstack([known, known, [max(1, round(float(self.pairs.mean()))), 1, 0]]) if self.pilot else known

    def _of_contexts(self, share: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw the flip rate of each context, with the within-context correlation of the pilot."""
        share, size, net = min(max(share, 0.0), 1.0), float(self.pairs.mean()), self.first - self.second
        added, shared = _TOGETHER if self.pilot else (0, 0.0)
        flips = float((self.first + self.second).sum()) + added
        spread = (float((net**2).sum()) + added * (1 + shared * (size - 1))) / max(flips, 1.0)  # 1: independent
        shared = min((spread - 1) / (size - 1), _LARGEST_SHARE) if size > 1 else 0.0
        if shared <= 0:
            return np.full(shape, share)
        scale, inside = 1 / shared - 1, min(max(share, _FINE**2), 1 - _FINE**2)
        return np.asarray(rng.beta(inside * scale, (1 - inside) * scale, size=shape), float)


def _tilted(rate: float, effect: float) -> tuple[float, float]:
    """Return the shares of flips to the second that remain, and of other pairs that flip to the first, for a shift.

    Raising the log odds of the first in both orders multiplies the odds of two first verdicts against one, and of one
    against none, by x: the shares (f/2, 1 − f, f/2) become (f x/2, 1 − f, f/(2x)), normalised.
    """
    half, alike, gap = rate / 2, 1 - rate, 2 * effect
    square, linear, constant = half * (1 - gap), -gap * alike, -half * (1 + gap)
    odds = (-linear + math.sqrt(linear**2 - 4 * square * constant)) / (2 * square)
    total = half * odds + alike + half / odds
    first, second = half * odds / total, half / odds / total
    return second / half, (first - half) / (1 - half - second)


def p_values(nets: Floats) -> Floats:
    """Return the p-value of each study by the probe's test: the t test over contexts (`biaslab.stats.t_test`).

    At the null, the score test of the rate is identical to this test.
    """
    contexts = nets.shape[1]
    mean, error = nets.mean(axis=1), nets.std(axis=1, ddof=1) / math.sqrt(contexts) if contexts > 1 else 0 * nets[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * special.stdtr(max(contexts - 1, 1), -np.abs(mean) / error)
    p = np.where(error > 0, p, np.where(mean == 0, 1.0, 0.0))
    return np.asarray(np.maximum(p, 2.0 ** (1 - contexts)), float)


def flips_of(trials: pd.DataFrame, spread: Spread) -> Flips:
    """Return the flips of a pilot; for several cells, those of the cell with the largest variation between contexts.

    Parameters
    ----------
    trials : pandas.DataFrame
        Judgements of pairs in both orders.
    spread : Spread
        The spread of the same pilot.
    """
    cells = [part for _, part in _outcomes(trials).groupby(_CELL, sort=False)]
    worst = max(cells, key=lambda part: float(((part["first"] - part["second"]) / part["pairs"]).var()))
    counts = [worst[name].to_numpy() for name in ("pairs", "first", "second")]
    flips = Flips(spread.deviation, spread.share, spread.origin, *counts, pilot=len(worst))
    flips = replace(flips, unflipped=spread if isinstance(spread, Unvarying) else None)
    return replace(flips, origin=f"{spread.origin}; {flips.rate:.2g} of pairs flip with the order")


def assumed_flips(trials: pd.DataFrame, share: float) -> Flips:
    """Return flips under the assumption that a share of the pilot's pairs flip, independently.

    Parameters
    ----------
    trials : pandas.DataFrame
        As in `flips_of`.
    share : float
        Above 0, at most 1.

    Raises
    ------
    InputError
        If the share is out of range.
    """
    if not 0 < share <= 1:
        raise InputError("flips", share, "a share of pairs above 0 and at most 1")
    pairs = _outcomes(trials).groupby("context_id")["pairs"].min().to_numpy()
    pairs = np.resize(pairs, max(len(pairs), _ASSUMED))
    rng = np.random.default_rng(0)
    flips = rng.binomial(pairs, share)
    first = rng.binomial(flips, 0.5)
    deviation = math.sqrt(share / (4 * float(pairs.mean())))
    origin = (
        f"standard deviation between contexts {deviation:.3g}, assuming that {share:.2g} of pairs flip with the order"
        f" ({pairs.mean():.3g} pairs per context)"
    )
    return Flips(deviation, 1.0, origin, pairs, first, flips - first)


def _outcomes(trials: pd.DataFrame) -> pd.DataFrame:
    """Return, per cell and context, the numbers of pairs decided in both orders and of flips to either side."""
    import pandas as pd

    decided = trials[(trials["status"] == "ok") & trials["opponent_id"].notna()]
    names = np.sort(decided[["candidate_id", "opponent_id"]].astype(str).to_numpy(), axis=1)
    decided = decided.assign(won=np.sign(decided["value"] - 0.5), one=names[:, 0], two=names[:, 1])
    orders = decided.groupby([*_CELL, *_PAIR], sort=False)["won"].agg(["sum", "size"])
    net = orders.loc[orders["size"] == 2, "sum"]
    counted = pd.DataFrame({"pairs": 1, "first": net == 2, "second": net == -2})
    return counted.groupby([*_CELL, "context_id"], sort=False).sum().reset_index()
