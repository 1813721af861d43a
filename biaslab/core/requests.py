"""Define the six kinds of requests that a judge can be asked, and the key of a stored reply."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from biaslab.core.checks import require_count, require_temperature, require_whole
from biaslab.core.errors import InputError, UnsupportedRequestError

Role = Literal["system", "user", "assistant"]


class Message(NamedTuple):
    """One turn of a conversation; the last one may be the assistant's, which the judge then continues."""

    role: Role
    content: str


Messages: TypeAlias = str | Sequence[Message | tuple[str, str] | Mapping[str, str]]


def as_messages(messages: Messages) -> tuple[Message, ...]:
    """Turn a string, pairs or dictionaries into messages.

    Raises
    ------
    InputError
        If there are no messages, or one has an unknown role or content that is not a string.
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
            raise InputError("messages", turn.content, "a string as content")
    return turns


#: Maximum thinking tokens of each effort.
EFFORTS: Mapping[str, int] = {"none": 0, "minimal": 1024, "low": 4096, "medium": 16_384, "high": 32_768}
#: Maximum tokens (0 for no thinking), or an effort.
ThinkingBudget: TypeAlias = int | str
_ALLOWED = f"a whole number of tokens, 0 for no thinking, or one of {', '.join(EFFORTS)}"


def as_thinking(value: ThinkingBudget | None, name: str = "thinking") -> ThinkingBudget | None:
    """Return a thinking budget in canonical form; None for the judge's own setting.

    Parameters
    ----------
    value : int or str, optional
        Tokens (also as text) or an effort; ``"none"`` and ``"off"`` mean 0.
    name : str
        Name of the parameter, for messages.

    Raises
    ------
    InputError
        If the value is not a thinking budget.

    Examples
    --------
    >>> as_thinking("none"), as_thinking("4096"), as_thinking("low"), as_thinking(None)
    (0, 4096, 'low', None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        if value in ("none", "off"):
            return 0
        if value in EFFORTS:
            return value
        if value.isascii() and value.isdigit():
            return int(value)
    elif isinstance(value, Integral) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise InputError(name, value, _ALLOWED)


def thinking_tokens(budget: ThinkingBudget) -> int:
    """Return the maximum thinking tokens of a budget.

    Examples
    --------
    >>> thinking_tokens(0), thinking_tokens("low"), thinking_tokens(500)
    (0, 4096, 500)
    """
    return EFFORTS[budget] if isinstance(budget, str) else budget


#: How scores are written: the label alone, lines "attribute: label", lines "score: label", or a JSON object.
ReplyFormat = Literal["bare", "lines", "text", "json"]
#: Whether reasons are requested, and where they go.
Reasons = Literal["none", "before", "after"]


@dataclass(frozen=True)
class About:
    """Describe the content of a request for simulated and recorded judges, which do not read prompts.

    Not part of the request key: a language model's reply depends on the words alone.

    Parameters
    ----------
    context_id : str
        The context.
    candidate_ids : tuple of str
        The candidates in the order shown: one for a score, two for a pair, none if the source itself is judged.
    texts : tuple of str
        Their texts, as shown.
    attributes : tuple of str
        What is judged, in the order of the answers; for scores, those still to be given. With the form ``bare``, one
        number covers all of them.
    source : bool
        Whether the source is shown.
    labels : tuple of str
        For pairs: the answers offered for the first, the second and, if allowed, a tie. For scores: how a reply writes
        each label of the scale, if a protocol defines that.
    scale : str
        For scores: the name of the scale, for `biaslab.core.scales.scale_named`.
    form : {"bare", "lines", "text", "json"}
        For scores: the label alone, lines ``attribute: label``, lines ``score: label``, or a JSON object.
    reasons : {"none", "before", "after"}
        Whether reasons are requested before or after the score or verdict.
    previous : float, optional
        For scores: the preceding score in the prompt, on the scale.
    edits : tuple of str
        Names of the edits applied to the candidates, in the order shown; "" for an unedited one. Empty if none is
        edited.
    template : str
        Name of the prompt variant if several are compared, else empty.
    protocol : biaslab.Protocol, optional
        Parses the reply if it is not in the format of biaslab's own prompts.

    Raises
    ------
    InputError
        If the number of texts or of edits differs from the number of candidates.

    Examples
    --------
    >>> import biaslab as bl
    >>> trial = next(iter(bl.probes.Position(["fluency"]).design(bl.load_dataset("graded", limit=1))))
    >>> trial.request.about.candidate_ids, trial.request.about.attributes
    (('c1', 'c2'), ('fluency',))
    """

    context_id: str
    candidate_ids: tuple[str, ...]
    texts: tuple[str, ...]
    attributes: tuple[str, ...]
    source: bool = True
    labels: tuple[str, ...] = ()
    scale: str = ""
    form: ReplyFormat = "bare"
    reasons: Reasons = "none"
    previous: float | None = None
    edits: tuple[str, ...] = ()
    template: str = ""
    protocol: Any = field(default=None, compare=False, repr=False)

    def __init__(  # by hand: one is made per judgement, and the `__init__` of `dataclass` takes three times as long
        self,
        context_id: str,
        candidate_ids: tuple[str, ...],
        texts: tuple[str, ...],
        attributes: tuple[str, ...],
        source: bool = True,
        labels: tuple[str, ...] = (),
        scale: str = "",
        form: ReplyFormat = "bare",
        reasons: Reasons = "none",
        previous: float | None = None,
        edits: tuple[str, ...] = (),
        template: str = "",
        protocol: Any = None,
    ) -> None:
        held = self.__dict__
        held["context_id"], held["candidate_ids"], held["texts"] = context_id, candidate_ids, texts
        held["attributes"], held["source"], held["labels"], held["scale"] = attributes, source, labels, scale
        held["form"], held["reasons"], held["previous"], held["edits"] = form, reasons, previous, edits
        held["template"], held["protocol"] = template, protocol
        count = len(candidate_ids)
        if len(texts) != count or len(edits or candidate_ids) != count:
            name, values = ("texts", texts) if len(edits or candidate_ids) == count else ("edits", edits)
            raise InputError(name, values, f"one value for each of {', '.join(candidate_ids) or 'no candidates'}")


class _Copied:
    """Base of requests; copies and pickles keep the fields but not the cached key."""

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}


