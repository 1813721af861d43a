"""The alternative annotator test: may a judge replace one of the people who label? (Calderon et al. 2025).

One annotator is left out at a time. On each item, judge and annotator are compared by how well each agrees with the
remaining people; the judge wins ties. Contexts are the sampling unit: with one item a context, the tests are the
published ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from biaslab.core.arrays import Bools, Floats
from biaslab.core.checks import require_share
from biaslab.core.errors import InputError
from biaslab.core.output import PrintedText, count
from biaslab.correct.correction import max_t_quantile
from biaslab.stats.estimate import Estimate, because, undefined, without_interval
from biaslab.stats.frame import adjust
from biaslab.stats.resample import Resampling, cluster_statistic
from biaslab.stats.t_inference import student

#: How well a label agrees with those of the other people: the share that are equal, minus the root mean squared
#: difference, or a function of a label and the list of the others'.
Alignment = Literal["accuracy", "neg_rmse"] | Callable[[Any, Sequence[Any]], float]
Decision = Literal["yes", "no", "cannot tell"]
ALIGNMENTS = ("accuracy", "neg_rmse")
#: Items that an annotator must have labelled together with others, as published, for the t-test.
FEWEST_ITEMS = 30
#: False discovery rate over annotators, and share of annotators that the judge must replace, as published.
RATE, HALF = 0.05, 0.5
_STUDIES, _DOUBLINGS, _MOST_CONTEXTS = 4_000, 18, 1_000
_DIGITS = 12  # alignments are compared after rounding to this many decimals
_FEW_PEOPLE = because(
    "few_annotators",
    "the test needs two people or more, by name, who labelled {items} items with others; here {annotators} of {given}",
)


_CONSTANT = because("constant_labels", "people give one and the same label throughout")


@dataclass(frozen=True, eq=False)
class Contest:
    """Items on which a judge, and each annotator left out, agrees with the others no less than the other does.

    Parameters
    ----------
    judge, person, items : numpy.ndarray, shape (contexts, annotators)
        By context: items won by the judge and by the annotator (a tie is won by both), and items compared.
    names : sequence of str
        The annotators.
    contexts : numpy.ndarray, shape (contexts,)
        Names of the contexts.
    given : int
        Number of annotators before those with too few items were left out.
    least : int
        Number of items that is enough.
    constant : bool
        Whether people give one and the same label throughout; then nobody can be told apart, and none is compared.

    Examples
    --------
    >>> people = np.array([[1.0, 1, 0], [0, 0, 0], [1, 0, 0], [1, 1, 1]])
    >>> contest = Contest.of(np.array([1.0, 0, 0, 0]), people, list("abcd"), list("xyz"), least=2)
    >>> contest.advantages.tolist()
    [0.75, 0.75, 0.75]
    """

    judge: Floats
    person: Floats
    items: Floats
    names: list[str]
    contexts: Any
    given: int
    least: int = FEWEST_ITEMS
    constant: bool = False

    @classmethod
    def of(
        cls,
        judged: Floats,
        people: Floats,
        context: ArrayLike,
        names: Sequence[str],
        alignment: Alignment = "accuracy",
        words: Sequence[Any] | None = None,
        least: int = FEWEST_ITEMS,
        missing_lose: bool = False,
    ) -> Contest:
        """Compare a judge with each annotator.

        Parameters
        ----------
        judged : numpy.ndarray, shape (items,)
            The judge's labels; NaN without one.
        people : numpy.ndarray, shape (items, annotators)
            People's labels.
        context : array_like, shape (items,)
            The context of each item.
        names : sequence of str
            The annotators.
        alignment : {"accuracy", "neg_rmse"} or callable
            See `Alignment`.
        words : sequence, optional
            For a function: the labels that the numbers stand for; by default the numbers themselves.
        least : int
            Annotators with fewer items are left out.
        missing_lose : bool
            Whether the judge loses items without a label of its own; otherwise they are left out, as published.
        """
        codes, contexts = pd.factorize(np.asarray(context, object))
        sums = np.zeros((3, len(contexts), len(names)))
        for place in range(len(names)):
            others = np.delete(people, place, axis=1)
            labelled = ~np.isnan(people[:, place]) & ~np.isnan(others).all(axis=1)
            own = np.flatnonzero(labelled & ~np.isnan(judged))
            others = others[own]
            one, two = (_aligned(side[own], others, alignment, words) for side in (judged, people[:, place]))
            for total, won in zip(sums, (one >= two, two >= one, np.ones(len(one))), strict=True):
                total[:, place] = np.bincount(codes[own], won, len(contexts))
            if missing_lose:
                sums[1:, :, place] += np.bincount(codes[labelled & np.isnan(judged)], minlength=len(contexts))
        constant = len(np.unique(people[~np.isnan(people)])) == 1
        many = (sums[2].sum(axis=0) >= least) & ~np.array(constant)
        judge, person, items = sums[:, :, many]
        compared, chosen = items.sum(axis=1) > 0, [name for name, kept in zip(names, many, strict=True) if kept]
        return cls(
            judge[compared], person[compared], items[compared], chosen, contexts[compared], len(names), least, constant
        )

    @property
    def advantages(self) -> Floats:
        """Share of items that the judge wins against each annotator."""
        return np.asarray(self.judge.sum(axis=0) / self.items.sum(axis=0), float)

    @cached_property
    def shortfall(self) -> tuple[Floats, Floats, Floats]:
        """The annotator's share minus the judge's, each context's contribution to its error, and the contexts."""
        total, size = self.items.sum(axis=0), (self.items > 0).sum(axis=0)
        apart = self.person - self.judge
        value = apart.sum(axis=0) / total
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = (apart - value * self.items) / total * np.sqrt(size / (size - 1))
        return value, errors, size

    def won(self, epsilon: float, rate: float = RATE) -> tuple[Floats, Floats, Bools]:
        """Test whether the judge's share is above the annotator's minus epsilon.

        Returns
        -------
        tuple of numpy.ndarray, each of shape (annotators,)
            One-sided p-values by Student's t over contexts, at least 2^-G; the same adjusted for all annotators by
            Benjamini and Yekutieli (2001); and whether the adjusted one is at most the rate.
        """
        value, errors, size = self.shortfall
        error = np.linalg.norm(errors, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(error > 1e-9, (value - epsilon) / error, np.where(value < epsilon - 1e-9, -np.inf, np.inf))
        p_values = np.maximum(special.stdtr(np.maximum(size - 1, 1), t), 0.5**size)
        p_values = np.where(size > 1, p_values, 1.0)
        adjusted = np.minimum(adjust(p_values) * (1 / np.arange(1, 1 + len(p_values))).sum(), 1.0)
        return p_values, adjusted, adjusted <= rate

    def winning_rate(self, epsilon: float, resampling: Resampling, rate: float = RATE) -> Estimate:
        """Estimate ω, the share of annotators that the judge may replace.

        The interval is for the share of these annotators whose advantage over the judge is truly below epsilon: at
        least those of whom simultaneous intervals show it (max-t, or Bonferroni's one-sided ones if these are
        narrower), and at most all but those of whom they show the contrary. A count, so it covers more often than
        promised: in 97.5 to 100 % of simulated studies.
        """
        people = len(self.names)
        if people < 2:
            return self._undefined()
        value, errors, size = self.shortfall
        omega = float(self.won(epsilon, rate)[2].mean())
        if size.min() < 2:
            return without_interval(omega, int(size.max()))
        error = np.linalg.norm(errors, axis=0)
        varies = error > 1e-9
        df, alpha = int(size.min()) - 1, 1 - resampling.level
        reach = float(special.stdtrit(df, 1 - alpha / people))  # an annotator's interval can be wrong on one side only
        if varies.any():
            reach = min(reach, max_t_quantile(errors[:, varies], df + 1, resampling.level, resampling.seed))
        margin = reach * np.where(varies, error, 0.0)
        low, high = float(np.mean(value + margin < epsilon)), float(np.mean(value - margin <= epsilon))
        method = f"simultaneous t over {count(people, 'annotator')}, contexts"
        nothing = math.nan
        return Estimate(omega, nothing, min(low, omega), max(high, omega), nothing, nothing, len(self.contexts), method)

    def advantage_probability(self, resampling: Resampling) -> Estimate:
        """Estimate ρ, the mean over annotators of the share of items that the judge wins."""
        if len(self.names) < 2:
            return self._undefined()
        contexts = len(self.contexts)
        return cluster_statistic(partial(_mean_share, self.judge, self.items), contexts, resampling, bounds=(0.0, 1.0))

    def _undefined(self) -> Estimate:
        if self.constant:
            return undefined(_CONSTANT)
        values = {"annotators": len(self.names), "given": self.given, "items": self.least}
        return undefined(_FEW_PEOPLE.with_values(**values))

    def against(self, other: Contest, resampling: Resampling) -> Estimate:
        """Estimate ρ minus that of another judge, over the contexts and annotators of both."""
        _, at, other_at = np.intersect1d(self.contexts.astype(str), other.contexts.astype(str), return_indices=True)
        shared = [name for name in self.names if name in other.names]
        if len(shared) < 2 or not len(at):
            return undefined(because("no_overlap", "the judges share no contexts or fewer than two annotators"))
        columns, theirs = ([each.names.index(name) for name in shared] for each in (self, other))
        own = self.judge[at][:, columns], self.items[at][:, columns]
        others = other.judge[other_at][:, theirs], other.items[other_at][:, theirs]

        def difference(weights: Floats) -> Floats:
            return _mean_share(*own, weights) - _mean_share(*others, weights)

        return cluster_statistic(difference, len(at), resampling, 0.0, (-1.0, 1.0), scale="plain", inference="t")

    def leads(self, epsilon: float, resampling: Resampling) -> Iterator[tuple[str, Estimate, int]]:
        """Yield each annotator, its share of items won minus the judge's with the one-sided p-value, and the items."""
        if not self.names:
            return
        (value, errors, size), p_values = self.shortfall, self.won(epsilon)[0]
        for place, name in enumerate(self.names):
            lead, n, items = float(value[place]), int(size[place]), int(self.items[:, place].sum())
            if n < 2:
                yield name, without_interval(lead, n), items
                continue
            error = float(np.linalg.norm(errors[:, place]))
            low, high = np.clip(student(lead, error, n, resampling.level), -1, 1)
            method = "t over contexts, one-sided test against epsilon"
            yield name, Estimate(lead, error, low, high, float(p_values[place]), math.nan, n, method), items

    def table(self, epsilon: float, rate: float = RATE) -> pd.DataFrame:
        """Return a row for each annotator: shares of items won by the judge and by the annotator, and the test."""
        p_values, adjusted, won = self.won(epsilon, rate)
        return pd.DataFrame(
            {
                "annotator": list(self.names),
                "items": self.items.sum(axis=0).astype(int),
                "contexts": self.shortfall[2],
                "judge_wins": self.advantages,
                "annotator_wins": self.person.sum(axis=0) / self.items.sum(axis=0),
                "p_value": p_values,
                "p_adjusted": adjusted,
                "replaceable": won,
            }
        )


@dataclass(frozen=True)
class ItemPlan(PrintedText):
    """Number of contexts to label so that a judge passes the alternative annotator test; prints as text.

    Attributes
    ----------
    contexts, items : int or None
        Contexts, and items per annotator on average; None if no number is enough, because the judge is too far behind.
    shortfall : tuple of float
        By how much each annotator is assumed to be ahead of the judge (the annotator's share of items won minus the
        judge's).
    epsilon, power : float
        Threshold of the test, and probability of passing it, on average over pilots of this size.
    pilot : int
        Number of contexts in the pilot.
    """

    contexts: int | None
    items: int | None
    shortfall: tuple[float, ...]
    epsilon: float
    power: float
    pilot: int

    def __str__(self) -> str:
        goal = f"to pass at ε = {self.epsilon:g} with {100 * self.power:g} % power"
        if self.contexts is None:
            return f"{goal}: no number of items is enough, because the judge is too far behind these annotators"
        each = f"{self.items:,} items per annotator, {self.pilot:,} contexts so far"
        return f"{goal}: {count(self.contexts, 'context')} ({each})"


def plan_items(
    pilot: Contest,
    epsilon: float,
    shortfall: float | None = None,
    power: float = 0.8,
    rate: float = RATE,
    seed: int = 0,
) -> ItemPlan:
    """Compute how many contexts people must label so that a judge passes the alternative annotator test.

    Parameters
    ----------
    pilot : Contest
        Labels so far, which give the variation between contexts, and its correlation between annotators.
    epsilon : float
        Threshold of the test.
    shortfall : float, optional
        By how much every annotator is ahead of the judge: 0 for a judge who is as good; by default the pilot's
        estimates.
    power : float
        Required probability of passing: of a winning rate of at least one half.
    rate, seed
        False discovery rate over annotators, and seed of 4,000 simulated studies, which draw contexts like those of the
        pilot (Bayesian bootstrap; of up to 1,000 of its contexts).

    Raises
    ------
    InputError
        If the power is not between 0 and 1, or fewer than two annotators have enough items.
    """
    require_share("power", power)
    people = len(pilot.names)
    value, _, size = pilot.shortfall
    if people < 2 or size.min() < 2:
        raise InputError.plain("the pilot has fewer than two annotators with enough items; label more")
    assumed = value if shortfall is None else np.full(people, shortfall)
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(pilot.contexts))[:_MOST_CONTEXTS]
    compared, apart = pilot.items[drawn], (pilot.person - pilot.judge)[drawn]
    chances = rng.dirichlet(np.ones(len(drawn)), _STUDIES)
    moved = assumed - chances @ apart / (chances @ compared)
    ranks = np.arange(1, people + 1)
    bounds = ranks / people * rate / (1 / ranks).sum()

    def passes(contexts: int) -> bool:
        times = rng.multinomial(contexts, chances).astype(float)
        size, total, lead = times @ (compared > 0), times @ compared, times @ apart
        with np.errstate(divide="ignore", invalid="ignore"):
            lead /= total
            squares = times @ apart**2 - 2 * lead * (times @ (apart * compared)) + lead**2 * (times @ compared**2)
            t = (lead + moved - epsilon) / np.sqrt(squares * size / (size - 1)) * total
        p_values = np.where((size > 1) & (total > 0), np.maximum(special.stdtr(size - 1, t), 0.5**size), 1.0)
        won = (np.sort(p_values, axis=1) <= bounds) * ranks
        return bool(np.mean(won.max(axis=1) >= HALF * people) >= power)

    wanted = next((2**k for k in range(3, _DOUBLINGS) if passes(2**k)), None)
    if wanted is not None:
        low, wanted = wanted // 2, wanted
        while wanted - low > 1:
            middle = (low + wanted) // 2
            low, wanted = (low, middle) if passes(middle) else (middle, wanted)
    each = float(pilot.items.sum(axis=0).mean()) / len(pilot.contexts)
    items = None if wanted is None else math.ceil(wanted * each)
    return ItemPlan(wanted, items, tuple(map(float, assumed)), epsilon, power, len(pilot.contexts))


