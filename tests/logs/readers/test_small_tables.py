"""The fifteen small tables: the right reading of each, at once or after its single question is answered."""

import warnings
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.logs.audit.run import audit_humans

TABLES = Path(__file__).parents[3].parent / "shared" / "data" / "tables"
pytestmark = pytest.mark.skipif(not TABLES.is_dir(), reason="no shared/data/tables")


def file_of(prefix):
    (file,) = TABLES.glob(f"{prefix}_*")
    return file


def read(prefix, mapping=None):
    trials = bl.read_judgements(file_of(prefix), mapping=mapping)
    assert trials.attrs["malformed"] == trials.attrs["duplicates"] == 0
    return trials


def sources(trials):
    """Return each role of a reading with its columns."""
    (reading,) = trials.attrs["reading"]["readings"]
    return {role["role"]: [name for source in role["sources"] for name in source["columns"]]
            for role in reading["roles"] if role["sources"]}  # fmt: skip


def set_aside(trials):
    (reading,) = trials.attrs["reading"]["readings"]
    return set(reading["set_aside"])


def verdicts(trials):
    """Return the numbers of verdicts for the first and for the second, without ties."""
    assert trials["opponent_id"].notna().all()
    return int((trials["value"] == 1).sum()), int((trials["value"] == 0).sum())


def estimates_of(trials, *probes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        return bl.audit(trials, only=probes or None, resampling=bl.Resampling(n=100))


def test_correctness_of_a_verdict_is_no_score():
    trials = read("f01b")
    assert verdicts(trials) == (10, 10)
    assert trials["context_id"].nunique() == 20
    assert sources(trials)["verdict"] == ["parsed_verdict"]
    assert set_aside(trials) == {"raw_response", "correct"}


def test_prompt_with_both_answers_is_not_the_question():
    trials = read("f04")
    assert sources(trials)["question"] == ["question_id"]
    assert trials["context_id"].nunique() == 20
    assert verdicts(trials) == (21, 19)
    pairs = trials.groupby("context_id")["candidate_id"].agg(set)
    assert (pairs == {"m", "n"}).all()


def test_display_names_have_no_lengths():
    trials = read("f05")
    assert verdicts(trials) == (13, 11)
    assert sources(trials)["first"] == ["left"]
    assert sources(trials)["second"] == ["right"]
    assert "words" not in trials or trials["words"].isna().all()


def test_reviewers_are_people_on_two_scales():
    trials = read("f07")
    assert sources(trials)["person"] == ["reviewer"]
    assert trials.groupby("attribute")["scale"].agg(set).to_dict() == {"tone": {"0-2"}, "accuracy": {"1-5"}}
    assert trials.groupby("attribute")["value"].mean().to_dict() == {"tone": 1.0, "accuracy": 3.0}
    assert trials.groupby("attribute")["context_id"].nunique().to_dict() == {"tone": 16, "accuracy": 16}
    assert set(trials["judge"]) == {"EG", "MDO", "WD"}
    assert trials["template"].nunique() == 1
    agreement = audit_humans(trials)
    assert set(agreement["probe"]) == {"humans"}
    assert set(agreement["attribute"]) == {"tone", "accuracy"}


def test_manual_label_is_human_and_automatic_is_the_judge():
    trials = read("f09")
    counts = trials.groupby(["value", "human"]).size().to_dict()
    assert counts == {(1.0, 1.0): 8, (0.0, 1.0): 8, (0.0, 0.0): 4, (1.0, 0.0): 4}
    assert set(trials["judge"]) == {"gpt4"}
    assert sources(trials)["people"] == ["manual_violation_label"]


def test_both_orders_of_a_record_are_two_verdicts():
    trials = read("f12")
    assert len(trials) == 40
    assert verdicts(trials) == (20, 20)
    winners = trials["candidate_id"].where(trials["value"] == 1, trials["opponent_id"])
    assert set(winners) == {"n"}
    assert trials.groupby("context_id")["candidate_id"].agg(set).map(len).tolist() == [2] * 20
    assert "winner" in set_aside(trials)
    estimates = estimates_of(trials, "replies")
    rates = estimates.loc[estimates["metric"] == "first_position_rate", "estimate"]
    assert rates.tolist() == [0.5]


@pytest.mark.parametrize(("prefix", "exact", "means"), [("f15", 0.75, (3, 3)), ("f15b", 35 / 60, (2 / 3, 3 / 4))])
def test_one_answer_per_question_with_a_human_score(prefix, exact, means):
    trials = read(prefix)
    assert len(trials) == trials["context_id"].nunique() == 60
    assert (trials["value"] == trials["human"]).mean() == pytest.approx(exact)
    assert (trials["value"].mean(), trials["human"].mean()) == pytest.approx(means)
    correlation = {"f15": 0.75, "f15b": 0.0}[prefix]
    assert trials["value"].corr(trials["human"]) == pytest.approx(correlation, abs=0.03)


def test_object_of_lists_is_thirty_grades():
    trials = read("f16")
    assert (len(trials), trials["value"].sum()) == (30, 20)
    assert trials["context_id"].nunique() == 30
    assert set(trials["scale"]) == {"0-1"}


def test_scores_two_lists_deep_ask_for_their_scale():
    proposal = bl.logs.propose(file_of("f17"))
    assert [(question.entry, question.options) for question in proposal.questions] == [("scale", ("=0-3",))]
    with pytest.raises(InputError, match=r"--map scale==0-3"):
        read("f17")
    trials = read("f17", mapping={"scale": "=0-3"})
    assert trials.groupby("context_id").size().tolist() == [5] * 12
    assert trials["value"].mean() == 1.5
    assert set(trials["judge"]) == {"Claude"}


def test_runs_of_a_prompt_are_replicates_in_one_order():
    trials = read("f20")
    assert verdicts(trials) == (30, 30)
    assert trials["context_id"].nunique() == 15
    assert sorted(trials["replicate"].unique()) == [0, 1, 2, 3]
    assert trials["candidate_id"].nunique() == 1
    assert trials.attrs["reading"]["one_order"] == [15, 15]
    assert "order_consistency" not in set(estimates_of(trials)["metric"])


def test_nested_score():
    trials = read("f22")
    assert len(trials) == trials["context_id"].nunique() == 20
    assert trials["value"].tolist() == [float(1 + n % 10) for n in range(20)]
    assert sources(trials)["score"] == ["query_single.judge_score"]


def test_mean_of_two_turns_is_set_aside():
    trials = read("f24")
    assert trials.groupby("attribute")["value"].mean().to_dict() == {"turn1": 5.5, "turn2": 5.5}
    assert set(trials["scale"]) == {"1-10"}
    assert set_aside(trials) == {"avg_score"}


def test_two_scores_at_the_end_of_a_reply_are_a_verdict():
    trials = read("f26")
    assert trials["value"].tolist()[:2] == [0.5, 1.0]
    assert trials["status"].tolist()[:2] == ["tie", "ok"]
    assert verdicts(trials) == (10, 0)


def test_mt_bench_under_two_prompts():
    trials = read("f29")
    assert set(trials.attrs["files"].values()) == {"mt_bench_single"}
    assert len(trials) == trials["context_id"].nunique() == 20
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bl.audit(trials, resampling=bl.Resampling(n=100))
    assert not any("counterpart" in str(warning.message) for warning in caught)
