"""Replies that arrive together are stored in one step, and are on the disk before they are handed on."""

import math
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Reply, Request, Usage, as_judge, request_key
from biaslab.core.errors import JudgeError, StoreError
from biaslab.judges.panel import Panel
from biaslab.judges.repetition import Sampled
from biaslab.store import Store, stored_judge
from biaslab.store.file import StoreFile

Pack = list[tuple[Request, Reply]]


class Packed:
    """Answers in packs of ten, and can slip something into one of them."""

    kinds: frozenset[type] = frozenset({Completion})

    def __init__(self, name: str = "packed", slips: Pack | None = None) -> None:
        self.id, self.slips = name, slips or []

    def check(self, requests: Iterable[Request]) -> None:
        pass

    def packs(self, requests: Iterable[Request]) -> Iterator[Pack]:
        asked = list(requests)
        for start in range(0, len(asked), 10):
            pack: Pack = [(each, reply_to(each)) for each in asked[start : start + 10]]
            yield [*pack[:5], *self.slips, *pack[5:]]

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        for pack in self.packs(requests):
            yield from pack


def reply_to(request: Request) -> Reply:
    assert isinstance(request, Completion)
    return Reply(text=request.messages[0].content, finish_reason="stop", usage=Usage(3, 1, 2))


def make_requests(count: int) -> list[Request]:
    return [Completion(f"Say {number}.") for number in range(count)]


def stored(path: Path) -> int:
    """What another process would find on the disk."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT count(*) FROM replies").fetchone()[0]
    connection.close()
    return int(found)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    write = StoreFile.write

    def counted(self: StoreFile, statement: str, rows: list[tuple[str, ...]]) -> int:
        sizes.append(len(rows))
        return write(self, statement, rows)

    monkeypatch.setattr(StoreFile, "write", counted)
    return sizes


def test_pack_is_committed_once_before_it_is_yielded(tmp_path: Path, commits: list[int]) -> None:
    path, requests = tmp_path / "store", make_requests(35)
    with Store(path) as store:
        judge = store.wrap(Packed())
        for number, (request, reply) in enumerate(judge.ask(requests)):
            assert stored(path) >= min(10 * (number // 10 + 1), 35)
            assert reply == reply_to(request)
    assert commits == [10, 10, 10, 5]
    assert (judge.asked, judge.hits) == (35, 0)
    assert judge.tally.usage == Usage(105, 35, 70)


def test_reply_stored_meanwhile_replaces_the_new_one(tmp_path: Path) -> None:
    requests = make_requests(10)
    with Store(tmp_path / "store") as store:

        class Raced(Packed):
            def packs(self, requests: Iterable[Request]) -> Iterator[Pack]:
                asked = list(requests)
                Store(tmp_path / "store").put(asked[3], self.id, Reply(text="first"))
                yield from super().packs(asked)

        replies = dict(store.wrap(Raced()).ask(requests))
        assert replies[requests[3]].text == "first"
        assert replies[requests[4]].text == "Say 4."
        assert store.get([request_key(requests[3], "packed")]).popitem()[1].text == "first"


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        ((Completion("Never asked."), Reply(text="?")), "answered a request twice, or one it was not asked"),
        ((Completion("Say 1."), Reply(text="?")), "answered a request twice, or one it was not asked"),
    ],
)
def test_invalid_reply_does_not_lose_the_rest_of_its_pack(
    tmp_path: Path, slip: tuple[Request, Reply], words: str
) -> None:
    with Store(tmp_path / "store") as store:
        with pytest.raises(JudgeError, match=words):
            list(store.wrap(Packed(slips=[slip])).ask(make_requests(10)))
        assert len(store) == 10  # what stands before it and behind it


NO_REPLIES = {
    "NaN": Reply(score=float("nan")),
    "usage": Reply(text="x", usage=Usage(2**63, 0, 1)),
    "type": Reply(text="x", model={1, 2}),
    "logprobs": Reply(logprobs=("high", -1.0)),
}


class Spoiled(Packed):
    """Gives replies that cannot be kept, at some places of its first pack."""

    def __init__(self, bad: Reply, at: Collection[int] = (7,)) -> None:
        super().__init__()
        self.bad, self.at = bad, at

    def packs(self, requests: Iterable[Request]) -> Iterator[Pack]:
        for pack in super().packs(requests):
            yield [(each, self.bad if at in self.at else reply) for at, (each, reply) in enumerate(pack)]


@pytest.mark.parametrize("name", NO_REPLIES)
def test_one_bad_reply_is_one_bad_reply(tmp_path: Path, name: str) -> None:
    requests = make_requests(30)
    with Store(tmp_path / "store") as store:
        judge = store.wrap(Spoiled(NO_REPLIES[name]))
        with pytest.raises(JudgeError, match=r"3 replies could not be stored.*gave no valid reply") as caught:
            list(judge.ask(requests))
        assert caught.value.request == requests[7]
        assert len(store) == judge.asked == 27
        assert store.missing(judge.judge, requests) == [requests[at] for at in (7, 17, 27)]


def test_run_stops_after_a_pack_without_storable_replies(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        judge = Spoiled(NO_REPLIES["usage"], range(10))
        with pytest.raises(JudgeError, match="10 replies could not be stored"):
            list(store.wrap(judge).ask(make_requests(30)))
        assert len(store) == 0


def test_a_pack_that_does_not_fit_is_not_there_in_part(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store(path) as store:
        store.put_all([(each, reply_to(each)) for each in make_requests(3)], "packed")
        pages = store._file.run("PRAGMA page_count")[0][0][0]
        store._file.run(f"PRAGMA max_page_count = {pages}")
        large = [(Completion(f"{number} " + "x" * 5000), Reply(text="y")) for number in range(20)]
        with pytest.raises(StoreError, match="the 3 replies stored so far are safe"):
            store.put_all(large, "packed")
        assert stored(path) == len(store) == 3
        store._file.run("PRAGMA max_page_count = 1000000")
        store.put_all(large, "packed")
        assert len(store) == 23


def test_judges_of_judges_hand_packs_on(tmp_path: Path, commits: list[int]) -> None:
    with Store(tmp_path / "store") as store:
        panel = store.wrap(Panel([Packed("one"), Packed("two")]))
        assert len(dict(panel.ask(make_requests(20)))) == 20
        assert commits == [10] * 6  # two members and the panel
        sampled = store.wrap(Sampled(Packed(), 5))
        assert len(dict(sampled.ask(make_requests(20)))) == 20
        assert commits[6:] == [10] * 4  # the judge, and what is made of its replies


class Plain:
    """Answers one by one, and can end a run before one of its replies."""

    id, kinds = "plain", frozenset({Choice, Completion})
    stopped = False

    def __init__(self, ends: BaseException | None = None, at: int = 3) -> None:
        self.ends, self.at = ends, at

    def check(self, requests: Iterable[Request]) -> None:
        pass

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        try:
            for number, request in enumerate(requests):
                if number == self.at and self.ends is not None:
                    raise self.ends
                is_choice = isinstance(request, Choice)
                yield request, Reply(logprobs=(-0.1, -3.0), usage=Usage(9)) if is_choice else reply_to(request)
        finally:
            self.stopped = True


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all single replies for instant, on whatever machine."""
    for name in ("AT_ONCE", "TOGETHER"):
        monkeypatch.setattr(stored_judge, name, math.inf)


