"""Scorers: what they ask, how they read it, and that text and exact answers tend to the same."""

import math

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_scores
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab import prompts
from biaslab.core import Choice, Completion, Likelihood, Reply, Usage
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.scales import find_scale
from biaslab.measures.scoring import GEval, GPTScore, PromptScoring, Rating, StepWriting, scores, written_steps
from biaslab.measures.scoring.scorers import parse_steps

ONE = ["coherence"]
SCORERS = {
    "prompt_scoring_1": PromptScoring(ONE),
    "prompt_scoring_2": PromptScoring(ONE, template=2),
    "g_eval": GEval(ONE),
    "gpt_score": GPTScore(ONE),
    "rating": Rating(ONE),
    "rate_explain": Rating(ONE, reasons="after"),
    "analyze_rate": Rating(ONE, reasons="before", answer="text"),
}
TEN = st.lists(st.floats(-30, 0), min_size=10, max_size=10)


@pytest.mark.parametrize("name", SCORERS)
def test_scorer_asks_once_about_every_candidate(name, graded):
    scorer = SCORERS[name]
    trials = bl.collect(scorer, bl.SimulatedJudge(graded), graded, progress=False)
    assert list(scorer.design(graded)) == list(scorer.design(graded))
    assert (trials["probe"] == name).all()
    assert (trials["status"] == "ok").all()
    found = scores(trials)
    assert list(found.columns) == list(bl.scoring.SCORES)
    items = graded.candidates[["context_id", "candidate_id"]].to_numpy().tolist()
    assert found[["context_id", "candidate_id"]].to_numpy().tolist() == items
    assert (found["scorer"] == name).all()
    assert trials["human"].tolist() == graded.human_means["coherence"].tolist()


@pytest.mark.parametrize("name", SCORERS)
def test_scorer_refuses_unknown_attribute_before_any_request(name, graded):
    scorer = type(SCORERS[name])(["beauty"])
    with pytest.raises(InputError, match="beauty"):
        list(scorer.design(graded))
    with pytest.raises(InputError, match="list of names"):
        type(SCORERS[name])("coherence")


@pytest.mark.parametrize("name", ["prompt_scoring_1", "prompt_scoring_2", "rating"])
@given(logprobs=TEN)
def test_greedy_is_the_likeliest_label(name, logprobs, graded):
    scorer = SCORERS[name]
    trial = next(iter(scorer.design(graded)))
    assert trial.request.labels == tuple(map(str, range(1, 11)))
    value, status = scorer.read(trial, Reply(logprobs=tuple(logprobs)))
    best = [i + 1 for i, x in enumerate(logprobs) if max(logprobs) - x < 1e-9]  # what differs by rounding is a tie
    assert (value, status) == (pytest.approx(np.mean(best)), "ok")


@given(logprobs=st.lists(st.floats(-30, 0), min_size=5, max_size=5))
def test_g_eval_is_the_expected_score(logprobs, graded):
    trial = next(iter(SCORERS["g_eval"].design(graded)))
    p = np.exp(logprobs)
    value, status = SCORERS["g_eval"].read(trial, Reply(logprobs=tuple(logprobs)))
    assert (value, status) == (pytest.approx(p @ np.arange(1, 6) / p.sum()), "ok")


def test_rating_is_tempered_as_asked(graded):
    logprobs = tuple(np.log([0.1, 0.2, 0.4, 0.2, 0.1]))
    read = {}
    for temperature in (0.0, 0.5, 1.0):
        scorer = Rating(ONE, "1-5", "after", temperature=temperature)
        trial = next(iter(scorer.design(graded)))
        read[temperature] = scorer.read(trial, Reply(logprobs=(*logprobs[:4], math.log(0.3))))[0]
    p = np.array([0.1, 0.2, 0.4, 0.2, 0.3])
    assert read[0.0] == 3
    assert read[1.0] == pytest.approx(p @ np.arange(1, 6) / p.sum())
    assert read[0.5] == pytest.approx(p**2 @ np.arange(1, 6) / (p**2).sum())


