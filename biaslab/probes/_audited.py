"""How the metrics are read that no probe estimates, but audits (`biaslab.audit`) and `biaslab.correct`."""

from __future__ import annotations

from biaslab.core import Comparison, Metric

#: By the name under which they stand in the column ``probe``.
AUDITED: dict[str, tuple[Metric, ...]] = {
    "correct": (
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
    ),
    "halo": (
        Metric(
            "halo_excess",
            "correlation of two scores, judge minus humans",
            "r",
            null=0.0,
            above="lets one attribute's score drag the other more than humans do",
            below="tells attributes apart more than humans do",
            advice="ask for one attribute at a time",
            matters=0.1,
            primary=True,
            comparison=Comparison("scores of two attributes"),
        ),
    ),
    "human_agreement": (
        Metric("human_agreement", "agreement with humans within contexts (Spearman's ρ)", null=0.0, quality=True),
    ),
    "pair_length": (
        Metric(
            "longer_wins_at_equal_gold",
            "P(the longer wins) at equal gold label",
            "share",
            null=0.5,
            above="prefers the longer text where the gold label does not",
            below="prefers the shorter text where the gold label does not",
            advice="compare texts of similar length, or adjust for it",
            matters=0.05,
            primary=True,
            comparison=Comparison("verdicts on pairs with gold labels"),
        ),
        Metric("longer_wins", "P(the longer wins)", "share"),
    ),
    "replies": (
        Metric("win_rate", "win rate, a tie counting ½", "share"),
        Metric("readable_rate", "replies that give a verdict", "share"),
        Metric("first_label_rate", "P(first label), whoever has it", "share"),
    ),
}
