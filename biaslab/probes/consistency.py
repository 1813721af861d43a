"""Consistency: do samples and prompts agree as well as human annotators? (Stureborg et al. 2024, §3.4, App. E)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from typing import Any, get_args

import numpy as np
import pandas as pd

from biaslab.core.checks import require_some_of, require_whole
from biaslab.core.metrics import Comparison, Figure, Metric, planted
from biaslab.core.output import AnyPath
from biaslab.core.requests import Choice
from biaslab.core.scales import SCALES, find_scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.ranking.pairs import ORDERS, Verdicts, in_two_orders
from biaslab.measures.scoring.pointwise import AnswerSettings, Item, Question, ScoreAnswer, drawn_items, single_ratings
from biaslab.probes.base import comparisons
from biaslab.probes.base.answers import ONE_SAMPLE, sample_count
from biaslab.probes.base.comparisons import PairOrScoreProbe, at_temperature, comparing, pair_trials
from biaslab.probes.base.probe import LABEL_MASS, Accepted, Cell, Estimable, Metrics, Part, label_mass, scored, settle
from biaslab.probes.base.questions import draw_score, protocol_column, question_of, random_number, read_reply
from biaslab.prompts.protocols import Protocol
from biaslab.stats.blocks import CELL, ITEM, number_items, of_items, usable
from biaslab.stats.estimate import Estimate, because, undefined
from biaslab.stats.reliability import Measurement, alpha_difference, estimate_alpha

_NO_SAMPLE = because("no_readable_score", "no readable score")
_UNIT = ("candidate_id", "unit")


_ONE: dict[str, Any] = {"attributes": ("coherence",), "scales": ("1-5",), "levels": ("interval",)}
_THREE_SAMPLES = _ONE | {"replicates": 3, "joint": False}
_FAIR: dict[str, Scalar] = {"quality": 1.0, "context_noise": 0.3}
_SAMPLES = Comparison("samples of one request", ("level", "answer"))
_OF_PAIRS = Comparison("verdicts on pairs")
_BY_PAIR: dict[str, Any] = {"null": 0.0, "form": "pair", "comparison": _OF_PAIRS}
_ALPHA = "Krippendorff's α"
_PAIRS, _OF_A_PAIR = "pairs", ("pair_alpha", "order_alpha", "order_gap")
_DEGREES = because("one_probability", 'a single probability cannot represent ties or degrees; use answer="text"')
_READ = ("configuration", "scale", "ratings", "replicate", "value", "status", "label_mass")
_HOTTER = because("other_temperature", 'samples were counted at temperature 1, not at another one; use answer="text"')
_MANY_CONTEXTS = 3000  # above this, ordinal alpha is too slow: its time is quadratic in the contexts


@dataclass(frozen=True)
class Consistency(PairOrScoreProbe):
    """Self-consistency: agreement between samples and between prompts, compared with that between annotators.

    Every score is sampled several times and asked for with several prompts. Further parameters:
    `biaslab.probes.base.Probe`.

    Parameters
    ----------
    scales : sequence of str
        Scales from `biaslab.core.scales.SCALES`; the first is the reference.
    joint : bool
        Also ask for all attributes of the data set in one output, on the reference scale, if there are at least two.
    levels : sequence of {"interval", "ordinal", "nominal"}
        Levels of measurement of alpha.
    n_candidates : int, optional
        Candidates per context, drawn at random; default: all.
    asks : sequence of {"pairs", "scores"}
        Score single candidates, compare all pairs in both orders, or both; a protocol's form overrides this.
    answer : {"distribution", "text"}
        Draw samples from the exact label distribution (one request for all samples), or generate texts.
    replicates : int
        Samples of each request, at least 2.
    temperature : float
        Temperature of the samples; distributions are rescaled to it, p_T ∝ p^(1/T). At 0 all samples are equal, unless
        labels tie.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer, per score in it.
    protocol : Protocol or path, optional
        Prompt and parser, for pairs or for scores on its own scale, to use instead of biaslab's own; see
        `biaslab.Protocol`. Its temperature is used unless it is 0, at which samples do not vary.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial is one sampled score in one ``configuration``: a scale, or the reference scale followed by " joint". With
    ``answer="distribution"``, samples are drawn by inverting the distribution at a random number that depends on the
    seed, the request and the replicate, and the attribute comes first in a joint output. With text, attributes keep the
    data set's order. A judge that counts k samples (`biaslab.Sampled`) gives these, in random order and each once, at
    its own temperature only.

    Estimates are Krippendorff's α at a ``level`` of measurement (1: perfect agreement, 0: chance), one for each judge ×
    data set × attribute × answer. Scores of different scales are put on the unit scale. ``configuration`` is one
    configuration or "A vs B":

    - ``sample_alpha`` — α between samples of one request. −1 to 1.
    - ``human_alpha`` — α between the human annotators of the same items (reference). −1 to 1; undefined with one
      annotator.
    - ``alpha_gap`` — ``sample_alpha`` minus ``human_alpha`` (reference). −2 to 2, null 0; below: the judge agrees less
      with itself than annotators with one another. Primary. Table 4.
    - ``configuration_alpha`` — α between one sample of each of two configurations (reference against another). −1 to 1.
      App. E.
    - ``configuration_gap`` — ``configuration_alpha`` minus its noise floor, α between two samples of one configuration
      with the chance disagreement of both pooled: the effect of changing the prompt beyond resampling. −2 to 2, null 0;
      below: the prompt matters. Primary. Two scales round differently, which alone shifts it, so it is tested only if
      both have the same scale.
    - ``label_mass`` — total probability of all labels. 0–1.

    **Pairs** (``configuration`` "pairs", ``level`` "nominal"): the winner, with ties as a third outcome, by comparative
    template 1. Chance agreement treats both candidates of a pair alike. With distributions, results are exact (the
    limit of infinitely many samples), unless ties or degrees are offered, which one probability cannot represent:

    - ``pair_alpha`` — α between samples of one pair in one order. −1 to 1; 1 for a judge that always chooses the first.
    - ``order_alpha`` — α between one sample of each order. −1 to 1; −1 for that judge.
    - ``order_gap`` — ``order_alpha`` minus its noise floor ``pair_alpha``: the effect of swapping the candidates beyond
      resampling. −2 to 2, null 0; below: the order matters, even if its effects cancel over pairs, which
      ``first_position_rate`` of `Position` does not detect. t test with samples; with exact probabilities it is never
      above 0 (minus twice the mean squared change by swapping), so there is no test. The underlying shares of pairs are
      ``order_consistency`` and ``resampling_consistency`` of `Position`.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> probe = Consistency(attributes=["coherence"], scales=["1-5"], levels=["interval"])
    >>> estimates = probe.estimate(bl.collect(probe, bl.SimulatedJudge(data), data, progress=False))
    >>> alphas = estimates[estimates["metric"] == "sample_alpha"]
    >>> alphas[["configuration", "estimate"]].round(1).to_numpy().tolist()
    [['1-5', 0.9], ['1-5 joint', 0.8]]
    """

    name = "consistency"
    cell = ("judge", "dataset", "attribute", "answer")
    conditions = ("configuration", "level")
    columns = (*ITEM, *_READ)
    protocol_forms = ("pair", "score")
    needs = "scores on a scale"
    metrics = (
        Metric("sample_alpha", "agreement between samples", _ALPHA, null=0.0, form="score", comparison=_SAMPLES),
        Metric("human_alpha", "agreement between annotators", _ALPHA, null=0.0, form="score"),
        Metric(
            "alpha_gap",
            "agreement between samples minus between annotators",
            _ALPHA,
            null=0.0,
            above="agrees with itself more than annotators with one another",
            below="agrees with itself less than annotators with one another",
            advice=("", "average several samples, or read the label distribution"),
            use=("", "scores of a single sample"),
            matters=0.1,
            form="score",
            primary=True,
            calibration=planted({"sharpness": 4.0}, _THREE_SAMPLES, fair=_FAIR | {"sharpness": 5.12}, attributes=2),
        ),
        Metric("configuration_alpha", "agreement between ways to ask", _ALPHA, null=0.0, form="score"),
        Metric(
            "configuration_gap",
            "agreement between ways to ask minus between samples",
            _ALPHA,
            null=0.0,
            above="agrees more across ways to ask than within one",
            below="answers differently with a different prompt",
            advice=("", "fix one prompt, and report it"),
            use=("", "comparing scores across prompts"),
            matters=0.1,
            form="score",
            primary=True,
            calibration=planted(
                {"noise": 0.6}, _ONE | {"replicates": 4}, fair=_FAIR | {"sharpness": 4.0}, attributes=2
            ),
        ),
        Metric("pair_alpha", "agreement between samples of a pair", _ALPHA, **_BY_PAIR),
        Metric("order_alpha", "agreement between both orders of a pair", _ALPHA, **_BY_PAIR),
        Metric(
            "order_gap",
            "agreement between both orders minus between samples",
            _ALPHA,
            above="agrees more across orders than within one",
            below="decides differently when candidates swap places",
            advice=("", "ask every pair in both orders and average"),
            matters=0.1,
            **_BY_PAIR,
        ),
        LABEL_MASS,
    )
    figures = (Figure("pairs", _OF_A_PAIR, by="attribute", where={"configuration": "pairs"}),)

    scales: Sequence[str] = ("1-5", "1-10", "1-100")
    joint: bool = True
    levels: Sequence[Measurement] = ("interval", "ordinal")
    n_candidates: int | None = None
    answer: ScoreAnswer = "distribution"
    replicates: int = 5
    temperature: float = 1.0
    max_tokens: int = 12
    protocol: Protocol | AnyPath | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol is None:
            require_some_of("scales", self.scales, tuple(SCALES))
        require_whole("replicates", self.replicates, 2)
        require_whole("n_candidates", self.n_candidates, 2 if "pairs" in self.asks else 1, optional=True)
        _ = self._asking

    def take_protocol(self) -> None:
        """Adopt the protocol's settings, except for a temperature of 0, at which samples do not vary."""
        temperature, joint = self.temperature, self.joint and self.protocol is None
        super().take_protocol()
        settle(self, {"temperature": self.temperature or temperature, "joint": joint})

    def plan_pairs(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan all samples of each drawn pair in both orders."""
        where = {"configuration": _PAIRS, "ratings": ""}
        return pair_trials(comparing(self), dataset, where, self.n_candidates)

    @property
    def _asking(self) -> AnswerSettings:
        replicates = self.replicates if self.answer == "text" else 1
        return AnswerSettings(self.answer, replicates, self.temperature, self.max_tokens, self.seed)

    def plan_scores(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan all samples of each item, attribute and configuration."""
        attributes, ratings = dataset.require_attributes(self.attributes), single_ratings(dataset, repr)
        for item, attribute in product(drawn_items(dataset, self.n_candidates, self.seed), attributes):
            condition: dict[str, Scalar] = {"ratings": ratings.get((item.context_id, item.candidate_id, attribute), "")}
            condition |= protocol_column(self.protocol)
            for name in self.scales:
                question = question_of(self.protocol, dataset, item, attribute, scale_named(name), self.attributes)
                yield from self._samples(question, {"configuration": name, **condition})
            if self.joint and len(dataset.attributes) > 1:
                where = {"configuration": f"{self.scales[0]} joint", **condition}
                yield from self._samples(self._in_one_output(dataset, item, attribute), where)

    def _in_one_output(self, dataset: Dataset, item: Item, attribute: str) -> Question:
        """Return the question for all attributes at once; with distributions, the attribute comes first."""
        scale, everything = find_scale(self.scales[0]), tuple(dataset.attributes)
        if self.answer == "text":
            return replace(Question.rate(dataset, item, everything, scale), attribute=attribute)
        at = everything.index(attribute)
        return Question.rate(dataset, item, everything[at:] + everything[:at], scale).begun(attribute)

    def _samples(self, question: Question, where: Mapping[str, Scalar]) -> Iterator[Trial]:
        lines = len(question.about.attributes) if self.protocol is None else 1
        long = replace(self._asking, max_tokens=self.max_tokens * lines)
        for trial in question.trials(long, where):
            if self.answer == "text":
                yield trial
            else:
                yield from (replace(trial, replicate=k) for k in range(self.replicates))

    def _counted(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return one of the judge's counted samples, drawn without replacement; NaN once all are drawn."""
        scores, k = np.array(find_scale(str(trial.condition["scale"])).values), int(reply.samples or 0)
        counts = np.rint(np.exp(reply.logprobs or ()) * k).astype(int)
        order = np.random.default_rng(random_number(trial.request, f"consistency, seed {self.seed}")).permutation(k)
        samples = np.repeat(scores, counts)
        if self.temperature != 1 or trial.replicate >= k or order[trial.replicate] >= len(samples):
            return math.nan, "refused"
        return float(samples[order[trial.replicate]]), "ok"

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the sampled score on its scale, or the probability that the first of a pair wins, and the status."""
        value, status = super().read(trial, reply)
        cooled = trial.opponent_id is not None and isinstance(trial.request, Choice) and reply.samples is None
        return (float(at_temperature(value, self.temperature)) if cooled and 0 < value < 1 else value), status

    def read_score(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the sampled score on its scale, and the status."""
        if not isinstance(trial.request, Choice):
            return read_reply(self.protocol, trial, reply)
        if reply.samples is not None:
            return self._counted(trial, reply)
        use = f"consistency, seed {self.seed}, sample {trial.replicate}"
        return draw_score(trial, reply, self.temperature, use)

    def measure_scores(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each configuration, then of the reference against each other one."""
        k = sample_count(cell.trials)
        if k:
            cell = replace(cell, trials=cell.trials[cell.trials["replicate"] < k])
        for part in self._parts(cell):
            hotter = dict.fromkeys(part.metrics, undefined(_HOTTER)) if k and self.temperature != 1 else part.metrics
            yield replace(part, metrics=hotter)

    def measure_pairs(self, cell: Cell) -> Iterator[Part]:
        """Yield α between samples of a pair, between its two orders, and their difference."""
        exact, trials = comparisons.is_exact(cell.trials), in_two_orders(cell.trials)
        verdicts = Verdicts.of(trials, "order", ORDERS, exact, cell.named(_PAIRS))
        metrics: Metrics = {"label_mass": label_mass(cell.trials)}
        hotter = sample_count(cell.trials) and self.temperature != 1
        why = _HOTTER if hotter else _DEGREES if exact and comparisons.has_degrees(self.protocol) else None
        if why or cell.wants(*_OF_A_PAIR):
            alphas = [undefined(why)] * 3 if why else verdicts.alphas(cell.resampling)
            metrics |= zip(_OF_A_PAIR, alphas, strict=True)
        yield Part(metrics, verdicts.counts, {"configuration": _PAIRS, "level": "nominal"})

    def _parts(self, cell: Cell) -> Iterator[Part]:
        names, scores = cell.trials["configuration"].unique(), _unit_scores(cell.trials)
        for name in names:
            is_reference = name == names[0]
            if cell.wants("sample_alpha", "label_mass") or (is_reference and cell.wants("human_alpha", "alpha_gap")):
                yield from self._within(cell, scores, name, is_reference)
        for name in names[1:] if cell.wants("configuration_alpha", "configuration_gap") else ():
            yield from self._between(cell, scores, names[0], name)

    def _within(self, cell: Cell, scores: pd.DataFrame, name: str, is_reference: bool) -> Iterator[Part]:
        """Yield α between samples of one configuration; for the reference, also between annotators."""
        items = _items(cell, [name])
        samples = of_items(scores[scores["configuration"] == name], items)
        samples = samples.rename(columns={"configuration": "unit", "replicate": "annotator"})
        few = _too_few(samples, "unit")
        human = _ratings(cell.trials, items) if is_reference and cell.wants("human_alpha", "alpha_gap") else None
        for level in self.levels:
            metrics: Metrics = {"sample_alpha": few or _alpha(cell, level, samples)}
            if human is not None:
                metrics["human_alpha"] = _alpha(cell, level, human)
                metrics["alpha_gap"] = few or _alpha_gap(cell, level, samples, human)
            yield Part(metrics, items, {"configuration": name, "level": level})
        mass = label_mass(cell.trials[cell.trials["configuration"] == name])
        yield Part({"label_mass": mass}, items, {"configuration": name, "level": ""})

    def _between(self, cell: Cell, scores: pd.DataFrame, reference: str, name: str) -> Iterator[Part]:
        """Yield α between one sample of each configuration, and that minus α between two samples of one."""
        names = [reference, name]
        items = _items(cell, names)
        samples = of_items(scores[scores["configuration"].isin(names)], items)
        across = samples.rename(columns={"replicate": "unit", "configuration": "annotator"})
        floor = samples.rename(columns={"configuration": "unit", "replicate": "annotator"})
        few = _too_few(samples, "configuration")
        one_scale = len({*cell.trials.loc[cell.trials["configuration"].isin(names), "scale"]}) == 1
        for level in self.levels:
            metrics: Metrics = {
                "configuration_alpha": _alpha(cell, level, across),
                "configuration_gap": few or _alpha_gap(cell, level, across, floor, one_scale),
            }
            yield Part(metrics, items, {"configuration": f"{reference} vs {name}", "level": level})

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select scores with repetitions, several configurations or several annotators."""
        scores = scored(trials)
        if scores.empty:
            return self._accepted(scores)
        ways = scores.groupby(list(CELL))[["replicate", "configuration"]].nunique()
        if not (ways > 1).any(axis=None) and not scores["ratings"].str.contains(" ", regex=False).any():
            why = "needs repeated judgements, several configurations, or scores of several annotators"
            return Accepted(scores.iloc[:0], why)
        contexts = scores["context_id"].nunique()
        if contexts <= _MANY_CONTEXTS:
            return Accepted(scores, probe=replace(self, levels=get_args(Measurement)))
        why = f"ordinal alpha left out, because its computing time is quadratic in the {contexts:,} contexts"
        return Accepted(scores, why, replace(self, levels=("interval", "nominal")))


def _unit_scores(trials: pd.DataFrame) -> pd.DataFrame:
    """Return usable samples: ``context_id, candidate_id, configuration, replicate``, ``score`` on the unit scale."""
    read = usable(trials)
    score = read["value"].to_numpy(float).copy()
    for name, at in read.groupby("scale", sort=False).indices.items():
        score[at] = scale_named(str(name)).unit(score[at])  # type: ignore[arg-type]
    return read[[*ITEM, "configuration", "replicate"]].assign(score=score)


def _too_few(samples: pd.DataFrame, configuration: str) -> Estimate | None:
    """Return why samples of one request cannot be compared, if there are fewer than two."""
    if samples.duplicated([*ITEM, configuration]).any():
        return None
    return undefined(ONE_SAMPLE if len(samples) else _NO_SAMPLE, samples["context_id"].nunique())


def _items(cell: Cell, names: Sequence[str]) -> pd.DataFrame:
    """Return the items with samples in all of the named configurations."""
    return cell.blocks("configuration", names, keep=(), of=" and ".join(names))[list(ITEM)]


def _ratings(trials: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of the items' annotators, treated as exchangeable."""
    rated = of_items(trials.iloc[number_items(trials)[1]], items)
    scores = [text.split() if isinstance(text, str) else [] for text in rated["ratings"]]
    counts = [len(of_item) for of_item in scores]
    annotator = [number for count in counts for number in range(count)]
    rated = rated[list(ITEM)].iloc[np.repeat(np.arange(len(rated)), counts)].reset_index(drop=True)
    return rated.assign(score=np.array([*chain(*scores)], float), unit="", annotator=annotator)


def _alpha(cell: Cell, level: Measurement, scores: pd.DataFrame) -> Estimable:
    return partial(estimate_alpha, scores, cell.resampling, level, _UNIT)


def _alpha_gap(
    cell: Cell, level: Measurement, first: pd.DataFrame, second: pd.DataFrame, tested: bool = True
) -> Estimable:
    null = 0.0 if tested else None
    return partial(alpha_difference, first, second, cell.resampling, level, _UNIT, null=null, inference="t")
