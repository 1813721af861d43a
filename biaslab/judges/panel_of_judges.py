"""`Panel`: a judge of judges, who is asked and measured as any other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from biaslab.core import (
    LIMITS,
    PRICES,
    Closable,
    Expanding,
    Judge,
    Likelihood,
    Priced,
    Reply,
    Request,
    Retrying,
    breadth_of,
    one_by_one,
    packs_of,
    require_kinds,
)
from biaslab.core.checked import checked
from biaslab.core.checks import shares_of
from biaslab.core.errors import InputError
from biaslab.judges.votes import combine

Weights = Sequence[float] | Mapping[str, Sequence[float]]


@checked(eager=True)
class Panel:
    """Ask several judges the same, and give one reply: the mean of their distributions, the majority of their texts.

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

    Of `Score` requests it is the weighted mean. `Likelihood` requests are not answered: members cut texts into
    different tokens. A reply costs the tokens of all members; prices are the highest of any member, limits the lowest.

    References
    ----------
    Verga et al. 2024, *Replacing Judges with Juries*.

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
        size = len(self.members)
        self._by_context: dict[str, tuple[float, ...]] = {}
        self._weights = (1 / size,) * size
        if isinstance(weights, Mapping):
            self._by_context = {str(name): shares_of(each, size) for name, each in weights.items()}
        elif weights is not None:
            self._weights = shares_of(weights, size)
        self.weights = weights
        self.id = f"panel{self._told()}:{'+'.join(judge.id for judge in self.members)}"
        self.kinds = frozenset.intersection(*(judge.kinds for judge in self.members)) - {Likelihood}
        if not self.kinds:
            able = "; ".join(f"{one.id}: {', '.join(sorted(k.__name__ for k in one.kinds))}" for one in self.members)
            raise InputError("judges", able, "members who answer the same kind of requests, other than Likelihood")

    def _told(self) -> str:
        """Return what of an id stands for the weights; nothing where they are equal."""
        if self._by_context:
            described = repr((self._weights, sorted(self._by_context.items())))
            return f"[by context {hashlib.sha256(described.encode()).hexdigest()[:8]}]"
        equal = np.ptp(self._weights) == 0
        return "" if equal else f"[{','.join(f'{weight:.6g}' for weight in self._weights)}]"

    @property
    def breadth(self) -> int:
        """How many requests keep the broadest member busy: see `biaslab.core.Broad`."""
        return max(map(breadth_of, self.members))

    def __repr__(self) -> str:
        return f"Panel({list(self.members)!r})"

    def of_members(self, members: Sequence[Judge]) -> Panel:
        """Return the same panel with other members in their places, such as the same ones with a memory."""
        return Panel(members, self.weights)

    @property
    def prices(self) -> dict[str, float]:
        """The highest price of any member by kind of token; empty where one that is paid for does not tell its own."""
        known = [one.prices for one in map(_asked, self.members) if isinstance(one, Priced)]
        return _merged(PRICES, known, max) if all(known) else {}

    @property
    def limits(self) -> dict[str, float]:
        """The lowest limit of any member by kind."""
        return _merged(LIMITS, [one.limits for one in map(_asked, self.members) if isinstance(one, Priced)], min)

    @contextmanager
    def watched(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Tell of every retry of a member."""
        with ExitStack() as stack:
            for one in map(_asked, self.members):
                if isinstance(one, Retrying):
                    stack.enter_context(one.watched(tell))
            yield

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if one of the members cannot answer one of the requests."""
        asked = list(requests)
        require_kinds(self, asked)
        for judge in self.members:
            judge.check(asked)

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Ask one member after the other; a request is answered when the last one has."""
        return one_by_one(self.packs(requests))

    def packs(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """Answer as `ask` does, in the packs in which the last member answers."""
        asked = list(dict.fromkeys(requests))
        said: dict[Request, list[Reply]] = {request: [] for request in asked}
        for place, judge in enumerate(self.members, start=1):
            answers = packs_of(judge, asked)
            try:
                for pack in answers:
                    for request, reply in pack:
                        said[request].append(reply)
                    if place == len(self.members):
                        yield [
                            (request, combine(request, said.pop(request), self._weights_of(request)))
                            for request, _ in pack
                        ]
            finally:
                if isinstance(answers, Closable):
                    answers.close()

    def _weights_of(self, request: Request) -> tuple[float, ...]:
        name = None if request.about is None else request.about.context_id
        return self._weights if name is None else self._by_context.get(name, self._weights)


def _members(judges: Sequence[Judge]) -> tuple[Judge, ...]:
    if isinstance(judges, Judge | str) or len(judges) < 2:
        raise InputError("judges", judges, "a list of at least two judges")
    names = [judge.id for judge in judges]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError("judges", twice, "different judges", "one that counts twice is a matter of weights")
    return tuple(judges)


def _asked(judge: Judge) -> Judge:
    """Return who is asked in the end, such as the judge that is sampled."""
    while isinstance(judge, Expanding):
        judge = judge.judge
    return judge


def _merged(
    names: Sequence[str], known: Sequence[Mapping[str, float]], pick: Callable[[list[float]], float]
) -> dict[str, float]:
    values = {name: [each[name] for each in known if name in each] for name in names}
    return {name: pick(each) for name, each in values.items() if each}
