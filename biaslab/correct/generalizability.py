"""Generalizability theory: how good a panel of judges, prompts and samples is, and the total error of a result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_fits, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.output import PrintedText, count, number, with_interval
from biaslab.correct.annotations import read_annotations
from biaslab.correct.labels import pair_items
from biaslab.stats.blocks import ITEM, has_value
from biaslab.stats.estimate import FEWEST, Estimate, Note, because, is_rounding, settled, undefined, unvarying
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns
from biaslab.stats.reliability import Crossed, fit_components
from biaslab.stats.resample import Resampling, cluster_statistic
from biaslab.stats.sequential import require_fixed
from biaslab.stats.t_inference import student

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

NAME = "replace"
_CONDITIONS = ("attribute", "conditions", "samples", "calls", "price")
_MARGIN = 0.05  # by which a panel's correlation may be below a person's
_BOUNDS, _SIGNED = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True, eq=False)
class PanelSizes(PrintedText):
    """Reliability and validity of panels of several sizes; prints as sentences.

    Attributes
    ----------
    estimates : pandas.DataFrame
        An estimates frame: see `panel_sizes`.
    over : str
        What a panel consists of, such as "judge".
    """

    estimates: pd.DataFrame
    over: str

    @property
    def smallest(self) -> tuple[int, int] | None:
        """Conditions and samples of the panel of the fewest calls that is shown to be as valid as one person.

        Its correlation is not below that of a person by more than .05, with the confidence of the interval.
        """
        rows = self.estimates[self.estimates["metric"] == "panel_lead"].sort_values("calls", kind="stable")
        enough = rows[rows["ci_low"] > -_MARGIN]
        return None if enough.empty else (int(enough["conditions"].iloc[0]), int(enough["samples"].iloc[0]))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        rows = self.estimates[self.estimates["estimate"].notna()]
        known = {"panel_validity", "expert_validity"} & set(rows["metric"])
        what = "correlation with what people agree on" if known else "reliability"
        for row in rows[rows["metric"].isin(known or {"panel_reliability"})].to_dict("records"):
            size, price = "one person", ""
            if row["metric"] != "expert_validity":
                size = f"{count(int(row['conditions']), self.over)} × {count(int(row['samples']), 'sample')}"
                price = "" if math.isnan(row["price"]) else f", ${number(row['price'], 4)} an item"
            yield f"{size}: {what} {with_interval(row, 2)}{price}"
        if self.smallest is not None:
            yield "as good as one person with the fewest calls: {} × {}".format(*self.smallest)


def panel_sizes(
    trials: pd.DataFrame,
    labels: pd.DataFrame | Dataset | str | Path | None = None,
    *,
    over: str | Sequence[str] = "judge",
    conditions: Sequence[int] = (1, 2, 3),
    samples: Sequence[int] = (1, 3, 5),
    price: float | None = None,
    resampling: Resampling | None = None,
) -> PanelSizes:
    """Project the reliability and validity of the mean score of several judges or prompts, and of several samples.

    Parameters
    ----------
    trials : pandas.DataFrame
        Scores of the same items by at least two judges or prompts, or their verdicts on the same pairs; replicates are
        samples. A sample of a pair is the mean over the orders it was shown in.
    labels : optional
        People's labels of at least two people an item, as in `biaslab.replace`; without any, only reliability.
    over : str or sequence of str
        Columns whose combinations form a panel, such as "judge", or ``["judge", "template"]``.
    conditions, samples : sequence of int
        Numbers of judges or prompts, and of samples of each.
    price : float, optional
        Price of a call in dollars.
    resampling : Resampling, optional
        Confidence level of the intervals.

    Returns
    -------
    PanelSizes
        Estimates for each size: ``panel_reliability``, the share of the variance of mean scores that another panel of
        the size would reproduce (generalizability coefficient Eρ²); ``panel_validity``, the correlation of mean scores
        with what people agree on, and ``panel_lead``, that less the correlation of one person (``expert_validity``).
        ``calls`` are conditions × samples, twice as many for both orders; ``price`` is that of an item.

    Raises
    ------
    InputError
        If a number is not whole, or a column has a single value.
    TrialsError
        If no item is scored under all conditions.

    Notes
    -----
    Components of variance are those of `biaslab.stats.reliability.fit_components`; a panel of k and n samples has the
    error variance σ²(items × conditions) / k + σ²(samples) / k n. Judges of the panel are taken as drawn at random from
    judges like these. People's errors are independent of each other, so that what two people have in common is the
    variance that they agree on.

    References
    ----------
    Brennan 2001, *Generalizability Theory*, ch. 4; Spearman 1904 for the correction for attenuation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quality = rng.normal(size=400)
    >>> frame = pd.DataFrame({"context_id": [f"c{n}" for n in range(400)], "candidate_id": "x"})
    >>> frame = frame.assign(dataset="d", attribute="a", status="ok")
    >>> scores = [frame.assign(judge=name, value=quality + rng.normal(size=400)) for name in ("j", "k")]
    >>> found = panel_sizes(pd.concat(scores), conditions=[1, 2], samples=[1]).estimates
    >>> found["estimate"].round(1).tolist()
    [0.5, 0.7]
    """
    how = resampling or Resampling()
    for name, sizes in (("conditions", conditions), ("samples", samples)):
        require_fits(name, sizes, Sequence[int])
        for size in sizes:
            require_whole(name, size, 1)
    require_fixed(trials, "the size of a panel")
    columns = [over] if isinstance(over, str) else list(over)
    require_columns(trials, [*columns, "dataset", "attribute", "status", "value", *ITEM], "trials")
    rows: list[dict[str, Any]] = []
    for (dataset, attribute), own in trials[has_value(trials)].groupby(["dataset", "attribute"], sort=False):
        panel = _Panel.of(own, columns, labels, how)
        where = {"judge": " + ".join(panel.names), "dataset": str(dataset), "attribute": str(attribute)}
        for k, n in product(conditions, samples):
            calls = k * n * panel.orders
            cell = {**where, "conditions": k, "samples": n, "calls": calls}
            cell["price"] = math.nan if price is None else price * calls
            rows += estimate_rows(panel.estimates(k, n, how), cell, how, len(own), 0)
        if panel.people is not None:
            single = {"expert_validity": panel.estimate(panel.expert, how, _BOUNDS)}
            rows += estimate_rows(single, where, how, len(own), 0)
    return PanelSizes(estimates_frame(rows, NAME, (), _CONDITIONS), " and ".join(columns))


@dataclass(frozen=True, eq=False)
class _Panel:
    """Scores of items under all conditions, sums over people by context, and calls of a sample: 2 for both orders."""

    crossed: Crossed
    names: list[str]
    people: Floats | None
    orders: int

    @classmethod
    def of(cls, trials: pd.DataFrame, columns: list[str], labels: Any, how: Resampling) -> _Panel:
        frame = trials.astype(dict.fromkeys(ITEM, str))
        kinds = frame[columns].astype(str).agg(" ".join, axis=1)
        if kinds.nunique() < 2:
            raise InputError("over", columns, "columns with at least two values", f"here: {kinds.iloc[0]}")
        samples, orders = frame.assign(kind=kinds), 1
        if "opponent_id" in frame and frame["opponent_id"].notna().all():
            samples, orders = _pairs(samples)
        cells = samples.groupby([*ITEM, "kind"], sort=False)["value"].agg(["mean", "var", "size"])
        wide = {name: cells[name].unstack("kind") for name in cells}  # noqa: PD010 - nothing to aggregate
        whole = wide["mean"].dropna().index
        if whole.empty:
            raise TrialsError.plain(f"no item is scored by all of {', '.join(wide['mean'].columns[:5])}")
        mean, var, size = (table.loc[whole].to_numpy(float) for table in wide.values())
        context = pd.factorize(np.asarray(how.cluster_of(whole.get_level_values(0)), object))[0]
        sampled = (size > 1).any()
        noise = (np.nan_to_num(var) * (size - 1), size - 1, size) if sampled else (None, None, None)
        people = _people(frame[kinds == kinds.iloc[0]], whole, labels, mean.mean(axis=1), context)
        return cls(Crossed(context, mean, *noise), list(map(str, wide["mean"])), people, orders)

    def estimates(self, k: int, n: int, how: Resampling) -> dict[str, Estimate]:
        """Return the estimates of a panel of k conditions and n samples."""
        found = {"panel_reliability": self.estimate(partial(self.reliability, k, n), how, _BOUNDS)}
        if self.people is None:
            return found
        found["panel_validity"] = self.estimate(partial(self.validity, k, n), how, _SIGNED)
        lead = cluster_statistic(
            lambda weights: self.validity(k, n, weights) - self.expert(weights),
            self.crossed.contexts, how, 0.0, _SIGNED, scale="plain", inference="t",
        )  # fmt: skip
        return {**found, "panel_lead": lead}

    def estimate(self, statistic: Any, how: Resampling, bounds: tuple[float, float]) -> Estimate:
        """Estimate a statistic of the weights of contexts."""
        return cluster_statistic(statistic, self.crossed.contexts, how, bounds=bounds)

    def _variances(self, k: int, n: int, weights: Floats) -> tuple[Floats, Floats]:
        """Return the variance between items, and that of mean scores of a panel."""
        parts = fit_components(self.crossed, weights)
        between = parts.context + parts.item
        error = np.maximum(parts.interaction, 0.0) / k + np.nan_to_num(parts.sampling) / (k * n)
        return between, between + error

    def reliability(self, k: int, n: int, weights: Floats) -> Floats:
        """Return Eρ² of a panel."""
        between, total = self._variances(k, n, weights)
        return np.asarray(between / total, float)

    def _moments(self, weights: Floats) -> Floats:
        """Return the weighted means of what `_people` sums, shape (columns, replicates)."""
        sums = weights @ np.asarray(self.people, float)
        return np.asarray(sums[:, 1:].T / sums[:, 0], float)

    def validity(self, k: int, n: int, weights: Floats) -> Floats:
        """Return the correlation of a panel's mean scores with what people agree on."""
        judge, human, product_, agreed, _ = self._moments(weights)
        total = self._variances(k, n, weights)[1]
        with np.errstate(invalid="ignore"):
            return np.asarray((product_ - judge * human) / np.sqrt((agreed - human**2) * total), float)

    def expert(self, weights: Floats) -> Floats:
        """Return the correlation of one person with what people agree on."""
        _, human, _, agreed, square = self._moments(weights)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.sqrt((agreed - human**2) / (square - human**2)), float)


