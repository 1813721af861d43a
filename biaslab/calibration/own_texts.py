"""Judgements of a judge's own texts beside others', drawn from a model.

Shares no code with `biaslab.SimulatedJudge` and none with the probe that reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtr

Floats = NDArray[np.float64]
#: Systems of a context's texts, the judge's own first.
SYSTEMS = ("own", "another", "a third", "a fourth")
_TEXTS = 3
_ANSWER_SD, _CONTEXT_SD, _NOISE = 0.7, 0.5, 0.3


@dataclass(frozen=True)
class OwnTexts:
    """Parameters of a population of judged texts.

    Parameters
    ----------
    better : float
        By how many standard deviations own texts are better than others.
    reliability : float
        Of the mean human score: variance of the true quality as a share of its variance.
    annotators : int
        Ratings of each text.
    rated : bool
        Whether single ratings are known, or their mean alone.
    ceiling : float
        By how many points scores are higher.
    unequal : bool
        Two to four texts a context, or three.
    heavy : bool
        Effects of contexts, which their verdicts share, have a t distribution with 3 degrees of freedom, not a normal.
    """

    better: float = 0.0
    reliability: float = 1.0
    annotators: int = 3
    rated: bool = True
    ceiling: float = 0.0
    unequal: bool = False
    heavy: bool = False

    def draw(
        self, contexts: int, bias: float, k: int | None, rng: np.random.Generator, answers: np.random.Generator
    ) -> pd.DataFrame:
        """Draw pairs of an own text and another in both orders, and the score of every text.

        Parameters
        ----------
        contexts : int
            How many.
        bias : float
            What own texts gain: log odds in a pair, and points of a score.
        k : int, optional
            Samples of an answer; exact answers where nothing is said. 1 is one text.
        rng, answers : numpy.random.Generator
            Of texts and humans, and of what judges answer once these are drawn.

        Returns
        -------
        pandas.DataFrame
            With the columns that `biaslab.probes.SelfPreference` reads, and ``low``, where the own text loses or a
            score is low.

        Examples
        --------
        >>> one, two = np.random.default_rng(0), np.random.default_rng(1)
        >>> trials = OwnTexts(better=1.0).draw(2, 0.0, 1, one, two)
        >>> trials["opponent_id"].notna().sum(), trials["opponent_id"].isna().sum()
        (np.int64(8), np.int64(6))
        """
        texts = self._texts(contexts, rng)
        shared = self._shared(contexts, rng)
        return pd.concat(
            [self._pairs(texts, bias, k, shared, rng, answers), self._scores(texts, bias, k, shared, rng, answers)],
            ignore_index=True,
        )

    def _shared(self, contexts: int, rng: np.random.Generator) -> Floats:
        effect = rng.standard_t(3, contexts) / np.sqrt(3) if self.heavy else rng.normal(size=contexts)
        return np.asarray(_CONTEXT_SD * effect, float)

    def _texts(self, contexts: int, rng: np.random.Generator) -> pd.DataFrame:
        """Return one row a text: context, place, system, true quality, and what humans say of it."""
        sizes = rng.integers(2, 5, contexts) if self.unequal else np.full(contexts, _TEXTS)
        context = np.repeat(np.arange(contexts), sizes)
        place = np.arange(len(context)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        quality = rng.normal(size=len(context)) + self.better * (place == 0)
        error = np.sqrt(self.annotators * (1 / self.reliability - 1))
        ratings = np.round(3 + quality[:, None] + error * rng.normal(size=(len(context), self.annotators)), 6)
        texts = pd.DataFrame({"context_id": context, "candidate_id": place, "quality": quality})
        texts = texts.assign(system=np.array(SYSTEMS, object)[place], human=ratings.mean(axis=1))
        if not self.rated:
            return texts
        return texts.assign(ratings=[" ".join(map(repr, row)) for row in ratings.tolist()])

    def _pairs(
        self,
        texts: pd.DataFrame,
        bias: float,
        k: int | None,
        shared: Floats,
        rng: np.random.Generator,
        answers: np.random.Generator,
    ) -> pd.DataFrame:
        """Return every pair with an own text in both orders; log odds: difference in quality, bias, effect, noise."""
        both = texts.merge(texts, on="context_id", suffixes=("", "_there"))
        one, two = both["candidate_id"], both["candidate_id_there"]
        both = both[(one != two) & ((one == 0) | (two == 0))].reset_index(drop=True)
        first = (both["candidate_id"] == 0).to_numpy()
        sign = np.where(first, 1.0, -1.0)
        odds = both["quality"] - both["quality_there"] + sign * (bias + shared[both["context_id"]])
        p = expit(odds.to_numpy(float) + _NOISE * rng.normal(size=len(both)))
        value = p if k is None else answers.binomial(k, p) / k
        there = {f"{name}_there": f"opponent_{name}" for name in ("human", "ratings", "system")}
        pairs = both.drop(columns=["quality", "quality_there"])
        pairs = pairs.rename(columns=there | {"candidate_id_there": "opponent_id"})
        return pairs.assign(
            asked="pair",
            own=SYSTEMS[0],
            template=1,
            scale="",
            human_gap=pairs["human"] - pairs["opponent_human"],
            **_answered(value, k),
            low=np.where(first, value, 1 - value) < 0.5,
        )

    def _scores(
        self,
        texts: pd.DataFrame,
        bias: float,
        k: int | None,
        shared: Floats,
        rng: np.random.Generator,
        answers: np.random.Generator,
    ) -> pd.DataFrame:
        """Return a score on 1-5 of every text, about its quality."""
        own = (texts["candidate_id"] == 0).to_numpy(float)
        mean = 3 + self.ceiling + texts["quality"].to_numpy() + bias * own + shared[texts["context_id"]]
        mean = mean + _NOISE * rng.normal(size=len(texts))
        value = 1 + ndtr((mean[:, None] - np.arange(1.5, 5)) / _ANSWER_SD).sum(axis=1)
        if k is not None:
            drawn = mean[:, None] + _ANSWER_SD * answers.normal(size=(len(mean), k))
            value = np.clip(np.round(drawn), 1, 5).mean(axis=1)
        return texts.drop(columns="quality").assign(
            asked="score",
            own=SYSTEMS[0],
            template="",
            scale="1-5",
            **_answered(value, k),
            low=value < np.median(value),
        )


def _answered(value: Floats, k: int | None) -> dict[str, Any]:
    """Return the columns of answers: exact (None), one text (1), or means of k."""
    return {
        "replicate": 0,
        "value": value,
        "status": "ok",
        "answer": "text" if k == 1 else "distribution",
        "label_mass": np.nan if k == 1 else 1.0,
        "samples": np.nan if k is None or k == 1 else float(k),
    }
