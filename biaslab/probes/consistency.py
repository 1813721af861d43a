"""Consistency: do samples, and ways to ask, agree as human annotators do? (Stureborg et al. 2024, §3.4, App. E)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, get_args

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.checks import require_attributes_list, require_some_of, require_whole
from biaslab.core import About, Calibration, Choice, Messages, Metric, Reply, Scalar, Status, Trial, request_key
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.probes._agreeing import COLUMNS, METRICS, Cell
from biaslab.scales import Scale, find_scale
from biaslab.scoring.pointwise import (
    Answer,
    Asking,
    Item,
    about_scores,
    begun,
    drawn_items,
    read_score,
    score_trials,
    spaced,
)
from biaslab.stats import ITEM, Measurement, Resampling, choose_metrics, estimates_frame, require_columns, tempered

_ONE: dict[str, Any] = {"attributes": ("coherence",), "scales": ("1-5",), "levels": ("interval",)}
_FAIR: dict[str, Scalar] = {"quality": 1.0, "context_noise": 0.3}


@dataclass(frozen=True)
class Consistency:
    """Draw several samples of each score, ask in several ways, and compare with how well human annotators agree.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to score; all attributes of the data set by default.
    scales : sequence of str
        Some of `biaslab.scales.SCALES`; the first is the reference.
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
    seed : int
        Of drawn candidates and samples.
    resampling : Resampling
        Of the estimates.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial is a sample, valued with its score, in one ``configuration``: a scale, or the reference scale with " joint"
    after it. With ``answer="distribution"`` samples are drawn by inverting the distribution at a random number that
    hangs on the seed, the request and the replicate, and an attribute of a joint output stands first in it; with text,
    in the data set's order, after what was said of the others.

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
    primary: ClassVar[tuple[str, ...]] = ("alpha_gap", "configuration_gap")
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "alpha_gap",
            "between samples minus between annotators",
            "Krippendorff's α",
            null=0.0,
            above="agrees with itself more than annotators with one another",
            below="agrees with itself less than annotators with one another",
            advice=("", "average several samples, or read the label distribution"),
            matters=0.1,
        ),
        Metric(
            "configuration_gap",
            "between ways to ask minus between samples",
            "Krippendorff's α",
            null=0.0,
            above="agrees more across ways to ask than within one",
            below="answers otherwise when asked in another way",
            advice=("", "fix one way to ask, and report it"),
            matters=0.1,
        ),
        Metric("sample_alpha", "between samples", "Krippendorff's α", null=0.0),
        Metric("human_alpha", "between annotators", "Krippendorff's α", null=0.0),
        Metric("configuration_alpha", "between ways to ask", "Krippendorff's α", null=0.0),
    )
    calibrations: ClassVar[tuple[Calibration, ...]] = (
        Calibration(
            "alpha_gap",
            null=0.0,
            fair=_FAIR | {"sharpness": 5.12},
            planted=_FAIR | {"sharpness": 4.0},
            parameters=_ONE | {"replicates": 3, "joint": False},
        ),
        Calibration(
            "configuration_gap",
            null=0.0,
            fair=_FAIR | {"sharpness": 4.0},
            planted=_FAIR | {"sharpness": 4.0, "noise": 0.6},
            parameters=_ONE | {"replicates": 4},
        ),
    )

    attributes: Sequence[str] | None = None
    scales: Sequence[str] = ("1-5", "1-10", "1-100")
    joint: bool = True
    levels: Sequence[Measurement] = ("interval", "ordinal")
    n_candidates: int | None = None
    answer: Answer = "distribution"
    replicates: int = 5
    temperature: float = 1.0
    max_tokens: int = 12
    seed: int = 0
    resampling: Resampling = field(default_factory=Resampling)

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        if isinstance(self.scales, str) or not self.scales or len(set(self.scales)) < len(self.scales):
            raise InputError("scales", self.scales, "a list of different names")
        for name in self.scales:
            find_scale(name)
        require_some_of("levels", self.levels, get_args(Measurement))
        require_whole("replicates", self.replicates, 2)
        if self.n_candidates is not None:
            require_whole("n_candidates", self.n_candidates, 1)
        _ = self._asking

    @property
    def _asking(self) -> Asking:
        replicates = self.replicates if self.answer == "text" else 1
        return Asking(self.answer, replicates, self.temperature, self.max_tokens, self.seed)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every sample of every item, attribute and configuration."""
        attributes, everything = dataset.require_attributes(self.attributes), tuple(dataset.attributes)
        ratings = _ratings(dataset)
        for item in drawn_items(dataset, self.n_candidates, self.seed):
            for attribute in attributes:
                rated = ratings.get((item.context_id, item.candidate_id, attribute), "")
                for name in self.scales:
                    scale = find_scale(name)
                    prompt = prompts.rate(dataset, [attribute], scale, item.text, item.context)
                    yield from self._samples(item, attribute, prompt, scale, name, rated)
                if self.joint and len(everything) > 1:
                    yield from self._in_one_output(dataset, item, attribute, everything, rated)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the sampled score on its scale, and the status."""
        if not isinstance(trial.request, Choice):
            return read_score(trial, reply)
        p = tempered(reply.logprobs or (), self.temperature)
        if np.isnan(p).any() or not len(p):
            return math.nan, "refused"
        digest = request_key(trial.request, f"consistency, seed {self.seed}, sample {trial.replicate}")
        drawn = int(np.searchsorted(p.cumsum(), int(digest[:13], 16) / 2**52 * p.sum(), side="right"))
        scores = np.array(find_scale(str(trial.condition["scale"])).values)
        return float(scores[min(drawn, len(p) - 1)]), "ok"

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn trials into the estimates listed in the notes of this class.

        Raises
        ------
        InputError
            If there is no such metric; the message lists those there are.
        TrialsError
            If a column is missing.
        """
        chosen = choose_metrics(METRICS, metrics)
        require_columns(trials, COLUMNS, "trials")
        cells = ["judge", "dataset", "attribute", "answer"]
        rows: list[dict[str, Any]] = []
        for names, cell in trials.groupby(cells, sort=False):
            where = dict(zip(cells, names, strict=True))
            rows += Cell(cell, tuple(self.levels), where, self.resampling).rows(chosen)
        return estimates_frame(rows, self.name, self.primary, ("attribute", "configuration", "level", "answer"))

    def _in_one_output(
        self, dataset: Dataset, item: Item, attribute: str, everything: tuple[str, ...], rated: str
    ) -> Iterator[Trial]:
        name = self.scales[0]
        scale = find_scale(name)
        if self.answer == "text":
            prompt = prompts.rate(dataset, everything, scale, item.text, item.context)
            about = about_scores(item, everything, scale, "lines")
            for trial in self._samples(item, attribute, prompt, scale, f"{name} joint", rated, about):
                yield replace(trial, labels=everything)
            return
        at = everything.index(attribute)
        order = everything[at:] + everything[:at]
        prompt = prompts.rate(dataset, order, scale, item.text, item.context)
        started, about = begun(prompt, attribute), about_scores(item, order, scale, "lines")
        yield from self._samples(item, attribute, started, spaced(scale), f"{name} joint", rated, about)

    def _samples(
        self,
        item: Item,
        attribute: str,
        messages: Messages,
        scale: Scale,
        configuration: str,
        rated: str,
        about: About | None = None,
    ) -> Iterator[Trial]:
        asking = replace(self._asking, max_tokens=self.max_tokens * (len(about.attributes) if about else 1))
        condition: dict[str, Scalar] = {"configuration": configuration, "ratings": rated}
        for trial in score_trials(item, attribute, messages, scale, asking, condition, about):
            if self.answer == "text":
                yield trial
            else:
                yield from (replace(trial, replicate=k) for k in range(self.replicates))


def _ratings(dataset: Dataset) -> dict[tuple[Any, ...], str]:
    """Return the single human scores of each item and attribute, parted by blanks."""
    human = dataset.human
    written = human["score"].map(repr).groupby([human[c] for c in (*ITEM, "attribute")]).agg(" ".join)
    return dict(written)
