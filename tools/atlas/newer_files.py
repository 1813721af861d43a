"""Read the raw files of judges released since 2024: one reader for each source, called as the source is.

Each returns trials as `tools.atlas.raw_files` does. What a file does not say stays open: the order in which pairs were
shown, or who the candidates were.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.datasets import load_dataset
from biaslab.datasets._files import read_jsonl
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.trials import trials_of
from tools.atlas.raw_texts import RECORDED

#: Judges by the names of the files, where they have others here.
JUDGES = {
    "Mistral": "mistral-7b-instruct",
    "gemini_flash": "gemini-1.5-flash",
    "gemini_pro": "gemini-1.5-pro",
    "llama-31": "llama-3.1-8b-instruct",
    "mistral-v03": "mistral-7b-instruct-v0.3",
    "llmjudge-athenev2": "athene-v2-chat",
    "llmjudge-llama33": "llama-3.3-70b-instruct",
    "llmjudge-tulu405": "tulu-3-405b",
    "gpt-4-turbo-preview": "gpt-4-0125-preview",
    "4omini": "gpt-4o-mini",
    "dsr1": "deepseek-r1-distill-qwen-32b",
    "qwen": "qwen-2.5-72b-instruct",
    "Skywork/Skywork-Reward-Llama-3.1-8B": "skywork-reward-llama-3.1-8b",
    "internlm/internlm2-7b-reward": "internlm2-7b-reward",
}
_CHOICE = {"A": 1.0, "B": 0.0, "TIE": 0.5}
_SIDE = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
_SCORES = {"10k_prompts": "1-5", "cebab_stars": "1-5"}  # of the sets that were scored


def arena_gpt52(folder: Path) -> pd.DataFrame:
    """Return pairs of Arena, each judged once in the order that people saw, with their votes."""
    rows = []
    for file in sorted((folder / RECORDED / "arena_gpt52").glob("*.jsonl.gz")):
        for record in read_jsonl(file):
            vote = _SIDE.get(record["human_winner"])
            for judge in ("gpt-5.2", "gpt-4o-mini"):
                shown = (record["model_a"], record["model_b"], record["words_a"], record["words_b"])
                rows.append((judge, record["id"], *shown, _CHOICE.get(record[judge]), _gap(vote)))
    return pair_trials("arena", rows)


def korean_battles(folder: Path) -> pd.DataFrame:
    """Return fifty pairs of answers by GPT-5.2 and Claude Opus 4.5 that three judges compared in both orders."""
    rows, fighters = [], ("gpt-5.2", "claude-opus-4.5")
    for record in read_jsonl(folder / RECORDED / "korean_frontier_judges" / "battle_both_orders.jsonl.gz"):
        vote = _gap(_CHOICE.get(record.get("human_pick") or ""))
        for names, pick, gap in (
            (fighters, record["original_order_pick"], vote),
            (fighters[::-1], record["swapped_order_pick_shown"], -vote),
        ):
            rows.append((record["judge"], record["id"], *names, np.nan, np.nan, _CHOICE.get(pick or ""), gap))
    return pair_trials("korean_battles", rows)


def small_judges(folder: Path) -> pd.DataFrame:
    """Return the pairs of LLMBar and MT-Bench that Mistral 7B judged in both orders under six prompts."""
    rows, prompts, sets = [], [], []
    for record in read_jsonl(folder / RECORDED / "small_judges_2026" / "results.jsonl.gz"):
        gold = {1: 1.0, 2: -1.0}[record["gold_label"]]
        for names, chosen, sign in (
            (("1", "2"), record["prediction_original"], 1),
            (("2", "1"), record["prediction_swapped"], -1),
        ):
            value = float(str(chosen) == names[0]) if chosen else None  # predictions are mapped back
            rows.append((record["model"], record["id"], *names, np.nan, np.nan, value, sign * gold))
            prompts.append(record["prompt"])
            sets.append(f"small_judges_{record['dataset']}")
    return pair_trials("small_judges", rows).assign(template=prompts, dataset=sets)


def judgebench(folder: Path) -> pd.DataFrame:
    """Return the pairs of JudgeBench that two reward models scored, with the gold label."""
    rows = []
    for file in sorted((folder / RECORDED / "judgebench_reward_models").glob("*.jsonl.gz")):
        for record in read_jsonl(file):
            gold = 1.0 if record["label"] == "A>B" else -1.0
            for place, (names, sign) in enumerate(((("A", "B"), 1), (("B", "A"), -1))):
                first, second = record["scores"][place]
                words = [record[f"words_{name}"] for name in names]
                value = 0.5 + np.sign(first - second) / 2
                rows.append((record["judge"], record["pair_id"], *names, *words, value, sign * gold))
    return pair_trials("judgebench", rows)


def alt_test(folder: Path) -> pd.DataFrame:
    """Return what six judges of 2024 said of the pairs of MT-Bench, and their scores of two other sets, with people's.

    The order in which pairs were shown is not known. Labels without an order (wax, framing) are left out.
    """
    place = folder / RECORDED / "alt_test"
    judges, people = _annotations(place / "mtbench")
    rows = [
        (judge, item, *item.split("__")[1:3], np.nan, np.nan, _SIDE.get(label), _gap(people[item].map(_SIDE).mean()))
        for judge, labels in judges.items()
        for item, label in labels.items()
        if item in people
    ]
    parts = [pair_trials("alt_test_mtbench", rows).assign(order_known=False)]
    for name, scale in _SCORES.items():
        judges, people = _annotations(place / name)
        rated = {item: (float(scores.astype(float).mean()), joined(scores)) for item, scores in people.items()}
        rows = [
            (judge, item, "text", "overall", float(label), *rated[item])
            for judge, labels in judges.items()
            for item, label in labels.items()
            if item in rated
        ]
        parts.append(score_trials(f"alt_test_{name}", rows, scale))
    return pd.concat(parts, ignore_index=True)


def label_probabilities(folder: Path) -> pd.DataFrame:
    """Return the expected scores of three judges on SummEval, from their log-probabilities of the labels 1 to 5.

    Files have no ids: those of R1 and Qwen are in the order of BARTScore's means, which the human column checks; those
    of GPT-4o-mini are in another order, which is not known, so that each of its rows is a context of its own.
    """
    data = load_dataset("summeval", folder / "summeval" / "means_1600.json.gz")
    means = data.human_means.reset_index()
    parts = []
    for judge in ("dsr1", "qwen"):
        for attribute in ("coherence", "fluency"):
            table = pd.read_csv(folder / RECORDED / "uncertainty_logits" / judge / f"Summeval_{attribute}.csv.gz")
            if not np.allclose(table[attribute], means[attribute]):
                raise ValueError(f"{judge}, {attribute}: the human column is in another order than the means")
            chances = np.exp(table[list("12345")].to_numpy(float))
            mass = chances.sum(axis=1)
            rows = zip(
                [judge] * len(table), means["context_id"], means["candidate_id"], [attribute] * len(table),
                chances @ np.arange(1, 6) / mass, means[attribute], means[attribute].map(repr), strict=True,
            )  # fmt: skip
            part = score_trials("summeval", list(rows), "1-5").assign(answer="distribution", label_mass=mass)
            parts.append(part.assign(annotators="0"))
    return pd.concat(parts, ignore_index=True)


def reasoning_traces(folder: Path) -> pd.DataFrame:
    """Return twenty samples an item by DeepSeek's R1, distilled into Qwen 32B, on two sets of ROSCOE."""
    place = folder / RECORDED / "reasoning_traces"
    parts = [
        read_judgements(file).assign(judge=JUDGES["dsr1"], dataset=f"roscoe_{file.name.split('.')[0].split('_')[-1]}")
        for file in sorted(place.glob("*.jsonl.gz"))
    ]
    return pd.concat(parts, ignore_index=True)


