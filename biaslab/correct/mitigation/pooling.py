"""A panel from judgements that there are: trials of several judges in, those of the panel out; and learned weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.checks import shares_of
from biaslab.core.errors import InputError
from biaslab.correct.mitigation.aligned import Floats, aligned, values_of
from biaslab.correct.mitigation.measured import Case, Estimator, remedies
from biaslab.correct.mitigation.stacking import learned_weights
from biaslab.stats import Resampling, has_value

Weights = Literal["learned"] | Sequence[float] | Mapping[str, Sequence[float]]
_HALF = 1e-9  # nearer to ½ a panel is divided


@checked
def pooled(
    members: Sequence[pd.DataFrame], weights: Weights | None = None, name: str | None = None, folds: int = 10
) -> pd.DataFrame:
    """Make the trials of a panel from those of its members, as `biaslab.Panel` would answer them from labels.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        Trials of the same design, one frame a judge, at least two. Judgements that one of them lacks are left out.
    weights : "learned", sequence of float, or mapping of str to sequence of float, optional
        How much each member counts, at least 0; equally much by default. "learned": `learned_weights`. A mapping has
        those of each context.
    name : str, optional
        Stands as ``judge``.
    folds : int
        Parts into which contexts are cut where weights are learned.

    Returns
    -------
    pandas.DataFrame
        The weighted mean of the values of members that can be read: of probabilities, and of verdicts the majority; ½
        of a pair is a tie. ``tokens`` are those of all members.

    Raises
    ------
    InputError
        If there are fewer than two members, one stands twice, or there is not one weight a member.
    TrialsError
        If a column is missing, members have no judgement in common, or are samples.

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
    made = base.assign(
        judge=name or f"panel of {len(members)}",
        value=np.where(even, 0.5, mean),
        status=np.where(total > 0, np.where(even, "tie", "ok"), base["status"]),
        key=[f"panel:{key}" if key else "" for key in base["key"]] if "key" in base else "",
    )
    if all("tokens" in each for each in same):
        made["tokens"] = sum(each["tokens"].to_numpy() for each in same)
    if all("label_mass" in each for each in same):
        mass = np.column_stack([each["label_mass"].to_numpy(float) for each in same])
        made["label_mass"] = mass.mean(axis=1)
    return made


@checked
def beside_members(
    probe: Estimator,
    metrics: Sequence[str],
    members: Sequence[pd.DataFrame],
    panel: pd.DataFrame | Weights | None = None,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Measure the bias and the cost of a panel beside each member's.

    Parameters
    ----------
    probe : Probe
        Whose estimator measures the bias.
    metrics : sequence of str
        What of it.
    members : sequence of pandas.DataFrame
        Trials of each member.
    panel : pandas.DataFrame, "learned", or weights, optional
        Trials of the panel, asked as `biaslab.Panel`; or with which weights to pool those of the members.
    resampling : Resampling, optional
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        That of `remedies`: a row a metric and member, who is ``judge`` and ``before``; the panel is ``remedy`` and
        ``after``. Intervals are over contexts, and learned weights are learned anew without each of them.

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
    made = panel if isinstance(panel, pd.DataFrame) else pooled(members, panel)
    name = str(made["judge"].iloc[0]) if len(made) else ""

    def anew(before: pd.DataFrame) -> pd.DataFrame:
        return pooled([each[each["context_id"].isin(set(before["context_id"]))] for each in members], "learned")

    after = anew if isinstance(panel, str) else made
    shown = f"{name}, learned weights" if isinstance(panel, str) else name
    return remedies([Case(probe, metric, shown, each, after) for metric in metrics for each in members], resampling)


def _shares(weights: Any, contexts: pd.Series, size: int) -> Floats:
    """Return the weights of members, shape (judgements, members) or (1, members)."""
    if isinstance(weights, Mapping):
        absent = sorted(set(contexts.astype(str)) - set(weights))
        if absent:
            raise InputError(
                "weights", f"none of {len(absent)} contexts, such as {absent[0]}", "weights of every context"
            )
        known = {name: shares_of(weights[name], size) for name in contexts.astype(str).unique()}
        return np.array([known[name] for name in contexts.astype(str)])
    return np.full((1, size), 1 / size) if weights is None else np.array([shares_of(weights, size)])
