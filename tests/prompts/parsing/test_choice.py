"""Sentences that decide between labels, and sentences that must not be guessed at, of whatever judge."""

import gzip
import json
import re

import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st

import biaslab as bl
from biaslab.core import Completion, Reply
from biaslab.core.errors import InputError, UnlabelledRepliesError
from biaslab.logs.readers.readings import lettered, of_pairs
from biaslab.prompts.parsing import parse_choice

SUMMARIES = ("Summary A", "Summary B")
WITH_TIE = (*SUMMARIES, "Tie")
LABELS = {
    "letters": ("A", "B"),
    "summaries": SUMMARIES,
    "responses": ("Response A", "Response B"),
    "numbers": ("Response 1", "Response 2"),
    "outputs": ("Output (a)", "Output (b)"),
    "texts": ("Text X", "Text Y"),
}
#: Sentences that decide for x, whichever of the two labels it is.
DECIDE = [
    "{x}",
    "{x}.",
    "**{x}**",
    "[[{x}]]",
    "[[{x}>{y}]]",
    "[[{y}<<{x}]]",
    "Choice: {x}",
    "**Choice**: {x}\nReason: {y} is shorter.",
    "I weighed both and choose:\n\nChoice: {x}",
    "My final verdict is {x}, because it is clearer.",
    "{x}\n\nThe reason is that {y} drops the date.",
    "{x}: it is clearer than {y}.",
    "I prefer {x} because it is a clearer summary.",
    "I prefer {x} to {y}.",
    "{x} is better than {y}.",
    "{x} is a better answer than {y}.",
    "{x} is more coherent than {y}.",
    "{x} is clearly the better one of {x} and {y}.",
    "Although {y} is more fluent, {x} wins.",
    "While {y} is shorter, {x} is better overall.",
    "The better one is {x}.",
    "{y} is worse than {x}.",
    "{y} is outperformed by {x}.",
    "Both are equally fluent, but {x} is better.",
    "It is not a tie: {x} is better.",
    "{x} names the date, the place and the toll. {y} is short. Some facts are in both. Overall, {x} is better.",
    "{y} is better in style. {x} is better in substance. Substance counts. Therefore, {x} is better.",
    "I would go with {x}.",
    "[[{x}]] is better than [[{y}]].",
    "I cannot say much for either. Therefore, I must choose {x}.",
    "{x} is clear and complete, while {y} only repeats the title.",
    "{x} is correct.",
]
#: Sentences that do not.
OPEN = [
    "",
    "Neither",
    "Not {x}.",
    "Both {x} and {y} are fine.",
    "{x} and {y} have their strengths.",
    "{x} or {y}?",
    "Which is better, {x} or {y}?",
    "[[{x}]] or [[{y}]]",
    "[[{x}]] [[{y}]]",
    "{x} is not better.",
    "{x} isn't better than {y}.",
    "I do not think that {x} is better.",
    "I would not choose {x}.",
    "I cannot claim that either {x} or {y} is better.",
    "{x} is less coherent than {y}.",
    "If you like wit, {x} is better.",
    "{x} is better if you like wit.",
    "Readers who prefer {x} like wit.",
    "Some say {x} is better.",
    "Choice: {x}\nChoice: {y}",
    "{x}: clear\n{y}: muddled",
    "{x} is more fluent, {y} is more coherent.",
    "{x} is better in style. {y} is better in substance.",
    "{x} was written by a machine.",
    "A good question.",
    "A clearer summary would name the date.",
    "It is a clear text with a plot.",
    "I like vitamin B12, plan 9 and a B+ grade.",
    "It names vitamin B and a grade A.",
]
TIES = [
    "Tie",
    "This is a tie.",
    "It's a draw.",
    "[[{x}={y}]]",
    "Answer: tie",
    "{x} and {y} are equally good.",
    "Both {x} and {y} are equally clear, so it is a tie.",
    "{y} and {x} are identical.",
    "Neither {x} nor {y} is better.",
    "{x} is as good as {y}.",
    "{x} is better in style. {y} is better in substance. Overall, it is a tie.",
]
kinds = pytest.mark.parametrize("kind", LABELS)
turned = pytest.mark.parametrize("first", [0, 1])


def filled(sentence, labels, first=0):
    return sentence.format(x=labels[first], y=labels[1 - first])


@kinds
@turned
@pytest.mark.parametrize("sentence", DECIDE)
def test_decides(sentence, kind, first):
    assert parse_choice(filled(sentence, LABELS[kind], first), LABELS[kind]) == (first, "ok")


