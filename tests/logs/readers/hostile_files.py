# ruff: noqa: T201
"""Logs of at most 100 kB that are made to be slow or large, and a process that reads them within limits."""

import bz2
import gzip
import io
import json
import lzma
import os
import resource
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
HEAD = '{"question": "q", "answer_a": "x", "answer_b": "y", "winner": "A", "more": '
TEXTS = "xl/sharedStrings.xml"


def zipped(parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return file.getvalue()


def sheet(cells, **parts):
    """Return a workbook with one sheet of these rows, and other parts."""
    return zipped(
        {
            "_rels/.rels": f'<Relationships><Relationship Id="rId1" Type="{RELATIONS}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
            '<sheet name="a" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships><Relationship Id="rId1" Type="{RELATIONS}/worksheet" '
            'Target="worksheets/sheet1.xml"/>'
            "</Relationships>",
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{cells}</sheetData></worksheet>',
            TEXTS: parts.get("texts", "<sst/>"),
        }
    )


def row(cells, number=1):
    return f'<row r="{number}">{cells}</row>'


def parquet(columns, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd", **options)
    return file.getvalue()


def tarred(data):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        member = tarfile.TarInfo("a.jsonl")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def dictionary(text, rows):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))


def nested(depth):
    return "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth


def files():
    """Yield name and content of each file."""
    yield "far_cell.xlsx", sheet(row('<c r="A1"><v>1</v></c>') + row('<c r="XFD1048576"><v>1</v></c>', 1048576))
    yield "far_row.xlsx", sheet(row('<c r="A1"><v>1</v></c><c r="BZZ1"><v>2</v></c>') + row('<c r="A500000"/>', 500000))
    yield "many_cells.xlsx", sheet("<row>" + "<c><v>1</v></c>" * 3_000_000 + "</row>")
    yield "many_rows.xlsx", sheet("<row><c><v>1</v></c></row>" * 1_500_000)
    yield "empty_cells.xlsx", sheet("<row>" + "<c/>" * 8_000_000 + "</row>")
    shared = '<row><c t="s"><v>0</v></c></row>'
    yield "long_text.xlsx", sheet(shared * 50_000, texts=f"<sst><si><t>{'a' * 1_000_000}</t></si></sst>")
    yield "many_texts.xlsx", sheet(shared, texts=f"<sst>{'<si/>' * 8_000_000}</sst>")
    yield "zeros.xlsx", sheet("\0" * 80_000_000)
    yield "deep.xlsx", sheet(row(f'<c t="inlineStr"><is>{"<r>" * 50_000}{"</r>" * 50_000}</is></c>'))
    yield "digits.xlsx", sheet(row(f'<c t="s"><v>{"9" * 5_000}</v></c>'))
    yield "signs.xlsx", sheet(row('<c t="s"><v>²</v></c>'))
    yield "place.xlsx", sheet(row(f'<c r="A{"9" * 5_000}"><v>1</v></c>'))
    yield "open.xlsx", sheet("<c " * 3_000_000)
    yield "doctype.xlsx", sheet("", texts='<!DOCTYPE a [<!ENTITY b "cccccccccc">]><sst>&b;</sst>')
    yield "wide.xlsx", sheet("".join(row("<c><v>1</v></c>" * 16_384, n) for n in range(1, 30)))
    yield "zeros.jsonl.gz", gzip.compress(b"\0" * 90_000_000)
    yield "lists.json.gz", gzip.compress(f"[{HEAD}[{'[],' * 20_000_000}1]}}]".encode())
    yield "short_lists.json.gz", gzip.compress(f"[{HEAD}[{'[],' * 4_500_000}1]}}]".encode())
    yield "lines.jsonl.gz", gzip.compress(b"\n" * 90_000_000)
    yield "objects.jsonl.gz", gzip.compress(b"{}\n" * 5_000_000)
    yield "names.csv.gz", gzip.compress(",".join(f"c{n}" for n in range(20_000)).encode())
    yield "commas.csv.gz", gzip.compress(b"," * 15_000_000)
    yield "rows.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 3_900_000)
    yield "twice.jsonl.gz", gzip.compress(gzip.compress(b"\0" * 900_000_000, 1))
    yield "zeros.jsonl.bz2", bz2.compress(b"\0" * 400_000_000)
    yield "zeros.jsonl.xz", lzma.compress(b"\0" * 400_000_000, preset=1)
    yield "zeros.tar.gz", tarred(b"\0" * 90_000_000)
    yield "members.zip", zipped({f"{n}.jsonl": b"\0" * 1_000_000 for n in range(80)})
    yield "small_members.zip", zipped({f"{n}.jsonl": b"{}" for n in range(800)})
    yield "inspect.zip", zipped({"header.json": b"[" * 80_000_000})
    yield "names.csv", (",".join(f"c{n}" for n in range(16_000))).encode() + b"\n1\n"
    yield "same_names.csv", b"Score," * 16_000 + b"a\n"
    yield "empty_names.csv", b"," * 50_000 + b"\n" + b"," * 49_000
    yield "quotes.csv", b'a,b\n"' + b'x,"\n' * 24_000
    yield "only_quotes.csv", b'"' * 100_000
    yield "keys.json", json.dumps([{f"k{n}": 1 for n in range(8_000)}]).encode()
    yield "more_keys.jsonl", b"".join(b'{"k%d": "A"}\n' % n for n in range(6_000))
    for number, text in enumerate(nested(40_000)):
        yield f"deep{number}.json", f"{HEAD}{text[:99_000]}}}".encode()
    for depth in (200, 480, 900):
        for number, text in enumerate(nested(depth)):
            yield f"deep{number}_{depth}.json", f"[{HEAD}{text}}}]".encode()
    yield "digits.json", f"[{HEAD}{'1' * 99_000}}}]".encode()
    sides = ", ".join(f'"k{n}": [{", ".join(["{}"] * 200)}]' for n in range(100))
    yield "sides.json", f"[{HEAD}{{{sides}}}}}]".encode()
    yield "tree.json", f"[{HEAD}{json.dumps(tree(10))}}}]".encode()
    yield "text.parquet", parquet({"question": dictionary("a" * 1_000_000, 50_000), "winner": ["A"] * 50_000})
    yield "rows.parquet", parquet({"question": ["q"] * 5_000_000, "winner": ["A"] * 5_000_000})
    yield "columns.parquet", parquet({f"c{n}": [1] for n in range(400)}, write_statistics=False)
    yield "lists.parquet", parquet({"question": [[None] * 5_000_000]})


def tree(depth):
    return {"a": [tree(depth - 1), tree(depth - 1)], "winner": "A"} if depth else {"winner": "A"}


def measured(path):
    """Read a file in a child process; return what was raised, MB above those at the beginning, and seconds."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        from biaslab.core.errors import BiaslabError
        from biaslab.logs import read_judgements

        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            raised = f"{len(read_judgements(path))} rows"
        except BiaslabError as error:
            raised = f"own: {str(error)[:150]}"
        except BaseException as error:
            raised = f"raw: {type(error).__name__} {str(error)[:100]}"
        used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        os.write(writes, json.dumps([raised, used, time.process_time()]).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else ["raw: killed", 0.0, 60.0]


if __name__ == "__main__":
    import python_calamine  # noqa: F401 - imported before memory is measured

    from biaslab.logs import read_judgements  # noqa: F401

    folder = Path(sys.argv[1])
    for name, data in files():
        if len(sys.argv) > 2 and sys.argv[2] not in name:
            continue
        (folder / name).write_bytes(data)
        print(json.dumps([name, len(data), *measured(folder / name)]), flush=True)
