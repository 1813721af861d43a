"""Covariates at equal human label: whether items with more of something score higher than people's labels justify."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from biaslab.core.metrics import Metric
from biaslab.logs.audit.measures import CellMeasure
from biaslab.probes.base.feature_probe import (
    allowing_for_crowding,
    bounded_scale,
    kept_columns,
    slope_given_quality,
)
from biaslab.probes.base.probe import Accepted, Part, rated
from biaslab.stats.blocks import whole_blocks
from biaslab.stats.estimate import Estimate, Note, because, undefined

_MOST = 20  # levels of a column of words that are compared
_UNBOUNDED = because("unbounded_scale", "the scale has no ends, so that nothing is a share of it")
_CONSTANT = because("constant_covariate", "{covariate} has one value where people's labels are known")
_MANY = because("many_levels", "{covariate} has {levels} values: group them into at most {most}")
_SLOPE = Metric(
    "covariate_slope",
    "score per SD of a covariate",
    "widths of the scale",
    null=0.0,
    above="scores items with more of it higher at the same human label",
    below="scores items with more of it lower at the same human label",
    advice="compare scores only where the covariate is equal, or adjust them for it",
    use="comparing items that differ in the covariate",
    matters=0.05,
    primary=True,
)


@dataclass(frozen=True)
class Covariates(CellMeasure):
    """Regress scores on a column that the user names, at equal human label.

    Parameters
    ----------
    resampling : Resampling
        Confidence level and resampling of the estimates.
    reliability : float, optional
        Reliability that is declared of people's labels.
    covariates : sequence of str
        Columns of the trials: numbers, or words with at most 20 different values.

    Notes
    -----
    Estimates, one per judge × data set × attribute × configuration × scale × ``covariate`` (× ``contrast``, for words),
    over all items with a human label, clustered by context:

    ``covariate_slope`` (primary; null 0)
        How much higher an item scores per standard deviation of a column of numbers, at the same human label.
    ``covariate_contrast`` (primary; null 0)
        The same for a column of words: how much higher items with one value score than those with the most frequent
        one, each value against it.

    Both are in widths of the scale: on a 0–1 scale of pass and fail, how much likelier "pass" is; on a 1–5 scale, .05
    is .2 points. Missing and infinite values of the column are left out.

    Labels err. With several ratings per item, their error is removed; with one, interval and test hold for every
    reliability from .5 to 1, of pass and fail from .3: see `biaslab.probes.base.feature_probe.slope_given_quality`.
    """

    name: ClassVar[str] = "covariate"
    metrics: ClassVar[tuple[Metric, ...]] = (
        _SLOPE,
        replace(
            _SLOPE,
            name="covariate_contrast",
            label="score for a value of a covariate",
            above="scores items with the first value higher at the same human label",
            below="scores items with the first value lower at the same human label",
        ),
    )
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "configuration", "scale")
    conditions: ClassVar[tuple[str, ...]] = ("covariate", "contrast")

    covariates: Sequence[str] = ()

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select items that people labelled too."""
        scores = rated(trials)
        why = "needs people's labels or scores of the same items: in the log, or from a data set"
        return Accepted(scores, why if scores.empty else "")

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the slope of each covariate and contrast."""
        for name in self.covariates:
            contrasts = _contrasts(trials[name])
            if isinstance(contrasts, Note):
                why = undefined(contrasts.with_values(covariate=name, **contrasts.values))
                yield Part({"covariate_slope": why}, (0, 0), {"covariate": name, "contrast": ""})
                continue
            for contrast, values in contrasts.items():
                chosen = trials.loc[values.index].assign(kind="score", covariate=values)
                items = whole_blocks(chosen, "kind", ["score"], None, ("human", "covariate", *kept_columns(trials)))
                slope = _slope(items, name, contrast, self)
                metric = "covariate_contrast" if contrast else "covariate_slope"
                yield Part({metric: slope}, items, {"covariate": name, "contrast": contrast})


def _slope(items: pd.DataFrame, name: str, contrast: str, measure: Covariates) -> Estimate:
    """Return the slope over items, per standard deviation of the covariate unless it is a contrast."""
    spread = float(items["covariate"].std()) if len(items) > 1 else 0.0
    if not spread > 0:
        return undefined(_CONSTANT.with_values(covariate=name))
    scale = bounded_scale(items["scale"].iloc[0])
    if scale is None:
        return undefined(_UNBOUNDED)
    unit = (scale.high - scale.low, 1.0 if contrast else spread)
    given = items.assign(score=items["score"] / unit[0], covariate=items["covariate"] / unit[1])

    def slope(given: pd.DataFrame, *terms: str) -> Estimate:
        return slope_given_quality(given, "covariate", measure.resampling, False, terms, measure.reliability)

    return allowing_for_crowding(
        slope(given),
        lambda square: slope(given.assign(squared_human=square), "squared_human"),
        items,
        "covariate",
        measure.resampling,
        False,
    )


def _contrasts(column: pd.Series) -> dict[str, pd.Series] | Note:
    """Return each contrast of a column, as a number for each trial that it compares, or why there is none.

    Examples
    --------
    >>> {name: values.tolist() for name, values in _contrasts(pd.Series(["de", "en", "", "en"])).items()}
    {'de vs en': [1.0, 0.0, 0.0]}
    >>> {name: values.tolist() for name, values in _contrasts(pd.Series(["3", None, "inf", "5"])).items()}
    {'': [3.0, 5.0]}
    """
    words = column.dropna().astype(str).str.strip()
    numbers = pd.to_numeric(words, errors="coerce").astype(float)
    known = ~words.str.lower().isin(["", "nan"]) & ~np.isinf(numbers)
    words, numbers = words[known], numbers[known]
    levels = words.value_counts().index
    if len(levels) < 2:
        return _CONSTANT
    if numbers.notna().all():
        return {"": numbers}
    if len(levels) > _MOST:
        return _MANY.with_values(levels=len(levels), most=_MOST)
    pairs = {level: words[words.isin([level, levels[0]])] for level in levels[1:]}
    return {f"{level} vs {levels[0]}": (pair == level).astype(float) for level, pair in pairs.items()}
