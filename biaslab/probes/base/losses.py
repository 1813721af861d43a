"""Loss of agreement with humans between two conditions, for exact scores or means of samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.probes.base.answers import sample_count
from biaslab.probes.base.cell import Cell, Estimable
from biaslab.stats import (
    ITEM,
    Level,
    Method,
    agreement_loss,
    expected_agreement_loss,
    relative_loss,
    sample_table,
    undefined,
)

_ONE = "undefined: {} was sampled once, so the noise that lowers agreement is unknown; use {}"
_SHARES = 'undefined: scores are means of {} counted samples with unknown noise; use answer="text" and {}'


@dataclass(frozen=True)
class Losses:
    """Differences of agreement between conditions of one cell.

    Parameters
    ----------
    blocks : pandas.DataFrame
        One row per item: `biaslab.stats.blocks.whole_blocks`.
    samples : mapping of str to numpy.ndarray, each of shape (items, replicates)
        The samples behind the means of sampled conditions.
    why_not : str
        Why differences are undefined; empty if they are defined.
    """

    blocks: pd.DataFrame
    samples: Mapping[str, Floats]
    why_not: str

    @classmethod
    def of(cls, cell: Cell, blocks: pd.DataFrame, condition: str, levels: Collection[str], remedy: str) -> Losses:
        """Build from a cell with sampled text under the conditions ``levels``; ``remedy`` completes the message."""
        if k := sample_count(cell.trials):
            return cls(blocks, {}, _SHARES.format(k, remedy))
        if cell.where["answer"] != "text" or not levels:
            return cls(blocks, {}, "")
        sampled = cell.trials[cell.trials[condition].isin(levels)]
        index = pd.MultiIndex.from_frame(blocks[list(ITEM)])
        tables = {name: sample_table(sampled[sampled[condition] == name]).reindex(index) for name in levels}
        once = [name for name, table in tables.items() if len(blocks) and not (table.notna().sum(axis=1) > 1).any()]
        why_not = _ONE.format(f"the score {once[0]!r}", remedy) if once else ""
        return cls(blocks, {name: table.to_numpy(float) for name, table in tables.items()}, why_not)

    def loss(
        self, cell: Cell, pair: tuple[str, str], level: Level, method: Method, relative: bool = False
    ) -> Estimable:
        """Return the agreement under the first condition minus that under the second, or relative to the first.

        Uses `agreement_loss` or `relative_loss` for exact scores, `expected_agreement_loss` for samples.
        """
        if self.why_not:
            return undefined(self.why_not, self.blocks["context_id"].nunique())
        samples = {name: scores for name, scores in self.samples.items() if name in pair}
        one, two = pair
        if samples:
            corrected = partial(expected_agreement_loss, self.blocks, one, two, "human", samples, relative=relative)
            return partial(corrected, resampling=cell.resampling, level=level, method=method)
        estimate = relative_loss if relative else agreement_loss
        return partial(estimate, self.blocks, one, two, "human", cell.resampling, level, method)
