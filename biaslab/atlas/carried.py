"""Carried rows: recorded judgements whose licences allow redistribution, as numbers, one Parquet file per source."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

from biaslab.atlas.sources import SOURCES, find_source
from biaslab.core.checks import unknown
from biaslab.core.errors import InputError

#: Folder of the files.
FOLDER = Path(__file__).parent / "rows"
#: Log perplexity column → identifier of its candidate.
PERPLEXITIES = {"log_perplexity": "candidate_id", "opponent_log_perplexity": "opponent_id"}
#: Columns that describe how a judge was asked, or about which part of the data.
WAYS = ("template", "configuration", "subset")


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
    read = [name for name in PERPLEXITIES if name in rows]
    rows = rows.astype(dict.fromkeys(read, "float64")).round(dict.fromkeys(read, 4))
    return rows.assign(key=(file.stem + ":" + pd.RangeIndex(len(rows)).astype("str")))


def write_rows(rows: pd.DataFrame, file: Path) -> None:
    """Write rows, the same bytes for the same rows: strings as categories, no pandas index, no metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = {str(name): "category" for name in rows if rows[name].dtype == "str"}
    shares = {name: "float32" for name in PERPLEXITIES if name in rows}
    table = pa.Table.from_pandas(rows.astype(texts | shares), preserve_index=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(None), file, compression="zstd", compression_level=19)


@cache
def names() -> dict[tuple[str, str, str], str]:
    """Map source, data set and judge of the carried rows to the judge's name: ``atlas:JUDGE@SOURCE``."""
    called = {}
    for source, rows in _conditions().items():
        meant = {source} if (rows["dataset"] == source).any() else set(rows["dataset"])
        for dataset, judge in rows[["dataset", "judge"]].drop_duplicates().itertuples(index=False):
            where = "" if dataset in meant else f"?dataset={dataset}"
            called[source, dataset, judge] = f"atlas:{judge}@{source}{where}"
    return called


@cache
def ways() -> frozenset[tuple[str, str, str, str, str]]:
    """Return all values of `WAYS` in the carried rows, as source, data set, judge, column and value."""
    pairs = set()
    for source, rows in _conditions().items():
        for way in WAYS:
            of_way = rows[["dataset", "judge", way]].drop_duplicates()
            pairs |= {(source, *one[:2], way, one[2]) for one in of_way.itertuples(index=False)}
    return frozenset(pairs)


@cache
def _conditions() -> dict[str, pd.DataFrame]:
    """Return the distinct judges, data sets and ways of asking of each carried source."""
    import pyarrow.parquet as pq

    columns = ["dataset", "judge", *WAYS]
    files = {one.name: file_of(one.name) for one in SOURCES if one.carried}
    tables = {name: pq.read_table(file, columns=columns).to_pandas() for name, file in files.items()}
    return {name: table.drop_duplicates().astype("str") for name, table in tables.items()}


@cache
def _rows(name: str) -> pd.DataFrame:
    return read_rows(file_of(name))


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
