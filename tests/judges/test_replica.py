"""What runs in a process of a cluster, here without one: what was answered is handed on, whatever ends the block."""

import pickle

import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core import Completion, errors
from biaslab.core.errors import InputError, JudgeError, OutOfMemoryError, PromptTooLongError, ServerError, StoreError
from biaslab.core.requests import About
from biaslab.judges.ray_judge import LARGEST, Replica, blocks_of, breadth_of_blocks

REQUESTS = [Completion(f"Say {number}.") for number in range(6)]


class Failing:
    """Answers in order, and fails at one request; what is on its way then is handed on when it is stopped."""

    id, kinds = "failing", frozenset({Completion})

    def __init__(self, error):
        self.error = error

    def check(self, requests):
        pass

    def ask(self, requests):
        return Way(iter(requests), self.error)


class Way:
    def __init__(self, requests, error):
        self.requests, self.error = requests, error

    def __iter__(self):
        return self

    def __next__(self):
        request = next(self.requests)
        if request == REQUESTS[3]:
            raise self.error
        return request, bl.Reply(text=request.messages[0].content)

    def stop(self):
        yield from ((request, bl.Reply(text="late")) for request in self.requests)


class Unpicklable(Exception):  # noqa: N818
    def __init__(self, one, two):
        super().__init__(one)


def answered(replica, run, judge_id, requests):
    """All that a replica sends, each message through a pickle, as places with replies and the error."""
    messages = [pickle.loads(pickle.dumps(each)) for each in replica.answer(run, judge_id, requests)]
    errors_sent = [each.error for each in messages if each.error is not None]
    assert errors_sent == [each.error for each in messages[-1:] if each.error is not None]  # nothing comes after one
    return [answer for each in messages for answer in each.replies], (errors_sent or [None])[0]


def test_a_block_is_answered_in_full():
    replica = Replica("simulated", bl.load_dataset("graded", limit=1), ".")
    told = replica.describe()
    requests = [trial.request for trial in bl.probes.Position().design(bl.load_dataset("graded", limit=1))]
    replies, error = answered(replica, "run", told["id"], requests)
    assert error is None
    judge = bl.load_judge("simulated", bl.load_dataset("graded", limit=1))
    assert {requests[place]: reply for place, reply in replies} == dict(judge.ask(requests))
    assert (told["id"], told["kinds"], told["encodes"]) == (judge.id, judge.kinds, False)


@pytest.mark.parametrize(
    "error", [PromptTooLongError("too long", REQUESTS[3]), RuntimeError("a bug"), Unpicklable("only here", 1)]
)
def test_replies_before_and_in_flight_at_an_error_are_sent(error):
    replica = Replica(lambda: Failing(error), None, ".")
    replies, sent = answered(replica, "run", "failing", REQUESTS)
    assert [place for place, _ in replies] == [0, 1, 2, 4, 5]
    if isinstance(error, Unpicklable):
        assert str(sent) == "Unpicklable: only here"
        return
    assert (type(sent), str(sent)) == (type(error), str(error))
    if isinstance(error, JudgeError):
        assert sent.request == REQUESTS[3]
    else:
        assert "test_replica.py" in sent.__notes__[0]  # where it was raised


def test_each_reply_is_sent_before_the_next_one():
    messages = Replica(lambda: Failing(RuntimeError("a bug")), None, ".").answer("run", "failing", REQUESTS)
    assert [[place for place, _ in each.replies] for each in messages] == [[0], [1], [2], [4], [5], []]


@pytest.mark.parametrize("extra", [REQUESTS[0], Completion("Not asked.")])
def test_unasked_reply_ends_the_block_and_keeps_earlier_ones(extra):
    class Strange(Failing):
        def ask(self, requests):
            for request in [*requests[:2], extra, *requests[2:]]:
                yield request, bl.Reply(text="a")

    replies, error = answered(Replica(lambda: Strange(None), None, "."), "run", "failing", REQUESTS)
    assert [place for place, _ in replies] == [*range(max(len(replies), 2))]
    assert "'failing' answered a request twice, or one it was not asked" in str(error)
    assert error.request == extra


