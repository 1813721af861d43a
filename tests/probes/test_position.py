"""The position probe against planted biases, known fractions and published judges."""

import gzip
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from studies import row_of, run

import biaslab as bl
from biaslab.core import Reply
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.judges.repetition import Sampled
from biaslab.measures.ranking.pairs import both_orders
from biaslab.probes import position
from biaslab.probes.position import Position
from biaslab.prompts.parsing import parse_choice


def estimate_of(estimates, metric, **cell):
    """Of all pairs together, whatever their gap."""
    return row_of(estimates, metric, human_gap=None, **cell)


def pairs_frame(rows, judge="judge", dataset="data", attribute="coherence"):
    columns = ["context_id", "candidate_id", "opponent_id", "value", "status", "human_gap"]
    fixed = {"judge": judge, "dataset": dataset, "attribute": attribute, "template": 1, "replicate": 0}
    return pd.DataFrame(rows, columns=columns).assign(**fixed, label_mass=np.nan)


def test_design_is_every_pair_in_both_orders(graded):
    trials = list(Position(attributes=["fluency"]).design(graded))
    assert len(trials) == 8 * 15 * 2 * 2
    assert len({t.request for t in trials}) == len(trials)
    first = trials[0].request.messages[0].content
    texts = graded.candidates.set_index(["context_id", "candidate_id"])["text"]
    shown = [texts[trials[0].context_id, c] for c in (trials[0].candidate_id, trials[0].opponent_id)]
    assert first.index("Summary A: " + shown[0]) < first.index("Summary B: " + shown[1])
    assert "fluent" in first


def test_drawn_pairs_depend_on_seed_and_context_alone(graded):
    def drawn(data, seed):
        trials = Position(attributes=["fluency"], templates=[1], n_pairs=4, seed=seed).design(data)
        return {(t.context_id, t.candidate_id, t.opponent_id) for t in trials}

    few, many = drawn(graded.head(2), 0), drawn(graded, 0)
    assert few < many
    assert len(few) == 2 * 4 * 2
    assert {(c, b, a) for c, a, b in few} == few
    assert drawn(graded, 1) != many


@pytest.mark.parametrize("bias", [-1.0, 0.0, 0.7])
def test_planted_bias_comes_back_in_logits(graded, bias):
    judge = bl.SimulatedJudge(graded, quality=0.8, position=bias)
    found = estimate_of(run(Position(["coherence"], [1]), judge, graded), "first_position_logit")
    assert found["estimate"] == pytest.approx(bias, abs=1e-9)


def test_metrics_of_a_noiseless_judge_are_known_fractions(graded):
    """Without noise the first wins exactly where quality × gap + position > 0, which the human scores tell."""
    judge = bl.SimulatedJudge(graded, quality=1.0, position=1.2)
    estimates = run(Position(["coherence"], [1]), judge, graded)
    means = graded.human_means["coherence"]
    gaps = np.array(
        [s - t for _, g in means.groupby("context_id") for a, s in g.items() for b, t in g.items() if a != b]
    )
    assert estimate_of(estimates, "first_position_rate")["estimate"] == pytest.approx(np.mean(gaps + 1.2 > 0))
    assert estimate_of(estimates, "order_consistency")["estimate"] == pytest.approx(np.mean(np.abs(gaps) > 1.2))
    assert estimate_of(estimates, "primacy_share")["estimate"] == 1.0
    rated = gaps[gaps != 0]
    assert estimate_of(estimates, "comparative_accuracy")["estimate"] == pytest.approx(
        np.mean((rated + 1.2 > 0) == (rated > 0))
    )
    p = expit(gaps + 1.2)
    floor = estimate_of(estimates, "resampling_consistency")["estimate"]
    assert floor == pytest.approx(np.mean(p**2 + (1 - p) ** 2))


def test_share_of_better_firsts_follows_the_stated_probability(graded):
    judge = bl.SimulatedJudge(graded, quality=1.0, noise=0.5)
    trials = bl.collect(Position(["coherence", "fluency"], [1]), judge, graded, progress=False)
    curve = position.better_by_stated(trials, bins=3)
    rated = trials[trials["human_gap"].ne(0)]
    cuts = rated["value"].quantile([1 / 3, 2 / 3]).to_numpy()
    codes = np.searchsorted(cuts, rated["value"])
    for column, values in (("stated", rated["value"]), ("estimate", rated["human_gap"] > 0)):
        assert curve[column].to_numpy() == pytest.approx(values.groupby(codes).mean().to_numpy())
    assert curve["n_trials"].sum() == len(rated)
    assert curve["estimate"].iloc[0] < 0.2 < 0.8 < curve["estimate"].iloc[-1]


