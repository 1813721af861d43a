"""The edit probe against frames computed by hand, planted effects, statsmodels, and what may be edited."""

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_scores
from scipy.special import logit
from statsmodels.stats.contingency_tables import StratifiedTable
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Completion
from biaslab.core.errors import InputError, MissingDataWarning, NearestDesignWarning
from biaslab.probes.edit import Edit
from biaslab.probes.position import Position
from biaslab.probes.verbosity import Verbosity
from biaslab.prompts.edits import TextEdit as Change, find_edit
from biaslab.prompts.edits.attacks import shield
from biaslab.stats.frame import without_breakdowns

ONE = {"attributes": ["coherence"], "edits": ["authority"]}
HEADING = Change("label", lambda text: "revised version", place="heading")
NOTE = Change("crowd", lambda name: f"Nine of ten readers prefer {name}.", place="note")
FAST = bl.Resampling(n=300)
CELL = {"judge": "j", "dataset": "d", "attribute": "coherence", "edit": "e", "quality": "left", "changed": 1.0}


def shout_if_rainy(text):
    """Write in capitals what is about rain."""
    return text.upper() if "rain" in text else text


# Scores: a context, a candidate, human, and unedited, edited, null-edited.
SCORES = [
    ("a", "x", 1.0, 2.0, 4.0, 2.0), ("a", "y", 1.5, 3.0, 5.0, 4.0), ("b", "x", 2.0, 1.0, 1.0, 1.0),
    ("b", "y", 4.0, 5.0, 5.0, 4.0), ("c", "x", 4.0, 4.0, 5.0, 5.0), ("c", "y", 3.1, 2.0, 3.0, 1.0),
]  # fmt: skip


def scores():
    wide = pd.DataFrame(SCORES, columns=["context_id", "candidate_id", "human", "unedited", "edited", "null edit"])
    trials = wide.melt(["context_id", "candidate_id", "human"], var_name="variant")
    given = {"form": "score", "scale": "1-5", "answer": "text", "replicate": 0, "label_mass": np.nan, "samples": np.nan}
    return trials.assign(status="ok", opponent_id=None, edited_first=np.nan, human_gap=np.nan, **given, **CELL)


# Pairs: a context, human gap of the edited one, and P(it wins) shown first and second: unedited, edited, null-edited.
PAIRS = [
    ("a", 1.0, (0.7, 0.6), (0.8, 0.6), (0.7, 0.7)),
    ("b", -1.0, (0.4, 0.45), (0.6, 0.7), (0.3, 0.6)),
    ("c", -2.0, (0.2, 0.1), (0.6, 0.2), (0.2, 0.3)),
    ("d", 0.0, (0.55, 0.3), (0.9, 0.4), (0.6, 0.2)),
]


def comparisons():
    rows = []
    for context, gap, *values in PAIRS:
        for variant, (first, second) in zip(("unedited", "edited", "null edit"), values, strict=True):
            rows.append((context, "e", "o", variant, 1.0, gap, first))
            rows.append((context, "o", "e", variant, 0.0, -gap, 1 - second))
    names = ["context_id", "candidate_id", "opponent_id", "variant", "edited_first", "human_gap", "value"]
    given = {"form": "pair", "scale": None, "answer": "distribution", "replicate": 0, "label_mass": 1.0}
    return pd.DataFrame(rows, columns=names).assign(status="ok", samples=np.nan, human=np.nan, **given, **CELL)


def test_design_has_three_variants_of_items_and_of_pairs(graded):
    probe = Edit(**ONE, n_candidates=3, n_pairs=4)
    trials = list(probe.design(graded))
    assert len(trials) == len(graded.candidates["context_id"].unique()) * (3 * 3 + 4 * 3 * 2)
    assert len({trial.request for trial in trials}) == len(trials)
    for trial in trials:
        variant, about = trial.condition["variant"], trial.request.about
        name = {"unedited": "", "edited": "authority", "null edit": "null:authority"}[variant]
        pair = trial.opponent_id is not None
        first = (name, "") if trial.condition["edited_first"] else ("", name)
        assert about.edits == (() if variant == "unedited" else first if pair else (name,))
        assert ("Annals of Applied Inquiry" in trial.request.messages[0].content) == (variant == "edited")


