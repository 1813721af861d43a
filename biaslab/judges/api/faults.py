"""Classify errors between a judge and a server: retry, or end the run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import KW_ONLY, dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from biaslab.core.errors import JudgeError, PromptTooLongError, ServerError, UnsupportedRequestError
from biaslab.core.requests import Choice, Likelihood, Request, thinking_of

SAMPLED = "wrap it as Sampled(judge, k), which counts labels in k text samples (Liusie et al. 2024, Eq. 5)"
_BUSY = frozenset({429, 503, 529})
#: Statuses below 500 (206: a part of a response), and of busy servers, after which the same request may succeed.
PASSING = frozenset({206, 408, 409, 425}) | _BUSY
_QUOTA = re.compile(r"insufficient_quota|billing|credit balance|exceeded your current quota", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context[_ ](length|window|size)|maximum (context|sequence|model) length|too many (input )?tokens|"
    r"(prompt|input) is too long|longer than the maximum|exceeds the (available|maximum|model)",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content[_ ]filter|content management policy|content_policy_violation", re.IGNORECASE)
_LOGPROBS = re.compile(r"log_?probs|\becho\b", re.IGNORECASE)
_THINKING = re.compile(r"reasoning|thinking|chat_template_kwargs", re.IGNORECASE)
_UNCONNECTED = frozenset({"ConnectError", "ConnectTimeout"})  # class names of httpx, so that it need not be imported
_LOST = frozenset({"ClientOSError", "ServerDisconnectedError"})  # of aiohttp; the SDK calls them unconnected
_NO_HTTP = frozenset({"ClientResponseError", "HttpProcessingError", "ClientPayloadError", "RemoteProtocolError"})
_OTHER_API = re.compile(r"v1/responses|responses api", re.IGNORECASE)
_NO_COMPLETIONS = frozenset({400, 404, 405, 422, 501})
_REMEDY = {
    400: "the server does not understand the request; check its message and `parameters` of the judge",
    401: "the server does not accept the key; check the environment variable or function it comes from",
    402: "the account has no credit left; add credit and run again, which asks only missing requests",
    403: "the key has no access to this model; check the model's name and the key's permissions",
    404: "the server does not know this model or address; check `model` and `base_url`",
    422: "the server rejects a field of the request; check `parameters` and `token_field` of the judge",
}
#: What to do if a model accepts no thinking budget, by the field that the server names.
_NO_BUDGET = {
    "chat_template_kwargs": 'it has no switch for thinking: omit thinking="off", or use thinking={"effort": "none"}',
    "reasoning_effort": 'it accepts no effort: omit thinking, or set the budget in tokens: thinking={"tokens": 4096}',
}


@dataclass(eq=False)
class Fault(Exception):  # noqa: N818 - not raised to users
    """A failed attempt that may be retried.

    Parameters
    ----------
    words : str
        Description of what happened.
    wait : float, optional
        Seconds after which the server asks to retry.
    busy : bool
        Whether the server says, or its response suggests, that it is overloaded.
    refused : bool
        Whether it did nothing, so the attempt was free.
    status : int, optional
        The HTTP status, if there was one.
    unreached : bool
        Whether no connection was made.
    permanent : bool
        Whether no other attempt can succeed; ``words`` name the remedy.

    Attributes
    ----------
    body : str
        Response body, for ``--debug``; empty if there was none.
    """

    words: str
    _: KW_ONLY
    wait: float | None = None
    busy: bool = False
    refused: bool = False
    status: int | None = None
    unreached: bool = False
    permanent: bool = False

    def __post_init__(self) -> None:
        self.body = ""
        super().__init__(self.words)


class NoAnswer(Fault):
    """A successful response without an answer."""


class Filtered(Exception):  # noqa: N818 - an answer, not an error
    """The server's content filter blocked the prompt, which counts as a reply with a status."""


