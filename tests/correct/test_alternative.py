"""The alternative annotator test: printed values, ties, clusters, plans."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from biaslab.correct.alternative import Contest, decide, plan_items
from biaslab.stats.resample import Resampling

PRINTED = re.compile(
    r"^\* (\w+) \| ([\w.-]+) \| (accuracy|neg_rmse) eps=([\d.]+) .*published \('(\w+)', '([\d.]+)', '([\d.]+)'\)", re.M
)


def annotations(folder):
    """People's and judges' labels by item, as numbers."""
    people, judges = (pd.DataFrame(json.loads(gzip.decompress(p.read_bytes()))) for p in sorted(folder.glob("*.gz")))
    words = sorted({word for table in (people, judges) for word in table.to_numpy().ravel() if isinstance(word, str)})
    codes = {word: float(place) for place, word in enumerate(words)}
    people, judges = (table.map(lambda label: codes.get(label, label)).astype(float) for table in (people, judges))
    return people, judges.reindex(people.index)


@pytest.mark.slow
def test_thirty_printed_rates_and_probabilities_come_out(shared_data):
    printed = PRINTED.findall((shared_data / "FIGURES_2026.md").read_text(encoding="utf-8"))
    assert len(printed) == 30
    sets = {name: annotations(shared_data / "recorded" / "alt_test" / name) for name in {each[0] for each in printed}}
    for name, judge, alignment, epsilon, outcome, omega, rho in printed:
        people, judges = sets[name]
        judged = judges[judge].to_numpy()
        contest = Contest.of(judged, people.to_numpy(), list(people.index), list(people), alignment)
        rate = contest.winning_rate(float(epsilon), Resampling())
        assert f"{rate.estimate:.2f}" == omega
        assert f"{contest.advantage_probability(Resampling()).estimate:.2f}" == rho
        assert (decide(rate) == "yes") == (outcome == "PASSED")


def studies(contexts=40, items=1, people=4, judge_noise=0.3, noise=0.3, classes=3, seed=0):
    """Labels of people, and of a judge, who err independently."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=contexts * items)

    def labels(share):
        return np.where(rng.random(len(truth)) < share, rng.integers(classes, size=len(truth)), truth).astype(float)

    table = np.column_stack([labels(noise) for _ in range(people)])
    return labels(judge_noise), table, np.repeat(np.arange(contexts), items)


def test_single_items_equal_the_published_t_test():
    judged, people, context = studies()
    contest = Contest.of(judged, people, context, list("abcd"))
    others = people[:, 1:]
    won = [(others == side[:, None]).mean(axis=1) for side in (judged, people[:, 0])]
    apart = (won[1] >= won[0]).astype(float) - (won[0] >= won[1])
    expected = stats.ttest_1samp(apart, 0.1, alternative="less").pvalue
    assert contest.won(0.1)[0][0] == pytest.approx(expected, rel=1e-9)
    assert contest.advantages[0] == np.mean(won[0] >= won[1])


def test_copies_of_items_in_a_context_add_no_evidence():
    judged, people, context = studies()
    once = Contest.of(judged, people, context, list("abcd"))
    copied = Contest.of(np.repeat(judged, 3), np.repeat(people, 3, axis=0), np.repeat(context, 3), list("abcd"))
    assert copied.won(0.1)[0] == pytest.approx(once.won(0.1)[0])
    assert copied.advantages == pytest.approx(once.advantages)


def test_function_of_labels_equals_accuracy():
    judged, people, context = studies(seed=1)

    def share(label, others):
        return sum(label == other for other in others) / len(others)

    own = Contest.of(judged, people, context, list("abcd"), share, words=["x", "y", "z"])
    assert (own.judge == Contest.of(judged, people, context, list("abcd")).judge).all()


def test_judge_who_repeats_people_wins_and_random_one_loses():
    good, people, context = studies(200, judge_noise=0.0)
    bad = studies(200, judge_noise=1.0, seed=9)[0]
    names = list("abcd")
    rates = [Contest.of(each, people, context, names).winning_rate(0.1, Resampling()) for each in (good, bad)]
    assert [decide(rate) for rate in rates] == ["yes", "no"]
    assert rates[0].ci_low == 1.0
    assert rates[1].ci_high == 0.0


def test_annotators_need_thirty_items():
    judged, people, context = studies()
    people[29:, 3] = np.nan
    contest = Contest.of(judged, people, context, list("abcd"))
    assert contest.names == ["a", "b", "c"]
    assert contest.given == 4
    people[29:, 1:] = np.nan
    rate = Contest.of(judged, people, context, list("abcd")).winning_rate(0.1, Resampling())
    assert np.isnan(rate.estimate)
    assert rate.has_note("few_annotators")


def test_judges_are_compared_on_the_same_contexts():
    good, people, context = studies(200, judge_noise=0.1)
    bad = studies(200, judge_noise=0.9, seed=9)[0]
    one, other = (Contest.of(each, people, context, list("abcd")) for each in (good, bad))
    apart = one.against(other, Resampling())
    assert apart.estimate == pytest.approx(one.advantages.mean() - other.advantages.mean())
    assert apart.ci_low > 0
    assert other.against(one, Resampling()).estimate == pytest.approx(-apart.estimate)


@pytest.mark.slow
def test_planned_items_pass_with_the_planned_power():
    passed = []
    for seed in range(8):
        plan = plan_items(Contest.of(*studies(100, seed=seed), list("abcd")), 0.2, shortfall=0.0)
        for again in range(100):
            drawn = studies(plan.contexts, seed=1000 + 100 * seed + again)
            passed.append(Contest.of(*drawn, list("abcd")).won(0.2)[2].mean() >= 0.5)
    assert 0.72 < np.mean(passed) < 0.85


def test_no_number_of_items_helps_a_judge_far_behind():
    judged, people, context = studies(100, judge_noise=1.0)
    plan = plan_items(Contest.of(judged, people, context, list("abcd")), 0.1)
    assert plan.contexts is None
