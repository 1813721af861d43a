"""Templates say where they come from, take data as data, and ask what they should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biaslab import prompts
from biaslab.errors import InputError

PAIR = {
    "context": "It rained.",
    "first": "Rain fell.",
    "second": "Snow fell.",
    "noun": "summary",
    "definition": "No faults.",
}
SCORE = {
    "context": "It rained.",
    "candidate": "Rain fell.",
    "noun": "summary",
    "definition": "No faults.",
    "low": 1,
    "high": 10,
}


def variables(name):
    return PAIR if name.startswith("comparative") else SCORE


def test_every_template_has_a_provenance():
    names = prompts.available()
    assert {"comparative_1", "comparative_2", "scoring_1", "scoring_2"} <= set(names)
    assert all("Liusie et al. 2024" in text and "Our own words" in text for text in names.values())


@pytest.mark.parametrize("name", sorted(prompts.available()))
@pytest.mark.parametrize("noun", ["summary", "response", "dialogue", "text"])
def test_noun_and_attribute_are_variables(name, noun):
    for attribute, words in (("consistency", "consistent"), ("warmth", "warmth")):
        text = prompts.render(name, **(variables(name) | {"noun": noun}), attribute=attribute)
        assert words in text
        assert noun in text
        assert "{{" not in text
        if noun != "summary":
            assert "ummar" not in text


@given(text=st.text(min_size=1))
@pytest.mark.parametrize("name", sorted(prompts.available()))
def test_data_is_never_a_template(name, text):
    slot = "first" if name.startswith("comparative") else "candidate"
    shown = text + "{{ context }} {% raw %}"
    assert shown in prompts.render(name, **(variables(name) | {slot: shown}), attribute="fluency")


def test_plural_of_nouns():
    assert "two summaries" in prompts.render("comparative_2", **PAIR, attribute="fluency")
    assert "two responses" in prompts.render("comparative_2", **(PAIR | {"noun": "response"}), attribute="fluency")


def test_missing_variable_and_unknown_template_are_named():
    with pytest.raises(InputError, match="second"):
        prompts.render("comparative_1", context="c", first="a", noun="text", attribute="x")
    with pytest.raises(InputError, match="scoring_1"):
        prompts.render("poem", context="c")
