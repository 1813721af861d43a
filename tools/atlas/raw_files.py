"""Read the raw files of each source as trials, with one name for each judge and one identifier for each context.

A reader has the name of its source. It takes the folder of raw data, laid out as `biaslab.atlas.sources` says, and
returns what `biaslab.read_judgements` returns, replies included, with the lengths of texts filled in.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.schema import count_words
from biaslab.datasets._files import read_list, text_key
from biaslab.datasets.topicalchat import ATTRIBUTES
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.human_scores import with_humans
from biaslab.logs.readers.trials import trials_of
from tools.atlas import raw_texts
from tools.atlas.newer_files import (  # noqa: F401
    alpaca_eval_2024,
    alt_test,
    arena_gpt52,
    judgebench,
    korean_battles,
    label_probabilities,
    reasoning_traces,
    shaberi,
    small_judges,
    wildbench,
)
from tools.atlas.raw_texts import ANALYZER, ITEM, LLMBAR, NULL, NULL_MODEL, PANDALM, PROMETHEUS, RECORDED
from tools.atlas.reviews_and_contests import ai_scientist, debates, wmt25  # noqa: F401

_COUNTED = ("malformed", "duplicates", "contradictions")
_PROCESSED = ("FairEval", "LLMEval^2", "MT-Bench")  # of others, processed by the authors of LLMBar
_LONGEST = 40  # characters of an identifier
#: Names of judges in the logs, where they are not yet what they are called here.
JUDGES = {
    "GPT-4": "gpt-4",
    "ChatGPT": "chatgpt",
    "ChatGPT-0301": "chatgpt-0301",
    "LLaMA2": "llama-2-70b-chat",
    "PaLM2": "palm-2",
    "Falcon": "falcon-180b-chat",
    "weighted_alpaca_eval_gpt4_turbo": "gpt-4-1106-preview",
    "alpaca_eval_gpt4": "gpt-4",
    "gpt": "gpt-3.5-turbo",
    "pandalm": "pandalm-7b",
    "gpt3.5": "gpt-3.5-turbo",
    "gpt4": "gpt-4",
    "gpt35": "gpt-3.5-turbo",
    "llama": "llama-2-7b-chat",
    "llama-2-7b-chat-hf": "llama-2-7b-chat",
    "llama-2-13b-chat-hf": "llama-2-13b-chat",
    "llama-2-70b-chat-hf": "llama-2-70b-chat",
}


def llmbar(folder: Path) -> pd.DataFrame:
    """Return the judgements of LLMBar, and as ``llmbar_processed`` those of the sets that its authors processed."""
    trials = _logs([folder / LLMBAR])
    trials["dataset"] = np.where(trials["subset"].isin(_PROCESSED), "llmbar_processed", "llmbar")
    return trials


def mt_bench(folder: Path) -> pd.DataFrame:
    """Return the pairs of MT-Bench, and as ``mt_bench_repetition`` those that were judged three times."""
    names = ("MTBench_position_bias", "MTBench_position_bias_gpt4_gemini")
    once = _logs([folder / ANALYZER / f"{name}.jsonl.gz" for name in names], dataset="mt_bench")
    again = _logs([folder / ANALYZER / "MTBench_repetition.jsonl.gz"], dataset="mt_bench_repetition")
    return _stacked([once, _with_words(again, raw_texts.mt_bench(folder))])


def devbench(folder: Path) -> pd.DataFrame:
    """Return the pairs of DevBench, and as ``devbench_repetition`` those that were judged three times."""
    once = _logs([folder / ANALYZER / "DevBench_position_bias.jsonl.gz"], dataset="devbench")
    again = _logs([folder / ANALYZER / "DevBench_repetition.jsonl.gz"], dataset="devbench_repetition")
    trials = _stacked([once, again])
    trials["context_id"] = trials["context_id"].map(_short)
    return trials


def null_model(folder: Path) -> pd.DataFrame:
    """Return the judgements of the constant answer, which is called "null_model"."""
    trials = _logs([folder / NULL_MODEL], dataset="null_model")
    for column in ("candidate_id", "opponent_id"):
        trials[column] = trials[column].replace(*NULL)
    return trials


def pandalm(folder: Path) -> pd.DataFrame:
    """Return the verdicts of two judges with the annotators' preference, and of each annotator with the others'."""
    place = folder / PANDALM
    mapping = {"join": f"{place / 'testset-v1.json.gz'} on idx"}
    names = ("gpt-3.5-turbo", "pandalm-7b")
    judges = _logs([place / f"{name}-testset-v1.json.gz" for name in names], mapping=mapping)
    return _stacked([judges, *_annotators(read_list(place / "testset-v1.json.gz"), mapping)])


def prometheus(folder: Path) -> pd.DataFrame:
    """Return the scores of GPT-4 on the Vicuna set, three a response."""
    return _logs([folder / PROMETHEUS])


def summeval_experts(folder: Path) -> pd.DataFrame:
    """Return the scores of each expert with the mean of the other two as the human score."""
    data = raw_texts.summeval_set(folder)
    scores = data.human.assign(judge="expert-" + (data.human["annotator"].str[-1:].astype(int) + 1).astype(str))
    numbers = scores.pivot_table(index=["context_id", "candidate_id", "attribute"], columns="judge", values="score")
    parts = []
    for judge in numbers:
        others = numbers.drop(columns=judge)
        written = [" ".join(f"{score:g}" for score in row) for row in others.to_numpy()]
        places = " ".join(str(numbers.columns.get_loc(name)) for name in others)
        items = numbers.index.to_frame(index=False)
        constants = {"judge": judge, "dataset": data.name, "scale": "1-5", "human_scale": "1-5", "status": "ok"}
        rated = {"human": others.mean(axis=1), "ratings": pd.Series(written, dtype="str"), "value": numbers[judge]}
        columns = {name: column.reset_index(drop=True) for name, column in rated.items()}
        parts.append(trials_of({**items, **constants, **columns, "annotators": places}, items.index))
    return _with_words(_keyed(_stacked(parts), "annotations_1200"), data.candidates).pipe(raw_texts.by_article, data)


def topical_chat_means(folder: Path) -> pd.DataFrame:
    """Return the means of the annotators, who are one judge, on six attributes of three scales."""
    records = read_list(folder / raw_texts.TOPICAL_CHAT)
    rows = [
        (text_key(record["source"].strip()), record["system_id"], name, score, count_words(record["system_output"]))
        for record in records
        for name, score in record["scores"].items()
    ]
    frame = pd.DataFrame(rows, columns=["context_id", "candidate_id", "attribute", "value", "words"])
    scale = frame["attribute"].map({name: f"{low:g}-{high:g}" for name, ((low, high), _) in ATTRIBUTES.items()})
    constants = {"judge": "annotators' mean", "dataset": "topicalchat", "scale": scale, "status": "ok"}
    return _keyed(trials_of({**frame.astype({"words": float}), **constants}, frame.index), "topical_chat")


def summeval_judges(folder: Path) -> pd.DataFrame:
    """Return scores of SummEval by GPT-4-0314, GPT-3.5 and Llama-2 with the experts' ratings."""
    data = raw_texts.summeval_set(folder)
    trials = with_humans(_logs([folder / RECORDED / "summeval_judges" / "judge_scores.jsonl.gz"]), data)
    return raw_texts.by_article(trials, data)