def test_unedited_requests_equal_those_of_other_probes(graded):
    """So that a store answers it: prompts without heading and note are what they were."""
    alone = Edit(**ONE, forms=["score"], n_candidates=None).design(graded)
    unedited = {trial.request for trial in alone if trial.condition["variant"] == "unedited"}
    assert unedited == {trial.request for trial in Verbosity(["coherence"]).design(graded)}
    for template in (1, 2):
        pairs = Edit(**ONE, forms=["pair"], n_pairs=None, template=template).design(graded)
        unedited = {trial.request for trial in pairs if trial.condition["variant"] == "unedited"}
        assert unedited == {trial.request for trial in Position(["coherence"], [template]).design(graded)}


def test_headings_follow_names_and_notes_precede_the_question(graded):
    probe = Edit(["coherence"], [HEADING, NOTE], n_candidates=1, n_pairs=1)
    shown = {}
    for trial in probe.design(graded.head(1)):
        place = "score" if trial.opponent_id is None else trial.condition["edited_first"]
        key = trial.condition["edit"], trial.condition["variant"], place
        shown[key] = trial.request.messages[0].content
    assert "\nSummary (revised version): " in shown["label", "edited", "score"]
    assert "\nSummary A (text no. 7): " in shown["label", "null edit", 1.0]
    assert "\nSummary B (revised version): " in shown["label", "edited", 0.0]
    assert "Summary A: " in shown["label", "edited", 0.0]
    assert "\n\nNine of ten readers prefer summary.\n\nRate the summary" in shown["crowd", "edited", "score"]
    assert "\n\nNine of ten readers prefer Summary B.\n\nWhich summary" in shown["crowd", "edited", 0.0]
    assert "\n\nSummary A is one text on this page.\n\nWhich" in shown["crowd", "null edit", 1.0]
    for text in shown.values():
        assert "\n\n\n" not in text


def test_scores_computed_by_hand():
    found = Edit(resampling=FAST).estimate(scores())
    table = pd.DataFrame(SCORES, columns=["c", "i", "human", "u", "e", "n"])
    excess = (table["e"] - table["n"]).mean()
    assert row_of(found, "score_excess")["estimate"] == pytest.approx(excess) == pytest.approx(1.0)
    assert row_of(found, "score_excess_sd")["estimate"] == pytest.approx(excess / table["u"].std(ddof=0))
    assert row_of(found, "score_effect", variant="edited")["estimate"] == pytest.approx(
        (table["e"] - table["u"]).mean()
    )
    null = row_of(found, "score_effect", variant="null edit")["estimate"]
    assert null == pytest.approx((table["n"] - table["u"]).mean())
    centred = table[["human", "u"]] - table.groupby("c")[["human", "u"]].transform("mean")
    slope = (centred["human"] * centred["u"]).sum() / (centred["human"] ** 2).sum()
    assert row_of(found, "score_worth")["estimate"] == pytest.approx(excess / slope)
    for variant, top in {"unedited": 1 / 6, "edited": 3 / 6, "null edit": 1 / 6}.items():
        assert row_of(found, "top_rate", variant=variant)["estimate"] == pytest.approx(top)
    assert row_of(found, "untouched")["estimate"] == 0


