"""Answer questions: planted utilities, a distribution over labels, and text drawn from it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_softmax

from biaslab.core.arrays import Floats
from biaslab.core.requests import Choice, Completion, Likelihood, Prompt, ThinkingBudget, thinking_tokens
from biaslab.core.schema import count_words
from biaslab.core.trials import Reply, Usage
from biaslab.judges.simulated.knowledge import (
    ListQuestion,
    PairQuestion,
    ScoreQuestion,
    ShownCandidate,
    SimulatedQuestion,
    digest_of,
    doublings,
    normal,
    uniforms,
)

if TYPE_CHECKING:
    from biaslab.judges.simulated import SimulatedJudge

REFUSAL = "I'm sorry, but I cannot compare these texts."
GARBAGE = "That would depend on what one is looking for."
_FINE = 10  # labels of a scale whose scores have no further noise
_REASONS = "Every sentence was weighed for what is asked."


def utility(judge: SimulatedJudge, shown: ShownCandidate, attribute: str, source: bool) -> float:
    """Return a candidate's utility, in points above the midpoint of the human scale."""
    known = judge.known
    low, high = known.scale
    seen = judge.quality if source else judge.quality * (1 - judge.source_reliance)
    worth = seen * (known.score(shown, attribute) - (low + high) / 2)
    if judge.familiarity:
        worth += judge.familiarity * (log_perplexity(judge, shown.text) - judge.mean_log_perplexity)
    if judge.verbosity:
        worth += judge.verbosity * (doublings(shown.text) - known.mean_doublings)
    if judge.self_preference and known.systems[shown[:2]] == judge.own_system:
        worth += judge.self_preference
    if judge.edits:
        worth += judge.edits.get(shown.edit, judge.edits.get(shown.edit.partition("+")[0], 0.0))
    return worth


def own_mean(judge: SimulatedJudge, asked: ScoreQuestion, attribute: str) -> float:
    """Return the centre of a score on the unit scale, without noise or anchoring."""
    low, high = judge.known.scale
    worth = utility(judge, asked.shown, attribute, asked.source) + judge.template_shift(asked.template)
    if asked.reasons != "before":
        return 0.5 + worth / (high - low)
    worth += judge.reason_quality * (judge.known.score(asked.shown, attribute) - (low + high) / 2)
    return 0.5 + worth / (high - low) + judge.reason_first


def log_perplexity(judge: SimulatedJudge, text: str) -> float:
    """Return the planted log perplexity of a text."""
    planted = judge.log_perplexity
    value = planted.get(text) if planted else None
    return judge.known.log_perplexity(text) if value is None else value


def label_logits(judge: SimulatedJudge, asked: ScoreQuestion, mean: Floats | float) -> Floats:
    """Return log weights of the labels, shape (..., labels), for means of shape (...)."""
    distance = asked.units - np.asarray(mean)[..., None]
    logits: Floats = -0.5 * judge.sharpness**2 * distance**2
    return logits + judge.heaping * asked.heaps if judge.heaping else logits


def answer(judge: SimulatedJudge, request: Prompt, asked: SimulatedQuestion | None) -> Reply:
    """Answer a request whose question has been extracted."""
    if isinstance(request, Likelihood):
        return _likelihood(judge, request.text)
    assert asked is not None  # noqa: S101 - only a likelihood has no question
    if judge.refusal and _refuses(judge, asked):
        if isinstance(request, Choice):
            return Reply(logprobs=(-math.inf,) * len(request.labels), usage=Usage(1))
        return _text(REFUSAL)
    if isinstance(request, Completion) and uniforms(judge.seed, asked.digest, _sample(request))[1] < judge.garbage:
        return _text(GARBAGE)
    if isinstance(asked, PairQuestion):
        return _compare(judge, request, asked)
    return _list(judge, request, asked) if isinstance(asked, ListQuestion) else _score(judge, request, asked)


