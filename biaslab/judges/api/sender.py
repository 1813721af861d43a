"""Send one request once: exact labels where the server can, without refused parameters, with more room for thoughts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from biaslab.core.errors import CutOffError, JudgeError, ServerError, UnsupportedRequestError
from biaslab.core.output import count
from biaslab.core.requests import Choice, Completion, Request, ThinkingBudget, thinking_of
from biaslab.core.trials import AT_LIMIT, Reply, Usage
from biaslab.judges.api import faults, runner
from biaslab.judges.api.endpoints import Endpoint, Endpoints
from biaslab.judges.api.exact_labels import Post
from biaslab.judges.api.runner import Connection
from biaslab.judges.api.wire import Wire, check, contradiction, declined
from biaslab.judges.panel import read_verdict
from biaslab.judges.thinking import LEAST, MOST, ThinkingOption
from biaslab.prompts.parsing.thoughts import answered, begins_inside, is_cut_off, split_thought

if TYPE_CHECKING:
    import openai

    from biaslab.judges.api import ApiJudge


class Sender:
    """Sends the requests of one judge, and remembers what its server refuses.

    Parameters
    ----------
    wire : Wire
        How requests are written.
    endpoints : Endpoints
        The servers.
    fingerprint : str or None
        Fingerprint or model that every reply must report.
    refusals : Refusals
        Fields that the server rejects.

    Attributes
    ----------
    thoughts : ThoughtsByBudget
        Length of thoughts so far.
    proven : set of type
        Kinds that the server has answered: the first request of a kind is sent alone.
    texts : ContradictedLabels
        How often the text of an answer contradicts its log-probabilities.
    """

    def __init__(self, wire: Wire, endpoints: Endpoints, fingerprint: str | None, refusals: Refusals) -> None:
        self._wire, self._endpoints, self._fingerprint, self.refusals = wire, endpoints, fingerprint, refusals
        self.thoughts = ThoughtsByBudget(wire.thinking_at)
        self.proven: set[type] = set()
        self.texts = ContradictedLabels()
        self._has_listed = len(endpoints.members) == 1  # a single server has nothing to be mixed with
        self._lacking: dict[tuple[type, bool], UnsupportedRequestError] = {}  # kinds not answered, and why

    def check(self, request: Request) -> None:
        """Raise a `JudgeError` if a request cannot be sent, or its kind was refused before."""
        if (why := self._lacking.get(_sort_of(request))) is not None:
            raise UnsupportedRequestError(why.reason, request, remedy=why.remedy)
        check(self._wire, request)

    async def attempt(self, client: openai.AsyncOpenAI, owner: ApiJudge, request: Request, endpoint: Endpoint) -> Reply:
        """Send once; raise a `Fault` if a retry may help."""
        link = runner.Connection(client, endpoint, owner, request)
        post = partial(self.refusals.send, link)
        try:
            await self._require_one_model(client, owner, request, endpoint)
            exact = await endpoint.exact.ask(request, post) if isinstance(request, Choice) else None
            reply = await self._generated(request, post, endpoint) if exact is None else exact
        except faults.Filtered:
            return declined(request, "content_filter", link.usage)
        except UnsupportedRequestError as error:
            self._lacking[_sort_of(request)] = error
            raise
        except JudgeError:
            raise
        except Exception as error:  # whatever a reply contains, it is just one bad reply
            fault = error if isinstance(error, faults.Fault) else faults.unreadable(error)
            fault.body = fault.body or link.body
            owner.faults[str(fault)] += 1
            raise fault from None
        if self._fingerprint is not None and self._fingerprint not in (reply.model or "").split():
            words = f"the server runs {reply.model or 'an unnamed model'}, not {self._fingerprint}"
            raise ServerError(f"{words}; request that model, or use another fingerprint", request)
        reasoning = max(reply.usage.reasoning_tokens, link.usage.reasoning_tokens)  # estimated if the server is silent
        return replace(reply, usage=replace(link.usage, reasoning_tokens=reasoning))

    async def _require_one_model(
        self, client: openai.AsyncOpenAI, owner: ApiJudge, request: Request, endpoint: Endpoint
    ) -> None:
        """List the models of every server before the first request, and of each before it is asked.

        A server that cannot be listed is left to its own first request, so that none is asked unlisted.
        """

        async def note(each: Endpoint) -> None:
            document = await runner.Connection(client, each, owner, request).models()
            self._endpoints.note_models(each, document, self._wire.model, request)

        if not self._has_listed:
            outcomes = await asyncio.gather(*map(note, self._endpoints.members), return_exceptions=True)
            self._has_listed = True
            for each, outcome in zip(self._endpoints.members, outcomes, strict=True):
                if outcome is not None and (each is endpoint or not isinstance(outcome, faults.Fault)):
                    raise outcome
        elif not endpoint.is_asked and len(self._endpoints.members) > 1:
            await note(endpoint)

    async def _generated(self, request: Request, post: Post, endpoint: Endpoint) -> Reply:
        """Send a request, with a larger thinking budget if the reply was cut off and this is allowed."""
        thoughts = self.thoughts.of(request)
        room, reasoning, first, paid = thoughts.room, 0, None, None
        while True:
            path, body = self._wire.write(request, room)
            try:
                document = await post(path, body)
            except JudgeError as error:
                if paid is None or not faults.refuses_size(error):
                    raise
                reply, document, room, body = paid  # a server that refuses more room has answered before
                break
            measures = isinstance(request, Choice) and await self._measures(document, post, endpoint)
            reply = thoughts.read(self._wire.read(request, document, type(request) in self.proven, measures))
            reasoning += reply.usage.reasoning_tokens
            paid = reply, document, room, body
            if thoughts.may_hide(request, reply):  # a prompt may open a thought whose text does not show it
                first, room = paid, LEAST
                continue
            if first is not None and reply.thought is None and not _ends_with_verdict(request, reply):
                reply, document, room, body = first
            first, larger = None, thoughts.more_room(request, reply, room)
            if larger is None:
                break
            room = larger
        if isinstance(request, Choice) and (is_other := contradiction(request, document, reply)) is not None:
            self.texts.read, self.texts.contradicted = self.texts.read + 1, self.texts.contradicted + is_other
        thoughts.note(request, reply, body.get(self._wire.token_field) or 0, room)
        known = replace(reply, usage=Usage(reasoning_tokens=reasoning))
        return at_temperature(request, known, self.refusals.temperature)

    async def _measures(self, document: object, post: Post, endpoint: Endpoint) -> bool:
        """Return whether a server has measured probabilities; if its first answer is sure, ask where none can be."""
        shown = self._wire.measures(document)
        if shown is False and endpoint.measures is None:
            task = endpoint.measuring
            if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
                task = endpoint.measuring = asyncio.ensure_future(self._is_unsure(post))
                task.add_done_callback(lambda done: done.cancelled() or done.exception())  # if nobody waits any longer
            shown = endpoint.measures = await asyncio.shield(task)
        endpoint.measures = endpoint.measures or shown
        return bool(endpoint.measures)

    async def _is_unsure(self, post: Post) -> bool:
        """Return whether a server has measured probabilities where no answer is sure; a `Fault` leaves this open."""
        try:
            return bool(self._wire.measures(await post(*self._wire.write(_UNSURE))))
        except (JudgeError, faults.Filtered):
            return False


_UNSURE = Choice("Write a random number of three digits.", ("1", "2"))
_READ, _MOST_CONTRADICTED = 50, 0.05


class ContradictedLabels:
    """Count greedy answers whose text is another label than the likeliest, so that one of both is not the model's."""

    def __init__(self) -> None:
        self.read = self.contradicted = 0
        self._has_warned = False

    def warning(self) -> str:
        """Return the message, once, if more than one of twenty answers are contradicted; else an empty string."""
        if self._has_warned or self.read < _READ or self.contradicted <= _MOST_CONTRADICTED * self.read:
            return ""
        self._has_warned = True
        shown = f"{self.contradicted} of {self.read} answers of the server are another label than the likeliest one"
        return f'{shown}; check its template and sampling, or read texts with answer="text"'


