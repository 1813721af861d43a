"""Format numbers, counted nouns and tables for readers, and write files atomically."""

from __future__ import annotations

import glob
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from biaslab.core.errors import InputError, OutputError

MISSING = "–"
_ABANDONED = 7 * 24 * 3600  # seconds since the last write


def count(number: int, noun: str) -> str:
    """Format a count with its noun, in the plural if needed.

    Examples
    --------
    >>> count(1, "figure"), count(2000, "reply")
    ('1 figure', '2,000 replies')
    """
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def number(value: Any, digits: int = 3) -> str:
    """Format a number with a proper minus sign and without negative zero; an en dash if missing.

    Values that lie halfway between two digits, up to floating-point error, are rounded as exact halves.

    Examples
    --------
    >>> number(-0.12345), number(-0.0001), number(float("nan")), number(0.9375 - 1e-15)
    ('−0.123', '0.000', '–', '0.938')
    """
    if value is None or math.isnan(value):
        return MISSING
    value = float(f"{value:.12g}")
    text = f"{value:,.{digits}f}" if abs(value) < 1e6 else f"{value:.{digits}g}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def percent(share: float, digits: int = 4) -> str:
    """Format a share as a percentage with the given number of significant digits.

    Examples
    --------
    >>> percent(0.95), percent(0.03769, digits=2), percent(1, 2)
    ('95 %', '3.8 %', '100 %')
    """
    return f"{float(f'{100 * share:.{digits}g}'):g} %"


def html_table(caption: str, facts: Iterable[Sequence[str]], style: str = "") -> str:
    """Format name–value facts as an HTML table; ``style`` is the CSS of its cells.

    Examples
    --------
    >>> html_table("a judge", [("position", "0.5")]).count("<tr>")
    1
    """
    kind = f' style="{style}"' if style else ""
    rows = "".join(f"<tr><th{kind}>{escape(name)}</th><td{kind}>{escape(value)}</td></tr>" for name, value in facts)
    return f'<table><caption style="white-space: nowrap">{escape(caption)}</caption>{rows}</table>'


def require_file(name: str, target: str | PathLike[str], *endings: str) -> Path:
    """Check the path of an output file, creating its folder if missing, and return it.

    Parameters
    ----------
    name : str
        Parameter or option that gave the path, for the message.
    target : str or path
        The path.
    *endings : str
        Allowed endings; any if none is given.

    Raises
    ------
    InputError
        If the ending is not allowed, the path is a folder, or its folder cannot be created.

    Examples
    --------
    >>> require_file("out", "estimates.txt", ".csv")
    Traceback (most recent call last):
    ...
    biaslab.core.errors.InputError: out is 'estimates.txt', allowed: a file that ends in .csv; such as estimates.csv
    """
    place = Path(target)
    if endings and place.suffix not in endings:
        remedy = f"such as {place.with_suffix(endings[0]).name}"
        raise InputError(name, str(target), f"a file that ends in {', '.join(endings)}", remedy)
    try:
        place.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        allowed = "a file in a folder that exists or can be created"
        raise InputError(name, str(target), allowed, f"use another path ({error.strerror})") from error
    if place.is_dir():
        raise InputError(name, str(target), "a file, not a folder", "add a file name")
    return place


@contextmanager
def replacing(target: str | PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path; on success its file replaces the target, on error it is deleted.

    Temporary files left by killed processes are removed after a week without writing.

    Raises
    ------
    OutputError
        If the file cannot be written; the message names the target.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "table.csv") as partial:
    ...         _ = partial.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['table.csv']
    """
    place = Path(target)
    for abandoned in place.parent.glob(f".{glob.escape(place.name)}.*.partial"):  # left by a process that was killed
        with suppress(OSError):
            if time.time() - abandoned.stat().st_mtime > _ABANDONED:
                abandoned.unlink()
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")  # two processes may write the same target
    try:
        yield partial
        partial.replace(place)
    except OSError as error:
        raise OutputError(target, error) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
