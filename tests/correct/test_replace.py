"""May a judge replace a person, and which verdicts may stand: printed values, inputs of every form, answers, errors."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import biaslab as bl
from biaslab import report
from biaslab.core.errors import BiaslabError, InputError, TrialsError
from biaslab.correct.alternative import Contest, decide, plan_items
from biaslab.correct.annotations import read_annotations
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
    assert 0.74 < np.mean(passed) < 0.86


@pytest.mark.slow
def test_no_number_of_items_helps_a_judge_far_behind():
    judged, people, context = studies(100, judge_noise=1.0)
    plan = plan_items(Contest.of(judged, people, context, list("abcd")), 0.1)
    assert plan.contexts is None


PEOPLE = ("ann", "bo", "cy")


def labels(items=200, noise=0.2, judge=0.1, seed=0, levels=2):
    """Labels of three people and of a judge who err independently, by annotator and item."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(levels, size=items)

    def given(share):
        wrong = rng.random(items) < share
        return {f"i{n}": int(v) for n, v in enumerate(np.where(wrong, rng.integers(levels, size=items), truth))}

    return {name: given(noise) for name in PEOPLE}, {"judge": given(judge)}


def words(by_annotator, one):
    return {who: {item: one if v else "other" + one for item, v in own.items()} for who, own in by_annotator.items()}


def table(by_annotator):
    rows = [(who, item, label) for who, own in by_annotator.items() for item, label in own.items()]
    return pd.DataFrame(rows, columns=["annotator", "item", "label"])


def log(items=120, seed=0):
    """Trials of scores with the ratings of three named people, four answers a question."""
    people, judge = labels(items, levels=5, seed=seed)
    rows = [
        {"question": f"q{n // 4}", "system": f"s{n % 4}", "score": judge["judge"][f"i{n}"] + 1}
        | {name: people[name][f"i{n}"] + 1 for name in PEOPLE}
        for n in range(items)
    ]
    mapping = {"context_id": "question", "candidate_id": "system", "score": "score", "ratings": "ann,bo,cy"}
    return bl.read_judgements(pd.DataFrame(rows), mapping=mapping | {"scale": "=1-5", "human_scale": "=1-5"})


def test_mapping_and_tables_give_the_same_answer():
    people, judge = labels()
    results = [
        bl.replace(judge, people, error=0.3),
        bl.replace(table(judge), table(people), error=0.3),
        bl.replace(table(people | judge), judges=["judge"], error=0.3),
    ]
    for result in results:
        assert result["judge"].decision == "yes"
        assert (result.estimates["estimate"].dropna() == results[0].estimates["estimate"].dropna()).all()


def test_contexts_of_people_are_those_of_verdicts():
    people, judge = labels()
    five = [each.assign(context=each["item"].str[-1]) for each in (table(judge), table(people))]
    expected = bl.replace(five[0], people)["judge"].winning_rate
    found = bl.replace(judge, five[1])["judge"].winning_rate
    assert (found.n_contexts, found.ci_low, found.ci_high) == (10, expected.ci_low, expected.ci_high)
    with pytest.raises(TrialsError, match="two contexts"):
        bl.replace(five[0].assign(context=five[0]["item"]), five[1])


def test_numbers_among_words_are_equal_as_numbers():
    people, judge = labels()
    apart = {who: {item: float(v) for item, v in own.items()} | {"other": "n/a"} for who, own in people.items()}
    assert bl.replace(judge, apart)["judge"].decision == "yes"


def test_words_are_labels_as_numbers_are():
    people, judge = labels()
    words = [
        {who: {item: "good" if label else "bad" for item, label in own.items()} for who, own in each.items()}
        for each in (judge, people)
    ]
    one, other = bl.replace(judge, people)["judge"], bl.replace(*words)["judge"]
    assert one.advantage_probability.estimate == other.advantage_probability.estimate
    assert set(other.items["judged"]) == {"good", "bad"}


