"""Corrected estimates: the published estimator, known fractions, errors, and that the frame is an estimates frame."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.estimators import of_humans, powered, summed, tuned
from biaslab.stats import LEADING, TRAILING

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
    whole = 3 + np.sin(np.arange(60.0)) + 0.5 * np.cos(3 * np.arange(60.0))
    found = bl.correct(scored(whole, np.where(np.isnan(human), np.nan, whole)))
    plain = row(found, "human")
    assert row(found, "ppi")["se"] < 0.6 * plain["se"]
    assert abs(row(found, "ppi")["estimate"] - whole.mean()) < abs(plain["estimate"] - whole.mean())


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


def test_regression_removes_the_length_effect():
    rng = np.random.default_rng(1)
    human, words = rng.normal(3, 1, 200), 2 ** rng.normal(6, 1, 200)
    system = np.tile(["short", "long"], 100)
    words = np.where(system == "long", 4 * words, words)
    judge = human + 0.3 * np.log2(words)
    human[rng.random(200) < 0.5] = np.nan
    frame = scored(judge, human, [2] * 100, words=words, system=system)
    found = bl.correct(frame, estimand="difference", corrections=["judge", "regression", "human"])
    plain, adjusted, labels = (row(found, name)["estimate"] for name in ("judge", "regression", "human"))
    assert plain - adjusted == pytest.approx(
        0.3 * np.log2(words)[system == "short"].mean() - 0.3 * np.log2(words)[system == "long"].mean(), abs=0.02
    )
    assert abs(adjusted) < abs(plain)
    assert labels == labels


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
    assert bl.plots.finding(found)
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
    alone = bl.correct(trials, data, labelled=part, systems=systems, corrections=["ppi"])
    both = alone.merge(found[(found["metric"] == "mean_score") & (found["correction"] == "ppi")], on="system")
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
    ({"labels": pd.DataFrame({"context_id": ["x"], "candidate_id": ["0"], "score": [3]})}, TrialsError, "1 contexts such as x; j judged contexts such as c0"),  # noqa: E501
    ({"labels": pd.DataFrame({"context_id": ["c1"], "candidate_id": ["0"], "score": [3]})}, TrialsError, "all in one context, c1, of 60"),  # noqa: E501
    ({"labels": pd.DataFrame({"context_id": [f"c{n}" for n in range(9)], "candidate_id": "0", "score": [10 * n for n in range(9)]})}, TrialsError, "from 0 to 80, scores from .* by j"),  # noqa: E501
    ({"labels": pd.DataFrame({"context_id": ["c1"], "candidate_id": ["0"], "score": ["good"]})}, TrialsError, "'good'"),
    ({"labels": "nowhere.csv"}, InputError, "nowhere.csv"),
    ({"labels": 3}, InputError, "labels is 3"),
    ({"estimand": "mean"}, InputError, "estimand is 'mean'"),
    ({"corrections": ["ppi++"]}, InputError, "corrections"),
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
