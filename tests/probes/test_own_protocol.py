"""Probes that ask with somebody's own prompt, and read with their own parser."""

from dataclasses import dataclass, field

import pandas as pd
import pytest

import biaslab as bl
from biaslab import calibration
from biaslab.core import Choice, Completion, Reply
from biaslab.core.errors import InputError, NearestDesignWarning, UnlabelledRepliesError, UnsupportedRequestError
from biaslab.judges.api.batch import export_batch

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
def test_position_bias_is_equal_behind_every_protocol(graded, way):
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


def test_heading_without_slot_precedes_its_text(graded):
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
    with pytest.raises(InputError, match="one of the form pair"):
        bl.probes.Position(protocol=bl.Protocol.from_template("{answer}", "score", scale="1-5"))


def test_two_protocols_are_two_cells(graded):
    judge = bl.SimulatedJudge(graded, **BIASED)
    probes = [bl.probes.Position(["coherence"], protocol=_protocol(way)) for way in ("labels", "json")]
    trials = pd.concat([bl.collect(probe, judge, graded, progress=False) for probe in probes])
    assert probes[0].estimate(trials, ["first_position_rate"])["template"].nunique() == 2


RUBRIC = "{question}\n\n{answer}\n\nRate the answer's {attribute}."
SCORED = {
    "free": {"scale": "1-5"},
    "marked": {"scale": (1, 10), "pattern": r"\[\[(\d+(?:\.\d+)?)\]\]"},
    "json": {"scale": "1-100", "json": "score"},
}


@pytest.mark.parametrize("way", SCORED)
def test_scores_are_asked_and_read_as_the_judge_is_deployed(graded, way):
    protocol = bl.Protocol.from_template(RUBRIC, "score", name="mine", **SCORED[way])
    probe = bl.probes.Verbosity(["coherence"], protocol=protocol)
    judge = bl.SimulatedJudge(graded, quality=0.5, verbosity=1.0)
    trials = bl.collect(probe, judge, graded, progress=False)
    ours = bl.probes.Verbosity(["coherence"], scale=protocol.scale.name, answer="text", temperature=0)
    expected = bl.collect(ours, judge, graded, progress=False)
    assert trials["value"].tolist() == expected["value"].tolist()
    estimates = [each.estimate(rows, ["verbosity_slope"]) for each, rows in ((probe, trials), (ours, expected))]
    assert estimates[0]["protocol"].tolist() == [protocol.id]
    assert estimates[0]["estimate"].item() == estimates[1]["estimate"].item() > 0


def test_grades_are_scores_too(graded):
    protocol = bl.Protocol.from_template(RUBRIC, "score", {"C": 1, "P": 0.5, "I": 0}, pattern=r"GRADE: ([CPI])")
    probe = bl.probes.Verbosity(["coherence"], protocol=protocol)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, quality=0.5, verbosity=1.0), graded, progress=False)
    assert set(trials["value"]) == {0.0, 1.0}
    trial = next(iter(probe.design(graded)))
    assert probe.read(trial, Reply(text="Partly. GRADE: P")) == (0.5, "ok")
    assert set(trials["scale"]) == {"0-1"}


def test_label_probabilities_of_scores_are_those_of_the_labels(graded):
    labels = {str(number): number for number in (3, 1, 5, 2, 4)}
    protocol = bl.Protocol.from_template(RUBRIC, "score", labels, answer="label")
    judge = bl.SimulatedJudge(graded, verbosity=1.0)
    probes = [bl.probes.Verbosity(["coherence"], **how) for how in ({"protocol": protocol}, {})]
    values = [bl.collect(probe, judge, graded, progress=False)["value"] for probe in probes]
    assert values[0].to_numpy() == pytest.approx(values[1].to_numpy())


def test_score_protocols_are_cells_and_evaluators_have_none(graded):
    protocols = [bl.Protocol.from_template(RUBRIC, "score", **SCORED[way]) for way in ("free", "json")]
    probes = [bl.probes.Verbosity(["coherence"], protocol=protocol) for protocol in protocols]
    judge = bl.SimulatedJudge(graded, verbosity=1.0)
    trials = pd.concat([bl.collect(probe, judge, graded, progress=False) for probe in probes])
    assert set(probes[0].estimate(trials, ["verbosity_slope"])["protocol"]) == {each.id for each in protocols}
    with pytest.warns(NearestDesignWarning, match="does not use the protocol"):
        by_length = bl.collect(probes[0], lambda candidate: min(5, 1 + len(candidate) / 200), graded, progress=False)
    assert by_length["value"].notna().all()
    assert "protocol" not in by_length
    with pytest.raises(InputError):
        bl.probes.Verbosity(protocol=bl.Protocol.from_template(RUBRIC, "score", {"a": 0.2, "b": 0.7}))
    with pytest.raises(InputError, match="one of the form score"):
        bl.probes.ScoreDistribution(protocol=_protocol("labels"))


