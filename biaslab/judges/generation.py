"""Generate text by continuous batching or in padded batches, with separate random numbers per row.

Continuous batching follows Orca (Yu et al. 2022). A text's tokens depend only on its prompt, temperature and random
numbers, so neither the order of texts nor the composition of the batch changes them.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, takewhile
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList
from transformers.modeling_outputs import BaseModelOutput

from biaslab.core.arrays import Floats
from biaslab.core.errors import OutOfMemoryError
from biaslab.core.requests import Completion
from biaslab.judges.batches import decoder_start, encode_prompts, halving, is_out_of_memory, pack_tokens
from biaslab.judges.kv_cache import Layers, PromptReader, Slots, Stem, attending, choose_stems
from biaslab.judges.loading import input_device, is_spread
from biaslab.judges.prefix_tree import TreeScorer
from biaslab.judges.scorers import unfit

_LOG = logging.getLogger(__name__)


def choose_generator(
    model: Any,
    terminators: tuple[int, ...],
    max_batch_tokens: int = 4096,
    max_cached_tokens: int = 1 << 15,
    opening: tuple[int, ...] = (),
) -> TextGenerator:
    """Return how a model generates text: by continuous batching if its architecture allows it, else in padded batches.

    The choice by the configuration is confirmed by a self-check against plain passes. Parameters are those of
    `PaddedGenerator`.
    """
    plain = PaddedGenerator(model, terminators, max_batch_tokens, max_cached_tokens, opening)
    if model.config.is_encoder_decoder:
        return plain
    reason = unfit(model)
    if not reason:
        tree = TreeScorer(model, pack_tokens(model, max_batch_tokens))
        for shares in (True, False):
            continuous = ContinuousGenerator(tree, terminators, max_cached_tokens, shares)
            reason = continuous.self_check()
            tree.computed = 0
            if not reason:
                return continuous
            _LOG.debug("%s does not cache common prefixes once (%s)", type(model).__name__, reason)
    _LOG.warning("%s generates in padded batches (%s)", type(model).__name__, reason)
    return plain


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
            shared = [(keys[:, : row.shared], values[:, : row.shared]) for keys, values in layers]
            self.kept.put(len(self.stems), shared)
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
            places = {"position_ids": before + own, self.tree.takes_cache: self.slots.cache}
            mask = self._mask(before[:, None, None], own[:, None, None])
            logits: torch.Tensor = self.tree.model(input_ids=ids, attention_mask=mask, use_cache=True, **places).logits
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


class PaddedGenerator:
    """Generates text in batches, each of which runs until its longest row ends.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Causal or encoder–decoder model. In the latter case the prompt goes to the encoder.
    terminators : tuple of int
        Tokens that end a text; at least one.
    max_batch_tokens : int
        Maximum number of tokens of distinct prompts read in one pass.
    max_cached_tokens : int
        Maximum number of tokens per batch, over all rows, including those to be generated.
    opening : tuple of int
        Tokens that an encoder–decoder model's decoder reads first; by default its start token.
    """

    def __init__(
        self,
        model: Any,
        terminators: tuple[int, ...],
        max_batch_tokens: int = 4096,
        max_cached_tokens: int = 1 << 15,
        opening: tuple[int, ...] = (),
    ) -> None:
        self.model, self.terminators = model, terminators
        self.max_batch_tokens, self.max_cached_tokens = max_batch_tokens, max_cached_tokens
        self.opening = opening or (decoder_start(model),) if model.config.is_encoder_decoder else ()

    def generate(self, rows: Sequence[Prompted]) -> Iterator[list[Generated]]:
        """Yield what each batch generates as it completes.

        Raises
        ------
        OutOfMemoryError
            If a single prompt does not fit; larger batches are halved and retried.
        """
        order = sorted(range(len(rows)), key=lambda i: (-rows[i].request.max_tokens, rows[i].prompt))
        while order:
            batch = self._batch(order, rows)
            results = halving(self._run, [rows[i] for i in batch], self._shrink, batch[0])
            yield [Generated(index, ids, stopped) for index, (ids, stopped) in zip(batch, results, strict=False)]
            order = order[len(results) :]

    def _batch(self, order: Sequence[int], rows: Sequence[Prompted]) -> list[int]:
        """Return the first rows, in a given order, that fit into one batch."""
        steps, longest, prompts = rows[order[0]].request.max_tokens, 0, set()
        for size, index in enumerate(order):
            longest = max(longest, len(rows[index].prompt))
            prompts.add(rows[index].prompt)
            large = len(prompts) * longest > self.max_batch_tokens
            large |= (size + 1) * (longest + steps) > self.max_cached_tokens or size >= _MOST_ROWS
            if size and (large or rows[index].request.max_tokens != steps):
                return list(order[:size])
        return list(order)

    def _shrink(self) -> None:
        self.max_batch_tokens, self.max_cached_tokens = self.max_batch_tokens // 2, self.max_cached_tokens // 2

    @torch.inference_mode()
    def _run(self, rows: Sequence[Prompted]) -> list[tuple[list[int], bool]]:
        """Generate one batch; return the tokens of each row, and whether it ended before its limit."""
        steps = rows[0].request.max_tokens
        inputs, begin = self._encoded(rows) if self.opening else self._padded(rows)
        with self._plain_settings():
            drawing, ending = LogitsProcessorList([_Drawing(rows, steps)]), StoppingCriteriaList([_Ending(rows, begin)])
            how = {"generation_config": self._greedy(steps), "logits_processor": drawing, "stopping_criteria": ending}
            output = self.model.generate(**inputs, **how)
        return [_until(row[begin:], self.terminators) for row in output.tolist()]

    def _padded(self, rows: Sequence[Prompted]) -> tuple[dict[str, Any], int]:
        """Return the arguments of `generate`, with prompts padded on the left, and where the generated text begins."""
        device, longest = input_device(self.model), max(len(row.prompt) for row in rows)
        gaps = [longest - len(row.prompt) for row in rows]
        filled = [[self.terminators[0]] * gap + [*row.prompt] for row, gap in zip(rows, gaps, strict=True)]
        mask = [[0] * gap + [1] * (longest - gap) for gap in gaps]
        inputs = {"input_ids": filled, "attention_mask": mask}
        return {name: torch.tensor(values, device=device) for name, values in inputs.items()}, longest

    def _encoded(self, rows: Sequence[Prompted]) -> tuple[dict[str, Any], int]:
        """Return the arguments of `generate` for an encoder–decoder model, encoding each distinct prompt once."""
        prompts = {prompt: i for i, prompt in enumerate(dict.fromkeys(row.prompt for row in rows))}
        of = torch.tensor([prompts[row.prompt] for row in rows])
        states, mask = encode_prompts(self.model, list(prompts))
        opened = torch.tensor([self.opening], device=input_device(self.model)).expand(len(of), -1)
        encoded = BaseModelOutput(last_hidden_state=states[of])  # generate() expects the model's output class
        inputs = {"encoder_outputs": encoded, "attention_mask": mask[of], "decoder_input_ids": opened}
        inputs["input_ids"] = mask[of]  # not encoded again; generate() only uses its device
        return inputs, len(self.opening)

    def _greedy(self, steps: int) -> GenerationConfig:
        return GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            max_new_tokens=steps,
            eos_token_id=list(self.terminators),
            pad_token_id=self.terminators[0],
            decoder_start_token_id=self.opening[0] if self.opening else None,
        )

    @contextlib.contextmanager
    def _plain_settings(self) -> Iterator[None]:
        """Switch off the model's own generation settings (beams, penalties, forced tokens)."""
        kept = self.model.generation_config
        self.model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
        try:
            with warnings.catch_warnings():
                if is_spread(self.model):  # its first weights may be offloaded, while inputs are elsewhere
                    warnings.filterwarnings("ignore", "You are calling .generate", UserWarning)
                yield
        finally:
            self.model.generation_config = kept


