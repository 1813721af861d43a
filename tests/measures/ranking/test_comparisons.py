"""Comparisons: what is read from trials, and what becomes of it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from scipy.special import comb, expit
from statsmodels.stats.contingency_tables import StratifiedTable

import biaslab as bl
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.measures.ranking import Comparisons, comparisons_of, transitivity
from biaslab.measures.ranking.comparisons import read_trials
from biaslab.measures.ranking.pairs import (
    both_orders,
    comparative_accuracy,
    decisions,
    first_position_log_odds,
    first_position_rate,
    order_consistency,
    primacy_share,
)
from biaslab.stats.resample import Resampling

COLUMNS = ["context_id", "candidate_id", "opponent_id", "value", "status"]
NAN = float("nan")


def trials(*rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def test_refusals_are_no_comparisons_but_their_candidates_stay():
    rows = ("d", "a", "b", 0.9, "ok"), ("d", "c", "a", NAN, "refused"), ("e", "a", "b", 0.2, "ok")
    found = comparisons_of(trials(*rows))
    assert found.n_contexts == 2
    names = list(zip(found.context_id, found.candidate_id, strict=True))
    assert dict(zip(names, zip(found.times.tolist(), found.wins.tolist(), strict=True), strict=True)) == {
        ("d", "a"): (1, 1), ("d", "b"): (1, 0), ("d", "c"): (0, 0), ("e", "a"): (1, 0), ("e", "b"): (1, 1),
    }  # fmt: skip


def test_tie_counts_one_half_despite_label_probabilities():
    found = comparisons_of(trials(("d", "a", "b", 0.7, "tie"), ("d", "b", "a", 0.7, "ok")))
    assert found.p.tolist() == [0.5, 0.7]
    assert found.won.tolist() == [0.5, 1.0]


def test_samples_of_one_request_are_averaged():
    """Eq. 5: the share of samples that choose the first."""
    found = comparisons_of(
        trials(*[("d", "a", "b", v, "ok") for v in (1, 1, 0, 1)], ("d", "a", "b", NAN, "unparsable"))
    )
    assert found.p.tolist() == [0.75]


def test_twins_are_the_other_order_of_the_same_pair():
    found = Comparisons.of(["a", "b", "c"], [0, 1, 1, 2], [1, 0, 2, 0], [0.1, 0.2, 0.3, 0.4])
    assert found.twins.tolist() == [1, 0, -1, -1]
    assert found.paired().p.tolist() == [0.1, 0.2]


@given(st.integers(1, 5), st.integers(2, 5), st.integers(0, 40), st.integers(0, 999))
def test_splitting_and_taking_contexts_loses_nothing(contexts, candidates, size, seed):
    rng = np.random.default_rng(seed)
    home = rng.integers(contexts, size=size)
    one = rng.integers(candidates, size=size)
    two = (one + rng.integers(1, candidates, size=size)) % candidates
    full = Comparisons(
        np.repeat(np.arange(contexts).astype(str).astype(object), candidates),
        np.tile(np.arange(candidates).astype(str).astype(object), contexts),
        home * candidates + one,
        home * candidates + two,
        rng.random(size),
    )
    parts = list(full.split())
    assert sum(map(len, parts)) == size
    assert np.concatenate([p.times for p in parts]).tolist() == full.times.tolist()
    np.testing.assert_allclose(np.concatenate([p.wins for p in parts]), full.wins)
    for k, part in enumerate(parts):
        only = full.take(home == k)
        assert only.p.tolist() == part.p.tolist()
        assert (only.first - k * candidates).tolist() == part.first.tolist()
        assert set(part.context_id) == {str(k)}


def test_values_of_candidates_follow_them(graded):
    probe = bl.probes.Comparative(["coherence"])
    frame = bl.collect(probe, bl.SimulatedJudge(graded), graded, progress=False).sample(frac=1, random_state=1)
    read = read_trials(frame)
    human = read.of_candidates(frame["human"], frame["opponent_human"])
    names = zip(read.comparisons.context_id, read.comparisons.candidate_id, strict=True)
    means = graded.human_means["coherence"]
    assert human.tolist() == [means[name] for name in names]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((["a", "b"], [0], [2], [0.5]), "indices"),
        ((["a", "b"], [0], [1], [1.5]), "probabilities"),
        ((["a", "b"], [0, 1], [1], [0.5]), "differ in shape"),
    ],
)
def test_bad_comparisons_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Comparisons.of(*arguments)


def test_trials_that_are_no_comparisons_are_refused():
    with pytest.raises(TrialsError, match="without opponent_id"):
        comparisons_of(trials(("d", "a", None, 3.0, "ok")))
    with pytest.raises(TrialsError, match="itself"):
        comparisons_of(trials(("d", "a", "a", 0.5, "ok")))
    with pytest.raises(TrialsError, match="status"):
        comparisons_of(trials(("d", "a", "b", 0.5, "ok")).drop(columns="status"))


def test_no_trials_are_no_comparisons():
    assert len(comparisons_of(trials())) == 0


NAMES = st.sampled_from(["a", "b", "c10", "c9", "é", ""])
ROW = st.tuples(
    st.sampled_from(["k", "l", "m"]), NAMES, NAMES, st.integers(0, 1), st.sampled_from([0.0, 0.2, 0.5, 0.9]),
    st.sampled_from(["ok", "ok", "tie", "refused"]),
)  # fmt: skip


def frame_of(rows):
    columns = ["context_id", "candidate_id", "opponent_id", "replicate", "value", "status"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(human_gap=np.arange(len(frame), dtype=float), label_mass=0.5)


@given(st.lists(ROW, max_size=25, unique_by=lambda row: row[:4]).map(lambda rows: [r for r in rows if r[1] != r[2]]))
def test_pairs_in_both_orders_and_no_others(rows):
    trials = frame_of(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        blocks = both_orders(trials, "test")
    usable = {row[:4]: (row[4], row[5], i) for i, row in enumerate(rows) if row[5] != "refused"}
    expected = set()
    for (context, one, two, replicate), (p_ij, status_ij, i) in usable.items():
        twin = usable.get((context, two, one, replicate))
        if one < two and twin:
            ties = (status_ij == "tie" or p_ij == 0.5, twin[1] == "tie" or twin[0] == 0.5)
            won = tuple(-1.0 if tie else float(p > 0.5) for tie, p in zip(ties, (p_ij, twin[0]), strict=True))
            expected.add((context, p_ij, twin[0], *won, float(i)))
    columns = ["context_id", "p_ij", "p_ji", "first_ij", "first_ji", "human_gap"]
    assert set(blocks[columns].fillna(-1).itertuples(index=False, name=None)) == expected
    assert len(blocks) == len(expected)
    assert blocks.attrs["n_dropped"] == len(rows) - 2 * len(expected)


def test_a_repeated_judgement_is_named():
    row = ("k", "a", "b", 0, 0.9, "ok")
    with pytest.raises(TrialsError, match="repeats context_id k, candidate_id a, opponent_id b"):
        both_orders(frame_of([row, row]), "test")


def expected_over_samples(k, p_ij, p_ji, function):
    """The expectation over k samples of both orders, by enumeration."""
    chances = [stats.binom.pmf(np.arange(k + 1), k, p) for p in (p_ij, p_ji)]
    shares = np.arange(k + 1) / k
    return sum(a * b * function(x, y) for a, x in zip(chances[0], shares, strict=True)
               for b, y in zip(chances[1], shares, strict=True))  # fmt: skip


@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize(("p_ij", "p_ji"), [(0.9, 0.3), (0.5, 0.5), (0.7, 0.8)])
def test_the_number_of_samples_moves_no_sum(k, p_ij, p_ji):
    """Numerators and denominators are, on average over samples, those of the probabilities themselves."""

    def sums(ratio):
        return np.array([np.sum(ratio.numerator), np.sum(ratio.denominator)], float)

    metrics = [
        lambda x, y: sums(first_position_rate([0], [[x, y]])),
        lambda x, y: sums(order_consistency([0], [x], [y])),
        lambda x, y: sums(primacy_share([0], [x], [y])),
        lambda x, y: sums(comparative_accuracy([0, 0], [x, y], [1.0, -1.0])),
    ]
    for metric in metrics:
        np.testing.assert_allclose(expected_over_samples(k, p_ij, p_ji, metric), metric(p_ij, p_ji))


def test_half_the_probability_is_a_tie_but_half_the_samples_not():
    rows = [("k", "a", "b", 0, 0.5, "ok"), ("k", "b", "a", 0, 0.5, "ok"), ("l", "a", "b", 0, 0.5, "tie")]
    trials = frame_of(rows).assign(label_mass=1.0)
    assert np.isnan(decisions(trials)).all()
    sampled = decisions(trials.assign(samples=2.0))
    assert sampled[:2].tolist() == [0.5, 0.5]
    assert np.isnan(sampled[2])


def drawn(rng, contexts, k, bias, size=3):
    """Samples of both orders of pairs whose qualities differ."""
    context = np.repeat(np.arange(contexts), size)
    quality = rng.normal(0, 1, len(context))
    shares = {
        f"first_{name}": rng.binomial(k, expit(sign * quality + bias)) / k for name, sign in (("ij", 1), ("ji", -1))
    }
    samples = {"samples_ij": float(k), "samples_ji": float(k)}
    return pd.DataFrame({"context_id": context, "pair": np.arange(len(context)), **shares, **samples})


def test_log_odds_are_mantel_and_haenszels():
    blocks = drawn(np.random.default_rng(0), 10, 4, 0.7)
    tables = []
    for row in blocks.itertuples():
        first, there = 4 * row.first_ij, 4 * row.first_ji
        tables.append(np.array([[first, 4 - first], [4 - there, there]]))
    found = first_position_log_odds(blocks, Resampling())
    assert found.estimate == pytest.approx(StratifiedTable(tables).logodds_pooled / 2)


def test_replicates_share_a_stratum_and_ties_add_nothing():
    one = drawn(np.random.default_rng(1), 10, 4, 0.5)
    rows = []
    for row in one.itertuples():
        for place in range(4):
            pair = {"context_id": row.context_id, "pair": row.pair, "samples_ij": np.nan, "samples_ji": np.nan}
            rows.append(
                pair | {"first_ij": float(place < 4 * row.first_ij), "first_ji": float(place < 4 * row.first_ji)}
            )
        rows.append(pair | {"first_ij": np.nan, "first_ji": np.nan})
    again, found = (first_position_log_odds(blocks, Resampling()) for blocks in (pd.DataFrame(rows), one))
    assert (again.estimate, again.ci_low, again.p_value) == pytest.approx((found.estimate, found.ci_low, found.p_value))


def test_without_informative_pairs_it_is_undefined_with_a_reason():
    blocks = pd.DataFrame({"context_id": list("aabb"), "pair": range(4), "samples_ij": np.nan, "samples_ji": np.nan})
    never = first_position_log_odds(blocks.assign(first_ij=1.0, first_ji=0.0), Resampling())
    always = first_position_log_odds(blocks.assign(first_ij=1.0, first_ji=1.0), Resampling())
    for found in (never, always):
        assert np.isnan(found.estimate)
        assert "undefined" in found.note
        assert found.n_contexts == 2


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("bias", [0.0, 0.4])
def test_few_samples_do_not_move_it(k, bias):
    rng = np.random.default_rng(2)
    found = [first_position_log_odds(drawn(rng, 24, k, bias), Resampling(n=100)) for _ in range(300)]
    assert np.mean([one.estimate for one in found]) == pytest.approx(bias, abs=0.06)
    assert 0.92 < np.mean([one.ci_low <= bias <= one.ci_high for one in found]) < 0.99


def tournament(p, both=False):
    """Pair trials of one context from the matrix of win probabilities."""
    n = len(p)
    pairs = [(i, j) for i in range(n) for j in range(n) if (i < j or both) and i != j]
    rows = pd.DataFrame([("c", f"s{i}", f"s{j}", p[i][j]) for i, j in pairs])
    rows.columns = ["context_id", "candidate_id", "opponent_id", "value"]
    return rows.assign(judge="j", dataset="d", attribute="a", status="ok")


def contradictions(trials, scores=None):
    return transitivity(trials, scores).set_index("metric")["estimate"]


@given(st.integers(3, 9), st.integers(0, 2**32 - 1))
def test_circles_are_those_of_kendall_and_babington_smith(n, seed):
    """C(n, 3) less the number of triples in which one candidate beats both others."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.integers(2, size=(n, n)).astype(float), 1)
    beats = upper + np.tril(1 - upper.T, -1)
    wins = beats.sum(axis=1)
    circles = comb(n, 3) - comb(wins, 2).sum()
    found = contradictions(tournament(beats, both=bool(seed % 2)))
    assert found["cycle_rate"] == pytest.approx(circles / comb(n, 3))
    assert np.isnan(found["indirect_error"])


