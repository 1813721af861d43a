"""Agreement of scores with humans, per item and per system, and with scores of another attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_some_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.scorers import SCORES
from biaslab.stats.blocks import ITEM
from biaslab.stats.correlation import CorrelationMethod, Level, agreement_loss, estimate_correlation
from biaslab.stats.estimate import Estimate, Note, Remark, because, undefined
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns, warn_missing
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, cluster_statistic

_CONDITIONS = ("scorer", "other", "attribute", "template", "level", "coefficient")
_Estimator = Callable[[pd.DataFrame, Level, CorrelationMethod], Estimate]


#: Reason why a mean after a low or high first score is undefined.
NO_FIRST_SCORE = because("no_first_score", "no first score is {side}")


def agreement(
    scores: pd.DataFrame,
    dataset: Dataset | Mapping[str, Dataset] | None = None,
    levels: Sequence[Level] = get_args(Level),
    coefficients: Sequence[CorrelationMethod] = get_args(CorrelationMethod),
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

    def estimate(items: pd.DataFrame, level: Level, coefficient: CorrelationMethod) -> Estimate:
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
    coefficients: Sequence[CorrelationMethod] = get_args(CorrelationMethod),
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
        chosen = (levels, coefficients, resampling)
        return _with_each(dataset, lambda one: agreement_difference(first, second, one, *chosen))
    how = resampling or Resampling()
    _require_options(levels, coefficients)
    whose = [_only(frame, name) for name, frame in (("first", first), ("second", second))]
    where = {**whose[0], "other": whose[1]["scorer"]}
    if whose[0]["judge"] != whose[1]["judge"]:
        where["judge"] = f"{whose[0]['judge']} | {whose[1]['judge']}"
    shared = [name for name in first["attribute"].drop_duplicates() if (second["attribute"] == name).any()]
    if not shared:
        raise InputError("second", sorted(set(second["attribute"])), "scores of an attribute of the first")

    def estimate(items: pd.DataFrame, level: Level, coefficient: CorrelationMethod) -> Estimate:
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
        raise InputError.plain("dataset is missing, expected: at least one data set")
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
            raise TrialsError.plain(f"scores are of {', '.join(sorted(strangers))}, not of {dataset.name}")
        _once_each(scores)
        known = pd.MultiIndex.from_frame(items[list(ITEM)])
        unknown = ~pd.MultiIndex.from_frame(scores[list(ITEM)]).isin(known)
        if unknown.any():
            row = scores.loc[unknown, list(ITEM)].iloc[0].tolist()
            raise TrialsError.plain(f"scores contain {row}, which is not in the data set")
        column = "score" if number == 1 else f"score_{number}"
        items = items.merge(scores[[*ITEM, "score"]].rename(columns={"score": column}), on=list(ITEM), how="left")
    return items


def _once_each(scores: pd.DataFrame) -> None:
    """Raise `TrialsError` if a candidate is scored twice."""
    twice = scores.duplicated(list(ITEM))
    if twice.any():
        which = scores.loc[twice, list(ITEM)].iloc[0].tolist()
        raise TrialsError.plain(f"scores contain {which} twice; select one condition first")


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
    options: tuple[Sequence[Level], Sequence[CorrelationMethod]],
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
    require_some_of("coefficients", coefficients, get_args(CorrelationMethod))


def _only(scores: pd.DataFrame, name: str) -> dict[str, str]:
    """Return scorer, judge and data set of a frame with the scores of one scorer."""
    require_columns(scores, SCORES[1:], name)
    whose = scores.reindex(columns=["scorer", "judge", "dataset"], fill_value="").drop_duplicates()
    if len(whose) != 1:
        raise TrialsError.plain(f"{name} has scores of {len(whose)} scorers; select one first")
    return {str(key): str(value) for key, value in whose.iloc[0].items()}


_DIGITS = 12  # means are compared after rounding to this many decimals
_NOTE = "not a smooth statistic: no test, and the coverage of the interval is not established"


def system_accuracy(scores: pd.DataFrame, dataset: Dataset, resampling: Resampling | None = None) -> pd.DataFrame:
    """Estimate the share of pairs of systems whose mean scores differ in the direction of their mean human scores.

    Parameters
    ----------
    scores : pandas.DataFrame
        A scores frame (`biaslab.scoring.scores`).
    dataset : Dataset
        The data set that was scored, with named systems.
    resampling : Resampling, optional
        Settings of the intervals: percentile intervals over contexts, for these systems.

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
    require_columns(scores, SCORES, "scores")
    if (dataset.candidates["system"].str.strip() == "").any():
        raise TrialsError.plain("dataset has a candidate without a system")
    rows: list[dict[str, Any]] = []
    names = list(SCORES[:4])
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
        return undefined(Note("few_systems", words="fewer than two systems"), len(set(contexts)))
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
    return estimate.noted(_NOTE)


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
            missing = NO_FIRST_SCORE.with_values(side=side)
            mean, shares = later_scores(known["context_id"], chances * inside[:, None], levels, missing)
            rows += estimate_rows({f"mean_after_{side}": mean.estimate(resampling)}, where, resampling, *counts)
            for score, share in zip(levels.tolist(), shares, strict=True):
                estimates = {f"share_after_{side}": share.estimate(resampling)}
                rows += estimate_rows(estimates, where | {"score": score}, resampling, *counts)
    return estimates_frame(rows, "anchoring", (), ("attribute", "after", "position", "score"))


def later_scores(context: pd.Series, chances: Floats, levels: Floats, missing: Remark) -> Parts:
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
