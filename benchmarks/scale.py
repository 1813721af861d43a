"""How far one process goes: judgements a second, peak memory, commits, and estimates of millions of judgements.

    python -P benchmarks/scale.py                          # all rows, small sizes
    python -P benchmarks/scale.py --sizes 1e6 1e7 --only memory estimate --folder /somewhere/with/space

`Position` on numbered copies of the bundled set ``graded`` with 32 candidates a context, 7,936 judgements each, so that
no two prompts are equal; a judge that answers at once, 500 replies at a time. Each row runs in a process of its own.

memory    ``collect(out=…)`` without a store, by size: judgements a second, peak memory of the process
plain     ``collect`` without a store and without a file
floor     the same design made twice and nothing else: what of ``plain`` is the probe's own work
store     ``collect`` into an empty store: every pack is on the disk before it is handed on
again     the same once more: everything comes from the store
single    into an empty store by a judge that yields its replies one by one; those within 5 ms share a commit
estimate  all estimates of the files that ``memory`` wrote
bare      the design made once, and a loop over the judge's replies to it: nothing is checked, read, kept or held
sqlite    the rows of ``store``, which are there, written by sqlite3's own ``executemany`` in one transaction
commits   the same, each row in a transaction of its own: what ``single`` would cost without groups

Columns: judgements, seconds, judgements a second, CPU microseconds a judgement, peak memory in MB, of which the process
held so much before it began; and how many times as long as its bare row (``bare``, ``sqlite``, ``commits``) a row took,
in seconds and in CPU time. With ``--rounds`` the rows take turns, and each column is the best of its rounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import biaslab as bl
from biaslab.core import Choice, Reply, Usage

CANDIDATES = 32
EACH = CANDIDATES * (CANDIDATES - 1) * 8  # judgements of a context: both orders of each pair, 4 attributes, 2 templates
PACK = 500
BARE = {"plain": "bare", "store": "sqlite", "single": "commits"}


class OneByOne:
    """A judge that answers at once, one request after the other."""

    id, kinds = "instant", frozenset({Choice})

    def check(self, requests: Any) -> None:
        """Refuse nothing."""

    def ask(self, requests: Any) -> Any:
        """Answer one after the other."""
        for request in requests:
            yield request, reply_to(request)


class Instant(OneByOne):
    """The same, a pack at a time."""

    def packs(self, requests: Any) -> Any:
        """Answer a pack at a time."""
        asked = list(requests)
        for start in range(0, len(asked), PACK):
            yield [(request, reply_to(request)) for request in asked[start : start + PACK]]


REPLIES = [Reply(logprobs=(-0.05 * (1 + at), -3.2), usage=Usage(400)) for at in range(37)]


def reply_to(request: Any) -> Reply:
    """Prefer what stands first, more or less."""
    return REPLIES[len(request.messages[0].content) % len(REPLIES)]


def copies(judgements: int) -> bl.Dataset:
    """Numbered copies of some contexts of ``graded`` with 32 candidates each."""
    data = bl.load_dataset("graded", limit=8)
    some = dict(iter(data.candidates.groupby("context_id")))
    names, people = list(some), data.human.groupby(["context_id", "candidate_id"])["score"].mean()
    candidates, human = [], []
    for number in range(max(judgements // EACH, 1)):
        name = names[number % len(names)]
        rows, context = some[name], f"{name}-{number}"
        shown, texts = f"{number}: {rows['context'].iloc[0]}", rows["text"].tolist()
        for at in range(CANDIDATES):
            of = at % len(texts)
            text = texts[of] if at < len(texts) else f"{texts[of]} ({at // len(texts)})"
            candidates.append((context, shown, f"c{at + 1:02}", "", text, ""))
            score = float(people[name, rows["candidate_id"].iloc[of]])
            human += [(context, f"c{at + 1:02}", attribute, "all", score) for attribute in data.attributes]
    frames = (
        pd.DataFrame(candidates, columns=list(data.candidates)),
        pd.DataFrame(human, columns=list(data.human)),
    )
    return replace(data, candidates=frames[0], human=frames[1])


def write(rows: list[tuple[Any, ...]], path: Path, one_by_one: bool) -> None:
    """Write rows as a store does: each transaction is on the disk."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            f"CREATE TABLE replies (key TEXT PRIMARY KEY, {', '.join(f'c{n}' for n in range(1, len(rows[0])))})"
        )
        insert = f"INSERT OR IGNORE INTO replies VALUES ({', '.join('?' * len(rows[0]))})"
        for part in ([row] for row in rows) if one_by_one else [rows]:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(insert, part)
            connection.execute("COMMIT")


