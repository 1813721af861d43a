"""Tables in files: trials in Parquet, written incrementally, and cached tables that are slow to compute.

Examples
--------
>>> import tempfile
>>> import biaslab as bl
>>> data, probe = bl.load_dataset("graded", limit=2), bl.probes.Position(templates=[1])
>>> with tempfile.TemporaryDirectory() as folder:
...     trials = bl.collect(probe, bl.SimulatedJudge(data), data, progress=False, out=f"{folder}/trials.parquet")
...     print(trials, round(float(trials["value"].mean()), 2))
TrialsFile('trials.parquet': 240 judgements) 0.5
"""

from __future__ import annotations

import hashlib
import html
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from biaslab.core.errors import InputError, TrialsError
from biaslab.core.files import read_csv, write_csv
from biaslab.core.output import AnyPath, replacing, require_file

#: Key of the file's metadata that holds the ``attrs`` of trials, as JSON.
ATTRS = b"biaslab"
_HEX = 64  # number of digits in a key
_ROWS = 100_000  # rows per row group
_STUDY = ("probe", "judge", "dataset")
#: Columns with repeated values, which are dictionary-encoded.
REPEATED = pa.dictionary(pa.int32(), pa.string())
_LEADING = ("probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute")
_TRAILING = {
    "replicate": pa.int64(), "value": pa.float64(), "status": REPEATED, "label_mass": pa.float64(),
    "samples": pa.float64(), "tokens": pa.int64(), "key": pa.string(),
}  # fmt: skip
#: Tokens of a reply and, if thinking is a condition, of its thought; NaN for trials without a reply.
OF_THOUGHTS = ("written", "thought_tokens")
_NUMPY: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str}
_NUMBERS = ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64()))
#: A chunk of trials: Arrow columns, and columns with mixed types unchanged.
TablePart: TypeAlias = tuple[pa.Table, dict[str, list[Any]]]


