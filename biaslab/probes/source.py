"""Sensitivity to the source document: what a judge makes of it (Stureborg et al. 2024, §3.6, Table 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

import pandas as pd

from biaslab.core import Metric, Nearest, Request, Trial, reading_text
from biaslab.core.checks import require_some_of
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import items
from biaslab.probes.base import Cell, Estimable, Part, ScoreProbe, mean_of, planted
from biaslab.probes.base.losses import Losses
from biaslab.probes.base.own_protocol import protocol_column, require_source_slot
from biaslab.prompts.protocols import Protocol
from biaslab.stats import Level, Method, Ratio, estimate_correlation, sample_differences

_SOURCES: tuple[str, str] = ("with", "without")
_LEVELS: tuple[Level, ...] = ("context", "dataset")
_COEFFICIENTS: tuple[Method, ...] = ("spearman", "kendall")
_MISSING = "undefined: no item has a score with and without the source"


@dataclass(frozen=True)
class Source(ScoreProbe):
    """Sensitivity to the source document: the agreement with humans that is lost without it.

    Every candidate is scored with and without its source. Further parameters: `biaslab.probes.base.ScoreProbe`.

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
    A trial's ``value`` is the score on the scale: the expected one of a distribution. There is one estimate for each
    judge × data set × attribute × scale × answer, over the items that have a score with and without the source; others
    drop out and are counted in ``n_dropped``. By ``level`` and ``coefficient``:

    - ``agreement_loss`` — correlation with humans with the source, minus that without. −2 to 2, null 0; above: the
      source helps. Primary. Table 5 of Stureborg et al. (2024) prints the opposite sign.
    - ``relative_loss`` — the same as a share of the agreement with the source. At most 2, no null; undefined unless the
      interval of that agreement lies above 0.
    - ``agreement`` — the two correlations themselves (column ``source``: "with", "without"). −1 to 1.

    In points of the scale:

    - ``source_shift`` — score with the source minus without, paired by item. Null 0. Attributes of the text alone, such
      as fluency, should not move. Where scores are missing, ``bound_low`` and ``bound_high`` hold whatever they would
      have been.
    - ``sample_difference`` — mean absolute difference between a sample with and one without the source, of the same
      item. At least 0; with text only.
    - ``resampling_difference`` — its noise floor: the same between two samples of one request. At least 0; undefined
      with one replicate.
    - ``mean_score`` — mean score with and without (column ``source``).

    **Sampling noise.** Noise lowers agreement, and without the source a judge may merely be less sure. Of texts sampled
    at a temperature above 0, both losses are therefore those of expected scores, the means of infinitely many samples
    (`biaslab.stats.expected_agreement_loss`; the note has the reliabilities). That takes two samples a request or more;
    with one, and where a judge counts samples instead of reading the distribution (`biaslab.Sampled`), both are
    undefined.

    **Why the loss is primary, and not the shift.** A judge that needs the source to tell good from bad scores the good
    lower and the bad higher without it, and the mean stays where it is. The four losses of an attribute, two levels by
    two coefficients, are nearly copies of each other, which leaves q-values as they are.

    **Inference.** ``agreement_loss`` within contexts: t test and t interval (`biaslab.stats.agreement_loss`);
    everything else: bootstrap or jackknife intervals and sign-flip tests over contexts; ``method`` says which.

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

    name = "source"
    cell = ("judge", "dataset", "attribute", "scale", "answer")
    conditions = ("level", "coefficient", "source")
    columns = (*ScoreProbe.columns, "source", "replicate")
    needs = "scores with and without the source in the prompt"
    metrics = (
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
            calibration=planted({"source_reliance": 0.8}, {"levels": ("context",), "coefficients": ("kendall",)}),
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
        attributes = dataset.require_attributes(self.attributes)
        if isinstance(self.protocol, Protocol):
            require_source_slot(self.protocol)
        blank = dataset.candidates.loc[dataset.candidates["context"].str.strip() == "", "context_id"]
        if len(blank):
            raise InputError("dataset", dataset.name, "one with a source text for each context", f"see {blank.iloc[0]}")
        for item in items(dataset):
            for source, attribute in product(_SOURCES, attributes):
                shown = item if source == "with" else replace(item, context="")
                question = self.question(dataset, shown, attribute)
                yield from question.trials(self.asking, {"source": source, **protocol_column(self.protocol)})

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: two texts instead of label probabilities, since one does not show its noise."""
        return reading_text(self, refused, replicates=2) or super().nearest(refused)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield losses and agreements by level and coefficient, then shifts and means in points."""
        blocks, scale = cell.blocks("source", _SOURCES), scale_named(str(cell.where["scale"]))
        sampled = _SOURCES if self.temperature else ()
        losses = Losses.of(cell, blocks, "source", sampled, "replicates=2 or more (5 is better)")
        for level, coefficient in product(self.levels, self.coefficients):
            where = {"level": level, "coefficient": coefficient}
            lost = {
                "agreement_loss": losses.loss(cell, _SOURCES, level, coefficient),
                "relative_loss": losses.loss(cell, _SOURCES, level, coefficient, relative=True),
            }
            yield Part(lost, blocks, where)
            for source in _SOURCES:
                options = (source, "human", self.resampling, level, coefficient)
                agreement = {"agreement": partial(estimate_correlation, blocks, *options)}
                yield Part(agreement, blocks, where | {"source": source})
        shift = cell.bounded(partial(_shift, scale=scale), blocks, "source", _SOURCES, (scale.low, scale.high))
        differences = {"source_shift": shift, **_sample_differences(cell)}
        yield Part(differences, blocks, note=cell.note_missing(blocks, "source", _SOURCES))
        for source in _SOURCES:
            mean = mean_of(blocks, blocks[source], None, (scale.low, scale.high), _MISSING)
            yield Part({"mean_score": mean}, blocks, {"source": source})


def _shift(blocks: pd.DataFrame, scale: Scale) -> Ratio:
    """Return the mean score with the source minus that without."""
    width = scale.high - scale.low
    return mean_of(blocks, blocks["with"] - blocks["without"], 0.0, (-width, width), _MISSING)


def _sample_differences(cell: Cell) -> dict[str, Estimable]:
    """Return the mean absolute differences of samples, with and without the source and within a request."""
    nothing = Ratio([], [], [], missing="undefined: answers are distributions, from which nothing is sampled")
    both = (nothing, nothing)
    if cell.where["answer"] == "text" and cell.wants("sample_difference", "resampling_difference"):
        both = sample_differences(cell.trials, "source", _SOURCES)
    return dict(zip(("sample_difference", "resampling_difference"), both, strict=True))
