"""Workbooks: their sheet is read as the same table saved as CSV is; what is damaged or ambiguous is refused."""

import csv
import io
import random
import runpy
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from biaslab.core.errors import BiaslabError, InputError
from biaslab.logs.readers import read_judgements

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
        f'<Relationship Id="rId{n}" Target="worksheets/sheet{n}.xml"/>' for n in range(1, len(sheets) + 1)
    )
    made["xl/_rels/workbook.xml.rels"] = f"<Relationships>{targets}</Relationships>"
    runs = "".join(f"<si><r><t>{escape(text[:2])}</t></r><r><t>{escape(text[2:])}</t></r></si>" for text in texts)
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
        ("xl/worksheets/sheet1.xml", '<w><row><c r="ZZZ1"><v>1</v></c></row></w>', "not a cell reference: ZZZ1"),
        ("xl/_rels/workbook.xml.rels", "<Relationships/>", "intact file"),
    ],
)
def test_damaged_workbook_error_gives_the_reason(tmp_path, part, text, reason):
    whole = zipfile.ZipFile(io.BytesIO(workbook({"one": ROWS})))
    with zipfile.ZipFile(tmp_path / "log.xlsx", "w") as archive:
        for name in whole.namelist():
            archive.writestr(name, text if name == part else whole.read(name))
    with pytest.raises(InputError, match=reason):
        read_judgements(tmp_path / "log.xlsx")


def test_a_sheet_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLAB_UNPACKED_GB", "0.001")
    (tmp_path / "log.xlsx").write_bytes(workbook({"one": [["a" * 2_000_000, "b"], ["1", "2"]]}))
    with pytest.raises(InputError, match="BIASLAB_UNPACKED_GB"):
        read_judgements(tmp_path / "log.xlsx")


def test_damaged_workbooks_are_refused_or_read(tmp_path):
    rng, whole, read = random.Random(0), workbook({"one": ROWS}), 0
    for _ in range(150):
        (tmp_path / "log.xlsx").write_bytes(damaged(whole, rng, lambda r: r.choice([b"<", b"\x00", b"PK", b"9"])))
        try:
            read_judgements(tmp_path / "log.xlsx")
            read += 1
        except BiaslabError:
            continue
    assert read < 150
