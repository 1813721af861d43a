"""Servers that answer with what is no HTTP, send prompts elsewhere or ask for patience without end."""

import io
import logging
import math
import pickle
import subprocess
import sys
import time
import traceback
import types
import warnings
import zlib
from collections import deque

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Reply
from biaslab.core.errors import InexactLabelsWarning, InputError, JudgeError, MissingDataWarning, ServerError
from biaslab.judges import load_judge
from biaslab.judges.api import ApiJudge, Patience
from biaslab.judges.api.faults import is_same_host
from biaslab.judges.panel import Panel
from biaslab.testing import FAULTS, REFUSALS, FaultServer, answer_of as said

BROKEN = [name for name, kind in FAULTS.items() if "not valid HTTP" in kind.words and name in REFUSALS]
SHOWN = [name for name, kind in FAULTS.items() if kind.distribution == "unusable" and name != "certain"]
QUICK = Patience(retries=3, first_wait=0.001, grace=5)


def prompts(count):
    return [Completion(f"prompt {number}", max_tokens=8) for number in range(count)]


def played_to(number, fault):
    """Play a fault at every attempt of one prompt."""
    return lambda text, attempt: fault if text == f"prompt {number}" else ""


@pytest.mark.parametrize("fault", [*BROKEN, "usage", "deep"])
def test_unreadable_reply_is_retried(judge_of, fault):
    with FaultServer(lambda text, attempt: "" if attempt else fault) as server:
        judge = judge_of(server)
        assert {reply.text for _, reply in judge.ask(prompts(4))} == {said(f"prompt {n}") for n in range(4)}
        assert judge.faults.total() == 4
        assert set(server.asked.values()) == {2}


@pytest.mark.parametrize("fault", [*BROKEN, "usage", "deep"])
def test_one_bad_reply_is_one_bad_reply(judge_of, tmp_path, fault):
    with FaultServer(played_to(3, fault)) as server, bl.Store(tmp_path / "s") as store:
        judge = judge_of(server)
        with pytest.raises(ServerError, match=r"failed 4 times, most recently because the.*run again to ask") as told:
            list(store.wrap(judge).ask(prompts(40)))
        assert told.value.request == Completion("prompt 3", max_tokens=8)
        assert len(store) == 39
        assert sum(server.asked.values()) == 39 + 4
        assert judge.faults.total() == 4


def test_the_body_of_what_cannot_be_read_is_kept_for_a_debugger(judge_of):
    with FaultServer(played_to(3, "usage")) as server:
        with pytest.raises(JudgeError) as told:
            list(judge_of(server).ask(prompts(5)))
        assert any("9223372036854775808" in note for note in told.value.__notes__)
        assert "9223372036854775808" not in str(told.value)


@pytest.mark.parametrize("fault", ["429 for years", "429 for ever", "429 nan"])
def test_waits_are_capped_by_patience(judge_of, fault):
    with FaultServer(lambda text, attempt: fault) as server:
        began = time.monotonic()
        patience = Patience(minutes=0.005, first_wait=0.01, grace=5)
        with pytest.raises(ServerError, match="slow down; run again"):
            list(judge_of(server, patience=patience).ask(prompts(100)))
        assert time.monotonic() - began < 30
        assert sum(server.asked.values()) < 20


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_prompt_follows_a_redirect(judge_of, status):
    with FaultServer() as other:
        address = f"{other.url}/chat/completions?token=secret"
        with FaultServer(lambda text, attempt: f"redirect {status} {address}") as server:
            for redirects in ("refuse", "same_host"):
                with pytest.raises(ServerError, match=rf"redirects to {other.url}/chat.*set it as base_url") as told:
                    list(judge_of(server, redirects=redirects).ask(prompts(3)))
                assert "secret" not in str(told.value)
                assert told.value.status == status
        assert not other.asked


@pytest.mark.parametrize("status", [301, 307])
def test_redirect_within_the_host_is_followed_if_allowed(judge_of, status):
    def script(text, attempt):
        return "" if attempt else f"redirect {status} /v1/chat/completions"

    with FaultServer(script) as server, pytest.raises(ServerError, match="redirects='same_host'"):
        list(judge_of(server).ask(prompts(1)))
    with FaultServer(script) as server:
        judge = judge_of(server, redirects="same_host")
        assert {reply.text for _, reply in judge.ask(prompts(3))} == {said(f"prompt {n}") for n in range(3)}
        assert (set(server.asked.values()), judge.faults.total(), judge.attempts) == ({2}, 0, 6)


