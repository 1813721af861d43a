"""Items are labelled by hand: what is shown, in which order, and what `biaslab.correct` reads back."""

import json
import re
import runpy
import subprocess
from pathlib import Path

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError

BROWSER = Path(__file__).parents[1] / "test_browser.py"
CITIES = {
    "Italy": "Rome it is",
    "France": "Lyon it is",
    "Spain": "Madrid it is",
    "Norway": "It is Oslo",
    "Peru": "It is Lima",
    "Cuba": "Quito it is",
}
LOG = pd.DataFrame(
    {
        "question": [f"Capital of {country}?" for country in CITIES],
        "answer": list(CITIES.values()),
        "judge_verdict": ["pass", "pass", "fail", "pass", "pass", "fail"],
    }
)
PAIRS = pd.DataFrame(
    {
        "question": ["q1", "q1", "q2", "q3"],
        "model_a": ["gpt", "claude", "gpt", "gpt"],
        "model_b": ["claude", "gpt", "claude", "claude"],
        "response_a": ["Paris it is", "It is Paris", "Rome it is", "Oslo it is"],
        "response_b": ["It is Paris", "Paris it is", "It is Rome", "It is Oslo"],
        "winner": ["model_a", "model_b", "tie", "model_b"],
    }
)


def labelled(page, by_text):
    """Return the page with choices by the text shown."""
    names = list(page.choices)
    page.chosen[:] = [names.index(by_text[text]) if text in by_text else -1 for text in page.items["text"]]
    return page


def test_default_choices_follow_the_scale_of_the_log():
    assert bl.label(LOG).choices == {"fail": 0.0, "pass": 1.0}
    assert bl.label(PAIRS).choices == {"A is better": 1.0, "equal": 0.5, "B is better": 0.0}
    assert bl.label(bl.load_dataset("graded", limit=2)).choices == {str(step): float(step) for step in range(1, 6)}


def test_labels_of_answers_correct_the_pass_rate():
    page = labelled(
        bl.label(LOG), dict(zip(LOG["answer"], ["pass", "fail", "fail", "pass", "pass", "fail"], strict=True))
    )
    found = bl.correct(bl.read_judgements(LOG), page.labels, corrections=["judge", "human"])
    assert found["estimate"].tolist() == pytest.approx([4 / 6, 0.5])
    assert set(page.labels["scale"]) == {"0-1"}


def test_page_without_a_label_corrects_nothing():
    with pytest.raises(TrialsError, match="score is empty"):
        bl.correct(bl.read_judgements(LOG), bl.label(LOG).labels)


def test_pair_is_one_item_whichever_order_it_was_shown_in():
    page = bl.label(PAIRS)
    assert sorted(page.items["context_id"]) == ["q1", "q2", "q3"]


@pytest.mark.parametrize("seed", range(4))
def test_label_of_a_pair_belongs_to_the_text_not_to_its_side(seed):
    page = bl.label(PAIRS, seed=seed)
    page.chosen[:] = [1 if context == "q3" else 2 * int(turned) for context, turned in zip(
        page.items["context_id"], page.items["turned"], strict=True)]  # fmt: skip
    scores = page.labels.set_index("context_id")["score"]
    assert scores.to_dict() == {"q1": 1.0, "q2": 1.0, "q3": 0.5}  # the text of the first candidate is better
    assert page.items.set_index("context_id").loc["q1", "candidate_id"] == "gpt"


@pytest.mark.parametrize("seed", range(4))
def test_label_of_a_turned_pair_is_exactly_another_choice(seed, tmp_path):
    file = tmp_path / "labels.csv"
    page = bl.label(PAIRS, {"A": 0.9, "neither": 0.5, "B": 0.1}, seed=seed, path=file)
    page._keep([0, 0, 2])
    assert set(page.labels["score"]) <= {0.9, 0.1}
    assert bl.label(PAIRS, page.choices, seed=seed, path=file).chosen == [0, 0, 2]


def test_order_is_random_and_the_same_for_a_seed():
    data = bl.load_dataset("graded", limit=12)
    orders = [list(dict.fromkeys(bl.label(data, seed=seed).items["context_id"])) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) != orders[0]
    assert bl.label(data, n=3).items["context_id"].unique().tolist() == orders[0][:3]


