"""Texts that come and go in slots: who is beside them, when they join and what they share changes nothing."""

from itertools import product

import numpy as np
import pytest
import torch

from biaslab.core import Completion
from biaslab.judges import continuous, stems as stems_module
from biaslab.judges.continuous import ContinuousGenerator
from biaslab.judges.generation import Generator
from biaslab.judges.local import _seed
from biaslab.judges.padded_generation import PaddedGenerator
from biaslab.judges.prefix_tree import TreeScorer
from biaslab.judges.prompted import Prompted
from biaslab.judges.sampling import draw
from biaslab.judges.stems import choose_stems

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
    monkeypatch.setattr(continuous, "_GROWTH", 4)
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
    generator = Generator(model, (NEVER,))
    assert generator.method.shares
    assert written(generator, rows) == one_by_one(model, rows)
    assert generator.method.tree.computed == len(CONTEXT) + 2
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
    generator = Generator(model, (NEVER,))
    assert generator.method.shares is shares
    assert written(generator, rows) == one_by_one(model, rows)


def test_generator_self_check_detects_a_leaking_layer(make_model, caplog):
    model = make_model()
    inner = model.model.layers[0].forward
    model.model.layers[0].forward = lambda hidden, *a, **k: inner(hidden + hidden.cumsum(1), *a, **k)
    assert isinstance(Generator(model, (NEVER,)).method, PaddedGenerator)
    assert "numbers differ" in caplog.text


@pytest.mark.slow
def test_half_precision(make_model):
    model = make_model().to(torch.bfloat16)
    generator = Generator(model, (NEVER,))
    assert isinstance(generator.method, ContinuousGenerator)
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