def _refuses(judge: SimulatedJudge, asked: SimulatedQuestion) -> bool:
    """Return whether a request is refused; selective refusals are those that would be bad news for the first text."""
    would = uniforms(judge.seed, asked.digest)[1] < judge.refusal
    if not would or not judge.selective:
        return would
    score = judge.known.score
    if isinstance(asked, PairQuestion):
        return score(asked.first, asked.attribute) < score(asked.second, asked.attribute)
    if isinstance(asked, ListQuestion):
        first, *others = (score(shown, asked.attribute) for shown in asked.shown)
        return first < sum(others) / len(others)
    return score(asked.shown, asked.attributes[0]) < sum(judge.known.scale) / 2


def _sample(request: Completion) -> tuple[float, int, int]:
    """Return what distinguishes samples of the same question."""
    return request.temperature, request.replicate, request.seed


def answer_after_thought(
    judge: SimulatedJudge, request: Prompt, asked: SimulatedQuestion | None, budget: ThinkingBudget
) -> Reply:
    """Answer after a thought: with the remaining biases, other random numbers, and thinking tokens counted."""
    assert asked is not None and isinstance(request, Choice | Completion)  # noqa: S101, PT018 - others set no budget
    asked = replace(asked, digest=digest_of(asked.digest, budget))
    reply = answer(judge, request, asked)
    detail = "thought", request.replicate if isinstance(request, Completion) else 0
    tokens = round(thinking_tokens(budget) * (1 + uniforms(judge.seed, asked.digest, detail)[2]) / 4)
    written = reply.usage.completion_tokens + tokens
    usage = replace(reply.usage, completion_tokens=written, reasoning_tokens=tokens)
    return replace(reply, usage=usage, thought=None if reply.text is None else _REASONS)


def _likelihood(judge: SimulatedJudge, text: str) -> Reply:
    """Give every word the same log-probability, so that their mean is exactly minus the log perplexity."""
    words = count_words(text)
    return Reply(logprobs=(-log_perplexity(judge, text.strip()),) * words, usage=Usage(words))


def _compare(judge: SimulatedJudge, request: Choice | Completion, asked: PairQuestion) -> Reply:
    """Answer which of two texts is better: as a distribution, greedily or by a draw."""
    first, second = (utility(judge, shown, asked.attribute, asked.source) for shown in (asked.first, asked.second))
    log_odds = first - second + judge.position + judge.context_shift(asked.first.context_id)
    log_odds += judge.template_shift(asked.template)
    if judge.reason_first and asked.reasons == "before":
        low, high = judge.known.scale
        log_odds += judge.reason_first * (high - low)
    if judge.noise:
        log_odds += judge.noise * normal(uniforms(judge.seed, asked.digest)[0])
    tie = abs(log_odds) < judge.ties
    if isinstance(request, Choice):
        logprobs = [-math.inf] * len(request.labels)
        tie_label = asked.labels[2] if len(asked.labels) > 2 else "Tie"
        if tie and tie_label in request.labels:
            logprobs[request.labels.index(tie_label)] = 0.0
        else:
            first = -math.log1p(math.exp(-log_odds)) if log_odds > -700 else log_odds
            logprobs[:2] = first, first - log_odds
        return Reply(logprobs=tuple(logprobs), usage=Usage(1))
    if tie and len(asked.labels) > 2:
        return _text(asked.labels[2])
    # a standard logistic variate below the log odds is a draw with that probability
    threshold = 0.0
    if request.temperature > 0:
        u = uniforms(judge.seed, asked.digest, _sample(request))[0]
        threshold = request.temperature * (math.log(u) - math.log1p(-u))
    return _text(asked.labels[0 if threshold < log_odds else 1])


