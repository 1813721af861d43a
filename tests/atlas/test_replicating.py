"""Printed numbers beside ours: what is equal, and that what is not has a reason that holds."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest

import biaslab as bl
from biaslab.atlas import replication
from biaslab.core.errors import TrialsError


@pytest.fixture(scope="module")
def found():
    return bl.atlas.replications()


def test_every_number_beside_the_data_has_an_estimate(found):
    printed = bl.published.load()
    beside = printed[printed["paper"].isin(bl.published.BESIDE_DATA)]
    assert len(found) == len(beside) + 4  # α of the experts, attribute by attribute
    untold = found[found["estimate"].isna()]
    assert untold[["judge", "template", "why"]].to_numpy().tolist() == [
        ["llama-2-7b-chat", "authors named wrongly", "the paper does not state which text theirs is for"]
    ]
    units = beside["unit"].map({"percent": 0.01}).fillna(1.0)
    assert np.sort(found["theirs"])[-1] == pytest.approx((beside["value"] * units).max())


def test_exactly_the_unequal_numbers_have_a_reason(found):
    assert (found["why"].ne("") == found["outcome"].ne("equal")).all()
    comparable = found[found["outcome"] != "not comparable"]
    assert (comparable["equal"] == (comparable["outcome"] == "equal")).all()
    counts = found.groupby("paper")["outcome"].value_counts().unstack(fill_value=0)
    counts = counts[["equal", "different", "not comparable"]]
    assert counts.loc["zeng2024"].tolist() == [687, 0, 255]
    assert counts.loc["shi2024"].tolist() == [3, 2, 3]
    assert counts.loc["panickssery2024"].tolist() == [5, 0, 4]
    assert counts.loc[["stureborg2024", "wang2024"]].to_numpy().tolist() == [[0, 0, 4], [0, 0, 5]]
    assert counts.loc[["zheng2024", "dubois2024"]].to_numpy().tolist() == [[1, 0, 0], [2, 0, 0]]


def test_another_quantity_is_not_equal_by_chance(found):
    """κ and α, or α of other systems, that agree in the digits that are printed."""
    by_chance = found[found["equal"] & (found["outcome"] == "not comparable")]
    assert by_chance[["paper", "metric"]].to_numpy().tolist() == [
        ["stureborg2024", "human_alpha"],
        ["wang2024", "human_alpha"],
    ]


def test_every_pair_of_numbers_opens_to_how_both_are_computed(found):
    computed = found.groupby(["paper", "metric"])[["theirs_is", "ours_is"]].first()
    assert set(computed.index) == set(replication.printed_metrics())
    assert (found[["theirs_is", "ours_is"]] != "").all(axis=None)
    same = computed["theirs_is"] == computed["ours_is"]
    assert set(computed.index[same].get_level_values("paper")) == {"zheng2024", "dubois2024"}


def test_convertible_numbers_equal_ours_after_conversion(found):
    counted = found[found["converted"].notna()]
    assert len(counted) == 87
    assert (counted["outcome"] == "not comparable").all()
    assert counted["converted"].to_numpy() == pytest.approx(counted["estimate"].to_numpy(float), abs=5e-5)


def test_every_rule_is_needed(found):
    metrics = replication.printed_metrics()
    firsts = {
        next(rule for rule in metrics[row["paper"], row["metric"]].rules if rule.applies(row))
        for row in found[found["outcome"] != "equal"].to_dict("records")
    }
    assert firsts == {rule for one in metrics.values() for rule in one.rules}


def test_llmbar_differs_by_unread_verdicts_alone(found):
    """They divide the same number of right verdicts by all, we by those that can be read."""
    theirs = found[(found["paper"] == "zeng2024") & (found["metric"] == "comparative_accuracy")]
    read, unread = (theirs[name].to_numpy(int) for name in ("n_trials", "n_dropped"))
    assert (theirs["theirs"] * (read + unread)).to_numpy() == pytest.approx(theirs["estimate"] * read, abs=1e-3)
    assert (theirs["equal"] == (theirs["n_dropped"] == 0)).all()


def test_position_bias_analyzer_reads_other_replies(found):
    """On DevBench fewer than we, on MT-Bench more, and of each that has no readable twin too."""
    printed = bl.published.load("shi2024").set_index(["dataset", "judge"])["note"].str.extract(r"(\d+) / (\d+)")
    ours = found[found["paper"] == "shi2024"].set_index(["dataset", "judge"])
    read = printed[1].astype(int).reindex(ours.index)
    assert (100 * printed[0].astype(int) / printed[1].astype(int)).round(2).to_numpy() == pytest.approx(
        ours["printed"].astype(float).reindex(printed.index).to_numpy(), abs=0.0051
    )
    for dataset, less in (("devbench", read < ours["n_trials"]), ("mt_bench", read > ours["n_trials"])):
        assert (less[dataset] == ~ours.loc[dataset, "equal"]).all()


def test_names_turn_a_preference_round(found):
    rows = found[found["template"] == "authors named wrongly"].set_index("judge")
    others = rows.loc[["gpt-4", "gpt-3.5-turbo"]]
    assert others["theirs"].to_numpy() == pytest.approx(1 - others["estimate"], abs=5e-5)


def test_pandalm_takes_the_unreadable_for_ties(shared_data):
    """The accuracies of its README come out of its files in that way alone."""
    place = shared_data / "recorded" / "pandalm"

    def records(name):
        return {one["idx"]: one for one in json.loads(gzip.decompress((place / f"{name}.json.gz").read_bytes()))}

    votes = {key: [str(one[f"annotator{n}"]) for n in (1, 2, 3)] for key, one in records("testset-v1").items()}
    preferred = {key: Counter(given).most_common(1)[0][0] for key, given in votes.items()}
    printed = bl.published.load("wang2024").query("column == 'Accuracy'").set_index("judge")["value"]
    for judge, field in (("gpt-3.5-turbo", "gpt_result"), ("pandalm-7b", "pandalm_result")):
        said = {key: str(one[field]).strip() for key, one in records(f"{judge}-testset-v1").items()}
        right = [(text if text in ("1", "2") else "0") == preferred[key] for key, text in said.items()]
        assert 100 * np.mean(right) == pytest.approx(printed[judge], abs=5e-3)


def test_a_number_without_an_estimate_is_an_error(found):
    printed = bl.published.load("zheng2024")
    ours = bl.atlas.estimates(source="null_model")
    with pytest.raises(TrialsError, match="1 numbers, 1 estimates"):
        replication._beside(printed, ours, {"probe": "replies", "system": "nobody"})
