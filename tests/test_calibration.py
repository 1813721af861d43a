"""The instrument on the scales: right estimators keep their bands, wrong ones are caught."""

import dataclasses
import math
from datetime import date
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab import calibration
from biaslab.calibration import cells
from biaslab.calibration.population import Population, construct_population, estimate_each, studies
from biaslab.calibration.table import render
from biaslab.cli import main
from biaslab.core import Calibration, Metric
from biaslab.core.errors import InputError, TrialsError
from biaslab.probes import available
from biaslab.probes.position import Position
from biaslab.probes.verbosity import Verbosity

METRIC = "first_position_rate"
SMALL = {"metrics": [METRIC], "studies": 100, "population": 600, "contexts": [24], "curve": []}


def with_calibration(calibration):
    """The metrics of position, the first of them with another calibration."""
    first, *others = Position.metrics
    return dataclasses.replace(first, calibration=calibration), *others


@dataclasses.dataclass(frozen=True)
class Clustered(Position):
    """Position, where contexts differ in their bias."""

    metrics: ClassVar[tuple[Metric, ...]] = with_calibration(
        Calibration(
            fair={"quality": 0.0, "noise": 0.5, "context_noise": 2.0},
            planted={"quality": 0.0, "noise": 0.5, "context_noise": 2.0, "position": 1.0},
            parameters={"templates": (1,)},
        )
    )


@dataclasses.dataclass(frozen=True)
class JudgementsAsContexts(Clustered):
    """The classical mistake: each pair counts as a context of its own."""

    def estimate(self, trials, metrics=None):
        one, two = trials["candidate_id"], trials["opponent_id"]
        pair = one.where(one < two, two) + "|" + two.where(one < two, one)
        return super().estimate(trials.assign(context_id=trials["context_id"].astype(str) + "|" + pair), metrics)


@dataclasses.dataclass(frozen=True)
class RefusalsAsLosses(Position):
    """Another one: a refusal counts as a vote for the second."""

    def estimate(self, trials, metrics=None):
        return super().estimate(trials.assign(value=trials["value"].fillna(0.0), status="ok"), metrics)


def left(probe, **options):
    """Return the quantities that leave their band, and whether refusals were planted there."""
    rows = calibration.outside(bl.validate([probe], **{**SMALL, **options}))
    return set(zip(rows["quantity"], rows["planted"], rows["refusals"], strict=True))


@pytest.mark.slow
def test_the_shipped_estimator_keeps_its_bands():
    """Where contexts differ; the probes' own calibrations are run by the slow tests."""
    assert left(Clustered) == set()


@pytest.mark.slow
def test_judgements_treated_as_contexts_are_caught():
    found = left(JudgementsAsContexts, studies=50)
    assert {("type_i_error", False, False), ("coverage", False, False), ("coverage", True, False)} <= found


@pytest.mark.thorough
def test_refusals_counted_as_losses_fail_calibration():
    found = left(RefusalsAsLosses, studies=50, contexts=[100])
    assert ("type_i_error", False, True) in found
    assert not any(name == "type_i_error" and not refusals for name, _, refusals in found)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(available()))
def test_every_primary_metric_keeps_its_bands(name):
    """Reduced: 100 studies of 24 contexts, and 1,000 of metrics outside a band; `biaslab validate --check` runs all."""
    probe, reduced = available()[name], {"population": 1000, "contexts": [24], "curve": []}
    found = bl.validate([probe], studies=100, **reduced)
    assert set(found["metric"]) >= set(probe.primary)
    bad = calibration.outside(found)
    if len(bad):  # by chance, a few of some hundred shares are
        again = bl.validate([probe], sorted(set(bad["metric"])), studies=1000, **{**reduced, "population": 4000})
        bad = calibration.outside(again)
    assert bad.empty, "\n".join(map(calibration.describe, bad.itertuples()))


