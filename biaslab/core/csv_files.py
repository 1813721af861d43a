"""Write and read CSV files, preventing formula injection in spreadsheets (CWE-1236).

A judge may be called ``=HYPERLINK(…)``. Spreadsheets execute cells that begin with one of ``= + - @``, a tab or a line
break, so such text is written with a leading apostrophe, which marks it as text. `read_csv` removes the apostrophe, so
data survive a round trip. Text that parses as a number is left alone.
"""

from __future__ import annotations

import csv
import re
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.core.output import replacing

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


def write_csv(frame: pd.DataFrame, target: str | PathLike[str], float_format: str | None = None) -> None:
    """Write a frame without its index to a CSV file, atomically; see `csv_of`.

    Raises
    ------
    OutputError
        If the file cannot be written, such as when the disk is full.
    """
    with replacing(target) as partial:
        partial.write_text(csv_of(frame, float_format=float_format), encoding="utf-8", newline="")


def read_csv(source: str | PathLike[str], **options: Any) -> pd.DataFrame:
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
            cells = column.map(change, na_action="ignore")
            if any(cell is not before for cell, before in zip(cells, column, strict=True)):
                changed.isetitem(at, (cells.astype(kind) if isinstance(kind, pd.StringDtype) else cells).array)
    return changed
