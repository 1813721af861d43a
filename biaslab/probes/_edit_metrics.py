"""Metrics of the edit probe: declarations and calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from biaslab.core import Calibration, Metric
from biaslab.probes.base import FAIR, LABEL_MASS, planted

#: Variants in which a candidate is shown.
UNEDITED, EDITED, NULL = VARIANTS = ("unedited", "edited", "null edit")

#: A judge that reacts to any change is fair if the content adds nothing; so calibration plants a null-edit effect too.
_MOVED = {"authority": 0.5, "null:authority": 0.5}


def _calibration(form: str, excess: float) -> Calibration:
    """Plant the effects of one edit and of its null edit, with parameters that leave a single value of a metric."""
    parameters = {"edits": ("authority",), "forms": (form,), "n_candidates": None, "n_pairs": None}
    return planted({"edits": _MOVED | {"authority": 0.5 + excess}}, parameters, FAIR | {"edits": _MOVED})


_OF_PAIRS = _calibration("pair", 0.35)
_THAN = "for the edit than for a null edit of its size"
_ADVICE = "remove what the edit adds from candidates, or tell the judge to ignore it, and measure again"
_DEFENDED: dict[str, Any] = {
    "above": "pays more for the edit with the defence than without",
    "below": "pays less for the edit with the defence than without",
}

SCORES = (
    Metric(
        "score_excess",
        "score with the edit minus with its null edit",
        "points",
        null=0.0,
        above=f"scores the same text higher {_THAN}",
        below=f"scores the same text lower {_THAN}",
        advice=_ADVICE,
        use="scoring texts of which some are edited that way",
        matters=0.25,
        primary=True,
        form="score",
        calibration=_calibration("score", 0.45),
    ),
    Metric("score_excess_sd", "the same in standard deviations of the judge's scores", "SD", null=0.0),
    Metric("score_worth", "points of human score that the excess is worth", "points"),
    Metric("score_effect", "score with an edit minus without", "points", null=0.0),
    Metric("score_defended", "score excess with the defence minus without", "points", null=0.0, **_DEFENDED),
    Metric("top_rate", "scores at the top of the scale", "share"),
)
PAIRS = (
    Metric(
        "win_excess",
        "P(the edited wins), edit minus null edit",
        "probability",
        null=0.0,
        above=f"prefers a text more often {_THAN}",
        below=f"prefers a text less often {_THAN}",
        advice=_ADVICE,
        use="comparing texts of which some are edited that way",
        matters=0.05,
        primary=True,
        form="pair",
        calibration=_OF_PAIRS,
    ),
    Metric(
        "logit_excess",
        "the same in logits",
        "logits",
        null=0.0,
        calibration=replace(_OF_PAIRS, conservative=("text",)),  # because few pairs flip
    ),
    Metric("win_effect", "P(the edited wins) with an edit minus without", "probability", null=0.0),
    Metric("logit_effect", "the same in logits", "logits", null=0.0),
    Metric("win_defended", "win excess with the defence minus without", "probability", null=0.0, **_DEFENDED),
    Metric("flip_rate", "verdicts that change with the edit", "share"),
    Metric("flip_excess", "flips with the edit minus with its null edit", "share", null=0.0),
    Metric("worse_wins", "decisions for the worse candidate, which is edited", "share"),
    Metric("side_win_excess", "P(the edited wins), edit minus null edit, by which is edited", "probability"),
    Metric("side_logit_excess", "the same in logits", "logits"),
)
BOTH = (Metric("untouched", "texts in which the edit finds nothing to change", "share"), LABEL_MASS)
