"""The sweep probe: exact temperatures against samples, planted shifts, and GPT-3.5's recorded samples."""

import gzip
import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import kendalltau
from studies import row_of, run

import biaslab as bl
from biaslab import calibration
from biaslab.calibration import cells
from biaslab.calibration.generators import GENERATORS, generate
from biaslab.calibration.pair_models import AskedPairs
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.core.scales import find_scale
from biaslab.probes.sweep import Sweep, answered
from biaslab.probes.template import Template
from biaslab.prompts.parsing import parse_score
from biaslab.stats.reliability import estimate_alpha


@pytest.fixture(scope="module")
def many():
    """150 contexts of three candidates whose human scores are uniform between 1 and 5."""
    return construct_population(150)


def test_design_asks_choices_once_and_text_per_temperature(graded):
    trials = list(Sweep(["fluency"], temperatures=[0, 0.5, 1], samples=3).design(graded))
    plain = [t for t in trials if t.condition["cot"] == "no CoT"]
    assert len(plain) == 48 * 10
    assert len({t.request for t in plain}) == 48
    reasoned = [t for t in trials if t.condition["cot"] == "CoT"]
    assert len(reasoned) == len({t.request for t in reasoned}) == 48 * (1 + 3 + 3)
    assert "give your reasons" in reasoned[0].request.messages[0].content
    assert {t.request.max_tokens for t in reasoned} == {128}
    texts = list(Sweep(["fluency"], temperatures=[0, 0.5, 1], samples=3, answer="text").design(graded))
    assert len(texts) == 2 * len(reasoned)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, pytest.param(1.0, marks=pytest.mark.slow), 2.0])
def test_samples_converge_to_exact_temperatures(many, temperature):
    """Mean, spread, alpha and agreement of 12 sampled texts lie within Monte-Carlo error of the exact distribution."""
    judge = bl.SimulatedJudge(many, noise=0.5, sharpness=4.0)
    options = {"temperatures": [temperature], "cot": [False], "samples": 12}
    exact, text = (Sweep(answer=answer, **options) for answer in ("distribution", "text"))
    sampled = bl.collect(text, judge, many, progress=False)
    p = bl.collect(exact, judge, many, progress=False)
    weight = p["value"] ** (1 / temperature)
    share = weight / weight.groupby(p["candidate_id"] + "/" + p["context_id"]).transform("sum")
    values = sampled["value"]
    mean = float((share * p["label"]).sum() / share.sum())
    spread = math.sqrt(float((share * (p["label"] - mean) ** 2).sum() / share.sum()))
    assert values.mean() == pytest.approx(mean, abs=4 * values.std() / math.sqrt(len(values)))
    assert values.std() == pytest.approx(spread, rel=0.05)
    one, other = exact.estimate(p), text.estimate(sampled)
    for metric, cell in (("alpha", {}), ("agreement", {"samples": 1.0}), ("agreement", {"samples": 12.0})):
        a, b = (row_of(frame, metric, **cell)["estimate"] for frame in (one, other))
        assert a == pytest.approx(b, abs=0.04), metric


def test_alpha_of_texts_is_that_of_the_agreement_module(graded):
    probe = Sweep(["coherence"], temperatures=[1.0], cot=[True], samples=3)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, sharpness=4.0), graded, progress=False)
    scores = trials[["context_id", "candidate_id"]].assign(annotator=trials["replicate"], score=trials["value"])
    found = row_of(probe.estimate(trials), "alpha", cot="CoT")
    assert found["estimate"] == pytest.approx(estimate_alpha(scores, probe.resampling).estimate)


