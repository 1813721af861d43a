"""Base of judges that ask others and combine their replies: panels, samples, means over thoughts."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from operator import itemgetter

from biaslab.core.errors import JudgeError
from biaslab.core.interfaces import BaseJudge, Judge, as_judge, require_kinds
from biaslab.core.requests import Request
from biaslab.core.trials import Reply


class DelegatingJudge(BaseJudge):
    """Asks each member everything that `expand` returns for a request; `_combine` makes the reply.

    Parameters
    ----------
    members : sequence of Judge
        The judges to ask. With a store, each of their replies is stored under the member's own id as soon as it
        arrives, so an incomplete group costs only what is missing.
    """

    def __init__(self, members: Sequence[Judge]) -> None:
        self.members, self.asks = tuple(members), tuple(map(as_judge, members))
        self.thinks = all(each.thinks for each in self.asks)
        self.is_recorded = all(each.is_recorded for each in self.asks)

    @abstractmethod
    def _combine(self, request: Request, replies: Sequence[Reply]) -> Reply:
        """Return the reply to a request from those of the members, in order, to the requests of `expand`, in order."""

    @contextmanager
    def watched(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Report every retry of a member."""
        with ExitStack() as stack:
            for each in self.asks:
                stack.enter_context(each.watched(tell))
            yield

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if a member cannot answer the requests of `expand`."""
        asked = list(requests)
        require_kinds(self, asked)
        originals: dict[Request, Request] = {}
        for request in asked:
            originals.setdefault(self.expand(request)[0], request)
        try:
            for judge in self.members:
                judge.check(list(originals))
        except JudgeError as error:
            if error.request in originals:
                error.request = originals[error.request]
            raise

    def packs(self, requests: Iterable[Request]) -> Generator[list[tuple[Request, Reply]]]:
        """Ask one member after the other, and answer each request once, when its last reply has arrived.

        Replies that complete together are one pack.
        """
        places = self._places(requests)
        wanted = Counter(request for several in places.values() for request, _ in several)
        replies: dict[Request, dict[tuple[int, int], Reply]] = {request: {} for request in wanted}
        try:
            for member, judge in enumerate(self.asks):
                with closing(judge.packs(list(places))) as packs:
                    for pack in packs:
                        arrived = [(*place, reply) for asked, reply in pack for place in places[asked]]
                        for request, place, reply in arrived:
                            replies[request][member, place] = reply
                        met = dict.fromkeys(request for request, _, _ in arrived)
                        done = [each for each in met if len(replies[each]) == wanted[each] * len(self.asks)]
                        if done:
                            yield [(each, self._combine(each, _in_order(replies.pop(each)))) for each in done]
        except JudgeError as error:
            if error.request in places:
                error.request = places[error.request][0][0]
            raise

    def _places(self, requests: Iterable[Request]) -> dict[Request, list[tuple[Request, int]]]:
        """Return, for each expanded request, the requests that it is part of, and at which place."""
        places: dict[Request, list[tuple[Request, int]]] = {}
        for request in dict.fromkeys(requests):
            for place, asked in enumerate(self.expand(request)):
                places.setdefault(asked, []).append((request, place))
        return places


def _in_order(replies: dict[tuple[int, int], Reply]) -> list[Reply]:
    return [reply for _, reply in sorted(replies.items(), key=itemgetter(0))]
