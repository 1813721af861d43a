"""The methods sentences of a paper, from the estimates that it prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from biaslab.core.metrics import Metric, find_metric
from biaslab.core.output import count
from biaslab.report.tables import chosen_rows
from biaslab.report.wording import ONE_TEST, correction, levels, span, version
from biaslab.stats.frame import require_columns

_CORRECT, _REPLACE = "correct", "replace"
_MOST = 3  # names that are listed
_PPI = "power-tuned prediction-powered inference (Angelopoulos et al., 2023), which assumes nothing about the judge"
_BY = "with the contexts as clusters and p-values adjusted over annotators (Benjamini and Yekutieli, 2001)"
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
    require_columns(rows, ["n_trials", "n_dropped", "ci_level", "method", "seed"], "estimates")
    return " ".join(_sentences(rows[rows["estimate"].notna()] if rows["estimate"].notna().any() else rows))


def _sentences(rows: pd.DataFrame) -> Iterator[str]:
    judges, data = _listed(rows["judge"], "judges"), _listed(rows["dataset"], "data sets")
    judges, data = ("The judge" if judges == "unknown" else judges), ("texts" if data == "unknown" else data)
    amount = f"{span(rows['n_trials'])} judgements, {span(rows['n_contexts'])} contexts per estimate"
    yield f"{judges} judged {data} ({amount})."
    corrected = rows[rows["probe"].eq(_CORRECT)]
    if not corrected.empty and "n_labelled" in rows and corrected["correction"].eq("ppi").any():
        per = f"{span(corrected['n_labelled'].dropna())} contexts per estimate"
        yield f"Corrected values combine them with people's labels ({per}) by {_PPI} {_LABELLED}."
    tested = rows[rows["probe"].eq(_REPLACE) & rows["metric"].eq("winning_rate")]
    if not tested.empty:
        epsilon = " and ".join(f"{value:g}" for value in dict.fromkeys(tested["epsilon"]))
        yield f"ω and ρ are those of the alternative annotator test (Calderon et al., 2025) at ε = {epsilon}, {_BY}."
    units = _listed(pd.Series([metric.axis for metric in _metrics(rows)]), "metrics")
    ways = "; ".join(str(name) for name in dict.fromkeys(rows["method"]) if name != "none")
    yield f"We report {units} with {levels(rows)} intervals; contexts are the sampling unit ({ways})."
    if "q_value" in rows and rows["q_value"].notna().any():
        over = correction(rows)
        how = "One test was made" if over == ONE_TEST else f"p-values are corrected over {over} and reported as q"
        yield f"{how}; a bias or a difference counts as found below .05."
    most = rows.sort_values("n_dropped").iloc[-1]
    if dropped := int(most["n_dropped"]):
        of = count(dropped + int(most["n_trials"]), "judgement")
        why = "because they, or those that they are compared with, had no usable verdict"
        yield f"Up to {dropped:,} of {of} were left out {why}."
    else:
        yield "No judgement was left out for want of a usable verdict."
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
