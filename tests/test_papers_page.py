"""The appendix covers the four papers: every item has a row, every command there can be run, what is missing has a
reason."""

import json
import random
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from typer.main import get_command

import biaslab as bl
from biaslab import datasets
from biaslab.atlas import published
from biaslab.atlas.published import experiments
from biaslab.cli import app, main
from biaslab.cli.options import DataOptions, make_probe
from biaslab.core.checks import pairs
from biaslab.core.project import types_of
from biaslab.datasets import available, topicalchat, wmt
from biaslab.figures import list_notebooks
from biaslab.figures.regenerate import read_given
from biaslab.probes import available as probes

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
NOTEBOOKS = {path.stem: path for path in list_notebooks(ROOT / "notebooks")}
TABLE = ROOT / "docs" / "_hooks" / "data" / "papers.csv"


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
#: Parameters that change no result, or that only a reader of the page can fill.
FREE = {"judge", "dataset", "path", "seed", "store", "out", "protocol"}
#: Papers whose experiments train encoders that are not here, and what is set in their place.
SMALLER = {
    "distillation": {"encoder": "minilm-l6", "trainable": 0, "repeats": 1, "folds": 2, "metrics": "BLEU"},
    "reward": {
        "encoder": "smollm2-135m", "other_encoder": "minilm-l6", "evaluator_layers": 0, "pooling": "last", "layer": 2,
        "generator": "smollm2-135m", "n_samples": 2, "samples_per_source": 2, "sources_per_step": 1, "steps": 1,
        "max_tokens": 4, "trainable": 1, "rescorer": "smollm2-135m",
    },
    "baselines": {"encoder": "none"},
    "sweep": {"temperatures": "0,1", "samples": 2},
    "recipe": {"rival_steps": "aspects"},
    "output_order": {"replicates": 5},
}  # fmt: skip
#: What the papers print of their experiments, read from their text once more: parameters of all of a paper's notebooks.
PRINTED = {
    "liusie2024": {"n_contexts": None, "n_pairs": None, "n_comparisons": None, "temperature": 1.0},
    "stureborg2024": {"n_contexts": None, "n_candidates": None, "answer": "text", "samples": 10, "temperature": 1.0},
    "wang2023": {
        "n_contexts": None, "pooling": "cls", "n_samples": 50, "samples_per_source": 5, "balance": 0.7,
        "scale": "stars", "trainable": "all", "evaluator_layers": "all", "sentences": None, "decoder": None,
    },
    "chen2024": {"forms": ["ex", "json"], "orders": ["s", "sr", "rs"], "scale": "1-10", "wording": "printed"},
}  # fmt: skip
#: The same of single items; notebooks call Stureborg's N = 10 samples by two names.
PRINTED_OF = {
    ("liusie2024", "Table 1"): {"templates": [1, 2]},
    ("liusie2024", "Table 5"): {"templates": [1, 2]},
    ("liusie2024", "Table 6"): {"strategy": "full", "ranked_by": "win-ratio", "both_templates": True},
    ("liusie2024", "Table 8"): {"attributes": ["coherence"]},
    ("liusie2024", "Figure 4"): {
        "attributes": ["coherence"],
        "strategies": ["random", "no-repeat", "symmetric"],
        "decoding": "win-ratio",
        "draws": 50,
    },
    ("liusie2024", "Figure 5"): {"draws": 50},
    ("stureborg2024", "Table 1"): {"replicates": 10, "humans": "single", "sources": True},
    ("stureborg2024", "Table 2"): {"scales": ["1-5", "1-5 words", "1-5 float", "1-10", "1-100"]},
    ("stureborg2024", "Figure 3"): {"scales": ["1-100"]},
    ("stureborg2024", "Table 3"): {"replicates": 10, "scale": "1-10"},
    ("stureborg2024", "Figure 4"): {"attributes": ["coherence", "consistency", "fluency", "relevance"]},
    ("stureborg2024", "Table 4"): {"replicates": 10, "joint": False},
    ("stureborg2024", "Table E"): {"replicates": 10, "joint": True, "scales": ["1-5", "1-10", "1-100"]},
    ("stureborg2024", "Table 5"): {"replicates": 10, "coefficients": ["kendall"]},
    ("stureborg2024", "Table 6"): {"scale": "1-10", "steps": "protocol", "rival_steps": "written", "samples": 10},
    ("stureborg2024", "Figure 6"): {"cot": [False, True]},
    ("wang2023", "Table 1"): {
        "encoder": "roberta-large",
        "task": "summarization",
        "answer": "text",
        "loss": "regression",
    },
    ("wang2023", "Table 2"): {
        "encoder": "xlm-roberta-large",
        "task": "translation",
        "aspects": ["multiple"],
        "loss": "regression",
    },
    ("wang2023", "Table 3"): {"inputs": "reference-free", "steps": 8000, "tuned_on": "reference-based"},
    ("wang2023", "Table 5"): {"inputs": "reference-free", "steps": 4000, "tuned_on": "reference-based"},
    ("chen2024", "Table 2"): {"n_contexts": 25, "replicates": 10},
    ("chen2024", "Figure 1"): {"n_contexts": 1, "replicates": 50, "rules": [True]},
    ("chen2024", "Figure 2"): {"n_contexts": 1, "replicates": 50, "rules": [False]},
}


