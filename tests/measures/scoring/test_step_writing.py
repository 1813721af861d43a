"""Steps that a judge writes: asked once, kept, read back, and in the prompts they are for."""

import pytest

import biaslab as bl
from biaslab import prompts
from biaslab.core import Choice, Completion, Reply, Usage
from biaslab.core.errors import InputError, TrialsError
from biaslab.measures.scoring import GEval, Rating, StepWriting, written_steps
from biaslab.measures.scoring.g_eval import parse_steps


class Writer:
    """A judge that writes steps when it is asked to, and says how often it was asked."""

    id, kinds = "writer", frozenset({Completion, Choice})

    def __init__(self, text="Steps:\n1. Read it.\n2) **Compare both.**\nStep 3: Decide."):
        self.text, self.asked = text, 0

    def check(self, requests):
        pass

    def ask(self, requests):
        for request in requests:
            self.asked += 1
            yield request, Reply(text=self.text, finish_reason="stop", usage=Usage(10, 0, 5))


@pytest.fixture
def data():
    return bl.load_dataset("graded", limit=2)


def test_steps_are_asked_once_per_attribute_and_enter_the_form(data, tmp_path):
    judge, writing = Writer(), StepWriting(["coherence", "fluency"])
    for _ in range(2):
        trials = bl.collect(writing, judge, data, store=tmp_path / "kept.sqlite", progress=False)
    assert judge.asked == 2
    steps = written_steps(trials)
    assert steps == {name: ["Read it.", "Compare both.", "Decide."] for name in ("coherence", "fluency")}
    scorer = GEval(["coherence", "fluency"], steps=steps)
    assert all("2. Compare both." in trial.request.messages[0].content for trial in scorer.design(data))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("- Read.\n- Rate.", ["Read.", "Rate."]),
        ("10. Ten.\n11: Eleven.", ["Ten.", "Eleven."]),
        ("The score is 1.\nIt has 3 parts.", []),
        (None, []),
    ],
)
def test_lists_are_read_and_sentences_are_not(text, steps):
    assert parse_steps(text) == steps


def test_a_reply_without_steps_is_no_steps(data):
    trials = bl.collect(StepWriting(["fluency"]), Writer("I rate it 4."), data, progress=False)
    assert trials["status"].tolist() == ["unparsable"]
    with pytest.raises(TrialsError, match="fluency"):
        written_steps(trials)


def test_a_recipe_has_the_steps_that_are_given_and_no_others(data):
    plain, stepped = (
        [trial.request.messages[0].content for trial in Rating(["fluency"], steps=steps).design(data)]
        for steps in ({}, {"fluency": ["Look.", "Decide."]})
    )
    assert "Evaluation steps" not in plain[0]
    assert stepped[0].replace("Evaluation steps:\n1. Look.\n2. Decide.\n\n", "") == plain[0]
    with pytest.raises(InputError, match="steps"):
        list(Rating(["fluency"], steps={"coherence": ["Look."]}).design(data))
    with pytest.raises(InputError, match="at least one"):
        Rating(["fluency"], steps={"fluency": "Look."})


def test_the_probe_hands_each_scorer_its_own(data):
    probe = bl.probes.Recipe(["fluency"], steps={"fluency": ["Own."]}, rival_steps={"fluency": ["Theirs."]})
    asked = {trial.condition["scorer"]: trial.request.messages[0].content for trial in probe.design(data)}
    assert [("1. Own." in asked[name], "1. Theirs." in asked[name]) for name in ("recipe", "g_eval")] == [
        (True, False),
        (False, True),
    ]
    assert "Own." not in asked["rate_explain"]


def test_known_steps_are_those_of_rose(data, tmp_path):
    with pytest.raises(InputError, match="rose"):
        prompts.protocol_steps(data)
