"""Tables say what the frame says, escape what data say, and LaTeX sets them."""

import csv
import io
import re

import pandas as pd
import pytest
from hypothesis import given, strategies as st
from jinja2 import Environment

import biaslab as bl
from biaslab import report
from biaslab.core.errors import InputError, TrialsError
from biaslab.report.tables import macro_name
from biaslab.report.wording import number, tex
from biaslab.stats.frame import without_breakdowns

GOLDEN = r"""% biaslab VERSION
\begin{table}
\centering
\caption{P(A), decisions for the first (share). Judge: a judge. Data: a set. n = 30 contexts, 95 \% intervals. q: p corrected for the tests in this table, 2 tests. Seed 0, biaslab VERSION.}
\label{tab:position}
\begin{tabular}{lrrr}
\toprule
attribute & P(A), decisions for the first (share) & 95 \% interval & q \\
\midrule
coherence & 0.372 & [0.341, 0.402] & 0.004 \\
fluency & 0.501 & [0.480, 0.522] & \textless{}0.001 \\
\bottomrule
\end{tabular}
\end{table}
"""  # noqa: E501
HOSTILE = '50% _of_ {α} $\\input{/etc/passwd} & #1 <b>~^"|` \n next\\\\'


@pytest.fixture
def two(make_row):
    other = {
        "attribute": "fluency",
        "estimate": 0.5012,
        "ci_low": 0.48,
        "ci_high": 0.522,
        "p_value": 1e-5,
        "q_value": 0.5,
    }
    return pd.DataFrame([make_row(), make_row(**other)])


def test_latex_is_the_golden_table(two):
    assert report.to_latex(two, label="tab:position") == GOLDEN.replace("VERSION", bl.__version__)


def test_latex_compiles(two, biased, compile_latex):
    tables = [
        report.to_latex(two, stars=True),
        report.to_latex(biased, digits=2),
        report.to_latex(biased, across="attribute"),
    ]
    said = compile_latex("\n".join(tables), r"\usepackage[landscape]{geometry}")
    assert "Undefined" not in said


def test_hostile_text_is_printed_and_not_obeyed(make_row, compile_latex):
    frame = pd.DataFrame([make_row(judge=HOSTILE, attribute=HOSTILE), make_row(attribute="b")])
    text = report.to_latex(frame, caption=HOSTILE)
    assert "\\input" not in text
    assert "\n next" not in text
    compile_latex(text)
    html = report.to_html(pd.DataFrame([make_row(judge="<script>alert(1)</script>")]))
    assert "<script>" not in html
    markdown = report.to_markdown(pd.DataFrame([make_row(attribute="a|b"), make_row(attribute="<i>")]))
    assert "| a\\|b |" in markdown
    assert "<i>" not in markdown


@given(st.text(st.characters(codec="ascii", categories=["P", "S", "L", "N", "Z"]), max_size=30))
def test_escaped_text_has_no_bare_special_character(text):
    escaped = tex(text)
    for known in (r"\textbackslash{}", r"\textasciicircum{}", r"\textasciitilde{}", r"\textless{}", r"\textgreater{}"):
        escaped = escaped.replace(known, "")
    for known in (r"\textbar{}", r"{\char34}", r"\{", r"\}", r"\$", r"\&", r"\#", r"\%", r"\_"):
        escaped = escaped.replace(known, "")
    assert not set(escaped) & set('\\{}$&#%_^~<>|"')


def test_markdown_and_html_hold_every_estimate_with_its_interval(biased):
    shown = without_breakdowns(biased)
    for text in (report.to_markdown(biased).replace("\\", ""), report.to_html(biased)):
        for row in shown.to_dict("records"):
            assert number(row["estimate"]) in text
            assert f"[{number(row['ci_low'])}, {number(row['ci_high'])}]" in text or pd.isna(row["ci_low"])
        assert f"biaslab {bl.__version__}" in text
        assert "n = 12 contexts" in text
        assert "share" in text
        assert "logits" in text


def test_across_puts_values_side_by_side(biased):
    rates = biased[(biased["metric"] == "first_position_rate") & biased["human_gap"].isna()]
    text = report.to_markdown(biased, "first_position_rate", across="attribute")
    head, _, first, *_ = text.splitlines()
    assert head == "| template | coherence | fluency |"
    expected = [f"{number(r['estimate'])} \\[" for r in rates[rates["template"] == 1].to_dict("records")]
    assert all(part in first for part in expected)
    with pytest.raises(TrialsError, match="two rows share the cell"):
        report.to_markdown(pd.concat([rates, rates]), "first_position_rate", across="attribute")


