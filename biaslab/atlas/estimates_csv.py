"""CSV files of estimates: columns, reading and writing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from biaslab.core.csv_files import read_csv, write_csv
from biaslab.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

#: Conditions, in their order between metric and estimate.
CONDITIONS = (
    "attribute", "other", "template", "configuration", "form", "order", "scale", "answer", "subset", "own", "adjusted",
    "between", "component", "factor", "system", "scorer", "level", "coefficient", "human_gap", "score",
    "likelihood_judge",
)  # fmt: skip
_LETTERS, _MOST_WORDS = 60, 8  # maximum length of a label
_FORMULA = "=+@"  # first characters of a formula in a spreadsheet
_WORDS = ("method", "note", "repository")  # text columns, empty if missing


def write_estimates(estimates: pd.DataFrame, file: Path) -> None:
    """Write estimates for `biaslab.atlas.estimates`, with six significant digits."""
    write_csv(estimates, file, float_format="%.6g")


def read_table(file: Path, texts: Sequence[str] = ()) -> pd.DataFrame:
    """Read a file written by `write_estimates`; columns in ``texts`` are text, even if all values look like numbers."""
    dtypes = dict.fromkeys((*_WORDS, *texts), "str")
    return read_csv(file, low_memory=False, encoding="utf-8", dtype=dtypes).fillna(dict.fromkeys(_WORDS, ""))


def require_labels(rows: pd.DataFrame, columns: Sequence[str], where: str) -> None:
    """Raise `InputError` if a label is so long that it may be a text."""
    for name in (name for name in columns if name in rows):
        for label in rows[name].dropna().astype(str).unique():
            plain = label.isprintable() and not label.startswith(tuple(_FORMULA))
            if not plain or len(label) > _LETTERS or len(re.findall(r"\S+", label)) > _MOST_WORDS:
                allowed = f"short labels in {where}: one line of at most {_LETTERS} letters and {_MOST_WORDS} words"
                raise InputError(name, label, allowed, f"replace it by one word, such as --map {name}==mine")
