"""Score token sequences as a prefix tree: every distinct token is computed once.

Judge prompts overlap heavily: all comparisons about a context share its text, many share the first candidate, and all
labels share the prompt. After sorting, equal prefixes are adjacent. The tree is walked depth first: a shared prefix is
added to the key-value cache and cropped on the way back, and whole subtrees are packed into one sequence, in which a
token attends only to its ancestors, and its position is its depth.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from biaslab.core.errors import OutOfMemoryError
from biaslab.judges.batches import Distributions, Scored, TokenSet, is_out_of_memory
from biaslab.judges.loading import input_device, is_spread

_Place = int | tuple[int, TokenSet]


def cache_argument(model: Any) -> str:
    """Return the argument that takes the key-value cache: ``cache`` since transformers 5.24; empty without one."""
    names = inspect.signature(model.forward).parameters
    return next((name for name in ("cache", "past_key_values") if name in names), "")


@dataclass
class TreePack:
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


PackScores = tuple[int, list[float]]


_Read = tuple[Readout, int] | None  # for a token of the cached prefix: where to find its log-probability


@dataclass(frozen=True)
class _Launched:
    """A sequence being computed: its row, what was read in the cached prefix, and where to find the rest."""

    row: int
    before: list[_Read]
    readout: Readout
    nodes: list[int]
    last: int


class TreeScorer:
    """Scores sequences of a causal attention model by their prefix tree.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal model whose layers all use attention, full or with a sliding window.
    max_tokens : int
        Maximum number of tokens computed in one forward pass. Halved automatically if memory runs out.
    max_logits : int
        Maximum number of logits (positions × vocabulary) per pass, which bounds memory.

    Attributes
    ----------
    computed : int
        Number of tokens computed so far: one for each distinct prefix.
    reader : type
        Reads the requested values from logits.
    """

    reader: type[Distributions] = Distributions

    def __init__(self, model: Any, max_tokens: int = 512, max_logits: int = 1 << 27) -> None:
        self.model, self.device, self.computed = model, input_device(model), 0
        self.takes_cache = cache_argument(model)
        config = model.config.get_text_config()
        self.vocabulary = int(config.vocab_size)
        self.max_tokens = max(1, min(max_tokens, max_logits // self.vocabulary))
        types = getattr(config, "layer_types", None)
        slides = getattr(config, "use_sliding_window", True) and not types
        self._window = getattr(config, "sliding_window", None)
        self._types = tuple(dict.fromkeys(types or ("sliding_attention" if slides else "full_attention",)))

    def score(self, sequences: Sequence[Scored]) -> Iterator[PackScores]:
        """Yield (index, log-probabilities of the scored tokens), as `packs` does, one by one."""
        return chain.from_iterable(self.packs(sequences))

    def packs(self, sequences: Sequence[Scored]) -> Iterator[list[PackScores]]:
        """Yield (index, log-probabilities of the scored tokens) of all sequences of a pack as it completes.

        Raises
        ------
        OutOfMemoryError
            If a single token does not fit; otherwise packs are halved and retried.
        """
        from transformers import DynamicCache

        yield from _Walk(self, sequences, DynamicCache()).run()

    def forward(
        self, pack: TreePack, cache: Any, before: torch.Tensor | None, keep_last: bool
    ) -> tuple[Readout, torch.Tensor | None]:
        """Compute a pack on top of the cache, extending the cache.

        Parameters
        ----------
        pack : Pack
            What to compute; may be empty if only the preceding distribution is read.
        cache : transformers.DynamicCache
            Keys and values of the first ``pack.depth`` tokens.
        before : torch.Tensor or None, shape (1, vocabulary)
            Logits after the last cached token.
        keep_last : bool
            Whether the logits after the last token are needed.

        Returns
        -------
        tuple
            The values read in the pack, and the logits after the last token, shape (1, vocabulary), or None.
        """
        size, reading = len(pack.tokens), pack.reading()
        last = [size - 1] if keep_last and size else []
        nodes = sorted({n for n in reading if n >= 0} | {*last})
        logits = torch.empty((0, self.vocabulary), dtype=self.model.dtype, device=self.device)
        if size:
            tokens, depths, ends = self._send([pack.tokens, pack.depths, pack.subtree_ends()])
            places = {"position_ids": depths[None], "attention_mask": self._mask(pack.depth, depths, ends)}
            places |= {"logits_to_keep": self._places(nodes or [size - 1]), self.takes_cache: cache}
            output = self.model(input_ids=tokens[None], use_cache=True, **places)
            self.computed += size
            logits = output.logits[0] if nodes else logits
        after = logits[-1:].clone() if last else before
        if reading[:1] == [-1]:
            logits, nodes = torch.cat([before, logits]), [-1, *nodes]  # type: ignore[list-item]
        return pack.read(nodes, logits, self.reader), after

    def _send(self, numbers: list[int] | list[list[int]]) -> torch.Tensor:
        """Copy integers to the model's device without waiting for what runs there."""
        sent = torch.tensor(numbers)
        pinned = sent.pin_memory() if self.device.type == "cuda" else sent
        return pinned.to(self.device, non_blocking=True)

    def _places(self, nodes: list[int]) -> torch.Tensor | list[int]:
        """Return an index into hidden states; a list if the model is spread, so that any device can use it."""
        return nodes if is_spread(self.model) else self._send(nodes)

    def _mask(self, prefix: int, depths: torch.Tensor, ends: torch.Tensor) -> Any:
        """Return the attention mask of a pack: a token sees the cached prefix, its ancestors and itself."""
        places = torch.arange(len(depths), device=depths.device)
        above = (places <= places[:, None]) & (places[:, None] < ends)
        allowed = torch.nn.functional.pad(above, (prefix, 0), value=True)
        behind = torch.cat([torch.arange(prefix, device=depths.device), depths])
        return self.mask(allowed[None, None], (depths[:, None] - behind)[None, None])

    def mask(self, allowed: torch.Tensor, distance: torch.Tensor) -> Any:
        """Return an additive attention mask, or one per type of layer if types differ.

        Parameters
        ----------
        allowed : torch.Tensor of bool, shape (batch, 1, queries, keys)
            Which keys a query may see, apart from sliding windows.
        distance : torch.Tensor of int, shape (batch, 1, queries, keys)
            The number of tokens between a key and the query, for sliding windows.
        """
        masks = {}
        for kind in self._types:
            near = allowed
            if kind == "sliding_attention" and self._window:
                near = allowed & (distance < self._window)
            mask = torch.zeros(near.shape, dtype=self.model.dtype, device=near.device)
            masks[kind] = mask.masked_fill_(~near, torch.finfo(mask.dtype).min)
        return masks[self._types[0]] if len(masks) == 1 else masks


