"""Plots draw what the frame says: every estimate, its interval, its null, its n."""

import re
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.patches import Polygon

import biaslab as bl
from biaslab.core.errors import TrialsError
from biaslab.probes.position import Position
from biaslab.report.plots.style import BEYOND, FOUND_WORDS
from biaslab.report.verdicts import with_findings
from biaslab.stats.frame import without_breakdowns


@pytest.fixture(scope="module")
def estimates(graded):
    probe = Position(["coherence", "fluency"])
    return probe.estimate(bl.collect(probe, bl.SimulatedJudge(graded, position=0.6, noise=1), graded, progress=False))


def dots(ax):
    return sorted(float(x) for c in ax.containers for x in np.atleast_1d(c.lines[0].get_xdata()))


def spans(ax):
    return sorted(tuple(segment[:, 0]) for c in ax.containers for bar in c.lines[2] for segment in bar.get_segments())


def test_intervals_shows_estimates_and_their_intervals(estimates):
    ax = bl.plots.intervals(estimates, "first_position_rate", by="attribute", hue="template")
    rows = estimates[(estimates["metric"] == "first_position_rate") & estimates["human_gap"].isna()]
    assert dots(ax) == pytest.approx(sorted(rows["estimate"]))
    assert spans(ax) == [pytest.approx(s) for s in sorted(zip(rows["ci_low"], rows["ci_high"], strict=True))]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["coherence", "fluency"]
    assert [list(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "--"] == [[0.5, 0.5]]
    assert "P(A)" in ax.get_xlabel()
    above = ax.get_title(loc="left").replace("\n", " · ")
    assert above == "simulated judge · graded (constructed) · n = 8 contexts · 95 % intervals"
    assert len(ax.figure.legends[0].get_texts()) == 4


def test_row_names_are_aligned_with_their_marks(estimates):
    ax = bl.plots.intervals(estimates, "first_position_rate", by="attribute", hue="template")
    ax.figure.canvas.draw()
    for place, name in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True):
        box = name.get_window_extent()
        assert (box.y0 + box.y1) / 2 == pytest.approx(ax.transData.transform((0, place))[1], abs=0.5)


def test_intervals_finds_what_varies_by_itself(estimates):
    ax = bl.plots.intervals(estimates)
    assert len(dots(ax)) == 4


def test_legend_names_several_metrics(estimates):
    ax = bl.plots.intervals(estimates, ["order_consistency", "resampling_consistency"], by="attribute")
    assert {t.get_text() for t in ax.figure.legends[0].get_texts()} == {
        "same winner in both orders", "same winner in two samples of one request",
    }  # fmt: skip


def test_against_draws_bins_only(estimates):
    one = estimates[(estimates["template"] == 1) & (estimates["attribute"] == "coherence")]
    ax = bl.plots.against(one, "human_gap", "first_position_rate", xlabel="gap (points)")
    binned = one[one["human_gap"].notna() & (one["metric"] == "first_position_rate")]
    assert dots(ax) == pytest.approx(sorted(binned["human_gap"]))
    assert ax.get_xlabel() == "gap (points)"


def test_draws_into_given_axes_and_leaves_the_style_alone(estimates):
    before = dict(plt.rcParams)
    axes = bl.plots.panels(2)
    assert bl.plots.intervals(estimates, "order_consistency", ax=axes[1]) is axes[1]
    bl.plots.share_legend(axes)
    assert dict(plt.rcParams) == before


def test_columns_are_a_journal_column_wide():
    assert bl.plots.panels(1)[0].figure.get_figwidth() == pytest.approx(8 / 2.54)


def test_nan_estimates_are_not_drawn_as_numbers(estimates):
    holes = estimates.assign(estimate=np.nan, ci_low=np.nan, ci_high=np.nan)
    assert all(np.isnan(dots(bl.plots.intervals(holes, "first_position_rate"))))


