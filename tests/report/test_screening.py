"""The screen: the common biases in one call, at the cost that was announced, on one card."""

import contextlib
import runpy
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, assume, given, settings, strategies as st

import biaslab as bl
from biaslab.core.errors import BiaslabError, BudgetExceededError, InputError, JudgeError
from biaslab.judges.api import ApiJudge, Patience
from biaslab.judges.function import FunctionJudge
from biaslab.report.screening import choose_probes, draw_texts

AnsweringServer = runpy.run_path(str(Path(__file__).parents[1] / "judges" / "answering_server.py"))["AnsweringServer"]
QUICK = Patience(retries=2, first_wait=0.001, grace=5, reach=0.2)
PAIRS = bl.Protocol.from_template(
    "{question}\n\nSummary A: {answer_a}\n\nSummary B: {answer_b}\n\nSay which is better.",
    verdicts={"Summary A": 1, "Summary B": 0},
    temperature=1.0,
)
SCORES = bl.Protocol.from_template(
    "{question}\n\n{answer}\n\nScore it from 1 (worst) to 10 (best).",
    form="score",
    scale="1-10",
    pattern=r"(\d+)",
    temperature=1.0,
)


class Counted:
    """A judge that notes what it is asked."""

    def __init__(self, judge):
        self.judge, self.id, self.kinds, self.check = judge, judge.id, judge.kinds, judge.check
        self.asked = []

    def ask(self, requests):
        listed = list(requests)
        self.asked += listed
        return self.judge.ask(listed)


@pytest.fixture
def judge(graded):
    return Counted(bl.SimulatedJudge(graded, noise=1.0, position=1.0))


@pytest.fixture
def told():
    return []


def screen(judge, data, *protocol, **options):
    return bl.screen(judge, data, *protocol, **{"progress": False, "reference": None, **options})


def longer(first, second):
    return "first" if len(first) > len(second) else "second"


def words(candidate):
    return min(5.0, 1 + len(candidate.split()) / 40)


@pytest.mark.slow
def test_announced_requests_are_each_asked_once(judge, graded, told):
    planned = bl.plan_screen(judge, graded)
    assert judge.asked == []
    found = screen(judge, graded, say=told.append)
    assert (
        planned.announced.requests == found.planned.requests == len(judge.asked) == len(set(judge.asked)) == 8 * (6 + 3)
    )
    assert found.trials.attrs["asked"] == 72
    assert f"{judge.id}, 5 probes: 72 requests; " in told[0]
    assert found.trials.attrs["stored"] == 2 * 24 + 48  # three probes read one question for scores, two one for pairs
    assert set(found.trials["probe"]) == {"position", "verbosity", "consistency", "score_distribution"}


@pytest.mark.slow
def test_it_is_announced_once_beside_progress_bars(graded, capsys):
    bl.screen(longer, graded, reference=None)
    said = "".join(capsys.readouterr())
    assert said.count("input tokens") == 1
    assert "verbosity: 100%" in said


