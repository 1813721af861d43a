"""Recognise columns of scores named after attributes: common words, an enclosing object, or a reason column."""

from __future__ import annotations

import re

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.table_columns import Table

PLAIN = frozenset({"judge", "llm", "the", "final", "model", "auto", "evaluator", "grader"})
"""Words beside "score" that name no attribute."""

_SCORES = named.SCORE | {"metrics", "metric", "feedback", "evals", "evaluations"}
_REASONS = frozenset(["reason", "reasons", "reasoning", "rationale", "explanation", "justification", "critique",
                      "explained", "why"])  # fmt: skip
_NO_NAMES = {"value", "score", "rating", "result"}  # of the number in an object of one score
_BETWEEN = re.compile(r"[./]")


def is_attribute(table: Table, name: str) -> bool:
    """Return whether a column is called after an attribute."""
    return bool(set(named.tokens(name)) & named.ATTRIBUTES or within_scores(name)) or is_explained(table, name)


def attribute_of(table: Table, name: str) -> str:
    """Return the attribute after which a column is called; "overall" for none."""
    words = list(dict.fromkeys(word for word in named.tokens(name) if word in named.ATTRIBUTES))
    if not words and is_explained(table, name):
        words = [word for word in named.tokens(name) if word not in named.SCORE]
    return within_scores(name).lower() or " ".join(words) or "overall"


def within_scores(name: str) -> str:
    """Return the name of a score within an object of scores; empty for other columns.

    Examples
    --------
    >>> within_scores("scores.depth"), within_scores("metrics/brand_voice"), within_scores("scores.gpt-4o")
    ('depth', 'brand_voice', '')
    """
    *heads, tail = _BETWEEN.split(name)
    for at, head in enumerate(heads):
        if set(named.tokens(head)) & _SCORES:
            own = (*heads, tail)[at + 1]
            return "" if own.lower() in _NO_NAMES or own.isdigit() or named.is_model(own) else own
    return ""


def is_explained(table: Table, name: str) -> bool:
    """Return whether another column is named after it plus "reason" or the like, which marks a score by a judge."""
    own = set(named.tokens(name))
    if not own - named.SCORE - PLAIN or named.is_model(name):
        return False
    return any(
        own < (words := set(named.tokens(other))) and words - own <= _REASONS and not table.is_numeric(other)
        for other in table.names
    )
