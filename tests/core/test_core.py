"""Requests refuse what makes no sense, and are hashable, frozen and normalised."""

import dataclasses
import gc
import hashlib
import pickle
import weakref

import pytest
from hypothesis import given, strategies as st

from biaslab.core import (
    Choice,
    Completion,
    Judge,
    Likelihood,
    Message,
    Probe,
    Score,
    as_prompt,
    canonical_json,
    request_fields,
    request_json,
    request_key,
)
from biaslab.core.errors import InputError, UnsupportedRequestError
from biaslab.core.trials import uncollected
from biaslab.judges.simulated import SimulatedJudge
from biaslab.probes.position import Position


@pytest.mark.parametrize("labels", [(), ("A",), ("A", "A"), ("A", "")])
def test_choice_needs_different_labels(labels):
    with pytest.raises(InputError, match="labels"):
        Choice("?", labels)


@pytest.mark.parametrize(
    "options", [{"temperature": -1}, {"temperature": float("nan")}, {"max_tokens": 0}, {"replicate": -1}]
)
def test_completion_checks_its_ranges(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Completion("?", **options)


@pytest.mark.parametrize("messages", [[], [("robot", "hi")], [("user", 3)]])
def test_messages_are_checked(messages):
    with pytest.raises(InputError, match="messages"):
        Completion(messages)


@pytest.mark.parametrize("kind", [Likelihood, Score])
def test_likelihood_and_score_need_text(kind):
    with pytest.raises(InputError, match="text"):
        kind("")


def test_score_key_covers_all_fields_and_prompts_refuse_score(graded):
    asked = [Score("a"), Score("a", "b"), Score("a", "", "b"), Score("a", "", "", "b"), Score("b", "a")]
    assert len({request_key(request, "j") for request in asked}) == len(asked)
    with pytest.raises(UnsupportedRequestError, match="evaluator"):
        as_prompt(asked[0])
    with pytest.raises(UnsupportedRequestError, match="Score"):
        SimulatedJudge(graded).check(asked)


def test_ways_to_write_a_conversation_are_one_request():
    written = ["hi", [("user", "hi")], [{"role": "user", "content": "hi"}], [Message("user", "hi")]]
    assert len({Completion(messages) for messages in written}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        Completion("hi").replicate = 2


@given(st.text(), st.text(), st.floats(0, 10), st.integers(0, 3))
def test_keys_tell_requests_apart(one, other, temperature, replicate):
    base = Completion(one, 0.0)
    assert request_key(base, "j") == request_key(Completion(one, -0.0), "j")
    assert (request_key(base, "j") == request_key(Completion(other), "j")) == (one == other)
    assert request_key(base, "j") != request_key(base, "k")
    changed = Completion(one, temperature, replicate=replicate)
    assert (request_key(base, "j") == request_key(changed, "j")) == (changed == base)


@given(st.lists(st.text(st.characters()), min_size=1, max_size=5))
def test_request_of_parts_equals_the_request_of_its_text(parts):
    together, plain = Choice("".join(parts), "AB", parts=tuple(parts)), Choice("".join(parts), "AB")
    assert request_json(together) == request_json(plain) == canonical_json(request_fields(plain))
    assert together == plain
    assert request_key(together, "j") == request_key(plain, "j")


TURNS = st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(st.characters())), min_size=1)


@given(TURNS, st.floats(0, 10), st.integers(1, 10**6), st.integers(0, 99), st.integers(), st.text(st.characters()))
def test_request_key_is_sha256_of_canonical_json(turns, temperature, most, replicate, seed, judge):
    for asked in (Completion(turns, temperature, most, replicate, seed), Choice(turns, "AB")):
        fields = request_fields(asked)
        assert request_json(asked) == canonical_json(fields)
        document = canonical_json({"judge": judge, "kind": asked.kind, **fields})
        assert request_key(asked, judge) == hashlib.sha256(document.encode()).hexdigest()


def test_pair_probes_build_prompts_from_parts(graded):
    requests = {trial.request for trial in Position().design(graded)}
    assert all(vars(each)["_parts"] and dataclasses.replace(each) == each for each in requests)
    assert all(request_json(dataclasses.replace(each)) == request_json(each) for each in requests)


@pytest.mark.parametrize("messages", ["A or C?", [("user", "A or B?")]])
def test_parts_are_those_of_the_one_message(messages):
    with pytest.raises(InputError, match="parts"):
        Choice(messages, "AB", parts=("A ", "or B?"))


@pytest.mark.parametrize(
    "request_", [Choice("A?", "AB", parts=("A", "?")), Completion("?"), Likelihood("?"), Score("?")]
)
def test_cached_key_and_hash_are_not_copied(request_):
    known, key = hash(request_), request_key(request_, "j")
    written = request_.__getstate__()
    assert known == hash(request_) == hash(dataclasses.replace(request_))
    assert key == request_key(dataclasses.replace(request_), "j")
    assert set(written) == {field.name for field in dataclasses.fields(request_)}
    copied = pickle.loads(pickle.dumps(request_))
    assert {copied: 1} == {request_: 1}


@pytest.mark.parametrize("enabled", [True, False])
def test_uncollected_restores_the_garbage_collector(enabled):
    class Cycle:
        pass

    (gc.enable if enabled else gc.disable)()
    try:
        with uncollected():
            assert not gc.isenabled()
            cycle = Cycle()
            cycle.itself = cycle
            there = weakref.ref(cycle)
            del cycle
        assert gc.isenabled() == enabled
        gc.collect()
        assert there() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("frozen", [True, False])
def test_uncollected_leaves_frozen_objects_frozen(frozen):
    gc.unfreeze()  # what the tests' own set-up froze
    if frozen:
        gc.freeze()
    kept = gc.get_freeze_count()
    try:
        with uncollected():
            made = [[number] for number in range(20_000)]
        assert (gc.get_freeze_count() > 0) == frozen
        assert gc.get_freeze_count() <= kept
        assert len(made) == 20_000
    finally:
        gc.freeze()


def test_protocols_are_met(graded):
    assert isinstance(SimulatedJudge(graded), Judge)
    assert isinstance(Position(), Probe)


def test_a_judge_refuses_kinds_it_does_not_answer(graded):
    class TextOnly(SimulatedJudge):
        kinds = frozenset({Completion})

    with pytest.raises(UnsupportedRequestError, match="Likelihood") as caught:
        TextOnly(graded).check([Likelihood("hi")])
    assert caught.value.request == Likelihood("hi")
