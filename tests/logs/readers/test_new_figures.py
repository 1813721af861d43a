"""The newer figures beside the data: self-recognition, PandaLM, null model, MT-Bench, DevBench."""

import gzip
import json
import math

import numpy as np
import pytest
from beside_data import audit, value

import biaslab as bl

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded(shared_data):
    return shared_data / "recorded"


def summaries(recorded, name):
    return bl.read_judgements(recorded / "self_recognition" / f"{name}.json.gz")


@pytest.mark.parametrize(
    ("judge", "own", "flipped", "first"),
    [("gpt4", 0.7050, 0.2278, 0.4416), ("gpt35", 0.5816, 0.5777, 0.2251), ("llama", 0.5145, 0.7548, 0.8689)],
)
def test_own_summaries_of_xsum(recorded, judge, own, flipped, first):
    trials = summaries(recorded, f"pairs_xsum_{judge}")
    assert (len(trials), trials["context_id"].nunique()) == (8000, 1000)
    found = audit(trials, "self_preference", "position")
    assert value(found, "own_win_rate", system="") == pytest.approx(own, abs=5e-5)
    assert 1 - value(found, "order_consistency", human_gap=None) == pytest.approx(flipped, abs=2e-3)
    assert value(audit(trials, "replies"), "first_position_rate") == pytest.approx(first, abs=2e-3)


def test_self_preference_field_of_llama_is_recognition(recorded):
    """Beside the data stands .5108: the mean of the field, which is made of the other question's probabilities."""
    file = recorded / "self_recognition" / "pairs_xsum_llama.json.gz"
    records = json.loads(gzip.decompress(file.read_bytes()))
    assert sum(record["self_preference"] for record in records) / 4000 == pytest.approx(0.5108, abs=5e-5)
    for question, agrees in (("detection", 4000), ("comparison", 205)):
        own = [
            (record[f"forward_{question}_output"]["1"] + record[f"backward_{question}_output"]["2"]) / 2
            for record in records
        ]
        near = [abs(mean - record["self_preference"]) < 2e-3 for mean, record in zip(own, records, strict=True)]
        assert sum(near) == agrees


@pytest.mark.parametrize(
    ("naming", "own", "published"),
    [("correct", 0.7325, 0.7325), ("random", 0.7082, 0.7082), ("wrong", 0.6843, 1 - 0.3157)],
)
def test_own_summaries_of_gpt4_under_names(recorded, naming, own, published):
    """Beside the data stands .3157 for authors named wrongly: the preference for what is *named* GPT-4's."""
    trials = summaries(recorded, f"label_{naming}_xsum_gpt4")
    rate = value(audit(trials, "self_preference"), "own_win_rate", system="")
    assert rate == pytest.approx(own, abs=5e-5)
    assert rate == pytest.approx(published, abs=3e-4)


def test_exact_scores_of_gpt4(recorded):
    trials = summaries(recorded, "scores_xsum_gpt4")
    means = trials.groupby("candidate_id")["value"].mean()
    assert means[["gpt4", "claude", "human"]].tolist() == pytest.approx([4.226, 4.034, 2.987], abs=5e-4)
    gap = value(audit(trials, "self_preference"), "own_score_gap")
    assert gap == pytest.approx(means["gpt4"] - means.drop("gpt4").mean())
    assert trials["label_mass"].min() > 0.999


def test_verdicts_of_pandalm(recorded):
    trials = bl.read_judgements(recorded / "pandalm" / "gpt-3.5-turbo-testset-v1.json.gz")
    verdicts = trials["value"].map({1.0: "1", 0.0: "2", 0.5: "tie"}).fillna("unread")
    assert verdicts.value_counts().to_dict() == {"2": 476, "1": 460, "tie": 38, "unread": 25}


