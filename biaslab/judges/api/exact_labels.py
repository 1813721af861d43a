"""Exact label probabilities from a server that returns those of named tokens at any rank: vLLM.

A request names the first tokens of the labels and gets their log-probabilities at the first position of the answer.
The remaining tokens of multi-token labels are queried with the prompt's token ids followed by the label's beginning,
which is cheap because the prompt is in the server's prefix cache. Whether a server can do this is determined from its
responses.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from biaslab.core.errors import JudgeError
from biaslab.core.requests import Choice
from biaslab.core.trials import Reply
from biaslab.judges.api.faults import Fault, NoAnswer, thinks_first
from biaslab.judges.api.wire import (
    CHAT,
    IMPOSSIBLE,
    MALFORMED,
    PLAIN,
    UNMEASURED,
    Wire,
    impossible,
    is_measured,
    level_of,
    model_of,
    shows_thought,
    unusable,
    usage_of,
)

#: Posts a body to a path or address and returns the JSON response; raises a `Fault` or a `JudgeError`.
Post = Callable[[str, dict[str, Any]], Awaitable[Any]]

MOST_NAMED = 128  # per request; vLLM's own limit
TOLERANCE = 0.3  # nats: bfloat16 rounds logits to 1/8 and sums in a different order; wrong values differ by more
_RARE = -20.0  # rarer tokens are not compared: they are affected most by rounding, and matter least
_ANCHORS = ("\n", ".", "\n.")  # tokenizers that prepend a space to a text do not insert one after these
_FAILURES = 3  # number of failures, which may be chance, after which a server counts as unable
_BY_ID = "token_id:"  # vLLM's prefix of token ids


class _First(NamedTuple):
    """The first position of an answer, from the chat route."""

    prompt: Path
    levels: dict[int, float]
    model: str | None


class ExactLabels:
    """Exact label probabilities of one server; the first request tests whether it supports them.

    Parameters
    ----------
    wire : Wire
        Formats requests for the server.
    url : str
        Its address, usually ending in ``/v1``; the tokenizer route is next to that.
    is_able : bool, optional
        Whether the server is known to support them; None to find out.

    Attributes
    ----------
    is_able : bool or None
        Whether the server supports them; None before the first request.
    warning : str
        Warning for the user: the server's probabilities depend on the order of requests.
    """

    def __init__(self, wire: Wire, url: str, is_able: bool | None = None) -> None:
        self.is_able, self.warning = is_able, ""
        self._wire, self._url = wire, url
        self._tokenizer = f"{url.removesuffix('/v1')}/tokenize"
        self._anchored, self._measures, self._failed = False, False, 0
        self._tries: dict[tuple[str, ...], LabelTrie | None] = {}

    async def ask(self, request: Choice, post: Post) -> Reply | None:
        """Return the exact reply to a request, without its usage; None if the server does not support it.

        Raises
        ------
        Fault
            If an attempt failed, and another may succeed.
        JudgeError
            If the server refuses, although it did not before.
        """
        if self.is_able is None:
            return await self._first_use(request, post)
        trie = await self._trie(request.labels, post) if self.is_able else None
        if trie is None:
            return None
        first = await self._first(request, trie, post)
        self._measures |= any(map(is_measured, first.levels.values()))
        why = impossible(list(first.levels.items())) or ("" if self._measures else UNMEASURED)
        return unusable(request, why, model=first.model) if why else await self._walk(trie, first, post)

    async def _first_use(self, request: Choice, post: Post) -> Reply | None:
        """Test with one request whether the server supports them; otherwise top tokens are used."""
        try:
            trie = await self._trie(request.labels, post)
            if trie is None:
                return None
            first = await self._first(request, trie, post)
            self._measures |= any(map(is_measured, first.levels.values()))
            if not self._measures:  # what the server can do shows with an answer that is not sure
                return unusable(request, UNMEASURED, model=first.model)
            gap = await self._self_check(first, trie, post)
        except (JudgeError, NoAnswer, *MALFORMED):
            self.is_able = False
            return None
        except Fault as fault:
            self._failed += fault.status is not None and not fault.busy
            if self._failed < _FAILURES:
                raise
            self.is_able = False
            return None
        self.is_able = gap <= TOLERANCE
        if not self.is_able:
            self.warning = (
                f"the server at {self._url} gives log-probabilities that differ by {gap:.2g} with the order of "
                f"requests, so labels are read from its top tokens instead; start it with "
                f"--no-enable-prefix-caching, or with VLLM_BATCH_INVARIANT=1 in its environment"
            )
            return None
        return await self._walk(trie, first, post)

    async def _self_check(self, first: _First, trie: LabelTrie, post: Post) -> float:
        """Return the largest difference in log-probabilities between both orders of a prompt and its prefix."""
        tokens = trie.branchings[()][:MOST_NAMED]
        half = first.prompt[: max(len(first.prompt) // 2, 1)]
        one = await self._behind([first.prompt, half], tokens, post)
        other = await self._behind([half, first.prompt], tokens[::-1], post)
        pairs = [(first.levels, one[0]), (one[0], other[1]), (one[1], other[0])]
        return max(_gap(a, b, tokens) for a, b in pairs)

    async def _walk(self, trie: LabelTrie, first: _First, post: Post) -> Reply:
        """Query all remaining branchings at once, and return the reply."""
        levels: dict[Path, dict[int, float]] = {(): first.levels}
        inner = [prefix for prefix in trie.branchings if prefix]
        if inner:
            tokens = tuple(dict.fromkeys(token for prefix in inner for token in trie.branchings[prefix]))
            behind = await self._behind([(*first.prompt, *prefix) for prefix in inner], tokens, post)
            levels |= dict(zip(inner, behind, strict=True))
        return Reply(logprobs=trie.logprobs(levels), unseen=0.0, model=first.model)

    async def _first(self, request: Choice, trie: LabelTrie, post: Post) -> _First:
        """Query the first token of the answer through the chat route, which renders the conversation."""
        written = self._wire.write(request)[1]
        for name in ("top_logprobs", "max_tokens", "max_completion_tokens"):
            written.pop(name, None)
        written |= {self._wire.token_field: 1, "n": 1, "logprobs": True, "return_token_ids": True}
        parts = _parts(trie.branchings[()])
        documents = await asyncio.gather(*(post(CHAT, {**written, **_naming(part)}) for part in parts))
        levels: dict[int, float] = {}
        prompt = Path()
        for part, document in zip(parts, documents, strict=True):
            shown, prompt = _read_chat(document)
            if shows_thought(document["choices"][0], usage_of(document.get("usage"))):
                raise thinks_first(request)
            levels |= {token: shown[token] for token in part}
        return _First(prompt, levels, model_of(documents[0]))

    async def _behind(self, prompts: Sequence[Path], tokens: Sequence[int], post: Post) -> list[dict[int, float]]:
        """Query the log-probabilities of tokens after each of several prompts of token ids."""
        body = self._wire.with_parameters({"model": self._wire.model, "temperature": 0})
        for name in ("messages", "max_completion_tokens"):
            body.pop(name, None)
        body |= {"prompt": [list(prompt) for prompt in prompts], "max_tokens": 1, "n": 1, "logprobs": 1}
        parts = _parts(tokens)
        documents = await asyncio.gather(*(post(PLAIN, {**body, **_naming(part)}) for part in parts))
        by_prompt: list[dict[int, float]] = [{} for _ in prompts]
        for part, document in zip(parts, documents, strict=True):
            for at, levels in enumerate(_read_plain(document, len(prompts))):
                by_prompt[at] |= {token: levels[token] for token in part}
        return by_prompt

    async def _trie(self, labels: tuple[str, ...], post: Post) -> LabelTrie | None:
        """Return the labels' tokens, with and without a leading space; None if they are ambiguous."""
        if labels not in self._tries:
            if not self._tries:
                bare = await self._ids("a", post)
                self._anchored = bare != await self._behind_anchor("a", bare, post)
            pairs = [(label, f" {label}") for label in labels]
            ways = [await asyncio.gather(*(self._tokens(way, post) for way in pair)) for pair in pairs]
            self._tries[labels] = LabelTrie.of(ways)
        return self._tries[labels]

    async def _tokens(self, text: str, post: Post) -> Path:
        bare = await self._ids(text, post)
        return await self._behind_anchor(text, bare, post) if self._anchored else bare

    async def _behind_anchor(self, text: str, bare: Path, post: Post) -> Path:
        """Return the tokens of a continuation, as a `LocalJudge` encodes it."""
        for anchor in _ANCHORS:
            before, both = await self._ids(anchor, post), await self._ids(anchor + text, post)
            if both[: len(before)] == before:
                return both[len(before) :]
        return bare

    async def _ids(self, text: str, post: Post) -> Path:
        document = await post(self._tokenizer, {"model": self._wire.model, "prompt": text, "add_special_tokens": False})
        return tuple(int(token) for token in document["tokens"])


