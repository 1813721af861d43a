"""Mutated logs: readers never crash, hang, or give a verdict that the text of the record does not hold.

Of formats whose logs are not beside the data, a few records are made up here.
"""

import gzip
import json
import random
import re
import runpy
import subprocess
import sys
import tarfile
import time
from functools import cache
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core.errors import BiaslabError, InputError
from biaslab.logs.readers import read_judgements

damaged = runpy.run_path(str(Path(__file__).parents[2] / "damage.py"))["damaged"]
LOGS = (
    "summeval_judges/h2h_gpt35_both_orders.jsonl.gz",
    "summeval_judges/judge_scores.jsonl.gz",
    "position_bias_analyzer/MTBench_position_bias.jsonl.gz",
    "alpaca_eval/text_davinci_001_alpaca_eval_gpt4_annotations.json.gz",
    "alpaca_eval/text_davinci_001_weighted_alpaca_eval_gpt4_turbo_annotations.json.gz",
    "closer_look_topical_chat/gpt3.5_eng_analyze_rate.json.gz",
    "prometheus/vicuna_eval.json.gz",
    "llmbar Falcon/Vanilla",
    "llmbar GPT-4/Rating_Reference",
    "llmbar GPT-4/Swap_CoT",
    "pandalm/gpt-3.5-turbo-testset-v1.json.gz",
    "self_recognition/pairs_xsum_gpt4.json.gz",
    "self_recognition/pairs_xsum_llama.json.gz",
    "self_recognition/label_wrong_xsum_gpt4.json.gz",
    "self_recognition/scores_xsum_gpt4.json.gz",
    "reasoning_traces/dsr1_qwen32b_socreval_drop.jsonl.gz",
)
GAME = {"judgment": {"judge_model": "j", "response": "It is [[A>B]]."}, "decision": "A>B"}
MADE_UP = (
    [
        {"pair_id": f"p{n}", "source": "easy", "response_A": "one", "response_B": "two", "label": label,
         "judge_name": "v", "judgments": [GAME, {**GAME, "decision": decision}]}
        for n, (label, decision) in enumerate([("A>B", "B>A"), ("B>A", "A=B"), ("A>B", None)])
    ],
    [
        {"vars": {"q": f"{n}"}, "provider": {"id": "m"}, "response": {"output": "o"}, "gradingResult": {
            "componentResults": [{"score": 0.25 * n, "reason": "r", "assertion": {"type": "llm-rubric"}}]}}
        for n in range(4)
    ],
    [{"input": f"q{n}", "actualOutput": "o", "metricsData": [{"name": "m", "score": 0.25 * n, "evaluationModel": "j"}]}
     for n in range(4)],
    [{"traceId": f"t{n}", "name": "m", "value": 0.25 * n, "source": source}
     for n in range(3) for source in ("EVAL", "ANNOTATION")],
    [{"span_id": f"s{n}", "name": "m", "annotator_kind": kind, "result": {"score": 0.25 * n}}
     for n in range(3) for kind in ("LLM", "HUMAN")],
    [{"context.span_id": f"s{n}", "attributes.input.value": "q", "eval.m.score": 0.25 * n} for n in range(3)],
    [{"id": f"t{n}", "input": {"q": n}, "output": {"a": "o"}, "feedback_scores": [{"name": "m", "value": 0.25 * n}]}
     for n in range(3)],
    [{"user_input": f"q{n}", "response": "o", "faithfulness": 0.25 * n} for n in range(3)],
    [{"run_id": f"r{n}", "key": "m", "score": 0.25 * n, "feedback_source": {"type": "model"}} for n in range(3)],
    [{"example_id": f"e{n}", "outputs.a": "o", "feedback.m": 0.25 * n} for n in range(3)],
    [{"columns": ["inputs", "outputs", "m/v1/score", "m/v1/justification"], "data": [["q", "o", 1.5 + n, "r"]]}
     for n in range(3)],
    [{"doc_id": n, "resps": [["o"]], "filtered_resps": ["o"], "metrics": ["acc"], "acc": 0.25 * n} for n in range(3)],
    [{"instance_id": f"i{n}", "stats": [{"name": {"name": "safety_score"}, "mean": 0.25 * n}]} for n in range(3)],
    [{"adapter_spec": {"model": "m"}, "request_states": [
        {"instance": {"id": f"i{n}"}, "annotations": {"t": {"j_score": 0.25 * n, "j_reasoning": "r"}}}]}
     for n in range(3)],
    [{"question_id": f"q{n}", "model": "m", "judge": "j", "games": [{"score": "A>B"}, {"score": score}]}
     for n, score in enumerate(("B>A", "A=B", None))],
    [{"instruction": f"i{n}", "output_1": "a", "output_2": "b", "response": [{"text": "t"}], "winner": 1 + n % 2,
      "result": {"fail": n == 3, "tie": 0}} for n in range(4)],
)  # fmt: skip
SWAPS = (None, True, 0, -1, 3.5, 10**30, "", "x", "[[A]]", [], {}, [None], {"a": 1}, float("nan"), "\ud800", "2" * 400)
PIECES = (b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\x00", b"\xff", b"null", b"1e999", b"NaN", b"[[A]]", b"\n")


def piece(rng):
    """Draw bytes that mean something to a reader."""
    return rng.choice(PIECES)


SLOWEST = 60.0  # seconds of CPU for one small file: whatever else the machine does, more is a hang


@cache
def small_files(folder):
    """Return a few records of every published log, as lines or as one list, as they stand there."""
    made = []
    for name in LOGS:
        path = folder / name
        if name.startswith("llmbar "):
            with tarfile.open(folder / "llmbar" / "llmbar_LLMBar+Processed.tar.xz") as archive:
                inner = f"Dataset/LLMBar/Natural/evaluators/{name.partition(' ')[2]}/result.json"
                text = archive.extractfile(inner).read()
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
    return [*made, *((records, False) for records in MADE_UP)]


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


def a_decision(trial, sources):
    """JudgeBench's decision stands there; in the second game its letters are exchanged, as the candidates are."""
    decision = {1.0: r"A\s*>+\s*B", 0.0: r"B\s*>+\s*A", 0.5: r"A\s*=\s*B|B\s*=\s*A"}[trial.value]
    return re.search(f'"decision": "\\s*(?:{decision})', sources) is not None


def a_result(trial, sources):
    said = {1.0: "1", 0.0: "2", 0.5: "0|[Tt][Ii][Ee]"}[trial.value]
    return re.search(rf'_result": "?\s*(?:{said})\b', sources) is not None


def numbers_in(sources):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", sources)]


def a_chance(trial, sources):
    """A label that was chosen, its probability, the mean of both orders, or a share of two probabilities."""
    if trial.value in (0.0, 1.0) and re.search(r'_comparison": "?[12]', sources):
        return True
    given = [number for number in numbers_in(sources) if 0 <= number <= 1]
    if any(abs(share - trial.value) < 1e-9 for number in given for share in (number, 1 - number)):
        return True
    pairs = [(one, two) for one in given for two in [0, *given] if one + two > 0]
    return any(abs(one / (one + two) - trial.value) < 1e-9 for one, two in pairs)


def a_number(trial, sources):
    """A number of the record, or a word that is one."""
    words = {1.0: r"true|pass|yes", 0.0: r"false|fail|no"}.get(trial.value)
    given = numbers_in(sources.replace('"', " "))
    return trial.value in given or (words is not None and re.search(words, sources.lower()) is not None)


def a_game(trial, sources):
    games = {1.0: r"A\s*>+\s*B", 0.0: r"B\s*>+\s*A", 0.5: r"A\s*=\s*B|B\s*=\s*A"}
    return re.search(f'"score": "\\s*(?:{games[trial.value]})', sources) is not None


def a_numbered_winner(trial, sources):
    number = "1" if (trial.candidate_id == "output_1") == (trial.value == 1.0) else "2"
    return trial.value == 0.5 or re.search(rf'"winner": "?{number}\b', sources) is not None


TOOLS = ("promptfoo", "promptfoo_table", "galileo", "trulens", "deepeval", "langfuse", "phoenix",
         "phoenix_spans", "opik", "ragas", "langsmith", "langsmith_table", "mlflow", "lm_eval_samples", "helm",
         "helm_state")  # fmt: skip


SHOWN = dict.fromkeys(TOOLS, a_number) | {
    "arena_hard": a_game,
    "reife": a_numbered_winner,
    "table": lambda trial, sources: a_number(trial, sources) or a_numbered_winner(trial, sources),
    "judgebench": a_decision,
    "pandalm": a_result,
    "self_recognition": a_chance,
    "self_recognition_scores": lambda trial, sources: 1 <= trial.value <= 5 and '"scores"' in sources,
}


def holds(trial, sources, kind):
    """Say whether the verdict of a trial stands in its own text, or, where the log gives a number, in the file."""
    value, reply = trial.value, trial.reply
    if kind in SHOWN:
        return SHOWN[kind](trial, sources)
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
        won = (trial.candidate_id if value == 1.0 else trial.opponent_id).partition(" ")[0]  # "output_1 (2)"
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
            data = damaged(written(records, as_list), rng, piece)
        text = data.decode("utf-8", "replace")
        packed = rng.random() < 0.1
        if packed:
            data = damaged(gzip.compress(data), rng, piece) if rng.random() < 0.5 else gzip.compress(data)
        path.write_bytes(data)
        started = time.process_time()
        try:
            trials = read_judgements(path)
        except BiaslabError:
            crashed += 1
        else:
            read += 1
            usable = trials[trials["status"].isin(["ok", "tie"])]
            assert usable["value"].notna().all()
            assert trials.loc[~trials.index.isin(usable.index), "value"].isna().all()
            (kind,) = trials.attrs["files"].values()
            for trial in usable.itertuples():
                assert holds(trial, text, kind), (number, kind, trial)
        assert time.process_time() - started < SLOWEST
    return read, crashed


@pytest.mark.slow
def test_mutations(shared_data, tmp_path):
    read, refused = fuzz(shared_data, tmp_path / "log", 160, seed=0)
    assert read > 100
    assert refused > 2


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 5))
def test_thousands_of_mutations(seed, shared_data, tmp_path):
    """Eight thousand of logs; two thousand of stores are in `tests/store/test_layout.py`."""
    read, refused = fuzz(shared_data, tmp_path / "log", 2_000, seed)
    assert read > 1200
    assert refused > 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")
