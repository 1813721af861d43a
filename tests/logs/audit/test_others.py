"""What an audit says beside the probes: length in pairs, subsets, own texts; by hand on small logs."""

import json

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.logs.audit.pair_length import PairLength

QUICK = bl.Resampling(n=100)


def read(folder, rows):
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return bl.read_judgements(file, mapping={"text": "one", "opponent_text": "two"} if "one" in rows[0] else None)


def pair(context, winner, gap=None, one="a b", two="a", **more):
    return {"context_id": context, "candidate_id": "x", "opponent_id": "y", "winner": winner, "human_gap": gap,
            "one": one, "two": two, **more}  # fmt: skip


def found_in(trials, probe):
    estimates = bl.audit(trials, only=[probe], resampling=QUICK)
    return estimates if estimates.empty else estimates.set_index("metric")


def test_pair_length_rates_by_hand(tmp_path):
    rows = [pair(0, "x", 1), pair(1, "x", 1), pair(2, "y", 1), pair(3, "x", -1), pair(4, "tie", 1), pair(5, "x"),
            pair(6, "x", 1, "a", "b"), pair(7, "y", -1, "a", "b c"), pair(8, "x", 1, "a", "b c"),
            pair(9, "who", 1)]  # fmt: skip
    found = found_in(read(tmp_path, rows), "pair_length")
    assert found.loc["longer_wins", "estimate"] == pytest.approx(5 / 7)
    assert found.loc["longer_better", "estimate"] == pytest.approx(4 / 6)
    assert found.loc["longer_wins_when_better", "estimate"] == pytest.approx(3 / 4)
    assert found.loc["longer_wins_when_worse", "estimate"] == pytest.approx(1 / 2)
    assert found.loc["longer_wins_at_equal_gold", "estimate"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert found.loc["longer_wins", ["n_trials", "n_dropped"]].tolist() == [7, 1]


@pytest.mark.slow
def test_longer_wins_false_positive_rate_for_a_fair_judge():
    """Right in nine of ten, where the longer text is the better one in two of three: accused in one study of twenty."""
    rng = np.random.default_rng(0)
    about = {"judge": "j", "dataset": "d", "attribute": "a", "template": "t", "status": "ok"}
    one = pd.DataFrame({"context_id": np.arange(60), "words": 2, "opponent_words": 1}).assign(**about)
    measure, accused = PairLength(QUICK), 0
    for _ in range(200):
        gap = np.where(rng.random(60) < 2 / 3, 1.0, -1.0)
        right = rng.random(60) < 0.9
        trials = one.assign(human_gap=gap, value=(right == (gap > 0)).astype(float))
        found = measure.estimate(trials).set_index("metric")
        accused += found.loc["longer_wins_at_equal_gold", "p_value"] < 0.05
        assert np.isnan(found.loc["longer_wins", "p_value"])
    assert 2 <= accused <= 20  # .01 and .10 of them: a count of 10 is due


def test_lengths_are_needed_for_length(tmp_path):
    rows = [{key: value for key, value in pair(0, "x", 1).items() if key not in ("one", "two")}]
    assert "lengths of both texts" in bl.audit(read(tmp_path, rows)).attrs["not_run"]["pair_length"]


def test_the_gold_label_by_subset(tmp_path):
    rows = [pair(n, "x" if n < 5 else "y", 1, subset="easy" if n < 4 else "hard") for n in range(8)]
    found = found_in(read(tmp_path, rows), "subsets").set_index("subset", append=True)["estimate"]
    assert found["comparative_accuracy", "easy"] == 1.0
    assert found["comparative_accuracy", "hard"] == pytest.approx(1 / 4)
    one = [row | {"subset": "easy"} for row in rows]
    assert "several subsets" in bl.audit(read(tmp_path, one), only=["subsets"]).attrs["not_run"]["subsets"]


def own_log(judge, **more):
    sides = [
        ("gpt4", "human", "gpt4"),
        ("human", "gpt4", "gpt4"),
        ("gpt4", "claude", "claude"),
        ("human", "claude", "human"),
    ]
    return [{"context_id": c, "candidate_id": a, "opponent_id": b, "winner": w, "judge": judge, "human_gap": -1, **more}
            for c in range(3) for a, b, w in sides]  # fmt: skip


@pytest.mark.parametrize(("judge", "more"), [("GPT4", {}), ("gpt-4-0613", {"judge_system": "gpt4"})])
def test_own_texts_win(tmp_path, judge, more):
    found = found_in(read(tmp_path, own_log(judge, **more)), "self_preference").set_index("system", append=True)
    assert found.loc[("own_win_rate", ""), "estimate"] == pytest.approx(2 / 3)
    assert found.loc[("own_win_rate", "human"), "estimate"] == 1.0
    assert found.loc[("own_win_rate", "claude"), ["estimate", "n_trials"]].tolist() == [0.0, 3]
    assert "may be better" in found.loc[("own_win_rate", ""), "note"]
    assert found.loc[("own_win_excess", ""), "estimate"] == pytest.approx(2 / 3 - 1 / 3)


def test_own_scores(tmp_path):
    rows = [{"context_id": c, "candidate_id": k, "score": score, "scale": "1-5", "judge": "me"}
            for c in range(4) for k, score in (("me", 4), ("other", 3), ("third", 1 + c % 2))]  # fmt: skip
    found = found_in(read(tmp_path, rows), "self_preference")
    assert found.loc["own_score_gap", "estimate"] == pytest.approx(4 - (3 + 1.5) / 2)


def test_self_preference_needs_a_system_of_the_judge(tmp_path):
    not_run = bl.audit(read(tmp_path, own_log("someone")), only=["self_preference"]).attrs["not_run"]
    assert "judge_system" in not_run["self_preference"]


def test_counts_are_those_of_the_system(tmp_path):
    sides = [("x", "y", "x"), ("y", "z", "y"), ("z", "x", "nobody")]
    rows = [{"context_id": n, "candidate_id": a, "opponent_id": b, "winner": w} for n, (a, b, w) in enumerate(sides)]
    found = found_in(read(tmp_path, rows), "replies")
    counts = found.loc[["win_rate"]].set_index("system")[["n_trials", "n_dropped"]]
    assert counts.loc[["x", "y", "z"]].to_numpy().tolist() == [[1, 1], [2, 0], [1, 1]]


def test_template_probe_needs_order_known_alike_in_all_prompts():
    """Of a pair in an unknown order beside one whose first is known, the difference may be that of the order."""
    rows = [
        {"context_id": f"q{n}", "candidate_id": "x", "opponent_id": "y", "winner": "x" if n % 3 else "y",
         "template": prompt, "order_known": prompt == "told"}
        for n in range(30) for prompt in ("told", "untold")
    ]  # fmt: skip
    trials = bl.read_judgements(pd.DataFrame(rows))
    assert bl.probes.Template().accepts(trials).trials.empty
    alike = bl.read_judgements(pd.DataFrame(rows).assign(order_known=False))
    assert len(bl.probes.Template().accepts(alike).trials) == 60


def test_a_cell_has_one_share_for_the_first_and_one_accuracy(tmp_path):
    """That of pairs judged in both orders; of a cell judged in one order, or asked for alone, that of all replies."""
    sides = [("x", "y"), ("y", "x")]
    rows = [{"context_id": n, "candidate_id": a, "opponent_id": b, "winner": "x" if n % 3 else a, "human_gap": 1,
             "template": "both"} for n in range(12) for a, b in (sides if n else sides[:1])]  # fmt: skip
    rows += [dict(rows[0], context_id=n, template="one") for n in range(12)]
    trials = read(tmp_path, rows)
    found = bl.audit(trials, only=["position", "replies"], resampling=QUICK, breakdowns=False)
    assert not found.fillna({"system": ""}).duplicated(["attribute", "template", "metric", "system"]).any()
    of = found[found["metric"].isin(["first_position_rate", "comparative_accuracy"]) & (found["system"] != "x")]
    probes = of[of["system"] != "y"].set_index(["template", "metric"])["probe"].to_dict()
    assert {probe for (prompt, _), probe in probes.items() if prompt == "both"} == {"position"}
    assert {probe for (prompt, _), probe in probes.items() if prompt == "one"} == {"replies"}
    alone = bl.audit(trials, only=["replies"], resampling=QUICK)
    assert {"both", "one"} == set(alone.loc[alone["metric"] == "first_position_rate", "template"])


@pytest.mark.parametrize("repeated", [0, 3])
def test_win_rate_is_of_systems_not_of_single_texts(tmp_path, repeated):
    """Nor has a short answer that stands under a few questions."""
    rows = [{"context_id": n, "candidate_id": "yes" if n < repeated else f"text {n}", "opponent_id": "baseline",
             "winner": "baseline" if n % 2 else "yes" if n < repeated else f"text {n}"} for n in range(20)]  # fmt: skip
    found = found_in(read(tmp_path, rows), "replies")
    assert found.loc[["win_rate"], "system"].tolist() == ["baseline"]
    texts = [dict(row, opponent_id=f"other {n}", winner="tie") for n, row in enumerate(rows)]
    assert "win_rate" not in found_in(read(tmp_path, texts), "replies").index
