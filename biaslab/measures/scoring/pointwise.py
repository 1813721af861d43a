"""Pointwise scoring: candidates, questions, and the parsing of replies."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np

from biaslab import prompts
from biaslab.core.arrays import Floats
from biaslab.core.checks import require_one_of, require_sampling, require_whole
from biaslab.core.requests import About, Choice, Completion, Message, Messages, Reasons, ReplyFormat, Request, Score
from biaslab.core.scales import Scale, scale_named
from biaslab.core.schema import CANDIDATE_COLUMNS, CONSTRUCTION, Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.prompts.parsing import parse_score, parse_scores
from biaslab.stats.blocks import ITEM
from biaslab.stats.samples import tempered

ScoreAnswer = Literal["distribution", "text"]
AnyAnswer = Literal["distribution", "text", "score"]


@dataclass(frozen=True)
class Item:
    """One candidate with its mean human scores.

    Parameters
    ----------
    context_id, context, candidate_id, system, text, reference : str
        As in `biaslab.Dataset`.
    human : mapping of str to float
        Attribute → mean human score; NaN if unrated.
    """

    context_id: str
    context: str
    candidate_id: str
    system: str
    text: str
    reference: str
    human: Mapping[str, float]


def items(dataset: Dataset) -> Iterator[Item]:
    """Yield every candidate of a data set, context by context, even if rows of a context are not adjacent."""
    means = dataset.human_means.to_dict()
    candidates = dataset.candidates.iloc[dataset.candidates["context_id"].factorize()[0].argsort(kind="stable")]
    for values in zip(*(candidates[column] for column in CANDIDATE_COLUMNS), strict=True):
        row = dict(zip(CANDIDATE_COLUMNS, values, strict=True))
        human = {str(name): float(scores[row["context_id"], row["candidate_id"]]) for name, scores in means.items()}
        yield Item(**row, human=human)


def drawn_items(dataset: Dataset, n_candidates: int | None, seed: int) -> Iterator[Item]:
    """Sample candidates of each context without replacement, in the data set's order; None takes all.

    A context's sample depends only on the seed and that context.
    """
    for context_id, group in groupby(items(dataset), key=lambda item: item.context_id):
        candidates = list(group)
        if n_candidates is None or n_candidates >= len(candidates):
            yield from candidates
            continue
        rng = np.random.default_rng([seed, zlib.crc32(context_id.encode())])
        yield from (candidates[i] for i in sorted(rng.choice(len(candidates), n_candidates, replace=False)))


def single_ratings(dataset: Dataset, written: Callable[[float], str]) -> dict[tuple[Any, ...], str]:
    """Return the individual human scores of each context, candidate and attribute, separated by spaces."""
    human = dataset.human
    ratings = human["score"].map(written).groupby([human[name] for name in (*ITEM, "attribute")])
    return dict(ratings.agg(" ".join))


def ratings_by_item(dataset: Dataset) -> dict[tuple[Any, ...], dict[str, Scalar]]:
    """Return the individual human scores in trials, by context, candidate and attribute.

    Returns
    -------
    dict
        ``ratings``, the scores separated by spaces, and ``annotators``, the numbers of the annotators who gave them,
        in the same order and consistent throughout the data set. Empty if no item has two scores, unless all are by
        the annotator ``"construction"``, who keeps the name.

    Examples
    --------
    >>> import biaslab as bl
    >>> next(iter(ratings_by_item(bl.load_dataset("lengths", limit=1)).values()))
    {'ratings': '5.0', 'annotators': 'construction'}
    """
    human, key = dataset.human, [*ITEM, "attribute"]
    exact = bool((human["annotator"] == CONSTRUCTION).all())
    if not (exact or human.duplicated(key).any()):
        return {}
    numbered = human.assign(number=CONSTRUCTION if exact else human["annotator"].factorize()[0].astype(str))
    annotators, scores = dict(numbered.groupby(key)["number"].agg(" ".join)), single_ratings(dataset, repr)
    return {item: {"ratings": scores[item], "annotators": who} for item, who in annotators.items()}


@dataclass(frozen=True)
class AnswerSettings:
    """Parameters of pointwise requests, shared by all pointwise probes.

    Parameters
    ----------
    answer : {"distribution", "text", "score"}
        Use the exact distribution over the scale's labels, or generate text and parse the score in it; or ask an
        evaluator, which reads no prompt, for a number (`biaslab.core.Score`).
    evaluators : bool
        Whether an evaluator's number is acceptable, because the phenomenon does not depend on the prompt.
    replicates : int
        With ``answer="text"``: samples per request.
    temperature : float
        With ``answer="text"``: 0 is greedy, which makes replicates equal.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer.
    seed : int
        Seed of sampled texts.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    answer: AnyAnswer = "distribution"
    replicates: int = 1
    temperature: float = 1.0
    max_tokens: int = 16
    seed: int = 0
    evaluators: bool = False

    def __post_init__(self) -> None:
        allowed = get_args(AnyAnswer if self.evaluators else ScoreAnswer)
        require_one_of("answer", self.answer, allowed)
        require_sampling(self.answer, self.replicates, self.temperature)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("seed", self.seed, 0)

    def requests(self, question: Question) -> Iterator[Request]:
        """Yield the requests, one per replicate."""
        item, about = question.item, question.about
        if self.answer == "score":
            yield Score(item.text, item.context, item.reference, about.attributes[0], about)
        elif self.answer == "distribution":
            yield Choice(question.messages, question.scale.labels, about)
        else:
            for replicate in range(self.replicates):
                yield Completion(question.messages, self.temperature, self.max_tokens, replicate, self.seed, about)


