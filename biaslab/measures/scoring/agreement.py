"""Estimate agreement of scores with mean human scores, and compare two scorers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Literal, get_args

import pandas as pd

from biaslab.core.checks import require_some_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.scorer import SCORES
from biaslab.stats import (
    ITEM,
    Estimate,
    Level,
    Method,
    Resampling,
    agreement_loss,
    estimate_correlation,
    estimate_rows,
    estimates_frame,
    require_columns,
    warn_missing,
)

_CONDITIONS = ("scorer", "other", "attribute", "template", "level", "coefficient")
_Estimator = Callable[[pd.DataFrame, Level, Method], Estimate]


def agreement(
    scores: pd.DataFrame,
    dataset: Dataset | Mapping[str, Dataset] | None = None,
    levels: Sequence[Level] = get_args(Level),
    coefficients: Sequence[Method] = get_args(Method),
    resampling: Resampling | None = None,
    by: Sequence[str] = ("template",),
    constant: Literal["drop", "zero"] = "drop",
) -> pd.DataFrame:
    """Correlate scores with the mean human scores of the same candidates.

    Parameters
    ----------
    scores : pandas.DataFrame
        A scores frame (`biaslab.scoring.scores`), a ranking (`biaslab.ranking.rank`), or any other frame with
        ``judge, dataset, attribute, context_id, candidate_id, score``; if it has a column ``scorer``, scorers are kept
        apart.
    dataset : Dataset or mapping of str to Dataset, optional
        The data set that was scored. By default the frame itself holds the human scores, in a column ``human``, and
        the candidates' systems, in ``system``. With several data sets by name, for example one with a teacher's scores
        in place of human ones, scores are compared with each; a column ``agreement_with`` names them.
    levels : sequence of {"context", "dataset", "system"}
        Within contexts and then averaged, over all candidates, and/or over the means of systems. The last is omitted
        if systems are not named.
    coefficients : sequence of {"spearman", "kendall", "pearson"}
        Spearman's ρ, Kendall's τ-b and/or Pearson's r.
    resampling : Resampling, optional
        Settings of the intervals, which are over contexts.
    by : sequence of str
        Further columns, if present, by which to split the rows.
    constant : {"drop", "zero"}
        Contexts in which human scores vary and the scorer's do not: dropped from the mean within contexts, or counted
        as 0, as in the code of Liusie et al.

    Returns
    -------
    pandas.DataFrame
        The estimates frame: metric ``agreement`` (−1 to 1, null 0; no test for ranks of systems), one row per judge ×
        scorer × attribute × template × level × coefficient. ``n_dropped`` counts candidates of the data set (or the
        frame) without a score, or without a human one.

    Raises
    ------
    InputError
        If a level, a coefficient or an attribute is unknown.
    TrialsError
        If a column is missing, a candidate is scored twice or is not in the data set, or the scores are of another
        data set.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the candidates have no score.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> trials = bl.collect(bl.scoring.GEval(["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> estimates = agreement(bl.scoring.scores(trials), data, levels=["context"], coefficients=["spearman"])
    >>> bool(estimates["estimate"].item() > 0.9)
    True
    """
    if isinstance(dataset, Mapping):
        return _with_each(dataset, lambda one: agreement(scores, one, levels, coefficients, resampling, by, constant))
    how = resampling or Resampling()
    _require_options(levels, coefficients)
    require_columns(scores, SCORES[1:], "scores")

    def estimate(items: pd.DataFrame, level: Level, coefficient: Method) -> Estimate:
        return estimate_correlation(items, "score", "human", how, level, coefficient, null=0.0, constant=constant)

    rows: list[dict[str, Any]] = []
    names = [name for name in (*SCORES[:4], *by) if name in scores.columns]
    for values, group in scores.groupby(names, sort=False):
        where = dict(zip(names, values, strict=True))
        frame = _own_human(group) if dataset is None else with_human([group], dataset, str(where["attribute"]))
        what = f"agreement ({' '.join(map(str, values))})"
        rows += _rows("agreement", frame, what, where, estimate, (levels, coefficients), how)
    conditions = [name for name in (*_CONDITIONS[:3], *by, *_CONDITIONS[4:]) if name not in by or name in names]
    return estimates_frame(rows, "agreement", ("agreement",), conditions)


def agreement_difference(
    first: pd.DataFrame,
    second: pd.DataFrame,
    dataset: Dataset | Mapping[str, Dataset],
    levels: Sequence[Level] = get_args(Level),
    coefficients: Sequence[Method] = get_args(Method),
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Estimate the difference in agreement with humans between two scorers, on candidates that both scored.

    Parameters
    ----------
    first, second : pandas.DataFrame
        Scores frames of one scorer each, for the same data set.
    dataset, levels, coefficients, resampling
        As in `agreement`. Both agreements are recomputed on the same resampled contexts.

    Returns
    -------
    pandas.DataFrame
        The estimates frame: metric ``agreement_difference`` (−2 to 2, null 0), first minus second, one row per
        attribute that both scored × level × coefficient. ``scorer`` is the first, ``other`` the second.

    Raises
    ------
    InputError, TrialsError
        As in `agreement`; also if a frame has several scorers or judges, or the two have no attribute in common.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the candidates lack one of the scores.

    Examples
    --------
    >>> import biaslab as bl
    >>> data, scorer, frames = bl.load_dataset("graded", limit=8), bl.scoring.GEval(["fluency"]), []
    >>> for noise in (0.0, 4.0):
    ...     trials = bl.collect(scorer, bl.SimulatedJudge(data, noise=noise), data, progress=False)
    ...     frames.append(bl.scoring.scores(trials))
    >>> estimates = agreement_difference(*frames, data, levels=["context"], coefficients=["kendall"])
    >>> bool(estimates["estimate"].item() > 0)
    True
    """
    if isinstance(dataset, Mapping):
        return _with_each(
            dataset, lambda one: agreement_difference(first, second, one, levels, coefficients, resampling)
        )
    how = resampling or Resampling()
    _require_options(levels, coefficients)
    whose = [_only(frame, name) for name, frame in (("first", first), ("second", second))]
    where = {**whose[0], "other": whose[1]["scorer"]}
    if whose[0]["judge"] != whose[1]["judge"]:
        where["judge"] = f"{whose[0]['judge']} | {whose[1]['judge']}"
    shared = [name for name in first["attribute"].drop_duplicates() if (second["attribute"] == name).any()]
    if not shared:
        raise InputError(
            "second", sorted(set(second["attribute"])), "scores of an attribute that the first also scored"
        )

    def estimate(items: pd.DataFrame, level: Level, coefficient: Method) -> Estimate:
        return agreement_loss(items, "score", "score_2", "human", how, level, coefficient)

    rows: list[dict[str, Any]] = []
    for name in shared:
        frame = with_human([scores[scores["attribute"] == name] for scores in (first, second)], dataset, name)
        what = f"agreement_difference ({where['scorer']}, {where['other']}, {name})"
        cell = {**where, "attribute": name}
        rows += _rows("agreement_difference", frame, what, cell, estimate, (levels, coefficients), how)
    return estimates_frame(rows, "agreement", ("agreement_difference",), _CONDITIONS)


def _with_each(datasets: Mapping[str, Dataset], estimate: Callable[[Dataset], pd.DataFrame]) -> pd.DataFrame:
    """Estimate agreement with each of several ratings of the same candidates, one row group per rating."""
    if not datasets:
        raise InputError("dataset", "none", "at least one data set")
    parts = [estimate(one).assign(agreement_with=name) for name, one in datasets.items()]
    return pd.concat(parts, ignore_index=True)


def with_human(parts: Sequence[pd.DataFrame], dataset: Dataset, attribute: str) -> pd.DataFrame:
    """Join the scores of one attribute with the mean human scores.

    Parameters
    ----------
    parts : sequence of pandas.DataFrame
        Scores frames, each of one scorer and attribute.
    dataset : Dataset
        The data set that was scored.
    attribute : str
        The attribute.

    Returns
    -------
    pandas.DataFrame
        One row per candidate of the data set: ``context_id, candidate_id, system, human, score``, and ``score_2`` and
        so on for further parts; NaN if missing.

    Raises
    ------
    InputError
        If the attribute is unknown.
    TrialsError
        If a candidate is scored twice or is not in the data set, or the scores are of another data set.
    """
    dataset.require_attributes([attribute])
    items = dataset.candidates[[*ITEM, "system"]]
    items = items.assign(human=dataset.human_means[attribute].to_numpy(float))
    for number, scores in enumerate(parts, start=1):
        strangers = set(scores["dataset"]) - {dataset.name}
        if strangers:
            raise TrialsError("scores of the data set", sorted(strangers), dataset.name)
        _once_each(scores)
        known = pd.MultiIndex.from_frame(items[list(ITEM)])
        unknown = ~pd.MultiIndex.from_frame(scores[list(ITEM)]).isin(known)
        if unknown.any():
            raise TrialsError("scores", scores.loc[unknown, list(ITEM)].iloc[0].tolist(), "candidates of the data set")
        column = "score" if number == 1 else f"score_{number}"
        items = items.merge(scores[[*ITEM, "score"]].rename(columns={"score": column}), on=list(ITEM), how="left")
    return items


def _once_each(scores: pd.DataFrame) -> None:
    """Raise `TrialsError` if a candidate is scored twice."""
    twice = scores.duplicated(list(ITEM))
    if twice.any():
        which = scores.loc[twice, list(ITEM)].iloc[0].tolist()
        raise TrialsError("scores", f"{which} twice", "one score per candidate", "select one condition first")


def _own_human(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of one attribute with the human scores in the frame's own column."""
    require_columns(scores, ["human"], "scores")
    _once_each(scores)
    system = scores["system"].fillna("") if "system" in scores else ""
    return scores.assign(system=system)[[*ITEM, "system", "human", "score"]]


def _rows(
    metric: str,
    frame: pd.DataFrame,
    what: str,
    where: Mapping[str, Any],
    estimate: _Estimator,
    options: tuple[Sequence[Level], Sequence[Method]],
    resampling: Resampling,
) -> list[dict[str, Any]]:
    """Estimate at every level with every coefficient."""
    values = [column for column in frame.columns if column == "human" or column.startswith("score")]
    whole = frame[frame[values].notna().all(axis=1)]
    rated = frame["human"].notna()
    missing = int(rated.sum()) - len(whole)
    warn_missing(what, missing, int(rated.sum()), "a candidate has no score")
    rows: list[dict[str, Any]] = []
    named = bool((frame["system"].str.strip() != "").all())
    for level, coefficient in product([level for level in options[0] if named or level != "system"], options[1]):
        estimated = estimate(whole, level, coefficient)
        cell = {**where, "level": level, "coefficient": coefficient}
        rows += estimate_rows({metric: estimated}, cell, resampling, len(whole), len(frame) - len(whole))
    return rows


def _require_options(levels: Sequence[str], coefficients: Sequence[str]) -> None:
    require_some_of("levels", levels, get_args(Level))
    require_some_of("coefficients", coefficients, get_args(Method))


def _only(scores: pd.DataFrame, name: str) -> dict[str, str]:
    """Return scorer, judge and data set of a frame with the scores of one scorer."""
    require_columns(scores, SCORES[1:], name)
    whose = scores.reindex(columns=["scorer", "judge", "dataset"], fill_value="").drop_duplicates()
    if len(whose) != 1:
        raise TrialsError(name, f"scores of {len(whose)} scorers", "the scores of one", "select one first")
    return {str(key): str(value) for key, value in whose.iloc[0].items()}
