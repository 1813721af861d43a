import tempfile

import pytest
from hypothesis import given, settings, strategies as st

from biaslab.core import Choice, Completion, Likelihood, Message, Reply, Request, Score, Usage, request_key
from biaslab.core.errors import InputError
from biaslab.store import Store
from biaslab.store.codec import reply_from_json, reply_to_json

INF = float("inf")

GOLDEN = [
    (
        Choice([("system", "Be fair."), ("user", "A or B? é")], ("A", "B")),
        "a88881567d7bccbc96cae211db0e69b8227f1e1fbadd794387a57f2a27262f46",
    ),
    (
        Completion("Score it.", temperature=0.7, max_tokens=8, replicate=3),
        "d0b333cd8694e45f6b8f7f6197bb5f3cf05b788d34d062b2cee68330d6807af1",
    ),
    (
        Completion("Score it.", temperature=0.7, max_tokens=8, replicate=3, seed=5),
        "805d78f6fb9414aa380d1256d3c57e34883f235975c85a68db8e140203e80481",
    ),
    (
        Likelihood("A text.", given="Before: "),
        "cba63f578f7bd41eb91ff619fcad238c3af6e1ac803d35fd53e3d8eb20d0dad4",
    ),
    (
        Score("A text.", "Its source.", "A reference.", "fluency"),
        "db3750a2e15bf9262869de4c7b9b24903db6b2e745fa16494f156ea7c5a15148",
    ),
]


@pytest.mark.parametrize(("request_", "digest"), GOLDEN)
def test_request_keys_are_stable(request_: Request, digest: str) -> None:
    assert request_key(request_, "model@revision") == digest


text = st.text(st.characters(exclude_categories=()), max_size=30)
levels = st.floats(max_value=0, allow_nan=False)
replies = st.builds(
    Reply,
    logprobs=st.none() | st.lists(levels).map(tuple),
    text=st.none() | text,
    finish_reason=st.none() | text,
    score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    usage=st.builds(Usage, *[st.integers(0, 2**60)] * 4),
    samples=st.none() | st.integers(1, 2**30),
    thought=st.none() | text,
    temperature=st.none() | st.floats(0, 10),
)


@given(replies)
def test_codec_gives_back_every_reply_exactly(reply: Reply) -> None:
    written = reply_to_json(reply)
    again = reply_from_json(written, reply.usage)
    assert written.isascii()
    assert repr(again) == repr(reply)  # repr tells -0.0 from 0.0


@pytest.mark.parametrize("bad", [float("nan"), INF])
def test_codec_refuses_what_is_no_log_probability(bad: float) -> None:
    with pytest.raises(InputError, match="logprobs"):
        reply_to_json(Reply(logprobs=(-1.0, bad)))
    with pytest.raises(InputError, match="score"):
        reply_to_json(Reply(score=bad))


@pytest.mark.parametrize(
    "bad", ["", "[]", "{", '{"logprobs":3}', '{"logprobs":["x"]}', '{"text":3}', "null", '{"text":"a"}b']
)
def test_codec_refuses_what_is_no_reply(bad: str) -> None:
    with pytest.raises(InputError):
        reply_from_json(bad)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(text, replies), max_size=5, unique_by=lambda pair: pair[0]))
def test_store_gives_back_every_reply_exactly(pairs: list[tuple[str, Reply]]) -> None:
    requests = [Completion([Message("user", prompt)]) for prompt, _ in pairs]
    with tempfile.TemporaryDirectory() as folder:
        with Store(f"{folder}/store") as store:
            for request, (_, reply) in zip(requests, pairs, strict=True):
                assert repr(store.put(request, "judge", reply)) == repr(reply)
        with Store(f"{folder}/store") as store:
            found = store.get(request_key(request, "judge") for request in requests)
    assert [repr(found[request_key(r, "judge")]) for r in requests] == [repr(reply) for _, reply in pairs]
