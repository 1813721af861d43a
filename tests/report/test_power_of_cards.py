"""What a card calls detectable is found on it with 80 % power: rows made by numpy and scipy alone."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from biaslab import report
from biaslab.report.verdicts import detectable
from biaslab.stats import corrected_effects, critical_p, inflation


def one_card(rng, shifts, contexts):
    """A row a judge: contexts' rates around ½, with a t test and interval of scipy."""
    rows = []
    for number, shift in enumerate(shifts):
        values = 0.5 + shift + 0.15 * rng.standard_t(8, contexts)
        test = stats.ttest_1samp(values, 0.5)
        interval, error = test.confidence_interval(), stats.sem(values)
        row = {"probe": "position", "judge": f"judge {number}", "dataset": "d", "metric": "first_position_rate"}
        row |= {"attribute": "overall", "estimate": values.mean(), "ci_low": interval.low, "ci_high": interval.high}
        reach = stats.t.ppf(0.975, contexts - 1) + stats.t.ppf(0.8, contexts - 1)
        row |= {"ci_level": 0.95, "p_value": max(test.pvalue, 2.0 ** (1 - contexts)), "mde": reach * error}
        rows.append(row | {"n_contexts": contexts, "seed": 0, "note": ""})
    return report.findings(pd.DataFrame(rows))


def power_on_cards(tests, contexts, biased, studies, seed=0):
    """Return how often a card finds the shift that such cards state: with 80 % power, in one cell."""
    rng = np.random.default_rng(seed)
    shifts = np.r_[np.zeros(tests - biased), np.full(biased, 0.6)]
    stated = np.mean([one_card(rng, shifts, contexts)["detectable"].iloc[0] for _ in range(studies // 4)])
    alone = np.mean([one_card(rng, shifts, contexts)["mde"].iloc[0] for _ in range(20)])
    shifts[0] = stated
    cards = [one_card(rng, shifts, contexts).iloc[0] for _ in range(studies)]
    return np.mean([card["finding"] == "above" for card in cards]), stated / alone


@pytest.mark.slow
def test_a_shift_that_a_card_calls_detectable_is_found_on_it():
    found, growth = power_on_cards(tests=14, contexts=24, biased=0, studies=160)
    assert 0.72 <= found <= 0.9
    assert growth > 1.3


@pytest.mark.thorough
@pytest.mark.parametrize(("tests", "contexts", "biased"), [(14, 24, 0), (14, 24, 7), (14, 12, 0), (40, 60, 4)])
def test_power_on_cards(tests, contexts, biased):
    assert 0.75 <= power_on_cards(tests, contexts, biased, studies=1000)[0] <= 0.87


def test_detectable_effect_is_corrected_for_multiple_tests(make_row):
    rows = [make_row(attribute=str(i), p_value=p, judge=str(i)) for i, p in enumerate((0.3, 0.6, 0.9, 1e-9))]
    cells = report.findings(pd.DataFrame(rows))
    assert cells["detectable"].tolist() == pytest.approx(corrected_effects(cells).tolist())
    [level, *_] = critical_p(cells["p_value"], cells["judge"])
    assert level == pytest.approx(0.05 * 2 / 4)  # one of four is found whatever this one shows
    contexts = int(cells["n_contexts"].iloc[0])
    assert cells["detectable"].iloc[0] == pytest.approx(cells["mde"].iloc[0] * inflation(contexts, level))
    assert report.findings(pd.DataFrame(rows[:1]))["detectable"].iloc[0] == pytest.approx(cells["mde"].iloc[0])
    few = report.card(pd.DataFrame(rows[:3]).assign(n_contexts=6), reference=None)
    assert few.biases["detectable"].iloc[0] == "≥ 0.05 alone, nothing among 3 tests of 3 judges"
    assert "can detect ≥ 0.05 alone, nothing among 3 tests" in few.to_markdown()


def test_no_effect_needs_enough_contexts_to_detect_one(make_row):
    rows = [
        make_row(judge=str(i), metric="comparative_accuracy", p_value=0.4, ci_low=0.4, ci_high=0.6, n_contexts=6)
        for i in range(3)
    ]
    cells = report.findings(pd.DataFrame(rows))
    assert set(cells["finding"]) == {"blind"}
    assert cells["words"].iloc[0] == "6 contexts cannot show an effect of any size among 3 tests of 3 judges"
    enough = report.findings(pd.DataFrame(rows).assign(n_contexts=60))
    assert enough["words"].iloc[0].startswith("no effect detected; can detect ≥ 0.05 alone, ≥ 0.06 among 3 tests")
    assert detectable({"mde": float("nan"), "detectable": float("nan")}, "3 tests") == "–"
