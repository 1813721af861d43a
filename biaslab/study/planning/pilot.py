"""Estimate the variation of a metric between contexts from a real or simulated pilot study."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from biaslab.core import Probe
from biaslab.core.checks import unknown
from biaslab.core.errors import InputError, JudgeError
from biaslab.judges.modes import AnswerMode
from biaslab.judges.simulated import SimulatedJudge
from biaslab.stats import EXACT, FEWEST, detectable_effect, unseen_share
from biaslab.stats.power import assured_power, assured_shift
from biaslab.study.collect import collect

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.datasets import Dataset

#: Maximum number of contexts in a simulated pilot.
CONTEXTS = 24
#: Noise per request and per context, in points of a five-point scale (log odds for pairs).
NOISE, CONTEXT_NOISE = 1.0, 0.5
_MOST = 10**9
_LARGE = 3_000  # number of contexts above which the normal distribution replaces Student's t


@dataclass(frozen=True)
class Spread:
    """Variation of a metric between contexts.

    Parameters
    ----------
    deviation : float
        Standard deviation between contexts, in the unit of the metric.
    share : float
        Share of planned contexts in which the metric is defined; above 0, at most 1.
    origin : str
        Source of both, in words.
    pilot : int
        Number of contexts in the pilot, over whose uncertainty power is averaged (`biaslab.stats.power.assured_power`);
        0 if the deviation is an assumption.

    Examples
    --------
    >>> spread = Spread(0.2, 1.0, "an earlier study")
    >>> spread.required(0.05)
    128
    >>> round(spread.detectable(128), 4)
    0.0499
    """

    aim: ClassVar[str] = "detect"

    deviation: float
    share: float
    origin: str
    pilot: int = field(default=0, kw_only=True)

    def power(self, effect: float, contexts: int, alpha: float = 0.05) -> float:
        """Return the power of a two-sided test for a shift with a number of contexts."""
        entering = max(int(contexts * self.share + 1e-9), 1)
        return assured_power(effect, self.deviation / math.sqrt(entering), entering, alpha, self.pilot)

    def detectable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that a number of contexts can detect; NaN if too few for a sign-flip test to reach α."""
        entering = int(contexts * self.share + 1e-9)
        if entering < FEWEST or 2.0 ** (1 - entering) > alpha:
            return math.nan
        error = self.deviation / math.sqrt(entering)
        known = detectable_effect(error, entering, power, alpha)
        if not self.pilot:
            return known
        return assured_shift(min(entering, _LARGE), power, alpha, self.pilot) * error

    def excludable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the shift that a number of contexts can exclude, with a given power, if there is none.

        The interval of level 1 − α then lies within ± the shift (Schuirmann 1987); for known s, the shift is
        (t_{1−α/2} + t_{(1+power)/2}) s / √G.
        """
        return Spread.detectable(self, contexts, (1 + power) / 2, alpha)

    def required(self, effect: float, power: float = 0.8, alpha: float = 0.05) -> int:
        """Return the smallest number of contexts that can detect a shift.

        Raises
        ------
        InputError
            If the effect is not above 0, or too small for a billion contexts.
        """
        if not 0 < effect < math.inf:
            raise InputError("effect", effect, "a number above 0")
        planned = range(1, _MOST)
        contexts = bisect_left(planned, True, key=lambda n: self.detectable(n, power, alpha) <= effect)
        if contexts == len(planned):
            raise InputError("effect", effect, "a shift that a billion contexts can detect")
        return planned[contexts]


@dataclass(frozen=True)
class Unvarying(Spread):
    """A metric without variation between the contexts of a pilot: the shifts that equal contexts exclude.

    Parameters
    ----------
    deviation, share, origin
        As in `Spread`; the deviation is 0.
    reach : float
        Distance from the value to the farther bound of the metric.

    Examples
    --------
    >>> spread = Unvarying(0.0, 1.0, "a pilot without a flip", reach=0.5)
    >>> round(spread.detectable(96), 3), spread.required(0.05)
    (0.019, 36)
    """

    aim: ClassVar[str] = "exclude"

    reach: float

    def detectable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:  # noqa: ARG002
        """Return the shift that the exact interval of equal contexts excludes, at any power."""
        entering = int(contexts * self.share + 1e-9)
        return self.reach * unseen_share(entering, 1 - alpha) if entering else math.nan

    def excludable(self, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
        """Return the same shift as `detectable`."""
        return self.detectable(contexts, power, alpha)


def spread_of(probe: Probe, trials: pd.DataFrame, metric: str, origin: str = "") -> Spread:
    """Estimate the variation of a metric between contexts from the trials of a study.

    The deviation is the estimate's ``se`` times √``n_contexts``. With several cells (attributes, templates, judges),
    the largest is used.

    Parameters
    ----------
    probe : Probe
        The probe of the trials.
    trials : pandas.DataFrame
        Trials with at least six contexts.
    metric : str
        A metric of the probe.
    origin : str, optional
        Source of the trials, in words.

    Raises
    ------
    InputError
        If the probe does not estimate the metric, there are too few contexts, or an unbounded metric does not vary.
    """
    estimates = probe.estimate(trials)
    rows = estimates[estimates["metric"] == metric]
    if rows.empty:
        raise unknown("metric", metric, estimates["metric"].unique())
    for column in rows.columns[: rows.columns.get_loc("estimate")]:  # NaN in a condition: over all bins
        if rows[column].isna().any():
            rows = rows[rows[column].isna()]
    known = rows[(rows["se"] > 0) & (rows["n_contexts"] >= FEWEST)]
    planned = int(trials["context_id"].nunique())
    whose = origin or f"a pilot of {planned} contexts from {', '.join(trials['dataset'].unique())}"
    if known.empty:
        return _unvarying(rows, planned, whose, metric)
    entering = known["n_contexts"].to_numpy(float)
    deviation, share = known["se"].to_numpy(float) * np.sqrt(entering), np.minimum(entering / planned, 1.0)
    worst = int(np.argmax(deviation / np.sqrt(share)))
    cells = f" (the largest of {len(known)} cells)" if len(known) > 1 else ""
    described = f"standard deviation between contexts {deviation[worst]:.3g}{cells}, from {whose}"
    return Spread(float(deviation[worst]), float(share[worst]), described, pilot=int(entering[worst]))


def _unvarying(rows: pd.DataFrame, planned: int, whose: str, metric: str) -> Unvarying:
    """Return the reach of a metric from the exact interval of a pilot without variation."""
    known = rows[rows["method"].str.startswith(EXACT) & (rows["n_contexts"] >= FEWEST)]
    if known.empty:
        why = "; ".join(dict.fromkeys(filter(None, rows["note"].astype(str)))) or "no variation between contexts"
        remedy = f"note on {metric}: {why}"
        raise InputError("pilot", whose, "trials of at least 6 contexts with variation between them", remedy)
    entering = known["n_contexts"].to_numpy(float)
    unseen = np.array([unseen_share(int(n), level) for n, level in zip(entering, known["ci_level"], strict=True)])
    reach = np.maximum(known["ci_high"] - known["estimate"], known["estimate"] - known["ci_low"]) / unseen
    share = min(1.0, float(entering.min()) / planned)
    return Unvarying(0.0, share, f"no variation between contexts in {whose}", float(reach.max()))


def simulated_pilot(probe: Probe, dataset: Dataset, answer: str | None = None) -> tuple[pd.DataFrame, str]:
    """Run the probe's design with an unbiased simulated judge on the first contexts of a data set.

    Parameters
    ----------
    probe : Probe
        The probe to plan for.
    dataset : Dataset
        The data set; its first 24 contexts are used.
    answer : str, optional
        Answer mode, see `biaslab.judges.modes.AnswerMode`: texts, and shares of few samples, vary more than exact
        distributions. Default: the probe's.

    Returns
    -------
    tuple of pandas.DataFrame and str
        The trials, and the assumption in words.

    Raises
    ------
    InputError
        If the simulated judge cannot answer the probe's requests, the data set has no human scores, or the answer mode
        is unknown.

    Notes
    -----
    The judge is unbiased on average. A point on a five-point scale is worth 1 log odds, the noise per request has
    standard deviation 1, and each context has a random shift (for pairs: of the preference for the first) with standard
    deviation ½; other scales are rescaled. These values reproduce the comparisons of SummEval summaries by GPT-3.5
    (coherence, 11 pairs of systems, both orders, 100 documents): the standard deviation of its first-position rate
    between documents is .147, simulated .146. Judges differ, so a pilot with the judge itself is better.
    """
    data = dataset.head(CONTEXTS)
    if data.human.empty:
        raise InputError("dataset", data.name, "a data set with human scores", "pass trials of a first study as pilot=")
    point = (data.scale[1] - data.scale[0]) / 4
    judge = SimulatedJudge(data, noise=NOISE * point, context_noise=CONTEXT_NOISE * point)
    asked, answering = (probe, judge) if answer is None else AnswerMode(answer).asked(probe, judge)
    try:
        trials = collect(asked, answering, data, progress=False)
    except JudgeError as error:
        remedy = "pass trials of a first study with a few contexts as pilot="
        raise InputError(
            "probe", probe.name, f"a probe that the simulated judge can answer ({error})", remedy
        ) from error
    return trials, (
        f"a simulated pilot of {data.n_contexts} contexts (assumes an unbiased judge with quality 1 and noise "
        f"{judge.noise:g} per request and {judge.context_noise:g} per context, in points of the human scale"
        f"{f', answers {answer}' if answer else ''}; trials of the judge itself would be a better pilot)"
    )
