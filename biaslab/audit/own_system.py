"""Self-preference in recorded judgements: how a judge rates what its own system wrote, beside how people do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.audit.measure import CellMeasure
from biaslab.probes.base import Accepted, Part, paired, scored
from biaslab.stats import Estimate, Ratio, undefined, usable

_UNIT = (0.0, 1.0)
_NO_BIAS = "own texts may be better or worse: compare with people's judgements of the same texts"


@dataclass(frozen=True)
class SelfPreference(CellMeasure):
    """Compare what a judge's own system wrote with what others wrote.

    The own system is named by the column ``judge_system``, or has the name of the judge, in small letters or capitals.

    Notes
    -----
    Estimates, one a judge × data set × attribute × template (pairs) or configuration and scale (scores):

    ``own_win_rate`` (0–1; also by ``system``, the other one)
        Mean probability that the own text wins against another's, a tie counting ½: over both orders where a log tells
        but that mean. It is no bias by itself.
    ``own_win_excess`` (primary; -1 to 1, null 0)
        The same minus how often people prefer the own text, of pairs with a human preference (Panickssery et al. 2024,
        arXiv 2404.13076, hold quality fixed in this way).
    ``own_score_gap``
        Of scores: of each context the mean score of the own text minus that of the others, in points of the scale.
    """

    name: ClassVar[str] = "self_preference"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template", "configuration", "scale")
    conditions: ClassVar[tuple[str, ...]] = ("system",)
    primary: ClassVar[tuple[str, ...]] = ("own_win_excess",)

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Take judgements that have what the judge's own system wrote on one side."""
        found = _with_own(trials)
        pairs, scores = paired(found), scored(found)
        one_side = pairs[pairs["own_first"] != pairs["own_second"]]
        own = scores.groupby([*self.cell[:3], "configuration", "context_id"])["own_first"].transform("any")
        kept = pd.concat([one_side, scores[own]])
        why = (
            "needs texts of the judge's own system: name it in the column judge_system where it is not the judge's name"
        )
        return Accepted(kept.fillna(dict.fromkeys(self.cell, "")), why if kept.empty else "")

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics against all other systems, then against each."""
        pairs, scores = paired(trials), scored(trials[trials["scale"] != ""])
        if len(pairs):
            yield _part(pairs, "own_win_rate", self._win_rate(pairs))
            rated = pairs[pairs["human_gap"].notna()]
            if len(rated):
                yield _part(rated, "own_win_excess", self._excess(rated))
            other = pairs["opponent_id"].where(pairs["own_first"], pairs["candidate_id"])
            systems = other.unique()
            for system in systems if len(systems) > 1 else ():
                against = pairs[other == system]
                yield _part(against, "own_win_rate", self._win_rate(against), str(system))
        if len(scores):
            yield _part(scores, "own_score_gap", self._score_gap(scores))

    def _win_rate(self, pairs: pd.DataFrame) -> Estimate:
        context, wins, _ = _own_wins(pairs)
        found = Ratio(context, wins, np.ones(len(wins)), None, _UNIT, inference="score").estimate(self.resampling)
        return _without_test(found)

    def _excess(self, pairs: pd.DataFrame) -> Estimate:
        context, wins, gap = _own_wins(pairs)
        preferred = (np.sign(gap) + 1) / 2
        return Ratio(context, wins - preferred, np.ones(len(wins)), 0.0, (-1.0, 1.0)).estimate(self.resampling)

    def _score_gap(self, scores: pd.DataFrame) -> Estimate:
        found = usable(scores)
        sides = {side: part.groupby("context_id")["value"].mean() for side, part in found.groupby("own_first")}
        if len(sides) < 2:
            return undefined("undefined: no context with scores of own texts and of others")
        own, others = sides[True], sides[False]
        gap = (own - others).dropna()
        return _without_test(Ratio(gap.index, gap, np.ones(len(gap))).estimate(self.resampling))


def _part(trials: pd.DataFrame, metric: str, found: Estimate, system: str = "") -> Part:
    """Return one metric with how many judgements enter it."""
    entering = len(usable(trials))
    return Part({metric: found}, (entering, len(trials) - entering), {"system": system})


def _own_wins(pairs: pd.DataFrame) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Return of what can be read the context, how likely the own text won, and by how much people prefer it."""
    found = usable(pairs)
    first = found["own_first"]
    shown = found["p_both_orders"].fillna(found["value"])
    gap = found["human_gap"].where(first, -found["human_gap"])
    return found["context_id"], shown.where(first, 1 - shown), gap


def _without_test(found: Estimate) -> Estimate:
    """Say why a rate or a gap has no test."""
    return replace(found, note="; ".join(filter(None, [found.note, _NO_BIAS])))


def _with_own(trials: pd.DataFrame) -> pd.DataFrame:
    """Say of each side whether the judge's own system wrote it."""
    numbers: dict[str, int] = {"": 0}
    system, judge = _numbered(trials["judge_system"], numbers), _numbered(trials["judge"], numbers)
    own = np.where(system == 0, judge, system)
    sides = {
        f"own_{place}": (_numbered(trials[column], numbers) == own) & (own > 0)
        for place, column in (("first", "candidate_id"), ("second", "opponent_id"))
    }
    return trials.assign(**sides)


def _numbered(names: pd.Series, numbers: dict[str, int]) -> NDArray[np.int_]:
    """Return a number a name, the same whatever its capitals, and 0 where there is none; new names are added."""
    codes, distinct = pd.factorize(names)
    known = [numbers.setdefault(str(name).strip().casefold(), len(numbers)) for name in distinct]
    found: NDArray[np.int_] = np.array([*known, 0])[codes]  # a missing name has code -1
    return found
