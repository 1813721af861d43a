"""What is said of compared candidates whatever the design: every readable reply counts, whole pairs or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from biaslab.stats import Ratio, Resampling, estimate_rows, estimates_frame

NAME = "replies"
_CELL = ("judge", "dataset", "attribute", "template")
_UNIT = (0.0, 1.0)


def describe_pairs(trials: pd.DataFrame, resampling: Resampling) -> pd.DataFrame:
    """Describe pair trials; what needs human scores is left out where there are none.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of `biaslab.read_judgements`.
    resampling : Resampling
        Of the estimates.

    Returns
    -------
    pandas.DataFrame
        Estimates, one a judge × data set × attribute × template:

        ``readable_rate`` (0–1)
            Share of replies that give a verdict.
        ``first_position_rate`` (0–1)
            Share of decisions, ties aside, for the first. Unlike that of `biaslab.probes.Position` it counts replies
            whose twin in the other order is missing, so that candidates that are often shown first may move it; no
            test.
        ``comparative_accuracy`` (0–1)
            Share of decisions between candidates with different human scores that go as humans do.
        ``accuracy_both_orders`` (0–1)
            Share of pairs that are decided as humans do in both orders.
        ``win_rate`` (0–1; column ``system``)
            Mean probability that a candidate wins, a tie counting ½.
        ``accuracy_shown_first`` (0–1; column ``system``)
            ``comparative_accuracy`` where this candidate is shown first.
    """
    rows: list[dict[str, Any]] = []
    for names, cell in trials.groupby(list(_CELL), sort=False):
        where = dict(zip(_CELL, names, strict=True)) | {"system": ""}
        usable = cell["status"].isin(["ok", "tie"]) & cell["value"].notna()
        counts = int(usable.sum()), int((~usable).sum())
        readable = Ratio(cell["context_id"], usable, np.ones(len(cell)), bounds=_UNIT, inference="t")
        found = {"readable_rate": readable, **_of_replies(cell[usable])}
        estimates = {name: ratio.estimate(resampling) for name, ratio in found.items()}
        rows += estimate_rows(estimates, where, resampling, *counts)
        for system, ratios in _of_systems(cell[usable]):
            estimates = {name: ratio.estimate(resampling) for name, ratio in ratios.items()}
            rows += estimate_rows(estimates, where | {"system": system}, resampling, *counts)
    return estimates_frame(rows, NAME, (), ("attribute", "template", "system"))


def _decided(found: pd.DataFrame) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Return which replies decide, for whom, and which of them can be right."""
    decides = (found["status"] == "ok") & (found["value"] != 0.5)
    first = found["value"] > 0.5
    rated = decides & (found["human_gap"].fillna(0) != 0)
    return decides, first, rated


def _of_replies(found: pd.DataFrame) -> dict[str, Ratio]:
    decides, first, rated = _decided(found)
    known = decides & found["order_known"].astype(bool)
    right = rated & (first == (found["human_gap"] > 0))
    unrated = "undefined: no human scores that differ"
    missing = "undefined: which was shown first is unknown"
    shown = {"first_position_rate": Ratio(found["context_id"], first & known, known, None, _UNIT, missing, "t")}
    if not rated.any():
        return shown
    return shown | {
        "comparative_accuracy": Ratio(found["context_id"], right, rated, None, _UNIT, unrated, "t"),
        "accuracy_both_orders": _both_orders(found[found["human_gap"].fillna(0) != 0], right, unrated),
    }


def _both_orders(found: pd.DataFrame, right: pd.Series, missing: str) -> Ratio:
    one, two = found["candidate_id"], found["opponent_id"]
    ahead = one < two
    keys = [found["context_id"], one.where(ahead, two), two.where(ahead, one), found["replicate"]]
    pairs = right[found.index].groupby(keys).agg(["sum", "size"])
    whole = pairs[pairs["size"] == 2]
    return Ratio(whole.index.get_level_values(0), whole["sum"] == 2, np.ones(len(whole)), None, _UNIT, missing, "t")


def _of_systems(found: pd.DataFrame) -> Iterator[tuple[str, dict[str, Ratio]]]:
    _, first, rated = _decided(found)
    right = rated & (first == (found["human_gap"] > 0))
    rated = rated & found["order_known"].astype(bool)
    unrated = "undefined: no human scores that differ"
    groups = [found.groupby(name, sort=False).groups for name in ("candidate_id", "opponent_id")]
    for system in dict.fromkeys((*groups[0], *groups[1])):
        shown, against = (found.loc[places.get(system, [])] for places in groups)
        context = pd.concat([shown["context_id"], against["context_id"]])
        wins = pd.concat([shown["value"], 1 - against["value"]])
        ratios = {"win_rate": Ratio(context, wins, np.ones(len(wins)), None, _UNIT, inference="t")}
        if rated.any():
            at, where = shown.index, shown["context_id"]
            ratios["accuracy_shown_first"] = Ratio(where, right[at], rated[at], None, _UNIT, unrated, "t")
        yield str(system), ratios
