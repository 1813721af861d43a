"""Judgements of a contribution as numbers, so that its estimates can be made again without any text."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.atlas.carried import read_rows, write_rows
from biaslab.atlas.table_files import require_labels

if TYPE_CHECKING:
    import pandas as pd

#: Licences under which others may hand judgements on.
OPEN_LICENCES = (
    *("CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "ODC-By-1.0", "ODbL-1.0", "CDLA-Permissive-2.0", "MIT", "Apache-2.0"),
    *("BSD-2-Clause", "BSD-3-Clause", "ISC", "Unlicense"),
)
_DROPPED = ("reply", "key")
_CANDIDATES = ("candidate_id", "opponent_id")
_UNLABELLED = ("ratings", "annotators", "key")  # numbers with spaces between them, and what is not written
_NAME = re.compile(r"[^\s=+@][^\n]{0,39}")  # of a system; a text is longer or stands in one context alone


def rows_file(folder: str | PathLike[str], source: str) -> Path:
    """Return the file of the judgements of a contribution."""
    return Path(folder) / f"{source}.parquet"


def coded(trials: pd.DataFrame) -> pd.DataFrame:
    """Replace everything that may be a text or a person by codes, in the same order, and drop replies.

    Contexts and annotators have codes. Candidates keep their names if these are short and stand in several contexts, as
    systems do; others are texts or their hashes, and have codes too.

    Parameters
    ----------
    trials : pandas.DataFrame
        As `biaslab.read_judgements` returns them.

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
    made = rows.assign(**columns)
    made.attrs = dict(trials.attrs)
    return made


def require_row_labels(trials: pd.DataFrame) -> None:
    """Raise `InputError` where a label of judgements that `coded` returned, such as a prompt's name, may be a text."""
    labels = [str(name) for name in trials.select_dtypes(include=["str", "object"]) if name not in _UNLABELLED]
    require_labels(trials, labels, "the judgements")


def save_rows(trials: pd.DataFrame, folder: str | PathLike[str], source: str) -> Path:
    """Write judgements that `coded` returned, and return the file."""
    file = rows_file(folder, source)
    write_rows(trials.drop(columns="key"), file)
    return file


def load_rows(folder: str | PathLike[str], source: str) -> pd.DataFrame:
    """Read what `save_rows` wrote."""
    return read_rows(rows_file(folder, source))


def _codes(values: pd.Series, letter: str) -> dict[str, str]:
    """Return a code for each value, as many digits as all need, in the order of the values."""
    names = sorted({str(value) for value in values.dropna()} - {""})
    digits = len(str(len(names)))
    return {"": ""} | {name: f"{letter}{place:0{digits}d}" for place, name in enumerate(names, start=1)}
