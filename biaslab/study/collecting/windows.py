"""A design in windows of whole contexts, of which one is in memory at a time, and the first walk through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from biaslab.core import Judge, Request, Trial, as_judge, require_kinds, thinking_of
from biaslab.core.errors import JudgeError
from biaslab.core.trials import uncollected

#: Makes the design anew, trial by trial; the same trials each time.
Plan = Callable[[], Iterable[Trial]]
#: Trials of a window at least, unless the design ends; it goes on to the end of a context.
SIZE = 5_000


def window_size(judge: Judge) -> int:
    """Return how many trials a window has at least: as many as keep a judge busy, be it many replicas."""
    return max(SIZE, as_judge(judge).breadth)


def windows(trials: Iterable[Trial], size: int) -> Iterator[list[Trial]]:
    """Cut a design into windows; the trials of a context that stand together stay together.

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


class Seen:
    """Numbers that were seen before, 8 bytes each, in sorted runs whose sizes double.

    Examples
    --------
    >>> seen = Seen()
    >>> [seen.add(np.array(part)).tolist() for part in ([1, 2], [2, 3], [1, 4])]
    [[False, False], [True, False], [True, False]]
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def add(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Take some different numbers, and say of each whether it was there."""
        found = np.zeros(len(numbers), bool)
        for run in self._runs:
            at = np.searchsorted(run, numbers)
            found |= run[np.minimum(at, len(run) - 1)] == numbers
        new = np.sort(numbers[~found])
        while self._runs and len(self._runs[-1]) <= len(new):
            new = np.concatenate([self._runs.pop(), new])
            new.sort()
        if len(new):
            self._runs.append(new)
        return found


@dataclass
class Survey:
    """Facts about a design, from a first walk through it.

    Attributes
    ----------
    trials, requests : int
        Judgements, and different requests.
    types : dict of str to set of type
        Types of the values of each condition, and of ``opponent_id``, without None.
    first : tuple of str
        The conditions of the first trial.
    shared : set of int
        Hashes of requests that stand in several windows; their replies are kept for later ones.
    whole : list of Trial, optional
        The design, where it is one window: it is not made again.
    """

    trials: int = 0
    requests: int = 0
    types: dict[str, set[type]] = field(default_factory=lambda: {"opponent_id": set()})
    first: tuple[str, ...] = ()
    shared: set[int] = field(default_factory=set)
    whole: list[Trial] | None = None


def survey_design(
    plan: Plan, judge: Judge, size: int, count: Callable[[list[Request], list[Trial]], None] | None = None
) -> Survey:
    """Walk through a design and let a judge check it.

    Parameters
    ----------
    plan : callable
        Makes the design.
    judge : Judge
        Who would be asked; what a store holds is not checked.
    size : int
        Trials of a window at least.
    count : callable, optional
        Is told of the different requests of each window that no earlier one had, and of its trials.

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
            requests = list(dict.fromkeys([trial.request for trial in window]))
            hashes = np.array([hash(request) for request in requests], np.int64)
            _note_types(survey.types, window)
        repeated = seen.add(hashes) if len(np.unique(hashes)) == len(hashes) else _each(seen, hashes)
        survey.shared.update(hashes[repeated].tolist())
        survey.requests += len(requests) - int(repeated.sum())
        _check(judge, requests, window)
        if count is not None:
            fresh = [request for request, before in zip(requests, repeated, strict=True) if not before]
            count(fresh, window)
    return survey


def _each(seen: Seen, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Do as `Seen.add`, of numbers that are not all different: the hashes of different requests may be the same."""
    different, at = np.unique(hashes, return_inverse=True)
    return np.asarray(seen.add(different)[at])


def _note_types(types: dict[str, set[type]], window: Sequence[Trial]) -> None:
    types["opponent_id"].update({type(trial.opponent_id) for trial in window} - {type(None)})
    for condition in {id(trial.condition): trial.condition for trial in window}.values():
        for name, value in condition.items():
            known = types.setdefault(name, set())
            if value is not None:
                known.add(type(value))


def _check(judge: Judge, requests: Sequence[Request], trials: Sequence[Trial]) -> None:
    """Let the judge check requests; its error names the context and the candidates."""
    try:
        if any(thinking_of(request) is not None for request in requests):
            require_kinds(as_judge(judge), requests)
        judge.check(requests)
    except JudgeError as error:
        trial = next((t for t in trials if t.request == error.request), None)
        if trial is None:
            raise
        shown = " and ".join(filter(None, (trial.candidate_id, trial.opponent_id)))
        raise type(error)(f"context {trial.context_id!r}, candidate {shown}: {error}", error.request) from error