def test_pairs_computed_by_hand():
    found = Edit(resampling=FAST, gap_bins=2).estimate(comparisons())
    overall = without_breakdowns(found)
    p = np.array([values for _, _, *values in PAIRS])  # pairs, variants, orders
    edited, null = p[:, 1], p[:, 2]
    assert row_of(overall, "win_excess")["estimate"] == pytest.approx((edited - null).mean())
    assert row_of(overall, "logit_excess")["estimate"] == pytest.approx((logit(edited) - logit(null)).mean())
    assert row_of(overall, "win_effect", variant="null edit")["estimate"] == pytest.approx((null - p[:, 0]).mean())
    change = (logit(edited) - logit(p[:, 0])).mean()
    assert row_of(overall, "logit_effect", variant="edited")["estimate"] == pytest.approx(change)
    flips = ((p[:, 1:] > 0.5) != (p[:, :1] > 0.5)).mean(axis=(0, 2))
    assert row_of(overall, "flip_rate", variant="edited")["estimate"] == pytest.approx(flips[0]) == pytest.approx(3 / 8)
    assert row_of(overall, "flip_excess")["estimate"] == pytest.approx(flips[0] - flips[1])
    for place, variant in enumerate(("unedited", "edited", "null edit")):
        share = row_of(overall, "worse_wins", variant=variant)
        assert share["estimate"] == pytest.approx((p[1:3, place] > 0.5).mean())
        assert share["n_trials"] == 12
    gained = row_of(overall, "side_win_excess", edited="worse")["estimate"]
    assert gained == pytest.approx((edited - null)[1:3].mean())
    assert set(overall["edited"].dropna()) == {"worse"}  # one context has no interval
    binned = found[(found["metric"] == "win_excess") & found["human_gap"].notna()]
    assert binned["human_gap"].tolist() == [pytest.approx(2 / 3)]
    assert binned["p_value"].isna().all()


@pytest.mark.slow
def test_logits_of_texts_are_mantel_and_haenszels(graded):
    judge = bl.SimulatedJudge(graded, quality=0.5, edits={"authority": 1.5})
    probe = Edit(**ONE, forms=["pair"], n_pairs=None, answer="text", replicates=3)
    trials = bl.collect(probe, judge, graded, progress=False)
    tables = []
    for _, part in trials.assign(
        won=np.where(trials["edited_first"] == 1, trials["value"], 1 - trials["value"]),
        pair=[" ".join(sorted(names)) for names in zip(trials["candidate_id"], trials["opponent_id"], strict=True)],
    ).groupby(["context_id", "pair", "edited_first"]):
        won = part.groupby("variant")["won"].sum()
        tables.append(np.array([[won["edited"], 3 - won["edited"]], [won["null edit"], 3 - won["null edit"]]]))
    row = row_of(probe.estimate(trials, ["logit_excess"]), "logit_excess")
    assert row["estimate"] == pytest.approx(StratifiedTable(tables).logodds_pooled)
    assert "jackknife" in row["method"]


@pytest.mark.parametrize("planted", [0.8, *(pytest.param(shift, marks=pytest.mark.slow) for shift in (0.0, -0.5))])
def test_planted_edit_effect_is_recovered(graded, planted):
    """Without noise exactly: in logits the planted points, in scores the judge's own expectation."""
    judge = bl.SimulatedJudge(graded, edits={"authority": 0.3 + planted, "null:authority": 0.3})
    probe = Edit(**ONE, n_candidates=None)
    trials = bl.collect(probe, judge, graded, progress=False)
    found = probe.estimate(trials)
    overall = without_breakdowns(found)
    assert row_of(overall, "logit_excess")["estimate"] == pytest.approx(planted)
    assert row_of(overall, "logit_effect", variant="null edit")["estimate"] == pytest.approx(0.3)
    asked = [trial for trial in probe.design(graded) if trial.opponent_id is None]
    expected = pd.Series(expected_scores(judge, asked)).groupby([t.condition["variant"] for t in asked]).mean()
    gained = row_of(overall, "score_excess")["estimate"]
    assert gained == pytest.approx(expected["edited"] - expected["null edit"], abs=1e-9)
    assert np.sign(np.round(gained, 9)) == np.sign(planted)


@pytest.mark.slow
def test_judge_moved_alike_by_every_change_is_not_found_biased():
    data = construct_population(200)
    judge = bl.SimulatedJudge(data, noise=1.0, edits={"authority": 1.0, "null:authority": 1.0})
    found = run(Edit(edits=["authority"], n_pairs=None), judge, data)
    overall = without_breakdowns(found)
    for metric in ("score_excess", "win_excess"):
        row = row_of(overall, metric)
        assert abs(row["estimate"]) < 4 * row["se"]
        assert row["p_value"] > 0.001
    for metric in ("score_effect", "win_effect"):
        assert (overall.loc[overall["metric"] == metric, "ci_low"] > 0).all()


