"""Variants of prompts: the base is a prompt that there was, and each variant differs from it in what it says."""

import pytest

import biaslab as bl
from biaslab import prompts
from biaslab.core.errors import InputError
from biaslab.core.scales import SCALES, find_scale
from biaslab.prompts.parsing import parse_choice
from biaslab.prompts.variants import FACTORS, variants


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("context", ["", "It rained."])
@pytest.mark.parametrize("dataset", ["graded", "lengths"])
def test_the_base_of_scores_is_the_rating_prompt(scale, context, dataset):
    data = bl.load_dataset(dataset, limit=1)
    for attribute in data.attributes:
        asked = attribute, find_scale(scale), "Rain fell.", context
        assert variants("score")[0].rate(data, *asked) == prompts.rate(data, [attribute], *asked[1:])


def test_the_base_of_pairs_is_the_bare_comparison(graded):
    for attribute in graded.attributes:
        asked = {"first": "Rain fell.", "second": "It was wet.", "context": "It rained."}
        expected = prompts.render("comparative_1", noun=graded.noun, attribute=attribute, **asked)
        assert variants("pair")[0].compare(graded, attribute, **asked) == expected


@pytest.mark.parametrize("form", FACTORS)
def test_every_factor_has_variants_that_say_something_else(form, graded):
    every = variants(form)
    assert len({variant.name for variant in every}) == len(every)
    assert {variant.factor for variant in every} == {"base", *FACTORS[form]}
    said = {}
    for variant in every:
        if form == "score":
            prompt = variant.rate(graded, "coherence", find_scale("1-5"), "Rain fell.", "It rained.")
        else:
            prompt = variant.compare(graded, "coherence", "Rain fell.", "It was wet.", "It rained.")
            assert all(name in prompt for name in variant.names(graded.noun))
        assert {"Rain fell.", "It rained."} <= {text for text in ("Rain fell.", "It rained.") if text in prompt}
        assert "\n\n\n" not in prompt
        said[variant.name] = prompt, variant.system, variant.shots
    assert len(set(said.values())) == len(said)


def test_chosen_factors_come_with_the_base():
    assert [variant.name for variant in variants("score", ["order"])] == ["base", "scale best first"]
    assert ["".join(variant.labels) for variant in variants("pair", ["labels", "order"])] == ["AB", "12", "XY", "BA"]


@pytest.mark.parametrize(
    ("form", "factors", "words"),
    [
        ("score", ["labels"], "wording, order, system, shots, rubric"),
        ("pair", ["colour"], "labels"),
        ("stars", None, "score, pair"),
        ("pair", [], "values among"),
    ],
)
def test_unknown_forms_and_factors(form, factors, words):
    with pytest.raises(InputError, match=words):
        variants(form, factors)


@pytest.mark.parametrize("labels", ["AB", "12", "XY", "BA"])
@pytest.mark.parametrize(
    "words",
    ["{}", "Answer: {}", "{} is better.", "I prefer {}.", "**{}**", "The winner is {}.", "My choice: {}"],
)
def test_every_name_is_read_in_text(labels, words):
    variant = next(each for each in variants("pair") if "".join(each.labels) == labels)
    names = variant.names("summary")
    for place, name in enumerate(names):
        assert parse_choice(words.format(name), names) == (place, "ok")
