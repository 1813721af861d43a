"""Split a design into windows of whole contexts, one in memory at a time, and survey it beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Ints
from biaslab.core.errors import JudgeError
from biaslab.core.interfaces import Judge, as_judge, require_kinds
from biaslab.core.requests import Request, thinking_of
from biaslab.core.trials import Trial, uncollected
from biaslab.stats.blocks import joined, linked_contexts
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import Until

#: Generates the design; the same trials each time.
TrialSource = Callable[[], Iterable[Trial]]
#: Minimum number of trials per window, which ends with a context.
SIZE = 5_000
_NONE = type(None)


def window_size(judge: Judge) -> int:
    """Return the minimum number of trials per window, enough to keep all replicas of a judge busy."""
    return max(SIZE, as_judge(judge).breadth)


def windows(trials: Iterable[Trial], size: int) -> Iterator[list[Trial]]:
    """Split a design into windows, keeping adjacent trials of a context together.

    Examples
    --------
    >>> import biaslab as bl
    >>> design = bl.probes.Position(templates=[1]).design(bl.load_dataset("graded", limit=4))
    >>> [len(window) for window in windows(design, size=200)]
    [240, 240]
    """
    rest = iter(trials)
    window: list[Trial] = []
    while True:
        with uncollected():
            last = window[-1].context_id if window else None
            for trial in rest:
                if len(window) >= size and trial.context_id != last:
                    break
                window.append(trial)
                last = trial.context_id
            else:
                break
        yield window
        window = [trial]
    if window:
        yield window


def units_of(trials: Iterable[Trial], until: Until, clusters: Mapping[Any, Any] | None = None) -> list[list[Trial]]:
    """Return the trials of each unit in random order: a context, or contexts that share a request or a cluster.

    The order depends on the seed of the rule and on the order of contexts in the data set.

    Examples
    --------
    >>> import biaslab as bl
    >>> design = bl.probes.Position(templates=[1]).design(bl.load_dataset("graded", limit=4))
    >>> [unit[0].context_id for unit in units_of(design, Until(contexts=3))]
    ['sport-1', 'news-1', 'science-1']
    """
    planned = list(trials)
    names = [trial.context_id for trial in planned]
    of_request = linked_contexts(pd.DataFrame({"context_id": names, "key": [t.request for t in planned]}), "key")
    cluster = joined(Resampling(clusters=clusters), of_request).cluster_of(names)
    units: dict[str, list[Trial]] = {}
    for name, trial in zip(cluster, planned, strict=True):
        units.setdefault(name, []).append(trial)
    listed = list(units.values())
    return [listed[at] for at in np.random.default_rng(until.seed).permutation(len(listed))[: until.most(len(listed))]]


def look_ends(units: Sequence[Sequence[Trial]], until: Until, breadth: int) -> list[int]:
    """Return the numbers of units at which to look: planned ones, or once enough contexts and requests are asked."""
    if until.looks:
        return list(until.looks)
    ends, contexts, requests = [], 0, 0
    for number, unit in enumerate(units, 1):
        contexts, requests = contexts + 1, requests + len(unit)
        if (contexts >= until.every and requests >= breadth) or number == len(units):
            ends.append(number)
            contexts = requests = 0
    return ends


class Seen:
    """Set of numbers seen so far, 8 bytes each, in sorted runs of doubling sizes.

    Examples
    --------
    >>> seen = Seen()
    >>> [seen.add(np.array(part)).tolist() for part in ([1, 2], [2, 3], [1, 4])]
    [[False, False], [True, False], [True, False]]
    """

    def __init__(self) -> None:
        self._runs: list[Ints] = []

    def add(self, numbers: Ints) -> Bools:
        """Add distinct numbers; return which of them were in the set already."""
        is_new = np.zeros(len(numbers), bool)
        for run in self._runs:
            at = np.searchsorted(run, numbers)
            is_new |= run[np.minimum(at, len(run) - 1)] == numbers
        new = np.sort(numbers[~is_new])
        while self._runs and len(self._runs[-1]) <= len(new):
            new = np.concatenate([self._runs.pop(), new])
            new.sort()
        if len(new):
            self._runs.append(new)
        return is_new


@dataclass
class Survey:
    """Facts about a design, collected before asking.

    Attributes
    ----------
    trials, requests : int
        Numbers of judgements and of different requests.
    types : dict of str to set of type
        Types of the values of each condition and of ``opponent_id``, except None.
    first : tuple of str
        Conditions of the first trial.
    shared : set of int
        Hashes of requests that occur in several windows, whose replies must be kept.
    whole : list of Trial, optional
        The whole design if it fits one window, so that it need not be generated again.
    """

    trials: int = 0
    requests: int = 0
    types: dict[str, set[type]] = field(default_factory=lambda: {"opponent_id": set()})
    first: tuple[str, ...] = ()
    shared: set[int] = field(default_factory=set)
    whole: list[Trial] | None = None


def survey_design(
    plan: TrialSource, judge: Judge, size: int, count: Callable[[list[Request], list[Trial]], None] | None = None
) -> Survey:
    """Walk through a design and have the judge check it.

    Parameters
    ----------
    plan : callable
        Generates the design.
    judge : Judge
        The judge; stored requests are not checked.
    size : int
        Minimum number of trials per window.
    count : callable, optional
        Called with the new requests of each window and its trials.

    Raises
    ------
    JudgeError
        If a request cannot be answered; the message names context and candidates.
    """
    survey, seen = Survey(), Seen()
    for window in windows(plan(), size):
        survey.whole, survey.first = (None, survey.first) if survey.trials else (window, tuple(window[0].condition))
        survey.trials += len(window)
        with uncollected():
            requests = [trial.request for trial in window]
            hashes = _hashes(requests)
            if repeats := len(np.unique(hashes)) < len(hashes):
                requests = list(dict.fromkeys(requests))
                hashes = _hashes(requests)
            _note_types(survey.types, window)
        repeated = _each(seen, hashes) if repeats else seen.add(hashes)
        survey.shared.update(hashes[repeated].tolist())
        survey.requests += len(requests) - int(repeated.sum())
        _check(judge, requests, window)
        if count is not None:
            fresh = [request for request, before in zip(requests, repeated, strict=True) if not before]
            count(fresh, window)
    return survey


def _hashes(requests: Sequence[Request]) -> Ints:
    return np.fromiter(map(hash, requests), np.int64, len(requests))


def _each(seen: Seen, hashes: Ints) -> Bools:
    """Like `Seen.add`, for numbers with repetitions, because hashes of different requests may collide."""
    different, at = np.unique(hashes, return_inverse=True)
    return np.asarray(seen.add(different)[at])


def _note_types(types: dict[str, set[type]], window: Sequence[Trial]) -> None:
    types["opponent_id"].update({type(trial.opponent_id) for trial in window} - {_NONE})
    conditions = [trial.condition for trial in window]
    for names, value_types in dict.fromkeys([(tuple(each), tuple(map(type, each.values()))) for each in conditions]):
        for name, kind in zip(names, value_types, strict=True):
            types.setdefault(name, set()).update({kind} - {_NONE})


def _check(judge: Judge, requests: Sequence[Request], trials: Sequence[Trial]) -> None:
    """Have the judge check requests; add context and candidates to its error."""
    try:
        if any(thinking_of(request) is not None for request in requests):
            require_kinds(as_judge(judge), requests)
        judge.check(requests)
    except JudgeError as error:
        trial = next((t for t in trials if t.request == error.request), None)
        if trial is None:
            raise
        shown = " and ".join(filter(None, (trial.candidate_id, trial.opponent_id)))
        reason = f"context {trial.context_id!r}, candidate {shown}: {error.reason}"
        raise type(error)(reason, error.request, remedy=error.remedy) from error
