"""Average estimates over attributes or prompts, as printed in papers, with an interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.stats.frame import TRAILING, require_columns

AVERAGE = "average"
METHOD = "mean of {} estimates, with the mean of their intervals"


def average_over(estimates: pd.DataFrame, column: str, name: str = AVERAGE) -> pd.DataFrame:
    """Average estimates over the values of one condition, all other conditions being equal.

    The estimates come from the same contexts and are therefore correlated, to a degree that the frame does not reveal.
    The standard error of their mean is at most the mean of their standard errors, with equality under perfect
    correlation (Cauchy–Schwarz). So the mean of the intervals is a conservative interval for the mean. There is no
    test.

    Parameters
    ----------
    estimates : pandas.DataFrame
        An estimates frame.
    column : str
        The condition to average over, for example "attribute" or "template".
    name : str
        Value of that column in the rows of averages.

    Returns
    -------
    pandas.DataFrame
        The averages alone, in the same columns: one row per group of at least two rows that differ in ``column`` only;
        none if there is a single value. ``n_trials`` and ``n_dropped`` are summed, ``n_contexts`` is the minimum. If
        one estimate is undefined so is the average, and the note names it.

    Raises
    ------
    InputError
        If the frame has no such condition, or two rows are equal in all conditions.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> trials = bl.collect(bl.scoring.GEval(), bl.SimulatedJudge(data, noise=1.0), data, progress=False)
    >>> found = bl.scoring.agreement(bl.scoring.scores(trials), data, ["context"], ["spearman"])
    >>> average = average_over(found, "attribute")
    >>> average["attribute"].tolist(), bool(abs(average["estimate"].item() - found["estimate"].mean()) < 1e-12)
    (['average'], True)
    """
    require_columns(estimates, ("metric", *TRAILING), "estimates")
    conditions = [each for each in estimates.columns if each not in TRAILING]
    require_one_of("column", column, tuple(conditions))
    if estimates.duplicated(conditions).any():
        raise InputError("estimates", "two rows of the same cell", "rows that differ in a condition")
    keys = [each for each in conditions if each != column]
    rows = []
    for _, group in estimates.groupby(keys, sort=False, dropna=False):
        if len(group) > 1:
            rows.append(group.iloc[0].to_dict() | {column: name} | _averaged(group, column))
    return pd.DataFrame(rows, columns=estimates.columns) if rows else estimates.iloc[:0]


def _averaged(group: pd.DataFrame, column: str) -> dict[str, Any]:
    means = {
        each: float(group[each].mean(skipna=False))
        for each in ("estimate", "se", "ci_low", "ci_high", "bound_low", "bound_high")
    }
    undefined = group.loc[group["estimate"].isna(), column]
    note = f"undefined for {', '.join(map(str, undefined))}" if len(undefined) else ""
    counts = {"n_contexts": group["n_contexts"].min()} | {e: group[e].sum() for e in ("n_trials", "n_dropped")}
    none = dict.fromkeys(("p_value", "q_value", "mde"), np.nan)
    return means | counts | none | {"method": METHOD.format(len(group)), "note": note}