def test_contexts_widen_intervals_of_related_items():
    people, judge = labels()
    both = table(people | judge).assign(context=lambda frame: "c" + frame["item"].str[1:-1])
    one, other = (bl.replace(each, judges=["judge"])["judge"] for each in (table(people | judge), both))
    assert one.advantage_probability.estimate == other.advantage_probability.estimate
    assert other.advantage_probability.n_contexts == 20
    assert one.advantage_probability.n_contexts == 200


def test_log_with_named_people_is_compared_by_distance():
    trials = log()
    [own] = read_annotations(trials)
    assert own.kind == "score"
    assert own.names == ["0", "1", "2"]
    assert own.people.shape == (120, 3)
    found = bl.replace(trials)
    assert found.judges[0].decision == "yes"
    assert found.judges[0].within == 1.0
    assert found.estimates["alignment"].dropna().unique().tolist() == ["neg_rmse"]
    assert found.judges[0].winning_rate.n_contexts == 30


def test_people_without_names_are_not_left_out():
    trials = log().assign(annotators=None)
    found = bl.replace(trials).judges[0]
    assert np.isnan(found.winning_rate.estimate)
    assert found.winning_rate.has_note("few_annotators")
    assert found.decision == "cannot tell"
    assert found.selection.labelled == 120


def test_pairs_take_people_from_a_table_of_labels():
    rng = np.random.default_rng(0)
    lead = rng.normal(size=80)
    pairs = pd.DataFrame({"context_id": [f"c{n}" for n in range(80)], "candidate_id": "x", "opponent_id": "y"})
    trials = pairs.assign(value=1 / (1 + np.exp(-3 * lead)), judge="j", dataset="d", attribute="a", status="ok")
    given = [pairs.assign(annotator=name, score=(lead + rng.normal(0, 0.5, 80) > 0).astype(float)) for name in PEOPLE]
    turned = pd.concat(given).rename(columns={"candidate_id": "opponent_id", "opponent_id": "candidate_id"})
    turned = turned.assign(score=1 - turned["score"])
    found = [bl.replace(trials, each, error=0.3).judges[0] for each in (pd.concat(given), turned)]
    assert found[0].decision == "yes"
    assert found[0].source == "label probabilities"
    assert found[0].items["confidence"].min() >= 0.5
    assert found[1].advantage_probability.estimate == found[0].advantage_probability.estimate
    assert len(found[0].annotators) == 3


def test_agreement_of_both_orders_is_a_confidence():
    rng = np.random.default_rng(0)
    lead = rng.normal(size=150)
    rows = []
    for sign, sides in ((1, ("x", "y")), (-1, ("y", "x"))):
        won = (sign * lead + 0.6 + rng.normal(0, 0.5, 150) > 0).astype(float)
        frame = {"context_id": [f"c{n}" for n in range(150)], "candidate_id": sides[0], "opponent_id": sides[1]}
        rows.append(pd.DataFrame(frame).assign(value=won, human_gap=sign * np.sign(lead)))
    trials = pd.concat(rows).assign(judge="j", dataset="d", attribute="a", status="ok")
    found = bl.replace(trials, error=0.15).judges[0]
    assert found.source == "both orders"
    assert set(found.items["confidence"]) == {0.5, 1.0}
    assert found.selection.threshold == 1.0
    assert (found.items["stands"] == (found.items["confidence"] == 1)).all()
    chosen = found.contexts_for_people(10)
    assert set(chosen["context_id"]) <= set(found.items.loc[~found.items["stands"], "context_id"])


def test_verdict_in_one_order_alone_has_no_confidence():
    pairs = pd.DataFrame({"context_id": [f"c{n}" for n in range(40)] * 2, "candidate_id": ["x"] * 40 + ["y"] * 40})
    pairs = pairs.assign(opponent_id=["y"] * 40 + ["x"] * 40, value=[1.0] * 40 + [0.0] * 40, human_gap=1.0)
    trials = pairs.assign(judge="j", dataset="d", attribute="a", status="ok")[:-10]
    [own] = read_annotations(trials)
    assert own.source == "both orders"
    assert own.items["confidence"].isna().sum() == 10
    assert own.items["confidence"].dropna().eq(1).all()


