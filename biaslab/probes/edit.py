"""Edits: does a judge reward a change that leaves quality unchanged? (Ye et al. 2024; Chen et al. 2024)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.core.interfaces import Nearest
from biaslab.core.metrics import FAIR, Calibration, Figure, Metric, planted
from biaslab.core.requests import Compare, Completion, Request, Score
from biaslab.core.scales import REWARD, Scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Trial
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.pairs import common_log_odds, is_counted, log_odds
from biaslab.measures.scoring.pointwise import AnswerSettings, Item, drawn_items
from biaslab.probes.base import by_configuration, label_mass, mean_of
from biaslab.probes.base.probe import LABEL_MASS, Accepted, Cell, Contrast, Estimable, Metrics, Part, paired, scored
from biaslab.probes.base.questions import PairProbe, ScoreProbe, by_context, draw_of, name_candidates, protocol_column
from biaslab.prompts.edits import Placed, TextEdit as Change, available, changes, find_edit, null_edit, placed
from biaslab.prompts.edits.attacks import Defence, defend, shield
from biaslab.prompts.edits.base import PREFIX
from biaslab.stats.blocks import ITEM, has_value, of_items, sum_by_context, usable, whole_blocks
from biaslab.stats.estimate import Estimate, because, is_rounding, undefined
from biaslab.stats.missing import completed
from biaslab.stats.ratio import Ratio, RatioTest
from biaslab.stats.resample import Resampling, cluster_statistic

#: Variants in which a candidate is shown.
UNEDITED, EDITED, NULL = VARIANTS = ("unedited", "edited", "null edit")

#: A judge that reacts to any change is fair if the content adds nothing; so calibration plants a null-edit effect too.
_MOVED = {"authority": 0.5, "null:authority": 0.5}


_ONE_SIDED = because("one_sided_pairs", "no pair is won only when {one}, or none only when {other}; use more samples")
_UNJUDGED = because("variant_not_judged", "no text was judged as {variant}")
_UNREAD = because("no_readable_judgement", "no readable judgements as {variants}")
_CONSTANT_HUMANS = because("human_scores_do_not_vary", "human scores do not vary within contexts")
_ONE_CONTEXT = because("one_context", "one context only")
_FEW_WORSE = because("few_worse_edited", "the worse candidate is edited in fewer than 2 contexts")
_NO_SLOPE = because("slope_not_above_0", "the judge's scores are not shown to increase with the humans'")


def _calibration(form: str, excess: float) -> Calibration:
    """Plant the effects of one edit and of its null edit, with parameters that leave a single value of a metric."""
    parameters = {"edits": ("authority",), "forms": (form,), "n_candidates": None, "n_pairs": None}
    return planted({"edits": _MOVED | {"authority": 0.5 + excess}}, parameters, FAIR | {"edits": _MOVED})


_OF_PAIRS = _calibration("pair", 0.35)
_THAN = "for the edit than for a null edit of its size"
_ADVICE = "remove what the edit adds from candidates, or tell the judge to ignore it, and measure again"
_DEFENDED: dict[str, Any] = {
    "above": "pays more for the edit with the defence than without",
    "below": "pays less for the edit with the defence than without",
}

SCORES = (
    Metric(
        "score_excess",
        "score with the edit minus with its null edit",
        "points",
        null=0.0,
        above=f"scores the same text higher {_THAN}",
        below=f"scores the same text lower {_THAN}",
        advice=_ADVICE,
        use="scoring texts of which some are edited that way",
        matters=0.25,
        primary=True,
        form="score",
        calibration=_calibration("score", 0.45),
    ),
    Metric("score_excess_sd", "the same in standard deviations of the judge's scores", "SD", null=0.0),
    Metric("score_worth", "points of human score that the excess is worth", "points"),
    Metric("score_effect", "score with an edit minus without", "points", null=0.0),
    Metric("score_defended", "score excess with the defence minus without", "points", null=0.0, **_DEFENDED),
    Metric("top_rate", "scores at the top of the scale", "share"),
)
PAIRS = (
    Metric(
        "win_excess",
        "P(the edited wins) with the edit minus with its null edit",
        "probability",
        null=0.0,
        above=f"prefers a text more often {_THAN}",
        below=f"prefers a text less often {_THAN}",
        advice=_ADVICE,
        use="comparing texts of which some are edited that way",
        matters=0.05,
        primary=True,
        form="pair",
        calibration=_OF_PAIRS,
    ),
    Metric(
        "logit_excess",
        "the same in logits",
        "logits",
        null=0.0,
        calibration=replace(_OF_PAIRS, conservative=("text",)),  # because few pairs flip
    ),
    Metric("win_effect", "P(the edited wins) with an edit minus without", "probability", null=0.0),
    Metric("logit_effect", "the same in logits", "logits", null=0.0),
    Metric("win_defended", "win excess with the defence minus without", "probability", null=0.0, **_DEFENDED),
    Metric("flip_rate", "verdicts that change with the edit", "share"),
    Metric("flip_excess", "flips with the edit minus with its null edit", "share", null=0.0),
    Metric("worse_wins", "decisions for the worse candidate, which is edited", "share"),
    Metric("side_win_excess", "P(the edited wins), edit minus null edit, by which is edited", "probability"),
    Metric("side_logit_excess", "the same in logits", "logits"),
)
BOTH = (Metric("untouched", "texts in which the edit finds nothing to change", "share"), LABEL_MASS)


_STRATUM = ["context_id", "candidate_id", "edited_first"]
_GAP = ("human_gap",)
_CONTRAST = (EDITED, NULL)
#: Reference for the other defences.
UNDEFENDED: Defence = "none"


def pair_parts(cell: Cell, gap_bins: int) -> Iterator[Part]:
    """Yield the metrics of one edit, from comparisons in both orders."""
    trials = oriented(touched(cell))
    blocks = whole(cell, trials, "shown", _orders(*_CONTRAST), _GAP, loud=True)
    contrast = Contrast(cell, "variant", _CONTRAST, blocks)
    metrics = _named(_gains(trials, blocks, _CONTRAST, cell.resampling, 0.0), "{}_excess")
    yield contrast.part(metrics, extremes=lambda: {"win_excess": _extremes(trials)})
    yield from _effects_against_unedited(cell, trials)
    yield from _flips(cell, trials)
    for edited, part in _sides(blocks) if cell.wants("side_win_excess", "side_logit_excess") else ():
        metrics = _gains(trials, part, _CONTRAST, cell.resampling, None)
        yield Part(_named(metrics, "side_{}_excess"), part, {"edited": edited})
    for gap, part in pairs.in_bins(blocks, gap_bins) if cell.everything else ():
        if not _of_one_context(part):
            metrics = _gains(trials, _counted_as(blocks, part), _CONTRAST, cell.resampling, None)
            yield Part(_named(metrics, "{}_excess"), part, {"human_gap": gap})


def _named(metrics: Mapping[str, Estimable], form: str) -> Metrics:
    """Return the gains in probability and in logits under the names of metrics."""
    return {form.format(name): metric for name, metric in metrics.items()}


def defended_parts(cell: Cell, of_pairs: bool) -> Iterator[Part]:
    """Yield, for each defence, the excess with it minus the excess without, on the same items."""
    defences = [name for name in dict.fromkeys(cell.trials["defence"]) if name != UNDEFENDED]
    metric = "win_defended" if of_pairs else "score_defended"
    if UNDEFENDED not in set(cell.trials["defence"]) or not cell.wants(metric):
        return
    trials = oriented(touched(cell)) if of_pairs else touched(cell)
    trials = trials.assign(under=trials["defence"] + ", " + trials["shown" if of_pairs else "variant"])
    width = 1.0 if of_pairs else np.ptp(scale_named(str(cell.trials["scale"].iloc[0])).values)
    for defence in defences:
        variants = [f"{name}, {variant}" for name in (defence, UNDEFENDED) for variant in _CONTRAST]
        columns = [_orders(variant) if of_pairs else [variant] for variant in variants]
        blocks = whole(cell, trials, "under", [name for names in columns for name in names])
        edited, null, bare_edited, bare_null = (_mean(blocks, names) for names in columns)
        change = mean_over(blocks, (edited - null) - (bare_edited - bare_null), (-2.0 * width, 2.0 * width), 0.0)
        yield Part({metric: change}, blocks, {"defence": defence})


def oriented(trials: pd.DataFrame) -> pd.DataFrame:
    """Re-express judgements from the side of the candidate that is (or would be) edited.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials with ``edited_first``: 1 if the candidate shown first is the one to be edited.

    Returns
    -------
    pandas.DataFrame
        ``value`` is the probability that it wins, ``human_gap`` how much higher humans score it, ``candidate_id`` names
        the pair, ``shown`` variant and order; ``wins`` and ``losses`` count decisions, ties excluded: one, or one per
        sample.
    """
    first = trials["edited_first"].to_numpy(float) == 1
    decided, samples = pairs.decisions(trials), pairs.sample_counts(trials)
    won = np.where(first, decided, 1 - decided)
    names = trials[["candidate_id", "opponent_id"]].astype(str).to_numpy(object)
    pair = np.where(first, names[:, 0], names[:, 1]) + " beside " + np.where(first, names[:, 1], names[:, 0])
    weight = np.where(np.isnan(samples), 1.0, samples)
    judged = has_value(trials)
    return trials.assign(
        value=np.where(first, trials["value"], 1 - trials["value"]),
        human_gap=np.where(first, 1, -1) * trials["human_gap"].to_numpy(float),
        candidate_id=pair,
        shown=trials["variant"].astype(str) + np.where(first, ", first", ", second"),
        wins=np.where(judged, np.nan_to_num(won) * weight, np.nan),
        losses=np.where(judged, np.nan_to_num(1 - won) * weight, np.nan),
        weight=weight,
    )


def _orders(*variants: str) -> list[str]:
    return [f"{variant}, {place}" for variant in variants for place in ("first", "second")]


def _mean(blocks: pd.DataFrame, columns: Sequence[str]) -> Floats:
    return np.asarray(blocks[list(columns)].to_numpy(float).mean(axis=1))


def _gains(
    trials: pd.DataFrame, blocks: pd.DataFrame, levels: tuple[str, str], resampling: Resampling, null: float | None
) -> Metrics:
    """Return the gain in win probability, and in logits, of the edited candidate under one variant over another."""
    one, other = (_mean(blocks, _orders(level)) for level in levels)
    metrics: Metrics = {"win": mean_over(blocks, one - other, (-1.0, 1.0), null)}
    if blocks.empty or not is_counted(usable(trials)):
        logits = [log_odds(blocks[_orders(level)].to_numpy(float)).mean(axis=1) for level in levels]
        return metrics | {"logit": mean_over(blocks, logits[0] - logits[1], None, null)}
    return metrics | {"logit": partial(_counted_logits, of_items(trials, blocks), levels, resampling, null)}


def _counted_logits(
    trials: pd.DataFrame, levels: tuple[str, str], resampling: Resampling, null: float | None
) -> Estimate:
    """Return the common log odds ratio of winning under the two variants, over all pairs and orders."""
    judged = usable(trials)
    one, other = (judged[judged["variant"] == level].groupby(_STRATUM)[["wins", "losses"]].sum() for level in levels)
    both = one.join(other.add_suffix("_there"), how="inner")
    won, lost, there, lost_there = (both[name] for name in ("wins", "losses", "wins_there", "losses_there"))
    missing = _ONE_SIDED.with_values(one=levels[0], other=levels[1])
    context = both.index.get_level_values(0)
    return common_log_odds(context, won, lost, there, lost_there, resampling, null, missing)


def _extremes(trials: pd.DataFrame) -> tuple[Ratio, Ratio]:
    """Return the excess with all missing judgements set so that it is smallest, and largest."""

    def filled(edited: float, null: float) -> Ratio:
        values = dict.fromkeys(_orders(EDITED), edited) | dict.fromkeys(_orders(NULL), null)
        judged = trials[trials["shown"].isin(list(values))]
        filled_in = completed(judged, judged["shown"].map(values).astype(float))
        blocks = whole_blocks(filled_in, "shown", list(values), None, ())
        return mean_over(blocks, _mean(blocks, _orders(EDITED)) - _mean(blocks, _orders(NULL)), (-1.0, 1.0), None)

    return filled(0.0, 1.0), filled(1.0, 0.0)


def _effects_against_unedited(cell: Cell, trials: pd.DataFrame) -> Iterator[Part]:
    """Yield the effect of edit and null edit, compared with the unedited pair."""
    for variant in _CONTRAST if cell.wants("win_effect", "logit_effect") else ():
        blocks = whole(cell, trials, "shown", _orders(variant, UNEDITED), _GAP)
        metrics = _gains(trials, blocks, (variant, UNEDITED), cell.resampling, 0.0)
        yield Part(_named(metrics, "{}_effect"), blocks, {"variant": variant})


def _flips(cell: Cell, trials: pd.DataFrame) -> Iterator[Part]:
    """Yield the rates at which the winner changes with the edit, and at which the worse candidate wins."""
    if not cell.wants("flip_rate", "flip_excess", "worse_wins"):
        return
    levels = _orders(*VARIANTS)
    as_won, as_lost = (trials.assign(value=trials[name] / trials["weight"]) for name in ("wins", "losses"))
    won, lost = (whole(cell, each, "shown", levels, _GAP) for each in (as_won, as_lost))
    flips = {variant: _differing(won, lost, variant) for variant in _CONTRAST}
    excess = mean_over(won, flips[EDITED] - flips[NULL], (-1.0, 1.0), 0.0)
    yield Part({"flip_excess": excess}, won)
    for variant, rate in flips.items():
        yield Part({"flip_rate": mean_over(won, rate, (0.0, 1.0), None)}, won, {"variant": variant})
    below = (won["human_gap"] < 0).to_numpy()
    worse = below & (not _of_one_context(won[below]))
    for variant in VARIANTS:
        wins, losses = (_mean(blocks, _orders(variant))[worse] for blocks in (won, lost))
        missing = won.attrs["why"] if won.empty else _FEW_WORSE
        success = Ratio(won["context_id"][worse], wins, wins + losses, None, (0.0, 1.0), missing, "score")
        yield Part({"worse_wins": success}, _counted_as(won, won[worse]), {"variant": variant})


def _differing(won: pd.DataFrame, lost: pd.DataFrame, variant: str) -> Floats:
    """Return the rate at which decisions under a variant differ from those on the unedited pair in the same order."""
    w, x = (won[_orders(name)].to_numpy(float) for name in (variant, UNEDITED))
    v, y = (lost[_orders(name)].to_numpy(float) for name in (variant, UNEDITED))
    same = w * x + v * y + (1 - w - v) * (1 - x - y)
    return np.asarray(1 - same.mean(axis=1))


def _sides(blocks: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split pairs by whether the better candidate, the worse one, or one of two equally good ones is edited."""
    sign = np.sign(blocks["human_gap"])
    sides = {"better": sign > 0, "worse": sign < 0, "equal": sign == 0}
    for edited, chosen in sides.items():
        part = blocks[chosen]
        if not _of_one_context(part):
            yield edited, _counted_as(blocks, part)