class TrialsFile:
    """Trials in a Parquet file; made by ``biaslab.collect(…, out=path)``.

    Only the file's footer is read until columns are requested. Probes estimate from it as from a frame.

    Parameters
    ----------
    path : str or path
        The file.

    Attributes
    ----------
    path : Path
        The file.
    columns : tuple of str
        Names of the columns, equal to those of the frame that `biaslab.collect` returns without ``out``.
    attrs : dict
        As for that frame: ``asked``, ``stored`` and, if applicable, ``store`` and ``otherwise``.

    Raises
    ------
    InputError
        If the file does not exist, or is not a Parquet file.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = Path(path).expanduser()
        with self._opened() as file:
            self._rows, self._groups = file.metadata.num_rows, file.metadata.num_row_groups
            self.columns = tuple(file.schema_arrow.names)
            self._text = [field.name for field in file.schema_arrow if str(field.type) == "string"]
            self.attrs: dict[str, Any] = json.loads((file.metadata.metadata or {}).get(ATTRS, b"{}"))
        if isinstance(store := self.attrs.get("store"), str):  # relative to the folder of the file
            self.attrs["store"] = str((self.path.parent / store).resolve())

    def to_pandas(self, columns: Sequence[str] | None = None, categorical: bool = False) -> pd.DataFrame:
        """Read columns.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read; by default all.
        categorical : bool
            Read repeated text as categories, which take a few bytes per row.

        Raises
        ------
        TrialsError
            If a column does not exist.
        """
        wanted = list(self.columns if columns is None else columns)
        missing = [name for name in wanted if name not in self.columns]
        if missing:
            raise TrialsError.plain(f"there is no column {', '.join(missing)}; there are {', '.join(self.columns)}")
        repeated = [name for name in self._text if name != "key"] if categorical else []
        with self._opened(repeated) as file:
            frame: pd.DataFrame = file.read(wanted).to_pandas(split_blocks=True, self_destruct=True)
        frame.attrs.update(self.attrs)
        return frame

    def parts(self) -> Iterator[pd.DataFrame]:
        """Yield the trials in frames of about 100,000 rows."""
        start = 0
        for group in range(self._groups):
            with self._opened() as file:
                frame = file.read_row_group(group).to_pandas()
            frame.index += start
            start += len(frame)
            yield frame

    def head(self, n: int = 5) -> pd.DataFrame:
        """Return the first rows."""
        with self._opened() as file:
            batch = next(file.iter_batches(max(n, 1)), None)
            frame: pd.DataFrame = (file.read() if batch is None else batch).to_pandas()
        return frame.head(n)

    def compact(self) -> pd.DataFrame:
        """Read all columns for estimation: repeated text as categories, ``key`` as its first 64 bits."""
        rest = [name for name in self.columns if name not in ("key", "reply")]
        frame = self.to_pandas(rest, categorical=True)
        return frame.assign(key=self._keys()) if "key" in self.columns else frame

    def __getitem__(self, columns: str | list[str]) -> Any:
        if isinstance(columns, str):
            return self.to_pandas([columns])[columns]
        return self.to_pandas(columns)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __len__(self) -> int:
        return int(self._rows)

    def __repr__(self) -> str:
        return f"TrialsFile({self.path.name!r}: {len(self):,} judgements)"

    def _repr_html_(self) -> str:
        title = html.escape(f"{self.path}: {len(self):,} judgements, the first of them")
        return f"<p>{title}</p>{self.head().to_html(index=False)}"

    def _keys(self) -> Any:
        """Return the first 16 digits of each key as a number; the keys themselves if one is not hexadecimal."""
        with self._opened() as file:
            parts = [_numbers_of(batch.column(0)) for batch in file.iter_batches(_ROWS, columns=["key"])]
        if any(part is None for part in parts):
            return self.to_pandas(["key"])["key"]
        return np.concatenate([*parts, np.empty(0, np.uint64)])

    def _opened(self, repeated: Sequence[str] = ()) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path, read_dictionary=list(repeated))
        except (OSError, pa.ArrowInvalid) as error:
            why = " ".join(str(error).split())
            raise InputError("trials", str(self.path), f"a Parquet file of trials ({why})") from error


def opened(trials: pd.DataFrame | TrialsFile | AnyPath) -> pd.DataFrame | TrialsFile:
    """Open trials given as the path of their file; return others unchanged."""
    return TrialsFile(trials) if isinstance(trials, str | PathLike) else trials


def spelled(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with categories converted back to text."""
    named = [str(name) for name in trials if str(trials[name].dtype) == "category"]
    texts = {}
    for name in named:  # each category is encoded once
        values = trials[name].cat
        texts[name] = values.categories.astype("str").array.take(values.codes.to_numpy(), allow_fill=True)
    return trials.assign(**texts) if named else trials


def _numbers_of(keys: pa.Array) -> NDArray[np.uint64] | None:
    """Return the first 16 of each key's 64 hexadecimal digits as a number; None if a key has another format."""
    texts = keys.to_pylist()
    if any(text is None or len(text) != _HEX for text in texts):
        return None
    digits = "".join(texts)
    if not set(digits) <= set("0123456789abcdef"):
        return None
    return np.frombuffer(bytes.fromhex(digits), ">u8")[::4].astype(np.uint64)  # a key has 32 bytes


