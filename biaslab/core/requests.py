"""What a judge can be asked: four kinds of requests, and the key under which a reply is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from biaslab.checks import require_temperature
from biaslab.core.about import About
from biaslab.core.many import hashed_once
from biaslab.errors import InputError, UnsupportedRequestError

Role = Literal["system", "user", "assistant"]
_ESCAPED = bytes({*range(32), *b'"\\\x7f'} - {*b"\n"})  # in ASCII, what JSON does not write as it is


class Message(NamedTuple):
    """One turn of a conversation; the last one may be the assistant's, which the judge then continues."""

    role: Role
    content: str


Messages: TypeAlias = str | Sequence[Message | tuple[str, str] | Mapping[str, str]]


@hashed_once
@dataclass(frozen=True)
class Choice:
    """Ask for a distribution over labels (Liusie et al., Eq. 3).

    Parameters
    ----------
    messages : str or sequence of Message
        The conversation; a plain string is one user message.
    labels : tuple of str
        At least two different answers, each a literal continuation of the conversation.
    about : About, optional
        What the words are about; no part of the key, of equality or of the hash.
    parts : tuple of str
        What a plain string was put together from, where other requests have the same parts: keys are faster so.

    Raises
    ------
    InputError
        If a message has an unknown role, the labels are fewer than two, empty or repeated, or the parts are not those
        of the message.
    """

    kind: ClassVar[str] = "choice"
    messages: tuple[Message, ...]
    labels: tuple[str, ...]
    about: About | None = field(default=None, compare=False, repr=False)

    def __init__(
        self, messages: Messages, labels: Sequence[str], about: About | None = None, parts: tuple[str, ...] = ()
    ) -> None:
        held = self.__dict__
        held["messages"], held["labels"], held["about"] = as_messages(messages), _different(tuple(labels)), about
        if parts:
            if "".join(parts) != messages:
                raise InputError("parts", parts, "what the one message was put together from")
            held["_parts"] = parts


@hashed_once
@dataclass(frozen=True)
class Completion:
    """Ask for text.

    Parameters
    ----------
    messages : str or sequence of Message
        The conversation; a plain string is one user message.
    temperature : float
        0 is greedy; otherwise the softmax temperature, at most 10.
    max_tokens : int
        Tokens to generate at most.
    replicate : int
        Which of several samples of one conversation this is; every replicate has its own random numbers.
    seed : int
        Moves the random numbers of all replicates; the same request always has the same reply.
    about : About, optional
        What the words are about; no part of the key, of equality or of the hash.

    Raises
    ------
    InputError
        If a value lies outside its range.
    """

    kind: ClassVar[str] = "completion"
    messages: tuple[Message, ...]
    temperature: float
    max_tokens: int
    replicate: int
    seed: int
    about: About | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        messages: Messages,
        temperature: float = 0.0,
        max_tokens: int = 256,
        replicate: int = 0,
        seed: int = 0,
        about: About | None = None,
    ) -> None:
        require_temperature(temperature)
        for name, value, least in (("max_tokens", max_tokens, 1), ("replicate", replicate, 0)):
            if value < least:
                raise InputError(name, value, f"a whole number of at least {least}")
        held = self.__dict__
        held["messages"], held["about"] = as_messages(messages), about
        held["temperature"], held["max_tokens"] = float(temperature) + 0.0, int(max_tokens)
        held["replicate"], held["seed"] = int(replicate), int(seed)


@hashed_once
@dataclass(frozen=True)
class Likelihood:
    """Ask for the log-probability of every token of a text.

    Parameters
    ----------
    text : str
        The text whose tokens are scored; not empty.
    given : str
        Plain text that stands before it and is not scored. No chat template is applied.
    about : About, optional
        What the words are about; no part of the key, of equality or of the hash.

    Raises
    ------
    InputError
        If the text is empty.
    """

    kind: ClassVar[str] = "likelihood"
    text: str
    given: str = ""
    about: About | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.text:
            raise InputError("text", self.text, "a text of at least one character")


@hashed_once
@dataclass(frozen=True)
class Score:
    """Ask an evaluator for one number: how good a text is (Wang et al. 2023).

    Parameters
    ----------
    text : str
        What is judged; not empty.
    source : str
        What it was made from; empty where it is not shown.
    reference : str
        What a good one looks like; empty where it is not shown.
    attribute : str
        What is judged of it, such as ``"coherence"``; empty for quality as a whole.
    about : About, optional
        What the words are about; no part of the key, of equality or of the hash.

    Raises
    ------
    InputError
        If the text is empty.
    """

    kind: ClassVar[str] = "score"
    text: str
    source: str = ""
    reference: str = ""
    attribute: str = ""
    about: About | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.text:
            raise InputError("text", self.text, "a text of at least one character")


Prompt = Choice | Completion | Likelihood
Request = Prompt | Score
KINDS: tuple[type[Request], ...] = (Choice, Completion, Likelihood, Score)


def as_prompt(request: Request) -> Prompt:
    """Return a request that a language model can answer.

    Raises
    ------
    UnsupportedRequestError
        If it is for an evaluator.
    """
    if isinstance(request, Score):
        raise UnsupportedRequestError("a language model answers no Score requests; ask an evaluator", request)
    return request


