"""The tree gives what one prompt at a time gives, for every family, and computes each distinct token once."""

import logging
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings, strategies as st

from biaslab.core import Choice, Likelihood
from biaslab.core.errors import OutOfMemoryError
from biaslab.judges.batches import BatchScorer, Scored, TokenSet, batch_tokens, most_logits, pack_tokens, window_tokens
from biaslab.judges.prefix_tree import TreeScorer, cache_argument
from biaslab.judges.scorers import choose_scorer

HEAD = {"head_dim": 8}
NEAR = {"sliding_window": 7}
MIXED = {"layer_types": ["sliding_attention", "full_attention"]}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
FAMILIES = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2-sliding": ("Qwen2Config", {"use_sliding_window": True, "max_window_layers": 1, **NEAR}),
    "qwen3": ("Qwen3Config", HEAD),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral-sliding": ("MistralConfig", NEAR),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4}),
    "gemma": ("GemmaConfig", HEAD),
    "gemma2": ("Gemma2Config", {**HEAD, **NEAR, **MIXED}),
    "gemma3": ("Gemma3TextConfig", {**HEAD, **NEAR, **MIXED}),
    "phi": ("PhiConfig", {}),
    "phi3": ("Phi3Config", {}),
    "phi3-sliding": ("Phi3Config", NEAR),
    "gpt2": ("GPT2Config", GPT),
    "gpt-neox": ("GPTNeoXConfig", {}),
    "gpt-j": ("GPTJConfig", {**GPT, "rotary_dim": 4}),
    "opt": ("OPTConfig", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "falcon": ("FalconConfig", {"ffn_hidden_size": 48}),
    "olmo2": ("Olmo2Config", {}),
    "granite": ("GraniteConfig", {}),
    "cohere": ("CohereConfig", {}),
    "cohere2": ("Cohere2Config", NEAR),
    "starcoder2": ("Starcoder2Config", {}),
    "starcoder2-sliding": ("Starcoder2Config", NEAR),
    "stablelm": ("StableLmConfig", {}),
    "smollm3": ("SmolLM3Config", {}),
    "gpt-oss": (
        "GptOssConfig",
        {
            **HEAD,
            **NEAR,
            **MIXED,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
}
LINEAR = {f"linear_{name}": 4 for name in ("num_value_heads", "num_key_heads", "key_head_dim", "value_head_dim")}
DEEP = {"num_hidden_layers": 4}  # one in four is full attention
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
UNFIT = {
    "mamba": ("MambaConfig", {}),
    "qwen3-next": (
        "Qwen3NextConfig",
        {**HEAD, **LINEAR, **EXPERTS, "shared_expert_intermediate_size": 16, **DEEP},
    ),
    "bloom": ("BloomConfig", {"n_layer": 2, "n_head": 4}),
    "falcon-alibi": ("FalconConfig", {"alibi": True}),
    "llama4-chunked": (
        "Llama4TextConfig",
        {**HEAD, "num_local_experts": 2, "intermediate_size_mlp": 48, "attention_chunk_size": 8},
    ),
}
ENDS = (TokenSet(tuple(range(0, 64, 2))), TokenSet((7,)), None)


@torch.inference_mode()
def by_hand(model, sequence):
    """One prompt at a time, as the papers' code does."""
    logprobs = model(input_ids=torch.tensor([sequence.ids])).logits[0].double().log_softmax(-1)
    values = [float(logprobs[at - 1, sequence.ids[at]]) for at in range(sequence.start, len(sequence.ids))]
    if sequence.terminators:
        values.append(float(logprobs[-1, list(sequence.terminators.ids)].logsumexp(0)))
    return values


def worst(found, wanted):
    assert sorted(found) == list(range(len(wanted)))
    pairs = [(a, b) for i, values in enumerate(wanted) for a, b in zip(found[i], values, strict=True)]
    return max((abs(a - b) for a, b in pairs), default=0.0)


def distinct(sequences):
    return len({s.ids[:n] for s in sequences for n in range(1, len(s.ids) + 1)})


token = st.integers(0, 63)


@st.composite
def trees(draw, most=10):
    """Sequences with heavily shared prefixes, some twice, some the prefix of others, scored from anywhere."""
    pool = [tuple(draw(st.lists(token, min_size=2, max_size=24)))]
    for _ in range(draw(st.integers(0, most))):
        stem = draw(st.sampled_from(pool))
        kept = draw(st.integers(1, len(stem)))
        pool.append(stem[:kept] + tuple(draw(st.lists(token, min_size=0 if kept > 1 else 1, max_size=8))))
    return [Scored(ids, draw(st.integers(1, len(ids))), draw(st.sampled_from(ENDS))) for ids in pool]


@pytest.fixture(scope="module")
def family(make_model):
    built = {}

    def get(name):
        if name not in built:
            config, options = {**FAMILIES, **UNFIT}[name]
            built[name] = make_model(config, **options)
        return built[name]

    return get


#: Families that differ in what a tree depends on: positions, windows, shared keys, experts.
DIFFERENT = {"llama", "gemma3", "gpt2", "gpt-j", "falcon", "opt", "gpt-oss"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in DIFFERENT else pytest.mark.slow) for name in FAMILIES]
)
def test_every_family_agrees_with_one_prompt_at_a_time(family, name):
    model = family(name)
    assert isinstance(choose_scorer(model), TreeScorer)

    @settings(max_examples=4, deadline=None, derandomize=True)
    @given(sequences=trees(), size=st.sampled_from([1, 3, 16, 64]))
    def agree(sequences, size):
        wanted = [by_hand(model, s) for s in sequences]
        tree = TreeScorer(model, size)
        assert worst(dict(tree.score(sequences)), wanted) <= 1e-4
        assert worst(dict(BatchScorer(model).score(sequences)), wanted) <= 1e-4
        assert tree.computed == distinct(sequences)

    agree()


