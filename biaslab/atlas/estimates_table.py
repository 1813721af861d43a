"""The atlas's estimates, as they were made of all its sources: a table in the package, read once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.stats import without_breakdowns

if TYPE_CHECKING:
    import pandas as pd

#: The file, beside this module; `tools/atlas/estimating.py` writes it.
FILE = "estimates.csv"
_WORDS = ("method", "note")  # empty where there is nothing to say


@checked
def estimates(
    probe: str | Sequence[str] | None = None,
    metric: str | Sequence[str] | None = None,
    judge: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
    breakdowns: bool = True,
) -> pd.DataFrame:
    """Return what biaslab's estimators say of recorded judges, those of sources that may not be carried included.

    Parameters
    ----------
    probe, metric, judge, source : str or sequence of str, optional
        Whose rows; all by default. Judges are people too: "expert-1", or "humans" for how far people agree.
    breakdowns : bool
        Keep the rows of single bins of the human score gap (column ``human_gap``).

    Returns
    -------
    pandas.DataFrame
        The estimates frame, one scalar a row, with ``source`` (a name of `biaslab.atlas.sources`), ``repository``, and
        ``version``, that of biaslab by which the row was made. A condition that does not apply is missing. Each judge
        was estimated by itself on each data set; ``q_value`` is over the tests of one judge. Estimates that are
        undefined, or rest on fewer than eight contexts, have no row.

    Raises
    ------
    InputError
        If a name is unknown; the message lists those that are known.

    Examples
    --------
    >>> rows = estimates(metric="first_position_rate", judge="gpt-4-0613", source="mt_bench")
    >>> rows.loc[rows["probe"] == "position", ["dataset", "n_contexts"]].values.tolist()
    [['mt_bench', 80], ['mt_bench_repetition', 24]]
    """
    rows = _read()
    for column, wanted in (("source", source), ("judge", judge), ("probe", probe), ("metric", metric)):
        if wanted is not None:
            rows = rows[rows[column].isin(_known(column, [wanted] if isinstance(wanted, str) else list(wanted)))]
    return (rows if breakdowns else without_breakdowns(rows)).reset_index(drop=True)


def _known(column: str, wanted: list[str]) -> list[str]:
    """Return the names if the table has them all."""
    names = _read()[column].unique().tolist()
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted:
        raise InputError(column, unknown or wanted, f"one or more of {', '.join(sorted(names))}")
    return wanted


@cache
def _read() -> pd.DataFrame:
    import pandas as pd

    with files(__package__).joinpath(FILE).open(encoding="utf-8") as stream:
        rows = pd.read_csv(stream, low_memory=False)
    return rows.fillna(dict.fromkeys(_WORDS, ""))
