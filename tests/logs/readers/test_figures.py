"""What `audit` makes of published logs: the figures that stand beside the data, to the digits given."""

import json
import tarfile
import warnings

import numpy as np
import pandas as pd
import pytest
from studies import row_of

import biaslab as bl
from biaslab.core.errors import MissingDataWarning
from biaslab.logs.readers.humans import with_humans
from biaslab.stats.inference import Resampling

QUICK = Resampling(n=100)
#: The figures of TopicalChat and of GPT-4 on SummEval rest on these readings: the last "Rating: 2", or else the last 1,
#: 2 or 3 that stands alone; the last number shortly after "score", or else the last digit from 1 to 5.
LAST_RATING = r"(?s)\A(?:.*Rating:\s*([1-3])|.*\b([1-3])\b)"
LAST_SCORE = r"(?is)\A(?:.*score[^0-9]{0,20}([1-5](?:\.\d+)?)|.*([1-5]))"


def audit(trials, human=None, only=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        return bl.audit(trials, human, only, QUICK)


def value(estimates, metric, **where):
    return row_of(estimates, metric, **where)["estimate"]


@pytest.fixture(scope="module")
def recorded(shared_data):
    return shared_data / "recorded"


@pytest.fixture(scope="module")
def summeval(shared_data):
    return bl.load_dataset("summeval", path=shared_data / "summeval" / "annotations_1200.jsonl.gz")


@pytest.fixture(scope="module")
def judge_scores(recorded):
    """The scores of SummEval's judges, read as they are; read once, since all of them take a while."""
    return bl.read_judgements(recorded / "summeval_judges" / "judge_scores.jsonl.gz")


@pytest.fixture(scope="module")
def last_scores(recorded):
    """The same as `judge_scores`, but of each reply its last number from 1 to 5."""
    return bl.read_judgements(
        recorded / "summeval_judges" / "judge_scores.jsonl.gz", mapping={"score_pattern": LAST_SCORE}
    )


@pytest.mark.parametrize(
    ("aspect", "first", "consistent"), [("coherence", 0.5213, 0.6436), ("consistency", 0.4024, 0.6436)]
)
def test_gpt35_on_summeval_pairs(recorded, aspect, first, consistent):
    trials = bl.read_judgements(recorded / "summeval_judges" / "h2h_gpt35_both_orders.jsonl.gz")
    found = audit(trials[trials["attribute"] == aspect], only=["position", "replies"])
    assert value(found, "first_position_rate", human_gap=None) == pytest.approx(first, abs=5e-5)
    assert value(found, "order_consistency", human_gap=None) == pytest.approx(consistent, abs=5e-5)


def test_gpt35_on_mt_bench(recorded):
    """Pooled replies give the figure beside the data; whole pairs, which the probe wants, give another."""
    trials = bl.read_judgements(recorded / "position_bias_analyzer" / "MTBench_position_bias.jsonl.gz")
    assert trials.attrs["left_out"] == {"the call failed": 6}
    found, of_all = audit(trials, only=["position", "replies"]), audit(trials, only=["replies"])
    assert value(of_all, "first_position_rate") == pytest.approx(0.4738, abs=5e-5)
    assert value(found, "order_consistency") == pytest.approx(0.6952, abs=5e-5)
    pairs = row_of(found, "first_position_rate", human_gap=None)
    assert pairs["estimate"] == pytest.approx(0.4746, abs=5e-5)
    assert (pairs["n_trials"], pairs["n_dropped"]) == (2 * 2385, 4794 - 2 * 2385)


@pytest.mark.parametrize(("judge", "first", "consistent"), [("GPT-4", 0.5119, 0.9284), ("Falcon", 0.7757, 0.4153)])
def test_llmbar_pooled(recorded, judge, first, consistent):
    trials = bl.read_judgements(recorded / "llmbar" / "llmbar_gpt4_falcon_vanilla.tar.xz")
    found = audit(trials[trials["judge"] == judge], only=["position"])
    assert value(found, "first_position_rate", human_gap=None) == pytest.approx(first, abs=5e-5)
    assert value(found, "order_consistency", human_gap=None) == pytest.approx(consistent, abs=5e-5)
    assert row_of(found, "order_consistency", human_gap=None)["n_contexts"] == 419


@pytest.mark.slow
def test_llmbar_counts_are_the_authors(recorded):
    archive = recorded / "llmbar" / "llmbar_gpt4_falcon_vanilla.tar.xz"
    trials = bl.read_judgements(archive)
    counted = 0
    with tarfile.open(archive) as files:
        for name in (name for name in files.getnames() if name.endswith("/statistics.json")):
            theirs = json.load(files.extractfile(name))
            *_, subset, _, judge, _, _ = name.split("/")
            mine = trials[(trials["judge"] == judge) & trials["context_id"].str.startswith(f"{subset}/")]
            found, n = audit(mine, only=["position", "replies"]), len(mine) // 2
            ours = {
                "correct_False": value(found, "accuracy_shown_first", system="output_1"),
                "correct_True": value(found, "accuracy_shown_first", system="output_2"),
                "correct_both": value(found, "accuracy_both_orders"),
                "equal": value(found, "order_consistency", human_gap=None),
            }
            for key, share in ours.items():
                assert f"{round(share * n)} / {n} = {round(share * n) / n * 100}%" == theirs[key]
                assert share * n == pytest.approx(round(share * n))
            accuracy = value(found, "comparative_accuracy")
            assert accuracy == pytest.approx(float(theirs["correct_average"].rstrip("%")) / 100)
            counted += 1
    assert counted == 10


@pytest.mark.parametrize(
    ("name", "rate"),
    [("text_davinci_001_weighted_alpaca_eval_gpt4_turbo", 2.764005), ("text_davinci_001_alpaca_eval_gpt4", 15.174129)],
)
def test_alpaca_eval_win_rates(recorded, name, rate):
    """The first is beside the data and on the leader board, the second on the leader board of the first judge."""
    found = audit(bl.read_judgements(recorded / "alpaca_eval" / f"{name}_annotations.json.gz"))
    assert 100 * value(found, "win_rate", system="text_davinci_001") == pytest.approx(rate, abs=5e-7)
    unknown = name.endswith("alpaca_eval_gpt4")
    assert ("which candidate was shown first" if unknown else "one order only") in found.attrs["not_run"]["position"]


def test_weighted_alpaca_order_is_inferred_from_probabilities(recorded):
    name = "text_davinci_001_weighted_alpaca_eval_gpt4_turbo_annotations.json.gz"
    trials = bl.read_judgements(recorded / "alpaca_eval" / name)
    assert trials["order_known"].sum() == 800  # the other three have no probabilities
    first = (trials.loc[trials["order_known"], "candidate_id"] == "text_davinci_001").mean()
    assert first == pytest.approx(0.5, abs=3 * (0.25 / 800) ** 0.5)  # shown in random order
    assert trials["label_mass"].min() > 0.8
    assert trials["label_mass"].median() > 0.9999


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "theirs", "ours"), [("coherence", 0.3608, 0.3605), ("engagingness", 0.1827, 0.1813)]
)
def test_order_effect_on_topical_chat(recorded, attribute, theirs, ours):
    """The figures beside the data read "Rating: 2.5" as 2, and the last 1, 2 or 3 where there is no rating."""
    for mapping, shift in ((None, ours), ({"score_pattern": LAST_RATING}, theirs)):
        parts = [
            bl.read_judgements(
                recorded / "closer_look_topical_chat" / f"gpt3.5_{attribute[:3]}_{mode}.json.gz", None, mapping
            )
            for mode in ("rate_explain", "analyze_rate")
        ]
        found = audit(pd.concat(parts, ignore_index=True), only=["output_order"])
        shown = row_of(found, "reason_first_shift", attribute=attribute)
        assert -shown["estimate"] == pytest.approx(shift, abs=5e-5)
        assert shown["n_contexts"] == 60