def _pairs(trials: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the verdict on each pair in one sample, over its orders, and how many orders it was asked in."""
    keys = ["kind", *(["replicate"] if "replicate" in trials else [])]
    parts = []
    for key, own in trials.groupby(keys, sort=False):
        items = pair_items(own)
        pair = items["candidate_id"].str.cat(items["opponent_id"], " | ")
        parts.append(items.assign(kind=str(key[0]), candidate_id=pair))
    samples = pd.concat(parts, ignore_index=True)
    return samples, max(1, round(len(trials) / len(samples)))


def _people(trials: pd.DataFrame, whole: pd.Index, labels: Any, judged: Floats, context: Any) -> Floats | None:
    """Return sums by context over items of two people or more: number, scores, labels, products and squares."""
    if labels is None and "human" not in trials:
        return None
    given = read_annotations(trials, labels)[0]
    table = (
        pd.DataFrame(given.people, given.items["item"]).reindex([" | ".join(item) for item in whole]).to_numpy(float)
    )
    people = (~np.isnan(table)).sum(axis=1)
    kept = people > 1
    if kept.sum() < 2:
        return None
    size, judge = people[kept], judged[kept]
    total, squares = np.nansum(table[kept], axis=1), np.nansum(table[kept] ** 2, axis=1)
    human, agreed = total / size, (total**2 - squares) / (size * (size - 1))
    columns = [np.ones(len(judge)), judge, human, judge * human, agreed, squares / size]
    return np.column_stack([np.bincount(context[kept], column, context.max() + 1) for column in columns])


Squares = dict[tuple[int, ...], tuple[float, int]]  # by axes: mean square and degrees of freedom
_POWER, _TWO, _UPPER = 0.8, 2, 0.975
_SIZES, _SAMPLES, _MOST_CONTEXTS = range(2, 11), (1, 3, 5), 100_000


@dataclass(frozen=True)
class Costs:
    """Prices of a design.

    Parameters
    ----------
    context : float
        Price of a context, such as its label by people.
    judgement : float
        Price of a judgement.
    """

    context: float = 0.0
    judgement: float = 1.0

    def __post_init__(self) -> None:
        for name, price in (("context", self.context), ("judgement", self.judgement)):
            if not 0 <= price < math.inf:
                raise InputError(f"costs.{name}", price, "a price from 0")


@dataclass(frozen=True)
class CheapestDesign:
    """A design that would settle a conclusion: the number of levels of each facet, and its price."""

    contexts: int
    levels: dict[str, int]
    samples: int
    price: float

    def __str__(self) -> str:
        sizes = [*(count(size, name) for name, size in self.levels.items()), count(self.samples, "sample")]
        return f"{' × '.join(sizes)} × {count(self.contexts, 'context')}, price {self.price:,.6g}"


@dataclass(frozen=True, eq=False)
class TotalError(PrintedText):
    """The error of a mean over contexts alone, and over judges, prompts and samples, too; prints as sentences.

    Attributes
    ----------
    naive, total : Estimate
        With contexts as the only random facet, and with all of them.
    levels : dict of str to int
        Number of levels of each random facet besides contexts.
    single : tuple of str
        Facets of which there is one level, so that nothing is known beyond it.
    components : pandas.DataFrame
        ``facets, variance``, and ``share``, that of the total error variance; negative estimates count as 0.
    half_width : float
        Half width of the interval that would settle the conclusion; or, if `is_distance`, the distance of the mean from
        the null, to be detected with 80 % power.
    design : CheapestDesign or None
        The cheapest design that would; None if no design of up to 10 levels of each facet would.
    """

    naive: Estimate
    total: Estimate
    levels: dict[str, int]
    single: tuple[str, ...]
    components: pd.DataFrame
    half_width: float = math.nan
    design: CheapestDesign | None = None
    is_distance: bool = True

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if math.isnan(self.naive.estimate):
            yield f"total error: {self.naive.note}"
            return
        yield f"mean, error over contexts only: {with_interval(self.naive.row())}"
        if not self.levels:
            yield f"total error: {self.total.note}"
            return
        others = ", ".join(count(size, name) for name, size in self.levels.items())
        yield f"mean, total error over contexts and {others}: {with_interval(self.total.row())}"
        parts = self.components[self.components["share"] > 0].sort_values("share", ascending=False)
        shares = ", ".join(f"{row['facets']} {100 * row['share']:.0f} %" for row in parts.to_dict("records"))
        yield "; ".join(filter(None, (f"error variance: {shares or 'none'}", self.total.note)))
        if self.single:
            yield f"holds for one {', one '.join(self.single)}"
        what = f"{'80 % power for a distance' if self.is_distance else 'a half width'} of {number(self.half_width)}"
        yield f"cheapest design with {what}: {self.design or 'none with up to 10 levels of each facet'}"


#: A caution, and why there is no total error.
TWO_LEVELS = Note("two_levels", words="two levels of a facet show little of others; ask a third")
_ONE_LEVEL = because("one_level", "one {facets}, so nothing is known of others")
_FEW = because("few_whole_contexts", "fewer than 6 contexts are judged by all combinations of {facets}")


def total_error(
    values: Floats,
    facets: Sequence[str],
    how: Resampling,
    null: float = 0.0,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    sampling: tuple[float, float] = (0.0, 1.0),
    half_width: float | None = None,
    costs: Costs | None = None,
) -> TotalError:
    """Estimate a mean with contexts, and judges, prompts and samples as random facets.

    Parameters
    ----------
    values : numpy.ndarray, shape (contexts, levels of the first facet, …)
        Mean of each context under every combination of levels.
    facets : sequence of str
        Names of the facets.
    how : Resampling
        Confidence level.
    null : float
        Value without an effect.
    bounds : tuple of float
        Smallest and largest possible mean.
    sampling : tuple of float
        Variance of a value that is due to a single sample, and the number of samples.
    half_width : float, optional
        Half width that would settle the conclusion; by default what detects the distance from the null with 80 % power.
    costs : Costs, optional
        Prices.

    Notes
    -----
    The variance of the mean is the alternating sum of mean squares of a crossed random design, Σ (−1)^(|S| + 1) MS(S) /
    N (Brennan 2001, ch. 5), at least the largest mean square of a single facet; degrees of freedom are Satterthwaite's.
    If a facet has two levels, intervals of these cover as little as .89. Student's quantile is then the geometric mean
    of Satterthwaite's and of Cochran and Cox's (1957, §4.14), which is conservative.

    In 1,000 simulated studies of 24, 60 and 200 contexts, 3 to 6 templates and 2 to 5 judges, intervals covered .93 to
    .98 where both differ, and naive ones .19 to .87; where only judges differ .92 to .96, with two of them .90 to .96;
    where none does .95 to .97, with two judges up to .99.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> judges = np.array([0.0, 0.3, -0.2, 0.4])
    >>> found = total_error(rng.normal(size=(50, 4)) + judges, ["judge"], Resampling())
    >>> round(found.naive.se, 2), round(found.total.se, 2)
    (0.07, 0.2)
    """
    sizes = dict(zip(facets, values.shape[1:], strict=True))
    levels = {name: size for name, size in sizes.items() if size > 1}
    single = tuple(name for name in facets if name not in levels)
    nothing, contexts = pd.DataFrame({"facets": [], "variance": [], "share": []}), len(values)
    if contexts < FEWEST:
        why = undefined(_FEW.with_values(facets=", ".join(facets)), contexts)
        return TotalError(why, why, levels, single, nothing)
    values = values.reshape(contexts, *levels.values())
    mean, squares = float(values.mean()), _mean_squares(values)
    estimate = partial(_estimate, mean, contexts=contexts, how=how, null=null, bounds=bounds)
    naive = estimate(squares[0,][0] / values.size, contexts - 1, "t over contexts")
    if not levels:
        return TotalError(naive, undefined(_ONE_LEVEL.with_values(facets=", one ".join(facets))), {}, single, nothing)
    total = estimate(*_satterthwaite(squares, values.size), "random facets, Satterthwaite t")
    if min(levels.values()) == _TWO:
        total = total.noted(TWO_LEVELS)
    parts = _components(squares, values.shape)
    names = ["context", *levels]
    rows = pd.DataFrame({
        "facets": [" × ".join(names[axis] for axis in axes) for axes in parts], "variance": list(parts.values()),
        "share": [max(part, 0.0) / math.prod(values.shape[axis] for axis in axes) for axes, part in parts.items()],
    })  # fmt: skip
    rows["share"] /= rows["share"].sum() or 1.0
    every, (noise, samples) = tuple(range(values.ndim)), sampling
    found = {axes: max(part, 0.0) for axes, part in parts.items()} | {every: max(parts[every] - noise / samples, 0.0)}
    target = abs(mean - null) if half_width is None else half_width
    wanted = _Wanted(found, noise, target, 0.0 if half_width is not None else _POWER, how.level)
    design = wanted.cheapest(list(levels), costs or Costs()) if target else None
    return TotalError(naive, total, levels, single, rows, target, design, half_width is None)


def _estimate(
    mean: float, variance: float, df: float, method: str, *,
    contexts: int, how: Resampling, null: float, bounds: tuple[float, float],
) -> Estimate:  # fmt: skip
    """Return a mean with the interval and the test of Student's t."""
    error = math.sqrt(variance)
    if is_rounding(error, mean):
        p_value = 2.0 ** (1 - contexts)
        return unvarying(mean, contexts, how.level, bounds if np.isfinite(bounds).all() else None, p_value, null=null)
    (low, high), p_value = (
        student(mean, error, df + 1, how.level),
        2 * float(special.stdtr(df, -abs(mean - null) / error)),
    )
    low, high = max(low, bounds[0]), min(high, bounds[1])
    low, high, p_value = settled((low, high), null, p_value, how.level)
    return Estimate(mean, error, low, high, p_value, math.nan, contexts, method)


def _mean_squares(values: Floats) -> Squares:
    """Return the mean square and the degrees of freedom of each facet and interaction."""
    axes, squares = range(values.ndim), {}
    subsets = [each for size in range(values.ndim + 1) for each in combinations(axes, size)]
    means = {own: values.mean(axis=tuple(set(axes) - set(own)), keepdims=True) for own in subsets}
    for own in subsets[1:]:
        effect = sum((-1) ** (len(own) - len(part)) * means[part] for part in subsets if set(part) <= set(own))
        degrees = math.prod(values.shape[axis] - 1 for axis in own)
        repeated = math.prod(values.shape[axis] for axis in axes if axis not in own)
        squares[own] = float((np.asarray(effect) ** 2).sum()) * repeated / degrees, degrees
    return squares


def _satterthwaite(squares: Squares, n: float) -> tuple[float, float]:
    """Return the variance of the mean and its degrees of freedom."""
    total = sum((-1) ** (len(own) + 1) * square for own, (square, _) in squares.items())
    single = [value for own, value in squares.items() if len(own) == 1]
    total = max(total, *(square for square, _ in single))
    if not total:
        return 0.0, 1.0
    df = max(total**2 / sum(square**2 / degrees for square, degrees in squares.values()), 1.0)
    if min(degrees for _, degrees in single) == 1:
        sizes, degrees = np.array(single).T
        cochran = sizes @ special.stdtrit(degrees, _UPPER) / sizes.sum()
        df = float(special.stdtridf(_UPPER, math.sqrt(cochran * special.stdtrit(df, _UPPER))))
    return total / n, df


def _components(squares: Squares, shape: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Return the variance components: mean squares equated to their expectations."""
    return {
        own: sum((-1) ** (len(of) - len(own)) * square for of, (square, _) in squares.items() if set(own) <= set(of))
        / math.prod(size for axis, size in enumerate(shape) if axis not in own)
        for own in squares
    }


@dataclass(frozen=True)
class _Wanted:
    """Components of variance, and the half width that designs are to have."""

    components: dict[tuple[int, ...], float]
    noise: float
    half_width: float
    power: float
    level: float

    def cheapest(self, facets: Sequence[str], costs: Costs) -> CheapestDesign | None:
        """Return the cheapest design with the half width, over numbers of levels and samples."""
        designs = []
        for *sizes, samples in product(*[_SIZES] * len(facets), _SAMPLES if self.noise else (1,)):
            if not self._suffices((_MOST_CONTEXTS, *sizes), samples):
                continue
            least, most = FEWEST - 1, _MOST_CONTEXTS
            while most - least > 1:
                middle = (least + most) // 2
                least, most = (least, middle) if self._suffices((middle, *sizes), samples) else (middle, most)
            price = most * (costs.context + costs.judgement * math.prod(sizes) * samples)
            designs.append(CheapestDesign(most, dict(zip(facets, sizes, strict=True)), samples, price))
        return min(designs, key=lambda design: design.price, default=None)

    def _suffices(self, shape: tuple[int, ...], samples: int) -> bool:
        """Return whether a design has the half width, by its expected mean squares."""
        every = tuple(range(len(shape)))
        parts = self.components | {every: self.components[every] + self.noise / samples}
        squares = {}
        for own in parts:
            above = ((of, part) for of, part in parts.items() if set(own) <= set(of))
            square = sum(part * math.prod(shape[axis] for axis in every if axis not in of) for of, part in above)
            squares[own] = square, math.prod(shape[axis] - 1 for axis in own)
        variance, df = _satterthwaite(squares, math.prod(shape))
        quantiles = special.stdtrit(df, [(1 + self.level) / 2, self.power or 0.5])
        return bool(quantiles.sum() * math.sqrt(variance) <= self.half_width)
