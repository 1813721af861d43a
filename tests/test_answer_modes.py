"""Calibration in every answer mode, and with populations that no simulated judge answered."""

import dataclasses
import re
from datetime import date

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import biaslab as bl
from biaslab.calibration.cells import applies, declared_mode
from biaslab.calibration.generators import GENERATORS, PopulationModel, generate
from biaslab.calibration.population import Population, construct_population
from biaslab.calibration.table import render
from biaslab.calibration.text_models import PlainTexts
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.judges.repetition import MODES, AnswerMode, Sampled
from biaslab.probes import available, find_probe

RATE = "first_position_rate"
SMALL = {"studies": 5, "population": 40, "contexts": [8]}
DRAWN = sorted({probe for generator in GENERATORS.values() for probe in generator.probes})
DECLARED = [(kind, metric) for kind in available().values() for metric in kind.metrics if metric.calibration]


def calibrated(kind, metrics, modes=None, **options):
    return bl.validate([kind], metrics, modes=modes, **{**SMALL, **options})


@pytest.mark.parametrize("k", [3, 5])
def test_sampled_answers_are_shares_of_k_samples(k):
    data = construct_population(3)
    probe, judge = AnswerMode(f"sampled:{k}").asked(bl.probes.Position(templates=[1]), bl.SimulatedJudge(data))
    assert isinstance(judge, Sampled)
    trials = bl.collect(probe, judge, data, progress=False)
    assert (trials["samples"] == k).all()
    assert np.allclose(trials["value"] * k, (trials["value"] * k).round())


def test_a_mode_turns_distributions_into_texts_and_back():
    judge = bl.SimulatedJudge(construct_population(2))
    asked = {mode: AnswerMode(mode).asked(bl.probes.Source(), judge) for mode in MODES}
    answers = {mode: probe.answer for mode, (probe, _) in asked.items()}
    assert answers == dict.fromkeys(MODES, "distribution") | {"text": "text"}
    assert AnswerMode("exact").asked(bl.probes.Source(answer="text"), judge)[0].answer == "distribution"


def test_text_only_probe_gets_k_replicates_and_refuses_exact():
    judge = bl.SimulatedJudge(construct_population(2))
    assert AnswerMode("sampled:3").asked(bl.probes.OutputOrder(), judge)[0].replicates == 3
    with pytest.raises(InputError, match="output_order only reads texts"):
        AnswerMode("exact").asked(bl.probes.OutputOrder(), judge)


@pytest.mark.parametrize("name", ["sampled:0", "sampled", "words", "sampled:x"])
def test_unknown_mode_and_generator_list_the_known_ones(name):
    with pytest.raises(InputError, match="exact, text, sampled:3"):
        AnswerMode(name)
    with pytest.raises(InputError, match=r"judge, normal, t3.*noisy_humans"):
        bl.validate(generators=[name])


FAST = {"output_order", "position"}
KINDS = [pytest.param(kind, marks=[] if name in FAST else pytest.mark.slow) for name, kind in available().items()]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS, ids=list(available()))
def test_every_metric_is_measured_or_refused_in_every_mode(kind):
    """No metric is silently left out: either its shares are there, or one row with the reason."""
    modes = ["exact", "text", "sampled:3"]
    found = calibrated(kind, None, modes, studies=1, population=12, contexts=[8])
    rows = found.groupby(["metric", "mode", "planted"])
    assert len(rows) == 2 * 3 * sum(metric.calibration is not None for metric in kind.metrics)
    for _, part in rows:
        refused = part["quantity"] == "refused"
        assert refused.all() and part["note"].all() if refused.any() else set(part["quantity"]) >= {"coverage"}
    assert found.loc[found["quantity"] == "refused", "kept"].all()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "metric"), DECLARED, ids=[metric.name for _, metric in DECLARED])
