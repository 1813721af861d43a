"""Score distribution: round numbers, unused scale, ties, and what averaging buys (Stureborg et al. 2024, §3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from os import PathLike

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core import Comparison, Figure, Metric, Reply, Scalar, Status, Trial
from biaslab.core.checks import require_some_of, require_whole
from biaslab.core.scales import SCALES, scale_named, whole_numbers
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Answer, Asking, drawn_items, single_ratings
from biaslab.probes.base import LABEL_MASS, Accepted, Cell, Estimable, Part, Probe, label_mass, planted
from biaslab.probes.base.answers import COLUMNS, Answers, name_seed
from biaslab.probes.base.logs import by_configuration, scored
from biaslab.probes.base.own_protocol import protocol_column, question_of, read_with, settle, settled
from biaslab.prompts.protocols import Protocol
from biaslab.stats import DISTRIBUTION, ITEM, Agreement, Resampling, describe_distribution, score_weights, undefined

_COUNTED = "undefined: {} samples at temperature 1 do not show it: ask a judge that gives distributions"
_ALIKE = Comparison("scores on one scale", ("scale", "answer"))
_SMOOTH = 0.03  # how far Whipple's index of a smooth distribution may lie from 1: see `biaslab.stats.heaping`
_FAIR: dict[str, Scalar] = {"quality": 0.6, "noise": 0.5, "context_noise": 0.3}


@dataclass(frozen=True)
class ScoreDistribution(Probe):
    """Distribution of scores: heaping at round numbers, unused scale, ties, and what averaging samples gains.

    Every candidate is scored on several scales. Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    scales : sequence of str
        Names in `biaslab.core.scales.SCALES`; the five of the paper by default.
    answer : {"distribution", "text"}
        Read the exact distribution over the scale's labels, or sample texts and read the scores in them.
    samples : int
        How many samples are averaged (the paper's N), and with ``answer="text"`` asked for.
    temperature : float
        With ``answer="text"``: of the samples. Distributions are at temperature 1.
    max_tokens : int
        With ``answer="text"``: length of an answer at most.
    n_candidates : int, optional
        Candidates a context, drawn at random; None is all of them. More contexts tell more than more candidates.
    protocol : Protocol or path, optional
        Ask with this prompt and read with this parser instead of biaslab's own, on its own scale: see
        `biaslab.Protocol`. Its temperature is kept unless it is 0, at which samples do not vary.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    With ``answer="distribution"`` there is one trial per label (column ``label``), all from one reply; its ``value`` is
    the probability of that label. With ``answer="text"`` there is one trial per sample; its ``value`` is the score.

    There is one estimate for each judge × data set × attribute × ``scale`` × ``answer``, which is *single* (one sample
    at temperature 1, or at that of the texts: exactly, from the label distribution), *greedy* (the likeliest label),
    *mean of N* samples, *expected* (the expected score of the distribution, the limit of the mean of samples) or
    *humans* (single ratings, where all are whole numbers). What *single* and *expected* differ in is an artefact of
    decoding. Where a judge counts k samples instead of reading the distribution (`biaslab.Sampled`), they are taken as
    k texts: no mean is of more than k, and *greedy* and *expected* are undefined.

    - ``round_number_excess_10``, ``round_number_excess_5`` — Whipple's index of heaping (`biaslab.stats.heaping`): how
      many times more often multiples of 10 or 5 are given than the scores around them. 0 to 10 or 5, null 1; above: a
      preference for round numbers. Primary; *single*, *greedy*, *humans*. Undefined where fewer than three multiples
      fit into the scale with the scores around them, as on 1-10.
    - ``myers_index`` — share of scores whose last digit would have to change to make all last digits equally frequent.
      0–.9. Not tested: a fair judge's is above 0 where scores are few (the note says by how much).
    - ``scale_use`` — exp(entropy) of all scores together over the number of levels: the share of the levels that, used
      evenly, would have the same entropy. 0–1.
    - ``range_used`` — distance between the 1st and the 99th percentile of all scores, as a share of the scale. 0–1.
    - ``pooled_sd`` — standard deviation of all scores together, in points of the scale.
    - ``tie_rate`` — share of pairs of candidates of one context with equal scores. 0–1; also *mean of N*, *expected*.
    - ``agreement`` — Kendall's τ-b with the mean human score within contexts, averaged over contexts and over the
      randomness of the samples (32 draws, or the replicates). −1 to 1; all but *humans*. Table 2.
    - ``agreement_gain`` — ``agreement`` less that of *single*, on the same contexts. Null 0; above: a single sample
      hides what the judge knows. *greedy*, *mean of N*, *expected*.
    - ``label_mass`` — probability that all labels have together. 0–1; *single*; low: the judge would rather say
      something else.

    **Heaping or a narrow peak.** Scores of all texts in one narrow peak on a round number look like heaping; only where
    ``pooled_sd`` is at least 8 points is that ruled out. A smooth distribution cut off by the end of the scale may lie
    up to .023 from 1, which exact distributions show and samples are too few to show. Of exact ones, a departure of
    more than .03 is tested, and the interval is that much wider at either end.

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
    protocol_form = "score"
    needs = "single scores on a scale"
    metrics = (
        *(
            Metric(
                f"round_number_excess_{base}",
                f"heaping at multiples of {base}",
                "Whipple's index",
                null=1.0,
                above=f"likes multiples of {base}",
                below=f"avoids multiples of {base}",
                advice="take the mean of the label distribution or of several samples, not one score of a fine scale",
                use="scores on a fine scale, one sample each",
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
    figures = (
        Figure("round_numbers", ("round_number_excess_10", "round_number_excess_5"), by=("attribute", "answer")),
        Figure("agreement", "agreement", by="scale", hue="answer", col="attribute"),
        Figure("scale_use", ("scale_use", "tie_rate"), by="scale", col="attribute", where={"answer": "single"}),
    )

    scales: Sequence[str] = tuple(SCALES)
    answer: Answer = "distribution"
    samples: int = 10
    temperature: float = 1.0
    max_tokens: int = 16
    n_candidates: int | None = 3
    protocol: Protocol | str | PathLike[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol is not None:
            protocol = Protocol.of_form(self.protocol, "score")
            found = {"scales": (protocol.scale.name,), "max_tokens": protocol.max_tokens}
            settle(self, {**settled(protocol), **found, "temperature": protocol.temperature or self.temperature})
        else:
            require_some_of("scales", self.scales, tuple(SCALES))
        require_whole("samples", self.samples, 1)
        require_whole("n_candidates", self.n_candidates, 1, optional=True)
        _ = self._asking

    @property
    def _asking(self) -> Asking:
        replicates = self.samples if self.answer == "text" else 1
        return Asking(self.answer, replicates, self.temperature, self.max_tokens, self.seed)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the scores of every candidate, for each attribute and scale."""
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
        """Return the probability of the trial's label or, of a text, the score; and the status."""
        return read_with(self.protocol, trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each scale and kind of answer, then those of single human ratings."""
        for scale, trials in cell.trials.groupby("scale", sort=False):
            answers, where = Answers.of(trials, scale_named(str(scale))), {**cell.where, "scale": scale}
            answers.warn(cell, f"scale {scale}")
            kinds = self._of_answers(cell, answers, name_seed(self.seed, where))
            kinds["single"]["label_mass"] = label_mass(trials.drop_duplicates(list(ITEM)))
            for answer, metrics in kinds.items():
                yield Part(metrics, answers.counts, {"scale": scale, "answer": answer})
        yield from self._of_humans(cell)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Take single scores that were read from text, and human ratings that are whole numbers."""
        scores = scored(trials)
        scores = scores[scores["answer"] == "text"]
        if scores.empty:
            return self._accepted(scores)
        decimal = scores["ratings"].str.contains(".", regex=False)
        return Accepted(by_configuration(scores.assign(ratings=scores["ratings"].where(~decimal, ""))))

    def _of_answers(self, cell: Cell, answers: Answers, seed: tuple[int, int]) -> dict[str, dict[str, Estimable]]:
        """Return the metrics of each kind of answer on one scale."""
        exact, wanted = answers.chances is not None, cell.wants(*DISTRIBUTION)
        kinds: dict[str, dict[str, Estimable]] = {"single": _shape(answers, wanted, self.resampling, tested=True)}
        drawn: dict[str, NDArray[np.float64]] = {}
        if exact:
            likeliest = answers.at_temperature(0)
            kinds["greedy"] = _shape(likeliest, wanted, self.resampling, tested=False)
            drawn = {"greedy": likeliest.expected[None], "expected": answers.expected[None]}
        if cell.wants("agreement", "agreement_gain", "tie_rate"):
            alone = answers.agreement(answers.means(1, seed))
            kinds["single"]["agreement"] = alone.ratio()
            n = self.samples if answers.samples is None else min(self.samples, answers.most)
            if n > 1:
                drawn[f"mean of {n}"] = answers.means(n, seed)
            for kind, scores in drawn.items():
                kinds[kind] = _gains(answers.agreement(scores), alone, self.resampling) | kinds.get(kind, {})
        if answers.counted and answers.samples is not None:
            why = undefined(_COUNTED.format(len(answers.samples)))
            kinds |= {kind: dict.fromkeys(("agreement", "agreement_gain"), why) for kind in ("greedy", "expected")}
        return kinds

    def _of_humans(self, cell: Cell) -> Iterator[Part]:
        """Yield what single human ratings give; nothing where they are not whole numbers."""
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
        metrics: dict[str, Estimable] = {name: estimate for name, estimate in estimates.items() if estimate.n_contexts}
        yield Part(metrics, (sum(map(len, ratings)), 0), {"scale": scale.name, "answer": "humans"})


def _shape(answers: Answers, wanted: Sequence[str], resampling: Resampling, tested: bool) -> dict[str, Estimable]:
    """Describe how often each level is given."""
    levels, null = answers.scale.values, 1.0 if tested else None  # noqa: PD011
    margin = _SMOOTH if tested and answers.chances is not None else 0.0
    return {**describe_distribution(answers.context, answers.weights, levels, wanted, resampling, null, margin)}


def _gains(agreement: Agreement, alone: Agreement, resampling: Resampling) -> dict[str, Estimable]:
    """Return agreement, its gain over that of single answers, and ties."""
    return {
        "tie_rate": agreement.tie_ratio(),
        "agreement": agreement.ratio(),
        "agreement_gain": lambda: agreement.ratio().difference(alone.ratio(), resampling),
    }
