"""Answers per item, as exact label distributions or samples, with their agreement, parse rate and cost."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.arrays import Floats
from biaslab.core.scales import Scale
from biaslab.probes.base.probe import Cell, Estimable, mean_of
from biaslab.stats.blocks import ITEM, number_items, sum_by_context, usable
from biaslab.stats.correlation import CorrelationMethod, Level, agreement_loss, relative_loss
from biaslab.stats.estimate import Estimate, Remark, because, undefined
from biaslab.stats.frame import warn_missing
from biaslab.stats.ratio import Ratio
from biaslab.stats.reliability import estimate_alpha
from biaslab.stats.resample import Resampling, cluster_statistic, in_order
from biaslab.stats.samples import (
    Agreement,
    agreement_within,
    draw_means,
    expected_agreement_loss,
    sample_table,
    tempered,
)

#: Columns of trials that `Answers.of` reads, in addition to ``label``, ``label_mass`` and ``samples``.
COLUMNS = (*ITEM, "human", "replicate", "value", "status")
_DRAWS = 32  # per sampled answer; the error they add is small compared with that of the contexts
_SAME = 1e-9
_TINY = 1e-12
#: Reason why the noise of samples is undefined.
ONE_SAMPLE = because("one_sample", "sampling noise needs at least 2 samples of each answer")


@dataclass(frozen=True)
class Answers:
    """A judge's answers about a set of items on one scale.

    Parameters
    ----------
    scale : Scale
        The scale of the answers.
    items : pandas.DataFrame
        One row per answered item: ``context_id, candidate_id, human``.
    chances : numpy.ndarray, shape (items, levels), optional
        Exact label distributions at temperature 1.
    samples : numpy.ndarray, shape (replicates, items), optional
        Sampled scores; NaN if unreadable. Exactly one of `chances` and `samples` is given.
    planned, entering : int
        Numbers of answers planned and used.
    counted : bool
        Whether the judge counted the samples (`biaslab.Sampled`), at temperature 1; their order is then random.
    """

    scale: Scale
    items: pd.DataFrame
    chances: Floats | None
    samples: Floats | None
    planned: int
    entering: int
    counted: bool = False

    @classmethod
    def of(cls, trials: pd.DataFrame, scale: Scale) -> Answers:
        """Build from the trials of one cell: trials of labels (with a ``label``) or of texts."""
        trials = trials.sort_values(list(ITEM), kind="stable")
        read = usable(trials)
        codes, first = number_items(read)
        items = read.iloc[first][[*ITEM, "human"]].reset_index(drop=True)
        value = read["value"].to_numpy(float)
        if "label" in trials.columns and trials["label"].notna().any():
            levels = len(scale.values)
            chances = np.zeros((len(items), levels))
            k = sample_count(trials)
            shares = value * read["label_mass"].to_numpy(float) * k if k else value
            chances[codes, np.searchsorted(scale.values, read["label"].to_numpy(float) - _SAME)] = shares
            if k:
                samples = _listed(np.rint(chances).astype(int), np.array(scale.values), k)
                planned = k * (len(trials) // levels)
                return cls(scale, items, None, samples, planned, int(np.isfinite(samples).sum()), counted=True)
            return cls(scale, items, chances, None, len(trials) // levels, len(read) // levels)
        samples = np.full((int(trials["replicate"].max()) + 1, len(items)), np.nan)
        samples[read["replicate"].to_numpy(np.intp), codes] = value
        return cls(scale, items, None, samples, len(trials), len(read))

    @property
    def context(self) -> pd.Series:
        """The context of each item."""
        return self.items["context_id"]

    @cached_property
    def weights(self) -> Floats:
        """Probability of each level for each item, shape (items, levels): exact, or shares of samples.

        Samples between two levels are not counted, so rows may sum to less than 1.
        """
        if self.chances is not None:
            return self.chances
        assert self.samples is not None  # noqa: S101 - one of the two is there
        counts = np.maximum(np.isfinite(self.samples).sum(axis=0), 1)
        at = (np.abs(self.samples[:, :, None] - np.array(self.scale.values)) < _SAME).sum(axis=0)
        return np.asarray(at / counts[:, None])

    @cached_property
    def expected(self) -> Floats:
        """The expected score of each item, or the mean of its samples; shape (items,)."""
        if self.chances is not None:
            return np.asarray(self.chances @ np.array(self.scale.values))
        assert self.samples is not None  # noqa: S101
        return _mean(self.samples)

    def at_temperature(self, temperature: float) -> Answers:
        """Return the label distributions at another temperature, p_T ∝ p^{1/T}; 0 is greedy."""
        assert self.chances is not None  # noqa: S101
        with np.errstate(divide="ignore"):
            return replace(self, chances=tempered(np.log(self.chances), temperature))

    @cached_property
    def index(self) -> pd.MultiIndex:
        """Context and candidate of each item."""
        return pd.MultiIndex.from_frame(self.items[list(ITEM)])

    def repeated(self) -> Answers:
        """Return answers with every sample duplicated."""
        return self if self.samples is None else replace(self, samples=np.repeat(self.samples, 2, axis=0))

    def only(self, wanted: pd.MultiIndex) -> Answers:
        """Return the answers for a subset of items."""
        if self.index.equals(wanted):
            return self
        kept = self.index.isin(wanted)
        chances = None if self.chances is None else self.chances[kept]
        samples = None if self.samples is None else self.samples[:, kept]
        entering = int(kept.sum()) if samples is None else int(np.isfinite(samples).sum())
        items = self.items[kept].reset_index(drop=True)
        return replace(self, items=items, chances=chances, samples=samples, entering=entering)

    @cached_property
    def most(self) -> int:
        """The largest number of samples of an item (0 without samples), which limits means."""
        return 0 if self.samples is None else int(np.isfinite(self.samples).sum(axis=0).max(initial=0))

    def means(self, n: int, seed: tuple[int, ...]) -> Floats:
        """Return means of n answers, shape (draws, items): drawn from the distribution, or over n replicates at a time.

        With fewer than n replicates the mean is over all of them. Unreadable answers are left out.
        """
        if self.chances is not None:
            return draw_means(self.chances, self.scale.values, n, _DRAWS, np.random.default_rng([*seed, n]))
        assert self.samples is not None  # noqa: S101
        n = min(n, len(self.samples))
        groups = [self.samples[start : start + n] for start in range(0, len(self.samples) - n + 1, n)]
        return np.array([_mean(group) for group in groups])

    def agreement(self, drawn: Floats) -> Agreement:
        """Correlate draws of shape (draws, items) with the human scores, within contexts."""
        return agreement_within(self.context, drawn, self.items["human"].to_numpy(float))

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of answers used, and planned but dropped."""
        return self.entering, self.planned - self.entering

    def warn(self, cell: Cell, of: str) -> None:
        """Warn if more than 5 % of the planned answers are missing; ``of`` names the part of the cell."""
        missing = self.counts[1]
        warn_missing(cell.named(of), missing, self.planned, "no score could be read")


