"""Sensitivity to the prompt: which share of a judge's variance is due to it? (Sclar et al. 2024; Brennan 2001)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations, islice, product
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab import prompts
from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.core.metrics import Figure, Metric, planted
from biaslab.core.output import AnyPath
from biaslab.core.requests import About, Choice, Completion, Message, Request
from biaslab.core.scales import Scale, find_scale, scale_named
from biaslab.core.schema import Dataset, count_words
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.ranking import pairs
from biaslab.measures.scoring.pointwise import AnswerSettings, Item, Question, about_scores
from biaslab.probes.base import label_mass, mean_of, paired, questions
from biaslab.probes.base.probe import LABEL_MASS, Accepted, Cell, Contrast, Estimable, Metrics, Part, scored, settle
from biaslab.probes.base.questions import ScoreProbe, both_orders, by_context, draw, draw_of
from biaslab.probes.position import Position
from biaslab.prompts.parsing import parse_choice
from biaslab.prompts.protocols import Protocol
from biaslab.prompts.variants import Variant, VariantForm, variants
from biaslab.stats.blocks import CELL, ITEM, number_items, usable
from biaslab.stats.correlation import estimate_correlation
from biaslab.stats.estimate import Estimate, Note, because, is_rounding, undefined
from biaslab.stats.ratio import Ratio
from biaslab.stats.reliability import Crossed, Fit, estimate_alpha, fit_components, spread_of_means
from biaslab.stats.resample import Resampling, cluster_statistic, over_clusters

_POINTS = "points; of pairs share"


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
        by level; for pairs one, because the base has none). Default: all of these for the form, "shots" only if there
        are human scores for earlier verdicts. For scores also, if named: "ids" (scores from 1 to 5 are called I to V,
        or A to E), "levels" (a rubric by level that starts with the best; compare it with "rubric") and "criteria" (the
        aspects of the attribute in reverse order).
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
    unprompted = frozenset()
    protocol_forms = ()
    cell = ("judge", "dataset", "attribute", "form")
    conditions = ("template", "factor", "component", "between")
    columns = ("context_id", "candidate_id", "value", "status", "template", "factor")
    asks_for = ("pair", "score")
    needs = "judgements of the same items under several prompts"
    metrics = (
        Metric(
            "template_shift",
            "value under a variant of the prompt minus under the base",
            _POINTS,
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
        Metric("carry_over", "value after the best earlier verdict minus after the worst", _POINTS, null=0.0),
        LABEL_MASS,
    )
    figures = (
        Figure("shift", "template_shift", by="template", hue="attribute"),
        Figure("flips", "flip_rate", by="template", hue="between"),
    )

    form: VariantForm = "score"
    factors: Sequence[str] | None = None
    n_items: int | None = None
    level: Literal["context", "dataset"] = "context"
    fit: Fit = "anova"
    base: str = "base"
    protocols: Sequence[Protocol | AnyPath] | None = None

    def __post_init__(self) -> None:
        if self.protocols:
            settle(self, settled_by(self.protocols))
        super().__post_init__()
        _ = self.variants, self._renamed

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
            yield from self._with_protocols(dataset, attributes)
            return
        contexts = by_context(dataset)
        chats = [Chats(dataset, contexts, name, find_scale(self.scale), self.seed) for name in attributes]
        for context_id, chat in product(contexts, chats):
            lends = self.factors is not None or chat.lends
            asked = [each for each in self.variants if lends or not each.shots]
            yield from chat.trials(context_id, self.form, asked, self.asking, self.n_items)

    def _with_protocols(self, dataset: Dataset, attributes: Sequence[str]) -> Iterator[Trial]:
        """Plan each drawn item, or pair in both orders, under each protocol."""
        where: dict[str, Scalar] = {"form": self.form, "factor": "protocol"}
        options: dict[str, Any] = {"replicates": self.replicates, "seed": self.seed, "answer": self.answer}
        for protocol in self._own.values():
            if self.form == "pair":
                position = Position(attributes, protocol=protocol, **options)
                asked = where | {"answer": position.answer}
                yield from position.pairs(dataset, lambda *_, asked=asked: asked, n_pairs=self.n_items)
                continue
            asking = replace(self.asking, temperature=protocol.temperature, max_tokens=protocol.max_tokens)
            for context_id, candidates in by_context(dataset).items():
                for attribute, item in product(attributes, draw(candidates, self.n_items, self.seed, context_id)):
                    question = questions.protocol_question(protocol, dataset, item, attribute, attributes)
                    named = {**where, "template": protocol.id, "words": count_words(item.text)}
                    yield from question.trials(asking, named)

    @cached_property
    def _renamed(self) -> dict[str, Scale]:
        """Scales whose scores have other names, by the variant."""
        renamed = [each for each in self.variants if each.ids]
        return {each.name: each.scale(find_scale(self.scale)) for each in renamed}

    @cached_property
    def _own(self) -> dict[str, Protocol]:
        return {protocol.id: protocol for protocol in self.protocols or () if isinstance(protocol, Protocol)}

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score, or the probability that the first of a pair wins, and the status."""
        name = str(trial.condition["template"])
        if isinstance(trial.request, Completion) and (scale := self._renamed.get(name)) is not None:
            place, status = parse_choice(reply.text, scale.labels)
            return math.nan if place is None else scale.values[place], status  # noqa: PD011
        return questions.read_reply(self._own.get(name), trial, reply)

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
        contrast = Contrast(cell, "template", both, cell.blocks("template", both, keep=(), of=name))
        metrics: Mapping[str, Estimable] = {
            "template_shift": contrast.shift(_range(cell), _missing(both), "t", clipped=False),
            "template_agreement": partial(estimate_correlation, contrast.judged, *both, cell.resampling, self.level),
        }
        return contrast.part(metrics, {"template": name, "factor": factor})

    def _of_all_templates(self, cell: Cell, names: list[str], of_pairs: bool) -> Iterator[Part]:
        if not cell.wants("template_sd", "template_share", "variance_share", "template_alpha"):
            return
        blocks = cell.blocks("template", names, keep=(), of="all templates")
        shares = Shares.of(blocks, cell.trials, names, of_pairs, self.fit)
        prompt = [name for name in shares.components if name in OF_PROMPTS]
        metrics: Metrics = {
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
        form: VariantForm = "pair" if cell.where["form"] == "pair" else "score"
        drawn = {each.shots: each.name for each in variants(form, ["shots"]) if each.shots}
        both = drawn["up"], drawn["down"]
        if cell.wants("carry_over") and set(both) <= set(cell.trials["template"]):
            blocks = cell.blocks("template", both, keep=(), of="earlier verdicts")
            pull = mean_of(blocks, blocks[both[0]] - blocks[both[1]], 0.0, None, _missing(both), "t")
            yield Part({"carry_over": pull}, blocks, {"factor": "shots"})

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


def _missing(both: tuple[str, str]) -> Note:
    reason = because("no_item_both_ways", "no item has a value under {one} and under {other}")
    return reason.with_values(one=both[0], other=both[1])


def _range(cell: Cell) -> tuple[float, float]:
    """Return the lowest and highest possible value."""
    scale = None if cell.where["form"] == "pair" else scale_named(str(cell.trials["scale"].iloc[0]))
    return (scale.low, scale.high) if scale else (0.0, 1.0)


#: Variance components of scores, and of verdicts on pairs.
OF_SCORES = ("context", "item", "template", "item × template", "resampling")
OF_PAIRS = ("pair", "order", "pair × order", "order × template", "pair × template", "resampling")
#: Components that depend on the prompt.
OF_PROMPTS = frozenset({"template", "item × template", "order × template", "pair × template"})
_GROUPS = 20  # groups of contexts to leave out together when a mixed model is refitted
_UNKNOWN = because("one_sample", "sampling noise needs at least two texts per request (replicates=2)")
_ONE_ITEM = because("one_item_per_context", "one item per context, so item variance is part of context")
_MERGED = "resampling noise cannot be separated and is part of {crossing} × template"


@dataclass(frozen=True, eq=False)
class Shares:
    """Variance components of the scores of items judged under every template.

    Parameters
    ----------
    names : ndarray, shape (contexts,)
        Names of the contexts.
    crossed : Crossed
        Scores of all items; for pairs the probability of the first, with the two orders of pair k at k and k + half.
    pairs : bool
        Whether the items are pairs.
    fit : {"anova", "reml"}
        As in `biaslab.stats.fit_components`.
    sampled : bool
        Whether answers are samples.
    """

    names: NDArray[Any]
    crossed: Crossed
    pairs: bool
    fit: Fit
    sampled: bool
    _fitted: dict[bytes, dict[str, Floats]] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: pd.DataFrame, trials: pd.DataFrame, templates: Sequence[str], pairs: bool, fit: Fit) -> Shares:
        """Build from blocks of items and the trials with their samples.

        Parameters
        ----------
        blocks : pandas.DataFrame
            From `biaslab.probes.base.Cell.blocks`: one row per item, one column per template.
        trials : pandas.DataFrame
            Trials of the cell, with the same item names.
        templates : sequence of str
            The columns, in order.
        pairs, fit
            As above.
        """
        if pairs:
            blocks = _in_both_orders(blocks)
        codes, names = pd.factorize(blocks["context_id"])
        scores = blocks[list(templates)].to_numpy(float)
        sampled = not _is_exact(trials)
        spread = _spread(blocks, trials, templates) if sampled and len(blocks) else (None, None, None)
        return cls(np.asarray(names, object), Crossed(codes, scores, *spread), pairs, fit, sampled)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the components."""
        return OF_PAIRS if self.pairs else OF_SCORES

    def share(self, wanted: Sequence[str], resampling: Resampling) -> Estimate:
        """Estimate the share of some components in the variance, with an interval over contexts."""
        if self.crossed.why_undefined:
            return undefined(self.crossed.why_undefined, len(self.names))
        if wanted == ["item"] and np.bincount(self.crossed.context).max() == 1:
            return undefined(_ONE_ITEM, len(self.names))
        unknown = self.sampled and math.isnan(self._parts(np.ones((1, len(self.names))))["resampling"][0])
        if wanted == ["resampling"] and (unknown or not self.sampled):
            return undefined(_UNKNOWN, len(self.names)) if unknown else self._nothing()

        def statistic(weights: Floats) -> Floats:
            parts = self._parts(weights)
            total = sum(np.nan_to_num(part) if name == "resampling" else part for name, part in parts.items())
            with np.errstate(invalid="ignore"):  # 0 / 0
                return np.asarray(sum(parts[name] for name in wanted) / total)

        grouped, clusters = over_clusters(statistic, self.names, self._groups(resampling))
        why = because("no_variance", "no variance, or the mixed model does not converge")
        share = cluster_statistic(grouped, clusters, resampling, missing=why, scale="plain")
        merged = _MERGED.format(crossing="pair" if self.pairs else "item")
        return _within_bounds(share, len(self.names), merged if unknown else "")

    def spread(self, resampling: Resampling) -> Estimate:
        """Estimate the standard deviation of the templates' means, and test whether they are all equal."""
        scores, clusters = self.crossed.scores, resampling.cluster_of(self.names)
        codes, names = pd.factorize(pd.Index(clusters))
        home = codes[self.crossed.context] if len(scores) else self.crossed.context
        apart = scores - scores.mean(axis=1, keepdims=True) if len(scores) else scores
        apart = np.where(is_rounding(apart, np.abs(scores).max(initial=0.0)), 0.0, apart)
        sums = np.zeros((len(names), scores.shape[1]))
        np.add.at(sums, home, apart)
        return spread_of_means(sums, np.bincount(home, minlength=len(names)).astype(float), resampling)

    def _parts(self, weights: Floats) -> dict[str, Floats]:
        key = weights.tobytes()
        if key not in self._fitted:
            self._fitted[key] = self._of_pairs(weights) if self.pairs else self._of_scores(weights)
        return self._fitted[key]

    def _of_scores(self, weights: Floats) -> dict[str, Floats]:
        fitted = fit_components(self.crossed, weights, self.fit)
        values = fitted.context, fitted.item, fitted.condition, fitted.interaction, fitted.sampling
        return dict(zip(OF_SCORES, values, strict=True))

    def _of_pairs(self, weights: Floats) -> dict[str, Floats]:
        """Split verdicts in both orders into a position part, (p_ij + p_ji) / 2, and a candidate part.

        The mean square of verdicts about ½ is the sum of both parts. Which candidate of a pair is named first is
        arbitrary, so the candidate part has mean 0, and a template can only change it pair by pair.
        """
        half, j = len(self.crossed.scores) // 2, self.crossed.scores.shape[1]
        one, two = self.crossed.scores[:half], self.crossed.scores[half:]
        first, better = (one + two) / 2, (one - two) / 2
        context = self.crossed.context[:half]
        size = len(self.names)
        columns = np.ones(half), first.mean(axis=1) - 0.5, better.sum(axis=1) ** 2, (better**2).sum(axis=1)
        n, mean, sums, squares = (np.bincount(context, column, size) for column in columns)
        total, groups = weights @ n, weights.sum(axis=1)
        position = (weights @ mean) / total
        apart = weights @ mean**2 - 2 * position * (weights @ (mean * n)) + position**2 * (weights @ n**2)
        order = position**2 - apart * groups / (groups - 1) / total**2
        pair = (weights @ (sums - squares)) / total / (j * (j - 1))
        fitted = fit_components(Crossed(context, first), weights, self.fit)
        sampling, noise = self.crossed.sampling(weights)
        crossing = fitted.interaction + (weights @ squares) / total / j - pair - noise
        values = pair, order, fitted.context + fitted.item, fitted.condition, crossing, sampling
        return dict(zip(OF_PAIRS, values, strict=True))

    def _groups(self, resampling: Resampling) -> Resampling:
        """Group contexts if leaving out each one would require refitting a mixed model."""
        if self.fit == "anova":
            return resampling
        codes = pd.factorize(pd.Index(resampling.cluster_of(self.names)))[0]
        return replace(resampling, clusters=dict(zip(self.names, codes % _GROUPS, strict=True)))

    def _nothing(self) -> Estimate:
        note = "exact distributions have no resampling noise"
        return Estimate(0.0, math.nan, 0.0, 0.0, math.nan, math.nan, len(self.names), "none", (note,))