def test_missing_verdicts_that_could_turn_a_yes_leave_it_open():
    people, judge = labels(judge=0.0)
    for form in (lambda given: given, lambda given: words(given, "yes")):
        gaps = dict.fromkeys(list(judge["judge"])[:100])
        found = bl.replace({"judge": form(judge)["judge"] | gaps}, form(people))["judge"]
        assert (found.decision, found.winning_rate.estimate, found.plan) == ("cannot tell", 1.0, None)
        assert found.items["judged"].isna().sum() == 100
        assert not found.items["stands"][:100].any()
        few = dict(list(gaps.items())[:2])
        assert bl.replace({"judge": form(judge)["judge"] | few}, form(people))["judge"].decision == "yes"


def test_missing_verdicts_of_a_log_count_too():
    trials = log(200)
    trials = trials.assign(value=trials["human"].round())
    assert bl.replace(trials).judges[0].decision == "yes"
    gone = trials.assign(status=["unparsed"] * 80 + ["ok"] * 120)
    found = bl.replace(gone).judges[0]
    assert found.decision == "cannot tell"
    assert (len(found.items), found.items["judged"].isna().sum()) == (200, 80)


def test_share_of_samples_is_the_confidence_of_scores():
    rows = [("c1", 3), ("c1", 3), ("c1", 4), ("c2", 1), ("c2", 2), ("c2", 2)]
    trials = pd.DataFrame(rows, columns=["context_id", "value"]).assign(replicate=[0, 1, 2] * 2, status="ok")
    trials = trials.assign(
        candidate_id="x", judge="j", dataset="d", attribute="a", human=[3, 3, 3, 5, 5, 5], scale="1-5"
    )
    [own] = read_annotations(trials)
    assert own.source == "samples"
    assert own.items["judged"].tolist() == [3.0, 2.0]
    assert own.items["confidence"].round(3).tolist() == [0.667, 0.667]
    assert own.loss(1.0).tolist() == [0.0, 1.0]


def test_lean_towards_yes_is_what_was_planted():
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.1, 0.9, 2_000)
    trials = pd.DataFrame({"context_id": [f"c{n}" for n in range(2_000)], "value": np.minimum(chance + 0.1, 1.0)})
    trials = trials.assign(candidate_id="x", judge="j", dataset="d", attribute="a", status="ok", scale="0-1")
    trials = trials.assign(human=(rng.random(2_000) < chance).astype(float))
    lean = bl.replace(trials).estimates.set_index("metric").loc["lean_towards_yes"]
    assert lean["ci_low"] < 0.1 < lean["ci_high"]
    assert lean["p_value"] < 0.001


def test_judges_are_compared_in_pairs():
    people, judge = labels()
    other = labels(judge=0.9, seed=5)[1]["judge"]
    found = bl.replace(judge | {"other": other}, people)
    row = found.estimates[found.estimates["metric"] == "advantage_probability_difference"].iloc[0]
    assert (row["judge"], row["other_judge"]) == ("judge", "other")
    assert row["ci_low"] > 0
    assert row["q_value"] < 0.001
    assert found["other"].decision == "no"


def test_undecided_judge_gets_a_plan():
    people, judge = labels(50, judge=0.6)
    found = bl.replace(judge, people)["judge"]
    assert found.decision == "cannot tell"
    assert found.plan.contexts > 50


def test_estimates_go_to_every_report():
    people, judge = labels()
    given = table(judge).assign(confidence=np.random.default_rng(0).uniform(0.5, 1, 200))
    found = bl.replace(given, table(people), error=0.3)
    assert "overconfidence" in found.estimates.set_index("metric").index
    macros = report.to_macros(found.estimates, ["winning_rate", "advantage_probability"])
    assert r"\biasReplaceWinningRateOverall}{1.000}" in macros
    assert r"$\omega$" in report.to_latex(found.estimates, "winning_rate")
    assert "Calderon" in report.methods(found.estimates)
    assert set(report.card(found.estimates, reference=None).biases["metric"]) == {"overconfidence", "lean_towards_yes"}
    assert found.to_html().count("<li>") == len(list(found["judge"].sentences()))