@pytest.mark.parametrize(
    ("judge", "protocol", "measured"),
    [
        (longer, None, {"position", "verbosity"}),
        (words, None, {"verbosity"}),
        (None, PAIRS, {"position", "verbosity"}),
        (None, SCORES, {"verbosity", "consistency", "score_distribution"}),
        pytest.param(
            None,
            (SCORES, PAIRS),
            {"position", "verbosity", "consistency", "score_distribution"},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["function of two", "function of one", "protocol of pairs", "protocol of scores", "protocols of both"],
)
def test_form_selects_probes_and_others_have_a_reason(judge, protocol, measured, graded):
    judge = judge or bl.SimulatedJudge(graded, noise=1.0)
    found = screen(judge, graded, protocol, contexts=4)
    assert set(found.estimates["probe"]) == measured
    asked = ", ".join(probe for _, probe, _ in found.card.unmeasured)
    everything = {"position", "verbosity", "consistency", "score_distribution", "self_preference"}
    assert {*asked.split(", ")} == everything - measured
    text = " ".join(str(found).split())
    for _, probe, why in found.card.unmeasured:
        assert f"{probe.replace('_', ' ')} ({why})" in text
        assert "\n" not in why
    assert found.planned.requests >= found.trials.attrs["asked"] > 0


@pytest.mark.slow
def test_a_function_of_two_costs_what_is_announced(graded):
    calls = []

    def judge(first, second):
        calls.append((first, second))
        return longer(first, second)

    found = screen(judge, graded, candidates=4)
    assert found.planned.requests == len(calls) == 8 * 12


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [None, PAIRS, (PAIRS, SCORES)], ids=["ours", "pairs", "both"])
def test_a_server_of_text_alone_costs_what_is_announced(protocol, graded, told):
    with AnsweringServer(probabilities=False, completions=False) as server:
        judge = ApiJudge("judge", server.url, patience=QUICK, timeout=5.0, prices={"input": 1.0, "output": 2.0})
        found = screen(judge, graded, protocol, contexts=4, say=told.append)
        judge.close()
        calls = len(server.bodies)
    assert found.planned.requests == found.trials.attrs["asked"] == calls - (protocol is None)
    assert "at most $" in told[0]
    assert found.trials.attrs["dollars"] > 0
    assert (found.estimates["probe"] == "position").any()
    scores = found.trials[found.trials["probe"] == "consistency"]
    assert scores["replicate"].nunique() == (0 if protocol is PAIRS else 3)
    if protocol is None:
        assert any("reads text instead of label probabilities" in why for _, _, why in found.card.otherwise)
        said = [line for line in told if "reads text instead" in line]
        assert len(said) == len(set(said)) == len(found.card.otherwise)


@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.slow
def test_plan_of_an_unknown_server_counts_both_ways_of_answering(probabilities, graded, told):
    with AnsweringServer(probabilities=probabilities, completions=False) as server:
        judge = ApiJudge("judge", server.url, patience=QUICK, timeout=5.0)
        planned = bl.plan_screen(judge, graded, contexts=2)
        assert not server.bodies
        found = screen(judge, graded, contexts=2, say=told.append)
        judge.close()
    known = planned.announced if probabilities else planned.as_text
    assert planned.as_text.requests > planned.announced.requests
    assert known.requests == found.planned.requests + probabilities  # one was asked to see how it answers
    assert "no label probabilities" in str(planned)


@pytest.mark.slow
@pytest.mark.thorough
@settings(max_examples=200, phases=(Phase.explicit, Phase.generate))
@given(
    kind=st.sampled_from(["exact", "sampled:2", "pair", "score"]),
    forms=st.sampled_from([(), (PAIRS,), (SCORES,), (PAIRS, SCORES)]),
    contexts=st.integers(1, 3),
    candidates=st.integers(2, 4),
    seed=st.integers(0, 5),
)
def test_plan_is_what_runs(kind, forms, contexts, candidates, seed):
    data = bl.load_dataset("graded", limit=3)
    functions = {"pair": FunctionJudge(longer), "score": FunctionJudge(words)}
    inner = functions.get(kind) or bl.SimulatedJudge(data, noise=1.0)
    assume(not (forms and kind in functions))
    judge = Counted(bl.Sampled(inner, 2) if kind == "sampled:2" else inner)
    drawn = draw_texts(data, contexts, candidates, None, seed)
    probes, _ = choose_probes(judge, drawn, forms, None, None, seed)
    planned = bl.plan_screen(judge, data, forms, contexts=contexts, candidates=candidates, seed=seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = []
        for probe in probes:
            with contextlib.suppress(JudgeError):  # a function of one text answers no samples
                bl.collect(probe, judge, drawn, store=Path(folder) / "replies.sqlite", progress=False)
                measured.append(probe.name)
    assert planned.announced.requests == len(judge.asked)
    assert planned.probes == tuple(measured)


@pytest.mark.slow
def test_planted_biases_are_found_and_others_are_not():
    data = bl.load_dataset("graded", limit=24)
    biased = screen(bl.SimulatedJudge(data, noise=0.5, position=2.0, heaping=3.0), data).card.biases
    status = biased.set_index(["probe", "metric"])["status"]
    assert status["position", "first_position_rate"] == "bias"
    assert status["score_distribution", "round_number_excess_10"] == "bias"
    fair = screen(bl.SimulatedJudge(data, noise=0.5), data, own="clean")
    assert not (fair.card.biases["status"] == "bias").any()
    mine = {"self_preference": 4.0, "own_system": "clean"}
    found = screen(bl.SimulatedJudge(data, quality=0.5, noise=0.5, **mine), data, own="clean").estimates.set_index(
        "metric"
    )
    assert (found.loc[["self_preference_logit", "self_preference_shift"], "q_value"] < 0.001).all()
    assert found.loc["self_preference_logit", "estimate"] == pytest.approx(4.0, abs=0.1)


@pytest.mark.slow
def test_q_values_are_over_the_tests_of_the_card(judge, graded):
    found = screen(judge, graded)
    keys = ["probe", "metric", "attribute"]
    ours, theirs = (
        frame[frame["q_value"].notna()].set_index(keys)["q_value"].sort_index()
        for frame in (found.estimates, found.card.cells)
    )
    pd.testing.assert_series_equal(ours, theirs, check_index_type=False)
    assert len(ours) >= 4


@pytest.mark.slow
def test_a_budget_refuses_everything_before_anything_is_asked(judge, graded):
    with pytest.raises(
        BudgetExceededError, match=r"needs 72 requests, but the budget allows 71, enough for 7 of 8 contexts"
    ):
        screen(judge, graded, budget=bl.Budget(requests=71))
    assert judge.asked == []
    assert screen(judge, graded, budget=bl.Budget(requests=72)).trials.attrs["asked"] == 72


@pytest.mark.slow
def test_a_partial_budget_is_one_budget_for_all_probes(judge, graded):
    found = screen(judge, graded, budget=bl.Budget(requests=60, partial=True))
    assert len(judge.asked) == 60
    assert [probe for _, probe, _ in found.card.unmeasured] == ["self_preference"]
    contexts = found.trials.groupby("probe")["context_id"].nunique()
    assert contexts.to_dict() == {"position": 8, "verbosity": 8, "consistency": 4, "score_distribution": 4}
    parts = {probe: words for _, probe, words in found.card.otherwise}
    assert {probe for probe, words in parts.items() if "only 4 of 8 contexts" in words} == set(parts) == {
        "verbosity", "consistency", "score_distribution",
    }  # fmt: skip


@pytest.mark.slow
def test_unread_replies_are_not_paid_for_by_the_next_probe(graded):
    calls = []

    def judge(prompt):
        calls.append(prompt)
        return "I would rather not say"

    with pytest.raises(BiaslabError, match="hold"):
        screen(judge, graded, PAIRS)
    assert len(calls) < 40  # of 96: two samples of 48


def test_budget_of_no_context_gives_no_card(judge, graded):
    with pytest.raises(BudgetExceededError, match="the budget is spent"):
        screen(judge, graded, budget=bl.Budget(requests=3, partial=True))


@pytest.mark.slow
def test_tokens_are_one_budget_for_all_probes(judge, graded):
    spent = screen(judge, graded).trials.attrs["tokens"]
    assert spent > 0
    found = screen(judge, graded, budget=bl.Budget(tokens=round(0.95 * spent), partial=True))
    assert "position" in set(found.trials["probe"])
    notes = [*found.card.unmeasured, *found.card.otherwise]
    assert any("the budget was spent" in words or "the budget is spent" in words for _, _, words in notes)


@pytest.mark.slow
def test_a_store_is_kept_and_asked_nothing_again(judge, graded, tmp_path):
    first = screen(judge, graded, store=tmp_path / "replies.sqlite")
    again = screen(judge, graded, store=tmp_path / "replies.sqlite")
    assert len(judge.asked) == 72
    assert again.planned is None
    pd.testing.assert_frame_equal(first.estimates, again.estimates)
    with bl.Store(tmp_path / "replies.sqlite") as store:
        assert screen(judge, graded, store=store).planned is None


@pytest.mark.slow
def test_own_texts_are_among_those_that_are_drawn(judge, graded):
    trials = screen(judge, graded, own="clean", candidates=2).trials
    scored = trials[(trials["probe"] == "self_preference") & (trials["opponent_id"].fillna("") == "")]
    assert (scored.groupby("context_id")["system"].agg(lambda names: (names == "clean").sum()) == 1).all()


@pytest.mark.slow
def test_verbosity_is_untested_without_human_scores(graded):
    blind = bl.Dataset(
        **{name: getattr(graded, name) for name in ("name", "candidates", "attributes", "scale", "noun")}
        | {"human": graded.human.iloc[:0]}
    )
    judge = bl.SimulatedJudge(graded, noise=1.0)
    found = screen(judge, blind)
    assert "position" in set(found.estimates["probe"])
    assert any(probe == "verbosity" for _, probe, _ in found.card.unmeasured) or (
        (found.card.biases.set_index("probe").loc[["verbosity"], "status"] == "untested").all()
    )


@pytest.mark.slow
def test_screen_result_shows_the_card(judge, graded):
    found = screen(judge, graded, contexts=4)
    assert "<table" in found._repr_html_()
    assert "also: position, same winner in both orders (share), coherence: " in str(found)
    assert np.isfinite(found.estimates.loc[found.estimates["metric"] == "sample_alpha", "estimate"]).all()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"contexts": 0}, "contexts"),
        ({"candidates": 1}, "candidates"),
        ({"attributes": ["charm"]}, "attributes"),
        ({"own": "nobody"}, "own"),
        ({"protocol": [PAIRS, PAIRS]}, "protocol"),
        ({"protocol": "missing.toml"}, "path"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_asked(options, name, judge, graded):
    with pytest.raises(InputError) as caught:
        screen(judge, graded, **options)
    assert caught.value.name == name
    assert judge.asked == []


def test_screen_raises_the_reason_if_no_probe_was_measured(graded):
    def broken(first, second):
        return "neither"

    with pytest.raises(BiaslabError, match="broken returned 'neither'"):
        screen(broken, graded)