def test_the_declared_mode_is_never_refused(kind, metric):
    found = calibrated(kind, [metric.name], studies=1, population=12)
    assert (found["mode"] == declared_mode(kind, metric)).all()
    assert set(found["refusals"]) == {False, True}
    assert not (found["quantity"] == "refused").any()


def generated():
    """Each generator with each metric that it suits; quick is the first of each probe."""
    seen = set()
    for name in GENERATORS:
        for probe in DRAWN:
            kind = find_probe(probe)
            for metric in kind.metrics:
                if metric.calibration and applies(kind, metric, "exact", name):
                    marks = [pytest.mark.slow] if probe in seen else []
                    seen.add(probe)
                    yield pytest.param(name, kind, metric.name, marks=marks, id=f"{name}-{probe}-{metric.name}")


@pytest.mark.parametrize(("name", "kind", "metric"), list(generated()))
def test_every_generator_yields_estimates_of_its_probes(name, kind, metric):
    found = calibrated(kind, [metric], ["exact"], studies=1, population=48, generators=[name])
    quantities = set(found["quantity"])
    assert quantities >= {"type_i_error", "power", "coverage"} or "refused" in quantities
    assert found.loc[found["quantity"] != "refused", "truth"].notna().all()


def test_unsuited_generator_is_refused_with_suited_ones():
    with pytest.raises(InputError, match=r"some of judge, .*normal.*others do not apply"):
        calibrated(bl.probes.Position, [RATE], generators=["ceiling"])


def drawn(probe, contexts=3000, planted=False, k=None, missing=0.0, **changes):
    generator = PopulationModel("", texts=PlainTexts(**changes), missing=missing)
    return generate(generator, probe, contexts, planted, k)


def test_sampled_answers_converge_to_exact_ones():
    for probe in ("position", "verbosity", "source"):
        exact, sampled = drawn(probe, 300), drawn(probe, 300, k=400)
        assert np.abs(exact["value"] - sampled["value"]).mean() < 0.04
        human = "human_gap" if probe == "position" else "human"
        assert exact[human].equals(sampled[human])


def test_a_text_is_one_answer():
    assert set(drawn("position", k=1)["value"]) == {0.0, 1.0}
    assert set(drawn("verbosity", k=1)["value"]) == {1.0, 2.0, 3.0, 4.0, 5.0}


@pytest.mark.slow
def test_heavy_tails_are_heavy_and_sizes_differ():
    shifts = [drawn("verbosity", heavy=heavy).groupby("context_id")["value"].mean() for heavy in (False, True)]
    assert stats.kurtosis(shifts[1]) > stats.kurtosis(shifts[0])
    sizes = drawn("verbosity", sizes="unequal").groupby("context_id").size()
    assert (sizes.min(), sizes.max()) == (2, 16)


def test_noisy_humans_have_the_given_reliability_and_correlation():
    trials = drawn("verbosity", reliability=0.6, correlation=0.5)
    ratings = np.array([row.split() for row in trials["ratings"]], float)
    assert trials["human"].to_numpy() == pytest.approx(ratings.mean(axis=1))
    within = ratings.var(axis=1, ddof=1).mean() / ratings.shape[1]
    assert 1 - within / ratings.mean(axis=1).var() == pytest.approx(0.6, abs=0.02)
    true = drawn("verbosity", reliability=1.0, correlation=0.5)
    assert np.corrcoef(np.log2(true["words"]), true["human"])[0, 1] == pytest.approx(0.5, abs=0.02)


def test_few_pairs_flip():
    found = generate(GENERATORS["few_flips"], "position", 3000, planted=False)
    row = bl.probes.Position(templates=[1]).estimate(found, ["order_consistency"])
    assert row["estimate"].iloc[0] == pytest.approx(0.92, abs=0.015)


