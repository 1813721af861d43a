"""Layout of a store: foreign and damaged files are refused and left as they are.

A store has no checksums, and whoever can write it can change it; what is promised is that a damaged one is refused with
a message, or read as it stands. What stands there is read here by sqlite3 and json alone.
"""

import contextlib
import json
import math
import os
import random
import runpy
import shutil
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Reply, Usage, request_key
from biaslab.core.errors import BiaslabError, CorruptStoreError, ForeignStoreError, StoreError
from biaslab.store import Store
from biaslab.store.file import APPLICATION_ID, SCHEMA_VERSION, log_of

PAGE = 4096


def fill(path: Path, first: int = 0, last: int = 400) -> None:
    with Store(path) as store:
        for number in range(first, last):
            store.put(Completion(f"Say {number}."), "judge", Reply(text=f"{number} " * 50))


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(file): file.read_bytes() if file.is_file() else None for file in folder.rglob("*")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies #1?.sqlite"


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


FOREIGN: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("my notes\n" * 50),
    "bytes": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "empty file": lambda path: path.touch(),
    "folder": lambda path: path.mkdir(),
    "another database": lambda path: execute(path, "CREATE TABLE replies (key)"),
    "another application": lambda path: execute(path, "PRAGMA application_id = 7", "CREATE TABLE t (a)"),
    "older layout": lambda path: (fill(path), execute(path, f"PRAGMA user_version = {SCHEMA_VERSION - 1}")),
    "newer layout": lambda path: (fill(path), execute(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")),
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize("create", [True, False])
def test_foreign_file_is_refused_and_untouched(path: Path, make: Callable[[Path], object], create: bool) -> None:
    make(path)
    before = snapshot(path.parent)
    with pytest.raises(ForeignStoreError, match="not modified") as caught:
        Store(path, create=create)
    assert caught.value.path == path
    assert snapshot(path.parent) == before


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(start)
        stream.write(content)


def drop_table(path: Path) -> None:
    execute(path, "DROP TABLE replies", "VACUUM")


GARBAGE = random.Random(0).randbytes(3 * PAGE)
DAMAGE: dict[str, Callable[[Path], object]] = {
    "half of it": lambda path: os.truncate(path, path.stat().st_size // 2),
    "last page cut": lambda path: os.truncate(path, path.stat().st_size - 1),
    "header only": lambda path: os.truncate(path, 100),
    "half a header": lambda path: os.truncate(path, 50),
    "garbage in the middle": lambda path: overwrite(path, path.stat().st_size // 2, GARBAGE),
    "garbage after the header": lambda path: overwrite(path, 100, GARBAGE[:PAGE]),
    "zeros in the middle": lambda path: overwrite(path, path.stat().st_size // 2, bytes(3 * PAGE)),
    "garbage at the end": lambda path: overwrite(path, path.stat().st_size - PAGE, GARBAGE[:PAGE]),
    "no table": drop_table,
}


@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_store_is_refused_and_untouched(path: Path, harm: Callable[[Path], object]) -> None:
    fill(path)
    harm(path)
    before = snapshot(path.parent)
    with pytest.raises(CorruptStoreError, match=r"not modified.*recover") as caught:
        Store(path)
    assert caught.value.path == path
    assert snapshot(path.parent) == before


def die_with_a_log(path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from biaslab.core import Completion, Reply; from biaslab.store import Store\n"
        "store = Store(sys.argv[1])\n"
        "for number in range(1000, 1050): store.put(Completion(f'Say {number}.'), 'judge', Reply(text='x'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script, path], check=False).returncode == -9
    assert log_of(path).stat().st_size > 0


@pytest.mark.slow
def test_log_of_a_killed_process_is_read(path: Path) -> None:
    fill(path)
    die_with_a_log(path)
    with Store(path) as store:
        assert len(store) == 450
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.slow
def test_damaged_store_with_a_log_is_refused_and_both_untouched(path: Path) -> None:
    fill(path)
    die_with_a_log(path)
    overwrite(path, path.stat().st_size // 2, GARBAGE)
    shared = path.with_name(path.name + "-shm")  # the log's index, which SQLite makes anew from the log
    before = snapshot(path.parent)
    with pytest.raises(CorruptStoreError, match="not modified"):
        Store(path)
    after = snapshot(path.parent)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} <= {str(shared)}


def test_log_without_its_store_is_not_swallowed(path: Path) -> None:
    fill(path)
    die_with_a_log(path)
    path.unlink()
    before = snapshot(path.parent)
    with pytest.raises(StoreError, match="missing but its log"):
        Store(path)
    assert snapshot(path.parent) == before


def test_store_in_use_elsewhere_is_opened(path: Path) -> None:
    with Store(path) as one:
        one.put(Completion("One."), "judge", Reply(text="1"))
        with Store(path) as two:
            two.put(Completion("Two."), "judge", Reply(text="2"))
            assert len(one) == len(two) == 2


def test_damage_found_later_is_named(path: Path) -> None:
    fill(path)
    keys = [request_key(Completion(f"Say {number}."), "judge") for number in range(400)]
    with Store(path) as store:
        assert len(store.get(keys[:1])) == 1
        overwrite(path, PAGE, os.urandom(path.stat().st_size - PAGE))
        with pytest.raises(CorruptStoreError, match="damaged"):
            store.get(keys)


def test_damaged_reply_is_named(path: Path) -> None:
    fill(path, last=1)
    execute(path, """UPDATE replies SET reply = '{"text":'""")
    key = request_key(Completion("Say 0."), "judge")
    with Store(path) as store, pytest.raises(CorruptStoreError, match=key):
        store.get([key])


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("field", ["version = x'fffe'", "created = 'soon'", "prompt_tokens = 'nine'", "reply = x'00'"])
def test_a_row_of_other_types_is_named_when_it_is_exported(path: Path, field: str, suffix: str) -> None:
    fill(path, last=1)
    execute(path, f"UPDATE replies SET {field}")
    with Store(path) as store, pytest.raises(CorruptStoreError, match=f"holds a reply whose {field.split()[0]} is"):
        store.export(path.with_suffix(suffix))


def test_corrupt_index_never_returns_a_reply_of_another_key(path: Path) -> None:
    fill(path, last=1)
    key, other = request_key(Completion("Say 0."), "judge"), "f" * 64
    page = path.read_bytes()
    places = [at for at in range(len(page)) if page.startswith(key.encode(), at)]
    assert len(places) == 2  # one in the row, one in the index
    for each in places:
        path.write_bytes(page[:each] + other.encode() + page[each + 64 :])
        with Store(path) as store:
            in_row = other if page[each + 64 :].startswith(b"judge") else key
            assert store.get([key, other]).keys() <= {in_row}


def test_deleted_file_is_recreated_and_foreign_one_refused(path: Path) -> None:
    with Store(path) as store:
        store.put(Completion("One."), "judge", Reply(text="1"))
        store.close()
        path.unlink()
        assert len(store) == 0
        store.put(Completion("Two."), "judge", Reply(text="2"))
        store.close()
        path.unlink()
        path.write_text("notes")
        with pytest.raises(ForeignStoreError):
            len(store)
    assert path.read_text() == "notes"


def test_header_says_what_the_file_is(path: Path) -> None:
    fill(path, last=1)
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_parent_folders_are_made_and_links_followed(tmp_path: Path) -> None:
    path, link = tmp_path / "a" / "b" / "store", tmp_path / "link"
    link.symlink_to(path)
    fill(link, last=3)
    fill(path, last=4)
    with Store(link, create=False) as store:
        assert len(store) == 4
    assert list(path.parent.iterdir()) == [path]


def test_missing_store_is_not_created_unless_wanted(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        Store(tmp_path / "a" / "store", create=False)
    assert list(tmp_path.iterdir()) == []


def test_path_that_cannot_be_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="check the permissions of the file and its folder, or use another path"):
        Store(tmp_path / "file" / "store")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreError, match=r"cannot be followed .*; use another path"):
        Store(tmp_path / "loop")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_may_not_be_written_is_explained(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="check the permissions of the file and its folder, or use another path"):
        Store(tmp_path / "store")


def test_full_disk_says_what_is_kept(path: Path) -> None:
    fill(path, last=20)
    with Store(path) as store:
        pages = path.stat().st_size // PAGE
        store._file.run(f"PRAGMA max_page_count = {pages}")  # SQLite's own way to be full
        with pytest.raises(StoreError, match=r"the 20 replies stored so far are safe; free some space"):
            store.put(Completion("More."), "judge", Reply(text="x" * 10 * PAGE))
    fill(path, last=40)


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
    full = (folder / "whole").read_bytes()
    for number in range(mutants):
        place = folder / f"m{number}"
        place.mkdir()
        path = place / "s"
        if rng.random() < 0.5:
            shutil.copy(folder / "whole", path)
            rewritten(path, rng)
        else:
            path.write_bytes(damaged(full, rng, lambda rng: rng.randbytes(rng.randint(1, 64))))
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
