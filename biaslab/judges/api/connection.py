"""Send one request to one server, and turn errors into a `Fault` or a `JudgeError`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urljoin

from biaslab.core import Request
from biaslab.core.strict_json import RepeatedKeyError, unique
from biaslab.judges.api import faults
from biaslab.judges.api.endpoints import Endpoint
from biaslab.judges.api.reply_size import TooLargeError, bound
from biaslab.judges.api.runner import Loop, Patience

if TYPE_CHECKING:
    import openai

_ELSEWHERE = frozenset({301, 302, 303, 307, 308})
_REDIRECTS = 4  # maximum number of redirects followed for one request
_SHOWN = 4000  # number of characters of a response kept with a failure
_CONNECT = 30.0  # seconds to connect to a server that has answered before


class Owner(Protocol):
    """The judge that sends: its patience, and the number of requests sent."""

    timeout: float
    patience: Patience
    redirects: Literal["refuse", "same_host"]
    attempts: int


class Connection:
    """Sends the messages of one request to one server.

    Parameters
    ----------
    client : openai.AsyncOpenAI
        The client that sends it.
    endpoint : Endpoint
        The server.
    owner : Owner
        Whose attempts are counted.
    request : Request
        The request, for messages.
    """

    def __init__(self, client: openai.AsyncOpenAI, endpoint: Endpoint, owner: Owner, request: Request) -> None:
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
            If the server cannot be reached.
        """
        status, _, body = await self._send("/models", None)
        with contextlib.suppress(faults.NoAnswer):
            return _parse(body) if status < 400 else None

    async def _ask(self, path: str, content: bytes) -> Any:
        key = self._endpoint.key
        status, headers, body = await self._send(path, content)
        if status == 401 and key.can_refresh():
            await asyncio.to_thread(key.header, refresh=True)
            status, headers, body = await self._send(path, content)
        if status >= 300:
            raise faults.of_status(status, key.hide(body.decode("utf-8", "replace")), headers, self.request)
        document = _parse(body)
        wait = faults.rate_limit_wait(headers)
        if wait is not None:
            wait = min(wait, self._owner.patience.minutes * 60)
            self._endpoint.pace.pause(asyncio.get_running_loop().time(), wait)
        return document

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
