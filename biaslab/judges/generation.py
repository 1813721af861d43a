"""Generate text in batches, each row with random numbers of its own, so that a reply does not depend on its batch.

A prompt that is asked several times (replicates, temperatures) is read once, and so is what all prompts of a batch have
in common at their beginning: the cache is copied to all its rows.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, GenerationConfig, LogitsProcessor, LogitsProcessorList
from transformers.modeling_outputs import BaseModelOutput

from biaslab.core import Completion
from biaslab.judges.batches import decoder_start, encode_prompts, halving
from biaslab.judges.placement import input_device, is_spread

Generated = tuple[list[int], bool]
_WORTH_SHARING = 16  # tokens
_MOST_ROWS = 128  # a killed run loses a batch


class InverseSampling(LogitsProcessor):
    """Turns greedy decoding into exact sampling, row by row.

    Each row inverts its own cumulative distribution at its own uniform number and leaves only that token. Rows with
    temperature 0 are left as they are.

    Parameters
    ----------
    temperatures : sequence of float
        One a row.
    uniforms : numpy.ndarray, shape (rows, steps)
        Numbers in [0, 1).
    """

    def __init__(self, temperatures: Sequence[float], uniforms: np.ndarray) -> None:
        self.rows = [row for row, temperature in enumerate(temperatures) if temperature > 0]
        self.temperatures = torch.tensor([temperatures[row] for row in self.rows])[:, None]
        self.uniforms, self.step = torch.from_numpy(uniforms[self.rows]), 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the scores of one step, shape (rows, vocabulary)."""
        if self.rows:
            sampled = scores[self.rows].to(device="cpu", dtype=torch.float32)
            cumulative = (sampled / self.temperatures).softmax(-1).cumsum(-1, dtype=torch.float64)
            drawn = self.uniforms[:, self.step, None] * cumulative[:, -1:]
            tokens = torch.searchsorted(cumulative, drawn, right=True).clamp_(max=scores.shape[-1] - 1)
            scores = scores.clone()
            scores[self.rows] = -torch.inf
            scores[self.rows, tokens[:, 0].to(scores.device)] = 0.0
        self.step += 1
        return scores


@dataclass(frozen=True)
class Prompted:
    """One completion to generate: the request, its prompt's token ids and the seed of its random numbers."""

    request: Completion
    prompt: tuple[int, ...]
    seed: int


