"""Minimum-risk training: its gradient against exact expectations, and a run that is killed and taken up again."""

import itertools
import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, strategies as st

from biaslab.core import Reply, Score
from biaslab.core.errors import InputError
from biaslab.distill.checkpoints import load_checkpoint, save_checkpoint
from biaslab.distill.policy import load_policy
from biaslab.distill.reinforcement import MinimumRisk, policy_gradient, posterior, reinforce, risk, trainable_weights

SOURCES = pd.DataFrame({"context_id": ["x", "y"], "context": ["a b c", "c b"], "reference": ["b", "a b"]})
#: All that can be written in at most two tokens of the vocabulary <eos>, a, b, c.
EVERY = [(0,), *((i, 0) for i in (1, 2, 3)), *itertools.product((1, 2, 3), repeat=2)]
QUICK = {"steps": 4, "max_tokens": 2, "sources_per_step": 2, "learning_rate": 1e-2, "progress": False, "device": "cpu"}
SIZES = {"words": "abc", "spread": 0.3}


def likes_b(texts, sources, references):
    """A reward without a maximum at the references."""
    return [text.count("b") + 0.3 * text.count("c") for text in texts]


def unasked(texts, sources, references):
    raise AssertionError("nothing is to be rewarded")


def expected(policy, reward=likes_b):
    """Exact expected reward of two-token texts, over all that can be written; a blank text has 0."""
    texts = [policy.decode(ids) for ids in EVERY]
    values = torch.tensor([reward([t], [""], [""])[0] if t else 0.0 for t in texts], dtype=policy.model.dtype)
    prompts = [policy.read(text, 2) for text in SOURCES["context"]]
    found = policy.log_likelihood(prompts, [EVERY] * len(prompts))
    return torch.stack([(logs.exp() * values).sum() for logs in found]).mean()


