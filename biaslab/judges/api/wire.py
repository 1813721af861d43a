"""Write requests for an OpenAI-compatible server, and parse its responses.

A `LocalJudge` scores every label; a server returns its 20 top tokens at each position of one greedy answer. So a
label's probability is summed over the returned tokens with which an answer begins with it, whatever their white space;
a label that no returned token completes has only an upper bound.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, permutations
from typing import Any, Literal, NamedTuple

from biaslab.core.errors import JudgeError, UnsupportedRequestError
from biaslab.core.requests import Choice, Completion, Likelihood, Request, ThinkingBudget, as_prompt, request_key
from biaslab.core.trials import AT_LIMIT, DECLINED, UNUSABLE, Reply, Usage
from biaslab.judges.api.faults import Fault, thinks_first, without_probabilities
from biaslab.judges.thinking import ThinkingOption
from biaslab.prompts.parsing.thoughts import opens_thought, split_message

CHAT, PLAIN = "/chat/completions", "/completions"
IMPOSSIBLE = -9999.0  # how vLLM writes the logarithm of 0
MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError)  # from an answer of the wrong shape
UNMEASURED = "the log-probabilities are all 0 or -9999, which are no measured probabilities"
_ROUNDING = 0.1  # nats: servers round log-probabilities
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
    thinking: ThinkingOption | None = None
    off_by_effort: bool = False
    dialect: Literal["chat", "responses"] = "chat"

    def thinking_at(self, budget: ThinkingBudget | None) -> ThinkingOption | None:
        """Return the thinking budget of a request or, if it sets none, of the judge."""
        if budget is None:
            return self.thinking
        return (self.thinking or ThinkingOption()).at(budget, self.off_by_effort)

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
        thinking = declared or ThinkingOption()
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
            why = "the conversation ends with an assistant message, which most servers do not continue"
            remedy = (
                "if yours does, set prefill='vllm', prefill='llama.cpp' for a server that needs no field, or your own "
                "fields; in a judge's name ?prefill=vllm"
            )
            raise UnsupportedRequestError(why, request, remedy=remedy)
        return self.prefill

    def with_parameters(self, body: dict[str, Any]) -> dict[str, Any]:
        """Add the common fields to a body, omitting those that are None."""
        return {name: value for name, value in {**body, **self.parameters}.items() if value is not None}

    def measures(self, document: object) -> bool | None:
        """Return whether log-probabilities are measured, not only 0 and -9999; None if a response has none."""
        try:
            chat: Any = as_chat(document)
            shown = [level for entry in _first_of(chat["choices"])["logprobs"]["content"] for _, level in _shown(entry)]
        except (Fault, *MALFORMED):
            return None
        return any(map(is_measured, shown)) if shown else None

    def read(self, request: Request, document: object, seen: bool = True, measures: bool = False) -> Reply:
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
        measures : bool
            Whether other answers of this server have measured log-probabilities. Then an answer that has only 0 and
            -9999 is sure, with probability 1; otherwise it is unusable.

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
        if document.get("error"):
            raise _broken_off(document["error"])
        choice = _first_of(choices)
        request = as_prompt(request)
        common: dict[str, Any] = {"usage": usage_of(document.get("usage")), "model": model_of(document)}
        try:
            if isinstance(request, Likelihood):
                return Reply(logprobs=self._likelihood(request, choice, seen), **common)
            return self._reply(request, choice, common, seen, measures)
        except MALFORMED as error:
            raise Fault(f"the server sent a malformed response ({type(error).__name__})") from None

    def _reply(
        self, request: Choice | Completion, choice: dict[str, Any], common: Any, seen: bool, measures: bool
    ) -> Reply:
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
        shown = list(map(_shown, logprobs["content"]))
        measures = measures or any(is_measured(level) for place in shown for _, level in place)
        why = next(filter(None, map(impossible, shown)), "" if measures else UNMEASURED)
        if why:
            return unusable(request, why, **common)
        places = [_place(entry["token"], each) for entry, each in zip(logprobs["content"], shown, strict=True)]
        mass = read_labels(request.labels, places)
        common |= _without_labels(mass, places, text)
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


def _first_of(choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the choice of index 0, which servers may send in any order."""
    return next((choice for choice in choices if choice.get("index") == 0), choices[0])