JOINT = "{question}\n\n{answer}\n\nRate every criterion."
SEVERAL = {
    "json": {"scale": "1-5", "json": "ratings.{attribute}.score"},
    "lines": {"scale": "1-5", "pattern": r"{attribute}: \[\[(\d)\]\]"},
}


@pytest.mark.parametrize("way", SEVERAL)
def test_one_reply_judges_several_attributes(graded, way):
    protocol = bl.Protocol.from_template(JOINT, "score", name="all", **SEVERAL[way])
    assert protocol.joint
    assert protocol.parse(protocol.write(4, "fluency"), "fluency") == (4.0, "ok")
    assert protocol.parse(protocol.write(4, "fluency"), "coherence")[1] == "off_format"
    probe = bl.probes.Verbosity(["coherence", "fluency"], protocol=protocol)
    judge = bl.SimulatedJudge(graded, verbosity=1.0)
    trials = bl.collect(probe, judge, graded, progress=False)
    assert trials.attrs["asked"] == len(trials) // 2 == len(graded.candidates)
    assert set(trials["status"]) == {"ok"}
    separate = bl.probes.Verbosity(["fluency"], answer="text", temperature=0)
    alone = bl.collect(separate, judge, graded, progress=False)
    both = trials[trials["attribute"] == "fluency"]["value"]
    assert both.tolist() == alone["value"].tolist()
    estimates = probe.estimate(trials, ["verbosity_slope"])
    assert estimates["attribute"].tolist() == ["coherence", "fluency"]


def test_a_prompt_that_shows_the_attribute_is_asked_for_each(graded):
    protocol = bl.Protocol.from_template(JOINT + " {attribute}", "score", **SEVERAL["json"])
    assert not protocol.joint
    trials = bl.collect(
        bl.probes.Verbosity(["coherence", "fluency"], protocol=protocol),
        bl.SimulatedJudge(graded),
        graded,
        progress=False,
    )
    assert trials.attrs["asked"] == len(trials)


def test_columns_of_a_user_table_fill_slots(tmp_path):
    rows = [
        {"context": f"Question {n}", "system": name, "text": f"{name} {n}", "rubric": f"Rubric {n}", "notes": name}
        for n in range(3)
        for name in ("x", "y")
    ]
    data = bl.load_dataset("tabular", data=pd.DataFrame(rows), attributes=["quality"], variables=["rubric", "notes"])
    assert data.variables == ("rubric", "notes")
    template = "{rubric}\n{question}\n{answer_a} ({first_notes})\n{answer_b} ({second_notes})"
    protocol = bl.Protocol.from_template(template, verdicts={"[[A]]": 1, "[[B]]": 0})
    trial = next(iter(bl.probes.Position(["quality"], protocol=protocol).design(data)))
    assert trial.request.messages[0].content == "Rubric 0\nQuestion 0\nx 0 (x)\ny 0 (y)"
    other = bl.Protocol.from_template("{notes} {answer_a} {answer_b}", verdicts={"[[A]]": 1, "[[B]]": 0})
    with pytest.raises(InputError, match="variable is 'notes', allowed: one of rubric, first_rubric, first_notes"):
        list(bl.probes.Position(["quality"], protocol=other).design(data))
    with pytest.raises(bl.errors.DatasetError, match=r"column 'rubrik'.* of the file: .*rubric"):
        bl.load_dataset("tabular", data=pd.DataFrame(rows), attributes=["quality"], variables=["rubrik"])