@kinds
@turned
@pytest.mark.parametrize("sentence", OPEN)
def test_leaves_open(sentence, kind, first):
    labels = LABELS[kind]
    assert parse_choice(filled(sentence, labels, first), labels) in ((None, "unparsable"), (None, "refused"))


@kinds
@turned
@pytest.mark.parametrize("sentence", TIES)
def test_ties(sentence, kind, first):
    """A tie is the label that says so where there is one, and a status, no guess, where there is none."""
    text, labels = filled(sentence, LABELS[kind], first), LABELS[kind]
    assert parse_choice(text, labels) == (None, "tie")
    assert parse_choice(text, (*labels, "Tie")) == (2, "ok")
    assert parse_choice(text, (*labels, "Neither of them"), "Neither of them") == (2, "ok")


@pytest.mark.parametrize(
    ("text", "labels", "reading"),
    [
        ("This is a tie.", ("A", "B", "C"), (None, "tie")),
        ("Response 2 is a better answer.", ("A", "B"), (1, "ok")),
        ("Response 2 is a better answer.", SUMMARIES, (None, "unparsable")),
        ("Summary 2 is a better answer.", SUMMARIES, (1, "ok")),
        ("A: Summary #1 is more consistent.", ("A", "B", "C"), (0, "ok")),
        ("b", ("A", "B"), (1, "ok")),
        ("a", ("A", "B"), (0, "ok")),
        ("summary b is better", SUMMARIES, (None, "unparsable")),
        ("Summary b", SUMMARIES, (1, "ok")),
        ("Answer: a clear text", ("A", "B"), (None, "unparsable")),
        (
            "Assistant A argues that Output (a) is better. Output (b) is better.",
            ("Output (a)", "Output (b)"),
            (1, "ok"),
        ),
        ("<|B|>", ("A", "B"), (1, "ok")),
        ("Yes, because it names the date.", ("Yes", "No"), (0, "ok")),
        ("I'm sorry, but I can't compare these.", SUMMARIES, (None, "refused")),
        ("D", tuple("ABCDE"), (3, "ok")),
        (None, SUMMARIES, (None, "unparsable")),
    ],
)
def test_explicit_choices_are_read(text, labels, reading):
    assert parse_choice(text, labels) == reading


def test_a_tie_must_be_a_label():
    with pytest.raises(InputError, match="tie is 'C', allowed: one of the labels A, B"):
        parse_choice("A", ("A", "B"), "C")


pieces = st.lists(
    st.sampled_from(
        [
            *(
                "{x}",
                "{y}",
                "{x}",
                "{y}",
                " is ",
                " better",
                " more coherent",
                " than ",
                "I prefer ",
                " wins",
                ". ",
                ", ",
                "\n",
            ),
            *(
                " not ",
                " a ",
                " the ",
                "A ",
                " but ",
                "Although ",
                "while ",
                " and ",
                " or ",
                "both ",
                "equally good",
                " tie",
            ),
            *(
                "Choice: ",
                "[[",
                "]]",
                "Therefore, ",
                "Overall, ",
                "if ",
                "?",
                " because ",
                "clear",
                " only ",
                "worse",
                "**",
            ),
        ]
    ),
    max_size=16,
).map("".join)


@pytest.mark.slow
@settings(max_examples=500)
@given(pieces, st.sampled_from(["letters", "summaries", "responses", "numbers", "outputs", "texts"]))
def test_exchanged_labels_exchange_the_reading(text, kind):
    """No sentence favours a label: exchanged in the text, they are exchanged in the reading, status and all."""
    labels = LABELS[kind]
    assume(kind in ("numbers", "texts") or not re.search(r"\b[aA]\b", text))  # there it is a mention of its own
    assume(not re.search(r"[{][xy][}]\W*tie", text))  # "A tie" is a tie, "B tie" is nothing
    chosen, status = parse_choice(filled(text, labels), labels)
    twin, twin_status = parse_choice(filled(text, labels, 1), labels)
    assert (twin, twin_status) == (None if chosen is None else 1 - chosen, status)


