"""Agreement with humans: published judges, hand-computed frames, and whether a difference is found."""

import gzip
import json
import re
import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import biaslab as bl
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.core.scales import find_scale
from biaslab.core.schema import CANDIDATE_COLUMNS
from biaslab.measures.scoring import agreement, agreement_difference, scores, system_accuracy
from biaslab.measures.scoring.agreement import with_human
from biaslab.measures.scoring.scorers import scored as metric_scores
from biaslab.prompts.parsing import parse_scores

HUMAN = {"a": [1, 2, 3], "b": [5, 2, 1], "c": [1, 1, 2]}
GIVEN = {"a": [1, 3, 2], "b": [3, 3, 1], "c": [5, 4, 6]}
OTHER = {"a": [1, 2, 3], "b": [3, 2, 1], "c": [2, 2, 2]}


def dataset(systems="xyz"):
    names = list("xyz")
    rows = [(c, "", n, s, f"{c} {n}", "") for c in HUMAN for n, s in zip(names, systems, strict=True)]
    human = [(c, n, "fluency", "h", s) for c, each in HUMAN.items() for n, s in zip(names, each, strict=True)]
    columns = ["context_id", "candidate_id", "attribute", "annotator", "score"]
    frames = pd.DataFrame(rows, columns=list(CANDIDATE_COLUMNS)), pd.DataFrame(human, columns=columns)
    return bl.Dataset("d", *frames, {"fluency": "It reads well."})


def scored(values, scorer="one", judge="j"):
    rows = [(c, n, float(s)) for c, each in values.items() for n, s in zip("xyz", each, strict=True)]
    frame = pd.DataFrame(rows, columns=["context_id", "candidate_id", "score"])
    return frame.assign(scorer=scorer, judge=judge, dataset="d", attribute="fluency")


def value(found, **cell):
    for column, wanted in cell.items():
        found = found[found[column] == wanted]
    return found["estimate"].item()


def last_number(reply, _):
    """Return the number after the last "score" or "rating", or else the last digit: how the published figures read."""
    numbers = re.findall(r"(?i:score|rating)\D{0,10}(\d(?:\.\d+)?)", reply) or re.findall("[1-5]", reply)
    return float(numbers[-1])


def own(reply, attribute):
    return parse_scores(reply, [attribute], find_scale("1-5"))[attribute][0]


@pytest.fixture(scope="module")
def gpt4(shared_data):
    file = shared_data / "recorded" / "summeval_judges" / "judge_scores.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    replies = pd.DataFrame([r for r in rows if r["judge"] == "gpt-4-0314" and r["mode"] == "rts"])
    names = {"aspect": "attribute", "id": "context_id", "system": "candidate_id"}
    return replies.rename(columns=names).assign(scorer="reasons, then score", dataset="summeval")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "attribute", "rho", "contexts"),
    [
        (last_number, "coherence", 0.4574, 98),
        (last_number, "consistency", 0.6083, 77),
        (own, "coherence", 0.4509, 98),  # 4.5 stays 4.5, and "2/5" is 2; by scipy on the same numbers
        (own, "consistency", 0.6029, 78),
    ],
)
def test_gpt_4_agrees_with_experts_as_published(gpt4, shared_data, read, attribute, rho, contexts):
    data = bl.load_dataset("summeval", path=shared_data / "summeval" / "annotations_1200.jsonl.gz")
    mine = gpt4[gpt4["attribute"] == attribute]
    mine = mine.assign(score=[read(reply, attribute) for reply in mine["resp"]])
    found = agreement(mine, data, levels=["context"], coefficients=["spearman"]).iloc[0]
    assert round(found["estimate"], 4) == rho
    assert found["n_contexts"] == contexts
    assert found["ci_low"] < rho < found["ci_high"]
    assert found["p_value"] < 0.001
    assert found["n_dropped"] <= 2  # two replies give no score


def test_every_level_and_coefficient_by_hand():
    found = agreement(scored(GIVEN), dataset())
    assert len(found) == 9
    tests = {"spearman": stats.spearmanr, "kendall": stats.kendalltau, "pearson": stats.pearsonr}
    human, given = (np.array(list(each.values()), float) for each in (HUMAN, GIVEN))
    for coefficient, test in tests.items():
        within = np.mean([test(g, h).statistic for g, h in zip(given, human, strict=True)])
        assert value(found, level="context", coefficient=coefficient) == pytest.approx(within)
        pooled = test(given.ravel(), human.ravel()).statistic
        assert value(found, level="dataset", coefficient=coefficient) == pytest.approx(pooled)
        systems = test(given.mean(axis=0), human.mean(axis=0)).statistic
        assert value(found, level="system", coefficient=coefficient) == pytest.approx(systems)