def test_redirects_that_lead_nowhere_end(judge_of):
    with FaultServer(lambda text, attempt: "redirect 307 /v1/chat/completions") as server:
        with pytest.raises(ServerError, match="redirects to"):
            list(judge_of(server, redirects="same_host").ask(prompts(1)))
        assert sum(server.asked.values()) == 4


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("http://a:8000/other", True),
        ("https://a/v1", True),
        ("http://a/v1", False),
        ("http://b:8000/v1", False),
        ("http://a.b:8000/v1", False),
        ("http://b@a:8000/v1", True),
        ("http://a@b:8000/v1", False),
        ("ftp://a:8000/", False),
        ("http://a:port/", False),
    ],
)
def test_same_host(other, same):
    assert is_same_host("http://a:8000/v1", other) is same


def test_redirects_option_is_validated():
    assert load_judge("api:m@http://a/v1?redirects=same_host").redirects == "same_host"
    with pytest.raises(InputError, match="redirects is 'yes', allowed: "):
        ApiJudge("m", "http://a/v1", redirects="yes")


@pytest.mark.parametrize("is_first", [True, False])
def test_sure_answers_of_a_server_that_measures_others_are_kept(judge_of, is_first):
    choices = [Choice(f"Summary A or Summary B? {n}", ("Summary A", "Summary B")) for n in range(8)]
    sure = {each.messages[0].content for each in (choices[:3] if is_first else choices[5:])}
    with FaultServer(lambda text, attempt: "certain" if text in sure else "") as server:
        replies = dict(judge_of(server).ask(choices))
        assert sum(server.asked.values()) == len(choices) + is_first  # one more, where no answer can be sure
    for request, reply in replies.items():
        assert reply.finish_reason != "unusable"
        assert (reply.logprobs == (0.0, -math.inf)) == (request.messages[0].content in sure)


def test_a_fault_beside_a_sure_answer_is_no_refusal(judge_of):
    def script(text, attempt):
        if text.startswith("Write a random number"):
            return "" if attempt else "429"
        return "certain" if text.endswith("0") else ""

    choices = [Choice(f"Summary A or Summary B? {n}", ("Summary A", "Summary B")) for n in range(8)]
    with FaultServer(script) as server:
        replies = dict(judge_of(server).ask(choices))
    assert {reply.finish_reason for reply in replies.values()}.isdisjoint({"unusable"})


def test_sure_answers_alone_are_unusable(judge_of):
    with FaultServer("certain") as server:
        choices = [Choice(f"Summary A or Summary B? {n}", ("Summary A", "Summary B")) for n in range(8)]
        replies = dict(judge_of(server).ask(choices))
        assert {reply.finish_reason for reply in replies.values()} == {"unusable"}
        assert sum(server.asked.values()) == len(choices) + 1
        assert sum(reply.usage.completion_tokens for reply in replies.values()) == len(choices) + 1


@pytest.mark.parametrize("fault", [SHOWN[0], *(pytest.param(fault, marks=pytest.mark.slow) for fault in SHOWN[1:])])
def test_an_impossible_distribution_gives_no_value_and_is_named(judge_of, tmp_path, fault):
    def script(text, attempt):
        return fault if zlib.crc32(text.encode()) % 4 == 0 else ""

    graded = bl.load_dataset("graded", limit=1)
    with FaultServer(script) as server, bl.Store(tmp_path / "s") as store:
        judge, probe = judge_of(server), bl.probes.Position(templates=[1], attributes=["coherence"])
        trials = bl.collect(probe, judge, graded, store=store)
        again = bl.collect(probe, judge, graded, store=store)
        prompts = [record.request.messages[-1].content for record in store.records()]
    unusable = trials[trials["status"] == "unusable"]
    assert len(unusable) == sum(script(text, 0) == fault for text in prompts) > 3
    assert unusable["value"].isna().all()
    assert set(trials["status"]) == {"ok", "unusable"}
    assert set(server.asked.values()) == {1}  # it is an answer, not a fault
    pd.testing.assert_frame_equal(trials, again)
    with pytest.warns(MissingDataWarning):
        notes = probe.estimate(trials)["note"]
    assert notes.str.contains(f"{len(unusable)} of {len(trials)} judgements have unusable probabilities").all()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("mass of 2", "the probabilities of the returned tokens sum to 2"),
        ("mass of 20", "the probabilities of the returned tokens sum to 20"),
        ("a token twice", "the token 'Summary A' occurs twice"),
        ("one token", "omitted labels may be likelier than the returned ones"),
    ],
)
def test_unusable_reply_has_its_reason(judge_of, fault, words):
    with FaultServer(lambda text, attempt: fault) as server:
        [(_, reply)] = judge_of(server).ask([Choice("Summary?", ("Summary A", "Summary B"))])
    assert (reply.finish_reason, reply.text, reply.usage.prompt_tokens) == ("unusable", words, 8)
    assert reply.model == "judge fp_one"


