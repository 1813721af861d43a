"""A plan before a study: what an effect needs, what so many contexts detect, and what it costs."""

import gzip
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood
from biaslab.core.errors import InputError, TrialsError
from biaslab.judges.local import LocalJudge
from biaslab.probes.comparative import Comparative
from biaslab.probes.position import Position
from biaslab.stats.ratio import Ratio
from biaslab.study.pilot import CONTEXT_NOISE, NOISE, Spread, simulated_pilot, spread_of
from biaslab.study.planning import plan
from biaslab.study.spending import measure, unanswered
from biaslab.study.token_counts import count_tokens

PROBE = Position(["coherence"], [1], resampling=bl.Resampling(n=100))
SPREADS = st.builds(Spread, st.floats(0.01, 1), st.floats(0.05, 1), st.just(""))
EFFECTS, POWERS, ALPHAS = st.floats(0.01, 1), st.floats(0.5, 0.99), st.sampled_from([0.01, 0.05, 0.1])


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=12)


class Silent:
    """A judge that must not be asked."""

    id, kinds = "silent", frozenset({Choice})

    def check(self, requests):
        raise AssertionError("checked")

    def ask(self, requests):
        raise AssertionError("asked")


@given(SPREADS, EFFECTS, POWERS, ALPHAS)
def test_required_contexts_are_the_smallest_sufficient_number(spread, effect, power, alpha):
    contexts = spread.required(effect, power, alpha)
    assert spread.detectable(contexts, power, alpha) <= effect
    assert not spread.detectable(contexts - 1, power, alpha) <= effect


@given(SPREADS, st.integers(1, 10_000), POWERS)
def test_required_inverts_detectable(spread, contexts, power):
    effect = spread.detectable(contexts, power)
    if math.isnan(effect):
        assert int(contexts * spread.share + 1e-9) < 6
    else:
        found = spread.required(effect, power)
        assert found <= contexts
        assert spread.detectable(found, power) == pytest.approx(effect)


@given(SPREADS, EFFECTS, POWERS, POWERS)
def test_more_power_needs_more_contexts(spread, effect, power, other):
    low, high = sorted((power, other))
    assert spread.required(effect, low) <= spread.required(effect, high)


@given(st.lists(st.integers(0, 10), min_size=8, max_size=30))
def test_agrees_with_the_estimate_of_a_rate(wins):
    spread = Spread(float(np.std(np.array(wins) / 10, ddof=1)), 1.0, "")
    found = Ratio(np.arange(len(wins)), wins, [10] * len(wins)).estimate(bl.Resampling(n=100))
    if not math.isnan(found.mde):
        assert spread.detectable(len(wins)) == pytest.approx(found.mde)


def test_promised_power_is_met_in_simulated_studies():
    """Twice 4000 studies of normal contexts with the planned number: a t test finds the effect in 80 % of them."""
    rng, spread = np.random.default_rng(3), Spread(0.2, 1.0, "")
    for effect in (0.05, 0.15):
        contexts = spread.required(effect)
        studies = rng.normal(effect, 0.2, (4000, contexts))
        found = np.mean(stats.ttest_1samp(studies, 0, axis=1).pvalue < 0.05)
        assert 0.78 < found < 0.84


@pytest.mark.slow
def test_spread_is_read_off_the_estimates(data):
    judge = bl.SimulatedJudge(data, noise=2)
    trials = bl.collect(PROBE, judge, data, progress=False)
    rates = (trials["value"] > 0.5).groupby(trials["context_id"]).mean()
    spread = spread_of(PROBE, trials, "first_position_rate")
    assert spread.deviation == pytest.approx(rates.std(ddof=1))
    assert spread.share == 1
    assert "a pilot of 12 contexts" in spread.origin
    planned = plan(PROBE, Silent(), data, contexts=12, pilot=trials)
    mde = PROBE.estimate(trials).query("metric == 'first_position_rate' and human_gap.isna()")["mde"].item()
    assert mde < planned.effect < 1.4 * mde  # 12 contexts do not know their own spread well


