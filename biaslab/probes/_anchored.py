"""The metrics of the anchoring probe: correlations, means after a first score, the slope, agreement by place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd

from biaslab.core.scales import Scale
from biaslab.measures.scoring.conditional_shares import later_scores
from biaslab.probes._joint_scores import Floats, Joint, Pair
from biaslab.probes.base import Cell, Estimable, Part
from biaslab.stats import (
    ITEM,
    Estimate,
    Level,
    Ratio,
    Resampling,
    cluster_statistic,
    correlation_difference,
    estimate_correlation,
    number_items,
    side_by_side,
    undefined,
)

_LEVELS: tuple[Level, ...] = ("context", "dataset")


def pairs_of(trials: pd.DataFrame) -> list[Pair]:
    """Return the first attribute of each output, a later one, and its position."""
    later, pair = trials[trials["position"] > 1], ["after", "attribute", "position"]
    first = number_items(later, pair)[1]
    return [*zip(*(later[name].iloc[first].tolist() for name in pair), strict=True)]


def correlations(joint: Joint, resampling: Resampling) -> dict[str, Estimable]:
    """Return the correlation of both scores in one output, alone, and the difference."""
    together, alone, n = joint.correlations(resampling)
    bounds = (-1.0, 1.0)
    missing = joint.note or "undefined: one of the scores is the same for all items"

    def difference(weights: Floats) -> Floats:
        return together(weights) - alone(weights)

    def excess() -> Estimate:
        return cluster_statistic(difference, n, resampling, null=0.0, missing=missing, inference="t")

    return {
        "anchor_excess": excess,
        "correlation_joint": lambda: cluster_statistic(together, n, resampling, None, bounds, missing),
        "correlation_alone": lambda: cluster_statistic(alone, n, resampling, None, bounds, missing),
    }


def after_low_and_high(joint: Joint, scale: Scale) -> tuple[dict[str, Estimable], dict[float, dict[str, Ratio]]]:
    """Return the means of the later score, and the share of each score, by whether the first was low or high."""
    values, context = np.array(scale.values), joint.items["context_id"]
    low = values <= (scale.low + scale.high) / 2
    means: dict[str, Estimable] = {}
    shares: dict[float, dict[str, Ratio]] = {score: {} for score in values.tolist()}
    for side, on in (("low", low), ("high", ~low)):
        missing = joint.note or f"undefined: no first score is {side}"
        means[f"mean_after_{side}"], parts = later_scores(context, joint.chances[:, on].sum(axis=1), values, missing)
        for found, share in zip(shares.values(), parts, strict=True):
            found[f"share_after_{side}"] = share
    return means, shares


def slope(cell: Cell, judged: pd.DataFrame, pair: Pair) -> tuple[Ratio | Estimate, pd.DataFrame | tuple[int, int]]:
    """Regress the next score on the forced first one, with an intercept for each item; return counts too."""
    first, later, _ = pair
    part = judged[(judged["arm"] == "forced") & (judged["after"] == first) & (judged["attribute"] == later)]
    if part.empty:
        return undefined("undefined: no first score was forced"), (0, 0)
    part = part.assign(step=part.groupby([*ITEM, "replicate"], sort=False)["forced"].rank().astype(int))
    steps = list(range(1, int(part["step"].max()) + 1))
    blocks = cell.blocks("step", steps, (), part, f"{later} after a forced {first}")
    forced = side_by_side(part, "step", "forced")
    x = forced.reindex(pd.MultiIndex.from_frame(blocks[list(ITEM)]), columns=steps).to_numpy(float)
    x = x - x.mean(axis=1, keepdims=True)
    y = blocks[steps].to_numpy(float)
    return Ratio(blocks["context_id"], (x * y).sum(axis=1), (x**2).sum(axis=1), null=0.0, inference="t"), blocks


def kendalls(cell: Cell, judged: pd.DataFrame, joints: Mapping[Pair, Joint]) -> Iterator[Part]:
    """Yield the agreement with humans of each attribute's scores at each place, and how it differs from the first."""
    at_first: dict[str, pd.DataFrame] = {}
    for (after, attribute, position), items, counts in _places(cell, judged, joints):
        found: dict[str, Estimable] = {
            f"kendall_{level}": partial(
                estimate_correlation, items, "value", "human", cell.resampling, level, "kendall"
            )
            for level in _LEVELS
        }
        if position == 1:
            at_first[attribute] = items
        elif position and attribute in at_first:
            both = items.merge(at_first[attribute][[*ITEM, "value"]], on=list(ITEM), suffixes=("", "_first"))
            columns = ("value", "value_first", "human")
            found["kendall_change"] = partial(correlation_difference, both, *columns, cell.resampling, method="kendall")
        yield Part(found, counts, {"attribute": attribute, "after": after, "position": position})


def _places(
    cell: Cell, judged: pd.DataFrame, joints: Mapping[Pair, Joint]
) -> Iterator[tuple[Pair, pd.DataFrame, pd.DataFrame | tuple[int, int]]]:
    """Yield where a score stands, items with their score there, and counts; first places come first."""
    stated = judged[judged["arm"] != "forced"]
    for (position, attribute, after), part in stated.groupby(["position", "attribute", "after"], sort=True):
        of = f"{attribute} at position {position}" if position else f"{attribute} alone"
        items = cell.blocks("position", [position], trials=part, of=of).rename(columns={position: "value"})
        yield (str(after), str(attribute), int(position)), items, items  # type: ignore[call-overload]
    if cell.where["answer"] == "distribution":
        for pair, joint in joints.items():
            yield pair, joint.items.assign(value=joint.items["y"]), joint.counts
