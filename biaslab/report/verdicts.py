"""Estimates in words: what is shown, what is not, and what could not have been."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from biaslab.comparing import find_peers, judges_of
from biaslab.core import Metric
from biaslab.errors import InputError
from biaslab.probes import find_metric
from biaslab.report.hedges import hedges
from biaslab.report.wording import ONE_TEST, cell, conditions, correction, interval, number, probability, varying
from biaslab.stats import LEADING, corrected, is_above, require_columns

if TYPE_CHECKING:
    import pandas as pd

Finding = Literal["above", "below", "none", "blind", "untested"]
_ALPHA = 0.05
#: The columns that `findings` adds.
ADDED = ("finding", "slight", "hedge", "null", "matters", "cell", "standing", "sentence")
_NEEDED = (*LEADING, "estimate", "ci_low", "ci_high", "p_value", "mde")


def verdicts(
    estimates: pd.DataFrame,
    matters: Mapping[str, float] | None = None,
    null: float | None = None,
    reference: str | pd.DataFrame | None = None,
) -> list[str]:
    """Say each estimate in one sentence, in the words that its probe declares.

    q-values are computed anew, over the tests of exactly these rows, and each sentence says over how many. So give all
    rows that are read together, and choose rows by what they are about, never by what they show.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame, or rows of several.
    matters : mapping of str to float, optional
        By metric: the smallest distance from the null that matters, in place of the one that the probe declares.
    null : float, optional
        Null of metrics for which no probe declares one: 0 for differences.
    reference : {"atlas"} or pandas.DataFrame, optional
        Say where each estimate stands among the judges of the atlas, or of another estimates frame, that compare with
        it: see `biaslab.comparing`. Nothing is said where they are fewer than five.

    Returns
    -------
    list of str
        One sentence a row; it names the judge where there are several.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=12)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> judge = bl.SimulatedJudge(data, position=2.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["first_position_rate"])
    >>> verdicts(estimates)[0]
    'coherence: 0.927 [0.926, 0.928], p <0.001: prefers what stands first'
    """
    return [str(sentence) for sentence in findings(estimates, matters, null, reference)["sentence"]]


def findings(
    estimates: pd.DataFrame,
    matters: Mapping[str, float] | None = None,
    null: float | None = None,
    reference: str | pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Say of each estimate what it shows.

    Parameters
    ----------
    estimates, matters, null, reference
        As in `verdicts`.

    Returns
    -------
    pandas.DataFrame
        The estimates with ``q_value`` over the rows here that have a test and a null (see `biaslab.stats.corrected`)
        and ``finding``: *above* or *below* the null (q is below .05, and the interval does not contain the null),
        *none* (nearer to the null than what matters, and the power for a shift that matters is 80 %), *blind*
        (inconclusive: anything else) or *untested*; with ``slight`` (significant, but nearer to the null than what
        matters), ``hedge`` (what else could explain it, see `biaslab.report.hedges`), ``null``, ``matters``, ``cell``
        (the attribute and what else tells rows apart), ``standing`` (among the judges of the reference) and
        ``sentence``.

    Raises
    ------
    InputError
        If a smallest effect is not above 0, or of a metric that the frame does not hold; or the reference is unknown.
    TrialsError
        If a column is missing.
    """
    require_columns(estimates, _NEEDED, "estimates")
    wanted = _sizes(matters or {}, estimates)
    others = None if reference is None else judges_of(reference)
    metrics = [_metric(*named, null) for named in zip(estimates["metric"], estimates["probe"], strict=True)]
    known = np.array([metric.null is not None for metric in metrics], bool)
    tested = corrected(estimates, known & estimates["p_value"].notna().to_numpy())
    metrics_differ, judges_differ = (len(set(estimates[name])) > 1 for name in ("metric", "judge"))
    over = correction(tested)
    names = _telling_apart(tested)
    rows = []
    for record, metric in zip(tested.to_dict("records"), metrics, strict=True):
        size = wanted.get(record["metric"], metric.matters)
        finding = _finding(record, metric.null, size)
        where = cell(record, names[record["judge"], record["probe"], record["metric"]])
        shift = abs(record["estimate"] - metric.null) if metric.null is not None else math.nan
        slight = finding in ("above", "below") and size is not None and is_above(size, shift)
        hedge = "; ".join(hedges(record, metric.null, finding, size))
        told = (record["judge"] if judges_differ else "", where, metric.label if metrics_differ else "")
        what = ", ".join(map(str, filter(None, told)))
        among = "" if others is None else _standing(record, finding, others)
        words = "; ".join(filter(None, (_words(record, metric, finding, slight, size), among, hedge)))
        sentence = f"{what}: {_evidence(record, over)}{words}".removeprefix(": ")
        where_null, least = (math.nan if value is None else value for value in (metric.null, size))
        rows.append((finding, slight, hedge, where_null, least, where, among, sentence))
    columns = dict(zip(ADDED, zip(*rows, strict=True), strict=True)) if rows else {"sentence": ()}
    return tested.assign(**{name: list(values) for name, values in columns.items()})