@pytest.mark.slow
def test_spread_is_of_the_most_variable_cell(data):
    probe = Position(resampling=bl.Resampling(n=100))
    trials = bl.collect(probe, bl.SimulatedJudge(data, noise=1), data, progress=False)
    for metric in ("first_position_rate", "order_consistency"):
        spread = spread_of(probe, trials, metric)
        rows = probe.estimate(trials).query("metric == @metric and human_gap.isna()")
        assert replace(spread, pilot=0).detectable(12) == pytest.approx(rows["mde"].max())
        assert "of 8 cells" in spread.origin


@pytest.mark.slow
def test_contexts_where_the_metric_is_undefined_are_planned_for(data):
    trials = bl.collect(PROBE, bl.SimulatedJudge(data, noise=2), data, progress=False)
    silent = trials["context_id"].isin(trials["context_id"].unique()[::3])
    gone = trials.assign(value=trials["value"].mask(silent), status=np.where(silent, "refused", trials["status"]))
    with pytest.warns(bl.errors.MissingDataWarning):
        spread = spread_of(PROBE, gone, "first_position_rate")
    assert spread.share == pytest.approx(8 / 12)
    assert spread.pilot == 8
    full = replace(spread, share=1.0).required(0.05)
    assert spread.required(0.05) == math.ceil(full * 1.5)


def test_simulated_pilot_varies_as_gpt35_does_on_summeval(shared_data):
    """The assumption meets real replies: 11 pairs × 100 documents in both orders, by coherence."""
    with gzip.open(shared_data / "recorded/summeval_judges/h2h_gpt35_both_orders.jsonl.gz", "rt") as file:
        real = pd.DataFrame(map(json.loads, file)).query("aspect == 'coherence'")
    first = real["resp"].str.strip().str[:1].map({"A": 1.0, "B": 0.0})
    spread = pd.concat([first.dropna(), real["id"]], axis=1).dropna().groupby("id")["resp"].mean().std(ddof=1)
    assert spread == pytest.approx(0.147, abs=0.005)
    human = (real["human_score_1"] - real["human_score_2"]) * np.where(real["toggled"], -1, 1)
    rng, found = np.random.default_rng(0), []
    codes, ids = pd.factorize(real["id"])
    for _ in range(50):
        preference = CONTEXT_NOISE * rng.standard_normal(len(ids))[codes]
        wins = human + preference + NOISE * rng.standard_normal(len(real)) > 0
        found.append(wins.groupby(real["id"]).mean().std(ddof=1))
    assert np.mean(found) == pytest.approx(spread, rel=0.05)


def test_pilot_of_12_documents_predicts_the_study_of_100(shared_data):
    with gzip.open(shared_data / "recorded/summeval_judges/h2h_gpt35_both_orders.jsonl.gz", "rt") as file:
        real = pd.DataFrame(map(json.loads, file)).query("aspect == 'coherence'")
    real["first"] = real["resp"].str.strip().str[:1].map({"A": 1.0, "B": 0.0})
    rates = real.groupby("id")["first"].mean()
    study = stats.sem(rates) * (stats.t.ppf(0.975, 99) + stats.t.ppf(0.8, 99))
    rng = np.random.default_rng(0)
    pilots = [Spread(float(rng.choice(rates, 12, False).std(ddof=1)), 1.0, "").detectable(100) for _ in range(300)]
    assert np.median(pilots) == pytest.approx(study, rel=0.1)
    assert 0.6 * study < np.quantile(pilots, 0.1) < np.quantile(pilots, 0.9) < 1.3 * study


