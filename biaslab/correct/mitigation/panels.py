"""Panels from existing judgements: trials of several judges in, trials of the panel out; optionally learned weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_whole, shares_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.mitigation.applied import held_out
from biaslab.correct.mitigation.measured import Case, Estimator, remedies
from biaslab.stats import Resampling, has_value, require_columns

_NEEDS = ("judge", "context_id", "candidate_id", "opponent_id", "attribute", "value", "status")
#: Columns of trials that belong to a judge rather than to what it was asked.
_SAID = {"judge", "value", "status", "label_mass", "samples", "tokens", "key", "reply", "judge_system"}
Weights = Literal["learned"] | Sequence[float] | Mapping[str, Sequence[float]]
_HALF = 1e-9  # closer to ½ than this, a panel is tied


def pooled(
    members: Sequence[pd.DataFrame], weights: Weights | None = None, name: str | None = None, folds: int = 10
) -> pd.DataFrame:
    """Pool trials of several judges into trials of a panel, like the answers of `biaslab.Panel`.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        Trials of the same design, one frame per judge, at least two. Judgements missing from any of them are dropped.
    weights : "learned", sequence of float, or mapping of str to sequence of float, optional
        Non-negative weight of each member; by default equal. "learned": `learned_weights`. A mapping gives weights by
        context.
    name : str, optional
        Value of the column ``judge``.
    folds : int
        Number of parts into which contexts are split if weights are learned.

    Returns
    -------
    pandas.DataFrame
        The weighted mean of the usable members' values: for probabilities the mean, for verdicts the majority; ½ in a
        pair is a tie. ``tokens`` are those of all members.

    Raises
    ------
    InputError
        If there are fewer than two members, one is repeated, or the numbers of weights and members differ.
    TrialsError
        If a column is missing, members have no judgement in common, or values are samples.

    References
    ----------
    Verga et al. 2024, *Replacing Judges with Juries*.

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": "d", "context_id": ["a", "b"], "candidate_id": "x", "opponent_id": "y"})
    >>> rows = rows.assign(attribute="overall", status="ok", tokens=9)
    >>> said = [rows.assign(judge=str(n), value=values) for n, values in enumerate(([1.0, 0.0], [1.0, 1.0]))]
    >>> pooled(said)[["judge", "value", "status", "tokens"]].to_numpy().tolist()
    [['panel of 2', 1.0, 'ok', 18], ['panel of 2', 0.5, 'tie', 18]]
    """
    same = aligned(members)
    if isinstance(weights, str):
        if weights != "learned":
            raise InputError("weights", weights, '"learned", or numbers')
        weights = learned_weights(members, folds)
    base, value, read = same[0], values_of(same), np.column_stack([has_value(each) for each in same])
    share = np.where(read, _shares(weights, base["context_id"], len(members)), 0.0)
    total = share.sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.where(total > 0, (share * np.nan_to_num(value)).sum(axis=1) / total, np.nan)
    even = base["opponent_id"].notna().to_numpy() & (np.abs(mean - 0.5) < _HALF)
    panel = base.assign(
        judge=name or f"panel of {len(members)}",
        value=np.where(even, 0.5, mean),
        status=np.where(total > 0, np.where(even, "tie", "ok"), base["status"]),
        key=[f"panel:{key}" if key else "" for key in base["key"]] if "key" in base else "",
    )
    if all("tokens" in each for each in same):
        panel["tokens"] = sum(each["tokens"].to_numpy() for each in same)
    if all("label_mass" in each for each in same):
        mass = np.column_stack([each["label_mass"].to_numpy(float) for each in same])
        panel["label_mass"] = mass.mean(axis=1)
    return panel


def beside_members(
    probe: Estimator,
    metrics: Sequence[str],
    members: Sequence[pd.DataFrame],
    panel: pd.DataFrame | Weights | None = None,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Compare the bias and the cost of a panel with those of each member.

    Parameters
    ----------
    probe : Probe
        The probe whose estimator measures the bias.
    metrics : sequence of str
        Names of the metrics.
    members : sequence of pandas.DataFrame
        Trials of each member.
    panel : pandas.DataFrame, "learned", or weights, optional
        Trials of the panel, asked as a `biaslab.Panel`; or the weights with which to pool the members' trials.
    resampling : Resampling, optional
        Confidence level of the intervals.

    Returns
    -------
    pandas.DataFrame
        As in `remedies`: a row per metric and member, with the member as ``judge`` and ``before``, and the panel as
        ``remedy`` and ``after``. Intervals are over contexts, and learned weights are relearned without each
        of them.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = bl.probes.Position(["coherence"], [1])
    >>> judges = [bl.SimulatedJudge(data, position=size, noise=0.5, seed=n) for n, size in enumerate((1.0, -1.0))]
    >>> trials = [bl.collect(probe, judge, data, progress=False) for judge in judges]
    >>> found = beside_members(probe, ["first_position_logit"], trials)
    >>> found[["before", "after", "tokens_before", "tokens_after"]].round(0).abs().to_numpy().tolist()
    [[1.0, 0.0, 1.0, 2.0], [1.0, 0.0, 1.0, 2.0]]
    """
    pool = panel if isinstance(panel, pd.DataFrame) else pooled(members, panel)
    name = str(pool["judge"].iloc[0]) if len(pool) else ""

    def anew(before: pd.DataFrame) -> pd.DataFrame:
        return pooled([each[each["context_id"].isin(set(before["context_id"]))] for each in members], "learned")

    after = anew if isinstance(panel, str) else pool
    shown = f"{name}, learned weights" if isinstance(panel, str) else name
    return remedies([Case(probe, metric, shown, each, after) for metric in metrics for each in members], resampling)


