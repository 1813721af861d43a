"""Compare a metric between thinking budgets, paired by context; with agreement, reliability and cost at each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.core import Metric
from biaslab.core.arrays import Codes, Floats
from biaslab.measures.ranking import pairs
from biaslab.probes.base import Cell, Estimable, Part, Probe, mean_of
from biaslab.stats import (
    ITEM,
    Estimate,
    Ratio,
    agreement_within,
    estimate_alpha,
    undefined,
    usable,
)
from biaslab.stats.estimate import VALUES_ONLY, without_interval
from biaslab.stats.together import Together, quickly, suppressed_data_warnings

Key = tuple[Any, ...]  # condition values of one row of the metric, None if empty
_PER = 1000  # judgements to which dollars refer
_POINTS = 100  # points per unit
_EXACT_SCORES = 'undefined: expected scores are exact and have no sampling noise; use answer="text"'
_ONCE = 'undefined: each request was sampled once; use answer="text" and replicates=2 or more'
_NOT_LESS = "undefined: the bias is not reduced"
_NO_POINT = "undefined: the reduction may be zero, so the cost per point is unbounded (Fieller's g {:.3g})"


@dataclass(frozen=True)
class Budgets:
    """The trials of one cell of a probe at several budgets.

    Parameters
    ----------
    probe : Probe
        Measures the bias.
    metric : Metric
        The metric to compare.
    cell : Cell
        The cell; its trials have a column ``thinking``.
    names : tuple of str
        The budgets; the first is the reference.
    prices : mapping of str to float
        Dollars per million tokens; empty to leave out dollars.
    """

    probe: Probe
    metric: Metric
    cell: Cell
    names: tuple[str, ...]
    prices: Mapping[str, float]

    def of_bias(self) -> Iterator[Part]:
        """Yield the metric at each budget, then its differences from the first, and their cost."""
        wanted = ("thinking_shift", "bias_reduction", "resampling_noise", "tokens_per_point", "dollars_per_point")
        for key, first in self._parts[self.names[0]].items():
            for name in self.names:
                if (part := self._parts[name].get(key)) is not None:
                    metrics = {"bias": part.metrics[self.metric.name]}
                    yield Part(metrics, part.judgements(), self._where(first, name, ""), part.note)
            for name in self.names[1:] if self.cell.wants(*wanted) else ():
                if (part := self._parts[name].get(key)) is not None:
                    counts = np.add(first.judgements(), part.judgements())
                    note = "; ".join(dict.fromkeys(filter(None, (first.note, part.note))))
                    where = self._where(first, name, self.names[0])
                    yield Part(self._shifts(key, name), (int(counts[0]), int(counts[1])), where, note)

    def of_agreement(self) -> Iterator[Part]:
        """Yield the differences in agreement with humans from the first budget."""
        first, *others = ((name, of_judgements(self.cell_of(name).trials)) for name in self.names)
        if not self.cell.wants("agreement_shift") or agreement(first[1]) is None:
            return
        for name, asked in others:
            one, two = agreement(asked), agreement(first[1])
            assert one is not None and two is not None  # noqa: S101, PT018 - all budgets ask the same
            shift = partial(replace(one, inference="t").difference, two, self.cell.resampling)
            where = {"measured": "", "thinking": name, "against": first[0]}
            yield Part({"agreement_shift": shift}, pd.concat([asked, first[1]]), where)

    def cell_of(self, name: str) -> Cell:
        """Return the trials at one budget."""
        return replace(self.cell, trials=self.cell.trials[self.cell.trials["thinking"] == name])

    @cached_property
    def _parts(self) -> dict[str, dict[Key, Part]]:
        """Results of the probe at each budget, by the conditions of its rows."""
        return {name: _measured(self.probe, self.metric, self.cell_of(name)) for name in self.names}

    def _where(self, part: Part, name: str, against: str) -> dict[str, Any]:
        own = {column: value for column, value in part.condition.items() if column != "human_gap"}
        return {"measured": self.metric.name, "thinking": name, "against": against, **own}

    def _shifts(self, key: Key, name: str) -> dict[str, Estimable]:
        """Return the shift of the metric at a budget, and the metrics derived from it."""
        metrics: dict[str, Estimable] = {
            "thinking_shift": partial(self._shift, key, name),
            "bias_reduction": partial(self._reduction, key, name),
            "resampling_noise": partial(self._noise, key, name),
            "tokens_per_point": partial(self._per_point, key, name, "tokens"),
        }
        if self.prices:
            metrics["dollars_per_point"] = partial(self._per_point, key, name, "dollars")
        return metrics

    def _shift(self, key: Key, name: str) -> Estimate:
        """Return the metric at a budget minus that at the first, by the jackknife over units."""
        values = self._pair(key, name)
        for budget, value in zip((self.names[0], name), values[0], strict=True):
            if math.isnan(value):
                return undefined(self._why_not(key, budget), self._units.size)
        if self.cell.resampling.values_only:
            return without_interval(float(values[0, 1] - values[0, 0]), self._units.size, VALUES_ONLY)
        shift = self._jackknifed(values).combined([-1.0, 1.0])
        return replace(shift, note="; ".join(filter(None, (shift.note, self._note_thoughts(name)))))

    def _reduction(self, key: Key, name: str) -> Estimate:
        distances, weights = self._distances(key, name)
        return replace(self._jackknifed(distances).combined(weights), p_value=math.nan, mde=math.nan)

    def _per_point(self, key: Key, name: str, unit: str) -> Estimate:
        """Return the cost per point: additional cost over reduction of the bias."""
        distances, weights = self._distances(key, name)
        if not weights @ distances[0] > 0:
            return undefined(_NOT_LESS, self._units.size)
        costs = []
        for budget in (self.names[0], name):
            asked = of_judgements(self.cell_of(budget).trials)
            cost = tokens(asked) if unit == "tokens" else dollars(asked, self.prices)
            costs.append(cost.without_each(self._units.number(cost.context), self._units.size))
        joint = self._jackknifed(np.column_stack([distances, *costs]))
        return joint.quotient([0.0, 0.0, -1.0, 1.0], [*(_POINTS * weights), 0.0, 0.0], _NO_POINT)

    def _noise(self, key: Key, name: str) -> Estimate:
        """Return the standard deviation of a shift due to the sampling of replies."""
        variance, df = 0.0, 0
        for budget in (self.names[0], name):
            cell = self.cell_of(budget)
            if not has_samples(of_judgements(cell.trials)):
                return undefined(_ONCE, self._units.size)
            values = [self._value(key, rows) for _, rows in cell.trials.groupby("replicate")]
            variance += float(np.var(values, ddof=1)) / len(values)
            df += len(values) - 1
        if math.isnan(variance):
            return undefined("undefined: no estimate for one of the replicates", self._units.size)
        tails = np.array([1 + self.cell.resampling.level, 1 - self.cell.resampling.level]) / 2
        low, high = np.sqrt(variance * df / stats.chi2.ppf(tails, df)).tolist()
        method = f"χ² over replicates, {df} df"
        return Estimate(math.sqrt(variance), math.nan, low, high, math.nan, math.nan, self._units.size, method)

    def _distances(self, key: Key, name: str) -> tuple[Floats, Floats]:
        """Return distances from the null at the first and at another budget, and weights of the reduction."""
        distances = self._pair(key, name) - (self.metric.null or 0.0)
        return distances, np.sign(distances[0]) * [1.0, -1.0]

    def _jackknifed(self, values: Floats) -> Together:
        return Together.jackknifed(values, self._units.size, self.cell.resampling.level)

    def _pair(self, key: Key, name: str) -> Floats:
        """Return the metric at the first and at another budget, over all trials and then leaving out each unit."""
        return np.column_stack([self._column(key, each) for each in (self.names[0], name)])

    def _column(self, key: Key, name: str) -> Floats:
        if (key, name) not in self._columns:
            self._columns[key, name] = self._left_out(key, name)
        return self._columns[key, name]

    @cached_property
    def _columns(self) -> dict[tuple[Key, str], Floats]:
        return {}

    def _left_out(self, key: Key, name: str) -> Floats:
        """Return the metric over all trials, then without each unit; NaN where undefined."""
        metric, units = self._parts[name][key].metrics[self.metric.name], self._units
        if isinstance(metric, Ratio) and self.cell.resampling.weights != "contexts":
            return metric.without_each(units.number(metric.context), units.size)
        trials = self.cell_of(name).trials
        number = units.number(trials["context_id"])
        left = [] if self.cell.resampling.values_only else [trials[number != unit] for unit in range(units.size)]
        values = [self._value(key, rows) for rows in (trials, *left)]
        return np.array(values + [math.nan] * (1 + units.size - len(values)))

    def _value(self, key: Key, trials: pd.DataFrame) -> float:
        """Return the metric of some trials; NaN if undefined."""
        quick = quickly(self.probe)
        cell = replace(self.cell, trials=trials, resampling=quick.resampling)
        with suppressed_data_warnings():
            part = _measured(quick, self.metric, cell).get(key)
            return math.nan if part is None else _estimate(part.metrics[self.metric.name], cell).estimate

    @cached_property
    def _units(self) -> _Units:
        return _Units.of(self.cell)

    def _why_not(self, key: Key, name: str) -> str:
        """Return why the metric is undefined at a budget."""
        note = _estimate(self._parts[name][key].metrics[self.metric.name], self.cell).note
        return note or f"undefined: no estimate at the budget {name}"

    def _note_thoughts(self, name: str) -> str:
        """Return a note if counted tokens show that budgets were not followed."""
        first, longer = (of_judgements(self.cell_of(each).trials) for each in (self.names[0], name))
        if "thought_tokens" not in first:
            return ""
        notes = []
        if not longer["thought_tokens"].any():
            notes.append(f"no thinking tokens at budget {name}: the model may not think")
        if self.names[0] == "0" and first["thought_tokens"].any():
            notes.append("thinking tokens at budget 0: thinking cannot be turned off")
        return "; ".join(notes)


@dataclass(frozen=True)
class _Units:
    """Jackknife units of a cell: its contexts, with those that share requests merged."""

    cell: Cell
    names: pd.Index

    @classmethod
    def of(cls, cell: Cell) -> _Units:
        return cls(cell, pd.Index(np.asarray(cell.resampling.cluster_of(cell.trials["context_id"]), object)).unique())

    @property
    def size(self) -> int:
        return len(self.names)

    def number(self, contexts: ArrayLike) -> Codes:
        """Return the number of the unit of each context."""
        return self.names.get_indexer(pd.Index(np.asarray(self.cell.resampling.cluster_of(contexts), object)))


def _measured(probe: Probe, metric: Metric, cell: Cell) -> dict[Key, Part]:
    """Return a probe's results for one metric of a cell, without breakdowns."""
    chosen = replace(cell, chosen=(metric.name,), everything=False)
    parts = [part for part in probe.measure(chosen) if metric.name in part.metrics]
    return {tuple(None if value != value else value for value in part.condition.values()): part for part in parts}