def test_requests_are_those_that_collect_asks(data, tmp_path):
    judge, store = bl.SimulatedJudge(data, noise=1), tmp_path / "replies.sqlite"
    bl.collect(PROBE, judge, data.head(3), store=store, progress=False)
    planned = plan(PROBE, judge, data, contexts=7, store=store)
    assert (planned.requests, planned.stored, planned.open) == (210, 90, 120)
    trials = bl.collect(PROBE, judge, data.head(7), store=store, progress=False)
    assert (trials.attrs["asked"], trials.attrs["stored"]) == (planned.open, planned.stored)
    finished = plan(PROBE, judge, data, contexts=7, store=store, prices={"input": 1})
    assert (finished.open, finished.read, finished.dollars) == (0, 0, 0)


def test_planning_asks_nothing_and_creates_no_store(data, tmp_path):
    store = tmp_path / "replies.sqlite"
    planned = plan(PROBE, Silent(), data, effect=0.1, store=store)
    assert planned.open == planned.requests
    assert not store.exists()


@pytest.mark.slow
def test_more_contexts_than_the_data_set_has(data):
    planned = plan(PROBE, Silent(), data, effect=0.05, seconds_per_request=0.5)
    assert planned.contexts > planned.available == 12
    assert planned.requests == 30 * planned.contexts
    assert planned.effect_of_all == plan(PROBE, Silent(), data, contexts=12).effect > 0.05
    text = str(planned)
    assert f"only 12 contexts: all of them detect a shift of {planned.effect_of_all:.3g}" in text
    assert planned.minutes == pytest.approx(planned.open * 0.5 / 60)
    double = plan(PROBE, Silent(), data, contexts=24)
    assert double.read == pytest.approx(2 * plan(PROBE, Silent(), data, contexts=12).read, abs=1)


@pytest.mark.slow
def test_plan_by_effect_and_by_contexts_agree(data):
    there = plan(PROBE, Silent(), data, effect=0.08, power=0.9)
    back = plan(PROBE, Silent(), data, contexts=there.contexts, power=0.9)
    assert back.effect <= there.effect == 0.08
    assert plan(PROBE, Silent(), data, effect=back.effect, power=0.9).contexts == there.contexts
    assert plan(PROBE, Silent(), data, effect=0.08, power=0.95).contexts > there.contexts


def test_text_html_and_frame_say_the_same(data):
    prices = {"input": 2.0, "output": 8.0, "cached": 0.5}
    planned = plan(PROBE, Silent(), data, contexts=12, prices=prices, seconds_per_request=0.02)
    assert planned.dollars == pytest.approx((planned.read * 2 + planned.written * 8) / 1e6)
    assert planned.dollars_cached < planned.dollars
    row = planned.to_frame().iloc[0]
    assert (row["contexts"], row["open"], row["dollars"]) == (12, 360, planned.dollars)
    for message in (str(planned), planned._repr_html_()):
        for fact in ("80 % power", "12 contexts × 30 requests = 360", "7 s at 0.02 s", "4 characters per token", "$"):
            assert fact in message
        assert "simulated pilot of 12 contexts" in message
    assert "<li>" in planned._repr_html_()
    assert pd.concat([planned.to_frame(), planned.to_frame()]).shape[0] == 2
    few = plan(PROBE, Silent(), data, contexts=5)
    assert math.isnan(few.effect)
    assert str(few).startswith("Too few contexts for any test")
    assert "time: not measured" in str(few)


@pytest.mark.parametrize(
    "given",
    [
        {"effect": 0},
        {"effect": -0.1},
        {"effect": math.nan},
        {"effect": 1e-9},
        {"effect": 0.1, "contexts": 3},
        {"contexts": 0},
        {"contexts": True},
        {"effect": 0.1, "power": 1.0},
        {"effect": 0.1, "alpha": 0.0},
        {"metric": "charm"},
        {"prices": {"output": 1.0}},
        {"prices": {"input": -1.0}},
        {"prices": {"input": 1.0, "tokens": 2.0}},
        {"seconds_per_request": 0},
    ],
)
def test_bad_input(data, given):
    with pytest.raises(InputError):
        plan(PROBE, Silent(), data, **given)