@pytest.mark.slow
def test_two_judges_of_the_same_contexts_are_compared():
    options = {"studies": 5, "population": 40, "contexts": [6], "generators": ["two_judges"]}
    found = bl.validate([Position], [METRIC], **options)
    shown = found[["generator", "planted", "quantity"]].to_numpy().tolist()
    assert [row[0] for row in shown] == ["two_judges"] * 4
    assert [tuple(row[1:]) for row in shown] == [
        (planted, name)
        for planted in (False, True)
        for name in ("type_i_error" if not planted else "power", "coverage")
    ]
    truth = found.groupby("planted")["truth"].first()
    assert abs(truth[False]) < 0.06
    assert truth[True] > 0.05
    assert "two_judges: differences between two" in render(found, "biaslab validate", date(2026, 1, 31))


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "metric"), [(Position, METRIC), (bl.probes.Verbosity, "verbosity_slope")])
def test_differences_between_judges_keep_their_bands(kind, metric):
    """Reduced: 50 studies of 24 contexts; the guide has the table of 1000, and says what 8 contexts lack."""
    found = bl.validate([kind], [metric], studies=50, population=400, contexts=[24], generators=["two_judges"])
    bad = calibration.outside(found)
    assert bad.empty, "\n".join(map(calibration.describe, bad.itertuples()))


@pytest.mark.thorough
def test_judges_taken_as_independent_are_caught(monkeypatch):
    """The classical mistake: two intervals are read beside each other, though the judges share their contexts."""

    def unpaired(probe, trials, metric, resampling):
        apart = [estimate_each(probe, part, metric, resampling) for _, part in trials.groupby("judge", sort=False)]
        found = bl.compare(apart, metrics=[metric], progress=False)
        return found[found["role"] == "difference"]

    monkeypatch.setattr(cells, "difference_each", unpaired)
    found = bl.validate([Position], [METRIC], studies=175, population=400, contexts=[24], generators=["two_judges"])
    rows = calibration.outside(found)
    assert {("coverage", False), ("coverage", True)} <= set(zip(rows["quantity"], rows["planted"], strict=True))


@pytest.mark.slow
def test_table_has_all_requested_cells_and_valid_intervals():
    found = bl.validate([Position], [METRIC], studies=15, population=200, contexts=[8, 12], curve=[16])
    shape = found.groupby(["planted", "refusals"])["n_contexts"].agg(lambda g: sorted(set(g)))
    assert shape.to_list() == [[8, 12], [8, 12], [8, 12, 16], [8, 12]]
    assert (found["studies"] == 15).all()
    assert (found["ci_low"] <= found["estimate"]).all()
    assert (found["estimate"] <= found["ci_high"]).all()
    power = found[found["quantity"] == "power"]
    assert (power["low"] == (power["promised"] - 0.05).clip(lower=0)).all()
    assert power[~power["refusals"]]["promised"].is_monotonic_increasing
    assert found.groupby("planted")["truth"].nunique().eq(1).all()
    assert found["n_undefined"].eq(0).all()


@pytest.mark.slow
def test_result_depends_on_seed_but_not_on_jobs():
    options = {"metrics": [METRIC], "studies": 10, "population": 60, "contexts": [8], "curve": []}
    one, two, other = (
        bl.validate([Position], jobs=jobs, seed=seed, **options).drop(columns="seconds")
        for jobs, seed in ((1, 3), (2, 3), (1, 4))
    )
    pd.testing.assert_frame_equal(one, two)
    assert not one.equals(other)


@pytest.fixture(scope="module")
def population():
    data = construct_population(60, seed=1)
    judge = bl.SimulatedJudge(data, noise=1.0, refusal=0.3, selective=True)
    return Population.judged(Position(templates=[1]), METRIC, judge, data)