@pytest.mark.slow
def test_save_writes_png_pdf_and_the_estimates(estimates, tmp_path):
    ax = bl.plots.intervals(estimates, "tie_rate")
    paths = bl.plots.save(ax, estimates, "position", "ties", tmp_path / "new")
    assert [p.name for p in paths] == ["position__ties.png", "position__ties.pdf", "position__ties.csv"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert paths[1].read_bytes().startswith(b"%PDF")
    written = pd.read_csv(paths[2])
    np.testing.assert_allclose(written["estimate"], estimates["estimate"])
    first = paths[1].read_bytes()
    bl.plots.save(ax, estimates, "position", "ties", tmp_path / "new")
    assert paths[1].read_bytes() == first


@pytest.fixture(scope="module")
def picture(estimates, tmp_path_factory):
    """A function that draws into a file, and says whether it kept the bytes that it found there."""
    folder = tmp_path_factory.mktemp("pictures")
    path = folder / "position__ties.png"

    def draw(headline="0.735", rows=estimates):
        before = path.read_bytes() if path.exists() else b""
        started = path.stat().st_mtime_ns if before else 0
        bl.plots.save(bl.plots.intervals(rows, "tie_rate"), rows, "position", "ties", folder, ["png"], headline)
        assert path.stat().st_mtime_ns > started  # `biaslab figures` counts what was written by its time
        return path.read_bytes() == before

    return path, draw


@pytest.mark.slow
def test_a_picture_that_looks_the_same_keeps_its_bytes(picture, estimates):
    path, draw = picture
    draw()
    seen = plt.imread(path)
    seen[5:42, 5, :3] = 0.5  # 37 pixels, as a mark that was rounded the other way
    plt.imsave(path, seen)
    assert draw()
    shifted = estimates.assign(estimate=estimates["estimate"] * (1 + 1e-12))
    assert draw(rows=shifted)


@pytest.mark.slow
def test_a_picture_that_looks_different_is_written(picture, estimates):
    path, draw = picture
    draw()
    assert not draw("0.733")  # 3 and 5 are the digits most alike
    assert not draw("0.733\nand more")
    path.write_bytes(path.read_bytes()[:400])
    assert not draw("0.733")
    path.write_bytes(b"no picture")
    assert not draw("0.733")
    assert not draw("0.733", estimates.assign(estimate=estimates["estimate"] + 0.01))
    assert draw("0.733", estimates.assign(estimate=estimates["estimate"] + 0.01))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # such a name leaves no room for the panel
@pytest.mark.parametrize("column", ["judge", "dataset", "attribute", "headline"])
def test_names_of_10_kb_leave_figures_small(column, estimates, tmp_path):
    rows = pd.concat([estimates, estimates.assign(**{column: "x" * 10_000})], ignore_index=True)
    options = {"headline": "x" * 10_000} if column == "headline" else {}
    axes = bl.plots.intervals(rows, "first_position_rate")
    picture, _, _ = bl.plots.save(axes, rows, "position", column, tmp_path, **options)
    height, width, _ = plt.imread(picture).shape
    assert height < 4000
    assert width < 4000


def test_unknown_metric_lists_those_there_are(estimates):
    with pytest.raises(TrialsError, match="order_consistency"):
        bl.plots.intervals(estimates, "beauty")
    with pytest.raises(TrialsError, match="gap"):
        bl.plots.against(estimates, "gap")


def test_labels_and_nulls_are_those_of_the_probe():
    frame = pd.DataFrame(
        {
            "probe": "anchoring", "metric": ["correlation_joint", "correlation_alone"], "attribute": "fluency",
            "estimate": [0.5, 0.1], "ci_low": [0.3, -0.1], "ci_high": [0.7, 0.3], "n_contexts": 9,
        }
    )  # fmt: skip
    ax = bl.plots.intervals(frame, ["correlation_joint", "correlation_alone"], by="attribute")
    assert ax.get_xlabel() == "correlation of the two scores"
    assert {text.get_text() for text in ax.figure.legends[0].get_texts()} == {"in one output", "alone"}
    assert [list(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "--"] == [[0.0, 0.0]]
    own = bl.plots.intervals(frame.assign(metric="share_after_low"))
    assert own.get_xlabel() == "first score low (share of scores)"
    assert not [line for line in own.lines if line.get_linestyle() == "--"]


def published(ax):
    return [line for line in ax.lines if str(line.get_label()).startswith("published")]


def test_published_values_are_crosses_in_their_row(estimates):
    theirs = pd.DataFrame({"label": "FlanT5-3B", "attribute": ["fluency", "beauty"], "value": [0.39, 0.2]})
    look = {"by": "attribute", "hue": "template"}
    [ax] = bl.plots.draw(estimates, "first_position_rate", published=theirs, **look).axes
    [line] = published(ax)
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0.39], [1.3])
    assert (line.get_label(), line.get_marker()) == ("published: FlanT5-3B", "x")
    assert line.get_linestyle() == "None"
    [ax] = bl.plots.draw(estimates, "first_position_rate", published=theirs.tail(1), **look).axes
    assert not published(ax)


