"""Anchoring: does a score pull the next one in the same output? (Stureborg et al. 2024, §3.3, App. C)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from biaslab import prompts
from biaslab.core import Choice, Figure, Message, Metric, Nearest, Reply, Request, Scalar, Status, Trial, ends_begun
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, Question, about_scores, drawn_items, read_score
from biaslab.probes import _joint_scores as joint_scores
from biaslab.probes._joint_scores import Joint, Pair
from biaslab.probes.base import Cell, Part, ScoreProbe, planted
from biaslab.prompts.parsing import parse_scores

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
    evaluators = False
    protocol_form = ""
    cell = ("judge", "dataset", "scale", "answer")
    conditions = ("attribute", "after", "position", "score")
    columns = (*ScoreProbe.columns, *joint_scores.WHERE)
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
        Figure("correlations", ("correlation_joint", "correlation_alone"), by=("attribute", "after")),
        Figure(
            "next_score",
            ("share_after_low", "share_after_high"),
            x="score",
            col=("attribute", "after"),
            finding=joint_scores.later_after_high,
        ),
        Figure("table_3", "kendall_dataset", x="position", col="attribute"),
    )

    n_orders: int | None = None
    n_forced: int | None = None
    anchor: Literal["prefix", "transcript"] = "prefix"
    n_candidates: int | None = None
    max_tokens: int = field(default=12, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_orders", "n_candidates"):
            require_whole(name, getattr(self, name), 1, optional=True)
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
        scale, joints = find_scale(str(cell.where["scale"])), dict[Pair, Joint]()
        judged = joint_scores.judgements(cell)
        for pair in joint_scores.pairs_of(cell.trials):
            at = dict(zip(("after", "attribute", "position"), pair, strict=True))
            if {*cell.chosen} != {"anchor_slope"}:
                joints[pair] = joint = joint_scores.join(cell, judged, pair, scale)
                means, shares = joint_scores.after_low_and_high(joint, scale)
                yield Part(joint.correlations(self.resampling) | means, joint.counts, at)
                for score, metrics in shares.items():
                    yield Part(metrics, joint.counts, at | {"score": score})
            if cell.wants("anchor_slope") and pair[2] == 2:
                slope, counts = joint_scores.slope(cell, judged, pair)
                yield Part({"anchor_slope": slope}, counts, at)
        if cell.wants("kendall_context", "kendall_dataset", "kendall_change"):
            yield from joint_scores.kendalls(cell, judged, joints)

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
