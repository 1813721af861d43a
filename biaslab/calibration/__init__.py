"""Simulated studies of judges whose bias is known, to see whether the instrument keeps its promises.

Examples
--------
>>> from biaslab.calibration import calibrate
>>> from biaslab.probes import find_probe
>>> kinds, metrics = [find_probe("position")], ["first_position_rate"]
>>> found = calibrate(kinds, metrics, studies=20, contexts=[8], population=200)
>>> found["quantity"].tolist()
['type_i_error', 'coverage', 'type_i_error', 'coverage', 'power', 'coverage', 'power', 'coverage']
"""

from __future__ import annotations

import multiprocessing
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from biaslab.calibration.population import Population, estimate_one, population_for, studies
from biaslab.checks import require_whole
from biaslab.core import Calibration, Metric, Probe
from biaslab.errors import InputError
from biaslab.judges.simulated import SimulatedJudge
from biaslab.probes import available
from biaslab.stats import Resampling, expected_power

__all__ = ["BANDS", "REFUSALS", "calibrate", "describe", "outside"]

#: How far a share may lie from what is promised: type-I error .05, coverage .95, power as planned.
BANDS = {"type_i_error": 0.015, "coverage": 0.02, "power": 0.05}
#: A tenth of the requests in which the worse candidate stands first is refused, and with each its pair is lost.
REFUSALS = {"refusal": 0.1, "selective": True}
_ALPHA = 0.05


@dataclass(frozen=True)
class _Task:
    """What one process does at a time: two populations, without and with refusals, and all studies of them."""

    kind: type[Probe]
    metric: Metric
    planted: bool
    contexts: tuple[int, ...]
    curve: tuple[int, ...]
    studies: int
    population: int
    seed: int


def calibrate(
    probes: Sequence[type[Probe]] | None = None,
    metrics: Sequence[str] | None = None,
    studies: int = 1000,
    contexts: Sequence[int] = (8, 24, 100),
    curve: Sequence[int] = (),
    population: int = 5_000,
    jobs: int = 1,
    seed: int = 0,
    report: Callable[[pd.DataFrame], object] | None = None,
) -> pd.DataFrame:
    """Measure type-I error, coverage and power of metrics over simulated studies.

    For every `Calibration` that a probe declares, a simulated judge without and one with the planted bias answers the
    probe's design for a large constructed population, each with and without selective refusals (`REFUSALS`). A study
    draws contexts from it with replacement and calls the probe's own ``estimate``.

    Parameters
    ----------
    probes : sequence of probe classes, optional
        All probes by default.
    metrics : sequence of str, optional
        Only these metrics; by default all that the probes declare.
    studies : int
        Simulated studies a row.
    contexts : sequence of int
        Contexts of a study.
    curve : sequence of int
        More numbers of contexts, for the power without refusals only.
    population : int
        Contexts of the population. The fair judge's metric is at its null only up to their sampling error, which
        adds about .11 × contexts / population to the type-I error.
    jobs : int
        Processes. The result does not depend on it. Above 1, a script that calls this needs
        ``if __name__ == "__main__":``.
    seed : int
        Of everything random.
    report : callable, optional
        Called with the rows of each metric and judge as soon as they are there.

    Returns
    -------
    pandas.DataFrame
        One row a quantity: ``probe, metric, quantity`` ("type_i_error", the share of p < .05 with the fair judge;
        "coverage", the share of 95 % intervals that cover the true value; "power", the share of p < .05 with the biased
        judge), ``planted`` (is the judge biased), ``refusals`` (does it refuse), ``n_contexts, estimate`` (the share),
        ``ci_low, ci_high, ci_level`` (its Wilson interval over studies: the Monte-Carlo error), ``promised, low, high``
        (the band), ``kept`` (does the interval reach into the band), ``truth`` (the metric over the whole population,
        without refusals), ``studies, n_undefined`` (studies without p-value or interval, which count as neither
        rejected nor covered), ``seconds``.

    Raises
    ------
    InputError
        If a number is too small, a metric is unknown, or nothing is left to calibrate.
    """
    smallest = (("studies", studies, 1), ("population", population, 2), ("jobs", jobs, 1), ("seed", seed, 0))
    for name, value, least in (*smallest, *(("contexts", g, 2) for g in (*contexts, *curve))):
        require_whole(name, int(value) if isinstance(value, np.integer) else value, least)
    sizes = tuple(sorted(set(contexts))), tuple(sorted(set(curve) - set(contexts)))
    tasks = [
        _Task(kind, metric, planted, *sizes, studies, population, seed)
        for kind, metric in _declared(probes, metrics)
        for planted in (False, True)
    ]
    found: dict[int, pd.DataFrame] = {}
    for index, rows in _run_all(tasks, min(jobs, len(tasks))):
        found[index] = rows
        if report is not None:
            report(rows)
    return pd.concat([found[index] for index in range(len(tasks))], ignore_index=True)


