"""The output order probe against planted shifts, hand-computed frames and GPT-3.5's recorded replies."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_scores
from studies import row_of, run

import biaslab as bl
from biaslab.atlas import published
from biaslab.core import Reply
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.core.scales import whole_numbers
from biaslab.probes.output_order import OutputOrder
from biaslab.prompts.parsing import parse_score

ONE = {"attributes": ["coherence"], "forms": ["ex"], "rules": [True]}


@pytest.fixture(scope="module")
def dialogues():
    return bl.load_dataset("dialogues")


def frame(rows, **cell):
    fixed = {"judge": "j", "dataset": "d", "attribute": "coherence", "scale": "1-10", "form": "ex", "rules": True}
    columns = ["context_id", "candidate_id", "order", "replicate", "value"]
    trials = pd.DataFrame(rows, columns=columns).assign(**(fixed | cell))
    return trials.assign(status=np.where(trials["value"].isna(), "unparsable", "ok"))


def test_design_is_every_item_in_twelve_configurations(dialogues):
    trials = list(OutputOrder(attributes=["variety"], rules=[True, False]).design(dialogues))
    assert len(trials) == 51 * 12 * 2
    assert len({t.request for t in trials}) == len(trials)
    first = trials[0]
    assert (first.condition["form"], first.condition["order"], first.condition["rules"]) == ("ex", "s", True)
    assert "from 1 (worst) to 10 (best)" in first.request.messages[0].content
    assert {t.request.max_tokens for t in trials if t.condition["order"] == "s"} == {16}
    assert {t.request.max_tokens for t in trials if t.condition["order"] != "s"} == {256}
    ruled = {t.condition["rules"]: "Special rules" in t.request.messages[0].content for t in trials}
    assert ruled == {True: True, False: False}


def test_drawn_candidates_depend_on_seed_and_context_alone(dialogues):
    def drawn(data, seed):
        return {(t.context_id, t.candidate_id) for t in OutputOrder(n_candidates=2, seed=seed).design(data)}

    few, many = drawn(dialogues.head(3), 0), drawn(dialogues, 0)
    assert few < many
    assert len(many) == 20
    assert drawn(dialogues, 1) != many


def test_estimates_of_a_frame_computed_by_hand():
    rows = [
        ("a", "x", "s", 0, 3.0), ("a", "x", "s", 1, 5.0),
        ("a", "x", "sr", 0, 4.0), ("a", "x", "sr", 1, 6.0),
        ("a", "x", "rs", 0, 8.0), ("a", "x", "rs", 1, 8.0),
        ("b", "y", "s", 0, 1.0), ("b", "y", "s", 1, 1.0),
        ("b", "y", "sr", 0, 2.0), ("b", "y", "sr", 1, 2.0),
        ("b", "y", "rs", 0, 2.0), ("b", "y", "rs", 1, 3.0),
    ]  # fmt: skip
    found = OutputOrder().estimate(frame(rows))
    assert row_of(found, "reason_first_shift", order="rs-sr")["estimate"] == pytest.approx((3 + 0.5) / 2)
    assert row_of(found, "reason_shift", order="sr-s")["estimate"] == pytest.approx((1 + 1) / 2)
    assert row_of(found, "sample_difference", order="rs-sr")["estimate"] == pytest.approx(
        (4 + 4 + 2 + 2 + 0 + 0 + 1 + 1) / 8
    )
    assert row_of(found, "resampling_difference", order="rs-sr")["estimate"] == pytest.approx((0 + 2 + 1 + 0) / 4)
    assert row_of(found, "mean_score", order="sr")["estimate"] == pytest.approx(3.5)
    assert row_of(found, "score_sd", order="sr")["estimate"] == pytest.approx(np.std([4, 6, 2, 2], ddof=1))
    assert row_of(found, "resampling_sd", order="sr")["estimate"] == pytest.approx(np.sqrt((2 + 0) / 2))
    assert row_of(found, "parse_failure_rate", order="s")["estimate"] == 0
    shares = found[(found["metric"] == "score_share") & (found["order"] == "sr")].set_index("score")["estimate"]
    assert shares.to_dict() == {1: 0, 2: 0.5, 3: 0, 4: 0.25, 5: 0, 6: 0.25, 7: 0, 8: 0, 9: 0, 10: 0}


def test_an_item_without_its_counterpart_drops_out():
    rows = [
        (c, "x", order, 0, v)
        for c, *vs in [("a", 4, 5), ("b", 3, 3)]
        for order, v in zip(("sr", "rs"), vs, strict=True)
    ]
    rows += [("c", "x", "sr", 0, 9.0), ("c", "x", "rs", 0, np.nan)]
    with pytest.warns(MissingDataWarning, match=r"coherence, .*form ex, .*rs-sr"):
        found = OutputOrder().estimate(frame(rows))
    shift = row_of(found, "reason_first_shift", order="rs-sr")
    assert (shift["estimate"], shift["n_trials"], shift["n_dropped"], shift["n_contexts"]) == (0.5, 4, 2, 2)
    assert row_of(found, "parse_failure_rate", order="rs")["estimate"] == pytest.approx(1 / 3)
    assert row_of(found, "mean_score", order="sr")["estimate"] == pytest.approx(16 / 3)
    floor = row_of(found, "resampling_difference", order="rs-sr")
    assert np.isnan(floor["estimate"])
    assert "two samples" in floor["note"]
    assert "s was not judged" in row_of(found, "reason_shift", order="sr-s")["note"]


@pytest.mark.parametrize("planted", [-0.15, 0.0, 0.15])
def test_planted_shift_comes_back(dialogues, planted):
    """The judge's own expected scores are the truth; on the whole set the estimate lies within 3.5 standard errors."""
    judge = bl.SimulatedJudge(dialogues, quality=0.4, noise=0.5, reason_first=planted)
    probe = OutputOrder(replicates=3, orders=["sr", "rs"], **ONE)
    trials = list(probe.design(dialogues))
    expected = dict.fromkeys(("sr", "rs"), 0.0)
    for trial, score in zip(trials, expected_scores(judge, trials), strict=True):
        expected[trial.condition["order"]] += score / (len(trials) / 2)
    found = row_of(run(probe, judge, dialogues, ["reason_first_shift"]), "reason_first_shift", order="rs-sr")
    error = found["mde"] / 3.2  # of about 10 contexts
    assert abs(found["estimate"] - (expected["rs"] - expected["sr"])) < 3.5 * error
    assert (found["p_value"] < 0.05) == (planted != 0)


