"""Reading a reply takes steps in proportion to its length, whatever it repeats, and finds what it found."""

import importlib.util
import json
import sys
import time
from pathlib import Path

import pytest

from biaslab.core.scales import find_scale
from biaslab.prompts.parsing import choice, parse_choice, parse_score, parse_scores, phrases, replies, split_thought
from biaslab.prompts.parsing.replies import without_runs
from biaslab.prompts.protocols.list_reader import Places
from biaslab.prompts.protocols.readers import JsonPath, LabelReader, Matches, Whole

SCALE = find_scale("1-5")


class Decoder:
    """The decoder, and how many characters it was given the chance to read before it failed or succeeded."""

    def __init__(self):
        self.read = 0

    def raw_decode(self, text, start):
        try:
            made, end = DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            self.read += error.pos - start + 1
            raise
        except RecursionError:
            self.read += sys.getrecursionlimit()
            raise
        self.read += end - start
        return made, end


DECODER = replies._DECODER


@pytest.mark.parametrize("unit", ['{"score":', '{"a":1,"b":{"c":2},"d":', '{"a": "{", "b":', "{", '{"a":{'])
def test_json_that_breaks_off_is_read_in_proportion(unit, monkeypatch):
    read = []
    for many in (50, 200):
        counted = Decoder()
        monkeypatch.setattr(replies, "_DECODER", counted)
        list(replies.objects(unit * many))
        read.append(counted.read)
    assert read[1] <= 6 * read[0]


def test_json_nested_beyond_the_stack_is_read_in_proportion(monkeypatch):
    read = []
    for many in (5_000, 20_000):
        counted = Decoder()
        monkeypatch.setattr(replies, "_DECODER", counted)
        list(replies.objects('{"score":' * many))
        read.append(counted.read / many)
    assert read[1] <= 1.5 * read[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"a": 1, "b": {"c": 2}, "d": {"e": {"f": 3}', [[("c", 2.0)], [("f", 3.0)]]),
        ('{"why": "I say {"score": 4}', [[("score", 4.0)]]),
        ('{"why": "{", "b": {"score": 2} and {"score": 3}', [[("score", 2.0)], [("score", 3.0)]]),
        ("{{{" + '{"score": 5}' + "}}}", [[("score", 5.0)]]),
    ],
)
def test_whole_objects_within_broken_ones_are_found(text, wanted):
    assert [list(pairs) for pairs in replies.objects(text)] == wanted


def test_an_object_at_the_bottom_of_a_deep_one_is_found():
    deep = '{"a":' * 3_000 + '{"score": 4}' + "}" * 3_000
    values = replies.json_scores(deep, SCALE, lambda key: key == "score", lambda key: False)
    assert values == [4.0]


@pytest.mark.parametrize("sign", ["\n", " \r\n", ". ", "_", "\t \n"])
def test_runs_of_signs_are_cut_short(sign):
    assert len(without_runs(sign * 10_000)) < 200
    assert parse_choice(f"My answer: B{sign * 10_000}", ("A", "B"))[0] == 1
    assert parse_score(f"{sign * 10_000}\nScore: 4", SCALE) == (4.0, "ok")


def test_ordinary_texts_are_read_as_they_are():
    text = "# Overall\n\n" + "-" * 30 + "\n\n| a | b |\n" + " " * 30 + "The answer is clear. " * 40
    assert without_runs(text) == text


def work(read, text, times=3):
    """Return the least processor time of several readings, of which only ratios are used."""
    times, readings = [], times
    for _ in range(readings):
        start = time.thread_time()
        read(text)
        times.append(time.thread_time() - start)
    return min(times)


