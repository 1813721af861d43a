"""Whole figures: panels by conditions, published values, files; and those that a probe declares."""

from string import Formatter

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.metrics import Says
from biaslab.probes import available
from biaslab.probes.position import Position
from biaslab.report.plots.style import FOUND_WORDS

PROBE = Position(["coherence", "fluency"])


@pytest.fixture(scope="module")
def estimates(graded):
    return PROBE.estimate(bl.collect(PROBE, bl.SimulatedJudge(graded, position=0.6, noise=1), graded, progress=False))


def dots(ax):
    return sorted(float(x) for c in ax.containers for x in np.atleast_1d(c.lines[0].get_xdata()))


def colours(ax):
    """Return the colour of each entry of a hue in the legend."""
    named = {line.get_label(): line.get_color() for line in ax.lines if not line.get_label().startswith(("_", "publ"))}
    return {name: colour for name, colour in named.items() if name not in FOUND_WORDS.values()}


def head(ax):
    return ax.get_title(loc="left").split("\n")[0]


@pytest.mark.slow
def test_a_panel_for_each_value_of_col_and_row(estimates):
    for side in ("col", "row"):
        axes = bl.plots.draw(estimates, "first_position_rate", by="attribute", **{side: "template"}).axes
        assert [head(ax) for ax in axes] == [f"graded (constructed) · template {n}" for n in (1, 2)]
        for ax, template in zip(axes, (1, 2), strict=True):
            rows = estimates[(estimates["template"] == template) & estimates["human_gap"].isna()]
            rows = rows[rows["metric"] == "first_position_rate"]
            assert dots(ax) == pytest.approx(sorted(rows["estimate"]))
    grid = bl.plots.draw(estimates, "tie_rate", by="judge", row="template", col="attribute").axes
    above = grid[1].get_title(loc="left").replace("\n", " · ")
    assert above.startswith("graded (constructed) · template 1 · fluency")


def test_metrics_in_panels_have_their_own_axes(estimates):
    pair = ["first_position_rate", "first_position_logit"]
    axes = bl.plots.draw(estimates, pair, by="attribute", hue="template", col="metric").axes
    assert [ax.get_xlabel() for ax in axes] == ["P(A), decisions for the first (share)", "first-position bias (logits)"]
    assert axes[0].get_xlim() != axes[1].get_xlim()
    assert len(axes[0].figure.legends) == 1


def test_a_colour_means_the_same_in_every_panel(estimates):
    part = estimates[(estimates["template"] == 2) | (estimates["attribute"] == "fluency")]
    first, second = bl.plots.draw(part, "tie_rate", by="judge", hue="attribute", col="template").axes
    assert colours(first)["fluency"] == colours(second)["fluency"]


def test_many_panels_go_on_in_the_next_row(estimates):
    one = estimates[(estimates["metric"] == "tie_rate") & (estimates["template"] == 1)].iloc[:1]
    many = pd.concat([one.assign(attribute=name) for name in "abcdef"])
    axes = bl.plots.draw(many, "tie_rate", by="judge", col="attribute").axes
    assert len(axes) == 6
    assert len({ax.get_position().y0 for ax in axes}) == 2


def test_several_conditions_name_a_row(estimates):
    [ax] = bl.plots.draw(estimates, "tie_rate", by=["attribute", "template"]).axes
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [f"{name}, template {n}" for name in ("coherence", "fluency") for n in (1, 2)]


def test_draw_selects_rows_by_where_and_bins_by_axis(estimates):
    [ax] = bl.plots.draw(estimates, "first_position_rate", by="attribute", where={"template": 1}).axes
    assert len(dots(ax)) == 2
    [ax] = bl.plots.draw(
        estimates, "order_consistency", x="human_gap", where={"template": [1], "attribute": "fluency"}
    ).axes
    assert len(dots(ax)) > 2


