"""Requests refuse what makes no sense, and are hashable, frozen and normalised."""

import dataclasses
import gc
import hashlib
import pickle
import re
import weakref

import pytest
from hypothesis import given, strategies as st

from biaslab.core import (
    About,
    Choice,
    Completion,
    Judge,
    Likelihood,
    Message,
    ProbeInterface,
    Score,
    as_prompt,
    canonical_json,
    request_fields,
    request_json,
    request_key,
)
from biaslab.core.errors import InputError, UnsupportedRequestError
from biaslab.core.scales import scale_named
from biaslab.core.trials import uncollected
from biaslab.distill.annotation import Reward, Stars
from biaslab.judges.simulated import SimulatedJudge
from biaslab.measures.scoring import GEval, GPTScore, PromptScoring, Rating
from biaslab.probes import available
from biaslab.probes.anchoring import Anchoring
from biaslab.probes.consistency import Consistency
from biaslab.probes.output_order import OutputOrder
from biaslab.probes.position import Position
from biaslab.probes.source import Source
from biaslab.prompts import adjectives


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
    assert isinstance(Position(), ProbeInterface)


def test_a_judge_refuses_kinds_it_does_not_answer(graded):
    class TextOnly(SimulatedJudge):
        kinds = frozenset({Completion})

    with pytest.raises(UnsupportedRequestError, match="Likelihood") as caught:
        TextOnly(graded).check([Likelihood("hi")])
    assert caught.value.request == Likelihood("hi")


DESIGNS = {name: probe() for name, probe in available().items()} | {
    "pairs as text": Position(["fluency"], answer="text", ties=True),
    "several in a text": Anchoring(answer="text", n_candidates=1),
    "transcripts": Anchoring(anchor="transcript", n_candidates=1),
    "joint": Consistency(["fluency"], answer="text", n_candidates=1),
    "opened": OutputOrder(["fluency"], opened=True),
    "numbers": Source(["fluency"], answer="score"),
    "g_eval": GEval(scale="1-5 words"),
    "gpt_score": GPTScore(),
    "scoring_1": PromptScoring(),
    "scoring_2": PromptScoring(template=2, scale="1-100"),
    "rate, reasons after": Rating(reasons="after"),
    "rate, reasons before": Rating(reasons="before", answer="text"),
    "stars": Stars(),
    "stars without source": Stars(source=False, scale="0-100"),
    "all aspects": Stars(aspects=["multiple"]),
    "reward": Reward(["fluency"]),
}


def trials(design, data):
    return list({(trial.request, trial.attribute): trial for trial in design.design(data)}.values())


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_prompt_contains_the_texts_of_about(graded, name):
    rows = graded.candidates.set_index(["context_id", "candidate_id"])
    for trial in trials(DESIGNS[name], graded.head(1)):
        request, about = trial.request, trial.request.about
        assert about.context_id == trial.context_id
        expected = tuple(filter(None, (trial.candidate_id, trial.opponent_id)))
        if name == "list_position":  # a trial is one candidate at its place in the list
            assert about.candidate_ids[trial.condition["place"] - 1] == trial.candidate_id
        else:
            assert about.candidate_ids in (expected, ())
        own = [rows.loc[(trial.context_id, each), "text"] for each in about.candidate_ids]
        edits = about.edits or [""] * len(own)
        assert [text for text, edit in zip(about.texts, edits, strict=True) if not edit] == [
            text for text, edit in zip(own, edits, strict=True) if not edit
        ]
        words, source = written(request), rows.loc[(trial.context_id, trial.candidate_id), "context"]
        assert (source in words) == about.source
        places = [words.rindex(text) for text in about.texts]
        assert places == sorted(places)
        if not isinstance(request, Likelihood | Score):
            asked_as_told(request, about)
            assert trial.attribute in about.attributes or trial.attribute == "multiple"


def asked_as_told(request, about):
    """Hold attributes, answers, scale, form and the score before against the words of the last turns."""
    task = request.messages[[m.role for m in request.messages].index("user")].content
    last = [m for m in request.messages if m.role == "user"][-1].content
    assert all(name in last or adjectives()[name] in last for name in about.attributes)
    if about.labels:
        assert all(label in task for label in about.labels)
        assert not isinstance(request, Choice) or request.labels == about.labels
        return
    scale = scale_named(about.scale)
    ends = rf"{scale.labels[0]}\b.*\b{scale.labels[-1]}\b|{scale.labels[-1]}"
    assert scale.wording in last or re.search(ends, last)
    assert not isinstance(request, Choice) or tuple(map(str.strip, request.labels)) == scale.labels
    shape = {"bare": "", "lines": f"{about.attributes[0]}: <", "text": "score: <", "json": '"score": <'}
    assert shape[about.form] in last
    assert (about.form == "bare") == ("<" not in last)
    reasons = re.search("reasons", last.rpartition(scale.wording)[2])
    assert (about.reasons != "none") == bool(reasons)
    output = [m.content for m in request.messages if m.role == "assistant"]
    stands = re.findall(r"\d[\d.]*", "".join(output))
    assert ([] if about.previous is None else [about.previous]) == [float(number) for number in stands]


def written(request):
    if isinstance(request, Likelihood):
        return request.given + request.text
    if isinstance(request, Score):
        return f"{request.source}\n{request.text}"
    return "\n".join(message.content for message in request.messages)


def test_about_is_not_part_of_equality_and_key():
    about = About("c", ("a",), ("A text.",), ("fluency",))
    for bare, reported in (
        (Choice("?", ("A", "B")), Choice("?", ("A", "B"), about)),
        (Completion("?"), Completion("?", about=about)),
        (Likelihood("A text."), Likelihood("A text.", about=about)),
        (Score("A text."), Score("A text.", about=about)),
    ):
        assert reported.about == about
        assert (bare, hash(bare), repr(bare)) == (reported, hash(reported), repr(reported))
        assert request_key(bare, "j") == request_key(reported, "j")


def test_every_candidate_has_a_text():
    with pytest.raises(InputError, match="one value for each of a, b"):
        About("c", ("a", "b"), ("A text.",), ("fluency",))