def as_messages(messages: Messages) -> tuple[Message, ...]:
    """Turn a string, pairs or dictionaries into messages.

    Raises
    ------
    InputError
        If there is none, or one has an unknown role or a content that is not a string.
    """
    if isinstance(messages, str):
        return (Message("user", messages),)
    turns = tuple(
        Message(**turn) if isinstance(turn, Mapping) else Message(*turn)  # type: ignore[arg-type]
        for turn in messages
    )
    if not turns:
        raise InputError("messages", turns, "a string or at least one message")
    for turn in turns:
        if turn.role not in ("system", "user", "assistant"):
            raise InputError("messages", turn.role, "the roles system, user and assistant")
        if not isinstance(turn.content, str):
            raise InputError("messages", turn.content, "a content that is a string")
    return turns


def request_fields(request: Request) -> dict[str, object]:
    """Return the fields of a request that decide its reply, ready for JSON.

    The list is explicit, so that replies stay found when a class grows: a new field enters only when it is not at its
    default.
    """
    if isinstance(request, Choice):
        return {"messages": [list(m) for m in request.messages], "labels": list(request.labels)}
    if isinstance(request, Likelihood):
        return {"text": request.text, "given": request.given}
    if isinstance(request, Score):
        return {name: getattr(request, name) for name in ("text", "source", "reference", "attribute")}
    listed: dict[str, object] = {
        "messages": [list(m) for m in request.messages],
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "replicate": request.replicate,
    }
    if request.seed:
        listed["seed"] = request.seed
    return listed


def request_from_fields(kind: str, fields: Mapping[str, object]) -> Request:
    """Return the request that `request_fields` described; it says no more what it is about.

    Parameters
    ----------
    kind : {"choice", "completion", "likelihood", "score"}
        Of the request.
    fields : mapping
        Made by `request_fields`, or read from its JSON.

    Raises
    ------
    InputError
        If there is no such kind, or the fields are not its own.

    Examples
    --------
    >>> request = Completion("Name a colour.", temperature=1.0, replicate=2)
    >>> request_from_fields("completion", request_fields(request)) == request
    True
    """
    known = {each.kind: each for each in KINDS}
    if kind not in known:
        raise InputError("kind", kind, f"one of {', '.join(known)}")
    try:
        return known[kind](**fields)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError("fields", sorted(fields), f"those of a {kind} request ({error})") from error


def request_key(request: Request, judge_id: str) -> str:
    """Return the content address of a judge's reply to a request: SHA-256 over canonical JSON, 64 hex digits.

    A request remembers the last one, since store and trials both need it.
    """
    known: tuple[str, str] | None = request.__dict__.get("_key")
    if known is not None and known[0] == judge_id:
        return known[1]
    key = hashlib.sha256(_key_document(request, judge_id).encode("ascii")).hexdigest()
    request.__dict__["_key"] = (judge_id, key)
    return key


def request_json(request: Request) -> str:
    """Return the fields of a request as canonical JSON: see `request_fields`.

    Examples
    --------
    >>> request_json(Choice("A or B?", ("A", "B")))
    '{"labels":["A","B"],"messages":[["user","A or B?"]]}'
    """
    if isinstance(request, Choice):  # what most requests are, several times as fast
        return f'{{"labels":{_listed(request.labels)},"messages":[{_turns(request)}]}}'
    if isinstance(request, Completion):
        seed = f'"seed":{request.seed},' if request.seed else ""
        ends = f'"replicate":{request.replicate},{seed}"temperature":{request.temperature!r}'
        return f'{{"max_tokens":{request.max_tokens},"messages":[{_turns(request)}],{ends}}}'
    return canonical_json(request_fields(request))


def _turns(request: Choice | Completion) -> str:
    """Return the messages of a request as JSON."""
    if parts := request.__dict__.get("_parts"):
        return f'["user","{"".join(map(_escaped_part, parts))}"]'
    return ",".join([f"[{_quoted(role)},{_text(content)}]" for role, content in request.messages])


def _key_document(request: Request, judge_id: str) -> str:
    """Return judge, kind and fields of a request as `canonical_json` writes them."""
    if isinstance(request, Choice | Completion):
        return f'{{"judge":{_quoted(judge_id)},"kind":"{request.kind}",{request_json(request)[1:]}'
    return canonical_json({"judge": judge_id, "kind": request.kind, **request_fields(request)})


def _text(text: str) -> str:
    """Return a string as JSON writes it; one that holds nothing to escape but ends of lines several times as fast."""
    if text.isascii() and len(text.encode().translate(None, _ESCAPED)) == len(text):
        return '"' + text.replace("\n", "\\n") + '"'
    return encode_basestring_ascii(text)


@lru_cache(maxsize=1024)
def _escaped_part(text: str) -> str:
    return _text(text)[1:-1]


@lru_cache(maxsize=256)
def _different(labels: tuple[str, ...]) -> tuple[str, ...]:
    if len(labels) < 2 or len(set(labels)) < len(labels) or not all(labels):
        raise InputError("labels", labels, "at least two different, non-empty strings")
    return labels


@lru_cache(maxsize=256)
def _quoted(text: str) -> str:
    return _text(text)


@lru_cache(maxsize=256)
def _listed(labels: tuple[str, ...]) -> str:
    return f"[{','.join(map(_text, labels))}]"


def canonical_json(document: Mapping[str, object]) -> str:
    """Write a document as JSON that is the same for equal documents: sorted keys, no blanks, ASCII only.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
