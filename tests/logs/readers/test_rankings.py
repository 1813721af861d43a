"""Lists that a judge ranked in one prompt: what is read is what the probe itself reads, and no order is made up."""

import json
import math

import pytest

import biaslab as bl
from biaslab.logs.readers import read_judgements
from biaslab.stats import Resampling

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
    for (context, order), rows in trials.groupby(["context_id", "list_order"], sort=False):
        rows = rows.sort_values("place")
        best_first = rows.sort_values("value")
        yield {"question_id": context, "judge": "mine", "candidates": rows["candidate_id"].tolist(),
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
    whole = estimates.assign(place=estimates["place"].fillna(0).astype(int))
    return whole.set_index(["metric", "place"])["estimate"].to_dict()


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
    whole = [{"question": "all", "judge": "j", "candidates": order, "ranking": [1, 2, 3]} for order in CYCLES]
    trials = read_judgements(saved(tmp_path, once + whole))
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
