"""Send many requests at once from an event loop in its own thread, behind a synchronous interface."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from biaslab.core.errors import JudgeError, ServerError, UnreachableError
from biaslab.core.files import RepeatedKeyError, unique
from biaslab.core.output import count
from biaslab.core.requests import Request
from biaslab.core.stopping import seconds_left
from biaslab.core.trials import Reply
from biaslab.judges.api import faults
from biaslab.judges.api.endpoints import Endpoint, Endpoints
from biaslab.judges.api.faults import Fault, TooLargeError, bound

if TYPE_CHECKING:
    import openai

    from biaslab.judges.api import ApiJudge, ThoughtsByBudget

Attempt = Callable[[Request, Endpoint], Awaitable[Reply]]
_LONGEST_WAIT = 60.0  # maximum seconds between two attempts, unless the server asks for more


class Loop:
    """An event loop in a daemon thread, so that a judge works inside Jupyter's own running loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="biaslab-api", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Return whether the thread runs; after a fork it does not."""
        return self._thread.is_alive()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Schedule a function in the loop's thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function, *arguments)

    def wait(self, work: Coroutine[Any, Any, object], seconds: float | None = None) -> Any:
        """Run a coroutine in the loop's thread and wait for its result, unless called from that thread."""
        if threading.current_thread() is self._thread:
            return self.loop.create_task(work)
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def close(self) -> None:
        """End the thread, whatever it is doing."""
        if self._thread.is_alive():
            self.call(self.loop.stop)
            if threading.current_thread() is not self._thread:
                self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
        finally:
            self.loop.close()


@dataclass(frozen=True)
class Patience:
    """Limits on retries: how often and how long.

    Attributes
    ----------
    retries : int
        Retries of a request after faults of the server.
    minutes : float
        How long a server may turn a request away without cost, because it is overloaded or unreachable. Longer waits
        requested by a server are cut to this.
    first_wait : float
        Seconds before the second attempt; doubled from one attempt to the next, with random jitter.
    grace : float
        Seconds to wait for replies in flight when a run ends early.
    reach : float
        Seconds within which a server must be reached for the first time: if nothing responds at the address by then,
        after a few attempts, the run ends. The time to answer does not count, and after any first response ``minutes``
        applies.
    """

    retries: int = 6
    minutes: float = 60.0
    first_wait: float = 0.5
    grace: float = 30.0
    reach: float = 6.0


class _Item:
    """A request with its attempts so far."""

    __slots__ = ("attempts", "avoided", "costly", "request", "since")

    def __init__(self, request: Request) -> None:
        self.request, self.attempts, self.costly, self.since = request, 0, 0, 0.0
        self.avoided: Endpoint | None = None  # where it last failed


