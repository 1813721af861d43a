"""Remedies: what they do, that they are never fitted where they are applied, and what they bring back."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy.special import expit, logit
from scipy.stats import spearmanr

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.measures.ranking import (
    DEBIASINGS,
    Comparisons,
    Reweighting,
    SwapAverage,
    comparisons_of,
    content_free,
    dark_log_odds,
    debias,
    decode,
    fit_position_term,
    fit_remedy,
    fit_threshold,
    fit_uniform_prior,
    select,
)
from biaslab.stats.correlation import correlate_within

FITTED = tuple(name for name in DEBIASINGS if name not in ("none", "swap-average"))


def simulated(contexts, n, bias, noise=0.7, seed=0, budget=None):
    """Return comparisons of a judge with a known position bias, and the scores."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(1, 5, (contexts, n))
    first, second = [], []
    for k in range(contexts):
        pairs = select(n, "full" if budget is None else "no-repeat", budget, seed + k)
        first.append(pairs[:, 0] + k * n)
        second.append(pairs[:, 1] + k * n)
    first, second, flat = np.concatenate(first), np.concatenate(second), scores.ravel()
    p = expit(flat[first] - flat[second] + bias + noise * rng.normal(size=len(first)))
    names = np.repeat(np.arange(contexts).astype(str).astype(object), n), np.tile(np.arange(n).astype(str), contexts)
    return Comparisons(names[0], names[1].astype(object), first, second, p), flat


@given(st.floats(-5, 5), st.lists(st.floats(0.001, 0.999), min_size=1, max_size=20))
def test_eq_9_is_eq_10(log_alpha, p):
    """The reweighted probability is above ½ exactly where p is above τ."""
    remedy, p = Reweighting(log_alpha), np.sort([0.5, *p])
    np.testing.assert_allclose(remedy.weigh(p), remedy.alpha * p / (remedy.alpha * p + 1 - p), rtol=1e-9)
    clear = np.abs(p - remedy.tau) > 1e-9
    assert ((remedy.weigh(p) > 0.5) == (p > remedy.tau))[clear].all()
    assert (np.diff(remedy.weigh(p)) >= 0).all()


def test_debiasing_keeps_certain_decisions():
    assert Reweighting(3.0).weigh(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    certain = Comparisons.of(["a", "b"], [0, 1], [1, 0], [1.0, 1.0])
    for name in FITTED:
        assert fit_remedy(certain, name).apply(certain).p.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", FITTED)
def test_a_tie_is_a_mark_and_no_probability(name):
    """What is called a tie stays one and moves no fit; a probability that happens to be ½ is moved like the rest."""
    comparisons, _ = simulated(6, 4, bias=1.4)
    even = comparisons.with_p(np.where(np.arange(len(comparisons)) % 5 == 0, 0.5, comparisons.p))
    marked = replace(even, called=even.p == 0.5)
    assert fit_remedy(marked, name) == fit_remedy(even.take(even.p != 0.5), name)
    for moved, tied in ((debias(even, name), False), (debias(marked, name), True)):
        assert ((moved.p[even.p == 0.5] == 0.5) == tied).all()
        assert (moved.p[even.p != 0.5] < even.p[even.p != 0.5]).all()
    assert debias(marked, name).hard().tied[even.p == 0.5].all()


def test_the_mark_goes_where_the_comparison_goes():
    rows = [("c", "a", "b", 0.7, "tie"), ("c", "b", "a", 0.5, "ok"), ("d", "a", "b", 0.5, "tie")]
    rows += [("d", "a", "b", 1.0, "ok")]  # another sample of the same: half a tie is none
    read = comparisons_of(pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "value", "status"]))
    assert (read.p.tolist(), read.tied.tolist()) == ([0.5, 0.5, 0.75], [True, False, False])
    assert [part.tied.tolist() for part in read.split()] == [[True, False], [False]]
    assert Reweighting(-1.0).apply(read).p.round(2).tolist() == [0.5, 0.27, 0.52]
    assert SwapAverage().apply(read).tied.tolist() == [True, True]
    assert read.hard().tied.tolist() == [True, True, False]


@pytest.mark.parametrize("bias", [-2.0, 0.0, 1.3])
def test_each_fit_balances_its_rate_and_recovers_the_bias(bias):
    comparisons, _ = simulated(30, 6, bias)
    assert (fit_threshold(comparisons).apply(comparisons).p > 0.5).mean() == pytest.approx(0.5, abs=1e-9)
    assert fit_uniform_prior(comparisons).apply(comparisons).p.mean() == pytest.approx(0.5)
    for fit in (fit_threshold, fit_uniform_prior, fit_position_term):
        assert fit(comparisons).log_alpha == pytest.approx(-bias, abs=0.2)