class Generator:
    """Generates text with one model.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Causal or encoder–decoder model.
    terminators : tuple of int
        Tokens that end a text; at least one.
    max_batch_tokens : int
        Tokens of different prompts that are read in one pass at most.
    max_cached_tokens : int
        Tokens of a batch at most, all rows, those to be generated included.
    opening : tuple of int
        What the decoder of an encoder–decoder model reads first; by default its start token.
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

    def generate(self, rows: Sequence[Prompted]) -> Iterator[list[tuple[int, list[int], bool]]]:
        """Yield (index, generated ids without terminator, whether a terminator ended it) of each batch as it completes.

        Raises
        ------
        OutOfMemoryError
            If a single prompt does not fit; larger batches are halved and the rest goes on.
        """
        order = sorted(range(len(rows)), key=lambda i: (-rows[i].request.max_tokens, rows[i].prompt))
        while order:
            batch = self._batch(order, rows)
            results = halving(self._run, [rows[i] for i in batch], self._shrink, batch[0])
            yield [(index, ids, stopped) for index, (ids, stopped) in zip(batch, results, strict=False)]
            order = order[len(results) :]

    def _batch(self, order: Sequence[int], rows: Sequence[Prompted]) -> list[int]:
        """Return the first rows of an order that fit a batch together: neighbours share most of their prompts."""
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
    def _run(self, rows: Sequence[Prompted]) -> list[Generated]:
        steps = rows[0].request.max_tokens
        uniforms = np.stack([np.random.default_rng(row.seed).random(steps) for row in rows])
        sampling = InverseSampling([row.request.temperature for row in rows], uniforms)
        prompts = {prompt: i for i, prompt in enumerate(dict.fromkeys(row.prompt for row in rows))}
        of = torch.tensor([prompts[row.prompt] for row in rows])  # on the CPU: layers may cache on several devices
        inputs, begin = self._inputs(list(prompts), of)
        with self._plain_settings():
            output = self.model.generate(
                **inputs,
                generation_config=self._greedy(steps),
                logits_processor=LogitsProcessorList([sampling]),
            )
        return [_until(row[begin:], self.terminators) for row in output.tolist()]

    def _inputs(self, prompts: Sequence[tuple[int, ...]], of: torch.Tensor) -> tuple[dict[str, Any], int]:
        """Return the arguments of `generate`, each prompt computed once, and where the generated text begins."""
        device = input_device(self.model)
        if self.model.config.is_encoder_decoder:
            states, mask = encode_prompts(self.model, prompts)
            opened = torch.tensor([self.opening], device=device).expand(len(of), -1)
            encoded = BaseModelOutput(last_hidden_state=states[of])  # generate() wants the model's output class
            inputs = {"encoder_outputs": encoded, "attention_mask": mask[of], "decoder_input_ids": opened}
            inputs["input_ids"] = mask[of]  # not encoded again; generate() looks at its device only
            return inputs, len(self.opening)
        longest, shared = max(map(len, prompts)), self._shared(prompts)
        gaps = [longest - len(p) for p in prompts]  # filled after what all share, where the mask hides it
        fill = self.terminators[0]
        rows = [[*p[:shared], *[fill] * gap, *p[shared:]] for p, gap in zip(prompts, gaps, strict=True)]
        ids = torch.tensor(rows, device=device)
        mask = torch.ones_like(ids)
        for row, gap in zip(mask, gaps, strict=True):
            row[shared : shared + gap] = 0
        inputs = {"input_ids": ids[of], "attention_mask": mask[of]}
        if longest > 1 and (shared or len(of) > len(prompts)):
            cache = self._read_once(ids[:, :-1], mask[:, :-1], shared)
            if cache is not None:
                cache.batch_select_indices(of)
                inputs["past_key_values"] = cache
        return inputs, longest

    @cached_property
    def _keeps_keys_and_values(self) -> bool:
        takes = inspect.signature(self.model.forward).parameters
        return not getattr(self.model, "_is_stateful", False) and {"position_ids", "past_key_values"} <= set(takes)

    def _shared(self, prompts: Sequence[tuple[int, ...]]) -> int:
        """Return the number of first tokens that all prompts share, 0 unless they are worth a pass of their own.

        A sliding window counts the filled places behind the shared tokens too, so such models do not share.
        """
        if len(prompts) < 2 or not self._keeps_keys_and_values:
            return 0
        if getattr(self.model.config.get_text_config(), "sliding_window", None):
            return 0
        first, last = min(prompts), max(prompts)
        size = min(map(len, prompts)) - 1
        common = next((i for i in range(size) if first[i] != last[i]), size)
        return common if common >= _WORTH_SHARING else 0

    def _read_once(self, ids: torch.Tensor, mask: torch.Tensor, shared: int) -> Any:
        """Return the cache of the prompts, or None where the model caches something other than keys and values."""
        if not self._keeps_keys_and_values:
            return None
        cache = None
        if shared:
            cache = self.model(input_ids=ids[:1, :shared], use_cache=True, logits_to_keep=1).past_key_values
            if type(cache) is not DynamicCache:
                return None
            cache.batch_repeat_interleave(len(ids))
        if ids.shape[1] > shared:
            cache = self.model(
                input_ids=ids[:, shared:],
                attention_mask=mask,
                position_ids=(mask.cumsum(-1) - 1).clamp_(min=0)[:, shared:],
                past_key_values=cache,
                use_cache=True,
            ).past_key_values
        return cache if type(cache) is DynamicCache else None

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
                if is_spread(self.model):  # its first weights may be aside, and then inputs lie elsewhere
                    warnings.filterwarnings("ignore", "You are calling .generate", UserWarning)
                yield
        finally:
            self.model.generation_config = kept


def _until(ids: list[int], terminators: tuple[int, ...]) -> Generated:
    for at, token in enumerate(ids):
        if token in terminators:
            return ids[:at], True
    return ids, False
