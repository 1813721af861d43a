"""Models of comparisons: pairs asked in two ways, or of texts that differ in length or perplexity.

Independent of `biaslab.SimulatedJudge` and of the probes under test: shares no code with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from biaslab.calibration.text_models import Draws, places
from biaslab.core.arrays import Floats

Way = Literal["reasons", "temperature", "prompt"]
#: The simulated metric, by what the second way of asking changes.
WAY_METRICS: dict[Way, str] = {
    "reasons": "cot_accuracy_shift",
    "temperature": "temperature_accuracy_shift",
    "prompt": "template_shift",
}
#: Planted effects: the share of quality that reasons remove; log odds of a pair per standard deviation of quality, of
#: which an unbiased judge perceives none; log odds of the candidate shown first.
_WAY_EFFECT: dict[Way, float] = {"reasons": 0.6, "temperature": 0.5, "prompt": 0.7}
_WAY_CONTEXT_SD, _WAY_TASTE, _WAY_NOISE = 0.5, 0.5, 0.5
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
        pairs = self._pairs(contexts, draws)
        effect = _WAY_EFFECT[self.way] * planted
        parts = {"reasons": _reasons, "temperature": _temperatures, "prompt": _prompts}[self.way](pairs, effect, draws)
        drawn = pd.concat(parts, ignore_index=True).drop(columns=["apart", "taste", "shared", "own"])
        return drawn.assign(replicate=0, status="ok", samples=_NONE, low=drawn["value"] < 0.5)

    def _pairs(self, contexts: int, draws: Draws) -> pd.DataFrame:
        """Return one row per ordered pair: true and perceived difference, and the context's position bias.

        ``own`` is the effect of the second way on the context's verdicts.
        """
        context, place = places(draws.rng.integers(2, 6, contexts) if self.unequal else np.full(contexts, _TEXTS))
        quality, taste, error = draws.rng.normal(size=(3, len(context)))
        human = quality + np.sqrt(1 / self.reliability - 1) * error
        texts = {"human_gap": human, "apart": quality, "taste": _WAY_TASTE * taste}
        both = _ordered(pd.DataFrame({"context_id": context, "candidate_id": place, **texts}))
        shared, own = (draws.effects(contexts, self.heavy)[both["context_id"]] for _ in range(2))
        gaps = {name: both[name] - both[f"{name}_there"] for name in texts}
        pairs = both[["context_id", "candidate_id"]].assign(opponent_id=both["candidate_id_there"], human=_NONE, **gaps)
        return pairs.assign(shared=_WAY_CONTEXT_SD * shared, own=own)


def _ordered(texts: pd.DataFrame) -> pd.DataFrame:
    """Return one row per ordered pair of a context's texts; the columns of the second end in ``_there``."""
    both = texts.merge(texts, on="context_id", suffixes=("", "_there"))
    return both[both["candidate_id"] != both["candidate_id_there"]].reset_index(drop=True)


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
    varied = 0.3 * draws.rng.normal(size=pairs["context_id"].nunique())[pairs["context_id"]]
    moved = effect * (1 + 0.5 * pairs["own"]) + varied
    parts = []
    for template, factor, lean in (("base", "base", 0.0), ("system prompt", "system", moved)):
        part = _answered(pairs, _odds(pairs, _SHARP, draws.rng) + lean, draws)
        parts.append(part.assign(template=template, factor=factor, form="pair", scale=None))
    return parts


def _odds(pairs: pd.DataFrame, quality: float | pd.Series, rng: np.random.Generator) -> Floats:
    """Return log odds for the first: quality, taste, the context's position bias, and noise of this way of asking."""
    odds = quality * pairs["apart"] + pairs["taste"] + pairs["shared"]
    return np.asarray(odds + _WAY_NOISE * rng.normal(size=len(pairs)), float)


def _answered(pairs: pd.DataFrame, odds: Floats, draws: Draws) -> pd.DataFrame:
    answer, mass = ("distribution", 1.0) if draws.k is None else ("text", _NONE)
    return pairs.assign(value=draws.verdicts(odds), answer=answer, label_mass=mass)


#: Probes whose trials can be drawn.
FEATURE_PROBES = ("verbosity", "familiarity")
#: Metrics of comparisons; the other metrics of these probes are of scores.
FEATURE_METRICS = ("verbosity_logit", "familiarity_logit", "longer_wins_excess")
#: Planted effects, in log odds per doubling.
_FEATURE_EFFECT = {"verbosity": 0.2, "familiarity": -0.3}
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
        both = _ordered(self._texts(probe, contexts, draws))
        shared = draws.effects(contexts, self.heavy)
        bias = _FEATURE_EFFECT[probe] * planted
        apart = (both["doublings"] - both["doublings_there"]).to_numpy(float)
        odds = (both["worth"] - both["worth_there"]).to_numpy(float) + bias * apart
        odds += _CONTEXT_SD * shared[both["context_id"]] + _NOISE * draws.rng.normal(size=len(both))
        value = draws.verdicts(odds)
        others = [name for name in map(str, both) if name.endswith("_there")]
        there = {name: f"opponent_{name.removesuffix('_there')}" for name in others}
        there["candidate_id_there"] = "opponent_id"
        pairs = both.rename(columns=there)
        unknown = [name for name in map(str, pairs) if name.removeprefix("opponent_") in ("worth", "doublings")]
        return draws.compared(pairs.drop(columns=unknown), value, apart > 0)

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
