"""Connections that are used again only if nothing is left to read on them.

HTTP/1.1 pairs responses with requests by their order alone. A server or proxy that sends one response too many on a
connection that stays open would answer every later request on it with the response to the one before. A surplus
response that arrives while the next request waits looks like its answer, unless a proxy repeats the name of the request
(``X-Request-Id``) or vLLM makes it the response's id: then both are compared (`biaslab.judges.api.runner`). Imported
with the HTTP package, which takes a third of a second.
"""

from __future__ import annotations

import asyncio
import select
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import aiohttp

#: Errors for malformed HTTP, which the SDK's transport does not convert.
BROKEN = aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError


class CleanConnector(aiohttp.TCPConnector):
    """Closes connections on which more than one response arrived, and uses none twice from then on.

    Attributes
    ----------
    reuses : bool
        Whether connections are used more than once; false after the first surplus response.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.reuses = True
        self._used: WeakSet[Any] = WeakSet()

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        """Return a new connection, or one on which nothing is left to read."""
        while True:
            connection = await super().connect(*arguments, **options)
            protocol, task = connection.protocol, asyncio.current_task()
            is_used = protocol in self._used
            if is_used and not self._is_clean(protocol):
                connection.close()
                continue
            self._used.add(protocol)
            _CONNECTORS[task] = self
            connection.add_callback(partial(self._released, protocol, task, is_used))
            return connection

    def _is_clean(self, protocol: Any) -> bool:
        self.reuses &= not getattr(protocol, "_buffer", ())  # a response that nobody has read
        if not self.reuses or protocol.transport is None:
            return False
        descriptor = protocol.transport.get_extra_info("socket").fileno()
        if not hasattr(select, "poll"):  # Windows, where the number of a socket may be large
            return not select.select([descriptor], [], [], 0)[0]
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return not poll.poll(0)

    def _released(self, protocol: Any, task: object, is_used: bool) -> None:
        if getattr(protocol, "_buffer", ()):
            self.reuses = False
            if is_used:  # the first response on a connection is that to its request
                _SURPLUS.add(task)


_CONNECTORS: WeakKeyDictionary[Any, CleanConnector] = WeakKeyDictionary()  # of the last request of each task
_SURPLUS: WeakSet[Any] = WeakSet()  # tasks whose last response was followed by another one


def was_followed() -> bool:
    """Return whether another response followed the one to the last request of this task, so that neither is sure."""
    is_followed = (task := asyncio.current_task()) in _SURPLUS
    _SURPLUS.discard(task)
    return is_followed


def distrust() -> None:
    """Use no connection twice from now on, because the last response to this task was that to another request."""
    if (task := asyncio.current_task()) in _CONNECTORS:
        _CONNECTORS[task].reuses = False


def use_clean_connections(client: Any, most: int, keepalive: float) -> None:
    """Let a client of the SDK use such connections, also through proxies.

    Parameters
    ----------
    client : httpx.AsyncClient
        The client with its aiohttp transports.
    most : int
        Maximum number of connections.
    keepalive : float
        Seconds after which an unused connection is closed.
    """

    def session(transport: Any) -> aiohttp.ClientSession:
        connector = CleanConnector(limit=most, keepalive_timeout=keepalive, ssl=transport.ssl_context)
        return aiohttp.ClientSession(connector=connector)

    for transport in {client._transport, *client._mounts.values()} - {None}:  # noqa: SLF001 - there is no public way
        transport.client = partial(session, transport)
