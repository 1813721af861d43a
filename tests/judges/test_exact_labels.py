"""Exact label probabilities: tries of tokens, the walk beside whole enumeration, a real server's recorded traffic."""

import asyncio
import json
import math
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy import stats

from biaslab.core import Choice, Completion, Usage
from biaslab.core.errors import InexactLabelsWarning, ServerError
from biaslab.judges.api import ApiJudge, Patience
from biaslab.judges.api.exact_labels import MOST_NAMED, ExactLabels, LabelTrie
from biaslab.judges.api.faults import Fault, NoAnswer
from biaslab.judges.api.wire import CHAT, Wire, usage_in

HERE = Path(__file__).parent
TRAFFIC = runpy.run_path(str(HERE / "traffic.py"))
VLLM = runpy.run_path(str(HERE / "vllm_server.py"))
FaultServer, Replay, REQUESTS = TRAFFIC["FaultServer"], TRAFFIC["Replay"], VLLM["REQUESTS"]
QUICK = Patience(retries=1, first_wait=0.001, grace=5)
AB = Choice("Which is better, A or B?", ("A", "B"))
PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple)


@pytest.fixture(scope="module")
def recorded():
    return json.loads((HERE / "vllm_traffic.json").read_text(encoding="utf-8"))


@pytest.fixture
def judge_of():
    made = []

    def make(server, **options):
        given = {"prefill": "vllm", "max_concurrency": 1, "patience": QUICK, **options}
        made.append(ApiJudge(VLLM["MODEL"], server.url, **given))
        return made[-1]

    yield make
    for judge in made:
        judge.close()


class Served:
    """The routes of vLLM that exact labels need, over a tiny model and a real tokenizer, within this process."""

    def __init__(self, model, tokenizer, named=True, drift=0.0):

        from biaslab.judges.encoding import ChatEncoder

        self.model, self.tokenizer, self.encoder = model, tokenizer, ChatEncoder(tokenizer)
        self.named, self.drift, self.posts = named, drift, []

    def levels(self, ids):
        import torch

        with torch.no_grad():
            return self.model(torch.tensor([list(ids)])).logits[0, -1].double().log_softmax(-1)

    async def post(self, path, body):
        self.posts.append((path.rpartition("/")[2], body))
        if path.endswith("/tokenize"):
            ids = self.tokenizer(body["prompt"], add_special_tokens=False).input_ids
            return {"count": len(ids), "max_model_len": 256, "tokens": ids}
        chat = path == CHAT
        prompts = [self.encoder.conversation(Choice(body["messages"], ("a", "b")).messages)] if chat else body["prompt"]
        assert len(body["logprob_token_ids"]) <= MOST_NAMED
        choices = []
        for index, prompt in enumerate(prompts):
            levels = self.levels(prompt) + self.drift * index
            shown = [(f"token_id:{token}", levels[token].item()) for token in body["logprob_token_ids"]] * self.named
            entries = [{"token": name, "logprob": level} for name, level in shown]
            place = {"content": [{"top_logprobs": entries}]} if chat else {"top_logprobs": [dict(shown)]}
            choices.append({"index": index, "logprobs": place})
        usage = {"prompt_tokens": sum(map(len, prompts)), "completion_tokens": len(prompts)}
        return {"choices": choices, "usage": usage, "model": "m", "prompt_token_ids": list(prompts[0])}

    def enumerated(self, request):
        """Log-probabilities of labels by every path of tokens, one forward pass a token."""
        prompt = self.encoder.conversation(request.messages)
        ways = [{self.encoder.continuation(text) for text in (label, f" {label}")} for label in request.labels]
        own = [self.encoder.continuation(label) for label in request.labels]
        for at, each in enumerate(ways):
            each -= {*own[:at], *own[at + 1 :]}
        paths = set().union(*ways)

        def chance(path):
            levels = (self.levels((*prompt, *path[:at]))[token].item() for at, token in enumerate(path))
            return math.exp(sum(levels))

        def ends(path):
            onward = {o[: len(path) + 1] for o in paths if len(o) > len(path) and o[: len(path)] == path}
            return chance(path) - sum(map(chance, onward))

        return [math.log(sum(map(ends, each))) for each in ways]


@pytest.fixture(scope="module")
def served_of(make_model, make_tokenizer):
    def make(kind="byte_level", **options):
        tokenizer = make_tokenizer(kind)
        return Served(make_model(vocab_size=len(tokenizer)), tokenizer, **options)

    return make


def ask(server, request, exact=None):
    exact = exact or ExactLabels(Wire("m", "max_tokens"), "http://h/v1")
    return asyncio.run(exact.ask(request, server.post)), exact


