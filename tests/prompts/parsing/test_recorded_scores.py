"""Real replies of GPT-4 and GPT-3.5 on SummEval and TopicalChat: what is read, how much, and what cannot be."""

import collections
import gzip
import json
import re

import numpy as np
import pytest

from biaslab.core.scales import find_scale, whole_numbers
from biaslab.prompts.parsing import parse_choice, parse_scores

FIVE, THREE = find_scale("1-5"), whole_numbers(1, 3)
WORDS = {"one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0}
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
    return [WORDS[n] if n in WORDS else float(n) for n in found]


@pytest.mark.parametrize("key", SUMMEVAL, ids="/".join)
def test_summeval_replies(summeval_replies, key):
    """Every score is found; it is the last number of a reply that ends with its score, the first with stars."""
    texts = summeval_replies[key]
    read = [parse_scores(text, [key[2]], FIVE)[key[2]] for text in texts]
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


@pytest.mark.parametrize(
    ("name", "shift", "cut", "published"), [("coh", 0.36045, 0.36073, 0.3608), ("eng", 0.18125, 0.18265, 0.1827)]
)
def test_order_effect_on_topical_chat(shared_data, name, shift, cut, published):
    """Score first minus reason first of GPT-3.5, mean over items of both files.

    The figures beside the data (+.3608, +.1827) come out where "Rating: 2.5" counts as 2, as a pattern of one digit
    reads it; with every number read whole they are a little less.
    """
    means, whole = [], []
    for mode in ("rate_explain", "analyze_rate"):
        values = {}
        for item in topical_items(shared_data, f"{name}_{mode}"):
            read = [
                parse_scores(text, [attribute_of(name)], THREE)[attribute_of(name)][0] for text in item["all_responses"]
            ]
            values[item["source"], item["context"], item["system_output"]] = np.array(read)
        means.append({key: float(np.nanmean(v)) for key, v in values.items()})
        whole.append({key: float(np.nanmean(np.floor(v))) for key, v in values.items()})
    common = means[0].keys() & means[1].keys()
    assert len(common) == 359
    assert np.mean([means[0][key] - means[1][key] for key in common]) == pytest.approx(shift, abs=5e-5)
    digits = np.mean([whole[0][key] - whole[1][key] for key in common])
    assert digits == pytest.approx(cut, abs=5e-5)
    assert digits == pytest.approx(published, abs=1.5e-4)
