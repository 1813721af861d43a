"""Inheritance: intervals by other means, what units do, words, and simulated studies whose true share is known."""

import dataclasses
import itertools
import math
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings, strategies as st
from scipy import stats

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Metric
from biaslab.core.errors import InputError, TrialsError
from biaslab.distill.inheritance import TeacherAndStudent, bias_inheritance, verdict_of
from biaslab.probes import Familiarity, Position, Source, Verbosity
from biaslab.stats.estimate import Estimate, undefined
from biaslab.stats.frame import LEADING, TRAILING, estimate_rows, estimates_frame

NOISY = {"noise": 1.0, "context_noise": 0.5}
#: A simulated judge sees the mean human scores themselves, so that there they have no errors.
AS_SEEN = Verbosity(reliability=1.0)


@pytest.fixture(scope="module")
def population():
    return construct_population(40, longest=16)


def collect(probe, judge, data):
    return bl.collect(probe, judge, data, progress=False)


def inherit(probe, teacher, student, metrics=None, control=None):
    return bias_inheritance(probe, teacher, student, metrics, progress=False, control=control)


def share(found, unit=None, role="share"):
    rows = found[(found["role"] == role) & (True if unit is None else found["unit"] == unit)]
    [row] = rows.iloc
    return row


@dataclasses.dataclass(frozen=True)
class Mean:
    """The mean of values, one a context: a probe whose jackknife is known in closed form."""

    name: ClassVar[str] = "mean"
    primary: ClassVar[tuple[str, ...]] = ("mean_value",)
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("mean_value", "mean", "logits", null=0.5), Metric("other", "other"))

    def estimate(self, trials, metrics=None):
        found = Estimate(trials["value"].mean(), 0.1, 0.0, 1.0, 0.5, 0.1, len(trials), "mean")
        where = {"judge": trials["judge"].iloc[0], "dataset": "d", "attribute": "a"}
        rows = estimate_rows({"mean_value": found}, where, bl.Resampling(), len(trials), 0)
        return estimates_frame(rows, self.name, self.primary, ("attribute",))


def values(numbers, judge):
    contexts = [f"c{k}" for k in range(len(numbers))]
    return pd.DataFrame({"judge": judge, "dataset": "d", "context_id": contexts, "value": numbers, "status": "ok"})


