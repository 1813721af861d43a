"""Protocols of the form list: what is shown of k candidates, what replies mean, and what is no reply."""

import math

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import app
from biaslab.core import Choice, Completion, Reply
from biaslab.core.errors import InputError
from biaslab.prompts.protocols import list_protocol

NAMES = ("[{n}]", "{n}", "{A}", "Response {A}", "model_{n}", "({A})")
RANKED = ("order", "json", "ranks")


def protocol(replies="best", names="[{n}]", **options):
    return bl.Protocol.from_template("{question}\n\n{candidates}", "list", replies=replies, names=names, **options)


@given(st.data(), st.integers(2, 20), st.sampled_from(NAMES), st.sampled_from(RANKED))
def test_every_ranking_is_read_as_it_is_written(data, k, names, replies):
    value = tuple(float(rank) for rank in data.draw(st.permutations(range(1, k + 1))))
    mine = protocol(replies, names)
    assert mine.parse_list(mine.write_list(value), k) == (value, "ok")


@given(st.integers(2, 20).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k - 1))), st.sampled_from(NAMES))
def test_every_best_candidate_is_read_as_it_is_written(where, names):
    k, best = where
    value = tuple(float(place == best) for place in range(k))
    mine = protocol("best", names)
    assert mine.parse_list(mine.write_list(value), k) == (value, "ok")


@given(st.text(), st.sampled_from(NAMES), st.sampled_from(("best", *RANKED)), st.integers(2, 20))
def test_no_reply_breaks_a_list_reader(text, names, replies, k):
    value, status = protocol(replies, names).parse_list(text, k)
    assert len(value) == k
    assert all(map(math.isnan, value)) == (status != "ok")


@pytest.mark.parametrize(
    ("replies", "names", "text", "expected"),
    [
        ("order", "[{n}]", "First [1], I thought; but [2] > [1] > [3].", (2, 1, 3)),
        ("order", "[{n}]", "[3] ≻ [2] ≻ [1]", (3, 2, 1)),
        ("order", "{n}", "2, 1, 3", (2, 1, 3)),
        ("order", "{A}", "B > A > C", (2, 1, 3)),
        ("json", "[{n}]", "```json\n[2, 1, 3]\n```", (2, 1, 3)),
        ("json", "model_{n}", '{"why": "short", "ranking": ["model_2", "model_1", "model_3"]}', (2, 1, 3)),
        ("ranks", "model_{n}", "[{'model': 'model_1', 'rank': 2}, {'model': 'model_2', 'rank': 1}]", (2, 1)),
        ("best", "[{n}]", "[1] is fine, [3] is the best", (0, 0, 1)),
        ("best", "{n}", "Of the 3, all are good.\nBest: **2**", (0, 1, 0)),
        ("best", "Response {A}", "I prefer Response C.", (0, 0, 1)),
        ("order", "[{n}]", "2 > 1 > 3", (2, 1, 3)),
        ("order", "[{n}]", "[2, 1, 3]", (2, 1, 3)),
        ("order", "[{n}]", "[2] → [1] -> [3]", (2, 1, 3)),
        ("order", "[{n}]", "Rank 1: [2]\nRank 2: [1]\nRank 3: [3]", (2, 1, 3)),
        ("order", "Response {A}", "1) **Response B** - short\n2) **Response A** - long\n3) **Response C**", (2, 1, 3)),
        ("order", "{n}", "1. Model 2\n2. Model 1\n3. Model 3", (2, 1, 3)),
        ("order", "Response {A}", "B > A > C", (2, 1, 3)),
        ("json", "model_{n}", '["Model 2", "model-1", "MODEL_3"]', (2, 1, 3)),
        ("ranks", "{A}", '[{"why": "short", "model": "B", "Rank": 1}, {"why": "A?", "model": "A", "Rank": 2}]', (2, 1)),
        ("ranks", "{A}", '{"B": 1, "A": 2, "C": 3}', (2, 1, 3)),
        ("best", "[{n}]", "2.", (0, 1, 0)),
        ("best", "[{n}]", "I choose [2] over [1].", (0, 1, 0)),
        ("best", "[{n}]", "[2] is better than [1] and [3].", (0, 1, 0)),
        ("best", "Response {A}", "**Response B**\n\nResponse A is short.", (0, 1, 0)),
    ],
)  # fmt: skip
def test_replies_in_demanded_formats_and_near_ones_are_read(replies, names, text, expected):
    assert protocol(replies, names).parse_list(text, len(expected)) == (expected, "ok")