def test_judge_of_bradley_and_terry_is_transitive():
    strength = np.array([0.0, 0.7, 1.9, -0.4])
    p = expit(strength[:, None] - strength)
    trials = tournament(p, both=True)
    found = contradictions(trials)
    assert found["cycle_rate"] == 0
    assert found["indirect_error"] == pytest.approx(0, abs=1e-12)
    ahead = trials["candidate_id"] == "s0"
    moved = trials.assign(value=trials["value"].where(~ahead, np.minimum(trials["value"] + 0.2, 1)))
    assert contradictions(moved)["indirect_error"] > 0.01


def test_position_bias_makes_no_contradiction_in_both_orders():
    strength = np.array([0.0, 1.0, 2.0])
    p = expit(strength[:, None] - strength)
    biased = tournament(np.clip(p + 0.05, 0, 1), both=True)
    assert contradictions(biased)["indirect_error"] == pytest.approx(0, abs=1e-9)


def test_scores_contradict_the_verdicts_that_they_reverse():
    trials = tournament(np.array([[0.5, 0.9, 0.9], [0.1, 0.5, 0.9], [0.1, 0.1, 0.5]]))
    scores = pd.DataFrame({"context_id": "c", "candidate_id": ["s0", "s1", "s2"], "value": [5.0, 2.0, 4.0]})
    scores = scores.assign(judge="j", dataset="d", attribute="a", status="ok", opponent_id=None)
    assert contradictions(trials, scores)["score_conflict_rate"] == pytest.approx(1 / 3)
    assert contradictions(pd.concat([trials, scores]))["score_conflict_rate"] == pytest.approx(1 / 3)
    equal = scores.assign(value=3.0)
    assert np.isnan(contradictions(trials, equal)["score_conflict_rate"])


def test_ties_and_missing_verdicts_make_no_circle():
    trials = tournament(np.array([[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [1.0, 0.0, 0.5]]))
    assert contradictions(trials)["cycle_rate"] == 1
    tied = trials.assign(status=["ok", "ok", "tie"])
    lost = trials.assign(status=["ok", "ok", "refused"])
    assert np.isnan(contradictions(tied)["cycle_rate"])
    assert np.isnan(contradictions(lost)["cycle_rate"])


def test_verdicts_imply_no_probabilities():
    """A pair that flips with its order has an even mean, which is no probability of the judge's."""
    flips = tournament(np.ones((3, 3)), both=True)
    assert np.isnan(contradictions(flips)["indirect_error"])


def test_transitivity_needs_comparisons():
    trials = tournament(np.full((3, 3), 0.5))
    with pytest.raises(TrialsError, match="no comparison"):
        transitivity(trials.assign(opponent_id=None))
