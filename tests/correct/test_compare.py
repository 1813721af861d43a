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
