"""What one of two conditions costs of the agreement with humans, whether scores are exact or means of samples."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import pandas as pd

from biaslab.probes._answers import sample_count
from biaslab.probes.base import Cell, Estimable
from biaslab.stats import (
    Level,
    Method,
    Resampling,
    agreement_loss,
    expected_agreement_loss,
    relative_loss,
    sampling_noise,
    undefined,
)

_ONE = "undefined: {} was sampled once, and its noise, which lowers agreement, shows from 2 samples on: ask for {}"
_SHARES = 'undefined: scores are means of {} counted samples, whose noise is not known: choose answer="text" and {}'


@dataclass(frozen=True)
class Losses:
    """Differences of agreement between conditions of one cell.

    Parameters
    ----------
    blocks : pandas.DataFrame
        One row an item: `biaslab.stats.blocks.whole_blocks`; beside sampled conditions their noise.
    sampled : tuple of str
        Conditions whose scores are means of samples.
    why_not : str
        Why differences are undefined; empty where they are defined.
    """

    blocks: pd.DataFrame
    sampled: tuple[str, ...]
    why_not: str

    @classmethod
    def of(cls, cell: Cell, blocks: pd.DataFrame, condition: str, levels: Collection[str], remedy: str) -> Losses:
        """Arrange a cell, in which text under the conditions ``levels`` is sampled; ``remedy`` says what to ask for."""
        if k := sample_count(cell.trials):
            return cls(blocks, (), _SHARES.format(k, remedy))
        if cell.where["answer"] != "text" or not levels:
            return cls(blocks, (), "")
        given = cell.trials[cell.trials[condition].isin(levels)]
        noise = {f"{name} noise": sampling_noise(given[given[condition] == name], blocks) for name in levels}
        once = [name for name in levels if len(blocks) and pd.isna(noise[f"{name} noise"]).all()]
        why_not = _ONE.format(f"the score {once[0]!r}", remedy) if once else ""
        return cls(blocks.assign(**noise), tuple(levels), why_not)

    def loss(
        self, cell: Cell, pair: tuple[str, str], level: Level, method: Method, relative: bool = False
    ) -> Estimable:
        """Return the agreement under the first condition less that under the second, or that as a share of the first.

        Of exact scores it is `agreement_loss` or `relative_loss`, of samples `expected_agreement_loss`.
        """
        options: tuple[str, Resampling, Level, Method] = ("human", cell.resampling, level, method)
        if self.why_not:
            return undefined(self.why_not, self.blocks["context_id"].nunique())
        if not {*pair} & {*self.sampled}:
            return partial(relative_loss if relative else agreement_loss, self.blocks, pair[0], pair[1], *options)
        exact = {f"{name} noise": 0.0 for name in pair if name not in self.sampled}
        return partial(
            expected_agreement_loss, self.blocks.assign(**exact), pair[0], pair[1], *options, relative=relative
        )
