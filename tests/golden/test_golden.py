"""Studies saved by commit ceca2fb, before estimation was rebuilt, give today what they gave then."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

HERE = Path(__file__).parent
MADE = runpy.run_path(str(HERE / "make.py"))
#: Intervals and tests that were made in several ways and are made in one now. Accuracy of pairs: by sign flips and a
#: bootstrap in one place, by Student's t in another; label mass: with and without the bounds 0 and 1.
#: Intervals of what is tested by t are what the test does not reject, those of rates by score. Text answers have
#: logits of positional bias, from counts, where they had none. Differences of pooled correlations, and shifts of
#: scores, have the test of their own interval, t, where signs were flipped; so have logits of positional bias.
ENDS, TESTS = ("ci_low", "ci_high"), ("p_value", "q_value")
MADE_ANEW = {
    "comparative_accuracy": (*ENDS, "p_value"),
    **dict.fromkeys(
        (
            "label_mass", "first_position_rate", "primacy_share", "score_share", "anchor_slope",
            "round_number_excess_5", "round_number_excess_10",
        ),
        ENDS,
    ),
    **dict.fromkeys(("reason_first_shift", "reason_shift", "first_position_logit"), (*ENDS, *TESTS)),
    **dict.fromkeys(("familiarity_excess", "familiarity_slope", "source_excess"), TESTS),
    **dict.fromkeys(("agreement_loss", "recipe_gain"), TESTS),
}  # fmt: skip
NO_LOGITS_OF_TEXT = {"position_text": {"first_position_logit": ("estimate", *ENDS, *TESTS, "mde", "n_contexts")}}
#: Differences of agreement between means of two samples, which are corrected for their noise now.
OF_SAMPLES = {"source_text": ("agreement_loss", "relative_loss"), "recipe_text": ("recipe_gain",)}
NUMBERS = ("estimate", "ci_low", "ci_high", "p_value", "q_value", "mde", "n_contexts", "n_trials", "n_dropped")


def estimated(study):
    probe, trials = MADE["probe_of"](study, MADE["STUDIES"][study]), pd.read_parquet(HERE / f"{study}.trials.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return probe.estimate(trials)


def keyed(estimates, then):
    columns = [name for name in then.columns if name not in (*NUMBERS, "ci_level", "method", "seed", "note")]
    keys = estimates[columns].astype(object).map(lambda value: "" if pd.isna(value) else str(value))
    return estimates.set_index(pd.MultiIndex.from_frame(keys)).sort_index()


@pytest.mark.parametrize("study", sorted(MADE["STUDIES"]))
def test_saved_trials_give_the_same_estimates(study):
    then = pd.read_parquet(HERE / f"{study}.estimates.parquet")
    now, then = keyed(estimated(study), then), keyed(then, then)
    assert set(then.index) <= set(now.index)
    now = now.loc[then.index]
    made_anew = MADE_ANEW | NO_LOGITS_OF_TEXT.get(study, {})
    for name in NUMBERS:
        values, expected = now[name].to_numpy(float), then[name].to_numpy(float)
        wrong = ~np.isclose(values, expected, rtol=1e-7, atol=1e-9, equal_nan=True)
        again = [*(metric for metric, names in made_anew.items() if name in names), *OF_SAMPLES.get(study, ())]
        wrong &= ~then["metric"].isin(again).to_numpy()
        if name == "mde":  # where fewer contexts differ than a test needs, the standard error promised too much
            wrong &= ~(now["note"].str.contains("few contexts differ") & (now["mde"] > then["mde"])).to_numpy()
        assert not wrong.any(), f"{name}\n{pd.DataFrame({'now': values, 'then': expected}, then.index)[wrong].head()}"
