"""Template: what is planted is found, earlier verdicts come from elsewhere, shares add up, logs are read."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_scores
from hypothesis import given, settings, strategies as st
from scipy import stats
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Completion, request_key
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.probes.template import OF_PAIRS, OF_SCORES, Template
from biaslab.prompts.variants import FACTORS

FAST = bl.Resampling(n=200)
PLANTED = {"quality": 1.0, "noise": 0.7, "context_noise": 0.4, "template_noise": 0.5}


@pytest.fixture(scope="module")
def population():
    return construct_population(60)


@pytest.fixture(scope="module")
def judge(population):
    return bl.SimulatedJudge(population, **PLANTED)


@pytest.fixture(scope="module")
def trials(population, judge):
    return {
        form: bl.collect(Template(form=form, resampling=FAST), judge, population, progress=False) for form in FACTORS
    }


@pytest.fixture(scope="module")
def estimates(trials):
    return {form: Template(form=form, resampling=FAST).estimate(part) for form, part in trials.items()}


def keys(probe, data, **where):
    return [
        request_key(trial.request, "j")
        for trial in probe.design(data)
        if all(trial.condition[name] == value for name, value in where.items())
    ]


@pytest.mark.slow
def test_base_requests_equal_those_of_other_probes(graded):
    """So that a store answers both with one reply."""
    scores = keys(Template(factors=["order"]), graded, template="base")
    assert sorted(scores) == sorted(keys(bl.probes.Verbosity(), graded))
    pairs = keys(Template(form="pair", factors=["order"]), graded, template="base")
    assert sorted(pairs) == sorted(keys(bl.probes.Position(templates=[1]), graded))


def test_no_two_variants_ask_the_same(graded):
    for form in FACTORS:
        asked = keys(Template(["coherence"], form=form), graded.head(3))
        assert len(set(asked)) == len(asked)


@pytest.mark.slow
def test_shifts_are_those_of_the_expected_scores(population, judge, estimates):
    """The expected score of each request is known exactly; what is estimated lies within its own uncertainty of it."""
    probe = Template()
    design = list(probe.design(population))
    expected = pd.Series(expected_scores(judge, design)).groupby([t.condition["template"] for t in design]).mean()
    shifts = estimates["score"].query("metric == 'template_shift'").set_index("template")
    assert len(shifts) == 8
    for name, row in shifts.iterrows():
        assert abs(row["estimate"] - (expected[name] - expected["base"])) < 3.5 * row["se"], name
        assert np.sign(expected[name] - expected["base"]) == np.sign(
            judge.template_shift(name) - judge.template_shift("base")
        )


def test_a_shift_is_scipys_paired_t_test(trials, estimates):
    part = trials["score"]
    wide = part.pivot_table("value", ["context_id", "candidate_id"], "template")
    gap = (wide["system prompt"] - wide["base"]).groupby("context_id").mean()
    test = stats.ttest_1samp(gap, 0)
    row = row_of(estimates["score"], "template_shift", template="system prompt")
    assert row["estimate"] == pytest.approx(gap.mean())
    assert row["p_value"] == pytest.approx(test.pvalue)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(test.confidence_interval()))
    assert (row["n_contexts"], row["n_trials"], row["n_dropped"]) == (60, 360, 0)


def test_a_template_that_moves_the_position_bias_moves_verdicts(judge, estimates):
    shifts = estimates["pair"].query("metric == 'template_shift'").set_index("template")
    for name, row in shifts.iterrows():
        planted = judge.template_shift(name) - judge.template_shift("base")
        assert np.sign(row["estimate"]) == np.sign(planted) or abs(planted) < 0.2


@pytest.mark.parametrize(("form", "names"), [("score", OF_SCORES), ("pair", OF_PAIRS)])
def test_shares_add_up_and_the_prompt_has_its_part(estimates, form, names):
    shares = estimates[form].query("metric == 'variance_share'").set_index("component")["estimate"]
    assert tuple(shares.index) == names
    assert shares.between(0, 1).all()
    assert shares.sum() == pytest.approx(1, abs=0.02)  # but for what chance puts below 0
    prompt = shares[[name for name in names if "template" in name]].sum()
    assert row_of(estimates[form], "template_share")["estimate"] == pytest.approx(prompt, abs=0.02)
    row = row_of(estimates[form], "template_sd")
    assert row["p_value"] < 0.01
    assert 0 < row["ci_low"] < row["estimate"] < row["ci_high"]


def test_the_size_of_the_planted_template_effect_is_found(population, trials):
    """Of shifts t on the scale of scores, as far as labels at the ends let them."""
    wide = trials["score"].pivot_table("value", ["context_id", "candidate_id"], "template")
    row = row_of(Template(resampling=FAST).estimate(trials["score"], ["template_sd"]), "template_sd")
    assert row["estimate"] == pytest.approx(wide.mean().std(), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("form", FACTORS)
def test_judge_of_texts_alone_has_no_template_variance(population, form):
    fair = bl.SimulatedJudge(population, quality=1.0)
    found = run(Template(form=form, resampling=FAST), fair, population)
    assert found.loc[found["metric"] == "template_shift", "estimate"].abs().max() < 1e-12
    assert row_of(found, "template_sd")["estimate"] == pytest.approx(0, abs=1e-9)
    assert row_of(found, "template_share")["estimate"] == pytest.approx(0, abs=1e-9)
    assert row_of(found, "template_alpha")["estimate"] == pytest.approx(1)
    if form == "pair":
        assert found.loc[found["between"] == "template", "estimate"].max() == 0
        assert row_of(found, "variance_share", component="pair")["estimate"] == pytest.approx(1)


@pytest.mark.slow
def test_order_has_its_share_in_pairs(population):
    """A judge that sees no quality and always leans to the first: all of its mean square about ½ is order."""
    leaning = bl.SimulatedJudge(population, quality=0.0, position=1.0)
    found = run(Template(form="pair", factors=["labels"], resampling=FAST), leaning, population, ["variance_share"])
    shares = found.set_index("component")["estimate"]
    assert shares["order"] == pytest.approx(1)
    assert shares.drop("order").abs().max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("form", FACTORS)
def test_resampling_has_its_share_where_texts_are_sampled(population, form):
    judge = bl.SimulatedJudge(population, quality=1.0, sharpness=4.0)
    options = {"form": form, "factors": ["wording"], "answer": "text", "resampling": FAST}
    found = run(Template(replicates=4, **options), judge, population)
    shares = found.query("metric == 'variance_share'").set_index("component")["estimate"]
    assert shares["resampling"] > 0.1
    assert row_of(found, "template_share")["estimate"] < 0.03
    once = run(Template(**options), judge, population)
    undefined = row_of(once, "variance_share", component="resampling")
    assert math.isnan(undefined["estimate"])
    assert "replicates=2" in undefined["note"]
    merged = row_of(once, "template_share")
    assert merged["estimate"] > 0.1
    assert "resampling noise cannot be separated" in merged["note"]
    if form == "pair":
        both = found.query("metric == 'flip_rate' and template != 'base'").groupby("between")["estimate"].mean()
        assert both["template"] == pytest.approx(both["resampling"], abs=0.03)
        assert (once["between"] == "resampling").sum() == 0


@pytest.mark.slow
def test_shares_of_samples_say_how_they_vary(population):
    judge = bl.Sampled(bl.SimulatedJudge(population, quality=1.0), 5)
    for form, known in (("pair", True), ("score", False)):
        found = run(Template(form=form, factors=["wording"], resampling=FAST), judge, population, ["variance_share"])
        assert math.isnan(row_of(found, "variance_share", component="resampling")["estimate"]) != known


def test_one_item_a_context_has_no_variance_within_contexts(population, judge):
    probe = Template(factors=["wording"], n_items=1, resampling=FAST)
    shares = run(probe, judge, population, ["variance_share"]).set_index("component")
    assert math.isnan(shares.loc["item", "estimate"])
    assert "one item per context" in shares.loc["item", "note"]
    assert shares["estimate"].sum() == pytest.approx(1, abs=0.01)


@pytest.mark.slow
def test_a_mixed_model_finds_the_same(population):
    """But for a component of 0, which likelihood does not let fall below it."""
    data = population.head(15)
    judge = bl.SimulatedJudge(data, quality=1.0, noise=0.7, context_noise=1.0, template_noise=0.5)
    probe = Template(factors=["wording", "system"], resampling=FAST)
    trials = bl.collect(probe, judge, data, progress=False)
    rows = [replace(probe, fit=fit).estimate(trials, ["template_share"]).iloc[0] for fit in ("anova", "reml")]
    assert rows[1]["estimate"] == pytest.approx(rows[0]["estimate"], abs=0.04)
    assert rows[1]["ci_low"] < rows[1]["estimate"] < rows[1]["ci_high"]
    assert rows[1]["n_contexts"] == 15


def test_examples_come_from_other_contexts_drawn_by_seed(graded):
    probe = Template(["coherence"], factors=["shots"], seed=1)
    texts = graded.candidates.set_index(["context_id", "candidate_id"])["text"]
    seen = set()
    for trial in probe.design(graded):
        if not trial.condition["template"].startswith("shots"):
            continue
        *earlier, asked = trial.request.messages
        assert [turn.role for turn in earlier] == ["user", "assistant"] * 2
        own = texts[trial.context_id]
        assert not any(text in turn.content for text in own for turn in earlier)
        assert texts[trial.context_id, trial.candidate_id] in asked.content
        seen.add(tuple(turn.content for turn in earlier))
    assert 2 <= len(seen) <= 2 * 3  # the same two everywhere, but where one of them is judged
    assert keys(probe, graded) == keys(replace(probe), graded)
    assert keys(probe, graded) != keys(replace(probe, seed=2), graded)


def test_added_contexts_leave_existing_prompts_unchanged():
    large = bl.load_dataset("graded", limit=16)
    probe = Template(["coherence"], factors=["shots"])
    few, more = ([*probe.design(data)] for data in (large.head(10), large))
    assert [trial.request for trial in few] == [trial.request for trial in more[: len(few)]]


@pytest.mark.parametrize("form", FACTORS)
def test_shots_template_names_the_last_earlier_verdict(graded, form):
    last = {"score": {"best": "5", "worst": "1"}, "pair": {"first": "Summary A", "second": "Summary B"}}[form]
    for trial in Template(["coherence"], form=form, factors=["shots"]).design(graded):
        name = trial.condition["template"]
        if name != "base":
            verdict = trial.request.messages[-2].content
            which = name.removeprefix("shots, ").removesuffix(" last")
            if form == "pair":
                assert verdict == last[which]
            else:
                assert (float(verdict) >= 4) == (which == "best")
                assert trial.request.about.previous == float(verdict)


@pytest.mark.parametrize("carried", [0.0, 0.3])
def test_verdicts_that_are_carried_over_are_found(population, carried):
    judge = bl.SimulatedJudge(population, quality=1.0, noise=0.5, anchoring=carried)
    row = row_of(run(Template(factors=["shots"], resampling=FAST), judge, population, ["carry_over"]), "carry_over")
    assert (row["p_value"] < 0.001) == (carried > 0)
    if carried:
        assert 0.3 < row["estimate"] / (4 * carried) < 1.2  # of the way to 5 and to 1, less where labels end


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["labels", "order"])
def test_text_with_other_names_is_read(population, labels):
    """A greedy text names the likelier candidate, whatever it is called."""
    judge = bl.SimulatedJudge(population, quality=1.0, noise=0.5)
    asked = {"form": "pair", "factors": [labels]}
    exact, text = (
        bl.collect(Template(**asked, **how), judge, population, progress=False)
        for how in ({}, {"answer": "text", "temperature": 0.0})
    )
    assert (text["status"] == "ok").all()
    assert ((exact["value"] > 0.5) == (text["value"] == 1)).all()


def test_requests_are_choices_or_texts(graded):
    for form in FACTORS:
        for answer, kind in (("distribution", Choice), ("text", Completion)):
            design = list(Template(["coherence"], form=form, answer=answer).design(graded.head(3)))
            assert {type(trial.request) for trial in design} == {kind}
            assert {trial.request.about.template for trial in design} == {t.condition["template"] for t in design}


@pytest.mark.slow
def test_draws_of_a_context_do_not_depend_on_others():
    large = bl.load_dataset("graded", limit=12)
    for form, n in (("score", 2), ("pair", 3)):
        probe = Template(["coherence"], form=form, factors=["order"], n_items=n)
        shown = [(t.context_id, t.candidate_id, t.opponent_id) for t in probe.design(large)]
        assert [t for t in shown if t[0] in set(large.head(5).candidates["context_id"])] == [
            (t.context_id, t.candidate_id, t.opponent_id) for t in probe.design(large.head(5))
        ]
        assert len(set(shown)) == 12 * n * (2 if form == "pair" else 1)


@pytest.mark.slow
@given(st.floats(-1, 1), st.integers(0, 100))  # as far beyond the scale as a score may lie
@settings(max_examples=10)
def test_offset_of_one_template_shifts_only_that_template(trials, added, seed):
    part = trials["score"]
    moved = part.assign(value=part["value"] + added * (part["template"] == "wording 2"))
    shuffled = moved.sample(frac=1.0, random_state=seed)
    probe = Template(resampling=FAST)
    before, after = (
        probe.estimate(each, ["template_shift"]).set_index("template")["estimate"] for each in (part, shuffled)
    )
    assert after["wording 2"] == pytest.approx(before["wording 2"] + added)
    pd.testing.assert_series_equal(
        after.drop("wording 2").sort_index(), before.drop("wording 2").sort_index(), check_exact=False
    )


def test_refusals_of_one_template_drop_items_and_give_bounds(population):
    judge = bl.SimulatedJudge(population, quality=1.0, noise=0.5, refusal=0.2, selective=True)
    with pytest.warns(MissingDataWarning, match="system prompt"):
        found = run(Template(factors=["system"], resampling=FAST), judge, population, ["template_shift"])
    row = row_of(found, "template_shift")
    assert row["n_dropped"] > 0
    assert row["bound_low"] < row["ci_low"] < row["ci_high"] < row["bound_high"]


@pytest.mark.slow
def test_unbiased_judge_has_no_template_shift_in_few_contexts(graded):
    judge = bl.SimulatedJudge(graded, quality=1.0, noise=0.7)
    found = run(Template(["coherence"], resampling=FAST), judge, graded)
    assert (found.loc[found["metric"] == "template_shift", "q_value"] > 0.05).all()


@pytest.mark.slow
def test_recorded_prompts_of_one_scale_are_compared(shared_data):
    """Figures computed by pandas alone: GPT-3.5 asked for a score by several prompts, the same items."""
    folder = shared_data / "recorded" / "closer_look_topical_chat"
    logs = bl.read_judgements(folder)
    logs = logs[logs["attribute"] == logs["attribute"].iloc[0]]
    accepted = Template(resampling=FAST).accepts(logs)
    assert accepted.trials["template"].nunique() > 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        found = Template(resampling=FAST).estimate(accepted.trials, ["template_shift", "variance_share"])
    first, *others = accepted.trials["template"].drop_duplicates()
    usable = accepted.trials[accepted.trials["status"] == "ok"]
    wide = usable.pivot_table("value", ["context_id", "candidate_id"], "template")
    for name in others:
        gap = (wide[name] - wide[first]).dropna()
        assert row_of(found, "template_shift", template=name)["estimate"] == pytest.approx(gap.mean())
    shares = found.query("metric == 'variance_share'").set_index("component")["estimate"]
    assert shares["resampling"] > 0.05


def test_one_prompt_is_not_accepted(trials):
    recorded = trials["score"].query("template == 'base'").assign(probe="recorded", configuration="a")
    accepted = Template().accepts(recorded)
    assert accepted.trials.empty
    assert "several prompts" in accepted.note


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"form": "stars"}, "score, pair"),
        ({"factors": ["labels"]}, "wording, order, system"),
        ({"factors": "wording"}, "wording"),
        ({"n_items": 0}, "at least 1"),
        ({"level": "system"}, "context, dataset"),
        ({"fit": "bayes"}, "anova, reml"),
        ({"scale": "1-7"}, "1-10"),
        ({"answer": "score"}, "distribution, text"),
        ({"replicates": 3}, "text"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(InputError, match=words):
        Template(**parameters)


def test_examples_need_other_contexts(graded):
    with pytest.raises(InputError, match='remove "shots"'):
        list(Template(factors=["shots"]).design(graded.head(2)))
    asked = {trial.condition["factor"] for trial in Template().design(graded.head(2))}
    assert asked == {"base", *FACTORS["score"]} - {"shots"}


@pytest.mark.parametrize("answer", ["distribution", "text"])
def test_names_of_scores_stand_for_their_values(answer, graded):
    """A judge that names the best score whatever it is called has the highest value and no shift."""
    probe = Template(["coherence"], factors=["ids"], answer=answer, temperature=0.0)

    def best(prompt):
        return "V" if "IV" in prompt else "E" if "A, B, C" in prompt else "5"

    judge = bl.FunctionJudge(best, "names")
    if answer == "distribution":
        judge = bl.Sampled(judge, 1)
    trials = bl.collect(probe, judge, graded.head(6), progress=False)
    assert set(trials["template"]) == {"base", "scores I-V", "scores A-E"}
    assert trials["value"].eq(5.0).all()


def test_other_names_need_five_scores():
    with pytest.raises(InputError, match="1-5"):
        Template(factors=["ids"], scale="1-10")
