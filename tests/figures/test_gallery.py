"""The index shows every figure of a folder beside what it was made from."""

import pandas as pd

from biaslab.figures.gallery import Line, describe_estimates, find_sentence, write_index


def test_every_figure_is_shown_with_its_estimates(tmp_path, make_row):
    for name in ("position__rate", "source__loss & gain", "readme"):
        (tmp_path / f"{name}.png").write_bytes(b"png")
    (tmp_path / "position__rate.pdf").write_bytes(b"pdf")
    pd.DataFrame([make_row(), make_row(attribute="<b>")]).to_csv(tmp_path / "position__rate.csv", index=False)
    line = Line("position", "1 figure from 2 rows of 1 table", 3.2, "0 judge calls")
    page = write_index(tmp_path, [line]).read_text(encoding="utf-8")
    assert page.count("<img") == 2
    assert 'href="position__rate.pdf"' in page
    assert "2 rows · a judge · a set · n = 30 contexts" in page
    assert "loss &amp; gain" in page
    assert 'src="source__loss%20%26%20gain.png"' in page
    assert "0 judge calls" in page
    assert "readme" not in page


def test_figures_precede_tables_and_follow_links_to_studies(tmp_path, make_row):
    (tmp_path / "position__rate.png").write_bytes(b"png")
    pd.DataFrame([make_row(metric="first_position_rate")]).to_csv(tmp_path / "position__estimates.csv", index=False)
    page = write_index(tmp_path, [Line("position", "1 figure", 3.2, "0 judge calls")]).read_text(encoding="utf-8")
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


def test_finding_of_a_table_is_the_caption_of_its_figure(tmp_path, make_row):
    (tmp_path / "atlas__rate.png").write_bytes(b"png")
    rows = pd.DataFrame([make_row(), make_row()]).assign(finding="Two of 2 judges prefer <b> first.")
    rows.to_csv(tmp_path / "atlas__rate.csv", index=False)
    assert "Two of 2 judges prefer &lt;b&gt; first." in write_index(tmp_path).read_text(encoding="utf-8")
    assert find_sentence(tmp_path / "atlas__rate.png") == find_sentence(tmp_path / "none.csv") == ""


def test_other_csv_files_are_described_by_rows_or_not_at_all(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    assert describe_estimates(tmp_path / "a.csv") == "1 rows"
    assert describe_estimates(tmp_path / "b.csv") == ""
    assert describe_estimates(tmp_path / "missing.csv") == ""
