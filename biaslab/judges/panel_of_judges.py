"""`Panel`: several judges as one judge."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager

import numpy as np

from biaslab.core import (
    LIMITS,
    PRICES,
    BaseJudge,
    Judge,
    Likelihood,
    Reply,
    Request,
    Score,
    as_judge,
    require_kinds,
)
from biaslab.core.checks import shares_of
from biaslab.core.errors import InputError
from biaslab.judges.votes import combine

Weights = Sequence[float] | Mapping[str, Sequence[float]]


class Panel(BaseJudge):
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

    def __init__(self, judges: Sequence[Judge], weights: Weights | None = None) -> None:
        self.members = _members(judges)
        self.asks = tuple(map(as_judge, self.members))
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
        self.thinks = all(each.thinks for each in self.asks)
        if not self.kinds:
            able = "; ".join(f"{one.id}: {', '.join(sorted(k.__name__ for k in one.kinds))}" for one in self.members)
            raise InputError("judges", able, "members that answer the same kinds of requests, other than Likelihood")

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

    @contextmanager
    def watched(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Report every retry of a member."""
        with ExitStack() as stack:
            for each in self.asks:
                stack.enter_context(each.watched(tell))
            yield

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if one of the members cannot answer one of the requests."""
        asked = list(requests)
        require_kinds(self, asked)
        for judge in self.members:
            judge.check(asked)

    def packs(self, requests: Iterable[Request]) -> Generator[list[tuple[Request, Reply]]]:
        """Ask the members one after the other; replies come in the packs of the last one."""
        asked = list(dict.fromkeys(requests))
        replies: dict[Request, list[Reply]] = {request: [] for request in asked}
        for place, judge in enumerate(self.asks, start=1):
            with closing(judge.packs(asked)) as packs:
                for pack in packs:
                    for request, reply in pack:
                        replies[request].append(reply)
                    if place == len(self.members):
                        yield [
                            (request, combine(request, replies.pop(request), self._weights_of(request)))
                            for request, _ in pack
                        ]

    def _weights_of(self, request: Request) -> tuple[float, ...]:
        name = None if request.about is None else request.about.context_id
        return self._weights if name is None else self._by_context.get(name, self._weights)


def _members(judges: Sequence[Judge]) -> tuple[Judge, ...]:
    if isinstance(judges, Judge | str) or len(judges) < 2:
        raise InputError("judges", judges, "a list of at least two judges")
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
