"""Estimate the loss from using fewer comparisons or candidates (Liusie et al. 2024, §5.5, 5.6, Fig. 4, Table 8)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.core.checks import require_count
from biaslab.core.errors import InputError, TrialsError
from biaslab.measures.ranking.comparisons import Comparisons, cells, places_within, read_trials, tally
from biaslab.measures.ranking.debiasing import Debiasing, debias
from biaslab.measures.ranking.decoding import Decoding, decode, human_of
from biaslab.measures.ranking.selection import STRATEGIES, SelectionStrategy, select, select_adaptively
from biaslab.stats.blocks import clustered
from biaslab.stats.correlation import correlate_within
from biaslab.stats.estimate import Note, because
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

_NO_CONTEXT = because("few_candidates", "no context has {candidates} candidates that differ")


def agreement_by_budget(
    trials: pd.DataFrame,
    budgets: Sequence[int],
    human: pd.DataFrame | None = None,
    strategies: Sequence[SelectionStrategy] = ("random", "no-repeat", "symmetric", "adaptive"),
    debiasings: Sequence[Debiasing] = ("none",),
    decoding: Decoding = "bradley-terry-position",
    draws: int = 50,
    resampling: Resampling | None = None,
    folds: int = 10,
    seed: int = 0,
    in_sample: bool = False,
) -> pd.DataFrame:
    """Estimate agreement with humans by number of comparisons and selection strategy, from trials of all pairs.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials with all pairs in both orders, from which each strategy is replayed.
    budgets : sequence of int
        Numbers of comparisons per context, R. A strategy with fewer uses all it has, and is not repeated for larger
        budgets.
    human : pandas.DataFrame, optional
        As in `biaslab.ranking.compare_remedies`.
    strategies, debiasings : sequence of str
        As in `biaslab.ranking.select` and `biaslab.ranking.debias`. Remedies are fitted on the same number of
        comparisons of other contexts.
    decoding : str
        As in `biaslab.ranking.decode`. *adaptive* needs the position term, and is incompatible with the win ratio.
    draws : int
        Number of draws per strategy; agreement is averaged over them within each context.
    resampling : Resampling, optional
        Settings of intervals over contexts.
    folds : int
        As in `biaslab.ranking.debias`.
    seed : int
        Random seed of the draws.
    in_sample : bool
        Fit remedies on the comparisons they are applied to, as in `biaslab.ranking.debias`, and in the paper's Figs. 4
        and 5.

    Returns
    -------
    pandas.DataFrame
        The estimates frame with the metrics ``spearman`` (null 0) and ``tokens_per_item`` by ``strategy``,
        ``debiasing`` and ``budget``. If a context's scores do not vary in a draw, it counts as 0, because the draw
        ranks nothing.
    """
    require_count("seed", seed, 0)
    resampling = resampling or Resampling()
    _check(budgets, strategies, draws)
    rows: list[dict[str, Any]] = []
    for where, cell in cells(trials):
        read = read_trials(cell)
        scores, every = human_of(cell, read, human, where["attribute"]), read.comparisons
        how = clustered(resampling, cell, pd.unique(every.context_id), "agreement by budget")
        tokens = tally(read.row[read.row >= 0], cell["tokens"].to_numpy(float)[read.row >= 0], len(every))
        parts = [np.flatnonzero(every.context[every.first] == k) for k in range(every.n_contexts)]
        for strategy in strategies:
            most = int(min(max(budgets), _available(every, strategy)))
            drawn = [_replay(every, parts, strategy, most, (seed, draw)) for draw in range(draws)]
            for budget in sorted({min(budget, most) for budget in budgets}):
                end = budget - budget % 2 if strategy == "symmetric" else budget
                chosen = [np.concatenate([asked[:end] for asked in draw]) for draw in drawn]
                price = _price(every, chosen, tokens)
                for debiasing in debiasings:
                    taken = (debias(every.take(c), debiasing, folds, in_sample) for c in chosen)
                    rho = [_agreement(debiased, scores, decoding) for debiased in taken]
                    mean = _mean(np.array(rho), scores, every)
                    estimates = {"spearman": mean.estimate(how)}
                    estimates["tokens_per_item"] = price.estimate(how)
                    at = where | {"strategy": strategy, "debiasing": debiasing, "budget": budget}
                    rows += estimate_rows(estimates, at, resampling, len(chosen[0]), 0)
    conditions = ["attribute", *(["template"] if "template" in trials else []), "strategy", "debiasing", "budget"]
    return estimates_frame(rows, "comparative", ["spearman"], conditions)


def self_consistency(
    trials: pd.DataFrame,
    sizes: Sequence[int],
    human: pd.DataFrame | None = None,
    decoding: Decoding = "win-ratio",
    draws: int = 20,
    resampling: Resampling | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Measure how well rankings of a few candidates agree with the full ranking and with humans (Table 8).

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials with all pairs in both orders.
    sizes : sequence of int
        Numbers of candidates K drawn from each context, at least 2; smaller contexts are ignored.
    human, decoding, resampling
        As in `agreement_by_budget`.
    draws : int
        Number of draws of candidates.
    seed : int
        Random seed of the draws.

    Returns
    -------
    pandas.DataFrame
        The estimates frame with the metrics ``final_accuracy`` and ``gold_accuracy`` by ``candidates``: the share of
        pairs, without ties, that are in the same order when only K candidates are compared as in the full ranking, and
        as in the human ranking; and ``predicted_tie_rate``, the share of all pairs with equal scores when only K
        candidates are compared, which is frequent for win ratios of few candidates. The paper does not say how it
        counts ties.
    """
    require_count("seed", seed, 0)
    resampling = resampling or Resampling()
    if not sizes or min(sizes) < 2 or draws < 1:
        raise InputError("sizes and draws", (sizes, draws), "sizes of at least 2, and at least one draw")
    rows: list[dict[str, Any]] = []
    for where, cell in cells(trials):
        read = read_trials(cell)
        every, gold = read.comparisons, human_of(cell, read, human, where["attribute"])
        final = decode(every, decoding).scores
        how = clustered(resampling, cell, pd.unique(every.context_id), "self-consistency")
        for size in sizes:
            rng = np.random.default_rng([seed, size])
            drawn = [_some(every, size, rng) for _ in range(draws)]
            sums = np.sum([_kept_orders(every, some, decoding, (final, gold)) for some in drawn], axis=0)
            names = ("final_accuracy", "gold_accuracy", "predicted_tie_rate")
            context, missing = np.arange(every.n_contexts), _NO_CONTEXT.with_values(candidates=int(size))
            ratios = [Ratio(context, kept, counted, None, (0.0, 1.0), missing) for kept, counted in sums]
            estimates = {name: ratio.estimate(how) for name, ratio in zip(names, ratios, strict=True)}
            at = where | {"candidates": size}
            rows += estimate_rows(estimates, at, resampling, len(every), int((read.row < 0).sum()))
    conditions = ["attribute", *(["template"] if "template" in trials else []), "candidates"]
    return estimates_frame(rows, "comparative", [], conditions)