def _of_one_context(part: pd.DataFrame) -> bool:
    """Return whether a part has fewer than two contexts and therefore no interval."""
    return bool(part["context_id"].nunique() < 2)


def _counted_as(blocks: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """Return a part of the blocks with its own counts of judgements."""
    judged = round(blocks.attrs["n_trials"] * len(part) / max(len(blocks), 1))
    part.attrs = blocks.attrs | {"n_trials": judged, "n_dropped": 0}
    return part


PromptForm = Literal["score", "pair"]
#: Default edits: one per position of a change, and one that lengthens.
_USUAL = ("authority", "bandwagon", "padding", "refinement")


@dataclass(frozen=True)
class Edit(PairProbe, ScoreProbe):
    """Effect of edits: the reward for a change that leaves the quality of a text unchanged.

    Texts are judged in three variants: *unedited*, *edited*, and with a meaningless *null edit* of the same size in the
    same place. Any change may affect a score, so only the *excess* of the edit over its null edit is due to its
    content. The edits are in `biaslab.edits`, where `TextEdit` is a single edit. Further parameters:
    `biaslab.probes.base.ScoreProbe`, `biaslab.probes.base.PairProbe`.

    Parameters
    ----------
    edits : sequence of str, biaslab.prompts.edits.TextEdit or callable, optional
        Names from `biaslab.edits.available`, edits, or your own functions from text to text. Default: *authority*,
        *bandwagon*, *padding* and *refinement*. Every edit adds two requests per unedited one.
    forms : sequence of {"score", "pair"}
        Score single candidates, and/or compare pairs in both orders.
    n_candidates : int, optional
        Candidates per context to score, drawn at random; None: all.
    n_pairs : int, optional
        Pairs per context to compare, drawn at random together with the candidate to edit; None: all pairs.
    template : {1, 2}
        Comparative template.
    gap_bins : int
        Bins of the human score gap.
    defences : sequence of {"none", "delimiters", "quoting", "reminder", "two_step"}
        Defences in the prompt against candidates that address the judge (`biaslab.prompts.edits.attacks`); everything
        is asked with each.
    answer : {"distribution", "text", "verdict"}
        Read the probabilities of the labels, or generate and parse text; or show the texts to a judge that takes no
        prompt, which allows only edits of the text itself and no defences.

    Raises
    ------
    InputError
        If a value is out of range, or an edit is unknown or repeated.

    Notes
    -----
    Every edit is compared with its own null edit on complete blocks: items, or pairs in both orders, with a missing
    judgement are dropped and counted in ``n_dropped``. Texts that an edit does not change are left out. The column
    ``quality`` says whether the edit keeps or lowers quality; if it lowers quality, a fair judge scores lower, and an
    excess *above* 0 is the finding. There is one estimate for each judge × data set × attribute × edit × form.

    From scores (``form`` "score"), in points of the scale:

    - ``score_excess`` — score with the edit minus score with its null edit. Null 0; above: the edit is rewarded.
      Primary.
    - ``score_excess_sd`` — the same in standard deviations of the judge's scores of the unedited texts. Null 0.
    - ``score_worth`` — the same in points of human score: divided by the judge's slope on human scores within contexts.
      Undefined if the slope is not shown to be above 0; error in human scores inflates it.
    - ``score_effect`` — score with an edit minus score without, for edit and null edit (column ``variant``). Null 0.
    - ``top_rate`` — share of scores nearest to the top of the scale, by ``variant``. 0–1.

    From pairs (``form`` "pair"), with one candidate edited and the other never, averaged over both orders:

    - ``win_excess`` — probability that the edited candidate wins, minus that with its null edit. −1 to 1, null 0;
      above: the edit is rewarded. Primary. For text, the share of verdicts with ties counting ½, so that, unlike
      logits, it means the same in every answer mode.
    - ``logit_excess`` — the same in logits, which do not shrink if the judge is certain. Null 0. For text and shares of
      samples: the common log odds ratio over pairs (`biaslab.measures.ranking.pairs.common_log_odds`).
    - ``win_effect``, ``logit_effect`` — the same relative to the unedited pair, for edit and null edit (column
      ``variant``). Null 0.
    - ``flip_rate``, ``flip_excess`` — how often the winner differs from that without the edit, by ``variant`` (0–1);
      and with the edit minus with the null edit (null 0).
    - ``worse_wins`` — share of decisions for the worse candidate if it is edited, by ``variant``. 0–1; for "edited" it
      is the success rate of an attack.
    - ``side_win_excess``, ``side_logit_excess`` — the excess by whether the better or the worse candidate is edited, or
      both have equal human scores (column ``edited``). ``win_excess`` and ``logit_excess`` are also given by bins of
      the absolute human gap (column ``human_gap``).

    From both:

    - ``untouched`` — share of texts that the edit does not change. 0–1.
    - ``label_mass`` — total probability of all labels. 0–1.
    - ``score_defended``, ``win_defended`` — excess with a defence minus excess without, on the same items, for each
      defence except "none" (column ``defence``). Null 0; below: the defence weakens an attack that works.

    **Inference.** Excesses and effects: t tests and t intervals over contexts. Rates: bootstrap or score intervals;
    ``method`` says which. If judgements are missing, ``bound_low`` and ``bound_high`` of the primary metrics hold
    whatever the missing values are. q-values are over all edits that are estimated together.

    References
    ----------
    Ye et al. 2024, *Justice or Prejudice? Quantifying Biases in LLM-as-a-Judge* (CALM); Chen et al. 2024, *Humans or
    LLMs as the Judge? A Study on Judgement Biases*; Koo et al. 2024, *Benchmarking Cognitive Biases in LLMs as
    Evaluators* (CoBBLEr).

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Edit(["coherence"], ["authority"], forms=["pair"])
    >>> judge = bl.SimulatedJudge(data, noise=0.2, edits={"authority": 1.0, "null:authority": 0.4})
    >>> found = probe.estimate(bl.collect(probe, judge, data, progress=False)).set_index("metric")
    >>> round(float(found.loc["logit_excess", "estimate"].iloc[0]), 1)
    0.6
    """

    name = "edit"
    unprompted = frozenset({Compare, Score})
    protocol_forms = ("pair", "score")
    cell = ("judge", "dataset", "attribute", "edit", "form")
    conditions = ("quality", "defence", "variant", "edited", "human_gap")
    columns = (
        *("context_id", "candidate_id", "opponent_id", "replicate", "value", "status", "label_mass", "samples"),
        *("variant", "changed", "quality", "edited_first", "human_gap", "human", "scale"),
    )
    needs = "judgements of edited texts and of the same texts unedited: a column edit"
    metrics = (*SCORES, *PAIRS, *BOTH)
    figures = (
        Figure("excess", ("score_excess", "win_excess"), by="edit", col="metric"),
        Figure("attacks", "win_excess", by="edit", hue="defence"),
    )

    edits: Sequence[str | Change | Callable[[str], str]] | None = None
    forms: Sequence[PromptForm] = ("score", "pair")
    n_candidates: int | None = 2
    n_pairs: int | None = 2
    template: Literal[1, 2] = 1
    gap_bins: int = 3
    defences: Sequence[Defence] = (UNDEFENDED,)
    answer: Literal["distribution", "text", "verdict"] = field(  # type: ignore[assignment]
        default="distribution", kw_only=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [edit.name for edit in self.chosen]
        if not names or len(set(names)) < len(names) or any(name.startswith(PREFIX) for name in names):
            allowed = f"at least one, with different names that do not begin with {PREFIX!r}"
            remedy = "name the functions, or wrap them in biaslab.prompts.edits.TextEdit"
            raise InputError("edits", names, allowed, remedy)
        if self.answer == "verdict":
            in_prompt = [edit.name for edit in self.chosen if edit.place != "text"]
            in_prompt += [name for name in self.defences if name != UNDEFENDED]
            if in_prompt:
                raise InputError("answer", self.answer, "distribution or text", f"{in_prompt[0]} needs a prompt")

    @property
    def chosen(self) -> tuple[Change, ...]:
        """The edits to study."""
        if isinstance(self.edits, str | Change):
            raise InputError("edits", self.edits, "a list of edits", f"write [{self.edits!r}]")
        return tuple(map(find_edit, _USUAL if self.edits is None else self.edits))

    def take_protocol(self) -> None:
        """Adopt the protocol's settings; it leaves no place for most defences."""
        super().take_protocol()
        possible = {UNDEFENDED, "quoting"} if self.forms == ("pair",) else {UNDEFENDED}
        if self.protocol is not None and set(self.defences) - possible:
            raise InputError("defences", list(self.defences), "none with a protocol")

    @property
    def asking(self) -> AnswerSettings:
        """How scores are asked for."""
        answer = "score" if self.answer == "verdict" else self.answer
        return AnswerSettings(answer, self.replicates, self.temperature, self.max_tokens, self.seed, evaluators=True)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, then texts without prompt, then one form."""
        if self.answer == "verdict" and len(self.forms) > 1:
            form: PromptForm = "pair" if isinstance(refused, Score) else "score"
            words = f"judges only by {form}s"
            return Nearest(replace(self, forms=(form,)), words, omits=words)
        if not isinstance(refused, Completion) or self.answer != "text":
            return super().nearest(refused)
        kept = [edit for edit in self.chosen if edit.place == "text"]
        if not kept or any(name != UNDEFENDED for name in self.defences):
            return None
        left = [edit.name for edit in self.chosen if edit.place != "text"]
        omits = f"leaves out {', '.join(left)}, which need a prompt" if left else ""
        settled = {"answer": "verdict", "protocol": None, "replicates": 1, "edits": kept}
        words = " and ".join(filter(None, ("shows the texts without a prompt", omits)))
        return Nearest(replace(self, **settled), words, omits=omits)  # type: ignore[arg-type]

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each drawn item, and each drawn pair in both orders, unedited, edited and null-edited."""
        attributes = dataset.require_attributes(self.attributes)
        for defence in self.defences:
            if "score" in self.forms:
                yield from self._scores(dataset, attributes, defence)
            if "pair" in self.forms:
                for candidates in by_context(dataset).values():
                    yield from self._pairs(dataset, attributes, defence, candidates)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of one edit, from scores or pairs, with each defence, and the effect of defences."""
        trials, of_pairs = cell.trials, cell.where["form"] == "pair"
        defence = trials["defence"].fillna(UNDEFENDED) if "defence" in trials else UNDEFENDED
        cell = replace(cell, trials=trials.assign(defence=defence))
        quality = {"quality": trials["quality"].iloc[0]}
        for name, part_of_cell in cell.trials.groupby("defence", sort=False):
            for part in self._of_defence(replace(cell, trials=part_of_cell), of_pairs):
                yield replace(part, condition={**quality, "defence": name, **part.condition})
        for part in defended_parts(cell, of_pairs):
            yield replace(part, condition={**quality, **part.condition})

    def _of_defence(self, cell: Cell, of_pairs: bool) -> Iterator[Part]:
        yield from pair_parts(cell, self.gap_bins) if of_pairs else score_parts(cell)
        items = ("context_id", "candidate_id", *(("opponent_id",) if of_pairs else ()))
        shares = {"untouched": untouched(cell.trials, items), "label_mass": label_mass(cell.trials)}
        yield Part(shares, cell.trials)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements with a column ``edit`` and their unedited counterparts (for pairs, also ``edited``)."""
        edited, note = recorded_edits(trials)
        return Accepted(edited, note or f"needs {self.needs}" if edited.empty else note)

    def _scores(self, dataset: Dataset, attributes: Sequence[str], defence: Defence) -> Iterator[Trial]:
        for item in drawn_items(dataset, self.n_candidates, self.seed):
            for edit in self.chosen:
                for variant, change, condition in _variants(edit.given(item.context), item.text, dataset.noun):
                    shown = _behind(placed(change, item.text, dataset.noun), defence)
                    counterpart = replace(item, text=shown.text)
                    for attribute in attributes:
                        placing = {"heading": shown.heading, "note": shown.note, "edit": shown.edit}
                        asked = self.question(dataset, counterpart, attribute, **placing)
                        if defence != UNDEFENDED:
                            asked = replace(asked, messages=defend(str(asked.messages), defence))
                        columns = {"form": "score", "variant": variant, "defence": defence, **condition}
                        columns |= {"edited_first": None, "human_gap": None, **protocol_column(self.protocol)}
                        yield from asked.trials(self.asking, columns)

    def _pairs(
        self, dataset: Dataset, attributes: Sequence[str], defence: Defence, candidates: list[Item]
    ) -> Iterator[Trial]:
        names = name_candidates(dataset.noun)
        for (edited, other), edit in product(self._draw(candidates), self.chosen):
            for variant, change, condition in _variants(edit.given(edited.context), edited.text, names[0]):
                for place, attribute in product((0, 1), attributes):
                    shown = _behind(placed(change, edited.text, names[place]), defence)
                    sides = replace(edited, text=shown.text), replace(other, text=shield(other.text, defence))
                    pair = sides if place == 0 else sides[::-1]
                    gap = pair[0].human[attribute] - pair[1].human[attribute]
                    columns = {"form": "pair", "variant": variant, **condition, "edited_first": 1.0 - place}
                    columns |= {"defence": defence}
                    columns |= {"human_gap": gap, "human": None, "scale": None, "answer": self.answer}
                    of = [(shown.heading, shown.edit), ("", "")]
                    headings, edits = zip(*(of if place == 0 else of[::-1]), strict=True)
                    asked = (dataset, self.template, attribute, pair, columns)
                    yield from self.ask_pair(*asked, headings, shown.note, edits if change else (), defence)

    def _draw(self, candidates: list[Item]) -> list[tuple[Item, Item]]:
        """Return the pairs of a context to compare, with the candidate to edit first."""
        unordered, draw = list(combinations(candidates, 2)), draw_of(self.seed, candidates[0].context_id)
        turned = draw.integers(2, size=len(unordered))
        pairs = [pair[::-1] if turn else pair for pair, turn in zip(unordered, turned, strict=True)]
        if self.n_pairs is None or self.n_pairs >= len(pairs):
            return pairs
        return [pairs[i] for i in sorted(draw.choice(len(pairs), self.n_pairs, replace=False))]


def _behind(shown: Placed, defence: Defence) -> Placed:
    """Return a candidate as shown in a defended prompt, with the edit named "edit+defence"."""
    edit = f"{shown.edit}+{defence}" if shown.edit and defence != UNDEFENDED else shown.edit
    return replace(shown, text=shield(shown.text, defence), edit=edit)


def _variants(edit: Change, text: str, name: str) -> Iterator[tuple[str, Change | None, dict[str, Any]]]:
    """Yield the variants of a candidate; only the unedited one if the edit changes nothing."""
    changed = changes(edit, text, name)
    condition = {"edit": edit.name, "quality": edit.quality, "changed": float(changed)}
    yield UNEDITED, None, condition
    if changed:
        yield EDITED, edit, condition
        yield NULL, null_edit(edit), condition


_SAME = 1e-9  # smaller variances are rounding error


def score_parts(cell: Cell) -> Iterator[Part]:
    """Yield the metrics of one edit, from scores."""
    trials, scale = touched(cell), scale_named(str(cell.trials["scale"].iloc[0]))
    width = scale.high - scale.low
    contrast = Contrast(cell, "variant", _CONTRAST, whole(cell, trials, "variant", _CONTRAST, loud=True))
    excess = contrast.shift((scale.low, scale.high), contrast.judged.attrs["why"], "t")
    yield contrast.part({"score_excess": excess})
    all_three = whole(cell, trials, "variant", VARIANTS, keep=("human",))
    deviations, worth = (partial(each, all_three, cell.resampling) for each in (_in_deviations, _worth))
    yield Part({"score_excess_sd": deviations, "score_worth": worth}, all_three)
    for variant in _CONTRAST:
        blocks = whole(cell, trials, "variant", (variant, UNEDITED))
        effect = mean_over(blocks, blocks[variant] - blocks[UNEDITED], (-width, width), 0.0)
        yield Part({"score_effect": effect}, blocks, {"variant": variant})
    for variant in VARIANTS if scale is not REWARD else ():
        yield Part({"top_rate": _top_rate(all_three, variant, scale)}, all_three, {"variant": variant})


def touched(cell: Cell) -> pd.DataFrame:
    """Return the trials of texts in which the edit changes something."""
    return cell.trials[cell.trials["changed"] == 1]


def untouched(trials: pd.DataFrame, by: Sequence[str] = ITEM) -> Ratio:
    """Return the share of items in which the edit changes nothing."""
    once = trials.drop_duplicates(list(by))
    return mean_of(once, once["changed"] == 0, None, (0.0, 1.0))


def whole(
    cell: Cell, rows: pd.DataFrame, condition: str, levels: Sequence[str], keep: Sequence[str] = (), loud: bool = False
) -> pd.DataFrame:
    """Put levels of a condition side by side (`Cell.blocks`); empty if one was never judged.

    Only one contrast of a cell, the ``loud`` one, warns of missing data.
    """
    lacking = [level for level in levels if level not in set(rows[condition])]
    if lacking:
        columns = dict.fromkeys(ITEM, object) | dict.fromkeys((*keep, *levels), float)
        blank = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})
        unjudged = _UNJUDGED.with_values(variant=lacking[0].partition(",")[0])
        why = because("nothing_edited", "the edit changes none of the texts") if rows.empty else unjudged
        blank.attrs.update(n_trials=0, n_dropped=0, why=why)
        return blank
    with warnings.catch_warnings():
        if not loud:
            warnings.simplefilter("ignore", MissingDataWarning)
        blocks = cell.blocks(condition, levels, keep, rows)
    blocks.attrs["why"] = _UNREAD.with_values(variants=" and ".join(levels))
    return blocks