def _sizes(matters: Mapping[str, float], estimates: pd.DataFrame) -> dict[str, float]:
    for name, least in matters.items():
        if name not in set(estimates["metric"]) or not (isinstance(least, int | float) and 0 < least < math.inf):
            allowed = f"numbers above 0 by metric, among {', '.join(dict.fromkeys(estimates['metric']))}"
            raise InputError("matters", {name: least}, allowed)
    return dict(matters)


def significant(q: float) -> bool:
    """Return whether a q-value is below .05 by more than rounding."""
    return is_above(_ALPHA, q)


def _metric(name: str, probe: str, null: float | None) -> Metric:
    found = find_metric(name, probe)
    return found if found.null is not None else replace(found, null=null)


def _telling_apart(estimates: pd.DataFrame) -> dict[Any, list[str]]:
    """Return the columns that tell the rows of one judge and metric apart, the attribute always among them."""
    names: dict[Any, list[str]] = {}
    for key, part in estimates.groupby(["judge", "probe", "metric"], sort=False):
        found = conditions(part)
        names[key] = ["attribute"] * ("attribute" in found) + varying(part, [c for c in found if c != "attribute"])
    return names


def _finding(record: Mapping[Any, Any], null: float | None, size: float | None) -> Finding:
    if np.isnan(record["q_value"]) or null is None:
        return "untested"
    if significant(record["q_value"]):
        return "blind" if _contains(record, null) else "above" if record["estimate"] > null else "below"
    if not record["mde"] > 0:  # unknown, or contexts that do not vary
        return "blind"
    if size is None or (not is_above(record["mde"], size) and is_above(size, abs(record["estimate"] - null))):
        return "none"
    return "blind"


def _standing(record: Mapping[Any, Any], finding: Finding, others: pd.DataFrame) -> str:
    """Say where an estimate stands among others that compare: how many it exceeds, or, shown to be nothing, theirs."""
    peers = None if finding == "untested" else find_peers(record, others)
    if peers is None:
        return ""
    return peers.standing(record, finding == "above") if finding in ("above", "below") else peers.spread


def _contains(record: Mapping[Any, Any], null: float) -> bool:
    """Say whether there is an interval, and it contains the null or touches it."""
    low, high = record["ci_low"], record["ci_high"]
    return not (np.isnan(low) or np.isnan(high) or is_above(low, null) or is_above(null, high))


def _evidence(record: Mapping[Any, Any], over: str) -> str:
    """Write estimate, interval and test; a single test, for which nothing is corrected, as p."""
    if np.isnan(record["estimate"]):
        return ""
    bounds, written = interval(record["ci_low"], record["ci_high"]), probability(record["q_value"])
    sign = "" if written.startswith("<") else "= "
    test = f"p {sign}{written}" if over == ONE_TEST else f"q {sign}{written} over {over}"
    return f"{number(record['estimate'])} {bounds}{'' if np.isnan(record['q_value']) else f', {test}'}: "


def _words(record: Mapping[Any, Any], metric: Metric, finding: Finding, slight: bool, size: float | None) -> str:
    note = record.get("note")
    reason = note if isinstance(note, str) and note else "no test"
    if finding in ("above", "below"):
        words = (metric.above if finding == "above" else metric.below) or f"{finding} {number(metric.null, 1)}"
        return f"{words}, but less than what matters ({number(size, 2)})" if slight else words
    if finding == "untested":
        return f"not tested ({reason})"
    if finding == "none":
        return f"no effect detected; one of {number(record['mde'], 2)} would have been, with 80 % power"
    if significant(record["q_value"]):
        return f"inconclusive: significant, but the interval contains {number(metric.null, 1)}"
    if not record["mde"] > 0:
        return f"inconclusive ({reason})"
    if size is not None and not is_above(record["mde"], size):
        return f"not significant, though farther from {number(metric.null, 1)} than what matters ({number(size, 2)})"
    needed = "" if size is None else f", and {number(size, 2)} matters"
    return f"inconclusive: 80 % power takes a shift of {number(record['mde'], 2)}{needed}"
