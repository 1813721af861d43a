"""Positional bias: does a judge prefer what stands first? (Liusie et al. 2024, §3.5, Tables 5, 9)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from scipy.special import logit

from biaslab import prompts
from biaslab.core import Calibration, Choice, Completion, Reply, Request, Status, Trial
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.parsing import parse_choice
from biaslab.stats import pairs
from biaslab.stats.frame import Ratio, choose_metrics, estimates_frame, ratio_rows, require_columns
from biaslab.stats.resampling import Resampling

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
    therefore have a t test, and with fewer than 20 contexts a t interval (`biaslab.stats.t_tests`); everything else has
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
    answer: Literal["distribution", "text"] = "distribution"
    ties: bool = False
    replicates: int = 1
    temperature: float = 1.0
    gap_bins: int = 4
    seed: int = 0
    resampling: Resampling = field(default_factory=Resampling)

    def __post_init__(self) -> None:
        if isinstance(self.attributes, str):
            raise InputError("attributes", self.attributes, "a list of names", f"write [{self.attributes!r}]")
        if not self.templates or set(self.templates) - {1, 2}:
            raise InputError("templates", self.templates, "a list of 1 and/or 2")
        if self.answer not in ("distribution", "text"):
            raise InputError("answer", self.answer, "distribution or text")
        for name in ("n_pairs", "replicates", "gap_bins"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InputError(name, value, "a whole number of at least 1")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError("seed", self.seed, "a whole number of at least 0")
        if self.answer == "distribution" and self.replicates > 1:
            raise InputError("replicates", self.replicates, '1 where answer is "distribution"', 'choose answer="text"')

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every drawn pair in both orders, for each attribute, template and replicate."""
        attributes = dataset.require_attributes(self.attributes)
        means = dataset.human_means.to_dict()
        for context_id, rows in dataset.candidates.groupby("context_id", sort=False):
            texts = dict(zip(rows["candidate_id"], rows["text"], strict=True))
            pairs = self._draw(str(context_id), list(texts))
            for (first, second), attribute, template in product(_both(pairs), attributes, self.templates):
                score = means[attribute]
                gap = float(score[context_id, first] - score[context_id, second])
                shown = (str(rows["context"].iloc[0]), texts[first], texts[second])
                prompt = self._prompt(dataset, template, shown, attribute)
                for replicate in range(self.replicates):
                    yield Trial(
                        request=self._request(prompt, dataset.noun, replicate),
                        context_id=str(context_id),
                        attribute=attribute,
                        candidate_id=first,
                        opponent_id=second,
                        replicate=replicate,
                        condition={"template": template, "human_gap": gap},
                        labels=_labels(dataset.noun, self.ties),
                    )

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the first wins, and the status."""
        if isinstance(trial.request, Choice):
            return _read_distribution(reply.logprobs or ())
        chosen, status = parse_choice(reply.text, trial.labels)
        if chosen is None:
            return float("nan"), status
        return (0.5, "tie") if chosen == 2 else (1.0 - chosen, "ok")

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
        rng = np.random.default_rng([self.seed, zlib.crc32(context_id.encode())])
        return [pairs[i] for i in sorted(rng.choice(len(pairs), self.n_pairs, replace=False))]

    def _prompt(self, dataset: Dataset, template: int, shown: tuple[str, str, str], attribute: str) -> str:
        context, first, second = shown
        return prompts.render(
            f"comparative_{template}",
            context=context,
            first=first,
            second=second,
            noun=dataset.noun,
            attribute=attribute,
            definition=dataset.attributes[attribute],
            ties=self.ties,
        )

    def _request(self, prompt: str, noun: str, replicate: int) -> Request:
        if self.answer == "distribution":
            return Choice(prompt, _labels(noun, self.ties))
        return Completion(prompt, self.temperature, max_tokens=32, replicate=replicate, seed=self.seed)


def _both(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [order for pair in pairs for order in (pair, pair[::-1])]


def _labels(noun: str, ties: bool) -> tuple[str, ...]:
    name = noun.capitalize()
    return (f"{name} A", f"{name} B", "Tie") if ties else (f"{name} A", f"{name} B")


def _read_distribution(logprobs: Sequence[float]) -> tuple[float, Status]:
    if not logprobs or not np.isfinite(logprobs[:2]).any():
        tied = len(logprobs) > 2 and np.isfinite(logprobs[2])
        return (0.5, "tie") if tied else (float("nan"), "refused")
    first, second = logprobs[:2]
    p = float(1 / (1 + np.exp(np.clip(second - first, -700, 700))))
    tie = first == second or (len(logprobs) > 2 and logprobs[2] > max(first, second))
    return p, "tie" if tie else "ok"


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