def _sort_of(request: Request) -> tuple[type, bool]:
    """Return the kind of a request, and whether it sets a thinking budget."""
    return type(request), thinking_of(request) is not None


_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
#: Optional fields, each with the words by which servers name it; "system" is the role of a message.
_NAMED = {
    "temperature": ("temperature",),
    "seed": ("seed",),
    "stop": ("stop",),
    "system": ("system", "role", "developer"),
}
_NAMED |= {name: (name.replace("_", ""),) for name in _LIMITS}
_STATUSES = (400, 404, 422)
#: Words about a value of which another would be accepted.
_OF_VALUES = ("positive", "greater", "larger", "less than", "between", "range", "at least", "at most", "exceed", "too ")
#: What well-known models reject.
_FIXED = ("o[134]", "o[134]-*", "gpt-5", "gpt-5-20*", "gpt-5-mini*", "gpt-5-nano*")
KNOWN: Mapping[str, tuple[str, ...]] = {
    "o1-mini*": ("temperature", "system"), **dict.fromkeys(_FIXED, ("temperature",)),
}  # fmt: skip


class Refusals:
    """Optional request fields that one judge's server rejects: known or declared ones, and those found out.

    If the server rejects a request and names optional fields, the request is sent again without them. They are omitted
    from then on if that is accepted.

    Parameters
    ----------
    model : str
        The model: some are known to reject fields.
    omit : sequence of str
        Fields declared by the user.
    temperature : float
        Temperature of replies if the field is omitted.

    Attributes
    ----------
    left_out : dict of str to str
        Omitted field → what happens instead.
    """

    def __init__(self, model: str, omit: Sequence[str], temperature: float) -> None:
        self._temperature, self._warned = temperature, len(omit)
        name = model.lower().rpartition("/")[2]
        known = next((fields for pattern, fields in KNOWN.items() if fnmatchcase(name, pattern)), ())
        self.left_out = {field: self._instead(field, "") for field in (*omit, *known)}

    @property
    def temperature(self) -> float | None:
        """The server's own temperature, if it accepts no other."""
        return self._temperature if "temperature" in self.left_out else None

    async def send(self, connection: Connection, path: str, body: Mapping[str, Any]) -> Any:
        """Send a body without rejected fields, learning which these are."""
        without: dict[str, str] = {}
        while True:
            sent = _adapted(body, {**self.left_out, **without})
            try:
                document = await connection.post(path, sent)
            except ServerError as error:
                rejected = {name: self._instead(name, error.words) for name in _rejected(sent, error)}
                if not rejected.keys() - without.keys():
                    if (refused := faults.about_thinking(connection.request, error)) is not None:
                        raise refused from error
                    raise
                without |= rejected
            else:
                self.left_out |= without
                return document

    def adapt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a body without rejected fields."""
        return _adapted(body, self.left_out)

    def warning(self) -> str:
        """Return the new message, or an empty string; what the user declared is no news."""
        if len(self.left_out) == self._warned:
            return ""
        self._warned = len(self.left_out)
        return "the server rejects parts of the requests: " + "; ".join(self.left_out.values())

    def _instead(self, name: str, words: str) -> str:
        if name == "temperature":
            why = f' ("{words}")' if words else ""
            other = "declare another with default_temperature"
            return f"temperature is omitted{why}, and taken for a fixed temperature of {self._temperature:g}: {other}"
        if name == "system":
            return "the system message is put at the beginning of the user message"
        return f"{name} is sent as {_LIMITS[name]}" if name in _LIMITS else f"{name} is omitted"


def at_temperature(request: Request, reply: Reply, temperature: float | None) -> Reply:
    """Record a server's own temperature, if it has one, with a reply for which another one was requested."""
    if temperature is None or not isinstance(request, Completion) or request.temperature == temperature:
        return reply
    return replace(reply, temperature=temperature)


