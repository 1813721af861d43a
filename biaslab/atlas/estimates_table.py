"""The atlas's table of estimates for all its sources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.atlas.contributed import contributions
from biaslab.atlas.estimates_csv import read_table
from biaslab.core.errors import InputError
from biaslab.stats import without_breakdowns

if TYPE_CHECKING:
    import pandas as pd

#: The file, next to this module; written by `tools/atlas/estimating.py`.
FILE = "estimates.csv"


def estimates(
    probe: str | Sequence[str] | None = None,
    metric: str | Sequence[str] | None = None,
    judge: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
    breakdowns: bool = True,
    folder: str | PathLike[str] | None = None,
) -> pd.DataFrame:
    """Return biaslab's estimates for recorded judges, including sources that cannot be redistributed.

    Parameters
    ----------
    probe, metric, judge, source : str or sequence of str, optional
        Rows to select; by default all. Judges include people: "expert-1", or "humans" for agreement between people.
    breakdowns : bool
        Include rows for single bins of the human score gap (column ``human_gap``).
    folder : path, optional
        Folder of contributions made by `biaslab.atlas.add`, whose rows are added to those of the package.

    Returns
    -------
    pandas.DataFrame
        The estimates frame, one scalar per row, with ``source`` (a name from `biaslab.atlas.sources`), ``repository``,
        and ``version`` (the version of biaslab that made the row). Conditions that do not apply are missing. Each
        judge was estimated separately on each data set; ``q_value`` is computed over the tests of one judge. No two
        rows have the same judge, data set, metric and conditions: P(A) and accuracy are for pairs judged in both
        orders (``probe`` "position"), and for all replies only if there are none. Estimates that are undefined, have
        no interval, or are based on fewer than eight contexts are omitted.

    Raises
    ------
    InputError
        If a name is unknown; the message lists the known ones. If the folder does not exist, or a contribution in it
        violates the schema.

    Examples
    --------
    >>> rows = estimates(metric="first_position_rate", judge="gpt-4-0613", source="mt_bench")
    >>> rows.loc[rows["probe"] == "position", ["dataset", "n_contexts"]].values.tolist()
    [['mt_bench', 80], ['mt_bench_repetition', 24]]
    """
    every = _read() if folder is None else _joined([_read(), *(one.estimates for one in contributions(folder))])
    rows = every
    for column, wanted in (("source", source), ("judge", judge), ("probe", probe), ("metric", metric)):
        if wanted is not None:
            rows = rows[rows[column].isin(_known(every, column, [wanted] if isinstance(wanted, str) else list(wanted)))]
    return (rows if breakdowns else without_breakdowns(rows)).reset_index(drop=True)


def _known(rows: pd.DataFrame, column: str, wanted: list[str]) -> list[str]:
    """Return the names; raise `InputError` if the table lacks one."""
    names = rows[column].unique().tolist()
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted:
        raise InputError(column, unknown or wanted, f"one or more of {', '.join(sorted(names))}")
    return wanted


def _joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables, without columns that are empty in all rows."""
    import pandas as pd

    filled = [table for table in tables if len(table)]
    return (
        pd.concat([table.dropna(axis=1, how="all") for table in filled], ignore_index=True) if filled[1:] else filled[0]
    )


@cache
def _read() -> pd.DataFrame:
    table = read_table(Path(__file__).with_name(FILE))
    return _joined([table, *(one.estimates for one in contributions())])
