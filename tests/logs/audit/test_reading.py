"""The command line on logs that cannot be read, that stand twice, that have a mapping file, and of people alone."""

import json

import krippendorff
import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.logs.audit.annotators import audit_humans
from biaslab.logs.readers.unread import explain_unread


def lines(folder, *records, name="log.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(file)


def pair(question, reply):
    return {"context_id": question, "candidate_id": "x", "opponent_id": "y", "reply": reply}


def test_a_log_of_which_more_than_half_is_unread_ends_with_4(tmp_path, capsys):
    replies = ["Verdict: eins", "Verdict: zwei", "Verdict: zwei", "Verdict: eins\n" * 40, "[[A]]"]
    file = lines(tmp_path, *(pair(n, reply) for n, reply in enumerate(replies)))
    assert main(["audit", file]) == 4
    said = capsys.readouterr()
    assert "1 of them readable" in said.out
    assert "'Verdict: eins'" in said.err
    assert "'Verdict: zwei'" in said.err
    assert "pattern = 'Verdict" in said.err
    assert '"eins" = "…", "zwei" = "…"' in said.err
    assert max(map(len, said.err.splitlines())) < 400
    read = lines(tmp_path, *(pair(n, "[[A]]") for n in range(5)), name="read.jsonl")
    assert main(["audit", read]) == 0


def test_suggested_score_pattern_reads_unread_replies(tmp_path):
    rows = [{"context_id": n, "candidate_id": "x", "reply": f"Style 2 of 3. Mark: {n % 5 + 1}."} for n in range(6)]
    mapping = {"scale": "=1-5"}
    unread = bl.read_judgements(lines(tmp_path, *rows), mapping=mapping).assign(status="unparsable")
    *_, remedy = explain_unread(unread)
    pattern = remedy.partition("score_pattern=")[2].rstrip("'")
    again = bl.read_judgements(lines(tmp_path, *rows), mapping=mapping | {"score_pattern": pattern})
    assert again["value"].tolist() == [n % 5 + 1 for n in range(6)]


def test_suggested_mapping_reads_choices_and_not_reasons(tmp_path):
    """Constructed after DevBench: each reply begins with its choice, and its reasons are numbered."""
    rows = [pair(n, f"Pick: {'AB'[n % 2]}\nReason:\n1. One is longer.") for n in range(6)]
    unread = bl.read_judgements(lines(tmp_path, *rows)).assign(status="unparsable")
    line = explain_unread(unread)[-1].partition("winner = ")[2].replace("FIELD", "reply")
    mapping = tmp_path / "log.toml"
    mapping.write_text(f"winner = {line}\n")
    again = bl.read_judgements(lines(tmp_path, *rows), mapping=mapping)
    assert again["value"].tolist() == [1.0, 0.0] * 3


def test_scores_off_scale_and_missing_replies_have_own_remedies(tmp_path):
    rows = [{"context_id": n, "candidate_id": "x", "score": 8} for n in range(3)]
    outside = bl.read_judgements(lines(tmp_path, *rows), mapping={"scale": "=1-5"})
    assert any(
        "outside 1-5; give the scale that was used, such as --map scale==1-10" in line
        for line in explain_unread(outside)
    )
    empty = bl.read_judgements(lines(tmp_path, *(pair(n, None) for n in range(3))))
    assert any(
        "3 of them have no reply; if it is in another field, use --map reply=FIELD" in line
        for line in explain_unread(empty)
    )
    assert explain_unread(bl.read_judgements(lines(tmp_path, pair(1, "[[B]]")))) == []


def test_refusals_are_read_as_refusals(tmp_path):
    file = lines(tmp_path, *(pair(n, "I'm sorry, but I can't judge this.") for n in range(3)))
    assert main(["audit", file]) != 4


def test_the_same_log_twice_is_refused(tmp_path, capsys):
    file = lines(tmp_path, pair(1, "[[A]]"))
    copy = lines(tmp_path, pair(1, "[[A]]"), name="copy.jsonl")
    for second in (file, copy):
        assert main(["audit", file, second]) == 2
        assert "it is identical to" in capsys.readouterr().err


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
    assert main(["audit", wide, *maps]) == 4
    assert "--humans" in capsys.readouterr().err


def test_one_annotator_is_refused_for_agreement(tmp_path):
    log = bl.read_judgements(
        lines(tmp_path, {"context_id": 1, "candidate_id": "x", "score": 3}), mapping={"scale": "=1-5"}
    )
    with pytest.raises(InputError, match="at least two people"):
        audit_humans(log)
