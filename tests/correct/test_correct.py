"""Corrected estimates: the published estimator, known fractions, errors, and that the frame is an estimates frame."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.stats import spearmanr

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.estimators import logit_interval, of_humans, powered, summed, tuned
from biaslab.stats.frame import LEADING, TRAILING

#: Of ppi-python 0.2.3 (numpy 2.4.6), `ppi_mean_pointestimate(Y, Yhat, Yhat_unlabeled)` and `ppi_mean_ci(…, alpha=0.05)`
#: of the numbers of `published`, by the size of the judge's noise. It brings numba, scikit-learn and gdown along, so it
#: is no dependency of the tests.
PPI_PYTHON = {
    0.4: (3.1406930413727965, 2.907825433416147, 3.373560649329446),
    2.0: (3.18289639828159, 2.848659717967465, 3.5171330785957147),
    6.0: (3.154016869961553, 2.7879379569828697, 3.520095782940236),
}


def published(noise):
    """Sixty contexts with one item each, every fourth labelled."""
    i = np.arange(60.0)
    human = 3 + np.sin(i) + 0.5 * np.cos(3 * i)
    judge = 0.5 + 0.8 * human + noise * np.sin(7 * i * i)
    return judge, np.where(i % 4 == 0, human, np.nan)


def scored(judge, human, sizes=None, **columns):
    """Scores of one system, an item a context or as many as `sizes` says."""
    context = np.repeat(np.arange(len(sizes)), sizes) if sizes is not None else np.arange(len(judge))
    order = pd.Series(context).groupby(context).cumcount()
    frame = pd.DataFrame({"context_id": [f"c{n}" for n in context], "candidate_id": order.astype(str), "score": judge})
    known = {"judge": "j", "dataset": "d", "attribute": "a", "system": "s", "human": human}
    return frame.assign(**known | columns)


def row(found, correction, **where):
    for name, value in {"correction": correction, **where}.items():
        found = found[found[name] == value]
    [only] = found.to_dict("records")
    return only


@pytest.mark.parametrize("noise", PPI_PYTHON)
def test_ppi_equals_ppi_python_for_one_item_contexts(noise):
    judge, human = published(noise)
    value, low, high = PPI_PYTHON[noise]
    assert row(bl.correct(scored(judge, human)), "ppi")["estimate"] == pytest.approx(value, abs=1e-9)
    known = ~np.isnan(human)
    n, rest = known.sum(), (~known).sum()
    items = pd.DataFrame({"context_id": range(60), "value": judge, "human": human})
    slope = tuned(summed(items, list(range(60)), None)) * rest / 60
    error = np.sqrt((human - slope * judge)[known].var() / n + (slope * judge)[~known].var() / rest)
    reach = stats.norm.ppf(0.975) * error
    assert (value - reach, value + reach) == pytest.approx((low, high), abs=1e-9)


def test_labels_alone_are_a_t_interval_of_contexts():
    judge, human = published(1.0)
    known = human[~np.isnan(human)]
    found = row(bl.correct(scored(judge, human)), "human")
    low, high = stats.ttest_1samp(known, 0).confidence_interval()
    assert (found["estimate"], found["ci_low"], found["ci_high"]) == pytest.approx((known.mean(), low, high), abs=1e-9)
    assert (found["n_labelled"], found["n_contexts"]) == (15, 60)


def test_target_these_contexts_has_finite_population_correction():
    judge, human = published(1.0)
    like, these = (bl.correct(scored(judge, human), target=t) for t in ("contexts like these", "these contexts"))
    assert row(these, "human")["se"] == pytest.approx(row(like, "human")["se"] * np.sqrt(1 - 15 / 60))
    assert row(these, "ppi")["estimate"] == row(like, "ppi")["estimate"]
    assert row(these, "ppi")["se"] < row(like, "ppi")["se"]
    assert "only bias" in row(these, "judge")["note"]


def test_perfect_judge_brings_ppi_near_the_full_mean():
    human = published(0)[1]
    full = 3 + np.sin(np.arange(60.0)) + 0.5 * np.cos(3 * np.arange(60.0))
    found = bl.correct(scored(full, np.where(np.isnan(human), np.nan, full)))
    plain = row(found, "human")
    assert row(found, "ppi")["se"] < 0.6 * plain["se"]
    assert abs(row(found, "ppi")["estimate"] - full.mean()) < abs(plain["estimate"] - full.mean())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), shift=st.floats(-3, 3))
def test_ppi_ignores_a_constant_leniency(seed, shift):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 40)
    human = rng.normal(size=sizes.sum()) + 3
    judge = human + 0.5 * rng.normal(size=len(human))
    human[np.repeat(np.arange(40) % 4 > 0, sizes)] = np.nan
    items = pd.DataFrame({"context_id": np.repeat(np.arange(40), sizes), "value": judge, "human": human})
    plain, moved = (
        powered(summed(items.assign(value=judge + by), list(range(40)), None)).estimate() for by in (0, shift)
    )
    assert (moved.estimate, moved.se) == pytest.approx((plain.estimate, plain.se), abs=1e-9)


@pytest.mark.thorough
@pytest.mark.slow
def test_weights_undo_a_part_that_was_chosen_by_a_known_rule():
    """Contexts with high scores are labelled three times as often: without weights the labels lie, with them not."""
    rng, apart = np.random.default_rng(0), {"with": [], "without": []}
    for _ in range(60):
        human = rng.normal(3, 1, 300)
        judge = human + rng.normal(1, 1, 300)
        likely = np.where(human > 3, 0.3, 0.1)
        chosen = rng.random(300) < likely
        items = scored(judge, np.where(chosen, human, np.nan))
        names = items["context_id"][chosen]
        given = {"with": dict(zip(names, likely[chosen], strict=True)), "without": list(names)}
        for name, labelled in given.items():
            apart[name].append(row(bl.correct(items, labelled=labelled), "ppi")["estimate"] - 3)
    assert abs(np.mean(apart["with"])) < 0.04
    assert np.mean(apart["without"]) > 0.1


def test_rogan_gladen_is_the_printed_formula():
    human = np.array([1] * 30 + [0] * 30 + [np.nan] * 140)
    verdict = np.array([1] * 24 + [0] * 6 + [1] * 3 + [0] * 27 + [1] * 70 + [0] * 70, float)
    found = row(bl.correct(scored(verdict, human)), "rogan_gladen")
    rate, sensitivity, specificity = 97 / 200, 24 / 30, 27 / 30
    assert found["estimate"] == pytest.approx((rate + specificity - 1) / (sensitivity + specificity - 1))
    assert 0.35 < found["ci_low"] < found["estimate"] < found["ci_high"] < 0.75


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=24)


@pytest.fixture(scope="module")
def trials(data):
    judge = bl.SimulatedJudge(data, quality=0.6, verbosity=0.4, noise=0.5, context_noise=0.5)
    return bl.collect(bl.probes.Verbosity(attributes=["coherence"]), judge, data, progress=False)


@pytest.fixture(scope="module")
def pairs(data):
    judge = bl.SimulatedJudge(data, position=1.0, noise=1.0)
    return bl.collect(bl.probes.Position(attributes=["coherence"], templates=[1]), judge, data, progress=False)


def names_of(trials):
    return list(dict.fromkeys(trials["context_id"]))


def test_the_frame_is_an_estimates_frame(trials, data):
    found = bl.correct(
        trials, data, "difference", systems=["misreported", "disordered"], labelled=names_of(trials)[:20]
    )
    assert [*LEADING, *TRAILING] == [name for name in found.columns if name in (*LEADING, *TRAILING)]
    assert set(found["probe"]) == {"correct"}
    assert bl.report.verdicts(found)
    assert "score_difference" in bl.report.overview(found).to_string()
    ax = bl.plots.intervals(found, "score_difference", by="correction")
    assert [text.get_text() for text in ax.get_yticklabels()][:2] == ["judge as it is", "labels alone"]
    assert bl.plots.headline(found)
    plt.close("all")
    assert bl.report.to_latex(found) if hasattr(bl.report, "to_latex") else True


def test_pairs_give_win_rates_in_either_order(pairs, data):
    one, two = (
        bl.correct(pairs, data, systems=systems, corrections=["judge", "human", "ppi"])
        for systems in (["clean", "misreported"], ["misreported", "clean"])
    )
    for name in ("judge", "human", "ppi"):
        assert row(one, name)["estimate"] == pytest.approx(1 - row(two, name)["estimate"])
        assert row(one, name)["ci_low"] == pytest.approx(1 - row(two, name)["ci_high"])


def test_win_rates_of_the_judge_are_the_mean_over_both_orders(pairs, data):
    own = pairs.merge(data.candidates[["context_id", "candidate_id", "system"]])
    other = data.candidates.rename(columns={"candidate_id": "opponent_id", "system": "versus"})
    own = own.merge(other[["context_id", "opponent_id", "versus"]])
    first = own[(own["system"] == "clean") & (own["versus"] == "misreported")].set_index("context_id")["value"]
    second = own[(own["system"] == "misreported") & (own["versus"] == "clean")].set_index("context_id")["value"]
    found = bl.correct(pairs, data, systems=["clean", "misreported"], corrections=["judge"])
    assert row(found, "judge")["estimate"] == pytest.approx(((first + 1 - second) / 2).mean())


def test_label_file_of_preferences_equals_a_data_set(pairs, data, tmp_path):
    means = data.human_means["coherence"].reset_index()
    both = means.merge(means, on="context_id", suffixes=("", "_two"))
    both = both[both["candidate_id"] < both["candidate_id_two"]]
    score = (np.sign(both["coherence"] - both["coherence_two"]) + 1) / 2
    table = both[["context_id", "candidate_id"]].assign(opponent_id=both["candidate_id_two"], score=score)
    table.to_csv(tmp_path / "labels.csv", index=False)
    given = {"systems": ["clean", "misreported"], "corrections": ["ppi", "human"]}
    named = pairs.merge(data.candidates[["context_id", "candidate_id", "system"]])
    by_data = bl.correct(pairs, data, **given)
    renamed = table.rename(columns={"score": "score"})
    assert len(renamed) == len(table)
    assert len(named) == len(pairs)
    lookup = data.candidates.set_index(["context_id", "candidate_id"])["system"]
    by_file = bl.correct(pairs, tmp_path / "labels.csv", "agreement", corrections=["human"])
    own = bl.correct(pairs, data, "agreement", corrections=["human"])
    assert lookup.notna().all()
    assert row(by_file, "human")["estimate"] == row(own, "human")["estimate"]
    assert by_data["estimate"].notna().all()


def test_agreement_on_all_contexts_is_that_of_the_scorer(trials, data):
    scores = trials.assign(scorer="x").rename(columns={"value": "score"})
    known = bl.scoring.agreement(scores, data, levels=["context"], coefficients=["spearman"])
    found = bl.correct(trials, data, "agreement", corrections=["human", "ppi"])
    assert row(found, "human")["estimate"] == pytest.approx(known["estimate"].item())
    assert row(found, "ppi")["estimate"] == row(found, "human")["estimate"]


def test_simultaneous_rank_intervals_are_wider(trials, data):
    part = names_of(trials)[:20]
    systems = ["misreported", "sidetracked", "ungrammatical"]
    found = bl.correct(trials, data, "ranking", labelled=part, systems=systems, corrections=["judge", "ppi"])
    ranks = found[found["metric"] == "rank"]
    assert (ranks["ci_low"] <= ranks["estimate"]).all()
    assert (ranks["estimate"] <= ranks["ci_high"]).all()
    single = bl.correct(trials, data, labelled=part, systems=systems, corrections=["ppi"])
    both = single.merge(found[(found["metric"] == "mean_score") & (found["correction"] == "ppi")], on="system")
    varied = both[both["se_x"] > 0]
    assert (varied["ci_high_y"] - varied["ci_low_y"] > varied["ci_high_x"] - varied["ci_low_x"]).all()


def test_too_few_labelled_contexts_give_a_note_and_no_estimate():
    judge, human = published(1.0)
    few = bl.correct(scored(judge, human), labelled=["c0", "c4"])
    assert np.isnan(row(few, "ppi")["estimate"])
    assert "2 labelled contexts" in row(few, "ppi")["note"]
    assert row(few, "judge")["estimate"] == pytest.approx(judge.mean())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["human", "ppi"])
def test_intervals_cover_at_their_level(kind):
    """A lenient judge, contexts of two to seven items, a quarter of 24 labelled; the full table is in the guide."""
    rng, studies = np.random.default_rng(3), 600
    covered, missed = 0, 0
    for _ in range(studies):
        sizes = rng.integers(2, 8, 24)
        quality = np.repeat(rng.normal(size=24), sizes) + rng.normal(size=sizes.sum())
        judge, human = 4 + 0.8 * quality + 0.5 * rng.normal(size=len(quality)), 3 + quality
        human[~np.isin(np.repeat(np.arange(24), sizes), rng.choice(24, 6, replace=False))] = np.nan
        items = pd.DataFrame({"context_id": np.repeat(np.arange(24), sizes), "value": judge, "human": human})
        sums = summed(items, list(range(24)), None)
        found = (powered if kind == "ppi" else of_humans)(sums).estimate()
        covered += found.ci_low <= 3 <= found.ci_high
        missed += abs(judge.mean() - 3) > 0.5
    assert abs(covered / studies - 0.95) < 0.027
    assert missed / studies > 0.9


BAD = [
    ({"labels": pd.DataFrame({"context_id": ["x"], "candidate_id": ["0"], "score": [3]})}, TrialsError, "such as context_id x, candidate_id 0; j judged 60, such as context_id c0"),  # noqa: E501
    ({"labels": pd.DataFrame({"context_id": ["c1"], "candidate_id": ["0"], "score": [3]})}, TrialsError, "cover 1 of 60 contexts"),  # noqa: E501
    ({"labels": pd.DataFrame({"context_id": [f"c{n}" for n in range(9)], "candidate_id": "0", "score": [10 * n for n in range(9)]})}, TrialsError, "from 0 to 80, scores from .* by j"),  # noqa: E501
    ({"labels": pd.DataFrame({"context_id": ["c1"], "candidate_id": ["0"], "score": ["good"]})}, TrialsError, "'good'"),
    ({"labels": "nowhere.csv"}, InputError, "nowhere.csv"),
    ({"labels": 3}, InputError, "labels is 3"),
    ({"estimand": "mean"}, InputError, "estimand is 'mean'"),
    ({"corrections": ["ppi++"]}, InputError, "corrections"),
    ({"corrections": ["regression"]}, InputError, "corrections"),
    ({"corrections": ["rogan_gladen"]}, InputError, "must be 0 or 1"),
    ({"target": "all"}, InputError, "these contexts"),
    ({"systems": ["t"]}, InputError, "systems is 't'"),
    ({"estimand": "win_rate"}, InputError, "at least two of"),
    ({"labelled": ["nothing"]}, TrialsError, "contexts that were judged"),
    ({"labelled": {"c0": 0.0, "c4": 0.5}}, InputError, "above 0 and at most 1"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "error", "says"), BAD)
def test_invalid_corrections_are_refused(given, error, says):
    with pytest.raises(error, match=says):
        bl.correct(scored(*published(1.0)), **given)


def test_several_conditions_are_not_averaged_unseen():
    frame = pd.concat([scored(*published(1.0), template=n) for n in (1, 2)])
    with pytest.raises(InputError, match="template"):
        bl.correct(frame)
    assert set(bl.correct(frame, by=["template"])["template"]) == {1, 2}


def test_scales_are_compared_where_both_are_known(trials, data):
    with pytest.raises(TrialsError, match="from 1 to 5, scores from 1 to 10 by sim"):
        bl.correct(trials.assign(scale="1-10"), data)


def test_everything_labelled_leaves_the_judge_out():
    judge, _ = published(1.0)
    with warnings.catch_warnings(action="error"):
        found = bl.correct(scored(judge, judge + 1))
    assert row(found, "ppi")["estimate"] == row(found, "human")["estimate"]
    assert "all contexts are labelled" in row(found, "ppi")["note"]


def test_labelled_context_with_unreadable_verdict_is_dropped():
    judge, human = published(1.0)
    frame = scored(judge, human).assign(status="ok")
    frame.loc[4, "status"] = "unparsable"
    found = bl.correct(frame, labelled=["c0", "c4", "c8", "c12", "c16", "c20"])
    assert row(found, "human")["n_labelled"] == 5
    assert row(found, "human")["n_dropped"] == 1


def scores(rng, contexts, labelled, error, candidates=4):
    """Human and judge score the same quality with errors, in half points; a part of the contexts is labelled."""
    quality = rng.normal(0, 1, (contexts, candidates))
    human = np.round(2 * (3 + quality + error * rng.normal(size=quality.shape))) / 2
    judge = np.round(2 * (3.5 + 0.8 * quality + error * rng.normal(size=quality.shape))) / 2
    human[labelled:] = np.nan
    where = {"context_id": np.repeat([f"c{n}" for n in range(contexts)], candidates), "human": human.ravel()}
    frame = pd.DataFrame(where | {"candidate_id": np.tile(np.arange(candidates).astype(str), contexts)})
    return frame.assign(score=judge.ravel(), judge="j", dataset="d", attribute="a", system=frame["candidate_id"])


def paired_trials(rng, contexts, labelled, sharpness, size=3):
    """Two systems meet several times a context; verdicts and labels share a preference of the context."""
    lean = 0.8 * rng.normal(size=(contexts, 1)) + rng.normal(size=(contexts, size)) + 1.0
    human = (lean + rng.normal(size=lean.shape) > 0).astype(float)
    judge = 1 / (1 + np.exp(-sharpness * (lean + 0.3 + rng.normal(size=lean.shape))))
    human[labelled:] = np.nan
    at = np.tile(np.arange(size), contexts)
    frame = pd.DataFrame({"context_id": np.repeat([f"c{n}" for n in range(contexts)], size), "value": judge.ravel()})
    frame = frame.assign(
        candidate_id=[f"x{n}" for n in at], opponent_id=[f"y{n}" for n in at], system="x", opponent="y"
    )
    gap = np.where(np.isnan(human), np.nan, 2 * human - 1).ravel()
    return frame.assign(human_gap=gap, judge="j", dataset="d", attribute="a", status="ok")


def coverage(make, estimand, truth, studies, seed, corrections=("human", "ppi")):
    """Return, by correction, the share of intervals with the truth among those that there are."""
    rng, covered = np.random.default_rng(seed), []
    for _ in range(studies):
        found = bl.correct(make(rng), estimand=estimand, corrections=list(corrections))
        found = found.groupby("correction", sort=False).first()
        inside = (found["ci_low"] <= truth) & (truth <= found["ci_high"])
        covered.append(inside.where(found["ci_low"].notna()).astype(float))
    return pd.concat(covered, axis=1).mean(axis=1)


def rank_truth(error, candidates=4):
    """Return the mean correlation of very many contexts."""
    frame = scores(np.random.default_rng(99), 8000, 8000, error, candidates)
    values = []
    for human, judge in zip(*(frame[c].to_numpy().reshape(-1, candidates) for c in ("human", "score")), strict=True):
        if np.ptp(human) > 0 and np.ptp(judge) > 0:
            values.append(spearmanr(human, judge).statistic)
    return np.mean(values)


def pair_truths(sharpness):
    """Return win rate and accuracy of very many contexts."""
    frame = paired_trials(np.random.default_rng(99), 60_000, 60_000, sharpness)
    human, judge = frame["human_gap"] > 0, frame["value"] > 0.5
    return human.mean(), (human == judge).mean()


@pytest.mark.thorough
@pytest.mark.slow
def test_rank_agreement_of_few_labels_is_covered():
    found = coverage(lambda rng: scores(rng, 60, 12, 0.3), "agreement", rank_truth(0.3), 60, seed=1)
    assert (found >= 0.9).all()


@pytest.mark.thorough
@pytest.mark.parametrize("error", [0.3, 0.7, 1.5])
@pytest.mark.parametrize("labelled", [8, 12, 24, 48])
def test_rank_agreement_is_covered(error, labelled):
    make, truth = (lambda rng: scores(rng, 4 * labelled, labelled, error)), rank_truth(error)
    assert (coverage(make, "agreement", truth, 1000, seed=labelled) >= 0.93).all()


@pytest.mark.thorough
@pytest.mark.parametrize("sharpness", [0.5, 4.0])
@pytest.mark.parametrize("labelled", [12, 24, 48])
def test_win_rates_and_accuracy_are_covered(sharpness, labelled):
    for estimand, truth in zip(("win_rate", "agreement"), pair_truths(sharpness), strict=True):
        found = coverage(
            lambda rng: paired_trials(rng, 4 * labelled, labelled, sharpness), estimand, truth, 1000, labelled
        )
        assert (found >= 0.93).all()


def passed(rng, contexts=400, labelled=60):
    """One answer a context, by one of two systems; the judge passes .9 of what people pass, .35 of what they fail."""
    system = np.array(["new", "old"] * (contexts // 2))
    human = rng.random(contexts) < np.where(system == "new", 0.7, 0.5)
    judge = np.where(human, rng.random(contexts) < 0.9, rng.random(contexts) < 0.35)
    part = np.isin(np.arange(contexts), rng.choice(contexts, labelled, replace=False))
    return scored(judge * 1.0, np.where(part, human, np.nan), system=system)


def rare(rng, rate=0.1, contexts=300, labelled=45):
    """One answer a context, seldom passed by people, or nearly always."""
    human = rng.random(contexts) < rate
    judge = np.where(human, rng.random(contexts) < 0.9, rng.random(contexts) < 0.3)
    return scored(judge * 1.0, np.where(np.arange(contexts) < labelled, human, np.nan))


def test_mean_of_two_values_has_a_logit_interval():
    frame = rare(np.random.default_rng(0))
    mean, rate = (bl.correct(frame, estimand=name) for name in ("mean_score", "systems"))
    for name in ("human", "ppi"):
        one = row(mean, name, metric="mean_score")
        interval = logit_interval(one["estimate"], one["se"], 45, 0.95, (0.0, 1.0))[:2]
        assert (one["ci_low"], one["ci_high"]) == pytest.approx(interval, abs=1e-9)
        other = row(rate, name, metric="pass_rate")
        assert (other["ci_low"], other["ci_high"]) == (one["ci_low"], one["ci_high"])
    twice = bl.correct(frame.assign(score=2 * frame["score"] + 1, human=2 * frame["human"] + 1, scale="1-3"))
    assert row(twice, "ppi")["ci_high"] == pytest.approx(2 * row(mean, "ppi")["ci_high"] + 1)


def test_labels_that_are_all_0_leave_room_for_1():
    frame = rare(np.random.default_rng(0), rate=0.0)
    found = row(bl.correct(frame), "human")
    assert (found["estimate"], found["ci_low"]) == (0, 0)
    assert found["ci_high"] == pytest.approx(1 - 0.025 ** (1 / 45))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, pytest.param(0.9, marks=pytest.mark.thorough)])
def test_rare_and_frequent_passes_are_covered(rate):
    found = coverage(lambda rng: rare(rng, rate), "mean_score", rate, 300, seed=1)
    assert found.between(0.93, 0.99).all()


@pytest.mark.thorough
def test_pass_rates_of_one_system_a_context_are_covered():
    found = coverage(passed, "systems", 0.7, 500, seed=1, corrections=("judge", "human", "ppi", "rogan_gladen"))
    assert (found.drop("judge") >= 0.93).all()
    assert found["judge"] < 0.85


def test_differences_are_paired_over_common_contexts():
    frame = scores(np.random.default_rng(0), 60, 60, 0.5, candidates=2)
    found = bl.correct(frame, estimand="systems", corrections=["human"])
    means = frame.pivot_table(index="context_id", columns="system", values="human")
    gap = row(found, "human", metric="score_difference")
    low, high = stats.ttest_rel(means["0"], means["1"]).confidence_interval()
    assert (gap["ci_low"], gap["ci_high"]) == pytest.approx((low, high), abs=1e-9)
    assert gap["p_value"] == pytest.approx(stats.ttest_rel(means["0"], means["1"]).pvalue)


def test_the_interval_keeps_to_its_ends_and_agrees_with_its_test():
    for value, bounds, null in ((0.97, (0.0, 1.0), 0.5), (0.99, (-1.0, 1.0), 0.0), (0.52, (0.0, 1.0), 0.5)):
        low, high, p_value = logit_interval(value, 0.02, 20, 0.95, bounds, null)
        assert bounds[0] < low < value < high < bounds[1]
        assert (p_value < 0.05) == (not low <= null <= high)
    assert np.isnan(logit_interval(1.1, 0.02, 20, 0.95, (0.0, 1.0))).all()


def test_the_judge_alone_is_labelled_as_it_is():
    found = bl.correct(scores(np.random.default_rng(0), 20, 10, 0.5)).set_index("correction")
    assert set(found.index) == {"judge", "human", "ppi"}
    assert (found.loc["judge", "note"] == "the judge's bias is not corrected").all()


def lengthy(rng, other_bias, contexts=60, labelled=30):
    """A judge who rewards length, and has another bias or none: too much for one of two systems."""
    quality, words = rng.normal(0, 1, (contexts, 2)), rng.normal([6.0, 7.0], 1, (contexts, 2))
    human = 3 + quality + 0.5 * rng.normal(size=quality.shape)
    judge = human + 0.4 * (words - 6) + [0.0, other_bias] + 0.4 * rng.normal(size=quality.shape)
    human[labelled:] = np.nan
    where = {"context_id": np.repeat([f"c{n}" for n in range(contexts)], 2), "candidate_id": ["0", "1"] * contexts}
    frame = pd.DataFrame(where | {"human": human.ravel(), "score": judge.ravel()})
    return frame.assign(judge="j", dataset="d", attribute="a", system=["a", "b"] * contexts)


def test_ppi_difference_ignores_favour_for_one_system():
    fair, unfair = (
        bl.correct(lengthy(np.random.default_rng(1), bias), estimand="difference", corrections=["judge", "ppi"])
        for bias in (0.0, 1.0)
    )
    for name in ("estimate", "ci_low", "ci_high", "p_value"):
        assert row(unfair, "ppi")[name] == pytest.approx(row(fair, "ppi")[name], abs=1e-9)
    assert row(unfair, "judge")["estimate"] == pytest.approx(row(fair, "judge")["estimate"] - 1)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [pytest.param(0.15, marks=pytest.mark.thorough), 0.3])
def test_differences_are_covered_despite_two_biases(bias):
    found = coverage(lambda rng: lengthy(rng, bias, 200, 30), "difference", 0.0, 200, 1, ("judge", "ppi"))
    assert found["ppi"] >= 0.91
    assert found["judge"] < 0.3
