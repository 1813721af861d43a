"""Files that become too large when they are unpacked, and JSON that says two things at once."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.core.unpacking import LIMIT, Allowance

LINE = json.dumps({"context_id": "c", "candidate_id": "x", "opponent_id": "y", "judge": "j", "winner": "A"}) + "\n"
PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def tarred(files):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return whole.getvalue()


def zipped(files):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return whole.getvalue()


LARGE = LINE.encode() * 20_000  # 1.8 MB
BOMBS = {
    **{f"log.{name}": pack(LARGE) for name, pack in PACKED.items()},
    "twice.gz.gz": gzip.compress(gzip.compress(LARGE)),
    "archive.tar.xz": lzma.compress(tarred({"a.jsonl": LARGE})),
    "in.tar": tarred({"a.jsonl.gz": gzip.compress(LARGE)}),
    "log.zip": zipped({"a.jsonl": LARGE}),
    "many.zip": zipped({f"{n}.jsonl": LARGE[: len(LARGE) // 4] for n in range(4)}),
    "inspect.eval": zipped({"header.json": LARGE}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_file_too_large_when_decompressed_is_refused(name, tmp_path, monkeypatch):
    file = tmp_path / name
    file.write_bytes(BOMBS[name])
    monkeypatch.setenv(LIMIT, "0.001")
    with pytest.raises(InputError, match=rf"{name}.*at most 0.001 GB when decompressed; if you trust it, set {LIMIT}"):
        bl.read_judgements(file)


@pytest.mark.parametrize("name", [name for name in BOMBS if name != "inspect.eval"])
def test_large_file_is_read_within_the_limit(name, tmp_path, monkeypatch):
    file = tmp_path / name
    file.write_bytes(BOMBS[name])
    monkeypatch.setenv(LIMIT, "1")
    trials = bl.read_judgements(file)
    assert len(trials) + trials.attrs["duplicates"] == 20_000


@pytest.mark.slow
def test_decompression_bomb_is_refused_by_default(tmp_path):
    """By default a file may become 500 times as large as it is, or 256 MB."""
    bomb = bz2.compress(b"\0" * 4 * 10**7) * 150
    assert len(bomb) < 20_000
    (tmp_path / "bomb.jsonl.bz2").write_bytes(bomb)
    with pytest.raises(InputError, match=r"at most 0.256 GB when decompressed"):
        bl.read_judgements(tmp_path / "bomb.jsonl.bz2")


def test_a_large_log_may_become_as_large_as_logs_do():
    assert Allowance("log.gz", 10**6)._whole == 500 * 10**6
    assert Allowance("log.gz", 10**8)._whole == 2 * 10**9


@pytest.mark.parametrize("value", ["-1", "0", "much", "inf"])
def test_the_limit_is_a_number(value, monkeypatch):
    monkeypatch.setenv(LIMIT, value)
    with pytest.raises(InputError, match=f"{LIMIT} is '{value}', allowed: a number of GB above 0"):
        Allowance("log.gz", 1)


def test_a_data_set_that_becomes_too_large_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "table.csv.gz"
    file.write_bytes(gzip.compress(b"doc,sys,summary,coherence\n" + b"d,s,It shines.,4\n" * 100_000))
    monkeypatch.setenv(LIMIT, "0.001")
    with pytest.raises(InputError, match=LIMIT):
        bl.load_dataset("tabular", path=file)


TWICE = LINE.replace('"winner": "A"', '"winner": "A", "winner": "B"')


@pytest.mark.parametrize("form", ["lines", "list", "object"])
def test_duplicate_key_with_different_values_is_a_problem(tmp_path, form):
    other = LINE.replace('"c"', '"d"')
    texts = {
        "lines": other + TWICE,
        "list": f"[\n{other.strip()},\n{TWICE.strip()}\n]",
        "object": TWICE.replace(",", ",\n"),
    }
    file = tmp_path / "log.json"
    file.write_text(texts[form])
    if form == "object":
        with pytest.raises(InputError, match="line 1: duplicate key 'winner' with different values"):
            bl.read_judgements(file)
        return
    trials = bl.read_judgements(file)
    assert list(trials["context_id"]) == ["d"]
    [problem] = trials.attrs["problems"]
    assert problem[1:] == (3 if form == "list" else 2, "duplicate key 'winner' with different values")


def test_duplicate_key_with_equal_values_is_accepted(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(LINE.replace('"winner": "A"', '"winner": "A", "winner": "A"'))
    assert len(bl.read_judgements(file)) == 1
