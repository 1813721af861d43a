"""Anchoring: does a score pull the next one in the same output? (Stureborg et al. 2024, §3.3, App. C)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.core.arrays import Floats
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Nearest, ends_begun
from biaslab.core.metrics import Figure, Metric, planted
from biaslab.core.requests import Choice, Message, Request
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.scoring.agreement import NO_FIRST_SCORE, later_scores
from biaslab.measures.scoring.pointwise import Item, Question, about_scores, drawn_items, read_score
from biaslab.probes.base.probe import Cell, Counts, Metrics, Part
from biaslab.probes.base.questions import ScoreProbe
from biaslab.prompts.parsing import parse_scores
from biaslab.stats.blocks import ITEM, number_items, side_by_side, usable
from biaslab.stats.correlation import Level, correlation_difference, estimate_correlation
from biaslab.stats.estimate import Estimate, Remark, because, undefined
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, Statistic, cluster_statistic

AttributePair = tuple[str, str, int]  # the first attribute of an output, a later one, and its position
Moments = tuple[tuple[Floats, ...], Floats]  # of the scores x and y of each item, and P(x, y)
WHERE = ("attribute", "arm", "after", "position", "forced", "replicate")
_MOMENTS = ("x", "y", "xx", "yy", "xy")
_ALONE = tuple(f"{moment}_alone" for moment in _MOMENTS)
_OWN = ("alone x", "alone y", "x")
_NOT_EVERY = "the next score is not known after every first score"
_PARTLY = because("first_scores_incomplete", f'{_NOT_EVERY}; force all labels or use answer="text"')
_FLAT = 1e-12
_LEVELS: tuple[Level, ...] = ("context", "dataset")


def later_after_high(estimates: pd.DataFrame) -> str | None:
    """Say how much higher the next score is after a high first one, over all pairs; None without both means."""
    means = ["mean_after_high", "mean_after_low"]
    rows = estimates[estimates["metric"].isin(means) & estimates["estimate"].notna()]
    after = rows.pivot_table("estimate", ["after", "attribute", "position"], "metric").reindex(columns=means)
    more = (after["mean_after_high"] - after["mean_after_low"]).dropna()
    words = f"{more.min():.1f} to {more.max():.1f} points above that after a low one"
    return f"{{judge}}: after a high score the next is {words}" if len(more) else None


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
    note : Note or str
        Reason if there are no items; empty otherwise.
    """

    items: pd.DataFrame
    chances: Floats
    counts: tuple[int, int]
    note: Remark = ""

    def correlations(self, resampling: Resampling) -> Metrics:
        """Return Pearson's correlation of the scores in one output, of those given alone, and the difference."""
        codes, contexts = pd.factorize(resampling.cluster_of(self.items["context_id"]))
        values = [np.ones(len(codes)), *self.items[[*_MOMENTS, *_ALONE]].to_numpy(float).T]
        sums: Floats = np.column_stack([np.bincount(codes, weights, len(contexts)).astype(float) for weights in values])
        order = np.lexsort(sums.T)  # so that resamples for a seed do not depend on the names of contexts
        sums, names = sums[order], np.asarray(contexts, object)[order]
        in_one_output, alone = _correlation(sums[:, :6]), _correlation(sums[:, [0, *range(6, 11)]])
        missing = self.note or because("constant_score", "one of the scores is the same for all items")

        def estimate(statistic: Statistic, **how: Any) -> Estimate:
            return cluster_statistic(statistic, names, resampling, missing=missing, **how)

        return {
            "anchor_excess": partial(estimate, lambda w: in_one_output(w) - alone(w), null=0.0, inference="t"),
            "correlation_joint": partial(estimate, in_one_output, bounds=(-1.0, 1.0)),
            "correlation_alone": partial(estimate, alone, bounds=(-1.0, 1.0)),
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


def join(cell: Cell, judged: pd.DataFrame, pair: AttributePair, scale: Scale) -> Joint:
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


def _levels(judged: pd.DataFrame, pair: AttributePair, exact: bool) -> pd.DataFrame:
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


def _exact(trials: pd.DataFrame, pair: AttributePair, scale: Scale, index: pd.MultiIndex) -> Moments:
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


def _sampled(part: pd.DataFrame, scale: Scale, index: pd.MultiIndex) -> Moments:
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


def pairs_of(trials: pd.DataFrame) -> list[AttributePair]:
    """Return the first attribute of each output, a later one, and its position."""
    later, pair = trials[trials["position"] > 1], ["after", "attribute", "position"]
    first = number_items(later, pair)[1]
    return [*zip(*(later[name].iloc[first].tolist() for name in pair), strict=True)]


def after_low_and_high(joint: Joint, scale: Scale) -> tuple[Metrics, dict[float, dict[str, Ratio]]]:
    """Return mean and distribution of the later score, by whether the first was low or high."""
    values, context = np.array(scale.values), joint.items["context_id"]
    low = values <= (scale.low + scale.high) / 2
    means: Metrics = {}
    shares: dict[float, dict[str, Ratio]] = {score: {} for score in values.tolist()}
    for side, on in (("low", low), ("high", ~low)):
        missing = joint.note or NO_FIRST_SCORE.with_values(side=side)
        means[f"mean_after_{side}"], parts = later_scores(context, joint.chances[:, on].sum(axis=1), values, missing)
        for of_score, share in zip(shares.values(), parts, strict=True):
            of_score[f"share_after_{side}"] = share
    return means, shares


def joint_slope(cell: Cell, judged: pd.DataFrame, pair: AttributePair) -> tuple[Ratio | Estimate, Counts]:
    """Regress the next score on the forced first one, with item intercepts; return slope and counts."""
    first, later, _ = pair
    part = judged[(judged["arm"] == "forced") & (judged["after"] == first) & (judged["attribute"] == later)]
    if part.empty:
        return undefined(because("none_forced", "no first score was forced")), (0, 0)
    part = part.assign(step=part.groupby([*ITEM, "replicate"], sort=False)["forced"].rank().astype(int))
    steps = list(range(1, int(part["step"].max()) + 1))
    blocks = cell.blocks("step", steps, (), part, f"{later} after a forced {first}")
    forced = side_by_side(part, "step", "forced")
    x = forced.reindex(pd.MultiIndex.from_frame(blocks[list(ITEM)]), columns=steps).to_numpy(float)
    x = x - x.mean(axis=1, keepdims=True)
    y = blocks[steps].to_numpy(float)
    return Ratio(blocks["context_id"], (x * y).sum(axis=1), (x**2).sum(axis=1), null=0.0, inference="t"), blocks


def kendalls(cell: Cell, judged: pd.DataFrame, joints: Mapping[AttributePair, Joint]) -> Iterator[Part]:
    """Yield Kendall's τ-b of scores and human scores by position, and its change from the first position."""
    at_first: dict[str, pd.DataFrame] = {}
    for (after, attribute, position), items, counts in _places(cell, judged, joints):
        kendall = partial(estimate_correlation, items, "value", "human", cell.resampling)
        metrics: Metrics = {f"kendall_{level}": partial(kendall, level, "kendall") for level in _LEVELS}
        if position == 1:
            at_first[attribute] = items
        elif position and attribute in at_first:
            both = items.merge(at_first[attribute][[*ITEM, "value"]], on=list(ITEM), suffixes=("", "_first"))
            change = partial(correlation_difference, both, "value", "value_first", "human", cell.resampling)
            metrics["kendall_change"] = partial(change, method="kendall")
        yield Part(metrics, counts, {"attribute": attribute, "after": after, "position": position})


def _places(
    cell: Cell, judged: pd.DataFrame, joints: Mapping[AttributePair, Joint]
) -> Iterator[tuple[AttributePair, pd.DataFrame, Counts]]:
    """Yield each position of a score with its items and counts, first positions first."""
    stated = judged[judged["arm"] != "forced"]
    for (position, attribute, after), part in stated.groupby(["position", "attribute", "after"], sort=True):
        of = f"{attribute} at position {position}" if position else f"{attribute} alone"
        items = cell.blocks("position", [position], trials=part, of=of).rename(columns={position: "value"})
        yield (str(after), str(attribute), int(position)), items, items  # type: ignore[call-overload]
    if cell.where["answer"] == "distribution":
        for pair, joint in joints.items():
            yield pair, joint.items.assign(value=joint.items["y"]), joint.counts


_FAIR: dict[str, Scalar] = {"quality": 1.0, "noise": 0.5, "context_noise": 0.3, "sharpness": 6.0}
_TWO: dict[str, Any] = {"attributes": ("coherence", "fluency"), "n_orders": 1, "answer": "text"}


@dataclass(frozen=True)
class Anchoring(ScoreProbe):
    """Anchoring: how much a score follows the one before it in the same output.

    Several attributes are scored in one output, each alone, and each after a forced first score. Further parameters:
    `biaslab.probes.base.ScoreProbe`.

    Parameters
    ----------
    attributes : sequence of str, optional
        At least two attributes to score; default: all of the data set.
    n_orders : int, optional
        Number of rotations of the attributes to ask in one output, starting with the given order; default: all.
    n_forced : int, optional
        Number of labels to which the first score is forced, drawn at random for each item and order; default: all
        labels. At least 2 with ``answer="distribution"``; with fewer than all, metrics that depend on the judge's own
        first scores are undefined. 0: no forced scores.
    anchor : {"prefix", "transcript"}
        How the first score is forced: as the beginning of the judge's answer, which it continues ("coherence: 3",
        "fluency:"), or as the judge's answer to an earlier question, for servers that allow no prefix.
    n_candidates : int, optional
        Candidates per context, drawn at random; default: all.
    answer : {"distribution", "text"}
        Read exact distributions after prefixes, or generate whole outputs and parse the scores.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer, per score in it.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    Each trial is a judgement in one ``arm``: *alone* (the attribute is asked for alone), *joint* (several in one
    output, in the order that begins with the attribute ``after``, at ``position`` 1, 2, …) or *forced* (second in that
    order, after a first score of ``forced``). With ``answer="distribution"``, each label of a judgement is a trial with
    its probability as value. The distribution of the first score, and of the second given each first score, give the
    exact joint distribution. Positions from 3 on need ``answer="text"``.

    Estimates are given by ``attribute`` (of the later score), ``after`` (the first attribute in the output) and
    ``position`` (of the later score; 0: asked alone). An item enters a contrast only if all its judgements are
    available; ``n_trials`` and ``n_dropped`` count judgements.

    - ``anchor_excess`` — Pearson's correlation over items between the first and the later score in one output, minus
      that of scores given alone. −2 to 2, null 0; above: scores in one output are more alike. Primary. The prompts
      differ too, so this alone does not prove anchoring.
    - ``correlation_joint``, ``correlation_alone`` — the two correlations, for sampled scores. −1 to 1. Scores given
      alone are independent given the item, so the latter is the noise floor.
    - ``anchor_slope`` — change of the next score in points per point of the forced first score, with an intercept for
      each item. Null 0; 1: the score is repeated. Primary. Causal, because the first score is randomised.
    - ``share_after_low``, ``share_after_high`` — distribution of the later score, one row per ``score``, if the first
      score in the output was at most, or above, the middle of the scale. 0–1. Fig. 4.
    - ``mean_after_low``, ``mean_after_high`` — mean of that later score, in points.
    - ``kendall_context``, ``kendall_dataset`` — Kendall's τ-b of score and mean human score, within contexts and
      pooled, by ``position``. −1 to 1. Table 3.
    - ``kendall_change`` — ``kendall_context`` at a later position minus that at position 1, on the same items. −2 to 2,
      null 0.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> probe = Anchoring(attributes=["coherence", "fluency"], n_orders=1)
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, anchoring=0.4), data, progress=False)
    >>> [slope] = probe.estimate(trials, ["anchor_slope"])["estimate"]
    >>> round(float(slope), 1)
    0.4
    """

    name = "anchoring"
    from_zero = ("seed", "n_forced")
    unprompted = frozenset()
    protocol_forms = ()
    cell = ("judge", "dataset", "scale", "answer")
    conditions = ("attribute", "after", "position", "score")
    columns = (*ScoreProbe.columns, *WHERE)
    needs = "scores of several attributes in one output, in rotated orders, and of each alone"
    metrics = (
        Metric(
            "anchor_excess",
            "in one output minus alone",
            "correlation of the two scores",
            null=0.0,
            above="gives scores that are more alike in one output than alone",
            below="gives scores that are less alike in one output than alone",
            advice="ask for one attribute in one output",
            use="several scores in one output",
            matters=0.1,
            primary=True,
            calibration=planted(
                {"anchoring": 0.45}, _TWO | {"n_forced": 0}, _FAIR, attributes=2, elsewhere={"n_forced": None}
            ),
        ),
        Metric(
            "anchor_slope",
            "next score per point of the first",
            "points",
            null=0.0,
            above="lets a score follow the one before it",
            below="moves a score away from the one before it",
            advice="ask for one attribute in one output",
            use="several scores in one output",
            matters=0.1,
            primary=True,
            calibration=planted({"anchoring": 0.15}, _TWO | {"n_forced": 3, "n_candidates": 2}, _FAIR, attributes=2),
        ),
        Metric("correlation_joint", "in one output", "correlation of the two scores", null=0.0),
        Metric("correlation_alone", "alone", "correlation of the two scores", null=0.0),
        Metric("share_after_low", "first score low", "share of scores"),
        Metric("share_after_high", "first score high", "share of scores"),
        Metric("mean_after_low", "mean after a low first score", "points"),
        Metric("mean_after_high", "mean after a high first score", "points"),
        Metric("kendall_context", "agreement with the reference scores", "Kendall's τ-b", null=0.0),
        Metric("kendall_dataset", "agreement with the reference scores", "Kendall's τ-b", null=0.0),
        Metric("kendall_change", "agreement against the first position", "Kendall's τ-b", null=0.0),
    )
    figures = (
        Figure("anchor_slope", "anchor_slope", by=("attribute", "after")),
        Figure("next_score", ("mean_after_low", "mean_after_high"), by=("attribute", "after"), says=later_after_high),
        Figure("agreement_by_position", "kendall_dataset", x="position", col="attribute"),
    )

    n_orders: int | None = None
    n_forced: int | None = None
    anchor: Literal["prefix", "transcript"] = "prefix"
    n_candidates: int | None = None
    max_tokens: int = field(default=12, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_forced is not None:
            labels = len(find_scale(self.scale).labels)
            require_whole("n_forced", self.n_forced, 0 if self.answer == "text" else 2)
            if self.n_forced == 1 or self.n_forced > labels:
                raise InputError("n_forced", self.n_forced, f"from 2 to the {labels} labels, or 0 with text")

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each attribute alone, each rotation in one output, and forced first scores."""
        attributes = dataset.require_attributes(self.attributes)
        if len(attributes) < 2:
            raise InputError("attributes", attributes, "at least two attributes, so that one can anchor the other")
        scale, n = find_scale(self.scale), len(attributes)
        orders = [attributes[k:] + attributes[:k] for k in range(min(self.n_orders or n, n))]
        wanted = attributes if len(orders) > 1 or self.answer == "text" else attributes[:2]
        for item in drawn_items(dataset, self.n_candidates, self.seed):
            for attribute in wanted:
                yield from self._trials(Question.rate(dataset, item, [attribute], scale), _where("alone", "", 0))
            for order in orders:
                yield from self._in_one_output(dataset, item, order, scale)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, a transcript instead of a prefix."""
        if ends_begun(refused) and self.answer == "text" and self.anchor == "prefix":
            words = "puts the first score in an earlier turn instead of at the beginning of the answer"
            return Nearest(replace(self, anchor="transcript"), words)
        return super().nearest(refused)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score, or the probability of the trial's label, and the status."""
        if isinstance(trial.request, Choice) or trial.condition["arm"] != "forced" or self.anchor == "transcript":
            return read_score(trial, reply)
        text = f"{trial.attribute}:{reply.text or ''}"
        return parse_scores(text, trial.labels, find_scale(str(trial.condition["scale"])))[trial.attribute]

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each pair of first and later score, then the agreement of scores by position."""
        scale, joints = find_scale(str(cell.where["scale"])), dict[AttributePair, Joint]()
        judged = judgements(cell)
        for pair in pairs_of(cell.trials):
            at = dict(zip(("after", "attribute", "position"), pair, strict=True))
            if {*cell.chosen} != {"anchor_slope"}:
                joints[pair] = joint = join(cell, judged, pair, scale)
                means, shares = after_low_and_high(joint, scale)
                yield Part(joint.correlations(self.resampling) | means, joint.counts, at)
                for score, metrics in shares.items():
                    yield Part(metrics, joint.counts, at | {"score": score})
            if cell.wants("anchor_slope") and pair[2] == 2:
                slope, counts = joint_slope(cell, judged, pair)
                yield Part({"anchor_slope": slope}, counts, at)
        if cell.wants("kendall_context", "kendall_dataset", "kendall_change"):
            yield from kendalls(cell, judged, joints)

    def _in_one_output(self, dataset: Dataset, item: Item, order: tuple[str, ...], scale: Scale) -> Iterator[Trial]:
        question = Question.rate(dataset, item, order, scale)
        if self.answer == "distribution":
            yield from self._trials(question.begun(order[0]), _where("joint", order[0], 1))
        else:
            long = replace(self.asking, max_tokens=self.max_tokens * len(order))
            for position, attribute in enumerate(order, start=1):
                yield from replace(question, attribute=attribute).trials(long, _where("joint", order[0], position))
        for index in self._forced(item, order[0], scale):
            value = list(scale.values)[index]
            after = self._after(dataset, question, scale.labels[index], value)
            yield from self._trials(after, _where("forced", order[0], 2, value))

    def _after(self, dataset: Dataset, question: Question, label: str, value: float) -> Question:
        """Return the question for the second score of an output after a forced first one."""
        item, scale, (first, later, *_) = question.item, question.scale, question.labels
        if self.anchor == "transcript":
            asked = [prompts.rate(dataset, [name], scale, item.text, item.context) for name in (first, later)]
            turns = (Message("user", asked[0]), Message("assistant", label), Message("user", asked[1]))
            return Question(item, later, turns, scale, about_scores(item, [later], scale, previous=value))
        rest = question.labels[1:]
        about = about_scores(item, rest, scale, "lines", previous=value)
        return replace(question.begun(f"{first}: {label}\n{later}"), attribute=later, about=about, labels=rest)

    def _trials(self, question: Question, where: dict[str, Scalar]) -> Iterator[Trial]:
        return question.label_trials(where) if self.answer == "distribution" else question.trials(self.asking, where)

    def _forced(self, item: Item, first: str, scale: Scale) -> list[int]:
        """Draw the labels to which a first score is forced, depending only on the seed and the item."""
        n = len(scale.labels) if self.n_forced is None else self.n_forced
        key = "\n".join((item.context_id, item.candidate_id, first)).encode()
        rng = np.random.default_rng([self.seed, zlib.crc32(key)])
        return sorted(int(k) for k in rng.choice(len(scale.labels), n, replace=False))


def _where(arm: str, after: str, position: int, forced: float = float("nan")) -> dict[str, Scalar]:
    return {"arm": arm, "after": after, "position": position, "forced": forced}
