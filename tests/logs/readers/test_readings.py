"""What recorded verdicts are worth: in the form that a log has, the same for either label, and of real judges."""

import gzip
import json
import math

import pandas as pd
import pytest
from made_logs import ASKED, FIVE, ONE, OTHER, SIDES, TWO, N, readings, rows, values, wins, worth, written

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.cells import answered
from biaslab.logs.readers.readings import bracketed, lettered, of_pairs
from biaslab.stats.resample import Resampling


@pytest.mark.parametrize(
    ("verdict", "worth"),
    [
        ("[[A>>B]]", (1.0, "ok")),
        ("[[A>B]]", (1.0, "ok")),
        ("[[A=B]]", (0.5, "tie")),
        ("[[B>A]]", (0.0, "ok")),
        ("[[B>>A]]", (0.0, "ok")),
        ("[[Tie]]", (0.5, "tie")),
    ],
)
def test_degrees_of_preference(verdict, worth):
    """As Arena-Hard and JudgeBench ask for them."""
    assert bracketed(f"A names the date. My final verdict is: {verdict}") == worth
    assert lettered(verdict) == worth


def test_grades_have_no_tie():
    grades = {letter: (float(place), "ok") for place, letter in enumerate("ABC")}
    assert lettered("It is a tie.", grades)[1] == "unparsable"
    assert lettered("C", grades) == (2.0, "ok")


def test_a_log_of_brackets_is_read_by_brackets_alone():
    replies = pd.Series(["So, A is better.", "Choice: B", None])
    assert of_pairs(replies)["status"].tolist() == ["ok", "ok", "unparsable"]
    asked = pd.Series(["So, A is better.", "Choice: B", "[[B]]"])
    assert of_pairs(asked)["status"].tolist() == ["unparsable", "unparsable", "ok"]


@pytest.mark.slow
def test_every_verdict_of_devbench_is_read(shared_data):
    """Five judges; the shares of the first label are those of the lines "Choice: A"."""
    file = shared_data / "recorded" / "position_bias_analyzer" / "DevBench_position_bias.jsonl.gz"
    trials = bl.read_judgements(file)
    assert trials["status"].value_counts().to_dict() == {"ok": 11200}
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    first = pd.Series(["Choice: A" in line["judgment"].replace("*", "").replace("  ", " ") for line in lines])
    share = first.groupby([line["judge"] for line in lines]).mean()
    assert trials.groupby("judge")["value"].mean().to_dict() == pytest.approx(share.to_dict(), abs=0.002)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), [("gpt-3.5-turbo", "gpt"), ("pandalm-7b", "pandalm")])
def test_pandalm_reasons_are_read_as_their_verdicts(shared_data, file, name):
    """PandaLM's reasons: those that were turned round by an article are not, and neither label is lost more often."""
    rows = json.loads(
        gzip.decompress((shared_data / "recorded" / "pandalm" / f"{file}-testset-v1.json.gz").read_bytes())
    )
    worth = {"1": 1.0, "2": 0.0}
    verdicts = [
        (worth[str(row[f"{name}_result"])], row[f"{name}_reason"])
        for row in rows
        if str(row[f"{name}_result"]) in worth
    ]
    readings = pd.DataFrame(
        [(wanted, *lettered(reason)) for wanted, reason in verdicts], columns=["wanted", "value", "status"]
    )
    read = readings[readings["status"] == "ok"]
    assert (read["value"] == read["wanted"]).mean() > 0.985
    kept = readings.assign(read=readings["status"] == "ok").groupby("wanted")["read"].mean()
    assert kept.min() > 0.8
    assert abs(kept[0.0] - kept[1.0]) < 0.05


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("A is vague.\n\n**[B]**", (0.0, "ok")),
        ("I weigh both.\n<|A|>", (1.0, "ok")),
        ("Final: <|C|>.", (0.5, "tie")),
        ("Both are fine. Therefore, [[B]] is better than [[A]]", (0.0, "ok")),
        ("[[A]] is clearly better than [[B]] overall.", (1.0, "ok")),
        ("**[A]** or **[B]**", None),
        ("**[A]** was asked for, but I cannot choose.", None),
        ("[[B]] is not better than [[A]].", None),
        ("Say [[A]] if [[A]] is better than [[B]].", None),
        ("[[A]] is as good as, and no better than [[B]]; I say [[B]] or [[A]]", None),
        ("[[A]] is better. It is longer than [[B]].", None),
    ],
)
def test_verdict_in_place_of_final_brackets_is_read(text, reading):
    """The last words decide, and both labels are read alike."""
    value, status = bracketed(text)
    exchanged, other = bracketed(text.translate(str.maketrans("AB", "BA")).replace("Aoth", "Both"))
    assert status == other == ("unparsable" if reading is None else reading[1])
    if reading is not None:
        assert value == reading[0]
        assert exchanged == 1 - value


def pairs(**more):
    return rows(lambda n: {"question": ASKED[n], "response_a": ONE[n], "response_b": TWO[n]}
                | {name: given[n] for name, given in more.items()})  # fmt: skip


