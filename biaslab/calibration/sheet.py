"""The validation table on disk: rows are written as they are completed, and existing rows are not rerun."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.calibration.cells import Cell
from biaslab.core.csv_files import read_csv, write_csv
from biaslab.core.errors import InputError


class Sheet:
    """Rows of completed cells, in a CSV file or, without a path, in memory.

    Parameters
    ----------
    path : Path, optional
        The file; it need not exist.

    Raises
    ------
    InputError
        If the file is not a table of a validation.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path, self._rows = path, pd.DataFrame()
        if path is not None and path.exists():
            self._rows = _read(path)

    def find(self, cell: Cell) -> pd.DataFrame | None:
        """Return the rows of a cell if it was run with the same settings; the code version is not checked."""
        if self._rows.empty:
            return None
        known = np.logical_and.reduce([self._rows[name] == value for name, value in cell.named.items()])
        rows = self._rows[known]
        whole = (rows["quantity"] == "refused").any() or {*cell.contexts, *cell.curve} <= set(rows["n_contexts"])
        return rows if whole and len(rows) else None

    def add(self, rows: pd.DataFrame) -> None:
        """Add the rows of a cell and rewrite the file."""
        self._rows = rows if self._rows.empty else pd.concat([self._rows, rows], ignore_index=True)
        if self.path is not None:
            write_csv(self._rows, self.path)


def _read(path: Path) -> pd.DataFrame:
    try:
        rows = read_csv(path, dtype={"note": str})
        rows["note"] = rows["note"].fillna("")
    except (ValueError, KeyError, UnicodeError) as error:
        remedy = "use another file, or delete this one"
        raise InputError("out", str(path), "a table of an earlier calibration", remedy) from error
    return rows
