"""Exports of evaluation tools that no reader is made for: their scores are found by the shape of their records."""

import json

import pytest
from made_logs import ASKED, FIVE, ONE, OTHER, SIDES, TWO, UNIT, UNIT2, WORTH, N, readings, rows, said, values, written

from biaslab.logs.readers import read_judgements


def scored(n, *more):
    return [{"name": "Relevance", "value": UNIT[n], "reason": f"because of {n}"}, *more]


def second(n):
    return {"name": "Tone", "value": UNIT2[n], "reason": "so"}


def bedrock(n):
    scores = [
        {"metricName": f"Builtin.{name}", "result": value[n],
         "evaluatorDetails": [{"modelIdentifier": "claude-x", "explanation": "so"}]}
        for name, value in (("Correctness", UNIT), ("Helpfulness", UNIT2))
    ]  # fmt: skip
    return {"inputRecord": {"prompt": ASKED[n], "category": "c"},
            "modelResponses": [{"response": ONE[n], "modelIdentifier": "nova"}],
            "automatedEvaluationResult": {"scores": scores}}  # fmt: skip


BOTH = [*UNIT, *UNIT2]
#: Name: layout, records, the scores that must be read.
LISTS = {
    "opik on the command line": ("jsonl", rows(lambda n: {
        "trace": {"id": f"t{n}", "input": {"q": ASKED[n]}, "output": {"o": ONE[n]},
                  "feedback_scores": scored(n, second(n))}, "spans": [], "project_name": "p"}), BOTH),
    "opik results": ("json", {"experiment_id": "e", "test_results": rows(lambda n: {
        "test_case": {"trace_id": f"t{n}", "scoring_inputs": {"input": ASKED[n], "output": ONE[n]}},
        "score_results": scored(n, second(n)), "trial_id": 0})}, BOTH),
    "phoenix experiments": ("json", rows(lambda n: {
        "example_id": f"e{n}", "input": {"question": ASKED[n]}, "output": ONE[n], "latency_ms": 9.0, "annotations": [
            {"name": "relevance", "annotator_kind": "LLM", "label": None, "score": UNIT[n], "explanation": "so"},
            {"name": "contains", "annotator_kind": "CODE", "label": None, "score": 1.0}]}), UNIT),
    "langsmith results": ("jsonl", rows(lambda n: {
        "run": {"id": f"r{n}", "outputs": {"answer": ONE[n]}},
        "example": {"id": f"e{n}", "inputs": {"question": ASKED[n]}, "outputs": {"answer": "x"}},
        "evaluation_results": {"results": [{"key": "right", "score": UNIT[n], "comment": "so"}]}}), UNIT),
    "mlflow 3": ("jsonl", rows(lambda n: {
        "trace_id": f"t{n}", "request": json.dumps({"question": ASKED[n]}), "response": json.dumps(ONE[n]),
        "assessments": [{"assessment_name": "right", "source": {"source_type": "LLM_JUDGE", "source_id": "gpt-x"},
                         "feedback": {"value": "yes" if n % 2 else "no"}, "rationale": "so"}]}),
        [float(n % 2) for n in range(N)]),
    "openai evals, by the API": ("json", {"object": "list", "data": rows(lambda n: {
        "object": "eval.run.output_item", "id": f"o{n}", "datasource_item_id": n, "datasource_item": {"q": ASKED[n]},
        "results": [{"name": "grader", "type": "score_model", "score": UNIT[n], "passed": True}],
        "sample": {"output": [{"role": "assistant", "content": ONE[n]}], "model": "gpt-x"}})}, UNIT),
    "humanloop": ("jsonl", rows(lambda n: {
        "id": f"l{n}", "inputs": {"q": ASKED[n]}, "output": ONE[n], "evaluator_logs": [
            {"path": "relevance", "judgment": UNIT[n], "evaluator": {"spec": {"evaluator_type": "llm"}}}]}), UNIT),
    "bedrock": ("jsonl", rows(bedrock), BOTH),
    "weave": ("jsonl", rows(lambda n: {
        "id": f"c{n}", "inputs": {"example": {"question": ASKED[n]}, "model": "weave:///gpt-x"},
        "output": {"output": ONE[n], "scores": {"relevance": {"score": FIVE[n], "reason": "so"}}}}), FIVE),
    "lists side by side": ("jsonl", rows(lambda n: {
        "instruction": ASKED[n], "generations": [ONE[n], TWO[n], "third"], "models": ["x", "y", "z"],
        "ratings": [FIVE[n], OTHER[n], 3]}), [*FIVE, *OTHER, *[3] * N]),
    "systems in columns": ("csv", rows(lambda n: {
        "question": ASKED[n], "gpt-4o_answer": ONE[n], "gpt-4o_score": FIVE[n], "llama_answer": TWO[n],
        "llama_score": OTHER[n]}), [*FIVE, *OTHER]),
    "azure": ("json", {"rows": rows(lambda n: {
        "inputs.query": ASKED[n], "inputs.response": ONE[n], "outputs.coherence.coherence": FIVE[n],
        "outputs.coherence.gpt_coherence": FIVE[n], "outputs.fluency.fluency": OTHER[n]}), "metrics": {"m": 3.1}},
        [*FIVE, *OTHER]),
    "vertex": ("csv", rows(lambda n: {
        "instruction": ASKED[n], "response": ONE[n], "coherence/score": FIVE[n], "coherence/explanation": "so",
        "groundedness/score": n % 2}), [*FIVE, *(float(n % 2) for n in range(N))]),
    "oaieval": ("jsonl", [{"spec": {"eval_name": "fact"}, "run_id": "R"}, *(
        event for n in range(N) for event in (
            {"run_id": "R", "event_id": 2 * n, "sample_id": f"fact.{n}", "type": "sampling", "data": {}},
            {"run_id": "R", "event_id": 2 * n + 1, "sample_id": f"fact.{n}", "type": "metrics",
             "data": {"choice": "A", "score": UNIT[n]}}))], UNIT),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_scores_are_found_by_the_shape_of_the_records(name, tmp_path):
    layout, records, wanted = LISTS[name]
    (trials,), was_read = readings(written(tmp_path, records, layout))
    assert was_read
    assert sorted(values(trials)) == sorted(map(float, wanted))
    assert trials["context_id"].nunique() == N
    assert set(trials["status"]) == {"ok"}


def test_judges_attributes_reasons_and_lines_are_kept(tmp_path):
    trials = read_judgements(written(tmp_path, rows(bedrock), "jsonl"))
    assert set(trials["judge"]) == {"claude-x"}
    assert set(trials["attribute"]) == {"Builtin.Correctness", "Builtin.Helpfulness"}
    assert trials["words"].iloc[0] == len(ONE[0].split())
    assert trials["key"].iloc[:4].tolist() == ["log.jsonl:1", "log.jsonl:1", "log.jsonl:2", "log.jsonl:2"]


def test_scores_of_people_are_the_human_scores(tmp_path):
    records = rows(lambda n: {"id": n, "input": ASKED[n], "output": ONE[n], "scores": [
        {"name": "right", "value": UNIT[n], "source": "EVAL"},
        {"name": "right", "value": UNIT2[n], "source": "ANNOTATION"}]})  # fmt: skip
    trials = read_judgements(written(tmp_path, records, "jsonl"))
    assert values(trials) == UNIT
    assert trials["human"].tolist() == UNIT2
    assert sum(trials.attrs["left_out"].values()) == N


def test_langfuse_snake_case_equals_camel_case(tmp_path):
    snake = rows(lambda n: {"trace_id": f"t{n}", "observation_id": None, "name": "right", "value": UNIT[n],
                            "source": "EVAL", "data_type": "NUMERIC", "comment": "so"})  # fmt: skip
    snake += rows(lambda n: {**snake[n], "value": UNIT2[n], "source": "ANNOTATION"})
    camel = [{"traceId": r["trace_id"], "observationId": None, "name": "right", "value": r["value"],
              "source": r["source"], "dataType": "NUMERIC", "comment": "so"} for r in snake]  # fmt: skip
    first, other = (read_judgements(written(tmp_path, records, "jsonl")) for records in (snake, camel))
    assert values(first) == UNIT
    assert first["human"].tolist() == UNIT2
    assert first.equals(other)


def test_mapping_may_index_into_a_list_of_scores(tmp_path):
    records = rows(lambda n: {"question": ASKED[n], "answer": ONE[n], "scores": scored(n)})
    mapping = {"score": "scores.0.value", "scale": "=0-1", "context_id": "question", "candidate_id": "answer"}
    assert values(read_judgements(written(tmp_path, records, "jsonl"), mapping=mapping)) == UNIT


@pytest.mark.parametrize("place", ["position", None])
def test_two_rows_may_make_one_pair(place, tmp_path):
    records = [
        {"comparison_id": n, "question": ASKED[n], "model": "xy"[at], "answer": (ONE, TWO)[at][n],
         "is_winner": SIDES[n] == ("first", "second")[at]} | ({place: at + 1} if place else {})
        for n in range(N) for at in (0, 1)
    ]  # fmt: skip
    (trials,), was_read = readings(written(tmp_path, records[::-1] if place else records, "csv"))
    assert was_read
    assert dict(zip(trials["context_id"], trials["value"], strict=True)) == {
        asked: WORTH[side] for asked, side in zip(ASKED, SIDES, strict=True)
    }
    assert trials["order_known"].all() == (place is not None)
    assert set(trials["candidate_id"]) == {"x"}


def test_label_studio_predictions_in_lists_of_one_are_read(tmp_path):
    records = rows(lambda n: {"id": n, "data": {"prompt": ASKED[n], "answer1": ONE[n], "answer2": TWO[n]},
                              "annotations": [], "predictions": [{"model_version": "gpt-x", "result": [
                                  {"value": {"selected": said("left", "right", "tie")[n]}}]}]})  # fmt: skip
    (trials,), was_read = readings(written(tmp_path, records, "json"))
    assert was_read
    assert values(trials) == [WORTH[side] for side in SIDES]
