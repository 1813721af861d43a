"""Score token sequences in padded batches: the plain way, for every architecture.

Rows are padded on the right, where a causal model cannot see them, so no mask is needed and padding changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import torch

from biaslab.errors import OutOfMemoryError

Row = TypeVar("Row")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Scored:
    """One sequence whose tokens from ``start`` on are scored.

    Parameters
    ----------
    ids : tuple of int
        Token ids, prompt first.
    start : int
        Index of the first scored token; at least 1 for causal models.
    terminators : tuple of int
        If any, the log-probability that one of these comes next is added as a last value.
    """

    ids: tuple[int, ...]
    start: int
    terminators: tuple[int, ...] = ()


class BatchScorer:
    """Scores sequences with one forward pass a batch.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Causal or encoder–decoder model. For the latter the prompt goes to the encoder.
    max_tokens : int
        Tokens of a batch at most, padding included.
    max_logits : int
        Logits (positions × vocabulary) of a batch at most, which bounds memory.
    """

    def __init__(self, model: Any, max_tokens: int = 4096, max_logits: int = 1 << 27) -> None:
        self.model, self.max_tokens, self.max_logits = model, max_tokens, max_logits
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters

    def score(self, sequences: Sequence[Scored]) -> Iterator[tuple[int, list[float]]]:
        """Yield (index, log-probabilities of the scored tokens) as each batch completes, longest first.

        Raises
        ------
        OutOfMemoryError
            If a single sequence does not fit; larger batches are halved and the rest goes on.
        """
        order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i].ids))
        run = self._score_encoder_decoder if self.model.config.is_encoder_decoder else self._score_causal
        at = 0
        while at < len(order):
            size = self._batch_size([sequences[i] for i in order[at:]])
            results = halving(run, [sequences[i] for i in order[at : at + size]], self._shrink)
            for index, values in zip(order[at:], results, strict=False):
                yield index, values
            at += len(results)

    def _batch_size(self, rest: Sequence[Scored]) -> int:
        longest = len(rest[0].ids)
        vocabulary = int(self.model.config.get_text_config().vocab_size)
        size, first = 0, longest
        for sequence in rest:
            first = min(first, sequence.start)
            kept = (longest - first + 1) if self._keeps_logits else longest
            if size and (size + 1) * max(longest / self.max_tokens, kept * vocabulary / self.max_logits) > 1:
                break
            size += 1
        return size

    def _shrink(self) -> None:
        self.max_tokens, self.max_logits = self.max_tokens // 2, self.max_logits // 2

    @torch.inference_mode()
    def _score_causal(self, rows: Sequence[Scored]) -> list[list[float]]:
        longest = max(len(row.ids) for row in rows)
        ids = _pad([row.ids for row in rows], self.model.device)
        first = min(row.start for row in rows) - 1
        options = {"logits_to_keep": longest - first} if self._keeps_logits else {}
        logits = self.model(input_ids=ids, use_cache=False, **options).logits
        first = longest - logits.shape[1]
        return _read(logits, [(row.ids, row.start, row.start - 1 - first, row.terminators) for row in rows])

    @torch.inference_mode()
    def _score_encoder_decoder(self, rows: Sequence[Scored]) -> list[list[float]]:
        prompts = sorted({row.ids[: row.start] for row in rows})
        inputs = _pad(prompts, self.model.device)
        mask = _pad([(1,) * len(prompt) for prompt in prompts], self.model.device)
        states = self.model.get_encoder()(input_ids=inputs, attention_mask=mask).last_hidden_state
        of = torch.tensor([prompts.index(row.ids[: row.start]) for row in rows], device=self.model.device)
        begin = self.model.config.decoder_start_token_id
        logits = self.model(
            encoder_outputs=(states[of],),
            attention_mask=mask[of],
            decoder_input_ids=_pad([(begin, *row.ids[row.start :]) for row in rows], self.model.device),
            use_cache=False,
        ).logits
        return _read(logits, [(row.ids, row.start, 0, row.terminators) for row in rows])


def _read(
    logits: torch.Tensor, rows: Sequence[tuple[tuple[int, ...], int, int, tuple[int, ...]]]
) -> list[list[float]]:
    """Read log-probabilities; a row gives ids, first scored index, its position in the logits, terminators."""
    results = []
    for row, (ids, start, position, terminators) in zip(logits, rows, strict=True):
        targets = torch.tensor(ids[start:], device=logits.device)
        span = len(targets) + bool(terminators)
        logprobs = row[position : position + span].float().log_softmax(-1)
        values = logprobs[: len(targets)].gather(1, targets[:, None]).squeeze(1).tolist()
        if terminators:
            values.append(float(logprobs[-1, token_index(terminators, logits.device)].logsumexp(0)))
        results.append(values)
    return results


def halving(
    run: Callable[[Sequence[Row]], list[Result]], rows: Sequence[Row], shrink: Callable[[], None]
) -> list[Result]:
    """Run on the rows, on the first half when memory runs out, and so on; return as many results as were made.

    Raises
    ------
    OutOfMemoryError
        If even one row does not fit.
    """
    while True:
        try:
            return run(rows)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if len(rows) == 1:
                raise OutOfMemoryError(
                    "one single request does not fit in memory; use a smaller model or dtype, or a shorter text"
                ) from error
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        shrink()
        rows = rows[: len(rows) // 2]


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out, on a GPU or on the CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return "out of memory" in text or "can't allocate memory" in text or "not enough memory" in text


@lru_cache(maxsize=64)
def token_index(ids: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return ids as a tensor on a device, kept for the next time."""
    return torch.tensor(ids, device=device)


def _pad(rows: Sequence[tuple[int, ...]], device: Any) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *(0,) * (longest - len(row))] for row in rows], device=device)