def test_difference_is_paired_and_over_contexts_where_all_vary():
    found = agreement_difference(scored(GIVEN), scored(OTHER, "two"), dataset(), ["context", "dataset"], ["kendall"])
    human, given, other = (np.array(list(each.values()), float) for each in (HUMAN, GIVEN, OTHER))
    tau = [[stats.kendalltau(x, h).statistic for x, h in zip(each, human, strict=True)] for each in (given, other)]
    gaps = np.array(tau[0][:2]) - tau[1][:2]  # the other scorer does not vary in the third context
    assert value(found, level="context") == pytest.approx(gaps.mean())
    pooled = [stats.kendalltau(each.ravel(), human.ravel()).statistic for each in (given, other)]
    assert value(found, level="dataset") == pytest.approx(pooled[0] - pooled[1])
    assert (found["scorer"].unique().tolist(), found["other"].unique().tolist()) == (["one"], ["two"])
    back = agreement_difference(scored(OTHER, "two"), scored(GIVEN), dataset(), ["dataset"], ["kendall"])
    assert value(back) == pytest.approx(pooled[1] - pooled[0])


def test_a_judge_that_sees_quality_beats_one_that_sees_noise(graded):
    scorer, frames = bl.scoring.GEval(["coherence"]), []
    for settings in ({"noise": 0.5}, {"noise": 0.5, "quality": 0.0}, {"noise": 0.5, "quality": 0.0, "seed": 1}):
        judge = bl.SimulatedJudge(graded, **settings)
        frames.append(scores(bl.collect(scorer, judge, graded, progress=False)))
    options = {"dataset": graded, "levels": ["context"], "coefficients": ["spearman"]}
    assert agreement_difference(frames[0], frames[1], **options)["p_value"].item() < 0.05
    blind = agreement_difference(frames[1], frames[2], **options).iloc[0]
    assert blind["ci_low"] < 0 < blind["ci_high"]
    assert " | " in blind["judge"]


def test_rankings_have_no_scorer():
    """A frame of another part of the package: no scorer, a rank besides."""
    ranking = scored(GIVEN).drop(columns="scorer").assign(rank=1)
    assert agreement(ranking, dataset(), ["context"], ["kendall"])["estimate"].notna().all()


def test_systems_without_names_have_no_system_level():
    found = agreement(scored(GIVEN), dataset(systems=["", "", ""]))
    assert set(found["level"]) == {"context", "dataset"}


def test_missing_scores_are_counted_and_warned_of():
    part = scored(GIVEN)
    part.loc[0, "score"] = np.nan
    with pytest.warns(MissingDataWarning, match=r"1 of 9 judgements are left out"):
        found = agreement(part, dataset(), ["dataset"], ["pearson"])
    assert found[["n_trials", "n_dropped"]].to_numpy().tolist() == [[8, 1]]
    with warnings.catch_warnings(action="error"):
        agreement(scored(GIVEN), dataset(), ["dataset"], ["pearson"])


def test_constant_scores_have_no_agreement():
    found = agreement(scored({context: [1, 1, 1] for context in HUMAN}), dataset())
    assert found["estimate"].isna().all()
    assert found["note"].str.len().gt(0).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda f: pd.concat([f, f.head(1)]), TrialsError, "twice"),
        (lambda f: f.assign(candidate_id="q"), TrialsError, "twice|candidates of the data set"),
        (lambda f: f.head(1).assign(candidate_id="q"), TrialsError, "not in the data set"),
        (lambda f: f.assign(dataset="e"), TrialsError, "not of d"),
        (lambda f: f.assign(attribute="charm"), InputError, "charm"),
        (lambda f: f.drop(columns="score"), TrialsError, "score"),
    ],
)
def test_wrong_scores_are_named(change, error, words):
    with pytest.raises(error, match=words):
        agreement(change(scored(GIVEN)), dataset())


def test_wrong_options_are_named():
    for options, words in (({"levels": ["word"]}, "context"), ({"coefficients": "kendall"}, "spearman")):
        with pytest.raises(InputError, match=words):
            agreement(scored(GIVEN), dataset(), **options)
    two = pd.concat([scored(GIVEN), scored(OTHER, "two")])
    with pytest.raises(TrialsError, match="2 scorers"):
        agreement_difference(two, scored(GIVEN), dataset())
    with pytest.raises(InputError, match="an attribute of the first"):
        agreement_difference(scored(GIVEN), scored(OTHER).assign(attribute="charm"), dataset())


def test_scores_stand_beside_their_human_scores():
    found = with_human([scored(GIVEN).sample(frac=1, random_state=0), scored(OTHER)], dataset(), "fluency")
    assert found["human"].tolist() == [float(s) for each in HUMAN.values() for s in each]
    assert found["score"].tolist() == [float(s) for each in GIVEN.values() for s in each]
    assert found["score_2"].tolist() == [float(s) for each in OTHER.values() for s in each]