@dataclass(frozen=True)
class Choice(_Copied):
    """Ask for a distribution over labels (Liusie et al., Eq. 3).

    Parameters
    ----------
    messages : str or sequence of Message
        The conversation; a plain string is one user message.
    labels : tuple of str
        At least two different answers, each a literal continuation of the conversation.
    about : About, optional
        What the prompt shows; not part of the key, equality or hash.
    parts : tuple of str
        The parts that a plain string was joined from, if other requests share them; speeds up keys.
    replicate : int
        For a judge that reasons first: index of the sampled thought; each has its own random seed.
    thinking : int or str, optional
        Thinking budget before the answer: tokens, 0 for none, or an effort (minimal, low, medium, high); see
        `biaslab.core.requests`. By default the judge's own setting, which does not enter the key.

    Raises
    ------
    InputError
        If a message has an unknown role, there are fewer than two labels, labels are empty or repeated, the parts do
        not add up to the message, the replicate is negative, or the thinking budget is invalid.
    """

    kind: ClassVar[str] = "choice"
    messages: tuple[Message, ...]
    labels: tuple[str, ...]
    about: About | None = field(default=None, compare=False, repr=False)
    replicate: int = 0
    thinking: ThinkingBudget | None = None

    def __init__(
        self,
        messages: Messages,
        labels: Sequence[str],
        about: About | None = None,
        parts: tuple[str, ...] = (),
        replicate: int = 0,
        thinking: ThinkingBudget | None = None,
    ) -> None:
        held = self.__dict__
        held["messages"] = (Message("user", messages),) if isinstance(messages, str) else as_messages(messages)
        held["labels"], held["about"] = _different(tuple(labels)), about
        held["replicate"] = replicate
        if replicate:
            require_whole("replicate", replicate, 0)
        held["thinking"] = None if thinking is None else as_thinking(thinking)
        if parts:
            if "".join(parts) != messages:
                raise InputError("parts", parts, "the parts that the single message consists of")
            held["_parts"] = parts


