"""Sizes of batches and windows, from the memory that is free once a model is loaded."""

from __future__ import annotations

from typing import Any

import psutil
import torch

from biaslab.judges.placement import computing_devices, input_device

_SHARE = 4  # one pass may use a quarter of free memory; caches, other processes and fragmentation need the rest
_LONGEST = 4096  # tokens
_PACK = {"cuda": _LONGEST, "mps": 1024}  # tokens per packed pass; on a CPU the mask of larger ones is too costly
_CPU_PACK = 768
_TOKEN_BYTES = 48  # per token waiting in a window: an index in two sequences, and its share of arrays
_MOST_LOGITS = 1 << 27


def free_bytes(device: str | torch.device) -> int:
    """Return the free bytes of a device.

    Examples
    --------
    >>> free_bytes("cpu") > 0
    True
    """
    kind = torch.device(device).type
    if kind == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if kind == "mps":
        return max(0, torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    return int(psutil.virtual_memory().available)


def _usable(model: Any, free: int | None) -> int:
    """Return the bytes that one pass may use, on the fullest device if there are several."""
    return (min(map(free_bytes, computing_devices(model))) if free is None else free) // _SHARE


def batch_tokens(model: Any, free: int | None = None) -> int:
    """Return the maximum number of tokens per forward pass, including padding: 4,096 or fewer.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        On its device already.
    free : int, optional
        Free bytes; by default queried from the device.
    """
    config = model.config.get_text_config()
    hidden = int(config.hidden_size)
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    heads = int(getattr(config, "num_attention_heads", None) or 1)
    width = torch.finfo(model.dtype).bits // 8
    per_token = width * (8 * hidden + 3 * inner) + 4 * heads * _LONGEST  # activations, and attention over a long text
    return max(1, min(_LONGEST, _usable(model, free) // per_token))


def pack_tokens(model: Any, batch: int) -> int:
    """Return the maximum number of tokens in a pack of the prefix tree, given that of a batch."""
    return min(batch, _PACK.get(input_device(model).type, _CPU_PACK))


def most_logits(model: Any, free: int | None = None) -> int:
    """Return the maximum number of logits (positions × vocabulary) per pass: three float32 copies must fit."""
    return max(1, min(_MOST_LOGITS, _usable(model, free) // 12))


def cached_tokens(model: Any, free: int | None = None) -> int:
    """Return the maximum number of tokens whose keys and values may be cached during generation, over all rows."""
    config = model.config.get_text_config()
    heads = int(getattr(config, "num_attention_heads", None) or 1)
    kept = int(getattr(config, "num_key_value_heads", None) or heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads) * torch.finfo(model.dtype).bits // 8
    return max(1, _usable(model, free) // (2 * int(config.num_hidden_layers) * kept * width))


def window_tokens(free: int | None = None) -> int:
    """Return the maximum number of tokens in a window of requests, within which prefixes are shared.

    Examples
    --------
    >>> window_tokens(free=2**40), window_tokens(free=2**30)
    (4194304, 2796202)
    """
    free = free_bytes("cpu") if free is None else free
    return max(1 << 14, min(1 << 22, free // 8 // _TOKEN_BYTES))
