"""`ApiJudge`: a model behind an OpenAI-compatible server, with concurrent requests and stored replies."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, get_type_hints
from urllib.parse import parse_qsl

from biaslab.core import checks
from biaslab.core.checks import check_spending, did_you_mean, fits, require_fits, require_one_of, require_whole
from biaslab.core.errors import InexactLabelsWarning, InputError, ModelChangedWarning, NearestDesignWarning, warn
from biaslab.core.interfaces import LIMITS, PRICES, BaseJudge, require_kinds
from biaslab.core.output import count
from biaslab.core.requests import Choice, Completion, Likelihood, Request, canonical_json
from biaslab.core.secrets import HIDDEN, require_no_secret
from biaslab.core.trials import Reply
from biaslab.judges.api.endpoints import OPENAI, ApiKey, Endpoint, Endpoints, addresses_of
from biaslab.judges.api.exact_labels import ExactLabels
from biaslab.judges.api.runner import Patience, ReplyStream, close_client, open_client
from biaslab.judges.api.sender import Refusals, Sender, ThoughtsByBudget
from biaslab.judges.api.wire import TOKEN_FIELD, Wire, prefix_order
from biaslab.judges.in_flight import Loop
from biaslab.judges.thinking import ThinkingOption

if TYPE_CHECKING:
    import openai

__all__ = ["PREFILLS", "ApiJudge", "Patience", "ReplyStream", "ThoughtsByBudget"]


class ApiJudge(BaseJudge):
    """A language model behind a server: OpenAI, vLLM, llama.cpp, Ollama, ``transformers serve`` and the like.

    Parameters
    ----------
    model : str
        Name of the model on the server.
    base_url : str or sequence of str, optional
        Address such as ``"http://localhost:8000/v1"``; by default OpenAI's. Credentials in it are masked; on a
        command line, the name of an environment variable that holds the address keeps them out of it. Several
        addresses, in a list or separated by commas, are servers of the same model that share the requests; the first
        one is part of the judge's id.
    api_key : str or callable, optional
        Name of the environment variable that holds the key, or a function that returns the key and is called again
        when the server no longer accepts it. By default ``OPENAI_API_KEY`` for OpenAI, and ``BIASLAB_API_KEY``, if
        set, for any other server. Never the key itself.
    parameters : mapping, optional
        Further fields of every request, for example ``{"top_p": 0.9}``; None omits a field.
    prefill : {"vllm", "llama.cpp"} or mapping, optional
        How the server continues a final assistant message: the name of a server that can, or the fields that make
        yours do so; ``"llama.cpp"`` needs none. Without it, such requests are refused.
    likelihood : {"echo", "prompt_logprobs"}
        How the server returns log-probabilities of a prompt through ``/completions``.
    exact : bool
        Whether to score labels exactly if the server can, as vLLM can from 0.32 on.
    top_logprobs : int
        Otherwise, the number of top tokens to request at each position of a `Choice`; most servers allow up to 20.
    fingerprint : str, optional
        Fingerprint or model that the server must report in every reply; any other ends the run.
    max_concurrency : int
        Maximum number of requests in flight per address.
    timeout : float
        Time limit of one attempt, in seconds.
    patience : Patience, optional
        How often, and for how long, a request is retried.
    redirects : {"refuse", "same_host"}
        Whether to follow redirects within the same server. Others are never followed, so prompts go nowhere else.
    token_field : str, optional
        Name of the field that limits an answer: by default ``max_completion_tokens`` for OpenAI, ``max_tokens`` for
        others.
    omit : str or sequence of str
        What the model rejects, so that it is not sent: ``"temperature"``, ``"seed"``, ``"stop"`` or ``"system"``, the
        role, whose message is then put before the user's; in a text separated by commas.
    default_temperature : float
        The model's own temperature, recorded with replies of a model that rejects the field.
    dialect : {"chat", "responses"}
        Use ``/chat/completions``, or OpenAI's Responses API, which some models need. With the latter the server stores
        nothing, samples have no seed, and ``Likelihood`` is not available.
    thinking : mapping, "off" or "auto", optional
        Thinking budget of a model that reasons before it answers. ``{"tokens": 4096}`` adds that many to the limit of
        each answer; ``{"effort": "low"}`` also sets the server's ``reasoning_effort`` (minimal, low, medium or high);
        ``"auto"`` raises the limit until replies are complete, up to 32,768. ``"off"`` turns thinking off through the
        chat template's switch, if it has one; for OpenAI use ``{"effort": "none"}``. Part of the id if set. A
        request's own budget (an effort, tokens, or 0 for "off") takes precedence. By default limits are raised as with
        ``"auto"``, with a warning, once a reply shows an unfinished thought.
    prices : mapping, optional
        Dollars per million tokens, as in `biaslab.Budget`: ``input``, ``output`` and optionally ``cached``.
    limits : mapping, optional
        Maximum that one study may spend, by the names of `biaslab.Budget`: ``requests``, ``tokens``, ``minutes``,
        ``dollars``. `biaslab.collect` obeys them if it is given no budget; a card runs one study per probe.

    Attributes
    ----------
    id : str
        Model, address and every setting that replies depend on. The model that a server actually runs is known only
        from its replies; it is stored with each (`biaslab.Reply.model`), a change issues a warning, and
        ``fingerprint`` pins it. Only the first of several addresses is part of the id, so a study can continue with
        more servers.
    attempts : int
        Number of requests sent, including retries.
    faults : collections.Counter
        Counts of faults by description.

    Raises
    ------
    InputError
        If a value is not allowed.

    Notes
    -----
    * `Choice`, if the server returns log-probabilities of named tokens: the exact probability that the answer begins
      with the label, with or without a leading space (`biaslab.judges.api.exact_labels`). The first request tests this
      and checks it: probabilities from two orders of requests must agree, or `InexactLabelsWarning` is issued.
    * `Choice` otherwise: the label's share of the first tokens of a greedy answer, from ``top_logprobs``
      (`biaslab.judges.api.wire`). A `LocalJudge` differs from both: it scores every label with its terminator. If a
      server shows only 0 and -9999, the answer is sure if the server measures other answers, and unusable if not.
    * `Completion`: text. Each sample has a seed, which most servers obey; samples need not be reproducible.
    * `Likelihood`: through ``/completions``, if that returns log-probabilities of a prompt.
    * The first request of a kind is sent alone, to learn whether the server returns log-probabilities.
    * Text is sent unchanged: whether ``<|im_end|>`` in it is read as plain characters is up to the server.
    * Requests with a common prefix are sent together, to hit the server's prompt cache.
    * Several addresses share the requests, each at its own pace; unreachable servers are skipped
      (`biaslab.judges.api.endpoints`). Patience and budgets apply to the judge as a whole.
    * Reasoning models: `biaslab.Reply` holds the thought separately from the answer. The first four replies are read
      before more is asked; if most of them were cut off before an answer, the run ends with a `CutOffError`. A budget
      that does not cover thoughts ends it too (`biaslab.Budget`).
    * If the server rejects a request and names optional fields (temperature, seed, stop, the system role, the name of
      the limit), the request is sent again without them; if that succeeds, they are omitted from then on, with a
      warning. Replies state their temperature if it differs from the requested one. ``omit`` declares such fields, and
      those of OpenAI's reasoning models are known.
    * Retried: time-outs, lost connections, malformed HTTP, 408, 409, 429, 5xx, and responses without an answer. A
      request that alone keeps failing is postponed until all others are answered. Other errors and redirects end the
      run.

    Examples
    --------
    >>> ApiJudge("qwen3", "http://me:secret@localhost:8000/v1", parameters={"top_p": 0.9}).id
    'api:qwen3@localhost:8000/v1:{"parameters":{"top_p":0.9}}'
    """

    kinds: frozenset[type] = frozenset({Choice, Completion, Likelihood})
    thinks = True

    def __init__(
        self,
        model: str,
        base_url: str | Sequence[str] | None = None,
        api_key: str | Callable[[], str] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        prefill: str | Mapping[str, Any] | None = None,
        likelihood: Literal["echo", "prompt_logprobs"] = "echo",
        exact: bool = True,
        top_logprobs: int = 20,
        fingerprint: str | None = None,
        max_concurrency: int = 64,
        timeout: float = 300.0,
        patience: Patience | None = None,
        redirects: Literal["refuse", "same_host"] = "refuse",
        token_field: str | None = None,
        omit: str | Sequence[str] = (),
        default_temperature: float = 1.0,
        dialect: Literal["chat", "responses"] = "chat",
        thinking: Mapping[str, Any] | str | int | None = None,
        prices: Mapping[str, float] | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        check_settings(model, likelihood, dialect, redirects, top_logprobs, max_concurrency, timeout)
        for name, value in (("model", model), ("parameters", parameters), ("prefill", prefill)):
            require_no_secret(name, value)
        if prices:
            check_spending("prices", prices, PRICES)
        check_spending("limits", limits or {}, LIMITS)
        omitted = tuple(sorted(omit.split(",") if isinstance(omit, str) and omit else omit))
        for name in omitted:
            require_one_of("omit", name, ("temperature", "seed", "stop", "system"))
        if not fits(default_temperature, float) or not 0 <= default_temperature < math.inf:
            raise InputError("default_temperature", default_temperature, "a number of at least 0")
        if isinstance(prefill, str):
            require_one_of("prefill", prefill, tuple(PREFILLS))
            prefill = PREFILLS[prefill]
        addresses = addresses_of(base_url)
        of_chat = "max_completion_tokens" if addresses[0].url == OPENAI else "max_tokens"
        limit = token_field or (TOKEN_FIELD if dialect == "responses" else of_chat)
        off = addresses[0].url == OPENAI or dialect == "responses"
        read = (prefill, likelihood, top_logprobs, ThinkingOption.of(thinking))
        self.wire = Wire(model, limit, dict(parameters or {}), *read, off_by_effort=off, dialect=dialect)
        own = settings(self.wire, fingerprint, exact, omitted, default_temperature)
        self.id = f"api:{model}@{addresses[0].shown}{own}"
        self.fingerprint, self.timeout, self.patience = fingerprint, timeout, patience or Patience()
        self.redirects, self.attempts, self.faults = redirects, 0, Counter[str]()
        self.prices, self.limits = dict(prices or {}), dict(limits or {})
        may_name = exact and dialect == "chat"  # whether tokens can be named whose probabilities are wanted
        endpoints = []
        for address in addresses:
            exact_labels = ExactLabels(self.wire, address.url, None if may_name and address.url != OPENAI else False)
            endpoints.append(Endpoint(address, ApiKey(api_key, address), exact_labels, max_concurrency))
        self._endpoints = Endpoints(endpoints)
        self.refusals, self._models = Refusals(model, omitted, default_temperature), list[str]()
        self._sender = Sender(self.wire, self._endpoints, fingerprint, self.refusals)
        self._tell: Callable[[str], object] = str
        self._started: tuple[int, Loop, openai.AsyncOpenAI] | None = None

    @property
    def url(self) -> str:
        """The server's address (the first of several), without credentials."""
        return self._endpoints.members[0].url

    @property
    def is_exact(self) -> bool | None:
        """Whether labels are scored exactly at all addresses asked so far; None before the first request."""
        known = [each.exact.is_able for each in self._endpoints.members if each.exact.is_able is not None]
        return all(known) if known else None

    @property
    def thought_tokens(self) -> int:  # type: ignore[override] # it grows where the room is found out
        """Maximum thinking tokens before an answer, if known."""
        return self._sender.thoughts.default.room

    def __repr__(self) -> str:
        return f"ApiJudge({self.id!r})"

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if a request cannot be sent, its kind was refused before, or the API key is missing."""
        for endpoint in self._endpoints.members:
            endpoint.key.header()
        for request in requests:
            require_kinds(self, [request])
            self._sender.check(request)

    def packs(self, requests: Iterable[Request]) -> ReplyStream:
        """Answer each request once, in any order; all replies that have arrived are one pack, see `ReplyStream`.

        Raises
        ------
        UnsupportedRequestError
            If the server returns no log-probabilities; the message names the remedy.
        PromptTooLongError
            If the server reports this.
        ServerError
            If the server refuses permanently, or fails as often as allowed.
        """
        wanted = sorted(dict.fromkeys(requests), key=prefix_order)
        self.check(wanted)
        proven, thoughts = self._sender.proven, self._sender.thoughts
        first = {type(request): request for request in reversed(wanted) if type(request) not in proven}
        wanted = list(dict.fromkeys([*reversed(first.values()), *wanted]))  # each kind's first: shows what is refused
        loop, client = self._connect()
        how = partial(self._sender.attempt, client, self), self._endpoints, self.patience
        return ReplyStream(loop, *how, wanted, proven, self._note, self._retried, thoughts)

    @contextlib.contextmanager
    def watched(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Report retries to a callback within this context; it is called from another thread."""
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    def close(self) -> None:
        """Close the connections and end the thread; the next request reopens them."""
        if self._started is not None:
            _, loop, client = self._started
            self._started = None
            close_client(loop, client)

    def _connect(self) -> tuple[Loop, openai.AsyncOpenAI]:
        """Return the event loop and client of this process, started at the first request."""
        if self._started is None or self._started[0] != os.getpid():  # threads do not survive a fork
            loop, client = Loop(), open_client(self.url, self.timeout, self._endpoints.most)
            for endpoint in self._endpoints.members:
                endpoint.in_flight = 0
            self._started = (os.getpid(), loop, client)
            weakref.finalize(self, close_client, loop, client)
        return self._started[1:]

    def _retried(self, why: str) -> None:
        """Report the number of retries so far, and the reason for this one."""
        self._tell(f"{count(self.faults.total(), 'retry')}: {why}")

    def _note(self, reply: Reply) -> None:
        """Warn if the server's model changed, it rejects a field, or its label probabilities are not exact."""
        if words := self.refusals.warning():
            warn(f"{self.id}: {words}", NearestDesignWarning)
        if words := self._sender.thoughts.default.warning():
            warn(f"{self.id}: {words}", NearestDesignWarning)
        if words := self._sender.texts.warning():
            warn(f"{self.id}: {words}", InexactLabelsWarning)
        for endpoint in self._endpoints.members:
            words, endpoint.exact.warning = endpoint.exact.warning, ""
            if words:
                warn(words, InexactLabelsWarning)
        if reply.model is None or reply.model in self._models:
            return
        self._models.append(reply.model)
        if len(self._models) > 1:
            before = f"previously {self._models[-2]!r}; pin one with fingerprint="
            warn(f"{self.id} now runs {reply.model!r}; {before}", ModelChangedWarning)


