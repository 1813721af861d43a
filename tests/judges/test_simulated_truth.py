"""What is expected of a planted bias is what the probe's own estimator finds on average, over many seeds."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_distributions, expected_scores
from scipy import integrate, stats

import biaslab as bl
from biaslab import prompts
from biaslab.core import Choice, Completion, Trial
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.core.scales import find_scale
from biaslab.judges.simulated.pair_truth import normal_rule
from biaslab.measures.ranking import pairs
from biaslab.measures.scoring.pointwise import about_scores, items
from biaslab.probes import position
from biaslab.stats import Estimate, Resampling

METRICS = (
    "first_position_rate",
    "first_position_logit",
    "order_consistency",
    "primacy_share",
    "comparative_accuracy",
    "tie_rate",
)
SEEDS = 300
UTILITIES = {"familiarity": -1.0, "verbosity": 2.0, "self_preference": 1.0, "own_system": "clean"}
PLANTED = {
    "no noise": ({"position": 0.7}, {}),
    "noise": ({"position": 0.5, "noise": 1.0}, {}),
    "utilities": ({"noise": 0.5, **UTILITIES}, {}),
    "both noises": ({"quality": 0.5, "position": 0.3, "noise": 0.7, "context_noise": 1.0}, {}),
    "contexts only": ({"position": 0.3, "context_noise": 1.0}, {}),
    "contexts and ties": ({"position": 0.3, "context_noise": 1.0, "ties": 0.8}, {"ties": True}),
    "ties": ({"position": 0.3, "noise": 1.0, "context_noise": 0.5, "ties": 0.8}, {"ties": True}),
    "selective": ({"quality": 0.5, "position": 0.4, "noise": 0.5, "refusal": 0.4, "selective": True}, {}),
    "refusals": ({"quality": 0.5, "position": 0.4, "noise": 0.5, "refusal": 0.3}, {}),
    "text": ({"quality": 0.5, "position": 0.4, "noise": 0.5, "context_noise": 0.5}, {"temperature": 0.7}),
    "cold text": ({"quality": 0.5, "position": 0.4, "noise": 2.0}, {"temperature": 0.05}),
    "greedy text": ({"quality": 0.5, "position": 0.4}, {"temperature": 0.0}),
    "text, ties": (
        {"quality": 0.5, "noise": 0.5, "context_noise": 0.3, "ties": 0.8},
        {"temperature": 1.0, "ties": True},
    ),
    "text, ties, no noise": ({"context_noise": 0.5, "ties": 0.8}, {"temperature": 1.0, "ties": True}),
    "garbage": ({"position": 0.4, "noise": 0.5, "garbage": 0.3}, {"temperature": 1.0}),
}


def judged(data, probe, planted):
    """Judge with many seeds; every seed's contexts have names of their own."""
    trials = list(probe.design(data))
    rows = []
    for seed in range(SEEDS):
        replies = dict(bl.SimulatedJudge(data, seed=seed, **planted).ask([t.request for t in trials]))
        for t in trials:
            mass = math.nan if replies[t.request].text else 1.0
            found = probe.read(t, replies[t.request])
            identity = (f"{t.context_id}/{seed}", t.candidate_id, t.opponent_id, t.replicate, t.condition["human_gap"])
            rows.append((*identity, *found, mass))
    columns = ("context_id", "candidate_id", "opponent_id", "replicate", "human_gap", "value", "status", "label_mass")
    return pd.DataFrame(rows, columns=list(columns))


