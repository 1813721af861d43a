"""The index shows every figure of a folder beside what it was made from."""

import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from biaslab.core.files import write_csv
from biaslab.figures.gallery import (
    describe_estimates,
    describe_precision,
    find_headline,
    measure_precision,
    share_narrow,
    write_index,
    write_precision,
)
from biaslab.figures.notebook import NotebookRun, add_alt_texts

RUN = NotebookRun("position", (Path("position__rate.png"), Path("position__rate.csv")), 3.2, 0, 0, 0, 0, 2)


def test_every_figure_is_shown_with_its_estimates(tmp_path, make_row):
    for name in ("position__rate", "source__loss & gain", "readme"):
        (tmp_path / f"{name}.png").write_bytes(b"png")
    (tmp_path / "position__rate.pdf").write_bytes(b"pdf")
    pd.DataFrame([make_row(), make_row(attribute="<b>")]).to_csv(tmp_path / "position__rate.csv", index=False)
    page = write_index(tmp_path, [RUN]).read_text(encoding="utf-8")
    assert "<td>position</td><td>1 figure from 2 rows of 1 table</td><td>3</td>" in page
    assert page.count("<img") == 2
    assert 'href="position__rate.pdf"' in page
    assert "2 rows · a judge · a set · n = 30 contexts" in page
    assert "loss &amp; gain" in page
    assert 'src="source__loss%20%26%20gain.png"' in page
    assert "0 judge calls" in page
    assert "readme" not in page


@pytest.mark.parametrize("name", ["<script>alert(1)", '"><img onerror=alert(1)>', "]]>&'", "\u202ea", "{{ 7 }}", "=1"])
def test_index_has_the_same_elements_for_all_names(name, tmp_path, make_row):
    elements = {}
    for used in (name, "plain"):
        folder = tmp_path / str(len(elements))
        folder.mkdir()
        (folder / f"{used}__{used}.png").write_bytes(b"png")
        rows = [make_row(judge=used, dataset=used, headline=used)]
        write_csv(pd.DataFrame(rows), folder / f"{used}__{used}.csv")
        parser, found = HTMLParser(), []
        parser.handle_starttag = lambda tag, given, found=found: found.append((tag, [key for key, _ in given]))
        parser.feed(write_index(folder, [replace(RUN, notebook=used)]).read_text(encoding="utf-8"))
        elements[used] = found
    assert elements[name] == elements["plain"]


def test_figures_precede_tables_and_follow_links_to_studies(tmp_path, make_row):
    (tmp_path / "position__rate.png").write_bytes(b"png")
    pd.DataFrame([make_row(metric="first_position_rate")]).to_csv(tmp_path / "position__estimates.csv", index=False)
    page = write_index(tmp_path, [RUN]).read_text(encoding="utf-8")
    first = page.index("<img")
    assert first < page.index("<table")
    for name in ("position", "_precision", "_run"):
        assert page.index(f'href="#{name}"') < first
        assert f'id="{name}"' in page
    assert page.index('id="_precision"') < page.index('id="_run"')


def test_recorded_judges_stand_first(tmp_path):
    for name in ("anchoring__slope", "replications__all", "atlas__position", "zeal__x"):
        (tmp_path / f"{name}.png").write_bytes(b"png")
    page = write_index(tmp_path).read_text(encoding="utf-8")
    places = [page.index(f">{study}</h2>") for study in ("atlas", "replications", "anchoring", "zeal")]
    assert places == sorted(places)


def test_headline_of_a_table_is_the_caption_of_its_figure(tmp_path, make_row):
    (tmp_path / "atlas__rate.png").write_bytes(b"png")
    rows = pd.DataFrame([make_row(), make_row()]).assign(headline="Two of 2 judges prefer <b> first.")
    rows.to_csv(tmp_path / "atlas__rate.csv", index=False)
    assert "Two of 2 judges prefer &lt;b&gt; first." in write_index(tmp_path).read_text(encoding="utf-8")
    assert find_headline(tmp_path / "atlas__rate.png") == find_headline(tmp_path / "none.csv") == ""


