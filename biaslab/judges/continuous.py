"""Continuous batching: finished rows leave the batch at once, and waiting ones take their place.

Continuous batching follows Orca (Yu et al. 2022). A text's tokens depend only on its prompt, temperature and random
numbers, so neither the order of texts nor the composition of the batch changes them.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, takewhile
from typing import Any

import torch

from biaslab.core import Completion
from biaslab.core.arrays import Floats
from biaslab.core.errors import OutOfMemoryError
from biaslab.judges.batches import is_out_of_memory
from biaslab.judges.prefix_tree import TreeScorer
from biaslab.judges.prompt_reader import PromptReader
from biaslab.judges.prompted import Generated, Prompted
from biaslab.judges.sampling import draw
from biaslab.judges.slots import Layers, Slots
from biaslab.judges.stems import Stem, attending, choose_stems

_MOST_ROWS = 128
_GROWTH = 64  # tokens by which a slot grows
_STEPS = 64  # steps after which finished texts are yielded; a killed run loses at most these
_JOIN = 8  # waiting rows join once an eighth of the slots is free, so that their prompts are read together


@dataclass
class _Row:
    """A text being generated."""

    index: int
    prompted: Prompted
    stem: Stem | None
    ids: list[int] = field(default_factory=list)

    @cached_property
    def uniforms(self) -> Floats:
        """Random numbers for its tokens, drawn only when it starts, because thousands of long texts may be waiting."""
        return self.prompted.uniforms()

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens; the cache has all but the last, which the next pass reads."""
        return (*self.prompted.prompt, *self.ids)

    @property
    def last(self) -> int:
        """The last token."""
        return self.ids[-1] if self.ids else self.prompted.prompt[-1]

    @property
    def shared(self) -> int:
        """Tokens of its stem."""
        return self.stem.length if self.stem else 0

    def __len__(self) -> int:
        """Return the number of tokens in its slot once the last one is read."""
        return len(self.prompted.prompt) + len(self.ids) - self.shared


class ContinuousGenerator:
    """Generate text with a causal attention model, each text in its own slot.

    Parameters
    ----------
    tree : TreeScorer
        The model, and how it reads prompts.
    terminators : tuple of int
        Tokens that end a text; at least one.
    max_cached_tokens : int
        Maximum number of tokens in all slots and shared prefixes together.
    shares : bool
        Whether common prefixes are cached and attended to once, which requires standard attention.
    """

    def __init__(
        self, tree: TreeScorer, terminators: tuple[int, ...], max_cached_tokens: int = 1 << 15, shares: bool = True
    ) -> None:
        self.tree, self.terminators, self.max_cached_tokens = tree, frozenset(terminators), max_cached_tokens
        self.shares = shares
        self.most_rows = _MOST_ROWS

    def generate(self, rows: Sequence[Prompted]) -> Iterator[list[Generated]]:
        """Yield texts soon after they end.

        Raises
        ------
        OutOfMemoryError
            If a single text does not fit; otherwise fewer are generated at a time.
        """
        yield from _Batch(self, rows).run()

    @torch.inference_mode()
    def self_check(self) -> str:
        """Return how three short texts in slots differ from plain passes; empty if they do not."""
        ids = [5 + i % (self.tree.vocabulary - 5) for i in range(50)]
        prompts = (tuple(ids[:5]), (*ids[:40], *ids[3:9]), (*ids[:40], *ids[7:20]))
        batch = _Batch(self, [Prompted(Completion("", max_tokens=3), prompt, 0) for prompt in prompts])
        worst = 0.0
        try:
            batch.join()
            for _ in range(3):
                for row, logits in zip(batch.active, batch.forward(), strict=True):
                    read = torch.tensor([row.tokens], device=self.tree.device)
                    plain = self.tree.model(input_ids=read, use_cache=False).logits[0, -1]
                    worst = max(worst, float((logits - plain).abs().max()))
                    row.ids.append(int(plain.argmax()))
        except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"
        tolerance = 1e-3 if self.tree.model.dtype == torch.float32 else 0.5
        return "" if worst <= tolerance else f"its numbers differ by {worst:.2g}"


