"""The card answers: can I trust this judge, for what, and what should I do?"""

import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import biaslab as bl
from biaslab import report
from biaslab.calibration.population import Population, construct_population, estimate_each, studies
from biaslab.core.errors import InputError, TrialsError
from biaslab.report.plots.style import family_colour, family_of
from biaslab.report.summary import best_remedy
from biaslab.report.verdicts import classify, detectable
from biaslab.stats.frame import adjust_families, corrected_effects, critical_p
from biaslab.stats.resample import Resampling
from biaslab.stats.t_inference import inflation


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


@pytest.mark.slow
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


@pytest.mark.slow
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

    fair = make_row(estimate=0.5, ci_low=0.47, ci_high=0.53, p_value=0.9)
    for low, words in ((0.4, "Cannot tell for"), (0.55, "Fine for")):
        agreeing = make_row(metric="comparative_accuracy", estimate=0.6, ci_low=low)
        [said] = report.card(pd.DataFrame([fair, agreeing]), reference=None).overall.values()
        assert said.startswith(words)


def test_judge_below_chance_is_fit_for_nothing(make_row):
    fair = {"estimate": 0.5, "ci_low": 0.47, "ci_high": 0.53, "p_value": 0.9}
    agreeing = make_row(metric="comparative_accuracy", estimate=0.44, ci_low=0.4, ci_high=0.48)
    made = report.card(pd.DataFrame([make_row(**fair), agreeing]), reference=None)
    fitness = made._fitness(made.judges[0])
    assert (fitness.unfit, fitness.fit, fitness.light) == (("any judgement",), (), "bias")


def test_answer_names_biases_found_excluded_and_open(make_row):
    rows = [
        make_row(attribute="a"),
        make_row(probe="verbosity", metric="verbosity_slope", estimate=0.0, ci_low=-0.05, ci_high=0.05, p_value=0.9),
        make_row(probe="anchoring", metric="anchor_slope", estimate=0.1, ci_low=-0.4, ci_high=0.6, p_value=0.8),
    ]
    found, excluded, unsettled, to_do = report.answer(pd.DataFrame(rows)).split(". ")
    assert re.search(r"prefers the candidate shown second \(P\(A\) 0\.\d+ \[", found)
    assert [excluded.split(": ")[0], unsettled.split(": ")[0]] == ["No bias that matters", "Inconclusive"]
    assert "ask about more contexts" in to_do
    other = make_row(judge="other", estimate=0.5, ci_low=0.48, ci_high=0.52, p_value=0.9)
    several = report.answer(pd.DataFrame([*rows, other]))
    assert "P(A) found in 1 of 2 (prefers the candidate shown second: 1), none that matters in 1 of 2" in several
    with_people = report.answer(pd.DataFrame([*rows, make_row(judge="expert-1")]))
    assert with_people == report.answer(pd.DataFrame(rows))
    quality = make_row(metric="comparative_accuracy", estimate=0.7)
    assert "0.70" in report.answer(pd.DataFrame([quality]))


def test_answer_of_several_judges_leads_with_biases_found(make_row):
    fair = {"estimate": 0.5, "ci_low": 0.48, "ci_high": 0.52, "p_value": 0.9}
    slopes = {"probe": "verbosity", "metric": "verbosity_slope", "ci_low": 0.3, "ci_high": 0.5, "p_value": 1e-6}
    rows = [make_row(judge=f"j{n}", **fair) for n in range(3)]
    rows += [make_row(judge=f"j{n}", estimate=0.4, **slopes) for n in range(2)]
    found = report.answer(pd.DataFrame(rows))
    assert found.index("found in 2 of 2") < found.index("P(A) none that matters in 3 of 3")


def test_answer_names_open_cells_on_the_other_side(make_row):
    """A cell that only missing judgements leave open contradicts the one that is found."""
    other = {"estimate": 0.8, "ci_low": 0.7, "ci_high": 0.9, "bound_low": 0.45, "bound_high": 0.95, "n_dropped": 9}
    rows = pd.DataFrame([make_row(attribute="a"), make_row(attribute="b", **other)])
    [bias] = report.card(rows, reference=None).biases.to_dict("records")
    assert (bias["sides"], bias["n_open"]) == (("below",), 1)
    for text in (bias["opposite"], bias["verdict"], report.answer(rows)):
        assert "(b 0.800 [0.700, 0.900])" in text
    assert report.card(rows.head(1), reference=None).biases["opposite"].tolist() == [""]