def test_published_values_against_a_number_are_drawn_at_it(estimates):
    theirs = pd.DataFrame({"label": "GPT-4", "human_gap": [0.5, 2.0], "value": [0.6, 0.5]})
    one = {"x": "human_gap", "where": {"template": 1}}
    [ax] = bl.plots.draw(estimates, "first_position_rate", hue="attribute", published=theirs, **one).axes
    [line] = published(ax)
    assert (list(line.get_xdata()), list(line.get_ydata()), line.get_linestyle()) == ([0.5, 2.0], [0.6, 0.5], ":")


def test_one_legend_holds_what_any_panel_shows(estimates):
    axes = bl.plots.panels(2)
    for ax in axes:
        bl.plots.intervals(estimates, "first_position_rate", by="attribute", hue="template", ax=ax)
    axes[1].plot(0.39, 1, "o", label="published: FlanT5-3B")
    for _ in range(2):  # the second one takes the place of the first
        bl.plots.share_legend(axes)
    [legend] = axes[0].figure.legends
    marks = ["found (q < .05)", "too small to matter"]
    names = ["template 1", "template 2", "published: FlanT5-3B", *marks]
    assert [text.get_text() for text in legend.get_texts()] == names


def test_marks_alone_at_their_x_are_not_moved(estimates):
    rows = without_breakdowns(estimates).query("metric == 'tie_rate' and template == 1")
    for cost, moved in (([0.0, 50.0], False), ([50.0, 50.0], True)):
        ax = bl.plots.against(rows.assign(cost=cost), "cost", "tie_rate", hue="attribute")
        assert (dots(ax) != cost) == moved


def test_lines_and_marks_differ_without_colour(estimates):
    ax = bl.plots.against(estimates, "human_gap", "first_position_rate", hue="template")
    lines = [line for line in ax.lines if line.get_label().startswith("template")]
    looks = {(line.get_marker(), str(line._dash_pattern)) for line in lines}
    assert len(looks) == len(lines) == 2


def test_names_from_data_are_no_mathematics(estimates):
    ax = bl.plots.intervals(estimates.assign(attribute="$x^2$ _a_"), "first_position_rate", by="attribute")
    assert all(not text.get_parse_math() for text in (*ax.get_yticklabels(), ax._left_title))


def test_irrelevance_band_is_grey_and_estimates_are_printed(estimates):
    ax = bl.plots.intervals(estimates, "first_position_rate", by="attribute", hue="template")
    [grey] = [patch for patch in ax.patches if patch.get_label() == "too small to matter"]
    assert (grey.get_x(), grey.get_width()) == (pytest.approx(0.4), pytest.approx(0.2))
    rows = without_breakdowns(estimates).query("metric == 'first_position_rate'")
    assert sorted(text.get_text() for text in ax.texts) == sorted(f"{value:.2f}" for value in rows["estimate"])
    own = bl.plots.intervals(estimates, "first_position_rate", by="attribute", hue="template", null=0.3)
    assert not [patch for patch in own.patches if patch.get_label() == "too small to matter"]


def test_family_has_one_colour_and_people_are_sorted_last():
    judges = {"gpt-4": 0.9, "expert-1": 0.1, "claude-3-opus": 0.5, "gpt-5": 0.2}
    frame = pd.DataFrame([row(value, value - 0.1, value + 0.1, judge=judge) for judge, value in judges.items()])
    ax = bl.plots.intervals(frame, by="judge")
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["gpt-5", "claude-3-opus", "gpt-4", "expert-1"]
    drawn = {names[round(y)]: c.lines[0].get_color() for c in ax.containers for y in c.lines[0].get_ydata()}
    assert drawn["gpt-4"] == drawn["gpt-5"] == bl.plots.style.FAMILIES["GPT"][1]
    assert len(set(drawn.values())) == 3
    lines = bl.plots.draw(frame.assign(n=[1, 2, 1, 2]), x="n", hue="judge").axes[0].lines
    assert drawn.items() <= {line.get_label(): line.get_color() for line in lines}.items()


