"""`audit`: which probes run on what, what the others say, and that their estimates are those of the probes

themselves.
"""

import json
from dataclasses import replace

import krippendorff
import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, TrialsError, UnreadableLogError
from biaslab.logs.audit.run import audit_humans
from biaslab.logs.readers.card import explain_unread
from biaslab.stats.resample import Resampling

QUICK = Resampling(n=100)
OTHERS = ("replies", "agreement", "halo", "pair_length", "one_order", "one_list", "subsets", "self_preference")


def pair_log(contexts=12, first=0.8, seed=0, **more):
    rng = np.random.default_rng(seed)
    pairs = [(c, a, b) for c in range(contexts) for a, b in (("x", "y"), ("y", "x"))]
    return [
        {
            "context_id": c,
            "candidate_id": a,
            "opponent_id": b,
            "p_first": 0.75 if rng.random() < first else 0.25,
            **more,
        }
        for c, a, b in pairs
    ]


def score_log(contexts=12, candidates=4, seed=0, **more):
    rng = np.random.default_rng(seed)
    rows = []
    for context in range(contexts):
        for candidate in range(candidates):
            quality = int(rng.integers(1, 6))
            for attribute, spread in (("coherence", 1), ("fluency", 1)):
                human = int(np.clip(quality + rng.integers(-spread, spread + 1), 1, 5))
                judged = int(np.clip(quality + rng.integers(-1, 2), 1, 5))
                rows.append(
                    {"context_id": context, "candidate_id": candidate, "attribute": attribute, "score": judged,
                     "human": human, "scale": "1-5", **more}
                )  # fmt: skip
    return rows


def read(folder, rows, **options):
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return bl.read_judgements(file, **options)


def test_pairs_are_audited_as_the_probe_does(tmp_path):
    trials = read(tmp_path, pair_log())
    found = bl.audit(trials, only=["position"], resampling=QUICK)
    own = bl.probes.Position(resampling=QUICK).estimate(trials)
    pd.testing.assert_frame_equal(found[own.columns], own, check_dtype=False)
    logit = found.set_index("metric").loc["first_position_logit", "estimate"]
    assert logit == pytest.approx(np.log(3) * (2 * (trials["value"] > 0.5).mean() - 1))


def test_scores_run_some_probes_and_others_give_a_reason(tmp_path):
    found = bl.audit(read(tmp_path, score_log()), resampling=QUICK)
    assert {"score_distribution", "agreement", "halo"} <= set(found["probe"])
    not_run = found.attrs["not_run"]
    assert not_run["position"] == "needs judgements of two candidates shown one after the other"
    assert not_run["replies"] == "needs judgements of two candidates"
    assert "several annotators" in not_run["consistency"]
    assert "before and after reasons" in not_run["output_order"]
    assert "with and without the source" in not_run["source"]
    assert set(not_run) | set(found["probe"]) == {*bl.probes.available(), *OTHERS}
    assert all("\n" not in why for why in not_run.values())


@pytest.mark.slow
def test_audit_of_pairs_and_scores_runs_probes_of_both(tmp_path):
    trials = pd.concat([read(tmp_path, pair_log()), read(tmp_path, score_log())], ignore_index=True)
    found = bl.audit(trials, resampling=QUICK)
    assert {"position", "replies", "score_distribution", "agreement", "halo"} <= set(found["probe"])