@given(st.sampled_from([*DECIDE, *OPEN]), st.sampled_from(["summaries", "numbers", "outputs"]), st.data())
def test_articles_are_no_labels(sentence, kind, data):
    """A sentence in which "a" is written "A", and one more that is full of articles, change nothing."""
    labels = LABELS[kind]
    text = filled(sentence, labels)
    before = parse_choice(text, labels)
    places = [i for i in range(1, len(text) - 1) if text[i - 1 : i + 2] == " a "]
    for place in data.draw(st.sets(st.sampled_from(places))) if places else ():
        text = f"{text[:place]}A{text[place + 1 :]}"
    assert parse_choice(text, labels) == before or "[[" in sentence


harmless = st.lists(
    st.sampled_from(["Both are short.", "I have read them with care.", "The topic is a flood.", "It was a hard task."]),
    min_size=1,
    max_size=3,
).map(" ".join)


@given(st.sampled_from(DECIDE), st.sampled_from(sorted(LABELS)), st.sampled_from([0, 1]), harmless, st.booleans())
def test_filler_never_flips_a_verdict(sentence, kind, first, filler, before):
    text = filled(sentence, LABELS[kind], first)
    chosen, status = parse_choice(f"{filler} {text}" if before else f"{text} {filler}", LABELS[kind])
    assert (chosen, status) in ((first, "ok"), (None, "unparsable"), (None, "tie"))
    assert status != "tie"


@settings(max_examples=300)
@given(st.one_of(st.text(), pieces), st.sampled_from([*LABELS.values(), ("Yes", "No"), ("", "a"), ("1", "2", "Tie")]))
def test_any_text_gets_a_status(text, labels):
    chosen, status = parse_choice(text, labels)
    assert (chosen is None) == (status != "ok")


@pytest.mark.slow
def test_long_texts_are_quick():
    """Patterns do not blow up on long runs of what they skip."""
    for run in (
        "A ",
        "A is ",
        "is better ",
        "Summary ",
        "[[",
        "**",
        " ",
        "\n",
        "not ",
        "the answer is ",
        "A and B ",
        "B's a ",
    ):
        parse_choice(run * 1500, ("A", "B"))
        parse_choice(run * 1500, SUMMARIES)


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
    assert parse_choice(text, WITH_TIE) == (index, "ok")


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
    assert parse_choice(text, WITH_TIE) == (None, "unparsable")


@pytest.mark.parametrize(
    "text", ["I'm sorry, but I can't compare these.", "I cannot answer: Summary A", "As an AI I do not judge."]
)
def test_refusals_are_refusals(text):
    assert parse_choice(text, WITH_TIE) == (None, "refused")


@given(st.text())
def test_any_text_gets_a_status_for_summary_labels(text):
    index, status = parse_choice(text, WITH_TIE)
    assert (index is None) == (status != "ok")


@given(st.sampled_from(WITH_TIE), st.text(alphabet=" \n.*\"'", max_size=4))
def test_decoration_changes_nothing(label, noise):
    assert parse_choice(noise + label + noise, WITH_TIE) == (WITH_TIE.index(label), "ok")


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
@pytest.mark.parametrize("words", ["C", "Tie", "tie"])
def test_a_marked_tie_is_a_tie_whatever_the_words_say(mark, words):
    reply = f"{WORDS} {mark.format(words)}"
    assert parse_choice(reply, WITH_TIE) == (2, "ok")
    assert parse_choice(mark.format(words), WITH_TIE) == (2, "ok")
    chosen, status = parse_choice(reply, SUMMARIES)
    assert chosen is None
    assert status == ("unparsable" if words == "C" else "tie")


@marks
@pytest.mark.parametrize("labels", [SUMMARIES, WITH_TIE])
def test_a_marked_label_outranks_the_words(mark, labels):
    assert parse_choice(f"{WORDS} {mark.format('B')}", labels) == (1, "ok")
    assert parse_choice(f"B is clearer. {mark.format('Summary A')}", labels) == (0, "ok")


@marks
@pytest.mark.parametrize("labels", [SUMMARIES, WITH_TIE])
def test_unknown_label_in_a_mark_is_unparsable(mark, labels):
    assert parse_choice(f"{WORDS} {mark.format('D')}", labels) == (None, "unparsable")


@pytest.mark.parametrize("mark", [m for m in MARKS if not m.startswith(("[{}]", "**", "Verdict", "My"))])
def test_words_in_a_mark_decide_and_no_others(mark):
    assert parse_choice(f"{WORDS} {mark.format('neither of them')}", SUMMARIES) == (None, "unparsable")


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
    with pytest.raises(UnlabelledRepliesError, match="20 unparsable"):
        bl.collect(no_ties, Says(reply), data, progress=False)
