"""Simulated studies: intervals cover the truth and tests keep their level, down to 8 contexts."""

import krippendorff
import numpy as np
import pandas as pd
import pytest

from biaslab.stats.correlation import correlation, correlation_difference, estimate_correlation
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model
from biaslab.stats.reliability import alpha_difference, estimate_alpha
from biaslab.stats.resample import Resampling

pytestmark = pytest.mark.thorough
STUDIES = 600
SLACK = 2.6 * np.sqrt(0.05 * 0.95 / STUDIES)  # Monte-Carlo error of a share of .05


def scores(rng, contexts, slope=1.0, items=6):
    """Two judges that see quality equally well, in some contexts better than in others, and human scores."""
    quality = rng.normal(size=(contexts, items)) + 0.5 * rng.normal(size=(contexts, 1))
    sight = slope + 0.4 * rng.normal(size=(contexts, 1))
    one, two = (sight * quality + rng.normal(size=quality.shape) for _ in range(2))
    context = np.repeat(np.arange(contexts), items)
    columns = {"one": one, "two": two, "human": np.round(2 * quality)}
    return pd.DataFrame({name: column.ravel() for name, column in columns.items()}).assign(context_id=context)


def ratings(rng, contexts):
    """Three annotators of four units a context, more precise in some contexts than in others."""
    truth = 0.6 * rng.normal(size=(contexts, 1, 1)) + rng.normal(size=(contexts, 4, 1))
    noise = 0.6 * np.exp(0.5 * rng.normal(size=(contexts, 1, 1))) * rng.normal(size=(contexts, 4, 3))
    place = np.indices(noise.shape).reshape(3, -1)
    score = np.clip(np.round(3 + truth + noise), 1, 5).ravel()
    return pd.DataFrame({"context_id": place[0], "unit": place[1], "annotator": place[2], "score": score})


def judge_studies(study, contexts, truth, studies=STUDIES):
    """Return the shares of intervals that cover the truth and of tests that reject."""
    found = [study(np.random.default_rng([contexts, s]), contexts, Resampling(n=500, seed=s)) for s in range(studies)]
    assert all(np.isfinite(e.ci_low) for e in found)
    return np.mean([e.ci_low <= truth <= e.ci_high for e in found]), np.mean([e.p_value < 0.05 for e in found])


@pytest.mark.parametrize("contexts", [8, 24])
@pytest.mark.parametrize("level", ["context", "dataset"])
def test_rank_correlation_is_covered(level, contexts):
    truth = correlation(scores(np.random.default_rng(0), 20_000), "one", "human", level).value
    covered, _ = judge_studies(
        lambda rng, n, r: estimate_correlation(scores(rng, n), "one", "human", r, level), contexts, truth
    )
    assert 0.93 - SLACK <= covered <= 0.97 + SLACK


@pytest.mark.parametrize("contexts", [8, 24])
@pytest.mark.parametrize("level", ["interval", "ordinal"])
def test_alpha_is_covered(level, contexts):
    many = ratings(np.random.default_rng(0), 20_000).pivot_table("score", "annotator", ["context_id", "unit"])
    truth = krippendorff.alpha(many.to_numpy(), level_of_measurement=level)
    covered, _ = judge_studies(
        lambda rng, n, r: estimate_alpha(ratings(rng, n), r, level, ["unit"]), contexts, truth, STUDIES // 2
    )
    assert 0.93 - 1.5 * SLACK <= covered <= 0.97 + 1.5 * SLACK


def differing_rates(rng, contexts, resampling):
    rates, sizes = rng.beta(8, 4, contexts), rng.integers(4, 30, size=(2, contexts))
    one, two = (Ratio(range(contexts), rng.binomial(size, rates), size) for size in sizes)
    return one.difference(two, resampling)


NULLS = {
    "rates": differing_rates,
    "correlations by context": lambda rng, n, r: correlation_difference(scores(rng, n), "one", "two", "human", r),
    "pooled correlations": lambda rng, n, r: correlation_difference(
        scores(rng, n), "one", "two", "human", r, "dataset"
    ),
    "one pooled correlation": lambda rng, n, r: estimate_correlation(
        scores(rng, n, slope=0.0), "one", "human", r, "dataset", null=0.0
    ),
    "alphas": lambda rng, n, r: alpha_difference(ratings(rng, n), ratings(rng, n), r, units=["unit"]),
    "slope": lambda rng, n, _: linear_model(regression(rng, n), "y ~ x", within=True)["x"],
}


def regression(rng, contexts):
    context = np.repeat(np.arange(contexts), 6)
    x = rng.normal(size=len(context)) + rng.normal(size=contexts)[context]
    y = (0.3 * rng.normal(size=contexts))[context] * x + rng.normal(size=contexts)[context] + rng.normal(size=len(x))
    return pd.DataFrame({"context_id": context, "x": x, "y": y})


@pytest.mark.parametrize("contexts", [8, 24])
@pytest.mark.parametrize("name", sorted(NULLS))
def test_null_studies_keep_test_level_and_interval_coverage(name, contexts):
    studies = STUDIES // 2 if name == "alphas" else STUDIES
    covered, rejected = judge_studies(NULLS[name], contexts, 0.0, studies)
    slack = SLACK * np.sqrt(STUDIES / studies)
    assert rejected <= 0.065 + slack
    assert covered >= 0.93 - slack
