"""A store hands out requests with replies, as they were."""

import pytest
from hypothesis import given, strategies as st

from biaslab.core import (
    Choice,
    Completion,
    Likelihood,
    Message,
    Reply,
    Score,
    Usage,
    request_fields,
    request_from_fields,
    request_key,
)  # fmt: skip
from biaslab.core.errors import InputError
from biaslab.store import Store

REQUESTS = [
    Choice([Message("system", "Be fair."), Message("user", "A or B?")], ("A", "B")),
    Completion("Why?", 0.7, 32, 3, seed=5),
    Likelihood("It rains.", "Weather: "),
    Score("It rains.", "Weather", attribute="fluency"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.kind)
def test_a_request_comes_back_from_its_fields(request_):
    assert request_from_fields(request_.kind, request_fields(request_)) == request_


@given(st.text(min_size=1), st.floats(0, 10), st.integers(0, 9))
def test_any_completion_comes_back(text, temperature, replicate):
    request = Completion(text, temperature, replicate=replicate)
    assert request_from_fields("completion", request_fields(request)) == request


def test_invalid_request_fields_are_refused():
    with pytest.raises(InputError, match="choice, completion"):
        request_from_fields("telepathy", {})
    with pytest.raises(InputError, match="score request"):
        request_from_fields("score", {"txt": "x"})


def test_records_keep_the_order_of_storing(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        for place, request in enumerate(REQUESTS):
            store.put(request, "j", Reply(text=f"reply {place}", usage=Usage(3, 2, 1)))
        found = list(store.records())
        assert [record.request for record in found] == REQUESTS
        assert [record.reply for record in found] == [
            Reply(text=f"reply {place}", usage=Usage(3, 2, 1)) for place in range(4)
        ]
        keys = [request_key(request, "j") for request in REQUESTS]
        assert [record.key for record in found] == keys
        assert [record.request for record in store.records([keys[2], "0" * 64])] == [REQUESTS[2]]
