"""Specification curves and total error: by hand, by relabelling the data, and in simulated studies."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct import Costs, total_error

CELL = {"probe": "recorded", "judge": "j", "dataset": "d", "attribute": "a", "replicate": 0, "order_known": True}


def log_of(rows, columns=("context_id", "candidate_id", "opponent_id", "value"), **more):
    frame = pd.DataFrame(rows, columns=columns).assign(**CELL | more)
    frame = frame if "opponent_id" in frame else frame.assign(opponent_id=None)
    unread = frame["value"].isna()
    return frame.assign(status=np.where(unread, "refused", np.where(frame["value"] == 0.5, "tie", "ok")))


#: Context 1: A wins twice and ties once; 2: A loses; 3: a refusal and a win.
SMALL = [
    *(("1", "A", f"B{n}", value) for n, value in enumerate([1.0, 1.0, 0.5])),
    ("2", "B0", "A", 1.0),
    ("3", "A", "B0", np.nan),
    ("3", "B1", "A", 0.0),
]


def by_choice(found, *names):
    return found.specifications.set_index(list(names))["estimate"].to_dict()


@pytest.mark.slow
def test_win_rate_under_each_rule_is_that_of_a_count():
    found = bl.robustness(log_of(SMALL), system="A")
    rates = by_choice(found, "ties", "missing", "weights")
    assert len(rates) == 18
    assert rates["half", "dropped", "judgements"] == pytest.approx(3.5 / 5)
    assert rates["dropped", "dropped", "judgements"] == pytest.approx(3 / 4)
    assert rates["loss", "loss", "judgements"] == pytest.approx(3 / 6)
    assert rates["half", "half", "judgements"] == pytest.approx(4 / 6)
    assert rates["half", "dropped", "contexts"] == pytest.approx((2.5 / 3 + 0 + 1) / 3)
    assert rates["loss", "loss", "contexts"] == pytest.approx((2 / 3 + 0 + 1 / 2) / 3)


def test_choices_say_what_is_not_varied_and_why():
    found = bl.robustness(log_of(SMALL), system="A", choices={"ties": ["dropped"], "missing": ["dropped"]})
    rows = found.choices.set_index("choice")
    assert rows.loc[rows["varied"]].index.tolist() == ["weights"]
    assert rows.loc["ties", "why"] == "chosen: dropped"
    assert rows.loc["orders", "why"] == "no pair in both orders"
    assert len(found.specifications) == 2


def test_equal_length_is_the_intercept_of_a_regression():
    rng = np.random.default_rng(0)
    words = rng.integers(20, 200, (40, 2))
    won = (rng.random(40) < expit(0.3 + np.log(words[:, 0] / words[:, 1]))).astype(float)
    frame = log_of([(str(n), "A", "B", value) for n, value in enumerate(won)])
    found = bl.robustness(frame.assign(words=words[:, 0], opponent_words=words[:, 1]), system="A")
    x = np.log(words[:, 0] / words[:, 1])
    assert by_choice(found, "length")["equal"] == pytest.approx(np.polynomial.polynomial.polyfit(x, won, 1)[0])


def test_consistent_orders_count_a_flip_as_a_tie():
    rows = [("1", "A", "B", 1.0), ("1", "B", "A", 1.0), ("2", "A", "B", 1.0), ("2", "B", "A", 0.0)]
    rates = by_choice(bl.robustness(log_of(rows), system="A", choices={"ties": ["loss"]}), "orders")
    assert rates == {"each": pytest.approx(3 / 4), "consistent": pytest.approx(1 / 2)}


@pytest.mark.slow
def test_labels_of_three_people_are_five_rules():
    """People prefer A, B, A in context 1, and see a tie, a tie and A in context 2; the judge prefers A."""
    rows = [(c, x, v) for c in "12" for x, v in (("A", 2.0), ("B", 1.0))]
    ratings = {("1", "A"): "2 1 2", ("1", "B"): "1 2 1", ("2", "A"): "1 1 2", ("2", "B"): "1 1 1"}
    frame = log_of(rows, ("context_id", "candidate_id", "value"))
    texts = [ratings[key] for key in zip(frame["context_id"], frame["candidate_id"], strict=True)]
    frame = frame.assign(ratings=texts, annotators="x y z", human=[np.mean([*map(int, t.split())]) for t in texts])
    found = bl.robustness(frame, "comparative_accuracy")
    assert by_choice(found, "labels") == {"mean": 1.0, "majority": 1.0, "x": 1.0, "y": 0.0, "z": 1.0}
    counts = found.specifications.set_index("labels")["n_contexts"]
    assert counts.to_dict() == {"mean": 2, "majority": 1, "x": 1, "y": 1, "z": 2}


def test_labels_of_a_table_are_the_rules_of_its_people():
    rows = [(c, "A", "B", 1.0) for c in "12"]
    people = [
        (c, "A", "B", who, score) for c, who, score in (("1", "x", 1), ("1", "y", 0), ("2", "x", 1), ("2", "y", 1))
    ]
    names = ["context_id", "candidate_id", "opponent_id", "annotator", "score"]
    found = bl.robustness(log_of(rows), "comparative_accuracy", labels=pd.DataFrame(people, columns=names))
    assert by_choice(found, "labels") == {"mean": 1.0, "majority": 1.0, "x": 1.0, "y": 0.5}
    scored = log_of(
        [(c, x, v) for c in "12" for x, v in (("A", 2.0), ("B", 1.0))], ("context_id", "candidate_id", "value")
    )
    scores = [(c, x, v) for c, x, v in (("1", "A", 5), ("1", "B", 1), ("2", "A", 1), ("2", "B", 2))]
    table = pd.DataFrame(scores, columns=["context_id", "candidate_id", "score"])
    assert bl.robustness(scored, "comparative_accuracy", labels=table).specifications["estimate"].tolist() == [0.5]


def test_score_difference_is_paired_within_contexts():
    scores = [("1", "A", 3.0), ("1", "B", 1.0), ("2", "A", 2.0), ("2", "B", 2.5), ("3", "B", 9.0)]
    frame = log_of(scores, ("context_id", "candidate_id", "value"))
    found = bl.robustness(frame, "score_difference", system="A", other="B")
    assert found.specifications["estimate"].tolist() == [pytest.approx(0.75)]


@pytest.mark.thorough
def test_permutation_p_value_is_that_of_relabelled_data():
    """Names of A and B are exchanged in every subset of five contexts, and all specifications estimated anew."""
    rng = np.random.default_rng(2)
    values = rng.choice([0.0, 0.5, 1.0, 1.0, np.nan], (5, 2, 3))
    values[:, 0, 0] = [1, 1, 1, 0.5, 1]
    frame = pd.concat([
        log_of([(str(c), "A", "B", values[c, t, n]) for c in range(5)], template=f"t{t}", attribute=f"a{n}")
        for t, n in product(range(2), range(3))
    ])  # fmt: skip
    found, medians = bl.robustness(frame, system="A"), []
    for swapped in product((False, True), repeat=5):
        own = frame["context_id"].map(dict(zip("01234", swapped, strict=True)))
        names = {"candidate_id": np.where(own, "B", "A"), "opponent_id": np.where(own, "A", "B")}
        medians.append(bl.robustness(frame.assign(**names), system="A").estimates["estimate"].iloc[0])
    centre = np.mean(medians)
    extreme = np.abs(np.array(medians) - centre) >= abs(medians[0] - centre) - 1e-9
    row = found.estimates.iloc[0]
    assert (row["estimate"], found.expected) == pytest.approx((medians[0], centre))
    assert row["p_value"] == pytest.approx(extreme.mean())


@pytest.mark.slow
def test_the_choice_that_moves_the_result_explains_its_variance():
    """Template t1 is always right, t0 in half of the contexts; ties and missing verdicts do not exist."""
    rows = [log_of([(str(c), "A", "B", value) for c in range(8)], template=t, attribute=a)
            for t, a, value in (("t1", "x", 1.0), ("t1", "y", 1.0))]  # fmt: skip
    rows += [log_of([(str(c), "A", "B", float(c % 2)) for c in range(8)], template="t0", attribute=a) for a in "xy"]
    found = bl.robustness(pd.concat(rows), system="A").choices.set_index("choice")
    assert found.loc["template", ["share", "shift", "lowest", "highest"]].tolist() == pytest.approx(
        [1.0, 0.5, "t0", "t1"]
    )
    assert found.loc["attribute", "share"] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"system": None}, "system"),
        ({"system": "Z"}, "Z"),
        ({"choices": {"tie": ["half"]}}, "ties"),
        ({"choices": {"ties": ["never"]}}, "never"),
        ({"choices": {"ties": "half"}}, "list"),
        ({"choices": {"judge": ["k"]}}, "judge"),
        ({"conclusion": "kappa"}, "kappa"),
        ({"half_width": 0.0}, "half_width"),
        ({"half_width": "narrow"}, "half_width"),
        ({"choices": ["ties"]}, "choices"),
        ({"costs": 3}, "costs"),
        ({"resampling": 3}, "resampling"),
        ({"costs": None, "conclusion": "longer_wins", "system": "A"}, "none for longer_wins"),
    ],
)
def test_unknown_choices_are_refused(change, error):
    with pytest.raises(InputError, match=error):
        bl.robustness(log_of(SMALL), **{"system": "A"} | change)


def test_a_level_named_twice_is_one_specification():
    found = bl.robustness(log_of(SMALL), system="A", choices={"weights": ["contexts"] * 2, "ties": ["half"]})
    assert len(found.specifications) == 3


def test_judgements_of_which_none_was_read_are_refused():
    with pytest.raises(TrialsError, match="win_rate"):
        bl.robustness(log_of([(*row[:3], np.nan) for row in SMALL]), system="A")


@pytest.mark.slow
def test_a_conclusion_without_its_judgements_is_refused():
    with pytest.raises(TrialsError, match="needs scores"):
        bl.robustness(log_of(SMALL), "score_difference", system="A", other="B0")
    with pytest.raises(TrialsError, match="prefer one"):
        bl.robustness(log_of(SMALL), "comparative_accuracy")
    with pytest.raises(InputError, match="edit"):
        bl.robustness(log_of(SMALL, edit=["a", "a", "b", "b", "b", "b"]), system="A")
    with pytest.raises(InputError, match="at most 3,000"):
        bl.robustness(pd.concat([log_of(SMALL, template=f"t{n}") for n in range(200)]), system="A")
    with pytest.raises(InputError, match="study"):
        bl.robustness([])


def correlated(rng, contexts, effect):
    """Three templates see one preference of each pair, with noise of their own, ties and refusals."""
    items = rng.integers(1, 5, contexts)
    context = np.repeat(np.arange(contexts), items)
    number = np.arange(len(context)) - np.repeat(np.cumsum(items) - items, items)
    shared = effect + 0.8 * rng.normal(size=contexts)[context] + rng.normal(size=len(context))
    parts = []
    for template in range(3):
        seen = shared + 0.8 * rng.normal(size=len(context))
        value = np.where(np.abs(seen) < 0.35, 0.5, (seen > 0).astype(float))
        value[rng.random(len(context)) < 0.05] = np.nan
        rows = zip(context.astype(str), ["A"] * len(context), [f"B{n}" for n in number], value, strict=True)
        parts.append(log_of(list(rows), template=f"t{template}"))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.thorough
@pytest.mark.parametrize(("effect", "low", "high"), [(0.0, 0.0, 0.11), (0.6, 0.7, 1.0)])
def test_curve_of_a_null_rejects_at_its_level(effect, low, high):
    """120 studies of 60 contexts; at a level of .05, more than .11 are rejected in one of a thousand."""
    rng, rejected = np.random.default_rng(11), []
    choices = {"missing": ["dropped", "loss"]}
    for _ in range(120):
        found = bl.robustness(correlated(rng, 60, effect), system="A", choices=choices)
        assert len(found.specifications) == 36
        rejected.append(found.estimates["p_value"].iloc[0] < 0.05)
    assert low <= np.mean(rejected) <= high


def test_total_error_with_one_facet_is_that_of_two_way_anova():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(12, 4)) + rng.normal(size=(12, 1)) + np.array([0.0, 0.5, -0.5, 0.2])
    found = total_error(values, ["judge"], bl.Resampling())
    rows, columns = values.mean(axis=1), values.mean(axis=0)
    rest = values - rows[:, None] - columns + values.mean()
    squares = 4 * rows.var(ddof=1), 12 * columns.var(ddof=1), (rest**2).sum() / 33
    variance = (squares[0] + squares[1] - squares[2]) / 48
    assert found.total.se == pytest.approx(np.sqrt(variance))
    df = (variance * 48) ** 2 / (squares[0] ** 2 / 11 + squares[1] ** 2 / 3 + squares[2] ** 2 / 33)
    assert found.total.ci_high == pytest.approx(stats.t.ppf(0.975, df) * np.sqrt(variance) + values.mean())
    assert found.naive.se == pytest.approx(stats.sem(rows))
    parts = found.components.set_index("facets")["variance"]
    assert parts["judge"] == pytest.approx((squares[1] - squares[2]) / 12)
    assert parts["context"] == pytest.approx((squares[0] - squares[2]) / 4)


def test_one_judge_has_no_total_error():
    found = total_error(np.random.default_rng(0).normal(size=(30, 1, 1)), ["judge", "template"], bl.Resampling())
    assert np.isnan(found.total.ci_low)
    assert found.single == ("judge", "template")
    assert found.naive.ci_low < found.naive.estimate


def test_two_judges_are_marked():
    values = np.random.default_rng(0).normal(size=(30, 2))
    assert total_error(values, ["judge"], bl.Resampling()).total.has_note("two_levels")


def test_total_error_needs_six_contexts():
    assert total_error(np.zeros((5, 3)), ["judge"], bl.Resampling()).total.has_note("few_whole_contexts")


def test_cheapest_design_of_contexts_alone_is_a_sample_size():
    """Judges agree, so two are enough, and contexts are those of a t interval of the half width."""
    values = np.repeat(np.random.default_rng(5).normal(size=(200, 1)), 3, axis=1)
    design = total_error(values, ["judge"], bl.Resampling(), half_width=0.2).design
    n, spread = design.contexts, values[:, 0].std(ddof=1)
    reach = [stats.t.ppf(0.975, size - 1) * spread / np.sqrt(size) for size in (n - 1, n)]
    assert reach[0] > 0.2 >= reach[1]
    assert (design.levels, design.price) == ({"judge": 2}, 2 * n)


def test_dear_contexts_buy_more_judges():
    rng = np.random.default_rng(6)
    values = rng.normal(size=(80, 1)) + 0.2 * rng.normal(size=4) + 3 * rng.normal(size=(80, 4))
    cheap, dear = (
        total_error(values, ["judge"], bl.Resampling(), half_width=0.5, costs=costs).design
        for costs in (Costs(0, 1), Costs(1000, 1))
    )
    assert dear.contexts < cheap.contexts
    assert dear.levels["judge"] > cheap.levels["judge"]


def test_costs_below_zero_are_refused():
    with pytest.raises(InputError, match="judgement"):
        Costs(judgement=-1.0)


@pytest.mark.thorough
@pytest.mark.parametrize(("templates", "judges"), [(3, 3), (6, 5)])
def test_total_error_covers_the_population(templates, judges):
    """600 studies of binary verdicts, with templates, judges and contexts drawn anew; naive intervals cover less."""
    rng, spread = np.random.default_rng(judges), (1, 0.4, 0.5, 0.3, 0.3)
    truth = expit(0.4 + np.sqrt(np.sum(np.square(spread))) * rng.normal(size=10**6)).mean()
    covered = np.zeros(2)
    for _ in range(600):
        shapes = (60, 1, 1), (1, templates, 1), (1, 1, judges), (60, templates, 1), (60, 1, judges)
        logits = 0.4 + sum(size * rng.normal(size=shape) for size, shape in zip(spread, shapes, strict=True))
        values = rng.binomial(3, expit(logits)) / 3
        found = total_error(values, ["template", "judge"], bl.Resampling(), truth, (0.0, 1.0), half_width=9.0)
        covered += [each.ci_low <= truth <= each.ci_high for each in (found.naive, found.total)]
    naive, total = covered / 600
    assert naive < 0.85
    assert 0.92 <= total <= 0.98
