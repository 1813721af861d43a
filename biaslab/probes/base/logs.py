"""Select kinds of recorded judgements: pairs, scores, scores with human scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_CELL = ["judge", "dataset", "attribute"]


def paired(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of two candidates."""
    return trials[trials["opponent_id"].notna() & (trials["opponent_id"] != "")]


def scored(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of one candidate on a scale."""
    return trials[(trials["opponent_id"].isna() | (trials["opponent_id"] == "")) & trials["scale"].notna()]


def rated(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of one candidate that also has a human score."""
    scores = scored(trials)
    return scores[scores["human"].notna()]


def by_configuration(scores: pd.DataFrame) -> pd.DataFrame:
    """Append the configuration, which probes do not know, to attributes if a judge has several."""
    several = scores.groupby(_CELL, sort=False)["configuration"].transform("nunique") > 1
    named = scores["attribute"] + " (" + scores["configuration"] + ")"
    return scores.assign(attribute=scores["attribute"].where(~several, named))
