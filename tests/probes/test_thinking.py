"""The thinking probe: planted relations of bias and budget, every number beside one computed by other means."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import BaseJudge, Choice, Completion, Reply, Usage
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError, UnsupportedRequestError
from biaslab.probes.thinking import Thinking

ONE = {"attributes": ["coherence"], "parameters": {"templates": [1]}}
TWO = {**ONE, "budgets": [0, "low"]}
PRICES = {"input": 3.0, "output": 12.0}
JUDGE = {"position": 1.0, "noise": 0.5, "context_noise": 0.5, "thought_debiasing": 0.5}


@pytest.fixture(scope="module")
def text(graded):
    """Trials and estimates of texts, three samples of each, at two budgets."""
    probe = Thinking(**TWO, answer="text", replicates=3, prices=PRICES)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, **JUDGE), graded, progress=False)
    return probe, trials, probe.estimate(trials)


def judged(probe, judge, data):
    """The trials of a probe that knows of no budgets."""
    return bl.collect(probe, judge, data, progress=False)


def test_the_design_is_the_other_probes_at_each_budget(graded):
    inner = bl.probes.Position(["coherence"], templates=[1])
    trials = list(Thinking(**ONE, budgets=[500, "high", 0]).design(graded))
    for budget in (0, 500, "high"):
        at = [t for t in trials if t.condition["thinking"] == str(budget)]
        plain = [dataclasses.replace(t.request, thinking=None) for t in at]
        assert plain == [t.request for t in inner.design(graded)]
        assert {t.request.thinking for t in at} == {budget}


def test_budget_0_gives_the_answers_of_no_budget(graded):
    judge = bl.SimulatedJudge(graded, **JUDGE)
    at_0 = judged(Thinking(**TWO), judge, graded).query("thinking == '0'")
    plain = judged(bl.probes.Position(["coherence"], templates=[1]), judge, graded)
    assert at_0["value"].tolist() == plain["value"].tolist()
    assert not set(at_0["key"]) & set(plain["key"])
    assert not at_0["thought_tokens"].any()


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "tokens"), [("low", 4096), ("high", 32_768), (1000, 1000)])
def test_a_planted_bias_falls_as_a_power_of_the_budget(budget, tokens):
    """The log odds of many pairs are those of the formula, by no code of the judge."""
    data = construct_population(600)
    judge = bl.SimulatedJudge(data, position=1.2, noise=0.3, thought_debiasing=0.4)
    probe = Thinking(bias="first_position_rate", budgets=[0, budget], parameters={"templates": [1]})
    trials = judged(probe, judge, data)
    odds = np.log(trials["value"] / (1 - trials["value"])).groupby(trials["thinking"]).agg(["mean", "sem"])
    for name, n in (("0", 0), (str(budget), tokens)):
        assert abs(odds.loc[name, "mean"] - 1.2 * (1 + n / 1024) ** -0.4) < 4 * 0.3 / math.sqrt(3600) + 1e-9
    spent = trials.loc[trials["thinking"] == str(budget), "thought_tokens"]
    assert spent.between(tokens / 4, tokens / 2).all()
    assert abs(spent.mean() - 0.375 * tokens) < 4 * tokens / 4 / math.sqrt(12 * len(spent))


@pytest.mark.slow
def test_shift_equals_compare_of_the_two_budgets(text):
    """`biaslab.compare` pairs any two sets of trials; here those at either budget, of the other probe."""
    _, trials, estimates = text
    inner = bl.probes.Position(["coherence"], templates=[1], answer="text", replicates=3)
    parts = [trials[trials["thinking"] == name].assign(probe="position") for name in ("0", "low")]
    found = bl.compare(parts, "thinking", ["first_position_rate"], probe=inner, progress=False)
    expected, row = found[found["role"] == "difference"].iloc[0], row_of(estimates, "thinking_shift")
    for column in ("estimate", "se", "ci_low", "ci_high", "p_value", "mde"):
        assert row[column] == pytest.approx(expected[column], rel=1e-9), column
    for name, at in zip(("0", "low"), parts, strict=True):
        own = inner.estimate(at, ["first_position_rate"]).iloc[0]
        assert row_of(estimates, "bias", thinking=name)["ci_low"] == own["ci_low"]


@pytest.mark.slow
def test_a_metric_that_is_no_ratio_is_paired_too(graded):
    judge = bl.SimulatedJudge(graded, verbosity=0.8, noise=0.3, context_noise=0.3, thought_debiasing=0.5)
    probe = Thinking(["coherence"], "verbosity_slope", [0, "high"])
    trials = judged(probe, judge, graded)
    row = row_of(probe.estimate(trials, ["thinking_shift"]), "thinking_shift")
    inner = bl.probes.Verbosity(["coherence"])
    parts = [trials[trials["thinking"] == name].assign(probe="verbosity") for name in ("0", "high")]
    found = bl.compare(parts, "thinking", ["verbosity_slope"], probe=inner, progress=False)
    expected = found[found["role"] == "difference"].iloc[0]
    assert [row["estimate"], row["ci_low"]] == pytest.approx([expected["estimate"], expected["ci_low"]], rel=1e-9)
    assert row["measured"] == "verbosity_slope"


def left_out(trials, name):
    """The rate of decisions for the first and tokens at a budget, of all contexts and without each, counted by hand."""
    at = trials[trials["thinking"] == name]
    rows = [at] + [at[at["context_id"] != context] for context in trials["context_id"].unique()]
    return np.array([[(part["value"] == 1).mean(), part["tokens"].mean()] for part in rows])


def test_reduction_and_cost_of_a_point_are_those_counted_by_hand(text):
    _, trials, estimates = text
    (first, paid_first), (low, paid_low) = left_out(trials, "0").T, left_out(trials, "low").T
    bias, cost = (first - 0.5) - (low - 0.5), paid_low - paid_first
    g = len(bias) - 1
    assert first[0] > low[0] > 0.5
    t = stats.t.ppf(0.975, g - 1)

    def error(values):
        return math.sqrt((g - 1) / g * ((values[1:] - values[0]) ** 2).sum())

    row = row_of(estimates, "bias_reduction")
    assert [row["estimate"], row["ci_low"]] == pytest.approx([bias[0], bias[0] - t * error(bias)], rel=1e-9)
    assert math.isnan(row["p_value"])
    row = row_of(estimates, "tokens_per_point")
    assert row["estimate"] == pytest.approx(cost[0] / (100 * bias[0]), rel=1e-9)
    for end in (row["ci_low"], row["ci_high"]):  # at both ends, cost and its price for the reduction differ just so
        gap = cost - end * 100 * bias
        assert abs(gap[0]) == pytest.approx(t * error(gap), rel=1e-6)
    dollars = row_of(estimates, "dollars_per_point")["estimate"]
    assert dollars == pytest.approx(12.0 * (paid_low[0] - paid_first[0]) / 1e6 * 1000 / (100 * bias[0]), rel=1e-9)


def test_tokens_dollars_and_thoughts_are_means_of_replies(text):
    _, trials, estimates = text
    at = trials[trials["thinking"] == "low"]
    assert (
        at["tokens"] == at["thought_tokens"] + 2
    ).all()  # a prompt and an answer of the simulated judge have one each
    for metric, expected in (
        ("tokens", at["tokens"].mean()),
        ("thought_tokens", at["thought_tokens"].mean()),
        ("dollars", (3.0 * 1 + 12.0 * (at["thought_tokens"].mean() + 1)) / 1000),
    ):
        assert row_of(estimates, metric, thinking="low")["estimate"] == pytest.approx(expected, rel=1e-12), metric
    nothing = Thinking(**TWO, answer="text", replicates=3).estimate(trials)
    assert not nothing["metric"].str.startswith("dollars").any()


def test_agreement_and_reliability_are_counted_by_hand(text):
    _, trials, estimates = text
    rights = {}
    for name in ("0", "low"):
        at = trials[trials["thinking"] == name]
        rated = at[at["human_gap"] != 0]
        right = (rated["value"] == 1) == (rated["human_gap"] > 0)
        rights[name] = right.mean()
        assert row_of(estimates, "agreement", thinking=name)["estimate"] == pytest.approx(right.mean(), rel=1e-12)
        samples = at.pivot_table("value", ["context_id", "candidate_id", "opponent_id"], "replicate")
        same = np.mean([(samples[a] == samples[b]).mean() for a, b in ((0, 1), (0, 2), (1, 2))])
        assert row_of(estimates, "reliability", thinking=name)["estimate"] == pytest.approx(same, rel=1e-12)
    row = row_of(estimates, "agreement_shift")
    assert row["estimate"] == pytest.approx(rights["low"] - rights["0"], rel=1e-9)
    assert row["ci_low"] < row["estimate"] < row["ci_high"]


def test_resampling_noise_is_the_spread_of_replicates(text, graded):
    _, trials, estimates = text
    rates = trials.groupby(["thinking", "replicate"])["value"].mean()
    variance = sum(rates[name].var() / 3 for name in ("0", "low"))
    row = row_of(estimates, "resampling_noise")
    assert row["estimate"] == pytest.approx(math.sqrt(variance), rel=1e-9)
    ends = np.sqrt(4 * variance / stats.chi2.ppf([0.975, 0.025], 4))
    assert [row["ci_low"], row["ci_high"]] == pytest.approx(ends.tolist(), rel=1e-9)
    exact = run(Thinking(**TWO), bl.SimulatedJudge(graded, **JUDGE), graded)
    assert "replicates=2" in row_of(exact, "resampling_noise")["note"]


@pytest.mark.slow
def test_resampling_noise_predicts_the_spread_of_reruns():
    """The spread of the shift over judges that differ in nothing but the random numbers of their samples."""
    data = construct_population(24)
    judge = bl.SimulatedJudge(data, position=0.8, noise=0.5, thought_debiasing=0.5)
    probes = [Thinking(**TWO, answer="text", replicates=4, temperature=1.0, seed=seed) for seed in range(12)]
    found = [probe.estimate(judged(probe, judge, data), ["thinking_shift", "resampling_noise"]) for probe in probes]
    shifts, noise = (
        np.array([row_of(each, name)["estimate"] for each in found]) for name in ("thinking_shift", "resampling_noise")
    )
    ratio = shifts.var(ddof=1) / (noise**2).mean()
    assert stats.f.ppf(0.001, 11, 12 * 6) < ratio < stats.f.ppf(0.999, 11, 12 * 6)


def test_a_point_has_no_price_where_the_bias_may_not_fall(graded):
    judge = bl.SimulatedJudge(graded, **{**JUDGE, "position": 0.2, "thought_debiasing": 0.0})
    row = row_of(run(Thinking(**TWO), judge, graded), "tokens_per_point")
    assert math.isnan(row["estimate"])
    assert "undefined" in row["note"]


@pytest.mark.slow
def test_budgets_accept_any_order_and_numeric_columns(graded, tmp_path):
    judge = bl.SimulatedJudge(graded, **JUDGE)
    one, two = (Thinking(**ONE, budgets=budgets) for budgets in ([0, 500], [500, "none"]))
    expected = one.estimate(trials := judged(one, judge, graded))
    numbers = ["estimate", "ci_low", "ci_high"]
    pd.testing.assert_frame_equal(two.estimate(judged(two, judge, graded))[numbers], expected[numbers])
    as_numbers = trials.assign(thinking=trials["thinking"].astype(float))
    pd.testing.assert_frame_equal(one.estimate(as_numbers)[numbers], expected[numbers])


class Plain(BaseJudge):
    """A judge that knows nothing of budgets, and counts what it is asked."""

    id, kinds, asked = "plain", frozenset({Choice, Completion}), 0

    def ask(self, requests):
        for request in requests:
            self.asked += 1
            yield request, Reply(logprobs=(-0.1, -3.0)) if isinstance(request, Choice) else Reply(text="Summary A")


class Deaf(Plain):
    """A judge that takes budgets and does not obey them: it never thinks, or always does."""

    thinks, spent = True, 0

    def ask(self, requests):
        for at, (request, reply) in enumerate(super().ask(requests)):
            text = request.about.labels[at % 3 > 0]
            yield request, dataclasses.replace(reply, text=text, usage=Usage(10, 0, 5 + self.spent, self.spent))


@pytest.mark.parametrize("answer", ["distribution", "text"])
def test_a_judge_that_cannot_think_says_so_before_it_is_asked(graded, answer):
    judge = Plain()
    with pytest.raises(UnsupportedRequestError, match="'plain' accepts no thinking budget") as refused:
        bl.collect(Thinking(**TWO, answer=answer), judge, graded, progress=False)
    assert judge.asked == 0
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_budget_that_is_not_obeyed_is_noted(graded):
    judge, probe = Deaf(), Thinking(**TWO, answer="text")
    note = row_of(run(probe, judge, graded), "thinking_shift")["note"]
    assert "no thinking tokens at budget low" in note
    judge.spent = 300
    note = row_of(run(probe, judge, graded), "thinking_shift")["note"]
    assert "thinking cannot be turned off" in note


def test_missing_replies_are_counted_and_warned_of(graded):
    judge = bl.SimulatedJudge(graded, **JUDGE, refusal=0.3)
    probe = Thinking(**TWO)
    trials = judged(probe, judge, graded)
    with pytest.warns(MissingDataWarning):
        row = row_of(probe.estimate(trials, ["thinking_shift"]), "thinking_shift")
    assert row["n_dropped"] > 0
    assert row["n_trials"] + row["n_dropped"] == len(trials)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"bias": "charm"}, "verbosity_slope"),
        ({"bias": "thinking"}, "position"),
        ({"bias": "sweep"}, "does not choose requests based on replies"),
        ({"budgets": ["low"]}, "two different budgets"),
        ({"budgets": [0, "none"]}, "two different budgets"),
        ({"budgets": "low"}, r"use \['low'\]"),
        ({"budgets": [0, "lots"]}, "minimal, low, medium, high"),
        ({"parameters": {"charm": 1}}, "n_pairs"),
        ({"parameters": {"answer": "text"}}, "n_pairs"),
        ({"prices": {"output": 1.0}}, "input"),
    ],
)
def test_invalid_parameters_are_refused_before_any_request(given, says):
    with pytest.raises(InputError, match=says):
        Thinking(**given)


def test_trials_of_another_bias_are_refused(text):
    _, trials, _ = text
    with pytest.raises(TrialsError, match=r"Thinking\(bias='edit'\)"):
        Thinking().estimate(trials.assign(bias="edit"))


def test_recorded_judgements_with_budgets_are_accepted(text):
    probe, trials, _ = text
    recorded = trials.assign(probe="recorded", order_known=True)
    assert len(probe.accepts(recorded).trials) == len(recorded)
    assert "a column thinking" in probe.accepts(recorded.drop(columns="thinking")).note
    assert probe.accepts(recorded[recorded["thinking"] == "0"]).trials.empty
