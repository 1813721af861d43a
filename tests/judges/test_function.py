"""Functions as judges: what they are shown, what they may return, and that nothing paid for is lost."""

import asyncio
import sys
import threading
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest

import biaslab as bl
from biaslab.core import Compare, Completion, Score
from biaslab.core.errors import InputError, JudgeError

PROBE = bl.probes.Position(["coherence"])


def longer(first, second):
    """Prefer the longer text, by more than five characters."""
    return "tie" if abs(len(first) - len(second)) <= 5 else "first" if len(first) > len(second) else "second"


def test_a_function_is_a_judge(graded, recwarn):
    trials = bl.collect(PROBE, longer, graded, progress=False)
    estimates = PROBE.estimate(trials, ["first_position_rate", "order_consistency"]).set_index("metric")["estimate"]
    assert estimates.to_dict() == {"first_position_rate": 0.5, "order_consistency": 1.0}
    assert set(trials["template"]) == {"direct"}
    assert trials["judge"].iloc[0] == "function:longer@1"
    assert not recwarn.list


class Verdict(Enum):
    FIRST = "first"
    NEITHER = "neither"


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        ("first", 1.0), ("Second", 0.0), ("tie", 0.5), ("A", 1.0), (0.25, 0.25), (1, 1.0),
        ({"first": 0.3, "second": 0.1}, 0.75), ({"First": 1, "second": 1, "tie": 2}, 0.5),
        ({"A": 0.2, "B": 0.8}, 0.2), ({"first": 1, "second": 3, "why": "short"}, 0.25), (Verdict.FIRST, 1.0),
        (np.float32(0.25), 0.25), (Fraction(1, 4), 0.25),
    ],
)  # fmt: skip
def test_verdict_may_be_label_probability_or_distribution(returned, value):
    judge = bl.FunctionJudge(lambda first, second: returned)
    [(_, reply)] = judge.ask([Compare("a", "b")])
    assert reply.score == pytest.approx(value)


@pytest.mark.parametrize(
    "returned",
    [
        3, -0.1, True, np.True_, "the first one", [1, 0], {"first": 1}, float("nan"), object(), (0.3, 0.7),
        Verdict.NEITHER,
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_name(returned):
    def mine(first, second):
        return returned

    with pytest.raises(JudgeError, match=r'mine returned .*, allowed: "first", "second" or "tie"'):
        list(bl.FunctionJudge(mine).ask([Compare("a", "b")]))


def test_a_pair_of_numbers_is_shown_as_one():
    with pytest.raises(JudgeError, match=r"returned \[0.3, 0.7\]"):
        list(bl.FunctionJudge(lambda first, second: (0.3, 0.7)).ask([Compare("a", "b")]))


def test_return_value_none_is_a_refusal(graded):
    judge = bl.FunctionJudge(lambda first, second: None if len(first) % 5 == 0 else "first", "silent")
    trials = bl.collect(PROBE, judge, graded, progress=False)
    assert set(trials["status"]) == {"refused", "ok"}


def test_arguments_are_passed_by_the_name_that_is_declared(graded):
    seen = []

    def mine(*, attribute, context, second, first, temperature=0.0):
        seen.append((context, first, second, attribute, temperature))
        return "first"

    bl.collect(PROBE, mine, graded.head(1), progress=False)
    row = graded.candidates.iloc[0]
    assert {each[0] for each in seen} == {row["context"]}
    assert {each[3:] for each in seen} == {("coherence", 0.0)}
    assert row["text"] in {each[1] for each in seen}
    everything = bl.FunctionJudge(lambda candidate, **shown: 1 + len(shown))
    [(_, reply)] = everything.ask([Score("a text")])
    assert reply.score == 0.0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text: 1, "argument of the function is 'text'"),
        (lambda first, second, k: 1, "argument of the function is 'k'"),
        (lambda context: 1, "first and second, candidate, candidates, or prompt"),
        (lambda first, second, candidate: 1, "first and second, candidate, candidates, or prompt"),
        (lambda **shown: 1, "needs functools.wraps"),
        (type("Pipeline", (), {}), "give an instance"),
        (3, "a function"),
    ],
)
def test_function_of_other_arguments_is_refused(function, message):
    with pytest.raises(InputError, match=message):
        bl.FunctionJudge(function)


@pytest.mark.parametrize("scale", [(1,), (5, 1), (1, 2, 3), "15", 5, (1, None)])
def test_scale_other_than_two_ascending_numbers_is_refused(scale):
    with pytest.raises(InputError, match="allowed: two numbers, the lower one first"):
        bl.FunctionJudge(lambda candidate: 1, scale=scale)


def test_scores_lie_on_the_scale_of_the_function(graded):
    probe = bl.probes.Verbosity(["coherence"], scale="1-10")
    judge = bl.FunctionJudge(lambda candidate: min(100, len(candidate) / 10), "length", scale=(0, 100))
    trials = bl.collect(probe, judge, graded, progress=False)
    assert trials["value"].between(1, 10).all()
    estimates = probe.estimate(trials, ["verbosity_slope"])
    assert estimates["ci_low"].item() > 0
    with pytest.raises(JudgeError, match="the scale is 0 to 1"):
        list(bl.FunctionJudge(lambda candidate: 5, scale=(0, 1)).ask([Score("a")]))


