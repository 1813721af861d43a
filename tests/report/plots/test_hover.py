"""Marks of an SVG tell what they are, and a figure is the same after it was asked."""

import xml.etree.ElementTree as ET

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError

TITLE = "{http://www.w3.org/2000/svg}title"


def titles(svg):
    return [title.text for title in ET.fromstring(svg).iter(TITLE)]


def test_each_mark_names_condition_estimate_interval_and_n(estimates, tmp_path):
    rows = estimates[(estimates["metric"] == "first_position_rate") & estimates["human_gap"].isna()]
    ax = bl.plots.intervals(estimates, "first_position_rate", by="attribute", hue="judge")
    paths = bl.plots.save(ax, estimates, "position", "rate", tmp_path, formats=("svg", "png"))
    assert [path.suffix for path in paths] == [".svg", ".png", ".csv"]
    told = titles(paths[0].read_text(encoding="utf-8"))
    assert len(told) == len(rows)
    for row in rows.to_dict("records"):
        facts = f"{row['estimate']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}], n = 12 contexts"
        [one] = [text for text in told if facts in text and f"attribute {row['attribute']}" in text]
        assert row["judge"] in one
        assert "P(A)" in one


@pytest.mark.slow
def test_hover_leaves_the_figure_unchanged_and_is_deterministic(biased):
    ax = bl.plots.intervals(biased, "tie_rate", by="attribute", hue="template")
    before = len(ax.lines), len(ax.figure.artists), ax.get_xlim(), ax.get_ylim()
    pages = [bl.plots.hover(ax).svg for _ in range(2)]
    assert pages[0] == pages[1]
    assert (len(ax.lines), len(ax.figure.artists), ax.get_xlim(), ax.get_ylim()) == before
    assert bl.plots.hover(ax)._repr_html_().startswith("<svg")


@pytest.mark.parametrize(
    "name", ["a\x00b\x1b", "\ufffe", "</svg><script>alert(1)</script>", "--><b>", "]]>", "\u202eb"]
)
def test_hover_of_any_name_is_xml_without_scripts(biased, name):
    rows = biased[biased["metric"] == "tie_rate"].assign(judge=name, attribute=name)
    svg = bl.plots.hover(bl.plots.intervals(rows, "tie_rate", by="template", hue="attribute")).svg
    assert len(titles(svg)) == len(rows)
    assert {each.tag.rpartition("}")[2] for each in ET.fromstring(svg).iter()}.isdisjoint({"script", "b", "image"})


def test_hover_escapes_names_and_skips_missing_estimates(biased):
    rows = biased[(biased["metric"] == "tie_rate") & (biased["template"] == 1)].reset_index(drop=True)
    rows["attribute"] = "<script>&"
    rows.loc[0, ["estimate", "ci_low", "ci_high"]] = float("nan")
    svg = bl.plots.hover(bl.plots.intervals(rows, "tie_rate", by="template")).svg
    assert "<script" not in svg
    assert len(titles(svg)) == len(rows) - 1
    assert all("<script>&" in text for text in titles(svg))


def test_lines_against_a_number_answer_too(biased):
    one = biased[(biased["template"] == 1) & (biased["attribute"] == "fluency")]
    ax = bl.plots.against(one, "human_gap", "first_position_rate")
    binned = one[one["human_gap"].notna() & (one["metric"] == "first_position_rate")]
    assert len(titles(bl.plots.hover(ax).svg)) == len(binned)


def test_unknown_formats_are_refused(biased, tmp_path):
    ax = bl.plots.intervals(biased, "tie_rate")
    with pytest.raises(InputError, match="png, pdf, svg"):
        bl.plots.save(ax, pd.DataFrame(), "a", "b", tmp_path, formats=("gif",))
