"""Two scores in one output, compared with the same two given alone: distribution, correlations, slope, agreement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.scales import Scale
from biaslab.measures.scoring.conditional_shares import later_scores
from biaslab.probes.base import Cell, Estimable, Part
from biaslab.stats import (
    ITEM,
    Estimate,
    Level,
    Ratio,
    Resampling,
    Statistic,
    cluster_statistic,
    correlation_difference,
    estimate_correlation,
    number_items,
    side_by_side,
    undefined,
    usable,
)

Pair = tuple[str, str, int]  # the first attribute of an output, a later one, and its position
WHERE = ("attribute", "arm", "after", "position", "forced", "replicate")
_MOMENTS = ("x", "y", "xx", "yy", "xy")
_ALONE = tuple(f"{moment}_alone" for moment in _MOMENTS)
_OWN = ("alone x", "alone y", "x")
_PARTLY = 'undefined: the next score is not known after every first score; force all labels or use answer="text"'
_FLAT = 1e-12
_LEVELS: tuple[Level, ...] = ("context", "dataset")


def later_after_high(estimates: pd.DataFrame) -> str | None:
    """Say how much higher the next score is after a high first one, over all pairs; None without both means."""
    means = ["mean_after_high", "mean_after_low"]
    rows = estimates[estimates["metric"].isin(means) & estimates["estimate"].notna()]
    after = rows.pivot_table("estimate", ["after", "attribute", "position"], "metric").reindex(columns=means)
    more = (after["mean_after_high"] - after["mean_after_low"]).dropna()
    words = f"{more.min():.1f} to {more.max():.1f} points above that after a low one"
    return f"After a high score the next is {words}" if len(more) else None


@dataclass(frozen=True)
class Joint:
    """A first score x and a later score y in one output, item by item.

    Parameters
    ----------
    items : pandas.DataFrame
        One row per complete item: ``context_id, candidate_id, human`` (of the later attribute), the means of x, y, x²,
        y², xy in one output (``x, y, xx, yy, xy``), and of scores given alone (``x_alone``, …).
    chances : numpy.ndarray, shape (items, labels, labels)
        P(x, y) in one output: exact, or shares of samples.
    counts : tuple of int
        Numbers of judgements used and dropped.
    note : str
        Reason if there are no items; empty otherwise.
    """

    items: pd.DataFrame
    chances: Floats
    counts: tuple[int, int]
    note: str = ""

    def correlations(self, resampling: Resampling) -> dict[str, Estimable]:
        """Return Pearson's correlation of the scores in one output, of those given alone, and the difference."""
        codes, contexts = pd.factorize(resampling.cluster_of(self.items["context_id"]))
        values = [np.ones(len(codes)), *self.items[[*_MOMENTS, *_ALONE]].to_numpy(float).T]
        sums: Floats = np.column_stack([np.bincount(codes, weights, len(contexts)).astype(float) for weights in values])
        sums = sums[np.lexsort(sums.T)]  # so that resamples for a seed do not depend on the names of contexts
        in_one_output, alone = _correlation(sums[:, :6]), _correlation(sums[:, [0, *range(6, 11)]])
        missing = self.note or "undefined: one of the scores is the same for all items"

        def difference(weights: Floats) -> Floats:
            return in_one_output(weights) - alone(weights)

        def estimate(statistic: Statistic) -> Estimate:
            return cluster_statistic(statistic, len(contexts), resampling, None, (-1.0, 1.0), missing)

        return {
            "anchor_excess": lambda: cluster_statistic(
                difference, len(contexts), resampling, null=0.0, missing=missing, inference="t"
            ),
            "correlation_joint": partial(estimate, in_one_output),
            "correlation_alone": partial(estimate, alone),
        }


def judgements(cell: Cell) -> pd.DataFrame:
    """Return one row per judgement, with its (expected) score as ``value`` and expected square as ``square``."""
    trials = cell.trials
    if not _is_exact(cell):
        return trials.assign(square=trials["value"] ** 2)
    codes, first = number_items(trials, [*ITEM, *WHERE])
    label, p = trials["label"].to_numpy(float), trials["value"].to_numpy(float)
    moments = {name: np.bincount(codes, p * label**k) for name, k in (("value", 1), ("square", 2))}
    return trials.iloc[first].reset_index(drop=True).assign(**moments)


