"""Exports of tools with metrics that users named: each is read, under its name, with the score that stands there."""

import csv
import io
import json

import pytest
from made_logs import (
    AGAIN,
    ASKED,
    DECIDED,
    FIVE,
    ONE,
    OTHER,
    TWO,
    UNIT,
    UNIT2,
    N,
    readings,
    rows,
    said,
    values,
    written,
)

from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.expressions import parse_expression
from biaslab.logs.readers.refusing import map_line


def by_attribute(trials):
    return {name: values(own) for name, own in trials.groupby("attribute", sort=False)}


def packed(n, scores="", text=ONE):
    """A cell of promptfoo's older CSV."""
    word = "Pass" if UNIT[n] > 0.5 else "Fail"
    return f"[{word.upper()}] ({UNIT[n]:.2f}{scores})\n\n{text[n]}\n\n{word} Reason: it is {UNIT2[n]}"


def test_cells_of_promptfoo_hold_status_score_and_reason(tmp_path):
    records = rows(
        lambda n: {
            "question": ASKED[n],
            "[openai:m] {{question}}": packed(n),
            "[other:m] {{question}}": packed(n, f", clarity: {UNIT2[n]:.2f}", TWO),
        }
    )
    trials = read_judgements(written(tmp_path, records, "csv"))
    assert set(trials.attrs["files"].values()) == {"promptfoo_table"}
    plain, named = (trials[trials["candidate_id"] == name] for name in ("openai:m", "other:m"))
    assert by_attribute(plain) == {"score": UNIT}
    assert by_attribute(named) == {"clarity": UNIT2}
    assert plain["reply"].tolist() == [f"it is {score}" for score in UNIT2]
    assert plain["words"].tolist() == [len(text.split()) for text in ONE]
    assert list(plain["context_id"]) == list(named["context_id"])


def test_columns_of_promptfoo_repeat_for_each_provider(tmp_path):
    beside = ["Status", "Score", "Named Scores", "Grader Reason", "Comment"]
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["question", "[a] one", *beside, "[b] one", *beside])
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
    "in one object": (rows(lambda n: {
        "input": {"role": "user", "content": ASKED[n]}, "output": {"role": "assistant", "content": ONE[n]},
        "metrics": {"correctness": UNIT[n], "my_brand_voice": UNIT2[n], "polite": FIVE[n] > 2, "num_tokens": n}}),
        {"correctness": UNIT, "my_brand_voice": UNIT2, "polite": [float(five > 2) for five in FIVE]}),
    "under a prefix": (rows(lambda n: {"input": ASKED[n], "output": ONE[n], "metrics/correctness": UNIT[n],
                                       "metrics/tone_of_brand": UNIT2[n], "metrics/duration_ns": n}),
                       {"correctness": UNIT, "tone_of_brand": UNIT2}),
    "with a reason each": (rows(lambda n: {"input": ASKED[n], "output": ONE[n], "brand_voice": UNIT[n],
                                           "brand_voice_rationale": "it 2 sounds", "sass": UNIT2[n],
                                           "sass_explanation": "so", "retrieved": n}),
                           {"brand voice": UNIT, "sass": UNIT2}),
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


def test_attributes_on_different_scales_have_a_mapping_each(tmp_path):
    records = rows(
        lambda n: {"question": ASKED[n], "answer": ONE[n], "clarity": min(FIVE[n], 4), "overall": min(FIVE[n] + 3, 8)}
    )
    trials, alone = readings(written(tmp_path, records, "csv"))
    assert not alone
    assert all(each["attribute"].nunique() == 1 for each in trials)
    assert {(each["attribute"].iloc[0], each["scale"].iloc[0]) for each in trials} >= {
        ("clarity", "1-4"), ("overall", "1-10")}  # fmt: skip


def test_an_instruction_and_its_input_are_one_item(tmp_path):
    records = rows(
        lambda n: {
            "instruction": f"Do thing {n % 6}.",
            "input": "" if n % 8 == 0 else f"of {n}",
            "output_1": ONE[n],
            "output_2": TWO[n],
            "preference": said("output_1", "output_2")[n],
        }
    )
    trials = read_judgements(written(tmp_path, records, "csv"))
    assert len(trials) == N
    assert trials["context_id"].nunique() == len({(r["instruction"], r["input"]) for r in records})


def test_numeric_votes_of_people_have_a_mapping_for_all(tmp_path):
    numbers = {"first": 1, "second": 2, "tie": 0}
    records = rows(
        lambda n: {
            "prompt": ASKED[n],
            "response1": ONE[n],
            "response2": TWO[n],
            "annotator1": numbers[AGAIN[n]],
            "annotator2": numbers[DECIDED[n]],
            "annotator3": numbers[DECIDED[n]],
        }
    )
    trials, alone = readings(written(tmp_path, records, "csv"))
    assert not alone
    gaps = [{"first": 1.0, "second": -1.0}[side] for side in DECIDED]
    assert [{"first": 1.0, "second": 0.0, "tie": 0.5}[side] for side in AGAIN] in [values(each) for each in trials]
    assert gaps in [each["human_gap"].tolist() for each in trials]


def test_a_line_of_several_fields_keeps_what_their_values_mean():
    entries = {"preference": {"fields": ["a", "b"], "values": {"0": "tie", "1": "first"}}}
    line = map_line(entries)
    assert line == '--map "preference=a, b | 0 -> tie, 1 -> first"'
    read = parse_expression("preference", "a, b | 0 -> tie, 1 -> first")
    assert (read.fields, read.values) == (("a", "b"), {"0": "tie", "1": "first"})


def test_lists_of_scores_are_offered_item_by_item(tmp_path):
    records = rows(
        lambda n: {
            "system": "xy"[n % 2],
            "document_id": f"d{n // 2}",
            "gpt": [20 * FIVE[n], 20 * OTHER[n], 7],
            "llama": [50, 20 * FIVE[n], 9],
        }
    )
    trials, alone = readings(written(tmp_path, records, "jsonl"))
    assert not alone
    assert [sorted(values(each)) for each in trials] == [
        sorted([7.0] * N + [20.0 * score for score in [*FIVE, *OTHER]]),
        sorted([50.0, 9.0] * N + [20.0 * score for score in FIVE]),
    ]
    assert all(each["context_id"].nunique() == 3 * N // 2 for each in trials)