def value_and_error(made):
    """Return an estimate, or a ratio of sums over seeds, with its standard error.

    That of a ratio is by the delta method over seeds, which are independent; that of an estimate is over contexts.
    """
    if isinstance(made, Estimate):
        return made.estimate, made.se
    seeds = pd.Series(np.asarray(made.context, dtype=object)).str.rpartition("/")[2].to_numpy()
    sums = pd.DataFrame({"top": made.numerator, "bottom": made.denominator}).groupby(seeds).sum()
    found = sums["top"].sum() / sums["bottom"].sum()
    spread = (sums["top"] - found * sums["bottom"]).std(ddof=1) / sums["bottom"].mean()
    return found, spread / math.sqrt(len(sums))


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANTED)
def test_the_probe_finds_the_truth_on_average(graded, name):
    planted, options = PLANTED[name]
    temperature = options.get("temperature")
    answer = {"temperature": temperature, "answer": "text"} if temperature is not None else {}
    probe = position.Position(["coherence"], [1], ties="ties" in options, **answer)
    data = graded.head(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        blocks = pairs.both_orders(judged(data, probe, planted), name)
    terms = position._metrics(blocks, Resampling())
    judge = bl.SimulatedJudge(data, **planted)
    trials = bl.collect(probe, judge, data, progress=False)
    for metric in METRICS:
        truth = judge.truth(metric, trials, temperature)
        made = terms[metric]() if metric == "first_position_logit" else terms[metric]
        counted = metric == "first_position_logit" and temperature is not None  # of answers there is no logit a pair
        assert isinstance(made, Estimate) == counted
        found, error = value_and_error(made)
        if math.isnan(truth):
            assert math.isnan(found)
        else:
            assert found == pytest.approx(truth, abs=4 * error + 1e-6), metric


def test_truth_of_one_pair_matches_the_normal_cdf(graded):
    """Independently computed: P(first) by the cdf, both orders by the bivariate normal of the two log odds."""
    data = graded.head(1)
    judge = bl.SimulatedJudge(data, quality=0.8, position=0.3, noise=0.6, context_noise=0.9)
    trials = bl.collect(position.Position(["fluency"], [1], n_pairs=1), judge, data, progress=False)
    gap = trials["human_gap"].iloc[0]
    means, variance = np.array([0.3 + 0.8 * gap, 0.3 - 0.8 * gap]), 0.6**2 + 0.9**2
    rate = stats.norm.cdf(means / math.sqrt(variance)).mean()
    assert judge.truth("first_position_rate", trials) == pytest.approx(rate, abs=1e-12)
    covariance = [[variance, 0.81], [0.81, variance]]
    both = stats.multivariate_normal.cdf(means, cov=covariance), stats.multivariate_normal.cdf(-means, cov=covariance)
    assert judge.truth("order_consistency", trials) == pytest.approx(1 - sum(both), abs=1e-6)
    assert judge.truth("primacy_share", trials) == pytest.approx(both[0] / sum(both), abs=1e-6)


def test_truth_needs_both_orders_and_knows_what_it_knows(graded):
    judge = bl.SimulatedJudge(graded, position=1.0)
    trials = bl.collect(position.Position(["fluency"], [1]), judge, graded, progress=False)
    assert math.isnan(judge.truth("first_position_rate", trials.head(1)))
    assert judge.truth("first_position_logit", trials) == pytest.approx(1.0)
    with pytest.raises(InputError, match=r"metric is 'charm'.*first_position_rate.*tie_rate"):
        judge.truth("charm", trials)
    with pytest.raises(InputError, match="opponent_id"):
        judge.truth("tie_rate", trials.drop(columns="opponent_id"))
    with pytest.raises(InputError, match="candidates of the judge's data set"):
        judge.truth("tie_rate", trials.replace({"context_id": "news-1"}, "news-9"))


@pytest.mark.parametrize(("ratio", "width"), [(0.3, 1 / 0.3), (4.0, 0.25), (30.0, 1 / 30)])
def test_the_quadrature_integrates_steep_functions(ratio, width):
    def steep(z):
        return stats.norm.cdf((z - 0.4) / width) * 1 / (1 + np.exp(-np.clip((z + 0.2) / width, -500, 500)))

    nodes, weights = normal_rule(ratio)
    exact = integrate.quad(lambda z: steep(z) * stats.norm.pdf(z), -9, 9, points=[-0.2, 0.4], limit=500)[0]
    assert weights @ steep(nodes) == pytest.approx(exact, abs=1e-7)


SCORES = {
    "plain": {},
    "noise": {"noise": 1.0, "position": 2.0},
    "both noises": {"noise": 0.5, "context_noise": 1.0, "reason_first": 0.1},
    "sharp": {"noise": 1.0, "sharpness": 40.0},
    "anchored": {"noise": 0.6, "context_noise": 0.6, "anchoring": 0.5},
    "anchored, no noise": {"anchoring": -0.4},
    "heaping": {"noise": 1.0, "heaping": 1.5, "context_noise": 0.3},
}


@pytest.mark.parametrize("temperature", [None, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("name", SCORES)
def test_labels_are_as_often_as_expected(graded, name, temperature):
    """The last of three scores in one text, or the distribution of the second after a forced first one."""
    planted = SCORES[name]
    scale = find_scale("1-100" if name == "heaping" else "1-5 float")
    item, names = list(items(graded))[1], ["coherence", "fluency", "relevance"]
    prompt = prompts.rate(graded, names, scale, item.text, item.context, "before")
    about = about_scores(item, names, scale, "lines", "before")
    if temperature is None:
        prefix = ("assistant", f"coherence: {scale.labels[-1]}\nfluency:")
        about = replace(about, attributes=("fluency", "relevance"), previous=scale.high)
        trial = Trial(Choice([("user", prompt), prefix], scale.labels, about), "news-1", "fluency", "c2")
    else:
        trial = Trial(Completion(prompt, temperature, about=about), "news-1", "relevance", "c2")
    draws = np.array([_shares(bl.SimulatedJudge(graded, seed=seed, **planted), trial, scale) for seed in range(600)])
    judge = bl.SimulatedJudge(graded, **planted)
    [expected], [mean] = expected_distributions(judge, [trial]), expected_scores(judge, [trial])
    assert expected.sum() == pytest.approx(1)
    assert mean == pytest.approx(expected @ np.array(scale.values))
    if temperature is None:
        error = draws.std(axis=0, ddof=1) / math.sqrt(len(draws))
        assert (np.abs(draws.mean(axis=0) - expected) <= 4 * error + 1e-6).all()
    elif expected.max() > 1 - 1e-9:
        assert draws.mean(axis=0) == pytest.approx(expected)
    else:
        assert _fits(draws.sum(axis=0), expected * len(draws))


def _shares(judge, trial, scale):
    [(_, reply)] = judge.ask([trial.request])
    if reply.logprobs is not None:
        return np.exp(reply.logprobs)
    return np.array([reply.text.endswith(f"relevance: {label}") for label in scale.labels], dtype=float)


def _fits(counts, expected):
    """Chi-square over labels that are expected five times, the rest as one class."""
    often = expected >= 5
    seen, wanted = [*counts[often], counts[~often].sum()], [*expected[often], expected[~often].sum()]
    if wanted[-1] < 1:
        seen, wanted = [*seen[:-2], sum(seen[-2:])], [*wanted[:-2], sum(wanted[-2:])]
    return len(wanted) < 2 or stats.chisquare(seen, wanted, sum_check=False).pvalue > 0.001


def test_mean_shifts_follow_from_expected_scores(graded):
    """What reasons-first, familiarity and the missing source do to the mean, off the ends of the scale."""
    scale, item = find_scale("1-100"), list(items(graded))[1]
    judge = bl.SimulatedJudge(graded, reason_first=0.08, source_reliance=0.5, sharpness=16.0, noise=0.2)
    asked = [
        Completion(
            prompts.rate(graded, ["coherence"], scale, item.text, shown.context, reasons),
            1.0,
            about=about_scores(shown, ["coherence"], scale, "lines", reasons),
        )
        for shown, reasons in ((item, "after"), (item, "before"), (replace(item, context=""), "after"))
    ]
    given = {item.text: 3.4, "another": 2.6}
    after, before, without = expected_scores(judge, asked)
    assert before - after == pytest.approx(0.08 * 99, abs=0.02)
    assert after - without == pytest.approx(0.5 * 0.5 / 4 * 99, abs=0.02)
    known = bl.SimulatedJudge(graded, familiarity=-0.6, sharpness=16.0, noise=0.2, log_perplexity=given)
    plain = bl.SimulatedJudge(graded, sharpness=16.0, noise=0.2)
    [moved], [still] = (
        expected_scores(j, [Choice(asked[0].messages, scale.labels, asked[0].about)]) for j in (known, plain)
    )
    assert moved - still == pytest.approx(-0.6 * (3.4 - 3.0) / 4 * 99, abs=0.02)