@pytest.mark.parametrize("k", [1, 5])
def test_the_position_term_comes_back_from_few_samples(k):
    """Shares of 0 and 1 have no log odds; clipped, they would make the term −9."""
    rng, found = np.random.default_rng(0), []
    for seed in range(8):
        comparisons, _ = simulated(30, 6, bias=-1.0, noise=0.0, seed=seed)
        found.append(-fit_position_term(comparisons.with_p(rng.binomial(k, comparisons.p) / k)).log_alpha)
    assert np.mean(found) == pytest.approx(-1.0, abs=0.2)


def test_the_position_term_needs_no_balance():
    """The better candidate always stands first: P(A) is high without any bias."""
    comparisons, scores = simulated(30, 6, bias=0.5)
    better_first = comparisons.take(scores[comparisons.first] > scores[comparisons.second])
    worse_first = comparisons.take(scores[comparisons.first] < scores[comparisons.second])
    few = np.arange(len(worse_first)) % 20 == 0  # a few the other way round, or order and quality are the same thing
    joined = Comparisons(
        comparisons.context_id,
        comparisons.candidate_id,
        np.concatenate([better_first.first, worse_first.first[few]]),
        np.concatenate([better_first.second, worse_first.second[few]]),
        np.concatenate([better_first.p, worse_first.p[few]]),
    )
    assert fit_position_term(joined).log_alpha == pytest.approx(-0.5, abs=0.2)
    assert fit_threshold(joined).log_alpha < -1


def test_swap_average_is_fair_by_construction_and_needs_twins():
    comparisons, _ = simulated(3, 4, bias=2.0)
    averaged = SwapAverage().apply(comparisons.take(slice(1, None)))
    assert len(averaged) == len(comparisons) - 2
    np.testing.assert_allclose(averaged.p + averaged.p[averaged.twins], 1)
    p = {(i, j): value for i, j, value in zip(comparisons.first, comparisons.second, comparisons.p, strict=True)}
    expected = [(p[i, j] + 1 - p[j, i]) / 2 for i, j in zip(averaged.first, averaged.second, strict=True)]
    np.testing.assert_allclose(averaged.p, expected)


@pytest.mark.parametrize("name", FITTED)
def test_debiasing_is_fitted_on_the_other_contexts(name):
    """Whatever the judge says of one context, that context is debiased alike; the others are not."""
    comparisons, _ = simulated(6, 5, bias=1.0)
    here = comparisons.context[comparisons.first] == 2
    changed = comparisons.with_p(np.where(here, comparisons.p**5, comparisons.p))
    shift = [logit(debias(c, name).p) - logit(c.p) for c in (comparisons, changed)]
    np.testing.assert_allclose(shift[0][here], shift[1][here], atol=1e-9)
    assert np.abs(shift[0][~here] - shift[1][~here]).max() > 0.01


@pytest.mark.parametrize("name", FITTED)
def test_each_fold_uses_the_remedy_fitted_on_the_rest(name):
    comparisons, _ = simulated(9, 4, bias=1.0)
    found = debias(comparisons, name, folds=3)
    fold = comparisons.context[comparisons.first] % 3
    for held_out in range(3):
        remedy = fit_remedy(comparisons.take(fold != held_out), name)
        np.testing.assert_allclose(found.p[fold == held_out], remedy.weigh(comparisons.p[fold == held_out]))


@pytest.mark.parametrize("name", FITTED)
def test_in_sample_everything_is_fitted_where_it_is_applied(name):
    comparisons, _ = simulated(6, 5, bias=1.0)
    found = debias(comparisons, name, in_sample=True)
    np.testing.assert_array_equal(found.p, fit_remedy(comparisons, name).apply(comparisons).p)
    assert np.abs(found.p - debias(comparisons, name).p).max() > 1e-6
    one = comparisons.take(comparisons.context[comparisons.first] == 0)
    assert len(debias(one, name, in_sample=True)) == len(one)


