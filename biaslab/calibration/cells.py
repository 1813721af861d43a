"""One cell of a validation: a metric and a judge, unbiased or biased, in one answer mode, and all its studies."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from biaslab.calibration import pair_models
from biaslab.calibration.generators import PopulationModel, find_generator, generate
from biaslab.calibration.pair_models import AskedPairs, PairFeatures
from biaslab.calibration.population import (
    Population,
    difference_each,
    estimate_each,
    judged_by_two,
    population_for,
    studies,
    weaker,
)
from biaslab.calibration.text_models import PlainTexts
from biaslab.core.errors import InputError, JudgeError, TrialsError
from biaslab.core.interfaces import ProbeInterface
from biaslab.core.metrics import Calibration, Metric
from biaslab.judges.repetition import AnswerMode
from biaslab.judges.simulated import SimulatedJudge
from biaslab.probes.base.feature_probe import WITH_BENDS
from biaslab.stats.estimate import side_of, significant
from biaslab.stats.missing import first_doubt
from biaslab.stats.resample import Resampling
from biaslab.stats.t_inference import expected_power

#: Maximum distance of a share from its nominal value: type-I error .05, coverage .95, power as planned.
BANDS = {"type_i_error": 0.015, "coverage": 0.02, "power": 0.05}
#: The same for answer modes other than the declared one, and for other generators; power is reported only.
WIDER = {"type_i_error": 0.02, "coverage": 0.03, "power": 1.0, "bounds": 0.03}
#: Maximum share of studies that may report a bias of an unbiased judge if replies are not missing at random.
FOUND = 0.06
#: Refuse a tenth of the requests that show the worse candidate first; each refusal drops a pair.
REFUSALS = {"refusal": 0.1, "selective": True}
#: Generators that ask simulated judges: the one declared by a probe's calibration, or two to compare.
JUDGE, TWO = "judge", "two_judges"
#: Their descriptions.
JUDGES = {
    JUDGE: "simulated judges declared by the probes",
    TWO: "differences between two simulated judges on the same contexts, by `biaslab.compare`",
}
#: Metrics that estimate the value of the exact distributions, however answers are read. Other metrics concern the
#: answers themselves, such as decisions, and their value is that of a large study in the same mode.
_OF_DISTRIBUTIONS = frozenset(
    {
        "alpha_gap",
        "configuration_gap",
        "cot_shift",
        "temperature_shift",
        "cot_accuracy_shift",
        "temperature_accuracy_shift",
    }
)
#: Metrics that missing data can shift arbitrarily: accuracy over pairs that differ, log odds.
_UNBOUNDED = frozenset({"comparative_accuracy", "first_position_logit"})
#: Probes for which generators draw only scores.
_SCORES_DRAWN = frozenset({"source"})
_ALPHA = 0.05
#: With fewer clusters no sign-flip p-value is below 1/16, so the test cannot reject.
_FEWEST_CLUSTERS = 6
_REFUSED_BY_DESIGN = (InputError, JudgeError, TrialsError)


@dataclass(frozen=True)
class ValidationCell:
    """One unit of work: a metric, a judge, an answer mode and study sizes.

    Parameters
    ----------
    kind, metric
        The probe class and the metric.
    planted : bool
        Whether the judge is biased.
    mode, generator : str
        Answer mode and kind of judge: see `biaslab.judges.repetition` and `biaslab.calibration.generators`.
    contexts, curve : tuple of int
        Numbers of contexts in studies, and further ones for power only.
    studies, population, seed : int
        Number of studies, number of contexts in the population, and the seed.
    refused : int, optional
        Number of studies with refusals; by default equal to ``studies``.
    """

    kind: type[ProbeInterface]
    metric: Metric
    planted: bool
    mode: str
    generator: str
    contexts: tuple[int, ...]
    curve: tuple[int, ...]
    studies: int
    population: int
    seed: int
    refused: int | None = None

    @property
    def calibration(self) -> Calibration:
        """The metric's declared calibration."""
        return self.metric.calibration or Calibration({}, {})

    @property
    def declared(self) -> bool:
        """True for the probe's own judge and answer mode."""
        return self.generator == JUDGE and self.mode == declared_mode(self.kind, self.metric)

    @property
    def bands(self) -> dict[str, float]:
        """The narrower bands for declared judges and modes, and the wider ones for others."""
        return BANDS if self.generator in JUDGES and self.mode == declared_mode(self.kind, self.metric) else WIDER

    @property
    def null(self) -> float:
        """Value for an unbiased judge; for two judges, zero difference."""
        return 0.0 if self.generator == TWO else self.metric.null or 0.0

    @property
    def named(self) -> dict[str, Any]:
        """The columns that identify a cell."""
        columns = {"probe": self.kind.name, "metric": self.metric.name, "mode": self.mode, "generator": self.generator}
        numbers = {"studies": self.studies, "population": self.population, "seed": self.seed}
        return columns | {"planted": self.planted} | numbers