def alpaca_eval_2024(folder: Path) -> pd.DataFrame:
    """Return AlpacaEval's judgements of three models under several configurations; preferences alone are left out."""
    parts = []
    for file in sorted((folder / RECORDED / "alpaca_eval_new").glob("*.jsonl.gz")):
        model, _, configuration = file.name.removesuffix(".jsonl.gz").partition("__")
        if configuration == "alpaca_eval_gpt4":
            continue  # preferences without replies, whose order shown is a guess
        part = read_judgements(file)
        parts.append(part.assign(judge="gpt-4-1106-preview", template=configuration, dataset=f"alpaca_eval_{model}"))
    return pd.concat(parts, ignore_index=True)


def wildbench(folder: Path) -> pd.DataFrame:
    """Return scores of three models' answers by two judges; a second run of GPT-4o, which repeats it, is left out."""
    rows, words = [], []
    for file in sorted((folder / RECORDED / "wildbench_scores").glob("*.jsonl.gz")):
        for record in read_jsonl(file):
            if record["version"] == "v2.0522":
                context, score = record["session_id"], float(record["score"])
                rows.append((record["judge"], context, record["model"], "overall", score, np.nan, ""))
                words.append(float(record["output_words"]))
    return score_trials("wildbench", rows, "1-10").assign(words=words)