def test_agreement_and_halo_by_hand(tmp_path):
    rows = [
        ("a", "x", "coherence", 1, 1), ("a", "y", "coherence", 2, 2), ("a", "z", "coherence", 3, 3),
        ("a", "x", "fluency", 1, 3), ("a", "y", "fluency", 2, 2), ("a", "z", "fluency", 3, 1),
        ("b", "x", "coherence", 1, 2), ("b", "y", "coherence", 3, 1), ("b", "z", "coherence", 2, 3),
        ("b", "x", "fluency", 1, 1), ("b", "y", "fluency", 3, 3), ("b", "z", "fluency", 2, 2),
    ]  # fmt: skip
    names = ("context_id", "candidate_id", "attribute", "score", "human")
    trials = read(tmp_path, [dict(zip(names, row, strict=True), scale="1-5") for row in rows])
    found = bl.audit(trials, only=["agreement", "halo"], resampling=QUICK)
    at = (found["level"] == "context") & (found["coefficient"] == "spearman")
    agreement = found[at].set_index("attribute")["estimate"]
    assert agreement["coherence"] == pytest.approx((1 - 0.5) / 2)
    assert agreement["fluency"] == pytest.approx((-1 + 1) / 2)
    halo = found[found["probe"] == "halo"].set_index("metric")["estimate"]
    assert halo["halo_judge"] == pytest.approx(1.0)
    assert halo["halo_human"] == pytest.approx((-1 - 0.5) / 2)
    assert halo["halo_excess"] == pytest.approx(1.75)


@pytest.mark.parametrize(("replicates", "answers"), [(1, {"single"}), (3, {"single", "mean of 3"})])
def test_means_are_over_at_most_the_available_samples(tmp_path, replicates, answers):
    rows = [
        {**row, "replicate": k, "score": (row["score"] + k) % 5 + 1} for row in score_log() for k in range(replicates)
    ]
    found = bl.audit(read(tmp_path, rows), only=["score_distribution"], resampling=QUICK)
    assert set(found["answer"]) == answers


def test_consistency_is_undefined_with_one_sample_per_item(tmp_path):
    """Whatever its number: items of different runs may each have one."""
    rows = [{**row, "replicate": row["context_id"] % 3, "ratings": f"{row['human']} 3"} for row in score_log()]
    found = bl.audit(read(tmp_path, rows), only=["consistency"], resampling=QUICK)
    notes = found[found["metric"].isin(["sample_alpha", "alpha_gap"])]["note"]
    assert len(notes) == 12
    assert notes.str.startswith("undefined: sampling noise needs at least 2 samples").all()
    assert found.loc[found["metric"] == "human_alpha", "estimate"].notna().all()


def test_pairs_in_one_order_only(tmp_path):
    rows = pair_log()
    found = bl.audit(read(tmp_path, rows[::2]), resampling=QUICK)
    assert found.attrs["not_run"]["position"] == "needs pairs in both orders; each was judged in one order only"
    pooled = found.set_index(["metric", "system"])["estimate"]
    assert pooled["first_position_rate", ""] == pytest.approx(np.mean([r["p_first"] > 0.5 for r in rows[::2]]))
    assert pooled["win_rate", "x"] == pytest.approx(np.mean([r["p_first"] for r in rows[::2]]))
    assert pooled["win_rate", "x"] + pooled["win_rate", "y"] == pytest.approx(1)


def test_judge_of_one_order_only_is_excluded_from_position(tmp_path):
    rows = [*pair_log(judge="both"), *pair_log(judge="one")[::2]]
    found = bl.audit(read(tmp_path, rows), only=["position"], resampling=QUICK)
    assert set(found["judge"]) == {"both"}
    assert found.attrs["notes"]["position"].startswith("left out one / unknown / overall / recorded")


def test_unknown_order_never_enters_an_order_effect(tmp_path):
    found = bl.audit(read(tmp_path, pair_log(order_known=False)), resampling=QUICK)
    assert "which candidate was shown first" in found.attrs["not_run"]["position"]
    assert np.isnan(found.set_index("metric").loc["first_position_rate", "estimate"])