TextGenerator = ContinuousGenerator | PaddedGenerator


class _Drawing(LogitsProcessor):
    """Turns greedy decoding into sampling: masks all but the drawn token in sampled rows."""

    def __init__(self, rows: Sequence[Prompted], steps: int) -> None:
        self.rows = [row for row, prompted in enumerate(rows) if prompted.request.temperature > 0]
        self.temperatures = [rows[row].request.temperature for row in self.rows]
        self.uniforms = np.array([rows[row].uniforms()[:steps] for row in self.rows])
        self.step = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the scores of one step, shape (rows, vocabulary)."""
        if self.rows:
            tokens = draw(scores[self.rows], self.temperatures, self.uniforms[:, self.step].tolist())
            scores = scores.clone()
            scores[self.rows] = -torch.inf
            scores[self.rows, tokens] = 0.0
        self.step += 1
        return scores


class _Ending(StoppingCriteria):
    """Ends rows that detect their own end."""

    def __init__(self, rows: Sequence[Prompted], begin: int) -> None:
        self.ends = [row.ends for row in rows]
        self.begin = begin

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> Any:  # noqa: ARG002
        """Return which rows end, shape (rows,)."""
        written = input_ids[:, self.begin :].tolist() if any(self.ends) else [[]] * len(self.ends)
        ended = [ends is not None and ends(ids) for ends, ids in zip(self.ends, written, strict=True)]
        return torch.tensor(ended, device=input_ids.device)


def _until(ids: list[int], terminators: tuple[int, ...]) -> tuple[list[int], bool]:
    """Return the tokens before the first terminator, and whether there is one."""
    for at, token in enumerate(ids):
        if token in terminators:
            return ids[:at], True
    return ids, False


_BLOCK = 256  # probabilities are summed in blocks, so that only the block with the drawn token needs a cumulative sum


def draw(logits: torch.Tensor, temperatures: Sequence[float], uniforms: Sequence[float]) -> list[int]:
    """Return a token per row: the most likely at temperature 0, else a sample by inverting the distribution.

    Parameters
    ----------
    logits : torch.Tensor, shape (rows, vocabulary)
        Unnormalised scores of any float type, on any device.
    temperatures : sequence of float
        One per row; 0 is greedy.
    uniforms : sequence of float
        One number in [0, 1) per row; unused if the temperature is 0.

    Examples
    --------
    >>> draw(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), [0, 1.0], [0.0, 0.1])
    [1, 0]
    """
    tokens: list[int] = logits.argmax(-1).tolist()
    rows = [row for row, temperature in enumerate(temperatures) if temperature > 0]
    if rows:
        scaled = torch.tensor([temperatures[row] for row in rows], device=logits.device)[:, None]
        sampled = _invert(logits[rows].float() / scaled, [uniforms[row] for row in rows])
        for row, token in zip(rows, sampled, strict=True):
            tokens[row] = token
    return tokens


def _invert(logits: torch.Tensor, uniforms: Sequence[float]) -> list[int]:
    """Return the first token of each row at which the cumulative probability exceeds the row's number.

    Block sums are computed on the device of the logits; cumulative sums on the CPU, in float64, where they are
    deterministic.
    """
    size = logits.shape[-1]
    weights = torch.nn.functional.pad(logits.softmax(-1), (0, -size % _BLOCK)).reshape(len(logits), -1, _BLOCK)
    upto = weights.sum(-1).to("cpu", torch.float64).cumsum(-1)
    drawn = torch.tensor(uniforms, dtype=torch.float64)[:, None] * upto[:, -1:]
    block = torch.searchsorted(upto, drawn, right=True).clamp_(max=upto.shape[-1] - 1)
    before = torch.nn.functional.pad(upto, (1, 0)).gather(-1, block)
    rows = torch.arange(len(weights), device=weights.device)
    within = weights[rows, block[:, 0].to(weights.device)].to("cpu", torch.float64).cumsum(-1)
    within *= (upto.gather(-1, block) - before) / within[:, -1:]  # makes both sums of the block equal
    token = torch.searchsorted(within, drawn - before, right=True).clamp_(max=_BLOCK - 1)
    chosen: list[int] = (block * _BLOCK + token).clamp_(max=size - 1)[:, 0].tolist()
    return chosen


@dataclass(frozen=True)
class Prompted:
    """One completion to generate: the request, its prompt's token ids and the seed of its random numbers.

    ``ends``, if given, returns whether a text ends with the tokens generated so far (which are kept), as a thought does
    at its closing tag.
    """

    request: Completion
    prompt: tuple[int, ...]
    seed: int
    ends: Callable[[Sequence[int]], bool] | None = None

    def uniforms(self) -> Floats:
        """Return the random numbers of its tokens, in [0, 1), shape (max_tokens,)."""
        return np.random.default_rng(self.seed).random(self.request.max_tokens)


class Generated(NamedTuple):
    """A generated text: the row of its prompt, token ids without the terminator, whether it ended before its limit."""

    row: int
    ids: list[int]
    stopped: bool