def test_tokens_that_are_written_alike_are_summed(judge_of):
    """Some servers strip the white space before a token, so that " A" and "A" look the same."""
    with FaultServer() as server:
        server.likeliest = lambda text: {"A": 0.6, "B": 0.1}
        document = server.document

        def alike(body, text):
            made = document(body, text)
            shown = made["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            shown.append({"token": "A", "logprob": math.log(0.25)})
            return made

        server.document = alike
        [(_, reply)] = judge_of(server).ask([Choice("Which?", ("A", "B"))])
    assert [round(math.exp(level), 6) for level in reply.logprobs] == [0.85, 0.1]
    assert reply.finish_reason is None


class Certain:
    """A judge of a user's own that is sure, of one label or of both."""

    kinds = frozenset({Choice})

    def __init__(self, judge_id, logprobs, finish_reason=None):
        self.id, self.reply = judge_id, Reply(logprobs=logprobs, finish_reason=finish_reason)

    def check(self, requests):
        pass

    def ask(self, requests):
        return ((request, self.reply) for request in requests)


def test_custom_judge_that_returns_logits_is_refused(graded):
    with pytest.raises(JudgeError, match=r"probabilities sum to 3\.72, allowed: natural logarithms"):
        bl.collect(bl.probes.Position(templates=[1]), Certain("logits", (1.0, 0.0)), graded)


def test_a_member_of_a_panel_without_a_distribution_has_no_vote():
    request = Choice("Which?", ("A", "B"))
    members = [Certain("sure", (math.log(0.9), math.log(0.1))), Certain("broken", (0.0, 0.0), "unusable")]
    [(_, reply)] = Panel(members).ask([request])
    assert math.exp(reply.logprobs[0] - reply.logprobs[1]) == pytest.approx(9)


KEY = "sk-planted-9f8e7d6c5b4a"
PASSWORD = "planted-pass-3141592653"
QUICK_api_secrets = Patience(retries=1, first_wait=0.001)


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
        judge = ApiJudge("judge", server.url, lambda: next(keys), patience=QUICK_api_secrets)
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


class ContradictingServer(FaultServer):
    """Writes the less likely label for some of the prompts."""

    every = 1

    def document(self, body, text):
        document = super().document(body, text)
        shown = self.likeliest(text)
        if int(text.rpartition(" ")[2]) % self.every == 0:
            document["choices"][0]["message"]["content"] = min(("Summary A", "Summary B"), key=shown.__getitem__)
        return document


@pytest.mark.parametrize(("every", "warns"), [(10, True), (50, False)])
def test_texts_that_contradict_probabilities_are_warned_of(judge_of, every, warns):
    requests = [Choice(f"Summary A or Summary B? {number}", ("Summary A", "Summary B")) for number in range(100)]
    with ContradictingServer() as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        server.every = every
        assert len(dict(judge_of(server).ask(requests))) == 100
    assert [each.category for each in caught] == [InexactLabelsWarning] * warns


@pytest.mark.slow
def test_hanging_prompts_do_not_slow_the_others(judge_of):
    def hang_once(text, attempt):
        return "hang" if int(text.rpartition(" ")[2]) % 50 == 7 and not attempt else ""

    with FaultServer(hang_once, latency=0.05) as server:
        judge = judge_of(server, timeout=2.0, max_concurrency=64)
        assert len(dict(judge.ask(prompts(1500)))) == 1500
        assert judge.faults["the server timed out"] >= 30
        assert judge._endpoints.members[0].pace.limit >= 32


LARGE_REPLIES = """
import resource, sys
import biaslab as bl
judge = bl.ApiJudge("judge", sys.argv[1], max_concurrency=32, patience=bl.judges.api.Patience(0, grace=5))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    list(judge.ask([bl.Completion(f"prompt {number}") for number in range(64)]))
except bl.errors.ServerError:
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory in kilobytes")
def test_memory_of_runaway_replies_is_limited_together():
    with FaultServer(lambda text, attempt: "endless" if text != "prompt 0" else "") as server:
        done = subprocess.run(
            [sys.executable, "-c", LARGE_REPLIES, server.url], capture_output=True, text=True, check=True
        )
    assert int(done.stdout) < 700


@pytest.mark.slow
def test_server_without_encryption_ends_the_run_at_once():
    with FaultServer() as server:
        judge = ApiJudge("judge", server.url.replace("http:", "https:"), patience=Patience(reach=60))
        with pytest.raises(ServerError, match="SSL_CERT_FILE") as raised:
            list(judge.ask([Completion("Say A")]))
        judge.close()
    assert "run again" not in str(raised.value)
