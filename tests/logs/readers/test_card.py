"""The reading card: roles, counts and rows as data, of constructed logs and of the fifteen small tables."""

import json
import pickle
from pathlib import Path

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.logs.readers.card import ReadingCard, RecordedTrials

TABLES = Path(__file__).parents[3].parent / "shared" / "data" / "tables"
PAIRS = {"context_id": "id", "candidate_id": "left", "opponent_id": "right"}


def pairs(**columns):
    rows = [{"id": f"q{n}", "left": "xy"[n % 2], "right": "yx"[n % 2], "won": "LRT"[n % 3]} for n in range(12)]
    return pd.DataFrame([row | {name: column(n) for name, column in columns.items()} for n, row in enumerate(rows)])


def scores(**columns):
    rows = [{"id": f"q{n // 2}", "model": "xy"[n % 2], "points": 1 + n % 4} for n in range(16)]
    return pd.DataFrame([row | {name: column(n) for name, column in columns.items()} for n, row in enumerate(rows)])


MEANING = {"L": "first", "R": "second", "T": "tie"}
WON = "won | " + ", ".join(f"{value} -> {meaning}" for value, meaning in MEANING.items())
SCORED = {"context_id": "id", "candidate_id": "model", "score": "points", "scale": "=1-5"}


def reading_of(log, mapping=None):
    """Return the reading of a log, as it is after JSON."""
    reading = bl.read_judgements(log, mapping=mapping).attrs["reading"]
    assert json.loads(json.dumps(reading)) == reading
    return reading


def roles_of(reading, place=0):
    return {role["role"]: role for role in reading["readings"][place]["roles"]}


def columns_of(reading):
    return {name: [column for source in role["sources"] for column in source["columns"]]
            for name, role in roles_of(reading).items() if role["sources"]}  # fmt: skip


def test_column_that_numbers_cases_is_the_answer_and_no_system():
    log = pd.DataFrame({"case_id": range(24), "question": ["Why?", "Who?"] * 12, "judge_score": [1, 2, 3, 4, 5, 3] * 4})
    reading = reading_of(log)
    assert columns_of(reading) == {"question": ["question"], "answer": ["case_id"], "score": ["judge_score"],
                                   "judge": [], "scale": []}  # fmt: skip
    assert {role for _, _, _, role, _ in bl.logs.propose(log).roles()} == {"question", "answer", "score"}


def test_roles_of_pairs():
    reading = reading_of(pairs(), PAIRS | {"winner": WON, "judge": "=me"})
    assert columns_of(reading) == {
        "question": ["id"], "first": ["left"], "second": ["right"], "verdict": ["won"], "judge": []
    }  # fmt: skip
    roles = roles_of(reading)
    assert roles["verdict"]["sources"][0]["values"] == MEANING
    assert roles["verdict"]["holds"] == {"verdicts": {"first": 4, "second": 4, "tie": 4}}
    assert roles["judge"]["sources"][0]["constant"] == "me"
    assert roles["question"]["holds"] == {"distinct": 12, "names": ["q0", "q1", "q2"]}
    assert roles["shown"]["assumed"]
    assert reading["one_order"] == [12, 12]


def test_rows_of_pairs_have_three_different_verdicts(tmp_path):
    file = tmp_path / "log.csv"
    pairs(human=lambda n: "LR"[n % 2]).to_csv(file, index=False)
    people = "human | L -> first, R -> second"
    reading = reading_of(file, PAIRS | {"winner": WON, "preference": people})
    shown = [
        (r["where"], r["context_id"], r["candidate_id"], r["value"], r["raw"], r["human_gap"]) for r in reading["rows"]
    ]
    assert shown == [
        ("log.csv:2", "q0", "x", 1.0, "L", 1.0), ("log.csv:3", "q1", "y", 0.0, "R", -1.0),
        ("log.csv:4", "q2", "x", 0.5, "T", 1.0),
    ]  # fmt: skip
    line = (
        "row 1 (log.csv:2): question q0 · first x · second y · the judge chose the first (L) · people chose the first"
    )
    assert line in str(ReadingCard(reading))
    assert "the judge saw a tie (T)" in str(ReadingCard(reading))


