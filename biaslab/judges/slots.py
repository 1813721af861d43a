"""Keys and values of texts being generated, each in its own slot, which grows in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from transformers import Cache, DynamicLayer

from biaslab.judges.stems import Shared

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
        self._within = torch.tensor(
            [stem * most + place for stem, place in zip(stems, places, strict=True)], dtype=torch.long
        )

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
