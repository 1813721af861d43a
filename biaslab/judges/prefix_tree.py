"""Score token sequences as a prefix tree: every distinct token is computed once.

Judge prompts repeat themselves: all comparisons of a context share the text, many share the first candidate, and all
labels share the prompt. Sorted, equal prefixes stand side by side. The tree is walked depth first: a shared prefix goes
to the key-value cache and is cropped on the way back, and whole subtrees are packed into one sequence in which a token
attends to its ancestors only and stands at the position of its depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from biaslab.errors import OutOfMemoryError
from biaslab.judges.batches import Distributions, Scored, TokenSet, is_out_of_memory

PACK = 512  # tokens; larger packs pay more for their mask than they save
Scores = tuple[int, list[float]]


@dataclass
class _Pack:
    """Distinct tokens of a subtree below the cached prefix, in depth-first order."""

    depth: int
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # index in the pack; -1 is the end of the cached prefix
    depths: list[int] = field(default_factory=list)
    values: dict[int, float] = field(default_factory=dict)  # scored node -> log-probability
    ends: dict[tuple[int, TokenSet], float] = field(default_factory=dict)  # (node, terminators) -> log-probability

    def add(self, token: int, parent: int, depth: int) -> int:
        """Add a token and return its index."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(depth)
        return len(self.tokens) - 1

    def read(self, nodes: Sequence[int], seen: Distributions) -> None:
        """Fill in what is read after some nodes, given the distributions that follow them."""
        at = {node: i for i, node in enumerate(nodes)}
        scored = [n for n in self.values if self.parents[n] in at]
        found = seen.tokens([at[self.parents[n]] for n in scored], [self.tokens[n] for n in scored])
        self.values.update(zip(scored, found, strict=True))
        asked: dict[TokenSet, list[int]] = {}
        for node, terminators in self.ends:
            if node in at:
                asked.setdefault(terminators, []).append(node)
        for terminators, ending in asked.items():
            values = seen.any_of([at[n] for n in ending], terminators)
            self.ends.update(zip([(n, terminators) for n in ending], values, strict=True))


