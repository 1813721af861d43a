"""A judge backed by a store: asks the underlying judge only requests that the store does not answer.

Each run has a file next to the store with the keys it claims, and a lock on that file which ends with its process:
claims of a killed process are free at once. A run that stores no reply for ten minutes loses its claims too. Claims
hold between threads as between processes; runs of one thread, which may be nested, do not wait for each other. A thread
that waits for a run whose reader stopped asking ends that run: its replies in flight are stored, and it resumes later.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from biaslab.core.checks import require_judge
from biaslab.core.errors import InputError, JudgeError, StoreError
from biaslab.core.interfaces import BaseJudge, Closable, Judge, ReplyBatch, Stoppable, as_judge
from biaslab.core.requests import Request, request_key
from biaslab.core.stopping import draining, handling_signals
from biaslab.core.trials import Reply, Usage, uncollected
from biaslab.store.file import release_space, reserve_space

if TYPE_CHECKING:
    from biaslab.store import Store

try:
    import fcntl
except ImportError:  # Windows, on which every process asks on its own
    fcntl = None  # type: ignore[assignment]

_CHUNK = 2000  # requests looked up at once
_SHORTEST, _LONGEST = 0.05, 1.0  # seconds between two checks for replies that other processes have requested
LEASE = 600.0  # seconds without a reply; more than one attempt of a judge behind a server may take
_MUTEX = "mutex"
AT_ONCE = 0.001  # seconds; a reply that cost something takes longer
TOGETHER = 0.005  # maximum seconds that a reply waits for others
RequestReply = tuple[Request, Reply]


@dataclass
class Tally:
    """Counts of replies and their tokens: new from the judge, or from the store.

    Parameters
    ----------
    asked, stored : int
        Number of replies from the judge; and from the store, or as a repetition of an earlier request.
    usage, stored_usage : Usage
        Tokens of these.

    Examples
    --------
    >>> import biaslab as bl
    >>> tally = Tally()
    >>> tally.count([bl.Reply(text="yes", usage=bl.Usage(10, 0, 1))], asked=True)
    >>> tally.counts
    {'asked': 1, 'stored': 0, 'asked_tokens': 11, 'stored_tokens': 0}
    """

    asked: int = 0
    stored: int = 0
    usage: Usage = field(default_factory=Usage)
    stored_usage: Usage = field(default_factory=Usage)
    #: Sum of the squared tokens of replies asked for.
    _squares: float = field(default=0.0, init=False, repr=False, compare=False)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of replies and of their tokens."""
        tokens = {"asked_tokens": self.usage.tokens, "stored_tokens": self.stored_usage.tokens}
        return {"asked": self.asked, "stored": self.stored, **tokens}

    @property
    def relative_error(self) -> float:
        """Standard error of the mean number of tokens of a reply from the judge, divided by this mean."""
        if self.asked < 2 or not self.usage.tokens:
            return math.inf
        variance = max(self._squares * self.asked / self.usage.tokens**2 - 1, 0.0)
        return math.sqrt(variance / (self.asked - 1))

    def count(self, replies: Collection[Reply], asked: bool) -> None:
        """Count replies: from the judge (``asked``) or from the store."""
        usage = Usage.total([reply.usage for reply in replies])
        if asked:
            self.asked, self.usage = self.asked + len(replies), self.usage + usage
            self._squares += sum(reply.usage.tokens**2 for reply in replies)
        else:
            self.stored, self.stored_usage = self.stored + len(replies), self.stored_usage + usage


#: Total over all stored judges since the process began.
PROCESS = Tally()


