"""A local OpenAI-compatible server that simulates faults by a script, and counts requests and paid work."""

from __future__ import annotations

import asyncio
import hashlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from biaslab.core.checks import require_one_of
from biaslab.core.errors import ServerError
from biaslab.testing.kinds import FAULTS
from biaslab.testing.plays import Document, Exchange, redirect

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
            script = partial(_always, script)
        self.script, self.latency, self.probabilities = script, latency, probabilities
        self.asked, self.paid = Counter[str](), Counter[str]()
        self.order: list[str] = []
        self.bodies: list[Document] = []
        self.headers: list[dict[str, str]] = []
        self.open = self.most_open = 0
        self.port = port
        self.answer_headers: Callable[[str], Mapping[str, str]] = _none
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    async def play(self, fault: str, request: web.Request, body: Document, text: str) -> web.StreamResponse:
        """Simulate a fault, or answer well if its name is empty."""

        def work() -> Document:
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

    def document(self, body: Document, text: str) -> Document:
        """Return a good answer."""
        usage = {"prompt_tokens": len(text), "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}
        if "input" in body:
            return self._as_responses(body, text)
        common = {"model": body["model"], "system_fingerprint": FINGERPRINT, "usage": usage}
        if "prompt" in body:
            return common | {"choices": [self.likelihoods(body, text)]}
        message = {"role": "assistant", "content": self.answer_of(text)}
        choice: Document = {"index": 0, "finish_reason": "stop", "message": message}
        if body.get("logprobs") and self.probabilities:
            shown = [{"token": token, "logprob": math.log(p)} for token, p in self.likeliest(text).items()]
            choice["logprobs"] = {"content": [{**shown[0], "top_logprobs": shown}]}
        return common | {"choices": [choice]}

    def _as_responses(self, body: Document, text: str) -> Document:
        """Return a good answer of the Responses API: a reasoning item and a message."""
        content: Document = {"type": "output_text", "text": self.answer_of(text), "annotations": []}
        if "include" in body and self.probabilities:
            shown = [{"token": token, "logprob": math.log(p)} for token, p in self.likeliest(text).items()]
            content["logprobs"] = [{**shown[0], "top_logprobs": shown}]
        message = {"type": "message", "role": "assistant", "status": "completed", "content": [content]}
        usage = {"input_tokens": len(text), "output_tokens": 1, "input_tokens_details": {"cached_tokens": 2}}
        return {"object": "response", "status": "completed", "model": body["model"], "usage": usage,
                "output": [{"type": "reasoning", "summary": []}, message]}  # fmt: skip

    def answer_of(self, text: str) -> str:
        """Return the answer to a prompt."""
        return answer_of(text)

    def likeliest(self, text: str) -> dict[str, float]:
        """Return the first tokens of an answer; if summaries are compared, probabilities depend on the prompt."""
        if "Summary" not in text:
            return self.tokens
        first = 0.05 + 0.9 * int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) / 2**16
        return {"Summary A": 0.95 * first, "Summary B": 0.95 * (1 - first), "The": 0.03}

    def likelihoods(self, body: Document, text: str) -> Document:
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


def _none(_: str) -> Mapping[str, str]:
    return {}


def _always(fault: str, *_: object) -> str:
    return fault


def _require_kind(name: str) -> None:
    if name and not name.startswith("redirect "):
        require_one_of("script", name, tuple(FAULTS))
