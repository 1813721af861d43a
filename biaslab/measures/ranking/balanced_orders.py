"""Balanced orders of lists: each candidate takes each position equally often (Williams 1949)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from biaslab.core.errors import InputError

Shown = TypeVar("Shown", bound=Hashable)


def balanced_orders(candidates: Sequence[Shown], neighbours: bool = False) -> list[tuple[Shown, ...]]:
    """Return orders that form a Latin square, one order per candidate.

    Parameters
    ----------
    candidates : sequence
        At least two, all different.
    neighbours : bool
        Balance first-order carry-over too: each candidate immediately precedes each other one equally often. With an
        even number of candidates this holds in any case; an odd number needs a second square, and twice as many
        orders.

    Returns
    -------
    list of tuple
        Each candidate takes each position once (twice with the second square). For two candidates these are the two
        orders of a pair.

    Raises
    ------
    InputError
        If there are fewer than two candidates, or one is repeated.

    References
    ----------
    Williams 1949, *Experimental designs balanced for the estimation of residual effects of treatments*, Australian
    Journal of Scientific Research A 2.

    Examples
    --------
    >>> balanced_orders("abcd")
    [('a', 'b', 'd', 'c'), ('b', 'c', 'a', 'd'), ('c', 'd', 'b', 'a'), ('d', 'a', 'c', 'b')]
    >>> len(balanced_orders("abc", neighbours=True))
    6
    """
    k = len(candidates)
    if k < 2 or len(set(candidates)) < k:
        raise InputError("candidates", list(candidates), "at least two, all different")
    zigzag = [(place + 1) // 2 if place % 2 else (k - place // 2) % k for place in range(k)]
    square = [tuple(candidates[(start + at) % k] for at in zigzag) for start in range(k)]
    return square + [order[::-1] for order in square] if neighbours and k % 2 else square
