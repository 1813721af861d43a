"""The reader beside the readings that people gave to a sample of real replies, format by format."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def reading():
    """The script that makes the tables of docs/reading.md."""
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
