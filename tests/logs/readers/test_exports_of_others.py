"""Exports of tools and papers in the variants that people have, none of which is misread in silence."""

import json
import shlex

import pandas as pd
import pytest

from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements


def written(folder, records, lines=False):
    file = folder / "log.json"
    file.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records))
    return file


def pasted(error):
    """Return the mapping of the first line of a refusal, as a shell gives it to the program."""
    line = next(line for line in str(error).splitlines() if "--map" in line)
    words = shlex.split(line[line.index("--map") :])
    return dict(word.split("=", 1) for word in words if word != "--map")


def refused_and_read(given):
    with pytest.raises(InputError) as caught:
        read_judgements(given)
    return read_judgements(given, mapping=pasted(caught.value))


def test_winners_of_mt_bench_without_texts(tmp_path):
    game = {"model_1": "a", "model_2": "b", "judge": ["gpt-4", "pair-v2"], "turn": 1}
    games = [
        game | {"question_id": 81, "g1_winner": "model_1", "g2_winner": "tie"},
        game | {"question_id": 82, "g1_winner": "model_2", "g2_winner": "model_2"},
        game | {"question_id": 83, "g1_winner": "error", "g2_winner": "model_1"},
    ]
    trials = read_judgements(written(tmp_path, games, lines=True))
    values = trials.set_index(["context_id", "candidate_id"])["value"].to_dict()
    wanted = {("81/turn 1", "a"): 1, ("81/turn 1", "b"): 0.5, ("82/turn 1", "a"): 0, ("82/turn 1", "b"): 1,
              ("83/turn 1", "b"): 0}  # fmt: skip
    assert {key: value for key, value in values.items() if value == value} == wanted
    assert set(trials["judge"]) == {"gpt-4"}


def test_metrics_that_the_harness_computes_are_no_judge(tmp_path):
    sample = {"resps": [["x"]], "filtered_resps": ["x"], "metrics": ["exact_match", "graded"]}
    records = [sample | {"doc_id": n, "exact_match": 1.0, "graded": 0.5} for n in range(5)]
    trials = read_judgements(written(tmp_path, records, lines=True))
    assert set(trials["attribute"]) == {"graded"}
    assert trials.attrs["left_out"] == {"scored by code, not by a model": 5}


def test_ragas_scores_of_no_model_are_counted_as_left_out():
    row = {"user_input": "q", "response": "a", "faithfulness": 0.5, "factual_correctness(mode=f1)": 0.25}
    rows = [row | {"user_input": f"q{n}", "semantic_similarity": 0.9, "domain_specific_rubrics": 4} for n in range(5)]
    trials = read_judgements(pd.DataFrame(rows))
    assert trials.groupby("attribute")["value"].first().to_dict() == {
        "faithfulness": 0.5, "factual_correctness(mode=f1)": 0.25, "domain_specific_rubrics": 4.0
    }  # fmt: skip
    assert trials.attrs["left_out"] == {"semantic_similarity is not known as a score of a model": 5}


def test_scores_on_another_scale_than_the_tools_are_unread(tmp_path):
    """Of scores from 1 to 5 those of 1 are no 1 of 0 to 1."""
    scores = [{"traceId": f"t{n}", "name": "m", "value": 1 + n % 5, "source": "EVAL"} for n in range(20)]
    trials = read_judgements(written(tmp_path, {"data": scores, "meta": {"page": 1}}))
    assert trials["value"].isna().all()
    given = read_judgements(written(tmp_path, {"data": scores}), mapping={"scale": "=1-5"})
    assert given["value"].tolist() == [float(1 + n % 5) for n in range(20)]


def test_runs_of_deepeval_within_an_object_and_conversations(tmp_path):
    metric = {"name": "Role", "score": 0.4, "evaluationModel": "gpt-4o"}
    cases = [{"input": f"q{n}", "actualOutput": "x", "metricsData": [metric]} for n in range(3)]
    talks = [{"turns": [{"role": "user", "content": f"hi {n}"}], "metricsData": [metric]} for n in range(2)]
    run = {"testCases": cases, "conversationalTestCases": talks, "metricsScores": [{"metric": "Role"}]}
    trials = read_judgements(written(tmp_path, {"testRunData": run, "testRunLink": None}))
    assert len(trials) == trials["context_id"].nunique() == 5


