"""Ways to answer a request incorrectly: a status, malformed HTTP, another body, or an endless stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Document = dict[str, Any]
_JSON = "application/json"
_PIECE = b" " * 2**20


@dataclass(frozen=True)
class Exchange:
    """One request and the good answer to it.

    Parameters
    ----------
    request : aiohttp.web.Request
        The request received.
    work : callable
        Returns the good answer; the model's work counts as paid.
    """

    request: web.Request
    work: Callable[[], Document]


Play = Callable[[Exchange], Awaitable[web.StreamResponse]]


def status(code: int, message: str = "", **headers: str) -> Play:
    """Refuse with a status and an error message; ``_`` in header names stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def play(exchange: Exchange) -> web.StreamResponse:
        text = message.format(key=exchange.request.headers.get("Authorization", ""))
        if code < 400:
            return web.Response(status=code, headers=named)
        return web.json_response({"error": {"message": text}}, status=code, headers=named)

    return play


def raw(data: bytes) -> Play:
    """Send raw bytes, and close the connection."""

    async def play(exchange: Exchange) -> web.StreamResponse:
        transport = exchange.request.transport
        if transport is not None:
            transport.write(data)
            transport.close()
        return web.Response()

    return play


async def reset(exchange: Exchange) -> web.StreamResponse:
    """Reset the connection without sending anything."""
    transport = exchange.request.transport
    if transport is not None:
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()


def body(data: bytes | Callable[[bytes], bytes], code: int = 200, kind: str = _JSON, **headers: str) -> Play:
    """Answer with other bytes, or a transformation of those of the good answer."""
    named = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}

    async def play(exchange: Exchange) -> web.StreamResponse:
        good = json.dumps(exchange.work()).encode()
        return web.Response(body=data(good) if callable(data) else data, status=code, headers=named)

    return play


def changed(change: Callable[[Document], object]) -> Play:
    """Answer with a modified document."""

    async def play(exchange: Exchange) -> web.StreamResponse:
        document = exchange.work()
        change(document)
        return web.json_response(document)

    return play


async def truncated(exchange: Exchange) -> web.StreamResponse:
    """Send half of an answer, and close the connection."""
    whole = json.dumps(exchange.work()).encode()
    response = web.StreamResponse(headers={"Content-Length": str(len(whole)), "Content-Type": _JSON})
    await response.prepare(exchange.request)
    await response.write(whole[: len(whole) // 2])
    if exchange.request.transport is not None:
        exchange.request.transport.close()
    return response


async def hang(exchange: Exchange) -> web.StreamResponse:
    """Answer after a minute."""
    document = exchange.work()
    await asyncio.sleep(60)
    return web.json_response(document)


async def drip(exchange: Exchange) -> web.StreamResponse:
    """Send a byte now and then, for a minute."""
    return await _streamed(exchange, b" ", 3000, 0.02)


async def endless(exchange: Exchange) -> web.StreamResponse:
    """Send up to a gigabyte, until the client stops reading."""
    return await _streamed(exchange, _PIECE, 1024, 0.0)


async def _streamed(exchange: Exchange, piece: bytes, times: int, pause: float) -> web.StreamResponse:
    exchange.work()
    response = web.StreamResponse(headers={"Content-Type": _JSON})
    await response.prepare(exchange.request)
    with contextlib.suppress(ConnectionError):
        for _ in range(times):
            await response.write(piece)
            await asyncio.sleep(pause)
    return response


def bomb(megabytes: int) -> bytes:
    """Return gzip data that decompresses to this many megabytes of spaces."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([packer.compress(_PIECE) for _ in range(megabytes)] + [packer.flush()])


def redirect(code: int, address: str) -> Play:
    """Redirect the client."""
    return status(code, Location=address)