def test_place_in_a_context_does_not_tell_the_system():
    items = bl.label(bl.load_dataset("graded", limit=12)).items
    first = items.drop_duplicates("context_id")["candidate_id"]
    assert len(set(first)) > 1
    assert (items["context_id"] != items["context_id"].shift()).sum() == 12


def test_page_hides_verdicts_labels_and_systems():
    log = LOG.assign(system="gpt-4.1-hidden", human_label=["secretly bad", *["good"] * 5])
    mapping = {"human": {"field": "human_label", "values": {"secretly bad": "0", "good": "1"}}}
    html = bl.label(log.assign(judge_verdict=["secret", "x"] * 3), mapping=mapping | {
        "score": {"field": "judge_verdict", "values": {"secret": "1", "x": "0"}}}).to_html()  # fmt: skip
    records = json.loads(re.search(r"const items = (\[.*?\]), ids", html)[1])
    assert {text for record in records for text in (record["source"], record["text"])} == {
        *LOG["question"],
        *LOG["answer"],
    }
    assert "secret" not in html


def test_file_keeps_labels_and_is_taken_up_again(tmp_path):
    file = tmp_path / "labels.csv"
    first = bl.label(LOG, path=file)
    first._keep([0, -1, 1, -1, -1, -1])
    assert bl.label(LOG, path=file).chosen == [0, -1, 1, -1, -1, -1]
    assert len(pd.read_csv(file)) == 2
    again = bl.label(LOG, path=file)
    again._keep([0, 1, 1, -1, -1, -1])
    assert len(pd.read_csv(file)) == 3


def test_table_to_fill_in_is_read_as_labels(tmp_path):
    file = bl.label(LOG).save(tmp_path / "labels.csv")
    table = pd.read_csv(file)
    assert table["score"].isna().all()
    table.assign(score=[1, 1, 0, 0, 1, 0]).to_csv(file, index=False)
    found = bl.correct(bl.read_judgements(LOG), file, corrections=["human"])
    assert found["estimate"].tolist() == [0.5]
    table.assign(score=["pass", "pass", "fail", "fail", "pass", ""]).to_csv(file, index=False)
    assert bl.label(LOG, path=file).chosen == [1, 1, 0, 0, 1, -1]


@pytest.mark.parametrize("choices", [None, {"bad": 0, "good": 1}])
def test_choices_are_on_the_scale_of_the_log(choices):
    log = LOG.drop(columns="judge_verdict").assign(judge_score=[1, 4, 5, 2, 3, 10])
    mapping = {"scale": "=1-10"}
    with pytest.raises(InputError, match=r'"bad": 1, "good": 10'):
        bl.label(log, choices, mapping=mapping)
    assert bl.label(log, {"bad": 1, "good": 10}, mapping=mapping).scale == "1-10"


@pytest.mark.parametrize("choices", [{"A": 0.8, "B": 0.1}, {"A": 2, "B": -1}])
def test_choices_of_a_pair_that_do_not_mirror_are_refused(choices):
    with pytest.raises(InputError, match="choices"):
        bl.label(PAIRS, choices)


def test_labels_of_questions_that_look_like_formulas_are_matched(tmp_path):
    log = LOG.assign(question=[f"={i} + 1 is what?" for i in range(6)])
    page = bl.label(log, path=tmp_path / "labels.csv")
    page._keep([0, 1, 1, 0, 0, 0])
    found = bl.correct(bl.read_judgements(log), page.path, corrections=["human"])
    assert found["estimate"].tolist() == pytest.approx([2 / 6])


def test_columns_to_show_stand_above_the_answer():
    page = bl.label(LOG.assign(document="The atlas says so."), show=["document", "question"], n=1)
    assert page.items["source"].iloc[0].startswith("The atlas says so.\n\nCapital of ")


