"""Metrics that probes of single scores share: alpha between samples, answers that hold a score, what they cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.probes._answers import Answers, sample_count
from biaslab.stats import (
    ITEM,
    Estimate,
    Ratio,
    Resampling,
    cluster_statistic,
    estimate_alpha,
    in_order,
    sum_by_context,
    undefined,
    usable,
)

Floats = NDArray[np.float64]
_TINY = 1e-12
#: Why nothing can be said of how samples differ.
ONE_SAMPLE = "undefined: one sample of each answer, and its noise shows from two on: ask for at least 2"


def answer_alpha(given: Answers, resampling: Resampling, greedy: bool = False) -> Estimate:
    """Estimate Krippendorff's interval alpha between samples of the same question.

    Of exact distributions it is what infinitely many samples tend to: 1 less the mean variance within items over the
    variance of all scores together. Greedy samples are equal, so that one was asked; their 1 has no uncertainty.
    """
    if not greedy:
        return _alpha(given, resampling)
    alpha, note = _alpha(given.repeated(), resampling), "1 by construction: greedy answers are equal"
    return replace(alpha, ci_low=1.0, ci_high=1.0, method="none", note=note) if alpha.estimate == 1 else alpha


def _alpha(given: Answers, resampling: Resampling) -> Estimate:
    if given.samples is not None and len(given.samples) < 2:
        return undefined(ONE_SAMPLE)
    if given.samples is not None:
        replicate, item = np.nonzero(np.isfinite(given.samples))
        found = given.items.iloc[item][list(ITEM)]
        scores = found.assign(annotator=replicate, score=given.samples[replicate, item])
        return estimate_alpha(scores, resampling, units=list(ITEM))
    values = np.array(given.scale.values) - np.mean(given.scale.values)
    mean, square = given.weights @ values, given.weights @ values**2
    sums, _ = sum_by_context(resampling.cluster_of(given.context), np.ones(len(mean)), mean, square, square - mean**2)
    sums = in_order(sums)

    def alpha(weights: Floats) -> Floats:
        n, first, second, within = (weights @ sums).T
        total = second / n - (first / n) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > _TINY, 1 - within / n / total, np.nan)

    missing = "undefined: all scores are the same"
    return cluster_statistic(alpha, len(sums), resampling, bounds=(-1.0, 1.0), missing=missing)


def parse_rate(asked: pd.DataFrame) -> Ratio:
    """Say which answers hold a score; the trials of all labels are one answer, or as many as were counted."""
    answers = asked.drop_duplicates([*ITEM, "replicate"])
    read = answers.index.isin(usable(answers).index).astype(float)
    if sample_count(answers):
        read = answers["label_mass"].fillna(0.0).to_numpy(float)
    return Ratio(answers["context_id"], read, np.ones(len(answers)), bounds=(0.0, 1.0))


def token_count(asked: pd.DataFrame, n: int) -> Ratio:
    """Say how many tokens n answers about one item cost, read and written."""
    answers = asked.drop_duplicates([*ITEM, "replicate"])
    each = answers["tokens"] / (sample_count(answers) or 1)
    return Ratio(answers["context_id"], n * each, np.ones(len(answers)))