def test_roles_of_scores():
    log = scores(label=lambda n: 2 + n % 2, seconds=lambda n: n)
    reading = reading_of(log, SCORED | {"ratings": "label", "attribute": "=fluency"})
    assert columns_of(reading) == {
        "question": ["id"], "system": ["model"], "score": ["points"], "criterion": [], "scale": [], "people": ["label"]
    }  # fmt: skip
    assert roles_of(reading)["score"]["holds"] == {"range": [1.0, 4.0]}
    assert reading["readings"][0]["set_aside"] == {"seconds": "not used"}
    first = reading["rows"][0]
    assert (first["value"], first["human"], first["attribute"], first["scale"]) == (1.0, 2.0, "fluency", "1-5")
    assert "the judge gave 1 on 1-5 for fluency · people gave 2" in str(ReadingCard(reading))


def test_observed_scale_differs_from_given_one():
    log = scores(points=lambda n: 1 + n % 5).rename(columns={"id": "question", "points": "score"})
    assert roles_of(reading_of(log))["scale"]["observed"]
    assert "observed" not in roles_of(reading_of(log, {"scale": "=1-10"}))["scale"]


def test_several_judges_each_have_their_score():
    log = scores(**{"gpt-4o_score": lambda n: 1 + n % 5}).rename(columns={"id": "question", "points": "claude_score"})
    reading = reading_of(log, {"scale": "=1-5"})
    assert columns_of(reading)["score"] == ["claude_score", "gpt-4o_score"]
    assert [source["constant"] for source in roles_of(reading)["judge"]["sources"]] == ["claude", "gpt-4o"]
    assert {(row["judge"], float(row["raw"]) == row["value"]) for row in reading["rows"]} == {("claude", True)}


def test_verdict_of_each_entry_is_the_one_in_its_column(tmp_path):
    file = tmp_path / "log.csv"
    log = pairs(won=lambda n: "maybe" if n else "left").assign(winner="A", gpt=["B"] * 12)
    log = log.rename(columns={"id": "question", "left": "model_a", "right": "model_b"}).drop(columns="won")
    log = log.rename(columns={"winner": "gpt-4o", "gpt": "claude-3"})
    log.to_csv(file, index=False)
    rows = reading_of(file)["rows"]
    assert {(row["judge"], row["value"], row["raw"]) for row in rows} == {("gpt-4o", 1.0, "A"), ("claude-3", 0.0, "B")}


def test_items_of_a_list_are_rows():
    log = pd.DataFrame({"id": ["a", "b"], "graded": [[{"m": "x", "s": 1}, {"m": "y", "s": 3}], [{"m": "x", "s": 5}]]})
    mapping = {"explode": "graded", "context_id": "id", "candidate_id": "graded.m", "score": "graded.s"}
    reading = reading_of(log, mapping | {"scale": "=1-5"})
    assert not reading["readings"][0]["set_aside"]
    assert columns_of(reading) | {"scale": []} == {
        "question": ["id"], "system": ["graded.m"], "score": ["graded.s"], "scale": []
    }  # fmt: skip
    assert [(row["where"], row["raw"]) for row in reading["rows"]] == [
        ("table:1", "1"),
        ("table:1", "3"),
        ("table:2", "5"),
    ]


def test_both_orders_in_one_record():
    log = pairs(back=lambda n: "RLT"[n % 3])
    back = WON.replace("won", "back")
    reading = reading_of(log, PAIRS | {"winner": WON, "winner_swapped": back})
    assert columns_of(reading)["verdict in the other order"] == ["back"]
    assert "shown" not in roles_of(reading)
    assert reading["one_order"] == [0, 12]
    shown = {(row["raw"], row["candidate_id"]) for row in reading["rows"]}
    assert {("L", "x"), ("R", "y")} <= shown  # a row of each order


def test_columns_that_swap_with_the_order_leave_pairs_in_both_orders(tmp_path):
    file = tmp_path / "saved.csv"
    mapping = PAIRS | {"winner": WON, "winner_swapped": WON.replace("won", "back")}
    trials = bl.read_judgements(pairs(back=lambda n: "RLT"[n % 3]), mapping=mapping)
    loss = {"x": 1.5, "y": 2.5}
    swapping = {"loss": trials["candidate_id"].map(loss), "opponent_loss": trials["opponent_id"].map(loss)}
    trials.assign(**swapping, seconds=range(len(trials))).to_csv(file, index=False)
    assert bl.read_judgements(file).attrs["reading"]["one_order"] == [0, 12]


