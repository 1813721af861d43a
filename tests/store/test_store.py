import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Judge, Likelihood, Reply, Request, Usage, request_fields, request_key
from biaslab.core.errors import InputError, JudgeError
from biaslab.probes.position import Position
from biaslab.store import Store, stored_judge
from biaslab.store.codec import reply_from_json
from biaslab.store.stored_judge import PROCESS

INF = float("inf")


class HashJudge:
    """Answers from a hash of the request and a salt, and remembers what it was asked."""

    def __init__(self, name: str = "hash", salt: str = "", fail_at: int | None = None) -> None:
        self.id, self.salt, self.fail_at = name, salt, fail_at
        self.kinds: frozenset[type] = frozenset({Choice, Completion, Likelihood})
        self.seen: list[Request] = []
        self.checked: list[Request] = []
        self.closed = False

    def check(self, requests: Iterable[Request]) -> None:
        self.checked += requests

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        try:
            for request in requests:
                if len(self.seen) == self.fail_at:
                    raise JudgeError("the server is gone", request)
                self.seen.append(request)
                yield request, self.answer(request)
        finally:
            self.closed = True

    def answer(self, request: Request) -> Reply:
        digest = hashlib.sha256((self.salt + request_key(request, self.id)).encode()).digest()
        usage = Usage(digest[0], digest[1], digest[2])
        if isinstance(request, Completion):
            return Reply(text=digest.hex() + "\ud800é\0", finish_reason="stop", usage=usage)
        size = len(request.labels) if isinstance(request, Choice) else len(request.text)
        levels = [-digest[i % 32] / 7 for i in range(size)]
        return Reply(logprobs=(*levels[:-1], -INF), usage=usage)


