"""The house holds: who may import whom, what an import costs, what is public, how errors are drawn."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import biaslab as bl
from biaslab import errors

PACKAGE = Path(bl.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
#: Test files that are about models on this machine, and so may import torch as they are read.
OF_MODELS = {
    *(f"distill/test_{name}" for name in ("evaluator_judge", "reinforce", "samples", "training", "weighted")),
    *(f"judges/test_{name}" for name in ("encoding", "generation", "memory", "placement", "prefix_tree")),
}
ROOMS = sorted({path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()})
#: Every room with the rooms that it may import, from the ground up; those of `OPEN` are open to all.
OPEN = {"errors", "checks", "checked", "kinds", "kind_words", "output", "progress", "project", "written"}
ALLOWED = {
    "__init__": {"parameters"},
    "parameters": set(),
    "errors": set(),
    "checks": set(),
    "checked": set(),
    "kinds": set(),
    "kind_words": set(),
    "output": set(),
    "progress": set(),
    "project": {"parameters"},
    "written": set(),
    "scales": set(),
    "core": set(),
    "published": set(),
    "stats": set(),
    "datasets": set(),
    "edits": set(),
    "prompts": {"scales"},
    "parsing": {"core", "scales"},
    "store": {"core"},
    "trials": set(),
    "spending": {"core", "store"},
    "collecting": {"core", "judges", "spending", "store", "trials"},
    "collect": {"collecting", "core", "spending", "store"},
    "judgements": {"core", "datasets", "parsing", "scales"},
    "judges": {"core", "datasets", "judgements", "parsing", "prompts", "scales"},
    "scoring": {"core", "datasets", "judges", "parsing", "prompts", "scales", "stats"},
    "ranking": {"core", "scoring", "stats"},
    "probes": {"core", "datasets", "edits", "parsing", "prompts", "ranking", "scales", "scoring", "stats", "trials"},
    "mitigation": {"core", "ranking", "stats"},
    "planning": {"collect", "core", "datasets", "judges", "spending", "stats", "store"},
    "correct": {"core", "probes", "scales", "stats"},
    "calibration": {"collect", "core", "correct", "datasets", "judges", "probes", "stats"},
    "audit": {"core", "datasets", "judgements", "probes", "ranking", "scoring", "stats"},
    "atlas": {"audit", "core", "datasets", "judgements", "judges", "probes", "published", "stats"},
    "distill": {"collect", "core", "datasets", "judges", "prompts", "scales", "scoring", "stats", "store"},
    "comparing": {"core", "stats"},
    "plots": {"comparing", "core", "stats"},
    "report": {"comparing", "core", "plots", "stats"},
    "evidence": {"collect", "core", "datasets", "judgements", "probes", "ranking", "scales", "stats", "store"},
    "figures": {"core", "datasets", "judges", "parameters", "report", "store"},
    "cli": set(ROOMS),
}


def imports_of(path, typing_too=False):
    """Modules of the package that a file imports when it runs, wherever the statement stands."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    skipped = set() if typing_too else {id(inner) for node in guarded for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").split(".")[0] == "biaslab"
            and id(node) not in skipped
        ):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        if isinstance(node, ast.Import) and id(node) not in skipped:
            yield from (alias.name for alias in node.names if alias.name.startswith("biaslab."))


def name_of(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def room_of(module):
    return [*module.split("."), "__init__"][1]


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def test_every_room_is_on_the_plan():
    assert set(ROOMS) == set(ALLOWED)


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_dependencies_point_one_way(room):
    for name, path in MODULES.items():
        if room_of(name) == room:
            strangers = {room_of(module) for module in imports_of(path)} - ALLOWED[room] - {room} - OPEN
            if room != "cli":
                assert not strangers, f"{name} imports {strangers}"


@pytest.mark.slow
def test_no_module_imports_itself_by_a_detour():
    """Without the faces of packages, which only hand names on."""
    faces = {name for name, path in MODULES.items() if path.stem == "__init__"}
    graph = {name: set(imports_of(path)) - faces - {name} for name, path in MODULES.items() if name not in faces}
    done = set()
    while ready := [name for name, wanted in graph.items() if name not in done and not wanted - done]:
        done.update(ready)
    assert not set(graph) - done


def test_no_two_rooms_share_a_file_name():
    found = {}
    for name, path in MODULES.items():
        found.setdefault(path.stem.lstrip("_"), set()).add(room_of(name))
    shared = {stem: rooms for stem, rooms in found.items() if len(rooms - {"cli"}) > 1 and stem != "init__"}
    assert not shared


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
