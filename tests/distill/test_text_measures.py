"""Measures of texts: levels and paired changes by way of writing, and familiarity without a language model."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.distill import (
    add_overshoot,
    annotate,
    best_of_n,
    compare_texts,
    measure_texts,
    most_changed,
    unigram_log_perplexity,
)
from biaslab.measures.scoring import reference_scores


def texts(shift, contexts=30, seed=0):
    rng = np.random.default_rng(seed)
    names = np.repeat([f"c{i}" for i in range(contexts)], 2)
    level = np.repeat(rng.normal(size=contexts), 2)
    return pd.DataFrame({"context_id": names, "words": 10 + 5 * level + shift, "reward": level + rng.normal(size=60)})


def test_changes_are_paired_by_context():
    ways = {"before": texts(0), "after": texts(2.0), "without the last": texts(1.0).iloc[:-2]}
    found = compare_texts(ways, ["words"], "before", study="s", primary=["words_change"], judge="j", dataset="d")
    found = found.set_index(["written", "metric"])
    assert set(found.index) == {(way, "words") for way in ways} | {
        ("after", "words_change"),
        ("without the last", "words_change"),
    }
    change = found.loc[("after", "words_change")]
    assert (change["ci_low"], change["estimate"], change["ci_high"]) == pytest.approx((2.0, 2.0, 2.0))
    assert change["q_value"] < 0.01
    assert found.loc[("after", "words"), "ci_high"] - found.loc[("after", "words"), "ci_low"] > 1
    assert found.loc[("without the last", "words_change"), "n_contexts"] == 29
    assert found.loc[("before", "words"), "n_trials"] == 60
    assert set(found["judge"]) == {"j"}


def test_missing_measures_do_not_enter():
    holes = texts(0).assign(words=lambda frame: frame["words"].where(frame["context_id"] != "c0"))
    found = compare_texts({"one": texts(0), "two": holes}, ["words", "reward"], "one", study="s")
    counts = found[found["written"] == "two"].set_index("metric")["n_contexts"]
    assert counts.to_dict() == {"words": 29, "reward": 30, "words_change": 29, "reward_change": 30}
    with pytest.raises(InputError, match="baseline"):
        compare_texts({"one": texts(0)}, ["words"], "nobody", study="s")


def test_unigrams_count_every_text():
    found = unigram_log_perplexity(["a a", "a b", "a b", ""])
    assert found["a a"] == pytest.approx(-math.log(4 / 6))
    assert found["a b"] == pytest.approx(-(math.log(4 / 6) + math.log(2 / 6)) / 2)
    assert math.isnan(found[""])


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), min_size=1, max_size=6))
def test_best_of_n_is_the_mean_over_all_draws(pairs):
    """Of equally good texts each is as likely: that is what a draw in random order would choose first."""
    frame = pd.DataFrame(pairs, columns=["reward", "truth"]).astype(float).assign(context_id="a")
    found = best_of_n(frame, ["reward", "truth"], counts=range(1, len(frame) + 1)).set_index("n")
    for n, row in found.iterrows():
        chosen = []
        for draw in combinations(pairs, n):
            most = max(reward for reward, _ in draw)
            chosen.append(np.mean([pair for pair in draw if pair[0] == most], axis=0))
        assert row[["reward", "truth"]].tolist() == pytest.approx(np.mean(chosen, axis=0).tolist())


def test_best_of_n_is_limited_by_the_smallest_context():
    frame = texts(0).iloc[:-1]
    assert set(best_of_n(frame, ["words"])["n"]) == {1}
    assert set(best_of_n(texts(0), ["words"])["n"]) == {1, 2}
    with pytest.raises(InputError, match="from 1 to 2"):
        best_of_n(texts(0), ["words"], counts=[3])


@pytest.mark.slow
def test_a_reward_that_is_noise_buys_nothing_and_a_true_one_does():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"context_id": np.repeat(np.arange(200).astype(str), 8), "truth": rng.normal(size=1600)})
    for reward, least, most in ((rng.normal(size=1600), -0.15, 0.15), (frame["truth"], 1.2, 1.6)):
        means = best_of_n(frame.assign(reward=reward), ["reward", "truth"]).groupby("n")["truth"].mean()
        assert list(means.index) == [1, 2, 4, 8]
        assert least < means[8] - means[1] < most


@pytest.fixture
def labels(graded):
    return annotate(bl.SimulatedJudge(graded, noise=1), graded, ["fluency"], progress=False)


def test_texts_are_measured_by_labels_words_and_overlap(graded, labels):
    found = measure_texts(graded, {"reward": labels, "again": labels.iloc[::-1].iloc[:-1]}, ["ROUGE-1", "ROUGE-L"])
    assert len(found) == len(graded.candidates)
    assert found["reward"].to_numpy() == pytest.approx(labels["label"].to_numpy())
    assert found["again"].isna().sum() == 1
    assert (found["words"] == [len(text.split()) for text in graded.candidates["text"]]).all()
    overlap = reference_scores(graded, ["ROUGE-L"], ["fluency"], "reference")
    assert found["rouge_l"].tolist() == overlap["score"].tolist()
    assert "rouge_1" not in measure_texts(graded, {"reward": labels}, [])


def test_overshoot_is_gain_in_reward_but_not_in_new_samples():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"context_id": np.repeat(list("abcd"), 25), "again": rng.normal(size=100)})
    frame["reward"] = 10 * frame["again"]
    fair = add_overshoot(frame, frame)
    assert fair["overshoot"].abs().max() < 1e-12
    assert fair.groupby("context_id")["again_sd"].var().mean() == pytest.approx(1)
    gamed = add_overshoot(frame.assign(reward=frame["reward"] + 10), frame)
    assert gamed["overshoot"].std() < 1e-9
    assert gamed["overshoot"].mean() > 0.5


def test_most_changed_shows_largest_gain_and_loss_first():
    one = pd.DataFrame({"context_id": list("abcd"), "reward": [0.1, 0.2, 0.3, 0.4]})
    one = one.assign(context="source", reference="", text="before")
    now = one.assign(text="after", reward=[0.5, 0.1, 0.4, np.nan])
    table = most_changed(one, now)
    assert list(table.columns) == ["a", "c", "b"]
    assert table["a"].tolist() == ["source", "", "before", "after", "0.10 → 0.50"]
    assert list(most_changed(one, now.iloc[:1])) == ["a"]


def test_reward_slopes_are_recovered_within_sources():
    rng = np.random.default_rng(0)
    sources = np.repeat([f"c{i}" for i in range(40)], 5)
    frame = pd.DataFrame({"context_id": sources, "words": rng.integers(5, 60, 200) * 1.0})
    frame["log_perplexity"] = rng.normal(3, 1, 200) + 0.5 * np.log2(frame["words"])
    level = np.repeat(rng.normal(0, 5, 40), 5)
    reward = 0.3 * np.log2(frame["words"]) - 0.2 * frame["log_perplexity"]
    found = bl.distill.reward_slopes(frame.assign(reward=reward + level + rng.normal(0, 0.1, 200)), judge="j")
    assert found["metric"].tolist() == ["reward_per_doubling_of_words", "reward_per_nat"]
    assert ((found["estimate"] - [0.3, -0.2]).abs() < 3 * found["se"]).all()
    assert (found["se"] < 0.01).all()
    assert found["q_value"].max() < 0.001
    assert set(found["n_contexts"]) == {40}