def summeval_pairs(folder: Path) -> pd.DataFrame:
    """Return pairs of SummEval in both orders by GPT-3.5 with the experts' preference."""
    data = raw_texts.summeval_set(folder)
    trials = _logs([folder / RECORDED / "summeval_judges" / "h2h_gpt35_both_orders.jsonl.gz"])
    return raw_texts.by_article(_with_words(trials, data.candidates), data)


def topical_chat_judges(folder: Path) -> pd.DataFrame:
    """Return 20 samples an item of GPT-3.5 on TopicalChat with the annotators' means."""
    place = folder / RECORDED / "closer_look_topical_chat"
    trials = _logs(sorted(place.glob("gpt3.5_*.json.gz"))).assign(human_scale="1-3")
    return trials.assign(context_id=trials["source_key"]).drop(columns="source_key")


def alpaca_eval(folder: Path) -> pd.DataFrame:
    """Return AlpacaEval's judgements of text_davinci_001 by two judges."""
    return _logs(sorted((folder / RECORDED / "alpaca_eval").glob("*_annotations.json.gz")))


def self_recognition(folder: Path) -> pd.DataFrame:
    """Return how three judges compare and score summaries of XSum, of which one is their own.

    Llama-2's files with wrong and random names hold no verdicts but a mean, and do not say for which text it is, so
    that the reader refuses them: that of the other two judges, which can be told, is for the text that is named theirs.
    """
    place, kinds = folder / raw_texts.SELF_RECOGNITION, ("pairs", "label", "scores")
    files = [file for kind in kinds for file in sorted(place.glob(f"{kind}_*.json.gz"))]
    told = [
        file for file in files if file.name not in {f"label_{name}_xsum_llama.json.gz" for name in ("wrong", "random")}
    ]
    return _with_words(_logs(told), raw_texts.self_recognition(folder))


def _logs(files: Iterable[Path], dataset: str | None = None, **options: Any) -> pd.DataFrame:
    """Return the judgements of several logs, judges by their names here."""
    parts = [read_judgements(file, **options) for file in files]
    trials = _stacked(parts)
    trials["judge"] = trials["judge"].replace(JUDGES)
    if dataset is not None:
        trials["dataset"] = dataset
    return trials


def _stacked(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return frames one below the other; what was left out of each is added up."""
    trials = pd.concat(parts, ignore_index=True)
    facts = [part.attrs for part in parts if part.attrs]
    left_out = sum((Counter(given.get("left_out", {})) for given in facts), Counter[str]())
    counts: dict[Any, Any] = {name: sum(given.get(name, 0) for given in facts) for name in _COUNTED}
    trials.attrs = counts | {"left_out": dict(left_out)}
    return trials


def _annotators(records: list[dict[str, Any]], mapping: dict[str, str]) -> list[pd.DataFrame]:
    """Return the verdicts of each annotator of PandaLM, read as a judge's are."""
    parts = []
    for number in (1, 2, 3):
        verdicts = [{"idx": one["idx"], f"annotator-{number}_result": one[f"annotator{number}"]} for one in records]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "annotators.json"
            file.write_text(json.dumps(verdicts), encoding="utf-8")
            trials = _logs([file], mapping=mapping)
        own = 2 * trials["value"] - 1
        parts.append(trials.assign(human_gap=(3 * trials["human_gap"] - own) / 2))  # of the other two
    return parts


def _short(name: str) -> str:
    """Return a name, or its beginning and its hash where it is long."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 13]}-{text_key(name)}"


def _with_words(trials: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """Fill in the lengths of candidate and opponent."""
    words = texts.set_index(list(ITEM))["text"].map(count_words).astype(float)
    lengths = {}
    for column, who in (("words", "candidate_id"), ("opponent_words", "opponent_id")):
        lengths[column] = words.reindex(pd.MultiIndex.from_frame(trials[["context_id", who]])).to_numpy()
    return trials.assign(**lengths)


def _keyed(trials: pd.DataFrame, file: str) -> pd.DataFrame:
    return trials.assign(key=[f"{file}:{row}" for row in range(len(trials))])