@pytest.mark.slow
def test_a_study_is_contexts_of_the_population_under_new_names(population):
    study = population.draw(200, [np.random.default_rng(0)])  # more than there are: some are drawn twice
    assert study["context_id"].nunique() == 200
    columns = ["candidate_id", "opponent_id", "human_gap", "value", "status"]
    known = {tuple(rows[columns].astype(str).to_numpy().ravel()) for _, rows in population.trials.groupby("context_id")}
    drawn = {tuple(rows[columns].astype(str).to_numpy().ravel()) for _, rows in study.groupby("context_id")}
    assert drawn <= known
    assert len(drawn) > 50
    assert list(study.columns) == list(population.trials.columns)


def test_contexts_of_different_sizes_are_drawn_whole(population):
    trials = population.trials.iloc[5:-2]
    codes = pd.factorize(trials["context_id"])[0]
    counts = np.bincount(codes)
    rows = np.argsort(codes, kind="stable")
    uneven = dataclasses.replace(population, trials=trials, rows=rows, starts=np.cumsum(counts) - counts, counts=counts)
    sizes = set(uneven.draw(300, [np.random.default_rng(0)]).groupby("context_id").size())
    assert sizes == set(counts) == {1, 4, 6}


def test_the_plan_rests_on_the_spread_of_contexts(population):
    trials = population.trials[population.trials["status"] == "ok"]
    row = estimate_each(Position(templates=[1]), population.trials, METRIC, bl.Resampling(n=100)).iloc[0]
    assert row["estimate"] == population.estimate
    means = trials.groupby("context_id")["value"].apply(lambda p: (p > 0.5).mean())
    assert population.spread == pytest.approx(means.std(), rel=0.25)  # ratio of sums, pairs dropped: near, not equal


def test_studies_do_not_depend_on_their_number(population):
    few, many = (list(studies(population, 5, n, (1, 2))) for n in (2, 60))
    assert [trials["dataset"].nunique() for trials, _ in many] == [25, 25, 10]
    assert few[0][1] == many[0][1]
    assert len({seed for _, seed in many}) == 3
    one, other = few[0][0], many[0][0]
    pd.testing.assert_frame_equal(one, other[other["dataset"] < 2])


def test_joint_estimation_of_studies_equals_single_ones(population):
    probe, [(trials, seed)] = Position(templates=[1]), studies(population, 12, 5, (3,))
    together = estimate_each(probe, trials, METRIC, bl.Resampling(seed=seed))
    for study, single in trials.groupby("dataset"):
        row = estimate_each(probe, single, METRIC, bl.Resampling(seed=seed)).iloc[0]
        same = ["estimate", "se", "p_value", "ci_low", "ci_high"]
        assert row[same].tolist() == together.set_index("dataset").loc[study, same].tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("planted", [False, True])
def test_the_truth_of_a_population_is_the_analytic_one(planted):
    """What a metric is over 1500 contexts agrees with what the judge's settings say it is expected to be."""
    metric = Position.metrics[0]
    declared = metric.calibration
    data = construct_population(1500)
    judge = bl.SimulatedJudge(dataset=data, **(declared.planted if planted else declared.fair))
    found = Population.judged(Position(**declared.parameters), METRIC, judge, data)
    expected = judge.truth(METRIC, found.trials)
    assert abs(found.estimate - expected) < 3 * found.spread / np.sqrt(1500)
    if not planted:
        assert expected == pytest.approx(metric.null)


def test_a_calibration_must_leave_one_value():
    careless = dataclasses.replace(Position.metrics[0].calibration, parameters={})
    kind = type("Careless", (Position,), {"metrics": with_calibration(careless)})
    with pytest.raises(InputError, match="2 values of first_position_rate"):
        bl.validate([kind], [METRIC], studies=1, population=6)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"studies": 0}, "studies"), ({"contexts": [1]}, "contexts"), ({"curve": [2.5]}, "curve"),
        ({"population": 1}, "population"), ({"jobs": 0}, "jobs"), ({"seed": -1}, "seed"),
        ({"metrics": ["charm"]}, "charm.*first_position_rate"), ({"metrics": []}, "metrics"),
    ],
)  # fmt: skip
def test_parameters_are_checked(options, name):
    with pytest.raises(InputError, match=name):
        bl.validate([Position], **options)


