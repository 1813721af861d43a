"""A model on this machine, loaded at first use, with the encoding of requests."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from biaslab.core import Choice, Completion, Likelihood, Request, as_prompt, thinking_of
from biaslab.core.errors import JudgeError, PromptTooLongError
from biaslab.judges.loading import load_model
from biaslab.judges.model_source import ModelSource
from biaslab.judges.placement import DeviceMap
from biaslab.judges.thinking import LEAST, Thinking

if TYPE_CHECKING:
    from biaslab.judges.batches import Scored
    from biaslab.judges.encoding import Encoder
    from biaslab.judges.local_thoughts import OpenedPrompt, ThoughtPrompts

_CLOSING = 64  # maximum number of tokens that open and close a thought


class LocalModel:
    """Base of judges whose model runs on this machine: loads the model and encodes requests."""

    id: str
    device: str
    dtype: str
    _source: ModelSource
    _device_map: DeviceMap | None
    _thinking: Thinking | None = None

    def encode(self, request: Request) -> list[tuple[int, ...]]:
        """Return the token ids that are read: for a `Choice`, prompt and label for each label; without thoughts.

        Raises
        ------
        JudgeError
            As in `check`.
        """
        return [sequence.ids for sequence in self._encode(request)]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return load_model(self._source, self.dtype, self.device, self._device_map)

    @cached_property
    def _encoder(self) -> Encoder:
        from biaslab.judges.encoding import Encoder

        model, tokenizer = self._loaded
        size = int(model.config.get_text_config().vocab_size)
        return Encoder(tokenizer, size)

    def _thinking_of(self, request: Request) -> Thinking | None:
        """Return the thinking budget of the request or else the judge; None for the model's default."""
        budget = thinking_of(request)
        return self._thinking if budget is None else (self._thinking or Thinking()).at(budget)

    def _thinks_before(self, request: Request) -> bool:
        thinking = self._thinking_of(request) if isinstance(request, Choice | Completion) else None
        return thinking is not None and thinking.is_on

    def _prompts(self, thinking: Thinking) -> ThoughtPrompts:
        """Return prompts that open a thought or turn thinking off, cached per setting."""
        from biaslab.judges.local_thoughts import ThoughtPrompts

        kept: dict[tuple[bool, str | None], ThoughtPrompts] = self.__dict__.setdefault("_kept_prompts", {})
        how = thinking.is_on, thinking.effort
        if how not in kept:
            model, tokenizer = self._loaded
            if model.config.is_encoder_decoder:
                raise JudgeError(f"{self.id!r} is an encoder–decoder model, which cannot think; do not set thinking")
            kept[how] = ThoughtPrompts(tokenizer, int(model.config.get_text_config().vocab_size), thinking)
        return kept[how]

    @cached_property
    def _end_of_turn(self) -> tuple[int, ...]:
        model, tokenizer = self._loaded
        configured = model.generation_config.eos_token_id
        ids = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])} - {None}
        if not ids:
            raise JudgeError(f"the model {self.id!r} has no end-of-sequence token, so no text would end")
        return tuple(sorted(ids))

    @cached_property
    def _opening(self) -> tuple[int, ...]:
        """First tokens of an encoder–decoder model's decoder; empty for a causal model."""
        from biaslab.judges.batches import decoder_start

        model = self._loaded[0]
        return (decoder_start(model), *self._encoder.prefix) if model.config.is_encoder_decoder else ()

    @cached_property
    def _window_tokens(self) -> float:
        """Length of the context window in tokens; infinite if the configuration has none."""
        config = self._loaded[0].config.get_text_config()
        return float(getattr(config, "max_position_embeddings", None) or math.inf)

    def _at_most(self, request: Request) -> int:
        """Return an upper bound on the tokens of a request, without encoding it."""
        encoder, request = self._encoder, as_prompt(request)
        if isinstance(request, Likelihood):
            return encoder.at_most(request.given) + encoder.at_most(request.text)
        thinking, size = self._thinking_of(request), 0
        if thinking is not None:
            self._prompt(request)  # the template may refuse it
            encoder = self._prompts(thinking).encoder
            size = (thinking.tokens or LEAST) + _CLOSING if thinking.is_on else 0
        size += encoder.at_most(request.messages)
        if isinstance(request, Completion):
            return size + request.max_tokens
        return size + max(map(encoder.at_most, request.labels))

    def _encode(self, request: Request) -> list[Scored]:
        """Encode a request: one sequence per label; for a completion, the prompt.

        Raises
        ------
        PromptTooLongError
            If a sequence does not fit the context window.
        JudgeError
            If the chat template refuses it, or labels or content cannot be encoded.
        """
        with naming(request):
            sequences = self._sequences(request)
            longest = max(self._length(s) for s in sequences)
            if isinstance(request, Choice | Completion) and self._thinks_before(request):
                self._budget(request, sequences)
        longest += request.max_tokens if isinstance(request, Completion) else 0
        if longest > self._window_tokens:
            raise PromptTooLongError(
                f"a request has {longest} tokens, but the context window of {self.id!r} is "
                f"{self._window_tokens:.0f}; shorten the text or use a judge with a longer window",
                request,
            )
        return sequences

    def _length(self, sequence: Scored) -> int:
        """Return the window positions that a sequence takes (for encoder–decoder models, in the fuller window)."""
        if not self._opening:
            return len(sequence.ids)
        return max(sequence.start, len(sequence.ids) - sequence.start + len(self._opening))

    def _budget(self, request: Choice | Completion, sequences: Sequence[Scored]) -> int:
        """Return the maximum thinking tokens."""
        thinking, answer = self._thinking_of(request), request.max_tokens if isinstance(request, Completion) else 0
        assert thinking is not None  # noqa: S101 - only then it is asked for
        size = max(len(s.ids) for s in sequences) + answer
        return self._prompts(thinking).budget(request, thinking, size, self._window_tokens)

    def _prompt(self, request: Choice | Completion) -> OpenedPrompt:
        """Encode a conversation up to the beginning of the answer or of the thinking before it."""
        from biaslab.judges.local_thoughts import OpenedPrompt

        thinking = self._thinking_of(request)
        if thinking is not None:
            return self._prompts(thinking).prompt(request.messages)
        after = self._encoder.suffix if self._opening else ()
        return OpenedPrompt((*self._encoder.conversation(request.messages), *after), ())

    def _sequences(self, request: Request, thought: tuple[int, ...] = ()) -> list[Scored]:
        """Encode a request after its generated thinking."""
        from biaslab.judges.batches import Scored

        encoder, has_encoder = self._encoder, bool(self._opening)
        after, request = encoder.suffix if has_encoder else (), as_prompt(request)
        if isinstance(request, Likelihood):
            prefix = (*encoder.prefix, *encoder.plain(request.given), *after)
            goes_on = request.given and not has_encoder
            text = encoder.continuation(request.text) if goes_on else encoder.plain(request.text)
            if not prefix:
                prefix, text = (self._end_of_turn[:1], text) if has_encoder else (text[:1], text[1:])
            return [Scored(prefix + text, len(prefix))]
        opened = self._prompt(request)
        prompt = (*opened.ids, *thought, *opened.answer)
        if not prompt:
            raise JudgeError("the conversation is empty for this model; it needs at least one character")
        if isinstance(request, Completion):
            return [Scored(prompt, len(prompt))]
        labels = [encoder.plain(label) if has_encoder else encoder.continuation(label) for label in request.labels]
        return [
            Scored(prompt + ids, len(prompt), encoder.vocabulary.terminators(label, request.labels, labels))
            for label, ids in zip(request.labels, labels, strict=True)
        ]


@contextlib.contextmanager
def naming(request: Request) -> Iterator[None]:
    """Attach the request to every `JudgeError` raised inside."""
    try:
        yield
    except JudgeError as error:
        error.request = request
        raise
