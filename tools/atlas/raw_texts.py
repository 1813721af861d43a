"""The texts that were judged, one row a candidate, by the identifiers that their judgements have.

Every reader takes the folder of raw data and returns ``context_id, candidate_id, text``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.schema import Dataset
from biaslab.datasets import load_dataset
from biaslab.datasets._files import read_json, read_jsonl, read_list, text_key
from biaslab.logs.readers.documents import iter_documents

RECORDED = Path("recorded")
ANALYZER = RECORDED / "position_bias_analyzer"
LLMBAR = RECORDED / "llmbar" / "llmbar_LLMBar+Processed.tar.xz"
NULL_MODEL = RECORDED / "null_model" / "weighted_alpaca_eval_gpt4_turbo_annotations.json.gz"
PANDALM = RECORDED / "pandalm"
PROMETHEUS = RECORDED / "prometheus" / "vicuna_eval.json.gz"
SELF_RECOGNITION = RECORDED / "self_recognition"
TOPICAL_CHAT = Path("topical_chat") / "topical_chat.json.gz"
ITEM = ("context_id", "candidate_id")
_SUMMEVAL = Path("summeval") / "annotations_1200.jsonl.gz"
_OUTPUTS = ("output_1", "output_2")
_PROMETHEUS_TASK = re.compile(
    r"###\s*The instruction to evaluate:\s*(.*?)\s*###\s*Response to evaluate:\s*(.*?)\s*###", re.DOTALL
)
#: What the constant answer is called in the log, and here.
NULL = ("example", "null_model")


def llmbar(folder: Path) -> pd.DataFrame:
    """Return the outputs of LLMBar and of the sets that its authors processed, numbered as its reader does."""
    rows: list[tuple[str, str, str]] = []
    for document in iter_documents(folder / LLMBAR):
        *_, subset, file = ["", *document.name.split("/")]
        if file == "dataset.json":
            numbers: dict[str, dict[str, int]] = {}
            for record in json.loads(document.data):
                key, shown = text_key(record["input"]), [record[name] for name in _OUTPUTS]
                among = numbers.setdefault(key, {})
                number = among.setdefault(text_key(*shown), len(among) + 1)
                names = [f"{name} ({number})" if number > 1 else name for name in _OUTPUTS]
                rows += [(f"{subset}/{key}", name, text) for name, text in zip(names, shown, strict=True)]
    return _frame(rows)


def mt_bench(folder: Path) -> pd.DataFrame:
    """Return the answers of MT-Bench that were judged three times, both turns together."""
    rows = []
    for record in read_jsonl(folder / ANALYZER / "MTBench_repetition_texts.jsonl.gz"):
        question = record["cmp_index"].partition(";")[0]
        for side, answer in (("A", "answer1"), ("B", "answer2")):
            rows.append((question, record[side], f"{record[f'{answer}_1']}\n\n{record[f'{answer}_2']}"))
    return _frame(rows)


def null_model(folder: Path) -> pd.DataFrame:
    """Return the constant answer and those that it was compared with."""
    rows = [
        (text_key(record["instruction"]), record[f"generator_{at}"].replace(*NULL), record[f"output_{at}"])
        for record in read_list(folder / NULL_MODEL)
        for at in (1, 2)
    ]
    return _frame(rows)


def pandalm(folder: Path) -> pd.DataFrame:
    """Return the responses of PandaLM's test set, a few of which are no strings in the file."""
    rows = [
        (text_key(record["instruction"], record["input"] or ""), system, str(record[f"response{at}"]))
        for record in read_list(folder / PANDALM / "testset-v1.json.gz")
        for at, system in enumerate(record["cmp_key"].split("_"), start=1)
    ]
    return _frame(rows)


def prometheus(folder: Path) -> pd.DataFrame:
    """Return the responses of the Vicuna set."""
    tasks = [
        (_PROMETHEUS_TASK.search(one["instruction"]), one["response_source"]) for one in read_list(folder / PROMETHEUS)
    ]
    return _frame((text_key(task[1]), system, task[2]) for task, system in tasks if task)


def self_recognition(folder: Path) -> pd.DataFrame:
    """Return the summaries of XSum that were compared."""
    rows = [
        (key, file.name.removeprefix("summaries_xsum_").partition(".")[0], text)
        for file in sorted((folder / SELF_RECOGNITION).glob("summaries_xsum_*.json.gz"))
        for key, text in read_json(file).items()
    ]
    return _frame(rows)


def summeval(folder: Path) -> pd.DataFrame:
    """Return the 1200 summaries."""
    return by_article((data := summeval_set(folder)).candidates[[*ITEM, "text"]], data)


def topical_chat(folder: Path) -> pd.DataFrame:
    """Return the responses of TopicalChat."""
    records = read_list(folder / TOPICAL_CHAT)
    return _frame((text_key(one["source"].strip()), one["system_id"], one["system_output"].strip()) for one in records)


def summeval_set(folder: Path) -> Dataset:
    """Return SummEval with the ratings of the experts."""
    return load_dataset("summeval", folder / _SUMMEVAL)


def by_article(frame: pd.DataFrame, data: Dataset) -> pd.DataFrame:
    """Name contexts by their text, as logs that hold texts do: a recorded judge finds them so."""
    contexts = data.candidates.drop_duplicates("context_id").set_index("context_id")["context"]
    return frame.assign(context_id=frame["context_id"].map(contexts.str.strip().map(text_key)))


def _frame(rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    """Return the text of each candidate; candidates that have several texts have none here."""
    texts = pd.DataFrame(rows, columns=[*ITEM, "text"]).drop_duplicates()
    return texts.drop_duplicates(list(ITEM), keep=False, ignore_index=True)


#: Source → reader of its texts; of other sources texts are not known, or not needed.
TEXTS = {
    "llmbar": llmbar,
    "mt_bench": mt_bench,
    "null_model": null_model,
    "summeval_experts": summeval,
    "topical_chat_means": topical_chat,
    "pandalm": pandalm,
    "prometheus": prometheus,
    "summeval_judges": summeval,
    "summeval_pairs": summeval,
}
