"""Define `Policy`: a generation model that encodes prompts, generates texts and computes their likelihood."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from biaslab.core.errors import InputError, JudgeError, PromptTooLongError
from biaslab.core.output import AnyPath
from biaslab.core.requests import Message
from biaslab.judges.batches import decoder_start, encode_prompts, padded
from biaslab.judges.encoding import ChatEncoder
from biaslab.judges.loading import choose_device, choose_dtype, find_model, load_model
from biaslab.judges.prefix_tree import cache_argument

SOURCE = "{source}"
Ids = tuple[int, ...]


class Policy:
    """Generation model that writes a text for a source.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Causal or encoder–decoder model, on its device. It must cache keys and values; state-space models do not, and
        are refused when asked to generate.
    tokenizer : transformers.PreTrainedTokenizerBase
        The model's tokenizer; its chat template is used if it has one.
    name : str
        Name in the provenance; must identify the weights.
    prompt : str
        The request, one user message, with ``{source}`` for the source's text.

    Raises
    ------
    InputError
        If the prompt lacks ``{source}``.

    Notes
    -----
    The text of sources and references is data: strings of special tokens inside it are encoded as plain characters.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str, prompt: str = SOURCE) -> None:
        if SOURCE not in prompt:
            raise InputError("prompt", prompt, f"a text with {SOURCE} where the source goes")
        self.model, self.tokenizer, self.name, self.prompt = model.eval(), tokenizer, name, prompt
        self.encoder = ChatEncoder(tokenizer, int(model.config.get_text_config().vocab_size))
        self.has_encoder = bool(model.config.is_encoder_decoder)

    def __repr__(self) -> str:
        return f"Policy({self.name!r}, device={str(self.model.device)!r})"

    @cached_property
    def terminators(self) -> Ids:
        """End tokens of a text; references end with the first one."""
        tokens = self.model.generation_config.eos_token_id
        ids = [self.tokenizer.eos_token_id, *(tokens if isinstance(tokens, list) else [tokens])]
        terminators = tuple(dict.fromkeys(i for i in ids if i is not None))
        if not terminators:
            raise JudgeError(f"the model {self.name!r} has no end-of-sequence token, so texts would never end")
        return terminators

    @cached_property
    def opening(self) -> Ids:
        """First tokens of the decoder of an encoder–decoder model; none for a causal model."""
        return (decoder_start(self.model), *self.encoder.prefix) if self.has_encoder else ()

    def read(self, source: str, max_tokens: int) -> Ids:
        """Return the token ids of a source's prompt.

        Raises
        ------
        PromptTooLongError
            If it leaves no room for ``max_tokens`` in the context window.
        """
        ids = self.encoder.conversation([Message("user", self.prompt.replace(SOURCE, source))])
        ids = (*ids, *self.encoder.suffix) if self.has_encoder else ids
        window = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        longest = max(len(ids), len(self.opening) + max_tokens) if self.has_encoder else len(ids) + max_tokens
        if window is not None and longest > window:
            needs = f"{longest} tokens, but the window of {self.name!r} has {window}"
            remedy = "shorten the source or reduce max_tokens"
            raise PromptTooLongError(f"a source of {len(source)} characters needs {needs}; {remedy}")
        return ids

    def target(self, text: str) -> Ids:
        """Return the token ids of a target text, including its end token."""
        ids = self.encoder.plain(text) if self.has_encoder else self.encoder.continuation(text)
        return (*ids, self.terminators[0])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids, without the end token."""
        return self.encoder.decode(ids).strip()

    def log_likelihood(self, prompts: Sequence[Ids], outputs: Sequence[Sequence[Ids]]) -> list[torch.Tensor]:
        """Return log P(output | prompt) in nats for several outputs of each prompt, with gradients if enabled.

        A prompt is read once for all of its outputs; gradients still flow through it.

        Parameters
        ----------
        prompts : sequence of tuple of int
            Token ids.
        outputs : sequence of sequence of tuple of int
            For each prompt, at least one output of at least one token.

        Returns
        -------
        list of torch.Tensor
            One per prompt, of shape (outputs,).
        """
        rows = [output for group in outputs for output in group]
        of = torch.tensor([i for i, group in enumerate(outputs) for _ in group], device=self.model.device)
        reading = EncodedPrompts(self, prompts)
        targets = padded(rows, self.model.device)
        logits = reading.logits[of, None]
        if targets.shape[1] > 1:
            logits = torch.cat([logits, reading.feed(targets[:, :-1], of)], dim=1)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_probs = wide.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        lengths = torch.tensor([len(row) for row in rows], device=targets.device)
        inside = torch.arange(targets.shape[1], device=targets.device) < lengths[:, None]
        sums = log_probs.masked_fill(~inside, 0.0).sum(-1)
        return list(torch.split(sums, [len(group) for group in outputs]))

    def save(self, folder: AnyPath) -> Path:
        """Write a standard transformers folder (safetensors), readable by `load_policy` and `load_judge`.

        Returns
        -------
        Path
            The folder.
        """
        config = self.model.config
        if getattr(config, "quantization_config", None) is not None:  # loaded from GGUF; the weights are dequantised
            del config.quantization_config
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return Path(folder)


def load_policy(
    model: str | Policy, prompt: str | None = None, dtype: str | None = None, device: str | None = None
) -> Policy:
    r"""Load a generation model by name.

    Parameters
    ----------
    model : str or Policy
        ``"smollm2-135m"`` (embedded), a folder, a ``.gguf`` file or a hub identifier; for a policy, only the prompt is
        replaced.
    prompt : str, optional
        As in `Policy`; by default the source alone, or the policy's own.
    dtype : {"float32", "bfloat16", "float16"}, optional
        By default bfloat16 on CUDA, float16 on MPS, and float32 on the CPU.
    device : str, optional
        By default CUDA, else MPS, else the CPU.

    Raises
    ------
    ModelLoadError
        If the model does not exist or cannot be loaded.
    InputError
        If the prompt lacks ``{source}``, or dtype or device is not available.

    Examples
    --------
    >>> policy = load_policy("smollm2-135m", "Summarise in one sentence.\n\n{source}")  # doctest: +SKIP
    """
    if isinstance(model, Policy):
        return model if prompt is None else Policy(model.model, model.tokenizer, model.name, prompt)
    if prompt is not None and SOURCE not in prompt:
        raise InputError("prompt", prompt, f"a text with {SOURCE} where the source goes")
    source, device = find_model(model), choose_device(device)
    loaded, tokenizer = load_model(source, choose_dtype(dtype, device), device)
    return Policy(loaded, tokenizer, f"{source.name}@{source.revision}", prompt or SOURCE)


class EncodedPrompts:
    """Encoded prompts of a policy, ready to be continued; several rows may continue one prompt.

    Parameters
    ----------
    policy : Policy
        The model.
    prompts : sequence of tuple of int
        Token ids; padded on the left, with a mask.

    Attributes
    ----------
    logits : torch.Tensor, shape (prompts, vocabulary)
        Logits of the first token after each prompt.

    Raises
    ------
    JudgeError
        If the model caches something other than keys and values.
    """

    def __init__(self, policy: Policy, prompts: Sequence[Ids]) -> None:
        self.model, self.extra = policy.model, {}
        self._takes = set(inspect.signature(self.model.forward).parameters)
        self._is_causal = not policy.has_encoder
        self._takes_cache = cache_argument(self.model)
        if getattr(self.model, "_is_stateful", False) or not self._takes_cache:
            raise JudgeError(f"the model {policy.name!r} has no key-value cache; choose a transformer")
        if policy.has_encoder:
            states, self.mask = encode_prompts(self.model, list(prompts))
            self.extra = {"encoder_outputs": (states,)}
            fed = torch.tensor([policy.opening], device=states.device).expand(len(prompts), -1)
        else:
            fed = padded([tuple(reversed(p)) for p in prompts], self.model.device).flip(1)
            self.mask = padded([(1,) * len(p) for p in prompts], self.model.device).flip(1)
        self.cache: Any = None
        self.logits = self._run(fed)[:, -1]

    def feed(self, tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Append tokens of shape (new rows, n); row i continues the old row ``rows[i]``.

        Returns
        -------
        torch.Tensor, shape (new rows, n, vocabulary)
            The logits after each token.
        """
        if len(rows) != len(self.mask) or not torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            self.cache.batch_select_indices(rows)
            self.mask = self.mask[rows]
            self.extra = {name: (states[rows],) for name, (states,) in self.extra.items()}
        if self._is_causal:
            self.mask = torch.cat([self.mask, torch.ones_like(tokens)], dim=1)
        return self._run(tokens)

    def _run(self, tokens: torch.Tensor) -> torch.Tensor:
        inputs: dict[str, Any] = {"decoder_input_ids" if self.extra else "input_ids": tokens, **self.extra}
        if "position_ids" in self._takes and self._is_causal:
            inputs["position_ids"] = (self.mask.cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        if self.cache is None and "logits_to_keep" in self._takes:
            inputs["logits_to_keep"] = 1
        inputs[self._takes_cache] = self.cache
        output = self.model(attention_mask=self.mask, use_cache=True, **inputs)
        self.cache = output[self._takes_cache]
        logits: torch.Tensor = output.logits
        return logits
