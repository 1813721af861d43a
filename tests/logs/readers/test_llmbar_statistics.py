"""LLMBar's own counts: all 359 `statistics.json` of the archives beside what the trials of their logs say.

They hold as strings, ``"28 / 92 = 30.434782608695656%"``, with two exceptions, which the guide lists too:

* `UNREAD`: "equal" counts a pair as judged alike where neither reply could be read. Here it is missing.
* ``Rating*``: nobody compared anything. The winner is made of two scores; a tie goes to the output shown second and a
  missing score to the one shown first, so that every tie looks like recency. Here the trials are scores; the counts
  come out of them by that rule.
"""

import json
import tarfile

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.stats import without_breakdowns

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
