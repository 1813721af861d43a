"""Constructed logs of every format, one record changed at random: no crash, no invented row, no other one read anew."""

import json
import math
import random
import runpy
from functools import cache
from pathlib import Path

import pytest

from biaslab.core.errors import BiaslabError
from biaslab.logs.readers import available, read_judgements

FUZZ = runpy.run_path(str(Path(__file__).with_name("test_fuzz.py")))
FORMATS = runpy.run_path(str(Path(__file__).with_name("test_formats.py")))
swapped = FUZZ["swapped"]
COUNT = 8  # records of a log
#: Whose verdicts are made of probabilities or shares, so that a changed one may be any number of the scale.
SHARES = {"self_recognition", "self_recognition_scores"}
READ = ["judge", "context_id", "candidate_id", "opponent_id", "attribute", "value", "status"]
AB = ("A", "B", "C")
BATCH_MAPPING = {"context_id": "custom_id~^(.+)/", "candidate_id": "custom_id~/(.+)$", "scale": "=1-5"}


def collected(n):
    """Trials as they are saved."""
    about = {"context_id": f"c{n}", "candidate_id": "x", "opponent_id": "y", "attribute": "fluency", "template": 1}
    read = {"value": n % 2, "status": "ok", "replicate": 0, "key": f"{n:064x}", "order_known": True}
    return {"probe": "position", "judge": "j", "dataset": "d", **about, **read}


def batch(n):
    record = json.loads(json.dumps(FORMATS["BATCH"]))
    record["custom_id"] = f"d{n}/M1"
    record["response"]["body"]["choices"][0]["message"]["content"] = f"Score: {1 + n % 5}"
    return record


def promptfoo(n):
    graded = {"score": 0.25 * (n % 5), "reason": "r", "assertion": {"type": "llm-rubric", "metric": "m"}}
    return {"vars": {"q": f"{n}"}, "provider": {"id": "m"}, "response": {"output": "o"},
            "gradingResult": {"componentResults": [graded]}}  # fmt: skip


def llmbar(n):
    record = json.loads(json.dumps(FORMATS["LLMBAR"])) | {"input": f"Name colour {n}."}
    record["results"][0]["swap = False"]["winner"] = str(1 + n % 2)
    return record


def game(n):
    return {"judgment": {"judge_model": "j", "response": "It is [[A>B]]."}, "decision": ("A>B", "B>A", "A=B")[n % 3]}


