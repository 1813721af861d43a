"""`doctor`: what it promises is what an audit estimates, and what it asks for allows what it says."""

import shlex
import warnings

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.logs.audit.holdings import addition_for, holdings
from biaslab.stats.resample import Resampling

QUICK = Resampling(n=100)


def pairs(contexts=24, orders=2, seed=0, humans=False, texts=False, replicates=1, prompts=1, order_known=True):
    """Pairs of two systems: a row each order, replicate and prompt."""
    rng = np.random.default_rng(seed)
    rows = []
    for context in range(contexts):
        shown = [("x", "y"), ("y", "x")] if orders == 2 else [("x", "y") if rng.random() < 0.5 else ("y", "x")]
        better = rng.choice(["x", "y"])
        for one, two in shown:
            for replicate in range(replicates):
                for prompt in range(prompts):
                    row = {"context_id": f"q{context}", "candidate_id": one, "opponent_id": two, "judge": "j",
                           "winner": str(rng.choice([one, two])), "replicate": replicate,
                           "template": f"p{prompt}", "order_known": order_known}  # fmt: skip
                    row |= {"preference": str(better)} if humans else {}
                    row |= {"words": 10 + 7 * (one == "x"), "opponent_words": 10 + 7 * (two == "x")} if texts else {}
                    rows.append(row)
    return pd.DataFrame(rows)


def scores(contexts=24, candidates=4, seed=0, humans=False, texts=False, replicates=1, prompts=1, attributes=1,
           annotators=0, scale="1-5"):  # fmt: skip
    """Scores of candidates: a row each attribute, replicate and prompt."""
    rng = np.random.default_rng(seed)
    low, high = map(int, scale.split("-"))
    rows = []
    for context in range(contexts):
        for candidate in range(candidates):
            for attribute in range(attributes):
                rated = [int(rng.integers(low, high + 1)) for _ in range(max(annotators, 1))]
                for replicate in range(replicates):
                    for prompt in range(prompts):
                        row = {"context_id": f"q{context}", "candidate_id": f"s{candidate}", "judge": "j",
                               "attribute": f"a{attribute}", "score": int(rng.integers(low, high + 1)),
                               "scale": scale, "replicate": replicate, "configuration": f"p{prompt}"}  # fmt: skip
                        row |= {"human": float(np.mean(rated)), "human_scale": scale} if humans else {}
                        row |= {"ratings": " ".join(map(str, rated))} if annotators else {}
                        row |= {"words": int(rng.integers(20, 60))} if texts else {}
                        rows.append(row)
    return pd.DataFrame(rows)


#: Logs of which something different can be estimated.
LOGS = {
    "both orders": pairs(),
    "one order": pairs(orders=1, contexts=60),
    "order unknown": pairs(orders=1, order_known=False),
    "with people and texts": pairs(humans=True, texts=True),
    "two prompts": pairs(prompts=2),
    "scores": scores(),
    "scores with humans": scores(humans=True, texts=True),
    "attributes": scores(humans=True, attributes=2),
    "repeated": scores(replicates=2, humans=True, annotators=2),
    "prompts": scores(replicates=2, prompts=2),
    "fine scale": scores(scale="0-100"),
}


def read_together(*logs):
    return pd.concat([bl.read_judgements(log) for log in logs], ignore_index=True)