def test_other_csv_files_are_described_by_rows_or_not_at_all(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    assert describe_estimates(tmp_path / "a.csv") == "1 rows"
    assert describe_estimates(tmp_path / "b.csv") == ""
    assert describe_estimates(tmp_path / "missing.csv") == ""


ROOT = Path(__file__).resolve().parents[2]
#: `precision.csv` as it was written when notebooks ran with their defaults: copy it here after `make figures`.
MEASURED = Path(__file__).parent / "measured_precision.csv"


def draw(folder, name, *rows):
    """Write a figure and the table beside it."""
    pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False)
    (folder / f"{name}.png").write_bytes(b"png")


def rate(half, judge="local:a", **more):
    row = {"probe": "position", "judge": judge, "metric": "first_position_rate", "estimate": 0.6, "n_contexts": 24}
    return row | {"ci_low": 0.6 - half, "ci_high": 0.6 + half} | more


def test_half_width_is_compared_with_what_matters(tmp_path):
    draw(tmp_path, "position__rate", rate(0.05), rate(0.2, attribute="b"), rate(0.1, attribute="c"))
    [row] = measure_precision(tmp_path).to_dict("records")
    assert row == {
        "study": "position",
        "metric": "first_position_rate",
        "matters": 0.1,
        "intervals": 3,
        "narrow": 1,
        "recorded": 0,
        "widest": 0.2,
        "n_contexts": 24,
    }


def test_recorded_judges_do_not_widen_others(tmp_path):
    recorded = [rate(0.3, judge, n_contexts=112) for judge in ("gpt-4-0613", "meta/Llama-2-7b", "recorded/x/01")]
    draw(tmp_path, "position__rate", *recorded, rate(0.05), rate(0.05, "api:b@c"))
    [row] = measure_precision(tmp_path).to_dict("records")
    assert (row["intervals"], row["narrow"], row["recorded"]) == (5, 2, 3)
    assert (row["widest"], row["n_contexts"]) == (0.05, 24)


def test_only_primary_intervals_in_figures_count_once(tmp_path):
    draw(tmp_path, "position__rate", rate(0.05), rate(math.nan), rate(0.4, metric="order_consistency"))
    draw(tmp_path, "position__again", rate(0.05, q_value=0.3))
    draw(tmp_path, "baselines__gains", rate(0.4, probe="scoring"))
    draw(tmp_path, "tour__planted", rate(0.01, "simulated:position=1"))
    draw(tmp_path, "other__table", {"x": 1})
    (tmp_path / "other__empty.png").write_bytes(b"png")
    pd.DataFrame([rate(0.4)]).to_csv(tmp_path / "position__estimates.csv", index=False)  # no figure
    table = measure_precision(tmp_path)
    assert table[["study", "intervals"]].to_numpy().tolist() == [["position", 1]]


def test_primary_metric_without_figure_has_a_row(tmp_path):
    undefined = rate(math.nan, probe="recipe", metric="recipe_gain", note="scores do not vary")
    pd.DataFrame([undefined]).to_csv(tmp_path / "recipe__estimates.csv", index=False)
    table = write_precision(tmp_path)
    assert table[["study", "metric", "intervals", "narrow"]].to_numpy().tolist() == [["recipe", "recipe_gain", 0, 0]]
    assert describe_precision(table) == ""
    assert math.isnan(share_narrow(table))
    assert "none: undefined, or in no figure" in write_index(tmp_path).read_text(encoding="utf-8")


