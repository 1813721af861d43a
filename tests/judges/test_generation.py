"""Completions: greedy as transformers', sampled exactly, the same whatever stands in the batch."""

from itertools import product

import numpy as np
import pytest
import torch
import transformers
from scipy import stats

from biaslab.core import Completion
from biaslab.judges import generation, kv_cache as stems_module
from biaslab.judges.generation import ContinuousGenerator, PaddedGenerator, Prompted, choose_generator, draw
from biaslab.judges.kv_cache import choose_stems
from biaslab.judges.local import _seed
from biaslab.judges.prefix_tree import TreeScorer

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
    found = {i: ids for i, ids, _ in generated(choose_generator(model, (63,)), rows)}
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
    together = {i: (ids, stopped) for i, ids, stopped in generated(choose_generator(model, (2,)), rows)}
    for size in (1, 70):
        apart = {i: (ids, stopped) for i, ids, stopped in generated(choose_generator(model, (2,), size), rows)}
        assert apart == together
    texts = [tuple(together[i][0]) for i, row in enumerate(rows) if row.request.temperature]
    assert len(set(texts)) > len(texts) * 0.7


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_first_token_is_an_exact_sample(make_model, temperature):
    model = make_model(vocab_size=16, seed=2)
    rows = [
        Prompted(request := Completion("x", temperature, 1, replicate), (3, 4, 5), _seed(request))
        for replicate in range(4000)
    ]
    drawn = [ids[0] for _, ids, _ in generated(choose_generator(model, (99,), 4096), rows)]
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
    generator = choose_generator(model, (99,))
    assert isinstance(generator, ContinuousGenerator)
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
    generator = choose_generator(model, (2,))
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
    plain = generated(choose_generator(model, (63,)), rows)
    model.generation_config = own = transformers.GenerationConfig(
        repetition_penalty=5.0, no_repeat_ngram_size=1, num_beams=3, min_new_tokens=11, bad_words_ids=[[7]]
    )
    assert generated(choose_generator(model, (63,)), rows) == plain
    assert model.generation_config is own


def test_ends_and_lengths(make_judge, byte_level):
    judge = make_judge()
    ids = list(range(len(byte_level)))
    rows = [Prompted(r := Completion("x", max_tokens=n), (3, 4), _seed(r)) for n in (1, 2, 9)]
    model = judge._loaded[0]
    for _, found, stopped in generated(choose_generator(model, tuple(ids)), rows):
        assert (found, stopped) == ([], True)
    lengths = {i: len(found) for i, found, _ in generated(choose_generator(model, (len(ids) + 5,)), rows)}
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


NEVER = 99  # no token of the tiny models
CONTEXT = tuple(3 + i * 7 % 60 for i in range(40))


def rows_of(lengths, temperature=0.0, prompts=((*CONTEXT, 4, 5), (*CONTEXT, 9), (7, 8), (*CONTEXT, 4, 5))):
    requests = [Completion("x", temperature, length, n) for n, length in enumerate(lengths)]
    return [Prompted(r, prompts[n % len(prompts)], _seed(r)) for n, r in enumerate(requests)]


def written(generator, rows):
    return {index: ids for batch in generator.generate(rows) for index, ids, _ in batch}


def passes(model, run):
    """Shapes of the inputs of each pass of a model."""
    shapes = []
    handle = model.register_forward_pre_hook(
        lambda _, __, k: shapes.append(tuple(k["input_ids"].shape)), with_kwargs=True
    )
    result = run()
    handle.remove()
    return result, shapes


def one_by_one(model, rows):
    return {
        i: model.generate(
            torch.tensor([row.prompt]),
            attention_mask=torch.ones(1, len(row.prompt)),
            do_sample=False,
            max_new_tokens=row.request.max_tokens,
            eos_token_id=NEVER,
        )[0, len(row.prompt) :].tolist()
        for i, row in enumerate(rows)
    }


def test_finished_text_frees_its_slot_immediately(make_model):
    model = make_model()
    generator = ContinuousGenerator(TreeScorer(model), (NEVER,))
    generator.most_rows = 2
    rows = rows_of([20, 4, 4, 4, 4, 4], prompts=((5,),))
    texts, shapes = passes(model, lambda: written(generator, rows))
    assert shapes == [(2, 1)] * 20
    assert texts == one_by_one(model, rows)


def test_slots_that_outgrow_their_memory_wait_and_go_on(make_model, monkeypatch):
    monkeypatch.setattr(generation, "_GROWTH", 4)
    model = make_model()
    rows = rows_of([20, 3, 18, 15, 12, 25], prompts=((5, 6, 7), (8, 9)))
    tree = TreeScorer(model)
    texts = written(ContinuousGenerator(tree, (NEVER,), 60), rows)
    assert texts == one_by_one(model, rows)
    assert tree.computed > 3  # more than the prompts: what some had written was read again