def test_stars_only_on_request(two):
    assert "*" not in report.to_html(two)
    text = report.to_html(two, stars=True)
    assert "0.372**<" in text
    assert "0.501***<" in text
    assert "** q &lt; .01" in text


def test_csv_is_read_back_and_holds_no_formula(make_row):
    frame = pd.DataFrame([make_row(judge="=cmd()"), make_row(attribute="-1+1", estimate=-0.5)])
    rows = list(csv.DictReader(io.StringIO(report.to_csv(frame))))
    assert [row["judge"] for row in rows] == ["'=cmd()", "a judge"]
    assert [row["attribute"] for row in rows] == ["coherence", "'-1+1"]
    assert [float(row["estimate"]) for row in rows] == [0.372, -0.5]
    assert {row["unit"] for row in rows} == {"share"}


def test_missing_estimate_is_a_dash_with_its_reason(make_row):
    gone = make_row(
        estimate=float("nan"), ci_low=float("nan"), ci_high=float("nan"), q_value=float("nan"), note="no pair"
    )
    text = report.to_markdown(pd.DataFrame([gone, make_row(attribute="fluency")]))
    assert "| coherence | – | – | – |" in text
    assert "–: no pair" in text


def test_rows_that_differ_only_by_probe_name_it(make_row, two):
    """In a file of an audit, several probes may estimate a metric of one name."""
    same = pd.DataFrame([make_row(), make_row(probe="comparative")])
    head, _, *rows = report.to_markdown(same).splitlines()[:4]
    assert head.startswith("| probe |")
    assert [row.split("|")[1].strip() for row in rows] == ["position", "comparative"]
    assert report.to_csv(same).startswith("probe,judge,dataset,metric,unit,")
    assert report.to_markdown(same, across="probe").startswith("| position | comparative |")
    others = pd.DataFrame([make_row(), make_row(probe="comparative", attribute="fluency")])
    assert not report.to_markdown(others).startswith("| probe")
    assert not report.to_markdown(two).startswith("| probe")


def test_write_chooses_by_suffix_and_refuses_others(two, tmp_path):
    for suffix, start in ((".tex", "% biaslab"), (".md", "| attribute"), (".html", "<table"), (".csv", "judge,")):
        assert report.write(two, tmp_path / f"t{suffix}").read_text(encoding="utf-8").startswith(start)
    with pytest.raises(InputError, match=r"\.tex, \.md"):
        report.write(two, tmp_path / "t.docx")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "beauty"}, "first_position_rate"),
        ({"digits": -1}, "digits is -1"),
        ({"across": "nope"}, "one of judge, dataset, attribute"),
        ({"label": "a}b"}, "letters, digits"),
    ],
)
def test_bad_input_is_refused(two, options, said):
    with pytest.raises(InputError, match=said):
        report.to_latex(two, **options)


def test_empty_frames_and_missing_columns_are_refused(two):
    with pytest.raises(TrialsError, match="at least one row"):
        report.to_latex(two.head(0))
    with pytest.raises(TrialsError, match="lacks the column ci_low"):
        report.to_html(two.drop(columns="ci_low"))


def test_templates_of_html_escape_by_themselves():
    from biaslab.report.wording import templates

    found = templates()
    assert isinstance(found, Environment)
    assert found.autoescape("table.html.j2")
    assert not found.autoescape("table.tex.j2")


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


@pytest.fixture(scope="module")
def corrected():
    """Corrected numbers of two systems, by the number of labelled contexts."""
    frame = pd.DataFrame({"context_id": [f"c{n // 2}" for n in range(80)], "candidate_id": ["a", "b"] * 40})
    frame = frame.assign(value=[1.0, 0, 1, 1, 0, 1, 1, 1] * 10, judge="j", dataset="d", attribute="q")

    def correct(labelled):
        human = (frame.index % 3 > 0) * 1.0
        return bl.correct(frame.assign(human=pd.Series(human).where(frame.index < 2 * labelled)), None, "systems")

    return correct


def test_macro_names_do_not_change_with_more_labels(corrected):
    few, more = (re.findall(r"newcommand{(.*?)}", report.to_macros(corrected(labelled))) for labelled in (20, 30))
    assert few == more
    assert "\\biasCorrectPassRateQSystemACorrectionPpi" in few


def test_ranks_are_written_as_whole_numbers(corrected):
    ranks = corrected(30).query("metric == 'rank' and correction == 'ppi'")
    macros = report.to_macros(ranks.assign(estimate=[1.0, 1.5], ci_low=1.0, ci_high=2.0))
    assert "CorrectRankQSystemACI}{[1, 2]}" in macros
    assert "CorrectRankQSystemA}{1}" in macros
    assert "CorrectRankQSystemB}{1.5}" in macros
