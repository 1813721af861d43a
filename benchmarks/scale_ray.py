"""What replicas on Ray give, and what they cost the process that asks.

A judge that sleeps 20 ms a request, in this process and as one and eight replicas on a local cluster; then a judge that
answers at once, as two replicas: CPU time of the driver a reply, without and with a store, which has every reply on the
disk first.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pandas as pd

import biaslab as bl
from biaslab.core import Choice, Judge, Reply, Request, Usage
from biaslab.core.requests import About

TEXT = "The council voted on 12 May to close the old bridge; ten people said that it should stay open. " * 8
PER_CONTEXT = 24


class Sleeping:
    """Answers one request after the other, each after so many seconds."""

    kinds: frozenset[type] = frozenset({Choice})

    def __init__(self, seconds: float) -> None:
        self.seconds, self.id = seconds, f"sleeping:{seconds}"

    def check(self, requests: Iterable[Request]) -> None:
        """Refuse nothing."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer."""
        for request in requests:
            if self.seconds:
                time.sleep(self.seconds)
            yield request, Reply(logprobs=(-0.4, -1.2), usage=Usage(300))


def sleeping() -> Judge:
    """Make the judge that sleeps, in a replica."""
    return Sleeping(0.02)


def instant() -> Judge:
    """Make the judge that answers at once."""
    return Sleeping(0.0)


def requests(count: int) -> list[Request]:
    """Different prompts of about 200 tokens, some to a context, as a probe of pairs asks them."""
    abouts = [
        About(f"context {number}", ("c1", "c2"), (TEXT, TEXT), ("fluency",))
        for number in range(-(-count // PER_CONTEXT))
    ]
    labels = ("Summary A", "Summary B")
    return [
        Choice(f"{TEXT} {number}: which is more fluent, Summary A or Summary B?", labels, abouts[number // PER_CONTEXT])
        for number in range(count)
    ]


def measure(name: str, judge: Judge, wanted: list[Request]) -> dict[str, object]:
    """Ask once; return replies a second and milliseconds of CPU a reply, of this process with all its threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    assert sum(1 for _ in judge.ask(wanted)) == len(wanted)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    row = {"method": name, "replies": len(wanted), "seconds": wall, "per_second": len(wanted) / wall}
    print(row | {"cpu_ms": 1000 * cpu / len(wanted)}, file=sys.stderr, flush=True)
    return row | {"cpu_ms": 1000 * cpu / len(wanted)}


def main() -> None:
    """Run, print and write the table."""
    import scale_ray  # replicas find what they are made of in this module, whatever it is called while it runs

    rows = [measure("sleeps 20 ms, in this process", sleeping(), requests(options.sleeps // options.replicas))]
    for replicas in (1, options.replicas):
        with closing(bl.RayJudge(scale_ray.sleeping, replicas)) as judge:
            list(judge.ask(requests(PER_CONTEXT * replicas)))  # processes start
            wanted = requests(options.sleeps * replicas // options.replicas)
            rows.append(measure(f"sleeps 20 ms, {replicas} on Ray", judge, wanted))
    with closing(bl.RayJudge(scale_ray.instant, 2)) as judge, tempfile.TemporaryDirectory() as folder:
        list(judge.ask(requests(PER_CONTEXT)))
        wanted = requests(options.instant)
        rows.append(measure("answers at once, 2 on Ray", judge, wanted))
        wall, cpu = time.perf_counter(), time.process_time()
        judge.check(wanted)
        print(
            f"check: {1000 * (time.process_time() - cpu) / len(wanted):.3f} ms CPU, {time.perf_counter() - wall:.2f} s"
        )
        with bl.Store(Path(folder, "replies.sqlite")) as store:
            rows.append(measure("answers at once, 2 on Ray, store", store.wrap(judge), wanted[: options.stored]))
    table = pd.DataFrame(rows)
    table["of_one"] = table["per_second"] / table["per_second"].iloc[1]
    table.round(3).to_csv(options.out, index=False)
    print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--sleeps", type=int, default=3840, help="requests of all replicas together")
    parser.add_argument("--instant", type=int, default=20000)
    parser.add_argument("--stored", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("scale_ray.csv"))
    options = parser.parse_args()
    main()