def test_texts_cannot_leave_the_page():
    html = bl.label(LOG.assign(answer=[f"</script><script>alert({i})</script> it is" for i in range(6)])).to_html()
    assert html.count("<script>") == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"choices": ["1"]}, "choices"),
        ({"choices": list("123456")}, "choices"),
        ({"choices": {"good": "very"}}, "choices"),
        ({"choices": {"good": 1, "bad": "nan"}}, "choices"),
        ({"show": ["documents"]}, "show"),
        ({"n": 0}, "n"),
        ({"path": "labels.xlsx"}, "path"),
        ({"attribute": "tone"}, "attribute"),
    ],
)
def test_wrong_option_is_refused_by_name(options, named):
    with pytest.raises(InputError, match=f"^{named} "):
        bl.label(LOG, **options)


def test_log_without_texts_is_refused():
    with pytest.raises(InputError, match="columns of texts"):
        bl.label(PAIRS.drop(columns=["response_a", "response_b"]).assign(model_a="x", model_b=["y1", "y2", "y3", "y4"]))


def test_labels_of_another_log_are_refused(tmp_path):
    file = tmp_path / "labels.csv"
    bl.label(LOG, path=file)._keep([0, 1, 1, 0, 0, 0])
    with pytest.raises(InputError, match="use another file"):
        bl.label(LOG.assign(question=[f"other {i}?" for i in range(6)]), path=file)


def test_widget_writes_each_label_to_the_file(tmp_path):
    pytest.importorskip("anywidget", reason="anywidget is not installed: pip install '.[widgets]'")
    page = bl.label(LOG, path=tmp_path / "labels.csv")
    widget = page.widget()
    assert widget.selection.empty
    widget.set_state({"shown": [1, -1, -1, -1, -1, -1]})
    assert pd.read_csv(tmp_path / "labels.csv")["score"].tolist() == [1.0]
    widget.set_state({"shown": [1, 0, -1, -1, -1, -1]})
    assert widget.selection["score"].tolist() == [1.0, 0.0]
    assert len(pd.read_csv(tmp_path / "labels.csv")) == 2
    assert page.labels["score"].tolist() == [1.0, 0.0]


@pytest.mark.slow
def test_page_in_a_browser_takes_keys_and_downloads_labels(tmp_path):
    node, chromium, environment = runpy.run_path(str(BROWSER))["found_browser"]()
    file = bl.label(PAIRS, path=tmp_path / "labels.csv").save(tmp_path / "label.html")
    command = [node, str(Path(__file__).with_name("label_page.cjs")), str(file), chromium]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["errors"] == []
    (tmp_path / "labels.csv").write_text(seen["csv"])
    again = bl.label(PAIRS, path=tmp_path / "labels.csv")
    assert sorted(again.chosen) == [-1, 0, 2]  # keys 1 and 3, and one skipped
    assert seen["told"].startswith("item 3 of 3, 2 labelled")


def test_question_is_shown_where_an_identifier_is_read_as_it():
    page = bl.label(LOG.assign(case_id=[f"q{n:03d}" for n in range(len(LOG))]))
    assert set(page.items["source"]) == set(LOG["question"])


def test_labels_of_chosen_contexts_keep_their_probabilities(tmp_path):
    plan = pd.DataFrame({"context_id": ["q2", "q0"], "probability": [0.25, 0.5]})
    plan.to_csv(tmp_path / "plan.csv", index=False)
    log = LOG.assign(question=[f"q{n % 3}" for n in range(len(LOG))])
    page = bl.label(log, contexts=tmp_path / "plan.csv", path=tmp_path / "labels.csv")
    assert set(page.items["context_id"]) == {"q0", "q2"}
    page._keep([0] * len(page.items))
    kept = pd.read_csv(page.path).drop_duplicates("context_id").set_index("context_id")["probability"]
    assert kept.to_dict() == {"q0": 0.5, "q2": 0.25}
    assert '"context_id", "candidate_id", "attribute", "probability"' in page.to_html()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"contexts": ["q9"]}, "contexts is 'q9'"),
        ({"contexts": pd.DataFrame({"id": ["a"]})}, "context_id"),
        ({"contexts": ["a"], "n": 3}, "n is 3"),
    ],
)
def test_contexts_of_other_items_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        bl.label(LOG, **options)