def test_reply_without_probabilities_is_a_refusal(graded):
    for name in ("prompt_scoring_1", "g_eval", "rating", "rate_explain"):
        trial = next(iter(SCORERS[name].design(graded)))
        nothing = Reply(logprobs=(-math.inf,) * len(trial.request.labels))
        value, status = SCORERS[name].read(trial, nothing)
        assert math.isnan(value)
        assert status == "refused"
    trial = next(iter(SCORERS["gpt_score"].design(graded)))
    for logprobs in (None, (), (-1.0, -math.inf)):
        value, status = SCORERS["gpt_score"].read(trial, Reply(logprobs=logprobs))
        assert math.isnan(value)
        assert status == "refused"


def test_gpt_score_is_the_mean_token_log_probability(graded):
    trial = next(iter(SCORERS["gpt_score"].design(graded)))
    row = graded.candidates.iloc[0]
    assert isinstance(trial.request, Likelihood)
    assert trial.request.text == row["text"]
    assert trial.request.given.startswith(f"Source: {row['context']}\n\n")
    assert trial.request.given.endswith("\n\nSummary:\n")
    assert "coherent" in trial.request.given
    assert SCORERS["gpt_score"].read(trial, Reply(logprobs=(-1.0, -3.0, -0.5))) == (-1.5, "ok")


def test_prompts_of_liusie_et_al_are_those_of_the_templates(graded):
    row = graded.candidates.iloc[0]
    for template in (1, 2):
        trial = next(iter(PromptScoring(["fluency"], template, scale="1-5").design(graded)))
        shown = {"context": row["context"], "candidate": row["text"], "noun": "summary", "attribute": "fluency"}
        about = {"definition": graded.attributes["fluency"], "low": 1, "high": 5}
        assert trial.request.messages[0].content == prompts.render(f"scoring_{template}", **shown, **about)


def test_form_of_g_eval(graded):
    row = graded.candidates.iloc[0]
    prompt = next(iter(GEval(ONE).design(graded))).request.messages[0].content
    parts = ["Criterion: coherence.", "Steps to follow:\n1. ", f"Source: {row['context']}", f"Summary: {row['text']}"]
    places = [prompt.index(part) for part in [*parts, "- coherence:"]]
    assert places == sorted(places)
    assert find_scale("1-5").wording in prompt
    assert "is there one thread" in prompt  # the aspects make the steps
    own = GEval(ONE, steps={"coherence": ["Read it twice.", "Count the threads."]})
    prompt = next(iter(own.design(graded))).request.messages[0].content
    assert "1. Read it twice.\n2. Count the threads.\n\nSource" in prompt
    assert "is there one thread" not in prompt
    with pytest.raises(InputError, match="fluency"):
        list(GEval(ONE, steps={"fluency": ["Read."]}).design(graded))
    for steps, message in (("Read.", "a list of names"), ([], "at least one step")):
        with pytest.raises(InputError, match=message):
            GEval(ONE, steps={"coherence": steps})


def test_a_data_set_without_sources_has_no_source_in_its_prompts(graded):
    frame = graded.candidates.assign(context="")
    bare = bl.Dataset("bare", frame, graded.human, graded.attributes, noun="summary")
    for scorer in (GEval(ONE), GPTScore(ONE), Rating(ONE)):
        request = next(iter(scorer.design(bare))).request
        text = request.given if isinstance(request, Likelihood) else request.messages[0].content
        assert "source" not in text.lower()