NAMES = phrases.names_of(("A", "B"))
READERS = {
    "score": lambda text: parse_score(text, SCALE),
    "scores": lambda text: parse_scores(text, ["coherence", "fluency"], SCALE),
    "choice": lambda text: parse_choice(text, ("A", "B", "C"), "C"),
    "choice of summaries": lambda text: parse_choice(text, ("Summary A", "Summary B")),
    "settled": lambda text: choice.settled(text, ("A", "B"), {0}),
    "concluded": lambda text: choice.concluded_better(text, NAMES),
    "formatted": lambda text: choice.formatted_at_the_end(text, NAMES),
    "thought": split_thought,
    "json": JsonPath("[model=m].rank").find,
    "document": Whole(JsonPath("score"), "python").find,
    "labels": lambda text: (reader := LabelReader((("A", 1.0), ("B", 0.0)))).last(text, reader.find(text) or [1.0]),
    "matches": Matches(((r"(?:^|\n) ?Output \(a\)", 1.0), (r"(?:^|\n) ?Output \(b\)", 0.0))).find,
    **{kind: Places(kind).named for kind in ("best", "order", "json", "ranks")},
}
UNITS = [
    "better than A ",
    "Response A ",
    "B ",
    "A wins, not a tie ",
    "it is not a tie ",
    "{4",
    '{"a" ',
    "1",
    "\\boxed{",
    "[1] > ",
    "1. [1]\n",
    "</think>",
    "\n<think>",
    "Output (a)\n",
    ". ! ? . . ! ",
    "answer: ",
    "Overall, ",
    "**[A]** ",
    "\n",
    " \r\n",
    '{"score":',
    ". ",
    "[[A",
    "Verdict: ",
    "I rate it ",
    "word ",
    "(",
    "4 ",
    "1. thing\n",
    "Score: ",
]


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("unit", [*UNITS[:8], *(pytest.param(unit, marks=pytest.mark.thorough) for unit in UNITS[8:])])
def test_eight_times_the_length_is_no_square_of_the_work(unit, reader):
    read = READERS[reader]
    read("")
    short, long = (work(read, (unit * length)[:length] + "x") for length in (5_000, 40_000))
    assert long <= 24 * short + 0.03


@pytest.mark.thorough
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("unit", UNITS[:8])
def test_a_megabyte_is_read_in_proportion(unit, reader):
    long, short = (
        work(READERS[reader], "It is clear. " * 1000 + (unit * length)[:length], 1) for length in (1_000_000, 125_000)
    )
    assert long <= 24 * short + 0.2


def test_digits_before_a_letter_are_read_in_proportion():
    assert Places("best").named("1" * 60 + "x") == []


def test_numbers_of_thousands_of_digits_are_no_places():
    assert Places("order").named(f"{'1' * 5_000}. [1]\n2. [2]")[-1] == ((2,), "ok")


ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def reading():
    """The script that makes the tables behind docs/reading.md."""
    spec = importlib.util.spec_from_file_location("reading", ROOT / "benchmarks" / "reading.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_corpus_holds_no_sentence(reading):
    expected = reading.expected()
    assert len(expected) > 600
    assert len({form for form, _ in expected}) == 13
    assert all(len(key) == 16 and int(key, 16) >= 0 for _, key in expected)
    assert all(len(value) <= 10 for value in expected.values())


@pytest.mark.slow
def test_precision_and_recall(reading, shared_data):
    """Of what is read at least .999 is right, of what decides at least .99 is read, in every log."""
    expected = reading.expected()
    asked = {one.key: one for one in dict.fromkeys(reading.replies(shared_data)) if one.key in expected}
    assert asked.keys() == expected.keys()
    found = {key: reading.read(one) for key, one in asked.items()}
    counts = reading.counts((key[0], value, found[key]) for key, value in expected.items())
    assert all(count.deciding and count.precision >= 0.999 and count.recall >= 0.99 for count in counts), counts


def test_counts_include_wrong_and_unread_replies(reading):
    pairs = [("log", "A", "A"), ("log", "A", "B"), ("log", "B", "-"), ("log", "-", "-"), ("log", "-", "A")]
    (count,) = reading.counts(pairs)
    assert (count.rows, count.deciding, count.read, count.right) == (5, 3, 3, 1)
    assert count.precision == pytest.approx(1 / 3) == count.recall
