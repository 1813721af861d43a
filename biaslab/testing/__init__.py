"""A server with faults, for testing a judge or your own client.

Examples
--------
>>> import biaslab as bl
>>> from biaslab.testing import FaultServer
>>> with FaultServer(lambda text, attempt: "" if attempt else "reset") as server:
...     judge = bl.ApiJudge("judge", server.url)
...     [(_, reply)] = judge.ask([bl.Completion("How good is it?")])
...     judge.close()
>>> reply.text, judge.faults.total()
('answer 915cc5c1d480', 1)
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import hashlib
import json
import math
import socket
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, Self

from aiohttp import web

from biaslab.core.checks import require_one_of
from biaslab.core.errors import ServerError
from biaslab.core.trials import Status

__all__ = ["FAULTS", "FaultKind", "FaultServer", "answer_of"]


def __dir__() -> list[str]:
    return __all__


FINGERPRINT = "fp_one"
_SECONDS = 60.0  # time limit for starting a server


class FaultServer:
    """Answers chat and plain completions on loopback, with scripted faults.

    Parameters
    ----------
    script : callable or str
        ``script(text, attempt)`` returns what happens at the attempt (from 0) for a prompt: "" for a good answer, else
        a kind of `FAULTS`, or "redirect 307 ADDRESS". A single name is used every time.
    latency : float
        Delay before each answer, in seconds.
    probabilities : bool
        Whether log-probabilities are returned.
    port : int
        Port; by default any free one.

    Attributes
    ----------
    url : str
        Address for `biaslab.ApiJudge`, ending in ``/v1``.
    asked : collections.Counter
        Number of attempts by prompt.
    paid : collections.Counter
        Number of attempts that made the model work, by prompt.
    order, bodies, headers : list
        Prompts, JSON bodies and headers of requests, as received.
    open, most_open : int
        Number of requests in flight, and its maximum.
    answer_headers : callable
        Takes a prompt and returns additional headers for a good answer; by default none.
    tokens : dict
        Probabilities of the first tokens of an answer to a prompt without the word "Summary".

    Raises
    ------
    InputError
        If the kind of fault is unknown; for a script's return value, on leaving the context.

    Notes
    -----
    The server runs in its own thread from ``with`` on. Answers depend only on the prompt (`answer_of`).
    ``python -m biaslab.testing`` starts one in its own process, for clients in other languages.

    Examples
    --------
    >>> import biaslab as bl
    >>> with FaultServer("mass of 2") as server:
    ...     judge = bl.ApiJudge("judge", server.url)
    ...     [(_, reply)] = judge.ask([bl.Choice("Summary A or Summary B?", ("Summary A", "Summary B"))])
    ...     judge.close()
    >>> reply.finish_reason, reply.text
    ('unusable', 'the probabilities of the returned tokens sum to 2')
    """

    def __init__(
        self,
        script: Callable[[str, int], str] | str = "",
        latency: float = 0.0,
        probabilities: bool = True,
        port: int = 0,
    ) -> None:
        if isinstance(script, str):
            _require_kind(script)
        self.script = (lambda *_: script) if isinstance(script, str) else script
        self.latency, self.probabilities = latency, probabilities
        self.asked, self.paid = Counter[str](), Counter[str]()
        self.order: list[str] = []
        self.bodies: list[ReplyBody] = []
        self.headers: list[dict[str, str]] = []
        self.open = self.most_open = 0
        self.port = port
        self.answer_headers: Callable[[str], Mapping[str, str]] = lambda _: {}
        self.tokens = {"A": 0.7, " A": 0.05, "B": 0.2, "The": 0.04}
        self._ready = threading.Event()
        self._raised: Exception | None = None

    @property
    def url(self) -> str:
        """The address, once the server runs."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._ready.wait(_SECONDS) or self._raised is not None:
            why = self._raised or f"nothing within {_SECONDS:.0f} s"
            raise ServerError(f"the test server did not start at port {self.port} ({why}); port=0 takes any free one")
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        if self._raised is not None and error is None:
            raise self._raised

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._raised = error
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=2**30)
        self.add_routes(app.router)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._over.wait()
        await runner.cleanup()

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Register the paths."""
        router.add_post("/v1/{kind:chat/completions|completions|responses}", self.answer)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request as scripted."""
        body = await request.json()
        turns = body.get("messages") or body.get("input") or ()
        text = body["prompt"] if "prompt" in body else "\n".join(each["content"] for each in turns)
        fault = self.script(text, self.asked[text])
        self.asked[text] += 1
        self.order.append(text)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            return await self.play(fault, request, body, text)
        except Exception as error:
            self._raised = self._raised or error
            raise
        finally:
            self.open -= 1

    async def play(self, fault: str, request: web.Request, body: ReplyBody, text: str) -> web.StreamResponse:
        """Simulate a fault, or answer well if its name is empty."""

        def work() -> ReplyBody:
            self.paid[text] += 1
            return self.document(body, text)

        if not fault:
            return web.json_response(work(), headers=self.answer_headers(text))
        _require_kind(fault)
        exchange = Exchange(request, work)
        if fault not in FAULTS:
            _, code, address = fault.split(" ")
            return await redirect(int(code), address)(exchange)
        return await FAULTS[fault].play(exchange)

    def document(self, body: ReplyBody, text: str) -> ReplyBody:
        """Return a good answer."""
        usage = {"prompt_tokens": len(text), "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}
        if "input" in body:
            return self._as_responses(body, text)
        common = {"model": body["model"], "system_fingerprint": FINGERPRINT, "usage": usage}
        if "prompt" in body:
            return common | {"choices": [self.likelihoods(body, text)]}
        message = {"role": "assistant", "content": self.answer_of(text)}
        choice: ReplyBody = {"index": 0, "finish_reason": "stop", "message": message}
        if body.get("logprobs") and self.probabilities:
            choice["logprobs"] = {"content": self._first_token(text)}
            message["content"] = max(shown := self.likeliest(text), key=lambda token: shown[token])
        return common | {"choices": [choice]}

    def _as_responses(self, body: ReplyBody, text: str) -> ReplyBody:
        """Return a good answer of the Responses API: a reasoning item and a message."""
        content: ReplyBody = {"type": "output_text", "text": self.answer_of(text), "annotations": []}
        if "include" in body and self.probabilities:
            content["logprobs"] = self._first_token(text)
        message = {"type": "message", "role": "assistant", "status": "completed", "content": [content]}
        usage = {"input_tokens": len(text), "output_tokens": 1, "input_tokens_details": {"cached_tokens": 2}}
        return {"object": "response", "status": "completed", "model": body["model"], "usage": usage,
                "output": [{"type": "reasoning", "summary": []}, message]}  # fmt: skip

    def _first_token(self, text: str) -> list[ReplyBody]:
        shown = [{"token": token, "logprob": math.log(p)} for token, p in self.likeliest(text).items()]
        return [{**shown[0], "top_logprobs": shown}]

    def answer_of(self, text: str) -> str:
        """Return the answer to a prompt."""
        return answer_of(text)

    def likeliest(self, text: str) -> dict[str, float]:
        """Return the first tokens of an answer; if summaries are compared, probabilities depend on the prompt."""
        if "Summary" not in text:
            return self.tokens
        first = 0.05 + 0.9 * int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) / 2**16
        return {"Summary A": 0.95 * first, "Summary B": 0.95 * (1 - first), "The": 0.03}

    def likelihoods(self, body: ReplyBody, text: str) -> ReplyBody:
        """Return a choice with log-probabilities of the prompt's tokens: minus the length of each."""
        tokens = text.replace(" ", "\0 ").split("\0")
        levels = [None] + [-float(len(token)) for token in tokens[1:]]
        if not self.probabilities:
            return {"text": "x", "logprobs": None}
        if "prompt_logprobs" in body:
            pairs = list(zip(tokens, levels, strict=True))[1:]
            entries: list[Any] = [{"7": {"logprob": level, "decoded_token": token}} for token, level in pairs]
            return {"text": "x", "prompt_logprobs": [None, *entries]}
        return {"text": text, "logprobs": {"tokens": tokens, "token_logprobs": levels}}


