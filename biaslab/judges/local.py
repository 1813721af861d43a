"""`LocalJudge`: a Hugging Face model on this machine, causal or encoder–decoder, with exact label distributions."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from biaslab.core.errors import InputError, JudgeError, OutOfMemoryError, PromptTooLongError
from biaslab.core.interfaces import BaseJudge, Closable, ReplyBatch, require_kinds
from biaslab.core.output import html_table
from biaslab.core.requests import Choice, Completion, Likelihood, Request, as_prompt, canonical_json, thinking_of
from biaslab.core.trials import Reply, Usage
from biaslab.judges import loading
from biaslab.judges.loading import EMBEDDED, DeviceMap, choose_main_device, find_model, input_device, load_model
from biaslab.judges.thinking import LEAST, ThinkingOption
from biaslab.prompts.parsing.thoughts import answered

if TYPE_CHECKING:
    from biaslab.judges.batches import BatchScorer, Scored
    from biaslab.judges.encoding import ChatEncoder
    from biaslab.judges.generation import Prompted, TextGenerator
    from biaslab.judges.local_thoughts import OpenedPrompt, ThoughtPrompts, ThoughtWriter
    from biaslab.judges.prefix_tree import TreeScorer

_CLOSING = 64  # maximum number of tokens that open and close a thought


class LoadedModel(NamedTuple):
    """A model in memory, its tokenizer, and the name under which its replies are stored."""

    model: Any
    tokenizer: Any
    name: str


class LocalJudge(BaseJudge):
    """A language model on this machine.

    Parameters
    ----------
    model : str
        ``"smollm2-135m"`` (the embedded judge), a local folder, a ``.gguf`` file or a hub identifier.
    dtype : {"float32", "bfloat16", "float16"}, optional
        By default bfloat16 on CUDA, float16 on MPS, and float32 on the CPU.
    device : str, optional
        By default CUDA, else MPS, else the CPU.
    device_map : str or mapping, optional
        For models that do not fit on one device, instead of `device`: ``"auto"`` (also ``"balanced"``,
        ``"balanced_low_0"``, ``"sequential"``) spreads the layers over all GPUs, then main memory, then the disk; a
        mapping gives the device of each part by name, with ``"cpu"`` or ``"disk"`` for offloading. Uses accelerate.
    gguf_file : str, optional
        Name of a GGUF file inside a folder or a hub repository.
    revision : str, optional
        Branch, tag or commit of a hub repository.
    max_batch_tokens : int, optional
        Maximum number of tokens per batch, including padding; determines memory use. By default as many as fit in free
        memory, up to 4,096. Halved automatically if memory runs out.
    thinking : mapping, int, "off" or "auto", optional
        Thinking budget of a reasoning model, as in `biaslab.ApiJudge`: ``{"tokens": 1024}`` or 1024 limits a thought;
        ``{"effort": "low"}`` allows 4,096 tokens and passes it to the template; ``"auto"`` allows what the context
        window holds, up to 32,768; ``"off"`` skips the thought. Part of the id if set.

    Attributes
    ----------
    id : str
        Name, content fingerprint or commit, dtype, and ``thinking``: everything a reply depends on. The chat template
        is one of the model's files, so the fingerprint covers it. Devices are not part of the id.
    device : str
        Where inputs go and outputs come from, also for a model spread over several devices.

    Raises
    ------
    ModelLoadError
        Immediately if the model does not exist; at the first request if it cannot be loaded.
    InputError
        If dtype, device or device_map is not available here, device and device_map are both given, or thinking is
        invalid.

    Notes
    -----
    Weights are loaded at the first request that is not answered by a store, so a rerun from the store loads nothing.

    * `Choice`: log P(label, terminator | conversation) by teacher forcing (Liusie et al., Eq. 3). A label is
      terminated by anything that does not continue it, such as the end of the turn, a full stop or a space, so "1" is
      not a prefix of "10". (If only the end of the turn counted, a judge that likes to explain itself after "Summary
      A" would be compared on where it stops, not on what it chose.)
    * `Completion`: greedy, or sampled by inverting the cumulative distribution at uniform numbers that depend only on
      the request, so that a reply does not depend on its batch.
    * `Likelihood`: log P(token | everything before it); encoder–decoder models read `given` in the encoder.

    With ``thinking``, a thought is generated before each answer, at the request's temperature (1 for a `Choice`),
    until its closing tag, the end of the turn, or its budget, at which it is closed with the model family's own tag
    (``</think>``). A `Choice` then returns the exact distribution over labels **given that thought**;
    `biaslab.MeanOverThoughts` averages over several. Without ``thinking``, the model's default is unchanged, unless a
    request sets its own budget.

    The text of a message is always data: strings of special tokens inside it are encoded as plain characters.

    Examples
    --------
    >>> judge = LocalJudge()                                                            # doctest: +SKIP
    >>> request = Choice("Which is a fruit, A: apple or B: car?", labels=("A", "B"))    # doctest: +SKIP
    >>> [(_, reply)] = judge.ask([request])                                             # doctest: +SKIP
    """

    kinds: frozenset[type] = frozenset({Choice, Completion, Likelihood})
    encodes = thinks = True

    def __init__(
        self,
        model: str | LoadedModel = EMBEDDED,
        dtype: str | None = None,
        device: str | None = None,
        *,
        device_map: DeviceMap | None = None,
        gguf_file: str | None = None,
        revision: str | None = None,
        max_batch_tokens: int | None = None,
        thinking: Mapping[str, Any] | str | int | None = None,
    ) -> None:
        self._thinking = ThinkingOption.of(thinking)
        if isinstance(model, LoadedModel):
            given = {"dtype": dtype, "device": device, "device_map": device_map, "gguf_file": gguf_file}
            for option, value in (given | {"revision": revision}).items():
                if value is not None:
                    raise InputError(option, value, "None for a model that is already loaded")
            self._loaded, name = (model.model, model.tokenizer), model.name
            self.device, self.dtype = str(input_device(model.model)), str(model.model.dtype).removeprefix("torch.")
        else:
            self._source = find_model(model, gguf_file, revision)
            self.device = (
                loading.choose_device(device) if device_map is None else choose_main_device(device_map, device)
            )
            self.dtype, name = loading.choose_dtype(dtype, self.device), f"{self._source.name}@{self._source.revision}"
        self.id = f"local:{name}:{self.dtype}{_in_id(self._thinking)}"
        self._max_batch_tokens, self._device_map = max_batch_tokens, device_map

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, device={self.device!r})"

    def _repr_html_(self) -> str:
        names = ", ".join(sorted(kind.__name__ for kind in self.kinds))
        return html_table(type(self).__name__, [("id", self.id), ("device", str(self.device)), ("answers", names)])

    @classmethod
    def from_loaded(cls, model: Any, tokenizer: Any, name: str, **options: Any) -> Self:
        """Wrap a model and tokenizer that are already in memory.

        Parameters
        ----------
        model : transformers.PreTrainedModel
            In evaluation mode, on its device, or spread over several by accelerate.
        tokenizer : transformers.PreTrainedTokenizerBase
            Its tokenizer.
        name : str
            Must identify the weights: it becomes the judge's id, under which replies are stored.
        **options
            Those of the class that do not concern loading, such as ``max_batch_tokens``.
        """
        return cls(LoadedModel(model, tokenizer, name), **options)

    @property
    def thought_tokens(self) -> int:  # type: ignore[override] # with "auto" it is found out
        """Maximum thinking tokens before an answer; with "auto", those of the longest thought so far."""
        if self._thinking is None or not self._thinking.is_on:
            return 0
        writer: ThoughtWriter | None = self.__dict__.get("_writer")
        return self._thinking.tokens or max(LEAST, 0 if writer is None else writer.longest)

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if a request is unsupported, exceeds the context window or cannot be encoded."""
        for request in requests:
            require_kinds(self, [request])
            with naming(request):
                short = self._at_most(request) <= self._window_tokens
            if not short:
                self._encode(request)

    def packs(self, requests: Iterable[Request]) -> Closable[ReplyBatch]:
        """Yield replies as soon as a forward pass or batch completes them, holding one window in memory at a time."""
        for window in self._windows(requests):
            asked = [r for r in window if isinstance(r, Choice | Completion) and self._thinks_before(r)]
            for request in asked:
                del window[request]
            yield from self._answer(window)
            yield from self._think(asked) if asked else ()

    def _windows(self, requests: Iterable[Request]) -> Iterator[dict[Request, list[Scored]]]:
        """Encode requests into windows of sufficient size, within which prefixes are shared."""
        from biaslab.judges.batches import window_tokens

        window: dict[Request, list[Scored]] = {}
        tokens, most = 0, window_tokens()
        for request in requests:
            require_kinds(self, [request])
            if request not in window:
                window[request] = self._encode(request)
                tokens += sum(len(s.ids) for s in window[request])
            if tokens >= most:
                yield window
                window, tokens = {}, 0
        if window:
            yield window

    def _answer(self, encoded: Mapping[Request, list[Scored]]) -> Iterator[list[tuple[Request, Reply]]]:
        """Score likelihoods and choices, and generate completions."""
        scored: dict[Request, list[Scored]] = {r: e for r, e in encoded.items() if not isinstance(r, Completion)}
        written = {r: e[0].ids for r, e in encoded.items() if isinstance(r, Completion)}
        yield from self._score(scored) if scored else ()
        yield from self._complete(written) if written else ()

    def _think(self, requests: Sequence[Choice | Completion]) -> Iterator[list[tuple[Request, Reply]]]:
        """Answer requests, each after its own thinking."""
        asked = {}
        for request in requests:
            with naming(request):
                asked[request] = self._prompt(request).ids, self._budget(request, self._sequences(request))
        for thoughts in self._writer.write(asked):
            encoded: dict[Request, list[Scored]] = {r: self._sequences(r, each.ids) for r, each in thoughts.items()}
            for pack in self._answer(encoded):
                yield [(r, thoughts[r].before(reply)) for r, reply in pack]  # type: ignore[index]

    @cached_property
    def _writer(self) -> ThoughtWriter:
        from biaslab.judges.local_thoughts import ThoughtWriter

        return ThoughtWriter(self._prompts(ThinkingOption(mode="auto")), self._generator)

    @cached_property
    def _scorer(self) -> BatchScorer | TreeScorer:
        from biaslab.judges.scorers import choose_scorer

        return choose_scorer(self._loaded[0], self._max_batch_tokens, self._opening)

    @cached_property
    def _generator(self) -> TextGenerator:
        from biaslab.judges.batches import batch_tokens, cached_tokens
        from biaslab.judges.generation import choose_generator

        model, most = self._loaded[0], self._max_batch_tokens
        sizes = (most or batch_tokens(model), most or cached_tokens(model))
        return choose_generator(model, self._end_of_turn, *sizes, self._opening)

    def _score(self, encoded: Mapping[Request, list[Scored]]) -> Iterator[list[tuple[Request, Reply]]]:
        """Score every different sequence once; a request is answered when the last of its sequences is."""
        askers: dict[Scored, dict[Request, None]] = {}
        for request, sequences in encoded.items():
            for sequence in sequences:
                askers.setdefault(sequence, {})[request] = None
        order, values = list(askers), dict[Any, list[float]]()
        with naming_index([next(iter(requests)) for requests in askers.values()]):
            for pack in self._scorer.packs(order):
                values |= {order[index]: scored for index, scored in pack}
                met = dict.fromkeys(request for index, _ in pack for request in askers[order[index]])
                done = {each: encoded[each] for each in met if all(one in values for one in encoded[each])}
                if done:
                    yield [(each, self._reply(each, of, [values[one] for one in of])) for each, of in done.items()]

    def _reply(self, request: Request, sequences: Sequence[Scored], values: Sequence[Sequence[float]]) -> Reply:
        """Return the reply to a request from the values of its sequences."""
        usage = Usage(prompt_tokens=max(len(sequence.ids) for sequence in sequences))
        if isinstance(request, Likelihood):
            return Reply(logprobs=tuple(values[0]), usage=usage)
        return Reply(logprobs=tuple(min(math.fsum(each), 0.0) for each in values), usage=usage)

    def _complete(self, prompts: Mapping[Completion, tuple[int, ...]]) -> Iterator[list[tuple[Request, Reply]]]:
        from biaslab.judges.generation import Prompted

        rows = [Prompted(request, prompt, _seed(request)) for request, prompt in prompts.items()]
        with naming_index(list(prompts)):
            for batch in self._generator.generate(rows):
                done = [(rows[index], ids, stopped) for index, ids, stopped in batch]
                yield [(row.request, self._generated(row, ids, stopped)) for row, ids, stopped in done]

    def _generated(self, row: Prompted, ids: list[int], stopped: bool) -> Reply:
        usage = Usage(prompt_tokens=len(row.prompt), completion_tokens=len(ids))
        reason = "stop" if stopped else "length"
        return answered(Reply(text=self._encoder.decode(ids), finish_reason=reason, usage=usage))

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
    def _encoder(self) -> ChatEncoder:
        from biaslab.judges.encoding import ChatEncoder

        model, tokenizer = self._loaded
        size = int(model.config.get_text_config().vocab_size)
        return ChatEncoder(tokenizer, size)

    def _thinking_of(self, request: Request) -> ThinkingOption | None:
        """Return the thinking budget of the request or else the judge; None for the model's default."""
        budget = thinking_of(request)
        return self._thinking if budget is None else (self._thinking or ThinkingOption()).at(budget)

    def _thinks_before(self, request: Request) -> bool:
        thinking = self._thinking_of(request) if isinstance(request, Choice | Completion) else None
        return thinking is not None and thinking.is_on

    def _prompts(self, thinking: ThinkingOption) -> ThoughtPrompts:
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
            window = f"the context window of {self.id!r} is {self._window_tokens:.0f}"
            remedy = "shorten the text or use a judge with a longer window"
            raise PromptTooLongError(f"a request has {longest} tokens, but {window}; {remedy}", request)
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
        ends = [encoder.vocabulary.terminators(label, request.labels, labels) for label in request.labels]
        return [Scored(prompt + ids, len(prompt), end) for end, ids in zip(ends, labels, strict=True)]


@contextlib.contextmanager
def naming(request: Request) -> Iterator[None]:
    """Attach the request to every `JudgeError` raised inside."""
    try:
        yield
    except JudgeError as error:
        error.request = request
        raise


@contextlib.contextmanager
def naming_index(requests: Sequence[Request]) -> Iterator[None]:
    """Attach the request to an `OutOfMemoryError` raised inside."""
    try:
        yield
    except OutOfMemoryError as error:
        error.request = requests[error.index]
        raise


def _in_id(thinking: ThinkingOption | None) -> str:
    return "" if thinking is None else f":{canonical_json({'thinking': thinking.setting})}"


def _seed(request: Completion) -> int:
    """Random seed of a request, from everything the reply depends on."""
    from biaslab.core.requests import request_key

    return int(hashlib.sha256(request_key(request, "sampling").encode()).hexdigest()[:16], 16)
