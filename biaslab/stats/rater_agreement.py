"""Agreement of a judge with people: rates, coefficients corrected for chance, and their intervals over contexts.

Every coefficient is a function of sums over rows, a row being one judgement beside one person's label. The rows of an
item have weights that add up to 1, so that each item counts once however many people labelled it: a share is then that
of a person drawn at random. Intervals resample or leave out whole contexts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import special

from biaslab.core.arrays import Bools, Floats
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.estimate import Estimate, because, without_interval
from biaslab.stats.ratio import Ratio, note_uneven
from biaslab.stats.regression import coefficient_by_t
from biaslab.stats.resample import Resampling, Statistic, cluster_statistic, over_clusters

_UNIT, _SIGNED = (0.0, 1.0), (-1.0, 1.0)
_UNDEFINED = because("no_variation_of_labels", "the judge and people give one and the same verdict throughout")
_NONE = because("no_label_of_this_kind", "no {what}")
_MOVER = "from the score intervals of both rates (MOVER)"
_WITHIN = 1e-9  # difference of scores that is due to rounding
#: Maps sums of shape (replicates, columns) to values (replicates,).
_OfSums = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Labelled:
    """Judgements beside people's labels.

    Parameters
    ----------
    context : array_like, shape (rows,)
        The context of each row.
    item : numpy.ndarray of int, shape (rows,)
        The item of each row, from 0.
    judged, labelled : numpy.ndarray of float, shape (rows,)
        The judge's verdict or score, and one person's.
    weight : numpy.ndarray, shape (rows,)
        Adds up to 1 in each item.

    Examples
    --------
    >>> rows = Labelled.of(pd.DataFrame({"context_id": [*"aab"], "item": [0, 0, 1], "judged": [1.0, 1, 0],
    ...     "labelled": [1.0, 0, 0]}))
    >>> rows.weight.tolist()
    [0.5, 0.5, 1.0]
    """

    context: Any
    item: Any
    judged: Floats
    labelled: Floats
    weight: Floats

    @classmethod
    def of(cls, rows: pd.DataFrame) -> Labelled:
        """Return the rows of a frame: ``context_id, item, judged, labelled`` and, unless all are alike, ``weight``."""
        codes = pd.factorize(rows["item"])[0]
        given = rows["weight"].to_numpy(float) if "weight" in rows else np.ones(len(rows))
        judged, labelled = rows["judged"].to_numpy(float), rows["labelled"].to_numpy(float)
        weight = given / np.bincount(codes, given)[codes]
        return cls(rows["context_id"].to_numpy(), codes, judged, labelled, weight)

    def __len__(self) -> int:
        return len(self.judged)

    def rate(self, hit: Any, among: Any = True, what: str = "", null: float | None = None) -> Ratio:
        """Return the share of rows that are a hit, among some rows, each item with its weight."""
        counted = self.weight * among
        hits, of = (np.bincount(self.item, values) for values in (counted * hit, counted))
        missing = _NONE.with_values(what=what or "item has a verdict and a label")
        return Ratio(self._contexts, hits, of, null, _UNIT, missing, "score")

    @cached_property
    def _contexts(self) -> Any:
        """The context of each item."""
        return np.asarray(self.context)[np.unique(self.item, return_index=True)[1]]

    def mean(self, values: Floats, null: float | None = None, bounds: tuple[float, float] | None = None) -> Ratio:
        """Return the mean of one value per row, each item with weight 1."""
        sums, items = (np.bincount(self.item, each) for each in (self.weight * values, self.weight))
        return Ratio(self._contexts, sums, items, null, bounds, inference="t")

    def sums(self, columns: Sequence[Floats], resampling: Resampling) -> tuple[Floats, Any]:
        """Return the weighted sums of columns in each context, shape (contexts, columns), and the contexts' names."""
        sums, names = sum_by_context(self.context, self.weight, *(self.weight * column for column in columns))
        return (sums[:, 1:] / sums[:, :1] if resampling.weights == "contexts" else sums[:, 1:]), names