def test_protocols_have_names_in_the_projects_file(graded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text(TEMPLATE)
    (tmp_path / "biaslab.toml").write_text(
        "[judges.fair]\njudge = 'simulated:noise=1'\n\n"
        "[protocols.deployed]\nfile = 'mine.txt'\nverdicts = {'[[A]]' = 1, '[[B]]' = 0}\n\n"
        "[protocols.rubric]\ntemplate = '{question} {answer}'\nform = 'score'\nscale = '1-5'\n\n"
        "[protocols.wrong]\nfile = 'mine.txt'\nverdikts = 3\n"
    )
    probe = bl.probes.Position(["coherence"], protocol="deployed")
    assert probe.protocol.name == "deployed"
    assert bl.probes.Verbosity(["coherence"], protocol="rubric").protocol.form == "score"
    with pytest.raises(InputError, match=r"biaslab.toml: protocols.wrong is 'verdikts', allowed: file or template"):
        bl.probes.Position(protocol="wrong")
    assert bl.load_judge("fair", graded).noise == 1


def test_template_compares_user_protocols(graded):
    judge = bl.SimulatedJudge(graded, **BIASED)
    protocols = [_protocol("labels"), _protocol("json", system="Judge.")]
    probe = bl.probes.Template(["coherence"], protocols=protocols)
    trials = bl.collect(probe, judge, graded, progress=False)
    assert (probe.form, set(trials["template"])) == ("pair", {each.id for each in protocols})
    row = probe.estimate(trials, ["template_shift"]).iloc[0]
    assert (row["template"], row["estimate"]) == (protocols[1].id, 0.0)  # the simulated judge reads no prompt
    rubrics = [bl.Protocol.from_template(f"{RUBRIC}{end}", "score", **SCORED["free"]) for end in ("", " Be brief.")]
    scores = bl.probes.Template(["coherence"], protocols=rubrics)
    trials = bl.collect(scores, judge, graded, progress=False)
    assert scores.estimate(trials, ["template_shift"])["estimate"].tolist() == [0.0]
    for wrong, words in (
        (protocols[:1], "at least two"), ([protocols[0], rubrics[0]], "of the same form"),
        ([rubrics[0], bl.Protocol.from_template(RUBRIC, "score", **SCORED["json"])], "with the same scale"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            bl.probes.Template(protocols=wrong)


def test_a_panel_reads_its_members_with_the_protocol(graded):
    class Saying(Writer):
        def __init__(self, name, text):
            self.id, self.text = name, text

        def ask(self, requests):
            return ((request, Reply(text=self.text)) for request in requests)

    said = ("It is close. [[A>B]]", "[[A>B]], I think.", "Summary B [[B>>A]]")
    panel = bl.Panel([Saying(f"member {i}", text) for i, text in enumerate(said)])
    probe = bl.probes.Position(["coherence"], protocol=_protocol("graded"))
    assert set(bl.collect(probe, panel, graded, progress=False)["value"]) == {0.75}
    divided = bl.Panel([Saying(f"member {i}", text) for i, text in enumerate(said[1:])])
    with pytest.raises(UnlabelledRepliesError, match="off_format"):  # the mean of 0.75 and 0 is none of the verdicts
        bl.collect(probe, divided, graded, progress=False)
    tied = bl.Panel([Saying("one", "[[A>>B]]"), Saying("other", "[[B>>A]]")])
    assert set(bl.collect(probe, tied, graded, progress=False)["status"]) == {"tie"}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["pair", "score"])
def test_plan_mitigation_show_and_batch_accept_a_protocol(graded, tmp_path, form):
    own = _protocol("graded") if form == "pair" else bl.Protocol.from_template(RUBRIC, "score", **SCORED["json"])
    kind = bl.probes.Position if form == "pair" else bl.probes.Verbosity
    probe, judge, store = kind(["coherence"], protocol=own), bl.SimulatedJudge(graded, **BIASED), tmp_path / "s.sqlite"
    trials = bl.collect(probe, judge, graded, store=store, progress=False)
    planned = bl.plan(probe, judge, graded)
    assert planned.requests == planned.contexts * len(trials) / graded.n_contexts
    if form == "pair":
        averaged = bl.mitigation.order_averaging(trials)
        assert probe.estimate(averaged, ["first_position_rate"])["estimate"].item() == 0.5
    else:
        assert bl.mitigation.length_regression(trials)["value"].notna().all()
    shown = bl.show(trials, store=store, dataset=graded, probe=probe, n=2)._repr_html_()
    assert ("[B]" if form == "pair" else "Rate the answer") in shown
    assert judge.id in shown
    remote = bl.ApiJudge("m", "http://127.0.0.1:9/v1")
    exported = export_batch(remote, [trial.request for trial in probe.design(graded.head(1))], tmp_path / "batch.jsonl")
    assert (
        len((tmp_path / "batch.jsonl").read_text().splitlines()) == exported.requests == len(trials) / graded.n_contexts
    )


GRADED_behind_protocols = bl.Protocol.from_template(
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
        (bl.probes.Position, "first_position_rate", GRADED_behind_protocols),
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
