"""Remedies for position bias: reweighting (Liusie et al. 2024, Eqs. 9, 10), calibration, position term, swapping.

Each remedy is fitted on the comparisons of some contexts and applied to others; `debias` does both by cross-fitting.
The content-free prior is fitted on comparisons without content.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.measures.ranking.bradley_terry import fit_bradley_terry, fit_log_odds
from biaslab.measures.ranking.comparisons import Comparisons
from biaslab.measures.ranking.pairs import is_counted, log_odds
from biaslab.stats.blocks import usable
from biaslab.stats.estimate import Estimate, because
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import logistic_model
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import UNTIL, require_fixed
from biaslab.stats.t_inference import root_between

Debiasing = Literal["none", "threshold", "uniform-prior", "position-term", "swap-average"]
DEBIASINGS: tuple[Debiasing, ...] = get_args(Debiasing)
_MOST = 30.0  # logits
_ONE = ("judge", "attribute", "template", "nothing")


class Remedy(Protocol):
    """A fitted correction for position bias."""

    def apply(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons with the bias removed."""


@dataclass(frozen=True)
class Reweighting:
    """p̂ = α p / (α p + 1 − p) (Eq. 9); equivalent to deciding for the first if p > τ (Eq. 10).

    Parameters
    ----------
    log_alpha : float
        Natural logarithm of α; 0 has no effect.

    Examples
    --------
    >>> remedy = Reweighting(math.log(0.25))
    >>> remedy.tau, remedy.weigh(np.array([0.5, 0.75, 0.9])).round(3).tolist()
    (0.8, [0.2, 0.429, 0.692])
    """

    log_alpha: float

    @property
    def alpha(self) -> float:
        """The weight α of Eq. 9."""
        return math.exp(self.log_alpha)

    @property
    def tau(self) -> float:
        """The threshold τ of Eq. 10: 1 / (1 + α)."""
        return float(expit(-self.log_alpha))

    def weigh(self, p: Floats) -> Floats:
        """Reweight probabilities, including ½; the map is monotonic, and decisions (0, 1) are unchanged."""
        weighed: Floats = expit(logit(p) + self.log_alpha)
        return weighed

    def apply(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons with reweighted probabilities; ties are unchanged."""
        return comparisons.with_p(self.weigh(comparisons.p))


@dataclass(frozen=True)
class SwapAverage:
    """Average p_ij and 1 − p_ji, which cancels a position bias that is the same in both orders on the logit scale.

    Nothing is fitted. Comparisons without a twin in the other order are dropped. Two orders that cancel are a tie.
    """

    def apply(self, comparisons: Comparisons) -> Comparisons:
        """Return both orders of each pair with their common probability."""
        paired = comparisons.paired()
        mean = ((paired.p + 1 - paired.p[paired.twins]) / 2).round(12)  # a tie up to the last bit is a tie
        return replace(paired, p=mean, called=mean == 0.5)


def fit_threshold(comparisons: Comparisons) -> Reweighting:
    """Find α and τ such that P(A) = P(B) = ½ (Eqs. 9, 10): τ is the median of p without ties, and α = (1 − τ) / τ.

    Examples
    --------
    >>> fit_threshold(Comparisons.of(["a", "b"], [0, 1, 0], [1, 0, 1], [0.9, 0.8, 0.6])).tau
    0.8
    """
    p = comparisons.decided().p
    return Reweighting(_bounded(-logit(float(np.median(p)))) if len(p) else 0.0)


def fit_uniform_prior(comparisons: Comparisons) -> Reweighting:
    """Find α such that the reweighted probabilities of the first average ½ (a uniform prior over positions).

    References
    ----------
    Zhao et al. 2021, *Calibrate before use*, ICML; Liusie et al. 2023, *Mitigating word bias in zero-shot prompt-based
    classifiers* (prior matching).

    Examples
    --------
    >>> remedy = fit_uniform_prior(Comparisons.of(["a", "b"], [0, 1], [1, 0], [0.9, 0.8]))
    >>> round(float(remedy.weigh(np.array([0.9, 0.8])).mean()), 6)
    0.5
    """
    p = comparisons.decided().p

    def excess(log_alpha: float) -> float:
        return float(Reweighting(log_alpha).weigh(p).mean()) - 0.5

    if not len(p) or not excess(-_MOST) < 0 < excess(_MOST):  # certain answers outweigh anything done to the others
        return fit_threshold(comparisons)
    return Reweighting(root_between(excess, -_MOST, _MOST))


def fit_position_term(comparisons: Comparisons) -> Reweighting:
    """Estimate the first-position advantage jointly with Bradley–Terry scores; α removes it from the log odds.

    It is fitted to log odds by least squares (`biaslab.ranking.fit_log_odds`) or, if some are infinite, as for
    decisions and sample shares, by likelihood (`biaslab.ranking.fit_bradley_terry`). Unlike the other fits it does not
    require balance: which candidate is shown first may depend on quality. Ties are ignored: for decisions the model is
    the same whatever their share (Davidson & Beaver, §3).

    References
    ----------
    Davidson & Beaver 1977, *On extending the Bradley–Terry model to incorporate within-pair order effects*.

    Examples
    --------
    >>> pairs = Comparisons.of(["a", "b"], [0, 1], [1, 0], expit([1.5, 0.5]))
    >>> round(fit_position_term(pairs).log_alpha, 1)
    -1.0
    """
    decided = comparisons.decided()
    infinite = ((decided.p == 0) | (decided.p == 1)).any()
    fitted = fit_bradley_terry(decided, position=True) if infinite else fit_log_odds(decided)
    return Reweighting(_bounded(-fitted.position))


_FITS: dict[str, Callable[[Comparisons], Remedy]] = {
    "threshold": fit_threshold,
    "uniform-prior": fit_uniform_prior,
    "position-term": fit_position_term,
    "swap-average": lambda _: SwapAverage(),
}


def fit_remedy(comparisons: Comparisons, debiasing: Debiasing) -> Remedy:
    """Fit a remedy by name (any except "none").

    Raises
    ------
    InputError
        If the remedy is unknown, or there is no comparison to fit it on.
    """
    if debiasing not in _FITS:
        raise InputError("debiasing", debiasing, f"one of {', '.join(_FITS)}")
    if not len(comparisons) and debiasing != "swap-average":
        raise InputError.plain("there are no comparisons to fit a remedy on")
    return _FITS[debiasing](comparisons)


def debias(
    comparisons: Comparisons, debiasing: Debiasing | Remedy, folds: int = 10, in_sample: bool = False
) -> Comparisons:
    """Remove position bias from comparisons; the remedy is cross-fitted over contexts.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of several contexts.
    debiasing : {"none", "threshold", "uniform-prior", "position-term", "swap-average"} or Remedy
        The remedy; "none" returns the comparisons unchanged. One fitted elsewhere, such as
        `biaslab.ranking.content_free`, is applied as it is.
    folds : int
        Number of parts, at least 2, into which contexts are split; each is debiased with what was fitted on the
        others. With fewer contexts each is its own part.
    in_sample : bool
        Fit on the comparisons to be debiased, on all contexts together, as Liusie et al. do; the results then do not
        generalise to other contexts.

    Returns
    -------
    Comparisons
        Comparisons of the same candidates; empty if there is nothing to fit on, as with a single context.

    Raises
    ------
    InputError
        If the remedy is unknown, or there are fewer than 2 folds.
    """
    require_whole("folds", folds, 2)
    if not isinstance(debiasing, str):
        if not callable(getattr(debiasing, "apply", None)) or hasattr(debiasing, "columns"):
            remedy = "create an instance: biaslab.measures.ranking.SwapAverage()"
            raise InputError("debiasing", debiasing, f"one of {', '.join(DEBIASINGS)}, or a remedy", remedy)
        return debiasing.apply(comparisons)
    require_one_of("debiasing", debiasing, DEBIASINGS)
    if debiasing == "none":
        return comparisons
    if debiasing == "swap-average":
        return SwapAverage().apply(comparisons)
    if in_sample:
        return fit_remedy(comparisons, debiasing).apply(comparisons) if len(comparisons) else comparisons
    fold = (comparisons.context % folds)[comparisons.first]
    p = np.full(len(comparisons), np.nan)
    for held_out in np.unique(fold):
        rest, fold_rows = comparisons.take(fold != held_out), np.flatnonzero(fold == held_out)
        if len(rest):
            p[fold_rows] = fit_remedy(rest, debiasing).apply(comparisons.take(fold_rows)).p
    return comparisons.with_p(p).take(~np.isnan(p))


def _bounded(log_alpha: float) -> float:
    return float(np.clip(log_alpha, -_MOST, _MOST))


def dark_log_odds(trials: pd.DataFrame, resampling: Resampling | None = None) -> Estimate:
    """Return the log odds for the first when both candidates are identical, so that only their positions differ.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of one judge, attribute and prompt with identical candidates: see `biaslab.probes.Vacuum`.
    resampling : Resampling, optional
        Settings of the interval.

    Returns
    -------
    Estimate
        The mean of exact log odds; for verdicts, or sample shares, the log odds of their mean. Ties count as ½.
    """
    require_fixed(trials, "the log odds of identical pairs")
    read, drawn = usable(trials), resampling or Resampling()
    p = read["value"].to_numpy(float)
    if is_counted(read):
        verdicts = pd.DataFrame({"context_id": read["context_id"], "won": p, "first": 1.0})
        return logistic_model(verdicts, "won", ["first"], drawn)["first"]
    missing = because("no_identical_pair", "no identical pair was judged")
    return Ratio(read["context_id"], log_odds(p), np.ones(len(p)), 0.0, missing=missing, inference="t").estimate(drawn)


def content_free(trials: pd.DataFrame) -> Reweighting:
    """Fit the content-free prior: α removes the judge's preference between two identical candidates.

    Unlike other remedies it does not use the comparisons of interest, and needs neither balance nor both orders of a
    pair.

    Parameters
    ----------
    trials : pandas.DataFrame
        As in `dark_log_odds`; for `biaslab.probes.Vacuum`, the pairs of one kind of content-free input, such as
        "identical".

    Raises
    ------
    InputError
        If the trials are of several judges, attributes, prompts or kinds of content-free input, or no finite prior
        exists.

    References
    ----------
    Zhao et al. 2021, *Calibrate before use*, ICML. They average the probabilities of content-free inputs; this
    averages log odds, so that a bias that is constant in logits is removed completely.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = bl.probes.Vacuum(["coherence"], nothing=["identical"], asks=["pairs"])
    >>> remedy = content_free(bl.collect(probe, bl.SimulatedJudge(data, position=0.8), data, progress=False))
    >>> round(remedy.log_alpha, 6)
    -0.8
    """
    shown = trials[trials["opponent_id"].notna()] if "opponent_id" in trials else trials
    for name in _ONE:
        if name in shown and len(several := shown[name].dropna().unique()) > 1:
            raise InputError.plain(f"{name} has several values: {', '.join(map(str, several))}; select one")
    estimate = dark_log_odds(shown.drop(columns=UNTIL, errors="ignore"))
    if math.isnan(estimate.estimate):
        raise InputError.plain(f"the remedy cannot be fitted ({estimate.note}); collect more identical pairs")
    return Reweighting(_bounded(-estimate.estimate))
