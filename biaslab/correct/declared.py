"""How the numbers are read that `biaslab.correct.correcting.correct` estimates."""

from __future__ import annotations

from biaslab.core import Metric, declare_metrics

#: What stands in the column ``probe`` of its estimates.
NAME = "correct"
METRICS = (
    Metric("mean_score", "mean score", "points"),
    Metric(
        "win_rate",
        "win rate, a tie counting ½",
        "share",
        null=0.5,
        above="wins more often than it loses",
        below="loses more often than it wins",
        primary=True,
    ),
    Metric(
        "score_difference",
        "difference of mean scores",
        "points",
        null=0.0,
        above="scores more than the other",
        below="scores less than the other",
        primary=True,
    ),
    Metric("rank", "rank, 1 the best"),
    Metric("accuracy", "pairs decided as humans do", "share", null=0.5, quality=True),
    Metric("rank_agreement", "agreement with humans within contexts (Spearman's ρ)", null=0.0, quality=True),
)
declare_metrics(NAME, METRICS)
