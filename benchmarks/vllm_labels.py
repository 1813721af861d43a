"""Choices a second on a real vLLM server: labels exactly, and from its likeliest tokens, in turns within one run.

``python benchmarks/vllm_labels.py --python ENVIRONMENT/bin/python`` starts a server with a tiny random Llama, whose
model work is next to nothing: what is measured is what a judgement costs server and judge beside the model. ``--url``
and ``--model`` measure a server that runs. Prompts have about 200 tokens, a third of them shared, and differ from round
to round, so that neither way finds the other's in the cache.
"""

from __future__ import annotations

import argparse
import contextlib
import runpy
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pandas as pd

from biaslab.core import Choice
from biaslab.judges.api import ApiJudge

SERVER = Path(__file__).parents[1] / "tests" / "judges" / "vllm_server.py"
TEXT = "The council voted on 12 May to close the old bridge; ten people said that it should stay open. "
LABELS = {
    "A, B": ("A", "B"),
    "1 to 10": tuple(map(str, range(1, 11))),
    "Summary A, Summary B": ("Summary A", "Summary B"),
}


@contextlib.contextmanager
def server_of(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield address and model of the server."""
    if options.url:
        yield options.url, options.model
        return
    helpers = runpy.run_path(str(SERVER))
    with tempfile.TemporaryDirectory() as folder:
        helpers["tiny_model"](Path(folder) / "model")
        with helpers["serving"](options.python, Path(folder) / "model", Path(folder) / "log") as url:
            yield url, helpers["MODEL"]


def rate(judge: ApiJudge, labels: tuple[str, ...], count: int, word: str) -> float:
    """Return choices a second; the judge has been asked for such labels before."""
    list(judge.ask([Choice(f"{word}: {TEXT}", labels)]))
    wanted = [Choice(f"{TEXT * 3} Now {word} {number}: {TEXT * 5}", labels) for number in range(count)]
    began = time.perf_counter()
    assert sum(1 for _ in judge.ask(wanted)) == count
    return count / (time.perf_counter() - began)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="bin/python of an environment with vLLM")
    parser.add_argument("--url", default="", help="of a server that runs")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--count", type=int, default=200, help="choices a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("vllm_labels.csv"))
    options = parser.parse_args()
    rows = []
    with server_of(options) as (url, model):
        judges = {
            exact: ApiJudge(model, url, exact=exact, max_concurrency=options.concurrency) for exact in (True, False)
        }
        with closing(judges[True]), closing(judges[False]):
            for turn in range(options.rounds):
                for name, labels in LABELS.items():
                    for exact in (True, False) if turn % 2 else (False, True):
                        found = rate(judges[exact], labels, options.count, f"{turn}{name}{exact}")
                        rows.append((name, "exact" if exact else "likeliest", found))
            assert judges[True].is_exact
    table = pd.DataFrame(rows, columns=["labels", "way", "choices a second"])
    table = table.pivot_table("choices a second", "labels", "way", aggfunc="median", sort=False)
    table["exact / likeliest"] = table["exact"] / table["likeliest"]
    table.to_csv(options.out)
    print(table.round(2).to_string())


if __name__ == "__main__":
    main()
