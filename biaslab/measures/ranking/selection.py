"""Select the pairs to compare, at random or adaptively (Liusie et al. 2024, §3.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.measures.ranking.adaptive import most_informative
from biaslab.measures.ranking.comparisons import Comparisons

Strategy = Literal["full", "random", "no-repeat", "symmetric", "adaptive"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
#: Returns the outcomes of ordered pairs, shape (pairs, 2): probabilities that the first wins, NaN if unavailable.
Ask = Callable[[Codes], Floats]


def select(candidates: int, strategy: Strategy, budget: int | None = None, seed: int = 0) -> Codes:
    """Select the comparisons of one context by a strategy that does not depend on answers.

    Parameters
    ----------
    candidates : int
        Number of candidates N, at least 2.
    strategy : {"full", "random", "no-repeat", "symmetric"}
        *full*: all N (N − 1) ordered pairs. *random*: a random sample of these. *no-repeat*: no pair in both orders,
        each in a random one. *symmetric*: random pairs, each in both orders.
    budget : int, optional
        Number of comparisons R; fewer if there are not as many, and one fewer if *symmetric* cannot spend the last
        one. None for all, the only value allowed for *full*.
    seed : int
        Random seed.

    Returns
    -------
    numpy.ndarray of int, shape (R, 2)
        Indices of the candidate to show first and the one to show second.

    Raises
    ------
    InputError
        If the strategy is unknown or *adaptive* (see `select_adaptively`), or a number is too small.

    Examples
    --------
    >>> select(4, "symmetric", budget=4, seed=1).tolist()
    [[0, 3], [3, 0], [1, 2], [2, 1]]
    """
    check_selection(candidates, strategy, budget, seed)
    if strategy == "adaptive":
        raise InputError("strategy", strategy, "full, random, no-repeat or symmetric", "see select_adaptively")
    rng, pairs = np.random.default_rng(seed), candidates * (candidates - 1) // 2
    if strategy == "random":
        drawn = _draw(rng, 2 * pairs, budget)
        chosen = _unordered(drawn // 2, candidates)
        return np.where((drawn % 2 == 1)[:, None], chosen[:, ::-1], chosen)
    if strategy == "no-repeat":
        chosen = _unordered(_draw(rng, pairs, budget), candidates)
        return np.where((rng.random(len(chosen)) < 0.5)[:, None], chosen[:, ::-1], chosen)
    drawn = np.arange(pairs) if strategy == "full" else _draw(rng, pairs, None if budget is None else budget // 2)
    chosen = _unordered(drawn, candidates)
    return np.stack([chosen, chosen[:, ::-1]], axis=1).reshape(-1, 2)


def select_adaptively(candidates: int, budget: int, ask: Ask, batch: int = 1, seed: int = 0) -> Comparisons:
    """Ask batch after batch of comparisons, each the most informative given the answers so far.

    What is shown first depends on the answers: decode with a position term ("bradley-terry-position").

    Parameters
    ----------
    candidates : int
        Number of candidates N, at least 2.
    budget : int
        Maximum number of comparisons R; there are N (N − 1) in total.
    ask : callable
        Maps ordered pairs, shape (pairs, 2), to the probabilities that the first wins; NaN without an answer.
    batch : int
        Number of comparisons per batch.
    seed : int
        Random seed for breaking ties.

    Returns
    -------
    Comparisons
        In the order in which they were asked, without unanswered ones.

    Examples
    --------
    >>> worth = np.array([0.0, 1.0, 2.0, 3.0])
    >>> comparisons = select_adaptively(4, 6, lambda pairs: worth[pairs[:, 0]] > worth[pairs[:, 1]], seed=1)
    >>> len(comparisons), comparisons.times.tolist()
    (6, [2, 4, 4, 2])
    """
    check_selection(candidates, "adaptive", budget, seed)
    require_whole("batch", batch, 1)
    rng = np.random.default_rng(seed)
    names = np.arange(candidates).astype(str).astype(object)
    asked, p = np.empty((0, 2), np.intp), np.empty(0)
    while len(asked) < budget:
        so_far = Comparisons(np.full(candidates, "", object), names, asked[:, 0], asked[:, 1], p)
        pairs = most_informative(so_far, min(batch, budget - len(asked)), rng)
        if not len(pairs):
            break
        answers = np.asarray(ask(pairs), float)
        if answers.shape != (len(pairs),):
            allowed = f"a function that returns a number for each of {len(pairs)} pairs"
            raise InputError("ask", ask, allowed, f"this one returns shape {answers.shape}")
        asked, p = np.concatenate([asked, pairs]), np.concatenate([p, answers])
    return Comparisons.of(list(names), asked[:, 0], asked[:, 1], p)


def check_selection(candidates: int, strategy: str, budget: int | None, seed: int) -> None:
    """Raise `InputError` unless the strategy can select a budget of comparisons among the candidates."""
    require_one_of("strategy", strategy, STRATEGIES)
    if candidates < 2:
        raise InputError("candidates", candidates, "at least 2")
    if strategy == "full" and budget is not None:
        raise InputError("budget", budget, "None if the strategy is full")
    least = 2 if strategy == "symmetric" else 1
    for name, value, smallest in (("budget", budget, least), ("seed", seed, 0)):
        if value is not None:
            require_whole(name, int(value) if isinstance(value, np.integer) else value, smallest)


def _draw(rng: np.random.Generator, total: int, wanted: int | None) -> Codes:
    return rng.choice(total, total if wanted is None else min(wanted, total), replace=False)


def _unordered(code: Codes, candidates: int) -> Codes:
    """Return the pairs i < j with these indices, counted from (0, 1), (0, 2), …; shape (pairs, 2)."""
    first = np.arange(candidates)
    starts = first * (2 * candidates - first - 1) // 2
    i = np.searchsorted(starts, code, side="right") - 1
    return np.stack([i, code - starts[i] + i + 1], axis=1)
