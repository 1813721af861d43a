"""Mutated stores: no raw exception, no hang, and no reply but the one that stands in the file.

A store has no checksums, and whoever can write it can change it; what is promised is that a damaged one is refused with
a message, or read as it stands. What stands there is read here by sqlite3 and json alone.
"""

import contextlib
import json
import math
import random
import runpy
import shutil
import sqlite3
import time
import warnings
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Reply, Usage, request_key
from biaslab.core.errors import BiaslabError

damaged = runpy.run_path(str(Path(__file__).parents[1] / "damage.py"))["damaged"]
SWAPS = (True, 0, -1, 3.5, 10**30, "", "x", [], {}, [None], {"a": 1}, float("nan"), "\ud800", "2" * 400, None)
VALUES = (
    None,
    0,
    -1,
    3.5,
    2**62,
    "",
    "x",
    b"\xff\xfe",
    "{}",
    "[]",
    "null",
    '{"text":4}',
    '{"logprobs":["a"]}',
    "[" * 50_000,
)
COLUMNS = ("key", "judge", "kind", "prompt_tokens", "created", "version", "request", "reply")
SLOWEST = 60.0  # seconds of CPU for one small file: whatever else the machine does, more is a hang


def made(path):
    """A store with replies of every kind; returns them by key."""
    answers = [
        *((Choice(f"A or B? {n}", ("A", "B")), Reply((-0.1 - n, -3.0), usage=Usage(9, 1, 1))) for n in range(8)),
        *(
            (Completion(f"Say {n}"), Reply(text=f"It is {n}: “yes”.", finish_reason="stop", model="m"))
            for n in range(8)
        ),
        (Completion("Think"), Reply(text="4", thought="or 3?", usage=Usage(1, 0, 9, 8), finish_reason="length")),
        (Choice("X or Y?", ("X", "Y")), Reply((-0.2, -2.5), unseen=0.1, bounded=(1,))),
    ]
    with bl.Store(path) as store:
        store.put_all(answers, "judge")
    return {request_key(request, "judge"): reply for request, reply in answers}


def swap(document, rng):
    """Replace or drop one field of a JSON document, at any depth."""
    place = document
    while True:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.3:
            break
        place = place[key]
    if rng.random() < 0.2:
        del place[key]
    else:
        place[key] = rng.choice(SWAPS)


def rewritten(path, rng):
    """Change one field of one row, of its JSON or of the row itself."""
    with contextlib.closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.IntegrityError):
        [(position, *row)] = connection.execute(
            "SELECT position, request, reply FROM replies ORDER BY position LIMIT 1 OFFSET ?", (rng.randrange(18),)
        )
        column = rng.choice(("request", "reply"))
        if rng.random() < 0.7:
            document = json.loads(row[column == "reply"])
            swap(document, rng)
            value = json.dumps(document)
        else:
            column, value = rng.choice(COLUMNS), rng.choice(VALUES)
        connection.execute(f"UPDATE replies SET {column} = ? WHERE position = ?", (value, position))
        connection.commit()


def standing(path):
    """What stands in a store, by key, without biaslab and without the index of keys."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        return {str(key): reply for key, reply in connection.execute("SELECT key, reply FROM replies NOT INDEXED")}


def levels_of(document):
    levels = document.get("logprobs")
    return None if levels is None else [-math.inf if level is None else float(level) for level in levels]


def agrees(reply, text):
    """Say whether a reply is what its JSON says."""
    document = json.loads(text)
    if levels_of(document) != (None if reply.logprobs is None else list(reply.logprobs)):
        return False
    words = ("text", "thought", "finish_reason", "model")
    return all(document.get(name) == getattr(reply, name) for name in words)


def read(path, keys, out):
    """Do all that is done with stores; return the replies by key, from both ways of reading them."""
    found = []
    with bl.Store(path, create=False) as store:
        for step in (
            lambda: found.extend(store.get(keys).items()),
            lambda: found.extend((record.key, record.reply) for record in store.records()),
            store.info,
            lambda: store.export(out.with_suffix(".jsonl")),
            lambda: store.export(out.with_suffix(".csv")),
            lambda: bl.read_judgements(out.with_suffix(".jsonl")),
            lambda: store.prune(judge="judge", dry_run=True),
            lambda: store.put(Completion("new"), "judge", Reply(text="kept")),
        ):
            with contextlib.suppress(BiaslabError):
                step()
    return found


def fuzz(folder, mutants, seed):
    """Read mutants of one store; return how many were refused as a whole and how many replies were read."""
    rng, refused, count = random.Random(seed), 0, 0
    given = made(folder / "whole")
    whole = (folder / "whole").read_bytes()
    for number in range(mutants):
        place = folder / f"m{number}"
        place.mkdir()
        path = place / "s"
        if rng.random() < 0.5:
            shutil.copy(folder / "whole", path)
            rewritten(path, rng)
        else:
            path.write_bytes(damaged(whole, rng, lambda rng: rng.randbytes(rng.randint(1, 64))))
        began = time.process_time()
        replies = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of what an export's logs lack
                replies = read(path, list(given), place / "out")
        except BiaslabError:
            refused += 1
        assert time.process_time() - began < SLOWEST
        count += len(replies)
        rows = standing(path) if replies else {}
        for key, reply in replies:
            assert reply == given.get(key) or agrees(reply, rows[key]), (number, key, reply, rows.get(key))
        shutil.rmtree(place)
    return refused, count


@pytest.mark.slow
def test_mutated_stores(tmp_path):
    refused, count = fuzz(tmp_path, 120, seed=0)
    assert refused > 20
    assert count > 1000


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 6))
def test_thousands_of_mutated_stores(seed, tmp_path):
    refused, count = fuzz(tmp_path, 400, seed)
    assert refused > 60
    assert count > 3000
