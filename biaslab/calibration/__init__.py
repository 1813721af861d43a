"""Validate type-I error, coverage and power on simulated judges with known bias.

Examples
--------
>>> from biaslab.calibration import validate
>>> from biaslab.probes import find_probe
>>> kinds, metrics = [find_probe("position")], ["first_position_rate"]
>>> found = validate(kinds, metrics, studies=5, contexts=[8], population=40)
>>> found["quantity"].tolist()
['type_i_error', 'coverage', 'type_i_error', 'coverage', 'power', 'coverage', 'power', 'coverage']
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from biaslab.calibration.cells import BANDS, JUDGE, JUDGES, REFUSALS, WIDER, ValidationCell, applies, declared_mode, run
from biaslab.calibration.generators import GENERATORS, find_generator
from biaslab.calibration.population import recover, with_planted
from biaslab.calibration.promises import PROMISES, keep_promises
from biaslab.calibration.table import Sheet
from biaslab.core.checks import did_you_mean, require_whole
from biaslab.core.errors import InputError
from biaslab.core.interfaces import ProbeInterface
from biaslab.core.metrics import Metric
from biaslab.core.output import AnyPath, require_file
from biaslab.judges.repetition import MODES, AnswerMode
from biaslab.probes import available

__all__ = [
    "BANDS",
    "GENERATORS",
    "MODES",
    "PROMISES",
    "REFUSALS",
    "WIDER",
    "describe",
    "keep_promises",
    "outside",
    "recover",
    "validate",
    "validate_all",
    "with_planted",
]

_CONTEXTS = (8, 24, 100)
Kinds = Sequence[type[ProbeInterface]]
Words = Sequence[str]
_Wanted = tuple[type[ProbeInterface], Metric, str, str]  # with the answer mode and the generator
_MODES = ("exact", "text", "sampled:3", "sampled:5")  # modes of the full table
_Report = Callable[[pd.DataFrame], object]


def validate(
    probes: Sequence[type[ProbeInterface]] | None = None,
    metrics: Sequence[str] | None = None,
    studies: int = 1000,
    contexts: Sequence[int] = _CONTEXTS,
    curve: Sequence[int] = (),
    population: int = 5_000,
    jobs: int = 1,
    seed: int = 0,
    report: _Report | None = None,
    modes: Sequence[str] | None = None,
    generators: Sequence[str] = (JUDGE,),
    out: AnyPath | None = None,
) -> pd.DataFrame:
    """Measure type-I error, coverage and power of metrics over simulated studies.

    For every `Calibration` that a probe declares, a simulated judge without the bias and one with it answer the
    probe's design for a large constructed population, in the declared mode, with and without selective refusals
    (`REFUSALS`). Other generators draw the trials of a population directly, without a judge
    (`biaslab.calibration.generators`). A study draws contexts with replacement and calls the probe's own ``estimate``.

    Parameters
    ----------
    probes : sequence of probe classes, optional
        By default all probes.
    metrics : sequence of str, optional
        Names of metrics; by default all that the probes declare.
    studies : int
        Number of simulated studies per row.
    contexts : sequence of int
        Numbers of contexts in a study.
    curve : sequence of int
        Further numbers of contexts, for the power without refusals only.
    population : int
        Number of contexts in the population. The unbiased judge's metric equals its null only up to their sampling
        error, which adds about .11 × contexts / population to the type-I error.
    jobs : int
        Number of processes; does not affect the result. Above 1, the calling script needs
        ``if __name__ == "__main__":``.
    seed : int
        Seed of all random numbers.
    report : callable, optional
        Called with the rows of each metric and judge as soon as they are available.
    modes : sequence of str, optional
        Answer modes: "exact", "text", "sampled:k". By default the one declared by a metric's calibration.
    generators : sequence of str
        "judge", the simulated judge declared by the calibration; "two_judges", that one and a weaker one on the same
        contexts, of which the second has the planted bias, with the difference estimated by `biaslab.compare`; and
        names in `GENERATORS`. Combinations that a generator cannot draw are skipped.
    out : path, optional
        A CSV file to which rows are written as they come. Existing rows with the same settings are not rerun.

    Returns
    -------
    pandas.DataFrame
        One row per quantity: ``probe, metric, mode, generator, studies, population, seed, planted`` (whether the judge
        is biased), ``refusals`` (whether it refuses), ``n_contexts``;

        ``quantity``: "type_i_error", the share of p < .05 with the unbiased judge; "coverage", the share of 95 %
        intervals that contain the true value; "power", the share of p < .05 with the biased judge; "bounds", if
        replies are not missing at random, the share of worst-case bounds that contain the true value, and "found", the
        share of unbiased judges reported as biased although missing data may decide; "refused", if the metric is
        undefined or not tested in this mode, with the reason in ``note``;

        ``estimate`` (the share), ``ci_low, ci_high, ci_level`` (its Wilson interval over studies: the Monte-Carlo
        error), ``promised, low, high`` (the band: `BANDS`, and `WIDER` in other modes and with other generators; the
        promised power is the planned one times the share of studies with a test), ``kept`` (whether the interval
        overlaps the band), ``truth`` (the metric over the whole population, without refusals), ``bias`` (mean estimate
        minus that), ``n_undefined`` (studies without a p-value, which count as not rejected, or without an interval,
        which do not enter the coverage), ``seconds, note``.

    Raises
    ------
    InputError
        If a number is too small, a metric, mode or generator is unknown, or nothing is left to validate.

    Notes
    -----
    The true value is that of the metric in the same mode, because most metrics concern decisions, sampled scores or
    their spread. For differences between agreements, and for alpha, it is that of the exact distributions, which
    samples estimate. For a generator's unbiased judge it is the null, and with human rating error the value without
    that error.
    """
    _check(studies, contexts, curve, population, jobs, seed)
    sizes = tuple(sorted(set(contexts))), tuple(sorted(set(curve) - set(contexts)))
    cells = [
        ValidationCell(kind, metric, planted, mode, generator, *sizes, studies, population, seed)
        for kind, metric, mode, generator in _chosen(probes, metrics, modes, generators)
        for planted in (False, True)
    ]
    return _run_all(cells, jobs, report, out)


def validate_all(
    studies: int = 1000,
    population: int = 5_000,
    jobs: int = 1,
    seed: int = 0,
    report: _Report | None = None,
    out: AnyPath | None = None,
    probes: Sequence[type[ProbeInterface]] | None = None,
    metrics: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Run the full table: every metric as declared, in all answer modes and with all generators.

    Declared judges get all studies, and a quarter of them with refusals. The many other modes and generators get a
    fifth of the studies, and with bias, which only serves to check coverage, a tenth; their populations have two
    fifths of the contexts. Generators answer in their own modes, mostly exactly.

    Parameters
    ----------
    studies, population, jobs, seed, report, out, probes, metrics
        As in `validate`.

    Returns
    -------
    pandas.DataFrame
        As in `validate`.
    """
    _check(studies, _CONTEXTS, (), population, jobs, seed)
    wanted = _chosen(probes, metrics, _MODES, (JUDGE,))
    for name, generator in GENERATORS.items():
        wanted += _applicable(probes, metrics, generator.modes, (name,))
    fewer = max(2, population * 2 // 5)
    cells = [
        ValidationCell(*one[:2], planted, *one[2:], _CONTEXTS, (), max(1, studies // divisor), fewer, seed)
        for one in wanted
        for planted, divisor in ((False, 5), (True, 10))
    ]
    whole: dict[str, Any] = {"studies": studies, "population": population, "refused": max(1, studies // 4)}
    declared = [replace(cell, **whole) if cell.declared else cell for cell in cells]
    return _run_all(sorted(declared, key=lambda cell: not cell.declared), jobs, report, out)


def _check(studies: int, contexts: Sequence[int], curve: Sequence[int], population: int, jobs: int, seed: int) -> None:
    smallest = (("studies", studies, 1), ("population", population, 2), ("jobs", jobs, 1), ("seed", seed, 0))
    sizes = [*(("contexts", size, 2) for size in contexts), *(("curve", size, 2) for size in curve)]
    for name, value, least in (*smallest, *sizes):
        require_whole(name, int(value) if isinstance(value, np.integer) else value, least)


def _chosen(kinds: Kinds | None, metrics: Words | None, modes: Words | None, generators: Words) -> list[_Wanted]:
    """Return every metric with every mode and generator that applies to it; raise `InputError` if none does."""
    for mode in modes or ():
        AnswerMode(mode)
    for name in generators:
        _ = name in JUDGES or find_generator(name)
    cells = _applicable(kinds, metrics, modes, generators)
    if not cells:
        drawn = [name for name, each in GENERATORS.items() if any(kind.name in each.probes for kind in kinds or ())]
        known = f"some of {', '.join([*JUDGES, *drawn])}"
        raise InputError("generators", list(generators), known, "others do not apply to these metrics and modes")
    return cells


def _applicable(kinds: Kinds | None, metrics: Words | None, modes: Words | None, generators: Words) -> list[_Wanted]:
    return [
        (kind, metric, mode, generator)
        for kind, metric in _declared(kinds, metrics)
        for generator in generators
        for mode in (modes or [declared_mode(kind, metric)])
        if applies(kind, metric, mode, generator)
    ]


def outside(results: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `validate` that lie outside their band by more than the Monte-Carlo error."""
    return results[~results["kept"].astype(bool)]


def describe(row: Any) -> str:
    """Describe one row of `validate` in words."""
    who = f"{'planted' if row.planted else 'fair'} judge{' with refusals' if row.refusals else ''}"
    where = "" if row.generator == JUDGE else f", {row.generator}"
    if row.quantity == "refused":
        return f"{row.probe} {row.metric}, {row.mode}, {who}{where}: refused: {row.note}"
    return (
        f"{row.probe} {row.metric}, {row.mode}, {who}{where}, {row.n_contexts:.0f} contexts: {row.quantity} "
        f"{row.estimate:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}], band {row.low:.3f} to {row.high:.3f}"
        f"{f'; {row.note}' if row.note else ''}"
    )


def _declared(probes: Kinds | None, metrics: Words | None) -> list[tuple[type[ProbeInterface], Metric]]:
    """Return the probes and metrics that declare a calibration, restricted to the named ones."""
    kinds = list(available().values() if probes is None else probes)
    for kind in kinds:
        if not isinstance(kind, type):
            raise InputError("probes", probes, "classes of probes", "write probes=[biaslab.probes.Position]")
    declared = [(kind, metric) for kind in kinds for metric in kind.metrics if metric.calibration is not None]
    known = sorted({metric.name for _, metric in declared})
    wanted = known if metrics is None else list(metrics)
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        meant = did_you_mean(unknown[0], known) if unknown else ""
        remedy = meant or "choose metrics that declare a calibration"
        raise InputError("metrics", unknown or wanted, f"some of {', '.join(known)}", remedy)
    return [(kind, metric) for kind, metric in declared if metric.name in wanted]


def _run_all(cells: Sequence[ValidationCell], jobs: int, report: _Report | None, out: AnyPath | None) -> pd.DataFrame:
    """Run the cells that are not in the file; report and write each one as soon as it is done."""
    sheet = Sheet(None if out is None else require_file("out", out))
    finished = {index: rows for index, cell in enumerate(cells) if (rows := sheet.find(cell)) is not None}
    open_cells = {index: cell for index, cell in enumerate(cells) if index not in finished}
    for index, rows in _each(open_cells, min(jobs, len(open_cells))):
        finished[index] = rows
        sheet.add(rows)
        if report is not None:
            report(rows)
    return pd.concat([finished[index] for index in range(len(cells))], ignore_index=True)


def _each(cells: dict[int, ValidationCell], jobs: int) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield the index and rows of each cell as it is done; with several jobs, in any order."""
    if jobs <= 1:
        yield from ((index, run(cell)) for index, cell in cells.items())
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(run, cell): index for index, cell in cells.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def __dir__() -> list[str]:
    return __all__
