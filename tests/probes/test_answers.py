"""Label shares of k samples are k samples: nothing is said of them that k texts would not say."""

import numpy as np
import pytest
from studies import row_of

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Completion
from biaslab.core.errors import MissingDataWarning
from biaslab.core.scales import find_scale
from biaslab.judges.repetition import Sampled
from biaslab.probes.base.answers import Answers
from biaslab.probes.consistency import Consistency
from biaslab.probes.score_distribution import ScoreDistribution
from biaslab.probes.source import Source
from biaslab.probes.sweep import Sweep

K = 3
ONE = {"attributes": ["coherence"]}


@pytest.fixture(scope="module")
def data():
    return construct_population(40)


def judge_of(data, k=K, **planted):
    return Sampled(bl.SimulatedJudge(data, **{"noise": 0.5, "sharpness": 4.0, **planted}), k)


def collected(probe, judge):
    return bl.collect(probe, judge, judge.judge.dataset, progress=False)


@pytest.mark.parametrize("garbage", [0.0, 0.4])
def test_shares_become_the_samples_that_were_counted(data, garbage):
    judge, probe = judge_of(data, garbage=garbage), ScoreDistribution(**ONE, scales=["1-10"])
    trials = collected(probe, judge)
    given = Answers.of(trials, find_scale("1-10"))
    assert given.chances is None
    assert given.samples.shape == (K, len(given.items))
    mass = trials.drop_duplicates(["context_id", "candidate_id"]).set_index(["context_id", "candidate_id"])
    there = np.isfinite(given.samples).sum(axis=0)
    assert there == pytest.approx(K * mass.loc[given.index, "label_mass"].to_numpy())
    assert given.planned == K * len(mass)
    assert given.entering == there.sum()
    for label, value in trials.groupby("label")["value"]:
        share = (given.samples == label).sum() / K
        mass_of = trials.loc[value.index, "label_mass"].to_numpy()
        assert share == pytest.approx((value.fillna(0) * mass_of).sum())


def test_expected_scores_need_more_than_counted_samples(data):
    found = ScoreDistribution(**ONE, scales=["1-10"]).estimate(
        collected(ScoreDistribution(**ONE, scales=["1-10"]), judge_of(data))
    )
    assert {"single", "mean of 3", "greedy", "expected", "humans"} == set(found["answer"]) | {"humans"}
    for answer in ("greedy", "expected"):
        assert np.isnan(row_of(found, "agreement", answer=answer)["estimate"])
        assert "3 samples" in row_of(found, "agreement", answer=answer)["note"]
    assert row_of(found, "agreement_gain", answer="mean of 3")["estimate"] > 0


@pytest.mark.slow
def test_sweep_of_counted_judge_asks_text_at_other_temperatures(data):
    probe, judge = Sweep(**ONE, scale="1-10", temperatures=(0.0, 1.0), samples=4), judge_of(data)
    trials = collected(probe, judge)
    greedy = trials[(trials["cot"] == "no CoT") & (trials["temperature"] == 0)]
    assert len(greedy) == len(data.candidates)
    assert greedy["value"].isin(range(1, 11)).all()
    found = probe.estimate(trials)
    sizes = found[(found["metric"] == "agreement") & (found["cot"] == "no CoT") & (found["temperature"] == 1)][
        "samples"
    ]
    assert sorted(sizes) == [1, 2, 3]
    plain = found[(found["cot"] == "no CoT") & (found["temperature"] == 1)]
    tokens = plain[plain["metric"] == "tokens"].set_index("samples")["estimate"]
    assert tokens[3] == pytest.approx(3 * tokens[1])
    assert row_of(plain, "parse_rate")["estimate"] == 1
    assert np.isfinite(row_of(found, "temperature_shift", cot="no CoT")["estimate"])
    exact = bl.collect(probe, judge.judge, data, progress=False)
    assert len(exact) == len(list(probe.design(data)))  # of an exact distribution nothing more is asked


