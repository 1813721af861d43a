"""Store the judgements of a contribution as numbers, enough to recompute its estimates without any text."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.atlas.carried import read_rows, write_rows
from biaslab.atlas.estimates_csv import require_labels

if TYPE_CHECKING:
    import pandas as pd

#: Licences that allow redistribution.
OPEN_LICENCES = (
    *("CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "ODC-By-1.0", "ODbL-1.0", "CDLA-Permissive-2.0", "MIT", "Apache-2.0"),
    *("BSD-2-Clause", "BSD-3-Clause", "ISC", "Unlicense"),
)
_DROPPED = ("reply", "key")
_CANDIDATES = ("candidate_id", "opponent_id")
_UNLABELLED = ("ratings", "annotators", "key")  # numbers separated by spaces, and what is not written
_NAME = re.compile(r"[^\s=+@][^\n]{0,39}")  # of a system; texts are longer, or occur in one context only


def rows_file(folder: str | PathLike[str], source: str) -> Path:
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


def save_rows(trials: pd.DataFrame, folder: str | PathLike[str], source: str) -> Path:
    """Write judgements returned by `coded`; return the file."""
    file = rows_file(folder, source)
    write_rows(trials.drop(columns="key"), file)
    return file


def load_rows(folder: str | PathLike[str], source: str) -> pd.DataFrame:
    """Read judgements written by `save_rows`."""
    return read_rows(rows_file(folder, source))


def _codes(values: pd.Series, letter: str) -> dict[str, str]:
    """Return a code for each value: numbers of equal length, in the order of the values."""
    names = sorted({str(value) for value in values.dropna()} - {""})
    digits = len(str(len(names)))
    return {"": ""} | {name: f"{letter}{place:0{digits}d}" for place, name in enumerate(names, start=1)}
