"""What scorers and pointwise probes share: which items there are, how a score is asked for, how a reply is read."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from biaslab.core import Choice, Completion, Message, Messages, Reply, Request, Scalar, Status, Trial
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.parsing import parse_score, parse_scores
from biaslab.scales import Scale, find_scale
from biaslab.stats.labels import tempered

Answer = Literal["distribution", "text"]


@dataclass(frozen=True)
class Item:
    """One candidate with what humans thought of it.

    Parameters
    ----------
    context_id, context, candidate_id, system, text : str
        As in `biaslab.Dataset`.
    human : mapping of str to float
        Attribute → mean human score; NaN where nobody rated.
    """

    context_id: str
    context: str
    candidate_id: str
    system: str
    text: str
    human: Mapping[str, float]


def items(dataset: Dataset) -> Iterator[Item]:
    """Yield every candidate of a data set, context by context."""
    means = dataset.human_means.to_dict()
    columns = ["context_id", "context", "candidate_id", "system", "text"]
    for context_id, context, candidate_id, system, text in zip(*(dataset.candidates[c] for c in columns), strict=True):
        human = {str(name): float(scores[context_id, candidate_id]) for name, scores in means.items()}
        yield Item(context_id, context, candidate_id, system, text, human)


def drawn_items(dataset: Dataset, n_candidates: int | None, seed: int) -> Iterator[Item]:
    """Yield so many candidates a context, drawn without replacement, in the data set's order; None is all of them.

    The draw of a context depends on the seed and that context alone.
    """
    for context_id, group in groupby(items(dataset), key=lambda item: item.context_id):
        found = list(group)
        if n_candidates is None or n_candidates >= len(found):
            yield from found
            continue
        rng = np.random.default_rng([seed, zlib.crc32(context_id.encode())])
        yield from (found[i] for i in sorted(rng.choice(len(found), n_candidates, replace=False)))


@dataclass(frozen=True)
class Asking:
    """How scores are asked for; the parameters of a probe that all pointwise probes have.

    Parameters
    ----------
    answer : {"distribution", "text"}
        Read the exact distribution over the scale's labels, or generate text and read the score in it.
    replicates : int
        With ``answer="text"``: samples of each request.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    max_tokens : int
        With ``answer="text"``: length of an answer at most.
    seed : int
        Of the sampled texts.

    Raises
    ------
    InputError
        If a value lies outside its range.
    """

    answer: Answer = "distribution"
    replicates: int = 1
    temperature: float = 1.0
    max_tokens: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.answer not in ("distribution", "text"):
            raise InputError("answer", self.answer, "distribution or text")
        require_whole("replicates", self.replicates, 1)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("seed", self.seed, 0)
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= 10):
            raise InputError("temperature", self.temperature, "a number from 0 to 10")
        if self.answer == "distribution" and self.replicates > 1:
            raise InputError("replicates", self.replicates, '1 where answer is "distribution"', 'choose answer="text"')

    def requests(self, messages: Messages, scale: Scale) -> Iterator[Request]:
        """Yield what to ask, one request a replicate."""
        if self.answer == "distribution":
            yield Choice(messages, scale.labels)
            return
        for replicate in range(self.replicates):
            yield Completion(messages, self.temperature, self.max_tokens, replicate, self.seed)


def score_trials(
    item: Item, attribute: str, messages: Messages, scale: Scale, asking: Asking, condition: Mapping[str, Scalar]
) -> Iterator[Trial]:
    """Yield the trials of one item, attribute and prompt: one, or one a replicate.

    Their condition holds the given columns, ``scale``, ``answer`` and ``human``, the mean human score.
    """
    for replicate, request in enumerate(asking.requests(messages, scale)):
        yield Trial(
            request=request,
            context_id=item.context_id,
            attribute=attribute,
            candidate_id=item.candidate_id,
            replicate=replicate,
            condition={**condition, "scale": scale.name, "answer": asking.answer, "human": item.human[attribute]},
        )


def label_trials(
    item: Item, attribute: str, messages: Messages, scale: Scale, condition: Mapping[str, Scalar]
) -> Iterator[Trial]:
    """Yield one trial a label of a single `Choice`, each valued with the probability of its label.

    Their condition holds ``label``, the label's worth on the scale, besides what `score_trials` puts there.
    """
    [trial] = score_trials(item, attribute, messages, scale, Asking(), condition)
    for label in scale.values:
        yield Trial(**{**trial.__dict__, "condition": {**trial.condition, "label": label}})


def read_score(trial: Trial, reply: Reply, temperature: float = 1.0) -> tuple[float, Status]:
    """Return a score on the trial's scale and its status.

    Of a `Choice` the expected score over the labels at a temperature, 0 being the likeliest label; or the probability
    of one label, at temperature 1, where the trial is about one. Of a text the score that is written in it, that of the
    trial's attribute where the trial lists several in ``labels``.
    """
    scale = find_scale(str(trial.condition["scale"]))
    if isinstance(trial.request, Choice):
        logprobs = reply.logprobs or ()
        if not np.isfinite(logprobs).any():
            return math.nan, "refused"
        if "label" in trial.condition:
            p = _probabilities(tuple(logprobs))
            return float(p[scale.values.index(float(trial.condition["label"]))]), "ok"  # type: ignore[arg-type]
        return float(_probabilities(tuple(logprobs), temperature) @ np.array(scale.values)), "ok"
    if trial.labels:
        return parse_scores(reply.text, trial.labels, scale)[trial.attribute]
    return parse_score(reply.text, scale)


@lru_cache(maxsize=8)
def _probabilities(logprobs: tuple[float, ...], temperature: float = 1.0) -> NDArray[np.float64]:
    """Return the distribution at a temperature; kept, for the trials of all labels of one reply read it."""
    return tempered(logprobs, temperature)


def begun(prompt: str, attribute: str) -> tuple[Message, Message]:
    """Return a conversation in which the judge's answer has begun with "<attribute>:"; see `spaced`."""
    return Message("user", prompt), Message("assistant", f"{attribute}:")


def spaced(scale: Scale) -> Scale:
    """Put a space before every label: after "fluency:" that is how a score goes on."""
    return replace(scale, labels=tuple(f" {label}" for label in scale.labels))


def require_whole(name: str, value: object, least: int) -> None:
    """Raise `InputError` unless a value is a whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(name, value, f"a whole number of at least {least}")


def require_attributes_list(value: Sequence[str] | None) -> None:
    """Raise `InputError` if attributes are one string instead of several."""
    if isinstance(value, str):
        raise InputError("attributes", value, "a list of names", f"write [{value!r}]")
