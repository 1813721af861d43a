"""Values that say there is none, degrees and ranks of a pair, and what names the best of a list."""

import pytest
from made_logs import ASKED, FIVE, ONE, OTHER, SIDES, TWO, N, readings, rows, said, values, worth, written

from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements


def pairs(**more):
    return rows(lambda n: {"question": ASKED[n], "response_a": ONE[n], "response_b": TWO[n]}
                | {name: given[n] for name, given in more.items()})  # fmt: skip


@pytest.mark.parametrize("word", ["N/A", "null", "ERROR: rate limit", "parse error", "-"])
def test_scores_that_are_no_number_are_unreadable_rows(word, tmp_path):
    given = [word if n % 6 == 0 else FIVE[n] for n in range(N)]
    records = rows(lambda n: {"question": ASKED[n], "answer": ONE[n], "score": given[n]})
    trials, alone = readings(written(tmp_path, records, "csv"))
    assert alone
    assert trials[0]["status"].tolist() == ["unparsable" if n % 6 == 0 else "ok" for n in range(N)]
    assert trials[0]["value"].dropna().tolist() == [float(five) for n, five in enumerate(FIVE) if n % 6]


def test_verdicts_that_were_not_given_are_no_tie(tmp_path):
    given = ["N/A" if n % 6 == 0 else said("A", "B")[n] for n in range(N)]
    trials = read_judgements(written(tmp_path, pairs(winner=given), "csv"))
    assert trials["status"].eq("unparsable").tolist() == [n % 6 == 0 for n in range(N)]
    assert trials["value"].dropna().tolist() == [side for n, side in enumerate(worth()) if n % 6]


#: Columns beside a pair of which each end may be either's; the values of one of the readings.
DEGREES = {
    "preference_strength": ({"first": -3, "second": 2, "tie": 0}, worth()),
    "rating": ({"first": 1, "second": 7, "tie": 4}, worth()),
}


@pytest.mark.parametrize("name", DEGREES)
def test_degrees_of_a_pair_are_asked_about_with_both_ends(name, tmp_path):
    numbers, wanted = DEGREES[name]
    records = pairs(**{name: [numbers[side] for side in SIDES]})
    trials, alone = readings(written(tmp_path, records, "csv"))
    assert not alone
    assert wanted in [values(each) for each in trials]
    assert [1 - value for value in wanted] in [values(each) for each in trials]


def test_the_lower_of_two_ranks_wins_if_the_user_says_so(tmp_path):
    records = pairs(rank_a=said(1, 2, 1), rank_b=said(2, 1, 1))
    (trials,), alone = readings(written(tmp_path, records, "csv"))
    assert not alone
    assert values(trials) == worth()


def test_the_best_of_a_list_is_no_score(tmp_path):
    records = rows(lambda n: {"prompt": ASKED[n], "responses": [ONE[n], TWO[n], "x"], "best": n % 3})
    with pytest.raises(InputError, match="best names the best of a list, responses"):
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
    trials = read_judgements(written(tmp_path, records, "csv"))
    assert values(trials) == [20.0 * five for five in FIVE]
    assert trials["words"].tolist() == [len(text.split()) for text in ONE]
    assert trials["human"].tolist() == [10.0 * other for other in OTHER]
