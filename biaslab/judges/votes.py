"""Combine the replies of a panel: the mean of label distributions, the majority of texts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from biaslab.core import DECLINED, UNUSABLE, About, Choice, Completion, Rank, Reply, Request, Usage
from biaslab.core.arrays import Floats
from biaslab.core.errors import JudgeError
from biaslab.core.scales import scale_named
from biaslab.judges.list_votes import combine_lists
from biaslab.prompts.parsing import parse_choice, parse_score
from biaslab.prompts.parsing.thoughts import answered

#: What a panel writes for tied votes if it cannot answer with a tie; parsed as no verdict.
DIVIDED = "The members of the panel do not say the same."
_CLOSE = 1e-9  # votes that differ by less are equal


def combine(request: Request, replies: Sequence[Reply], weights: Sequence[float]) -> Reply:
    """Return the reply of a panel.

    Parameters
    ----------
    request : Choice, Completion, Score, Compare or Rank
        What every member was asked.
    replies : sequence of Reply
        One per member.
    weights : sequence of float
        One per member, non-negative, summing to 1.

    Returns
    -------
    Reply
        Includes the tokens of all members; see the notes of `biaslab.Panel`.

    Raises
    ------
    JudgeError
        If shares of samples are mixed with exact distributions, or have unequal weights.

    Examples
    --------
    >>> said = [Reply(text=text) for text in ("[[A]]", "Summary A", "[[B]]")]
    >>> about = About("c", ("x", "y"), ("one", "two"), ("coherence",), labels=("Summary A", "Summary B"))
    >>> combine(Completion("Which?", about=about), said, [1 / 3] * 3).text
    '[[A]]'
    """
    share = np.asarray(weights, float)
    if isinstance(request, Choice):
        combined = _distribution(request, replies, share)
    elif isinstance(request, Rank) or (isinstance(request, Completion) and _is_list(request.about)):
        combined = combine_lists(request, replies, weights, lambda: _distribution(request, replies, share))
    elif isinstance(request, Completion):
        combined = _majority(request.about, replies, share)
    else:
        combined = Reply(score=float(share @ [math.nan if reply.score is None else reply.score for reply in replies]))
    models = sorted({reply.model for reply in replies if reply.model is not None})
    usage = Usage.total([reply.usage for reply in replies])
    return replace(combined, usage=usage, model="; ".join(models) or None)


def _is_list(about: About | None) -> bool:
    return about is not None and about.protocol is not None and about.protocol.form == "list"


def _distribution(request: Request, replies: Sequence[Reply], share: Floats) -> Reply:
    """Return the weighted mean of the members' label distributions, or the pooled shares of samples."""
    p = np.exp([_logprobs(request, reply) for reply in replies])
    samples = _samples(request, replies, share)
    known = [reply.unseen for reply in replies]
    unseen = None if all(each is None for each in known) else float(share @ [each or 0.0 for each in known])
    if samples is None:
        mass, voting = p.sum(axis=1), np.where(p.sum(axis=1) > 0, share, 0.0)
        if voting.any():  # every member with a verdict has its vote, whatever mass its labels have
            normalised = p / np.where(mass > 0, mass, 1.0)[:, None]
            p = (voting / voting.sum() @ normalised)[None] * (share @ mass)
            share = np.ones(1)
    with np.errstate(divide="ignore"):
        logprobs = np.minimum(np.log(share @ p), 0.0)
    return Reply(
        logprobs=tuple(map(float, logprobs)),
        unseen=unseen,
        bounded=tuple(sorted({label for reply in replies for label in reply.bounded})),
        samples=samples,
    )


