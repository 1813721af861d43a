"""The estimates frame: its columns, and corrections of p-values against statsmodels."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.stats.multitest import multipletests

from biaslab.core.errors import InputError
from biaslab.stats import adjust
from biaslab.stats.frame import LEADING, TRAILING, estimate_rows, estimates_frame
from biaslab.stats.inference import Resampling
from biaslab.stats.ratio import Ratio

NAN = float("nan")


def test_estimate_row_holds_standard_error_and_counts():
    found = Ratio(range(8), [3, 4, 2, 4, 3, 4, 4, 3], [4] * 8, 0.5).estimate(Resampling(n=200, seed=4))
    rows = estimate_rows({"rate": found}, {"judge": "j", "dataset": "d", "attribute": "a"}, Resampling(seed=4), 32, 1)
    frame = estimates_frame(rows, "position", ["rate"], ["attribute"])
    assert tuple(frame.columns) == (*LEADING, "attribute", *TRAILING)
    row = frame.iloc[0]
    assert (row["estimate"], row["se"], row["q_value"]) == (found.estimate, found.se, found.p_value)
    assert (row["n_trials"], row["n_dropped"], row["seed"], row["attribute"]) == (32, 1, 4, "a")


@settings(max_examples=25)  # multipletests collects garbage each time
@given(st.lists(st.one_of(st.floats(0, 1), st.just(NAN)), max_size=20))
def test_q_values_are_those_of_statsmodels(p_values):
    known = np.array([p for p in p_values if not np.isnan(p)])
    found = adjust(p_values)
    assert np.array_equal(np.isnan(found), np.isnan(p_values))
    if len(known):
        assert found[~np.isnan(found)] == pytest.approx(multipletests(known, method="fdr_bh")[1], abs=1e-9)


def test_q_values_check_range_and_skip_other_metrics():
    with pytest.raises(InputError, match="0 to 1"):
        adjust([1.2])
    rows = [{"metric": "rate", "p_value": p} for p in (0.01, 0.02, 0.04)] + [{"metric": "other", "p_value": 0.5}]
    frame = estimates_frame(rows, "position", ["rate"], [])
    assert frame["q_value"].tolist()[:3] == pytest.approx([0.03, 0.03, 0.04])
    assert np.isnan(frame["q_value"].iloc[3])
