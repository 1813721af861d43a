"""Self-preference: does a judge favour texts of its own system, at equal quality? (Panickssery et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Nearest
from biaslab.core.metrics import Comparison, Figure, Metric, planted
from biaslab.core.requests import Likelihood, Request
from biaslab.core.schema import Dataset
from biaslab.core.trials import Scalar, Trial
from biaslab.measures.scoring.pointwise import Item
from biaslab.probes.base import feature_probe
from biaslab.probes.base.comparisons import ordered_pairs
from biaslab.probes.base.feature_probe import WITH_BENDS, PairFeatureProbe, kept_columns, level_of, with_missing_scores
from biaslab.probes.base.probe import LABEL_MASS, Accepted, Cell, Estimable, Part, label_mass, mean_of, paired, scored
from biaslab.probes.base.questions import ScoreProbe
from biaslab.stats.blocks import each_cell, has_value, usable
from biaslab.stats.estimate import Estimate, Remark, because, undefined
from biaslab.stats.missing import note_missing
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model
from biaslab.stats.resample import Resampling

_WAYS = ("template", "configuration", "scale")
_LIKELIHOOD = "likelihood"
_NAMELESS = because("no_system", "no candidate has a system")
_ADJUSTED = "not tested: the test is that of the estimate at equal log perplexity"
_UNADJUSTED = "not told from a preference for familiar text: log perplexities are not known"
_UNNAMED = "not tested: own is not set, so each system is treated as the judge's own in turn"
_AT_EQUAL = ("self_preference_logit", "self_preference_shift")
_SYSTEMS = ("own", "another", "a third")


_UNCOMPARED = because("no_comparison_with_others", "no text of {system} compared with another's")


@dataclass(frozen=True)
class SelfPreference(PairFeatureProbe):
    """Self-preference: a preference for texts of the judge's own system, at equal human scores.

    Own texts that win or score higher are not evidence of bias: they may be better. Bias is what remains at equal human
    scores. Own texts are compared with others' in both orders, and all texts are scored, with the prompts of `Position`
    and `Verbosity`; with a store, they share replies. Further parameters, and the treatment of error in human scores:
    `biaslab.probes.base.PairFeatureProbe`. Quality that only the judge notices cannot be controlled for.

    Parameters
    ----------
    own : str, optional
        The system of the data set that is the judge itself, or a model of its family. Without it, every system is
        treated as the judge's own in turn, which shows whom the judge favours; nothing is tested.
    asks : sequence of {"pairs", "scores"}
        Compare own texts with others' in both orders, score all texts, or both; evaluators support only one of them.
    perplexity : bool
        Also ask the judge for the likelihood of each text, and estimate at equal perplexity too.
    level : {"context", "dataset"}, optional
        Compare the scores of texts of the same context, or of all. Default: within contexts, but across contexts if at
        most a tenth of them have several candidates. The column ``level`` of the shift states it.

    Raises
    ------
    InputError
        If a value is out of range, or the data set has no text of ``own``; the message lists its systems.

    Notes
    -----
    A trial's ``value`` is the probability that the candidate shown first wins, or a score; with ``asked="likelihood"``
    the log perplexity of the candidate. There is one estimate for each judge × data set × attribute × ``own`` system:

    - ``self_preference_logit`` — log odds that the own text wins at equal human score. Null 0; above: the judge prefers
      its own; .2 logits turn an even chance into .55. Primary. Regression of logit P(own wins) on the difference of
      human scores and on position, over pairs judged in both orders (in logs, over all judgements): least squares for
      exact probabilities; logistic for verdicts and for shares of samples, whose log odds are attenuated by noise.
    - ``self_preference_shift`` — standard deviations by which own texts score higher at equal human score. Null 0;
      above: the judge prefers its own. Primary. Regression of score on own, human score and, within contexts, an
      intercept for each.
    - ``own_win_excess`` — probability that the own text wins, minus the share of pairs in which humans prefer it. −1 to
      1, null 0. If own texts are better or worse, noise alone moves it away from 0; prefer the logit.
    - ``own_win_rate`` — mean probability that the own text wins, ties counting ½; also by the other ``system``. 0–1, no
      test: it depends on the texts as much as on the judge.
    - ``own_score_gap`` — mean score of a context's own texts minus that of the others, in points of the scale. No test.
    - ``label_mass`` — total probability of all labels. 0–1.

    **Perplexity.** With perplexities (``perplexity=True``, or columns ``log_perplexity`` and
    ``opponent_log_perplexity`` in a log) both primary metrics are also given ``adjusted`` for "log perplexity", and
    only these are tested: a judge that favours familiar text favours its own, which is familiar (Wataoka et al. 2024).
    Without perplexities ``note`` says that the two are not told apart.

    **Inference.** Primary metrics: Student's t over contexts with a cluster jackknife. Verdicts and shares of samples
    are corrected for error in human scores by regression calibration; with one rating per item, interval and test hold
    for every reliability from .3 to 1.

    **Missing judgements.** The shift, the excess, the rate, the gap, and the logit of verdicts have ``bound_low`` and
    ``bound_high``, which hold whatever the missing values are; a shift that missing scores could explain has a tipping
    point in its ``note``. Log odds of exact probabilities have no bounds.

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

    name = "self_preference"
    feature = "own"
    conditions = (*_WAYS, "own", "adjusted", "system", "level")
    columns = (*ScoreProbe.columns, "opponent_id", "replicate", "system", "own", "label_mass")
    needs = "texts of the judge's own system (column judge_system if it differs from the judge's name)"
    metrics = (
        Metric(
            "self_preference_logit",
            "wins of own texts at equal reference score",
            "logits",
            null=0.0,
            above="prefers its own system's texts at equal reference score",
            below="prefers other systems' texts at equal reference score",
            advice="let a judge of another family judge texts of this system",
            use="comparing its own system's texts with others",
            matters=0.2,
            primary=True,
            form="pair",
            calibration=planted(
                {"self_preference": 0.3},
                {"own": "own", "asks": ("pairs",), "reliability": 1.0},
                systems=_SYSTEMS,
                conservative=("text", "sampled:3"),  # with few verdicts from 8 contexts, separation is frequent
            ),
        ),
        Metric(
            "self_preference_shift",
            "score of own texts at equal reference score",
            "SD",
            null=0.0,
            above="scores its own system's texts higher at equal reference score",
            below="scores its own system's texts lower at equal reference score",
            advice="let a judge of another family judge texts of this system",
            use="comparing its own system's texts with others",
            matters=0.2,
            primary=True,
            form="score",
            calibration=planted(
                {"self_preference": 0.65},
                {"own": "own", "asks": ("scores",), "reliability": 1.0},
                systems=_SYSTEMS,
                conservative=WITH_BENDS,
            ),
        ),
        Metric(
            "own_win_excess",
            "wins of own texts, minus how often the reference prefers them",
            "share",
            null=0.0,
            above="prefers its own system's texts more than the reference does",
            below="prefers its own system's texts less than the reference does",
            advice="use a judge of another family for texts of this system",
            matters=0.05,
            comparison=Comparison("verdicts on pairs with an own text"),
            form="pair",
        ),
        Metric("own_win_rate", "wins of own texts", "share", form="pair"),
        Metric("own_score_gap", "score gap between own texts and others", "points", form="score"),
        LABEL_MASS,
    )
    figures = (
        Figure("at_equal_quality", _AT_EQUAL, by=("own", "attribute"), hue="adjusted", col="metric"),
        Figure("wins", "own_win_rate", by="system", hue="attribute"),
    )

    own: str | None = None
    asks: Sequence[Literal["pairs", "scores"]] = field(default=("pairs", "scores"), kw_only=True)
    perplexity: bool = field(default=False, kw_only=True)
    level: Literal["context", "dataset"] | None = field(default=None, kw_only=True)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the pairs of an own text and another's in both orders, and each text's score."""
        systems = [name for name in dict.fromkeys(dataset.candidates["system"]) if name]
        if self.own is not None:
            if not systems:
                allowed = "None, because no candidate has a system"
                raise InputError("own", self.own, allowed, "name who wrote each text in the column system")
            require_one_of("own", self.own, systems)
        if "pairs" in self.asks:
            yield from ordered_pairs(self, dataset, self._columns, self._is_planned)
        for question, ratings in self._rated_questions(dataset) if "scores" in self.asks else ():
            condition = {"asked": "score", **self._columns(question.item, question.attribute, ratings)}
            yield from question.trials(self.asking, condition)
        for question, ratings in self._rated_questions(dataset) if self.perplexity else ():
            condition = {"asked": _LIKELIHOOD, **self._columns(question.item, question.attribute, ratings)}
            yield self._likelihood_trial(question, question.item.text, condition)

    def _is_planned(self, one: Item, two: Item) -> bool:
        """Return whether exactly one of two texts is the judge's own."""
        return one.system != two.system and self.own in (None, one.system, two.system)

    def _columns(self, item: Item, attribute: str, ratings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Return the columns of a text: the judge's own system, its writer, and human scores."""
        return {"own": self.own or "", "system": item.system, "human": item.human[attribute], **ratings}

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: no perplexities, text instead of label probabilities, then numbers."""
        if isinstance(refused, Likelihood):
            return Nearest(replace(self, perplexity=False), "leaves out the perplexity of the texts")
        return super().nearest(refused)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each form and own system."""
        columns = (*_WAYS, "own")
        trials = feature_probe.add_perplexities(cell.trials, _LIKELIHOOD)
        trials = trials.assign(**{name: feature_probe.column_or_blank(trials, name) for name in columns})
        for values, part in each_cell(trials, columns):
            where = dict(zip(columns, values, strict=True))
            own_cell, own = replace(cell, trials=part), str(where["own"])
            are_pairs = bool((feature_probe.column_or_blank(part, "opponent_id") != "").any())
            systems = [own] if own else systems_of(part)
            for system in systems:
                at = {**where, "own": system, "adjusted": "", "system": ""}
                for part_ in (self._of_pairs if are_pairs else self._of_scores)(own_cell, at):
                    metrics = part_.metrics.items()
                    untested = {name: partial(_without_test, metric, _UNNAMED) for name, metric in metrics}
                    yield part_ if own else replace(part_, metrics=untested)  # nobody is named as the judge's own
            if not systems:
                metric = "self_preference_logit" if are_pairs else "self_preference_shift"
                yield Part({metric: undefined(_NAMELESS)}, (0, len(part)), {**where, "adjusted": "", "system": ""})

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements that involve a text of the judge's own system."""
        named = with_writers(trials)
        pairs, scores = paired(named), scored(named)
        one_own = pairs[(pairs["system"] == pairs["own"]) != (pairs["opponent_system"] == pairs["own"])]
        comparable = [one_own]
        for _, part in each_cell(scores, (*self.cell, "configuration")):
            own = part["system"] == part["own"]
            group = part["context_id" if level_of(part, self.level) == "context" else "judge"]
            comparable.append(part[own.groupby(group).transform("any")])
        return self._accepted(pd.concat(comparable))

    def _of_pairs(self, cell: Cell, at: Mapping[str, Any]) -> Iterator[Part]:
        """Yield the metrics of pairs for one system."""
        judged, resampling = from_own_side(cell.trials, at["own"]), cell.resampling
        if judged.empty:
            nothing = undefined(_UNCOMPARED.with_values(system=str(at["own"])))
            yield Part({"self_preference_logit": nothing}, (0, 0), at)
            return
        recorded, rated = feature_probe.is_recorded(judged), judged[judged["gap"].notna()]
        if len(rated) or not recorded:
            adjustments = _adjustments(rated, "log_perplexity_here")
            each = [({**at, "adjusted": named}, [*terms, "own"]) for named, terms in adjustments]
            for part in self._at_equal_quality(cell, "self_preference_logit", rated, each):
                yield _of_adjusted(part, len(adjustments))
            yield Part({"own_win_excess": partial(feature_probe.win_excess, rated)}, rated, at)
        mass = {} if recorded else {"label_mass": label_mass(judged)}
        yield Part({"own_win_rate": partial(win_rate, judged, resampling), **mass}, judged, at)
        others = list(dict.fromkeys(judged["other"]))
        for other in others if len(others) > 1 and cell.everything and judged["own"].iloc[0] else ():
            against = judged[judged["other"] == other]
            rate = partial(win_rate, against, resampling)
            yield Part({"own_win_rate": rate}, against, {**at, "system": str(other)})

    def _of_scores(self, cell: Cell, at: Mapping[str, Any]) -> Iterator[Part]:
        """Yield the metrics of scores for one system."""
        scores, own, recorded = cell.trials, cell.trials["system"] == at["own"], feature_probe.is_recorded(cell.trials)
        if cell.wants("self_preference_shift") and (scores["human"].notna().any() or not recorded):
            columns = ("human", "system", "log_perplexity", *kept_columns(scores))
            keep = [name for name in columns if name in scores]
            everything = replace(cell, trials=with_missing_scores(scores))
            items = (part.items(keep) for part in (cell, everything))
            rated, planned = (each.assign(own=(each["system"] == at["own"]).astype(float)) for each in items)
            notes = note_missing(scores["context_id"], ~has_value(scores), own, "who wrote the text")
            level = level_of(planned, self.level)
            adjustments = _adjustments(rated, "log_perplexity")
            for adjusted, covariates in adjustments:
                shift = self._slope(rated, level == "context", covariates, planned)
                where = {**at, "adjusted": adjusted, "level": level}
                yield _of_adjusted(Part({"self_preference_shift": shift}, rated, where, notes), len(adjustments))
        mass = {} if recorded else {"label_mass": label_mass(scores)}
        width = feature_probe.width_of(at["scale"])
        gap = {"own_score_gap": partial(score_gap, scores, own, width, cell.resampling)} if at["scale"] else {}
        yield Part({**gap, **mass}, scores, at)


def _adjustments(judged: pd.DataFrame, column: str) -> list[tuple[str, list[str]]]:
    """Return the additional covariates, as words and columns: none, then perplexity if known."""
    known = column in judged and judged[column].notna().any()
    return [("", []), *([("log perplexity", ["log_perplexity"])] if known else [])]


def _of_adjusted(part: Part, adjustments: int) -> Part:
    """Leave the test to the estimate at equal perplexity, if there is one; else note that perplexity is not known."""
    if part.condition["adjusted"]:
        return part
    noted = partial(_without_test, why=_ADJUSTED) if adjustments > 1 else partial(_computed, why=_UNADJUSTED)
    return replace(part, metrics={name: partial(noted, metric) for name, metric in part.metrics.items()})


def _without_test(metric: Estimable, why: Remark) -> Ratio | Estimate:
    computed = _computed(metric, why)
    return computed if isinstance(computed, Ratio) else replace(computed, p_value=math.nan)


def _computed(metric: Estimable, why: Remark) -> Ratio | Estimate:
    """Return a metric, with a note if it is an estimate."""
    computed = metric() if callable(metric) else metric
    return computed if isinstance(computed, Ratio) else computed.noted(why)


_MAY_BE_BETTER = "own texts may be better or worse; compare with human judgements of the same texts"


def from_own_side(trials: pd.DataFrame, own: str) -> pd.DataFrame:
    """Return the comparisons of an own text with another's, from the side of the own text.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pairs, with ``system`` and ``opponent_system``.
    own : str
        The judge's own system.

    Returns
    -------
    pandas.DataFrame
        As from `biaslab.probes.base.feature_probe.seen_from`, with ``other``, the other system.
    """
    ahead = trials["system"] == own
    judged = trials[ahead != (trials["opponent_system"] == own)]
    first = ahead[judged.index]
    seen = feature_probe.seen_from(judged, first)
    return seen.assign(other=judged["opponent_system"].where(first, judged["system"]), own_here=1.0, own_there=0.0)


def win_rate(judged: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the mean probability that the own text wins."""
    read = usable(judged)
    rate = mean_of(read, read["won"], None, (0.0, 1.0), inference="score")
    return rate.with_missing(rate.estimate(resampling), len(read), len(judged) - len(read)).noted(_MAY_BE_BETTER)


def score_gap(scores: pd.DataFrame, own: pd.Series, width: float, resampling: Resampling) -> Estimate:
    """Return the mean score of own texts minus that of others, over contexts with both or, if there are none, over all.

    Parameters
    ----------
    scores : pandas.DataFrame
        Score trials.
    own : pandas.Series of bool
        Whether a text is the judge's own.
    width : float
        Width of the scale, in points; infinite if unbounded.
    resampling : Resampling
        Level and resampling of the estimate.
    """
    read = usable(scores)
    sides = {side: part.groupby("context_id")["value"].mean() for side, part in read.groupby(own[read.index])}
    if len(sides) < 2:
        return undefined(because("no_own_and_other_texts", "no context with scores of own texts and of others"))
    gap = (sides[True] - sides[False]).dropna()
    if gap.empty:
        items = read.assign(own=own[read.index].astype(float))
        fit = linear_model(items, "value ~ own", level=resampling.level, clusters=resampling.clusters)
        return replace(fit["own"], p_value=math.nan).noted(_MAY_BE_BETTER)
    ratio = Ratio(gap.index, gap, np.ones(len(gap)), bounds=(-width, width) if np.isfinite(width) else None)
    estimate = ratio.with_missing(ratio.estimate(resampling), len(read), len(scores) - len(read))
    return estimate.noted(_MAY_BE_BETTER)


def systems_of(trials: pd.DataFrame) -> list[str]:
    """Return the named systems, in order of appearance."""
    named = [trials[name].dropna() for name in ("system", "opponent_system") if name in trials]
    return [str(name) for name in pd.unique(pd.concat(named)) if name]


def with_writers(trials: pd.DataFrame) -> pd.DataFrame:
    """Name the writers of recorded texts: candidates are systems, and the judge's own has the judge's name.

    The judge's own system is ``judge_system`` or the judge's name, ignoring case.
    """
    named = trials["judge_system"].where(_folded(trials["judge_system"]) != "", trials["judge"])
    own, name = _folded(named), named.astype(object).str.strip()
    sides = {}
    for column, who in (("system", "candidate_id"), ("opponent_system", "opponent_id")):
        written = (_folded(trials[who]) == own) & (own != "")
        sides[column] = trials[who].astype(object).where(~written, name)
    return trials.assign(own=name, **sides)


def _folded(names: pd.Series) -> pd.Series:
    """Return names in lower case without surrounding spaces; "" if missing."""
    folded = {name: str(name).strip().casefold() for name in names.dropna().unique()}
    return names.astype(object).map(folded).astype(object).fillna("")
