"""The atlas's explorer: every estimate on a page that fetches nothing, names as text, findings by the report's rule."""

import html
import json
import re
import shutil
import subprocess

import pandas as pd
import pytest

import biaslab as bl
from biaslab.atlas import panels
from biaslab.atlas.estimates_table import of_models
from biaslab.atlas.explorer_page import explorer_data, kinds
from biaslab.atlas.judgements import rows_named
from biaslab.atlas.release_trend import has_fallen, one_each, with_dates
from biaslab.cli import main
from biaslab.core.errors import InputError, MissingDependencyError, TrialsError

SHOWN = re.compile(r'<td class="judge"><button[^>]*>([^<]*)</button>')


def data_of(page):
    """Return the data that a page carries."""
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)


@pytest.mark.slow
def test_the_page_has_every_estimate_and_fetches_nothing():
    rows = bl.atlas.estimates(breakdowns=False)
    page = bl.atlas.explorer().to_html()
    data = data_of(page)
    assert len(page.encode()) < 1_000_000
    assert len(data["rows"]) == len(rows)
    assert not re.search(r"\b(?:src|href)=|\bimport[(]|url\(|\bfetch\(|<link|@import", page)
    for place in (0, 17, len(rows) - 1):
        shown, row = data["rows"][place], rows.iloc[place]
        names = data["metrics"][shown[0]], data["judges"][shown[1]], data["sources"][shown[2]]
        assert [one["name"] for one in names] == [row["metric"], row["judge"], row["source"]]
        assert shown[8] == pytest.approx(row["estimate"], rel=1e-3)
        assert shown[14] == row["n_contexts"]


@pytest.mark.slow
def test_findings_are_those_of_reports():
    rows = bl.atlas.estimates(breakdowns=False, source=["llmbar", "devbench", "summeval_judges", "korean_battles"])
    found = bl.report.findings(rows)
    ours = kinds(found)
    assert [one or "untested" for one in ours] == found["finding"].tolist()
    assert all(ours.count(one) > 50 for one in ("above", "below", "none", "open", ""))


@pytest.mark.slow
def test_trend_sentence_only_for_primary_metrics_with_a_null():
    """Of each judge and source one row counts; of few judges, and of what has no fair value, nothing is told."""
    rows = bl.atlas.estimates(breakdowns=False)
    metrics = {(one["probe"], one["name"]): one for one in data_of(bl.atlas.explorer().to_html())["metrics"]}
    position = metrics["position", "first_position_rate"]
    own = with_dates(rows[(rows["metric"] == "first_position_rate") & (rows["probe"] == "position") & of_models(rows)])
    own = one_each(own)
    assert not own.duplicated(["source", "judge"]).any()
    found = bl.atlas.trend(own, null=0.5)
    assert position["fallen"] == has_fallen(found, own)
    assert panels.over_time().headline.split("changes by ")[1] == position["fallen"].split("changes by ")[1]
    assert [month for month, _ in position["line"]] == [own["released"].min(), own["released"].max()]
    slope = (position["line"][1][1] - position["line"][0][1]) / (own["years"].max() - own["years"].min())
    assert slope == pytest.approx(found["estimate"].iloc[1], abs=2e-3)
    told = {named for named, one in metrics.items() if "fallen" in one}
    assert ("pair_length", "longer_wins_at_equal_gold") in told
    assert not told & {named for named, one in metrics.items() if not one["primary"] or one["null"] is None}
    assert ("score_distribution", "round_number_excess_5") not in told


def test_a_name_is_never_markup():
    rows = bl.atlas.estimates(metric="first_position_rate", source="mt_bench")
    name = "</script><script>alert(1)</script>\u2028<!-- & {{ 7 * 7 }}"
    page = bl.atlas.explorer(rows.assign(judge=name, repository="javascript:alert(1)")).to_html()
    plain = bl.atlas.explorer(rows).to_html()
    assert [page.count(mark) for mark in ("<script", "</script", "<!--")] == [
        plain.count(mark) for mark in ("<script", "</script", "<!--")
    ]
    assert data_of(page)["judges"][0]["name"] == name


@pytest.mark.slow
def test_forms_are_declared_or_those_of_the_data_set():
    rows = bl.atlas.estimates(breakdowns=False)
    data = explorer_data(rows)
    forms = pd.Series([row[4] for row in data["rows"]], index=rows.index)
    assert (forms[rows["probe"] == "position"] == "pairs").all()
    assert (forms[rows["probe"] == "halo"] == "scores").all()
    assert (forms[rows["form"] == "score"] == "scores").all()
    assert (forms != "").mean() > 0.8