def of_connection(error: BaseException, url: str) -> Fault:
    """Classify a lost connection by its root cause, because the SDK reports some of them as time-outs."""
    first, names = error, {type(error).__name__}
    while first.__cause__ is not None or (first.__context__ is not None and not first.__suppress_context__):
        first = first.__cause__ or first.__context__  # type: ignore[assignment]
        names.add(type(first).__name__)
    late = isinstance(first, TimeoutError | asyncio.CancelledError)
    if isinstance(first, ssl.SSLError):
        remedy = "check http or https and the host's name, or name its authority's certificates in SSL_CERT_FILE"
        return Fault(f"no encrypted connection to {url} ({first.reason or first}); {remedy}", permanent=True)
    if names & _LOST:
        return Fault(f"the server closed the connection without an answer ({type(first).__name__})")
    if names & _UNCONNECTED:
        refused = isinstance(first, ConnectionRefusedError)
        return Fault(f"nothing answers at {url} ({type(first).__name__})", busy=late, refused=refused, unreached=True)
    if late:
        return Fault("the server timed out", busy=True)
    if isinstance(first, TooLargeError):
        return Fault(str(first))
    if any(kind.__name__ in _NO_HTTP for kind in type(first).__mro__) or isinstance(first, zlib.error):
        kind = "gzip" if isinstance(first, zlib.error) else type(first).__name__
        return Fault(f"the server's response is not valid HTTP ({kind}; perhaps because of a proxy)")
    return Fault(f"the connection failed ({type(first).__name__})")


def unreadable(error: Exception) -> Fault:
    """Return the fault for an unexpected response, such as JSON nested a million times."""
    return Fault(f"the server's response cannot be read ({type(error).__name__})")


def of_redirect(status: int, address: str, url: str, request: Request) -> ServerError:
    """Return the error for a redirect to another server: prompts go only where the user allows."""
    where = address or "nowhere"
    remedy = (
        "prompts are only sent to addresses you name; if you trust it, set it as base_url, or use "
        "redirects='same_host' to follow redirects within one server"
    )
    return ServerError(f"the server at {url} redirects to {where} (HTTP {status}); {remedy}", request, status=status)


def is_same_host(url: str, other: str) -> bool:
    """Return whether two addresses belong to one server: same host and port, or the second adds encryption.

    Examples
    --------
    >>> is_same_host("http://a:80/v1", "http://a/v2"), is_same_host("http://a/v1", "https://a/v1")
    (True, True)
    >>> is_same_host("http://a/v1", "http://b/v1"), is_same_host("https://a/v1", "http://a/v1")
    (False, False)
    """
    try:
        (scheme, host, port), (scheme2, host2, port2) = map(_place_of, (url, other))
    except ValueError:
        return False
    return host == host2 and ((scheme, port) == (scheme2, port2) or (scheme, scheme2) == ("http", "https"))