def test_verdict_in_the_other_order_is_its_own_raw_value():
    log = pairs(won=lambda n: "L", back=lambda n: "R")
    meaning = " | L -> candidate, R -> opponent"
    reading = reading_of(log, PAIRS | {"winner": "won" + meaning, "winner_swapped": "back" + meaning})
    rows = [(row["raw"], row["candidate_id"], row["value"]) for row in reading["rows"]]
    assert rows[:2] == [("L", "x", 1.0), ("R", "y", 1.0)]
    log = log.assign(back="L")
    rows = reading_of(log, PAIRS | {"winner": "won" + meaning, "winner_swapped": "back" + meaning})["rows"]
    assert [(row["raw"], row["candidate_id"], row["value"]) for row in rows][:2] == [
        ("L", "x", 1.0),
        ("L", "y", 0.0),
    ]


def test_candidates_in_a_stated_order_are_not_called_first():
    mapping = PAIRS | {"winner": "won | L -> candidate, R -> opponent, T -> tie", "swapped": "back"}
    reading = reading_of(pairs(back=lambda n: n % 2 == 0), mapping)
    assert columns_of(reading) == {
        "question": ["id"], "candidate": ["left"], "opponent": ["right"], "shown": ["back"], "verdict": ["won"]
    }  # fmt: skip
    first = reading["rows"][0]
    assert (first["candidate_id"], first["opponent_id"], first["value"], first["raw"]) == ("y", "x", 0.0, "L")


def test_card_marks_unknown_order():
    reading = reading_of(pairs(), PAIRS | {"winner": WON, "order_known": "=false"})
    assert roles_of(reading)["shown"]["holds"] == {"unknown": 12}
    assert not any(row["order_known"] for row in reading["rows"])
    assert "candidate x · opponent y · order not known · the judge chose the candidate" in str(ReadingCard(reading))


def test_unreadable_verdicts_are_counted_and_shown(tmp_path):
    file = tmp_path / "log.csv"
    pairs(won=lambda n: "??" if n in (4, 7, 9) else "LR"[n % 2]).to_csv(file, index=False)
    reading = reading_of(file, PAIRS | {"winner": WON})
    assert reading["counts"]["statuses"] == {"ok": 9, "unparsable": 3}
    assert reading["counts"]["readable"] == 9
    assert reading["unreadable"] == [{"where": "log.csv:6", "raw": "??"}, {"where": "log.csv:9", "raw": "??"}]
    assert [(row["status"], row["raw"]) for row in reading["rows"]] == [("ok", "L"), ("ok", "R"), ("unparsable", "??")]


def test_refusals_and_scores_out_of_range_are_in_words():
    log = scores(points=lambda n: 1 if n else 9)
    assert "gave a score out of range (9)" in str(ReadingCard(reading_of(log, SCORED)))
    log = scores(words=lambda n: "I cannot rate this." if n == 3 else "Rating: 4").drop(columns="points")
    mapping = {name: entry for name, entry in SCORED.items() if name != "score"} | {"reply": "words"}
    assert "the judge refused (I cannot rate this.)" in str(ReadingCard(reading_of(log, mapping)))


@pytest.mark.parametrize("start", [0, 1])
def test_replicates_are_shown_by_their_numbers(start):
    log = pd.concat([scores(run=lambda n: start), scores(run=lambda n: start + 1)])
    reading = reading_of(log, SCORED | {"replicate": "run"})
    assert roles_of(reading)["replicate"]["holds"]["distinct"] == 2
    assert [row["replicate"] for row in reading["rows"]] == [start, start, start + 1]
    assert f"replicate {start + 1}" in str(ReadingCard(reading))
    assert "counted" in str(ReadingCard(reading_of(log, SCORED | {"replicate": "=#"})))


def test_ratings_of_people_alone_are_no_judgements():
    log = scores(ann=lambda n: 1 + n % 4, bob=lambda n: 1 + n % 3)
    mapping = {"context_id": "id", "candidate_id": "model", "ratings": "ann, bob", "scale": "=1-5"}
    reading = reading_of(log.drop(columns="points"), mapping)
    assert columns_of(reading)["people"] == ["ann", "bob"]
    assert not reading["readings"][0]["judged"]
    card = str(ReadingCard(reading))
    assert "16 items rated by people" in card
    assert "the judge" not in card
    assert "people gave 1" in card


