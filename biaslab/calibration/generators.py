"""Populations drawn directly from a statistical model, with features of real data, instead of from a simulated judge.

They share no code with `biaslab.SimulatedJudge`: an instrument that was designed with one generator is checked with
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.calibration.asked_pairs import AskedPairs, Way
from biaslab.calibration.own_texts import OwnTexts
from biaslab.calibration.pair_features import PROBES as COMPARED, PairFeatures
from biaslab.calibration.plain_texts import PlainTexts
from biaslab.calibration.shown_otherwise import PROBES as SHOWN, ShownOtherwise
from biaslab.core.errors import InputError

_PAIRS, _FEATURES, _RATED = ("position",), ("verbosity", "familiarity"), ("verbosity", "familiarity", "source")
_SCORES = (*_RATED, "consistency")
_OWN = ("self_preference",)
_EFFECT = {
    "position": 0.4, "verbosity": 0.15, "familiarity": -0.3, "source": 0.5, "consistency": 0.25, "self_preference": 0.5
}  # fmt: skip


@dataclass(frozen=True)
class Generator:
    """Parameters of a generated population; neutral by default.

    Parameters
    ----------
    about : str
        In words.
    probes : tuple of str
        Probes whose trials can be drawn.
    heavy : bool
        Effects of contexts have a t distribution with 3 degrees of freedom, not a normal one.
    sizes : {"equal", "unequal", "informative"}
        Three candidates a context, or 2 to 16; *informative*: contexts with more candidates also differ more and, where
        a bias is planted, have more of it.
    ceiling : float
        By how many points scores are higher.
    quality : float
        Log odds of a pair for each standard deviation of quality: where it is high, few pairs flip.
    reliability : float
        Of the mean human score: variance of the true quality as a share of its variance.
    correlation : float
        Of the feature with the true quality.
    missing : float
        Share of replies that are lost; those that prefer the candidate shown second, or score low, four times as often
        as others.
    twins : int
        How often each context stands in a study, with the same requests.
    unsure : float
        How many times as wide the distribution of answers is without the source, about the same mean.
    annotators : int
        Ratings of each text.
    rated : bool
        Whether single ratings are known, or their mean alone.
    better : float
        By how many standard deviations the judge's own texts are better than others.
    modes : tuple of str
        Answer modes of the full table: see `biaslab.judges.modes`.
    guarded : bool
        Whether tests may be refused, and reject less: so little is known of human errors, or so much is missing. A
        refused study has no interval that misses the truth.
    shown : ShownOtherwise, optional
        What draws the trials of edits, prompts and comparisons of a text with itself.
    compared : PairFeatures, optional
        What draws comparisons of texts that differ in a feature; scores are drawn otherwise.
    asked : AskedPairs, optional
        What draws comparisons that are asked in two ways, of one metric.
    """

    about: str
    probes: tuple[str, ...] = (*_PAIRS, *_SCORES)
    heavy: bool = False
    sizes: Literal["equal", "unequal", "informative"] = "equal"
    ceiling: float = 0.0
    quality: float = 1.0
    reliability: float = 1.0
    correlation: float = 0.0
    missing: float = 0.0
    twins: int = 1
    unsure: float = 1.0
    annotators: int = 3
    rated: bool = True
    better: float = 0.0
    modes: tuple[str, ...] = ("exact",)
    guarded: bool = False
    shown: ShownOtherwise | None = None
    compared: PairFeatures | None = None
    asked: AskedPairs | None = None

    @property
    def rare(self) -> bool:
        """Whether differences are rare, so that a valid test may reject less often."""
        return self.quality > 1 or (self.shown is not None and self.shown.sure)


_WAYS: tuple[tuple[Way, str, str], ...] = (
    ("reasons", "sweep", "with and without reasons"),
    ("temperature", "sweep", "at two temperatures"),
    ("prompt", "template", "by two prompts"),
)
_KINDS: dict[str, dict[str, Any]] = {"": {}, "_clustered": {"unequal": True, "heavy": True, "reliability": 0.6}}
_CLUSTERED = "two to five texts a context, effects of contexts with heavy tails, human scores of reliability .6"
#: Pairs that are asked in two ways, and the same of contexts that are less alike.
_ASKED = {
    f"asked_{way}{name}": Generator(
        f"pairs, {words}" if not name else f"the same, {_CLUSTERED}",
        (probe,),
        modes=("exact", "text"),
        asked=AskedPairs(way, **settings),
    )
    for way, probe, words in _WAYS
    for name, settings in _KINDS.items()
}
#: Generators by name; a probe's own simulated judge is "judge".
GENERATORS = {
    "normal": Generator("normal effects of contexts"),
    "t3": Generator("effects of contexts from a t distribution with 3 degrees of freedom", heavy=True),
    "sizes": Generator("2 to 16 candidates a context", sizes="unequal"),
    "informative_sizes": Generator(
        "2 to 16 candidates a context, more effect where there are more", (*_PAIRS, *_RATED), sizes="informative"
    ),
    "ceiling": Generator("scores at the top of the scale", _SCORES, ceiling=1.5),
    "few_flips": Generator("about 8 % of pairs flip", _PAIRS, quality=4.7),
    "noisy_humans": Generator(
        "human scores of reliability .6, feature correlated .5 with quality",
        _RATED,
        reliability=0.6,
        correlation=0.5,
        guarded=True,
    ),
    "noisy_humans_negative": Generator(
        "human scores of reliability .6, feature correlated -.5 with quality",
        _FEATURES,
        reliability=0.6,
        correlation=-0.5,
        guarded=True,
    ),
    "less_sure": Generator("answers that vary three times as much without the source", ("source",), unsure=3.0),
    "missing_10": Generator("10 % of replies are lost, not at random", _PAIRS, missing=0.1),
    "missing_20": Generator("20 % of replies are lost, not at random", _PAIRS, missing=0.2),
    "repeated": Generator("every context stands twice in a study", twins=2),
    "noisy_humans_two": Generator(
        "human scores of reliability .4 by two annotators, length correlated .7 with quality",
        ("verbosity",),
        reliability=0.4,
        correlation=0.7,
        annotators=2,
        guarded=True,
    ),
    "own_better": Generator(
        "own texts better by one SD, human scores of reliability .6 by three annotators",
        _OWN,
        reliability=0.6,
        better=1.0,
        modes=("exact", "text"),
        guarded=True,
    ),
    "own_better_mean": Generator(
        "the same, of which the mean human score alone is known",
        _OWN,
        reliability=0.6,
        better=1.0,
        rated=False,
        modes=("text",),
        guarded=True,
    ),
    "own_better_ceiling": Generator(
        "own texts better by one SD, scores at the top of the scale", _OWN, better=1.0, ceiling=1.0, guarded=True
    ),
    "own_unequal": Generator(
        "two to four texts a context, whose verdicts share an effect with heavy tails",
        _OWN,
        heavy=True,
        sizes="unequal",
        modes=("exact", "text"),
        guarded=True,
    ),
    "missing_15": Generator(
        "15 % of replies are lost, not at random", (*_PAIRS, "verbosity", *_OWN), missing=0.15, modes=("exact", "text")
    ),
    "shown": Generator(
        "texts shown otherwise: edited, under another prompt, beside themselves",
        SHOWN,
        shown=ShownOtherwise(),
        modes=("exact", "text"),
    ),
    "shown_ceiling": Generator(
        "the same, scores at the top of the scale", SHOWN[:2], shown=ShownOtherwise(ceiling=1.5)
    ),
    "shown_clustered": Generator(
        "the same, 2 to 6 texts a context, effects of contexts from a t distribution with 3 degrees of freedom, "
        "human scores of reliability .5",
        SHOWN,
        shown=ShownOtherwise(unequal=True, heavy=True, reliability=0.5),
    ),
    "shown_sure": Generator(
        "the same, a judge that is sure: nearly all differences are 0", SHOWN[:2], shown=ShownOtherwise(sure=True)
    ),
    "compared": Generator(
        "comparisons of texts that differ in length or perplexity",
        COMPARED,
        compared=PairFeatures(),
        modes=("exact", "text"),
        guarded=True,
    ),
    "compared_unequal": Generator(
        "the same, two to five texts a context, whose verdicts share an effect with heavy tails",
        COMPARED,
        compared=PairFeatures(unequal=True, heavy=True),
        modes=("exact", "text"),
        guarded=True,
    ),
    "compared_noisy": Generator(
        "the same, human scores of reliability .6 by three annotators, feature correlated .5 with quality",
        COMPARED,
        reliability=0.6,
        compared=PairFeatures(correlation=0.5),
        modes=("exact", "text"),
        guarded=True,
    ),
    "compared_noisy_two": Generator(
        "the same, human scores of reliability .4 by two annotators, feature correlated .7 with quality",
        COMPARED,
        reliability=0.4,
        compared=PairFeatures(correlation=0.7, annotators=2),
        modes=("exact", "text"),
        guarded=True,
    ),
    "compared_noisy_mean": Generator(
        "human scores of reliability .6 of which the mean alone is known, feature correlated .5 with quality",
        COMPARED,
        reliability=0.6,
        compared=PairFeatures(correlation=0.5, rated=False),
        modes=("text",),
        guarded=True,
    ),
    **_ASKED,
    "compared_missing": Generator(
        "comparisons of which 15 % are lost, not at random",
        COMPARED,
        missing=0.15,
        compared=PairFeatures(),
        modes=("text",),
        guarded=True,
    ),
}


def find_generator(name: str) -> Generator:
    """Return the generator of a name.

    Raises
    ------
    InputError
        If there is none; the message lists those there are.

    Examples
    --------
    >>> find_generator("noisy_humans").reliability
    0.6
    """
    if name not in GENERATORS:
        raise InputError("generator", name, f"one of judge, {', '.join(GENERATORS)}")
    return GENERATORS[name]


def generate(
    generator: Generator, probe: str, contexts: int, planted: bool, k: int | None = None, seed: Sequence[int] = (0,)
) -> pd.DataFrame:
    """Draw the trials of a population.

    Parameters
    ----------
    generator : Generator
        What it is like.
    probe : str
        Whose trials they are: one of ``generator.probes``.
    contexts : int
        How many.
    planted : bool
        With a bias, or without.
    k : int, optional
        Samples of an answer; exact answers where nothing is said. 1 is one text.
    seed : sequence of int
        Of everything random. Two calls that differ in `k` alone have the same judge.

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
    given = k, np.random.default_rng([*seed, 0]), (answers := np.random.default_rng([*seed, 1]))
    if probe == "self_preference":
        trials = _own_texts(generator).draw(contexts, _EFFECT[probe] * planted, *given)
    elif generator.shown is not None:
        trials = generator.shown.draw(probe, contexts, planted, *given)
    elif generator.compared is not None:
        compared = replace(generator.compared, reliability=generator.reliability)
        trials = compared.draw(probe, contexts, planted, *given)
    elif generator.asked is not None:
        trials = generator.asked.draw(contexts, planted, *given)
    else:
        plain = PlainTexts(**{each.name: getattr(generator, each.name) for each in fields(PlainTexts)})
        trials = plain.draw(probe, contexts, _EFFECT[probe] * planted, *given)
    trials = trials.assign(probe=probe, judge="generated", dataset="generated", attribute="quality")
    return _lose(trials, generator.missing, answers).assign(tokens=1, key=np.arange(len(trials)))


def _own_texts(generator: Generator) -> OwnTexts:
    given = {name: getattr(generator, name) for name in ("better", "reliability", "annotators", "rated", "ceiling")}
    return OwnTexts(**given, unequal=generator.sizes != "equal", heavy=generator.heavy)


def _lose(trials: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Drop a share of the replies, low ones four times as often as others."""
    low = trials["low"].to_numpy(bool)
    others = share / (1 + 3 * low.mean())
    lost = rng.uniform(size=len(trials)) < np.where(low, 4 * others, others)
    trials = trials.drop(columns="low")
    if not lost.any():
        return trials
    return trials.assign(value=trials["value"].mask(lost), status=np.where(lost, "refused", trials["status"]))
