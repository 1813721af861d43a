"""Keys and values of prompts; common prefixes are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from biaslab.judges.prefix_tree import TreeScorer, common_length
from biaslab.judges.slots import Layers
from biaslab.judges.tree_pack import Pack


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
        pack, nodes, paths = Pack(depth), list[int](), list[list[int]]()
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
