"""Logs in UTF-16, UTF-32 or Western European are read as they are in UTF-8; those in another encoding are refused."""

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import runpy
import tarfile
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import BiaslabError, InputError
from biaslab.core.files import LIMIT, Allowance
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.documents import decode

WESTERN = {
    "cp1252": "Größer, naïve – it’s the “café” answer, “……”",
    "latin-1": "El niño está aquí, el resumé es größer",
}
FOREIGN = {
    "cp1250": "Odpowiedź jest jaśniejsza i dłuższa część",
    "cp1251": "Первый ответ лучше второго, потому что он яснее",
    "koi8_r": "Первый ответ лучше второго, потому что он яснее",
    "cp1253": "Η πρώτη απάντηση είναι καλύτερη",
    "cp932": "回答Aのほうが良いです。理由は明確だからです",
    "gb18030": "回答更好，因为它更清楚，而且更完整",
    "cp949": "답변이 더 좋습니다. 더 명확하기 때문입니다",
    "mac_roman": "Größer, naïve, the café answer",
}
UNICODE = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
ENCODINGS = [*WESTERN, *UNICODE]


def table(sentence, rows=20):
    lines = [f'q{n},x,y,{"xy"[n % 3 == 0]},"{sentence}"' for n in range(rows)]
    return "\n".join(["context_id,candidate_id,opponent_id,winner,subset", *lines]) + "\n"


def records(sentence, rows=20):
    pair = {"candidate_id": "x", "opponent_id": "y", "subset": sentence}
    made = [{"context_id": f"q{n}", "reply": f"{sentence}. [[{'AB'[n % 3 == 0]}]]", **pair} for n in range(rows)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in made)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("write", [table, records])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_known_encodings_are_read_as_utf_8_is(tmp_path, encoding, write, pack):
    sentence = WESTERN.get(encoding, WESTERN["cp1252"])
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


@pytest.mark.parametrize("encoding", FOREIGN)
@pytest.mark.parametrize("write", [table, records])
def test_another_encoding_is_refused_with_the_remedy(tmp_path, encoding, write):
    file = tmp_path / "log.txt"
    file.write_bytes(write(FOREIGN[encoding]).encode(encoding))
    with pytest.raises(BiaslabError, match=r"neither UTF-8 nor Western European text; .* -t UTF-8 log\.txt"):
        bl.read_judgements(file)


def test_one_damaged_line_costs_that_line_alone(tmp_path):
    text = table("the answer")
    (tmp_path / "log.csv").write_bytes(text.encode().replace(b"q7", "первый".encode("cp1251")))
    trials = bl.read_judgements(tmp_path / "log.csv")
    assert (len(trials), trials.attrs["malformed"]) == (19, 1)


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.json"])
def test_damaged_lines_of_utf_8_are_no_other_encoding(tmp_path, name):
    """Bytes that are no text cost their lines where the others are UTF-8."""
    sentence = FOREIGN["cp932"]
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


@pytest.mark.slow
def test_the_command_says_which_encoding_was_read(tmp_path, capsys):
    page = {}
    for encoding in ("latin-1", "utf-8"):
        file = tmp_path / f"{encoding}.csv"
        file.write_bytes(table(WESTERN["latin-1"]).encode(encoding))
        assert main(["audit", str(file), "--only", "replies"]) == 0
        page[encoding] = capsys.readouterr().out
    assert "latin-1.csv is not in UTF-8: read as cp1252" in page["latin-1"]
    assert "UTF-8" not in page["utf-8"]
    rest = [page[encoding].partition("\n\n")[2].replace(f"{encoding}.csv", "FILE") for encoding in page]
    assert rest[0] == rest[1]


