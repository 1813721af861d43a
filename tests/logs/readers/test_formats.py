"""Every format from a small log of its own: what is read, what is a status, what is refused with its line."""

import gzip
import importlib.util
import json
import math
import random
import tarfile
from importlib import resources

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError, MissingDependencyError, TrialsError
from biaslab.logs.readers import available
from biaslab.logs.readers.formats import ORDER, load_spec
from biaslab.logs.readers.readings import bracketed

PAIR = {"judge": "j", "question": 81, "A": "x", "B": "y", "judgment": "Final verdict: [[A]]"}
SCORE = {
    "judge": "j",
    "system": "M1",
    "aspect": "coherence",
    "mode": "rts",
    "id": "d1",
    "resp": "Clear. Final score: 4.",
}
ALPACA = {
    "instruction": "Name a colour.",
    "output_1": "Red.",
    "generator_1": "one",
    "output_2": "Blue.",
    "generator_2": "two",
    "annotator": "judge",
    "preference": 2.0,
}
LLMBAR = {
    "input": "Name a colour.",
    "output_1": "Red.",
    "output_2": "Tree.",
    "label": 1,
    "results": [
        {
            "swap = False": {"completion": ["Output (a)", "stop"], "winner": "1"},
            "swap = True": {"completion": ["Output (a)", "stop"], "winner": "2"},
        }
    ],
}
RESPONSES = {
    "source": "hello\n",
    "context": "a fact",
    "system_id": "s1",
    "system_output": "hi",
    "scores": {"coherence": 2.0, "engagingness": 3.0},
    "prompt": 'Coherence (1-3) Does it follow?\n\nEvaluation Form (Answer by starting with "Rating:" and then give the '
    'explanation of the rating on the next line by "Rationale:"):\n- Coherence:\n',
    "all_responses": ["Rating: 2\nRationale: so so", "Rating: 7", None, "I'm sorry, but I cannot rate this."],
}
PROMETHEUS = {
    "idx": 1,
    "response_source": "vicuna",
    "instruction": "###The instruction to evaluate:\nSay hi\n\n###Response to evaluate:\nhi\n\n###Reference Answer",
    "gpt4_score": [5, None, 7],
    "gpt4_feedback": ["good", "", "odd"],
}
SOCREVAL = {
    "id": 3,
    "human": 4,
    "prompt": 'Give an overall quality score in [1, 2, 3, 4, 5].\n{"own response": "x", "overall quality": 5}\nNow?',
    "responses": [
        '</think>\n\n{"own response": "y", "overall quality": 2}',
        "Perhaps the overall quality is 5.\n</think>\n**Overall Quality:**\n4.5",
        "The overall quality: 3, or",
        "Overall quality: 1, or rather not.</think>\nI cannot say.",
        '</think>{"overall quality": 7}',
        None,
    ],
}
BATCH = {
    "custom_id": "d1/M1",
    "error": None,
    "response": {
        "status_code": 200,
        "body": {
            "model": "gpt-x",
            "usage": {"total_tokens": 9},
            "choices": [{"message": {"content": "Score: 4", "refusal": None}, "finish_reason": "stop"}],
        },
    },
}


def lines(folder, *records, name="log.jsonl"):
    file = folder / name
    file.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return file


def listed(folder, *records, name="log.json", **options):
    file = folder / name
    file.write_text(json.dumps(list(records), **{"indent": 2, **options}), encoding="utf-8")
    return file


def outcome(trials):
    return [(None if math.isnan(v) else v, s) for v, s in zip(trials["value"], trials["status"], strict=True)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Verdict: [[B]]", (0.0, "ok")),
        ("[[C]]", (0.5, "tie")),
        ('[["C"]]', (0.5, "tie")),
        ("[[A]] no, [[B]]", (None, "unparsable")),
        ("[[A]], I repeat, [[A]]", (1.0, "ok")),
        ("Assistant A is better.", (None, "unparsable")),
        ("[[D]]", (None, "unparsable")),
        ("[A]", (None, "unparsable")),
        ("I'm sorry, I can't judge this.", (None, "refused")),
        ("", (None, "unparsable")),
    ],
)
def test_brackets(text, found):
    value, status = bracketed(text)
    assert (None if math.isnan(value) else value, status) == found


