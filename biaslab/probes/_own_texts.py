"""A judge's own texts among others: who wrote what, how often own texts win, and how much higher they score."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.probes.base import mean_of
from biaslab.probes.base.human_errors import noted
from biaslab.probes.base.pair_differences import seen_from
from biaslab.stats import Estimate, Ratio, Resampling, undefined, usable

_MAY_BE_BETTER = "own texts may be better or worse; compare with human judgements of the same texts"


def seen_from_own(trials: pd.DataFrame, own: str) -> pd.DataFrame:
    """Return the comparisons of an own text with another's, from the side of the own text.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pairs, with ``system`` and ``opponent_system``.
    own : str
        The judge's own system.

    Returns
    -------
    pandas.DataFrame
        As from `biaslab.probes.base.pair_differences.seen_from`, with ``other``, the other system.
    """
    ahead = trials["system"] == own
    judged = trials[ahead != (trials["opponent_system"] == own)]
    first = ahead[judged.index]
    seen = seen_from(judged, first)
    return seen.assign(other=judged["opponent_system"].where(first, judged["system"]), own_here=1.0, own_there=0.0)


def win_rate(judged: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the mean probability that the own text wins."""
    read = usable(judged)
    rate = mean_of(read, read["won"], None, (0.0, 1.0), inference="score")
    return noted(rate.with_missing(rate.estimate(resampling), len(read), len(judged) - len(read)), _MAY_BE_BETTER)


def score_gap(scores: pd.DataFrame, own: pd.Series, width: float, resampling: Resampling) -> Estimate:
    """Return the mean score of own texts minus that of others, over contexts with both.

    Parameters
    ----------
    scores : pandas.DataFrame
        Score trials.
    own : pandas.Series of bool
        Whether a text is the judge's own.
    width : float
        Width of the scale, in points; infinite if unbounded.
    resampling : Resampling
        Level and resampling of the estimate.
    """
    read = usable(scores)
    sides = {side: part.groupby("context_id")["value"].mean() for side, part in read.groupby(own[read.index])}
    if len(sides) < 2:
        return undefined("undefined: no context with scores of own texts and of others")
    gap = (sides[True] - sides[False]).dropna()
    ratio = Ratio(gap.index, gap, np.ones(len(gap)), bounds=(-width, width) if np.isfinite(width) else None)
    estimate = ratio.with_missing(ratio.estimate(resampling), len(read), len(scores) - len(read))
    return noted(estimate, _MAY_BE_BETTER)


def systems_of(trials: pd.DataFrame) -> list[str]:
    """Return the named systems, in order of appearance."""
    named = [trials[name].dropna() for name in ("system", "opponent_system") if name in trials]
    return [str(name) for name in pd.unique(pd.concat(named)) if name]


def with_writers(trials: pd.DataFrame) -> pd.DataFrame:
    """Name the writers of recorded texts: candidates are systems, and the judge's own has the judge's name.

    The judge's own system is ``judge_system`` or the judge's name, ignoring case.
    """
    named = trials["judge_system"].where(_folded(trials["judge_system"]) != "", trials["judge"])
    own, name = _folded(named), named.astype(object).str.strip()
    sides = {}
    for column, who in (("system", "candidate_id"), ("opponent_system", "opponent_id")):
        written = (_folded(trials[who]) == own) & (own != "")
        sides[column] = trials[who].astype(object).where(~written, name)
    return trials.assign(own=name, **sides)


def _folded(names: pd.Series) -> pd.Series:
    """Return names in lower case without surrounding spaces; "" if missing."""
    folded = {name: str(name).strip().casefold() for name in names.dropna().unique()}
    return names.astype(object).map(folded).astype(object).fillna("")