@dataclass(frozen=True)
class VerdictAgreement:
    """Agreement of verdicts: pass or fail, or first, second and tie.

    Parameters
    ----------
    rows : Labelled
        Verdicts and labels as numbers.
    classes : sequence of float
        The possible verdicts.
    form : {"pass", "pair"}
        Verdicts on single outputs, 1 (pass) or 0 (fail), or on pairs: first 1, tie 0, second −1.

    Examples
    --------
    >>> judged, labelled = np.array([1, 1, 1, 0, 0, 1.0] * 4), np.array([1, 1, 0, 0, 1, 1.0] * 4)
    >>> rows = Labelled(np.arange(24), np.arange(24), judged, labelled, np.ones(24))
    >>> found = VerdictAgreement(rows, (0.0, 1.0)).estimates(Resampling())
    >>> {name: round(found[name].estimate, 3) for name in ("exact_agreement", "true_negative_rate", "cohen_kappa")}
    {'exact_agreement': 0.667, 'true_negative_rate': 0.5, 'cohen_kappa': 0.25}
    """

    rows: Labelled
    classes: Sequence[float] = (0.0, 1.0)
    form: Literal["pass", "pair"] = "pass"

    def ratios(self) -> dict[str, Ratio]:
        """Return the rates: of pairs, without ties too if there are any; else those of "pass"."""
        rows = self.rows
        rates = {"exact_agreement": rows.rate(rows.judged == rows.labelled)}
        if self.form == "pair":
            decided = (rows.judged != 0) & (rows.labelled != 0)
            what = "pair that both the judge and people decide"
            without = rows.rate(rows.judged == rows.labelled, decided, what, null=0.5)
            return rates if decided.all() else rates | {"agreement_without_ties": without}
        says, is_so = rows.judged == 1, rows.labelled == 1
        return rates | {
            "true_positive_rate": rows.rate(says, is_so, "item that people pass"),
            "true_negative_rate": rows.rate(~says, ~is_so, "item that people fail"),
            "precision_of_pass": rows.rate(is_so, says, "item that the judge passes"),
            "precision_of_fail": rows.rate(~is_so, ~says, "item that the judge fails"),
            "leniency": rows.mean(rows.judged - rows.labelled, 0.0, _SIGNED),
        }

    @property
    def columns(self) -> list[Floats]:
        """The rows in each cell of the table of verdicts and labels."""
        return [hit.astype(float) for _, _, hit in self._cells()]

    @property
    def functions(self) -> dict[str, tuple[_OfSums, tuple[float, float]]]:
        """Coefficients as functions of the sums of `columns`, with their bounds."""
        known = {"cohen_kappa": (_kappa, _SIGNED), "gwet_ac1": (_ac1, _SIGNED)}
        known |= {} if self.form == "pair" else {"balanced_accuracy": (_balanced, _UNIT)}
        return {name: (self._of_table(function), bounds) for name, (function, bounds) in known.items()}

    @property
    def contrasts(self) -> dict[str, _OfSums]:
        """What `difference` compares, as functions of the sums of `columns`."""
        known = {"exact_agreement": _accuracy, "cohen_kappa": _kappa}
        known |= {} if self.form == "pair" else {"true_positive_rate": _recall, "true_negative_rate": _specificity,
                                                "leniency": _leniency}  # fmt: skip
        return {name: self._of_table(function) for name, function in known.items()}

    def _of_table(self, function: _OfSums) -> _OfSums:
        k = len(self.classes)
        return lambda sums: function(sums.reshape(len(sums), k, k) / sums.sum(axis=1)[:, None, None])

    def estimates(self, resampling: Resampling, names: Sequence[str] | None = None) -> dict[str, Estimate]:
        """Return rates and coefficients, by default all."""
        found = _estimated(self, resampling, names)
        if "balanced_accuracy" in found and not resampling.values_only:
            both, ratios = ("true_positive_rate", "true_negative_rate"), self.ratios()
            rates = [found[name] if name in found else ratios[name].estimate(resampling) for name in both]
            found["balanced_accuracy"] = _mean_of_rates(found["balanced_accuracy"], *rates)
        return found

    def table(self) -> Iterator[tuple[float, float, Ratio, int]]:
        """Yield each pair of a verdict and a label with its share of items and its number of rows."""
        for verdict, label, hit in self._cells():
            yield verdict, label, self.rows.rate(hit), int(hit.sum())

    def _cells(self) -> Iterator[tuple[float, float, Bools]]:
        for verdict, label in product(self.classes, repeat=2):
            yield verdict, label, (self.rows.judged == verdict) & (self.rows.labelled == label)


