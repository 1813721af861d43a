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

from biaslab.calibration.pair_models import FEATURE_PROBES as COMPARED, AskedPairs, PairFeatures, Way
from biaslab.calibration.text_models import SHOWN_PROBES as SHOWN, Draws, OwnTexts, PlainTexts, RejudgedTexts
from biaslab.core.errors import InputError

_PAIRS, _FEATURES, _RATED = ("position",), ("verbosity", "familiarity"), ("verbosity", "familiarity", "source")
_SCORES = (*_RATED, "consistency")
_OWN = ("self_preference",)
_BOTH = ("exact", "text")
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
    probes: tuple[str, ...] = (*_PAIRS, *_SCORES)
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


_WAYS: tuple[tuple[Way, str, str], ...] = (
    ("reasons", "sweep", "with and without reasons"),
    ("temperature", "sweep", "at two temperatures"),
    ("prompt", "template", "by two prompts"),
)
_KINDS: dict[str, dict[str, Any]] = {"": {}, "_clustered": {"unequal": True, "heavy": True, "reliability": 0.6}}
_CLUSTERED = "two to five texts per context, effects of contexts with heavy tails, human scores of reliability .6"
#: Pairs asked in two ways, and the same with more variable contexts.
_ASKED = {
    f"asked_{way}{name}": PopulationModel(
        f"pairs, {words}" if not name else f"the same, {_CLUSTERED}", (probe,), AskedPairs(way, **settings), modes=_BOTH
    )
    for way, probe, words in _WAYS
    for name, settings in _KINDS.items()
}


def _noisy(correlation: float) -> PopulationModel:
    about = f"human scores of reliability .6, feature correlated {correlation:.1g} with quality".replace("0.", ".")
    probes, texts = (_RATED if correlation > 0 else _FEATURES), PlainTexts(reliability=0.6, correlation=correlation)
    return PopulationModel(about, probes, texts, guarded=True)


def _own(about: str, modes: tuple[str, ...] = _BOTH, **texts: Any) -> PopulationModel:
    return PopulationModel(about, _OWN, own=OwnTexts(**texts), modes=modes, guarded=True)


def _compared(about: str, modes: tuple[str, ...] = _BOTH, **texts: Any) -> PopulationModel:
    return PopulationModel(about, COMPARED, PairFeatures(**texts), modes=modes, guarded=True)


def _shown(
    about: str, probes: tuple[str, ...] = SHOWN, modes: tuple[str, ...] = ("exact",), missing: float = 0.0, **texts: Any
) -> PopulationModel:
    return PopulationModel(about, probes, RejudgedTexts(**texts), missing=missing, modes=modes)


_LOST = "% of replies are missing, not at random"
#: Generators by name; a probe's own simulated judge is "judge".
GENERATORS = {
    "normal": PopulationModel("normal effects of contexts"),
    "t3": PopulationModel(
        "effects of contexts from a t distribution with 3 degrees of freedom", texts=PlainTexts(heavy=True)
    ),
    "sizes": PopulationModel("2 to 16 candidates per context", texts=PlainTexts(sizes="unequal")),
    "informative_sizes": PopulationModel(
        "2 to 16 candidates per context, with a larger effect if there are more",
        (*_PAIRS, *_RATED),
        PlainTexts(sizes="informative"),
    ),
    "ceiling": PopulationModel("scores at the top of the scale", _SCORES, PlainTexts(ceiling=1.5)),
    "few_flips": PopulationModel("about 8 % of pairs flip", _PAIRS, PlainTexts(quality=4.7)),
    "noisy_humans": _noisy(0.5),
    "noisy_humans_negative": _noisy(-0.5),
    "less_sure": PopulationModel(
        "answers that vary three times as much without the source", ("source",), PlainTexts(unsure=3.0)
    ),
    "missing_10": PopulationModel(f"10 {_LOST}", _PAIRS, missing=0.1),
    "missing_20": PopulationModel(f"20 {_LOST}", _PAIRS, missing=0.2),
    "repeated": PopulationModel("every context occurs twice in a study", twins=2),
    "noisy_humans_two": PopulationModel(
        "human scores of reliability .4 by two annotators, length correlated .7 with quality",
        ("verbosity",),
        PlainTexts(reliability=0.4, correlation=0.7, annotators=2),
        guarded=True,
    ),
    "own_better": _own(
        "own texts better by one SD, human scores of reliability .6 by three annotators", reliability=0.6, better=1.0
    ),
    "own_better_mean": _own(
        "the same, of which only the mean human score is known", ("text",), reliability=0.6, better=1.0, rated=False
    ),
    "own_better_ceiling": _own(
        "own texts better by one SD, scores at the top of the scale", ("exact",), better=1.0, ceiling=1.0
    ),
    "own_unequal": _own(
        "two to four texts per context, whose verdicts share an effect with heavy tails", heavy=True, unequal=True
    ),
    "missing_15": PopulationModel(f"15 {_LOST}", (*_PAIRS, "verbosity", *_OWN), missing=0.15, modes=_BOTH),
    "shown": _shown("texts shown differently: edited, under another prompt, compared with themselves", modes=_BOTH),
    "shown_ceiling": _shown("the same, scores at the top of the scale", SHOWN[:2], ceiling=1.5),
    "shown_clustered": _shown(
        "the same, 2 to 6 texts per context, effects of contexts from a t distribution with 3 degrees of freedom, "
        "human scores of reliability .5",
        unequal=True,
        heavy=True,
        reliability=0.5,
    ),
    "shown_missing": _shown(f"a text compared with itself, 15 {_LOST}", SHOWN[2:], _BOTH, missing=0.15),
    "shown_sure": _shown("the same, a confident judge: nearly all differences are 0", SHOWN[:2], sure=True),
    "compared": _compared("comparisons of texts that differ in length or perplexity"),
    "compared_unequal": _compared(
        "the same, two to five texts per context, whose verdicts share an effect with heavy tails",
        unequal=True,
        heavy=True,
    ),
    "compared_noisy": _compared(
        "the same, human scores of reliability .6 by three annotators, feature correlated .5 with quality",
        reliability=0.6,
        correlation=0.5,
    ),
    "compared_noisy_two": _compared(
        "the same, human scores of reliability .4 by two annotators, feature correlated .7 with quality",
        reliability=0.4,
        correlation=0.7,
        annotators=2,
    ),
    "compared_noisy_mean": _compared(
        "human scores of reliability .6 of which only the mean is known, feature correlated .5 with quality",
        ("text",),
        reliability=0.6,
        correlation=0.5,
        rated=False,
    ),
    **_ASKED,
    "compared_missing": PopulationModel(
        "comparisons, 15 % of them missing not at random",
        COMPARED,
        PairFeatures(),
        missing=0.15,
        modes=("text",),
        guarded=True,
    ),
}


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
