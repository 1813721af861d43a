"""Compare remedies: measure agreement, position bias, consistency and cost of comparisons before and after each one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_count, require_some_of
from biaslab.core.errors import InputError
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.comparisons import Comparisons, ComparisonTrials, cells, read_trials
from biaslab.measures.ranking.debiasing import DEBIASINGS, Debiasing, Remedy, debias
from biaslab.measures.ranking.decoding import Decoding, decode, human_of
from biaslab.stats.blocks import clustered
from biaslab.stats.correlation import correlate_within
from biaslab.stats.estimate import Estimate, Note
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

Orders = Literal["both", "one"]
#: Suffix of a remedy's name if it was fitted on the data it is applied to.
IN_SAMPLE = ", in sample"
_UNFITTED = ("none", "swap-average")


def compare_remedies(
    trials: pd.DataFrame,
    human: pd.DataFrame | None = None,
    decoding: Decoding = "win-ratio",
    remedies: Sequence[Debiasing] = DEBIASINGS,
    orders: Sequence[Orders] = ("both", "one"),
    resampling: Resampling | None = None,
    folds: int = 10,
    seed: int = 0,
    in_sample: bool = False,
    fitted: Mapping[str, Remedy] | None = None,
) -> pd.DataFrame:
    """Compare remedies for position bias, each applied to contexts on which it was not fitted.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials in both orders.
    human : pandas.DataFrame, optional
        Mean human scores by (context_id, candidate_id), one column per attribute, as `biaslab.Dataset.human_means`; by
        default the trials' columns ``human`` and ``opponent_human``.
    decoding : str
        As in `biaslab.ranking.decode`.
    remedies : sequence of str
        Names from `biaslab.ranking.DEBIASINGS`.
    orders : sequence of {"both", "one"}
        *both*: all trials. *one*: at half the cost, each pair in one randomly drawn order; swap-averaging needs both.
    resampling : Resampling, optional
        Settings of intervals and tests.
    folds : int
        As in `biaslab.ranking.debias`.
    seed : int
        Random seed of the drawn orders.
    in_sample : bool
        Also fit each remedy on the comparisons it is applied to, on all contexts together, as Liusie et al. do:
        remedies such as "threshold, in sample". Those results do not generalise to other contexts.
    fitted : mapping of str to Remedy, optional
        Remedies fitted on other comparisons, by name: ``{"content-free": content_free(nothing)}``. They are applied to
        all cells as they are.

    Returns
    -------
    pandas.DataFrame
        The estimates frame with the metrics ``spearman``, ``comparative_accuracy``, ``first_position_rate``,
        ``order_consistency`` and ``tokens_per_item`` by ``remedy`` and ``orders``. If ``against`` is "none", the row
        is the paired difference from no remedy with the same orders, tested against 0; if it is a remedy, the row is
        the difference between the in-sample and the cross-fitted version, which is the optimism of in-sample fitting.

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
    require_count("seed", seed, 0)
    resampling = resampling or Resampling()
    require_some_of("remedies", remedies, DEBIASINGS)
    require_some_of("orders", orders, get_args(Orders))
    rows: list[dict[str, Any]] = []
    for where, cell in cells(trials):
        require_columns(cell, ["tokens", *(("human", "opponent_human") if human is None else ())], "trials")
        for asked in orders:
            selected = cell if asked == "both" else _one_order(cell, seed)
            read = read_trials(selected)
            scores = human_of(selected, read, human, where["attribute"])
            chosen = [name for name in remedies if asked == "both" or name != "swap-average"]
            price = tokens_per_item(selected, read)
            applied = _applied(read.comparisons, chosen, fitted or {}, folds, in_sample)
            ratios = {name: _measured(debiased, scores, decoding, price) for name, debiased in applied}
            counts = len(read.comparisons), int((read.row < 0).sum())
            how = clustered(resampling, selected, pd.unique(read.comparisons.context_id), "remedies")
            for remedy, against, estimates in _side_by_side(ratios, how):
                at = where | {"remedy": remedy, "orders": asked, "against": against}
                rows += estimate_rows(estimates, at, resampling, *counts)
    conditions = ["attribute", *(["template"] if "template" in trials else []), "remedy", "orders", "against"]
    return estimates_frame(rows, "comparative", ["spearman"], conditions)


def _applied(
    comparisons: Comparisons, chosen: Sequence[Debiasing], fitted: Mapping[str, Remedy], folds: int, in_sample: bool
) -> Iterator[tuple[str, Comparisons]]:
    """Yield the comparisons after each remedy, with the remedy's name."""
    for name in chosen:
        yield name, debias(comparisons, name, folds)
        if in_sample and name not in _UNFITTED and len(comparisons):
            yield name + IN_SAMPLE, debias(comparisons, name, folds, in_sample=True)
    for called, remedy in fitted.items():
        yield called, debias(comparisons, remedy, folds)


def _measured(debiased: Comparisons, human: Floats, decoding: Decoding, price: Ratio) -> dict[str, Ratio]:
    judged = RemediedComparisons(debiased, decode(debiased, decoding).scores, human)
    return {measure: judged.ratio(measure) for measure in MEASURES} | {"tokens_per_item": price}


