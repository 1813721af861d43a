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
from biaslab.core.checked import checked
from biaslab.core.checks import shares_of
from biaslab.core.errors import InputError
from biaslab.judges.votes import combine

Weights = Sequence[float] | Mapping[str, Sequence[float]]


@checked(eager=True)
class Panel(BaseJudge):
    """Ask several judges and combine their replies: mean of distributions, majority of texts.

    With a store, the replies of each member are kept under the member's own id: a member that was asked alone is not
    asked again in a panel, nor one of a panel when it is asked alone.

    Parameters
    ----------
    judges : sequence of Judge
        The members, at least two, all different.
    weights : sequence of float, or mapping of str to sequence of float, optional
        How much each member counts, at least 0; equally much by default. Or of each context, by its name, such as
        `biaslab.mitigation.learned_weights` returns them, which were learned on other contexts.

    Attributes
    ----------
    id : str
        Those of the members, with the weights.
    members : tuple of Judge
        Who is asked.

    Raises
    ------
    InputError
        If there are fewer than two members, one stands twice, there is no kind of request that all answer and whose
        replies can be combined, or there is not one weight a member.

    Notes
    -----
    Of `Choice` requests, each member's probabilities of the labels are normalised, and their weighted mean is the
    panel's; the mass that labels have together is the weighted mean of masses. Members that give no label any
    probability have no vote. Shares of samples are pooled, as if one judge had been sampled as often as all members
    together; that takes equally many of each member and equal weights.

    Of `Completion` requests, members vote by what their texts say, as the request tells how to read it: the text is
    that of the first member who says what most say. Where as many say one thing as another, a panel about a pair
    writes that it is a tie, and one about a score the mean of these scores. Texts that cannot be read have no vote.

    Of `Score` and `Compare` requests it is the weighted mean; rewards of several models have no unit in common, so that
    a panel of `biaslab.RewardJudge` answers `Compare` and `Rank` alone. `Likelihood` requests are not answered, since
    members cut texts into different tokens.

    Of lists, `Rank` requests or texts that a protocol of lists reads, the panel's is the weighted mean of the members'
    probabilities of being best, where all give such. Otherwise it ranks by the mean of the members' ranks (Borda): who
    names the best alone gives all others the mean of the ranks that are left, so that of such members most decide; who
    names one twice or invents one has no vote, nor who leaves one out of a ranking that was asked for. Equal mean ranks
    are ordered by a hash of the texts, so that no place gains by them.

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
        self.prices = _merged(PRICES, prices, max) if all(prices) else {}  # empty where one member's are not known
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
        """Return the part of the id that pins the weights; empty where they are equal."""
        if self._by_context:
            described = repr((self._weights, sorted(self._by_context.items())))
            return f"[by context {hashlib.sha256(described.encode()).hexdigest()[:8]}]"
        equal = np.ptp(self._weights) == 0
        return "" if equal else f"[{','.join(f'{weight:.6g}' for weight in self._weights)}]"

    def __repr__(self) -> str:
        return f"Panel({list(self.members)!r})"

    def of_members(self, members: Sequence[Judge]) -> Panel:
        """Return the same panel with other members in their places, such as the same ones with a memory."""
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
        """Ask one member after the other; replies come in the packs of the last one."""
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
    values = {name: [each[name] for each in known if name in each] for name in names}
    return {name: pick(each) for name, each in values.items() if each}