class _Walk:
    """One depth-first walk over the tree of some sequences."""

    def __init__(self, scorer: TreeScorer, sequences: Sequence[Scored], cache: Any) -> None:
        self.scorer, self.cache = scorer, cache
        self.order = sorted(range(len(sequences)), key=lambda i: sequences[i].ids)
        self.rows = [sequences[i] for i in self.order]
        self.lengths = np.array([len(row.ids) for row in self.rows], dtype=int)
        arrays = (np.array(row.ids) for row in self.rows)
        self.shared = np.array([0, *(common_length(a, b) for a, b in pairwise(arrays))])
        self.new = np.cumsum([0, *(self.lengths - self.shared[: len(self.rows)])])  # distinct tokens so far
        self.prefix_read: list[_Read] = []  # one entry per token of the cached prefix
        self.after: list[tuple[int, torch.Tensor]] = []  # (depth, logits after it) for the cached prefixes above

    @torch.inference_mode()
    def run(self) -> Iterator[list[PackScores]]:
        """Yield what `TreeScorer.packs` yields; a GPU computes one pack while the previous one is read and yielded."""
        waiting = [(0, len(self.rows), 0)] if self.rows else []
        launched: list[_Launched] = []
        behind = self.scorer.device.type == "cuda"
        while waiting:  # low, high, depth: the sequences low … high − 1 share their first depth tokens
            low, high, depth = waiting.pop()
            self._return_to(depth)
            try:
                new, below = self._advance(low, high, depth)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                self._recover(error, low, min(self._distinct(low, high, depth), self.scorer.max_tokens))
                new, below = [], [(low, high, depth)]
            waiting += reversed(below)
            if new:
                ready, launched = (launched, new) if behind else (new, [])
                if ready:
                    yield [self._collect(each) for each in ready]
        if launched:
            yield [self._collect(each) for each in launched]

    def _advance(self, low: int, high: int, depth: int) -> tuple[list[_Launched], list[tuple[int, int, int]]]:
        """Score a range in one pack, compute its shared prefix, or split it; return scores and the remaining ranges."""
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
        """Split at the branches, joining neighbours as long as they fit into one pack."""
        starts = [low, *(low + 1 + np.flatnonzero(self.shared[low + 1 : high] == depth)).tolist(), high]
        first = low
        for child, end in pairwise(starts[1:]):
            if self._distinct(first, end, depth) > self.scorer.max_tokens:
                yield first, child
                first = child
        yield first, high

    def _descend(self, low: int, high: int, depth: int, end: int) -> None:
        """Add the shared tokens depth … end − 1 to the cache."""
        first_scored = min(r.start for r in self.rows[low:high])
        pack = TreePack(depth)
        for at, token in enumerate(self.rows[low].ids[depth:end], start=depth):
            pack.add(token, at - depth - 1, at)
        pack.scored = dict.fromkeys(range(max(first_scored - depth, 0), end - depth))
        readout, after = self.scorer.forward(pack, self.cache, self._logits_at(depth), keep_last=True)
        self.prefix_read += [(readout, node) if node in pack.scored else None for node in range(end - depth)]
        if after is not None:
            self.after.append((end, after))

    def _score_pack(self, low: int, high: int, depth: int) -> list[_Launched]:
        """Compute all sequences of a range in one pack on top of the cached prefix of length `depth`."""
        pack, path, paths = TreePack(depth), list[int](), list[list[int]]()
        for index in range(low, high):
            sequence = self.rows[index]
            shared = int(self.shared[index]) if index > low else depth
            del path[shared - depth :]
            for at in range(shared, len(sequence.ids)):
                path.append(pack.add(sequence.ids[at], path[-1] if path else -1, at))
            pack.scored.update(dict.fromkeys(path[max(0, sequence.start - depth) :]))
            if sequence.terminators:
                pack.ends[path[-1] if path else -1, sequence.terminators] = None
            paths.append(list(path))
        readout, _ = self.scorer.forward(pack, self.cache, self._logits_at(depth), keep_last=False)
        return [
            _Launched(
                index,
                self.prefix_read[self.rows[index].start : depth],
                readout,
                nodes[max(0, self.rows[index].start - depth) :],
                nodes[-1] if nodes else -1,
            )
            for index, nodes in zip(range(low, high), paths, strict=True)
        ]

    def _collect(self, launched: _Launched) -> PackScores:
        """Assemble the values of one sequence, waiting for its pack."""
        values = [readout.values[node] for readout, node in filter(None, launched.before)]
        values += [launched.readout.values[node] for node in launched.nodes]
        terminators = self.rows[launched.row].terminators
        if terminators:
            values.append(launched.readout.values[launched.last, terminators])
        return self.order[launched.row], values

    def _logits_at(self, depth: int) -> torch.Tensor | None:
        return self.after[-1][1] if self.after and self.after[-1][0] == depth else None

    def _return_to(self, depth: int) -> None:
        """Discard everything below a depth, layer by layer, because memory may have run out between two layers."""
        del self.prefix_read[depth:]
        while self.after and self.after[-1][0] > depth:
            self.after.pop()
        for layer in self.cache.layers:
            surplus = layer.get_seq_length() - depth
            if surplus > 0:
                layer.crop(-surplus)

    def _recover(self, error: BaseException, low: int, size: int) -> None:
        """Halve the pack size after memory ran out on a pack of this size; re-raise everything else."""
        if not is_out_of_memory(error):
            raise error
        if size <= 1:
            message = "one single token does not fit in memory; use a smaller model or dtype"
            raise OutOfMemoryError(message, index=self.order[low]) from error
        self.scorer.max_tokens = size // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def common_length(left: NDArray[np.int_], right: NDArray[np.int_]) -> int:
    """Return the length of the common prefix.

    Examples
    --------
    >>> common_length(np.array([1, 2, 3]), np.array([1, 2, 4, 5]))
    2
    """
    size = min(len(left), len(right))
    different = left[:size] != right[:size]
    return int(different.argmax()) if different.any() else size