@pytest.mark.slow
def test_noise_floor_equals_the_difference_of_neutral_orders(dialogues):
    """Without a bias and without noise of prompts, samples of two orders are as far apart as those of one request."""
    judge = bl.SimulatedJudge(dialogues, quality=0.5, sharpness=4.0)
    found = run(OutputOrder(replicates=8, **ONE), judge, dialogues)
    for order in ("rs-sr", "sr-s"):
        apart, floor = (row_of(found, m, order=order) for m in ("sample_difference", "resampling_difference"))
        assert apart["estimate"] == pytest.approx(floor["estimate"], rel=0.08)
    biased = bl.SimulatedJudge(dialogues, quality=0.5, sharpness=4.0, reason_first=0.4)
    found = run(OutputOrder(replicates=8, **ONE), biased, dialogues)
    apart, floor = (row_of(found, m, order="rs-sr") for m in ("sample_difference", "resampling_difference"))
    assert apart["ci_low"] > floor["ci_high"]


@pytest.mark.slow
def test_shift_is_estimated_for_each_form_and_rule(graded):
    judge = bl.SimulatedJudge(graded, reason_first=0.1)
    found = run(
        OutputOrder(attributes=["fluency"], rules=[True, False]),
        judge,
        graded,
        ["reason_first_shift", "parse_failure_rate"],
    )
    shifts = found[found["metric"] == "reason_first_shift"]
    assert sorted(zip(shifts["form"], shifts["rules"], strict=True)) == [
        ("ex", False), ("ex", True), ("json", False), ("json", True),
    ]  # fmt: skip
    assert shifts["q_value"].notna().all()
    assert (
        found.loc[found["metric"] == "parse_failure_rate", "estimate"] == 0
    ).all()  # both forms are written and read


