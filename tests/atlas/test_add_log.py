"""A log becomes a contribution to the atlas: estimates of its judge and a data card, no text, nothing twice."""

import json
import shutil

import pandas as pd
import pytest

import biaslab as bl
from biaslab.atlas import estimates_table, release_trend
from biaslab.cli import main
from biaslab.core.errors import InputError, UnreadableLogError

QUICK = bl.Resampling(n=100)
TEXT = "Nobody may publish this sentence of theirs, however long the log is."


def log(n=20, won=lambda i, first: first == "x"):
    """Both orders of pairs whose texts are somebody's."""
    rows = [
        {"question": f"{TEXT} {i}", "answer_a": f"{first} {TEXT} {i}", "answer_b": f"{second} {TEXT} {i}"}
        | {"winner": "A" if won(i, first) or i % 3 == 0 else "B"}
        for i in range(n)
        for first, second in (("x", "y"), ("y", "x"))
    ]
    return pd.DataFrame(rows)


def added(folder, source="my_pairs", judge="my-judge", made=None, **more):
    facts = {"title": "Twenty pairs", "family": "Mine", "released": "2026-01", "reasons": True} | more
    licence = facts.pop("licence", "CC-BY-4.0")
    return bl.atlas.add(log() if made is None else made, source, licence, folder, judge, resampling=QUICK, **facts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("atlas")
    added(place)
    return place


def test_estimates_are_those_of_an_audit(folder):
    ours = bl.atlas.estimates("position", "first_position_rate", "my-judge", folder=folder)
    audit = bl.audit(log(), only=["position"], resampling=QUICK)
    [theirs] = audit[audit["metric"] == "first_position_rate"].to_dict("records")
    assert ours[["source", "dataset"]].to_numpy().tolist() == [["my_pairs", "my_pairs"]]
    for name in ("estimate", "ci_low", "ci_high", "n_contexts"):
        assert ours[name].item() == pytest.approx(theirs[name], rel=1e-5)
    assert len(bl.atlas.estimates(folder=folder)) > len(bl.atlas.estimates())
    with pytest.raises(InputError, match="my-judge"):
        bl.atlas.estimates(judge="my-judge")


def test_no_text_is_written(folder):
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["my_pairs.csv", "my_pairs.json", "my_pairs.md", "my_pairs.parquet"]
    written = "".join(file.read_bytes().decode("utf-8", "replace") for file in files)
    assert not [word for word in (TEXT, "Nobody", "sentence", "theirs") if word in written]
    facts = json.loads((folder / "my_pairs.json").read_text(encoding="utf-8"))
    assert (facts["schema"], facts["log"]["judgements"], facts["log"]["contexts"]) == (1, 40, 20)
    assert facts["judges"] == [{"judge": "my-judge", "family": "Mine", "released": "2026-01", "reasons": True}]
    card = (folder / "my_pairs.md").read_text(encoding="utf-8")
    assert "Licence: CC-BY-4.0" in card
    assert "Judgements: 40, 40 of them readable" in card


@pytest.mark.slow
def test_a_label_that_may_be_a_text_is_refused(tmp_path):
    for label in (TEXT, "=cmd()", "two\nlines"):
        with pytest.raises(InputError, match="labels"):
            added(tmp_path, made=log().assign(subset=label, template=label), mapping={"template": "template"})
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_same_judgements_are_added_once(folder, tmp_path):
    shuffled = log().sample(frac=1, random_state=0)
    with pytest.raises(InputError, match="already in the atlas, under the name my_pairs"):
        added(folder, source="others", judge="other-name", made=shuffled)
    with pytest.raises(InputError, match="not yet in"):
        added(folder)
    own = tmp_path / "own"
    shutil.copytree(folder, own)
    added(own, made=log(24), replace=True)
    assert json.loads((own / "my_pairs.json").read_text(encoding="utf-8"))["log"]["contexts"] == 24


@pytest.mark.slow
def test_a_log_of_the_atlas_is_not_new(tmp_path):
    rows = bl.atlas.trials("mt_bench", "gpt-4-0613").query("dataset == 'mt_bench'")
    with pytest.raises(InputError, match="gpt-4-0613 from mt_bench"):
        bl.atlas.add(rows, "mine", "MIT", tmp_path, "my-judge")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "beginning"),
    [
        ({"licence": "CC-BY"}, "licence"),
        ({"licence": "All rights reserved"}, "licence"),
        ({"source": "mt_bench"}, "source"),
        ({"source": "../mine"}, "source"),
        ({"repository": "javascript:alert(1)"}, "repository"),
        ({"released": "January"}, "released"),
        ({"judge": {"nobody": "me"}}, "judge"),
        ({"made": log(3)}, "no metric can be estimated"),
    ],
)
def test_invalid_arguments_are_refused_before_writing(tmp_path, wrong, beginning):
    with pytest.raises(InputError, match=f"^{beginning} "):
        added(tmp_path, **wrong)
    assert not list(tmp_path.iterdir())