def test_pairs_with_twin_duplicate_failed_call_and_null(tmp_path):
    twin = {**PAIR, "A": "y", "B": "x", "judgment": "[[C]]"}
    failed = {**PAIR, "question": 82, "judgment": "Failed to obtain answer via API."}
    null = {**PAIR, "question": 83, "judgment": None}
    again = {**PAIR, "judgment": "[[B]]"}
    trials = bl.read_judgements(lines(tmp_path, PAIR, twin, failed, null, PAIR, again))
    assert outcome(trials) == [(1.0, "ok"), (0.5, "tie"), (None, "unparsable")]
    assert (trials.attrs["duplicates"], trials.attrs["contradictions"]) == (2, 1)
    assert trials.attrs["left_out"] == {"the call failed": 1}
    assert trials["key"].tolist() == ["log.jsonl:1", "log.jsonl:2", "log.jsonl:4"]
    assert trials["probe"].unique().tolist() == ["recorded"]
    assert trials["reply"].isna().tolist() == [False, False, True]


def test_malformed_lines_are_listed_and_the_rest_goes_on(tmp_path):
    bad = ['{"judge": "j", "quest', "[1, 2]", {**PAIR, "judge": None}, {**PAIR, "judgment": 4}, {**PAIR, "A": True}]
    file = lines(tmp_path, PAIR, *bad, "", {**PAIR, "question": 82})
    trials = bl.read_judgements(file)
    assert len(trials) == 2
    assert trials.attrs["malformed"] == 5
    assert [(line, reason.partition(":")[0]) for _, line, reason in trials.attrs["problems"]] == [
        (2, "not JSON"),
        (3, "not a JSON object"),
        (4, "judge is not a name or a whole number"),
        (7 - 1, "A is not a name or a whole number"),
        (5, "judgment is not a text or null"),
    ]
    with pytest.raises(TrialsError, match=r"log.jsonl, line 2"):
        bl.read_judgements(file, strict=True)
    with pytest.raises(TrialsError, match=r"line 2.*judgment"):
        bl.read_judgements(lines(tmp_path, PAIR, {**PAIR, "judgment": 4}), strict=True)


def test_bytes_that_are_no_text_cost_their_line_only(tmp_path):
    file = lines(tmp_path, PAIR, {**PAIR, "question": "Z"}, {**PAIR, "question": 83})
    file.write_bytes(file.read_bytes().replace(b"Z", b"\xff"))
    trials = bl.read_judgements(file)
    assert trials["context_id"].tolist() == ["81", "83"]
    assert trials.attrs["problems"] == [("log.jsonl", 2, "not JSON: not UTF-8 text")]


def test_a_damaged_record_of_a_list_costs_no_other(tmp_path):
    file = listed(tmp_path, *({**ALPACA, "instruction": f"q{i}"} for i in range(4)))
    text = file.read_text()
    file.write_text(text.replace('"instruction": "q1"', '"instruction": "q1'))
    trials = bl.read_judgements(file)
    assert len(trials) == 3
    [(_, line, reason)] = trials.attrs["problems"]
    assert text.split("\n")[line - 1].strip() == "{"
    assert '"q1"' in text.split("\n")[line]
    assert reason.startswith("not JSON")


def test_lone_surrogate_is_kept_as_its_escape(tmp_path):
    trials = bl.read_judgements(lines(tmp_path, json.dumps({**PAIR, "A": "x\ud83d", "judgment": "\ud83d [[A]]"})))
    assert trials["candidate_id"].tolist() == [r"x\ud83d"]
    assert outcome(trials) == [(1.0, "ok")]


def test_lone_surrogate_in_saved_trials_is_kept_as_its_escape(tmp_path):
    saved = {"probe": "position", "judge": "j", "dataset": "d", "context_id": "c", "candidate_id": "x",
             "opponent_id": "y\ud83d", "attribute": "fluency", "template": "\ud83d", "replicate": 0, "value": 1.0,
             "status": "ok", "key": "k"}  # fmt: skip
    trials = bl.read_judgements(lines(tmp_path, saved))
    assert trials[["opponent_id", "template"]].iloc[0].tolist() == [r"y\ud83d", r"\ud83d"]


