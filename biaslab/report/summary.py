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


def sum_up(cells: pd.DataFrame, remedies: pd.DataFrame | None, over: str = ONE_TEST) -> dict[str, Any]:
    """Summarise all cells of one metric of one judge; cells without a test count only if there are no others.

    Parameters
    ----------
    cells : pandas.DataFrame
        The cells, from `biaslab.report.findings`.
    remedies : pandas.DataFrame, optional
        See `biaslab.report.remedy.best_remedy`.
    over : str
        Number of tests that were corrected for, in words.
    """
    tested = cells[cells["finding"] != "untested"]
    cells = tested if len(tested) else cells
    first, status = cells.iloc[0], _status(cells)
    metric = find_metric(first["metric"], first["probe"])
    shown = cells[cells["finding"].isin(["above", "below"])]
    strongest = _strongest(cells, shown)
    estimate, bounds = evidence(strongest.to_dict(), metric.null)
    advice = metric.advice if isinstance(metric.advice, tuple) else (metric.advice, metric.advice)
    ways = list(dict.fromkeys(shown["finding"])) if status == "bias" else []
    advised = "; ".join(dict.fromkeys(filter(None, (advice[way == "below"] for way in ways))))
    return {
        "judge": first["judge"],
        "probe": first["probe"],
        "metric": metric.name,
        "label": metric.label,
        "status": status,
        "verdict": _verdict(cells, shown, metric, status, strongest) + _hedges(cells, shown),
        "standing": strongest["standing"],
        "strongest": strongest["cell"],
        "estimate": estimate,
        "interval": bounds,
        "q": probability(strongest["q_value"]),
        "mde": size(strongest["mde"]),
        "detectable": detectable(strongest.to_dict(), over),
        "remedy": best_remedy(cells, remedies) if remedies is not None else "",
        "advice": advised,
        "to_do": advised or _to_do(status, strongest["doubt"]),
        "sides": tuple(ways),
        "n_open": int((cells["finding"] == "blind").sum()),
        "n_cells": len(cells),
    }


def _to_do(status: str, doubt: str) -> str:
    """Return the data that would settle an inconclusive finding, or an empty string."""
    return _DECIDES.get(doubt, "") if status == "unclear" else "nothing" if status in ("none", "slight") else ""


def _status(cells: pd.DataFrame) -> str:
    """Return the status of a metric from the findings of its cells; a bias in one cell is enough."""
    statuses = cells["finding"]
    biased = statuses.isin(["above", "below"])
    if biased.any():
        return "bias" if (biased & ~cells["slight"].astype(bool)).any() else "slight"
    return "unclear" if (statuses == "blind").any() else "none" if (statuses == "none").any() else "untested"


def _strongest(cells: pd.DataFrame, shown: pd.DataFrame) -> pd.Series:
    """Return the cell farthest from the null or, if none shows a bias, the least conclusive one."""
    if len(shown):
        return shown.iloc[int((shown["estimate"] - shown["null"]).abs().to_numpy().argmax())]
    torn = next((kind for kind in _TORN if kind in set(cells["doubt"])), None)
    open_cells = (
        cells[cells["doubt"] == torn] if torn else cells[cells["doubt"] != ""] if cells["doubt"].any() else cells
    )
    null, low, high = (open_cells[name].to_numpy(float) for name in ("null", "ci_low", "ci_high"))
    reach = np.maximum(null - low, high - null)
    return open_cells.iloc[int(np.where(np.isnan(reach), -1.0, reach).argmax())]


def _verdict(cells: pd.DataFrame, shown: pd.DataFrame, metric: Metric, status: str, strongest: pd.Series) -> str:
    """Return one verdict on all cells of a metric."""
    of = f" of {len(cells)}" if len(cells) > 1 else ""
    if len(shown):
        slight = int(shown["slight"].sum())
        aside = f", {slight} of them too small to matter" if slight and status == "bias" else ""
        aside = ", too small to matter" if status == "slight" else aside
        counts = shown["finding"].value_counts(sort=False)
        ways = [f"{side_words(metric, str(way))}{of and f' (in {n}{of})'}" for way, n in counts.items()]
        return "; ".join(ways) + aside
    if status == "untested":
        return _why(cells)
    alike = int((cells["doubt"] == strongest["doubt"]).sum())
    return f"{strongest['words']} (in {alike}{of})" if of else str(strongest["words"])


def _hedges(cells: pd.DataFrame, shown: pd.DataFrame) -> str:
    """Join the distinct hedges of the cells."""
    hedges = (shown if len(shown) else cells)["hedge"]
    return "".join(f"; {hedge}" for hedge in dict.fromkeys(hedges) if hedge)


def _why(cells: pd.DataFrame) -> str:
    return "; ".join(note for note in cells["note"].dropna().unique() if note) or "no interval"


def agreements(rows: pd.DataFrame) -> pd.DataFrame:
    """List the agreement of judges with reference scores: every cell if there are few, else their range."""
    cells = findings(rows[rows["estimate"].notna()]) if len(rows) else rows
    lines = []
    for (judge, probe, name), group in cells.groupby(["judge", "probe", "metric"], sort=False):
        label = find_metric(str(name), str(probe)).axis
        if len(group) > _FEW:
            above = int((group["ci_low"] > group["null"]).sum())
            reach = f"{number(group['estimate'].min())} to {number(group['estimate'].max())}"
            shown = f", shown above chance in {above} of {len(group)} cells"
            reach += shown if group["null"].notna().any() else f" in {len(group)} cells"
            text = {"cell": "", "estimate": reach, "interval": ""}
            chances = {"with_chance": int(group["null"].notna().sum()), "above_chance": above}
            lines.append({"judge": judge, "label": label, **text, **chances})
            continue
        for row in group.to_dict("records"):
            bounds = interval(row["ci_low"], row["ci_high"])
            chance = " (chance is not ruled out)" if row["ci_low"] <= row["null"] <= row["ci_high"] else ""
            text = {"estimate": number(row["estimate"]), "interval": bounds + chance}
            chances = {"with_chance": int(row["null"] == row["null"]), "above_chance": int(row["ci_low"] > row["null"])}
            lines.append({"judge": judge, "label": label, "cell": row["cell"], **text, **chances})
    columns = ["judge", "label", "cell", "estimate", "interval", "with_chance", "above_chance"]
    return pd.DataFrame(lines, columns=columns)
