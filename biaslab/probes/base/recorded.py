"""Recorded judgements that a probe can use: kinds of judgements in a log, and what a probe accepts of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from biaslab.measures.ranking.pairs import is_pair
from biaslab.stats.blocks import CELL


@dataclass(frozen=True)
class Accepted:
    """The trials of a log that a probe can use, a note on what is left out, and the probe to use."""

    trials: pd.DataFrame
    note: str = ""
    probe: Any = None


def paired(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of two candidates."""
    return trials[is_pair(trials)]


def scored(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of one candidate on a scale."""
    return trials[~is_pair(trials) & trials["scale"].notna()]


def rated(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of one candidate that also has a human score."""
    scores = scored(trials)
    return scores[scores["human"].notna()]


def by_configuration(scores: pd.DataFrame) -> pd.DataFrame:
    """Append the configuration, which probes do not know, to attributes if a judge has several."""
    several = scores.groupby(list(CELL), sort=False)["configuration"].transform("nunique") > 1
    named = scores["attribute"] + " (" + scores["configuration"] + ")"
    return scores.assign(attribute=scores["attribute"].where(~several, named))