def _shares(weights: Any, contexts: pd.Series, size: int) -> Floats:
    """Return the weights of members, shape (judgements, members) or (1, members)."""
    if isinstance(weights, Mapping):
        absent = sorted(set(contexts.astype(str)) - set(weights))
        if absent:
            raise InputError(
                "weights", f"none for {len(absent)} contexts, such as {absent[0]}", "weights for every context"
            )
        known = {name: shares_of(weights[name], size) for name in contexts.astype(str).unique()}
        return np.array([known[name] for name in contexts.astype(str)])
    return np.full((1, size), 1 / size) if weights is None else np.array([shares_of(weights, size)])


def learned_weights(members: Sequence[pd.DataFrame], folds: int = 10) -> dict[str, tuple[float, ...]]:
    """Learn the weight of each panel member for a context from the other labelled contexts.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        Trials of the same design with ``human`` scores, or for pairs ``human_gap``, NaN without a label.
    folds : int
        Number of parts into which labelled contexts are split, at least 2. The weights of each are learned on the
        others, those of unlabelled contexts on all labelled ones.

    Returns
    -------
    dict
        Context → weights, one per member, summing to 1, as in `biaslab.Panel`.

    Raises
    ------
    InputError
        As in `pooled`.
    TrialsError
        If there are no labels, or all of them are in one context.

    Notes
    -----
    Stacking: the non-negative coefficients in a regression of human scores on those of all members, each centred by
    attribute; for pairs of ½, 0 or −½ (by which candidate humans score higher) on p − ½. They are normalised to sum to
    1, and equal if no member helps.

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
        problem = "all labels in one context" if labelled else "no labels in common"
        raise TrialsError("human", problem, "labels in at least two contexts that all members judged")
    learned: dict[str, tuple[float, ...]] = {}
    for others, fold_rows in held_out(base["context_id"], known, folds):
        weights = _stacked(base[others], values[others])
        learned |= dict.fromkeys(base.loc[fold_rows, "context_id"].astype(str), weights)
    return {str(name): learned[str(name)] for name in base["context_id"].unique()}


def _label_of(trials: pd.DataFrame) -> str:
    """Return the column with the human label of each judgement."""
    name = "human_gap" if trials["opponent_id"].notna().all() else "human"
    require_columns(trials, (name,), "members")
    return name


def _stacked(trials: pd.DataFrame, values: Floats) -> tuple[float, ...]:
    """Return non-negative least-squares weights."""
    size, name = values.shape[1], _label_of(trials)
    label = trials[name].to_numpy(float)
    if name == "human_gap":
        columns, wanted = values - 0.5, np.sign(label) / 2
    else:
        both = pd.DataFrame(np.column_stack([values, label]))
        centred = (both - both.groupby(trials["attribute"].to_numpy()).transform("mean")).to_numpy(float)
        columns, wanted = centred[:, :-1], centred[:, -1]
    weights = nnls(columns, wanted)[0] if len(trials) else np.zeros(size)
    total = float(weights.sum())
    return tuple(map(float, weights / total)) if total > 0 else (1 / size,) * size


def aligned(members: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the trials that all members have, aligned row by row.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        One frame per judge, at least two.

    Raises
    ------
    InputError
        If there are fewer than two members, or a frame has several judges.
    TrialsError
        If a column is missing, values are sample shares, or members have no judgement in common.
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
        raise TrialsError("samples", f"shares of samples from {', '.join(sampled)}", "exact or single answers", remedy)
    shared = [column for column in members[0] if column not in _SAID and all(column in each for each in members)]
    codes = pd.concat([each[shared] for each in members]).groupby(shared, dropna=False, sort=False).ngroup()
    parts = np.split(codes.to_numpy(), np.cumsum([len(each) for each in members])[:-1])
    keyed = [pd.MultiIndex.from_arrays([part, pd.Series(part).groupby(part).cumcount()]) for part in parts]
    common = keyed[0]
    for other in keyed[1:]:
        common = common[common.isin(other)]
    if not len(common):
        allowed = f"the same design and data set for {' and '.join(names)}"
        raise TrialsError("members", "no judgements in common", allowed)
    return [
        each.take(index.get_indexer(common)).reset_index(drop=True) for each, index in zip(members, keyed, strict=True)
    ]


def values_of(trials: Sequence[pd.DataFrame]) -> Floats:
    """Return the values of aligned trials, shape (judgements, judges)."""
    return np.column_stack([each["value"].to_numpy(float) for each in trials])
