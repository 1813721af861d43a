"""JudgeBench, PandaLM and the self-recognition files, from small logs of their own."""

import json
import math

import pytest

import biaslab as bl
from biaslab.core.errors import InputError

GAME = {"judgment": {"judge_model": "some/judge", "response": "It is [[A>B]]."}, "decision": "A>B"}
JUDGEBENCH = {
    "pair_id": "p1",
    "source": "mmlu-pro-law",
    "question": "What is allowed?",
    "response_A": "Nothing at all.",
    "response_B": "Everything.",
    "label": "A>B",
    "judge_name": "arena_hard",
    "judgments": [GAME, {**GAME, "decision": "A>B"}],
}


def write(folder, records, name="log.jsonl", as_list=False):
    file = folder / name
    lines = "".join((json.dumps(record) if isinstance(record, dict) else record) + "\n" for record in records)
    file.write_text(json.dumps(records) if as_list else lines)
    return file


def outcome(trials):
    return [(None if math.isnan(v) else v, s) for v, s in zip(trials["value"], trials["status"], strict=True)]


def test_judgebench_has_both_orders(tmp_path):
    trials = bl.read_judgements(write(tmp_path, [JUDGEBENCH]))
    columns = ["candidate_id", "opponent_id", "value", "human_gap", "words", "opponent_words"]
    assert trials[columns].to_numpy().tolist() == [
        ["response_A", "response_B", 1.0, 1.0, 3.0, 1.0],
        ["response_B", "response_A", 1.0, -1.0, 1.0, 3.0],
    ]
    where = ["judge", "template", "dataset", "subset", "context_id"]
    assert trials.loc[0, where].tolist() == ["some/judge", "arena_hard", "judgebench", "mmlu-pro-law", "p1"]


@pytest.mark.parametrize(
    ("game", "found"),
    [
        ({"decision": "B>A"}, (0.0, "ok")),
        ({"decision": "A>>B"}, (1.0, "ok")),
        ({"decision": "A=B"}, (0.5, "tie")),
        ({"decision": None}, (None, "unparsable")),
        ({"decision": None, "judgment": {"response": "I'm sorry, but I can't judge this."}}, (None, "refused")),
        ({"decision": 1}, (None, "unparsable")),
        ({}, (None, "unparsable")),
    ],
)
def test_decisions_of_judgebench(tmp_path, game, found):
    assert outcome(bl.read_judgements(write(tmp_path, [JUDGEBENCH | {"judgments": [game]}]))) == [found]


def test_games_of_judgebench_that_failed_or_are_none(tmp_path):
    others = [
        {"pair_id": "p2", "judgments": [None, GAME]},
        {"pair_id": "p3", "judgments": []},
        {"pair_id": "p4", "label": "A"},
    ]
    trials = bl.read_judgements(write(tmp_path, [JUDGEBENCH | other for other in others]))
    assert trials[["context_id", "candidate_id"]].to_numpy().tolist() == [["p2", "response_B"]]
    assert trials.attrs["left_out"] == {"the call failed": 1}
    assert [reason for _, _, reason in sorted(trials.attrs["problems"])] == [
        "judgments are not one or two games",
        "label is neither A>B nor B>A",
    ]


def write_text(folder, text, name):
    (folder / name).write_text(text)
    return folder / name


def test_pandalm_alone_and_with_its_annotators(tmp_path):
    verdicts = [
        {"idx": i, "gpt_result": result, "gpt_reason": "So."} for i, result in enumerate(["1", 2, "Tie", "garbage", 0])
    ]
    people = [
        {"idx": i, "cmp_key": "llama-7b_opt-7b", "instruction": "Do", "input": str(i),
         "response1": "a b", "response2": "c",
         "annotator1": 1, "annotator2": 0, "annotator3": 1}
        for i in range(4)
    ]  # fmt: skip
    file = write(tmp_path, verdicts, "verdicts.json", as_list=True)
    single = bl.read_judgements(file)
    assert outcome(single) == [(1.0, "ok"), (0.0, "ok"), (0.5, "tie"), (None, "unparsable"), (0.5, "tie")]
    assert single["human_gap"].isna().all()
    assert single.loc[0, ["judge", "context_id", "candidate_id"]].tolist() == ["gpt", "0", "response1"]
    both = [verdict | person for verdict, person in zip(verdicts, people, strict=False)]
    joined = bl.read_judgements(write(tmp_path, both, "both.json", as_list=True))
    assert joined["human_gap"].tolist() == pytest.approx([2 / 3] * 4)
    assert joined.loc[0, ["candidate_id", "opponent_id", "words", "opponent_words"]].tolist() == [
        "llama-7b",
        "opt-7b",
        2,
        1,
    ]


