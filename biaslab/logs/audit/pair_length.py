"""Length bias in recorded pairs: how often the longer text wins, overall and adjusted for the gold label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from biaslab.core import Comparison, Metric
from biaslab.core.arrays import Bools, Floats
from biaslab.logs.audit.measure import CellMeasure
from biaslab.measures.ranking import pairs
from biaslab.probes.base import Accepted, Part, paired
from biaslab.stats import Ratio, usable

_USED = ("context_id", "value", "status", "human_gap", "words", "opponent_words")
_UNIT = (0.0, 1.0)
_FEWEST = 2  # minimum decisions per kind


@dataclass(frozen=True)
class PairLength(CellMeasure):
    """Measure length bias in pairs: how often the longer of two texts wins.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template, from decisions (ties excluded) between texts of
    different length in words:

    ``longer_wins`` (0–1)
        Share of decisions for the longer text. Not a bias by itself: longer texts may be better.
    ``longer_better`` (0–1)
        Share of the same pairs in which people, or the gold label, prefer the longer text.
    ``longer_wins_when_better``, ``longer_wins_when_worse`` (0–1)
        ``longer_wins`` among pairs in which people prefer the longer text, and in which they prefer the shorter one.
    ``longer_wins_at_equal_gold`` (primary; 0–1, null ½)
        Unweighted mean of these two. It is ½ for a judge that is equally accurate whether the longer or the shorter
        text is better, regardless of its accuracy and of how often the longer text is better. The type-I error was .043
        to .051 for judges with an accuracy of .65 to .9, in 800 simulated studies each of 40, 120 and 400 pairs, and of
        60 contexts with two pairs; the longer text was better in two thirds of the pairs.
    """

    name: ClassVar[str] = "pair_length"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "longer_wins_at_equal_gold",
            "P(the longer wins) at equal gold label",
            "share",
            null=0.5,
            above="prefers the longer text where the gold label does not",
            below="prefers the shorter text where the gold label does not",
            advice="compare texts of similar length, or adjust for it",
            use="comparing texts of different length",
            matters=0.05,
            primary=True,
            comparison=Comparison("verdicts on pairs with gold labels"),
        ),
        Metric("longer_wins", "P(the longer wins)", "share"),
        Metric("longer_better", "P(the longer is the better one) by the gold label", "share"),
        Metric("longer_wins_when_better", "P(the longer wins) where it is the better one", "share"),
        Metric("longer_wins_when_worse", "P(the longer wins) where it is the worse one", "share"),
    )
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements of two texts with known, different lengths."""
        comparisons = paired(trials)
        known = (
            (comparisons["words"] > 0)
            & (comparisons["opponent_words"] > 0)
            & (comparisons["words"] != comparisons["opponent_words"])
        )
        why = "needs the lengths of both texts of a pair: words and opponent_words, or the texts"
        kept = comparisons.loc[known.to_numpy(), [*self.cell, *_USED]]  # of millions of rows, a copy of all is large
        return Accepted(kept, _left_out(comparisons, known) if known.any() else why)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell, each with its number of decisions."""
        readable = usable(trials)
        for name, ratio in _ratios(readable).items():
            entering = int(np.asarray(ratio.denominator).astype(bool).sum())
            yield Part({name: ratio}, (entering, len(trials) - len(readable)))


def _left_out(comparisons: pd.DataFrame, known: pd.Series) -> str:
    """Return a note on how many judgements are uninformative about length, and why; empty if there are none."""
    if known.all():
        return ""
    equal = int((comparisons["words"] > 0).mul(comparisons["words"] == comparisons["opponent_words"]).sum())
    counts = {"of texts of equal length": equal, "without the lengths of both texts": int((~known).sum()) - equal}
    reasons = ", ".join(f"{number:,} {why}" for why, number in counts.items() if number)
    return f"leaves out {int((~known).sum()):,} of {len(comparisons):,} judgements: {reasons}"


def _ratios(trials: pd.DataFrame) -> dict[str, Ratio]:
    first_longer = (trials["words"] > trials["opponent_words"]).to_numpy()
    first = pairs.decisions(trials)
    decided = ~np.isnan(first)
    won = np.where(decided, np.where(first_longer, first, 1 - first), 0.0)
    context = trials["context_id"]
    missing = "undefined: no decision between texts of different length"
    ratios = {"longer_wins": Ratio(context, won, decided.astype(float), None, _UNIT, missing, "score")}
    gap = trials["human_gap"].to_numpy(float) * np.where(first_longer, 1, -1)
    better, worse = decided & (gap > 0), decided & (gap < 0)
    if min(better.sum(), worse.sum()) < _FEWEST:
        return ratios
    either = (better | worse).astype(float)
    return ratios | {
        "longer_better": Ratio(context, better.astype(float), either, None, _UNIT, inference="score"),
        "longer_wins_when_better": Ratio(context, won * better, better.astype(float), None, _UNIT, inference="score"),
        "longer_wins_when_worse": Ratio(context, won * worse, worse.astype(float), None, _UNIT, inference="score"),
        "longer_wins_at_equal_gold": _standardised(context, won, better, worse),
    }


def _standardised(context: pd.Series, won: Floats, better: Bools, worse: Bools) -> Ratio:
    """Return the mean of the two shares as a ratio whose variance comes only from within each kind of pair.

    The difference between the two shares reflects the judge's accuracy, not sampling error. The variance of each share
    adds one success and one failure, as Agresti and Caffo (2000) do for differences of proportions, and is unbiased.
    """
    shares = {True: float(won[better].mean()), False: float(won[worse].mean())}
    mean = sum(shares.values()) / 2
    weight, spread = np.zeros(len(won)), np.zeros(len(won))
    for kind, share in ((better, shares[True]), (worse, shares[False])):
        n = int(kind.sum())
        likely = (share * n + 1) / (n + 2)
        wider = likely * (1 - likely) / (share * (1 - share)) if 0 < share < 1 else 1.0
        weight[kind] = (better | worse).sum() / (2 * n)
        spread[kind] = (won[kind] - share) * np.sqrt(wider * n / (n - 1))
    return Ratio(context, (spread + mean) * weight, weight, 0.5, inference="t")
