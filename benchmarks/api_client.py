"""`ApiJudge` beside the SDK's own client, where a server is limited, breaks down or is slow, and after interruptions.

The plain client is what the SDK's documentation shows: ``AsyncOpenAI(max_retries=6, timeout=…)`` behind a semaphore of
64, each reply appended to a file. `ApiJudge` has 64 in flight, the same timeout, and a store. Both ask a server in
another process, one after the other, and each has a server of its own:

* ``good``: every answer after 100 ms;
* ``limit``: so many requests in each second, then 429 with ``Retry-After``;
* ``overload``: 503 to whatever exceeds 16 in flight, without ``Retry-After``;
* ``bursts``: 500 to all for one second of three;
* ``slow``: one answer in 50 takes a second, and at first one in 200 never comes.

``interrupt`` and ``kill`` end a client of the good server by SIGINT and SIGKILL once a third of the replies is paid
for, and start it again. Columns: seconds of the last start, without imports; requests sent, and turned away (429, 5xx),
per request wanted; requests without a reply; answers paid for twice. ``of_plain`` is the ratio of the seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import openai
import pandas as pd
from aiohttp import web

import biaslab as bl
from biaslab.judges.api import ApiJudge

IN_FLIGHT, TIMEOUT, LATENCY = 64, 3.0, 0.1
SCENARIOS = ("good", "limit", "overload", "bursts", "slow")
ENDINGS = {"interrupt": signal.SIGINT, "kill": signal.SIGKILL}


@dataclass
class Server:
    """One server: what it was asked, turned away and answered."""

    limit: int
    sent: int = 0
    away: int = 0
    open: int = 0
    began: float = 0.0
    in_window: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)

    def refusal(self, scenario: str, now: float) -> tuple[int, dict[str, str]] | None:
        """Return status and headers of a request that is turned away."""
        if scenario == "limit":
            if now - self.began >= 1:
                self.began, self.in_window = now, 0
            self.in_window += 1
            if self.in_window > self.limit:
                return 429, {"retry-after-ms": f"{1000 * (self.began + 1 - now):.0f}"}
        if scenario == "overload" and self.open > 16:
            return 503, {}
        if scenario == "bursts" and now % 3 < 1:
            return 500, {}
        return None


def serve(port: int, limit: int) -> None:
    """Answer at ``/SCENARIO/CLIENT/v1``, and tell the counts at ``/SCENARIO/CLIENT``."""
    servers: dict[str, Server] = {}

    def server_of(request: web.Request) -> Server:
        return servers.setdefault(f"{request.match_info['scenario']} {request.match_info['client']}", Server(limit))

    async def answer(request: web.Request) -> web.Response:
        server, scenario = server_of(request), request.match_info["scenario"]
        text = (await request.json())["messages"][0]["content"]
        server.sent, server.open = server.sent + 1, server.open + 1
        server.asked[text] += 1
        number = int(text.rpartition(" ")[2])
        try:
            if refusal := server.refusal(scenario, time.monotonic()):
                server.away += 1
                return web.json_response({"error": {"message": "later"}}, status=refusal[0], headers=refusal[1])
            if scenario == "slow" and number % 200 == 7 and server.asked[text] == 1:
                await asyncio.sleep(3600)
            await asyncio.sleep(1.0 if scenario == "slow" and number % 50 == 3 else LATENCY)
            server.paid[text] += 1
            message = {"role": "assistant", "content": "7"}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            return web.json_response({"model": "judge", "choices": [choice]})
        finally:
            server.open -= 1

    async def counts(request: web.Request) -> web.Response:
        server = server_of(request)
        paid, twice = len(server.paid), server.paid.total() - len(server.paid)
        return web.json_response({"sent": server.sent, "away": server.away, "paid": paid, "twice": twice})

    app = web.Application()
    app.router.add_post("/{scenario}/{client}/v1/chat/completions", answer)
    app.router.add_get("/{scenario}/{client}", counts)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None, handler_cancellation=True)


def prompts(count: int) -> list[str]:
    """Different prompts of about 60 tokens."""
    text = "The council voted on 12 May to close the old bridge; ten people said that it should stay open. " * 3
    return [f"{text} How coherent is it, from 1 to 10? {number}" for number in range(count)]


async def plain(url: str, texts: list[str], path: Path) -> None:
    """Ask by the SDK alone; a request that failed as often as allowed has no reply."""
    gate = asyncio.Semaphore(IN_FLIGHT)
    known = {json.loads(line)["text"] for line in path.read_text().splitlines()} if path.exists() else set()
    with path.open("a") as file:
        http = openai.DefaultAioHttpClient()
        client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=6, timeout=TIMEOUT, http_client=http)

        async def ask(text: str) -> None:
            async with gate:
                reply = await client.chat.completions.create(
                    model="judge", messages=[{"role": "user", "content": text}], max_tokens=8, temperature=0
                )
                file.write(json.dumps({"text": text, "reply": reply.choices[0].message.content}) + "\n")
                file.flush()

        async with client:
            await asyncio.gather(*(ask(text) for text in texts if text not in known), return_exceptions=True)


def ours(url: str, texts: list[str], path: Path) -> None:
    """Ask by `ApiJudge`."""
    judge = ApiJudge("judge", url, max_concurrency=IN_FLIGHT, timeout=TIMEOUT)
    with closing(judge), bl.Store(path) as store:
        for _ in store.wrap(judge).ask([bl.Completion(text, max_tokens=8) for text in texts]):
            pass


def counts_of(base: str) -> dict[str, int]:
    """Return what a server has counted."""
    with urllib.request.urlopen(base) as reply:
        counts: dict[str, int] = json.load(reply)
    return counts


def run(client: str, scenario: str, port: int, path: Path) -> dict[str, object]:
    """Let a client ask in its own process, and interrupt it once if the scenario says so."""
    base = f"http://127.0.0.1:{port}/{scenario}/{client}"
    command = [sys.executable, __file__, "--client", client, "--url", f"{base}/v1", "--path", str(path)]
    command += ["--requests", str(options.requests)]
    if scenario in ENDINGS:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while counts_of(base)["paid"] < options.requests / 3:
            time.sleep(0.01)
        process.send_signal(ENDINGS[scenario])
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts = counts_of(base)
    each = {name: counts[name] / options.requests for name in ("sent", "away")}
    missing = options.requests - counts["paid"]
    return {"scenario": scenario, "client": client, "seconds": float(done.stdout), **each,
            "missing": missing, "twice": counts["twice"]}  # fmt: skip


def main() -> None:
    """Run, print and write the table."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, __file__, "--serve", str(port), "--limit", str(options.limit)])
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        with tempfile.TemporaryDirectory() as folder:
            rows = []
            for scenario in options.scenarios:
                for client in ("plain", "ours"):
                    rows.append(run(client, scenario, port, Path(folder, f"{scenario}.{client}")))
                    print(rows[-1], flush=True)
    finally:
        server.terminate()
    table = pd.DataFrame(rows)
    bare = table[table["client"] == "plain"].set_index("scenario")["seconds"]
    table["of_plain"] = table["seconds"] / table["scenario"].map(bare)
    table.round(3).to_csv(options.out, index=False)
    print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--limit", type=int, default=40, help="requests in each second where they are limited")
    parser.add_argument("--scenarios", nargs="+", default=[*SCENARIOS, *ENDINGS])
    parser.add_argument("--out", type=Path, default=Path("api_client.csv"))
    for name in ("--client", "--url", "--path", "--serve"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(int(options.serve), options.limit)
    elif options.client:
        wanted, began = prompts(options.requests), time.perf_counter()
        if options.client == "ours":
            ours(options.url, wanted, Path(options.path))
        else:
            asyncio.run(plain(options.url, wanted, Path(options.path)))
        print(time.perf_counter() - began)
    else:
        main()