def test_summeval_scores_by_mode(tmp_path):
    others = [
        {**SCORE, "mode": "mcq", "resp": "D"},
        {**SCORE, "mode": "stareval", "resp": "Five stars."},
        {**SCORE, "mode": "old"},
        {**SCORE, "system": "M2", "resp": "Final score: 9"},
        {**SCORE, "system": "M3", "resp": None},
    ]
    trials = bl.read_judgements(lines(tmp_path, SCORE, *others))
    assert outcome(trials) == [
        (4.0, "ok"), (4.0, "ok"), (5.0, "ok"), (None, "out_of_range"), (None, "unparsable"),
    ]  # fmt: skip
    assert trials["order"].tolist() == ["rs", "s", "sr", "rs", "rs"]


def test_toggled_pairs_show_the_second_model_first(tmp_path):
    record = {"judge": "j", "model_1": "M1", "model_2": "M2", "aspect": "fluency", "id": "d", "toggled": False}
    rated = {"human_score_1": 4.0, "human_score_2": 1.0, "resp": "A"}
    trials = bl.read_judgements(lines(tmp_path, record | rated, record | rated | {"toggled": True}))
    assert trials[["candidate_id", "opponent_id", "human_gap"]].to_numpy().tolist() == [
        ["M1", "M2", 3.0],
        ["M2", "M1", -3.0],
    ]


@pytest.mark.parametrize(
    ("preference", "found"),
    [
        (1.0, (0.0, "ok")), (2.0, (1.0, "ok")), (1.5, (0.5, "tie")), (0.0, (0.5, "tie")), (None, (None, "unparsable")),
        (1.25, (0.25, "ok")), (3.0, (None, "out_of_range")), (-1.0, (None, "out_of_range")),
    ],
)  # fmt: skip
def test_alpaca_preferences(tmp_path, preference, found):
    trials = bl.read_judgements(listed(tmp_path, {**ALPACA, "preference": preference}))
    assert outcome(trials) == [found]
    assert trials[["candidate_id", "opponent_id", "order_known"]].to_numpy().tolist() == [["two", "one", False]]
    assert trials[["words", "opponent_words"]].to_numpy().tolist() == [[1.0, 1.0]]


def test_alpaca_order_is_inferred_from_probabilities(tmp_path):
    def weighted(second, first_label):
        top = [{"token": t, "logprob": math.log(p)} for t, p in (("m", first_label), ("M", 1 - first_label))]
        return {**ALPACA, "instruction": str((second, first_label)), "preference": 1 + second,
                "raw_completion": {"text": "m", "logprobs": {"content": [{"top_logprobs": top}]}}}  # fmt: skip

    trials = bl.read_judgements(
        listed(
            tmp_path, weighted(0.8, 0.8), weighted(0.8, 0.2), weighted(0.5001, 0.5), weighted(0.8, 0.6),
            weighted(0.4997, 0.5003),
        )
    )  # fmt: skip
    assert trials["order_known"].tolist() == [True, True, False, False, True]
    assert trials["candidate_id"].tolist() == ["two", "one", "two", "two", "one"]
    assert trials["value"].tolist() == pytest.approx([0.8, 0.2, 0.5001, 0.8, 0.5003])
    assert trials["p_first_label"].tolist() == pytest.approx([0.8, 0.2, 0.5, 0.6, 0.5003])
    found = bl.audit(trials, only=["replies"]).query("system == ''").set_index("metric")
    assert found.loc["first_label_rate", ["estimate", "n_trials"]].tolist() == [3 / 4, 5]
    assert found.loc["first_position_rate", ["estimate", "n_trials", "n_dropped"]].tolist() == [2 / 3, 3, 2]


