"""The sweep of pairs: exact temperatures against samples, planted shifts, hand-made frames, and other generators."""

import numpy as np
import pandas as pd
import pytest
from studies import row_of, run

import biaslab as bl
from biaslab import calibration
from biaslab.calibration import cells
from biaslab.calibration.asked_pairs import AskedPairs
from biaslab.calibration.generators import GENERATORS, generate
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.probes.sweep import Sweep
from biaslab.probes.template import Template

ONE = {"attributes": ["coherence"], "asks": ["pairs"], "n_candidates": 4}
ASKED = [name for name, each in GENERATORS.items() if isinstance(each.texts, AskedPairs)]
KINDS = {"sweep": Sweep, "template": Template}


def test_pairs_ask_choices_once_and_text_per_temperature(graded):
    trials = list(Sweep(**ONE, temperatures=[0, 0.5, 1], samples=3).design(graded))
    pairs = 8 * 4 * 3
    plain = [t for t in trials if t.condition["cot"] == "no CoT"]
    assert len(plain) == len({t.request for t in plain}) == pairs
    reasoned = [t for t in trials if t.condition["cot"] == "CoT"]
    assert len(reasoned) == len({t.request for t in reasoned}) == pairs * (1 + 3 + 3)
    assert {t.request.max_tokens for t in reasoned} == {128}
    assert all("reasons" in t.request.messages[0].content for t in reasoned)
    orders = {(t.context_id, t.candidate_id, t.opponent_id) for t in plain}
    assert orders == {(context, two, one) for context, one, two in orders}


def test_questions_without_reasons_are_those_of_position(graded):
    ours = {t.request for t in Sweep(**ONE | {"n_candidates": None}, cot=[False]).design(graded)}
    assert ours == {t.request for t in bl.probes.Position(["coherence"], [1]).design(graded)}


@pytest.mark.slow
def test_samples_of_pairs_converge_to_exact_temperatures(graded):
    judge = bl.SimulatedJudge(graded, quality=0.6, position=0.4, noise=0.5)
    exact, text = (
        run(Sweep(**ONE, temperatures=[0.0, 0.5, 2.0], cot=[False], **how), judge, graded)
        for how in ({}, {"answer": "text", "samples": 30})
    )
    for temperature in (0.0, 0.5, 2.0):
        for metric in ("comparative_accuracy", "first_position_rate", "order_consistency", "alpha"):
            one, two = (row_of(each, metric, temperature=temperature)["estimate"] for each in (exact, text))
            assert two == pytest.approx(one, abs=0.04), (metric, temperature)
    shifts = [row_of(each, "temperature_accuracy_shift")["estimate"] for each in (exact, text)]
    assert shifts[1] == pytest.approx(shifts[0], abs=0.03)
    assert row_of(exact, "alpha", temperature=0.0)["note"].startswith("1 by construction")


def test_shift_is_a_difference_of_its_metric(graded):
    found = run(Sweep(**ONE, temperatures=[0, 1]), bl.SimulatedJudge(graded, quality=0.6, reason_first=0.3), graded)
    for metric, of in (("cot_accuracy_shift", "comparative_accuracy"), ("cot_first_shift", "first_position_rate")):
        with_reasons, without = (row_of(found, of, cot=cot, temperature=1.0)["estimate"] for cot in ("CoT", "no CoT"))
        assert row_of(found, metric, temperature=1.0)["estimate"] == pytest.approx(with_reasons - without)
    hot, cold = (row_of(found, "comparative_accuracy", cot="no CoT", temperature=t)["estimate"] for t in (1.0, 0.0))
    shift = row_of(found, "temperature_accuracy_shift", cot="no CoT")
    assert shift["estimate"] == pytest.approx(hot - cold)
    assert shift["p_value"] < 0.01


def test_reasons_that_favour_the_first_are_found(graded):
    options = {**ONE, "temperatures": [0.0], "samples": 1}
    biased = run(Sweep(**options), bl.SimulatedJudge(graded, quality=0.6, noise=0.5, reason_first=0.5), graded)
    fair = run(Sweep(**options), bl.SimulatedJudge(graded, quality=0.6, noise=0.5), graded)
    assert row_of(biased, "cot_first_shift")["ci_low"] > 0.2
    assert row_of(biased, "cot_accuracy_shift")["ci_high"] < -0.1
    assert abs(row_of(fair, "cot_first_shift")["estimate"]) < 0.1


