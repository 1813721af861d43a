"""The house holds: who may import whom, what an import costs, what is public, how errors are drawn."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import biaslab as bl
from biaslab import errors

PACKAGE = Path(bl.__file__).parent
FRAMES_ONLY = {"errors", "stats", "published"}
ALLOWED = {
    "checks": {"errors"},
    "errors": {"core"},
    "core": {"errors", "datasets"},  # the schema, for type checking only
    "datasets": {"errors", "stats"},
    "prompts": {"errors", "datasets", "scales"},  # both for type checking only
    "scales": {"errors"},
    "parsing": {"core", "errors", "scales"},
    "stats": {"core", "errors"},
    "ranking": {"core", "errors", "scoring", "stats"},
    "scoring": {
        "core",
        "datasets",
        "errors",
        "judges",
        "parsing",
        "prompts",
        "scales",
        "stats",
    },  # judges: loading models
    "probes": {"core", "datasets", "errors", "parsing", "prompts", "ranking", "scales", "scoring", "stats"},
    "judges": {
        "core",
        "datasets",
        "distill",
        "errors",
        "judgements",
        "parsing",
        "prompts",
        "scales",
    },  # distill: evaluators by name
    "distill": {
        "collect",
        "core",
        "datasets",
        "errors",
        "judges",
        "prompts",
        "scales",
        "scoring",
        "stats",
        "store",
    },  # collect: rewards of candidates
    "store": {"core", "errors"},
    "cost": {"core", "errors", "store", "datasets"},
    "budget": {"core", "errors", "cost"},
    "kept": {"errors"},
    "collect": {"core", "errors", "store", "datasets", "budget", "cost"},
    "pilot": {"core", "errors", "datasets", "stats", "collect", "judges"},
    "rounds": {"collect", "core", "cost", "datasets", "errors", "judges", "pilot", "store"},
    "planning": {"core", "errors", "datasets", "store", "cost", "pilot", "rounds"},
    "published": {"errors"},
    "judgements": {"core", "datasets", "errors", "parsing", "scales", "stats"},
    "audit": {"datasets", "errors", "judgements", "probes", "stats"},
    "calibration": {"collect", "core", "datasets", "errors", "judges", "probes", "stats"},
    "metrics": {"core", "probes"},
    "plots": FRAMES_ONLY | {"metrics"},
    "report": FRAMES_ONLY | {"core", "metrics", "plots"},
}


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "biaslab":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        if isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("biaslab."))


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_dependencies_point_one_way(part):
    files = [PACKAGE / f"{part}.py"] if (PACKAGE / f"{part}.py").exists() else sorted((PACKAGE / part).rglob("*.py"))
    assert files
    for file in files:
        strangers = set(imports_of(file)) - ALLOWED[part] - {part, "checks"}  # these check what users give, everywhere
        assert not strangers, f"{file.name} imports {strangers}"


def test_import_is_light():
    code = "import sys, biaslab; print(*sorted(m for m in sys.modules if '.' not in m))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "biaslab" in loaded
    assert not loaded & {"torch", "openai", "matplotlib", "transformers", "pandas", "statsmodels", "seaborn"}


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
