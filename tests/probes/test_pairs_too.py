"""Probes of scores that compare pairs too: against planted biases, hand-made frames and the package krippendorff."""

import krippendorff
import numpy as np
import pandas as pd
import pytest
from studies import row_of, run

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.measures.ranking.pairs import ORDERS, Verdicts, in_two_orders

ONE = {"attributes": ["coherence"], "asks": ["pairs"]}
WINNERS = bl.Protocol.from_template(
    "{source}\n\n[A]\n{answer_a}\n\n[B]\n{answer_b}", name="winner",
    verdicts={"A": 1, "B": 0}, pattern=r"\[\[([AB])\]\]"
)  # fmt: skip


def verdicts_of(trials, exact=False):
    return Verdicts.of(in_two_orders(trials), "order", ORDERS, exact, "α")


def doubled(trials, by):
    """Ratings of each pair, and of its mirror image, in which names have changed places; one row a rater."""
    turned = in_two_orders(trials)
    turned = turned.assign(outcome=np.where(turned["status"] == "tie", 0.5, turned["value"]))
    units = ["context_id", "candidate_id", "opponent_id", *by[0]]
    wide = turned.pivot_table("outcome", units, by[1], sort=False).to_numpy(float)
    return np.vstack([wide, 1 - wide]).T


def test_alpha_between_samples_is_that_of_the_package(graded):
    probe = bl.probes.Consistency(**ONE, answer="text", replicates=4, temperature=1.0)
    judge = bl.SimulatedJudge(graded, quality=0.5, position=0.7)
    trials = bl.collect(probe, judge, graded, progress=False)
    found = probe.estimate(trials)
    own = krippendorff.alpha(doubled(trials, (["order"], "replicate")), level_of_measurement="nominal")
    assert row_of(found, "pair_alpha")["estimate"] == pytest.approx(own)
    gap = row_of(found, "order_alpha")["estimate"] - row_of(found, "pair_alpha")["estimate"]
    assert row_of(found, "order_gap")["estimate"] == pytest.approx(gap)


def test_order_alpha_with_ties_equals_krippendorff_package():
    rng, rows = np.random.default_rng(5), []
    for context in range(9):
        for pair in (("x", "y"), ("y", "x"), ("x", "z"), ("z", "x")):
            value = rng.choice([0.0, 0.5, 1.0])
            rows.append((str(context), *pair, value, "tie" if value == 0.5 else "ok"))
    trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "value", "status"])
    trials = trials.assign(human_gap=0.0, replicate=0)
    within, across, gap = verdicts_of(trials).alphas(bl.Resampling())
    wide = doubled(trials, ([], "order"))
    assert across.estimate == pytest.approx(krippendorff.alpha(wide, level_of_measurement="nominal"))
    assert np.isnan(within.estimate)
    assert "one sample" in gap.note


def test_names_of_candidates_change_nothing(graded):
    probe = bl.probes.Consistency(**ONE)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, position=1.0, noise=1.0), graded, progress=False)
    other = {f"c{n}": f"c{9 - n}" for n in range(10)}
    renamed = trials.assign(**{name: trials[name].map(other) for name in ("candidate_id", "opponent_id")})
    one, two = (probe.estimate(each)[["estimate", "ci_low", "ci_high"]] for each in (trials, renamed))
    pd.testing.assert_frame_equal(one, two)


def test_judge_picking_the_first_agrees_only_within_orders(graded):
    probe = bl.probes.Consistency(**ONE, answer="text", replicates=3, temperature=0.0)
    found = run(probe, bl.SimulatedJudge(graded, quality=0.0, position=9.0), graded)
    assert row_of(found, "pair_alpha")["estimate"] == pytest.approx(1)
    assert row_of(found, "order_alpha")["estimate"] == pytest.approx(-1, abs=0.01)


@pytest.mark.slow
def test_exact_alphas_are_the_limit_of_samples(graded):
    judge = bl.SimulatedJudge(graded, quality=0.6, position=0.8)
    exact = run(bl.probes.Consistency(**ONE), judge, graded)
    text = run(bl.probes.Consistency(**ONE, answer="text", replicates=40), judge, graded)
    for metric in ("pair_alpha", "order_alpha", "order_gap"):
        known, sampled = row_of(exact, metric), row_of(text, metric)
        assert sampled["estimate"] == pytest.approx(known["estimate"], abs=0.03)
    assert np.isnan(row_of(exact, "order_gap")["p_value"])
    assert row_of(text, "order_gap")["p_value"] < 0.01