def test_malformed_lines_and_duplicates_are_counted(tmp_path):
    file = tmp_path / "log.jsonl"
    rows = pairs().to_dict("records")
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0], rows[1] | {"won": "L"}]) + "{oops\n")
    reading = reading_of(file, PAIRS | {"winner": WON})
    counts = {name: reading["counts"][name] for name in ("judgements", "duplicates", "contradictions", "malformed")}
    assert counts == {"judgements": 12, "duplicates": 2, "contradictions": 1, "malformed": 1}
    assert [problem[:2] for problem in reading["problems"]] == [["log.jsonl", 15]]


def test_nested_columns_are_set_aside_by_their_path():
    log = pairs(about=lambda n: {"cost": n, "judge": {"name": "j", "seed": 1}})
    reading = reading_of(log, PAIRS | {"winner": WON, "judge": "about.judge.name"})
    assert set(reading["readings"][0]["set_aside"]) == {"about.cost", "about.judge.seed"}


def test_known_format_shows_what_its_trials_hold(tmp_path):
    file = tmp_path / "log.jsonl"
    line = {"judge": "j", "question": 1, "A": "x", "B": "y"}
    file.write_text(
        "".join(json.dumps(line | {"question": n, "judgment": f"So [[{'ABC'[n]}]]."}) + "\n" for n in range(3))
    )
    reading = reading_of(file)
    (own,) = reading["readings"]
    assert (own["format"], own["set_aside"]) == ("bracket_pairs", {})
    assert own["help"] == bl.logs.readers.available()["bracket_pairs"]
    roles = roles_of(reading)
    assert not any(role["sources"] for role in roles.values())
    assert roles["verdict"]["holds"] == {"verdicts": {"first": 1, "second": 1, "tie": 1}}
    assert roles["judge"]["holds"] == {"distinct": 1, "names": ["j"]}
    assert [row["raw"] for row in reading["rows"]] == ["So [[A]].", "So [[B]].", "So [[C]]."]


def test_files_that_are_read_alike_share_a_reading(tmp_path):
    names = {"id": "context_id", "left": "candidate_id", "right": "opponent_id", "won": "winner"}
    of_pairs = pairs().replace({"won": MEANING}).rename(columns=names)
    of_pairs.to_csv(tmp_path / "a.csv", index=False)
    of_pairs.assign(context_id="o" + of_pairs["context_id"]).to_csv(tmp_path / "b.csv", index=False)
    names = {"id": "context_id", "model": "candidate_id", "points": "score"}
    scores(scale=lambda n: "1-5").rename(columns=names).to_csv(tmp_path / "c.csv", index=False)
    reading = reading_of(tmp_path)
    assert [(own["file"], own["files"]) for own in reading["readings"]] == [("a.csv", 2), ("c.csv", 1)]
    assert roles_of(reading)["question"]["holds"]["distinct"] == 24
    assert roles_of(reading, 1)["question"]["holds"]["distinct"] == 8


def test_long_texts_are_shortened():
    reading = reading_of(scores(id=lambda n: f"{n} " + "word " * 200), SCORED)
    assert max(len(row["context_id"]) for row in reading["rows"]) <= 65
    assert max(map(len, str(ReadingCard(reading)).splitlines())) < 250


def test_frame_is_a_data_frame_shown_below_its_card(tmp_path):
    trials = bl.read_judgements(pairs(), mapping=PAIRS | {"winner": WON})
    assert isinstance(trials, pd.DataFrame)
    assert repr(trials).startswith("the table: 12 judgements")
    assert repr(trials).endswith(repr(pd.DataFrame(trials)))
    assert "<caption" in trials._repr_html_()
    for derived in (trials[:3], trials.copy(), trials[["value"]], pd.concat([trials, trials])):
        assert type(derived) is pd.DataFrame
    assert pickle.loads(pickle.dumps(trials)).attrs == trials.attrs
    trials.attrs = {}
    assert repr(trials) == repr(pd.DataFrame(trials))


def test_reading_is_kept_in_parquet(tmp_path):
    trials = bl.read_judgements(pairs(), mapping=PAIRS | {"winner": WON})
    trials.to_parquet(tmp_path / "trials.parquet")
    assert pd.read_parquet(tmp_path / "trials.parquet").attrs["reading"] == trials.attrs["reading"]