@pytest.mark.slow
def test_samples_agree_less_and_their_mean_more_as_planned(many):
    judge = bl.SimulatedJudge(many, sharpness=4.0)
    probe = Sweep(temperatures=[0.0, 0.5, 1.0, 2.0], cot=[False], samples=8)
    estimates = run(probe, judge, many)
    alpha = estimates[estimates["metric"] == "alpha"].sort_values("temperature")["estimate"]
    assert alpha.iloc[0] == 1
    assert alpha.is_monotonic_decreasing
    hot = estimates[(estimates["metric"] == "agreement") & (estimates["temperature"] == 1)].sort_values("samples")
    assert hot["samples"].tolist() == [1, 2, 4, 8]
    assert hot["estimate"].is_monotonic_increasing
    greedy = estimates[(estimates["metric"] == "agreement") & (estimates["temperature"] == 0)]
    assert np.ptp(greedy["estimate"]) == 0
    shift = row_of(estimates, "temperature_shift", cot="no CoT")
    ends = [row_of(estimates, "agreement", temperature=t, samples=8.0)["estimate"] for t in (2.0, 0.0)]
    assert shift["estimate"] == pytest.approx(ends[0] - ends[1], abs=0.02)  # over contexts where both are defined
    assert shift["p_value"] < 0.05


@pytest.mark.slow
def test_planted_shift_is_found_and_its_absence_not(many):
    """Scores that reasons push to the top of the scale cannot tell candidates apart."""
    probe = Sweep(scale="1-100", temperatures=[1.0], samples=1, answer="text")
    for reason_first, found in ((0.0, False), (1.5, True)):
        judge = bl.SimulatedJudge(many, noise=0.3, sharpness=4.0, reason_first=reason_first)
        trials = bl.collect(probe, judge, many, progress=False)
        shift = row_of(probe.estimate(trials), "cot_shift")
        assert (shift["q_value"] < 0.001) == found
        by_hand = {}
        for cot, part in trials.groupby("cot"):
            taus = [kendalltau(rows["value"], rows["human"]).statistic for _, rows in part.groupby("context_id")]
            by_hand[cot] = np.array(taus)
        both = ~np.isnan(by_hand["CoT"]) & ~np.isnan(by_hand["no CoT"])
        expected = by_hand["CoT"][both].mean() - by_hand["no CoT"][both].mean()
        assert shift["estimate"] == pytest.approx(expected)


def test_shift_needs_items_scored_both_ways(graded):
    probe = Sweep(["coherence"], temperatures=[1.0], samples=1)
    trials = bl.collect(probe, bl.SimulatedJudge(graded), graded, progress=False)
    gone = (trials["cot"] == "CoT") & (trials["candidate_id"] == trials["candidate_id"].iloc[0])
    part = trials.assign(value=trials["value"].mask(gone), status=trials["status"].mask(gone, "unparsable"))
    with pytest.warns(MissingDataWarning, match="CoT, temperature 1"):
        estimates = probe.estimate(part)
    kept = probe.estimate(trials[trials["candidate_id"] != trials["candidate_id"].iloc[0]])
    found, other = (row_of(frame, "cot_shift") for frame in (estimates, kept))
    assert found["n_trials"] == 80
    assert found["n_dropped"] == 16
    assert found["n_contexts"] == other["n_contexts"]
    assert row_of(estimates, "parse_rate", cot="CoT")["estimate"] == pytest.approx(5 / 6)
    assert row_of(estimates, "parse_rate", cot="no CoT")["estimate"] == 1


def test_greedy_samples_are_paid_for_once(graded):
    probe = Sweep(["coherence"], temperatures=[0.0, 1.0], samples=4)
    estimates = run(probe, bl.SimulatedJudge(graded), graded, ["tokens"])
    rows = estimates.set_index(["cot", "temperature", "samples"])["estimate"]
    assert rows["CoT", 1.0, 4.0] == 4 * rows["CoT", 1.0, 1.0]
    assert rows["CoT", 0.0, 4.0] == rows["CoT", 0.0, 1.0]
    assert rows["no CoT", 1.0, 4.0] == rows["no CoT", 1.0, 1.0]


