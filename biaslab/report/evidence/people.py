"""Texts and human scores of the candidates on a card."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from biaslab.datasets import Dataset


@dataclass(frozen=True)
class Candidate:
    """A candidate on a card: its letter, the same in both orders, and its name."""

    letter: str
    name: str
    system: str = ""


class People:
    """Texts and human scores of a data set by context and candidate; empty without a data set.

    Parameters
    ----------
    dataset : Dataset, optional
        The data that was judged.
    """

    def __init__(self, dataset: Dataset | None) -> None:
        self._items: dict[tuple[str, str], tuple[str, str]] = {}
        self._sources: dict[str, str] = {}
        self._scores: dict[tuple[str, str, str], list[float]] = {}
        if dataset is None:
            return
        columns = ("context_id", "candidate_id", "text", "system", "context")
        for context, candidate, text, system, source in zip(*(dataset.candidates[c] for c in columns), strict=True):
            self._items[context, candidate] = (text, system)
            self._sources[context] = source
        rated = dataset.human
        for key, part in rated.groupby(["context_id", "candidate_id", "attribute"], sort=False)["score"]:
            self._scores[key] = part.tolist()  # type: ignore[index]

    def text(self, context: str, candidate: str) -> str:
        """Return the text of a candidate, or an empty string."""
        return self._items.get((context, candidate), ("", ""))[0]

    def system(self, context: str, candidate: str) -> str:
        """Return the system that wrote a candidate, or an empty string."""
        return self._items.get((context, candidate), ("", ""))[1]

    def source(self, context: str) -> str:
        """Return the text of a context, or an empty string."""
        return self._sources.get(context, "")

    def lines(self, trial: pd.Series, shown: Collection[Candidate]) -> Iterator[str]:
        """Yield the human scores of each candidate in words, from the data set or else from the trial."""
        context, attribute = str(trial["context_id"]), str(trial["attribute"])
        carried = {0: trial.get("human"), 1: trial.get("opponent_human")}
        any_score = False
        for place, one in enumerate(shown):
            scores = self._scores.get((context, one.name, attribute), [])
            mean = carried[place] if carried[place] is not None and not pd.isna(carried[place]) else None
            name = f"{one.letter} {one.name}".strip()
            if scores:
                any_score = True
                single = f" ({' '.join(f'{score:g}' for score in scores)})" if len(scores) > 1 else ""
                yield f"{name}: {sum(scores) / len(scores):.3g}{single}"
            elif mean is not None:
                any_score = True
                yield f"{name}: {float(mean):.3g}"
        gap = trial.get("human_gap")
        if not any_score and len(shown) > 1 and gap is not None and not pd.isna(gap):
            first, second = (one.letter for one in shown)
            higher = "as high as" if gap == 0 else f"{abs(float(gap)):.3g} {'above' if gap > 0 else 'below'}"
            yield f"{first} {higher} {second}"