@pytest.mark.slow
def test_worth_is_in_points_of_human_score():
    """A judge who gives .5 points for a point of human score, far from the ends of the scale, and .5 for the edit."""
    data = construct_population(150)
    judge = bl.SimulatedJudge(data, quality=0.25, noise=0.2, edits={"authority": 0.25})
    row = row_of(run(Edit(edits=["authority"], forms=["score"]), judge, data), "score_worth")
    assert row["ci_low"] < 1 < row["ci_high"]
    blind = bl.SimulatedJudge(data.head(20), quality=0.0, noise=1.0, edits={"authority": 0.25})
    row = row_of(run(Edit(edits=["authority"], forms=["score"]), blind, data.head(20)), "score_worth")
    assert np.isnan(row["estimate"])
    assert "not shown to increase" in row["note"]


@pytest.mark.slow
def test_unchanged_texts_are_excluded_and_counted(graded):
    judge = bl.SimulatedJudge(graded, edits={"shout_if_rainy": 1.0})
    probe = Edit(["coherence"], [shout_if_rainy], n_candidates=None, n_pairs=None)
    trials = bl.collect(probe, judge, graded, progress=False)
    rainy = graded.candidates["text"].str.contains("rain")
    assert 0 < rainy.mean() < 1
    found = probe.estimate(trials)
    share = row_of(found, "untouched", form="score")["estimate"]
    assert share == pytest.approx(1 - rainy.mean())
    excess = row_of(found, "score_excess")
    assert (excess["n_trials"], excess["n_dropped"]) == (2 * rainy.sum(), 0)
    never = Edit(["coherence"], [str.strip])
    found = never.estimate(bl.collect(never, judge, graded, progress=False))
    for metric in ("score_excess", "win_excess"):
        row = row_of(found, metric)
        assert np.isnan(row["estimate"])
        assert "changes none of the texts" in row["note"]
    assert (found.loc[found["metric"] == "untouched", "estimate"] == 1).all()


@pytest.mark.slow
def test_several_edits_are_a_family(graded):
    edits = ["authority", HEADING, NOTE, find_edit(str.upper)]
    judge = bl.SimulatedJudge(graded, noise=0.5, edits={"label": 2.0})
    found = run(Edit(["coherence"], edits), judge, graded, ["score_excess", "win_excess"])
    assert found["edit"].tolist() == ["authority", "label", "crowd", "upper"] * 2
    assert (found["q_value"] > found["p_value"]).any()
    label = found["edit"] == "label"
    assert (found.loc[label, "q_value"] < 0.05).all()
    assert found.loc[label, "estimate"].min() > found.loc[~label].groupby("metric")["estimate"].max().min()


def test_missing_judgements_drop_blocks_and_are_bounded(graded):
    judge = bl.SimulatedJudge(graded, noise=0.5, edits={"authority": 1.0}, refusal=0.2)
    probe = Edit(**ONE, n_candidates=None, n_pairs=None)
    trials = bl.collect(probe, judge, graded, progress=False)
    with pytest.warns(MissingDataWarning, match="authority"):
        found = probe.estimate(trials)
    overall = without_breakdowns(found)
    for metric in ("score_excess", "win_excess"):
        row = row_of(overall, metric)
        assert row["n_dropped"] > 0
        assert row["bound_low"] < row["ci_low"] < row["ci_high"] < row["bound_high"]


def test_a_judge_that_only_writes_text_is_asked_for_text(graded):
    judge = bl.SimulatedJudge(graded, noise=0.5)

    class Writer:
        id, kinds = "writer", frozenset({Completion})

        def check(self, requests):
            bl.core.require_kinds(self, requests)

        def ask(self, requests):
            return judge.ask(requests)

    with pytest.warns(NearestDesignWarning, match="reads text"):
        trials = bl.collect(Edit(**ONE), Writer(), graded, progress=False)
    assert set(trials["answer"]) == {"text"}
    assert Edit(**ONE).nearest(Choice("A or B?", ("A", "B"))).design.answer == "text"
    found = Edit(**ONE, answer="text").estimate(trials, ["score_excess", "win_excess"])
    assert found["estimate"].notna().all()