def test_precision_table_is_written_and_summarised(tmp_path):
    draw(tmp_path, "position__rate", rate(0.05), rate(0.2, "gpt-4"), rate(0.2, attribute="b"))
    table = write_precision(tmp_path)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "precision.csv"), table)
    said = "1 of 3 intervals of primary metrics (33 %) are narrower than what matters on both sides"
    assert describe_precision(table) == f"{said}; of recorded judges: 1"
    page = write_index(tmp_path).read_text(encoding="utf-8")
    assert said in page
    assert "± 0.1</td><td>± 0.2</td><td>1 of 3; of recorded judges: 1</td><td>24" in page


def test_a_folder_without_figures_tells_nothing(tmp_path):
    table = write_precision(tmp_path)
    assert table.empty
    assert math.isnan(share_narrow(table))
    assert describe_precision(table) == ""
    assert "Could the studies tell?" not in write_index(tmp_path).read_text(encoding="utf-8")


# Widths that differ in the last bit alone are one interval, and each interval counts once.
@pytest.mark.slow
@given(st.lists(st.floats(0.001, 0.5), min_size=1, max_size=20, unique_by=lambda half: round(half, 6)))
def test_the_share_is_that_of_narrow_intervals(tmp_path_factory, halves):
    folder = tmp_path_factory.mktemp("figures")
    draw(folder, "position__rate", *(rate(half, attribute=str(place)) for place, half in enumerate(halves)))
    narrow = sum(half < 0.1 - 1e-6 for half in halves), sum(half < 0.1 + 1e-6 for half in halves)
    table = measure_precision(folder)
    assert narrow[0] / len(halves) <= share_narrow(table) <= narrow[1] / len(halves)
    assert table["widest"].item() == pytest.approx(max(halves), abs=1e-6)


def defaults(notebook):
    """Read the numbers in the cell of parameters."""
    import nbformat

    cells = nbformat.read(notebook, as_version=4).cells
    [tagged] = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    names: dict[str, object] = {}
    exec(tagged.source, names)  # plain assignments of constants
    return names


def test_70_percent_of_primary_intervals_are_narrow():
    table = pd.read_csv(MEASURED)
    assert set(table["study"]) <= {path.stem.lstrip("0_") for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert share_narrow(table) >= 0.7, describe_precision(table)


@pytest.mark.parametrize("study", sorted(set(pd.read_csv(MEASURED)["study"])) if MEASURED.exists() else [])
def test_measured_precision_has_the_default_contexts(study):
    table = pd.read_csv(MEASURED).query("study == @study")
    [notebook] = [path for path in (ROOT / "notebooks").glob("*.ipynb") if path.stem.lstrip("0_") == study]
    asked = defaults(notebook)["n_contexts"]
    own = table[table["intervals"] > table["recorded"]]
    assert own["n_contexts"].le(asked).all(), "the default has changed: run all notebooks and copy precision.csv here"


def test_pictures_have_the_headline_as_alternative_text(tmp_path, make_row):
    from nbformat import read, write
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    for name in ("rate", "logit"):
        (tmp_path / f"position__{name}.png").write_bytes(b"png")
        pd.DataFrame([make_row(headline=f"What {name} shows")]).to_csv(tmp_path / f"position__{name}.csv", index=False)
    picture = new_output("display_data", data={"image/png": "cG5n"}, metadata={"image/png": {"width": 8}})
    sources = {'draw(rows, name="position__rate")': 1, 'standard("logit", "rate")': 2, 'draw("logit")': 2, "x = 1": 0}
    cells = [new_code_cell(source, outputs=[picture] * count) for source, count in sources.items()]
    write(new_notebook(cells=cells), tmp_path / "position.ipynb")
    add_alt_texts(tmp_path / "position.ipynb", sorted(tmp_path.glob("*.png")))
    executed = read(tmp_path / "position.ipynb", as_version=4)
    words = [[each.metadata["image/png"].get("alt") for each in cell.outputs] for cell in executed.cells]
    rate, logit = "What rate shows", "What logit shows"
    assert words == [[rate], [logit, rate], [None, None], []]
    assert executed.cells[0].outputs[0].metadata["image/png"]["width"] == 8
