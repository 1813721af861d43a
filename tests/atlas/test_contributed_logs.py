"""Contributions are estimated again from judgements without text; judges without verdicts of their own are refused."""

import json
import re
import shutil

import pandas as pd
import pytest

import biaslab as bl
from biaslab.atlas.estimates_table import FOLDER, contributions
from biaslab.atlas.judgements import coded
from biaslab.cli import main
from biaslab.core.errors import InputError

QUICK = bl.Resampling(n=100)
TEXT = "Nobody may publish this sentence of theirs, however long the log is."


def log(n=20):
    """Both orders of pairs of two systems, whose contexts are texts."""
    rows = [
        {"context_id": f"{TEXT} {i}", "candidate_id": first, "opponent_id": second, "judge": judge}
        | {"winner": first if first == "x" or (i + len(judge)) % 3 == 0 else second}
        for judge in ("mine", "yours!")
        for i in range(n)
        for first, second in (("x", "y"), ("y", "x"))
    ]
    return pd.DataFrame(rows)


def added(folder, source="my_pairs", made=None, licence="CC-BY-4.0", **more):
    return bl.atlas.add(log() if made is None else made, source, licence, folder, resampling=QUICK, **more)


def outcomes(folder, **more):
    found = bl.atlas.check(folder, resampling=QUICK, **more)
    return dict(zip(found["source"], found["outcome"], strict=True)), " ".join(found["why"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("atlas")
    added(place)
    added(place, "unpublished", log(30), "none")
    return place


@pytest.fixture
def own(folder, tmp_path):
    """A copy of one's own."""
    return shutil.copytree(folder, tmp_path / "own")


def test_contributions_of_the_repository_reproduce():
    """Of each contribution, in CI too; and there is nothing else in its folder."""
    found = bl.atlas.check()
    assert "different" not in set(found["outcome"]), found["why"].tolist()
    assert {file.stem for file in FOLDER.iterdir()} == {*found["source"], "README"}


@pytest.mark.slow
def test_estimates_of_licensed_judgements_reproduce(folder):
    assert sorted(file.name for file in folder.glob("*.parquet")) == ["my_pairs.parquet"]
    told, why = outcomes(folder)
    assert told == {"my_pairs": "equal", "unpublished": "not carried"}
    assert why.strip() == "judgements under the licence none are left out"


def test_judgements_hold_codes_in_place_of_texts(folder):
    written = (folder / "my_pairs.parquet").read_bytes()
    assert b"Nobody" not in written
    assert b"sentence" not in written
    rows = pd.read_parquet(folder / "my_pairs.parquet")
    assert rows["context_id"].str.fullmatch(r"c\d\d").all()
    assert set(rows["candidate_id"]) == {"x", "y"}  # systems, which win rates name
    assert "reply" not in rows


def test_people_and_texts_have_codes_and_the_order_stays():
    trials = bl.atlas.trials("summeval_experts").head(60).assign(annotators="Zoe Ada")
    trials["candidate_id"] = [f"answer {n % 30:02d} of theirs" if n % 3 else "system" for n in range(60)]
    trials["context_id"] = [f"text {n % 30:02d}" for n in range(60)]
    rows = coded(trials)
    assert set(rows["annotators"]) == {"2 1"}
    assert rows["context_id"].rank().tolist() == trials["context_id"].rank().tolist()
    kept = rows["candidate_id"] == "system"
    assert kept.tolist() == (trials["candidate_id"] == "system").tolist()
    assert rows.loc[~kept, "candidate_id"].str.fullmatch(r"t\d\d").all()
    assert rows["candidate_id"].nunique() == trials["candidate_id"].nunique()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda place: changed(place / "my_pairs.csv", "estimate", 0.01), "first_position_rate of mine: estimate"),
        (lambda place: (place / "my_pairs.parquet").unlink(), "my_pairs.parquet is missing"),
        (lambda place: pd.read_parquet(place / "my_pairs.parquet").head(9).to_parquet(place / "my_pairs.parquet"), "9"),
        *(
            pytest.param(*harm, marks=pytest.mark.slow)
            for harm in (
                (lambda place: (place / "my_pairs.csv").write_text(without_last_line(place)), "and 1 are new"),
                (lambda place: (place / "my_pairs.md").write_text("# other\n"), "my_pairs.md is not the data card"),
            )
        ),
    ],
)
def test_damaged_contribution_is_reported_as_different(own, damage, why):
    damage(own)
    told, said = outcomes(own)
    assert told["my_pairs"] == "different"
    assert why in said


@pytest.mark.slow
def test_update_rewrites_different_contributions(own):
    changed(own / "my_pairs.csv", "ci_low", 0.02)
    assert outcomes(own, update=True)[0]["my_pairs"] == "updated"
    assert outcomes(own)[0]["my_pairs"] == "equal"