def test_a_choice_of_promptfoo_is_no_score(tmp_path):
    graded = {"score": 0.3, "reason": "r", "assertion": {"type": "llm-rubric"}}
    chosen = {"score": 1, "reason": "r", "assertion": {"type": "select-best"}}
    results = [
        {
            "provider": {"id": "p"},
            "vars": {"q": 1},
            "gradingResult": {"score": 0.6, "componentResults": [graded, chosen]},
        },
        {"provider": {"id": "p"}, "vars": {"q": 2}, "gradingResult": graded},
    ]
    trials = read_judgements(written(tmp_path, {"results": {"results": results}}))
    assert trials["value"].tolist() == [0.3, 0.3]
    assert trials.attrs["left_out"] == {"a choice among outputs, which is no score": 1}


def test_pairs_of_wildbench(tmp_path):
    """What was called A stood first; the choice has degrees."""
    choices = ["A++", "A+", "A=B", "B+", "B++"]
    systems = [{"A": "m", "B": "gpt-4"}, {"A": "gpt-4", "B": "m"}]
    records = [{"session_id": f"s{n}", "assignment": systems[n % 2],
                "parsed_result": {"reason of A=B": "", "choice": choices[n % 5]}} for n in range(20)]  # fmt: skip
    trials = read_judgements(written(tmp_path, records))
    assert trials["value"].tolist() == [[1.0, 1.0, 0.5, 0.0, 0.0][n % 5] for n in range(20)]
    assert trials["candidate_id"].tolist() == [record["assignment"]["A"] for record in records]


def test_scores_of_both_sides_in_a_list(tmp_path):
    records = [{"question_id": n, "answer1_id": "m1", "answer2_id": "m2", "score": [8, 6 + n % 4]} for n in range(12)]
    trials = refused_and_read(written(tmp_path, records, lines=True))
    assert trials["value"].tolist() == [[1.0, 1.0, 0.5, 0.0][n % 4] for n in range(12)]
    assert trials["words"].isna().all()


def test_lists_in_each_record(tmp_path):
    def items(n):
        return [{"model": m, "response": f"{m} {n}", "overall_score": 1 + (n + at) % 10} for at, m in enumerate("xyz")]

    records = [{"instruction": f"q{n}", "completions": items(n)} for n in range(15)]
    trials = refused_and_read(written(tmp_path, records, lines=True))
    assert trials["value"].tolist() == [float(1 + (n + at) % 10) for n in range(15) for at in range(3)]
    assert trials["candidate_id"].tolist() == ["x", "y", "z"] * 15


def test_objects_of_scores_are_attributes(tmp_path):
    records = [{"question_id": n, "target_txt": "r", "text": f"t{n}",
                "score": {"logical robustness": 1 + n % 5, "depth": 5 - n % 5}} for n in range(20)]  # fmt: skip
    trials = read_judgements(written(tmp_path, records, lines=True))
    assert trials[trials["attribute"] == "logical robustness"]["value"].tolist() == [1.0 + n % 5 for n in range(20)]
    assert set(trials["attribute"]) == {"logical robustness", "depth"}


def test_conversations_are_contexts(tmp_path):
    """As in HelpSteer3, whose preferences run from -3, response1, to 3."""
    degrees = [-3, -2, -1, 0, 1, 2, 3]
    records = [{"context": [{"role": "user", "content": f"q{n // 2}"}], "response1": f"a {n}", "response2": f"b {n} c",
                "overall_preference": degrees[n % 7], "individual_preference": [{"score": 1}]}
               for n in range(28)]  # fmt: skip
    trials = refused_and_read(written(tmp_path, records, lines=True))
    assert trials["value"].tolist() == [[1, 1, 1, 0.5, 0, 0, 0][n % 7] for n in range(28)]
    assert trials["context_id"].nunique() == 14