class Row(NamedTuple):
    paper: str
    item: str
    code: str
    notebook: str
    commands: tuple[str, ...]
    state: str


def rows():
    """Return the rows of the table; a command has its words of the shell filled in, which the page sets."""
    told = dict(re.findall(r'^([A-Z]+)="(.*)"$', PAGE, re.M))
    for paper, item, code, notebook, command, state in pd.read_csv(TABLE).itertuples(index=False):
        plain = re.sub(r"\$([A-Z]+)", lambda name: told[name[1]], command)
        yield Row(paper, item, code, notebook, tuple(re.findall(r"`([^`]+)`", plain)), state)


ROWS = list(rows())
COMMAND = get_command(app)
COMMANDS = sorted({command for row in ROWS for command in row.commands})
OF_PROBES = [command for command in COMMANDS if command.split()[1] == "probe"]
OF_NOTEBOOKS = [command for command in COMMANDS if command.split()[1] == "figures"]
OF_PAPERS = [command for command in COMMANDS if command.split()[1] == "paper"]
EXPERIMENTS = [each for paper in PAPERS for each in experiments(paper)]


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
def test_every_row_has_a_state_and_incomplete_ones_a_reason(row):
    state, _, reason = row.state.partition(": ")
    assert state in ("whole", "partial", "not built")
    assert (len(reason.split()) > 2) == (state != "whole"), "a reason where something is missing, and only there"
    assert row.notebook == "–" or row.notebook in NOTEBOOKS
    assert row.code != "–" or state == "not built", "name what makes it"
    assert not row.commands or row.notebook != "–"
    for referred in re.findall(r"\bas ((?:Table|Figure|Eq\.|App\.) [\w.]*\w)", f"{row.code} {reason}"):
        assert referred in PAPERS[row.paper]


def command_names(name, given):
    """Return the notebooks or the probe that a command runs."""
    if name == "paper":
        return {each.notebook for each in experiments(given["name"], given["item"])}
    return {given["name"]} if name == "probe" else set(given["only"])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_existing_data_sets_and_options(command):
    name, given = parsed(command)
    dataset = given["dataset"] or "graded"
    plain, written = datasets.split_name(dataset)
    assert plain in available()
    datasets.read_options(plain, bl.datasets._loader(plain), written)
    if name == "paper":
        assert len({each.dataset for each in experiments(given["name"], given["item"], given["dataset"])}) == 1
    elif name == "probe":
        assert given["name"] in probes()
        make_probe(given["name"], given["attribute"], None, given["param"])
    else:
        [notebook] = given["only"]
        read_given([NOTEBOOKS[notebook]], pairs(given["param"], "param", "NAME=VALUE"))
    assert DataOptions(dataset).name() == dataset


def test_a_command_stands_in_the_row_of_its_notebook():
    for row in ROWS:
        for command in row.commands:
            assert row.notebook in command_names(*parsed(command)), f"{row.item}: {command}"


def test_whole_items_use_published_files_and_paper_settings():
    for row in ROWS:
        named = [parsed(command) for command in row.commands]
        if row.state == "whole":
            assert all(name == "paper" or not given["path"] for name, given in named), row.item
        for name, given in named:
            assert name != "paper" or (given["name"], given["item"]) == (row.paper, row.item)
    items = {(each.paper, item) for each in EXPERIMENTS for item in each.items}
    assert items == {(row.paper, row.item) for row in ROWS if any(" paper " in command for command in row.commands)}


@pytest.mark.parametrize("each", EXPERIMENTS, ids=lambda each: f"{each.paper} {each.items[0]} {each.dataset}")
def test_experiment_states_all_settings_as_printed(each):
    effective = read_given([NOTEBOOKS[each.notebook]], each.settings)
    assert set(effective) == set(types_of(NOTEBOOKS[each.notebook])) - FREE
    assert set(each.not_stated) <= set(effective)
    printed = PRINTED[each.paper] | {}
    for item in each.items:
        printed |= PRINTED_OF.get((each.paper, item), {})
    for name in printed.keys() & effective.keys() - set(each.not_stated):
        assert effective[name] == printed[name], name