@pytest.mark.slow
def test_uninformative_pilots_are_refused(data):
    unrated = bl.Dataset("new", data.candidates, data.human.head(0), data.attributes, data.scale, data.noun)
    with pytest.raises(InputError, match="pilot="):
        plan(PROBE, Silent(), unrated, effect=0.1)
    one_sided = bl.collect(PROBE, bl.SimulatedJudge(data, position=50), data, progress=False)
    with pytest.raises(InputError, match="with variation between them"):  # the logit has no bounds
        plan(PROBE, Silent(), data, effect=0.1, metric="first_position_logit", pilot=one_sided)
    with pytest.raises(InputError, match="6 contexts"):
        plan(PROBE, Silent(), data.head(3), effect=0.1)
    with pytest.raises(TrialsError):
        plan(PROBE, Silent(), data, effect=0.1, pilot=one_sided.drop(columns="value"))


@pytest.mark.slow
def test_constant_pilot_plans_by_the_bound_of_equal_contexts(data):
    """0 of G contexts differ: at most a share of 1 − (α/2)^(1/G) does, each by ½ at most."""
    pilot = bl.collect(PROBE, bl.SimulatedJudge(data), data, progress=False)
    spread = spread_of(PROBE, pilot, "first_position_rate")
    contexts = spread.required(0.05)
    assert 0.5 * (1 - 0.025 ** (1 / contexts)) <= 0.05 < 0.5 * (1 - 0.025 ** (1 / (contexts - 1)))
    planned = plan(PROBE, Silent(), data, contexts=96, pilot=pilot)
    assert planned.excluded == pytest.approx(0.0188, abs=1e-4)
    assert str(planned).startswith("To detect a shift of 0.0")  # a bias makes flips that the pilot does not have
    assert 0.001 < planned.effect < 0.05


@given(SPREADS, st.integers(6, 500), POWERS)
def test_excludable_shift_is_excluded_with_the_planned_power(spread, contexts, power):
    """Of normal contexts: the interval of an unbiased judge lies within ± the shift, from the t distribution."""
    shift, entering = spread.excludable(contexts, power), int(contexts * spread.share + 1e-9)
    if math.isnan(shift):
        assert entering < 6
        return
    error = spread.deviation / math.sqrt(entering)
    room = shift / error - stats.t.ppf(0.975, entering - 1)
    assert 2 * stats.t.cdf(room, entering - 1) - 1 == pytest.approx(power)


def test_probe_without_simulated_answers_needs_a_pilot(data):
    class Chat(Position):
        def design(self, dataset):
            for trial in super().design(dataset):
                yield bl.Trial(
                    Choice("How are you?", ("Well", "Ill")), trial.context_id, "coherence", trial.candidate_id
                )

    with pytest.raises(InputError, match="pilot="):
        simulated_pilot(Chat(["coherence"], [1]), data)


def test_tokens_are_estimated_where_the_judge_cannot_count():
    requests = [
        Choice("abcd" * 5, ("A", "Summary B")),
        Completion("abcd" * 5 + "xy", max_tokens=7),
        Likelihood("b", "a"),
    ]
    counted = count_tokens(Silent(), requests)
    assert counted.read.tolist() == [5, 6, 1]
    assert counted.written.tolist() == [3, 7, 0]
    assert counted.distinct == 22 / 4  # "ab" begins the longest text
    many = [Completion(f"{number:04d}" * 3) for number in range(3000)]
    assert count_tokens(Silent(), many).read.sum() == 9000


@given(st.lists(st.text("abé\U0001f600", max_size=6), min_size=1, max_size=12))
def test_distinct_tokens_are_the_nodes_of_a_prefix_tree(texts):
    requests = [Likelihood("a", text) for text in texts]
    prefixes = {(text + "a")[:end] for text in texts for end in range(1, len(text) + 2)}
    assert count_tokens(Silent(), requests).distinct == pytest.approx(len(prefixes) / 4)


