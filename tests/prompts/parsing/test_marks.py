"""Marked verdicts: a mark outranks the words beside it, C is a tie where ties are offered, all else is a status."""

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Completion, Reply
from biaslab.logs.readers.readings import lettered, of_pairs
from biaslab.prompts.parsing import parse_choice

LABELS = ("Summary A", "Summary B")
WITH_TIE = (*LABELS, "Tie")
WORDS = "A is clearer, B is longer."  # which alone decides for A
MARKS = [
    "[[{}]]",
    "[{}]",
    "**{}**",
    r"\boxed{{{}}}",
    r"$\boxed{{\text{{{}}}}}$",
    "<verdict>{}</verdict>",
    "<answer>\n{}\n</answer>",
    "<winner>{}",
    "Verdict: {}",
    "My final verdict is {}.",
    '{{"winner": "{}"}}',
    '```json\n{{"reason": "both are short", "final_verdict": "{}"}}\n```',
    '{{"verdict": "{}", "reason": "the date is miss',
    "{{'choice': '{}', 'reason': 'the date'}}",
]
marks = pytest.mark.parametrize("mark", MARKS)


@marks
@pytest.mark.parametrize("said", ["C", "Tie", "tie"])
def test_a_marked_tie_is_a_tie_whatever_the_words_say(mark, said):
    reply = f"{WORDS} {mark.format(said)}"
    assert parse_choice(reply, WITH_TIE) == (2, "ok")
    assert parse_choice(mark.format(said), WITH_TIE) == (2, "ok")
    chosen, status = parse_choice(reply, LABELS)
    assert chosen is None
    assert status == ("unparsable" if said == "C" else "tie")


@marks
@pytest.mark.parametrize("labels", [LABELS, WITH_TIE])
def test_a_marked_label_outranks_the_words(mark, labels):
    assert parse_choice(f"{WORDS} {mark.format('B')}", labels) == (1, "ok")
    assert parse_choice(f"B is clearer. {mark.format('Summary A')}", labels) == (0, "ok")


@marks
@pytest.mark.parametrize("labels", [LABELS, WITH_TIE])
def test_unknown_label_in_a_mark_is_unparsable(mark, labels):
    assert parse_choice(f"{WORDS} {mark.format('D')}", labels) == (None, "unparsable")


@pytest.mark.parametrize("mark", [m for m in MARKS if not m.startswith(("[{}]", "**", "Verdict", "My"))])
def test_words_in_a_mark_decide_and_no_others(mark):
    assert parse_choice(f"{WORDS} {mark.format('neither of them')}", LABELS) == (None, "unparsable")


@pytest.mark.parametrize(
    ("reply", "reading"),
    [
        ("A is vague. [[Summary B is better]]", (1, "ok")),
        ("<answer>I prefer Summary B, because A is vague.</answer>", (1, "ok")),
        ("[[b]]", (1, "ok")),
        ("[[Reasons]] A is vague. [[B]]", (1, "ok")),
        ("I will say [[A]], [[B]] or [[C]]. My final verdict is [[B]].", (1, "ok")),
        ("The correct answer is D, so B is better.", (1, "ok")),
        ("The answer is clear: B is better.", (1, "ok")),
        ("B is better [1].", (1, "ok")),
        ("B is better. [1]", (1, "ok")),
        ("**Coherence**\nB is better.", (1, "ok")),
        ("B is better.\nI.", (1, "ok")),
        ("C: both are equally coherent.", (2, "ok")),
        ('{"reason": "B is better"}', (1, "ok")),
        ("I'm sorry, I cannot judge this. [[N/A]]", (None, "refused")),
    ],
)
def test_near_marks_do_not_change_the_reading(reply, reading):
    assert parse_choice(reply, WITH_TIE) == reading


def test_other_labels_have_their_own_third():
    assert parse_choice("[[C]]", ("Summary A", "Summary B", "Summary C")) == (2, "ok")
    assert parse_choice("[[C]]", ("1", "2", "Tie")) == (None, "unparsable")
    assert parse_choice("Response 1 is better:\n1. It is clear.\n3.", ("Response 1", "Response 2")) == (0, "ok")
    assert parse_choice("[[3]]", ("Response 1", "Response 2")) == (None, "unparsable")
    assert parse_choice("Response 1 is better. Verdict: 3", ("Response 1", "Response 2")) == (None, "unparsable")


class Says:
    """A judge that writes one sentence, whatever it is asked."""

    id = "says"
    kinds = frozenset({Completion})

    def __init__(self, text):
        self.text = text

    def check(self, requests):
        pass

    def ask(self, requests):
        for request in requests:
            yield request, Reply(text=self.text, finish_reason="stop")


def test_a_study_and_a_log_read_the_same_replies_alike():
    """A study and the reader of logs have one parser: a tie in brackets is a tie in both."""
    data = bl.load_dataset("graded", limit=4)
    reply = f"{WORDS} [[C]]"
    probe = bl.probes.Position(attributes=["coherence"], templates=[1], answer="text", ties=True)
    trials = bl.collect(probe, Says(reply), data, progress=False)
    assert set(trials["value"]) == {0.5}
    assert set(trials["status"]) == {"tie"}
    assert lettered(reply) == (0.5, "tie")
    assert of_pairs(pd.Series([reply])).loc[0].tolist() == [0.5, "tie"]
    no_ties = bl.probes.Position(attributes=["coherence"], templates=[1], answer="text")
    assert set(bl.collect(no_ties, Says(reply), data, progress=False)["status"]) == {"unparsable"}