def test_every_printed_setting_is_compared_with_some_experiment():
    for (paper, item), printed in PRINTED_OF.items():
        assert any(set(printed) <= set(each.settings) for each in experiments(paper, item)), item


#: Tables whose data sets are called in `biaslab.atlas.published` as here.
OF_KNOWN_SETS = [
    row
    for row in ROWS
    if row.paper in ("liusie2024", "stureborg2024") and row.item.startswith("Table ") and row.commands
]


@pytest.mark.parametrize("row", OF_KNOWN_SETS, ids=lambda row: f"{row.paper} {row.item}")
def test_a_table_has_a_command_for_every_data_set_of_its_columns(row):
    printed = published.load(row.paper).query("table == @row.item.removeprefix('Table ')")["dataset"]
    asked = {str(parsed(command)[1]["dataset"]).partition("?")[0].removesuffix("_2017") for command in row.commands}
    assert set(printed) - {""} <= asked


def summeval_file(folder, contexts=4, candidates=4):
    rating = ["coherence", "consistency", "fluency", "relevance"]
    records = [
        {"id": f"d{n}", "model_id": f"M{k}", "decoded": f"Text {k} of {n} says less.", "text": f"Text {n} says all."}
        | {"references": [f"Text {n}."]}
        | {f"{who}_annotations": [dict.fromkeys(rating, 1 + (n + k + a) % 5) for a in range(3)] for who in PEOPLE}
        for n in range(contexts)
        for k in range(candidates)
    ]
    return written_lines(folder / "summeval.jsonl", records)


PEOPLE = ("expert", "turker")


def written_lines(file, records):
    file.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return file


def topicalchat_file(folder, contexts=4, candidates=4):
    names = topicalchat.SCALES
    records = [
        {"source": f"Hello {n}.", "context": f"Fact {n}.", "system_id": f"S{k}", "system_output": f"Answer {k}, {n}."}
        | {"scores": {name: low + (n + k) % 3 / 2 * (high - low) for name, (low, high) in names.items()}}
        for n in range(contexts)
        for k in range(candidates)
    ]
    (folder / "topical.json").write_text(json.dumps(records), encoding="utf-8")
    return folder / "topical.json"


def podcast_file(folder, contexts=4, candidates=4):
    records = [
        {"transcript": f"We talk of {n}.", "summary": f"Talk {k} of {n}.", "score": (n + k) % 4, "system_id": k}
        | {"episode_id": f"e{n}"}
        for n in range(contexts)
        for k in range(candidates)
    ]
    (folder / "podcast.json").write_text(json.dumps(records), encoding="utf-8")
    return folder / "podcast.json"


def rose_file(folder, contexts=4, candidates=4):
    records = [
        {"example_id": f"x{n}", "source": f"Text {n} says all.", "reference": f"Text {n}.", "count_id": n}
        | {"system_outputs": {f"S{k}": f"Summary {k} of {n}." for k in range(candidates)}}
        | {"annotations": {f"S{k}": {"acu": (n + k) % 4 / 4, "normalized_acu": 0.5} for k in range(candidates)}}
        for n in range(contexts)
    ]
    return written_lines(folder / "rose.jsonl", records)


def wmt_file(folder, contexts=4, candidates=4):
    cells = [
        (pair, f"Text {n}.", f"Satz {k}, {n}.", f"Satz {n}.", -(n + k), f"S{k}", 2022)
        for pair in ("en-de", "en-ru", "zh-en")
        for n in range(contexts)
        for k in range(candidates)
    ]
    pd.DataFrame(cells, columns=[*wmt.COLUMNS, "year"]).to_csv(folder / "mqm.csv", index=False)
    return folder / "mqm.csv"


TEAMS = ["adapt", "melbourne", "vietnam", "webnlg", "baseline", "pkuwriter", "tilburg-smt", "tilburg-nmt", "upf-forge"]


