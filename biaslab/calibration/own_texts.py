"""Simulate judgements of a judge's own texts and of others' texts.

Independent of `biaslab.SimulatedJudge` and of the probe under test: shares no code with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslab.calibration.draws import Draws, places
from biaslab.core.arrays import Floats

#: Systems of a context's texts, the judge's own first.
SYSTEMS = ("own", "another", "a third", "a fourth")
_TEXTS = 3
_CONTEXT_SD, _NOISE = 0.5, 0.3


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
        population = texts, bias, _CONTEXT_SD * draws.effects(contexts, self.heavy), draws
        return pd.concat([self._pairs(*population), self._scores(*population)], ignore_index=True)

    def _texts(self, contexts: int, draws: Draws) -> pd.DataFrame:
        """Return one row per text: context, index, system, true quality and human ratings."""
        sizes = draws.rng.integers(2, 5, contexts) if self.unequal else np.full(contexts, _TEXTS)
        context, place = places(sizes)
        quality = draws.rng.normal(size=len(context)) + self.better * (place == 0)
        texts = pd.DataFrame({"context_id": context, "candidate_id": place, "quality": quality})
        humans = draws.rated(quality, self.reliability, self.annotators, self.rated)
        return texts.assign(system=np.array(SYSTEMS, object)[place], **humans)

    def _pairs(
        self,
        texts: pd.DataFrame,
        bias: float,
        shared: Floats,
        draws: Draws,
    ) -> pd.DataFrame:
        """Return every pair with an own text in both orders; log odds: difference in quality, bias, effect, noise."""
        both = texts.merge(texts, on="context_id", suffixes=("", "_there"))
        one, two = both["candidate_id"], both["candidate_id_there"]
        both = both[(one != two) & ((one == 0) | (two == 0))].reset_index(drop=True)
        first = (both["candidate_id"] == 0).to_numpy()
        sign = np.where(first, 1.0, -1.0)
        odds = both["quality"] - both["quality_there"] + sign * (bias + shared[both["context_id"]])
        value = draws.verdicts(odds.to_numpy(float) + _NOISE * draws.rng.normal(size=len(both)))
        there = {f"{name}_there": f"opponent_{name}" for name in ("human", "ratings", "system")}
        pairs = both.drop(columns=["quality", "quality_there"])
        pairs = pairs.rename(columns=there | {"candidate_id_there": "opponent_id"})
        return pairs.assign(
            asked="pair",
            own=SYSTEMS[0],
            template=1,
            scale="",
            human_gap=pairs["human"] - pairs["opponent_human"],
            **draws.answered(value),
            low=np.where(first, value, 1 - value) < 0.5,
        )

    def _scores(
        self,
        texts: pd.DataFrame,
        bias: float,
        shared: Floats,
        draws: Draws,
    ) -> pd.DataFrame:
        """Return a score on 1-5 for every text, centred on its quality."""
        own = (texts["candidate_id"] == 0).to_numpy(float)
        mean = 3 + self.ceiling + texts["quality"].to_numpy() + bias * own + shared[texts["context_id"]]
        value = draws.scores(mean + _NOISE * draws.rng.normal(size=len(texts)))
        return texts.drop(columns="quality").assign(
            asked="score",
            own=SYSTEMS[0],
            template="",
            scale="1-5",
            **draws.answered(value),
            low=value < np.median(value),
        )
