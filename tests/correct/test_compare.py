"""Judges compared on the contexts that both judged: the difference, its interval, its errors."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import app
from biaslab.core.errors import InputError, TrialsError
from biaslab.report import verdicts
from biaslab.stats.blocks import joined, shared_requests
from biaslab.stats.correlation import estimate_correlation
from biaslab.stats.joint_jackknife import (
    carried,
    estimated_rows,
    rows_by_cell,
    suppressed_data_warnings,
    without_each,
)
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model, logistic_model
from biaslab.stats.resample import Resampling

PROBE = bl.probes.Position(attributes=["coherence"], templates=[1])
METRIC = ["first_position_rate"]


def judged(data, **planted):
    return bl.collect(PROBE, bl.SimulatedJudge(data, **planted), data, progress=False)


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=12)


@pytest.fixture(scope="module")
def both(data):
    return [judged(data, context_noise=1.0, seed=seed, position=0.5 * seed) for seed in (0, 1)]


def shift(found, metric="first_position_rate"):
    """Return the one row of the difference."""
    [row] = found[found["metric"] == f"{metric}_difference"].to_dict("records")
    return row


def test_difference_has_the_interval_of_a_paired_t_test(both):
    """Where all contexts have as many pairs, a rate is the mean of the contexts' rates, and its jackknife theirs."""
    found = bl.compare(both, metrics=METRIC, progress=False)
    row = shift(found)
    rates = [trials.groupby("context_id")["value"].apply(lambda v: (v > 0.5).mean()) for trials in both]
    paired = stats.ttest_rel(rates[1], rates[0])
    low, high = paired.confidence_interval()
    assert row["estimate"] == pytest.approx(rates[1].mean() - rates[0].mean(), abs=1e-12)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high), abs=1e-9)
    assert row["p_value"] == pytest.approx(paired.pvalue, abs=1e-9)
    own = found[found["role"] != "difference"].set_index("role")["estimate"]
    assert row["estimate"] == pytest.approx(own["other"] - own["reference"], abs=1e-12)


@pytest.mark.slow
def test_recorded_judges_differ_by_their_estimates():
    rows = bl.atlas.trials("mt_bench").query("dataset == 'mt_bench'")
    found = bl.compare(rows, metrics=METRIC, probe=bl.probes.Position(), progress=False)
    cells = found[found["role"] != "difference"]
    assert len(set(cells["judge"])) > 1
    single = bl.probes.Position().estimate(rows, METRIC).set_index("judge")["estimate"]  # all judged all 80 contexts
    assert cells["estimate"].tolist() == pytest.approx(single[cells["judge"]].tolist(), abs=1e-12)
    for row in found[found["role"] == "difference"].to_dict("records"):
        other, reference = row["compared"].split(" − ")
        same = cells[(cells["attribute"] == row["attribute"]) | cells["attribute"].isna()]
        own = same.drop_duplicates("compared").set_index("compared")["estimate"]
        assert row["estimate"] == pytest.approx(own[other] - own[reference], abs=1e-12)
        assert row["ci_low"] < row["estimate"] < row["ci_high"]


@pytest.mark.slow
def test_a_judge_does_not_differ_from_itself(data, both):
    again = both[0].assign(judge="the same again")
    row = shift(bl.compare([both[0], again], metrics=METRIC, progress=False))
    assert row["estimate"] == 0
    assert not row["p_value"] < 1
    assert "no variation between contexts" in row["note"]


@pytest.mark.slow
def test_a_difference_that_no_context_varies_has_no_interval(data, both):
    fixed = [both[0].assign(judge=name, value=value) for name, value in (("one", 0.9), ("other", 0.2))]
    row = shift(bl.compare(fixed, metrics=METRIC, progress=False))
    assert abs(row["estimate"]) > 0
    assert math.isnan(row["ci_low"])
    assert "no interval" in row["note"]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_exchanging_the_two_turns_the_sign(seed):
    data = bl.load_dataset("graded", limit=6)
    trials = [judged(data, noise=1.0, seed=seed + n).assign(judge=f"judge {n}") for n in (0, 1)]
    one, two = (
        shift(bl.compare(trials, metrics=METRIC, reference=name, progress=False)) for name in ("judge 0", "judge 1")
    )
    assert one["estimate"] == pytest.approx(-two["estimate"], abs=1e-12)
    assert one["ci_low"] == pytest.approx(-two["ci_high"], abs=1e-9)


@pytest.mark.slow
def test_contexts_of_one_judge_only_are_excluded(both):
    few = both[1][both[1]["context_id"].isin(sorted(set(both[1]["context_id"]))[:8])]
    found = bl.compare([both[0], few], metrics=METRIC, progress=False)
    assert found.attrs["contexts_left_out"] == 4
    assert set(found["n_contexts"]) == {8}
    single = PROBE.estimate(both[0][both[0]["context_id"].isin(few["context_id"])], METRIC)["estimate"].iloc[0]
    assert found.loc[found["role"] == "reference", "estimate"].iloc[0] == single