def test_unanswered_are_the_different_requests_without_a_reply(data, tmp_path):
    requests = [trial.request for trial in PROBE.design(data.head(1))]
    judge = bl.SimulatedJudge(data)
    assert unanswered(judge, requests * 2, None) == requests
    with bl.Store(tmp_path / "replies.sqlite") as store:
        list(store.wrap(judge).ask(requests[:7]))
        assert unanswered(judge, requests, store) == requests[7:]


@pytest.mark.slow
def test_measured_requests_are_stored(data, tmp_path):
    store, judge = tmp_path / "replies.sqlite", bl.SimulatedJudge(data)
    assert 0 < measure(PROBE, judge, data, store, contexts=2) < 0.1
    assert plan(PROBE, judge, data, store=store).stored == 60
    assert 0 < measure(PROBE, judge, data.head(3), store, contexts=2) < 0.1
    assert measure(PROBE, judge, data.head(3), store) is None


@pytest.fixture(scope="module")
def local_judge():
    """A real but tiny model with a tokenizer trained here."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<end>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(["Which summary is more coherent, Summary A or Summary B?"] * 3, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained, eos_token="<end>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=300, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=8192, eos_token_id=0,
    )  # fmt: skip
    return LocalJudge.from_loaded(LlamaForCausalLM(config).eval(), tokenizer, "tiny")


def test_token_counts_of_a_local_judge_are_exact(local_judge, data, tmp_path):
    requests = [trial.request for trial in PROBE.design(data.head(1))][:12]
    counted = count_tokens(local_judge, requests)
    replies = dict(local_judge.ask(requests))
    assert counted.read.tolist() == [replies[request].usage.prompt_tokens for request in requests]
    assert counted.written.sum() == 0
    assert counted.distinct == local_judge._scorer.computed < counted.read.sum()
    assert "the judge's tokenizer" in counted.method


ADAPTIVE = Comparative(["coherence", "fluency"], strategy="adaptive", budget=14, rounds=5)


@pytest.mark.slow
@pytest.mark.parametrize("contexts", [5, 24])
def test_every_round_of_an_adaptive_design_is_counted(data, contexts):
    planned = plan(ADAPTIVE, Silent(), data, contexts=contexts)
    assert planned.requests == planned.open == 14 * 2 * contexts
    assert f"{3 * 2 * contexts} of them in the first round" in str(planned)
    assert "simulated" in planned.to_frame()["rounds"].item()
    once = Comparative(["coherence", "fluency"], strategy="random", budget=14)
    assert plan(once, Silent(), data, contexts=contexts).rounds == ""
    assert planned.read == pytest.approx(plan(once, Silent(), data, contexts=contexts).read, rel=0.05)


@pytest.mark.slow
def test_rounds_that_the_store_holds_are_free(data, tmp_path):
    judge, store = bl.SimulatedJudge(data, noise=2, seed=3), tmp_path / "replies.sqlite"
    bl.collect(ADAPTIVE, judge, data.head(6), store=store, progress=False)
    finished = plan(ADAPTIVE, judge, data, contexts=6, store=store, prices={"input": 1})
    assert (finished.requests, finished.open, finished.read, finished.dollars) == (168, 0, 0, 0)
    more = plan(ADAPTIVE, judge, data, contexts=8, store=store)
    assert (more.requests, more.stored) == (224, 168)
    with bl.Store(store) as kept:
        assert len(kept) == 168  # what was foreseen is not written


@pytest.mark.slow
def test_unpredictable_rounds_are_named_as_not_counted(data):
    trials = bl.collect(ADAPTIVE, bl.SimulatedJudge(data, noise=1), data, progress=False)
    unrated = bl.Dataset(data.name, data.candidates, data.human.head(0), data.attributes)
    planned = plan(ADAPTIVE, Silent(), unrated, contexts=5, pilot=trials)
    assert planned.requests == 3 * 2 * 5
    assert "not counted" in str(planned)
