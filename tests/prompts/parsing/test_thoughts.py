"""Thoughts and answers of reasoning models, by family; and that no verdict is read inside a thought."""

import pytest
from hypothesis import given, strategies as st

from biaslab.core import Reply
from biaslab.prompts.parsing import parse_choice
from biaslab.prompts.parsing.thoughts import answered, begins_inside, is_cut_off, split_message, split_thought

FAMILIES = [
    ("<think>", "</think>"),
    ("<THINKING>", "</THINKING>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|><|begin_of_solution|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|think|>", "<|/think|>"),
    ("<think >", "</think >"),
    ("<antThinking>", "</antThinking>"),
    ("Here is my thought process:\n", "Here is my response:"),
    ("Here's my thought process:\n", "Here's my response:"),
]


@pytest.mark.parametrize(("opens", "closes"), FAMILIES)
def test_families(opens, closes):
    assert split_thought(f"{opens}Is it [[A]]?{closes}\n\n[[B]]") == ("Is it [[A]]?", "[[B]]")
    assert split_thought(f"{opens}\nIt is [[A]], or") == ("It is [[A]], or", "")


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("no tags at all\n", None, "no tags at all\n"),
        ("", None, ""),
        ("</think>\n\nB", "", "B"),
        ("it may be A\n</think>\nB", "it may be A", "B"),
        ("it may be A</think>B", "it may be A", "B"),
        ("<think></think>B", "", "B"),
        ("<think>one <think>two</think> three</think>B", "one <think>two</think> three", "B"),
        ("<think>one\n<think>two</think> three</think>B", "one\n<think>two</think> three", "B"),
        ("<think>one\n<think>two</think>B", "one\n<think>two</think>", "B"),
        ("First of all:\n<thinking>A?</thinking>\nB", "A?", "First of all:\n\nB"),
        ("<think>A?</think>B\n<think>C?</think>", "A?\n\nC?", "B"),
        ("<think>A?</think>B <think>C?</think>", "A?</think>B <think>C?", ""),
        ("A\n<think>or B", "or B", ""),
        ("<think>A?</think>B</think>C", "A?</think>B", "C"),
        ("It ends with `</think>`, so A", None, "It ends with `</think>`, so A"),
        ('The tag "<think>" is never closed, so A', None, 'The tag "<think>" is never closed, so A'),
    ],
)
def test_thought_is_split_from_the_answer(text, thought, answer):
    assert split_thought(text) == (thought, answer)


def test_a_prompt_that_opens_the_thought():
    assert split_thought("It is A, or", opened=True) == ("It is A, or", "")
    assert split_thought("A?</think>B", opened=True) == ("A?", "B")
    assert split_thought("", opened=True) == ("", "")


@given(st.text(alphabet="ab [<>/]`\n", max_size=40), st.text(alphabet="AB .\n", max_size=20))
def test_an_answer_behind_a_thought_is_the_rest(inside, answer):
    """Whatever is thought, as long as it has no tag itself."""
    found = split_thought(f"<think>{inside}</think>{answer}")
    if not inside.endswith("`"):
        assert found == (inside.strip(), answer.strip())
    assert split_thought(found.answer) == (None, found.answer)


def test_no_verdict_inside_a_thought_is_read():
    for opens, closes in FAMILIES:
        reply = answered(Reply(text=f"{opens}Clearly [[A]].{closes}I cannot tell."))
        assert parse_choice(reply.text, ("A", "B"))[0] is None
        assert reply.thought == "Clearly [[A]]."


def test_messages():
    assert split_message({"content": "B", "reasoning": "A?"}) == ("B", "A?")
    assert split_message({"content": None, "reasoning_content": "A?"}) == (None, "A?")
    assert split_message({"content": "B", "reasoning_content": None, "reasoning": ""}) == ("B", None)
    assert split_message({"content": "B", "reasoning_details": [{"type": "reasoning.text", "text": "A?"}]}) == (
        "B",
        "A?",
    )
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "A?"}]}, {"type": "text", "text": "B"}]
    assert split_message({"content": parts}) == ("B", "A?")
    with pytest.raises(TypeError):
        split_message({"content": 4})


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "thinking", "thinking": "A?", "signature": "x"}, {"type": "text", "text": "B"}],
        [{"type": "reasoning", "reasoning": [{"text": "A?"}]}, "B"],
        [{"text": "A?", "thought": True}, {"text": "B"}],
        [{"type": "text", "text": {"value": "B"}}, {"type": "reasoning_content", "reasoning_content": {"text": "A?"}}],
    ],
)
def test_parts_of_a_content(parts):
    assert split_message({"content": parts}) == ("B", "A?")
    thoughts = [part for part in parts if "A?" in str(part)]
    assert split_message({"content": thoughts}) == ("", "A?")  # cut off inside the thought
    assert split_message({"content": [part for part in parts if part not in thoughts]}) == ("B", None)


@pytest.mark.parametrize(
    "field",
    [
        {"reasoning": {"summary": [{"text": "A?"}]}}, {"reasoning_text": "A?"}, {"thoughts": ["A?"]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "A?"}]}, {"reasoning_summary": {"content": "A?"}},
    ],
)  # fmt: skip
def test_fields_of_other_servers(field):
    assert split_message({"content": "B", **field}) == ("B", "A?")


def test_a_tool_may_be_called_with_an_object():
    calls = [{"function": {"name": "judge", "arguments": {"winner": "B"}}}]
    assert split_message({"content": "", "tool_calls": calls}) == ('{"winner": "B"}', None)


def test_channels_without_their_marks():
    assert split_thought("analysisA is the final one?assistantfinal[[B]]") == ("A is the final one?", "[[B]]")
    assert split_thought("analysisA is the final one, or") == ("A is the final one, or", "")
    assert split_thought("analysis of A: short. [[B]]") == (None, "analysis of A: short. [[B]]")


def test_channel_marks_are_removed_without_a_thought():
    assert split_thought("<|channel|>final<|message|>B<|return|>") == (None, "B")


def test_replies():
    plain, kept = Reply(text="A"), Reply(text="B, as <think>A</think> says", thought="C")
    assert answered(plain) is plain
    assert answered(kept) is kept
    assert answered(Reply(text="<think>A</think>B", thought="A")) == Reply(text="B", thought="A")
    assert answered(Reply(text="<think>A</think>B", thought="C")) == Reply(text="B", thought="C\n\nA")
    assert answered(Reply(text="</think>\nB", thought="C")) == Reply(text="B", thought="C")
    assert answered(Reply(logprobs=(-0.1, -2.0))) == Reply(logprobs=(-0.1, -2.0))
    assert [is_cut_off(each) for each in (plain, Reply(text="A", finish_reason="length"))] == [False, True]
    assert [begins_inside(text) for text in ("A?</think>", "<think>")] == [True, False]