def test_prompts_go_to_a_function_of_a_prompt(graded):
    def pipeline(prompt):
        return "clearly [[A]]" if "Coherence" not in prompt else "[[B]]"

    protocol = bl.Protocol.from_template("{question}\n{answer_a}\n{answer_b}", verdicts={"[[A]]": 1, "[[B]]": 0})
    probe = bl.probes.Position(["coherence"], protocol=protocol)
    trials = bl.collect(probe, pipeline, graded, progress=False)
    assert probe.estimate(trials, ["first_position_rate"])["estimate"].item() == 1
    assert bl.FunctionJudge(pipeline).kinds == {Completion}


def test_an_async_function_runs_in_one_loop_and_many_at_a_time(graded):
    loops, under_way, most, several = set(), 0, 0, asyncio.Event()

    async def mine(first, second):
        nonlocal under_way, most
        loops.add(id(asyncio.get_running_loop()))
        under_way += 1
        most = max(most, under_way)
        if most > 1:
            several.set()
        await asyncio.wait_for(several.wait(), 60)  # the first call waits for a second one
        under_way -= 1
        return longer(first, second)

    trials = bl.collect(PROBE, bl.FunctionJudge(mine, concurrency=4), graded, progress=False)
    assert len(loops) == 1
    assert 1 < most <= 4
    assert trials["value"].tolist() == bl.collect(PROBE, longer, graded, progress=False)["value"].tolist()


def test_a_call_that_raises_is_made_again_and_is_never_a_verdict(graded, monkeypatch):
    monkeypatch.setattr("biaslab.judges.function._FIRST_WAIT", 0.0)
    calls = []

    def shaky(first, second):
        calls.append(first)
        if len(calls) % 3 == 1:
            raise ValueError("busy")
        return longer(first, second)

    trials = bl.collect(PROBE, bl.FunctionJudge(shaky, concurrency=1), graded, progress=False)
    assert set(trials["status"]) <= {"ok", "tie"}
    assert len(calls) > len(trials)


def test_replies_before_a_failure_are_stored(graded, tmp_path):
    store, lock, left = tmp_path / "s.sqlite", threading.Lock(), [40]

    def failing(first, second):
        with lock:
            left[0] -= 1
        if left[0] < 0:
            raise KeyError("key of a pipeline")
        return longer(first, second)

    with pytest.raises(JudgeError, match=r"failing raised KeyError: .*test_function\.py:\d+") as failure:
        bl.collect(PROBE, bl.FunctionJudge(failing, retries=0), graded, store, progress=False)
    assert isinstance(failure.value.__cause__, KeyError)
    trials = bl.collect(PROBE, bl.FunctionJudge(longer, "failing"), graded, store, progress=False)
    assert trials.attrs["stored"] == 40


@pytest.mark.slow
def test_name_and_version_are_what_a_store_knows_it_by(graded, tmp_path):
    store = tmp_path / "s.sqlite"
    asked = [
        bl.collect(PROBE, bl.FunctionJudge(longer, "mine", version), graded, store, progress=False).attrs["asked"]
        for version in ("1", "1", "2")
    ]
    assert asked == [240, 0, 240]


def test_a_function_has_a_name_on_the_command_line(tmp_path, monkeypatch, graded):
    (tmp_path / "my_pipeline.py").write_text("def judge(first, second):\n    return 'first'\n")
    monkeypatch.syspath_prepend(tmp_path)
    judge = bl.load_judge("python:my_pipeline:judge")
    assert judge.id == "function:judge@1"
    for name in ("python:my_pipeline", "python:my_pipeline:gone", "python:no_such_module:judge"):
        with pytest.raises(InputError, match="judge is"):
            bl.load_judge(name)


def test_unused_protocol_of_a_function_warns(graded):
    mine = bl.Protocol.from_template("{question} {answer_a} {answer_b}", verdicts={"A": 1, "B": 0})
    with pytest.warns(bl.errors.NearestDesignWarning, match="does not use the protocol, because 'function:longer@1'"):
        trials = bl.collect(bl.probes.Position(["coherence"], protocol=mine), longer, graded, progress=False)
    assert set(trials["template"]) == {"direct"}


def test_function_in_the_current_folder_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "pipeline_here.py").write_text("def judge(first, second):\n    return 'first'\n")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])  # "" is there for python -m alone
    with pytest.raises(InputError, match="run biaslab in the folder of the module"):
        bl.load_judge("python:pipeline_here:judge")
    monkeypatch.chdir(tmp_path)
    assert bl.load_judge("python:pipeline_here:judge").id == "function:judge@1"


def test_a_probe_of_prompts_says_that_a_function_reads_none(graded):
    with pytest.raises(JudgeError, match=r"vacuum needs prompts .* takes no prompt"):
        bl.collect(bl.probes.Vacuum(["coherence"]), longer, graded, progress=False)
    with pytest.raises(InputError, match="answer is 'verdict'"):
        bl.probes.Vacuum(["coherence"], answer="verdict")


def test_a_limit_of_calls_is_a_budget(graded):
    with pytest.raises(bl.errors.BudgetExceededError):
        bl.collect(PROBE, bl.FunctionJudge(longer, limits={"requests": 10}), graded, progress=False)


def test_calls_end_with_the_error_of_threads_that_cannot_start():
    calls = bl.FunctionJudge(lambda candidate: 1.0).packs([Score("a"), Score("b")])
    calls._pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        next(calls)
    assert list(calls.stop()) == []
