"""Scores at several temperatures, with and without reasons, and their second step, for `biaslab.probes.Sweep`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.core import Completion, Message, Scalar, Trial
from biaslab.core.messages import as_messages
from biaslab.core.scales import find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Answer, Asking, Item, Question, about_scores, drawn_items
from biaslab.probes._swept_pairs import COT as _COT, PLAIN as _PLAIN
from biaslab.probes.base import Cell, Estimable, Part, Probe, label_mass
from biaslab.probes.base.answers import Answers, answer_alpha, name_seed, parse_rate, sample_count, token_count
from biaslab.stats import ITEM, Ratio, undefined

#: Columns of trials that identify an answer, and the column of its step: 1 or 2.
ANSWER, STEP = [*ITEM, "attribute", "cot", "temperature", "replicate"], "step"
_NONE = float("nan")  # one object, so that a design equals itself
_Setting = tuple[str, float]  # with or without CoT, and the temperature


@dataclass(frozen=True)
class SweptScores(Probe):
    """Base of `biaslab.probes.Sweep`, which documents the parameters: everything about scores."""

    scale: str = "1-10"
    temperatures: Sequence[float] = (0.0, 0.5, 1.0)
    cot: Sequence[bool] = (False, True)
    samples: int = 4
    answer: Answer = "distribution"
    max_tokens: int = 128
    n_candidates: int | None = None
    second_step: bool = False

    def _asking(self, temperature: float, cot: bool) -> Asking:
        replicates = self.samples if temperature else 1
        return Asking("text", replicates, temperature, self.max_tokens if cot else 16, self.seed)

    @property
    def keeps_replies(self) -> bool:
        """Whether trials keep the judge's text, which the second step needs."""
        return self.second_step

    def _scores(self, dataset: Dataset, trials: pd.DataFrame | None) -> Iterator[Trial]:
        """Plan each candidate's score or, given the trials so far, the missing ones."""
        cots, temperatures = self.cot, self.temperatures
        if trials is not None:
            yield from self._second_steps(dataset, trials)
            cots, temperatures = (False,), self._not_counted(trials)
        attributes = dataset.require_attributes(self.attributes)
        for item in drawn_items(dataset, self.n_candidates, self.seed) if temperatures else ():
            for attribute, cot in product(attributes, cots):
                as_text = trials is not None or cot or self.answer == "text"
                yield from self._score(dataset, item, attribute, cot, temperatures if as_text else ())

    def _second_steps(self, dataset: Dataset, trials: pd.DataFrame) -> Iterator[Trial]:
        """Plan the second-step question after each reply with reasons only."""
        waiting = _without_score(trials)
        if waiting.empty:
            return
        as_text = self.answer == "text" or sample_count(trials[trials["cot"] == _PLAIN]) > 0
        drawn = drawn_items(dataset, self.n_candidates, self.seed)
        by_item = {(item.context_id, item.candidate_id): item for item in drawn}
        for row in waiting.itertuples():
            item = by_item.get((row.context_id, row.candidate_id))  # type: ignore[arg-type]
            if item is None:
                continue
            question = _ask_again(self._question(dataset, item, str(row.attribute), True), str(row.reply))
            temperature, replicate = float(row.temperature), int(row.replicate)  # type: ignore[arg-type]
            where: dict[str, Scalar] = {"cot": _COT, "temperature": temperature, "label": _NONE, STEP: 2.0}
            asking = replace(self._asking(temperature, False), replicates=1) if as_text else Asking()
            [trial] = question.trials(asking, where)
            request = trial.request
            if isinstance(request, Completion):  # equal reasons need two separate texts
                request = replace(request, replicate=replicate)
            yield replace(trial, request=request, replicate=replicate)

    def _not_counted(self, trials: pd.DataFrame) -> list[float]:
        """Return the temperatures still to be asked without reasons."""
        plain = trials[trials["cot"] == _PLAIN]
        asked = plain["temperature"].notna().any()
        return [t for t in self.temperatures if t != 1] if sample_count(plain) and not asked else []

    def _score(
        self, dataset: Dataset, item: Item, attribute: str, cot: bool, temperatures: Sequence[float]
    ) -> Iterator[Trial]:
        """Plan texts at the temperatures or, without any, the label distribution."""
        question = self._question(dataset, item, attribute, cot)
        condition: dict[str, Scalar] = {"cot": _COT if cot else _PLAIN, "temperature": _NONE}
        if not temperatures:
            yield from question.label_trials(condition)
            return
        question = replace(question, labels=(attribute,))
        for temperature in temperatures:
            where = {**condition, "temperature": float(temperature), "label": _NONE}
            where |= {STEP: 1.0} if cot and self.second_step else {}
            yield from question.trials(self._asking(temperature, cot), where)

    def _question(self, dataset: Dataset, item: Item, attribute: str, cot: bool) -> Question:
        scale = find_scale(self.scale)
        return Question.rate(dataset, item, [attribute], scale, reasons="before" if cot else "none")

    def _measure_scores(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each setting and number of samples, then the differences between settings."""
        by_setting: dict[_Setting, Answers] = {}
        for (cot, temperature), answers, asked in self._settings(cell):
            by_setting[cot, temperature] = answers
            setting = {"cot": cot, "temperature": temperature}
            yield Part(self._of_setting(answers, asked, temperature), answers.counts, setting)
            for n in self._sizes(answers):
                paid = n if answers.samples is not None and temperature > 0 else 1
                metrics = {
                    "tokens": partial(token_count, answered(asked), paid),
                    "agreement": partial(self._agreement, cell, answers, n),
                }
                yield Part(metrics, answers.counts, {**setting, "samples": float(n)})
        yield from self._shifts(cell, by_setting)

    def _sizes(self, answers: Answers) -> list[int]:
        """Return the numbers of samples to average: 1, 2, 4 ... and all."""
        most = len(answers.samples) if answers.counted and answers.samples is not None else self.samples
        most = min(most, self.samples)
        return sorted({2**power for power in range(most.bit_length())} | {most})

    def _settings(self, cell: Cell) -> Iterator[tuple[_Setting, Answers, pd.DataFrame]]:
        """Yield the answers and trials of each setting; a distribution serves all temperatures."""
        for cot, part in cell.trials.groupby("cot", sort=False):
            for temperature, asked in part.groupby("temperature", dropna=False, sort=True):
                answers = Answers.of(answered(asked), find_scale(str(cell.where["scale"])))
                if answers.chances is None:
                    at = 1.0 if answers.counted else float(temperature)  # type: ignore[arg-type]
                    if at in self.temperatures:
                        answers.warn(cell, f"{cot}, temperature {at:g}")
                        yield (str(cot), at), answers, asked
                    continue
                answers.warn(cell, str(cot))
                for at in sorted(map(float, self.temperatures)):
                    yield (str(cot), at), answers.at_temperature(at), asked

    def _of_setting(self, answers: Answers, asked: pd.DataFrame, temperature: float) -> dict[str, Estimable]:
        """Return the metrics that do not depend on the number of samples averaged."""
        metrics: dict[str, Estimable] = {
            "alpha": partial(answer_alpha, answers, self.resampling, greedy=temperature == 0),
            "parse_rate": partial(parse_rate, _first_step(asked)),
        }
        if (answers.chances is not None or answers.counted) and temperature == 1:
            metrics["label_mass"] = lambda: label_mass(asked.drop_duplicates(list(ITEM)))
        return metrics

    def _shifts(self, cell: Cell, answers: Mapping[_Setting, Answers]) -> Iterator[Part]:
        """Yield the effect of reasons at each temperature, and of temperature with and without reasons."""
        first, last = float(min(self.temperatures)), float(max(self.temperatures))
        if cell.wants("cot_shift"):
            for t in map(float, self.temperatures):
                one, two = answers.get((_COT, t)), answers.get((_PLAIN, t))
                yield self._shift(cell, "cot_shift", one, two, {"cot": f"{_COT} - {_PLAIN}", "temperature": t})
        if cell.wants("temperature_shift"):
            asked = {cot for cot, _ in answers}
            for cot in (name for name in (_PLAIN, _COT) if name in asked):
                one, two = answers.get((cot, last)), answers.get((cot, first)) if first < last else None
                yield self._shift(cell, "temperature_shift", one, two, {"cot": cot, "temperature": np.nan})

    def _shift(
        self, cell: Cell, metric: str, one: Answers | None, two: Answers | None, setting: Mapping[str, str | float]
    ) -> Part:
        """Return the agreement of the first minus that of the second, over their common items."""
        sizes = [self._sizes(answers)[-1] for answers in (one, two) if answers is not None]
        n = min(sizes, default=self.samples)
        at = {**setting, "samples": float(n)}
        if one is None or two is None:
            return Part({metric: undefined("undefined: one of the two settings was not asked")}, (0, 0), at)
        both = one.index if one.index.equals(two.index) else one.index.intersection(two.index)
        whole = [answers.only(both) for answers in (one, two)]
        entering = sum(answers.entering for answers in whole)
        first, second = (self._agreement(cell, answers, n) for answers in whole)
        shift = replace(first, inference="t").difference(second, self.resampling)
        return Part({metric: shift}, (entering, one.planned + two.planned - entering), at)

    def _agreement(self, cell: Cell, answers: Answers, n: int) -> Ratio:
        """Return the agreement of means of n samples, using the same random numbers for all temperatures."""
        return answers.agreement(answers.means(n, name_seed(self.seed, cell.where))).ratio()


def _without_score(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the replies with reasons but no score for which no second step has been asked yet."""
    if STEP not in trials:
        return trials.iloc[:0]
    lacking = (trials[STEP] == 1) & trials["status"].isin(["unparsable", "cut_off"])
    lacking &= trials["reply"].fillna("").str.strip() != ""
    asked = pd.MultiIndex.from_frame(trials.loc[trials[STEP] == 2, ANSWER])
    waiting = trials[lacking]
    return waiting[~pd.MultiIndex.from_frame(waiting[ANSWER]).isin(asked)]


def _ask_again(question: Question, reply: str) -> Question:
    """Return the follow-up question for the score alone, after a reply with reasons."""
    item, attribute, scale = question.item, question.attribute, question.scale
    turns = [
        *as_messages(question.messages),
        Message("assistant", reply),
        Message("user", prompts.render("rate_again", attribute=attribute, scale=scale)),
    ]
    about = about_scores(item, [attribute], scale, reasons="before")
    return Question(item, attribute, turns, scale, about)


def answered(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per answer: that of the second step, if there is one, with the tokens of both."""
    if STEP not in trials:
        return trials
    second = trials[trials[STEP] == 2]
    keys = pd.MultiIndex.from_frame(trials[ANSWER])
    replaced = (trials[STEP] == 1) & keys.isin(pd.MultiIndex.from_frame(second[ANSWER]))
    before = trials[replaced].set_index(ANSWER)["tokens"].reindex(pd.MultiIndex.from_frame(second[ANSWER]))
    whole = trials.astype({"tokens": float})
    whole.loc[second.index, "tokens"] += before.to_numpy(float)
    return whole[~replaced]


def _first_step(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of the first step."""
    return trials[trials[STEP] != 2] if STEP in trials else trials