def test_card_as_text_says_why_a_metric_is_not_tested(make_row):
    missing = dict.fromkeys(("estimate", "ci_low", "ci_high", "p_value", "q_value"), np.nan)
    rows = [make_row(), make_row(probe="verbosity", metric="verbosity_slope", note="no reply was read", **missing)]
    made = report.card(pd.DataFrame(rows), reference=None, unmeasured=[(rows[0]["judge"], "source", "no text")])
    text = " ".join(str(made).split())
    for why in ("no reply was read", "no text"):
        assert why in text.partition("not tested:")[2]


def test_answer_on_several_judges_counts_each_once(make_row):
    high = {"estimate": 0.8, "ci_low": 0.7, "ci_high": 0.9}
    rows = [make_row(judge="a"), make_row(judge="b", **high), make_row(judge="c", attribute="x")]
    rows += [make_row(judge="c", attribute="y", **high), make_row(judge="d")]
    said = report.answer(pd.DataFrame(rows))
    [(found, of)] = re.findall(r"found in (\d) of (\d)", said)
    assert (found, of) == ("4", "4")
    assert sorted(re.findall(r": (\d)[,)]", said)) == ["1", "1", "2"]


def test_answer_without_a_test_or_a_name_of_the_judge(make_row):
    missing = dict.fromkeys(("estimate", "ci_low", "ci_high", "p_value", "q_value"), np.nan)
    assert "nothing about these biases" not in report.answer(pd.DataFrame([make_row(**missing)]))
    assert report.answer(pd.DataFrame([make_row(judge=np.nan)])).startswith("Found for the judge: ")


def test_answer_advises_another_judge_below_chance(make_row):
    fair = {"estimate": 0.5, "ci_low": 0.47, "ci_high": 0.53, "p_value": 0.9}
    agreeing = make_row(metric="comparative_accuracy", estimate=0.44, ci_low=0.4, ci_high=0.48)
    assert report.answer(pd.DataFrame([make_row(**fair), agreeing])).endswith("What to do: use another judge.")


@pytest.mark.parametrize("few", [{"n_contexts": 28}, {"p_value": 0.06}])
def test_few_labels_or_no_test_do_not_advise_another_judge(make_row, few):
    """28 picks of one person on GPT-5.2 and Claude, .31 [.19, .47], p .017: not of any judgement."""
    fair = {"estimate": 0.5, "ci_low": 0.47, "ci_high": 0.53, "p_value": 0.9}
    labelled = {"metric": "comparative_accuracy", "estimate": 0.31, "ci_low": 0.19, "ci_high": 0.47, "p_value": 0.017}
    many, less = (report.card(pd.DataFrame([make_row(**fair), make_row(**labelled | each)]), reference=None)
                  for each in ({"n_contexts": 60}, few))  # fmt: skip
    assert [made._fitness(made.judges[0]).unfit for made in (many, less)] == [("any judgement",), ()]
    assert "another judge" not in report.answer(pd.DataFrame([make_row(**fair), make_row(**labelled | few)]))


def test_judge_that_always_chooses_the_first_is_not_to_be_averaged(make_row):
    """Over both orders, all its verdicts are ties."""
    always = make_row(estimate=1.0, ci_low=0.93, ci_high=1.0, p_value=1e-9)
    assert "What to do: use another judge or prompt" in report.answer(pd.DataFrame([always]))
    fair = make_row(attribute="b", estimate=0.5, ci_low=0.48, ci_high=0.52, p_value=0.9)
    assert "another judge" not in report.answer(pd.DataFrame([always | {"attribute": "a"}, fair]))


def test_answer_on_nothing_names_no_finding(make_row):
    nothing = report.answer(pd.DataFrame([make_row()]).iloc[:0])
    assert nothing == report.answer([]) == "Nothing here is a test of a bias."


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


@pytest.mark.slow
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


#: Simulated studies, contexts of each, and the position bias, in logits, with which P(A) is .600 (found by bisection).
N, CONTEXTS, PLANTED = 200, 96, {"distribution": 0.54, "text": 0.62}


@pytest.fixture(scope="module")
def contexts():
    return construct_population(800, 3, seed=3)


def cleared(population, probe):
    """Return the share of studies of which the verdict says that there is no bias of ≥ 0.1."""
    said = 0
    for trials, seed in studies(population, CONTEXTS, N, [5]):
        found = estimate_each(probe, trials, "first_position_rate", Resampling(n=200, seed=seed))
        rows = [bl.report.findings(found.iloc[[k]]) for k in range(len(found))]
        said += sum("no bias of ≥ 0.10" in row["words"].iloc[0] for row in rows)
    return said / N


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["distribution", pytest.param("text", marks=pytest.mark.thorough)])
def test_a_fair_judge_is_cleared_and_a_biased_one_is_not(answer, contexts):
    probe = bl.probes.Position(attributes=["coherence"], templates=[1], answer=answer)
    judged = {
        bias: Population.judged(
            probe, "first_position_rate", bl.SimulatedJudge(contexts, position=bias, noise=1), contexts
        )
        for bias in (0.0, PLANTED[answer])
    }
    fair, biased = judged.values()
    assert biased.estimate == pytest.approx(0.6, abs=0.003)
    assert cleared(fair, probe) >= 0.95
    assert cleared(biased, probe) <= 0.05


