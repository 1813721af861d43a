"""How much each member of a panel should count, learned on labelled contexts other than the one it counts in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from biaslab.core.checked import checked
from biaslab.core.checks import require_whole
from biaslab.core.errors import TrialsError
from biaslab.correct.mitigation.aligned import Floats, aligned, values_of
from biaslab.correct.mitigation.folds import held_out
from biaslab.stats import has_value, require_columns


@checked
def learned_weights(members: Sequence[pd.DataFrame], folds: int = 10) -> dict[str, tuple[float, ...]]:
    """Learn how much each member of a panel should count, on labelled contexts other than the one it counts in.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        Trials of the same design with ``human`` scores, or of pairs with ``human_gap``, NaN where nobody labelled.
    folds : int
        Parts into which labelled contexts are cut, at least 2. The weights of one are learned on all others, those of
        unlabelled contexts on all labelled ones.

    Returns
    -------
    dict
        Context → weights, one a member, with sum 1, as `biaslab.Panel` takes them.

    Raises
    ------
    InputError
        As `pooled`.
    TrialsError
        If there are no labels, or all of them are in one context.

    Notes
    -----
    Stacking: the coefficients, none below 0, of the regression of human scores on those of all members, each less its
    mean of an attribute; of pairs that of ½, 0 or −½ (whom humans score higher) on p − ½. They are then divided by
    their sum, and equal where no member helps.

    References
    ----------
    Breiman 1996, *Stacked Regressions*, Machine Learning 24.

    Examples
    --------
    >>> rows = [(str(c), str(k), float(k)) for c in range(8) for k in range(3)]
    >>> rows = pd.DataFrame(rows, columns=["context_id", "candidate_id", "human"]).assign(opponent_id=None)
    >>> rows = rows.assign(dataset="d", attribute="a", status="ok")
    >>> said = [rows.assign(judge=str(n), value=rows["human"] * (1 - n) + 2) for n in (0, 1)]
    >>> learned_weights(said, folds=4)["3"]
    (1.0, 0.0)
    """
    require_whole("folds", folds, 2)
    same = aligned(members)
    base, values = same[0], values_of(same)
    label = base[_label_of(base)].to_numpy(float)
    known = ~np.isnan(label) & np.column_stack([has_value(each) for each in same]).all(axis=1)
    labelled = base.loc[known, "context_id"].nunique()
    if labelled < 2:
        found = "all labels in one context" if labelled else "no label in common"
        raise TrialsError("human", found, "labels in at least two contexts that all members judged")
    learned: dict[str, tuple[float, ...]] = {}
    for others, here in held_out(base["context_id"], known, folds):
        weights = _stacked(base[others], values[others])
        learned |= dict.fromkeys(base.loc[here, "context_id"].astype(str), weights)
    return {str(name): learned[str(name)] for name in base["context_id"].unique()}


def _label_of(trials: pd.DataFrame) -> str:
    """Return the column of what humans say of each judgement."""
    name = "human_gap" if trials["opponent_id"].notna().all() else "human"
    require_columns(trials, (name,), "members")
    return name


def _stacked(trials: pd.DataFrame, values: Floats) -> tuple[float, ...]:
    """Return the weights of least squares, none of them below 0."""
    size, name = values.shape[1], _label_of(trials)
    label = trials[name].to_numpy(float)
    if name == "human_gap":
        columns, wanted = values - 0.5, np.sign(label) / 2
    else:
        both = pd.DataFrame(np.column_stack([values, label]))
        centred = (both - both.groupby(trials["attribute"].to_numpy()).transform("mean")).to_numpy(float)
        columns, wanted = centred[:, :-1], centred[:, -1]
    found = nnls(columns, wanted)[0] if len(trials) else np.zeros(size)
    total = float(found.sum())
    return tuple(map(float, found / total)) if total > 0 else (1 / size,) * size
