"""Batch files: what is written, how results come back in any state, and that a file is submitted once."""

import asyncio
import json
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood, request_key
from biaslab.core.errors import InputError, ServerError, UnsupportedRequestError
from biaslab.judges.api.batch import BatchJobs, export_batch, import_results, keys_of, read_keys

BatchServer = runpy.run_path(str(Path(__file__).with_name("batch_server.py")))["BatchServer"]
JUDGE = bl.ApiJudge("judge", "http://me:hidden-secret@localhost:1/v1")
REQUESTS = [
    *(Completion(f"prompt {n}", 0.5, 8, replicate=n % 2, seed=n) for n in range(8)),
    Choice([("system", "be fair"), ("user", "A or B?\n\x00 “quoted”")], ("A", "B")),
]


def lines_of(files):
    return [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]


def results_of(files, server=None):
    server = server or BatchServer()
    return [server.result(line) for line in lines_of(files)]


def write(path, lines):
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_every_line_is_a_request_and_the_keys_bring_it_back(tmp_path):
    exported = export_batch(JUDGE, [*REQUESTS, REQUESTS[0]], tmp_path / "s.jsonl")
    assert (exported.files, exported.requests) == ((tmp_path / "s.jsonl",), 9)
    lines = lines_of(exported.files)
    assert {line["custom_id"] for line in lines} == {request_key(request, JUDGE.id) for request in REQUESTS}
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    head, wanted = read_keys(tmp_path / "s.jsonl")
    assert set(wanted.values()) == set(REQUESTS)
    for line in lines:
        assert line["body"] == JUDGE.wire.write(wanted[line["custom_id"]])[1]
    assert head["judge"] == JUDGE.id
    assert not any(b"hidden-secret" in file.read_bytes() for file in tmp_path.iterdir())


def test_batch_omits_declared_fields_and_records_the_temperature(tmp_path):
    judge = bl.ApiJudge("judge", "http://localhost:1/v1", omit=["temperature", "seed", "system"])
    exported = export_batch(judge, REQUESTS, tmp_path / "s.jsonl")
    for line in lines_of(exported.files):
        assert not {"temperature", "seed"} & line["body"].keys()
        assert {message["role"] for message in line["body"]["messages"]} == {"user"}
    results = write(tmp_path / "r.jsonl", results_of(exported.files))
    with bl.Store(tmp_path / "store") as store:
        assert import_results(tmp_path / "s.jsonl", [results], store).stored == 9
        replies = dict(store.wrap(judge).ask(REQUESTS))
    assert {replies[request].temperature for request in REQUESTS[:8]} == {1.0}


def test_files_keep_the_limits(tmp_path):
    requests = [Completion("x" * (100 + n)) for n in range(20)]
    exported = export_batch(JUDGE, requests, tmp_path / "s.jsonl", most_requests=7)
    assert [file.name for file in exported.files] == ["s-1.jsonl", "s-2.jsonl", "s-3.jsonl"]
    assert [len(lines_of([file])) for file in exported.files] == [7, 7, 6]
    small = export_batch(JUDGE, requests, tmp_path / "t.jsonl", most_bytes=2000)
    assert max(file.stat().st_size for file in small.files) <= 2000
    assert len(lines_of(small.files)) == 20
    with pytest.raises(InputError, match="longest request"):
        export_batch(JUDGE, requests, tmp_path / "u.jsonl", most_bytes=100)


