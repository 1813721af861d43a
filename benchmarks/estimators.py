"""How fast the cluster bootstrap is, beside judgecal's and scipy's, on the same trials in one run.

    pip install judgecal==0.1.0   # left out, with a message, where it is not installed
    python benchmarks/estimators.py --out estimators.csv

Methods
-------
biaslab      `Ratio.estimate`: trials to sums of contexts, then B weighted resamples (percentile, as the others)
same draws   biaslab's bootstrap of contexts in order of appearance, as judgecal numbers them: the very same resamples
biaslab t    the same as biaslab with the default studentised interval and the sign-flip test
judgecal     ``cluster_bootstrap_ci`` of judgecal 0.1.0 (PyPI), statistic: mean of the resampled frame's column
scipy        ``scipy.stats.bootstrap`` on sums of contexts that pandas makes, a ratio of sums, percentile

Columns: seconds (the best of the repeats), how many times as long as ``biaslab``, peak memory of the process and what
of it the method added to the imports and the trials (MB), estimate and 95 % interval. Every method runs in a process
of its own, one after the other, on the same million trials with integer contexts, which suits judgecal best. ``same
draws`` and ``judgecal`` must have the same interval to the last digits. The others rest on draws of their own: with
B = 2000 an end of the interval has a standard deviation of about 1.8 % of the width.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.stats.blocks import sum_by_context
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, bootstrap_smooth, percentile

Interval = tuple[float, float, float]


def make_trials(trials: int, contexts: int, seed: int) -> pd.DataFrame:
    """Return trials whose contexts differ in size and in rate, in random order."""
    rng = np.random.default_rng(seed)
    context = rng.integers(0, contexts, trials)
    rates = rng.beta(6, 4, contexts)
    return pd.DataFrame({"context_id": context, "value": (rng.random(trials) < rates[context]).astype(float)})


def run_biaslab(frame: pd.DataFrame, n: int, *, default: bool) -> Interval:
    """Estimate through the public path, reduction included."""
    ratio = Ratio(frame["context_id"], frame["value"], np.ones(len(frame)), 0.5 if default else None, (0.0, 1.0))
    found = ratio.estimate(Resampling(n=n, method="studentised" if default else "percentile"))
    return found.estimate, found.ci_low, found.ci_high


def run_same_draws(frame: pd.DataFrame, n: int) -> Interval:
    """Resample contexts in order of appearance, which with the same seed are judgecal's resamples."""
    sums, _ = sum_by_context(frame["context_id"], frame["value"], np.ones(len(frame)))
    replicates, _ = bootstrap_smooth(sums, lambda s: (s[:, 0] / s[:, 1], np.zeros_like(s)), n, seed=0)
    return float(sums[:, 0].sum() / sums[:, 1].sum()), *percentile(replicates, 0.95)


def run_judgecal(frame: pd.DataFrame, n: int) -> Interval:
    """Estimate with judgecal."""
    from judgecal.stats.bootstrap import cluster_bootstrap_ci

    found = cluster_bootstrap_ci(frame, lambda drawn: float(drawn["value"].to_numpy().mean()), "context_id", n_boot=n)
    return found.estimate, found.ci_low, found.ci_high


def run_scipy(frame: pd.DataFrame, n: int) -> Interval:
    """Estimate with scipy on the sums of contexts."""
    sums = frame.groupby("context_id")["value"].agg(["sum", "count"]).to_numpy(float)

    def ratio(total: np.ndarray, count: np.ndarray, axis: int = -1) -> np.ndarray:
        return total.sum(axis=axis) / count.sum(axis=axis)

    found = stats.bootstrap(
        tuple(sums.T), ratio, paired=True, n_resamples=n, batch=100, method="percentile", rng=np.random.default_rng(0)
    )
    return float(ratio(*sums.T)), float(found.confidence_interval.low), float(found.confidence_interval.high)


METHODS: dict[str, tuple[Callable[[pd.DataFrame, int], Interval], int]] = {
    "biaslab": (partial(run_biaslab, default=False), 3),
    "same draws": (run_same_draws, 3),
    "biaslab t": (partial(run_biaslab, default=True), 3),
    "scipy": (run_scipy, 2),
    "judgecal": (run_judgecal, 1),
}


def measure(name: str, trials: int, contexts: int, n: int, seed: int) -> dict[str, float | str]:
    """Run one method and return a row of the table."""
    method, repeats = METHODS[name]
    frame = make_trials(trials, contexts, seed)
    method(frame.head(1000), 100)  # imports, and what is set up once
    before, seconds = _peak_megabytes(), []
    for _ in range(repeats):
        start = time.perf_counter()
        estimate, low, high = method(frame, n)
        seconds.append(time.perf_counter() - start)
    peak = _peak_megabytes()
    row = {"seconds": min(seconds), "peak_mb": peak, "added_mb": peak - before}
    return {"method": name, **row, "estimate": estimate, "ci_low": low, "ci_high": high}


def _peak_megabytes() -> float:
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main() -> None:
    """Measure every method, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--contexts", type=int, default=10_000)
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="CSV to write")
    options = parser.parse_args()
    rows = []
    for name in METHODS:
        if name == "judgecal" and importlib.util.find_spec("judgecal") is None:
            print("judgecal is not installed and left out: pip install judgecal==0.1.0", file=sys.stderr)
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            case = (name, options.trials, options.contexts, options.replicates, options.seed)
            rows.append(pool.apply(measure, case))
    table = pd.DataFrame(rows)
    table.insert(2, "times_biaslab", table["seconds"] / table["seconds"].iloc[0])
    print(f"{options.trials:,} trials, {options.contexts:,} contexts, B = {options.replicates:,}")
    print(table.to_string(index=False, float_format="{:.6f}".format))
    if options.out:
        table.to_csv(options.out, index=False)


if __name__ == "__main__":
    main()