@pytest.mark.slow
def test_length_pays_in_a_log_as_in_the_probe(tmp_path, graded):
    """What a judge with planted verbosity said, written as a log without texts, beside the probe's own estimates."""
    probe = bl.probes.Verbosity(attributes=["coherence"], answer="text", temperature=0.0, resampling=QUICK)
    own = bl.collect(probe, bl.SimulatedJudge(graded, quality=0.5, verbosity=3.0), graded, progress=False)
    rows = own[["context_id", "candidate_id", "attribute"]].assign(score=own["value"], scale="1-5")
    log = read(tmp_path, rows.to_dict("records"))
    assert "a data set with both" in bl.audit(log, resampling=QUICK).attrs["not_run"]["verbosity"]
    found = bl.audit(log, graded, ["verbosity"], QUICK).set_index("metric")
    wanted = probe.estimate(own).set_index("metric")
    for metric in ("verbosity_slope", "verbosity_excess"):
        assert found.loc[metric, ["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(
            wanted.loc[metric, ["estimate", "ci_low", "ci_high"]].tolist()
        )
    assert found.loc["verbosity_excess", "ci_low"] > 0


def test_log_may_hold_lengths_and_human_scores(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"context_id": c, "candidate_id": k, "configuration": way, "human": int(rng.integers(1, 6)), "scale": "1-5",
         "length": 2**k, "score": k + 1 if way == "long" else int(rng.integers(1, 6))}
        for way in ("long", "fair") for c in range(12) for k in range(5)
    ]  # fmt: skip
    names = ("context_id", "candidate_id", "configuration", "human", "scale", "score")
    log = read(tmp_path, rows, mapping={**{name: name for name in names}, "words": "length"})
    found = bl.audit(log, only=["verbosity"], resampling=QUICK)
    slopes = found[found["metric"] == "verbosity_slope"].set_index("attribute")
    assert slopes.loc["overall (long)", "estimate"] == pytest.approx(1 / np.std([1, 2, 3, 4, 5] * 12, ddof=1))
    assert slopes.loc["overall (fair)", "ci_low"] < 0 < slopes.loc["overall (fair)", "ci_high"]


@pytest.mark.slow
def test_human_scores_are_joined_from_a_data_set(tmp_path, graded):
    items = graded.candidates[["context_id", "candidate_id"]].head(12).to_dict("records")
    scores = read(tmp_path, [{**item, "attribute": "coherence", "score": 3, "scale": "1-5"} for item in items])
    found = bl.audit(scores, graded, ["agreement"], QUICK)
    assert (found["note"] != "").any()  # constant scores correlate with nothing
    pairs = [
        {"context_id": one["context_id"], "candidate_id": one["candidate_id"], "opponent_id": two["candidate_id"],
         "attribute": "coherence", "winner": one["candidate_id"]}
        for one in items for two in items if one["context_id"] == two["context_id"] and one != two
    ]  # fmt: skip
    found = bl.audit(read(tmp_path, pairs), graded, ["position"], QUICK)
    assert found["human_gap"].notna().any()
    stranger = read(
        tmp_path, [{**scores.iloc[0][["context_id"]], "candidate_id": "nobody", "score": 3, "scale": "1-5"}]
    )
    with pytest.raises(InputError, match="nobody"):
        bl.audit(stranger, graded)


@pytest.mark.slow
def test_own_trials_run_their_own_probe(tmp_path, graded):
    data = graded.head(6)
    probe = bl.probes.Source(attributes=["coherence"])
    trials = bl.collect(probe, bl.SimulatedJudge(data), data, progress=False)
    trials.to_parquet(tmp_path / "t.parquet")
    found = bl.audit(bl.read_judgements(tmp_path / "t.parquet"), resampling=QUICK)
    own = bl.probes.Source(resampling=QUICK).estimate(trials)
    np.testing.assert_allclose(found.loc[found["probe"] == "source", "estimate"], own["estimate"])


def test_wrong_input_is_named(tmp_path):
    trials = read(tmp_path, pair_log(2))
    with pytest.raises(InputError, match="nonsense"):
        bl.audit(trials, only=["nonsense"])
    with pytest.raises(InputError, match="list"):
        bl.audit(trials, only="position")
    with pytest.raises(TrialsError, match="value"):
        bl.audit(trials.drop(columns="value"))


