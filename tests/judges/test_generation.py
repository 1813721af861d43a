"""Completions: greedy as transformers', sampled exactly, the same whatever stands in the batch."""

import numpy as np
import pytest
import torch
import transformers
from scipy import stats

from biaslab.core import Completion
from biaslab.judges.continuous import ContinuousGenerator
from biaslab.judges.generation import Generator
from biaslab.judges.local import _seed
from biaslab.judges.prompted import Prompted

GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
FAMILIES = [
    ("LlamaConfig", {}),
    ("MistralConfig", {"sliding_window": 5}),
    ("Gemma3TextConfig", {"head_dim": 8, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}),
    ("GPT2Config", GPT),
    ("OPTConfig", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    ("BloomConfig", {"n_layer": 2, "n_head": 4}),
    ("MambaConfig", {}),
]


def generated(generator, rows):
    """All rows, whatever batches they were in."""
    return [row for batch in generator.generate(rows) for row in batch]


@pytest.mark.parametrize(("config", "options"), FAMILIES)
def test_greedy_equals_transformers_for_every_prompt_of_a_batch(make_model, config, options):
    model = make_model(config, eos_token_id=63, **options)
    prompts = [(3, 4, 5), (7,), tuple(range(3, 20)), (3, 4, 5)]
    requests = [Completion("x", max_tokens=10, replicate=n) for n in range(len(prompts))]
    rows = [Prompted(r, p, _seed(r)) for r, p in zip(requests, prompts, strict=True)]
    found = {i: ids for i, ids, _ in generated(Generator(model, (63,)), rows)}
    for i, prompt in enumerate(prompts):
        plain = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), do_sample=False, max_new_tokens=10
        )
        assert found[i] == [t for t in plain[0, len(prompt) :].tolist() if t != 63]


@pytest.mark.parametrize(("config", "options"), FAMILIES[:4])
def test_samples_do_not_depend_on_the_batch(make_model, config, options):
    model = make_model(config, **options)
    rows = [
        Prompted(request := Completion("x", temperature, 8, replicate), prompt, _seed(request))
        for prompt in ((3, 4, 5), tuple(range(20)), (9,))
        for temperature in (0.0, 0.7, 1.5)
        for replicate in range(3)
    ]
    together = {i: (ids, stopped) for i, ids, stopped in generated(Generator(model, (2,)), rows)}
    for size in (1, 70):
        apart = {i: (ids, stopped) for i, ids, stopped in generated(Generator(model, (2,), size), rows)}
        assert apart == together
    texts = [tuple(together[i][0]) for i, row in enumerate(rows) if row.request.temperature]
    assert len(set(texts)) > len(texts) * 0.7


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_first_token_is_an_exact_sample(make_model, temperature):
    model = make_model(vocab_size=16, seed=2)
    rows = [
        Prompted(request := Completion("x", temperature, 1, replicate), (3, 4, 5), _seed(request))
        for replicate in range(4000)
    ]
    drawn = [ids[0] for _, ids, _ in generated(Generator(model, (99,), 4096), rows)]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[3, 4, 5]])).logits[0, -1].double()
    expected = (logits / temperature).softmax(-1).numpy() * len(rows)
    counts = np.bincount(drawn, minlength=16)
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    kept = wanted > 0
    assert stats.chisquare(observed[kept], wanted[kept]).pvalue > 0.001


def test_a_prompt_that_is_asked_often_is_read_once(make_model):
    model, read = make_model(), []
    generator = Generator(model, (99,))
    assert isinstance(generator.method, ContinuousGenerator)
    original = model.model.layers[0].forward

    def forward(hidden, *args, **kwargs):
        read.append(hidden.shape[0] * hidden.shape[1])
        return original(hidden, *args, **kwargs)

    model.model.layers[0].forward = forward
    prompt = tuple(3 + i % 60 for i in range(50))
    rows = [Prompted(r := Completion("x", 1.0, 4, n), prompt, _seed(r)) for n in range(20)]
    generated(generator, rows)
    assert read == [49, 20, 20, 20, 20]


@pytest.mark.parametrize(
    ("config", "options", "shares"),
    [
        ("LlamaConfig", {}, True),
        ("Qwen3Config", {"head_dim": 8}, True),
        ("GPT2Config", GPT, True),
        ("OPTConfig", {"ffn_dim": 48, "word_embed_proj_dim": 32}, True),
        ("BloomConfig", {"n_layer": 2, "n_head": 4}, False),
        ("MistralConfig", {"sliding_window": 5}, False),
        ("MambaConfig", {}, False),
    ],
)
def test_shared_prompt_prefix_is_read_once_and_texts_are_equal(make_model, config, options, shares):
    model = make_model(config, **options)
    prefix = tuple(i % 60 + 3 for i in range(40))
    prompts = [(*prefix, 4, 5), (*prefix, 9), (*prefix, 9), (*prefix, *range(3, 15)), prefix]
    rows = [
        Prompted(request := Completion("x", t, 6, n), p, _seed(request))
        for n, p in enumerate(prompts)
        for t in (0, 1.0)
    ]
    generator = Generator(model, (2,))
    alone = [generated(generator, [row])[0][1:] for row in rows]
    read = []
    handle = model.register_forward_pre_hook(lambda _, a, k: read.append(k["input_ids"].numel()), with_kwargs=True)
    together = {i: tuple(rest) for i, *rest in generated(generator, rows)}
    handle.remove()
    assert [together[i] for i in range(len(rows))] == alone
    assert (sum(read) < sum(len(row.prompt) for row in rows) / 2) == shares or not shares


def test_the_models_own_settings_stay_out(make_model):
    model = make_model(seed=5)
    rows = [Prompted(r := Completion("x", max_tokens=12, replicate=n), (3, 4, 5 + n), _seed(r)) for n in range(4)]
    plain = generated(Generator(model, (63,)), rows)
    model.generation_config = own = transformers.GenerationConfig(
        repetition_penalty=5.0, no_repeat_ngram_size=1, num_beams=3, min_new_tokens=11, bad_words_ids=[[7]]
    )
    assert generated(Generator(model, (63,)), rows) == plain
    assert model.generation_config is own


def test_ends_and_lengths(make_judge, byte_level):
    judge = make_judge()
    ids = list(range(len(byte_level)))
    rows = [Prompted(r := Completion("x", max_tokens=n), (3, 4), _seed(r)) for n in (1, 2, 9)]
    model = judge._loaded[0]
    for _, found, stopped in generated(Generator(model, tuple(ids)), rows):
        assert (found, stopped) == ([], True)
    lengths = {i: len(found) for i, found, _ in generated(Generator(model, (len(ids) + 5,)), rows)}
    assert lengths == {0: 1, 1: 2, 2: 9}


def test_replies_of_a_judge(make_judge):
    judge = make_judge(seed=1)
    requests = [Completion("Say it", t, 6, replicate, seed) for t in (0, 1) for replicate in (0, 1) for seed in (0, 1)]
    first, again = dict(judge.ask(requests)), dict(judge.ask(reversed(requests)))
    assert {r: reply.text for r, reply in first.items()} == {r: reply.text for r, reply in again.items()}
    assert len({first[r].text for r in requests if r.temperature == 0}) == 1
    assert len({first[r].text for r in requests if r.temperature > 0}) == 4
    for reply in first.values():
        assert reply.finish_reason in ("stop", "length")
        assert reply.usage.completion_tokens <= 6
        assert reply.usage.prompt_tokens > 0
