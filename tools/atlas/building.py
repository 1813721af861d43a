"""Write the carried rows and their data cards from raw files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from biaslab.atlas import judgements
from biaslab.atlas.sources import SOURCES, AtlasSource, find_source
from biaslab.core.errors import InputError
from biaslab.datasets._files import text_key
from tools.atlas import perplexity
from tools.atlas.cards import card
from tools.atlas.raw_texts import TEXTS

#: Where the data cards are.
CARDS = judgements.FOLDER.parent / "cards"
_DROPPED = ("reply", "key")
_ITEM = ["context_id", "candidate_id"]


def make_rows(source: AtlasSource, folder: Path, kept: pd.Series | None = None) -> pd.DataFrame:
    """Return the rows of a source: its trials as numbers, with the log-perplexity of each text.

    Parameters
    ----------
    source : Source
        One that is carried.
    folder : Path
        Of raw data.
    kept : pandas.Series, optional
        Hash of a text → log-perplexity; what is kept in the package by default.

    Returns
    -------
    pandas.DataFrame
        As `biaslab.atlas.trials` returns it, without ``key``; ``attrs`` as the source has it, and ``texts``, how many
        texts there are, and ``read``, of how many the log-perplexity is known.

    Raises
    ------
    InputError
        If the source is not carried, or a file is missing.
    """
    if not source.carried:
        raise InputError("source", source.name, f"one of {', '.join(s.name for s in SOURCES if s.carried)}")
    trials = source.read(folder)
    rows = trials.drop(columns=list(_DROPPED))
    perplexities = pd.Series(dtype=float, index=pd.MultiIndex.from_arrays([[], []]))
    count = 0
    if source.name in TEXTS:
        texts = TEXTS[source.name](folder)
        numbers = texts["text"].map(text_key).map(perplexity.read_kept() if kept is None else kept)
        perplexities, count = (
            pd.Series(numbers.to_numpy(float), index=pd.MultiIndex.from_frame(texts[_ITEM])),
            len(texts),
        )
    for column, who in judgements.PERPLEXITIES.items():
        rows[column] = perplexities.reindex(pd.MultiIndex.from_frame(rows[["context_id", who]])).to_numpy(float)
    rows.attrs = trials.attrs | {"texts": count, "read": int(perplexities.notna().sum())}
    return rows


def build(folder: Path, names: Sequence[str] | None = None, target: Path = judgements.FOLDER) -> list[Path]:
    """Write the rows and the data card of every carried source.

    Parameters
    ----------
    folder : Path
        Of raw data.
    names : sequence of str, optional
        Of sources; all that are carried by default.
    target : Path
        Folder of the rows; the cards go into the folder ``cards`` beside it.

    Returns
    -------
    list of Path
        What was written.
    """
    wanted = [find_source(name) for name in names] if names else [source for source in SOURCES if source.carried]
    for source in wanted:
        source.require_files(folder)
    written = []
    for source in wanted:
        rows = make_rows(source, folder)
        file, page = judgements.file_of(source.name, target), target.parent / CARDS.name / f"{source.name}.md"
        judgements.write_rows(rows, file)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(card(source, rows), encoding="utf-8")
        written += [file, page]
    return written