def test_a_judge_without_position_bias_has_no_gap(graded):
    found = run(bl.probes.Consistency(**ONE), bl.SimulatedJudge(graded, quality=0.6), graded)
    assert row_of(found, "order_gap")["estimate"] == pytest.approx(0)
    assert row_of(found, "pair_alpha")["estimate"] == pytest.approx(row_of(found, "order_alpha")["estimate"])


@pytest.mark.slow
def test_temperature_acts_alike_on_probabilities_and_samples(graded):
    judge = bl.SimulatedJudge(graded, quality=0.6)
    exact, text = (
        row_of(run(bl.probes.Consistency(**ONE, temperature=0.5, **how), judge, graded), "pair_alpha")["estimate"]
        for how in ({}, {"answer": "text", "replicates": 40})
    )
    assert text == pytest.approx(exact, abs=0.03)
    greedy = row_of(run(bl.probes.Consistency(**ONE, temperature=0), judge, graded), "pair_alpha")
    assert greedy["estimate"] > exact


def test_scores_stay_as_they_are_beside_pairs(graded):
    alone = bl.probes.Consistency(["coherence"], ["1-5"], joint=False, n_candidates=3, replicates=3)
    both = bl.probes.Consistency(
        ["coherence"], ["1-5"], joint=False, n_candidates=3, replicates=3, asks=["pairs", "scores"]
    )
    judge = bl.SimulatedJudge(graded, noise=0.5)
    one, two = run(alone, judge, graded), run(both, judge, graded)
    two = two[two["configuration"] != "pairs"].reset_index(drop=True)
    pd.testing.assert_frame_equal(one.drop(columns="q_value"), two.drop(columns="q_value"))
    assert len(list(both.design(graded.head(1)))) == 3 * 3 + 3 * 2  # samples of three texts, and their pairs


def test_a_protocol_of_pairs_asks_for_pairs(graded):
    probe = bl.probes.Consistency(["coherence"], protocol=WINNERS, replicates=2)
    assert probe.asks == ("pairs",)
    trials = bl.collect(probe, bl.SimulatedJudge(graded), graded.head(4), progress=False)
    assert set(trials["protocol"]) == {WINNERS.id}
    assert row_of(probe.estimate(trials), "pair_alpha")["estimate"] > 0


def test_pairs_need_two_candidates():
    with pytest.raises(InputError, match="n_candidates"):
        bl.probes.Consistency(asks=["pairs"], n_candidates=1)
    with pytest.raises(InputError, match="asks"):
        bl.probes.Consistency(asks=["lists"])


def source_frame(rows):
    columns = ["context_id", "candidate_id", "opponent_id", "human_gap", "with", "without"]
    trials = pd.DataFrame(rows, columns=columns).melt(columns[:4], var_name="source")
    fixed = {"judge": "j", "dataset": "d", "attribute": "q", "scale": "pairs", "answer": "text", "replicate": 0}
    return trials.assign(status=np.where(trials["value"] == 0.5, "tie", "ok"), human=np.nan, label_mass=np.nan, **fixed)


def test_source_of_pairs_computed_by_hand():
    rows = [
        ("a", "x", "y", 1.0, 1.0, 0.0), ("a", "y", "x", -1.0, 0.0, 0.0), ("a", "x", "z", 2.0, 1.0, 0.5),
        ("b", "x", "y", -1.0, 0.0, 1.0), ("b", "y", "x", 1.0, 0.0, 1.0), ("b", "x", "z", 0.0, 1.0, 0.0),
        ("c", "x", "y", 3.0, 1.0, 1.0), ("c", "y", "x", -3.0, 0.0, 1.0), ("c", "x", "z", 1.0, 0.0, 1.0),
    ]  # fmt: skip
    found = bl.probes.Source(asks=["pairs"]).estimate(source_frame(rows))
    right = {"with": 6 / 8, "without": 4 / 7}  # a tie is no decision, equal human scores say nothing
    for source, share in right.items():
        assert row_of(found, "comparative_accuracy", source=source)["estimate"] == pytest.approx(share)
    assert row_of(found, "accuracy_loss")["estimate"] == pytest.approx(6 / 8 - 4 / 7)
    assert row_of(found, "verdict_change")["estimate"] == pytest.approx(7 / 9)
    assert "one sample" in row_of(found, "resampling_change")["note"]