def test_constant_contexts_are_dropped_or_count_as_zero():
    rows = (
        [("a", n, n, n) for n in range(3)] + [("b", n, 2 - n, n) for n in range(3)] + [("c", n, 1, n) for n in range(3)]
    )
    rows += [("d", n, n, 1) for n in range(3)] + [("e", n, n, n) for n in range(3)]
    frame = pd.DataFrame(rows, columns=["context_id", "candidate_id", "score", "human"]).astype({"score": float})
    frame = frame.assign(judge="j", dataset="x", attribute="a", candidate_id=frame["candidate_id"].astype(str))
    dropped, counted = (
        agreement(frame, levels=["context"], coefficients=["spearman"], by=(), constant=constant).iloc[0]
        for constant in ("drop", "zero")
    )
    assert (dropped["estimate"], dropped["n_contexts"]) == (pytest.approx(1 / 3), 3)  # 1, -1, 1
    assert (counted["estimate"], counted["n_contexts"]) == (
        pytest.approx(1 / 4),
        4,
    )  # and 0; humans see no difference in d


QUICK = bl.Resampling(n=200)


@pytest.fixture(scope="module")
def data():
    full = bl.load_dataset("graded", limit=12)
    rng = np.random.default_rng(0)
    candidates = full.candidates.assign(system=[f"S{i % 6}" for i in range(len(full.candidates))])
    human = full.human.assign(score=rng.integers(1, 6, len(full.human)).astype(float))
    return replace(full, candidates=candidates, human=human)


def frame(data, seed=1):
    values = np.random.default_rng(seed).normal(size=len(data.candidates)).round(1)
    return metric_scores(data, "noise", "nobody", values, ["fluency"])


def by_hand(scores, data):
    means = data.human_means["fluency"].to_numpy()
    table = data.candidates.assign(score=scores["score"].to_numpy(), human=means).dropna(subset=["score"])
    means = table.groupby("system")[["score", "human"]].mean().round(12)
    pairs = [np.sign(means.loc[a] - means.loc[b]) for a, b in combinations(means.index, 2)]
    return np.mean([pair["score"] == pair["human"] for pair in pairs])


@pytest.mark.parametrize("seed", range(5))
def test_the_count_by_hand(data, seed):
    scores = frame(data, seed)
    [found] = system_accuracy(scores, data, QUICK).to_dict("records")
    assert found["estimate"] == pytest.approx(by_hand(scores, data))
    assert found["metric"] == "system_accuracy"
    assert 0 <= found["ci_low"] <= found["estimate"] <= found["ci_high"] <= 1
    assert np.isnan(found["p_value"])
    assert found["n_contexts"] == 12


def test_humans_have_accuracy_1_and_their_opposite_only_ties(data):
    human = data.human_means["fluency"].to_numpy()
    means = pd.Series(human).groupby(data.candidates["system"].to_numpy()).mean().round(12)
    ties = np.mean([a == b for a, b in combinations(means, 2)])  # which their opposite ties, too
    for values, expected in ((human, 1.0), (7.3 * human + 1, 1.0), (-human, ties)):
        found = system_accuracy(metric_scores(data, "x", "y", values, ["fluency"]), data, QUICK)
        assert found["estimate"].item() == pytest.approx(expected)


def test_a_tie_is_right_where_humans_tie_only(data):
    tied = replace(data, human=data.human.assign(score=3.0))
    assert system_accuracy(frame(data).assign(score=1.0), tied, QUICK)["estimate"].item() == 1
    assert system_accuracy(frame(data), tied, QUICK)["estimate"].item() < 0.2
    assert system_accuracy(frame(data).assign(score=1.0), data, QUICK)["estimate"].item() < 0.2


def test_order_of_contexts_and_missing_scores(data):
    scores = frame(data).assign(score=lambda f: f["score"].where(f.index % 7 > 0))
    one = system_accuracy(scores, data, QUICK)
    assert one["estimate"].item() == pytest.approx(by_hand(scores, data))
    assert one["n_dropped"].item() == scores["score"].isna().sum()
    pd.testing.assert_frame_equal(one, system_accuracy(scores.iloc[::-1], data, QUICK))


def test_several_scorers_have_a_row_each(data):
    both = pd.concat([frame(data), frame(data, 2).assign(scorer="other")])
    assert system_accuracy(both, data, QUICK)["scorer"].tolist() == ["noise", "other"]


def test_missing_systems_and_columns_are_named(data):
    with pytest.raises(TrialsError, match="without a system"):
        system_accuracy(frame(data), replace(data, candidates=data.candidates.assign(system="")), QUICK)
    with pytest.raises(TrialsError, match="lacks the column scorer"):
        system_accuracy(frame(data).drop(columns="scorer"), data, QUICK)
    single = replace(data, candidates=data.candidates.assign(system="S"))
    assert "fewer than two systems" in system_accuracy(frame(data), single, QUICK)["note"].item()