@pytest.mark.slow
def test_text_of_a_log_is_escaped_in_html():
    trials = bl.read_judgements(pairs(id=lambda n: f"<b>{n}</b>"), mapping=PAIRS | {"winner": WON})
    assert isinstance(trials, RecordedTrials)
    shown = [trials._repr_html_(), bl.doctor(trials)._repr_html_()]
    assert all("&lt;b&gt;0&lt;/b&gt;" in html and "<b>0" not in html for html in shown)


@pytest.mark.slow
def test_audit_shows_the_card_once(tmp_path):
    file = tmp_path / "log.csv"
    pairs().replace({"won": MEANING}).to_csv(file, index=False)
    names = {"id": "context_id", "left": "candidate_id", "right": "opponent_id", "won": "winner"}
    pd.read_csv(file).rename(columns=names).to_csv(file, index=False)
    estimates = bl.audit(file, only=["replies"])
    assert estimates.attrs["reading"] == bl.read_judgements(file).attrs["reading"]
    page = bl.report.page(estimates, width=200, reference=None)
    assert page.splitlines()[0] == f"{file}: 12 judgements (mapping), 12 of them readable"
    assert page.count("question q0") == 1
    assert page._repr_html_().count("question q0") == 1
    assert page._repr_html_().count("12 of them readable") == 1
    trials = bl.read_judgements(file)
    assert "reading" not in bl.audit(trials, only=["replies"]).attrs


@pytest.mark.slow
def test_doctor_of_a_selection_says_how_many_are_left():
    trials = bl.read_judgements(pairs(), mapping=PAIRS | {"winner": WON})
    assert "of these, 5 judgements" in str(bl.doctor(trials[:5]))
    assert "of these" not in str(bl.doctor(trials))


@pytest.mark.skipif(not TABLES.exists(), reason="no shared/data/tables")
@pytest.mark.parametrize("name", [file.name for file in sorted(TABLES.glob("f*"))])
def test_card_of_a_small_table_shows_how_it_was_read(name):
    try:
        trials = bl.read_judgements(TABLES / name)
    except InputError:
        pytest.skip("not read without a mapping")
    reading = trials.attrs["reading"]
    roles = roles_of(reading)
    assert reading["counts"]["judgements"] == len(trials)
    assert roles["question"]["holds"]["distinct"] == trials["context_id"].nunique()
    if trials["opponent_id"].notna().all() and "verdict" in roles:
        wins = trials["value"]
        counted = roles["verdict" if "verdict" in roles else "reply"]["holds"]["verdicts"]
        assert list(counted.values()) == [(wins > 0.5).sum(), (wins < 0.5).sum(), (wins == 0.5).sum()]
    elif "score" in roles:
        assert roles["score"]["holds"]["range"] == [trials["value"].min(), trials["value"].max()]
    by_key = trials.set_index("key")
    for row in reading["rows"]:
        trial = by_key.loc[[row["where"]]]
        assert row["value"] in trial["value"].tolist()
        assert row["context_id"][:20] in {text[:20] for text in trial["context_id"]}
    raw = pd.read_csv(TABLES / name) if name.endswith("csv") else None
    if raw is not None:
        (column,) = {"question": columns_of(reading)["question"]}["question"]
        assert raw[column].nunique() == roles["question"]["holds"]["distinct"]
        used = {name for names in columns_of(reading).values() for name in names}
        assert set(reading["readings"][0]["set_aside"]) == set(raw.columns) - used


@pytest.mark.parametrize(
    ("name", "values", "meanings"),
    [("hallucination", "yes no", 1), ("grounded", "yes no", 0), ("error", "1 0", 1), ("error", "free found", 0)],
)
def test_card_says_that_what_is_bad_passes(name, values, meanings):
    one, zero = values.split()
    log = pd.DataFrame({"question": [f"q{i}" for i in range(40)], "answer": [f"a {i}" for i in range(40)]})
    columns = {
        f"{who}_{name}": [one if i % step else zero for i in range(40)] for who, step in (("judge", 3), ("human", 4))
    }
    mapping = {
        entry: f"{who}_{name} | {one} -> 1, {zero} -> 0" for entry, who in (("score", "judge"), ("human", "human"))
    }
    trials = bl.read_judgements(log.assign(**columns), mapping=mapping)
    assert str(ReadingCard(trials.attrs["reading"])).count("meaning ") == meanings