@pytest.mark.parametrize("fitting", [2, 128])
def test_memory_that_runs_out_in_a_pass_leaves_fewer_rows(make_model, fitting):
    """Prompts that do not fit one pass together are read apart, which leaves the number of rows as it is."""
    model = make_model()
    rows = rows_of([12, 5, 9, 7, 12, 3, 8], temperature=1.0)
    expected = written(ContinuousGenerator(TreeScorer(model), (NEVER,)), rows)
    layer = model.model.layers[-1]
    original = layer.forward

    def forward(hidden, *args, **kwargs):
        if hidden.shape[0] > fitting or hidden.shape[1] > 45:
            raise torch.OutOfMemoryError("out of memory")
        return original(hidden, *args, **kwargs)

    layer.forward = forward
    generator = ContinuousGenerator(TreeScorer(model), (NEVER,))
    assert written(generator, rows) == expected
    assert generator.most_rows <= fitting
    assert generator.most_rows == 128 or fitting < 128


def test_shared_prefix_is_computed_once(make_model):
    model = make_model()
    rows = rows_of([6] * 8)
    generator = choose_generator(model, (NEVER,))
    assert generator.shares
    assert written(generator, rows) == one_by_one(model, rows)
    assert generator.tree.computed == len(CONTEXT) + 2
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("config", "options", "shares"),
    [
        ("Gemma2Config", {"head_dim": 8, "sliding_window": 5}, False),  # a soft cap
        ("GptOssConfig", {"head_dim": 8, "num_local_experts": 4}, False),  # sinks
        ("MixtralConfig", {"num_local_experts": 4}, True),
        ("Gemma3TextConfig", {"head_dim": 8, "sliding_window": 5}, True),
    ],
)
def test_unsupported_attention_shares_no_prefix(make_model, config, options, shares):
    model = make_model(config, **options)
    rows = rows_of([9, 3, 12, 5, 7])
    generator = choose_generator(model, (NEVER,))
    assert generator.shares is shares
    assert written(generator, rows) == one_by_one(model, rows)


def test_generator_self_check_detects_a_leaking_layer(make_model, caplog):
    model = make_model()
    inner = model.model.layers[0].forward
    model.model.layers[0].forward = lambda hidden, *a, **k: inner(hidden + hidden.cumsum(1), *a, **k)
    assert isinstance(choose_generator(model, (NEVER,)), PaddedGenerator)
    assert "numbers differ" in caplog.text


@pytest.mark.slow
def test_half_precision(make_model):
    model = make_model().to(torch.bfloat16)
    generator = choose_generator(model, (NEVER,))
    assert isinstance(generator, ContinuousGenerator)
    texts = written(generator, rows_of([9, 3, 12, 5], temperature=1.0))
    assert [len(texts[i]) for i in range(4)] == [9, 3, 12, 5]


def tokens_kept(prompts, lengths):
    stems = {prompt[:length] for prompt, length in zip(prompts, lengths, strict=True)}
    return sum(map(len, stems)) + sum(len(p) - n for p, n in zip(prompts, lengths, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_stems_spare_tokens(monkeypatch, seed):
    """Between no stems and the best of every way to give each prompt one of its beginnings."""
    monkeypatch.setattr(stems_module, "_WORTH", 1)
    random = np.random.default_rng(seed)
    prompts = sorted(tuple(random.integers(0, 2, random.integers(1, 6)).tolist()) for _ in range(4))
    chosen = choose_stems(prompts)
    found = tokens_kept(prompts, [stem.length if stem else 0 for stem in chosen])
    best = min(tokens_kept(prompts, each) for each in product(*(range(len(p) + 1) for p in prompts)))
    assert best <= found <= best + 1 < sum(map(len, prompts))
    assert all(stem.texts == chosen.count(stem) for stem in chosen if stem)


def test_stems_of_contexts_and_of_replicates():
    twice = [(*CONTEXT, 1), (*CONTEXT, 2), (*CONTEXT, 3, *range(50)), (*CONTEXT, 3, *range(50)), (7,)]
    assert [stem and stem.length for stem in choose_stems(twice)] == [40, 40, 91, 91, None]
    often = [(*CONTEXT, 1), *[(*CONTEXT, 3, *range(50))] * 4]
    assert [stem and stem.length for stem in choose_stems(often)] == [None, 91, 91, 91, 91]
    assert choose_stems([]) == []


@pytest.mark.parametrize("vocabulary", [3, 256, 700])
def test_draws_invert_the_distribution(vocabulary):
    random = np.random.default_rng(vocabulary)
    logits = torch.from_numpy(random.normal(0, 3, (40, vocabulary))).float()
    temperatures, uniforms = random.choice([0.0, 0.3, 1.0, 2.0], 40).tolist(), random.random(40)
    for row, token in enumerate(draw(logits, temperatures, uniforms)):
        if not temperatures[row]:
            assert token == int(logits[row].argmax())
            continue
        weights = np.exp(logits[row].double().numpy() / temperatures[row])
        upto = np.cumsum(weights) / weights.sum()
        below = upto[token - 1] if token else 0.0
        assert below - 1e-6 <= uniforms[row] <= upto[token] + 1e-6
    assert draw(logits, [1.0] * 40, [0.0] * 40) == [0] * 40
