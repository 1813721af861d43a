"""Combine a panel's answers about a list: mean of probabilities, or Borda count of texts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from biaslab.core import DECLINED, Completion, Rank, Reply
from biaslab.core.arrays import Floats
from biaslab.prompts.parsing.thoughts import answered
from biaslab.prompts.protocols import Protocol
from biaslab.prompts.protocols.own_lists import list_protocol

_CLOSE = 1e-9  # mean ranks that differ by less are equal


def combine_lists(
    request: Rank | Completion, replies: Sequence[Reply], weights: Sequence[float], average: Callable[[], Reply]
) -> Reply:
    """Return the panel's reply about a list.

    Each member casts a ballot: the positions it names have their ranks, and the others share the mean of the remaining
    ranks. The panel ranks by weighted mean rank (Borda 1784), to the length of its longest ballot; if members name
    only the best, the panel names the one that most of them name. Equal mean ranks are ordered by a hash of the texts,
    independent of the order shown, so that no position benefits.

    Parameters
    ----------
    request : Rank or Completion
        A completion must have a protocol for lists.
    replies : sequence of Reply
        One per member. Members that refuse or cannot be parsed have no vote.
    weights : sequence of float
        One per member, non-negative, summing to 1.
    average : callable
        Returns the mean of the members' distributions; used if all members with a vote provide one.

    Returns
    -------
    Reply
        Taken from the first member that says the same, else newly written.

    Examples
    --------
    >>> said = [Reply(text=text) for text in ("[1] > [2] > [3]", "[2] > [3] > [1]", "[2] > [1] > [3]")]
    >>> combine_lists(Rank(("one", "two", "three")), said, [1 / 3] * 3, Reply).text  # mean ranks 2, 1.33, 2.67
    '[2] > [1] > [3]'
    """
    protocol, texts = _protocol_and_texts(request)
    of_members = [_ballot(request, protocol, reply, len(texts)) for reply in replies]
    voting = [place for place, ballot in enumerate(of_members) if ballot is not None and weights[place] > 0]
    if not voting:
        return Reply(text=replies[0].text or "", finish_reason=replies[0].finish_reason)
    if all(replies[place].logprobs is not None for place in voting):
        return average()
    ballots = [ballot for ballot in of_members if ballot is not None]
    share = np.array([weights[place] for place in voting], float)
    mean = share @ np.array([ballot.ranks for ballot in ballots]) / share.sum()
    order = _order(mean, texts)[: max(ballot.named for ballot in ballots)]
    for place, ballot in zip(voting, ballots, strict=True):
        if replies[place].logprobs is None and ballot.order == order:
            return Reply(text=replies[place].text, finish_reason=replies[place].finish_reason)
    return Reply(text=protocol.places.write_order([place + 1 for place in order]), finish_reason="stop")


class _Ballot(NamedTuple):
    """A member's ballot: the rank of each position, and how many it names, best first."""

    ranks: Floats
    named: int

    @property
    def order(self) -> list[int]:
        return [int(place) for place in np.argsort(self.ranks, kind="stable")[: self.named]]


def _protocol_and_texts(request: Rank | Completion) -> tuple[Protocol, tuple[str, ...]]:
    """Return the parser of replies, and the texts of the list."""
    if isinstance(request, Rank):
        return list_protocol(ranks=True), request.texts
    about = request.about
    if about is None or about.protocol is None:
        raise TypeError("a completion about a list must state its protocol")
    return about.protocol, about.texts


def _ballot(request: Rank | Completion, protocol: Protocol, reply: Reply, k: int) -> _Ballot | None:
    """Return a member's ballot, or None if it has no valid vote."""
    if reply.logprobs is not None:
        shares = np.exp(reply.logprobs)
        above = (shares[None] > shares[:, None]).sum(axis=1)
        ranks = above + ((shares[None] == shares[:, None]).sum(axis=1) + 1) / 2
        return _Ballot(ranks, k) if shares.sum() > 0 else None
    if reply.finish_reason in DECLINED:
        return None
    text = str(answered(reply).text or "").strip()
    if isinstance(request, Rank):  # nothing says whether the best or a ranking was wanted
        named = protocol.places.named(text)
        return _of_order([place - 1 for place in named[-1][0]], k) if named else None
    value, status = protocol.parse_list(text, k)
    if status != "ok":
        return None
    return _Ballot(np.array(value), k) if protocol.places.ranks else _of_order([value.index(1.0)], k)


def _of_order(order: Sequence[int], k: int) -> _Ballot | None:
    """Return the ballot for positions from best to worst; None if a name is repeated or invented."""
    if len(set(order)) < len(order) or not all(0 <= place < k for place in order):
        return None
    ranks = np.full(k, (len(order) + 1 + k) / 2)
    ranks[list(order)] = np.arange(1, len(order) + 1)
    return _Ballot(ranks, len(order))


def _order(mean: Floats, texts: Sequence[str]) -> list[int]:
    """Return the positions by mean rank, best first; ties are broken by text."""
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    return sorted(range(len(texts)), key=lambda at: (math.floor(mean[at] / _CLOSE + 0.5), digests[at]))
