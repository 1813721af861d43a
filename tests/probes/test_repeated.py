"""Every metric of every probe: contexts that stand twice with the same requests prove no more than once."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslab.core.errors import SharedRequestsWarning

GOLDEN = Path(__file__).parents[1] / "golden"
MADE = runpy.run_path(str(GOLDEN / "make.py"))
NUMBERS = ["estimate", "se", "ci_low", "ci_high", "p_value", "mde"]
#: Estimates that the number of items enters (n − 1 in variances and alpha), by up to so much.
COUNTING = {"sample_alpha", "configuration_alpha", "configuration_gap", "alpha", "score_sd", "familiarity_slope",
            "source_slope", "verbosity_slope"}  # fmt: skip
#: Estimates of scores that are drawn at random.
DRAWN = {"sweep": {"agreement", "cot_shift", "temperature_shift"}, "score_distribution": {"agreement", "agreement_gain",
         "tie_rate"}}  # fmt: skip
#: The debiasing's folds are drawn at random too.
STUDIES = sorted(set(MADE["STUDIES"]) - {"comparative_symmetric"})
QUICK = {"position_text", "verbosity"}

pytestmark = pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")


@pytest.mark.parametrize("study", [pytest.param(s, marks=[] if s in QUICK else pytest.mark.slow) for s in STUDIES])
def test_duplicated_contexts_count_once(study):
    probe, trials = MADE["probe_of"](study, MADE["STUDIES"][study]), pd.read_parquet(GOLDEN / f"{study}.trials.parquet")
    again = trials.assign(context_id=trials["context_id"] + " again")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SharedRequestsWarning)
        once = probe.estimate(trials)
    with pytest.warns(SharedRequestsWarning, match="16 contexts .* 8 clusters"):
        twice = probe.estimate(pd.concat([trials, again], ignore_index=True))
    assert twice["metric"].tolist() == once["metric"].tolist()
    steady = ~once["metric"].isin(DRAWN.get(study, set())).to_numpy()
    assert once.loc[steady, "n_contexts"].equals(twice.loc[steady, "n_contexts"])
    loose = once["metric"].isin(COUNTING).to_numpy()[steady]
    for name in NUMBERS:
        now, then = (frame[name].to_numpy(float)[steady] for frame in (twice, once))
        near = np.isclose(now, then, rtol=1e-6, atol=1e-9, equal_nan=True)
        rough = np.isclose(now, then, rtol=0.05, atol=0.02, equal_nan=True)
        unsettled = (now > 0.5) & (then > 0.5) if name == "p_value" else np.zeros(len(now), bool)  # on either side
        assert (near | (loose & (rough | unsettled))).all(), name


@pytest.mark.slow
def test_contexts_that_share_some_requests_are_tested_together():
    trials = pd.read_parquet(GOLDEN / "position.trials.parquet")
    names = trials["context_id"].unique()
    one, other = (np.flatnonzero(trials["context_id"] == name)[0] for name in names[:2])
    shared = trials["key"].copy()
    shared.iloc[other] = shared.iloc[one]
    probe = MADE["probe_of"]("position", {})
    apart = probe.estimate(trials)
    with pytest.warns(SharedRequestsWarning, match="2 contexts .* 1 cluster "):
        together = probe.estimate(trials.assign(key=shared))
    assert together["estimate"].equals(apart["estimate"])
    metrics = ["first_position_rate", "first_position_logit", "order_consistency", "comparative_accuracy"]
    whole = apart["human_gap"].isna() & (apart["template"] == 1) & apart["metric"].isin(metrics)
    assert whole.sum() == len(metrics)
    assert (together.loc[whole, "n_contexts"] == apart.loc[whole, "n_contexts"] - 1).all()
