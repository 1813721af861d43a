"""The nouns everything else is made of: requests, replies, trials, and what a judge and a probe are.

Examples
--------
>>> request = Choice("Which is better, A or B?", labels=("A", "B"))
>>> request.messages
(Message(role='user', content='Which is better, A or B?'),)
>>> request_key(request, judge_id="some judge")[:12]
'af4ca9f8ceea'
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from biaslab.errors import InputError, UnsupportedRequestError

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.datasets.schema import Dataset

Role = Literal["system", "user", "assistant"]
Status = Literal["ok", "tie", "refused", "unparsable", "out_of_range"]
STATUSES: tuple[Status, ...] = ("ok", "tie", "refused", "unparsable", "out_of_range")
#: Finish reasons with which a server says that it, or its model, declined to answer; whatever the text is.
DECLINED = frozenset({"content_filter", "refusal"})
Scalar = str | int | float | bool | None


class Message(NamedTuple):
    """One turn of a conversation; the last one may be the assistant's, which the judge then continues."""

    role: Role
    content: str


Messages = str | Sequence[Message | tuple[str, str] | Mapping[str, str]]


@dataclass(frozen=True)
class Choice:
    """Ask for a distribution over labels (Liusie et al., Eq. 3).

    Parameters
    ----------
    messages : str or sequence of Message
        The conversation; a plain string is one user message.
    labels : tuple of str
        At least two different answers, each a literal continuation of the conversation.

    Raises
    ------
    InputError
        If a message has an unknown role, or the labels are fewer than two, empty or repeated.
    """

    kind: ClassVar[str] = "choice"
    messages: tuple[Message, ...]
    labels: tuple[str, ...]

    def __init__(self, messages: Messages, labels: Sequence[str]) -> None:
        object.__setattr__(self, "messages", as_messages(messages))
        object.__setattr__(self, "labels", tuple(labels))
        if len(self.labels) < 2 or len(set(self.labels)) < len(self.labels) or not all(self.labels):
            raise InputError("labels", self.labels, "at least two different, non-empty strings")


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

    def __init__(
        self,
        messages: Messages,
        temperature: float = 0.0,
        max_tokens: int = 256,
        replicate: int = 0,
        seed: int = 0,
    ) -> None:
        if not (math.isfinite(temperature) and 0 <= temperature <= 10):
            raise InputError("temperature", temperature, "a number from 0 to 10")
        for name, value, least in (("max_tokens", max_tokens, 1), ("replicate", replicate, 0)):
            if value < least:
                raise InputError(name, value, f"a whole number of at least {least}")
        object.__setattr__(self, "messages", as_messages(messages))
        object.__setattr__(self, "temperature", float(temperature) + 0.0)
        object.__setattr__(self, "max_tokens", int(max_tokens))
        object.__setattr__(self, "replicate", int(replicate))
        object.__setattr__(self, "seed", int(seed))


@dataclass(frozen=True)
class Likelihood:
    """Ask for the log-probability of every token of a text.

    Parameters
    ----------
    text : str
        The text whose tokens are scored; not empty.
    given : str
        Plain text that stands before it and is not scored. No chat template is applied.

    Raises
    ------
    InputError
        If the text is empty.
    """

    kind: ClassVar[str] = "likelihood"
    text: str
    given: str = ""

    def __post_init__(self) -> None:
        if not self.text:
            raise InputError("text", self.text, "a text of at least one character")


Request = Choice | Completion | Likelihood
KINDS: tuple[type[Choice] | type[Completion] | type[Likelihood], ...] = (Choice, Completion, Likelihood)


@dataclass(frozen=True)
class Usage:
    """Tokens that one reply cost: read, read from a server's cache, written."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """What a judge said, raw. Judges never interpret it; probes do.

    Parameters
    ----------
    logprobs : tuple of float, optional
        Natural logarithms, at most 0, ``-inf`` allowed. For `Choice`: one a label, in the request's order, **not**
        normalised, so that ``sum(exp(logprobs))`` is the probability mass the labels have. For `Likelihood`: one a
        token of the text (the first token is left out when nothing stands before it).
    text : str, optional
        For `Completion`: the generated text.
    finish_reason : str, optional
        For `Completion`: ``"stop"``, ``"length"`` or what the server said.
    usage : Usage
        Tokens paid for.
    model : str, optional
        What a server said it ran, such as ``"gpt-4o-2024-08-06 fp_6b68a8204b"``: name and fingerprint.
    unseen : float, optional
        For `Choice` by a server that shows only its likeliest tokens: the probability of answers that it did not show,
        or not far enough to tell which label they are.
    bounded : tuple of int
        Labels, by index, whose log-probability is only an upper bound, since the server did not show them.
    """

    logprobs: tuple[float, ...] | None = None
    text: str | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    unseen: float | None = None
    bounded: tuple[int, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One planned judgement: a request and the condition it belongs to.

    Parameters
    ----------
    request : Request
        What is asked.
    context_id : str
        The context, which is the sampling unit of every estimate.
    attribute : str
        What is judged, such as ``"coherence"``.
    candidate_id : str
        The candidate that is scored or, of a pair, shown first.
    opponent_id : str, optional
        The candidate of a pair that is shown second.
    replicate : int
        Which repetition of the same judgement this is.
    condition : mapping
        Columns of the trials frame that tell conditions apart or carry covariates.
    labels : tuple of str
        The answers that the text of a reply is read against, where the request itself does not list them.
    """

    request: Request
    context_id: str
    attribute: str
    candidate_id: str
    opponent_id: str | None = None
    replicate: int = 0
    condition: Mapping[str, Scalar] = field(default_factory=dict)
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """How to see whether one metric of a probe keeps its promises: what to plant in a simulated judge.

    `biaslab.calibration.calibrate` asks a fair and a biased judge, and counts over many simulated studies how often the
    test accuses the fair one, how often the interval covers the truth, and how often the bias is found.

    Parameters
    ----------
    metric : str
        Name of the metric.
    null : float
        Its value under the null hypothesis of its test.
    fair, planted : mapping
        Settings of `biaslab.SimulatedJudge` by name: without the bias, so that the metric is at its null, and with it.
        A bias that 24 contexts find in 50 to 80 % of studies tells most about the power.
    parameters : mapping
        Constructor parameters of the probe, such that the metric has one value.
    candidates : int
        Candidates of a context.
    """

    metric: str
    null: float
    fair: Mapping[str, Scalar]
    planted: Mapping[str, Scalar]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    candidates: int = 3


