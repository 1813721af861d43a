"""Check estimates of a judge against limits that a user sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.output import number, with_interval
from biaslab.report.wording import cell, conditions, varying
from biaslab.stats.estimate import is_above
from biaslab.stats.frame import LEADING, require_columns
from biaslab.stats.missing import plausible_intervals

LimitStatus = Literal["inside", "outside", "unclear"]
_FORM = "LOW:HIGH, where one side may be omitted, such as .4:.6 or :.2"


@dataclass(frozen=True)
class Limit:
    """Allowed range of a metric, inclusive.

    Examples
    --------
    >>> Limit.read("first_position_rate", ".4:.6")
    Limit(low=0.4, high=0.6)
    """

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low <= self.high or (math.isinf(self.low) and math.isinf(self.high)):
            raise InputError("limit", f"{self.low:g}:{self.high:g}", _FORM)

    @classmethod
    def read(cls, metric: str, text: str) -> Limit:
        """Parse a limit such as ".4:.6"; `metric` is used in error messages."""
        low, colon, high = text.partition(":")
        try:
            if not colon or not (low.strip() or high.strip()):
                raise ValueError
            return cls(float(low) if low.strip() else -math.inf, float(high) if high.strip() else math.inf)
        except ValueError:
            raise InputError(f"limit of {metric}", text, _FORM) from None

    def place(self, low: float, high: float) -> LimitStatus:
        """Return whether an interval lies inside the limits, outside, or across one."""
        if np.isnan([low, high]).any():
            return "unclear"
        if is_above(low, self.high) or is_above(self.low, high):
            return "outside"
        return "unclear" if is_above(self.low, low) or is_above(high, self.high) else "inside"

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"at most {self.high:g}"
        return f"at least {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"


def check_limits(estimates: pd.DataFrame, limits: Mapping[str, Limit]) -> pd.DataFrame:
    """Check whether the intervals of metrics lie inside their limits.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame.
    limits : mapping of str to Limit
        By metric.

    Returns
    -------
    pandas.DataFrame
        The rows of these metrics with ``place``, "inside" (the whole interval), "outside" (the whole interval is beyond
        a limit) or "unclear" (it crosses a limit or is missing, or missing judgements or the unknown reliability of
        human scores could move it there), ``name`` (what distinguishes the row) and ``sentence``.

    Raises
    ------
    TrialsError
        If a metric has no row.

    Notes
    -----
    "Inside" is an equivalence test: it excludes a bias beyond the limit at half the error rate of the interval (2.5 %
    for 95 %). Failing to find a difference from the null would not be enough.

    References
    ----------
    Schuirmann 1987, *A comparison of the two one-sided tests procedure and the power approach*.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"probe": "position", "judge": "j", "dataset": "d", "metric": "first_position_rate", "estimate": 0.52}
    >>> frame = pd.DataFrame([row | {"ci_low": 0.47, "ci_high": 0.57, "ci_level": 0.95, "note": ""}])
    >>> check_limits(frame, {"first_position_rate": Limit(0.4, 0.6)})["sentence"].tolist()
    ['first_position_rate: inside 0.4 to 0.6: 0.520 [0.470, 0.570]']
    """
    require_columns(estimates, (*LEADING, "estimate", "ci_low", "ci_high"), "estimates")
    metrics = list(dict.fromkeys(estimates["metric"]))
    for name in limits:
        if name not in metrics:
            allowed = f"an estimated metric: {', '.join(metrics)}"
            raise TrialsError("limit", name, allowed, did_you_mean(name, metrics))
    chosen = estimates[estimates["metric"].isin(list(limits))]
    columns = ["judge"] * (len(set(chosen["judge"])) > 1) + varying(chosen, conditions(chosen))
    rows = chosen.to_dict("records")
    every = [{limits[row["metric"]].place(*each) for each in plausible_intervals(row).values()} for row in rows]
    places: list[LimitStatus] = [each.pop() if len(each) == 1 else "unclear" for each in every]
    names = [", ".join(filter(None, (row["metric"], cell(row, columns)))) for row in rows]
    sentences = []
    for row, name, place in zip(rows, names, places, strict=True):
        own = limits[row["metric"]].place(row["ci_low"], row["ci_high"])
        doubt = "too few contexts" if own == "unclear" else "missing judgements or unreliable human scores do not allow"
        where = f"{doubt} to tell whether inside" if place == "unclear" else place
        sentences.append(f"{name}: {where} {limits[row['metric']]}: {with_interval(row)}")
    return chosen.assign(place=places, name=names, sentence=sentences)


def check_runs(runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Combine the results of several runs of a study by majority, so that a random judge gives a stable result.

    A metric is inside (or outside) its limits if more than half of the runs say so, and unclear otherwise.

    Parameters
    ----------
    runs : sequence of pandas.DataFrame
        Results of `check_limits` for each run, with the same limits; at least one.

    Returns
    -------
    pandas.DataFrame
        The rows of the first run with the majority ``place``, the number of ``runs``, and how many said ``inside`` and
        ``outside``. ``error_rate`` bounds the probability that a metric on or beyond its limit is called inside,
        whatever the dependence between runs. ``sentence`` puts it into words.

    Raises
    ------
    InputError
        If there is no run, or the runs differ in their rows.

    Notes
    -----
    One run errs with probability at most α / 2 (2.5 % with 95 % intervals). Runs share contexts, so they are not
    independent. Under any dependence, m of K runs err with at most K / m times that probability (Rüger 1978), which is
    less than twice for a majority.

    References
    ----------
    Rüger 1978, *Das maximale Signifikanzniveau des Tests: "Lehne H₀ ab, wenn k unter n gegebenen Tests zur Ablehnung
    führen"*.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"probe": "position", "judge": "j", "dataset": "d", "metric": "first_position_rate", "ci_level": 0.95}
    >>> limit = {"first_position_rate": Limit(0.4, 0.6)}
    >>> runs = [
    ...     check_limits(pd.DataFrame([row | {"estimate": e, "ci_low": e - 0.05, "ci_high": e + 0.05}]), limit)
    ...     for e in (0.50, 0.52, 0.57)
    ... ]
    >>> print(check_runs(runs)["sentence"][0])
    first_position_rate: inside in 2 of 3 runs, estimates 0.500 to 0.570; error rate at most 3.8 %
    """
    if not runs:
        raise InputError.plain("runs are empty; pass at least one frame from check_limits")
    for run in runs:
        require_columns(run, (*LEADING, "estimate", "place", "name", "sentence"), "runs")
    names = [*LEADING, *conditions(runs[0].drop(columns=["place", "name", "sentence"]))]
    keys = [[tuple(map(str, key)) for key in run[names].itertuples(index=False)] for run in runs]
    if any(key != keys[0] for key in keys):
        raise InputError.plain("runs differ in their rows; run the same study each time")
    count, needed = len(runs), len(runs) // 2 + 1
    votes_for = {place: np.sum([run["place"] == place for run in runs], axis=0) for place in ("inside", "outside")}
    place = np.select([votes_for["inside"] >= needed, votes_for["outside"] >= needed], ["inside", "outside"], "unclear")
    estimates = np.array([run["estimate"] for run in runs], float)
    level = runs[0]["ci_level"].to_numpy(float) if "ci_level" in runs[0] else np.full(len(place), 0.95)
    rate = (1 - level) / 2 * count / needed
    sentences = []
    for at, name in enumerate(runs[0]["name"]):
        known = estimates[:, at][np.isfinite(estimates[:, at])]
        span = f", estimates {number(known.min())} to {number(known.max())}" if len(known) else ""
        votes = f"{votes_for.get(place[at], votes_for['inside'])[at]} of {count} runs"
        unclear = f"inside in {votes}, outside in {votes_for['outside'][at]}: unclear"
        majority = unclear if place[at] == "unclear" else f"{place[at]} in {votes}"
        error = f"; error rate at most {100 * rate[at]:.2g} %" if place[at] == "inside" else ""
        sentences.append(f"{name}: {majority}{span}{error}")
    columns = {"place": place, "runs": count, **votes_for, "error_rate": rate, "sentence": sentences}
    return runs[0].assign(**columns)