MADE = {
    "collected": collected,
    "reife": lambda n: {"instruction": f"i{n}", "output_1": "a", "output_2": "b", "response": [{"text": "t"}],
                        "winner": 1 + n % 2, "result": {"fail": False, "tie": 0}},
    "alpaca_eval": lambda n: {**FORMATS["ALPACA"], "instruction": f"q{n}", "preference": 1 + n % 2},
    "arena_hard": lambda n: {"question_id": f"q{n}", "model": "m", "judge": "j",
                             "games": [{"score": ("A>B", "B>>A", "A=B")[n % 3]}, {"score": "B>A"}]},
    "llmbar": llmbar,
    "bracket_pairs": lambda n: {**FORMATS["PAIR"], "question": n, "judgment": f"So [[{AB[n % 3]}]]"},
    "mt_bench": lambda n: {"question_id": n, "turn": 1, "model_1": "x", "model_2": "y", "judge": ["g", "pair-v2"],
                           "g1_judgment": f"[[{AB[n % 3]}]]", "g2_judgment": "[[B]]"},
    "mt_bench_winners": lambda n: {"question_id": n, "turn": 1, "model_1": "x", "model_2": "y",
                                   "judge": ["g", "pair-v2"], "g1_winner": ("model_1", "model_2", "tie")[n % 3],
                                   "g2_winner": "model_2"},
    "mt_bench_single": lambda n: {"question_id": n, "model": "x", "judge": ["g", "single-v1"],
                                  "judgment": f"Rating: [[{1 + n % 9}]]", "score": 1 + n % 9},
    "all_responses": lambda n: {**FORMATS["RESPONSES"], "source": f"hello {n}\n",
                                "all_responses": [f"Rating: {1 + n % 3}", "Rating: 2"]},
    "socreval": lambda n: {**FORMATS["SOCREVAL"], "id": n, "responses": [f"Overall quality: {1 + n % 5}"]},
    "prometheus": lambda n: {**FORMATS["PROMETHEUS"], "idx": n, "response_source": f"s{n}",
                             "gpt4_score": [1 + n % 5, 2], "gpt4_feedback": ["good", "odd"]},
    "summeval_pairs": lambda n: {"judge": "j", "model_1": "M1", "model_2": "M2", "aspect": "fluency", "id": f"d{n}",
                                 "toggled": bool(n % 2), "human_score_1": 4.0, "human_score_2": 1.0,
                                 "resp": AB[n % 3]},
    "rankings": lambda n: {"question": f"q{n // 2}", "judge": "j", "candidates": [["x", "y"], ["y", "x"]][n % 2],
                           "ranking": ["x", "y"]},
    "summeval_scores": lambda n: {**FORMATS["SCORE"], "id": f"d{n}", "resp": f"Final score: {1 + n % 5}."},
    "judgebench": lambda n: {"pair_id": f"p{n}", "source": "easy", "response_A": "one", "response_B": "two",
                             "label": "A>B", "judge_name": "v", "judgments": [game(n), game(n + 1)]},
    "self_recognition": lambda n: {"key": f"{n:08d}", "model": "other", "self_preference": 0.6,
                                   "forward_comparison": "1", "forward_comparison_probability": 0.7,
                                   "backward_comparison": "2", "backward_comparison_probability": 0.5 + n / 20},
    "self_recognition_scores": lambda n: {"key": f"{n:08d}", "model": "me", "target_model": "other",
                                          "scores": {"1": 0.1, "2": 0.1, "3": 0.2, "4": 0.5 - n / 40,
                                                     "5": 0.1 + n / 40}},
    "openai_batch": batch,
    "pandalm": lambda n: {"idx": n, "gpt_result": str(n % 3), "gpt_reason": "r"},
    "promptfoo": lambda n: {"results": {"results": [promptfoo(n)]}},
    "promptfoo_table": lambda n: {"question": f"q{n}", "[m] {{question}}": "o", "Status": "PASS",
                                  "Score": f"{0.25 * (n % 5):.2f}", "Named Scores": "", "Grader Reason": "r"},
    "galileo": lambda n: {"id": f"t{n}", "input": f"q{n}", "output": "o", "metric_info": {
        "m": {"status_type": "success", "value": 0.25 * (n % 5), "explanation": "r", "model_alias": "j"}}},
    "trulens": lambda n: {"record_id": f"r{n}", "app_id": "a", "input": f"q{n}", "output": "o",
                          "m": 0.25 * (n % 5), "m_calls": []},
    "langfuse": lambda n: {"traceId": f"t{n}", "name": "m", "value": 0.25 * (n % 5), "source": "EVAL"},
    "phoenix": lambda n: {"span_id": f"s{n}", "name": "m", "annotator_kind": "LLM",
                          "result": {"score": 0.25 * (n % 5)}},
    "phoenix_spans": lambda n: {"context.span_id": f"s{n}", "attributes.input.value": "q",
                                "eval.m.score": 0.25 * (n % 5)},
    "opik": lambda n: {"id": f"t{n}", "input": {"q": n}, "output": {"a": "o"},
                       "feedback_scores": [{"name": "m", "value": 0.25 * (n % 5)}]},
    "langsmith": lambda n: {"run_id": f"r{n}", "key": "m", "score": 0.25 * (n % 5),
                            "feedback_source": {"type": "model"}},
    "langsmith_table": lambda n: {"example_id": f"e{n}", "outputs.a": "o", "feedback.m": 0.25 * (n % 5)},
    "lm_eval_samples": lambda n: {"doc_id": n, "resps": [["o"]], "filtered_resps": ["o"], "metrics": ["judged"],
                                  "judged": 0.25 * (n % 5)},
    "openai_evals": lambda n: {"run_id": "r", "event_id": n, "sample_id": f"task.{n}", "type": "metrics",
                               "data": {"choice": "AB"[n % 2], "score": 0.25 * (n % 5)}},
    "helm": lambda n: {"instance_id": f"i{n}",
                       "stats": [{"name": {"name": "safety_score"}, "mean": 0.25 * (n % 5)}]},
    "helm_state": lambda n: {"adapter_spec": {"model": "m"}, "request_states": [
        {"instance": {"id": f"i{n}"}, "annotations": {"t": {"j_score": 0.25 * (n % 5), "j_reasoning": "r"}}}]},
    "deepeval": lambda n: {"input": f"q{n}", "actualOutput": "o",
                           "metricsData": [{"name": "m", "score": 0.25 * (n % 5), "evaluationModel": "j"}]},
    "ragas": lambda n: {"user_input": f"q{n}", "response": "o", "faithfulness": 0.25 * (n % 5)},
    "mlflow": lambda n: {"columns": ["inputs", "outputs", "m/v1/score", "m/v1/justification"],
                         "data": [[f"q{n}", "o", 1 + n % 5, "r"]]},
    "mapping": lambda n: {"context_id": f"c{n}", "candidate_id": "x", "opponent_id": "y", "winner": "xy"[n % 2]},
    "table": lambda n: {"question": f"q{n}", "answer_a": "one", "answer_b": "two", "winner": AB[n % 2]},
}  # fmt: skip


