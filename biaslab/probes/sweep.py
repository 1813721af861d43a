"""Temperature, reasons and averaging: what decoding does to scores (Stureborg et al. 2024, §3.5, Figs. 6, 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.checks import require_attributes_list, require_one_of, require_whole
from biaslab.core import Calibration, Metric, Reply, Scalar, Status, Trial
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.probes._answer_metrics import answer_alpha, label_mass, parse_rate, token_count
from biaslab.probes._answers import Answers, name_seed
from biaslab.scales import find_scale
from biaslab.scoring.pointwise import (
    Answer,
    Asking,
    Item,
    drawn_items,
    label_trials,
    read_score,
    score_trials,
)
from biaslab.stats import (
    ITEM,
    Estimate,
    Ratio,
    Resampling,
    choose_metrics,
    estimate_rows,
    estimates_frame,
    require_columns,
    undefined,
)

_CELL = ("judge", "dataset", "attribute", "scale")
_SHIFTS = ("cot_shift", "temperature_shift")
_METRICS = ("agreement", "alpha", "parse_rate", "tokens", "label_mass", *_SHIFTS)
_PLAIN, _COT = "no CoT", "CoT"
_NONE = float("nan")  # one object, so that a design equals itself
_Setting = tuple[str, float]


@dataclass(frozen=True)
class Sweep:
    """Ask for scores at several temperatures, with and without reasons before them, and average N samples.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to score; all attributes of the data set by default.
    scale : str
        Name in `biaslab.scales.SCALES`.
    temperatures : sequence of float
        Different temperatures, in any order; 0 is greedy, and is asked once, for its samples are equal.
    cot : sequence of bool
        Without reasons, with reasons before the score (CoT, chain of thought), or both.
    samples : int
        Samples of each request at most; averaged are 1, 2, 4 ... and all of them.
    answer : {"distribution", "text"}
        Without reasons: read the exact label distribution, which gives every temperature and every number of samples,
        or sample texts. With reasons answers are always texts.
    max_tokens : int
        Length of an answer with reasons at most.
    n_candidates : int, optional
        Candidates a context, drawn at random; all of them by default.
    seed : int
        Of drawn candidates and samples.
    resampling : Resampling
        Of the estimates.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial's ``value`` is a score, or the probability of its ``label`` where label distributions are read. A label of
    several tokens is tempered as a whole there, but token by token when it is sampled (`biaslab.stats.labels`).

    Estimates come one a judge × data set × attribute × scale × ``cot`` (*CoT*, *no CoT*) × ``temperature`` ×
    ``samples`` averaged (NaN where a metric is not about averages):

    ``cot_shift`` (primary; -2 to 2, null 0; one a temperature)
        ``agreement`` with CoT less that without, of means of all samples, over the items that were scored both ways.
        Above 0: reasons help. Student's t over contexts, paired (`biaslab.stats.ratio.Ratio.difference`).
    ``temperature_shift`` (primary; -2 to 2, null 0; one with and one without CoT)
        ``agreement`` at the highest temperature less that at the lowest, of means of all samples.
    ``agreement`` (-1 to 1)
        Kendall's τ-b with the mean human score within contexts, averaged over contexts and over the randomness of the
        samples (32 draws of an exact distribution; of texts as many groups of N as there are).
    ``alpha`` (-1 to 1)
        Krippendorff's interval α between samples, the noise floor of everything else; of exact distributions what
        infinitely many samples tend to, 1 - variance within items / variance of all scores. 1 at temperature 0, unless
        two labels are equally likely.
    ``parse_rate`` (0–1)
        Share of answers from which a score was read.
    ``tokens``
        Tokens read and written for one score of ``samples`` averaged; an exact distribution is paid for once, whatever
        the temperature and the number of samples.
    ``label_mass`` (0–1; exact distributions, at temperature 1)
        Probability that all labels have together.

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

    name: ClassVar[str] = "sweep"
    primary: ClassVar[tuple[str, ...]] = _SHIFTS
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "cot_shift",
            "with reasons minus without",
            "Kendall's τ-b",
            null=0.0,
            above="agrees better with the reference scores after giving reasons",
            below="agrees less with the reference scores after giving reasons",
            advice=("ask for reasons before the score", "ask for the score alone, without reasons"),
            matters=0.1,
        ),
        Metric(
            "temperature_shift",
            "highest minus lowest temperature",
            "Kendall's τ-b",
            null=0.0,
            above="agrees better with the reference scores at a high temperature",
            below="agrees less with the reference scores at a high temperature",
            advice=(
                "use the highest temperature of the study, and average samples",
                "use the lowest temperature of the study",
            ),
            matters=0.1,
        ),
        Metric("agreement", "agreement with the reference scores", "Kendall's τ-b", null=0.0),
        Metric("alpha", "between samples", "Krippendorff's α", null=0.0),
        Metric("parse_rate", "answers with a score", "share"),
        Metric("tokens", "tokens for one score"),
    )
    calibrations: ClassVar[tuple[Calibration, ...]] = (
        Calibration(
            "cot_shift",  # reasons push scores to the top of the scale, where candidates cannot be told apart
            null=0.0,
            fair={"noise": 0.3, "sharpness": 4.0},
            planted={"noise": 0.3, "sharpness": 4.0, "reason_first": 1.5},
            parameters={"scale": "1-100", "temperatures": (1.0,), "samples": 2, "answer": "text"},
        ),
        Calibration(
            "temperature_shift",  # a judge that sees no quality agrees no less at any temperature
            null=0.0,
            fair={"quality": 0.0, "noise": 1.0, "sharpness": 4.0},
            planted={"noise": 0.5, "sharpness": 4.0},
            parameters={"scale": "1-100", "temperatures": (0.0, 1.0), "samples": 1, "answer": "text", "cot": (False,)},
        ),
    )

    attributes: Sequence[str] | None = None
    scale: str = "1-10"
    temperatures: Sequence[float] = (0.0, 0.5, 1.0)
    cot: Sequence[bool] = (False, True)
    samples: int = 4
    answer: Answer = "distribution"
    max_tokens: int = 128
    n_candidates: int | None = None
    seed: int = 0
    resampling: Resampling = field(default_factory=Resampling)

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        find_scale(self.scale)
        temperatures = self.temperatures
        if isinstance(temperatures, str) or not temperatures or len(set(temperatures)) < len(temperatures):
            raise InputError("temperatures", temperatures, "a list of different numbers")
        if not self.cot or {*self.cot} - {False, True} or len(set(self.cot)) < len(self.cot):
            raise InputError("cot", self.cot, "a list of False and/or True")
        require_whole("samples", self.samples, 1)
        if self.n_candidates is not None:
            require_whole("n_candidates", self.n_candidates, 1)
        require_one_of("answer", self.answer, ("distribution", "text"))
        for temperature in temperatures:
            self._asking(temperature, True)

    def _asking(self, temperature: float, cot: bool) -> Asking:
        replicates = self.samples if temperature else 1
        return Asking("text", replicates, temperature, self.max_tokens if cot else 16, self.seed)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the scores of every candidate: for each attribute, with and without reasons, at each temperature."""
        attributes = dataset.require_attributes(self.attributes)
        for item in drawn_items(dataset, self.n_candidates, self.seed):
            for attribute, cot in product(attributes, self.cot):
                yield from self._score(dataset, item, attribute, cot)

    def _score(self, dataset: Dataset, item: Item, attribute: str, cot: bool) -> Iterator[Trial]:
        scale = find_scale(self.scale)
        reasons: prompts.Reasons = "before" if cot else "none"
        prompt = prompts.rate(dataset, [attribute], scale, item.text, item.context, reasons)
        condition: dict[str, Scalar] = {"cot": _COT if cot else _PLAIN, "temperature": _NONE}
        if self.answer == "distribution" and not cot:
            yield from label_trials(item, attribute, prompt, scale, condition)
            return
        for temperature in self.temperatures:
            where = {**condition, "temperature": float(temperature), "label": _NONE}
            for trial in score_trials(item, attribute, prompt, scale, self._asking(temperature, cot), where):
                yield replace(trial, labels=(attribute,))

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score that a text gives or the probability of the trial's label, and the status."""
        return read_score(trial, reply)

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn trials into the estimates listed in the notes of this class.

        Parameters
        ----------
        trials : pandas.DataFrame
            Made by `biaslab.collect`.
        metrics : sequence of str, optional
            Estimate these only.

        Raises
        ------
        InputError
            If there is no such metric; the message lists those there are.
        TrialsError
            If a column is missing.
        """
        chosen = choose_metrics(_METRICS, metrics)
        wanted = (*_CELL, *ITEM, "cot", "temperature", "label", "human", "replicate", "value", "status")
        require_columns(trials, (*wanted, "label_mass", "tokens", "key"), "trials")
        rows: list[dict[str, Any]] = []
        for names, cell in trials.groupby(list(_CELL), sort=False):
            where = dict(zip(_CELL, names, strict=True))
            settings = self._settings(cell, f"{self.name} ({where['attribute']}")
            for (cot, temperature), (given, asked) in settings.items():
                setting = {**where, "cot": cot, "temperature": temperature}
                rows += self._of_setting(given, asked, chosen, setting)
            answers = {setting: given for setting, (given, _) in settings.items()}
            rows += self._shifts(answers, chosen, where)
        return estimates_frame(rows, self.name, self.primary, ("attribute", "scale", "cot", "temperature", "samples"))

    def _settings(self, cell: pd.DataFrame, what: str) -> dict[_Setting, tuple[Answers, pd.DataFrame]]:
        """Return the answers of each setting, and the trials they are from; a distribution serves all temperatures."""
        found: dict[_Setting, tuple[Answers, pd.DataFrame]] = {}
        for cot, part in cell.groupby("cot", sort=False):
            for temperature, asked in part.groupby("temperature", dropna=False, sort=True):
                given = Answers.of(asked, find_scale(str(asked["scale"].iloc[0])))
                exact = given.chances is not None
                given.warn(f"{what}, {cot}{'' if exact else f', temperature {temperature:g}'})")
                for at in sorted(map(float, self.temperatures)) if exact else [temperature]:
                    found[str(cot), float(at)] = (given.at_temperature(at) if exact else given, asked)  # type: ignore[arg-type]
        return found

    def _of_setting(
        self, given: Answers, asked: pd.DataFrame, chosen: Sequence[str], setting: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        counts = (given.entering, given.planned - given.entering)
        sampled = given.samples is not None and setting["temperature"] > 0
        whole: dict[str, Estimate] = {}
        if "alpha" in chosen:
            greedy = setting["temperature"] == 0  # its samples are equal: one was asked
            alpha = answer_alpha(given.repeated() if greedy else given, self.resampling)
            whole["alpha"] = _by_construction(alpha) if greedy else alpha
        if "parse_rate" in chosen:
            whole["parse_rate"] = parse_rate(asked, self.resampling)
        if "label_mass" in chosen and given.chances is not None and setting["temperature"] == 1:
            whole["label_mass"] = label_mass(asked, self.resampling)
        rows = estimate_rows(whole, {**setting, "samples": np.nan}, self.resampling, *counts)
        for n in self._sizes():
            found: dict[str, Estimate] = {}
            if "agreement" in chosen:
                found["agreement"] = self._agreement(given, n, setting).estimate(self.resampling)
            if "tokens" in chosen:
                found["tokens"] = token_count(asked, n if sampled else 1, self.resampling)
            rows += estimate_rows(found, {**setting, "samples": float(n)}, self.resampling, *counts)
        return rows

    def _shifts(
        self, answers: Mapping[_Setting, Answers], chosen: Sequence[str], where: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Return what reasons change at each temperature, and what temperature changes with and without them."""
        asked = [name for name in (_PLAIN, _COT) if any(name == cot for cot, _ in answers)]
        first, last = min(self.temperatures), max(self.temperatures)
        columns: dict[str, list[tuple[_Setting, _Setting, str, float]]] = {
            "cot_shift": [((_COT, float(t)), (_PLAIN, float(t)), f"{_COT} - {_PLAIN}", t) for t in self.temperatures],
            "temperature_shift": [((cot, float(last)), (cot, float(first)), cot, np.nan) for cot in asked],
        }
        rows: list[dict[str, Any]] = []
        for metric in (name for name in _SHIFTS if name in chosen):
            for one, two, cot, temperature in columns[metric]:
                setting = {**where, "cot": cot, "temperature": temperature, "samples": float(self.samples)}
                if one == two or one not in answers or two not in answers:
                    found, counts = undefined("undefined: one of the two was not asked"), (0, 0)
                else:
                    found, counts = self._shift(answers[one], answers[two], where)
                rows += estimate_rows({metric: found}, setting, self.resampling, *counts)
        return rows

    def _shift(self, one: Answers, two: Answers, where: Mapping[str, Any]) -> tuple[Estimate, tuple[int, int]]:
        """Estimate agreement of the first less that of the second over the items that both have."""
        both = one.index if one.index.equals(two.index) else one.index.intersection(two.index)
        whole = [given.only(both) for given in (one, two)]
        entering = sum(given.entering for given in whole)
        first, second = (self._agreement(given, self.samples, where) for given in whole)
        shift = replace(first, inference="t").difference(second, self.resampling)
        return shift, (entering, one.planned + two.planned - entering)

    def _agreement(self, given: Answers, n: int, where: Mapping[str, Any]) -> Ratio:
        """Return the agreement of means of n samples; all temperatures are drawn with the same random numbers."""
        seed = name_seed(self.seed, {name: where[name] for name in _CELL})
        return given.agreement(given.means(n, seed)).ratio()

    def _sizes(self) -> list[int]:
        """Return how many samples are averaged: 1, 2, 4 ... and all."""
        return sorted({2**power for power in range(self.samples.bit_length())} | {self.samples})


def _by_construction(alpha: Estimate) -> Estimate:
    """Take the interval from an alpha of 1 that could not have been anything else."""
    if alpha.estimate != 1:
        return alpha
    return replace(alpha, ci_low=1.0, ci_high=1.0, method="none", note="1 by construction: greedy answers are equal")