@pytest.mark.slow
def test_rate_explain_is_exact_because_the_reasons_come_later(graded):
    """Samples of whole texts tend to the distribution that stands after "coherence:"."""
    judge = bl.SimulatedJudge(graded, noise=1.0, sharpness=4.0)
    exact = Rating(ONE, "1-5", "after", temperature=1.0)
    text = Rating(ONE, "1-5", "after", answer="text", replicates=200, temperature=1.0)
    trial = next(iter(exact.design(graded)))
    assert trial.request.messages[-1] == ("assistant", "coherence:")
    assert trial.request.labels == (" 1", " 2", " 3", " 4", " 5")
    small = graded.head(4)
    expected = expected_scores(judge, list(exact.design(small)))
    sampled = scores(bl.collect(text, judge, small, progress=False))["score"]
    # noise hangs on the prompt, which the two forms do not share, so they agree on average only
    assert float(np.mean(sampled - expected)) == pytest.approx(0, abs=0.25)
    quiet = bl.SimulatedJudge(graded, sharpness=4.0)
    samples = bl.collect(text, quiet, small, progress=False).groupby(["context_id", "candidate_id"], sort=False)
    error = samples["value"].std() / np.sqrt(200)
    value = scores(bl.collect(exact, quiet, small, progress=False))["score"].to_numpy()
    assert (np.abs(samples["value"].mean() - value) < 4.5 * error + 1e-9).all()


@pytest.mark.slow
def test_g_eval_samples_tend_to_the_expected_score(graded):
    judge, small = bl.SimulatedJudge(graded, sharpness=4.0), graded.head(4)
    exact = scores(bl.collect(GEval(ONE), judge, small, progress=False))["score"]
    trials = bl.collect(GEval(ONE, answer="text", replicates=200), judge, small, progress=False)
    error = trials.groupby(["context_id", "candidate_id"], sort=False)["value"].std().to_numpy() / np.sqrt(200)
    assert (np.abs(scores(trials)["score"] - exact) < 4.5 * error + 1e-9).all()


def test_texts_are_asked_as_the_paper_asks(graded):
    trial = next(iter(PromptScoring(ONE, answer="text").design(graded)))
    assert isinstance(trial.request, Completion)
    assert (trial.request.temperature, trial.request.max_tokens) == (1.0, 5)
    lengths = {"none": 16, "after": 16, "before": 256}
    for reasons, length in lengths.items():
        trial = next(iter(Rating(ONE, reasons=reasons, answer="text").design(graded)))
        assert (trial.request.temperature, trial.request.max_tokens) == (0.0, length)


