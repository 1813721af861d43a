"""Read the constructed sets: written originals with their annotations, and the candidates derived from them.

`tools.constructed` degrades the originals of `graded` and `dialogues` and writes the resulting files; `lengths` is
derived on loading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from biaslab.core.csv_files import read_csv
from biaslab.core.errors import DatasetError, InputError
from biaslab.core.schema import Dataset

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Piece:
    """A sentence or turn of a draft, and its position in the written original; None if it was inserted."""

    text: str
    origin: int | None


Draft = tuple[Piece, ...]
Source = Mapping[str, Any]


def draft_of(pieces: Sequence[str]) -> Draft:
    """Return the sentences or turns of a written original as a draft."""
    return tuple(Piece(text, place) for place, text in enumerate(pieces))


def substitute(draft: Draft, source: Source, which: str, count: int) -> Draft:
    """Apply the first annotated substitutions whose sentence is still present, to all its copies.

    Parameters
    ----------
    draft : tuple of Piece
        The sentences.
    source : mapping
        The original with its annotations.
    which : {"swaps", "slips"}
        Facts to replace by wrong ones, or grammatical errors: ``[place, old words, new words]`` each.
    count : int
        Number of substitutions.

    Raises
    ------
    DatasetError
        If fewer can be applied, or a sentence lacks the old words.
    """
    present = {piece.origin for piece in draft}
    chosen = [(place, old, new) for place, old, new in source[which] if place in present][:count]
    if len(chosen) < count:
        raise DatasetError(f"{source['context_id']} {which}", len(chosen), f"{count} in the remaining sentences")
    for place, old, new in chosen:
        pattern = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
        if not all(pattern.search(piece.text) for piece in draft if piece.origin == place):
            raise DatasetError(f"{source['context_id']} {which}", old, f"words of sentence {place}")
        draft = tuple(
            replace(piece, text=pattern.sub(new, piece.text, count=1)) if piece.origin == place else piece
            for piece in draft
        )
    return draft


def arrange(names: Sequence[str], row: int) -> list[str]:
    """Return the names in the order of one row of a Latin square, in which each takes every position once."""
    n = len(names)
    zigzag = [step // 2 if step % 2 == 0 else n - 1 - step // 2 for step in range(n)]
    return [names[(place + row) % n] for place in zigzag]


def read_sources(name: str, folder: Path | None = None) -> list[Source]:
    """Return the written originals and annotations of a constructed set; None reads the bundled file."""
    document = json.loads(_file(folder or FOLDER, f"{name}.json").read_text(encoding="utf-8"))
    return list(document["contexts"])


def read_built(name: str, attributes: Mapping[str, str], folder: Path | None, **fields: Any) -> Dataset:
    """Read a built set, with contexts and references from its source file."""
    built = read_csv(_file(folder or FOLDER, f"{name}_built.csv"), keep_default_na=False)
    missing = [column for column in ("context_id", *attributes) if column not in built.columns]
    if missing:
        raise DatasetError(f"{name}_built.csv column", missing, f"the columns context_id, {', '.join(attributes)}")
    sources = {source["context_id"]: source for source in read_sources(name, folder)}
    unknown = ~built["context_id"].isin(list(sources))
    if unknown.any():
        raise DatasetError("built context_id", built.loc[unknown, "context_id"].iloc[0], f"one of {name}.json")
    built["context"] = [sources[context]["text"] for context in built["context_id"]]
    built["reference"] = [sources[context].get("reference", "") for context in built["context_id"]]
    wide = built.reset_index().melt(["index", "context_id", "candidate_id"], list(attributes), "attribute", "score")
    human = wide.sort_values("index", kind="stable").assign(annotator="construction")
    return Dataset(f"{name} (constructed)", built, human, attributes, **fields)


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise InputError("path", str(folder), f"a folder with the file {name}", "omit it for the bundled set")
    return folder / name