@dataclass(frozen=True)
class Completion(_Copied):
    """Ask for text.

    Parameters
    ----------
    messages : str or sequence of Message
        The conversation; a plain string is one user message.
    temperature : float
        0 is greedy; otherwise the softmax temperature, at most 10.
    max_tokens : int
        Maximum number of tokens to generate.
    replicate : int
        Index of the sample of this conversation; each has its own random seed.
    seed : int
        Offset of the seeds of all replicates; equal requests always have equal replies.
    about : About, optional
        What the prompt shows; not part of the key, equality or hash.
    thinking : int or str, optional
        Thinking budget before the answer, in addition to ``max_tokens``; as in `Choice`.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    kind: ClassVar[str] = "completion"
    messages: tuple[Message, ...]
    temperature: float
    max_tokens: int
    replicate: int
    seed: int
    about: About | None = field(default=None, compare=False, repr=False)
    thinking: ThinkingBudget | None = None

    def __init__(
        self,
        messages: Messages,
        temperature: float = 0.0,
        max_tokens: int = 256,
        replicate: int = 0,
        seed: int = 0,
        about: About | None = None,
        thinking: ThinkingBudget | None = None,
    ) -> None:
        require_temperature(temperature)
        for name, value, least in (("max_tokens", max_tokens, 1), ("replicate", replicate, 0)):
            if type(value) is not int or value < least:  # the common case without a call
                require_count(name, value, least)
        held = self.__dict__
        held["messages"], held["about"] = as_messages(messages), about
        held["temperature"], held["max_tokens"] = float(temperature) + 0.0, int(max_tokens)
        held["replicate"], held["seed"], held["thinking"] = int(replicate), int(seed), as_thinking(thinking)


@dataclass(frozen=True)
class Likelihood(_Copied):
    """Ask for the log-probability of every token of a text.

    Parameters
    ----------
    text : str
        The text whose tokens are scored; not empty.
    given : str
        Preceding plain text, not scored. No chat template is applied.
    about : About, optional
        What the prompt shows; not part of the key, equality or hash.

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
        _require_texts(text=self.text)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, as the texts of a `Rank`."""
        return (self.text,)


@dataclass(frozen=True)
class Score(_Copied):
    """Ask an evaluator for the quality of a text as one number (Wang et al. 2023).

    Parameters
    ----------
    text : str
        The text to score; not empty.
    source : str
        The source of the text; empty if not shown.
    reference : str
        A reference text; empty if not shown.
    attribute : str
        The attribute to score, such as ``"coherence"``; empty for overall quality.
    about : About, optional
        What is shown; not part of the key, equality or hash.

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
        _require_texts(text=self.text)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, as the texts of a `Rank`."""
        return (self.text,)


@dataclass(frozen=True)
class Compare(_Copied):
    """Ask a judge without prompts (a function or reward model) which of two texts is better.

    The ``score`` of the reply is the probability that the first text wins.

    Parameters
    ----------
    first, second : str
        The texts in the order shown; not empty.
    source : str
        The source of the texts; empty if not shown.
    reference : str
        A reference text; empty if not shown.
    attribute : str
        The attribute to compare, such as ``"coherence"``; empty for overall quality.
    about : About, optional
        What is shown; not part of the key, equality or hash.

    Raises
    ------
    InputError
        If a text is empty.
    """

    kind: ClassVar[str] = "compare"
    first: str
    second: str
    source: str = ""
    reference: str = ""
    attribute: str = ""
    about: About | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _require_texts(first=self.first, second=self.second)

    @property
    def texts(self) -> tuple[str, ...]:
        """Both texts, in the order shown."""
        return self.first, self.second


@dataclass(frozen=True)
class Rank(_Copied):
    """Ask a judge without prompts (a function or reward model) which of several texts is best, or to rank them.

    The reply has a ``text``, ``[2]`` or ``[2] > [1] > [3]`` by positions from 1, or ``logprobs``, one per text.

    Parameters
    ----------
    texts : tuple of str
        At least two, in the order shown; none empty.
    source : str
        The source of the texts; empty if not shown.
    reference : str
        A reference text; empty if not shown.
    attribute : str
        The attribute to compare, such as ``"coherence"``; empty for overall quality.
    about : About, optional
        What is shown; not part of the key, equality or hash.

    Raises
    ------
    InputError
        If there are fewer than two texts, or one is empty.
    """

    kind: ClassVar[str] = "rank"
    texts: tuple[str, ...]
    source: str = ""
    reference: str = ""
    attribute: str = ""
    about: About | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        texts = () if isinstance(self.texts, str) else tuple(self.texts)
        if len(texts) < 2 or not all(isinstance(text, str) and text for text in texts):
            raise InputError("texts", self.texts, "at least two texts of at least one character")
        self.__dict__["texts"] = texts


#: Value of the column ``template`` for pairs whose texts are scored one by one, so that neither is shown first.
EACH_ALONE = "each alone"

Prompt = Choice | Completion | Likelihood
Request = Prompt | Score | Compare | Rank
KINDS: tuple[type[Request], ...] = (Choice, Completion, Likelihood, Score, Compare, Rank)


def as_prompt(request: Request) -> Prompt:
    """Return a request that a language model can answer.

    Raises
    ------
    UnsupportedRequestError
        If the request is for an evaluator without prompts.
    """
    if isinstance(request, Score | Compare | Rank):
        name = type(request).__name__
        why = f"a language model cannot answer {name} requests"
        raise UnsupportedRequestError(why, request, remedy="use an evaluator")
    return request


def thinking_of(request: Request) -> ThinkingBudget | None:
    """Return the thinking budget of a request, or None.

    Examples
    --------
    >>> thinking_of(Completion("Is it good?", thinking="low")), thinking_of(Likelihood("It is."))
    ('low', None)
    """
    return request.thinking if isinstance(request, Choice | Completion) else None


def with_thinking(request: Request, budget: ThinkingBudget) -> Request:
    """Return a request with a thinking budget; kinds without one are returned unchanged.

    Examples
    --------
    >>> with_thinking(Completion("Is it good?"), "low").thinking, with_thinking(Likelihood("It is."), 0)
    ('low', Likelihood(text='It is.', given=''))
    """
    if not isinstance(request, Choice | Completion):
        return request
    asked = replace(request, thinking=budget)
    if "_parts" in request.__dict__:
        asked.__dict__["_parts"] = request.__dict__["_parts"]
    return asked


@lru_cache(maxsize=256)
def _different(labels: tuple[str, ...]) -> tuple[str, ...]:
    if len(labels) < 2 or len(set(labels)) < len(labels) or not all(labels):
        raise InputError("labels", labels, "at least two different, non-empty strings")
    return labels


def _require_texts(**texts: object) -> None:
    for name, text in texts.items():
        if not isinstance(text, str) or not text:
            raise InputError(name, text, "a text of at least one character")


_SHOWN = ("source", "reference", "attribute")
_FIELDS: Mapping[type, tuple[str, ...]] = {
    Likelihood: ("text", "given"),
    Score: ("text", *_SHOWN),
    Compare: ("first", "second", *_SHOWN),
    Rank: ("texts", *_SHOWN),
}
_BEGINNING = 3  # number of leading prompt parts that most requests about a context share: words, the context, words


def request_fields(request: Request) -> dict[str, object]:
    """Return the fields of a request that determine its reply, ready for JSON.

    The list is explicit so that stored replies are still found when a class gains a field: a new field enters only if
    it differs from its default.
    """
    if isinstance(request, Choice):
        asked: dict[str, object] = {"messages": [list(m) for m in request.messages], "labels": list(request.labels)}
        return asked | ({"replicate": request.replicate} if request.replicate else {}) | _thought(request)
    if not isinstance(request, Completion):
        values = {name: getattr(request, name) for name in _FIELDS[type(request)]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    numbers = {name: getattr(request, name) for name in ("temperature", "max_tokens", "replicate")}
    seed = {"seed": request.seed} if request.seed else {}
    return {"messages": [list(m) for m in request.messages], **numbers, **seed, **_thought(request)}


def _thought(request: Choice | Completion) -> dict[str, object]:
    return {} if request.thinking is None else {"thinking": request.thinking}


def request_from_fields(kind: str, fields: Mapping[str, object]) -> Request:
    """Rebuild a request from `request_fields`; its `about` is lost.

    Parameters
    ----------
    kind : {"choice", "completion", "likelihood", "score", "compare", "rank"}
        Kind of the request.
    fields : mapping
        As made by `request_fields`, or parsed from its JSON.

    Raises
    ------
    InputError
        If the kind is unknown or the fields do not belong to it.

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
        names = sorted(fields) if isinstance(fields, Mapping) else fields
        raise InputError("fields", names, f"those of a {kind} request ({error})") from error