def test_mutated_logs_are_refused_or_audited(shared_data, tmp_path):
    rng = random.Random(2)
    for number, (records, as_list) in enumerate(small_files(shared_data / "recorded")):
        file = tmp_path / str(number)
        file.write_bytes(written(swapped(records, rng), as_list))
        try:
            trials = read_judgements(file)
        except InputError as error:  # of few records none may be left
            assert "has no judgement" in str(error)  # noqa: PT017 - it need not be raised
            continue
        estimates = bl.audit(trials, resampling=bl.Resampling(n=100))
        assert set(estimates["probe"]) or estimates.attrs["not_run"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")
def test_mutated_logs_through_a_mapping(tmp_path):
    """Paths, lists and names of values meet what they do not expect: a status or a line refused, never a crash."""
    mapping = {
        "explode": "judgments", "judge": "judgments.judgment.judge_model", "context_id": "pair_id",
        "candidate_id": "judgments# | 0 -> A, 1 -> B", "opponent_id": "judgments# | 0 -> B, 1 -> A",
        "winner": "judgments.decision | A>B -> first, B>A -> second, A=B -> tie",
        "preference": "label | A>B -> A, B>A -> B",
        "text": "response_A",
    }  # fmt: skip
    rng, read, records = random.Random(3), 0, MADE_UP[0]
    for number in range(150):
        data = written(swapped(records, rng), False) if number % 2 else damaged(written(records, False), rng, piece)
        (tmp_path / "log").write_bytes(data)
        try:
            trials = read_judgements(tmp_path / "log", mapping=mapping)
        except BiaslabError:
            continue
        read += 1
        text = data.decode("utf-8", "replace")
        usable = trials[trials["status"].isin(["ok", "tie"])]
        assert trials.loc[~trials.index.isin(usable.index), "value"].isna().all()
        assert all(a_decision(trial, text) for trial in usable.itertuples())
        assert trials["human_gap"].dropna().between(-1, 1).all()
    assert read > 80


SCRIPT = Path(__file__).with_name("hostile_files.py")
MOST_MB, MOST_SECONDS = 500, 5


@pytest.mark.slow
def test_hostile_files_raise_own_errors_within_limits(tmp_path):
    """Processor time; most take less than a second."""
    ran = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=True)
    measures = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(measures) >= 40
    assert max(size for _, size, *_ in measures) <= 102_400
    assert [name for name, _, raised, *_ in measures if raised.startswith("raw")] == []
    assert [(name, used) for name, _, _, used, _ in measures if used > MOST_MB] == []
    assert [(name, seconds) for name, *_, seconds in measures if seconds > MOST_SECONDS] == []