class StoredJudge(BaseJudge):
    """A judge whose replies are stored; made by `biaslab.store.Store.wrap`.

    Parameters
    ----------
    store : Store
        Holds the replies.
    judge : Judge
        The underlying judge. Members of a panel are asked only for replies missing from the store, and these are
        stored under the members' own ids.

    Attributes
    ----------
    tally : Tally
        Replies and tokens so far, from the store and from the judge.
    waits : bool
        Whether to wait for replies that other threads and processes have requested instead of asking too; a panel
        does not, because its members do.
    groups : bool
        Whether single replies that the judge gives at once are stored in one transaction; those of a panel are not, nor
        those of a run with a budget, which may have to stop after any reply.

    Raises
    ------
    InputError
        If the judge's id is not encodable text.
    """

    def __init__(self, store: Store, judge: Judge) -> None:
        require_judge(judge)
        try:
            judge.id.encode()
        except UnicodeEncodeError as error:
            raise InputError("judge.id", judge.id, "text without lone surrogates") from error
        self.store, self.judge = store, as_judge(judge)
        self.id, self.kinds = judge.id, judge.kinds  # the judge's own, because replies are stored under its id
        self.reads_prompts, self.score_scale = self.judge.reads_prompts, self.judge.score_scale
        self.thinks, self.is_recorded = self.judge.thinks, self.judge.is_recorded
        self.tally = Tally()
        self._tallies: tuple[Tally, ...] = (self.tally, PROCESS)
        self.waits = self.groups = True
        if self.judge.members:
            members = [StoredJudge(store, member) for member in self.judge.members]
            self.waits = self.groups = False
            self.judge = as_judge(self.judge.of_members(members))
            self._tallies = (self.tally,)  # the members' replies are counted there

    @property
    def thought_tokens(self) -> int:  # type: ignore[override] # a judge may find it out
        """Tokens that the judge may write before each answer."""
        return self.judge.thought_tokens

    @property
    def hits(self) -> int:
        """Number of requests answered from the store so far, or as repetitions."""
        return self.tally.stored

    @property
    def asked(self) -> int:
        """Number of new replies by the judge so far."""
        return self.tally.asked

    def check(self, requests: Iterable[Request]) -> None:
        """Let the judge check the requests that are not stored, if there are any.

        Raises
        ------
        JudgeError
            If the judge cannot answer one of them.
        """
        with uncollected():
            missing = self.store.missing(self.judge, requests)
        if missing:
            self.judge.check(missing)

    def packs(self, requests: Iterable[Request]) -> Generator[list[tuple[Request, Reply]]]:
        """Answer every request as often as it is given, stored replies first, in packs of replies that arrive together.

        Equal requests are asked once. Those that another thread or process on this machine has in flight are not
        asked: the judge waits for their replies, and asks only if that run ends without one. A reply is
        **acknowledged** when it is yielded: it is then on disk, and no kill can lose it. The replies of a pack, and
        single ones that arrive at once, share a transaction before the judge is asked for more. If another process
        stored a reply to the same request meanwhile, that one is yielded.
        If iteration ends early because of an error, a signal (SIGINT, SIGTERM, SIGHUP: `biaslab.core.stopping`) or a
        full disk, the paid replies still in flight are stored too, if the judge's answers are
        `biaslab.core.Stoppable`. A reply that cannot be stored, for example because it contains NaN, is skipped until
        all others are stored, unless it is the first.

        Raises
        ------
        JudgeError
            Whatever the judge raises; errors are not stored. Also if some replies cannot be stored, or if the judge
            answers requests it was not asked or stops early. All other replies stay in the store.
        StoreError
            If a reply cannot be written, for example because the disk is full.
        """
        waiting: dict[str, list[Request]] = {}
        for chunk in self._look_up(requests):
            stored = [(request, reply) for _, request, reply in chunk if reply is not None]
            for key, request, reply in chunk:
                if reply is None:
                    waiting.setdefault(key, []).append(request)
            if stored:
                self._count([reply for _, reply in stored], asked=False)
                yield stored
        if not self.waits:
            yield from self._asked(waiting)
            return
        with closing(Claims(self.store.path)) as claims:
            pause = _SHORTEST
            while waiting:
                mine = claims.take(waiting)
                stored = self._stored_meanwhile(waiting, claims.drained)
                if stored:
                    with claims.suspended():
                        yield stored
                asked = {key: waiting.pop(key) for key in [*waiting] if key in mine and claims.are_held}
                yield from self._asked(asked, claims)
                waiting |= asked  # what another thread has taken over
                if waiting:
                    claims.take_over()
                    time.sleep(pause)
                    pause = min(2 * pause, _LONGEST)

    def _stored_meanwhile(self, waiting: dict[str, list[Request]], drained: set[str]) -> list[tuple[Request, Reply]]:
        """Return replies that others have stored since the last look; the first use of a drained one is counted."""
        answers: list[tuple[Request, Reply]] = []
        uncounted: list[Reply] = []
        for key, reply in self.store.get(waiting).items():
            copies = waiting.pop(key)
            answers += [(copy, reply) for copy in copies]
            uncounted += [reply] * (len(copies) - (key in drained))
        self._count(uncounted, asked=False)
        return answers

    def _asked(self, waiting: dict[str, list[Request]], claims: Claims | None = None) -> Generator[list[RequestReply]]:
        """Ask the judge, and store its replies; what remains in ``waiting`` has no reply."""
        if not waiting:
            return
        requests = [copies[0] for copies in waiting.values()]
        known = set[str]()  # requests that every member of a panel has answered, so that their replies cost nothing
        if self.judge.members:
            known = waiting.keys() - {request_key(each, self.id) for each in self.store.missing(self.judge, requests)}
        answers = Groups(self.judge.packs(requests), self.groups)
        bad, claims = _BadReplies(self.judge.id), claims or Claims(self.store.path)

        def let_go() -> None:
            with claims.lock:
                self._let_go(answers, waiting, known, claims.drained)

        with handling_signals(let_go) as run:
            try:
                if answers.in_flight:  # several paid replies may be lost
                    reserve_space(self.store.path)
                for pack in answers:
                    kept = self._kept(pack, waiting, known, bad)
                    claims.renew()
                    if kept:
                        run.is_inside = False
                        with claims.suspended(let_go):
                            yield kept
                        run.is_inside = True
                        if not claims.are_held:
                            return
                    elif not bad.good:  # no reply can be stored
                        bad.require_none()
            finally:
                run.is_inside = True
                with draining():
                    release_space(self.store.path)
                    let_go()
        if waiting:
            left = next(iter(waiting.values()))[0]
            raise JudgeError(f"the judge {self.judge.id!r} ended with {len(waiting):,} requests unanswered", left)
        bad.require_none()

    def _kept(
        self, pack: ReplyBatch, waiting: dict[str, list[Request]], known: set[str], bad: _BadReplies
    ) -> list[tuple[Request, Reply]]:
        """Store a pack, and return each stored reply as often as its request was given."""
        judge_id = self.judge.id
        fresh: dict[str, tuple[Request, Reply]] = {}
        stranger: Request | None = None
        for request, reply in pack:
            key = request_key(request, judge_id)
            if key not in waiting or key in fresh:
                stranger = stranger or request
                continue
            fresh[key] = request, reply
        answers: list[tuple[Request, Reply]] = []
        new: list[Reply] = []
        old: list[Reply] = []
        for key, kept in zip(fresh, self._keep(list(fresh.values()), bad), strict=True):
            copies = waiting.pop(key)
            if kept is None:
                continue
            answers += [(copy, kept) for copy in copies]
            (old if key in known else new).append(kept)
            old += [kept] * (len(copies) - 1)
        self._count(new, asked=True)
        self._count(old, asked=False)
        bad.good += len(answers)
        if stranger is not None:
            raise JudgeError(f"the judge {judge_id!r} answered a request twice, or one it was not asked", stranger)
        return answers

    def _let_go(self, answers: Groups, waiting: Mapping[str, object], known: set[str], drained: set[str]) -> None:
        """Stop the judge, and store replies that arrive within the grace period after a signal; raise nothing."""
        with draining():
            try:
                for request, reply in answers.stop():
                    key = request_key(request, self.judge.id)
                    if key not in waiting or key in drained:
                        continue
                    for kept in filter(None, self._keep([(request, reply)], _BadReplies(self.judge.id))):
                        drained.add(key)
                        self._count([kept], asked=key not in known)
            except StoreError:
                pass  # the first error is the one to report
            finally:
                answers.close()

    def _count(self, replies: Sequence[Reply], asked: bool) -> None:
        for tally in self._tallies:
            tally.count(replies, asked)

    def _keep(self, pack: ReplyBatch, bad: _BadReplies) -> list[Reply | None]:
        """Store a pack in one transaction; if that fails, one by one, with None for replies that cannot be stored."""
        try:
            return [*self.store.put_all(pack, bad.judge_id)]
        except StoreError:
            raise
        except Exception as error:  # nothing of the pack is stored: a number too large for SQLite, an unknown type, …
            if len(pack) == 1:
                bad.add(pack[0][0], error)
                return [None]
        return [reply for answer in pack for reply in self._keep([answer], bad)]

    def _look_up(self, requests: Iterable[Request]) -> Iterator[list[tuple[str, Request, Reply | None]]]:
        judge_id, remaining = self.judge.id, iter(requests)
        while chunk := list(islice(remaining, _CHUNK)):
            with uncollected():
                keys = [request_key(request, judge_id) for request in chunk]
                replies = self.store.get(keys)
                looked_up = [(key, request, replies.get(key)) for key, request in zip(keys, chunk, strict=True)]
            yield looked_up

    def __repr__(self) -> str:
        return f"StoredJudge({self.store!r}, {self.judge!r})"


