"""Score distributions after a low or a high score of another attribute (Stureborg et al. 2024, Figs. 4, 10)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.stats import Ratio, Resampling, estimate_rows, estimates_frame, require_columns

#: The mean score, and the share of each level.
Parts = tuple[Ratio, list[Ratio]]


def conditional_shares(
    scores: pd.DataFrame,
    attributes: Sequence[str],
    values: Sequence[float],
    judge: str,
    dataset: str,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Estimate the distribution of each attribute's score given a low or high earlier score, for all attribute pairs.

    Parameters
    ----------
    scores : pandas.DataFrame
        One row per output, or per rating by one person: ``context_id``, and a column per attribute. Rows with a
        missing score are dropped for pairs with that attribute; scores between two values are rounded to the nearest,
        halves down.
    attributes : sequence of str
        In the order in which they were scored; each is paired with all later ones.
    values : sequence of float
        The scores of the scale, ascending. Low means up to the middle of the scale.
    judge, dataset : str
        Judge (or annotator) and data set of the scores.
    resampling : Resampling, optional
        Settings of the intervals, which are over contexts.

    Returns
    -------
    pandas.DataFrame
        The estimates frame of `biaslab.probes.Anchoring` with the metrics ``share_after_low``, ``share_after_high`` by
        ``score``, and ``mean_after_low``, ``mean_after_high``; ``after`` is the earlier attribute, ``attribute`` the
        later one, ``position`` the position of the later one.

    Raises
    ------
    InputError
        If there are fewer than two attributes or values.

    Examples
    --------
    >>> rows = [(f"c{k}", 1 + k % 5, 1 + k % 5) for k in range(20)]
    >>> scores = pd.DataFrame(rows, columns=["context_id", "coherence", "fluency"])
    >>> estimates = conditional_shares(scores, ["coherence", "fluency"], range(1, 6), "a judge", "a set")
    >>> estimates.loc[estimates["metric"].str.startswith("mean"), "estimate"].tolist()
    [2.0, 4.5]
    """
    resampling, levels = resampling or Resampling(), np.asarray(list(values), float)
    if len(attributes) < 2 or len(levels) < 2:
        raise InputError("attributes and values", (list(attributes), list(values)), "at least two of each")
    require_columns(scores, ("context_id", *attributes), "scores")
    rows: list[dict[str, Any]] = []
    for (_, first), (place, later) in combinations(enumerate(attributes, start=1), 2):
        known = scores[scores[first].notna() & scores[later].notna()]
        where = {"judge": judge, "dataset": dataset, "after": first, "attribute": later, "position": place}
        counts = len(known), len(scores) - len(known)
        nearest = np.abs(known[later].to_numpy(float)[:, None] - levels).argmin(axis=1)
        low = known[first].to_numpy(float) <= (levels[0] + levels[-1]) / 2
        chances = np.eye(len(levels))[nearest]
        for side, inside in (("low", low), ("high", ~low)):
            missing = f"undefined: no first score is {side}"
            mean, shares = later_scores(known["context_id"], chances * inside[:, None], levels, missing)
            rows += estimate_rows({f"mean_after_{side}": mean.estimate(resampling)}, where, resampling, *counts)
            for score, share in zip(levels.tolist(), shares, strict=True):
                estimates = {f"share_after_{side}": share.estimate(resampling)}
                rows += estimate_rows(estimates, where | {"score": score}, resampling, *counts)
    return estimates_frame(rows, "anchoring", (), ("attribute", "after", "position", "score"))


def later_scores(context: pd.Series, chances: Floats, levels: Floats, missing: str) -> Parts:
    """Return the mean score and the share of each level, among outputs whose earlier score is low, or high.

    Parameters
    ----------
    context : pandas.Series
        Context of each output.
    chances : numpy.ndarray
        Outputs × levels: the probability that the earlier score is low (or high) and the later one equals the level.
    levels : numpy.ndarray
        The scores of the scale, ascending.
    missing : str
        The note if there is no such earlier score.
    """
    weight, extremes = chances.sum(axis=1), (float(levels[0]), float(levels[-1]))
    mean = Ratio(context, chances @ levels, weight, bounds=extremes, missing=missing)
    return mean, [Ratio(context, share, weight, bounds=(0.0, 1.0), missing=missing) for share in chances.T]