WORDS = [
    "validate",
    "--probe",
    "position",
    "--metric",
    METRIC,
    "--studies",
    "10",
    "--population",
    "100",
    "--contexts",
    "8",
]


@pytest.mark.slow
def test_the_command_prints_writes_and_passes(tmp_path, capsys):
    assert main([*WORDS, "--check", "--out", str(tmp_path / "table.csv")]) == 0
    assert "8 of 8 rates lie within their band" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "table.csv")) == 8


@pytest.mark.slow
def test_command_fails_and_names_the_cell_outside_its_band(monkeypatch, capsys):
    shipped = Position.estimate
    first = {"value": lambda trials: trials["value"] ** 0.3}  # nearly everything is a vote for the first
    monkeypatch.setattr(Position, "estimate", lambda self, trials, m=None: shipped(self, trials.assign(**first), m))
    assert main([*WORDS, "--check"]) == 3
    message = capsys.readouterr().err
    assert "first_position_rate, exact, fair judge, 8 contexts: type_i_error" in message
    assert main(WORDS) == 0


def test_the_command_refuses_a_wrong_file_before_anything_runs(capsys):
    assert main(["validate", "--out", "table.xlsx"]) == 2
    assert "out is 'table.xlsx'" in capsys.readouterr().err


def test_planted_value_is_the_mean_over_seeds():
    data = bl.load_dataset("graded", limit=6)
    probe, judge = Position(["coherence"], [1]), bl.SimulatedJudge(data, position=0.8, noise=0.5, quality=0.3)
    trials = bl.collect(probe, judge, data, progress=False)
    estimates = bl.with_planted(probe.estimate(trials), probe, judge, data, "first_position_logit", repeats=8)
    overall = estimates[estimates["human_gap"].isna()].set_index("metric")["planted"]
    assert overall["first_position_logit"] == pytest.approx(0.8, abs=0.1)
    assert math.isnan(overall["first_position_rate"])
    both = pd.concat([probe.estimate(trials), probe.estimate(trials.assign(judge="recorded"))], ignore_index=True)
    marked = bl.with_planted(both, probe, judge, data, "first_position_logit", repeats=1)["planted"]
    assert marked[both["judge"] == "recorded"].isna().all()
    assert marked.notna().sum() == estimates["planted"].notna().sum()
    with pytest.raises(TrialsError, match="metric"):
        bl.with_planted(both.drop(columns="metric"), probe, judge, data, "first_position_logit")
    every = bl.with_planted(estimates, probe, judge, data, repeats=1).set_index("metric")["planted"]
    assert every[["first_position_rate", "order_consistency"]].notna().all()
    named = bl.FunctionJudge(lambda context, first, second: 0.5, name="half")
    assert bl.with_planted(estimates, probe, named, data, "first_position_rate") is estimates


@pytest.mark.slow
def test_planted_biases_lie_inside_their_intervals(tmp_path):
    found = calibration.recover([Position, Verbosity], contexts=24, population=160)
    assert found.groupby("metric")["truth"].is_monotonic_increasing.all()
    assert found["inside"].sum() >= len(found) - 1
    wide = found[(found["ci_low"] <= found["truth"]) & (found["truth"] <= found["ci_high"])]
    assert len(wide) == found["inside"].sum()
    drawn = bl.plots.recovery(found, name="calibration__recovery", out=tmp_path)
    with pytest.raises(InputError, match="population is 50"):
        calibration.recover([Position], population=50)
    marks = sum(len(container.lines[0].get_xdata()) for container in drawn.axes[0].containers)
    assert marks == len(found)


@pytest.mark.thorough
def test_readme_states_how_many_planted_biases_are_covered():
    found = calibration.recover()
    stated = f"{found['inside'].sum()} of {len(found)} intervals cover the true bias"
    assert stated in (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert found["probe"].nunique() == len(available())