class Hesitant:
    """A simulated judge whose reasons, some of the time, end before their score."""

    kinds = bl.SimulatedJudge.kinds

    def __init__(self, data, wanting, **planted):
        self.inner, self.wanting = bl.SimulatedJudge(data, **planted), wanting
        self.id, self.check = self.inner.id, self.inner.check

    def ask(self, requests):
        for request, reply in self.inner.ask(requests):
            reasons = isinstance(request, bl.Completion) and request.about.reasons == "before"
            if reasons and request.about.form == "lines" and self.wanting(request):
                reply = replace(reply, text=f"Its sentences hang together{'!' * request.replicate}")
            yield request, reply


@pytest.mark.slow
def test_a_score_that_reasons_lack_is_asked_for_after_them(graded):
    """Every reply has a score then, and the second question holds the first one and what was answered."""
    judge = Hesitant(graded, lambda request: request.replicate != 1, sharpness=4.0, noise=0.5)
    probe = Sweep(["coherence"], temperatures=[0.0, 1.0], cot=[True], samples=3, second_step=True)
    trials = bl.collect(probe, judge, graded, progress=False)
    first, second = (trials[trials["step"] == step] for step in (1, 2))
    assert (len(first), len(second)) == (48 * 4, 48 * 3)
    assert (second["status"] == "ok").all()
    assert list(probe.design(graded, trials)) == []
    asked = list(probe.design(graded, first))
    assert len(asked) == len(second)
    [question, reasons, again] = asked[0].request.messages
    assert question == next(iter(probe.design(graded))).request.messages[0]
    assert reasons == ("assistant", "Its sentences hang together")
    assert again.content.endswith("Answer with the rating of coherence alone.")
    assert asked[0].request.labels == find_scale("1-10").labels
    estimates = probe.estimate(trials)
    rates = estimates[estimates["metric"] == "parse_rate"].set_index("temperature")["estimate"]
    assert rates.to_dict() == {0.0: 0.0, 1.0: pytest.approx(1 / 3)}
    assert set(estimates.loc[estimates["metric"] == "agreement", "n_dropped"]) == {0}
    paid = row_of(estimates, "tokens", temperature=1.0, samples=1.0)["estimate"]
    assert paid == pytest.approx((first.loc[first["temperature"] == 1, "tokens"].sum() + 48 * 2) / (48 * 3))


@pytest.mark.slow
@settings(max_examples=10)
@given(st.sets(st.tuples(st.integers(0, 47), st.integers(0, 2)), max_size=12))
def test_second_step_fills_missing_scores_only(two_steps, wanting):
    """Whichever replies lack their score: the others' scores stay, and no answer stands twice."""
    graded, probe, whole = two_steps
    items = {item: n for n, item in enumerate(whole.groupby(["context_id", "candidate_id"], sort=False).groups)}
    places = [(items[row.context_id, row.candidate_id], row.replicate) in wanting for row in whole.itertuples()]
    lacking = whole.assign(value=whole["value"].mask(places), status=whole["status"].mask(places, "unparsable"))
    judge, steps = bl.SimulatedJudge(graded, sharpness=4.0), list(probe.design(graded, lacking))
    assert len(steps) == len(wanting)
    again = [trial.request for trial in steps]
    values = [probe.read(trial, reply)[0] for trial, (_, reply) in zip(steps, judge.ask(again), strict=True)]
    rows = whole[places].assign(step=2.0, value=values, status="ok")
    filled = answered(pd.concat([lacking, rows], ignore_index=True))
    key = ["context_id", "candidate_id", "replicate"]
    assert not filled.duplicated(key).any()
    both = whole.set_index(key)["value"].to_frame("then").join(filled.set_index(key)["value"])
    stay = ~np.array(places)
    assert (both["then"] == both["value"])[stay].all()
    assert both["value"].notna().all()
    assert filled["tokens"].sum() == lacking["tokens"].sum() + rows["tokens"].sum()


@pytest.fixture(scope="module")
def two_steps(graded):
    """Eight contexts, a probe with a second step, and trials that need none."""
    probe = Sweep(["coherence"], temperatures=[1.0], cot=[True], samples=3, second_step=True)
    return graded, probe, bl.collect(probe, bl.SimulatedJudge(graded), graded, progress=False)