@pytest.mark.parametrize(
    ("attribute", "interval", "ordinal", "nominal"),
    [("coherence", 0.5756, 0.5744, 0.1607), ("consistency", 0.8989, 0.8146, 0.5363)],
)
def test_experts_of_summeval_agree(judge_scores, summeval, attribute, interval, ordinal, nominal):
    trials = judge_scores
    mine = trials[(trials["judge"] == "gpt-3.5-turbo-0301") & (trials["configuration"] == "mcq")]
    found = audit(mine[mine["attribute"] == attribute], summeval, ["consistency"])
    for level, alpha in (("interval", interval), ("ordinal", ordinal), ("nominal", nominal)):
        assert value(found, "human_alpha", level=level) == pytest.approx(alpha, abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "theirs", "ours"),
    [("coherence", (0.4574, 98), (0.4509, 98)), ("consistency", (0.6083, 77), (0.6029, 78))],
)
def test_gpt4_agrees_with_experts_of_summeval(judge_scores, last_scores, summeval, attribute, theirs, ours):
    """The figures beside the data read "2/5" and "4.5/5", once each, as 5, which is what moves them."""
    for trials, (rho, contexts) in ((judge_scores, ours), (last_scores, theirs)):
        mine = trials[(trials["judge"] == "gpt-4-0314") & (trials["attribute"] == attribute)]
        found = audit(mine, summeval, ["human_agreement"])
        shown = row_of(found, "human_agreement", level="context", coefficient="spearman")
        assert shown["estimate"] == pytest.approx(rho, abs=5e-5)
        assert shown["n_contexts"] == contexts


