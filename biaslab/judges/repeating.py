"""Base of judges that ask another judge several times for each request, and combine its replies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from operator import itemgetter

from biaslab.core import BaseJudge, Judge, Reply, Request, as_judge, require_kinds
from biaslab.core.checks import require_whole
from biaslab.core.errors import JudgeError


class RepeatingJudge(BaseJudge):
    """Asks a judge everything that `expand` returns for a request; `_combine` makes the reply.

    Parameters
    ----------
    judge : Judge
        The judge to ask.
    k : int
        Number of replies per request.
    """

    def __init__(self, judge: Judge, k: int) -> None:
        require_whole("k", k, 1)
        asked = as_judge(judge)
        self.judge, self.k, self.asks = judge, k, (asked,)
        self.breadth, self.prices, self.limits, self.thinks = (
            asked.breadth // k,
            asked.prices,
            asked.limits,
            asked.thinks,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.judge!r}, k={self.k})"

    @abstractmethod
    def _combine(self, request: Request, replies: Sequence[Reply]) -> Reply:
        """Return the reply to a request from those to the requests of `expand`, in order."""

    def watched(self, tell: Callable[[str], None]) -> AbstractContextManager[None]:
        """Report every retry of the judge."""
        return self.asks[0].watched(tell)

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if the judge cannot answer the requests of `expand`."""
        for request in requests:
            require_kinds(self, [request])
            try:
                self.judge.check(self.expand(request)[:1])
            except JudgeError as error:
                error.request = request  # the original request rather than the expanded one
                raise

    def packs(self, requests: Iterable[Request]) -> Generator[list[tuple[Request, Reply]]]:
        """Answer every request once, when its last reply has arrived; replies that complete together are one pack."""
        places: dict[Request, list[tuple[Request, int]]] = {}  # requests may share an expanded request
        replies: dict[Request, dict[int, Reply]] = {}
        wanted: dict[Request, int] = {}
        for request in dict.fromkeys(requests):
            expanded = self.expand(request)
            replies[request], wanted[request] = {}, len(expanded)
            for place, asked in enumerate(expanded):
                places.setdefault(asked, []).append((request, place))
        try:
            with closing(self.asks[0].packs(list(places))) as packs:
                for pack in packs:
                    complete = []
                    for asked, reply in pack:
                        for request, place in places[asked]:
                            replies[request][place] = reply
                            if len(replies[request]) == wanted[request]:
                                ordered = [each for _, each in sorted(replies.pop(request).items(), key=itemgetter(0))]
                                complete.append((request, self._combine(request, ordered)))
                    if complete:
                        yield complete
        except JudgeError as error:
            of = places.get(error.request, ()) if error.request is not None else ()
            error.request = of[0][0] if of else error.request
            raise