LINE = json.dumps({"context_id": "c", "candidate_id": "x", "opponent_id": "y", "judge": "j", "winner": "A"}) + "\n"
PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def tarred(files):
    full = io.BytesIO()
    with tarfile.open(fileobj=full, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return full.getvalue()


def zipped(files):
    full = io.BytesIO()
    with zipfile.ZipFile(full, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return full.getvalue()


LONG_LINE = LINE.replace("}", f', "comment": "{"long " * 200}"}}')
LARGE = LONG_LINE.encode() * 1_600  # 1.7 MB
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
    assert len(trials) + trials.attrs["duplicates"] == 1_600


@pytest.mark.slow
def test_decompression_bomb_is_refused_by_default(tmp_path):
    """By default a file may become 200 times as large as it is, or 64 MB."""
    bomb = bz2.compress(b"\0" * 4 * 10**7) * 150
    assert len(bomb) < 20_000
    (tmp_path / "bomb.jsonl.bz2").write_bytes(bomb)
    with pytest.raises(InputError, match=r"at most 0.064 GB when decompressed"):
        bl.read_judgements(tmp_path / "bomb.jsonl.bz2")


def test_a_large_log_may_become_as_large_as_logs_do():
    assert Allowance("log.gz", 10**6)._whole == 200 * 10**6
    assert Allowance("log.gz", 10**8)._whole == 2 * 10**9


@pytest.mark.parametrize("value", ["-1", "0", "much", "inf"])
def test_the_limit_is_a_number(value, monkeypatch):
    monkeypatch.setenv(LIMIT, value)
    with pytest.raises(InputError, match=f"{LIMIT} is '{value}', allowed: a number"):
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


PAIR = {"judge": "j", "question": 81, "A": "x", "B": "y", "judgment": "[[A]]"}
LINE_containers = json.dumps(PAIR).encode() + b"\n"


def zipped_containers(**inner):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in inner.items():
            archive.writestr(name.replace("__", "/"), data)
    return made.getvalue()


def test_a_zip_is_read_as_a_folder_is(tmp_path):
    file = tmp_path / "logs.zip"
    file.write_bytes(
        zipped_containers(b__two=LINE_containers.replace(b"81", b"82"), a=bz2.compress(LINE_containers), empty=b"")
    )
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
        about.size = len(LINE_containers)
        archive.addfile(about, io.BytesIO(LINE_containers))
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
    (tmp_path / "log.jsonl").write_bytes(LINE_containers)
    trials = bl.read_judgements(tmp_path)  # in a folder they are left aside
    assert (len(trials), trials.attrs["skipped"]) == (1, ["log.bin"])


@pytest.mark.parametrize("indent", [None, 2])
def test_list_of_a_known_format_in_an_object_is_read(tmp_path, indent):
    file = tmp_path / "log.json"
    file.write_text(json.dumps({"made": "yesterday", "items": [PAIR, PAIR | {"question": 82}]}, indent=indent))
    single = bl.read_judgements(file)
    assert single[["context_id", "value"]].to_numpy().tolist() == [["81", 1.0], ["82", 1.0]]
    file.write_text(json.dumps({"notes": [{"note": "x"}], "items": [PAIR, PAIR | {"question": 82}]}, indent=indent))
    assert bl.read_judgements(file)[["context_id", "value"]].to_numpy().tolist() == [["81", 1.0], ["82", 1.0]]
    columns = {"context_id": "items.question", "candidate_id": "items.A", "opponent_id": "items.B"}
    trials = bl.read_judgements(file, mapping={"explode": "items", **columns, "reply": "items.judgment"})
    assert trials[["context_id", "value"]].to_numpy().tolist() == [["81", 1.0], ["82", 1.0]]


damaged = runpy.run_path(str(Path(__file__).parents[2] / "damage.py"))["damaged"]
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
ROWS = [
    ["question", "answer_a", "answer_b", "winner", "score"],
    *(
        [f"q{n} <&>", "x" if turn else "y", "y" if turn else "x", "AB"[(n + turn) % 2], str(n / 2)]
        for n in range(6)
        for turn in (0, 1)
    ),
]


ROOT = (
    f'<Relationships><Relationship Id="rId1" Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/>'
    "</Relationships>"
)


def workbook(sheets, inline=False):
    """Write sheets as spreadsheets do: texts once and by number, or in the cells themselves."""
    texts, made = [], {}
    for number, rows in enumerate(sheets.values(), start=1):
        lines = []
        for row_number, row in enumerate(rows, start=1):
            cells = []
            for column, value in enumerate(row):
                place = f"{chr(ord('A') + column)}{row_number}"
                if value.replace(".", "").isdigit():
                    cells.append(f'<c r="{place}"><v>{value}</v></c>')
                elif inline:
                    cells.append(f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>')
                elif value:
                    texts.append(value)
                    cells.append(f'<c r="{place}" t="s"><v>{len(texts) - 1}</v></c>')
            lines.append(f'<row r="{row_number}">{"".join(cells)}</row>')
        made[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>'
        )
    names = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(sheets, start=1))
    made["xl/workbook.xml"] = f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{names}</sheets></workbook>'
    targets = "".join(
        f'<Relationship Id="rId{n}" Type="{RELATIONS}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(sheets) + 1)
    )
    made["_rels/.rels"] = ROOT
    made["xl/_rels/workbook.xml.rels"] = f"<Relationships>{targets}</Relationships>"
    runs = "".join(
        f'<si><r><t>{escape(text[:2])}</t></r><r><t xml:space="preserve">{escape(text[2:])}</t></r></si>'
        for text in texts
    )
    made["xl/sharedStrings.xml"] = f'<sst xmlns="{MAIN}">{runs}</sst>'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in made.items():
            archive.writestr(name, text)
    return file.getvalue()


@pytest.mark.parametrize("inline", [True, False])
def test_a_sheet_is_read_as_its_csv_is(tmp_path, inline):
    (tmp_path / "log.xlsx").write_bytes(workbook({"Sheet1": ROWS, "Sheet2": [], "Notes": [["", ""]]}, inline))
    with (tmp_path / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows(ROWS)
    of_sheet, of_csv = (read_judgements(tmp_path / name) for name in ("log.xlsx", "log.csv"))
    assert of_sheet.drop(columns="key").equals(of_csv.drop(columns="key"))
    assert of_sheet["key"].tolist() == [f"log.xlsx:{line}" for line in range(2, 14)]
    assert len(of_sheet) == 12


def test_empty_cells_and_rows_are_as_in_csv(tmp_path):
    rows = [
        [],
        ROWS[0],
        ["q1", "x", "y", "", "1"],
        [],
        ["q1", "y", "x", "A"],
        ["q2", "x", "y", "B"],
        [*"zxyB ", "beyond"],
    ]
    (tmp_path / "log.xlsx").write_bytes(workbook({"one": rows}))
    trials = read_judgements(tmp_path / "log.xlsx")
    assert trials["status"].tolist() == ["unparsable", "ok", "ok"]
    assert trials.attrs["malformed"] == 1


def test_a_formatted_cell_far_away_costs_nothing(tmp_path):
    full = zipfile.ZipFile(io.BytesIO(workbook({"one": ROWS})))
    with zipfile.ZipFile(tmp_path / "log.xlsx", "w") as archive:
        for name in full.namelist():
            far = b'<row r="1048576"><c r="XFD1048576" s="1"/></row></sheetData>'
            archive.writestr(name, full.read(name).replace(b"</sheetData>", far))
    assert len(read_judgements(tmp_path / "log.xlsx")) == 12


def test_several_sheets_are_refused_by_name(tmp_path):
    (tmp_path / "log.xlsx").write_bytes(workbook({"March": ROWS, "April": ROWS}))
    with pytest.raises(InputError, match=r"2 sheets with rows \(March, April\): .*pandas.read_excel\(FILE\)") as raised:
        read_judgements(tmp_path / "log.xlsx")
    assert "PK" not in str(raised.value)


@pytest.mark.parametrize(
    ("part", "text", "reason"),
    [
        ("xl/worksheets/sheet1.xml", "<worksheet><row>", "intact file"),
        ("xl/worksheets/sheet1.xml", '<!DOCTYPE a [<!ENTITY b "c">]><worksheet/>', "has a document type"),
        (
            "xl/worksheets/sheet1.xml",
            '<w><row><c r="A1" t="s"><v>9999</v></c></row></w>',
            "no shared string with index 9999",
        ),
        ("xl/worksheets/sheet1.xml", '<w><row><c r="ZZZ1"><v>1</v></c></row></w>', "ZZZ1"),
        ("xl/_rels/workbook.xml.rels", "<Relationships/>", "intact file"),
    ],
)
def test_damaged_workbook_error_gives_the_reason(tmp_path, part, text, reason):
    full = zipfile.ZipFile(io.BytesIO(workbook({"one": ROWS})))
    with zipfile.ZipFile(tmp_path / "log.xlsx", "w") as archive:
        for name in full.namelist():
            archive.writestr(name, text if name == part else full.read(name))
    with pytest.raises(InputError, match=reason):
        read_judgements(tmp_path / "log.xlsx")


@pytest.mark.parametrize("name", ["customXml/item1.xml", "docProps/custom.xml"])
def test_comment_outside_the_sheets_is_no_damage(tmp_path, name):
    (tmp_path / "log.xlsx").write_bytes(workbook({"one": ROWS}))
    with zipfile.ZipFile(tmp_path / "log.xlsx", "a") as archive:
        archive.writestr(name, "<a><!-- made by a plug-in --></a>")
    assert len(read_judgements(tmp_path / "log.xlsx")) == len(ROWS) - 1


def test_repetitive_log_is_read_from_gzip(tmp_path):
    line = json.dumps({**json.loads(LINE), "system_prompt": "a" * 8000}) + "\n"
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(line.encode() * 5000))
    trials = bl.read_judgements(tmp_path / "log.jsonl.gz")
    assert len(trials) + trials.attrs["duplicates"] == 5000


@pytest.mark.slow
def test_a_long_instruction_in_every_row_is_read_from_parquet(tmp_path):
    named = {"context_id": [f"q{n}" for n in range(5000)], "system_prompt": ["a" * 8000] * 5000}
    pairs = pd.DataFrame(named | {"candidate_id": "x", "opponent_id": "y", "winner": "A"})
    pairs.to_parquet(tmp_path / "log.parquet")
    assert len(read_judgements(tmp_path / "log.parquet")) == 5000


def test_a_sheet_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLAB_UNPACKED_GB", "0.001")
    (tmp_path / "log.xlsx").write_bytes(workbook({"one": [["a" * 2_000_000, "b"], ["1", "2"]]}))
    with pytest.raises(InputError, match="BIASLAB_UNPACKED_GB"):
        read_judgements(tmp_path / "log.xlsx")


def test_damaged_workbooks_are_refused_or_read(tmp_path):
    rng, full, read = random.Random(0), workbook({"one": ROWS}), 0
    for _ in range(150):
        (tmp_path / "log.xlsx").write_bytes(damaged(full, rng, lambda r: r.choice([b"<", b"\x00", b"PK", b"9"])))
        try:
            read_judgements(tmp_path / "log.xlsx")
            read += 1
        except BiaslabError:
            continue
    assert read < 150
