"""The first walk through a design, before anything is asked: whether it can be answered, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from biaslab.core import Judge, Request, Trial
from biaslab.core.errors import JudgeError
from biaslab.core.many import uncollected
from biaslab.study.collecting.windows import Seen, windows

#: Makes the design anew, trial by trial; the same trials each time.
Plan = Callable[[], Iterable[Trial]]


@dataclass
class Survey:
    """What a first walk found.

    Attributes
    ----------
    trials, requests : int
        Judgements, and different requests.
    kinds : dict of str to set of type
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
    kinds: dict[str, set[type]] = field(default_factory=lambda: {"opponent_id": set()})
    first: tuple[str, ...] = ()
    shared: set[int] = field(default_factory=set)
    whole: list[Trial] | None = None


def survey(
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
    found, seen = Survey(), Seen()
    for window in windows(plan(), size):
        found.whole, found.first = (None, found.first) if found.trials else (window, tuple(window[0].condition))
        found.trials += len(window)
        with uncollected():
            requests = list(dict.fromkeys([trial.request for trial in window]))
            hashes = np.array([hash(request) for request in requests], np.int64)
            _note_kinds(found.kinds, window)
        repeated = seen.add(hashes) if len(np.unique(hashes)) == len(hashes) else _each(seen, hashes)
        found.shared.update(hashes[repeated].tolist())
        found.requests += len(requests) - int(repeated.sum())
        _check(judge, requests, window)
        if count is not None:
            fresh = [request for request, before in zip(requests, repeated, strict=True) if not before]
            count(fresh, window)
    return found


def _each(seen: Seen, hashes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Do as `Seen.add`, of numbers that are not all different: the hashes of different requests may be the same."""
    different, at = np.unique(hashes, return_inverse=True)
    return np.asarray(seen.add(different)[at])


def _note_kinds(kinds: dict[str, set[type]], window: Sequence[Trial]) -> None:
    kinds["opponent_id"].update({type(trial.opponent_id) for trial in window} - {type(None)})
    for condition in {id(trial.condition): trial.condition for trial in window}.values():
        for name, value in condition.items():
            known = kinds.setdefault(name, set())
            if value is not None:
                known.add(type(value))


def _check(judge: Judge, requests: Sequence[Request], trials: Sequence[Trial]) -> None:
    """Let the judge check requests; its error names the context and the candidates."""
    try:
        judge.check(requests)
    except JudgeError as error:
        trial = next((t for t in trials if t.request == error.request), None)
        if trial is None:
            raise
        shown = " and ".join(filter(None, (trial.candidate_id, trial.opponent_id)))
        raise type(error)(f"context {trial.context_id!r}, candidate {shown}: {error}", error.request) from error
