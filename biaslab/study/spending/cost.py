"""Count what a study costs before it is run: open requests, their tokens, time and price."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from biaslab.core import Judge, Probe, Request, Usage
from biaslab.core.errors import InputError
from biaslab.store import Store
from biaslab.study.spending.token_counts import count_tokens

if TYPE_CHECKING:
    from biaslab.datasets import Dataset


class Cost(NamedTuple):
    """Cost of a study, with the attributes of `biaslab.study.planning.study.Plan`."""

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
        As for `biaslab.study.planning.study.plan`.
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


def unanswered(judge: Judge, requests: Sequence[Request], store: Store | None) -> list[Request]:
    """Return the different requests whose replies the store does not hold, in order."""
    different = list(dict.fromkeys(requests))
    return different if store is None else store.missing(judge, different)
