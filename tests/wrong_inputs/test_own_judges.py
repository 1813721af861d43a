"""Judges, trials and notebooks of people's own that do not keep to what is agreed: each is told what is."""

import math
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core import Choice
from biaslab.core.errors import InputError, JudgeError, MissingDependencyError, TrialsError
from biaslab.core.interfaces import received
from biaslab.core.project import parameters_cell, require_known
from biaslab.judges import loading

ROOT = Path(__file__).resolve().parents[2]
GOOD = bl.Reply(logprobs=(math.log(0.6), math.log(0.4)))


class Own:
    """A judge that gives whatever it is told to."""

    id = "own:v1"
    kinds = frozenset({Choice})

    def __init__(self, answer):
        self.answer = answer

    def check(self, requests):
        pass

    def ask(self, requests):
        return self.answer(list(requests))


#: What `ask` returns, and words of the error.
ANSWERS = {
    "a string": (lambda requests: "A", "Own.ask returned 'A', allowed: pairs of request and reply; yield request"),
    "a string for each": (
        lambda requests: [(request, "A") for request in requests],
        "Own.ask yielded a request with 'A', allowed: a request with a Reply with logprobs, one natural logarithm per",
    ),
    "replies alone": (lambda requests: [GOOD for _ in requests], "allowed: a request with a biaslab.Reply"),
    "one log-probability for two labels": (
        lambda requests: [(request, bl.Reply(logprobs=(-0.1,))) for request in requests],
        "as logprobs, allowed: 2 numbers, the natural logarithms for the labels",
    ),
    "nothing": (lambda requests: None, "Own.ask returned None, allowed: pairs of request and reply"),
    "nothing for each": (
        lambda requests: [(request, None) for request in requests],
        "Own.ask yielded a request with None, allowed: a request with a Reply with logprobs",
    ),
    "an empty reply": (
        lambda requests: [(request, bl.Reply()) for request in requests],
        "yielded an empty Reply, allowed: a Reply with logprobs",
    ),
    "too few": (lambda requests: [(requests[0], GOOD)], "left requests unanswered"),
}


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=2)


@pytest.fixture(scope="module")
def probe():
    return bl.probes.Position(attributes=["coherence"], templates=[1], n_pairs=2)


@pytest.fixture(scope="module")
def trials(probe, data):
    return bl.collect(probe, bl.SimulatedJudge(data), data, progress=False)


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "in a store"])
@pytest.mark.parametrize("case", ANSWERS)
def test_invalid_replies_are_refused(case, stored, probe, data, tmp_path):
    answer, words = ANSWERS[case]
    store = tmp_path / "judgements.sqlite" if stored else None
    with pytest.raises(JudgeError) as caught:
        bl.collect(probe, Own(answer), data, store=store, progress=False)
    if not (stored and case == "too few"):  # a store says that in words of its own
        assert words in str(caught.value)


def test_one_log_probability_for_three_labels():
    with pytest.raises(JudgeError, match="allowed: 3 numbers, the natural logarithms for the labels 'A', 'B', 'T'"):
        received(Own(None), (bl.Choice("Which?", ("A", "B", "T")), bl.Reply(logprobs=(-0.1,))))


def test_empty_and_filtered_replies_are_accepted():
    request = bl.Choice("Which?", ("A", "B"))
    for reply in (GOOD, bl.Reply(text=""), bl.Reply(finish_reason="content_filter")):
        assert received(Own(None), (request, reply)) == (request, reply)


def test_valid_replies_in_a_list_are_accepted(probe, data):
    judge = Own(lambda requests: [(request, GOOD) for request in requests])  # a list will do
    assert bl.collect(probe, judge, data, progress=False)["status"].eq("ok").all()


def test_a_function_for_a_judge(probe, data):
    with pytest.raises(InputError) as caught:
        bl.collect(probe, lambda text: 0.5, data)
    assert "argument of the function is 'text', allowed: first and second, candidate, candidates, or prompt" in str(
        caught.value
    )


def test_two_frames_to_compare_that_are_not_one_list(trials):
    with pytest.raises(InputError, match=r"^by is a DataFrame of .* rows .*biaslab.compare\(\[first, second\]\)$"):
        bl.compare(trials, trials)


def test_values_outside_the_range(probe, trials):
    with pytest.raises(TrialsError, match=r"value is 7\.0, allowed: from 0 to 1, the probability that the first"):
        probe.estimate(trials.assign(value=7.0))
    with pytest.raises(TrialsError, match="dtype of value"):
        probe.estimate(trials.assign(value="good"))


def test_scores_outside_the_scale(data):
    probe = bl.probes.Source(["coherence"], scale="1-5")
    scores = bl.collect(probe, bl.SimulatedJudge(data), data, progress=False)
    with pytest.raises(TrialsError, match=r"value is 7\.0, allowed: from 1 to 5, a score on the scale 1-5"):
        probe.estimate(scores.assign(value=scores["value"].where(scores.index != 3, 7.0)))
    assert len(probe.estimate(scores.assign(value=scores["value"].where(scores.index != 3, 5.5))))


def test_the_guides_judge_reads_any_data_set(tmp_path):
    page = (ROOT / "docs" / "guides" / "write_a_judge.md").read_text(encoding="utf-8")
    block = next(part for part in page.split("```python\n")[1:] if "class Brevity" in part).split("```")[0]
    named = {}
    exec(block.split("judge = Brevity()")[0], named)  # the class alone
    table = tmp_path / "answers.csv"
    rows = [f"Q{n},{text},overall,{n % 3 + 1}" for n in range(4) for text in ("Yes.", "No and never.")]
    table.write_text("\n".join(["context,text,attribute,score", *rows]))
    answers = bl.load_dataset("tabular", table, noun="answer")
    found = bl.collect(bl.probes.Position(templates=[1]), named["Brevity"](), answers, progress=False)
    assert found["status"].eq("ok").all()


def test_a_served_model_on_a_plain_install(monkeypatch):
    def refuse(extra, what):
        raise MissingDependencyError(what)

    monkeypatch.setattr(loading, "require_extra", refuse)
    with pytest.raises(InputError, match=r"did you mean api:gpt-4o-mini\?"):
        bl.load_judge("gpt-4o-mini")
    with pytest.raises(MissingDependencyError):
        bl.load_judge("organisation/model")


@pytest.mark.parametrize("name", ["position", "sweep", "correct"])
def test_a_text_of_papermill_for_a_number(name):
    cell = parameters_cell(ROOT / "notebooks" / f"{name}.ipynb")
    require_known([cell, "# Parameters\nseed = 3\nattributes = 'coherence,fluency'\npath = 'table.csv'"])
    with pytest.raises(InputError, match=r"seed is 'four', allowed: a whole number or None"):
        require_known([cell, '# Parameters\nseed = "four"'])


def test_a_text_of_papermill_for_the_number_of_contexts():
    cell = parameters_cell(ROOT / "notebooks" / "position.ipynb")
    with pytest.raises(InputError, match=r"^n_contexts is 'four', allowed: a whole number or None"):
        require_known([cell, '# Parameters\nn_contexts = "four"'])