def estimated(trials):
    """Judge, probe and metric of every estimate of an audit that a verdict or the quality of a judge is read of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = bl.audit(trials, resampling=QUICK)
    known = found[found["estimate"].notna()]
    return set(zip(known["judge"].astype(str), known["probe"], known["metric"], strict=True))


def promised(diagnosis):
    rows = diagnosis.biases
    every = set(zip(rows["judge"], rows["probe"], rows["metric"], strict=True))
    able = rows[rows["estimable"]]
    return set(zip(able["judge"], able["probe"], able["metric"], strict=True)), every


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_doctor_promises_exactly_what_audit_estimates(name):
    trials = bl.read_judgements(LOGS[name])
    able, every = promised(bl.doctor(trials))
    assert able == estimated(trials) & every
    assert able or name in ("order unknown", "scores")


@pytest.mark.slow
def test_doctor_matches_audit_for_judges_of_pairs_and_of_scores():
    trials = read_together(pairs(), scores(humans=True).assign(judge="other"))
    able, every = promised(bl.doctor(trials))
    assert {judge for judge, _, _ in able} == {"j", "other"}
    assert able == estimated(trials) & every


#: Recorded logs that an audit takes minutes for are estimated in part: their first contexts.
MOST = 4_000


def recorded_files(folder):
    """Files of recorded judgements, archives too, as they are read: alone, or with each line that a refusal offers."""
    for file in sorted(path for path in (folder / "recorded").rglob("*") if path.is_file()):
        try:
            yield file, bl.read_judgements(file)
        except InputError as error:
            for line in str(error).splitlines():
                if "--map " in line and "FIELD" not in line and "LOW-HIGH" not in line:  # of files without judgements
                    words = shlex.split(line[line.index("--map ") :])
                    if set(words[::2]) == {"--map"}:  # a line to paste, of which there are no alternatives
                        yield file, bl.read_judgements(file, mapping=dict(word.split("=", 1) for word in words[1::2]))


@pytest.mark.thorough
def test_doctor_matches_audit_for_recorded_logs(shared_data):
    files = 0
    for file, trials in recorded_files(shared_data):
        kept = trials.groupby("judge", sort=False).head(MOST // trials["judge"].nunique())
        kept.attrs = {}
        able, every = promised(bl.doctor(kept))
        if kept["status"].isin(["ok", "tie"]).mean() > 0.5:
            assert able == estimated(kept) & every, file
        files += 1
    assert files >= 60  # those that are read alone, or with a line that a refusal gives


@pytest.mark.slow
@pytest.mark.parametrize("contexts", [250, 600])
def test_doctor_searches_all_contexts_beyond_its_sample(contexts):
    """Both orders, and people's preference, stand in the last contexts alone."""
    late = pairs(contexts, orders=1, humans=False)
    swapped = late.tail(40).rename(columns={"candidate_id": "opponent_id", "opponent_id": "candidate_id"})
    trials = bl.read_judgements(pd.concat([late, swapped], ignore_index=True))
    able, every = promised(bl.doctor(trials))
    assert ("j", "position", "first_position_rate") in able
    assert able == estimated(trials) & every


def both_orders_of(log, count):
    once = log.head(count).rename(columns={"candidate_id": "opponent_id", "opponent_id": "candidate_id"})
    return pd.concat([log, once], ignore_index=True)


def with_humans(log, count):
    """Human scores of the first items."""
    scores_of = np.where(np.arange(len(log)) < count, 1 + np.arange(len(log)) % 5, np.nan)
    return log.assign(human=scores_of, human_scale="1-5")


def again(log, count, **changed):
    return pd.concat([log, log.head(count).assign(**changed)], ignore_index=True)