#: Request fields with which servers continue a final assistant message, by server.
PREFILLS: Mapping[str, Mapping[str, Any]] = {
    "vllm": {"continue_final_message": True, "add_generation_prompt": False},
    "llama.cpp": {},
}


def settings(wire: Wire, fingerprint: str | None, exact: bool, omit: Sequence[str], temperature: float) -> str:
    """Return the non-default settings that affect replies, as canonical JSON."""
    values = {
        "exact": None if exact else False,
        "fingerprint": fingerprint,
        "likelihood": wire.likelihood if wire.likelihood != "echo" else None,
        "omit": list(omit) or None,
        "default_temperature": None if temperature == 1.0 else temperature,
        "dialect": wire.dialect if wire.dialect != "chat" else None,
        "parameters": dict(wire.parameters) or None,
        "thinking": None if wire.thinking is None else wire.thinking.setting,
        "prefill": None if wire.prefill is None else dict(wire.prefill),
        "top_logprobs": wire.top_logprobs if wire.top_logprobs != Wire.top_logprobs else None,
    }
    changed = {name: value for name, value in values.items() if value is not None}
    try:
        return f":{canonical_json(changed)}" if changed else ""
    except (TypeError, ValueError):
        raise InputError("parameters", wire.parameters, "JSON-serialisable fields") from None


