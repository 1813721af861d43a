"""Recorded judges by their names: in Python, on the command line, as judges that answer again."""

import pandas as pd
import pytest

import biaslab as bl
from biaslab.atlas.judgements import rows_named
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.datasets import Dataset

NAMES = {"mt_bench": "atlas:gpt-4-0613@mt_bench", "experts": "atlas:expert-1@summeval_experts"}


@pytest.fixture
def questions():
    """Three questions of MT-Bench with the names of two who answered, in other words."""
    systems = ["vicuna-13b-v1.3", "baize-v2-13b"]
    rows = [(str(q), f"Question {q}?", s, s, f"{s} on {q}.", "") for q in (81, 82, 83) for s in systems]
    columns = ["context_id", "context", "candidate_id", "system", "text", "reference"]
    human = pd.DataFrame(columns=["context_id", "candidate_id", "attribute", "annotator", "score"])
    return Dataset("mt_bench", pd.DataFrame(rows, columns=columns), human, {"overall": "is better"}, (1, 5), "response")


@pytest.fixture
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


EVERY = list(bl.atlas.judges()["name"])
FIRST = {name.partition("@")[2]: name for name in reversed(EVERY)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FIRST.values() else pytest.mark.slow) for name in EVERY]
)
def test_every_judge_has_its_name(name):
    rows = rows_named(name)
    listed = bl.atlas.judges().set_index("name").loc[name]
    assert len(rows) == listed["judgements"]
    assert rows[["dataset", "judge"]].drop_duplicates().to_numpy().tolist() == [[listed["dataset"], listed["judge"]]]


def test_columns_choose_rows():
    rows = rows_named("atlas:gpt-4@llmbar?template=CoT&subset=GPTOut")
    assert set(rows["template"]) == {"CoT"}
    assert set(rows["subset"]) == {"GPTOut"}
    assert len(rows) == 2 * 47
    assert len(rows_named("atlas:gpt-4@llmbar?dataset=llmbar_processed&template=Vanilla_NoRules")) == 932


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("atlas:gpt-4", "atlas:JUDGE@SOURCE"),
        ("atlas:@llmbar", "atlas:JUDGE@SOURCE"),
        ("atlas:gpt-4@llmbar?template", "column=value"),
        (
            "atlas:gpt-4@llmbar",
            "template: CoT, Metrics.*configuration: Rating.*such as .*template=Vanilla_NoRules",
        ),
        ("atlas:gpt-4@llmbar?template=Vanila", "one of CoT, .*Vanilla"),
        ("atlas:gpt-4@llmbar?kind=Vanilla", "a column of the log"),
        ("atlas:palm2@llmbar", "did you mean palm-2"),
        ("atlas:gpt-4@lmbar", "did you mean llmbar"),
        ("atlas:gpt-4@self_recognition", "only estimates"),
        (NAMES["mt_bench"], "the atlas has none"),
    ],
)
def test_invalid_judge_names_are_refused(name, said):
    with pytest.raises(InputError, match=said):
        bl.load_judge(name)


@pytest.mark.slow
def test_a_recorded_judge_answers_a_probe_again(questions):
    judge = bl.load_judge(NAMES["mt_bench"], questions)
    probe = bl.probes.Position(attributes=["overall"], templates=[1])
    trials = bl.collect(probe, judge, questions, progress=False)
    keys = ["context_id", "candidate_id", "opponent_id"]
    recorded = rows_named(NAMES["mt_bench"]).set_index(keys)["value"]
    assert len(trials) == 6
    assert trials["value"].tolist() == recorded.reindex(pd.MultiIndex.from_frame(trials[keys])).tolist()
    assert judge.id.startswith("recorded/gpt-4-0613/")


def test_other_data_are_refused(graded):
    with pytest.raises(InputError, match="the log has none of its contexts"):
        bl.load_judge(NAMES["mt_bench"], graded)


@pytest.mark.slow
def test_an_expert_is_found_by_the_text_of_the_article(shared_data):
    data = bl.load_dataset("summeval", shared_data / "summeval" / "annotations_1200.jsonl.gz", limit=2)
    judge = bl.load_judge(NAMES["experts"], data)
    probe = bl.probes.Verbosity(attributes=["coherence"], answer="text")
    trials = bl.collect(probe, judge, data, progress=False)
    own = data.human[(data.human["annotator"] == "expert_0") & (data.human["attribute"] == "coherence")]
    known = own.set_index(["context_id", "candidate_id"])["score"]
    there = known.reindex(pd.MultiIndex.from_frame(trials[["context_id", "candidate_id"]]))
    assert trials["value"].tolist() == there.tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("_work_in")
def test_audit_and_card_of_a_name(capsys):
    assert main(["audit", NAMES["mt_bench"], "--only", "position", "--out", "found.csv"]) == 0
    said = capsys.readouterr().out
    assert "4,800 judgements, 4,799 of them readable (MIT, Copyright (c) 2024 Slimshilin)" in said
    assert "gpt-4-0613 (mt_bench, 80 contexts)" in said
    assert main(["card", NAMES["mt_bench"], "atlas:gemini-pro@mt_bench", "--probe", "position"]) == 0
    own = capsys.readouterr().out.partition("\ngemini-pro\n")[2]
    assert "found:\n  ● position, P(A), decisions for the first (share): " in own


@pytest.mark.usefixtures("_work_in")
def test_audit_refuses_duplicate_and_unknown_names(capsys):
    assert main(["audit", NAMES["mt_bench"], NAMES["mt_bench"]]) == 2
    assert "each log once" in capsys.readouterr().err
    assert main(["audit", "atlas:nobody@mt_bench"]) == 2
    assert "judge is 'nobody'" in capsys.readouterr().err


def test_list_and_build(capsys, tmp_path):
    assert main(["atlas", "list", "prometheus"]) == 0
    assert "atlas:gpt-4@prometheus" in capsys.readouterr().out
    assert main(["atlas", "build", str(tmp_path / "nowhere")]) == 2
    assert "an existing folder" in capsys.readouterr().err
    assert main(["atlas", "build", str(tmp_path), "--source", "pandalm"]) == 2
    assert "github.com/WeOpenML/PandaLM" in capsys.readouterr().err


def test_names_are_listed_for_users():
    assert any(name.startswith("atlas:") for name in bl.judges.available())
