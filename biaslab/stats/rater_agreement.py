"""Agreement of a judge with people: rates, coefficients corrected for chance, and their intervals over contexts.

Every coefficient is a function of sums over rows, a row being one judgement beside one person's label. The rows of an
item have weights that add up to 1, so that each item counts once however many people labelled it: a share is then that
of a person drawn at random. Intervals resample or leave out whole contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.core.arrays import Bools, Floats
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.estimate import Estimate, because
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, cluster_statistic, over_clusters

_UNIT, _SIGNED = (0.0, 1.0), (-1.0, 1.0)
_UNDEFINED = because("no_variation_of_labels", "the judge and people give one and the same verdict throughout")
_NONE = because("no_label_of_this_kind", "no {what}")
_WITHIN = 1e-9  # difference of scores that is due to rounding
#: Maps sums of shape (replicates, columns) to values (replicates,).
_OfSums = Callable[[Floats], Floats]
Estimator = Callable[[Resampling], Estimate]


@dataclass(frozen=True)
class Labelled:
    """Judgements beside people's labels.

    Parameters
    ----------
    context, item : array_like, shape (rows,)
        The context and the item of each row.
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
        """Return the rows of a frame with the columns ``context_id, item, judged, labelled``."""
        size = rows.groupby("item")["item"].transform("size").to_numpy(float)
        judged, labelled = rows["judged"].to_numpy(float), rows["labelled"].to_numpy(float)
        return cls(rows["context_id"].to_numpy(), rows["item"].to_numpy(), judged, labelled, 1 / size)

    def __len__(self) -> int:
        return len(self.judged)

    @cached_property
    def n_items(self) -> int:
        """Number of items."""
        return len(pd.unique(self.item))

    def rate(self, hit: Any, among: Any = True, what: str = "", null: float | None = None) -> Ratio:
        """Return the share of rows that are a hit, among some rows, each item with its weight."""
        counted = self.weight * among
        frame = pd.DataFrame({"item": self.item, "context": self.context, "hit": counted * hit, "of": counted})
        items = frame.groupby("item", sort=False).agg({"context": "first", "hit": "sum", "of": "sum"})
        missing = _NONE.with_values(what=what or "item has a verdict and a label")
        return Ratio(items["context"].to_numpy(), items["hit"], items["of"], null, _UNIT, missing, "score")

    def mean(self, values: Floats, null: float | None = None) -> Ratio:
        """Return the mean of one value per row, each item with weight 1."""
        return Ratio(self.context, self.weight * values, self.weight, null, inference="t")

    def coefficient(
        self, columns: Sequence[Floats], function: _OfSums, resampling: Resampling, bounds: tuple[float, float] | None
    ) -> Estimate:
        """Estimate a function of weighted sums, with a jackknife interval over contexts on Fisher's scale."""
        sums, names = sum_by_context(self.context, *(self.weight * column for column in columns))

        def statistic(weights: Floats) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                return function(weights @ sums)

        of_clusters, n = over_clusters(statistic, names, resampling)
        return cluster_statistic(of_clusters, n, resampling, bounds=bounds, missing=_UNDEFINED)


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
            "leniency": rows.mean(rows.judged - rows.labelled, 0.0),
        }

    def coefficients(self) -> dict[str, Estimator]:
        """Return the coefficients corrected for chance, to be estimated."""
        k = len(self.classes)
        table = [hit for _, _, hit in self._cells()]

        def of_table(function: _OfSums, bounds: tuple[float, float]) -> Estimator:
            return lambda resampling: self.rows.coefficient(
                [cell.astype(float) for cell in table],
                lambda sums: function(sums.reshape(len(sums), k, k) / sums.sum(axis=1)[:, None, None]),
                resampling,
                bounds,
            )

        chance = {"cohen_kappa": of_table(_kappa, _SIGNED), "gwet_ac1": of_table(_ac1, _SIGNED)}
        return chance if self.form == "pair" else chance | {"balanced_accuracy": of_table(_balanced, _UNIT)}

    def estimates(self, resampling: Resampling, names: Sequence[str] | None = None) -> dict[str, Estimate]:
        """Return rates and coefficients, by default all."""
        return _estimated(self.ratios(), self.coefficients(), resampling, names)

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


