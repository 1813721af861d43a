"""Turn texts into one vector per token with any local model: an encoder such as BERT, or a causal model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biaslab.core.arrays import Ints
from biaslab.core.errors import InputError, warn
from biaslab.judges.loading import EMBEDDED, find_model, load_headless

if TYPE_CHECKING:
    import torch

_BATCH_TOKENS = 2048
_RESERVED = 2  # positions that RoBERTa and relatives count in their window but never use


class Encoded(NamedTuple):
    """One text: its tokens without special tokens, shape (tokens,), and a unit vector for each."""

    ids: Ints
    vectors: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TokenEmbedder:
    """Contextual embeddings of texts from a transformers model.

    Parameters
    ----------
    name : str
        Name in scores frames.
    model : transformers.PreTrainedModel
        Without a head, in evaluation mode; for an encoder–decoder model, the encoder.
    tokenizer : transformers.PreTrainedTokenizerBase
        Its tokenizer.
    layer : int
        Index of the hidden states: 0 for the embeddings, 1 for the output of the first layer.

    Examples
    --------
    >>> encoder = load_encoder()                                       # doctest: +SKIP
    >>> [encoded] = encoder.encode(["The cat sat."])                   # doctest: +SKIP
    """

    name: str
    model: Any
    tokenizer: Any
    layer: int

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Return tokens and vectors of each text, in order.

        Special tokens are part of the input but not returned. If a causal tokenizer adds none, its begin-of-sequence
        token is prepended, so that the first token of the text has left context.

        Warns
        -----
        UserWarning
            If texts are truncated because they exceed the model's window.
        """
        rows = self.tokens(texts)
        encoded: dict[int, Encoded] = {}
        for batch in batches([len(ids) for ids, _ in rows], _BATCH_TOKENS):
            for index, vectors in zip(batch, self._hidden([rows[i][0] for i in batch]), strict=True):
                ids, special = (np.array(part, np.int64) for part in rows[index])
                encoded[index] = Encoded(ids[special == 0], vectors[special == 0])
        return [encoded[index] for index in range(len(texts))]

    def tokens(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Return the token ids of each text and which are special, truncated to the window.

        Warns
        -----
        UserWarning
            If texts are truncated, with their number.
        """
        rows = [self._tokens(text) for text in texts]
        long = [i for i, (ids, _) in enumerate(rows) if len(ids) > self.window]
        if long:
            window = f"the {self.window}-token window of {self.name}"
            message = f"{len(long)} of {len(texts)} texts are truncated to {window}"
            warn(message, UserWarning)
            for index in long:
                rows[index] = self._tokens(texts[index], truncation=True)
        return rows

    def padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids, padded on the right, and their mask, each of shape (texts, longest), on the model's device."""
        import torch

        longest, pad = max(map(len, rows)), self.tokenizer.pad_token_id or 0
        ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], device=self.model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=self.model.device)
        return ids, mask

    @property
    def window(self) -> int:
        """Maximum number of tokens per text, special tokens included."""
        places = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return int(min(self.tokenizer.model_max_length, places - _RESERVED if places else float("inf")))

    def _tokens(self, text: str, truncation: bool = False) -> tuple[list[int], list[int]]:
        """Return the token ids of a text and which are special; a literal "[CLS]" or "<s>" is plain text."""
        options = {"truncation": True, "max_length": self.window} if truncation else {"verbose": False}
        encoded = self.tokenizer(text, return_special_tokens_mask=True, split_special_tokens=True, **options)
        ids, special = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
        if not any(special) and self.tokenizer.bos_token_id is not None:
            ids, special = [self.tokenizer.bos_token_id, *ids], [1, *special]
            return (ids[: self.window], special[: self.window]) if truncation else (ids, special)
        return ids, special

    def _hidden(self, rows: Sequence[Sequence[int]]) -> Iterator[NDArray[np.float32]]:
        import torch

        ids, mask = self.padded(rows)
        with torch.inference_mode():
            states = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
            vectors = torch.nn.functional.normalize(states[self.layer].float(), dim=-1).cpu().numpy()
        for row, vector in zip(rows, vectors, strict=True):
            yield vector[: len(row)]


def load_encoder(model: str = EMBEDDED, layer: int | None = None) -> TokenEmbedder:
    """Load an encoder or a causal model in float32, with remote code disabled.

    Parameters
    ----------
    model : str
        ``"smollm2-135m"`` (the embedded causal model), ``"minilm-l6"`` (the embedded encoder), a folder, a ``.gguf``
        file or a hub identifier.
    layer : int, optional
        Index of the hidden states, from 1 to the number of layers, or 0 for the embeddings. By default three quarters
        of the way up, for example layer 9 of BERT-base (Zhang et al. 2020 tune it by model: 9 of 12 for BERT-base, 17
        of 24 for RoBERTa-large); for causal models the last layer, in which a few huge dimensions no longer dominate.

    Raises
    ------
    ModelLoadError
        If it does not exist or cannot be loaded.
    InputError
        If it has no such layer.
    """
    source = find_model(model)
    loaded, tokenizer = load_headless(source)
    config = loaded.config
    at = choose_layer(config, layer, source.name)
    return TokenEmbedder(f"{source.name}, layer {at}", loaded, tokenizer, at)


def choose_layer(config: Any, layer: int | None, name: str) -> int:
    """Return the requested layer; by default three quarters of the way up, or the last one of a causal model.

    Raises
    ------
    InputError
        If the model has no such layer.
    """
    depth = int(config.get_text_config(encoder=True).num_hidden_layers)
    at = layer if layer is not None else depth if is_causal(config) else round(0.75 * depth)
    if isinstance(at, bool) or not 0 <= at <= depth:
        raise InputError("layer", layer, f"0 to {depth}, the layers of {name}")
    return at


def is_causal(config: Any) -> bool:
    """Return whether attention is causal: the model generates text and is not a masked language model."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config.model_type
    fills = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES or config.is_encoder_decoder
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not fills


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield batches of indices of texts of similar length, limited by padded tokens."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and lengths[index] * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