def test_published_values_have_panel_and_colour_of_their_series(estimates):
    theirs = pd.DataFrame(
        {"label": ["GPT-4", "GPT-3"], "attribute": "fluency", "value": [0.4, 0.6], "template": [1, 2]}
    )
    axes = bl.plots.draw(estimates, "tie_rate", by="attribute", col="template", published=theirs).axes
    marks = [[line for line in ax.lines if line.get_label().startswith("published")] for ax in axes]
    assert [[(m.get_label(), *m.get_xdata()) for m in panel] for panel in marks] == [
        [("published: GPT-4", 0.4)], [("published: GPT-3", 0.6)],
    ]  # fmt: skip
    both = theirs.drop(columns="template")
    [ax] = bl.plots.draw(estimates, "tie_rate", by="attribute", hue="template", published=both).axes
    hollow = [line.get_color() for line in ax.lines if line.get_label().startswith("published")]
    assert hollow == list(colours(ax).values())
    with pytest.raises(TrialsError, match="label"):
        bl.plots.draw(estimates, "tie_rate", by="attribute", published=both.drop(columns="label"))
    with pytest.raises(TrialsError, match="human_gap"):
        bl.plots.draw(estimates, "first_position_rate", x="human_gap", published=both)
    with pytest.raises(TrialsError, match="attribute"):
        bl.plots.draw(estimates, "tie_rate", published=both.drop(columns="attribute"))


def test_undefined_estimates_are_not_drawn_and_have_a_reason(estimates, tmp_path):
    holes = estimates.assign(estimate=np.nan, note="undefined: all is the same")
    drawn = bl.plots.draw(holes, "tie_rate", by="attribute", name="position__ties", out=tmp_path)
    assert repr(drawn) == "Not drawn: no tie rate: undefined: all is the same"
    assert (drawn.axes, drawn.paths, list(tmp_path.iterdir())) == ((), (), [])


def test_a_logarithmic_axis_has_plain_numbers(estimates):
    [ax] = bl.plots.draw(
        estimates, "order_consistency", x="human_gap", hue="attribute", where={"template": 1}, log=True
    ).axes
    assert ax.get_yscale() == "log"
    assert all("$" not in label.get_text() for label in ax.get_yticklabels())


@pytest.mark.slow
def test_standard_figures_are_named_after_their_probe(estimates, tmp_path):
    drawn = bl.plots.standard(PROBE, estimates, out=tmp_path)
    assert {path.stem for path in drawn.paths} == {f"position__{figure.name}" for figure in PROBE.figures}
    written = pd.read_csv(tmp_path / "position__consistency.csv")
    assert set(written["metric"]) == {"order_consistency", "resampling_consistency"}
    assert repr(drawn) == ""


def test_an_unknown_figure_lists_those_there_are(estimates):
    with pytest.raises(InputError, match="did you mean consistency"):
        bl.plots.standard(PROBE, estimates, "consistancy")
    with pytest.raises(InputError, match="declares none"):
        bl.plots.standard(bl.probes.Recipe(), estimates, "consistency")


@pytest.mark.parametrize("probe", [probe for probe in available().values() if probe.figures], ids=lambda p: p.name)
def test_standard_figures_use_metrics_and_conditions_of_probes(probe):
    conditions = {*probe.cell, *probe.conditions, "metric", "probe"}
    for figure in probe.figures:
        metrics = (figure.metric,) if isinstance(figure.metric, str) else figure.metric
        assert set(metrics) <= {metric.name for metric in probe.metrics}
        several = [(each,) if isinstance(each, str) else each or () for each in (figure.by, figure.col)]
        used = {*several[0], *several[1], figure.x, figure.hue, figure.row, *figure.where} - {None}
        assert used <= conditions, figure.name
    assert len({figure.name for figure in probe.figures}) == len(probe.figures)


def test_from_parameters_makes_a_probe_of_matching_fields():
    made = Position.from_parameters({"n_pairs": 2, "seed": 3, "model": object(), "ties": True}, ties=False)
    assert made == Position(n_pairs=2, seed=3, resampling=bl.Resampling(seed=3))
    with pytest.raises(InputError, match="n_pairs"):
        Position.from_parameters({"n_pairs": "many"})


@pytest.mark.parametrize("answer", ["distribution", "text"])
@pytest.mark.slow
def test_heaps_are_the_shares_of_the_scores_on_the_finest_scale(graded, answer, tmp_path):
    probe = bl.probes.ScoreDistribution(["coherence"], scales=["1-5", "1-100"], answer=answer, samples=3)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, heaping=2.0), graded, progress=False)
    [ax] = bl.plots.heaps(trials).axes
    heights = {bar.get_x() + 0.5: bar.get_height() for bar in ax.patches}
    assert sum(heights.values()) == pytest.approx(1)
    assert sorted(map(round, heights)) == list(range(1, 101))  # also what was never given
    tens = sum(height for score, height in heights.items() if round(score) % 10 == 0)
    assert tens > 0.3  # of an even use 0.1
    bl.plots.heaps(trials, name="a__scores", out=tmp_path)
    [headline] = pd.read_csv(tmp_path / "a__scores.csv")["headline"].unique()
    by_score = {round(score): height for score, height in heights.items()}
    around = sum(by_score[score] for score in range(5, 96)) - (by_score[5] + by_score[95]) / 2
    index = 10 * sum(by_score[score] for score in range(10, 91, 10)) / around
    assert f"{100 * tens:.2g} % are multiples of 10 (10 % of the levels), {index:.1f} times" in headline
    [coarse] = bl.plots.heaps(trials, "1-5").axes
    assert len(coarse.patches) <= 5
    with pytest.raises(TrialsError, match="1-100"):
        bl.plots.heaps(trials, "1-7")


