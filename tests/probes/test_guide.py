"""The probe of the guide, put in its place as the guide says: found, short, within its bands, without another edit."""

import ast
import importlib
import io
import re
import sys
import tokenize
from pathlib import Path

import pandas as pd
import pytest

import biaslab as bl
from biaslab import calibration, probes
from biaslab.cli import main
from biaslab.probes import available, find_metric, find_probe, names

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/guides/add_a_probe.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
CODE = SNIPPETS[0]


@pytest.fixture
def in_place(tmp_path, monkeypatch):
    """The package as it is, with one file more in the folder of the probes."""
    (tmp_path / "own_texts.py").write_text(CODE, encoding="utf-8")
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(tmp_path)])
    names.cache_clear()
    importlib.invalidate_caches()
    yield
    sys.modules.pop("biaslab.probes.own_texts", None)
    names.cache_clear()


def code_lines(text):
    """How many lines hold code: neither blank nor a comment nor a docstring, which stands alone in its statement."""
    alone = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    docstrings = [node for node in alone if isinstance(node, ast.Constant)]
    documented = {line for node in docstrings for line in range(node.lineno, node.end_lineno + 1)}
    told = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spans = (range(token.start[0], token.end[0] + 1) for token in tokens if token.type not in told)
    return len({line for span in spans for line in span} - documented)


def test_guide_probe_has_45_lines_and_4_imports_at_most():
    imported = {node.module for node in ast.walk(ast.parse(CODE)) if isinstance(node, ast.ImportFrom)}
    assert len([module for module in imported if module.startswith("biaslab")]) <= 4
    assert code_lines(CODE) <= 45


def test_guide_needs_12_names_of_the_package():
    parts = [node for snippet in SNIPPETS for node in ast.walk(ast.parse(snippet))]
    imports = [node for node in parts if isinstance(node, ast.ImportFrom) and str(node.module).startswith("biaslab")]
    names = {alias.name for node in imports for alias in node.names}
    names |= {node.attr for node in parts if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "bl"}
    assert len(names) <= 12, names


def test_guide_explains_the_first_12_words_of_the_glossary():
    words = [word.removesuffix("s") for word in re.findall(r"\*\*([a-z ]+)\*\*", GUIDE)]
    rows = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("### Glossary")[2]
    glossary = re.findall(r"^\| ([a-z ]+) \|.*\|.*\|$", rows, re.MULTILINE)[1:13]
    assert {word.removesuffix("s") for word in glossary} == set(words)


@pytest.mark.usefixtures("in_place")
def test_guide_probe_is_registered_and_estimates():
    kind = find_probe("own_texts")
    assert available()["own_texts"] is kind is bl.probes.OwnTexts
    assert find_metric("own_text_gain", "own_texts").advice
    data = bl.load_dataset("graded", limit=8)
    judge = bl.SimulatedJudge(data, quality=0.5, noise=0.3, self_preference=1.0, own_system="clean")
    probe = kind(attributes=["coherence"], own="clean")
    [row] = probe.estimate(bl.collect(probe, judge, data, progress=False)).to_dict("records")
    assert row["ci_low"] > 0
    assert row["q_value"] == row["p_value"]


def test_guide_probe_has_a_verdict_a_card_and_an_axis(tmp_path, monkeypatch):
    """Where nothing is installed of it, and estimates come back from a file."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    cell = CODE.replace('"own_texts"', '"of_a_notebook"').replace("own_text_gain", "notebook_gain")
    namespace = {"__name__": "__main__"}
    exec(cell, namespace)
    kind = namespace["OwnTexts"]
    [metric] = [each for each in kind.metrics if each.name == "notebook_gain"]
    data = bl.load_dataset("graded", limit=24)
    judge = bl.SimulatedJudge(data, quality=0.5, noise=0.3, self_preference=1.0, own_system="clean")
    probe = kind(attributes=["coherence"], own="clean")
    probe.estimate(bl.collect(probe, judge, data, progress=False)).to_csv("found.csv", index=False)
    estimates = pd.read_csv("found.csv")
    [verdict] = bl.report.verdicts(estimates[estimates["metric"] == "notebook_gain"])
    assert metric.above in verdict
    assert metric.above in bl.report.card(estimates).to_markdown()
    ax = bl.plots.intervals(estimates[estimates["metric"] == "notebook_gain"])
    assert ax.get_xlabel() == metric.axis
    assert metric.null in [place for line in ax.lines for place in line.get_xdata()[:1]]
    assert find_probe("of_a_notebook") is kind


@pytest.mark.slow
@pytest.mark.usefixtures("in_place")
@pytest.mark.thorough
def test_guide_probe_keeps_error_coverage_and_power():
    found = bl.validate([find_probe("own_texts")], studies=400, contexts=[24, 100], population=3000)
    left = calibration.outside(found)
    assert left.empty, "\n".join(map(calibration.describe, left.itertuples()))
    power = found[(found["quantity"] == "power") & ~found["refusals"]].set_index("n_contexts")["estimate"]
    assert 0.4 < power[24] < power[100]


def test_probe_of_the_current_folder_is_found_by_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "import biaslab as bl\n\n\nclass Quick(bl.probes.Position):\n    name = 'quick_position'\n"
    (tmp_path / "own_probe_here.py").write_text(code)
    words = ["--judge", "simulated:position=3", "--contexts", "3", "--attribute", "coherence", "--out", "out.csv"]
    assert main(["probe", "python:own_probe_here:Quick", *words]) == 0
    assert set(pd.read_csv("out.csv")["probe"]) == {"quick_position"}
    assert main(["probe", "python:own_probe_here:code", *words]) == 2
    assert "own_probe_here" in capsys.readouterr().err
