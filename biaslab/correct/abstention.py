"""Which verdicts may stand: abstention below a confidence, with a promised error among the verdicts that stand.

A verdict's loss is the share of people who label its item otherwise. A threshold is tested on labelled contexts for
the hypothesis that the loss among verdicts above it exceeds the promise; the lowest threshold of which this is rejected
is chosen (Learn then Test: Angelopoulos et al. 2021). So the promise holds with the given confidence, whether or not
the judge's confidence is calibrated, and its agreement with itself will do as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from biaslab.core.arrays import Bools, Floats
from biaslab.core.checks import require_share
from biaslab.core.errors import InputError
from biaslab.core.output import PrintedText, number, percent
from biaslab.correct.confidence import share
from biaslab.correct.label_plan import Choosing, choose_contexts
from biaslab.stats.estimate import Estimate, because, undefined
from biaslab.stats.resample import Resampling

#: Thresholds that are tested, at equal steps of coverage.
_STEPS = 8
_START = 0.25  # coverage of the threshold that gets half of the level
_SHOWN = 3  # decimals of thresholds and coverages in a curve
_MOST = 10_000_000
_NO_CONFIDENCE = because("no_confidence", "the judge's verdicts have no confidence: ask both orders or several samples")
_NO_LABELS = because("no_labels", "people labelled none of these items")


@dataclass(frozen=True, eq=False)
class Selection(PrintedText):
    """Verdicts that may stand at a promised error, and those that people must give; prints as text.

    Attributes
    ----------
    error, level : float
        Promised share of people who would label an item otherwise, and the confidence of the promise.
    threshold : float
        Confidence from which on a verdict stands; NaN if none may stand.
    coverage : float
        Share of all items whose verdict stands.
    selective_error : Estimate
        Loss among the labelled verdicts that stand, and its interval, which ignores that the threshold was chosen.
    stands : numpy.ndarray of bool, shape (items,)
        Whether each verdict stands.
    labelled : int
        Number of labelled items with a confidence.
    labels_needed : int or None
        If none may stand: the labelled items that would show it, if errors stay as frequent; None if the loss at each
        threshold is above the promise, or some may stand.
    graded : bool
        Whether confidences differ.
    """

    error: float
    level: float
    threshold: float
    coverage: float
    selective_error: Estimate
    stands: Bools
    labelled: int
    labels_needed: int | None
    graded: bool

    def price(self, label: float, people: int = 1) -> dict[str, float]:
        """Return the price of labels of all items, and of those alone whose verdict may not stand.

        Parameters
        ----------
        label : float
            Price of one person's label.
        people : int
            People who label each item.
        """
        each = label * people
        return {"all": each * len(self.stands), "to_people": each * int((~self.stands).sum())}

    def __str__(self) -> str:
        promise = f"at a promised error of {percent(self.error)} (confidence {percent(self.level)})"
        if math.isnan(self.threshold):
            why = "people disagree more often even with the surest"
            if not self.graded:
                why = "people disagree with more of them, and no confidence tells which"
            if self.labels_needed is not None:
                why = f"too few labels: {self.labelled:,}; {self.labels_needed:,} would do if errors stay as rare"
            return f"{promise}, no verdict may stand ({why})"
        seen = f"error {number(self.selective_error.estimate)}"
        if self.stands.all():
            return f"{promise}, all {len(self.stands):,} verdicts may stand ({seen})"
        share = f"{int(self.stands.sum()):,} of {len(self.stands):,} verdicts ({percent(self.coverage, 3)})"
        return f"{promise}, {share} may stand: those with a confidence of at least {self.threshold:.3g} ({seen})"


def select(
    confidence: Floats, loss: Floats, context: ArrayLike, error: float = 0.1, resampling: Resampling | None = None
) -> Selection:
    """Choose the lowest confidence from which on verdicts may stand at a promised error.

    Parameters
    ----------
    confidence : numpy.ndarray, shape (items,)
        The judge's confidence in each verdict; NaN if unknown, and such a verdict does not stand. Any increasing
        function of the probability to be right will do, for example the share of samples that agree.
    loss : numpy.ndarray, shape (items,)
        Share of people who label the item otherwise, 0 to 1; NaN without a label.
    context : array_like, shape (items,)
        The context of each item. Labelled contexts must be a random part of all.
    error : float
        The promised error, between 0 and 1.
    resampling : Resampling, optional
        Its level is the confidence of the promise.

    Returns
    -------
    Selection

    Raises
    ------
    InputError
        If the error is not between 0 and 1, or a loss is outside 0 to 1.

    Notes
    -----
    The p-value of a threshold is that of the binomial distribution, with counts divided by the design effect 1 + ρ (Σ
    n² / Σ n − 1) of contexts with n accepted items (Kish 1965), where ρ is the larger of the intraclass correlations of
    losses of all labelled and of the accepted items, and 1 if the former do not vary or are of one context. Thresholds
    are tested from the strictest, each at a part of the level and what those before it, all rejected, leave it (the
    fallback procedure of Wiens 2003): half of the level for the one that a quarter of the verdicts reach, equal parts
    for the others. In simulations with contexts of 1 to 8 items (`biaslab validate --promises`) the promise was kept in
    98 to 100 % of studies.

    References
    ----------
    Angelopoulos, Bates, Candès, Jordan & Lei 2021, *Learn then test*, arXiv 2110.01052; Jung, Brahman & Choi 2024,
    *Trust or escalate*, arXiv 2407.18370, for single items; Wiens 2003, *A fixed sequence Bonferroni procedure for
    testing multiple endpoints*, Pharmaceutical Statistics 2.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 600)
    >>> loss = (rng.random(600) > confidence).astype(float)
    >>> found = select(confidence, loss, np.arange(600) // 3, error=0.2)
    >>> 0.5 < found.threshold < 0.75, found.selective_error.estimate < 0.2
    (True, True)
    """
    require_share("error", error, "use 0.1 for 10 %")
    settings = resampling or Resampling()
    if (np.nan_to_num(loss) < 0).any() or (np.nan_to_num(loss) > 1).any():
        raise InputError("loss", float(np.nanmax(np.abs(loss))), "shares from 0 to 1")
    names = pd.factorize(np.asarray(settings.cluster_of(context), object))[0]
    known = ~np.isnan(confidence) & ~np.isnan(loss)
    nothing = np.zeros(len(loss), bool)
    if not known.any():
        why = _NO_LABELS if np.isnan(loss).all() else _NO_CONFIDENCE
        return Selection(error, settings.level, math.nan, 0.0, undefined(why), nothing, 0, None, False)
    estimable = np.ptp(loss[known]) > 0 and np.ptp(names[known]) > 0
    spread = correlation_within(names[known], loss[known]) if estimable else 1.0
    steps = thresholds(confidence[known])
    parts, budget, chosen = _levels(steps, confidence[known], 1 - settings.level), 0.0, math.nan
    accepted = [_Accepted.of(names, loss, known & (confidence >= step), spread) for step in steps]
    for step, each, part in zip(steps, accepted, parts, strict=True):
        budget += part
        if each.p_value(error) <= budget:
            chosen = float(step)
        else:
            budget = 0.0
    stands = confidence >= chosen if chosen == chosen else nothing
    seen = known & stands
    found = share(np.asarray(context, object)[seen], loss[seen], settings)
    labelled = int(known.sum())
    more = labelled * min(each.growth(error, part) for each, part in zip(accepted, parts, strict=True))
    needed = math.ceil(more) if math.isnan(chosen) and more < math.inf else None
    return Selection(
        error, settings.level, chosen, float(stands.mean()), found, stands, labelled, needed, len(steps) > 1
    )


def thresholds(confidence: Floats) -> Floats:
    """Return confidences at equal steps of coverage, the strictest first."""
    shares = 1 - np.arange(1, _STEPS + 1) / _STEPS
    return np.unique(np.quantile(confidence, shares, method="lower"))[::-1]


def _levels(steps: Floats, confidence: Floats, level: float) -> Floats:
    """Return the level at which each threshold is tested before others leave it theirs."""
    if len(steps) < 2:
        return np.full(len(steps), level)
    start = int(np.argmax([np.mean(confidence >= step) >= _START for step in steps]))
    parts = np.full(len(steps), level / 2 / (len(steps) - 1))
    parts[start] = level / 2
    return parts


def correlation_within(names: Any, loss: Floats) -> float:
    """Return the intraclass correlation of losses within contexts by analysis of variance, at least 0.

    Examples
    --------
    >>> correlation_within(np.array([0, 0, 1, 1]), np.array([1.0, 1, 0, 0]))
    1.0
    """
    codes = np.unique(names, return_inverse=True)[1]
    n, sums = np.bincount(codes).astype(float), np.bincount(codes, loss)
    items, contexts = n.sum(), len(n)
    if contexts < 2 or items <= contexts:
        return 0.0
    between = (n * (sums / n - sums.sum() / items) ** 2).sum() / (contexts - 1)
    within = ((loss**2).sum() - (sums**2 / n).sum()) / (items - contexts)
    size = (items - (n**2).sum() / items) / (contexts - 1)
    total = between + (size - 1) * within
    return max(0.0, float((between - within) / total)) if total > 0 else 0.0


@dataclass(frozen=True)
class _Accepted:
    """Number of labelled items above a threshold, their loss, and by how much contexts reduce both."""

    items: float
    loss: float
    effect: float

    @classmethod
    def of(cls, names: Any, loss: Floats, chosen: Bools, spread: float) -> _Accepted:
        sizes = np.bincount(names[chosen]).astype(float)
        own = max(spread, correlation_within(names[chosen], loss[chosen]))
        items = float(sizes.sum())
        return cls(items, float(loss[chosen].sum()), 1 + own * (float((sizes**2).sum()) / items - 1))

    def p_value(self, error: float) -> float:
        """Return the probability of a loss no larger than this, if verdicts err as often as promised."""
        lost, right = self.loss / self.effect, (self.items - self.loss) / self.effect
        return 1.0 if right <= 0 else 1 - float(special.betainc(lost + 1, right, error))

    def growth(self, error: float, alpha: float) -> float:
        """Return how many times as many labels would do if loss stays as frequent; infinity if that is too often."""
        if self.loss >= error * self.items:
            return math.inf
        low, high = 0, _MOST
        while high - low > 1:
            middle = (low + high) // 2
            more = _Accepted(middle, self.loss * middle / self.items, self.effect)
            low, high = (low, middle) if more.p_value(error) <= alpha else (middle, high)
        return high / self.items


def risk_coverage(
    confidence: Floats, loss: Floats, context: ArrayLike, resampling: Resampling | None = None
) -> list[tuple[dict[str, float], Estimate]]:
    """Estimate the loss among verdicts above each threshold, beside the share of verdicts above it.

    Parameters
    ----------
    confidence, loss, context, resampling
        As in `select`.

    Returns
    -------
    list of tuple
        ``threshold`` and ``coverage``, and the loss with its interval over contexts, the strictest first.

    Examples
    --------
    >>> curve = risk_coverage(np.repeat([0.6, 0.9], 20), np.tile([0.0, 0.0, 0.0, 1.0], 10), np.arange(40))
    >>> [(where["coverage"], loss.estimate) for where, loss in curve]
    [(0.5, 0.25), (1.0, 0.25)]
    """
    settings = resampling or Resampling()
    known = ~np.isnan(confidence) & ~np.isnan(loss)
    curve = []
    for step in thresholds(confidence[known]) if known.any() else ():
        seen = known & (confidence >= step)
        where = {"threshold": round(float(step), _SHOWN), "coverage": round(float(np.mean(confidence >= step)), _SHOWN)}
        curve.append((where, share(np.asarray(context, object)[seen], loss[seen], settings)))
    return curve


def contexts_for_people(
    items: pd.DataFrame, selection: Selection, budget: int, how: Choosing = "uncertain", seed: int = 0
) -> pd.DataFrame:
    """Choose the contexts that people label among those with a verdict that may not stand.

    Parameters
    ----------
    items : pandas.DataFrame
        The judged items: ``context_id, item, confidence``.
    selection : Selection
        From `select`, of the same items.
    budget, how, seed
        As in `biaslab.correct.choose_contexts`; a judge is uncertain of verdicts with a confidence near ½.

    Raises
    ------
    InputError
        If all verdicts may stand, or the budget is out of range.
    """
    if (rest := items[~selection.stands]).empty:
        raise InputError.plain("all verdicts may stand, so that no context is left for people to label")
    pairs: Mapping[str, Any] = {"candidate_id": rest["item"].astype(str), "opponent_id": "", "status": "ok"}
    return choose_contexts(rest.assign(value=rest["confidence"].fillna(0.5), **pairs), budget, how, seed)