class _Batch:
    """One run over some prompts, in sorted order, so that neighbours share most of their tokens."""

    def __init__(self, generator: ContinuousGenerator, rows: Sequence[Prompted]) -> None:
        self.generator, self.tree = generator, generator.tree
        order = sorted(range(len(rows)), key=lambda i: rows[i].prompt)
        read = [rows[i].prompt[:-1] for i in order]
        stems = choose_stems(read) if generator.shares else [None] * len(rows)
        self.waiting = deque(_Row(i, rows[i], stem) for i, stem in zip(order, stems, strict=True))
        self.active: list[_Row] = []
        self.stems: list[Stem] = []  # whose keys and values are cached
        self.kept = Slots()
        self.kept.resize(0, max((stem.length for stem in stems if stem), default=0))
        self.slots, self.reader = Slots(self.kept), PromptReader(self.tree)

    @torch.inference_mode()
    def run(self) -> Iterator[list[Generated]]:
        """Yield what `ContinuousGenerator.generate` yields."""
        finished: list[Generated] = []
        steps = 0
        while self.waiting or self.active:
            self.join()
            finished += self._step()
            steps += 1
            if finished and steps >= _STEPS:
                yield finished
                finished, steps = [], 0
        if finished:
            yield finished

    def join(self) -> None:
        """Let waiting rows take the free slots, once enough are free."""
        while rows := self._next_rows():
            self._fit(len(rows[0]))
            free = self.slots.rows - len(self.active)
            if not free or (self.active and free < self.slots.rows // _JOIN):
                return
            self._read(list(takewhile(lambda row: len(row) <= self.slots.room, rows[:free])))

    def _next_rows(self) -> list[_Row]:
        """Return the first waiting rows that can join without another one leaving; if none is active, at least one."""
        rows: list[_Row] = []
        room, stems = self.slots.room, set(self.stems)
        for row in islice(self.waiting, max(0, self.generator.most_rows - len(self.active))):
            if row.stem:
                stems.add(row.stem)
            room = max(room, _roomy(len(row))) if len(row) > room else room
            kept = (len(self.active) + len(rows) + 1) * room + len(stems) * self.kept.room
            if (rows or self.active) and kept > self.generator.max_cached_tokens:
                break
            rows.append(row)
        return rows

    def _fit(self, tokens: int) -> None:
        """Allocate slots of a length, as many as are needed and allowed."""
        room = self.slots.room if tokens <= self.slots.room else _roomy(tokens)
        most = (self.generator.max_cached_tokens - len(self.stems) * self.kept.room) // room
        allowed = max(1, min(self.generator.most_rows, most))
        rows = min(allowed, max(self.slots.rows, len(self.active) + len(self.waiting)))
        self._leave(rows)
        self.slots.resize(rows, room)

    def _leave(self, rows: int) -> None:
        """Return all but the first rows to the queue; what they have generated is read again when they rejoin."""
        self.waiting.extendleft(self.active[rows:])
        del self.active[rows:]

    def _read(self, rows: Sequence[_Row]) -> None:
        """Read the prompts of rows in one pass, as many as fit it, and put these rows into slots."""
        prompts = list(dict.fromkeys(row.tokens[:-1] for row in rows))
        prompts = prompts[: self.reader.fitting(prompts)]
        try:
            layers = dict(zip(prompts, self.reader.read(prompts), strict=True))
            for row in takewhile(lambda row: row.tokens[:-1] in layers, rows):
                self._put(row, layers[row.tokens[:-1]])
                self.active.append(self.waiting.popleft())
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            alone = len(prompts) == 1
            if alone and not self.active and self.slots.rows == 1 and is_out_of_memory(error):
                raise self._too_large(rows[0]) from error
            self._recover(error, len(self.active) if alone else self.generator.most_rows)
            self.tree.max_tokens = max(1, min(self.tree.max_tokens, sum(map(len, prompts))) // 2)

    def _put(self, row: _Row, layers: Layers) -> None:
        """Put a prompt into the next slot, and register its stem, which is kept until its last text ends."""
        if row.stem and row.stem.slot < 0:
            if len(self.stems) == self.kept.rows:
                self.kept.resize(2 * self.kept.rows + 1, self.kept.room)
            self.kept.put(
                len(self.stems), [(keys[:, : row.shared], values[:, : row.shared]) for keys, values in layers]
            )
            row.stem.slot = len(self.stems)
            self.stems.append(row.stem)
        self.slots.put(len(self.active), [(keys[:, row.shared :], values[:, row.shared :]) for keys, values in layers])

    def _step(self) -> list[Generated]:
        """Generate one token for each active row; return the texts that end."""
        if not self.active:
            return []
        try:
            self._fit(max(map(len, self.active)))
            logits = self.forward()
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if self.slots.rows == 1 and is_out_of_memory(error):
                raise self._too_large(self.active[0]) from error
            self._recover(error, len(self.active) // 2)
            return []
        temperatures = [row.prompted.request.temperature for row in self.active]
        tokens = draw(logits, temperatures, [row.uniforms[len(row.ids)] for row in self.active])
        finished = []
        for slot in reversed(range(len(tokens))):
            row, stopped = self.active[slot], tokens[slot] in self.generator.terminators
            row.ids += [] if stopped else [tokens[slot]]
            stopped = stopped or (row.prompted.ends is not None and row.prompted.ends(row.ids))
            if stopped or len(row.ids) == row.prompted.request.max_tokens:
                finished.append(Generated(row.index, row.ids, stopped))
                self._vacate(slot)
        return finished

    def forward(self) -> torch.Tensor:
        """Read the last token of each active row; return the logits after it, shape (rows, vocabulary)."""
        shared = any(row.stem for row in self.active)
        self.kept.width = max(row.shared for row in self.active)
        stems = [row.stem.slot if row.stem else 0 for row in self.active] if shared else []
        self.slots.follow([len(row) - 1 for row in self.active], stems)
        numbers = [(row.last, len(row) - 1, row.shared) for row in self.active]
        ids, own, before = torch.tensor(numbers, device=self.tree.device).unsqueeze(-1).unbind(1)
        with attending(self.tree.model) if shared else contextlib.nullcontext():
            logits: torch.Tensor = self.tree.model(
                input_ids=ids,
                position_ids=before + own,
                attention_mask=self._mask(before[:, None, None], own[:, None, None]),
                past_key_values=self.slots.cache,
                use_cache=True,
            ).logits
        return logits[:, -1]

    def _mask(self, before: torch.Tensor, own: torch.Tensor) -> Any:
        """Return the attention mask of rows by the number of tokens before their own; shape (rows, 1, 1, 1)."""
        places = [torch.arange(width, device=own.device) for width in (self.kept.width, self.slots.width)]
        allowed = torch.cat([places[0] < before, places[1] <= own], -1)
        return self.tree.mask(allowed, torch.cat([before + own - places[0], own - places[1]], -1))

    def _vacate(self, slot: int) -> None:
        """Remove a row, and its stem after its last text; the last ones move to their slots."""
        row, last = self.active[slot], self.active.pop()
        if slot < len(self.active):
            self.slots.move(len(self.active), slot, len(last) - 1)
            self.active[slot] = last
        if row.stem:
            row.stem.texts -= 1
            if not row.stem.texts:
                self._drop(row.stem)

    def _drop(self, stem: Stem) -> None:
        """Remove a stem; the last one moves to its slot."""
        last = self.stems.pop()
        if last is not stem:
            self.kept.move(last.slot, stem.slot, last.length)
            self.stems[stem.slot], last.slot = last, stem.slot

    def _recover(self, error: BaseException, rows: int) -> None:
        """Continue with fewer rows after memory ran out; re-raise everything else."""
        if not is_out_of_memory(error):
            raise error
        self.generator.most_rows = max(1, rows)
        self._leave(self.generator.most_rows)
        self.slots.resize(min(self.slots.rows, self.generator.most_rows), self.slots.room)
        self.reader.forget()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _too_large(self, row: _Row) -> OutOfMemoryError:
        message = "a single request does not fit in memory; use a smaller model or dtype, or a shorter text"
        return OutOfMemoryError(message, index=row.index)


def _roomy(tokens: int) -> int:
    """Return the capacity of a slot for a number of tokens, with room to grow."""
    return tokens + max(_GROWTH, tokens // 8)
