"""Recorded replies of a reasoning model: the figures beside the data, and no score from inside a thought."""

import re

import pytest

import biaslab as bl
from biaslab.prompts.parsing.thoughts import split_thought


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
