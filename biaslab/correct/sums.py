"""What a context adds to an estimate: sums over its items, of the judge everywhere, of humans where they labelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """Sums over items, context by context.

    Parameters
    ----------
    judged : ndarray, shape (names, 2)
        Sum of the judge's values over all judged items of a context, and how many these are; 0 where there are none.
    at : ndarray of int, shape (labelled,)
        Which contexts are labelled.
    human : ndarray, shape (labelled, 2)
        Sum of the human values over the labelled items, and how many these are.
    beside : ndarray, shape (labelled, 2)
        Sum of the judge's values over the items that were shown to humans, and how many these are.
    probability : ndarray, shape (labelled,)
        How likely each of the labelled contexts was to be labelled.
    """

    judged: Floats
    at: NDArray[np.intp]
    human: Floats
    beside: Floats
    probability: Floats

    @property
    def contexts(self) -> int:
        """How many contexts have a judged item."""
        return int((self.judged[:, 1] > 0).sum())

    @property
    def labelled(self) -> int:
        """How many of them are labelled."""
        return len(self.at)

    @property
    def rated(self) -> int:
        """How many of the labelled ones say something of what is estimated."""
        return int((self.human[:, 1] > 0).sum())

    @property
    def weight(self) -> Floats:
        """What a labelled context stands for: 1 / probability, 1 on average."""
        inverse = 1 / self.probability
        return np.asarray(inverse / inverse.mean() if len(inverse) else inverse, float)

    def spread(self, of_labelled: Floats) -> Floats:
        """Put what labelled contexts add at their places among all, 0 elsewhere; shape (names,)."""
        found = np.zeros(len(self.judged))
        found[self.at] = of_labelled
        return found


def summed(items: pd.DataFrame, contexts: Sequence[Any], probability: pd.Series | None) -> Sums:
    """Sum items within contexts.

    Parameters
    ----------
    items : pandas.DataFrame
        One row an item: ``context_id, value, human``; NaN in ``human`` where there is no label. A column ``shown`` says
        which were shown to humans, where these may have said nothing that counts.
    contexts : sequence
        Names of the contexts, in order. Items of others do not enter, and those without an item add nothing.
    probability : pandas.Series, optional
        By context: how likely it was to be labelled; the share of the labelled ones by default.

    Returns
    -------
    Sums

    Examples
    --------
    >>> items = pd.DataFrame({"context_id": list("aabc"), "value": [1.0, 2, 3, 4], "human": [1.0, 1, 5, None]})
    >>> found = summed(items, ["a", "b", "c"], None)
    >>> found.judged.tolist(), found.human.tolist(), found.probability.round(2).tolist()
    ([[3.0, 2.0], [3.0, 1.0], [4.0, 1.0]], [[2.0, 2.0], [5.0, 1.0]], [0.67, 0.67])
    """
    place = pd.Index(contexts).get_indexer(pd.Index(items["context_id"]))
    value, human = items["value"].to_numpy(float), items["human"].to_numpy(float)
    known = (place >= 0) & ~np.isnan(value)
    place, value, human = place[known], value[known], human[known]
    rated, size = ~np.isnan(human), len(contexts)
    shown = items["shown"].to_numpy(bool)[known] if "shown" in items else rated
    judged = _two(place, value, size)
    human_sums, beside = _two(place[rated], human[rated], size), _two(place[shown], value[shown], size)
    at = np.flatnonzero(beside[:, 1])
    share = np.full(len(at), len(at) / max(int((judged[:, 1] > 0).sum()), 1))
    likely = share if probability is None else probability.reindex(pd.Index(contexts)[at]).to_numpy(float)
    return Sums(judged, at, human_sums[at], beside[at], likely)


def _two(place: NDArray[np.intp], value: Floats, size: int) -> Floats:
    """Return sum and count by place."""
    return np.column_stack([np.bincount(place, value, size), np.bincount(place, minlength=size)]).astype(float)