def test_alpaca_order_is_inferred_from_model_names(tmp_path):
    """Of annotators that rank; outputs may be left out, and then nothing is known of their lengths."""
    short = {name: value for name, value in ALPACA.items() if not name.startswith("output_")}
    named = [{"m": "output_1", "M": "output_2"}, {"M": "output_1", "m": "output_2"}, {"m": "output_3"}, None]
    named += [{"M": "output_1"}]
    rows = [short | {"referenced_models": given, "instruction": f"q{n}"} for n, given in enumerate(named)]
    trials = bl.read_judgements(lines(tmp_path, *rows))
    assert set(trials.attrs["files"].values()) == {"alpaca_eval"}
    assert trials["order_known"].tolist() == [True, True, False, False, True]
    assert trials["candidate_id"].tolist() == ["one", "two", "two", "two", "two"]
    assert trials["value"].tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert trials["words"].isna().all()


def test_alpaca_order_is_inferred_from_ranks_and_preference(tmp_path):
    """Where nobody noted which output was "m", the output that won is the model of rank 1."""

    def ranked(preference, *ranks):
        models = [{"model": model, "rank": rank} for model, rank in zip("mM", ranks, strict=True)]
        return {**ALPACA, "instruction": f"{preference} {ranks}", "preference": preference} | {
            "raw_completion": {"ordered_models": models}
        }

    rows = ranked(1, 1, 2), ranked(1, 2, 1), ranked(2, "1", "2"), ranked(2, 2, 1), ranked(1, 1, 1), ranked(1.5, 1, 2)
    trials = bl.read_judgements(listed(tmp_path, *rows))
    assert trials["order_known"].tolist() == [True] * 4 + [False] * 2
    assert trials["candidate_id"].tolist() == ["one", "two", "two", "one", "two", "two"]
    assert trials["value"].tolist() == [1.0, 0.0, 1.0, 0.0, 0.0, 0.5]


@pytest.mark.slow
def test_alpaca_order_of_models_is_that_of_the_seed(shared_data):
    """AlpacaEval shows output_2 first where its generator, seeded with the instruction, says so."""
    for file in sorted((shared_data / "recorded" / "alpaca_eval_new").glob("*turbo_fn.jsonl.gz")):
        with gzip.open(file, "rt") as texts:
            rows = [json.loads(line) for line in texts]
        trials = bl.read_judgements(file)
        reported = trials["order_known"].to_numpy()
        seeds = ("is_switched_outputs" + row["instruction"] + "0" for row in rows)
        switched = np.array([random.Random(seed).choices([False, True])[0] for seed in seeds])
        first = np.array(
            [row["generator_2"] if two else row["generator_1"] for row, two in zip(rows, switched, strict=True)]
        )
        assert reported.sum() > 800
        assert (trials["candidate_id"].to_numpy() == first)[reported].all()


def test_llmbar(tmp_path):
    odd = {
        **LLMBAR,
        "input": "b",
        "results": [{"swap = False": {"completion": [""], "winner": None}, "swap = True": {"winner": "1"}}],
    }
    folder = tmp_path / "Natural" / "evaluators" / "GPT-4" / "Vanilla"
    folder.mkdir(parents=True)
    listed(folder, LLMBAR, odd, {**LLMBAR, "input": "c", "label": 3}, name="result.json")
    (folder / "statistics.json").write_text('{"equal": "1 / 2"}')
    trials = bl.read_judgements(tmp_path)
    assert outcome(trials) == [(1.0, "ok"), (1.0, "ok"), (None, "unparsable"), (0.0, "ok")]
    assert trials["human_gap"].tolist() == [1.0, -1.0, 1.0, -1.0]
    assert set(trials["judge"]) == {"GPT-4"}
    assert set(trials["template"]) == {"Vanilla"}
    assert trials["context_id"].str.startswith("Natural/").all()
    assert trials.attrs["skipped"] == ["Natural/evaluators/GPT-4/Vanilla/statistics.json"]
    assert trials.attrs["malformed"] == 1
    assert trials[["subset", "words", "opponent_words"]].drop_duplicates().to_numpy().tolist() == [["Natural", 1, 1]]


def llmbar(folder, prompt, *records):
    place = folder / "Natural" / "evaluators" / "GPT-4" / prompt
    place.mkdir(parents=True)
    listed(place, *records, name="result.json")
    return bl.read_judgements(folder)


