"""The number of comparisons that reach most of the agreement of all of them (Liusie et al. 2024, Fig. 4)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.stats import require_columns


def budget_needed(curves: pd.DataFrame, share: float = 0.9) -> pd.DataFrame:
    """Return how many comparisons reach a share of the agreement of all comparisons.

    Parameters
    ----------
    curves : pandas.DataFrame
        Result of `biaslab.ranking.agreement_by_budget`, whose largest budget asks all pairs.
    share : float
        Share of the agreement at the largest budget, above 0, at most 1.

    Returns
    -------
    pandas.DataFrame
        Comparisons per context by attribute and debiasing (and by judge, data set or template if there are several),
        one column per strategy, interpolated linearly between budgets on the curve made monotone. NaN if the agreement
        of all comparisons is not positive. *no-repeat*, which cannot ask all pairs, is left out.

    Raises
    ------
    InputError
        If the share is out of range.
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> rows = {"attribute": "fluency", "debiasing": "none", "strategy": "random", "metric": "spearman"}
    >>> curves = pd.DataFrame([rows | {"budget": r, "estimate": rho} for r, rho in ((2, 0.2), (10, 0.4), (30, 0.5))])
    >>> budget_needed(curves)["random"].to_dict()
    {('fluency', 'none'): 20.0}
    """
    if not 0 < share <= 1:
        raise InputError("share", share, "above 0, at most 1")
    require_columns(curves, ["metric", "attribute", "debiasing", "strategy", "budget", "estimate"], "curves")
    rho = curves[(curves["metric"] == "spearman") & (curves["strategy"] != "no-repeat")]
    several = [name for name in ("judge", "dataset", "template") if name in rho and len(set(rho[name])) > 1]
    index = [*several, "attribute", "debiasing"]
    rows = [
        dict(zip([*index, "strategy"], key, strict=True)) | {"budget": _reached(curve, share)}
        for key, curve in rho.groupby([*index, "strategy"], sort=False)
    ]
    table = pd.DataFrame(rows, columns=[*index, "strategy", "budget"])
    wide = table.pivot_table("budget", index, "strategy")
    return wide.reindex(pd.MultiIndex.from_frame(table[index].drop_duplicates()), columns=table["strategy"].unique())


def _reached(curve: pd.DataFrame, share: float) -> float:
    """Return the budget at which a curve, made monotone, reaches a share of its last value."""
    curve = curve.sort_values("budget")
    goal = share * float(curve["estimate"].iloc[-1])
    return float(np.interp(goal, curve["estimate"].cummax(), curve["budget"])) if goal > 0 else np.nan
