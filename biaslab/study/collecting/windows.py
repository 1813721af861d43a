"""A design in windows of whole contexts, of which one is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from biaslab.core import Judge, Trial, as_judge
from biaslab.core.many import uncollected

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