def test_an_answer_that_was_begun_is_read_as_a_whole(graded):
    plain, opened = (OutputOrder(attributes=["fluency"], opened=opened) for opened in (False, True))
    judge = bl.SimulatedJudge(graded, sharpness=50.0, refusal=0.1)
    found = [bl.collect(probe, judge, graded, progress=False) for probe in (plain, opened)]
    assert set(found[1]["status"]) == {"ok", "refused"}
    both = (found[0]["status"] == "ok") & (found[1]["status"] == "ok")
    assert both.mean() > 0.7
    assert (found[0]["value"] - found[1]["value"])[both].abs().max() <= 1  # other prompts, other draws, one judge
    trial = next(t for t in opened.design(graded) if t.condition["order"] == "sr" and t.condition["form"] == "json")
    assert trial.request.messages[-1] == ("assistant", '{"score":')
    assert opened.read(trial, Reply(text=' 7, "reasons": "It ends well')) == (7.0, "ok")
    assert opened.read(trial, Reply(text=" well"))[1] == "unparsable"


@pytest.mark.slow
def test_refusals_are_no_parse_failures_and_drop_whole_items(graded):
    judge = bl.SimulatedJudge(graded, refusal=0.5, selective=True, garbage=0.2)
    probe = OutputOrder(replicates=1, **ONE)
    trials = bl.collect(probe, judge, graded, progress=False)
    with pytest.warns(MissingDataWarning):
        found = probe.estimate(trials)
    for order, part in trials.groupby("order"):
        rate = row_of(found, "parse_failure_rate", order=order)["estimate"]
        answered = part[part["status"] != "refused"]
        assert rate == pytest.approx((answered["status"] == "unparsable").mean())
    wide = trials[trials["status"] == "ok"].pivot_table(
        index=["context_id", "candidate_id"], columns="order", values="value"
    )
    both = wide[["sr", "rs"]].dropna()
    shift = row_of(found, "reason_first_shift", order="rs-sr")
    assert shift["estimate"] == pytest.approx((both["rs"] - both["sr"]).mean())
    assert shift["n_trials"] == 2 * len(both)
    assert shift["n_trials"] + shift["n_dropped"] == (trials["order"] != "s").sum()


@pytest.mark.slow
def test_order_of_rows_does_not_matter(dialogues):
    probe = OutputOrder(**ONE)
    trials = bl.collect(probe, bl.SimulatedJudge(dialogues, noise=1.0), dialogues, progress=False)
    key = ["metric", "order", "score"]
    plain, other = probe.estimate(trials), probe.estimate(trials.sample(frac=1, random_state=3))
    pd.testing.assert_frame_equal(
        plain.sort_values(key).reset_index(drop=True), other.sort_values(key).reset_index(drop=True)
    )


@pytest.mark.parametrize(
    "given",
    [
        {"orders": ["s", "sr"]},
        {"forms": ["yaml"]},
        {"forms": "ex"},
        {"rules": []},
        {"rules": [True, True]},
        {"scale": "1-7"},
        {"n_candidates": 0},
        {"replicates": 0},
        {"temperature": -1.0},
        {"max_tokens": 0},
        {"attributes": "coherence"},
    ],
)
def test_bad_parameters_are_named(given):
    with pytest.raises(InputError, match=next(iter(given))):
        OutputOrder(**given)


def test_a_frame_without_a_column_is_refused():
    with pytest.raises(TrialsError, match="form"):
        OutputOrder().estimate(frame([("a", "x", "sr", 0, 1.0)]).drop(columns="form"))


