"""Choose how a model scores sequences: as a prefix tree or, for unsuitable architectures, in padded batches."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Any

import torch

from biaslab.judges.batches import BatchScorer, Scored
from biaslab.judges.memory import batch_tokens, most_logits, pack_tokens
from biaslab.judges.prefix_tree import TreeScorer

_LOG = logging.getLogger(__name__)
_ATTENTION = frozenset({"full_attention", "sliding_attention"})
_NEEDED = ("position_ids", "attention_mask", "past_key_values", "logits_to_keep")


def choose_scorer(
    model: Any, max_batch_tokens: int | None = None, opening: tuple[int, ...] = ()
) -> TreeScorer | BatchScorer:
    """Return a prefix tree if the architecture allows it, else padded batches, and log the choice once.

    The configuration decides, and a short self-check against plain batches confirms: an architecture that reads more
    than the attention mask allows produces other numbers and is detected.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        In evaluation mode.
    max_batch_tokens : int, optional
        Maximum number of tokens per batch or pack; by default as many as free memory allows.
    opening : tuple of int
        See `BatchScorer`.
    """
    tokens, logits = max_batch_tokens or batch_tokens(model), most_logits(model)
    plain = BatchScorer(model, tokens, logits, opening=opening)
    if model.config.is_encoder_decoder:
        return plain  # the encoder sees the whole prompt, so only its complete output can be shared, and is
    reason = unfit(model)
    if not reason:
        tree = TreeScorer(model, pack_tokens(model, tokens), logits)
        ids = tuple(i % tree.vocabulary for i in range(5, 21))
        samples = [Scored(ids, 9), Scored(ids[:12] + ids[:6], 9), Scored(ids[:12] + ids[3:9] + ids[:2], 9)]
        reason = self_check(tree, plain, samples)
        if not reason:
            return tree
    _LOG.warning("%s cannot use a prefix tree (%s); using padded batches", type(model).__name__, reason)
    return plain


def unfit(model: Any, needed: Sequence[str] = _NEEDED) -> str:
    """Return why a model's configuration, or its forward pass, rules the tree out; empty if it does not."""
    config = model.config.get_text_config()
    missing = [name for name in needed if name not in inspect.signature(model.forward).parameters]
    if missing:
        return f"its forward pass takes no {missing[0]}"
    if getattr(model, "_is_stateful", False):
        return "it keeps a recurrent state"
    other = sorted(set(getattr(config, "layer_types", None) or ()) - _ATTENTION)
    return f"layers of type {other[0]}" if other else ""


def self_check(tree: TreeScorer, plain: BatchScorer, samples: Sequence[Scored]) -> str:
    """Return how the tree disagrees with plain batches on a few short sequences; empty if it does not."""
    expected = dict(plain.score(samples))
    try:
        scores = dict(tree.score(samples))
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    worst = max(abs(a - b) for i in expected for a, b in zip(scores[i], expected[i], strict=True))
    tolerance = 1e-3 if tree.model.dtype == torch.float32 else 0.5
    tree.computed = 0
    return "" if worst <= tolerance else f"its numbers differ by {worst:.2g}"
