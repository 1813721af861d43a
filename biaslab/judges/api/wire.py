"""Write requests for an OpenAI-compatible server, and parse its responses."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, permutations
from typing import Any, Literal

from biaslab.core import (
    UNUSABLE,
    Choice,
    Completion,
    Likelihood,
    Reply,
    Request,
    ThinkingBudget,
    Usage,
    as_prompt,
    request_key,
)
from biaslab.core.errors import JudgeError, UnsupportedRequestError
from biaslab.judges.api.faults import Fault, thinks_first, without_probabilities
from biaslab.judges.api.label_mass import Place, impossible, is_vague, read_labels
from biaslab.judges.api.reported import model_of, reason_of, shows_thought, usage_of
from biaslab.judges.api.responses import RESPONSES, as_chat, as_responses
from biaslab.judges.thinking import Thinking
from biaslab.prompts.parsing.thoughts import split_message

CHAT, PLAIN = "/chat/completions", "/completions"
IMPOSSIBLE = -9999.0  # how vLLM writes the logarithm of 0
_CHARACTERS = 3  # maximum length of a single-token label


@dataclass(frozen=True)
class Wire:
    """The request format of one server; the parameters are those of `biaslab.judges.api.ApiJudge`.

    ``off_by_effort`` says whether thinking is turned off by an effort rather than the chat template's switch. With the
    ``dialect`` "responses", bodies and answers are those of OpenAI's Responses API.
    """

    model: str
    token_field: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    prefill: Mapping[str, Any] | None = None
    likelihood: Literal["echo", "prompt_logprobs"] = "echo"
    top_logprobs: int = 20
    thinking: Thinking | None = None
    off_by_effort: bool = False
    dialect: Literal["chat", "responses"] = "chat"

    def thinking_at(self, budget: ThinkingBudget | None) -> Thinking | None:
        """Return the thinking budget of a request or, if it sets none, of the judge."""
        if budget is None:
            return self.thinking
        return (self.thinking or Thinking()).at(budget, self.off_by_effort)

    def write(self, request: Request, room: int | None = None) -> tuple[str, dict[str, Any]]:
        """Return the path and the JSON body of a request.

        Parameters
        ----------
        request : Request
            The request.
        room : int, optional
            Thinking tokens in addition to the answer; by default those of the request's budget, or of ``thinking``.

        Raises
        ------
        UnsupportedRequestError
            If the conversation ends with the assistant, and it is not known how the server continues that; or if a
            label distribution is requested from a judge that thinks first.
        """
        request = as_prompt(request)
        if isinstance(request, Likelihood):
            if self.dialect == "responses":
                raise UnsupportedRequestError("the Responses API gives no log-probabilities of a prompt", request)
            body: dict[str, Any] = {"model": self.model, "prompt": request.given + request.text, "temperature": 0}
            if self.likelihood == "echo":
                body |= {"echo": True, "logprobs": 1, "max_tokens": 1}
            else:
                body |= {"prompt_logprobs": 0, "max_tokens": 1}
            return PLAIN, self.with_parameters(body)
        body = {"model": self.model, "messages": [message._asdict() for message in request.messages]}
        declared = self.thinking_at(request.thinking)
        thinking = declared or Thinking()
        if isinstance(request, Choice):
            if declared is not None and declared.is_on:
                raise thinks_first(request)
            body |= {"temperature": 0, self.token_field: tokens_of(request.labels)}
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        else:
            room = thinking.tokens if room is None else room
            body |= {"temperature": request.temperature, self.token_field: request.max_tokens + room}
            if request.temperature > 0:
                body["seed"] = seed_of(request)
        if request.messages[-1].role == "assistant":
            body |= self._prefilled(request)
        body |= thinking.fields
        if self.dialect == "responses":
            return RESPONSES, self.with_parameters(as_responses(body))
        return CHAT, self.with_parameters(body)

    def _prefilled(self, request: Request) -> Mapping[str, Any]:
        if self.prefill is None:
            words = (
                "the conversation ends with an assistant message, which most servers do not continue; if yours does, "
                "set prefill='vllm', prefill='llama.cpp' for a server that needs no field, or your own fields; in a "
                "judge's name ?prefill=vllm"
            )
            raise UnsupportedRequestError(words, request)
        return self.prefill

    def with_parameters(self, body: dict[str, Any]) -> dict[str, Any]:
        """Add the common fields to a body, omitting those that are None."""
        return {name: value for name, value in {**body, **self.parameters}.items() if value is not None}

    def read(self, request: Request, document: object, seen: bool = True) -> Reply:
        """Parse a server's response into a reply.

        Parameters
        ----------
        request : Request
            The request.
        document : object
            The JSON response.
        seen : bool
            Whether this server has returned log-probabilities before; their absence is then a fault rather than a
            limitation.

        Raises
        ------
        Fault
            If the response does not answer the request.
        UnsupportedRequestError
            If the server returns no log-probabilities.
        """
        if self.dialect == "responses":
            document = as_chat(document)
        if not isinstance(document, dict):
            raise Fault("the server did not send a JSON object")
        choices = document.get("choices")
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
            error = document.get("error")
            raise Fault(f"the server sent no choices{f': {json.dumps(error)[:200]}' if error else ''}")
        choice = next((choice for choice in choices if choice.get("index") == 0), choices[0])  # of n, in any order
        request = as_prompt(request)
        common: dict[str, Any] = {"usage": usage_of(document.get("usage")), "model": model_of(document)}
        try:
            if isinstance(request, Likelihood):
                return Reply(logprobs=self._likelihood(request, choice, seen), **common)
            return self._reply(request, choice, common, seen)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise Fault(f"the server sent a malformed response ({type(error).__name__})") from None

    def _reply(self, request: Choice | Completion, choice: dict[str, Any], common: Any, seen: bool) -> Reply:
        message, reason = choice["message"], reason_of(choice)
        refusal, (text, thought) = message.get("refusal"), split_message(message)
        if refusal:
            text, reason = str(refusal), "refusal"
        if isinstance(request, Completion):
            return Reply(text=text or "", finish_reason=reason, thought=thought, **common)
        if reason in ("content_filter", "refusal"):
            return declined(request, reason, common["usage"], common["model"])
        if shows_thought(choice, common["usage"]):
            raise thinks_first(request)
        logprobs = choice.get("logprobs")
        if not isinstance(logprobs, dict) or not logprobs.get("content"):
            if text == "" or seen:
                raise Fault("the server sent no log-probabilities this time")
            raise without_probabilities(request)
        if any(_is_lost(entry, self.top_logprobs) for entry in logprobs["content"]):
            raise Fault("the server omitted top tokens of an answer, as vLLM may if other requests name theirs")
        why = next(filter(None, map(_why_impossible, logprobs["content"])), "")
        if why:
            return unusable(request, why, **common)
        mass = read_labels(request.labels, [_place(entry) for entry in logprobs["content"]])
        if is_vague(mass):
            common |= {
                "finish_reason": UNUSABLE,
                "text": "omitted labels may be likelier than the returned ones",
            }
        return Reply(logprobs=mass.logprobs, unseen=mass.unseen, bounded=mass.bounded, **common)

    def _likelihood(self, request: Likelihood, choice: dict[str, Any], seen: bool) -> tuple[float, ...]:
        offsets: Sequence[int] | None = None
        if self.likelihood == "echo":
            logprobs = choice.get("logprobs")
            if isinstance(logprobs, dict):
                pairs = list(zip(logprobs["tokens"], logprobs["token_logprobs"], strict=True))
                offsets = logprobs.get("text_offset")
        else:
            logprobs = choice.get("prompt_logprobs")
            if isinstance(logprobs, list):
                entries = [next(iter(entry.values())) if entry else None for entry in logprobs]
                pairs = [(e["decoded_token"], e["logprob"]) if e else ("", None) for e in entries]
        if not logprobs:
            if seen:
                raise Fault("the server sent no log-probabilities this time")
            raise without_probabilities(request)
        return text_part(request, pairs, offsets)


def text_part(
    request: Likelihood, pairs: Sequence[tuple[str, float | None]], offsets: Sequence[int] | None = None
) -> tuple[float, ...]:
    """Return the log-probabilities of the tokens that overlap the text, from those of the whole prompt.

    A token that spans ``given`` and the text counts as the text's. Tokens without a log-probability, such as the first
    of a prompt, are dropped, and so is anything the server wrote after the prompt.

    Parameters
    ----------
    request : Likelihood
        The request.
    pairs : sequence of (str, float or None)
        Tokens with their log-probabilities.
    offsets : sequence of int, optional
        Where each token begins in the prompt; used if the tokens, which may be parts of characters, do not join to the
        prompt.

    Raises
    ------
    ValueError
        If the tokens are not those of the prompt.
    """
    tokens = [token for token, _ in pairs]
    whole, joined = request.given + request.text, "".join(tokens)
    first_token = tokens[0] if pairs and pairs[0][1] is None else ""
    if whole in joined:
        starts = list(accumulate(map(len, tokens), initial=-joined.find(whole)))
    elif not first_token and joined and whole.endswith(joined):  # the first token has no log-probability of its own
        starts = list(accumulate(map(len, tokens), initial=len(whole) - len(joined)))
    elif offsets is not None and len(offsets) == len(pairs):
        starts = [*offsets, len(whole)]
    else:
        raise ValueError
    return tuple(
        level_of(level)
        for (_, level), start, end in zip(pairs, starts, starts[1:], strict=False)
        if level is not None and end > len(request.given) and start < len(whole) and end > start
    )


def declined(request: Request, reason: str, usage: Usage | None = None, model: str | None = None) -> Reply:
    """Return the reply for a refusal by the server: no text, or no label."""
    usage = usage or Usage()
    if isinstance(request, Completion):
        return Reply(text="", finish_reason=reason, usage=usage, model=model)
    size = len(request.labels) if isinstance(request, Choice) else 0
    return Reply(logprobs=(-math.inf,) * size, finish_reason=reason, usage=usage, model=model)


def unusable(request: Choice, why: str, usage: Usage | None = None, model: str | None = None) -> Reply:
    """Return the reply for invalid probabilities: no label, and the reason as its text."""
    return replace(declined(request, UNUSABLE, usage, model), text=why)


def tokens_of(labels: Sequence[str]) -> int:
    """Return the number of tokens needed to distinguish labels: 1 if each is one token.

    Examples
    --------
    >>> tokens_of(("A", "B")), tokens_of(("1", "10")), tokens_of(("Summary A", "Summary B"))
    (1, 2, 4)
    """
    longest = max(map(len, labels))
    if longest <= _CHARACTERS and not any(b.startswith(a) for a, b in permutations(labels, 2)):
        return 1
    return math.ceil(longest / _CHARACTERS) + 1


def seed_of(request: Completion) -> int:
    """Return a sample's seed, derived from everything that identifies it: replicates differ, reruns do not."""
    return int(hashlib.sha256(request_key(request, "sampling").encode()).hexdigest()[:7], 16)


