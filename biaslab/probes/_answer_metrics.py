"""Estimates that probes of single scores share: agreement, alpha between samples, and what the answers cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.probes._answers import Answers
from biaslab.stats import (
    ITEM,
    Agreement,
    Estimate,
    Ratio,
    Resampling,
    cluster_statistic,
    estimate_alpha,
    in_order,
    sum_by_context,
    usable,
)

Floats = NDArray[np.float64]
_TINY = 1e-12


def agree(
    agreement: Agreement, single: Agreement | None, chosen: Sequence[str], resampling: Resampling
) -> dict[str, Estimate]:
    """Estimate agreement, what it has over that of single answers, and ties."""
    found: dict[str, Estimate] = {}
    if "tie_rate" in chosen and single is not None:
        found["tie_rate"] = agreement.tie_ratio().estimate(resampling)
    if "agreement" in chosen:
        found["agreement"] = agreement.ratio().estimate(resampling)
    if "agreement_gain" in chosen and single is not None:
        found["agreement_gain"] = agreement.ratio().difference(single.ratio(), resampling)
    return found


def label_mass(cell: pd.DataFrame, resampling: Resampling) -> Estimate:
    items = cell.drop_duplicates(list(ITEM))
    mass = items["label_mass"]
    missing = "undefined: answers are text"
    return Ratio(items["context_id"], mass.fillna(0), mass.notna(), bounds=(0.0, 1.0), missing=missing).estimate(
        resampling
    )


def answer_alpha(given: Answers, resampling: Resampling) -> Estimate:
    """Estimate Krippendorff's interval alpha between samples of the same question.

    Of exact distributions it is what infinitely many samples tend to: 1 less the mean variance within items over the
    variance of all scores together.
    """
    if given.samples is not None:
        replicate, item = np.nonzero(np.isfinite(given.samples))
        found = given.items.iloc[item][list(ITEM)]
        scores = found.assign(annotator=replicate, score=given.samples[replicate, item])
        return estimate_alpha(scores, resampling, units=list(ITEM))
    values = np.array(given.scale.values) - np.mean(given.scale.values)
    mean, square = given.weights @ values, given.weights @ values**2
    sums, _ = sum_by_context(given.context, np.ones(len(mean)), mean, square, square - mean**2)
    sums = in_order(sums)

    def alpha(weights: Floats) -> Floats:
        n, first, second, within = (weights @ sums).T
        total = second / n - (first / n) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > _TINY, 1 - within / n / total, np.nan)

    missing = "undefined: all scores are the same"
    return cluster_statistic(alpha, len(sums), resampling, bounds=(-1.0, 1.0), missing=missing)


def parse_rate(asked: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Estimate the share of answers from which a score was read; the trials of all labels are one answer."""
    answers = asked.drop_duplicates([*ITEM, "replicate"])
    read = answers.index.isin(usable(answers).index)
    return Ratio(answers["context_id"], read, np.ones(len(answers)), bounds=(0.0, 1.0)).estimate(resampling)


def token_count(asked: pd.DataFrame, n: int, resampling: Resampling) -> Estimate:
    """Estimate the tokens that n answers about one item cost, read and written."""
    answers = asked.drop_duplicates([*ITEM, "replicate"])
    return Ratio(answers["context_id"], n * answers["tokens"], np.ones(len(answers))).estimate(resampling)