@pytest.mark.slow
def test_second_steps_sample_at_their_temperature(many):
    """A mean over 450 items converges to that of the tempered distributions, and 0 gives the likeliest score."""
    judge = Hesitant(many, lambda request: True, sharpness=4.0, noise=0.5)
    probe = Sweep(temperatures=[0.0, 0.5], cot=[True], samples=1, second_step=True)
    steps = list(
        probe.design(many, bl.collect(replace(probe, cot=[True]), judge, many, progress=False).query("step == 1"))
    )
    for temperature in (0.0, 0.5):
        mine = [trial for trial in steps if trial.condition["temperature"] == temperature]
        replies = dict(judge.ask([trial.request for trial in mine]))
        p = np.exp([replies[trial.request].logprobs for trial in mine])
        values = np.array([probe.read(trial, replies[trial.request])[0] for trial in mine])
        if temperature == 0:
            assert (values == 1 + p.argmax(axis=1)).all()
            continue
        hot = p ** (1 / temperature) / (p ** (1 / temperature)).sum(axis=1, keepdims=True)
        scores = np.arange(1, 11)
        mean, square = hot @ scores, hot @ scores**2
        assert values.mean() == pytest.approx(mean.mean(), abs=4 * np.sqrt((square - mean**2).mean() / len(mine)))


@pytest.mark.parametrize("how", ["text", "counted"])
def test_second_step_without_distributions_asks_for_text(graded, how):
    judge = Hesitant(graded.head(2), lambda request: True, sharpness=4.0)
    options = {"samples": 2, "temperatures": [1.0], "second_step": True}
    if how == "counted":
        judge, probe = bl.Sampled(judge, 4), Sweep(["fluency"], **options)
    else:
        probe = Sweep(["fluency"], answer="text", **options)
    trials = bl.collect(probe, judge, graded.head(2), progress=False)
    second = trials[trials["step"] == 2]
    assert len(second) == 12 * 2
    assert (second["status"] == "ok").all()
    assert second["reply"].notna().all()
    assert second["key"].nunique() == len(second)


def test_trials_without_second_step_are_unchanged(graded):
    trials = bl.collect(Sweep(["coherence"]), bl.SimulatedJudge(graded), graded.head(1), progress=False)
    assert not {"step", "reply"} & {*trials.columns}


def test_shifts_of_conditions_not_asked_are_undefined(graded):
    probe = Sweep(["coherence"], temperatures=[1.0], cot=[False])
    estimates = run(probe, bl.SimulatedJudge(graded), graded)
    assert np.isnan(row_of(estimates, "cot_shift")["estimate"])
    shifts = estimates[estimates["metric"].str.endswith("shift")]
    assert shifts["note"].str.contains("not asked").all()


@pytest.mark.parametrize(
    "options",
    [
        {"attributes": "coherence"}, {"scale": "1-7"}, {"temperatures": []}, {"temperatures": [1, 1]},
        {"temperatures": [-1.0]}, {"cot": []}, {"cot": [True, True]}, {"samples": 0}, {"answer": "maybe"},
        {"max_tokens": 0}, {"n_candidates": 0}, {"seed": -1},
    ],
)  # fmt: skip
def test_parameters_are_checked(options):
    with pytest.raises(InputError, match=next(iter(options)).removesuffix("s")):
        Sweep(**options)


def test_missing_columns_are_named():
    with pytest.raises(TrialsError, match="temperature"):
        Sweep().estimate(pd.DataFrame({"judge": []}))


def recorded(folder, mode):
    """Return GPT-3.5's samples of one prompt, by item; an item is known by source, context and response."""
    file = folder / "recorded" / "closer_look_topical_chat" / f"gpt3.5_coh_{mode}.json.gz"
    rows = json.loads(gzip.decompress(file.read_bytes()))
    return {(r["source"], r["context"], r["system_output"]): r for r in rows}


