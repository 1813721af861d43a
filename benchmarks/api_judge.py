"""Replies a second of an API judge, and what each costs in CPU time.

A loopback server in another process answers every chat completion after 200 ms. With 64 requests in flight it could
give 320 replies a second. Beside `ApiJudge`: what one writes by hand, 64 tasks over the SDK's ``AsyncOpenAI``, with
its default transport and with its aiohttp transport, which is `ApiJudge`'s own; and `ApiJudge` with a store, which has
every reply on the disk first. The methods take turns. In the first round `ApiJudge` meets the server: it asks once,
then 32 at a time, then one more per reply. Later rounds show what it does once it knows the server; columns are medians
of those.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import openai
import pandas as pd

import biaslab as bl
from biaslab.core import Completion
from biaslab.judges.api import ApiJudge

TEXT = "The council voted on 12 May to close the old bridge; ten people said that it should stay open. " * 8
BARE = "AsyncOpenAI"


def requests(count: int, label: str) -> list[Completion]:
    """Different prompts of about 200 tokens."""
    return [
        Completion(f"{TEXT} {label} {number}: how coherent is it, from 1 to 10?", max_tokens=8)
        for number in range(count)
    ]


async def plain(url: str, wanted: list[Completion], concurrency: int, aiohttp: bool) -> int:
    """Ask as the SDK's own example does: so many tasks, one client."""
    http = openai.DefaultAioHttpClient() if aiohttp else None
    waiting, texts = iter(wanted), []
    async with openai.AsyncOpenAI(api_key="none", base_url=url, http_client=http) as client:

        async def work() -> None:
            for request in waiting:
                turns = [{"role": m.role, "content": m.content} for m in request.messages]
                reply = await client.chat.completions.create(model="judge", messages=turns, max_tokens=8, temperature=0)
                texts.append(reply.choices[0].message.content)

        await asyncio.gather(*(work() for _ in range(concurrency)))
    return len(texts)


def measure(run: Callable[[], int], count: int, ideal: float) -> dict[str, float]:
    """Run once; return replies a second, their share of the ideal, and milliseconds of CPU a reply."""
    wall, cpu = time.perf_counter(), time.process_time()
    assert run() == count
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"seconds": wall, "per_second": count / wall, "of_ideal": count / wall / ideal, "cpu_ms": 1000 * cpu / count}


def rounds(url: str, folder: str) -> list[dict[str, object]]:
    """Let the methods take turns; return a row for each run."""
    ideal, rows = options.concurrency / options.latency, list[dict[str, object]]()
    judge, other = (ApiJudge("judge", url, max_concurrency=options.concurrency) for _ in range(2))
    with closing(judge), closing(other), bl.Store(Path(folder, "replies.sqlite")) as store:
        stored = store.wrap(other)
        methods: dict[str, Callable[[list[Completion]], int]] = {
            BARE: lambda wanted: asyncio.run(plain(url, wanted, options.concurrency, False)),
            f"{BARE}, aiohttp": lambda wanted: asyncio.run(plain(url, wanted, options.concurrency, True)),
            "ApiJudge": lambda wanted: sum(1 for _ in judge.ask(wanted)),
            "ApiJudge, store": lambda wanted: sum(1 for _ in stored.ask(wanted)),
        }
        for number in range(options.rounds):
            for name, method in methods.items():
                wanted = requests(options.requests, f"{name} {number}")
                row = measure(lambda m=method, w=wanted: m(w), options.requests, ideal)  # type: ignore[misc]
                rows.append({"method": name, "round": number, **row})
                print(rows[-1], flush=True)
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return medians of the rounds after the first, and ratios to both bare loops; ``first`` is the first round's."""
    later = rows[rows["round"] > 0] if rows["round"].any() else rows
    table = later.groupby("method", sort=False).median().drop(columns="round")
    table["first_per_second"] = rows[rows["round"] == 0].set_index("method")["per_second"]
    for bare in (BARE, f"{BARE}, aiohttp"):
        table[f"of {bare}"] = table["per_second"] / table.loc[bare, "per_second"]
    return table.round(3).reset_index()


def main() -> None:
    """Run, print and write the table."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options_of_server = ["--port", str(port), "--latency", str(options.latency)]
    server = subprocess.Popen([sys.executable, "-m", "biaslab.testing", *options_of_server])
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        with tempfile.TemporaryDirectory() as folder:
            table = summary(pd.DataFrame(rounds(f"http://127.0.0.1:{port}/v1", folder)))
    finally:
        server.terminate()
    table.to_csv(options.out, index=False)
    print(
        f"\n{options.requests} requests, {options.concurrency} in flight, {1000 * options.latency:.0f} ms: "
        f"{options.concurrency / options.latency:.0f}/s is ideal"
    )
    print(table.to_string(index=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=3200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--out", type=Path, default=Path("api_judge.csv"))
    options = parser.parse_args()
    main()
