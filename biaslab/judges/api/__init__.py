"""`ApiJudge`: a model behind an OpenAI-compatible server, asked many times at once and paid for once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from biaslab.checks import require_one_of
from biaslab.core import (
    LIMITS,
    PRICES,
    Choice,
    Completion,
    Likelihood,
    Reply,
    Request,
    require_kinds,
)
from biaslab.errors import ModelChangedWarning, ServerError, UnsupportedRequestError
from biaslab.judges.api import faults
from biaslab.judges.api.arguments import PREFILLS, check_settings, check_spending, settings
from biaslab.judges.api.credentials import OPENAI, Address, Key
from biaslab.judges.api.pace import Pace
from biaslab.judges.api.runner import Answers, Loop, Patience
from biaslab.judges.api.wire import Wire, check, declined, prefix_order
from biaslab.output import count

if TYPE_CHECKING:
    import openai

__all__ = ["PREFILLS", "Answers", "ApiJudge", "Patience"]

_CONNECT = 30.0  # seconds that a connection may take to a server that has answered before


class ApiJudge:
    """A language model behind a server: OpenAI, vLLM, llama.cpp, Ollama, ``transformers serve`` and the like.

    Parameters
    ----------
    model : str
        The model's name, as the server knows it.
    base_url : str, optional
        Address such as ``"http://localhost:8000/v1"``; OpenAI's by default. Credentials in it are masked.
    api_key : str or callable, optional
        Name of the environment variable that holds the key, or a function that returns it, which is called again when
        the server no longer takes the key. By default ``OPENAI_API_KEY`` for OpenAI, and ``BIASLAB_API_KEY``, if set,
        for any other server. Never the key itself.
    parameters : mapping, optional
        Further fields of every request, such as ``{"top_p": 0.9}``; None as a value leaves a field out.
    prefill : {"vllm", "llama.cpp"} or mapping, optional
        How the server goes on with a last message of the assistant: by the name of a server that does, or the fields
        that make yours do; ``"llama.cpp"`` needs none. Without it, such requests are refused.
    likelihood : {"echo", "prompt_logprobs"}
        How the server gives log-probabilities of a prompt through ``/completions``.
    top_logprobs : int
        Tokens that are shown at each place of a `Choice`, 20 at most with most servers.
    fingerprint : str, optional
        What the server must name as its fingerprint or model in every reply; another answer ends the run.
    max_concurrency : int
        Requests in flight at most.
    timeout : float
        Seconds that one attempt may take.
    patience : Patience, optional
        How often, and how long, a request is tried again.
    token_field : str, optional
        Name of the field that limits an answer: ``max_completion_tokens`` for OpenAI, ``max_tokens`` for others.
    prices : mapping, optional
        Dollars for a million tokens, as `biaslab.Budget` takes them: ``input``, and if wanted ``cached``, ``output``.
    limits : mapping, optional
        What one study may spend at most, by the names of `biaslab.Budget`: ``requests``, ``tokens``, ``minutes``,
        ``dollars``. `biaslab.collect` keeps to them where it is given no budget; a card has a study a probe.

    Attributes
    ----------
    id : str
        Model, address and every setting that replies depend on. What a server says it runs is known only from its
        replies, so it is kept with each (`biaslab.Reply.model`), a change is warned of, and ``fingerprint`` pins it.
    attempts : int
        Requests sent so far, retries included.
    faults : collections.Counter
        What went wrong so far, by what it was.

    Raises
    ------
    InputError
        If a value is not allowed.

    Notes
    -----
    * `Choice`: the label's share of the first tokens of a greedy answer, from ``top_logprobs``; see
      `biaslab.judges.api.label_mass` for labels of several tokens, and what is not seen. A `LocalJudge` differs: it
      scores every label with its terminator, whatever else is likelier.
    * `Completion`: text. Samples carry a seed of their own, which most servers heed; they need not be reproducible.
    * `Likelihood`: through ``/completions`` where that gives log-probabilities of a prompt.
    * A server that gives no log-probabilities is found out by the first request of a kind, which goes out alone.
    * Text goes to the server as it is: whether ``<|im_end|>`` in it is taken as characters is up to the server.
    * Requests are sorted, so that those with a common beginning go out together and hit the server's prompt cache.
    * Retried: time-outs, lost connections, 408, 409, 429, 5xx, and answers that are none. Ends the run: other errors.

    Examples
    --------
    >>> ApiJudge("qwen3", "http://me:secret@localhost:8000/v1", parameters={"top_p": 0.9}).id
    'api:qwen3@localhost:8000/v1:{"parameters":{"top_p":0.9}}'
    """

    kinds: frozenset[type] = frozenset({Choice, Completion, Likelihood})

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | Callable[[], str] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        prefill: str | Mapping[str, Any] | None = None,
        likelihood: Literal["echo", "prompt_logprobs"] = "echo",
        top_logprobs: int = 20,
        fingerprint: str | None = None,
        max_concurrency: int = 64,
        timeout: float = 300.0,
        patience: Patience | None = None,
        token_field: str | None = None,
        prices: Mapping[str, float] | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        check_settings(model, likelihood, top_logprobs, max_concurrency, timeout)
        check_spending("prices", prices or {}, PRICES)
        check_spending("limits", limits or {}, LIMITS)
        if isinstance(prefill, str):
            require_one_of("prefill", prefill, tuple(PREFILLS))
            prefill = PREFILLS[prefill]
        self._address = Address.of(base_url)
        self._key = Key(api_key, self._address)
        token_field = token_field or ("max_completion_tokens" if self._address.url == OPENAI else "max_tokens")
        self.wire = Wire(model, token_field, dict(parameters or {}), prefill, likelihood, top_logprobs)
        self.id = f"api:{model}@{self._address.shown}{settings(self.wire, fingerprint)}"
        self.fingerprint, self.timeout, self.patience = fingerprint, timeout, patience or Patience()
        self.attempts, self.faults = 0, Counter[str]()
        self.prices, self.limits = dict(prices or {}), dict(limits or {})
        self._pace, self._proven = Pace(max_concurrency), set[type]()
        self._lacking: dict[type, str] = {}  # kinds that the server turned out not to answer, and what it said
        self._reached = False
        self._tell: Callable[[str], object] = str
        self._models: list[str] = []
        self._started: tuple[int, Loop, openai.AsyncOpenAI] | None = None

    @property
    def url(self) -> str:
        """The server's address, without credentials."""
        return self._address.url

    def __repr__(self) -> str:
        return f"ApiJudge({self.id!r})"

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if a request cannot be written for the server, or is of a kind that it refused before.

        So it does if the key is missing.
        """
        self._key.header()
        for request in requests:
            require_kinds(self, [request])
            if type(request) in self._lacking:
                raise UnsupportedRequestError(self._lacking[type(request)], request)
            check(self.wire, request)

    def ask(self, requests: Iterable[Request]) -> Answers:
        """Answer every request once, in any order, each as soon as it is known; see `Answers`.

        Raises
        ------
        UnsupportedRequestError
            If the server gives no log-probabilities; the message names the remedy.
        PromptTooLongError
            If the server says so.
        ServerError
            If it refuses for good, or fails as often as is allowed.
        """
        wanted = sorted(dict.fromkeys(requests), key=prefix_order)
        self.check(wanted)
        first = {type(request): request for request in reversed(wanted) if type(request) not in self._proven}
        wanted = list(dict.fromkeys([*reversed(first.values()), *wanted]))  # one of each kind shows what is refused
        loop, client = self._connect()
        attempt = partial(self._attempt, client)
        return Answers(loop, attempt, self._pace, self.patience, wanted, self._proven, self._note, self._retried)

    @contextlib.contextmanager
    def watched(self, tell: Callable[[str], object]) -> Iterator[None]:
        """Tell of every retry, in a few words, until the context is left; the words come from another thread."""
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    def close(self) -> None:
        """Close the connections and end the thread; the next question opens them again."""
        if self._started is not None:
            _, loop, client = self._started
            self._started = None
            _shut(loop, client)

    def _connect(self) -> tuple[Loop, openai.AsyncOpenAI]:
        """Return the loop and client of this process, started at the first question."""
        if self._started is None or self._started[0] != os.getpid():  # threads do not cross a fork
            loop, client = Loop(), _open(self._address.url, self.timeout, self._pace.most)
            self._started = (os.getpid(), loop, client)
            weakref.finalize(self, _shut, loop, client)
        return self._started[1:]

    async def _attempt(self, client: openai.AsyncOpenAI, request: Request) -> Reply:
        """Ask once; raise a `Fault` if another attempt may help."""
        path, body = self.wire.write(request)
        content = json.dumps(body, ensure_ascii=False).encode()
        try:
            status, headers, said = await self._post(client, path, content)
            if status == 401 and self._key.can_refresh():
                await asyncio.to_thread(self._key.header, refresh=True)
                status, headers, said = await self._post(client, path, content)
            if status >= 400:
                raise faults.of_status(status, self._key.hide(said.decode("utf-8", "replace")), headers, request)
            document = _parse(said)
            wait = faults.rate_limit_wait(headers)
            if wait is not None:
                self._pace.pause(asyncio.get_running_loop().time(), wait)
            reply = self.wire.read(request, document, type(request) in self._proven)
        except faults.Filtered:
            return declined(request, "content_filter")
        except UnsupportedRequestError as error:
            self._lacking[type(request)] = str(error)
            raise
        except faults.Fault as error:
            self.faults[str(error)] += 1
            raise
        if self.fingerprint is not None and self.fingerprint not in (reply.model or "").split():
            words = f"the server runs {reply.model or 'what it does not name'}, not {self.fingerprint}"
            raise ServerError(f"{words}; ask it for that model, or make a judge with another fingerprint", request)
        return reply

    async def _post(
        self, client: openai.AsyncOpenAI, path: str, content: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a body; return status, headers and what came, or raise a `Fault` if nothing did.

        Nothing is raised inside an ``except``: an error of the SDK holds the request with its headers, and so the key.
        """
        import openai

        from biaslab.judges.api.transport import http

        login = self._key.header()
        connect = _CONNECT if self._reached else self.patience.reach
        options: Any = {"headers": {"Authorization": login or openai.Omit()}, "max_retries": 0}
        options["timeout"] = http.Timeout(self.timeout, connect=min(self.timeout, connect))
        self.attempts += 1
        try:
            async with asyncio.timeout(self.timeout):
                response = await client.post(path, cast_to=http.Response, content=content, options=options)
            self._reached = True
            return response.status_code, response.headers, self._key.hide_in(response.content)
        except openai.APIStatusError as error:
            self._reached = True
            return error.status_code, error.response.headers, error.response.content
        except (openai.OpenAIError, http.HTTPError, OSError, TimeoutError) as error:
            fault = faults.of_connection(error, self.url)
            fault.unreached &= not self._reached
        raise fault

    def _retried(self, why: str) -> None:
        """Tell whoever watches how often was asked again so far, and why now."""
        self._tell(f"{count(self.faults.total(), 'retry')}, now since {why}")

    def _note(self, reply: Reply) -> None:
        """Warn if the server runs something else than it did."""
        if reply.model is None or reply.model in self._models:
            return
        self._models.append(reply.model)
        if len(self._models) > 1:
            warnings.warn(
                f"{self.id} now runs {reply.model!r}, before it ran {self._models[-2]!r}; pin one with fingerprint=",
                ModelChangedWarning,
                stacklevel=4,
            )


def _open(url: str, timeout: float, most: int) -> openai.AsyncOpenAI:
    """Open a client of the SDK on its aiohttp transport; certificates are checked, retries are ours."""
    import openai

    from biaslab.judges.api.transport import http

    limits = http.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=30.0)
    client = openai.DefaultAioHttpClient(limits=limits, timeout=http.Timeout(timeout, connect=min(timeout, _CONNECT)))
    return openai.AsyncOpenAI(api_key="see-header", base_url=url, max_retries=0, http_client=client)


def _shut(loop: Loop, client: openai.AsyncOpenAI) -> None:
    if loop.is_alive():
        with contextlib.suppress(TimeoutError, RuntimeError):
            loop.wait(client.close(), 5)
        loop.close()


def _parse(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        pass
    raise faults.Fault("the server sent no valid JSON" if body.strip() else "the server sent an empty answer")
