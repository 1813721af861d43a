"""Budgets for thoughts as a part of requests: keys, judges that obey, that hand on, and that refuse."""

import hashlib
import json
import pickle
import runpy
import warnings
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core import (
    BaseJudge,
    Choice,
    Completion,
    request_fields,
    request_from_fields,
    request_json,
    request_key,
    with_thinking,
)
from biaslab.core.errors import CutOffError, InputError, UnsupportedRequestError
from biaslab.core.requests import EFFORTS
from biaslab.judges.api import Patience
from biaslab.judges.api.batch import export_batch
from biaslab.study.token_counts import count_tokens

SERVER = runpy.run_path(str(Path(__file__).with_name("reasoning_server.py")))
ReasoningServer, bodies_of = SERVER["ReasoningServer"], SERVER["bodies_of"]
QUICK = Patience(retries=2, first_wait=0.001, grace=5, reach=2)
BUDGETS = st.one_of(st.none(), st.integers(0, 10**6), st.sampled_from(sorted(EFFORTS)))


@pytest.fixture
def judge_of():
    made = []

    def make(server, **options):
        made.append(bl.ApiJudge("thinker", server.url, **{"patience": QUICK, "timeout": 20.0, **options}))
        return made[-1]

    yield make
    for judge in made:
        judge.close()


@given(BUDGETS, st.integers(0, 3))
def test_request_key_hashes_json_with_thinking_budget(budget, seed):
    for request in (
        Completion('Is "it" good?', 1.0, 5, 2, seed, thinking=budget),
        Choice("Is “it” good?", ("A", "B"), thinking=budget),
    ):
        fields = request_fields(request)
        stored = 0 if budget == "none" else budget
        assert fields.get("thinking", "nothing") == ("nothing" if budget is None else stored)
        document = {"judge": "j", "kind": request.kind, **fields}
        whole = json.dumps(document, sort_keys=True, separators=(",", ":"))
        assert request_key(request, "j") == hashlib.sha256(whole.encode()).hexdigest()
        assert json.loads(request_json(request)) == fields
        assert request_from_fields(request.kind, fields) == request == pickle.loads(pickle.dumps(request))


def test_requests_made_of_parts_differ_by_budget_and_replicate():
    """Whose keys are hashed from a beginning that several share."""
    parts = tuple("abcdefgh")
    given = ({}, {"thinking": 0}, {"thinking": "low"}, {"replicate": 1}, {"replicate": 1, "thinking": 0})
    for each in given:
        whole = Choice("abcdefgh", ("A", "B"), **each)
        assert request_key(Choice("abcdefgh", ("A", "B"), parts=parts, **each), "j") == request_key(whole, "j")
        if "thinking" in each:
            plain = Choice("abcdefgh", ("A", "B"), parts=parts, replicate=each.get("replicate", 0))
            assert request_key(with_thinking(plain, each["thinking"]), "j") == request_key(whole, "j")
    assert len({request_key(Choice("abcdefgh", ("A", "B"), parts=parts, **each), "j") for each in given}) == len(given)


def test_a_request_without_a_budget_keeps_its_key():
    assert request_key(Choice("Which is better, A or B?", ("A", "B")), "some judge")[:12] == "af4ca9f8ceea"
    assert Completion("Is it good?") != Completion("Is it good?", thinking=0)


@pytest.mark.parametrize("budget", [-1, 1.5, True, "lots", "", "-4"])
def test_invalid_thinking_budget_is_refused(budget):
    with pytest.raises(InputError, match="0 for no thinking, or one of none, minimal, low, medium, high"):
        Completion("Is it good?", thinking=budget)