def test_source_leaves_out_the_context_of_pairs_and_nothing_else(graded):
    trials = list(bl.probes.Source(**ONE).design(graded.head(2)))
    sources = graded.candidates.drop_duplicates("context_id").set_index("context_id")["context"]
    for one, other in zip(trials[::2], trials[1::2], strict=True):
        shown = sources[one.context_id]
        assert (one.condition["source"], other.condition["source"]) == ("with", "without")
        assert one.request.messages[0].content.replace(shown, "").strip() == other.request.messages[0].content
        assert (one.candidate_id, one.opponent_id) == (other.candidate_id, other.opponent_id)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"answer": "text", "replicates": 2}])
def test_planted_reliance_on_the_source_is_found_in_pairs(graded, how):
    probe = bl.probes.Source(**ONE, **how)
    blind = run(probe, bl.SimulatedJudge(graded, source_reliance=1.0, noise=0.5), graded)
    fair = run(probe, bl.SimulatedJudge(graded, noise=0.5), graded)
    assert row_of(blind, "accuracy_loss")["p_value"] < 0.01
    assert row_of(blind, "accuracy_loss")["ci_low"] > 0.1
    assert abs(row_of(fair, "accuracy_loss")["estimate"]) < 0.1
    assert row_of(blind, "verdict_change")["estimate"] > row_of(blind, "resampling_change")["estimate"] + 0.05


def test_verdict_change_equals_resampling_without_source_effect(graded):
    exact = run(bl.probes.Source(**ONE), bl.SimulatedJudge(graded, quality=0.5, position=0.3), graded)
    change, floor = (row_of(exact, metric)["estimate"] for metric in ("verdict_change", "resampling_change"))
    assert change == pytest.approx(floor)
    assert row_of(exact, "accuracy_loss")["estimate"] == 0


@pytest.mark.parametrize("form", ["pairs", "scores"])
def test_a_protocol_says_whether_the_source_probe_asks_for_pairs(graded, form):
    score = bl.Protocol.from_template("{source}\n\n{answer}\n\n1 to 5?", "score", scale="1-5", name="score")
    probe = bl.probes.Source(["coherence"], protocol=WINNERS if form == "pairs" else score)
    assert probe.asks == (form,)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, noise=0.2), graded.head(4), progress=False)
    metric = "accuracy_loss" if form == "pairs" else "agreement_loss"
    assert (probe.estimate(trials)["metric"] == metric).any()


def test_source_compares_by_a_function_of_two_texts(graded):
    def longer(first, second):
        return "first" if len(first) > len(second) else "second"

    found = run(bl.probes.Source(**ONE), longer, graded, ["accuracy_loss", "verdict_change"])
    assert found["estimate"].tolist() == [0.0, 0.0]


ORDER = {"attributes": ["coherence"], "asks": ["pairs"], "n_candidates": 4}


def test_reasons_are_placed_as_asked_in_an_unchanged_question(graded):
    probe = bl.probes.OutputOrder(**ORDER)
    trials = list(probe.design(graded.head(1)))
    assert len(trials) == 4 * 3 * 3 * probe.replicates
    for alone, after, before in zip(*(trials[k::3] for k in range(3)), strict=True):
        assert [each.condition["order"] for each in (alone, after, before)] == ["s", "sr", "rs"]
        words = [each.request.messages[0].content for each in (alone, after, before)]
        shared = words[0][: words[0].index(" Answer with")]
        assert all(text.startswith(shared) for text in words)
        assert words[1].endswith("<reasons>")
        assert words[2].splitlines()[-2] == "<reasons>"
        assert alone.request.max_tokens < before.request.max_tokens == probe.max_tokens


def test_verdicts_beside_reasons_are_read():
    probe = bl.probes.OutputOrder(**ORDER)
    trial = next(each for each in probe.design(bl.load_dataset("graded", limit=1)) if each.condition["order"] == "rs")
    replies = {
        "Summary A leaves out the date, Summary B does not.\nAnswer: Summary B": (0.0, "ok"),
        "Answer: Summary A\nIt is in order, unlike Summary B.": (1.0, "ok"),
    }
    for text, read in replies.items():
        assert probe.read(trial, bl.Reply(text=text)) == read
    assert probe.read(trial, bl.Reply(text="Both Summary A and Summary B are fine."))[1] == "unparsable"