@pytest.mark.parametrize(
    ("replies", "text", "status"),
    [
        ("order", "[2] > [1]", "incomplete"),
        ("order", "[2]", "incomplete"),
        ("order", "[2] > [1] > [2]", "repeated"),
        ("order", "[2] > [1] > [3] > [1]", "repeated"),
        ("order", "[2] > [1] > [4]", "invented"),
        ("order", "[1] = [2] > [3]", "incomplete"),  # a tie is no ranking
        ("order", "All are good.", "off_format"),
        ("order", "I'm sorry, but I cannot rank these.", "refused"),
        ("best", "[0]", "invented"),
        ("best", "[7]", "invented"),
        ("best", "the second", "off_format"),
        ("json", '[1, 2, "none"]', "invented"),
        ("json", "[1, 2, 2]", "repeated"),
        ("ranks", '[{"model": "[1]", "rank": 1}, {"model": "[2]", "rank": 1}]', "repeated"),
        ("ranks", '[{"model": "[1]", "rank": 1}, {"model": "[2]", "rank": 2}, {"model": "[3]", "rank": 9}]',
         "out_of_range"),
        ("ranks", '[{"model": "[1]", "rank": 1}]', "incomplete"),
        ("order", None, "off_format"),
        ("best", "[1], [2]", "ambiguous"),
        ("best", "Neither [1] nor [2] is good.", "ambiguous"),
        ("best", "I'm sorry, I cannot choose between [1] and [2].", "refused"),
        ("order", "1. [2]\n3. [1]\n2. [3]", "incomplete"),
        ("order", "2.5 > 1", "off_format"),
        ("ranks", '[{"model": "[1]", "score": 9}, {"model": "[2]", "score": 8}]', "off_format"),
    ],
)  # fmt: skip
def test_invalid_ranking_has_a_status(replies, text, status):
    value, read = protocol(replies).parse_list(text, 3)
    assert read == status
    assert all(map(math.isnan, value))


def test_choose_selects_among_several_rankings():
    text = "[1] > [2]\nOn reflection:\n[2] > [1]"
    assert protocol("order").parse_list(text, 2) == ((2, 1), "ok")
    assert protocol("order", choose="first").parse_list(text, 2) == ((1, 2), "ok")
    assert protocol("order", choose="only").parse_list(text, 2)[1] == "ambiguous"


def test_list_request_shows_all_candidates_and_asks_for_labels():
    data = bl.load_dataset("graded", limit=1)
    names = data.candidates["candidate_id"].tolist()[:3]
    mine = list_protocol()
    shown = mine.show(data, "coherence", data.candidates["context_id"].iloc[0], names[::-1])
    request = mine.request(shown)
    assert isinstance(request, Choice)
    assert request.labels == ("[1]", "[2]", "[3]")
    texts = [data.rows[data.candidates["context_id"].iloc[0], name]["text"] for name in names[::-1]]
    assert all(f"[{place}] {text}" in request.messages[0].content for place, text in enumerate(texts, 1))
    assert isinstance(mine.request(shown, distribution=False), Completion)
    value, status = mine.read_list(Reply(logprobs=(math.log(0.2), math.log(0.1), math.log(0.1))), 3)
    assert status == "ok"
    assert value == pytest.approx((0.5, 0.25, 0.25))
    assert mine.read_list(Reply(logprobs=(-math.inf,) * 3), 3)[1] == "refused"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verdicts": {"A": 1, "B": 0}}, "replies and names"),
        ({"names": "[x]"}, "one {n} for a number"),
        ({"replies": "best of all"}, "replies"),
        ({"replies": "order", "answer": "label"}, '"text" for rankings'),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_when_it_is_made(options, message):
    with pytest.raises(InputError, match=message):
        bl.Protocol.from_template("{candidates}", "list", **options)


def test_list_without_candidates_or_of_wrong_length_is_refused():
    with pytest.raises(InputError, match="without the candidates"):
        bl.Protocol.from_template("{question}", "list")
    with pytest.raises(InputError, match="2 to 20 in one prompt"):
        protocol().candidates(["text"] * 21)
    with pytest.raises(InputError, match=r"parse_list\(text, k\)"):
        protocol().parse("[1]")
    with pytest.raises(InputError, match="form list"):
        bl.Protocol.from_template("{first} or {second}?", verdicts={"A": 1, "B": 0}).parse_list("A", 2)


def test_template_syntax_in_candidates_is_literal():
    text = str(protocol().candidates(["{candidates}", "{{ k }}"]))
    assert text == "[1] {candidates}\n\n[2] {{ k }}"


@pytest.mark.parametrize("probe", ["Position", "Verbosity", "Edit", "SelfPreference", "ScoreDistribution"])
def test_probes_of_another_form_refuse_a_list_in_one_sentence(probe):
    with pytest.raises(InputError, match="this one is a list"):
        getattr(bl.probes, probe)(protocol=protocol())


def test_a_list_is_checked_on_the_command_line(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('template = "{question}\\n\\n{candidates}\\n\\nRank them."\nform = "list"\nreplies = "order"\n')
    result = CliRunner().invoke(app, ["protocol", "check", str(file), "--reply", "[3] > [1]"])
    assert result.exit_code == 0, result.output
    assert "'[2] > [1] > [3]' is parsed as ranks by position: 2, 1, 3" in result.output
    assert "'[3] > [1]' is parsed as incomplete" in result.output


def test_one_slot_per_candidate_is_refused_with_a_remedy():
    with pytest.raises(InputError, match="one slot shows all"):
        bl.Protocol.from_template("{question} {answer_1} {answer_2} {answer_3}", "list")
