"""Effects of decoding on scores: temperature, reasons and averaging (Stureborg et al. 2024, §3.5, Figs. 6, 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.core.arrays import Bools
from biaslab.core.checks import require_whole
from biaslab.core.metrics import Calibration, Comparison, Figure, Metric, planted
from biaslab.core.requests import Choice, Completion, Message, as_messages
from biaslab.core.scales import find_scale
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.ranking.pairs import ORDERS, Verdicts, in_two_orders, is_pair
from biaslab.measures.scoring import pointwise
from biaslab.measures.scoring.pointwise import AnswerSettings, Item, Question, ScoreAnswer
from biaslab.probes.base import comparisons
from biaslab.probes.base.answers import COLUMNS, Answers, answer_alpha, name_seed, parse_rate, sample_count, token_count
from biaslab.probes.base.comparisons import PairOrScoreProbe, at_temperature, pair_trials, reasoned
from biaslab.probes.base.probe import LABEL_MASS, Cell, Metrics, Part, label_mass, mean_of
from biaslab.probes.base.questions import draw_score
from biaslab.probes.position import Position
from biaslab.probes.template import combined
from biaslab.stats.blocks import ITEM, has_value
from biaslab.stats.estimate import Estimate, because, undefined
from biaslab.stats.ratio import Ratio

#: Columns of trials that identify an answer, and the column of its step: 1 or 2.
ANSWER, STEP = [*ITEM, "attribute", "cot", "temperature", "replicate"], "step"
_NONE = float("nan")  # one object, so that a design equals itself
_Setting = tuple[str, float]  # with or without CoT, and the temperature


#: Values of the column ``cot``: without and with reasons before the verdict.
PLAIN, COT = "no CoT", "CoT"
_RATES = ("comparative_accuracy", "first_position_rate", "order_consistency")
_SHIFTS = {
    "cot": ("cot_accuracy_shift", "cot_first_shift"),
    "at": ("temperature_accuracy_shift", "temperature_first_shift"),
}
_OF_PAIRS = ("cot_accuracy_shift", "temperature_accuracy_shift")
_ADVICE = ("use the highest temperature of the study, and average samples", "use the lowest temperature of the study")
_NOT_ASKED = because("setting_not_asked", "one of the two settings was not asked")


_TEXT: dict[str, Any] = {"scale": "1-100", "answer": "text"}
_PAIRS: dict[str, Any] = {"asks": ("pairs",), "answer": "text", "samples": 1}
_VERDICTS = Comparison("single verdicts on pairs", ("cot", "temperature"))


@dataclass(frozen=True)
class Sweep(PairOrScoreProbe):
    """Effects of temperature, reasons before the score, and averaging of samples on agreement with humans.

    Every candidate is scored, or every pair compared, at several temperatures, with and without reasons.
    Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    scale : str
        Name in `biaslab.core.scales.SCALES`.
    temperatures : sequence of float
        Different temperatures, in any order; 0 is greedy and asked only once, because its samples are equal.
    cot : sequence of bool
        Without reasons, with reasons before the score (CoT, chain of thought), or both.
    samples : int
        Maximum samples per request; means are over 1, 2, 4 ... and all of them.
    answer : {"distribution", "text"}
        Without reasons: read the exact label distribution, which covers all temperatures and numbers of samples, or
        sample texts. With reasons, answers are always texts.
    max_tokens : int
        Maximum tokens of an answer with reasons.
    second_step : bool
        If a reply has reasons but no score, as often with small models, ask for the score in a second step: the judge
        sees the question and its own reasons, even if cut off, and gives only the score. Costs one short request per
        such reply, which plans do not include.
    n_candidates : int, optional
        Candidates per context, drawn at random; default: all.
    asks : sequence of {"pairs", "scores"}
        Score single candidates, compare all pairs in both orders, or both. Pairs have no second step.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is a score, or the probability of its ``label`` if label distributions are read. The temperature
    then applies to labels of several tokens as a whole, but in sampling token by token (`biaslab.stats.samples`).

    If the judge counts k samples instead of reading the distribution (`biaslab.Sampled`), they count as temperature 1,
    and means use at most k. Other temperatures are asked as texts in a second round, 0 greedily, because k counts do
    not determine the likeliest answer.

    In the second step (column ``step``: 2) the score is drawn from the label distribution given the reasons, at the
    temperature of the reasons, with a random number that depends on the seed, the request, the temperature and the
    replicate. With ``answer="text"``, and for judges that count samples, it is a text. Blank replies stay without a
    score.

    There is one estimate for each judge × data set × attribute × scale × ``cot`` (*CoT*, *no CoT*) × ``temperature`` ×
    ``samples`` averaged (NaN if a metric is not about averages):

    - ``cot_shift`` — ``agreement`` with CoT minus that without, for means of all samples, over items scored both ways.
      −2 to 2, null 0; above: reasons help. Primary, one per temperature; paired t test over contexts
      (`biaslab.stats.ratio.Ratio.difference`). Both sides have the noise of the same number of samples: reasons that
      only make a judge more certain help like more samples, and less the more are averaged.
    - ``temperature_shift`` — ``agreement`` at the highest temperature minus that at the lowest, for means of all
      samples. −2 to 2, null 0. Primary, one with and one without CoT.
    - ``agreement`` — Kendall's τ-b with the mean human score within contexts, averaged over contexts and over the
      randomness of the samples (32 draws from an exact distribution; all available groups of N texts). −1 to 1.
    - ``alpha`` — Krippendorff's interval α between samples, the noise floor of everything else. −1 to 1. For exact
      distributions, the limit of infinitely many samples: 1 − variance within items / total variance. 1 at temperature
      0, unless two labels are equally likely.
    - ``parse_rate`` — share of answers with a readable score; with reasons, in the first step. 0–1.
    - ``tokens`` — input and output tokens for one score averaged over ``samples``, in both steps; an exact distribution
      is paid once, whatever the temperature and the number of samples.
    - ``label_mass`` — total probability of all labels, of exact distributions at temperature 1. 0–1.

    For **pairs** (``scale`` is "pairs"), compared by comparative template 1 in both orders, with or without reasons
    before the verdict. Metrics refer to *single verdicts* at a temperature; exact probabilities, which one request
    gives for all temperatures, represent infinitely many of them. Contrasts are over pairs with verdicts in both
    settings and both orders; others are dropped and counted in ``n_dropped``:

    - ``cot_accuracy_shift`` — ``comparative_accuracy`` with CoT minus that without, at one temperature. −1 to 1, null
      0; above: reasons help. Primary.
    - ``temperature_accuracy_shift`` — ``comparative_accuracy`` at the highest temperature minus that at the lowest. −1
      to 1, null 0. Primary, one with and one without CoT. Below 0 for any judge that detects quality, because sampling
      adds noise.
    - ``cot_first_shift``, ``temperature_first_shift`` — the same for ``first_position_rate``. −1 to 1, null 0; above:
      more primacy.
    - ``comparative_accuracy`` — share of decisions between candidates with different human scores that agree with
      humans; ties excluded. 0–1, null ½.
    - ``first_position_rate`` — P(A), the share of decisions for the candidate shown first. 0–1, null ½.
    - ``order_consistency`` — probability that verdicts in the two orders name the same winner. 0–1.
    - ``alpha`` — Krippendorff's nominal α between samples of one pair in one order, as in `Consistency`. −1 to 1.
    - ``parse_rate``, ``tokens``, ``label_mass`` — as above, per verdict.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Sweep(attributes=["coherence"], temperatures=[0, 1])
    >>> estimates = probe.estimate(bl.collect(probe, bl.SimulatedJudge(data), data, progress=False), ["alpha"])
    >>> exact = estimates[estimates["cot"] == "no CoT"].set_index("temperature")["estimate"]
    >>> bool(exact[0.0] > 0.9 > exact[1.0])
    True
    """

    name = "sweep"
    cell = ("judge", "dataset", "attribute", "scale")
    conditions = ("cot", "temperature", "samples")
    columns = (*COLUMNS, "cot", "temperature", "label", "label_mass", "tokens")
    needs = "scores at several temperatures, with and without reasons"
    asks_for = ("pair", "score")
    metrics = (
        Metric("agreement", "agreement with the reference scores", "Kendall's τ-b", null=0.0, form="score"),
        Metric("alpha", "agreement between samples", "Krippendorff's α", null=0.0),
        Metric("parse_rate", "answers with a score", "share"),
        Metric("tokens", "tokens for one score"),
        LABEL_MASS,
        Metric(
            "cot_shift",
            "with reasons minus without",
            "Kendall's τ-b",
            null=0.0,
            above="agrees better with the reference scores after giving reasons",
            below="agrees less with the reference scores after giving reasons",
            advice=("ask for reasons before the score", "ask for the score alone, without reasons"),
            use=("scores without reasons", "scores after reasons"),
            matters=0.1,
            form="score",
            primary=True,
            calibration=planted(  # reasons push scores to the top of the scale, where candidates tie
                {"reason_first": 1.5},
                _TEXT | {"temperatures": (1.0,), "samples": 2},
                fair={"noise": 0.3, "sharpness": 4.0},
            ),
        ),
        Metric(
            "temperature_shift",
            "highest minus lowest temperature",
            "Kendall's τ-b",
            null=0.0,
            above="agrees better with the reference scores at a high temperature",
            below="agrees less with the reference scores at a high temperature",
            advice=_ADVICE,
            use=("scores at a low temperature", "scores at a high temperature"),
            matters=0.1,
            form="score",
            primary=True,
            calibration=Calibration(  # without quality, agreement does not depend on the temperature
                fair={"quality": 0.0, "noise": 1.0, "sharpness": 4.0},
                planted={"noise": 0.5, "sharpness": 4.0},
                parameters=_TEXT | {"temperatures": (0.0, 1.0), "samples": 1, "cot": (False,)},
            ),
        ),
        Metric(
            "cot_accuracy_shift",
            "accuracy on pairs with reasons minus without",
            "share",
            null=0.0,
            above="orders more pairs as the reference scores do after giving reasons",
            below="orders fewer pairs as the reference scores do after giving reasons",
            advice=("ask for reasons before the verdict", "ask for the verdict alone, without reasons"),
            matters=0.05,
            use=("verdicts without reasons", "verdicts after reasons"),
            form="pair",
            primary=True,
            calibration=planted(  # reasons make the judge choose the first, whatever its quality
                {"reason_first": 0.65}, _PAIRS | {"temperatures": (1.0,)}
            ),
            comparison=Comparison("verdicts on pairs with and without reasons", ("temperature",)),
        ),
        Metric(
            "temperature_accuracy_shift",
            "accuracy on pairs, highest minus lowest temperature",
            "share",
            null=0.0,
            above="orders more pairs as the reference scores do at a high temperature",
            below="orders fewer pairs as the reference scores do at a high temperature",
            advice=_ADVICE,
            matters=0.05,
            use=("verdicts at a low temperature", "verdicts at a high temperature"),
            form="pair",
            primary=True,
            calibration=Calibration(
                fair={"quality": 0.0, "noise": 1.0},
                planted={"quality": 0.3, "noise": 0.5},
                parameters=_PAIRS | {"temperatures": (0.0, 1.0), "cot": (False,)},
            ),
        ),
        Metric("cot_first_shift", "P(A) with reasons minus without", "share", null=0.0, form="pair"),
        Metric("temperature_first_shift", "P(A), highest minus lowest temperature", "share", null=0.0, form="pair"),
        *(replace(metric, comparison=_VERDICTS) for metric in comparisons.RATES),
    )
    figures = (
        Figure("shifts", ("cot_shift", "temperature_shift"), by=("cot", "temperature"), col="attribute"),
        Figure("shifts_of_pairs", _OF_PAIRS, by=("cot", "temperature"), col="attribute"),
    )

    scale: str = "1-10"
    temperatures: Sequence[float] = (0.0, 0.5, 1.0)
    cot: Sequence[bool] = (False, True)
    samples: int = 4
    answer: ScoreAnswer = "distribution"
    max_tokens: int = 128
    n_candidates: int | None = None
    second_step: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        find_scale(self.scale)
        require_whole("n_candidates", self.n_candidates, 2 if "pairs" in self.asks else 1, optional=True)
        for temperature in self.temperatures:
            self._asking(temperature, True)

    def design(self, dataset: Dataset, trials: pd.DataFrame | None = None) -> Iterator[Trial]:
        """Plan all scores and pairs for each attribute, with and without reasons, at each temperature.

        Given the trials so far, plan texts at temperatures not covered by counted samples, and the second step for
        replies with reasons only.
        """
        if trials is None:
            yield from super().design(dataset)
            return
        pairs = is_pair(trials)
        if "pairs" in self.asks and (temperatures := self._not_counted(trials[pairs])):
            yield from self._pairs(dataset, (False,), temperatures, exact=False)
        if "scores" in self.asks:
            yield from self._second_steps(dataset, trials[~pairs])
            yield from self._scores(dataset, (False,), self._not_counted(trials[~pairs]), exact=False)

    def plan_pairs(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan both orders of each pair at each temperature, with and without reasons before the verdict."""
        return self._pairs(dataset, self.cot, self.temperatures, self.answer == "distribution")

    def plan_scores(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each candidate's score at each temperature, with and without reasons."""
        return self._scores(dataset, self.cot, self.temperatures, self.answer == "distribution")

    def _pairs(
        self, dataset: Dataset, cot: Sequence[bool], temperatures: Sequence[float], exact: bool
    ) -> Iterator[Trial]:
        """Plan texts at the temperatures; if ``exact``, label probabilities instead of texts without reasons."""
        position = Position(self.attributes, templates=(1,), seed=self.seed)
        asks = replace(position, answer="text"), position
        for text, label in zip(*(pair_trials(each, dataset, {}, self.n_candidates) for each in asks), strict=True):
            for reasons in cot:
                where: dict[str, Scalar] = {"cot": COT if reasons else PLAIN, "temperature": _NONE, "label": _NONE}
                if exact and not reasons:
                    yield replace(label, condition={**label.condition, **where})
                    continue
                asked = replace(text, condition={**text.condition, **where})
                asked = reasoned(asked, dataset, "before", self.max_tokens) if reasons else asked
                for temperature, replicate in self._samples(temperatures):
                    request = replace(asked.request, temperature=temperature, replicate=replicate)
                    at = {**asked.condition, "temperature": temperature}
                    yield replace(asked, request=request, condition=at, replicate=replicate)

    def _samples(self, temperatures: Sequence[float]) -> Iterator[tuple[float, int]]:
        """Yield temperature and number of each sample of a text, only one if greedy."""
        for temperature in map(float, temperatures):
            for replicate in range(self.samples if temperature else 1):
                yield temperature, replicate

    def _scores(
        self, dataset: Dataset, cot: Sequence[bool], temperatures: Sequence[float], exact: bool
    ) -> Iterator[Trial]:
        """Plan scores as in `_pairs`."""
        attributes = dataset.require_attributes(self.attributes)
        for item in pointwise.drawn_items(dataset, self.n_candidates, self.seed) if temperatures else ():
            for attribute, reasons in product(attributes, cot):
                as_labels = exact and not reasons
                yield from self._score(dataset, item, attribute, reasons, () if as_labels else temperatures)

    def _asking(self, temperature: float, cot: bool) -> AnswerSettings:
        replicates = self.samples if temperature else 1
        return AnswerSettings("text", replicates, temperature, self.max_tokens if cot else 16, self.seed)

    @property
    def keeps_replies(self) -> bool:
        """Whether trials keep the judge's text, which the second step needs."""
        return self.second_step

    def _second_steps(self, dataset: Dataset, trials: pd.DataFrame) -> Iterator[Trial]:
        """Plan the second-step question after each reply with reasons only."""
        waiting = _without_score(trials)
        if waiting.empty:
            return
        as_text = self.answer == "text" or sample_count(trials[trials["cot"] == PLAIN]) > 0
        drawn = pointwise.drawn_items(dataset, self.n_candidates, self.seed)
        by_item = {(item.context_id, item.candidate_id): item for item in drawn}
        for row in waiting.itertuples():
            item = by_item.get((row.context_id, row.candidate_id))  # type: ignore[arg-type]
            if item is None:
                continue
            question = _ask_again(self._question(dataset, item, str(row.attribute), True), str(row.reply))
            temperature, replicate = float(row.temperature), int(row.replicate)  # type: ignore[arg-type]
            where: dict[str, Scalar] = {"cot": COT, "temperature": temperature, "label": _NONE, STEP: 2.0}
            asking = replace(self._asking(temperature, False), replicates=1) if as_text else AnswerSettings()
            [trial] = question.trials(asking, where)
            request = trial.request
            if isinstance(request, Completion):  # equal reasons need two separate texts
                request = replace(request, replicate=replicate)
            yield replace(trial, request=request, replicate=replicate)

    def _not_counted(self, trials: pd.DataFrame) -> list[float]:
        """Return the temperatures still to be asked without reasons."""
        plain = trials[trials["cot"] == PLAIN]
        asked = plain["temperature"].notna().any()
        return [t for t in self.temperatures if t != 1] if sample_count(plain) and not asked else []

    def _score(
        self, dataset: Dataset, item: Item, attribute: str, cot: bool, temperatures: Sequence[float]
    ) -> Iterator[Trial]:
        """Plan texts at the temperatures or, without any, the label distribution."""
        question = self._question(dataset, item, attribute, cot)
        condition: dict[str, Scalar] = {"cot": COT if cot else PLAIN, "temperature": _NONE}
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

    def read_score(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score in a text or the probability of the trial's label, and the status.

        For a second step, the score drawn from the label distribution.
        """
        if trial.condition.get(STEP) == 2 and isinstance(trial.request, Choice):
            temperature = float(trial.condition["temperature"])  # type: ignore[arg-type]
            use = f"sweep, seed {self.seed}, temperature {temperature:g}, sample {trial.replicate}"
            return draw_score(trial, reply, temperature, use)
        return pointwise.read_score(trial, reply)

    def measure_pairs(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each setting, then the effects of reasons and of temperature."""
        trials = _at_each_temperature(cell.trials, sorted(map(float, self.temperatures)))
        cell = replace(cell, trials=trials)
        asked = set(zip(trials["cot"], trials["at"], strict=True))
        of_settings = cell.wants(*_RATES, "alpha", "parse_rate", "tokens", "label_mass")
        for (cot, at), part in trials.groupby(["cot", "at"], sort=False) if of_settings else ():
            yield _of_pair_setting(cell, part, str(cot), float(at))  # type: ignore[arg-type]
        for at in sorted({at for _, at in asked}):
            where: dict[str, Scalar] = {"cot": f"{COT} - {PLAIN}", "temperature": at}
            rows = trials[trials["at"] == at]
            if {cot for cot, _ in asked} >= {COT, PLAIN} and cell.wants(*_SHIFTS["cot"]):
                yield _shift_of_pairs(cell, rows, "cot", (COT, PLAIN), where)
        last, first = float(max(self.temperatures)), float(min(self.temperatures))
        for cot in (name for name in (PLAIN, COT) if name in set(trials["cot"])):
            if cell.wants(*_SHIFTS["at"]):
                rows = trials[trials["cot"] == cot]
                yield _shift_of_pairs(cell, rows, "at", (last, first), {"cot": cot, "temperature": _NONE})

    def measure_scores(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each setting and number of samples, then the differences between settings."""
        by_setting: dict[_Setting, Answers] = {}
        for (cot, temperature), answers, asked in self._settings(cell):
            by_setting[cot, temperature] = answers
            setting = {"cot": cot, "temperature": temperature}
            yield Part(self._of_setting(answers, asked, temperature), answers.counts, setting)
            for n in self._sizes(answers):
                paid = n if answers.samples is not None and temperature > 0 else 1
                agreement = partial(self._agreement, cell, answers, n)
                metrics = {"tokens": partial(token_count, answered(asked), paid), "agreement": agreement}
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

    def _of_setting(self, answers: Answers, asked: pd.DataFrame, temperature: float) -> Metrics:
        """Return the metrics that do not depend on the number of samples averaged."""
        alpha = partial(answer_alpha, answers, self.resampling, greedy=temperature == 0)
        metrics: Metrics = {"alpha": alpha, "parse_rate": partial(parse_rate, _first_step(asked))}
        if (answers.chances is not None or answers.counted) and temperature == 1:
            metrics["label_mass"] = lambda: label_mass(asked.drop_duplicates(list(ITEM)))
        return metrics

    def _shifts(self, cell: Cell, answers: Mapping[_Setting, Answers]) -> Iterator[Part]:
        """Yield the effect of reasons at each temperature, and of temperature with and without reasons."""
        first, last = float(min(self.temperatures)), float(max(self.temperatures))
        if cell.wants("cot_shift"):
            for t in map(float, self.temperatures):
                one, two = answers.get((COT, t)), answers.get((PLAIN, t))
                yield self._shift(cell, "cot_shift", one, two, {"cot": f"{COT} - {PLAIN}", "temperature": t})
        if cell.wants("temperature_shift"):
            asked = {cot for cot, _ in answers}
            for cot in (name for name in (PLAIN, COT) if name in asked):
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
            return Part({metric: undefined(_NOT_ASKED)}, (0, 0), at)
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
    again = prompts.render("rate_again", attribute=attribute, scale=scale)
    turns = [*as_messages(question.messages), Message("assistant", reply), Message("user", again)]
    about = pointwise.about_scores(item, [attribute], scale, reasons="before")
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


def _at_each_temperature(trials: pd.DataFrame, temperatures: Sequence[float]) -> pd.DataFrame:
    """Return trials with the temperature ``at`` which each applies; exact probabilities apply at all.

    Shares of counted samples apply at temperature 1. The column ``exact`` marks exact probabilities, including greedy
    texts, because their samples are equal.
    """
    shares = trials["temperature"].isna()
    counted = shares & (trials["samples"].notna() if "samples" in trials else False)
    texts = trials[~shares]
    parts = [texts.assign(at=texts["temperature"], exact=texts["temperature"] == 0)]
    if 1.0 in temperatures:
        parts.append(trials[counted].assign(at=1.0, exact=False))
    known = trials[shares & ~counted]
    parts += [known.assign(value=at_temperature(known["value"], at), at=at, exact=True) for at in temperatures]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def _of_pair_setting(cell: Cell, trials: pd.DataFrame, cot: str, temperature: float) -> Part:
    """Return rates of single verdicts, agreement of samples, and cost in one setting."""
    exact = trials["exact"].to_numpy(bool)
    label = cell.named(f"{cot}, temperature {temperature:g}")
    both = Verdicts.of(trials, "at", [temperature], exact, label).in_both_orders()
    rates = (both.accuracies(single=True), both.first_rates(), both.order_consistencies())
    read = mean_of(trials, has_value(trials).astype(float), None, (0.0, 1.0))
    metrics: Metrics = {name: rate for name, (rate,) in zip(_RATES, rates, strict=True)}
    metrics["alpha"] = partial(_alpha, cell, trials, exact, label)
    metrics["parse_rate"] = read
    metrics["tokens"] = partial(token_count, combined(trials), 1)
    if temperature == 1 and trials["label_mass"].notna().any():
        metrics["label_mass"] = label_mass(trials)
    return Part(metrics, both.counts, {"cot": cot, "temperature": temperature})


def _alpha(cell: Cell, trials: pd.DataFrame, exact: Bools, what: str) -> Estimate:
    verdicts = Verdicts.of(in_two_orders(trials), "order", ORDERS, exact, what)
    alpha = verdicts.alphas(cell.resampling)[0]
    if (trials["at"] == 0).all() and alpha.estimate == 1:
        note = "1 by construction: greedy answers are equal"
        return replace(alpha, ci_low=1.0, ci_high=1.0, method="none", notes=(note,))
    return alpha


def _shift_of_pairs(
    cell: Cell, trials: pd.DataFrame, way: str, ways: tuple[str, str] | tuple[float, float], where: dict[str, Scalar]
) -> Part:
    """Return accuracy and P(A) in one setting minus those in another, over pairs with verdicts in both."""
    names = _SHIFTS[way]
    if ways[0] == ways[1] or not set(ways) <= set(trials[way]):
        return Part(dict.fromkeys(names, undefined(_NOT_ASKED)), (0, 0), where)
    contrast = replace(cell, trials=trials).contrast(way, ways, of=str(where["cot"]), exact=trials["exact"])
    rates = (contrast.judged.accuracies(single=True), contrast.judged.first_rates())
    return contrast.part(contrast.differences(dict(zip(names, rates, strict=True))), where)
