"""Agreement of a judge with people: coefficients of other packages, properties, and edge cases."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy.stats import t, ttest_rel
from statsmodels.stats.inter_rater import cohens_kappa

from biaslab import Resampling
from biaslab.stats.rater_agreement import Labelled, ScoreAgreement, VerdictAgreement, contrast, differences, rater_pairs
from biaslab.stats.ratio import Ratio

QUICK = Resampling(n=100)
VALUES = Resampling(values_only=True)


def rows_of(judged, labelled, context=None):
    places = np.arange(len(judged))
    context = places if context is None else context
    return Labelled(context, places, np.asarray(judged, float), np.asarray(labelled, float), np.ones(len(judged)))


def verdicts(n=80):
    places = np.arange(n)
    labelled = ((places * 7) % 10 < 6).astype(float)
    return np.where((places * 13) % 11 < 8, labelled, 1 - labelled), labelled


def scores(n=80):
    places = np.arange(n)
    labelled = 1.0 + (places * 7) % 5
    return np.clip(labelled + ((places * 13) % 7 - 2) // 2, 1, 5), labelled


#: scikit-learn 1.9.1, irrCAC 0.4.4, pingouin 0.7.0 and krippendorff 0.8 on these arrays.
OF_VERDICTS = {
    "exact_agreement": 0.7375,
    "true_positive_rate": 0.7291666666666666,
    "true_negative_rate": 0.75,
    "precision_of_pass": 0.813953488372093,
    "precision_of_fail": 0.6486486486486487,
    "balanced_accuracy": 0.7395833333333333,
    "cohen_kappa": 0.46700507614213194,
    "gwet_ac1": 0.484741604048,
}
OF_SCORES = {
    "mean_difference": 0.225,
    "limit_of_agreement_low": -1.565778803862798,
    "limit_of_agreement_high": 2.015778803862798,
    "quadratic_kappa": 0.7878787878787878,
    "icc_agreement": 0.7899734143562473,
    "krippendorff_alpha": 0.7879030413903498,
}


@pytest.mark.parametrize("name", OF_VERDICTS)
def test_verdict_agreement_equals_other_packages(name):
    found = VerdictAgreement(rows_of(*verdicts())).estimates(VALUES)
    assert found[name].estimate == pytest.approx(OF_VERDICTS[name], abs=1e-11)


@pytest.mark.parametrize("name", OF_SCORES)
def test_score_agreement_equals_other_packages(name):
    found = ScoreAgreement(rows_of(*scores())).estimates(VALUES)
    assert found[name].estimate == pytest.approx(OF_SCORES[name], abs=1e-11)


def test_three_verdicts_equal_other_packages():
    places = np.arange(40)
    judged, labelled = (places * 7) % 3 - 1, (places * 7 + places % 5 // 4) % 3 - 1
    found = VerdictAgreement(rows_of(judged, labelled), (-1.0, 0.0, 1.0), "pair").estimates(VALUES)
    assert found["cohen_kappa"].estimate == pytest.approx(0.7000937207122774, abs=1e-12)
    assert found["gwet_ac1"].estimate == pytest.approx(0.700023435669, abs=1e-11)


def test_three_people_have_a_third_of_the_weight_each():
    places = np.arange(40)
    labels = [((places * 7) % 10 < 6), ((places * 7 + 1) % 10 < 6), ((places * 3) % 10 < 6)]
    frame = pd.DataFrame({
        "context_id": np.tile(places, 3), "item": np.tile(places, 3),
        "judged": np.tile((places * 7) % 11 < 7, 3).astype(float), "labelled": np.concatenate(labels).astype(float),
    })  # fmt: skip
    found = VerdictAgreement(Labelled.of(frame)).estimates(VALUES)
    assert found["cohen_kappa"].estimate == pytest.approx(0.035087719298245834, abs=1e-12)
    assert found["true_positive_rate"].estimate == pytest.approx(0.6388888888888897, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=4, max_size=60))
def test_kappa_equals_statsmodels_for_any_verdicts(pairs):
    judged, labelled = np.array(pairs).T
    found = VerdictAgreement(rows_of(judged, labelled)).estimates(VALUES)["cohen_kappa"].estimate
    table = np.array([[np.sum((judged == one) & (labelled == two)) for two in (0, 1)] for one in (0, 1)])
    if np.array_equal(judged, labelled) and len(set(judged.tolist())) == 1:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(cohens_kappa(table, return_results=False), abs=1e-12)


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=5, max_size=60), st.integers(1, 4))
def test_intervals_stay_in_range_and_hold_the_value(pairs, per_context):
    judged, labelled = np.array(pairs).T
    found = ScoreAgreement(rows_of(judged, labelled, np.arange(len(pairs)) // per_context)).estimates(QUICK)
    for name, bound in (("exact_agreement", 0.0), ("quadratic_kappa", -1.0), ("icc_agreement", -1.0)):
        one = found[name]
        if not np.isnan(one.ci_low):
            assert bound <= one.ci_low <= one.estimate + 1e-9
            assert one.estimate - 1e-9 <= one.ci_high <= 1


def test_contexts_and_not_answers_are_the_units():
    judged, labelled = verdicts()
    alone = VerdictAgreement(rows_of(judged, labelled)).estimates(QUICK)["cohen_kappa"]
    four = VerdictAgreement(rows_of(*(np.repeat(each, 4) for each in (judged, labelled)), np.repeat(np.arange(80), 4)))
    repeated = four.estimates(QUICK)["cohen_kappa"]
    assert repeated.n_contexts == alone.n_contexts == 80
    assert repeated.ci_low == pytest.approx(alone.ci_low, abs=1e-9)


def test_a_kind_of_label_that_never_occurs_is_undefined():
    found = VerdictAgreement(rows_of([1, 0, 1, 1], [1, 1, 1, 1])).estimates(QUICK)
    assert np.isnan(found["true_negative_rate"].estimate)
    assert "people fail" in found["true_negative_rate"].note
    assert found["true_positive_rate"].estimate == 0.75


def test_pairs_without_ties_count_only_what_both_decide():
    found = VerdictAgreement(rows_of([1, 1, 0, -1, 1], [1, -1, 1, 0, 1]), (-1, 0, 1), "pair").estimates(QUICK)
    assert found["exact_agreement"].estimate == pytest.approx(2 / 5)
    assert found["agreement_without_ties"].estimate == pytest.approx(2 / 3)


def test_scores_that_are_not_whole_are_never_exactly_equal():
    found = ScoreAgreement(rows_of([1.5, 2, 3, 4.2], [1, 2, 3, 4])).estimates(QUICK)
    assert "exact_agreement" not in found
    assert found["mean_difference"].estimate == pytest.approx(0.175)


def test_difference_between_groups_equals_that_of_their_rates():
    judged, labelled = verdicts()
    first = np.arange(80) < 30
    own, others = (
        VerdictAgreement(rows_of(judged[part], labelled[part], np.flatnonzero(part))) for part in (first, ~first)
    )
    gap = contrast(own.ratios()["exact_agreement"], others.ratios()["exact_agreement"], QUICK)
    hit = judged == labelled
    assert gap.estimate == pytest.approx(hit[first].mean() - hit[~first].mean())
    error = np.sqrt(hit[first].var(ddof=1) / 30 + hit[~first].var(ddof=1) / 50)  # Welch
    assert gap.se == pytest.approx(error)


def test_difference_of_a_rate_of_one_has_a_standard_error():
    """All of 20 against 70 of 80: the variance of the former is not 0 but unknown."""
    rates = [Ratio(np.arange(20), np.ones(20), np.ones(20)), Ratio(np.arange(20, 100), np.arange(80) < 70, np.ones(80))]
    gap = contrast(*rates, QUICK)
    assert gap.estimate == 0.125
    assert gap.se**2 == pytest.approx((71 / 82) * (11 / 82) / 82 + (21 / 22) * (1 / 22) / 22)  # Agresti and Caffo 2000


def test_difference_of_paired_rates_equals_the_paired_t_test():
    one, other = np.arange(100) % 10 < 7, np.arange(100) % 20 < 9
    gap = contrast(*(Ratio(np.arange(100), hits, np.ones(100)) for hits in (one, other)), QUICK)
    paired = ttest_rel(one.astype(float), other)
    assert gap.p_value == pytest.approx(paired.pvalue, rel=0.2)
    assert (gap.ci_low, gap.ci_high) == pytest.approx(tuple(paired.confidence_interval()), abs=0.003)


def test_gap_of_a_group_with_one_large_context_has_few_degrees():
    context = np.repeat(np.arange(16), [200, *[3] * 15])
    hit, others = np.arange(245) % 10 < np.where(context == 0, 9, 7), np.arange(300) % 10 < 7
    gap = contrast(Ratio(context, hit, np.ones(245)), Ratio(np.arange(300), others, np.ones(300)), QUICK)
    assert gap.estimate > 0.1
    assert gap.p_value > 0.05
    assert gap.ci_low < 0


def test_pairs_of_people_count_in_both_directions():
    labels = pd.DataFrame({"context_id": 0, "item": [0, 0, 0, 1, 2, 2], "labelled": [1.0, 1, 0, 1, 0, 1]})
    found = rater_pairs(labels).set_index(["item", "judged", "labelled"])["weight"].to_dict()
    assert found == {(0, 1, 1): 2, (0, 1, 0): 2, (0, 0, 1): 2, (2, 0, 1): 1, (2, 1, 0): 1}


def test_contexts_of_equal_weight_are_not_counted_by_their_size():
    context = np.repeat([0, 1, 2, 3], [10, 1, 1, 1])
    rows = rows_of([1] * 10 + [0, 1, 0], [1] * 13, context)
    found = differences(*[VerdictAgreement(each) for each in (rows, rows_of([0] * 13, [1] * 13, context))],
                        Resampling(weights="contexts"))  # fmt: skip
    assert found["exact_agreement_difference"].estimate == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [pytest.param(1, marks=pytest.mark.thorough), 4])
@pytest.mark.parametrize("share", [0.1, *(pytest.param(share, marks=pytest.mark.thorough) for share in (0.5, 0.9))])
def test_intervals_of_verdicts_cover_at_their_level(answers, share):
    """300 studies of 120 questions: within four standard errors of .95."""
    rng = np.random.default_rng(7)
    metrics = ("exact_agreement", "true_positive_rate", "leniency", "cohen_kappa", "gwet_ac1")

    def study(questions):
        context = np.repeat(np.arange(questions), answers)
        quality = (rng.normal(size=questions)[context] + rng.normal(size=len(context))) / 2**0.5
        cut = np.sqrt(2) * np.array({0.1: 0.9062, 0.5: 0.0, 0.9: -0.9062}[share])
        labelled = quality + 0.4 * rng.normal(size=len(context)) > cut
        judged = quality + 0.5 * rng.normal(size=len(context)) > cut - 0.2
        return VerdictAgreement(rows_of(judged, labelled, context))

    truth = study(200_000).estimates(VALUES)
    hits = {name: [] for name in metrics}
    for _ in range(300):
        found = study(120).estimates(QUICK)
        for name in metrics:
            hits[name].append(found[name].ci_low <= truth[name].estimate <= found[name].ci_high)
    for name in metrics:
        assert np.mean(hits[name]) == pytest.approx(0.955, abs=0.045), name


@pytest.mark.parametrize(("largest", "effective"), [(4, 30.0), (116, 3.9)])
def test_differences_count_contexts_of_equal_size(largest, effective):
    """Of 60 contexts of unequal size (Pareto) a difference of equal judges was found in .07 to .10."""
    sizes = np.array([largest, *[4] * 29])
    context = np.repeat(np.arange(30), sizes)
    rng = np.random.default_rng(0)
    labels, *judged = rng.integers(0, 2, (3, len(context))).astype(float)
    rows = [Labelled(context, np.arange(len(context)), own, labels, np.ones(len(context))) for own in judged]
    found = differences(*map(VerdictAgreement, rows), Resampling())["exact_agreement_difference"]
    assert sizes.sum() ** 2 / (sizes**2).sum() == pytest.approx(effective, abs=0.1)
    assert found.ci_high - found.ci_low == pytest.approx(2 * t.ppf(0.975, effective - 1) * found.se, rel=0.02)
    assert ("uneven_contexts" in [getattr(note, "code", "") for note in found.notes]) == (effective < 6)