def _parts(tokens: Sequence[int]) -> list[Sequence[int]]:
    return [tokens[at : at + MOST_NAMED] for at in range(0, len(tokens), MOST_NAMED)]


def _naming(tokens: Iterable[int]) -> dict[str, Any]:
    return {"logprob_token_ids": list(tokens), "return_tokens_as_token_ids": True}


def _read_chat(document: Any) -> tuple[dict[int, float], Path]:
    place = document["choices"][0]["logprobs"]["content"][0]
    shown = {_id_of(entry["token"]): _level(entry["logprob"]) for entry in place["top_logprobs"]}
    return shown, tuple(int(token) for token in document["prompt_token_ids"])


def _read_plain(document: Any, count: int) -> list[dict[int, float]]:
    places = {choice["index"]: choice["logprobs"]["top_logprobs"][0] for choice in document["choices"]}
    return [{_id_of(name): _level(level) for name, level in places[at].items()} for at in range(count)]


def _id_of(name: str) -> int:
    if not name.startswith(_BY_ID):
        raise ValueError(name)
    return int(name.removeprefix(_BY_ID))


def _level(value: float) -> float:
    level = level_of(value)
    return -math.inf if level <= IMPOSSIBLE else level


def _gap(one: Mapping[int, float], other: Mapping[int, float], tokens: Iterable[int]) -> float:
    compared = ((one[token], other[token]) for token in tokens if max(one[token], other[token]) > _RARE)
    return max((abs(a - b) for a, b in compared), default=0.0)