def make_requests(count: int) -> list[Request]:
    kinds = (
        lambda i: Choice(f"Which, {i}?", ("A", "B")),
        lambda i: Completion(f"Say {i}.", temperature=0.1, replicate=i),
        lambda i: Likelihood(f"text {i}", given="é\udfff"),
    )
    return [kinds[i % 3](i) for i in range(count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a folder" / "replies #1.sqlite"


@pytest.fixture
def filled(path: Path) -> Path:
    with Store(path) as store:
        for _ in store.wrap(HashJudge()).ask(make_requests(90)):
            pass
    assert list(path.parent.iterdir()) == [path]
    return path


@pytest.mark.slow
def test_second_run_asks_nothing(path: Path) -> None:
    requests, judge = make_requests(1500), HashJudge()
    with Store(path) as store:
        first = store.wrap(judge)
        assert isinstance(first, Judge)
        assert (first.id, first.kinds) == (judge.id, judge.kinds)
        answers = dict(first.ask(requests))
        assert (first.hits, first.asked) == (0, 1500)
        assert answers == {request: judge.answer(request) for request in requests}
    with Store(path) as store:
        other = HashJudge()
        again = store.wrap(other)
        assert dict(again.ask(iter(requests))) == answers
        assert (again.hits, again.asked, other.seen) == (1500, 0, [])
        assert len(store) == 1500
        stranger = store.wrap(HashJudge("another id"))
        assert dict(stranger.ask(requests[:3])).keys() == set(requests[:3])
        assert stranger.asked == 3


def test_only_missing_requests_are_checked_and_asked(filled: Path) -> None:
    judge, requests = HashJudge(), make_requests(100)
    with Store(filled) as store:
        stored = store.wrap(judge)
        stored.check(requests)
        assert judge.checked == requests[90:]
        assert len(dict(stored.ask(requests))) == 100
        assert (judge.seen, stored.hits, stored.asked) == (requests[90:], 90, 10)
        stored.check(requests)
        assert judge.checked == requests[90:]


def test_equal_requests_are_asked_once_and_each_answered(path: Path) -> None:
    judge, requests = HashJudge(), make_requests(4)
    with Store(path) as store:
        stored = store.wrap(judge)
        answers = list(stored.ask(requests + requests[:2] + requests[:1]))
        assert len(answers) == 7
        assert [request for request, _ in answers].count(requests[0]) == 3
        assert (judge.seen, stored.asked, stored.hits) == (requests, 4, 3)


def test_the_tally_counts_replies_and_tokens_of_both(path: Path) -> None:
    judge, requests, before = HashJudge(), make_requests(4), dataclasses.replace(PROCESS)
    with Store(path) as store:
        list(store.wrap(judge).ask(requests[:3]))
        stored = store.wrap(judge)
        answers = list(stored.ask(requests + requests[3:]))
    tokens = [reply.usage.prompt_tokens + reply.usage.completion_tokens for _, reply in answers]
    new, old = dict(answers)[requests[3]].usage, sum(tokens)
    paid = new.prompt_tokens + new.completion_tokens
    assert stored.tally.counts == {"asked": 1, "stored": 4, "asked_tokens": paid, "stored_tokens": old - paid}
    assert (PROCESS.asked - before.asked, PROCESS.stored - before.stored) == (4, 4)


def test_failure_is_not_stored_and_everything_before_stays(path: Path) -> None:
    requests, failing, judge = make_requests(20), HashJudge(fail_at=7), HashJudge()
    with Store(path) as store:
        with pytest.raises(JudgeError, match="gone"):
            list(store.wrap(failing).ask(requests))
        assert len(store) == 7
        assert dict(store.wrap(judge).ask(requests)) == {r: judge.answer(r) for r in requests}
        assert judge.seen == requests[7:]


@pytest.mark.parametrize("seconds", [0.0, INF], ids=["each takes longer", "all come at once"])
def test_reply_is_durable_before_it_is_handed_on(path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """And before the next one is asked, unless it took less than a millisecond."""
    monkeypatch.setattr(stored_judge, "AT_ONCE", seconds)
    monkeypatch.setattr(stored_judge, "TOGETHER", seconds)
    judge = HashJudge()
    with Store(path) as store, Store(path) as reader:
        answers = store.wrap(judge).ask(make_requests(5))
        for count, _ in enumerate(answers, start=1):
            assert len(reader) == len(judge.seen) == (5 if seconds else count)
            if count == 3:
                answers.close()
        assert judge.closed
        assert len(reader) == (5 if seconds else 3)


class OddJudge(HashJudge):
    """Breaks the protocol in the way it is told."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        first, *_ = requests
        if self.salt == "NaN":
            yield first, Reply(logprobs=(float("nan"), -1.0))
        yield first, self.answer(first)
        if self.salt == "twice":
            yield first, self.answer(first)


@pytest.mark.parametrize(("oddity", "kept"), [("NaN", 0), ("twice", 1), ("early", 1)])
def test_judge_that_breaks_the_protocol_is_named(path: Path, oddity: str, kept: int) -> None:
    requests = make_requests(3)
    with Store(path) as store:
        with pytest.raises(JudgeError, match="'odd'") as caught:
            list(store.wrap(OddJudge("odd", oddity)).ask(requests))
        assert caught.value.request in requests
        assert len(store) == kept


def test_judge_id_must_be_text(path: Path) -> None:
    with Store(path) as store, pytest.raises(InputError, match=r"judge\.id"):
        store.wrap(HashJudge("\ud800"))


def test_info_sums_by_judge_and_kind(filled: Path) -> None:
    with Store(filled) as store:
        list(store.wrap(HashJudge("b")).ask(make_requests(1)))
        frame = store.info()
        assert f"Store {filled}: 91 replies" in store._repr_html_()
        assert repr(store) == f"Store({str(filled)!r})"
    assert list(frame["judge"]) == ["b", "hash", "hash", "hash"]
    assert list(frame["kind"]) == ["choice", "choice", "completion", "likelihood"]
    assert list(frame["replies"]) == [1, 30, 30, 30]
    judge = HashJudge()
    paid = [judge.answer(r).usage.prompt_tokens for r in make_requests(90) if isinstance(r, Completion)]
    assert frame["prompt_tokens"][2] == sum(paid)
    assert frame["first"].dtype == frame["last"].dtype == pd.DatetimeTZDtype("us", "UTC")
    assert frame.attrs["bytes"] >= filled.stat().st_size


def test_empty_store_is_a_store(path: Path) -> None:
    with Store(path) as store:
        assert store
        assert len(store) == len(store.info()) == store.prune(judge="x") == 0
        assert list(store.wrap(HashJudge()).ask([])) == []
        assert store.get([]) == {}
        for suffix in (".parquet", ".csv", ".jsonl"):
            assert store.export(path.with_suffix(suffix)) == 0
    assert len(pd.read_parquet(path.with_suffix(".parquet"))) == 0


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_export_reads_back(path: Path, suffix: str) -> None:
    requests, judge = make_requests(4500), HashJudge()
    out = path.parent / f"out{suffix}"
    with Store(path) as store:
        for request in requests:
            store.put(request, judge.id, judge.answer(request))
        assert store.export(out) == len(requests)
        moments = store.info()
    if suffix == ".jsonl":
        rows = [json.loads(line) for line in out.read_text("ascii").splitlines()]
        frame = pd.DataFrame([r | {n: json.dumps(r[n]) for n in ("request", "reply")} for r in rows])
    else:
        frame = pd.read_parquet(out) if suffix == ".parquet" else pd.read_csv(out)
    assert list(frame["key"]) == [request_key(request, judge.id) for request in requests]
    assert list(frame["kind"]) == [request.kind for request in requests]
    assert set(frame["judge"]) == {"hash"}
    assert json.loads(frame["request"][1]) == request_fields(requests[1])
    tokens = frame[["prompt_tokens", "cached_tokens", "completion_tokens"]].itertuples(index=False)
    usages = [Usage(*map(int, row)) for row in tokens]
    read = [reply_from_json(t, usage) for t, usage in zip(frame["reply"], usages, strict=True)]
    assert read == [judge.answer(request) for request in requests]
    created = pd.to_datetime(frame["created"], utc=True)
    assert created.min() == moments["first"].min()
    assert created.max() == moments["last"].max()
    assert set(path.parent.iterdir()) == {path, out}


def test_export_refuses_other_suffixes_and_itself(tmp_path: Path) -> None:
    with Store(tmp_path / "store.csv") as store:
        with pytest.raises(InputError, match=r"\.parquet, \.csv, \.jsonl"):
            store.export(tmp_path / "out.xlsx")
        with pytest.raises(InputError, match="the store itself"):
            store.export(tmp_path / "store.csv")
        with pytest.raises(InputError, match="a folder that exists or can be created"):
            store.export(tmp_path / "store.csv" / "out.csv")
        assert store.export(tmp_path / "new" / "folder" / "out.csv") == len(store) == 0


def test_prune_deletes_what_is_named_and_shrinks_the_file(filled: Path) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with Store(filled) as store:
        list(store.wrap(HashJudge("other")).ask(make_requests(300)))
        size = store.info().attrs["bytes"]
        with pytest.raises(InputError, match="judge and older_than"):
            store.prune()
        with pytest.raises(InputError, match="date"):
            store.prune(older_than="last year")
        assert store.prune(older_than="2020-01-01") == store.prune("hash", date(2020, 1, 1)) == 0
        assert store.prune("other", dry_run=True) == 300
        assert len(store) == 390
        assert store.prune("other", older_than=tomorrow) == 300
        assert len(store) == 90
        assert store.info().attrs["bytes"] < size / 2
        assert store.prune(older_than=tomorrow.isoformat()) == 90


NOBODY = 65534


@pytest.fixture
def folder():
    """A folder whose parents every user may enter, unlike those of ``tmp_path``."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)
        Path(place).chmod(0o755)


def succeeds(act):
    """Return whether an act raises nothing in a process without the rights of root."""
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process with other rights")
def test_complete_store_in_a_read_only_folder_is_read(folder):
    data, path = bl.load_dataset("graded", limit=2), folder / "store.sqlite"

    def run():
        options = {"store": path, "progress": False}
        return bl.collect(Position(templates=[1]), bl.SimulatedJudge(data), data, **options).attrs

    stored = run()["asked"]
    path.chmod(0o444)
    folder.chmod(0o555)
    assert stored > 0
    assert succeeds(lambda: [run()["asked"]].remove(0))
