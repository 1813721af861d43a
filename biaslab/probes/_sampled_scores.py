"""Scores that are sampled several times and asked for in several ways, for `biaslab.probes.Consistency`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from os import PathLike

import numpy as np
import pandas as pd

from biaslab.core import Reply, Scalar, Status, Trial
from biaslab.core.scales import find_scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Answer, Asking, Item, Question, drawn_items, single_ratings
from biaslab.probes.base import Cell, Estimable, Part, Probe, label_mass
from biaslab.probes.base.answers import ONE_SAMPLE
from biaslab.probes.base.own_protocol import protocol_column, question_of
from biaslab.probes.base.score_probe import random_number
from biaslab.prompts.protocols import Protocol
from biaslab.stats import (
    ITEM,
    Estimate,
    Measurement,
    alpha_difference,
    estimate_alpha,
    number_items,
    of_items,
    undefined,
    usable,
)

_NO_SAMPLE = "undefined: no readable score"
_UNIT = ("candidate_id", "unit")


@dataclass(frozen=True)
class SampledScores(Probe):
    """Base of `biaslab.probes.Consistency`, which documents the parameters: everything about scores."""

    scales: Sequence[str] = ("1-5", "1-10", "1-100")
    joint: bool = True
    levels: Sequence[Measurement] = ("interval", "ordinal")
    n_candidates: int | None = None
    answer: Answer = "distribution"
    replicates: int = 5
    temperature: float = 1.0
    max_tokens: int = 12
    protocol: Protocol | str | PathLike[str] | None = field(default=None, kw_only=True)

    @property
    def _asking(self) -> Asking:
        replicates = self.replicates if self.answer == "text" else 1
        return Asking(self.answer, replicates, self.temperature, self.max_tokens, self.seed)

    def _scores(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every sample of every score."""
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
            metrics: dict[str, Estimable] = {"sample_alpha": few or _alpha(cell, level, samples)}
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
            metrics: dict[str, Estimable] = {
                "configuration_alpha": _alpha(cell, level, across),
                "configuration_gap": few or _alpha_gap(cell, level, across, floor, one_scale),
            }
            yield Part(metrics, items, {"configuration": f"{reference} vs {name}", "level": level})

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
