"""The estimates of the anchoring probe, for one judge, data set, scale and kind of answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.probes._joint_scores import WHERE, Joint, joint_scores, judgements
from biaslab.scales import Scale
from biaslab.stats import (
    ITEM,
    Estimate,
    Ratio,
    Resampling,
    cluster_difference,
    cluster_statistic,
    correlation_difference,
    estimate_correlation,
    estimate_rows,
    side_by_side,
    undefined,
    usable,
    whole_blocks,
)

Pair = tuple[str, str, int]
Rows = list[dict[str, Any]]
_CORRELATIONS = ("anchor_excess", "correlation_joint", "correlation_alone")
_AFTER = ("share_after_low", "share_after_high", "mean_after_low", "mean_after_high")
_LEVELS: tuple[Literal["context", "dataset"], ...] = ("context", "dataset")
_KENDALL = ("kendall_context", "kendall_dataset", "kendall_change")
METRICS = ("anchor_excess", "anchor_slope", *_CORRELATIONS[1:], *_AFTER, *_KENDALL)
COLUMNS = ("judge", "dataset", "scale", "answer", *ITEM, *WHERE, "human", "value", "status")


@dataclass(frozen=True)
class Cell:
    """The trials of one judge, data set, scale and kind of answer.

    Parameters
    ----------
    trials : pandas.DataFrame
        Of the anchoring probe.
    scale : Scale
        On which was answered.
    where : mapping
        What identifies the cell.
    resampling : Resampling
        Of the estimates.
    """

    trials: pd.DataFrame
    scale: Scale
    where: Mapping[str, Any]
    resampling: Resampling

    @cached_property
    def judged(self) -> pd.DataFrame:
        """One row a judgement."""
        return judgements(self.trials, self.where["answer"] == "distribution")

    def rows(self, chosen: Sequence[str]) -> Rows:
        """Estimate the chosen metrics."""
        rows: Rows = []
        joints: dict[Pair, Joint] = {}
        for pair in self._pairs():
            if {*chosen} - {"anchor_slope"}:
                joints[pair] = joint_scores(self.judged, self.trials, pair, self.scale)
                rows += self._correlations(pair, joints[pair], chosen)
                rows += self._after(pair, joints[pair], chosen)
            if "anchor_slope" in chosen and pair[2] == 2:
                rows += self._slope(pair)
        return rows + self._agreement(joints, chosen) if {*chosen} & {*_KENDALL} else rows

    def _pairs(self) -> list[Pair]:
        """Return the first attribute, a later one, and its position."""
        later = self.trials[self.trials["position"] > 1]
        return list(later[["after", "attribute", "position"]].drop_duplicates().itertuples(index=False, name=None))

    def _made(
        self, pair: Pair, made: Mapping[str, Estimate], counts: tuple[int, int], score: float = float("nan")
    ) -> Rows:
        first, later, position = pair
        at = {**self.where, "attribute": later, "after": first, "position": position, "score": score}
        return estimate_rows(made, at, self.resampling, *counts)

    def _correlations(self, pair: Pair, joint: Joint, chosen: Sequence[str]) -> Rows:
        together, alone = joint.correlations()
        n, bounds = joint.contexts, (-1.0, 1.0)
        reason = joint.note or "undefined: one of the scores is the same for all items"
        make = {
            "anchor_excess": lambda: cluster_difference(together, alone, n, self.resampling, inference="t"),
            "correlation_joint": lambda: cluster_statistic(together, n, self.resampling, None, bounds),
            "correlation_alone": lambda: cluster_statistic(alone, n, self.resampling, None, bounds),
        }
        made = {name: make[name]() for name in _CORRELATIONS if name in chosen}
        made = {m: undefined(reason, n) if np.isnan(found.estimate) else found for m, found in made.items()}
        return self._made(pair, made, (joint.n_trials, joint.n_dropped))

    def _slope(self, pair: Pair) -> Rows:
        """Regress the next score on the forced first one, with an intercept for each item."""
        found = self.judged
        part = found[(found["arm"] == "forced") & (found["after"] == pair[0]) & (found["attribute"] == pair[1])]
        if part.empty:
            return self._made(pair, {"anchor_slope": undefined("undefined: no first score was forced")}, (0, 0))
        step = part.groupby([*ITEM, "replicate"], sort=False)["forced"].rank().astype(int)
        part, steps = part.assign(step=step), list(range(1, int(step.max()) + 1))
        blocks = whole_blocks(part, "step", steps, f"anchoring (forced {pair[0]}, then {pair[1]})", keep=())
        forced = side_by_side(part, "step", "forced")
        r = forced.reindex(pd.MultiIndex.from_frame(blocks[list(ITEM)]), columns=steps).to_numpy(float)
        r = r - r.mean(axis=1, keepdims=True)
        y = blocks[steps].to_numpy(float)
        ratio = Ratio(blocks["context_id"], (r * y).sum(axis=1), (r**2).sum(axis=1), null=0.0, inference="t")
        counts = (blocks.attrs["n_trials"], blocks.attrs["n_dropped"])
        return self._made(pair, {"anchor_slope": ratio.estimate(self.resampling)}, counts)

    def _after(self, pair: Pair, joint: Joint, chosen: Sequence[str]) -> Rows:
        """Say how the later score is distributed where the first is at most, or above, the middle of the scale."""
        values, context = np.array(self.scale.values), joint.items["context_id"]
        low, counts = values <= (self.scale.low + self.scale.high) / 2, (joint.n_trials, joint.n_dropped)
        rows: Rows = []
        for side, on in (("low", low), ("high", ~low)):
            chances = joint.chances[:, on].sum(axis=1)
            weight, missing = chances.sum(axis=1), joint.note or f"undefined: no first score is {side}"
            if f"mean_after_{side}" in chosen:
                mean = Ratio(context, chances @ values, weight, bounds=(values[0], values[-1]), missing=missing)
                rows += self._made(pair, {f"mean_after_{side}": mean.estimate(self.resampling)}, counts)
            for score, share in zip(values, chances.T, strict=True) if f"share_after_{side}" in chosen else ():
                ratio = Ratio(context, share, weight, bounds=(0.0, 1.0), missing=missing)
                made = {f"share_after_{side}": ratio.estimate(self.resampling)}
                rows += self._made(pair, made, counts, float(score))
        return rows

    def _agreement(self, joints: Mapping[Pair, Joint], chosen: Sequence[str]) -> Rows:
        """Correlate scores with humans, by where they stand."""
        rows: Rows = []
        at_first: dict[str, pd.DataFrame] = {}
        for (after, attribute, position), frame, counts in self._placed(joints):
            if position == 1:
                at_first[attribute] = frame
            made = {
                f"kendall_{level}": estimate_correlation(frame, "value", "human", self.resampling, level, "kendall")
                for level in _LEVELS
                if f"kendall_{level}" in chosen
            }
            if "kendall_change" in chosen and position > 1 and attribute in at_first:
                both = frame.merge(at_first[attribute][[*ITEM, "value"]], on=list(ITEM), suffixes=("", "_first"))
                columns = ("value", "value_first", "human")
                made["kendall_change"] = correlation_difference(both, *columns, self.resampling, method="kendall")
            rows += self._made((after, attribute, position), made, counts)
        return rows

    def _placed(self, joints: Mapping[Pair, Joint]) -> Iterator[tuple[Pair, pd.DataFrame, tuple[int, int]]]:
        """Yield where a score stands, items with their score there, and counts; first places come first."""
        found = self.judged[self.judged["arm"] != "forced"]
        for place, part in found.groupby(["position", "attribute", "after"], sort=True):
            position, attribute, after = place
            known = usable(part)
            means = known.groupby(list(ITEM), sort=False)[["value", "human"]].mean().reset_index()
            pair = (str(after), str(attribute), int(position))  # type: ignore[call-overload]
            yield pair, means, (len(known), len(part) - len(known))
        for where, joint in joints.items() if self.where["answer"] == "distribution" else ():
            yield where, joint.items.assign(value=joint.items["y"]), (joint.n_trials, joint.n_dropped)
