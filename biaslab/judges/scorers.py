"""Choose how a model scores sequences or whole texts: as a prefix tree, or in padded batches."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch

from biaslab.judges import batches
from biaslab.judges.batches import BatchScorer, Distributions, Scored, TokenSet, batch_tokens, pack_tokens, padded
from biaslab.judges.prefix_tree import TreeScorer, cache_argument

AnyScorer: TypeAlias = TreeScorer | BatchScorer

_LOG = logging.getLogger(__name__)
_ATTENTION = frozenset({"full_attention", "sliding_attention"})
_TREE_ARGUMENTS = ("position_ids", "attention_mask", "logits_to_keep")


def choose_scorer(model: Any, max_batch_tokens: int | None = None, opening: tuple[int, ...] = ()) -> AnyScorer:
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
    tokens, logits = max_batch_tokens or batch_tokens(model), batches.most_logits(model)
    plain = BatchScorer(model, tokens, logits, opening=opening)
    if model.config.is_encoder_decoder:
        return plain  # the encoder sees the whole prompt, so only its complete output can be shared, and is
    ids = _ids(model)
    samples = [Scored(ids, 9), Scored(ids[:12] + ids[:6], 9), Scored(ids[:12] + ids[3:9] + ids[:2], 9)]
    return _tree_or(plain, lambda: TreeScorer(model, pack_tokens(model, tokens), logits), samples, unfit(model))


def _ids(model: Any) -> tuple[int, ...]:
    """Return tokens for a self-check."""
    return tuple(i % int(model.config.get_text_config().vocab_size) for i in range(5, 21))


def _tree_or(plain: BatchScorer, make: Callable[[], TreeScorer], samples: Sequence[Scored], reason: str) -> AnyScorer:
    """Return a prefix tree if nothing speaks against it and it agrees with plain batches, else these."""
    if not reason:
        tree = make()
        reason = self_check(tree, plain, samples)
        if not reason:
            return tree
    _LOG.warning("%s cannot use a prefix tree (%s); using padded batches", type(plain.model).__name__, reason)
    return plain


def unfit(model: Any, needed: Sequence[str] = _TREE_ARGUMENTS) -> str:
    """Return why a model's configuration, or its forward pass, rules the tree out; empty if it does not."""
    config = model.config.get_text_config()
    missing = [name for name in needed if name not in inspect.signature(model.forward).parameters]
    if missing or not cache_argument(model):
        return f"its forward pass takes no {[*missing, 'key-value cache'][0]}"
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


_REWARD_ARGUMENTS = ("position_ids", "attention_mask")
_END = TokenSet(())  # sentinel for the reward, which is read at the end of a text


def rewarded(ids: tuple[int, ...], second: int | None = None) -> Scored:
    """Return the sequence for a text's reward; an encoder's second segment begins at ``second``."""
    return Scored(ids, len(ids) if second is None else second, _END)


def is_causal(model: Any) -> bool:
    """Return whether a classifier reads the last token of a causal model; encoders read their first token, or all."""
    return isinstance(getattr(model, "score", None), torch.nn.Linear)


def choose_rewards(model: Any, typed: bool, max_batch_tokens: int | None = None) -> TreeScorer | BatchScorer:
    """Return a prefix tree if the architecture allows it, else padded batches, and log the choice once.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A sequence classifier with one output, in evaluation mode.
    typed : bool
        Whether an encoder distinguishes segments by token type.
    max_batch_tokens : int, optional
        Maximum number of tokens per batch or pack; by default as many as free memory allows.
    """
    tokens = max_batch_tokens or batch_tokens(model)
    if not is_causal(model):
        return RewardBatches(model, tokens, typed)
    ids, reason = _ids(model), unfit(model.base_model, _REWARD_ARGUMENTS)
    samples = [rewarded(ids), rewarded(ids[:12] + ids[:6]), rewarded(ids[:12] + ids[3:9])]
    plain = RewardBatches(model, tokens)
    return _tree_or(plain, lambda: RewardTree(model, pack_tokens(model, tokens)), samples, reason)


class RewardBatches(BatchScorer):
    """Rewards of texts in padded batches, longest first; the reward is read at each text's own last token.

    transformers instead looks for the last token that is not padding, which is wrong if the padding token also ends
    turns.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A sequence classifier with one output.
    max_tokens : int
        Maximum number of tokens per batch, including padding.
    typed : bool
        Whether an encoder distinguishes segments by token type.
    """

    def __init__(self, model: Any, max_tokens: int, typed: bool = False) -> None:
        super().__init__(model, max_tokens)
        self._vocabulary, self._typed = 1, typed

    @torch.inference_mode()
    def _score_causal(self, rows: Sequence[Scored]) -> list[list[float]]:
        ids = padded([row.ids for row in rows], self.device)
        if is_causal(self.model):
            hidden = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
            last = torch.tensor([len(row.ids) - 1 for row in rows], device=hidden.device)
            rewards = self.model.score(hidden[torch.arange(len(rows), device=hidden.device), last])
        else:
            inputs = {"attention_mask": padded([(1,) * len(row.ids) for row in rows], self.device)}
            if self._typed:
                segments = [(0,) * row.start + (1,) * (len(row.ids) - row.start) for row in rows]
                inputs["token_type_ids"] = padded(segments, self.device)
            rewards = self.model(input_ids=ids, **inputs).logits
        return [[float(value)] for value in rewards[:, 0].float().tolist()]


class RewardTree(TreeScorer):
    """Rewards of texts by their prefix tree: common prefixes of a context's candidates are computed once.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A sequence classifier with one output on a causal attention model.
    max_tokens : int
        Maximum number of tokens computed in one forward pass.
    """

    def __init__(self, model: Any, max_tokens: int) -> None:
        super().__init__(_OneLogit(model), max_tokens, max_logits=1 << 62)
        self.vocabulary, self.reader = 1, _Rewards


class _OneLogit:
    """A reward model as a causal language model whose only logit is the reward."""

    def __init__(self, model: Any) -> None:
        self._model, self.forward = model, model.base_model.forward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, logits_to_keep: torch.Tensor | list[int], **inputs: Any) -> Any:
        hidden = self._model.base_model(**inputs).last_hidden_state[:, logits_to_keep]
        return SimpleNamespace(logits=self._model.score(hidden))


class _Rewards(Distributions):
    """Rewards, read without normalisation."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits.float()

    def tokens(self, positions: Sequence[int], ids: Sequence[int]) -> torch.Tensor:  # noqa: ARG002
        """Return nothing: no token is scored."""
        return self.logits[:0, 0]

    def any_of(self, positions: Sequence[int], ids: TokenSet) -> torch.Tensor:  # noqa: ARG002
        """Return the reward at each position, shape (positions,)."""
        return self.logits[torch.tensor(positions, dtype=torch.long, device=self.logits.device), 0]
