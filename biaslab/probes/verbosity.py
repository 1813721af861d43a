"""Verbosity bias: does a judge reward length at equal human quality? (Zheng et al. 2023; Saito et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from biaslab.core import Calibration, Comparison, Metric, Trial
from biaslab.core.checks import require_one_of
from biaslab.core.schema import Dataset, count_words
from biaslab.measures.scoring.pointwise import ratings_by_item
from biaslab.probes._familiar import EqualQuality, single_columns
from biaslab.probes.base import LABEL_MASS, Accepted, Cell, Part, ScoreProbe, by_configuration, label_mass, rated


@dataclass(frozen=True)
class Verbosity(EqualQuality):
    """Score every candidate, and see whether longer ones score higher than humans would score them.

    Its further parameters are those of `biaslab.probes.base.ScoreProbe`.

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
    A trial's ``value`` is the score; column ``words`` counts the words of the candidate, separated by white space.
    Length enters as log2 words: a doubling is one unit, wherever it starts. Prompts are those of `Familiarity`, so that
    a store answers both probes with one reply.

    Estimates, one a judge × data set × attribute:

    ``verbosity_slope`` (primary; null 0)
        Standard deviations of the judge's score per doubling of words at equal human score: score ~ log2 words + human
        score + an intercept a context. Above 0: length pays. What annotators err in is
        taken out: see below.
    ``verbosity_excess`` (−2 to 2, null 0)
        Spearman's ρ of score and words, the judge's minus the humans', on the same items. Humans too may prefer longer
        texts, as they say more. A judge that is merely noisier has a correlation nearer 0: read it with the slope.
    ``verbosity_correlation`` (−1 to 1, null 0)
        The correlations themselves, of the judge and of humans (column ``scorer``), at ``level``.
    ``label_mass`` (0–1)
        Probability that the labels have together.

    Human scores with errors hold quality equal only in part, so that a judge passes for biased that sees quality better
    than they do, where better texts are longer. Where trials carry the single ratings of several annotators (columns
    ``ratings`` and ``annotators``), slope and excess are corrected for it by cross-products of different annotators:
    errors in variables (Fuller 1987), and attenuation. With one rating an item nothing is known of its error: ``note``
    says which reliability a finding needs, and `sensitivity` gives the estimates at assumed ones. Errors that
    annotators share stay; ``note`` says how large they would have to be to explain a finding.

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
    feature: ClassVar[str] = "doublings"
    conditions: ClassVar[tuple[str, ...]] = ("scorer", "level")
    columns: ClassVar[tuple[str, ...]] = (*ScoreProbe.columns, "words", "label_mass")
    needs: ClassVar[str] = "human scores and the lengths of the judged texts: a data set with both, or a column words"
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
            primary=True,
            calibration=Calibration(
                fair={"quality": 1.0, "noise": 1.0, "context_noise": 0.5},
                planted={"quality": 1.0, "noise": 1.0, "context_noise": 0.5, "verbosity": 0.35},
                parameters={"reliability": 1.0},
                longest=16,
            ),
            comparison=Comparison("scores of texts that humans scored too"),
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
        LABEL_MASS,
    )

    level: Literal["context", "dataset"] = "context"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("level", self.level, ("context", "dataset"))

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the score of every candidate on each attribute."""
        given = ratings_by_item(dataset)
        for question in self.questions(dataset):
            item = question.item
            single = given.get((item.context_id, item.candidate_id, question.attribute), {})
            yield from question.trials(self.asking, {"asked": "score", "words": count_words(item.text), **single})

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield slope and excess, and the correlations themselves of the judge and of humans."""
        items = cell.items(keep=("human", "words", *single_columns(cell.trials)))
        items["doublings"] = np.log2(items["words"].to_numpy(float))
        yield Part({"verbosity_slope": lambda: self._slope(items), "label_mass": label_mass(cell.trials)}, items)
        level = {"level": self.level}
        yield Part({"verbosity_excess": lambda: self._excess(items, self.level)}, items, level)
        for scorer in ("judge", "human"):
            found = partial(self._correlation, items, scorer, self.level)
            yield Part({"verbosity_correlation": found}, items, level | {"scorer": scorer})

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Take scores of texts whose length is known and that humans scored too."""
        scores = rated(trials)
        scores = scores[scores["words"] > 0]
        return Accepted(scores, f"needs {self.needs}") if scores.empty else Accepted(by_configuration(scores))
