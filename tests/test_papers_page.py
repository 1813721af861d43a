"""docs/papers.md covers the four papers: every item has a row, every command there can be run, what is missing has a
reason."""

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from typer.main import get_command

import biaslab as bl
from biaslab.atlas import published
from biaslab.cli import app, main
from biaslab.cli.options import make_probe, name_dataset
from biaslab.core.written import pairs
from biaslab.datasets import _name_options, available, wmt
from biaslab.figures import list_notebooks
from biaslab.figures.regenerate import read_given
from biaslab.probes import available as probes

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
NOTEBOOKS = {path.stem: path for path in list_notebooks(ROOT / "notebooks")}
HEAD = ["item", "code", "notebook", "command", "state"]


def numbered(name, last, first=1):
    return [f"{name} {number}" for number in range(first, last + 1)]


#: What each paper holds; tables are also those of which `biaslab.atlas.published` has numbers.
PAPERS = {
    "liusie2024": [
        *numbered("Table", 11), *numbered("Figure", 5), *numbered("Eq.", 13), *numbered("App. A.", 3), "App. B",
    ],
    "stureborg2024": [
        *numbered("Table", 6), "Table E", *numbered("Figure", 11), *(f"App. {letter}" for letter in "ABCD"),
    ],
    "wang2023": [*numbered("Table", 12), *numbered("Figure", 6), *numbered("Eq.", 9), *numbered("App.", 3)],
    "chen2024": [*numbered("Table", 2), *numbered("Figure", 2)],
}  # fmt: skip
PAPERS["liusie2024"] = [item.replace("A. ", "A.") for item in PAPERS["liusie2024"]]
#: Notebooks whose commands are not run, with the reason: all of them run with other settings in test_notebooks.
TOO_LONG = {
    "baselines": "an encoder reads every text for BERTScore, 35 to 47 s a command",
    "distillation": "an encoder and a decoder read every text, minutes",
    "output_order": "fifty trials of each of six configurations, 40 s a command",
    "reward": "a language model writes and is trained, minutes",
    "sweep": "texts at five temperatures for four attributes, 33 s",
}
#: Of those, what is run all the same, and with which settings in place of a command's own.
RUN_SMALLER = {"wang2023": ("Table 2", "Table 3")}
SMALLER = {
    "distillation": {"repeats": 1, "folds": 2},
    "reward": {
        "n_samples": 2, "samples_per_source": 2, "sources_per_step": 1, "steps": 1, "max_tokens": 4, "trainable": 1,
        "rescorer": "smollm2-135m",
    },
}  # fmt: skip


class Row(NamedTuple):
    paper: str
    item: str
    code: str
    notebook: str
    commands: tuple[str, ...]
    state: str


def rows():
    """Return the rows of all tables of the page; a command has its words of the shell filled in."""
    told = dict(re.findall(r'^([A-Z]+)="(.*)"$', PAGE, re.M))
    for section in re.split(r"^## ", PAGE, flags=re.M)[1:]:
        [paper] = re.findall(r'bl\.published\.load\("(\w+)"\)', section)
        table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
        head, _, *lines = [[cell.strip() for cell in cells] for cells in table]
        assert head == HEAD
        for line in lines:
            assert len(line) == len(HEAD), line
            item, code, notebook, command, state = line
            plain = re.sub(r"\$([A-Z]+)", lambda name: told[name[1]], command)
            yield Row(paper, item, code, notebook, tuple(re.findall(r"`([^`]+)`", plain)), state)


ROWS = list(rows())
COMMAND = get_command(app)
COMMANDS = sorted({command for row in ROWS for command in row.commands})
OF_PROBES = [command for command in COMMANDS if command.split()[1] == "probe"]
OF_NOTEBOOKS = [command for command in COMMANDS if command.split()[1] == "figures"]


