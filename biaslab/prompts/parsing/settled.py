"""Decide which of the labels named in a reply is its verdict, which need not be the last one."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from biaslab.core import Status
from biaslab.prompts.parsing.choice import parse_choice
from biaslab.prompts.parsing.mentions import MENTION, names_of
from biaslab.prompts.parsing.phrases import BLAMED, CLAUSE, DENIED


def settled(text: str, labels: Sequence[str], named: Collection[int]) -> tuple[int | None, Status]:
    """Return the label that a text decides for, among those that it names literally.

    Parameters
    ----------
    text : str
        The judge's reply.
    labels : sequence of str
        All labels.
    named : collection of int
        The places of the labels named in it.

    Returns
    -------
    tuple
        One of these places, or None; and the status: "ambiguous" if the text names several without deciding for one,
        or decides against the only one; "refused" if it begins with a refusal.

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
    """Return whether a clause criticises the label that it begins with, or negates one."""
    for clause in filter(None, CLAUSE.split(masked)):
        label = re.search(MENTION, clause)
        if label and (BLAMED.match(clause) or DENIED.search(clause[: label.start()])):
            return True
    return False
