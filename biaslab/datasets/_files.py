"""Read files for the loaders (text, JSON, JSON Lines and tables), with errors that state the location."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from biaslab.core.checks import is_there
from biaslab.core.errors import DatasetError, InputError
from biaslab.core.files import Allowance, declared
from biaslab.core.schema import CANDIDATE_COLUMNS, HUMAN_COLUMNS, Dataset

FileRecord = Mapping[str, Any]
T = TypeVar("T")
#: Attributes of each data set, with their definitions.
DECLARED: dict[str, dict[str, Any]] = declared("biaslab.datasets", "attributes.toml")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")


def need_path(path: str | Path | None, remedy: str) -> Path:
    """Return the path, or raise `InputError` with the remedy if it is None, missing or a folder."""
    if path is None:
        raise InputError.plain(f"path is missing, expected: the file of this data set, which is not bundled; {remedy}")
    file = Path(path)
    if not (is_there(file) and file.is_file()):
        raise InputError("path", str(path), "an existing file", remedy)
    return file


def read_text(path: Path) -> str:
    """Return a file's UTF-8 text, decompressed if the name ends in ``.gz``."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = Allowance(str(path), len(data)).read(gzip.GzipFile(fileobj=io.BytesIO(data)))
        return data.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError) as error:
        raise DatasetError.plain(f"{path} is not a complete gzip file ({error}); download it again") from error
    except UnicodeDecodeError as error:
        raise DatasetError.plain(f"{path} is not UTF-8 text ({error}); save it as UTF-8") from error


def read_json(path: Path) -> Any:
    """Return the JSON document in a file."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DatasetError.plain(f"{path}, line {error.lineno} is not valid JSON ({error.msg})") from error


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file; blank lines are skipped.

    Raises
    ------
    DatasetError
        If a line is not a JSON object; the message names the line, counted from 1.
    """
    records = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise DatasetError.plain(f"{path}, line {number} is not valid JSON ({error.msg})") from error
            if not isinstance(record, dict):
                raise DatasetError(f"{path}, line {number}", record, "one JSON object per line")
            records.append(record)
    if not records:
        raise DatasetError.plain(f"{path} is empty, expected: at least one JSON object")
    return records


def take(record: FileRecord, key: str, kind: type[T], where: str) -> T:
    """Return ``record[key]``, or raise `DatasetError` if it is missing or has another type."""
    value = record.get(key)
    if not isinstance(value, kind):
        raise DatasetError(f"{where}, column {key!r}", value, f"a value of type {kind.__name__}")
    return value


def take_number(record: FileRecord, key: str, where: str) -> float:
    """Return ``record[key]`` as a float, or raise `DatasetError` if it is missing or not a number."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DatasetError(f"{where}, column {key!r}", value, "a number")
    return float(value)


def read_number(value: object, place: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a number, possibly written as text, or raise `DatasetError` if it is not a number or out of range."""
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        allowed = "a number" if low == -math.inf else f"a number from {low:g} to {high:g}"
        raise DatasetError(place, value, allowed)
    return number


def choose_by_scale(
    names: Sequence[str], attributes: Mapping[str, tuple[tuple[float, float], str]]
) -> tuple[dict[str, str], tuple[float, float]]:
    """Return some attributes of a data set with several scales, with their definitions, and their common scale.

    Raises
    ------
    InputError
        If a name is unknown, none is given, or they do not share a scale: nothing is rescaled silently.
    """
    unknown = [name for name in names if name not in attributes]
    if unknown or not names:
        raise InputError("attributes", unknown or names, f"some of {', '.join(attributes)}")
    scales = {name: attributes[name][0] for name in names}
    if len(set(scales.values())) > 1:
        listed = ", ".join(f"{name} {low:g}-{high:g}" for name, (low, high) in scales.items())
        raise InputError("attributes", names, "attributes with the same scale", f"load them separately: {listed}")
    return {name: attributes[name][1] for name in names}, scales[names[0]]


def from_rows(
    name: str,
    candidates: list[tuple[Any, ...]],
    human: list[tuple[Any, ...]],
    attributes: Mapping[str, str],
    scale: tuple[float, float],
    noun: str,
    provenance: str,
    variables: Sequence[str] = (),
) -> Dataset:
    """Return the data set for rows in the order of the schema's columns.

    Values of candidates after the schema's columns are variables with the given names.
    """
    candidate_frame = pd.DataFrame(candidates, columns=[*CANDIDATE_COLUMNS, *variables])
    human_frame = pd.DataFrame(human, columns=list(HUMAN_COLUMNS))
    return Dataset(name, candidate_frame, human_frame, attributes, scale, noun, provenance)