def parsed(command):
    """Return the name of a command and its options, read by the command line itself."""
    program, name, *words = shlex.split(command)
    assert program == "biaslab"
    return name, COMMAND.get_command(None, name).make_context(name, words).params


@pytest.mark.parametrize("paper", PAPERS)
def test_every_item_of_a_paper_has_a_row(paper):
    items = [row.item for row in ROWS if row.paper == paper]
    assert sorted(items) == sorted(set(items))
    assert set(items) == set(PAPERS[paper])
    assert {f"Table {table}" for table in published.load(paper)["table"]} <= set(items)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.paper} {row.item}")
def test_every_row_has_a_state_and_what_is_missing_a_reason(row):
    state, _, reason = row.state.partition(": ")
    assert state in ("whole", "partial", "not built")
    assert (len(reason.split()) > 2) == (state != "whole"), "a reason where something is missing, and only there"
    assert row.notebook == "–" or row.notebook in NOTEBOOKS
    assert row.code != "–" or state == "not built", "name what makes it"
    assert not row.commands or row.notebook != "–"
    for referred in re.findall(r"\bas ((?:Table|Figure|Eq\.|App\.) [\w.]*\w)", f"{row.code} {reason}"):
        assert referred in PAPERS[row.paper]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_what_there_is(command):
    name, given = parsed(command)
    assert name in ("probe", "figures")
    dataset = given["dataset"] or "graded"
    plain, written = _name_options.split_name(dataset)
    assert plain in available()
    _name_options.read_options(plain, bl.datasets._loader(plain).load, written)
    if name == "probe":
        assert given["name"] in probes()
        make_probe(given["name"], given["attribute"], None, given["param"])
    else:
        [notebook] = given["only"]
        read_given([NOTEBOOKS[notebook]], pairs(given["param"], "param", "NAME=VALUE"))
    assert name_dataset(dataset, None, None, None, None) == dataset


@pytest.mark.slow
def test_a_command_stands_in_the_row_of_its_notebook():
    for row in ROWS:
        for command in row.commands:
            name, given = parsed(command)
            made = {given["name"]} if name == "probe" else set(given["only"])
            assert row.notebook in made, f"{row.item}: {command}"


def summeval_file(folder):
    rating = ["coherence", "consistency", "fluency", "relevance"]
    records = [
        {"id": f"d{n}", "model_id": f"M{k}", "decoded": f"Text {k} of {n} says less.", "text": f"Text {n} says all."}
        | {"references": [f"Text {n}."]}
        | {f"{who}_annotations": [dict.fromkeys(rating, 1 + (n + k + a) % 5) for a in range(3)] for who in PEOPLE}
        for n in range(4)
        for k in range(4)
    ]
    return written_lines(folder / "summeval.jsonl", records)


PEOPLE = ("expert", "turker")


def written_lines(file, records):
    file.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return file


def topicalchat_file(folder):
    names = bl.datasets._loader("topicalchat").SCALES
    records = [
        {"source": f"Hello {n}.", "context": f"Fact {n}.", "system_id": f"S{k}", "system_output": f"Answer {k}, {n}."}
        | {"scores": {name: low + (n + k) % 3 / 2 * (high - low) for name, (low, high) in names.items()}}
        for n in range(4)
        for k in range(4)
    ]
    (folder / "topical.json").write_text(json.dumps(records), encoding="utf-8")
    return folder / "topical.json"


def podcast_file(folder):
    records = [
        {"transcript": f"We talk of {n}.", "summary": f"Talk {k} of {n}.", "score": (n + k) % 4, "system_id": k}
        | {"episode_id": f"e{n}"}
        for n in range(4)
        for k in range(4)
    ]
    (folder / "podcast.json").write_text(json.dumps(records), encoding="utf-8")
    return folder / "podcast.json"


