"""How fast a reward model judges: one text at a time, in padded batches as they come, sorted by length, as a tree.

    python benchmarks/reward_judge.py --data ../shared/data/summeval/means_1600.json.gz --out reward_judge.csv
    python benchmarks/reward_judge.py --data … --size 8b --device cuda

Methods
-------
one      one text at a time with plain transformers code, as model cards show it
batches  padded batches of 8 in the order of the input, plain transformers code
sorted   `RewardBatches`: padded batches of texts sorted by length
tree     `RewardJudge`: what the candidates of a context share is computed once

Workloads: ``candidates`` are the 16 summaries of each document of SummEval, shown with their document; ``mixed`` are
those texts without it, each repeated 1 to 24 times, so that lengths differ and nothing is shared.

The model is a classifier of one output with random weights. Columns: texts a second, how many times as fast as ``one``
and as ``batches``, and the largest difference of a reward from ``one``. All methods run in one process, one after the
other, on the same texts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

import biaslab as bl
from biaslab.core import Score
from biaslab.judges.loading import EMBEDDED, choose_device, choose_dtype, find_model, load_model
from biaslab.judges.scorers import RewardBatches

SIZES = {
    "135m": {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3,
    },
    "8b": {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
}  # fmt: skip


def workloads(path: str, contexts: int) -> dict[str, list[Score]]:
    """Return the texts of each workload."""
    data = bl.load_dataset("summeval", path=path, limit=contexts)
    rows = data.candidates
    shown = [Score(text, context) for text, context in zip(rows["text"], rows["context"], strict=True)]
    mixed = [Score(" ".join([text] * (1 + 7 * i % 24))) for i, text in enumerate(rows["text"])]
    return {"candidates": shown, "mixed": mixed}


@torch.inference_mode()
def one(model, sequences: Sequence[tuple[int, ...]]) -> list[float]:
    """Score one text at a time."""
    return [float(model(input_ids=torch.tensor([ids], device=model.device)).logits[0, 0]) for ids in sequences]


@torch.inference_mode()
def batches(model, sequences: Sequence[tuple[int, ...]], size: int = 8) -> list[float]:
    """Score padded batches in the order of the input."""
    rewards: list[float] = []
    for start in range(0, len(sequences), size):
        part = sequences[start : start + size]
        longest = max(map(len, part))
        ids = torch.tensor([[*row, *(0,) * (longest - len(row))] for row in part], device=model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in part], device=model.device)
        rewards += model(input_ids=ids, attention_mask=mask).logits[:, 0].tolist()
    return rewards


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="SummEval's means_1600.json.gz")
    parser.add_argument("--contexts", type=int, default=2)
    parser.add_argument("--size", choices=SIZES, default="135m")
    parser.add_argument("--device")
    parser.add_argument("--out")
    given = parser.parse_args()
    device = choose_device(given.device)
    _, tokenizer = load_model(find_model(EMBEDDED), "float32", "cpu")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), num_labels=1, pad_token_id=0, max_position_embeddings=8192, **SIZES[given.size]
    )
    model = LlamaForSequenceClassification(config).to(device, getattr(torch, choose_dtype(None, device))).eval()
    judge = bl.RewardJudge.from_loaded(model, tokenizer, f"random-{given.size}")
    rows = []
    for workload, requests in workloads(given.data, given.contexts).items():
        sequences = [judge.encode(request)[0] for request in requests]
        plain = RewardBatches(model, 4096)

        def by_length(plain=plain, requests=requests) -> list[float]:
            scored = dict(plain.score([judge._sequences(request)[0] for request in requests]))
            return [scored[i][0] for i in range(len(requests))]

        def as_tree(requests=requests) -> list[float]:
            replies = dict(judge.ask(requests))
            return [replies[request].score for request in requests]

        ways: dict[str, Callable[[], list[float]]] = {
            "one": lambda sequences=sequences: one(model, sequences),
            "batches": lambda sequences=sequences: batches(model, sequences),
            "sorted": by_length,
            "tree": as_tree,
        }
        seconds, expected = {}, []
        for name, way in ways.items():
            if name == "tree":
                _ = judge._scorer  # chosen, and checked against batches, once
            start = time.perf_counter()
            rewards = way()
            seconds[name] = time.perf_counter() - start
            expected = expected or rewards
            worst = max(abs(a - b) for a, b in zip(rewards, expected, strict=True))
            rows.append(
                {
                    "workload": workload,
                    "method": name,
                    "texts": len(requests),
                    "tokens": sum(map(len, sequences)),
                    "texts/s": len(requests) / seconds[name],
                    "× one": seconds["one"] / seconds[name],
                    "× batches": seconds["batches"] / seconds[name] if "batches" in seconds else float("nan"),
                    "largest difference": worst,
                }
            )
    frame = pd.DataFrame(rows)
    print(frame.round(6).to_string(index=False))
    if given.out:
        frame.to_csv(Path(given.out), index=False)


if __name__ == "__main__":
    main()
