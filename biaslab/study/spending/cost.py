"""Compute the cost of a study before it is run: open requests, tokens, time and price."""

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
    """Cost of a study; attributes as in `biaslab.study.planning.study.Plan`."""

    requests: int
    stored: int
    read: int
    written: int
    distinct: int
    counted: str


def count_cost(probe: Probe, judge: Judge, dataset: Dataset, contexts: int, store: Store | None) -> Cost:
    """Count the requests and tokens of a study, extrapolating beyond the data set's contexts."""
    present = min(contexts, dataset.n_contexts)
    requests = list(dict.fromkeys(trial.request for trial in probe.design(dataset.head(present))))
    if not requests:
        raise InputError("probe", probe, "a design with at least one judgement", "use more contexts or candidates")
    total = round(len(requests) * contexts / present)
    missing = unanswered(judge, requests, store)
    stored = len(requests) - len(missing)
    sample = missing if contexts == present else requests
    if not sample:
        return Cost(total, stored, 0, 0, 0, "nothing left to ask")
    counted = count_tokens(judge, sample)
    factor = (total - stored) / len(sample)
    read, written = float(counted.read.sum()), float(counted.written.sum())
    read, written, distinct = (round(factor * value) for value in (read, written, counted.distinct))
    return Cost(total, stored, read, written, distinct, counted.method)


def price(cost: Cost, prices: Mapping[str, float] | None) -> tuple[float | None, float | None]:
    """Return the maximum price in dollars, and the price with all shared prefixes cached, if that has a price."""
    if prices is None:
        return None, None
    most, least = (dollars(Usage(cost.read, cached, cost.written), prices) for cached in (0, cost.read - cost.distinct))
    return most, least if "cached" in prices else None


def dollars(usage: Usage, prices: Mapping[str, float]) -> float:
    """Return the price of tokens in dollars; cached input without its own price costs the same as other input.

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
    """Measure the seconds per request by asking the open requests of a few contexts. This costs money.

    Replies are kept in the store, so a later study does not repeat them. The first request, which loads the judge's
    weights or opens its connection, is not timed.

    Parameters
    ----------
    probe, judge, dataset
        As in `biaslab.study.planning.study.plan`.
    store : Store or path
        Store of replies.
    contexts : int
        Number of contexts to ask: the first with open requests.

    Returns
    -------
    float or None
        Seconds per request; None if fewer than two requests are open.

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
    """Return the different requests that the store does not answer, in order."""
    different = list(dict.fromkeys(requests))
    return different if store is None else store.missing(judge, different)