#: A log, the metric that it does not allow, the number in the addition, and the log with that addition.
ADDED = {
    "the other order": ("first_position_rate", "position", pairs(orders=1), both_orders_of),
    "human scores": ("exact_agreement", "agreement", scores(), with_humans),
    "length with humans": ("verbosity_slope", "verbosity", scores(texts=True), with_humans),
    "another prompt": ("template_shift", "template", scores(), lambda log, n: again(log, n, configuration="other")),
    "another prompt of pairs": ("template_shift", "template", pairs(), lambda log, n: again(log, n, template="other")),
    "a second time": ("alpha_gap", "consistency", scores(annotators=2), lambda log, n: again(log, n, replicate=1)),
    "own texts": (
        "self_preference_logit", "self_preference", pairs(humans=True),
        lambda log, _: log.assign(judge_system="x"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ADDED)
def test_requested_addition_makes_the_metric_estimable(name):
    metric, probe, log, add = ADDED[name]
    before = bl.read_judgements(log)
    row = bl.doctor(before).biases.set_index(["probe", "metric"]).loc[(probe, metric)]
    assert not row["estimable"]
    assert ("j", probe, metric) not in estimated(before)
    numbers = [int(word.replace(",", "")) for word in row["addition"].split() if word.replace(",", "").isdigit()]
    count = numbers[0] if numbers else 40
    assert count <= len(log)
    assert ("j", probe, metric) in estimated(bl.read_judgements(add(log, count)))


def test_the_number_of_pairs_detects_what_matters():
    """68 pairs of which one in three goes with its order: the shift that matters, .1, with 80 % power."""
    held = holdings(bl.read_judgements(pairs(contexts=300, orders=1)))
    assert addition_for("first_position_rate", "position", held) == (
        "judge 68 pairs in the other order, to detect a P(A) of 0.6 with 80 % power"
    )
    rng = np.random.default_rng(0)
    shares = rng.choice([0.5, -0.5, 0.0], p=[1 / 6, 1 / 6, 2 / 3], size=(4000, 68)) + 0.1
    t = shares.mean(axis=1) / (shares.std(axis=1, ddof=1) / 68**0.5)
    assert np.mean(np.abs(t) > 1.996) == pytest.approx(0.8, abs=0.03)


def test_holdings_count_pairs_scores_and_contexts():
    both, one = pairs(contexts=5), pairs(contexts=4, orders=1, humans=True, texts=True).assign(dataset="other")
    held = holdings(read_together(both, one, scores(3, 2, replicates=2)))
    assert (held["pairs"], held["both_orders"], held["one_order"], held["unknown_order"]) == (9, 5, 4, 0)
    assert (held["scores"], held["items"], held["replicates"], held["contexts"]) == (12, 6, 2, 9)
    assert (held["rated_pairs"], held["long_pairs"], held["rated_items"]) == (4, 4, 0)


@pytest.mark.parametrize(("n_read", "n_lines"), [(20, 1), (4, 5)])
def test_unread_replies_are_counted_and_explained(n_read, n_lines):
    replies = [f"I like apple number {i}." for i in range(8)] + ["[[A]]"] * n_read
    rows = [{"judge": "j", "question": i, "A": "x", "B": "y", "judgment": text} for i, text in enumerate(replies)]
    unread = bl.doctor(pd.DataFrame(rows)).unread
    assert unread[0] == "unparsable: 8"
    assert len(unread) == n_lines


def test_doctor_promises_nothing_for_a_mostly_unread_log(tmp_path):
    rows = [{"context_id": i, "candidate_id": "x", "score": "?", "scale": "1-5"} for i in range(10)]
    trials = bl.read_judgements(pd.DataFrame(rows).assign(reply="Mark: none", score=None), mapping={"reply": "reply"})
    diagnosis = bl.doctor(trials)
    assert not diagnosis.biases["estimable"].any()
    assert diagnosis.biases["why"].str.startswith("more than half of the log could not be read").all()


@pytest.mark.slow
def test_command_ends_with_a_runnable_audit_command(tmp_path, capsys):
    file = tmp_path / "my log.csv"
    pairs(orders=1, contexts=40).to_csv(file, index=False)
    assert main(["doctor", str(file), "--map", "dataset==mine"]) == 0
    message = capsys.readouterr().out
    assert "40 pairs: 40 in one order" in message
    assert "– judge 40 pairs in the other order: position" in message
    assert message.rstrip().endswith(f"next: biaslab audit '{file}' --map dataset==mine")
    assert main(shlex.split(message.rpartition("next: biaslab ")[2])) == 0


def test_a_log_of_no_known_format_is_refused_with_a_mapping(tmp_path):
    file = tmp_path / "odd.csv"
    file.write_text("q,system,mark\n1,x,3\n2,y,4\n")
    with pytest.raises(InputError, match="if so: --map scale==3-4"):
        bl.doctor(file)


@pytest.mark.parametrize("apart", [0, 20])
def test_contexts_of_several_judges_count_once(apart):
    own = pairs(20)
    numbers = own["context_id"].str.removeprefix("q").astype(int)
    moved = own.assign(context_id=(numbers + apart).map("q{}".format), judge="k")
    diagnosis = bl.doctor(read_together(own, moved))
    position = diagnosis.biases.query("probe == 'position'")
    assert position["n_contexts"].tolist() == [20, 20]
    assert position["contexts_of_all"].tolist() == [20 + apart] * 2
    assert f"{20 + apart} contexts" in next(line for line in str(diagnosis).splitlines() if "+ position" in line)


@pytest.mark.slow
def test_doctor_takes_judges_of_the_atlas(capsys):
    assert main(["doctor", "atlas:palm-2@llmbar"]) == 0
    message = capsys.readouterr().out
    assert "6,704 judgements" in message
    assert message.rstrip().endswith("next: biaslab audit atlas:palm-2@llmbar")
