"""What `audit` makes of published logs: the figures that stand beside the data, to the digits given.

They hold as strings, ``"28 / 92 = 30.434782608695656%"``, with two exceptions, which the guide lists too:

* `UNREAD`: "equal" counts a pair as judged alike where neither reply could be read. Here it is missing.
* ``Rating*``: nobody compared anything. The winner is made of two scores; a tie goes to the output shown second and a
  missing score to the one shown first, so that every tie looks like recency. Here the trials are scores; the counts
  come out of them by that rule.
"""

import json
import re
import tarfile
import warnings

import numpy as np
import pandas as pd
import pytest
from studies import row_of

import biaslab as bl
from biaslab.core.errors import MissingDataWarning
from biaslab.distill import examples
from biaslab.logs.readers.human_scores import find_summeval, recorded_scores, with_humans
from biaslab.prompts.parsing.thoughts import split_thought
from biaslab.stats.frame import without_breakdowns
from biaslab.stats.resample import Resampling

pytestmark = pytest.mark.slow
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
        found = audit(mine, summeval, ["agreement"])
        shown = row_of(found, "correlation", level="context", coefficient="spearman")
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
    found = row_of(audit(mine, summeval, ["verbosity"]), "verbosity_slope")
    assert found["estimate"] == pytest.approx(0.412, abs=2e-3)
    assert found["ci_low"] <= found["estimate"] <= found["ci_high"]
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


ARCHIVES = {"llmbar_LLMBar+Processed.tar.xz": 349, "llmbar_gpt4_falcon_vanilla.tar.xz": 10}
COUNTS = ("correct_False", "correct_True", "correct_both", "equal")
#: Pairs of which no reply could be read, that "equal" counts: by judge and prompt, subset by subset.
UNREAD = {
    "ChatGPT-0301/Vanilla_1shot": {"Manual": 1},
    "ChatGPT-0301/Vanilla_2shot": {"Manual": 1},
    "ChatGPT/Metrics": {"Neighbor": 1},
    "ChatGPT/Metrics_Reference": {"LLMEval^2": 4},
    "ChatGPT/Vanilla_1shot": {"Manual": 1},
    "ChatGPT/Vanilla_2shot": {"Manual": 1},
    "ChatGPT/Vanilla_NoRules": {"LLMEval^2": 5},
    "GPT-4/Metrics_Reference": {"LLMEval^2": 3},
    "GPT-4/Vanilla_1shot": {"Manual": 1},
    "GPT-4/Vanilla_2shot": {"Manual": 1},
    "GPT-4/Vanilla_NoRules": {"LLMEval^2": 5},
    "LLaMA2/Metrics_Reference": {"LLMEval^2": 1},
    "LLaMA2/Vanilla_1shot": {"GPTInst": 1, "GPTOut": 1, "Neighbor": 1},
    "LLaMA2/Vanilla_NoRules": {"LLMEval^2": 5},
    "PaLM2/CoT": {"Natural": 1},
    "PaLM2/Metrics": {"GPTInst": 1, "Manual": 1, "Natural": 2},
    "PaLM2/Metrics_Reference": {"GPTInst": 1, "LLMEval^2": 8, "MT-Bench": 8, "Manual": 2, "Natural": 2},
    "PaLM2/Reference": {"GPTInst": 1, "Manual": 1, "Natural": 2},
    "PaLM2/Swap": {"Natural": 1},
    "PaLM2/Swap_CoT": {"Natural": 1},
    "PaLM2/Vanilla": {"GPTInst": 1, "Manual": 1, "Natural": 2},
    "PaLM2/Vanilla_NoRules": {"GPTInst": 2, "LLMEval^2": 17, "MT-Bench": 7, "Manual": 1, "Natural": 3, "Neighbor": 1},
}


def statistics(archive):
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            if member.name.endswith("/statistics.json"):
                yield member.name.removesuffix("statistics.json"), json.load(files.extractfile(member))


def written(count, n):
    return f"{count} / {n} = {count / n * 100}%"


def pair_by_pair(trials):
    """Name each pair as a context of its own, where several share a prompt."""
    names = trials["candidate_id"].str.extract(r"^(output_[12])(?: \((\d+)\))?$")
    pair = trials["context_id"] + " " + names[1].fillna("1")
    return trials.assign(context_id=pair, candidate_id=names[0])


