"""Sensitivity to the source document: does a judge use it? (Stureborg et al. 2024, §3.6, Table 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from typing import Literal

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.interfaces import Nearest, reading_text
from biaslab.core.metrics import Comparison, Figure, Metric, Says, planted
from biaslab.core.output import number
from biaslab.core.requests import Request
from biaslab.core.scales import scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Trial
from biaslab.measures.scoring.pointwise import items
from biaslab.probes.base.answers import Losses
from biaslab.probes.base.comparisons import ACCURACY, RESAMPLING, PairOrScoreProbe, comparing, is_exact, pair_trials
from biaslab.probes.base.probe import Cell, Metrics, Part, mean_of
from biaslab.probes.base.questions import ScoreProbe, protocol_column, require_source_slot
from biaslab.prompts.protocols import Protocol
from biaslab.stats.correlation import estimate_correlation
from biaslab.stats.estimate import because
from biaslab.stats.ratio import Ratio
from biaslab.stats.samples import sample_differences

_SOURCES: tuple[str, str] = ("with", "without")
_LEVELS: tuple[Literal["context", "dataset"], ...] = ("context", "dataset")
_COEFFICIENTS: tuple[Literal["spearman", "kendall"], ...] = ("spearman", "kendall")
_POINTS, _KENDALL = "mean absolute difference, points", {"coefficient": "kendall"}
_MISSING = because("no_item_both_ways", "no item has a score with and without the source")


def loss_of_agreement(estimates: pd.DataFrame) -> Says | str:
    """Say how much agreement is lost, unless even with the source none is shown to be above 0."""
    kept = estimates[(estimates["metric"] == "agreement") & (estimates["source"] == "with")]
    kept = kept[kept["coefficient"].eq("kendall") & kept["ci_low"].notna()]
    if len(kept) and (kept["ci_low"] <= 0).all():
        ends = " to ".join(dict.fromkeys(number(kept["estimate"].agg(end), 2) for end in ("min", "max")))
        words = f"{{judge}}: agreement with the reference scores is {ends} with the source, so there is none to lose"
        return f"{words} (lost without it {{agreement_loss}})"
    lost = "agreement lost without it {agreement_loss}"
    unclear = f"{{judge}}: too few contexts to tell whether it needs the source; {lost}"
    return Says(none=f"{{judge}} does not need the source: {lost}", open=unclear)


@dataclass(frozen=True)
class Source(PairOrScoreProbe, ScoreProbe):
    """Sensitivity to the source document: agreement with humans lost without it.

    Every candidate is scored with and without its source. Further parameters: `biaslab.probes.base.ScoreProbe`.

    Parameters
    ----------
    scale : str
        Name of one of `biaslab.core.scales.SCALES`.
    levels : sequence of {"context", "dataset"}
        Level of agreement: averaged within contexts, and/or over all candidates.
    coefficients : sequence of {"spearman", "kendall"}
        Rank correlations with the mean human score.
    asks : sequence of {"pairs", "scores"}
        Score single candidates, compare all pairs in both orders, or both; a protocol's form overrides this.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is the score on the scale: the expected one of a distribution. There is one estimate for each
    judge × data set × attribute × scale × answer, over items with scores with and without the source; others are
    dropped and counted in ``n_dropped``. By ``level`` and ``coefficient``:

    - ``agreement_loss`` — correlation with humans with the source, minus that without. −2 to 2, null 0; above: the
      source helps. Primary. Table 5 of Stureborg et al. (2024) prints the opposite sign.
    - ``relative_loss`` — the same as a share of the agreement with the source. At most 2, no null; undefined unless the
      interval of that agreement lies above 0.
    - ``agreement`` — the two correlations themselves (column ``source``: "with", "without"). −1 to 1.

    In points of the scale:

    - ``source_shift`` — score with the source minus without, paired by item. Null 0. Attributes of the text alone, such
      as fluency, should not change. If scores are missing, ``bound_low`` and ``bound_high`` hold whatever they are.
    - ``sample_difference`` — mean absolute difference between samples with and without the source, for the same item.
      At least 0; with text only.
    - ``resampling_difference`` — its noise floor: the same between two samples of one request. At least 0; undefined
      with one replicate.
    - ``mean_score`` — mean score with and without (column ``source``).

    For **pairs** (``scale`` is "pairs"), compared by comparative template 1 in both orders, over those with verdicts
    with and without the source:

    - ``accuracy_loss`` — share of decisions between candidates with different human scores that agree with the humans,
      with the source minus without. −1 to 1, null 0; above: the source helps. Primary. An exact distribution decides
      for its likelier label. With texts it is the loss of single verdicts, which also occurs if a judge is merely less
      certain without the source; use distributions to see the loss of its likelier verdicts.
    - ``comparative_accuracy`` — the two shares (column ``source``). 0–1, null ½.
    - ``verdict_change`` — probability that verdicts with and without the source differ, for the same pair in the same
      order; a tie is a third verdict. 0–1.
    - ``resampling_change`` — its noise floor: the same for two samples of one request. 0–1; exact for distributions;
      with texts it needs two replicates.

    For position bias, see `Position`.

    **Sampling noise.** Noise lowers agreement, and without the source a judge may merely be less certain. For texts
    sampled at a temperature above 0, both losses therefore refer to expected scores, the means of infinitely many
    samples (`biaslab.stats.expected_agreement_loss`; the note has the reliabilities). This needs at least two samples
    per request; with one, and if the judge counts samples instead of reading the distribution (`biaslab.Sampled`), both
    are undefined.

    **Why the loss is primary rather than the shift.** A judge that needs the source to distinguish good from bad scores
    good candidates lower and bad ones higher without it, leaving the mean unchanged. The four losses of an attribute
    (two levels, two coefficients) are almost identical, so they hardly affect q-values.

    **Inference.** ``agreement_loss`` within contexts, and ``accuracy_loss``: t test and t interval
    (`biaslab.stats.agreement_loss`, `biaslab.stats.ratio.Ratio.difference`); accuracies: score t over contexts;
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
            use=("scores without the source", "scores with the source"),
            matters=0.1,
            form="score",
            primary=True,
            calibration=planted({"source_reliance": 0.8}, {"levels": ("context",), "coefficients": ("kendall",)}),
        ),
        Metric("relative_loss", "agreement lost, of that with the source", "share", null=0.0, form="score"),
        Metric(
            "agreement",
            "agreement with the reference scores",
            "correlation",
            null=0.0,
            above="agrees with the reference scores",
            below="disagrees with the reference scores",
            quality=True,
        ),
        Metric("source_shift", "score with source minus without", "points", null=0.0, form="score"),
        Metric("sample_difference", "samples with and without the source", _POINTS, form="score"),
        Metric("resampling_difference", "samples of one request", _POINTS, form="score"),
        Metric("mean_score", "mean score", "points", form="score"),
        Metric(
            "accuracy_loss",
            "accuracy on pairs lost without the source",
            "share",
            null=0.0,
            above="orders more pairs as the reference scores do when it sees the source",
            below="orders fewer pairs as the reference scores do when it sees the source",
            advice=("show the source", "leave the source out"),
            use=("verdicts without the source", "verdicts with the source"),
            matters=0.05,
            form="pair",
            primary=True,
            calibration=planted({"source_reliance": 0.8}, {"asks": ("pairs",)}),
            comparison=Comparison("verdicts on pairs"),
        ),
        ACCURACY,
        Metric("verdict_change", "verdicts that differ with and without the source", "share", form="pair"),
        RESAMPLING,
    )
    figures = (
        Figure("agreement_loss", "agreement_loss", by="attribute", col="level", where=_KENDALL, says=loss_of_agreement),
        Figure("noise_floor", ("sample_difference", "resampling_difference"), by="attribute"),
        Figure("pairs", "accuracy_loss", by="attribute"),
    )

    protocol_forms = ("pair", "score")

    scale: str = field(default="1-10", kw_only=True)
    levels: Sequence[Literal["context", "dataset"]] = _LEVELS
    coefficients: Sequence[Literal["spearman", "kendall"]] = _COEFFICIENTS

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each item, and each pair, with and without its source.

        Raises
        ------
        InputError
            If a context has no text and therefore no source to leave out.
        """
        if isinstance(self.protocol, Protocol):
            require_source_slot(self.protocol)
        blank = dataset.candidates.loc[dataset.candidates["context"].str.strip() == "", "context_id"]
        if len(blank):
            allowed, missing = "one with a source text for each context", f"missing for {blank.iloc[0]}"
            raise InputError("dataset", dataset.name, allowed, missing)
        yield from super().design(dataset)

    def plan_scores(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the scores of each item with and without its source."""
        attributes = dataset.require_attributes(self.attributes)
        for item, source, attribute in product(items(dataset), _SOURCES, attributes):
            shown = item if source == "with" else replace(item, context="")
            question = self.question(dataset, shown, attribute)
            yield from question.trials(self.asking, {"source": source, **protocol_column(self.protocol)})

    def plan_pairs(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan both orders of each pair with and without its source, one after the other."""
        without, position = replace(dataset, candidates=dataset.candidates.assign(context="")), comparing(self)
        data = dict(zip(_SOURCES, (dataset, without), strict=True))
        asked = (pair_trials(position, shown, {"source": source}) for source, shown in data.items())
        yield from chain.from_iterable(zip(*asked, strict=True))

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: two texts instead of label probabilities, because one does not show its noise."""
        return reading_text(self, refused, replicates=2) or super().nearest(refused)

    def measure_scores(self, cell: Cell) -> Iterator[Part]:
        """Yield losses and agreements by level and coefficient, then shifts and means."""
        contrast, scale = cell.contrast("source", _SOURCES, ("human",)), scale_named(str(cell.where["scale"]))
        blocks, bounds = contrast.judged, (scale.low, scale.high)
        sampled = _SOURCES if self.temperature else ()
        losses = Losses.of(cell, blocks, "source", sampled, "replicates=2 or more (5 is better)")
        for level, coefficient in product(self.levels, self.coefficients):
            where = {"level": level, "coefficient": coefficient}
            loss = partial(losses.loss, cell, _SOURCES, level, coefficient)
            yield Part({"agreement_loss": loss(), "relative_loss": loss(relative=True)}, blocks, where)
            for source in _SOURCES:
                options = (source, "human", self.resampling, level, coefficient)
                agreement = {"agreement": partial(estimate_correlation, blocks, *options)}
                yield Part(agreement, blocks, where | {"source": source})
        yield contrast.part({"source_shift": contrast.shift(bounds, _MISSING), **_sample_differences(cell)})
        for source in _SOURCES:
            mean = mean_of(blocks, blocks[source], None, bounds, _MISSING)
            yield Part({"mean_score": mean}, blocks, {"source": source})

    def measure_pairs(self, cell: Cell) -> Iterator[Part]:
        """Yield the loss on pairs without the source, the change of verdicts, and both accuracies."""
        contrast = cell.contrast("source", _SOURCES, exact=is_exact(cell.trials), both_orders=False)
        accuracies = contrast.judged.accuracies()
        yield contrast.part(contrast.differences({"accuracy_loss": accuracies}) | contrast.judged.changes())
        for source, accuracy in zip(_SOURCES, accuracies, strict=True):
            yield Part({"comparative_accuracy": accuracy}, contrast.counts, {"source": source})


def _sample_differences(cell: Cell) -> Metrics:
    """Return mean absolute differences between samples with and without the source, and within a request."""
    nothing = Ratio([], [], [], missing=because("distributions", "answers are distributions, not samples"))
    both = (nothing, nothing)
    if cell.where["answer"] == "text" and cell.wants("sample_difference", "resampling_difference"):
        both = sample_differences(cell.trials, "source", _SOURCES)
    return dict(zip(("sample_difference", "resampling_difference"), both, strict=True))