@pytest.mark.slow
def test_spread_draws_shares_of_sampled_scores_by_human_score(graded, tmp_path):
    probe = bl.probes.Consistency(["coherence", "fluency"], scales=["1-5", "1-10"], joint=False, replicates=5)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, noise=1.0), graded, progress=False)
    axes = bl.plots.spread(trials).axes
    assert [ax.get_title("left").splitlines()[0] for ax in axes] == [
        "coherence · 1-5",
        "fluency · 1-5",
        "coherence · 1-10",
    ]
    assert all("simulated judge" in ax.get_title("left") for ax in axes)
    first = trials[(trials["configuration"] == "1-5") & (trials["attribute"] == "coherence")]
    counts = first.groupby(["human", "value"]).size()
    [dots] = axes[0].collections
    shares = dict(zip(map(tuple, dots.get_offsets().tolist()), dots.get_sizes() / dots.get_sizes().sum(), strict=True))
    assert shares == pytest.approx((counts / counts.sum()).to_dict())
    *files, table = bl.plots.spread(trials, "consistency__samples", tmp_path).paths
    first = trials[trials["configuration"] == "1-5"]
    texts = first.groupby(["attribute", "context_id", "candidate_id"])["value"]
    within = texts.var(ddof=1).mean()
    of_texts = (texts.mean().groupby("attribute").var(ddof=1) * 5).mean()  # mean square between texts
    chance = within / (within + (of_texts - within) / 5)
    assert len(files) == 2
    [headline] = pd.read_csv(table)["headline"].unique()
    assert headline.startswith(
        f"{100 * chance:.2g} % of the variance of scores by the simulated judge is between samples"
    )
    once = bl.plots.spread(trials[trials["replicate"] == trials["replicate"].min()], "consistency__once", tmp_path)
    assert "nan" not in pd.read_csv(once.paths[-1])["headline"].iloc[0]
    nothing = bl.plots.spread(trials.assign(human=float("nan")))
    assert (nothing.axes, nothing.missing) == ((), ("Not drawn: no score of a text that people scored",))


@pytest.mark.slow
def test_headline_of_a_figure_is_the_probes_or_the_given_one(tmp_path):
    row = {"probe": "list_position", "judge": "simulated:position=1", "dataset": "d", "metric": "place_rate", "k": 3}
    row |= {"attribute": "a", "n_contexts": 24}
    rows = [row | {"place": i, "estimate": x, "ci_low": x, "ci_high": x} for i, x in ((1, 0.6), (2, 0.3), (3, 0.1))]
    own = "simulated judge: the candidate in place 1 of 3 is called best in 60 % of lists (fair: 33 %)"
    for given, said in (({}, own), ({"headline": "Mine"}, "Mine"), ({"says": "{judge} errs"}, "simulated judge errs")):
        bl.plots.standard(bl.probes.ListPosition(), pd.DataFrame(rows), "place_rate", out=tmp_path, **given)
        [headline] = pd.read_csv(tmp_path / "list_position__place_rate.csv")["headline"].unique()
        assert headline.lower() == said.lower()


@pytest.mark.slow
def test_inherited_saves_the_rows_of_one_unit_under_its_name(tmp_path):
    rows = [
        {"probe": "familiarity", "of": "familiarity_slope", "metric": metric, "unit": unit, "role": role, "judge": role}
        | {"dataset": "d", "attribute": "a", "verdict": "keeps", "estimate": value, "n_contexts": 9}
        | {"ci_low": value - 0.1, "ci_high": value + 0.1, "ci_level": 0.95}
        for unit in ("SD", "points")
        for role, metric, value in (
            ("teacher", "familiarity_slope", 0.5),
            ("student", "familiarity_slope", 0.4),
            ("share", "bias_share", 0.8),
        )
    ]
    bl.plots.inherited(pd.DataFrame(rows), name="inheritance__mine", out=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"inheritance__mine.{kind}" for kind in ("csv", "pdf", "png")}
    saved = pd.read_csv(tmp_path / "inheritance__mine.csv")
    assert set(saved["unit"]) == {"SD"}
    [headline] = saved["headline"].unique()
    assert headline.endswith("keeps its teacher's score per nat of log perplexity (share 0.80 [0.70, 0.90])")


