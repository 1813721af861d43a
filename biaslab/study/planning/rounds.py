"""Count the requests of a sequential design, whose rounds depend on earlier answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import TYPE_CHECKING

from biaslab.core import Judge, Probe, Reply, Request, request_key
from biaslab.core.errors import JudgeError
from biaslab.judges.simulated import SimulatedJudge
from biaslab.store import Store
from biaslab.study.collect import collect
from biaslab.study.planning.pilot import CONTEXTS
from biaslab.study.spending.cost import Cost, count_cost, unanswered
from biaslab.study.spending.token_counts import count_tokens

if TYPE_CHECKING:
    from biaslab.datasets import Dataset


def count_rounds(probe: Probe, judge: Judge, dataset: Dataset, contexts: int, store: Store | None) -> tuple[Cost, str]:
    """Count the requests and tokens of all rounds of a study.

    The first round is counted exactly. Later rounds are simulated on at most the first 24 contexts, with answers from
    the store or else from an unbiased simulated judge, and scaled up to all contexts.

    Parameters
    ----------
    probe, judge, dataset, contexts
        As in `biaslab.study.planning.study.plan`. The judge is not asked.
    store : Store, optional
        Store of replies, which are free; opened read-only.

    Returns
    -------
    tuple of Cost and str
        The cost of all rounds, and a description of the later ones; "" if everything is asked at once.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=4)
    >>> probe = bl.probes.Comparative(["coherence"], strategy="adaptive", budget=16, rounds=4)
    >>> cost, words = count_rounds(probe, bl.SimulatedJudge(data), data, 4, None)
    >>> cost.requests, words
    (64, '16 of them in the first round; later rounds assume the answers of an unbiased simulated judge')
    """
    first = count_cost(probe, judge, dataset, contexts, store)
    if "trials" not in signature(probe.design).parameters:
        return first, ""
    walked = dataset.head(min(contexts, dataset.n_contexts, CONTEXTS))
    start = f"{first.requests:,} of them in the first round; later rounds "
    if dataset.human.empty:
        return first, start + "are not counted: there are no human scores to simulate answers from"
    foreseen = _Foreseen(judge, walked, store)
    try:
        collect(probe, foreseen, walked, progress=False)
    except JudgeError as error:
        return first, start + f"are not counted: the simulated judge cannot answer ({error})"
    later = list(dict.fromkeys(foreseen.asked))[foreseen.first :]
    if not later:
        return first, ""
    factor, present = contexts / walked.n_contexts, min(contexts, dataset.n_contexts) / walked.n_contexts
    words = start + "assume the answers of an unbiased simulated judge" + (" if the store has none" if store else "")
    return _plus(first, _cost(judge, later, store, factor, present)), words


class _Foreseen:
    """Judge that answers from the store or else like an unbiased simulated judge, recording its requests."""

    def __init__(self, judge: Judge, dataset: Dataset, store: Store | None) -> None:
        self._simulated, self._store = SimulatedJudge(dataset), store
        self.id, self.kinds, self.check = judge.id, self._simulated.kinds, self._simulated.check
        self.asked: list[Request] = []
        self.first = 0

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        listed = list(requests)
        self.first = self.first or len(listed)
        self.asked += listed
        keys = [request_key(request, self.id) for request in listed]
        stored = {} if self._store is None else self._store.get(keys)
        for key, (request, reply) in zip(keys, self._simulated.ask(listed), strict=True):
            yield request, stored.get(key, reply)


def _cost(judge: Judge, later: list[Request], store: Store | None, factor: float, present: float) -> Cost:
    """Scale the cost of requests on some contexts up to the study (factor) and to the data set (present)."""
    missing = unanswered(judge, later, store)
    total, stored = round(factor * len(later)), round(present * (len(later) - len(missing)))
    sample = missing if factor == present else later
    if not sample:
        return Cost(total, stored, 0, 0, 0, "")
    counted, scale = count_tokens(judge, sample), (total - stored) / len(sample)
    tokens = float(counted.read.sum()), float(counted.written.sum()), counted.distinct
    read, written, distinct = (round(scale * value) for value in tokens)
    return Cost(total, stored, read, written, distinct, counted.method)


def _plus(first: Cost, later: Cost) -> Cost:
    """Add later rounds, which share no prompt prefix with earlier ones."""
    requests, stored, read, written, distinct = (one + other for one, other in zip(first[:5], later[:5], strict=True))
    counted = first.counted if first.read or not later.read else later.counted
    return Cost(requests, stored, read, written, distinct, counted)
