"""`Panel`: several judges as one judge, their replies combined by mean, majority or Borda count."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_judge, shares_of
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.interfaces import LIMITS, PRICES, Judge
from biaslab.core.requests import About, Choice, Completion, Likelihood, Rank, Request, Score
from biaslab.core.scales import scale_named
from biaslab.core.trials import DECLINED, UNUSABLE, Reply, Usage
from biaslab.judges.repetition import DelegatingJudge
from biaslab.prompts.parsing import parse_choice, parse_score
from biaslab.prompts.parsing.thoughts import answered
from biaslab.prompts.protocols import Protocol, list_protocol

VoteWeights = Sequence[float] | Mapping[str, Sequence[float]]


class Panel(DelegatingJudge):
    """Ask several judges and combine their replies: mean of distributions, majority of texts.

    With a store, each member's replies are stored under its own id, and shared between its use alone and in panels.

    Parameters
    ----------
    judges : sequence of Judge
        The members, at least two, all different.
    weights : sequence of float, or mapping of str to sequence of float, optional
        Non-negative weight of each member; by default equal. Or weights by context, as returned by
        `biaslab.mitigation.learned_weights`, which were learned on other contexts.

    Attributes
    ----------
    id : str
        The members' ids, and the weights.
    members : tuple of Judge
        The judges that are asked.

    Raises
    ------
    InputError
        If there are fewer than two members, one is repeated, the members have no combinable kind of request in common,
        or the numbers of weights and members differ.

    Notes
    -----
    `Choice` requests: each member's label probabilities are normalised, and the panel's are their weighted mean; the
    probability mass of the labels is the weighted mean of the masses. Members that give no label any probability have
    no vote. Shares of samples are pooled as if a single judge had been sampled that often; this requires equal numbers
    of samples and equal weights.

    `Completion` requests: members vote with the parsed content of their texts; the panel's text is that of the first
    member in the majority. If votes are tied, a panel on a pair answers with a tie, and a panel on a score with the
    mean of the tied scores. Texts that cannot be parsed have no vote.

    `Score` and `Compare` requests: the weighted mean. Rewards of different models have no common unit, so a panel of
    `biaslab.RewardJudge` answers `Compare` and `Rank` only. `Likelihood` requests are not answered, because members
    use different tokens.

    Lists (`Rank` requests, or texts read by a protocol for lists): the weighted mean of the members' probabilities of
    being best, if all provide these. Otherwise the panel ranks by the members' mean ranks (Borda): a member that names
    only the best gives all others the mean of the remaining ranks, so among such members the plurality decides;
    members that repeat, invent or, in a complete ranking, omit a name have no vote. Equal mean ranks are ordered by a
    hash of the texts, so that no position benefits.

    A reply costs the tokens of all members; prices are the highest of any member, limits the lowest.

    References
    ----------
    Verga et al. 2024, *Replacing Judges with Juries*; Borda 1784, *Mémoire sur les élections au scrutin*.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=4)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> members = [bl.SimulatedJudge(data, position=size, seed=seed) for seed, size in enumerate((2.0, -1.0))]
    >>> for judge in (*members, Panel(members)):
    ...     trials = bl.collect(probe, judge, data, progress=False)
    ...     found = probe.estimate(trials, ["first_position_logit"])
    ...     print(found["estimate"].round(1).item(), trials["tokens"].mean())
    2.0 1.0
    -1.0 1.0
    0.4 2.0
    """

    def __init__(self, judges: Sequence[Judge], weights: VoteWeights | None = None) -> None:
        super().__init__(_members(judges))
        self.breadth = max(each.breadth for each in self.asks)
        prices = [each.prices for each in self.asks if each.prices is not None]
        self.prices = _merged(PRICES, prices, max) if all(prices) else {}  # empty if any member's prices are unknown
        self.limits = _merged(LIMITS, [each.limits for each in self.asks], min)
        size = len(self.members)
        self._by_context: dict[str, tuple[float, ...]] = {}
        self._weights = (1 / size,) * size
        if isinstance(weights, Mapping):
            self._by_context = {str(name): shares_of(each, size) for name, each in weights.items()}
        elif weights is not None:
            self._weights = shares_of(weights, size)
        self.weights = weights
        self.id = f"panel{self._weights_in_id()}:{'+'.join(judge.id for judge in self.members)}"
        self.kinds = frozenset.intersection(*(judge.kinds for judge in self.members)) - {Likelihood}
        if any(each.score_scale for each in self.asks):
            self.kinds -= {Score}
        self.reads_prompts = any(each.reads_prompts for each in self.asks)
        if not self.kinds:
            able = "; ".join(f"{one.id}: {', '.join(sorted(k.__name__ for k in one.kinds))}" for one in self.members)
            allowed = "members that answer the same kinds of requests, other than Likelihood"
            raise InputError("judges", [one.id for one in self.members], allowed, f"they answer {able}")

    def _weights_in_id(self) -> str:
        """Return the part of the id that identifies the weights; empty if they are equal."""
        if self._by_context:
            described = repr((self._weights, sorted(self._by_context.items())))
            return f"[by context {hashlib.sha256(described.encode()).hexdigest()[:8]}]"
        equal = np.ptp(self._weights) == 0
        return "" if equal else f"[{','.join(f'{weight:.6g}' for weight in self._weights)}]"

    def __repr__(self) -> str:
        return f"Panel({list(self.members)!r})"

    def of_members(self, members: Sequence[Judge]) -> Panel:
        """Return the same panel with other members, for example the same judges wrapped with a store."""
        return Panel(members, self.weights)

    def _combine(self, request: Request, replies: Sequence[Reply]) -> Reply:
        name = "" if request.about is None else request.about.context_id
        return combine(request, replies, self._by_context.get(name, self._weights))


def _members(judges: Sequence[Judge]) -> tuple[Judge, ...]:
    if isinstance(judges, Judge | str) or len(judges) < 2:
        raise InputError("judges", judges, "a list of at least two judges")
    for judge in judges:
        require_judge(judge)
    names = [judge.id for judge in judges]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError("judges", twice, "different judges", "use weights to count one more than once")
    return tuple(judges)


def _merged(
    names: Sequence[str], known: Sequence[Mapping[str, float]], pick: Callable[[list[float]], float]
) -> dict[str, float]:
    """Return the prices or limits of all members, combined by `pick`; unknown ones are left out."""
    values = {name: [each[name] for each in known if name in each] for name in names}
    return {name: pick(each) for name, each in values.items() if each}


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
    protocol = None if request.about is None else request.about.protocol
    is_list = protocol is not None and protocol.form == "list"
    if isinstance(request, Choice):
        combined = _distribution(request, replies, share)
    elif isinstance(request, Rank) or (isinstance(request, Completion) and is_list):
        combined = combine_lists(request, replies, weights, lambda: _distribution(request, replies, share))
    elif isinstance(request, Completion):
        combined = _majority(request.about, replies, share)
    else:
        combined = Reply(score=float(share @ [math.nan if reply.score is None else reply.score for reply in replies]))
    models = sorted({reply.model for reply in replies if reply.model is not None})
    usage = Usage.total([reply.usage for reply in replies])
    return replace(combined, usage=usage, model="; ".join(models) or None)


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
    bounded = tuple(sorted({label for reply in replies for label in reply.bounded}))
    return Reply(logprobs=tuple(map(float, logprobs)), unseen=unseen, bounded=bounded, samples=samples)


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
        remedy = "sample each member equally often, with equal weights"
        raise JudgeError(f"members of the panel gave {listed}, which cannot be pooled; {remedy}", request)
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
        named = zip(middle, about.attributes, strict=True)
        lines = [about.protocol.write(one, name) for one, name in named if one in points]
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
    ballots = {place: each for place, each in enumerate(of_members) if each is not None and weights[place] > 0}
    if not ballots:
        return Reply(text=replies[0].text or "", finish_reason=replies[0].finish_reason)
    if all(replies[place].logprobs is not None for place in ballots):
        return average()
    share = np.array([weights[place] for place in ballots], float)
    mean = share @ np.array([ballot.ranks for ballot in ballots.values()]) / share.sum()
    order = _order(mean, texts)[: max(ballot.named for ballot in ballots.values())]
    for place, ballot in ballots.items():
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
