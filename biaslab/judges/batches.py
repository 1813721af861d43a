"""Score token sequences in padded batches, sized by the memory that is free: works for every architecture.

Padding is on the right, where a causal model cannot see it, so no mask is needed and results do not change.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeVar

import psutil
import torch

from biaslab.core.errors import JudgeError, OutOfMemoryError
from biaslab.judges.loading import computing_devices, input_device

_Row = TypeVar("_Row")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class TokenSet:
    """A set of token ids, any of which may come next; compared by identity.

    Parameters
    ----------
    ids : tuple of int
        Token ids, ascending.
    """

    ids: tuple[int, ...]
    _indicators: dict[Any, torch.Tensor] = field(default_factory=dict, repr=False)

    def indicator(self, logits: torch.Tensor) -> torch.Tensor:
        """Return a cached vector over the vocabulary, 1 at the ids and 0 elsewhere."""
        where = (logits.device, logits.shape[-1])
        if where not in self._indicators:
            vector = torch.zeros(logits.shape[-1], device=logits.device)
            vector[torch.tensor(self.ids, dtype=torch.long, device=logits.device)] = 1.0
            self._indicators[where] = vector
        return self._indicators[where]


@dataclass(frozen=True)
class Scored:
    """A sequence whose tokens from ``start`` on are scored.

    Parameters
    ----------
    ids : tuple of int
        Token ids, prompt first.
    start : int
        Index of the first scored token; at least 1 for causal models.
    terminators : TokenSet, optional
        If given, the log-probability that one of these comes next is appended.
    """

    ids: tuple[int, ...]
    start: int
    terminators: TokenSet | None = None


class Distributions:
    """Next-token distributions, evaluated only where needed instead of normalised over the whole vocabulary.

    Parameters
    ----------
    logits : torch.Tensor, shape (positions, vocabulary)
        Unnormalised scores of any float type.
    """

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits.float()
        self.top = self.logits.amax(-1, keepdim=True)
        self.weights = (self.logits - self.top).exp_()
        self.total = self.weights.sum(-1).log_() + self.top[:, 0]

    def tokens(self, positions: Sequence[int], ids: Sequence[int]) -> torch.Tensor:
        """Return log P(id) at each position, shape (positions,)."""
        rows = torch.tensor(positions, dtype=torch.long, device=self.logits.device)
        columns = torch.tensor(ids, dtype=torch.long, device=self.logits.device)
        return (self.logits[rows, columns] - self.total[rows]).clamp(max=0)

    def any_of(self, positions: Sequence[int], ids: TokenSet) -> torch.Tensor:
        """Return log P(one of the ids) at each position, shape (positions,)."""
        rows = torch.tensor(positions, dtype=torch.long, device=self.logits.device)
        chosen = ids.indicator(self.logits)
        # elementwise, not a matrix product, so that TF32 and the like are never used
        levels = (self.weights[rows] * chosen).sum(-1).log() + self.top[rows, 0]
        lost = levels.isinf()  # underflow: together they are below 1e-38 of the most likely token
        if lost.is_cuda or bool(lost.any()):  # avoids synchronising with a GPU
            exact = self.logits[rows].masked_fill(chosen == 0, -torch.inf).logsumexp(-1)
            levels = torch.where(lost, exact, levels)
        return (levels - self.total[rows]).clamp(max=0)


class BatchScorer:
    """Scores sequences with one forward pass per batch.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Causal or encoder–decoder model. In the latter case the prompt goes to the encoder.
    max_tokens : int
        Maximum number of tokens per batch, including padding.
    max_logits : int
        Maximum number of logits (positions × vocabulary) per batch, which bounds memory.
    opening : tuple of int
        Tokens that an encoder–decoder model's decoder reads before the first scored token; by default its start token.
    """

    def __init__(
        self, model: Any, max_tokens: int = 4096, max_logits: int = 1 << 27, opening: tuple[int, ...] = ()
    ) -> None:
        self.model, self.device = model, input_device(model)
        self.max_tokens, self.max_logits = max_tokens, max_logits
        self.opening = opening or (decoder_start(model),) if model.config.is_encoder_decoder else ()
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._vocabulary = int(model.config.get_text_config().vocab_size)

    def score(self, sequences: Sequence[Scored]) -> Iterator[tuple[int, list[float]]]:
        """Yield (index, log-probabilities of the scored tokens), as `packs` does, one by one."""
        return chain.from_iterable(self.packs(sequences))

    def packs(self, sequences: Sequence[Scored]) -> Iterator[list[tuple[int, list[float]]]]:
        """Yield (index, log-probabilities of the scored tokens) of each batch as it completes, longest first.

        Raises
        ------
        OutOfMemoryError
            If a single sequence does not fit; larger batches are halved and retried.
        """
        order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i].ids))
        run = self._score_encoder_decoder if self.model.config.is_encoder_decoder else self._score_causal
        at = 0
        while at < len(order):
            size = self._batch_size(sequences[i] for i in islice(order, at, None))
            results = halving(run, [sequences[i] for i in order[at : at + size]], self._shrink, order[at])
            yield list(zip(order[at : at + size], results, strict=False))
            at += len(results)

    def _batch_size(self, rest: Iterator[Scored]) -> int:
        """Count the sequences, longest first, that fit one batch."""
        head = next(rest)
        longest, first, size = len(head.ids), head.start, 1
        for sequence in rest:
            first = min(first, sequence.start)
            kept = (longest - first + 1) if self._keeps_logits else longest
            if (size + 1) * max(longest / self.max_tokens, kept * self._vocabulary / self.max_logits) > 1:
                break
            size += 1
        return size

    def _shrink(self) -> None:
        self.max_tokens, self.max_logits = self.max_tokens // 2, self.max_logits // 2

    @torch.inference_mode()
    def _score_causal(self, rows: Sequence[Scored]) -> list[list[float]]:
        """Return the log-probabilities of rows, in one pass of a causal model."""
        longest = max(len(row.ids) for row in rows)
        ids = padded([row.ids for row in rows], self.device)
        first = min(row.start for row in rows) - 1
        options = {"logits_to_keep": longest - first} if self._keeps_logits else {}
        logits = self.model(input_ids=ids, use_cache=False, **options).logits
        first = longest - logits.shape[1]
        return [_read(row_logits, row, row.start - 1 - first) for row_logits, row in zip(logits, rows, strict=True)]

    @torch.inference_mode()
    def _score_encoder_decoder(self, rows: Sequence[Scored]) -> list[list[float]]:
        """Return the log-probabilities of rows, in one pass; each distinct prompt is encoded once."""
        prompts = {prompt: i for i, prompt in enumerate(dict.fromkeys(row.ids[: row.start] for row in rows))}
        states, mask = encode_prompts(self.model, list(prompts))
        of = torch.tensor([prompts[row.ids[: row.start]] for row in rows])
        answers = padded([(*self.opening, *row.ids[row.start :]) for row in rows], self.device)
        encoded = {"encoder_outputs": (states[of],), "attention_mask": mask[of]}
        logits = self.model(**encoded, decoder_input_ids=answers, use_cache=False).logits
        return [_read(row_logits, row, len(self.opening) - 1) for row_logits, row in zip(logits, rows, strict=True)]


def _read(logits: torch.Tensor, row: Scored, position: int) -> list[float]:
    """Read one row's values from its logits; the logits at ``position`` predict the first scored token."""
    targets = row.ids[row.start :]
    seen = Distributions(logits[position : position + len(targets) + (row.terminators is not None)])
    values = [seen.tokens(range(len(targets)), targets)]
    if row.terminators is not None:
        values.append(seen.any_of([len(targets)], row.terminators))
    return torch.cat(values).tolist()