def _kappa(shares: Floats) -> Floats:
    """Return Cohen's kappa (Cohen 1960) of tables of shares, shape (replicates, k, k)."""
    observed = np.trace(shares, axis1=1, axis2=2)
    expected = (shares.sum(axis=1) * shares.sum(axis=2)).sum(axis=1)
    return np.asarray((observed - expected) / np.where(expected < 1 - _WITHIN, 1 - expected, np.nan))


def _ac1(shares: Floats) -> Floats:
    """Return Gwet's AC1 (Gwet 2008)."""
    k = shares.shape[1]
    if k < 2:
        return np.full(len(shares), np.nan)
    observed, mean = np.trace(shares, axis1=1, axis2=2), (shares.sum(axis=1) + shares.sum(axis=2)) / 2
    expected = (mean * (1 - mean)).sum(axis=1) / (k - 1)
    return np.asarray((observed - expected) / (1 - expected))


def _balanced(shares: Floats) -> Floats:
    """Return the mean, over the labels, of the share of items with this label to which the judge gives it."""
    return np.asarray((np.diagonal(shares, axis1=1, axis2=2) / shares.sum(axis=1)).mean(axis=1))


def _mean_of_rates(mean: Estimate, one: Estimate, other: Estimate) -> Estimate:
    """Return the mean of two rates with an interval from those of the rates (MOVER; Zou & Donner 2008).

    The rates' intervals allow for rates near 1 of few items, which the error of their mean does not; the correlation of
    the rates, where contexts have several items, follows from the three errors.

    Examples
    --------
    >>> rates = [Estimate(0.9, 0.1, low, 0.98, math.nan, math.nan, 40, "") for low in (0.6, 0.5)]
    >>> mean = _mean_of_rates(Estimate(0.9, 0.07, 0.76, 0.99, math.nan, math.nan, 80, ""), *rates)
    >>> round(mean.ci_low, 2), round(mean.ci_high, 2)
    (0.65, 0.96)
    """
    ends = np.array([[each.estimate - each.ci_low, each.ci_high - each.estimate] for each in (one, other)])
    if math.isnan(mean.estimate) or np.isnan(ends).any():
        return mean
    errors, excess = one.se * other.se, (2 * mean.se) ** 2 - one.se**2 - other.se**2
    shared = max(-1.0, min(excess / (2 * errors), 1.0)) if errors > 0 else 0.0
    low, high = np.sqrt((ends**2).sum(axis=0) + 2 * shared * ends.prod(axis=0)) / 2
    return replace(mean, ci_low=float(mean.estimate - low), ci_high=float(mean.estimate + high), method=_MOVER)