@pytest.mark.slow
def test_reasons_and_gpt35_on_topicalchat(shared_data):
    """20 samples with an analysis before the score and 20 of the score alone, coherence; recomputed with scipy."""
    modes = {"no CoT": recorded(shared_data, "geval"), "CoT": recorded(shared_data, "analyze_rate")}
    scale, rows = find_scale("1-5"), []
    for cot, found in modes.items():
        for key, record in found.items():
            for replicate, text in enumerate(record["all_responses"]):
                value, status = parse_score(text, scale)
                rows.append((str(key[:2]), key[2], cot, replicate, value, status, record["scores"]["coherence"]))
    columns = ["context_id", "candidate_id", "cot", "replicate", "value", "status", "human"]
    fixed = {"judge": "gpt-3.5", "dataset": "topicalchat", "attribute": "coherence", "scale": "1-5"}
    nothing = {"label": np.nan, "label_mass": np.nan, "tokens": 1, "key": ""}
    trials = pd.DataFrame(rows, columns=columns).assign(**fixed, **nothing, temperature=1.0)
    probe = Sweep(scale="1-5", temperatures=[1.0], samples=20, answer="text")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        estimates = probe.estimate(trials)

    items = ["context_id", "candidate_id"]
    means = trials.pivot_table(index=items, columns="cot", values="value").dropna()
    means = means.round(9).join(trials.groupby(items)["human"].first()).reset_index()
    taus = pd.DataFrame(
        {
            cot: [kendalltau(part[cot], part["human"]).statistic for _, part in means.groupby("context_id")]
            for cot in modes
        }
    ).dropna()
    shift = row_of(estimates, "cot_shift")
    assert shift["estimate"] == pytest.approx(float((taus["CoT"] - taus["no CoT"]).mean()))
    assert shift["n_contexts"] == len(taus)
    for cot in modes:
        rate = (trials[trials["cot"] == cot]["status"] == "ok").mean()
        assert row_of(estimates, "parse_rate", cot=cot)["estimate"] == pytest.approx(rate)
        assert rate > 0.9
        curve = estimates[(estimates["metric"] == "agreement") & (estimates["cot"] == cot)].sort_values("samples")
        assert curve["estimate"].iloc[-1] > curve["estimate"].iloc[0]


def test_only_trials_of_its_own_design_will_do(graded):
    probe = Sweep(attributes=["coherence", "fluency"])
    own = bl.collect(probe, bl.SimulatedJudge(graded), graded.head(1), progress=False)
    assert len(probe.accepts(own).trials) == len(own)
    for others in (own.assign(probe="recorded"), own.drop(columns="temperature")):
        refused = probe.accepts(others)
        assert refused.trials.empty
        assert refused.note.startswith("needs scores at several temperatures")


ONE = {"attributes": ["coherence"], "asks": ["pairs"], "n_candidates": 4}
ASKED = [name for name, each in GENERATORS.items() if isinstance(each.texts, AskedPairs)]
KINDS = {"sweep": Sweep, "template": Template}


def test_pairs_ask_choices_once_and_text_per_temperature(graded):
    trials = list(Sweep(**ONE, temperatures=[0, 0.5, 1], samples=3).design(graded))
    pairs = 8 * 4 * 3
    plain = [t for t in trials if t.condition["cot"] == "no CoT"]
    assert len(plain) == len({t.request for t in plain}) == pairs
    reasoned = [t for t in trials if t.condition["cot"] == "CoT"]
    assert len(reasoned) == len({t.request for t in reasoned}) == pairs * (1 + 3 + 3)
    assert {t.request.max_tokens for t in reasoned} == {128}
    assert all("reasons" in t.request.messages[0].content for t in reasoned)
    orders = {(t.context_id, t.candidate_id, t.opponent_id) for t in plain}
    assert orders == {(context, two, one) for context, one, two in orders}