def to_junit(checked: pd.DataFrame, name: str = "biaslab check") -> str:
    """Format the result of `check_limits` as a JUnit report: outside is a failure, unclear an error.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"probe": "position", "place": "outside", "name": "first_position_rate", "sentence": "outside 0.4 to 0.6"}
    >>> print(to_junit(pd.DataFrame([row])).splitlines()[0])
    <testsuite name="biaslab check" tests="1" failures="1" errors="0">
    """
    counts = {kind: str(int((checked["place"] == kind).sum())) for kind in ("outside", "unclear")}
    facts = {"tests": str(len(checked)), "failures": counts["outside"], "errors": counts["unclear"]}
    suite = ElementTree.Element("testsuite", {"name": name, **facts})
    for row in checked.to_dict("records"):
        about = {"classname": str(row["probe"]), "name": str(row["name"])}
        case = ElementTree.SubElement(suite, "testcase", about)
        tag = {"outside": "failure", "unclear": "error"}.get(str(row["place"]))
        if tag:
            ElementTree.SubElement(case, tag, {"message": str(row["sentence"])})
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode")


def exit_code(places: Sequence[str]) -> int:
    """Return 1 if any place is outside, else 4 if any is unclear, else 0.

    Examples
    --------
    >>> exit_code(["inside"]), exit_code(["inside", "unclear"]), exit_code(["unclear", "outside"])
    (0, 4, 1)
    """
    return 1 if "outside" in places else 4 if "unclear" in places else 0
