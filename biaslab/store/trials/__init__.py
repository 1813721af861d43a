"""Trials in a Parquet file: written incrementally, read by column, larger than would fit in memory as rows.

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

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.core.errors import InputError, TrialsError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.parquet as pq

#: Key of the file's metadata that holds the ``attrs`` of trials, as JSON.
ATTRS = b"biaslab"
_HEX = 64  # number of digits in a key


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

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        with self._opened() as file:
            self._rows, self._groups = file.metadata.num_rows, file.metadata.num_row_groups
            self.columns = tuple(file.schema_arrow.names)
            self._text = [field.name for field in file.schema_arrow if str(field.type) == "string"]
            self.attrs: dict[str, Any] = json.loads((file.metadata.metadata or {}).get(ATTRS, b"{}"))

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
            raise TrialsError("columns", missing, f"some of {', '.join(self.columns)}")
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
        import numpy as np

        numbers = np.empty(len(self), np.uint64)
        start = 0
        with self._opened() as file:
            for group in range(self._groups):
                group_keys = _numbers_of(file.read_row_group(group, ["key"]).column(0))
                if group_keys is None:
                    return self.to_pandas(["key"])["key"]
                numbers[start : start + len(group_keys)] = group_keys
                start += len(group_keys)
        return numbers

    def _opened(self, repeated: Sequence[str] = ()) -> pq.ParquetFile:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(self.path, read_dictionary=list(repeated))
        except (OSError, pa.ArrowInvalid) as error:
            why = " ".join(str(error).split())
            raise InputError("trials", str(self.path), f"a Parquet file of trials ({why})") from error


def opened(trials: pd.DataFrame | TrialsFile | str | PathLike[str]) -> pd.DataFrame | TrialsFile:
    """Open trials given as the path of their file; return others unchanged."""
    return TrialsFile(trials) if isinstance(trials, str | PathLike) else trials


def spelled(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with categories converted back to text."""
    named = [str(name) for name in trials if str(trials[name].dtype) == "category"]
    return trials.assign(**{name: _text_of(trials[name]) for name in named}) if named else trials


def _text_of(column: pd.Series) -> Any:
    """Return the text of categories, encoding each category once."""
    return column.cat.categories.astype("str").array.take(column.cat.codes.to_numpy(), allow_fill=True)


def attrs_of(attrs: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return the metadata of a file that holds the ``attrs`` of trials."""
    return {ATTRS: json.dumps(dict(attrs)).encode()}


def _numbers_of(keys: Any) -> Any:
    """Return the first 16 of each key's 64 hexadecimal digits as a number; None if a key has another format."""
    import numpy as np

    parts = []
    for chunk in keys.chunks:
        offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        if chunk.null_count or (np.diff(offsets) != _HEX).any():
            return None
        digits = np.frombuffer(chunk.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].reshape(-1, _HEX)[:, :16]
        values = np.where(digits > ord("9"), digits - (ord("a") - 10), digits - ord("0")).astype(np.uint8)
        if (values > 15).any():
            return None
        parts.append(((values[:, ::2] << 4) | values[:, 1::2]).view(">u8").ravel())
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)
