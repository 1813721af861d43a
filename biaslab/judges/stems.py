"""Shared prefixes, kept once: which ones to keep, and attention that reads each once for all of its texts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AttentionInterface

from biaslab.judges.prefix_tree import common_length

_WORTH = 32  # minimum number of tokens a stem must save, because it costs a few operations per layer
_NAME = "biaslab_stems"
_HARMLESS = frozenset(  # attention options without effect here, because masks and positions are given
    {"sliding_window", "use_cache", "position_ids", "cache_position", "is_causal", "cache", "output_router_logits"}
)


@dataclass(eq=False)
class Stem:
    """The first tokens of some prompts: how many, where they are kept, and how many texts still need them."""

    length: int
    texts: int
    slot: int = -1


def choose_stems(prompts: Sequence[tuple[int, ...]]) -> list[Stem | None]:
    """Return the stem of each prompt, at most one, minimising the number of tokens kept.

    Neighbours are merged by the length of their common prefix, longest first: a group gets one stem for all of its
    prompts if that takes fewer tokens than the stems of its parts.

    Parameters
    ----------
    prompts : sequence of tuple of int
        Sorted prompts.

    Examples
    --------
    >>> a, b = choose_stems([(*range(99), 7), (*range(99), 8)])
    >>> a is b, a.length
    (True, 99)
    """
    lengths = [len(prompt) for prompt in prompts]
    arrays = (np.array(prompt, dtype=int) for prompt in prompts)
    shared = [common_length(left, right) for left, right in pairwise(arrays)]
    first, last = list(range(len(prompts))), list(range(len(prompts)))  # of the group that ends or begins there
    kept, total = list(lengths), list(lengths)  # tokens of the group that begins there: kept with stems, and in total
    stems = np.zeros(len(prompts), dtype=int)
    for at in sorted(range(len(shared)), key=lambda i: -shared[i]):
        low, high = first[at], last[at + 1]
        first[high], last[low] = low, high
        rows, common = high - low + 1, shared[at]
        total[low] += total[at + 1]
        apart, joined = kept[low] + kept[at + 1], total[low] - (rows - 1) * common
        kept[low] = min(apart, joined)
        if joined <= apart and (rows - 1) * common >= _WORTH:
            stems[low : high + 1] = common
    return _numbered(prompts, stems.tolist())


def _numbered(prompts: Sequence[tuple[int, ...]], lengths: Sequence[int]) -> list[Stem | None]:
    """Return each prompt's stem; equal prefixes share one object, which counts its texts."""
    stems: dict[tuple[int, ...], Stem] = {}
    chosen: list[Stem | None] = []
    for prompt, length in zip(prompts, lengths, strict=True):
        stem = stems.setdefault(prompt[:length], Stem(length, 0)) if length else None
        if stem:
            stem.texts += 1
        chosen.append(stem)
    return chosen


class Shared(NamedTuple):
    """Stems of one layer, and the rows that continue them.

    Parameters
    ----------
    keys, values : torch.Tensor, shape (stems, heads, tokens, width)
        Contents of the stems.
    rows : torch.Tensor of int, shape (stems, most)
        Rows of each stem, padded with arbitrary rows.
    places : torch.Tensor of int, shape (rows,)
        Position of each row in ``rows``. A row without a stem belongs to any, which the mask hides from it.
    """

    keys: torch.Tensor
    values: torch.Tensor
    rows: torch.Tensor
    places: torch.Tensor

    def multiply(self, queries: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Multiply each row's queries, shape (rows, heads, groups, n), by its stem's matrix, (stems, heads, n, m)."""
        groups = queries.shape[2]
        asked = queries[self.rows].transpose(1, 2).flatten(2, 3)  # stems, heads, most × groups, n
        products = asked @ states
        products = products.reshape(*products.shape[:2], -1, groups, products.shape[-1]).transpose(1, 2)
        return products.flatten(0, 1)[self.places]


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    dropout: float = 0.0,  # noqa: ARG001
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend to stems and to each row's own tokens, with one query per row.

    The mask has the shape (rows, 1, 1, tokens of stems + own tokens); `key` carries its layer's `Shared` as ``stems``.

    Raises
    ------
    TypeError
        If the layer requests another option of attention, such as a soft cap.
    """
    unknown = [name for name, option in options.items() if option is not None and name not in _HARMLESS]
    stems: Shared | None = getattr(key, "stems", None)
    if unknown or stems is None:
        raise TypeError(f"attention of {type(module).__name__} takes {', '.join(unknown) or 'other keys'}")
    rows, heads, _, width = query.shape
    queries = query.view(rows, key.shape[1], -1, width) * (scaling or width**-0.5)
    levels = torch.cat([stems.multiply(queries, stems.keys.transpose(-1, -2)), queries @ key.transpose(-1, -2)], -1)
    weights = (levels + attention_mask).softmax(-1, dtype=torch.float32).to(value.dtype)
    size = stems.keys.shape[2]
    output = stems.multiply(weights[..., :size], stems.values) + weights[..., size:] @ value
    return output.reshape(rows, 1, heads, -1), None


@contextlib.contextmanager
def attending(model: Any) -> Iterator[None]:
    """Let a model's layers use `attend`."""
    config = model.config.get_text_config()
    kept = config._attn_implementation  # noqa: SLF001 (transformers has no other name for it)
    AttentionInterface.register(_NAME, attend)
    config._attn_implementation = _NAME  # noqa: SLF001
    try:
        yield
    finally:
        config._attn_implementation = kept  # noqa: SLF001