def test_the_last_round_of_llmbar_is_the_verdict(tmp_path):
    final = {"swap = False": {"winner": "1"}, "swap = True": {"winner": "1"}}
    trials = llmbar(tmp_path, "Swap", {**LLMBAR, "results": [*LLMBAR["results"], final]})
    assert outcome(trials) == [(1.0, "ok"), (0.0, "ok")]
    assert trials["replicate"].tolist() == [0, 0]


def test_llmbar_auxiliary_calls_are_not_verdicts(tmp_path):
    helps = [["1. Is it a colour?", "stop"], ["Red.", "stop"]]
    trials = llmbar(tmp_path, "Metrics_Reference", {**LLMBAR, "results": [*helps, *LLMBAR["results"]]})
    assert outcome(trials) == [(1.0, "ok"), (1.0, "ok")]
    assert trials.attrs["malformed"] == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")
def test_ratings_of_llmbar_are_scores(tmp_path):
    broken = {"swap = False": {"winner": "2"}, "swap = True": {"winner": "1"}}
    tied = {"score_1": ["8", "stop"], "score_2": ["8", "stop"], **broken}
    odd = {"score_1": ["10", "stop"], "score_2": ["", "content management policy"], **broken}
    records = [{**LLMBAR, "input": name, "results": [given]} for name, given in (("a", tied), ("b", odd))]
    trials = llmbar(tmp_path, "Rating", *records)
    assert outcome(trials) == [(8.0, "ok"), (8.0, "ok"), (None, "out_of_range"), (None, "refused")]
    assert trials["opponent_id"].isna().all()
    assert trials[["candidate_id", "human"]].head(2).to_numpy().tolist() == [["output_1", 1.0], ["output_2", 0.0]]
    assert set(trials["scale"]) == {"0-9"}
    assert set(trials["configuration"]) == {"Rating"}
    found = bl.audit(trials, resampling=bl.Resampling(n=100))
    assert "position" in found.attrs["not_run"]


def test_pairs_of_llmbar_that_share_a_prompt_are_all_there(tmp_path):
    trials = llmbar(tmp_path, "Vanilla", LLMBAR, {**LLMBAR, "output_2": "Bush."})
    assert len(trials) == 4
    assert trials.attrs["duplicates"] == 0


def test_all_responses(tmp_path):
    trials = bl.read_judgements(listed(tmp_path, RESPONSES, name="gpt9_coh_any.json"))
    assert outcome(trials) == [(2.0, "ok"), (None, "out_of_range"), (None, "unparsable"), (None, "refused")]
    first = trials.iloc[0]
    assert first[["judge", "dataset", "attribute", "scale", "form", "order", "human"]].tolist() == [
        "gpt9", "topicalchat", "coherence", "1-3", "no auto-CoT", "sr", 2.0,
    ]  # fmt: skip
    assert trials["replicate"].tolist() == [0, 1, 2, 3]


def test_prometheus(tmp_path):
    trials = bl.read_judgements(listed(tmp_path, PROMETHEUS, {**PROMETHEUS, "gpt4_score": ["5"]}))
    assert outcome(trials) == [(5.0, "ok"), (None, "unparsable"), (None, "out_of_range")]
    assert trials.attrs["malformed"] == 1


def test_socreval(tmp_path):
    trials = bl.read_judgements(lines(tmp_path, SOCREVAL, name="r1_drop.jsonl"))
    assert trials.attrs["files"] == {"r1_drop.jsonl": "socreval"}
    assert outcome(trials) == [
        (2.0, "ok"), (4.5, "ok"), (None, "cut_off"), (None, "unparsable"), (None, "out_of_range"), (None, "unparsable"),
    ]  # fmt: skip
    first = trials.iloc[0]
    assert first[["judge", "dataset", "attribute", "scale", "human"]].tolist() == [
        "r1", "drop", "overall quality", "1-5", 4.0,
    ]  # fmt: skip
    refused = bl.read_judgements(lines(tmp_path, SOCREVAL, {**SOCREVAL, "prompt": "How good?"}, name="more_drop.jsonl"))
    assert (len(refused), refused.attrs["malformed"]) == (6, 1)


def test_socreval_without_thoughts_is_read_whole(tmp_path):
    plain = {**SOCREVAL, "responses": ["Overall quality: 3", "Overall quality - none"]}
    assert outcome(bl.read_judgements(lines(tmp_path, plain, name="r1_drop.jsonl"))) == [
        (3.0, "ok"),
        (None, "unparsable"),
    ]