@dataclass(frozen=True)
class ScoreAgreement:
    """Agreement of scores on one scale.

    Parameters
    ----------
    rows : Labelled
        Scores of the judge and of people, in points of the same scale.

    References
    ----------
    Bland & Altman 1999, *Measuring agreement in method comparison studies*, Stat. Methods Med. Res. 8; McGraw & Wong
    1996, *Forming inferences about some intraclass correlation coefficients*, Psych. Methods 1 (ICC(A,1)); Cohen 1968,
    *Weighted kappa*, Psych. Bulletin 70; Krippendorff 2011.

    Examples
    --------
    >>> judged, labelled = np.array([1, 2, 4, 5, 3, 4.0] * 4), np.array([1, 2, 3, 5, 2, 4.0] * 4)
    >>> rows = Labelled(np.arange(24), np.arange(24), judged, labelled, np.ones(24))
    >>> found = ScoreAgreement(rows).estimates(Resampling())
    >>> round(found["mean_difference"].estimate, 3), round(found["quadratic_kappa"].estimate, 3)
    (0.333, 0.91)
    """

    rows: Labelled

    def ratios(self) -> dict[str, Ratio]:
        """Return the rates, if all scores are whole numbers, and the mean difference."""
        rows, apart = self.rows, np.abs(self.rows.judged - self.rows.labelled)
        both, rates = np.concatenate([rows.judged, rows.labelled]), {}
        if (both % 1 == 0).all():
            rates["exact_agreement"] = rows.rate(apart == 0)
            rates |= {"agreement_within_1": rows.rate(apart <= 1)} if np.ptp(both) > 2 else {}
        return rates | {"mean_difference": rows.mean(rows.judged - rows.labelled, 0.0)}

    def coefficients(self) -> dict[str, Estimator]:
        """Return the limits of agreement and the coefficients, to be estimated."""
        x, y = self.rows.judged, self.rows.labelled
        centre = (x.mean() + y.mean()) / 2  # sums of squares about it lose no digits
        moments = [np.ones(len(x)), x - centre, y - centre, (x - centre) ** 2, (y - centre) ** 2]
        moments.append((x - centre) * (y - centre))

        def of(function: Callable[..., Floats], bounds: tuple[float, float] | None = _SIGNED) -> Estimator:
            return lambda resampling: self.rows.coefficient(moments, lambda sums: function(*sums.T), resampling, bounds)

        return {
            "limit_of_agreement_low": of(partial(_limit, -1), None),
            "limit_of_agreement_high": of(partial(_limit, 1), None),
            "quadratic_kappa": of(_quadratic_kappa),
            "icc_agreement": of(_icc),
            "krippendorff_alpha": of(_alpha),
        }

    def estimates(self, resampling: Resampling, names: Sequence[str] | None = None) -> dict[str, Estimate]:
        """Return rates, mean difference, limits of agreement and coefficients, by default all."""
        return _estimated(self.ratios(), self.coefficients(), resampling, names)


def _estimated(
    ratios: Mapping[str, Ratio],
    coefficients: Mapping[str, Estimator],
    resampling: Resampling,
    names: Sequence[str] | None,
) -> dict[str, Estimate]:
    every = {name: ratio.estimate for name, ratio in ratios.items()} | dict(coefficients)
    return {name: estimate(resampling) for name, estimate in every.items() if names is None or name in names}


_REACH = float(stats.norm.ppf(0.975))