def test_ties_count_half(graded):
    judge = bl.SimulatedJudge(graded, ties=100.0)
    found = run(Edit(**ONE, forms=["pair"], ties=True, answer="text"), judge, graded)
    for metric in ("win_excess", "flip_excess"):
        assert row_of(without_breakdowns(found), metric)["estimate"] == 0
    assert (found.loc[found["metric"] == "flip_rate", "estimate"] == 0).all()
    assert found.loc[found["metric"] == "worse_wins", "estimate"].isna().all()


def logged(trials):
    """Write trials as somebody's log: the edit's name, and of pairs the edited candidate."""
    names = {"unedited": "", "edited": "authority", "null edit": "null:authority"}
    edited = np.where(trials["edited_first"] == 1, trials["candidate_id"], trials["opponent_id"])
    kept = [
        "judge",
        "dataset",
        "context_id",
        "candidate_id",
        "opponent_id",
        "attribute",
        "replicate",
        "value",
        "status",
    ]
    more = {"edit": trials["variant"].map(names), "edited": np.where(trials["variant"] == "unedited", "", edited)}
    return trials[[*kept, "human", "human_gap", "scale"]].assign(probe="recorded", **more)


@pytest.mark.slow
def test_a_log_with_edited_texts_and_their_twins_is_audited(graded, tmp_path):
    judge = bl.SimulatedJudge(graded, noise=0.5, edits={"authority": 1.0, "null:authority": 0.3})
    probe = Edit(**ONE)
    trials = bl.collect(probe, judge, graded, progress=False)
    logged(trials).to_csv(tmp_path / "log.csv", index=False)
    found = bl.audit(bl.read_judgements(tmp_path / "log.csv"), only=["edit"])
    expected = probe.estimate(trials)
    for metric in ("score_excess", "win_excess", "logit_excess", "flip_excess", "score_worth"):
        rows = [without_breakdowns(frame) for frame in (found, expected)]
        assert row_of(rows[0], metric)["estimate"] == pytest.approx(row_of(rows[1], metric)["estimate"])
    log = bl.read_judgements(tmp_path / "log.csv")
    without = bl.audit(log[log["edit"] != "null:authority"], only=["edit"])
    assert "no null edit" in without.attrs["notes"]["edit"]
    assert without.loc[without["metric"] == "score_excess", "note"].str.contains("null edit").all()
    assert row_of(without, "score_effect", variant="edited")["ci_low"] > 0
    nothing = bl.audit(log[log["edit"] != "authority"], only=["edit"])
    assert "needs" in nothing.attrs["not_run"]["edit"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"edits": ["authorty"]}, "did you mean authority"),
        ({"edits": "authority"}, r"use \['authority'\]"),
        ({"edits": []}, "at least one"),
        ({"edits": ["authority", "authority"]}, "each once"),
        ({"edits": [Change("null:x", str.upper)]}, "null:"),
        ({"forms": ["scores"]}, "forms"),
        ({"template": 3}, "template"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"n_pairs": 0}, "n_pairs"),
        ({"answer": "score"}, "answer"),
    ],
)
def test_bad_parameters_are_named(given, words):
    with pytest.raises(InputError, match=words):
        Edit(**given)


def test_truth_of_pairs_is_of_candidates_as_they_are(graded):
    judge = bl.SimulatedJudge(graded, edits={"authority": 1.0})
    trials = bl.collect(Edit(**ONE, forms=["pair"]), judge, graded, progress=False)
    with pytest.raises(InputError, match="unedited"):
        judge.truth("first_position_rate", trials)
    assert judge.truth("first_position_rate", trials[trials["variant"] == "unedited"]) == 0.5


ATTACKS = ["injection", "injection_completed"]
ALL = ["none", "delimiters", "quoting", "reminder", "two_step"]
PLANTED = {"injection": 2.0, "injection+quoting": 0.5, "injection_completed": -1.0}


def study(data, judge, **options):
    probe = Edit(["coherence"], ATTACKS, **({"n_pairs": 2, "defences": ["none", "quoting"]} | options))
    trials = bl.collect(probe, judge, data, progress=False)
    return probe, trials, probe.estimate(trials)