def shaberi(folder: Path) -> pd.DataFrame:
    """Return scores of Japanese answers by six judges; answers are told apart by their hashes."""
    parts = []
    for name, scale, called in (
        ("elyza__ELYZA-tasks-100", "1-5", "elyza"),
        ("yuzuai__rakuda-questions", "1-10", "rakuda"),
    ):
        table = pd.read_csv(folder / RECORDED / "shaberi" / f"{name}.csv.gz")
        lowest = float(scale.partition("-")[0])
        table = table[table["score"] >= lowest].drop_duplicates(["judge", "question_md5", "answer_md5"])
        items = table["model"] + ":" + table["answer_md5"]
        fixed: list[Any] = ["overall"] * len(table)
        rows = zip(
            table["judge"], table["question_md5"], items, fixed, table["score"].astype(float),
            [np.nan] * len(table), [""] * len(table), strict=True,
        )  # fmt: skip
        parts.append(score_trials(f"shaberi_{called}", list(rows), scale))
    return pd.concat(parts, ignore_index=True)


def _gap(vote: float | None) -> float:
    """Turn the share of people for the first shown into a difference, 1 to -1; NaN where nobody voted."""
    return float("nan") if vote is None or np.isnan(vote) else 2 * vote - 1


def joined(scores: pd.Series) -> str:
    """Return the ratings of an item as trials hold them."""
    return " ".join(f"{float(score):g}" for score in scores)


def _annotations(place: Path) -> tuple[Mapping[str, Mapping[str, str]], dict[str, pd.Series]]:
    """Return judge → item → label, and of each item the labels of its people by their names."""
    judges, people = (
        json.loads(gzip.decompress((place / f"{who}_annotations.json.gz").read_bytes())) for who in ("llm", "human")
    )
    labels: dict[str, dict[str, str]] = {}
    for person, said in people.items():
        for item, label in said.items():
            labels.setdefault(item, {})[person] = label
    return judges, {item: pd.Series(said) for item, said in labels.items()}


def pair_trials(dataset: str, rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Return trials of pairs: judge, context, both candidates and their words, value, gap of the human preference."""
    names = ["judge", "context_id", "candidate_id", "opponent_id", "words", "opponent_words", "value", "human_gap"]
    frame = pd.DataFrame(rows, columns=names).astype({"value": float, "words": float, "opponent_words": float})
    status = np.where(frame["value"].isna(), "unparsable", np.where(frame["value"] == 0.5, "tie", "ok"))
    return _finished(frame.assign(dataset=dataset, scale=np.nan, status=status))


def score_trials(dataset: str, rows: list[tuple[Any, ...]], scale: str) -> pd.DataFrame:
    """Return trials of scores: judge, context, candidate, attribute, value, mean human score, the ratings behind it."""
    names = ["judge", "context_id", "candidate_id", "attribute", "value", "human", "ratings"]
    frame = pd.DataFrame(rows, columns=names).astype({"value": float, "human": float})
    people = [" ".join(map(str, range(len(ratings.split())))) for ratings in frame["ratings"]]
    human_scale = scale if frame["human"].notna().any() else ""
    return _finished(
        frame.assign(dataset=dataset, scale=scale, human_scale=human_scale, annotators=people, status="ok")
    )


def _finished(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.assign(judge=frame["judge"].replace(JUDGES))
    trials = trials_of({str(name): frame[name] for name in frame}, frame.index)
    return trials.assign(key=[f"{frame['dataset'].iloc[0]}:{row}" for row in range(len(trials))])
