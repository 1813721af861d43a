"""A planted key is looked for in everything that a judge leaves behind."""

import io
import logging
import pickle
import subprocess
import sys
import traceback
import types
from collections import deque

import pytest

import biaslab as bl
from biaslab.core import Completion
from biaslab.core.errors import InputError, ServerError
from biaslab.judges.api import ApiJudge, Patience
from biaslab.testing import FaultServer

KEY = "sk-planted-9f8e7d6c5b4a"
PASSWORD = "planted-pass-3141592653"
QUICK = Patience(retries=1, first_wait=0.001)


def reachable(error):
    """Everything that hangs on an exception: its chain, their attributes, and what those hold."""
    seen, found, left = set(), [], deque([error])
    while left and len(seen) < 20_000:
        thing = left.popleft()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType | types.FunctionType | types.FrameType):
            continue
        seen.add(id(thing))
        found.append(repr(thing))
        if isinstance(thing, BaseException):
            left.extend([thing.__cause__, thing.__context__, *thing.args])
        left.extend(getattr(thing, "__dict__", {}).values())
        if isinstance(thing, dict):
            left.extend([*thing, *thing.values()])
        elif isinstance(thing, list | tuple | set | frozenset):
            left.extend(thing)
    return "\n".join(found)


@pytest.fixture
def log():
    stream, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(stream), root.level
    loud = [logging.getLogger(name) for name in ("", "openai", "httpx2", "httpcore2", "aiohttp", "asyncio", "biaslab")]
    levels = [logger.level for logger in loud]
    root.addHandler(handler)
    for logger in loud:
        logger.setLevel(logging.DEBUG)
    yield stream
    for logger, before in zip(loud, levels, strict=True):
        logger.setLevel(before)
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.parametrize("fault", ["", "401", "404", "500", "drop", "cut", "hang", "error in 200", "too long", "429"])
def test_key_is_in_no_file_log_or_error(tmp_path, monkeypatch, capsys, log, fault):
    monkeypatch.setenv("BIASLAB_API_KEY", KEY)
    with FaultServer(lambda text, attempt: fault) as server, bl.Store(tmp_path / "s") as store:
        judge = ApiJudge("judge", server.url, patience=Patience(1, 0.001, 0.001), timeout=0.3)
        left = [repr(judge), judge.id, repr(vars(judge)), repr(judge.wire), repr(store.wrap(judge))]
        try:
            list(store.wrap(judge).ask([Completion(f"p {n}") for n in range(5)]))
            assert fault == ""
        except ServerError as error:
            left += [reachable(error), "".join(traceback.format_exception(error)), str(judge.faults)]
            assert fault not in ("", "too long")
        except bl.errors.PromptTooLongError as error:
            left += [reachable(error)]
        judge.close()
        assert server.headers
        assert all(headers["Authorization"] == f"Bearer {KEY}" for headers in server.headers)
    left += [file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file()]
    left += [log.getvalue(), *capsys.readouterr()]
    assert "openai" in log.getvalue() or "HTTP" in log.getvalue()  # the logs were on
    assert not [text for text in left if KEY in text or KEY.removeprefix("sk-") in text]


def test_a_key_that_the_server_echoes_is_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLAB_API_KEY", KEY)
    with FaultServer() as server, bl.Store(tmp_path / "s") as store:
        server.answer_of = lambda text: f"your key is {KEY}"
        judge = ApiJudge("judge", server.url)
        [(_, reply)] = store.wrap(judge).ask([Completion("p")])
        judge.close()
    assert reply.text == "your key is ***"
    assert KEY.encode() not in (tmp_path / "s").read_bytes()


def test_credentials_in_the_address(monkeypatch):
    monkeypatch.delenv("BIASLAB_API_KEY", raising=False)
    with FaultServer(lambda text, attempt: "" if attempt else "401") as server:
        judge = ApiJudge("judge", server.url.replace("http://", f"http://me:{PASSWORD}@"))
        with pytest.raises(ServerError) as caught:
            list(judge.ask([Completion("p")]))
        assert len(list(judge.ask([Completion("p")]))) == 1
        judge.close()
        sent = [headers["Authorization"] for headers in server.headers]
        assert all(header.startswith("Basic ") for header in sent)
        for text in (reachable(caught.value), judge.id, repr(judge), repr(vars(judge))):
            assert PASSWORD not in text
            assert sent[0].removeprefix("Basic ") not in text
    with pytest.raises(InputError) as refused:
        ApiJudge("judge", f"http://me:{PASSWORD}@h/v1?x=1")
    assert PASSWORD not in reachable(refused.value)


def test_no_key_goes_to_a_server_it_does_not_belong_to(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("BIASLAB_API_KEY", raising=False)
    with FaultServer() as server:
        judge = ApiJudge("judge", server.url)
        list(judge.ask([Completion("p")]))
        judge.close()
        assert not any(KEY in str(headers) for headers in server.headers)
        assert "Authorization" not in server.headers[0]


def test_the_key_itself_is_refused_and_not_shown():
    for wrong in (KEY, "AKIAIOSFODNN7EXAMPLE", "x y", 7):
        with pytest.raises(InputError, match="environment variable") as caught:
            ApiJudge("judge", api_key=wrong)
        assert str(wrong) not in str(caught.value)


def test_missing_key_is_refused_before_any_request(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ServerError, match="OPENAI_API_KEY is not set"):
        ApiJudge("judge").check([Completion("p")])
    with FaultServer() as server:
        for source, words in (
            (lambda: "", "did not return a string"),
            (lambda: {}[KEY], "failed: KeyError"),
            ("MY_KEY", "MY_KEY"),
        ):
            with pytest.raises(ServerError, match=words) as caught:
                list(ApiJudge("judge", server.url, source).ask([Completion("p")]))
            assert KEY not in str(caught.value)
        assert not server.asked


def test_a_key_that_is_renewed_is_asked_for_again():
    keys = iter([KEY, "second-key-1234"])
    with FaultServer(lambda text, attempt: "" if attempt else "401") as server:
        judge = ApiJudge("judge", server.url, lambda: next(keys), patience=QUICK)
        assert len(list(judge.ask([Completion("p")]))) == 1
        judge.close()
        assert [headers["Authorization"] for headers in server.headers] == [f"Bearer {KEY}", "Bearer second-key-1234"]


def test_a_judge_with_a_key_is_not_pickled(monkeypatch):
    monkeypatch.setenv("BIASLAB_API_KEY", KEY)
    judge = ApiJudge("judge", "http://h/v1")
    judge.check([])
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(judge)


@pytest.mark.slow
def test_notebook_output(tmp_path, monkeypatch):
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    monkeypatch.setenv("BIASLAB_API_KEY", KEY)
    with FaultServer(lambda text, attempt: "401" if "bad" in text else "") as server:
        cells = [
            f"import biaslab as bl\njudge = bl.ApiJudge('judge', {server.url!r})\njudge",
            "vars(judge)",
            "list(judge.ask([bl.Completion('good')]))",
            "list(judge.ask([bl.Completion('bad')]))",
        ]
        kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
        book = new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernel})
        nbformat.write(book, tmp_path / "n.ipynb")
        command = [sys.executable, "-m", "jupyter", "nbconvert", "--execute", "--allow-errors", "--to", "notebook"]
        subprocess.run([*command, "--output", "out.ipynb", "n.ipynb"], cwd=tmp_path, check=True, capture_output=True)
    written = (tmp_path / "out.ipynb").read_text()
    assert "does not accept the key" in written
    assert KEY not in written