def test_stated_probability_of_a_blind_judge_is_not_reliable(graded):
    judge = bl.SimulatedJudge(graded, quality=0.0, position=1.0)
    [row] = position.better_by_stated(run_trials(judge, graded)).to_dict("records")
    assert (row["stated"], row["estimate"]) == (pytest.approx(expit(1.0)), 0.5)  # both orders of every pair
    assert position.better_by_stated(run_trials(judge, graded).assign(human_gap=np.nan)).empty


def test_verdicts_are_binned_by_what_was_chosen(graded):
    trials = run_trials(bl.SimulatedJudge(graded, quality=2.0), graded)
    trials = trials.assign(value=(trials["value"] > 0.5) * 1.0)
    curve = position.better_by_stated(trials)
    assert curve["stated"].tolist() == [0, 1]
    assert curve["estimate"].iloc[0] < 0.2 < 0.8 < curve["estimate"].iloc[1]


def run_trials(judge, data):
    return bl.collect(Position(["coherence"], [1]), judge, data, progress=False)


def test_bias_grows_as_the_gap_shrinks(graded):
    judge = bl.SimulatedJudge(graded, quality=1.0, position=1.0, noise=1.0)
    estimates = run(Position(["coherence"], [1]), judge, graded)
    curve = estimates[estimates["human_gap"].notna() & (estimates["metric"] == "first_position_rate")]
    assert len(curve) >= 3
    assert curve.sort_values("human_gap")["estimate"].is_monotonic_decreasing
    pooled = np.average(curve["estimate"], weights=curve["n_trials"])
    assert pooled == pytest.approx(estimate_of(estimates, "first_position_rate")["estimate"])


@pytest.mark.slow
def test_text_answers_agree_with_distributions(graded):
    judge = bl.SimulatedJudge(graded, quality=0.5, position=0.5)
    soft = run(Position(["coherence"], [1]), judge, graded)
    text = run(Position(["coherence"], [1], answer="text", replicates=6), judge, graded)
    floor = estimate_of(soft, "resampling_consistency")
    sampled = estimate_of(text, "resampling_consistency")
    assert sampled["ci_low"] < floor["estimate"] < sampled["ci_high"]
    logit = estimate_of(text, "first_position_logit")
    assert logit["ci_low"] < 0.5 < logit["ci_high"]
    assert logit["method"] == "jackknife t over contexts; t test"


@pytest.mark.parametrize("k", [1, 3])
def test_shares_of_k_samples_estimate_single_answer_rates(graded, k):
    """Shares of k samples estimate what text answers do; majorities of them would say more, the larger k is."""
    judge = bl.SimulatedJudge(graded, quality=0.5, position=0.5)
    probe = Position(["coherence"], [1])
    trials = bl.collect(probe, Sampled(judge, k=k), graded, progress=False)
    assert (trials["status"] == "ok").all()  # half and half among samples is no tie
    estimates = probe.estimate(trials)
    for metric in ("first_position_rate", "order_consistency", "primacy_share", "comparative_accuracy"):
        found = estimate_of(estimates, metric)
        assert found["ci_low"] < judge.truth(metric, trials, temperature=1.0) < found["ci_high"]
    logit, floor = (estimate_of(estimates, name) for name in ("first_position_logit", "resampling_consistency"))
    assert logit["ci_low"] < 0.5 < logit["ci_high"]
    if k == 1:
        assert np.isnan(floor["estimate"])
        assert "k=2" in floor["note"]
    else:
        exact = estimate_of(run(probe, judge, graded), "resampling_consistency")["estimate"]
        assert floor["ci_low"] < exact < floor["ci_high"]