@pytest.mark.slow
@pytest.mark.parametrize("examples", [30, pytest.param(300, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_any_tree_with_any_pack_size(family, name, examples):
    model = family(name)

    @settings(max_examples=examples, deadline=None)
    @given(sequences=trees(most=16), size=st.integers(1, 64))
    def agree(sequences, size):
        tree = TreeScorer(model, size)
        assert worst(dict(tree.score(sequences)), [by_hand(model, s) for s in sequences]) <= 1e-4
        assert tree.computed == distinct(sequences)

    agree()


@pytest.mark.slow
@pytest.mark.parametrize("name", UNFIT)
def test_unsupported_family_is_scored_in_batches(family, name, caplog):
    model = family(name)
    with caplog.at_level(logging.WARNING):
        scorer = choose_scorer(model)
    assert isinstance(scorer, BatchScorer)
    said = [r.message for r in caplog.records if r.name.startswith("biaslab")]
    assert [words.split(" cannot use a prefix tree")[0] for words in said] == [type(model).__name__]

    @settings(max_examples=12, deadline=None, derandomize=True)
    @given(sequences=trees())
    def agree(sequences):
        assert worst(dict(scorer.score(sequences)), [by_hand(model, s) for s in sequences]) <= 1e-4

    agree()


def test_scorer_self_check_detects_a_leaking_layer(make_model, caplog):
    model = make_model()
    inner = model.model.layers[0].forward

    def leaking(hidden, *args, **kwargs):
        return inner(hidden + hidden.cumsum(1), *args, **kwargs)  # what a recurrent layer would do

    model.model.layers[0].forward = leaking
    assert isinstance(choose_scorer(model), BatchScorer)
    assert "numbers differ" in caplog.text


class Cramped(torch.nn.Module):
    """A model on a machine whose memory holds only some tokens at a time; it fails in the middle of the layers."""

    def __init__(self, model, tokens):
        super().__init__()
        self.inner, self.tokens, self.failures, self.largest = model, tokens, 0, 0
        last, original = model.model.layers[-1], model.model.layers[-1].forward

        def forward(hidden, *args, **kwargs):
            if hidden.shape[0] * hidden.shape[1] > self.tokens:
                self.failures += 1
                raise torch.OutOfMemoryError("out of memory")
            self.largest = max(self.largest, hidden.shape[0] * hidden.shape[1])
            return original(hidden, *args, **kwargs)

        last.forward = forward


LONG = [Scored((*range(40), *range(n), *range(20, 40)), 50, ENDS[n % 3]) for n in range(1, 20)]


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [1, 2, 9, 50])
def test_packs_halve_when_memory_runs_out_and_every_reply_comes(make_model, tokens):
    wanted = [by_hand(make_model(), s) for s in LONG]
    cramped = Cramped(make_model(), tokens)
    tree = TreeScorer(cramped.inner, 512)
    assert worst(dict(tree.score(LONG)), wanted) <= 1e-4
    assert cramped.failures > 0
    assert cramped.largest <= tokens
    assert tree.computed == distinct(LONG)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("size", [1, 16, 4096])
def test_a_gpu_gives_what_the_cpu_gives(make_model, size):
    """Packs are computed while the one before is read: the same numbers come back, each with its sequence."""
    wanted = [by_hand(make_model(), s) for s in LONG]
    assert worst(dict(TreeScorer(make_model().to("cuda"), size).score(LONG)), wanted) <= 1e-3


def test_a_token_that_does_not_fit_is_an_error(make_model):
    with pytest.raises(OutOfMemoryError, match="one single token"):
        list(TreeScorer(Cramped(make_model(), 0).inner).score(LONG))


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [80, 200])
def test_batches_halve_when_memory_runs_out(make_model, tokens):
    wanted = [by_hand(make_model(), s) for s in LONG]
    cramped = Cramped(make_model(), tokens)
    assert worst(dict(BatchScorer(cramped.inner).score(LONG)), wanted) <= 1e-4
    assert cramped.failures > 0


def test_a_sequence_that_does_not_fit_is_an_error(make_model):
    with pytest.raises(OutOfMemoryError, match="a single request"):
        list(BatchScorer(Cramped(make_model(), 50).inner).score(LONG))


def test_other_errors_are_not_swallowed(make_model):
    model = make_model()
    tree = TreeScorer(model)
    with pytest.raises(IndexError):
        list(tree.score([Scored((1, 64 + 5, 3), 1)]))


@pytest.mark.slow
def test_a_thousand_levels_need_no_recursion(make_model):
    """Every sequence extends the one before it, packs hold one token: as deep as a tree can be."""
    model = make_model(max_position_embeddings=2048, num_hidden_layers=1)
    sequences = [Scored(tuple(i % 64 for i in range(n)), 1) for n in range(2, 1100, 50)]
    tree = TreeScorer(model, 1)
    assert len(dict(tree.score(sequences))) == len(sequences)
    assert tree.computed == 1052


def test_no_sequences_give_no_scores(make_model):
    assert list(TreeScorer(make_model()).score([])) == []
    assert list(BatchScorer(make_model()).score([])) == []


def test_replies_stream_as_packs_complete(make_model):
    tree = TreeScorer(make_model(), 16)
    computed = [tree.computed for _ in tree.score(LONG)]
    assert computed[0] < computed[-1] / 2


def test_a_very_unlikely_token_keeps_its_log_probability(make_model):
    """Below the smallest float32 the sum is taken over logarithms."""
    model = make_model(tie_word_embeddings=False)
    model.lm_head.weight.data *= 200
    sequences = [Scored((1, 2, 3, 4), 2, TokenSet((index,))) for index in range(64)]
    wanted = [by_hand(model, s) for s in sequences]
    assert min(min(values) for values in wanted) < -104
    for scorer in (TreeScorer(model), BatchScorer(model)):
        found = dict(scorer.score(sequences))
        assert all(
            a == pytest.approx(b, rel=1e-4, abs=1e-2) for i in found for a, b in zip(found[i], wanted[i], strict=True)
        )


@pytest.mark.slow
def test_the_embedded_judge_agrees_with_one_prompt_at_a_time(embedded):
    text = "The council voted to close the old bridge to cars. " * 6
    summaries = ["The bridge was closed.", "Cars may use the bridge.", "The council met."]
    prompts = [f"{text}\n\nSummary A: {a}\n\nSummary B: {b}\n\nWhich?" for a in summaries for b in summaries if a != b]
    requests = [Choice(prompt, ("Summary A", "Summary B")) for prompt in prompts] + [Likelihood(text)]
    model = embedded._loaded[0]
    for request, reply in embedded.ask(requests):
        wanted = [by_hand(model, s) for s in embedded._encode(request)]
        wanted = [sum(values) for values in wanted] if isinstance(request, Choice) else wanted[0]
        assert reply.logprobs == pytest.approx(wanted, abs=1e-4)


GB = 1 << 30
free = st.integers(0, 1 << 42)


@given(free, free)
def test_batch_size_is_monotone_in_memory(make_model, one, two):
    model, (less, more) = make_model(), sorted((one, two))
    assert 1 <= batch_tokens(model, less) <= batch_tokens(model, more) <= 4096
    assert 1 <= most_logits(model, less) <= most_logits(model, more) <= 1 << 27
    assert 1 << 14 <= window_tokens(less) <= window_tokens(more) <= 1 << 22


def test_a_pass_stays_within_its_share(make_model):
    """Weights of 8 B parameters leave 6 GB of 24: activations of one pass must fit a quarter of them."""
    model = make_model(hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_hidden_layers=0)
    tokens = batch_tokens(model, 6 * GB)
    assert 500 < tokens < 4096
    assert tokens * 4 * (8 * 4096 + 3 * 14336) < 6 * GB / 4


def test_pack_size_follows_free_memory(make_model, monkeypatch):
    model = make_model()
    assert choose_scorer(model).max_tokens == pack_tokens(model, batch_tokens(model)) == 768
    monkeypatch.setattr("biaslab.judges.batches.free_bytes", lambda _: 4 << 20)
    assert choose_scorer(model).max_tokens < 768
    assert choose_scorer(model, 7).max_tokens == 7


@pytest.mark.parametrize(
    ("forward", "name"),
    [
        (lambda input_ids, past_key_values=None: None, "past_key_values"),
        (lambda input_ids, cache=None: None, "cache"),  # transformers 5.24
        (lambda input_ids: None, ""),
    ],
)
def test_cache_is_passed_by_the_name_that_forward_takes(forward, name):
    assert cache_argument(SimpleNamespace(forward=forward)) == name
