"""Whether `biaslab.compare` keeps its promises: the studies of `biaslab validate --generator two_judges`, in minutes.

Contexts are drawn as there, with the same random numbers. The jackknife is computed from sums of contexts instead of
from trials, which is a thousand times quicker; of some studies both are computed, and have to be equal.

    python benchmarks/compare_calibration.py                 # 1000 studies of 8, 24 and 100 contexts
    python benchmarks/compare_calibration.py --metric verbosity_slope --population 600 --studies 200
"""

from __future__ import annotations

import argparse
import zlib
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

import biaslab as bl
from biaslab.calibration.cells import JUDGES, TWO, ValidationCell, _probe_judge_and_data, declared_mode
from biaslab.calibration.population import Population, difference_each, studies, weaker
from biaslab.judges.repetition import AnswerMode

METRICS = ((bl.probes.Position, "first_position_rate"), (bl.probes.Verbosity, "verbosity_slope"))
CONTEXTS = (8, 24, 100)
ROUNDING = 1e-12


def position_sums(trials: pd.DataFrame) -> np.ndarray:
    """Return decisions for the first and decisions, a row a context."""
    first = pd.DataFrame({"first": (trials["value"] > 0.5).astype(float), "all": 1.0})
    return first.groupby(pd.factorize(trials["context_id"])[0]).sum().to_numpy()


def position_rate(sums: np.ndarray) -> np.ndarray:
    """Return the share of decisions for the first."""
    return sums[..., 0] / sums[..., 1]


def slope_sums(trials: pd.DataFrame) -> np.ndarray:
    """Return what least squares within contexts, and the standard deviation of all scores, are made of."""
    codes = pd.factorize(trials["context_id"])[0]
    columns = np.column_stack([np.log2(trials["words"].to_numpy(float)), trials["human"], trials["value"]])
    means = pd.DataFrame(columns).groupby(codes).transform("mean").to_numpy()
    x, h, y = (columns - means).T
    value = columns[:, 2]
    products = np.column_stack([x * x, x * h, h * h, x * y, h * y, np.ones_like(y), value, value**2])
    return pd.DataFrame(products).groupby(codes).sum().to_numpy()


def slope(sums: np.ndarray) -> np.ndarray:
    """Return the slope of standardised scores on doublings at equal human score."""
    xx, xh, hh, xy, hy, n, total, square = np.moveaxis(sums, -1, 0)
    spread = np.sqrt((square - total**2 / n) / (n - 1))
    return (xy * hh - hy * xh) / (xx * hh - xh**2) / spread


SUMS = {"first_position_rate": (position_sums, position_rate), "verbosity_slope": (slope_sums, slope)}


@dataclass(frozen=True)
class Pair:
    """Two judges of one population: sums of contexts of both, and how they make the metric."""

    cell: ValidationCell
    population: Population
    sums: tuple[np.ndarray, np.ndarray]
    metric: object

    @property
    def truth(self) -> float:
        """The difference over the whole population."""
        one, two = (float(self.metric(each.sum(axis=0))) for each in self.sums)
        return two - one

    def jackknifed(self, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return differences and their standard errors, given the contexts of studies, shape (studies, contexts)."""
        values, without = [], []
        for each in self.sums:
            own = each[drawn]
            total = own.sum(axis=1)
            values.append(self.metric(total))
            without.append(self.metric(total[:, None] - own))
        value, size = values[1] - values[0], drawn.shape[1]
        shift = without[1] - without[0] - value[:, None]
        return value, np.sqrt((size - 1) / size * (shift**2).sum(axis=1))


def shares(pair: Pair, contexts: int, number: int) -> list[dict[str, object]]:
    """Return the rows of one size, as `biaslab.validate` has them."""
    cell = pair.cell
    name = f"{cell.kind.name} {cell.metric.name} {cell.planted} False {cell.mode} {cell.generator}"
    seed = (cell.seed, zlib.crc32(name.encode()))
    rngs = [np.random.default_rng([*seed, contexts, k]) for k in range(number)]
    drawn = np.array([rng.integers(len(pair.population.counts), size=contexts) for rng in rngs])
    value, error = pair.jackknifed(drawn)
    reach, varies = stats.t.ppf(0.975, contexts - 1) * error, error > ROUNDING
    rows = []
    for quantity, hits in (
        ("power" if cell.planted else "type_i_error", varies & (np.abs(value) > reach)),
        ("coverage", np.abs(value - pair.truth) <= reach),
    ):
        low, high = proportion_confint(int(hits.sum()), number, method="wilson")
        where = {"metric": cell.metric.name, "planted": cell.planted, "n_contexts": contexts, "quantity": quantity}
        rows.append(where | {"estimate": hits.mean(), "ci_low": low, "ci_high": high, "truth": pair.truth})
    return rows


def compared_with_the_package(pair: Pair, contexts: int, number: int = 25) -> float:
    """Return by how much estimates and ends of intervals differ at most from those of `biaslab.compare`."""
    cell = pair.cell
    seed = (cell.seed, 1)
    [(trials, resampled)] = studies(pair.population, contexts, number, seed)
    probe = cell.kind(**cell.calibration.parameters)
    found = difference_each(probe, trials, cell.metric.name, bl.Resampling(seed=resampled))
    rngs = [np.random.default_rng([*seed, contexts, k]) for k in range(number)]
    drawn = np.array([rng.integers(len(pair.population.counts), size=contexts) for rng in rngs])
    value, error = pair.jackknifed(drawn)
    reach = stats.t.ppf(0.975, contexts - 1) * error
    own = np.column_stack([value, value - reach, value + reach])
    theirs = found.sort_values("dataset")[["estimate", "ci_low", "ci_high"]].to_numpy(float)
    return float(np.abs(own - theirs).max())


def pairs_of(kind: type, name: str, population: int) -> list[Pair]:
    """Let the three judges of a metric answer: the reference, and the weaker one without and with the bias."""
    metric = next(one for one in kind.metrics if one.name == name)
    mode = declared_mode(kind, metric)
    fair, planted = (
        ValidationCell(kind, metric, biased, mode, TWO, (8,), (), 1, population, 0) for biased in (False, True)
    )
    probe, judge, data = _probe_judge_and_data(fair, AnswerMode(mode))
    reference = bl.collect(probe, judge, data, progress=False)
    summed, make = SUMS[name]
    found = []
    for cell in (fair, planted):
        _, other, _ = _probe_judge_and_data(cell, AnswerMode(mode), like=weaker)
        trials = bl.collect(probe, other, data, progress=False)
        both = Population.known(pd.concat([reference, trials], ignore_index=True), 0.0, 0.0)
        found.append(Pair(replace(cell), both, (summed(reference), summed(trials)), make))
    return found


def main() -> None:
    """Run all studies and print the table."""
    parser = argparse.ArgumentParser(description=JUDGES[TWO])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--population", type=int, default=5000)
    parser.add_argument("--metric", choices=list(SUMS), action="append", help="one of the two; both by default")
    parser.add_argument("--checked", type=int, default=8, help="contexts of the studies that both compute")
    given = parser.parse_args()
    rows = []
    for kind, name in METRICS:
        if given.metric and name not in given.metric:
            continue
        for pair in pairs_of(kind, name, given.population):
            apart = compared_with_the_package(pair, given.checked)
            print(f"{name}, planted {pair.cell.planted}: at most {apart:.1e} from biaslab.compare", flush=True)
            for contexts in CONTEXTS:
                rows += shares(pair, contexts, given.studies)
    print(pd.DataFrame(rows).round(4).to_string(index=False))


if __name__ == "__main__":
    main()
