"""Estimates in words: what is shown, what is not, and what could not have been."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from biaslab.core import Metric
from biaslab.errors import InputError
from biaslab.probes import find_metric, is_primary
from biaslab.report.wording import cell, conditions, interval, number, probability, varying
from biaslab.stats import LEADING, is_above, require_columns

if TYPE_CHECKING:
    import pandas as pd

Finding = Literal["above", "below", "none", "blind", "untested"]
_ALPHA = 0.05
#: What a note begins with that says under what assumption a finding stands.
_HEDGE = "holds if"
_NEEDED = (*LEADING, "estimate", "ci_low", "ci_high", "p_value", "q_value", "mde")


def verdicts(
    estimates: pd.DataFrame, matters: Mapping[str, float] | None = None, null: float | None = None
) -> list[str]:
    """Say each estimate in one sentence, in the words that its probe declares.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame.
    matters : mapping of str to float, optional
        By metric: the smallest distance from the null that matters, in place of the one that the probe declares.
    null : float, optional
        Null of metrics for which no probe declares one: 0 for differences.

    Returns
    -------
    list of str
        One sentence a row.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=12)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> judge = bl.SimulatedJudge(data, position=2.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["first_position_rate"])
    >>> verdicts(estimates)[0]
    'coherence: 0.927 [0.926, 0.928], q <0.001: prefers what stands first'
    """
    return [str(sentence) for sentence in findings(estimates, matters, null)["sentence"]]


def findings(
    estimates: pd.DataFrame, matters: Mapping[str, float] | None = None, null: float | None = None
) -> pd.DataFrame:
    """Say of each estimate what it shows.

    Parameters
    ----------
    estimates, matters, null
        As in `verdicts`.

    Returns
    -------
    pandas.DataFrame
        The estimates with ``finding``: *above* or *below* the null (significant: q, or p where a metric has no q, is
        below .05), *none* (nearer to the null than what matters, and the power for a shift that matters is 80 %),
        *blind* (inconclusive: anything else) or *untested*; with ``slight`` (significant, but nearer to the null than
        what matters), ``null``, ``matters``, ``cell`` (the attribute and what else tells rows apart) and ``sentence``.

    Raises
    ------
    InputError
        If a smallest effect is not above 0, or of a metric that the frame does not hold.
    TrialsError
        If a column is missing.
    """
    require_columns(estimates, _NEEDED, "estimates")
    wanted = dict(matters or {})
    for name, least in wanted.items():
        if name not in set(estimates["metric"]) or not (isinstance(least, int | float) and 0 < least < math.inf):
            allowed = f"numbers above 0 by metric, among {', '.join(dict.fromkeys(estimates['metric']))}"
            raise InputError("matters", {name: least}, allowed)
    several = len(set(estimates["metric"])) > 1
    names: dict[Any, list[str]] = {}
    for key, part in estimates.groupby(["judge", "probe", "metric"], sort=False):
        found = conditions(part)
        names[key] = ["attribute"] * ("attribute" in found) + varying(part, [c for c in found if c != "attribute"])
    rows = []
    for record in estimates.to_dict("records"):
        metric = find_metric(record["metric"], record["probe"])
        metric = metric if metric.null is not None else replace(metric, null=null)
        size = wanted.get(record["metric"], metric.matters)
        finding = _finding(record, metric.null, size)
        where = cell(record, names[record["judge"], record["probe"], record["metric"]])
        shift = abs(record["estimate"] - metric.null) if metric.null is not None else math.nan
        slight = finding in ("above", "below") and size is not None and is_above(size, shift)
        what = f"{where}, {metric.label}" if several and where else metric.label if several else where
        sentence = f"{what}: {_evidence(record)}{_words(record, metric, finding, slight, size)}".removeprefix(": ")
        where_null, least = (math.nan if value is None else value for value in (metric.null, size))
        rows.append((finding, slight, where_null, least, where, sentence))
    columns = zip(("finding", "slight", "null", "matters", "cell", "sentence"), zip(*rows, strict=True), strict=True)
    return (
        estimates.assign(**{name: list(values) for name, values in columns}) if rows else estimates.assign(sentence=[])
    )


def _tested(record: Mapping[Any, Any]) -> float:
    """Return q, and p where the metric is in no family of tests."""
    q, primary = float(record["q_value"]), is_primary(record["metric"], record["probe"])
    return q if primary or not np.isnan(q) else float(record["p_value"])


def _finding(record: Mapping[Any, Any], null: float | None, size: float | None) -> Finding:
    tested = _tested(record)
    if np.isnan(tested) or null is None:
        return "untested"
    if is_above(_ALPHA, tested):
        return "above" if record["estimate"] > null else "below"
    if not record["mde"] > 0:  # unknown, or contexts that do not vary
        return "blind"
    if size is None or (not is_above(record["mde"], size) and is_above(size, abs(record["estimate"] - null))):
        return "none"
    return "blind"


def _evidence(record: Mapping[Any, Any]) -> str:
    if np.isnan(record["estimate"]):
        return ""
    bounds = interval(record["ci_low"], record["ci_high"])
    tested, name = _tested(record), "p" if np.isnan(record["q_value"]) else "q"
    written = probability(tested)
    sign = "" if written.startswith("<") else "= "
    test = "" if np.isnan(tested) else f", {name} {sign}{written}"
    return f"{number(record['estimate'])} {bounds}{test}: "


def _words(record: Mapping[Any, Any], metric: Metric, finding: Finding, slight: bool, size: float | None) -> str:
    note = record.get("note")
    reason = note if isinstance(note, str) and note else "no test"
    if finding in ("above", "below"):
        words = (metric.above if finding == "above" else metric.below) or f"{finding} {number(metric.null, 1)}"
        words = f"{words}, but less than what matters ({number(size, 2)})" if slight else words
        return "; ".join([words, *(part for part in reason.split("; ") if part.startswith(_HEDGE))])
    if finding == "untested":
        return f"not tested ({reason})"
    if finding == "none":
        return f"no effect detected; one of {number(record['mde'], 2)} would have been, with 80 % power"
    if not record["mde"] > 0:
        return f"inconclusive ({reason})"
    if size is not None and not is_above(record["mde"], size):
        return f"not significant, though farther from {number(metric.null, 1)} than what matters ({number(size, 2)})"
    needed = "" if size is None else f", and {number(size, 2)} matters"
    return f"inconclusive: 80 % power takes a shift of {number(record['mde'], 2)}{needed}"