def test_a_selective_refusal_drops_whole_pairs_and_warns(graded):
    judge = bl.SimulatedJudge(graded, quality=1.0, position=0.0, refusal=0.5, selective=True)
    probe = Position(["coherence"], [1])
    trials = bl.collect(probe, judge, graded, progress=False)
    refused = trials[trials["status"] == "refused"]
    assert refused["value"].isna().all()
    assert (refused["human_gap"] < 0).all()
    with pytest.warns(MissingDataWarning, match="coherence"):
        estimates = probe.estimate(trials)
    found = estimate_of(estimates, "first_position_rate")
    assert found["n_dropped"] >= 2 * len(refused) - 1
    assert found["n_dropped"] + found["n_trials"] == len(trials)
    assert found["estimate"] == pytest.approx(0.5, abs=0.01)  # dropping only the refused order would give over 0.6


def test_ties_are_an_outcome_of_their_own():
    rows = [
        ("c1", "x", "y", 0.5, "tie", 1.0), ("c1", "y", "x", 0.5, "tie", -1.0),
        ("c2", "x", "y", 1.0, "ok", 1.0), ("c2", "y", "x", 0.5, "tie", -1.0),
        ("c3", "x", "y", 1.0, "ok", 1.0), ("c3", "y", "x", 0.0, "ok", -1.0),
    ]  # fmt: skip
    estimates = Position().estimate(pairs_frame(rows))
    assert estimate_of(estimates, "tie_rate")["estimate"] == pytest.approx(3 / 6)
    assert estimate_of(estimates, "first_position_rate")["estimate"] == pytest.approx(2 / 3)
    assert estimate_of(estimates, "order_consistency")["estimate"] == pytest.approx(2 / 3)
    assert np.isnan(estimate_of(estimates, "primacy_share")["estimate"])


@pytest.mark.slow
def test_rows_in_any_order_and_names_do_not_matter(graded):
    probe = Position(["coherence", "fluency"])
    trials = bl.collect(probe, bl.SimulatedJudge(graded, position=0.4, noise=1), graded, progress=False)
    plain = probe.estimate(trials)
    shuffled = probe.estimate(trials.sample(frac=1, random_state=1))
    renamed = trials.assign(
        **{c: trials[c].map(lambda name: f"z{99 - int(name[1:])}") for c in ("candidate_id", "opponent_id")}
    )
    key = ["metric", "attribute", "template", "human_gap"]
    for other in (shuffled, probe.estimate(renamed)):
        pd.testing.assert_frame_equal(
            plain.sort_values(key).reset_index(drop=True), other.sort_values(key).reset_index(drop=True)
        )


def test_every_estimated_metric_can_be_requested(graded):
    probe = Position(["coherence"])
    trials = bl.collect(probe, bl.SimulatedJudge(graded, position=0.5), graded, progress=False)
    everything = probe.estimate(trials)
    names = list(dict.fromkeys(everything["metric"]))
    assert set(probe.estimate(trials, names)["metric"]) == set(names)
    with pytest.raises(InputError) as caught:
        probe.estimate(trials, ["charm"])
    assert all(name in str(caught.value) for name in names)


def test_logits_are_computed_lazily(graded):
    """A rate is of decisions alone: it comes without the probabilities that a logit is of."""
    trials = bl.collect(Position(["coherence"], [1]), bl.SimulatedJudge(graded), graded, progress=False)
    blocks = both_orders(trials, "position")
    found = position._metrics(blocks.drop(columns=["p_ij", "p_ji"]), bl.Resampling())
    whole = position._metrics(blocks, bl.Resampling())
    rates = [metrics["first_position_rate"].estimate(bl.Resampling()) for metrics in (found, whole)]
    assert rates[0] == rates[1]
    with pytest.raises(KeyError, match="p_ij"):
        found["first_position_logit"]()


def test_flips_are_tested_alike_in_both_rates(graded):
    """P(A) and the share of primacy count the same flips, so they have one p-value, of a t test over contexts."""
    estimates = run(Position(["coherence"], [1]), bl.SimulatedJudge(graded, position=0.3, noise=1), graded)
    rate, primacy = (estimate_of(estimates, metric) for metric in ("first_position_rate", "primacy_share"))
    assert rate["p_value"] == pytest.approx(primacy["p_value"])
    assert rate["method"].endswith("t test")
    assert estimate_of(estimates, "first_position_logit")["method"].endswith("t test")


@pytest.mark.slow
def test_q_values_are_a_family_of_the_primary_metric(graded):
    estimates = run(Position(), bl.SimulatedJudge(graded, position=0.1, noise=2), graded)
    with_q = estimates[estimates["q_value"].notna()]
    assert set(with_q["metric"]) == {"first_position_rate"}
    assert len(with_q) == 8
    assert (with_q["q_value"] >= with_q["p_value"]).all()


