"""Read and write files safely: CSV without formulas, strict JSON, and decompression up to a limit.

A judge may be called ``=HYPERLINK(…)``. Spreadsheets execute cells that begin with one of ``= + - @``, a tab or a line
break, so such text is written with a leading apostrophe, which marks it as text. `read_csv` removes the apostrophe, so
data survive a round trip. Text that parses as a number is left alone.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import tomllib
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from biaslab.core.checks import read
from biaslab.core.errors import InputError
from biaslab.core.output import AnyPath, replacing

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?")


def guarded(cell: Any) -> Any:
    """Return a cell as it is written to a CSV file; only text is changed.

    Examples
    --------
    >>> guarded("=1+1"), guarded("a judge"), guarded("-0.5"), guarded(-0.5), guarded("'@me")
    ("'=1+1", 'a judge', '-0.5', -0.5, "''@me")
    """
    is_formula = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def unguarded(cell: Any) -> Any:
    """Invert `guarded`.

    Examples
    --------
    >>> unguarded("'=1+1"), unguarded("'tis"), unguarded("''@me")
    ('=1+1', "'tis", "'@me")
    """
    return cell[1:] if isinstance(cell, str) and _GUARDED.match(cell) else cell


def csv_of(frame: pd.DataFrame, float_format: str | None = None) -> str:
    r"""Return a frame as CSV; all CSV output goes through this function.

    Parameters
    ----------
    frame : pandas.DataFrame
        Contains numbers, booleans and text.
    float_format : str, optional
        Format of numbers, such as ``"%.6g"``; by default they are written with full precision.

    Examples
    --------
    >>> import pandas as pd
    >>> csv_of(pd.DataFrame({"judge": ["=cmd()", "b"], "estimate": [-0.5, 0.5]}))
    "judge,estimate\n'=cmd(),-0.5\nb,0.5\n"
    """
    safe = _each_text(frame, guarded)
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC):
        text = str(safe.to_csv(index=False, lineterminator="\n", quoting=quoting, float_format=float_format))
        if "\r" not in text:  # an unquoted carriage return ends a row, and pandas does not quote it
            break
    return text


def write_csv(frame: pd.DataFrame, target: AnyPath, float_format: str | None = None) -> None:
    """Write a frame without its index to a CSV file, atomically; see `csv_of`.

    Raises
    ------
    OutputError
        If the file cannot be written, such as when the disk is full.
    """
    with replacing(target) as partial:
        partial.write_text(csv_of(frame, float_format=float_format), encoding="utf-8", newline="")


def read_csv(source: AnyPath, **options: Any) -> pd.DataFrame:
    """Read a CSV file written by `write_csv`; ``options`` are passed to `pandas.read_csv`."""
    import pandas as pd

    frame: pd.DataFrame = pd.read_csv(Path(source), **options)
    return _each_text(frame, unguarded)


def _each_text(frame: pd.DataFrame, change: Any) -> pd.DataFrame:
    """Apply a function to column names and all text."""
    import pandas as pd

    changed = frame.rename(columns=change)
    for at, kind in enumerate(frame.dtypes):
        if not (pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind)):
            column = frame.iloc[:, at].astype(object)
            if any(change(text) is not text for text in {cell for cell in column if isinstance(cell, str)}):
                cells = column.map(change, na_action="ignore")
                changed.isetitem(at, (cells.astype(kind) if isinstance(kind, pd.StringDtype) else cells).array)
    return changed


@cache
def declared(package: str, name: str) -> dict[str, Any]:
    """Return the TOML file of this name in a package."""
    return tomllib.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


class RepeatedKeyError(ValueError):
    """A JSON object has a duplicate key."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object for key–value pairs; for ``object_pairs_hook`` of json.

    Raises
    ------
    RepeatedKeyError
        If a key has two different values.

    Examples
    --------
    >>> unique([("winner", "A"), ("winner", "A")])
    {'winner': 'A'}
    """
    whole = dict(pairs)
    if len(whole) < len(pairs):
        key = next((key for key, value in pairs if value != whole[key]), None)
        if key is not None:
            raise RepeatedKeyError(f"duplicate key {key!r} with different values")
    return whole


DECODER = json.JSONDecoder(object_pairs_hook=unique)


#: Environment variable that raises the limit (in GB).
LIMIT = "BIASLAB_UNPACKED_GB"
_GB = 10**9
_MOST = 2 * _GB
_SURE = 64 * 10**6  # any file may decompress to this size
_RATIO = 200  # logs compress to a hundredth at best, bombs to a thousandth or less
_LIST = 56  # bytes that an empty list takes in memory
_PART = 2**20
_PACKED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}


class Allowance:
    """Limit the decompressed size of one file.

    Parameters
    ----------
    name : str
        File name, for the message.
    size : int
        Compressed size in bytes. The limit is 200 times that or 64 MB, whichever is larger, but at most 2 GB, unless
        the environment variable ``BIASLAB_UNPACKED_GB`` is set.

    Examples
    --------
    >>> import gzip
    >>> Allowance("log.gz", 100).unpacked(gzip.compress(b"a line"))
    b'a line'
    """

    def __init__(self, name: str, size: int) -> None:
        allowed = _limit_in_environment()
        self._name, self._dense = name, _RATIO * size
        self._whole = self._left = min(_MOST, max(_SURE, _RATIO * size)) if allowed is None else allowed

    def unpacked(self, data: bytes) -> bytes:
        """Return decompressed data, also from nested compression.

        Raises
        ------
        InputError
            If the result is larger than allowed; the message says how to raise the limit.
        OSError, EOFError, zlib.error, lzma.LZMAError
            If the data are damaged.
        """
        while opened := next((how for magic, how in _PACKED.items() if data.startswith(magic)), None):
            data = self.read(opened(io.BytesIO(data)))
        if len(data) > self._dense:
            self.take(_LIST * (data.count(b"[") + data.count(b"{")))
        return data

    def read(self, stream: IO[bytes] | io.BufferedIOBase) -> bytes:
        """Read a stream to its end, raising like `unpacked`."""
        whole = io.BytesIO()
        while chunk := stream.read(_PART):
            self.take(len(chunk))
            whole.write(chunk)
        return whole.getvalue()

    def take(self, size: int) -> None:
        """Count decompressed bytes, raising like `unpacked`."""
        self._left -= size
        if self._left < 0:
            allowed = f"a file of at most {self._whole / _GB:.3g} GB when decompressed"
            raise InputError("path", self._name, allowed, f"if you trust it, set {LIMIT} to a larger size in GB")


def _limit_in_environment() -> int | None:
    """Return the size limit set in the environment, in bytes."""
    setting = os.environ.get(LIMIT, "").strip()
    gigabytes: float | None = read(LIMIT, setting, float) if setting else None
    if gigabytes is not None and gigabytes <= 0:
        raise InputError(LIMIT, setting, "a number of GB above 0")
    return None if gigabytes is None else int(gigabytes * _GB)
