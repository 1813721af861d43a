"""What every probe owes: each module of `biaslab.probes` is found here by itself and held to the protocol."""

import dataclasses
import inspect
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.calibration.population import population_for
from biaslab.core import STATUSES, ProbeInterface, request_key
from biaslab.core.errors import BiaslabError, InputError, MissingDataWarning
from biaslab.probes import available, find_metric, find_probe
from biaslab.stats.frame import LEADING, TRAILING

PROBES = available()
ROOT = Path(__file__).resolve().parents[2]
JUDGES = {
    "fair": {"quality": 1.0, "noise": 1.0},
    "refusing": {"quality": 1.0, "position": 1.5, "noise": 1.0, "refusal": 0.4, "selective": True},
}
#: By default the one that shows most: it is biased, and some of its judgements are missing.
CASES = [pytest.param(name, marks=[] if name == "refusing" else [pytest.mark.thorough]) for name in JUDGES]

ATTRIBUTES = ("coherence", "fluency")
#: Asked for both attributes, one of pairs and one of scores; the others for the first, but anchoring, whose orders are
#: of four.
TWO = {"position", "verbosity"}


@pytest.fixture(scope="module", params=sorted(PROBES))
def probe(request):
    attributes = {} if request.param == "anchoring" else {"attributes": ATTRIBUTES[: 1 + (request.param in TWO)]}
    fields = {field.name for field in dataclasses.fields(PROBES[request.param])}
    both = {"asks": ("pairs", "scores")} if "asks" in fields else {}  # all forms that it can be asked in
    return PROBES[request.param](**attributes, **both, resampling=bl.Resampling(n=300))


@pytest.fixture(scope="module", params=CASES)
def judge(request, graded):
    return bl.SimulatedJudge(graded, **JUDGES[request.param])


@pytest.fixture(scope="module")
def trials(probe, judge, graded):
    return bl.collect(probe, judge, graded, progress=False)


@pytest.fixture(scope="module")
def estimates(probe, trials):
    return estimate(probe, trials)


@pytest.fixture(scope="module")
def asked(probe, trials):
    """The primary metrics alone."""
    return estimate(probe, trials, list(probe.primary))


