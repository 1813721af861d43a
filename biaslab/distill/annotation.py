"""Create training examples: ask judges and evaluators for labels (Wang et al. 2023)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import ClassVar, Literal, cast

import pandas as pd

from biaslab import prompts
from biaslab.core.checks import require_fields
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.interfaces import Design, Judge
from biaslab.core.output import AnyPath
from biaslab.core.requests import About, Score
from biaslab.core.scales import Scale, scale_named, whole_numbers
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Status, Trial
from biaslab.measures.scoring.pointwise import AnswerSettings, Question, ScoreAnswer, about_scores, items, read_score
from biaslab.measures.scoring.scorers import require_one_condition
from biaslab.stats.blocks import ITEM, usable
from biaslab.stats.frame import require_columns
from biaslab.store import Store
from biaslab.study.collect import collect

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


def aspects_of(task: str = "summarization") -> tuple[Aspect, ...]:
    """Return the aspects of a task, the multi-aspect one first.

    Raises
    ------
    InputError
        If the task is unknown.

    Examples
    --------
    >>> [aspect.name for aspect in aspects_of("translation")]
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
    by_name = {each.name: each for each in aspects_of(task)}
    if aspect not in by_name:
        raise InputError("aspect", aspect, f"one of {', '.join(by_name)}, the aspects of {task}")
    return by_name[aspect]