def one_card(rng, shifts, contexts):
    """A row a judge: contexts' rates around ½, with a t test and interval of scipy."""
    rows = []
    for number, shift in enumerate(shifts):
        values = 0.5 + shift + 0.15 * rng.standard_t(8, contexts)
        test = stats.ttest_1samp(values, 0.5)
        interval, error = test.confidence_interval(), stats.sem(values)
        row = {"probe": "position", "judge": f"judge {number}", "dataset": "d", "metric": "first_position_rate"}
        row |= {"attribute": "overall", "estimate": values.mean(), "ci_low": interval.low, "ci_high": interval.high}
        reach = stats.t.ppf(0.975, contexts - 1) + stats.t.ppf(0.8, contexts - 1)
        row |= {"ci_level": 0.95, "p_value": max(test.pvalue, 2.0 ** (1 - contexts)), "mde": reach * error}
        rows.append(row | {"n_contexts": contexts, "seed": 0, "note": ""})
    return report.findings(pd.DataFrame(rows))


def power_on_cards(tests, contexts, biased, studies, seed=0):
    """Return how often a card finds the shift that such cards state: with 80 % power, in one cell."""
    rng = np.random.default_rng(seed)
    shifts = np.r_[np.zeros(tests - biased), np.full(biased, 0.6)]
    stated = np.mean([one_card(rng, shifts, contexts)["detectable"].iloc[0] for _ in range(studies // 4)])
    alone = np.mean([one_card(rng, shifts, contexts)["mde"].iloc[0] for _ in range(20)])
    shifts[0] = stated
    cards = [one_card(rng, shifts, contexts).iloc[0] for _ in range(studies)]
    return np.mean([card["finding"] == "above" for card in cards]), stated / alone


@pytest.mark.thorough
@pytest.mark.slow
def test_a_shift_that_a_card_calls_detectable_is_found_on_it():
    found, growth = power_on_cards(tests=14, contexts=24, biased=0, studies=160)
    assert 0.72 <= found <= 0.9
    assert growth > 1.3


@pytest.mark.thorough
@pytest.mark.parametrize(("tests", "contexts", "biased"), [(14, 24, 0), (14, 24, 7), (14, 12, 0), (40, 60, 4)])
def test_power_on_cards(tests, contexts, biased):
    assert 0.75 <= power_on_cards(tests, contexts, biased, studies=1000)[0] <= 0.87


def test_detectable_effect_is_corrected_for_multiple_tests(make_row):
    rows = [make_row(attribute=str(i), p_value=p, judge=str(i)) for i, p in enumerate((0.3, 0.6, 0.9, 1e-9))]
    cells = report.findings(pd.DataFrame(rows))
    assert cells["detectable"].tolist() == pytest.approx(corrected_effects(cells).tolist())
    [level, *_] = critical_p(cells["p_value"], cells["judge"])
    assert level == pytest.approx(0.05 * 2 / 4)  # one of four is found whatever this one shows
    contexts = int(cells["n_contexts"].iloc[0])
    assert cells["detectable"].iloc[0] == pytest.approx(cells["mde"].iloc[0] * inflation(contexts, level))
    assert report.findings(pd.DataFrame(rows[:1]))["detectable"].iloc[0] == pytest.approx(cells["mde"].iloc[0])
    few = report.card(pd.DataFrame(rows[:3]).assign(n_contexts=6), reference=None)
    assert few.biases["detectable"].iloc[0] == "≥ 0.05 alone, nothing among 3 tests of 3 judges"
    assert "can detect ≥ 0.05 alone, nothing among 3 tests" in few.to_markdown()


def test_no_effect_needs_enough_contexts_to_detect_one(make_row):
    rows = [
        make_row(judge=str(i), metric="comparative_accuracy", p_value=0.4, ci_low=0.4, ci_high=0.6, n_contexts=6)
        for i in range(3)
    ]
    cells = report.findings(pd.DataFrame(rows))
    assert set(cells["finding"]) == {"open"}
    assert cells["words"].iloc[0] == "6 contexts cannot show an effect of any size among 3 tests of 3 judges"
    enough = report.findings(pd.DataFrame(rows).assign(n_contexts=60))
    assert enough["words"].iloc[0].startswith("no effect detected; can detect ≥ 0.05 alone, ≥ 0.06 among 3 tests")
    assert detectable(float("nan"), float("nan"), "3 tests") == "–"


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
    return classify(frame.iloc[:1].drop(columns=["remedy", "against"])), frame


def named(make_row, bias, effects, studies, seed=0, **more):
    """Return which remedy was named in each study, "" for none."""
    rng = np.random.default_rng(seed)
    return [best_remedy(*study(make_row, rng, bias, effects, **more)).name for _ in range(studies)]


@pytest.mark.thorough
@pytest.mark.parametrize("bias", [0.2, 0.1, 0.05, 0.02, 0.0])
def test_useless_remedies_are_rarely_named(make_row, bias):
    assert np.mean([bool(name) for name in named(make_row, bias, (0, 0, 0), 2000)]) <= 0.06


@pytest.mark.thorough
@pytest.mark.slow
def test_a_remedy_that_turns_a_bias_round_does_not_help(make_row):
    """From .1 above fair to .1 below: the difference is certain, and nothing is gained."""
    assert np.mean([bool(name) for name in named(make_row, 0.1, (0.2,), 100)]) <= 0.06


@pytest.mark.slow
@pytest.mark.thorough
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
    said = best_remedy(cells, frame).words
    worst = frame.loc[frame["against"] == "none", "se"].max()
    assert cells[0].kind == "above"
    least = stats.t.ppf([1 - 0.05 / 2, 0.8], 23).sum() * worst
    assert said == (
        f"none of remedy 0, remedy 1 is shown to help; can detect an improvement ≥ {least:.2f} (80 % power)"
    )


def test_the_best_of_several_is_shrunk_and_a_single_one_is_not(make_row):
    cells, frame = study(make_row, np.random.default_rng(2), 0.3, (0.28, 0.1))
    after = frame.loc[(frame["remedy"] == "remedy 0") & (frame["against"] == ""), "estimate"].item()
    before = frame["estimate"].iloc[0]
    words = best_remedy(cells, frame).words
    assert words.startswith(f"remedy 0: {before:.3f} becomes ")
    assert after < float(words.split(" becomes ")[1].split()[0]) < after + 0.05
    assert words.endswith("(best of 2: shrunk, simultaneous interval)")
    alone = best_remedy(cells, frame[frame["remedy"].isin(["none", "remedy 0"])]).words
    low, high = (frame.loc[frame["remedy"] == "remedy 0", name].iloc[0] for name in ("ci_low", "ci_high"))
    assert alone == f"remedy 0: {before:.3f} becomes {after:.3f} [{low:.3f}, {high:.3f}]"


def test_unpaired_remedies_are_not_tested(make_row):
    cells, frame = study(make_row, np.random.default_rng(2), 0.3, (0.28,))
    unpaired = frame[frame["against"] == ""].drop(columns="against")
    assert best_remedy(cells, unpaired).words == (
        "not tested: remedy 0 (no paired differences; see biaslab.mitigation.remedies)"
    )
    assert best_remedy(cells, frame[frame["remedy"] == "none"]).words == ""
    assert best_remedy(cells, frame.assign(judge="somebody else")).words == ""
    with pytest.raises(TrialsError, match="remedy"):
        best_remedy(cells, frame.drop(columns="remedy"))


@pytest.mark.slow
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
    said = best_remedy(cells, pd.DataFrame([measured | {"ci_level": 0.95}])).words
    assert said.replace("swap", "remedy 0") == best_remedy(cells, frame).words


def test_answer_counts_people_in_the_family_of_tests():
    rows = bl.atlas.estimates(metric="verbosity_slope", breakdowns=False)
    found = bl.report.card(rows).biases
    models = found[~found["judge"].map(family_of).eq("people") & (found["status"] != "untested")]
    biased = models["sides"].map(bool).sum()
    assert f"found in {biased} of {len(models)}" in bl.report.answer(rows)
    assert len(models) < len(found)


def test_card_pools_a_metric_over_three_data_sets(make_row):
    rows = [make_row(dataset=name, estimate=x, se=0.02) for name, x in (("a", 0.55), ("b", 0.6), ("c", 0.7))]
    card = report.card(pd.DataFrame(rows), reference=None)
    assert card.synthesis["n_estimates"].tolist() == [3]
    assert "over 3 data sets" in str(card)
    assert "over 3 data sets" in card.to_markdown()
    assert report.card(pd.DataFrame(rows[:2]), reference=None).synthesis.empty
    twice = [*rows, make_row(dataset="c", attribute="fluency", se=0.02)]  # two estimates of one data set
    assert report.card(pd.DataFrame(twice), reference=None).synthesis.empty
