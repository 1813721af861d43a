"""Krippendorff's alpha: chance-corrected agreement of annotators, or of samples of one judge, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import krippendorff
import numpy as np
import pandas as pd
from pandas.util import hash_array

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.blocks import number_items
from biaslab.stats.estimate import Estimate, Inference, undefined
from biaslab.stats.inference import Resampling
from biaslab.stats.jackknife import Statistic, cluster_difference, cluster_statistic, over_clusters
from biaslab.stats.weighted_alpha import WeightedAlpha

Measurement = Literal["interval", "ordinal", "nominal"]
_BOUNDS = (-1.0, 1.0)
_TWO = 2  # minimum number of annotators


def krippendorff_alpha(
    scores: pd.DataFrame,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
) -> float:
    """Compute Krippendorff's alpha of tidy scores, without an interval, using the package `krippendorff`.

    Parameters
    ----------
    scores, level, units, annotator, score
        As in `estimate_alpha`; no context is needed.

    Returns
    -------
    float
        At most 1; NaN if `estimate_alpha` is undefined.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"item": [1, 1, 2, 2], "annotator": ["a", "b"] * 2, "score": [1, 1, 5, 4]})
    >>> round(krippendorff_alpha(frame), 4)
    0.9412
    """
    keys = [c for c in scores.columns if c not in (annotator, score)] if units is None else list(units)
    if _pairable(scores, level, keys, annotator, score, keys[0]).why_undefined:
        return math.nan
    wide = scores.pivot_table(score, annotator, keys)
    return float(krippendorff.alpha(wide.to_numpy(float), level_of_measurement=level))


def estimate_alpha(
    scores: pd.DataFrame,
    resampling: Resampling,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
    context: str = "context_id",
) -> Estimate:
    """Return Krippendorff's alpha of tidy scores with an interval over contexts.

    Whole contexts are resampled with all their units, because units of the same context are dependent; the expected
    disagreement is recomputed in every resample.

    Parameters
    ----------
    scores : pandas.DataFrame
        One row per unit × annotator, for one attribute. Missing scores are NaN or have no row.
    resampling : Resampling
        Resampling settings, as in `biaslab.stats.jackknife.cluster_statistic`.
    level : {"interval", "ordinal", "nominal"}
        Distance between two scores: squared difference, squared difference of ranks, or 0 if equal and 1 otherwise.
    units : sequence of str, optional
        Columns that identify a unit; by default all but ``annotator`` and ``score``. The context is always one of
        them.
    annotator, score, context : str
        Columns of the annotator, of the (numeric) score and of the context.

    Returns
    -------
    Estimate
        1 is perfect agreement, 0 chance, below 0 systematic disagreement. ``n_contexts`` counts contexts with at least
        one unit that has two scores. NaN, with a note, if there are fewer than two annotators, no unit has two scores,
        or all of these are equal. There is no test, because no null value of alpha is worth rejecting.

    Raises
    ------
    InputError
        If the level is unknown or a score is infinite.
    TrialsError
        If a column is missing, or an annotator scored the same unit twice.

    References
    ----------
    Krippendorff 2019, *Content Analysis*, 4th ed., ch. 12.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame(
    ...     {"context_id": [*"aabbccdd"], "annotator": ["x", "y"] * 4, "score": [1, 1, 2, 2, 4, 3, 5, 5]}
    ... )
    >>> estimate = estimate_alpha(frame, Resampling())
    >>> round(estimate.estimate, 3), estimate.n_contexts
    (0.954, 4)
    """
    columns = _units(scores, units, annotator, score, context)
    rated = _pairable(scores, level, columns, annotator, score, context)
    if rated.why_undefined:
        return undefined(rated.why_undefined)
    order = rated.contents().sort_values().index
    statistic, contexts = over_clusters(rated.alpha(order, level), order, resampling)
    return cluster_statistic(statistic, contexts, resampling, bounds=_BOUNDS)


def alpha_difference(
    first: pd.DataFrame,
    second: pd.DataFrame,
    resampling: Resampling,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
    context: str = "context_id",
    null: float | None = 0.0,
    inference: Inference = "resampling",
) -> Estimate:
    """Estimate the difference in alpha between two frames, over their common contexts.

    Parameters
    ----------
    first, second : pandas.DataFrame
        Scores as in `estimate_alpha`, for example a judge's samples and human annotations, or two configurations.
    resampling, level, units, annotator, score, context
        As in `estimate_alpha`.
    null, inference
        As in `biaslab.stats.jackknife.cluster_statistic`.

    Returns
    -------
    Estimate
        Alpha of the first minus that of the second; both are recomputed on the same resampled contexts.

    Examples
    --------
    >>> import pandas as pd
    >>> one = pd.DataFrame(
    ...     {"context_id": [*"aabbccdd"], "annotator": ["x", "y"] * 4, "score": [1, 1, 2, 2, 4, 3, 5, 5]}
    ... )
    >>> estimate = alpha_difference(one, one.assign(score=[1, 2, 2, 1, 4, 3, 5, 4]), Resampling())
    >>> round(estimate.estimate, 3), estimate.n_contexts
    (0.179, 4)
    """
    columns = _units(first, units, annotator, score, context)
    both = [_pairable(frame, level, columns, annotator, score, context) for frame in (first, second)]
    common = set(both[0].names) & set(both[1].names)
    both = [rated.within(common) for rated in both]
    reason = next(filter(None, (rated.why_undefined for rated in both)), "")
    if reason:
        return undefined(reason, len(common))
    one, other = (rated.contents() for rated in both)
    names = one.index[np.lexsort((other.loc[one.index], one))]
    alphas = [over_clusters(rated.alpha(names, level), names, resampling) for rated in both]
    return cluster_difference(alphas[0][0], alphas[1][0], alphas[0][1], resampling, null, inference)


def _units(scores: pd.DataFrame, units: Sequence[str] | None, annotator: str, score: str, context: str) -> list[str]:
    if context not in scores.columns:
        raise TrialsError("scores columns", list(scores.columns), f"the context column {context!r}")
    named = [c for c in scores.columns if c not in (annotator, score)] if units is None else list(units)
    return list(dict.fromkeys([context, *named]))


def _pairable(
    scores: pd.DataFrame, level: Measurement, units: list[str], annotator: str, score: str, context: str
) -> _Rated:
    """Return the ratings of units that have at least two."""
    require_one_of("level", level, get_args(Measurement))
    wanted = (*units, annotator, score)
    missing = [column for column in wanted if column not in scores.columns]
    if missing:
        raise TrialsError("scores columns", missing, f"the columns {', '.join(map(repr, wanted))}")
    scored = scores[scores[score].notna()]
    values = scored[score].to_numpy(float)
    if np.isinf(values).any():
        raise InputError(f"score column {score!r}", math.inf, "finite numbers, or NaN if missing")
    unit, who = number_items(scored, units)[0], number_items(scored, [annotator])[0]
    rating = unit * (who.max(initial=0) + 1) + who
    if len(np.unique(rating)) < len(rating):
        first = scored[pd.Series(rating).duplicated().to_numpy()].iloc[0][[*units, annotator]].to_dict()
        raise TrialsError("scores", first, "one score per unit and annotator", "pass the columns of the unit")
    kept = np.bincount(unit)[unit] > 1
    where, firsts = number_items(scored, [context])
    names = pd.Index(scored[context].iloc[firsts])
    alone = not len(who) or who.max() < 1
    return _Rated(values, where, unit, who, names, alone).only(kept)


@dataclass(frozen=True)
class _Rated:
    """Ratings as arrays: score and the numbers of context, unit and annotator; and the names of contexts.

    ``alone`` says that there were fewer than two annotators before units with a single score were dropped.
    """

    score: Floats
    context: Codes
    unit: Codes
    annotator: Codes
    names: pd.Index
    alone: bool

    def only(self, kept: Bools) -> _Rated:
        """Return a subset of the ratings, with all units."""
        context, names = pd.factorize(self.context[kept])
        unit = pd.factorize(self.unit[kept])[0]
        return replace(
            self,
            score=self.score[kept],
            context=context,
            unit=unit,
            annotator=self.annotator[kept],
            names=self.names[names],
        )

    def within(self, names: set[Any]) -> _Rated:
        """Return the ratings of some contexts."""
        if len(names) == len(self.names):
            return self
        rated = self.only(self.names.isin(list(names))[self.context])
        return replace(rated, alone=len(np.unique(rated.annotator)) < _TWO)

    @property
    def why_undefined(self) -> str:
        """Why alpha is undefined; empty if it is defined."""
        if self.alone:
            return "fewer than two annotators"
        if not len(self.score):
            return "no unit has two scores"
        return "all scores are the same" if (self.score == self.score[0]).all() else ""

    def contents(self) -> pd.Series:
        """Return a fingerprint of each context's scores that does not depend on names.

        Contexts are numbered by it, so that a seed gives the same resamples whatever their names.
        """
        _, rank = np.unique(self.score, return_inverse=True)
        of_unit = np.zeros(self.unit.max() + 1, np.uint64)
        np.add.at(of_unit, self.unit, hash_array(rank))
        home = np.zeros(len(of_unit), np.intp)
        home[self.unit] = self.context
        of_context = np.zeros(len(self.names), np.uint64)
        np.add.at(of_context, home, hash_array(of_unit))
        return pd.Series(of_context, self.names)

    def alpha(self, order: pd.Index, level: Measurement) -> Statistic:
        """Return alpha as a function of the weights of contexts, in the given order."""
        codes, unit = order.get_indexer(self.names)[self.context], self.unit
        values, at = np.unique(self.score, return_inverse=True)
        sequence = np.lexsort((at, unit, codes))
        codes, unit, at = codes[sequence], unit[sequence], at[sequence]
        starts = np.r_[0, np.flatnonzero(np.diff(unit)) + 1]
        counts = np.bincount(codes * len(values) + at, minlength=len(order) * len(values)).reshape(len(order), -1)
        centred = values - values.mean()
        weighted = WeightedAlpha(
            counts.astype(float), centred / (np.abs(centred).max() or 1.0), at, starts, codes[starts]
        )
        return {"interval": weighted.interval, "ordinal": weighted.ordinal, "nominal": weighted.nominal}[level]