Path = tuple[int, ...]


@dataclass(frozen=True)
class LabelTrie:
    """Token trie of a set of labels.

    Parameters
    ----------
    paths : tuple of tuple of tuple of int
        For each label, the ways in which it can be tokenised, as token ids. No two labels share one.

    Notes
    -----
    P(label) is the sum over its tokenisations of P(first token) · P(second | first) · …, times, if another label
    continues it, the probability that the answer does not: with the tokens "1" and "0", the labels "1" and "10" have
    P("1") · (1 − P("0" | "1")) and P("1") · P("0" | "1").

    Examples
    --------
    >>> trie = LabelTrie((((7,),), ((7, 8),), ((9,),)))
    >>> trie.branchings
    {(): (7, 9), (7,): (8,)}
    >>> found = trie.logprobs({(): {7: math.log(0.5), 9: math.log(0.25)}, (7,): {8: math.log(0.2)}})
    >>> [round(math.exp(level), 3) for level in found]
    [0.4, 0.1, 0.25]
    """

    paths: tuple[tuple[Path, ...], ...]

    @classmethod
    def of(cls, written: Sequence[Sequence[Path]]) -> LabelTrie | None:
        """Build the trie of labels from their own tokenisations (listed first) and variants.

        A variant that is another label's own tokenisation belongs to that label. None if a label has no tokens, or two
        labels share all tokenisations.
        """
        own = [ways[0] for ways in written]
        if not all(own) or len(set(own)) < len(own):
            return None
        taken = set(own)
        paths = []
        for first, *others in written:
            variants = [way for way in dict.fromkeys(others) if way and way not in taken]
            taken.update(variants)
            paths.append((first, *variants))
        return cls(tuple(paths))

    @cached_property
    def branchings(self) -> dict[Path, tuple[int, ...]]:
        """All proper prefixes of labels with their next tokens, the empty prefix first."""
        following: dict[Path, dict[int, None]] = {(): {}}
        for path in chain.from_iterable(self.paths):
            for at, token in enumerate(path):
                following.setdefault(path[:at], {})[token] = None
        return {prefix: tuple(tokens) for prefix, tokens in sorted(following.items(), key=lambda pair: len(pair[0]))}

    def logprobs(self, levels: Mapping[Path, Mapping[int, float]]) -> tuple[float, ...]:
        """Return the log-probability of each label.

        Parameters
        ----------
        levels : mapping
            For each of the `branchings`, the log-probabilities of the next tokens.

        Returns
        -------
        tuple of float
            Natural logarithms, one per label; ``-inf`` for an impossible one.

        Raises
        ------
        KeyError
            If a token is missing.
        """
        shares = ([self._log_share(path, levels) for path in ways] for ways in self.paths)
        return tuple(min(float(np.logaddexp.reduce(ways)), 0.0) for ways in shares)

    def _log_share(self, path: Path, levels: Mapping[Path, Mapping[int, float]]) -> float:
        """Return log P(the answer begins with the path and continues to no other label)."""
        level = sum(levels[path[:at]][token] for at, token in enumerate(path))
        onward = sum(math.exp(levels[path][token]) for token in self.branchings.get(path, ()))
        return level + math.log1p(-onward) if onward < 1 else -math.inf