@pytest.mark.parametrize(
    ("change", "error", "name"),
    [
        (lambda judge, people: bl.replace(judge, people, epsilon=1), InputError, "epsilon"),
        (lambda judge, people: bl.replace(judge, people, error=10), InputError, "error"),
        (lambda judge, people: bl.replace(judge, people, alignment="kappa"), InputError, "alignment"),
        (lambda judge, people: bl.replace(judge, people, least=1), InputError, "least"),
        (lambda judge, people: bl.replace(judge, people, epsilon="x"), InputError, "epsilon"),
        (lambda judge, people: bl.replace(judge, people, within=float("nan")), InputError, "within"),
        (lambda judge, people: bl.replace(judge, people, within=-1), InputError, "within"),
        (lambda judge, people: bl.replace(table(people)), InputError, "judges"),
        (lambda judge, people: bl.replace(table(people), judges=["dan"]), InputError, "dan"),
        (lambda judge, people: bl.replace(pd.concat([table(judge)] * 2), people), TrialsError, "twice"),
        (lambda judge, people: bl.replace({"judge": {"else": 1}}, people), TrialsError, "nobody labelled"),
        (lambda judge, people: bl.replace(table(judge).assign(context="c"), people), TrialsError, "one context"),
        (lambda judge, people: bl.replace(table(judge).drop(columns="label"), people), BiaslabError, "label"),
        (lambda judge, people: bl.replace(table(judge).assign(confidence=7), people), TrialsError, "confidence"),
        (lambda judge, people: bl.replace(table(judge).assign(confidence="90%"), people), TrialsError, "confidence"),
        (lambda judge, people: bl.replace(judge, people | judge), InputError, "judge is"),
        (lambda judge, people: bl.replace(judge, people, judges=["dan"]), InputError, "dan"),
        (lambda judge, people: bl.replace(log(), judges=["dan"]), InputError, "dan"),
        (lambda judge, people: bl.replace(table(people | judge), judges="judge"), InputError, "judges"),
        (lambda judge, people: bl.replace(words(judge, "Yes"), words(people, "yes")), TrialsError, "'Yes'"),
        (lambda judge, people: bl.replace(words(judge, "yes"), people), TrialsError, "in common"),
        (lambda judge, people: bl.replace({"judge": {"i0": [1]}}, people), TrialsError, "lists"),
        (lambda judge, people: bl.replace({"judge": {"i0": float("inf")}}, people), TrialsError, "inf"),
        (lambda judge, people: bl.replace({}, people), TrialsError, "no labels"),
        (lambda judge, people: bl.replace(table(judge).assign(item=np.nan), people), TrialsError, "item"),
        (lambda judge, people: bl.replace(judge, "people.csv"), InputError, "labels"),
        (lambda judge, people: bl.replace(judge, people, alignment=lambda *_: np.nan), InputError, "alignment"),
        (lambda judge, people: bl.replace({"judge": 1}, people), InputError, "judged"),
        (lambda judge, people: bl.replace([1, 2], people), InputError, "judged"),
    ],
)
def test_wrong_input_is_named(change, error, name):
    people, judge = labels()
    with pytest.raises(error, match=name):
        change(judge, people)


def test_codes_of_one_and_two_agree_if_equal():
    people, judge = labels(judge=0.9)
    codes = [{who: {i: v + 1 for i, v in own.items()} for who, own in given.items()} for given in (judge, people)]
    found = bl.replace(*codes)["judge"]
    assert not found.items["stands"].any()
    assert np.allclose(found.items["loss"], bl.replace(judge, people)["judge"].items["loss"])


def test_other_scale_of_people_is_refused():
    trials = log()
    given = trials[["context_id", "candidate_id"]].assign(score=np.arange(120) % 101)
    with pytest.raises(TrialsError, match="convert"):
        bl.replace(trials.drop(columns=["human", "ratings", "annotators", "human_scale"]), given)