def answer_of(text: str) -> str:
    """Return the answer of a `FaultServer` to a prompt, which is always the same.

    Examples
    --------
    >>> answer_of("Is Summary A or Summary B better?"), answer_of("Hello")
    ('Summary A', 'answer 185f8db32271')
    """
    return "Summary A" if "Summary" in text else f"answer {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _require_kind(name: str) -> None:
    if name and not name.startswith("redirect "):
        require_one_of("script", name, tuple(FAULTS))


ReplyBody = dict[str, Any]
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
    work: Callable[[], ReplyBody]


Play = Callable[[Exchange], Awaitable[web.StreamResponse]]


def status(code: int, message: str = "", headers: Mapping[str, str] | None = None) -> Play:
    """Refuse with a status and an error message."""

    async def play(exchange: Exchange) -> web.StreamResponse:
        text = message.format(key=exchange.request.headers.get("Authorization", ""))
        if code < 400:
            return web.Response(status=code, headers=headers)
        return web.json_response({"error": {"message": text}}, status=code, headers=headers)

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


def changed(change: Callable[[ReplyBody], object]) -> Play:
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


@cache
def bomb(megabytes: int) -> bytes:
    """Return gzip data that decompresses to this many megabytes of spaces."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([packer.compress(_PIECE) for _ in range(megabytes)] + [packer.flush()])


def redirect(code: int, address: str) -> Play:
    """Redirect the client."""
    return status(code, headers={"Location": address})


#: What happens to a request: it is retried, it ends the run with an error, or its reply gets a status.
FaultOutcome = Literal["asked again", "ends the run"] | Status


class FaultKind(NamedTuple):
    """A kind of fault.

    Attributes
    ----------
    about : str
        What the server does.
    text : str
        How biaslab handles it if text was requested: "asked again", "ends the run", or the status of its trial.
    distribution : str
        The same if a label distribution was requested.
    words : str
        Its name in `biaslab.ApiJudge.faults`, or the message of the error; empty if it is a reply.
    play : callable
        Answers the request; see `biaslab.testing`.
    """

    about: str
    text: FaultOutcome
    distribution: FaultOutcome
    words: str
    play: Play


def _set(**fields: Any) -> Callable[[ReplyBody], object]:
    """Change fields of the document."""
    return lambda document: document.update(fields)


def _choice(**fields: Any) -> Callable[[ReplyBody], object]:
    """Change fields of the first choice."""
    return lambda document: document["choices"][0].update(fields)


def _message(content: Any, reason: str = "stop", **fields: Any) -> Callable[[ReplyBody], object]:
    """Change the message, and the finish reason."""
    return _choice(message={"role": "assistant", "content": content, **fields}, finish_reason=reason)


def _shows(*shown: tuple[str, float]) -> Callable[[ReplyBody], object]:
    """Show other tokens, with their probabilities or a substitute; only if probabilities were requested."""
    tokens = [{"token": token, "logprob": math.log(p) if 0 < p <= 1 else p} for token, p in shown]

    def change(document: ReplyBody) -> None:
        choice = document["choices"][0]
        if choice.get("logprobs"):
            choice["logprobs"] = {"content": [{**tokens[0], "top_logprobs": tokens}]}

    return change


def _only_logprobs(logprobs: Any) -> Callable[[ReplyBody], object]:
    def change(document: ReplyBody) -> None:
        if "logprobs" in document["choices"][0]:
            document["choices"][0]["logprobs"] = logprobs

    return change


def _twice(document: ReplyBody) -> None:
    document["choices"] = [{"index": 1, "message": {"role": "assistant", "content": "other"}}, *document["choices"]]


def _error_alone(document: ReplyBody) -> None:
    document.clear()
    document["error"] = {"message": "the engine died"}


def _longer(document: ReplyBody) -> None:
    document["choices"][0]["message"]["content"] += " " + "word " * 200_000


def _surrogate(document: ReplyBody) -> None:
    document["choices"][0]["message"]["content"] += " \ud800\x00"


def _two_values(good: bytes) -> bytes:
    return good.replace(b'"finish_reason"', b'"message": {"content": "Summary B"}, "finish_reason"', 1)


_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
_UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
_CALL = {"id": "c", "type": "function", "function": {"name": "judge", "arguments": "{}"}}
_CALLING = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
_HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"

#: What the server does at each kind of fault that is more than a status.
_PLAYS: Mapping[str, Play] = {
    "drop": raw(b""),
    "reset": reset,
    "status line": raw(b"HTTP/1.1 abc OK\r\n\r\n{}"),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "two lengths": raw(_OK + b"Content-Length: 2\r\nContent-Length: 20\r\n\r\n{}"),
    "long header": raw(_OK + b"X-Long: " + b"x" * 20_000 + b"\r\nContent-Length: 2\r\n\r\n{}"),
    "header without colon": raw(_OK + b"no colon here\r\nContent-Length: 2\r\n\r\n{}"),
    "chunk size": raw(_OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
    "short chunk": raw(_OK + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{}"),
    "no gzip": raw(_OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"),
    "switch": raw(_UPGRADE),
    "502 page": body(_HTML, 502, "text/html"),
    **{f"redirect {code}": redirect(code, "http://elsewhere.invalid/v1") for code in (301, 302, 303, 307, 308)},
    "hang": hang,
    "drip": drip,
    "endless": endless,
    "bomb": body(lambda _: bomb(128), Content_Encoding="gzip"),
    "truncated": truncated,
    "cut": body(lambda good: good[: len(good) // 2]),
    "invalid": body(b"{'no json'"),
    "html": body(_HTML),
    "events": body(lambda good: b"data: " + good + b"\n\ndata: [DONE]\n\n"),
    "two answers": body(lambda good: good + good),
    "invalid UTF-8": body(lambda good: good.replace(b"stop", b"\xff\xfe")),
    "two values": body(_two_values),
    "deep": body(b"[" * 200_000),
    "nothing": body(b""),
    "null": body(b"null"),
    "list": body(b"[]"),
    "plain text": body(lambda good: good, kind="text/plain"),
    "empty": changed(_set(choices=[])),
    "error in 200": changed(_error_alone),
    "error too": changed(_set(error={"message": "oh"})),
    "abort": changed(_choice(finish_reason="abort")),
    "206": body(lambda good: good, code=206),
    "two choices": changed(_twice),
    "no message": changed(_choice(message=None)),
    "number": changed(_message(4)),
    "null content": changed(_message(None)),
    "tool calls": changed(_choice(message=_CALLING, finish_reason="tool_calls", logprobs=None)),
    "no text": changed(_message("", "length")),
    "filter": changed(_message(None, "content_filter")),
    "refusal": changed(_message(None, refusal="I will not.")),
    "megabyte": changed(_longer),
    "surrogate": changed(_surrogate),
    "usage": changed(_set(usage={"prompt_tokens": 2**63})),
    "negative usage": changed(_set(usage={"prompt_tokens": -5})),
    "no usage": changed(_set(usage=None)),
    "changed": changed(_set(system_fingerprint="fp_two")),
    "other model": changed(_set(model="stranger")),
    "no logprobs": changed(_only_logprobs(None)),
    "bad logprobs": changed(_only_logprobs({"content": [{"token": "A", "logprob": "high"}]})),
    "positive logprobs": changed(_shows(("Summary A", 3.0))),
    "NaN": changed(_shows(("Summary A", math.nan))),
    "infinity": changed(_shows(("Summary A", math.inf))),
    "mass of 2": changed(_shows(("Summary A", 0.99), ("Summary B", 0.98), ("The", 0.03))),
    "mass of 20": changed(_shows(("Summary A", 1.0), *[("Summary B", 0.95)] * 20)),
    "a token twice": changed(_shows(("Summary A", 0.4), ("Summary B", 0.2), ("Summary A", 0.4))),
    "one token": changed(_shows(("Summary A", 0.6))),
    "one label alone": changed(_shows(("Summary A", 0.5), ("Summary A ", 0.2))),
    "certain": changed(_shows(("Summary A", 1.0), ("Summary B", -9999.0))),
    "token ids": changed(_shows(("token_id:32", 0.6), ("bytes:\\xe4", 0.3))),
    "no label": changed(_shows(("Both", 0.6), ("The", 0.3))),
}


def _kinds(group: str) -> dict[str, FaultKind]:
    """Return the kinds of a group, as ``kinds.csv`` describes them."""
    with files("biaslab.testing").joinpath("kinds.csv").open(encoding="utf-8") as described:
        return {row["kind"]: _kind(row) for row in csv.DictReader(described) if row.pop("group") == group}


def _kind(row: dict[str, str]) -> FaultKind:
    kind, code, message, wait = (row.pop(name) for name in ("kind", "code", "message", "retry_after"))
    play = status(int(code), message, {"Retry-After": wait} if wait else None) if code else _PLAYS[kind]
    return FaultKind(play=play, **row)  # type: ignore[arg-type]


#: Faults of the connection, of HTTP, and refusals: no model has worked.
REFUSALS: Mapping[str, FaultKind] = _kinds("refusal")
#: Faults of an answer that was paid for.
ANSWERS: Mapping[str, FaultKind] = _kinds("answer")
#: Every kind, by name.
FAULTS: Mapping[str, FaultKind] = {**REFUSALS, **ANSWERS}
