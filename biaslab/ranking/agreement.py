"""Ranks from trials, their agreement with humans, and remedies side by side: measured, debiased, measured again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from biaslab.errors import InputError, TrialsError
from biaslab.ranking.comparisons import CELL, Comparisons, Floats, Read, cells, read_trials
from biaslab.ranking.debiasing import DEBIASINGS, Debiasing, debias
from biaslab.ranking.decoding import Decoding, decode, ranks
from biaslab.ranking.measures import MEASURES, Judged, estimate_measure, tokens_per_item
from biaslab.stats.correlation import Level, Method
from biaslab.stats.correlation_intervals import estimate_correlation
from biaslab.stats.estimate import Estimate, Resampling
from biaslab.stats.frame import Ratio, estimate_rows, estimates_frame, require_columns

Orders = Literal["both", "one"]
_HUMAN = ("human", "opponent_human")
_SYSTEM = ("system", "opponent_system")
_LEVELS: tuple[Level, ...] = get_args(Level)
_METHODS: tuple[Method, ...] = ("spearman", "kendall")


def rank(
    trials: pd.DataFrame,
    decoding: Decoding = "win-ratio",
    debiasing: Debiasing = "none",
    hard: bool = False,
    folds: int = 10,
) -> pd.DataFrame:
    """Rank the candidates of each context, for every judge, data set, attribute and template.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of any probe: `biaslab.probes.Position`, `biaslab.probes.Comparative`.
    decoding, hard
        As in `biaslab.ranking.decode`.
    debiasing, folds
        As in `biaslab.ranking.debias`: what is fitted is fitted on other contexts.

    Returns
    -------
    pandas.DataFrame
        ``judge, dataset, attribute, [template,] context_id, candidate_id, score, rank``, 1 the best; where the trials
        say them also ``system`` and ``human``, the mean human score. NaN for a candidate in no usable comparison.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(bl.probes.Position(["coherence"], [1]), bl.SimulatedJudge(data), data, progress=False)
    >>> rank(trials)[["candidate_id", "score", "rank"]].head(2).to_numpy().tolist()
    [['c1', 0.9, 1.5], ['c2', 0.2, 5.0]]
    """
    frames = []
    for where, cell in cells(trials):
        read = read_trials(cell)
        found = debias(read.comparisons, debiasing, folds)
        scores = decode(found, decoding, hard).scores
        names = {"context_id": found.context_id, "candidate_id": found.candidate_id}
        columns = where | names | {"score": scores, "rank": ranks(scores, found.context)}
        for name, both in (("system", _SYSTEM), ("human", _HUMAN)):
            if set(both) <= set(cell.columns):
                columns[name] = read.of_candidates(cell[both[0]], cell[both[1]])
        frames.append(pd.DataFrame(columns))
    if not frames:
        raise TrialsError("trials", "no row", "at least one comparison")
    return pd.concat(frames, ignore_index=True)


def agreement(
    ranked: pd.DataFrame, human: pd.DataFrame | None = None, resampling: Resampling | None = None
) -> pd.DataFrame:
    """Correlate scores with the humans', at the level of contexts, of the data set and of systems.

    Parameters
    ----------
    ranked : pandas.DataFrame
        Made by `rank`, or scores of any other origin with ``judge, dataset, attribute, context_id, candidate_id,
        score``.
    human : pandas.DataFrame, optional
        Mean human scores by (context_id, candidate_id), a column an attribute, as `biaslab.Dataset.human_means`; by
        default the column ``human`` of ``ranked``.
    resampling : Resampling, optional
        Of intervals and tests.

    Returns
    -------
    pandas.DataFrame
        The estimates frame with metrics ``spearman`` and ``kendall`` by ``level``. Systems need a column ``system``.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> trials = bl.collect(bl.probes.Position(["coherence"], [1]), bl.SimulatedJudge(data), data, progress=False)
    >>> found = agreement(rank(trials), data.human_means)
    >>> round(float(found.query("metric == 'spearman' and level == 'context'")["estimate"].item()), 3)
    1.0
    """
    resampling = resampling or Resampling()
    require_columns(ranked, (*CELL, "context_id", "candidate_id", "score"), "ranked")
    rows: list[dict[str, Any]] = []
    names = [*CELL, *(["template"] if "template" in ranked else [])]
    for values, cell in ranked.groupby(names, sort=False):
        where = dict(zip(names, values, strict=True))
        scored = cell if human is None else cell.assign(human=_human_of(cell, human, str(where["attribute"])))
        require_columns(scored, ["human"], "ranked")
        n = int(scored["score"].notna().sum())
        for level, method in product(_LEVELS, _METHODS):
            if level == "system" and "system" not in scored:
                continue
            found = estimate_correlation(scored, "score", "human", resampling, level, method, null=0.0)
            rows += estimate_rows({method: found}, where | {"level": level}, resampling, n, len(scored) - n)
    return estimates_frame(rows, "comparative", ["spearman"], (*names[2:], "level"))


def compare_remedies(
    trials: pd.DataFrame,
    human: pd.DataFrame | None = None,
    decoding: Decoding = "win-ratio",
    remedies: Sequence[Debiasing] = DEBIASINGS,
    orders: Sequence[Orders] = ("both", "one"),
    resampling: Resampling | None = None,
    folds: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """Measure, apply a remedy, measure again: every remedy on contexts that it was not fitted on, in one table.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials in both orders.
    human : pandas.DataFrame, optional
        As in `agreement`; by default the trials' columns ``human`` and ``opponent_human``.
    decoding : str
        As in `biaslab.ranking.decode`.
    remedies : sequence of str
        Some of `biaslab.ranking.DEBIASINGS`.
    orders : sequence of {"both", "one"}
        *both*: all trials. *one*: half the price, each pair in one order that is drawn; swap-averaging needs both.
    resampling : Resampling, optional
        Of intervals and tests.
    folds : int
        As in `biaslab.ranking.debias`.
    seed : int
        Of the drawn orders.

    Returns
    -------
    pandas.DataFrame
        The estimates frame with the metrics ``spearman``, ``comparative_accuracy``, ``first_position_rate``,
        ``order_consistency`` and ``tokens_per_item`` by ``remedy`` and ``orders``. Where ``against`` is "none" the row
        is the paired difference to doing nothing with the same orders, tested against 0.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> judge = bl.SimulatedJudge(data, position=2.0, noise=0.5)
    >>> trials = bl.collect(bl.probes.Position(["coherence"], [1]), judge, data, progress=False)
    >>> table = compare_remedies(trials, data.human_means, orders=["both"])
    >>> rates = table[(table["metric"] == "first_position_rate") & (table["against"] == "")]
    >>> dict(zip(rates["remedy"], rates["estimate"].round(2)))["none"] > 0.8
    True
    """
    resampling = resampling or Resampling()
    unknown = [*(set(remedies) - set(DEBIASINGS)), *(set(orders) - set(get_args(Orders)))]
    if unknown or isinstance(remedies, str) or isinstance(orders, str):
        raise InputError(
            "remedies and orders", unknown or (remedies, orders), f"lists of {DEBIASINGS}, of both and one"
        )
    rows: list[dict[str, Any]] = []
    for where, cell in cells(trials):
        require_columns(cell, ["tokens", *(_HUMAN if human is None else ())], "trials")
        for asked in orders:
            part = cell if asked == "both" else _one_order(cell, seed)
            read = read_trials(part)
            scores = human_of(part, read, human, where["attribute"])
            chosen = [name for name in remedies if asked == "both" or name != "swap-average"]
            price = tokens_per_item(part, read)
            made = {name: _measured(read.comparisons, scores, name, decoding, folds, price) for name in chosen}
            counts = len(read.comparisons), int((read.row < 0).sum())
            for name, against, found in _side_by_side(made, resampling):
                at = where | {"remedy": name, "orders": asked, "against": against}
                rows += estimate_rows(found, at, resampling, *counts)
    conditions = ["attribute", *(["template"] if "template" in trials else []), "remedy", "orders", "against"]
    return estimates_frame(rows, "comparative", ["spearman"], conditions)


def _measured(
    comparisons: Comparisons, human: Floats, remedy: Debiasing, decoding: Decoding, folds: int, price: Ratio
) -> dict[str, Ratio]:
    debiased = debias(comparisons, remedy, folds)
    judged = Judged(debiased, decode(debiased, decoding).scores, human)
    return {measure: judged.ratio(measure) for measure in MEASURES} | {"tokens_per_item": price}


def _side_by_side(
    made: Mapping[Debiasing, Mapping[str, Ratio]], resampling: Resampling
) -> Iterator[tuple[str, str, dict[str, Estimate]]]:
    """Yield each remedy's measures, and how they differ from those without a remedy."""
    for name, ratios in made.items():
        yield name, "", {measure: estimate_measure(measure, ratio, resampling) for measure, ratio in ratios.items()}
        if name == "none" or "none" not in made:
            continue
        # rank correlations of few candidates, and decisions, are often exactly alike before and after: hence t
        yield (
            name,
            "none",
            {
                measure: replace(ratio, inference="t").difference(made["none"][measure], resampling)
                for measure, ratio in ratios.items()
                if measure != "tokens_per_item"
            },
        )