def declared_mode(kind: type[ProbeInterface], metric: Metric) -> str:
    """Return the answer mode in which a metric's calibration is declared: "exact" or "text"."""
    parameters = dict(metric.calibration.parameters) if metric.calibration else {}
    has = hasattr(kind, "answer")
    return "exact" if has and parameters.get("answer") != "text" else "text"


def applies(kind: type[ProbeInterface], metric: Metric, mode: str, generator: str) -> bool:
    """Check whether a generator can simulate a metric in an answer mode."""
    if generator == JUDGE:
        return True
    if generator == TWO:
        return metric.calibration is not None and weaker(metric.calibration.fair) != metric.calibration.fair
    generated, rank = find_generator(generator), metric.name
    texts = generated.texts
    if isinstance(texts, AskedPairs):
        return pair_models.WAY_METRICS[texts.way] == rank
    of_features = isinstance(texts, PairFeatures)
    if (rank in pair_models.FEATURE_METRICS) != of_features and kind.name in pair_models.FEATURE_PROBES:
        return False
    if rank == "comparative_accuracy" and generator == "few_flips":
        return False  # without quality many pairs flip
    if generated.missing and rank in _UNBOUNDED:
        return False
    if rank.endswith("_excess") and isinstance(texts, PlainTexts) and texts.correlation and mode != "exact":
        return False  # the noise of texts lowers all correlations of an unbiased judge
    of_pairs = metric.calibration is not None and tuple(metric.calibration.parameters.get("asks", ())) == ("pairs",)
    if of_pairs and kind.name in _SCORES_DRAWN:
        return False
    drawn_by_the_probe = kind.name == "consistency" and mode != "exact"  # it draws its samples itself
    return kind.name in generated.probes and not drawn_by_the_probe


def run(cell: ValidationCell) -> pd.DataFrame:
    """Run all studies of a cell; a metric undefined in its mode yields one row with the reason."""
    rows = [cell.named | row for row in _rows(cell)]
    return pd.DataFrame(rows)


def _rows(cell: ValidationCell) -> Iterator[dict[str, Any]]:
    truth, why = None, _refused(cell)
    for refusals in (False, True) if cell.declared else (False,):
        probe, population = (None, None) if why else _population(cell, refusals=refusals)
        if probe is None or population is None or np.isnan(population.estimate) or not population.tested:
            yield _row_of_refusal(why or (population.note if population else "") or "undefined")
            return
        truth = _truth(cell, population) if truth is None else truth
        for contexts in sorted({*cell.contexts, *(cell.curve if cell.planted and not refusals else ())}):
            yield from _point(probe, cell, population, {"refusals": refusals, "n_contexts": contexts, "truth": truth})


def _refused(cell: ValidationCell) -> str:
    """Return why a probe cannot run in a mode, or ""; two contexts are enough to check."""
    if cell.declared or cell.generator not in JUDGES:
        return ""
    try:
        probe, judge, dataset = _probe_judge_and_data(replace(cell, population=2), AnswerMode(cell.mode))
        judge.check([trial.request for trial in probe.design(dataset)])
    except _REFUSED_BY_DESIGN as error:
        return str(error)
    return ""


def _population(
    cell: ValidationCell, mode: str | None = None, refusals: bool = False
) -> tuple[ProbeInterface, Population]:
    """Return the probe and the full population, by default in the cell's mode."""
    answer = AnswerMode(mode or cell.mode)
    if cell.generator == JUDGE:
        probe, judge, dataset = _probe_judge_and_data(cell, answer, refusals)
        return probe, Population.judged(probe, cell.metric.name, judge, dataset)
    if cell.generator == TWO:
        probe, judge, dataset = _probe_judge_and_data(replace(cell, planted=False), answer)
        _, other, _ = _probe_judge_and_data(cell, answer, like=weaker)
        return probe, judged_by_two(probe, cell.metric.name, (judge, other), dataset, planned=cell.planted)
    return _generated(cell, *_adapted(cell))