@pytest.mark.slow
@given(st.integers(6, 16), st.floats(0.5, 3), st.floats(-2, 2), st.floats(-0.9, 0.9), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_share_interval_inverts_the_paired_t_test(n, bias, true_share, rho, seed):
    rng = np.random.default_rng(seed)
    one, two = rng.multivariate_normal([bias, true_share * bias], [[0.3, 0.3 * rho], [0.3 * rho, 0.3]], n).T
    found = inherit(Mean(), values(one + 0.5, "t"), values(two + 0.5, "s"))
    row, difference = share(found), share(found, role="difference")
    assert difference["estimate"] == pytest.approx((two - one).mean())
    assert tuple(difference[["ci_low", "ci_high"]]) == pytest.approx(
        tuple(stats.ttest_1samp(two - one, 0).confidence_interval())
    )
    if stats.ttest_1samp(one, 0).pvalue > 0.05:
        assert math.isnan(row["estimate"])
        assert "not distinguishable from zero" in row["note"]
        assert row["verdict"] == "cannot be told"
        return
    assert row["estimate"] == pytest.approx(two.mean() / one.mean())
    assert row["p_value"] == pytest.approx(max(stats.ttest_1samp(two - one, 0).pvalue, 2.0 ** (1 - n)))
    for end, outwards in ((row["ci_low"], -1), (row["ci_high"], 1)):
        assert stats.ttest_1samp(two - end * one, 0).pvalue == pytest.approx(0.05)
        beyond = end + outwards * 1e-3 * max(1, abs(end))
        assert stats.ttest_1samp(two - beyond * one, 0).pvalue < 0.05
    assert row["ci_low"] <= row["estimate"] <= row["ci_high"]


@pytest.mark.thorough
def test_a_share_is_hardly_uncertain_where_both_err_together():
    """Contexts that vary alike for both say nothing about the share; a ratio of independent numbers would."""
    rng = np.random.default_rng(0)
    one = rng.normal(1, 1, 30)
    two = 0.5 * one + rng.normal(0, 0.02, 30)
    row = share(inherit(Mean(), values(one + 0.5, "t"), values(two + 0.5, "s")))
    assert row["ci_high"] - row["ci_low"] < 0.05
    assert row["verdict"] == "keeps a part"


def test_jackknife_covariance_of_means_is_the_sample_covariance():
    rng = np.random.default_rng(1)
    both = rng.normal(size=(12, 2))
    left_out = (both.sum(axis=0) - both) / 11
    pair = TeacherAndStudent.jackknifed(np.vstack([both.mean(axis=0), left_out]), 12, 0.95)
    np.testing.assert_allclose(pair.errors.T @ pair.errors, np.cov(both.T) / 12)


@pytest.mark.slow
def test_points_are_those_of_a_regression_of_the_score_itself(population):
    judges = [bl.SimulatedJudge(population, verbosity=size, seed=k, **NOISY) for k, size in enumerate((0.9, 0.6))]
    trials = [collect(AS_SEEN, judge, population) for judge in judges]
    found = inherit(AS_SEEN, *trials)
    for role, frame in zip(("teacher", "student"), trials, strict=True):
        fit = smf.ols("value ~ np.log2(words) + human + C(context_id)", frame).fit()
        row = share(found, "points", role)
        assert row["estimate"] == pytest.approx(fit.params["np.log2(words)"])
        assert row["ci_low"] < row["estimate"] < row["ci_high"]
    own = [AS_SEEN.estimate(frame, ["verbosity_slope"]).iloc[0] for frame in trials]
    for role, row in zip(("teacher", "student"), own, strict=True):
        columns = ["judge", "metric", "estimate", "ci_low", "ci_high", "p_value", "n_contexts", "n_trials", "method"]
        assert share(found, "SD", role)[columns].tolist() == row[columns].tolist()


@pytest.mark.slow
def test_points_are_jackknifed_over_contexts(population):
    """The standard deviation, too, is that of the contexts that are left."""
    data = population.head(8)
    judges = [bl.SimulatedJudge(data, verbosity=size, seed=k, **NOISY) for k, size in enumerate((1.5, 1.0))]
    trials = [collect(AS_SEEN, judge, data) for judge in judges]
    row = share(inherit(AS_SEEN, *trials), "points", "difference")

    def difference(left_out):
        slopes = []
        for frame in trials:
            rest = frame[frame["context_id"] != left_out]
            fit = smf.ols("value ~ np.log2(words) + human + C(context_id)", rest).fit()
            slopes.append(fit.params["np.log2(words)"])
        return slopes[1] - slopes[0]

    without = np.array([difference(name) for name in data.candidates["context_id"].unique()])
    error = math.sqrt(7 / 8 * ((without - difference(None)) ** 2).sum())
    assert (row["ci_high"] - row["ci_low"]) / 2 == pytest.approx(stats.t.ppf(0.975, 7) * error)


@pytest.mark.thorough
def test_student_noise_lowers_share_in_sd_but_not_in_points():
    """Student: its teacher's scores, and noise, which fits on the scale since the teacher keeps to half of it."""
    data = construct_population(48, longest=16)
    teacher = collect(Verbosity(), bl.SimulatedJudge(data, quality=0.5, verbosity=0.5), data)
    teacher["value"] = 3 + (teacher["value"] - 3) / 2
    noise = np.random.default_rng(0).normal(0, 0.75, len(teacher))
    found = inherit(Verbosity(), teacher, teacher.assign(judge="student", value=teacher["value"] + noise))
    in_sd, points = share(found, "SD"), share(found, "points")
    assert in_sd["ci_high"] < 0.8
    assert in_sd["verdict"] == "keeps a part"
    assert points["ci_low"] < 1 < points["ci_high"]
    assert points["verdict"] == "keeps"


@pytest.mark.slow
def test_shrinking_student_keeps_sd_but_loses_points(population):
    data = population.head(16)
    teacher = collect(Verbosity(), bl.SimulatedJudge(data, verbosity=0.8, **NOISY), data)
    student = teacher.assign(judge="student", value=3 + 0.4 * (teacher["value"] - 3))
    found = inherit(Verbosity(), teacher, student)
    assert share(found, "SD")["estimate"] == pytest.approx(1)
    assert share(found, "SD")["verdict"] == "keeps"
    points = share(found, "points")
    assert tuple(points[["estimate", "ci_low", "ci_high"]]) == pytest.approx((0.4, 0.4, 0.4))
    assert points["verdict"] == "keeps a part"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "word"),
    [(2.0, "amplifies"), (1.0, "keeps"), (0.5, "keeps a part"), (0.0, "loses"), (-0.7, "reverses")],
)
def test_each_verdict_has_its_word(population, planted, word):
    teacher, student = (
        collect(Position(templates=[1]), bl.SimulatedJudge(population, position=size, noise=0.5, seed=k), population)
        for k, size in enumerate((1.0, planted))
    )
    row = share(inherit(Position(templates=[1]), teacher, student, ["first_position_logit"]))
    assert row["verdict"] == word
    assert row["estimate"] == pytest.approx(planted, abs=0.25)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.0, 1.2, "keeps"),
        (0.4, 1.0, "keeps"),
        (0.0, 0.6, "loses"),
        (-0.5, 0.0, "loses"),
        (0.0, 1.0, "cannot be told"),
        (0.0, 2.0, "cannot be told"),
        (-1.0, 0.9, "cannot be told"),
        (-10.9, 0.92, "cannot be told"),
        (0.5, 2.0, "keeps or amplifies"),
        (1.5, 30.0, "amplifies"),
        (-30.0, -0.5, "reverses"),
    ],
)
def test_verdict_ignores_rounding_of_the_interval(low, high, word):
    """An end at 0 or 1 is there, too, where rounding leaves it a little above or below."""
    for by, other in itertools.product((0.0, 1e-15, -1e-15), repeat=2):
        share = dataclasses.replace(undefined(""), ci_low=low + by, ci_high=high + other)
        assert verdict_of(share) == word


