"""Trials of several judges, row by row the same judgement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.errors import InputError, TrialsError
from biaslab.stats import require_columns

Floats = NDArray[np.float64]
_NEEDS = ("judge", "context_id", "candidate_id", "opponent_id", "attribute", "value", "status")
#: Columns of trials that are a judge's and not of what it was asked.
_SAID = {"judge", "value", "status", "label_mass", "samples", "tokens", "key", "reply", "judge_system"}


def aligned(members: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the trials that all members have, row by row the same judgement.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        One frame a judge, at least two.

    Raises
    ------
    InputError
        If there are fewer than two members, or a frame is not one judge's own.
    TrialsError
        If a column is missing, values are shares of samples, or members have no judgement in common.
    """
    if isinstance(members, pd.DataFrame) or len(members) < 2:
        raise InputError("members", type(members).__name__, "trials of at least two judges, one frame each")
    for each in members:
        require_columns(each, _NEEDS, "members")
    names = [str(each["judge"].iloc[0]) if len(set(each["judge"])) == 1 else "" for each in members]
    if len(set(names)) < len(names) or not all(names):
        raise InputError("members", names, "trials of different judges, each frame of one")
    sampled = [
        name for name, each in zip(names, members, strict=True) if "samples" in each and each["samples"].notna().any()
    ]
    if sampled:
        remedy = "ask them as biaslab.Panel, which pools samples"
        raise TrialsError(
            "samples", f"shares of samples of {', '.join(sampled)}", "exact answers or single ones", remedy
        )
    shared = [column for column in members[0] if column not in _SAID and all(column in each for each in members)]
    codes = pd.concat([each[shared] for each in members]).groupby(shared, dropna=False, sort=False).ngroup()
    parts = np.split(codes.to_numpy(), np.cumsum([len(each) for each in members])[:-1])
    keyed = [pd.MultiIndex.from_arrays([part, pd.Series(part).groupby(part).cumcount()]) for part in parts]
    common = keyed[0]
    for other in keyed[1:]:
        common = common[common.isin(other)]
    if not len(common):
        allowed = f"the same design and data set for {' and '.join(names)}"
        raise TrialsError("members", "no judgement in common", allowed)
    return [
        each.take(index.get_indexer(common)).reset_index(drop=True) for each, index in zip(members, keyed, strict=True)
    ]


def values_of(trials: Sequence[pd.DataFrame]) -> Floats:
    """Return the values of trials that are aligned, shape (judgements, judges)."""
    return np.column_stack([each["value"].to_numpy(float) for each in trials])