def check_settings(
    model: str, likelihood: str, dialect: str, redirects: str, top_logprobs: int, most: int, timeout: float
) -> None:
    """Raise `InputError` if an argument is not allowed."""
    if not isinstance(model, str) or not model.strip():
        raise InputError("model", model, "the name of a model")
    require_one_of("likelihood", likelihood, ("echo", "prompt_logprobs"))
    require_one_of("dialect", dialect, ("chat", "responses"))
    require_one_of("redirects", redirects, ("refuse", "same_host"))
    for name, value in (("top_logprobs", top_logprobs), ("max_concurrency", most)):
        require_whole(name, value, 1)
    if not isinstance(timeout, Real) or not 0 < timeout < math.inf:
        raise InputError("timeout", timeout, "seconds above 0")


#: Keyword arguments of `biaslab.ApiJudge` that can be given as text, with their types.
OPTIONS: dict[str, Any] = get_type_hints(ApiJudge.__init__) | {"patience": Mapping[str, Any]}
for _other in ("model", "base_url", "return"):
    del OPTIONS[_other]
#: Options that may hold a key, also where they are misspelt, so that no error quotes their values.
_SECRET = ("api_key", "parameters", "prefill", "patience")
_NAMED = re.compile(r"@[A-Z][A-Z0-9_]*(?:,|$)")  # an environment variable that holds an address
#: Addresses without a scheme: on this machine, or with a port.
_BARE = re.compile(r"@(?=(?:localhost|127\.0\.0\.1|\[::1\]|[\w.-]+(?=:\d+(?:[/,]|$)))(?::\d+)?(?:[/,]|$))")
#: Request fields that need no "parameters." prefix.
FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "max_tokens", "max_completion_tokens", "reasoning_effort", "verbosity", "service_tier",
)  # fmt: skip