def test_each_thinking_budget_is_sent_and_raises_max_tokens(judge_of):
    requests = {
        budget: Completion("Is it good?", 0.0, 16, thinking=budget) for budget in (0, 2000, "low", "high", None)
    }
    with ReasoningServer(refuses=()) as server:
        replies = dict(judge_of(server, thinking={"tokens": 600}).ask(requests.values()))
        sent = {body["max_tokens"] - 16: body for body in bodies_of(server)}
    assert set(sent) == {0, 2000, 4096, 32_768, 600}
    assert sent[0]["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
    assert [sent[EFFORTS[name]]["reasoning_effort"] for name in ("low", "high")] == ["low", "high"]
    assert not {"reasoning_effort", "chat_template_kwargs"} & (set(sent[2000]) | set(sent[600]))
    assert replies[requests["low"]].usage.reasoning_tokens >= 300


def test_openai_effort_none_switches_thinking_off():
    judge = bl.ApiJudge("gpt-5-mini")
    _, body = judge.wire.write(Completion("Is it good?", thinking=0))
    assert body["reasoning_effort"] == "none"
    assert "chat_template_kwargs" not in body
    _, body = judge.wire.write(Choice("A or B?", ("A", "B"), thinking="off"))
    assert body["logprobs"] is True


def test_labels_after_a_thought_are_refused_before_any_request(judge_of):
    with ReasoningServer() as server:
        judge = judge_of(server)
        with pytest.raises(UnsupportedRequestError, match="thinks before it answers"):
            judge.check([Choice("A or B?", ("A", "B"), thinking="low")])
        assert not server.bodies


class Plain(ReasoningServer):
    """A server whose model takes no effort, as OpenAI's words are."""

    def refusal(self, body):
        return "Unrecognized request argument supplied: reasoning_effort" if "reasoning_effort" in body else ""


def test_model_without_thinking_budget_is_refused_in_one_line(judge_of):
    with Plain(thought=0) as server:
        judge = judge_of(server)
        with pytest.raises(UnsupportedRequestError, match="accepts no thinking budget") as refused:
            list(judge.ask([Completion("Is it good?", thinking="low")]))
        assert "\n" not in str(refused.value)
        [(_, reply)] = judge.ask([Completion("Is it good?", max_tokens=400)])  # which needs no budget
    assert reply.text


class Obedient(ReasoningServer):
    """A server that does not think where the switch of its template says so."""

    def document(self, body, text):
        whole, switch = self.thought, body.get("chat_template_kwargs", {})
        self.thought = whole if switch.get("enable_thinking", True) else 0
        document = super().document(body, text)
        self.thought = whole
        if not switch.get("enable_thinking", True):
            answer = document["choices"][0]["message"]
            document["choices"][0] |= {
                "message": {"role": "assistant", "content": self.answered(text, answer)},
                "finish_reason": "stop",
            }
            document["usage"]["completion_tokens_details"] = {"reasoning_tokens": 0}
        return document

    @staticmethod
    def answered(text, answer):
        return answer.get("content") or "Summary A"


def study(judge, data):
    probe = bl.probes.Thinking(["coherence"], budgets=[0, "low"], parameters={"templates": [1], "n_pairs": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trials = bl.collect(probe, judge, data, progress=False)
        return trials, probe.estimate(trials)


def test_a_study_on_a_server_has_one_row_a_budget(judge_of, graded):
    with Obedient(refuses=()) as server:
        trials, said = study(judge_of(server, thinking={"tokens": 1024}), graded.head(3))
    assert (trials["status"] == "ok").all()
    assert "reads text instead of label probabilities" in trials.attrs["otherwise"]
    low, none = (trials[trials["thinking"] == name] for name in ("low", "0"))
    assert low["thought_tokens"].between(300, 350).all()
    assert (low["written"] > low["thought_tokens"]).all()
    assert not none["thought_tokens"].any()
    assert set(said["thinking"]) == {"0", "low"}


def test_model_that_ignores_budget_0_is_refused_within_ten_calls(judge_of, graded):
    with ReasoningServer(refuses=()) as server:
        with pytest.raises(CutOffError, match="omit the budget 0, because the model thinks anyway"):
            study(judge_of(server), graded)
        assert len(bodies_of(server)) <= 10


def test_judges_of_judges_hand_budgets_on(graded):
    judge = bl.SimulatedJudge(graded, position=1.0, thought_debiasing=1.0)
    trial = next(iter(bl.probes.Thinking(["coherence"], budgets=[0, 3072]).design(graded)))
    request = Choice(trial.request.messages, trial.request.labels, trial.request.about, thinking=3072)
    sampled = bl.Sampled(judge, 3)
    assert {each.thinking for each in sampled.expand(request)} == {3072}
    for asks in (sampled, bl.Panel([judge, bl.SimulatedJudge(graded, seed=1)])):
        [(_, reply)] = asks.ask([request])
        assert reply.usage.reasoning_tokens > 0
    assert not bl.Panel([judge, Deaf()]).thinks


class Deaf(BaseJudge):
    """A member that knows of no budgets."""

    id, kinds = "deaf", frozenset({Choice, Completion})


def test_a_store_keeps_each_budget_apart(graded, tmp_path):
    judge = bl.SimulatedJudge(graded, position=1.0, noise=0.5, thought_debiasing=1.0)
    probe = bl.probes.Thinking(["coherence"], budgets=[0, "low"], parameters={"templates": [1], "n_pairs": 1})
    first = bl.collect(probe, judge, graded, tmp_path / "replies.sqlite", progress=False)
    again = bl.collect(probe, judge, graded, tmp_path / "replies.sqlite", progress=False)
    assert (first.attrs["asked"], again.attrs["asked"]) == (len(first), 0)
    assert again[["value", "thought_tokens", "key"]].equals(first[["value", "thought_tokens", "key"]])


def test_a_batch_file_keeps_the_budget(tmp_path):
    request = Completion("Is it good?", max_tokens=8, thinking="low")
    export_batch(bl.ApiJudge("gpt-5-mini"), [request, Choice("A or B?", ("A", "B"), thinking=0)], tmp_path / "b.jsonl")
    lines = [json.loads(line) for line in next(tmp_path.glob("b*.jsonl")).read_text().splitlines()]
    assert {line["body"]["reasoning_effort"] for line in lines} == {"low", "none"}


def test_a_plan_counts_what_a_thought_may_take(graded):
    judge = bl.SimulatedJudge(graded)
    written = count_tokens(judge, [Completion("Is it good?", max_tokens=8, thinking=each) for each in (None, 0, "low")])
    assert written.written.tolist() == [8, 8, 8 + 4096]