def written(folder, kind, records):
    name = {"self_recognition": "pairs_xsum_gpt4.jsonl", "self_recognition_scores": "scores_xsum_gpt4.jsonl",
            "socreval": "r1_drop.jsonl", "all_responses": "gpt9_coh_any.jsonl"}.get(kind, "log.jsonl")  # fmt: skip
    file = folder / kind / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(FUZZ["written"](records, False))
    return file


def read(folder, kind, records):
    mapping = BATCH_MAPPING if kind == "openai_batch" else None
    trials = read_judgements(written(folder, kind, records), mapping=mapping)
    return trials.assign(line=trials["key"].str.rpartition(":")[2].astype(int))


def reported(row):
    """What a row says, NaN as None."""
    return tuple(None if isinstance(value, float) and math.isnan(value) else value for value in row)


def rows_of(trials, columns):
    """Line → what its rows say."""
    return {
        line: sorted(map(repr, map(reported, part[columns].astype(object).itertuples(index=False, name=None))))
        for line, part in trials.groupby("line")
    }


def mutate(folder, number, seed, originals):
    """Change one record of one log and return whether it could still be read."""
    rng = random.Random(f"{seed}/{number}")
    kind = list(MADE)[number % len(MADE)]
    records = [MADE[kind](n) for n in range(COUNT)]
    at = rng.randrange(COUNT)
    changed = [*records]
    changed[at] = swapped([records[at]], rng)[0]
    before = originals(kind)
    try:
        after = read(folder, kind, changed)
    except BiaslabError:
        return False
    columns = READ
    scales = set(before["scale"].dropna()) == set(after["scale"].dropna())  # a table's is told by all its scores
    columns = columns if scales else [name for name in columns if name not in ("value", "status")]
    old, new = rows_of(before, columns), rows_of(after, columns)
    where = (seed, number, kind, records[at], changed[at])
    for line in old.keys() | new.keys():
        if line != at + 1:
            # one that now stands twice is dropped, once: which of both is kept is the first
            assert all(row in old.get(line, []) for row in new.get(line, [])), where
    lost = 2 * len(old.get(at + 1, ())) if kind == "rankings" else len(old.get(at + 1, ()))  # both orders or none
    assert sum(map(len, old.values())) - sum(map(len, new.values())) <= max(2, lost), where
    assert len(new.get(at + 1, ())) <= len(old.get(at + 1, ())), where
    usable = after[after["status"].isin(["ok", "tie"])]
    assert usable["value"].notna().all(), where
    assert after.loc[~after.index.isin(usable.index), "value"].isna().all(), where
    if kind not in SHARES:
        known = {*before["value"].dropna(), 0.0, 0.5, 1.0, 3.5}  # what stands there, and what is put in its place
        assert set(usable.loc[usable["line"] == at + 1, "value"]) <= known, where
    return True


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    return cache(lambda kind: read(folder, kind, [MADE[kind](n) for n in range(COUNT)]))


def test_every_format_has_a_constructed_log():
    assert set(MADE) == set(available()) - {"inspect", "store_export"}  # which needs its own package, and no log


@pytest.mark.parametrize("kind", MADE)
def test_the_constructed_log_is_read_whole(kind, originals):
    trials = originals(kind)
    assert set(trials.attrs["files"].values()) == {kind}
    assert set(trials["line"]) == set(range(1, COUNT + 1))
    assert trials["status"].isin(["ok", "tie"]).mean() > 0.7
    assert trials["value"].nunique() > 1
    assert trials.attrs["malformed"] == trials.attrs["duplicates"] == 0


@pytest.mark.slow
def test_mutated_records_invent_nothing(tmp_path, originals):
    assert sum(mutate(tmp_path, number, 0, originals) for number in range(100)) > 90


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 6))
def test_ten_thousand_mutated_records_invent_nothing(tmp_path, originals, seed):
    assert sum(mutate(tmp_path, number, seed, originals) for number in range(2_000)) > 1_800