def split_address(name: str) -> tuple[str, str | None, dict[str, Any]]:
    """Split a judge's name after ``api:`` into model, address and options.

    Parameters
    ----------
    name : str
        ``MODEL[@ADDRESS][?NAME=VALUE&…]``; several addresses are separated by commas. An address may be in an
        environment variable, whose name is given in capitals; on this machine or with a port, it needs no ``http://``.

    Raises
    ------
    InputError
        If the part after ``?`` is not a list of options. Values are not displayed, because one may be a misplaced key.

    Examples
    --------
    >>> split_address("qwen3@http://localhost:8000/v1?prefill=vllm&temperature=0&patience.reach=2")
    ('qwen3', 'http://localhost:8000/v1', {'prefill': 'vllm', 'temperature': '0', 'patience': {'reach': '2'}})
    >>> split_address("qwen3@127.0.0.1:8000/v1,gpu2:8000/v1")[:2]
    ('qwen3', 'http://127.0.0.1:8000/v1,http://gpu2:8000/v1')
    """
    where, mark, query = name.partition("?")
    if bare := _BARE.search(where):
        hosts = where[bare.end() :].split(",")
        where = f"{where[: bare.start()]}@{','.join(host if '://' in host else f'http://{host}' for host in hosts)}"
    model, address, rest = where.partition("@http")
    if not address and _NAMED.search(where):
        model, _, rest = where.rpartition("@")
    pairs = parse_qsl(query, keep_blank_values=True)
    if mark and (not pairs or len(pairs) < query.strip("&").count("&") + 1 or not all(value for _, value in pairs)):
        raise InputError("judge", f"api:{model}…?…", "api:model@address?name=value&name=value, such as ?prefill=vllm")
    options: dict[str, Any] = {}
    for option, value in pairs:
        table, dot, field = option.partition(".")
        if dot:
            options.setdefault(table, {})[field] = value
        else:
            options[option] = value
    return model, f"{address[1:]}{rest}" if rest else None, options