@pytest.mark.slow
def test_a_position_bias_of_reasons_is_found_beside_its_noise(graded):
    probe = bl.probes.OutputOrder(**ORDER)
    biased = run(probe, bl.SimulatedJudge(graded, quality=0.5, reason_first=0.4), graded)
    fair = run(probe, bl.SimulatedJudge(graded, quality=0.5), graded)
    found = row_of(biased, "first_shift", order="rs-sr")
    assert found["p_value"] < 0.01
    rates = [row_of(biased, "first_position_rate", order=order)["estimate"] for order in ("rs", "sr")]
    assert found["estimate"] == pytest.approx(rates[0] - rates[1])
    assert abs(row_of(fair, "first_shift", order="rs-sr")["estimate"]) < 0.1
    assert row_of(biased, "consistency_shift", order="rs-sr")["ci_high"] < 0
    change, floor = (
        row_of(biased, name, order="rs-sr")["estimate"] for name in ("verdict_change", "resampling_change")
    )
    assert change > floor + 0.03


def test_shifts_between_orders_of_reasons_computed_by_hand():
    verdicts = {("x", "y"): {"sr": 1, "rs": 1}, ("y", "x"): {"sr": 0, "rs": 1}}
    rows = [
        (context, *pair, 1.0 if pair[0] == "x" else -1.0, order, float(value))
        for context in "abc"
        for pair, of_order in verdicts.items()
        for order, value in of_order.items()
    ]
    trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "human_gap", "order", "value"])
    fixed = {"judge": "j", "dataset": "d", "attribute": "q", "scale": "pairs", "form": "pairs", "rules": False}
    lost = trials.assign(status="ok", replicate=0, label_mass=np.nan, **fixed)
    lost.loc[(lost["context_id"] == "c") & (lost["candidate_id"] == "x"), ["value", "status"]] = np.nan, "unparsable"
    with pytest.warns(bl.errors.MissingDataWarning):
        found = bl.probes.OutputOrder(asks=["pairs"]).estimate(lost)
    shifts = {"first_shift": 0.5, "accuracy_shift": -0.5, "consistency_shift": -1.0, "verdict_change": 0.5}
    for metric, value in shifts.items():
        row = row_of(found, metric, order="rs-sr")
        assert (row["estimate"], row["n_contexts"], row["n_dropped"]) == (pytest.approx(value), 2, 4)


def drawn(rng, contexts, bias, k):
    """Both orders of three pairs a context, k texts each, from a logistic model with a bias that differs by context."""
    i, j = np.triu_indices(3, 1)
    quality = rng.normal(size=(contexts, 3))
    shift = bias * (1 + rng.normal(size=(contexts, 1)))
    ahead = quality[:, i] - quality[:, j]
    parts = []
    for first, second, sign in ((i, j, 1), (j, i, -1)):
        p = 1 / (1 + np.exp(-sign * ahead - shift))
        shown = {"context_id": np.repeat(np.arange(contexts), 3).astype(str), "human_gap": (sign * ahead).ravel()}
        names = {"candidate_id": np.tile(first, contexts), "opponent_id": np.tile(second, contexts)}
        for replicate in range(k):
            won = (rng.random(p.shape) < p).ravel().astype(float)
            parts.append(pd.DataFrame(shown | names).assign(value=won, replicate=replicate))
    return pd.concat(parts, ignore_index=True).assign(status="ok")


@pytest.mark.thorough
@pytest.mark.parametrize("contexts", [12, 24, 100])
def test_the_gap_between_orders_keeps_its_level_and_finds_a_bias(contexts):
    studies = 200
    found = {
        bias: [
            verdicts_of(drawn(np.random.default_rng([seed, contexts]), contexts, bias, 3)).alphas(bl.Resampling())[2]
            for seed in range(studies)
        ]
        for bias in (0.0, 1.0)
    }
    rejected = {bias: np.mean([gap.p_value < 0.05 for gap in gaps]) for bias, gaps in found.items()}
    assert rejected[0.0] < 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)
    assert rejected[1.0] > 0.4
