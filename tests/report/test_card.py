"""The card answers: can I trust this judge, for what, and what should I do?"""

import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab import report
from biaslab.core.errors import InputError, TrialsError
from biaslab.report.plots.style import family_colour
from biaslab.stats import adjust_families


class Page(HTMLParser):
    """Which tags a page has, and what they point to."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]


def test_card_has_bias_for_biased_and_none_for_fair_judge(estimates):
    card = report.card(estimates)
    assert len(card.judges) == 2
    verdicts = card.biases.set_index("judge")
    assert verdicts.loc[card.judges[0], "status"] == "bias"
    assert verdicts.loc[card.judges[0], "verdict"].startswith("prefers the candidate shown first (in 4 of 4)")
    assert verdicts.loc[card.judges[0], "advice"] == "ask every pair in both orders and average"
    assert verdicts.loc[card.judges[1], "status"] == "none"
    assert verdicts.loc[card.judges[1], "verdict"] == "no bias of ≥ 0.10 (in 4 of 4)"
    assert (card.quality["label"] == "pairs ordered as the reference scores do (share)").all()


def test_excluded_and_inconclusive_bias_read_differently(make_row):
    rows = [make_row(judge=name, p_value=0.4, estimate=0.48, ci_high=x) for name, x in (("able", 0.52), ("blind", 0.9))]
    card = report.card(pd.DataFrame(rows))
    assert card.biases["status"].tolist() == ["none", "unclear"]
    assert card.biases["verdict"].iloc[1] == "a shift of up to 0.40 is possible; ≥ 0.10 matters"
    text = card.to_markdown()
    assert "○ **no bias that matters**" in text
    assert "? **inconclusive**" in text


def test_q_values_are_over_all_tests_of_the_card(make_row):
    p = [0.01, 0.02, 0.03, 0.5]
    names = ["first_position_rate", "first_position_rate", "agreement_loss", "agreement_loss"]
    probes = ["position", "position", "source", "source"]
    rows = [
        make_row(p_value=p, attribute=str(i), metric=m, probe=n)
        for i, (p, m, n) in enumerate(zip(p, names, probes, strict=True))
    ]
    of_another = make_row(judge="another", p_value=0.2)
    breakdown = make_row(metric="tie_rate", p_value=1e-6)
    card = report.card([pd.DataFrame([row]) for row in (*rows, of_another, breakdown)])
    expected = adjust_families([*p, 0.2], [0, 0, 1, 1, 2])
    np.testing.assert_allclose(card.cells["q_value"], expected)
    assert "q over 5 tests of 2 metrics and 2 judges, all on this card" in card.to_markdown()


def test_other_smallest_effects_change_the_verdict(estimates):
    assert report.card(estimates, matters={"first_position_rate": 0.001}).biases["status"].tolist() == [
        "bias",
        "unclear",
    ]
    with pytest.raises(InputError, match="for metrics among first_position_rate"):
        report.card(estimates, matters={"tie_rate": 0.1})


def test_measured_remedies_of_ranking_are_read():
    data = bl.load_dataset("graded", limit=8)
    probe = bl.probes.Position(["coherence"], [1])
    trials = bl.collect(probe, bl.SimulatedJudge(data, position=2.0, noise=0.5), data, progress=False)
    remedies = bl.ranking.compare_remedies(trials, data.human_means, orders=["both"])
    [found] = report.card(probe.estimate(trials), remedies).biases["remedy"]
    before, after = map(float, re.search(r"(0\.\d+) becomes (0\.\d+)", found).groups())
    assert abs(after - 0.5) < abs(before - 0.5)


def test_card_files_are_self_contained_and_escaped(estimates, tmp_path):
    hostile = "<script>alert(1)</script> & | $x^2$ *b*"
    frame = estimates.replace({"judge": {estimates["judge"].iloc[0]: hostile}, "dataset": {}})
    card = report.card(frame, unmeasured=[(hostile, "source", "<img src=x>")])
    files = card.save(tmp_path / "card")
    assert [file.suffix for file in files] == [".html", ".md", ".png", ".csv"]
    page = Page(files[0].read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert page.tags.count("img") == 1
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert "<script>" not in files[1].read_text(encoding="utf-8")
    assert "a | b" not in files[1].read_text(encoding="utf-8")
    assert files[2].read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(files[3])) == len(card.cells)
    again = card.save(tmp_path / "again")
    assert [f.read_bytes() for f in again] == [f.read_bytes() for f in files]


def test_the_figure_shows_every_cell_in_units_of_what_matters(estimates):
    card = report.card(estimates)
    ax = card.plot()
    drawn = sorted(float(x) for c in ax.containers for x in np.atleast_1d(c.lines[0].get_xdata()))
    assert drawn == pytest.approx(sorted((card.cells["estimate"] - 0.5) / 0.1))
    said = " ".join(" ".join(text.get_text().split()) for text in ax.texts)
    assert "found prefers" in said
    assert "no bias that matters" in said
    assert {"●", "○"} <= {text.get_text().strip() for text in ax.texts}


def test_no_text_of_the_figure_lies_on_another(make_row):
    """Three judges with long names, and metrics with long labels, as rows of one to five cells."""
    metrics = {"position": "first_position_rate", "one_order": "first_position_log_odds", "source": "agreement_loss"}
    rows = [
        make_row(judge=f"{name}-of-a-long-name-with-a-date", probe=probe, metric=metric, attribute=str(cell))
        for name in ("first", "second", "third")
        for cells, (probe, metric) in zip((1, 3, 5), metrics.items(), strict=True)
        for cell in range(cells)
    ]
    ax = report.card(pd.DataFrame(rows)).plot()
    ax.figure.draw_without_rendering()
    shown = [text for text in (*ax.texts, *ax.get_xticklabels(), ax.xaxis.label) if text.get_text().strip()]
    boxes = [text.get_window_extent() for text in (*shown, ax.title, ax._left_title) if text.get_text()]
    assert len(boxes) > 20
    apart = [one.padded(-1).overlaps(other.padded(-1)) for one, other in itertools.combinations(boxes, 2)]
    assert not any(apart)


def test_figure_sorts_worst_first_and_colours_by_family(make_row):
    source = {"probe": "source", "metric": "agreement_loss"}
    fair = {"ci_low": 0.49, "estimate": 0.5, "ci_high": 0.51, "p_value": 0.9}
    lost = {"ci_low": 0.4, "estimate": 0.5, "ci_high": 0.6}
    rows = [make_row(judge=name, **more) for name in ("gpt-4", "claude-3") for more in (fair, source | lost)]
    ax = report.card(pd.DataFrame(rows), reference=None).plot()
    names = [text.get_text().split() for text in ax.texts]
    assert names.index(["source"]) < names.index(["position"])
    assert names.count(["gpt-4"]) == 2
    assert ax.get_title(loc="left").count("gpt-4") == 0
    drawn = {container.lines[0].get_color() for container in ax.containers}
    assert drawn == {family_colour("gpt-4"), family_colour("claude-3")}


@pytest.mark.parametrize("reach", [1.9, 12.0, 130.0])
def test_the_axis_of_the_figure_has_numbers_beyond_what_matters(make_row, reach):
    """A value can be read from the figure: numbers on both sides of the farthest, or near it, and none over another."""
    far = make_row(estimate=0.5 + 0.1 * reach, ci_low=0.5 + 0.1 * reach, ci_high=0.5 + 0.1 * reach)
    ax = report.card(pd.DataFrame([far]), reference=None).plot()
    ax.figure.draw_without_rendering()
    ticks = [tick for tick in ax.get_xticks() if 1 < tick <= ax.get_xlim()[1]]
    assert ticks
    assert min(abs(np.log(tick / reach)) for tick in ticks) < np.log(2)
    boxes = sorted((label.get_window_extent() for label in ax.get_xticklabels()), key=lambda box: box.x0)
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    assert {"−2", "2"} <= {label.get_text() for label in ax.get_xticklabels()} or reach > 100
    marked = {round(float(tick)) for tick in (*ax.get_xticks(), *ax.get_xticks(minor=True))}
    assert marked >= set(range(2, min(10, int(ax.get_xlim()[1]) + 1)))


def test_untested_bias_is_named_but_has_no_row_in_the_figure(make_row):
    untested = make_row(probe="source", metric="agreement_loss", p_value=float("nan"), note="no context varies")
    card = report.card(pd.DataFrame([make_row(), untested]), reference=None)
    assert card.biases["status"].tolist() == ["bias", "untested"]
    ax = card.plot()
    assert ax.get_ylim() == (0.5, -0.5)
    assert not any("agreement" in text.get_text() for text in ax.texts)
    assert ax.get_title(loc="left").endswith("not tested: source (agreement lost without the source)")
    assert report.card(pd.DataFrame([untested]), reference=None).plot().get_ylim() == (0.5, -0.5)


def test_frame_without_primary_metric_is_refused(biased):
    with pytest.raises(TrialsError, match="at least one primary metric"):
        report.card(biased[biased["metric"] == "tie_rate"])
    with pytest.raises(InputError, match="at least one estimates frame"):
        report.card([])


def test_primary_agreement_metric_is_quality_not_bias(make_row):
    agreeing = make_row(probe="comparative", metric="spearman", estimate=0.8)
    card = report.card(pd.DataFrame([make_row(), agreeing]))
    assert card.biases["metric"].tolist() == ["first_position_rate"]
    assert card.quality["estimate"].tolist() == ["0.800"]
    assert "Spearman" in card.to_markdown().split("Agreement with the reference scores")[1]


def test_many_cells_of_agreement_are_summed_up(make_row):
    rows = [
        make_row(metric="comparative_accuracy", attribute=str(i), estimate=0.5 + i / 10, ci_low=0.4 + i / 10)
        for i in range(5)
    ]
    [said] = report.card(pd.DataFrame([make_row(), *rows])).quality["estimate"]
    assert said == "0.500 to 0.900, shown above chance in 3 of 5 cells"


def test_advice_is_given_once(make_row):
    both = [make_row(estimate=0.9), make_row(estimate=0.1, attribute="fluency")]
    assert report.card(pd.DataFrame(both)).biases["advice"].tolist() == ["ask every pair in both orders and average"]


def test_the_first_line_says_what_a_judge_is_fit_for(estimates):
    card = report.card(estimates)
    biased, fair = card.judges
    assert card.overall[biased] == "Do not use for pairs shown in one order only."
    assert card.overall[fair] == "Fine for pairs shown in one order only."
    page = card.to_html()
    assert page.index("Do not use for") < page.index("Fine for") < page.index("Bias by bias")
    assert "**Do not use for** pairs shown in one order only" in card.to_markdown()


def test_the_first_line_follows_the_worst_verdict_on_a_use(make_row):
    """Length: a bias in pairs and none in scores is a reason not to compare texts of different length."""
    length = {"probe": "verbosity", "estimate": 0.9, "ci_low": 0.7, "ci_high": 1.1}
    nothing = {"p_value": 0.9, "estimate": 0.0, "ci_low": -0.1, "ci_high": 0.1}
    wide = {"p_value": 0.5, "estimate": 0.4, "ci_low": -0.5, "ci_high": 1.3}
    untested = make_row(probe="source", metric="agreement_loss", p_value=float("nan"), note="no context varies")
    scores, pairs = "verbosity_slope", "verbosity_logit"
    for found, words in (({}, "Do not use for"), (wide, "Cannot tell for"), (nothing, "Fine for")):
        rows = [make_row(metric=scores, **length | nothing), make_row(metric=pairs, **length | found), untested]
        [said] = report.card(pd.DataFrame(rows), reference=None).overall.values()
        assert said.split(".")[0] == f"{words} comparing texts of different length"
        assert said.endswith("Agreement with the reference scores was not measured, so this covers biases only.")
    [said] = report.card(pd.DataFrame([untested]), reference=None).overall.values()
    assert said.startswith("No use could be tested.")


def test_agreement_that_chance_may_explain_limits_the_first_line(make_row):
    for low, limited in ((0.4, True), (0.55, False)):
        agreeing = make_row(metric="comparative_accuracy", estimate=0.6, ci_low=low)
        [said] = report.card(pd.DataFrame([make_row(), agreeing]), reference=None).overall.values()
        assert ("not shown to be above chance" in said) == limited


def test_harmless_direction_of_a_bias_keeps_the_judge_fit(make_row):
    """A judge that agrees with itself more than annotators do may well be asked once."""
    for sign, words in ((1, "Fine for"), (-1, "Do not use for")):
        gap = {"estimate": 0.5 * sign, "ci_low": 0.5 * sign - 0.1, "ci_high": 0.5 * sign + 0.1}
        row = make_row(probe="consistency", metric="alpha_gap", **gap)
        [said] = report.card(pd.DataFrame([row]), reference=None).overall.values()
        assert said.startswith(f"{words} scores of a single sample.")


def test_every_bias_of_a_probe_says_which_use_it_spoils():
    metrics = {
        (name, one.name): one for name, probe in bl.probes.import_own().items() for one in probe.metrics
    }.values()
    biases = [metric for metric in metrics if metric.primary and not metric.quality]
    assert len(biases) > 20
    assert [one.name for one in biases if not any(one.use)] == []


def test_each_verdict_has_a_colour_a_mark_and_what_to_do(make_row):
    rows = [
        make_row(attribute="found"),
        make_row(judge="able", p_value=0.4, estimate=0.48, ci_high=0.52),
        make_row(judge="blind", p_value=0.4, estimate=0.48, ci_high=0.9),
    ]
    card = report.card(pd.DataFrame(rows), reference=None)
    assert card.biases["to_do"].tolist() == [card.biases["advice"].iloc[0], "nothing", "ask about more contexts"]
    page = card.to_html()
    for status, words in (("bias", "● found"), ("none", "○ no bias that matters"), ("unclear", "? inconclusive")):
        assert f'<span class="light {status}">{words}</span>' in page