@pytest.mark.slow
def test_templates_of_one_judge_are_compared_cell_by_cell(data):
    probe = bl.probes.Position(attributes=["coherence", "fluency"])
    trials = bl.collect(probe, bl.SimulatedJudge(data, noise=1.0), data, progress=False)
    found = bl.compare(trials, "template", METRIC, progress=False)
    shifts = found[found["role"] == "difference"]
    assert shifts["attribute"].tolist() == ["coherence", "fluency"]
    assert shifts["compared"].unique().tolist() == ["2 − 1"]
    assert len(set(shifts["judge"])) == 1
    assert len(verdicts(shifts)) == 2


@pytest.mark.slow
def test_estimates_without_trials_are_assumed_independent(both):
    estimates = pd.concat([PROBE.estimate(trials, METRIC) for trials in both])
    single, paired = (shift(bl.compare(found, metrics=METRIC, progress=False)) for found in (estimates, both))
    assert single["estimate"] == pytest.approx(paired["estimate"], abs=1e-12)
    assert single["se"] == pytest.approx(np.hypot(*estimates["se"]), abs=1e-12)
    assert "independent" in single["note"]


@pytest.mark.slow
def test_text_answers_are_compared_with_probabilities(data, both):
    text = bl.probes.Position(attributes=["coherence"], templates=[1], answer="text", temperature=0.0)
    judge = bl.SimulatedJudge(data, context_noise=1.0, position=1.0)
    trials = bl.collect(text, judge, data, progress=False)
    assert shift(bl.compare([both[0], trials], metrics=METRIC, progress=False))["n_contexts"] == 12


@pytest.mark.thorough
@pytest.mark.parametrize(("contexts", "studies"), [(24, 100)])
def test_intervals_of_a_difference_cover_at_their_level(contexts, studies):
    """Of two judges alike that share contexts (one less the type-I error), and of a planted difference."""
    data = bl.load_dataset("graded")
    shared = {"context_noise": 1.0, "noise": 1.0}
    probe = bl.probes.Position(attributes=["coherence"], templates=[1], n_pairs=4)
    one, same, other = (
        bl.collect(probe, bl.SimulatedJudge(data, seed=seed, position=p, **shared), data, progress=False)
        for seed, p in ((1, 0.0), (2, 0.0), (3, 0.8))
    )
    names = sorted(set(one["context_id"]))
    truth = {}
    for name, trials in (("same", same), ("other", other)):
        truth[name] = shift(bl.compare([one, trials], metrics=METRIC, progress=False))["estimate"]
    covered = {name: [] for name in truth}
    rng = np.random.default_rng(0)
    for _ in range(studies):
        drawn = rng.choice(names, contexts)
        for name, trials in (("same", same), ("other", other)):
            pair = [_study(frame, drawn) for frame in (one, trials)]
            row = shift(bl.compare(pair, metrics=METRIC, progress=False))
            covered[name].append(row["ci_low"] <= truth[name] <= row["ci_high"])
    for name, found in covered.items():
        assert abs(np.mean(found) - 0.95) < 3 * np.sqrt(0.95 * 0.05 / studies), name  # three Monte-Carlo errors


def _study(trials, drawn):
    """Return the trials of contexts that were drawn with replacement, each draw a context of its own."""
    by_name = dict(tuple(trials.groupby("context_id")))
    parts = [by_name[name].assign(context_id=f"{n} {name}", key=f"{n}") for n, name in enumerate(drawn)]
    return pd.concat([part.assign(key=part["key"] + part["candidate_id"] + part["opponent_id"]) for part in parts])


@pytest.mark.parametrize(
    ("change", "options", "error", "says"),
    [
        (lambda a, b: [a, b.assign(context_id=b["context_id"] + "x")], {}, TrialsError, "0 in common"),
        (lambda a, b: [a, a], {}, InputError, "at least two values"),
        (lambda a, b: [a, b], {"by": "jugde"}, InputError, "by is 'jugde'"),
        (lambda a, b: [a, b], {"reference": "nobody"}, InputError, "reference is 'nobody'"),
        (lambda a, b: [a, b], {"metrics": ["first"]}, InputError, "first_position_rate"),
        (lambda a, b: [a, b.assign(attribute="fluency")], {}, TrialsError, "attribute is coherence"),
        (lambda a, b: [a.assign(probe="recorded"), b.assign(probe="recorded")], {}, InputError, "biaslab.probes.Pos"),
    ],
)
def test_incomparable_inputs_are_refused(both, change, options, error, says):
    with pytest.raises(error, match=says):
        bl.compare(change(*both), progress=False, **options)