def request_key(request: Request, judge_id: str) -> str:
    """Return the content address of a judge's reply to a request: SHA-256 over canonical JSON, 64 hex digits.

    The request caches its last key, since store and trials both need it.
    """
    known: tuple[str, str] | None = request.__dict__.get("_key")
    if known is not None and known[0] == judge_id:
        return known[1]
    key = _digest(request, judge_id).hexdigest()
    request.__dict__["_key"] = (judge_id, key)
    return key


def request_json(request: Request) -> str:
    """Return the fields of a request as canonical JSON: see `request_fields`.

    Examples
    --------
    >>> request_json(Choice("A or B?", ("A", "B")))
    '{"labels":["A","B"],"messages":[["user","A or B?"]]}'
    """
    if isinstance(request, Choice):  # by hand: makes collecting 25 % faster (benchmarks/scale.py)
        labels, which = ",".join(map(_quoted, request.labels)), _budget(request)
        which = f',"replicate":{request.replicate}{which}' if request.replicate else which
        return f'{{"labels":[{labels}],"messages":[{_turns(request)}]{which}}}'
    if isinstance(request, Completion):
        seed = f'"seed":{request.seed},' if request.seed else ""
        tail = f'"replicate":{request.replicate},{seed}"temperature":{request.temperature!r}{_budget(request)}'
        return f'{{"max_tokens":{request.max_tokens},"messages":[{_turns(request)}],{tail}}}'
    return canonical_json(request_fields(request))


