"""The common log odds ratio of both orders: against statsmodels, and from few samples."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from statsmodels.stats.contingency_tables import StratifiedTable

from biaslab.measures.ranking.order_odds import first_position_log_odds
from biaslab.stats import Resampling


def drawn(rng, contexts, k, bias, size=3):
    """Samples of both orders of pairs whose qualities differ."""
    context = np.repeat(np.arange(contexts), size)
    quality = rng.normal(0, 1, len(context))
    shares = {
        f"first_{name}": rng.binomial(k, expit(sign * quality + bias)) / k for name, sign in (("ij", 1), ("ji", -1))
    }
    samples = {"samples_ij": float(k), "samples_ji": float(k)}
    return pd.DataFrame({"context_id": context, "pair": np.arange(len(context)), **shares, **samples})


def test_log_odds_are_mantel_and_haenszels():
    blocks = drawn(np.random.default_rng(0), 10, 4, 0.7)
    tables = []
    for row in blocks.itertuples():
        first, there = 4 * row.first_ij, 4 * row.first_ji
        tables.append(np.array([[first, 4 - first], [4 - there, there]]))
    found = first_position_log_odds(blocks, Resampling())
    assert found.estimate == pytest.approx(StratifiedTable(tables).logodds_pooled / 2)


def test_replicates_share_a_stratum_and_ties_add_nothing():
    one = drawn(np.random.default_rng(1), 10, 4, 0.5)
    rows = []
    for row in one.itertuples():
        for place in range(4):
            pair = {"context_id": row.context_id, "pair": row.pair, "samples_ij": np.nan, "samples_ji": np.nan}
            rows.append(
                pair | {"first_ij": float(place < 4 * row.first_ij), "first_ji": float(place < 4 * row.first_ji)}
            )
        rows.append(pair | {"first_ij": np.nan, "first_ji": np.nan})
    again, found = (first_position_log_odds(blocks, Resampling()) for blocks in (pd.DataFrame(rows), one))
    assert (again.estimate, again.ci_low, again.p_value) == pytest.approx((found.estimate, found.ci_low, found.p_value))


def test_without_informative_pairs_it_is_undefined_with_a_reason():
    blocks = pd.DataFrame({"context_id": list("aabb"), "pair": range(4), "samples_ij": np.nan, "samples_ji": np.nan})
    never = first_position_log_odds(blocks.assign(first_ij=1.0, first_ji=0.0), Resampling())
    always = first_position_log_odds(blocks.assign(first_ij=1.0, first_ji=1.0), Resampling())
    for found in (never, always):
        assert np.isnan(found.estimate)
        assert "undefined" in found.note
        assert found.n_contexts == 2


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("bias", [0.0, 0.4])
def test_few_samples_do_not_move_it(k, bias):
    rng = np.random.default_rng(2)
    found = [first_position_log_odds(drawn(rng, 24, k, bias), Resampling(n=100)) for _ in range(300)]
    assert np.mean([one.estimate for one in found]) == pytest.approx(bias, abs=0.06)
    assert 0.92 < np.mean([one.ci_low <= bias <= one.ci_high for one in found]) < 0.99