def test_scores_stand_at_the_ceiling():
    plain, high = (drawn("verbosity", k=1, ceiling=ceiling)["value"] for ceiling in (0.0, 1.5))
    assert (high == 5).mean() > 0.4 > 0.2 > (plain == 5).mean()


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_missing_generator_loses_the_given_share_selectively(share):
    full, rest = drawn("position"), drawn("position", missing=share)
    lost = rest["value"].isna()
    assert lost.mean() == pytest.approx(share, abs=0.02)
    assert (rest["status"] == "refused").equals(lost)
    second = full["value"] < 0.5
    assert lost[second].mean() / lost[~second].mean() == pytest.approx(4, rel=0.15)


def test_repeated_contexts_share_their_requests():
    probe = bl.probes.Position(templates=[1])
    population = Population.of(probe, RATE, drawn("position", 50), twins=2)
    study = population.draw(8, [np.random.default_rng(0)])
    of = study.groupby("context_id")["key"].agg(frozenset)
    assert of.nunique() == 4
    assert not frozenset.intersection(*of.unique())
    values = study.groupby("context_id")["value"].agg(tuple)
    assert (values.iloc[::2].to_numpy() == values.iloc[1::2].to_numpy()).all()


def test_a_test_of_few_clusters_may_reject_less():
    found = calibrated(bl.probes.Position, [RATE], ["exact"], generators=["repeated"], contexts=[8, 24])
    fair = found[~found["planted"]]
    low = fair[fair["quantity"] == "type_i_error"].set_index("n_contexts")["low"]
    high = fair[fair["quantity"] == "coverage"].set_index("n_contexts")["high"]
    assert (low.to_dict(), high.to_dict()) == (pytest.approx({8: 0.0, 24: 0.03}), pytest.approx({8: 1.0, 24: 0.98}))


def test_contexts_that_are_drawn_twice_share_no_request():
    population = Population.of(bl.probes.Position(templates=[1]), RATE, drawn("position", 7))
    study = population.draw(100, [np.random.default_rng(0)])
    assert study["key"].is_unique


@pytest.mark.slow
def test_undefined_bounds_are_reported_and_others_cover():
    options = {"metrics": [RATE], "modes": ["exact"], "generators": ["missing_20"], **SMALL}
    missing = bl.validate([Bounded], **options)
    bounds = missing[missing["quantity"] == "bounds"]
    assert bounds["kept"].all()
    assert bounds["estimate"].eq(1).all()


@dataclasses.dataclass(frozen=True)
class Bounded(bl.probes.Position):
    """Position with bounds that always hold."""

    def estimate(self, trials, metrics=None):
        return super().estimate(trials, metrics).assign(bound_low=0.0, bound_high=1.0)


@pytest.mark.slow
def test_truth_of_distribution_metrics_ignores_sampling():
    kind, metric = bl.probes.Consistency, ["alpha_gap"]
    exact, sampled = (calibrated(kind, metric, [mode], studies=1)["truth"] for mode in ("exact", "sampled:3"))
    assert sampled.unique() == pytest.approx(exact.unique())


def test_noisy_humans_generator_biases_a_naive_slope():
    """Least squares on the mean of noisy ratings finds a bias in a fair judge: the generator must show it."""
    trials = generate(GENERATORS["noisy_humans"], "verbosity", 2000, planted=False)
    centred = trials.assign(doublings=np.log2(trials["words"]))[["context_id", "value", "human", "doublings"]]
    inner = centred[["value", "human", "doublings"]] - centred.groupby("context_id").transform("mean")
    slope = np.linalg.lstsq(inner[["doublings", "human"]].to_numpy(), inner["value"].to_numpy(), rcond=None)[0][0]
    assert slope > 0.1


