"""Stars are asked for as the paper does, aspects are those of its tables, and any judge can answer."""

import re

import pytest

import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.core.errors import InputError
from biaslab.distill import Aspect, Stars, aspects, find_aspect

TASKS = {"translation": 4, "style-transfer": 3, "summarization": 4}


@pytest.mark.parametrize("task", TASKS)
def test_aspects_are_those_of_the_tables(task):
    found = aspects(task)
    assert found[0].name == "multiple"
    assert len(found) == TASKS[task] + 1
    assert all(a.worst and a.perfect and a.definition.endswith(".") for a in found)


def test_aspects_in_the_words_of_the_paper(shared_data):
    [paper] = (shared_data.parent / "papers").glob("003*.txt")
    text = paper.read_text(encoding="utf-8")
    for task in TASKS:
        for aspect in aspects(task):
            for words in (aspect.worst, aspect.perfect, aspect.definition):
                assert words in text, words


def test_an_aspect_by_name():
    assert find_aspect("translation", "accuracy").perfect == "perfect accuracy"
    with pytest.raises(InputError, match="multiple, coherence, consistency"):
        find_aspect("summarization", "style")
    with pytest.raises(InputError, match="translation, style-transfer"):
        find_aspect("poetry", "style")


def test_every_candidate_is_asked_about_every_single_aspect(graded):
    trials = list(Stars().design(graded))
    assert len(trials) == 4 * len(graded.candidates)
    assert {t.attribute for t in trials} == {"coherence", "consistency", "relevance", "fluency"}
    assert all(isinstance(t.request, Choice) and t.request.labels == tuple("12345") for t in trials)


def test_prompt_defines_the_stars_after_reference_and_text(graded):
    trial = next(iter(Stars(aspects=["coherence"], reference=True).design(graded)))
    text, row = trial.request.messages[0].content, graded.candidates.iloc[0]
    parts = [row.context, row.reference, row.text, "one star means", "incoherence", "perfect coherence"]
    assert all(part in text for part in parts)
    places = [text.index(f"\n\n{word}: ") for word in ("Reference", "Summary")]
    assert 0 < places[0] < places[1] < text.index("Score the summary with respect to its source and the reference")
    bare = next(iter(Stars(aspects=["coherence"], source=False).design(graded))).request.messages[0].content
    assert row.context not in bare
    assert "Reference" not in bare
    assert "with respect to" not in bare


def test_from_0_to_100(graded):
    stars = Stars(aspects=["fluency"], scale="0-100", answer="text", temperature=1.0)
    trial = next(iter(stars.design(graded)))
    assert isinstance(trial.request, Completion)
    assert "continuous scale from 0 to 100" in trial.request.messages[0].content
    found = bl.collect(stars, bl.SimulatedJudge(graded), graded, progress=False)
    assert found["value"].max() > 5
    assert (found["status"] == "ok").all()
    exact = bl.collect(Stars(aspects=["fluency"], scale="0-100"), bl.SimulatedJudge(graded), graded, progress=False)
    assert exact["value"].between(0, 100).all()


def test_the_multiple_aspect_has_no_human_score(graded):
    stars = Stars(aspects=["multiple", "fluency"])
    trials = list(stars.design(graded))
    [whole, fluency] = trials[:2]
    assert "the meaning aspect measures" in whole.request.messages[0].content
    assert whole.condition["human"] != whole.condition["human"]
    assert fluency.condition["human"] == fluency.condition["human"]


def test_custom_aspect_enters_the_prompt(graded):
    own = Aspect("summarization", "wit", "dull", "witty", "the wit measures how witty the summary is.")
    prompt = next(iter(Stars(aspects=[own]).design(graded))).request.messages[0].content
    assert re.search(r'one star means "dull" and five stars mean "witty"', prompt)


@pytest.mark.parametrize(
    "bad",
    [
        {"task": "poetry"},
        {"aspects": ["style"]},
        {"aspects": "fluency"},
        {"aspects": []},
        {"scale": "1-5"},
        {"answer": "score"},
        {"replicates": 2},
    ],
)
def test_invalid_settings_are_refused(bad):
    with pytest.raises(InputError):
        Stars(**bad)


def test_a_reference_that_is_missing(graded):
    blank = bl.Dataset("x", graded.candidates.assign(reference=""), graded.human, graded.attributes)
    with pytest.raises(InputError, match="a reference for every candidate"):
        next(iter(Stars(reference=True).design(blank)))
