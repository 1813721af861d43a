"""Macros have names that LaTeX takes, one an estimate, and a paper that uses them compiles."""

import re

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from biaslab import report
from biaslab.core.errors import InputError, TrialsError
from biaslab.report.macros import macro_name
from biaslab.stats import without_breakdowns

LINE = re.compile(r"\\newcommand\{\\([A-Za-z]+)\}\{(.*)\}")


def macros(text):
    return dict(LINE.fullmatch(line).groups() for line in text.splitlines() if not line.startswith("%"))


def test_the_macro_of_the_readme(make_row):
    assert macros(report.to_macros(pd.DataFrame([make_row()]))) == {
        "biasPositionRateCoherence": "0.372",
        "biasPositionRateCoherenceCI": "[0.341, 0.402]",
        "biasPositionRateCoherenceN": "30",
    }


def test_every_estimate_has_three_macros(biased):
    shown = without_breakdowns(biased)
    found = macros(report.to_macros(biased))
    assert len(found) == 3 * len(shown)
    rate = shown[(shown["metric"] == "first_position_rate") & (shown["template"] == 2)].set_index("attribute")[
        "estimate"
    ]
    assert found["biasPositionRateFluencyTemplateTwo"] == f"{rate['fluency']:.3f}"


def test_a_paper_that_uses_them_compiles(biased, make_row, compile_latex, tmp_path):
    negative = make_row(probe="source", metric="agreement_loss", estimate=-0.25, ci_low=-0.4, ci_high=-0.1)
    nothing = make_row(metric="primacy_share", estimate=float("nan"), ci_low=float("nan"), ci_high=float("nan"))
    text = report.to_macros(pd.concat([biased, pd.DataFrame([negative, nothing])]))
    (tmp_path / "numbers.tex").write_text(text, encoding="utf-8")
    used = " ".join(f"\\{name}{{}}" for name in macros(text))
    compile_latex(used, r"\input{numbers}")


def test_collisions_are_named(make_row):
    frame = pd.DataFrame([make_row(attribute="up beat"), make_row(attribute="up-beat")])
    with pytest.raises(
        TrialsError, match=r"biasPositionRateUpBeat would mean both .*\(judge a judge.* up beat\) and .* up-beat"
    ):
        report.to_macros(frame)
    with pytest.raises(TrialsError, match="biasPositionRateACI "):
        report.to_macros(pd.DataFrame([make_row(attribute="a"), make_row(attribute="a CI")]))


@given(st.text(max_size=12), st.floats(allow_nan=False))
def test_names_hold_letters_only(attribute, temperature):
    row = {"probe": "sweep", "metric": "cot_shift", "attribute": attribute, "temperature": temperature}
    assert re.fullmatch("[A-Za-z]+", macro_name(row, ["attribute", "temperature"]))


def test_signs_and_points_are_spelt(make_row):
    rows = [make_row(probe="sweep", metric="cot_shift", temperature=t) for t in (-0.5, 0.5, 5)]
    assert list(macros(report.to_macros(pd.DataFrame(rows))))[::3] == [
        "biasSweepCotShiftCoherenceTemperatureMinusZeroPointFive",
        "biasSweepCotShiftCoherenceTemperatureZeroPointFive",
        "biasSweepCotShiftCoherenceTemperatureFive",
    ]


def test_prefix_is_letters(make_row):
    with pytest.raises(InputError, match="prefix is 'b1'"):
        report.to_macros(pd.DataFrame([make_row()]), prefix="b1")
