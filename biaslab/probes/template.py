"""Sensitivity to the prompt: what share of a judge's variance is the template? (Sclar et al. 2024; Brennan 2001)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import ClassVar

import numpy as np
import pandas as pd

from biaslab.core import Calibration, Metric, Reply, Status, Trial
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.scales import find_scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import items, read_score
from biaslab.probes._prompt_variance import OF_PROMPTS, Shares, combined
from biaslab.probes._varied import Chats
from biaslab.probes._verdict_flips import flips
from biaslab.probes.base import LABEL_MASS, Accepted, Cell, Estimable, Part, ScoreProbe, label_mass, paired, scored
from biaslab.probes.base.pair_probe import read_pair
from biaslab.prompts.variants import Form, Variant, variants
from biaslab.stats import CELL, Estimate, Fit, Level, Ratio, estimate_alpha, estimate_correlation

_FAIR = {"quality": 1.0, "noise": 1.0, "context_noise": 0.5}


@dataclass(frozen=True)
class Template(ScoreProbe):
    """Judge the same items under variants of the prompt, and see how much of what a judge says is the prompt.

    Its further parameters are those of `biaslab.probes.base.ScoreProbe`.

    Parameters
    ----------
    form : {"score", "pair"}
        Score candidates one by one, or compare pairs in both orders.
    factors : sequence of str, optional
        What differs from the base, one factor at a time: "wording" (paraphrases), "labels" (of pairs: 1/2 and X/Y
        for A/B), "order" (the scale stated from its best end; of pairs the first is called B), "system" (a role),
        "shots" (two earlier questions of other contexts with their verdicts in the chat, in both orders), "rubric"
        (none, or one by level; of pairs one, as the base has none). All of the form by default, as far as there are
        human scores for earlier verdicts.
    n_items : int, optional
        Candidates a context, or unordered pairs, drawn at random without replacement; all by default. The draw of a
        context depends on the seed and that context alone.
    level : {"context", "dataset"}
        Of the rank correlation between templates: within contexts, averaged over them, or over all items.
    fit : {"anova", "reml"}
        How variance components are estimated: `biaslab.stats.fit_components`.
    base : str
        What others are compared with; of a log that has no such prompt, the first that it has.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial's ``value`` is the score or, of a pair, the probability that the first wins (column ``form``); its columns
    ``template`` and ``factor`` name the variant (`biaslab.prompts.variants`). The base is the prompt of `Verbosity`, or
    of `Position` with template 1, so that a store answers both with one reply. Estimates, one a judge × data set ×
    attribute × form:

    ``template_shift`` (primary; null 0)
        Mean value under a variant minus that under the base, paired by item: points of the scale; of pairs, judged in
        both orders, the share by which a variant moves verdicts to the first. One a variant; q-values correct for their
        number. Where scores are missing, ``bound_low`` and ``bound_high`` hold whatever they would have been.
    ``template_sd`` (at least 0, null 0)
        Standard deviation of the true means of all templates: do they differ at all?
    ``template_share`` (0–1)
        Share of the variance of a single judgement that another prompt would change: the templates' means, and what
        templates do to single items.
    ``variance_share`` (0–1)
        The same by ``component``. Of scores: context, item (within contexts), template, item × template, resampling.
        Of pairs, whose mean square about ½ is split: pair (what the candidates decide), order (position bias), pair ×
        order, order × template (position bias that the template changes), pair × template, resampling.
    ``template_agreement`` (−1 to 1)
        Spearman's ρ between the values under a variant and under the base, at ``level``.
    ``template_alpha`` (at most 1)
        Krippendorff's α, interval, with templates as annotators: 1 if all say the same of every item.
    ``flip_rate`` (0–1)
        Of pairs: how often the verdict changes ``between`` the base and a variant ("template"), the two orders of one
        template ("order"), and two samples of one request ("resampling", the noise floor).
    ``carry_over`` (null 0)
        With earlier verdicts in the chat: mean value where the last one is the best, or for the first, minus where it
        is the worst, or for the second. Above 0: verdicts are drawn to the one before.
    ``label_mass`` (0–1)
        Probability that the labels have together, by template.

    **Why the shift is what is tested.** A variance cannot be below 0, so that "no template effect" lies at the edge of
    what is possible, where tests and intervals of variances do not keep their level (Self & Liang 1987). Templates are
    a written list and no sample of prompts, so that their effects are fixed (Shavelson & Webb 1991, ch. 5), and the
    mean difference of two of them is an ordinary paired contrast over contexts, with Student's t for test and interval,
    in the unit of the scale and with a sign. ``template_sd`` asks for all of them at once, by flipping the signs of
    whole contexts; its interval is conservative. Shares have jackknife intervals over contexts, cut to 0–1, and no
    test. Answers that are whole distributions are not sampled, so that their resampling share is 0; of texts with one
    replicate it is undefined, and in item × template.

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

    name: ClassVar[str] = "template"
    evaluators: ClassVar[bool] = False
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "form")
    conditions: ClassVar[tuple[str, ...]] = ("template", "factor", "component", "between")
    columns: ClassVar[tuple[str, ...]] = ("context_id", "candidate_id", "value", "status", "template", "factor")
    needs: ClassVar[str] = "judgements of the same items under several prompts"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "template_shift",
            "value under a variant of the prompt minus under the base",
            "points; of pairs share",
            null=0.0,
            above="gives more under this variant of the prompt",
            below="gives less under this variant of the prompt",
            advice="average over several prompts, or report the one that was used",
            matters=0.1,
            primary=True,
            calibration=Calibration(
                fair=_FAIR,
                planted=_FAIR | {"template_noise": 0.9},
                parameters={"factors": ("system",)},
            ),
        ),
        Metric("template_sd", "between the means of templates", "standard deviation; points, of pairs share", null=0.0),
        Metric("template_share", "variance that another prompt would change", "share"),
        Metric("variance_share", "variance of a single judgement", "share"),
        Metric("template_agreement", "a variant of the prompt and the base", "Spearman's ρ"),
        Metric("template_alpha", "between templates", "Krippendorff's α"),
        Metric("flip_rate", "verdicts that change", "share"),
        Metric(
            "carry_over", "after the best earlier verdict minus after the worst", "points; of pairs share", null=0.0
        ),
        LABEL_MASS,
    )

    form: Form = "score"
    factors: Sequence[str] | None = None
    n_items: int | None = None
    level: Level = "context"
    fit: Fit = "anova"
    base: str = "base"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("n_items", self.n_items, 1, optional=True)
        require_one_of("level", self.level, ("context", "dataset"))
        require_one_of("fit", self.fit, ("anova", "reml"))
        _ = self.variants

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The base and the variants of the chosen factors."""
        return variants(self.form, self.factors)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every item under every variant.

        Raises
        ------
        InputError
            If "shots" is among the factors, and fewer than three contexts have candidates with different human scores
            to make examples of. By default there are then none.
        """
        attributes = dataset.require_attributes(self.attributes)
        by_context = {name: list(found) for name, found in groupby(items(dataset), key=lambda item: item.context_id)}
        chats = [Chats(dataset, by_context, name, find_scale(self.scale), self.seed) for name in attributes]
        chosen = [
            [each for each in self.variants if self.factors is not None or chat.lends or not each.shots]
            for chat in chats
        ]
        for context_id in by_context:
            for chat, asked in zip(chats, chosen, strict=True):
                yield from chat.trials(context_id, self.form, asked, self.asking, self.n_items)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score, or the probability that the first of a pair wins, and the status."""
        return read_score(trial, reply) if trial.opponent_id is None else read_pair(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield what each variant changes, what all of them have of the variance, and how often verdicts flip."""
        pairs = cell.where["form"] == "pair"
        if pairs:
            cell = replace(cell, trials=combined(cell.trials))
        factor = dict(zip(cell.trials["template"], cell.trials["factor"], strict=True))
        names = sorted(factor, key=lambda name: name != self.base)  # the base first, where there is one
        for name in names[1:]:
            yield self._against_base(cell, names[0], name, factor[name])
        yield from self._together(cell, names, pairs)
        if pairs and cell.wants("flip_rate"):
            yield from flips(cell, names, factor)
        yield from self._carried(cell)
        for name in names if cell.wants("label_mass") else ():
            part = cell.trials[cell.trials["template"] == name]
            mass = {"label_mass": label_mass(part)}
            yield Part(mass, (int(part["label_mass"].notna().sum()), 0), {"template": name, "factor": factor[name]})

    def _against_base(self, cell: Cell, base: str, name: str, factor: str) -> Part:
        both = (name, base)
        blocks = cell.blocks("template", both, keep=(), of=name)
        shift = cell.bounded(_shift(*both), blocks, "template", both, _ends(cell))
        found: Mapping[str, Estimable] = {
            "template_shift": shift,
            "template_agreement": partial(estimate_correlation, blocks, *both, cell.resampling, self.level),
        }
        note = cell.note_missing(blocks, "template", both)
        return Part(found, blocks, {"template": name, "factor": factor}, note)

    def _together(self, cell: Cell, names: list[str], pairs: bool) -> Iterator[Part]:
        wanted = ("template_sd", "template_share", "variance_share", "template_alpha")
        if not cell.wants(*wanted):
            return
        blocks = cell.blocks("template", names, keep=(), of="all templates")
        shares = Shares.of(blocks, cell.trials, names, pairs, self.fit)
        prompt = [name for name in shares.components if name in OF_PROMPTS]
        found: dict[str, Callable[[], Ratio | Estimate]] = {
            "template_sd": partial(shares.spread, cell.resampling),
            "template_share": partial(shares.share, prompt, cell.resampling),
            "template_alpha": partial(_alpha, blocks, names, cell),
        }
        yield Part(found, blocks)
        for component in shares.components:
            share = partial(shares.share, [component], cell.resampling)
            yield Part({"variance_share": share}, blocks, {"component": component})

    def _carried(self, cell: Cell) -> Iterator[Part]:
        """Yield how far the last earlier verdict draws the next, if both orders of earlier verdicts were asked."""
        form: Form = "pair" if cell.where["form"] == "pair" else "score"
        drawn = {each.shots: each.name for each in variants(form, ["shots"]) if each.shots}
        both = drawn["up"], drawn["down"]
        if cell.wants("carry_over") and set(both) <= set(cell.trials["template"]):
            blocks = cell.blocks("template", both, keep=(), of="earlier verdicts")
            yield Part({"carry_over": _shift(*both)(blocks)}, blocks, {"factor": "shots"})

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Take scores on one scale, and pairs, that a judge was asked for by several prompts."""
        parts = []
        for form, rows, prompt, cell in (
            ("score", scored(trials), "configuration", [*CELL, "scale"]),
            ("pair", paired(trials), "template", [*CELL]),
        ):
            found = rows[rows.groupby(cell, sort=False)[prompt].transform("nunique") > 1]
            parts.append(found.assign(form=form, template=found[prompt], factor="prompt"))
        found = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        return Accepted(found, f"needs {self.needs}" if found.empty else "")


def _shift(name: str, base: str) -> Callable[[pd.DataFrame], Ratio]:
    """Return what says of blocks what their items add to the mean value under one template minus under another."""

    def mean(blocks: pd.DataFrame) -> Ratio:
        missing = f"undefined: no item has a value under {name} and under {base}"
        gap = blocks[name] - blocks[base]
        return Ratio(blocks["context_id"], gap, np.ones(len(gap)), 0.0, None, missing, "t")

    return mean


def _ends(cell: Cell) -> tuple[float, float]:
    """Return the least and the greatest value."""
    if cell.where["form"] == "pair":
        return 0.0, 1.0
    scale = scale_named(str(cell.trials["scale"].iloc[0]))
    return scale.low, scale.high


def _alpha(blocks: pd.DataFrame, names: list[str], cell: Cell) -> Estimate:
    long = blocks.melt(["context_id", "candidate_id"], names, "template", "value")
    return estimate_alpha(long, cell.resampling, annotator="template", score="value")
