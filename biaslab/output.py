"""What leaves the package: counted nouns and tables for people, and files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from os import PathLike
from pathlib import Path


def count(number: int, noun: str) -> str:
    """Put a noun after its number.

    Examples
    --------
    >>> count(1, "figure"), count(2000, "reply")
    ('1 figure', '2,000 replies')
    """
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def html_table(caption: str, facts: Iterable[Sequence[str]]) -> str:
    """Write facts, each a name and a value, as an HTML table.

    Examples
    --------
    >>> html_table("a judge", [("position", "0.5")]).count("<tr>")
    1
    """
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    return f'<table><caption style="white-space: nowrap">{escape(caption)}</caption>{rows}</table>'


@contextmanager
def replacing(target: str | PathLike[str]) -> Iterator[Path]:
    """Yield a path beside the target; what was written there becomes the target at the end, and nothing after an error.

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
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")  # two processes may write the same target
    try:
        yield partial
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)