@pytest.mark.slow
def test_the_figure_shows_both_and_their_difference(both):
    left, right = bl.plots.compared(bl.compare(both, progress=False))
    assert "difference" in right.get_xlabel()
    assert left.get_xlabel()


@pytest.mark.slow
@pytest.mark.parametrize(("position", "verb"), [(0.0, "is not shown to differ"), (3.0, "differs")])
def test_a_saved_figure_says_whether_two_judges_differ(data, tmp_path, position, verb):
    two = [judged(data, context_noise=1.0).assign(judge="old"), judged(data, position=position, seed=1, noise=0.5)]
    found = bl.compare([two[0], two[1].assign(judge="new")], metrics=METRIC, progress=False)
    bl.plots.compared(found, name="compare__own", out=tmp_path)
    [reported] = pd.read_csv(tmp_path / "compare__own.csv")["headline"].unique()
    value = bl.report.with_intervals(pd.DataFrame([shift(found)]), 2)[0]
    assert reported == f"new {verb} from old in P(A): {value} over 12 contexts"


@pytest.mark.slow
def test_saved_figure_names_the_largest_difference(data, tmp_path):
    places = {"fair": 0.0, "first": 1.5, "second": -3.0}
    trials = [judged(data, position=size, noise=0.5).assign(judge=name) for name, size in places.items()]
    bl.plots.compared(bl.compare(trials, metrics=METRIC, progress=False), name="compare__own", out=tmp_path)
    [reported] = pd.read_csv(tmp_path / "compare__own.csv")["headline"].unique()
    assert reported.startswith("2 of 2 pairs of judges differ; second − fair: −0.")


def test_the_command_line_compares_saved_trials(tmp_path, both):
    files = [tmp_path / f"{name}.csv" for name in ("last_month", "today")]
    for file, trials in zip(files, both, strict=True):
        trials.assign(judge="one judge").to_csv(file, index=False)
    done = CliRunner().invoke(app, ["compare", *map(str, files), "--out", str(tmp_path / "found.csv")])
    assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "found.csv")
    assert shift(found)["compared"] == "today − last_month"
    assert done.output.startswith("today − last_month: first_position_rate_difference\n  coherence: ")


#: Values without each context that estimates carry are held against estimates computed anew.
BY_CONTEXT = Resampling(weights="contexts")
PAIRS = {"asks": ["pairs"]}


def simulated(probe, contexts=6, **planted):
    data = bl.load_dataset("graded", limit=contexts)
    judge = bl.SimulatedJudge(data, **{"noise": 1.0, "context_noise": 0.5} | planted)
    return bl.collect(probe, judge, data, progress=False)


def with_ratings(trials):
    """Return trials with the ratings of three annotators of each item in place of its human score."""
    items = trials.drop_duplicates(["context_id", "candidate_id"]).set_index(["context_id", "candidate_id"])
    noise = np.random.default_rng(0).normal(size=(len(items), 3))
    given = items["human"].to_numpy(float)[:, None] + noise
    columns = {"human": given.mean(axis=1), "ratings": [" ".join(map(str, row)) for row in given.tolist()]}
    rated = pd.DataFrame(columns | {"annotators": "a b c"}, items.index)
    return trials.drop(columns=[*rated]).join(rated, on=["context_id", "candidate_id"])


def with_missing(trials):
    lost = np.random.default_rng(0).random(len(trials)) < 0.1
    return trials.assign(value=trials["value"].mask(lost), status=trials["status"].mask(lost, "refused"))


def sharing_requests(trials):
    """Return trials in which the first two contexts share their requests."""
    first, second = trials["context_id"].unique()[:2]
    keys = trials["key"].to_numpy(object)
    shared = (trials["context_id"] == first).to_numpy(), (trials["context_id"] == second).to_numpy()
    size = min(shared[0].sum(), shared[1].sum())
    keys[np.flatnonzero(shared[1])[:size]] = keys[np.flatnonzero(shared[0])[:size]]
    return trials.assign(key=keys)