def estimate(probe, trials, metrics=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        return probe.estimate(trials, metrics)


def test_is_a_frozen_dataclass_named_after_its_module(probe):
    assert isinstance(probe, ProbeInterface)
    assert find_probe(probe.name) is type(probe)
    assert getattr(bl.probes, type(probe).__name__) is type(probe)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(probe, dataclasses.fields(probe)[0].name, None)


def test_has_a_notebook_and_a_test(probe):
    assert (ROOT / "notebooks" / f"{probe.name}.ipynb").is_file()
    assert (ROOT / "tests" / "probes" / f"test_{probe.name}.py").is_file()


def test_documents_its_metrics_parameters_and_source(probe):
    text = type(probe).__doc__
    assert all(f"``{metric}``" in text for metric in probe.primary)
    for field in dataclasses.fields(probe):
        owner = next(kind for kind in type(probe).__mro__ if field.name in inspect.get_annotations(kind))
        assert any(f"{field.name} :" in kind.__doc__ for kind in (type(probe), owner)), field.name
    assert "Examples\n" in text


def test_design_is_pure_and_repeatable(probe, graded):
    assert list(probe.design(graded)) == list(probe.design(graded))


def test_rows_of_a_context_may_stand_apart(probe, graded):
    data, key = graded.head(4), request_key
    apart = data.candidates.assign(turn=data.candidates.groupby("context_id").cumcount()).sort_values("turn")
    apart = dataclasses.replace(data, candidates=apart.drop(columns="turn").reset_index(drop=True))
    assert {key(trial.request, "") for trial in probe.design(apart)} == {
        key(trial.request, "") for trial in probe.design(data)
    }


def test_trials_are_rows_with_a_status(probe, trials, graded):
    assert len(trials) == len(list(probe.design(graded)))
    assert set(trials["status"]) <= set(STATUSES)
    assert trials["value"].notna().equals(trials["status"].isin(["ok", "tie"]))
    assert set(trials["context_id"]) == set(graded.candidates["context_id"])


def test_estimates_have_the_agreed_columns(probe, estimates):
    assert tuple(estimates.columns[: len(LEADING)]) == LEADING
    assert tuple(estimates.columns[-len(TRAILING) :]) == TRAILING
    assert set(probe.primary) <= set(estimates["metric"])
    assert (estimates["probe"] == probe.name).all()
    cell = [c for c in estimates.columns if c not in TRAILING]
    assert not estimates.duplicated(cell).any()


def test_estimates_are_in_order(probe, estimates):
    known = estimates[estimates["estimate"].notna()]
    assert len(known)
    untested = known["ci_low"].isna()
    assert known.loc[untested, "note"].str.contains("no test").all()
    known = known[~untested]
    assert (known["ci_low"] <= known["estimate"] + 1e-9).all()
    assert (known["estimate"] <= known["ci_high"] + 1e-9).all()
    p = estimates["p_value"].dropna()
    assert p.between(0, 1).all()
    primary = estimates["metric"].isin(probe.primary) & estimates["p_value"].notna()
    assert estimates.loc[primary, "q_value"].notna().all()
    assert (estimates.loc[primary, "mde"].gt(0) | estimates.loc[primary, "note"].str.len().gt(0)).all()
    assert estimates.loc[estimates["estimate"].isna(), "note"].str.len().gt(0).all()


@pytest.mark.slow
def test_trials_saved_as_a_table_are_read_back(probe, trials, asked, tmp_path):
    """With the conditions of this probe as numbers and flags where they are: nothing a table cannot say."""
    trials.to_csv(tmp_path / "trials.csv", index=False)
    again = bl.read_judgements(tmp_path / "trials.csv")
    assert again.attrs["malformed"] == again.attrs["duplicates"] == 0
    numbers = ["estimate", "ci_low", "ci_high", "p_value"]
    pd.testing.assert_frame_equal(estimate(probe, again, list(probe.primary))[numbers], asked[numbers])


def test_only_requested_metrics_are_estimated(probe, trials, estimates, asked):
    assert set(asked["metric"]) == set(probe.primary)
    cell = [c for c in estimates.columns if c not in TRAILING]
    wanted = set(asked[cell].astype(str).itertuples(index=False, name=None))
    rows = estimates[[row in wanted for row in estimates[cell].astype(str).itertuples(index=False, name=None)]]
    pd.testing.assert_frame_equal(rows.reset_index(drop=True), asked, check_dtype=False)
    with pytest.raises(InputError, match=probe.primary[0]):
        estimate(probe, trials, ["charm"])


def test_every_primary_metric_says_how_it_is_calibrated(probe):
    known = {field.name for field in dataclasses.fields(bl.SimulatedJudge)}
    assert probe.primary
    for metric in probe.metrics:
        assert metric.calibration is not None or not metric.primary, metric.name
        if metric.calibration is not None:
            calibration = metric.calibration
            assert metric.null is not None, metric.name
            assert calibration.fair != calibration.planted, metric.name
            assert {*calibration.fair, *calibration.planted} <= known, metric.name
            type(probe)(**calibration.parameters)


class LastBit:
    """A judge whose probabilities differ from another's by one in the last place, as another processor's do."""

    def __init__(self, judge):
        self.judge, self.id, self.kinds, self.check = judge, judge.id, judge.kinds, judge.check
        self.thinks = judge.thinks

    def ask(self, requests):
        for count, (request, reply) in enumerate(self.judge.ask(requests)):
            moved = enumerate(reply.logprobs or (), count)
            down = [math.nextafter(value, -math.inf) if at % 3 else value for at, value in moved]
            yield request, dataclasses.replace(reply, logprobs=tuple(down) or None)


@pytest.mark.slow
def test_estimates_are_reproducible_up_to_the_last_bit(probe, judge, graded, estimates):
    """Made again, from probabilities that differ as another processor's do: whatever is drawn is drawn by seed."""
    nudged = estimate(probe, bl.collect(probe, LastBit(judge), graded, progress=False))
    pd.testing.assert_frame_equal(nudged, estimates, rtol=1e-6, atol=1e-9)
    assert bl.report.verdicts(nudged) == bl.report.verdicts(estimates)


@pytest.mark.slow
@pytest.mark.parametrize(
    "quality", [pytest.param(1.0, id="invariant"), pytest.param(0.0, id="constant", marks=pytest.mark.thorough)]
)
def test_differences_in_the_last_bits_are_no_findings(probe, graded, quality):
    """Every metric of a judge that no order, wording or scale moves, and of one that nothing moves."""
    judge = bl.SimulatedJudge(graded, quality=quality)
    trials = bl.collect(probe, judge, graded, progress=False)
    expected = estimate(probe, trials)
    bits = np.random.default_rng(0).integers(-4, 5, (2, len(trials)))
    value = trials["value"] * (1 + bits[0] * 2.0**-52) + bits[1] * 1e-17
    pd.testing.assert_frame_equal(estimate(probe, trials.assign(value=value)), expected, rtol=1e-6, atol=1e-8)
    tiny = (expected["ci_high"] - expected["ci_low"]).abs() < 1e-9
    null = [find_metric(metric, probe.name).null for metric in expected["metric"]]
    assert (expected.loc[tiny & np.isclose(expected["estimate"], np.array(null, float)), "p_value"].dropna() == 1).all()


def test_estimate_without_answers_warns_with_the_reason(probe, trials):
    nothing = trials.assign(value=np.nan, status=np.resize(["refused", "unparsable"], len(trials)))
    with pytest.warns(MissingDataWarning):
        primary = probe.estimate(nothing, list(probe.primary))
    assert set(primary["metric"]) <= set(probe.primary)
    assert len(primary)
    assert primary["estimate"].isna().all()
    assert primary["note"].str.len().gt(0).all()
    assert (primary["n_dropped"] > 0).all()


@pytest.mark.slow
def test_planted_bias_is_found_and_its_absence_not(probe):
    """What a metric declares as planted is found in a study much larger than it needs; a fair judge is not accused."""
    for metric in probe.metrics:
        if (calibration := metric.calibration) is None:
            continue
        population = population_for(calibration, 200)
        chosen = type(probe)(**calibration.parameters)
        p_values = {}
        for name, settings in (("fair", calibration.fair), ("planted", calibration.planted)):
            judge = bl.SimulatedJudge(population, **settings)
            [row] = estimate(chosen, bl.collect(chosen, judge, population, progress=False), [metric.name]).iloc
            p_values[name] = row["p_value"]
        assert p_values["fair"] > 0.001, metric.name
        assert p_values["planted"] < 0.01, metric.name


def test_unknown_probe_error_lists_the_known_ones():
    with pytest.raises(InputError, match="position"):
        find_probe("telepathy")
    with pytest.raises(AttributeError, match="Position"):
        _ = bl.probes.Telepathy


def test_refuses_an_unknown_attribute_before_any_judge_is_asked(probe, graded):
    if "attributes" not in {field.name for field in dataclasses.fields(probe)}:
        pytest.skip("the probe has no attributes")
    with pytest.raises(BiaslabError, match="beauty"):
        list(dataclasses.replace(probe, attributes=["beauty"]).design(graded))