def join(cell: Cell, judged: pd.DataFrame, pair: Pair, scale: Scale) -> Joint:
    """Put x and y of each item side by side, dropping incomplete items.

    Parameters
    ----------
    cell : Cell
        Trials of one scale and kind of answer.
    judged : pandas.DataFrame
        Result of `judgements`.
    pair : tuple of (str, str, int)
        The first attribute of the output, the later one, and its position.
    scale : Scale
        The scale of the answers.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the judgements are dropped.
    """
    exact, size = _is_exact(cell), len(scale.labels)
    part = _levels(judged, pair, exact)
    levels = [*_OWN, *([f"y {value}" for value in np.array(scale.values).tolist()] if exact else ["y nan"])]
    most = part.groupby(list(ITEM))["level"].nunique().max()
    if most < len(levels) or not {*levels} <= {*part["level"]}:
        empty = pd.DataFrame(columns=[*ITEM, "human", *_MOMENTS, *_ALONE])
        return Joint(empty, np.empty((0, size, size)), (0, len(part)), _PARTLY)
    blocks = cell.blocks("level", levels, (), part, f"{pair[1]} after {pair[0]}, position {pair[2]}")
    index = pd.MultiIndex.from_frame(blocks[list(ITEM)])
    both, chances = _exact(cell.trials, pair, scale, index) if exact else _sampled(part, scale, index)
    squares = side_by_side(usable(part), "level", "square").reindex(index, columns=["alone x", "alone y"])
    x, y = blocks["alone x"].to_numpy(float), blocks["alone y"].to_numpy(float)
    alone = (x, y, *squares.to_numpy().T, x * y)  # given alone, x and y are independent within an item
    human = side_by_side(part[part["level"] == "alone y"], "level", "human")["alone y"].reindex(index).to_numpy()
    moments = dict(zip((*_MOMENTS, *_ALONE), (*both, *alone), strict=True))
    items = blocks[list(ITEM)].assign(human=human, **moments)
    known = items["xy"].notna().to_numpy()
    counts = (blocks.attrs["n_trials"], blocks.attrs["n_dropped"])
    return Joint(items[known].reset_index(drop=True), chances[known], counts)


def _is_exact(cell: Cell) -> bool:
    """Return whether trials are label probabilities."""
    return bool(cell.where["answer"] == "distribution")


def _levels(judged: pd.DataFrame, pair: Pair, exact: bool) -> pd.DataFrame:
    """Label each judgement by its role in the pair, dropping those without one."""
    first, later, position = pair
    is_x, is_y, inside = judged["attribute"] == first, judged["attribute"] == later, judged["after"] == first
    alone, joint, forced = (judged["arm"] == arm for arm in ("alone", "joint", "forced"))
    then = inside & is_y & (forced if exact else joint & (judged["position"] == position))
    kinds = [alone & is_x, alone & is_y, joint & inside & is_x, then]
    level = np.select(kinds, ["alone x", "alone y", "x", "y "], "")
    at, values = pd.factorize(judged["forced"].to_numpy(float), use_na_sentinel=False)
    level = np.where(then, np.array([f"y {value}" for value in values.tolist()])[at], level)
    named: pd.DataFrame = judged.assign(level=level)[level != ""]
    return named


def _exact(trials: pd.DataFrame, pair: Pair, scale: Scale, index: pd.MultiIndex) -> tuple[tuple[Floats, ...], Floats]:
    """Multiply P(x) by P(y | x), and return the moments and the product."""
    inside, n, values = trials[trials["after"] == pair[0]], len(scale.labels), np.array(scale.values)
    own = inside[(inside["arm"] == "joint") & (inside["attribute"] == pair[0])]
    then = inside[(inside["arm"] == "forced") & (inside["attribute"] == pair[1])]
    p = side_by_side(own, "label").reindex(index, columns=values).to_numpy()
    conditional = then.pivot_table(index=list(ITEM), columns=["forced", "label"], values="value")
    conditional = conditional.reindex(index, columns=pd.MultiIndex.from_product([values, values]))
    chances = p[:, :, None] * conditional.to_numpy().reshape(len(index), n, n)
    x, y = chances.sum(axis=2), chances.sum(axis=1)
    return (x @ values, y @ values, x @ values**2, y @ values**2, chances @ values @ values), chances