def _limit(side: int, n: Floats, x: Floats, y: Floats, xx: Floats, yy: Floats, xy: Floats) -> Floats:
    """Return the mean difference plus or minus 1.96 standard deviations of the differences."""
    mean = (x - y) / n
    variance = (xx - 2 * xy + yy - n * mean**2) / (n - 1)
    return np.asarray(mean + side * _REACH * np.sqrt(np.maximum(variance, 0.0)))


def _quadratic_kappa(n: Floats, x: Floats, y: Floats, xx: Floats, yy: Floats, xy: Floats) -> Floats:
    """Return kappa with quadratic weights: 1 − the mean squared difference over that of independent raters."""
    expected = xx / n + yy / n - 2 * x * y / n**2
    return np.asarray(1 - (xx - 2 * xy + yy) / n / np.where(expected > _WITHIN, expected, np.nan))


def _icc(n: Floats, x: Floats, y: Floats, xx: Floats, yy: Floats, xy: Floats) -> Floats:
    """Return the intraclass correlation for absolute agreement of single raters, ICC(A,1)."""
    between_raters = (x - y) ** 2 / n / 2  # mean square, one degree of freedom
    residual = ((xx - 2 * xy + yy) / 2 - between_raters) / (n - 1)
    items = ((xx + 2 * xy + yy) / 2 - (x + y) ** 2 / n / 2) / (n - 1)
    total = items + residual + 2 / n * (between_raters - residual)
    return np.asarray((items - residual) / np.where(np.abs(total) > _WITHIN, total, np.nan))


def _alpha(n: Floats, x: Floats, y: Floats, xx: Floats, yy: Floats, xy: Floats) -> Floats:
    """Return Krippendorff's alpha of two raters with the interval metric."""
    spread = (xx + yy - (x + y) ** 2 / (2 * n)) * 2 / (2 * n - 1)
    return np.asarray(1 - (xx - 2 * xy + yy) / n / np.where(spread > _WITHIN, spread, np.nan))


def contrast(one: Ratio, other: Ratio, resampling: Resampling) -> Estimate:
    """Estimate one ratio minus another, of different items, which may or may not share contexts.

    Tested against 0 by Student's t, with a jackknife over the contexts of both.

    Examples
    --------
    >>> one, other = Ratio([*"abcdef"], [1, 0, 1, 1, 1, 0], [1] * 6), Ratio([*"ghijkl"], [0, 0, 1, 0, 0, 0], [1] * 6)
    >>> found = contrast(one, other, Resampling())
    >>> round(found.estimate, 2), found.n_contexts
    (0.5, 12)
    """
    none, no_other = (np.zeros(len(np.asarray(ratio.context))) for ratio in (one, other))
    of_one, of_other = ((ratio.numerator, ratio.denominator) for ratio in (one, other))
    columns = [*((values, no_other) for values in of_one), *((none, values) for values in of_other)]
    context = np.concatenate([np.asarray(one.context, object), np.asarray(other.context, object)])
    sums, names = sum_by_context(context, *(np.concatenate([*map(np.asarray, column)]) for column in columns))

    def statistic(weights: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            of, n, others, m = (weights @ sums).T
            return np.asarray(of / n - others / m)

    return cluster_statistic(*over_clusters(statistic, names, resampling), resampling, 0.0, inference="t")


def ceiling(item: Any, labelled: Floats) -> tuple[Any, Any]:
    """Return the rows of each ordered pair of two people who labelled the same item, as places of the first and second.

    Parameters
    ----------
    item : array_like, shape (rows,)
        The item of each label.
    labelled : numpy.ndarray, shape (rows,)
        One person's label in each row.

    Examples
    --------
    >>> ceiling([0, 0, 1], np.array([1.0, 0.0, 1.0]))
    (array([0, 1]), array([1, 0]))
    """
    places = pd.DataFrame({"item": item, "row": np.arange(len(labelled))})
    both = places.merge(places, on="item", suffixes=("", "_other"))
    both = both[both["row"] != both["row_other"]]
    return both["row"].to_numpy(), both["row_other"].to_numpy()