@pytest.mark.parametrize(
    ("name", "right", "ties"), [("gpt-3.5-turbo", 0.8131, (460, 476, 38)), ("pandalm-7b", 0.7749, (433, 459, 107))]
)
def test_pandalm_beside_its_annotators(recorded, name, right, ties):
    """Accuracy on pairs that neither side calls a tie, worked out here from the two files."""
    folder = recorded / "pandalm"
    log = folder / f"{name}-testset-v1.json.gz"
    trials = bl.read_judgements(log, mapping={"join": f"{folder / 'testset-v1.json.gz'} on idx"})
    assert len(trials) == 999
    assert trials["context_id"].nunique() == 170
    people = json.loads(gzip.decompress((folder / "testset-v1.json.gz").read_bytes()))
    votes = [[person[f"annotator{n}"] for n in (1, 2, 3)] for person in people]
    gaps = [(given.count(1) - given.count(2)) / 3 for given in votes]
    assert trials["human_gap"].tolist() == pytest.approx(gaps)
    field = "gpt_result" if name.startswith("gpt") else "pandalm_result"
    verdicts = [str(record[field]) for record in json.loads(gzip.decompress(log.read_bytes()))]
    decided = [(message, gap) for message, gap in zip(verdicts, gaps, strict=True) if message in ("1", "2") and gap]
    share = sum((message == "1") == (gap > 0) for message, gap in decided) / len(decided)
    found = audit(trials, "replies", "pair_length")
    assert share == pytest.approx(right, abs=5e-5)
    assert value(found, "comparative_accuracy", probe="replies") == pytest.approx(share)
    assert (verdicts.count("1"), verdicts.count("2"), len([v for v in verdicts if v in ("0", "Tie")])) == ties
    assert 0 < value(found, "longer_wins_at_equal_gold") < 1


def test_the_null_model(recorded):
    trials = bl.read_judgements(recorded / "null_model" / "weighted_alpaca_eval_gpt4_turbo_annotations.json.gz")
    found = audit(trials, "replies")
    assert value(found, "win_rate", system="example") == pytest.approx(0.76920, abs=5e-6)
    assert trials["order_known"].all()
    assert value(found, "first_label_rate") == pytest.approx(323 / 805)
    counts = found[found["system"] == ""].set_index("metric")["n_trials"]
    assert counts[["first_position_rate", "first_label_rate"]].tolist() == [805, 805]


def test_the_null_model_by_where_it_stood(recorded):
    """Worked out here from the raw labels: it is shown first where the saved preference is the probability of "M"."""
    file = recorded / "null_model" / "weighted_alpaca_eval_gpt4_turbo_annotations.json.gz"
    wins = {"first": [], "second": []}
    for record in json.loads(gzip.decompress(file.read_bytes())):
        [token] = record["raw_completion"]["logprobs"]["content"]
        chance = {top["token"]: math.exp(top["logprob"]) for top in token["top_logprobs"]}
        upper = chance.get("M", 0.0) / (chance.get("m", 0.0) + chance.get("M", 0.0))
        won = record["preference"] - 1
        wins["second" if abs(won - upper) < abs(won - (1 - upper)) else "first"].append(won)
    trials = bl.atlas.trials("null_model")
    shown = {"first": trials["candidate_id"] == "null_model", "second": trials["opponent_id"] == "null_model"}
    for place, rows in shown.items():
        found = audit(trials[rows].reset_index(drop=True), "replies")
        assert len(wins[place]) == rows.sum()
        assert value(found, "win_rate", system="null_model") == pytest.approx(np.mean(wins[place]), abs=1e-4)
    assert np.mean(wins["first"]) == pytest.approx(0.6824, abs=5e-5)
    assert np.mean(wins["second"]) == pytest.approx(0.8575, abs=5e-5)


def test_no_judgement_of_a_weighted_file_is_lost_near_a_half(recorded):
    name = "text_davinci_001_weighted_alpaca_eval_gpt4_turbo_annotations.json.gz"
    found = audit(bl.read_judgements(recorded / "alpaca_eval" / name), "replies")
    found = found[found["system"] == ""].set_index("metric")
    metrics = ["readable_rate", "first_position_rate", "first_label_rate"]
    assert found.loc[metrics, "n_trials"].tolist() == [803, 800, 800]
    assert found.loc["first_label_rate", "estimate"] == pytest.approx(377 / 800)


def test_gpt4_on_mt_bench(recorded):
    """One reply gives two verdicts, one a question; the figures beside the data take the last."""
    trials = bl.read_judgements(recorded / "position_bias_analyzer" / "MTBench_position_bias_gpt4_gemini.jsonl.gz")
    trials = trials[trials["judge"] == "gpt-4-0613"]
    found = audit(trials, "position")
    assert value(audit(trials, "replies"), "first_position_rate") == pytest.approx(0.4908, abs=2e-4)
    assert value(found, "order_consistency", human_gap=None) == pytest.approx(0.8150, abs=4e-4)
