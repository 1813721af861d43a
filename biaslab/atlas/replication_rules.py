"""How printed numbers and ours are computed, and which of them are comparable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Outcomes of a replication.
EQUAL, DIFFERENT, INCOMPARABLE = "equal", "different", "not comparable"


class Computed(NamedTuple):
    """How a number is computed in the paper, and here."""

    theirs: str
    ours: str


class Rule(NamedTuple):
    """Why a printed number differs from ours, by paper, metric and optionally data set, template or judge."""

    paper: str
    metric: str
    why: str
    where: tuple[str, ...] = ()
    outcome: str = INCOMPARABLE
    always: bool = False  # even if both agree in all printed digits, by coincidence

    def applies(self, row: Mapping[Any, Any]) -> bool:
        """Return whether the rule applies to a row."""
        named = {row["dataset"], row["template"], row["judge"]} >= set(self.where)
        return named and (self.paper, self.metric) == (row["paper"], row["metric"])


#: By paper and metric.
COMPUTED = {
    ("stureborg2024", "human_alpha"): Computed(
        "Krippendorff's α (interval) of three experts over all 16 systems",
        "Krippendorff's α (interval) of three experts over the 12 systems whose single ratings are published",
    ),
    ("zeng2024", "comparative_accuracy"): Computed(
        "right verdicts / all verdicts, where unread ones count as wrong", "right verdicts / verdicts that were read"
    ),
    ("zeng2024", "accuracy_both_orders"): Computed(
        "pairs judged right in both orders / all pairs", "pairs judged right in both orders / pairs read in both orders"
    ),
    ("zeng2024", "order_consistency"): Computed(
        "pairs with the same verdict in both orders / all pairs, where unread is a verdict too",
        "pairs with the same winner in both orders / pairs read in both orders",
    ),
    ("shi2024", "order_consistency"): Computed(
        "judgements whose twin has the same winner / judgements that were read there",
        "pairs with the same winner in both orders / pairs read in both orders",
    ),
    ("panickssery2024", "own_win_rate"): Computed(
        "mean probability of the text that is named the judge's own", "mean probability of the judge's own text"
    ),
    ("wang2024", "comparative_accuracy"): Computed(
        "verdicts that are people's majority / all 999 pairs, where unread verdicts are ties",
        "verdicts for the text that people prefer / verdicts that were read, on pairs where they prefer one",
    ),
    ("wang2024", "human_alpha"): Computed(
        "Cohen's κ of two annotators", "Krippendorff's α (nominal) of all three annotators"
    ),
    ("zheng2024", "win_rate"): Computed(*["mean probability that the system's answer wins, over the instructions"] * 2),
    ("dubois2024", "win_rate"): Computed(*["mean verdict for the system, a tie as ½, over the instructions"] * 2),
}

_UNREAD = "another denominator: verdicts that cannot be read count as wrong there, and not at all here"
#: The first rule that applies to a row is used.
RULES = (
    Rule(
        "stureborg2024",
        "human_alpha",
        "other data: theirs is of all 16 systems, ours of the 12 whose single ratings we have",
        always=True,
    ),
    Rule("zeng2024", "comparative_accuracy", _UNREAD),
    Rule("zeng2024", "accuracy_both_orders", _UNREAD),
    Rule(
        "zeng2024",
        "order_consistency",
        "another denominator: pairs with a verdict that cannot be read count there, and not here",
    ),
    Rule(
        "shi2024",
        "order_consistency",
        "the few replies that were not read there are read here",
        ("devbench",),
        DIFFERENT,
    ),
    Rule(
        "shi2024",
        "order_consistency",
        "another denominator: theirs is of all replies read there, ours of pairs read in both orders",
        ("mt_bench",),
        always=True,
    ),
    Rule(
        "panickssery2024",
        "own_win_rate",
        "another question: their field asks whose the text is",
        ("llama-2-7b-chat", "recorded"),
        always=True,
    ),
    Rule(
        "panickssery2024",
        "own_win_rate",
        "the paper does not state which text theirs is for",
        ("llama-2-7b-chat", "authors named wrongly"),
    ),
    Rule(
        "panickssery2024",
        "own_win_rate",
        "the other text: theirs is for the one that is named the judge's, 1 - ours",
        ("authors named wrongly",),
        always=True,
    ),
    Rule(
        "wang2024",
        "comparative_accuracy",
        "another denominator: theirs is of all pairs, what is unreadable taken for a tie; ours of verdicts where "
        "people prefer one text",
        always=True,
    ),
    Rule(
        "wang2024",
        "human_alpha",
        "another coefficient: theirs is Cohen's κ of two annotators, ours α of all three",
        always=True,
    ),
)  # fmt: skip


def outcome(row: Mapping[Any, Any]) -> tuple[str, str]:
    """Return whether a printed number is equal to ours, different, or not comparable; and why not equal.

    Parameters
    ----------
    row : mapping
        A row of `biaslab.atlas.replications`: ``paper, metric, judge, dataset, template, equal``.

    Examples
    --------
    >>> row = {"paper": "wang2024", "metric": "human_alpha", "judge": "humans", "dataset": "pandalm", "template": ""}
    >>> outcome(row | {"equal": True})[0]
    'not comparable'
    """
    rule = next((one for one in RULES if one.applies(row)), None)
    if row["equal"] and not (rule and rule.always):
        return EQUAL, ""
    return (DIFFERENT, "") if rule is None else (rule.outcome, rule.why)


def converted(row: Mapping[Any, Any]) -> float:
    """Return the printed number converted to our definition, if the counts allow it; else NaN."""
    if row["equal"]:
        return float("nan")
    if row["paper"] == "zeng2024" and row["metric"] == "comparative_accuracy":
        return float(row["theirs"] * (row["n_trials"] + row["n_dropped"]) / row["n_trials"])
    if row["paper"] == "panickssery2024" and row["template"] == "authors named wrongly":
        return float("nan") if row["judge"] == "llama-2-7b-chat" else 1 - float(row["theirs"])
    return float("nan")
