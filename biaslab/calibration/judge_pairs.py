"""Two judges of the same contexts, and the difference between them: whether `biaslab.compare` keeps its promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from biaslab.calibration.population import Population, estimate_each, missing_data_expected, one_each
from biaslab.core import Judge, Probe
from biaslab.core.schema import Dataset
from biaslab.correct import compare
from biaslab.stats import Resampling
from biaslab.study.collect import collect

_PILOT = 200  # contexts from which the spread of a difference is taken


def weaker(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a judge that sees half the quality, and shares all noise with the one of these settings.

    Both then rise and fall together over contexts, and have the same biases; as two models of one family would.

    Examples
    --------
    >>> weaker({"noise": 1.0})
    {'noise': 1.0, 'quality': 0.5}
    """
    return {**settings, "quality": settings.get("quality", 1.0) / 2}


def judged_by_two(
    probe: Probe, metric: str, judges: tuple[Judge, Judge], dataset: Dataset, *, planned: bool
) -> Population:
    """Let two judges answer the probe's whole design, and take the difference of the metric.

    Parameters
    ----------
    probe, metric, dataset
        What is asked about whom, and what is estimated of it.
    judges : tuple of Judge
        The reference, and the other.
    planned : bool
        Whether the spread of the difference is needed, from which its power is planned; NaN otherwise.
    """
    trials = [collect(probe, judge, dataset, progress=False) for judge in judges]
    found = [estimate_each(probe, each, metric, Resampling(n=100)).iloc[0] for each in trials]
    both, spread = pd.concat(trials, ignore_index=True), math.nan
    if planned:
        names = both["context_id"].unique()[:_PILOT]
        pilot = difference_each(probe, both[both["context_id"].isin(names)], metric, Resampling(n=100)).iloc[0]
        spread = float(pilot["se"]) * math.sqrt(pilot["n_contexts"])
    return Population.known(both, float(found[1]["estimate"] - found[0]["estimate"]), spread)


def difference_each(probe: Probe, trials: pd.DataFrame, metric: str, resampling: Resampling) -> pd.DataFrame:
    """Compare the two judges of every data set with `biaslab.compare`.

    Returns
    -------
    pandas.DataFrame
        One row a data set: the difference of the second judge from the first.
    """
    probe = replace(probe, resampling=resampling)  # type: ignore[type-var]
    with missing_data_expected():
        found = compare(trials, metrics=[metric], probe=probe, progress=False)  # type: ignore[arg-type]
    return one_each(found[found["role"] == "difference"], trials, f"{metric}_difference", probe)