@pytest.mark.parametrize(
    ("probe", "figure", "rows", "said"),
    [
        (
            bl.probes.ListPosition,
            "place_rate",
            [
                {"metric": "place_rate", "place": place, "k": 3, "estimate": x}
                for place, x in ((1, 0.2), (2, 0.5), (3, 0.3))
            ],
            "{judge}: the candidate in place 2 of 3 is called best in 50 % of lists (fair: 33 %)",
        ),
        (
            bl.probes.Anchoring,
            "next_score",
            [
                {"metric": f"mean_after_{way}", "after": "a", "attribute": to, "position": 2, "estimate": x}
                for to, way, x in (("b", "low", 2.0), ("b", "high", 2.5), ("c", "low", 2.0), ("c", "high", 3.25))
            ],
            "{judge}: after a high score the next is 0.5 to 1.2 points above that after a low one",
        ),
        (
            bl.probes.Familiarity,
            "mean_perplexity",
            [
                {"metric": "mean_perplexity", "scorer": "judge", "attribute": "a", "score": score, "estimate": x}
                for score, x in ((1, 10.0), (2, 25.0), (3, 20.0))
            ],
            "Mean perplexity differs by a factor of up to 2.5 between judge scores",
        ),
    ],
)
def test_headlines_of_probes_have_the_numbers_of_the_estimates(probe, figure, rows, said):
    [declared] = [each for each in probe.figures if each.name == figure]
    assert declared.says(pd.DataFrame(rows)) == said
    assert declared.says(pd.DataFrame(rows).assign(estimate=np.nan)) is None


def test_sentences_of_figures_have_known_fields():
    for name, probe in available().items():
        for figure in probe.figures:
            if isinstance(figure.says, Says):
                metrics = {figure.metric} if isinstance(figure.metric, str) else set(figure.metric)
                sentences = " ".join(vars(figure.says).values())
                fields = {field for _, field, _, _ in Formatter().parse(sentences) if field}
                assert fields <= {"judge"} | metrics, (name, figure.name)


def test_planted_values_are_marked_and_counted(tmp_path):
    row = {"probe": "position", "judge": "simulated:position=1", "dataset": "d", "metric": "first_position_rate"}
    row |= {"n_contexts": 24, "p_value": 0.001, "ci_low": 0.5, "ci_high": 0.7, "estimate": 0.6}
    rows = pd.DataFrame(
        [row | {"attribute": name, "planted": x} for name, x in (("a", 0.55), ("b", 0.8), ("c", np.nan))]
    )
    drawn = bl.plots.draw(rows, by="attribute", name="position__mine", out=tmp_path)
    [mark] = [line for line in drawn.axes[0].lines if "planted" in str(line.get_label())]
    assert mark.get_xdata().tolist()[:2] == [0.55, 0.8]
    assert "planted value in 1 of 2" in " ".join(drawn.axes[0].get_title(loc="left").split())
    assert pd.read_csv(tmp_path / "position__mine.csv")["planted"].tolist()[:2] == [0.55, 0.8]


def test_small_samples_are_named_in_declared_sentences():
    row = {"probe": "position", "judge": "j", "metric": "first_position_rate", "n_contexts": 8, "p_value": 0.5}
    rows = pd.DataFrame([row | {"estimate": 0.5, "ci_low": 0.3, "ci_high": 0.7}])
    assert bl.plots.headline(rows, "{judge} is asked") == "j is asked; n = 8 contexts"


def test_sentence_of_an_outcome_replaces_the_general_one():
    row = {"probe": "position", "judge": "j", "metric": "first_position_rate", "n_contexts": 24, "p_value": 0.001}
    rows = [row | {"estimate": x, "ci_low": x - 0.05, "ci_high": x + 0.05, "attribute": f"a{x}"} for x in (0.7, 0.8)]
    says = Says(found="{judge}: {first_position_rate} of pairs", mixed="{unknown}")
    assert bl.plots.headline(pd.DataFrame(rows), says) == "j: 0.70 to 0.80 of pairs"
    mixed = pd.DataFrame([*rows, rows[0] | {"estimate": 0.3, "ci_low": 0.2, "ci_high": 0.4, "attribute": "b"}])
    assert bl.plots.headline(mixed, says) == bl.plots.headline(mixed)
