"""A remedy is named where a paired test shows that it helps; studies are made by numpy alone."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from biaslab import report
from biaslab.core.errors import TrialsError
from biaslab.report.remedy import best_remedy

NULL = 0.5


def row(make_row, values, **more):
    """An estimate over contexts: mean, error, Student's interval and test."""
    test, null = stats.ttest_1samp(values, more.pop("null", NULL)), len(values)
    low, high = test.confidence_interval()
    found = {"estimate": np.mean(values), "se": stats.sem(values), "ci_low": low, "ci_high": high}
    return make_row(**found | {"p_value": test.pvalue, "n_contexts": null} | more)


def study(make_row, rng, bias, effects, contexts=24, noise=0.08):
    """Rates of contexts without and with each remedy, which moves the bias by an effect and adds its own noise."""
    quality = rng.normal(0, 0.1, contexts)
    before = NULL + bias + quality + rng.normal(0, noise, contexts)
    rows = [row(make_row, before, remedy="none", against="")]
    for number, effect in enumerate(effects):
        after = NULL + bias - effect + quality + rng.normal(0, noise, contexts)
        rows.append(row(make_row, after, remedy=f"remedy {number}", against=""))
        rows.append(row(make_row, after - before, remedy=f"remedy {number}", against="none", null=0.0))
    frame = pd.DataFrame(rows)
    return report.findings(frame.iloc[:1].drop(columns=["remedy", "against"])), frame


def named(make_row, bias, effects, studies, seed=0, **more):
    """Return which remedy was named in each study, "" for none."""
    rng = np.random.default_rng(seed)
    said = [best_remedy(*study(make_row, rng, bias, effects, **more)) for _ in range(studies)]
    return ["" if words.startswith("none of ") else words.partition(":")[0] for words in said]


@pytest.mark.slow
def test_useless_remedies_are_rarely_named(make_row):
    assert np.mean([bool(name) for name in named(make_row, 0.2, (0, 0, 0), 200)]) <= 0.07


@pytest.mark.thorough
@pytest.mark.parametrize("bias", [0.2, 0.1, 0.05, 0.02, 0.0])
def test_useless_remedies_are_rarely_named_in_many_studies(make_row, bias):
    assert np.mean([bool(name) for name in named(make_row, bias, (0, 0, 0), 2000)]) <= 0.06


@pytest.mark.slow
def test_a_remedy_that_turns_a_bias_round_does_not_help(make_row):
    """From .1 above fair to .1 below: the difference is certain, and nothing is gained."""
    assert np.mean([bool(name) for name in named(make_row, 0.1, (0.2,), 100)]) <= 0.06


@pytest.mark.slow
def test_power_for_a_halving_remedy_is_90_percent_of_one_test(make_row):
    bias = 0.13  # of which half is found by a single paired test in about .8 of studies of 24 contexts
    rng, alone = np.random.default_rng(5), []
    for _ in range(200):
        frame = study(make_row, rng, bias, (bias / 2,))[1]
        alone.append(frame["p_value"].iloc[-1] < 0.05)
    single = named(make_row, bias, (bias / 2,), 200, seed=5)
    among = named(make_row, bias, (bias / 2, 0, 0), 200, seed=5)
    assert np.mean([name == "remedy 0" for name in single]) >= 0.9 * np.mean(alone)
    assert np.mean([name == "remedy 0" for name in among]) >= 0.9 * np.mean(alone)


def test_the_smallest_help_that_a_study_detects_is_stated(make_row):
    cells, frame = study(make_row, np.random.default_rng(1), 0.2, (0.0, 0.0))
    said = best_remedy(cells, frame)
    worst = frame.loc[frame["against"] == "none", "se"].max()
    assert cells["finding"].iloc[0] == "above"
    least = stats.t.ppf([1 - 0.05 / 2, 0.8], 23).sum() * worst
    assert said == (
        f"none of remedy 0, remedy 1 is shown to help; can detect an improvement ≥ {least:.2f} (80 % power)"
    )


def test_the_best_of_several_is_shrunk_and_a_single_one_is_not(make_row):
    cells, frame = study(make_row, np.random.default_rng(2), 0.3, (0.28, 0.1))
    after = frame.loc[(frame["remedy"] == "remedy 0") & (frame["against"] == ""), "estimate"].item()
    before = frame["estimate"].iloc[0]
    words = best_remedy(cells, frame)
    assert words.startswith(f"remedy 0: {before:.3f} becomes ")
    assert after < float(words.split(" becomes ")[1].split()[0]) < after + 0.05
    assert words.endswith("(best of 2: shrunk, simultaneous interval)")
    alone = best_remedy(cells, frame[frame["remedy"].isin(["none", "remedy 0"])])
    low, high = (frame.loc[frame["remedy"] == "remedy 0", name].iloc[0] for name in ("ci_low", "ci_high"))
    assert alone == f"remedy 0: {before:.3f} becomes {after:.3f} [{low:.3f}, {high:.3f}]"


def test_unpaired_remedies_are_not_tested(make_row):
    cells, frame = study(make_row, np.random.default_rng(2), 0.3, (0.28,))
    unpaired = frame[frame["against"] == ""].drop(columns="against")
    assert best_remedy(cells, unpaired) == (
        "not tested: remedy 0 (no paired differences; see biaslab.mitigation.remedies)"
    )
    assert best_remedy(cells, frame[frame["remedy"] == "none"]) == ""
    assert best_remedy(cells, frame.assign(judge="somebody else")) == ""
    with pytest.raises(TrialsError, match="remedy"):
        best_remedy(cells, frame.drop(columns="remedy"))


def test_a_measured_remedy_is_named_on_the_card(make_row):
    cells, frame = study(make_row, np.random.default_rng(2), 0.3, (0.28,))
    base = frame.iloc[:1].drop(columns=["remedy", "against"])
    assert "Remedy, measured: remedy 0: 0." in report.card(base, frame, reference=None).to_html()
    [state, gap] = frame.iloc[1:].to_dict("records")
    first = frame.iloc[0]
    measured = {"judge": first["judge"], "metric": first["metric"], "remedy": "swap", "null": NULL, "attribute": "a"}
    for name, given in (("before", first), ("after", state)):
        measured |= {name: given["estimate"], f"{name}_se": given["se"]}
        measured |= {f"{name}_low": given["ci_low"], f"{name}_high": given["ci_high"]}
    measured |= {"difference": gap["estimate"], "se": gap["se"], "p_value": gap["p_value"], "n_contexts": 24}
    said = best_remedy(cells, pd.DataFrame([measured | {"ci_level": 0.95}]))
    assert said.replace("swap", "remedy 0") == best_remedy(cells, frame)
