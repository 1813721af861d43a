"""Limit the size of responses, also of compressed or endless ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Any

MOST_BYTES = 64 * 2**20  # log-probabilities of the longest prompts need a third of this


class TooLargeError(Exception):
    """The response is larger than any answer can be."""


async def bound(http: Any, response: Any) -> None:
    """Limit how much of a response is read and decompressed to `MOST_BYTES`; a hook for the HTTP package.

    Parameters
    ----------
    http : module
        The HTTP package.
    response : http.Response
        The response, before its body is read.
    """
    packed = "content-encoding" in response.headers
    if packed or not 0 <= _length(response.headers) <= MOST_BYTES:
        whole = http.Response(response.status_code, headers=response.headers, stream=response.stream)
        response.headers.pop("content-encoding", None)
        response.stream = _bounded(http.AsyncByteStream)(whole)


def _length(headers: Any) -> int:
    declared = headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else -1


@cache
def _bounded(base: Any) -> Any:
    class Bounded(base):  # type: ignore[misc]
        """The decompressed body of a response, up to the size limit."""

        def __init__(self, whole: Any) -> None:
            self._whole = whole

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in self._whole.aiter_bytes():
                size += len(part)
                if size > MOST_BYTES:
                    raise TooLargeError(f"the server's response is larger than {MOST_BYTES >> 20} MB")
                yield part

        async def aclose(self) -> None:
            await self._whole.aclose()

    return Bounded