def counts_of_verdicts(trials):
    """Count as the authors say that they do, from what the reader made of the verdicts."""
    first = trials["candidate_id"] == "output_1"
    one_wins = trials["value"].where(first, 1 - trials["value"])
    right = one_wins == (trials["human_gap"].where(first, -trials["human_gap"]) > 0)
    wide = pd.DataFrame({"context": trials["context_id"], "first": first, "wins": one_wins, "right": right})
    one, two = (wide[wide["first"] == shown].set_index("context") for shown in (True, False))
    found = {
        "correct_False": one["right"].sum(),
        "correct_True": two["right"].sum(),
        "correct_both": (one["right"] & two["right"]).sum(),
        "equal": (one["wins"] == two["wins"]).sum(),
    }
    return found, len(one), int((one["wins"].isna() & two["wins"].isna()).sum())


def counts_of_scores(trials):
    """Count the winners that are made of two scores: of the reader's texts, one of which says 10 of 9."""
    score = pd.to_numeric(trials["reply"], errors="coerce")
    wide = trials.assign(score=score).pivot_table("score", "context_id", "candidate_id", dropna=False, sort=False)
    gold = trials[trials["human"] == 1].set_index("context_id")["candidate_id"].reindex(wide.index)
    one, two = wide["output_1"], wide["output_2"]
    decided = np.select([one > two, two > one], ["output_1", "output_2"], "")
    tied = (one == two).to_numpy()
    verdicts = {
        False: np.where(decided != "", decided, np.where(tied, "output_2", "output_1")),
        True: np.where(decided != "", decided, np.where(tied, "output_1", "output_2")),
    }
    right = {swap: winner == gold.to_numpy() for swap, winner in verdicts.items()}
    return {
        "correct_False": right[False].sum(),
        "correct_True": right[True].sum(),
        "correct_both": (right[False] & right[True]).sum(),
        "equal": (verdicts[False] == verdicts[True]).sum(),
    }, len(wide)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHIVES)
