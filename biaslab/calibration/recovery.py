"""Plant biases of several sizes in simulated judges, and hold small studies against the whole population."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from biaslab.calibration.population import population_for
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Judge, ProbeInterface
from biaslab.core.metrics import Calibration, Metric
from biaslab.core.schema import Dataset
from biaslab.judges.simulated import Planted, SimulatedJudge
from biaslab.probes import available
from biaslab.report.verdicts import ADDED
from biaslab.stats.frame import TRAILING, require_columns
from biaslab.stats.joint_jackknife import with_fast_intervals
from biaslab.study.collect import collect

_NEUTRAL = Planted()  # a judge's settings where nothing is planted


def recover(
    probes: Iterable[type[ProbeInterface]] | None = None,
    strengths: Sequence[float] = (0.0, 0.5, 1.0),
    contexts: int = 24,
    population: int = 400,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate planted biases from small studies, to be held against their population.

    Each metric's own simulated judge (`biaslab.core.Calibration`) is given a share of its planted bias, in a population
    of its own. A study takes other contexts for each share; the true value is the metric over the rest of the
    population, by the same estimator, so that a bias of the estimator does not show.

    Parameters
    ----------
    probes : iterable of probe classes, optional
        Default: all. Primary metrics with a calibration and a smallest size that matters are estimated.
    strengths : sequence of float
        Shares of the planted bias; 0 is the unbiased judge.
    contexts, population : int
        Number of contexts in the study, and in the population.
    seed : int
        Seed of population, judges and resampling.

    Returns
    -------
    pandas.DataFrame
        Estimates of the studies, with the columns ``strength``, ``truth`` (the metric over the rest of the population)
        and ``inside`` (whether the interval covers it).

    Raises
    ------
    InputError
        If no metric of the probes can be estimated so.

    Examples
    --------
    >>> from biaslab.probes import Position
    >>> found = recover([Position], strengths=[0.0, 1.0])
    >>> found["truth"].is_monotonic_increasing
    True
    """
    if (len(strengths) + 1) * contexts > population or contexts < 2 or not len(strengths):
        allowed = f"at least {(len(strengths) + 1) * contexts} contexts for {len(strengths)} studies of {contexts}"
        raise InputError("population", population, allowed)
    rows = [
        row
        for kind in (available().values() if probes is None else probes)
        for metric in kind.metrics
        if metric.primary and metric.calibration and metric.matters
        for row in _of_metric(kind, metric, strengths, contexts, population, seed)
    ]
    if not rows:
        raise InputError("probes", probes, "probes with a calibrated primary metric and a size that matters")
    return pd.DataFrame(rows)


def with_planted(
    estimates: pd.DataFrame, probe: ProbeInterface, judge: Judge, dataset: Dataset, *metrics: str, repeats: int = 4
) -> pd.DataFrame:
    """Add the value that a simulated judge has on average, which figures mark as planted.

    Judges with the same planted biases and other seeds answer the same questions; their mean estimate is the value.
    It equals a planted bias that has the unit of the metric, unless the ends of the scale prevent that. It comes from
    the same estimator and texts, so that an error of the estimator itself does not show; `recover` has other texts.

    Parameters
    ----------
    estimates : pandas.DataFrame
        From ``probe.estimate``.
    probe : Probe
        The probe.
    judge : Judge
        The judge; nothing is planted in one that is not simulated.
    dataset : Dataset
        The data that were judged.
    *metrics : str
        Metrics to add the value of; default: all.
    repeats : int
        Number of judges that are averaged, at least 1.

    Returns
    -------
    pandas.DataFrame
        The estimates, with the column ``planted`` if the judge is simulated: NaN in rows of other judges.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> probe, judge = bl.probes.Position(["coherence"], [1]), bl.SimulatedJudge(data, position=0.8, noise=0.5)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["first_position_logit"])
    >>> bl.with_planted(estimates, probe, judge, data, "first_position_logit")["planted"].round(1).tolist()
    [0.8]
    """
    if repeats < 1:
        raise InputError("repeats", repeats, "1 or more")
    require_columns(estimates, ("probe", "judge", "metric", "estimate"), "estimates")
    if not isinstance(judge, SimulatedJudge):
        return estimates
    estimates = estimates.drop(columns="planted", errors="ignore")
    others = [replace(judge, seed=judge.seed + place) for place in range(1, repeats + 1)]
    asked = [collect(probe, other, dataset, progress=False) for other in others]
    means = pd.concat([with_fast_intervals(probe).estimate(trials, metrics or None, True) for trials in asked])
    keys = [name for name in estimates if name in means and name not in ("judge", *TRAILING, *ADDED)]
    means = means.groupby(keys, dropna=False, as_index=False)["estimate"].mean().rename(columns={"estimate": "planted"})
    means = means.astype(estimates[keys].dtypes)  # a column without values has another type
    marked = estimates.merge(means, on=keys, how="left", validate="many_to_one").set_axis(estimates.index)
    return marked.assign(planted=marked["planted"].where(marked["judge"] == judge.id))


def _of_metric(
    kind: type[ProbeInterface], metric: Metric, strengths: Sequence[float], contexts: int, population: int, seed: int
) -> Iterator[dict[Any, Any]]:
    """Yield the estimate of one metric for each strength of its planted bias."""
    calibration = metric.calibration or Calibration({}, {})
    probe = kind(**calibration.parameters)
    dataset = population_for(calibration, population, seed + zlib.crc32(metric.name.encode()))
    for place, strength in enumerate(strengths):
        settings = _mixed(calibration.fair, calibration.planted, strength)
        trials = collect(probe, SimulatedJudge(dataset, seed=seed, **settings), dataset, progress=False)
        studied = trials["context_id"].isin(trials["context_id"].unique()[place * contexts :][:contexts])
        own, rest = (_estimate(probe, trials[chosen], metric.name) for chosen in (studied, ~studied))
        if own and rest:
            truth = rest["estimate"]
            inside = bool(own["ci_low"] <= truth <= own["ci_high"])
            yield own | {"strength": strength, "truth": truth, "inside": inside}


def _estimate(probe: ProbeInterface, trials: pd.DataFrame, metric: str) -> dict[Any, Any]:
    """Return the first estimate of a metric; empty if there is none."""
    rows = probe.estimate(trials, [metric])
    rows = rows[(rows["metric"] == metric) & rows["estimate"].notna()]
    return rows.iloc[0].to_dict() if len(rows) else {}


def _mixed(fair: Mapping[str, Any], planted: Mapping[str, Any], strength: float) -> dict[str, Any]:
    """Return settings of a simulated judge between an unbiased and a biased one."""
    mixed = dict(fair)
    for name, value in planted.items():
        if isinstance(value, Mapping):
            mixed[name] = {each: strength * size for each, size in value.items()}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            start = float(fair.get(name, getattr(_NEUTRAL, name)))
            mixed[name] = start + strength * (value - start)
        else:
            mixed[name] = value
    return mixed
