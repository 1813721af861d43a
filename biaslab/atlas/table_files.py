"""Tables of estimates as files: their columns, and how they are written and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from biaslab.core.csv_files import read_csv, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

#: Conditions, in their order between metric and estimate.
CONDITIONS = (
    "attribute", "other", "template", "configuration", "form", "order", "scale", "answer", "subset", "own", "adjusted",
    "between", "component", "factor", "system", "scorer", "level", "coefficient", "human_gap", "score",
    "likelihood_judge",
)  # fmt: skip
_WORDS = ("method", "note", "repository")  # may be empty


def write_estimates(estimates: pd.DataFrame, file: Path) -> None:
    """Write estimates for `biaslab.atlas.estimates`, with six significant digits."""
    write_csv(estimates, file, float_format="%.6g")


def read_table(file: Path, texts: Sequence[str] = ()) -> pd.DataFrame:
    """Read a file written by `write_estimates`; columns in ``texts`` are text, even if all values look like numbers."""
    kinds = dict.fromkeys((*_WORDS, *texts), "str")
    return read_csv(file, low_memory=False, encoding="utf-8", dtype=kinds).fillna(dict.fromkeys(_WORDS, ""))
