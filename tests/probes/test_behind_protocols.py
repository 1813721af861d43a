"""Planted biases behind prompts and parsers of one's own are measured within the bands of every other metric."""

from dataclasses import dataclass, field

import pytest

import biaslab as bl
from biaslab import calibration

GRADED = bl.Protocol.from_template(
    "Question: {question}\n\n[A]\n{answer_a}\n\n[B]\n{answer_b}", pattern=r"\[\[([AB<>=]+)\]\]",
    verdicts={"A>>B": 1, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0},
)  # fmt: skip
JSON = bl.Protocol.from_template(
    '{question}\n\n{answer}\n\nRate {attribute}: {"score": 1 to 10}', "score", scale="1-10", json="score"
)
EXPLAINED = bl.Protocol.from_template(
    "{question}\n\n{answer}\n\nExplain, then rate {attribute}.", "score", scale="1-5",
    pattern=r"Explanation: .*\nRating: \[\[(\d)\]\]", writes="Explanation: it is clear.\nRating: [[{}]]",
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("base", "metric", "own"),
    [
        (bl.probes.Position, "first_position_rate", GRADED),
        (bl.probes.Verbosity, "verbosity_slope", JSON),
        (bl.probes.Edit, "score_excess", EXPLAINED),
    ],
    ids=["graded verdicts", "json", "explanation first"],
)
def test_probes_behind_a_protocol_keep_error_coverage_and_power(base, metric, own):
    @dataclass(frozen=True)
    class Behind(base):
        name = f"{base.name}_behind_a_protocol"
        protocol: bl.Protocol = field(default=own, kw_only=True)

    found = bl.validate([Behind], [metric], studies=400, contexts=[24], population=1500, modes=["text"])
    assert set(found["quantity"]) == {"type_i_error", "coverage", "power"}
    bad = calibration.outside(found)
    assert bad.empty, "\n".join(map(calibration.describe, bad.itertuples()))
    assert found.loc[found["quantity"] == "power", "estimate"].min() > 0.4