def test_a_log_that_is_mostly_unread_is_refused(tmp_path):
    with pytest.raises(UnreadableLogError):
        added(tmp_path, made=bl.atlas.trials("null_model").assign(status="unparsable"))


def test_damaged_files_are_refused(folder, tmp_path):
    def broken(json_text=None, csv_text=None):
        place = tmp_path / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place)
        if json_text is not None:
            (place / "my_pairs.json").write_text(json_text(facts.copy()), encoding="utf-8")
        if csv_text is not None:
            (place / "my_pairs.csv").write_text(csv_text, encoding="utf-8")
        with pytest.raises(InputError) as refused:
            bl.atlas.estimates(folder=place)
        return str(refused.value)

    facts = json.loads((folder / "my_pairs.json").read_text(encoding="utf-8"))
    table = (folder / "my_pairs.csv").read_text(encoding="utf-8")
    assert "schema 1" in broken(lambda one: json.dumps(one | {"schema": 2}))
    assert "JSON" in broken(lambda one: json.dumps(one)[:-3])
    assert "source" in broken(lambda one: json.dumps(one | {"source": {"name": "else"}}))
    assert "columns" in broken(csv_text="judge\nme\n")
    assert "numbers" in broken(csv_text=table.replace("0.", "zero.", 1))
    assert "labels" in broken(csv_text=table.replace("my-judge", "=1+1"))
    with pytest.raises(InputError, match="folder"):
        bl.atlas.estimates(folder=tmp_path / "missing")


def test_contributed_log_becomes_part_of_the_atlas(folder, monkeypatch):
    """Also in an installed package, whose folder this is."""
    monkeypatch.setattr(estimates_table.contributions, "__defaults__", (folder,))
    for kept in (estimates_table._read, release_trend._of_the_atlas):
        kept.cache_clear()
    try:
        assert "my-judge" in set(bl.atlas.estimates(source="my_pairs")["judge"])
        assert bl.atlas.released().set_index("judge").loc["my-judge", "released"] == "2026-01"
        assert bl.atlas.sources().set_index("source").loc["my_pairs", "licence"] == "CC-BY-4.0"
    finally:
        for kept in (estimates_table._read, release_trend._of_the_atlas):
            kept.cache_clear()


def test_a_trend_dates_the_judges_of_a_folder(folder):
    rates = bl.atlas.estimates(metric="first_position_rate", breakdowns=False, folder=folder)
    rates = bl.stats.without_breakdowns(rates, "subset").drop_duplicates(["source", "judge"])
    assert "my-judge" in set(rates["judge"])
    alone, with_mine = bl.atlas.trend(rates), bl.atlas.trend(rates, folder=folder)
    assert with_mine["n"].iloc[0] == alone["n"].iloc[0] + (rates["judge"] == "my-judge").sum()
    assert bl.atlas.released(folder).set_index("judge").loc["my-judge", "family"] == "Mine"
    assert "my-judge" not in set(bl.atlas.released()["judge"])
    with pytest.raises(InputError, match="folder"):
        bl.atlas.trend(rates, folder=folder / "missing")


@pytest.mark.slow
def test_the_explorer_shows_a_folder(folder):
    page = bl.atlas.explorer(folder=folder).to_html()
    assert '"name":"my-judge","reasons":"yes","family":"Mine","released":"2026-01"' in page
    assert '"title":"Twenty pairs","licence":"CC-BY-4.0"' in page


@pytest.mark.slow
def test_one_command_adds_a_log(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log(30).to_json("log.jsonl", orient="records", lines=True)
    command = ["atlas", "add", "log.jsonl", "--judge", "me", "--source", "mine", "--licence", "none"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "can be estimated" in said
    assert "atlas/mine.json" in said
    assert "not dated, so not in plots by release: me (--released MONTH --family NAME)" in said
    assert main(command) == 2
    assert main([*command, "--source", "others"]) == 2