def _check(budgets: Sequence[int], strategies: Sequence[str], draws: int) -> None:
    if not budgets or min(budgets) < 2:
        raise InputError("budgets", budgets, "numbers of comparisons per context, at least 2")
    if isinstance(strategies, str) or set(strategies) - set(STRATEGIES):
        raise InputError("strategies", strategies, f"a list of some of {', '.join(STRATEGIES)}")
    if draws < 1:
        raise InputError("draws", draws, "at least one")


def _available(every: Comparisons, strategy: SelectionStrategy) -> int:
    """Return the number of comparisons a strategy can ask in the largest context."""
    largest = int(np.bincount(every.context).max())
    return largest * (largest - 1) // (2 if strategy == "no-repeat" else 1)


def _replay(
    every: Comparisons, parts: Sequence[Codes], strategy: SelectionStrategy, budget: int, seed: tuple[int, int]
) -> list[Codes]:
    """Return the comparisons that a strategy asks in each context, in order."""
    chosen = []
    borders = np.searchsorted(every.context, np.arange(every.n_contexts + 1))
    for k, rows in enumerate(parts):
        size = int(borders[k + 1] - borders[k])
        if size < 2:
            raise TrialsError.plain(f"trials has only one candidate in context {every.context_id[borders[k]]}")
        place = np.full((size, size), -1)
        place[every.first[rows] - borders[k], every.second[rows] - borders[k]] = rows
        own = int(np.random.default_rng([*seed, k]).integers(2**31))
        if strategy == "adaptive":
            selected = select_adaptively(size, budget, partial(_answers, np.append(every.p, np.nan), place), seed=own)
            pairs = np.column_stack([selected.first, selected.second])
        else:
            pairs = select(size, strategy, None, own)[:budget]
        at = place[pairs[:, 0], pairs[:, 1]]
        chosen.append(at[at >= 0])
    return chosen


