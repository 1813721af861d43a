"""What a study costs before it is run: open requests, their tokens, their time and their price."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biaslab.core import (
    PRICES,
    Choice,
    Completion,
    Composed,
    Encoding,
    Expanding,
    Judge,
    Likelihood,
    Probe,
    Request,
    Score,
    Usage,
)
from biaslab.errors import InputError
from biaslab.store import Store

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

#: Characters of one token, where a judge cannot count: the usual rule of thumb for English text.
CHARACTERS = 4
_COUNTED = 2000  # requests that a judge counts itself; the others are scaled by their characters


class Cost(NamedTuple):
    """What a study costs: attributes as of `biaslab.planning.study.Plan`."""

    requests: int
    stored: int
    read: int
    written: int
    distinct: int
    counted: str


def count_cost(probe: Probe, judge: Judge, dataset: Dataset, contexts: int, store: Store | None) -> Cost:
    """Count the requests and tokens of a study; beyond the data set's contexts, as many again as these have."""
    present = min(contexts, dataset.n_contexts)
    requests = list(dict.fromkeys(trial.request for trial in probe.design(dataset.head(present))))
    if not requests:
        raise InputError("probe", probe, "a design of at least one judgement", "give more contexts or candidates")
    total = round(len(requests) * contexts / present)
    missing = unanswered(judge, requests, store)
    stored = len(requests) - len(missing)
    sample = missing if contexts == present else requests
    if not sample:
        return Cost(total, stored, 0, 0, 0, "nothing is left to ask")
    counted = count_tokens(judge, sample)
    factor = (total - stored) / len(sample)
    read, written = float(counted.read.sum()), float(counted.written.sum())
    read, written, distinct = (round(factor * value) for value in (read, written, counted.distinct))
    return Cost(total, stored, read, written, distinct, counted.method)


def price(cost: Cost, prices: Mapping[str, float] | None) -> tuple[float | None, float | None]:
    """Return the price in dollars at most, and with every shared beginning from the cache, where that has a price."""
    if prices is None:
        return None, None
    most, least = (dollars(Usage(cost.read, cached, cost.written), prices) for cached in (0, cost.read - cost.distinct))
    return most, least if "cached" in prices else None


def check_prices(prices: Mapping[str, float]) -> None:
    """Raise `InputError` unless prices are dollars for a million tokens of input and, if wanted, cached and output."""
    good = all(name in PRICES and 0 <= price < math.inf for name, price in prices.items())
    if not good or "input" not in prices:
        allowed = "dollars for a million tokens of input and, if wanted, cached and output, each at least 0"
        raise InputError("prices", dict(prices), allowed)


def dollars(usage: Usage, prices: Mapping[str, float]) -> float:
    """Return what tokens cost in dollars; cached input costs as other input where it has no price of its own.

    Examples
    --------
    >>> dollars(Usage(prompt_tokens=1_000_000, cached_tokens=500_000), {"input": 2.0, "cached": 0.5, "output": 8.0})
    1.25
    """
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    read = (usage.prompt_tokens - cached) * prices["input"] + cached * prices.get("cached", prices["input"])
    return (read + usage.completion_tokens * prices.get("output", 0.0)) / 1e6


def measure(
    probe: Probe, judge: Judge, dataset: Dataset, store: Store | str | PathLike[str], contexts: int = 2
) -> float | None:
    """Ask a judge the open requests of a few contexts, and say how long one takes. This spends what it asks.

    Every reply is kept in the store, so the study that follows does not ask it again. The first request, which loads
    the judge's weights or opens its connection, is not timed.

    Parameters
    ----------
    probe, judge, dataset
        As for `biaslab.planning.study.plan`.
    store : Store or path
        Where the replies are kept.
    contexts : int
        Contexts whose open requests are asked: the first that have any.

    Returns
    -------
    float or None
        Seconds a request; None if fewer than two requests are open.

    Examples
    --------
    >>> import tempfile
    >>> import biaslab as bl
    >>> data, probe = bl.load_dataset("graded", limit=2), bl.probes.Position()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     measure(probe, bl.SimulatedJudge(data), data, f"{folder}/replies.sqlite") < 1
    True
    """
    trials = list(probe.design(dataset))
    kept = store if isinstance(store, Store) else Store(store)
    try:
        missing = set(unanswered(judge, [trial.request for trial in trials], kept))
        chosen = list(dict.fromkeys(trial.context_id for trial in trials if trial.request in missing))[:contexts]
        asked = dict.fromkeys(t.request for t in trials if t.context_id in chosen and t.request in missing)
        if len(asked) < 2:
            return None
        first, *rest = asked
        source = kept.wrap(judge)
        source.check([first, *rest])
        list(source.ask([first]))
        started = time.monotonic()
        list(source.ask(rest))
        return (time.monotonic() - started) / len(rest)
    finally:
        if kept is not store:
            kept.close()


