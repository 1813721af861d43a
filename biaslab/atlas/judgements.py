"""Recorded judgements that licences allow to redistribute, as numbers, and judges made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.atlas.estimates_table import require_labels
from biaslab.atlas.sources import SOURCES, find_source
from biaslab.core.checks import pairs, unknown
from biaslab.core.errors import InputError
from biaslab.core.output import AnyPath
from biaslab.core.schema import Dataset
from biaslab.logs.recorded import RecordedJudge, rows_where

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
        remedy = "for this source only estimates are included"
        raise InputError("source", source, f"one of {', '.join(carried)}", remedy)
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


#: Licences that allow redistribution.
OPEN_LICENCES = (
    *("CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "ODC-By-1.0", "ODbL-1.0", "CDLA-Permissive-2.0", "MIT", "Apache-2.0"),
    *("BSD-2-Clause", "BSD-3-Clause", "ISC", "Unlicense"),
)
_DROPPED = ("reply", "key")
_CANDIDATES = ("candidate_id", "opponent_id")
_UNLABELLED = ("ratings", "annotators", "key")  # numbers separated by spaces, and what is not written
_NAME = re.compile(r"[^\s=+@][^\n]{0,39}")  # of a system; texts are longer, or occur in one context only


def rows_file(folder: AnyPath, source: str) -> Path:
    """Return the file of the judgements of a contribution."""
    return Path(folder) / f"{source}.parquet"


def coded(trials: pd.DataFrame) -> pd.DataFrame:
    """Replace texts and people by codes, keeping the order of rows, and drop replies.

    Contexts and annotators become codes. Candidates keep names that are short and occur in several contexts, like those
    of systems; other names may be texts or hashes of texts, and become codes too.

    Parameters
    ----------
    trials : pandas.DataFrame
        As returned by `biaslab.read_judgements`.

    Returns
    -------
    pandas.DataFrame
        The same trials without ``reply``.
    """
    rows = trials.drop(columns=list(_DROPPED), errors="ignore").assign(key=trials["key"])
    contexts = _codes(rows["context_id"], "c")
    seen = rows.melt(["dataset", "context_id"], [name for name in _CANDIDATES if name in rows], value_name="candidate")
    seen = seen.dropna(subset=["candidate"])
    spread = seen.groupby("candidate")["context_id"].nunique()
    systems = {str(name) for name, number in spread.items() if number > 1 and _NAME.fullmatch(str(name))}
    candidates = _codes(seen["candidate"], "t") | {name: name for name in systems}
    columns = {"context_id": rows["context_id"].map(contexts)}
    columns |= {name: rows[name].map(candidates) for name in _CANDIDATES if name in rows}
    if "annotators" in rows:
        people = _codes(rows["annotators"].fillna("").str.split().explode(), "")
        columns["annotators"] = rows["annotators"].map(
            lambda names: " ".join(people[name] for name in names.split()), na_action="ignore"
        )
    encoded = rows.assign(**columns)
    encoded.attrs = dict(trials.attrs)
    return encoded


def require_row_labels(trials: pd.DataFrame) -> None:
    """Raise `InputError` if a remaining label, such as a prompt's name, is so long that it may be a text."""
    labels = [str(name) for name in trials.select_dtypes(include=["str", "object"]) if name not in _UNLABELLED]
    require_labels(trials, labels, "the judgements")


def save_rows(trials: pd.DataFrame, folder: AnyPath, source: str) -> Path:
    """Write judgements returned by `coded`; return the file."""
    file = rows_file(folder, source)
    write_rows(trials.drop(columns="key"), file)
    return file


def load_rows(folder: AnyPath, source: str) -> pd.DataFrame:
    """Read judgements written by `save_rows`."""
    return read_rows(rows_file(folder, source))


def _codes(values: pd.Series, letter: str) -> dict[str, str]:
    """Return a code for each value: numbers of equal length, in the order of the values."""
    names = sorted({str(value) for value in values.dropna()} - {""})
    digits = len(str(len(names)))
    return {"": ""} | {name: f"{letter}{place:0{digits}d}" for place, name in enumerate(names, start=1)}


