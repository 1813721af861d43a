"""Effects of an edit on scores: items scored unedited, with the edit, and with the null edit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Floats
from biaslab.core.errors import MissingDataWarning
from biaslab.core.scales import REWARD, Scale, scale_named
from biaslab.probes._edit_metrics import EDITED, NULL, UNEDITED, VARIANTS
from biaslab.probes.base import Cell, Estimable, Part, mean_of
from biaslab.stats import ITEM, Estimate, Ratio, Resampling, cluster_statistic, is_rounding, sum_by_context, undefined
from biaslab.stats.ratio_test import RatioTest

_SAME = 1e-9  # smaller variances are rounding error


def score_parts(cell: Cell) -> Iterator[Part]:
    """Yield the metrics of one edit, from scores."""
    trials, scale = touched(cell), scale_named(str(cell.trials["scale"].iloc[0]))
    bounds = scale.low, scale.high
    contrast = whole(cell, trials, "variant", (EDITED, NULL), loud=True)
    excess = cell.bounded(partial(_shift, bounds, (EDITED, NULL)), contrast, "variant", (EDITED, NULL), bounds)
    yield Part({"score_excess": excess}, contrast, note=cell.note_missing(contrast, "variant", (EDITED, NULL)))
    all_three = whole(cell, trials, "variant", VARIANTS, keep=("human",))
    differences: dict[str, Estimable] = {
        "score_excess_sd": partial(_in_deviations, all_three, cell.resampling),
        "score_worth": partial(_worth, all_three, cell.resampling),
    }
    yield Part(differences, all_three)
    for variant in (EDITED, NULL):
        blocks = whole(cell, trials, "variant", (variant, UNEDITED))
        yield Part({"score_effect": _shift(bounds, (variant, UNEDITED), blocks)}, blocks, {"variant": variant})
    for variant in VARIANTS if scale is not REWARD else ():
        yield Part({"top_rate": _top_rate(all_three, variant, scale)}, all_three, {"variant": variant})


def touched(cell: Cell) -> pd.DataFrame:
    """Return the trials of texts in which the edit changes something."""
    return cell.trials[cell.trials["changed"] == 1]


def untouched(trials: pd.DataFrame, by: Sequence[str] = ITEM) -> Ratio:
    """Return the share of items in which the edit changes nothing."""
    once = trials.drop_duplicates(list(by))
    return mean_of(once, once["changed"] == 0, None, (0.0, 1.0))


def whole(
    cell: Cell,
    trials: pd.DataFrame,
    condition: str,
    levels: Sequence[str],
    keep: Sequence[str] = (),
    loud: bool = False,
) -> pd.DataFrame:
    """Put levels of a condition side by side (`Cell.blocks`); empty if one was never judged.

    Only one contrast of a cell, the ``loud`` one, warns of missing data.
    """
    lacking = [level for level in levels if level not in set(trials[condition])]
    if lacking:
        blank = pd.DataFrame({name: pd.Series(dtype=object) for name in ITEM})
        blank = blank.assign(**dict.fromkeys((*keep, *levels), pd.Series(dtype=float)))
        blank.attrs.update(n_trials=0, n_dropped=0, why=_why(trials, lacking[0]))
        return blank
    with warnings.catch_warnings():
        if not loud:
            warnings.simplefilter("ignore", MissingDataWarning)
        blocks = cell.blocks(condition, levels, keep, trials)
    blocks.attrs["why"] = f"undefined: no readable judgements as {' and '.join(levels)}"
    return blocks


def mean_over(blocks: pd.DataFrame, values: ArrayLike, bounds: tuple[float, float] | None, null: float | None) -> Ratio:
    """Return the mean of one value per item, with t test and interval over contexts if it has a null."""
    return mean_of(blocks, values, null, bounds, blocks.attrs.get("why", ""), "resampling" if null is None else "t")


def _why(trials: pd.DataFrame, lacking: str) -> str:
    if trials.empty:
        return "undefined: the edit changes none of the texts"
    return f"undefined: no text was judged as {lacking.partition(',')[0]}"


def _shift(bounds: tuple[float, float], levels: tuple[str, str], blocks: pd.DataFrame) -> Ratio:
    width = bounds[1] - bounds[0]
    return mean_over(blocks, blocks[levels[0]] - blocks[levels[1]], (-width, width), 0.0)


def _top_rate(blocks: pd.DataFrame, variant: str, scale: Scale) -> Ratio:
    """Return the share of scores nearest to the top of the scale."""
    highest = np.array(scale.values)[-2:]
    top = blocks[variant] > highest.mean()
    return mean_of(blocks, top, None, (0.0, 1.0), blocks.attrs["why"], "score")


def _in_deviations(blocks: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the mean excess divided by the standard deviation of the judge's scores of unedited texts."""
    if blocks.empty:
        return undefined(blocks.attrs["why"])
    score = blocks[UNEDITED] - blocks[UNEDITED].mean()
    sums = _summed(blocks, resampling, blocks[EDITED] - blocks[NULL], np.ones(len(blocks)), score, score**2)

    def in_deviations(weights: Floats) -> Floats:
        gained, n, first, second = (weights @ sums).T
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = second / n - (first / n) ** 2
            return np.where(variance > _SAME, gained / n / np.sqrt(np.maximum(variance, 0.0)), np.nan)

    missing = "undefined: the judge gives all texts the same score"
    return cluster_statistic(in_deviations, len(sums), resampling, 0.0, missing=missing, inference="t")


def _worth(blocks: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the mean excess in points of human score, dividing by the judge's slope on human scores within contexts.

    Both are sums over clusters, linearised, with Fieller's interval. It is infinite, and the result undefined, if the
    slope is not shown to be above 0: with a slope near 0, an excess may correspond to any number of points.

    References
    ----------
    Fieller 1954, *Some problems in interval estimation*, JRSS B 16.
    """
    rated = blocks[blocks["human"].notna()]
    if rated.empty:
        return undefined(blocks.attrs["why"] if blocks.empty else "undefined: no human scores")
    centred = rated[["human", UNEDITED]] - rated.groupby("context_id")[["human", UNEDITED]].transform("mean")
    human, score = centred["human"].to_numpy(), centred[UNEDITED].to_numpy()
    gained = rated[EDITED] - rated[NULL]
    sums = _summed(rated, resampling, gained, np.ones(len(rated)), human * score, human**2)
    gain, n, cross, square = sums.sum(axis=0)
    clusters = len(sums)
    if is_rounding(square) or clusters < 2:
        why = "human scores do not vary within contexts" if clusters > 1 else "one context only"
        return undefined(f"undefined: {why}", clusters)
    excess, slope = gain / n, cross / square
    parts = np.column_stack(
        [
            excess + (sums[:, 0] - excess * sums[:, 1]) * clusters / n,
            slope + (sums[:, 2] - slope * sums[:, 3]) * clusters / square,
        ]
    )
    low, high = RatioTest(parts).interval(resampling.level) if slope > _SAME else (-np.inf, np.inf)
    if not np.isfinite([low, high]).all():
        return undefined("undefined: the judge's scores are not shown to increase with the humans'", clusters)
    value = excess / slope
    error = float(np.std(parts[:, 0] - value * parts[:, 1], ddof=1)) / slope / np.sqrt(clusters)
    return Estimate(value, error, low, high, np.nan, np.nan, clusters, "Fieller over contexts")


def _summed(blocks: pd.DataFrame, resampling: Resampling, *values: ArrayLike) -> Floats:
    return sum_by_context(resampling.cluster_of(blocks["context_id"]), *values)[0]
