"""Rank long lists with windows sliding from the end to the top (RankGPT, Sun et al. 2023), and measure its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from biaslab.core import About, Judge
from biaslab.core.arrays import Floats
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.schema import Dataset
from biaslab.prompts.protocols import Protocol, list_protocol
from biaslab.stats import Resampling, cluster_statistic

#: Ranks some candidates: returns their indices, best first.
Ranker = Callable[[list[Any]], Sequence[int]]


def sliding_windows(
    candidates: Sequence[Any], ranker: Ranker, window: int = 20, step: int = 10, rounds: int = 1
) -> list[int]:
    """Rank a list that is too long for one prompt.

    The last ``window`` candidates are ranked first; the window then moves up by ``step``, carrying its best candidates
    along, until it reaches the top.

    Parameters
    ----------
    candidates : sequence
        In the initial order, for example that of a first-stage retriever.
    ranker : callable
        Maps a list of candidates to their indices, best first. Omitting or inventing candidates is an error: decide
        how to treat such replies within the ranker.
    window, step : int
        Number of candidates in a window, at least 2, and the distance it moves, from 1 to one window.
    rounds : int
        How often the window slides from the end to the top.

    Returns
    -------
    list of int
        Indices of the candidates, best first.

    Raises
    ------
    InputError
        If a parameter is out of range, or the ranker does not return a permutation.

    References
    ----------
    Sun et al. 2023, *Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents*, EMNLP.

    Examples
    --------
    >>> by_size = lambda numbers: sorted(range(len(numbers)), key=lambda at: -numbers[at])
    >>> sliding_windows([3, 9, 1, 7, 5, 8], by_size, window=3, step=2)
    [1, 5, 0, 2, 3, 4]
    >>> sliding_windows([3, 9, 1, 7, 5, 8], by_size, window=3, step=2, rounds=3)
    [1, 5, 3, 4, 0, 2]
    """
    require_whole("window", window, 2)
    require_whole("step", step, 1)
    require_whole("rounds", rounds, 1)
    if step > window:
        raise InputError(
            "step", step, f"at most the window, {window}", "otherwise candidates between windows are never compared"
        )
    order = list(range(len(candidates)))
    for _ in range(rounds):
        for start, end in windows_of(len(order), window, step):
            shown = order[start:end]
            order[start:end] = [shown[at] for at in _permutation(ranker([candidates[at] for at in shown]), len(shown))]
    return order


def windows_of(n: int, window: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each window over n positions, from the end of the list to the top.

    Examples
    --------
    >>> list(windows_of(6, 3, 2)), list(windows_of(2, 3, 2))
    ([(3, 6), (1, 4), (0, 3)], [(0, 2)])
    """
    start = max(n - window, 0)
    yield start, n
    while start > 0:
        start = max(start - step, 0)
        yield start, min(start + window, n)


def _permutation(ranked: Any, n: int) -> list[int]:
    try:
        places = [int(at) for at in ranked]
    except (TypeError, ValueError):
        places = []
    if sorted(places) != list(range(n)):
        raise InputError(
            "ranker",
            f"a function that returned {ranked!r}",
            f"a function that returns each index from 0 to {n - 1} once",
        )
    return places


def judge_ranker(
    judge: Judge, dataset: Dataset, attribute: str, context_id: str, protocol: Protocol | None = None
) -> Ranker:
    """Return a ranker for `sliding_windows` that lets a judge rank the candidates of a context.

    Parameters
    ----------
    judge : Judge
        Answers `biaslab.core.Completion` requests; wrapped with a store, it is asked once per window.
    dataset : Dataset
        Source of the candidates' texts.
    attribute : str
        The attribute to rank by.
    context_id : str
        The context.
    protocol : Protocol, optional
        Protocol for rankings of lists; by default biaslab's own.

    Returns
    -------
    callable
        Maps candidate names to their indices, best first. A reply that is not a ranking raises `JudgeError` with its
        status.

    Raises
    ------
    InputError
        If the protocol does not ask for rankings.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=1)
    >>> names = data.candidates["candidate_id"].tolist()
    >>> ranker = judge_ranker(bl.SimulatedJudge(data, quality=9.0), data, "coherence", "news-1")
    >>> [names[at] for at in sliding_windows(names, ranker, window=4, step=2)][:2]
    ['c1', 'c5']
    """
    asking = list_protocol(ranks=True) if protocol is None else Protocol.of_form(protocol, "list")
    if not asking.places.ranks:
        raise InputError("protocol", asking.id, "one that asks for a ranking", 'such as replies="order"')

    def ranker(names: list[Any]) -> Sequence[int]:
        """Ask for a ranking of the named candidates, and return their indices, best first."""
        rows = [dataset.rows[context_id, name] for name in names]
        source, texts = bool(rows[0]["context"].strip()), tuple(row["text"] for row in rows)
        labels = asking.list_labels(len(names))
        about = About(context_id, tuple(names), texts, (attribute,), source, labels, protocol=asking)
        request = asking.request(asking.show(dataset, attribute, context_id, names), about)
        [(_, reply)] = judge.ask([request])
        ranks, status = asking.read_list(reply, len(names))
        if status != "ok":
            raise JudgeError(f"the ranking of a window of {context_id!r} is {status}", request)
        return [int(at) for at in np.argsort(ranks)]

    return ranker


