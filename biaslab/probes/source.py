"""Sensitivity to the source document: what a judge makes of it (Stureborg et al. 2024, §3.6, Table 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.checks import require_attributes_list, require_some_of
from biaslab.core import Calibration, Metric, Reply, Status, Trial
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.scales import Scale, find_scale
from biaslab.scoring import pointwise
from biaslab.stats import (
    ITEM,
    Estimate,
    Level,
    Method,
    Ratio,
    Resampling,
    agreement_loss,
    choose_metrics,
    estimate_correlation,
    estimate_rows,
    estimates_frame,
    relative_loss,
    require_columns,
    sample_differences,
    whole_blocks,
)

_SOURCES = ("with", "without")
_CORRELATED = ("agreement_loss", "relative_loss", "agreement")
_DIFFERENCES = ("sample_difference", "resampling_difference")
_METRICS = (*_CORRELATED, "source_shift", *_DIFFERENCES, "mean_score")
_CELL = ("judge", "dataset", "attribute", "scale", "answer")
_LEVELS: tuple[Level, ...] = ("context", "dataset")
_COEFFICIENTS: tuple[Method, ...] = ("spearman", "kendall")


@dataclass(frozen=True)
class Source:
    """Score with and without the source document, and see what agreement with humans and scores lose.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to score; all attributes of the data set by default.
    scale : str
        Name of one of `biaslab.scales.SCALES`.
    levels : sequence of {"context", "dataset"}
        Where agreement is computed: within contexts and then averaged, and/or over all candidates.
    coefficients : sequence of {"spearman", "kendall"}
        Rank correlations with the mean human score.
    answer : {"distribution", "text", "score"}
        Read the exact distribution over the scale's labels, or generate text and read the score in it; or ask an
        evaluator, which reads no prompt, for one number.
    replicates : int
        With ``answer="text"``: samples of each request.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    max_tokens : int
        With ``answer="text"``: length of an answer at most.
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
    A trial's ``value`` is the score on the scale: the expected one of a distribution. Estimates, one a judge × data set
    × attribute × scale × answer, are over the items that have a score with and without the source; others drop out and
    are counted in ``n_dropped``. By ``level`` and ``coefficient``:

    ``agreement_loss`` (primary; −2 to 2, null 0)
        Correlation with humans with the source, minus that without. Above 0: the source helps. Table 5 prints the
        opposite sign.
    ``relative_loss`` (at most 2, no null)
        The same as a share of the agreement with the source. Undefined unless the interval of that lies above 0.
    ``agreement`` (−1 to 1)
        The correlations themselves (column ``source``: "with", "without").

    In points of the scale:

    ``source_shift`` (null 0)
        Score with the source minus without, paired by item. Attributes of the text alone, such as fluency, should not
        move.
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
    primary: ClassVar[tuple[str, ...]] = ("agreement_loss",)
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
    calibrations: ClassVar[tuple[Calibration, ...]] = (
        Calibration(
            "agreement_loss",
            null=0.0,
            fair={"quality": 1.0, "noise": 1.0, "context_noise": 0.5},
            planted={"quality": 1.0, "noise": 1.0, "context_noise": 0.5, "source_reliance": 0.8},
            parameters={"levels": ("context",), "coefficients": ("kendall",)},
        ),
    )

    attributes: Sequence[str] | None = None
    scale: str = "1-10"
    levels: Sequence[Level] = _LEVELS
    coefficients: Sequence[Method] = _COEFFICIENTS
    answer: pointwise.AnyAnswer = "distribution"
    replicates: int = 1
    temperature: float = 1.0
    max_tokens: int = 16
    seed: int = 0
    resampling: Resampling = field(default_factory=Resampling)

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        find_scale(self.scale)
        for name, allowed in (("levels", _LEVELS), ("coefficients", _COEFFICIENTS)):
            require_some_of(name, getattr(self, name), allowed)
        self._asking()

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
        for item in pointwise.items(dataset):
            for source, attribute in product(_SOURCES, attributes):
                context = item.context if source == "with" else ""
                prompt = prompts.rate(dataset, [attribute], scale, item.text, context)
                shown = replace(item, context=context)
                yield from pointwise.score_trials(shown, attribute, prompt, scale, self._asking(), {"source": source})

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score that the reply gives, and its status."""
        return pointwise.read_score(trial, reply)

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the estimates frame; the metrics are explained above.

        Parameters
        ----------
        trials : pandas.DataFrame
            Made by `biaslab.collect`.
        metrics : sequence of str, optional
            Estimate these only; all by default.

        Raises
        ------
        InputError
            If there is no such metric; the message lists all. If one of the two conditions was not judged.
        TrialsError
            If a column is missing.
        """
        chosen = choose_metrics(_METRICS, metrics)
        require_columns(trials, (*_CELL, "source", "human", *ITEM, "replicate", "value", "status"), "trials")
        rows: list[dict[str, Any]] = []
        for names, cell in trials.groupby(list(_CELL), sort=False):
            where = dict(zip(_CELL, names, strict=True))
            blocks = whole_blocks(cell, "source", _SOURCES, f"{self.name} ({where['attribute']})")
            counts = blocks.attrs["n_trials"], blocks.attrs["n_dropped"]
            for column, found in (*self._correlated(blocks, chosen), *self._shifted(blocks, cell, chosen)):
                rows += estimate_rows(found, where | column, self.resampling, *counts)
        return estimates_frame(rows, self.name, self.primary, (*_CELL[2:], "level", "coefficient", "source"))

    def _asking(self) -> pointwise.Asking:
        return pointwise.Asking(self.answer, self.replicates, self.temperature, self.max_tokens, self.seed, True)

    def _correlated(
        self, blocks: pd.DataFrame, chosen: Sequence[str]
    ) -> Iterator[tuple[dict[str, str], dict[str, Estimate]]]:
        """Yield agreements and what is lost of them, by level and coefficient."""
        for level, coefficient in product(self.levels, self.coefficients):
            where: dict[str, str] = {"level": level, "coefficient": coefficient}
            for name, compare in (("agreement_loss", agreement_loss), ("relative_loss", relative_loss)):
                if name in chosen:
                    yield where, {name: compare(blocks, *_SOURCES, "human", self.resampling, level, coefficient)}
            if "agreement" in chosen:
                for source in _SOURCES:
                    found = estimate_correlation(blocks, source, "human", self.resampling, level, coefficient)
                    yield where | {"source": source}, {"agreement": found}

    def _shifted(
        self, blocks: pd.DataFrame, cell: pd.DataFrame, chosen: Sequence[str]
    ) -> Iterator[tuple[dict[str, str], dict[str, Estimate]]]:
        """Yield what is in points."""
        scale = find_scale(str(cell["scale"].iloc[0]))
        shift = {"source_shift": _mean(blocks, blocks["with"] - blocks["without"], scale, shift=True)}
        sampled = cell["answer"].iloc[0] == "text"
        nothing = Ratio([], [], [], missing="undefined: answers are distributions, from which nothing is sampled")
        both = sample_differences(cell, "source", _SOURCES) if sampled else (nothing, nothing)
        shift |= zip(_DIFFERENCES, both, strict=True)
        yield {}, {name: ratio.estimate(self.resampling) for name, ratio in shift.items() if name in chosen}
        if "mean_score" in chosen:
            for source in _SOURCES:
                found = _mean(blocks, blocks[source], scale).estimate(self.resampling)
                yield {"source": source}, {"mean_score": found}


def _mean(blocks: pd.DataFrame, values: pd.Series, scale: Scale, shift: bool = False) -> Ratio:
    """Say what an item adds to a mean score, or to a mean shift of scores."""
    missing = "undefined: no item has a score with and without the source"
    width = scale.high - scale.low
    bounds = (-width, width) if shift else (scale.low, scale.high)
    return Ratio(blocks["context_id"], values, np.ones(len(values)), 0.0 if shift else None, bounds, missing)