def test_a_long_line_above_leaves_room_for_the_panel(estimates):
    [ax] = bl.plots.draw(estimates, "tie_rate", by="attribute", title="a title of many words " * 5).axes
    assert len(ax.get_title(loc="left").splitlines()) > 2
    ax.figure.canvas.draw()  # warns where the layout leaves no room, and warnings are errors here
    assert ax.get_position().width > 0.3


@pytest.mark.parametrize("look", [{"by": "attribute"}, {"by": ["attribute", "template"]}, {"x": "human_gap"}])
def test_title_fits_the_figure_and_breaks_between_facts(estimates, look):
    of_toy = estimates.assign(judge="local:smollm2-135m@x")
    [ax] = bl.plots.draw(of_toy, "first_position_rate", where={"template": 1}, **look).axes
    ax.figure.canvas.draw()
    assert ax._left_title.get_window_extent().x1 <= ax.figure.bbox.x1
    assert ax._left_title.get_fontfamily()[0] == "Roboto Condensed"
    lines = ax.get_title(loc="left").splitlines()
    facts = [fact for line in lines for fact in line.split(" · ")]
    assert [facts[0], facts[-1]] == ["toy judge (SmolLM2-135M)", "95 % intervals"]  # each of them whole
    assert len(lines) > 1
    assert "·" not in {line[end] for line in lines for end in (0, -1)}  # a line's end separates facts by itself


@pytest.mark.slow
def test_font_is_bundled_and_has_a_fallback_for_missing_glyphs(tmp_path):
    frame = pd.DataFrame([row(0.5, 0.4, 0.6, judge="A → ✓ αρ ≥ ½")])
    ax = bl.plots.intervals(frame, by="judge", title="a title")
    texts = [*ax.get_yticklabels(), *ax.get_xticklabels(), ax.xaxis.label, *ax.texts]
    assert {text.get_fontfamily()[0] for text in texts} == {"Roboto Condensed"}
    bl.plots.save(ax, frame, "position", "rate", tmp_path)  # a glyph that no face has is a warning, an error here


def test_a_figure_of_a_toy_or_a_simulated_judge_says_so():
    for judge, mark in (("simulated:position=1", "simulated judge"), ("local:smollm2-135m@x", "toy judge"), ("j", "")):
        above = bl.plots.intervals(pd.DataFrame([row(0.5, 0.4, 0.6, judge=judge)]), title="a title").get_title("left")
        assert above.splitlines()[1].startswith(mark)
        assert bool(mark) == ("judge" in above)


def row(value, low, high, p=0.001, **more):
    about = {"probe": "position", "judge": "j", "dataset": "d", "metric": "first_position_rate", "n_contexts": 9}
    return about | {"estimate": value, "ci_low": low, "ci_high": high, "p_value": p} | more


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([row(0.7, 0.6, 0.8, n_contexts=40)], "j: prefers the candidate shown first (P(A) 0.70 [0.60, 0.80])"),
        (
            [row(0.52, 0.4, 0.65, 0.3, attribute=name) for name in "ab"],
            "j: P(A) 0.52 in both, inconclusive in both; n = 9 contexts",
        ),
        (
            [row(x, 0.2, 0.4, metric="tie_rate", attribute=name) for x, name in ((0.3, "a"), (0.35, "b"))],
            "j: ties 0.30 (a) to 0.35 (b); n = 9 contexts",
        ),
        (
            [row(x, 0.2, 0.4, metric="tie_rate", judge=name, scorer=name) for x, name in ((0.3, "a"), (0.35, "b"))],
            "Ties 0.30 (a, a) to 0.35 (b, b); n = 9 contexts",
        ),
        (
            [row(0.7, 0.6, 0.8, judge=name) for name in ("gpt-4", "expert-1")] + [row(0.2, 0.1, 0.3, judge="c")],
            (
                "2 judges and 1 person: prefers the candidate shown first in 2 of 3, "
                "prefers the candidate shown second in 1 (P(A) 0.20 to 0.70, of people 0.70 [0.60, 0.80]); "
                "n = 9 contexts"
            ),
        ),
        (
            [row(0.7, 0.6, 0.8, judge="simulated:a", metric="tie_rate")],
            "Simulated judge: ties 0.70 [0.60, 0.80]; n = 9 contexts",
        ),
        (
            [row(0.5, 0.4, 0.6, probe="corrected", metric="win_rate", n_contexts=90)],
            "Systems judged by j: win rate 0.50 [0.40, 0.60], inconclusive",
        ),
        ([row(np.nan, np.nan, np.nan)], ""),
    ],
)
def test_headline_names_judge_findings_and_range(rows, sentence):
    assert bl.plots.headline(pd.DataFrame(rows)) == sentence


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ([row(0.7, 0.6, 0.8), row(0.2, 0.1, 0.3), row(0.51, 0.49, 0.53, 0.3)], {"above": 1, "below": 1, "none": 1}),
        ([row(0.6, 0.51, 0.7, p) for p in (0.04, 0.06, 0.9)], {"open": 3}),  # q is over all three
        ([row(0.6, 0.51, 0.7, p, q_value=p) for p in (0.04, 0.06, 0.9)], {"above": 1, "open": 2}),  # q of the study
        ([row(0.7, np.nan, np.nan, 0.001)], {"open": 1}),  # an interval is missing, so nothing excludes the null
        ([row(0.7, 0.6, 0.8) | {"bound_low": 0.3, "bound_high": 0.99, "n_dropped": 4}], {"open": 1}),
        ([row(0.7, 0.6, 0.8), row(0.7, 0.6, 0.8, np.nan)], {"above": 1, "untested": 1}),
    ],
)
def test_findings_of_a_figure_are_those_of_its_study(rows, counts):
    assert with_findings(pd.DataFrame(rows))["finding"].value_counts().to_dict() == counts


