"""Positional bias: does a judge prefer what stands first? (Liusie et al. 2024, §3.5, Tables 5, 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import logit

from biaslab.checks import require_attributes_list, require_whole
from biaslab.core import Calibration, Metric, Reply, Status, Trial
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.probes._pairwise import Answer, PairAsking, draw_of, read_pair
from biaslab.stats import Ratio, Resampling, choose_metrics, estimates_frame, pairs, ratio_rows, require_columns

_METRICS = (
    "first_position_rate",
    "first_position_logit",
    "order_consistency",
    "primacy_share",
    "comparative_accuracy",
    "tie_rate",
    "label_mass",
    "resampling_consistency",
)
_BY_GAP = ("first_position_rate", "first_position_logit", "order_consistency")
_TINY = 1e-15  # probabilities are kept off 0 and 1, where a logit is infinite


@dataclass(frozen=True)
class Position:
    """Compare candidates in both orders and see what the order alone decides.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to compare on; all attributes of the data set by default.
    templates : sequence of int
        Comparative templates, 1 and/or 2.
    n_pairs : int, optional
        Unordered pairs a context, drawn at random without replacement; all of them by default. The draw of a context
        depends on the seed and that context alone.
    answer : {"distribution", "text"}
        Read the probabilities of the two labels (Eq. 3), or generate text and read the label in it (Eqs. 4, 5).
    ties : bool
        Offer "Tie" as a third answer.
    replicates : int
        With ``answer="text"``: samples of each request.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    gap_bins : int
        Bins of the human score gap.
    seed : int
        Of the drawn pairs.
    resampling : Resampling
        Of the estimates.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial's ``value`` is the probability that the candidate shown first wins, among the two labels: p_ij of Eq. 3, or
    0, ½ (tie), 1 for text. A tie is "Tie" as the likeliest answer, or two labels exactly as likely.

    Estimates, one a judge × data set × attribute × template, over pairs that were judged in both orders (a refusal in
    one order drops the pair, counted in ``n_dropped``):

    ``first_position_rate`` (primary; 0–1, null ½)
        P(A) of Eq. 8: share of decisions, ties aside, for the first. Above ½: primacy; below: recency.
    ``first_position_logit`` (null 0)
        Mean over pairs of ½ [logit p_ij + logit p_ji], in logits. Independent of the candidates' quality.
    ``order_consistency`` (0–1)
        Share of pairs with the same winner, or a tie, in both orders.
    ``resampling_consistency`` (0–1)
        Its noise floor: how often two samples of one request agree, expected from p or seen between replicates.
    ``primacy_share`` (0–1, null ½)
        Among pairs that flip, the share where the first won both times.
    ``comparative_accuracy`` (0–1, null ½)
        Share of decisions between candidates with different human scores that go as humans do.
    ``tie_rate``, ``label_mass`` (0–1)
        Share of ties; probability that the labels have together (low: the judge would rather say something else).

    ``first_position_rate``, ``first_position_logit`` and ``order_consistency`` come a second time by bins of the
    absolute human gap (column ``human_gap``, the bin's mean; NaN for all pairs together): bias grows as the gap
    shrinks.

    Pairs that do not flip say nothing about the order, and they are most. ``first_position_rate`` and ``primacy_share``
    therefore have a t test, and with fewer than 20 contexts a t interval (`biaslab.stats.t_test`); everything else has
    bootstrap intervals and sign-flip tests over contexts. ``method`` says which.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Position(attributes=["coherence"], templates=[1])
    >>> judge = bl.SimulatedJudge(data, quality=1.0, position=0.8)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False))
    >>> overall = estimates[estimates["human_gap"].isna()].set_index("metric")
    >>> round(float(overall.loc["first_position_logit", "estimate"]), 2)
    0.8
    """

    name: ClassVar[str] = "position"
    primary: ClassVar[tuple[str, ...]] = ("first_position_rate",)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "first_position_rate",
            "P(A), decisions for the first",
            "share",
            null=0.5,
            above="prefers what stands first",
            below="prefers what stands second",
            advice="ask every pair in both orders and average",
            matters=0.1,
        ),
        Metric("first_position_logit", "first-position bias", "logits", null=0.0),
        Metric("order_consistency", "same winner in both orders", "share"),
        Metric("resampling_consistency", "two samples of one request agree", "share"),
        Metric("primacy_share", "primacy among flipped pairs", "share", null=0.5),
        Metric(
            "comparative_accuracy",
            "pairs ordered as the reference scores do",
            "share",
            null=0.5,
            above="orders pairs as the reference scores do",
            below="orders pairs against the reference scores",
            quality=True,
        ),
        Metric("tie_rate", "ties", "share"),
        Metric("label_mass", "probability of all labels together"),
    )
    calibrations: ClassVar[tuple[Calibration, ...]] = (
        Calibration(
            "first_position_rate",
            null=0.5,
            fair={"quality": 1.0, "noise": 1.0, "context_noise": 0.5},
            planted={"quality": 1.0, "noise": 1.0, "context_noise": 0.5, "position": 0.4},
            parameters={"templates": (1,)},
        ),
    )

    attributes: Sequence[str] | None = None
    templates: Sequence[int] = (1, 2)
    n_pairs: int | None = None
    answer: Answer = "distribution"
    ties: bool = False
    replicates: int = 1
    temperature: float = 1.0
    gap_bins: int = 4
    seed: int = 0
    resampling: Resampling = field(default_factory=Resampling)

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        if not self.templates or set(self.templates) - {1, 2}:
            raise InputError("templates", self.templates, "a list of 1 and/or 2")
        for name in ("n_pairs", "gap_bins"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), 1)
        self._asking()

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every drawn pair in both orders, for each attribute, template and replicate."""
        attributes, asking = dataset.require_attributes(self.attributes), self._asking()
        means = dataset.human_means.to_dict()
        for context_id, rows in dataset.candidates.groupby("context_id", sort=False):
            name, texts = str(context_id), dict(zip(rows["candidate_id"], rows["text"], strict=True))
            context = (name, str(rows["context"].iloc[0]))
            pairs = self._draw(name, list(texts))
            for (first, second), attribute, template in product(_both(pairs), attributes, self.templates):
                score = means[attribute]
                gap = float(score[context_id, first] - score[context_id, second])
                pair = (first, texts[first]), (second, texts[second])
                condition = {"template": template, "human_gap": gap}
                yield from asking.trials(dataset, template, attribute, context, pair, condition)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the first wins, and the status."""
        return read_pair(trial, reply)

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn trials into the estimates listed in the notes of this class.

        Parameters
        ----------
        trials : pandas.DataFrame
            Made by `biaslab.collect`.
        metrics : sequence of str, optional
            Estimate these only, over all pairs together; by default all metrics, and some by bins of the human gap.

        Raises
        ------
        InputError
            If there is no such metric; the message lists those there are.
        TrialsError
            If a column is missing, or a pair stands twice in one order.
        """
        chosen = choose_metrics(_METRICS, metrics)
        require_columns(trials, (*pairs.CELL, "template", "human_gap", *pairs.PAIR, "label_mass"), "trials")
        cells = [*pairs.CELL, "template"]
        rows: list[dict[str, Any]] = []
        for names, cell in trials.groupby(cells, sort=False):
            where = dict(zip(cells, names, strict=True))
            blocks = pairs.both_orders(cell, f"{self.name} ({where['attribute']}, template {where['template']})")
            terms = _terms(blocks)
            if "resampling_consistency" in chosen:
                terms |= _noise_floor(blocks, cell)
            asked = {metric: terms[metric] for metric in chosen}
            rows += ratio_rows(asked, where | {"human_gap": np.nan}, blocks, self.resampling)
            if metrics is not None:
                continue
            for gap, part in pairs.by_gap(blocks, self.gap_bins):
                terms = _terms(part)
                binned = {metric: replace(terms[metric], null=None) for metric in _BY_GAP}
                rows += ratio_rows(binned, where | {"human_gap": gap}, part, self.resampling)
        return estimates_frame(rows, self.name, self.primary, ("attribute", "template", "human_gap"))

    def _draw(self, context_id: str, candidates: list[str]) -> list[tuple[str, str]]:
        pairs = list(combinations(candidates, 2))
        if self.n_pairs is None or self.n_pairs >= len(pairs):
            return pairs
        chosen = draw_of(self.seed, context_id).choice(len(pairs), self.n_pairs, replace=False)
        return [pairs[i] for i in sorted(chosen)]

    def _asking(self) -> PairAsking:
        return PairAsking(self.answer, self.ties, self.replicates, self.temperature, self.seed)