def test_questions_without_reasons_are_those_of_position(graded):
    ours = {t.request for t in Sweep(**ONE | {"n_candidates": None}, cot=[False]).design(graded)}
    assert ours == {t.request for t in bl.probes.Position(["coherence"], [1]).design(graded)}


@pytest.mark.slow
def test_samples_of_pairs_converge_to_exact_temperatures(graded):
    judge = bl.SimulatedJudge(graded, quality=0.6, position=0.4, noise=0.5)
    exact, text = (
        run(Sweep(**ONE, temperatures=[0.0, 0.5, 2.0], cot=[False], **how), judge, graded)
        for how in ({}, {"answer": "text", "samples": 30})
    )
    for temperature in (0.0, 0.5, 2.0):
        for metric in ("comparative_accuracy", "first_position_rate", "order_consistency", "alpha"):
            one, two = (row_of(each, metric, temperature=temperature)["estimate"] for each in (exact, text))
            assert two == pytest.approx(one, abs=0.04), (metric, temperature)
    shifts = [row_of(each, "temperature_accuracy_shift")["estimate"] for each in (exact, text)]
    assert shifts[1] == pytest.approx(shifts[0], abs=0.03)
    assert row_of(exact, "alpha", temperature=0.0)["note"].startswith("1 by construction")


@pytest.mark.slow
def test_shift_is_a_difference_of_its_metric(graded):
    found = run(Sweep(**ONE, temperatures=[0, 1]), bl.SimulatedJudge(graded, quality=0.6, reason_first=0.3), graded)
    for metric, of in (("cot_accuracy_shift", "comparative_accuracy"), ("cot_first_shift", "first_position_rate")):
        with_reasons, without = (row_of(found, of, cot=cot, temperature=1.0)["estimate"] for cot in ("CoT", "no CoT"))
        assert row_of(found, metric, temperature=1.0)["estimate"] == pytest.approx(with_reasons - without)
    hot, cold = (row_of(found, "comparative_accuracy", cot="no CoT", temperature=t)["estimate"] for t in (1.0, 0.0))
    shift = row_of(found, "temperature_accuracy_shift", cot="no CoT")
    assert shift["estimate"] == pytest.approx(hot - cold)
    assert shift["p_value"] < 0.01


@pytest.mark.slow
def test_reasons_that_favour_the_first_are_found(graded):
    options = {**ONE, "temperatures": [0.0], "samples": 1}
    biased = run(Sweep(**options), bl.SimulatedJudge(graded, quality=0.6, noise=0.5, reason_first=0.5), graded)
    fair = run(Sweep(**options), bl.SimulatedJudge(graded, quality=0.6, noise=0.5), graded)
    assert row_of(biased, "cot_first_shift")["ci_low"] > 0.2
    assert row_of(biased, "cot_accuracy_shift")["ci_high"] < -0.1
    assert abs(row_of(fair, "cot_first_shift")["estimate"]) < 0.1


@pytest.mark.slow
def test_counted_samples_stand_for_temperature_one_alone(graded):
    judge = bl.Sampled(bl.SimulatedJudge(graded, quality=0.6), 8)
    trials = bl.collect(Sweep(**ONE, temperatures=[0, 1], cot=[False]), judge, graded, progress=False)
    counted = trials["samples"].notna()
    assert set(trials.loc[~counted, "temperature"]) == {0.0}
    found = Sweep(**ONE, temperatures=[0, 1]).estimate(trials)
    value = trials.loc[counted]
    right = np.where(value["human_gap"] > 0, value["value"], 1 - value["value"])[value["human_gap"] != 0]
    assert row_of(found, "comparative_accuracy", temperature=1.0)["estimate"] == pytest.approx(right.mean())
    assert np.isfinite(row_of(found, "temperature_accuracy_shift")["p_value"])


