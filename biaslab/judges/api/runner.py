"""Send the requests of an API judge: each in its turn, again after a fault, to one of several servers.

Connections, their pool and the time limits within an attempt are the SDK's and its HTTP package's. Retries are ours,
because they share one pace: measured beside ``AsyncOpenAI(max_retries=6)`` behind a semaphore
(`benchmarks/api_client.py`; 500 requests, 64 in flight, one run), a server that allows 40 requests a second turned away
.26 requests per reply of ours and 1.44 of the SDK's, in 1.04 of the time; one that takes 16 at a time .04 and .37, in
.62 of the time. After Ctrl-C 0 and 50 answers were paid for twice, after SIGKILL 33 and 48.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin
from uuid import uuid4

from biaslab.core.checks import fits, require_whole
from biaslab.core.errors import InputError, JudgeError, ServerError, UnreachableError
from biaslab.core.files import RepeatedKeyError, unique
from biaslab.core.output import count
from biaslab.core.requests import Completion, Request
from biaslab.core.trials import DECLINED, Reply, Usage
from biaslab.judges.api import faults
from biaslab.judges.api.endpoints import Endpoint, Endpoints
from biaslab.judges.api.faults import Fault, TooLargeError, bound
from biaslab.judges.api.wire import usage_in
from biaslab.judges.in_flight import InFlight, Loop

if TYPE_CHECKING:
    import openai

    from biaslab.judges.api import ApiJudge, ThoughtsByBudget

Attempt = Callable[[Request, Endpoint], Awaitable[Reply]]
_LONGEST_WAIT = 60.0  # maximum seconds between two attempts, unless the server asks for more


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

    def __post_init__(self) -> None:
        require_whole("patience.retries", self.retries, 0)
        for name in ("minutes", "first_wait", "grace", "reach"):
            value = getattr(self, name)
            if not fits(value, float) or not value >= 0:
                raise InputError(f"patience.{name}", value, "a number of at least 0")


class _Item:
    """A request with its attempts so far."""

    task: asyncio.Task[None]

    def __init__(self, request: Request) -> None:
        self.request, self.attempts, self.costly, self.since = request, 0, 0, 0.0
        self.avoided: Endpoint | None = None  # where it last failed
        self.reply: Reply | None = None


class ReplyStream(InFlight[Request]):
    """Replies to requests, in packs of all that have arrived; made by `ApiJudge.packs`.

    Each request is a task of the event loop, which waits for its turn, sends, and waits again after a fault. If a
    request fails permanently, or as often as allowed while no other is answered either, nothing more is sent, replies
    in flight are yielded, and then the error is raised. The error of a request that fails alone is raised after all
    others are answered.
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
        super().__init__(requests, endpoints.most, patience.grace)
        self._loop, self._attempt, self._endpoints, self._patience = loop, attempt, endpoints, patience
        self._taking, self._retrying, self._watching = taking, retrying, watching
        self._proven = proven  # kinds answered by this server: the first request of a kind is sent alone
        self._trying: type | None = None  # the kind sent last
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent: set[asyncio.Task[None]] = set()  # those whose request is at a server
        self._turns: deque[tuple[_Item, asyncio.Future[Endpoint]]] = deque()  # those that wait to be sent
        self._sleeping = 0  # requests that wait after a fault, which take no room from others
        self._is_full = False  # whether a request waits until replies are consumed
        self._wake: asyncio.TimerHandle | None = None
        self._last_reply = 0.0
        self._left: list[JudgeError] = []

    def __next__(self) -> list[tuple[Request, Reply]]:
        """Wait for at least one reply, and return all that have arrived."""
        pack = super().__next__()
        for _, reply in pack:
            self._taking(reply)
        return pack

    def __del__(self) -> None:
        self.close()

    def _start(self, work: Sequence[Request]) -> None:
        self._loop.call(self._begin, work)

    def _send(self) -> None:
        super()._send()
        if self._is_full:
            self._loop.call(self._fill)

    def _room(self) -> int:
        return super()._room() + self._sleeping

    def _cease(self) -> None:
        self._loop.call(self._cancel, False)

    def _drop(self) -> None:
        self._loop.call(self._cancel, True)

    def _outcome(self) -> BaseException | None:
        return self._error or _left_out(self._left)

    def _begin(self, requests: Sequence[Request]) -> None:
        for request in requests:
            item = _Item(request)
            item.task = self._loop.loop.create_task(self._serve(item))
            item.task.add_done_callback(partial(self._done, item))
            self._tasks.add(item.task)

    def _done(self, item: _Item, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ended(item.request, [] if item.reply is None else [(item.request, item.reply)])
        self._fill()

    def _cancel(self, everything: bool) -> None:
        for task in self._tasks if everything else self._tasks - self._sent:
            task.cancel()

    async def _serve(self, item: _Item) -> None:
        """Send a request until it is answered or given up."""
        try:
            while not self._is_ending:
                wait = await self._try(item, await self._turn(item))
                if wait is None or self._is_ending:
                    break
                await self._sleep(wait)
            if item.reply is not None and (why := self._watching.error(item.request)):
                self._fail(why)
        except JudgeError as error:
            self._fail(error)
        except Exception as error:  # a bug here must not leave the caller waiting
            self._fail(JudgeError(f"the API judge failed with {type(error).__name__}", item.request))

    async def _sleep(self, seconds: float) -> None:
        """Wait after a fault, while another request takes the place."""
        self._sleeping += 1
        self._news.put(None)
        self._fill()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._sleeping -= 1

    async def _turn(self, item: _Item) -> Endpoint:
        """Wait until a request may be sent, and return where to."""
        turn: asyncio.Future[Endpoint] = self._loop.loop.create_future()
        is_first = item.attempts and type(item.request) not in self._proven
        (self._turns.appendleft if is_first else self._turns.append)((item, turn))
        self._fill()
        return await turn

    def _fill(self) -> None:
        """Send as many requests as may be in flight."""
        now = self._loop.loop.time()
        self._is_full = False
        while self._turns and not self._is_ending and len(self._sent) < self._endpoints.limit(now):
            if len(self._sent) + len(self._arrived) >= self._most:
                self._is_full = True
                return
            item, turn = self._turns[0]
            kind, busy = type(item.request), len(self._sent) + self._sleeping
            alone = {kind, self._trying or kind} - self._proven
            if (alone and busy) or self._watching.holds(busy):
                return
            self._turns.popleft()
            self._trying = kind
            self._sent.add(item.task)
            turn.set_result(self._endpoints.choose(now, item.avoided))
        is_awaited = self._wake is not None and self._wake.when() >= now
        if self._turns and not is_awaited and (until := self._endpoints.until(now)) > now:
            self._wake = self._loop.loop.call_at(until, self._fill)

    async def _try(self, item: _Item, endpoint: Endpoint) -> float | None:
        """Send a request once; return the seconds before the next attempt, None if there is none."""
        clock = self._loop.loop.time
        sent = clock()
        item.since = item.since if item.attempts else sent
        item.attempts += 1
        try:
            item.reply = await self._attempt(item.request, endpoint)
        except Fault as fault:
            if fault.wait is not None:  # servers may ask for absurd waits
                fault.wait = min(fault.wait, self._patience.minutes * 60)
            item.avoided = endpoint
            is_elsewhere = self._endpoints.failed(endpoint, fault, sent, clock())
            if is_elsewhere:  # no server took it
                item.attempts -= 1
            wait = 0.0 if is_elsewhere else self._wait_after(fault, item, clock())
            if wait is not None and not self._is_ending:
                with contextlib.suppress(Exception):  # a callback that fails does not end the run
                    self._retrying(str(fault))
            return wait
        finally:
            endpoint.in_flight -= 1
            self._sent.discard(item.task)
        self._last_reply = clock()
        endpoint.replied(sent, self._last_reply)
        if isinstance(item.request, Completion) or item.reply.finish_reason not in DECLINED:
            self._proven.add(type(item.request))  # a filtered prompt does not show whether there are log-probabilities
        return None

    def _wait_after(self, fault: Fault, item: _Item, now: float) -> float | None:
        """Return the seconds to wait after a fault; None if the request is given up."""
        patience, tried = self._patience, now - item.since
        if fault.permanent:
            raise ServerError(str(fault), item.request)
        item.costly += not fault.refused
        wait = patience.first_wait if fault.wait is not None else patience.first_wait * 2 ** min(item.attempts - 1, 16)
        wait = (fault.wait or 0.0) + min(wait, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
        if fault.unreached and tried + wait > patience.reach:
            asked = f"asked {count(item.attempts, 'time')} in {tried:.0f} s"
            remedy = "start the server, or check its address"
            raise UnreachableError(f"{fault}, {asked}", item.request, remedy=remedy)
        if item.costly > patience.retries or (fault.refused and tried > patience.minutes * 60):
            words = f"a request failed {count(item.attempts, 'time')}, most recently because {fault}"
            gone = UnreachableError if fault.refused and fault.status is None else ServerError
            remedy = "run again to ask the missing requests"
            error = gone(words, item.request, remedy=remedy, status=fault.status)
            if fault.body:
                error.add_note(f"the server's last response: {fault.body}")
            if self._last_reply < item.since:
                raise error from None
            self._left.append(error)
            return None
        return wait


def _left_out(errors: Sequence[JudgeError]) -> JudgeError | None:
    if len(errors) < 2:
        return errors[0] if errors else None
    words = f"{len(errors):,} requests failed, all others were answered; the first failure: {errors[0]}"
    return type(errors[0])(words, errors[0].request)


_ELSEWHERE = frozenset({301, 302, 303, 307, 308})
_REDIRECTS = 4  # maximum number of redirects followed for one request
_SHOWN = 4000  # number of characters of a response kept with a failure
_CONNECT = 30.0  # seconds to connect to a server that has answered before
_NAME = "X-Request-Id"  # which proxies repeat, and vLLM in the id of its response; begins with a hash of the request
_OURS = re.compile(rb"biaslab-([0-9a-f]{16})[0-9a-f]{16}")
_OTHER = "the server sent the response to another request"
_IDLE = 30.0  # seconds after which an unused connection is closed


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

    Attributes
    ----------
    usage : Usage
        Tokens of all responses.
    """

    def __init__(self, client: openai.AsyncOpenAI, endpoint: Endpoint, owner: ApiJudge, request: Request) -> None:
        self._client, self._endpoint, self._owner, self.request = client, endpoint, owner, request
        self._body, self.usage = b"", Usage()

    @property
    def body(self) -> str:
        """The last reply, truncated to the length of a message."""
        return self._endpoint.key.hide(self._body[: 2 * _SHOWN].decode("utf-8", "replace"))[:_SHOWN]

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
        key, content = self._endpoint.key, json.dumps(body, ensure_ascii=False).encode()
        status, headers, answer = await self._send_with_key(path, content)
        if status >= 300 or status in faults.PASSING:
            raise faults.of_status(status, key.hide(answer.decode("utf-8", "replace")), headers, self.request)
        document = _parse(answer)
        self.usage += usage_in(document)
        name = document.get("id") if isinstance(document, dict) else None
        if self._endpoint.is_repeated(name, content):
            _connections().distrust()
            raise Fault(_OTHER)
        return document

    async def models(self) -> Any:
        """Return the server's list of models, None if it has none.

        Raises
        ------
        Fault
            If the server cannot be reached, or is too busy to tell.
        """
        status, headers, body = await self._send_with_key("/models", None)
        if status in faults.PASSING:
            raise faults.of_status(status, self.body, headers, self.request)
        with contextlib.suppress(faults.NoAnswer):
            return _parse(body) if status < 400 else None

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

        http, reuse, endpoint, owner = _http(), _connections(), self._endpoint, self._owner
        connect = _CONNECT if endpoint.is_reached and not endpoint.out_until else owner.patience.reach
        asked = blake2b(content or url.encode(), digest_size=8).hexdigest()
        name = f"biaslab-{asked}{uuid4().hex[:16]}"
        fields = {"Authorization": endpoint.key.header() or openai.Omit(), _NAME: name}
        options: Any = {"headers": fields, "max_retries": 0}
        options["timeout"] = http.Timeout(owner.timeout, connect=min(owner.timeout, connect))
        owner.attempts += 1
        answer: tuple[int, Mapping[str, str], bytes] | Fault
        try:
            async with asyncio.timeout(owner.timeout):
                if content is None:
                    response = await self._client.get(url, cast_to=http.Response, options=options)
                else:
                    response = await self._client.post(url, cast_to=http.Response, content=content, options=options)
            endpoint.is_reached = True
            answer = response.status_code, response.headers, endpoint.key.hide_in(response.content)
        except openai.APIStatusError as error:
            endpoint.is_reached = True
            answer = error.status_code, error.response.headers, endpoint.key.hide_in(error.response.content)
        except (openai.OpenAIError, http.HTTPError, *reuse.BROKEN, OSError, TimeoutError, TooLargeError) as error:
            answer = faults.of_connection(error, endpoint.url)
        if isinstance(answer, Fault):
            raise answer
        if reuse.was_followed():
            raise Fault("the server sent two responses to one request")
        named = {*_OURS.findall(answer[2]), *_OURS.findall(str(answer[1].get(_NAME)).encode())}
        if named - {asked.encode()}:
            reuse.distrust()
            raise Fault(_OTHER)
        return answer


def open_client(url: str, timeout: float, most: int) -> openai.AsyncOpenAI:
    """Open a client of the SDK on its aiohttp transport; certificates are verified, and retries are biaslab's own."""
    import openai

    http = _http()
    limits = http.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=_IDLE)
    times = http.Timeout(timeout, connect=min(timeout, _CONNECT))
    verify = _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    client = openai.DefaultAioHttpClient(verify=verify, limits=limits, timeout=times, follow_redirects=False)
    _connections().use_clean_connections(client, most, _IDLE)
    client.event_hooks = {"request": [], "response": [partial(bound, http, asyncio.Semaphore(faults.MOST_LARGE))]}
    return openai.AsyncOpenAI(api_key="see-header", base_url=url, max_retries=0, http_client=client)


def close_client(loop: Loop, client: openai.AsyncOpenAI) -> None:
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
def _certificates(*_named: str | None) -> Any:
    """Return TLS settings for certificates named in the environment; to read them for each client takes 20 ms."""
    return _http().create_ssl_context()


@cache
def _connections() -> Any:
    """Return the module of connections, which imports the SDK's transport."""
    return import_module("biaslab.judges.api.connections")


def _parse(body: bytes) -> object:
    try:
        return json.loads(body, object_pairs_hook=unique)
    except RepeatedKeyError as error:
        words = f"the server sent contradictory JSON: {error}"
    except ValueError:
        words = "the server sent invalid JSON" if body.strip() else "the server sent an empty response"
    raise faults.NoAnswer(words)
