"""Carried rows: recorded judgements whose licences allow redistribution, as numbers, one Parquet file per source."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

from biaslab.atlas.sources import SOURCES, find_source
from biaslab.core.checked import checked
from biaslab.core.checks import unknown
from biaslab.core.errors import InputError

#: Folder of the files.
FOLDER = Path(__file__).parent / "rows"
#: Columns of log perplexities, and of the candidates they belong to.
PERPLEXITIES = {"log_perplexity": "candidate_id", "opponent_log_perplexity": "opponent_id"}


def file_of(name: str, folder: Path = FOLDER) -> Path:
    """Return the file of a source."""
    return folder / f"{name}.parquet"


def read_rows(file: Path) -> pd.DataFrame:
    """Read the stored rows, filling in keys."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    plain = [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    rows: pd.DataFrame = table.cast(pa.schema(plain)).to_pandas()
    rows = rows.astype(dict.fromkeys(PERPLEXITIES, "float64")).round(dict.fromkeys(PERPLEXITIES, 4))
    return rows.assign(key=(file.stem + ":" + pd.RangeIndex(len(rows)).astype("str")))


@cache
def _rows(name: str) -> pd.DataFrame:
    return read_rows(file_of(name))


@checked
def trials(source: str | None = None, judge: str | None = None) -> pd.DataFrame:
    """Return recorded judgements as trials.

    Parameters
    ----------
    source : str, optional
        A carried source (`biaslab.atlas.sources`); by default all.
    judge : str, optional
        A judge's name, for example ``"gpt-4-0613"``; by default all.

    Returns
    -------
    pandas.DataFrame
        The columns of `biaslab.read_judgements` without ``reply``, and ``log_perplexity`` and
        ``opponent_log_perplexity``: of candidate and opponent under the embedded model, −mean log P(token | tokens
        before it) in nats per token, NaN if unknown. ``attrs["licences"]`` maps each source to its licence and notice.

    Raises
    ------
    InputError
        If the source or judge is unknown, or the source is not carried; the message suggests close names.

    Examples
    --------
    >>> found = trials("mt_bench", "gpt-4-0613")
    >>> found["dataset"].value_counts().to_dict()
    {'mt_bench': 4800, 'mt_bench_repetition': 576}
    >>> found.attrs["licences"]["mt_bench"][:3]
    'MIT'
    """
    carried = [one.name for one in SOURCES if one.carried]
    if source is not None and not find_source(source).carried:
        raise InputError(
            "source", source, f"one of {', '.join(carried)}", "for this source only estimates are included"
        )
    names = carried if source is None else [source]
    rows = pd.concat([_rows(name) for name in names], ignore_index=True) if len(names) > 1 else _rows(names[0])
    if judge is not None:
        chosen = rows[rows["judge"] == judge]
        if chosen.empty:
            raise unknown("judge", judge, sorted(rows["judge"].unique()))
        rows = chosen
    rows = rows.reset_index(drop=True)
    rows.attrs = {"licences": {name: f"{(one := find_source(name)).licence}, {one.notice}" for name in names}}
    return rows
