"""What pointwise probes share: every candidate is an item, and every form of answer is read as what it says."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_scores
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab import prompts
from biaslab.core import Choice, Completion, Reply, Score, Trial
from biaslab.core.errors import InputError
from biaslab.core.scales import SCALES, find_scale
from biaslab.measures.scoring import conditional_shares
from biaslab.measures.scoring.pointwise import (
    AnswerSettings,
    Question,
    items,
    read_score,
)

SCALE = find_scale("1-5")
LOGPROBS = st.lists(st.floats(-30, 0), min_size=5, max_size=5)


@pytest.fixture
def item(graded):
    return next(items(graded))


def text_trial(scale="1-5", attribute="fluency", labels=()):
    condition = {"scale": scale, "answer": "text"}
    return Trial(Completion("?"), "c", attribute, "x", condition=condition, labels=labels)


def choice_trial(scale=SCALE, **condition):
    return Trial(Choice("?", scale.labels), "c", "fluency", "x", condition={"scale": scale.name, **condition})


def test_items_are_the_candidates_with_their_mean_human_scores(graded):
    found = list(items(graded))
    assert [(i.context_id, i.candidate_id, i.text) for i in found] == list(
        graded.candidates[["context_id", "candidate_id", "text"]].itertuples(index=False, name=None)
    )
    for item in found[::7]:
        rows = graded.human[(graded.human["context_id"] == item.context_id)]
        rows = rows[rows["candidate_id"] == item.candidate_id]
        assert item.human == pytest.approx(rows.groupby("attribute")["score"].mean().to_dict())
        assert item.context == graded.candidates.set_index("context_id").loc[item.context_id, "context"].iloc[0]


def test_item_without_ratings_has_nan_human_score():
    row = {"context_id": "c", "context": "", "candidate_id": "x", "system": "s", "text": "t", "reference": ""}
    human = pd.DataFrame(columns=["context_id", "candidate_id", "attribute", "annotator", "score"])
    [item] = items(bl.Dataset("d", pd.DataFrame([row]), human, {"fluency": "Well written."}))
    assert (item.system, item.context) == ("s", "")
    assert math.isnan(item.human["fluency"])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"answer": "score"}, "one of distribution, text$"),
        ({"replicates": 0}, "at least 1"),
        ({"answer": "text", "replicates": True}, "whole number"),
        ({"replicates": 2}, 'use answer="text"'),
        ({"max_tokens": 0}, "at least 1"),
        ({"seed": -1}, "at least 0"),
        ({"seed": 1.5}, "whole number"),
        ({"temperature": -0.1}, "from 0 to 10"),
        ({"temperature": 11}, "from 0 to 10"),
        ({"temperature": math.nan}, "from 0 to 10"),
    ],
)
def test_how_to_ask_is_checked(parameters, words):
    with pytest.raises(InputError, match=words):
        AnswerSettings(**parameters)


def test_a_distribution_is_asked_once_and_text_once_a_replicate(item):
    question = Question.of(item, "fluency", "Rate it.", SCALE)
    [choice] = AnswerSettings().requests(question)
    assert choice == Choice("Rate it.", SCALE.labels)
    asked = list(AnswerSettings("text", 3, 0.5, 20, 7).requests(question))
    assert asked == [Completion("Rate it.", 0.5, 20, replicate, 7) for replicate in range(3)]


def test_evaluator_score_is_rescaled_to_the_scale(item):
    [trial] = Question.of(item, "fluency", "Rate it.", SCALE).trials(AnswerSettings("score", evaluators=True), {})
    assert trial.request == Score(item.text, item.context, item.reference, "fluency")
    assert [read_score(trial, Reply(score=share))[0] for share in (0.0, 0.25, 1.0, 1.05)] == [1.0, 2.0, 5.0, 5.2]
    assert read_score(trial, Reply())[1] == "refused"
    tens = [replace(trial, condition={**trial.condition, "scale": "1-10"})]
    assert read_score(tens[0], Reply(score=0.5)) == (5.5, "ok")


def test_score_trials_carry_item_attribute_and_condition(item):
    trials = list(Question.of(item, "fluency", "Rate it.", SCALE).trials(AnswerSettings("text", 2), {"source": "with"}))
    assert [trial.replicate for trial in trials] == [0, 1] == [trial.request.replicate for trial in trials]
    for trial in trials:
        assert (trial.context_id, trial.candidate_id) == (item.context_id, item.candidate_id)
        expected = {"source": "with", "scale": "1-5", "answer": "text", "human": item.human["fluency"]}
        assert (trial.attribute, trial.condition) == ("fluency", expected)


@given(LOGPROBS)
def test_the_probabilities_of_all_labels_sum_to_1(logprobs):
    trials = [choice_trial(label=value) for value in SCALE.values]  # noqa: PD011 - no frame
    values, statuses = zip(*(read_score(trial, Reply(logprobs=tuple(logprobs))) for trial in trials), strict=True)
    assert set(statuses) == {"ok"}
    assert math.fsum(values) == pytest.approx(1)
    weights = np.exp(logprobs)
    np.testing.assert_allclose(values, weights / weights.sum(), rtol=1e-9)


@given(LOGPROBS)
def test_the_expected_score_is_the_mean_over_labels(logprobs):
    value, status = read_score(choice_trial(), Reply(logprobs=tuple(logprobs)))
    assert (value, status) == (pytest.approx(np.average([1, 2, 3, 4, 5], weights=np.exp(logprobs))), "ok")


def test_label_trials_share_one_request(item):
    for scale in SCALES.values():
        trials = list(Question.of(item, "fluency", "Rate it.", scale).label_trials({"asked": "label"}))
        assert {trial.request for trial in trials} == {Choice("Rate it.", scale.labels)}
        assert tuple(trial.condition["label"] for trial in trials) == scale.values  # noqa: PD011 - no frame
        assert {trial.condition["asked"] for trial in trials} == {"label"}
        logprobs = np.log(np.arange(1, len(scale.labels) + 1) / 1000)
        values = [read_score(trial, Reply(logprobs=tuple(logprobs)))[0] for trial in trials]
        assert values == pytest.approx(np.arange(1, len(values) + 1) / sum(range(len(values) + 1)))


@pytest.mark.parametrize("logprobs", [(), None, (-math.inf,) * 5])
@pytest.mark.parametrize("condition", [{}, {"label": 3.0}])
def test_labels_without_probability_are_a_refusal(logprobs, condition):
    value, status = read_score(choice_trial(**condition), Reply(logprobs=logprobs))
    assert math.isnan(value)
    assert status == "refused"


@pytest.mark.parametrize(
    ("text", "scale", "found"),
    [
        ("4", "1-5", (4.0, "ok")),
        ("Score: 4.", "1-5", (4.0, "ok")),
        ("strong 3", "1-5 words", (3 + 1 / 3, "ok")),
        ("87", "1-100", (87.0, "ok")),
        ("7", "1-5", (math.nan, "out_of_range")),
        ("Perhaps.", "1-5", (math.nan, "unparsable")),
        ("I'm sorry, but I cannot rate this text.", "1-5", (math.nan, "refused")),
    ],
)
def test_a_text_is_read_on_the_scale_of_its_trial(text, scale, found):
    value, status = read_score(text_trial(scale), Reply(text=text))
    assert (value, status) == (pytest.approx(found[0], nan_ok=True), found[1])


def test_each_trial_reads_its_attribute_from_a_joint_reply():
    names = ("coherence", "fluency")
    for text in ("coherence: 2\nfluency: 5", json.dumps({"coherence": 2, "fluency": 5})):
        found = [read_score(text_trial(attribute=name, labels=names), Reply(text=text)) for name in names]
        assert found == [(2.0, "ok"), (5.0, "ok")]
    value, status = read_score(text_trial(labels=names), Reply(text="coherence: 2"))
    assert (math.isnan(value), status) == (True, "unparsable")


def test_a_judge_is_read_as_it_was_planted(graded, item):
    """Both ways of asking a judge without noise give the expected score that is known of it."""
    judge = bl.SimulatedJudge(graded)
    prompt = prompts.rate(graded, ["fluency"], SCALE, item.text, item.context)
    trials = list(Question.of(item, "fluency", prompt, SCALE).trials(AnswerSettings("text", 400), {}))
    replies = dict(judge.ask([trial.request for trial in trials]))
    samples = [read_score(trial, replies[trial.request])[0] for trial in trials]
    [exact] = Question.of(item, "fluency", prompt, SCALE).trials(AnswerSettings(), {})
    [(_, reply)] = judge.ask([exact.request])
    [expected] = expected_scores(judge, [exact])
    assert read_score(exact, reply)[0] == pytest.approx(expected)
    assert np.mean(samples) == pytest.approx(expected, abs=4 * max(np.std(samples), 0.01) / math.sqrt(400))


def test_shares_are_those_that_one_counts_and_add_up_to_one():
    rows = [("c", 1, 1, 5), ("c", 3, 2, 5), ("d", 4, 5, 1), ("d", 5, 5, np.nan), ("e", 5, 4.4, 1)]
    scores = pd.DataFrame(rows, columns=["context_id", "x", "y", "z"])
    found = conditional_shares(scores, ["x", "y", "z"], range(1, 6), "j", "d")
    pairs = found[["after", "attribute", "position"]].drop_duplicates()
    assert list(pairs.itertuples(index=False, name=None)) == [("x", "y", 2), ("x", "z", 3), ("y", "z", 3)]
    one = found[(found["after"] == "x") & (found["attribute"] == "y")].set_index(["metric", "score"])["estimate"]
    assert [one["share_after_low", k] for k in range(1, 6)] == pytest.approx([0.5, 0.5, 0, 0, 0])
    assert [one["share_after_high", k] for k in range(1, 6)] == pytest.approx([0, 0, 0, 1 / 3, 2 / 3])
    dropped = found.loc[found["attribute"] == "z", "n_dropped"]
    assert (dropped == 1).all()


@pytest.mark.slow
def test_conditional_shares_agree_with_the_anchoring_probe():
    data = bl.load_dataset("graded", limit=8)
    probe = bl.probes.Anchoring(["coherence", "fluency"], scale="1-10", answer="text", n_forced=0, n_orders=1)
    trials = bl.collect(probe, bl.SimulatedJudge(data, anchoring=0.4, noise=1.0), data, progress=False)
    joint = trials[trials["arm"] == "joint"]
    wide = joint.pivot_table(index=["context_id", "candidate_id"], columns="attribute", values="value").reset_index()
    ours = conditional_shares(wide, ["coherence", "fluency"], range(1, 11), "j", data.name)
    theirs = probe.estimate(trials)
    for metric in ("mean_after_low", "mean_after_high", "share_after_low"):
        both = [f.loc[f["metric"] == metric].set_index("score")["estimate"].sort_index() for f in (ours, theirs)]
        np.testing.assert_allclose(*(each.to_numpy(float) for each in both))


def test_one_attribute_follows_nothing():
    with pytest.raises(InputError, match="two"):
        conditional_shares(pd.DataFrame({"context_id": ["c"], "x": [1.0]}), ["x"], [1, 2], "j", "d")
