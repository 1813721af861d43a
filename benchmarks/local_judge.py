"""How fast a local judge answers: the same requests one prompt at a time, in padded batches and as a prefix tree.

    python benchmarks/local_judge.py --data ../shared/data/summeval/means_1600.json.gz --out local_judge.csv

Methods
-------
one       one prompt at a time with plain transformers code, as the papers do (labels on top of the prompt's cache)
batches   padded batches sorted by length, plain transformers code, labels on top of the batch's cache
harness   log-likelihoods of lm-evaluation-harness (``pip install lm-eval``; left out where it is not installed)
tree      ``LocalJudge``: the prefix tree
sampled   N = 20 samples of each prompt with ``generate``, what the exact distribution replaces

Columns: judgements a second, how many times as fast as ``one`` (``sampled`` for scores), tokens of all prompts and
distinct ones, peak memory of the process beyond what it held before (MB), largest |Δ log p| against ``one``.
All methods of a workload run in one process, one after the other, on the same requests.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import DynamicCache

import biaslab as bl
from biaslab import prompts
from biaslab.core import Choice
from biaslab.judges.batches import TokenSet
from biaslab.judges.encoding import Encoder
from biaslab.judges.loading import EMBEDDED, choose_device, choose_dtype, find_model, load_model
from biaslab.judges.local import LocalJudge

SAMPLES = 20
Logprobs = dict[Choice, tuple[float, ...]]


@dataclass(frozen=True)
class Asked:
    """A request as the plain methods take it."""

    request: Choice
    prompt: list[int]
    labels: list[list[int]]
    ends: list[TokenSet]


def comparisons(data: Any, candidates: int, attributes: Sequence[str]) -> Iterator[Choice]:
    """All ordered pairs of the first candidates of each context, on every attribute."""
    for _, rows in data.candidates.groupby("context_id", sort=False):
        texts, context = list(rows["text"])[:candidates], rows["context"].iloc[0]
        for first, second in permutations(texts, 2):
            for attribute in attributes:
                text = prompts.render(
                    "comparative_1", context=context, first=first, second=second, noun=data.noun, attribute=attribute
                )
                noun = data.noun.capitalize()
                yield Choice(text, (f"{noun} A", f"{noun} B"))


def scores(data: Any, candidates: int, attributes: Sequence[str]) -> Iterator[Choice]:
    """Scores from 1 to 100 of the first candidates of each context."""
    for _, rows in data.candidates.groupby("context_id", sort=False):
        context = rows["context"].iloc[0]
        for text in list(rows["text"])[:candidates]:
            for attribute in attributes:
                prompt = prompts.render(
                    "scoring_1", context=context, candidate=text, noun=data.noun, attribute=attribute, low=1, high=100
                )
                yield Choice(prompt, tuple(str(n) for n in range(1, 101)))


WORKLOADS: dict[str, tuple[Callable[..., Iterator[Choice]], int, int]] = {
    "8x1": (comparisons, 8, 1),
    "16x1": (comparisons, 16, 1),
    "16x4": (comparisons, 16, 4),
    "scores": (scores, 16, 1),
}


def encode(requests: Sequence[Choice], tokenizer: Any, size: int) -> list[Asked]:
    """Encode with the tokenizer's own chat template; only the terminators come from biaslab."""
    encoder, asked = Encoder(tokenizer, size), []
    for request in requests:
        turns = [{"role": m.role, "content": m.content} for m in request.messages]
        prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=False)
        labels = [list(encoder.continuation(label)) for label in request.labels]
        ids = [tuple(label) for label in labels]
        ends = [encoder.vocabulary.terminators(label, request.labels, ids) for label in request.labels]
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
def sampled(model: Any, tokenizer: Any, asked: Sequence[Asked], tokens: int) -> None:
    """Sample N answers of each prompt, one prompt at a time, as G-Eval does."""
    for a in asked:
        ids = torch.tensor([a.prompt], device=model.device)
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            max_new_tokens=tokens,
            num_return_sequences=SAMPLES,
            pad_token_id=tokenizer.eos_token_id,
        )


def tree(judge: LocalJudge, asked: Sequence[Asked]) -> Logprobs:
    """Through `LocalJudge`, everything included: encoding, tree, replies."""
    return {request: reply.logprobs or () for request, reply in judge.ask(a.request for a in asked)}  # type: ignore[misc]


