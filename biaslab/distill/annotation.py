"""Ask judges and evaluators for training labels: aspects, stars or 0-100, rewards (Wang et al. 2023)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import ClassVar, Literal

from biaslab import prompts
from biaslab.core import About, Reply, Score, Status, Trial
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, whole_numbers
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Answer, Asking, Question, about_scores, items, read_score

StarScale = Literal["stars", "0-100"]
MULTIPLE = "multiple"
_NOUNS = {"translation": "translation", "style-transfer": "transferred sentence", "summarization": "summary"}
_SCALES: Mapping[str, Scale] = {"stars": whole_numbers(1, 5), "0-100": whole_numbers(0, 100)}


@dataclass(frozen=True)
class Aspect:
    """One aspect of one task, as worded in the paper.

    Parameters
    ----------
    task : str
        ``"translation"``, ``"style-transfer"`` or ``"summarization"``.
    name : str
        For example ``"coherence"``; ``"multiple"`` covers all aspects of the task at once (Table 7).
    worst, perfect : str
        Meaning of one star and of five stars.
    definition : str
        A sentence or two.
    """

    task: str
    name: str
    worst: str
    perfect: str
    definition: str

    @property
    def noun(self) -> str:
        """Noun for a candidate: "summary", "translation" or "transferred sentence"."""
        return _NOUNS[self.task]


def aspects(task: str = "summarization") -> tuple[Aspect, ...]:
    """Return the aspects of a task, the multi-aspect one first.

    Raises
    ------
    InputError
        If the task is unknown.

    Examples
    --------
    >>> [aspect.name for aspect in aspects("translation")]
    ['multiple', 'accuracy', 'completeness', 'fluency', 'style']
    """
    if task not in _NOUNS:
        raise InputError("task", task, ", ".join(_NOUNS))
    return tuple(aspect for aspect in _table() if aspect.task == task)


def find_aspect(task: str, aspect: str) -> Aspect:
    """Return one aspect of a task.

    Raises
    ------
    InputError
        If the task or the aspect is unknown.

    Examples
    --------
    >>> find_aspect("summarization", "coherence").worst
    'incoherence'
    """
    by_name = {each.name: each for each in aspects(task)}
    if aspect not in by_name:
        raise InputError("aspect", aspect, f"one of {', '.join(by_name)}, the aspects of {task}")
    return by_name[aspect]


@cache
def _table() -> tuple[Aspect, ...]:
    with files(__package__).joinpath("aspects.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return tuple(Aspect(r["task"], r["aspect"], r["worst"], r["perfect"], r["definition"]) for r in rows)


@dataclass(frozen=True)
class Stars:
    """Ask for stars, one aspect per request or all aspects at once.

    Parameters
    ----------
    task : {"summarization", "translation", "style-transfer"}
        The task, which determines the aspects (`biaslab.distill.aspects`).
    aspects : sequence of str or Aspect, optional
        Aspects to ask about. By default every single aspect of the task; ``["multiple"]`` is the paper's multi-aspect
        prompt, with one number for all. A custom `Aspect` can replace a name.
    scale : {"stars", "0-100"}
        One to five stars, or the continuous scale of Appendix 3.
    reference : bool
        Show the reference along with the source, so that evaluators can be trained with it (reference-based).
    source : bool
        Show the source.
    answer : {"distribution", "text"}
        Use the expected score over the labels, or generate text and parse the score in it, as the paper does.
    replicates : int
        With ``answer="text"``: samples per request.
    temperature : float
        With ``answer="text"``: 0 is greedy.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer.
    seed : int
        Seed of sampled texts.

    Raises
    ------
    InputError
        If a value is out of range, or the task does not have the aspect. From `design`, if the reference is to be
        shown and a candidate has none.

    Notes
    -----
    The wording is biaslab's; worst, perfect and definition are from Tables 7 and 8. ``attribute`` of the trials is the
    aspect's name, ``human`` the mean human score if the data set has an attribute of that name.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(Stars(aspects=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> len(trials), bool(trials["value"].between(1, 5).all())
    (12, True)
    """

    task: str = "summarization"
    aspects: Sequence[str | Aspect] | None = None
    scale: StarScale = "stars"
    reference: bool = False
    source: bool = True
    answer: Answer = "distribution"
    replicates: int = 1
    temperature: float = 0.0
    max_tokens: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.aspects, str) or (self.aspects is not None and not self.aspects):
            raise InputError("aspects", self.aspects, "a list of at least one aspect")
        self._aspects()
        self._asking()

    @property
    def name(self) -> str:
        """``"stars"``, or ``"stars 0-100"``; with ``", reference"`` if it is shown."""
        return ("stars" if self.scale == "stars" else "stars 0-100") + (", reference" if self.reference else "")

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score per candidate, aspect and replicate."""
        chosen, scale = self._aspects(), _SCALES[self.scale]
        blank = dataset.candidates["reference"].str.strip() == ""
        if self.reference and blank.any():
            row = dataset.candidates.loc[blank].iloc[0]
            place = f"context {row['context_id']!r}, candidate {row['candidate_id']!r} has none"
            raise InputError("reference", place, "a reference for every candidate, or reference=False")
        for item in items(dataset):
            shown = {
                "source": item.context if self.source else "",
                "reference": item.reference if self.reference else "",
                "candidate": item.text,
            }
            for aspect in chosen:
                prompt = prompts.render(
                    "stars",
                    **shown,
                    stars=self.scale == "stars",
                    noun=aspect.noun,
                    attribute=aspect.name,
                    worst=aspect.worst,
                    perfect=aspect.perfect,
                    definition=aspect.definition,
                )
                human = {**item.human, aspect.name: item.human.get(aspect.name, math.nan)}
                asked = replace(item, context=shown["source"], human=human)
                about = about_scores(asked, _named(aspect, dataset), scale)
                yield from Question(asked, aspect.name, prompt, scale, about).trials(self._asking(), {})

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the stars or the score from 0 to 100 (for a distribution, the expected value), and the status."""
        return read_score(trial, reply)

    def _aspects(self) -> tuple[Aspect, ...]:
        if self.aspects is None:
            return tuple(aspect for aspect in aspects(self.task) if aspect.name != MULTIPLE)
        return tuple(a if isinstance(a, Aspect) else find_aspect(self.task, a) for a in self.aspects)

    def _asking(self) -> Asking:
        return Asking(self.answer, self.replicates, self.temperature, self.max_tokens, self.seed)


def _named(aspect: Aspect, dataset: Dataset) -> list[str]:
    """Return the attributes that a score covers: for the multi-aspect prompt, all in its definition.

    If the definition names none, as for translations with a data set of overall quality, all attributes are covered;
    the same holds for a single aspect absent from a data set that rates nothing but overall quality.
    """
    if aspect.name == MULTIPLE:
        several = [name for name in dataset.attributes if name in aspect.definition] or list(dataset.attributes)
        return several or [aspect.name]
    whole = len(dataset.attributes) == 1 and aspect.name not in dataset.attributes
    return list(dataset.attributes) if whole else [aspect.name]


@dataclass(frozen=True)
class Reward:
    """Ask an evaluator for one number per candidate, the objective of reranking and training.

    Parameters
    ----------
    attributes : sequence of str
        Attributes to judge; ``""`` is overall quality.
    reference : bool
        Show the reference to the evaluator.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=1)
    >>> next(iter(Reward(["coherence"]).design(data))).request.attribute
    'coherence'
    """

    name: ClassVar[str] = "reward"
    attributes: Sequence[str] = ("",)
    reference: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.attributes, str) or not self.attributes:
            raise InputError("attributes", self.attributes, "a list of at least one name")

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one request per candidate and attribute."""
        for row in dataset.candidates.itertuples():
            reference = str(row.reference) if self.reference else ""
            for attribute in self.attributes:
                cells = (row.context_id, row.candidate_id, row.text, row.context)
                context_id, candidate_id, text, source = map(str, cells)
                about = About(context_id, (candidate_id,), (text,), (attribute,), bool(source.strip()))
                yield Trial(Score(text, source, reference, attribute, about), context_id, attribute, candidate_id)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:  # noqa: ARG002
        """Return the evaluator's number unchanged."""
        value = math.nan if reply.score is None else reply.score
        return (value, "ok") if math.isfinite(value) else (math.nan, "unparsable")
