"""Read tables of other packages, such as polars, Arrow and DuckDB, through data exchange protocols."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import pandas as pd

from biaslab.core.errors import InputError


@runtime_checkable
class ArrowTable(Protocol):
    """A table with Arrow's PyCapsule interface, such as from polars, pyarrow or DuckDB; read without a copy."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with a stream of batches."""


@runtime_checkable
class InterchangeTable(Protocol):
    """A table with the data frame interchange protocol."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """Return the table's columns and buffers."""


def to_pandas(table: ArrowTable | InterchangeTable) -> pd.DataFrame:
    """Convert a table of another package to a pandas data frame.

    Parameters
    ----------
    table : ArrowTable or InterchangeTable
        From polars, pyarrow, DuckDB or any package that supports one of the protocols.

    Raises
    ------
    InputError
        If Arrow cannot read it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_pandas(pa.table({"question": ["q"], "score": [3]})).to_dict("records")
    [{'question': 'q', 'score': 3}]
    """
    import pyarrow as pa
    from pyarrow import interchange

    try:
        whole = pa.table(table) if isinstance(table, ArrowTable) else interchange.from_dataframe(table)
        frame: pd.DataFrame = whole.to_pandas()
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        allowed = f"a table that Arrow can read ({str(error).partition(chr(10))[0]})"
        raise InputError("path", type(table).__name__, allowed, "convert it to a pandas.DataFrame") from error
    return frame