HOSTILE = "<img src=x onerror=alert(1)> [a](javascript:alert(1))\n# `b`"


@pytest.mark.parametrize(
    ("part", "change"),
    [
        *(
            ("judge", change)
            for change in ({"released": "soon"}, {"reasons": "no"}, {"judge": ["a"]}, {"family": None})
        ),
        *(("source", change) for change in ({"title": 5}, {"licence": {}}, {"repository": 3})),
        *(("log", change) for change in ({"judgements": HOSTILE}, {"formats": 3}, {"digest": None})),
        *(
            ("row", change)
            for change in ({"q_value": "x"}, {"n_contexts": "inf"}, {"n_trials": ""}, {"estimate": "inf"})
        ),
    ],
)
def test_contribution_with_wrong_types_is_refused(own, part, change):
    file = own / "my_pairs.json"
    facts, table = json.loads(file.read_text()), pd.read_csv(file.with_suffix(".csv"), dtype="object")
    {"judge": facts["judges"][0], "row": {}}.get(part, facts.get(part)).update(change)
    file.write_text(json.dumps(facts))
    table.assign(**change if part == "row" else {}).to_csv(file.with_suffix(".csv"), index=False)
    with pytest.raises(InputError, match="folder"):
        bl.atlas.explorer(folder=own)


@pytest.mark.slow
def test_nothing_in_a_contribution_is_markup(own):
    from markdown_it import MarkdownIt

    file = own / "my_pairs.json"
    facts = json.loads(file.read_text())
    facts["source"] |= {"title": HOSTILE, "licence": HOSTILE, "repository": "javascript:alert(1)"}
    facts["judges"][0] |= {"family": HOSTILE, "judge": HOSTILE}
    facts["log"] |= {"digest": HOSTILE, "formats": [HOSTILE]}
    file.write_text(json.dumps(facts | {"biaslab": HOSTILE}))
    [one] = [each for each in contributions(own) if each.source["name"] == "my_pairs"]
    page = MarkdownIt("commonmark").render(one.card())
    assert set(re.findall(r"<(\w+)", page)) == {"h1", "h2", "p", "ul", "li"}
    shown = bl.atlas.explorer(folder=own).to_html()
    assert "<img" not in shown
    assert shown.count("<script") == 2


@pytest.mark.slow
def test_a_licence_that_closes_takes_the_judgements_away(own):
    added(own, licence="none", replace=True)
    assert not (own / "my_pairs.parquet").exists()
    assert outcomes(own)[0]["my_pairs"] == "not carried"


def test_a_judge_of_ties_alone_is_refused(tmp_path):
    ties = log().assign(winner="tie")
    with pytest.raises(InputError, match="all 40 judgements of mine are ties"):
        added(tmp_path, made=pd.concat([ties[ties["judge"] == "mine"], log()[lambda rows: rows["judge"] != "mine"]]))
    assert not list(tmp_path.iterdir())


def test_one_file_under_two_names_is_refused(tmp_path):
    one = log().query("judge == 'mine'")
    with pytest.raises(InputError, match="all 40 judgements of other equal those of mine"):
        added(tmp_path, made=pd.concat([one, one.assign(judge="other")]))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_estimates_without_a_test_are_read_again(tmp_path):
    """Scores alone have no q-value, and the next contribution reads the folder."""
    scores = pd.DataFrame({"context_id": [f"c{n}" for n in range(30)], "score": [1 + n % 5 for n in range(30)]})
    made = added(tmp_path, "scores", scores.assign(candidate_id="x", scale="1-5"))
    assert "q_value" not in made.estimates
    added(tmp_path)
    assert {"scores", "my_pairs"} <= set(bl.atlas.estimates(folder=tmp_path)["source"])


@pytest.mark.slow
def test_the_command_checks_a_folder(own, capsys):
    added(own, made=log(25), replace=True)
    made = bl.atlas.add(log(26), "whole", "MIT", own)
    assert main(["atlas", "check"]) == 0
    assert main(["atlas", "check", str(own)]) == 1  # with other draws than those of a quick test
    assert f"whole: {len(made.estimates)} estimates of 104 judgements, equal" in capsys.readouterr().out
    assert main(["atlas", "check", str(own), "--update"]) == 0
    assert main(["atlas", "check", str(own)]) == 0
    facts = json.loads((own / "whole.json").read_text(encoding="utf-8"))
    assert facts["log"]["carried"]
    assert main(["atlas", "check", str(own / "missing")]) == 2


def changed(file, column, by):
    rows = pd.read_csv(file)
    rows.loc[rows["metric"] == "first_position_rate", column] += by
    rows.to_csv(file, index=False)


def without_last_line(place):
    return "".join((place / "my_pairs.csv").read_text().splitlines(keepends=True)[:-1])
