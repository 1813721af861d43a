"""The validation table: rows on disk as they are completed, and a documentation page."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.calibration.cells import JUDGES, ValidationCell
from biaslab.calibration.generators import GENERATORS
from biaslab.core.errors import InputError
from biaslab.core.files import read_csv, write_csv
from biaslab.core.output import AnyPath, replacing


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

    def find(self, cell: ValidationCell) -> pd.DataFrame | None:
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


_WHERE = ["probe", "metric", "mode", "generator"]
_HEAD = """# The calibration table

What `biaslab validate` found on {day}, with

```bash
{command}
```

{summary}

A cell holds the share for each number of contexts: {contexts}. **Bold** shares leave their band by more than the
Monte-Carlo error: type-I error .035 to .065 and coverage .93 to .97 for a metric's own simulated judge in its declared
answer mode, .03 to .07 and .92 to .98 elsewhere. Where few pairs flip, the null has a margin, or a study has fewer than
six clusters, a test may reject less and an interval cover more. The guarantees and their limits are listed in
``docs/guides/calibration.md``.
"""
_COLUMNS = "| probe | metric | answers | type-I error | coverage, fair | coverage, biased | bias |\n" + "|---" * 7 + "|"


def write_page(table: pd.DataFrame, path: AnyPath, command: str) -> None:
    """Write the table of a validation as a Markdown page.

    Parameters
    ----------
    table : pandas.DataFrame
        As returned by `biaslab.validate`.
    path : path
        The page to write; replaced if it exists.
    command : str
        The command that made the table.
    """
    with replacing(Path(path)) as partial:
        partial.write_text(render(table, command, date.today()), encoding="utf-8")


def render(table: pd.DataFrame, command: str, day: date) -> str:
    """Return the table of a calibration in Markdown: one section per generator, one row per metric and answer mode.

    Parameters
    ----------
    found, command
        As in `write_page`.
    day : datetime.date
        Date of the table.

    Examples
    --------
    >>> import biaslab as bl
    >>> kinds, metrics = [bl.probes.Position], ["first_position_rate"]
    >>> found = bl.validate(kinds, metrics, studies=5, contexts=[8], population=40)
    >>> page = render(found, "biaslab validate", date(2026, 1, 31))
    >>> page.count("| position | first_position_rate | exact |")
    1
    """
    shown = table[~table["refusals"].astype(bool)]
    contexts = ", ".join(f"{number:.0f}" for number in sorted(shown["n_contexts"].dropna().unique()))
    kept = int(table["kept"].astype(bool).sum())
    summary = f"{kept:,} of {len(table):,} shares lie within their band, including those with selective refusals."
    parts = [_HEAD.format(day=day.isoformat(), command=command, summary=summary, contexts=contexts)]
    for generator, rows in shown.groupby("generator", sort=False):
        about = JUDGES.get(str(generator)) or GENERATORS[str(generator)].about
        lines = [_line(names, part) for names, part in rows.groupby(_WHERE[:3], sort=False)]
        parts.append("\n".join([f"## {generator}: {about}\n", _COLUMNS, *lines]) + "\n")
    return "\n".join(parts)


def _line(names: Any, rows: pd.DataFrame) -> str:
    """Return the table row of one metric and answer mode."""
    refused = rows[rows["quantity"] == "refused"]
    if len(refused):
        return "| " + " | ".join([*names, f"refused: {refused['note'].iloc[0]}", "", "", ""]) + " |"
    fair, biased = rows[~rows["planted"].astype(bool)], rows[rows["planted"].astype(bool)]
    quantity = "bounds" if (rows["quantity"] == "bounds").any() else "coverage"
    covered = [_shares(studies, quantity) for studies in (fair, biased)]
    bias = rows["bias"].iloc[rows["bias"].abs().argmax()] if rows["bias"].notna().any() else float("nan")
    return "| " + " | ".join([*names, _shares(fair, "type_i_error"), *covered, _decimal(bias, "+.3f")]) + " |"


def _shares(rows: pd.DataFrame, quantity: str) -> str:
    """Format the shares of one quantity by increasing number of contexts; bounds are labelled as such."""
    of_quantity = rows[rows["quantity"] == quantity].sort_values("n_contexts")
    formatted = [_decimal(share, ".3f") for share in of_quantity["estimate"].astype(float)]
    kept = of_quantity["kept"].astype(bool)
    marked = [text if fits else f"**{text}**" for text, fits in zip(formatted, kept, strict=True)]
    return ("bounds: " if quantity == "bounds" and marked else "") + " / ".join(marked)


def _decimal(value: float, form: str) -> str:
    """Format a number without the leading zero."""
    return format(value, form).replace("0.", ".", 1)