@pytest.mark.slow
def test_sweep_of_counted_samples_is_that_of_texts(data):
    """The same replicates of the same texts: alpha and agreement are equal to the last digit but for the order."""
    judge = judge_of(data, k=4)
    options = {**ONE, "scale": "1-10", "temperatures": (1.0,), "cot": (False,), "samples": 4}
    counted = Sweep(**options).estimate(collected(Sweep(**options), judge), ["alpha", "agreement"])
    trials = bl.collect(Sweep(**options, answer="text"), judge.judge, data, progress=False)
    texts = Sweep(**options).estimate(trials, ["alpha", "agreement"])
    for metric, cell in (("alpha", {}), ("agreement", {"samples": 4.0})):
        one, two = row_of(counted, metric, **cell), row_of(texts, metric, **cell)
        assert abs(one["estimate"] - two["estimate"]) < 4 * max(one["se"], two["se"])
        assert one["method"] == two["method"]


def test_consistency_draws_every_counted_sample_once(data):
    probe, judge = Consistency(**ONE, scales=["1-10"], joint=False, replicates=5), judge_of(data)
    trials = collected(probe, judge)
    assert trials.groupby("replicate")["value"].count().to_dict() == {0: 120, 1: 120, 2: 120, 3: 0, 4: 0}
    trial = next(iter(probe.design(data)))
    [(_, reply)] = judge.ask([trial.request])
    counts = np.rint(np.exp(reply.logprobs) * K).astype(int)
    first = trials[(trials["context_id"] == trial.context_id) & (trials["candidate_id"] == trial.candidate_id)]
    assert sorted(first["value"].dropna()) == np.repeat(np.arange(1.0, 11), counts).tolist()
    found = probe.estimate(trials, ["sample_alpha"])
    assert (found["n_dropped"] == 0).all()
    assert (found["n_trials"] == 3 * 120).all()


@pytest.mark.slow
def test_one_sample_says_nothing_of_consistency(data):
    probe = Consistency(**ONE, scales=["1-5", "1-10"], joint=False, replicates=2)
    found = probe.estimate(collected(probe, judge_of(data, k=1)))
    for metric in ("sample_alpha", "alpha_gap", "configuration_gap"):
        rows = found[found["metric"] == metric]
        assert len(rows)
        assert rows["estimate"].isna().all()
        assert rows["note"].str.contains("at least 2").all()
    assert found[found["metric"] == "configuration_alpha"]["estimate"].notna().all()


def test_another_temperature_cannot_be_had_of_counts(data):
    probe = Consistency(**ONE, scales=["1-5"], joint=False, temperature=0.5)
    with pytest.warns(MissingDataWarning):
        found = probe.estimate(collected(probe, judge_of(data)), ["sample_alpha", "alpha_gap"])
    assert found["estimate"].isna().all()
    assert found["note"].str.contains('answer="text"', regex=False).all()


def test_loss_of_agreement_needs_single_samples(data):
    probe = Source(**ONE, levels=["context"], coefficients=["kendall"])
    found = probe.estimate(collected(probe, judge_of(data)), ["agreement_loss", "agreement"])
    assert np.isnan(row_of(found, "agreement_loss")["estimate"])
    assert "replicates=2" in row_of(found, "agreement_loss")["note"]
    assert row_of(found, "agreement", source="with")["estimate"] > 0.3


@pytest.mark.slow
def test_loss_is_corrected_for_sampling_noise_without_source():
    """Two samples of the same expected scores, less sharp without: uncorrected, .1 of agreement seems lost."""

    class LessSure:
        kinds, id = frozenset({Choice, Completion}), "less sure"

        def __init__(self, data):
            self.dataset = data
            self.judges = {seen: bl.SimulatedJudge(data, noise=1.0, sharpness=8.0 if seen else 3.0) for seen in (0, 1)}

        def check(self, requests):
            pass

        def ask(self, requests):
            for request in requests:
                yield from self.judges[request.about.source].ask([request])

    many = construct_population(200, 4)
    options = {**ONE, "levels": ["context"], "coefficients": ["kendall"], "answer": "text"}
    for temperature, replicates in ((1.0, 2), (1.0, 1), (0.0, 1)):
        probe = Source(**options, temperature=temperature, replicates=replicates)
        found = probe.estimate(bl.collect(probe, LessSure(many), many, progress=False), ["agreement_loss", "agreement"])
        loss = row_of(found, "agreement_loss")
        if replicates == 2:
            seen = [row_of(found, "agreement", source=source)["estimate"] for source in ("with", "without")]
            assert seen[0] - seen[1] > 0.06
            assert abs(loss["estimate"]) < min(0.15, 3.3 * loss["se"])
            assert "sampling noise" in loss["note"]
        else:
            assert np.isnan(loss["estimate"]) == (temperature > 0)
