"""Many contexts are resampled, flipped and left out in random groups: errors as from all contexts, by other means."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, strategies as st
from scipy import stats
from scipy.special import expit

from biaslab.stats import Ratio, Resampling, linear_model, log_odds_at_equal, logistic_model
from biaslab.stats.heaping import myers_estimate
from biaslab.stats.inference import GROUPS, grouped_codes, in_groups, random_groups
from biaslab.stats.permutation import sign_flip

MANY = 2 * GROUPS + 3_000


@given(st.integers(1, 500), st.integers(1, 50), st.integers(0, 9))
def test_groups_differ_in_size_by_at_most_one_context(contexts, groups, seed):
    sizes = np.bincount(random_groups(contexts, groups, seed), minlength=groups)
    assert sizes.sum() == contexts
    assert np.ptp(sizes) <= 1


def test_groups_keep_the_totals_and_the_variance_of_contexts():
    sums = np.random.default_rng(0).gamma(2.0, size=(MANY, 2))
    together = in_groups(sums, seed=1)
    assert together.shape == (GROUPS, 2)
    assert together.sum(axis=0) == pytest.approx(sums.sum(axis=0))
    centred = sums - sums.mean(axis=0)
    squares = [(part**2).sum(axis=0) for part in (in_groups(centred, seed=1), centred)]
    assert squares[0] == pytest.approx(squares[1], rel=0.08)


def test_fewer_contexts_stay_as_they_are():
    few = np.arange(2.0 * GROUPS - 1)
    assert in_groups(few, seed=0) is few
    assert grouped_codes(few.astype(int)).tolist() == few.tolist()


def test_ratio_interval_of_many_contexts_is_normal():
    rng = np.random.default_rng(2)
    size = rng.integers(1, 4, MANY)
    won = rng.binomial(size, 0.6)
    found = Ratio(np.arange(MANY), won, size).estimate(Resampling(n=20_000))
    value = won.sum() / size.sum()
    error = np.sqrt(((won - value * size) ** 2).sum()) / size.sum()
    assert found.estimate == pytest.approx(value)
    assert found.n_contexts == MANY
    assert [found.ci_low, found.ci_high] == pytest.approx([value - 1.96 * error, value + 1.96 * error], abs=0.1 * error)


@pytest.mark.parametrize("shift", [0.0, 0.012])
def test_flipping_groups_gives_the_p_value_of_many_contexts(shift):
    values = np.random.default_rng(3).normal(shift, 1.0, MANY)
    expected = stats.ttest_1samp(values, 0.0).pvalue
    assert sign_flip(values) == pytest.approx(expected, abs=0.02)


@pytest.fixture(scope="module")
def verdicts():
    rng = np.random.default_rng(4)
    context = np.repeat(np.arange(MANY), 2)
    human, length = rng.normal(size=(2, len(context)))
    lean = np.repeat(rng.normal(0, 0.7, MANY), 2)
    won = rng.random(len(context)) < expit(0.8 * human + 0.1 * length + lean)
    return pd.DataFrame({"context_id": context, "won": won * 1.0, "human": human, "length": length, "one": 1.0})


def test_logistic_errors_are_those_of_the_cluster_sandwich(verdicts):
    names = ["one", "length", "human"]
    found = logistic_model(verdicts, "won", names, Resampling())
    fit = sm.GLM(verdicts["won"], verdicts[names], sm.families.Binomial()).fit(
        cov_type="cluster", cov_kwds={"groups": verdicts["context_id"]}
    )
    assert [found[name].estimate for name in names] == pytest.approx(fit.params.tolist(), abs=1e-9)
    assert [found[name].se for name in names] == pytest.approx(fit.bse.tolist(), rel=0.05)


def test_log_odds_at_equal_scores_match_the_logistic_model(verdicts):
    sides = pd.DataFrame({"context_id": np.tile(np.arange(len(verdicts)), 2)})
    sides["human"] = np.concatenate([verdicts["human"], -verdicts["human"]]) / 2
    found = log_odds_at_equal(verdicts, "won", ["one", "length"], sides, Resampling())(0.0)
    plain = logistic_model(verdicts, "won", ["one", "length", "human"], Resampling())["length"]
    assert [found.estimate, found.se] == pytest.approx([plain.estimate, plain.se], rel=1e-6)
    assert found.n_contexts == plain.n_contexts == MANY


def test_linear_errors_are_those_of_the_cluster_sandwich(verdicts):
    found = linear_model(verdicts, "won ~ human + length")["length"]
    fit = sm.OLS(verdicts["won"], verdicts[["one", "human", "length"]]).fit(
        cov_type="cluster", cov_kwds={"groups": verdicts["context_id"]}
    )
    assert found.se == pytest.approx(fit.bse["length"], rel=0.05)
    assert found.n_contexts == MANY


def test_heaps_of_many_contexts_need_little_memory():
    levels = range(1, 101)
    scores = np.random.default_rng(5).integers(1, 101, 60_000)
    found = myers_estimate(np.arange(len(scores)), np.eye(100)[scores - 1], levels, Resampling(n=200))
    assert found.n_contexts == (scores < 100).sum()
    assert found.estimate < 0.01
    assert found.ci_high < 0.02