def _one_order(trials: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Draw one order of each pair; where only one was asked, that one."""
    one, two = (trials[name].astype(str).tolist() for name in ("candidate_id", "opponent_id"))
    forward = np.array([low < high for low, high in zip(one, two, strict=True)], bool)
    pairs = {"context": trials["context_id"], "low": np.where(forward, one, two), "high": np.where(forward, two, one)}
    pair = pd.DataFrame(pairs).groupby(list(pairs), sort=False).ngroup().to_numpy()
    wanted = np.random.default_rng(seed).random(int(pair.max(initial=-1)) + 1) < 0.5
    there = np.zeros((2, len(wanted)), bool)
    there[forward.astype(int), pair] = True
    single = ~(there[0] & there[1])
    chosen: pd.DataFrame = trials[(forward == wanted[pair]) | single[pair]]
    return chosen


def human_of(trials: pd.DataFrame, read: Read, human: pd.DataFrame | None, attribute: str) -> Floats:
    """Return the mean human score of each candidate, from a frame such as `Dataset.human_means` or from the trials."""
    if human is None:
        return read.of_candidates(trials["human"], trials["opponent_human"]).astype(float)
    found = read.comparisons
    names = pd.DataFrame({"context_id": found.context_id, "candidate_id": found.candidate_id})
    return _human_of(names, human, attribute)


def _human_of(names: pd.DataFrame, human: pd.DataFrame, attribute: str) -> Floats:
    if attribute not in human:
        raise InputError("human", list(human.columns), f"a frame with a column {attribute}")
    index = pd.MultiIndex.from_frame(names[["context_id", "candidate_id"]])
    return human[attribute].reindex(index).to_numpy(float)
