"""Estimates as a table to read in a notebook: a row each, with the columns that say something."""

from __future__ import annotations

import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.output import number
from biaslab.report.wording import check_digits, condition_text, conditions, probability, varying, with_intervals
from biaslab.stats import corrected_effects


@checked
def overview(estimates: pd.DataFrame, digits: int = 3) -> pd.DataFrame:
    """Return what a reader of estimates needs: what was estimated, its interval, its test, and on how much it rests.

    Parameters
    ----------
    estimates : pandas.DataFrame
        From ``probe.estimate``, or several of them together; all of it stays in the CSV files of the figures.
    digits : int
        Decimals of estimates, intervals and effects.

    Returns
    -------
    pandas.DataFrame
        Texts, a row for each estimate. The index says which it is: the metric, and the attribute and those conditions
        that differ. ``estimate`` stands with its interval; ``q_value`` (corrected for the tests of the study) and
        ``mde`` (the smallest effect that a test alone detects with 80 % power) where something is tested;
        ``detectable`` (the same, as these tests are corrected together) where there are several; ``n_contexts``;
        ``n_dropped`` (judgements that are missing) and ``note`` where there are any.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, position=2.0), data, progress=False)
    >>> overview(probe.estimate(trials, ["first_position_rate"]).head(1))["estimate"].to_dict()
    {('first_position_rate', 'coherence'): '0.927 [0.926, 0.928]'}
    """
    named = conditions(estimates)
    differing = {"metric", "attribute", *varying(estimates, ["judge", "dataset", *named])}
    index = [name for name in ("judge", "dataset", "metric", *named) if name in differing]
    table = pd.DataFrame({name: estimates[name].map(condition_text) for name in index}, index=estimates.index)
    check_digits(digits)
    table["estimate"] = with_intervals(estimates, digits)
    if estimates["q_value"].notna().any():
        table["q_value"] = estimates["q_value"].map(probability)
        table["mde"] = [number(value, digits) for value in estimates["mde"]]
        if estimates["q_value"].notna().sum() > 1:
            table["detectable"] = [number(value, digits) for value in corrected_effects(estimates)]
    table["n_contexts"] = estimates["n_contexts"]
    if (estimates["n_dropped"] > 0).any():
        table["n_dropped"] = estimates["n_dropped"]
    if (estimates["note"] != "").any():
        table["note"] = estimates["note"]
    return table.set_index(index)