class Memory(threading.Thread):
    """Watches the resident memory of this process while a method runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before, self.peak, self.over = self.resident(), 0.0, threading.Event()

    @staticmethod
    def resident() -> float:
        """Megabytes in memory now; 0 where the system does not say."""
        status = Path("/proc/self/status")
        lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)

    def run(self) -> None:
        """Keep the largest value until it is over."""
        while not self.over.wait(0.02):
            self.peak = max(self.peak, self.resident() - self.before)


def release() -> None:
    """Give freed memory back to the system, where the C library can, so that methods do not inherit it."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def measure(method: Callable[[], Logprobs | None]) -> tuple[Logprobs, float, float]:
    """Run a method once; return what it found, seconds and megabytes."""
    release()
    memory = Memory()
    memory.start()
    begin = time.perf_counter()
    found = method()
    seconds = time.perf_counter() - begin
    memory.over.set()
    memory.join()
    return found or {}, seconds, memory.peak


def run_workload(name: str, options: argparse.Namespace, data: Any, loaded: tuple[Any, Any]) -> list[dict[str, Any]]:
    """Run every method on one workload; slow ones on its first requests only, if told so."""
    make, candidates, attributes = WORKLOADS[name]
    model, tokenizer = loaded
    requests = list(dict.fromkeys(make(data, candidates, list(data.attributes)[:attributes])))
    asked = encode(requests, tokenizer, model.config.get_text_config().vocab_size)
    part = asked[:: max(1, len(asked) // options.slow)] if options.slow else asked
    judge = LocalJudge.from_loaded(model, tokenizer, "benchmark")
    list(judge.ask([Choice("warm up", ("A", "B"))]))
    methods: dict[str, tuple[Sequence[Asked], Callable[[], Logprobs | None]]] = {
        "one": (part, lambda: one(model, part)),
        "batches": (part, lambda: batches(model, part)),
        "harness": (part, lambda: harness(model, tokenizer, part)),
        "sampled": (part, lambda: sampled(model, tokenizer, part, options.answer_tokens)),
        "tree": (asked, lambda: tree(judge, asked)),
    }
    if importlib.util.find_spec("lm_eval") is None or make is scores:
        del methods["harness"]
    del methods["batches" if make is scores else "sampled"]  # a batch of 100 labels' caches would not fit
    rows: list[dict[str, Any]] = []
    reference: Logprobs = {}
    for method, (taken, run) in methods.items():
        if method not in options.methods:
            continue
        found, seconds, megabytes = measure(run)
        reference = found if method == "one" else reference
        rows.append(report(name, method, taken, found, seconds, megabytes, reference))
        print(rows[-1], flush=True)
    base = {row["method"]: row["per_second"] for row in rows}
    against = base.get("sampled", base.get("one", float("nan")))
    return [{**row, "ratio": row["per_second"] / against} for row in rows]


def report(
    workload: str, method: str, asked: Sequence[Asked], found: Logprobs, seconds: float, peak: float, wanted: Logprobs
) -> dict[str, Any]:
    """Make one line of the table."""
    sequences = [a.prompt + ids for a in asked for ids in a.labels]
    common = [(found[r], wanted[r]) for r in found if r in wanted]
    differences = [abs(x - y) for a, b in common for x, y in zip(a, b, strict=True) if max(x, y) > -60]
    return {
        "workload": workload,
        "method": method,
        "judgements": len(asked),
        "seconds": round(seconds, 2),
        "per_second": round(len(asked) / seconds, 3),
        "tokens": sum(len(a.prompt) + sum(map(len, a.labels)) for a in asked),
        "distinct": len({hash(tuple(s[:n])) for s in sequences for n in range(1, len(s) + 1)}),
        "peak_mb": round(peak),
        "max_abs_difference": max(differences, default=float("nan")),
    }


def main() -> None:
    """Read the options, run, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="SummEval's means; without it the bundled set 'graded' is used")
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--dtype")
    parser.add_argument("--device")
    parser.add_argument("--contexts", type=int, default=1)
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    known = ["one", "batches", "harness", "sampled", "tree"]
    parser.add_argument("--methods", nargs="+", default=known, choices=known)
    parser.add_argument("--slow", type=int, default=0, help="requests for all but the tree, evenly chosen; 0: all")
    parser.add_argument("--answer-tokens", type=int, default=8, help="tokens of a sampled answer")
    parser.add_argument("--out", type=Path, default=Path("local_judge.csv"))
    options = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    data = bl.load_dataset("summeval" if options.data else "graded", path=options.data, limit=options.contexts)
    device = choose_device(options.device)
    source = find_model(options.model)
    loaded = load_model(source, choose_dtype(options.dtype, device), device)
    rows = [row for name in options.workloads for row in run_workload(name, options, data, loaded)]
    table = pd.DataFrame(rows)
    table.to_csv(options.out, index=False)
    print(f"\n{source.name} ({source.revision}), {loaded[0].dtype}, {device}, {torch.get_num_threads()} threads")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