def test_constant_labels_give_nan_with_the_reason():
    people = {name: dict.fromkeys(range(60), 1) for name in PEOPLE}
    found = bl.replace({"judge": dict.fromkeys(range(60), 1)}, people)["judge"]
    assert found.decision == "cannot tell"
    assert found.winning_rate.has_note("constant_labels")
    assert np.isnan(found.advantage_probability.estimate)


def test_one_annotator_gives_nan_with_the_reason():
    people, judge = labels()
    found = bl.replace(judge, {"ann": people["ann"]}, error=0.3)["judge"]
    assert np.isnan(found.winning_rate.estimate)
    assert found.winning_rate.has_note("few_annotators")
    assert found.selection.coverage == 1.0


LEVEL = dict(zip("abcxyzuvw", np.linspace(2.6, 3.4, 9), strict=True))


def judged_by(judge, shift=0.0, noise=0.3, systems="xyz", seed=0, contexts=60):
    """Scores of systems in contexts, which differ; the judge adds a shift and errors of its own."""
    quality = np.random.default_rng(seed).normal(0, 0.5, (contexts, 1 + len(LEVEL)))
    columns = [1 + [*LEVEL].index(name) for name in systems]
    values = quality[:, columns] + quality[:, :1] + [LEVEL[name] for name in systems] + shift
    values = values + np.random.default_rng([seed, len(judge)]).normal(0, noise, values.shape)
    frame = pd.DataFrame({"context_id": np.repeat([f"c{n}" for n in range(contexts)], len(systems))})
    frame = frame.assign(candidate_id=list(systems) * contexts, value=values.ravel(), judge=judge, status="ok")
    return frame.assign(dataset="d", attribute="a", scale="1-5")


def parts(old, new, **more):
    return bl.replace.judge(old, new, biases=False, **more).estimates


def test_judge_against_itself_is_equivalent():
    found = parts(judged_by("old"), judged_by("old"))
    assert set(found["equivalence"].dropna()) == {"equivalent"}
    assert (found["estimate"] == 0).all()


@pytest.mark.slow
def test_alike_judges_are_equivalent_with_power_eighty():
    alike = []
    for seed in range(100):
        found = parts(judged_by("o", seed=seed, contexts=34), judged_by("new", seed=seed, contexts=34))  # 102 items
        alike.append(found.set_index("metric").loc["judge_part", "equivalence"] == "equivalent")
    assert np.mean(alike) >= 0.8


@pytest.mark.slow
def test_planted_changes_of_judge_and_systems_are_covered():
    means = [np.mean([LEVEL[name] for name in systems]) for systems in ("abcxy", "xyuvw")]
    truth, covered = {"judge_part": 0.4, "systems_part": means[1] - means[0]}, []
    for seed in range(100):
        old, new = judged_by("o", systems="abcxy", seed=seed), judged_by("new", 0.4, systems="xyuvw", seed=seed)
        found = parts(old, new).set_index("metric")
        covered.append([found.loc[m, "ci_low"] <= value <= found.loc[m, "ci_high"] for m, value in truth.items()])
        total = found["estimate"][list(truth)].sum()
        assert total == pytest.approx(found.loc["headline_change", "estimate"])
    assert np.mean(covered, axis=0).min() > 0.87  # .94 to .96 in 500 studies


def test_judge_who_favours_one_system_changes_the_ranking():
    new = judged_by("new")
    new["value"] += 0.6 * (new["candidate_id"] == "z")
    found = parts(judged_by("old"), new)
    shifts = found[found["metric"] == "system_shift"].set_index("system")
    assert shifts.loc["z", "estimate"] == pytest.approx(0.4, abs=0.15)
    assert shifts.loc["z", "equivalence"] == "different"


def test_agreement_with_people_rises_with_a_better_judge():
    people = judged_by("p", noise=0.0)[["context_id", "candidate_id", "value"]].rename(columns={"value": "score"})
    found = parts(judged_by("old", noise=0.8), judged_by("new", noise=0.1), labels=people).set_index("metric")
    assert found.loc["agreement_gain", "ci_low"] > 0.05


