"""How often a simulated judge gives each score, with its noise integrated out: closed forms that tests compare with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from biaslab.core import Choice, Likelihood, Request, Trial, as_prompt
from biaslab.core.errors import JudgeError
from biaslab.core.scales import Scale
from biaslab.judges.simulated import SimulatedJudge
from biaslab.judges.simulated.answering import label_logits, own_mean
from biaslab.judges.simulated.knowledge import ScoreQuestion
from biaslab.judges.simulated.pair_truth import normal_rule

Array = NDArray[np.float64]


def expected_scores(judge: SimulatedJudge, asked: Iterable[Trial | Request]) -> Array:
    """Return the mean score of each request, on its scale: see `expected_distributions`."""
    distributions = _label_distributions(judge, asked)
    return np.array([float(np.dot(scale.values, probabilities)) for scale, probabilities in distributions])


def expected_distributions(judge: SimulatedJudge, asked: Iterable[Trial | Request]) -> list[Array]:
    """Return how often each label is given, with the noise of prompts and contexts integrated out.

    Parameters
    ----------
    judge : SimulatedJudge
        Who is asked.
    asked : iterable of Trial or Request
        Score requests; of a request for several scores the trial's attribute says which is meant, and a request
        alone means the first.

    Returns
    -------
    list of ndarray, shape (labels,)
        For a `Choice` the mean label distribution, for text how often each label is written at its temperature,
        refusals and garbage aside.

    Raises
    ------
    JudgeError
        If something asked is no request for a score.
    """
    return [probabilities for _, probabilities in _label_distributions(judge, asked)]


def _label_distributions(judge: SimulatedJudge, asked: Iterable[Trial | Request]) -> Iterator[tuple[Scale, Array]]:
    """Yield the scale and the expected share of each label."""
    known: dict[object, Array] = {}
    for each in asked:
        request = as_prompt(each.request if isinstance(each, Trial) else each)
        question = None if isinstance(request, Likelihood) else judge.questions.of(request)
        if isinstance(request, Likelihood) or not isinstance(question, ScoreQuestion):
            raise JudgeError("only requests for a score have an expected score", request)
        attribute = each.attribute if isinstance(each, Trial) else question.attributes[0]
        if attribute not in question.attributes:
            raise JudgeError(f"the request does not ask for {attribute}", request)
        temperature = 1.0 if isinstance(request, Choice) else request.temperature
        if isinstance(request, Choice) and attribute != question.attributes[0]:
            raise JudgeError(f"the labels are for {question.attributes[0]}, not for {attribute}", request)
        chain = question.attributes[: question.attributes.index(attribute) + 1]
        means = tuple(own_mean(judge, question, name) for name in chain)
        key = (means, question.previous, question.scale.labels, temperature)
        if key not in known:
            known[key] = _marginal(judge, question, means, temperature)
        yield question.scale, known[key]


def _marginal(judge: SimulatedJudge, asked: ScoreQuestion, means: tuple[float, ...], temperature: float) -> Array:
    """Follow the scores of one output from the first to the last, given the shift of the context, and average that."""
    low, high = judge.known.scale
    noise, shared = judge.noise / (high - low), judge.context_noise / (high - low)
    if not judge.anchoring:  # nothing couples scores, so that both shifts are one
        alone: Array = _given(judge, asked, np.array(means[-1:]), math.hypot(noise, shared), temperature)[0]
        return alone
    if temperature == 0:  # each score is a step function of its centre, which only the noise of prompts smooths
        shifts, weights = normal_rule(shared / noise) if noise else normal_rule(shared, smooth=False)
    else:
        shifts, weights = _rule(judge, asked, shared, temperature)
    total = np.zeros(len(asked.units))
    for shift, weight in zip(shared * shifts, weights, strict=True):
        before, chances = asked.previous, np.ones(1)
        values = np.array([math.nan if before is None else before])
        for mean in means:
            centre = np.full(len(values), mean + shift)
            if not np.isnan(values[0]):
                centre += judge.anchoring * (values - centre)
            chances = chances @ _given(judge, asked, centre, noise, temperature)
            values = asked.units
        total += weight * chances
    return total


def _given(judge: SimulatedJudge, asked: ScoreQuestion, centres: Array, noise: float, temperature: float) -> Array:
    """Return label shares, shape (centres, labels), with normal noise about each centre."""
    if temperature == 0:
        return _greedy(judge, asked, centres, noise)
    shifts, weights = _rule(judge, asked, noise, temperature)
    shares = np.zeros((len(centres), len(asked.units)))
    for shift, weight in zip(noise * shifts, weights, strict=True):
        logits = label_logits(judge, asked, centres + shift)
        chances = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
        shares += weight * chances / chances.sum(axis=1, keepdims=True)
    return shares


def _greedy(judge: SimulatedJudge, asked: ScoreQuestion, centres: Array, noise: float) -> Array:
    """Return how often each label is the likeliest: exactly, for log weights are lines in the centre."""
    if noise == 0:
        certain: Array = np.eye(len(asked.units))[label_logits(judge, asked, centres).argmax(axis=1)]
        return certain
    slopes, at_zero = judge.sharpness**2 * asked.units, label_logits(judge, asked, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (at_zero[None, :] - at_zero[:, None]) / (slopes[:, None] - slopes[None, :])  # of line k with line j
    below = np.tri(len(slopes), k=-1, dtype=bool)
    starts = np.where(below, meet, -np.inf).max(axis=1)
    ends = np.where(below.T, meet, np.inf).min(axis=1)
    shares: Array = np.maximum(0.0, ndtr((ends - centres[:, None]) / noise) - ndtr((starts - centres[:, None]) / noise))
    return shares


def _rule(judge: SimulatedJudge, asked: ScoreQuestion, noise: float, temperature: float) -> tuple[Array, Array]:
    """Choose nodes fine enough for how steeply labels give way to one another as the centre moves."""
    neighbours = float(np.diff(asked.units).max()) * judge.sharpness**2 / temperature
    return normal_rule(noise * max(neighbours, judge.sharpness / math.sqrt(temperature)))
