"""The tokens of one forward pass of the prefix tree, and the log-probabilities read from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch

from biaslab.judges.batches import Distributions, TokenSet

_Place = int | tuple[int, TokenSet]


@dataclass
class Pack:
    """Distinct tokens of a subtree below the cached prefix, in depth-first order."""

    depth: int
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # index in the pack; -1 is the end of the cached prefix
    depths: list[int] = field(default_factory=list)
    scored: dict[int, None] = field(default_factory=dict)  # nodes whose log-probability is read, in order
    ends: dict[tuple[int, TokenSet], None] = field(default_factory=dict)  # (node, terminators) read after it

    def add(self, token: int, parent: int, depth: int) -> int:
        """Add a token and return its index."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(depth)
        return len(self.tokens) - 1

    def subtree_ends(self) -> list[int]:
        """Index after the last descendant of each token: in depth-first order a subtree is contiguous."""
        ends, open_nodes = [len(self.tokens)] * len(self.tokens), list[int]()
        for node, depth in enumerate(self.depths):
            while open_nodes and self.depths[open_nodes[-1]] >= depth:
                ends[open_nodes.pop()] = node
            open_nodes.append(node)
        return ends

    def reading(self) -> list[int]:
        """Tokens after which a distribution is read, ascending; -1 is the end of the cached prefix."""
        return sorted({self.parents[n] for n in self.scored} | {node for node, _ in self.ends})

    def read(self, nodes: Sequence[int], logits: torch.Tensor, reader: type[Distributions] = Distributions) -> Readout:
        """Start copying the log-probabilities to the host, from logits of shape (nodes, vocabulary)."""
        seen, at = reader(logits), {node: i for i, node in enumerate(nodes)}
        places: list[_Place] = list(self.scored)
        parts = [seen.tokens([at[self.parents[n]] for n in self.scored], [self.tokens[n] for n in self.scored])]
        asked: dict[TokenSet, list[int]] = {}
        for node, terminators in self.ends:
            asked.setdefault(terminators, []).append(node)
        for terminators, ending in asked.items():
            parts.append(seen.any_of([at[n] for n in ending], terminators))
            places += [(node, terminators) for node in ending]
        return Readout(places, torch.cat(parts))


class Readout:
    """The log-probabilities of one pack, copied from the device asynchronously; the first access waits."""

    def __init__(self, places: Sequence[_Place], values: torch.Tensor) -> None:
        self._places, self._done = places, None
        self._values = values
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._done.record(torch.cuda.current_stream(values.device))

    @cached_property
    def values(self) -> dict[_Place, float]:
        """Log-probability of each scored token, and of each (token, terminators)."""
        if self._done is not None:
            self._done.synchronize()
        return dict(zip(self._places, self._values.tolist(), strict=True))
