"""What an audit estimates of judgements whatever their design: the base of all that no probe designs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from biaslab.probes.base import Accepted
from biaslab.stats import Resampling


@dataclass(frozen=True)
class Measure(ABC):
    """What takes the recorded judgements that it can be estimated from, and estimates them, as probes do.

    Parameters
    ----------
    resampling : Resampling
        Of the estimates.

    Attributes
    ----------
    name : str
        In the column ``probe`` of the estimates. How its metrics are read stands in `biaslab.probes`.
    """

    name: ClassVar[str]

    resampling: Resampling

    @abstractmethod
    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Choose the trials, or say why there are none."""

    @abstractmethod
    def estimate(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates frame."""