@dataclass(frozen=True)
class ScoreAgreement:
    """Agreement of scores on one scale.

    Parameters
    ----------
    rows : Labelled
        Scores of the judge and of people, in points of the same scale.
    width : float, optional
        Width of the scale in points, if it has ends.

    References
    ----------
    Bland & Altman 1999, *Measuring agreement in method comparison studies*, Stat. Methods Med. Res. 8; McGraw & Wong
    1996, *Forming inferences about some intraclass correlation coefficients*, Psych. Methods 1 (ICC(A,1)); Cohen 1968,
    *Weighted kappa*, Psych. Bulletin 70; Krippendorff 2011.

    Examples
    --------
    >>> judged, labelled = np.array([1, 2, 4, 5, 3, 4.0] * 4), np.array([1, 2, 3, 5, 2, 4.0] * 4)
    >>> rows = Labelled(np.arange(24), np.arange(24), judged, labelled, np.ones(24))
    >>> found = ScoreAgreement(rows, width=4.0).estimates(Resampling())
    >>> [round(found[name].estimate, 3) for name in ("mean_difference", "leniency", "quadratic_kappa")]
    [0.333, 0.083, 0.91]
    """

    rows: Labelled
    width: float | None = None

    @cached_property
    def is_coarse(self) -> bool:
        """Whether all scores are whole or half points, so that they can be equal."""
        return bool((np.concatenate([self.rows.judged, self.rows.labelled]) * 2 % 1 == 0).all())

    def ratios(self) -> dict[str, Ratio]:
        """Return the rates, if scores can be equal, the mean difference, and the leniency in widths of the scale."""
        rows, apart = self.rows, self.rows.judged - self.rows.labelled
        rates = {"exact_agreement": rows.rate(apart == 0)} if self.is_coarse else {}
        if self.is_coarse and np.ptp(np.concatenate([rows.judged, rows.labelled])) > 2:
            rates["agreement_within_1"] = rows.rate(np.abs(apart) <= 1)
        rates["mean_difference"] = rows.mean(apart)
        return rates | ({"leniency": rows.mean(apart / self.width, 0.0, _SIGNED)} if self.width else {})

    @property
    def columns(self) -> list[Floats]:
        """Number, moments about a common centre, so that no digits are lost, and exact hits."""
        x, y = self.rows.judged, self.rows.labelled
        one, two = (values - (x.mean() + y.mean()) / 2 for values in (x, y))
        return [np.ones(len(x)), one, two, one**2, two**2, one * two, (x == y).astype(float)]

    @property
    def functions(self) -> dict[str, tuple[_OfSums, tuple[float, float] | None]]:
        """Limits of agreement and coefficients as functions of the sums of `columns`, with their bounds."""
        known = {"quadratic_kappa": _quadratic_kappa, "icc_agreement": _icc, "krippendorff_alpha": _alpha}
        limits = {
            f"limit_of_agreement_{side}": (partial(_limit, sign), None) for side, sign in (("low", -1), ("high", 1))
        }
        return {**limits, **{name: (function, _SIGNED) for name, function in known.items()}}

    @property
    def contrasts(self) -> dict[str, _OfSums]:
        """What `difference` compares, as functions of the sums of `columns`."""
        exact = {"exact_agreement": _exact} if self.is_coarse else {}
        return {**exact, "quadratic_kappa": _quadratic_kappa, "mean_difference": _mean_difference}

    def estimates(self, resampling: Resampling, names: Sequence[str] | None = None) -> dict[str, Estimate]:
        """Return rates, mean difference, limits of agreement and coefficients, by default all."""
        return _estimated(self, resampling, names)


def _estimated(
    compared: VerdictAgreement | ScoreAgreement, resampling: Resampling, names: Sequence[str] | None
) -> dict[str, Estimate]:
    """Estimate rates and coefficients, those of the given names."""
    wanted = {name: ratio for name, ratio in compared.ratios().items() if names is None or name in names}
    found = {name: ratio.estimate(resampling) for name, ratio in wanted.items()}
    sums, contexts = compared.rows.sums(compared.columns, resampling)
    for name, (function, bounds) in compared.functions.items():
        if names is None or name in names:
            statistic, clusters = over_clusters(_of_contexts(function, sums), contexts, resampling)
            found[name] = cluster_statistic(statistic, clusters, resampling, bounds=bounds, missing=_UNDEFINED)
    return found


