"""Sizes follow free memory: never beyond their limits, smaller where less is free, and at least one token."""

from hypothesis import given, strategies as st

from biaslab.judges.memory import batch_tokens, most_logits, pack_tokens, window_tokens
from biaslab.judges.scorers import choose_scorer

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
    monkeypatch.setattr("biaslab.judges.memory.free_bytes", lambda _: 4 << 20)
    assert choose_scorer(model).max_tokens < 768
    assert choose_scorer(model, 7).max_tokens == 7
