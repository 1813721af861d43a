"""Plots draw what the frame says: every estimate, its interval, its null, its n."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.errors import TrialsError
from biaslab.probes.position import Position


@pytest.fixture(scope="module")
def estimates(graded):
    probe = Position(["coherence", "fluency"])
    return probe.estimate(bl.collect(probe, bl.SimulatedJudge(graded, position=0.6, noise=1), graded, progress=False))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


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
    assert ax.get_title(loc="left") == "graded (constructed) · n = 8 contexts · 95% intervals"
    assert len(ax.figure.legends[0].get_texts()) == 2


def test_intervals_finds_what_varies_by_itself(estimates):
    ax = bl.plots.intervals(estimates)
    assert len(dots(ax)) == 4


def test_several_metrics_are_told_apart(estimates):
    ax = bl.plots.intervals(estimates, ["order_consistency", "resampling_consistency"], by="attribute")
    assert {t.get_text() for t in ax.figure.legends[0].get_texts()} == {
        "same winner in both orders", "two samples of one request agree",
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


def test_unknown_metric_lists_those_there_are(estimates):
    with pytest.raises(TrialsError, match="order_consistency"):
        bl.plots.intervals(estimates, "beauty")
    with pytest.raises(TrialsError, match="gap"):
        bl.plots.against(estimates, "gap")