def mean_over(blocks: pd.DataFrame, values: ArrayLike, bounds: tuple[float, float] | None, null: float | None) -> Ratio:
    """Return the mean of one value per item, with t test and interval over contexts if it has a null."""
    return mean_of(blocks, values, null, bounds, blocks.attrs.get("why", ""), "resampling" if null is None else "t")


def _top_rate(blocks: pd.DataFrame, variant: str, scale: Scale) -> Ratio:
    """Return the share of scores nearest to the top of the scale."""
    highest = np.array(scale.values)[-2:]
    top = blocks[variant] > highest.mean()
    return mean_of(blocks, top, None, (0.0, 1.0), blocks.attrs["why"], "score")


def _in_deviations(blocks: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the mean excess divided by the standard deviation of the judge's scores of unedited texts."""
    if blocks.empty:
        return undefined(blocks.attrs["why"])
    score = blocks[UNEDITED] - blocks[UNEDITED].mean()
    columns = blocks[EDITED] - blocks[NULL], np.ones(len(blocks)), score, score**2
    sums, names = sum_by_context(resampling.cluster_of(blocks["context_id"]), *columns)

    def in_deviations(weights: Floats) -> Floats:
        gained, n, first, second = (weights @ sums).T
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = second / n - (first / n) ** 2
            return np.where(variance > _SAME, gained / n / np.sqrt(np.maximum(variance, 0.0)), np.nan)

    missing = because("constant_score", "the judge gives all texts the same score")
    return cluster_statistic(in_deviations, names, resampling, 0.0, missing=missing, inference="t")


def _worth(blocks: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the mean excess in points of human score, dividing by the judge's slope on human scores within contexts.

    Both are sums over clusters, linearised, with Fieller's interval. It is infinite, and the result undefined, if the
    slope is not shown to be above 0: with a slope near 0, an excess may correspond to any number of points.

    References
    ----------
    Fieller 1954, *Some problems in interval estimation*, JRSS B 16.
    """
    rated = blocks[blocks["human"].notna()]
    if rated.empty:
        return undefined(blocks.attrs["why"] if blocks.empty else because("no_human_scores", "no human scores"))
    centred = rated[["human", UNEDITED]] - rated.groupby("context_id")[["human", UNEDITED]].transform("mean")
    human, score = centred["human"].to_numpy(), centred[UNEDITED].to_numpy()
    columns = rated[EDITED] - rated[NULL], np.ones(len(rated)), human * score, human**2
    sums, _ = sum_by_context(resampling.cluster_of(rated["context_id"]), *columns)
    gain, n, cross, square = sums.sum(axis=0)
    clusters = len(sums)
    if is_rounding(square) or clusters < 2:
        return undefined(_CONSTANT_HUMANS if clusters > 1 else _ONE_CONTEXT, clusters)
    excess, slope = gain / n, cross / square
    excesses = excess + (sums[:, 0] - excess * sums[:, 1]) * clusters / n
    slopes = slope + (sums[:, 2] - slope * sums[:, 3]) * clusters / square
    parts = np.column_stack([excesses, slopes])
    low, high = RatioTest(parts).interval(resampling.level) if slope > _SAME else (-np.inf, np.inf)
    if not np.isfinite([low, high]).all():
        return undefined(_NO_SLOPE, clusters)
    value = excess / slope
    error = float(np.std(parts[:, 0] - value * parts[:, 1], ddof=1)) / slope / np.sqrt(clusters)
    return Estimate(value, error, low, high, np.nan, np.nan, clusters, "Fieller over contexts")


_ITEM = ["judge", "dataset", "attribute", "context_id"]


def recorded_edits(trials: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the judgements of a log that `biaslab.probes.Edit` can use, and a note on what is left out.

    Parameters
    ----------
    trials : pandas.DataFrame
        Recorded trials. ``edit`` names the edit of the text shown ("null:" plus name for a null edit); empty for
        unedited texts. For pairs, ``edited`` names the edited candidate.

    Returns
    -------
    tuple of pandas.DataFrame and str
        With the columns that the probe reads; empty if no edited text has an unedited counterpart.
    """
    if "edit" not in trials or trials["edit"].fillna("").eq("").all():
        return trials.iloc[:0], ""
    named = trials.assign(edit=trials["edit"].fillna(""))
    scores = by_configuration(scored(named)).assign(form="score", edited_first=np.nan)
    parts = [*_with_counterparts(scores, [*_ITEM, "candidate_id"]), *_of_pairs(paired(named))]
    if not parts:
        return trials.iloc[:0], "needs the same texts unedited and, for pairs, a column edited that names the candidate"
    judged = pd.concat(parts, ignore_index=True)
    lacking = sorted(set(judged["edit"]) - set(judged.loc[judged["variant"] == NULL, "edit"]))
    return judged, f"no null edit, so no excess can be estimated: {', '.join(lacking)}" * bool(lacking)


def _of_pairs(pairs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the pairs with known edited candidate and order."""
    if "edited" not in pairs:
        return
    shown = pairs[pairs["order_known"].astype(bool)]
    one, two = shown["candidate_id"].astype(str), shown["opponent_id"].astype(str)
    pair = one.where(one < two, two) + " " + two.where(one < two, one)
    shown = shown.assign(pair=pair, form="pair", scale=None)
    named = shown.loc[shown["edit"] != "", [*_ITEM, "pair", "edit", "edited"]].drop_duplicates()
    for (name, edited), part in named.groupby(["edit", "edited"], sort=False):
        own = shown["edit"].isin([name, f"{PREFIX}{name}"]) & (shown["edited"] == edited)
        twins = shown[(shown["edit"] == "") | own]
        twins = twins.merge(part[[*_ITEM, "pair"]], on=[*_ITEM, "pair"])
        first = (twins["candidate_id"].astype(str) == str(edited)).astype(float)
        yield from _with_counterparts(twins.assign(edited_first=first), [*_ITEM, "pair"])


def _with_counterparts(trials: pd.DataFrame, item: list[str]) -> Iterator[pd.DataFrame]:
    """Yield the judgements of each edit together with those of the same items unedited and null-edited."""
    catalogue = available()
    for name in dict.fromkeys(trials["edit"]):
        if not name or str(name).startswith(PREFIX):
            continue
        variants = trials["edit"].map({"": UNEDITED, name: EDITED, f"{PREFIX}{name}": NULL})
        own = trials.assign(variant=variants)[variants.notna()]
        both = own.groupby(item, sort=False)["variant"].transform("nunique") > 1
        edited = own["variant"].eq(EDITED).groupby([own[column] for column in item]).transform("any")
        chosen = own[both & edited]
        if {UNEDITED, EDITED} <= set(chosen["variant"]):
            quality = catalogue[name].quality if name in catalogue else "left"
            yield chosen.assign(edit=name, quality=quality, changed=1.0)
