"""Verbosity bias: does a judge reward length at equal human quality? (Zheng et al. 2023; Saito et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from biaslab.core import Comparison, Metric, Trial
from biaslab.core.checks import require_one_of
from biaslab.core.schema import Dataset, count_words
from biaslab.probes.base import LABEL_MASS, Accepted, Cell, FeatureProbe, Part, ScoreProbe, label_mass, planted
from biaslab.probes.base.feature_probe import kept_columns, with_missing_scores
from biaslab.probes.base.logs import by_configuration, rated

_ADVICE = "compare scores only of texts that are alike in length, or adjust for it"


@dataclass(frozen=True)
class Verbosity(FeatureProbe):
    """Verbosity bias: a reward for length beyond what human raters give.

    Every candidate is scored, and its words, separated by white space, are counted (column ``words``). Length enters as
    log2 words, so that a doubling is one unit wherever it starts. Prompts are those of `Familiarity`: with a store one
    reply serves both. Further parameters, and errors of human scores: `biaslab.probes.base.FeatureProbe`.

    Parameters
    ----------
    level : {"context", "dataset"}
        Of the correlations with length: within contexts, averaged over them, or pooled.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial's ``value`` is the score. There is one estimate for each judge × data set × attribute:

    - ``verbosity_slope`` — standard deviations of the judge's score per doubling of words, at equal human score. Null
      0; above: length pays. Primary. Regression of score on log2 words, human score and an intercept for each context.
    - ``verbosity_excess`` — Spearman's ρ of score and words, the judge's minus the humans', on the same items. −2 to 2,
      null 0; above: the judge prefers longer texts more than humans do. A judge that is merely noisier has a
      correlation nearer to 0: read it with the slope.
    - ``verbosity_correlation`` — the two correlations themselves (column ``scorer``). −1 to 1, null 0.
    - ``label_mass`` — probability that all labels have together. 0–1.

    **Inference.** Slope, and excess within contexts: Student's t over contexts. Everything else: bootstrap or jackknife
    intervals and sign-flip tests over contexts; ``method`` says which.

    References
    ----------
    Zheng et al. 2023, *Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena*, §3.3; Saito et al. 2023, *Verbosity
    Bias in Preference Labeling by Large Language Models*; Dubois et al. 2024, *Length-Controlled AlpacaEval*, who also
    adjust for length by regression.

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

    name = "verbosity"
    feature = "doublings"
    conditions = ("scorer", "level")
    columns = (*ScoreProbe.columns, "words", "label_mass")
    needs = "human scores and the lengths of the judged texts: a data set with both, or a column words"
    metrics = (
        Metric(
            "verbosity_slope",
            "score per doubling of words",
            "SD",
            null=0.0,
            above="scores longer text higher where humans score alike",
            below="scores shorter text higher where humans score alike",
            advice=_ADVICE,
            matters=0.2,
            primary=True,
            calibration=planted({"verbosity": 0.35}, {"reliability": 1.0}, longest=16),
            comparison=Comparison("scores of texts that humans scored too"),
        ),
        Metric(
            "verbosity_excess",
            "ρ of the judge minus ρ of the humans, with length",
            "Spearman's ρ",
            null=0.0,
            above="prefers longer text more than humans do",
            below="prefers shorter text more than humans do",
            advice=_ADVICE,
            matters=0.1,
        ),
        Metric("verbosity_correlation", "score and words", "Spearman's ρ", null=0.0),
        LABEL_MASS,
    )

    level: Literal["context", "dataset"] = "context"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("level", self.level, ("context", "dataset"))

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the score of every candidate on each attribute."""
        for question, ratings in self._rated_questions(dataset):
            words = count_words(question.item.text)
            yield from question.trials(self.asking, {"asked": "score", "words": words, **ratings})

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield slope and excess, and the correlations themselves of the judge and of humans."""
        keep = ("human", "words", *kept_columns(cell.trials))
        items = _with_doublings(cell.items(keep))
        planned = _with_doublings(replace(cell, trials=with_missing_scores(cell.trials)).items(keep))
        slope = partial(self._slope, items, planned=planned)
        yield Part({"verbosity_slope": slope, "label_mass": label_mass(cell.trials)}, items)
        level = {"level": self.level}
        yield Part({"verbosity_excess": lambda: self._excess(items, self.level)}, items, level)
        for scorer in ("judge", "human"):
            correlation = partial(self._correlation, items, scorer, self.level)
            yield Part({"verbosity_correlation": correlation}, items, level | {"scorer": scorer})

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Take scores of texts whose length is known and that humans scored too."""
        scores = rated(trials)
        return self._accepted(by_configuration(scores[scores["words"] > 0]))


def _with_doublings(items: pd.DataFrame) -> pd.DataFrame:
    items["doublings"] = np.log2(items["words"].to_numpy(float))
    return items
