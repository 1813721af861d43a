"""Mutated logs: readers never crash, hang, or give a verdict that the text of the record does not hold."""

import gzip
import json
import random
import re
import tarfile
import time

import pytest

import biaslab as bl
from biaslab.errors import BiaslabError
from biaslab.judgements import read_judgements

LOGS = (
    "summeval_judges/h2h_gpt35_both_orders.jsonl.gz",
    "summeval_judges/judge_scores.jsonl.gz",
    "position_bias_analyzer/MTBench_position_bias.jsonl.gz",
    "alpaca_eval/text_davinci_001_alpaca_eval_gpt4_annotations.json.gz",
    "alpaca_eval/text_davinci_001_weighted_alpaca_eval_gpt4_turbo_annotations.json.gz",
    "closer_look_topical_chat/gpt3.5_eng_analyze_rate.json.gz",
    "prometheus/vicuna_eval.json.gz",
    "llmbar",
)
SWAPS = (None, True, 0, -1, 3.5, 10**30, "", "x", "[[A]]", [], {}, [None], {"a": 1}, float("nan"), "\ud800", "2" * 400)
PIECES = (b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\x00", b"\xff", b"null", b"1e999", b"NaN", b"[[A]]", b"\n")
SLOWEST = 5.0  # seconds for one small file


def small_files(folder):
    """Return a few records of every published log, as lines or as one list, as they stand there."""
    made = []
    for name in LOGS:
        path = folder / name
        if path.is_dir():
            with tarfile.open(next(path.iterdir())) as archive:
                text = archive.extractfile("Dataset/LLMBar/Natural/evaluators/Falcon/Vanilla/result.json").read()
        else:
            text = gzip.decompress(path.read_bytes())
        if text.lstrip()[:1] == b"[":
            records = json.loads(text)[:4]
            for record in records:
                record["all_responses"] = record.get("all_responses", [])[:3] if "all_responses" in record else None
            records = [{k: v for k, v in record.items() if v is not None or k == "preference"} for record in records]
            made.append((records, True))
        else:
            made.append(([json.loads(line) for line in text.splitlines()[:4000:500]], False))
    return made


def written(records, as_list):
    text = json.dumps(records, indent=2) if as_list else "\n".join(map(json.dumps, records)) + "\n"
    return text.encode("utf-8", "surrogatepass")


def swapped(records, rng):
    """Replace, drop or rename one field of one record, at any depth."""
    records = json.loads(json.dumps(records))
    place = rng.choice(records)
    while True:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.4:
            break
        place = inner
    if isinstance(place, dict) and rng.random() < 0.2:
        del place[key]
    else:
        place[key] = rng.choice(SWAPS)
    return records


def damaged(data, rng):
    """Flip, cut, insert, remove or repeat bytes."""
    at, to = sorted(rng.randrange(len(data)) for _ in range(2))
    kind = rng.randrange(5)
    if kind == 0:
        flipped = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + rng.choice(PIECES) + data[at:]
    return data[:at] + data[to:] if kind == 3 else data[:to] + data[at:to] + data[to:]


def holds(trial, sources):
    """Say whether the verdict of a trial stands in its own text, or, where the log gives a number, in the file."""
    value, reply = trial.value, trial.reply
    if isinstance(trial.scale, str) and trial.dataset != "prometheus":
        if "mcq" in trial.configuration and trial.dataset == "summeval":
            return "ABCDE"[int(value) - 1] in reply
        words = ("one", "two", "three", "four", "five")
        whole = re.findall(r"\d+(?:\.\d+)?", reply) + [str(words.index(w) + 1) for w in words if w in reply.lower()]
        return any(float(number) == value for number in whole)
    if trial.dataset == "unknown":
        return re.search({1.0: r"\[\[\W*A", 0.0: r"\[\[\W*B", 0.5: r"\[\[\W*C"}[value], reply) is not None
    if trial.dataset == "summeval":
        return re.search({1.0: "a", 0.0: "b", 0.5: "c|tie"}[value], reply.lower()) is not None
    if trial.dataset == "llmbar":
        won = trial.candidate_id if value == 1.0 else trial.opponent_id
        return re.search(rf'"winner": "?{won[-1]}\b', sources) is not None
    numbers = {float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", sources)}
    if trial.dataset == "alpaca_eval":
        return bool({1 + value, 2 - value} & numbers) or any(
            abs(n - 1 - p) < 1e-12 for n in numbers for p in (value, 1 - value)
        ) or (value == 0.5 and bool({0.0, 1.5} & numbers))  # fmt: skip
    return value in numbers


def fuzz(folder, path, mutations, seed):
    rng = random.Random(seed)
    logs = small_files(folder / "recorded")
    read = crashed = 0
    for number in range(mutations):
        records, as_list = logs[number % len(logs)]
        if rng.random() < 0.4:
            data = written(swapped(records, rng), as_list)
        else:
            data = damaged(written(records, as_list), rng)
        text = data.decode("utf-8", "replace")
        packed = rng.random() < 0.1
        if packed:
            data = damaged(gzip.compress(data), rng) if rng.random() < 0.5 else gzip.compress(data)
        path.write_bytes(data)
        started = time.monotonic()
        try:
            trials = read_judgements(path)
        except BiaslabError:
            crashed += 1
        else:
            read += 1
            usable = trials[trials["status"].isin(["ok", "tie"])]
            assert usable["value"].notna().all()
            assert trials.loc[~trials.index.isin(usable.index), "value"].isna().all()
            for trial in usable.itertuples():
                assert holds(trial, text), (number, trial)
        assert time.monotonic() - started < SLOWEST
    return read, crashed


def test_mutations(shared_data, tmp_path):
    read, refused = fuzz(shared_data, tmp_path / "log", 160, seed=0)
    assert read > 100
    assert refused > 2


@pytest.mark.slow
def test_ten_thousand_mutations(shared_data, tmp_path):
    read, refused = fuzz(shared_data, tmp_path / "log", 10_000, seed=1)
    assert read > 6000
    assert refused > 200


@pytest.mark.filterwarnings("ignore::biaslab.errors.MissingDataWarning")
def test_what_is_left_of_a_mutated_log_can_be_audited(shared_data, tmp_path):
    rng = random.Random(2)
    for number, (records, as_list) in enumerate(small_files(shared_data / "recorded")):
        file = tmp_path / str(number)
        file.write_bytes(written(swapped(records, rng), as_list))
        estimates = bl.audit(read_judgements(file), resampling=bl.Resampling(n=100))
        assert set(estimates["probe"]) or estimates.attrs["not_run"]
