"""Texts that give a score, and texts that must not be guessed at."""

import collections
import gzip
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from biaslab.core.scales import SCALES, find_scale, whole_numbers
from biaslab.prompts.parsing import parse_choice, parse_score, parse_scores

FIVE, TEN, HUNDRED, WORDS = (find_scale(name) for name in ("1-5", "1-10", "1-100", "1-5 words"))
FORMS = [
    "{}",
    "**{}**",
    "[[{}]]",
    "Score: {}",
    "score = {}.",
    "**Final score:** {}\nIt reads well.",
    "It has 12 faults.\nRating: {}",
    "Rating (from worst to best): **{}**",
    "Score:\n{}",
    '{{"score": {}, "reasons": "It has 2 faults"}}',
    'Here it is:\n```json\n{{"reasons": "2 {{faults}}", "score": "{}"}}\n```\nI hope it helps.',
    "{{'score': '{}', 'reasons': 'fine',}}",
    "It reads well, so I would give it a score of {}.",
]


def same(reading, value):
    return reading[1] == "ok" and math.isclose(reading[0], value, rel_tol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [*SCALES.values(), whole_numbers(0, 100)], ids=lambda s: s.name)
def test_every_form_gives_every_label(form, scale):
    for label, value in zip(scale.labels, scale.values, strict=True):
        text = form.format(f'"{label}"' if form.startswith('{{"') and " " in label else label)
        assert same(parse_score(text, scale), value), text
        assert same(parse_scores(text, ["coherence"], scale)["coherence"], value), text


@pytest.mark.parametrize(
    ("text", "scale", "value"),
    [
        ("8/10", TEN, 8),
        ("Score: 4 out of 5, for it reads well", FIVE, 4),
        ("The plot is thin. Four stars.", FIVE, 4),
        ("a score of one", FIVE, 1),
        ("It scores a 2.5.", FIVE, 2.5),
        ("Score: 85%", HUNDRED, 85),
        ("I rate this summary 3 out of 5 because 7 facts are wrong.", FIVE, 3),
        ("2. It is hard to follow.", FIVE, 2),
        ("The thread is lost by line 12.\n\n3", FIVE, 3),
        ("Somewhat interesting (2). It adds 3 facts.", FIVE, 2),
        ("Score: 3 at first sight.\nFinal score: 4", FIVE, 4),
        ("It does not deserve a score of 5, hence a score of 4.", FIVE, 4),
        ("As an AI I have no taste.\nScore: 3", FIVE, 3),
        ("It flows well, making it a perfect coherence, score 5.", FIVE, 5),
        ("It tells the main points, making it a perfect 5 in terms of coherence.", FIVE, 5),
        ("The plot is clear, therefore scoring a perfect coherence of 5.", FIVE, 5),
        ("I give it perfect relevance (5), as it has every point.", FIVE, 5),
        ("It achieves perfect relevance (5) as it includes every point of the text.", FIVE, 5),
        ("Some points are missing, hence score 4 as the main ones are there.", FIVE, 4),
        ("All of it is relevant, so it gets a relevance score 5 in the end.", FIVE, 5),
        ("I would score the coherence of the summary as 3 out of 5, for it jumps.", FIVE, 3),
        ("The summary is a 4 because it is short.", FIVE, 4),
        ("Facts: 5/5\nTone: 3/5\n\nOverall, I give it a 4 out of 5.", FIVE, 4),
        ("It deserves a score of 4 out of 5; more detail is needed to earn a perfect score of 5 out of 5.", FIVE, 4),
        ("1. Is it clear?\n2", FIVE, 2),
        ("Weak 4", WORDS, 11 / 3),
        ("Rating: strong 5", WORDS, 16 / 3),
        ("I give it a strong 3.", WORDS, 10 / 3),
        ("a strong start. Rating: 3", WORDS, 3),
    ],
)
def test_reads_what_was_given(text, scale, value):
    assert same(parse_score(text, scale), value)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (None, "unparsable"),
        (" \n", "unparsable"),
        ("It reads well.", "unparsable"),
        ("Three of the 4 claims are wrong.", "unparsable"),
        ("4 claims are wrong.", "unparsable"),
        ("Gayle scored 3 goals in 2015.", "unparsable"),
        ("Score: 3-4", "unparsable"),
        ("Score: 3 or 4", "unparsable"),
        ("Assign a rating score of 1, 2, or 3", "unparsable"),
        ("Score: 1, 2, 3, 4 or 5", "unparsable"),
        ("It could be a perfect 5.", "unparsable"),
        ("Not perfect relevance (5).", "unparsable"),
        ("It does not have perfect relevance (5).", "unparsable"),
        ("It would have good relevance (4) if it were shorter.", "unparsable"),
        ("To have perfect relevance (5), it must mention all.", "unparsable"),
        ("A summary with perfect relevance (5) would mention every point; this one does not.", "unparsable"),
        ("Score: 3. On reflection, score: 4.", "unparsable"),
        ("2. The plot is thin, so 4.", "unparsable"),
        ("1. Clear\n2. Short", "unparsable"),
        ("Score: <1-5>", "unparsable"),
        ("Score from 1 to 5", "unparsable"),
        ("Score: 3/10", "unparsable"),
        ('{"score": 3, "score": 4}', "unparsable"),
        ('{"score": true}', "unparsable"),
        ('{"score": NaN}', "unparsable"),
        ('{"score": null, "reasons": "It is 4 lines"}', "unparsable"),
        ("3,000 people saw it", "unparsable"),
        ("4:30", "unparsable"),
        ("It sold for 14.5", "unparsable"),
        ("It is not a 4.", "unparsable"),
        ("It is not a 4 out of 5.", "unparsable"),
        ("It does not deserve five stars.", "unparsable"),
        ("Score: 9", "out_of_range"),
        ("0", "out_of_range"),
        ("Score: -3", "out_of_range"),
        ('{"score": 1e999}', "out_of_range"),
        ("I'm sorry, but I cannot rate this as a 4.", "refused"),
        ("I cannot give it a score of 5.", "refused"),
    ],
)
def test_never_guesses(text, status):
    value, found = parse_score(text, FIVE)
    assert math.isnan(value)
    assert found == status