class _BadReplies:
    """Replies that could not be stored, each a failure of its own request only."""

    def __init__(self, judge_id: str) -> None:
        self.judge_id, self.good, self._errors = judge_id, 0, list[JudgeError]()

    def add(self, request: Request, error: Exception) -> None:
        """Record a failed reply and the reason."""
        words = str(error) if isinstance(error, InputError) else f"it cannot be kept ({type(error).__name__}: {error})"
        failure = JudgeError(f"the judge {self.judge_id!r} gave no valid reply: {words}", request)
        failure.__cause__ = error
        self._errors.append(failure)

    def require_none(self) -> None:
        """Raise the failures, if there are any."""
        if not self._errors:
            return
        first = self._errors[0]
        if len(self._errors) > 1:
            others = " (all others were)" if self.good else ""
            words = f"{len(self._errors):,} replies could not be stored{others}; the first: {first}"
            raise JudgeError(words, first.request) from first.__cause__
        raise first


_process = {"name": uuid4().hex}


_RUNS: set[Claims] = set()  # of this process
_SUSPENDED = 5.0  # seconds


class Claims:
    """The claims of one run; there are none if files cannot be locked.

    Replies are handed on one pack at a time, and their reader may never ask for the next. Another thread that waits for
    them can then end the run in its place: replies in flight are stored, and the run asks for the rest if it goes on.

    Parameters
    ----------
    store : Path
        The store's file, next to which the claims are.

    Attributes
    ----------
    are_held : bool
        Whether no other thread has ended the run since it last took claims.
    lock : threading.RLock
        Held by the thread that ends the run.
    drained : set of str
        Keys of replies that were stored when the run was ended.
    folder : Path
        The folder of claims on the store.
    """

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(f".{store.name}.claims")
        self._thread, self._file = threading.get_ident(), self.folder
        self._descriptor: int | None = None
        self.are_held, self.lock, self._since = True, threading.RLock(), math.inf
        self._let_go: Callable[[], object] = bool
        self.drained: set[str] = set()

    @property
    def owner(self) -> str:
        """The beginning of the names of this thread's files, which a forked process does not share."""
        return f"{_process['name']}-{self._thread}-"

    @contextlib.contextmanager
    def suspended(self, let_go: Callable[[], object] = bool) -> Iterator[None]:
        """Let other threads end the run, by a function, while its reader has not asked for more for a while."""
        self._let_go, self._since = let_go, time.monotonic()
        try:
            yield
        finally:
            with self.lock:
                self._since = math.inf

    def take_over(self) -> None:
        """End the runs of other threads, with claims on this store, whose readers have not asked for more."""
        for other in list(_RUNS):
            if other.folder == self.folder and other.owner != self.owner:
                other.end_if_suspended()

    def end_if_suspended(self) -> None:
        """End the run, and store its replies in flight, if its reader has been away for a while."""
        if time.monotonic() - self._since > _SUSPENDED and self.lock.acquire(blocking=False):
            try:
                if self._since < math.inf:  # still
                    self.are_held = False
                    with closing(self):
                        self._let_go()
            finally:
                self.lock.release()

    def take(self, keys: Iterable[str]) -> set[str]:
        """Claim those keys that no other thread or living process has claimed, and return them."""
        wanted, self.are_held = set(keys), True
        if fcntl is None:
            return wanted
        try:
            with self._alone():
                free = wanted - self._of_others()
                if free:
                    self._write(free)
                return free
        except OSError:
            return wanted

    def renew(self) -> None:
        """Record that a reply was stored."""
        with contextlib.suppress(OSError):
            os.utime(self._file)

    def close(self) -> None:
        """Release all claims."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        _RUNS.discard(self)
        with contextlib.suppress(OSError), self._alone():
            self._file.unlink(missing_ok=True)
            if [each.name for each in self.folder.iterdir()] == [_MUTEX]:
                (self.folder / _MUTEX).unlink()
                self.folder.rmdir()
        os.close(descriptor)

    def disown(self) -> None:
        """Leave all claims to the process that forked this one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, keys: set[str]) -> None:
        if self._descriptor is None:
            self._file = self.folder / f"{self.owner}{uuid4().hex}"
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            _RUNS.add(self)
        os.write(self._descriptor, "".join(f"{key}\n" for key in sorted(keys)).encode())

    def _of_others(self) -> set[str]:
        """Return the keys that other threads and processes claim, and remove the files of those that have ended."""
        claimed: set[str] = set()
        for file in self.folder.iterdir():
            if file.name == _MUTEX or file.name.startswith(self.owner):
                continue
            with contextlib.suppress(FileNotFoundError):  # that run has just ended
                if not _is_locked(file):
                    file.unlink()
                elif time.time() - file.stat().st_mtime < LEASE:
                    claimed.update(file.read_text(encoding="utf-8").split())
        return claimed

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let only one run at a time access the files."""
        while True:
            self.folder.mkdir(exist_ok=True)
            try:
                mutex = os.open(self.folder / _MUTEX, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            except FileNotFoundError:  # the last other run has just removed the folder
                continue
            fcntl.flock(mutex, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(mutex).st_ino == (self.folder / _MUTEX).stat().st_ino:
                    break
            os.close(mutex)
        try:
            yield
        finally:
            os.close(mutex)


def _is_locked(file: Path) -> bool:
    """Return whether the process that created a file is alive."""
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _disown() -> None:
    """Leave the claims of the process that forked this one to it, so that they end with it."""
    _process["name"] = uuid4().hex
    for each in _RUNS:
        each.disown()
    _RUNS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown)


class Groups(Iterator[ReplyBatch]):
    """Packs of a judge; single replies are joined while each takes less than a millisecond, for at most five.

    A transaction takes longer than such replies, which cost nothing and may be lost in a kill. Those of judges with
    requests in flight (`biaslab.core.Stoppable`) are not joined: their packs hold whatever has arrived.

    Parameters
    ----------
    packs : iterator of packs
        From the ``packs`` of a judge.
    joins : bool
        Whether to join single replies at all.
    """

    def __init__(self, packs: Closable[ReplyBatch], joins: bool) -> None:
        self._packs = packs
        self.in_flight = isinstance(packs, Stoppable)
        self._joins = joins and not self.in_flight
        self._group: list[tuple[Request, Reply]] = []  # kept until the next one is asked for
        self._error: Exception | None = None

    def __next__(self) -> ReplyBatch:
        """Return the next group; an error or the end is raised once the replies before it were returned."""
        if not self._joins:
            return next(self._packs)
        if self._error is not None:
            raise self._error
        self._group = []
        group = self._group
        began = asked = perf_counter()
        while True:
            try:
                pack = next(self._packs)
            except Exception as error:
                if not group:
                    raise
                self._error = error
                return group
            group += pack
            now = perf_counter()
            if len(pack) > 1 or now - asked > AT_ONCE or now - began > TOGETHER:
                return group
            asked = now

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Begin nothing new; yield the replies of the last group, and those that still arrive."""
        yield from self._group
        if isinstance(self._packs, Stoppable):
            yield from self._packs.stop()

    def close(self) -> None:
        """Begin nothing new, and drop what is in flight."""
        self._packs.close()
