"""Draw the common parts of populations: texts of contexts, human ratings, and a judge's verdicts and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit, ndtr

from biaslab.core.arrays import Codes, Floats

#: Standard deviation of a text's score around its mean, in points.
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


def written(ratings: Floats) -> list[str]:
    """Format the ratings of each text as one string."""
    return [" ".join(map(repr, row)) for row in ratings.tolist()]


@dataclass(frozen=True)
class Draws:
    """Random numbers of a population, and how its judge answers.

    Parameters
    ----------
    k : int, optional
        Samples per answer; None for exact answers. 1 is a single text.
    rng, answers : numpy.random.Generator
        Random numbers for texts, humans and the judge, and for its answers given these.
    """

    k: int | None
    rng: np.random.Generator
    answers: np.random.Generator

    @classmethod
    def seeded(cls, k: int | None, seed: Sequence[int]) -> Self:
        """Return the draws for a seed; two that differ only in `k` have the same judge."""
        return cls(k, np.random.default_rng([*seed, 0]), np.random.default_rng([*seed, 1]))

    def effects(self, contexts: int, heavy: bool) -> Floats:
        """Draw an effect per context: normal, or ``heavy``, a t distribution with 3 degrees of freedom over √3."""
        return self.rng.standard_t(3, contexts) / np.sqrt(3) if heavy else self.rng.normal(size=contexts)

    def rated(self, quality: Floats, reliability: float, annotators: int, known: bool) -> dict[str, Any]:
        """Draw the columns of human scores: a mean of given reliability and, if ``known``, the individual ratings."""
        error = np.sqrt(annotators * (1 / reliability - 1))
        ratings = np.round(3 + quality[:, None] + error * self.rng.normal(size=(len(quality), annotators)), 6)
        return {"human": ratings.mean(axis=1)} | ({"ratings": written(ratings)} if known else {})

    def verdicts(self, odds: Floats) -> Floats:
        """Draw verdicts with given log odds: their probability, or its estimate from k samples."""
        p: Floats = expit(odds)
        return p if self.k is None else self.answers.binomial(self.k, p) / self.k

    def samples(self, mean: Floats, k: int, deviation: float = ANSWER_SD) -> Floats:
        """Draw k scores from 1 to 5 about each mean; shape (texts, k)."""
        return np.clip(np.round(mean[:, None] + deviation * self.answers.normal(size=(len(mean), k))), 1, 5)

    def scores(self, mean: Floats, deviation: float = ANSWER_SD) -> Floats:
        """Draw a score about each mean: the mean of a normal score rounded to 1, 2, 3, 4 or 5, or of k samples."""
        if self.k is not None:
            return np.asarray(self.samples(mean, self.k, deviation).mean(axis=1))
        return np.asarray(1 + ndtr((mean[:, None] - np.arange(1.5, 5)) / deviation).sum(axis=1))

    @property
    def sampled(self) -> dict[str, Any]:
        """Columns for the number of samples behind an answer; a single text (1) is not a share."""
        few = self.k is None or self.k == 1
        return {"label_mass": np.nan if self.k == 1 else 1.0, "samples": np.nan if few else float(self.k or 0)}

    def answered(self, value: Floats) -> dict[str, Any]:
        """Return the columns of answers: exact (None), one text (1), or means of k."""
        answer = "text" if self.k == 1 else "distribution"
        return {"replicate": 0, "value": value, "status": "ok", "answer": answer} | self.sampled