def test_in_sample_option_of_the_probe_and_of_budget_replay():
    data = bl.load_dataset("graded", limit=8)
    probes = [
        bl.probes.Comparative(["coherence"], debiasing="threshold", in_sample=reported) for reported in (False, True)
    ]
    trials = bl.collect(probes[0], bl.SimulatedJudge(data, position=1.5, noise=0.5), data, progress=False)
    rates = [probe.estimate(trials, ["first_position_rate"])["estimate"].item() for probe in probes]
    table = bl.ranking.compare_remedies(trials, remedies=["none", "threshold"], orders=["both"], in_sample=True)
    table = table[(table["metric"] == "first_position_rate") & (table["against"] == "")].set_index("remedy")["estimate"]
    assert rates == pytest.approx([table["threshold"], table["threshold, in sample"]])
    assert abs(rates[1] - 0.5) < 0.02 < abs(table["none"] - 0.5)
    given = {"strategies": ["random"], "debiasings": ["threshold"], "decoding": "mean-probability", "draws": 1}
    every = comparisons_of(trials)
    human = data.human_means["coherence"].loc[list(zip(every.context_id, every.candidate_id, strict=True))].to_numpy()
    for reported in (False, True):  # all thirty comparisons of a context
        found = bl.ranking.agreement_by_budget(trials, [30], data.human_means, in_sample=reported, **given)
        scores = decode(debias(every, "threshold", in_sample=reported), "mean-probability").scores
        expected = correlate_within(scores, human, every.context, "spearman").mean()
        assert found.loc[found["metric"] == "spearman", "estimate"].item() == pytest.approx(expected)


def test_debiasing_one_context_drops_it_unless_nothing_is_fitted():
    comparisons, _ = simulated(1, 4, bias=1.0)
    assert len(debias(comparisons, "threshold")) == 0
    assert len(debias(comparisons, "swap-average")) == len(debias(comparisons, "none")) == 12
    for arguments in (("magic",), ("threshold", 1)):
        with pytest.raises(InputError):
            debias(comparisons, *arguments)
    with pytest.raises(InputError, match="no comparisons"):
        fit_remedy(comparisons.take(slice(0, 0)), "threshold")


@pytest.mark.parametrize("name", FITTED)
def test_quarter_of_pairs_recovers_90_percent_of_agreement(name):
    """R = 25 % of all ordered pairs of 16 candidates, hard decisions by win ratio; a bias of 3 logits."""
    found = {}
    for bias in (0.0, 3.0):
        comparisons, scores = simulated(40, 16, bias, noise=0.5, budget=60)
        rho = {}
        for remedy in ("none", name):
            decoded = decode(debias(comparisons, remedy)).scores
            rho[remedy] = correlate_within(decoded, scores, comparisons.context, "spearman").mean()
        found[bias] = rho
    assert found[3.0]["none"] < 0.9 * found[0.0]["none"]  # there is something to recover
    assert found[3.0][name] >= 0.9 * found[0.0]["none"]


@pytest.mark.slow
def test_the_same_with_the_simulated_judge_of_the_package():
    data = bl.load_dataset("graded", limit=24)
    mean = {}
    for bias in (0.0, 3.0):
        judge = bl.SimulatedJudge(data, quality=1.0, position=bias, noise=0.5)
        probe = bl.probes.Comparative(["coherence"], strategy="no-repeat", budget=8)  # 27 % of 30
        trials = bl.collect(probe, judge, data, progress=False)
        for remedy in ("none", "threshold"):
            ranked = bl.ranking.rank(trials, "bradley-terry", remedy)
            rho = [
                spearmanr(g["score"], g["human"], nan_policy="omit").statistic for _, g in ranked.groupby("context_id")
            ]
            mean[bias, remedy] = np.mean(rho)
    assert mean[3.0, "none"] < 0.9 * mean[0.0, "none"]
    assert mean[3.0, "threshold"] >= 0.9 * mean[0.0, "none"]


def test_recorded_pairs_of_a_real_judge_become_fairer(shared_data):
    """GPT-3.5 on SummEval pairs gives decisions only, which a reweighting leaves alone and swapping makes ties."""
    path = shared_data / "recorded" / "summeval_judges" / "h2h_gpt35_both_orders.jsonl.gz"
    rows = pd.read_json(path, lines=True)
    rows = rows[rows["aspect"] == rows["aspect"].iloc[0]].drop_duplicates(["model_1", "model_2", "toggled", "id"])
    letter = rows["resp"].str.extract(r"^\W*([ABC])\b")[0]
    shown = rows["toggled"].astype(bool)
    frame = pd.DataFrame(
        {
            "context_id": rows["id"],
            "candidate_id": rows["model_2"].where(shown, rows["model_1"]),
            "opponent_id": rows["model_1"].where(shown, rows["model_2"]),
            "value": letter.map({"A": 1.0, "B": 0.0, "C": 0.5}),
            "status": np.where(letter.isna(), "unparsable", np.where(letter == "C", "tie", "ok")),
        }
    )
    comparisons = comparisons_of(frame)
    averaged = debias(comparisons, "swap-average")
    decided = averaged.won[averaged.won != 0.5]
    assert len(averaged) > 500
    assert decided.mean() == 0.5
    assert debias(comparisons, "threshold").p.tolist() == comparisons.p.tolist()


