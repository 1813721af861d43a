"""The methods sentences of a paper, from the estimates that it prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from biaslab.core.metrics import Metric, find_metric
from biaslab.core.output import count
from biaslab.report.tables import chosen_rows
from biaslab.report.wording import ONE_TEST, correction, levels, span, version

_CORRECT = "correct"
_MOST = 3  # names that are listed
_PPI = "power-tuned prediction-powered inference (Angelopoulos et al., 2023), which assumes nothing about the judge"
_LABELLED = "and treats the labelled contexts as a random part of all"


def methods(estimates: pd.DataFrame, metric: str | Sequence[str] | None = None) -> str:
    """Write the methods sentences of a paper from estimates: judge, data, n, unit, intervals, tests, what is missing.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame.
    metric : str or sequence of str, optional
        Which metrics; default: all.

    Returns
    -------
    str
        One paragraph. Every number in it is in the estimates; it does not say how texts and labels were collected.

    Raises
    ------
    TrialsError
        If no row is left, or a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(judge="claude-3-haiku-20240307", source="devbench")
    >>> rows = rows[rows["dataset"] == "devbench"]
    >>> print(methods(rows, "first_position_rate").partition(". ")[0])
    claude-3-haiku-20240307 judged devbench (2,240 judgements, 112 contexts per estimate)
    """
    rows = chosen_rows(estimates, metric)
    return " ".join(_sentences(rows[rows["estimate"].notna()] if rows["estimate"].notna().any() else rows))


def _sentences(rows: pd.DataFrame) -> Iterator[str]:
    judges, data = _listed(rows["judge"], "judges"), _listed(rows["dataset"], "data sets")
    amount = f"{count(int(rows['n_trials'].max()), 'judgement')}, {span(rows['n_contexts'])} contexts per estimate"
    yield f"{judges} judged {'texts' if data == 'unknown' else data} ({amount})."
    corrected = rows[rows["probe"].eq(_CORRECT)]
    if not corrected.empty and "n_labelled" in rows and corrected["correction"].eq("ppi").any():
        labelled = corrected["n_labelled"].dropna()
        per = f"{span(labelled)} contexts per estimate"
        yield f"Corrected values combine them with people's labels ({per}) by {_PPI} {_LABELLED}."
    units = [metric.axis for metric in _metrics(rows)]
    of_contexts = "contexts are the sampling unit"
    ways = [str(name) for name in dict.fromkeys(rows["method"]) if name != "none"]
    how = "; ".join(ways)
    yield f"We report {_listed(pd.Series(units), 'metrics')} with {levels(rows)} intervals; {of_contexts} ({how})."
    if "q_value" in rows and rows["q_value"].notna().any():
        over = correction(rows)
        how = "One test was made" if over == ONE_TEST else f"p-values are corrected over {over} and reported as q"
        yield f"{how}; a bias counts as found below .05."
    dropped, planned = int(rows["n_dropped"].max()), int((rows["n_dropped"] + rows["n_trials"]).max())
    yield (
        f"Up to {dropped:,} of {count(planned, 'judgement')} had no usable verdict and were left out."
        if dropped
        else "Every judgement had a usable verdict."
    )
    seeds = " and ".join(f"{seed:.0f}" for seed in rows["seed"].dropna().unique())
    yield f"Estimates are those of biaslab {version()}{f', seed {seeds}' if seeds else ''}."


def _metrics(rows: pd.DataFrame) -> Iterator[Metric]:
    for name, probe in dict.fromkeys(zip(rows["metric"], rows["probe"], strict=True)):
        yield find_metric(name, probe)


def _listed(names: pd.Series, noun: str) -> str:
    different = list(map(str, dict.fromkeys(names)))
    if len(different) > _MOST:
        return f"{len(different)} {noun}"
    return " and ".join(filter(None, (", ".join(different[:-1]), different[-1])))
