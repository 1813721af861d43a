"""What logs are packed in, and what is said of files that hold none."""

import bz2
import io
import json
import tarfile
import zipfile

import pytest

import biaslab as bl
from biaslab.core.errors import InputError

PAIR = {"judge": "j", "question": 81, "A": "x", "B": "y", "judgment": "[[A]]"}
LINE = json.dumps(PAIR).encode() + b"\n"


def zipped(**inner):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in inner.items():
            archive.writestr(name.replace("__", "/"), data)
    return made.getvalue()


def test_a_zip_is_read_as_a_folder_is(tmp_path):
    file = tmp_path / "logs.zip"
    file.write_bytes(zipped(b__two=LINE.replace(b"81", b"82"), a=bz2.compress(LINE), empty=b""))
    trials = bl.read_judgements(file)
    assert trials["key"].tolist() == ["a:1", "b/two:1"]
    assert trials.attrs["skipped"] == ["empty"]
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(InputError, match="intact file"):
        bl.read_judgements(file)


def test_a_tar_within_bzip2(tmp_path):
    file = tmp_path / "logs"
    with tarfile.open(file, "w:bz2") as archive:
        about = tarfile.TarInfo("inner.jsonl")
        about.size = len(LINE)
        archive.addfile(about, io.BytesIO(LINE))
    assert bl.read_judgements(file)["key"].tolist() == ["inner.jsonl:1"]


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (b"\xd0\xcf\x11\xe0", "save the sheet as CSV"),
        (b"7z\xbc\xaf\x27\x1c", "unpack it"),
        (b"SQLite format 3\0", "export it"),
    ],
)
def test_files_that_hold_no_log_say_what_to_do(tmp_path, data, remedy):
    file = tmp_path / "log.bin"
    file.write_bytes(data)
    with pytest.raises(InputError, match=remedy) as raised:
        bl.read_judgements(file)
    assert "\n" not in str(raised.value)
    (tmp_path / "log.jsonl").write_bytes(LINE)
    trials = bl.read_judgements(tmp_path)  # in a folder they are left aside
    assert (len(trials), trials.attrs["skipped"]) == (1, ["log.bin"])


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_object_says_which_list_to_take(tmp_path, indent):
    file = tmp_path / "log.json"
    file.write_text(json.dumps({"made": "yesterday", "items": [PAIR, PAIR | {"question": 82}]}, indent=indent))
    alone = bl.read_judgements(file)
    assert alone[["context_id", "value"]].to_numpy().tolist() == [["81", 1.0], ["82", 1.0]]
    file.write_text(json.dumps({"notes": [{"note": "x"}], "items": [PAIR, PAIR | {"question": 82}]}, indent=indent))
    with pytest.raises(
        InputError, match=r"lists in notes, items\n.*--map explode=items --map context_id=items.question"
    ):
        bl.read_judgements(file)
    columns = {"context_id": "items.question", "candidate_id": "items.A", "opponent_id": "items.B"}
    trials = bl.read_judgements(file, mapping={"explode": "items", **columns, "reply": "items.judgment"})
    assert trials[["context_id", "value"]].to_numpy().tolist() == [["81", 1.0], ["82", 1.0]]