def test_bridge_is_the_line_through_both_scores():
    old = judged_by("old", noise=0.2)
    found = bl.replace.judge(old, old.assign(judge="new", value=0.5 + 0.8 * old["value"]), biases=False)
    bridge = found.bridges["a"]
    assert (bridge.intercept, bridge.slope, bridge.error) == pytest.approx((0.5, 0.8, 0.0), abs=1e-9)
    assert "0.800" in str(found)


@pytest.mark.slow
def test_biases_of_both_judges_are_compared():
    data = bl.load_dataset("graded", limit=24)
    probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    old, new = (
        bl.collect(probe, bl.SimulatedJudge(data, position=size, noise=1.0), data, progress=False)
        for size in (0.0, 2.0)
    )
    found = bl.replace.judge(old, new).estimates.set_index("metric")
    assert found.loc["first_position_rate_difference", "equivalence"] == "different"


@pytest.mark.parametrize(
    ("new", "name"),
    [
        (judged_by("new").assign(context_id="elsewhere"), "no item"),
        (judged_by("new").assign(scale="1-10"), "scales"),
        (pd.concat([judged_by("new"), judged_by("newer")]), "one judge"),
        (judged_by("new").assign(status="refused", value=np.nan), "could be read"),
    ],
)
def test_judges_without_the_same_items_are_refused(new, name):
    with pytest.raises(InputError, match=name):
        bl.replace.judge(judged_by("old"), new)


def test_two_equal_items_show_no_equivalence():
    for contexts, outcome in ((2, "cannot tell"), (5, "cannot tell"), (6, "equivalent")):
        old = judged_by("old", contexts=contexts)
        found = parts(old, old.assign(judge="new")).set_index("metric")
        assert found.loc["judge_part", "equivalence"] == outcome


@pytest.mark.parametrize("size", [-1, 0, np.nan, "x"])
def test_difference_that_matters_is_above_zero(size):
    with pytest.raises(InputError, match="matters"):
        parts(judged_by("old"), judged_by("new"), matters={"judge_part": size})


def test_panels_of_each_data_set_are_apart():
    one, other = panel(30)[0], panel(30, seed=1)[0].assign(dataset="e")
    whole = bl.replace.panel_sizes(pd.concat([one, other]), conditions=(2,), samples=(1,)).estimates
    single = [bl.replace.panel_sizes(each, conditions=(2,), samples=(1,)).estimates for each in (one, other)]
    assert whole["estimate"].tolist() == pd.concat(single)["estimate"].tolist()


_PEOPLE_ERR, _SLOPE, _OWN, _INTERACTION, _SAMPLING = 0.7, 0.8, 0.5, 0.5, 0.6


def panel(contexts, seed=0, judges=3, samples=2):
    """Scores by judges with errors of their own, in samples, and labels of three people."""
    rng = np.random.default_rng(seed)
    items = 3 * contexts
    truth = 3 + 0.6 * np.repeat(rng.normal(size=contexts), 3) + 0.8 * rng.normal(size=items)
    frame = pd.DataFrame(
        {"context_id": np.repeat(np.arange(contexts), 3).astype(str), "candidate_id": [*"xyz"] * contexts}
    )
    frame = frame.assign(dataset="d", attribute="a", status="ok")
    shared, parts = _SLOPE * truth + _OWN * rng.normal(size=items), []
    for judge in range(judges):
        own = shared + 0.2 * judge + _INTERACTION * rng.normal(size=items)
        for sample in range(samples):
            value = own + _SAMPLING * rng.normal(size=items)
            parts.append(frame.assign(judge=f"j{judge}", replicate=sample, value=value))
    given = [frame.assign(annotator=name, score=truth + _PEOPLE_ERR * rng.normal(size=items)) for name in PEOPLE]
    return pd.concat(parts), pd.concat(given)[["context_id", "candidate_id", "annotator", "score"]]


