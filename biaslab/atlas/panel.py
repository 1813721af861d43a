"""A figure of the atlas: its estimates, and its headline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from biaslab.atlas.estimates_table import PEOPLE
from biaslab.core.errors import TrialsError
from biaslab.core.output import NAMES, WAYS, title
from biaslab.report.verdicts import with_findings

if TYPE_CHECKING:
    import pandas as pd

WRITTEN = NAMES["judges"]


@dataclass(frozen=True, eq=False)
class AtlasFigure:
    """The estimates of a figure, and its headline.

    Attributes
    ----------
    rows : pandas.DataFrame
        Estimates, with ``data`` (the data set as papers write it), ``kind`` ("model" or "person") and ``who`` (the
        label of a row).
    headline : str
        One sentence, whose numbers are those of the rows.
    """

    rows: pd.DataFrame
    headline: str

    @property
    def with_headline(self) -> pd.DataFrame:
        """The rows, with the headline as a column for the index of figures."""
        return self.rows.assign(headline=self.headline)

    def _repr_markdown_(self) -> str:
        return f"**{self.headline}**"


def choose(estimates: pd.DataFrame, **where: object) -> pd.DataFrame:
    """Select estimates on whole data sets by column values (a list: any of them).

    Adds ``data``, ``kind``, and the finding on each estimate by its own study (``finding``, ``slight``).

    Raises
    ------
    TrialsError
        If there is none.
    """
    kept = estimates["estimate"].notna() & estimates["subset"].isna()
    for name, value in where.items():
        kept &= estimates[name].isna() if value is None else estimates[name].isin(_several(value))
    if not kept.any():
        raise TrialsError.plain(f"estimates has no rows with {where}; pass `biaslab.atlas.estimates()`")
    rows = estimates[kept]
    kind = rows["judge"].str.fullmatch(PEOPLE).map({True: "person", False: "model"})
    return with_findings(rows.assign(data=rows["dataset"].map(title), kind=kind))


def largest(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the data set with most contexts for each source, judge and attribute."""
    cells = rows.groupby(["source", "judge", "attribute"], sort=False)["n_contexts"]
    return rows[rows["n_contexts"] == cells.transform("max")]


def labelled(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Label each row in ``who`` by these columns, omitting missing values and "recorded"."""
    texts = [
        rows[name].astype(str).where(rows[name].notna() & (rows[name] != "recorded"), "").replace(WAYS)
        for name in columns
    ]
    return rows.assign(who=[" · ".join(filter(None, text)) for text in zip(*texts, strict=True)])


def found(rows: pd.DataFrame, *kinds: str) -> pd.DataFrame:
    """Return the estimates with one of these findings, by default above or below the fair value."""
    return rows[rows["finding"].isin(kinds or ("above", "below"))]


def joined(names: list[str]) -> str:
    """Join names: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _several(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]