@pytest.mark.parametrize(
    "options",
    [
        {"attributes": "coherence"}, {"templates": [3]}, {"n_pairs": 0}, {"answer": "maybe"}, {"replicates": 0},
        {"replicates": 3}, {"gap_bins": 0}, {"seed": -1},
    ],
)  # fmt: skip
def test_parameters_are_checked(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Position(**options)


def test_unknown_attribute_is_named(graded):
    with pytest.raises(InputError, match=r"beauty.*coherence"):
        list(Position(["beauty"]).design(graded))


def test_missing_columns_are_named():
    with pytest.raises(TrialsError, match="template"):
        Position().estimate(pd.DataFrame({"judge": []}))


def published_pairs(rows):
    frame = pairs_frame(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        return Position().estimate(frame)


@pytest.mark.parametrize(
    ("aspect", "first", "consistent"), [("coherence", 0.5213, 0.6436), ("consistency", 0.4024, 0.6436)]
)
def test_gpt35_on_summeval_pairs(shared_data, aspect, first, consistent):
    file = shared_data / "recorded" / "summeval_judges" / "h2h_gpt35_both_orders.jsonl.gz"
    rows = []
    for record in map(json.loads, gzip.decompress(file.read_bytes()).splitlines()):
        if record["aspect"] != aspect:
            continue
        shown = (record["model_1"], record["model_2"])
        shown = shown[::-1] if record["toggled"] else shown
        chosen, status = parse_choice(record["resp"], ("A", "B", "C"))
        value = float("nan") if chosen is None else (1.0, 0.0, 0.5)[chosen]
        rows.append((record["id"], *shown, value, "tie" if chosen == 2 else status, np.nan))
    estimates = published_pairs(rows)
    assert estimate_of(estimates, "first_position_rate")["estimate"] == pytest.approx(first, abs=5e-5)
    assert estimate_of(estimates, "order_consistency")["estimate"] == pytest.approx(consistent, abs=5e-5)


def test_gpt35_on_mt_bench(shared_data):
    file = shared_data / "recorded" / "position_bias_analyzer" / "MTBench_position_bias.jsonl.gz"
    rows = []
    for record in map(json.loads, gzip.decompress(file.read_bytes()).splitlines()):
        verdict = next((x for x in "ABC" if f"[[{x}]]" in record["judgment"]), None)
        value = {"A": 1.0, "B": 0.0, "C": 0.5, None: float("nan")}[verdict]
        status = {"C": "tie", None: "unparsable"}.get(verdict, "ok")
        rows.append((record["question"], record["A"], record["B"], value, status, np.nan))
    decided = [row[3] for row in rows if row[4] == "ok"]
    assert np.mean(decided) == pytest.approx(0.4738, abs=5e-5)  # the published figure pools every readable reply
    found = estimate_of(published_pairs(rows), "first_position_rate")  # ours drops the 16 pairs with an unreadable one
    assert (found["n_trials"], found["n_dropped"]) == (2 * 2384, 2 * 16)
    assert found["estimate"] == pytest.approx(np.mean(decided), abs=0.001)
    assert estimate_of(published_pairs(rows), "order_consistency")["estimate"] == pytest.approx(0.6952, abs=2e-4)


def test_a_stated_tie_is_one_where_none_was_offered(graded):
    probe = Position(["coherence"], answer="text", temperature=0.0)
    trial = next(iter(probe.design(graded)))
    read = [
        probe.read(trial, Reply(text=text)) for text in ("They are equally coherent.", "Summary B wins.", "A good one.")
    ]
    assert read[:2] == [(0.5, "tie"), (0.0, "ok")]
    assert read[2][1] == "unparsable"


def test_estimate_of_a_rate_passes_8_files_at_most(graded):
    probe = Position(attributes=["coherence"], templates=[1], n_pairs=3)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, position=0.8), graded, progress=False)
    probe.estimate(trials, ["first_position_rate"])  # what is imported late is imported now
    package, files = str(Path(bl.__file__).parent), set()

    def note_file(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            files.add(frame.f_code.co_filename)

    sys.setprofile(note_file)
    try:
        probe.estimate(trials, ["first_position_rate"])
    finally:
        sys.setprofile(None)
    assert len(files) <= 8, sorted(files)