def test_the_score_given_for_the_attribute_goes_before_others():
    text = "It omits a date, hence a score of 4 out of 5 for coherence. Wording: 3/5. Length: 5/5."
    assert parse_scores(text, ["coherence"], FIVE)["coherence"] == (4.0, "ok")
    assert parse_score(text, FIVE)[1] == "unparsable"


NAMES = ["coherence", "text_structure"]


@pytest.mark.parametrize(
    "text",
    [
        "coherence: 3\ntext_structure: 5",
        "- **Coherence**: 3/5\n- **Text structure**: 5/5",
        "Text Structure = 5, coherence = 3",
        "3\n5",
        '{"coherence": 3, "text_structure": "5"}',
        '{"scores": {"coherence_score": 3, "Text structure": 5.0}}',
        '{"coherence": {"score": 3, "reasons": "2 faults"}, "text_structure": {"reasons": "none", "score": 5}}',
        "| coherence | 3 |\n| text structure | 5 |",
        "The thread is lost twice.\ncoherence: 3\nAll 4 parts are there.\ntext_structure: 5",
        "Coherence\nIt has 2 faults.\nScore: 3\n\nText structure\nI give it a score of 5.",
        "coherence (1-5): 3\nThe thread is lost.\n\ntext-structure rating: 5\nAll parts are there.",
    ],
)
def test_several_attributes(text):
    assert parse_scores(text, NAMES, FIVE) == {"coherence": (3.0, "ok"), "text_structure": (5.0, "ok")}


def test_attributes_fail_one_by_one():
    read = parse_scores(
        "coherence: 3\nfluency: 7\nrelevance: 2 or 3", ["coherence", "fluency", "relevance", "wit"], FIVE
    )
    assert [status for _, status in read.values()] == ["ok", "out_of_range", "unparsable", "unparsable"]
    assert all(math.isnan(value) == (status != "ok") for value, status in read.values())
    assert {s for _, s in parse_scores("I'm sorry, I can't do that.", NAMES, FIVE).values()} == {"refused"}
    assert {s for _, s in parse_scores("Score: 3", NAMES, FIVE).values()} == {"unparsable"}
    assert parse_scores("3\n4\n5", NAMES, FIVE)["coherence"][1] == "unparsable"


numeral = re.compile(r"\d+(?:\.\d+)?")
spelled = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
marks = st.sampled_from([*"-–|/{}\"'()\n ,%:.=", "[[", "]]", "**"])
numbers = st.sampled_from(["3", "4", "4.5", "12", "0", "-1", "1. ", "one", "four", "five", "/5", "/10", " out of 5"])
phrases = st.sampled_from(
    ["score", "final ", "Score: ", "a score of ", "give it a ", "coherence", "wit", "stars", " or "]
)
others = st.sampled_from(["weak ", "strong ", "not ", "I'm sorry", "It is long. "])
pieces = st.lists(st.one_of(marks, numbers, phrases, others), max_size=14).map("".join)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.one_of(pieces, st.text()), st.sampled_from([*SCALES.values()]))
def test_never_crashes_and_never_invents(text, scale):
    """A score is a number that stands in the text, give or take the third of a word that stands there too."""
    standing = {float(n) for n in numeral.findall(text)} | {
        float(i) for i, w in enumerate(spelled) if w in text.lower()
    }
    third = scale.name == "1-5 words"
    standing |= {n - 1 / 3 for n in standing if third and "weak" in text.lower()} | {
        n + 1 / 3 for n in standing if third and "strong" in text.lower()
    }
    readings = [parse_score(text, scale), *parse_scores(text, ["coherence"], scale).values()]
    for value, status in [*readings, *parse_scores(text, ["coherence", "wit"], scale).values()]:
        assert math.isnan(value) == (status != "ok")
        if status == "ok":
            assert scale.low <= value <= scale.high
            assert any(math.isclose(value, n) for n in standing)