def make_judge(
    model: str, address: str | None, options: Mapping[str, Any], where: str = "", also: tuple[str, ...] = ()
) -> ApiJudge:
    """Create a judge behind a server from options in an address or a file.

    Parameters
    ----------
    model : str
        Name of the model on the server.
    address : str, optional
        By default OpenAI's; several are separated by commas.
    options : mapping
        Keyword arguments of `biaslab.ApiJudge` (numbers may be text), and fields of every request (``temperature=0``;
        less common ones as ``parameters.NAME``), "none" to omit one.
    where : str
        The table that contains them, for messages.
    also : tuple of str
        Other keys allowed in the table, for messages.

    Raises
    ------
    InputError
        If an option is unknown or has an invalid value.

    Examples
    --------
    >>> make_judge("qwen3", "http://localhost:8000/v1", {"prefill": "llama.cpp", "temperature": "0"}).id
    'api:qwen3@localhost:8000/v1:{"parameters":{"temperature":0},"prefill":{}}'
    """
    _require_known(where, options, (*also, *OPTIONS, *FIELDS))
    place = f"{where}." if where else ""
    read = {name: _read(f"{place}{name}", hint, options[name]) for name, hint in OPTIONS.items() if name in options}
    if fields := {name: _value(options[name]) for name in FIELDS if name in options}:
        read["parameters"] = fields | read.get("parameters", {})
    if "patience" in read:
        _require_known(f"{place}patience", read["patience"], tuple(Patience.__dataclass_fields__))
        read["patience"] = Patience(**read["patience"])
    return ApiJudge(model, address, **read)


def _require_known(where: str, names: Iterable[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            some = f"one of {', '.join(known)}" + (", parameters.NAME" if "parameters" in known else "")
            raise InputError(where or "option", name, some, did_you_mean(name, known))


def _read(name: str, hint: Any, value: Any) -> Any:
    """Convert a value, or the values of a table, to the type of an option."""
    parsed = {key: _value(each) for key, each in value.items()} if isinstance(value, Mapping) else _value(value)
    value = parsed if fits(parsed, hint) else value
    if name.rpartition(".")[2] in _SECRET and not fits(value, hint):
        raise InputError(name, HIDDEN, checks.describe(hint))
    require_fits(name, value, hint)
    return value


def _value(value: Any) -> Any:
    """Parse a text as a number, boolean, None or JSON document; else return it unchanged."""
    if not isinstance(value, str):
        return value
    if value.lower() in ("none", "null"):
        return None
    try:
        return json.loads(value)
    except ValueError:
        return value


def __dir__() -> list[str]:
    return __all__
