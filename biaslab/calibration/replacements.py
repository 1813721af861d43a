"""Simulated studies of judges who are to replace people: annotators, confidences, and promised errors."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special, stats

from biaslab.core.arrays import Codes, Floats
from biaslab.correct.abstention import select
from biaslab.correct.alternative import HALF, Contest
from biaslab.correct.confidence import Bins, Confidences
from biaslab.stats.resample import Resampling

_PEOPLE, _NAMES = (0.1, 0.2, 0.3, 0.5, 0.7), list("abcde")
_POPULATION, _MOST_ITEMS, _SHARED = 40_000, 8, 0.3


def passes_if_exchangeable(rng: np.random.Generator, studies: int, contexts: int) -> Floats:
    """Return whether a judge who errs as often as each of five annotators passes the test at ε = 0."""
    errors = [0.3] * len(_NAMES)
    contests = (Contest.of(*_annotated(rng, contexts, errors, 0.3), _NAMES, least=10) for _ in range(studies))
    return np.array([contest.won(0.0)[2].mean() >= HALF for contest in contests], float)


def advantage_covered(rng: np.random.Generator, studies: int, contexts: int) -> Floats:
    """Return whether intervals contain the advantage probability over five annotators of different reliability."""
    truth, covers = _true_advantage(), []
    for _ in range(studies):
        contest = Contest.of(*_annotated(rng, contexts, _PEOPLE, 0.35), _NAMES, least=10)
        found = contest.advantage_probability(Resampling())
        covers.append(found.ci_low <= truth <= found.ci_high)
    return np.array(covers, float)


def calibration_covered(rng: np.random.Generator, studies: int, contexts: int, slope: float) -> Floats:
    """Return whether intervals contain the calibration error of a population; a slope of 1 is no error."""
    truth, covers = _true_calibration(slope), []
    for _ in range(studies):
        found = Bins.of(_confident(rng, contexts, slope)).error(Resampling())
        covers.append(found.ci_low <= truth <= found.ci_high)
    return np.array(covers, float)


def promise_kept(rng: np.random.Generator, studies: int, slope: float, samples: int, error: float = 0.15) -> Floats:
    """Return whether verdicts that stand, selected on 120 contexts, err as seldom as promised; also if none stands."""
    whole, kept = _confident(np.random.default_rng(0), _POPULATION, slope, samples), []
    for _ in range(studies):
        study = _confident(rng, 120, slope, samples)
        chosen = select(study.confidence, 1 - study.agreement, study.context, error).threshold
        stands = whole.confidence >= chosen
        kept.append(not stands.any() or 1 - whole.agreement[stands].mean() <= error)
    return np.array(kept, float)


@cache
def _true_advantage() -> float:
    drawn = _annotated(np.random.default_rng(0), _POPULATION, _PEOPLE, 0.35)
    return float(Contest.of(*drawn, _NAMES).advantages.mean())


@cache
def _true_calibration(slope: float) -> float:
    return Bins.of(_confident(np.random.default_rng(0), _POPULATION, slope)).error(Resampling()).estimate


def _contexts(rng: np.random.Generator, contexts: int) -> Codes:
    return np.repeat(np.arange(contexts), rng.integers(1, _MOST_ITEMS + 1, contexts))


def _related(rng: np.random.Generator, context: Codes) -> Floats:
    """Return uniform values that are related within contexts."""
    shared = rng.normal(size=int(context.max()) + 1)[context]
    z = np.sqrt(_SHARED) * shared + np.sqrt(1 - _SHARED) * rng.normal(size=len(context))
    return np.asarray(stats.norm.cdf(z), float)


def _annotated(
    rng: np.random.Generator, contexts: int, people: tuple[float, ...] | list[float], judge: float
) -> tuple[Floats, Floats, Codes]:
    """Return a judge's and people's labels of three kinds, each drawn at random in a share of the items."""
    context = _contexts(rng, contexts)
    truth = rng.integers(3, size=len(context))
    given = [np.where(_related(rng, context) < e, rng.integers(3, size=len(context)), truth) for e in (judge, *people)]
    labels = np.asarray(given, float)
    return labels[0], labels[1:].T, context


def _confident(rng: np.random.Generator, contexts: int, slope: float, samples: int = 0) -> Confidences:
    """Return verdicts whose log odds to be right are those of the confidence times a slope; or shares of samples."""
    context = _contexts(rng, contexts)
    logit = np.abs(0.3 + 0.45 * rng.normal(size=contexts)[context] + 1.5 * rng.normal(size=len(context)))
    right, sure = (_related(rng, context) < special.expit(slope * logit)).astype(float), special.expit(logit)
    if samples:
        votes = rng.binomial(samples, sure)
        sure = np.maximum(votes, samples - votes) / samples
    return Confidences(sure, right, context)
