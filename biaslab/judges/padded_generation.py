"""Generate text in padded batches with transformers' `generate`: works for every architecture."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.modeling_outputs import BaseModelOutput

from biaslab.judges.batches import decoder_start, encode_prompts, halving
from biaslab.judges.placement import input_device, is_spread
from biaslab.judges.prompted import Generated, Prompted
from biaslab.judges.sampling import draw

_MOST_ROWS = 128  # a killed run loses one batch


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
            output = self.model.generate(
                **inputs,
                generation_config=self._greedy(steps),
                logits_processor=LogitsProcessorList([_Drawing(rows, steps)]),
                stopping_criteria=StoppingCriteriaList([_Ending(rows, begin)]),
            )
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