def _list(judge: SimulatedJudge, request: Choice | Completion, asked: ListQuestion) -> Reply:
    """Choose or rank by utility; the first-presented candidate has the same advantage as in a pair."""
    worth = np.array([utility(judge, shown, asked.attribute, asked.source) for shown in asked.shown])
    worth[0] += judge.position + judge.context_shift(asked.shown[0].context_id) + judge.template_shift(asked.template)
    places = range(len(worth))
    if judge.noise:  # scaled so that the difference of two has the same noise as in a pair
        drawn = [normal(uniforms(judge.seed, asked.digest, ("place", place))[0]) for place in places]
        worth += judge.noise / math.sqrt(2) * np.array(drawn)
    if isinstance(request, Choice):
        return Reply(logprobs=tuple(np.minimum(log_softmax(worth), 0.0).tolist()), usage=Usage(1))
    if request.temperature > 0:  # Gumbel trick: the largest sum draws the best, the order a ranking
        own = [uniforms(judge.seed, asked.digest, (place, *_sample(request)))[0] for place in places]
        worth -= request.temperature * np.log(-np.log(own))
    ranks = (-worth).argsort(kind="stable").argsort(kind="stable") + 1
    value = ranks if asked.protocol.places.ranks else ranks == 1
    return _text(asked.protocol.write_list(value.astype(float).tolist()))


def _score(judge: SimulatedJudge, request: Choice | Completion, asked: ScoreQuestion) -> Reply:
    """Answer with a distribution over labels, or with one score per attribute, each anchored on the one before."""
    if isinstance(request, Choice):
        logits = label_logits(judge, asked, _mean(judge, asked, asked.attributes[0], asked.previous))
        logits -= logits.max()
        logits -= math.log(np.exp(logits).sum())
        return Reply(logprobs=tuple(np.minimum(logits, 0.0).tolist()), usage=Usage(1))
    chosen, previous = [], asked.previous
    for place, attribute in enumerate(asked.attributes):
        logits = label_logits(judge, asked, _mean(judge, asked, attribute, previous))
        if request.temperature > 0:
            weights = np.exp((logits - logits.max()) / request.temperature).cumsum()
            drawn = uniforms(judge.seed, asked.digest, (place, *_sample(request)))[0] * weights[-1]
            index = min(int(weights.searchsorted(drawn, side="right")), len(weights) - 1)
        else:
            index = int(logits.argmax())
        chosen.append(asked.scale.labels[index])
        previous = float(asked.units[index])
    return _text(write_scores(asked, chosen))


def _mean(judge: SimulatedJudge, asked: ScoreQuestion, attribute: str, previous: float | None) -> float:
    """Return the centre of a score on the unit scale, with context shift, anchoring and noise."""
    low, high = judge.known.scale
    mean = own_mean(judge, asked, attribute) + judge.context_shift(asked.shown.context_id) / (high - low)
    if previous is not None:
        mean += judge.anchoring * (previous - mean)
    noise = math.hypot(judge.noise, judge.coarse_noise) if len(asked.units) < _FINE else judge.noise
    if noise:
        mean += noise / (high - low) * normal(uniforms(judge.seed, asked.digest, attribute)[0])
    return mean


def write_scores(asked: ScoreQuestion, chosen: list[str]) -> str:
    """Format labels as requested, with reasons if requested."""
    if asked.replies:
        pairs = zip(asked.attributes, chosen, strict=True)
        replies = ((attribute, asked.replies[asked.scale.labels.index(label)]) for attribute, label in pairs)
        return "\n".join(reply.replace("{attribute}", attribute) for attribute, reply in replies)
    if asked.layout == "bare":
        return chosen[0]
    if asked.layout == "json":
        members = {"none": ("score",), "before": ("reasons", "score"), "after": ("score", "reasons")}[asked.reasons]
        text, mark = json.dumps({m: _json_value(chosen[0]) if m == "score" else _REASONS for m in members}), '"score":'
    else:
        single = asked.layout == "text"
        reasons = f"reasons: {_REASONS}" if single else _REASONS
        lines: list[str] = []
        for attribute, label in zip(asked.attributes, chosen, strict=True):
            line = f"{'score' if single else attribute}: {label}"
            lines += {"none": [line], "before": [reasons, line], "after": [line, reasons]}[asked.reasons]
        text, mark = "\n".join(lines), f"{'score' if single else asked.attributes[0]}:"
    return text.partition(mark)[2] if asked.opened else text


def _json_value(label: str) -> object:
    try:
        return json.loads(label)
    except ValueError:
        return label


def _text(text: str) -> Reply:
    return Reply(text=text, finish_reason="stop", usage=Usage(1, 0, 1))
