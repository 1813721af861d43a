"""Servers that answer with what is no HTTP, send prompts elsewhere or ask for patience without end."""

import runpy
import time
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core import Completion
from biaslab.core.errors import InputError, JudgeError, ServerError
from biaslab.judges import load_judge
from biaslab.judges.api import ApiJudge, Patience
from biaslab.judges.api.faults import is_same_host

SERVER = runpy.run_path(str(Path(__file__).with_name("fault_server.py")))
FaultServer, said, BROKEN = SERVER["FaultServer"], SERVER["said"], SERVER["BROKEN"]
QUICK = Patience(retries=3, first_wait=0.001, grace=5)


def prompts(count):
    return [Completion(f"prompt {number}", max_tokens=8) for number in range(count)]


@pytest.fixture
def judge_of():
    """Make judges that are closed in the end."""
    made = []

    def make(server, **options):
        made.append(ApiJudge("judge", server.url, **{"patience": QUICK, "timeout": 5.0, **options}))
        return made[-1]

    yield make
    for judge in made:
        judge.close()


def played_to(number, fault):
    """Play a fault at every attempt of one prompt."""
    return lambda text, attempt: fault if text == f"prompt {number}" else ""


@pytest.mark.parametrize("fault", [*BROKEN, "usage", "deep"])
def test_what_cannot_be_read_is_asked_again(judge_of, fault):
    with FaultServer(lambda text, attempt: "" if attempt else fault) as server:
        judge = judge_of(server)
        assert {reply.text for _, reply in judge.ask(prompts(4))} == {said(f"prompt {n}") for n in range(4)}
        assert judge.faults.total() == 4
        assert set(server.asked.values()) == {2}


@pytest.mark.parametrize("fault", [*BROKEN, "usage", "deep"])
def test_one_bad_reply_is_one_bad_reply(judge_of, tmp_path, fault):
    with FaultServer(played_to(3, fault)) as server, bl.Store(tmp_path / "s") as store:
        judge = judge_of(server)
        with pytest.raises(ServerError, match=r"failed 4 times, the last time because the.*run again to ask") as told:
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
def test_no_wait_is_longer_than_patience(judge_of, fault):
    with FaultServer(lambda text, attempt: fault) as server:
        began = time.monotonic()
        patience = Patience(minutes=0.005, first_wait=0.01, grace=5)
        with pytest.raises(ServerError, match="slow down; run again"):
            list(judge_of(server, patience=patience).ask(prompts(100)))
        assert time.monotonic() - began < 30
        assert sum(server.asked.values()) < 20


def test_a_rate_limit_that_never_ends_is_waited_for_no_longer_than_patience(judge_of):
    with FaultServer() as server:
        server.extra = lambda text: {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "99999d"}
        patience = Patience(minutes=0.001, first_wait=0.01, grace=5)
        assert len(list(judge_of(server, patience=patience).ask(prompts(5)))) == 5


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_prompt_follows_a_redirect(judge_of, status):
    with FaultServer() as other:
        address = f"{other.url}/chat/completions?token=secret"
        with FaultServer(lambda text, attempt: f"redirect {status} {address}") as server:
            for redirects in ("refuse", "same_host"):
                with pytest.raises(ServerError, match=rf"redirects to {other.url}/chat.*give it as base_url") as told:
                    list(judge_of(server, redirects=redirects).ask(prompts(3)))
                assert "secret" not in str(told.value)
                assert told.value.status == status
        assert not other.asked


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_within_a_server_is_followed_where_that_is_allowed(judge_of, status):
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
def test_what_one_server_is(other, same):
    assert is_same_host("http://a:8000/v1", other) is same


def test_the_option():
    assert load_judge("api:m@http://a/v1?redirects=same_host").redirects == "same_host"
    with pytest.raises(InputError, match="redirects is 'yes', allowed: "):
        ApiJudge("m", "http://a/v1", redirects="yes")