@given(st.lists(st.lists(PATHS, min_size=1, max_size=2), min_size=2, max_size=5), st.integers(0, 2**32 - 1))
def test_labels_share_what_the_tokens_have(written, seed):
    """Whatever the tokens' probabilities are, labels are disjoint: they sum to one less what no label takes."""
    trie = LabelTrie.of(written)
    own = [ways[0] for ways in written]
    assert (trie is None) == (len(set(own)) < len(own))
    if trie is None:
        return
    draws = np.random.default_rng(seed)
    levels = {prefix: dict(enumerate(np.log(draws.dirichlet(np.ones(4))[:3]).tolist())) for prefix in trie.branchings}
    found = np.exp(trie.logprobs(levels))
    assert (found >= 0).all()
    assert found.sum() <= 1 + 1e-9
    assert [ways[0] for ways in trie.paths] == own
    flat = [path for ways in trie.paths for path in ways]
    assert len(flat) == len(set(flat))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["byte_level", "metaspace"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(
    labels=st.sets(
        st.text("AB1 0+", min_size=1, max_size=4).filter(lambda text: text == text.strip()), min_size=2, max_size=5
    ).map(tuple)
)
def test_exact_labels_equal_full_enumeration(served_of, kind, labels):
    server, request = served_of(kind), Choice("Which summary is better?", labels)
    reply, exact = ask(server, request)
    if reply is None:  # the tokenizer writes two labels alike
        own = [server.encoder.continuation(label) for label in labels]
        assert len(set(own)) < len(own)
        return
    np.testing.assert_allclose(reply.logprobs, server.enumerated(request), atol=1e-9)
    assert (reply.unseen, reply.bounded, exact.is_able) == (0.0, (), True)


@pytest.mark.slow
def test_tokens_beyond_the_request_limit_are_asked_in_parts(served_of):
    server = served_of()
    first_bytes = [*range(0x21, 0x7F), *range(0xA1, 0x800, 0x40), *range(0x1000, 0xD000, 0x1000)]
    labels = tuple(map(chr, first_bytes))  # begin with as many tokens of one byte
    request = Choice("Which sign is it?", labels)
    reply, _ = ask(server, request)
    assert sum("messages" in body for _, body in server.posts) == 2
    np.testing.assert_allclose(reply.logprobs, server.enumerated(request), atol=1e-9)


def test_exactness_is_checked_once_per_server(served_of):
    server = served_of()
    reply, exact = ask(server, AB)
    first = len(server.posts)
    again, _ = ask(server, AB, exact)
    assert again.logprobs == reply.logprobs
    assert len(server.posts) == first + 1


@pytest.mark.parametrize("drift", [0.0, 1.5])
def test_replies_count_the_tokens_of_the_check(judge_of, recorded, drift):
    spent = []

    def answered(path, body, answer):
        spent.append(usage_in(answer))
        if drift and path.endswith("/completions") and "prompt" in body:
            for choice in answer["choices"]:
                levels = choice["logprobs"]["top_logprobs"][0]
                levels |= {token: level - drift * choice["index"] for token, level in levels.items()}
        return answer

    with Replay(recorded["traffic"], answered) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactLabelsWarning)
        replies = dict(judge_of(server).ask(REQUESTS))
    assert Usage.total([reply.usage for reply in replies.values()]) == Usage.total(spent)


def test_order_dependent_labels_warn(served_of):
    reply, exact = ask(served_of(drift=-1.5), AB)
    assert (reply, exact.is_able) == (None, False)
    assert "differ by 1.5 with the order" in exact.warning


@pytest.mark.parametrize("error", [NoAnswer("no JSON"), ServerError("HTTP 404"), Fault("HTTP 500", status=500)])
def test_unsupported_server_is_not_asked_for_exact_labels_again(served_of, error):
    exact, asked = ExactLabels(Wire("m", "max_tokens"), "http://h/v1"), 0

    class Unable:
        async def post(self, path, body):
            nonlocal asked
            asked += 1
            raise error

    while exact.is_able is None:
        try:
            assert ask(Unable(), AB, exact)[0] is None
        except Fault:  # a failure that may pass is tried again, by whoever asks
            assert asked < 3
    assert exact.is_able is False
    before = asked
    assert ask(Unable(), AB, exact)[0] is None
    assert asked == before
    reply, exact = ask(served_of(named=False), AB)  # the field is taken and means nothing
    assert (reply, exact.is_able, exact.warning) == (None, False, "")


