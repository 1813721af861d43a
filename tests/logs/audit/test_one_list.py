"""Lists judged in one order each: estimates, type-I error and coverage by a generator of its own, and balance."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr, ttest_1samp

import biaslab as bl
from biaslab.logs.audit.one_list import OneList
from biaslab.stats import Resampling

NAMES = np.array(["weak", "middling", "strong", "best"])
WORTH = np.array([0.0, 0.5, 1.0, 2.0])


def lists(items, position, seed, sorted_by_worth=False):
    """Return lists of four systems of unequal worth, each in one random order, ranked by worth, position and noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(items):
        order = np.arange(4)[::-1] if sorted_by_worth else rng.permutation(4)
        utility = WORTH[order] + position * np.array([1.0, 0.0, 0.0, 0.0]) + rng.gumbel(size=4)
        ranking = NAMES[order][np.argsort(-utility)]
        rows.append({"question": f"q{item}", "judge": "j", "candidates": NAMES[order].tolist(),
                     "ranking": ranking.tolist()})  # fmt: skip
    return pd.DataFrame(rows)


def audited(table):
    found = bl.audit(bl.read_judgements(table), only=["one_list"], resampling=Resampling(n=200))
    return found.set_index("metric")


def test_estimates_are_those_of_an_independent_computation():
    table = lists(80, 1.0, seed=1)
    first = np.array([row["candidates"][0] == row["ranking"][0] for row in table.to_dict("records")], float)
    rho = [spearmanr(range(4), [row["ranking"].index(name) for name in row["candidates"]])[0]
           for row in table.to_dict("records")]  # fmt: skip
    found = audited(table)
    assert found.loc["first_place_excess", "estimate"] == pytest.approx(first.mean() - 0.25)
    assert found.loc["place_rank_correlation", "estimate"] == pytest.approx(np.mean(rho))
    assert found.loc["place_rank_correlation", "p_value"] == pytest.approx(ttest_1samp(rho, 0.0).pvalue, rel=0.2)
    assert "assumes random order: systems balanced (p 0." in found.loc["first_place_excess", "method"]


def test_an_order_by_quality_is_not_taken_for_random():
    found = audited(lists(40, 0.0, seed=2, sorted_by_worth=True))
    assert found["estimate"].isna().all()
    assert "quality cannot be separated from position" in found.loc["first_place_excess", "note"]


def test_unreadable_lists_are_missing_and_named_on_the_page():
    table = lists(40, 1.0, seed=3)
    table["ranking"] = [None if n % 8 == 0 else given for n, given in enumerate(table["ranking"])]
    with pytest.warns(bl.errors.MissingDataWarning, match="20 of 160 judgements are left out"):
        found = bl.audit(bl.read_judgements(table), only=["one_list"], resampling=Resampling(n=200))
    assert found.set_index("metric").loc["first_place_excess", "n_dropped"] == 20
    page = bl.report.page(found, reference=None)
    assert "missing judgements, which may bias an estimate:" in page
    assert "! one_list: 20 of 160 judgements are left out" in page


@pytest.mark.thorough
@pytest.mark.parametrize("items", [24, 60, 200])
def test_type_one_error_and_coverage_of_lists(items):
    measure = OneList(Resampling(n=200))
    odds = np.exp(WORTH)  # of a list with Gumbel noise, the best is chosen as by Plackett and Luce
    truth = np.mean(np.e * odds / (odds.sum() - odds + np.e * odds)) - 0.25
    rejected, covered = [], []
    for seed in range(400):
        fair, planted = (
            measure.estimate(bl.read_judgements(lists(items, position, seed))).set_index("metric")
            for position in (0.0, 1.0)
        )
        rejected.append(fair.loc["first_place_excess", "p_value"] < 0.05)
        ends = planted.loc["first_place_excess", ["ci_low", "ci_high"]]
        if ends.notna().all():  # one order in a hundred is taken for unbalanced
            covered.append(ends["ci_low"] <= truth <= ends["ci_high"])
    print(items, np.mean(rejected), np.mean(covered), len(covered))  # noqa: T201 - the figures
    assert 0.025 <= np.mean(rejected) <= 0.075
    assert 0.92 <= np.mean(covered) <= 0.98
