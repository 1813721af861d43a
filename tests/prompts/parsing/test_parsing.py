"""Texts that choose a label, and texts that must not be guessed at."""

import gzip
import json

import pytest
from hypothesis import given, strategies as st

from biaslab.prompts.parsing import parse_choice

LABELS = ("Summary A", "Summary B", "Tie")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("Summary A", 0),
        ("summary b.", 1),
        ("**Summary B**\nIt reads better.", 1),
        ("Answer: Summary A", 0),
        ("The answer is: B", 1),
        ("A.", 0),
        ("[[B]]", 1),
        ("Both have merits, but my verdict: [[A]]", 0),
        ("Summary B is more coherent than Summary A.", 1),
        ("I prefer Summary B, clearly", 1),
        ("Tie", 2),
        ("Summary A and Summary B are equally good.", 2),
    ],
)
def test_reads_what_was_chosen(text, index):
    assert parse_choice(text, LABELS) == (index, "ok")


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        "  \n",
        "A good question.",
        "Summary A is less coherent than Summary B.",
        "Summary A is not coherent.",
        "[[A]] or [[B]]",
        "Summary C",
        "Summary AB",
        "42",
    ],
)
def test_never_guesses(text):
    assert parse_choice(text, LABELS) == (None, "unparsable")


@pytest.mark.parametrize(
    "text", ["I'm sorry, but I can't compare these.", "I cannot answer: Summary A", "As an AI I do not judge."]
)
def test_refusals_are_refusals(text):
    assert parse_choice(text, LABELS) == (None, "refused")


@given(st.text())
def test_any_text_gets_a_status_for_summary_labels(text):
    index, status = parse_choice(text, LABELS)
    assert (index is None) == (status != "ok")


@given(st.sampled_from(LABELS), st.text(alphabet=" \n.*\"'", max_size=4))
def test_decoration_changes_nothing(label, noise):
    assert parse_choice(noise + label + noise, LABELS) == (LABELS.index(label), "ok")


def test_reads_a_real_judge(shared_data):
    """GPT-3.5 on MT-Bench pairs: the verdict in double brackets is found wherever there is exactly one."""
    file = shared_data / "recorded" / "position_bias_analyzer" / "MTBench_position_bias.jsonl.gz"
    texts = [json.loads(line)["judgment"] for line in gzip.decompress(file.read_bytes()).splitlines()]
    bracketed = [t for t in texts if isinstance(t, str) and sum(f"[[{x}]]" in t for x in "ABC") == 1]
    assert len(bracketed) > 4000
    labels = ("Assistant A", "Assistant B", "Assistant C")
    right = sum(
        parse_choice(t, labels)[0] == next(i for i, x in enumerate("ABC") if f"[[{x}]]" in t) for t in bracketed
    )
    assert right / len(bracketed) > 0.995