def test_bad_exports(tmp_path):
    with pytest.raises(InputError, match="path"):
        export_batch(JUDGE, REQUESTS, tmp_path / "s.csv")
    with pytest.raises(InputError, match="at least one"):
        export_batch(JUDGE, [], tmp_path / "s.jsonl")
    with pytest.raises(UnsupportedRequestError, match="ask others directly"):
        export_batch(JUDGE, [Likelihood("x")], tmp_path / "s.jsonl")
    assert not list(tmp_path.iterdir())
    export_batch(JUDGE, REQUESTS, tmp_path / "s.jsonl")
    with pytest.raises(InputError, match="without an exported batch"):
        export_batch(JUDGE, REQUESTS, tmp_path / "s.jsonl")
    with pytest.raises(InputError, match="batch export"):
        read_keys(tmp_path / "other.jsonl")
    keys_of(tmp_path / "s.jsonl").write_text("{}\n{}\n")
    with pytest.raises(InputError, match="lines written"):
        import_results(tmp_path / "s.jsonl", [], None)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_results_in_any_order_and_state_store_each_reply_once(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("batch")
    exported = export_batch(JUDGE, REQUESTS, folder / "s.jsonl")
    good = results_of(exported.files)
    chosen = data.draw(st.lists(st.integers(0, 8), max_size=25))
    broken = data.draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
    lines, answered, repeated, failed = [], set(), 0, 0
    for index, bad in zip(chosen, broken, strict=True):
        error = {"custom_id": good[index]["custom_id"], "response": None, "error": {"message": "expired"}}
        lines.append(error if bad else good[index])
        repeated += index in answered
        failed += bad and index not in answered
        answered |= set() if bad else {index}
    with bl.Store(folder / "store") as store:
        found = import_results(folder / "s.jsonl", [write(folder / "r", lines)], store)
        assert (found.stored, found.repeated, found.open) == (len(answered), repeated, 9 - len(answered))
        assert found.failed == ({"expired": failed} if failed else {})
        again = import_results(folder / "s.jsonl", [folder / "r", write(folder / "all", good)], store)
        assert (again.stored, again.present, again.open) == (9 - len(answered), len(answered), 0)
        assert len(store) == 9


def test_batch_result_lines_are_stored_or_counted_as_failed(tmp_path):
    exported = export_batch(JUDGE, REQUESTS, tmp_path / "s.jsonl")
    good = results_of(exported.files)
    lines = [
        {**good[0], "response": {"status_code": 429, "body": {"error": {"message": "slow down"}}}},
        {**good[1], "response": {"status_code": 400, "body": {"error": {"message": "content management policy"}}}},
        {**good[2], "response": {"status_code": 200, "body": {"choices": []}}},
        {**good[3], "custom_id": "of another study"},
        "[1, 2]\n",
        json.dumps(good[4])[:50],
    ]
    with bl.Store(tmp_path / "store") as store:
        found = import_results(tmp_path / "s.jsonl", [write(tmp_path / "r", lines)], store)
        assert (found.stored, found.unknown, found.open) == (1, 1, 8)
        assert dict(found.failed) == {
            "HTTP 429: slow down": 1,
            "the server sent no choices": 1,
            "a line that is not a JSON object, such as a truncated one": 2,
        }
        [reply] = store.get([good[1]["custom_id"]]).values()
        assert reply.finish_reason == "content_filter"
    with pytest.raises(InputError, match="a readable file"):
        import_results(tmp_path / "s.jsonl", [tmp_path / "none"], store)


def test_a_batch_answers_as_asking_does(tmp_path, graded):
    """Submitted to a server, looked at, fetched: the trials are those of asking one by one."""
    probe, data = bl.probes.Position(["coherence"], [1]), graded.head(1)
    with BatchServer() as server:
        judge = bl.ApiJudge("judge", server.url)
        asked = bl.collect(probe, judge, data, progress=False)
        paid = sum(server.paid.values())
        requests = [trial.request for trial in probe.design(data)]
        export_batch(judge, requests, tmp_path / "s.jsonl", most_requests=11)
        jobs = BatchJobs(tmp_path / "s.jsonl")
        assert [job.file for job in jobs.submit()] == ["s-1.jsonl", "s-2.jsonl", "s-3.jsonl"]
        assert BatchJobs(tmp_path / "s.jsonl").submit() == []
        assert sum(server.paid.values()) - paid == 30
        assert [(job.status, job.done, job.total) for job in jobs.update()] == [
            ("completed", 11, 11), ("completed", 11, 11), ("completed", 8, 8),
        ]  # fmt: skip
        with bl.Store(tmp_path / "store") as store:
            assert import_results(tmp_path / "s.jsonl", jobs.fetch(), store).stored == 30
            read = bl.collect(probe, judge, data, store, progress=False)
        judge.close()
    assert read.attrs["asked"] == 0
    assert read["value"].tolist() == asked["value"].tolist()


def test_failed_batch_is_resubmitted_and_partial_one_is_read(tmp_path):
    with BatchServer() as server:
        judge = bl.ApiJudge("judge", server.url)
        export_batch(judge, REQUESTS, tmp_path / "s.jsonl")
        jobs = BatchJobs(tmp_path / "s.jsonl")
        [job] = jobs.submit()
        counts = {"total": 9, "completed": 0, "failed": 9}
        server.batches[job.batch] |= {"status": "failed", "output_file_id": None, "request_counts": counts}
        assert jobs.update()[0].status == "failed"
        assert jobs.fetch() == []
        [second] = jobs.submit()
        assert second.batch != job.batch
        lines = server.files[f"out-{second.batch}"].splitlines()
        server.files["part"] = "\n".join(lines[:4])
        server.files["errors"] = json.dumps({**json.loads(lines[5]), "response": None, "error": {"message": "expired"}})
        counts = {"total": 9, "completed": 4, "failed": 5}
        server.batches[second.batch] |= {
            "status": "expired", "output_file_id": "part", "error_file_id": "errors", "request_counts": counts,
        }  # fmt: skip
        with bl.Store(tmp_path / "store") as store:
            found = import_results(tmp_path / "s.jsonl", jobs.fetch(), store)
        assert (found.stored, found.open, dict(found.failed)) == (4, 5, {"expired": 1})
        assert jobs.submit() == []  # what is left is a new export


class SlowServer(BatchServer):
    """A server that starts a batch at once and says so late."""

    async def batch(self, request):
        response = await super().batch(request)
        await asyncio.sleep(2)
        return response


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_batch_that_a_kill_hides_is_started_once(tmp_path, number):
    submit = "import sys, biaslab.judges.api.batch as b, pathlib as p; b.BatchJobs(p.Path(sys.argv[1])).submit()"
    with SlowServer() as server:
        export_batch(bl.ApiJudge("judge", server.url), REQUESTS, tmp_path / "s.jsonl")
        process = subprocess.Popen([sys.executable, "-c", submit, str(tmp_path / "s.jsonl")], stderr=subprocess.DEVNULL)
        while not server.batches:
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(number)
        process.wait(30)
        assert [job.batch for job in BatchJobs(tmp_path / "s.jsonl").submit()] == ["batch-0"]
        assert BatchJobs(tmp_path / "s.jsonl").submit() == []
        assert sum(server.paid.values()) == len(REQUESTS)


def test_batch_that_a_kill_hid_is_found_among_many(tmp_path):
    with BatchServer() as server:
        export_batch(bl.ApiJudge("judge", server.url), REQUESTS, tmp_path / "s.jsonl")
        jobs = BatchJobs(tmp_path / "s.jsonl")
        [job] = jobs.submit()
        jobs._note([job._replace(batch="")])  # as after a kill
        newer = {**server.batches[job.batch], "input_file_id": "file-of-another"}
        server.batches |= {f"batch-{n}": {**newer, "id": f"batch-{n}"} for n in range(1, 2500)}
        assert [each.batch for each in jobs.submit()] == [job.batch]
        del server.batches[job.batch]
        jobs._note([job._replace(batch="")])
        server.batches |= {f"older-{n}": {**newer, "id": f"older-{n}", "created_at": 0} for n in range(1000)}
        assert [each.batch for each in jobs.submit()] != [job.batch]


@pytest.mark.slow
def test_refused_batch_error_does_not_show_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLAB_API_KEY", "sk-planted-1234567890")
    with BatchServer() as server:
        judge = bl.ApiJudge("judge", server.url.replace("/v1", "/v9"))
        export_batch(judge, REQUESTS, tmp_path / "s.jsonl")
        with pytest.raises(ServerError, match="HTTP 404") as caught:
            BatchJobs(tmp_path / "s.jsonl").submit()
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert not any(b"planted" in file.read_bytes() for file in tmp_path.iterdir())
    with pytest.raises(ServerError, match="nothing answers"):
        BatchJobs(tmp_path / "s.jsonl").submit()
