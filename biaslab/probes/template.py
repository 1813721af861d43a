"""Sensitivity to the prompt: which share of a judge's variance is due to it? (Sclar et al. 2024; Brennan 2001)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby, product
from os import PathLike
from typing import Literal

import pandas as pd

from biaslab.core import Figure, Metric, Reply, Status, Trial
from biaslab.core.checks import require_whole
from biaslab.core.scales import find_scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import items
from biaslab.probes._own_prompts import OwnPrompts, settled_by
from biaslab.probes._prompt_variance import OF_PROMPTS, Shares, alpha_between, combined, flips
from biaslab.probes._varied import Chats
from biaslab.probes.base import LABEL_MASS, Accepted, Cell, Estimable, Part, ScoreProbe, label_mass, mean_of, planted
from biaslab.probes.base.logs import paired, scored
from biaslab.probes.base.own_protocol import read_with, settle
from biaslab.probes.base.pair_probe import read_pair
from biaslab.prompts.protocols import Protocol
from biaslab.prompts.variants import Form, Variant, variants
from biaslab.stats import CELL, Fit, Ratio, estimate_correlation


@dataclass(frozen=True)
class Template(ScoreProbe):
    """Sensitivity to the prompt: how the template shifts a judge's values, and its share of their variance.

    The same items are judged under variants of the prompt that differ from a base in one factor. The base is the prompt
    of `Verbosity`, or of `Position` with template 1; with a store, they share replies. Further parameters:
    `biaslab.probes.base.ScoreProbe`.

    Parameters
    ----------
    form : {"score", "pair"}
        Score candidates one by one, or compare pairs in both orders.
    factors : sequence of str, optional
        Factors to vary, one at a time: "wording" (paraphrases), "labels" (for pairs: 1/2 and X/Y instead of A/B),
        "order" (the scale stated from its best end; for pairs the first is called B), "system" (a role), "shots" (two
        earlier questions about other contexts with their verdicts in the chat, in both orders), "rubric" (none, or one
        by level; for pairs one, because the base has none). Default: all for the form, "shots" only if there are human
        scores for earlier verdicts.
    n_items : int, optional
        Candidates, or unordered pairs, per context, drawn at random without replacement; default: all. The draw depends
        only on the seed and the context.
    level : {"context", "dataset"}
        Level of the rank correlation between templates: averaged within contexts, or over all items.
    fit : {"anova", "reml"}
        Estimator of variance components; see `biaslab.stats.fit_components`.
    protocols : sequence of Protocol or path, optional
        Your own prompts and parsers to compare (`biaslab.Protocol`), with the same form and scale, instead of variants
        of biaslab's; the first one is the base.
    base : str
        The reference variant; for a log without it, its first prompt.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is the score or, of a pair, the probability that the first wins (column ``form``); its columns
    ``template`` and ``factor`` name the variant (`biaslab.prompts.variants`). There is one estimate for each judge ×
    data set × attribute × form:

    - ``template_shift`` — mean value under a variant minus that under the base, paired by item: points of the scale;
      for pairs, judged in both orders, the share by which a variant moves verdicts to the first. Null 0. Primary, one
      per variant; q-values correct for their number. If scores are missing, ``bound_low`` and ``bound_high`` hold
      whatever they are.
    - ``template_sd`` — standard deviation of the true means of all templates. At least 0, null 0: no differences.
    - ``template_share`` — share of the variance of a single judgement due to the prompt: the templates' means, and
      their interaction with items. 0–1.
    - ``variance_share`` — the same by ``component``. 0–1. For scores: context, item (within contexts), template, item ×
      template, resampling. For pairs, from the mean square about ½: pair (candidates), order (position bias), pair ×
      order, order × template (position bias that depends on the template), pair × template, resampling.
    - ``template_agreement`` — Spearman's ρ between the values under a variant and under the base, at ``level``. −1 to
      1.
    - ``template_alpha`` — Krippendorff's interval α with templates as annotators. At most 1: perfect agreement.
    - ``flip_rate`` — for pairs, how often the verdict changes ``between`` the base and a variant ("template"), the two
      orders of one template ("order"), and two samples of one request ("resampling", the noise floor). 0–1.
    - ``carry_over`` — with earlier verdicts in the chat: mean value if the last one is the best (or for the first),
      minus that if it is the worst (or for the second). Null 0; above: verdicts are pulled to the previous one.
    - ``label_mass`` — total probability of all labels, by template. 0–1.

    **Why the shift is tested.** A variance cannot be negative, so "no template effect" lies on the boundary of the
    parameter space, where tests and intervals of variances do not keep their level (Self & Liang 1987). Templates are a
    fixed list rather than a sample of prompts, so their effects are fixed (Shavelson & Webb 1991, ch. 5), and the mean
    difference of two of them is an ordinary paired contrast over contexts, with a sign and in the unit of the scale.

    **Inference.** ``template_shift``: Student's t over contexts. ``template_sd``: a joint test by flipping the signs of
    whole contexts; its interval is conservative. Shares: jackknife intervals over contexts, clipped to 0–1, without a
    test. Full distributions have no resampling variance; with one text replicate it is undefined and part of item ×
    template.

    References
    ----------
    Brennan 2001, *Generalizability Theory*; Shavelson & Webb 1991, *Generalizability Theory: A Primer*; Self & Liang
    1987, *Asymptotic properties of maximum likelihood estimators under nonstandard conditions*, JASA 82; Sclar et al.
    2024, *Quantifying Language Models' Sensitivity to Spurious Features in Prompt Design*; Mizrahi et al. 2024, *State
    of What Art? A Call for Multi-Prompt LLM Evaluation*; Zhao et al. 2021, *Calibrate Before Use* (examples, and their
    order).

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Template(attributes=["coherence"], factors=["wording", "system"])
    >>> judge = bl.SimulatedJudge(data, template_noise=0.5)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["template_shift"])
    >>> estimates["template"].tolist(), bool((estimates["p_value"] < 0.05).any())
    (['wording 2', 'wording 3', 'system prompt'], True)
    """

    name = "template"
    evaluators = False
    protocol_form = ""
    cell = ("judge", "dataset", "attribute", "form")
    conditions = ("template", "factor", "component", "between")
    columns = ("context_id", "candidate_id", "value", "status", "template", "factor")
    asks_for = ("pair", "score")
    needs = "judgements of the same items under several prompts"
    metrics = (
        Metric(
            "template_shift",
            "value under a variant of the prompt minus under the base",
            "points; of pairs share",
            null=0.0,
            above="gives more under this variant of the prompt",
            below="gives less under this variant of the prompt",
            advice="average over several prompts, or report the prompt",
            use="comparing results across prompts",
            matters=0.1,
            primary=True,
            calibration=planted({"template_noise": 0.9}, {"factors": ("system",)}),
        ),
        Metric(
            "template_sd", "spread of the means of templates", "standard deviation; points, of pairs share", null=0.0
        ),
        Metric("template_share", "variance due to the prompt", "share"),
        Metric("variance_share", "variance of a single judgement", "share"),
        Metric("template_agreement", "correlation of a variant of the prompt and the base", "Spearman's ρ"),
        Metric("template_alpha", "agreement between templates", "Krippendorff's α"),
        Metric("flip_rate", "verdicts that change", "share", form="pair"),
        Metric(
            "carry_over",
            "value after the best earlier verdict minus after the worst",
            "points; of pairs share",
            null=0.0,
        ),
        LABEL_MASS,
    )
    figures = (
        Figure("shift", "template_shift", by="template", hue="attribute"),
        Figure("shares", "variance_share", by="component", hue="attribute"),
        Figure("flips", "flip_rate", by="template", hue="between"),
    )

    form: Form = "score"
    factors: Sequence[str] | None = None
    n_items: int | None = None
    level: Literal["context", "dataset"] = "context"
    fit: Fit = "anova"
    base: str = "base"
    protocols: Sequence[Protocol | str | PathLike[str]] | None = None

    def __post_init__(self) -> None:
        if self.protocols:
            settle(self, settled_by(self.protocols))
        super().__post_init__()
        require_whole("n_items", self.n_items, 1, optional=True)
        _ = self.variants

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The base and the variants of the chosen factors."""
        return variants(self.form, self.factors)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each item under each variant.

        Raises
        ------
        InputError
            If "shots" is among the factors but fewer than three contexts have candidates with different human scores to
            use as examples. (By default, "shots" is then left out.)
        """
        attributes = dataset.require_attributes(self.attributes)
        if self.protocols:
            yield from OwnPrompts(tuple(self._own.values()), dataset, attributes, self.asking, self.n_items).trials()
            return
        by_context = {name: list(group) for name, group in groupby(items(dataset), key=lambda item: item.context_id)}
        chats = [Chats(dataset, by_context, name, find_scale(self.scale), self.seed) for name in attributes]
        for context_id, chat in product(by_context, chats):
            lends = self.factors is not None or chat.lends
            asked = [each for each in self.variants if lends or not each.shots]
            yield from chat.trials(context_id, self.form, asked, self.asking, self.n_items)

    @cached_property
    def _own(self) -> dict[str, Protocol]:
        return {protocol.id: protocol for protocol in self.protocols or () if isinstance(protocol, Protocol)}

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score, or the probability that the first of a pair wins, and the status."""
        own = self._own.get(str(trial.condition["template"]))
        return read_with(own, trial, reply) if trial.opponent_id is None else read_pair(trial, reply, own)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the shift of each variant, the variance components, and how often verdicts flip."""
        of_pairs = cell.where["form"] == "pair"
        if of_pairs:
            cell = replace(cell, trials=combined(cell.trials))
        factor = dict(zip(cell.trials["template"], cell.trials["factor"], strict=True))
        names = sorted(factor, key=lambda name: name != self.base)  # the base first, if there is one
        for name in names[1:]:
            yield self._against_base(cell, names[0], name, factor[name])
        yield from self._of_all_templates(cell, names, of_pairs)
        if of_pairs and cell.wants("flip_rate"):
            yield from flips(cell, names, factor)
        yield from self._carried_over(cell)
        for name in names if cell.wants("label_mass") else ():
            part = cell.trials[cell.trials["template"] == name]
            counts = int(part["label_mass"].notna().sum()), 0
            yield Part({"label_mass": label_mass(part)}, counts, {"template": name, "factor": factor[name]})

    def _against_base(self, cell: Cell, base: str, name: str, factor: str) -> Part:
        both = (name, base)
        blocks = cell.blocks("template", both, keep=(), of=name)
        metrics: Mapping[str, Estimable] = {
            "template_shift": cell.bounded(_shift(*both), blocks, "template", both, _range(cell)),
            "template_agreement": partial(estimate_correlation, blocks, *both, cell.resampling, self.level),
        }
        note = cell.note_missing(blocks, "template", both)
        return Part(metrics, blocks, {"template": name, "factor": factor}, note)

    def _of_all_templates(self, cell: Cell, names: list[str], of_pairs: bool) -> Iterator[Part]:
        if not cell.wants("template_sd", "template_share", "variance_share", "template_alpha"):
            return
        blocks = cell.blocks("template", names, keep=(), of="all templates")
        shares = Shares.of(blocks, cell.trials, names, of_pairs, self.fit)
        prompt = [name for name in shares.components if name in OF_PROMPTS]
        metrics: dict[str, Estimable] = {
            "template_sd": partial(shares.spread, cell.resampling),
            "template_share": partial(shares.share, prompt, cell.resampling),
            "template_alpha": partial(alpha_between, blocks, names, cell),
        }
        yield Part(metrics, blocks)
        for component in shares.components:
            share = partial(shares.share, [component], cell.resampling)
            yield Part({"variance_share": share}, blocks, {"component": component})

    def _carried_over(self, cell: Cell) -> Iterator[Part]:
        """Yield the pull of the last earlier verdict on the next, if both orders of earlier verdicts were asked."""
        form: Form = "pair" if cell.where["form"] == "pair" else "score"
        drawn = {each.shots: each.name for each in variants(form, ["shots"]) if each.shots}
        both = drawn["up"], drawn["down"]
        if cell.wants("carry_over") and set(both) <= set(cell.trials["template"]):
            blocks = cell.blocks("template", both, keep=(), of="earlier verdicts")
            yield Part({"carry_over": _shift(*both)(blocks)}, blocks, {"factor": "shots"})

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select scores on one scale, and pairs, asked for with several prompts."""
        parts = []
        for form, rows, prompt, cell in (
            ("score", scored(trials), "configuration", [*CELL, "scale"]),
            ("pair", _alike_in_order(paired(trials)), "template", [*CELL]),
        ):
            varied = rows[rows.groupby(cell, sort=False)[prompt].transform("nunique") > 1]
            parts.append(varied.assign(form=form, template=varied[prompt], factor="prompt"))
        return self._accepted(pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True))


def _alike_in_order(judged: pd.DataFrame) -> pd.DataFrame:
    """Drop pairs in unknown order if others have a known one, because their prompts would differ by order too."""
    if "order_known" not in judged:  # only logs may lack it
        return judged
    known = judged["order_known"].astype(bool)
    return judged[known | ~known.groupby([judged[name] for name in CELL]).transform("any")]


def _shift(name: str, base: str) -> Callable[[pd.DataFrame], Ratio]:
    """Return a function from blocks to the mean value under one template minus that under another."""

    def mean(blocks: pd.DataFrame) -> Ratio:
        missing = f"undefined: no item has a value under {name} and under {base}"
        return mean_of(blocks, blocks[name] - blocks[base], 0.0, None, missing, "t")

    return mean


def _range(cell: Cell) -> tuple[float, float]:
    """Return the lowest and highest possible value."""
    scale = None if cell.where["form"] == "pair" else scale_named(str(cell.trials["scale"].iloc[0]))
    return (scale.low, scale.high) if scale else (0.0, 1.0)