@pytest.mark.slow
def test_a_table_that_was_stopped_goes_on(tmp_path):
    out = tmp_path / "table.csv"
    reports = []
    options = {"modes": ["exact", "text"], "out": out, "report": reports.append}
    full = calibrated(bl.probes.Position, [RATE], **options)
    assert len(reports) == 4
    kept = pd.read_csv(out)
    kept[~((kept["mode"] == "text") & kept["planted"])].to_csv(out, index=False)
    again = calibrated(bl.probes.Position, [RATE], **options)
    assert len(reports) == 5
    columns = ["mode", "planted", "quantity", "n_contexts", "estimate", "truth", "note"]
    pd.testing.assert_frame_equal(again[columns], full[columns], check_dtype=False)
    calibrated(bl.probes.Position, [RATE], **options, seed=1)
    assert len(reports) == 9  # other numbers are another table


def test_a_file_that_is_no_table_is_refused(tmp_path):
    out = tmp_path / "other.csv"
    out.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="a table of an earlier calibration"):
        calibrated(bl.probes.Position, [RATE], out=out)


@pytest.mark.slow
def test_the_page_has_every_metric_and_every_refusal():
    found = pd.concat(
        [
            calibrated(bl.probes.Position, [RATE], ["exact", "text"]),
            calibrated(bl.probes.OutputOrder, None, ["exact"]),
            calibrated(bl.probes.Position, [RATE], ["exact"], generators=["t3"]),
        ]
    )
    page = render(found, "biaslab validate --all", date(2026, 1, 31))
    assert "2026-01-31" in page
    assert "biaslab validate --all" in page
    assert page.count(f"| position | {RATE} |") == 3
    assert "refused: mode is 'exact'" in page
    assert "## t3: effects of contexts" in page


def test_the_command_takes_modes_and_generators(tmp_path, capsys):
    words = ["validate", "--probe", "position", "--metric", RATE, "--studies", "5", "--population", "40"]
    words += ["--contexts", "8", "--mode", "sampled:3", "--generator", "t3"]
    page = tmp_path / "page.md"
    assert main([*words, "--page", str(page), "--out", str(tmp_path / "t.csv")]) == 0
    assert "sampled:3, t3, truth" in capsys.readouterr().out
    choices = f"--probe position --metric {RATE} --contexts 8 --mode sampled:3 --generator t3"
    assert f"biaslab validate {choices} --studies 5 --population 40 --seed 0 --out t.csv\n" in page.read_text()
    assert main([*words, "--generator", "t5"]) == 2
    assert "noisy_humans" in capsys.readouterr().err
    assert main(["validate", "--all", "--generator", "t3"]) == 2
    assert "--generator" in capsys.readouterr().err


@pytest.mark.slow
def test_table_of_one_metric_has_all_modes_and_generators(tmp_path):
    page = tmp_path / "page.md"
    words = ["validate", "--all", "--metric", "first_shift", "--studies", "10", "--population", "40"]
    assert main([*words, "--page", str(page)]) == 0
    text = page.read_text()
    assert "biaslab validate --all --metric first_shift --studies 10 --population 40 --seed 0\n" in text
    assert set(re.findall(r"^\| \w+ \| (\w+) \|", text, re.MULTILINE)) == {"metric", "first_shift"}
    assert all(f"| output_order | first_shift | {mode} |" in text for mode in ("text", "sampled:3", "sampled:5"))


CELLS = [
    (bl.probes.Position, RATE, "sampled:3", "judge"),
    (bl.probes.Position, RATE, "text", "t3"),
    (bl.probes.Verbosity, "verbosity_slope", "text", "sizes"),
    (bl.probes.Source, "agreement_loss", "exact", "normal"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "metric", "mode", "generator"), CELLS)
def test_reduced_cells_keep_their_bands(kind, metric, mode, generator):
    """Reduced: 200 studies of 24 contexts, with four standard errors of room beside the band."""
    options = {"studies": 200, "population": 2000, "contexts": [24], "generators": [generator]}
    found = calibrated(kind, [metric], [mode], **options)
    error = np.sqrt(found["promised"] * (1 - found["promised"]) / found["studies"])
    near = (found["estimate"] > found["low"] - 4 * error) & (found["estimate"] < found["high"] + 4 * error)
    assert near[found["quantity"] != "power"].all(), found