@pytest.mark.slow
@given(st.integers(6, 16), st.floats(0, 2), st.floats(-1, 1), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_bias_shared_with_the_control_is_not_inherited(n, true_share, own, seed):
    """Of a multiple of the teacher's bias, and a lean of its own that the control shares, the multiple is told."""
    rng = np.random.default_rng(seed)
    one, lean = 2 + rng.normal(0, 0.3, n), own + rng.normal(0, 0.3, n)
    frames = [
        values(numbers + 0.5, name) for name, numbers in (("t", one), ("s", true_share * one + lean), ("c", lean))
    ]
    found = inherit(Mean(), *frames[:2], control=frames[2])
    assert list(found["role"]) == ["teacher", "student", "control", "difference", "inherited", "share"]
    row, inherited = share(found), share(found, role="inherited")
    assert row["estimate"] == pytest.approx(true_share, abs=1e-9)
    assert inherited["estimate"] == pytest.approx(true_share * one.mean(), abs=1e-8)  # what is rounding is none
    assert tuple(row[["ci_low", "ci_high"]]) == pytest.approx((true_share, true_share), abs=1e-6)
    without = share(inherit(Mean(), *frames[:2]))["estimate"]
    assert without == pytest.approx(true_share + lean.mean() / one.mean(), abs=1e-8)


def test_a_student_that_leans_by_itself_amplifies_nothing():
    rng = np.random.default_rng(3)
    one, own, noise = 1 + rng.normal(0, 0.2, 24), 2 + rng.normal(0, 0.2, 24), rng.normal(0, 0.05, (2, 24))
    frames = [values(numbers + 0.5, name) for name, numbers in zip("tsc", (one, own, own + noise[1]), strict=True)]
    assert share(inherit(Mean(), *frames[:2]))["verdict"] == "amplifies"
    assert share(inherit(Mean(), *frames[:2], control=frames[2]))["verdict"] == "loses"
    with pytest.raises(TrialsError, match="control's trials"):
        inherit(Mean(), *frames[:2], control=pd.concat(frames))


@pytest.mark.slow
def test_a_bias_that_the_teacher_does_not_have_is_not_inherited(population):
    data = population.head(12)
    judges = [bl.SimulatedJudge(data, verbosity=size, seed=k, **NOISY) for k, size in enumerate((0.0, 1.5))]
    found = inherit(Verbosity(), *(collect(Verbosity(), judge, data) for judge in judges))
    row = share(found, "SD")
    assert math.isnan(row["estimate"])
    assert row["verdict"] == "cannot be told"
    assert "Fieller's g" in row["note"]
    assert share(found, "SD", "difference")["ci_low"] > 0


@pytest.mark.slow
def test_cells_of_a_probe_stay_apart(graded):
    data = graded.head(8)
    probe = Verbosity(attributes=["coherence", "fluency"])
    trials = [collect(probe, bl.SimulatedJudge(data, verbosity=size), data) for size in (1.0, 0.4)]
    found = inherit(probe, *trials)
    assert tuple(found.columns[: len(LEADING)]) == LEADING
    assert tuple(found.columns[-len(TRAILING) :]) == TRAILING
    assert found.groupby(["attribute", "unit", "role"]).size().eq(1).all()
    assert len(found) == 2 * 2 * 4
    alone = inherit(probe, *(frame[frame["attribute"] == "fluency"] for frame in trials))
    both = found[found["attribute"] == "fluency"].reset_index(drop=True)
    pd.testing.assert_frame_equal(both.drop(columns="q_value"), alone.drop(columns="q_value"))


@pytest.mark.slow
def test_answer_mode_may_differ_but_scale_may_not():
    data = bl.load_dataset("graded", limit=24)
    one, text, wide = (
        Source(["coherence"], scale=scale, levels=["context"], coefficients=["kendall"], answer=answer, replicates=k)
        for scale, answer, k in (("1-10", "distribution", 1), ("1-10", "text", 2), ("1-5", "distribution", 1))
    )
    judge = bl.SimulatedJudge(data, source_reliance=1.0, noise=0.5)
    teacher, same, other = (collect(probe, judge, data) for probe in (one, text, wide))
    assert math.isfinite(share(inherit(one, teacher, same))["estimate"])
    with pytest.raises(TrialsError, match="scale is 1-10 for the teacher and 1-5 for the student"):
        inherit(one, teacher, other)


@pytest.mark.slow
def test_perplexities_of_one_reader_serve_both(graded):
    data = graded.head(8)
    rng = np.random.default_rng(0)
    texts = {text: float(rng.normal(3, 0.3)) for text in data.candidates["text"]}
    judges = [bl.SimulatedJudge(data, quality=0.3, familiarity=size, log_perplexity=texts) for size in (-2.0, -1.0)]
    given_texts = Familiarity(attributes=["fluency"], sources=False, log_perplexity=texts)
    found = inherit(given_texts, *(collect(given_texts, judge, data) for judge in judges), ["familiarity_slope"])
    assert share(found, "points")["estimate"] == pytest.approx(0.5, abs=0.05)
    own = Familiarity(attributes=["fluency"], sources=False)
    with pytest.raises(TrialsError, match="likelihood_judge is"):
        inherit(own, *(collect(own, judge, data) for judge in judges))


@pytest.mark.slow
def test_contexts_of_one_judge_only_are_dropped_and_counted(population):
    judges = [bl.SimulatedJudge(population, verbosity=size, **NOISY) for size in (1.5, 1.0)]
    teacher, student = (collect(Verbosity(), judge, population) for judge in judges)
    later = student[student["context_id"].astype(int) >= 30]
    found = inherit(Verbosity(), teacher, later)
    assert found.attrs["contexts_left_out"] == 30
    assert (found["n_contexts"] == 10).all()
    with pytest.raises(TrialsError, match="at least two common contexts"):
        inherit(Verbosity(), teacher[teacher["context_id"].astype(int) < 30], later)


def test_incomparable_judges_and_metrics_are_refused(population):
    teacher = collect(Verbosity(), bl.SimulatedJudge(population), population)
    two = pd.concat([teacher, teacher.assign(judge="another")])
    with pytest.raises(TrialsError, match="have 2 judges"):
        inherit(Verbosity(), teacher, two)
    for wanted in (["charm"], ["label_mass"], "verbosity_slope", []):
        with pytest.raises(InputError, match="with a null: verbosity_slope"):
            inherit(Verbosity(), teacher, teacher, wanted)
    with pytest.raises(InputError, match="first_position_rate"):
        inherit(Position(), teacher, teacher, ["comparative_accuracy"])


@pytest.mark.slow
def test_a_student_without_an_estimate_has_no_share(population):
    data = population.head(12)
    teacher = collect(Verbosity(), bl.SimulatedJudge(data, verbosity=1.0), data)
    found = inherit(Verbosity(), teacher, teacher.assign(judge="flat", value=3.0, words=7), ["verbosity_slope"])
    for role in ("share", "difference"):
        row = share(found, "SD", role)
        assert math.isnan(row["estimate"])
        assert "the student has no estimate" in row["note"]


@pytest.mark.slow
def test_tables_macros_and_cards_take_it(graded):
    probe = Verbosity(attributes=["coherence"])
    trials = [collect(probe, bl.SimulatedJudge(graded, verbosity=size), graded) for size in (1.0, 0.5)]
    found = inherit(probe, *trials)
    shares = found[found["role"] == "share"]
    assert "keeps a part" in bl.report.to_markdown(shares)
    assert len(bl.report.to_macros(shares).splitlines()) > 2
    assert "bias" in bl.report.card(found).to_markdown()
    assert len(bl.report.verdicts(found)) == len(found)


CASES = {
    "verbosity": (AS_SEEN, "verbosity_slope", "verbosity", 1.2),
    "familiarity": (Familiarity(sources=False, reliability=1.0), "familiarity_slope", "familiarity", -3.0),
    "position": (Position(templates=[1]), "first_position_logit", "position", 1.2),
}


def judged_together(case, true_share, contexts):
    """Let a teacher and a student with a share of its bias and noise of its own judge the same contexts.

    Where the share is to be 1 the noise is as large as the teacher's: the ends of the scale cut off more of whatever is
    noisier, and a share of what is planted would not be that of the scores.
    """
    probe, _, name, size = CASES[case]
    data = construct_population(contexts, longest=16 if case == "verbosity" else 1)
    if case == "familiarity":
        rng = np.random.default_rng(9)
        texts = {text: float(rng.normal(3, 0.35)) for text in data.candidates["text"]}
        probe, given_texts = dataclasses.replace(probe, log_perplexity=texts), {"log_perplexity": texts}
    else:
        given_texts = {}
    teacher = bl.SimulatedJudge(data, seed=1, **NOISY, **given_texts, **{name: size})
    noise = NOISY if true_share == 1 else {"noise": 0.7, "context_noise": 0.3}
    student = bl.SimulatedJudge(data, seed=2, **noise, **given_texts, **{name: true_share * size})
    return probe, [collect(probe, judge, data) for judge in (teacher, student)]


def context_sums(case, trials):
    """Reduce each context to sums from which the metric follows: those of products within it, and of scores."""
    if case == "position":
        logits = np.log(trials["value"] / (1 - trials["value"]))
        return np.column_stack([logits.groupby(trials["context_id"]).agg(f) for f in ("sum", "size")]).astype(float)
    scores = trials[trials["asked"] == "score"]
    feature = np.log2(scores["words"]) if case == "verbosity" else scores["log_perplexity"]
    frame = pd.DataFrame({"x": feature, "h": scores["human"], "y": scores["value"]}).astype(float)
    inside = frame - frame.groupby(scores["context_id"]).transform("mean")
    pairs = [("x", "x"), ("x", "h"), ("h", "h"), ("x", "y"), ("h", "y")]
    products = [inside[one] * inside[two] for one, two in pairs]
    y = frame["y"] - 3
    sums = pd.concat([*products, y * 0 + 1, y, y**2], axis=1).groupby(scores["context_id"]).sum()
    return sums.to_numpy()


def metric_of(case, sums, unit):
    """Return the metric from sums over contexts, in the last axis."""
    if case == "position":
        return sums[..., 0] / sums[..., 1]
    xx, xh, hh, xy, hy, n, y, yy = np.moveaxis(sums, -1, 0)
    slope = (xy * hh - hy * xh) / (xx * hh - xh**2)
    return slope if unit == "points" else slope / np.sqrt((yy - y**2 / n) / (n - 1))


def pairs_of(case, sums, unit):
    """Return teacher and student, whole and without each context, of sums of shape (contexts, 2, …)."""
    total = sums.sum(axis=0)
    values = metric_of(case, np.concatenate([total[None], total - sums]), unit)
    return TeacherAndStudent.jackknifed(values, len(sums), 0.95)


@pytest.mark.thorough
@pytest.mark.parametrize("case", sorted(CASES))
def test_the_jackknife_calls_the_probe_as_it_should(case):
    """What `simulated_studies` computes from sums is what `bias_inheritance` finds with the probe itself."""
    probe, frames = judged_together(case, 0.5, 12)
    sums = np.stack([context_sums(case, frame) for frame in frames], axis=1)
    found = inherit(probe, *frames, [CASES[case][1]])
    for unit in found["unit"].unique():
        expected, row = pairs_of(case, sums, unit).share(), share(found, unit)
        names = ["estimate", "ci_low", "ci_high", "p_value", "mde"]
        np.testing.assert_allclose(row[names].astype(float), [getattr(expected, n) for n in names], rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("true_share", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("case", sorted(CASES))
def test_share_intervals_cover_and_rarely_deny_a_share_of_1(case, true_share):
    """500 studies each of 24 and of 100 contexts of a judged population, in every unit; true is what holds there."""
    _, frames = judged_together(case, true_share, 4000)
    sums = np.stack([context_sums(case, frame) for frame in frames], axis=1)
    studies, error = 500, 1.96 * math.sqrt(0.95 * 0.05 / 500)
    for unit in ("logits",) if case == "position" else ("SD", "points"):
        teacher, student = metric_of(case, sums.sum(axis=0), unit)
        truth = student / teacher
        if unit != "SD":
            assert truth == pytest.approx(true_share, abs=0.1)
        for contexts in (24, 100):
            rng = np.random.default_rng([contexts, len(unit)])
            drawn = (sums[rng.integers(len(sums), size=contexts)] for _ in range(studies))
            found = [pairs_of(case, part, unit).share() for part in drawn]
            shares = pd.DataFrame([dataclasses.asdict(one) for one in found])
            defined = shares["estimate"].notna()
            assert defined.mean() > 0.9
            inside = shares["ci_low"].le(truth) & shares["ci_high"].ge(truth)
            assert 0.93 - error <= inside[defined].mean() <= 0.97 + error
            if true_share == 1:
                assert (shares["p_value"] < 0.05).mean() <= 0.065 + error
