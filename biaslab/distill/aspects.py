"""The aspects that a judge is asked about, and what is worst and perfect (Wang et al. 2023, Tables 7 and 8)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from biaslab.core.checked import checked
from biaslab.core.errors import InputError

MULTIPLE = "multiple"
_NOUNS = {"translation": "translation", "style-transfer": "transferred sentence", "summarization": "summary"}


@checked
@dataclass(frozen=True)
class Aspect:
    """One aspect of one task, in the words of the paper.

    Parameters
    ----------
    task : str
        ``"translation"``, ``"style-transfer"`` or ``"summarization"``.
    name : str
        Such as ``"coherence"``; ``"multiple"`` is all of the task at once (Table 7).
    worst, perfect : str
        What one star and five stars mean.
    definition : str
        A sentence or two.
    """

    task: str
    name: str
    worst: str
    perfect: str
    definition: str

    @property
    def noun(self) -> str:
        """What is judged: "summary", "translation" or "transferred sentence"."""
        return _NOUNS[self.task]


@checked
def aspects(task: str = "summarization") -> tuple[Aspect, ...]:
    """Return the aspects of a task, the multiple one first.

    Raises
    ------
    InputError
        If there is no such task.

    Examples
    --------
    >>> [aspect.name for aspect in aspects("translation")]
    ['multiple', 'accuracy', 'completeness', 'fluency', 'style']
    """
    if task not in _NOUNS:
        raise InputError("task", task, ", ".join(_NOUNS))
    return tuple(aspect for aspect in _table() if aspect.task == task)


@checked
def find_aspect(task: str, aspect: str) -> Aspect:
    """Return one aspect of a task.

    Raises
    ------
    InputError
        If there is no such task, or it has no such aspect.

    Examples
    --------
    >>> find_aspect("summarization", "coherence").worst
    'incoherence'
    """
    known = {found.name: found for found in aspects(task)}
    if aspect not in known:
        raise InputError("aspect", aspect, f"one of {', '.join(known)}, the aspects of {task}")
    return known[aspect]


@cache
def _table() -> tuple[Aspect, ...]:
    with files(__package__).joinpath("aspects.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return tuple(Aspect(r["task"], r["aspect"], r["worst"], r["perfect"], r["definition"]) for r in rows)
