"""Models of judged texts: populations of scores and pairs, of own texts, and of edits and other prompts.

Independent of `biaslab.SimulatedJudge` and of the probes under test: shares no code with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from biaslab.core.arrays import Bools, Codes, Floats

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

    def compared(self, pairs: pd.DataFrame, value: Floats, ahead: Bools) -> pd.DataFrame:
        """Add the columns of verdicts on pairs; ``low`` is true if the text that may be favoured loses."""
        gap, low = pairs["human"] - pairs["opponent_human"], np.where(ahead, value, 1 - value) < 0.5
        return pairs.assign(asked="pair", template=1, scale="", human_gap=gap, **self.answered(value), low=low)


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
        first, place = places(items.size)
        second = first - items.candidate[first] + place
        first, second = first[first != second], second[first != second]
        apart = items.quality[first] - items.quality[second]
        odds = self.of.quality * apart + self.bias * items.share[first] + items.shift[first]
        value = self.draws.verdicts(odds + self.draws.rng.normal(size=len(first)))
        names = {"context_id": items.context[first], "candidate_id": items.candidate[first]}
        answers = {"replicate": 0, "value": value, "status": "ok", "low": value < 0.5, **self.draws.sampled}
        pairs = {"opponent_id": items.candidate[second], "template": 1, "human_gap": apart}
        return pd.DataFrame(names | pairs | answers)

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
        items, answers = self.items, {"replicate": 0, "value": value, "status": "ok", "label_mass": 1.0}
        names = {"context_id": items.context, "candidate_id": items.candidate, "scale": "1-5", "human": items.quality}
        return pd.DataFrame(names | answers | {"samples": np.nan, "low": value < np.median(value)})


#: Systems of a context's texts, the judge's own first.
SYSTEMS = ("own", "another", "a third", "a fourth")
_TEXTS = 3
_OWN_CONTEXT_SD, _OWN_NOISE = 0.5, 0.3


@dataclass(frozen=True)
class OwnTexts:
    """Parameters of a population of judged texts.

    Parameters
    ----------
    better : float
        How much better own texts are than others, in standard deviations.
    reliability : float
        Reliability of the mean human score: variance of the true quality as a share of its variance.
    annotators : int
        Number of ratings per text.
    rated : bool
        Whether individual ratings are known, or only their mean.
    ceiling : float
        Shift of scores, in points.
    unequal : bool
        Two to four texts per context, instead of three.
    heavy : bool
        Effects of contexts, shared by their verdicts, have a t distribution with 3 degrees of freedom instead of a
        normal one.
    """

    better: float = 0.0
    reliability: float = 1.0
    annotators: int = 3
    rated: bool = True
    ceiling: float = 0.0
    unequal: bool = False
    heavy: bool = False

    def draw(self, contexts: int, bias: float, draws: Draws) -> pd.DataFrame:
        """Draw pairs of an own text and another's in both orders, and the score of every text.

        Parameters
        ----------
        contexts : int
            Number of contexts.
        bias : float
            Advantage of own texts: log odds in a pair, and points of a score.
        draws : Draws
            Random numbers, and how the judge answers.

        Returns
        -------
        pandas.DataFrame
            With the columns that `biaslab.probes.SelfPreference` reads, and ``low``, true if the own text loses or a
            score is low.

        Examples
        --------
        >>> trials = OwnTexts(better=1.0).draw(2, 0.0, Draws.seeded(1, [0]))
        >>> trials["opponent_id"].notna().sum(), trials["opponent_id"].isna().sum()
        (np.int64(8), np.int64(6))
        """
        texts = self._texts(contexts, draws)
        population = texts, bias, _OWN_CONTEXT_SD * draws.effects(contexts, self.heavy), draws
        return pd.concat([self._pairs(*population), self._scores(*population)], ignore_index=True)

    def _texts(self, contexts: int, draws: Draws) -> pd.DataFrame:
        """Return one row per text: context, index, system, true quality and human ratings."""
        sizes = draws.rng.integers(2, 5, contexts) if self.unequal else np.full(contexts, _TEXTS)
        context, place = places(sizes)
        quality = draws.rng.normal(size=len(context)) + self.better * (place == 0)
        texts = pd.DataFrame({"context_id": context, "candidate_id": place, "quality": quality})
        humans = draws.rated(quality, self.reliability, self.annotators, self.rated)
        return texts.assign(system=np.array(SYSTEMS, object)[place], **humans)

    def _pairs(self, texts: pd.DataFrame, bias: float, shared: Floats, draws: Draws) -> pd.DataFrame:
        """Return every pair with an own text in both orders; log odds: difference in quality, bias, effect, noise."""
        both = texts.merge(texts, on="context_id", suffixes=("", "_there"))
        one, two = both["candidate_id"], both["candidate_id_there"]
        both = both[(one != two) & ((one == 0) | (two == 0))].reset_index(drop=True)
        first = (both["candidate_id"] == 0).to_numpy()
        sign = np.where(first, 1.0, -1.0)
        odds = both["quality"] - both["quality_there"] + sign * (bias + shared[both["context_id"]])
        value = draws.verdicts(odds.to_numpy(float) + _OWN_NOISE * draws.rng.normal(size=len(both)))
        there = {f"{name}_there": f"opponent_{name}" for name in ("human", "ratings", "system")}
        pairs = both.drop(columns=["quality", "quality_there"])
        pairs = pairs.rename(columns=there | {"candidate_id_there": "opponent_id"})
        return draws.compared(pairs, value, first).assign(own=SYSTEMS[0])

    def _scores(self, texts: pd.DataFrame, bias: float, shared: Floats, draws: Draws) -> pd.DataFrame:
        """Return a score on 1-5 for every text, centred on its quality."""
        own = (texts["candidate_id"] == 0).to_numpy(float)
        mean = 3 + self.ceiling + texts["quality"].to_numpy() + bias * own + shared[texts["context_id"]]
        value = draws.scores(mean + _OWN_NOISE * draws.rng.normal(size=len(texts)))
        scored = texts.drop(columns="quality").assign(asked="score", own=SYSTEMS[0], template="", scale="1-5")
        return scored.assign(**draws.answered(value), low=value < np.median(value))


SHOWN_PROBES = ("edit", "template", "vacuum")
#: Planted effects: points of a score for an edit, or for a prompt; log odds of the candidate shown first.
_SHOWN_EFFECT = {"edit": 0.25, "template": 0.2, "vacuum": 0.45}
_LOGITS = 1.2  # log odds of a pair per point of a score
_VARIANTS = ("unedited", "edited", "null edit")


@dataclass(frozen=True)
class RejudgedTexts:
    """Parameters of a population of judged texts.

    Parameters
    ----------
    ceiling : float
        Shift of scores, in points.
    reliability : float
        Reliability of a human score: variance of the true quality as a share of its variance.
    unequal : bool
        Two to six texts per context, instead of three.
    heavy : bool
        Effects of contexts have a t distribution with 3 degrees of freedom instead of a normal one.
    sure : bool
        The judge hardly errs: scores are whole points, and presentation rarely changes them.
    """

    ceiling: float = 0.0
    reliability: float = 1.0
    unequal: bool = False
    heavy: bool = False
    sure: bool = False

    def draw(self, probe: str, contexts: int, planted: bool, draws: Draws) -> pd.DataFrame:
        """Draw the trials of a population.

        Parameters
        ----------
        probe : {"edit", "template", "vacuum"}
            The probe whose trials to draw.
        contexts : int
            Number of contexts.
        planted : bool
            Whether the judge is biased.
        draws : Draws
            Random numbers, and how the judge answers.

        Returns
        -------
        pandas.DataFrame
            One row per judgement, with the columns that the probe reads.
        """
        of = _ShownDrawing(self, contexts, _SHOWN_EFFECT[probe] * planted, draws)
        shown = {"edit": of.edits, "template": of.prompts, "vacuum": of.nothing}[probe]()
        second = shown["value"] < 0.5 if probe == "vacuum" else False
        return shown.assign(replicate=0, status="ok", low=second)


class _ShownDrawing:
    """Texts of contexts, and their judge."""

    def __init__(self, of: RejudgedTexts, contexts: int, bias: float, draws: Draws) -> None:
        self.of, self.bias, self.draws, self.contexts = of, bias, draws, contexts
        rng = draws.rng
        sizes = rng.integers(2, 7, contexts) if of.unequal else np.full(contexts, 3)
        self.context, self.candidate = places(sizes)
        self.quality = rng.normal(size=len(self.context))
        error = np.sqrt(1 / of.reliability - 1)
        self.human = 3 + self.quality + error * rng.normal(size=len(self.context))
        self.moves = 0.1 if of.sure else 1.0

    def edits(self) -> pd.DataFrame:
        """Return scores and pairs of original, edited and null-edited texts; any edit shifts them to some extent."""
        changed = 0.3 + 0.3 * self._of_contexts()
        gains = {name: self.moves * (changed[self.context] + 0.4 * self._noise()) for name in _VARIANTS[1:]}
        gains["edited"] += self.bias * (1 + 0.5 * self._of_contexts())[self.context]
        gains["unedited"] = np.zeros(len(self.context))
        mean = self._mean()
        scores = [self._scores(mean + gains[name]).assign(variant=name, form="score") for name in _VARIANTS]
        pairs = [self._pair(gains[name], first).assign(variant=name) for name in _VARIANTS for first in (True, False)]
        both = pd.concat([*scores, *pairs], ignore_index=True)
        return both.assign(edit="authority", quality="left", changed=1.0)

    def prompts(self) -> pd.DataFrame:
        """Return scores under one prompt and under another."""
        mean, parts = self._mean(), []
        moved = self.moves * (0.4 * self._of_contexts()[self.context] + 0.4 * self._noise()) + self.bias
        for template, factor, values in (("base", "base", mean), ("system prompt", "system", mean + moved)):
            parts.append(self._scores(values).assign(template=template, factor=factor, form="score"))
        return pd.concat(parts, ignore_index=True)

    def nothing(self) -> pd.DataFrame:
        """Return comparisons of texts with themselves, with a position bias that varies by context."""
        odds = self.bias + 0.6 * self._of_contexts()[self.context] + 0.7 * self._noise()
        same = self._rows(self.candidate, self.candidate, self._verdicts(odds))
        return same.assign(asked="pair", nothing="identical", template=1)

    def _of_contexts(self) -> Floats:
        return self.draws.effects(self.contexts, self.of.heavy)

    def _noise(self) -> Floats:
        return self.draws.rng.normal(size=len(self.context))

    def _mean(self) -> Floats:
        shared, own = 0.5 * self._of_contexts()[self.context], (0.0 if self.of.sure else 0.5) * self._noise()
        return np.asarray(3 + self.of.ceiling + self.quality + shared + own)

    def _scores(self, mean: Floats) -> pd.DataFrame:
        """Return scores from 1 to 5: rounded around a mean, the expected value, or the mean of samples."""
        value = self.draws.scores(mean, 0.02 if self.of.sure else ANSWER_SD)
        return self._rows(self.candidate, None, value).assign(human=self.human, scale="1-5")

    def _pair(self, gain: Floats, first: bool) -> pd.DataFrame:
        """Return comparisons, in one order, of each edited text with the next, unedited text of its context."""
        one = np.flatnonzero(np.r_[self.context[1:] == self.context[:-1], False])
        sharp, noise = (8.0, 0.3) if self.of.sure else (1.0, 0.7)
        odds = sharp * (self.quality[one] - self.quality[one + 1]) + _LOGITS * gain[one]
        odds = odds + (0.3 if first else -0.3) + noise * self.draws.rng.normal(size=len(one))
        sides = (one, one + 1) if first else (one + 1, one)
        shown, other = (self.candidate[side] for side in sides)
        rows = self._rows(shown, other, self._verdicts(odds if first else -odds), one)
        gap = self.human[sides[0]] - self.human[sides[1]]
        return rows.assign(form="pair", edited_first=float(first), human_gap=gap)

    def _verdicts(self, odds: Floats) -> Floats:
        return self.draws.verdicts(odds)

    def _rows(self, one: Codes, two: Codes | None, value: Floats, of: Codes | None = None) -> pd.DataFrame:
        context = self.context if of is None else self.context[of]
        names = {"context_id": context, "candidate_id": one, "opponent_id": None if two is None else two}
        empty = {"human": np.nan, "human_gap": np.nan, "edited_first": np.nan, "scale": None}
        answer = "text" if self.draws.k == 1 else "distribution"
        return pd.DataFrame({**names, **empty, **self.draws.sampled, "answer": answer, "value": value})
