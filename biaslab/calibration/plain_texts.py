"""Simulate scores, pairs and features of texts from one model of quality.

Independent of `biaslab.SimulatedJudge` and of the probes under test: shares no code with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from biaslab.calibration.draws import ANSWER_SD, Draws, places, written
from biaslab.core.arrays import Codes, Floats

_SMALLEST, _LARGEST = 2, 16  # numbers of candidates, if contexts differ in size
_CONTEXT_SD, _NOISE = 0.5, 0.7


@dataclass(frozen=True)
class PlainTexts:
    """Parameters of a population of judged texts; neutral by default.

    Parameters
    ----------
    heavy : bool
        Effects of contexts have a t distribution with 3 degrees of freedom instead of a normal one.
    sizes : {"equal", "unequal", "informative"}
        Three candidates per context, or 2 to 16; *informative*: contexts with more candidates are also more variable
        and, if a bias is planted, more biased.
    ceiling : float
        Shift of scores, in points.
    quality : float
        Log odds of a pair per standard deviation of quality: if it is high, few pairs flip.
    reliability : float
        Reliability of the mean human score: variance of the true quality as a share of its variance.
    correlation : float
        Correlation of the feature with the true quality.
    unsure : float
        Factor by which the distribution of answers is wider without the source, with the same mean.
    annotators : int
        Number of ratings per text.
    """

    heavy: bool = False
    sizes: Literal["equal", "unequal", "informative"] = "equal"
    ceiling: float = 0.0
    quality: float = 1.0
    reliability: float = 1.0
    correlation: float = 0.0
    unsure: float = 1.0
    annotators: int = 3

    def draw(self, probe: str, contexts: int, bias: float, draws: Draws) -> pd.DataFrame:
        """Draw the trials of a population.

        Parameters
        ----------
        probe : {"position", "consistency", "source", "verbosity", "familiarity"}
            The probe whose trials to draw.
        contexts : int
            Number of contexts.
        bias : float
            The planted bias, in the unit of the probe.
        draws : Draws
            Random numbers, and how the judge answers.

        Returns
        -------
        pandas.DataFrame
            With the columns that the probe reads, and ``low``, true if the first text loses or a score is low.
        """
        drawing = _Drawing(self, self._items(contexts, draws), bias, draws)
        if probe == "position":
            return drawing.pairs()
        if probe == "consistency":
            return drawing.repeated_scores()
        return drawing.with_and_without() if probe == "source" else drawing.feature_scores(probe)

    def _items(self, contexts: int, draws: Draws) -> _Items:
        """Draw the candidates of all contexts."""
        equal = self.sizes == "equal"
        sizes = np.full(contexts, 3) if equal else draws.rng.integers(_SMALLEST, _LARGEST + 1, contexts)
        effect = draws.effects(contexts, self.heavy)
        share = sizes / sizes.mean() if self.sizes == "informative" else np.ones(contexts)
        context, candidate = places(sizes)
        shift = _CONTEXT_SD * effect * share
        quality = draws.rng.normal(size=len(context))
        return _Items(context, candidate, sizes[context], quality, shift[context], share[context])


@dataclass(frozen=True)
class _Items:
    """Candidates of all contexts, one element each: system, quality and context effect."""

    context: Codes
    candidate: Codes
    size: Codes
    quality: Floats
    shift: Floats
    share: Floats  # of the planted bias, 1 on average


@dataclass(frozen=True)
class _Drawing:
    """A population being drawn: its candidates and bias, and random numbers."""

    of: PlainTexts
    items: _Items
    bias: float
    draws: Draws

    def pairs(self) -> pd.DataFrame:
        """Return all ordered pairs; log odds: quality of the first over the second, bias, effect, noise."""
        items = self.items
        first = np.repeat(np.arange(len(items.context)), items.size)
        place = np.arange(len(first)) - np.repeat(np.cumsum(items.size) - items.size, items.size)
        second = first - items.candidate[first] + place
        first, second = first[first != second], second[first != second]
        apart = items.quality[first] - items.quality[second]
        odds = self.of.quality * apart + self.bias * items.share[first] + items.shift[first]
        value = self.draws.verdicts(odds + self.draws.rng.normal(size=len(first)))
        return pd.DataFrame(
            {
                "context_id": items.context[first],
                "candidate_id": items.candidate[first],
                "opponent_id": items.candidate[second],
                "template": 1,
                "human_gap": apart,
                "replicate": 0,
                "value": value,
                "status": "ok",
                "low": value < 0.5,
            }
            | self.draws.sampled
        )

    def feature_scores(self, probe: str) -> pd.DataFrame:
        """Return a score for every candidate, with its length or log perplexity; the judge sees the true quality."""
        items, r = self.items, self.of.correlation
        feature = r * items.quality + np.sqrt(1 - r**2) * self._noise()
        length = 3 + feature if probe == "verbosity" else 3 + 0.35 * feature
        noise = 0.0 if r else _NOISE * self._noise()  # a noisier judge correlates less with everything
        mean = 3 + self.of.ceiling + items.quality + items.shift + noise
        mean += self.bias * items.share * (length - 3) * (1 if probe == "verbosity" else 2)
        frame = self._scored(mean, self.draws).assign(asked="score")
        if probe == "verbosity":
            return frame.assign(words=2.0**length)
        text = frame.assign(asked="candidate", value=length, label_mass=np.nan, samples=np.nan, low=False)
        return pd.concat([frame, text], ignore_index=True)

    def with_and_without(self) -> pd.DataFrame:
        """Return two scores for every candidate; without the source a biased judge perceives quality less well."""
        items, humans = self.items, int(self.draws.rng.integers(2**31))  # the same human scores for both
        parts = []
        for source, seen, wide in (("with", 1.0, 1.0), ("without", 1 - self.bias * items.share, self.of.unsure)):
            mean = 3 + self.of.ceiling + items.shift + seen * items.quality + _NOISE * self._noise()
            part = self._scored(mean, replace(self.draws, rng=np.random.default_rng(humans)), wide * ANSWER_SD)
            parts.append(part.assign(source=source))
        return pd.concat(parts, ignore_index=True)

    def repeated_scores(self) -> pd.DataFrame:
        """Return three samples of each score in two configurations; the bias shifts the second from the first.

        Annotators draw from the distributions of the first configuration, made narrower by the bias.
        """
        centre = 3 + self.of.ceiling + self.items.quality + self.items.shift
        other = centre + 2 * self.bias * self.draws.answers.normal(size=len(centre))
        ratings = written(self.draws.samples(centre, 3, ANSWER_SD * (1 - self.bias)))
        parts = []
        for configuration, mean in (("1-5", centre), ("1-5 joint", other)):
            for replicate, value in enumerate(self.draws.samples(mean, 3).T):
                part = self._frame(value).assign(replicate=replicate, configuration=configuration)
                parts.append(part.assign(ratings=ratings))
        return pd.concat(parts, ignore_index=True).assign(answer="distribution")

    def _noise(self) -> Floats:
        return self.draws.rng.normal(size=len(self.items.quality))

    def _scored(self, mean: Floats, humans: Draws, deviation: float = ANSWER_SD) -> pd.DataFrame:
        """Return a score on 1-5 around a mean, exact or from k samples, with the annotators' scores."""
        of, value = self.of, self.draws.scores(mean, deviation)
        rating = humans.rated(self.items.quality, of.reliability, of.annotators, True)
        return self._frame(value).assign(**rating, **self.draws.answered(value))

    def _frame(self, value: Floats) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "context_id": self.items.context,
                "candidate_id": self.items.candidate,
                "scale": "1-5",
                "human": self.items.quality,
                "replicate": 0,
                "value": value,
                "status": "ok",
                "label_mass": 1.0,
                "samples": np.nan,
                "low": value < np.median(value),
            }
        )
