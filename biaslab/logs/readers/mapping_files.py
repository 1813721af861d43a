"""Load a mapping from a dictionary, a TOML file, or a function of the table.

::

    # mapping of verdicts.json
    join = "annotators.json on idx"          # a second file, relative to this one
    explode = "games"                        # one row per item of a list
    judge = "=GPT-3.5"                       # like --map judge==GPT-3.5
    context_id = "idx"
    winner = { field = "games.verdict", values = { 1 = "first", 2 = "second", 0 = "tie" } }
    preference = ["annotator1", "annotator2", "annotator3"]

``format`` and ``score_pattern`` are allowed too. Names and expressions are checked when the file is loaded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from biaslab.core.errors import InputError
from biaslab.logs.readers.expressions import LISTS, parse_expression
from biaslab.logs.readers.mapping import NAMES
from biaslab.logs.readers.readings import compiled
from biaslab.logs.readers.reshaping import Shape, TableFunction, make_shape

OPTIONS = ("format", "score_pattern", "explode", "join")


@dataclass(frozen=True)
class LogMapping:
    """A user's mapping of a log: columns, format and reshaping.

    Parameters
    ----------
    columns : mapping
        Column of the trials → expression.
    format : str, optional
        Format of the log.
    score_pattern : str, optional
        A regular expression that extracts scores from texts.
    shape : Shape or callable, optional
        Reshaping of records before they are read; a function takes their table and returns a new one.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None
    score_pattern: str | None = None
    shape: Shape | TableFunction | None = None


def make_mapping(mapping: Mapping[str, Any] | str | Path | TableFunction | None) -> LogMapping:
    """Load and check a mapping.

    Raises
    ------
    InputError
        If the file is not TOML, or a name or an expression is invalid.

    Examples
    --------
    >>> make_mapping({"judge": "=me", "format": "llmbar"}).format
    'llmbar'
    """
    if isinstance(mapping, str | Path):
        return _made(read_mapping_file(mapping), str(mapping))
    if callable(mapping):
        return LogMapping(shape=mapping)
    if mapping is not None and not isinstance(mapping, Mapping):
        allowed = "columns of trials with their fields, a TOML file, or a function of a data frame"
        remedy = 'such as {"context_id": "question", "judge": "=me"}'
        raise InputError("mapping", type(mapping).__name__, allowed, remedy)
    return _made(dict(mapping or {}), "mapping")


def read_mapping_file(path: str | Path) -> dict[str, Any]:
    """Return the content of a mapping file; a joined file is resolved relative to its folder.

    Raises
    ------
    InputError
        If the file does not exist or is not TOML.
    """
    file = Path(path)
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("mapping", str(path), "a mapping, or an existing TOML file") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        remedy = 'write for example context_id = "question"'
        raise InputError("mapping", str(path), f"a TOML file ({error})", remedy) from error
    if isinstance(entries.get("join"), str):
        entries["join"] = str(file.parent / entries["join"])  # absolute paths are unchanged
    return entries


def _made(entries: dict[str, Any], name: str) -> LogMapping:
    columns = {
        key: {"fields": value} if key in LISTS and isinstance(value, list) else value
        for key, value in entries.items()
        if key not in OPTIONS
    }
    if unknown := [key for key in columns if key not in NAMES]:
        raise InputError(name, unknown, f"some of {', '.join((*OPTIONS, *NAMES))}")
    for key, value in columns.items():
        parse_expression(key, value)
    for option in ("format", "score_pattern"):
        if not isinstance(entries.get(option), str | None):
            raise InputError(f"{name}: {option}", entries[option], "a text")
    pattern = entries.get("score_pattern")
    if pattern is not None:
        compiled(pattern, "score_pattern")
    shape = make_shape(entries.get("explode"), entries.get("join"))
    return LogMapping(columns, entries.get("format"), pattern, shape)
