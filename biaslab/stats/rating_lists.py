"""Read individual human ratings from lists in a column of text."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import TrialsError

_COLUMNS = ("ratings", "annotators")
_ROUNDED = 1e-5  # maximum distance of a mean score from its ratings, as a share of the largest sum


def read_ratings(frame: pd.DataFrame, human: Floats) -> pd.DataFrame:
    """Return one row per rating: the number of its ``item``, the ``annotator`` and the ``score``.

    Many items have the same ratings by the same annotators, so each combination is parsed once.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per item: ``ratings`` and ``annotators``, separated by spaces; both may be missing.
    human : numpy.ndarray, shape (items,)
        The mean human score of each item.

    Raises
    ------
    TrialsError
        If an item has more or fewer annotators than ratings, or the mean of its ratings is not its human score.

    Examples
    --------
    >>> read_ratings(pd.DataFrame({"ratings": ["1 3", "", "2"]}), np.array([2.0, 1, 2])).to_numpy().tolist()
    [[0, '0', 1.0], [0, '1', 3.0], [2, '0', 2.0]]
    """
    texts = [frame[name].fillna("").astype(str) if name in frame else [""] * len(frame) for name in _COLUMNS]
    (ratings, rated), (names, named) = (pd.factorize(np.asarray(column, object)) for column in texts)
    distinct, which = np.unique(ratings * max(len(named), 1) + names, return_inverse=True)
    parsed = [_parse(rated[code // len(named)], named[code % len(named)]) for code in distinct]
    lengths = np.array([len(scores) for scores, _ in parsed], np.intp)
    counts, starts = lengths[which], (np.cumsum(lengths) - lengths)[which]
    item = np.repeat(np.arange(len(frame)), counts)
    at = np.arange(len(item)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    score = np.array([float(score) for scores, _ in parsed for score in scores])[at]
    annotator = np.array([name for _, who in parsed for name in who], object)[at]
    sums = np.bincount(item, score, len(frame))
    if (np.abs(sums - counts * human)[counts > 0] > _ROUNDED * np.abs(sums).max(initial=1.0)).any():
        raise TrialsError("column 'ratings'", "ratings whose mean is not the human score", "all ratings of the item")
    return pd.DataFrame({"item": item, "annotator": annotator, "score": score})


def _parse(ratings: str, annotators: str) -> tuple[list[str], list[str]]:
    """Return an item's scores and annotators; without annotators, the position in the list identifies them."""
    scores = ratings.split()
    names = annotators.split() or [str(position) for position in range(len(scores))]
    if len(names) != len(scores):
        raise TrialsError(
            "column 'annotators'", "a different number of annotators than ratings", "one annotator per rating"
        )
    return scores, names