_NUMBERS = st.floats(0.01, 0.99)
_ROWS = st.lists(
    st.tuples(_NUMBERS, _NUMBERS, _NUMBERS, st.floats(0, 1), st.booleans(), st.booleans(), _NUMBERS),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@given(_ROWS)
@settings(deadline=None, max_examples=8)
def test_title_marks_and_table_of_a_figure_agree(tmp_path_factory, values):
    rows = []
    for place, (a, b, c, p, bare, untested, bound) in enumerate(values):
        low, value, high = sorted((a, b, c))
        bounds = {"bound_low": min(low, bound), "bound_high": max(high, bound)}
        low, high = (np.nan, np.nan) if bare else (low, high)
        p = np.nan if untested else p
        rows.append(row(value, low, high, p, attribute=f"a{place}", q_value=p, n_contexts=50, **bounds))
    out = tmp_path_factory.mktemp("figures")
    drawn = bl.plots.draw(pd.DataFrame(rows), "first_position_rate", by="attribute", name="a__b", out=out)
    table = pd.read_csv(out / "a__b.csv")
    [ax], tested = drawn.axes, table["finding"].ne("untested").any()
    marks = [container.lines[0] for container in ax.containers]
    assert tested or {(mark.get_markersize(), mark.get_markerfacecolor()) for mark in marks} == {
        (4, marks[0].get_color())
    }
    assert tested == bool(set(FOUND_WORDS.values()) & {text.get_text() for text in ax.figure.legends[0].get_texts()})
    shown = [mark for mark in marks if mark.get_markerfacecolor() != "white" and mark.get_markersize() > 3]
    filled = sum(len(mark.get_xdata()) for mark in shown) if tested else 0
    found = table["finding"].isin(["above", "below"])
    for place, each in enumerate(table.to_dict("records")):  # what is drawn shows why a mark is not filled
        lines = [segment for c in ax.collections if c.get_label() == BEYOND for segment in c.get_segments()]
        ends = [x for segment in lines if segment[0, 1] == place for x in segment[:, 0]]
        drawn_to = [x for x in (each["ci_low"], each["ci_high"], *ends) if x == x]
        excludes = bool(drawn_to) and not min(drawn_to) <= 0.5 <= max(drawn_to)
        assert each["finding"] not in ("above", "below") or excludes
        assert each["finding"] in ("above", "below", "untested") or not (each["q_value"] < 0.05 and excludes)
    [title] = table["headline"].unique()
    sides = "prefers the candidate shown (?:first|second)"
    counted = re.findall(rf"{sides}(?: in (?:(both|all)|(\d+)))?", title)
    stated = sum(len(table) if word or not number else int(number) for word, number in counted)
    assert filled == found.sum() == stated
    assert not (found & table["ci_low"].isna()).any()
    plt.close("all")


@pytest.mark.slow
def test_a_figure_says_what_it_draws_and_not_what_is_beside_it(estimates, tmp_path):
    shown = without_breakdowns(estimates)
    ax = bl.plots.intervals(estimates, "tie_rate", by="attribute")
    height = ax.figure.get_figheight()
    path = bl.plots.save(ax, estimates, "position", "ties", tmp_path)[-1]
    said = bl.plots.headline(shown[shown["metric"] == "tie_rate"])
    assert said.startswith("Simulated judge: ties")
    assert " ".join(ax.figure.get_suptitle().split()) == said
    assert pd.read_csv(path)["headline"].unique().tolist() == [said]
    assert ax.figure.get_figheight() > height
    bl.plots.save(ax, estimates, "position", "ties", tmp_path, headline="something else")
    assert ax.figure.get_suptitle() == "something else"
    plain = bl.plots.intervals(estimates, "tie_rate", by="attribute")
    bl.plots.save(plain, estimates, "position", "plain", tmp_path, headline="")
    assert not plain.figure.get_suptitle()


def test_a_condition_that_does_not_vary_is_no_legend(estimates):
    one = without_breakdowns(estimates)
    one = one[one["template"] == 1]
    ax = bl.plots.intervals(one, "first_position_rate", by="attribute", hue="template")
    assert ax.get_legend_handles_labels()[1] == ["found (q < .05)", "too small to matter"]


def test_short_values_are_named_in_words():
    rows = [row(0.5, 0.4, 0.6, remedy=name, order=order) for name, order in (("none", "s"), ("swap", "rs"))]
    ax = bl.plots.intervals(pd.DataFrame(rows), "first_position_rate", by="order", hue="remedy")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["score alone", "reasons first"]
    assert ax.get_legend_handles_labels()[1][:2] == ["no remedy", "swap"]


def test_rows_are_named_by_several_conditions(estimates):
    one = without_breakdowns(estimates).assign(order=["s", None] * (len(without_breakdowns(estimates)) // 2))
    ax = bl.plots.intervals(one, "tie_rate", by=["attribute", "template", "order"], hue="metric")
    rows = one[one["metric"] == "tie_rate"]
    ends = [" · score alone" if order == "s" else "" for order in rows["order"]]
    names = [f"{name} · {i}{end}" for name, i, end in zip(rows["attribute"], rows["template"], ends, strict=True)]
    assert [text.get_text() for text in ax.get_yticklabels()] == names


def test_a_row_has_several_published_values(estimates):
    theirs = pd.DataFrame({"label": "two", "attribute": ["fluency", "fluency", "x"], "value": [0.3, 0.4, 0.5]})
    [ax] = bl.plots.draw(estimates, "tie_rate", by="attribute", hue="template", published=theirs).axes
    assert published(ax)[0].get_xdata().tolist() == [0.3, 0.4]


@pytest.fixture(scope="module")
def labelled():
    """Verdicts of two judges, and scores of one, of the same sixty answers with people's labels."""
    random = np.random.default_rng(0)
    human = random.integers(1, 6, 60)
    score = np.clip(human + random.choice([-1, 0, 0, 1, 1, 2], 60), 1, 5)
    items = {"question": [f"q{n}" for n in range(60)], "human_score": human, "score": score}
    verdicts = pd.concat(
        pd.DataFrame(items).assign(judge=judge, score=(score >= least) * 1, human_score=(human >= 3) * 1)
        for judge, least in (("mild", 2), ("strict", 4))
    )
    return bl.read_judgements(verdicts), bl.read_judgements(pd.DataFrame(items))


@pytest.mark.slow
def test_confusion_matrix_has_the_counts_of_the_log(labelled):
    trials, _ = labelled
    drawn = bl.plots.confusion(bl.audit(trials, only=["agreement"]))
    for ax, judge in zip(drawn.axes, ("mild", "strict"), strict=True):
        rows = trials[trials["judge"] == judge]
        table = pd.crosstab(rows["value"], rows["human"]).loc[[1, 0], [1, 0]]
        assert [int(text.get_text().split("\n")[0]) for text in ax.texts] == table.to_numpy().ravel().tolist()
        assert [label.get_text() for label in ax.get_yticklabels()] == ["pass", "fail"]
        assert judge in ax.get_title(loc="left")


@pytest.mark.slow
def test_confusion_headline_has_the_highest_agreement(labelled, tmp_path):
    trials, _ = labelled
    bl.plots.confusion(bl.audit(trials, only=["agreement"]), name="a__passes", out=tmp_path)
    agreed = trials["value"].eq(trials["human"]).groupby(trials["judge"]).mean()
    [headline] = pd.read_csv(tmp_path / "a__passes.csv")["headline"].unique()
    assert headline.startswith(f"People agree with {100 * agreed.max():.2g} % of the verdicts of {agreed.idxmax()} and")


def test_bland_altman_draws_differences_and_limits(labelled):
    _, trials = labelled
    [apart] = bl.plots.bland_altman(trials, bl.audit(trials, only=["agreement"])).axes
    drawn = {tuple(dot) for dot in apart.collections[0].get_offsets().data.tolist()}
    means, differences = (trials["value"] + trials["human"]) / 2, trials["value"] - trials["human"]
    assert drawn == set(zip(means, differences, strict=True))
    difference = trials["value"] - trials["human"]
    limits = difference.mean() + 1.96 * difference.std() * np.array([-1, 0, 1])
    assert sorted(line.get_ydata()[0] for line in apart.lines[1:]) == pytest.approx(limits, abs=0.02)
    assert apart.lines[0].get_ydata()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", ["value", "human"])
def test_plots_without_labels_draw_nothing(labelled, part):
    for trials in labelled:
        estimates = bl.audit(trials, only=["agreement"])
        none = bl.plots.bland_altman(trials.assign(**{part: np.nan}), estimates)
        assert not none.axes
        assert not bl.plots.confusion(estimates.assign(label=np.nan)).axes


@pytest.mark.slow
def test_bias_matrix_has_a_cell_per_judge_and_tested_bias(make_row, tmp_path):
    rows = [
        make_row(judge=judge, estimate=rate, ci_low=rate - 0.03, ci_high=rate + 0.03, p_value=p_value)
        for judge, rate, p_value in (("a", 0.8, 0.001), ("b", 0.5, 0.9))
    ]
    length = {"probe": "verbosity", "metric": "verbosity_slope", "judge": "a", "estimate": -0.4}
    rows.append(make_row(ci_low=-0.5, ci_high=-0.3, p_value=0.001, **length))
    drawn = bl.plots.bias_matrix(pd.DataFrame(rows), name="a__biases", out=tmp_path)
    [ax] = drawn.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["● 0.80", "● −0.40", "○ 0.50", ""]
    [image] = ax.images
    assert image.get_array().filled(np.nan).ravel() == pytest.approx([3.0, -2.0, 0.0, np.nan], nan_ok=True)
    saved = pd.read_csv(tmp_path / "a__biases.csv")
    assert re.findall(r"\d of \d|\w+: \d, of \d", saved["headline"].iloc[0]) == [
        "1 of 2",
        "first: 1, of 2",
        "score: 1, of 1",
    ]
    assert dict(zip(saved["judge"] + saved["metric"], saved["finding"], strict=True)) == {
        "afirst_position_rate": "above", "averbosity_slope": "below", "bfirst_position_rate": "none",
    }  # fmt: skip
    assert [text.get_text() for text in bl.plots.bias_matrix(pd.DataFrame(rows), 2).axes[0].texts] == texts[:2]
    assert not bl.plots.bias_matrix(pd.DataFrame(rows), 3).axes


def test_bias_matrix_counts_tests_of_a_cell_that_found_a_bias(make_row):
    rates = {"x": (0.68, 0.001), "y": (0.5, 0.9), "z": (0.51, 0.8)}
    rows = [
        make_row(attribute=name, estimate=rate, ci_low=rate - 0.03, ci_high=rate + 0.03, p_value=p, q_value=p)
        for name, (rate, p) in rates.items()
    ]
    frame = pd.DataFrame(rows)
    assert [text.get_text() for text in bl.plots.bias_matrix(frame).axes[0].texts] == ["● 0.68\n1 of 3"]
    for part in (frame[:1], frame[1:]):  # one test, and no bias found
        [text] = [text.get_text() for text in bl.plots.bias_matrix(part).axes[0].texts]
        assert "of" not in text


def test_matrix_has_a_cell_per_pair_of_conditions(make_row, tmp_path):
    rates = {("a", "x"): 0.2, ("a", "y"): 0.9, ("b", "x"): 0.7, ("b", "y"): 0.8}
    rows = pd.DataFrame([make_row(judge=judge, attribute=name, estimate=x) for (judge, name), x in rates.items()])
    metric = "first_position_rate"
    [ax] = bl.plots.matrix(rows, metric, across="attribute", name="a__b", out=tmp_path).axes
    assert [text.get_text() for text in ax.texts] == ["0.70", "0.80", "0.20", "0.90"]  # highest mean first
    [headline] = pd.read_csv(tmp_path / "a__b.csv")["headline"].unique()
    assert (
        headline
        == "P(A) is lowest in x for 2 of 2 judges (0.20 to 0.70), highest in y for 2 of 2 judges (0.80 to 0.90)"
    )
    assert bl.plots.matrix(rows, "tie_rate", across="attribute").missing == ("Not drawn: no tie rate by attribute",)
    [image] = bl.plots.matrix(rows.assign(estimate=-rows["estimate"]), metric, across="attribute").axes[0].images
    assert image.norm.vmin < -0.9 < 0.9 < image.norm.vmax
    with pytest.raises(TrialsError, match="judge a and attribute x"):
        bl.plots.matrix(pd.concat([rows, rows]), metric, across="attribute")


def test_forest_draws_pooled_interval_as_a_diamond(make_row, tmp_path):
    rates = {"x": 0.62, "y": 0.6, "z": 0.72, "w": 0.7}
    rows = [make_row(estimate=x, se=0.02, ci_low=x - 0.04, ci_high=x + 0.04, dataset=name) for name, x in rates.items()]
    [ax] = bl.plots.forest(pd.DataFrame(rows), name="a__b", out=tmp_path).axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert (names[:4], names[4][:6]) == (["y", "x", "w", "z"], "pooled")
    [diamond] = [each for each in ax.patches if isinstance(each, Polygon) and len(each.get_xy()) == 5]
    low, mean, high = bl.synthesis(pd.DataFrame(rows))[["ci_low", "estimate", "ci_high"]].to_numpy()[0]
    assert diamond.get_xy()[:4].ravel() == pytest.approx([low, 4, mean, 4.3, high, 4, mean, 3.7])
    assert diamond.get_facecolor()[:3] == (0, 0, 0)  # a bias is found
    saved = pd.read_csv(tmp_path / "a__b.csv")
    assert saved["n_estimates"].dropna().tolist() == [4]
    [bar] = [line for line in ax.lines if line.get_linewidth() == 4]
    assert bar.get_xdata() == pytest.approx(saved[["prediction_low", "prediction_high"]].to_numpy()[-1])


def test_forest_pools_each_judge_by_itself(make_row):
    rows = [make_row(estimate=x, se=0.02, dataset=n, judge=j) for j, n, x in product("ab", "xyz", (0.5,))]
    rows.append(make_row(estimate=0.9, se=0.02, dataset="x", judge="c"))  # too few data sets
    [ax] = bl.plots.forest(pd.DataFrame(rows)).axes
    assert [label.get_text()[:5] for label in ax.get_yticklabels()] == [
        "a · x", "a · y", "a · z", "a · p", "b · x", "b · y", "b · z", "b · p",
    ]  # fmt: skip
    with pytest.raises(TrialsError, match="metric is"):
        bl.plots.forest(pd.concat([pd.DataFrame(rows), pd.DataFrame(rows).assign(metric="tie_rate")]))


def test_identity_draws_estimates_at_their_targets():
    rows = pd.DataFrame(
        {"truth": [0.1, 0.4, 0.9], "estimate": [0.1, 0.5, 0.9], "kind": ["equal", "different", "equal"]}
    )
    rows = rows.assign(ci_low=np.nan, ci_high=np.nan)
    [ax] = bl.plots.identity(rows, "truth", "kind", "three", ("printed", "ours")).axes
    marks = [container.lines[0] for container in ax.containers]
    drawn = [list(zip(mark.get_xdata(), mark.get_ydata(), strict=True)) for mark in marks]
    assert drawn == [[(0.1, 0.1), (0.9, 0.9)], [(0.4, 0.5)]]
    legend = {text.get_text() for text in ax.figure.legends[0].get_texts()}
    assert legend == {"both are equal", "equal", "different"}
    assert not bl.plots.identity(rows.assign(truth=np.nan), "truth", "kind", "three", ("printed", "ours")).axes


def test_figures_of_nothing_say_so(make_row):
    nothing = bl.plots.bias_matrix(pd.DataFrame([make_row()]).iloc[:0])
    assert [bool(nothing.axes), len(nothing.missing)] == [False, 1]
    empty = pd.DataFrame(columns=["probe", "metric", "truth", "estimate", "ci_low", "ci_high", "inside"])
    assert bl.plots.recovery(empty).missing == ("Not drawn: no estimate with a true value",)