def sample_count(trials: pd.DataFrame) -> int:
    """Return the number of samples behind label shares (the maximum); 0 if the shares are exact."""
    counts = trials["samples"].dropna() if "samples" in trials else ()
    return int(max(counts, default=0))


def answer_alpha(answers: Answers, resampling: Resampling, greedy: bool = False) -> Estimate:
    """Estimate Krippendorff's interval alpha between samples of the same request.

    For exact distributions, the limit for infinitely many samples: 1 minus the mean variance within items over the
    total variance of scores. Greedy samples are equal, so only one was asked; their alpha of 1 has no uncertainty.
    """
    if not greedy:
        return _alpha(answers, resampling)
    alpha, note = _alpha(answers.repeated(), resampling), "1 by construction: greedy answers are equal"
    return replace(alpha, ci_low=1.0, ci_high=1.0, method="none", notes=(note,)) if alpha.estimate == 1 else alpha


def _alpha(answers: Answers, resampling: Resampling) -> Estimate:
    """Estimate alpha from samples or, for exact distributions, its limit; see `answer_alpha`."""
    if answers.samples is not None:
        if len(answers.samples) < 2:
            return undefined(ONE_SAMPLE)
        replicate, item = np.nonzero(np.isfinite(answers.samples))
        scores = answers.items.iloc[item][list(ITEM)]
        scores = scores.assign(annotator=replicate, score=answers.samples[replicate, item])
        return estimate_alpha(scores, resampling, units=list(ITEM))
    values = np.array(answers.scale.values) - np.mean(answers.scale.values)
    mean, square = answers.weights @ values, answers.weights @ values**2
    sums, _ = sum_by_context(resampling.cluster_of(answers.context), np.ones(len(mean)), mean, square, square - mean**2)
    sums = in_order(sums)

    def alpha(weights: Floats) -> Floats:
        n, first, second, within = (weights @ sums).T
        total = second / n - (first / n) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > _TINY, 1 - within / n / total, np.nan)

    missing = because("constant_scores", "all scores are the same")
    return cluster_statistic(alpha, len(sums), resampling, bounds=(-1.0, 1.0), missing=missing)


