"""Write trials to a Parquet file incrementally; the file appears only when complete."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from biaslab.core.errors import InputError
from biaslab.core.output import replacing, require_file
from biaslab.store.trials import TrialsFile, attrs_of
from biaslab.store.trials.column_types import Columns, Part, spelled_out

_ROWS = 100_000  # rows per row group
_STUDY = ("probe", "judge", "dataset")


def require_target(
    out: str | os.PathLike[str], columns: Columns, study: Mapping[str, str], grows: bool = False
) -> Path:
    """Return the path for new trials, unless there is something else.

    Parameters
    ----------
    out : str or path
        Ends in ``.parquet``.
    columns : Columns
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
        raise InputError(
            "out", str(path), "a new file, or one of this study", f"it is of {', '.join(others)}; {elsewhere}"
        )
    return path


class TrialsWriter:
    """Writes chunks of trials in row groups of about 100,000; made by `writing`."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._schema = columns.schema
        text = [field.name for field in self._schema if field.type == pa.string() and field.name != "key"]
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd", use_dictionary=text)
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def write(self, part: Part) -> None:
        """Append some rows."""
        self._waiting.append(part[0])
        self._rows += len(part[0])
        if self._rows >= _ROWS:
            self._flush()

    def close(self, attrs: Mapping[str, Any]) -> None:
        """Write the remaining rows, and the ``attrs`` of the trials."""
        self._flush()
        self._writer.add_key_value_metadata(attrs_of(attrs))
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            table = spelled_out(pa.concat_tables(self._waiting)).cast(self._schema)
            self._writer.write_table(table, row_group_size=len(table))
            self._waiting, self._rows = [], 0


@contextmanager
def writing(path: Path, columns: Columns, attrs: Mapping[str, Any]) -> Iterator[TrialsWriter]:
    """Yield a writer; at the end its content becomes the file, with the ``attrs`` as they are then.

    After an error the previous file, if any, is unchanged.
    """
    with replacing(path) as partial:
        writer = TrialsWriter(partial, columns)
        yield writer
        writer.close(attrs)
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
