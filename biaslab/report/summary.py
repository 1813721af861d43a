"""Summarise the verdicts on all cells of one metric of a judge, for cards and pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from biaslab.core import Metric, find_metric, is_primary
from biaslab.core.output import number
from biaslab.report.remedy import best_remedy
from biaslab.report.verdicts import detectable, findings, side_words
from biaslab.report.wording import ONE_TEST, evidence, interval, probability, size

_FEW = 4  # cells of agreement that a page lists
_TORN = ("contains", "leaves out")  # test and interval disagree: see `biaslab.report.decisions.Doubt`
#: What would settle an inconclusive finding, by the reason for it.
_DECIDES = {
    **dict.fromkeys(("contains", "leaves out", "wide", "few", "powerless"), "ask about more contexts"),
    "missing": "judge the missing items again",
    "reliability": "have a second person rate the texts",
}
#: Mark (distinguishable without colour) and words for each status on a card.
STATUS = {
    "bias": ("●", "found"),
    "slight": ("◐", "found, but slight"),
    "none": ("○", "no bias that matters"),
    "unclear": ("?", "inconclusive"),
    "untested": ("–", "not tested"),
}


def is_bias(metric: str, probe: str) -> bool:
    """Return whether a card gives a verdict on a metric: it is primary and not a quality metric."""
    return is_primary(metric, probe) and not find_metric(metric, probe).quality


def sum_up(part: pd.DataFrame, remedies: pd.DataFrame | None, over: str = ONE_TEST) -> dict[str, Any]:
    """Summarise all cells of one metric of one judge; cells without a test count only if there are no others.

    Parameters
    ----------
    part : pandas.DataFrame
        The cells, from `biaslab.report.findings`.
    remedies : pandas.DataFrame, optional
        See `biaslab.report.remedy.best_remedy`.
    over : str
        Number of tests that were corrected for, in words.
    """
    tested = part[part["finding"] != "untested"]
    part = tested if len(tested) else part
    first, status = part.iloc[0], _status(part)
    metric = find_metric(first["metric"], first["probe"])
    shown = part[part["finding"].isin(["above", "below"])]
    strongest = _strongest(part, shown)
    estimate, bounds = evidence(strongest.to_dict(), metric.null)
    advice = metric.advice if isinstance(metric.advice, tuple) else (metric.advice, metric.advice)
    ways = list(dict.fromkeys(shown["finding"])) if status == "bias" else []
    told = "; ".join(dict.fromkeys(filter(None, (advice[way == "below"] for way in ways))))
    return {
        "judge": first["judge"],
        "probe": first["probe"],
        "metric": metric.name,
        "label": metric.label,
        "status": status,
        "verdict": _verdict(part, shown, metric, status, strongest) + _hedges(part, shown),
        "standing": strongest["standing"],
        "strongest": strongest["cell"],
        "estimate": estimate,
        "interval": bounds,
        "q": probability(strongest["q_value"]),
        "mde": size(strongest["mde"]),
        "detectable": detectable(strongest.to_dict(), over),
        "remedy": best_remedy(part, remedies) if remedies is not None else "",
        "advice": told,
        "to_do": told or _to_do(status, strongest["doubt"]),
        "sides": tuple(ways),
        "n_open": int((part["finding"] == "blind").sum()),
        "n_cells": len(part),
    }


def _to_do(status: str, doubt: str) -> str:
    """Return what would settle an inconclusive finding, or an empty string."""
    return _DECIDES.get(doubt, "") if status == "unclear" else "nothing" if status in ("none", "slight") else ""


def _status(part: pd.DataFrame) -> str:
    kinds = part["finding"]
    biased = kinds.isin(["above", "below"])
    if biased.any():
        return "bias" if (biased & ~part["slight"].astype(bool)).any() else "slight"
    return "unclear" if (kinds == "blind").any() else "none" if (kinds == "none").any() else "untested"


def _strongest(part: pd.DataFrame, shown: pd.DataFrame) -> pd.Series:
    """Return the cell farthest from the null or, if none shows a bias, the least conclusive one."""
    if len(shown):
        return shown.iloc[int((shown["estimate"] - shown["null"]).abs().to_numpy().argmax())]
    torn = next((kind for kind in _TORN if kind in set(part["doubt"])), None)
    open_cells = part[part["doubt"] == torn] if torn else part[part["doubt"] != ""] if part["doubt"].any() else part
    null, low, high = (open_cells[name].to_numpy(float) for name in ("null", "ci_low", "ci_high"))
    reach = np.maximum(null - low, high - null)
    return open_cells.iloc[int(np.where(np.isnan(reach), -1.0, reach).argmax())]


def _verdict(part: pd.DataFrame, shown: pd.DataFrame, metric: Metric, status: str, strongest: pd.Series) -> str:
    """Return one verdict on all cells of a metric."""
    of = f" of {len(part)}" if len(part) > 1 else ""
    if len(shown):
        slight = int(shown["slight"].sum())
        aside = f", {slight} of them too small to matter" if slight and status == "bias" else ""
        aside = ", too small to matter" if status == "slight" else aside
        counts = shown["finding"].value_counts(sort=False)
        ways = [f"{side_words(metric, str(way))}{of and f' (in {n}{of})'}" for way, n in counts.items()]
        return "; ".join(ways) + aside
    if status == "untested":
        return _why(part)
    alike = int((part["doubt"] == strongest["doubt"]).sum())
    return f"{strongest['words']} (in {alike}{of})" if of else str(strongest["words"])


def _hedges(part: pd.DataFrame, shown: pd.DataFrame) -> str:
    """Join the distinct hedges of the cells."""
    said = (shown if len(shown) else part)["hedge"]
    return "".join(f"; {hedge}" for hedge in dict.fromkeys(said) if hedge)


def _why(part: pd.DataFrame) -> str:
    return "; ".join(note for note in part["note"].dropna().unique() if note) or "no interval"


def agreements(rows: pd.DataFrame) -> pd.DataFrame:
    """List the agreement of judges with reference scores: every cell if there are few, else their range."""
    cells = findings(rows[rows["estimate"].notna()]) if len(rows) else rows
    lines = []
    for (judge, probe, name), part in cells.groupby(["judge", "probe", "metric"], sort=False):
        label = find_metric(str(name), str(probe)).axis
        if len(part) > _FEW:
            above = int((part["ci_low"] > part["null"]).sum())
            reach = f"{number(part['estimate'].min())} to {number(part['estimate'].max())}"
            shown = f", shown above chance in {above} of {len(part)} cells"
            reach += shown if part["null"].notna().any() else f" in {len(part)} cells"
            text = {"cell": "", "estimate": reach, "interval": ""}
            chances = {"with_chance": int(part["null"].notna().sum()), "above_chance": above}
            lines.append({"judge": judge, "label": label, **text, **chances})
            continue
        for row in part.to_dict("records"):
            bounds = interval(row["ci_low"], row["ci_high"])
            chance = " (chance is not ruled out)" if row["ci_low"] <= row["null"] <= row["ci_high"] else ""
            text = {"estimate": number(row["estimate"]), "interval": bounds + chance}
            chances = {"with_chance": int(row["null"] == row["null"]), "above_chance": int(row["ci_low"] > row["null"])}
            lines.append({"judge": judge, "label": label, "cell": row["cell"], **text, **chances})
    columns = ["judge", "label", "cell", "estimate", "interval", "with_chance", "above_chance"]
    return pd.DataFrame(lines, columns=columns)