def test_audit_lists_all_probes_that_cannot_run(tmp_path):
    found = bl.audit(read(tmp_path, pair_log(2)), only=["source", "sweep"])
    assert found.empty
    assert list(found.attrs["not_run"]) == ["source", "sweep"]


def test_command_line(tmp_path, capsys):
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in pair_log()) + "{broken\n")
    out = tmp_path / "out.csv"
    assert main(["audit", str(file), "--map", "judge==me", "--out", str(out)]) == 0
    message = capsys.readouterr().out
    assert "24 judgements (mapping), 24 of them readable" in message
    assert "1 line; log.jsonl:25: not JSON" in message
    assert "me (unknown, " in message
    assert "template" in message.rpartition("not estimated:")[2]
    assert set(pd.read_csv(out)["probe"]) == {"position", "replies"}
    assert main(["audit", str(file), "--strict"]) == 2
    assert "line 25" in capsys.readouterr().err
    assert main(["audit", str(file), "--map", "judge"]) == 2
    assert main(["audit", str(tmp_path / "none")]) == 2


def lines(folder, *records, name="log.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(file)


def pair(question, reply):
    return {"context_id": question, "candidate_id": "x", "opponent_id": "y", "reply": reply}


@pytest.mark.slow
def test_a_log_of_which_more_than_half_is_unread_ends_with_4(tmp_path, capsys):
    replies = ["Verdict: eins", "Verdict: zwei", "Verdict: zwei", "Verdict: eins\n" * 40, "[[A]]"]
    file = lines(tmp_path, *(pair(n, reply) for n, reply in enumerate(replies)))
    assert main(["audit", file]) == 4
    message = capsys.readouterr()
    assert "1 of them readable" in message.out
    assert "'Verdict: eins'" in message.err
    assert "'Verdict: zwei'" in message.err
    assert "give its words and their meaning in a mapping" in message.err
    assert max(map(len, message.err.splitlines())) < 400
    read = lines(tmp_path, *(pair(n, "[[A]]") for n in range(5)), name="read.jsonl")
    assert main(["audit", read]) == 0


def test_scores_off_scale_and_missing_replies_have_own_remedies(tmp_path):
    rows = [{"context_id": n, "candidate_id": "x", "score": 8} for n in range(3)]
    outside = bl.read_judgements(lines(tmp_path, *rows), mapping={"scale": "=1-5"})
    assert any("outside 1-5" in line for line in explain_unread(outside))
    empty = bl.read_judgements(lines(tmp_path, *(pair(n, None) for n in range(3))))
    assert any("3 of them have no reply" in line for line in explain_unread(empty))
    assert explain_unread(bl.read_judgements(lines(tmp_path, pair(1, "[[B]]")))) == []


@pytest.mark.slow
def test_refusals_are_read_as_refusals(tmp_path):
    file = lines(tmp_path, *(pair(n, "I'm sorry, but I can't judge this.") for n in range(3)))
    assert main(["audit", file]) != 4


def test_the_same_log_twice_is_refused(tmp_path, capsys):
    file = lines(tmp_path, pair(1, "[[A]]"))
    copy = lines(tmp_path, pair(1, "[[A]]"), name="copy.jsonl")
    for second in (file, copy):
        assert main(["audit", file, second]) == 2
        assert "it is identical to" in capsys.readouterr().err


@pytest.mark.slow
def test_a_mapping_file_and_what_is_mapped_beside_it(tmp_path, capsys):
    lines(tmp_path, {"n": 1, "said": "x"}, name="said.jsonl")
    file = lines(tmp_path, {"n": 1})
    mapping = tmp_path / "log.toml"
    mapping.write_text(
        'join = "said.jsonl on n"\ncontext_id = "n"\ncandidate_id = "=x"\nopponent_id = "=y"\nwinner = "said"\n'
    )
    assert main(["audit", file, "--mapping", str(mapping), "--map", "judge==me", "--all"]) == 0
    assert "replies of me on unknown" in capsys.readouterr().out
    assert main(["audit", file, "--mapping", str(mapping)]) == 0
    assert main(["audit", file, "--mapping", str(tmp_path / "none.toml")]) == 2


def ratings(seed=0):
    rng = np.random.default_rng(seed)
    true = rng.integers(1, 6, 24)
    return np.clip(true + rng.integers(-1, 2, (3, 24)), 1, 5).astype(float)


@pytest.mark.slow
def test_people_alone_give_alpha(tmp_path, capsys):
    """By lists, by fields, by rows: the same, which the reference implementation gives too."""
    given = ratings()
    given[1, 3] = np.nan
    shown = [[None if np.isnan(score) else int(score) for score in item] for item in given.T]
    wide = lines(tmp_path, *({"item": n, "who": "x", "all": item, "a": item[0], "b": item[1], "c": item[2]}
                             for n, item in enumerate(shown)))  # fmt: skip
    long = lines(tmp_path, *({"item": n, "who": "x", "score": score, "by": name} for n, item in enumerate(shown)
                             for name, score in zip("abc", item, strict=True) if score), name="long.jsonl")  # fmt: skip
    base = {"context_id": "item", "candidate_id": "who"}
    logs = [
        bl.read_judgements(wide, mapping=base | {"ratings": "all"}),
        bl.read_judgements(wide, mapping=base | {"ratings": "a,b,c"}),
        bl.read_judgements(long, mapping=base | {"judge": "by", "scale": "=1-5"}),
    ]
    for level in ("interval", "ordinal", "nominal"):
        wanted = krippendorff.alpha(given, level_of_measurement=level)
        for log in logs:
            found = audit_humans(log, bl.Resampling(n=100)).set_index("level")
            assert found.loc[level, "estimate"] == pytest.approx(wanted)
            assert found.loc[level, "n_trials"] == 71
    out = tmp_path / "out.csv"
    maps = ["--map", "context_id=item", "--map", "candidate_id=who", "--map", "ratings=a,b,c"]
    assert main(["audit", wide, "--humans", *maps, "--out", str(out)]) == 0
    assert "humans of humans" in capsys.readouterr().out
    assert set(pd.read_csv(out)["metric"]) == {"human_alpha"}
    assert main(["audit", wide, *maps]) == 0
    assert "humans of humans" in capsys.readouterr().out


def test_one_annotator_is_refused_for_agreement(tmp_path):
    log = bl.read_judgements(
        lines(tmp_path, {"context_id": 1, "candidate_id": "x", "score": 3}), mapping={"scale": "=1-5"}
    )
    with pytest.raises(InputError, match="at least two people"):
        audit_humans(log)


HEADER = "context_id,candidate_id,opponent_id,winner"
PAIR = {"judge": "j", "candidate_id": "x", "opponent_id": "y"}


def biased(questions):
    """Return the rows of a judge that prefers the candidate shown first, in both orders of each question."""
    return [f"q{n},{first},{second},{first}" for n in range(questions) for first, second in ("xy", "yx")]


def log_of(folder, good, malformed, name="log.csv"):
    file = folder / name
    file.write_text("\n".join([HEADER, *biased(good), *["q,x"] * malformed]) + "\n")
    return file


@pytest.mark.slow
def test_no_finding_comes_from_17_percent_of_a_log(tmp_path, capsys):
    file = log_of(tmp_path, good=17, malformed=166)
    card = tmp_path / "card"
    assert main(["audit", str(file), "--card", str(card)]) == 4
    message = capsys.readouterr()
    assert "166 lines; log.csv:" in message.out
    assert "166 of 200 not read: 166 malformed lines" in message.err
    assert "no finding" in message.err
    assert "●" not in message.out
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
    lines = [json.dumps(row | ({"judgment": "[[A]]"} if n < 2 else {})) for n, row in enumerate(rows)]
    file.write_text("\n".join(lines))
    with pytest.raises(UnreadableLogError, match="4 of 6 not read: 4 failed calls"):
        bl.audit(file)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_path_and_a_plain_table_are_audited_as_a_log_is(tmp_path):
    file = log_of(tmp_path, good=12, malformed=0)
    wanted = bl.audit(bl.read_judgements(file), only=["position"])
    for given in (file, str(file), pd.read_csv(file)):
        pd.testing.assert_frame_equal(bl.audit(given, only=["position"]), wanted)


@pytest.mark.parametrize("given", [None, 3, "no.csv", "", [], pd.DataFrame(), pd.DataFrame({"a": [1]}), print])
def test_audit_refuses_other_types_and_lists_allowed(given):
    with pytest.raises(InputError, match=r"path is|a table"):
        bl.audit(given)


@pytest.mark.parametrize("options", [{"human": "graded"}, {"only": 3}, {"only": ["no"]}, {"resampling": 100}])
def test_wrong_options_are_refused(tmp_path, options):
    with pytest.raises(InputError, match=next(iter(options))):
        bl.audit(log_of(tmp_path, good=4, malformed=0), **options)


def of_documents(contexts=12, documents=4):
    """Return trials in which a document decides the verdicts of all its contexts."""
    rng = np.random.default_rng(1)
    first = rng.random(documents) < 0.5
    rows = [
        {"context_id": f"q{c}", "candidate_id": one, "opponent_id": two, "document": f"d{c % documents}",
         "winner": "first" if first[c % documents] else "second"}
        for c in range(contexts)
        for one, two in ("xy", "yx")
    ]  # fmt: skip
    return bl.read_judgements(pd.DataFrame(rows), mapping={"judge": "=j"}, keep=["document"])


@pytest.mark.slow
def test_contexts_of_a_document_are_one_cluster():
    trials = of_documents()
    found = bl.audit(trials, only=["position"], resampling=QUICK, cluster="document").set_index("metric")
    clusters = {f"q{c}": f"q{c % 4}" for c in range(12)}
    own = bl.audit(trials, only=["position"], resampling=replace(QUICK, clusters=clusters)).set_index("metric")
    alone = bl.audit(trials, only=["position"], resampling=QUICK).set_index("metric")
    rate = found.loc["first_position_rate"]
    assert rate["n_contexts"] == 4
    assert rate["se"] == pytest.approx(own.loc["first_position_rate", "se"])
    assert rate["se"] > 1.5 * alone.loc["first_position_rate", "se"]
    assert rate["estimate"] == alone.loc["first_position_rate", "estimate"]


@pytest.mark.slow
@pytest.mark.parametrize("given", [None, {f"q{c}": f"q{c % 2}" for c in range(12)}])
def test_data_sets_with_the_same_names_of_contexts_keep_their_clusters(given):
    one, resampling = of_documents(), replace(QUICK, clusters=given)
    two = one.assign(dataset="other", document=[f"page{n // 2 % 3}" for n in range(len(one))])
    both = bl.audit(pd.concat([one, two]), only=["position"], resampling=resampling, cluster="document")
    each = [bl.audit(log, only=["position"], resampling=resampling, cluster="document") for log in (one, two)]
    columns = ["dataset", "metric", "estimate", "se", "n_contexts"]
    pd.testing.assert_frame_equal(both[columns], pd.concat(each, ignore_index=True)[columns])


def test_unknown_cluster_is_refused():
    with pytest.raises(InputError, match="cluster is 'page'"):
        bl.audit(of_documents(), cluster="page")


@pytest.mark.slow
def test_audit_command_takes_a_cluster(tmp_path, capsys):
    trials = of_documents()
    table = trials[["context_id", "candidate_id", "opponent_id", "document"]]
    table.assign(winner=np.where(trials["value"] > 0.5, "first", "second")).to_csv(tmp_path / "log.csv", index=False)
    out = tmp_path / "estimates.csv"
    options = ["--cluster", "document", "--only", "position", "--out", str(out)]
    assert main(["audit", str(tmp_path / "log.csv"), *options]) == 0
    assert pd.read_csv(out).set_index("metric").loc["first_position_rate", "n_contexts"] == 4
