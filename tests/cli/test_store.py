""""""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import main
from biaslab.cli.store import store_app
from biaslab.core import Completion, Reply
from biaslab.core.errors import InputError, StoreError, UnlabelledRepliesError
from biaslab.report.evidence import trials_of_store
from biaslab.store import Store


def test_cli_shows_exports_and_prunes(tmp_path: Path) -> None:
    run, store = CliRunner().invoke, str(tmp_path / "replies.sqlite")
    with Store(store) as file:
        for number in range(90):
            file.put(Completion(f"Say {number}."), "hash", Reply(text=str(number)))
    assert "90 replies" in run(store_app, ["info", store]).output
    out = tmp_path / "out.csv"
    assert "90 replies written" in run(store_app, ["export", store, str(out)]).output
    assert len(pd.read_csv(out)) == 90
    prune = ["prune", store, "--judge", "hash"]
    assert "90 of 90" in run(store_app, [*prune, "--dry-run"]).output
    assert run(store_app, prune, input="n\n").exit_code == 1
    assert "90 replies deleted, 0 kept" in run(store_app, [*prune, "--yes"]).output
    assert "nothing to delete" in run(store_app, prune).output
    assert isinstance(run(store_app, ["prune", store]).exception, InputError)
    missing = tmp_path / "missing.sqlite"
    assert isinstance(run(store_app, ["info", str(missing)]).exception, StoreError)
    assert not missing.exists()


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'openai', 'matplotlib', 'pandas', 'pyarrow'}"
    script = f"import sys, biaslab.store, biaslab.cli.store; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    data = bl.load_dataset("graded", limit=2)
    probe = bl.probes.Position(["fluency"], templates=[1])
    judge = bl.SimulatedJudge(data, position=1.5, noise=1)
    trials = bl.collect(probe, judge, data, store=folder / "s.sqlite", progress=False)
    trials.to_csv(folder / "trials.csv", index=False)
    asked = bl.Completion("What is <b>this</b>?")
    with bl.Store(folder / "s.sqlite") as store:
        store.put(asked, judge.id, bl.Reply(text="No idea.", finish_reason="stop"))
    return folder, trials


@pytest.mark.slow
def test_a_store_becomes_its_trials_again(study):
    folder, trials = study
    data = bl.load_dataset("graded", limit=2)
    found = trials_of_store(folder / "s.sqlite", data)
    again = found[found["probe"] == "position"].set_index("key").loc[trials["key"]]
    assert again["value"].tolist() == trials["value"].tolist()
    assert again["human_gap"].tolist() == trials["human_gap"].tolist()
    assert found["probe"].value_counts().to_dict() == {"position": len(trials), "unknown": 1}
    assert set(trials_of_store(folder / "s.sqlite", data, ["position"])["probe"]) == {"position"}
    assert set(trials_of_store(folder / "s.sqlite")["probe"]) == {"unknown"}
    assert trials_of_store(folder / "s.sqlite", data, ["source"]).empty


class Declines(bl.SimulatedJudge):
    """A judge that gives no label."""

    kinds = frozenset({Completion})

    def ask(self, requests):
        """Yield refusals."""
        yield from ((request, Reply(text="I will not.", finish_reason="stop")) for request in requests)


def test_replies_without_a_label_are_shown(tmp_path):
    data, probe = bl.load_dataset("graded", limit=4), bl.probes.Position(["fluency"], templates=[1], answer="text")
    with pytest.raises(UnlabelledRepliesError):
        bl.collect(probe, Declines(data), data, store=tmp_path / "s.sqlite", progress=False)
    found = trials_of_store(tmp_path / "s.sqlite", data, ["position"])
    assert len(found) >= 20
    assert set(found["status"]) <= {"refused", "unparsable"}


@pytest.mark.slow
def test_every_way_of_asking_is_found_again(tmp_path):
    data = bl.load_dataset("graded", limit=1)
    judge, store = bl.SimulatedJudge(data, position=1.5, noise=1), tmp_path / "s.sqlite"
    probes = [
        bl.probes.Verbosity(), bl.probes.Verbosity(answer="text"), bl.probes.Position(answer="text"),
        bl.probes.Familiarity(),
    ]  # fmt: skip
    asked = [bl.collect(probe, judge, data, store=store, progress=False) for probe in probes]
    other = bl.SimulatedJudge(data, position=0.0, noise=1)
    asked.append(bl.collect(bl.probes.Anchoring(), other, data, store=store, progress=False))
    found = trials_of_store(store, data)
    assert set(found["key"]) == set(pd.concat(asked)["key"])
    reported = set(
        zip(found["judge"], found["probe"], strict=True)
    )  # scores that several probes ask are the first one's
    assert reported >= {(judge.id, "position"), (judge.id, "familiarity"), (other.id, "anchoring")}
    assert "unknown" not in set(found["probe"])


@pytest.mark.slow
def test_trials_of_one_attribute_are_found_in_the_store(tmp_path):
    """Which some probes refuse: they asked nothing about them."""
    graded = bl.load_dataset("graded", limit=2)
    human = graded.human[graded.human["attribute"] == "coherence"]
    data = replace(graded, human=human, attributes={"coherence": graded.attributes["coherence"]})
    probe, judge = bl.probes.Position(), bl.SimulatedJudge(data, position=1.5, noise=1)
    trials = bl.collect(probe, judge, data, store=tmp_path / "s.sqlite", progress=False)
    with pytest.raises(InputError, match="at least two"):
        next(iter(bl.probes.Anchoring().design(data)))
    assert set(trials_of_store(tmp_path / "s.sqlite", data)["key"]) == set(trials["key"])


def test_page_of_saved_trials_is_self_contained(study, tmp_path, capsys):
    folder, _ = study
    out = tmp_path / "page.html"
    store = ["--store", str(folder / "s.sqlite")]
    assert main(["view", str(folder / "trials.csv"), *store, "--out", str(out), "--max", "4"]) == 0
    assert "4 of 30 cards of 60 trials written" in capsys.readouterr().out
    page = out.read_text(encoding="utf-8")
    assert page.count('<section class="card') == 4
    assert "26 less informative ones are left out" in page
    assert page.count("Which summary") == 8
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="', page)
    assert page.count("<script>") == 1


@pytest.mark.slow
def test_a_page_of_a_store_shows_what_no_probe_knows(study, tmp_path, capsys):
    folder, _ = study
    out = tmp_path / "page.html"
    assert main(["view", str(folder / "s.sqlite"), "--out", str(out)]) == 0
    message = capsys.readouterr().out
    assert "1 reply matched no prompt of a probe" in message
    page = out.read_text(encoding="utf-8")
    assert "What is &lt;b&gt;this&lt;/b&gt;?" in page
    assert "<option>position</option><option>unknown</option>" in page
    assert '<select name="outcome">' in page


@pytest.mark.slow
def test_wrong_options_are_refused_before_writing(study, tmp_path, capsys):
    folder, _ = study
    trials = str(folder / "trials.csv")
    for arguments, what in (
        ([trials, "--out", "page.pdf"], "ends in .html"),
        ([str(folder / "nothing.csv")], "an existing store"),
        ([trials, "--probe", "source"], "among position"),
        ([trials, "--attribute", "beauty"], "among fluency"),
        ([trials, "--max", "0"], "at least 1"),
        ([str(folder / "s.sqlite"), "--probe", "source"], "name the data that was judged with --dataset"),
    ):
        assert main(["view", *arguments]) == 2
        assert what in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