@pytest.mark.usefixtures("instant")
@pytest.mark.parametrize(
    "ends", [JudgeError("gone"), RuntimeError("a bug"), KeyboardInterrupt(), SystemExit(143)], ids=repr
)
def test_replies_of_an_unfinished_pack_are_stored_at_any_end(tmp_path: Path, ends: BaseException) -> None:
    requests, judge = make_requests(5), Plain(ends)
    with Store(tmp_path / "store") as store:
        with pytest.raises(type(ends)):
            list(store.wrap(judge).ask(requests))
        assert judge.stopped
        assert store.missing(judge, requests) == requests[3:]
        answers = store.wrap(Plain(JudgeError("gone"), 1)).ask(requests)
        assert [next(answers)[0] for _ in range(4)] == requests[:4]  # the error comes after the replies before it
        with pytest.raises(JudgeError, match="gone"):
            next(answers)


@pytest.mark.usefixtures("instant")
def test_a_budget_is_held_after_every_reply(tmp_path: Path, commits: list[int]) -> None:
    data, probe = bl.load_dataset("graded", limit=1), bl.probes.Position(["fluency"], templates=[1])
    bl.collect(probe, Plain(), data, store=tmp_path / "free", progress=False)
    assert commits == [30]
    budget = bl.Budget(tokens=90, partial=True)
    with pytest.raises(bl.errors.BudgetExceededError, match="90 of 90 tokens"):
        bl.collect(probe, Plain(), data, store=tmp_path / "limited", progress=False, budget=budget)
    assert commits[1:] == [1] * 10


@pytest.mark.parametrize("seconds", [0.0, math.inf], ids=["each takes longer", "all come at once"])
def test_a_full_disk_holds_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    for name in ("AT_ONCE", "TOGETHER"):
        monkeypatch.setattr(stored_judge, name, seconds)
    requests: list[Request] = [Completion(f"{number} " + "x" * 5000) for number in range(20)]
    with Store(tmp_path / "store") as store:
        pages = store._file.run("PRAGMA page_count")[0][0][0]
        store._file.run(f"PRAGMA max_page_count = {int(str(pages)) + 16}")
        with pytest.raises(StoreError, match="stored so far are safe"):
            list(store.wrap(Plain()).ask(requests))
        assert 0 < len(store) < 20
        with pytest.raises(StoreError):
            store.put(store.missing(Plain(), requests)[0], "plain", Reply(text="x" * 5000))


def test_other_judges_give_packs_of_one() -> None:
    judge = Plain()
    packs = as_judge(judge).packs(make_requests(3))
    assert len(next(packs)) == 1
    packs.close()
    assert judge.stopped
    assert [len(pack) for pack in as_judge(judge).packs(make_requests(3))] == [1, 1, 1]
