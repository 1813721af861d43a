"""Settle which of the labels that a reply names is its verdict: the last one that is named need not be."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from biaslab.core import Status
from biaslab.prompts.parsing.choice import parse_choice
from biaslab.prompts.parsing.mentions import MENTION, names_of
from biaslab.prompts.parsing.phrases import BLAMED, CLAUSE, DENIED


def settled(text: str, labels: Sequence[str], named: Collection[int]) -> tuple[int | None, Status]:
    """Return the label that a text decides for, among those that it names word for word.

    Parameters
    ----------
    text : str
        What the judge wrote.
    labels : sequence of str
        All labels.
    named : collection of int
        The places of the labels that it names.

    Returns
    -------
    tuple
        A place of those, or None; and the status: "ambiguous" where the text names several and decides for none, or
        decides against the only one; "refused" where it opens as a refusal.

    Examples
    --------
    >>> settled("B is better than A.", ("A", "B"), {0, 1}), settled("A is worse.", ("A", "B"), {0})
    ((1, 'ok'), (None, 'ambiguous'))
    >>> settled("Not A.", ("A", "B"), {0}), settled("If any, then B here.", ("A", "B"), {1})
    ((None, 'ambiguous'), (1, 'ok'))
    """
    place, status = parse_choice(text, labels)
    if place in named:
        return place, "ok"
    if status == "refused":
        return None, "refused"
    if place is not None or len(set(named)) != 1 or _is_against(names_of(tuple(labels)).mask(text).lower()):
        return None, "ambiguous"
    return next(iter(named)), "ok"


def _is_against(masked: str) -> bool:
    """Return whether a clause blames the label that it begins with, or denies one."""
    for clause in filter(None, CLAUSE.split(masked)):
        label = re.search(MENTION, clause)
        if label and (BLAMED.match(clause) or DENIED.search(clause[: label.start()])):
            return True
    return False