def contradiction(request: Choice, document: object, reply: Reply) -> bool | None:
    """Return whether the text of an answer begins with another label than the likeliest; None if it does with none."""
    chat = as_chat(document)
    if not isinstance(chat, dict) or not reply.logprobs or reply.finish_reason in (UNUSABLE, *DECLINED):
        return None
    text = str(split_message(_first_of(chat["choices"])["message"])[0] or "").lstrip()
    written = _completed(request.labels, "", text)
    likeliest = max(reply.logprobs)
    return None if written is None or likeliest == -math.inf else reply.logprobs[written] < likeliest - _ROUNDING


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


def _place(token: object, shown: Sequence[tuple[Any, float]]) -> TokenPosition:
    if not isinstance(token, str):
        raise TypeError
    levels: dict[str, float] = {}
    for other, level in shown:
        mass = math.exp(level) + math.exp(levels.get(other, -math.inf))
        levels[other] = math.log(mass) if mass > 0 else -math.inf
    return TokenPosition(token, levels)


def _shown(entry: dict[str, Any]) -> list[tuple[object, float]]:
    """Return the tokens that an entry shows, with their log-probabilities."""
    shown = [(other["token"], level_of(other["logprob"])) for other in entry.get("top_logprobs") or ()]
    if all(token != entry["token"] for token, _ in shown):
        shown.append((entry["token"], level_of(entry["logprob"])))
    return shown


def _is_lost(entry: dict[str, Any], asked: int) -> bool:
    """Return whether top tokens were lost: vLLM then returns too few, including one with probability 0."""
    levels = [other["logprob"] for other in entry.get("top_logprobs") or ()]
    return len(levels) < asked and any(level <= IMPOSSIBLE for level in levels) and any(map(is_measured, levels))


def is_measured(level: float) -> bool:
    """Return whether a log-probability is neither 0 nor that of an impossible token, as after a greedy choice."""
    return IMPOSSIBLE < level < 0


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


MOST_MASS = 1 + 1e-3  # allows for rounding of the servers' numbers
_MOST_HIDDEN = 0.05  # maximum share of the labels' probability that omitted labels may have
_LEAST = 1e-3  # rarer tokens may be different tokens with the same text and the same probability


class TokenPosition(NamedTuple):
    """One token position of an answer: the generated token, and the top tokens with their log-probabilities."""

    token: str
    shown: dict[str, float]


class LabelMass(NamedTuple):
    """The probabilities of labels in one answer.

    Attributes
    ----------
    logprobs : tuple of float
        Log-probability of each label, or its upper bound if it was not returned; all ``-inf`` if no label was
        returned.
    unseen : float
        Probability of answers that were not returned, or too short to tell which label they begin.
    bounded : tuple of int
        Indices of labels that were not returned.
    """

    logprobs: tuple[float, ...]
    unseen: float
    bounded: tuple[int, ...]


def read_labels(labels: Sequence[str], places: Sequence[TokenPosition]) -> LabelMass:
    """Sum the probability of each label.

    Parameters
    ----------
    labels : sequence of str
        The allowed answers.
    places : sequence of TokenPosition
        The greedy answer, token by token.

    Notes
    -----
    For a label L of several tokens, P(L) = P(first token) · P(second | first) · …, known only along the greedy answer;
    that suffices for "Summary A" and "Summary B" if the answer begins with "Summary". A label must not be continued:
    "1" does not count within "10", as far as the next token is known, again only along the greedy answer. The bound
    assumes that an omitted token is at most as likely as the least likely returned one. An answer that consists of the
    last word of a label ("A" of "Summary A") counts as that label, if last words distinguish all labels.

    Examples
    --------
    >>> places = [TokenPosition("A", {"A": math.log(0.7), " A": math.log(0.1), "The": math.log(0.15)})]
    >>> mass = read_labels(("A", "B"), places)
    >>> [round(math.exp(value), 3) for value in mass.logprobs], round(mass.unseen, 3), mass.bounded
    ([0.8, 0.05], 0.05, (1,))
    """
    mass, short = _mass_of(labels, places), _last_words(labels)
    answer = "".join(place.token for place in places).strip(_SIGNS)
    return _mass_of(short, places) if len(mass.bounded) == len(labels) and answer in short else mass


