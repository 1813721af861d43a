"""Studies that stop once a rule holds: what is asked, and which inference their trials carry."""

import dataclasses

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Choice
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct import replace_judge
from biaslab.probes.position import Position
from biaslab.stats.estimate import notes_of
from biaslab.stats.sequential import Stopping

PROBE = Position(["coherence"], [1], n_pairs=4)
GRADED = bl.load_dataset("graded", limit=12)
PAIRS = bl.collect(PROBE, bl.SimulatedJudge(GRADED, position=1.0), GRADED, progress=False, until=bl.Until(contexts=8))


class Watched:
    """A judge that counts what it is asked and can fail on the way."""

    kinds = frozenset({Choice})

    def __init__(self, judge, fail_after=None):
        self.judge, self.fail_after, self.asked, self.id, self.check = judge, fail_after, [], judge.id, judge.check

    def ask(self, requests):
        for request, reply in self.judge.ask(requests):
            if len(self.asked) == self.fail_after:
                raise ConnectionError("the line is dead")
            self.asked.append(request)
            yield request, reply


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=40)


@pytest.fixture
def judge(data):
    return bl.SimulatedJudge(data, position=1.0, noise=1, context_noise=0.5)


def collect(judge, data, until, probe=PROBE, **options):
    return bl.collect(probe, judge, data, progress=False, until=until, **options)


def test_rule_saves_the_requests_of_other_contexts(judge, data):
    watched = Watched(judge)
    trials = collect(watched, data, bl.Until())
    contexts = trials["context_id"].nunique()
    assert contexts < 25
    assert len(watched.asked) == trials.attrs["asked"] == 8 * contexts
    assert trials.attrs["saved"] == 8 * (40 - contexts)
    assert trials["context_id"].unique().tolist() != data.candidates["context_id"].unique()[:contexts].tolist()


def test_estimates_have_the_inference_of_their_study(judge, data):
    trials = collect(judge, data, bl.Until())
    row = PROBE.estimate(trials).set_index("metric").loc["first_position_rate"]
    rate = row[row["human_gap"].isna()].iloc[0]
    assert rate["method"] == "asymptotic confidence sequence"
    assert rate["p_value"] < 0.05
    assert rate["ci_low"] > 0.5
    stopped = notes_of(rate)["stopped"]
    assert (stopped["reason"], stopped["contexts"]) == ("null_excluded", trials["context_id"].nunique())
    fixed = PROBE.estimate(trials.drop(columns="until"), ["first_position_rate"]).iloc[0]
    assert fixed["ci_high"] - fixed["ci_low"] < rate["ci_high"] - rate["ci_low"]


@pytest.mark.slow
def test_every_interval_of_a_stopped_study_is_sequential(data):
    judge = bl.SimulatedJudge(data, verbosity=1.0, noise=1, context_noise=0.5)
    probe = bl.probes.Verbosity(["coherence"])
    trials = bl.collect(probe, judge, data, progress=False, until=bl.Until(effect=5.0))
    rows = probe.estimate(trials)
    bounded = rows[rows["ci_low"].notna()]
    assert len(bounded)
    assert all("stopped" in notes_of(row) for row in bounded.to_dict("records"))


@pytest.mark.slow
def test_trials_in_a_file_carry_the_rule(judge, data, tmp_path):
    frame = collect(judge, data, bl.Until())
    file = collect(judge, data, bl.Until(), out=tmp_path / "trials.parquet")
    pd.testing.assert_frame_equal(PROBE.estimate(file), PROBE.estimate(frame))


@pytest.mark.slow
def test_resumed_study_asks_nothing_twice_and_stops_there(judge, data, tmp_path):
    whole = collect(judge, data, bl.Until())
    failing = Watched(judge, fail_after=37)
    with pytest.raises(ConnectionError):
        collect(failing, data, bl.Until(), store=tmp_path / "s.sqlite")
    rest = Watched(judge)
    trials = collect(rest, data, bl.Until(), store=tmp_path / "s.sqlite")
    assert not set(rest.asked) & set(failing.asked)
    pd.testing.assert_frame_equal(trials, whole)
    assert collect(judge, data, bl.Until(seed=1))["context_id"].iloc[0] != whole["context_id"].iloc[0]