def peak() -> float:
    """Largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(what: str, size: int, folder: Path) -> dict[str, Any]:
    """Run one row in this process."""
    probe, store, file = bl.probes.Position(), folder / f"{what}.sqlite", folder / f"trials-{size}.parquet"
    data = None if what == "estimate" else copies(size)
    if what == "again":
        bl.collect(probe, Instant(), data, store=store, progress=False)
    if what in ("sqlite", "commits"):
        bl.collect(probe, Instant(), data, store=store, progress=False)
        with closing(sqlite3.connect(store)) as connection:
            rows = connection.execute("SELECT * FROM replies").fetchall()
    before, started, worked = peak(), time.perf_counter(), time.process_time()
    if what == "estimate":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            probe.estimate(file)
    elif what == "floor":
        for _ in range(2):
            sum(1 for _ in probe.design(data))
    elif what == "bare":
        sum(1 for _ in OneByOne().ask(trial.request for trial in probe.design(data)))
    elif what in ("sqlite", "commits"):
        write(rows, folder / f"{what}-bare.sqlite", one_by_one=what == "commits")
    elif what == "memory":
        bl.collect(probe, Instant(), data, progress=False, out=file)
    elif what == "plain":
        bl.collect(probe, Instant(), data, progress=False)
    else:
        judge = OneByOne() if what == "single" else Instant()
        bl.collect(probe, judge, data, store=store, progress=False)
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    judgements = len(rows) if what in ("sqlite", "commits") else max(size // EACH, 1) * EACH
    return {
        "what": what,
        "judgements": judgements,
        "seconds": round(seconds, 2),
        "a_second": round(judgements / seconds),
        "cpu_us": round(1e6 * work / judgements, 1),
        "peak_mb": round(peak()),
        "before_mb": round(before),
    }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the best of the rounds of each row, and how many times as long as its bare row it took."""
    best = {name: "max" if name == "a_second" else "min" for name in rows.columns[2:]}
    table = rows.groupby(["what", "judgements"], sort=False).agg(best).reset_index()
    known = table.set_index("what")
    for name, faster in (("a_second", -1), ("cpu_us", 1)):
        column = known[name].to_dict()
        pairs = [(what, BARE.get(what)) for what in table["what"]]
        ratios = [column[what] / column[bare] if bare in column else None for what, bare in pairs]
        table[f"times_bare_{name}"] = [ratio and round(ratio**faster, 2) for ratio in ratios]
    return table


def main() -> None:
    """Run rows one after the other, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[80_000, 800_000], help="of memory and estimate")
    parser.add_argument("--size", type=float, default=120_000, help="of the other rows")
    parser.add_argument(
        "--only",
        nargs="+",
        default=["memory", "floor", "bare", "plain", "sqlite", "store", "again", "commits", "single", "estimate"],
    )
    parser.add_argument("--rounds", type=int, default=1, help="times that each row runs")
    parser.add_argument("--folder", type=Path, help="where files and stores lie; a temporary one by default")
    parser.add_argument("--out", type=Path, help="write the table as CSV")
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        print(json.dumps(measure(given.row[0], int(given.row[1]), given.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        rows = []
        for what in given.only * given.rounds:
            sizes = given.sizes if what in ("memory", "estimate") else [given.size]
            for size in sizes:
                for old in folder.glob(f"{what}*.sqlite*"):
                    old.unlink()
                size = 12_000 if what in ("single", "commits") else size
                asked = [sys.executable, "-P", __file__, "--folder", str(folder), "--row", what, str(int(size))]
                found = subprocess.run(asked, check=True, capture_output=True, text=True)
                rows.append(json.loads(found.stdout.splitlines()[-1]))
                print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1), flush=True)
        table = summary(pd.DataFrame(rows))
        print(f"\n{table.to_string(index=False)}")
        if given.out:
            table.to_csv(given.out, index=False)


if __name__ == "__main__":
    main()
