"""Keys and values of texts that are being written, each in a slot of its own, grown in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from transformers import Cache, DynamicLayer

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # keys and values of each layer, shape (heads, tokens, width)


class Slots:
    """A key-value cache whose rows have lengths of their own, and come and go.

    The texts in use fill the first slots. A pass writes one token of each behind what its slot holds, in place.

    Attributes
    ----------
    cache : transformers.Cache
        What the model takes as ``past_key_values``.
    rows, room : int
        Number of slots, and tokens that each can hold.
    """

    def __init__(self) -> None:
        self.rows = self.room = self.width = 0
        self._lengths = torch.zeros(0, dtype=torch.long)
        self._places: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}
        self.cache = Cache(layer_class_to_replicate=partial(_SlotLayer, self))

    def resize(self, rows: int, room: int) -> None:
        """Change the number of slots and their room; what fits is kept, and copied at the next write."""
        self.rows, self.room = rows, room

    def follow(self, lengths: Sequence[int]) -> None:
        """Let the next pass write one token into each of the first slots, behind as many as each holds."""
        self._lengths, self.width, self._places = torch.tensor(lengths), max(lengths) + 1, {}

    def places(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Return slots and places in them that the next pass writes; layers may lie on several devices."""
        if device not in self._places:
            slots = torch.arange(len(self._lengths), device=device)
            self._places[device] = (slots, self._lengths.to(device))
        return self._places[device]

    def put(self, slot: int, layers: Layers) -> None:
        """Copy the keys and values of a prompt into a slot."""
        while len(self.cache.layers) < len(layers):
            self.cache.layers.append(_SlotLayer(self))
        for layer, (keys, values) in zip(self.cache.layers, layers, strict=False):  # none of an empty prompt
            layer.fit(keys[None], values[None])
            layer.keys[slot, :, : keys.shape[1]], layer.values[slot, :, : keys.shape[1]] = keys, values

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first tokens of a slot to another one."""
        for layer in self.cache.layers:
            for states in (layer.keys, layer.values):
                states[target, :, :length] = states[source, :, :length]


class _SlotLayer(DynamicLayer):
    """Keys and values of one layer, shape (slots, heads, room, width)."""

    def __init__(self, slots: Slots) -> None:
        super().__init__()
        self.slots = slots

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one token of each row in place; return what the rows hold, up to the longest."""
        self.fit(key_states, value_states)
        rows, places = self.slots.places(key_states.device)
        self.keys[rows, :, places] = key_states[:, :, 0]
        self.values[rows, :, places] = value_states[:, :, 0]
        return self.keys[: len(rows), :, : self.slots.width], self.values[: len(rows), :, : self.slots.width]

    def fit(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Make the tensors as large as the slots want them, of the given states' device, dtype and sizes."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            self.keys, self.values = keys[:0], values[:0]
        if (len(self.keys), self.keys.shape[2]) != (self.slots.rows, self.slots.room):
            self.keys, self.values = self._resized(self.keys), self._resized(self.values)

    def _resized(self, states: torch.Tensor) -> torch.Tensor:
        rows, room = self.slots.rows, self.slots.room
        new = states.new_zeros((rows, states.shape[1], room, states.shape[3]))  # what is masked must be finite
        kept = states[:rows, :, :room]
        new[: len(kept), :, : kept.shape[2]] = kept
        return new

    def get_seq_length(self) -> int:
        """Return the tokens of the longest row before the pass."""
        return max(self.slots.width - 1, 0)
