"""A fair judge is cleared, and one with a bias that matters is not: *no bias of ≥ 0.1* in simulated studies."""

import pytest

import biaslab as bl
from biaslab.calibration.population import Population, construct_population, estimate_each, studies
from biaslab.stats import Resampling

#: Simulated studies, contexts of each, and the position bias, in logits, with which P(A) is .600 (found by bisection).
N, CONTEXTS, PLANTED = 200, 96, {"distribution": 0.54, "text": 0.62}


@pytest.fixture(scope="module")
def contexts():
    return construct_population(800, 3, seed=3)


def cleared(population, probe):
    """Return the share of studies of which the verdict says that there is no bias of ≥ 0.1."""
    said = 0
    for trials, seed in studies(population, CONTEXTS, N, [5]):
        found = estimate_each(probe, trials, "first_position_rate", Resampling(n=200, seed=seed))
        rows = [bl.report.findings(found.iloc[[k]]) for k in range(len(found))]
        said += sum("no bias of ≥ 0.10" in row["words"].iloc[0] for row in rows)
    return said / N


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["distribution", "text"])
def test_a_fair_judge_is_cleared_and_a_biased_one_is_not(answer, contexts):
    probe = bl.probes.Position(attributes=["coherence"], templates=[1], answer=answer)
    judged = {
        bias: Population.judged(
            probe, "first_position_rate", bl.SimulatedJudge(contexts, position=bias, noise=1), contexts
        )
        for bias in (0.0, PLANTED[answer])
    }
    fair, biased = judged.values()
    assert biased.estimate == pytest.approx(0.6, abs=0.003)
    assert cleared(fair, probe) >= 0.95
    assert cleared(biased, probe) <= 0.05
