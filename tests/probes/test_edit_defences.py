"""Attacks with and without defences: what is asked, what of a planted defence is found, and what it costs nothing."""

import pytest
from studies import row_of

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.probes.edit import Edit
from biaslab.prompts.defences import shield
from biaslab.prompts.edits import Edit as Change

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
