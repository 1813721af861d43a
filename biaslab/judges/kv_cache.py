"""Keys and values of prompts and of the texts that continue them; shared prefixes are kept once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AttentionInterface, Cache, DynamicCache, DynamicLayer

from biaslab.judges.prefix_tree import TreePack, TreeScorer, common_length

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # keys and values of each layer, shape (heads, tokens, width)


class Slots:
    """A key-value cache whose rows have separate lengths, and come and go.

    Active texts occupy the first slots. A pass appends one token to each of these slots, in place.

    Parameters
    ----------
    stems : Slots, optional
        Shared prefixes of rows; their layers are passed to attention together with a row's own keys.

    Attributes
    ----------
    cache : transformers.Cache
        Passed to the model as ``past_key_values``.
    rows, room : int
        Number of slots, and capacity of each in tokens.
    """

    def __init__(self, stems: Slots | None = None) -> None:
        self.rows = self.room = self.width = 0
        self.stems = stems
        self._next = torch.zeros((2, 0), dtype=torch.long)
        self._members = self._within = self._next[0]
        self._sent: dict[torch.device, list[torch.Tensor]] = {}
        self.cache: Any = Cache(layer_class_to_replicate=partial(_SlotLayer, self))  # type: ignore[arg-type]

    def resize(self, rows: int, room: int) -> None:
        """Change the number of slots and their capacity; what fits is kept, and copied at the next write."""
        self.rows, self.room = rows, room

    def follow(self, lengths: Sequence[int], stems: Sequence[int] = ()) -> None:
        """Let the next pass append one token to each of the first slots.

        Parameters
        ----------
        lengths : sequence of int
            Number of tokens in each slot.
        stems : sequence of int
            The stem of each row (any, if the mask hides it); empty if no row has one.
        """
        self._next, self.width, self._sent = torch.tensor([[*range(len(lengths))], lengths]), max(lengths) + 1, {}
        members: list[list[int]] = [[] for _ in range(max(stems, default=-1) + 1)]
        places: list[int] = []
        for row, stem in enumerate(stems):
            members[stem].append(row)
            places.append(len(members[stem]) - 1)
        most = max(map(len, members), default=0)
        self._members = torch.tensor([[*rows, *[0] * (most - len(rows))] for rows in members], dtype=torch.long)
        within = [stem * most + place for stem, place in zip(stems, places, strict=True)]
        self._within = torch.tensor(within, dtype=torch.long)

    def sent(self, device: torch.device) -> list[torch.Tensor]:
        """Return the next pass's indices on a device: slots, positions in them, rows of stems, positions there."""
        if device not in self._sent:
            self._sent[device] = [each.to(device) for each in (*self._next, self._members, self._within)]
        return self._sent[device]

    def put(self, slot: int, layers: Layers) -> None:
        """Copy the keys and values of a prompt into a slot."""
        while len(self.cache.layers) < len(layers):
            self.cache.layers.append(_SlotLayer(self))
        for layer, (keys, values) in zip(self.cache.layers, layers, strict=False):  # none for an empty prompt
            layer.fit(keys[None], values[None])
            layer.keys[slot, :, : keys.shape[1]], layer.values[slot, :, : keys.shape[1]] = keys, values

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first tokens of a slot to another one."""
        for layer in self.cache.layers:
            for states in (layer.keys, layer.values):
                states[target, :, :length] = states[source, :, :length]


class _SlotLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer, shape (slots, heads, room, width)."""

    keys: Any
    values: Any

    def __init__(self, slots: Slots) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.slots, self.index = slots, len(slots.cache.layers)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one token of each row in place; return what the rows hold, up to the longest."""
        self.fit(key_states, value_states)
        rows, places, members, within = self.slots.sent(key_states.device)
        self.keys[rows, :, places] = key_states[:, :, 0]
        self.values[rows, :, places] = value_states[:, :, 0]
        keys, values = (states[: len(rows), :, : self.slots.width] for states in (self.keys, self.values))
        if self.slots.stems and len(members):
            layer, width = self.slots.stems.cache.layers[self.index], self.slots.stems.width
            shared = [states[: len(members), :, :width] for states in (layer.keys, layer.values)]
            keys.stems = Shared(shared[0], shared[1], members, within)
        return keys, values

    def fit(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Resize the tensors to the slots, with the device, dtype and sizes of the given states."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            self.keys, self.values = keys[:0], values[:0]
        if (len(self.keys), self.keys.shape[2]) != (self.slots.rows, self.slots.room):
            self.keys, self.values = self._resized(self.keys), self._resized(self.values)

    def _resized(self, states: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the slots' size with the contents that fit."""
        rows, room = self.slots.rows, self.slots.room
        new = states.new_zeros((rows, states.shape[1], room, states.shape[3]))  # masked entries must be finite
        kept = states[:rows, :, :room]
        new[: len(kept), :, : kept.shape[2]] = kept
        return new

    def get_seq_length(self) -> int:
        """Return the length of the longest row before the pass."""
        return max(self.slots.width - 1, 0)


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


