"""What comparing two judges takes: by the values that estimates carry, and by estimating anew without each context.

    python benchmarks/compare.py --contexts 96 10080 --out compare.csv

Two simulated judges, both ways in one run. Columns: probe, contexts, judgements of a judge, seconds of one core for
two estimates, for the whole comparison and for the values without each context computed anew (beyond ``--anew``
contexts, for so many of them, times all), their ratio, and the largest difference between the values. Target: .5 s for
96 contexts, 2 s for 10,000.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import biaslab as bl
from biaslab.stats.joint_jackknife import estimated_rows, rows_by_cell, with_fast_intervals, without_each

PROBES = {
    "position": bl.probes.Position(attributes=["coherence"], templates=[1], n_pairs=2),
    "verbosity": bl.probes.Verbosity(attributes=["coherence"]),
    "verbosity, verdicts": bl.probes.Verbosity(attributes=["coherence"], asks=["pairs"], answer="text"),
}


def judged(probe: Any, contexts: int, seed: int) -> pd.DataFrame:
    """Return the trials of a judge; beyond the data's contexts, their copies under other names."""
    data = bl.load_dataset("graded", limit=min(contexts, 96))
    judge = bl.SimulatedJudge(data, noise=1.0, context_noise=0.5, position=0.3 * seed, verbosity=0.3 * seed, seed=seed)
    trials = bl.collect(probe, judge, data, progress=False)
    copies = range(-(-contexts // trials["context_id"].nunique()))
    names = [{name: trials[name] + f" {number}" for name in ("context_id", "key")} for number in copies]
    return pd.concat([trials.assign(**each) for each in names], ignore_index=True)


def seconds(step: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a core that a step takes, and what it returns."""
    started = time.process_time()
    result = step()
    return time.process_time() - started, result


def measure(name: str, contexts: int, most: int) -> dict[str, object]:
    """Return the row of a probe and a number of contexts."""
    probe, (one, two) = PROBES[name], (judged(PROBES[name], contexts, seed) for seed in (0, 1))
    twice, ((rows, _), conditions) = seconds(lambda: estimated_rows(probe, [one, two], list(probe.primary)))
    whole, _ = seconds(lambda: bl.compare([one, two], progress=False))
    columns = ["metric", "dataset", *conditions]
    cells = rows_by_cell(rows, columns)
    [carried] = without_each(probe, [one], [cells], columns)[:, :, 0]
    names = one["context_id"].unique()[:most]
    quick = with_fast_intervals(probe)

    def anew() -> np.ndarray:
        left = (quick.estimate(one[one["context_id"] != name], list(probe.primary)) for name in names)
        return np.array([frame["estimate"].iloc[0] for frame in left])

    each, values = seconds(anew)
    old, apart = 2 * each * contexts / len(names), float(np.abs(carried[: len(names)] - values).max())
    row = {"probe": name, "contexts": one["context_id"].nunique(), "judgements": len(one), "estimates": twice}
    return row | {"compare": whole, "anew": old, "times": old / whole, "apart": apart}


def main() -> None:
    """Measure every probe and number of contexts, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, nargs="+", default=[96, 10_080])
    parser.add_argument("--anew", type=int, default=96)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    measure("verbosity", 12, 2)  # imports and caches
    table = pd.DataFrame([measure(name, contexts, given.anew) for name in PROBES for contexts in given.contexts])
    print(table.to_string(index=False, float_format="{:.3g}".format), flush=True)
    if given.out:
        table.to_csv(given.out, index=False)


if __name__ == "__main__":
    main()