def _mass_of(labels: Sequence[str], places: Sequence[TokenPosition]) -> LabelMass:
    seen, hidden = [0.0] * len(labels), [0.0] * len(labels)
    written, path, unseen = "", 1.0, 0.0
    for at, place in enumerate(places):
        open_labels = [i for i, label in enumerate(labels) if len(label) > len(written) and label.startswith(written)]
        ended = next((i for i, label in enumerate(labels) if label == written), None)
        if not open_labels and ended is None:
            break
        chances = {token: path * math.exp(level) for token, level in place.shown.items()}
        if ended is not None:  # a continuation of the label is not the label
            seen[ended] += path - sum(p for token, p in chances.items() if goes_on(written, token))
        rest = max(path - sum(chances.values()), 0.0)
        unseen += rest if open_labels else 0.0
        for i in open_labels:
            hidden[i] += min(rest, min(chances.values(), default=rest))
        for token, p in chances.items():
            text = (written + token).lstrip()
            complete = _completed(labels, written, text)
            follows = token == place.token and at + 1 < len(places)
            begun = [i for i in open_labels if len(labels[i]) > len(text) and labels[i].startswith(text)]
            if complete is not None and not (follows and text == labels[complete]):
                seen[complete] += p
            elif begun and not follows:
                unseen += p
                for i in begun:
                    hidden[i] += p
        path = chances.get(place.token, 0.0)
        written = (written + place.token).lstrip()
    bounded = tuple(i for i, p in enumerate(seen) if p <= 0.0)
    if len(bounded) < len(labels):
        seen = [hidden[i] if i in bounded else p for i, p in enumerate(seen)]
    levels = tuple(min(math.log(p), 0.0) if p > 0 else -math.inf for p in seen)
    return LabelMass(levels, min(max(unseen, 0.0), 1.0), bounded)


_SIGNS = " \n.*[]()"


def _last_words(labels: Sequence[str]) -> Sequence[str]:
    """Return the last word of each label; none if they do not distinguish labels, or are the labels."""
    words = [(label.split() or [label])[-1] for label in labels]
    return words if len(set(words)) == len(words) and words != list(labels) else ()


def impossible(shown: Sequence[tuple[object, float]]) -> str:
    """Return why log-probabilities of tokens are not a valid distribution, or an empty string.

    Different tokens may have the same text, such as "A" and " A" if a server strips white space; one that is listed
    twice with the same probability is invalid.

    Examples
    --------
    >>> impossible([("A", -0.1), ("B", -0.2)])
    'the probabilities of the returned tokens sum to 1.72'
    >>> impossible([("A", -1.0), ("B", -1.5), ("A", -1.0)])
    "the token 'A' occurs twice"
    """
    mass = math.fsum(math.exp(level) for _, level in shown)
    if mass > MOST_MASS:
        return f"the probabilities of the returned tokens sum to {mass:.3g}"
    likely = Counter(entry for entry in shown if entry[1] > math.log(_LEAST))
    return next((f"the token {token!r} occurs twice" for (token, _), times in likely.items() if times > 1), "")


def is_vague(mass: LabelMass) -> bool:
    """Return whether omitted labels may have so much probability that the others' shares are unknown.

    Examples
    --------
    >>> is_vague(LabelMass((math.log(0.7), math.log(0.3)), 0.3, (1,)))
    True
    >>> is_vague(LabelMass((math.log(0.9), math.log(0.01)), 0.05, (1,)))
    False
    """
    if len(mass.bounded) == len(mass.logprobs):  # none was returned, so the answer is not a label
        return False
    bounds = math.fsum(math.exp(mass.logprobs[at]) for at in mass.bounded)
    hidden = min(bounds, mass.unseen)  # together they cannot exceed what was omitted
    return hidden > _MOST_HIDDEN * (math.fsum(map(math.exp, mass.logprobs)) - bounds + hidden)


def _without_labels(mass: LabelMass, places: Sequence[TokenPosition], text: str | None) -> dict[str, Any]:
    """Return finish reason and text of a reply whose labels cannot be read, and the text of one that has none."""
    is_other = len(mass.bounded) == len(mass.logprobs)
    if is_other and all(map(_NAMELESS.fullmatch, places[0].shown)):
        return {"finish_reason": UNUSABLE, "text": "the tokens are ids or bytes, so they cannot be read as labels"}
    if is_vague(mass):
        return {"finish_reason": UNUSABLE, "text": "omitted labels may be likelier than the returned ones"}
    return {"text": text} if is_other else {}