class TrialColumns:
    """The columns of trials and their types, determined in a first pass through a design.

    Parameters
    ----------
    kinds : mapping of str to set of type
        The types of the values of each condition, and of ``opponent_id``; none for None. Text, numbers, or booleans; a
        condition with mixed types is kept as Python objects. If thinking is a condition (``thinking``), there are
        columns of thinking tokens too.
    replies : bool
        Whether there is a column ``reply``.
    first : sequence of str, optional
        The conditions placed before ``replicate``, those of the first trial; others come last. By default all.

    Attributes
    ----------
    mixed : tuple of str
        Conditions with mixed types, which do not fit into one column of a file.

    Examples
    --------
    >>> columns = TrialColumns({"opponent_id": set(), "template": {int}, "human_gap": {float, int}})
    >>> columns.names[7:9], str(columns.types["human_gap"]), columns.mixed
    (('template', 'human_gap'), 'double', ())
    """

    def __init__(
        self, kinds: Mapping[str, set[type]], replies: bool = False, first: Sequence[str] | None = None
    ) -> None:
        conditions = {name: _type_of(types) for name, types in kinds.items() if name not in _LEADING}
        self.types: dict[str, pa.DataType | None] = dict.fromkeys(_LEADING, REPEATED)
        self.types |= {name: kind for name, kind in conditions.items() if first is None or name in first}
        self.types |= _TRAILING
        if not kinds.get("opponent_id"):
            self.types["opponent_id"] = pa.null()
        if "thinking" in kinds:
            self.types |= dict.fromkeys(OF_THOUGHTS, pa.float64())
        if replies:
            self.types["reply"] = pa.large_string()
        self.types |= {name: kind for name, kind in conditions.items() if name not in self.types}
        self.conditions = tuple(name for name in conditions if name not in (*_TRAILING, *OF_THOUGHTS))
        self.names = tuple(self.types)
        self.mixed = tuple(name for name, kind in self.types.items() if kind is None)

    @property
    def schema(self) -> pa.Schema:
        """The schema of a file, in which repeated text is plain text."""
        kept = {name: kind for name, kind in self.types.items() if kind is not None}
        return pa.schema([(name, pa.string() if kind == REPEATED else kind) for name, kind in kept.items()])

    def pack(self, columns: Mapping[str, Sequence[Any]], rows: int) -> TablePart:
        """Convert some rows to columns.

        Parameters
        ----------
        columns : mapping of str to sequence
            The values of each column; for a constant column, the value alone in a list.
        rows : int
            Number of rows.
        """
        arrays, loose = {}, {}
        for name, kind in self.types.items():
            values = columns[name]
            constant = len(values) == 1 and rows != 1
            if kind is None:
                loose[name] = list(values) * (rows if constant else 1)
            elif constant:
                codes = pa.array(np.zeros(rows, np.int32))
                arrays[name] = pa.DictionaryArray.from_arrays(codes, _array(values, pa.string()))
            else:
                arrays[name] = _array(values, kind)
        return pa.table(arrays), loose

    def frame(self, parts: Sequence[TablePart]) -> pd.DataFrame:
        """Concatenate chunks into one frame of plain columns, with the types that pandas infers."""
        table = pa.concat_tables([part for part, _ in parts])
        frame: pd.DataFrame = spelled_out(table).to_pandas()
        for name in self.mixed:
            frame[name] = [value for _, loose in parts for value in loose[name]]
        return frame[list(self.names)]


def spelled_out(table: pa.Table) -> pa.Table:
    """Return a table with dictionary-encoded text decoded."""
    spelled = [pa.field(each.name, pa.string()) if pa.types.is_dictionary(each.type) else each for each in table.schema]
    return table.cast(pa.schema(spelled))


def _type_of(types: Iterable[type]) -> pa.DataType | None:
    """Return the column type for values of these types; None if no type fits all."""
    types = {_NUMPY.get(np.dtype(each).kind, each) if issubclass(each, np.generic) else each for each in types}
    if not types:
        return pa.null()
    if all(issubclass(each, str) for each in types):
        return REPEATED
    if any(issubclass(each, str | bool) for each in types) and len(types) > 1:
        return None
    fitting = (kind for base, kind in _NUMBERS if all(issubclass(each, base) for each in types))
    numbers = all(issubclass(each, int | float) for each in types)
    return next(fitting, pa.float64() if numbers else None)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind, from_pandas=True)
    except UnicodeEncodeError:  # half of a surrogate pair, which models may generate, is not valid text elsewhere
        plain = [v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str) else v for v in values]
        return pa.array(plain, kind, from_pandas=True)


