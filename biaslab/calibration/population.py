"""A constructed population of contexts, judged once in full: small studies are drawn from it and held against it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Codes, Floats
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Judge, ProbeInterface
from biaslab.core.metrics import Calibration, Metric
from biaslab.core.schema import Dataset
from biaslab.correct import compare
from biaslab.judges.simulated import Planted, SimulatedJudge
from biaslab.probes import available
from biaslab.report.verdicts import ADDED
from biaslab.stats.frame import TRAILING, require_columns
from biaslab.stats.joint_jackknife import suppressed_data_warnings, texts_as_objects, with_fast_intervals
from biaslab.stats.resample import Resampling
from biaslab.study.collect import collect

_PILOT = 200  # contexts used to estimate the spread of a difference
_TOGETHER = 25  # studies per call of the estimator, which saves a third of the time
_ATTRIBUTES = {"coherence": "How well the sentences fit together.", "fluency": "How well each sentence reads."}
_ANNOTATORS = 3
_DISAGREEMENT = 1.0


def construct_population(
    contexts: int,
    candidates: int = 3,
    seed: int = 0,
    attributes: int = 1,
    longest: int = 1,
    systems: Sequence[str] = (),
) -> Dataset:
    """Build a data set of tiny texts with random human scores.

    Parameters
    ----------
    contexts, candidates : int
        Number of contexts, and of candidates in each, at least 2.
    seed : int
        Random seed of the human scores.
    attributes : {1, 2}
        "coherence", with mean scores uniform between 1 and 5, or that and "fluency", whose mean score is the average
        of coherence and an independent uniform number.
    longest : int
        Length of the longest text in words; the number of doublings up to it is uniform.
    systems : sequence of str
        Systems of a context's candidates, in turn; by default candidates have no system.

    Returns
    -------
    Dataset
        With three annotators around each mean score. No text occurs in two contexts, so contexts share no replies.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> construct_population(100)
    Dataset('population (constructed)': 100 contexts, 300 candidates, 1 attributes, 900 human scores)
    """
    for name, value, least in (("contexts", contexts, 2), ("candidates", candidates, 2), ("longest", longest, 1)):
        if value < least:
            raise InputError(f"population.{name}", value, f"a whole number of at least {least}")
    if attributes not in (1, 2):
        raise InputError("population.attributes", attributes, "1 or 2")
    wanted = tuple(_ATTRIBUTES)[:attributes]
    context = np.repeat(np.arange(contexts), candidates).astype(str).astype(object)
    candidate = np.tile(np.arange(candidates), contexts).astype(str).astype(object)
    names = {"context_id": context, "candidate_id": candidate}
    text = context + "-" + candidate
    if longest > 1:
        words = 2 ** np.random.default_rng([seed, longest]).uniform(0, np.log2(longest), len(context))
        text = text + np.array([" word" * round(number - 1) for number in words], object)
    system = np.resize(np.array(systems or [""], object), candidates)
    texts = {"context": "Source " + context, "system": np.tile(system, contexts), "text": text, "reference": ""}
    rng = np.random.default_rng(seed)
    means = {"coherence": rng.uniform(1, 5, len(context))}
    means["fluency"] = (means["coherence"] + rng.uniform(1, 5, len(context))) / 2
    human = [
        pd.DataFrame(names | {"attribute": attribute, "annotator": f"constructed {k + 1}", "score": scores})
        for attribute in wanted
        for k, scores in enumerate(_annotators(means[attribute], rng).T)
    ]
    definitions = {attribute: _ATTRIBUTES[attribute] for attribute in wanted}
    frames = (pd.DataFrame(names | texts), pd.concat(human, ignore_index=True))
    provenance = "Constructed for calibration: numbered texts and random scores. No human ever rated them."
    return Dataset("population (constructed)", *frames, definitions, provenance=provenance)


def population_for(calibration: Calibration, contexts: int, seed: int = 0) -> Dataset:
    """Build the population declared by a calibration."""
    of = calibration
    return construct_population(contexts, of.candidates, seed, of.attributes, of.longest, of.systems)


def _annotators(means: Floats, rng: np.random.Generator) -> Floats:
    """Return scores of annotators, shape (items, annotators), that differ and have the given means."""
    apart = rng.normal(0, _DISAGREEMENT, (len(means), _ANNOTATORS))
    apart -= apart.mean(axis=1, keepdims=True)
    room = np.minimum(means - 1, 5 - means)
    apart *= np.minimum(1, room / np.abs(apart).max(axis=1))[:, None]
    return np.clip(means[:, None] + apart, 1, 5)


@dataclass(frozen=True)
class Population:
    """The trials of a whole population, and the value of a metric there.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of all contexts.
    estimate : float
        The metric over all contexts; NaN if undefined.
    spread : float
        Standard error of the metric × √contexts: the variation between contexts, for planning power.
    rows, starts, counts : numpy.ndarray
        Row numbers by context, and for each context the start and number of its rows.
    twins : int
        How often every drawn context is repeated in a study, under different names and with the same requests.
    note : str
        Note of the estimate, for example why it is undefined.
    tested : bool
        Whether the metric has a test there.
    """

    trials: pd.DataFrame
    estimate: float
    spread: float
    rows: Codes
    starts: Codes
    counts: Codes
    twins: int = 1
    note: str = ""
    tested: bool = True

    @classmethod
    def judged(cls, probe: ProbeInterface, metric: str, judge: Judge, dataset: Dataset) -> Population:
        """Let a judge answer the probe's whole design once, and estimate the metric."""
        return cls.of(probe, metric, collect(probe, judge, dataset, progress=False))

    @classmethod
    def of(cls, probe: ProbeInterface, metric: str, trials: pd.DataFrame, twins: int = 1) -> Population:
        """Estimate the metric over the trials of a population."""
        estimate = estimate_each(probe, trials, metric, Resampling(n=100)).iloc[0]
        spread = float(estimate["se"]) * np.sqrt(estimate["n_contexts"])
        known = cls.known(trials, float(estimate["estimate"]), spread, twins, str(estimate["note"]))
        return replace(known, tested=bool(np.isfinite(estimate["p_value"])))

    @classmethod
    def known(cls, trials: pd.DataFrame, estimate: float, spread: float, twins: int = 1, note: str = "") -> Population:
        """Index the trials of a population with a known metric for fast drawing."""
        codes, names = pd.factorize(trials["context_id"])
        counts = np.bincount(codes, minlength=len(names))
        trials = texts_as_objects(trials)
        trials.attrs = {}  # otherwise copied to every derived frame
        if "key" in trials:
            trials["key"] = pd.factorize(trials["key"])[0]
        rows = np.argsort(codes, kind="stable")
        starts = np.cumsum(counts) - counts
        return cls(trials, estimate, spread, rows, starts, counts, twins, note)

    def draw(self, contexts: int, rngs: Sequence[np.random.Generator]) -> pd.DataFrame:
        """Draw contexts with replacement, once per generator; a context drawn twice counts as two.

        Each study is a separate data set, named by its number. Names of contexts, and keys of requests, are numbers
        too, for speed; drawn contexts share no requests.
        """
        fresh = -(-contexts // self.twins)
        picked = [np.repeat(rng.integers(len(self.counts), size=fresh), self.twins)[:contexts] for rng in rngs]
        drawn = np.concatenate(picked)
        counts = self.counts[drawn]
        first = np.repeat(self.starts[drawn] - (np.cumsum(counts) - counts), counts)
        trials = self.trials.take(self.rows[first + np.arange(counts.sum())])
        trials.index = pd.RangeIndex(len(trials))
        place = np.repeat(np.arange(len(drawn)), counts)
        trials["dataset"], trials["context_id"] = place // contexts, place % contexts
        if "key" in trials:
            trials["key"] += place % contexts // self.twins * len(self.trials)
        return trials


def estimate_each(probe: ProbeInterface, trials: pd.DataFrame, metric: str, resampling: Resampling) -> pd.DataFrame:
    """Estimate one metric of every data set with the probe's ``estimate``, for single answers if there are kinds.

    Returns
    -------
    pandas.DataFrame
        One row per data set, in order of appearance.

    Raises
    ------
    InputError
        If the metric has several values: the calibration's parameters should leave one.
    """
    probe = replace(probe, resampling=resampling)  # type: ignore[type-var]
    with suppressed_data_warnings():
        return one_each(probe.estimate(trials, [metric]), trials, metric, probe)


def one_each(estimates: pd.DataFrame, trials: pd.DataFrame, metric: str, probe: ProbeInterface) -> pd.DataFrame:
    """Return the one row of each data set.

    Raises
    ------
    InputError
        If a data set has several rows.
    """
    several = estimates["dataset"].duplicated().any()
    if several and "answer" in estimates:
        estimates = estimates[estimates["answer"] == "single"]
    if len(estimates) != trials["dataset"].nunique() or estimates["dataset"].duplicated().any():
        raise InputError.plain(f"{probe.name} gives {len(estimates)} values of {metric}, not one per data set")
    return estimates


def studies(population: Population, contexts: int, n: int, seed: Sequence[int]) -> Iterator[tuple[pd.DataFrame, int]]:
    """Yield the trials of n simulated studies in batches, each with a resampling seed.

    Study k is the same for every n.
    """
    for start in range(0, n, _TOGETHER):
        rngs = [np.random.default_rng([*seed, contexts, k]) for k in range(start, min(start + _TOGETHER, n))]
        yield population.draw(contexts, rngs), int(rngs[0].integers(2**31))


def weaker(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a judge that perceives half the quality and shares all noise with the given judge.

    The two are then correlated over contexts, and have the same biases, like two models of one family.

    Examples
    --------
    >>> weaker({"noise": 1.0})
    {'noise': 1.0, 'quality': 0.5}
    """
    return {**settings, "quality": settings.get("quality", 1.0) / 2}


def judged_by_two(
    probe: ProbeInterface, metric: str, judges: tuple[Judge, Judge], dataset: Dataset, *, planned: bool
) -> Population:
    """Let two judges answer the probe's full design, and estimate the difference in the metric.

    Parameters
    ----------
    probe, metric, dataset
        The probe, the metric, and the data set to judge.
    judges : tuple of Judge
        The reference, and the other.
    planned : bool
        Whether to estimate the spread of the difference, from which power is planned; NaN otherwise.
    """
    trials = [collect(probe, judge, dataset, progress=False) for judge in judges]
    estimates = [estimate_each(probe, each, metric, Resampling(n=100)).iloc[0] for each in trials]
    both, spread = pd.concat(trials, ignore_index=True), math.nan
    if planned:
        names = both["context_id"].unique()[:_PILOT]
        pilot = difference_each(probe, both[both["context_id"].isin(names)], metric, Resampling(n=100)).iloc[0]
        spread = float(pilot["se"]) * math.sqrt(pilot["n_contexts"])
    return Population.known(both, float(estimates[1]["estimate"] - estimates[0]["estimate"]), spread)


def difference_each(probe: ProbeInterface, trials: pd.DataFrame, metric: str, resampling: Resampling) -> pd.DataFrame:
    """Compare the two judges of every data set with `biaslab.compare`.

    Returns
    -------
    pandas.DataFrame
        One row per data set: the difference of the second judge from the first.
    """
    probe = replace(probe, resampling=resampling)  # type: ignore[type-var]
    with suppressed_data_warnings():
        compared = compare(trials, metrics=[metric], probe=probe, progress=False)  # type: ignore[arg-type]
    return one_each(compared[compared["role"] == "difference"], trials, f"{metric}_difference", probe)


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
