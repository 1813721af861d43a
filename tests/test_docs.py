"""The documentation is true: its code runs and prints what it says, every probe has a page, links lead somewhere.

Where numbers changed for a good reason, ``BIASLAB_WRITE_DOCS=1 pytest tests/test_docs.py`` writes the new ones into the
pages; read the difference. Output may be shortened with "…".
"""

import contextlib
import doctest
import io
import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import NamedTuple

import matplotlib.pyplot as plt
import pytest
import typer

import biaslab as bl
from biaslab.calibration.table import render
from biaslab.cli import app, main
from biaslab.probes import available

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.M | re.S)
OUTPUT = re.compile(r"\n+```text\n(.*?)^```$", re.M | re.S)
NAME = re.compile(r"`(?:bl|biaslab)((?:\.\w+)+)")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#[^)\s]*)?\)")
SECTIONS = ("How it is measured", "How to read it", "The remedy", "The paper", "Try it")
WRITE = bool(os.environ.get("BIASLAB_WRITE_DOCS"))
#: What a block may need that is not there in a test; it begins with a comment, "# needs a server".
NEEDS = {"a server", "a model", "a published data set", "Inspect"}
FETCHED = re.compile(r'<(?:script|img|iframe)[^>]* src="https?:[^"]+"|<link rel="stylesheet" href="https?:[^"]+"')
#: What only the embedded model can do, which takes half a minute to load: such blocks are run by the slow tests.
EMBEDDED = '"encoder": "smollm2-135m"'


class Block(NamedTuple):
    """A block of code of a page, and what the page says that it prints; None if it says nothing."""

    language: str
    code: str
    output: str | None
    line: int

    @property
    def needs(self):
        first = self.code.split("\n", 1)[0]
        return first.removeprefix("# needs ").rstrip(".") if first.startswith("# needs ") else ""


def blocks(page):
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        said = OUTPUT.match(text, found.end())
        yield Block(found[1], found[2], said and said[1], text.count("\n", 0, found.start()) + 1)