def true_panel(k, n):
    agreed = 0.6**2 + 0.8**2
    between = _SLOPE**2 * agreed + _OWN**2
    total = between + _INTERACTION**2 / k + _SAMPLING**2 / (k * n)
    found = {"panel_reliability": between / total, "panel_validity": _SLOPE * np.sqrt(agreed / total)}
    return found | {"panel_lead": found["panel_validity"] - np.sqrt(agreed / (agreed + _PEOPLE_ERR**2))}


@pytest.mark.slow
def test_panels_have_the_planted_reliability_and_validity():
    found = bl.replace.panel_sizes(*panel(3_000), conditions=(1, 2), samples=(1, 3), price=0.01)
    rows = found.estimates.set_index(["metric", "conditions", "samples"])["estimate"]
    for k, n in ((1, 1), (1, 3), (2, 1), (2, 3)):
        for metric, value in true_panel(k, n).items():
            assert rows[metric, k, n] == pytest.approx(value, abs=0.02)
    assert found.smallest is None  # a person is better than each of these
    assert found.estimates["price"].max() == 0.06


@pytest.mark.slow
def test_projections_of_panels_cover_their_values():
    contexts, covered = 24, {}
    for seed in range(60):
        rows = bl.replace.panel_sizes(*panel(contexts, seed), conditions=(2,), samples=(3,)).estimates.set_index(
            "metric"
        )
        for metric, value in true_panel(2, 3).items():
            covered.setdefault(metric, []).append(rows.loc[metric, "ci_low"] <= value <= rows.loc[metric, "ci_high"])
    assert min(map(np.mean, covered.values())) > 0.88


def test_panel_of_pairs_averages_both_orders():
    trials = panel(60)[0]
    trials = trials[trials["candidate_id"] == "x"].assign(opponent_id="y")
    turned = trials.assign(candidate_id="y", opponent_id="x", value=1 - trials["value"])
    both = bl.replace.panel_sizes(pd.concat([trials, turned]), conditions=(2,), samples=(3,)).estimates
    scores = bl.replace.panel_sizes(trials.drop(columns="opponent_id"), conditions=(2,), samples=(3,)).estimates
    assert both["estimate"].tolist() == pytest.approx(scores["estimate"].tolist())
    assert both["calls"].tolist() == [12]


def test_panel_without_people_has_a_reliability_alone():
    found = bl.replace.panel_sizes(panel(40)[0], conditions=(2,), samples=(1,)).estimates
    assert found["metric"].tolist() == ["panel_reliability"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda trials: trials[trials["judge"] == "j0"], "over"),
        (lambda trials: trials.assign(context_id=trials["context_id"] + trials["judge"]), "no item"),
    ],
)
def test_panel_of_one_or_of_other_items_is_refused(change, name):
    with pytest.raises(InputError, match=name):
        bl.replace.panel_sizes(change(panel(20)[0]))


def test_refusals_of_the_new_judge_can_turn_an_equivalence():
    rng = np.random.default_rng(0)
    old = pd.DataFrame({"context_id": [f"c{n}" for n in range(100)], "candidate_id": "x", "scale": "1-5"})
    old = old.assign(dataset="d", attribute="a", status="ok", value=rng.integers(1, 6, 100).astype(float), judge="old")
    refused = old["value"] >= 4
    new = old.assign(judge="new", value=old["value"] + rng.normal(0, 0.1, 100))
    lost = new.assign(status=np.where(refused, "refused", "ok"), value=new["value"].mask(refused))
    parts = [
        bl.replace.judge(old, each, biases=False).estimates.set_index("metric").loc["judge_part"]
        for each in (new, lost)
    ]
    assert [part["equivalence"] for part in parts] == ["equivalent", "cannot tell"]
    assert [int(part["n_dropped"]) for part in parts] == [0, refused.sum()]
    assert parts[1]["bound_high"] > 4 * refused.mean()


def labels_of_people(shown, missing=0.0, seed=1):
    rng = np.random.default_rng(seed)
    wrong = rng.random(len(shown)) < 0.1
    given = np.where(wrong, 1 - shown["truth"], shown["truth"])
    return shown[["context_id", "candidate_id"]].assign(score=given)[rng.random(len(shown)) >= missing]