class ReplyStream(Iterator[list[tuple[Request, Reply]]]):
    """Replies to requests, in packs of all that have arrived; made by `ApiJudge.packs`.

    Requests are sent while replies are consumed. Replies that wait to be consumed count as in flight, so that no more
    than that is lost with a process that is killed. If a request fails permanently, or as often as allowed while no
    other is answered either, nothing more is sent, replies in flight are yielded, and then the error is raised. A
    request that fails alone is postponed until all others are answered.
    """

    def __init__(
        self,
        loop: Loop,
        attempt: Attempt,
        endpoints: Endpoints,
        patience: Patience,
        requests: Sequence[Request],
        proven: set[type],
        taking: Callable[[Reply], None],
        retrying: Callable[[str], object],
        watching: ThoughtsByBudget,
    ) -> None:
        self._loop, self._attempt, self._endpoints, self._patience = loop, attempt, endpoints, patience
        self._taking, self._retrying, self._watching = taking, retrying, watching
        self._proven = proven  # kinds answered by this server: the first request of a kind is sent alone
        self._trying: type | None = None  # the kind sent last
        self._is_fresh = True  # whether the request sent last was new
        self._pending = deque(_Item(request) for request in requests)
        self._again: deque[_Item] = deque()  # failed requests; taken in turns with new ones, so that neither starves
        self._ready: deque[tuple[Request, Reply]] = deque()  # replies, kept until the next ones are asked for
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()  # one item per reply, and one for the end
        self._tasks: set[asyncio.Task[None]] = set()
        self._later: set[asyncio.TimerHandle] = set()
        self._wake: asyncio.TimerHandle | None = None
        self._arrived = self._consumed = 0  # written by the loop's thread, and by the caller's
        self._yielded = 0  # number of ready replies already yielded
        self._full = self._ending = self._ended = self._over = False
        self._last_reply = 0.0
        self._error: JudgeError | None = None
        self._left: list[JudgeError] = []
        loop.call(self._fill)

    def __next__(self) -> list[tuple[Request, Reply]]:
        """Wait for at least one reply, and return all that have arrived."""
        for _ in range(self._yielded):
            self._ready.popleft()
        self._consumed += self._yielded
        if self._yielded and self._full:
            self._loop.call(self._fill)
        self._yielded = 0
        if self._over:
            raise StopIteration
        self._news.get()
        if not self._ready:
            self._over = True
            if self._error is not None:
                raise self._error
            raise StopIteration
        self._yielded = 1
        while self._yielded < len(self._ready):
            self._news.get()  # one item per reply
            self._yielded += 1
        answers = [self._ready[at] for at in range(self._yielded)]
        for _, reply in answers:
            self._taking(reply)
        return answers

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Stop sending; yield replies in flight as they arrive, because they are paid for.

        The replies yielded last are repeated, because the caller may not have stored them.
        """
        if self._over:
            return
        self._loop.call(self._end, None)
        self._yielded = 0
        while True:
            ended = self._ended  # read first: a reply may arrive between the last look at `_ready` and this one
            while self._ready:
                yield self._ready[0]
                self._ready.popleft()
            if ended:
                break
            try:
                self._news.get(timeout=min(self._patience.grace, seconds_left()) + 5)
            except queue.Empty:  # the loop's thread is gone
                break
        self._over = True

    def close(self) -> None:
        """Stop sending and drop replies in flight."""
        if not self._over:
            self._over = True
            self._loop.call(self._abandon)

    def __del__(self) -> None:
        self.close()

    def _fill(self) -> None:
        """Send as many requests as may be in flight."""
        now = self._loop.loop.time()
        if (self._pending or self._again) and (until := self._endpoints.until(now)) > now:
            self._wake_at(until)
        while (self._pending or self._again) and len(self._tasks) < self._endpoints.limit(now):
            self._full = self._arrived - self._consumed + len(self._tasks) >= self._endpoints.most
            waiting = self._waiting()
            kind = type(waiting[0].request)
            alone = {kind, self._trying or kind} - self._proven
            is_held = self._watching.holds(len(self._tasks) + len(self._later))
            if self._full or is_held or (alone and (self._tasks or self._later)):
                break
            item, self._trying, self._is_fresh = waiting.popleft(), kind, waiting is self._pending
            task = self._loop.loop.create_task(self._serve(item, now))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        if not (self._pending or self._again or self._tasks or self._later or self._ended):
            self._ended = True
            self._error = self._error or _left_out(self._left)
            self._news.put(None)

    def _waiting(self) -> deque[_Item]:
        """Return the source of the next request: alternating, but a kind without any reply yet is tried first."""
        if not (self._again and self._pending):
            return self._again or self._pending
        is_next = self._is_fresh or type(self._again[0].request) not in self._proven
        return self._again if is_next else self._pending

    async def _serve(self, item: _Item, sent: float) -> None:
        if not item.attempts:
            item.since = sent
        item.attempts += 1
        clock, endpoint = self._loop.loop.time, self._endpoints.choose(sent, item.avoided)
        try:
            reply = await self._attempt(item.request, endpoint)
        except Fault as fault:
            if fault.wait is not None:  # servers may ask for absurd waits
                fault.wait = min(fault.wait, self._patience.minutes * 60)
            item.avoided = endpoint
            if self._endpoints.failed(endpoint, fault, sent, clock()):
                self._ask_elsewhere(item, fault)
            else:
                self._try_again(item, fault)
        except JudgeError as error:
            self._end(error)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # a bug here must not leave the caller waiting
            self._end(JudgeError(f"the API judge failed with {type(error).__name__}", item.request))
        else:
            self._last_reply = clock()
            endpoint.replied(sent, self._last_reply)
            self._proven.add(type(item.request))
            self._arrived += 1
            self._ready.append((item.request, reply))
            self._news.put(None)
            if why := self._watching.error(item.request):
                self._end(why)
        finally:
            endpoint.in_flight -= 1

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._fill()

    def _ask_elsewhere(self, item: _Item, fault: Fault) -> None:
        """Put a request that no server took back to the front."""
        if not self._ending:
            item.attempts -= 1
            self._pending.appendleft(item)
            self._retrying(str(fault))

    def _try_again(self, item: _Item, fault: Fault) -> None:
        if self._ending:
            return
        loop, patience = self._loop.loop, self._patience
        item.costly += not fault.refused
        tried = loop.time() - item.since
        wait = patience.first_wait if fault.wait is not None else patience.first_wait * 2 ** min(item.attempts - 1, 16)
        wait = (fault.wait or 0.0) + min(wait, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
        if fault.unreached and tried + wait > patience.reach:
            asked = f"asked {count(item.attempts, 'time')} in {tried:.0f} s"
            words = f"{fault}, {asked}; start the server, or check its address"
            self._end(UnreachableError(words, item.request))
            return
        if item.costly > patience.retries or (fault.refused and tried > patience.minutes * 60):
            words = f"a request failed {count(item.attempts, 'time')}, most recently because {fault}"
            gone = UnreachableError if fault.refused and fault.status is None else ServerError
            error = gone(f"{words}; run again to ask the missing requests", item.request, status=fault.status)
            if fault.body:
                error.add_note(f"the server's last response: {fault.body}")
            if self._last_reply < item.since:
                self._end(error)
            else:
                self._left.append(error)
            return
        handle: asyncio.TimerHandle

        def again() -> None:
            self._later.discard(handle)
            self._again.append(item)
            self._fill()

        handle = loop.call_later(wait, again)
        self._later.add(handle)
        self._retrying(str(fault))  # last, so that the request is retried even if the callback fails

    def _end(self, error: JudgeError | None) -> None:
        """Stop sending, wait for replies in flight, then raise the first error."""
        self._ending, self._error = True, self._error or error
        self._pending.clear()
        self._again.clear()
        for handle in self._later:
            handle.cancel()
        self._later.clear()
        self._loop.loop.call_later(min(self._patience.grace, seconds_left()), self._cancel)
        self._loop.loop.call_soon(self._fill)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _abandon(self) -> None:
        self._end(None)
        self._cancel()

    def _wake_at(self, moment: float) -> None:
        if self._wake is None or self._wake.cancelled() or self._wake.when() < self._loop.loop.time():
            self._wake = self._loop.loop.call_at(moment, self._fill)


def _left_out(errors: Sequence[JudgeError]) -> JudgeError | None:
    if len(errors) < 2:
        return errors[0] if errors else None
    words = f"{len(errors):,} requests failed, all others were answered; the first failure: {errors[0]}"
    return type(errors[0])(words, errors[0].request)


_ELSEWHERE = frozenset({301, 302, 303, 307, 308})
_REDIRECTS = 4  # maximum number of redirects followed for one request
_SHOWN = 4000  # number of characters of a response kept with a failure
_CONNECT = 30.0  # seconds to connect to a server that has answered before


class Connection:
    """Sends the messages of one request to one server.

    Parameters
    ----------
    client : openai.AsyncOpenAI
        The client that sends it.
    endpoint : Endpoint
        The server.
    owner : ApiJudge
        The judge, whose attempts are counted.
    request : Request
        The request, for messages.
    """

    def __init__(self, client: openai.AsyncOpenAI, endpoint: Endpoint, owner: ApiJudge, request: Request) -> None:
        self._client, self._endpoint, self._owner, self.request = client, endpoint, owner, request
        self._body = b""

    @property
    def body(self) -> str:
        """The last reply, truncated to the length of a message."""
        return self._endpoint.key.hide(self._body[:_SHOWN].decode("utf-8", "replace"))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Post a body to a path of the server, or to an address, and return the JSON response.

        Raises
        ------
        Fault
            If another attempt may succeed.
        Filtered
            If the server's content filter blocked the prompt.
        JudgeError
            If the server refuses.
        """
        return await self._ask(path, json.dumps(body, ensure_ascii=False).encode())

    async def models(self) -> Any:
        """Return the server's list of models, None if it has none.

        Raises
        ------
        Fault
            If the server cannot be reached, or is too busy to tell.
        """
        status, headers, body = await self._send_with_key("/models", None)
        if faults.is_passing(status):
            raise faults.of_status(status, self.body, headers, self.request)
        with contextlib.suppress(faults.NoAnswer):
            return _parse(body) if status < 400 else None

    async def _ask(self, path: str, content: bytes) -> Any:
        key = self._endpoint.key
        status, headers, body = await self._send_with_key(path, content)
        if status >= 300:
            raise faults.of_status(status, key.hide(body.decode("utf-8", "replace")), headers, self.request)
        document = _parse(body)
        wait = faults.rate_limit_wait(headers)
        if wait is not None:
            wait = min(wait, self._owner.patience.minutes * 60)
            self._endpoint.pace.pause(asyncio.get_running_loop().time(), wait)
        return document

    async def _send_with_key(self, path: str, content: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """Send, and once more with a fresh key if the server no longer accepts the old one."""
        sent = await self._send(path, content)
        key = self._endpoint.key
        if sent[0] != 401 or not key.can_refresh():
            return sent
        await asyncio.to_thread(key.header, refresh=True)
        return await self._send(path, content)

    async def _send(self, path: str, content: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """Send a body, or a GET without one; return status, headers and body, or raise `Fault` without a response.

        Redirects are followed with the same request, if the judge allows it and they stay on the server.
        """
        url = path if "://" in path else self._endpoint.url + path
        for hop in range(1, _REDIRECTS + 1):
            status, headers, self._body = await self._send_once(url, content)
            if status not in _ELSEWHERE:
                break
            address = urljoin(url, headers.get("location", ""))
            is_allowed = self._owner.redirects == "same_host" and faults.is_same_host(self._endpoint.url, address)
            if not is_allowed or hop == _REDIRECTS:
                shown = self._endpoint.key.hide(address.partition("?")[0]) if headers.get("location") else ""
                raise faults.of_redirect(status, shown, self._endpoint.url, self.request)
            url = address
        return status, headers, self._body

    async def _send_once(self, url: str, content: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """Send to one address.

        Nothing is raised inside an ``except``, because the SDK's errors hold the request with its headers, including
        the key.
        """
        import openai

        http, endpoint, owner = _http(), self._endpoint, self._owner
        connect = _CONNECT if endpoint.is_reached and not endpoint.out_until else owner.patience.reach
        options: Any = {"headers": {"Authorization": endpoint.key.header() or openai.Omit()}, "max_retries": 0}
        options["timeout"] = http.Timeout(owner.timeout, connect=min(owner.timeout, connect))
        owner.attempts += 1
        try:
            async with asyncio.timeout(owner.timeout):
                if content is None:
                    response = await self._client.get(url, cast_to=http.Response, options=options)
                else:
                    response = await self._client.post(url, cast_to=http.Response, content=content, options=options)
            endpoint.is_reached = True
            return response.status_code, response.headers, endpoint.key.hide_in(response.content)
        except openai.APIStatusError as error:
            endpoint.is_reached = True
            return error.status_code, error.response.headers, error.response.content
        except (openai.OpenAIError, http.HTTPError, *_broken(), OSError, TimeoutError, TooLargeError) as error:
            fault = faults.of_connection(error, endpoint.url)
        raise fault


def open_client(url: str, timeout: float, most: int) -> openai.AsyncOpenAI:
    """Open a client of the SDK on its aiohttp transport; certificates are verified, and retries are biaslab's own."""
    import openai

    http = _http()
    limits = http.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=30.0)
    times = http.Timeout(timeout, connect=min(timeout, _CONNECT))
    client = openai.DefaultAioHttpClient(limits=limits, timeout=times, follow_redirects=False)
    client.event_hooks = {"request": [], "response": [partial(bound, http)]}
    return openai.AsyncOpenAI(api_key="see-header", base_url=url, max_retries=0, http_client=client)


def shut(loop: Loop, client: openai.AsyncOpenAI) -> None:
    """Close a client and end its loop."""
    if loop.is_alive():
        with contextlib.suppress(TimeoutError, RuntimeError):
            loop.wait(client.close(), 5)
        loop.close()


@cache
def _http() -> Any:
    """Return the HTTP package that the SDK uses."""
    import openai

    return import_module("httpx2" if int(openai.__version__.partition(".")[0]) >= 3 else "httpx")


@cache
def _broken() -> tuple[type[Exception], ...]:
    """Return the errors for malformed HTTP, which the SDK's transport does not convert."""
    aiohttp = import_module("aiohttp")
    return aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError


def _parse(body: bytes) -> object:
    try:
        return json.loads(body, object_pairs_hook=unique)
    except RepeatedKeyError as error:
        words = f"the server sent contradictory JSON: {error}"
    except ValueError:
        words = "the server sent invalid JSON" if body.strip() else "the server sent an empty response"
    raise faults.NoAnswer(words)
