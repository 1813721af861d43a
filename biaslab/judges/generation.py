"""Generate text with separate random numbers per row, so that replies do not depend on the batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from biaslab.judges.memory import pack_tokens
from biaslab.judges.prefix_tree import TreeScorer
from biaslab.judges.prompted import Generated, Prompted
from biaslab.judges.scorers import unfit

if TYPE_CHECKING:
    from biaslab.judges.continuous import ContinuousGenerator
    from biaslab.judges.padded_generation import PaddedGenerator

_LOG = logging.getLogger(__name__)


class Generator:
    """Generate text with one model, with continuous batching if its architecture allows it, else in padded batches.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Causal or encoder–decoder model.
    terminators : tuple of int
        Tokens that end a text; at least one.
    max_batch_tokens : int
        Maximum number of tokens of distinct prompts read in one pass.
    max_cached_tokens : int
        Maximum number of cached tokens, over all texts.
    opening : tuple of int
        Tokens that an encoder–decoder model's decoder reads first; by default its start token.
    """

    def __init__(
        self,
        model: Any,
        terminators: tuple[int, ...],
        max_batch_tokens: int = 4096,
        max_cached_tokens: int = 1 << 15,
        opening: tuple[int, ...] = (),
    ) -> None:
        self.model, self.terminators = model, terminators
        self.max_batch_tokens, self.max_cached_tokens, self.opening = max_batch_tokens, max_cached_tokens, opening

    def generate(self, rows: Sequence[Prompted]) -> Iterator[list[Generated]]:
        """Yield texts as they end, several at a time.

        Raises
        ------
        OutOfMemoryError
            If a single text does not fit; otherwise fewer are generated at a time.
        """
        return self.method.generate(rows)

    @cached_property
    def method(self) -> ContinuousGenerator | PaddedGenerator:
        """Generation method: chosen by the configuration, confirmed by a self-check against plain passes."""
        from biaslab.judges.continuous import ContinuousGenerator
        from biaslab.judges.padded_generation import PaddedGenerator

        plain = PaddedGenerator(
            self.model, self.terminators, self.max_batch_tokens, self.max_cached_tokens, self.opening
        )
        if self.model.config.is_encoder_decoder:
            return plain
        reason = unfit(self.model)
        if not reason:
            tree = TreeScorer(self.model, pack_tokens(self.model, self.max_batch_tokens))
            for shares in (True, False):
                continuous = ContinuousGenerator(tree, self.terminators, self.max_cached_tokens, shares)
                reason = continuous.self_check()
                tree.computed = 0
                if not reason:
                    return continuous
                _LOG.debug("%s does not cache common prefixes once (%s)", type(self.model).__name__, reason)
        _LOG.warning("%s generates in padded batches (%s)", type(self.model).__name__, reason)
        return plain