def test_thoughts_are_not_read(tmp_path):
    """A verdict inside a thought is none, whatever the format; one that was cut off has a status of its own."""
    thoughts = ("<think>[[B]]?</think>[[A]]", "<think>So [[B]]", "[THINK][[A]] or [[B]][/THINK] It is [[B]].")
    pairs = [{**PAIR, "question": n, "judgment": text} for n, text in enumerate(thoughts)]
    assert outcome(bl.read_judgements(lines(tmp_path, *pairs))) == [(1.0, "ok"), (None, "cut_off"), (0.0, "ok")]
    closer_look = {**RESPONSES, "all_responses": ["<think>Rating: 3</think>Rating: 2", "<think>\nRating: 3"]}
    trials = bl.read_judgements(listed(tmp_path, closer_look, name="gpt9_coh_any.json"))
    assert outcome(trials) == [(2.0, "ok"), (None, "cut_off")]


def test_mt_bench_pairs_and_scores(tmp_path):
    pair = {"question_id": 81, "turn": 2, "model_1": "x", "model_2": "y", "judge": ["gpt-4", "pair-v2"]}
    pair |= {"g1_judgment": "[[A]]", "g2_judgment": "$ERROR$"}
    trials = bl.read_judgements(lines(tmp_path, pair))
    assert trials[["context_id", "candidate_id", "value", "judge", "template"]].to_numpy().tolist() == [
        ["81/turn 2", "x", 1.0, "gpt-4", "pair-v2"]
    ]
    single = {"question_id": 81, "model": "x", "judge": ["gpt-4", "single-v1"], "judgment": "Rating: [[9]]", "score": 9}
    scores = bl.read_judgements(lines(tmp_path, single, {**single, "model": "y", "judgment": "Nine."}))
    assert outcome(scores) == [(9.0, "ok"), (None, "unparsable")]
    assert scores["scale"].tolist() == ["1-10"] * 2


def test_openai_batch_needs_a_mapping(tmp_path):
    refused = json.loads(json.dumps(BATCH | {"custom_id": "d1/M2"}))
    refused["response"]["body"]["choices"][0]["message"] = {"content": None, "refusal": "No."}
    failed = {"custom_id": "d1/M3", "response": None, "error": {"message": "no"}}
    file = lines(tmp_path, BATCH, refused, failed, {"custom_id": "d1/M4", "response": {"status_code": 200}})
    with pytest.raises(InputError, match=r"context_id.*custom_id"):
        bl.read_judgements(file)
    mapping = {"context_id": "custom_id~^(.+)/", "candidate_id": "custom_id~/(.+)$", "scale": "=1-5"}
    trials = bl.read_judgements(file, mapping=mapping)
    assert outcome(trials) == [(4.0, "ok"), (None, "refused")]
    assert trials[["judge", "context_id", "candidate_id", "tokens"]].iloc[0].tolist() == ["gpt-x", "d1", "M1", 9]
    assert trials.attrs["left_out"] == {"the call failed": 1}
    assert trials.attrs["malformed"] == 1


def test_any_table_through_a_mapping(tmp_path):
    table = pd.DataFrame(
        {"q": ["a", "a", "b"], "one": ["x", "y", "x"], "two": ["y", "x", "y"], "best": ["x", "x", "both"]}
    )
    mapping = {"context_id": "q", "candidate_id": "one", "opponent_id": "two", "winner": "best", "judge": "=me"}
    made = []
    for name in ("log.csv", "log.tsv", "log.parquet", "log.jsonl"):
        if name.endswith("parquet"):
            table.to_parquet(tmp_path / name)
        elif name.endswith("jsonl"):
            table.to_json(tmp_path / name, orient="records", lines=True)
        else:
            table.to_csv(tmp_path / name, index=False, sep="\t" if name.endswith("tsv") else ",")
        made.append(bl.read_judgements(tmp_path / name, mapping=mapping))
    assert outcome(made[0]) == [(1.0, "ok"), (0.0, "ok"), (None, "unparsable")]
    for other in made[1:]:
        pd.testing.assert_frame_equal(other.drop(columns="key"), made[0].drop(columns="key"))


