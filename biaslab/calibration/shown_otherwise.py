"""Simulate judgements of texts shown differently: edited, under another prompt, or paired with themselves.

Independent of `biaslab.SimulatedJudge` and of the probes under test: shares no code with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslab.calibration.draws import ANSWER_SD, Draws, places
from biaslab.core.arrays import Codes, Floats

PROBES = ("edit", "template", "vacuum")
#: Planted effects: points of a score for an edit, or for a prompt; log odds of the candidate shown first.
_EFFECT = {"edit": 0.25, "template": 0.2, "vacuum": 0.45}
_LOGITS = 1.2  # log odds of a pair per point of a score
_VARIANTS = ("unedited", "edited", "null edit")


@dataclass(frozen=True)
class ShownOtherwise:
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
        of = _Drawing(self, contexts, _EFFECT[probe] * planted, draws)
        shown = {"edit": of.edits, "template": of.prompts, "vacuum": of.nothing}[probe]()
        second = shown["value"] < 0.5 if probe == "vacuum" else False
        return shown.assign(replicate=0, status="ok", low=second)


class _Drawing:
    """Texts of contexts, and their judge."""

    def __init__(self, of: ShownOtherwise, contexts: int, bias: float, draws: Draws) -> None:
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