@pytest.mark.slow
def test_length_pays_with_gpt4_at_equal_expert_score(judge_scores, summeval):
    """The slope by least squares within contexts, worked out here, and what the three experts' errors hid of it."""
    trials = judge_scores
    mine = trials[(trials["judge"] == "gpt-4-0314") & (trials["attribute"] == "coherence") & (trials["status"] == "ok")]
    keys = ["context_id", "candidate_id"]
    frame = mine[[*keys, "value"]].merge(summeval.candidates[[*keys, "text"]]).set_index(keys)
    frame["human"] = summeval.human_means["coherence"]
    frame["doublings"] = [np.log2(len(text.split())) for text in frame.pop("text")]
    frame["value"] /= frame["value"].std()
    within = frame - frame.groupby("context_id").transform("mean")
    (slope, _), *_ = np.linalg.lstsq(within[["doublings", "human"]], within["value"])
    as_means = with_humans(mine.assign(asked="score"), summeval).drop(columns=["ratings", "annotators"])
    plain = row_of(bl.probes.Verbosity().estimate(as_means, ["verbosity_slope"]), "verbosity_slope")
    assert plain["estimate"] == pytest.approx(slope)
    assert plain["estimate"] == pytest.approx(0.367, abs=5e-4)
    assert "no test: " in plain["note"]  # more than a fifth of its scores lie at the top of the scale
    found = row_of(audit(mine, summeval, ["verbosity"]), "verbosity_slope")
    assert found["estimate"] == pytest.approx(0.412, abs=2e-3)
    assert "no test: " in found["note"]
    assert found["n_contexts"] == 100


def test_duplicates_and_superseded_modes_of_summeval(judge_scores):
    trials = judge_scores
    assert (len(trials), trials.attrs["duplicates"], trials.attrs["contradictions"]) == (21600, 300, 52)
    assert trials.attrs["left_out"] == {"superseded mode": 200}
    assert set(trials["status"]) == {"ok", "unparsable"}
    assert trials.loc[trials["status"] == "unparsable", "value"].isna().all()


@pytest.mark.slow
def test_everything_of_topical_chat_in_one_folder(recorded):
    trials = bl.read_judgements(recorded / "closer_look_topical_chat")
    assert (len(trials), trials["context_id"].nunique(), trials["candidate_id"].nunique()) == (100_040, 60, 6)
    assert set(trials["form"]) == {"auto-CoT", "no auto-CoT", "question"}
    assert trials.attrs["malformed"] == 0


def test_prometheus(recorded):
    trials = bl.read_judgements(recorded / "prometheus" / "vicuna_eval.json.gz")
    assert (len(trials), trials["context_id"].nunique(), trials["candidate_id"].nunique()) == (960, 80, 4)
    assert trials["value"].value_counts().to_dict() == {4.0: 489, 5.0: 338, 3.0: 80, 2.0: 41, 1.0: 12}
    found = audit(trials, only=["consistency"])
    assert 0.5 < value(found, "sample_alpha", level="interval") < 1


def test_repetitions_of_nine_judges(recorded):
    trials = bl.read_judgements(recorded / "position_bias_analyzer" / "MTBench_repetition.jsonl.gz")
    found = audit(trials, only=["position"])
    floor = found[found["metric"] == "resampling_consistency"]
    assert len(floor) == 9
    assert floor["estimate"].between(0.7, 1).all()