@pytest.mark.slow
def test_evidence_names_the_judge_of_carried_rows_only():
    """Of every row whose judgements are in the package, by its prompt and subset too; of other rows there is none."""
    rows = bl.atlas.estimates(breakdowns=False)
    data = data_of(bl.atlas.explorer().to_html())
    evidence = pd.Series([data["texts"][row[-1]] for row in data["rows"]])
    carried = bl.atlas.sources().set_index("source")["carried"]
    named = rows["source"].map(carried) & (rows["judge"] != "humans")
    assert ((evidence != "") == named).all()
    ways = evidence[rows["template"].eq("CoT") & rows["dataset"].eq("llmbar") & rows["judge"].eq("gpt-4")]
    whole = rows["subset"].isna()
    assert set(ways[rows["probe"].eq("position") & whole]) == {"atlas:gpt-4@llmbar?template=CoT"}
    assert set(ways[rows["probe"].eq("template") & whole]) == {"atlas:gpt-4@llmbar"}  # all prompts, which it compares
    for name in evidence[named].unique():
        assert len(rows_named(name)), name


def test_empty_or_incomplete_estimates_are_refused(tmp_path):
    with pytest.raises(InputError, match="at least one row"):
        bl.atlas.explorer(bl.atlas.estimates().iloc[:0])
    with pytest.raises(TrialsError, match="estimate"):
        bl.atlas.explorer(pd.DataFrame({"judge": ["a"]}))
    assert main(["atlas", "explore", "--out", str(tmp_path / "page.txt")]) == 2


def test_in_a_notebook_the_page_is_in_a_frame_of_its_own():
    shown = bl.atlas.explorer(bl.atlas.estimates(source="null_model"))
    frame = shown._repr_html_()
    assert frame.startswith("<iframe ")
    assert "allow-same-origin" not in frame
    assert frame.count("<") == 2  # of the frame alone: the page in it is an escaped attribute


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "judges"),
    [
        ("", 44),
        ("#judge=claude-3-haiku&dataset=devbench", 1),
        ("#metric=&judge=gpt-4o-mini&found=1", None),
        ("#metric=no_such&sort=n", 44),
    ],
)
def test_a_browser_shows_rows_by_the_address(tmp_path, address, judges):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium here")
    assert main(["atlas", "explore", "--out", str(tmp_path / "page.html")]) == 0
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += [
        "--virtual-time-budget=5000",
        "--enable-logging=stderr",
        "--dump-dom",
        f"file://{tmp_path}/page.html{address}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    shown = SHOWN.findall(done.stdout)
    assert shown
    assert judges is None or len(shown) == judges
    if not address:
        assert re.search(
            r'<details id="dates" open="">.*Has this bias fallen since 2023\?.*a year \[.*<circle', done.stdout, re.S
        )
    if "judge=" in address:
        assert {name.startswith(("claude-3-haiku", "gpt-4o-mini")) for name in shown} == {True}
    if "found" not in address:
        [code] = re.findall(r'<code id="call">(.*?)</code>', done.stdout, re.S)
        names = {}
        exec(html.unescape(code), names)
        assert sorted(names["rows"]["judge"]) == sorted(shown)


def test_the_selection_of_the_widget_is_a_frame(monkeypatch):
    """What the page sends it: places of estimates, in the order of the page."""
    pytest.importorskip("anywidget", reason="anywidget is not installed: pip install '.[widgets]'")
    rows = bl.atlas.estimates(source="mt_bench", metric="first_position_rate")
    widget = bl.atlas.explorer(rows).widget()
    assert widget.page == bl.atlas.explorer(rows).to_html()
    assert widget.selection.empty
    widget.set_state({"shown": [2, 0]})
    pd.testing.assert_frame_equal(widget.selection, rows.reset_index(drop=True).iloc[[2, 0]])


def test_page_posts_the_rows_shown_to_its_widget():
    page = bl.atlas.explorer(bl.atlas.estimates(source="mt_bench")).to_html()
    assert "parent.postMessage({ biaslab: shown.map((r) => r.at) }" in page


def test_missing_anywidget_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("biaslab.core.checks.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"needs anywidget: pip install '\.\[widgets\]'"):
        bl.atlas.explorer(bl.atlas.estimates(source="mt_bench")).widget()