def _rejected(body: Mapping[str, Any], error: ServerError) -> list[str]:
    """Return the optional fields of a body that an error names, unless it asks for another value."""
    words = error.words.replace("_", "").lower()
    if error.status not in _STATUSES:
        return []
    named = [name for name, several in _NAMED.items() if _has(body, name) and any(word in words for word in several)]
    return ["system"] * ("system" in named) if any(word in words for word in _OF_VALUES) else named


def _adapted(body: Mapping[str, Any], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return a body without the fields left out."""
    adapted = {name: value for name, value in body.items() if name not in left_out or name in _LIMITS}
    for name in left_out.keys() & _LIMITS.keys() & adapted.keys():
        adapted[_LIMITS[name]] = adapted.pop(name)
    if "system" in left_out and "messages" in adapted:
        adapted["messages"] = _without_system(adapted["messages"])
    return adapted


def _has(body: Mapping[str, Any], name: str) -> bool:
    if name == "system":
        return any(message.get("role") == "system" for message in body.get("messages", ()))
    return name in body


def _without_system(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Merge system messages into the user messages that follow."""
    kept: list[dict[str, str]] = []
    words: list[str] = []
    for message in messages:
        if message["role"] == "system":
            words.append(message["content"])
        elif message["role"] == "user" and words:
            kept.append({**message, "content": "\n\n".join([*words, message["content"]])})
            words = []
        else:
            kept.append(message)
    return [*kept, {"role": "user", "content": "\n\n".join(words)}] if words else kept


FIRST = 4  # replies of a reasoning model that are read before more is asked
_SHORT = 64  # a limit up to this many tokens leaves no room for reasons, so a reply without a verdict is a thought


class ThoughtsByBudget:
    """Track the thinking of one judge for each budget set by requests.

    Parameters
    ----------
    thinking_at : callable
        Maps a request's budget, or None, to what to ask for.

    Attributes
    ----------
    default : Thoughts
        The tracker for requests that set no budget.
    """

    def __init__(self, thinking_at: Callable[[ThinkingBudget | None], ThinkingOption | None]) -> None:
        self._thinking_at = thinking_at
        self.default = Thoughts(thinking_at(None))
        self._by_budget: dict[ThinkingBudget | None, Thoughts] = {None: self.default}

    def of(self, request: Request) -> Thoughts:
        """Return the tracker for the request's budget."""
        budget = thinking_of(request)
        if budget not in self._by_budget:
            self._by_budget[budget] = Thoughts(self._thinking_at(budget))
        return self._by_budget[budget]

    def holds(self, in_flight: int) -> bool:
        """Return whether to wait for the first replies at some budget before asking more."""
        return any(each.holds(in_flight) for each in list(self._by_budget.values()))

    def error(self, request: Request) -> CutOffError | None:
        """Return a message if most replies at the request's budget were cut off."""
        return self.of(request).error(request)


class Thoughts:
    """Track the thinking of one judge, and the tokens reserved for it.

    Parameters
    ----------
    thinking : ThinkingOption, optional
        What is requested.

    Attributes
    ----------
    room : int
        Tokens currently added to the limit of an answer.
    longest : int
        Length of the longest thought so far, in tokens.
    """

    def __init__(self, thinking: ThinkingOption | None) -> None:
        self._thinking = thinking
        self.room = 0 if thinking is None else thinking.tokens
        self.longest = 0
        self._inside = self._plain = 0  # counts of texts that begin inside a thought, and that end without any tag
        self._seen = self._cut = self._limit = 0
        self._reasons = self._declared = thinking is not None and thinking.is_on
        self._has_looked = self._has_warned = False
        self._suspected = 0  # replies without readable content that do not show why

    def read(self, reply: Reply) -> Reply:
        """Return a reply with its thinking separated from the text and counted in the usage."""
        if reply.text and reply.thought is not None:
            reply = answered(reply)  # some servers send the thought twice
        elif reply.text:
            thought, answer = split_thought(reply.text, opened=self._begins_inside(reply.text, reply.finish_reason))
            if thought is not None:
                reply = replace(reply, text=answer, thought=thought)
        usage = reply.usage
        if not reply.thought or usage.reasoning_tokens:
            return reply
        share = len(reply.thought) / (len(reply.thought) + len(reply.text or ""))  # if the server does not
        return replace(reply, usage=replace(usage, reasoning_tokens=round(share * usage.completion_tokens)))

    def _begins_inside(self, text: str, reason: str | None) -> bool:
        """Return whether a text begins inside thinking opened by the prompt, judging by it and earlier texts."""
        self._inside += begins_inside(text)
        if reason == AT_LIMIT:
            return self._inside > 0 or (self._reasons and self._declared and not self.longest)
        self._plain += split_thought(text).thought is None
        return self._inside > self._plain

    def is_cut(self, request: Completion, reply: Reply) -> bool:
        """Return whether a reply reached its limit because of its thinking."""
        if not is_cut_off(reply):
            return False
        usage = reply.usage
        crowded = usage.reasoning_tokens > 0 and usage.completion_tokens - usage.reasoning_tokens < request.max_tokens
        return not reply.text or crowded

    def more_room(self, request: Request, reply: Reply, room: int) -> int | None:
        """Return the larger budget to try after a cut-off reply; None if it was not cut off or no more is allowed."""
        shows = bool(reply.thought) or reply.usage.reasoning_tokens > 0
        is_auto = shows if self._thinking is None else self._thinking.mode == "auto"
        if not is_auto or room >= MOST or not isinstance(request, Completion) or not self.is_cut(request, reply):
            return None
        return min(max(LEAST, 2 * room), MOST)

    def may_hide(self, request: Request, reply: Reply) -> bool:
        """Return whether to ask once with room for a thought, because a short reply without a verdict may be one."""
        if self._thinking is not None or self._has_looked or reply.thought or not isinstance(request, Completion):
            return False
        self._has_looked = _says_nothing(request, reply)
        return self._has_looked

    def warning(self) -> str:
        """Return, once, that a model thinks for which no budget was set; else an empty string."""
        if self._thinking is not None or not self.room or self._has_warned:
            return ""
        self._has_warned = True
        length = f", up to {self.longest:,} tokens so far" if self.longest else ""
        return (
            f"the model thinks before it answers{length}, so each answer may take {self.room:,} tokens more than "
            'announced; set thinking="off", an effort or a number of tokens for less'
        )

    def note(self, request: Request, reply: Reply, limit: int, room: int) -> None:
        """Record a reply to a `Completion`, its limit and the thinking budget in it."""
        if not isinstance(request, Completion):
            return
        self._seen += 1
        cut = self.is_cut(request, reply)
        self.longest = max(self.longest, reply.usage.reasoning_tokens)
        self._reasons |= cut or reply.thought is not None or reply.usage.reasoning_tokens > 0
        if cut:
            self._cut, self._limit = self._cut + 1, max(self._limit, limit)
        else:
            self.room = max(self.room, room)
            self._suspected += _says_nothing(request, reply)

    def holds(self, in_flight: int) -> bool:
        """Return whether to wait for the first replies before asking more."""
        wary = self._reasons or self._suspected > 0
        return wary and 0 < self._seen < FIRST and in_flight >= FIRST - self._seen

    def error(self, request: Request) -> CutOffError | None:
        """Return a message if most replies were cut off, else None."""
        if self._seen < FIRST or (2 * self._cut <= self._seen and self._suspected < self._seen):
            return None
        if not self._cut:
            self._limit = request.max_tokens if isinstance(request, Completion) else 0
        took = f"thinking took up to {self.longest:,} tokens" if self.longest else "none reports its thinking tokens"
        tokens = max(4096, 4 * max(self.room, self.longest))
        room = "a thinking budget" if self._thinking is None else "a larger thinking budget"
        remedy = (
            f'set {room} with thinking={{"tokens": {tokens}}}, or ?thinking={tokens} in the judge\'s name; '
            'thinking="auto" determines how much it needs'
        )
        if (budget := thinking_of(request)) is not None:
            off = "omit the budget 0, because the model thinks anyway"
            remedy = f"set a larger budget than {budget}" if budget else off
        shown = f"{self._cut or self._suspected} of the first {count(self._seen, 'reply')}"
        problem = f"{shown} reached the limit of {self._limit:,} tokens before an answer"
        return CutOffError(f"{problem}; {took}; {remedy}", request)


def _ends_with_verdict(request: Request, reply: Reply) -> bool:
    about = request.about if isinstance(request, Completion) else None
    return about is not None and reply.finish_reason != AT_LIMIT and read_verdict(about, reply) is not None


def _says_nothing(request: Completion, reply: Reply) -> bool:
    """Return whether a short reply reached its limit before a verdict, as during thinking."""
    about = request.about
    if reply.finish_reason != AT_LIMIT or request.max_tokens > _SHORT or about is None or about.reasons != "none":
        return False
    return read_verdict(about, reply) is None
