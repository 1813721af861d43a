"""Share of system pairs that a scorer orders as humans do: the system-level accuracy of the WMT metrics task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import TrialsError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.agreement import with_human
from biaslab.measures.scoring.scorer import SCORES
from biaslab.stats import (
    Estimate,
    Resampling,
    cluster_statistic,
    estimate_rows,
    estimates_frame,
    require_columns,
    undefined,
)

_DIGITS = 12  # means are compared after rounding to this many decimals
_NOTE = "not a smooth statistic: no test, and the coverage of the interval is not established"


def system_accuracy(
    scores: pd.DataFrame, dataset: Dataset, resampling: Resampling | None = None, by: Sequence[str] = ()
) -> pd.DataFrame:
    """Estimate the share of pairs of systems whose mean scores differ in the direction of their mean human scores.

    Parameters
    ----------
    scores : pandas.DataFrame
        A scores frame (`biaslab.scoring.scores`).
    dataset : Dataset
        The data set that was scored, with named systems.
    resampling : Resampling, optional
        Settings of the intervals: percentile intervals over contexts, for these systems.
    by : sequence of str
        Further columns by which to split the rows.

    Returns
    -------
    pandas.DataFrame
        The estimates frame: metric ``system_accuracy``, 0 to 1, one row per scorer, judge and attribute. All pairs
        count; one is correct if both differences have the same sign, including 0. There is no test, because the
        statistic is a step function: a single context changes nothing, or flips a pair.

    Raises
    ------
    TrialsError
        If a column is missing, the scores are of another data set, or the systems are not named.

    References
    ----------
    Kocmi et al. 2021, *To Ship or Not to Ship*, Eq. 1; column "Acc." of Wang et al. 2023, Tables 2, 9 and 11.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> trials = bl.collect(bl.scoring.GEval(["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> bool(system_accuracy(bl.scoring.scores(trials), data)["estimate"].item() > 0.8)
    True
    """
    resampling = resampling or Resampling()
    require_columns(scores, [*SCORES, *by], "scores")
    if (dataset.candidates["system"].str.strip() == "").any():
        raise TrialsError("candidates of the data set", "one without a system", "a system for every candidate")
    rows: list[dict[str, Any]] = []
    names = [*SCORES[:4], *by]
    for values, group in scores.groupby(names, sort=False):
        where = dict(zip(names, values, strict=True))
        frame = with_human([group], dataset, str(where["attribute"]))
        whole = frame.dropna(subset=["score", "human"])
        estimates = {"system_accuracy": _estimate(whole, resampling)}
        rows += estimate_rows(estimates, where, resampling, len(whole), len(frame) - len(whole))
    return estimates_frame(rows, "agreement", (), [name for name in names if name not in ("judge", "dataset")])


def _estimate(frame: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Estimate from one row per candidate, with ``context_id, system, score, human``."""
    contexts, _ = pd.factorize(resampling.cluster_of(frame["context_id"]))
    systems, known = pd.factorize(frame["system"], sort=True)
    if len(known) < 2:
        return undefined("fewer than two systems", len(set(contexts)))
    sums = np.zeros((3, contexts.max() + 1, len(known)))
    for table, values in zip(sums, (np.ones(len(frame)), frame["score"], frame["human"]), strict=True):
        np.add.at(table, (contexts, systems), np.asarray(values, float))
    # resamples then depend on the seed only, not on the order of contexts
    sums = sums[:, np.lexsort(sums.swapaxes(1, 2).reshape(-1, sums.shape[1]))]
    first, second = np.triu_indices(len(known), 1)

    def accuracy(weights: Floats) -> Floats:
        counts, *totals = (weights @ table for table in sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = [np.where(counts > 0, total / counts, np.nan) for total in totals]
        signs = [np.sign(np.round(mean[:, first] - mean[:, second], _DIGITS)) for mean in means]
        met = ~np.isnan(signs[0])
        right = ((signs[0] == signs[1]) & met).sum(axis=1)
        return np.asarray(np.where(met.any(axis=1), right / np.maximum(met.sum(axis=1), 1), np.nan), float)

    method = "percentile" if resampling.method == "studentised" else resampling.method
    estimate = cluster_statistic(accuracy, sums.shape[1], replace(resampling, method=method), None, (0.0, 1.0))
    return replace(estimate, note="; ".join(filter(None, [estimate.note, _NOTE])))