def graded_trials(n=240, seed=0):
    """Pass or fail of single items, with a column of stated confidences."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"context_id": [f"c{place}" for place in range(n)], "candidate_id": "x"})
    frame = frame.assign(judge="j", dataset="d", attribute="a", status="ok", scale="0-1", template="t")
    truth, sure = rng.integers(2, size=n), rng.uniform(0.6, 1, n)
    value = np.where(rng.random(n) < sure, truth, 1 - truth).astype(float)
    return frame.assign(truth=truth, stated=sure, value=value)


def test_column_of_a_log_is_the_confidence():
    trials = graded_trials()
    found = bl.replace(trials, labels_of_people(trials), error=0.25, confidence="stated")["j"]
    assert found.source == "column"
    assert found.items["confidence"].tolist() == trials["stated"].tolist()
    stands = found.items["stands"]
    assert stands.any()
    assert found.items.loc[stands, "confidence"].min() > found.items.loc[~stands, "confidence"].max()
    with pytest.raises(InputError, match="stated"):
        bl.replace(trials.assign(stated=70), labels_of_people(trials), confidence="stated")


def test_sheet_for_people_shows_no_verdict():
    trials = graded_trials()
    labels = labels_of_people(trials, missing=0.5)
    found = bl.replace(trials, labels, error=0.3, confidence="stated")
    sheet = found.for_people
    assert list(sheet.columns) == ["context_id", "candidate_id", "attribute", "annotator", "score"]
    stands = found["j"].items.set_index("context_id")["stands"]
    assert set(sheet["context_id"]) == set(stands.index[~stands]) - set(labels["context_id"])
    more = sheet.merge(trials[["context_id", "truth"]]).assign(score=lambda frame: frame.pop("truth"), annotator="ann")
    again = bl.replace(trials, pd.concat([labels.assign(annotator="ann"), more]), error=0.3, confidence="stated")
    assert not set(again.for_people["context_id"]) & set(sheet["context_id"])


def test_recalibrated_confidence_reaches_unlabelled_items():
    trials = graded_trials(600)
    trials["stated"] = 0.5 + (trials["stated"] - 0.5) * 0.2  # less confident than right
    items = bl.replace(trials, labels_of_people(trials, missing=0.5), confidence="stated")["j"].items
    unlabelled = items["labels"] == 0
    assert 200 < unlabelled.sum() < 400
    right = (items["judged"].to_numpy() == trials["truth"].to_numpy())[unlabelled].mean()
    for name in ("temperature", "isotonic"):
        assert abs(items.loc[unlabelled, name].mean() - (0.1 + 0.8 * right)) < 0.06
    assert abs(items.loc[unlabelled, "confidence"].mean() - right) > 0.1


def test_people_named_unnamed_are_people():
    truth = np.random.default_rng(0).integers(2, size=60)
    people = {f"unnamed {name}": dict(enumerate(truth)) for name in "abc"}
    assert bl.replace({"j": dict(enumerate(truth))}, people)["j"].decision == "yes"


def test_verdicts_outside_the_range_of_labels_are_refused():
    rng = np.random.default_rng(0)
    people = {name: dict(enumerate(rng.integers(1, 6, 60))) for name in ("ann", "bo")}
    with pytest.raises(InputError, match="20 to"):
        bl.replace({"j": dict(enumerate(20.0 + np.arange(60)))}, people)


def test_repeated_verdicts_in_one_order_are_samples():
    trials = graded_trials().assign(opponent_id="y", human_gap=1.0)
    repeated = pd.concat([trials, trials])
    [own] = read_annotations(repeated)
    assert own.source == "samples"


def test_unknown_metric_that_matters_is_refused():
    trials = graded_trials()
    with pytest.raises(InputError, match="no_metric"):
        bl.replace.judge(trials, trials.assign(judge="k"), biases=False, matters={"no_metric": 0.1})
