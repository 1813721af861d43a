"""Edits written by a language model or a person, given as a table: text → edited text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.prompts.edits.base import Edit, Quality

_CALM = re.compile(r"(answer[12])_(\w+)")
_SIDES = ("1", "2")
_FORMATS = "columns text and edited; CALM's answer1, answer1_KIND …; or JudgeBiasBench's original_response1 …"
_SOURCES = {
    "calm": "Ye et al. 2024, Justice or Prejudice? (CALM), its table",
    "judgebiasbench": "Zhou et al. 2026, JudgeBiasBench, its table",
    "own": "the user's own table",
}
_LOWERED = {"fallacy_oversight"}


def from_table(
    table: str | Path | pd.DataFrame, kind: str | None = None, name: str | None = None, quality: Quality | None = None
) -> Edit:
    """Create an `Edit` that looks up the edited text; texts not in the table are unchanged.

    Parameters
    ----------
    table : str, pathlib.Path or pandas.DataFrame
        A frame, or a file that ends in ``.json`` (a list of objects), ``.jsonl`` or ``.csv``, in one of three formats:

        * columns ``text`` and ``edited``, optionally ``kind``;
        * CALM's: ``answer1``, optionally ``answer2``, and next to them ``answer1_KIND``, such as ``answer1_cheerful``;
        * JudgeBiasBench's: ``original_response1``, ``original_response2``, ``rewritten_response1``,
          ``rewritten_response2`` and ``label``, which names the better one ("response1" or "response2"). Its kinds are
          ``rejected``, the worse one, into which the bias was written, and ``chosen``, the better one, from which it
          was removed (for gender and race, into which it was written).
    kind : str, optional
        Which of the edits in the table; required if there are several.
    name : str, optional
        Name of the edit; by default the file's name and the kind.
    quality : {"left", "lowered"}, optional
        By default "lowered" for CALM's ``fallacy_oversight``, else "left".

    Returns
    -------
    Edit
        If a text occurs in several rows, the first one is used.

    Raises
    ------
    InputError
        If the file does not exist, its format or the kind is unknown, or no text differs.

    References
    ----------
    Ye et al. 2024, *Justice or Prejudice? Quantifying Biases in LLM-as-a-Judge*; Zhou et al. 2026, *Toward Robust
    LLM-Based Judges: Taxonomic Bias Evaluation and Debiasing Optimization*; the formats are those of the authors'
    published data sets.

    Examples
    --------
    >>> table = pd.DataFrame({"answer1": ["Rain fell."], "answer1_sad": ["Alas, rain fell."]})
    >>> edit = from_table(table)
    >>> edit.name, edit("Rain fell."), edit("Snow fell.")
    ('sad', 'Alas, rain fell.', 'Snow fell.')
    """
    frame = table if isinstance(table, pd.DataFrame) else _read(Path(table))
    form, by_kind = _kinds(frame)
    if kind is None and len(by_kind) > 1:
        raise InputError("kind", None, f"one of {', '.join(by_kind)}", "the table contains several edits: choose one")
    chosen = next(iter(by_kind)) if kind is None else kind
    require_one_of("kind", chosen, tuple(by_kind))
    looked_up = by_kind[chosen]
    if all(text == edited for text, edited in looked_up.items()):
        raise InputError("table", chosen, "a kind with at least one text that differs from its edited text")
    stem = "" if isinstance(table, pd.DataFrame) else Path(table).stem

    def change(text: str) -> str:
        return looked_up.get(text, text)

    change.__doc__ = f"Look the edited text up among {len(looked_up)}."
    named = name or "_".join(filter(None, (stem, chosen))) or "table"
    return Edit(named, change, source=_SOURCES[form], quality=quality or ("lowered" if chosen in _LOWERED else "left"))


def _kinds(frame: pd.DataFrame) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the format, and for each kind the edited version of each text."""
    rows = frame.to_dict("records")
    columns = {str(column) for column in frame.columns}
    by_kind: dict[str, dict[str, str]] = {}
    if {"text", "edited"} <= columns:
        form, pairs = "own", (_own(row) for row in rows)
    elif {"original_response1", "rewritten_response1", "label"} <= columns:
        form, pairs = "judgebiasbench", (pair for row in rows for pair in _judgebiasbench(row))
    else:
        named = [match for match in map(_CALM.fullmatch, sorted(columns)) if match and match[1] in columns]
        form, pairs = "calm", ((m[2], row[m[1]], row[m[0]]) for m in named for row in rows)
    for kind, text, edited in pairs:
        if isinstance(text, str) and isinstance(edited, str) and edited.strip():
            by_kind.setdefault(str(kind), {}).setdefault(text, edited)
    if not by_kind:
        raise InputError("table", sorted(columns), _FORMATS, "with text and edited text in at least one row")
    return form, by_kind


def _own(row: Mapping[Any, Any]) -> tuple[Any, Any, Any]:
    return row.get("kind", ""), row["text"], row["edited"]


def _judgebiasbench(row: Mapping[Any, Any]) -> Iterator[tuple[str, Any, Any]]:
    if row["label"] not in ("response1", "response2"):
        raise InputError("label", row["label"], '"response1" or "response2", the better one')
    for side in _SIDES:
        kind = "chosen" if row["label"].endswith(side) else "rejected"
        yield kind, row.get(f"original_response{side}"), row.get(f"rewritten_response{side}")


def _read(path: Path) -> pd.DataFrame:
    """Read all values as strings: nothing in a text is a number or a date."""
    require_one_of(
        "table", path.suffix, (".json", ".jsonl", ".csv"), "pass a frame, or a file with one of these extensions"
    )
    try:
        if path.suffix == ".csv":
            return pd.read_csv(path, dtype=str, keep_default_na=False)
        written = path.read_text(encoding="utf-8")
        lines = [line for line in written.split("\n") if line.strip()]
        rows = json.loads(written) if path.suffix == ".json" else [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise InputError("table", str(path), "a readable file", str(error)) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError("table", str(path), "a list of objects, one a row")
    return pd.DataFrame(rows)
