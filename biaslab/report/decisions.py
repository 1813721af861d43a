"""Decide what an estimate shows: a bias, none that matters, or nothing that its data can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from biaslab.stats import (
    BY_CONSTRUCTION,
    LEAST_RELIABILITY,
    WITHOUT_SPREAD,
    decided_by_missing,
    is_above,
    needed_reliability,
    side_of,
    significant,
    unseen_share,
)

Finding = Literal["above", "below", "none", "blind", "untested"]
#: Why a finding is inconclusive: the test is significant, but the interval contains the null; the reverse; there is no
#: interval; the interval contains shifts that matter; no context has an effect, but there are too few of them; so few
#: contexts cannot find anything among so many tests; what is missing decides, or how reliable human scores are.
Doubt = Literal["", "contains", "leaves out", "unknown", "wide", "few", "powerless", "missing", "reliability"]
#: Share of contexts that may have an effect although none was seen to, where a metric without bounds does not vary.
RARE = 0.1


def decide(record: Mapping[Any, Any], null: float | None, size: float | None) -> tuple[Finding, Doubt]:
    """Return what an estimate shows, and where that is inconclusive, why."""
    if record.get("method") == BY_CONSTRUCTION:
        return "none", ""
    if np.isnan(record["q_value"]) or null is None:
        return "untested", ""
    side = side_of(record, null)
    if significant(record["q_value"]):
        return _significant(record, null, side)
    if side:
        return "blind", "leaves out"
    low, high = record["ci_low"], record["ci_high"]
    if np.isnan([low, high]).any():
        return "blind", "unknown"
    if is_never(record, size):
        return ("none", "") if share_unseen(record) < RARE else ("blind", "few")
    if size is None:
        if record["detectable"] > 0:
            return "none", ""
        return "blind", "powerless" if record["mde"] > 0 else "unknown"
    if excludes(record, null, size):
        return "none", ""
    return "blind", "reliability" if _needs_reliability(record) else "wide"


def _significant(
    record: Mapping[Any, Any], null: float, side: Literal["above", "below"] | None
) -> tuple[Finding, Doubt]:
    """Return what a significant estimate shows, unless its interval, what is missing or human errors decide."""
    if side is None:
        return "blind", "contains"
    if decided_by_missing(record, null, side):
        return "blind", "missing"
    return ("blind", "reliability") if _needs_reliability(record) else (side, "")


def _needs_reliability(record: Mapping[Any, Any]) -> bool:
    """Return whether a finding holds only if human scores, whose errors are unknown, are reliable enough."""
    return is_above(needed_reliability(reason(record, "")), LEAST_RELIABILITY)


def excludes(record: Mapping[Any, Any], null: float | None, size: float | None) -> bool:
    """Return whether the interval excludes every shift that matters."""
    if null is None or size is None:
        return False
    return is_above(record["ci_low"], null - size) and is_above(null + size, record["ci_high"])


def is_never(record: Mapping[Any, Any], size: float | None) -> bool:
    """Return whether no context differs, and no interval says how large a shift could be that matters."""
    unvarying = str(record.get("method", "")).startswith(WITHOUT_SPREAD)
    return unvarying and (size is None or record["ci_low"] == record["ci_high"])


def share_unseen(record: Mapping[Any, Any]) -> float:
    """Return the largest share of contexts that may show an effect although none was seen to."""
    return unseen_share(max(int(record["n_contexts"]), 1), record["ci_level"])


def reason(record: Mapping[Any, Any], otherwise: str) -> str:
    """Return the note of an estimate, or other words where it has none."""
    note = record.get("note")
    return note if isinstance(note, str) and note else otherwise
