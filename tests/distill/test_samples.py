"""What a policy writes: against transformers, against exact probabilities, and as a data set."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError, JudgeError, PromptTooLongError
from biaslab.distill.policy import Policy, load_policy
from biaslab.distill.sampling import Truncation, collect_samples, sample, search

SOURCES = pd.DataFrame({"context_id": ["x", "y", "z"], "context": ["a b c d", "b", "e f a b c d e"]})
OUTPUTS = [[(2, 3, 0), (4,)], [(5, 5, 5, 5, 0)], [(0,), (6, 6, 5, 0), (3, 3)]]


def read(policy, steps=6):
    return [policy.read(text, steps) for text in SOURCES["context"]]


def logits_alone(policy, prompt, output):
    """Logits of the tokens of one output, by one plain pass without padding or cache."""
    if policy.has_encoder:
        decoded = torch.tensor([[*policy.opening, *output[:-1]]])
        found = policy.model(input_ids=torch.tensor([prompt]), decoder_input_ids=decoded).logits[0]
        return found[len(policy.opening) - 1 :]
    return policy.model(input_ids=torch.tensor([[*prompt, *output[:-1]]])).logits[0, len(prompt) - 1 :]


def alone(policy, prompt, output):
    """log P of one output."""
    steps = torch.arange(len(output))
    return logits_alone(policy, prompt, output).log_softmax(-1)[steps, list(output)].sum()


def test_likelihood_is_that_of_each_text_alone(policy):
    prompts = read(policy)
    for prompt, outputs, found in zip(prompts, OUTPUTS, policy.log_likelihood(prompts, OUTPUTS), strict=True):
        expected = torch.stack([alone(policy, prompt, output) for output in outputs])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_gradient_flows_through_the_shared_prompt(policy):
    prompts = read(policy)
    policy.model.double()
    weight = policy.model.get_input_embeddings().weight
    torch.cat(policy.log_likelihood(prompts, OUTPUTS)).sum().backward()
    together = weight.grad.clone()
    weight.grad = None
    sum(alone(policy, p, o) for p, outputs in zip(prompts, OUTPUTS, strict=True) for o in outputs).backward()
    torch.testing.assert_close(together, weight.grad, rtol=1e-4, atol=2e-5)  # norms in float32 all the same


@pytest.mark.parametrize("beams", [2, 3])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_beam_search_is_that_of_transformers(policy, beams):
    prompts = read(policy)
    for prompt, found in zip(prompts, search(policy, prompts, beams, 6), strict=True):
        ids = torch.tensor([prompt])
        rows = policy.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=6,
            do_sample=False,
            length_penalty=1.0,
            pad_token_id=0,
            eos_token_id=0,
            early_stopping="never",
        )
        rows = rows[:, 1 if policy.has_encoder else len(prompt) :].tolist()
        expected = [tuple(row[: row.index(0) + 1] if 0 in row else row) for row in rows]
        assert [output.ids for output in found] == expected
        assert [output.stopped for output in found] == [0 in row for row in rows]


def test_one_group_is_beam_search_and_more_groups_differ(make_policy):
    policy = make_policy(seed=3)
    prompts = read(policy)
    plain = search(policy, prompts, 3, 6)
    assert plain == search(policy, prompts, 3, 6, groups=1, diversity=9.0)
    alone = [found[0] for found in search(policy, prompts, 1, 6)]
    assert search(policy, prompts, 3, 6, groups=3) == [[output] * 3 for output in alone]  # without a penalty
    diverse = search(policy, prompts, 3, 6, groups=3, diversity=50.0)
    for first, found in zip(alone, diverse, strict=True):
        assert found[0] == first
        for tokens in zip(*(output.ids for output in found), strict=False):
            assert len(set(tokens)) == 3  # so dear that no group writes a token of another's at the same step


def test_diverse_beam_scores_are_log_probability_less_penalty(make_policy):
    """Two groups of one beam, two steps, worked out from plain passes (Vijayakumar et al. 2018, Eq. 4)."""
    policy, penalty = make_policy(seed=5), 0.7
    [prompt] = read(policy)[:1]
    first, second = (), ()
    for _ in range(2):
        scores = logits_alone(policy, prompt, (*first, 0))[-1].log_softmax(-1)
        others = logits_alone(policy, prompt, (*second, 0))[-1].log_softmax(-1).clone()
        scores[0], others[0] = -torch.inf, -torch.inf
        token = int(scores.argmax())
        others[token] -= penalty
        first, second = (*first, token), (*second, int(others.argmax()))
    found = search(policy, [prompt], 2, 2, groups=2, diversity=penalty)[0]
    assert [o.ids for o in found] in ([first, second], [o.ids for o in found if o.stopped])


@pytest.mark.parametrize("truncation", [Truncation(), Truncation(k=3), Truncation(p=0.6), Truncation(temperature=2.0)])
def test_samples_have_the_probabilities_of_the_truncated_model(make_policy, truncation):
    policy = make_policy(seed=1, spread=0.3)
    [prompt] = read(policy)[:1]
    n = 4000
    uniforms = (np.arange(n)[None, :, None] + 0.5) / n
    counts = Counter(o.ids[0] for o in sample(policy, [prompt], uniforms, truncation)[0])
    p = (logits_alone(policy, prompt, (0,))[0] / truncation.temperature).softmax(-1).detach().double().numpy()
    order = np.argsort(-p, kind="stable")
    kept = order[: truncation.k] if truncation.k else order
    if truncation.p < 1:
        kept = order[: int(np.searchsorted(np.cumsum(p[order]), truncation.p)) + 1]
    expected = np.zeros(len(p))
    expected[kept] = p[kept] / p[kept].sum()
    assert np.abs(np.array([counts[i] for i in range(len(p))]) / n - expected).max() < 1.5 / n + 1e-6


@settings(max_examples=30)
@given(
    st.lists(st.floats(-30, 30), min_size=2, max_size=9), st.floats(0, 0.9999999), st.integers(0, 4), st.floats(0.05, 1)
)
def test_a_drawn_token_is_never_one_that_was_truncated(logits, uniform, k, p):
    row = torch.tensor([logits], dtype=torch.float64)
    token = int(Truncation(k, 1.0 if k else p).draw(row, torch.tensor([uniform], dtype=torch.float64))[0])
    rank = int((row[0] > row[0, token]).sum())
    before = float(row[0].softmax(-1)[row[0] > row[0, token]].sum())
    assert rank < k if k else before < p or p == 1  # 1 truncates nothing


def test_a_row_does_not_depend_on_its_batch(policy):
    prompts = read(policy)
    uniforms = np.random.default_rng(0).random((3, 2, 6))
    every = sample(policy, prompts, uniforms, Truncation(k=4))
    for prompt, numbers, outputs in zip(prompts, uniforms, every, strict=True):
        for row, output in enumerate(outputs):
            assert sample(policy, [prompt], numbers[None, row : row + 1], Truncation(k=4)) == [[output]]


@pytest.mark.parametrize("strategy", ["top-k", "top-p", "beam", "diverse-beam"])
def test_samples_form_a_reproducible_data_set(policy, strategy):
    options = {"max_tokens": 6, "k": 3, "seed": 7, "progress": False}
    found = collect_samples(policy, SOURCES, strategy, 3, **options)
    again = collect_samples(policy, SOURCES, strategy, 3, batch_rows=1, **options)
    pd.testing.assert_frame_equal(found.candidates, again.candidates)
    names = [f"{strategy}-{i}" for i in (1, 2, 3)]
    assert set(found.candidates["system"]) <= set(names)
    assert (found.candidates["candidate_id"] == found.candidates["system"]).all()
    assert found.human.empty
    blank = 9 - len(found.candidates)
    assert f"{blank} blank ones left out" in found.provenance
    for word in (policy.name, strategy, "seed 7", "{source}"):
        assert word in found.provenance
    if strategy.startswith("top"):
        other = collect_samples(policy, SOURCES, strategy, 3, **(options | {"seed": 8}))
        assert found.candidates["text"].tolist() != other.candidates["text"].tolist()
        more = collect_samples(policy, SOURCES, strategy, 5, **options).candidates
        pd.testing.assert_frame_equal(more[more["system"].isin(names)].reset_index(drop=True), found.candidates)


def test_samples_keep_attributes_and_columns_of_the_sources(make_policy):
    data = bl.load_dataset("graded", limit=2)
    found = collect_samples(make_policy(max_position_embeddings=512), data, "top-p", 2, max_tokens=6, progress=False)
    assert found.attributes == data.attributes
    assert found.noun == "summary"
    whole = data.candidates.drop_duplicates("context_id").set_index("context_id")
    for row in found.candidates.itertuples():
        assert (row.context, row.reference) == tuple(whole.loc[row.context_id, ["context", "reference"]])


def test_special_tokens_in_a_source_are_characters(make_policy):
    policy = make_policy()
    assert 0 not in policy.read("a <eos> b", 4)
    assert policy.target("a <eos> b").count(0) == 1  # the one that ends it
    assert policy.read("a <eos> b", 4) != policy.read("a b", 4)


def test_the_prompt_goes_around_the_source(make_policy):
    policy = make_policy()
    around = Policy(policy.model, policy.tokenizer, policy.name, "f {source} e")
    assert around.read("a {source}", 4)[0] == policy.read("f", 4)[0]
    assert around.read("a", 4) == policy.read("f a e", 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "top-x"}, "top-k, top-p, beam, diverse-beam"),
        ({"n": 0}, "n is 0"),
        ({"k": 0}, "k is 0"),
        ({"strategy": "top-p", "p": 0.0}, "p is 0"),
        ({"temperature": 0.0}, "greedy"),
        ({"strategy": "beam", "beams": 2, "n": 3}, "at least n"),
        ({"strategy": "diverse-beam", "beams": 4, "groups": 3}, "divisor of the 4"),
        ({"strategy": "diverse-beam", "diversity": 0.0}, "choose the strategy beam"),
        ({"prompt": "Summarise."}, "where the source goes"),
    ],
)
def test_invalid_settings_are_refused(make_policy, options, words):
    with pytest.raises(InputError, match=words):
        collect_samples(make_policy(), SOURCES, **{"progress": False, **options})


def test_unreadable_sources_are_refused(make_policy):
    with pytest.raises(InputError, match="context_id"):
        collect_samples(make_policy(), SOURCES[["context"]])
    with pytest.raises(InputError, match="'y' is blank"):
        collect_samples(make_policy(), SOURCES.assign(context=["a", " ", "b"]))
    with pytest.raises(PromptTooLongError, match="64"):
        collect_samples(make_policy(), SOURCES, max_tokens=60)


def test_blank_texts_only_are_an_error(make_policy):
    policy = make_policy("BartConfig")
    policy.model.final_logits_bias[0, 0] = 1e4  # of the end
    with pytest.raises(JudgeError, match="blank"):
        collect_samples(policy, SOURCES, "top-k", 2, k=1, max_tokens=6, progress=False)


def test_a_saved_policy_is_a_model_like_any_other(policy, tmp_path):
    folder = policy.save(tmp_path / "saved")
    assert not list(folder.glob("*.bin"))
    assert list(folder.glob("*.safetensors"))
    loaded = load_policy(str(folder), device="cpu")
    for one, other in zip(policy.model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(one, other)
    options = {"max_tokens": 6, "progress": False}
    one, other = (collect_samples(p, SOURCES, **options).candidates for p in (policy, str(folder)))
    pd.testing.assert_frame_equal(one, other)
    judge = bl.load_judge(str(folder))
    request = bl.Completion([("user", "a b")], max_tokens=3)
    [(_, reply)] = judge.ask([request])
    assert reply.text is not None


@pytest.mark.slow
def test_the_embedded_model_is_saved_as_plain_weights(tmp_path):
    policy = load_policy("smollm2-135m", device="cpu")
    loaded = load_policy(str(policy.save(tmp_path / "saved")), device="cpu")
    prompts = [policy.read("The council closed the bridge.", 4)]
    outputs = [[policy.target("It is closed.")]]
    assert [loaded.read("The council closed the bridge.", 4)] == prompts
    with torch.inference_mode():
        one, other = (p.log_likelihood(prompts, outputs)[0] for p in (policy, loaded))
    torch.testing.assert_close(one, other)