def _generated(cell: ValidationCell, generator: PopulationModel, planted: bool) -> tuple[ProbeInterface, Population]:
    parameters = {name: value for name, value in cell.calibration.parameters.items() if name != "reliability"}
    probe = cell.kind(**parameters)  # the generator's humans err, and their ratings say by how much
    seed = (cell.seed, zlib.crc32(f"{probe.name} {cell.generator}".encode()))
    trials = generate(generator, probe.name, cell.population, planted, AnswerMode(cell.mode).k, seed)
    return probe, Population.of(probe, cell.metric.name, trials, generator.twins)


def _probe_judge_and_data(
    cell: ValidationCell, answer: AnswerMode, refusals: bool = False, like: Callable[[Mapping[str, Any]], Any] = dict
) -> tuple[ProbeInterface, Any, Any]:
    """Return the probe, the simulated judge in an answer mode, optionally with other settings, and the data set."""
    declared, own = cell.calibration, answer.name == declared_mode(cell.kind, cell.metric)
    probe = cell.kind(**{**declared.parameters, **({} if own else declared.elsewhere)})
    dataset = population_for(declared, cell.population, cell.seed)
    settings = {"seed": cell.seed, **like(declared.planted if cell.planted else declared.fair)}
    judge = SimulatedJudge(dataset, **(settings | (REFUSALS if refusals else {})))
    return (probe, judge, dataset) if own else (*answer.asked(probe, judge), dataset)


def _adapted(cell: ValidationCell) -> tuple[PopulationModel, bool]:
    """Return the generator and whether it is biased: for accuracy, "bias" means that the judge perceives quality."""
    generator = find_generator(cell.generator)
    if cell.metric.name != "comparative_accuracy":
        return generator, cell.planted
    return generator.of_quality(0.3 if cell.planted else 0.0), False


def _truth(cell: ValidationCell, population: Population) -> float:
    """Return the true value: the null of a generator's fair judge, else the metric over a large, whole population."""
    exact = cell.metric.name in _OF_DISTRIBUTIONS
    if cell.generator in JUDGES:
        if cell.declared or not exact or _refused(replace(cell, mode="exact")):
            return population.estimate
        return _population(cell, "exact")[1].estimate
    if not cell.planted:
        return float(cell.metric.null or 0.0)
    generator, planted = _adapted(cell)
    errs = generator.errs(cell.kind.name)
    if not errs and not generator.missing:
        return population.estimate
    whole = replace(generator.without_errors if errs else generator, missing=0.0)
    return _generated(cell, whole, planted)[1].estimate