def text_key(*texts: str) -> str:
    """Return an identifier that depends only on the texts: 12 hex digits of SHA-256."""
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def read_table(path: Path) -> pd.DataFrame:
    """Return a table whose index is the data row in the file, counted from 1.

    Values of CSV and TSV files stay strings, even if empty; a CSV file may also be separated by semicolons or tabs,
    see `separator_of`. JSON files contain a single list of objects.

    Raises
    ------
    InputError
        If the suffix is unknown.
    DatasetError
        If the file cannot be parsed, or has no rows; the message names the file and, if possible, the line.
    """
    suffix = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]).lower()
    kind = suffix.removesuffix(".gz")
    if kind not in SUFFIXES or suffix == ".parquet.gz":
        allowed = f"a name that ends in {', '.join(SUFFIXES)} (text formats also with .gz)"
        raise InputError("path", str(path), allowed, "convert the file, or rename it to match its format")
    if kind == ".parquet":
        table = _read_parquet(path)
    elif kind in (".csv", ".tsv"):
        text = read_text(path)
        table = _read_separated(path, text, separator_of(text) if kind == ".csv" else "\t")
    else:
        records = read_jsonl(path) if kind in (".jsonl", ".ndjson") else read_list(path)
        table = pd.DataFrame.from_records(records, index=range(1, len(records) + 1))
    if table.empty:
        raise DatasetError.plain(f"{path} is empty, expected: at least one data row")
    return table


def read_columns(path: Path, columns: Sequence[str], remedy: str) -> pd.DataFrame:
    """Return a table like `read_table`, or raise `DatasetError` if it lacks one of the columns."""
    table = read_table(path)
    missing = [name for name in columns if name not in table]
    if missing:
        raise DatasetError.plain(f"{path}, header lacks the columns {', '.join(missing)}; {remedy}")
    return table


def read_list(path: Path, remedy: str = "") -> list[dict[str, Any]]:
    """Return the objects of a JSON file that contains one list of objects."""
    document = read_json(path)
    if not isinstance(document, list):
        raise DatasetError.plain(f"{path} is not a JSON list of objects, one per row; {remedy}".removesuffix("; "))
    for row, record in enumerate(document, start=1):
        if not isinstance(record, dict):
            raise DatasetError(f"{path}, row {row}", record, "a JSON object")
    return document


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow

    try:
        table = pd.read_parquet(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DatasetError.plain(f"{path} cannot be read ({error}), expected: a Parquet file") from error
    return table.set_axis(range(1, len(table) + 1), axis=0)


def separator_of(text: str) -> str:
    r"""Return the field separator of a table: the first of tab, comma, semicolon and bar to split header and rows.

    One of the first rows must split like the header; the others may be damaged.

    Examples
    --------
    >>> separator_of("doc;text;score\n1;It rained, and rained.;4\n")
    ';'
    """
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    for separator in "\t,;|":
        header, *rows = _lengths(text, separator) or [0]
        if header > 1 and (not rows or header in rows):
            return separator
    return ","


def lines_of(text: str) -> Iterator[str]:
    r"""Yield the lines of a text with their ends: \n, \r or \r\n, as `csv.reader` needs them.

    Unlike `io.StringIO`, which holds four bytes a character, this needs no copy of the text.

    Examples
    --------
    >>> list(lines_of("a\r\nb\n\nc"))
    ['a\r\n', 'b\n', '\n', 'c']
    """
    return (line[0] for line in _LINE.finditer(text))


def _lengths(text: str, separator: str) -> list[int]:
    """Return the number of fields in the header and the first rows, as far as they can be parsed."""
    lengths: list[int] = []
    reader = csv.reader(lines_of(text), delimiter=separator)
    with suppress(csv.Error):
        lengths.extend(len(row) for row in islice(reader, 20) if any(row))
    return lengths


def from_frame(data: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return a table like those of `read_table` from a data frame; rows are counted from 1, whatever its index.

    Raises
    ------
    InputError
        If it is not a data frame, or its columns have several levels.
    DatasetError
        If it has no rows, or two columns have the same name.
    """
    if not isinstance(data, pd.DataFrame):
        raise InputError(where, data, "a pandas.DataFrame", "create one with pd.DataFrame(rows)")
    if data.columns.nlevels > 1:
        raise InputError(f"{where}, columns", list(data.columns), "a single level of columns", "flatten their names")
    if data.empty:
        raise DatasetError.plain(f"{where} is empty, expected: at least one row and one column")
    _require_different(list(data.columns), where)
    return data.astype(object).set_axis(range(1, len(data) + 1), axis=0)


def _require_different(names: list[str], where: str) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1}, key=str)
    if repeated:
        raise DatasetError.plain(f"{where}, header repeats the columns {', '.join(map(str, repeated))}")


def _read_separated(path: Path, text: str, separator: str) -> pd.DataFrame:
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(lines_of(text), delimiter=separator, strict=True)
    try:
        header, *rows = list(reader) or [[]]
    except csv.Error as error:
        allowed = f'fields separated by {separator!r} and quoted by pairs of "'
        problem = f"{path}, line {reader.line_num} cannot be read ({error})"
        raise DatasetError.plain(f"{problem}, expected: {allowed}") from error
    names = [name.strip() for name in header]
    _require_different(names, str(path))
    filled = {number: row for number, row in enumerate(rows, start=1) if any(row)}
    for number, row in filled.items():
        if len(row) != len(names):
            allowed = f"{len(names)}, as in the header, separated by {separator!r}"
            raise DatasetError(f"{path}, row {number}, number of fields", len(row), allowed)
    return pd.DataFrame(list(filled.values()), index=list(filled), columns=names, dtype=object)