def _place_of(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def refuses_size(error: JudgeError) -> bool:
    """Return whether a server refuses the size of a request, or one of its numbers, rather than every request."""
    is_of_request = isinstance(error, ServerError) and error.status in (400, 413, 422)
    return isinstance(error, PromptTooLongError) or (is_of_request and not _QUOTA.search(str(error)))


def of_status(status: int, body: str, headers: Mapping[str, str], request: Request) -> Exception:
    """Classify a status of 400 or more: a `Fault`, `Filtered`, or the `JudgeError` that ends the run.

    Parameters
    ----------
    status : int
        HTTP status.
    body : str
        Response body, with the key removed.
    headers : mapping
        Response headers.
    request : Request
        The request.
    """
    message = message_of(body)
    shown = f"HTTP {status}" + (f": {message}" if message else "")
    if status in PASSING or status >= 500:
        if status == 429 and _QUOTA.search(body):
            return ServerError(f"the server refuses ({shown})", request, remedy=_REMEDY[402], status=status)
        busy = status in _BUSY
        return Fault(shown, wait=retry_after(headers) if busy else None, busy=busy, refused=busy, status=status)
    if status in (400, 413, 422) and _TOO_LONG.search(body):
        remedy = "shorten the text or use a judge with a longer context window"
        return PromptTooLongError(f"the prompt is too long for the server ({shown})", request, remedy=remedy)
    if status in (400, 403) and _FILTERED.search(body):
        return Filtered()
    without_logprobs = status in (403, *_NO_COMPLETIONS) and _LOGPROBS.search(message)
    if without_logprobs or (status in _NO_COMPLETIONS and isinstance(request, Likelihood)):
        return without_probabilities(request, shown)
    remedy = _REMEDY.get(status, "check its message")
    if status in (400, 422):
        remedy = next((words for field, words in _NO_BUDGET.items() if field in message), remedy)
    if _OTHER_API.search(message):
        remedy = 'use the Responses API for this model: dialect="responses", or ?dialect=responses in its name'
    return ServerError(f"the server refuses ({shown})", request, remedy=remedy, status=status, words=message)


def thinks_first(request: Request) -> UnsupportedRequestError:
    """Return the error for a thinking model, whose first tokens are not a label."""
    why = "the model thinks before it answers, so its first tokens are not a label and it cannot answer Choice requests"
    remedy = f'{SAMPLED}; or turn thinking off with thinking="off", if its chat template supports it'
    return UnsupportedRequestError(why, request, remedy=remedy)


def about_thinking(request: Request, error: ServerError) -> UnsupportedRequestError | None:
    """Return the error for a model that accepts no thinking budget; None if something else was refused."""
    if thinking_of(request) is None or error.status not in (400, 422) or not _THINKING.search(error.words):
        return None
    why = f"the model accepts no thinking budget ({error.reason})"
    return UnsupportedRequestError(why, request, remedy="use a reasoning model, or set the budget in tokens")


def without_probabilities(request: Request, message: str = "") -> UnsupportedRequestError:
    """Return the error for a server that returns no log-probabilities, with the remedy."""
    why = f" ({message})" if message else ""
    if isinstance(request, Choice):
        reason = f"the server gives no log-probabilities of an answer{why}, so it cannot answer Choice requests"
        return UnsupportedRequestError(reason, request, remedy=SAMPLED)
    remedy = 'try likelihood="prompt_logprobs" (vLLM), or use another model\'s perplexity'
    return UnsupportedRequestError(f"the server gives no log-probabilities of a prompt{why}", request, remedy=remedy)


def message_of(body: str) -> str:
    """Return the message of an error body on one line: OpenAI's format, FastAPI's, or the start of the text."""
    document: Any = body
    with contextlib.suppress(ValueError):
        document = json.loads(body)
    for name in ("error", "message", "detail"):
        if isinstance(document, dict):
            document = document.get(name) or document
    text = " ".join((document if isinstance(document, str) else json.dumps(document)).split())
    return text if len(text) <= 300 else text[:299] + "…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the server's Retry-After in seconds, or None.

    Examples
    --------
    >>> retry_after({"retry-after": "1.5"}), retry_after({"retry-after-ms": "20"}), retry_after({})
    (1.5, 0.02, None)
    """
    for name, a_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        with contextlib.suppress(KeyError, ValueError):
            if not math.isnan(seconds := float(headers[name]) / a_second):
                return max(seconds, 0.0)
    with contextlib.suppress(KeyError, ValueError, TypeError):
        return max(parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time(), 0.0)
    return None


MOST_BYTES = 64 * 2**20  # log-probabilities of the longest prompts need a third of this
_LARGE = 2**20
MOST_LARGE = 4  # responses of more than a megabyte that are read at once; others wait, so that their sum is limited


class TooLargeError(Exception):
    """The response is larger than any answer can be."""


async def bound(http: Any, turns: asyncio.Semaphore, response: Any) -> None:
    """Limit how much of a response is read and decompressed to `MOST_BYTES`; a hook for the HTTP package.

    Parameters
    ----------
    http : module
        The HTTP package.
    turns : asyncio.Semaphore
        Held while a large response is read.
    response : http.Response
        The response, before its body is read.
    """
    packed = "content-encoding" in response.headers
    if packed or not 0 <= _length(response.headers) <= _LARGE:
        whole = http.Response(response.status_code, headers=response.headers, stream=response.stream)
        response.headers.pop("content-encoding", None)
        response.stream = _bounded(http.AsyncByteStream)(whole, turns)


def _length(headers: Any) -> int:
    declared = headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else -1


@cache
def _bounded(base: Any) -> Any:
    class Bounded(base):  # type: ignore[misc]
        """The decompressed body of a response, up to the size limit."""

        def __init__(self, whole: Any, turns: asyncio.Semaphore) -> None:
            self._whole, self._turns = whole, turns

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async with contextlib.AsyncExitStack() as turn:
                async for part in self._whole.aiter_bytes():
                    is_first = size <= _LARGE < size + len(part)
                    size += len(part)
                    if size > MOST_BYTES:
                        raise TooLargeError(f"the server's response is larger than {MOST_BYTES >> 20} MB")
                    if is_first:
                        await turn.enter_async_context(self._turns)
                    yield part

        async def aclose(self) -> None:
            await self._whole.aclose()

    return Bounded