def combined(trials: pd.DataFrame) -> pd.DataFrame:
    """Name each ordered pair as one item."""
    both = trials["candidate_id"].astype(str) + "\t" + trials["opponent_id"].astype(str)
    return trials.assign(candidate_id=both)


def _in_both_orders(blocks: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with both orders: all in one order, then the same pairs in the other."""
    names = blocks["candidate_id"].str.split("\t", n=1, expand=True) if len(blocks) else pd.DataFrame({0: [], 1: []})
    swapped = (names[0] > names[1]).to_numpy(bool)
    low, high = names[0].where(~swapped, names[1]), names[1].where(~swapped, names[0])
    keyed = blocks.set_index(pd.MultiIndex.from_arrays([blocks["context_id"], low, high]))
    one, two = keyed[~swapped], keyed[swapped]
    shared = one.index.intersection(two.index, sort=False)
    return pd.concat([one.loc[shared], two.loc[shared]], ignore_index=True)


def _is_exact(trials: pd.DataFrame) -> bool:
    """Return whether answers are full distributions rather than texts or counted samples."""
    mass = _column(trials, "label_mass")[trials["value"].notna()]
    return bool(mass.notna().all() and _column(trials, "samples").isna().all())


def _spread(blocks: pd.DataFrame, trials: pd.DataFrame, templates: Sequence[str]) -> tuple[Floats, Floats, Floats]:
    """Return squared deviations of samples, degrees of freedom and counts, each of shape (items, templates)."""
    read = [name for name in (*ITEM, "template", "value", "samples", "form") if name in trials]
    rows = pd.concat([blocks[list(ITEM)].assign(template=None), usable(trials)[read]], ignore_index=True)
    item = number_items(rows)[0]  # the blocks' own come first
    place: Mapping[str, int] = {name: at for at, name in enumerate(templates)}
    at = rows["template"].map(place).to_numpy(float)
    chosen = (item < len(blocks)) & np.isfinite(at)
    cell = item[chosen] * len(templates) + at[chosen].astype(np.intp)
    value, counted = rows["value"].to_numpy(float)[chosen], _column(rows, "samples").to_numpy(float)[chosen]
    shape, size = (len(blocks), len(templates)), len(blocks) * len(templates)
    n, total, squares = (np.bincount(cell, column, size) for column in (np.ones(len(cell)), value, value**2))
    if np.isfinite(counted).any():  # the variance of sample shares is known; that behind a mean score is not
        known = float((_column(rows, "form").dropna() == "pair").all() and "form" in rows)
        k, p = np.bincount(cell, np.nan_to_num(counted, nan=1.0), size) / n, total / n
        columns: tuple[Any, ...] = (k * p * (1 - p) * known, (k - 1) * known, k)
    else:
        columns = np.maximum(squares - total**2 / n, 0.0), n - 1.0, n + 0.0
    ss, degrees, sizes = (np.asarray(column, float).reshape(shape) for column in columns)
    return ss, degrees, sizes


def _column(trials: pd.DataFrame, name: str) -> pd.Series:
    """Return a column, all NaN if trials lack it."""
    return trials[name] if name in trials else pd.Series(math.nan, trials.index)


def _within_bounds(share: Estimate, contexts: int, note: str) -> Estimate:
    """Clip a share and its interval to 0–1."""
    cut = "negative estimate set to 0" if share.estimate < 0 else ""
    value, low, high = (float(np.clip(end, 0.0, 1.0)) for end in (share.estimate, share.ci_low, share.ci_high))
    return replace(share, estimate=value, ci_low=low, ci_high=high, n_contexts=contexts).noted(note, cut)


def alpha_between(blocks: pd.DataFrame, names: list[str], cell: Cell) -> Estimate:
    """Return Krippendorff's interval α with templates as annotators."""
    long = blocks.melt(["context_id", "candidate_id"], names, "template", "value")
    return estimate_alpha(long, cell.resampling, annotator="template", score="value")


def flips(cell: Cell, names: Sequence[str], factors: Mapping[str, str]) -> Iterator[Part]:
    """Yield how often verdicts on pairs flip with the template, with the order, and on resampling.

    The cell's ``candidate_id`` names the ordered pair, as from `combined`; the first of ``names`` is the base.
    """
    verdicts = cell.trials.assign(value=pairs.decisions(cell.trials))
    for name in names:
        where = {"template": name, "factor": factors[name]}
        if name != names[0]:
            yield _flips_between_templates(verdicts, names[0], name, where)
        part = cell.trials[cell.trials["template"] == name]
        part = part.assign(candidate_id=part["candidate_id"].str.partition("\t")[0])
        blocks = pairs.both_orders(part, cell.what)
        rate = pairs.order_consistency(blocks["context_id"], blocks["first_ij"], blocks["first_ji"])
        yield Part({"flip_rate": _complement(rate)}, blocks, where | {"between": "order"})
        if part["replicate"].max() > 0:
            seen = pairs.replicate_agreement(part)
            again = Ratio(seen["context_id"], seen["agree"], seen["pairs"], bounds=(0.0, 1.0))
            yield Part({"flip_rate": _complement(again)}, part, where | {"between": "resampling"})


def _flips_between_templates(verdicts: pd.DataFrame, base: str, name: str, where: dict[str, str]) -> Part:
    """Compare verdicts on the same pair in the same order, replicate by replicate."""
    keys, read = ["context_id", "candidate_id", "replicate"], verdicts[verdicts["status"].isin(["ok", "tie"])]
    one, two = (read[read["template"] == each].set_index(keys)["value"] for each in (name, base))
    shared = one.index.intersection(two.index, sort=False)
    won, other = one.loc[shared].to_numpy(float), two.loc[shared].to_numpy(float)
    rate = pairs.order_consistency(shared.get_level_values(0), won, 1 - other)
    planned = int(verdicts["template"].isin([base, name]).sum())
    counts = 2 * len(shared), planned - 2 * len(shared)
    return Part({"flip_rate": _complement(rate)}, counts, where | {"between": "template"})


def _complement(same: Ratio) -> Ratio:
    """Turn an agreement rate into a rate of change."""
    numerator = np.asarray(same.denominator, float) - np.asarray(same.numerator, float)
    return replace(same, numerator=numerator, missing=because("no_counterpart", "no verdict with a counterpart"))


#: Number of first contexts from which examples are taken, so that adding contexts does not change prompts.
_DONORS = 8
_SHOTS = 2
_VERDICT = 32  # tokens for the name of a candidate


class Example(NamedTuple):
    """An earlier question about another context, and its verdict."""

    prompt: str
    verdict: str
    score: float | None = None


@dataclass(frozen=True)
class Chats:
    """Build the chats in which variants ask about one attribute of a data set.

    Parameters
    ----------
    dataset : Dataset
        The data to judge, also the source of examples.
    items : mapping of str to sequence of Item
        Items by context, in the data set's order.
    attribute : str
        The attribute to judge.
    scale : Scale
        Scale of the scores.
    seed : int
        Random seed for drawing examples.
    """

    dataset: Dataset
    items: dict[str, list[Item]]
    attribute: str
    scale: Scale
    seed: int
    _examples: dict[Any, Example] = field(default_factory=dict, init=False, repr=False)

    @property
    def lends(self) -> bool:
        """Whether every context can get examples from other contexts."""
        return len(self._donors) > _SHOTS

    def rate(self, item: Item, variant: Variant) -> Question:
        """Return the question for the score of an item."""
        prompt = variant.rate(self.dataset, self.attribute, self.scale, item.text, item.context)
        shots = self._shots(item.context_id, variant, pair=False)
        previous = shots[-1].score if shots else None
        about = replace(about_scores(item, [self.attribute], self.scale, previous=previous), template=variant.name)
        return Question(item, self.attribute, self._chat(prompt, variant, shots), variant.scale(self.scale), about)

    def trials(
        self, context: str, form: VariantForm, variants: Sequence[Variant], asking: AnswerSettings, n_items: int | None
    ) -> Iterator[Trial]:
        """Yield the trials of one context: its candidates, or pairs in both orders, under every variant."""
        items = self.items[context]
        if form == "score":
            for item, variant in product(draw(items, n_items, self.seed, context), variants):
                where = _named(form, variant) | {"words": count_words(item.text)}
                yield from self.rate(item, variant).trials(asking, where)
            return
        drawn = draw(list(combinations(items, 2)), n_items, self.seed, context)
        for (first, second), variant in product(both_orders(drawn), variants):
            yield from self._pair(first, second, variant, asking)

    def _pair(self, first: Item, second: Item, variant: Variant, asking: AnswerSettings) -> Iterator[Trial]:
        prompt = variant.compare(self.dataset, self.attribute, first.text, second.text, first.context)
        chat = self._chat(prompt, variant, self._shots(first.context_id, variant, pair=True))
        names, texts = (first.candidate_id, second.candidate_id), (first.text, second.text)
        source, labels = bool(first.context.strip()), variant.names(self.dataset.noun)
        about = About(first.context_id, names, texts, (self.attribute,), source, labels, template=variant.name)
        requests: list[Request] = [Choice(chat, labels, about)]
        if asking.answer != "distribution":
            samples = range(asking.replicates)
            requests = [Completion(chat, asking.temperature, _VERDICT, k, asking.seed, about) for k in samples]
        gap = first.human[self.attribute] - second.human[self.attribute]
        condition = _named("pair", variant) | {"answer": asking.answer, "human_gap": gap}
        for replicate, request in enumerate(requests):
            yield Trial(request, first.context_id, self.attribute, *names, replicate, condition, labels)

    def _chat(self, prompt: str, variant: Variant, shots: Sequence[Example]) -> tuple[Message, ...]:
        """Return the messages of a chat: an optional system message, examples as earlier turns, and the prompt."""
        role = prompts.render("variant_system", noun=self.dataset.noun) if variant.system else ""
        opening = [Message("system", role)] if role else []
        turns = [Message(*turn) for shot in shots for turn in (("user", shot.prompt), ("assistant", shot.verdict))]
        return *opening, *turns, Message("user", prompt)

    def _shots(self, context_id: str, variant: Variant, pair: bool) -> list[Example]:
        """Return examples from two other contexts, in the variant's order."""
        if not variant.shots:
            return []
        donors = [name for name in self._donors if name != context_id][:_SHOTS]
        if len(donors) < _SHOTS:
            needs = f"{_SHOTS + 1} contexts with candidates of different human scores on {self.attribute}"
            raise InputError("factors", "shots", f"others, because earlier verdicts need {needs}", 'remove "shots"')
        up, down = (self._lent(name, best, pair) for name, best in zip(donors, (True, False), strict=True))
        return [down, up] if variant.shots == "up" else [up, down]

    @cached_property
    def _donors(self) -> list[str]:
        able = (name for name in self.items if len({item.human[self.attribute] for item in self._rated(name)}) > 1)
        return sorted(islice(able, _DONORS), key=lambda name: float(draw_of(self.seed, name).random()))

    def _rated(self, context_id: str) -> list[Item]:
        return [item for item in self.items[context_id] if not math.isnan(item.human[self.attribute])]

    def _lent(self, *asked: Any) -> Example:
        if asked not in self._examples:
            self._examples[asked] = self._example(*asked)
        return self._examples[asked]

    def _example(self, context_id: str, best: bool, pair: bool) -> Example:
        """Make an example with the highest or lowest verdict; for pairs, with the first or second winning."""
        ordered = sorted(self._rated(context_id), key=lambda item: item.human[self.attribute], reverse=best)
        shown, other, base = ordered[0], ordered[-1], Variant("base", "base", rubric="none" if pair else "given")
        if pair:
            prompt = base.compare(self.dataset, self.attribute, shown.text, other.text, shown.context)
            return Example(prompt, base.names(self.dataset.noun)[0 if best else 1])
        low, high = self.dataset.scale
        unit = (shown.human[self.attribute] - low) / (high - low)
        values = np.array(self.scale.values)
        at = int(np.abs((values - self.scale.low) / (self.scale.high - self.scale.low) - unit).argmin())
        prompt = base.rate(self.dataset, self.attribute, self.scale, shown.text, shown.context)
        return Example(prompt, self.scale.labels[at], self.scale.values[at])  # noqa: PD011


def _named(form: VariantForm, variant: Variant) -> dict[str, Scalar]:
    return {"form": form, "template": variant.name, "factor": variant.factor}


def settled_by(own: Sequence[Protocol | AnyPath]) -> dict[str, Any]:
    """Return the probe parameters that follow from the protocols.

    Raises
    ------
    InputError
        If there are fewer than two, or they differ in form or scale.
    """
    protocols = tuple(map(Protocol.loaded, own))
    names = ", ".join(protocol.id for protocol in protocols)
    if len({protocol.id for protocol in protocols}) < max(len(protocols), 2):
        raise InputError("protocols", names, "at least two different protocols")
    if len({protocol.form for protocol in protocols}) > 1:
        raise InputError("protocols", names, "protocols of the same form, pair or score")
    form = Protocol.of_form(protocols[0], "pair", "score").form
    scales = {protocol.scale.name for protocol in protocols} if form == "score" else {"1-5"}
    if len(scales) > 1:
        raise InputError("protocols", names, f"protocols with the same scale, not {' and '.join(sorted(scales))}")
    answer = "text" if any(protocol.answer == "text" for protocol in protocols) else "distribution"
    return {"protocols": protocols, "form": form, "scale": scales.pop(), "answer": answer}