@pytest.mark.parametrize("error", [Fault("the server timed out", busy=True), Fault("the connection failed")])
def test_transient_faults_leave_exactness_undecided(served_of, error):
    exact = ExactLabels(Wire("m", "max_tokens"), "http://h/v1")

    class Away:
        async def post(self, path, body):
            raise error

    for _ in range(5):
        with pytest.raises(Fault):
            ask(Away(), AB, exact)
    assert exact.is_able is None


def test_a_server_without_the_route_gets_one_more_request():
    with FaultServer() as server:
        judge = ApiJudge("judge", server.url, patience=QUICK)
        replies = [reply for _, reply in judge.ask([Choice(f"{n}", ("A", "B")) for n in range(6)])]
        assert {reply.logprobs for reply in replies} == {(math.log(0.75), math.log(0.2))}
        assert (judge.is_exact, judge.attempts) == (False, 7)
        judge.close()


def test_the_recorded_traffic_of_a_real_server(judge_of, recorded):
    """vLLM 0.32 with a tiny random Llama; transformers on the same weights is what it is compared with."""
    with Replay(recorded["traffic"]) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        judge = judge_of(server)
        replies = dict(judge.ask(REQUESTS))
        for request, levels in zip(REQUESTS, recorded["references"], strict=True):
            np.testing.assert_allclose(replies[request].logprobs, levels, atol=1e-4)
            assert (replies[request].unseen, replies[request].bounded) == (0.0, ())
        assert judge.is_exact
        paths = server.paths()
        assert paths["/v1/chat/completions"] == len(REQUESTS)
        several = sum(any(len(way) > 1 for way in ways) for ways in recorded["tokens"])
        assert paths["/v1/completions"] == 2 + several  # the check, and what follows of labels of several tokens
        again = dict(judge.ask(REQUESTS[:1]))
        assert server.paths() - paths == {"/v1/chat/completions": 1}
        assert again[REQUESTS[0]].logprobs == replies[REQUESTS[0]].logprobs


def test_likeliest_tokens_that_a_batch_lost_are_no_answer():
    """What vLLM 0.32.0 sent for ``top_logprobs=20`` beside requests that named three tokens."""
    shown = [("Cognitive", -4.438790798187256), ("<|endoftext|>", -9999.0)]
    place = {"token": "Cognitive", "logprob": shown[0][1]}
    place["top_logprobs"] = [{"token": token, "logprob": level} for token, level in shown]
    choice = {"message": {"content": "Cognitive"}, "finish_reason": "length", "logprobs": {"content": [place]}}
    with pytest.raises(Fault, match="omitted top tokens"):
        Wire("m", "max_tokens").read(AB, {"choices": [choice]})
    assert Wire("m", "max_tokens", top_logprobs=2).read(AB, {"choices": [choice]}).bounded == (0, 1)


def test_order_dependent_labels_fall_back_to_top_logprobs(judge_of, recorded):
    def drift(path, body, answer):
        if path == "/v1/completions" and len(body["prompt"]) == 2:
            place = answer["choices"][1]["logprobs"]["top_logprobs"][0]
            place |= {token: level - 2.0 for token, level in place.items()}
        return answer

    with Replay(recorded["traffic"], drift) as server:
        judge = judge_of(server)
        with pytest.warns(InexactLabelsWarning, match=r"differ by 2.*--no-enable-prefix-caching"):
            replies = dict(judge.ask(REQUESTS))
        assert judge.is_exact is False
        assert all(reply.unseen > 0 and reply.bounded for reply in replies.values())


@pytest.mark.slow
def test_samples_converge_to_the_exact_label_distribution(embedded):
    """300 sampled answers of the embedded judge against one exact distribution over the scores 1 to 5."""
    prompt = "How fluent is the text 'The dog runs home.' from 1 to 5? Answer with one whole number."
    messages, labels = [("user", prompt), ("assistant", "Score: ")], ("1", "2", "3", "4", "5")
    [(_, reply)] = embedded.ask([Choice(messages, labels)])
    samples = [Completion(messages, 1.0, max_tokens=2, replicate=n) for n in range(300)]
    texts = [r.text for _, r in embedded.ask(samples)]
    seen = np.array([sum(t.startswith(n) and not t[1:2].isalnum() for t in texts) for n in labels])
    mass = np.exp(reply.logprobs)
    assert stats.binomtest(int(seen.sum()), 300, min(1.0, mass.sum())).pvalue > 0.001
    frequent = mass * 300 > 5
    p = mass[frequent] / mass[frequent].sum()
    assert stats.chisquare(seen[frequent], p * seen[frequent].sum()).pvalue > 0.001