def window_effect(orders: pd.DataFrame, resampling: Resampling | None = None) -> pd.DataFrame:
    """Estimate how the final rank depends on a candidate's initial position.

    Parameters
    ----------
    orders : pandas.DataFrame
        One row per candidate and list: ``context_id``; ``list``, which identifies the lists of a context (the same
        candidates in different initial orders); initial ``place`` and final ``rank``, both from 1; ``candidate_id``.
    resampling : Resampling, optional
        Settings of the estimates.

    Returns
    -------
    pandas.DataFrame
        By ``metric``: ``place_correlation``, the mean Spearman correlation of place and rank, both centred for each
        candidate over its lists, which removes its worth (null 0; above: candidates that start higher end higher); and
        ``rank_spread``, the mean standard deviation of a candidate's ranks over lists. With ``estimate``, ``ci_low``,
        ``ci_high``, ``p_value`` and ``n_contexts``; the sampling unit is the context.

    Raises
    ------
    InputError
        If a column is missing, or no candidate occurs in two lists.

    Examples
    --------
    >>> rows = [(c, turn, n, (n + turn) % 4 + 1) for c in "abcdefgh" for turn in range(4) for n in range(4)]
    >>> orders = pd.DataFrame(rows, columns=["context_id", "list", "candidate_id", "place"])
    >>> orders["rank"] = orders["place"]
    >>> window_effect(orders)[["metric", "estimate"]].round(2).to_dict("list")
    {'metric': ['place_correlation', 'rank_spread'], 'estimate': [1.0, 1.12]}
    """
    missing = [name for name in ("context_id", "list", "candidate_id", "place", "rank") if name not in orders]
    if missing:
        raise InputError("orders", missing, "a frame with context_id, list, candidate_id, place and rank")
    by = orders.groupby(["context_id", "candidate_id"])
    centred = orders.assign(**{name: orders[name] - by[name].transform("mean") for name in ("place", "rank")})
    if not centred["place"].any():
        raise InputError("orders", "one position per candidate", "candidates that start at several positions")
    codes, names = pd.factorize(centred["context_id"])
    rho, spread = np.empty(len(names)), np.empty(len(names))
    for code in range(len(names)):
        rows = centred[codes == code]
        rho[code] = _correlation(rows["place"].to_numpy(float), rows["rank"].to_numpy(float))
        spread[code] = float(np.sqrt((rows["rank"] ** 2).groupby(rows["candidate_id"]).mean()).mean())
    how = resampling or Resampling()
    effects = {
        "place_correlation": _mean(rho, how, 0.0, (-1.0, 1.0)),
        "rank_spread": _mean(spread, how, None, None),
    }
    columns = ("estimate", "ci_low", "ci_high", "p_value", "n_contexts")
    return pd.DataFrame(
        [{"metric": name} | {column: getattr(e, column) for column in columns} for name, e in effects.items()]
    )


def _correlation(place: Floats, rank: Floats) -> float:
    """Return Spearman's correlation; 0 if ranks do not vary, because position then has no effect."""
    return float(spearmanr(place, rank).statistic) if np.ptp(rank) > 0 and np.ptp(place) > 0 else 0.0


def _mean(values: Floats, how: Resampling, null: float | None, bounds: tuple[float, float] | None) -> Any:
    return cluster_statistic(
        lambda weights: weights @ values / weights.sum(axis=1), len(values), how, null, bounds, scale="plain"
    )
