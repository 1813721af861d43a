"""What an audit estimates in addition to the probes: agreement with people, halo, positions in single lists.

Covariates at equal human label: whether items with more of something score higher than people's labels justify.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special

from biaslab.core.arrays import Codes, Floats
from biaslab.core.files import declared
from biaslab.core.metrics import Comparison, Metric, declare_metrics
from biaslab.measures.ranking.lists import ListBlocks, list_blocks, place_excess, spearman_place_rank
from biaslab.probes.base.feature_probe import (
    allowing_for_bends,
    bounded_scale,
    holding_for,
    kept_columns,
    slope_given_quality,
    without_test,
)
from biaslab.probes.base.probe import Accepted, Cell, Part, rated
from biaslab.stats.blocks import ITEM, each_cell, usable, whole_blocks
from biaslab.stats.correlation import jackknife_t
from biaslab.stats.estimate import Estimate, Note, because, is_rounding, undefined
from biaslab.stats.frame import estimates_frame
from biaslab.stats.reliability import LEAST_RELIABILITY, known_reliability, moments_within, read_ratings
from biaslab.stats.resample import Resampling, grouped_codes, without_clusters

_METRICS = declared("biaslab.logs.audit", "metrics.toml")


def _metric(name: str, entry: Mapping[str, Any]) -> Metric:
    """Return a metric of the table."""
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items() if key != "comparison"
    }
    if (comparison := entry.get("comparison")) is not None:
        fields["comparison"] = Comparison(comparison["of"], tuple(comparison.get("alike", ())))
    return Metric(name, **fields)


@dataclass(frozen=True)
class AuditMeasure(ABC):
    """Base for measures: select the recorded judgements that support an estimate, and estimate it.

    Parameters
    ----------
    resampling : Resampling
        Confidence level and resampling of the estimates.
    reliability : float, optional
        Reliability that is declared of people's labels, as in `biaslab.audit`.

    Attributes
    ----------
    name : str
        Name in the column ``probe`` of the estimates.
    metrics : tuple of Metric
        The metrics that it declares, in ``metrics.toml``; those of a probe are declared there.
    primary : tuple of str
        Names of the primary metrics, over which q-values are computed.
    leading : tuple of str
        Metrics that `biaslab.doctor` lists, if not the primary ones.
    """

    name: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]] = ()
    primary: ClassVar[tuple[str, ...]] = ()
    leading: ClassVar[tuple[str, ...]] = ()

    resampling: Resampling
    reliability: float | None = field(default=None, kw_only=True)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if hasattr(cls, "name"):
            cls.metrics = tuple(_metric(name, entry) for name, entry in _METRICS.get(cls.name, {}).items())
            cls.primary = cls.primary or tuple(metric.name for metric in cls.metrics if metric.primary)
            declare_metrics(cls.name, cls.metrics, again=True)

    @abstractmethod
    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select the trials that support an estimate; the note gives the reason if there are none."""

    @abstractmethod
    def estimate(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates frame."""


@dataclass(frozen=True)
class CellMeasure(AuditMeasure):
    """Base for measures that are estimated separately in each cell.

    Attributes
    ----------
    cell : tuple of str
        Columns of trials that define cells, judge and data set first.
    conditions : tuple of str
        Condition columns of the estimates in addition to those of the cell.
    """

    cell: ClassVar[tuple[str, ...]]
    conditions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell, one part per condition."""

    def estimate(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates frame."""
        rows = []
        for values, chosen in each_cell(trials, self.cell):
            where = dict(zip(self.cell, values, strict=True))
            for part in self.measure(chosen):
                rows += part.rows(Cell(chosen, where, tuple(part.metrics), True, self.name, self.resampling))
        return estimates_frame(rows, self.name, self.primary, (*self.cell[2:], *self.conditions))


@dataclass(frozen=True)
class Halo(CellMeasure):
    """Halo effect: correlation of a judge's scores of two attributes, compared with that of human scores.

    Notes
    -----
    Estimates, one per judge × data set × configuration × scale × pair of attributes (``attribute``, ``other``), from
    items that judge and humans scored on both. Correlations are Pearson's, of deviations from the means of contexts:

    ``halo_judge``, ``halo_human`` (-1 to 1)
        Correlation of the two attributes in the judge's scores, and in human scores.
    ``halo_excess`` (primary; -2 to 2, null 0)
        ``halo_judge`` minus ``halo_human``. Above 0: the judge distinguishes the attributes less than humans do.

    **Measurement error.** Noise attenuates correlations, so a judge that is less noisy than its raters, or more, seems
    to differ from them. Where items have ratings of several annotators, or several replicates of the judge, variances
    and covariances come from products of different annotators, or replicates, alone: their errors cancel, also if an
    annotator errs alike on both attributes. Where there is one score per item, the interval and the test hold for all
    reliabilities of this score from .3 to 1. Standard errors: cluster jackknife over contexts.

    References
    ----------
    Spearman 1904, *The proof and measurement of association between two things*, American Journal of Psychology 15(1).
    """

    name: ClassVar[str] = "halo"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "configuration", "scale")
    conditions: ClassVar[tuple[str, ...]] = ("attribute", "other")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select items with scores of several attributes by a judge and by humans."""
        scores = rated(trials)
        item = ["judge", "dataset", "configuration", *ITEM]
        several = scores.groupby(item)["attribute"].transform("nunique") > 1
        if scores.empty or not several.any():
            why = "needs scores of two attributes of the same items by a judge and by humans"
            return Accepted(scores.iloc[:0], why)
        return Accepted(scores)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of each pair of attributes."""
        readable = usable(trials)
        means = readable.pivot_table(index=list(ITEM), columns="attribute", values=["value", "human"], sort=False)
        for one, other in combinations(dict.fromkeys(readable["attribute"]), 2):
            wanted = [(kind, name) for kind in ("value", "human") for name in (one, other)]
            if not set(wanted) <= set(means.columns):
                continue
            four = means[wanted].dropna()
            of_both = readable[readable["attribute"].isin([one, other])]
            inside = pd.MultiIndex.from_frame(of_both[list(ITEM)]).isin(four.index)
            planned = int(trials["attribute"].isin([one, other]).sum())
            effect = _halo(four, of_both, [one, other], self)
            yield Part(effect, (int(inside.sum()), planned - int(inside.sum())), {"attribute": one, "other": other})


_KNOWN = 0.5  # minimum share of items with two scores of a source for which the error of this source is corrected
_ASSUMED = (1.0, 0.85, 0.7, 0.55, 0.4, LEAST_RELIABILITY)  # reliabilities of single scores
_NO_VARIATION = because("attributes_do_not_vary", "in no context do both attributes vary for the judge and for humans")
_UNRELIABLE = because("unreliable_scores", "scores by the same {who} agree too little (reliability {reliability:.2f})")
_IMPOSSIBLE = because(
    "impossible_reliability",
    "a reliability of {declared:g} is declared of human scores, but they correlate by ±{least:.2f} or more",
)


def _halo(four: pd.DataFrame, rows: pd.DataFrame, attributes: list[str], measure: Halo) -> dict[str, Estimate]:
    """Estimate the three metrics from mean scores and, where these are several per item, those behind them."""
    codes, names = pd.factorize(four.index.get_level_values("context_id"))
    resampling, declared = measure.resampling, known_reliability(rows, measure.reliability)
    groups = pd.factorize(resampling.cluster_of(names))[0] if resampling.clusters else None
    correlations: dict[str, list[Floats]] = {}

    def estimate(values: Floats, null: float | None, bound: float) -> Estimate:
        return jackknife_t(values, len(values) - 1, resampling.level, _METHOD, null, (-bound, bound))

    for who, kind, single_scores in (("judge", "value", _of_replicates), ("human", "human", _of_annotators)):
        source = single_scores(rows, attributes, four.index)
        several = np.bincount(source["item"], minlength=len(codes)) > 1
        stated = declared if who == "human" else None
        known = stated is None and several.any() and several.mean() >= _KNOWN
        means = pd.DataFrame(four[kind].to_numpy(float), columns=["one", "other"])
        means = means.assign(item=np.arange(len(codes)), annotator=who)
        moments = plain = moments_within(means[several] if known else means, codes, across=False)
        if known:
            moments = moments_within(source[several[source["item"]]], codes, across=True)
        with np.errstate(invalid="ignore"):
            reliability = float((moments[0, :2] / plain[0, :2]).min())
        if is_rounding(plain[0, :2]).any() or reliability < LEAST_RELIABILITY:
            unreliable = _UNRELIABLE.with_values(who=who, reliability=reliability)
            why_not = _NO_VARIATION if is_rounding(plain[0, :2]).any() else unreliable
            return dict.fromkeys(_HALO, undefined(why_not, len(names)))
        one, other, both = without_clusters(moments, groups).T
        raw = both / np.sqrt(np.where((one > 0) & (other > 0), one * other, np.nan))
        if stated is not None and (impossible := _impossible(stated, estimate(raw, None, 1.0))):
            return dict.fromkeys(_HALO, undefined(impossible, len(names)))
        least = max(abs(float(raw[0])), LEAST_RELIABILITY)
        each = [*_ASSUMED, least] if stated is None else [max(stated, least)]  # a correlation is at most 1
        assumed = [1.0] if known else [share for share in each if share >= least]
        correlations[who] = [raw / share for share in assumed]

    judge, human = correlations.values()
    unknown = [who for who, each in correlations.items() if len(each) > 1]
    every = [estimate(one - other, 0.0, 2.0) for one in judge for other in human]
    return {
        "halo_judge": estimate(judge[0], None, 1.0),
        "halo_human": estimate(human[0], None, 1.0),
        "halo_excess": _over_reliabilities(every, unknown),
    }


def _impossible(declared: float, raw: Estimate) -> Note | None:
    """Return why human scores that correlate like this cannot have the declared reliability, if they cannot."""
    least = max(raw.ci_low, -raw.ci_high)
    return _IMPOSSIBLE.with_values(declared=declared, least=least) if declared < least else None


_HALO = ("halo_judge", "halo_human", "halo_excess")
_METHOD = "correlation within contexts, cluster jackknife, t"


def _of_replicates(rows: pd.DataFrame, attributes: list[str], items: pd.Index[Any]) -> pd.DataFrame:
    """Return the judge's replicates, one row per item and replicate: item, annotator, one, other."""
    wide = rows.pivot_table("value", [*ITEM, "replicate"], "attribute", sort=False)[attributes].dropna()
    scores = wide.set_axis(["one", "other"], axis=1).reset_index("replicate").rename(columns={"replicate": "annotator"})
    return scores.assign(item=items.get_indexer(scores.index)).query("item >= 0").reset_index(drop=True)


def _of_annotators(rows: pd.DataFrame, attributes: list[str], items: pd.Index[Any]) -> pd.DataFrame:
    """Return single human ratings in the same form, of annotators who rated both attributes of an item."""
    each = []
    for attribute in attributes:
        own = rows[rows["attribute"] == attribute].drop_duplicates(list(ITEM)).set_index(list(ITEM)).reindex(items)
        each.append(read_ratings(own, own["human"].to_numpy(float)))
    return each[0].merge(each[1], on=["item", "annotator"]).rename(columns={"score_x": "one", "score_y": "other"})


def _over_reliabilities(every: list[Estimate], unknown: list[str]) -> Estimate:
    """Return the first estimate with the interval and test that hold for all reliabilities of the unknown scores."""
    known = [each for each in every if not np.isnan(each.ci_low)]  # NaN without variation
    if not unknown or np.isnan(every[0].ci_low):
        return every[0]
    wide = holding_for(known, f"holds for reliabilities of single {' and '.join(unknown)} scores from .3 to 1")
    return wide.noted(Note("over_reliabilities", {"low": wide.ci_low, "high": wide.ci_high}))


_LIST = ["context_id", "replicate", "list_order"]
_FEWEST = 10  # minimum lists for a candidate to count as a system; single texts occur once or twice
_SHOWING = f"human scores, systems in at least {_FEWEST} lists each, or each list in balanced orders"
_NOT_BALANCED = because(
    "unbalanced_order",
    "{what} are not balanced over positions (p {p_value:.2g}), so quality cannot be separated from position",
)
#: Why position has no test where nothing in the log can show whether better texts come first.
UNKNOWN_ORDER = Note("unknown_order", words="no test: the order may follow from quality; {what} would show it")
_UNBALANCED = 0.05  # significance level of the balance tests; at .01 a mild imbalance gave a type-I error of .095


@dataclass(frozen=True)
class OneList(CellMeasure):
    """Measure position bias from lists ranked in one order only.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template × length of the list, from lists ranked as a whole:

    ``first_place_excess`` (primary; −1/k to 1 − 1/k, null 0)
        Share of lists whose first candidate is ranked best, minus 1/k.
    ``place_rank_correlation`` (−1 to 1, null 0)
        Mean Spearman correlation of position and rank; above: earlier candidates are ranked better.

    Both are estimated and tested as in `biaslab.probes.ListPosition`, clustered by context.

    **Assumption.** The position of a candidate does not depend on its quality. This holds if the order was random: each
    position then has the best candidate in one of k lists, however much candidates differ. A test checks whether each
    system, if candidates are systems, and human scores, if known, are balanced over positions: its moments are those of
    permuting positions within each context, in all its lists alike, because lists of a context may share their order.
    For k systems that are in every list, one list per context, it is (k − 1)/k times Pearson's statistic of systems by
    positions, χ² with (k − 1)² degrees of freedom (Anderson 1959). Nothing is estimated if one is unbalanced at the .05
    level; if there is nothing to test, there is no interval and no test, also if lists have several orders: that these
    do not resemble each other shows too little (a type-I error of .22 if better texts come slightly first). Ranking
    each list in balanced orders needs no such assumption and is the better design.

    References
    ----------
    Anderson 1959, *Use of contingency tables in the analysis of consumer preference studies*, Biometrics 15.
    """

    name: ClassVar[str] = "one_list"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template", "k")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select lists that were not ranked in balanced orders."""
        lists = trials[trials["probe"] == self.name]
        if lists.empty:
            return Accepted(lists, "needs lists of candidates ranked in one order each")
        return Accepted(lists, "assumes a random order; ranking balanced orders needs no assumption and has more power")

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell."""
        lists = [trials[name] for name in _LIST]
        blocks = list_blocks(trials.assign(replicate=trials.groupby(lists).ngroup(), list_order=0), self.name)
        read = trials["status"].eq("ok").groupby(lists).transform("all")
        metrics = _metrics(blocks, _balance(trials[read], blocks.k, self.resampling), self.resampling)
        yield Part(metrics, (blocks.n_trials, blocks.n_dropped))


def _metrics(blocks: ListBlocks, balance: Mapping[str, float], resampling: Resampling) -> dict[str, Estimate]:
    """Estimate both metrics; leave them undefined if a balance test shows that the order was not random."""
    what, p_value = min(balance.items(), key=itemgetter(1), default=("", 1.0))
    if p_value < _UNBALANCED:
        unknown = undefined(_NOT_BALANCED.with_values(what=what, p_value=p_value), len(set(blocks.context)))
        return {"first_place_excess": unknown, "place_rank_correlation": unknown}
    checks = [f"{name} balanced (p {each:.2g})" for name, each in balance.items()]
    metrics = {
        "first_place_excess": place_excess(blocks, 0, resampling),
        "place_rank_correlation": spearman_place_rank(blocks).estimate(resampling),
    }
    assumption = f"; assumes random order{': ' if checks else ''}{', '.join(checks)}"
    order = UNKNOWN_ORDER.with_values(what=_SHOWING)
    return {
        name: replace(each if checks else without_test(each).noted(order), method=f"{each.method}{assumption}")
        if np.isfinite(each.estimate)
        else each
        for name, each in metrics.items()
    }


def _balance(ranked: pd.DataFrame, k: int, resampling: Resampling) -> dict[str, float]:
    """Return the p-values of tests that systems and human scores are balanced over positions, if these are known."""
    if ranked.empty:
        return {}
    cluster = grouped_codes(pd.factorize(resampling.cluster_of(ranked["context_id"]))[0], resampling.seed)
    cell = cluster * k + ranked["place"].to_numpy(np.intp) - 1
    scores = ranked["human"] - ranked.groupby(_LIST)["human"].transform("mean")
    p_values: dict[str, float] = {}
    if ranked["candidate_id"].value_counts().min() >= _FEWEST:
        systems = pd.get_dummies(ranked["candidate_id"], dtype=float).to_numpy()
        p_values["systems"] = _permuted_positions(systems, cell, k)
    if scores.notna().all() and scores.any():
        p_values["human scores"] = _permuted_positions(scores.to_numpy(float)[:, None], cell, k)
    return p_values


def _permuted_positions(values: Floats, cell: Codes, k: int) -> float:
    """Test that totals of values, shape (rows, variables), do not depend on the position; cells are context × position.

    The statistic is the quadratic form of the totals with their covariance when permuting positions within contexts.
    """
    contexts = int(cell.max()) // k + 1
    sums = np.stack([np.bincount(cell, each, contexts * k).reshape(contexts, k) for each in values.T], axis=2)
    left = sums - sums.mean(axis=1, keepdims=True)
    gram, total = np.einsum("cpi,cpj->ij", left, left), left.sum(axis=0)
    rank = int(np.linalg.matrix_rank(gram, hermitian=True))
    statistic = (k - 1) * float(np.sum(total @ np.linalg.pinv(gram, hermitian=True) * total))
    return float(special.chdtrc(rank * (k - 1), statistic)) if rank else 1.0


_MOST = 20  # levels of a column of words that are compared
_UNBOUNDED = because("unbounded_scale", "the scale has no ends, so that nothing is a share of it")
_CONSTANT = because("constant_covariate", "{covariate} has one value where people's labels are known")
_MANY = because("many_levels", "{covariate} has {levels} values: group them into at most {most}")


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

    def slope(bent: bool = False) -> Estimate:
        return slope_given_quality(given, "covariate", measure.resampling, False, (), measure.reliability, bent)

    return allowing_for_bends(slope(), lambda: slope(bent=True), items, measure.resampling)


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
