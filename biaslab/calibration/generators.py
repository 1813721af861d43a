"""Populations drawn directly from a statistical model with features of real data, instead of from a simulated judge.

They share no code with `biaslab.SimulatedJudge`, so that an instrument designed with one generator is tested with
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from biaslab.calibration.pair_models import AskedPairs, PairFeatures
from biaslab.calibration.text_models import Draws, OwnTexts, PlainTexts, RejudgedTexts
from biaslab.core.errors import InputError
from biaslab.core.files import declared

_OWN = ("self_preference",)
_EFFECT = {
    "position": 0.4, "verbosity": 0.15, "familiarity": -0.3, "source": 0.5, "consistency": 0.25, "self_preference": 0.5
}  # fmt: skip


@dataclass(frozen=True)
class PopulationModel:
    """A generated population: how its texts and judgements are drawn, and what is missing; neutral by default.

    Parameters
    ----------
    about : str
        Description.
    probes : tuple of str
        Probes whose trials can be drawn.
    texts : PlainTexts, RejudgedTexts, PairFeatures or AskedPairs
        Draws scores and pairs of plain texts; edits, prompts and comparisons of a text with itself; comparisons of
        texts that differ in a feature; or comparisons asked in two ways, for one metric.
    own : OwnTexts
        Draws the trials of self-preference.
    missing : float
        Share of replies that are missing; those that prefer the candidate shown second, or have low scores, are four
        times as likely to be missing.
    twins : int
        How often each context is repeated in a study, with the same requests.
    modes : tuple of str
        Answer modes of the full table: see `biaslab.judges.repetition`.
    guarded : bool
        Whether tests may be withheld, and reject less often, because too little is known of human errors or too much
        is missing. A withheld study has no interval that could miss the truth.
    """

    about: str
    probes: tuple[str, ...] = ("position", "verbosity", "familiarity", "source", "consistency")
    texts: PlainTexts | RejudgedTexts | PairFeatures | AskedPairs = field(default=PlainTexts())
    own: OwnTexts = field(default=OwnTexts())
    missing: float = 0.0
    twins: int = 1
    modes: tuple[str, ...] = ("exact",)
    guarded: bool = False

    @property
    def rare(self) -> bool:
        """Whether differences are rare, so that a valid test may reject less often."""
        texts = self.texts
        return texts.quality > 1 if isinstance(texts, PlainTexts) else isinstance(texts, RejudgedTexts) and texts.sure

    def errs(self, probe: str) -> bool:
        """Check whether human rating error affects a probe's estimates."""
        texts = self.own if probe in _OWN else self.texts
        return isinstance(texts, (PlainTexts, OwnTexts, PairFeatures)) and texts.reliability < 1 and probe != "source"

    def of_quality(self, quality: float) -> PopulationModel:
        """Return the same plain texts with these log odds per standard deviation of quality."""
        return replace(self, texts=replace(self.texts, quality=quality)) if isinstance(self.texts, PlainTexts) else self

    @property
    def without_errors(self) -> PopulationModel:
        """The same population without human rating error."""
        return replace(self, texts=replace(self.texts, reliability=1.0), own=replace(self.own, reliability=1.0))


_TEXTS = {"plain": PlainTexts, "rejudged": RejudgedTexts, "pair_features": PairFeatures, "asked_pairs": AskedPairs}


def _read() -> dict[str, PopulationModel]:
    """Return the generators that ``generators.toml`` declares."""
    models = declared("biaslab.calibration", "generators.toml")
    return {name: _made(**settings) for name, settings in models.items()}


def _made(texts: dict[str, Any] | None = None, own: dict[str, Any] | None = None, **settings: Any) -> PopulationModel:
    for name in {"probes", "modes"} & set(settings):
        settings[name] = tuple(settings[name])
    if texts is not None:
        settings["texts"] = _TEXTS[texts.pop("kind")](**texts)
    return PopulationModel(own=OwnTexts(**(own or {})), **settings)


#: Generators by name; a probe's own simulated judge is "judge".
GENERATORS = _read()


def find_generator(name: str) -> PopulationModel:
    """Return the generator of a name.

    Raises
    ------
    InputError
        If the name is unknown; the message lists the known ones.

    Examples
    --------
    >>> find_generator("noisy_humans").texts.reliability
    0.6
    """
    if name not in GENERATORS:
        raise InputError("generator", name, f"one of judge, {', '.join(GENERATORS)}")
    return GENERATORS[name]


def generate(
    generator: PopulationModel,
    probe: str,
    contexts: int,
    planted: bool,
    k: int | None = None,
    seed: Sequence[int] = (0,),
) -> pd.DataFrame:
    """Draw the trials of a population.

    Parameters
    ----------
    generator : Generator
        The population.
    probe : str
        The probe whose trials to draw: one of ``generator.probes``.
    contexts : int
        Number of contexts.
    planted : bool
        Whether the judge is biased.
    k : int, optional
        Samples per answer; by default answers are exact. 1 is a single text.
    seed : sequence of int
        Seed of all random numbers. Two calls that differ only in `k` have the same judge.

    Returns
    -------
    pandas.DataFrame
        One row per judgement, with the columns that the probe reads.

    Examples
    --------
    >>> trials = generate(GENERATORS["few_flips"], "position", 2, planted=False)
    >>> trials["context_id"].tolist() == [0] * 6 + [1] * 6
    True
    """
    texts, draws = generator.texts, Draws.seeded(k, seed)
    if probe in _OWN:
        trials = generator.own.draw(contexts, _EFFECT[probe] * planted, draws)
    elif isinstance(texts, PlainTexts):
        trials = texts.draw(probe, contexts, _EFFECT[probe] * planted, draws)
    elif isinstance(texts, AskedPairs):
        trials = texts.draw(contexts, planted, draws)
    else:
        trials = texts.draw(probe, contexts, planted, draws)
    trials = trials.assign(probe=probe, judge="generated", dataset="generated", attribute="quality")
    return _lose(trials, generator.missing, draws.answers).assign(tokens=1, key=np.arange(len(trials)))


def _lose(trials: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Drop a share of the replies, low ones four times as often as others."""
    low = trials["low"].to_numpy(bool)
    others = share / (1 + 3 * low.mean())
    lost = rng.uniform(size=len(trials)) < np.where(low, 4 * others, others)
    trials = trials.drop(columns="low")
    if not lost.any():
        return trials
    return trials.assign(value=trials["value"].mask(lost), status=np.where(lost, "refused", trials["status"]))