def _both(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [order for pair in pairs for order in (pair, pair[::-1])]


def _terms(blocks: pd.DataFrame) -> dict[str, Ratio]:
    """Say what each metric counts, pair by pair, in both orders."""
    context = blocks["context_id"]
    first = blocks[["first_ij", "first_ji"]].to_numpy(float)
    decided = ~np.isnan(first)
    wins, n_decided = np.nansum(first, axis=1), decided.sum(axis=1)
    both = decided.all(axis=1)
    flips = both & (first[:, 0] == first[:, 1])
    same = (both & ~flips) | ~decided.any(axis=1)
    gap = blocks["human_gap"].to_numpy(float)
    right = (first == np.column_stack([gap > 0, gap < 0])) & decided
    rated = decided & (np.nan_to_num(gap) != 0)[:, None]
    ones, unit = np.ones(len(blocks)), (0.0, 1.0)
    p = blocks[["p_ij", "p_ji"]].to_numpy(float)
    soft = not np.isin(p, (0.0, 0.5, 1.0)).all()
    return {
        "first_position_rate": Ratio(context, wins, n_decided, null=0.5, bounds=unit, inference="t"),
        "first_position_logit": Ratio(
            context,
            logit(np.clip(p, _TINY, 1 - _TINY)).mean(axis=1),
            ones * soft,
            null=0.0,
            missing="undefined: answers are text, which has no probabilities",
        ),
        "order_consistency": Ratio(context, same, ones, bounds=unit),
        "primacy_share": Ratio(
            context,
            flips & (wins == 2),
            flips,
            null=0.5,
            bounds=unit,
            missing="undefined: no pair flips",
            inference="t",
        ),
        "comparative_accuracy": Ratio(
            context,
            (right & rated).sum(axis=1),
            rated.sum(axis=1),
            null=0.5,
            bounds=unit,
            missing="undefined: no two candidates with different human scores",
        ),
        "tie_rate": Ratio(context, 2 - n_decided, 2 * ones, bounds=unit),
        "label_mass": Ratio(
            context,
            blocks["label_mass"].fillna(0),
            blocks["label_mass"].notna(),
            missing="undefined: answers are text",
        ),
    }


def _noise_floor(blocks: pd.DataFrame, trials: pd.DataFrame) -> dict[str, Ratio]:
    """Say how often two samples of one request agree: exactly from p, or counted between replicates of text answers."""
    p = blocks[["p_ij", "p_ji"]].to_numpy(float)
    if np.isin(p, (0.0, 0.5, 1.0)).all():
        seen = pairs.replicate_agreement(trials)
        missing = "undefined: one replicate only"
        ratio = Ratio(seen["context_id"], seen["agree"], seen["pairs"], bounds=(0.0, 1.0), missing=missing)
    else:
        ratio = Ratio(blocks["context_id"], (p**2 + (1 - p) ** 2).mean(axis=1), np.ones(len(p)), bounds=(0.0, 1.0))
    return {"resampling_consistency": ratio}
