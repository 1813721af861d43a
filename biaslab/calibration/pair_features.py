"""Simulate comparisons of texts that differ in length or perplexity.

Independent of `biaslab.SimulatedJudge` and of the probes under test: shares no code with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslab.calibration.draws import Draws, places

#: Probes whose trials can be drawn.
PROBES = ("verbosity", "familiarity")
#: Metrics of comparisons; the other metrics of these probes are of scores.
METRICS = ("verbosity_logit", "familiarity_logit", "longer_wins_excess")
#: Planted effects, in log odds per doubling.
_EFFECT = {"verbosity": 0.2, "familiarity": -0.3}
_DOUBLINGS = {"verbosity": 1.0, "familiarity": 0.6}  # standard deviations of log2 words, and of log perplexity
_TEXTS, _MIDDLE = 3, 5.0
_CONTEXT_SD, _TASTE, _NOISE = 0.5, 0.3, 0.3


@dataclass(frozen=True)
class PairFeatures:
    """Parameters of a population of compared texts.

    Parameters
    ----------
    correlation : float
        Correlation of the feature with the true quality.
    reliability : float
        Reliability of the mean human score: variance of the true quality as a share of its variance.
    annotators : int
        Number of ratings per text.
    rated : bool
        Whether individual ratings are known, or only their mean.
    unequal : bool
        Two to five texts per context, instead of three.
    heavy : bool
        Position effects, shared by a context's verdicts, have a t distribution with 3 degrees of freedom instead of a
        normal one.
    """

    correlation: float = 0.0
    reliability: float = 1.0
    annotators: int = 3
    rated: bool = True
    unequal: bool = False
    heavy: bool = False

    def draw(self, probe: str, contexts: int, planted: bool, draws: Draws) -> pd.DataFrame:
        """Draw all pairs of a context's texts in both orders.

        Parameters
        ----------
        probe : {"verbosity", "familiarity"}
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
            With the columns that the probe reads, and ``low``, true if the longer or less likely text loses.

        Examples
        --------
        >>> trials = PairFeatures().draw("verbosity", 2, False, Draws.seeded(None, [0]))
        >>> len(trials), bool((trials["human_gap"] == trials["human"] - trials["opponent_human"]).all())
        (12, True)
        """
        texts = self._texts(probe, contexts, draws)
        both = texts.merge(texts, on="context_id", suffixes=("", "_there"))
        both = both[both["candidate_id"] != both["candidate_id_there"]].reset_index(drop=True)
        shared = draws.effects(contexts, self.heavy)
        bias = _EFFECT[probe] * planted
        apart = (both["doublings"] - both["doublings_there"]).to_numpy(float)
        odds = (both["worth"] - both["worth_there"]).to_numpy(float) + bias * apart
        odds += _CONTEXT_SD * shared[both["context_id"]] + _NOISE * draws.rng.normal(size=len(both))
        value = draws.verdicts(odds)
        others = [name for name in map(str, both) if name.endswith("_there")]
        there = {name: f"opponent_{name.removesuffix('_there')}" for name in others}
        there["candidate_id_there"] = "opponent_id"
        pairs = both.rename(columns=there)
        unknown = [name for name in map(str, pairs) if name.removeprefix("opponent_") in ("worth", "doublings")]
        return pairs.drop(columns=unknown).assign(
            asked="pair",
            template=1,
            scale="",
            human_gap=pairs["human"] - pairs["opponent_human"],
            **draws.answered(value),
            low=np.where(apart > 0, value, 1 - value) < 0.5,
        )

    def _texts(self, probe: str, contexts: int, draws: Draws) -> pd.DataFrame:
        """Return one row per text: its feature, its value to the judge, and its human ratings."""
        sizes = draws.rng.integers(2, 6, contexts) if self.unequal else np.full(contexts, _TEXTS)
        context, place = places(sizes)
        quality, own = draws.rng.normal(size=(2, len(context)))
        feature = self.correlation * quality + np.sqrt(1 - self.correlation**2) * own
        doublings = _MIDDLE + _DOUBLINGS[probe] * feature
        humans = draws.rated(quality, self.reliability, self.annotators, self.rated)
        texts = pd.DataFrame({"context_id": context, "candidate_id": place, "doublings": doublings})
        texts = texts.assign(worth=quality + _TASTE * draws.rng.normal(size=len(texts)), human=humans.pop("human"))
        measured = {"words": 2.0**doublings} if probe == "verbosity" else {"log_perplexity": np.log(2) * doublings}
        return texts.assign(**measured, **humans)