def test_tables_of_probabilities_scores_and_replies(tmp_path):
    head = "context_id,candidate_id,opponent_id,p_first\n"
    (tmp_path / "p.csv").write_text(head + "a,x,y,0.75\na,y,x,1.5\nb,x,y,\nb,y,x,0.5\nc,x,y,high\nd,x\n")
    pairs = bl.read_judgements(tmp_path / "p.csv")
    assert outcome(pairs) == [(0.75, "ok"), (None, "out_of_range"), (None, "unparsable"), (0.5, "tie")]
    assert [line for _, line, _ in pairs.attrs["problems"]] == [7, 6]
    (tmp_path / "s.csv").write_text("context_id,candidate_id,score,human\na,x,4,3.5\na,y,9,1\n")
    with pytest.raises(InputError, match="scale"):
        bl.read_judgements(tmp_path / "s.csv")
    scores = bl.read_judgements(tmp_path / "s.csv", mapping={"scale": "=1-7"})
    assert outcome(scores) == [(4.0, "ok"), (None, "out_of_range")]
    assert scores["human"].tolist() == [3.5, 1.0]
    (tmp_path / "r.csv").write_text(
        'context_id,candidate_id,opponent_id,reply\na,x,y,"B, for it is short"\na,y,x,[[A]]\n'
    )
    assert outcome(bl.read_judgements(tmp_path / "r.csv")) == [(0.0, "ok"), (1.0, "ok")]


@pytest.mark.parametrize(
    ("mapping", "match"),
    [
        ({"colour": "q"}, "colour"),
        ({"context_id": ""}, "context_id"),
        ({"judge": "nobody"}, "nobody"),
        ({"judge": "judge~("}, "regular expression"),
        ({"judge": "judge~j"}, "group"),
        ({"score_pattern": "x"}, "group"),
        ({"human": "=high"}, "a number"),
    ],
)
def test_wrong_mappings_are_named(tmp_path, mapping, match):
    with pytest.raises(InputError, match=match):
        bl.read_judgements(lines(tmp_path, SCORE), mapping=mapping)


def test_mapping_replaces_columns_of_a_known_format(tmp_path):
    mapping = {"judge": "=GPT-4", "context_id": "id~(\\d+)", "score_pattern": r"Final score: (\d)"}
    trials = bl.read_judgements(lines(tmp_path, SCORE, {**SCORE, "id": "none"}), mapping=mapping)
    assert trials[["judge", "context_id"]].to_numpy().tolist() == [["GPT-4", "1"], ["GPT-4", "none"]]
    assert outcome(trials) == [(4.0, "ok"), (None, "unparsable")]
    assert trials.attrs["unmatched"] == {"context_id: id does not match": 1}


def test_export_of_a_store_is_a_judge_and_no_log(tmp_path, graded):
    probe = bl.probes.Position(attributes=["fluency"], templates=[1], n_pairs=2)
    with bl.Store(tmp_path / "s.sqlite") as store:
        bl.collect(probe, bl.SimulatedJudge(graded.head(2)), graded.head(2), store=store, progress=False)
        store.export(tmp_path / "e.csv")
    with pytest.raises(InputError, match="--judge recorded:"):
        bl.read_judgements(tmp_path / "e.csv")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")
def test_saved_trials_come_back_with_their_conditions(tmp_path, graded):
    data = graded.head(3)
    probe = bl.probes.Position(attributes=["fluency"], n_pairs=3)
    trials = bl.collect(probe, bl.SimulatedJudge(data, position=1.0, refusal=0.2), data, progress=False)
    trials.to_csv(tmp_path / "t.csv", index=False)
    trials.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    trials.to_parquet(tmp_path / "t.parquet")
    first = probe.estimate(trials)
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        again = bl.read_judgements(tmp_path / name)
        assert again.attrs["malformed"] == 0
        assert again["status"].tolist() == trials["status"].tolist()
        np.testing.assert_allclose(probe.estimate(again)["estimate"], first["estimate"])


