"""Sensitivity to the source document: what a judge makes of it (Stureborg et al. 2024, §3.6, Table 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np
import pandas as pd

from biaslab.core import Calibration, Metric, Nearest, Request, Trial, reading_text
from biaslab.core.checks import require_some_of
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Question, items
from biaslab.probes._losses import Losses
from biaslab.probes.base import Cell, Estimable, Part, ScoreProbe
from biaslab.stats import (
    Level,
    Method,
    Ratio,
    Resampling,
    estimate_correlation,
    sample_differences,
)

_SOURCES: tuple[str, str] = ("with", "without")
_LEVELS: tuple[Level, ...] = ("context", "dataset")
_COEFFICIENTS: tuple[Method, ...] = ("spearman", "kendall")


@dataclass(frozen=True)
class Source(ScoreProbe):
    """Score with and without the source document, and see what agreement with humans and scores lose.

    Its further parameters are those of `biaslab.probes.base.ScoreProbe`.

    Parameters
    ----------
    scale : str
        Name of one of `biaslab.core.scales.SCALES`.
    levels : sequence of {"context", "dataset"}
        Where agreement is computed: within contexts and then averaged, and/or over all candidates.
    coefficients : sequence of {"spearman", "kendall"}
        Rank correlations with the mean human score.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial's ``value`` is the score on the scale: the expected one of a distribution. Estimates, one a judge × data set
    × attribute × scale × answer, are over the items that have a score with and without the source; others drop out and
    are counted in ``n_dropped``. By ``level`` and ``coefficient``:

    ``agreement_loss`` (primary; −2 to 2, null 0)
        Correlation with humans with the source, minus that without. Above 0: the source helps. Table 5 prints the
        opposite sign.
    ``relative_loss`` (at most 2, no null)
        The same as a share of the agreement with the source. Undefined unless the interval of that lies above 0.

    Of texts sampled at a temperature above 0 both are of the judge's expected scores, the means of infinitely many
    samples: noise lowers agreement, and without the source a judge may merely be less sure. Two samples a request or
    more say how much (`biaslab.stats.expected_agreement_loss`; the note has the reliabilities); with one, and where a
    judge counts samples instead of reading the distribution (`biaslab.Sampled`), both are undefined.

    ``agreement`` (−1 to 1)
        The correlations themselves, of the scores as they are (column ``source``: "with", "without").

    In points of the scale:

    ``source_shift`` (null 0)
        Score with the source minus without, paired by item. Attributes of the text alone, such as fluency, should not
        move. Where scores are missing, ``bound_low`` and ``bound_high`` hold whatever they would have been.
    ``sample_difference`` (at least 0)
        With text: mean absolute difference between a sample with and one without the source, of the same item.
    ``resampling_difference`` (at least 0)
        Its noise floor: the same between two samples of one request. Undefined with one replicate.
    ``mean_score``
        Mean score with and without (column ``source``).

    The loss of agreement is primary and not the shift of the mean: a judge that needs the source to tell good from bad
    scores the good lower and the bad higher without it, and the mean stays where it is. Its four values of an
    attribute, two levels by two coefficients, are nearly copies of each other, which leaves q-values as they are.

    ``agreement_loss`` at the level of contexts has a t test and a t interval (`biaslab.stats.agreement_loss`);
    everything else has bootstrap or jackknife intervals and sign-flip tests over contexts. ``method`` says which.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Source(attributes=["relevance"], levels=["dataset"], coefficients=["kendall"])
    >>> judge = bl.SimulatedJudge(data, source_reliance=1.0, noise=1.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False)).set_index("metric")
    >>> bool(estimates.loc["agreement_loss", "p_value"] < 0.05)
    True
    """

    name: ClassVar[str] = "source"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "scale", "answer")
    conditions: ClassVar[tuple[str, ...]] = ("level", "coefficient", "source")
    columns: ClassVar[tuple[str, ...]] = (*ScoreProbe.columns, "source", "replicate")
    needs: ClassVar[str] = "scores with and without the source in the prompt"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "agreement_loss",
            "agreement lost without the source",
            "correlation",
            null=0.0,
            above="agrees better with the reference scores when it sees the source",
            below="agrees less with the reference scores when it sees the source",
            advice=("show the source", "leave the source out"),
            matters=0.1,
            primary=True,
            calibration=Calibration(
                fair={"quality": 1.0, "noise": 1.0, "context_noise": 0.5},
                planted={"quality": 1.0, "noise": 1.0, "context_noise": 0.5, "source_reliance": 0.8},
                parameters={"levels": ("context",), "coefficients": ("kendall",)},
            ),
        ),
        Metric("relative_loss", "agreement lost, of that with the source", "share", null=0.0),
        Metric(
            "agreement",
            "agreement with the reference scores",
            "correlation",
            null=0.0,
            above="agrees with the reference scores",
            below="disagrees with the reference scores",
            quality=True,
        ),
        Metric("source_shift", "score with source minus without", "points", null=0.0),
        Metric("sample_difference", "samples with and without the source", "mean absolute difference, points"),
        Metric("resampling_difference", "samples of one request", "mean absolute difference, points"),
        Metric("mean_score", "mean score", "points"),
    )

    scale: str = field(default="1-10", kw_only=True)
    levels: Sequence[Level] = _LEVELS
    coefficients: Sequence[Method] = _COEFFICIENTS

    def __post_init__(self) -> None:
        super().__post_init__()
        require_some_of("levels", self.levels, _LEVELS)
        require_some_of("coefficients", self.coefficients, _COEFFICIENTS)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every item with and without its source.

        Raises
        ------
        InputError
            If a context has no text, so that there is no source to leave out.
        """
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        blank = dataset.candidates.loc[dataset.candidates["context"].str.strip() == "", "context_id"]
        if len(blank):
            raise InputError("dataset", dataset.name, "one with a source text for each context", f"see {blank.iloc[0]}")
        for item in items(dataset):
            for source, attribute in product(_SOURCES, attributes):
                shown = item if source == "with" else replace(item, context="")
                yield from Question.rate(dataset, shown, [attribute], scale).trials(self.asking, {"source": source})

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: two texts instead of label probabilities, since one does not show its noise."""
        return reading_text(self, refused, replicates=2) or super().nearest(refused)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield agreements and what is lost of them by level and coefficient, and what is in points."""
        blocks = cell.blocks("source", _SOURCES)
        found = Losses.of(
            cell, blocks, "source", _SOURCES if self.temperature else (), "replicates=2 or more (5 is better)"
        )
        for level, coefficient in product(self.levels, self.coefficients):
            where = {"level": level, "coefficient": coefficient}
            options: tuple[str, Resampling, Level, Method] = ("human", self.resampling, level, coefficient)
            losses = {
                "agreement_loss": found.loss(cell, _SOURCES, level, coefficient),
                "relative_loss": found.loss(cell, _SOURCES, level, coefficient, relative=True),
            }
            yield Part(losses, blocks, where)
            for source in _SOURCES:
                agreement = {"agreement": partial(estimate_correlation, blocks, source, *options)}
                yield Part(agreement, blocks, where | {"source": source})
        yield Part(_shifts(blocks, cell), blocks, note=cell.note_missing(blocks, "source", _SOURCES))
        for source in _SOURCES:
            yield Part({"mean_score": _mean(blocks, blocks[source], _scale(cell))}, blocks, {"source": source})


