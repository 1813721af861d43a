"""The estimates that the atlas carries: what every probe and audit can tell of every recorded judge.

Rows that may not be carried are read here too: estimates of them are ours. Each judge is estimated by itself on each
data set, with the default resampling, so that a folder of the same files gives the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from biaslab.atlas import estimates_table, judgements
from biaslab.atlas.contribution import TEXT, estimate_source, tidy
from biaslab.atlas.estimates_table import read_table, write_estimates
from biaslab.atlas.sources import SOURCES, find_source

#: The table.
FILE = judgements.FOLDER.parent / estimates_table.FILE


def build(folder: Path, names: Sequence[str] | None = None, target: Path = FILE) -> Path:
    """Write the estimates of every source.

    Parameters
    ----------
    folder : Path
        Of raw data.
    names : sequence of str, optional
        Of sources, whose rows are made again while those of others stay; all by default.
    target : Path
        The table.

    Returns
    -------
    Path
        The table.

    Raises
    ------
    InputError
        If a source is unknown, or a file is missing; nothing is written.
    """
    wanted = [find_source(name) for name in names] if names else list(SOURCES)
    for source in wanted:
        source.require_files(folder)
    read = carried_perplexities()
    made = {source.name: estimate_source(source.read(folder), source, read) for source in wanted}
    if len(made) < len(SOURCES) and target.is_file():
        there = read_table(target)
        made = {str(name): part for name, part in there.groupby("source", sort=False)} | made
    parts = [made[source.name] for source in SOURCES if source.name in made]
    write_estimates(tidy(pd.concat(parts, ignore_index=True)), target)
    return target


def carried_perplexities() -> pd.DataFrame:
    """Return the log-perplexities that carried rows hold, as `estimate_source` takes them, of each text once."""
    rows = judgements.trials()[[*TEXT, "log_perplexity"]]
    return rows.dropna().drop_duplicates(TEXT, ignore_index=True)