def _estimate(metric: Estimable, cell: Cell) -> Estimate:
    value = metric() if callable(metric) else metric
    return value.estimate(cell.resampling) if isinstance(value, Ratio) else value


def of_judgements(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that may involve thinking (a probe may also ask for likelihoods)."""
    return trials[trials["thought_tokens"].notna()] if "thought_tokens" in trials else trials


def has_samples(asked: pd.DataFrame) -> bool:
    """Return whether requests were sampled as text at least twice."""
    return bool((asked["replicate"] > 0).any()) and bool(asked["label_mass"].isna().all())


def is_exact(asked: pd.DataFrame) -> bool:
    """Return whether values are exact, so that asking again would not change them."""
    return bool(asked["label_mass"].notna().any()) and bool(asked["samples"].isna().all())


def qualities(cell: Cell, prices: Mapping[str, float]) -> dict[str, Estimable]:
    """Return the other metrics of the judgements at one budget."""
    asked = of_judgements(cell.trials)
    metrics: dict[str, Estimable] = {"reliability": partial(_reliability, asked, cell)}
    if (agree := agreement(asked)) is not None:
        metrics["agreement"] = agree
    if "tokens" in asked:
        metrics["tokens"] = tokens(asked)
    if "thought_tokens" in asked:
        paid = _paid(asked)
        metrics["thought_tokens"] = mean_of(paid, paid["thought_tokens"])
        metrics |= {"dollars": dollars(asked, prices)} if prices else {}
    return metrics


def tokens(asked: pd.DataFrame) -> Ratio:
    """Return the tokens per judgement, input plus output."""
    paid = _paid(asked)
    return mean_of(paid, paid["tokens"])


def dollars(asked: pd.DataFrame, prices: Mapping[str, float]) -> Ratio:
    """Return the dollars per thousand judgements."""
    paid = _paid(asked)
    read = paid["tokens"] - paid["written"]
    return mean_of(paid, _PER * (read * prices["input"] + paid["written"] * prices.get("output", 0.0)) / 1e6)


def agreement(asked: pd.DataFrame) -> Ratio | None:
    """Return agreement with humans; None without human scores.

    For pairs, the share ordered like humans; for scores, Kendall's τ-b within contexts, of means of samples.
    """
    if asked["opponent_id"].notna().any():
        if "human_gap" not in asked:
            return None
        return pairs.comparative_accuracy(asked["context_id"], pairs.decisions(asked), asked["human_gap"])
    if "human" not in asked:
        return None
    means = usable(asked).groupby(list(ITEM), sort=False, as_index=False)[["value", "human"]].mean()
    return agreement_within(means["context_id"], means["value"].to_numpy(float)[None], means["human"]).ratio()


def _reliability(asked: pd.DataFrame, cell: Cell) -> Ratio | Estimate:
    """Return the agreement of two samples of one request: a share for pairs, Krippendorff's α for scores."""
    if asked["opponent_id"].notna().any():
        if is_exact(asked):
            p = asked["value"].to_numpy(float)
            return mean_of(asked, 1 - 2 * p * (1 - p), None, (0.0, 1.0))
        seen = pairs.replicate_agreement(asked)
        return Ratio(seen["context_id"], seen["agree"], seen["pairs"], bounds=(0.0, 1.0), missing=_ONCE)
    if not has_samples(asked):
        return undefined(_EXACT_SCORES if is_exact(asked) else _ONCE, asked["context_id"].nunique())
    scores = usable(asked)[[*ITEM, "replicate", "value"]]
    return estimate_alpha(scores, cell.resampling, units=list(ITEM), annotator="replicate", score="value")


def _paid(asked: pd.DataFrame) -> pd.DataFrame:
    """Return one row per request, which may have several trials, such as one per label."""
    return asked.drop_duplicates("key") if "key" in asked else asked
