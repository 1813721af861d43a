"""Score distribution: round numbers, unused scale, ties, and gains by averaging (Stureborg et al. 2024, §3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_some_of
from biaslab.core.metrics import Comparison, Figure, Metric, planted
from biaslab.core.output import AnyPath
from biaslab.core.scales import SCALES, scale_named, whole_numbers
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.scoring.pointwise import AnswerSettings, ScoreAnswer, drawn_items, single_ratings
from biaslab.probes.base import by_configuration
from biaslab.probes.base.answers import COLUMNS, Answers, name_seed
from biaslab.probes.base.probe import LABEL_MASS, Accepted, Cell, Metrics, Part, Probe, label_mass, scored, settle
from biaslab.probes.base.questions import protocol_column, question_of, read_reply
from biaslab.prompts.protocols import Protocol
from biaslab.stats.blocks import ITEM
from biaslab.stats.distribution import DISTRIBUTION, describe_distribution, score_weights
from biaslab.stats.estimate import because, undefined
from biaslab.stats.resample import Resampling
from biaslab.stats.samples import Agreement

_NO_SAMPLES = "cannot be computed from {samples} samples at temperature 1"
_COUNTED = because("counted_samples", f"{_NO_SAMPLES}; use a judge that gives distributions")
_ALIKE = Comparison("scores on one scale", ("scale", "answer"))
_SMOOTH = 0.03  # maximum distance from 1 of Whipple's index for smooth distributions; see `biaslab.stats.distribution`
_FAIR: dict[str, Scalar] = {"quality": 0.6, "noise": 0.5, "context_noise": 0.3}


@dataclass(frozen=True)
class ScoreDistribution(Probe):
    """Distribution of scores: heaping at round numbers, unused scale, ties, and the gain by averaging samples.

    Every candidate is scored on several scales. Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    scales : sequence of str
        Names in `biaslab.core.scales.SCALES`; default: the five of the paper.
    answer : {"distribution", "text"}
        Read the exact distribution over the scale's labels, or sample and parse texts.
    samples : int
        Number of samples to average (the paper's N); with ``answer="text"`` also the number to ask for.
    temperature : float
        With ``answer="text"``: temperature of the samples. Distributions are at temperature 1.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer.
    n_candidates : int, optional
        Candidates per context, drawn at random; None: all. More contexts are more informative than more candidates.
    protocol : Protocol or path, optional
        Prompt and parser to use instead of biaslab's own, with its own scale; see `biaslab.Protocol`. Its temperature
        is used unless it is 0, at which samples do not vary.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    With ``answer="distribution"`` there is one trial per label (column ``label``), all from one reply; its ``value`` is
    the probability of that label. With ``answer="text"`` there is one trial per sample; its ``value`` is the score.

    There is one estimate for each judge × data set × attribute × ``scale`` × ``answer``: *single* (one sample at
    temperature 1, or that of the texts; exact with distributions), *greedy* (the likeliest label), *mean of N* samples,
    *expected* (the expected score, the limit of the mean of samples) or *humans* (single ratings, if all are whole
    numbers). Differences between *single* and *expected* are artefacts of decoding. If the judge counts k samples
    (`biaslab.Sampled`), they are treated as k texts: means use at most k, and *greedy* and *expected* are undefined.

    - ``round_number_excess_10``, ``round_number_excess_5`` — Whipple's index of heaping (`biaslab.stats.distribution`):
      frequency of multiples of 10 or 5 relative to the scores around them. 0 to 10 or 5, null 1; above: a preference
      for round numbers. Primary; *single*, *greedy*, *humans*. Undefined if fewer than three multiples fit into the
      scale with the scores around them, as on 1-10.
    - ``myers_index`` — share of scores whose last digit would have to change to make all last digits equally frequent.
      0–.9. Not tested: with few scores, even a fair judge is above 0 (the note says by how much).
    - ``scale_use`` — exp(entropy) of all scores divided by the number of levels: the share of levels that, used evenly,
      would give the same entropy. 0–1.
    - ``range_used`` — distance between the 1st and the 99th percentile of all scores, as a share of the scale. 0–1.
    - ``pooled_sd`` — standard deviation of all scores, in points of the scale.
    - ``tie_rate`` — share of pairs of candidates of one context with equal scores. 0–1; also *mean of N*, *expected*.
    - ``agreement`` — Kendall's τ-b with the mean human score within contexts, averaged over contexts and over the
      randomness of the samples (32 draws, or the replicates). −1 to 1; all but *humans*. Table 2.
    - ``agreement_gain`` — ``agreement`` minus that of *single*, on the same contexts. Null 0; above: single samples
      lose information. *greedy*, *mean of N*, *expected*.
    - ``label_mass`` — total probability of all labels. 0–1; *single*; low: the judge would rather say
      something else.

    **Heaping or a narrow peak.** A narrow peak of scores at a round number looks like heaping; only ``pooled_sd`` of at
    least 8 points rules this out. A smooth distribution truncated by the end of the scale may lie up to .023 from 1,
    which matters with exact distributions but is too small to show with samples. For exact distributions, the test is
    therefore for a departure greater than .03, and the interval is that much wider at either end.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = ScoreDistribution(attributes=["coherence"], scales=["1-100"])
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, heaping=2.0), data, progress=False)
    >>> found = probe.estimate(trials, ["round_number_excess_10"]).set_index("answer")
    >>> float(found.loc["single", "estimate"]) > 3
    True
    """

    name = "score_distribution"
    conditions = ("scale", "answer")
    columns = (*COLUMNS, "scale", "human_scale", "ratings", "label_mass")
    protocol_forms = ("score",)
    needs = "single scores on a scale"
    metrics = (
        *(
            Metric(
                f"round_number_excess_{base}",
                f"heaping at multiples of {base}",
                "Whipple's index",
                null=1.0,
                above=f"prefers multiples of {base}",
                below=f"avoids multiples of {base}",
                advice="use the mean of the label distribution or of several samples, not one score on a fine scale",
                use="single scores on a fine scale",
                matters=0.25,  # demography calls data from 125 % on rough (United Nations, Demographic Yearbook)
                primary=True,
                calibration=planted(
                    {"heaping": 0.45},
                    {"scales": ("1-100",), "answer": "text", "samples": 5},
                    fair=_FAIR,
                    conservative=("exact",),  # the null has a margin
                ),
                comparison=_ALIKE,
            )
            for base in (10, 5)
        ),
        Metric("myers_index", "last digits that would have to change", "share"),
        Metric("scale_use", "levels in use", "share", comparison=_ALIKE),
        Metric("range_used", "range in use", "share"),
        Metric("pooled_sd", "standard deviation of all scores", "points"),
        Metric("tie_rate", "ties", "share"),
        Metric("agreement", "agreement with the reference scores", "Kendall's τ-b", null=0.0),
        Metric("agreement_gain", "gain over a single sample", "Kendall's τ-b", null=0.0),
        LABEL_MASS,
    )
    figures = (Figure("agreement", "agreement", by="scale", hue="answer", col="attribute"),)

    scales: Sequence[str] = tuple(SCALES)
    answer: ScoreAnswer = "distribution"
    samples: int = 10
    temperature: float = 1.0
    max_tokens: int = 16
    n_candidates: int | None = 3
    protocol: Protocol | AnyPath | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol is None:
            require_some_of("scales", self.scales, tuple(SCALES))
        _ = self._asking

    def take_protocol(self) -> None:
        """Adopt the protocol's settings, except for a temperature of 0, at which samples do not vary."""
        temperature = self.temperature
        super().take_protocol()
        settle(self, {"temperature": self.temperature or temperature})

    @property
    def _asking(self) -> AnswerSettings:
        replicates = self.samples if self.answer == "text" else 1
        return AnswerSettings(self.answer, replicates, self.temperature, self.max_tokens, self.seed)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each candidate's scores for each attribute and scale."""
        attributes, (low, high) = dataset.require_attributes(self.attributes), dataset.scale
        whole = low % 1 == high % 1 == 0 and (dataset.human["score"] % 1 == 0).all()
        ratings = single_ratings(dataset, "{:g}".format) if whole and len(dataset.human) else {}
        for item in drawn_items(dataset, self.n_candidates, self.seed):
            for attribute, scale in product(attributes, map(scale_named, self.scales)):
                question = question_of(self.protocol, dataset, item, attribute, scale, self.attributes)
                rated = ratings.get((item.context_id, item.candidate_id, attribute), "")
                condition: dict[str, Scalar] = {"human_scale": f"{low:g}-{high:g}", "ratings": rated}
                condition |= protocol_column(self.protocol)
                if self.answer == "distribution":
                    yield from question.label_trials(condition)
                else:
                    yield from question.trials(self._asking, condition)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability of the trial's label or, for text, the score, and the status."""
        return read_reply(self.protocol, trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each scale and kind of answer, then those of single human ratings."""
        for scale, trials in cell.trials.groupby("scale", sort=False):
            answers, where = Answers.of(trials, scale_named(str(scale))), {**cell.where, "scale": scale}
            answers.warn(cell, f"scale {scale}")
            by_decoding = self._of_answers(cell, answers, name_seed(self.seed, where))
            by_decoding["single"]["label_mass"] = label_mass(trials.drop_duplicates(list(ITEM)))
            for answer, metrics in by_decoding.items():
                yield Part(metrics, answers.counts, {"scale": scale, "answer": answer})
        yield from self._of_humans(cell)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select single scores parsed from text, and integer human ratings."""
        scores = scored(trials)
        scores = scores[scores["answer"] == "text"]
        if scores.empty:
            return self._accepted(scores)
        decimal = scores["ratings"].str.contains(".", regex=False)
        return Accepted(by_configuration(scores.assign(ratings=scores["ratings"].where(~decimal, ""))))

    def _of_answers(self, cell: Cell, answers: Answers, seed: tuple[int, int]) -> dict[str, Metrics]:
        """Return the metrics of each kind of answer on one scale."""
        exact, wanted = answers.chances is not None, cell.wants(*DISTRIBUTION)
        by_decoding: dict[str, Metrics] = {"single": _shape(answers, wanted, self.resampling, tested=True)}
        drawn: dict[str, Floats] = {}
        if exact:
            likeliest = answers.at_temperature(0)
            by_decoding["greedy"] = _shape(likeliest, wanted, self.resampling, tested=False)
            drawn = {"greedy": likeliest.expected[None], "expected": answers.expected[None]}
        if cell.wants("agreement", "agreement_gain", "tie_rate"):
            alone = answers.agreement(answers.means(1, seed))
            by_decoding["single"]["agreement"] = alone.ratio()
            n = self.samples if answers.samples is None else min(self.samples, answers.most)
            if n > 1:
                drawn[f"mean of {n}"] = answers.means(n, seed)
            for kind, scores in drawn.items():
                gains = _gains(answers.agreement(scores), alone, self.resampling)
                by_decoding[kind] = gains | by_decoding.get(kind, {})
        if answers.counted and answers.samples is not None:
            why = undefined(_COUNTED.with_values(samples=len(answers.samples)))
            lacking: Metrics = {"agreement": why, "agreement_gain": why}
            by_decoding |= {"greedy": lacking, "expected": lacking}
        return by_decoding

    def _of_humans(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of single human ratings, if they are integers."""
        items = cell.trials.drop_duplicates(list(ITEM))
        items = items[items["ratings"] != ""]
        if items.empty:
            return
        low, high = (int(end) for end in items["human_scale"].iloc[0].split("-"))
        scale = whole_numbers(low, high)
        ratings = [np.array(scores.split(), float) for scores in items["ratings"]]
        weights = np.array([score_weights(scores, scale.values).mean(axis=0) for scores in ratings])
        shape = cell.wants(*DISTRIBUTION)
        estimates = describe_distribution(items["context_id"], weights, scale.values, shape, self.resampling, None)
        metrics: Metrics = {name: estimate for name, estimate in estimates.items() if estimate.n_contexts}
        yield Part(metrics, (sum(map(len, ratings)), 0), {"scale": scale.name, "answer": "humans"})


def _shape(answers: Answers, wanted: Sequence[str], resampling: Resampling, tested: bool) -> Metrics:
    """Return the metrics of the frequencies of levels."""
    levels, null = answers.scale.values, 1.0 if tested else None  # noqa: PD011
    margin = _SMOOTH if tested and answers.chances is not None else 0.0
    return {**describe_distribution(answers.context, answers.weights, levels, wanted, resampling, null, margin)}


def _gains(agreement: Agreement, alone: Agreement, resampling: Resampling) -> Metrics:
    """Return agreement, its gain over single answers, and ties."""
    return {
        "tie_rate": agreement.tie_ratio(),
        "agreement": agreement.ratio(),
        "agreement_gain": lambda: agreement.ratio().difference(alone.ratio(), resampling),
    }