def _answers(p: Floats, place: Codes, pairs: Codes) -> Floats:
    """Look up answers; refused pairs have index −1, which holds NaN."""
    return p[place[pairs[:, 0], pairs[:, 1]]]


def _agreement(comparisons: Comparisons, human: Floats, decoding: Decoding) -> Floats:
    return correlate_within(decode(comparisons, decoding).scores, human, comparisons.context, "spearman")


def _mean(rho: Floats, human: Floats, every: Comparisons) -> Ratio:
    """Average over draws within contexts; agreement is undefined if human scores do not differ."""
    varies = pd.Series(human).groupby(every.context).nunique().to_numpy() > 1
    mean = np.where(varies, np.nan_to_num(rho).mean(axis=0), 0.0)
    missing = Note("human_scores_do_not_vary", words="the human scores vary in no context")
    return Ratio(np.arange(len(mean)), mean, varies, 0.0, (-1.0, 1.0), missing, "t")


def _price(every: Comparisons, chosen: Sequence[Codes], tokens: Floats) -> Ratio:
    context = every.context
    spent = [tally(context[every.first[rows]], tokens[rows], every.n_contexts) for rows in chosen]
    return Ratio(np.arange(every.n_contexts), np.mean(spent, axis=0), np.bincount(context))


def _some(every: Comparisons, size: int, rng: np.random.Generator) -> Bools:
    """Draw a number of candidates from each context; skip smaller contexts."""
    order = np.lexsort((rng.random(every.n_candidates), every.context))
    counts = np.bincount(every.context)
    kept = np.zeros(every.n_candidates, bool)
    kept[order] = (places_within(counts) < size) & (counts >= size)[every.context]
    return kept


def _kept_orders(every: Comparisons, kept: Bools, decoding: Decoding, references: tuple[Floats, Floats]) -> Floats:
    """Count, by context, concordant pairs per reference and all pairs; shape (references + 1, 2, contexts).

    The last entries are the pairs with equal scores, and all pairs.
    """
    subset = every.take(kept[every.first] & kept[every.second])
    scores = decode(subset, decoding).scores
    # every unordered pair of candidates with a comparison, once
    one, two = np.divmod(np.unique(subset.pair), len(kept))
    sign = np.sign(np.round(scores[one] - scores[two], 12))
    home, counts = every.context[one], []
    for reference in references:
        wanted = np.sign(np.nan_to_num(np.round(reference[one] - reference[two], 12)))
        counted = (wanted != 0) & (sign != 0)
        sums = [tally(home, column, every.n_contexts) for column in (counted & (sign == wanted), counted)]
        counts.append(sums)
    counts.append([tally(home, column, every.n_contexts) for column in (sign == 0, np.ones(len(home)))])
    return np.array(counts)


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
    each = rho.groupby([*index, "strategy"], sort=False)
    named = ((dict(zip([*index, "strategy"], key, strict=True)), curve) for key, curve in each)
    rows = [where | {"budget": _reached(curve, share)} for where, curve in named]
    table = pd.DataFrame(rows, columns=[*index, "strategy", "budget"])
    wide = table.pivot_table("budget", index, "strategy")
    return wide.reindex(pd.MultiIndex.from_frame(table[index].drop_duplicates()), columns=table["strategy"].unique())


def _reached(curve: pd.DataFrame, share: float) -> float:
    """Return the budget at which a curve, made monotone, reaches a share of its last value."""
    curve = curve.sort_values("budget")
    goal = share * float(curve["estimate"].iloc[-1])
    return float(np.interp(goal, curve["estimate"].cummax(), curve["budget"])) if goal > 0 else np.nan