PREFIX = "atlas:"
#: Columns that describe how a judge was asked; one value of each must be chosen.
_WAYS = ("dataset", "template", "configuration")
_ACROSS = {"template": WAYS, "subsets": ("subset",)}  # columns whose values a probe compares, so that it reads all
_NONE = "recorded"  # value of a column that does not apply


def rows_named(name: str, one_way: bool = False) -> pd.DataFrame:
    """Return the rows that a judge's name refers to.

    Parameters
    ----------
    name : str
        ``atlas:JUDGE@SOURCE``, followed after a question mark by columns with the value to select, for example
        ``?template=CoT&subset=GPTOut``. If a source has several data sets, the one with the name of the source is
        used, unless ``dataset`` is given.
    one_way : bool
        Reject rows with several prompts or configurations.

    Raises
    ------
    InputError
        If the judge, source, column or value is unknown, or there are several ways of asking and only one is allowed;
        the message lists the existing ones.

    Examples
    --------
    >>> rows = rows_named("atlas:gpt-4@llmbar?template=Vanilla")
    >>> len(rows), rows["template"].unique().tolist()
    (838, ['Vanilla'])
    """
    judge, source, where = _parts(name)
    rows = trials(source, judge)
    if "dataset" not in where and (rows["dataset"] == source).any():
        rows = rows[rows["dataset"] == source]
    rows = rows_where(rows, where).reset_index(drop=True)
    if one_way:
        _require_one_way(name, rows)
    return rows


class JudgementNames:
    """Names of judges whose judgements are in the package, which `biaslab audit` can estimate again."""

    def __init__(self) -> None:
        self._named, self._ways = names(), ways()

    def name(self, record: Mapping[Any, Any]) -> str:
        """Return ``atlas:JUDGE@SOURCE?template=…``, or "" where the package has no such rows."""
        name = self._named.get((record["source"], record["dataset"], record["judge"]), "")
        across = _ACROSS.get(record["probe"], ())
        for way in (each for each in WAYS if name and each not in across):
            value = str(record.get(way))
            asked = (record["source"], record["dataset"], record["judge"], way, value)
            if value != "recorded" and asked in self._ways:
                name += f"{'&' if '?' in name else '?'}{way}={value}"
        return name


def load_judge(name: str, dataset: Dataset | None) -> RecordedJudge:
    """Return the judge of that name, which replays the recorded judgements of a data set's texts.

    Raises
    ------
    InputError
        As in `rows_named`, and if no data set is given or the rows have none of its contexts.
    """
    rows = rows_named(name, one_way=True)
    if dataset is None:
        remedy = f"`bl.audit` of `bl.atlas.trials` and `biaslab audit {name}` need none"
        raise InputError("dataset", dataset, "the data set whose texts were judged (the atlas has none)", remedy)
    return RecordedJudge(rows, dataset)


def _parts(name: str) -> tuple[str, str, dict[str, str]]:
    """Return judge, source and columns of a name."""
    who, _, conditions = name.removeprefix(PREFIX).partition("?")
    judge, at, source = who.rpartition("@")
    form = "atlas:JUDGE@SOURCE or atlas:JUDGE@SOURCE?column=value&column=value"
    if not (name.startswith(PREFIX) and judge and at and source):
        raise InputError("judge", name, form, "such as atlas:gpt-4-0613@mt_bench; see `bl.atlas.judges()`")
    return judge, source, pairs(filter(None, conditions.split("&")), "judge", form)


def _require_one_way(name: str, rows: pd.DataFrame) -> None:
    values = {column: sorted(rows[column].unique()) for column in _WAYS}
    several = {column: [one for one in ways if one != _NONE] for column, ways in values.items() if len(ways) > 1}
    if several:
        listed = "; ".join(f"{column}: {', '.join(ways)}" for column, ways in several.items())
        column, ways = next(iter(several.items()))
        joint = "&" if "?" in name else "?"
        raise InputError("judge", name, f"one way to ask, of {listed}", f"such as {name}{joint}{column}={ways[-1]}")