def goes_on(label: str, text: str) -> bool:
    """Return whether the text after a label continues it, as "0" continues "1", or ".5" does."""
    if not text or not label[-1:].isalnum():
        return False
    return text[0].isalnum() or (label[-1].isdigit() and len(text) > 1 and text[0] in ".," and text[1].isdigit())


def _completed(labels: Sequence[str], written: str, text: str) -> int | None:
    """Return the index of the longest label that the last token completes."""
    fitting = [
        i
        for i, label in enumerate(labels)
        if len(label) > len(written)
        and label.startswith(written)
        and text.startswith(label)
        and not goes_on(label, text[len(label) :])
    ]
    return max(fitting, key=lambda i: len(labels[i]), default=None)


_NAMELESS = re.compile(r"(?:token_id:|bytes:|<0x).*|", re.DOTALL)
_AT_LIMIT = re.compile(r"(?:\w+_)?length|max_\w*tokens?|token_limit\w*|model_context_window_exceeded", re.IGNORECASE)
_DECLINED = re.compile(
    r"(?:content_?|safety_?)filter\w*|(?:\w+_)?safety|recitation|blocklist|prohibited_content|spii|sensitive",
    re.IGNORECASE,
)
_BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "canceled"})
_REASONING = ("reasoning_tokens", "thinking_tokens", "thoughts_token_count", "thoughtsTokenCount")
_MOST_TOKENS = 2**40  # sums of such counts still fit into a store


def shows_thought(choice: Mapping[str, Any], usage: Usage) -> bool:
    """Return whether a chat completion begins with thinking, or used thinking tokens."""
    message = choice.get("message")
    text, thought = split_message(message) if isinstance(message, Mapping) else (None, None)
    return bool(thought) or usage.reasoning_tokens > 0 or opens_thought(text or "")


def usage_in(document: object) -> Usage:
    """Return the token counts in a response; zeros if it has none."""
    chat = as_chat(document)
    return usage_of(chat.get("usage")) if isinstance(chat, dict) else Usage()


def usage_of(reported: object) -> Usage:
    """Return the token counts reported by a server; zeros if it reports none.

    Raises
    ------
    Fault
        If a count is implausibly large.
    """
    if not isinstance(reported, dict):
        return Usage()
    details = reported.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    tables = [reported, *(reported.get(name) for name in ("completion_tokens_details", "output_tokens_details"))]
    named = (table.get(name) for table in tables if isinstance(table, dict) for name in _REASONING)
    reasons = max((count for count in named if isinstance(count, int) and not isinstance(count, bool)), default=0)
    counts = (reported.get("prompt_tokens"), cached, reported.get("completion_tokens"), reasons)
    if any(isinstance(count, int) and count >= _MOST_TOKENS for count in counts):
        raise Fault("the server reports an impossible number of tokens (2⁴⁰ or more)")
    usage = Usage(*(count if isinstance(count, int) and count >= 0 else 0 for count in counts))
    total = reported.get("total_tokens")
    is_separate = total is None and usage.reasoning_tokens > usage.completion_tokens
    if usage.reasoning_tokens and (is_separate or total == usage.tokens + usage.reasoning_tokens):
        return replace(usage, completion_tokens=usage.completion_tokens + usage.reasoning_tokens)  # xAI, Google
    return usage


def _broken_off(why: object) -> Fault:
    return Fault(f"the server broke off an answer: {json.dumps(why)[:200]}")


def reason_of(choice: Mapping[str, Any]) -> str | None:
    """Return why a reply ended, in OpenAI's terms if known.

    Raises
    ------
    Fault
        If the server aborted the answer.
    """
    named = choice.get("finish_reason") or choice.get("native_finish_reason")
    if named in _BROKEN_OFF or choice.get("error"):
        raise _broken_off(choice.get("error") or named)
    if not named:
        return None
    declined = _DECLINED.fullmatch(str(named)) is not None
    return AT_LIMIT if _AT_LIMIT.fullmatch(str(named)) else "content_filter" if declined else str(named)


def model_of(document: dict[str, Any]) -> str | None:
    """Return the model that a server reports: name and fingerprint."""
    names = [document.get(name) for name in ("model", "system_fingerprint")]
    return " ".join(name for name in names if isinstance(name, str) and name) or None


