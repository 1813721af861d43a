"""How the time of each step of an audit grows with the contexts: reading, doctor, every measure, the page.

    python benchmarks/audit_growth.py --contexts 25000 100000 --out audit_growth.csv

Two CSV logs: "pairs", of two systems judged in both orders with people's preferences, and "scores", of two systems
scored twice with human scores; both with the lengths of the texts. Columns: step, seconds of one core (which other
processes slow down little) for each number of contexts, and how many times as long the last takes as the first, divided
by how many times as many contexts it has: 1 is linear. Target: at most 5 times as long for 4 times the contexts (1.25),
and reading 100,000 rows in 5 s.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.logs.audit import audit, doctor
from biaslab.logs.audit.run import measures, prepared
from biaslab.logs.readers import read_judgements
from biaslab.report.page import page
from biaslab.stats.resample import Resampling


def write_log(file: Path, contexts: int, rng: np.random.Generator) -> None:
    """Write two judgements a context, one an order, of a judge that likes the first and the better one."""
    question, swapped = np.repeat(np.arange(contexts), 2), np.tile([False, True], contexts)
    better = np.repeat(rng.random(contexts) < 0.5, 2)  # the first system, by people
    first = rng.random(2 * contexts) < 0.55 + 0.2 * np.where(better != swapped, 1, -1)
    words = rng.integers(20, 200, (2, 2 * contexts))
    pd.DataFrame(
        {
            "context_id": question,
            "candidate_id": np.where(swapped, "theirs", "mine"),
            "opponent_id": np.where(swapped, "mine", "theirs"),
            "winner": np.where(first, "first", "second"),
            "preference": np.where(better, "mine", "theirs"),
            "words": words[0],
            "opponent_words": words[1],
        }
    ).to_csv(file, index=False)


def write_scores(file: Path, contexts: int, rng: np.random.Generator) -> None:
    """Write two scores of two systems a context by a judge that sees quality with noise and likes length."""
    quality, words = rng.normal(size=2 * contexts), rng.integers(20, 200, 2 * contexts)
    human = np.clip(np.round(3 + quality + 0.3 * rng.normal(size=2 * contexts)), 1, 5)
    score = 3 + quality + 0.3 * np.log2(words / 60) + 0.5 * rng.normal(size=(2, 2 * contexts))
    pd.DataFrame(
        {
            "context_id": np.tile(np.repeat(np.arange(contexts), 2), 2),
            "candidate_id": np.tile(["mine", "theirs"], 2 * contexts),
            "score": np.clip(np.round(score), 1, 5).ravel(),
            "scale": "1-5",
            "human": np.tile(human, 2),
            "words": np.tile(words, 2),
            "replicate": np.repeat([0, 1], 2 * contexts),
        }
    ).to_csv(file, index=False)


def seconds(step: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a core that a step takes, and what it returns."""
    started = time.process_time()
    result = step()
    return time.process_time() - started, result


def measure(contexts: int, write: Callable[[Path, int, np.random.Generator], None]) -> dict[str, float]:
    """Return the seconds of each step for a log of so many contexts."""
    taken: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.csv"
        write(file, contexts, np.random.default_rng(0))
        taken["reading"], trials = seconds(lambda: read_judgements(file))
    taken["doctor"], _ = seconds(lambda: doctor(trials))
    given = prepared(trials)
    for name, kind in measures(Resampling()).items():
        taken[f"accepts {name}"], accepted = seconds(lambda kind=kind: kind.accepts(given))
        if len(accepted.trials):
            runs = accepted.probe or kind
            taken[name], _ = seconds(lambda runs=runs, accepted=accepted: runs.estimate(accepted.trials))
    taken["whole audit"], estimates = seconds(lambda: audit(trials))
    taken["page"], _ = seconds(lambda: page(estimates))
    return taken


LOGS = {"pairs": write_log, "scores": write_scores}


def main() -> None:
    """Measure every number of contexts, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, nargs="+", default=[25_000, 100_000])
    parser.add_argument("--logs", nargs="+", choices=LOGS, default=list(LOGS))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = {}
    for name in given.logs:
        measure(200, LOGS[name])  # imports and caches
        tables[name] = pd.DataFrame({contexts: measure(contexts, LOGS[name]) for contexts in given.contexts})
    table = pd.concat(tables, names=["log", "step"])
    first, last = given.contexts[0], given.contexts[-1]
    table["growth"] = table[last] / table[first] / (last / first)
    table = table[table[last] >= 0.05]
    print(table.round(2).to_string(), flush=True)
    if given.out:
        table.to_csv(given.out)


if __name__ == "__main__":
    main()