def _shifts(blocks: pd.DataFrame, cell: Cell) -> Mapping[str, Estimable]:
    """Return the shift of the score, and how far samples lie apart."""
    nothing = Ratio([], [], [], missing="undefined: answers are distributions, from which nothing is sampled")
    both = (nothing, nothing)
    if cell.where["answer"] == "text" and cell.wants("sample_difference", "resampling_difference"):
        both = sample_differences(cell.trials, "source", _SOURCES)
    scale = _scale(cell)

    def mean_shift(blocks: pd.DataFrame) -> Ratio:
        return _mean(blocks, blocks["with"] - blocks["without"], scale, shift=True)

    shift = cell.bounded(mean_shift, blocks, "source", _SOURCES, (scale.low, scale.high))
    return {"source_shift": shift, "sample_difference": both[0], "resampling_difference": both[1]}


def _scale(cell: Cell) -> Scale:
    return find_scale(str(cell.where["scale"]))


def _mean(blocks: pd.DataFrame, values: pd.Series, scale: Scale, shift: bool = False) -> Ratio:
    """Say what an item adds to a mean score, or to a mean shift of scores."""
    missing = "undefined: no item has a score with and without the source"
    width = scale.high - scale.low
    bounds = (-width, width) if shift else (scale.low, scale.high)
    return Ratio(blocks["context_id"], values, np.ones(len(values)), 0.0 if shift else None, bounds, missing)