@cache
def _table() -> tuple[Aspect, ...]:
    with files(__package__).joinpath("aspects.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return tuple(Aspect(r["task"], r["aspect"], r["worst"], r["perfect"], r["definition"]) for r in rows)


@dataclass(frozen=True)
class Stars(Design):
    """Ask for stars, one aspect per request or all aspects at once.

    Parameters
    ----------
    task : {"summarization", "translation", "style-transfer"}
        The task, which determines the aspects (`biaslab.distill.aspects_of`).
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
    answer: ScoreAnswer = "distribution"
    replicates: int = 1
    temperature: float = 0.0
    max_tokens: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.aspects, str) or (self.aspects is not None and not self.aspects):
            raise InputError("aspects", self.aspects, "a list of at least one aspect")
        require_fields(self)
        self._aspects()
        self._asking()

    @property
    def name(self) -> str:  # type: ignore[override]
        """``"stars"``, or ``"stars 0-100"``; with ``", reference"`` if it is shown."""
        return ("stars" if self.scale == "stars" else "stars 0-100") + (", reference" if self.reference else "")

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score per candidate, aspect and replicate."""
        chosen, scale = self._aspects(), _SCALES[self.scale]
        blank = dataset.candidates["reference"].str.strip() == ""
        if self.reference and blank.any():
            row = dataset.candidates.loc[blank].iloc[0]
            place = f"context {row['context_id']!r}, candidate {row['candidate_id']!r} has no"
            raise InputError.plain(f"{place} reference; give each one, or set reference=False")
        for item in items(dataset):
            shown = {
                "source": item.context if self.source else "",
                "reference": item.reference if self.reference else "",
                "candidate": item.text,
            }
            for aspect in chosen:
                words = {name: getattr(aspect, name) for name in ("noun", "worst", "perfect", "definition")}
                prompt = prompts.render("stars", **shown, **words, stars=self.scale == "stars", attribute=aspect.name)
                human = {**item.human, aspect.name: item.human.get(aspect.name, math.nan)}
                asked = replace(item, context=shown["source"], human=human)
                about = about_scores(asked, _named(aspect, dataset), scale)
                yield from Question(asked, aspect.name, prompt, scale, about).trials(self._asking(), {})

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the stars or the score from 0 to 100 (for a distribution, the expected value), and the status."""
        return read_score(trial, reply)

    def _aspects(self) -> tuple[Aspect, ...]:
        if self.aspects is None:
            return tuple(aspect for aspect in aspects_of(self.task) if aspect.name != MULTIPLE)
        return tuple(a if isinstance(a, Aspect) else find_aspect(self.task, a) for a in self.aspects)

    def _asking(self) -> AnswerSettings:
        return AnswerSettings(self.answer, self.replicates, self.temperature, self.max_tokens, self.seed)


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
class Reward(Design):
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


#: Columns of an examples frame.
EXAMPLES = ("context_id", "candidate_id", "attribute", "text", "source", "reference", "label", "human")
_KEYS = ["judge", "attribute", *ITEM]


def examples(trials: pd.DataFrame, dataset: Dataset, scale: Scale | None = None) -> pd.DataFrame:
    """Turn score trials into texts and labels, the mean of the readable replicates of each candidate.

    Parameters
    ----------
    trials : pandas.DataFrame
        One judge's scores under one condition: made by `biaslab.collect` with `Stars` or any scorer or pointwise
        probe, or read from a log (`biaslab.read_judgements`). Rows that are not scores (without a scale, such as
        likelihoods) or belong to other data sets are dropped.
    dataset : Dataset
        The data set with the judged texts.
    scale : Scale, optional
        The scale of the scores, if the trials have no column ``scale``.

    Returns
    -------
    pandas.DataFrame
        One row per candidate and attribute with a usable score:
        ``context_id, candidate_id, attribute, text, source, reference``; ``label``, the score mapped linearly from its
        scale to 0 to 1 (the paper's min-max normalisation); ``human``, the mean human score on the data set's scale,
        NaN if unrated or if the data set lacks the attribute.

    Raises
    ------
    TrialsError
        If a column is missing, there are no scores of this data set, they are of several judges or conditions, or a
        candidate is unknown.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(bl.distill.Stars(aspects=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> labelled = examples(trials, data)
    >>> len(labelled), bool(labelled["label"].between(0, 1).all())
    (12, True)
    """
    require_columns(trials, [*_KEYS, "replicate", "value", "status"], "trials")
    scored = _scored(trials, dataset, scale)
    judges = sorted(set(scored["judge"]))
    if len(judges) > 1:
        raise TrialsError.plain(f"trials has scores of several judges: {', '.join(judges)}; select one first")
    require_one_condition(scored, _KEYS)
    keys = [*ITEM, "attribute"]
    labels = usable(scored).groupby(keys, sort=False)["label"].mean().reset_index()
    texts = dataset.candidates.rename(columns={"context": "source"})
    labelled = labels.merge(texts[[*ITEM, "text", "source", "reference"]], on=list(ITEM), how="left", indicator=True)
    unknown = labelled["_merge"] != "both"
    if unknown.any():
        candidate = " / ".join(map(str, labelled.loc[unknown, keys].iloc[0]))
        raise TrialsError.plain(f"trials has scores of {candidate}, expected: candidates of the data set")
    rated = dataset.human.groupby(keys, sort=False)["score"].mean().rename("human")
    return labelled.join(rated, on=keys)[list(EXAMPLES)]


def annotate(
    judge: Judge,
    dataset: Dataset,
    aspects: Sequence[str | Aspect] | None = None,
    *,
    task: str = "summarization",
    attributes: Sequence[str] | None = None,
    scale: StarScale = "stars",
    reference: bool = False,
    answer: ScoreAnswer = "distribution",
    seed: int = 0,
    store: Store | AnyPath | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Label every candidate from 0 to 1, for training or for comparison with other scores.

    Parameters
    ----------
    judge : Judge
        A judge that reads prompts is asked for `Stars`. One that answers `biaslab.core.Score` requests, such as an
        `EvaluatorJudge`, is asked for its score, clipped to 0 to 1.
    dataset : Dataset
        The data set to label.
    aspects, task, scale, reference, answer, seed
        As in `Stars`.
    attributes : sequence of str, optional
        Name of each aspect in the result, if the data set uses another one: ``["quality"]`` for ``["multiple"]``.
    store, progress
        As in `biaslab.collect`.

    Returns
    -------
    pandas.DataFrame
        As in `biaslab.distill.examples`.

    Raises
    ------
    InputError
        If the numbers of attributes and aspects differ, or as in `Stars`.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> labelled = annotate(bl.SimulatedJudge(data), data, ["coherence", "fluency"], progress=False)
    >>> labelled.groupby("attribute").size().to_dict(), bool(labelled["label"].between(0, 1).all())
    ({'coherence': 12, 'fluency': 12}, True)
    """
    chosen = aspects if aspects is not None else [a.name for a in aspects_of(task) if a.name != MULTIPLE]
    names = [aspect.name if isinstance(aspect, Aspect) else aspect for aspect in chosen]
    called = list(names if attributes is None else attributes)
    if len(called) != len(names) or len(set(called)) < len(called):
        raise InputError("attributes", attributes, f"a distinct name for each of {', '.join(names)}")
    if Score in judge.kinds:
        trials = collect(Reward(names, reference), judge, dataset, store, progress)
        trials, unit = trials.assign(value=trials["value"].clip(0, 1)), whole_numbers(0, 1)
    else:
        stars = Stars(task, chosen, scale, reference=reference, answer=answer, seed=seed)
        trials, unit = collect(cast("Design", stars), judge, dataset, store, progress), None
    by_name = dict(zip(names, called, strict=True))
    return examples(trials.assign(attribute=trials["attribute"].map(by_name)), dataset, unit)


def _scored(trials: pd.DataFrame, dataset: Dataset, scale: Scale | None) -> pd.DataFrame:
    """Return the scores of a data set with their labels from 0 to 1."""
    mine = trials[trials["dataset"] == dataset.name] if "dataset" in trials else trials
    if "opponent_id" in mine:
        mine = mine[mine["opponent_id"].isna()]
    if "asked" in mine:  # a probe may also ask for label probabilities
        mine = mine[mine["asked"].isin(["score"]) | mine["asked"].isna()]
    if scale is None:
        require_columns(trials, ["scale"], "trials")
        mine = mine[mine["scale"].notna()]
        scales = {name: scale_named(str(name)) for name in mine["scale"].unique()}
        labels = [scales[name].unit(value) for name, value in zip(mine["scale"], mine["value"], strict=True)]
    else:
        labels = [scale.unit(value) for value in mine["value"]]
    if mine.empty:
        raise TrialsError.plain(f"trials has no scores of candidates of {dataset.name}")
    return mine.assign(label=labels)
