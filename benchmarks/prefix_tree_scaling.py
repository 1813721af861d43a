"""How time and memory of a local judge grow with the number of requests: linear in distinct tokens, and bounded.

    python benchmarks/prefix_tree_scaling.py --requests 1000 10000 100000 --out prefix_tree_scaling.csv

A tiny random Llama with the embedded judge's tokenizer answers comparisons of made-up texts, so that what is measured
is our own work: encoding, tree, masks, replies. Requests are generated as they are asked for and replies are dropped,
so memory is the judge's alone. Every size runs in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

WORDS = [a + b for a in ("ka", "lo", "mi", "ne", "ru", "sta", "vo") for b in ("ban", "der", "fil", "gor", "nas", "tep")]


def comparisons(count: int, seed: int = 0) -> Iterator[Any]:
    """Contexts of 60 words with 8 texts of 12: 56 ordered comparisons each."""
    from itertools import permutations

    from biaslab import prompts
    from biaslab.core import Choice

    rng, made = random.Random(seed), 0
    while True:
        context = " ".join(rng.choices(WORDS, k=60))
        texts = [" ".join(rng.choices(WORDS, k=12)) for _ in range(8)]
        for first, second in permutations(texts, 2):
            if made == count:
                return
            made += 1
            words = {"context": context, "first": first, "second": second, "noun": "text", "attribute": "fluency"}
            yield Choice(prompts.render("comparative_1", **words), ("Text A", "Text B"))


def judge() -> Any:
    """Make the tiny judge."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from biaslab.judges.loading import EMBEDDED, find_model
    from biaslab.judges.local import LocalJudge

    source = find_model(EMBEDDED)
    tokenizer = AutoTokenizer.from_pretrained(source.location, gguf_file=source.gguf_file)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LocalJudge.from_loaded(LlamaForCausalLM(config).eval(), tokenizer, "tiny")


def measure(count: int, queue: Any) -> None:
    """Answer so many requests and report."""
    tiny = judge()
    list(tiny.ask(comparisons(56, seed=1)))
    before, computed = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, tiny._scorer.computed
    begin, tokens, replies = time.perf_counter(), 0, 0
    for _, reply in tiny.ask(comparisons(count)):
        tokens += reply.usage.prompt_tokens
        replies += 1
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    distinct = tiny._scorer.computed - computed
    queue.put(
        {
            "requests": replies,
            "seconds": round(seconds, 1),
            "tokens": tokens,
            "distinct": distinct,
            "us_per_distinct": round(seconds / distinct * 1e6, 1),
            "peak_mb": round(peak),
            "grown_mb": round(peak - before),
        }
    )


def main() -> None:
    """Read the options, run each size, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--out", type=Path, default=Path("prefix_tree_scaling.csv"))
    options = parser.parse_args()
    context, rows = multiprocessing.get_context("spawn"), []
    for count in options.requests:
        queue = context.Queue()
        process = context.Process(target=measure, args=(count, queue))
        process.start()
        rows.append(queue.get())
        process.join()
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
