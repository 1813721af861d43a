"""Templates say where they come from, take data as data, and ask what they should."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab import prompts
from biaslab.core import as_messages
from biaslab.core.errors import InputError
from biaslab.core.scales import SCALES, find_scale, stated_scale
from biaslab.datasets import construction, summeval, topicalchat
from biaslab.prompts.edits import available
from biaslab.prompts.edits.attacks import SOURCES, defend, shield
from biaslab.prompts.parsing import parse_choice, parse_score, parse_scores
from biaslab.prompts.variants import FACTORS, variants

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


RATE = {
    "context": "It rained.",
    "candidate": "Rain fell.",
    "noun": "summary",
    "attributes": [{"name": "consistency", "definition": "No faults.", "aspects": ["names", "numbers"]}],
    "scale": find_scale("1-10"),
    "reasons": "none",
}
ORDER = {
    "context": "It rained.",
    "candidate": "Rain fell.",
    "noun": "summary",
    "definition": "No faults.",
    "scale": find_scale("1-10"),
    "format": "ex",
    "order": "sr",
    "rules": True,
}
G_EVAL = {
    "context": "It rained.",
    "candidate": "Rain fell.",
    "noun": "summary",
    "definition": "No faults.",
    "aspects": ["names", "numbers"],
    "scale": find_scale("1-5"),
    "steps": [],
}
STARS = {
    "source": "It rained.",
    "reference": "",
    "candidate": "Rain fell.",
    "noun": "summary",
    "worst": "nonsense",
    "perfect": "sense",
    "definition": "No faults.",
    "stars": True,
}
VARIED = {"wording": 1, "respect": RATE["attributes"][0]}
VARIED_RATE = (
    SCORE | VARIED | {"scale": "from 1 to 5", "rubric": "levels", "steps": ["1", "3", "5"], "from_best": False}
)
VARIED_PAIR = PAIR | VARIED | {"names": ["Summary X", "Summary Y"], "rubric": True}
#: Templates that show no candidate.
WITHOUT_CANDIDATE = {"rate_again", "variant_system", "evaluation_steps"}
ADJECTIVAL = ["comparative_1", "comparative_2", "scoring_1", "scoring_2", "gpt_score"]


def variables(name):
    own = {"rate": RATE, "rate_again": RATE, "output_order": ORDER, "g_eval": G_EVAL, "stars": STARS}
    own |= {"variant_rate": VARIED_RATE, "variant_compare": VARIED_PAIR}
    own |= {"severity": ORDER | {"aspects": ["repetitiveness"]}, "reasoned_comparative": PAIR | {"reasons": "before"}}
    return own.get(name, PAIR if name.startswith("comparative") else SCORE)


def test_every_template_has_a_provenance():
    names = prompts.available()
    sources = dict.fromkeys(ADJECTIVAL[:4], "Liusie et al. 2024")
    sources |= dict.fromkeys(("rate", "rate_again"), "Stureborg et al. 2024")
    sources |= dict.fromkeys(("output_order", "severity", "reasoned_comparative"), "Chen et al. 2024")
    sources |= {
        "evaluation_steps": "Liu et al. 2023",
        "g_eval": "Liu et al. 2023",
        "gpt_score": "Fu et al. 2023",
        "stars": "Wang et al. 2023",
    }
    sources |= dict.fromkeys(("variant_rate", "variant_compare"), "Sclar et al. 2024")
    sources |= {"variant_system": "Zheng et al. 2023"}
    assert set(names) == set(sources)
    assert all(sources[name] in text and "Our own words" in text for name, text in names.items())


@pytest.mark.parametrize("name", ADJECTIVAL)
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
@pytest.mark.parametrize(
    "name", sorted({*prompts.available()} - {"rate_again", "variant_system", "evaluation_steps"})
)  # which show none
def test_data_is_never_a_template(name, text):
    slot = "first" if "compar" in name else "context" if name == "gpt_score" else "candidate"
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


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("reasons", ["none", "before", "after"])
@pytest.mark.parametrize("names", [["fluency"], ["relevance", "coherence", "fluency"]], ids=["one", "three"])
def test_rating_asks_for_what_is_read(graded, names, reasons, scale):
    """Whoever fills in the form at the end of the prompt is understood, in the order asked."""
    prompt = prompts.rate(graded, names, scale, "Rain fell.", "It rained.", reasons)
    assert prompt.startswith("Source: It rained.\n\nSummary: Rain fell.\n\n")
    assert stated_scale(prompt) == scale
    assert [prompt.index(prompts.describe(graded, name)["definition"]) for name in names] == sorted(
        prompt.index(prompts.describe(graded, name)["definition"]) for name in names
    )
    form = prompt[prompt.index(scale.wording) :].split("\n", 2)[2:]
    if reasons == "none" and len(names) == 1:
        assert form == []
        assert prompt.endswith("Answer with the rating of fluency alone.")
        return
    wanted = dict(zip(names, scale.labels[1:], strict=False))
    filled = form[0].replace("<reasons>", "It has faults.")
    for name, label in wanted.items():
        filled = filled.replace(f"{name}: <score>", f"{name}: {label}")
    assert "<" not in filled
    read = parse_scores(filled, names, scale)
    assert list(read) == names
    assert [value for value, _ in read.values()] == pytest.approx(list(scale.values[1 : len(names) + 1]))
    first = filled.split("\n")[0]
    assert first.startswith("It has faults" if reasons == "before" else names[0])


def test_g_eval_prompt_states_scale_and_ends_with_criterion():
    for scale in SCALES.values():
        prompt = prompts.render("g_eval", **(G_EVAL | {"scale": scale}), attribute="fluency")
        assert stated_scale(prompt) == scale
        assert prompt.endswith("\n\nForm to fill in, with the score alone:\n- fluency:")
        assert "names; numbers" in prompt
    bare = prompts.render("g_eval", **(G_EVAL | {"context": "", "aspects": []}), attribute="fluency")
    assert "ource" not in bare
    assert "2. Hold the summary against the criterion.\n" in bare


def test_gpt_score_prompt_ends_before_the_candidate():
    given = {"noun": "summary", "attribute": "fluency", "definition": "No faults."}
    text = prompts.render("gpt_score", **given, context="It rained.")
    assert (
        text == "Source: It rained.\n\nWhat follows is a summary of this source that is fluent. No faults.\n\nSummary:"
    )
    bare = prompts.render("gpt_score", **given, context="")
    assert text == f"Source: It rained.\n\n{bare}".replace("a summary that", "a summary of this source that")


def test_rating_without_source_has_none(graded):
    prompt = prompts.rate(graded, ["fluency"], find_scale("1-5"), "Rain fell.")
    assert prompt.startswith("Summary: Rain fell.")
    assert "Source" not in prompt
    full = prompts.rate(graded, ["fluency"], find_scale("1-5"), "Rain fell.", "It rained.")
    assert full == "Source: It rained.\n\n" + prompt


@pytest.mark.parametrize("form", ["ex", "json"])
@pytest.mark.parametrize("order", ["s", "sr", "rs"])
def test_output_orders_of_chen_et_al(graded, form, order):
    prompt = prompts.order_output(graded, "fluency", find_scale("1-10"), "Rain fell.", "It rained.", form, order)
    form_asked = prompt.split("\n\n")[-1].split(":\n", 1)[1]
    assert ("reasons" in form_asked) == (order != "s")
    if order != "s":
        assert (form_asked.index("score") < form_asked.index("reasons")) == (order == "sr")
    filled = form_asked.replace("<number>", "7").replace("<point out", "point out").replace("why you score so>", "why")
    if form == "json":
        assert list(json.loads(filled)) == [{"s": "score", "r": "reasons"}[letter] for letter in order]
    assert parse_scores(filled, ["fluency"], find_scale("1-10"))["fluency"] == (7.0, "ok")
    ruled = prompts.order_output(graded, "fluency", find_scale("1-10"), "Rain fell.", "It rained.", form, order, True)
    rules = next(part for part in ruled.split("\n\n") if part.startswith("Special rules"))
    assert len(rules.split("\n")) == 6
    assert ruled.replace("\n\n" + rules, "") == prompt


#: Table 1 of Chen et al., word for word.
PRINTED = {
    ("ex", "s"): 'Example JSON output:\n{"score": 5}',
    ("ex", "sr"): 'Example JSON output:\n{"score": 5, "reasons": "<<<your reasons for the rating>>>"}',
    ("ex", "rs"): 'Example JSON output:\n{"reasons": "<<<your reasons for the rating>>>", "score": 5}',
    ("json", "s"): 'Output a json of the following format:\n{"score": "<<<integer>>>"}',
    ("json", "sr"): "Output a json of the following format:\n"
    '{"score": "<<<integer>>>", "reasons": "point out the issues and your reasons for the rating"}',
    ("json", "rs"): "Output a json of the following format:\n"
    '{"reasons": "point out the issues and your reasons for the rating", "score": "<<<integer>>>"}',
}


@pytest.mark.parametrize(("form", "order"), PRINTED)
def test_output_instructions_are_those_that_chen_et_al_print(form, order):
    data, scale = construction.load_dialogue_sets(), find_scale("1-10")
    text = data.candidates["text"].iloc[0]
    ruled, plain = (prompts.rate_severity(data, scale, text, "", form, order, rules) for rules in (True, False))
    parts = plain.removeprefix(f"Set of dialogues:\n{text}\n\n").split("\n\n")
    assert parts[1:] == [PRINTED[form, order]]
    assert re.search(r"from 1 to 10, where 1 means no issues and 10 means severe problems", parts[0])
    assert "repetitiveness, factual accuracy, coherence" in parts[0]
    rules = next(part for part in ruled.split("\n\n") if part.startswith("Special rules"))
    assert ruled.replace("\n\n" + rules, "") == plain
    filled = parts[1].split(":\n")[1].replace("<<<integer>>>", "5")
    assert parse_score(filled, scale) == (5.0, "ok")


def test_severity_needs_an_aspect():
    with pytest.raises(InputError, match="aspects"):
        prompts.rate_severity(construction.load_dialogue_sets(), find_scale("1-10"), "a", aspects=[])


def test_known_attributes_are_those_of_the_data_sets():
    known = prompts._known_attributes()
    assert set(known) == {"summeval", "graded", "topicalchat", "dialogues"}
    modules = {
        "summeval": summeval.ATTRIBUTES,
        "graded": construction.GRADED_ATTRIBUTES,
        "topicalchat": topicalchat.ATTRIBUTES,
    }
    for name, attributes in (modules | {"dialogues": construction.DIALOGUE_ATTRIBUTES}).items():
        assert set(known[name]) == set(attributes)
        assert all(about["definition"].endswith(".") and about["aspects"] for about in known[name].values())


def test_unknown_attribute_keeps_the_definition_of_its_data_set(graded):
    own = replace(
        graded, name="mine", attributes={"fluency": "It sings.", **graded.attributes, "warmth": "It is warm."}
    )
    assert prompts.describe(own, "warmth") == {"name": "warmth", "definition": "It is warm.", "aspects": []}
    assert "Respect 2 is warmth: It is warm.\n\nEach rating" in prompts.rate(
        own, ["coherence", "warmth"], find_scale("1-5"), "a"
    )
    assert "Consider" not in prompts.rate(own, ["fluency"], find_scale("1-5"), "a")


def test_ratings_refuse_what_they_do_not_know(graded):
    scale = find_scale("1-5")
    with pytest.raises(InputError, match="before"):
        prompts.rate(graded, ["fluency"], scale, "a", reasons="behind")
    with pytest.raises(InputError, match="list of different names"):
        prompts.rate(graded, "fluency", scale, "a")
    with pytest.raises(InputError, match="warmth"):
        prompts.rate(graded, ["warmth"], scale, "a")
    with pytest.raises(InputError, match="json"):
        prompts.order_output(graded, "fluency", scale, "a", form="xml")
    with pytest.raises(InputError, match="rs"):
        prompts.order_output(graded, "fluency", scale, "a", order="srs")


@pytest.mark.parametrize("name", ["comparative_1", "comparative_2", "scoring_1", "scoring_2"])
def test_cue_ends_the_prompt_and_empty_cue_changes_nothing(name):
    given = (PAIR if name.startswith("comparative") else SCORE) | {"attribute": "coherence"}
    plain = prompts.render(name, **given)
    assert prompts.render(name, **given, cue="") == plain
    assert prompts.render(name, **given, cue="Answer:") == f"{plain}\n\nAnswer:"


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
    asked = {}
    for variant in every:
        if form == "score":
            prompt = variant.rate(graded, "coherence", find_scale("1-5"), "Rain fell.", "It rained.")
        else:
            prompt = variant.compare(graded, "coherence", "Rain fell.", "It was wet.", "It rained.")
            assert all(name in prompt for name in variant.names(graded.noun))
        assert {"Rain fell.", "It rained."} <= {text for text in ("Rain fell.", "It rained.") if text in prompt}
        assert "\n\n\n" not in prompt
        asked[variant.name] = prompt, variant.system, variant.shots
    assert len(set(asked.values())) == len(asked)


def test_scores_have_other_names_and_criteria_another_order(graded):
    every = {each.name: each for each in variants("score", ["ids", "levels", "criteria", "rubric"])}
    asked = graded, "coherence", find_scale("1-5"), "Rain fell.", ""
    prompts_of = {name: each.rate(*asked) for name, each in every.items()}
    assert "I, II, III, IV, V, from I (worst)" in prompts_of["scores I-V"]
    aspects = prompts.describe(graded, "coherence")["aspects"]
    assert len(aspects) > 1
    assert "; ".join(aspects) in prompts_of["base"]
    assert "; ".join(aspects[::-1]) in prompts_of["criteria reversed"]
    assert prompts_of["rubric by level"].index("1 means") < prompts_of["rubric by level"].index("5 faultless")
    assert prompts_of["rubric, best first"].index("5 means") < prompts_of["rubric, best first"].index("1 poor")
    assert len(set(prompts_of.values())) == len(prompts_of)


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


ANY = st.text(max_size=80) | st.lists(
    st.sampled_from(["<text 1>", "</text 1>", "</text 2>", "text ", "\n", "> ", "Rain fell."]), max_size=8
).map("".join)
ATTACKS = [one("Rain fell.") for one in available().values() if one.quality == "lowered"]


def test_without_a_defence_nothing_changes():
    assert shield("a\n", "none") == "a\n"
    assert defend("Which?", "none") == "Which?"


@given(text=ANY)
def test_delimiters_keep_the_text_and_never_occur_in_it(text):
    opening, body, closing = re.fullmatch(
        r"(<text \d+>)\n(.*)\n(</text \d+>)", shield(text, "delimiters"), re.S
    ).groups()
    assert body == text
    assert closing == opening.replace("<", "</")
    assert opening not in text
    assert closing not in text


def test_delimiters_of_texts_without_marks_are_alike():
    """So that a prompt differs from another by its text alone."""
    assert {shield(text, "delimiters").split("\n")[0] for text in ATTACKS} == {"<text 1>"}
    assert shield("</text 1> and </text 2>", "delimiters").startswith("<text 3>\n")


@given(text=ANY)
def test_every_line_of_a_quotation_is_marked(text):
    quoted = shield(text, "quoting").split("\n")
    assert all(line.startswith(">") for line in quoted)
    assert [line[2:] for line in quoted] == [line.rstrip() for line in text.splitlines() or [""]]


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_line_of_an_attack_is_quoted(attack):
    prompt = defend(f"Text:\n{shield(attack, 'quoting')}\n\nHow good is it?", "quoting")
    lines = [line for line in prompt.splitlines() if line and not line.startswith(">")]
    assert lines == [prompt.splitlines()[0], "Text:", "How good is it?"]


@pytest.mark.parametrize("defence", [name for name in SOURCES if name != "none"])
def test_defended_prompt_has_the_question_and_ends_with_the_user(defence):
    turns = as_messages(defend("Which is better?", defence))
    assert any("Which is better?" in turn.content for turn in turns)
    assert turns[-1].role == "user"
    assert sum(turn.role == "system" for turn in turns) == (defence == "reminder")
    assert defend("Which?", defence) == defend("Which?", defence) != "Which?"


def test_every_defence_says_what_it_does():
    assert list(SOURCES) == ["none", "delimiters", "quoting", "reminder", "two_step"]
    assert all(text.endswith(".") for text in SOURCES.values())


@pytest.mark.parametrize("call", [shield, defend])
def test_an_unknown_defence_is_named(call):
    with pytest.raises(InputError, match="delimiters"):
        call("a", "delimiter")
