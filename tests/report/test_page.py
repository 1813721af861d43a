"""The page of an audit: a paragraph a judge, figures beside biases, each reason once."""

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, TrialsError
from biaslab.report import page, verdicts

WIDE = 10_000  # letters of a line: nothing is wrapped


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of two judges, one of which prefers the candidate shown first."""
    rows = ["judge,context_id,candidate_id,opponent_id,winner"]
    for question in range(40):
        rows += [f"keen,q{question},x,y,x", f"keen,q{question},y,x,{'y' if question % 5 else 'x'}"]
        rows += [f"fair,q{question},x,y,{'xy'[question % 2]}", f"fair,q{question},y,x,{'xy'[question % 2]}"]
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def audited(log):
    return bl.audit(bl.read_judgements(log))


def paragraphs(text):
    return {part.splitlines()[0].split(" (")[0]: part for part in text.split("\n\n")}


def test_paragraph_of_a_judge_has_bias_size_and_advice(audited):
    found = paragraphs(page(audited, width=WIDE))
    lines = [line.strip() for line in found["keen"].splitlines()]
    assert lines.index("found:") + 1 == next(n for n, line in enumerate(lines) if line.startswith("● position"))
    row = audited[(audited["judge"] == "keen") & (audited["metric"] == "first_position_rate")].iloc[0]
    assert f"{row['estimate']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}], q <0.001" in found["keen"]
    assert lines[-2:] == ["what to do:", "→ ask every pair in both orders and average (position)"]
    assert "found:" not in found["fair"].replace("not found:", "")
    assert "what to do" not in found["fair"]
    assert "same winner in both orders (share): overall 1.000" in found["fair"]


def test_probes_without_estimates_are_one_line_at_the_end(audited):
    parts = page(audited, width=WIDE).split("\n\n")
    lacking = next(part for part in parts if part.startswith("not estimated:"))
    assert parts.index(lacking) > max(n for n, part in enumerate(parts) if part.startswith(("keen (", "fair (")))
    names = lacking.splitlines()[-1]
    assert "template" in names
    assert "halo" in names
    assert not any(name in names for name in ("anchoring", "comparative", "recipe", "vacuum"))  # no log allows them
    assert "position" not in names.replace("list position", "")


def test_page_begins_with_the_counts_of_the_file(log):
    first = page(bl.audit(log, only=["position"]), width=WIDE).splitlines()[0]
    assert first == f"{log}: 160 judgements (mapping), 160 of them readable"


@pytest.mark.slow
def test_lines_are_no_longer_than_asked(audited):
    assert max(map(len, page(audited, width=60).splitlines())) <= 60
    assert page(audited, width=60).split() == page(audited, width=WIDE).split()


def test_a_log_without_any_test_of_a_bias_says_so(make_row):
    text = page(pd.DataFrame([make_row(probe="position", metric="order_consistency", p_value=float("nan"))]))
    assert "no bias could be tested" in text


def test_a_frame_of_something_else_is_refused():
    with pytest.raises(TrialsError, match="lacks the columns judge"):
        page(pd.DataFrame({"estimate": [1.0]}))


@pytest.mark.slow
def test_audit_prints_the_page_and_option_all_every_row(log, tmp_path, capsys):
    assert main(["audit", str(log), "--card", str(tmp_path / "log")]) == 0
    short = capsys.readouterr().out
    assert "found:\n  ● position" in short
    assert "first_position_rate" not in short
    assert {path.suffix for path in tmp_path.iterdir()} == {".html", ".md", ".png", ".csv"}
    assert main(["audit", str(log), "--all"]) == 0
    long = capsys.readouterr().out
    assert "first_position_rate" in long
    assert "comparative: not run, needs trials of its own design" in long


@pytest.mark.slow
def test_a_card_of_a_log_needs_no_data_set(log, tmp_path, capsys):
    stem = tmp_path / "card"
    assert main(["card", f"recorded:{log},judge=keen", "--probe", "position", "--out", str(stem)]) == 0
    said = capsys.readouterr().out
    assert "keen: position, P(A), decisions for the first: found: prefers the candidate shown first" in said
    assert "## fair" not in stem.with_suffix(".md").read_text()
    assert main(["card", f"recorded:{log},judge=nobody", "--out", str(stem)]) == 2
    assert "where['judge'] is 'nobody', allowed: one of keen, fair" in capsys.readouterr().err


def test_verdicts_name_the_judge_where_there_are_several(audited):
    rows = audited[audited["metric"].eq("first_position_rate") & audited["probe"].eq("position")]
    assert [sentence.split(",")[0].split(":")[0] for sentence in verdicts(rows)][:1] == ["keen"]
    assert not verdicts(rows[rows["judge"] == "keen"])[0].startswith("keen")


def test_page_refuses_a_path_in_place_of_reasons(make_row):
    with pytest.raises(InputError, match="to write the page to a file"):
        page(pd.DataFrame([make_row()]), "audit.txt")
