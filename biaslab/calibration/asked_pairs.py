"""Simulate comparisons asked in two ways: with a rationale, at another temperature, with another prompt.

Independent of `biaslab.SimulatedJudge` and of the probes under test: shares no code with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from biaslab.calibration.draws import Draws
from biaslab.core.arrays import Floats

Way = Literal["reasons", "temperature", "prompt"]
#: The simulated metric, by what the second way of asking changes.
METRICS: dict[Way, str] = {
    "reasons": "cot_accuracy_shift",
    "temperature": "temperature_accuracy_shift",
    "prompt": "template_shift",
}
#: Planted effects: the share of quality that reasons remove; log odds of a pair per standard deviation of quality, of
#: which an unbiased judge perceives none; log odds of the candidate shown first.
_EFFECT: dict[Way, float] = {"reasons": 0.6, "temperature": 0.5, "prompt": 0.7}
_CONTEXT_SD, _TASTE, _NOISE = 0.5, 0.5, 0.5
_SHARP = 1.5  # log odds of a pair per standard deviation of quality
_NONE = float("nan")


@dataclass(frozen=True)
class AskedPairs:
    """Parameters of a population of pairs compared in two ways.

    Parameters
    ----------
    way : {"reasons", "temperature", "prompt"}
        What the second way of asking changes.
    reliability : float
        Reliability of a human score: variance of the true quality as a share of its variance.
    unequal : bool
        Two to five texts per context, instead of three.
    heavy : bool
        Effects of contexts have a t distribution with 3 degrees of freedom instead of a normal one.
    """

    way: Way
    reliability: float = 1.0
    unequal: bool = False
    heavy: bool = False

    def draw(self, contexts: int, planted: bool, draws: Draws) -> pd.DataFrame:
        """Draw all pairs of a context's texts in both orders, asked in both ways.

        Parameters
        ----------
        contexts : int
            Number of contexts.
        planted : bool
            Whether there is a difference between the two ways.
        draws : Draws
            Random numbers, and how the judge answers.

        Returns
        -------
        pandas.DataFrame
            With the columns that the probe reads, and ``low``, true if the candidate shown first loses.

        Examples
        --------
        >>> trials = AskedPairs("reasons").draw(2, False, Draws.seeded(None, [0]))
        >>> trials.groupby("cot")["answer"].agg(["first", "size"]).to_numpy().tolist()
        [['text', 12], ['distribution', 12]]
        """
        pairs = self._pairs(contexts, draws.rng)
        effect = _EFFECT[self.way] * planted
        parts = {"reasons": _reasons, "temperature": _temperatures, "prompt": _prompts}[self.way](pairs, effect, draws)
        drawn = pd.concat(parts, ignore_index=True).drop(columns=["apart", "taste", "shared", "own"])
        return drawn.assign(replicate=0, status="ok", samples=_NONE, low=drawn["value"] < 0.5)

    def _pairs(self, contexts: int, rng: np.random.Generator) -> pd.DataFrame:
        """Return one row per ordered pair: true and perceived difference, and the context's position bias.

        ``own`` is the effect of the second way on the context's verdicts.
        """
        sizes = rng.integers(2, 6, contexts) if self.unequal else np.full(contexts, 3)
        context = np.repeat(np.arange(contexts), sizes)
        place = np.arange(len(context)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        quality, taste, error = rng.normal(size=(3, len(context)))
        human = quality + np.sqrt(1 / self.reliability - 1) * error
        texts = pd.DataFrame({"context_id": context, "candidate_id": place, "q": quality, "t": taste, "h": human})
        both = texts.merge(texts, on="context_id", suffixes=("", "_there"))
        both = both[both["candidate_id"] != both["candidate_id_there"]].reset_index(drop=True)
        shared, own = (rng.standard_t(3, (2, contexts)) / np.sqrt(3)) if self.heavy else rng.normal(size=(2, contexts))
        at = both["context_id"].to_numpy()
        return pd.DataFrame(
            {
                "context_id": at,
                "candidate_id": both["candidate_id"],
                "opponent_id": both["candidate_id_there"],
                "human": _NONE,
                "human_gap": both["h"] - both["h_there"],
                "apart": both["q"] - both["q_there"],
                "taste": _TASTE * (both["t"] - both["t_there"]),
                "shared": _CONTEXT_SD * shared[at],
                "own": own[at],
            }
        )


def _reasons(pairs: pd.DataFrame, effect: float, draws: Draws) -> list[pd.DataFrame]:
    """Return verdicts without and with a rationale, which weakens quality by a context-specific amount."""
    seen = np.clip(1 - effect * (1 + 0.5 * pairs["own"]), 0, 1) if effect else 1.0
    parts = []
    for cot, quality, samples in (("no CoT", 1.0, draws), ("CoT", seen, replace(draws, k=1))):
        part = _answered(pairs, _odds(pairs, _SHARP * quality, draws.rng), samples)
        parts.append(part.assign(cot=cot, temperature=_NONE if samples.k is None else 1.0, label=_NONE, scale="pairs"))
    return parts


def _temperatures(pairs: pd.DataFrame, effect: float, draws: Draws) -> list[pd.DataFrame]:
    """Return probabilities, or texts at temperatures 0 and 1."""
    odds = _odds(pairs, effect, draws.rng)
    drawn = _answered(pairs, odds, draws).assign(cot="no CoT", label=_NONE, scale="pairs", temperature=_NONE)
    if draws.k is None:
        return [drawn]
    return [drawn.assign(temperature=0.0, value=(odds > 0).astype(float)), drawn.assign(temperature=1.0)]


def _prompts(pairs: pd.DataFrame, effect: float, draws: Draws) -> list[pd.DataFrame]:
    """Return verdicts under one prompt and under another with a stronger preference for the first."""
    moved = (
        effect * (1 + 0.5 * pairs["own"])
        + 0.3 * draws.rng.normal(size=pairs["context_id"].nunique())[pairs["context_id"]]
    )
    parts = []
    for template, factor, lean in (("base", "base", 0.0), ("system prompt", "system", moved)):
        part = _answered(pairs, _odds(pairs, _SHARP, draws.rng) + lean, draws)
        parts.append(part.assign(template=template, factor=factor, form="pair", scale=None))
    return parts


def _odds(pairs: pd.DataFrame, quality: float | pd.Series, rng: np.random.Generator) -> Floats:
    """Return log odds for the first: quality, taste, the context's position bias, and noise of this way of asking."""
    odds = quality * pairs["apart"] + pairs["taste"] + pairs["shared"]
    return np.asarray(odds + _NOISE * rng.normal(size=len(pairs)), float)


def _answered(pairs: pd.DataFrame, odds: Floats, draws: Draws) -> pd.DataFrame:
    answer, mass = ("distribution", 1.0) if draws.k is None else ("text", _NONE)
    return pairs.assign(value=draws.verdicts(odds), answer=answer, label_mass=mass)
