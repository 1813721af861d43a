"""Comparative assessment (Liusie et al. 2024): select pairs, turn answers into rankings, and debias them.

All functions work on `Comparisons`, which `comparisons_of` extracts from pair trials.

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=6)
>>> judge = bl.SimulatedJudge(data, position=2.0, noise=0.5)
>>> trials = bl.collect(bl.probes.Position(["coherence"], [1]), judge, data, progress=False)
>>> ranked = rank(trials, debiasing="threshold")
>>> ranked.columns.tolist()
['judge', 'dataset', 'attribute', 'template', 'context_id', 'candidate_id', 'score', 'rank']
"""

from biaslab.measures.ranking.bradley_terry import Strengths, fit_bradley_terry, fit_log_odds, maximum_likelihood
from biaslab.measures.ranking.comparisons import Comparisons, comparisons_of
from biaslab.measures.ranking.debiasing import (
    DEBIASINGS,
    Reweighting,
    SwapAverage,
    content_free,
    dark_log_odds,
    debias,
    fit_position_term,
    fit_remedy,
    fit_threshold,
    fit_uniform_prior,
)
from biaslab.measures.ranking.decoding import (
    DECODINGS,
    CandidateScores,
    Conditionals,
    MostLikelyRanking,
    decode,
    fit_conditionals,
    most_likely_ranking,
    rank,
    rank_intervals,
    ranks,
)
from biaslab.measures.ranking.lists import (
    PlackettLuce,
    balanced_orders,
    fit_plackett_luce,
    judge_ranker,
    sliding_windows,
    window_effect,
)
from biaslab.measures.ranking.remedies import compare_remedies
from biaslab.measures.ranking.selection import STRATEGIES, most_informative, select, select_adaptively
from biaslab.measures.ranking.subsets import agreement_by_budget, budget_needed, self_consistency
from biaslab.measures.scoring.agreement import agreement

__all__ = [
    "DEBIASINGS",
    "DECODINGS",
    "STRATEGIES",
    "CandidateScores",
    "Comparisons",
    "Conditionals",
    "MostLikelyRanking",
    "PlackettLuce",
    "Reweighting",
    "Strengths",
    "SwapAverage",
    "agreement",
    "agreement_by_budget",
    "balanced_orders",
    "budget_needed",
    "compare_remedies",
    "comparisons_of",
    "content_free",
    "dark_log_odds",
    "debias",
    "decode",
    "fit_bradley_terry",
    "fit_conditionals",
    "fit_log_odds",
    "fit_plackett_luce",
    "fit_position_term",
    "fit_remedy",
    "fit_threshold",
    "fit_uniform_prior",
    "judge_ranker",
    "maximum_likelihood",
    "most_informative",
    "most_likely_ranking",
    "rank",
    "rank_intervals",
    "ranks",
    "select",
    "select_adaptively",
    "self_consistency",
    "sliding_windows",
    "window_effect",
]