def decide(winning_rate: Estimate, half: float = HALF) -> Decision:
    """Return whether the judge may replace one of these annotators.

    Yes, as published, if it may replace at least half of them; no if that is excluded by the interval.

    Examples
    --------
    >>> decide(Estimate(0.25, math.nan, 0.0, 0.4, math.nan, math.nan, 90, ""))
    'no'
    """
    if math.isnan(winning_rate.estimate):
        return "cannot tell"
    if winning_rate.estimate >= half:
        return "yes"
    return "no" if winning_rate.ci_high < half else "cannot tell"


def _aligned(labels: Floats, others: Floats, alignment: Alignment, words: Sequence[Any] | None) -> Floats:
    """Return how well each label agrees with the others' labels of its item."""
    if alignment == "accuracy":
        known = ~np.isnan(others)
        return np.asarray((others == labels[:, None]).sum(axis=1) / known.sum(axis=1), float)
    if alignment == "neg_rmse":
        return np.asarray(np.round(-np.sqrt(np.nanmean((others - labels[:, None]) ** 2, axis=1)), _DIGITS), float)

    def word(value: float) -> Any:
        return value if words is None else words[int(value)]

    rows = zip(labels, others, strict=True)
    found = np.array([float(alignment(word(own), [word(v) for v in row[~np.isnan(row)]])) for own, row in rows])
    if np.isnan(found).any():
        raise InputError("alignment", math.nan, "a function whose result is a number for all labels")
    return found


def _mean_share(won: Floats, items: Floats, weights: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((weights @ won / (weights @ items)).mean(axis=1), float)
