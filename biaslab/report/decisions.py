"""Decide what an estimate shows: a bias, no bias that matters, or inconclusive."""

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
#: Why a finding is inconclusive: the test is significant but the interval contains the null, or the reverse; there is
#: no interval; the interval contains shifts that matter; no context has an effect, but there are too few contexts; too
#: few contexts for the number of tests; the result depends on missing judgements, or on human scores' reliability.
Doubt = Literal["", "contains", "leaves out", "unknown", "wide", "few", "powerless", "missing", "reliability"]
#: Share of contexts that may have an unseen effect, for a metric without bounds that does not vary.
RARE = 0.1


def decide(record: Mapping[Any, Any], null: float | None, size: float | None) -> tuple[Finding, Doubt]:
    """Return the finding for an estimate and, if inconclusive, the reason."""
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
    """Return the finding for a significant estimate, unless its interval, missing data or human error leave it open."""
    if side is None:
        return "blind", "contains"
    if decided_by_missing(record, null, side):
        return "blind", "missing"
    return ("blind", "reliability") if _needs_reliability(record) else (side, "")


def _needs_reliability(record: Mapping[Any, Any]) -> bool:
    """Return whether a finding depends on the unknown reliability of human scores."""
    return is_above(needed_reliability(reason(record, "")), LEAST_RELIABILITY)


def excludes(record: Mapping[Any, Any], null: float | None, size: float | None) -> bool:
    """Return whether the interval excludes every shift that matters."""
    if null is None or size is None:
        return False
    return is_above(record["ci_low"], null - size) and is_above(null + size, record["ci_high"])


def is_never(record: Mapping[Any, Any], size: float | None) -> bool:
    """Return whether no context shows an effect and no interval bounds its size."""
    unvarying = str(record.get("method", "")).startswith(WITHOUT_SPREAD)
    return unvarying and (size is None or record["ci_low"] == record["ci_high"])


def share_unseen(record: Mapping[Any, Any]) -> float:
    """Return the largest share of contexts that may have an effect although none was observed."""
    return unseen_share(max(int(record["n_contexts"]), 1), record["ci_level"])


def reason(record: Mapping[Any, Any], otherwise: str) -> str:
    """Return the note of an estimate, or a default if it has none."""
    note = record.get("note")
    return note if isinstance(note, str) and note else otherwise
