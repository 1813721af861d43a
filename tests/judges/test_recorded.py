"""A recorded judge says what was recorded, refuses what was not, and pretends nothing."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood
from biaslab.core.errors import InputError, JudgeError, UnsupportedRequestError
from biaslab.logs.recorded import ExportedJudge, RecordedJudge

ONE = {"attributes": ["coherence"], "templates": [1]}


@pytest.fixture(scope="module")
def trials(graded):
    return bl.collect(
        bl.probes.Position(**ONE), bl.SimulatedJudge(graded, position=1.0, noise=0.5), graded, progress=False
    )


def verdicts(trials, **more):
    """Return the trials as a log of verdicts alone."""
    return trials.assign(value=(trials["value"] > 0.5).astype(float), reply=None, **more)


def test_a_probe_runs_on_it_unchanged(graded, trials):
    probe = bl.probes.Position(**ONE)
    again = bl.collect(probe, RecordedJudge(trials, graded), graded, progress=False)
    np.testing.assert_allclose(again["value"], trials["value"])
    np.testing.assert_allclose(probe.estimate(again)["estimate"], probe.estimate(trials)["estimate"])
    assert set(again["tokens"]) == {0}


@pytest.mark.parametrize("answer", ["distribution", "text"])
def test_verdicts_come_back_in_either_form(graded, trials, answer):
    said = verdicts(trials)
    said.loc[0, ["value", "status"]] = 0.5, "tie"
    said.loc[1, ["value", "status"]] = math.nan, "refused"
    said.loc[2, ["value", "status"]] = math.nan, "unparsable"
    probe = bl.probes.Position(**ONE, answer=answer, ties=True)
    again = bl.collect(probe, RecordedJudge(said, graded), graded, progress=False)
    np.testing.assert_allclose(again["value"].iloc[3:], said["value"].iloc[3:], atol=1e-300)
    assert again["status"].iloc[0] == "tie"
    assert again["status"].iloc[1] == "refused"
    assert again["status"].iloc[2] == ("unparsable" if answer == "text" else "refused")
    assert again["value"].iloc[1:3].isna().all()


def test_replicates_differ_as_text_and_average_as_labels(graded, trials):
    said = pd.concat(
        [verdicts(trials, replicate=0), verdicts(trials, replicate=1).assign(value=0.0)], ignore_index=True
    )
    judge = RecordedJudge(said, graded)
    text = bl.collect(bl.probes.Position(**ONE, answer="text", replicates=2), judge, graded, progress=False)
    assert (text.loc[text["replicate"] == 1, "value"] == 0).all()
    shares = bl.collect(bl.probes.Position(**ONE), judge, graded, progress=False)
    assert shares["value"].tolist() == pytest.approx((verdicts(trials)["value"] / 2).tolist())


def test_the_wording_of_the_prompt_is_not_compared(graded, trials):
    both = bl.collect(bl.probes.Position(["coherence"], [1, 2]), RecordedJudge(trials, graded), graded, progress=False)
    one, two = (both.loc[both["template"] == t, "value"].to_numpy() for t in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_missing_judgements_are_refused(graded, trials):
    judge = RecordedJudge(trials.drop(index=[3, 4]), graded)
    with pytest.raises(JudgeError, match=r"2 of 240 requests have no recorded judgement.*partial=True") as error:
        bl.collect(bl.probes.Position(**ONE), judge, graded, progress=False)
    assert error.value.request is not None
    with pytest.raises(JudgeError, match="fluency"):
        bl.collect(bl.probes.Position(["fluency"], [1]), judge, graded, progress=False)


def test_partial_judges_leave_gaps(graded, trials):
    judge = RecordedJudge(trials.drop(index=[3, 4]), graded, partial=True)
    again = bl.collect(bl.probes.Position(**ONE), judge, graded, progress=False)
    assert again["value"].isna().to_numpy().nonzero()[0].tolist() == [3, 4]
    assert (again["status"].iloc[[3, 4]] == "refused").all()


def scores_of(graded, **more):
    rated = graded.human[graded.human["attribute"].isin(["coherence", "fluency"])]
    frame = rated.rename(columns={"score": "value"}).assign(judge="j", status="ok", replicate=0, scale="1-5", **more)
    return frame.drop_duplicates(["context_id", "candidate_id", "attribute"])


def test_scores_come_back_on_their_scale_only(graded):
    said = scores_of(graded).assign(value=lambda frame: frame["value"].round())
    judge = RecordedJudge(said, graded)
    exact = bl.probes.Consistency(["coherence"], ["1-5"], joint=False, replicates=2)
    text = bl.probes.ScoreDistribution(["coherence"], ["1-5"], answer="text", samples=1, n_candidates=None)
    for probe, samples in ((exact, 2), (text, 1)):
        found = bl.collect(probe, judge, graded, progress=False)
        merged = found.merge(said, on=["context_id", "candidate_id", "attribute"])
        assert len(merged) == samples * 48
        assert merged["value_x"].tolist() == merged["value_y"].tolist()
    with pytest.raises(JudgeError, match=r"scale 1-10; the log has 1-5"):
        bl.collect(bl.probes.ScoreDistribution(["coherence"], ["1-10"]), judge, graded, progress=False)


def test_a_fractional_score_is_the_mean_of_two_labels(graded):
    judge = RecordedJudge(scores_of(graded).assign(value=3.25), graded)
    trial = next(bl.probes.ScoreDistribution(["coherence"], ["1-5"]).design(graded))
    [(_, reply)] = judge.ask([trial.request])
    assert np.exp(reply.logprobs).tolist() == pytest.approx([0, 0, 0.75, 0.25, 0])


def test_output_order_needs_a_log_of_several_orders(graded):
    both = pd.concat([scores_of(graded, order="sr").assign(value=2.0), scores_of(graded, order="rs").assign(value=4.0)])
    probe = bl.probes.OutputOrder(["coherence"], ["ex"], ["sr", "rs"], scale="1-5", replicates=1)
    found = bl.collect(probe, RecordedJudge(both, graded), graded, progress=False)
    assert found.groupby("order")["value"].unique().map(list).to_dict() == {"rs": [4.0], "sr": [2.0]}
    with pytest.raises(JudgeError, match="no recorded judgement"):
        bl.collect(
            bl.probes.OutputOrder(["coherence"], ["ex"], scale="1-5"),
            RecordedJudge(both, graded),
            graded,
            progress=False,
        )


def test_several_judges_must_be_chosen_from(graded, trials):
    two = pd.concat([trials, verdicts(trials, judge="other")], ignore_index=True)
    with pytest.raises(InputError, match=r"judge: simulated.*other"):
        RecordedJudge(two, graded)
    judge = RecordedJudge(two, graded, where={"judge": "other"})
    assert judge.id.startswith("recorded/other/")
    with pytest.raises(InputError, match="nobody"):
        RecordedJudge(two, graded, where={"judge": "nobody"})
    with pytest.raises(InputError, match="colour"):
        RecordedJudge(two, graded, where={"colour": "red"})


def test_id_depends_on_judgements_but_not_their_order(graded, trials):
    judge = RecordedJudge(trials, graded)
    assert RecordedJudge(trials.sample(frac=1, random_state=0), graded).id == judge.id
    assert RecordedJudge(verdicts(trials), graded).id != judge.id


def test_other_requests_and_strange_data_are_refused(graded, trials):
    judge = RecordedJudge(trials, graded)
    with pytest.raises(UnsupportedRequestError):
        judge.check([Likelihood("text")])
    for request in (Choice("Which?", ("A", "B")), Completion("Say something.")):
        with pytest.raises(JudgeError):
            judge.check([request])
    with pytest.raises(InputError, match="none of its contexts"):
        RecordedJudge(trials.assign(context_id="not " + trials["context_id"]), graded)


def test_it_is_loaded_by_name(graded, tmp_path):
    rows = [
        {
            "context_id": c,
            "candidate_id": k,
            "attribute": "coherence",
            "score": 3,
            "scale": "1-5",
            "configuration": mode,
        }
        for c, k in graded.candidates[["context_id", "candidate_id"]].itertuples(index=False)
        for mode in ("rts", "mcq")
    ]
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = bl.load_judge(f"recorded:{file},configuration=rts", graded)
    assert judge.id.startswith("recorded/unknown/")
    with pytest.raises(InputError, match="data set"):
        bl.load_judge(f"recorded:{file}")
    with pytest.raises(InputError, match="column=value"):
        bl.load_judge(f"recorded:{file},rts", graded)


@pytest.mark.parametrize("name", ["e.jsonl", "e.csv", "e.parquet"])
def test_exported_judge_answers_only_stored_requests(graded, tmp_path, name):
    data, probe = graded.head(2), bl.probes.Position(**ONE, n_pairs=2)
    with bl.Store(tmp_path / "s.sqlite") as store:
        first = bl.collect(probe, bl.SimulatedJudge(data, noise=1.0), data, store=store, progress=False)
        store.export(tmp_path / name)
    judge = bl.load_judge(f"recorded:{tmp_path / name}")
    assert isinstance(judge, ExportedJudge)
    again = bl.collect(probe, judge, data, progress=False)
    assert again["value"].tolist() == first["value"].tolist()
    with pytest.raises(JudgeError, match="8 of 8 requests have no reply"):
        bl.collect(bl.probes.Position(["coherence"], [2], n_pairs=2), judge, data, progress=False)
    with pytest.raises(InputError, match="simulated"):
        ExportedJudge(tmp_path / name, "somebody else")
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(InputError, match=r"store\.export"):
        ExportedJudge(tmp_path / "x.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize(("attribute", "first"), [("coherence", 0.5213), ("consistency", 0.4024)])
def test_gpt35_on_summeval_as_a_judge(shared_data, attribute, first):
    """The probe that asks judges comes to the figure beside the log when the log answers."""
    data = bl.load_dataset("summeval", path=shared_data / "summeval" / "annotations_1200.jsonl.gz", limit=100)
    log = bl.read_judgements(shared_data / "recorded" / "summeval_judges" / "h2h_gpt35_both_orders.jsonl.gz")
    judge = RecordedJudge(log, data, partial=True)
    probe = bl.probes.Position([attribute], [1])
    found = bl.collect(probe, judge, data, progress=False)
    asked = found[found["value"].notna()]
    assert len(asked) == 2190  # in five pairs of the 1100 a summary has the text of an earlier one
    estimates = probe.estimate(asked, ["first_position_rate"])
    assert estimates["estimate"].iloc[0] == pytest.approx(first, abs=3e-3)


@pytest.mark.slow
def test_gpt35_on_topical_chat_as_a_judge(shared_data):
    """Contexts are found by the text of the dialogue; responses that are alike count as one."""
    data = bl.load_dataset("topicalchat", path=shared_data / "topical_chat" / "topical_chat.json.gz")
    folder = shared_data / "recorded" / "closer_look_topical_chat"
    log = pd.concat([bl.read_judgements(folder / f"gpt3.5_coh_{m}.json.gz") for m in ("rate_explain", "analyze_rate")])
    judge = RecordedJudge(log.assign(configuration="both", scale="1-5"), data, partial=True)
    probe = bl.probes.OutputOrder(["coherence"], ["ex"], ["sr", "rs"], scale="1-5", replicates=20)
    found = bl.collect(probe, judge, data, progress=False)
    shift = probe.estimate(found, ["reason_first_shift"])
    assert shift["estimate"].iloc[0] == pytest.approx(-0.3605, abs=1e-3)
