"""What every estimate over contexts is: how it is resampled, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from biaslab.errors import InputError
from biaslab.stats.power import FEWEST, detectable_effect


@dataclass(frozen=True)
class Resampling:
    """How uncertainty is computed.

    Parameters
    ----------
    n : int
        Bootstrap replicates (B).
    level : float
        Confidence level, between 0 and 1.
    method : {"studentised", "percentile", "bca"}
        Kind of bootstrap interval (Efron & Tibshirani 1993, §12.5, §13.3, §14.3). Studentised is the default because it
        keeps its coverage with few contexts; the percentile interval covers about .88 with 8 of them and .93 with 24.
    seed : int
        Of the random numbers of bootstrap and test.

    Raises
    ------
    InputError
        If a value lies outside its range.
    """

    n: int = 2000
    level: float = 0.95
    method: Literal["studentised", "percentile", "bca"] = "studentised"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 100:
            raise InputError("resampling.n", self.n, "at least 100 bootstrap replicates")
        if not 0 < self.level < 1:
            raise InputError("resampling.level", self.level, "a number between 0 and 1", "write 0.95 for 95 %")
        if self.method not in ("studentised", "percentile", "bca"):
            raise InputError("resampling.method", self.method, "studentised, percentile or bca")


@dataclass(frozen=True)
class Estimate:
    """A value over contexts with its uncertainty; NaN with a note where it is undefined.

    Attributes
    ----------
    estimate : float
        The value.
    se : float
        Its standard error over contexts, in the unit of the estimate, whichever interval is taken: linearised, from
        leaving out one context at a time, or cluster-robust. NaN with fewer than two contexts, where these do not vary,
        so that nothing is known of it, and for measures that have none (Myers' index).
    ci_low, ci_high : float
        The interval.
    p_value : float
        Two-sided test against the null (sign-flip over contexts unless `method` says otherwise); NaN without a null.
    mde : float
        Smallest difference from the null that this design detects with 80 % power at α = .05. NaN, with a note, where
        contexts do not vary, and below 6 contexts, where no sign-flip test reaches .05.
    n_contexts : int
        Contexts that enter.
    method : str
        How the interval was made.
    note : str
        Why something is NaN, or what to know when reading it.
    """

    estimate: float
    se: float
    ci_low: float
    ci_high: float
    p_value: float
    mde: float
    n_contexts: int
    method: str
    note: str = ""


def undefined(reason: str, contexts: int = 0) -> Estimate:
    """Return an estimate that is NaN throughout, with the reason."""
    nan = float("nan")
    return Estimate(nan, nan, nan, nan, nan, nan, contexts, "none", reason)


def effect_or_why_not(error: float, contexts: int) -> tuple[float, str]:
    """Return the smallest detectable effect, or NaN and the reason."""
    if contexts < FEWEST:
        return float("nan"), "fewer than 6 contexts: no test can reach p < .05, whatever the effect"
    return detectable_effect(error, contexts), ""