def test_counted_samples_stand_for_temperature_one_alone(graded):
    judge = bl.Sampled(bl.SimulatedJudge(graded, quality=0.6), 8)
    trials = bl.collect(Sweep(**ONE, temperatures=[0, 1], cot=[False]), judge, graded, progress=False)
    counted = trials["samples"].notna()
    assert set(trials.loc[~counted, "temperature"]) == {0.0}
    found = Sweep(**ONE, temperatures=[0, 1]).estimate(trials)
    value = trials.loc[counted]
    right = np.where(value["human_gap"] > 0, value["value"], 1 - value["value"])[value["human_gap"] != 0]
    assert row_of(found, "comparative_accuracy", temperature=1.0)["estimate"] == pytest.approx(right.mean())
    assert np.isfinite(row_of(found, "temperature_accuracy_shift")["p_value"])


def by_hand(lost=()):
    """Three contexts, one pair in both orders: right without reasons, with them only where x stands first."""
    rows = [
        (context, *pair, gap, cot, value)
        for context in "abc"
        for pair, gap, plain, reasoned in ((("x", "y"), 1.0, 1.0, 1.0), (("y", "x"), -1.0, 0.0, 1.0))
        for cot, value in (("no CoT", plain), ("CoT", reasoned))
    ]
    trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "human_gap", "cot", "value"])
    fixed = {"judge": "j", "dataset": "d", "attribute": "q", "scale": "pairs", "answer": "text", "status": "ok"}
    fixed |= {"temperature": 1.0, "replicate": 0, "tokens": 3, "human": np.nan, "label": np.nan, "label_mass": np.nan}
    trials = trials.assign(**fixed)
    for context in lost:
        gone = (trials["context_id"] == context) & (trials["cot"] == "CoT") & (trials["candidate_id"] == "x")
        trials.loc[gone, ["value", "status"]] = np.nan, "unparsable"
    return trials


def test_shifts_computed_by_hand():
    found = Sweep(asks=["pairs"], temperatures=[1.0]).estimate(by_hand())
    assert row_of(found, "cot_accuracy_shift")["estimate"] == pytest.approx(0.5 - 1)
    assert row_of(found, "cot_first_shift")["estimate"] == pytest.approx(1 - 0.5)
    assert row_of(found, "order_consistency", cot="CoT")["estimate"] == 0
    assert row_of(found, "tokens", cot="CoT")["estimate"] == 3
    assert "was not asked" in row_of(found, "temperature_accuracy_shift", cot="CoT")["note"]


def test_a_pair_that_lacks_a_verdict_leaves_both_sides():
    with pytest.warns(MissingDataWarning):
        found = Sweep(asks=["pairs"], temperatures=[1.0]).estimate(by_hand(lost="c"))
    row = row_of(found, "cot_accuracy_shift")
    assert (row["estimate"], row["n_contexts"], row["n_dropped"]) == (pytest.approx(-0.5), 2, 4)
    assert row_of(found, "parse_rate", cot="CoT")["estimate"] == pytest.approx(5 / 6)


@pytest.mark.slow
def test_scores_stay_as_they_are_beside_pairs(graded):
    options = {"attributes": ["coherence"], "temperatures": [0, 1], "samples": 2, "n_candidates": 3}
    judge = bl.SimulatedJudge(graded, noise=0.5)
    alone, both = (run(Sweep(**options, asks=asks), judge, graded) for asks in (["scores"], ["pairs", "scores"]))
    both = both[both["scale"] != "pairs"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone.drop(columns="q_value"), both.drop(columns="q_value"))


def test_pairs_need_two_candidates():
    with pytest.raises(InputError, match="n_candidates"):
        Sweep(asks=["pairs"], n_candidates=1)
    with pytest.raises(InputError, match="asks"):
        Sweep(asks=["lists"])


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("k", [None, 1])
def test_pairs_asked_in_two_ways_are_read_by_their_probes(name, k):
    generator = GENERATORS[name]
    [probe] = generator.probes
    metric = next(each for each in KINDS[probe].metrics if cells.applies(KINDS[probe], each, "exact", name))
    biased, fair = (
        KINDS[probe](**metric.calibration.parameters)
        .estimate(generate(generator, probe, 200, planted=planted, k=k), [metric.name])
        .iloc[0]
        for planted in (True, False)
    )
    assert biased["p_value"] < 0.001
    assert fair["p_value"] > 0.001
    assert abs(fair["estimate"]) < abs(biased["estimate"]) / 2


@pytest.mark.thorough
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("mode", ["exact", "text"])
def test_pairs_asked_in_two_ways_keep_the_bands(name, mode):
    """Reduced: 200 studies of 24 contexts; `biaslab validate --all` runs them all."""
    kinds = [KINDS[probe] for probe in GENERATORS[name].probes]
    found = bl.validate(kinds, studies=200, population=1000, contexts=[24], generators=[name], modes=[mode], curve=[])
    bad = calibration.outside(found)
    assert bad.empty, "\n".join(map(calibration.describe, bad.itertuples()))
