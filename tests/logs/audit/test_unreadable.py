"""A log of which more than half gives no judgement supports no finding, on any surface."""

import json

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, UnreadableLogError

HEADER = "context_id,candidate_id,opponent_id,winner"
PAIR = {"judge": "j", "candidate_id": "x", "opponent_id": "y"}


def biased(questions):
    """Return the rows of a judge that prefers the candidate shown first, in both orders of each question."""
    return [f"q{n},{first},{second},{first}" for n in range(questions) for first, second in ("xy", "yx")]


def log_of(folder, good, malformed, name="log.csv"):
    file = folder / name
    file.write_text("\n".join([HEADER, *biased(good), *["q,x"] * malformed]) + "\n")
    return file


def test_no_finding_comes_from_17_percent_of_a_log(tmp_path, capsys):
    file = log_of(tmp_path, good=17, malformed=166)
    card = tmp_path / "card"
    assert main(["audit", str(file), "--card", str(card)]) == 4
    said = capsys.readouterr()
    assert "166 malformed lines" in said.out
    assert "166 of 200 not read: 166 malformed lines" in said.err
    assert "no finding" in said.err
    assert "●" not in said.out
    assert main(["card", f"recorded:{file}", "--out", str(card)]) == 4
    assert not list(tmp_path.glob("card*"))
    for given in (str(file), file, bl.read_judgements(file)):
        with pytest.raises(UnreadableLogError, match=r"166 of 200 not read.*line 36: 2 fields instead of 4"):
            bl.audit(given)


def test_half_of_a_log_is_enough(tmp_path):
    assert main(["audit", str(log_of(tmp_path, good=20, malformed=40)), "--only", "replies"]) == 0
    assert main(["audit", str(log_of(tmp_path, good=20, malformed=41)), "--only", "replies"]) == 4


def test_replies_without_a_verdict_count_in_python_too(tmp_path):
    file = tmp_path / "log.jsonl"
    replies = ["[[A]]"] * 20 + ["Who knows."] * 21
    file.write_text("".join(json.dumps(PAIR | {"context_id": n, "reply": r}) + "\n" for n, r in enumerate(replies)))
    with pytest.raises(UnreadableLogError, match=r"21 of 41 not read: 21 replies"):
        bl.audit(file)
    assert main(["audit", str(file)]) == 4


def test_calls_that_failed_are_no_judgements(tmp_path):
    rows = [{"judge": "j", "question": n, "A": "x", "B": "y", "judgment": "$ERROR$ $ERROR$"} for n in range(6)]
    file = tmp_path / "log.jsonl"
    said = [json.dumps(row | ({"judgment": "[[A]]"} if n < 2 else {})) for n, row in enumerate(rows)]
    file.write_text("\n".join(said))
    with pytest.raises(UnreadableLogError, match="4 of 6 not read: 4 failed calls"):
        bl.audit(file)


@pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")
def test_unreadable_judge_is_excluded_and_named(tmp_path):
    rows = [f"{judge},{row}" for judge in ("clear", "also clear") for row in biased(12)]
    rows += [f"muddled,{row if n < 4 else row[:-1] + 'z'}" for n, row in enumerate(biased(12))]
    (tmp_path / "log.csv").write_text("\n".join([f"judge,{HEADER}", *rows]))
    found = bl.audit(tmp_path / "log.csv", only=["position"])
    assert set(found["judge"]) == {"clear", "also clear"}
    assert "20 of 24 not read: 20 replies" in found.attrs["not_run"]["muddled"]
    assert "muddled: more than half of its replies could not be read" in " ".join(bl.report.page(found).split())


def test_subset_of_a_log_is_not_blamed_for_all_malformed_lines(tmp_path):
    """Malformed lines are those of the whole log: a judge's own rows are not blamed for all of them."""
    trials = bl.read_judgements(log_of(tmp_path, good=40, malformed=60))
    chosen = trials[trials["context_id"].isin([f"q{n}" for n in range(10)])]
    assert len(bl.audit(chosen, only=["replies"]))


def test_a_path_and_a_plain_table_are_audited_as_a_log_is(tmp_path):
    file = log_of(tmp_path, good=12, malformed=0)
    wanted = bl.audit(bl.read_judgements(file), only=["position"])
    for given in (file, str(file), pd.read_csv(file)):
        pd.testing.assert_frame_equal(bl.audit(given, only=["position"]), wanted)


@pytest.mark.parametrize("given", [None, 3, "no.csv", "", [], pd.DataFrame(), pd.DataFrame({"a": [1]}), print])
def test_audit_refuses_other_types_and_lists_allowed(given):
    with pytest.raises(InputError) as caught:
        bl.audit(given)
    assert caught.value.allowed


@pytest.mark.parametrize("options", [{"human": "graded"}, {"only": 3}, {"only": ["no"]}, {"resampling": 100}])
def test_wrong_options_are_refused(tmp_path, options):
    with pytest.raises(InputError, match=next(iter(options))):
        bl.audit(log_of(tmp_path, good=4, malformed=0), **options)