def test_a_score_stands_beside_its_attribute_among_reasons(graded):
    scorer = SCORERS["analyze_rate"]
    trial = next(iter(scorer.design(graded)))
    text = "It names 3 people in 5 sentences.\ncoherence: 7"
    assert scorer.read(trial, Reply(text=text)) == (7.0, "ok")
    assert scorer.read(trial, Reply(text="It names 3 people."))[1] == "unparsable"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PromptScoring(template=3), "one of 1, 2"),
        (lambda: PromptScoring(scale="1-5 words"), "whole numbers"),
        (lambda: PromptScoring(scale="1-7"), "1-100"),
        (lambda: PromptScoring(replicates=3), 'answer="text"'),
        (lambda: GEval(scale="1-7"), "1-100"),
        (lambda: Rating(reasons="behind"), "before"),
        (lambda: Rating(reasons="before"), "text if the rationale"),
        (lambda: Rating(max_tokens=0, answer="text"), "at least 1"),
    ],
)
def test_bad_parameters_are_named(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_scores_are_means_of_readable_replicates():
    rows = [("x", 0, 4.0, "ok"), ("x", 1, 2.0, "ok"), ("y", 0, math.nan, "refused"), ("y", 1, 5.0, "ok")]
    rows += [("z", 0, math.nan, "unparsable"), ("z", 1, math.nan, "refused")]
    trials = pd.DataFrame(rows, columns=["candidate_id", "replicate", "value", "status"])
    trials = trials.assign(probe="g_eval", judge="j", dataset="d", attribute="a", context_id="c")
    found = scores(trials).set_index("candidate_id")["score"]
    assert found.to_dict() == pytest.approx({"x": 3.0, "y": 5.0, "z": math.nan}, nan_ok=True)
    with pytest.raises(TrialsError, match="several scores of"):
        scores(pd.concat([trials, trials.head(1)]))
    with pytest.raises(TrialsError, match="replicate"):
        scores(trials.drop(columns="replicate"))


def test_greedy_rating_of_a_choice_and_of_text_are_one(graded):
    """The recipe read from the label distribution is what greedy text says; prompts are the same."""
    judge = bl.SimulatedJudge(graded, noise=1.0)
    exact = bl.collect(Rating(), judge, graded, progress=False)
    text = bl.collect(Rating(answer="text"), judge, graded, progress=False)
    assert isinstance(next(iter(Rating().design(graded))).request, Choice)
    assert exact["value"].to_numpy() == pytest.approx(text["value"].to_numpy())


class Writer:
    """A judge that writes steps when it is asked to, and says how often it was asked."""

    id, kinds = "writer", frozenset({Completion, Choice})

    def __init__(self, text="Steps:\n1. Read it.\n2) **Compare both.**\nStep 3: Decide."):
        self.text, self.asked = text, 0

    def check(self, requests):
        pass

    def ask(self, requests):
        for request in requests:
            self.asked += 1
            yield request, Reply(text=self.text, finish_reason="stop", usage=Usage(10, 0, 5))


@pytest.fixture
def data():
    return bl.load_dataset("graded", limit=2)


def test_steps_are_asked_once_per_attribute_and_enter_the_form(data, tmp_path):
    judge, writing = Writer(), StepWriting(["coherence", "fluency"])
    for _ in range(2):
        trials = bl.collect(writing, judge, data, store=tmp_path / "kept.sqlite", progress=False)
    assert judge.asked == 2
    steps = written_steps(trials)
    assert steps == {name: ["Read it.", "Compare both.", "Decide."] for name in ("coherence", "fluency")}
    scorer = GEval(["coherence", "fluency"], steps=steps)
    assert all("2. Compare both." in trial.request.messages[0].content for trial in scorer.design(data))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("- Read.\n- Rate.", ["Read.", "Rate."]),
        ("10. Ten.\n11: Eleven.", ["Ten.", "Eleven."]),
        ("The score is 1.\nIt has 3 parts.", []),
        (None, []),
    ],
)
def test_lists_are_read_and_sentences_are_not(text, steps):
    assert parse_steps(text) == steps


def test_a_reply_without_steps_is_no_steps(data):
    trials = bl.collect(StepWriting(["fluency"]), Writer("I rate it 4."), data, progress=False)
    assert trials["status"].tolist() == ["unparsable"]
    with pytest.raises(TrialsError, match="fluency"):
        written_steps(trials)


def test_a_recipe_has_the_steps_that_are_given_and_no_others(data):
    plain, stepped = (
        [trial.request.messages[0].content for trial in Rating(["fluency"], steps=steps).design(data)]
        for steps in ({}, {"fluency": ["Look.", "Decide."]})
    )
    assert "Evaluation steps" not in plain[0]
    assert stepped[0].replace("Evaluation steps:\n1. Look.\n2. Decide.\n\n", "") == plain[0]
    with pytest.raises(InputError, match="steps"):
        list(Rating(["fluency"], steps={"coherence": ["Look."]}).design(data))
    with pytest.raises(InputError, match=r"steps is .* a list of names"):
        Rating(["fluency"], steps={"fluency": "Look."})


def test_the_probe_hands_each_scorer_its_own(data):
    probe = bl.probes.Recipe(["fluency"], steps={"fluency": ["Own."]}, rival_steps={"fluency": ["Theirs."]})
    asked = {trial.condition["scorer"]: trial.request.messages[0].content for trial in probe.design(data)}
    assert [("1. Own." in asked[name], "1. Theirs." in asked[name]) for name in ("recipe", "g_eval")] == [
        (True, False),
        (False, True),
    ]
    assert "Own." not in asked["rate_explain"]


def test_known_steps_are_those_of_rose(data, tmp_path):
    with pytest.raises(InputError, match="rose"):
        prompts.protocol_steps(data)