class TokenCount(NamedTuple):
    """Tokens of some requests.

    Attributes
    ----------
    read, written : numpy.ndarray, shape (requests,)
        Tokens that the judge reads, and that it writes at most.
    distinct : float
        Tokens that are read when every shared beginning of the prompts is read once.
    method : str
        How they were counted, in words.
    """

    read: NDArray[np.float64]
    written: NDArray[np.float64]
    distinct: float
    method: str


def unanswered(judge: Judge, requests: Sequence[Request], store: Store | None) -> list[Request]:
    """Return the different requests whose replies the store does not hold, in order."""
    different = list(dict.fromkeys(requests))
    return different if store is None else store.missing(judge, different)


def count_tokens(judge: Judge, requests: Sequence[Request], most: int = _COUNTED) -> TokenCount:
    """Count the tokens of requests: by the judge, if it is `biaslab.core.Encoding`, else from characters.

    Such a judge counts some requests; the others are scaled by their characters. All labels of a `Choice`
    share one prompt, which counts once, as it does in `biaslab.core.Usage`. Of a judge that is
    `biaslab.core.Expanding`, as `Sampled` is, what it asks the other one is counted, and of a panel what all members
    are asked.

    Parameters
    ----------
    judge : Judge
        Who would be asked. Nothing is asked; a local judge loads its tokenizer.
    requests : sequence of Request
        What would be asked.
    most : int
        Requests that are counted, the first ones.

    Examples
    --------
    >>> import biaslab as bl
    >>> judge = bl.SimulatedJudge(bl.load_dataset("graded", limit=1))
    >>> counted = count_tokens(judge, [Choice("Is A or B better?", ("A", "B"))])
    >>> counted.read.tolist(), counted.method
    ([5.0], 'estimated at 4 characters a token')
    """
    if isinstance(judge, Composed):
        return _added([count_tokens(member, requests, most) for member in judge.members])
    if isinstance(judge, Expanding):
        return _expanded(judge.judge, [judge.expand(request) for request in requests], most)
    characters = np.array([float(len(_text(request))) for request in requests])
    written = np.array([_written(request) for request in requests], float)
    few = requests[:most]
    if isinstance(judge, Encoding):
        encoded = [[np.array(sequence) for sequence in judge.encode(request)] for request in few]
        read = np.array([float(max(map(len, sequences))) for sequences in encoded])
        distinct = _distinct([sequence for sequences in encoded for sequence in sequences])
        written[[isinstance(request, Choice) for request in requests]] = 0  # labels are read, not generated
        per_token = characters[: len(few)].sum() / max(read.sum(), 1)
        method = "counted by the judge's tokenizer"
        if len(requests) > len(few):
            method += f" for {len(few):,} of {len(requests):,} requests, the others by their length"
    else:
        read, per_token = np.ceil(characters[: len(few)] / CHARACTERS), float(CHARACTERS)
        distinct = _distinct([_codes(request) for request in few]) / CHARACTERS
        method = f"estimated at {CHARACTERS} characters a token"
    read = np.concatenate([read, np.ceil(characters[len(few) :] / per_token)])
    return TokenCount(read, written, distinct * read.sum() / max(read[: len(few)].sum(), 1), method)


def _expanded(judge: Judge, asked: Sequence[Sequence[Request]], most: int) -> TokenCount:
    """Count what another judge is asked, request by request."""
    counted = count_tokens(judge, [request for several in asked for request in several], most)
    starts = np.cumsum([0, *map(len, asked)][:-1])
    read, written = (np.add.reduceat(tokens, starts) for tokens in (counted.read, counted.written))
    return TokenCount(read, written, counted.distinct, counted.method)


def _added(counts: Sequence[TokenCount]) -> TokenCount:
    """Add up what several judges are asked."""
    read, written, distinct = (sum(getattr(each, name) for each in counts) for name in ("read", "written", "distinct"))
    return TokenCount(read, written, distinct, " and ".join(dict.fromkeys(each.method for each in counts)))


def _distinct(sequences: Sequence[NDArray[Any]]) -> float:
    """Count the different beginnings of some sequences: what a prefix tree computes."""
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
    if isinstance(request, Score):
        return request.source + request.text + request.reference
    return "".join(message.content for message in request.messages)


def _codes(request: Request) -> NDArray[np.uint32]:
    return np.frombuffer(_text(request).encode("utf-32-le", "surrogatepass"), np.uint32)


def _written(request: Request) -> int:
    """Return how many tokens a reply has at most, where the judge writes its answers."""
    if isinstance(request, Completion):
        return request.max_tokens
    return math.ceil(max(map(len, request.labels)) / CHARACTERS) if isinstance(request, Choice) else 0
