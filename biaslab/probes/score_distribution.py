"""Score distribution: round numbers, unused scale, ties, and what averaging buys (Stureborg et al. 2024, §3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core import Calibration, Comparison, Metric, Reply, Scalar, Status, Trial
from biaslab.core.checks import require_some_of, require_whole
from biaslab.core.scales import SCALES, find_scale, scale_named, whole_numbers
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Answer, Asking, Question, drawn_items, read_score, single_ratings
from biaslab.probes._answers import COLUMNS, Answers, name_seed
from biaslab.probes.base import LABEL_MASS, Accepted, Cell, Estimable, Part, Probe, by_configuration, label_mass, scored
from biaslab.stats import DISTRIBUTION, ITEM, Agreement, Resampling, describe_distribution, score_weights, undefined

_COUNTED = "undefined: {} samples at temperature 1 do not show it: ask a judge that gives distributions"
_ALIKE = Comparison("scores on one scale", ("scale", "answer"))
_SMOOTH = 0.03  # how far Whipple's index of a smooth distribution may lie from 1: see `biaslab.stats.heaping`
_FAIR: dict[str, Scalar] = {"quality": 0.6, "noise": 0.5, "context_noise": 0.3}


@dataclass(frozen=True)
class ScoreDistribution(Probe):
    """Ask for scores on several scales, and see which scores are given and what they are worth.

    Its further parameters are those of `biaslab.probes.base.Probe`.

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

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    With ``answer="distribution"`` there is one trial a label (column ``label``), all from one reply; its ``value`` is
    the probability of that label. With ``answer="text"`` there is one trial a sample; its ``value`` is the score.

    Estimates come one a judge × data set × attribute × ``scale`` × ``answer``, which is *single* (one sample at
    temperature 1, or at that of the texts: exactly, from the label distribution), *greedy* (the likeliest label),
    *mean of N* samples, *expected* (the expected score of the distribution, what infinitely many samples would
    average to) or *humans* (single ratings, where all are whole numbers). What *single* and *expected* differ in is
    an artefact of decoding. Where a judge counts k samples instead of reading the distribution (`biaslab.Sampled`),
    they are taken as k texts: no mean is of more than k, and what is *greedy* or *expected* is undefined.

    ``round_number_excess_10``, ``round_number_excess_5`` (primary; 0 to 10 or 5, null 1; *single*, *greedy*, *humans*)
        Whipple's index of heaping at multiples of 10 or 5 (`biaslab.stats.heaping`): how many times more often they are
        given than the scores around them. Above 1: a liking for round numbers. Undefined where fewer than three
        multiples fit into the scale with the scores around them, as on 1-10. If the scores of all texts
        lie in one narrow peak on a round number, that looks the same: only where ``pooled_sd`` is at least 8 points is
        it ruled out. A smooth distribution cut off by the end of the scale may lie up to .023 from 1, which exact
        distributions show and samples are too few to show; of exact ones a departure of more than .03 is tested, and
        the interval is that much wider at either end.
    ``myers_index`` (0–.9)
        Share of scores whose last digit would have to change to make all last digits equally frequent. Not tested:
        a fair judge's is above 0 where scores are few (the note says by how much).
    ``scale_use`` (0–1)
        exp(entropy) of all scores together over the number of levels: the share of the levels that, used evenly, would
        have the same entropy.
    ``range_used`` (0–1)
        Distance between the 1st and the 99th percentile of all scores, as a share of the scale.
    ``pooled_sd``
        Standard deviation of all scores together, in points of the scale.
    ``tie_rate`` (0–1; also *mean of N* and *expected*)
        Share of pairs of candidates of one context with equal scores.
    ``agreement`` (-1 to 1; all but *humans*)
        Kendall's τ-b with the mean human score within contexts, averaged over contexts, and over the randomness of
        the samples (32 draws, or the replicates). Table 2 of the paper.
    ``agreement_gain`` (null 0; *greedy*, *mean of N*, *expected*)
        ``agreement`` less that of *single*, on the same contexts. Above 0: a single sample hides what the judge knows.
    ``label_mass`` (0–1; *single*)
        Probability that all labels have together; low: the judge would rather say something else.

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

    name: ClassVar[str] = "score_distribution"
    conditions: ClassVar[tuple[str, ...]] = ("scale", "answer")
    columns: ClassVar[tuple[str, ...]] = (*COLUMNS, "scale", "human_scale", "ratings", "label_mass")
    needs: ClassVar[str] = "single scores on a scale"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(
                f"round_number_excess_{base}",
                f"heaping at multiples of {base}",
                "Whipple's index",
                null=1.0,
                above=f"likes multiples of {base}",
                below=f"avoids multiples of {base}",
                advice="take the mean of the label distribution or of several samples, not one score of a fine scale",
                matters=0.25,  # demography calls data from 125 % on rough (United Nations, Demographic Yearbook)
                primary=True,
                calibration=Calibration(
                    fair=_FAIR,
                    planted={**_FAIR, "heaping": 0.45},
                    parameters={"scales": ("1-100",), "answer": "text", "samples": 5},
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

    scales: Sequence[str] = tuple(SCALES)
    answer: Answer = "distribution"
    samples: int = 10
    temperature: float = 1.0
    max_tokens: int = 16
    n_candidates: int | None = 3

    def __post_init__(self) -> None:
        super().__post_init__()
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
            for attribute, scale in product(attributes, map(find_scale, self.scales)):
                question = Question.rate(dataset, item, [attribute], scale)
                rated = ratings.get((item.context_id, item.candidate_id, attribute), "")
                condition: dict[str, Scalar] = {"human_scale": f"{low:g}-{high:g}", "ratings": rated}
                if self.answer == "distribution":
                    yield from question.label_trials(condition)
                else:
                    yield from question.trials(self._asking, condition)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability of the trial's label or, of a text, the score; and the status."""
        return read_score(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each scale and kind of answer, then those of single human ratings."""
        for scale, trials in cell.trials.groupby("scale", sort=False):
            given, where = Answers.of(trials, scale_named(str(scale))), {**cell.where, "scale": scale}
            given.warn(cell, f"scale {scale}")
            found = self._of_answers(cell, given, name_seed(self.seed, where))
            found["single"]["label_mass"] = label_mass(trials.drop_duplicates(list(ITEM)))
            for answer, metrics in found.items():
                yield Part(metrics, given.counts, {"scale": scale, "answer": answer})
        yield from self._of_humans(cell)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Take single scores that were read from text, and human ratings that are whole numbers."""
        scores = scored(trials)
        scores = scores[scores["answer"] == "text"]
        if scores.empty:
            return Accepted(scores, f"needs {self.needs}")
        found = by_configuration(scores)
        decimal = found["ratings"].str.contains(".", regex=False)
        return Accepted(found.assign(ratings=found["ratings"].where(~decimal, "")))

    def _of_answers(self, cell: Cell, given: Answers, seed: tuple[int, int]) -> dict[str, dict[str, Estimable]]:
        """Return the metrics of each kind of answer on one scale."""
        scale, shape, exact = given.scale, cell.wants(*DISTRIBUTION), given.chances is not None
        levels, margin = scale.values, _SMOOTH if exact else 0.0  # noqa: PD011
        single = describe_distribution(given.context, given.weights, levels, shape, self.resampling, 1.0, margin)
        found: dict[str, dict[str, Estimable]] = {"single": {**single}}
        drawn: dict[str, NDArray[np.float64]] = {}
        if exact:
            likeliest = given.at_temperature(0)
            greedy = describe_distribution(given.context, likeliest.weights, levels, shape, self.resampling, None)
            found["greedy"] = {**greedy}
            drawn = {"greedy": likeliest.expected[None], "expected": given.expected[None]}
        if cell.wants("agreement", "agreement_gain", "tie_rate"):
            alone = given.agreement(given.means(1, seed))
            found["single"]["agreement"] = alone.ratio()
            n = self.samples if given.samples is None else min(self.samples, given.most)
            if n > 1:
                drawn[f"mean of {n}"] = given.means(n, seed)
            for answer, scores in drawn.items():
                gains = _gains(given.agreement(scores), alone, self.resampling)
                found[answer] = gains | found.get(answer, {})
        if given.counted and given.samples is not None:
            why = undefined(_COUNTED.format(len(given.samples)))
            found |= {answer: dict.fromkeys(("agreement", "agreement_gain"), why) for answer in ("greedy", "expected")}
        return found

    def _of_humans(self, cell: Cell) -> Iterator[Part]:
        """Yield what single human ratings give; nothing where they are not whole numbers."""
        items = cell.trials.drop_duplicates(list(ITEM))
        items = items[items["ratings"] != ""]
        if items.empty:
            return
        low, high = (int(end) for end in items["human_scale"].iloc[0].split("-"))
        scale = whole_numbers(low, high)
        given = [np.array(ratings.split(), float) for ratings in items["ratings"]]
        weights = np.array([score_weights(one, scale.values).mean(axis=0) for one in given])
        shape = cell.wants(*DISTRIBUTION)
        found = describe_distribution(items["context_id"], weights, scale.values, shape, self.resampling, None)
        known: dict[str, Estimable] = {metric: estimate for metric, estimate in found.items() if estimate.n_contexts}
        yield Part(known, (sum(map(len, given)), 0), {"scale": scale.name, "answer": "humans"})


def _gains(agreement: Agreement, alone: Agreement, resampling: Resampling) -> dict[str, Estimable]:
    """Return agreement, what it has over that of single answers, and ties."""
    return {
        "tie_rate": agreement.tie_ratio(),
        "agreement": agreement.ratio(),
        "agreement_gain": lambda: agreement.ratio().difference(alone.ratio(), resampling),
    }
