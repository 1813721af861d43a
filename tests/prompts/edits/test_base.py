"""What holds of every edit that there is, and of the file it stands in."""

import difflib
import importlib
import importlib.util
import json
import pkgutil
from pathlib import Path

import pandas as pd
import pytest
from edited_texts import SENTENCES, SUMMARY, TEXTS, is_subsequence, words_of
from hypothesis import given, strategies as st

from biaslab.core.errors import InputError
from biaslab.prompts import edits
from biaslab.prompts.edits import TextEdit, available, constant, edit, find_edit, from_table, null_edit
from biaslab.prompts.edits.attacks import SOURCES
from biaslab.prompts.edits.base import Size, neutral, size_of

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


def test_each_edit_is_defined_once():
    found = {name: {"fixed_words"} for name in edits.of_fixed_words()}
    for module in pkgutil.iter_modules(edits.__path__):
        loaded = importlib.import_module(f"biaslab.prompts.edits.{module.name}")
        for one in vars(loaded).values():
            if isinstance(one, TextEdit):
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
        TextEdit("a", str.upper, reads="question")
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
    return hook.on_page_markdown((path.parents[1] / "guides" / "edits.md").read_text(encoding="utf-8"))


def test_the_pages_list_every_edit_and_every_defence(page_of_edits):
    assert "<!-- edits" not in page_of_edits
    for one in LISTED:
        [row] = [line for line in page_of_edits.splitlines() if line.startswith(f"| `{one.name}` |")]
        assert one.source in row
        assert row.replace("\\|", "").count("|") == 5
    assert all(f"| `{name}` |" in page_of_edits for name in SOURCES)


UNIQUE_WORDS = st.lists(st.text("abcdefghij", min_size=1, max_size=6), min_size=1, max_size=30, unique=True)


def shouting_first(n):
    """An edit that changes the first n words."""
    return TextEdit("shouting", lambda text: " ".join([*map(str.upper, text.split()[:n]), *text.split()[n:]]))


def ending(n):
    """An edit that adds n words."""
    return TextEdit("ending", lambda text: f"{text} {'indeed ' * n}".strip())


@given(words=UNIQUE_WORDS, n=st.integers(1, 40))
def test_adds_as_many_words(words, n):
    text = " ".join(words)
    made = null_edit(ending(n))(text)
    assert size_of(text, made) == size_of(text, ending(n)(text)) == Size(0, n)
    assert made.split()[: len(words)] == words


@given(words=UNIQUE_WORDS, n=st.integers(1, 40))
def test_changes_as_many_places_and_no_word(words, n):
    text = " ".join(words)
    made = null_edit(shouting_first(n))(text)
    if len(words) == 1:
        assert made == f"{text} End."
        return
    assert made.split() == words
    assert made.count("  ") == min(n, len(words) - 1)


@given(text=st.text())
def test_is_deterministic_and_changes_what_the_edit_changes(text):
    for change in (find_edit("authority"), find_edit(str.upper), find_edit(str.strip)):
        null = null_edit(change)
        assert null(text) == null_edit(change)(text)
        assert (null(text) == text) == (change(text) == text)


@given(n=st.integers(0, 200))
def test_neutral_text_has_the_number_of_words(n):
    assert len(neutral(n).split()) == n


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("It didn't.", "It did not."),
        ("We can't go.", "We can not go."),
        ("Won’t you?", "Will not you?"),
        ("Isn't it", "Is not it"),
    ],
)
def test_contractions_are_written_out_first(text, written):
    assert null_edit(shouting_first(1))(text) == written


def test_in_a_heading_and_in_a_note():
    heading = TextEdit("label", lambda text: "revised version", place="heading")
    assert null_edit(heading)("Rain.") == "text no. 7"

    @edit(source="our own", place="note")
    def crowd(name):
        """Say what most people think."""
        return f"Nine of ten readers of all those who were asked about it think that {name} is the better one of them."

    for name in ("Summary A", "summary"):
        null = null_edit(crowd)
        assert null.place == "note"
        assert name in null(name)
        assert abs(len(null(name).split()) - len(crowd(name).split())) <= 1


def test_are_not_among_the_edits_and_leave_quality():
    assert not any("null" in name for name in available())
    null = null_edit(find_edit("authority"))
    assert (null.name, null.quality, null.place) == ("null:authority", "left", "text")


def test_sizes():
    assert size_of("a b c", "a b c") == (0, 0)
    assert size_of("a b c", "a  b c") == (1, 0)  # white space alone
    assert size_of("a b c", "a c") == (1, 0)
    assert size_of("a b c", "a x y c d") == (1, 2)
    assert size_of("", "x y") == (0, 2)


