"""Exports of tools with metrics that users named: each is read, under its name, with the score that stands there."""

import csv
import io
import json
import random

import pandas as pd
import pytest
from made_logs import (
    ASKED,
    FIVE,
    ONE,
    OTHER,
    SIDES,
    TWO,
    UNIT,
    UNIT2,
    WORTH,
    N,
    readings,
    rows,
    values,
    wins,
    written,
)

from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.mapping import map_line, parse_expression


def by_attribute(trials):
    return {name: values(own) for name, own in trials.groupby("attribute", sort=False)}


def packed(n, scores="", text=ONE):
    """A cell of promptfoo's older CSV."""
    word = "Pass" if UNIT[n] > 0.5 else "Fail"
    return f"[{word.upper()}] ({UNIT[n]:.2f}{scores})\n\n{text[n]}\n\n{word} Reason: it is {UNIT2[n]}"


def test_older_cells_of_promptfoo_are_asked_about_and_mapped(tmp_path):
    records = rows(
        lambda n: {
            "question": ASKED[n],
            "[openai:m] {{question}}": packed(n),
            "[other:m] {{question}}": packed(n, f", clarity: {UNIT2[n]:.2f}", TWO),
        }
    )
    with pytest.raises(InputError, match="score = "):
        read_judgements(written(tmp_path, records, "csv"))
    mapping = {"context_id": "question", "candidate_id": "=openai:m", "scale": "=0-1",
               "score": r"[openai:m] {{question}}~\] \(([\d.]+)"}  # fmt: skip
    assert values(read_judgements(written(tmp_path, records, "csv"), mapping=mapping)) == UNIT


def test_columns_of_promptfoo_repeat_for_each_provider(tmp_path):
    others = ["Status", "Score", "Named Scores", "Grader Reason", "Comment"]
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["question", "[a] one", *others, "[b] one", *others])
    for n in range(N):
        error = n == 3
        one = [ONE[n], "PASS", f"{UNIT[n]:.2f}", "", "why", ""]
        two = [TWO[n], "ERROR" if error else "FAIL", "0.00", json.dumps({"depth": UNIT2[n]}), "so", ""]
        table.writerow([ASKED[n], *one, *two])
    file = tmp_path / "results.csv"
    file.write_text(text.getvalue())
    trials = read_judgements(file)
    assert by_attribute(trials[trials["candidate_id"] == "a"]) == {"score": UNIT}
    assert by_attribute(trials[trials["candidate_id"] == "b"]) == {"depth": UNIT2[:3] + UNIT2[4:]}
    assert trials.attrs["left_out"] == {"the call failed": 1}