def test_packed_files_and_archives(tmp_path):
    file = lines(tmp_path, PAIR)
    packed = tmp_path / "packed.bin"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert len(bl.read_judgements(packed)) == 1
    archive = tmp_path / "logs.tar.xz"
    with tarfile.open(archive, "w:xz") as made:
        made.add(file, "inner/log.jsonl")
    assert bl.read_judgements(archive)["key"].tolist() == ["inner/log.jsonl:1"]
    packed.write_bytes(gzip.compress(file.read_bytes())[:-9])
    with pytest.raises(InputError, match="intact file"):
        bl.read_judgements(packed)


def test_unknown_files_say_what_they_have(tmp_path):
    with pytest.raises(InputError, match="biaslab map"):
        bl.read_judgements(lines(tmp_path, {"colour": "red"}))
    with pytest.raises(InputError, match="no judgement: it is empty"):
        bl.read_judgements(lines(tmp_path, ""))
    with pytest.raises(InputError, match="existing"):
        bl.read_judgements(tmp_path / "nothing")
    with pytest.raises(InputError, match="alpaca_eval"):
        bl.read_judgements(lines(tmp_path, PAIR), format="nonsense")
    with pytest.raises(InputError, match="line 1: A is not a name"):
        bl.read_judgements(lines(tmp_path, {**PAIR, "A": None}))


def test_a_format_can_be_forced(tmp_path):
    trials = bl.read_judgements(lines(tmp_path, {**PAIR, "response": "x", "custom_id": 1}), format="bracket_pairs")
    assert outcome(trials) == [(1.0, "ok")]


def inspect_log(folder):
    """Write a log as Inspect does, with its own classes."""
    log = pytest.importorskip("inspect_ai.log")
    score = pytest.importorskip("inspect_ai.scorer").Score
    scores = [
        {"graded": score(value=grade, explanation=f"GRADE: {grade}"), "stars": score(value=float(stars))}
        for grade, stars in (("C", 5), ("P", 3), ("I", 9))
    ]
    samples = [log.EvalSample(id=i, epoch=1, input="Say", target="x", scores=s) for i, s in enumerate(scores)]
    scorers = [{"name": "graded", "options": {"model": {"model": "some/grader"}}}]
    about = {
        "created": "2026-01-01T00:00:00+00:00",
        "task": "mine",
        "dataset": log.EvalDataset(),
        "model": "some/model",
    }
    spec = log.EvalSpec(**about, config=log.EvalConfig(), scorers=scorers)
    files = [folder / "log.eval", folder / "log.json"]
    for file in files:
        log.write_eval_log(log.EvalLog(eval=spec, samples=samples, status="success"), str(file))
    return files


def test_inspect_logs(tmp_path):
    for file in inspect_log(tmp_path):
        graded = bl.read_judgements(file)
        assert outcome(graded) == [(1.0, "ok"), (0.5, "ok"), (0.0, "ok")]
        assert graded.attrs["left_out"] == {"a number of unknown scale": 3}
        names = ["judge", "dataset", "context_id", "candidate_id", "attribute", "scale"]
        assert graded[names].iloc[1].tolist() == ["some/grader", "mine", "1", "some/model", "graded", "0-1"]
        both = bl.read_judgements(file, mapping={"scale": "=1-5"})
        assert both.groupby("scale")["value"].apply(list)["0-1"] == [1.0, 0.5, 0.0]
        stars = both[both["attribute"] == "stars"]
        assert outcome(stars) == [(5.0, "ok"), (3.0, "ok"), (None, "out_of_range")]
        assert set(stars["judge"]) == {"inspect/stars"}


def test_inspect_logs_need_inspect(tmp_path):
    if importlib.util.find_spec("inspect_ai"):
        pytest.skip("inspect_ai is installed")
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"version": 2, "eval": {"task": "t"}, "samples": []}, indent=2))
    with pytest.raises(MissingDependencyError, match="pip install inspect_ai"):
        bl.read_judgements(log)


def test_every_format_has_a_description():
    assert len(available()) > 12
    assert all(available().values())


def test_every_spec_file_is_a_format():
    files = {file.name for file in (resources.files("biaslab.logs") / "formats").iterdir()}
    assert files == {f"{name}.toml" for name in ORDER}
    assert all(load_spec(name).help for name in ORDER)
