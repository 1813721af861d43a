"""How fast completions of mixed length are written: one by one, in padded batches of 8, and continuously.

    python benchmarks/generation.py --out generation.csv
    python benchmarks/generation.py --random --device cuda          # random weights of the embedded judge's size

Methods
-------
one         transformers' ``generate``, one prompt at a time
padded      transformers' ``generate``, batches of 8 in random order, padded on the left; a batch runs until its longest
            text ends
continuous  ``biaslab.judges.generation.choose_generator``: texts that end leave at once, waiting ones take their slots

Prompts ask for a score of each candidate of the bundled set ``graded``, ``--replicates`` times each. Each text has a
length of its own, evenly spaced on the logarithm from ``--shortest`` to ``--longest`` tokens: no token ends it earlier,
and no method knows the length before. All texts are greedy.

Columns: completion tokens, processor seconds and seconds, tokens a processor second; how many times as many as
``padded``, the median over rounds in which methods take turns; texts equal to ``one``'s.
With one thread (the default) processor seconds are what an idle core takes, also on a machine that has other work.
``one`` and ``padded`` write a part of the texts, evenly chosen, where ``--part`` says so: compare tokens a second.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import biaslab as bl
from biaslab import prompts
from biaslab.core import Completion, as_messages
from biaslab.judges.batches import batch_tokens, cached_tokens
from biaslab.judges.encoding import ChatEncoder
from biaslab.judges.generation import Prompted, choose_generator
from biaslab.judges.loading import EMBEDDED, choose_device, choose_dtype, find_model, load_model

NEVER = -1  # a token that no model writes
Texts = dict[int, list[int]]


def make_rows(encoder: ChatEncoder) -> list[Prompted]:
    """Prompts of the first candidates, in random order, with lengths of their own."""
    encoded = [encoder.conversation(as_messages(text)) for text in scoring_prompts()]
    asked = [prompt for prompt in encoded for _ in range(options.replicates)]
    steps = [i / max(options.texts - 1, 1) for i in range(options.texts)]
    lengths = [round(options.shortest * (options.longest / options.shortest) ** step) for step in steps]
    generator = random.Random(0)
    generator.shuffle(lengths)
    rows = [
        Prompted(Completion("", max_tokens=length), prompt, 0)
        for prompt, length in zip(asked[: options.texts], lengths, strict=True)
    ]
    generator.shuffle(rows)
    return rows


def scoring_prompts() -> Iterator[str]:
    """Ask for a score of each candidate of ``graded``, with reasons."""
    data = bl.load_dataset("graded")
    words = {"noun": data.noun, "attribute": next(iter(data.attributes)), "low": 1, "high": 100}
    for _, row in data.candidates.iterrows():
        text = prompts.render("scoring_1", context=row["context"], candidate=row["text"], **words)
        yield text.removesuffix("Answer with one whole number.") + "Give your reasons first, then the number."


def one(model: Any, rows: Sequence[Prompted], part: Sequence[int]) -> Texts:
    """One prompt at a time."""
    return {i: padded_batch(model, [rows[i]])[0] for i in part}


def padded(model: Any, rows: Sequence[Prompted], part: Sequence[int]) -> Texts:
    """Batches of 8 in the order in which they come."""
    texts: Texts = {}
    for start in range(0, len(part), 8):
        batch = part[start : start + 8]
        texts |= dict(zip(batch, padded_batch(model, [rows[i] for i in batch]), strict=True))
    return texts


def padded_batch(model: Any, rows: Sequence[Prompted]) -> list[list[int]]:
    """Plain transformers; a row that has its length goes on until the batch ends, and the rest is dropped."""
    longest = max(len(row.prompt) for row in rows)
    gaps = [longest - len(row.prompt) for row in rows]
    ids = torch.tensor([[0] * gap + [*row.prompt] for gap, row in zip(gaps, rows, strict=True)], device=model.device)
    mask = torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps], device=model.device)
    steps = max(row.request.max_tokens for row in rows)
    written = model.generate(
        ids, attention_mask=mask, do_sample=False, max_new_tokens=steps, eos_token_id=NEVER, pad_token_id=0
    )
    return [text[longest:][: row.request.max_tokens].tolist() for text, row in zip(written, rows, strict=True)]


def continuous(model: Any, rows: Sequence[Prompted]) -> Texts:
    """All texts, with memory as `LocalJudge` plans it; the self-check at the first use is done before."""
    generator = choose_generator(model, (NEVER,), batch_tokens(model), cached_tokens(model))
    return {index: ids for batch in generator.generate(rows) for index, ids, _ in batch}


def measure(method: Callable[[], Texts]) -> tuple[Texts, float, float]:
    """Run a method; return its texts, processor seconds and seconds."""
    processor, begin = time.process_time(), time.perf_counter()
    texts = method()
    return texts, time.process_time() - processor, time.perf_counter() - begin


def load() -> tuple[Any, Any]:
    """Load the embedded judge, or put random weights into a model of its size."""
    device = choose_device(options.device)
    dtype = choose_dtype(options.dtype, device)
    model, tokenizer = load_model(find_model(EMBEDDED), dtype, device)
    if options.random:
        torch.manual_seed(0)
        config = AutoConfig.for_model(**model.config.to_dict())
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).to(device).eval()
    return model, tokenizer


def main() -> None:
    """Run, print and write the table."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(options.threads)
    model, tokenizer = load()
    rows = make_rows(ChatEncoder(tokenizer))
    part = list(range(0, len(rows), max(1, options.part)))
    single = part[:: max(1, options.part)]
    runs: list[dict[str, Any]] = []
    reference, seconds, wall = measure(lambda: one(model, rows, single))
    runs.append({"round": 0, "method": "one", **report(reference, seconds, wall, reference)})
    methods = {"padded": lambda: padded(model, rows, part), "continuous": lambda: continuous(model, rows)}
    for number in range(options.rounds):
        for name, method in methods.items():
            texts, seconds, wall = measure(method)
            runs.append({"round": number, "method": name, **report(texts, seconds, wall, reference)})
            print(runs[-1], flush=True)
    table = pd.DataFrame(runs)
    table.to_csv(options.out, index=False)
    rates = table.pivot_table(index="round", columns="method", values="per_second")
    ratios = [continuous / padded for continuous, padded in zip(rates["continuous"], rates["padded"], strict=True)]
    print(f"\n{model.dtype}, {model.device}, {options.threads} threads, prompts of {len(rows[0].prompt)} tokens")
    print(table.to_string(index=False))
    print(f"times padded: {median(ratios):.2f} (median of {[round(ratio, 2) for ratio in ratios]})")


def report(texts: Texts, seconds: float, wall: float, wanted: Texts) -> dict[str, Any]:
    """Make one line of the table."""
    tokens, common = sum(map(len, texts.values())), texts.keys() & wanted.keys()
    return {
        "texts": len(texts),
        "tokens": tokens,
        "processor_s": round(seconds, 2),
        "s": round(wall, 2),
        "per_second": round(tokens / seconds, 2),
        "equal": f"{sum(texts[i] == wanted[i] for i in common)} of {len(common)}",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--replicates", type=int, default=1)
    parser.add_argument("--shortest", type=int, default=8)
    parser.add_argument("--longest", type=int, default=512)
    parser.add_argument("--random", action="store_true", help="random weights instead of the embedded judge's")
    parser.add_argument("--part", type=int, default=1, help="padded writes each n-th text, one each n²-th")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=Path("generation.csv"))
    options = parser.parse_args()
    main()