def by_hand(lost=()):
    """Three contexts, one pair in both orders: right without reasons, with them only where x stands first."""
    rows = [
        (context, *pair, gap, cot, value)
        for context in "abc"
        for pair, gap, plain, reasoned in ((("x", "y"), 1.0, 1.0, 1.0), (("y", "x"), -1.0, 0.0, 1.0))
        for cot, value in (("no CoT", plain), ("CoT", reasoned))
    ]
    trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "human_gap", "cot", "value"])
    fixed = {"judge": "j", "dataset": "d", "attribute": "q", "scale": "pairs", "answer": "text", "status": "ok"}
    fixed |= {"temperature": 1.0, "replicate": 0, "tokens": 3, "human": np.nan, "label": np.nan, "label_mass": np.nan}
    trials = trials.assign(**fixed)
    for context in lost:
        gone = (trials["context_id"] == context) & (trials["cot"] == "CoT") & (trials["candidate_id"] == "x")
        trials.loc[gone, ["value", "status"]] = np.nan, "unparsable"
    return trials


def test_shifts_computed_by_hand():
    found = Sweep(asks=["pairs"], temperatures=[1.0]).estimate(by_hand())
    assert row_of(found, "cot_accuracy_shift")["estimate"] == pytest.approx(0.5 - 1)
    assert row_of(found, "cot_first_shift")["estimate"] == pytest.approx(1 - 0.5)
    assert row_of(found, "order_consistency", cot="CoT")["estimate"] == 0
    assert row_of(found, "tokens", cot="CoT")["estimate"] == 3
    assert "was not asked" in row_of(found, "temperature_accuracy_shift", cot="CoT")["note"]


def test_a_pair_that_lacks_a_verdict_leaves_both_sides():
    with pytest.warns(MissingDataWarning):
        found = Sweep(asks=["pairs"], temperatures=[1.0]).estimate(by_hand(lost="c"))
    row = row_of(found, "cot_accuracy_shift")
    assert (row["estimate"], row["n_contexts"], row["n_dropped"]) == (pytest.approx(-0.5), 2, 4)
    assert row_of(found, "parse_rate", cot="CoT")["estimate"] == pytest.approx(5 / 6)


@pytest.mark.slow
def test_scores_stay_as_they_are_beside_pairs(graded):
    options = {"attributes": ["coherence"], "temperatures": [0, 1], "samples": 2, "n_candidates": 3}
    judge = bl.SimulatedJudge(graded, noise=0.5)
    alone, both = (run(Sweep(**options, asks=asks), judge, graded) for asks in (["scores"], ["pairs", "scores"]))
    both = both[both["scale"] != "pairs"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone.drop(columns="q_value"), both.drop(columns="q_value"))


def test_pairs_need_two_candidates():
    with pytest.raises(InputError, match="n_candidates"):
        Sweep(asks=["pairs"], n_candidates=1)
    with pytest.raises(InputError, match="asks"):
        Sweep(asks=["lists"])


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("k", [None, 1])
def test_pairs_asked_in_two_ways_are_read_by_their_probes(name, k):
    generator = GENERATORS[name]
    [probe] = generator.probes
    metric = next(each for each in KINDS[probe].metrics if cells.applies(KINDS[probe], each, "exact", name))
    biased, fair = (
        KINDS[probe](**metric.calibration.parameters)
        .estimate(generate(generator, probe, 200, planted=planted, k=k), [metric.name])
        .iloc[0]
        for planted in (True, False)
    )
    assert biased["p_value"] < 0.001
    assert fair["p_value"] > 0.001
    assert abs(fair["estimate"]) < abs(biased["estimate"]) / 2


@pytest.mark.thorough
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("mode", ["exact", "text"])
def test_pairs_asked_in_two_ways_keep_the_bands(name, mode):
    """Reduced: 200 studies of 24 contexts; `biaslab validate --all` runs them all."""
    kinds = [KINDS[probe] for probe in GENERATORS[name].probes]
    found = bl.validate(kinds, studies=200, population=1000, contexts=[24], generators=[name], modes=[mode], curve=[])
    bad = calibration.outside(found)
    assert bad.empty, "\n".join(map(calibration.describe, bad.itertuples()))