def _budget(request: Choice | Completion) -> str:
    """Return the thinking budget as the last field of a request's JSON; empty if not set."""
    return "" if request.thinking is None else f',"thinking":{json.dumps(request.thinking)}'


def _turns(request: Choice | Completion) -> str:
    """Return the messages of a request as JSON."""
    if parts := request.__dict__.get("_parts"):
        return f'["user","{"".join(map(_escaped_part, parts))}"]'
    return ",".join([f"[{_quoted(role)},{_quoted(content)}]" for role, content in request.messages])


def _digest(request: Request, judge_id: str) -> hashlib._Hash:
    """Return the hash of a request's `_key_document`; the shared prefix of a context's requests is hashed once."""
    parts: tuple[str, ...] = request.__dict__.get("_parts", ())
    if not isinstance(request, Choice) or request.replicate or request.thinking is not None or len(parts) <= _BEGINNING:
        return hashlib.sha256(_key_document(request, judge_id).encode("ascii"))  # some fields sort after the messages
    digest = _begun(judge_id, request.labels, parts[:_BEGINNING]).copy()
    digest.update(f'{"".join(map(_escaped_part, parts[_BEGINNING:]))}"]]}}'.encode("ascii"))
    return digest


@lru_cache(maxsize=256)
def _begun(judge_id: str, labels: tuple[str, ...], parts: tuple[str, ...]) -> hashlib._Hash:
    """Return the hash of the prefix of `_key_document` for a choice with these labels and first parts."""
    document = _key_document(Choice("".join(parts), labels, parts=parts), judge_id)
    return hashlib.sha256(document.removesuffix('"]]}').encode("ascii"))


def _key_document(request: Request, judge_id: str) -> str:
    """Return judge, kind and fields of a request in canonical JSON."""
    if isinstance(request, Choice | Completion):
        return f'{{"judge":{_quoted(judge_id)},"kind":"{request.kind}",{request_json(request)[1:]}'
    return canonical_json({"judge": judge_id, "kind": request.kind, **request_fields(request)})


@lru_cache(maxsize=1024)
def _escaped_part(text: str) -> str:
    return _quoted(text)[1:-1]


def canonical_json(document: Mapping[str, object]) -> str:
    """Return the canonical JSON of a document: sorted keys, no white space, ASCII only.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