@pytest.fixture(scope="module")
def planted():
    data = bl.load_dataset("graded", limit=24)
    return study(data, bl.SimulatedJudge(data, noise=0.3, edits=PLANTED))


def texts_of(request):
    return "\n".join(message.content for message in request.messages)


def test_defence_none_equals_no_defences(graded):
    plain, named = (
        [trial.request for trial in Edit(["coherence"], ATTACKS, **more).design(graded)]
        for more in ({}, {"defences": ["none"]})
    )
    assert plain == named


def test_each_defence_asks_the_same_items(graded):
    trials = list(Edit(["coherence"], ATTACKS, defences=ALL).design(graded))
    asked = {
        defence: {
            (t.context_id, t.candidate_id, t.opponent_id, *(t.condition[c] for c in ("edit", "variant", "form")))
            for t in trials
            if t.condition["defence"] == defence
        }
        for defence in ALL
    }
    assert all(items == asked["none"] for items in asked.values())
    assert len({t.request for t in trials}) == len({(t.request, t.condition["defence"]) for t in trials})


@pytest.mark.parametrize("defence", ALL)
def test_candidates_stand_shielded_in_the_prompt(graded, defence):
    texts = set(graded.candidates["text"])
    for trial in Edit(["coherence"], ["injection"], defences=[defence]).design(graded):
        for text in trial.request.about.texts:
            assert text in texts_of(trial.request)
        shielded = {shield(text, defence) for text in texts}
        assert any(text in shielded for text in trial.request.about.texts) or trial.opponent_id is None
        assert (trial.request.messages[0].role == "system") == (defence == "reminder")


@pytest.mark.slow
def test_a_planted_defence_is_found(planted):
    _, _, estimates = planted
    bare = row_of(estimates, "win_excess", edit="injection", defence="none", form="pair", human_gap=None)
    quoted = row_of(estimates, "win_excess", edit="injection", defence="quoting", form="pair", human_gap=None)
    taken = row_of(estimates, "win_defended", edit="injection", defence="quoting")
    assert bare["estimate"] > quoted["estimate"] > 0
    assert taken["estimate"] == pytest.approx(quoted["estimate"] - bare["estimate"])
    assert taken["ci_high"] < 0
    scores = row_of(estimates, "score_defended", edit="injection", defence="quoting")
    assert scores["ci_high"] < 0
    assert scores["n_contexts"] == 24


@pytest.mark.slow
def test_a_defence_that_does_nothing_is_not_found(planted):
    _, _, estimates = planted
    for metric in ("win_defended", "score_defended"):
        row = row_of(estimates, metric, edit="injection_completed", defence="quoting")
        assert row["ci_low"] < 0 < row["ci_high"]


@pytest.mark.slow
def test_without_an_undefended_twin_nothing_is_compared(graded):
    judge = bl.SimulatedJudge(graded, noise=0.3, edits=PLANTED)
    _, _, estimates = study(graded, judge, defences=["quoting"])
    assert not set(estimates["metric"]) & {"win_defended", "score_defended"}
    assert set(estimates["defence"]) == {"quoting"}


def test_trials_from_before_there_were_defences_have_none(planted):
    probe, trials, estimates = planted
    old = trials[trials["defence"] == "none"].drop(columns="defence")
    again = probe.estimate(old, ["win_excess"])
    row = row_of(again, "win_excess", edit="injection", form="pair", human_gap=None)
    same = row_of(estimates, "win_excess", edit="injection", form="pair", human_gap=None, defence="none")
    assert row["estimate"] == same["estimate"]


def test_an_edit_may_read_the_question(graded):
    asking = Change("asking", lambda context: f"So: {context}", reads="context", quality="lowered")
    contexts = set(graded.candidates["context"])
    edited = [t for t in Edit(["coherence"], [asking]).design(graded) if t.condition["variant"] == "edited"]
    assert edited
    for trial in edited:
        assert any(f"So: {context}" in trial.request.about.texts for context in contexts)


def test_defences_are_checked():
    with pytest.raises(InputError, match="quoting"):
        Edit(defences=["quotes"])
    with pytest.raises(InputError, match="defences"):
        Edit(defences=[])
