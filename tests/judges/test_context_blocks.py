"""Blocks of whole contexts: nothing is lost, nothing is twice, and what belongs together stays together."""

import pytest
from hypothesis import given, strategies as st

from biaslab.core import Completion
from biaslab.core.about import About
from biaslab.judges.context_blocks import LARGEST, blocks_of, breadth_of_blocks


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
