"""A judge with a memory: it asks another judge only what a store does not know yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from biaslab.core import Closable, Composed, Judge, Reply, Request, Stoppable, request_key
from biaslab.errors import InputError, JudgeError, StoreError
from biaslab.store.reserve import Reserve
from biaslab.store.tally import PROCESS, Tally

if TYPE_CHECKING:
    from biaslab.store import Store

_CHUNK = 500  # requests looked up at once


class StoredJudge:
    """A judge whose replies are kept; made by `biaslab.store.Store.wrap`.

    Parameters
    ----------
    store : Store
        Where replies are looked up and kept.
    judge : Judge
        Who is asked for the others. Members of a panel (`biaslab.core.Composed`) are asked only for what the store does
        not know of them, and their replies are kept under their own ids.

    Attributes
    ----------
    tally : biaslab.store.tally.Tally
        What came from the store so far and what the judge gave, replies and tokens.

    Raises
    ------
    InputError
        If the judge's id is not text that can be encoded.
    """

    def __init__(self, store: Store, judge: Judge) -> None:
        try:
            judge.id.encode()
        except UnicodeEncodeError as error:
            raise InputError("judge.id", judge.id, "text without lone surrogates") from error
        self.store, self.judge = store, judge
        self.tally = Tally()
        self._tallies: tuple[Tally, ...] = (self.tally, PROCESS)
        if isinstance(judge, Composed):
            self.judge = judge.of_members([StoredJudge(store, member) for member in judge.members])
            self._tallies = (self.tally,)  # what the members were asked is counted there

    @property
    def hits(self) -> int:
        """Requests answered so far without the judge: from the store, or as a repetition of another request."""
        return self.tally.stored

    @property
    def asked(self) -> int:
        """Replies that the judge gave so far."""
        return self.tally.asked

    @property
    def id(self) -> str:
        """The judge's id, under which its replies are found."""
        return self.judge.id

    @property
    def kinds(self) -> frozenset[type]:
        """The kinds of requests that the judge answers."""
        return self.judge.kinds

    def check(self, requests: Iterable[Request]) -> None:
        """Let the judge check the requests that are not stored; if all are, the judge is left alone.

        Raises
        ------
        JudgeError
            If the judge cannot answer one of them.
        """
        missing = [request for _, request, reply in self._look_up(requests) if reply is None]
        if missing:
            self.judge.check(missing)

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request as often as it is given, stored ones first.

        Equal requests are asked once. Every reply is on the disk before it is yielded and before the judge is
        asked for the next one. If another process stored a reply to the same request meanwhile, that one is
        yielded. When the asking ends early, by an error, Ctrl-C or a full disk, what a judge that is paid for
        still has on its way is kept too: its answers are `biaslab.core.Stoppable`.

        Raises
        ------
        JudgeError
            What the judge raises, which is not stored; or if it gives NaN, answers what it was not asked, or
            stops early. Everything answered before stays.
        StoreError
            If a reply cannot be kept, such as when the disk is full.
        """
        judge_id = self.judge.id
        waiting: dict[str, list[Request]] = {}
        for key, request, reply in self._look_up(requests):
            if reply is None:
                waiting.setdefault(key, []).append(request)
            else:
                self._count(reply, asked=False)
                yield request, reply
        if not waiting:
            return
        known = self._known_of_members([copies[0] for copies in waiting.values()])
        answers = self.judge.ask([copies[0] for copies in waiting.values()])
        reserve = Reserve(self.store.path)
        try:
            if isinstance(answers, Stoppable):  # several replies may be on their way, and paid for
                reserve.take()
            for request, reply in answers:
                key = request_key(request, judge_id)
                if key not in waiting:
                    raise JudgeError(f"the judge {judge_id!r} answered twice, or what it was not asked", request)
                kept = self._keep(request, judge_id, reply)
                for place, copy in enumerate(waiting.pop(key)):
                    self._count(kept, asked=place == 0 and key not in known)
                    yield copy, kept
        finally:
            reserve.release()
            self._let_go(answers, waiting)
        if waiting:
            left = next(iter(waiting.values()))[0]
            raise JudgeError(f"the judge {judge_id!r} ended with {len(waiting):,} requests unanswered", left)

    def _let_go(self, answers: Iterator[tuple[Request, Reply]], waiting: Mapping[str, object]) -> None:
        """Keep what a judge still hands on when it is stopped, and let it go; nothing is raised."""
        try:
            for request, reply in answers.stop() if isinstance(answers, Stoppable) else ():
                if request_key(request, self.judge.id) in waiting:
                    with contextlib.suppress(InputError):
                        self.store.put(request, self.judge.id, reply)
        except StoreError:
            pass  # the first error says it
        finally:
            if isinstance(answers, Closable):  # a generator lets go of what it holds
                answers.close()

    def _count(self, reply: Reply, asked: bool) -> None:
        for tally in self._tallies:
            tally.count(reply, asked)

    def _keep(self, request: Request, judge_id: str, reply: Reply) -> Reply:
        try:
            return self.store.put(request, judge_id, reply)
        except InputError as error:
            raise JudgeError(f"the judge {judge_id!r} gave no valid reply: {error}", request) from error

    def _known_of_members(self, requests: Sequence[Request]) -> set[str]:
        """Return the keys of requests that every member of a panel has answered: its reply costs nothing."""
        if not isinstance(self.judge, Composed):
            return set()
        missing = {request for member in self.judge.members for request in self.store.missing(member, requests)}
        return {request_key(request, self.judge.id) for request in requests if request not in missing}

    def _look_up(self, requests: Iterable[Request]) -> Iterator[tuple[str, Request, Reply | None]]:
        judge_id, remaining = self.judge.id, iter(requests)
        while chunk := list(islice(remaining, _CHUNK)):
            keyed = [(request_key(request, judge_id), request) for request in chunk]
            found = self.store.get(key for key, _ in keyed)
            for key, request in keyed:
                yield key, request, found.get(key)

    def __repr__(self) -> str:
        return f"StoredJudge({self.store!r}, {self.judge!r})"
