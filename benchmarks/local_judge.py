"""How fast a local judge answers: the same requests one prompt at a time, in padded batches and as a prefix tree.

    python benchmarks/local_judge.py --data ../shared/data/summeval/means_1600.json.gz --out local_judge.csv
    python benchmarks/local_judge.py --data … --random 8b --device cuda         # 8 B Llama, random weights, bfloat16

Methods
-------
one       one prompt at a time with plain transformers code, as the papers do (labels on top of the prompt's cache)
batches   padded batches sorted by length, plain transformers code, labels on top of the batch's cache
harness   log-likelihoods of lm-evaluation-harness (``pip install lm-eval``; left out where it is not installed)
sampled   N = 20 samples of each prompt in one call of ``generate``: what the exact distribution replaces
tree      ``LocalJudge``: the prefix tree

Workloads: ``8x1``, ``16x1``, ``16x4`` are all ordered comparisons of so many candidates on so many attributes,
``scores`` the label distribution over 1 to 100 of 16 candidates, ``cot`` 20 samples of reasons and a score for each
of 16 candidates (``sampled`` against `LocalJudge` completions, which read a prompt once).

Columns: judgements a second, how many times as fast as ``one`` (``sampled`` for scores and cot), tokens of all prompts
and distinct ones, peak memory of the process beyond what it held before (MB; on a GPU the device's), largest |Δ log p|
against ``one``, and the share of the floor: the time that distinct tokens × 2 × parameters take at the rate of a large
matrix product, measured in the same run, over the time taken.
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
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from plain_methods import SAMPLES, Asked, Logprobs, batches, encode, harness, one, sampled
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

import biaslab as bl
from biaslab import prompts
from biaslab.core import Choice, Completion
from biaslab.judges.loading import EMBEDDED, choose_device, choose_dtype, find_model, load_model
from biaslab.judges.local import LocalJudge

SIZES = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
}


def comparisons(data: Any, candidates: int, attributes: Sequence[str]) -> Iterator[Choice]:
    """All ordered pairs of the first candidates of each context, on every attribute."""
    for context, texts in contexts(data, candidates):
        for first, second in permutations(texts, 2):
            for attribute in attributes:
                text = prompts.render(
                    "comparative_1", context=context, first=first, second=second, noun=data.noun, attribute=attribute
                )
                noun = data.noun.capitalize()
                yield Choice(text, (f"{noun} A", f"{noun} B"))


def scores(data: Any, candidates: int, attributes: Sequence[str]) -> Iterator[Choice]:
    """Scores from 1 to 100 of the first candidates of each context."""
    for prompt in scoring_prompts(data, candidates, attributes):
        yield Choice(prompt, tuple(str(n) for n in range(1, 101)))


def reasons(data: Any, candidates: int, attributes: Sequence[str]) -> Iterator[Completion]:
    """Reasons and a score, 20 samples of each; replicates of a prompt stand together."""
    for prompt in scoring_prompts(data, candidates, attributes):
        text = prompt.removesuffix("Answer with one whole number.") + "Give your reasons first, then the number."
        for replicate in range(SAMPLES):
            yield Completion(text, temperature=1.0, max_tokens=options.answer_tokens, replicate=replicate)


def scoring_prompts(data: Any, candidates: int, attributes: Sequence[str]) -> Iterator[str]:
    """Prompts that ask for a number from 1 to 100."""
    for context, texts in contexts(data, candidates):
        for text in texts:
            for attribute in attributes:
                words = {"noun": data.noun, "attribute": attribute, "low": 1, "high": 100}
                yield prompts.render("scoring_1", context=context, candidate=text, **words)


def contexts(data: Any, candidates: int) -> Iterator[tuple[str, list[str]]]:
    """Each context with its first candidates."""
    for _, rows in data.candidates.groupby("context_id", sort=False):
        yield rows["context"].iloc[0], list(rows["text"])[:candidates]


WORKLOADS: dict[str, tuple[Callable[..., Iterator[Any]], int, int]] = {
    "8x1": (comparisons, 8, 1),
    "16x1": (comparisons, 16, 1),
    "16x4": (comparisons, 16, 4),
    "scores": (scores, 16, 1),
    "cot": (reasons, 16, 1),
}


def tree(judge: LocalJudge, requests: Sequence[Any]) -> Logprobs:
    """Through `LocalJudge`, everything included: encoding, tree, replies."""
    return {request: reply.logprobs or () for request, reply in judge.ask(requests)}  # type: ignore[misc]


class Memory(threading.Thread):
    """Watches the memory of this process, or of the GPU, while a method runs."""

    def __init__(self, device: str) -> None:
        super().__init__(daemon=True)
        self.device = device
        self.before, self.peak, self.over = self.held(), 0.0, threading.Event()

    def held(self) -> float:
        """Megabytes in memory now; 0 where the system does not say."""
        if self.device.startswith("cuda"):
            return torch.cuda.memory_allocated() / 2**20
        status = Path("/proc/self/status")
        lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)

    def run(self) -> None:
        """Keep the largest value until it is over."""
        while not self.over.wait(0.02):
            self.peak = max(self.peak, self.held() - self.before)


def release() -> None:
    """Give freed memory back to the system, where the C library can, so that methods do not inherit it."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def wait(device: str) -> None:
    """Let a GPU finish what it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def measure(method: Callable[[], Logprobs | None], device: str) -> tuple[Logprobs, float, float]:
    """Run a method once; return what it found, seconds and megabytes."""
    release()
    memory = Memory(device)
    memory.start()
    begin = time.perf_counter()
    found = method()
    wait(device)
    seconds = time.perf_counter() - begin
    memory.over.set()
    memory.join()
    return found or {}, seconds, memory.peak


def matmul_rate(device: str, dtype: torch.dtype) -> float:
    """Measure floating-point operations a second of a large matrix product, the best of five."""
    size = 8192 if device.startswith("cuda") else 2048
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best = float("inf")
    for _ in range(6):
        wait(device)
        begin = time.perf_counter()
        left @ right
        wait(device)
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best


def run_workload(name: str, data: Any, loaded: tuple[Any, Any], rate: float) -> list[dict[str, Any]]:
    """Run every method on one workload; slow ones on a part of its requests only, if told so."""
    make, candidates, attributes = WORKLOADS[name]
    model, tokenizer = loaded
    requests = list(dict.fromkeys(make(data, candidates, list(data.attributes)[:attributes])))
    prompted = [r for r in requests if isinstance(r, Choice) or r.replicate == 0]
    asked = encode(prompted, tokenizer, model.config.get_text_config().vocab_size)
    part = asked[:: max(1, len(asked) // options.slow)] if options.slow else asked
    judge = LocalJudge.from_loaded(model, tokenizer, "benchmark")
    list(judge.ask([Choice("warm up", ("A", "B")), Completion("warm up", max_tokens=2)]))
    methods: dict[str, tuple[Sequence[Asked], Callable[[], Logprobs | None]]] = {
        "one": (part, lambda: one(model, part)),
        "batches": (part, lambda: batches(model, part)),
        "harness": (part, lambda: harness(model, tokenizer, part)),
        "sampled": (part, lambda: sampled(model, tokenizer, part, options.answer_tokens if make is reasons else 4)),
        "tree": (asked, lambda: tree(judge, requests)),
    }
    fitting = {comparisons: ["one", "batches", "harness", "tree"], scores: ["one", "sampled", "tree"]}
    rows: list[dict[str, Any]] = []
    reference: Logprobs = {}
    for method in fitting.get(make, ["sampled", "tree"]):
        if method not in options.methods or (method == "harness" and importlib.util.find_spec("lm_eval") is None):
            continue
        taken, run = methods[method]
        found, seconds, megabytes = measure(run, str(model.device))
        reference = found if method == "one" else reference
        row = report(taken, found, seconds, reference)
        weights = sum(p.numel() for p in model.parameters()) - model.get_input_embeddings().weight.numel()
        floor = 2 * row["distinct"] * weights / rate if make is not reasons else float("nan")
        rows.append({"workload": name, "method": method, **row, "peak_mb": round(megabytes), "floor": floor / seconds})
        print(rows[-1], flush=True)
    base = {row["method"]: row["per_second"] for row in rows}
    against = base.get("sampled", base.get("one", float("nan")))
    return [{**row, "ratio": row["per_second"] / against} for row in rows]


def report(asked: Sequence[Asked], found: Logprobs, seconds: float, wanted: Logprobs) -> dict[str, Any]:
    """Make one line of the table."""
    sequences = [a.prompt + ids for a in asked for ids in a.labels or [[]]]
    common = [(found[r], wanted[r]) for r in found if r in wanted]
    differences = [abs(x - y) for a, b in common for x, y in zip(a, b, strict=True) if max(x, y) > -60]
    return {
        "judgements": len(asked),
        "seconds": round(seconds, 2),
        "per_second": round(len(asked) / seconds, 3),
        "tokens": sum(len(a.prompt) + sum(map(len, a.labels)) for a in asked),
        "distinct": len({hash(tuple(s[:n])) for s in sequences for n in range(1, len(s) + 1)}),
        "max_abs_difference": max(differences, default=float("nan")),
    }


def load() -> tuple[str, tuple[Any, Any]]:
    """Load the model that was named, or make one with random weights and the embedded judge's tokenizer."""
    device, source = choose_device(options.device), find_model(options.model)
    dtype = choose_dtype(options.dtype, device)
    if not options.random:
        return f"{source.name} ({source.revision})", load_model(source, dtype, device)
    tokenizer = AutoTokenizer.from_pretrained(source.location, gguf_file=source.gguf_file)
    config = LlamaConfig(
        **SIZES[options.random],
        num_key_value_heads=SIZES[options.random]["num_attention_heads"] // 4,
        vocab_size=len(tokenizer),
        max_position_embeddings=8192,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, dtype))
    with torch.device(device):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    return f"Llama with {sum(p.numel() for p in model.parameters()) / 1e9:.2f} B random weights", (model, tokenizer)


