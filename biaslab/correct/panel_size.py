"""How many judges, prompts and samples are as good as one expert: a D-study (generalizability theory)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_fits, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.output import PrintedText, count, number, with_interval
from biaslab.correct.annotations import read_annotations
from biaslab.stats.blocks import ITEM, has_value
from biaslab.stats.estimate import Estimate
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns
from biaslab.stats.reliability import Crossed, fit_components
from biaslab.stats.resample import Resampling, cluster_statistic
from biaslab.stats.sequential import require_fixed

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
        for row in self.estimates.to_dict("records"):
            if row["metric"] in ("panel_validity", "expert_validity") and row["estimate"] == row["estimate"]:
                size, price = "one person", ""
                if row["metric"] == "panel_validity":
                    size = f"{count(int(row['conditions']), self.over)} × {count(int(row['samples']), 'sample')}"
                    price = "" if math.isnan(row["price"]) else f", ${number(row['price'], 4)} an item"
                yield f"{size}: correlation with what people agree on {with_interval(row, 2)}{price}"
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
        Scores of the same items by at least two judges or prompts; replicates are samples.
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
        ``calls`` are conditions × samples, ``price`` is that of an item.

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
    columns = [over] if isinstance(over, str) else list(over)
    require_columns(trials, [*columns, "dataset", "attribute", "status", "value", *ITEM], "trials")
    require_fixed(trials, "the size of a panel")
    if "opponent_id" in trials and trials["opponent_id"].notna().any():
        raise TrialsError.plain("panel_sizes takes scores, and trials are of pairs; rank first: biaslab.ranking.rank")
    rows: list[dict[str, Any]] = []
    for (dataset, attribute), own in trials[has_value(trials)].groupby(["dataset", "attribute"], sort=False):
        panel = _Panel.of(own, columns, labels, how)
        where = {"judge": " + ".join(panel.names), "dataset": str(dataset), "attribute": str(attribute)}
        for k, n in product(conditions, samples):
            cell = {**where, "conditions": k, "samples": n, "calls": k * n}
            cell["price"] = math.nan if price is None else price * k * n
            rows += estimate_rows(panel.estimates(k, n, how), cell, how, len(own), 0)
        if panel.people is not None:
            single = {"expert_validity": panel.estimate(panel.expert, how, _BOUNDS)}
            rows += estimate_rows(single, where, how, len(own), 0)
    return PanelSizes(estimates_frame(rows, NAME, (), _CONDITIONS), " and ".join(columns))


@dataclass(frozen=True, eq=False)
class _Panel:
    """Scores of items under all conditions, and sums over people by context."""

    crossed: Crossed
    names: list[str]
    people: Floats | None

    @classmethod
    def of(cls, trials: pd.DataFrame, columns: list[str], labels: Any, how: Resampling) -> _Panel:
        frame = trials.astype(dict.fromkeys(ITEM, str))
        kinds = frame[columns].astype(str).agg(" ".join, axis=1)
        if kinds.nunique() < 2:
            raise InputError("over", columns, "columns with at least two values", f"here: {kinds.iloc[0]}")
        cells = frame.assign(kind=kinds).groupby([*ITEM, "kind"], sort=False)["value"].agg(["mean", "var", "size"])
        wide = {name: cells[name].unstack("kind") for name in cells}  # noqa: PD010 - nothing to aggregate
        whole = wide["mean"].dropna().index
        if whole.empty:
            raise TrialsError.plain(f"no item is scored by all of {', '.join(wide['mean'].columns[:5])}")
        mean, var, size = (table.loc[whole].to_numpy(float) for table in wide.values())
        context = pd.factorize(np.asarray(how.cluster_of(whole.get_level_values(0)), object))[0]
        sampled = (size > 1).any()
        noise = (np.nan_to_num(var) * (size - 1), size - 1, size) if sampled else (None, None, None)
        people = _people(frame[kinds == kinds.iloc[0]], whole, labels, mean.mean(axis=1), context)
        return cls(Crossed(context, mean, *noise), list(map(str, wide["mean"])), people)

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