def rose_file(folder):
    records = [
        {"example_id": f"x{n}", "source": f"Text {n} says all.", "reference": f"Text {n}.", "count_id": n}
        | {"system_outputs": {f"S{k}": f"Summary {k} of {n}." for k in range(4)}}
        | {"annotations": {f"S{k}": {"acu": (n + k) % 4 / 4, "normalized_acu": 0.5} for k in range(4)}}
        for n in range(4)
    ]
    return written_lines(folder / "rose.jsonl", records)


def wmt_file(folder):
    cells = [
        (pair, f"Text {n}.", f"Satz {k}, {n}.", f"Satz {n}.", -(n + k), f"S{k}")
        for pair in ("en-de", "en-ru", "zh-en")
        for n in range(4)
        for k in range(4)
    ]
    pd.DataFrame(cells, columns=list(wmt.COLUMNS)).to_csv(folder / "mqm.csv", index=False)
    return folder / "mqm.csv"


def webnlg_2017_file(folder):
    head = ["id", "mr", "team", "text", "meteor", "fluency", "grammar", "semantics"]
    cells = [
        (n, f"X{n} | likes | Y", team, f"Text {k} of {n}.", k / 4, *(1 + (n + k + a) % 3 for a in range(3)))
        for n in range(4)
        for k, team in enumerate(["adapt", "melbourne", "vietnam", "webnlg"])
    ]
    pd.DataFrame(cells, columns=head).to_csv(folder / "webnlg.csv", index=False)
    return folder / "webnlg.csv"


FILES = {
    "webnlg_2017": webnlg_2017_file,
    "summeval": summeval_file,
    "topicalchat": topicalchat_file,
    "podcast": podcast_file,
    "rose": rose_file,
    "wmt": wmt_file,
}


def small(command, folder):
    """Return the words of a command, of a simulated judge and a small constructed file in place of a published one."""
    words = shlex.split(command)[1:]
    for place, word in enumerate(words):
        if word == "--judge":
            words[place + 1] = "simulated:noise=1,context_noise=0.5"
        if word == "--path":
            dataset = words[words.index("--dataset") + 1].partition("?")[0]
            words[place + 1] = str(FILES[dataset](folder))
    return [*words, "--contexts", "4"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", OF_PROBES)
def test_a_command_of_a_probe_runs(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*small(command, tmp_path), "--out", "found.csv"]) == 0, capsys.readouterr().err
    assert pd.read_csv("found.csv")["estimate"].notna().any()


@pytest.mark.thorough
@pytest.mark.parametrize("command", [each for each in OF_NOTEBOOKS if parsed(each)[1]["only"][0] not in TOO_LONG])
def test_a_command_of_a_notebook_runs(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(small(command, tmp_path)) == 0, capsys.readouterr().err
    [name] = parsed(command)[1]["only"]
    [estimates] = Path("figures").rglob(f"{name}__estimates.csv")
    assert pd.read_csv(estimates)["estimate"].notna().any()
    assert list(estimates.parent.glob(f"{name}__*.png"))


@pytest.mark.thorough
@pytest.mark.parametrize("item", [f"{paper} {item}" for paper, items in RUN_SMALLER.items() for item in items])
def test_a_long_command_runs_with_smaller_settings(item, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [row] = [row for row in ROWS if f"{row.paper} {row.item}" == item]
    words = small(row.commands[0], tmp_path)
    for name, value in SMALLER[row.notebook].items():
        own = [place for place, word in enumerate(words) if word.startswith(f"{name}=")]
        for place in reversed(own):
            del words[place - 1 : place + 1]
        words += ["-p", f"{name}={value}"]
    assert main(words) == 0, capsys.readouterr().err
    [estimates] = Path("figures").rglob(f"{row.notebook}__estimates.csv")
    assert pd.read_csv(estimates)["estimate"].notna().any()


@pytest.mark.slow
def test_what_is_not_run_is_on_the_page():
    assert set(TOO_LONG) <= {parsed(command)[1]["only"][0] for command in OF_NOTEBOOKS}
