"""Draw the common parts of populations: texts of contexts, human ratings, and a judge's verdicts and scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
#: Standard deviation of a text's score about its mean, in points.
ANSWER_SD = 0.7


def places(sizes: Codes) -> tuple[Codes, Codes]:
    """Return the context of each text and its index there, from the number of texts in each context.

    Examples
    --------
    >>> [each.tolist() for each in places(np.array([2, 1]))]
    [[0, 0, 1], [0, 1, 0]]
    """
    context = np.repeat(np.arange(len(sizes)), sizes)
    return context, np.arange(len(context)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def effects(contexts: int, heavy: bool, rng: np.random.Generator) -> Floats:
    """Draw an effect per context: normal, or ``heavy``, a t distribution with 3 degrees of freedom over √3."""
    return rng.standard_t(3, contexts) / np.sqrt(3) if heavy else rng.normal(size=contexts)


def rated(
    quality: Floats, reliability: float, annotators: int, known: bool, rng: np.random.Generator
) -> dict[str, Any]:
    """Draw the columns of human scores: the mean, with a given reliability, and if ``known`` the individual ratings."""
    error = np.sqrt(annotators * (1 / reliability - 1))
    ratings = np.round(3 + quality[:, None] + error * rng.normal(size=(len(quality), annotators)), 6)
    return {"human": ratings.mean(axis=1)} | ({"ratings": written(ratings)} if known else {})


def written(ratings: Floats) -> list[str]:
    """Write the ratings of each text as one text."""
    return [" ".join(map(repr, row)) for row in ratings.tolist()]


def verdicts(odds: Floats, k: int | None, answers: np.random.Generator) -> Floats:
    """Draw verdicts with given log odds: their probability, or its estimate from k samples."""
    p: Floats = expit(odds)
    return p if k is None else answers.binomial(k, p) / k


def samples(mean: Floats, k: int, answers: np.random.Generator, deviation: float = ANSWER_SD) -> Floats:
    """Draw k scores from 1 to 5 about each mean; shape (texts, k)."""
    return np.clip(np.round(mean[:, None] + deviation * answers.normal(size=(len(mean), k))), 1, 5)


def scores(mean: Floats, k: int | None, answers: np.random.Generator, deviation: float = ANSWER_SD) -> Floats:
    """Draw a score about each mean: the mean of a normal score rounded to 1, 2, 3, 4 or 5, or of k samples."""
    if k is not None:
        return np.asarray(samples(mean, k, answers, deviation).mean(axis=1))
    return np.asarray(1 + ndtr((mean[:, None] - np.arange(1.5, 5)) / deviation).sum(axis=1))


def sampled(k: int | None) -> dict[str, float]:
    """Return the columns with the number of samples per answer; a single text (1) is not a share."""
    return {"label_mass": np.nan if k == 1 else 1.0, "samples": np.nan if k is None or k == 1 else float(k)}


def answered(value: Floats, k: int | None) -> dict[str, Any]:
    """Return the columns of answers: exact (None), one text (1), or means of k."""
    answer = "text" if k == 1 else "distribution"
    return {"replicate": 0, "value": value, "status": "ok", "answer": answer} | sampled(k)
