"""Promises of cards, plans, corrections, remedies and sure judges, simulated by one command; texts shown otherwise.

Each metric is estimated where it is at its null in every context, over 1,000 simulated studies of 40 contexts.
"""

import hashlib

import numpy as np
import pytest

import biaslab as bl
from biaslab import calibration
from biaslab.calibration import fair_judges
from biaslab.calibration.generators import GENERATORS, generate
from biaslab.calibration.population import Population, estimate_each, population_for, studies
from biaslab.calibration.promises import PROMISES, keep_promises, render_promises
from biaslab.calibration.text_models import RejudgedTexts
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.logs import read_judgements
from biaslab.probes import available
from biaslab.stats.estimate import is_rounding
from biaslab.stats.resample import Resampling

SHOWN = [name for name, each in GENERATORS.items() if isinstance(each.texts, RejudgedTexts)]
KINDS = {"edit": bl.probes.Edit, "template": bl.probes.Template, "vacuum": bl.probes.Vacuum}


def test_a_promise_is_a_share_with_its_error_beside_a_band():
    [row] = keep_promises(200, ["sure_type_i"]).to_dict("records")
    assert row["studies"] == 200
    assert row["ci_low"] < row["estimate"] < row["ci_high"]
    assert (row["low"], row["high"]) == PROMISES["sure_type_i"].band
    assert row["kept"]
    again = keep_promises(200, ["sure_type_i"])["estimate"].item()
    assert again == row["estimate"] != keep_promises(200, ["sure_type_i"], seed=1)["estimate"].item()


def test_broken_promise_is_printed_in_bold():
    found = keep_promises(50, ["sure_power"])
    assert "**" not in render_promises(found, "command", "2026-01-31").split("|---")[1]
    broken = render_promises(found.assign(kept=False), "command", "2026-01-31")
    assert f"| **{found['estimate'].item():.3f}** |" in broken


@pytest.mark.parametrize(("options", "name"), [({"studies": 3}, "studies"), ({"names": ["luck"]}, "card_power")])
def test_parameters_are_checked(options, name):
    with pytest.raises(InputError, match=name):
        keep_promises(**options)


def test_the_command_takes_no_choice_beside_it(capsys):
    assert main(["validate", "--promises", "--probe", "position"]) == 2
    assert "promises is '--probe'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["accuracy_ppi", "agreement_4_90", "card_power", "difference_ppi", "rank_agreement_ppi"]
)
def test_few_studies_do_not_contradict_a_promise(name):
    [row] = keep_promises(10, [name]).to_dict("records")
    assert row["ci_high"] >= row["low"]
    assert row["ci_low"] <= row["high"]


@pytest.mark.parametrize("name", sorted(fair_judges.LOGS))
def test_logs_of_fair_judges_are_read_for_their_probe(name):
    frame, cluster = fair_judges.LOGS[name].draw(np.random.default_rng(0))
    trials = read_judgements(frame)
    assert len(trials) == len(frame)
    assert cluster is None or cluster in frame
    pairs = trials["opponent_id"].notna().all()
    assert pairs == (fair_judges.LOGS[name].probe in ("position", "one_order", "pair_length"))
    assert 0.4 < trials["value"].mean() < 0.8 if pairs else trials["value"].nunique() > 4


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(PROMISES))
def test_promises_are_kept(name):
    found = keep_promises(400, [name])
    assert found["kept"].all(), found.to_string()


@pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")
@pytest.mark.parametrize("generator", SHOWN)
def test_texts_that_are_shown_otherwise_are_read_by_their_probes(generator):
    for probe in GENERATORS[generator].probes:
        metric = next(each for each in KINDS[probe].metrics if each.primary)
        trials = generate(GENERATORS[generator], probe, 12, planted=True)
        found = KINDS[probe](**metric.calibration.parameters).estimate(trials, [metric.name])
        assert len(found) == 1
        assert np.isfinite(found["estimate"]).all()
        again = generate(GENERATORS[generator], probe, 12, planted=True)
        assert again.equals(trials)