def test_own_summaries_against_others(tmp_path):
    chosen = {
        "key": "k",
        "model": "human",
        "self_preference": 0.875,
        "forward_comparison": "1",
        "backward_comparison": "2",
    }
    trials = bl.read_judgements(write(tmp_path, [chosen], "pairs_xsum_gpt4.json"))
    columns = ["judge", "candidate_id", "opponent_id", "value", "p_both_orders"]
    assert trials[columns].to_numpy().tolist() == [
        ["gpt4", "gpt4", "human", 1.0, 0.875],
        ["gpt4", "human", "gpt4", 0.0, 0.125],
    ]
    sure = chosen | {"forward_probability": 0.75, "backward_probability": 0.5, "backward_comparison": "1"}
    trials = bl.read_judgements(write(tmp_path, [sure], "label_wrong_xsum_gpt4.json"))
    assert outcome(trials) == [(0.75, "ok"), (0.5, "tie")]
    assert trials.loc[0, ["dataset", "template"]].tolist() == ["xsum", "authors named wrongly"]
    both = {"forward_comparison_output": {"1": 0.6, "2": 0.2}, "backward_comparison_output": {"2": 0.5}}
    trials = bl.read_judgements(write(tmp_path, [chosen | both], "any.json"))
    assert trials["value"].tolist() == pytest.approx([0.75, 0.0])
    assert trials["label_mass"].tolist() == pytest.approx([0.8, 0.5])
    assert set(trials["judge"]) == {"unknown"}


def test_mean_over_both_orders_is_one_judgement_of_unknown_order(tmp_path):
    record = {"key": "k", "model": "human", "self_preference": 0.7}
    trials = bl.read_judgements(write(tmp_path, [record], "label_correct_xsum_llama.json"))
    assert trials[["candidate_id", "value", "order_known"]].to_numpy().tolist() == [["llama", 0.7, False]]


def test_key_gives_the_data_set_of_an_article(tmp_path):
    keys = {"35232142": "xsum", "f" * 40: "cnn", "k": "cnn"}
    records = [{"key": key, "model": "human", "self_preference": 0.7} for key in keys]
    trials = bl.read_judgements(write(tmp_path, records, "label_correct_cnn_llama.json"))
    assert dict(zip(trials["context_id"], trials["dataset"], strict=True)) == keys
    scores = [{"key": key, "model": "gpt4", "target_model": "human", "scores": {"3": 1}} for key in keys]
    trials = bl.read_judgements(write(tmp_path, scores, "scores_cnn_gpt4.json"))
    assert dict(zip(trials["context_id"], trials["dataset"], strict=True)) == keys


@pytest.mark.parametrize("naming", ["wrong", "random"])
def test_mean_of_an_unknown_text_is_refused_or_left_out(tmp_path, naming):
    mean = {"key": "k", "model": "human", "self_preference": 0.7}
    file = write(tmp_path, [mean], f"label_{naming}_xsum_llama.json")
    with pytest.raises(InputError, match="does not say which text it refers to"):
        bl.read_judgements(file)
    reported = mean | {"key": "l", "forward_comparison": "1", "backward_comparison": "2"}
    trials = bl.read_judgements(write(tmp_path, [mean, reported], f"label_{naming}_xsum_llama.json"))
    assert trials["context_id"].unique().tolist() == ["l"]
    assert list(trials.attrs["left_out"].values()) == [1]


def test_expected_scores_of_summaries(tmp_path):
    record = {"key": "k", "model": "gpt4", "target_model": "human", "scores": {"1": 0.25, "3": 0.25}}
    broken = record | {"key": "j", "scores": {"1": 2}}
    trials = bl.read_judgements(write(tmp_path, [record, broken], "scores_xsum_gpt4.json"))
    assert trials[["candidate_id", "value", "label_mass", "answer"]].to_numpy().tolist() == [
        ["human", 2.0, 0.5, "distribution"]
    ]
    assert trials.attrs["malformed"] == 1
