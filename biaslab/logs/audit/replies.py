"""Descriptive rates of pairwise replies of any design, counting replies with and without the other order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from biaslab.core import Metric
from biaslab.logs.audit.measure import CellMeasure
from biaslab.measures.ranking import pairs
from biaslab.probes.base import Accepted, Part, paired
from biaslab.stats import Ratio, usable

_SIDES = ("candidate_id", "opponent_id")
_UNIT = (0.0, 1.0)
_UNRATED = "undefined: no differing human scores"


@dataclass(frozen=True)
class Replies(CellMeasure):
    """Descriptive rates of pair trials; those that need human scores are omitted if there are none.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template:

    ``readable_rate`` (0–1)
        Share of replies that give a verdict.
    ``first_position_rate`` (0–1)
        Share of decisions, ties excluded, for the candidate shown first. Unlike in `biaslab.probes.Position`, replies
        without the other order count too, so it depends on the quality of candidates that are often shown first and has
        no test. ``n_trials`` counts judgements with known order. `biaslab.audit` drops it, and
        ``comparative_accuracy``, from cells in which the probe has an estimate.
    ``first_label_rate`` (0–1)
        Share of judgements in which the first label is the more likely one, if the log has its probability. Needs no
        known order of the candidates.
    ``comparative_accuracy`` (0–1)
        Share of decisions between candidates with different human scores that agree with humans.
    ``accuracy_both_orders`` (0–1)
        Share of pairs decided in agreement with humans in both orders.
    ``win_rate`` (0–1; column ``system``)
        Mean probability that a system wins, counting ties as ½; not defined for candidates that are single texts.
    ``accuracy_shown_first`` (0–1; column ``system``)
        ``comparative_accuracy`` among pairs where this candidate is shown first.
    """

    name: ClassVar[str] = "replies"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("win_rate", "win rate, ties counting ½", "share"),
        Metric("readable_rate", "replies that give a verdict", "share"),
        Metric("first_label_rate", "P(first label), whichever candidate has it", "share"),
        Metric("accuracy_both_orders", "pairs decided as the reference scores do in both orders", "share"),
        Metric("accuracy_shown_first", "pairs ordered as the reference scores do, one system shown first", "share"),
    )
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template")
    conditions: ClassVar[tuple[str, ...]] = ("system",)

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements of two candidates."""
        comparisons = paired(trials)
        return Accepted(comparisons, "needs judgements of two candidates" if comparisons.empty else "")

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics over all candidates, then per candidate, each with its number of judgements."""
        used = usable(trials)
        planned_of, read_of = _counts(trials), _counts(used)
        read = trials.index.isin(used.index)
        readable = Ratio(trials["context_id"], read, np.ones(len(trials)), bounds=_UNIT, inference="score")
        for system, ratios in (
            ("", {"readable_rate": readable, **_overall_rates(used)}),
            *_system_rates(trials, used),
        ):
            for name, ratio in ratios.items():
                planned = planned_of.get(system, len(trials))
                entering = read_of.get(system, _entering(name, used))
                yield Part({name: ratio}, (entering, planned - entering), {"system": system})


@dataclass(frozen=True)
class Subsets(CellMeasure):
    """Measure agreement with the gold label in each subset.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template × ``subset``: ``comparative_accuracy`` (null ½) and
    ``accuracy_both_orders``, defined as in `Replies`.
    """

    name: ClassVar[str] = "subsets"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template", "subset")
    primary: ClassVar[tuple[str, ...]] = ("comparative_accuracy",)

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements of two candidates with a gold label, from data sets with subsets."""
        labelled = paired(trials)
        labelled = labelled[labelled["human_gap"].fillna(0).ne(0) & labelled["subset"].fillna("").ne("")]
        several = labelled.groupby(list(self.cell[:2]))["subset"].transform("nunique") > 1
        why = "needs a gold label or human preference, and several subsets"
        return Accepted(labelled[several], "" if several.any() else why)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one subset."""
        readable = usable(trials)
        won = pd.Series(pairs.decisions(readable), readable.index)
        ratios = {
            "comparative_accuracy": pairs.comparative_accuracy(readable["context_id"], won, readable["human_gap"]),
            "accuracy_both_orders": both_orders(readable, won),
        }
        estimates = {name: ratio.estimate(self.resampling) for name, ratio in ratios.items()}
        known = {name: estimate for name, estimate in estimates.items() if not np.isnan(estimate.estimate)}
        yield Part(known, (len(readable), len(trials) - len(readable)))


def _counts(trials: pd.DataFrame) -> dict[str, int]:
    """Return the number of judgements that involve each candidate."""
    sides = [trials[name].value_counts() for name in _SIDES]
    return {str(name): int(count) for name, count in sides[0].add(sides[1], fill_value=0).items()}


def _entering(metric: str, trials: pd.DataFrame) -> int:
    """Return the number of readable judgements behind a metric."""
    if metric == "first_position_rate":
        return int(trials["order_known"].astype(bool).sum())
    return int(trials["p_first_label"].notna().sum()) if metric == "first_label_rate" else len(trials)


def _won(trials: pd.DataFrame) -> pd.Series:
    """Return `biaslab.ranking.pairs.decisions` as a series: 1 if the candidate shown first won, 0 if the second did."""
    return pd.Series(pairs.decisions(trials), trials.index)


def _overall_rates(trials: pd.DataFrame) -> dict[str, Ratio]:
    won, context = _won(trials), trials["context_id"]
    shown = won.where(trials["order_known"].astype(bool))
    ratios = {"first_position_rate": pairs.first_position_rate(context, shown, null=None)}
    label = trials["p_first_label"]
    if label.notna().any():
        chosen = (label > 0.5).astype(float).where(label.notna() & (label != 0.5))
        ratios["first_label_rate"] = pairs.first_position_rate(context, chosen, null=None)
    accuracy = pairs.comparative_accuracy(context, won, trials["human_gap"])
    if not np.asarray(accuracy.denominator).any():
        return ratios
    return ratios | {"comparative_accuracy": accuracy, "accuracy_both_orders": both_orders(trials, won)}


def both_orders(trials: pd.DataFrame, won: pd.Series) -> Ratio:
    """Return, over pairs judged in both orders, the share decided in agreement with humans in both."""
    differ = trials[trials["human_gap"].fillna(0) != 0]
    one, two = differ["candidate_id"], differ["opponent_id"]
    ahead = one < two
    right = won[differ.index] == (differ["human_gap"] > 0)
    keys = [differ["context_id"], one.where(ahead, two), two.where(ahead, one), differ["replicate"]]
    whole = right.groupby(keys).agg(["sum", "size"])
    whole = whole[whole["size"] == 2]
    context = whole.index.get_level_values(0)
    return Ratio(context, whole["sum"] == 2, np.ones(len(whole)), None, _UNIT, _UNRATED, "score")


def _systems(trials: pd.DataFrame) -> list[str]:
    """Return the candidates that have a win rate: systems, which occur in several contexts.

    If most candidates occur in a single context, they are texts. Then only candidates in at least half of the contexts,
    such as a baseline, count as systems, because others may be the same short answer to several questions.
    """
    sides = [trials[["context_id", name]].set_axis(["context", "candidate"], axis=1) for name in _SIDES]
    appearances = pd.concat(sides).drop_duplicates()
    contexts, every = appearances["candidate"].value_counts(sort=False), appearances["context"].nunique()
    texts = every > 1 and (contexts == 1).mean() > 0.5
    fewest = max(2, every / 2) if texts else min(2, every)
    return [str(name) for name in contexts.index[contexts >= fewest]]


def _system_rates(trials: pd.DataFrame, readable: pd.DataFrame) -> Iterator[tuple[str, dict[str, Ratio]]]:
    won, known = _won(readable), readable["order_known"].astype(bool)
    rated = bool((known & won.notna() & (readable["human_gap"].fillna(0) != 0)).any())
    groups = [readable.groupby(name, sort=False).groups for name in _SIDES]
    used = readable[["context_id", "value", "human_gap"]]
    for system in _systems(trials):
        shown, against = (used.loc[places.get(system, [])] for places in groups)
        context = pd.concat([shown["context_id"], against["context_id"]])
        wins = pd.concat([shown["value"], 1 - against["value"]])
        ratios = {"win_rate": Ratio(context, wins, np.ones(len(wins)), None, _UNIT, inference="score")}
        if rated:
            verdict = won[shown.index].where(known[shown.index])
            first = pairs.comparative_accuracy(shown["context_id"], verdict, shown["human_gap"], null=None)
            ratios["accuracy_shown_first"] = first
        yield system, ratios