def digit_after_rating(text, _):
    found = re.search(r"[Rr]ating:?\s*(\d)", text)
    return (float(found[1]), "ok") if found else (np.nan, "unparsable")


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "error"), [(parse_score, 0.002), (digit_after_rating, 0.0006)])
@pytest.mark.parametrize(("attribute", "shift"), [("coherence", 0.3608), ("engagingness", 0.1827)])
def test_recorded_judge_gives_the_recorded_shift(shared_data, attribute, shift, reader, error):
    """GPT-3.5 on TopicalChat scores higher where the score stands first (20 samples an item, 359 items).

    The figures were computed from the first digit of a rating; we keep decimals such as 2.5, hence the wider error.
    """
    parts = {}
    for order, mode in (("sr", "rate_explain"), ("rs", "analyze_rate")):
        name = f"gpt3.5_{attribute[:3]}_{mode}.json.gz"
        path = shared_data / "recorded" / "closer_look_topical_chat" / name
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            parts[order] = json.load(stream)
    rows = [
        (f"{item['source']} {item['context']}", item["system_output"], order, k, *reader(text, whole_numbers(1, 3)))
        for order, items in parts.items()
        for item in items
        for k, text in enumerate(item["all_responses"])
    ]
    columns = ["context_id", "candidate_id", "order", "replicate", "value", "status"]
    fixed = {"judge": "gpt-3.5", "dataset": "topicalchat", "attribute": attribute, "scale": "1-3", "form": "ex"}
    trials = pd.DataFrame(rows, columns=columns).assign(**fixed, rules=False)
    assert (trials["status"] == "ok").mean() > 0.99
    found = OutputOrder().estimate(trials)  # no warning: hardly anything is missing
    row = row_of(found, "reason_first_shift", order="rs-sr")
    assert row["estimate"] == pytest.approx(-shift, abs=error)
    assert row["n_contexts"] == 60
    assert row["p_value"] < 0.001
    apart, floor = (row_of(found, m, order="rs-sr")["estimate"] for m in ("sample_difference", "resampling_difference"))
    assert apart > floor
    scores = trials[(trials["order"] == "sr") & (trials["status"] == "ok")]["value"]
    assert row_of(found, "score_sd", order="sr")["estimate"] == pytest.approx(scores.std())


def test_published_shifts_are_of_scores_that_mean_severity():
    """Table 2 counts severe problems as 10: three of its four judges score more severely after reasons."""
    printed = published.load("chen2024", table=2).query("metric == 'mean score'")
    means = printed.pivot_table(index="judge", columns="row", values="value")
    shifts = pd.concat([means[f"{form} (rs)"] - means[f"{form} (sr)"] for form in ("ex", "json")], axis=1)
    assert (shifts > 0).all(axis=1).sum() == 3
    assert means.loc["gpt-4-0613", "json (rs)"] - means.loc["gpt-4-0613", "json (sr)"] == pytest.approx(5.34 - 3.26)
    assert printed["note"].str.contains("severe").all()


@pytest.mark.slow
def test_the_printed_wording_asks_for_one_severity_in_json():
    """Chen et al.: sets of dialogues as one item, an example in JSON, a high score for severe problems."""
    data = bl.load_dataset("dialogue_sets", limit=10)
    judge = bl.SimulatedJudge(data, sharpness=50.0)
    probe = OutputOrder(wording="printed", rules=[True, False], replicates=10)
    trials = bl.collect(probe, judge, data, progress=False)
    assert len(trials) == 10 * 12 * 10
    assert (trials["status"] == "ok").all()
    assert np.abs(trials["value"] - trials["human"]).max() <= 0.5 + 1e-9
    asked = {trial.request.messages[0].content for trial in probe.design(data)}
    assert len(asked) == 10 * 12
    assert all('"score": ' in text.splitlines()[-1] and "10 means severe problems" in text for text in asked)
    own = {trial.request.messages[0].content for trial in OutputOrder(rules=[True, False]).design(data)}
    assert not asked & own


@pytest.mark.slow
def test_printed_wording_recovers_shift_opened_or_not():
    data = bl.load_dataset("dialogue_sets")
    judge = bl.SimulatedJudge(data, quality=0.5, reason_first=0.15)
    options = {"wording": "printed", "forms": ["ex"], "orders": ["sr", "rs"], "replicates": 4}
    for opened in (False, True):
        shift = row_of(run(OutputOrder(**options, opened=opened), judge, data), "reason_first_shift", order="rs-sr")
        assert shift["estimate"] == pytest.approx(0.15 * 9, abs=0.25)
        assert shift["n_contexts"] == 25


def test_the_printed_wording_wants_one_attribute_and_aspects(dialogues):
    with pytest.raises(InputError, match="one attribute with the printed wording"):
        list(OutputOrder(wording="printed").design(dialogues))
    with pytest.raises(InputError, match="aspects"):
        list(OutputOrder(["coherence"], wording="printed", aspects=[]).design(dialogues))
    with pytest.raises(InputError, match="wording"):
        OutputOrder(wording="theirs")
