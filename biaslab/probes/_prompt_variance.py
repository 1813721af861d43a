"""Variance components of scores or verdicts on pairs: prompt, items and resampling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.arrays import Floats
from biaslab.measures.ranking import pairs
from biaslab.probes.base import Cell, Part
from biaslab.stats import (
    ITEM,
    Crossed,
    Estimate,
    Fit,
    Ratio,
    Resampling,
    cluster_statistic,
    estimate_alpha,
    fit_components,
    is_rounding,
    number_items,
    over_clusters,
    spread_of_means,
    undefined,
    usable,
)

#: Variance components of scores, and of verdicts on pairs.
OF_SCORES = ("context", "item", "template", "item × template", "resampling")
OF_PAIRS = ("pair", "order", "pair × order", "order × template", "pair × template", "resampling")
#: Components that depend on the prompt.
OF_PROMPTS = frozenset({"template", "item × template", "order × template", "pair × template"})
_GROUPS = 20  # groups of contexts to leave out together when a mixed model is refitted
_UNKNOWN = "undefined: sampling noise needs at least two texts per request (replicates=2)"
_MERGED = "resampling noise cannot be separated and is part of {crossing} × template"


@dataclass(frozen=True, eq=False)
class Shares:
    """Variance components of the scores of items judged under every template.

    Parameters
    ----------
    names : ndarray, shape (contexts,)
        Names of the contexts.
    crossed : Crossed
        Scores of all items; for pairs the probability of the first, with the two orders of pair k at k and k + half.
    pairs : bool
        Whether the items are pairs.
    fit : {"anova", "reml"}
        As in `biaslab.stats.fit_components`.
    sampled : bool
        Whether answers are samples.
    """

    names: NDArray[Any]
    crossed: Crossed
    pairs: bool
    fit: Fit
    sampled: bool
    _fitted: dict[bytes, dict[str, Floats]] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: pd.DataFrame, trials: pd.DataFrame, templates: Sequence[str], pairs: bool, fit: Fit) -> Shares:
        """Build from blocks of items and the trials with their samples.

        Parameters
        ----------
        blocks : pandas.DataFrame
            From `biaslab.probes.base.Cell.blocks`: one row per item, one column per template.
        trials : pandas.DataFrame
            Trials of the cell, with the same item names.
        templates : sequence of str
            The columns, in order.
        pairs, fit
            As above.
        """
        if pairs:
            blocks = _in_both_orders(blocks)
        codes, names = pd.factorize(blocks["context_id"])
        scores = blocks[list(templates)].to_numpy(float)
        sampled = not _is_exact(trials)
        spread = _spread(blocks, trials, templates) if sampled and len(blocks) else (None, None, None)
        return cls(np.asarray(names, object), Crossed(codes, scores, *spread), pairs, fit, sampled)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the components."""
        return OF_PAIRS if self.pairs else OF_SCORES

    def share(self, wanted: Sequence[str], resampling: Resampling) -> Estimate:
        """Estimate the share of some components in the variance, with an interval over contexts."""
        if self.crossed.why_undefined:
            return undefined(self.crossed.why_undefined, len(self.names))
        if wanted == ["item"] and np.bincount(self.crossed.context).max() == 1:
            return undefined("undefined: one item per context, so item variance is part of context", len(self.names))
        unknown = self.sampled and math.isnan(self._parts(np.ones((1, len(self.names))))["resampling"][0])
        if wanted == ["resampling"] and (unknown or not self.sampled):
            return undefined(_UNKNOWN, len(self.names)) if unknown else self._nothing()

        def statistic(weights: Floats) -> Floats:
            parts = self._parts(weights)
            total = sum(np.nan_to_num(part) if name == "resampling" else part for name, part in parts.items())
            with np.errstate(invalid="ignore"):  # 0 / 0
                return np.asarray(sum(parts[name] for name in wanted) / total)

        grouped, n = over_clusters(statistic, self.names, self._groups(resampling))
        why = "undefined: no variance, or the mixed model does not converge"
        share = cluster_statistic(grouped, n, resampling, missing=why, scale="plain")
        merged = _MERGED.format(crossing="pair" if self.pairs else "item")
        return _within_bounds(share, len(self.names), merged if unknown else "")

    def spread(self, resampling: Resampling) -> Estimate:
        """Estimate the standard deviation of the templates' means, and test whether they are all equal."""
        scores, clusters = self.crossed.scores, resampling.cluster_of(self.names)
        codes, names = pd.factorize(pd.Index(clusters))
        home = codes[self.crossed.context] if len(scores) else self.crossed.context
        apart = scores - scores.mean(axis=1, keepdims=True) if len(scores) else scores
        apart = np.where(is_rounding(apart, np.abs(scores).max(initial=0.0)), 0.0, apart)
        sums = np.zeros((len(names), scores.shape[1]))
        np.add.at(sums, home, apart)
        return spread_of_means(sums, np.bincount(home, minlength=len(names)).astype(float), resampling)

    def _parts(self, weights: Floats) -> dict[str, Floats]:
        key = weights.tobytes()
        if key not in self._fitted:
            self._fitted[key] = self._of_pairs(weights) if self.pairs else self._of_scores(weights)
        return self._fitted[key]

    def _of_scores(self, weights: Floats) -> dict[str, Floats]:
        fitted = fit_components(self.crossed, weights, self.fit)
        values = fitted.context, fitted.item, fitted.condition, fitted.interaction, fitted.sampling
        return dict(zip(OF_SCORES, values, strict=True))

    def _of_pairs(self, weights: Floats) -> dict[str, Floats]:
        """Split verdicts in both orders into a position part, (p_ij + p_ji) / 2, and a candidate part.

        The mean square of verdicts about ½ is the sum of both parts. Which candidate of a pair is named first is
        arbitrary, so the candidate part has mean 0, and a template can only change it pair by pair.
        """
        half, j = len(self.crossed.scores) // 2, self.crossed.scores.shape[1]
        one, two = self.crossed.scores[:half], self.crossed.scores[half:]
        first, better = (one + two) / 2, (one - two) / 2
        context = self.crossed.context[:half]
        size = len(self.names)
        columns = np.ones(half), first.mean(axis=1) - 0.5, better.sum(axis=1) ** 2, (better**2).sum(axis=1)
        n, mean, sums, squares = (np.bincount(context, column, size) for column in columns)
        total, groups = weights @ n, weights.sum(axis=1)
        position = (weights @ mean) / total
        apart = weights @ mean**2 - 2 * position * (weights @ (mean * n)) + position**2 * (weights @ n**2)
        order = position**2 - apart * groups / (groups - 1) / total**2
        pair = (weights @ (sums - squares)) / total / (j * (j - 1))
        fitted = fit_components(Crossed(context, first), weights, self.fit)
        sampling, noise = self.crossed.sampling(weights)
        crossing = fitted.interaction + (weights @ squares) / total / j - pair - noise
        values = pair, order, fitted.context + fitted.item, fitted.condition, crossing, sampling
        return dict(zip(OF_PAIRS, values, strict=True))

    def _groups(self, resampling: Resampling) -> Resampling:
        """Group contexts if leaving out each one would require refitting a mixed model."""
        if self.fit == "anova":
            return resampling
        codes = pd.factorize(pd.Index(resampling.cluster_of(self.names)))[0]
        return replace(resampling, clusters=dict(zip(self.names, codes % _GROUPS, strict=True)))

    def _nothing(self) -> Estimate:
        note = "exact distributions have no resampling noise"
        return Estimate(0.0, math.nan, 0.0, 0.0, math.nan, math.nan, len(self.names), "none", note)