def test_planned_looks_are_the_only_ones(judge, data):
    trials = collect(judge, data, bl.Until(looks=[8, 24, 40]))
    assert trials["context_id"].nunique() in (8, 24)
    row = PROBE.estimate(trials, ["first_position_rate"]).iloc[0]
    assert row["ci_low"] > 0.5
    assert notes_of(row)["stopped"]["most"] == 40


def test_clusters_are_asked_together(judge, data):
    names = data.candidates["context_id"].unique().tolist()
    clusters = {name: names[at - at % 4] for at, name in enumerate(names)}
    probe = dataclasses.replace(PROBE, resampling=bl.Resampling(clusters=clusters))
    trials = collect(judge, data, bl.Until(half_width=0.2), probe)
    sizes = trials["context_id"].drop_duplicates().map(clusters).value_counts()
    assert set(sizes) == {4}
    assert probe.estimate(trials, ["first_position_rate"])["n_contexts"].iloc[0] == len(sizes)


@pytest.mark.slow
def test_study_without_effect_asks_all(data):
    trials = collect(bl.SimulatedJudge(data, noise=1), data, bl.Until(contexts=20))
    assert trials["context_id"].nunique() == 20
    assert Stopping.of(trials).reason == "contexts"
    assert trials.attrs["saved"] == 0


@pytest.mark.parametrize(
    ("until", "probe"),
    [
        (0.05, PROBE),
        (bl.Until(metric="first"), PROBE),
        (bl.Until(metric="order_consistency"), PROBE),
        (bl.Until(contexts=41), PROBE),
        (bl.Until(looks=[20, 60]), PROBE),
        (bl.Until(), bl.probes.Comparative(["coherence"], strategy="adaptive", budget=16)),
    ],
)
def test_rule_that_fits_no_design_is_refused(judge, data, until, probe):
    watched = Watched(judge)
    with pytest.raises(InputError):
        collect(watched, data, until, probe)
    assert watched.asked == []


@pytest.mark.slow
def test_functions_for_fixed_studies_refuse_stopped_ones(judge, data):
    trials = collect(judge, data, bl.Until())
    other = trials.assign(judge="other")
    with pytest.raises(TrialsError, match="until"):
        bl.compare([trials, other], progress=False)
    with pytest.raises(TrialsError, match="until"):
        bl.compare([PROBE.estimate(each) for each in (trials, other)])
    with pytest.raises(TrialsError, match="until"):
        bl.correct(trials, data)
    with pytest.raises(TrialsError, match="until"):
        PROBE.estimate(pd.concat([trials, collect(judge, data, bl.Until(seed=5))]))


@pytest.mark.parametrize(
    "estimate",
    [
        bl.ranking.transitivity,
        bl.ranking.dark_log_odds,
        lambda trials: bl.ranking.transitivity(trials.drop(columns="until"), trials),
        lambda trials: bl.ranking.agreement_by_budget(trials.assign(human=1.0, opponent_human=2.0), [4]),
        lambda trials: replace_judge(trials.drop(columns="until"), trials),
        lambda trials: replace_judge(trials, trials.drop(columns="until")),
    ],
)
def test_estimate_without_sequences_refuses_a_stopped_study(estimate):
    with pytest.raises(TrialsError, match="until"):
        estimate(PAIRS)


def test_audit_of_a_stopped_study_is_that_of_its_probe():
    estimates = bl.audit(PAIRS)
    assert {"agreement", "replies"} < estimates.attrs["not_run"].keys()
    assert estimates["probe"].unique().tolist() == ["position"]
