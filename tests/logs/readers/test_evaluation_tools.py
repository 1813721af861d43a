"""Exports of evaluation tools, made up as each documents its own: what is read is what pandas computes."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from made_logs import answers

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements
from biaslab.stats.resample import Resampling

TRACES = 40


@pytest.fixture(scope="module")
def judged():
    """Scores of two attributes of 40 answers, by a model and, of two in three, by a person."""
    rng = np.random.default_rng(5)
    rows = []
    for trace in range(TRACES):
        for attribute in ("faithfulness", "answer_relevancy"):
            human = float(rng.integers(0, 5)) / 4
            rows.append(
                {"trace": f"t{trace}", "question": f"What is {trace}?", "answer": "word " * int(rng.integers(1, 9)),
                 "attribute": attribute, "score": float(np.clip(human + rng.choice([-0.25, 0, 0.25]), 0, 1)),
                 "reason": f"Because of {trace}.", "human": human if trace % 3 else math.nan}
            )  # fmt: skip
    return pd.DataFrame(rows)


def by_trace(judged):
    for trace, rows in judged.groupby("trace", sort=False):
        yield trace, rows.iloc[0], rows.to_dict("records")


def promptfoo(judged):
    results = [
        {
            "provider": {"id": "openai:gpt-x", "label": "gpt-x"},
            "vars": {"question": first["question"]},
            "promptIdx": 0,
            "response": {"output": first["answer"]},
            "success": True,
            "gradingResult": {
                "pass": True,
                "score": 0.5,
                "componentResults": [
                    {"pass": True, "score": 1, "reason": "found", "assertion": {"type": "contains", "value": "x"}},
                    *(
                        {
                            "pass": True,
                            "score": row["score"],
                            "reason": row["reason"],
                            "assertion": {"type": "llm-rubric", "metric": row["attribute"], "provider": "openai:j"},
                        }
                        for row in rows
                    ),
                ],
            },
        }
        for _, first, rows in by_trace(judged)
    ]
    return [{"evalId": "e", "results": {"version": 3, "results": results, "stats": {}}, "config": {}}]


def deepeval(judged):
    cases = [
        {
            "name": trace,
            "input": first["question"],
            "actualOutput": first["answer"],
            "metricsData": [
                {
                    "name": row["attribute"],
                    "score": row["score"],
                    "reason": row["reason"],
                    "evaluationModel": "openai:j",
                }
                for row in rows
            ]
            + [{"name": "Exact", "score": 1.0, "evaluationModel": None}],
        }
        for trace, first, rows in by_trace(judged)
    ]
    return [{"testCases": cases, "metricsScores": [], "hyperparameters": {"model": "gpt-x"}}]


def langfuse(judged):
    for row in judged.to_dict("records"):
        score = {"id": "s", "traceId": row["trace"], "name": row["attribute"], "dataType": "NUMERIC"}
        yield score | {
            "value": row["score"],
            "source": "EVAL",
            "comment": row["reason"],
            "metadata": {"model": "openai:j"},
        }
        if not math.isnan(row["human"]):
            yield score | {"value": row["human"], "source": "ANNOTATION", "comment": None}
    yield {
        "traceId": "t0",
        "name": "tone",
        "value": 0,
        "stringValue": "kind",
        "dataType": "CATEGORICAL",
        "source": "EVAL",
    }


def phoenix(judged):
    for row in judged.to_dict("records"):
        common = {"span_id": row["trace"], "name": row["attribute"], "identifier": ""}
        result = {"score": row["score"], "label": None, "explanation": row["reason"]}
        yield common | {"annotator_kind": "LLM", "result": result, "metadata": {"model": "openai:j"}}
        if not math.isnan(row["human"]):
            yield common | {"annotator_kind": "HUMAN", "result": {"score": row["human"]}, "metadata": {}}
        yield common | {"annotator_kind": "CODE", "result": {"score": 1.0}}


def phoenix_spans(judged):
    for trace, first, rows in by_trace(judged):
        span = {"context.span_id": trace, "attributes.llm.model_name": "gpt-x"}
        span |= {"attributes.input.value": first["question"], "attributes.output.value": first["answer"]}
        for row in rows:
            name = f"eval.{row['attribute']}"
            span |= {f"{name}.score": row["score"], f"{name}.label": None, f"{name}.explanation": row["reason"]}
        yield span


def opik(judged):
    for trace, first, rows in by_trace(judged):
        scores = []
        for row in rows:
            score = {
                "name": row["attribute"],
                "value": row["score"],
                "reason": row["reason"],
                "source": "online_scoring",
            }
            scores.append(score)
            if not math.isnan(row["human"]):
                scores.append({"name": row["attribute"], "value": row["human"], "source": "ui"})
        yield {"id": trace, "input": {"question": first["question"]}, "output": {"answer": first["answer"]},
               "feedback_scores": scores}  # fmt: skip


def ragas(judged):
    for _, first, rows in by_trace(judged):
        scores = {row["attribute"]: row["score"] for row in rows}
        yield {"user_input": first["question"], "retrieved_contexts": ["a"], "response": first["answer"], **scores}


def langsmith(judged):
    for row in judged.to_dict("records"):
        feedback = {"run_id": row["trace"], "key": row["attribute"], "value": None}
        model = {"type": "model", "metadata": {"model": "openai:j"}}
        yield feedback | {"score": row["score"], "comment": row["reason"], "feedback_source": model}
        if not math.isnan(row["human"]):
            yield feedback | {"score": row["human"], "comment": None, "feedback_source": {"type": "app"}}


def langsmith_table(judged):
    for trace, first, rows in by_trace(judged):
        scores = {f"feedback.{row['attribute']}": row["score"] for row in rows}
        yield {"inputs.question": first["question"], "outputs.answer": first["answer"], "example_id": trace, **scores}


def mlflow(judged):
    columns = ["inputs", "outputs", "toxicity/v1/score"]
    columns += [f"{name}/v1/{part}" for name in judged["attribute"].unique() for part in ("score", "justification")]
    data = [
        [first["question"], first["answer"], 0.1, *(v for row in rows for v in (1 + 4 * row["score"], row["reason"]))]
        for _, first, rows in by_trace(judged)
    ]
    return [{"columns": columns, "data": data}]


def lm_eval(judged):
    for number, (_, first, rows) in enumerate(by_trace(judged)):
        scores = {row["attribute"]: row["score"] for row in rows}
        yield {"doc_id": number, "doc": {}, "target": "x", "resps": [[first["answer"]]], "filter": "none",
               "filtered_resps": [first["answer"]], "metrics": list(scores), **scores}  # fmt: skip


def helm_state(judged):
    states = [
        {
            "instance": {"id": trace, "input": {"text": first["question"]}},
            "result": {"completions": [{"text": first["answer"]}]},
            "annotations": {
                row["attribute"]: {"j_score": row["score"], "j_reasoning": row["reason"], "prompt_text": "…"}
                for row in rows
            },
        }
        for trace, first, rows in by_trace(judged)
    ]
    return [{"adapter_spec": {"model": "gpt-x"}, "request_states": states}]


def helm(judged):
    for trace, _, rows in by_trace(judged):
        names = {"faithfulness": "safety_gpt_score", "answer_relevancy": "omni_math_accuracy"}
        stats = [{"name": {"name": names[row["attribute"]], "split": "test"}, "mean": row["score"]} for row in rows]
        stats.append({"name": {"name": "num_output_tokens"}, "mean": 7.0})
        yield {"instance_id": trace, "train_trial_index": 0, "stats": stats}


#: Tool: what writes its records, the judge, whether people's scores are among them, what is left out.
TOOLS = {
    "promptfoo": (promptfoo, "openai:j", False, {"scored by code, not by a model": TRACES}),
    "deepeval": (deepeval, "openai:j", False, {"scored by code, not by a model": TRACES}),
    "langfuse": (langfuse, "openai:j", True, None),
    "phoenix": (phoenix, "openai:j", True, None),
    "phoenix_spans": (phoenix_spans, "phoenix", False, {}),
    "opik": (opik, "opik", True, None),
    "ragas": (ragas, "ragas", False, {}),
    "langsmith": (langsmith, "openai:j", True, None),
    "langsmith_table": (langsmith_table, "langsmith", False, {}),
    "mlflow": (mlflow, "mlflow", False, {"scored by code, not by a model": TRACES}),
    "lm_eval_samples": (lm_eval, "lm_eval", False, {}),
    "helm_state": (helm_state, "j", False, {}),
    "helm": (helm, "helm", False, {"scored by code, not by a model": TRACES}),
}


def write(folder, records, layout="lines", name="export.json"):
    file = folder / name
    if layout == "lines":
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif layout == "list":
        file.write_text(json.dumps(list(records), indent=1))
    else:
        file.write_text(json.dumps(*records, indent=1))
    return file


@pytest.mark.parametrize("tool", TOOLS)
def test_scores_are_those_that_the_tool_wrote(tool, judged, tmp_path):
    make, judge, people, left_out = TOOLS[tool]
    records = list(make(judged))
    file = write(tmp_path, records, "object" if len(records) == 1 else "list")
    trials = bl.read_judgements(file)
    assert trials.attrs["files"] == {"export.json": tool}
    assert trials.attrs["malformed"] == 0
    assert set(trials["judge"]) == {judge}
    if left_out is not None:
        assert trials.attrs["left_out"] == left_out
    scale = 4 if tool == "mlflow" else 1
    expected = judged.groupby("attribute")["score"].agg(["size", "mean", "min", "max"])
    if tool == "helm":
        expected.index = ["omni_math_accuracy", "safety_gpt_score"]
    found = trials.assign(value=(trials["value"] - (scale > 1)) / scale).groupby("attribute")["value"]
    pd.testing.assert_frame_equal(found.agg(["size", "mean", "min", "max"]), expected, check_names=False)
    assert trials["context_id"].nunique() == TRACES
    assert trials["human"].notna().sum() == (judged["human"].notna().sum() if people else 0)


@pytest.mark.slow
@pytest.mark.parametrize("tool", [name for name, (_, _, people, _) in TOOLS.items() if people])
def test_agreement_with_people_is_that_of_pandas(tool, judged, tmp_path):
    trials = bl.read_judgements(write(tmp_path, TOOLS[tool][0](judged)))
    found = bl.audit(trials, only=["agreement"], resampling=Resampling(n=100))
    rows = found[(found["level"] == "dataset") & (found["coefficient"] == "pearson")].set_index("attribute")
    for attribute, own in judged.groupby("attribute"):
        assert rows.loc[attribute, "estimate"] == pytest.approx(own["score"].corr(own["human"]))


def test_lines_of_promptfoo_are_read_as_its_one_object(judged, tmp_path):
    results = promptfoo(judged)[0]["results"]["results"]
    lines = bl.read_judgements(write(tmp_path, results, name="lines.jsonl"))
    full = bl.read_judgements(write(tmp_path, promptfoo(judged), "object"))
    pd.testing.assert_frame_equal(lines.drop(columns="key"), full.drop(columns="key"))


def test_repeated_runs_are_replicates_with_a_status_each(tmp_path):
    feedback = {"run_id": "r", "key": "k", "feedback_source": {"type": "model"}}
    records = [feedback | {"score": score} for score in (1, 0.5, None, "high", 7)]
    trials = bl.read_judgements(write(tmp_path, records))
    assert trials["replicate"].tolist() == [0, 1, 2, 3, 4]
    assert trials["status"].tolist() == ["ok", "ok", "unparsable", "unparsable", "out_of_range"]
    scaled = bl.read_judgements(write(tmp_path, records), mapping={"scale": "=0-10"})
    assert scaled["status"].tolist() == ["ok", "ok", "unparsable", "unparsable", "ok"]


def test_a_record_without_what_it_needs_is_refused_with_its_line(judged, tmp_path):
    records = list(ragas(judged))
    del records[3]["user_input"], records[5]["response"]
    trials = bl.read_judgements(write(tmp_path, records))
    assert [line for _, line, _ in trials.attrs["problems"]] == [4]
    assert len(trials) == 2 * (TRACES - 1)


def games(rng, n=60):
    """Verdicts on both orders of a model and its baseline: the letter that won each game."""
    return [(f"q{i}", rng.choice(["A>>B", "A>B", "A=B", "B>A", "B>>A"], size=2)) for i in range(n)]


@pytest.mark.parametrize("version", ["v0.1", "v2"])
def test_games_of_arena_hard(tmp_path, version):
    played = games(np.random.default_rng(1))
    records = []
    for question, scores in played:
        outputs = [{"answer": f"[[{score}]]"} if version == "v2" else f"[[{score}]]" for score in scores]
        both = [{"score": str(score), "judgment": text} for score, text in zip(scores, outputs, strict=True)]
        known = {"uid": question, "baseline": "base"} if version == "v2" else {"question_id": question}
        records.append({**known, "model": "mine", "judge": "gpt-x", "games": both})
    trials = bl.read_judgements(write(tmp_path, records))
    assert set(trials.attrs["files"].values()) == {"arena_hard"}
    base = "base" if version == "v2" else "baseline"
    table = pd.DataFrame([(q, g, s) for q, scores in played for g, s in enumerate(scores)], columns=["q", "game", "s"])
    table["first"] = table["s"].str.contains("A>").astype(float).where(table["s"] != "A=B")
    assert trials["candidate_id"].tolist() == [base, "mine"] * len(played)
    found = bl.audit(trials, only=["position"], resampling=Resampling(n=100)).set_index("metric")["estimate"]
    assert found["first_position_rate"] == pytest.approx(table["first"].mean())
    wins = trials[trials["candidate_id"] == "mine"]["value"].tolist()
    assert wins == table[table["game"] == 1]["first"].fillna(0.5).tolist()


def test_random_winners_of_reife_are_no_verdicts(tmp_path):
    rng = np.random.default_rng(2)
    forward, backward = [], []
    for number in range(30):
        pair = {"instruction": f"Do {number}.", "output_1": "one " * 3, "output_2": "two", "label": 1 + number % 2}
        for into in (forward, backward):
            fail, winner = bool(rng.random() < 0.2), int(rng.integers(1, 3))
            into.append(pair | {"response": [{"text": "Output (a)"}], "winner": winner,
                                "result": {"winner": winner, "tie": 0, "fail": fail}})  # fmt: skip
    stem = "mtbench.gpt-3.5-turbo.base_pairwise.pairwise_vanilla"
    write(tmp_path, forward, name=f"{stem}.jsonl")
    write(tmp_path, backward, name=f"{stem}_swap.jsonl")
    trials = bl.read_judgements(tmp_path)
    assert set(trials["judge"]) == {"gpt-3.5-turbo"}
    assert set(trials["dataset"]) == {"mtbench"}
    table = pd.DataFrame(forward + backward)
    table["fail"] = [result["fail"] for result in table["result"]]
    table["swapped"] = np.arange(len(table)) >= len(forward)
    assert (trials["status"] == "unparsable").sum() == table["fail"].sum()
    first = ((table["winner"] == 1) ^ table["swapped"]).astype(float)[~table["fail"]]
    assert trials["value"].mean() == pytest.approx(first.mean())
    replies = bl.audit(trials, only=["replies"], resampling=Resampling(n=100)).set_index(["metric", "system"])[
        "estimate"
    ]
    right = (table["winner"] == table["label"])[~table["fail"]]
    assert replies["comparative_accuracy", ""] == pytest.approx(right.mean())
    assert trials["words"].tolist() == [3.0] * 30 + [1.0] * 30


def test_ordinary_tables_are_not_taken_for_exports(tmp_path):
    for rows in ("question,answer,score\nq,a,1\nr,b,4\ns,a,5\n", "question,model,score\nq,a,1\nr,b,4\ns,a,5\n"):
        (tmp_path / "table.csv").write_text(rows)
        trials = bl.read_judgements(tmp_path / "table.csv", mapping={"scale": "=1-5"})
        assert trials.attrs["files"] == {"table.csv": "table"}
    (tmp_path / "table.json").write_text('{"results": [{"a": 1}]}')
    with pytest.raises(InputError):
        bl.read_judgements(tmp_path / "table.json")


def written(folder, records, lines=False):
    file = folder / "log.json"
    file.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records))
    return file


def refused_and_read(given):
    with pytest.raises(InputError):
        read_judgements(given)
    return read_judgements(given, mapping=answers(given)[0])


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
    trials = read_judgements(written(tmp_path, records, lines=True))
    assert trials["value"].tolist() == [float(1 + (n + at) % 10) for n in range(15) for at in range(3)]
    assert trials["candidate_id"].tolist() == ["x", "y", "z"] * 15


def test_objects_of_scores_are_attributes(tmp_path):
    records = [{"question_id": n, "target_txt": "r", "text": f"t{n}",
                "score": {"logical robustness": 1 + n % 5, "depth": 5 - n % 5}} for n in range(20)]  # fmt: skip
    trials = read_judgements(written(tmp_path, records, lines=True))
    assert trials[trials["attribute"] == "logical robustness"]["value"].tolist() == [1.0 + n % 5 for n in range(20)]
    assert set(trials["attribute"]) == {"logical robustness", "depth"}