class PromptReader:
    """Reads prompts in sorted order, each continuing from its common prefix with the previous one.

    Parameters
    ----------
    tree : TreeScorer
        Computes packs of prompts; its ``computed`` counts tokens.
    """

    def __init__(self, tree: TreeScorer) -> None:
        self.tree = tree
        self._path: tuple[int, ...] = ()
        self._cache: Any = DynamicCache()

    def fitting(self, prompts: Sequence[tuple[int, ...]]) -> int:
        """Return how many of the first prompts, at least one, can be read in one pass."""
        shared, new = len(prompts[0]), 0
        for count, (before, prompt) in enumerate(pairwise((self._path, *prompts))):
            common = _common(before, prompt)
            shared = min(shared, common)
            new += len(prompt) - common
            if count and new + len(self._path[:shared]) - shared > self.tree.max_tokens:
                return count
        return len(prompts)

    def read(self, prompts: Sequence[tuple[int, ...]]) -> list[Layers]:
        """Return keys and values of each prompt, computing what is new in one pass."""
        depth = min(_common(self._path, prompt) for prompt in prompts)
        self._return_to(depth)
        pack, nodes, paths = TreePack(depth), list[int](), list[list[int]]()
        for before, prompt in pairwise((self._path, *prompts)):
            del nodes[_common(before, prompt) - depth :]
            for at in range(depth + len(nodes), len(prompt)):
                nodes.append(pack.add(prompt[at], nodes[-1] if nodes else -1, at))
            paths.append(list(nodes))
        if pack.tokens:
            self.tree.forward(pack, self._cache, None, keep_last=False)
        layers = [self._layers([*range(depth), *(depth + node for node in path)]) for path in paths]
        self._path = prompts[-1]
        for layer, (keys, values) in zip(self._cache.layers, layers[-1], strict=True):
            layer.keys, layer.values = keys[None], values[None]  # the next prompts continue from here
        return layers

    def forget(self) -> None:
        """Discard what is kept for the next prompt."""
        self._path, self._cache = (), DynamicCache()

    def _return_to(self, depth: int) -> None:
        """Crop the cache to the first `depth` tokens."""
        self._path = self._path[:depth]
        if not depth:
            self.forget()
        for layer in self._cache.layers:
            surplus = layer.get_seq_length() - depth
            if surplus > 0:
                layer.crop(-surplus)

    def _layers(self, places: list[int]) -> Layers:
        """Return keys and values at some positions of the cache; layers may be on different devices."""
        devices = {layer.keys.device for layer in self._cache.layers}
        at = {device: torch.tensor(places, dtype=torch.long, device=device) for device in devices}
        states = [(layer.keys, layer.values) for layer in self._cache.layers]
        return [(k[0].index_select(1, at[k.device]), v[0].index_select(1, at[v.device])) for k, v in states]


def _common(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    return common_length(np.array(left, dtype=int), np.array(right, dtype=int))