def test_all_counts_are_the_authors(shared_data, name):
    archive = shared_data / "recorded" / "llmbar" / name
    trials = bl.read_judgements(archive)
    assert (trials.attrs["malformed"], trials.attrs["duplicates"]) == (0, 0)
    logs = dict(list(trials.groupby(trials["key"].str.rpartition("result.json")[0])))
    unread, compared = {}, 0
    for folder, theirs in statistics(archive):
        log = pair_by_pair(logs.pop(folder))
        if "/Rating" in folder:
            found, n = counts_of_scores(log)
        else:
            found, n, neither = counts_of_verdicts(log)
            if neither:
                *_, subset, _, judge, prompt, _ = folder.split("/")
                unread.setdefault(f"{judge}/{prompt}", {})[subset] = neither
                found["equal"] += neither
        assert {key: written(found[key], n) for key in COUNTS} == {key: theirs[key] for key in COUNTS}, folder
        average = float(theirs["correct_average"].rstrip("%"))
        assert average == pytest.approx(50 * (found["correct_False"] + found["correct_True"]) / n)
        compared += 1
    assert not logs
    assert compared == ARCHIVES[name]
    assert unread == (UNREAD if compared > 10 else {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("judge", "prompt", "first", "consistent"),
    [
        ("GPT-4", "Swap", 0.5131, 0.9642),
        ("ChatGPT", "Vanilla", 0.6468, 0.6587),
        ("GPT-4", "Vanilla", 0.5119, 0.9284),
        ("Falcon", "Vanilla", 0.7757, 0.4153),
    ],
)
def test_final_verdicts_pooled(processed, judge, prompt, first, consistent):
    chosen = processed[(processed["judge"] == judge) & (processed["template"] == prompt)]
    found = bl.audit(chosen, only=["position"], resampling=bl.Resampling(n=100))
    found = without_breakdowns(found).set_index("metric")
    assert found.loc["first_position_rate", "estimate"] == pytest.approx(first, abs=5e-5)
    assert found.loc["order_consistency", "estimate"] == pytest.approx(consistent, abs=5e-5)
    assert found.loc["order_consistency", "n_contexts"] == 419
    assert np.isnan(found.loc["resampling_consistency", "estimate"])


@pytest.fixture(scope="module")
def processed(shared_data):
    return bl.read_judgements(shared_data / "recorded" / "llmbar" / "llmbar_LLMBar+Processed.tar.xz")


@pytest.mark.slow
def test_no_rating_is_accused_of_positional_bias(processed):
    ratings = processed[processed["configuration"].str.startswith("Rating")]
    assert len(ratings) == 2 * 7 * 419
    assert ratings["opponent_id"].isna().all()
    assert set(ratings["scale"]) == {"0-9"}


@pytest.mark.slow
def test_pairs_that_share_a_prompt_are_kept(processed):
    """The prompt is the context, so that intervals are over prompts; no pair is lost."""
    pairs = processed[processed["subset"] == "MT-Bench"]
    assert set(pairs.groupby(["judge", "template"])["context_id"].nunique()) == {75}
    assert set(pair_by_pair(pairs).groupby(["judge", "template"])["context_id"].nunique()) == {200}


@pytest.mark.parametrize(
    ("name", "replies", "read", "cut", "mean", "spread", "named", "with_human"),
    [("drop", 2100, 2077, 3, 4.2805, 0.5031, 23, 0.7835), ("esnli", 1520, 1477, 4, 3.9455, 0.4532, 60, 0.6557)],
)
def test_scores_behind_the_thoughts(shared_data, name, replies, read, cut, mean, spread, named, with_human):
    file = shared_data / "recorded" / "reasoning_traces" / f"dsr1_qwen32b_socreval_{name}.jsonl.gz"
    trials = bl.read_judgements(file)
    assert len(trials) == replies
    assert (trials["status"] == "cut_off").sum() == cut
    scores = trials[trials["status"] == "ok"]
    items = scores.groupby("context_id").agg(value=("value", "mean"), sd=("value", "std"), human=("human", "first"))
    assert len(scores) == read
    assert scores["value"].mean() == pytest.approx(mean, abs=5e-5)
    assert items["sd"].mean() == pytest.approx(spread, abs=5e-5)
    assert items["value"].corr(items["human"]) == pytest.approx(with_human, abs=5e-5)
    # an oracle of its own: a thought ends at the last closing tag, and some thoughts name a score
    thoughts = trials["reply"].map(lambda text: text.rpartition("</think>")[0] if "</think>" in text else text)
    assert thoughts.str.contains(r"overall quality\W{0,4}\d", flags=re.IGNORECASE).sum() >= named
    for text, thought in zip(trials["reply"], thoughts, strict=True):
        assert split_thought(text, opened=True).thought == thought.strip()
    unclosed = ~trials["reply"].str.contains("</think>", regex=False)
    assert (trials.loc[unclosed, "status"] == "cut_off").all()


TEXTS = {"M1": "The bridge was repaired.", "M2": "Repair bridge the town council."}
SCORES = {"coherence": 5, "consistency": 4, "fluency": 3, "relevance": 2}


@pytest.fixture
def folder(tmp_path):
    ratings = [SCORES, {name: score - 1 for name, score in SCORES.items()}]
    lines = [
        {"id": f"d{i}", "model_id": name, "decoded": text, "text": f"Source {i}.", "references": ["A reference."],
         "expert_annotations": ratings, "turker_annotations": []}
        for i in range(2) for name, text in TEXTS.items()
    ]  # fmt: skip
    replies = [
        {"judge": judge, "system": name, "aspect": "coherence", "mode": mode, "id": f"d{i}", "resp": f"Score: {score}"}
        for judge, mode, score in (("gpt-4-0314", "rts", 4), ("gpt-4-0314", "mcq", 1), ("another", "rts", 2))
        for i in range(2)
        for name in TEXTS
    ]
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name, rows in (("model_annotations.aligned.jsonl", lines), ("judge_scores.jsonl", replies)):
        (tmp_path / "a" / "b" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a" / "annotations.jsonl").write_text("of something else\n")
    return tmp_path


def test_one_judge_and_configuration_beside_the_experts(folder):
    data = find_summeval(folder)
    assert (data.n_contexts, len(data.candidates)) == (2, 4)
    assert find_summeval(folder, 1).n_contexts == 1
    trials = recorded_scores(folder, data, "gpt-4-0314", "coherence")
    assert trials["value"].tolist() == [4.0] * 4
    assert trials["human"].tolist() == [4.5] * 4
    assert sorted(trials["words"]) == [4.0, 4.0, 5.0, 5.0]
    assert len(examples(trials, data)) == 4
    assert len(recorded_scores(folder, find_summeval(folder, 1), "gpt-4-0314", "coherence")) == 2


def test_missing_recordings_are_none(folder, tmp_path):
    data = find_summeval(folder)
    assert recorded_scores(folder, data, "nobody", "coherence") is None
    assert recorded_scores(tmp_path / "nowhere", data, "gpt-4-0314", "coherence") is None
    assert find_summeval(tmp_path / "nowhere") is None
    assert find_summeval(None) is None
    assert recorded_scores(None, data, "gpt-4-0314", "coherence") is None
