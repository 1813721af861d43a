"""Score token sequences as a prefix tree: every distinct token is computed once.

Judge prompts repeat themselves: all comparisons of a context share the text, many share the first candidate, and all
labels share the prompt. Sorted, equal prefixes stand side by side. The tree is walked depth first: a shared prefix goes
to the key-value cache and is cropped on the way back, and whole subtrees are packed into one sequence in which a token
attends to its ancestors only and stands at the position of its depth.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from biaslab.judges.batches import BatchScorer, Scored, is_out_of_memory, token_index

_LOG = logging.getLogger(__name__)
Scores = tuple[int, list[float]]


def choose_scorer(model: Any, max_batch_tokens: int) -> TreeScorer | BatchScorer:
    """Return the prefix tree where the architecture takes it, padded batches where not, and say so once.

    The tree is tried on three short sequences against plain batches: recurrent layers, and whatever else reads more than
    the attention mask allows, give other numbers and are found out.
    """
    plain = BatchScorer(model, max_batch_tokens)
    if model.config.is_encoder_decoder:
        return plain
    ids = tuple(range(5, 21))
    samples = [Scored(ids, 9), Scored(ids[:12] + ids[:6], 9), Scored(ids[:12] + ids[3:9] + ids[:2], 9)]
    tolerance = 1e-3 if model.dtype == torch.float32 else 0.5
    try:
        tree = TreeScorer(model, min(1024, max_batch_tokens))
        found, wanted = dict(tree.score(samples)), dict(plain.score(samples))
        worst = max(abs(a - b) for i in wanted for a, b in zip(found[i], wanted[i], strict=True))
        if worst <= tolerance:
            return tree
        reason = f"log-probabilities differ by {worst:.2g}"
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}"
    _LOG.warning("%s takes no prefix tree (%s); padded batches are used", type(model).__name__, reason)
    return plain


@dataclass
class _Pack:
    """Distinct tokens of a subtree below the cached prefix, in depth-first order."""

    depth: int
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # index in the pack; -1 is the end of the cached prefix
    depths: list[int] = field(default_factory=list)
    scored: list[bool] = field(default_factory=list)
    ends: dict[tuple[int, tuple[int, ...]], float] = field(default_factory=dict)  # (node, terminators) → log-probability

    def add(self, token: int, parent: int, depth: int, scored: bool) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(depth)
        self.scored.append(scored)
        return len(self.tokens) - 1


class TreeScorer:
    """Scores sequences of a causal attention model by their prefix tree.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal model whose layers are all attention, full or with a sliding window.
    max_tokens : int
        Tokens computed in one forward pass at most.
    max_logits : int
        Logits (positions × vocabulary) of one pass at most, which bounds memory.
    """

    def __init__(self, model: Any, max_tokens: int = 1024, max_logits: int = 1 << 27) -> None:
        self.model = model
        config = model.config.get_text_config()
        self.max_tokens = max(1, min(max_tokens, max_logits // int(config.vocab_size)))
        self._types = tuple(dict.fromkeys(getattr(config, "layer_types", None) or ("full_attention",)))
        self._window = getattr(config, "sliding_window", None)
        self.computed = 0

    def score(self, sequences: Sequence[Scored]) -> Iterator[Scores]:
        """Yield (index, log-probabilities of the scored tokens) as each pack completes.

        Raises
        ------
        OutOfMemoryError
            If a single token does not fit; otherwise packs are halved and the rest goes on.
        """
        from transformers import DynamicCache

        yield from _Walk(self, sequences, DynamicCache()).run()

    def forward(self, pack: _Pack, cache: Any, row: torch.Tensor | None) -> tuple[list[float], torch.Tensor | None]:
        """Compute a pack on top of the cache, which grows by it.

        Returns
        -------
        tuple
            The log-probability of every token (NaN where none is read), and the log-probabilities after the last token.
        """
        size, device = len(pack.tokens), self.model.device
        reading = sorted({p for p, s in zip(pack.parents, pack.scored, strict=True) if s and p >= 0})
        reading = sorted({*reading, *(node for node, _ in pack.ends if node >= 0), size - 1})
        output = self.model(
            input_ids=torch.tensor([pack.tokens], device=device),
            position_ids=torch.tensor([pack.depths], device=device),
            attention_mask=self._mask(pack),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=torch.tensor(reading, device=device),
        )
        self.computed += size
        logprobs = output.logits[0].float().log_softmax(-1)
        at = {node: i for i, node in enumerate(reading)}
        self._read_ends(pack, logprobs, at, row)
        values = np.full(size, np.nan)
        inner = [n for n in range(size) if pack.scored[n] and pack.parents[n] >= 0]
        if inner:
            rows = torch.tensor([at[pack.parents[n]] for n in inner], device=device)
            values[inner] = logprobs[rows, torch.tensor([pack.tokens[n] for n in inner], device=device)].cpu().numpy()
        roots = [n for n in range(size) if pack.scored[n] and pack.parents[n] < 0]
        if roots and row is not None:
            values[roots] = row[torch.tensor([pack.tokens[n] for n in roots], device=device)].cpu().numpy()
        return values.tolist(), logprobs[at[size - 1]]

    def _read_ends(
        self, pack: _Pack, logprobs: torch.Tensor, at: dict[int, int], row: torch.Tensor | None
    ) -> None:
        for node, terminators in pack.ends:
            source = row if node < 0 else logprobs[at[node]]
            if source is not None:
                pack.ends[node, terminators] = float(source[token_index(terminators, source.device)].logsumexp(0))

    def _mask(self, pack: _Pack) -> Any:
        """Additive mask of shape (1, 1, pack, prefix + pack), one a layer type where the types differ."""
        size, prefix = len(pack.tokens), pack.depth
        ancestors = np.zeros((size, size), dtype=bool)
        for node, parent in enumerate(pack.parents):
            if parent >= 0:
                ancestors[node] = ancestors[parent]
            ancestors[node, node] = True
        allowed = np.concatenate([np.ones((size, prefix), dtype=bool), ancestors], axis=1)
        depths = np.array(pack.depths)
        distance = depths[:, None] - np.concatenate([np.arange(prefix), depths])[None, :]
        masks = {}
        for kind in self._types:
            near = allowed & (distance < self._window) if self._slides(kind) else allowed
            masks[kind] = self._additive(near)
        return masks[self._types[0]] if len(masks) == 1 else masks

    def _slides(self, kind: str) -> bool:
        if not self._window:
            return False
        uses = getattr(self.model.config.get_text_config(), "use_sliding_window", True)
        return kind == "sliding_attention" or (len(self._types) == 1 and bool(uses))

    def _additive(self, allowed: NDArray[np.bool_]) -> torch.Tensor:
        mask = torch.zeros((1, 1, *allowed.shape), dtype=self.model.dtype, device=self.model.device)
        return mask.masked_fill_(~torch.from_numpy(allowed).to(mask.device), torch.finfo(mask.dtype).min)


class _Walk:
    """One depth-first walk over the tree of some sequences."""

    def __init__(self, scorer: TreeScorer, sequences: Sequence[Scored], cache: Any) -> None:
        self.scorer, self.cache = scorer, cache
        self.order = sorted(range(len(sequences)), key=lambda i: sequences[i].ids)
        self.rows = [sequences[i] for i in self.order]
        self.lengths = np.array([len(row.ids) for row in self.rows])
        arrays = [np.array(row.ids) for row in self.rows]
        self.shared = np.array([0, *(_common(a, b) for a, b in zip(arrays, arrays[1:], strict=False))])
        self.new = np.concatenate([[0], np.cumsum(self.lengths - self.shared)])  # distinct tokens up to a sequence
        self.prefix_values: list[float] = []  # log-probability of each token of the cached prefix, NaN where not read

    @torch.inference_mode()
    def run(self) -> Iterator[Scores]:
        if self.rows:
            yield from self._visit(0, len(self.rows), 0, None)

    def _distinct(self, low: int, high: int, depth: int) -> int:
        return int(self.lengths[low] - depth + self.new[high] - self.new[low + 1])

    def _visit(self, low: int, high: int, depth: int, row: torch.Tensor | None) -> Iterator[Scores]:
        """Score the sequences low … high − 1, whose first ``depth`` tokens are in the cache."""
        if self._distinct(low, high, depth) <= self.scorer.max_tokens:
            try:
                results = self._score_pack(low, high, depth, row)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                self._recover(error, depth)
            else:
                yield from results
                return
        common = int(self.shared[low + 1 : high].min()) if high - low > 1 else int(self.lengths[low])
        if common > depth:
            end = min(common, depth + self.scorer.max_tokens)
            if high - low == 1 and end == common:
                end = depth + max(1, (common - depth) // 2)  # the last tokens are left for a pack
            yield from self._descend(low, high, depth, end, row)
            return
        starts = [low, *(low + 1 + np.flatnonzero(self.shared[low + 1 : high] == common)).tolist(), high]
        for first, last in self._groups(starts, depth):
            yield from self._visit(first, last, depth, row)

    def _groups(self, starts: list[int], depth: int) -> Iterator[tuple[int, int]]:
        """Join neighbouring children as long as they fit one pack together."""
        first = starts[0]
        for child, end in zip(starts[1:-1], starts[2:], strict=True):
            if self._distinct(first, end, depth) > self.scorer.max_tokens:
                yield first, child
                first = child
        yield first, starts[-1]

    def _descend(self, low: int, high: int, depth: int, end: int, row: torch.Tensor | None) -> Iterator[Scores]:
        """Put the shared tokens depth … end − 1 into the cache, visit what is below, and crop them again."""
        first_scored = min(r.start for r in self.rows[low:high])
        pack = _Pack(depth)
        for at, token in enumerate(self.rows[low].ids[depth:end], start=depth):
            pack.add(token, len(pack.tokens) - 1, at, at >= first_scored)
        try:
            values, below = self.scorer.forward(pack, self.cache, row)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            self._recover(error, depth)
            yield from self._visit(low, high, depth, row)
            return
        self.prefix_values.extend(values)
        try:
            yield from self._visit(low, high, end, below)
        finally:
            del self.prefix_values[depth:]
            self._crop(depth)

    def _score_pack(self, low: int, high: int, depth: int, row: torch.Tensor | None) -> list[Scores]:
        pack, path, paths = _Pack(depth), list[int](), list[list[int]]()
        for index in range(low, high):
            sequence = self.rows[index]
            shared = int(self.shared[index]) if index > low else depth
            del path[shared - depth :]
            for at in range(shared, len(sequence.ids)):
                parent = path[-1] if path else -1
                path.append(pack.add(sequence.ids[at], parent, at, at >= sequence.start))
            for at in range(max(sequence.start, depth), shared):  # shared with a sequence that is scored from later on
                pack.scored[path[at - depth]] = True
            if sequence.terminators:
                pack.ends[path[-1] if path else -1, sequence.terminators] = np.nan
            paths.append(list(path))
        if pack.tokens:
            values, _ = self.scorer.forward(pack, self.cache, row)
            self._crop(depth)
        else:
            values = []
            self.scorer._read_ends(pack, torch.empty(0), {}, row)
        results = []
        for index, nodes in zip(range(low, high), paths, strict=True):
            sequence = self.rows[index]
            found = self.prefix_values[sequence.start : depth]
            found += [values[node] for node in nodes[max(0, sequence.start - depth) :]]
            if sequence.terminators:
                found.append(pack.ends[nodes[-1] if nodes else -1, sequence.terminators])
            results.append((self.order[index], found))
        return results

    def _crop(self, depth: int) -> None:
        surplus = self.cache.get_seq_length() - depth
        if surplus > 0:
            self.cache.crop(-surplus)

    def _recover(self, error: BaseException, depth: int) -> None:
        """Halve the packs after memory ran out; raise everything else."""
        from biaslab.errors import OutOfMemoryError

        if not is_out_of_memory(error):
            raise error
        if self.scorer.max_tokens == 1:
            raise OutOfMemoryError("one single token does not fit in memory; use a smaller model or dtype") from error
        self.scorer.max_tokens //= 2
        self._crop(depth)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _common(left: NDArray[np.int_], right: NDArray[np.int_]) -> int:
    size = min(len(left), len(right))
    different = left[:size] != right[:size]
    return int(different.argmax()) if different.any() else size
