"""How long it takes to read and audit recorded judgements, and in how much memory.

    python benchmarks/audit.py --out audit.csv

Two JSON Lines logs of half the judgements each are written to a temporary folder: pairs in both orders with a text that
ends in ``[[A]]``, ``[[B]]`` or ``[[C]]``, and scores of two attributes by three prompts with a text that ends in "Final
score: 4." Every text differs, one line in a thousand is cut off, and one reply in two hundred gives no verdict. Both
are read and audited with all probes in a process of its own. Columns: judgements, megabytes of the files, seconds of
reading and of the audit, together, and of one core, which no other process slows down, peak memory of the process (MB),
malformed lines, estimates. Target: a million judgements in 60 s and 4000 MB on two cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

WORDS = ("the", "answer", "keeps", "to", "what", "was", "asked", "and", "leaves", "out", "some", "detail")
SYSTEMS = 12
BROKEN = 1000


def write_lines(file: Path, records: list[dict[str, object]]) -> None:
    """Write JSON Lines, one in a thousand cut off."""
    lines = [json.dumps(record) for record in records]
    lines[::BROKEN] = [line[: len(line) // 2] for line in lines[::BROKEN]]
    file.write_text("\n".join(lines) + "\n")


def texts(n: int, endings: list[str], rng: np.random.Generator) -> list[str]:
    """Return different texts of about 40 words, each with its ending."""
    drawn = rng.integers(0, len(WORDS), (n, 40))
    return [
        f"Reply {i}: {' '.join(WORDS[w] for w in row)}. {end}"
        for i, (row, end) in enumerate(zip(drawn, endings, strict=True))
    ]


def write_pairs(file: Path, n: int, rng: np.random.Generator) -> None:
    """Write a log of pairs in both orders."""
    pairs = SYSTEMS * (SYSTEMS - 1)
    context, place = np.divmod(np.arange(n), pairs)
    first, second = np.divmod(place, SYSTEMS - 1)
    second = second + (second >= first)
    verdicts = rng.choice(["[[A]]", "[[B]]", "[[C]]", "Both are good."], n, p=[0.5, 0.42, 0.075, 0.005])
    said = texts(n, verdicts.tolist(), rng)
    rows = zip(context.tolist(), first.tolist(), second.tolist(), said, strict=True)
    write_lines(
        file,
        [{"judge": "one", "rep": 1, "question": q, "A": f"m{a}", "B": f"m{b}", "judgment": j} for q, a, b, j in rows],
    )


def write_scores(file: Path, n: int, rng: np.random.Generator) -> None:
    """Write a log of scores: a text a system, attribute, prompt and document."""
    rest, system = np.divmod(np.arange(n), SYSTEMS)
    rest, aspect = np.divmod(rest, 2)
    document, mode = np.divmod(rest, 3)
    scores = rng.integers(1, 6, n)
    ends = [
        f"Final score: {s}." if s_ else "I cannot tell." for s, s_ in zip(scores, rng.random(n) > 0.005, strict=True)
    ]
    said = texts(n, ends, rng)
    names, modes = ("coherence", "consistency"), ("rts", "altrts", "stareval")
    rows = zip(document.tolist(), system.tolist(), aspect.tolist(), mode.tolist(), said, strict=True)
    write_lines(
        file,
        [
            {"judge": "one", "system": f"m{s}", "aspect": names[a], "mode": modes[m], "id": f"doc{d}", "resp": text}
            for d, s, a, m, text in rows
        ],
    )


def measure(folder: str, results: multiprocessing.Queue) -> None:
    """Read and audit the logs of a folder; put what it took into the queue."""
    import biaslab as bl

    warnings.simplefilter("ignore")
    started, cpu = time.perf_counter(), time.process_time()
    trials = bl.read_judgements(folder)
    read = time.perf_counter()
    estimates = bl.audit(trials)
    done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    results.put(
        {
            "judgements": len(trials),
            "megabytes": sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6,
            "reading_s": read - started,
            "audit_s": done - read,
            "seconds": done - started,
            "cpu_s": time.process_time() - cpu,
            "peak_mb": peak,
            "malformed": trials.attrs["malformed"],
            "estimates": len(estimates),
        }
    )


def main() -> None:
    """Make the logs, measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judgements", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    for n in given.judgements:
        with tempfile.TemporaryDirectory() as folder:
            rng = np.random.default_rng(0)
            write_pairs(Path(folder) / "pairs.jsonl", n // 2, rng)
            write_scores(Path(folder) / "scores.jsonl", n - n // 2, rng)
            context = multiprocessing.get_context("spawn")
            results = context.Queue()
            process = context.Process(target=measure, args=(folder, results))
            process.start()
            rows.append(results.get())
            process.join()
        print(pd.DataFrame(rows).round(1).to_string(index=False), flush=True)
    if given.out:
        pd.DataFrame(rows).to_csv(given.out, index=False)


if __name__ == "__main__":
    main()