class TreeScorer:
    """Scores sequences of a causal attention model by their prefix tree.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal model whose layers are all attention, full or with a sliding window.
    max_tokens : int
        Tokens computed in one forward pass at most. Halved by itself when memory runs out.
    max_logits : int
        Logits (positions × vocabulary) of one pass at most, which bounds memory.

    Attributes
    ----------
    computed : int
        Tokens computed so far: as many as the sequences have distinct prefixes.
    """

    def __init__(self, model: Any, max_tokens: int = PACK, max_logits: int = 1 << 27) -> None:
        self.model, self.computed = model, 0
        config = model.config.get_text_config()
        self.vocabulary = int(config.vocab_size)
        self.max_tokens = max(1, min(max_tokens, max_logits // self.vocabulary))
        types = getattr(config, "layer_types", None)
        slides = getattr(config, "use_sliding_window", True) and not types
        self._window = getattr(config, "sliding_window", None)
        self._types = tuple(dict.fromkeys(types or ("sliding_attention" if slides else "full_attention",)))

    def score(self, sequences: Sequence[Scored]) -> Iterator[Scores]:
        """Yield (index, log-probabilities of the scored tokens) as each pack completes.

        Raises
        ------
        OutOfMemoryError
            If a single token does not fit; otherwise packs are halved and the rest goes on.
        """
        from transformers import DynamicCache

        yield from _Walk(self, sequences, DynamicCache()).run()

    def forward(self, pack: _Pack, cache: Any, before: torch.Tensor | None, keep_last: bool) -> torch.Tensor | None:
        """Compute a pack on top of the cache, which grows by it, and fill in what is read.

        Parameters
        ----------
        pack : _Pack
            What to compute; may be empty, when only the distribution before it is read.
        cache : transformers.DynamicCache
            Keys and values of the first ``pack.depth`` tokens.
        before : torch.Tensor or None, shape (1, vocabulary)
            Logits after the last cached token.
        keep_last : bool
            Whether the logits after the last token are wanted.

        Returns
        -------
        torch.Tensor or None
            The logits after the last token, shape (1, vocabulary).
        """
        size, device = len(pack.tokens), self.model.device
        if before is not None:
            pack.read([-1], Distributions(before))
        reading = {pack.parents[n] for n in pack.values} | {node for node, _ in pack.ends}
        nodes = sorted((reading | ({size - 1} if keep_last else set())) - {-1})
        if not size:
            return before
        output = self.model(
            input_ids=torch.tensor([pack.tokens], device=device),
            position_ids=torch.tensor([pack.depths], device=device),
            attention_mask=self._mask(pack),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=torch.tensor(nodes or [size - 1], device=device),
        )
        self.computed += size
        if nodes:
            pack.read(nodes, Distributions(output.logits[0]))
        return output.logits[0, -1:].clone() if keep_last else None

    def _mask(self, pack: _Pack) -> Any:
        """Additive mask of shape (1, 1, pack, prefix + pack), one a layer type where the types differ."""
        size, prefix = len(pack.tokens), pack.depth
        allowed = np.ones((size, prefix + size), dtype=bool)
        ancestors = allowed[:, prefix:]
        for node, parent in enumerate(pack.parents):
            ancestors[node] = ancestors[parent] if parent >= 0 else False
            ancestors[node, node] = True
        masks = {}
        for kind in self._types:
            near = allowed
            if kind == "sliding_attention" and self._window:
                depths = np.array(pack.depths)
                near = allowed & (depths[:, None] - np.concatenate([np.arange(prefix), depths]) < self._window)
            masks[kind] = self._additive(near)
        return masks[self._types[0]] if len(masks) == 1 else masks

    def _additive(self, allowed: NDArray[np.bool_]) -> torch.Tensor:
        mask = torch.zeros((1, 1, *allowed.shape), dtype=self.model.dtype, device=self.model.device)
        return mask.masked_fill_(~torch.from_numpy(allowed).to(mask.device), torch.finfo(mask.dtype).min)


class _Walk:
    """One depth-first walk over the tree of some sequences."""

    def __init__(self, scorer: TreeScorer, sequences: Sequence[Scored], cache: Any) -> None:
        self.scorer, self.cache = scorer, cache
        self.order = sorted(range(len(sequences)), key=lambda i: sequences[i].ids)
        self.rows = [sequences[i] for i in self.order]
        self.lengths = np.array([len(row.ids) for row in self.rows], dtype=int)
        arrays = (np.array(row.ids) for row in self.rows)
        self.shared = np.array([0, *(_common(a, b) for a, b in pairwise(arrays))])
        self.new = np.cumsum([0, *(self.lengths - self.shared[: len(self.rows)])])  # distinct tokens up to a sequence
        self.prefix_values: list[float] = []  # log-probability of each token of the cached prefix, NaN where not read
        self.after: list[tuple[int, torch.Tensor]] = []  # (depth, logits after it) for the cached prefixes above

    @torch.inference_mode()
    def run(self) -> Iterator[Scores]:
        """Yield what `TreeScorer.score` yields."""
        waiting = [(0, len(self.rows), 0)] if self.rows else []
        while waiting:  # low, high, depth: the sequences low … high − 1 share their first depth tokens
            low, high, depth = waiting.pop()
            self._return_to(depth)
            try:
                found, below = self._advance(low, high, depth)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                self._recover(error, min(self._distinct(low, high, depth), self.scorer.max_tokens))
                found, below = [], [(low, high, depth)]
            yield from found
            waiting += reversed(below)

    def _advance(self, low: int, high: int, depth: int) -> tuple[list[Scores], list[tuple[int, int, int]]]:
        """Score a range in one pack, or compute what it shares, or split it; return scores and what is left to do."""
        if self._distinct(low, high, depth) <= self.scorer.max_tokens:
            return self._score_pack(low, high, depth), []
        common = int(self.shared[low + 1 : high].min()) if high - low > 1 else int(self.lengths[low])
        if common == depth:
            return [], [(*group, depth) for group in self._groups(low, high, depth)]
        end = min(common, depth + self.scorer.max_tokens)
        self._descend(low, high, depth, end)
        return [], [(low, high, end)]

    def _distinct(self, low: int, high: int, depth: int) -> int:
        return int(self.lengths[low] - depth + self.new[high] - self.new[low + 1])

    def _groups(self, low: int, high: int, depth: int) -> Iterator[tuple[int, int]]:
        """Split at the branches and join neighbours as long as they fit one pack together."""
        starts = [low, *(low + 1 + np.flatnonzero(self.shared[low + 1 : high] == depth)).tolist(), high]
        first = low
        for child, end in pairwise(starts[1:]):
            if self._distinct(first, end, depth) > self.scorer.max_tokens:
                yield first, child
                first = child
        yield first, high

    def _descend(self, low: int, high: int, depth: int, end: int) -> None:
        """Put the shared tokens depth … end − 1 into the cache."""
        first_scored = min(r.start for r in self.rows[low:high])
        pack = _Pack(depth)
        for at, token in enumerate(self.rows[low].ids[depth:end], start=depth):
            node = pack.add(token, at - depth - 1, at)
            if at >= first_scored:
                pack.values[node] = np.nan
        below = self.scorer.forward(pack, self.cache, self._logits_at(depth), keep_last=True)
        self.prefix_values += [pack.values.get(node, np.nan) for node in range(end - depth)]
        if below is not None:
            self.after.append((end, below))

    def _score_pack(self, low: int, high: int, depth: int) -> list[Scores]:
        pack, path, paths = _Pack(depth), list[int](), list[list[int]]()
        for index in range(low, high):
            sequence = self.rows[index]
            shared = int(self.shared[index]) if index > low else depth
            del path[shared - depth :]
            for at in range(shared, len(sequence.ids)):
                path.append(pack.add(sequence.ids[at], path[-1] if path else -1, at))
            pack.values.update((node, np.nan) for node in path[max(0, sequence.start - depth) :])
            if sequence.terminators:
                pack.ends[path[-1] if path else -1, sequence.terminators] = np.nan
            paths.append(list(path))
        self.scorer.forward(pack, self.cache, self._logits_at(depth), keep_last=False)
        results = []
        for index, nodes in zip(range(low, high), paths, strict=True):
            sequence = self.rows[index]
            found = self.prefix_values[sequence.start : depth]
            found += [pack.values[node] for node in nodes[max(0, sequence.start - depth) :]]
            if sequence.terminators:
                found.append(pack.ends[nodes[-1] if nodes else -1, sequence.terminators])
            results.append((self.order[index], found))
        return results

    def _logits_at(self, depth: int) -> torch.Tensor | None:
        return self.after[-1][1] if self.after and self.after[-1][0] == depth else None

    def _return_to(self, depth: int) -> None:
        """Forget everything below a depth; layers are cropped one by one, as memory may have run out between two."""
        del self.prefix_values[depth:]
        while self.after and self.after[-1][0] > depth:
            self.after.pop()
        for layer in self.cache.layers:
            surplus = layer.get_seq_length() - depth
            if surplus > 0:
                layer.crop(-surplus)

    def _recover(self, error: BaseException, size: int) -> None:
        """Make packs half as large after memory ran out on one of a size; raise everything else."""
        if not is_out_of_memory(error):
            raise error
        if size <= 1:
            raise OutOfMemoryError("one single token does not fit in memory; use a smaller model or dtype") from error
        self.scorer.max_tokens = size // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _common(left: NDArray[np.int_], right: NDArray[np.int_]) -> int:
    size = min(len(left), len(right))
    different = left[:size] != right[:size]
    return int(different.argmax()) if different.any() else size
