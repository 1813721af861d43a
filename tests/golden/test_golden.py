"""Studies saved once give the same estimates today."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

HERE = Path(__file__).parent
MADE = runpy.run_path(str(HERE / "make.py"))
NUMBERS = (
    "estimate", "se", "ci_low", "ci_high", "bound_low", "bound_high", "p_value", "q_value", "mde", "n_contexts",
    "n_trials", "n_dropped",
)  # fmt: skip


def estimated(study):
    probe, trials = MADE["probe_of"](study, MADE["STUDIES"][study]), pd.read_parquet(HERE / f"{study}.trials.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return probe.estimate(trials)


def keyed(estimates, columns):
    keys = estimates[columns].astype(object).map(lambda value: "" if pd.isna(value) else str(value))
    return estimates.set_index(pd.MultiIndex.from_frame(keys)).sort_index()


@pytest.mark.parametrize("study", sorted(MADE["STUDIES"]))
def test_saved_trials_give_the_same_estimates(study):
    saved = pd.read_parquet(HERE / f"{study}.estimates.parquet")
    columns = [name for name in saved if name not in (*NUMBERS, "note")]
    now, saved = keyed(estimated(study), columns), keyed(saved, columns)
    assert list(now.index) == list(saved.index)
    for name in NUMBERS:
        values, expected = now[name].to_numpy(float), saved[name].to_numpy(float)
        wrong = ~np.isclose(values, expected, rtol=1e-7, atol=1e-9, equal_nan=True)
        assert not wrong.any(), f"{name}\n{pd.DataFrame({'now': values, 'saved': expected}, saved.index)[wrong].head()}"