def combined(trials: pd.DataFrame) -> pd.DataFrame:
    """Name each ordered pair as one item."""
    both = trials["candidate_id"].astype(str) + "\t" + trials["opponent_id"].astype(str)
    return trials.assign(candidate_id=both)


def _in_both_orders(blocks: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with both orders: all in one order, then the same pairs in the other."""
    names = blocks["candidate_id"].str.split("\t", n=1, expand=True) if len(blocks) else pd.DataFrame({0: [], 1: []})
    swapped = (names[0] > names[1]).to_numpy(bool)
    low, high = names[0].where(~swapped, names[1]), names[1].where(~swapped, names[0])
    keyed = blocks.set_index(pd.MultiIndex.from_arrays([blocks["context_id"], low, high]))
    one, two = keyed[~swapped], keyed[swapped]
    shared = one.index.intersection(two.index, sort=False)
    return pd.concat([one.loc[shared], two.loc[shared]], ignore_index=True)


def _is_exact(trials: pd.DataFrame) -> bool:
    """Return whether answers are full distributions rather than texts or counted samples."""
    mass = _column(trials, "label_mass")[trials["value"].notna()]
    return bool(mass.notna().all() and _column(trials, "samples").isna().all())


def _spread(
    blocks: pd.DataFrame, trials: pd.DataFrame, templates: Sequence[str]
) -> tuple[Floats | None, Floats | None, Floats | None]:
    """Return squared deviations of samples, degrees of freedom and counts, each of shape (items, templates)."""
    read = [name for name in (*ITEM, "template", "value", "samples", "form") if name in trials]
    rows = pd.concat([blocks[list(ITEM)].assign(template=None), usable(trials)[read]], ignore_index=True)
    item = number_items(rows)[0]  # the blocks' own come first
    place: Mapping[str, int] = {name: at for at, name in enumerate(templates)}
    at = rows["template"].map(place).to_numpy(float)
    chosen = (item < len(blocks)) & np.isfinite(at)
    cell = item[chosen] * len(templates) + at[chosen].astype(np.intp)
    value, counted = rows["value"].to_numpy(float)[chosen], _column(rows, "samples").to_numpy(float)[chosen]
    shape, size = (len(blocks), len(templates)), len(blocks) * len(templates)
    n, total, squares = (np.bincount(cell, column, size) for column in (np.ones(len(cell)), value, value**2))
    if np.isfinite(counted).any():  # the variance of sample shares is known; that behind a mean score is not
        known = float((_column(rows, "form").dropna() == "pair").all() and "form" in rows)
        k, p = np.bincount(cell, np.nan_to_num(counted, nan=1.0), size) / n, total / n
        columns: tuple[Any, ...] = (k * p * (1 - p) * known, (k - 1) * known, k)
    else:
        columns = np.maximum(squares - total**2 / n, 0.0), n - 1.0, n + 0.0
    ss, degrees, sizes = (np.asarray(column, float).reshape(shape) for column in columns)
    return ss, degrees, sizes


def _column(trials: pd.DataFrame, name: str) -> pd.Series:
    """Return a column, all NaN if trials lack it."""
    return trials[name] if name in trials else pd.Series(math.nan, trials.index)


def _within_bounds(share: Estimate, contexts: int, note: str) -> Estimate:
    """Clip a share and its interval to 0–1."""
    cut = "negative estimate set to 0" if share.estimate < 0 else ""
    notes = "; ".join(filter(None, (share.note, note, cut)))
    value, low, high = (float(np.clip(end, 0.0, 1.0)) for end in (share.estimate, share.ci_low, share.ci_high))
    return replace(share, estimate=value, ci_low=low, ci_high=high, n_contexts=contexts, note=notes)


def alpha_between(blocks: pd.DataFrame, names: list[str], cell: Cell) -> Estimate:
    """Return Krippendorff's interval α with templates as annotators."""
    long = blocks.melt(["context_id", "candidate_id"], names, "template", "value")
    return estimate_alpha(long, cell.resampling, annotator="template", score="value")


def flips(cell: Cell, names: Sequence[str], factors: Mapping[str, str]) -> Iterator[Part]:
    """Yield how often verdicts on pairs flip with the template, with the order, and on resampling.

    The cell's ``candidate_id`` names the ordered pair, as from `combined`; the first of ``names`` is the base.
    """
    verdicts = cell.trials.assign(value=pairs.decisions(cell.trials))
    for name in names:
        where = {"template": name, "factor": factors[name]}
        if name != names[0]:
            yield _flips_between_templates(verdicts, names[0], name, where)
        part = cell.trials[cell.trials["template"] == name]
        part = part.assign(candidate_id=part["candidate_id"].str.partition("\t")[0])
        blocks = pairs.both_orders(part, cell.what)
        rate = pairs.order_consistency(blocks["context_id"], blocks["first_ij"], blocks["first_ji"])
        yield Part({"flip_rate": _complement(rate)}, blocks, where | {"between": "order"})
        if part["replicate"].max() > 0:
            seen = pairs.replicate_agreement(part)
            again = Ratio(seen["context_id"], seen["agree"], seen["pairs"], bounds=(0.0, 1.0))
            yield Part({"flip_rate": _complement(again)}, part, where | {"between": "resampling"})


def _flips_between_templates(verdicts: pd.DataFrame, base: str, name: str, where: dict[str, str]) -> Part:
    """Compare verdicts on the same pair in the same order, replicate by replicate."""
    keys, read = ["context_id", "candidate_id", "replicate"], verdicts[verdicts["status"].isin(["ok", "tie"])]
    one, two = (read[read["template"] == each].set_index(keys)["value"] for each in (name, base))
    shared = one.index.intersection(two.index, sort=False)
    won, other = one.loc[shared].to_numpy(float), two.loc[shared].to_numpy(float)
    rate = pairs.order_consistency(shared.get_level_values(0), won, 1 - other)
    planned = int(verdicts["template"].isin([base, name]).sum())
    counts = 2 * len(shared), planned - 2 * len(shared)
    return Part({"flip_rate": _complement(rate)}, counts, where | {"between": "template"})


def _complement(same: Ratio) -> Ratio:
    """Turn an agreement rate into a rate of change."""
    numerator = np.asarray(same.denominator, float) - np.asarray(same.numerator, float)
    return replace(same, numerator=numerator, missing="undefined: no verdict with a counterpart")
