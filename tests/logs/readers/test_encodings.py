"""Logs in any encoding are read as they are in UTF-8, and it is said which one it was."""

import gzip
import json

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.logs.readers.encodings import decode

SENTENCES = {
    "cp1252": "Größer, naïve – it’s the “café” answer",
    "latin-1": "El niño está aquí, el resumé es größer",
    "cp1250": "Odpowiedź jest jaśniejsza i dłuższa część",
    "cp1251": "Первый ответ лучше второго, потому что он яснее",
    "cp932": "回答Aのほうが良いです。理由は明確だからです",
    "gb18030": "回答更好，因为它更清楚，而且更完整",
    "cp949": "답변이 더 좋습니다. 더 명확하기 때문입니다",
}
UNICODE = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
ENCODINGS = [*SENTENCES, *UNICODE]


def table(sentence, rows=20):
    lines = [f'q{n},x,y,{"xy"[n % 3 == 0]},"{sentence}"' for n in range(rows)]
    return "\n".join(["context_id,candidate_id,opponent_id,winner,subset", *lines]) + "\n"


def records(sentence, rows=20):
    pair = {"candidate_id": "x", "opponent_id": "y", "subset": sentence}
    said = [{"context_id": f"q{n}", "reply": f"{sentence}. [[{'AB'[n % 3 == 0]}]]", **pair} for n in range(rows)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in said)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("write", [table, records])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_encoding_is_read_as_utf_8_is(tmp_path, encoding, write, pack):
    sentence = SENTENCES.get(encoding, SENTENCES["cp1252"])
    file, plain = tmp_path / "log", tmp_path / "plain" / "log"
    plain.parent.mkdir()
    file.write_bytes(pack(write(sentence).encode(encoding)))
    plain.write_text(write(sentence), encoding="utf-8")
    trials, wanted = bl.read_judgements(file), bl.read_judgements(plain)
    pd.testing.assert_frame_equal(trials, wanted)
    assert trials.attrs["malformed"] == 0
    named = {"latin-1": "cp1252", "utf-8-sig": None}.get(encoding, encoding)
    assert trials.attrs["encodings"] == ({"log": named} if named else {})
    assert wanted.attrs["encodings"] == {}


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.json"])
def test_damaged_lines_of_utf_8_are_no_other_encoding(tmp_path, name):
    """Bytes that are no text cost their lines where the others are UTF-8."""
    sentence = SENTENCES["cp932"]
    text = table(sentence) if name == "log.csv" else records(sentence)
    if name == "log.json":
        text = json.dumps([json.loads(line) for line in text.splitlines()], ensure_ascii=False, indent=1)
    data = text.encode().replace(b"q7", b"\xff\xfe7").replace(b"q9", b"q\x80")
    (tmp_path / name).write_bytes(data)
    trials = bl.read_judgements(tmp_path / name)
    assert len(trials) == 18
    assert trials.attrs["malformed"] == 2
    assert trials.attrs["encodings"] == {}


def test_zeros_alone_are_no_utf_16():
    assert decode(b'{"\0judge": "' + b"a" * 200).encoding == "utf-8"
    assert decode(b"").text == ""


def test_the_command_says_which_encoding_was_read(tmp_path, capsys):
    page = {}
    for encoding in ("latin-1", "utf-8"):
        file = tmp_path / f"{encoding}.csv"
        file.write_bytes(table(SENTENCES["latin-1"]).encode(encoding))
        assert main(["audit", str(file), "--only", "replies"]) == 0
        page[encoding] = capsys.readouterr().out
    assert "latin-1.csv is not in UTF-8: read as cp1252" in page["latin-1"]
    assert "UTF-8" not in page["utf-8"]
    assert page["latin-1"].partition("\n\n")[2] == page["utf-8"].partition("\n\n")[2]