words = st.lists(st.text(alphabet="abcdfgklmprtuvy", min_size=1, max_size=8), max_size=8).map(" ".join)


@given(st.sampled_from([f for f in FORMS if f != "It has 12 faults.\nRating: {}"]), st.sampled_from(FIVE.labels), words)
def test_text_after_the_score_does_not_change_it(form, label, junk):
    assert parse_score(f"{form.format(label)}\n{junk}", FIVE) == (float(label), "ok")


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.booleans(), st.none())), st.integers(1, 5))
def test_json_keeps_its_score_among_any_reasons(others, score):
    """What stands inside other fields of the object is never read, whatever it looks like."""
    kept = {
        key: value
        for key, value in others.items()
        if not re.search("score|rat|grade|mark|star|verdict|answer", key.lower())
    }
    text = json.dumps({"reasons": "score: 9", **kept, "score": score})
    assert parse_score(text, TEN) == (float(score), "ok")


@given(st.sampled_from(TEN.labels), st.sampled_from(TEN.labels))
def test_two_scores_are_one_only_if_they_agree(first, second):
    value, status = parse_score(f"Score: {first}\nScore: {second}", TEN)
    assert (value, status) == (float(first), "ok") if first == second else status == "unparsable"


@pytest.mark.slow
def test_long_texts_are_quick():
    """Patterns do not blow up on long runs of what they skip."""
    for run in ("{", '{"a":', "(", "*", " ", "\n", "score ", "1", "a ", "1. ", "[["):
        parse_score(run * 1500, FIVE)
        parse_scores(run * 1500, NAMES, FIVE)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("<score>4</score>", 4), ("<final_score>\n4\n</final_score>", 4), ("Score：4", 4),
        (r"Final quality score: \boxed{2}", 2), (r"The overall score for this answer is $\boxed{4}$.", 4),
        (r"Score: \boxed{\text{4}}", 4), (r"The right answer is \boxed{3}. Score: 5", 5),
        (r"So the right answer is \boxed{3}.", None),
    ],
)  # fmt: skip
def test_scores_in_tags_and_boxes(text, score):
    value, status = parse_score(text, find_scale("1-5"))
    assert (None if status != "ok" else value) == score


