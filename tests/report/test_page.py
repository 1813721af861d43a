"""The page of an audit: a paragraph a judge, figures beside biases, each reason once."""

import math
import re

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.output import number, with_interval
from biaslab.report import page, verdicts
from biaslab.report.verdicts import classify

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
    assert "same winner in both orders (share): 1.000" in found["fair"]


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
    assert "keen\n" in said
    assert "found:\n  ● position, P(A), decisions for the first (share): " in said
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


def scored(points, people, high, attribute="tone"):
    index = range(len(points))
    rows = {"context_id": [f"q{n}" for n in index], "candidate_id": "x", "attribute": attribute, "score": points}
    return pd.DataFrame(rows | {"scale": f"0-{high}", "human": people, "human_scale": f"0-{high}"})


@pytest.mark.slow
def test_kappa_of_scores_in_order_is_named_quadratic():
    points, people = [n % 5 for n in range(30)], [(n + n // 10) % 5 for n in range(30)]
    scores = scored(points, people, 4)
    passes = scored([n % 2 for n in range(30)], [n % 3 % 2 for n in range(30)], 1, "polite")
    for logs, heads in (((scores, scores.assign(attribute="style")), {"quadratic κ"}),
                        ((passes, passes.assign(attribute="kind")), {"κ"}),
                        ((scores, passes), {"κ", "quadratic κ"})):  # fmt: skip
        estimates = bl.audit(bl.read_judgements(pd.concat(logs, ignore_index=True)), only=["agreement"])
        lines = page(estimates, reference=None, width=WIDE).splitlines()
        head = lines[1 + next(n for n, line in enumerate(lines) if line.endswith("agreement with people:"))]
        assert {"κ", "quadratic κ"} & {*re.split(r"\s{2,}", head.strip())} == heads


def test_leniency_and_what_matters_have_one_unit():
    people = [1 + n % 4 for n in range(40)]
    points = [1 + n % 4 + (n % 7 == 1) - (n % 7 == 4) for n in range(40)]
    estimates = bl.audit(bl.read_judgements(scored(points, people, 10)), only=["agreement"])
    (line,) = (line for line in page(estimates, reference=None, width=WIDE).splitlines() if " leniency " in line)
    row = estimates.set_index("metric").loc["leniency"]
    assert f"leniency {with_interval(row, 3)} widths of the scale" in line
    assert f"({number(10 * row['estimate'], 2)} points)" in line
    assert "no bias of ≥ 0.05" in line


def test_correlations_of_systems_are_shown_with_their_notes():
    names = {"context_id": [*"aaabbbccc"], "candidate_id": [*"xyz"] * 3}
    log = pd.DataFrame(names | {"score": [1, 3, 4, 2, 2, 5, 1, 4, 3], "human": [1, 2, 4, 2, 3, 5, 1, 2, 3]})
    mapping = {"judge": "=j", "scale": "=1-5", "human_scale": "=1-5"}
    estimates = bl.audit(bl.read_judgements(log, mapping=mapping), only=["agreement"])
    (line,) = (line for line in page(estimates, reference=None, width=WIDE).splitlines() if "of systems" in line)
    rows = estimates[(estimates["metric"] == "correlation") & (estimates["level"] == "system")]
    assert rows["note"].ne("").all()
    assert all(note in line for note in rows["note"])


def test_notes_are_of_measures_with_an_estimate():
    texts = [" ".join(["word"] * (3 + n % 4)) for n in range(30)]
    log = pd.DataFrame({"question": [f"What of {n} is there?" for n in range(30)], "answer_a": texts,
                        "answer_b": texts[::-1], "winner": ["A", "B", "B"] * 10})  # fmt: skip
    estimates = bl.audit(log)
    known = set(estimates.loc[estimates["estimate"].notna(), "probe"])
    assert "pair_length" in estimates.attrs["additions"]
    assert set(estimates.attrs["notes"]) == {"one_order"} <= known


def test_what_a_finding_holds_for_is_no_note_of_an_open_one(make_row):
    note = {"note": "holds if all is well", "notes": '[["few_contexts", {"fewest": 6}]]'}
    none = make_row(attribute="a", estimate=0.5, ci_low=0.49, ci_high=0.51, p_value=0.9, **note)
    wide = make_row(attribute="b", estimate=0.55, ci_low=0.2, ci_high=0.9, p_value=0.6)
    open_, closed = (page(pd.DataFrame(rows), reference=None, width=WIDE) for rows in ([none, wide], [none, none]))
    assert note["note"] in closed
    assert note["note"] not in open_
    notes = '[["depends_on_reliability", {"reliability": 0.62}]]'
    single = make_row(probe="verbosity", metric="verbosity_slope", estimate=0.3, ci_low=0.1, ci_high=0.5,
                      p_value=0.001, bound_low=float("nan"), notes=notes)  # fmt: skip
    (finding,) = classify(pd.DataFrame([single]))
    assert finding.kind == "open"
    assert "0.62" in finding.words
    assert "holds" not in finding.words


def test_log_odds_of_the_first_are_shown_as_a_probability():
    trials = bl.atlas.trials("arena_gpt52", judge="gpt-5.2")
    audited = bl.audit(trials)
    row = audited[audited["metric"] == "first_position_log_odds"].iloc[0]
    shares = [f"{1 / (1 + math.exp(-row[name])):.2f}" for name in ("estimate", "ci_low", "ci_high")]
    text = " ".join(page(audited).split())
    assert f"P(A) between equals {shares[0]} [{shares[1]}, {shares[2]}]" in text


@pytest.mark.slow
def test_win_rates_name_each_system_from_the_best():
    audited = bl.audit(bl.atlas.trials("pandalm", judge="gpt-3.5-turbo"))
    rates = audited[audited["metric"] == "win_rate"].sort_values("estimate", ascending=False)
    text = " ".join(page(audited).split())
    places = [text.index(f"system {row['system']} {row['estimate']:.3f}") for row in rates.to_dict("records")]
    assert places == sorted(places)
    assert len(places) == 5


def test_estimate_without_a_test_shows_its_numbers():
    texts = {
        "answer_a": [f"answer {n} of one" for n in range(60)],
        "answer_b": [f"reply {n} of two" for n in range(60)],
    }
    winners = ["A"] * 12 + ["B"] * 48
    log = pd.DataFrame({"question": [f"about {n}?" for n in range(60)], **texts, "winner": winners})
    text = " ".join(page(bl.audit(log)).split())
    assert "P(A) between equals 0.20: no test" in text
    assert "decisions for the first (share): 0.200 [0.1" in text
