"""Probes that ask with somebody's own prompt, and read with their own parser."""

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Reply
from biaslab.core.errors import InputError, NearestDesignWarning, UnsupportedRequestError

TEMPLATE = "Question: {question}\n\n[A]\n{answer_a}\n\n[B]\n{answer_b}\n\nCompare both, then give your verdict."
GRADED = {"A>>B": 1, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0}
WAYS = {
    "labels": {"verdicts": {"[[A]]": 1, "[[B]]": 0, "[[C]]": 0.5}},
    "graded": {"verdicts": GRADED, "pattern": r"\[\[([AB<>=]+)\]\]"},
    "json": {"verdicts": {"A": 1, "B": 0}, "json": "result.winner"},
    "words first": {"verdicts": {"first": 1, "second": 0}, "pattern": r"Explanation: .*\nWinner: (\w+)",
                    "writes": "Explanation: one is clearer.\nWinner: {}"},
}  # fmt: skip
BIASED = {"position": 0.8, "verbosity": 0.5, "quality": 0.7}


def _protocol(way, **options):
    return bl.Protocol.from_template(TEMPLATE, name="mine", **WAYS[way], **options)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_planted_is_measured_the_same_behind_any_prompt(graded, way):
    judge = bl.SimulatedJudge(graded, **BIASED)
    own = bl.probes.Position(["coherence"], protocol=_protocol(way))
    ours = bl.probes.Position(["coherence"], templates=[1], answer="text", temperature=0)
    trials, expected = (bl.collect(probe, judge, graded, progress=False) for probe in (own, ours))
    assert trials["value"].tolist() == expected["value"].tolist()
    assert set(trials["template"]) == {own.protocol.id}
    metric = ["first_position_rate"]
    rows = [probe.estimate(trials, metric)["estimate"].item() for probe in (own, ours)]
    assert rows[0] == rows[1] > 0.6


def test_label_probabilities_are_those_of_the_verdicts(graded):
    protocol = bl.Protocol.from_template(
        "{question}\n{answer_a}\n{answer_b}\nBetter:", verdicts={"tie": 0.5, "B": 0, "A": 1}, answer="label"
    )
    judge = bl.SimulatedJudge(graded, **BIASED, ties=0.2)
    probe = bl.probes.Position(["coherence"], protocol=protocol)
    requests = [trial.request for trial in probe.design(graded)]
    assert all(isinstance(request, Choice) and request.labels == ("A", "B", "tie") for request in requests)
    ours = bl.probes.Position(["coherence"], templates=[1], ties=True)
    values = [bl.collect(each, judge, graded, progress=False)["value"] for each in (probe, ours)]
    assert values[0].to_numpy() == pytest.approx(values[1].to_numpy())
    assert probe.ties


class Writer:
    """A simulated judge that gives no probabilities."""

    id, kinds = "writer", frozenset({Completion})

    def __init__(self, judge):
        self.judge = judge

    def check(self, requests):
        """Refuse all but text."""
        for request in requests:
            if not isinstance(request, Completion):
                raise UnsupportedRequestError("text only", request)

    def ask(self, requests):
        """Answer as the judge does."""
        return self.judge.ask(requests)


def test_a_judge_without_probabilities_is_asked_for_text(graded):
    protocol = bl.Protocol.from_template(
        "{question}\n{answer_a}\n{answer_b}\nBetter:", verdicts={"B": 0, "A": 1}, answer="label", max_tokens=3
    )
    probe = bl.probes.Position(["coherence"], protocol=protocol)
    with pytest.warns(NearestDesignWarning, match="reads text"):
        trials = bl.collect(probe, Writer(bl.SimulatedJudge(graded, **BIASED)), graded, progress=False)
    assert set(trials["status"]) == {"ok"}


@pytest.mark.parametrize("kind", [bl.probes.Position, bl.probes.Comparative, bl.probes.Vacuum, bl.probes.Edit])
def test_every_probe_of_pairs_takes_a_protocol(graded, kind):
    probe = kind(attributes=["coherence"], protocol=_protocol("labels"))
    asked = [trial for trial in probe.design(graded) if trial.opponent_id is not None]
    assert asked
    for trial in asked:
        assert "[B]" in trial.request.messages[0].content
        assert probe.read(trial, Reply(text="[[A]]")) == (1.0, "ok")


def test_what_has_no_slot_stands_before_the_text_it_is_about(graded):
    probe = bl.probes.Vacuum(attributes=["coherence"], protocol=_protocol("labels"))
    trial = next(trial for trial in probe.design(graded) if trial.condition["named_first"])
    heading = trial.condition["named_first"]
    assert f"[A]\n({heading})\n" in trial.request.messages[0].content


def test_a_file_is_a_parameter(graded, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f"template = '''{TEMPLATE}'''\n[verdicts]\n'[[A]]' = 1\n'[[B]]' = 0\n")
    probe = bl.probes.Position(["coherence"], protocol=path)
    assert probe.protocol == bl.Protocol.from_file(path)
    assert bl.probes.Position(["coherence"], protocol=str(path)) == probe
    with pytest.raises(InputError, match="compares pairs"):
        bl.probes.Position(protocol=bl.Protocol.from_template("{answer}", "score", scale="1-5"))


def test_two_protocols_are_two_cells(graded):
    judge = bl.SimulatedJudge(graded, **BIASED)
    probes = [bl.probes.Position(["coherence"], protocol=_protocol(way)) for way in ("labels", "json")]
    trials = pd.concat([bl.collect(probe, judge, graded, progress=False) for probe in probes])
    assert probes[0].estimate(trials, ["first_position_rate"])["template"].nunique() == 2