def webnlg_2017_file(folder, contexts=4, candidates=4):
    head = ["id", "mr", "team", "text", "meteor", "fluency", "grammar", "semantics"]
    cells = [
        (n, f"X{n} | likes | Y", team, f"Text {k} of {n}.", k / 4, *(1 + (n + k + a) % 3 for a in range(3)))
        for n in range(contexts)
        for k, team in enumerate(TEAMS[:candidates])
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


#: Contexts and candidates of the published files.
SIZES = {
    "summeval": (100, 16),
    "topicalchat": (60, 6),
    "podcast": (179, 20),
    "rose": (500, 12),
    "webnlg_2017": (223, 9),
}


def small(command, folder):
    """Return the words of a command, of a simulated judge and a small constructed file in place of a published one."""
    words = [word.replace("=docs/", f"={ROOT}/docs/") for word in [*shlex.split(command)[1:], "--contexts", "4"]]
    for place, word in enumerate(words):
        if word == "--judge":
            words[place + 1] = "simulated:noise=1,context_noise=0.5"
        if word == "--path":
            dataset = words[words.index("--dataset") + 1].partition("?")[0]
            words[place + 1] = str(FILES[dataset](folder))
    if words[0] == "paper":
        for notebook in {each.notebook for each in experiments(words[1], words[2])}:
            words += [word for name, value in SMALLER.get(notebook, {}).items() for word in ("-p", f"{name}={value}")]
    return words


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", OF_PROBES)
def test_a_command_of_a_probe_runs(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*small(command, tmp_path), "--out", "found.csv"]) == 0, capsys.readouterr().err
    assert pd.read_csv("found.csv")["estimate"].notna().any()


def one_each(commands):
    """Keep one command of each experiment: items of one experiment have the same settings."""
    kept = {}
    for command in commands:
        _, given = parsed(command)
        found = experiments(given["name"], given["item"], given["dataset"])
        kept.setdefault(tuple((each.notebook, each.dataset, *each.settings.items()) for each in found), command)
    return list(kept.values())


@pytest.mark.thorough
@pytest.mark.parametrize("command", [*OF_NOTEBOOKS, *one_each(OF_PAPERS)])
def test_a_command_of_a_notebook_runs(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(small(command, tmp_path)) == 0, capsys.readouterr().err
    for name in command_names(*parsed(command)):
        for estimates in Path("figures").rglob(f"{name}__estimates.csv"):
            assert pd.read_csv(estimates)["estimate"].notna().any()
            assert list(estimates.parent.glob(f"{name}__*.png"))
        assert list(Path("figures").rglob(f"{name}__estimates.csv"))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_table_6_commands_print_the_average_of_ten_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [row] = [row for row in ROWS if (row.paper, row.item) == ("liusie2024", "Table 6")]
    for command in row.commands:
        assert main(small(command, tmp_path)) == 0, capsys.readouterr().err
    *_, last = sorted(Path("figures").rglob("comparative__by_attribute.csv"), key=lambda file: file.stat().st_mtime)
    rho = pd.read_csv(last).query("remedy == 'none'").set_index("attribute")["estimate"]
    columns = rho.drop("Avg.")
    assert len(columns) == 10
    assert not any("semantics" in name for name in columns.index)
    assert rho["Avg."] == pytest.approx(columns.mean())


DRAWN = random.Random(11).sample([each for each in one_each(OF_PAPERS) if "wang2023" not in each], 10)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", DRAWN)
def test_a_drawn_command_runs_with_all_contexts(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)[1:]
    words[words.index("--judge") + 1] = "simulated:noise=1,context_noise=0.5"
    if "--path" in words:
        name = words[words.index("--dataset") + 1].partition("?")[0]
        words[words.index("--path") + 1] = str(FILES[name](tmp_path, *SIZES[name]))
    given = parsed(command)[1]
    if any(each.notebook == "baselines" for each in experiments(given["name"], given["item"])):
        words += ["-p", "encoder=none"]  # RoBERTa is not here
    if any(each.notebook == "recipe" for each in experiments(given["name"], given["item"])):
        words += ["-p", "rival_steps=aspects"]  # a simulated judge writes no steps
    assert main(words) == 0, capsys.readouterr().err
    for name in command_names(*parsed(command)):
        [estimates, *_] = Path("figures").rglob(f"{name}__estimates.csv")
        assert pd.read_csv(estimates)["estimate"].notna().any()


@pytest.mark.slow
def test_an_experiment_runs_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    judge = "simulated:position=1,noise=1,context_noise=0.5"
    words = ["paper", "liusie2024", "table-5", "--dataset", "graded", "--contexts", "6", "--judge", judge]
    assert main([*words, "-p", "templates=1"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "n_pairs=none" in said
    assert "templates=1," in said
    [estimates] = Path("figures").rglob("position__estimates.csv")
    rates = pd.read_csv(estimates).query("metric == 'first_position_rate' and human_gap.isna()")
    assert (rates["n_contexts"] == 6).all()
    assert (rates["estimate"] > 0.5).all()


def test_a_wrong_item_or_data_set_of_a_paper_is_named(capsys):
    assert main(["paper", "liusie2024", "Table 12"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert main(["paper", "liusie2024", "Table 9"]) == 2
    assert "choose one: --dataset 'summeval'" in capsys.readouterr().err
    assert main(["paper", "wang2023"]) == 0
    assert "Table 5: reward on summeval" in capsys.readouterr().out