RESPONSES = "/responses"
#: Field that limits the answer, including the thought.
TOKEN_FIELD = "max_output_tokens"  # noqa: S105 - the name of a field
_LOGPROBS = "message.output_text.logprobs"
_NO_FIELDS = ("seed", "logprobs", "top_logprobs", "reasoning_effort", "messages")  # unknown by these names
_USAGE = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def as_responses(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the body of a chat completion to the Responses API, with storage by the server turned off.

    Examples
    --------
    >>> as_responses({"model": "m", "messages": [{"role": "user", "content": "A or B?"}], "reasoning_effort": "low"})
    {'model': 'm', 'input': [{'role': 'user', 'content': 'A or B?'}], 'store': False, 'reasoning': {'effort': 'low'}}
    """
    kept = {name: value for name, value in body.items() if name not in _NO_FIELDS}
    written = {"model": kept.pop("model"), "input": body["messages"], "store": False}
    if "reasoning_effort" in body:
        written["reasoning"] = {"effort": body["reasoning_effort"]}
    if body.get("logprobs"):
        written |= {"include": [_LOGPROBS], "top_logprobs": body["top_logprobs"]}
    return written | kept


def as_chat(document: object) -> object:
    """Convert a response of the Responses API to a chat completion; leave others unchanged.

    Parameters
    ----------
    document : object
        The JSON response: ``output`` with items of type ``reasoning`` and ``message``, ``status``,
        ``incomplete_details`` and ``usage``.

    Raises
    ------
    Fault
        If the server failed to answer, or ``output`` is not a list of items.

    Examples
    --------
    >>> thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "B is longer."}]}
    >>> said = {"type": "message", "content": [{"type": "output_text", "text": "A"}]}
    >>> chat = as_chat({"status": "completed", "output": [thought, said]})
    >>> chat["choices"][0]["message"]
    {'content': 'A', 'reasoning_content': 'B is longer.', 'refusal': None}
    """
    if not isinstance(document, Mapping) or "choices" in document or "output" not in document:
        return document
    output, error = document["output"], document.get("error")
    if isinstance(error, Mapping) or document.get("status") in ("failed", "cancelled"):
        words = str(error.get("message") or error) if isinstance(error, Mapping) else str(document["status"])
        raise Fault(f"the server reports a failure: {words[:200]}")
    if not isinstance(output, list) or not all(isinstance(item, Mapping) for item in output):
        raise Fault("the server sent an output that is not a list of items")
    parts = [part for item in output if item.get("type") == "message" for part in _parts(item, "content")]
    texts = [part for part in parts if part.get("type") == "output_text"]
    refusals = [str(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
    reasoning = [item for item in output if item.get("type") == "reasoning"]
    steps = chain(*([*_parts(item, "content"), *_parts(item, "summary")] for item in reasoning))
    thoughts = [str(part.get("text") or "") for part in steps]
    calls = [str(item.get("arguments") or "") for item in output if item.get("type") == "function_call"]
    text = "".join(str(part.get("text") or "") for part in texts) or next(iter(calls), "")
    thought = "\n".join(filter(None, thoughts)) or None
    message = {"content": text, "reasoning_content": thought, "refusal": refusals[0] if refusals else None}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _reason(document)}
    if content := [entry for part in texts for entry in part.get("logprobs") or ()]:
        choice["logprobs"] = {"content": content}
    return {"model": document.get("model"), "usage": _usage(document.get("usage")), "choices": [choice]}


def _parts(item: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    parts = item.get(name)
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _reason(document: Mapping[str, Any]) -> str:
    """Return the finish reason in the terms of a chat completion."""
    details = document.get("incomplete_details")
    if document.get("status") != "incomplete" or not isinstance(details, Mapping):
        return "stop"
    return _REASONS.get(str(details.get("reason")), str(details.get("reason")))


def _usage(reported: object) -> dict[str, Any] | None:
    if not isinstance(reported, Mapping):
        return None
    usage: dict[str, Any] = {name: reported.get(field) for name, field in _USAGE.items()}
    for name, sent in (("prompt", "input"), ("completion", "output")):
        usage[f"{name}_tokens_details"] = reported.get(f"{sent}_tokens_details")
    return usage