def weights(policy):
    return {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", ["LlamaConfig", "T5Config"])
def test_all_texts_have_probability_one(make_policy, name):
    policy = make_policy(name, **SIZES)
    [logs] = policy.log_likelihood([policy.read("a b c", 2)], [EVERY])
    assert float(logs.detach().exp().sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["GPT2Config", "BartConfig"])  # all of theirs is float64
def test_risk_gradient_equals_that_of_the_expected_reward(make_policy, name):
    """With every text sampled and α = 1, Eq. 4 is the model itself and Eq. 3 the expected reward, negated."""
    policy = make_policy(name, **SIZES)
    policy.model.double()
    prompt = policy.read("a b c", 2)
    values = torch.tensor([likes_b([policy.decode(ids)], None, None)[0] for ids in EVERY], dtype=torch.float64)
    weight = policy.model.get_input_embeddings().weight
    policy.model.zero_grad()
    risk(policy.log_likelihood([prompt], [EVERY])[0], values, 1.0).backward()
    rng = np.random.default_rng(0)
    for _ in range(4):
        row, column = int(rng.choice(np.unique(prompt))), int(rng.integers(weight.shape[1]))
        ends = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                weight[row, column] += step
                logs = policy.log_likelihood([prompt], [EVERY])[0]
                ends.append(-float((logs.exp() * values).sum()))
                weight[row, column] -= step
        assert float(weight.grad[row, column]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-8)


@given(
    st.lists(st.tuples(st.floats(-60, 0), st.floats(0, 1)), min_size=2, max_size=6),
    st.sampled_from([0.005, 0.1, 1.0]),
    st.floats(-5, 5),
)
def test_gradient_of_eqs_3_and_4(sampled, smoothness, shift):
    """∂L/∂log P(y) = −α Q(y) (r(y) − Σ Q r), whatever is added to all rewards."""
    logs = torch.tensor([pair[0] for pair in sampled], dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([pair[1] for pair in sampled], dtype=torch.float64)
    q = logs.detach().mul(smoothness).exp()
    q = q / q.sum()
    torch.testing.assert_close(posterior(logs.detach(), smoothness), q)
    found = risk(logs, rewards + shift, smoothness)
    assert float(found.detach()) == pytest.approx(-float((q * (rewards + shift)).sum()))
    found.backward()
    gradient = -smoothness * q * (rewards - (q * rewards).sum())
    torch.testing.assert_close(logs.grad, gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("baseline", [None, 0.0, 0.7])
def test_eq_2_has_the_gradient_of_the_expected_reward(baseline):
    """Over all pairs of texts that two draws can give, weighted by how often they do; of no baseline is it biased."""
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=4), requires_grad=True)
    rewards = torch.tensor(rng.normal(size=4))
    [exact] = torch.autograd.grad(-(scores.softmax(0) * rewards).sum(), scores)
    logs, total, value = scores.log_softmax(0), torch.zeros(4, dtype=torch.float64), 0.0
    for pair in itertools.product(range(4), repeat=2):
        counts = torch.tensor([float(pair.count(i)) for i in sorted(set(pair))], dtype=torch.float64)
        found = policy_gradient(logs[sorted(set(pair))], rewards[sorted(set(pair))], counts, baseline)
        chance = float(logs.detach()[list(pair)].sum().exp())
        total += chance * torch.autograd.grad(found, scores, retain_graph=True)[0]
        value += chance * float(found.detach())
    torch.testing.assert_close(total, exact)
    assert value == pytest.approx(-float((scores.softmax(0) * rewards).sum().detach()))


@pytest.mark.parametrize(
    "baseline", ["others", *(pytest.param(name, marks=pytest.mark.slow) for name in ("start", "none"))]
)
def test_reinforce_raises_the_exact_expected_reward(make_policy, baseline):
    policy = make_policy(seed=2, **SIZES)
    before = float(expected(policy).detach())
    options = QUICK | {"steps": 12, "learning_rate": 5e-3, "samples": 24, "objective": "reinforce"}
    _, history = reinforce(policy, SOURCES, likes_b, balance=1.0, baseline=baseline, **options)
    assert float(expected(policy).detach()) > before + 0.05
    trained = history[history["step"] > 0]
    spread = (trained["reward_train"] - history["reward_train"].iloc[0]) / trained["risk"]  # 0 before training
    assert spread.to_numpy() == pytest.approx(spread.iloc[0])  # in units of reward
    assert spread.iloc[0] < 0
    assert trained["loss"].to_numpy() == pytest.approx(trained["risk"])


@pytest.mark.slow
def test_reinforce_differs_from_mrt_and_ignores_smoothness(make_policy, tmp_path):
    def trained(**options):
        policy = make_policy(**SIZES)
        reinforce(policy, SOURCES, likes_b, **QUICK | options)
        return weights(policy)

    one = trained(objective="reinforce")
    assert same(one, trained(objective="reinforce", smoothness=0.9))
    assert not same(one, trained())
    assert not same(one, trained(objective="reinforce", baseline="none"))
    assert same(trained(), trained(baseline="none"))
    reinforce(make_policy(**SIZES), SOURCES, likes_b, folder=tmp_path, **QUICK)
    with pytest.raises(InputError, match="this model, these texts and settings"):
        reinforce(make_policy(**SIZES), SOURCES, likes_b, folder=tmp_path, **QUICK | {"objective": "reinforce"})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LlamaConfig", "BartConfig", "T5Config"])
@pytest.mark.parametrize("steps", [1, 12])
def test_training_raises_the_exact_expected_reward(make_policy, name, steps):
    policy = make_policy(name, seed=2, **SIZES)
    before = float(expected(policy).detach())
    rate = 1e-3 if steps == 1 else 5e-3
    options = QUICK | {"steps": steps, "learning_rate": rate, "samples": 24, "smoothness": 1.0}
    reinforce(policy, SOURCES, likes_b, balance=1.0, **options)
    after = float(expected(policy).detach())
    assert after > before + (0 if steps == 1 else 0.05)


def test_loss_is_the_weighted_mean_of_eq_9(make_policy):
    _, history = reinforce(make_policy(**SIZES), SOURCES, likes_b, **QUICK)
    trained = history[history["step"] > 0]
    assert trained["loss"].to_numpy() == pytest.approx(0.7 * trained["risk"] + 0.3 * trained["likelihood"])
    assert history["step"].tolist() == [0, 1, 2, 3, 4]
    assert trained["distinct"].between(1, 5).all()
    assert history["reward_held_out"].isna().all()


@pytest.mark.slow
def test_likelihood_alone_learns_the_references(make_policy):
    policy = make_policy(**SIZES)
    options = QUICK | {"steps": 40, "max_tokens": 3, "balance": 0.0}
    _, history = reinforce(policy, SOURCES, unasked, **options)
    assert history["likelihood"].iloc[-1] < 0.2
    assert history[["reward_train", "distinct"]].isna().all(axis=None)
    assert (history["risk"].dropna() == 0).all()
    first = policy.log_likelihood([policy.read("a b c", 3)], [[policy.target("b"), policy.target("c")]])[0]
    assert first[0] > first[1] + 1


def test_equal_samples_count_once_and_teach_nothing(make_policy):
    policy = make_policy(**SIZES)
    with torch.no_grad():
        policy.model.lm_head.weight.mul_(200)  # writes one text only
    before = weights(policy)
    _, history = reinforce(policy, SOURCES, likes_b, balance=1.0, **QUICK)
    assert (history["distinct"].dropna() == 1).all()
    assert same(before, weights(policy))


@pytest.mark.slow
def test_only_differences_of_rewards_matter_and_their_unit(make_policy):
    def trained(reward, unit):
        policy = make_policy(**SIZES)
        reinforce(policy, SOURCES, reward, reward_unit=unit, **QUICK)
        return weights(policy)

    one = trained(likes_b, 0.5)
    moved = trained(lambda *shown: np.asarray(likes_b(*shown)) * 4, 2.0)
    for name, weight in one.items():
        torch.testing.assert_close(weight, moved[name], rtol=1e-4, atol=1e-5)
    free, times = trained(likes_b, None), trained(lambda *shown: np.asarray(likes_b(*shown)) * 7, None)
    for name, weight in free.items():
        torch.testing.assert_close(weight, times[name], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_seed_and_batches(make_policy):
    def trained(**options):
        policy = make_policy(**SIZES)
        policy.model.double()
        _, history = reinforce(policy, SOURCES, likes_b, held_out=SOURCES.assign(context=["a", "b"]), **QUICK | options)
        return weights(policy), history

    one, history = trained(seed=1)
    again, rows = trained(seed=1)
    assert same(one, again)
    pd.testing.assert_frame_equal(history, rows)
    assert history["reward_held_out"].notna().tolist() == [True, False, False, False, True]
    assert not same(one, trained(seed=2)[0])
    small, _ = trained(seed=1, rows=1)  # one source at a time, gradients accumulated
    for name, weight in one.items():
        torch.testing.assert_close(weight, small[name], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["LlamaConfig", "GPT2Config", "BartConfig", "T5Config"])
def test_only_the_last_blocks_are_trained(make_policy, name):
    policy = make_policy(name, **SIZES)
    before = weights(policy)
    reinforce(policy, SOURCES, likes_b, trainable=1, **QUICK)
    changed = {key for key, weight in weights(policy).items() if not torch.equal(weight, before[key])}
    assert changed
    assert changed <= set(trainable_weights(policy.model, 1))
    block = {"LlamaConfig": "layers.1.", "GPT2Config": "h.1.", "BartConfig": "decoder.layers.1."}.get(name, "block.1.")
    inside = [key for key in changed if block in key]
    assert inside
    assert all("norm" in key or "ln_f" in key for key in changed - set(inside))


@pytest.mark.slow
def test_a_judge_an_evaluator_and_a_function_reward_alike(make_policy):
    class Judge:
        id, kinds = "likes b", frozenset({Score})

        def check(self, requests):
            assert all(request.attribute == "taste" and request.source for request in requests)

        def ask(self, requests):
            for request in requests:
                yield request, Reply(score=likes_b([request.text], None, None)[0])

    found = []
    for reward in (likes_b, SimpleNamespace(score=likes_b), Judge()):
        policy = make_policy(**SIZES)
        reinforce(policy, SOURCES, reward, attribute="taste", **QUICK)
        found.append(weights(policy))
    assert same(found[0], found[1])
    assert same(found[0], found[2])


def test_a_blank_text_is_not_shown_and_is_the_worst(make_policy):
    shown = []

    def reward(texts, sources, references):
        shown.extend(texts)
        return [1.0] * len(texts)

    _, history = reinforce(make_policy(**SIZES), SOURCES, reward, samples=20, **QUICK)
    assert all(text.strip() for text in shown)
    assert history["reward_train"].iloc[0] < 1


@pytest.mark.slow
def test_killed_training_resumes_to_the_same_weights(make_policy, as_many_threads, tmp_path):
    start = make_policy(**SIZES).save(tmp_path / "start")
    sources = tmp_path / "sources.csv"
    SOURCES.to_csv(sources, index=False)
    script = f"""
        import os, signal
        import pandas as pd
        from biaslab.distill.reinforcement import reinforce
        calls = []
        def reward(texts, sources, references):
            calls.append(1)
            if len(calls) == 5:  # once before training, then the fourth step
                os.kill(os.getpid(), signal.SIGKILL)
            return [text.count("b") + 0.3 * text.count("c") for text in texts]
        options = dict(steps=6, max_tokens=2, sources_per_step=2, learning_rate=1e-2, save_every=2)
        reinforce({str(start)!r}, pd.read_csv({str(sources)!r}), reward, folder={str(tmp_path / "run")!r},
                  device="cpu", progress=False, **options)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=as_many_threads)
    assert done.returncode == -signal.SIGKILL, done.stderr
    state = load_checkpoint(tmp_path / "run")
    assert state is not None
    assert state[1]["step"] == 2
    options = QUICK | {"steps": 6, "save_every": 2}
    calls = []

    def counted(*shown):
        calls.append(1)
        return likes_b(*shown)

    resumed, history = reinforce(str(start), SOURCES, counted, folder=tmp_path / "run", **options)
    assert len(calls) == 4
    whole, rows = reinforce(str(start), SOURCES, likes_b, **options)
    assert same(weights(resumed), weights(whole))
    pd.testing.assert_frame_equal(history, rows)
    files = {path.suffix for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert files == {".safetensors"}
    calls.clear()
    finished, _ = reinforce(str(start), SOURCES, counted, folder=tmp_path / "run", **options)
    assert not calls
    assert same(weights(finished), weights(whole))
    with pytest.raises(InputError, match="this model, these texts and settings"):
        reinforce(str(start), SOURCES, likes_b, folder=tmp_path / "run", **options | {"seed": 3})
    with pytest.raises(InputError, match="this model, these texts and settings"):
        reinforce(str(start), SOURCES.assign(context=["a", "b"]), likes_b, folder=tmp_path / "run", **options)
    other = SimpleNamespace(score=likes_b, id="another reward")
    with pytest.raises(InputError, match="this model, these texts and settings"):
        reinforce(str(start), SOURCES, other, folder=tmp_path / "run", **options)


def test_a_checkpoint_is_whole_or_not_there(tmp_path):
    save_checkpoint(tmp_path, 1, {"a": torch.ones(2)}, {"run": 1})
    (tmp_path / ".step-00000002.safetensors.1.partial").write_bytes(b"killed while it was written")
    assert load_checkpoint(tmp_path)[1] == {"run": 1, "step": 1}
    save_checkpoint(tmp_path, 2, {"a": torch.zeros(2)}, {"run": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002.safetensors"]
    save_checkpoint(tmp_path, 3, {"a": torch.zeros(2)}, {})
    file = tmp_path / "step-00000003.safetensors"
    whole = file.read_bytes()
    for damaged in (b"", whole[:10], whole[:-1], whole.replace(b"record", b"strange")):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="a complete checkpoint"):
            load_checkpoint(tmp_path)


def test_a_trained_policy_can_be_saved_and_loaded(make_policy, tmp_path):
    policy, _ = reinforce(make_policy(**SIZES), SOURCES, likes_b, **QUICK)
    loaded = load_policy(str(policy.save(tmp_path / "trained")), device="cpu")
    assert same(weights(policy), weights(loaded))
    assert "reinforced 4 steps" in policy.name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"samples": 1}, "no other to compare"),
        ({"balance": 1.5}, "likelihood only"),
        ({"smoothness": 0.0}, "smoothness is 0"),
        ({"reward_unit": 0.0}, "None to measure it"),
        ({"trainable": 0}, '"all"'),
        ({"trainable": "top"}, '"all"'),
        ({"trainable": 9}, "at most 2 blocks"),
        ({"objective": "ppo"}, "one of mrt, reinforce"),
        ({"baseline": "mean"}, "one of others, start, none"),
    ],
)
def test_invalid_settings_are_refused(make_policy, options, words):
    with pytest.raises(InputError, match=words):
        reinforce(make_policy(**SIZES), SOURCES, likes_b, **QUICK | options)


def test_unlearnable_data_are_refused(make_policy):
    policy = make_policy(**SIZES)
    with pytest.raises(InputError, match="set balance to 1"):
        reinforce(policy, SOURCES.drop(columns="reference"), likes_b, **QUICK)
    with pytest.raises(InputError, match="training sources"):
        reinforce(policy, SOURCES, likes_b, held_out=SOURCES, **QUICK)
    with pytest.raises(InputError, match="finite number for each"):
        reinforce(policy, SOURCES, lambda texts, *_: [np.nan] * len(texts), **QUICK)
    with pytest.raises(InputError, match="a function of texts"):
        reinforce(policy, SOURCES, "likes b", **QUICK)
    assert MinimumRisk().balance == 0.7
    assert MinimumRisk().samples == 5