def parse_rate(asked: pd.DataFrame) -> Ratio:
    """Return the share of answers with a score; a label distribution counts as one answer, or as its samples."""
    answers = asked.drop_duplicates([*ITEM, "replicate"])
    read = answers.index.isin(usable(answers).index).astype(float)
    if sample_count(answers):
        read = answers["label_mass"].fillna(0.0).to_numpy(float)
    return mean_of(answers, read, None, (0.0, 1.0))


def token_count(asked: pd.DataFrame, n: int) -> Ratio:
    """Return the tokens of n answers about one item, input plus output."""
    answers = asked.drop_duplicates([*ITEM, "replicate"])
    return mean_of(answers, n * (answers["tokens"] / (sample_count(answers) or 1)))


def _listed(counts: NDArray[np.int_], values: Floats, k: int) -> Floats:
    """List counted samples, shape (k, items), in random order; NaN for those without a label."""
    samples = np.full((k, len(counts)), np.nan)
    for item, count in enumerate(counts):
        samples[: count.sum(), item] = np.repeat(values, count)
    return np.random.default_rng(k).permuted(samples, axis=0)


def name_seed(seed: int, where: Mapping[str, Any]) -> tuple[int, int]:
    """Return a seed for the random draws of one cell, independent of other cells."""
    return seed, zlib.crc32(" ".join(map(str, where.values())).encode())


def _mean(samples: Floats) -> Floats:
    """Return the mean over non-missing rows; NaN if all are missing."""
    finite = np.isfinite(samples)
    count = finite.sum(axis=0)
    total = np.where(finite, samples, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


_NO_NOISE = "the score {condition!r} was sampled once, so the noise that lowers agreement is unknown"
_ONCE = because("one_sample", f"{_NO_NOISE}; use {{remedy}}")
_COUNTED = "scores are means of {samples} counted samples with unknown noise"
_SHARES = because("counted_samples", f'{_COUNTED}; use answer="text" and {{remedy}}')


@dataclass(frozen=True)
class Losses:
    """Differences of agreement between conditions of one cell.

    Parameters
    ----------
    blocks : pandas.DataFrame
        One row per item: `biaslab.stats.blocks.whole_blocks`.
    samples : mapping of str to numpy.ndarray, each of shape (items, replicates)
        The samples behind the means of sampled conditions.
    why_not : Note or str
        Why differences are undefined; empty if they are defined.
    """

    blocks: pd.DataFrame
    samples: Mapping[str, Floats]
    why_not: Remark

    @classmethod
    def of(cls, cell: Cell, blocks: pd.DataFrame, condition: str, levels: Collection[str], remedy: str) -> Losses:
        """Build from a cell with sampled text under the conditions ``levels``; ``remedy`` completes the message."""
        if k := sample_count(cell.trials):
            return cls(blocks, {}, _SHARES.with_values(samples=int(k), remedy=remedy))
        if cell.where["answer"] != "text" or not levels:
            return cls(blocks, {}, "")
        sampled = cell.trials[cell.trials[condition].isin(levels)]
        index = pd.MultiIndex.from_frame(blocks[list(ITEM)])
        tables = {name: sample_table(sampled[sampled[condition] == name]).reindex(index) for name in levels}
        once = [name for name, table in tables.items() if len(blocks) and not (table.notna().sum(axis=1) > 1).any()]
        why_not = _ONCE.with_values(condition=once[0], remedy=remedy) if once else ""
        return cls(blocks, {name: table.to_numpy(float) for name, table in tables.items()}, why_not)

    def loss(
        self, cell: Cell, pair: tuple[str, str], level: Level, method: CorrelationMethod, relative: bool = False
    ) -> Estimable:
        """Return the agreement under the first condition minus that under the second, or relative to the first.

        Uses `agreement_loss` or `relative_loss` for exact scores, `expected_agreement_loss` for samples.
        """
        if self.why_not:
            return undefined(self.why_not, self.blocks["context_id"].nunique())
        samples = {name: scores for name, scores in self.samples.items() if name in pair}
        one, two = pair
        if samples:
            corrected = partial(expected_agreement_loss, self.blocks, one, two, "human", samples, relative=relative)
            return partial(corrected, resampling=cell.resampling, level=level, method=method)
        estimate = relative_loss if relative else agreement_loss
        return partial(estimate, self.blocks, one, two, "human", cell.resampling, level, method)