def encode_prompts(model: Any, prompts: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the encoder's last hidden states of padded prompts, and their attention mask."""
    device = input_device(model)
    mask = padded([(1,) * len(prompt) for prompt in prompts], device)
    inputs = padded(prompts, device)
    return model.get_encoder()(input_ids=inputs, attention_mask=mask).last_hidden_state, mask


def decoder_start(model: Any) -> int:
    """Return the token that an encoder–decoder model's decoder starts from.

    Raises
    ------
    JudgeError
        If neither its configuration nor its generation configuration defines one.
    """
    for name in ("decoder_start_token_id", "bos_token_id"):
        for config in (model.generation_config, model.config):
            if getattr(config, name, None) is not None:
                return int(getattr(config, name))
    raise JudgeError(f"the configuration of {type(model).__name__} has no decoder_start_token_id; add it")


def halving(
    run: Callable[[Sequence[_Row]], list[_Result]], rows: Sequence[_Row], shrink: Callable[[], None], index: int
) -> list[_Result]:
    """Run on the rows, halving their number while memory runs out; return the results obtained.

    Raises
    ------
    OutOfMemoryError
        If even one row does not fit; carries the first row's index, as given by the caller.
    """
    while True:
        try:
            return run(rows)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if len(rows) == 1:
                remedy = "use a smaller model or dtype, or a shorter text"
                raise OutOfMemoryError(f"a single request does not fit in memory; {remedy}", index=index) from error
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        shrink()
        rows = rows[: len(rows) // 2]


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, on a GPU or the CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return "out of memory" in text or "can't allocate memory" in text or "not enough memory" in text


def padded(rows: Sequence[tuple[int, ...]], device: Any) -> torch.Tensor:
    """Return rows of ids as one tensor, right-padded with zeros."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *(0,) * (longest - len(row))] for row in rows], dtype=torch.long, device=device)


_SHARE = 4  # one pass may use a quarter of free memory; caches, other processes and fragmentation need the rest
_LONGEST = 4096  # tokens
_PACK = {"cuda": _LONGEST, "mps": 1024}  # tokens per packed pass; on a CPU the mask of larger ones is too costly
_CPU_PACK = 768
_TOKEN_BYTES = 48  # per token waiting in a window: an index in two sequences, and its share of arrays
_MOST_LOGITS = 1 << 27


def free_bytes(device: str | torch.device) -> int:
    """Return the free bytes of a device.

    Examples
    --------
    >>> free_bytes("cpu") > 0
    True
    """
    kind = torch.device(device).type
    if kind == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if kind == "mps":
        return max(0, torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    return int(psutil.virtual_memory().available)


def _usable(model: Any, free: int | None) -> int:
    """Return the bytes that one pass may use, on the fullest device if there are several."""
    return (min(map(free_bytes, computing_devices(model))) if free is None else free) // _SHARE


def batch_tokens(model: Any, free: int | None = None) -> int:
    """Return the maximum number of tokens per forward pass, including padding: 4,096 or fewer.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        On its device already.
    free : int, optional
        Free bytes; by default queried from the device.
    """
    config = model.config.get_text_config()
    hidden = int(config.hidden_size)
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    heads = int(getattr(config, "num_attention_heads", None) or 1)
    width = torch.finfo(model.dtype).bits // 8
    per_token = width * (8 * hidden + 3 * inner) + 4 * heads * _LONGEST  # activations, and attention over a long text
    return max(1, min(_LONGEST, _usable(model, free) // per_token))


def pack_tokens(model: Any, batch: int) -> int:
    """Return the maximum number of tokens in a pack of the prefix tree, given that of a batch."""
    return min(batch, _PACK.get(input_device(model).type, _CPU_PACK))


def most_logits(model: Any, free: int | None = None) -> int:
    """Return the maximum number of logits (positions × vocabulary) per pass: three float32 copies must fit."""
    return max(1, min(_MOST_LOGITS, _usable(model, free) // 12))


def cached_tokens(model: Any, free: int | None = None) -> int:
    """Return the maximum number of tokens whose keys and values may be cached during generation, over all rows."""
    config = model.config.get_text_config()
    heads = int(getattr(config, "num_attention_heads", None) or 1)
    kept = int(getattr(config, "num_key_value_heads", None) or heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads) * torch.finfo(model.dtype).bits // 8
    return max(1, _usable(model, free) // (2 * int(config.num_hidden_layers) * kept * width))


def window_tokens(free: int | None = None) -> int:
    """Return the maximum number of tokens in a window of requests, within which prefixes are shared.

    Examples
    --------
    >>> window_tokens(free=2**40), window_tokens(free=2**30)
    (4194304, 2796202)
    """
    free = free_bytes("cpu") if free is None else free
    return max(1 << 14, min(1 << 22, free // 8 // _TOKEN_BYTES))