def _logprobs(request: Request, reply: Reply) -> tuple[float, ...]:
    """Return a member's log-probabilities of the labels; all ``-inf`` if it has no vote."""
    if isinstance(request, Rank):
        k = len(request.texts)
        return (-math.inf,) * k if reply.logprobs is None else reply.logprobs  # refusals have no vote
    k = len(request.labels) if isinstance(request, Choice) else 0
    if reply.logprobs is None or len(reply.logprobs) != k:
        raise JudgeError("a member of the panel gave no log-probability of each label", request)
    return (-math.inf,) * k if reply.finish_reason == UNUSABLE else reply.logprobs


def _samples(request: Request, replies: Sequence[Reply], share: Floats) -> int | None:
    """Return the number of samples behind all members' shares; None if they are exact."""
    known = [reply.samples for reply in replies]
    if all(each is None for each in known):
        return None
    if len(set(known)) > 1 or np.ptp(share) > _CLOSE:
        listed = ", ".join("exact" if each is None else f"{each} samples" for each in known)
        raise JudgeError(
            f"members of the panel gave {listed}, which cannot be pooled; sample each member equally often, "
            "with equal weights",
            request,
        )
    return sum(each or 0 for each in known)


def _majority(about: About | None, replies: Sequence[Reply], share: Floats) -> Reply:
    """Return the first text with the majority's verdict; a tied vote is a tie."""
    votes: dict[Hashable, float] = {}
    first: dict[Hashable, Reply] = {}
    for reply, weight in zip(replies, share, strict=True):
        verdict = read_verdict(about, reply)
        if verdict is not None and weight > 0:
            votes[verdict] = votes.get(verdict, 0.0) + float(weight)
            first.setdefault(verdict, reply)
    if not votes:  # none can be parsed
        return Reply(text=replies[0].text or "", finish_reason=replies[0].finish_reason)
    leading = [verdict for verdict, count in votes.items() if count >= max(votes.values()) - _CLOSE]
    if len(leading) == 1:
        return Reply(text=first[leading[0]].text, finish_reason=first[leading[0]].finish_reason)
    return Reply(text=_undecided(about, leading), finish_reason="stop")


def _undecided(about: About | None, verdicts: Sequence[Hashable]) -> str:
    """Return the text for a tied vote: a tie for pairs, the mean for scores; with a protocol, whatever it provides."""
    if about is not None and about.protocol is not None:
        middle, points = np.mean(np.array(verdicts, float), axis=0), about.protocol.points
        lines = [
            about.protocol.write(one, name) for one, name in zip(middle, about.attributes, strict=True) if one in points
        ]
        return "\n".join(lines) if len(lines) == len(middle) else DIVIDED
    if about is not None and len(about.candidate_ids) == 2 and about.labels:
        return about.labels[2] if len(about.labels) > 2 else "Tie"
    numbers = [verdict for verdict in verdicts if isinstance(verdict, float)]
    return f"{np.mean(numbers):.12g}" if len(numbers) == len(verdicts) else DIVIDED


def read_verdict(about: About | None, reply: Reply) -> Hashable | None:
    """Parse the verdict of a text in the format that its request asked for; None if it cannot be parsed."""
    if reply.finish_reason in DECLINED or not (reply.text or "").strip():
        return None
    text = str(answered(reply).text).strip()
    answer = Reply(text=text, finish_reason=reply.finish_reason)
    if about is not None and about.protocol is not None:
        if about.protocol.form == "list":
            ranks, status = about.protocol.read_list(answer, len(about.candidate_ids))
            return (ranks,) if status == "ok" else None
        read = [about.protocol.read(answer, attribute) for attribute in about.attributes]
        return tuple(value for value, _ in read) if all(status in ("ok", "tie") for _, status in read) else None
    if about is not None and len(about.candidate_ids) == 2 and about.labels:
        tie = about.labels[2] if len(about.labels) > 2 else None
        chosen, status = parse_choice(text, about.labels, tie)
        return "tie" if status == "tie" else None if chosen is None else (chosen,)
    if about is not None and about.scale and len(about.attributes) == 1:
        value, status = parse_score(text, scale_named(about.scale))
        return float(value) if status == "ok" else None
    return text
