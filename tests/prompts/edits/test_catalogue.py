"""What holds of every edit that there is, and of the file it stands in."""

import difflib
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest
from edited_texts import SENTENCES, SUMMARY, TEXTS, is_subsequence, words_of
from hypothesis import given

from biaslab.core.errors import InputError
from biaslab.prompts import edits
from biaslab.prompts.defences import SOURCES
from biaslab.prompts.edits import Edit, available, constant, edit, find_edit

LISTED = list(available().values())
#: Those in whose text the whole text still stands, and those in which all of its words do, in their order.
WHOLE = [
    *("authority", "authority_address", "irrelevant_sentence", "beauty_emoji", "beauty_headline", "restating"),
    *("injection", "injection_completed", "injection_ignoring", "fake_rubric"),
    *(name for name in available() if name.startswith(("fake_turn_", "sentiment_"))),
]
WORDS = ["beauty_list", "padding"]
GOALS = {  # what the issue asks for: a family and how many edits of it there are at least
    "authority": 2,
    "bandwagon": 1,
    "distraction": 1,
    "sentiment": 4,
    "beauty": 4,
    "hedged": 1,
    "unhedged": 1,
    "assertive": 1,
    "padding": 1,
    "refinement": 1,
    "model": 3,
    "source": 4,
    "gender": 1,
    "race": 1,
    "author": 4,
    "fallacy": 2,
    "language": 1,
    "spelling": 1,
    "injection": 2,
    "fake_turn": 7,
    "fake_rubric": 1,
    "constant_answer": 1,
    "master_key": 2,
    "empty_answer": 1,
    "question_repeated": 1,
}


@pytest.mark.parametrize("family", GOALS)
def test_no_family_is_missing(family):
    assert sum(name.startswith(family) for name in available()) >= GOALS[family]


def test_each_edit_is_defined_in_one_module():
    found = {}
    for module in pkgutil.iter_modules(edits.__path__):
        loaded = importlib.import_module(f"biaslab.prompts.edits.{module.name}")
        for one in vars(loaded).values():
            if isinstance(one, Edit):
                found.setdefault(one.name, set()).add(module.name)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
    assert set(found) == set(available())


def test_description_of_an_edit_ends_with_a_full_stop():
    assert all(one.about.endswith(".") for one in LISTED)


@given(text=SENTENCES)
@pytest.mark.parametrize("name", WHOLE)
def test_additive_edits_keep_the_text(name, text):
    assert text.strip() in find_edit(name)(text)


@given(text=SENTENCES)
@pytest.mark.parametrize("name", WORDS)
def test_inserting_edits_keep_every_word(name, text):
    assert is_subsequence(words_of(text), words_of(find_edit(name)(text)))


@pytest.mark.parametrize("name", [*WHOLE, *WORDS])
def test_diff_of_an_additive_edit_has_additions_only(name):
    edited = find_edit(name)(SUMMARY)
    before, after = (SUMMARY, edited) if name in WHOLE else (words_of(SUMMARY), words_of(edited))
    found = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    assert {what for what, *_ in found} == {"equal", "insert"}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("one", [e for e in LISTED if e.place == "heading"], ids=lambda one: one.name)
def test_a_heading_is_a_few_words_that_hold_nothing_of_the_text(one, text):
    label = one(text)
    assert 1 <= len(label.split()) <= 12
    assert label == label.strip()
    assert not {"(", ")", "\n"} & set(label)  # it stands in brackets
    assert one.quality == "left"


@pytest.mark.parametrize("one", [e for e in LISTED if e.place == "note"], ids=lambda one: one.name)
def test_a_note_is_a_sentence_that_names_the_candidate(one):
    for name in ("Summary A", "Summary B", "summary"):
        note = one(name)
        assert note.endswith(".")
        assert name in note
    assert one("Summary A") == one("Summary B").replace("Summary B", "Summary A")


def test_of_one_candidate_a_note_does_not_compare():
    assert "better" in find_edit("bandwagon")("Summary A")
    assert "better" not in find_edit("bandwagon")("summary")


def test_an_edit_of_the_context_gets_the_context():
    one = find_edit("question_repeated")
    bound = one.given(" What fell? ")
    assert bound("Rain fell.") == "What fell?"
    assert (bound.name, bound.about, bound.quality, bound.place) == (one.name, one.about, "lowered", "text")
    assert one("Rain fell.") == one.given(" ")("Rain fell.") == "Rain fell."
    assert find_edit("authority").given("What fell?") is find_edit("authority")


def test_invalid_edits_are_refused():
    with pytest.raises(InputError, match="reads"):
        Edit("a", str.upper, reads="question")
    with pytest.raises(InputError, match="authority"):
        find_edit("autority")
    assert constant("draft", "a draft", "Say so.", "own").about == "Say so."
    assert edit(source="own", reads="context")(str.upper).given("b")("a") == "B"


@pytest.fixture(scope="module")
def page_of_edits():
    path = Path(__file__).parents[3] / "docs" / "_hooks" / "edits.py"
    spec = importlib.util.spec_from_file_location("docs_hooks_edits", path)
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    guides = path.parents[1] / "guides"
    pages = [(guides / name).read_text(encoding="utf-8") for name in ("edits.md", "robustness.md")]
    return "\n".join(map(hook.on_page_markdown, pages))


def test_the_pages_list_every_edit_and_every_defence(page_of_edits):
    assert "<!-- edits" not in page_of_edits
    for one in LISTED:
        [row] = [line for line in page_of_edits.splitlines() if line.startswith(f"| `{one.name}` |")]
        assert one.source in row
        assert row.replace("\\|", "").count("|") == 5
    assert all(f"| `{name}` |" in page_of_edits for name in SOURCES)