def outside(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `calibrate` that leave their band by more than the Monte-Carlo error."""
    return found[~found["kept"].astype(bool)]


def describe(row: Any) -> str:
    """Say one row of `calibrate` in words."""
    judge = f"{'planted' if row.planted else 'fair'} judge{' with refusals' if row.refusals else ''}"
    return (
        f"{row.probe} {row.metric}, {judge}, {row.n_contexts} contexts: {row.quantity} {row.estimate:.3f} "
        f"[{row.ci_low:.3f}, {row.ci_high:.3f}], band {row.low:.3f} to {row.high:.3f}"
    )


def _declared(probes: Sequence[type[Probe]] | None, metrics: Sequence[str] | None) -> list[tuple[type[Probe], Metric]]:
    kinds = list(available().values() if probes is None else probes)
    declared = [(kind, metric) for kind in kinds for metric in kind.metrics if metric.calibration is not None]
    known = sorted({metric.name for _, metric in declared})
    wanted = known if metrics is None else list(metrics)
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise InputError(
            "metrics", unknown or wanted, f"some of {', '.join(known)}", "those that declare a calibration"
        )
    return [(kind, metric) for kind, metric in declared if metric.name in wanted]


def _run_all(tasks: Sequence[_Task], jobs: int) -> Iterator[tuple[int, pd.DataFrame]]:
    if jobs == 1:
        yield from ((index, _run(task)) for index, task in enumerate(tasks))
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(_run, task): index for index, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run(task: _Task) -> pd.DataFrame:
    calibration = task.metric.calibration or Calibration({}, {})
    probe = task.kind(**calibration.parameters)
    settings = calibration.planted if task.planted else calibration.fair
    dataset = population_for(calibration, task.population, task.seed)
    rows: list[dict[str, Any]] = []
    truth = float("nan")
    for refusals in (False, True):
        judge = SimulatedJudge(dataset, **{"seed": task.seed, **settings, **(REFUSALS if refusals else {})})  # type: ignore[arg-type]
        population = Population.judged(probe, task.metric.name, judge, dataset)
        truth = truth if refusals else population.estimate
        for contexts in sorted({*task.contexts, *(task.curve if task.planted and not refusals else ())}):
            where = {"planted": task.planted, "refusals": refusals, "n_contexts": contexts, "truth": truth}
            rows += _point(probe, task, population, where)
    names = {"probe": probe.name, "metric": task.metric.name}
    return pd.DataFrame([names | row for row in rows])


def _point(probe: Probe, task: _Task, population: Population, where: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the studies of one size; return the row of the test and that of the interval."""
    started, metric, truth, contexts = time.perf_counter(), task.metric.name, where["truth"], where["n_contexts"]
    name = f"{probe.name} {metric} {where['planted']} {where['refusals']}"
    found = np.full((task.studies, 3), np.nan)
    drawn = studies(population, contexts, task.studies, (task.seed, zlib.crc32(name.encode())))
    for k, (trials, seed) in enumerate(drawn):
        row = estimate_one(probe, trials, metric, Resampling(seed=seed))
        found[k] = row["p_value"], row["ci_low"], row["ci_high"]
    p, low, high = found.T
    test = ("type_i_error", _ALPHA)
    if task.planted:
        error = population.spread / np.sqrt(contexts)
        test = ("power", expected_power(truth - (task.metric.null or 0.0), error, contexts, _ALPHA))
    seconds = time.perf_counter() - started
    return [
        {"quantity": quantity} | where | _share(hits, undefined, quantity, promised) | {"seconds": seconds}
        for (quantity, promised), hits, undefined in (
            (test, p < _ALPHA, np.isnan(p)),
            (("coverage", 1 - _ALPHA), (low <= truth) & (truth <= high), np.isnan(low)),
        )
    ]


def _share(hits: Any, undefined: Any, quantity: str, promised: float) -> dict[str, Any]:
    count, n = int(hits.sum()), len(hits)
    low, high = proportion_confint(count, n, alpha=0.05, method="wilson")
    band = (max(0.0, promised - BANDS[quantity]), min(1.0, promised + BANDS[quantity]))
    return {
        "estimate": count / n,
        "ci_low": low,
        "ci_high": high,
        "ci_level": 0.95,
        "promised": promised,
        "low": band[0],
        "high": band[1],
        "kept": bool(low <= band[1] and high >= band[0]),
        "studies": n,
        "n_undefined": int(undefined.sum()),
    }