def test_stopping_one_run_does_not_stop_another():
    replica = Replica(lambda: Failing(None), None, ".")
    replica.stop("run")
    assert answered(replica, "run", "failing", REQUESTS[:3]) == ([], None)
    assert len(answered(replica, "another run", "failing", REQUESTS[:3])[0]) == 3


def test_a_replica_that_is_another_judge_answers_nothing():
    replies, error = answered(Replica(lambda: Failing(None), None, "."), "run", "failing in bfloat16", REQUESTS)
    assert replies == []
    assert "is another judge, 'failing'; use the same model" in str(error)


@pytest.mark.parametrize("name", ["panel:simulated:position=1+simulated:position=2", "sampled:3:simulated"])
def test_replica_of_a_panel_or_sampled_judge_is_refused(name):
    with pytest.raises(
        InputError, match=r"wrap the replicas instead: bl.Panel\(\[bl.RayJudge\(…\), …\]\) or bl.Sampled"
    ):
        Replica(name, bl.load_dataset("graded", limit=1), ".").describe()


def test_a_function_has_to_return_a_judge():
    with pytest.raises(InputError, match="a function that returns a judge"):
        Replica(dict, None, ".").describe()


@pytest.mark.parametrize(
    "error",
    [
        InputError("level", 95, "a number between 0 and 1", "write 0.95"),
        errors.DatasetError("row 3", None, "text"),
        ServerError("refused", REQUESTS[0], status=403),
        OutOfMemoryError("does not fit", REQUESTS[0], index=4),
        StoreError("full", "replies.sqlite"),
        errors.MissingDependencyError("this needs ray"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_can_be_sent(error):
    error.add_note("a note")
    sent = pickle.loads(pickle.dumps(error))
    assert type(sent) is type(error)
    assert (str(sent), vars(sent), sent.args) == (str(error), vars(error), error.args)


def request_of(context, number):
    about = None if context is None else About(context, ("c",), ("text",), ("fluency",))
    return Completion(f"{context} {number}", about=about)


@st.composite
def planned(draw):
    """Requests of several contexts, some of none, mixed as a design may mix them, some twice."""
    named = st.one_of(st.none(), st.sampled_from("abcdefgh"))
    return [request_of(context, number) for context, number in draw(st.lists(st.tuples(named, st.integers(0, 30))))]


@given(planned(), st.integers(1, 9))
def test_blocks_hold_whole_contexts(requests, replicas):
    blocks = blocks_of(iter(requests), replicas)
    assert all(blocks)
    flat = [request for block in blocks for request in block]
    assert len(flat) == len(set(flat))
    assert set(flat) == set(requests)
    where = {}
    for place, block in enumerate(blocks):
        for request in block:
            if request.about is not None:
                where.setdefault(request.about.context_id, set()).add(place)
    assert all(len(places) == 1 for places in where.values())
    order = {request: place for place, request in enumerate(dict.fromkeys(requests))}
    firsts = [min(order[request] for request in block) for block in blocks]
    assert firsts == sorted(firsts)
    for context in where:
        ours = [order[request] for request in flat if request.about and request.about.context_id == context]
        assert ours == sorted(ours)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 6))
def test_block_sizes_allow_eight_blocks_per_replica(sizes, replicas):
    requests = [request_of(f"context {place}", number) for place, size in enumerate(sizes) for number in range(size)]
    blocks = blocks_of(requests, replicas)
    enough = -(-len(requests) // (8 * replicas))
    assert all(len(block) < enough + max(sizes) for block in blocks)
    assert all(len(block) >= min(enough, 128) for block in blocks[:-1])


@pytest.mark.parametrize(("size", "replicas"), [(1, 1), (40, 2), (120, 4)])
def test_as_many_as_keep_replicas_busy_are_many_blocks_of_each(size, replicas):
    contexts = breadth_of_blocks(replicas) // size
    requests = [request_of(f"context {place}", number) for place in range(contexts) for number in range(size)]
    assert len(blocks_of(requests, replicas)) >= 8 * replicas


def test_a_context_that_is_too_large_is_cut():
    small, large = [request_of("a", 0)], [request_of("b", number) for number in range(2 * LARGEST + 5)]
    assert [len(block) for block in blocks_of([*small, *large], 1)] == [1, LARGEST, LARGEST, 5]


def test_no_requests_are_no_blocks():
    assert blocks_of([], 3) == []