def executed(block, page, namespace):
    """Run a block and return what it prints. The embedded judge is too slow here, so a simulated one sits in for it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if block.language == "python":
            code = block.code.replace("bl.LocalJudge()", "bl.SimulatedJudge(data, position=1.0)")
            exec(compile("\n" * block.line + code, str(page), "exec"), namespace)
        else:
            for command in commands(block):
                printed.write(f"$ {command}\n")
                assert main(shlex.split(command, comments=True)[1:]) == 0, command
    return printed.getvalue()


def commands(block):
    """Return the commands of a console block, those that go on in the next line put together."""
    return re.findall(r"^\$ (.+)$", block.code.replace("\\\n", ""), re.M)


def is_run(block):
    """Python, and sessions in a console all of whose commands are ours."""
    if block.language == "console":
        return all(command.startswith("biaslab ") for command in commands(block)) and not block.needs
    return block.language == "python" and not block.needs


def same(said, printed):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(said.replace("…", "..."), printed, flags)


def rewritten(text, block, printed):
    """Return a page with what a block really prints."""
    code = f"```{block.language}\n{block.code}```"
    if block.language == "console":
        shown = re.match(r"(\$ (?:.*\\\n)*.*\n)+", block.code)[0]
        return text.replace(code, f"```console\n{shown}{printed.split(chr(10), 1)[1]}```")
    old = "" if block.output is None else f"\n\n```text\n{block.output}```"
    return text.replace(code + old, f"{code}\n\n```text\n{printed}```")


#: Pages that the site has and the repository does not.
DATA = DOCS / "_hooks" / "data"
APPENDICES = tomllib.loads((DATA / "appendix.toml").read_text("utf-8"))


def named(page):
    return page.relative_to(ROOT).as_posix()


#: Pages whose examples are studies of half a second and more; README and the pages of most biases are quick.
LONG = {"remedies", "panels", "compare", "calibration", "add_a_probe", "plan", "show", "tutorial", "correct", "cite"}
LONG |= {"atlas", "one_answer", "which_probe", "edits", "write_a_judge", "recorded", "leaderboard"}
LONG |= {"edit", "inheritance", "template", "vacuum", "verbosity"}
SIMULATED = [
    pytest.param(page, False, id=named(page), marks=[pytest.mark.slow] if page.stem in LONG else []) for page in PAGES
]
SLOW = [
    pytest.param(page, True, id=f"{named(page)}-embedded", marks=pytest.mark.slow)
    for page in PAGES
    if EMBEDDED in page.read_text(encoding="utf-8")
]


@pytest.mark.parametrize(("page", "embedded"), [*SIMULATED, *SLOW])
def test_code_of_pages_runs_and_prints_the_stated_output(page, embedded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DOCS / "assets", tmp_path / "docs" / "assets")
    namespace, text = {"__name__": f"docs_{page.stem}"}, page.read_text(encoding="utf-8")
    for block in blocks(page):
        if page == README:
            namespace = {"__name__": "readme"}  # each block can be copied and runs alone
        if not is_run(block) or (EMBEDDED in block.code and not embedded):
            continue
        printed = executed(block, page, namespace)
        said = re.sub(r"\\\n", "", block.code) if block.language == "console" else block.output
        if (said is None and (not printed or page == README)) or (said is not None and same(said, printed)):
            continue
        assert WRITE, f"{page}:{block.line} prints\n{printed}"
        text = rewritten(text, block, printed)
    plt.close("all")
    if WRITE:
        page.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=named)
def test_commands_of_pages_exist_with_their_options(page):
    """Those that are not run, because they need a file, a server or a model."""
    lines = [line for block in blocks(page) if block.language == "bash" for line in block.code.split("\n")]
    for line in "\n".join(lines).replace("\\\n", "").split("\n"):
        if line.startswith("biaslab "):
            command = typer.main.get_command(app)
            words = shlex.split(re.sub(r"\$[A-Z]+", "", line), comments=True)[1:]
            while hasattr(command, "commands"):
                _, command, words = command.resolve_command(typer.Context(command), words)
            command.make_context(command.name, words)


def test_at_most_10_percent_of_code_blocks_are_skipped():
    found = [block for page in PAGES for block in blocks(page) if block.language == "python"]
    left_out = [block.needs for block in found if block.needs]
    assert len(found) > 30
    assert set(left_out) <= NEEDS
    assert len(left_out) <= 0.1 * len(found), left_out


@pytest.mark.parametrize("name", sorted(available()))
def test_every_probe_has_a_page(name):
    page = DOCS / "biases" / f"{name}.md"
    assert page.is_file(), f"write docs/biases/{name}.md: what the bias is, and the sections {', '.join(SECTIONS)}"
    text = page.read_text(encoding="utf-8")
    missing = [title for title in SECTIONS if f"\n## {title}\n" not in text]
    assert not missing, f"{page.name} lacks the sections {missing}"
    assert "<!-- metrics -->" in text, f"{page.name} lacks <!-- metrics -->, which becomes the table of its metrics"
    code = [block for block in blocks(page) if block.language == "python" and block.output]
    kind = available()[name].__name__
    assert any(f"bl.probes.{kind}(" in block.code for block in code), f"{page.name} lacks an example with its output"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_and_names_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in filter(None, LINK.findall(text)):
        made = ROOT / target.removeprefix("../") if "figures/" in target else page.parent / target
        appendix = made.parent.name == "appendix" and made.stem in APPENDICES
        assert appendix or made.exists(), f"{page.name} links {target}, which is not there"
    for name in NAME.findall(text):
        pkgutil.resolve_name(f"biaslab{name}")


@pytest.mark.slow
def test_names_in_docstrings_exist():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    other = {*groups, "biaslab.toml", "biaslab.minutes", "biaslab.ApiJudge.faults"}  # files, metadata, a field
    wrong = []
    for path in sorted((ROOT / "biaslab").rglob("*.py")):
        for name in {f"biaslab{rest}" for rest in NAME.findall(path.read_text(encoding="utf-8"))} - other:
            try:
                pkgutil.resolve_name(name)
            except (ImportError, AttributeError):
                wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert not wrong


def test_every_public_part_has_a_reference():
    parts = {path.parent.name for path in (ROOT / "biaslab").glob("*/__init__.py")}
    written = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").rglob("*.md"))
    marked = set(re.findall(r"biaslab\.(\w+)", " ".join(re.findall(r"<!-- (?:public|pages): (.+) -->", written))))
    for part in tomllib.loads((DATA / "reference.toml").read_text("utf-8")).values():
        marked |= {name.split(".")[1] for name in part.get("pages", []) + part.get("public", [])}
    missing = sorted(parts - marked)
    assert not missing, f"add [{missing[0]}] with public = [...] to docs/_hooks/data/reference.toml"


def test_guides_list_each_page_once():
    """They are the navigation: the site is not built if one is missing."""
    text = (DOCS / "guides" / "index.md").read_text(encoding="utf-8")
    listed = [(DOCS / "guides" / target).resolve().relative_to(DOCS) for target in LINK.findall(text)]
    folders = {page.parent for page in listed if page.name == "index.md"} | {Path("reference")}
    wanted = {page.relative_to(DOCS) for page in DOCS.rglob("*.md")} - {Path("index.md"), Path("guides/index.md")}
    wanted = {page for page in wanted if not {*page.parents} & folders or page in listed}
    assert sorted(listed) == sorted(wanted)


@pytest.mark.parametrize(
    "words",
    [
        *("Kappa", "TPR", "Drift", "Flaky", "Calibration", "Ground truth", "Retired judge", "Decision model"),
        *("Win rate", "Temperature 0", "Position bias", "Accuracy", "Ceiling"),
    ],
)
def test_terms_lead_to_a_page(words):
    text = (DOCS / "guides" / "terms.md").read_text(encoding="utf-8")
    [meaning] = re.findall(rf"^[^:\n]*\b{words}\b[^:\n]*(?:: [^\n]*)?\n:   (.+(?:\n    .+)*)", text, re.M)
    assert LINK.search(meaning)


def test_rows_of_a_validation_become_data():
    hook = run_path(str(DOCS / "_hooks" / "appendix.py"))
    found = bl.validate([bl.probes.Position], ["first_position_rate"], studies=5, contexts=[8], population=40)
    rows = hook["read_page"](render(found, "biaslab validate", date(2026, 1, 31)))
    assert [row[:4] for row in rows] == [["judge", "position", "first_position_rate", "exact"]]
    assert len(rows[0]) == len(hook["rows"]("calibration")[0])


@pytest.mark.slow
@pytest.mark.thorough
def test_a_type_checker_accepts_the_readme(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: pip install '.[check]'")
    code = "\n".join(block.code for block in blocks(README) if block.language == "python")
    (tmp_path / "readme.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "readme.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "readme.py" not in done.stdout, done.stdout


def test_completion_lists_the_probes():
    assert {kind.__name__ for kind in available().values()} <= set(dir(bl.probes))


def test_readme_is_short_and_begins_with_a_useful_example():
    text = README.read_text(encoding="utf-8")
    assert len(text.encode()) <= 9_000
    commands = [line for block in blocks(README) if block.language == "bash" for line in block.code.splitlines()]
    first = [line.split("  ")[0] for line in commands if not line.startswith(("pip ", "python3 -m venv "))]
    assert first == ["biaslab audit judgements.jsonl", "make figures"]


def test_home_has_an_install_command_and_the_ways_in():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    top = text[: text.index("![")]
    for command in ("pip install .", "biaslab audit", "make lab", "biaslab notebooks copy", "make figures"):
        assert command in top, command


def test_every_extra_that_pages_install_is_declared():
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])
    named = {
        extra
        for page in PAGES
        for extras in re.findall(r"(?:'\.|\.whl)\[([\w,]+)\]", page.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert {"all", "local", "notebooks"} <= named <= declared


def test_the_gallery_has_every_notebook_once():
    text = (DOCS / "notebooks" / "index.md").read_text(encoding="utf-8")
    shown = [name for mark in re.findall(r"<!-- notebooks: (.+) -->", text) for name in mark.split(", ")]
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("installed", [True, False])
def test_downloaded_notebook_installs_what_is_missing(installed, tmp_path, monkeypatch):
    import nbformat
    from IPython.core.inputtransformer2 import TransformerManager

    hook = run_path(str(DOCS / "_hooks" / "notebooks.py"))
    notebook = nbformat.reads(hook["downloadable"]("position"), as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[2:] == nbformat.read(ROOT / "notebooks" / "position.ipynb", as_version=4).cells[1:]
    (tmp_path / "biaslab-0.1.0-py3-none-any.whl").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if installed else None)
    asked = []
    shell = SimpleNamespace(run_line_magic=lambda name, line: asked.append((name, line)))
    exec(TransformerManager().transform_cell(notebook.cells[1].source), {"get_ipython": lambda: shell})
    wheel = ("pip", 'install --quiet "{source}[all]"')
    assert asked[:1] == ([] if installed else [wheel])


def test_pages_show_existing_notebooks():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = re.findall(r"<!-- notebook: (.+) -->", pages)
    assert len(shown) > 5
    assert not [name for name in shown if not (ROOT / "notebooks" / f"{name}.ipynb").exists()]


def test_the_api_at_a_glance_has_every_name():
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    named = {name.split(".")[1] for name in NAME.findall(text)}
    assert named == {*bl.__all__}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_picture_has_alternative_text(page):
    pictures = re.findall(r"!\[(.*?)\]\(", FENCE.sub("", page.read_text(encoding="utf-8")))
    assert all(len(words.split()) > 2 for words in pictures)


@pytest.mark.slow
@pytest.mark.thorough
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install '.[docs]'")
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES) - 2
    listed = LINK.findall((tmp_path / "llms.txt").read_text(encoding="utf-8"))
    whole = {page.relative_to(tmp_path).as_posix() for page in pages if 'class="md-content"' in page.read_text("utf-8")}
    assert sorted(listed) == sorted(whole - {"404.html"})
    found = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    for words in ("kappa", "TPR", "drift", "flaky", "ground truth", "retired judge", "decision model", "win rate"):
        assert any(words.lower() in f"{each['title']} {each['text']}".lower() for each in found), words
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert not FETCHED.findall(html), page.name
        assert str(ROOT) not in html
        assert "<!-- " not in re.sub(r"<pre.*?</pre>", "", html, flags=re.S), page.name
    require_reference(tmp_path / "reference")


def require_reference(site):
    """Every probe, and every command with its arguments and options, is on a page of its own."""
    for kind in available().values():
        html = (site / "probes" / f"{kind.__module__.rpartition('.')[2]}.html").read_text(encoding="utf-8")
        assert f'id="{kind.__module__}.{kind.__qualname__}"' in html
    root = typer.main.get_command(app)
    for name, command in root.commands.items():
        html = (site / "cli" / f"{name}.html").read_text(encoding="utf-8")
        for one in (command, *getattr(command, "commands", {}).values()):
            for parameter in one.params:
                option = parameter.param_type_name == "option"
                shown = parameter.opts[-1] if option else (parameter.metavar or parameter.name)
                assert shown in html, f"{name} lacks {shown}"