@dataclass(frozen=True)
class Metric:
    """How one metric of a probe is read: what plots, tables and cards write beside its numbers.

    Parameters
    ----------
    name : str
        Name in the estimates frame.
    label : str
        What it is, in a few words, such as ``"P(A), decisions for the first"``.
    unit : str
        What it is counted in, such as ``"share"``, ``"logits"`` or ``"points"``.
    null : float, optional
        Where there is no bias, or nothing but chance.
    above, below : str
        What an estimate above or below the null says of a judge, after "the judge": ``"prefers what stands first"``.
    advice : str or tuple of str
        What to do where that is shown; two, for above and below, where that differs.
    matters : float, optional
        The smallest distance from the null that matters in practice: a convention, which decides whether a study that
        finds nothing could have found anything. A card takes other values.
    quality : bool
        It tells how well the judge agrees with reference scores, which is no bias.
    """

    name: str
    label: str
    unit: str = ""
    null: float | None = None
    above: str = ""
    below: str = ""
    advice: str | tuple[str, str] = ""
    matters: float | None = None
    quality: bool = False

    @property
    def axis(self) -> str:
        """Label and unit, for an axis or the head of a column."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


@runtime_checkable
class Judge(Protocol):
    """Anything that answers requests.

    Attributes
    ----------
    id : str
        Pins everything a reply depends on (model, revision, dtype, quantisation, chat template): it is part of the key
        under which replies are stored.
    kinds : frozenset of type
        Which request kinds it answers.
    """

    @property
    def id(self) -> str:
        """What pins every reply."""

    @property
    def kinds(self) -> frozenset[type]:
        """Request kinds that are answered."""

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` that carries the request if one of them cannot be answered; ask nothing."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request once, in any order, each as soon as it is known."""


@runtime_checkable
class Probe(Protocol):
    """A frozen dataclass that designs judgements of one phenomenon and estimates it. Pure: it never meets a judge.

    Attributes
    ----------
    name : str
        The phenomenon, which is also the name of its module and notebook.
    primary : tuple of str
        The metrics over which q-values are computed.
    calibrations : tuple of Calibration
        What to plant to see whether the primary metrics keep their promises; at least one for each.
    metrics : tuple of Metric, optional
        How its metrics are read; plots, tables and cards take labels, nulls and words from here.
    """

    name: ClassVar[str]
    primary: ClassVar[tuple[str, ...]]
    calibrations: ClassVar[tuple[Calibration, ...]]

    def design(self, dataset: Dataset) -> Iterable[Trial]:
        """Plan the judgements of a data set."""

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Turn one raw reply into a value and a status; NaN unless the status is ``"ok"`` or ``"tie"``."""

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn trials into the estimates frame, one scalar a row; only the named metrics where some are named."""


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
    listed: dict[str, object] = {
        "messages": [list(m) for m in request.messages],
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "replicate": request.replicate,
    }
    if request.seed:
        listed["seed"] = request.seed
    return listed


def request_key(request: Request, judge_id: str) -> str:
    """Return the content address of a judge's reply to a request: SHA-256 over canonical JSON, 64 hex digits."""
    document = {"judge": judge_id, "kind": request.kind, **request_fields(request)}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def require_kinds(judge: Judge, requests: Iterable[Request]) -> None:
    """Raise `UnsupportedRequestError` for the first request of a kind that the judge does not answer."""
    for request in requests:
        if type(request) not in judge.kinds:
            able = ", ".join(sorted(kind.__name__ for kind in judge.kinds))
            raise UnsupportedRequestError(
                f"the judge {judge.id!r} does not answer {type(request).__name__} requests, only {able}; "
                "choose another judge or the probe's other answer mode",
                request,
            )


def parameters(probe: Probe) -> dict[str, object]:
    """Return a probe's parameters: its dataclass fields by name."""
    return {f.name: getattr(probe, f.name) for f in fields(probe)}  # type: ignore[arg-type]
