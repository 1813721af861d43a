"""The plain ways to ask a local judge, in plain transformers code, beside which biaslab is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from biaslab.core import Choice
from biaslab.judges.batches import TokenSet
from biaslab.judges.encoding import ChatEncoder

SAMPLES = 20
Logprobs = dict[Choice, tuple[float, ...]]


@dataclass(frozen=True)
class Asked:
    """A request as the plain methods take it."""

    request: Any
    prompt: list[int]
    labels: list[list[int]]
    ends: list[TokenSet]


def encode(requests: Sequence[Any], tokenizer: Any, size: int) -> list[Asked]:
    """Encode with the tokenizer's own chat template; only the terminators come from biaslab."""
    encoder, asked = ChatEncoder(tokenizer, size), []
    for request in requests:
        choices = request.labels if isinstance(request, Choice) else ()
        turns = [{"role": m.role, "content": m.content} for m in request.messages]
        prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=False)
        labels = [list(encoder.continuation(label)) for label in choices]
        ids = [tuple(label) for label in labels]
        ends = [encoder.vocabulary.terminators(label, request.labels, ids) for label in choices]
        asked.append(Asked(request, list(prompt), labels, ends))
    return asked


def read_labels(first: torch.Tensor, later: torch.Tensor, one: Asked) -> tuple[float, ...]:
    """Sum log-probabilities of label tokens and terminator, given the logits after the prompt and after the labels."""
    values = []
    start = first.float().log_softmax(-1)
    for logits, ids, ends in zip(later, one.labels, one.ends, strict=True):
        after = logits[: len(ids)].float().log_softmax(-1)
        value = float(start[ids[0]]) + sum(float(after[i, token]) for i, token in enumerate(ids[1:]))
        values.append(value + float(after[len(ids) - 1, list(ends.ids)].logsumexp(0)))
    return tuple(values)


@torch.inference_mode()
def ask_padded(model: Any, asked: Sequence[Asked]) -> list[tuple[float, ...]]:
    """One left-padded forward pass over prompts, then one over all their labels on top of the cache."""
    longest, width = max(len(a.prompt) for a in asked), max(len(ids) for a in asked for ids in a.labels)
    ids = torch.tensor([[0] * (longest - len(a.prompt)) + a.prompt for a in asked], device=model.device)
    mask = torch.tensor([[0] * (longest - len(a.prompt)) + [1] * len(a.prompt) for a in asked], device=model.device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    padded = {"attention_mask": mask, "position_ids": positions} if len(asked) > 1 else {}
    output = model(input_ids=ids, use_cache=True, past_key_values=DynamicCache(), logits_to_keep=1, **padded)
    cache, count = output.past_key_values, len(asked[0].labels)
    cache.batch_repeat_interleave(count)
    tails = torch.tensor([i + [0] * (width - len(i)) for a in asked for i in a.labels], device=model.device)
    mask = torch.cat([mask.repeat_interleave(count, 0), torch.ones_like(tails)], 1)
    positions = (mask.cumsum(-1) - 1)[:, longest:]
    later = model(input_ids=tails, attention_mask=mask, position_ids=positions, past_key_values=cache).logits
    groups = later.view(len(asked), count, width, -1)
    return [read_labels(output.logits[i, -1], groups[i], a) for i, a in enumerate(asked)]


def one(model: Any, asked: Sequence[Asked]) -> Logprobs:
    """One prompt at a time."""
    return {a.request: ask_padded(model, [a])[0] for a in asked}


def batches(model: Any, asked: Sequence[Asked], tokens: int = 4096) -> Logprobs:
    """Ask in padded batches, sorted by length."""
    found: Logprobs = {}
    order = sorted(asked, key=lambda a: -len(a.prompt))
    while order:
        size = max(1, tokens // (len(order[0].prompt) + sum(map(len, order[0].labels))))
        found.update(zip((a.request for a in order[:size]), ask_padded(model, order[:size]), strict=True))
        order = order[size:]
    return found


def harness(model: Any, tokenizer: Any, asked: Sequence[Asked]) -> None:
    """Log-likelihoods of the labels by lm-evaluation-harness; it knows no terminators, so only its time is used."""
    from lm_eval.api.instance import Instance  # type: ignore[import-not-found,unused-ignore]
    from lm_eval.models.huggingface import HFLM  # type: ignore[import-not-found,unused-ignore]

    wrapped = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=8)
    pairs = [(tokenizer.decode(a.prompt), label) for a in asked for label in a.request.labels]
    instances = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)]
    wrapped.loglikelihood(instances, disable_tqdm=True)


@torch.inference_mode()
def sampled(model: Any, tokenizer: Any, asked: Sequence[Asked], tokens: int, at_once: int = SAMPLES) -> None:
    """Sample N answers of each prompt, one prompt at a time, so many answers in one call of ``generate``."""
    for a in asked:
        ids = torch.tensor([a.prompt], device=model.device)
        for _ in range(0, SAMPLES, at_once):
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                num_return_sequences=at_once,
                pad_token_id=tokenizer.eos_token_id,
            )
