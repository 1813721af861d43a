"""Recorded judges to compare with a new judge: models on whole data sets, asked in the plainest way."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from biaslab.atlas.estimates_table import estimates

if TYPE_CHECKING:
    import pandas as pd

#: Judges that are people, individually or together.
PEOPLE = r"(?:expert|annotator)-\d+|annotators' mean|humans"
#: Reward models, which score texts alone: no position bias by construction.
_REWARDS = "judgebench"
#: For sources with several ways of asking, some of them remedies: the plain one.
_PLAINEST = {"llmbar": "Vanilla", "self_recognition": "recorded", "small_judges": "baseline"}


@cache
def reference() -> pd.DataFrame:
    """Return the atlas's estimates that a judge is compared with.

    Excludes people, subsets of data sets, and the position bias of reward models, which have none by construction. Of
    LLMBar's ten prompts, most of which are remedies, only the plain one is used, and of pairs that include a judge's
    own text, those without author names.

    Returns
    -------
    pandas.DataFrame
        Rows of `biaslab.atlas.estimates`, with the name of the source as ``dataset``.
    """
    rows = estimates()
    return rows[of_models(rows)].assign(dataset=rows["source"])


def of_models(rows: pd.DataFrame) -> pd.Series:
    """Return whether estimates are of models that could be biased, asked in the plainest way: see `reference`."""
    free = (rows["source"] == _REWARDS) & (rows["probe"] == "position")
    return ~rows["judge"].str.fullmatch(PEOPLE) & is_plain(rows) & ~free


def is_plain(rows: pd.DataFrame) -> pd.Series:
    """Return whether estimates are of whole data sets, asked in the plainest way if a source has several."""
    plain = rows["subset"].isna()
    for source, template in _PLAINEST.items():
        plain &= (rows["source"] != source) | rows["template"].isna() | (rows["template"] == template)
    return plain