def prefix_order(request: Request) -> tuple[str, str]:
    """Return a sort key that groups requests with a common prefix."""
    request = as_prompt(request)
    if isinstance(request, Likelihood):
        return PLAIN, request.given + request.text
    return CHAT, "\0".join(f"{m.role}\0{m.content}" for m in request.messages)


def check(wire: Wire, request: Request) -> None:
    """Raise a `JudgeError` if a request cannot be written."""
    wire.write(request)
    request = as_prompt(request)
    if isinstance(request, Likelihood):
        text = request.given + request.text
    else:
        text = "".join(message.content for message in request.messages)
    try:
        text.encode()
    except UnicodeEncodeError:
        words = "the request contains a lone surrogate, which no server can read; remove it"
        raise JudgeError(words, request) from None


def _place(entry: dict[str, Any]) -> Place:
    token = entry["token"]
    shown: dict[str, float] = {}
    for other in entry.get("top_logprobs") or ():
        level = math.exp(level_of(other["logprob"])) + math.exp(shown.get(other["token"], -math.inf))
        shown[other["token"]] = math.log(level) if level > 0 else -math.inf
    shown.setdefault(token, level_of(entry["logprob"]))
    if not isinstance(token, str):
        raise TypeError
    return Place(token, shown)


def _why_impossible(entry: dict[str, Any]) -> str:
    shown = [(other["token"], level_of(other["logprob"])) for other in entry.get("top_logprobs") or ()]
    if all(token != entry["token"] for token, _ in shown):
        shown.append((entry["token"], level_of(entry["logprob"])))
    return impossible(shown)


def _is_lost(entry: dict[str, Any], asked: int) -> bool:
    """Return whether top tokens were lost: vLLM then returns too few, including one with probability 0."""
    shown = entry.get("top_logprobs") or ()
    return len(shown) < asked and any(other["logprob"] <= IMPOSSIBLE for other in shown)


def level_of(value: float) -> float:
    """Return a log-probability of a server, at most 0.

    Raises
    ------
    ValueError
        If the value is not one.
    """
    if isinstance(value, bool) or math.isnan(value) or value > 0.01:
        raise ValueError
    return min(float(value), 0.0)