@pytest.mark.parametrize("word", ["N/A", "null", "ERROR: rate limit", "parse error", "-"])
def test_scores_that_are_no_number_are_unreadable_rows(word, tmp_path):
    given = [word if n % 6 == 0 else FIVE[n] for n in range(N)]
    records = rows(lambda n: {"question": ASKED[n], "answer": ONE[n], "score": given[n]})
    trials, single = readings(written(tmp_path, records, "csv"))
    assert single
    assert trials[0]["status"].tolist() == ["unparsable" if n % 6 == 0 else "ok" for n in range(N)]
    assert trials[0]["value"].dropna().tolist() == [float(five) for n, five in enumerate(FIVE) if n % 6]


def test_verdicts_that_were_not_given_are_no_tie(tmp_path):
    given = ["N/A" if n % 6 == 0 else wins("A", "B")[n] for n in range(N)]
    trials = read_judgements(written(tmp_path, pairs(winner=given), "csv"))
    assert trials["status"].eq("unparsable").tolist() == [n % 6 == 0 for n in range(N)]
    assert trials["value"].dropna().tolist() == [side for n, side in enumerate(worth()) if n % 6]


#: Columns beside a pair of which each end may be either's; the values of one of the readings.
DEGREES = {
    "preference_strength": ({"first": -3, "second": 2, "tie": 0}, worth()),
}


@pytest.mark.parametrize("name", DEGREES)
def test_degrees_of_a_pair_are_asked_about_with_both_ends(name, tmp_path):
    numbers, wanted = DEGREES[name]
    records = pairs(**{name: [numbers[side] for side in SIDES]})
    trials, single = readings(written(tmp_path, records, "csv"))
    assert not single
    assert wanted in [values(each) for each in trials]
    assert [1 - value for value in wanted] in [values(each) for each in trials]


def test_the_lower_of_two_ranks_wins_if_the_user_says_so(tmp_path):
    records = pairs(rank_a=wins(1, 2, 1), rank_b=wins(2, 1, 1))
    (trials,), single = readings(written(tmp_path, records, "csv"))
    assert not single
    assert values(trials) == worth()


def test_the_best_of_a_list_is_no_verdict_on_two(tmp_path):
    records = rows(lambda n: {"prompt": ASKED[n], "responses": [ONE[n], TWO[n], "x"], "best": n % 3})
    with pytest.raises(InputError, match="is a third candidate"):
        read_judgements(written(tmp_path, records, "jsonl"))


def test_translations_have_a_source_and_a_hypothesis(tmp_path):
    records = rows(
        lambda n: {
            "src": ASKED[n],
            "mt": ONE[n],
            "ref": TWO[n],
            "system": "xy"[n % 2],
            "llm_score": 20 * FIVE[n],
            "human_score": 10 * OTHER[n],
        }
    )
    (trials,), single = readings(written(tmp_path, records, "csv"))
    assert not single
    assert set(trials["scale"]) == set(trials["human_scale"]) == {"0-100"}
    assert values(trials) == [20.0 * five for five in FIVE]
    assert trials["words"].tolist() == [len(text.split()) for text in ONE]
    assert trials["human"].tolist() == [10.0 * other for other in OTHER]


def messages(n, text):
    return [{"role": "user", "content": ASKED[n]}, {"role": "assistant", "content": text}]


def parts(n, text):
    return [
        {"role": turn["role"], "content": [{"type": "text", "text": turn["content"]}]} for turn in messages(n, text)
    ]


#: How conversations are written, and what is the layout of the file.
WRITTEN = {
    "objects": ("jsonl", messages),
    "parts": ("jsonl", parts),
    "JSON in a cell": ("csv", lambda n, text: json.dumps(messages(n, text))),
    "Python in a cell": ("csv", lambda n, text: str(messages(n, text))),
    "from and value": ("jsonl", lambda n, text: [{"from": "human", "value": ASKED[n]}, {"from": "gpt", "value": text}]),
}


def battle(n, form):
    words = wins("model_a", "model_b", "tie (bothbad)")
    return {"question_id": f"q{n}", "model_a": "x", "model_b": "y", "winner": words[n], "turn": 1,
            "conversation_a": form(n, ONE[n]), "conversation_b": form(n, TWO[n]), "tstamp": 1e9 + n}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_lengths_of_an_arena_table_are_those_of_its_answers(name, tmp_path):
    layout, form = WRITTEN[name]
    trials = read_judgements(written(tmp_path, rows(lambda n: battle(n, form)), layout))
    assert trials["value"].tolist() == worth()
    assert trials["words"].tolist() == [len(text.split()) for text in ONE]
    assert trials["opponent_words"].tolist() == [len(text.split()) for text in TWO]


def test_each_reading_of_conversations_has_the_texts(tmp_path):
    records = rows(lambda n: battle(n, messages) | {"judge_verdict": wins("A", "B", sides=SIDES)[n]})
    trials, single = readings(written(tmp_path, records, "jsonl"))
    assert not single
    assert all(each["words"].tolist() == [len(text.split()) for text in ONE] for each in trials)