def test_second_choices_are_missing_more_often():
    whole = generate(GENERATORS["shown"], "vacuum", 400, planted=False)
    trials = generate(GENERATORS["shown_missing"], "vacuum", 400, planted=False)
    lost, second = (trials["status"] == "refused").to_numpy(), (whole["value"] < 0.5).to_numpy()
    assert lost.mean() == pytest.approx(0.15, abs=0.04)
    assert lost[second].mean() > 2.5 * lost[~second].mean()


def test_template_changes_few_scores_of_a_sure_judge():
    trials = generate(GENERATORS["shown_sure"], "template", 200, planted=False, k=1)
    values = trials.pivot_table(index=["context_id", "candidate_id"], columns="template", values="value")
    assert (values["base"] != values["system prompt"]).mean() < 0.15


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_texts_shown_otherwise_keep_the_bands(kind):
    """Reduced: 200 studies of 24 contexts; `biaslab validate --all` runs them all."""
    drawn = [name for name in SHOWN if kind.name in GENERATORS[name].probes]
    found = bl.validate([kind], studies=200, population=1000, contexts=[24], generators=drawn)
    bad = calibration.outside(found)
    assert bad.empty, "\n".join(map(calibration.describe, bad.itertuples()))


N, CONTEXTS, POPULATION = 1_000, 40, 120
#: Metrics that are at their null in every context of such a judge; of what others know, contexts say different things.
OF_BOTH = ["anchor_slope", "score_excess", "win_excess", "reason_first_shift", "template_shift"]
OF_ORDER_INVARIANT = [
    *OF_BOTH, "anchor_excess", "configuration_gap", "logit_excess", "first_position_rate", "first_position_logit",
    "recipe_gain", "agreement_loss", "cot_shift", "temperature_shift",
]  # fmt: skip
#: Log odds between the worst and the best text of the order-invariant judge, and the points of the scale between them.
STRENGTH, POINTS = 6.0, 4.0


def worth(*names):
    """Return a number from 0 to 1 for each text, the same whenever it is judged."""
    digests = (hashlib.sha256("|".join(text).encode()).hexdigest() for text in zip(*names, strict=True))
    return np.array([int(digest[:8], 16) / 2**32 for digest in digests])


def are_scores(trials):
    return "opponent_id" not in trials or trials["opponent_id"].fillna("").eq("").any()


def order_invariant(trials):
    """P(A) = σ(r_A − r_B), and one score for each text, whatever else is asked."""
    context, one = trials["context_id"].astype(str), worth(trials["context_id"].astype(str), trials["candidate_id"])
    if are_scores(trials):
        return 1 + POINTS * one
    return 1 / (1 + np.exp(-STRENGTH * (one - worth(context, trials["opponent_id"]))))


def constant(trials):
    return np.full(len(trials), 3.0 if are_scores(trials) else 0.5)


def population(probe, metric, judge):
    """Judge a whole population; values differ from the judge's by a few units in the last place."""
    calibration = metric.calibration
    data, chosen = population_for(calibration, POPULATION), probe(**calibration.parameters)
    trials = bl.collect(chosen, bl.SimulatedJudge(data), data, progress=False)
    bits = np.random.default_rng(0).integers(-4, 5, (2, len(trials)))
    values = judge(trials) * (1 + bits[0] * 2.0**-52) + bits[1] * 1e-17
    return chosen, Population.of(chosen, metric.name, trials.assign(value=values, status="ok"))


def declared(name):
    metrics = [(probe, metric) for probe in available().values() for metric in probe.metrics if metric.name == name]
    [found] = [(probe, metric) for probe, metric in metrics if metric.calibration is not None]
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "judge"),
    [*((name, order_invariant) for name in OF_ORDER_INVARIANT), *((name, constant) for name in OF_BOTH)],
)
def test_exactly_equal_conditions_give_no_finding(name, judge):
    probe, metric = declared(name)
    chosen, judged = population(probe, metric, judge)
    assert is_rounding(judged.estimate - metric.null, 1.0)
    found = 0
    for trials, seed in studies(judged, CONTEXTS, N, [0]):
        rows = estimate_each(chosen, trials, name, Resampling(n=200, seed=seed))
        apart = (rows["ci_low"] > metric.null) | (rows["ci_high"] < metric.null)
        found += int((apart | (rows["p_value"] < 0.05)).sum())
    assert found == 0
