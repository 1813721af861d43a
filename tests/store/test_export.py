"""Several stores as one: what is kept, what is refused, and that nothing else changes."""

import hashlib
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from typer.testing import CliRunner

from biaslab.cli.store import store_app
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
from biaslab.core.errors import CorruptStoreError, ForeignStoreError, InputError, StoreError
from biaslab.store import Store
from biaslab.store.export import Merged, merge_stores


def fill(path, numbers, judge="a judge", salt=""):
    with Store(path) as store:
        for number in numbers:
            store.put(Completion(f"Say {number}."), judge, Reply(text=f"{number}{salt}", usage=Usage(number, 1, 2)))
    return path


def replies(path):
    with Store(path, create=False) as store:
        return [(record.key, record.judge, record.request, record.reply) for record in store.records()]


def state(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_merged_store_has_each_reply_once_in_order(tmp_path: Path) -> None:
    one = fill(tmp_path / "one", range(30))
    two = fill(tmp_path / "two", range(25, 45))
    three = fill(tmp_path / "three", range(3), "another judge")
    with Store(three) as store:
        store.put(Choice("A or B?", ("A", "B")), "another judge", Reply(logprobs=(-0.1, float("-inf"))))
    before = state(tmp_path)
    assert merge_stores(tmp_path / "all", [one, two, three]) == Merged(49, 5, 0)
    assert {name: digest for name, digest in state(tmp_path).items() if name != "all"} == before
    merged = replies(tmp_path / "all")
    wanted = replies(one) + [row for row in replies(two) if row not in replies(one)] + replies(three)
    assert merged == wanted
    with Store(tmp_path / "all") as store:  # it is a store like any other
        kept = store.put(Completion("Say 1."), "a judge", Reply(text="again"))
        assert kept == Reply(text="1", usage=Usage(1, 1, 2))
        assert len(store) == 49


@settings(max_examples=10)  # every reply is one more write that the disk has to confirm
@given(st.lists(st.sets(st.integers(0, 5)), min_size=2, max_size=4))
def test_a_merged_store_is_the_union(tmp_path_factory, sets):
    folder = tmp_path_factory.mktemp("stores")
    paths = [fill(folder / f"{place}", sorted(numbers)) for place, numbers in enumerate(sets)]
    merged = merge_stores(folder / "all", paths)
    union = set().union(*sets)
    assert merged == Merged(len(union), sum(map(len, sets)) - len(union), 0)
    assert {key for key, *_ in replies(folder / "all")} == {
        request_key(Completion(f"Say {number}."), "a judge") for number in union
    }


def test_conflicting_replies_are_refused_without_first_wins(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "one", range(10)), fill(tmp_path / "two", range(5, 15), salt="!")
    before = state(tmp_path)
    with pytest.raises(
        StoreError, match=r"two has different replies to 5 requests .*, such as key \w{64}; nothing was"
    ) as caught:
        merge_stores(tmp_path / "all", [one, two])
    assert caught.value.path == two
    assert state(tmp_path) == before
    assert merge_stores(tmp_path / "all", [two, one], first_wins=True) == Merged(15, 5, 5)
    assert [reply.text for *_, reply in replies(tmp_path / "all")] == [f"{n}!" for n in range(5, 15)] + list("01234")


def test_a_store_that_another_process_writes_is_read_too(tmp_path: Path) -> None:
    fill(tmp_path / "two", range(3))
    with Store(tmp_path / "one") as store:
        store.put(Completion("Say 7."), "a judge", Reply(text="7"))
        assert (tmp_path / "one-wal").exists()
        assert merge_stores(tmp_path / "all", [tmp_path / "one", tmp_path / "two"]).replies == 4
        store.put(Completion("Say 8."), "a judge", Reply(text="8"))
        assert len(store) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "one", "two"]


def test_bad_input_makes_nothing(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "one", range(3)), fill(tmp_path / "two", range(3))
    (tmp_path / "other").write_text("no store")
    damaged = tmp_path / "damaged"
    damaged.write_bytes(one.read_bytes()[:5000])
    before, out = state(tmp_path), tmp_path / "out"
    tries = [
        ((out, [one]), InputError, "at least two stores"),
        ((out, [one, tmp_path / "." / "one"]), InputError, "each named once"),
        ((two, [one, two]), InputError, "a path that does not exist yet"),
        ((out, [one, tmp_path / "gone"]), StoreError, "there is no store at .*gone"),
        ((out, [one, tmp_path / "other"]), ForeignStoreError, "not a biaslab store"),
        ((out, [one, damaged]), CorruptStoreError, "damaged"),
    ]
    for arguments, error, words in tries:
        with pytest.raises(error, match=words):
            merge_stores(*arguments)
        assert state(tmp_path) == before


def test_a_fault_that_shows_while_it_is_copied_makes_nothing(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "one", range(3)), tmp_path / "two"
    fill(two, range(3))
    with sqlite3.connect(two) as connection:  # a store, but for an extra rule that fails when rows are read
        connection.execute("ALTER TABLE replies RENAME TO kept")
        columns = ", ".join(name for _, name, *_ in connection.execute("PRAGMA table_info(kept)") if name != "reply")
        connection.execute(f"CREATE VIEW replies AS SELECT {columns}, json_extract('[', '$') AS reply FROM kept")
    connection.close()
    with pytest.raises(StoreError, match="two"):
        merge_stores(tmp_path / "all", [one, two])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_command(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "one", range(3)), fill(tmp_path / "two", range(2, 5), salt="!")
    words = ["merge", str(tmp_path / "all"), str(one), str(two)]
    assert isinstance(CliRunner().invoke(store_app, words).exception, StoreError)
    done = CliRunner().invoke(store_app, [*words, "--first-wins"])
    assert done.exit_code == 0
    assert "all: 5 replies from 2 stores" in done.output
    assert "1 reply found in several stores, kept once, 1 with a different reply in a later store" in done.output


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
