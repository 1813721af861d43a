"""Define the six kinds of requests that a judge can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

from biaslab.core.about import About
from biaslab.core.checks import require_count, require_temperature, require_whole
from biaslab.core.errors import InputError, UnsupportedRequestError
from biaslab.core.messages import Message, Messages, as_messages
from biaslab.core.thinking import ThinkingBudget, as_thinking


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
        `biaslab.core.thinking`. By default the judge's own setting, which does not enter the key.

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
        raise UnsupportedRequestError(
            f"a language model cannot answer {name} requests; use an evaluator or a function", request
        )
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
