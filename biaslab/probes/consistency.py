"""Consistency: do samples, and ways to ask, agree as human annotators do? (Stureborg et al. 2024, §3.4, App. E)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, get_args

import numpy as np
import pandas as pd

from biaslab.core import Calibration, Choice, Comparison, Metric, Reply, Scalar, Status, Trial
from biaslab.core.checks import require_some_of, require_whole
from biaslab.core.scales import SCALES, find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Answer, Asking, Item, Question, drawn_items, read_score, single_ratings
from biaslab.probes._agreeing import between, unit_scores, within
from biaslab.probes._answers import sample_count
from biaslab.probes.base import LABEL_MASS, Accepted, Cell, Part, Probe, draw_score, random_number, scored
from biaslab.stats import CELL, ITEM, Measurement, undefined

_ONE: dict[str, Any] = {"attributes": ("coherence",), "scales": ("1-5",), "levels": ("interval",)}
_FAIR: dict[str, Scalar] = {"quality": 1.0, "context_noise": 0.3}
_SAMPLES = Comparison("samples of one request", ("level", "answer"))
_READ = ("configuration", "scale", "ratings", "replicate", "value", "status", "label_mass")
_HOTTER = 'undefined: samples at temperature 1 were counted, which say nothing of another one: choose answer="text"'
_MANY_CONTEXTS = 3000  # above, ordinal alpha, whose time grows with the square of the contexts, takes too long


@dataclass(frozen=True)
class Consistency(Probe):
    """Draw several samples of each score, ask in several ways, and compare with how well human annotators agree.

    Its further parameters are those of `biaslab.probes.base.Probe`.

    Parameters
    ----------
    scales : sequence of str
        Some of `biaslab.core.scales.SCALES`; the first is the reference.
    joint : bool
        Ask also for all attributes of the data set in one output, on the reference scale, if there are at least two.
    levels : sequence of {"interval", "ordinal", "nominal"}
        Levels of measurement of alpha.
    n_candidates : int, optional
        Candidates a context, drawn at random; all by default.
    answer : {"distribution", "text"}
        Draw samples exactly from the label distribution, one question for all samples, or generate texts.
    replicates : int
        Samples of each request, at least 2.
    temperature : float
        Of the samples; a distribution is tempered to it, p_T ∝ p^(1/T). At 0 all samples are equal, unless labels tie.
    max_tokens : int
        With ``answer="text"``: length of an answer at most, for each score in it.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial is a sample, valued with its score, in one ``configuration``: a scale, or the reference scale with " joint"
    after it. With ``answer="distribution"`` samples are drawn by inverting the distribution at a random number that
    depends on the seed, the request and the replicate, and an attribute of a joint output stands first in it; with
    text, in the data set's order, after what was said of the others. A judge that counts k samples (`biaslab.Sampled`)
    gives these, in random order and none twice; other temperatures than theirs it does not give.

    Estimates are Krippendorff's alpha at a ``level`` (1: perfect agreement, 0: chance). Scores of different scales are
    put on the unit scale. ``configuration`` is one configuration or "A vs B":

    ``sample_alpha`` (-1 to 1)
        Between samples of one request.
    ``human_alpha`` (-1 to 1; reference)
        Between the human annotators of the same items. Undefined where a data set has one annotator.
    ``alpha_gap`` (primary; -2 to 2, null 0; reference)
        ``sample_alpha`` minus ``human_alpha``. Below 0: the judge agrees less with itself than annotators with one
        another (Table 4).
    ``configuration_alpha`` (-1 to 1; reference against another)
        Between one sample of either configuration (App. E).
    ``configuration_gap`` (primary; -2 to 2, null 0; reference against another)
        That minus its noise floor, alpha between two samples of one configuration, with the chance disagreement of
        both together: what changing the question costs beyond resampling. Below 0: it matters how one asks. Two
        scales round differently, which alone moves it, so it is tested only where both are the same scale.
    ``label_mass`` (0 to 1)
        Probability that all labels have together.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> probe = Consistency(attributes=["coherence"], scales=["1-5"], levels=["interval"])
    >>> estimates = probe.estimate(bl.collect(probe, bl.SimulatedJudge(data), data, progress=False))
    >>> alphas = estimates[estimates["metric"] == "sample_alpha"]
    >>> alphas[["configuration", "estimate"]].round(1).to_numpy().tolist()
    [['1-5', 0.9], ['1-5 joint', 0.8]]
    """

    name: ClassVar[str] = "consistency"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "answer")
    conditions: ClassVar[tuple[str, ...]] = ("configuration", "level")
    columns: ClassVar[tuple[str, ...]] = (*ITEM, *_READ)
    needs: ClassVar[str] = "scores on a scale"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("sample_alpha", "between samples", "Krippendorff's α", null=0.0, comparison=_SAMPLES),
        Metric("human_alpha", "between annotators", "Krippendorff's α", null=0.0),
        Metric(
            "alpha_gap",
            "between samples minus between annotators",
            "Krippendorff's α",
            null=0.0,
            above="agrees with itself more than annotators with one another",
            below="agrees with itself less than annotators with one another",
            advice=("", "average several samples, or read the label distribution"),
            matters=0.1,
            primary=True,
            calibration=Calibration(
                fair=_FAIR | {"sharpness": 5.12},
                planted=_FAIR | {"sharpness": 4.0},
                parameters=_ONE | {"replicates": 3, "joint": False},
                attributes=2,
            ),
        ),
        Metric("configuration_alpha", "between ways to ask", "Krippendorff's α", null=0.0),
        Metric(
            "configuration_gap",
            "between ways to ask minus between samples",
            "Krippendorff's α",
            null=0.0,
            above="agrees more across ways to ask than within one",
            below="answers otherwise when asked in another way",
            advice=("", "fix one way to ask, and report it"),
            matters=0.1,
            primary=True,
            calibration=Calibration(
                fair=_FAIR | {"sharpness": 4.0},
                planted=_FAIR | {"sharpness": 4.0, "noise": 0.6},
                parameters=_ONE | {"replicates": 4},
                attributes=2,
            ),
        ),
        LABEL_MASS,
    )

    scales: Sequence[str] = ("1-5", "1-10", "1-100")
    joint: bool = True
    levels: Sequence[Measurement] = ("interval", "ordinal")
    n_candidates: int | None = None
    answer: Answer = "distribution"
    replicates: int = 5
    temperature: float = 1.0
    max_tokens: int = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        require_some_of("scales", self.scales, tuple(SCALES))
        require_some_of("levels", self.levels, get_args(Measurement))
        require_whole("replicates", self.replicates, 2)
        require_whole("n_candidates", self.n_candidates, 1, optional=True)
        _ = self._asking

    @property
    def _asking(self) -> Asking:
        replicates = self.replicates if self.answer == "text" else 1
        return Asking(self.answer, replicates, self.temperature, self.max_tokens, self.seed)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every sample of every item, attribute and configuration."""
        attributes, ratings = dataset.require_attributes(self.attributes), single_ratings(dataset, repr)
        for item, attribute in product(drawn_items(dataset, self.n_candidates, self.seed), attributes):
            condition = {"ratings": ratings.get((item.context_id, item.candidate_id, attribute), "")}
            for name in self.scales:
                question = Question.rate(dataset, item, [attribute], find_scale(name))
                yield from self._samples(question, {"configuration": name, **condition})
            if self.joint and len(dataset.attributes) > 1:
                where = {"configuration": f"{self.scales[0]} joint", **condition}
                yield from self._samples(self._in_one_output(dataset, item, attribute), where)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the sampled score on its scale, and the status."""
        if not isinstance(trial.request, Choice):
            return read_score(trial, reply)
        if reply.samples is not None:
            return self._counted(trial, reply)
        use = f"consistency, seed {self.seed}, sample {trial.replicate}"
        return draw_score(trial, reply, self.temperature, use)

    def _counted(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return one of the samples that a judge counted, drawn without replacement; none where all are drawn."""
        scores, k = np.array(find_scale(str(trial.condition["scale"])).values), int(reply.samples or 0)
        counts = np.rint(np.exp(reply.logprobs or ()) * k).astype(int)
        order = np.random.default_rng(random_number(trial.request, f"consistency, seed {self.seed}")).permutation(k)
        given = np.repeat(scores, counts)
        if self.temperature != 1 or trial.replicate >= k or order[trial.replicate] >= len(given):
            return math.nan, "refused"
        return float(given[order[trial.replicate]]), "ok"

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each configuration, then those of the reference against each other one."""
        k = sample_count(cell.trials)
        if k:
            cell = replace(cell, trials=cell.trials[cell.trials["replicate"] < k])
        why = _HOTTER if k and self.temperature != 1 else ""
        for part in self._parts(cell):
            yield replace(part, metrics=dict.fromkeys(part.metrics, undefined(why))) if why else part

    def _parts(self, cell: Cell) -> Iterator[Part]:
        names, scores = cell.trials["configuration"].unique(), unit_scores(cell.trials)
        for name in names:
            is_reference = name == names[0]
            if cell.wants("sample_alpha", "label_mass") or (is_reference and cell.wants("human_alpha", "alpha_gap")):
                yield from within(cell, scores, name, self.levels, is_reference)
        for name in names[1:] if cell.wants("configuration_alpha", "configuration_gap") else ():
            yield from between(cell, scores, names[0], name, self.levels)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Take scores with repetitions, several configurations or several annotators."""
        scores = scored(trials)
        if scores.empty:
            return Accepted(scores, f"needs {self.needs}")
        ways = scores.groupby(list(CELL))[["replicate", "configuration"]].nunique()
        if not (ways > 1).any(axis=None) and not scores["ratings"].str.contains(" ", regex=False).any():
            why = "needs repetitions of a judgement, several configurations, or scores of several annotators"
            return Accepted(scores.iloc[:0], why)
        contexts = scores["context_id"].nunique()
        if contexts <= _MANY_CONTEXTS:
            return Accepted(scores, probe=replace(self, levels=get_args(Measurement)))
        why = f"without ordinal alpha, whose time grows with the square of the contexts, here {contexts}"
        return Accepted(scores, why, replace(self, levels=("interval", "nominal")))

    def _in_one_output(self, dataset: Dataset, item: Item, attribute: str) -> Question:
        """Return the question for all attributes at once; of a distribution the attribute comes first."""
        scale, everything = find_scale(self.scales[0]), tuple(dataset.attributes)
        if self.answer == "text":
            return replace(Question.rate(dataset, item, everything, scale), attribute=attribute)
        at = everything.index(attribute)
        return Question.rate(dataset, item, everything[at:] + everything[:at], scale).begun(attribute)

    def _samples(self, question: Question, where: Mapping[str, Scalar]) -> Iterator[Trial]:
        long = replace(self._asking, max_tokens=self.max_tokens * len(question.about.attributes))
        for trial in question.trials(long, where):
            if self.answer == "text":
                yield trial
            else:
                yield from (replace(trial, replicate=k) for k in range(self.replicates))
