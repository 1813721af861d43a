"""Count the tokens of requests before asking, with the judge's tokenizer or estimated from characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biaslab.core.arrays import Floats
from biaslab.core.interfaces import Judge, as_judge
from biaslab.core.requests import (
    Choice,
    Compare,
    Completion,
    Likelihood,
    Rank,
    Request,
    Score,
    thinking_of,
    thinking_tokens,
)

#: Characters per token if a judge cannot count: the usual rule of thumb for English.
CHARACTERS = 4
#: Number of requests to tokenize; the others are scaled by characters.
COUNTED = 2000


class TokenCount(NamedTuple):
    """Token counts of requests.

    Parameters
    ----------
    read, written : numpy.ndarray, shape (requests,)
        Input tokens and maximum output tokens.
    distinct : float
        Input tokens if every shared prompt prefix counts once.
    method : str
        How they were counted, in words.
    """

    read: Floats
    written: Floats
    distinct: float
    method: str


def count_tokens(judge: Judge, requests: Sequence[Request], most: int = COUNTED) -> TokenCount:
    """Count the tokens of requests with the judge's tokenizer, if it has one, else from characters.

    Only the first requests are tokenized; the others are scaled by characters. All labels of a `Choice` share one
    prompt, which counts once, as in `biaslab.core.Usage`. For a judge that delegates, such as `Sampled` or a panel, all
    delegated requests are counted.

    Parameters
    ----------
    judge : Judge
        The judge. It is not asked; a local judge loads its tokenizer.
    requests : sequence of Request
        The requests.
    most : int
        Number of requests to tokenize.

    Examples
    --------
    >>> import biaslab as bl
    >>> judge = bl.SimulatedJudge(bl.load_dataset("graded", limit=1))
    >>> counted = count_tokens(judge, [Choice("Is A or B better?", ("A", "B"))])
    >>> counted.read.tolist(), counted.method
    ([5.0], 'estimated at 4 characters per token')
    """
    counter = TokenCounter(judge, most)
    read, written = counter.add(requests)
    return TokenCount(read, written, counter.distinct, counter.method)


class TokenCounter:
    """Incremental version of `count_tokens`.

    Parameters
    ----------
    judge, most
        As in `count_tokens`.

    Examples
    --------
    >>> import biaslab as bl
    >>> counter = TokenCounter(bl.SimulatedJudge(bl.load_dataset("graded", limit=1)))
    >>> for prompt in ("Is A or B better?", "Is B or A worse?"):
    ...     read, written = counter.add([Choice(prompt, ("A", "B"))])
    >>> counter.read
    9.0
    """

    def __init__(self, judge: Judge, most: int = COUNTED) -> None:
        self._judge, self._most = as_judge(judge), most
        self._inner = [TokenCounter(each, most) for each in self._judge.asks]
        self.read = 0.0
        self._requests = 0
        self._sequences: list[NDArray[Any]] = []  # of those that were counted
        self._characters = self._tokens = 0.0  # of those that were counted
        self._counted = 0

    def add(self, requests: Sequence[Request]) -> tuple[Floats, Floats]:
        """Count more requests; return input and maximum output tokens of each, shape (requests,)."""
        read, written = self._of_others(requests) if self._inner else self._plain(requests)
        self._requests += len(requests)
        self.read += float(read.sum())
        return read, written

    @property
    def distinct(self) -> float:
        """Input tokens if every shared prompt prefix counts once."""
        if self._inner:
            return sum(inner.distinct for inner in self._inner)
        return _distinct(self._sequences) / self._scale * self.read / max(self._tokens, 1)

    @property
    def method(self) -> str:
        """How tokens were counted, in words."""
        if self._inner:
            return " and ".join(dict.fromkeys(inner.method for inner in self._inner))
        if not self._judge.encodes:
            return f"estimated at {CHARACTERS} characters per token"
        some = f" for {self._counted:,} of {self._requests:,} requests, the others scaled by length"
        return "counted by the judge's tokenizer" + some * (self._requests > self._counted)

    @property
    def _scale(self) -> int:
        return 1 if self._judge.encodes else CHARACTERS

    def _of_others(self, requests: Sequence[Request]) -> tuple[Floats, Floats]:
        """Count the requests delegated to other judges."""
        asked = [self._judge.expand(request) for request in requests]
        parts = [inner.add([request for several in asked for request in several]) for inner in self._inner]
        read, written = (np.sum([part[side] for part in parts], axis=0) for side in (0, 1))
        starts = np.cumsum([0, *map(len, asked)])[: len(asked)]
        return (np.add.reduceat(read, starts), np.add.reduceat(written, starts)) if len(starts) else (read, written)

    def _plain(self, requests: Sequence[Request]) -> tuple[Floats, Floats]:
        characters = np.array([float(len(_text(request))) for request in requests])
        written = np.array([_output_tokens(request, self._judge.thought_tokens) for request in requests], float)
        few = requests[: max(self._most - self._counted, 0)]
        if self._judge.encodes:
            encoded = [[np.array(sequence) for sequence in self._judge.encode(request)] for request in few]
            read = np.array([float(max(map(len, sequences))) for sequences in encoded])
            self._sequences += [sequence for sequences in encoded for sequence in sequences]
            for place, request in enumerate(requests):
                if isinstance(request, Choice):  # labels are read, not generated
                    written[place] = _thought(request, self._judge.thought_tokens)
        else:
            read = np.ceil(characters[: len(few)] / CHARACTERS)
            self._sequences += [_codes(request) for request in few]
        self._counted += len(few)
        self._characters += float(characters[: len(few)].sum())
        self._tokens += float(read.sum())
        per_token = self._characters / max(self._tokens, 1) if self._scale == 1 else float(CHARACTERS)
        return np.concatenate([read, np.ceil(characters[len(few) :] / per_token)]), written


def _distinct(sequences: Sequence[NDArray[Any]]) -> float:
    """Count the distinct prefixes of sequences, the size of their prefix tree."""
    ordered = sorted(sequences, key=lambda sequence: sequence.astype(">u4").tobytes())
    total, before = 0, np.zeros(0)
    for sequence in ordered:
        size = min(len(before), len(sequence))
        different = np.flatnonzero(before[:size] != sequence[:size])
        total += len(sequence) - (int(different[0]) if len(different) else size)
        before = sequence
    return float(total)


def _text(request: Request) -> str:
    if isinstance(request, Likelihood):
        return request.given + request.text
    if isinstance(request, Score | Compare | Rank):
        return request.source + "".join(request.texts) + request.reference
    return "".join(message.content for message in request.messages)


def _codes(request: Request) -> NDArray[np.uint32]:
    return np.frombuffer(_text(request).encode("utf-32-le", "surrogatepass"), np.uint32)


def _thought(request: Request, thought: int) -> int:
    """Return the maximum number of thinking tokens, set by the request or else the judge."""
    budget = thinking_of(request)
    return thought if budget is None else thinking_tokens(budget)


def _output_tokens(request: Request, thought: int) -> int:
    """Return the maximum number of output tokens of a generated reply, including thinking."""
    if isinstance(request, Completion):
        return request.max_tokens + _thought(request, thought)
    return math.ceil(max(map(len, request.labels)) / CHARACTERS) if isinstance(request, Choice) else 0