def about_scores(
    item: Item,
    attributes: Sequence[str],
    scale: Scale,
    form: ReplyFormat = "bare",
    reasons: Reasons = "none",
    previous: float | None = None,
    edit: str = "",
) -> About:
    """Return the description (`About`) of a request for an item's scores."""
    shown = (item.context_id, (item.candidate_id,), (item.text,), tuple(attributes), bool(item.context.strip()))
    asked: dict[str, Any] = {"scale": scale.name, "form": form, "reasons": reasons, "previous": previous}
    return About(*shown, **asked, edits=(edit,) if edit else ())


@dataclass(frozen=True)
class Question:
    """Question for the score of one item and attribute.

    Parameters
    ----------
    item : Item
        The item to score.
    attribute : str
        The attribute whose score is parsed.
    messages : str or sequence of Message
        The prompt.
    scale : Scale
        The scale of the answer.
    about : About
        Description of the request, as in `biaslab.core.About`.
    labels : tuple of str
        The attributes of an answer in lines ``<attribute>: <score>``; empty if the answer is a bare score.
    """

    item: Item
    attribute: str
    messages: Messages
    scale: Scale
    about: About
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, item: Item, attribute: str, messages: Messages, scale: Scale) -> Question:
        """Ask for a bare score with any prompt."""
        return cls(item, attribute, messages, scale, about_scores(item, [attribute], scale))

    @classmethod
    def rate(
        cls,
        dataset: Dataset,
        item: Item,
        attributes: Sequence[str],
        scale: Scale,
        reasons: Reasons = "none",
        heading: str = "",
        note: str = "",
        edit: str = "",
        steps: Sequence[str] = (),
    ) -> Question:
        """Ask for the scores of one or several attributes with `biaslab.prompts.rate`; the first score is used.

        ``heading``, ``note`` and ``steps`` are parts of the prompt; ``edit`` names the edit applied to the candidate.
        """
        prompt = prompts.rate(dataset, attributes, scale, item.text, item.context, reasons, heading, note, steps)
        if len(attributes) == 1 and reasons == "none":
            return cls(item, attributes[0], prompt, scale, about_scores(item, attributes, scale, edit=edit))
        about = about_scores(item, attributes, scale, "lines", reasons, edit=edit)
        return cls(item, attributes[0], prompt, scale, about, tuple(attributes))

    def begun(self, answer: str) -> Question:
        """Return the question with an answer prefix "<answer>:"; every label starts with a space."""
        messages = (Message("user", str(self.messages)), Message("assistant", f"{answer}:"))
        labels = tuple(f" {label}" for label in self.scale.labels)
        return replace(self, messages=messages, scale=replace(self.scale, labels=labels))

    def trials(self, asking: AnswerSettings, condition: Mapping[str, Scalar]) -> Iterator[Trial]:
        """Yield one trial per replicate.

        Their condition contains the given columns, ``scale``, ``answer`` and ``human``, the mean human score.
        """
        item = self.item
        where = dict(condition)
        where |= {"scale": self.scale.name, "answer": asking.answer, "human": item.human[self.attribute]}
        for replicate, request in enumerate(asking.requests(self)):
            about = (item.context_id, self.attribute, item.candidate_id, None)
            yield Trial(request, *about, replicate, where, self.labels)

    def label_trials(self, condition: Mapping[str, Scalar]) -> Iterator[Trial]:
        """Yield one trial per label of a single `Choice`; its value is the probability of the label.

        Their condition contains ``label``, the label's value on the scale, in addition to the columns of `trials`.
        """
        [trial] = self.trials(AnswerSettings(), condition)
        for label in self.scale.values:
            yield replace(trial, condition={**trial.condition, "label": label})


def read_score(trial: Trial, reply: Reply, temperature: float = 1.0) -> tuple[float, Status]:
    """Return a score on the trial's scale and its status.

    An evaluator's number is mapped linearly to the scale, from 0 for its lowest to 1 for its highest score.

    For a `Choice`: the expected score over the labels at a temperature, where 0 means the most likely label; or, if
    the trial is about a single label, its probability at temperature 1. Counted samples cannot be converted to another
    temperature, so there is then no score. For a text: the score in it, that of the trial's attribute if the trial
    lists several in ``labels``.
    """
    scale = scale_named(str(trial.condition["scale"]))
    if isinstance(trial.request, Choice):
        logprobs = reply.logprobs or ()
        if not np.isfinite(logprobs).any() or (reply.samples is not None and temperature != 1):
            return math.nan, "refused"
        if "label" in trial.condition:
            p = _probabilities(tuple(logprobs))
            return float(p[scale.values.index(float(trial.condition["label"]))]), "ok"  # type: ignore[arg-type]
        return float(_probabilities(tuple(logprobs), temperature) @ np.array(scale.values)), "ok"
    if isinstance(trial.request, Score):
        return (math.nan, "refused") if reply.score is None else (scale.at(reply.score), "ok")
    if trial.labels:
        return parse_scores(reply.text, trial.labels, scale)[trial.attribute]
    return parse_score(reply.text, scale)


@lru_cache(maxsize=8)
def _probabilities(logprobs: tuple[float, ...], temperature: float = 1.0) -> Floats:
    """Return the distribution at a temperature; cached, because the trials of all labels of a reply use it."""
    return tempered(logprobs, temperature)