CALM = [
    {
        "question": "What fell?",
        "answer1": "Rain fell.",
        "answer2": "Snow fell.",
        "data_resource": "own",
        "answer1_cheerful": "Hooray, rain fell!",
        "answer1_sad": "Alas, rain fell.",
        "answer2_cheerful": "Hooray, snow fell!",
        "answer2_sad": "Alas, snow fell.",
    },
    {
        "question": "And then?",
        "answer1": "12",
        "answer2": "Rain fell.",
        "data_resource": "own",
        "answer1_cheerful": "12\u2028!",
        "answer1_sad": "",
        "answer2_cheerful": "Another hooray, rain fell!",
    },
]
JUDGE_BIAS_BENCH = [
    {
        "question": "What fell?",
        "original_response1": "Rain fell.",
        "original_response2": "Fish fell.",
        "rewritten_response1": "Rain, perhaps.",
        "rewritten_response2": "Experts agree that fish fell.",
        "label": "response1",
    },
    {
        "question": "What else?",
        "original_response1": "Frogs fell.",
        "original_response2": "Hail fell.",
        "rewritten_response1": "Experts agree that frogs fell.",
        "rewritten_response2": "Hail, perhaps.",
        "label": "response2",
    },
]


def write(folder, name, rows):
    path = folder / name
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]", encoding="utf-8")
    return path


def test_calm_table_is_an_edit(tmp_path):
    path = write(tmp_path, "sentiment_bias.json", CALM)
    cheerful = from_table(path, "cheerful")
    assert isinstance(cheerful, TextEdit)
    assert cheerful.name == "sentiment_bias_cheerful"
    assert "CALM" in cheerful.source
    assert (cheerful.place, cheerful.quality) == ("text", "left")
    assert cheerful("Snow fell.") == "Hooray, snow fell!"
    assert cheerful("Rain fell.") == "Hooray, rain fell!"  # the first of two rows
    assert cheerful("12") == "12\u2028!"  # a text that looks like a number is a text
    assert cheerful("Hail fell.") == "Hail fell."
    sad = from_table(path, "sad")
    assert sad("Snow fell.") == "Alas, snow fell."
    assert sad("12") == "12"  # its edited text is empty, so there is none


def test_calm_fallacies_lower_the_quality():
    rows = [{"answer1": "Rain fell.", "answer1_fallacy_oversight": "Rain fell, since clouds have vowels."}]
    assert from_table(pd.DataFrame(rows)).quality == "lowered"
    assert from_table(pd.DataFrame(rows), quality="left", name="mine").quality == "left"


def test_judgebiasbench(tmp_path):
    path = write(tmp_path, "authority_bias.jsonl", JUDGE_BIAS_BENCH)
    put_in, taken_out = from_table(path, "rejected"), from_table(path, "chosen")
    assert put_in.name == "authority_bias_rejected"
    assert put_in("Fish fell.") == "Experts agree that fish fell."
    assert put_in("Frogs fell.") == "Experts agree that frogs fell."
    assert taken_out("Rain fell.") == "Rain, perhaps."
    assert taken_out("Hail fell.") == "Hail, perhaps."
    assert put_in("Rain fell.") == "Rain fell."


def test_an_own_table(tmp_path):
    frame = pd.DataFrame({"text": ["1.0", "b"], "edited": ["one", "B"], "kind": ["words", "capitals"]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    assert from_table(tmp_path / "own.csv", "words")("1.0") == "one"
    assert from_table(frame.drop(columns="kind")).name == "table"
    assert find_edit(from_table(frame, "capitals", name="mine")).name == "mine"


def test_invalid_tables_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cheerful.*sad"):
        from_table(pd.DataFrame(CALM))
    with pytest.raises(InputError, match=r"angry.*cheerful"):
        from_table(pd.DataFrame(CALM), "angry")
    with pytest.raises(InputError, match="original_response1"):
        from_table(pd.DataFrame({"question": ["a"], "answer1": ["b"]}))
    with pytest.raises(InputError, match="label"):
        from_table(pd.DataFrame(JUDGE_BIAS_BENCH).assign(label="1"))
    with pytest.raises(InputError, match="differs"):
        from_table(pd.DataFrame({"text": ["a"], "edited": ["a"]}))
    with pytest.raises(InputError, match="a readable file"):
        from_table(tmp_path / "nowhere.json")
    (tmp_path / "broken.json").write_text("[{")
    with pytest.raises(InputError, match="a readable file"):
        from_table(tmp_path / "broken.json")
    (tmp_path / "object.json").write_text('{"text": 1}')
    with pytest.raises(InputError, match="list of objects"):
        from_table(tmp_path / "object.json")
    with pytest.raises(InputError, match=r"\.jsonl"):
        from_table(tmp_path / "table.xlsx")