ONE_TO_FIVE, THREE = find_scale("1-5"), whole_numbers(1, 3)
NUMBER_WORDS = {"one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0}
# (judge, mode, aspect): replies, unparsable
SUMMEVAL = {
    ("gpt-4-0314", "rts", "coherence"): (1200, 0),
    ("gpt-4-0314", "rts", "consistency"): (1200, 2),
    ("gpt-4-0314", "old", "consistency"): (100, 0),
    ("gpt-3.5-turbo-0301", "rts", "coherence"): (1200, 0),
    ("gpt-3.5-turbo-0301", "rts", "consistency"): (1200, 0),
    ("gpt-3.5-turbo-0301", "altrts", "coherence"): (1200, 0),
    ("gpt-3.5-turbo-0301", "altrts", "consistency"): (1200, 0),
    ("gpt-3.5-turbo-0301", "stareval", "coherence"): (1200, 0),
    ("gpt-3.5-turbo-0301", "stareval", "consistency"): (1200, 0),
}
# file: replies, unparsable, of these the ones in which 1, 2 or 3 stands anywhere at all
TOPICAL = {
    "coh_analyze_rate": (7200, 17, 0),
    "coh_analyze_rate_auto_cot": (7080, 2, 0),
    "coh_geval": (7180, 0, 0),
    "coh_geval_no_auto_cot": (7100, 4, 1),
    "coh_llm_eval_no_cot": (7120, 10, 0),  # an item of the form and its answer below is read
    "coh_rate_explain": (7180, 1, 1),
    "coh_rate_explain_auto_cot": (7160, 3, 0),
    "eng_analyze_rate": (7200, 16, 0),
    "eng_analyze_rate_auto_cot": (7100, 18, 1),
    "eng_geval": (7120, 2, 2),
    "eng_geval_no_auto_cot": (7080, 4, 4),
    "eng_llm_eval_no_cot": (7180, 3, 2),
    "eng_rate_explain": (7180, 1, 1),
    "eng_rate_explain_auto_cot": (7160, 0, 0),
}


@pytest.fixture(scope="module")
def summeval_replies(shared_data):
    file = shared_data / "recorded" / "summeval_judges" / "judge_scores.jsonl.gz"
    replies = collections.defaultdict(dict)
    for line in gzip.decompress(file.read_bytes()).splitlines():
        row = json.loads(line)  # some rows stand twice
        replies[row["judge"], row["mode"], row["aspect"]].setdefault((row["system"], row["id"]), row["resp"])
    return {key: list(texts.values()) for key, texts in replies.items()}


def topical_items(shared_data, name):
    file = shared_data / "recorded" / "closer_look_topical_chat" / f"gpt3.5_{name}.json.gz"
    return json.loads(gzip.decompress(file.read_bytes()))


def attribute_of(name):
    return {"coh": "coherence", "eng": "engagingness"}[name[:3]]


def standing(text):
    """Return every number from one to five that stands alone in a text, the top of a scale left out."""
    plain = re.sub(r" out of (?:5|five)\b|/5\b", "", text.lower())
    found = re.findall(r"(?<![\w.,-])(\d+(?:\.\d+)?|one|two|three|four|five)(?![\w,-]|\.\d)", plain)
    return [NUMBER_WORDS[n] if n in NUMBER_WORDS else float(n) for n in found]


@pytest.mark.slow
@pytest.mark.parametrize("key", SUMMEVAL, ids="/".join)
def test_summeval_replies(summeval_replies, key):
    """Every score is found; it is the last number of a reply that ends with its score, the first with stars."""
    texts = summeval_replies[key]
    read = [parse_scores(text, [key[2]], ONE_TO_FIVE)[key[2]] for text in texts]
    unread = [text for text, (_, status) in zip(texts, read, strict=True) if status != "ok"]
    assert (len(texts), len(unread)) == SUMMEVAL[key]
    assert not any(re.search(r"\b[1-5]\b(?!-0)|score[ :]", text) for text in unread)  # "1-0" is a result, not a score
    place = 0 if key[1] == "stareval" else -1
    others = [
        text
        for text, (value, status) in zip(texts, read, strict=True)
        if status == "ok" and standing(text)[place] != value
    ]
    assert len(others) <= 1
    assert all("in a score of 4 out of 5. The summary" in text for text in others)


@pytest.mark.parametrize("mode", ["mcq", "altmcq"])
@pytest.mark.parametrize("aspect", ["coherence", "consistency"])
def test_summeval_letters(summeval_replies, mode, aspect):
    texts = summeval_replies["gpt-3.5-turbo-0301", mode, aspect]
    assert len(texts) == 1200
    assert [parse_choice(text, tuple("ABCDE")) for text in texts] == [("ABCDE".index(text), "ok") for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("name", TOPICAL)
def test_topical_chat_replies(shared_data, name):
    attribute = attribute_of(name)
    texts = [text for item in topical_items(shared_data, name) for text in item["all_responses"]]
    read = {text: parse_scores(text, [attribute], THREE)[attribute] for text in set(texts)}
    unread = [text for text in texts if read[text][1] != "ok"]
    doubtful = [text for text in unread if re.search(r"\b[123]\b", text)]
    assert (len(texts), len(unread), len(doubtful)) == TOPICAL[name]
    assert {read[text][1] for text in unread} <= {"unparsable"}
    for text in texts:
        if plain := re.search(r"^-? ?Rating: ([123](?:\.\d+)?) *$", text, re.MULTILINE):
            value, status = read[text]
            assert value == float(plain[1]) if status == "ok" else text.count("Rating:") > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shift", "cut", "published"), [("coh", 0.36045, 0.36073, 0.3608), ("eng", 0.18125, 0.18265, 0.1827)]
)
def test_order_effect_on_topical_chat(shared_data, name, shift, cut, published):
    """Score first minus reason first of GPT-3.5, mean over items of both files.

    The figures beside the data (+.3608, +.1827) come out where "Rating: 2.5" counts as 2, as a pattern of one digit
    reads it; with every number read whole they are a little less.
    """
    means, full = [], []
    for mode in ("rate_explain", "analyze_rate"):
        values = {}
        for item in topical_items(shared_data, f"{name}_{mode}"):
            read = [
                parse_scores(text, [attribute_of(name)], THREE)[attribute_of(name)][0] for text in item["all_responses"]
            ]
            values[item["source"], item["context"], item["system_output"]] = np.array(read)
        means.append({key: float(np.nanmean(v)) for key, v in values.items()})
        full.append({key: float(np.nanmean(np.floor(v))) for key, v in values.items()})
    common = means[0].keys() & means[1].keys()
    assert len(common) == 359
    assert np.mean([means[0][key] - means[1][key] for key in common]) == pytest.approx(shift, abs=5e-5)
    digits = np.mean([full[0][key] - full[1][key] for key in common])
    assert digits == pytest.approx(cut, abs=5e-5)
    assert digits == pytest.approx(published, abs=1.5e-4)