def _sampled(part: pd.DataFrame, scale: Scale, index: pd.MultiIndex) -> tuple[tuple[Floats, ...], Floats]:
    """Return the moments of outputs with both scores, and how often each pair of labels occurs."""
    read = usable(part[part["level"].isin(["x", "y nan"])])
    both = side_by_side(read, "level", by=[*ITEM, "replicate"])
    both = both.reindex(columns=["x", "y nan"]).dropna().droplevel("replicate")
    both = both[both.index.isin(index)]
    x, y = both.to_numpy(float).T
    codes, values, n = index.get_indexer(both.index), np.array(scale.values), len(scale.labels)
    times = np.bincount(codes, minlength=len(index))
    with np.errstate(invalid="ignore", divide="ignore"):
        moments = tuple(np.bincount(codes, m, len(index)) / times for m in (x, y, x * x, y * y, x * y))
    chances = np.zeros((len(index), n, n))
    at = [np.searchsorted(values, score).clip(max=n - 1) for score in (x, y)]
    labels = (values[at[0]] == x) & (values[at[1]] == y)
    np.add.at(chances, (codes[labels], at[0][labels], at[1][labels]), 1 / times[codes[labels]])
    return moments, chances


def _correlation(sums: Floats) -> Statistic:
    """Return Pearson's correlation as a function of context weights, from sums within contexts."""

    def statistic(weights: Floats) -> Floats:
        n, x, y, xx, yy, xy = (weights @ sums).T
        spreads = np.array([n * xx - x**2, n * yy - y**2])
        with np.errstate(invalid="ignore", divide="ignore"):
            r: Floats = (n * xy - x * y) / np.sqrt(spreads.prod(axis=0))
        return np.where(spreads.min(axis=0) > _FLAT * n**2, r, np.nan)

    return statistic


def pairs_of(trials: pd.DataFrame) -> list[Pair]:
    """Return the first attribute of each output, a later one, and its position."""
    later, pair = trials[trials["position"] > 1], ["after", "attribute", "position"]
    first = number_items(later, pair)[1]
    return [*zip(*(later[name].iloc[first].tolist() for name in pair), strict=True)]


def after_low_and_high(joint: Joint, scale: Scale) -> tuple[dict[str, Estimable], dict[float, dict[str, Ratio]]]:
    """Return mean and distribution of the later score, by whether the first was low or high."""
    values, context = np.array(scale.values), joint.items["context_id"]
    low = values <= (scale.low + scale.high) / 2
    means: dict[str, Estimable] = {}
    shares: dict[float, dict[str, Ratio]] = {score: {} for score in values.tolist()}
    for side, on in (("low", low), ("high", ~low)):
        missing = joint.note or f"undefined: no first score is {side}"
        means[f"mean_after_{side}"], parts = later_scores(context, joint.chances[:, on].sum(axis=1), values, missing)
        for of_score, share in zip(shares.values(), parts, strict=True):
            of_score[f"share_after_{side}"] = share
    return means, shares


def slope(cell: Cell, judged: pd.DataFrame, pair: Pair) -> tuple[Ratio | Estimate, pd.DataFrame | tuple[int, int]]:
    """Regress the next score on the forced first one, with item intercepts; return slope and counts."""
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
    """Yield Kendall's τ-b of scores and human scores by position, and its change from the first position."""
    at_first: dict[str, pd.DataFrame] = {}
    for (after, attribute, position), items, counts in _places(cell, judged, joints):
        metrics: dict[str, Estimable] = {
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
            metrics["kendall_change"] = partial(
                correlation_difference, both, *columns, cell.resampling, method="kendall"
            )
        yield Part(metrics, counts, {"attribute": attribute, "after": after, "position": position})


def _places(
    cell: Cell, judged: pd.DataFrame, joints: Mapping[Pair, Joint]
) -> Iterator[tuple[Pair, pd.DataFrame, pd.DataFrame | tuple[int, int]]]:
    """Yield each position of a score with its items and counts, first positions first."""
    stated = judged[judged["arm"] != "forced"]
    for (position, attribute, after), part in stated.groupby(["position", "attribute", "after"], sort=True):
        of = f"{attribute} at position {position}" if position else f"{attribute} alone"
        items = cell.blocks("position", [position], trials=part, of=of).rename(columns={position: "value"})
        yield (str(after), str(attribute), int(position)), items, items  # type: ignore[call-overload]
    if cell.where["answer"] == "distribution":
        for pair, joint in joints.items():
            yield pair, joint.items.assign(value=joint.items["y"]), joint.counts