def test_people_of_an_arena_are_no_judges(tmp_path):
    records = rows(lambda n: battle(n, messages) | {"judge": f"arena_user_{n % 30}"})
    file = written(tmp_path, records, "jsonl")
    (question,) = bl.logs.propose(file).questions
    assert (question.entry, question.options) == ("judge", ("judge", "=people"))
    assert read_judgements(file, mapping={"judge": "=people"})["judge"].unique().tolist() == ["people"]
    with pytest.raises(InputError, match="30 different ones"):
        read_judgements(file, mapping={"judge": "judge"})


@pytest.mark.parametrize("value", ["[{not a list}]", '["a", 1]', [1, 2], [], None, "", "[]", [{"role": "user"}], 3])
def test_other_values_than_conversations_are_unchanged(value):
    assert answered(value) == value


NAMES = ("x", "y", "z")
CYCLES = [[NAMES[(place + turn) % 3] for place in range(3)] for turn in range(3)]


def saved(folder, records):
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


@pytest.fixture(scope="module")
def study():
    data = bl.load_dataset("graded", limit=12)
    probe = bl.probes.ListPosition(["coherence"], k=3, ranks=True, answer="text", resampling=Resampling(n=200))
    judge = bl.SimulatedJudge(data, quality=1.0, position=1.0, noise=1.0)
    return probe, bl.collect(probe, judge, data, progress=False)


def as_log(trials, write):
    for (context, order), group in trials.groupby(["context_id", "list_order"], sort=False):
        group = group.sort_values("place")
        best_first = group.sort_values("value")
        yield {"question_id": context, "judge": "mine", "candidates": group["candidate_id"].tolist(),
               "ranking": write(best_first), "round": order}  # fmt: skip


@pytest.mark.parametrize(
    "write",
    [
        lambda rows: rows["candidate_id"].tolist(),
        lambda rows: rows["place"].astype(int).tolist(),
        lambda rows: [{"model": name, "rank": at} for at, name in enumerate(rows["candidate_id"], 1)][::-1],
        lambda rows: " > ".join(f"[{place:.0f}]" for place in rows["place"]),
    ],
    ids=["names", "places", "objects", "text"],
)
def test_estimates_of_a_log_are_those_of_the_study(tmp_path, study, write):
    probe, trials = study
    read = read_judgements(saved(tmp_path, as_log(trials, write)))
    assert set(read.attrs["files"].values()) == {"rankings"}
    assert len(read) == len(trials)
    estimates = bl.audit(read, resampling=Resampling(n=200))
    assert set(estimates["probe"]) == {"list_position"}  # ranks are no scores
    expected, found = (by_place(frame) for frame in (probe.estimate(trials), estimates))
    assert found == pytest.approx(expected, nan_ok=True)
    assert expected["place_rank_correlation", 0] > 0.2


def by_place(estimates):
    """Metric and place, 0 for all places → estimate."""
    full = estimates.assign(place=estimates["place"].fillna(0).astype(int))
    return full.set_index(["metric", "place"])["estimate"].to_dict()


@pytest.mark.parametrize(
    ("ranking", "status"),
    [
        (["x", "y"], "incomplete"), (["x", "x", "y"], "repeated"), (["x", "y", "w"], "invented"),
        ("[2] > [1]", "incomplete"), ("I like them all.", "off_format"), (None, "unparsable"), ([], "unparsable"),
        ([{"model": "x", "rank": 1}, {"model": "y", "rank": 1}, {"model": "z", "rank": 2}], "unparsable"),
        ([1, 2, 4], "invented"),
    ],
)  # fmt: skip
def test_invalid_ranking_has_a_status(tmp_path, ranking, status):
    records = [{"question": "q", "judge": "j", "candidates": order, "ranking": order} for order in CYCLES]
    records[1]["ranking"] = ranking
    trials = read_judgements(saved(tmp_path, records))
    assert trials["value"].tolist()[:3] == [1.0, 2.0, 3.0]
    assert set(trials["status"][3:6]) == {status}
    assert all(map(math.isnan, trials["value"][3:6]))


def test_lists_in_one_order_are_those_of_another_measure(tmp_path):
    once = [{"question": f"q{n}", "judge": "j", "candidates": CYCLES[n % 3], "ranking": [1, 2, 3]} for n in range(9)]
    full = [{"question": "all", "judge": "j", "candidates": order, "ranking": [1, 2, 3]} for order in CYCLES]
    trials = read_judgements(saved(tmp_path, once + full))
    assert set(trials[trials["probe"] == "list_position"]["context_id"]) == {"all"}
    assert (trials["probe"] == "one_list").sum() == 27
    assert trials.attrs["left_out"] == {}


@pytest.mark.parametrize("candidates", [None, "x, y", ["x"], ["x", "x"], ["x", None], [["x"], "y"]])
def test_invalid_list_of_candidates_is_a_problem_with_its_line(tmp_path, candidates):
    records = [{"question": "q", "judge": "j", "candidates": order, "ranking": order} for order in CYCLES]
    bad = {"question": "r", "judge": "j", "candidates": candidates, "ranking": ["x"]}
    trials = read_judgements(saved(tmp_path, [*records, bad]))
    assert [line for _, line, _ in trials.attrs["problems"]] == [4]
    assert len(trials) == 9
