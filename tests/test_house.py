"""The house holds: who may import whom, what an import costs, what is public, how errors are drawn."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core import errors

PACKAGE = Path(bl.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
#: Test files that are about models on this machine, and so may import torch as they are read.
OF_MODELS = {
    *(
        f"distill/test_{name}"
        for name in ("evaluator_judge", "reinforce", "samples", "students", "training", "weighted")
    ),
    *(
        f"judges/test_{name}"
        for name in (
            "continuous",
            "encoding",
            "generation",
            "local_thoughts",
            "memory",
            "placement",
            "prefix_tree",
            "reward",
        )
    ),
}
#: The house, floor by floor from the ground: a room may import those of lower floors.
FLOORS = (
    {"core"},
    {"stats", "prompts", "store", "datasets", "testing"},
    {"judges"},
    {"measures", "study"},
    {"probes", "distill"},
    {"correct", "logs"},
    {"report", "atlas"},
    {"figures", "calibration"},
    {"cli"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ROOMS = sorted({path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()})
#: A module, and perhaps a name in it, as text: what an import by text, or a message, names.
NAMED = re.compile(r"biaslab(\.\w+)+(:\w+)?")
#: Texts that look so: groups of entry points, and a file.
NO_MODULES = {"biaslab.metrics", "biaslab.probes", "biaslab.judges", "biaslab.references", "biaslab.toml"}

#: Files whose words people read.
TEXTS = {".py", ".md", ".ipynb", ".j2", ".toml"}


def imports_of(path):
    """Modules of the package that a file imports, wherever the statement stands: also for types, and by text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "biaslab":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("biaslab."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMED.fullmatch(node.value):
            yield from {node.value.partition(":")[0]} - NO_MODULES


def name_of(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def room_of(module):
    return [*module.split("."), "__init__"][1]


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def test_every_room_is_on_a_floor():
    assert set(ROOMS) == {*FLOOR, "__init__"}
    assert len(ROOMS) <= 20
    assert len(FLOORS) <= 10


@pytest.mark.parametrize("room", sorted(FLOOR))
def test_rooms_import_lower_floors(room):
    """But for the command line, which also takes what `import biaslab` gives; that makes no room import another."""
    for name, path in MODULES.items():
        if room_of(name) == room:
            imported = {room_of(module) for module in imports_of(path)} - {room}
            above = {each for each in imported if FLOOR.get(each, len(FLOORS)) >= FLOOR[room]}
            assert not above - ({"__init__"} if room == "cli" else set()), f"{name} imports {above}"


@pytest.mark.slow
def test_no_module_imports_itself_by_a_detour():
    """Without the faces of packages, which only hand names on."""
    faces = {name for name, path in MODULES.items() if path.stem == "__init__"}
    graph = {name: set(imports_of(path)) - faces - {name} for name, path in MODULES.items() if name not in faces}
    done = set()
    while ready := [name for name, wanted in graph.items() if name not in done and not wanted & graph.keys() - done]:
        done.update(ready)
    assert not set(graph) - done


def test_import_is_light():
    code = "import sys, biaslab; print(*sorted(m for m in sys.modules if '.' not in m))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "biaslab" in loaded
    assert not loaded & {"torch", "openai", "matplotlib", "transformers", "pandas", "statsmodels", "seaborn"}


@pytest.mark.slow
def test_reading_tests_that_need_no_model_is_light():
    """All test files but those that are about models on this machine."""
    code = "import sys, pytest; pytest.main(sys.argv[1:]); print('\\nloaded', *sys.modules)"
    options = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-m", "", "tests"]
    options += [f"--ignore=tests/{name}.py" for name in OF_MODELS]
    command = [sys.executable, "-c", code, *options]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    loaded = set(said[-1].split())
    assert sum("::" in line or ": " in line for line in said) > 100
    assert {"loaded", "pytest", "biaslab"} <= loaded
    assert not loaded & {"torch", "transformers", "ray"}


def test_everything_public_is_there():
    assert len(bl.__all__) > 15
    for name in bl.__all__:
        assert getattr(bl, name) is not None


def test_error_tree_is_drawn_as_it_is():
    drawn = [line for line in errors.__doc__.splitlines() if "──" in line]
    warned = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, UserWarning)}
    assert set(re.findall(r"(\w+) \(a UserWarning\)", errors.__doc__)) == warned
    names = {line.split("── ")[1].split()[0]: line.index("──") for line in drawn}
    defined = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.BiaslabError)}
    assert set(names) | {"BiaslabError"} == defined
    parent = {}
    for name, depth in names.items():
        while parent and depth <= list(parent.values())[-1]:
            parent.popitem()
        above = next(reversed(parent), "BiaslabError")
        assert getattr(errors, name).__bases__[0].__name__ == above
        parent[name] = depth


def test_input_errors_say_everything():
    error = errors.InputError("level", 95, "a number between 0 and 1", "write 0.95")
    assert isinstance(error, ValueError)
    assert (error.name, error.value, error.allowed, error.remedy) == (
        "level",
        95,
        "a number between 0 and 1",
        "write 0.95",
    )
    assert "x" * 500 not in str(errors.InputError("text", "x" * 500, "short text"))


def test_percent_is_written_with_a_space():
    """As in "80 % power", in every text of ours; style sheets have "width: 100%"."""
    joined = re.compile(r"(?<!%)\d%(?!\d)|:[.\d]*%\}")
    of_style = re.compile(r"\b(?:width|flex|inset|minmax|color-mix)\b[^;{]*?\d%")
    folders = ("biaslab", "docs", "notebooks", "tools", "benchmarks")
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS)
    written = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *paths]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if joined.search(of_style.sub("", line)) and path.name != "numerals.py"  # what a judge may write
    ]
    assert written == []
