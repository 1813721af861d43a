"""Self-preference: does a judge favour what its own system wrote, at equal quality? (Panickssery et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from biaslab.core import Calibration, Comparison, Likelihood, Metric, Nearest, Reply, Request, Scalar, Status, Trial
from biaslab.core.checks import require_one_of, require_some_of
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.probes import _own_texts as texts
from biaslab.probes._familiar import EqualQuality, single_columns
from biaslab.probes._own_asked import OwnTexts
from biaslab.probes.base import LABEL_MASS, Accepted, Cell, Estimable, Part, ScoreProbe, label_mass, paired, scored
from biaslab.probes.position import Position
from biaslab.stats import (
    Estimate,
    Ratio,
    Resampling,
    each_cell,
    has_value,
    logistic_model,
    note_missing,
    undefined,
    usable,
    warn_missing,
)

Kind = Literal["pairs", "scores"]
_WAYS = ("template", "configuration", "scale")
_NAMELESS = "undefined: no candidate has a system"
_NO_ERRORS = "human scores are taken as free of errors beside verdicts"
_UNNAMED = "not tested: own names no system, so that each is taken for the judge's own in turn"
_FAIR: Mapping[str, Scalar] = {"quality": 1.0, "noise": 1.0, "context_noise": 0.5}
_SYSTEMS = ("own", "another", "a third")


@dataclass(frozen=True)
class SelfPreference(EqualQuality):
    """Compare and score what the judge's own system wrote with what others wrote, where humans score alike.

    Its further parameters are those of `biaslab.probes.base.ScoreProbe`.

    Parameters
    ----------
    own : str, optional
        The system of the data set whose texts are the judge's own: itself, or a model of its family. Without, every
        system is taken for it in turn, which shows whom a judge favours, and nothing is tested.
    asks : sequence of {"pairs", "scores"}
        Compare own texts with others' in both orders, score all texts, or both. Evaluators only score.
    perplexity : bool
        Ask the judge for the likelihood of each text as well, and estimate at equal perplexity too.
    template : {1, 2}
        Comparative template.

    Raises
    ------
    InputError
        If a value lies outside its range, or the data set has no text of ``own``; the message lists its systems.

    Notes
    -----
    A trial's ``value`` is the probability that the candidate shown first wins, or a score; with ``asked="likelihood"``
    the log perplexity of the candidate. Prompts are those of `Position` and `Verbosity`, so that a store answers both.

    That own texts win, or score higher, is no bias: they may be better. Bias is what is left where quality is equal,
    as humans see it. Estimates, one a judge × data set × attribute × ``own`` system:

    ``self_preference_logit`` (primary; null 0)
        Log odds that the own text wins at equal human score: logit P(own wins) ~ 1 + difference of human scores + who
        stands first, over pairs judged in both orders; in logs over all judgements. .2 logits turn an even chance into
        .55. Least squares on log odds of exact probabilities; logistic regression of verdicts, and of shares of
        samples, whose log odds lie nearer to 0 the noisier they are.
    ``self_preference_shift`` (primary; null 0)
        Standard deviations by which own texts score higher: score ~ own + human score + an intercept a context.
    ``own_win_rate`` (0–1)
        Mean probability that the own text wins, a tie counting ½, pooled over pairs and orders; also by ``system``, the
        other one. No test: it says as much about the texts as about the judge.
    ``own_win_excess`` (−1 to 1, null 0)
        The same less the share of pairs in which humans prefer the own text. It is off 0 also for a judge that is
        noisier than humans and decides more pairs by chance, where own texts are better or worse: read the logit.
    ``own_score_gap``
        Mean score of a context's own texts less that of the others, in points of the scale. No test.
    ``label_mass`` (0–1)
        Probability that the labels have together.

    With perplexities (``perplexity=True``, or columns ``log_perplexity`` and ``opponent_log_perplexity`` in a log) both
    primary metrics come a second time, ``adjusted`` "log perplexity": at equal human score and equal log perplexity of
    the text. Where that takes the effect away, the judge does not favour itself but what is familiar to it, which its
    own texts are (Wataoka et al. 2024).

    Human scores with errors hold quality equal only in part: where own texts are better, a judge that sees quality
    better than humans do passes for biased. Where trials carry several annotators' ratings this is corrected by errors
    in variables, as in `Verbosity`, for scores and exact probabilities; ``note`` and `sensitivity` say how far a
    finding depends on the rest. What humans overlook and the judge does not, no regression takes out.

    Intervals and tests of the primary metrics are by Student's t over contexts with a cluster jackknife.

    References
    ----------
    Panickssery, Bowman & Feng 2024, *LLM Evaluators Recognize and Favor Their Own Generations* (arXiv 2404.13076);
    Wataoka, Takahashi & Ri 2024, *Self-Preference Bias in LLM-as-a-Judge* (arXiv 2410.21819).

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> judge = bl.SimulatedJudge(data, quality=0.5, noise=0.3, self_preference=1.0, own_system="clean")
    >>> probe = SelfPreference(["coherence"], own="clean")
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), list(probe.primary))
    >>> bool((estimates["ci_low"] > 0).all())
    True
    """

    name: ClassVar[str] = "self_preference"
    feature: ClassVar[str] = "own"
    conditions: ClassVar[tuple[str, ...]] = (*_WAYS, "own", "adjusted", "system")
    columns: ClassVar[tuple[str, ...]] = (
        *ScoreProbe.columns,
        "opponent_id",
        "replicate",
        "system",
        "own",
        "label_mass",
    )
    needs: ClassVar[str] = (
        "texts of the judge's own system: name it in the column judge_system where it is not the judge's name"
    )
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "self_preference_logit",
            "own texts win at equal human score",
            "logits",
            null=0.0,
            above="prefers its own system's texts where humans score alike",
            below="prefers other systems' texts where humans score alike",
            advice="let a judge of another family compare texts of this system",
            matters=0.2,
            primary=True,
            calibration=Calibration(
                fair=_FAIR,
                planted={**_FAIR, "self_preference": 0.3},
                parameters={"own": "own", "asks": ("pairs",), "reliability": 1.0},
                systems=_SYSTEMS,
                conservative=("text", "sampled:3"),  # few verdicts of 8 contexts are often separated
            ),
        ),
        Metric(
            "self_preference_shift",
            "score of own texts at equal human score",
            "SD",
            null=0.0,
            above="scores its own system's texts higher where humans score alike",
            below="scores its own system's texts lower where humans score alike",
            advice="let a judge of another family score texts of this system",
            matters=0.2,
            primary=True,
            calibration=Calibration(
                fair=_FAIR,
                planted={**_FAIR, "self_preference": 0.65},
                parameters={"own": "own", "asks": ("scores",), "reliability": 1.0},
                systems=_SYSTEMS,
            ),
        ),
        Metric(
            "own_win_excess",
            "own texts win, minus how often humans prefer them",
            "share",
            null=0.0,
            above="prefers its own system's texts more than humans do",
            below="prefers its own system's texts less than humans do",
            advice="take a judge of another family for texts of this system",
            matters=0.05,
            comparison=Comparison("verdicts on pairs with an own text"),
        ),
        Metric("own_win_rate", "own texts win", "share"),
        Metric("own_score_gap", "own texts score higher by", "points"),
        LABEL_MASS,
    )

    own: str | None = None
    asks: Sequence[Kind] = field(default=("pairs", "scores"), kw_only=True)
    perplexity: bool = field(default=False, kw_only=True)
    template: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_some_of("asks", self.asks, ("pairs", "scores"))
        require_one_of("template", self.template, (1, 2))
        if self.answer == "score" and "scores" not in self.asks:
            raise InputError("asks", self.asks, 'scores where answer is "score"', "an evaluator compares no pairs")

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the pairs of an own text and another's in both orders, and the score of every text."""
        systems = [name for name in dict.fromkeys(dataset.candidates["system"]) if name]
        if self.own is not None:
            remedy = "" if systems else "name who wrote each text in the column system"
            require_one_of("own", self.own, systems or ["nobody: no candidate has a system"], remedy)
        judged = OwnTexts(dataset, self.own)
        if "pairs" in self.asks and self.answer != "score":
            yield from judged.pairs(self._comparing, dataset.require_attributes(self.attributes))
        if "scores" in self.asks:
            yield from judged.scores(self.questions(dataset), self.asking)
        if self.perplexity:
            yield from judged.likelihoods(self.questions(dataset))

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: without perplexities, text instead of label probabilities, then numbers."""
        if isinstance(refused, Likelihood):
            return Nearest(replace(self, perplexity=False), "does without the perplexity of the texts")
        return super().nearest(refused)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return how likely the first wins, the score, or the log perplexity, and the status."""
        if trial.opponent_id is not None:
            return self._comparing.read(trial, reply)
        if isinstance(trial.request, Likelihood):
            value = -float(np.mean(reply.logprobs)) if reply.logprobs else math.nan
            return (value + 0.0, "ok") if math.isfinite(value) else (math.nan, "refused")
        return super().read(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each way of asking and own system: of pairs, or of scores."""
        trials = texts.with_perplexities(cell.trials)
        columns = (*_WAYS, "own")
        told = trials.assign(**{name: texts.filled(trials, name) for name in columns})
        for values, part in each_cell(told, columns):
            where = dict(zip(columns, values, strict=True))
            here, own = replace(cell, trials=part), str(where["own"])
            paired_here = bool((texts.filled(part, "opponent_id") != "").any())
            for one in [own] if own else texts.systems_of(part):
                at = {**where, "own": one, "adjusted": "", "system": ""}
                for found in (self._of_pairs if paired_here else self._of_scores)(here, at):
                    yield found if own else _exploratory(found)
            if not own and not any(texts.systems_of(part)):
                nothing = undefined(_NAMELESS)
                names = ["self_preference_logit" if paired_here else "self_preference_shift"]
                yield Part(dict.fromkeys(names, nothing), (0, len(part)), {**where, "adjusted": "", "system": ""})

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Take judgements that have what the judge's own system wrote on one side."""
        found = texts.with_writers(trials)
        compared, rated = paired(found), scored(found)
        one_side = compared[(compared["system"] == compared["own"]) != (compared["opponent_system"] == compared["own"])]
        own = rated["system"] == rated["own"]
        kept = rated[own.groupby([rated[n] for n in (*self.cell, "configuration", "context_id")]).transform("any")]
        left = pd.concat([one_side, kept])
        return Accepted(left, f"needs {self.needs}" if left.empty else "")

    @property
    def _comparing(self) -> Position:
        """How pairs are asked for and read."""
        answer: Literal["distribution", "text"] = "text" if self.answer == "text" else "distribution"
        how = {"answer": answer, "replicates": self.replicates, "temperature": self.temperature, "seed": self.seed}
        return Position(templates=(self.template,), **how)  # type: ignore[arg-type]

    def _of_pairs(self, cell: Cell, at: Mapping[str, Any]) -> Iterator[Part]:
        """Yield what pairs tell of a system."""
        found, drawn = texts.of_own(cell.trials, at["own"]), cell.resampling
        if found.empty:
            nothing = undefined(f"undefined: no text of {at['own']} beside another's")
            yield Part({"self_preference_logit": nothing}, (0, 0), at)
            return
        recorded, rated = texts.is_recorded(found), found[found["gap"].notna()]
        if len(rated) or not recorded:
            yield from self._at_equal_quality(cell, rated, at)
            yield Part({"own_win_excess": partial(texts.win_excess, rated, drawn)}, _counts(rated), at)
        mass = {} if recorded else {"label_mass": label_mass(found)}
        yield Part({"own_win_rate": partial(texts.win_rate, found, drawn), **mass}, _counts(found), at)
        others = list(dict.fromkeys(found["other"]))
        for other in others if len(others) > 1 and cell.everything and found["own"].iloc[0] else ():
            against = found[found["other"] == other]
            rate = partial(texts.win_rate, against, drawn)
            yield Part({"own_win_rate": rate}, _counts(against), {**at, "system": str(other)})

    def _at_equal_quality(self, cell: Cell, rated: pd.DataFrame, at: Mapping[str, Any]) -> Iterator[Part]:
        """Yield the log odds for own texts at equal human score and, where it is known, at equal perplexity."""
        if not cell.wants("self_preference_logit"):
            return
        chosen = usable(rated) if texts.is_recorded(rated) else texts.whole(rated)
        dropped = len(rated) - len(chosen)
        why = "they or, of this probe's own, their twin in the other order are missing"
        warn_missing(cell.what, dropped, len(rated), why)
        note = note_missing(rated["context_id"], ~has_value(rated), rated["own_first"], "the order")
        for adjusted, beside in _adjustments(chosen, "log_perplexity_own"):
            found = self._log_odds(chosen, beside, cell.resampling)
            yield Part({"self_preference_logit": found}, (len(chosen), dropped), {**at, "adjusted": adjusted}, note)

    def _log_odds(self, chosen: pd.DataFrame, beside: Sequence[str], resampling: Resampling) -> Estimate:
        if texts.is_exact(chosen):
            sides, contexts = texts.by_side(chosen)
            homes = dict(zip(contexts, resampling.cluster_of([*contexts.values()]), strict=True))
            return self._at_equal(sides, replace(resampling, clusters=homes), beside=["first", *beside])
        terms = ["first", *beside, "human", "own"]  # what is told apart from nothing else is the last, own
        found = logistic_model(texts.as_verdicts(chosen), "won", terms, resampling)["own"]
        return found if math.isnan(found.estimate) else texts.noted(found, _NO_ERRORS)

    def _of_scores(self, cell: Cell, at: Mapping[str, Any]) -> Iterator[Part]:
        """Yield what scores tell of a system."""
        scores, own, drawn = cell.trials, cell.trials["system"] == at["own"], cell.resampling
        recorded = texts.is_recorded(scores)
        if cell.wants("self_preference_shift") and (scores["human"].notna().any() or not recorded):
            known = [name for name in ("human", "system", "log_perplexity", *single_columns(scores)) if name in scores]
            found = cell.items(keep=known)
            found["own"] = (found["system"] == at["own"]).astype(float)
            note = note_missing(scores["context_id"], ~has_value(scores), own, "who wrote the text")
            for adjusted, beside in _adjustments(found, "log_perplexity"):
                shift = self._slope(found, beside=beside)
                yield Part({"self_preference_shift": shift}, found, {**at, "adjusted": adjusted}, note)
        mass = {} if recorded else {"label_mass": label_mass(scores)}
        gap = {"own_score_gap": partial(texts.score_gap, scores, own, drawn)} if at["scale"] else {}
        yield Part({**gap, **mass}, _counts(scores), at)


def _adjustments(found: pd.DataFrame, column: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what is held equal beside human scores, in words and as columns: nothing, then perplexity if known."""
    yield "", []
    if column in found and found[column].notna().any():
        yield "log perplexity", ["log_perplexity"]


def _counts(trials: pd.DataFrame) -> tuple[int, int]:
    entering = int(has_value(trials).sum())
    return entering, len(trials) - entering


def _exploratory(part: Part) -> Part:
    """Return estimates without a test, since nobody said which system is the judge's own."""
    return replace(part, metrics={name: _without_test(made) for name, made in part.metrics.items()})


def _without_test(made: Estimable) -> Estimable:
    def found() -> Ratio | Estimate:
        estimate = made() if callable(made) else made
        if isinstance(estimate, Ratio):
            return estimate
        return texts.noted(replace(estimate, p_value=math.nan), _UNNAMED)

    return found
