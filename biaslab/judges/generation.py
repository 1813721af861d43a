"""Generate text in batches, each row with random numbers of its own, so that a reply does not depend on its batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from biaslab.core import Completion
from biaslab.judges.batches import halving

Generated = tuple[list[int], bool]


class InverseSampling(LogitsProcessor):  # type: ignore[misc]
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
        self.temperatures, self.uniforms, self.step = temperatures, uniforms, 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the scores of one step, shape (rows, vocabulary)."""
        scores = scores.clone()
        for row, temperature in enumerate(self.temperatures):
            if temperature > 0:
                weights = (scores[row].to(device="cpu", dtype=torch.float64) / temperature).softmax(-1)
                cumulative = weights.cumsum(-1)
                drawn = torch.tensor(self.uniforms[row, self.step] * float(cumulative[-1]), dtype=torch.float64)
                token = int(torch.searchsorted(cumulative, drawn, right=True))
                scores[row] = -torch.inf
                scores[row, min(token, len(cumulative) - 1)] = 0.0
        self.step += 1
        return scores


def generate(
    model: Any,
    prompts: Sequence[tuple[int, ...]],
    requests: Sequence[Completion],
    seeds: Sequence[int],
    terminators: tuple[int, ...],
    max_batch_tokens: int,
) -> Iterator[tuple[int, list[int], bool]]:
    """Yield (index, generated ids without terminator, whether a terminator ended it), batch by batch.

    Raises
    ------
    OutOfMemoryError
        If a single prompt does not fit; larger batches are halved and the rest goes on.
    """
    order = sorted(range(len(prompts)), key=lambda i: (-requests[i].max_tokens, -len(prompts[i])))
    limit = [max_batch_tokens]

    def run(rows: Sequence[int]) -> list[Generated]:
        return _generate_batch(
            model, [prompts[i] for i in rows], [requests[i] for i in rows], [seeds[i] for i in rows], terminators
        )

    def shrink() -> None:
        limit[0] //= 2

    while order:
        first = order[0]
        width = max(len(prompts[i]) for i in order[:64]) + requests[first].max_tokens
        size = max(1, limit[0] // width)
        batch = [i for i in order[:size] if requests[i].max_tokens == requests[first].max_tokens]
        results = halving(run, batch, shrink)
        for index, (ids, stopped) in zip(batch, results, strict=False):
            yield index, ids, stopped
        order = order[len(results) :]


@torch.inference_mode()
def _generate_batch(
    model: Any,
    prompts: Sequence[tuple[int, ...]],
    requests: Sequence[Completion],
    seeds: Sequence[int],
    terminators: tuple[int, ...],
) -> list[Generated]:
    steps, longest = requests[0].max_tokens, max(map(len, prompts))
    pad = terminators[0]
    padded = [[pad] * (longest - len(p)) + list(p) for p in prompts]
    mask = [[0] * (longest - len(p)) + [1] * len(p) for p in prompts]
    uniforms = np.stack([np.random.default_rng(seed).random(steps) for seed in seeds])
    output = model.generate(
        input_ids=torch.tensor(padded, device=model.device),
        attention_mask=torch.tensor(mask, device=model.device),
        generation_config=_greedy(model, steps, terminators),
        logits_processor=LogitsProcessorList([InverseSampling([r.temperature for r in requests], uniforms)]),
    )
    begin = 1 if model.config.is_encoder_decoder else longest
    return [_until(row[begin:], terminators) for row in output.tolist()]


def _greedy(model: Any, steps: int, terminators: tuple[int, ...]) -> GenerationConfig:
    """Make a configuration with nothing in it but length and ends: the model's own sampling defaults stay out."""
    return GenerationConfig(
        do_sample=False,
        max_new_tokens=steps,
        eos_token_id=list(terminators),
        pad_token_id=terminators[0],
        decoder_start_token_id=getattr(model.config, "decoder_start_token_id", None),
    )


def _until(ids: list[int], terminators: tuple[int, ...]) -> Generated:
    for at, token in enumerate(ids):
        if token in terminators:
            return ids[:at], True
    return ids, False