def main() -> None:
    """Run, print and write the table."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    data = bl.load_dataset("summeval" if options.data else "graded", path=options.data, limit=options.contexts)
    name, loaded = load()
    device, dtype = str(loaded[0].device), loaded[0].dtype
    rate = matmul_rate(device, dtype)
    rows = [row for workload in options.workloads for row in run_workload(workload, data, loaded, rate)]
    table = pd.DataFrame(rows)
    table.to_csv(options.out, index=False)
    print(f"\n{name}, {dtype}, {device}, {torch.get_num_threads()} threads, matrix product {rate / 1e12:.3g} TFLOP/s")
    print(table.to_string(index=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="SummEval's means; without it the bundled set 'graded' is used")
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--random", choices=list(SIZES), help="a Llama of this size with random weights instead")
    parser.add_argument("--dtype")
    parser.add_argument("--device")
    parser.add_argument("--contexts", type=int, default=1)
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    known = ["one", "batches", "harness", "sampled", "tree"]
    parser.add_argument("--methods", nargs="+", default=known, choices=known)
    parser.add_argument("--slow", type=int, default=0, help="prompts for all but the tree, evenly chosen; 0: all")
    parser.add_argument("--answer-tokens", type=int, default=64, help="tokens of reasons and score (cot)")
    parser.add_argument("--out", type=Path, default=Path("local_judge.csv"))
    options = parser.parse_args()
    main()