def test_feedback_of_trulens_has_any_name(tmp_path):
    records = rows(
        lambda n: {
            "app_name": "rag",
            "app_version": "v" + "12"[n % 2],
            "record_id": f"r{n}",
            "input": ASKED[n // 2],
            "output": ONE[n],
            "Answer Relevance": UNIT[n],
            "f_sass": UNIT2[n] if n else "",
            "Answer Relevance_calls": "[]",
            "f_sass_calls": "[]",
            "latency": n % 3,
            "total_tokens": n,
            "total_cost": n / 100,
        }
    )
    trials = read_judgements(written(tmp_path, records, "csv"))
    assert by_attribute(trials) == {"Answer Relevance": UNIT, "f_sass": UNIT2[1:]}
    assert set(trials["candidate_id"]) == {"rag v1", "rag v2"}
    assert trials["context_id"].nunique() == N // 2


def test_metrics_of_galileo_name_their_judge(tmp_path):
    def metric(value, **more):
        return {"status_type": "success", "value": value, "model_alias": "gpt-x", "explanation": "so", **more}

    records = rows(lambda n: {
        "id": f"t{n}", "type": "llm", "input": [{"role": "user", "content": ASKED[n]}],
        "output": {"role": "assistant", "content": ONE[n]}, "metrics": {"duration_ns": 10**9 + n},
        "metric_info": {"correctness": metric(UNIT[n], num_judges=3), "brand_voice": metric(UNIT2[n] > 0.5),
                        "num_tokens": {"status_type": "success", "value": n},
                        "late": {"status_type": "pending"}}})  # fmt: skip
    trials = read_judgements(written(tmp_path, records, "jsonl"))
    assert by_attribute(trials) == {"correctness": UNIT, "brand_voice": [float(score > 0.5) for score in UNIT2]}
    assert set(trials["judge"]) == {"gpt-x"}
    assert trials["words"].tolist()[::2] == [len(text.split()) for text in ONE]
    assert trials.attrs["left_out"] == {"scored by code, not by a model": N, "a metric that was not computed": N}


#: Records, and what is read of each attribute.
METRICS = {
    "under a prefix": (rows(lambda n: {"input": ASKED[n], "output": ONE[n], "metrics/correctness": UNIT[n],
                                       "metrics/tone_of_brand": UNIT2[n], "metrics/duration_ns": n}),
                       {"correctness": UNIT, "tone_of_brand": UNIT2}),
    "on scales of their own": (rows(lambda n: {"input": ASKED[n], "output": ONE[n], "correctness": UNIT[n],
                                               "fluency": FIVE[n]}), {"correctness": UNIT, "fluency": FIVE}),
}  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_read_under_its_name(name, tmp_path):
    records, wanted = METRICS[name]
    trials = read_judgements(written(tmp_path, records, "jsonl"))
    assert by_attribute(trials) == {about: list(map(float, scores)) for about, scores in wanted.items()}
    assert trials["candidate_id"].nunique() == len(set(ONE))  # each text, not who wrote the message
    assert trials["status"].eq("ok").all()


def test_an_instruction_and_its_input_are_one_item(tmp_path):
    records = rows(
        lambda n: {
            "instruction": f"Do thing {n % 6}.",
            "input": "" if n % 8 == 0 else f"of {n}",
            "output_1": ONE[n],
            "output_2": TWO[n],
            "preference": wins("output_1", "output_2")[n],
        }
    )
    trials = read_judgements(written(tmp_path, records, "csv"))
    assert len(trials) == N
    assert trials["context_id"].nunique() == len({(r["instruction"], r["input"]) for r in records})


def test_a_line_of_several_fields_keeps_what_their_values_mean():
    entries = {"preference": {"fields": ["a", "b"], "values": {"0": "tie", "1": "first"}}}
    line = map_line(entries)
    assert line == '--map "preference=a, b | 0 -> tie, 1 -> first"'
    read = parse_expression("preference", "a, b | 0 -> tie, 1 -> first")
    assert (read.fields, read.values) == (("a", "b"), {"0": "tie", "1": "first"})  # noqa: PD011


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


def test_label_studio_predictions_in_lists_of_one_are_read(tmp_path):
    records = rows(lambda n: {"id": n, "data": {"prompt": ASKED[n], "answer1": ONE[n], "answer2": TWO[n]},
                              "annotations": [], "predictions": [{"model_version": "gpt-x", "result": [
                                  {"value": {"selected": wins("left", "right", "tie")[n]}}]}]})  # fmt: skip
    (trials,), was_read = readings(written(tmp_path, records, "json"))
    assert was_read
    assert values(trials) == [WORTH[side] for side in SIDES]


ITEMS = [f"item {n}" for n in range(40)]
LABELS = {
    "scores": [1, 2, 3, 4, 5],
    "answers": ["yes", "no", "n/a: resolved"],
    "kinds": ["Part of", "Opposite", "Cause"],
    "verdicts": ["model_a", "model_b", "tie"],
}


def annotations(kind, names, seed=0, share=1.0):
    rng = random.Random(seed)
    items = ITEMS
    if kind == "verdicts":
        items = [f"{n}__{one}__{two}__{turn}" for n in range(10) for turn in (1, 2) for one, two in ("xy", "xz", "zy")]
    return {
        name: {item: rng.choice(LABELS[kind]) for item in items if rng.random() < share or item == items[0]}
        for name in names
    }


def flat(given):
    return pd.DataFrame([(who, item, label) for who, labels in given.items() for item, label in labels.items()],
                        columns=["judge", "item", "label"])  # fmt: skip


def saved(path, given, indent=None):
    path.write_text(json.dumps(given, indent=indent))
    return path


@pytest.mark.parametrize("indent", [None, 1])
def test_scores_of_models_are_read(tmp_path, indent):
    given = annotations("scores", ["gpt-4o", "llama-31"], share=0.8)
    trials = read_judgements(saved(tmp_path / "a.json", given, indent))
    expected = flat(given)
    assert trials["judge"].tolist() == expected["judge"].tolist()
    assert trials["context_id"].tolist() == expected["item"].tolist()
    assert trials["value"].tolist() == expected["label"].tolist()
    assert set(trials["scale"]) == {"1-5"}
    assert trials["key"].iloc[-1] == f"a.json:{len(expected)}"


def test_people_of_another_file_are_joined_by_item(tmp_path):
    judges, people = annotations("scores", ["gpt-4o"]), annotations("scores", ["w1", "w2", "w3"], seed=1, share=0.5)
    saved(tmp_path / "people.json", people)
    mapping = {"join": f"{tmp_path / 'people.json'} on item", "ratings": "w1, w2, w3"}
    trials = read_judgements(saved(tmp_path / "judges.json", judges), mapping=mapping)
    means = flat(people).groupby("item")["label"].mean()
    rated = trials.set_index("context_id")
    assert rated["human"].to_dict() == pytest.approx(means.reindex(rated.index).to_dict(), nan_ok=True)
    assert trials.attrs["malformed"] == len(ITEMS) - len(trials) == len(set(ITEMS) - set(means.index))


@pytest.mark.parametrize(
    "other",
    [
        {"settings": {"model": "gpt-4o", "seed": 1}, "results": {"accuracy": 0.5, "seed": 1}},
        {"a": {f"i{n}": 1 for n in range(20)}, "b": {f"j{n}": 1 for n in range(20)}},
        {"a": {f"i{n}": [1] for n in range(20)}, "b": {f"i{n}": 1 for n in range(20)}},
        {"a": {f"i{n}": f"a text {n}" for n in range(30)}, "b": {f"i{n}": f"another {n}" for n in range(30)}},
    ],
)
def test_other_objects_are_not_taken_for_annotations(tmp_path, other):
    with pytest.raises(InputError) as refused:
        read_judgements(saved(tmp_path / "a.json", other))
    assert "judge=annotator" not in str(refused.value)