def _of_contexts(function: _OfSums, sums: Floats) -> Statistic:
    """Return a function of sums as a statistic of the weights of contexts."""

    def statistic(weights: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return function(weights @ sums)

    return statistic


def differences(
    one: VerdictAgreement | ScoreAgreement, other: VerdictAgreement | ScoreAgreement, resampling: Resampling
) -> dict[str, Estimate]:
    """Estimate how much better one judge agrees with people than another, on the contexts of both.

    Both are recomputed without each context in turn; tested against 0 by Student's t, for the number of contexts of
    equal size that those of different size count as.

    Returns
    -------
    dict of str to Estimate
        ``<metric>_difference``, one minus other.

    Examples
    --------
    >>> labels = np.array([1, 0, 1, 1, 0, 1, 0, 0.0])
    >>> judges = [np.where(np.arange(8) < n, labels, 1 - labels) for n in (7, 4)]
    >>> both = [VerdictAgreement(Labelled(np.arange(8), np.arange(8), own, labels, np.ones(8))) for own in judges]
    >>> found = differences(*both, Resampling())["exact_agreement_difference"]
    >>> round(found.estimate, 3), round(found.p_value, 2)
    (0.375, 0.08)
    """
    (first, names), (second, others) = (each.rows.sums(each.columns, resampling) for each in (one, other))
    _, at, other_at = np.intersect1d(names.astype(str), others.astype(str), return_indices=True)
    shared = [name for name in one.contrasts if name in other.contrasts]

    def difference(of: _OfSums, against: _OfSums, weights: Floats) -> Floats:
        return _of_contexts(of, first[at])(weights) - _of_contexts(against, second[other_at])(weights)

    items = one.rows.sums([np.ones(len(one.rows.judged))], resampling)[0][at, 0]
    sizes = np.asarray(np.bincount(pd.factorize(resampling.cluster_of(names[at]))[0], items), float)
    found = {}
    for name in shared:
        by_context = partial(difference, one.contrasts[name], other.contrasts[name])
        statistic, clusters = over_clusters(by_context, names[at], resampling)
        of_name = cluster_statistic(statistic, clusters, resampling, 0.0, inference="t", sizes=sizes)
        found[f"{name}_difference"] = of_name
    return {name: estimate.noted(*note_uneven(sizes)) for name, estimate in found.items()}


def _accuracy(shares: Floats) -> Floats:
    return np.asarray(np.trace(shares, axis1=1, axis2=2))


def _recall(shares: Floats) -> Floats:
    return np.asarray(shares[:, 1, 1] / shares[:, :, 1].sum(axis=1))


def _specificity(shares: Floats) -> Floats:
    return np.asarray(shares[:, 0, 0] / shares[:, :, 0].sum(axis=1))


def _leniency(shares: Floats) -> Floats:
    return np.asarray(shares[:, 1, 0] - shares[:, 0, 1])


_REACH = float(special.ndtri(0.975))


def _limit(side: int, sums: Floats) -> Floats:
    """Return the mean difference plus or minus 1.96 standard deviations of the differences."""
    n, x, y, xx, yy, xy, _ = sums.T
    mean = (x - y) / n
    variance = (xx - 2 * xy + yy - n * mean**2) / (n - 1)
    return np.asarray(mean + side * _REACH * np.sqrt(np.maximum(variance, 0.0)))


def _quadratic_kappa(sums: Floats) -> Floats:
    """Return kappa with quadratic weights: 1 − the mean squared difference over that of independent raters."""
    n, x, y, xx, yy, xy, _ = sums.T
    expected = xx / n + yy / n - 2 * x * y / n**2
    return np.asarray(1 - (xx - 2 * xy + yy) / n / np.where(expected > _WITHIN, expected, np.nan))


def _icc(sums: Floats) -> Floats:
    """Return the intraclass correlation for absolute agreement of single raters, ICC(A,1)."""
    n, x, y, xx, yy, xy, _ = sums.T
    between_raters = (x - y) ** 2 / n / 2  # mean square, one degree of freedom
    residual = ((xx - 2 * xy + yy) / 2 - between_raters) / (n - 1)
    items = ((xx + 2 * xy + yy) / 2 - (x + y) ** 2 / n / 2) / (n - 1)
    total = items + residual + 2 / n * (between_raters - residual)
    return np.asarray((items - residual) / np.where(np.abs(total) > _WITHIN, total, np.nan))


def _alpha(sums: Floats) -> Floats:
    """Return Krippendorff's alpha of two raters with the interval metric."""
    n, x, y, xx, yy, xy, _ = sums.T
    spread = (xx + yy - (x + y) ** 2 / (2 * n)) * 2 / (2 * n - 1)
    return np.asarray(1 - (xx - 2 * xy + yy) / n / np.where(spread > _WITHIN, spread, np.nan))


def contrast(one: Ratio, other: Ratio, resampling: Resampling) -> Estimate:
    """Estimate one rate minus another, of different items, which may or may not share contexts.

    Interval and test are Student's t on the jackknife over contexts, with the degrees of freedom of Welch (1947), at
    most one less than there are contexts; contexts that differ in size count as fewer of equal size (Kish 1965, §8.2).
    A rate near 0 or 1 seems to vary too little, so that its variance is at least that of Agresti and Caffo (2000) for
    independent items: p (1 − p) / (n + 2) with one hit and one miss added.

    References
    ----------
    Agresti & Caffo 2000, *Simple and effective confidence intervals for proportions and differences of proportions
    result from adding two successes and two failures*, The American Statistician 54; Welch 1947, Biometrika 34.

    Examples
    --------
    >>> one, other = Ratio([*"abcdef"], [1, 0, 1, 1, 1, 0], [1] * 6), Ratio([*"ghijkl"], [0, 0, 1, 0, 0, 0], [1] * 6)
    >>> found = contrast(one, other, Resampling())
    >>> round(found.estimate, 2), round(found.p_value, 2), found.n_contexts
    (0.5, 0.09, 12)
    """
    sides = [_LinearRate.of(ratio, resampling) for ratio in (one, other)]
    shares = sides[0].share.add(sides[1].share, fill_value=0.0)
    value = sides[0].value - sides[1].value
    if min(len(side.share) for side in sides) < 2:
        return without_interval(value, len(shares), "no interval: a group has fewer than two contexts")
    together = sides[0].error.mul(sides[1].error, fill_value=0.0).sum()
    independent = sides[0].variance + sides[1].variance
    variance = independent - 2 * float(together)
    degrees = independent**2 / sum(side.variance**2 / (1 / float((side.share**2).sum()) - 1) for side in sides)
    error, effective = math.sqrt(max(variance, 0.0)), max(min(degrees + 1, 4 / float((shares**2).sum())), 2.0)
    method = "jackknife over contexts, Welch's t"
    return coefficient_by_t(value, error, len(shares), resampling.level, method, effective)


@dataclass(frozen=True)
class _LinearRate:
    """A rate, each context's share of its items and contribution to its error, and its variance."""

    value: float
    share: pd.Series
    error: pd.Series
    variance: float

    @classmethod
    def of(cls, rate: Ratio, resampling: Resampling) -> _LinearRate:
        sums, names = sum_by_context(resampling.cluster_of(rate.context), rate.numerator, rate.denominator)
        sums, names = sums[sums[:, 1] > 0], names[sums[:, 1] > 0]
        sums = sums / sums[:, 1:] if resampling.weights == "contexts" else sums
        hits, total = sums.sum(axis=0)
        value, contexts = float(hits / total) if total else math.nan, len(sums)
        share = pd.Series(sums[:, 1] / total, names, float)
        if contexts < 2:
            return cls(value, share, share, math.nan)
        items, left_out = int(np.count_nonzero(rate.denominator)), (contexts - 1) / contexts / (1 - share)
        error = (sums[:, 0] - value * sums[:, 1]) / total * left_out
        smoothed = (value * items + 1) / (items + 2)
        spread = float((error**2).sum()) * contexts / (contexts - 1)
        return cls(value, share, error, max(spread, smoothed * (1 - smoothed) / (items + 2)))


def _exact(sums: Floats) -> Floats:
    return np.asarray(sums[:, 6] / sums[:, 0])


def _mean_difference(sums: Floats) -> Floats:
    return np.asarray((sums[:, 1] - sums[:, 2]) / sums[:, 0])


def rater_pairs(labels: pd.DataFrame) -> pd.DataFrame:
    """Return the labels of every ordered pair of two people who labelled the same item, equal pairs in one row.

    Parameters
    ----------
    labels : pandas.DataFrame
        One row per item and person: ``context_id, item, labelled``.

    Returns
    -------
    pandas.DataFrame
        ``context_id, item, judged`` (the label of the one), ``labelled`` (that of the other) and ``weight``, the number
        of such pairs. Rows grow with the different labels of an item, not with its people.

    Examples
    --------
    >>> table = pd.DataFrame({"context_id": "a", "item": [0, 0, 0, 1], "labelled": [1.0, 1.0, 0.0, 1.0]})
    >>> rater_pairs(table)[["judged", "labelled", "weight"]].to_numpy().tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [1.0, 1.0, 2.0]]
    """
    counts = labels.groupby(["context_id", "item", "labelled"], as_index=False).size()
    both = counts.merge(counts, on=["context_id", "item"], suffixes=("", "_other"))
    same = both["labelled"] == both["labelled_other"]
    both = both.assign(weight=both["size"] * (both["size_other"] - same), judged=both["labelled"])
    both = both.assign(labelled=both["labelled_other"])
    return both.loc[both["weight"] > 0, ["context_id", "item", "judged", "labelled", "weight"]].reset_index(drop=True)