def _point(
    probe: ProbeInterface, cell: ValidationCell, population: Population, where: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Run the studies of one size; yield the rows of the test, the interval, and the bounds."""
    started, truth, contexts = time.perf_counter(), where["truth"], where["n_contexts"]
    estimates = _studied(probe, cell, population, where)
    test = ("type_i_error", _ALPHA)
    if cell.planted:
        left = population.estimate if where["refusals"] else truth  # refusals may remove the clearest pairs
        share_tested = float(estimates["p_value"].notna().mean())  # without one, it cannot reject
        test = ("power", share_tested * _planned(left - cell.null, population.spread, contexts))
    seconds, values = time.perf_counter() - started, estimates["estimate"].dropna()
    shared = where | {"seconds": seconds, "bias": values.mean() - truth if len(values) else np.nan, "note": ""}
    missing = cell.generator not in JUDGES and find_generator(cell.generator).missing > 0
    covered = estimates["ci_low"].le(truth) & estimates["ci_high"].ge(truth)
    for (quantity, promised), hits, undefined in (
        (test, estimates["p_value"] < _ALPHA, estimates["p_value"].isna()),
        (("coverage", 1 - _ALPHA), covered, estimates["ci_low"].isna()),
    ):
        band = (0.0, 1.0) if missing else _band(cell, quantity, promised, contexts)
        misses = quantity == "coverage" and _is_guarded(cell)  # undefined intervals do not count as misses
        judged = (hits | undefined if misses else hits[~undefined]) if quantity == "coverage" else hits
        yield shared | {"quantity": quantity} | _share(judged, int(undefined.sum()), promised, band)
    if missing:
        yield shared | {"quantity": "bounds"} | _bounds(estimates, truth)
        if not cell.planted:
            yield shared | {"quantity": "found"} | _share(_finds_bias(estimates, cell.null), 0, FOUND, (0.0, FOUND))


def _studied(probe: ProbeInterface, cell: ValidationCell, population: Population, at: dict[str, Any]) -> pd.DataFrame:
    name = f"{probe.name} {cell.metric.name} {cell.planted} {at['refusals']}"
    name += "" if cell.declared else f" {cell.mode} {cell.generator}"
    number = cell.refused if at["refusals"] and cell.refused else cell.studies
    drawn = studies(population, at["n_contexts"], number, (cell.seed, zlib.crc32(name.encode())))
    estimate = difference_each if cell.generator == TWO else estimate_each
    columns = ["p_value", "ci_low", "ci_high", "estimate", "bound_low", "bound_high", "notes"]
    rows = [estimate(probe, trials, cell.metric.name, Resampling(seed=seed))[columns] for trials, seed in drawn]
    return pd.concat(rows, ignore_index=True).astype(dict.fromkeys(columns[:-1], float))


def _planned(effect: float, spread: float, contexts: int) -> float:
    """Return the planned power; NaN if contexts do not vary."""
    return expected_power(effect, spread / np.sqrt(contexts), contexts, _ALPHA) if spread > 0 else np.nan


def _band(cell: ValidationCell, quantity: str, promised: float, contexts: int) -> tuple[float, float]:
    """Return the band of a share; with few flips, few clusters, a margin or two models, tests may reject less."""
    width = cell.bands[quantity]
    low, high = max(0.0, promised - width), min(1.0, promised + width)
    clusters = contexts if cell.generator in JUDGES else contexts // find_generator(cell.generator).twins
    rare = cell.generator not in JUDGES and find_generator(cell.generator).rare
    few = rare or clusters < _FEWEST_CLUSTERS or _is_guarded(cell)
    if few or cell.mode in cell.calibration.conservative:
        low, high = (0.0 if quantity == "type_i_error" else low), (1.0 if quantity == "coverage" else high)
    if quantity == "power" and cell.calibration.conservative == WITH_BENDS:
        low = 0.0
    return (0.0, 1.0) if np.isnan(promised) else (low, high)


def _is_guarded(cell: ValidationCell) -> bool:
    return cell.generator not in JUDGES and find_generator(cell.generator).guarded


def _finds_bias(estimates: pd.DataFrame, null: float) -> pd.Series:
    """Return whether each study finds a bias that no values of the missing replies could overturn."""

    def is_found(row: dict[Any, Any]) -> bool:
        if side_of(row, null) is None or not significant(row["p_value"]):
            return False
        return None in (first_doubt(row, low=null), first_doubt(row, high=null))

    return pd.Series([is_found(row) for row in estimates.to_dict("records")], dtype=bool)


def _bounds(estimates: pd.DataFrame, truth: float) -> dict[str, Any]:
    """Return how often worst-case bounds contain the true value; only sampling error can make them fail."""
    undefined = estimates["bound_low"].isna()
    note = {"note": "the estimates have no bounds"} if undefined.all() else {}
    hits = estimates["bound_low"].le(truth) & estimates["bound_high"].ge(truth)
    return _share(hits, int(undefined.sum()), 1 - _ALPHA, (1 - _ALPHA - WIDER["bounds"], 1.0)) | note


def _share(hits: pd.Series, undefined: int, promised: float, band: tuple[float, float]) -> dict[str, Any]:
    """Return a share and whether it lies within its band; without studies it does not."""
    count, n = int(hits.sum()), len(hits)
    low, high = proportion_confint(count, n, alpha=0.05, method="wilson") if n else (math.nan, math.nan)
    kept = bool(low <= band[1] and high >= band[0])
    shown = {"estimate": count / n if n else math.nan, "ci_low": low, "ci_high": high, "ci_level": 0.95}
    return shown | {"promised": promised, "low": band[0], "high": band[1], "kept": kept, "n_undefined": undefined}


def _row_of_refusal(why: str) -> dict[str, Any]:
    numbers = ("estimate", "ci_low", "ci_high", "promised", "low", "high", "truth", "bias", "n_contexts")
    rest = {"refusals": False, "ci_level": 0.95, "kept": True, "n_undefined": 0, "seconds": 0.0}
    return {"quantity": "refused"} | dict.fromkeys(numbers, np.nan) | rest | {"note": why}
