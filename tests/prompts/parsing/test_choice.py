"""Sentences that decide between labels, and sentences that must not be guessed at, of whatever judge."""

import re

import pytest
from hypothesis import assume, given, settings, strategies as st

from biaslab.core.errors import InputError
from biaslab.prompts.parsing import parse_choice

SUMMARIES = ("Summary A", "Summary B")
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