def require_target(out: AnyPath, columns: TrialColumns, study: Mapping[str, str], grows: bool = False) -> Path:
    """Return the path for new trials, unless there is something else.

    Parameters
    ----------
    out : str or path
        Ends in ``.parquet``.
    columns : TrialColumns
        Columns of the trials.
    study : mapping of str to str
        Their ``probe``, ``judge`` and ``dataset``.
    grows : bool
        Whether later rounds may add columns.

    Raises
    ------
    InputError
        If the path has another ending, the file exists with other columns or from another study, or a condition has
        values that do not fit into a file.
    """
    path = require_file("out", Path(out).expanduser(), ".parquet")
    if columns.mixed:
        allowed = "a design whose conditions are each only text, numbers or booleans"
        raise InputError("out", str(path), allowed, f"omit out, because {', '.join(columns.mixed)} has mixed types")
    if not path.exists():
        return path
    there, elsewhere = TrialsFile(path), "use another path, or move that file away"
    if set(columns.names) != set(there.columns) and not (grows and set(columns.names) < set(there.columns)):
        allowed = f"a new file, or one with the columns {', '.join(columns.names)}"
        raise InputError("out", str(path), allowed, f"it has {', '.join(there.columns)}; {elsewhere}")
    head = there.head(1)
    others = [f"{name} {head[name].iloc[0]}" for name in _STUDY if len(head) and head[name].iloc[0] != study[name]]
    if others:
        remedy = f"it is of {', '.join(others)}; {elsewhere}"
        raise InputError("out", str(path), "a new file, or one of this study", remedy)
    return path


@contextmanager
def writing(path: Path, columns: TrialColumns, attrs: Mapping[str, Any]) -> Iterator[TrialsWriter]:
    """Yield a writer; at the end its content becomes the file, with the ``attrs`` as they are then.

    After an error the previous file, if any, is unchanged.
    """
    with replacing(path) as partial:
        writer = TrialsWriter(partial, columns)
        yield writer
        writer.close(attrs)
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())


class TrialsWriter:
    """Writes chunks of trials in row groups of about 100,000; made by `writing`."""

    def __init__(self, path: Path, columns: TrialColumns) -> None:
        self._schema, self._folder = columns.schema, path.parent.resolve()
        text = [field.name for field in self._schema if field.type == pa.string() and field.name != "key"]
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd", use_dictionary=text)
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def write(self, part: TablePart) -> None:
        """Append some rows."""
        self._waiting.append(part[0])
        self._rows += len(part[0])
        if self._rows >= _ROWS:
            self._flush()

    def close(self, attrs: Mapping[str, Any]) -> None:
        """Write the remaining rows, and the ``attrs`` of the trials."""
        self._flush()
        if "store" in attrs:  # an absolute path would tell whoever gets the file of this machine
            attrs = {**attrs, "store": Path(os.path.relpath(attrs["store"], self._folder)).as_posix()}
        self._writer.add_key_value_metadata({ATTRS: json.dumps(dict(attrs)).encode()})
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            table = spelled_out(pa.concat_tables(self._waiting)).cast(self._schema)
            self._writer.write_table(table, row_group_size=len(table))
            self._waiting, self._rows = [], 0


def cached(store: AnyPath, name: str, depends: Mapping[str, object], make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return a table from the cache if it was computed before, else compute and cache it.

    For results that need no judge, such as the scores of an evaluator that must be trained first.

    Parameters
    ----------
    store : path
        The store of replies; tables are in the folder next to it that ends in ``.tables``. Delete that to recompute.
    name : str
        Name of the file.
    depends : mapping
        Everything the table depends on: tables, and values distinguished by their ``repr``. The version of biaslab is
        added.
    make : callable
        Computes the table: numbers and non-empty texts; the index is dropped.

    Raises
    ------
    InputError
        If the name is not a valid file name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         table = cached(
    ...             f"{folder}/s.sqlite", "sums", {"to": 3}, lambda: print("computed") or pd.DataFrame({"sum": [6]})
    ...         )
    computed
    >>> table["sum"].tolist()
    [6]
    """
    if not name or Path(name).name != name:
        raise InputError("name", name, "a name for a file")
    if not Path(store).name:
        raise InputError("store", str(store), "the path of a file", "such as judgements.sqlite")
    frames = {name: str(value.to_csv()) for name, value in depends.items() if isinstance(value, pd.DataFrame)}
    described = {name: repr(value) for name, value in depends.items()} | frames
    described["biaslab"] = version("biaslab")
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
    file = Path(store).with_suffix(".tables") / f"{name}-{digest}.csv"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_csv(make(), file)
    return read_csv(file, keep_default_na=False, na_values=[""])