def both_ways(probe, trials, metrics):
    """Return the rows of estimates, whether each carries values, and these, carried and computed anew."""
    with suppressed_data_warnings():
        [rows], conditions = estimated_rows(probe, [trials], metrics)
    columns = ["metric", "dataset", "judge", *conditions]
    cells = rows_by_cell(rows, columns)
    anew = {key: {**row, "leave_one_out": None} for key, row in cells.items()}
    quick, slow = (without_each(probe, [trials], [each], columns)[:, :, 0] for each in (cells, anew))
    units = pd.unique(joined(probe.resampling, shared_requests(trials)).cluster_of(trials["context_id"]))
    carry = [carried(row["estimate"], row["leave_one_out"], pd.Index(units)) is not None for row in cells.values()]
    return list(cells.values()), carry, quick, slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "change"),
    [
        ("Position", {}, None),
        ("Position", {"answer": "text"}, with_missing),
        ("Position", {"resampling": BY_CONTEXT}, with_missing),
        ("Position", {}, sharing_requests),
        ("Verbosity", {}, None),
        ("Verbosity", {}, with_missing),
        ("Verbosity", {}, with_ratings),
        ("Verbosity", {}, sharing_requests),
        ("Verbosity", {"reliability": 0.8}, None),
        ("Verbosity", {"level": "dataset"}, with_ratings),
        ("Verbosity", PAIRS, None),
        ("Verbosity", PAIRS | {"answer": "text"}, None),
        ("Verbosity", PAIRS | {"answer": "text", "reliability": 0.8}, sharing_requests),
        ("Familiarity", {}, with_ratings),
        ("SelfPreference", {"answer": "text"}, None),
        ("Source", {}, None),
        ("Comparative", {}, None),
        ("Comparative", {"debiasing": "uniform-prior"}, None),
        ("ListPosition", {}, None),
        ("Thinking", {}, None),
        ("Edit", {"answer": "text"}, None),
        ("Template", {}, None),
    ],
)
def test_carried_values_equal_those_computed_anew(name, parameters, change):
    """Of all primary metrics."""
    probe = getattr(bl.probes, name)(attributes=["coherence"], **parameters)
    trials = simulated(probe) if change is None else change(simulated(probe))
    rows, carry, quick, slow = both_ways(probe, trials, list(probe.primary))
    known = [math.isfinite(row["estimate"]) for row in rows]
    assert any(known)
    assert quick[known] == pytest.approx(slow[known], abs=1e-6, nan_ok=True)
    assert all(carry[at] == (parameters.get("debiasing") is None) for at in np.flatnonzero(known))


@st.composite
def frames(draw):
    """Return rows of contexts in clusters, with a rate, two variables, a score and a verdict."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    names = np.array([f"c{number}" for number in range(draw(st.integers(8, 20)))])
    context = rng.choice(names, 5 * len(names))
    x, z = rng.normal(size=(2, len(context)))
    columns = {"score": x - z + rng.normal(size=len(x)), "won": (x + 2 * rng.logistic(size=len(x)) > 0) * 1.0}
    clusters = dict(zip(names[1:4], names[[0, 0, 3]], strict=True))
    return pd.DataFrame({"context_id": context, "x": x, "z": z, **columns}), draw(st.sampled_from([None, clusters]))


def ratio(frame, resampling):
    return Ratio(frame["context_id"], frame["score"], frame["won"]).estimate(resampling)


def slope(frame, resampling):
    return linear_model(frame, "score ~ x + z", clusters=resampling.clusters)["x"]


def slope_within(frame, resampling):
    return linear_model(frame, "score ~ x + z", within=True, clusters=resampling.clusters)["x"]


def log_odds(frame, resampling):
    return logistic_model(frame, "won", ["x", "z"], resampling)["x"]


def rank_correlation(frame, resampling):
    return estimate_correlation(frame, "score", "x", resampling, "dataset")


def mean_correlation(frame, resampling):
    return estimate_correlation(frame, "score", "x", resampling)


@pytest.mark.parametrize("estimate", [ratio, slope, slope_within, log_odds, rank_correlation, mean_correlation])
@settings(max_examples=5, deadline=None)
@given(drawn=frames())
def test_estimate_carries_its_values_without_each_context(estimate, drawn):
    frame, clusters = drawn
    resampling = Resampling(100, clusters=clusters, leave_one_out=True)
    whole, unit = estimate(frame, resampling), pd.Series(resampling.cluster_of(frame["context_id"]))
    values = carried(whole.estimate, whole.leave_one_out, pd.Index(unit.unique()))
    anew = [estimate(frame[(unit != name).to_numpy()], resampling).estimate for name in unit.unique()]
    assert values == pytest.approx([whole.estimate, *anew], abs=1e-7, nan_ok=True)


def test_values_of_a_changed_estimate_are_not_taken():
    left_out = np.array(["a", "b"], object), np.array([0.5, 0.4, 0.6])
    assert carried(0.5, left_out, pd.Index(["a", "b"])).tolist() == [0.5, 0.4, 0.6]
    assert carried(0.25, left_out, pd.Index(["a", "b"])) is None
    assert carried(0.5, left_out, pd.Index(["a", "c"])) is None


def test_log_odds_without_a_context_may_be_infinite():
    """The only context in which the first loses decides that there are finite log odds."""
    frame = pd.DataFrame({"context_id": [*"aabbcc"], "x": 1.0, "won": [1.0, 0, 1, 1, 1, 1]})
    names, values = logistic_model(frame, "won", ["x"], Resampling(leave_one_out=True))["x"].leave_one_out
    assert names.tolist() == ["a", "b", "c"]
    assert np.isnan(values).tolist() == [False, True, False, False]