def _side_by_side(
    by_remedy: Mapping[str, Mapping[str, Ratio]], resampling: Resampling
) -> Iterator[tuple[str, str, dict[str, Estimate]]]:
    """Yield each remedy's measures, and their differences from no remedy and between in-sample and cross-fitted."""
    for name, ratios in by_remedy.items():
        yield name, "", {measure: ratio.estimate(resampling) for measure, ratio in ratios.items()}
        others = ("none", name.removesuffix(IN_SAMPLE))
        for other in (other for other in others if other != name and other in by_remedy):
            # rank correlations of few candidates, and decisions, are often equal before and after: hence t
            changed = {
                measure: replace(ratios[measure], inference="t").difference(by_remedy[other][measure], resampling)
                for measure in MEASURES
            }
            yield name, other, changed


def _one_order(trials: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Draw one order of each pair, or take the only one that was requested."""
    one, two = (trials[name].astype(str).to_numpy(object) for name in ("candidate_id", "opponent_id"))
    forward = (one < two).astype(bool)
    pairs = {"context": trials["context_id"], "low": np.where(forward, one, two), "high": np.where(forward, two, one)}
    pair = pd.DataFrame(pairs).groupby(list(pairs), sort=False).ngroup().to_numpy()
    wanted = np.random.default_rng(seed).random(int(pair.max(initial=-1)) + 1) < 0.5
    present = np.zeros((2, len(wanted)), bool)
    present[forward.astype(int), pair] = True
    single = ~(present[0] & present[1])
    chosen: pd.DataFrame = trials[(forward == wanted[pair]) | single[pair]]
    return chosen


MEASURES = ("spearman", "comparative_accuracy", "first_position_rate", "order_consistency")


@dataclass(frozen=True, eq=False)
class RemediedComparisons:
    """Comparisons after a remedy, the resulting scores, and the candidates' human scores.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of several contexts.
    scores, human : numpy.ndarray, shape (candidates,)
        The judge's and the mean human score; NaN if missing.
    """

    comparisons: Comparisons
    scores: Floats
    human: Floats

    def ratio(self, measure: str) -> Ratio:
        """Return a measure as a `Ratio` over comparisons or contexts.

        Parameters
        ----------
        measure : {"spearman", "comparative_accuracy", "first_position_rate", "order_consistency"}
            Spearman's ρ with human scores within contexts, averaged over the contexts in which both vary (null 0); or
            a metric of `biaslab.measures.ranking.pairs`, over all comparisons, or over those in both orders. The mean
            ρ uses Student's t for interval and test, because rank correlations of a few candidates take few values, for
            which bootstrap and sign-flip tests do not keep their levels.

        Raises
        ------
        InputError
            If the measure is unknown.
        """
        ratios = {
            "spearman": self._spearman,
            "comparative_accuracy": self._accuracy,
            "first_position_rate": lambda: pairs.first_position_rate(self._home, self._won),
            "order_consistency": self._consistency,
        }
        if measure not in ratios:
            raise InputError("measure", measure, f"one of {', '.join(ratios)}")
        return ratios[measure]()

    def estimate(self, measure: str, resampling: Resampling) -> Estimate:
        """Estimate a measure over contexts."""
        ratio, names = self.ratio(measure), pd.unique(self.comparisons.context_id)
        return replace(ratio, context=names[np.asarray(ratio.context)]).estimate(resampling)

    @cached_property
    def _home(self) -> Codes:
        return self.comparisons.context[self.comparisons.first]

    @cached_property
    def _won(self) -> Floats:
        """Winner of each comparison: 1 = first, 0 = second, NaN = tie."""
        return np.where(self.comparisons.p == 0.5, np.nan, self.comparisons.won)

    def _spearman(self) -> Ratio:
        rho = correlate_within(self.scores, self.human, self.comparisons.context, "spearman")
        defined = ~np.isnan(rho)
        missing = Note("scores_do_not_vary", words="in no context do both scores vary")
        values, bounds = np.where(defined, rho, 0.0), (-1.0, 1.0)
        return Ratio(np.arange(len(rho)), values, defined, 0.0, bounds, missing, "t")

    def _accuracy(self) -> Ratio:
        gap = self.human[self.comparisons.first] - self.human[self.comparisons.second]
        return pairs.comparative_accuracy(self._home, self._won, gap)

    def _consistency(self) -> Ratio:
        both = self.comparisons.twins >= 0
        won = self._won
        return pairs.order_consistency(self._home[both], won[both], won[self.comparisons.twins[both]])


def tokens_per_item(trials: pd.DataFrame, read: ComparisonTrials) -> Ratio:
    """Return the number of tokens spent per candidate."""
    context = read.comparisons.context
    asked = context[read.candidates[0]]
    tokens = np.concatenate([trials["tokens"].to_numpy(float), np.zeros(len(context))])
    items = np.concatenate([np.zeros(len(asked)), np.ones(len(context))])
    return Ratio(np.concatenate([asked, context]), tokens, items)
