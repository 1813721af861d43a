"""Scorers that ask a judge for one number per candidate: prompt scoring, rating, G-Eval and GPTScore."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pandas as pd

from biaslab import prompts
from biaslab.core.checks import require_fields, require_temperature, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.interfaces import Design, Nearest, reading_text
from biaslab.core.requests import About, Completion, Likelihood, Reasons, Request
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Status, Trial
from biaslab.measures.scoring.pointwise import AnswerSettings, Item, Question, ScoreAnswer, items, read_score
from biaslab.stats.blocks import usable
from biaslab.stats.frame import require_columns

#: Columns of a scores frame; the first four identify the scores.
SCORES = ("scorer", "judge", "dataset", "attribute", "context_id", "candidate_id", "score")


@dataclass(frozen=True)
class Scorer(Design, ABC):
    """Base class of scorers that ask a judge for the score of each candidate, one attribute at a time.

    Parameters
    ----------
    attributes : sequence of str, optional
        Attributes to score; by default all of the data set.
    scale : str
        A name from `biaslab.core.scales.SCALES`.
    answer : {"distribution", "text"}
        Use the exact label probabilities, or generate text and parse the score in it.
    replicates : int
        With ``answer="text"``: samples per request, averaged by `biaslab.scoring.scores`.
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

    attributes: Sequence[str] | None = None
    scale: str = field(default="1-5", kw_only=True)
    answer: ScoreAnswer = field(default="distribution", kw_only=True)
    replicates: int = field(default=1, kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)
    max_tokens: int | None = field(default=16, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        require_fields(self)
        find_scale(self.scale)
        _ = self.asking

    @property
    def asking(self) -> AnswerSettings:
        """The protocol that asks for scores."""
        length = self.default_length if self.max_tokens is None else self.max_tokens
        return AnswerSettings(self.answer, self.replicates, self.temperature, length, self.seed)

    @property
    def default_length(self) -> int:
        """Maximum length of an answer if ``max_tokens`` is None."""
        return 16

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score per candidate, attribute and replicate."""
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        for item in items(dataset):
            for attribute in attributes:
                yield from self.question(dataset, item, attribute, scale).trials(self.asking, {})

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design without requests that the judge refuses; None if there is none."""
        return reading_text(self, refused)

    @abstractmethod
    def question(self, dataset: Dataset, item: Item, attribute: str, scale: Scale) -> Question:
        """Return the question about one candidate and attribute."""

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the expected score over the labels, or the score stated in a text, and the status."""
        return read_score(trial, reply)


def _shown(dataset: Dataset, attribute: str, item: Item | None = None) -> dict[str, Any]:
    """Return what templates show: the noun of the candidates, the attribute as described, and any texts."""
    described = prompts.describe(dataset, attribute)
    about = {"noun": dataset.noun, "attribute": described.pop("name"), **described}
    return about if item is None else about | {"context": item.context, "candidate": item.text}


def require_steps(steps: Mapping[str, Sequence[str]]) -> None:
    """Raise `InputError` unless every attribute has a list of evaluation steps."""
    for attribute, listed in steps.items():
        if isinstance(listed, str) or not listed:
            raise InputError(f"steps[{attribute!r}]", listed, "a list of at least one step")


def require_known_steps(steps: Mapping[str, Sequence[str]], attributes: Sequence[str]) -> None:
    """Raise `InputError` if steps are given for an attribute that is not scored."""
    if unknown := [name for name in steps if name not in attributes]:
        raise InputError("steps", unknown, f"steps for some of {', '.join(attributes)}")


def scores(trials: pd.DataFrame) -> pd.DataFrame:
    """Turn score trials into scores: the mean over replicates for each candidate.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.collect` with a scorer.

    Returns
    -------
    pandas.DataFrame
        ``scorer, judge, dataset, attribute, context_id, candidate_id, score``, in the order of the trials. NaN for a
        candidate without a usable replicate.

    Raises
    ------
    TrialsError
        If a column is missing, or a replicate of a candidate is repeated: the trials then have several conditions,
        which should not be averaged.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> scorer = bl.scoring.GEval(attributes=["fluency"], answer="text", replicates=4)
    >>> scored = scores(bl.collect(scorer, bl.SimulatedJudge(data), data, progress=False))
    >>> scored.shape, scored["scorer"].iloc[0]
    ((12, 7), 'g_eval')
    """
    keys = ["probe", *SCORES[1:-1]]
    require_columns(trials, (*keys, "replicate", "value", "status"), "trials")
    require_one_condition(trials, keys)
    means = usable(trials).groupby(keys, sort=False)["value"].mean().rename("score")
    rows = trials[keys].drop_duplicates().join(means, on=keys)
    return rows.rename(columns={"probe": "scorer"}).reset_index(drop=True)


def require_one_condition(trials: pd.DataFrame, keys: Sequence[str]) -> None:
    """Raise `TrialsError` if a replicate is scored twice, as happens with trials of several conditions."""
    twice = trials.duplicated([*keys, "replicate"])
    if twice.any():
        duplicate = " ".join(map(str, trials.loc[twice, list(keys)].iloc[0]))
        raise TrialsError.plain(f"trials has several scores of {duplicate}; select one condition first")


def scored(
    dataset: Dataset, scorer: str, judge: str, values: Iterable[float], attributes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the scores frame of a metric that ignores attributes: the same score for each attribute.

    Parameters
    ----------
    dataset : Dataset
        The data set that was scored.
    scorer, judge : str
        Name of the metric, and of the package or model that computed it.
    values : iterable of float
        One per row of ``dataset.candidates``.
    attributes : sequence of str, optional
        Attributes that humans judged; by default all of the data set.

    Raises
    ------
    InputError
        If an attribute is unknown.
    """
    frame = dataset.candidates[["context_id", "candidate_id"]].assign(score=list(values))
    whose = {"scorer": scorer, "judge": judge, "dataset": dataset.name}
    parts = [frame.assign(**whose, attribute=name) for name in dataset.require_attributes(attributes)]
    return pd.concat(parts, ignore_index=True)[list(SCORES)]


@dataclass(frozen=True)
class PromptScoring(Scorer):
    """Ask for the score of each candidate with one of two simple templates.

    Further parameters: `biaslab.scoring.Scorer`.

    Parameters
    ----------
    answer : {"distribution", "text"}
        Use the most likely label, which is a greedy judge's answer, or generate text and parse the score in it.
    template : {1, 2}
        A bare request, or one that states the task and defines the attribute.
    scale : {"1-5", "1-10", "1-100"}
        Range of whole numbers.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer.
    cue : str
        End of the prompt, for example "Score:", which the paper appends for Llama 2.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    The defaults of scale, temperature and length are the paper's, which parses sampled text (``answer="text"``). If
    labels are equally likely, the score is their mean.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> scorer = PromptScoring(attributes=["fluency"], template=2)
    >>> trials = bl.collect(scorer, bl.SimulatedJudge(data), data, progress=False)
    >>> len(trials), trials["probe"].iloc[0]
    (12, 'prompt_scoring_2')
    """

    template: Literal[1, 2] = 1
    scale: str = field(default="1-10", kw_only=True)
    max_tokens: int | None = field(default=5, kw_only=True)
    cue: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not label.isdecimal() for label in find_scale(self.scale).labels):
            raise InputError("scale", self.scale, "a scale of whole numbers, such as 1-10")

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the scorer, with the template."""
        return f"prompt_scoring_{self.template}"

    def question(self, dataset: Dataset, item: Item, attribute: str, scale: Scale) -> Question:
        """Return the request for one score."""
        shown = _shown(dataset, attribute, item) | {"definition": dataset.attributes[attribute], "cue": self.cue}
        prompt = prompts.render(f"scoring_{self.template}", low=scale.labels[0], high=scale.labels[-1], **shown)
        return Question.of(item, attribute, prompt, scale)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score stated in a text, or the most likely label, and the status."""
        return read_score(trial, reply, temperature=0.0)


_NAMES = {"none": "rating", "after": "rate_explain", "before": "analyze_rate"}


@dataclass(frozen=True)
class Rating(Scorer):
    """Ask for a rating with definition, aspects and source, one attribute at a time, with or without a rationale.

    Further parameters: `biaslab.scoring.Scorer`.

    Parameters
    ----------
    scale : str
        A name from `biaslab.core.scales.SCALES`.
    reasons : {"none", "after", "before"}
        No reasons; "rate-explain", the rating and then the reasons; or "analyze-rate", the reasons first (Chiang & Lee
        2023).
    answer : {"distribution", "text"}
        Use the exact label probabilities, or generate text and parse the score in it. Reasons after the rating cannot
        influence it, so its distribution is exact too; after reasons it is unknown.
    temperature : float
        0 is greedy: the most likely label. At higher temperatures a distribution gives the expected score, which the
        mean of samples converges to.
    max_tokens : int, optional
        With ``answer="text"``: maximum tokens of an answer. By default 16, because generation may stop after the
        rating, or 256 if reasons come first.

    steps : mapping of str to sequence of str
        Attribute → evaluation steps for its prompt, such as those of RoSE's annotators in the paper's recipe:
        `biaslab.prompts.protocol_steps`. None by default.

    Raises
    ------
    InputError
        If a value is out of range, or a distribution is requested for a rating after its reasons. From `design`, if
        there are steps for an attribute that is not scored.

    Notes
    -----
    The recipe is the default: 1-10, no reasons, temperature 0, with the source, one attribute per request.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> judge = bl.SimulatedJudge(data, noise=0.5)
    >>> recipe = bl.collect(Rating(attributes=["fluency"]), judge, data, progress=False)
    >>> bool((recipe["value"] % 1 == 0).all())
    True
    """

    scale: str = "1-10"
    reasons: Reasons = "none"
    temperature: float = field(default=0.0, kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_steps(self.steps)
        if self.reasons == "before" and self.answer == "distribution":
            raise InputError("answer", self.answer, "text if the rationale comes before the rating")

    @property
    def name(self) -> str:  # type: ignore[override]
        """``"rating"``, ``"rate_explain"`` or ``"analyze_rate"``, by the position of the rationale."""
        return _NAMES[self.reasons]

    @property
    def default_length(self) -> int:
        """Maximum length of an answer: generation may stop after the rating."""
        return 256 if self.reasons == "before" else 16

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score per candidate, attribute and replicate."""
        require_known_steps(self.steps, dataset.require_attributes(self.attributes))
        yield from super().design(dataset)

    def question(self, dataset: Dataset, item: Item, attribute: str, scale: Scale) -> Question:
        """Return the request for one rating, with an answer prefix if a distribution comes before the rationale."""
        question = Question.rate(dataset, item, [attribute], scale, self.reasons, steps=self.steps.get(attribute, ()))
        if self.reasons == "after" and self.answer == "distribution":
            return question.begun(attribute)
        return replace(question, labels=(attribute,))

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score (of a distribution, the expected score at the temperature) and the status."""
        return read_score(trial, reply, self.temperature)


_STEP = re.compile(r"^\W{0,4}(?:step\s*)?\d{1,2}\s*[.):]\W{0,4}(?=\w)(.+)$|^[-*•]\s+(?=\w)(.+)$", re.IGNORECASE)
_CONTEXT = "steps"  # pseudo-context for requests that are not about a candidate


@dataclass(frozen=True)
class GEval(Scorer):
    """Ask for a score with a form that states task, criterion and evaluation steps; use the expected score.

    Further parameters: `biaslab.scoring.Scorer`.

    Parameters
    ----------
    scale : str
        A name from `biaslab.core.scales.SCALES`; the paper's is 1-5.
    replicates : int
        With ``answer="text"``: samples per request, averaged by `biaslab.scoring.scores`. The paper uses 20.
    steps : mapping of str to sequence of str, optional
        Attribute → evaluation steps. For other attributes, steps are derived from their aspects. The paper has the
        judge write them once per attribute (auto-CoT): `biaslab.scoring.StepWriting` asks for them, and
        `biaslab.scoring.written_steps` returns this mapping.

    Raises
    ------
    InputError
        If a value is out of range, or steps are a string or empty. From `design`, if there are steps for an attribute
        that is not scored.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(GEval(attributes=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> trials["value"].head(4).round(2).tolist()
    [4.88, 3.0, 4.88, 4.88]
    """

    scale: str = "1-5"
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)

    name: ClassVar[str] = "g_eval"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_steps(self.steps)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score per candidate, attribute and replicate."""
        attributes = dataset.require_attributes(self.attributes)
        require_known_steps(self.steps, attributes)
        yield from super().design(dataset)

    def question(self, dataset: Dataset, item: Item, attribute: str, scale: Scale) -> Question:
        """Return the form for one candidate and attribute."""
        steps = list(self.steps.get(attribute, ()))
        prompt = prompts.render("g_eval", scale=scale, steps=steps, **_shown(dataset, attribute, item))
        return Question.of(item, attribute, prompt, scale)


@dataclass(frozen=True)
class StepWriting(Design):
    """Let the judge write the evaluation steps of each attribute, for ``steps`` of `biaslab.scoring.GEval`.

    A design like any other: `biaslab.collect` asks, and a store keeps the replies, so the steps of a study remain
    those used for its scores.

    Parameters
    ----------
    attributes : sequence of str, optional
        Attributes to write steps for; by default all of the data set.
    scale : str
        A name from `biaslab.core.scales.SCALES`: the scale of the scores.
    temperature : float
        0 is greedy.
    max_tokens : int
        Maximum length of the steps.
    seed : int
        Seed of sampled text.

    Notes
    -----
    A trial's ``value`` is the number of steps; a reply with fewer than two is unparsable.

    Examples
    --------
    >>> import biaslab as bl
    >>> [trial] = StepWriting(["fluency"]).design(bl.load_dataset("graded", limit=2))
    >>> print(trial.request.messages[0].content.splitlines()[-1])
    Evaluation steps:
    """

    attributes: Sequence[str] | None = None
    scale: str = "1-5"
    temperature: float = 0.0
    max_tokens: int = 256
    seed: int = 0

    name: ClassVar[str] = "step_writing"
    keeps_replies = True

    def __post_init__(self) -> None:
        require_fields(self)
        find_scale(self.scale)
        require_temperature(self.temperature)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("seed", self.seed, 0)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one text per attribute."""
        for attribute in dataset.require_attributes(self.attributes):
            shown = _shown(dataset, attribute)
            prompt = prompts.render("evaluation_steps", scale=find_scale(self.scale), **shown)
            request = Completion(prompt, self.temperature, self.max_tokens, 0, self.seed)
            yield Trial(request, _CONTEXT, attribute, "")

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:  # noqa: ARG002 - as all designs do
        """Return the number of steps in a text, and the status."""
        count = len(parse_steps(reply.text))
        return (float(count), "ok") if count > 1 else (math.nan, "unparsable")


def written_steps(trials: pd.DataFrame) -> dict[str, list[str]]:
    """Return the steps of each attribute, from the trials of `StepWriting`.

    Raises
    ------
    TrialsError
        If a column is missing, or a reply contains no steps.
    """
    require_columns(trials, ("attribute", "status", "reply"), "trials")
    if (unread := trials.loc[trials["status"] != "ok", "attribute"].tolist()) or trials.empty:
        allowed = "a list of at least two steps for each attribute"
        raise TrialsError.plain(f"trials has no steps for {', '.join(unread) or 'any attribute'}, expected: {allowed}")
    return {str(name): parse_steps(str(text)) for name, text in zip(trials["attribute"], trials["reply"], strict=True)}


def parse_steps(text: str | None) -> list[str]:
    r"""Parse the steps of a numbered or bulleted list, without the text around it.

    Examples
    --------
    >>> parse_steps("Sure:\n\n1. Read the source.\n**2)** Compare the two.\nGood luck!")
    ['Read the source.', 'Compare the two.']
    >>> parse_steps("I would read it first.")
    []
    """
    matches = (_STEP.match(line.strip()) for line in (text or "").splitlines())
    return [(match[1] or match[2]).strip(" *_") for match in matches if match]


@dataclass(frozen=True)
class GPTScore(Design):
    """Score a candidate by its mean log-probability per token, given the source and an instruction.

    Parameters
    ----------
    attributes : sequence of str, optional
        Attributes that the instruction asks for; by default all of the data set.

    Notes
    -----
    No chat template is applied: the judge reads source and instruction as plain text, continued by the candidate. The
    score is in nats per token of the judge's tokenizer, at most 0: compare candidates under one judge, never scores of
    different judges.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(GPTScore(attributes=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> bool((trials["value"] < 0).all())
    True
    """

    attributes: Sequence[str] | None = None

    name: ClassVar[str] = "gpt_score"

    def __post_init__(self) -> None:
        require_fields(self)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the likelihood of each candidate under the instruction of each attribute."""
        attributes = dataset.require_attributes(self.attributes)
        for item in items(dataset):
            for attribute in attributes:
                instruction = prompts.render("gpt_score", **_shown(dataset, attribute, item))
                own, source = (item.candidate_id,), bool(item.context.strip())
                about = About(item.context_id, own, (item.text,), (attribute,), source)
                asked = Likelihood(item.text, f"{instruction}\n", about)
                human = {"human": item.human[attribute]}
                yield Trial(asked, item.context_id, attribute, item.candidate_id, condition=human)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:  # noqa: ARG002 - as every scorer is asked
        """Return the mean log-probability of the candidate's tokens, and the status."""
        value = math.fsum(reply.logprobs) / len(reply.logprobs) if reply.logprobs else math.nan
        return (value, "ok") if math.isfinite(value) else (math.nan, "refused")