def same(p, **more):
    """Pairs of the same, a context each."""
    rows = {"context_id": range(len(p)), "candidate_id": "x", "opponent_id": "x", "value": p, "status": "ok"}
    return pd.DataFrame(rows).assign(**more)


def test_exact_log_odds_are_averaged():
    found = dark_log_odds(same(expit([0.5, 1.0, 1.5, 1.0, 0.8, 1.2])))
    assert found.estimate == pytest.approx(1.0)
    assert found.ci_low < 1.0 < found.ci_high
    assert found.p_value < 0.05


def test_verdicts_have_the_log_odds_of_their_share():
    assert dark_log_odds(same([1.0] * 9 + [0.0] * 3)).estimate == pytest.approx(math.log(3))
    assert content_free(same([1.0] * 9 + [0.0] * 3)).alpha == pytest.approx(1 / 3)
    assert dark_log_odds(same([0.6, 0.9], samples=5.0)).estimate == pytest.approx(math.log(3))


def test_refused_verdicts_are_excluded():
    trials = same(expit([1.0, 1.0, 5.0])).assign(status=["ok", "ok", "refused"])
    assert dark_log_odds(trials).estimate == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        (same([0.8, 0.7], attribute=["a", "b"]), "attribute has several values: a, b"),
        (same([0.8, 0.7], nothing=["empty", "identical"]), "nothing has several values"),
        (same([1.0, 1.0, 1.0]), "separation"),
        (same([0.5]).iloc[:0], "no identical pair"),
    ],
)
def test_no_prior_without_a_reason(trials, words):
    with pytest.raises(InputError, match=words):
        content_free(trials)


def rate_and_accuracy(comparisons, human):
    """P(A) of exact decisions, and how often the better one wins."""
    decided = comparisons.p != 0.5
    gap = human[comparisons.first] - human[comparisons.second]
    first = comparisons.p > 0.5
    right = first[decided & (gap != 0)] == (gap[decided & (gap != 0)] > 0)
    return first[decided].mean(), right.mean()


@pytest.mark.parametrize("position", [1.5, -1.0])
def test_content_free_prior_debiases_one_order_designs(position):
    """Half the price of asking both orders: the prior is fitted on prompts that hold no pair that is judged."""
    data = bl.load_dataset("graded", limit=24)
    judge = bl.SimulatedJudge(data, quality=0.5, position=position, noise=0.5)
    vacuum = bl.probes.Vacuum(["coherence"], nothing=["identical"], asks=["pairs"], n_candidates=3)
    prior = content_free(bl.collect(vacuum, judge, data, progress=False))
    assert prior.log_alpha == pytest.approx(-position, abs=0.25)
    trials = bl.collect(bl.probes.Position(["coherence"], [1]), judge, data, progress=False)
    one = trials[trials["candidate_id"] < trials["opponent_id"]]
    comparisons = comparisons_of(one)
    keys = zip(comparisons.context_id, comparisons.candidate_id, strict=True)
    human = np.array([data.human_means["coherence"][key] for key in keys])
    (before, worse), (after, better) = (
        rate_and_accuracy(found, human) for found in (comparisons, debias(comparisons, prior))
    )
    assert abs(before - 0.5) > 0.2
    assert abs(after - 0.5) < 0.06
    assert better > worse


def test_a_remedy_that_was_fitted_elsewhere_needs_no_folds():
    """A single context has nothing else to fit on, and the prior does not need it."""
    data = bl.load_dataset("graded", limit=1)
    judge = bl.SimulatedJudge(data, position=1.3)
    comparisons = comparisons_of(bl.collect(bl.probes.Position(["fluency"], [1]), judge, data, progress=False))
    assert len(debias(comparisons, "threshold")) == 0
    found = debias(comparisons, bl.ranking.Reweighting(-1.3))
    assert len(found) == len(comparisons)
    twins = found.p[found.twins]
    assert found.p + twins == pytest.approx(np.ones(len(found)))
