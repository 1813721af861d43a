"""Pairs judged in one order: type-I error and coverage by a generator of its own, balance, and what is refused."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import biaslab as bl
from biaslab.logs.audit.one_order import OneOrder
from biaslab.stats import Resampling

STRENGTH = {"weak": 0.0, "middling": 0.6, "strong": 1.5}


def log(items, position, seed, games=1, best_first=0.65, texts=False):
    """Return trials of pairs of systems in one order each, the stronger one more often first than second."""
    rng = np.random.default_rng(seed)
    names, strengths = np.array(list(STRENGTH)), np.array(list(STRENGTH.values()))
    each = np.argsort(rng.random((items, 3)), axis=1)[:, :games].ravel()
    one, two = np.array([(0, 1), (0, 2), (1, 2)])[each].T
    stronger_first = rng.random(len(each)) < best_first
    first, second = np.where(stronger_first, (two, one), (one, two))
    won = rng.random(len(each)) < 1 / (1 + np.exp(strengths[second] - strengths[first] - position))
    item = np.repeat(np.arange(items).astype(str), games)
    end = np.char.add(" ", item) if texts else ""
    table = {"context_id": np.char.add("q", item), "candidate_id": np.char.add(names[first], end)}
    table |= {"opponent_id": np.char.add(names[second], end), "winner": np.where(won, "first", "second")}
    return pd.DataFrame(table)


def log_odds(table):
    trials = bl.read_judgements(table, mapping={"judge": "=j"})
    found = bl.audit(trials, only=["one_order"], resampling=Resampling())
    return found.set_index("metric").loc["first_position_log_odds"]


def test_the_estimate_is_that_of_a_bradley_terry_regression():
    table = log(400, 0.5, seed=1)
    signs = {name: (table["candidate_id"] == name).astype(int) - (table["opponent_id"] == name) for name in STRENGTH}
    x = np.column_stack([np.ones(len(table)), signs["strong"], signs["weak"]])
    fit = sm.Logit((table["winner"] == "first").astype(float), x).fit(disp=0)
    found = log_odds(table)
    assert found["estimate"] == pytest.approx(fit.params.iloc[0], abs=1e-6)
    assert found["ci_low"] < 0.5 < found["ci_high"]
    assert "strengths of 3 systems; assumes random order: the log has nothing to check this with" in found["method"]


def test_single_texts_have_an_intercept_alone():
    table = log(200, 0.7, seed=2, best_first=0.5, texts=True)
    share = (table["winner"] == "first").mean()
    assert log_odds(table)["estimate"] == pytest.approx(np.log(share / (1 - share)), abs=1e-9)


def test_ties_are_excluded_but_not_counted_as_missing():
    table = log(200, 0.7, seed=2, best_first=0.5, texts=True)
    ties = table.index % 4 == 0
    trials = bl.read_judgements(table.assign(winner=table["winner"].where(~ties, "tie")), mapping={"judge": "=j"})
    found = bl.audit(trials, only=["one_order"], resampling=Resampling())
    assert found["estimate"].item() == pytest.approx(log_odds(table[~ties])["estimate"], abs=1e-9)
    assert (found["n_trials"].item(), found["n_dropped"].item()) == (150, 0)
    assert "missing" not in bl.report.verdicts(found)[0]


def test_estimate_is_undefined_for_a_system_always_first():
    table = log(100, 0.7, seed=3, best_first=1.0)
    table = table[(table["candidate_id"] == "strong") & (table["opponent_id"] == "weak")]
    found = log_odds(table)
    assert np.isnan(found["estimate"])
    assert "strong is always shown first" in found["note"]


def test_lengths_that_are_not_balanced_enter_the_model():
    """A judge that decides by length alone, and longer texts that mostly stand first: no position bias is left."""
    rng = np.random.default_rng(4)
    gap = rng.normal(0.5, 1.0, 400)
    won = rng.random(400) < 1 / (1 + np.exp(-1.5 * gap))
    words = np.round(200 * np.exp(gap / 2))
    table = pd.DataFrame({"context_id": range(400), "candidate_id": [f"a{n}" for n in range(400)], "words": words,
                          "opponent_id": [f"b{n}" for n in range(400)], "opponent_words": 200.0,
                          "winner": np.where(won, "first", "second")})  # fmt: skip
    found = log_odds(table)
    assert "lengths not balanced, in the model" in found["method"]
    assert found["p_value"] > 0.05
    assert log_odds(table.drop(columns=["words", "opponent_words"]))["p_value"] < 0.001


def test_method_states_balanced_lengths():
    rng = np.random.default_rng(5)
    table = log(200, 0.0, seed=5, texts=True).assign(words=rng.integers(50, 99, 200), opponent_words=70)
    assert "lengths balanced (p 0." in log_odds(table)["method"]


def test_both_orders_and_unknown_order_are_not_run():
    table = log(30, 0.0, seed=6)
    swapped = table.rename(columns={"candidate_id": "opponent_id", "opponent_id": "candidate_id"})
    both = bl.audit(bl.read_judgements(pd.concat([table, swapped]), mapping={"judge": "=j"}), only=["one_order"])
    assert both.attrs["not_run"]["one_order"] == "pairs were judged in both orders; the probe position uses them better"
    unknown = bl.read_judgements(table, mapping={"judge": "=j", "order_known": "=false"})
    assert "needs to know which" in bl.audit(unknown, only=["one_order"]).attrs["not_run"]["one_order"]


def test_a_common_table_in_one_order_ends_in_a_finding(tmp_path, capsys):
    from biaslab.cli import main

    table = log(200, 0.9, seed=7, texts=True).replace({"winner": {"first": "A", "second": "B"}})
    names = {"context_id": "question", "candidate_id": "answer_a", "opponent_id": "answer_b"}
    table.rename(columns=names).to_csv(tmp_path / "log.csv", index=False)
    assert main(["audit", str(tmp_path / "log.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "found: ● one order, log odds of the first" in said
    assert "prefers the candidate shown first" in said
    assert "win rate" not in said
    assert "no bias could be tested" not in said


@pytest.mark.slow
@pytest.mark.parametrize(("items", "games"), [(60, 1), (400, 1), (60, 2)])
@pytest.mark.parametrize("position", [0.0, 0.5])
def test_type_one_error_and_coverage(items, games, position):
    """500 logs of systems of unequal quality in an unbalanced order; a standard error is .01.

    With 60 decisions the cluster jackknife (CR3) is conservative: it may find less, never more.
    """
    measure, rejected, covered, undefined = OneOrder(Resampling()), 0, 0, 0
    from biaslab.logs.audit.one_order import first_position_log_odds

    for seed in range(500):
        table = log(items, position, seed, games)
        decided = table.assign(won=(table["winner"] == "first").astype(float), human_gap=np.nan)
        found = first_position_log_odds(decided.assign(words=np.nan, opponent_words=np.nan), measure)
        undefined += np.isnan(found.ci_low)
        covered += found.ci_low <= position <= found.ci_high
        rejected += found.p_value < 0.05
    known = 500 - undefined
    assert undefined < 5
    assert 0.93 <= covered / known <= (0.98 if items == 60 else 0.97)
    if position == 0:
        assert (0.02 if items == 60 else 0.035) <= rejected / known <= 0.065
    print(items, games, position, rejected / known, covered / known, undefined)  # noqa: T201 - the figures


@pytest.mark.slow
def test_alpacaeval_with_its_order_has_one(shared_data):
    """The order of AlpacaEval is known of all pairs: its generator is seeded with the instruction."""
    import gzip
    import json

    file = sorted((shared_data / "recorded" / "alpaca_eval_new").glob("cohere*cot*.jsonl.gz"))[0]
    with gzip.open(file, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    table = pd.DataFrame(rows)
    seeds = ("is_switched_outputs" + text + "0" for text in table["instruction"])
    switched = [random.Random(seed).choices([False, True])[0] for seed in seeds]
    pairs = pd.DataFrame({
        "context_id": table["i"], "candidate_id": table["generator_1"], "opponent_id": table["generator_2"],
        "winner": table["preference"].map({1.0: "candidate", 2.0: "opponent"}).fillna("tie"), "swapped": switched,
    })  # fmt: skip
    trials = bl.read_judgements(pairs, mapping={"swapped": "swapped", "judge": "=j"})
    first = np.where(switched, pairs["winner"] == "opponent", pairs["winner"] == "candidate")
    decided = (pairs["winner"] != "tie").to_numpy()
    sign = np.where(switched, -1.0, 1.0)
    fit = sm.Logit(first[decided].astype(float), np.column_stack([np.ones(805), sign])[decided]).fit(disp=0)
    assert len(trials) == 805
    found = bl.audit(trials, only=["one_order"]).set_index("metric")
    estimate = found.loc["first_position_log_odds"]
    assert estimate["estimate"] == pytest.approx(fit.params[0], abs=1e-6)
    assert estimate["n_trials"] == decided.sum()
    print(estimate[["estimate", "ci_low", "ci_high", "p_value"]].to_dict())  # noqa: T201 - the figures


def test_constant_length_gap_is_not_separable_from_order():
    rows = [
        {"question": f"q{n}", "answer_a": f"a {n}", "answer_b": f"a b {n}", "winner": "AB"[n % 3 > 0]}
        for n in range(40)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bl.audit(bl.read_judgements(pd.DataFrame(rows)), only=["one_order"])
    [row] = found.to_dict("records")
    assert "lengths differ in the same way in every pair, which cannot be separated from order" in row["method"]
    assert row["ci_low"] < np.log(14 / 26) < row["ci_high"]


def test_constant_length_gap_per_context_is_not_balanced():
    words = {"answer_a": ["a b", "a b c"], "answer_b": ["a", "a"]}
    rows = [
        {"question": f"q{n // 2}", "model_a": "x", "model_b": f"y{n}", "winner": "AB"[n % 3 > 0]}
        | {side: texts[n % 2] for side, texts in words.items()}
        for n in range(40)
    ]
    found = bl.audit(bl.read_judgements(pd.DataFrame(rows)), only=["one_order"])
    assert "lengths not balanced, in the model (p 0)" in found["method"].item()
