"""Verbosity bias: does a judge reward length at equal human quality? (Zheng et al. 2023; Saito et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.checks import require_attributes_list, require_one_of
from biaslab.core import Calibration, Metric, Reply, Status, Trial
from biaslab.datasets.schema import Dataset, count_words
from biaslab.probes._familiar import excess, slope
from biaslab.scales import find_scale
from biaslab.scoring.pointwise import AnyAnswer, Asking, items, read_score, score_trials
from biaslab.stats import (
    CELL,
    ITEM,
    Estimate,
    Level,
    Ratio,
    Resampling,
    choose_metrics,
    estimate_correlation,
    estimate_rows,
    estimates_frame,
    require_columns,
    whole_blocks,
)

_METRICS = ("verbosity_slope", "verbosity_excess", "verbosity_correlation", "label_mass")


@dataclass(frozen=True)
class Verbosity:
    """Score every candidate, and see whether longer ones score higher than humans would score them.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to score; all attributes of the data set by default.
    scale : str
        One of `biaslab.scales.SCALES`.
    answer : {"distribution", "text", "score"}
        Take the exact mean over the scale's labels, or generate text and read the score in it; or ask an evaluator,
        which reads no prompt, for one number.
    replicates : int
        With ``answer="text"``: samples of each request; their scores are averaged.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    level : {"context", "dataset"}
        Of the correlations with length: within contexts, averaged over them, or pooled.
    seed : int
        Of the sampled texts.
    resampling : Resampling
        Of the estimates.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial's ``value`` is the score; column ``words`` counts the words of the candidate, which are what blanks part.
    Length enters as log2 words: a doubling is one unit, wherever it starts. Prompts are those of `Familiarity`, so that
    a store answers both probes with one reply.

    Estimates, one a judge × data set × attribute:

    ``verbosity_slope`` (primary; null 0)
        Standard deviations of the judge's score per doubling of words at equal human score: score ~ log2 words + human
        score + an intercept a context. Above 0: length pays. Human scores with errors hold quality equal only in part,
        so that a judge may pass for biased that sees quality better than they do, where better texts are longer.
    ``verbosity_excess`` (−2 to 2, null 0)
        Spearman's ρ of score and words, the judge's minus the humans', on the same items. Humans too may prefer longer
        texts, as they say more. A judge that is merely noisier has a correlation nearer 0: read it with the slope.
    ``verbosity_correlation`` (−1 to 1, null 0)
        The correlations themselves, of the judge and of humans (column ``scorer``), at ``level``.
    ``label_mass`` (0–1)
        Probability that the labels have together.

    Slope, and excess within contexts, have t intervals and t tests over contexts, everything else bootstrap or
    jackknife intervals and sign-flip tests over contexts; ``method`` says which.

    References
    ----------
    Zheng et al. 2023, *Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena*, §3.3; Saito et al. 2023, *Verbosity
    Bias in Preference Labeling by Large Language Models*; Dubois et al. 2024, *Length-Controlled AlpacaEval*, who take
    the length out by a regression too.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Verbosity(attributes=["coherence"])
    >>> judge = bl.SimulatedJudge(data, quality=0.5, verbosity=1.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["verbosity_slope"])
    >>> bool(estimates.loc[0, "ci_low"] > 0)
    True
    """

    name: ClassVar[str] = "verbosity"
    primary: ClassVar[tuple[str, ...]] = ("verbosity_slope",)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "verbosity_slope",
            "score per doubling of words",
            "SD",
            null=0.0,
            above="scores longer text higher where humans score alike",
            below="scores shorter text higher where humans score alike",
            advice="compare scores only of texts that are alike in length, or adjust for it",
            matters=0.2,
        ),
        Metric(
            "verbosity_excess",
            "ρ of the judge minus ρ of the humans, with length",
            "Spearman's ρ",
            null=0.0,
            above="prefers longer text more than humans do",
            below="prefers shorter text more than humans do",
            advice="compare scores only of texts that are alike in length, or adjust for it",
            matters=0.1,
        ),
        Metric("verbosity_correlation", "score and words", "Spearman's ρ", null=0.0),
        Metric("label_mass", "probability of all labels together"),
    )
    calibrations: ClassVar[tuple[Calibration, ...]] = (
        Calibration(
            "verbosity_slope",
            null=0.0,
            fair={"quality": 1.0, "noise": 1.0, "context_noise": 0.5},
            planted={"quality": 1.0, "noise": 1.0, "context_noise": 0.5, "verbosity": 0.35},
        ),
    )

    attributes: Sequence[str] | None = None
    scale: str = "1-5"
    answer: AnyAnswer = "distribution"
    replicates: int = 1
    temperature: float = 1.0
    level: Level = "context"
    seed: int = 0
    resampling: Resampling = field(default_factory=Resampling)

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        find_scale(self.scale)
        _ = self._asking
        require_one_of("level", self.level, ("context", "dataset"))

    @property
    def _asking(self) -> Asking:
        return Asking(self.answer, self.replicates, self.temperature, seed=self.seed, evaluators=True)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the score of every candidate on each attribute."""
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        for item in items(dataset):
            words = {"words": count_words(item.text)}
            for attribute in attributes:
                prompt = prompts.rate(dataset, [attribute], scale, item.text, item.context)
                yield from score_trials(item, attribute, prompt, scale, self._asking, {"asked": "score", **words})

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score that the reply gives, and its status."""
        return read_score(trial, reply)

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn trials into the estimates listed in the notes of this class.

        Parameters
        ----------
        trials : pandas.DataFrame
            Made by `biaslab.collect`.
        metrics : sequence of str, optional
            Estimate these only; all by default.

        Raises
        ------
        InputError
            If there is no such metric; the message lists those there are.
        TrialsError
            If a column is missing.
        """
        chosen = choose_metrics(_METRICS, metrics)
        require_columns(trials, (*CELL, *ITEM, "asked", "words", "human", "value", "status", "label_mass"), "trials")
        rows: list[dict[str, Any]] = []
        for names, cell in trials.groupby(list(CELL), sort=False):
            where = dict(zip(CELL, names, strict=True))
            what = f"{self.name} ({where['attribute']})"
            blocks = whole_blocks(cell, "asked", ["score"], what, keep=("human", "words"))
            blocks["doublings"] = np.log2(blocks["words"].to_numpy(float))
            counts = blocks.attrs["n_trials"], blocks.attrs["n_dropped"]
            for metric in chosen:
                for condition, found in self._found(metric, cell, blocks):
                    rows += estimate_rows({metric: found}, {**where, **condition}, self.resampling, *counts)
        return estimates_frame(rows, self.name, self.primary, ("attribute", "scorer", "level"))

    def _found(
        self, metric: str, cell: pd.DataFrame, blocks: pd.DataFrame
    ) -> Iterator[tuple[dict[str, object], Estimate]]:
        """Yield the estimates of one metric with their conditions."""
        resampling, level = self.resampling, self.level
        if metric == "verbosity_slope":
            yield {}, slope(blocks, True, resampling.level, "doublings")
        elif metric == "verbosity_excess":
            yield {"level": level}, excess(blocks, level, resampling, "doublings")
        elif metric == "verbosity_correlation":
            for scorer, column in (("judge", "score"), ("human", "human")):
                found = estimate_correlation(blocks, column, "doublings", resampling, level, null=0.0)
                yield {"scorer": scorer, "level": level}, found
        else:
            mass = cell.set_index("context_id")["label_mass"]
            missing = "undefined: answers are text"
            yield {}, Ratio(mass.index, mass.fillna(0), mass.notna(), missing=missing).estimate(resampling)
