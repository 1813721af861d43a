"""The house holds: who may import whom, what an import costs, what is public, how errors are drawn."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Collection
from functools import cache
from pathlib import Path
from statistics import median

import pytest

import biaslab as bl
from biaslab.core import errors

PACKAGE = Path(bl.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
#: Test files that are about models on this machine, and so may import torch as they are read.
OF_MODELS = {
    *(f"distill/test_{name}" for name in ("evaluator_judge", "reinforce", "samples", "training")),
    *(
        f"judges/test_{name}"
        for name in ("encoding", "generation", "local_thoughts", "placement", "prefix_tree", "reward")
    ),
}
#: The house, floor by floor from the ground: a room may import those of lower floors.
FLOORS = (
    {"core"},
    {"stats", "prompts", "store", "datasets", "testing"},
    {"judges"},
    {"measures", "study"},
    {"probes", "distill"},
    {"logs"},
    {"correct", "report"},
    {"figures", "calibration", "atlas"},
    {"cli"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ROOMS = sorted({path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()})
#: A module, and perhaps a name in it, as text: what an import by text, or a message, names.
NAMED = re.compile(r"biaslab(\.\w+)+(:\w+)?")
#: Texts that look so: groups of entry points, and a file.
NO_MODULES = {"biaslab.metrics", "biaslab.probes", "biaslab.judges", "biaslab.references", "biaslab.toml"}

#: The most that each measure may be: a number, a share in percent, or how many of these there are.
GOALS = {
    "modules": 270,  # with those of `replace`, `joint`, `robustness`, `synthesis`, early stops and frozen studies
    "code lines": 53_070,  # shrinks to 46,000 with later issues; all that came since on top
    "modules under 40 code lines": 25,  # without the faces of packages
    "modules over 600 code lines": 0,
    "import statements, % of code lines": 9.5,
    "one-statement functions, % of functions": 22,
    "median code lines of a function": 10,
    "functions over 80 code lines": 0,
    "public classes and aliases of several definitions": 0,
    "functions and classes @checked": 0,
    "import hooks": 0,
    "core dependencies": 16,
    "bytes of README.md": 9_216,
    "bytes of CHANGELOG.md": 8_192,
    "test names over 60 characters": 20,
    "test names that are riddles": 20,
    "test files": 230,
    "pages under docs": 60,
    "words of pages under docs": 46_900,  # with guides to `joint`, `robustness` and studies fixed beforehand
    "names that public packages show and do not own": 0,
}
#: The least that the median of the code lines of modules may be: modules are concepts, not fragments.
LEAST_MEDIAN = 120

#: How columns, fields and variables are called that hold sentences of the package.
SENTENCES = {
    *(
        "note",
        "notes",
        "method",
        "reason",
        "reasons",
        "sentence",
        "sentences",
        "verdict",
        "standing",
        "hedge",
        "headline",
    ),
    *("diagnosis", "compared"),
}
#: Rooms that read what judges write.
OF_REPLIES = {"prompts"}
#: Calls that read something out of a text, as functions of `re`, or as methods of texts, patterns and ``Series.str``.
OF_PATTERNS = {"search", "match", "fullmatch", "findall", "finditer", "split"}
OF_TEXTS = {
    *("startswith", "endswith", "partition", "rpartition", "rsplit", "splitlines", "find", "rfind"),
    *("removeprefix", "removesuffix", "contains", "extract", "extractall", "replace", "count", *OF_PATTERNS),
}
#: Calls whose result is the same text or a part of it, so that ``str(record.get("note") or "").lower()`` is a sentence.
OF_SAME_TEXT = OF_TEXTS | {"str", "fillna", "dropna", "astype", "unique", "tolist", "get", "lower", "strip", "join"}

#: Files whose words people read.
TEXTS = {".py", ".md", ".ipynb", ".j2", ".toml"}


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path):
    """Modules of the package that a file imports, wherever the statement stands: also for types, and by text."""
    for node in ast.walk(tree_of(path)):
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
    assert len(FLOOR) <= 18
    assert len(FLOORS) <= 9


@pytest.mark.slow
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
def test_audit_of_verdicts_loads_quickly():
    """Half of the time of an audit of few verdicts was that of these imports."""
    code = "import sys; from biaslab.cli import main; main(sys.argv[1:]); print('loaded', *sys.modules)"
    command = [sys.executable, "-c", code, "audit", "docs/assets/verdicts.csv"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    loaded = set(said[-1].split())
    assert {"loaded", "biaslab.probes.verbosity"} <= loaded
    assert not loaded & {"scipy.stats", "scipy.optimize", "statsmodels", "matplotlib", "torch"}


@pytest.mark.slow
def test_probe_loads_at_most_50_modules_of_the_package():
    code = "import sys, biaslab.probes.position; print(*(m for m in sys.modules if m.partition('.')[0] == 'biaslab'))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "biaslab.probes.position" in loaded
    assert len(loaded) <= 50


@pytest.mark.thorough
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


@cache
def statements(path):
    """All statements of a module, those in functions, classes and branches too."""
    found = [*tree_of(path).body]
    for node in found:  # grows while it is read
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            found += getattr(node, field, ())
    return found


def docstring_of(node):
    """The statement that is the docstring of a module, class or function, in a list; an empty list without one."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return node.body[:1] if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None else []


def lines_of(nodes):
    return {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)}


@cache
def code_lines(path):
    """Numbers of the lines that are not blank, a comment, or of a docstring."""
    documented = [line for node in [tree_of(path), *statements(path)] for line in docstring_of(node)]
    lines = enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
    return {i for i, line in lines if line.strip() and not line.strip().startswith("#")} - lines_of(documented)


def functions():
    """Each function of the package: where it is, its statements and the number of code lines that they take."""
    for name, path in MODULES.items():
        for node in statements(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[len(docstring_of(node)) :]
                yield f"{name}.{node.name}", body, len(lines_of(body) & code_lines(path))


def imported_lines(path):
    return code_lines(path) & lines_of(
        node for node in statements(path) if isinstance(node, ast.Import | ast.ImportFrom)
    )


def public_types(path):
    """Public classes and aliases that a module defines; an alias is a name such as ``Floats``."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        targets = getattr(node, "targets", [getattr(node, "target", getattr(node, "name", None))])
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and re.fullmatch(r"[A-Z][a-z]\w*", targets[0].id):
            yield targets[0].id


def defined_twice():
    where = defaultdict(set)
    for module, path in MODULES.items():
        for name in public_types(path):
            where[name].add(module)
    return {name: sorted(modules) for name, modules in sorted(where.items()) if len(modules) > 1}


def decorated_or_derived(word):
    """Functions and classes with a decorator or a base whose name has the word."""
    for name, path in MODULES.items():
        for node in statements(path):
            above = [*getattr(node, "decorator_list", ()), *getattr(node, "bases", ())]
            if any(re.search(word, ast.unparse(each)) for each in above):
                yield f"{name}.{node.name}"


def shown_and_not_owned():
    """Names that the faces of rooms import from elsewhere without hiding them from `dir`."""
    for room in ROOMS:
        face = MODULES.get(f"biaslab.{room}")
        if face is None or face.stem != "__init__" or "attach_stub" in face.read_text(encoding="utf-8"):
            continue
        body = tree_of(face).body
        if any(isinstance(node, ast.FunctionDef) and node.name == "__dir__" for node in body):
            continue
        for node in body:
            source = getattr(node, "module", None) or ""
            if isinstance(node, ast.Import | ast.ImportFrom) and not source.startswith(("biaslab", "__future__")):
                names = [alias.asname or alias.name for alias in node.names]
                yield from (f"{room}.{name}" for name in names if not name.startswith("_"))


def measured():
    """What `GOALS` bounds: numbers, or the things to count."""
    sizes = {name: len(code_lines(path)) for name, path in MODULES.items()}
    faces = {name for name, path in MODULES.items() if path.stem in ("__init__", "__main__")}
    parts = list(functions())
    branching = (ast.If, ast.For, ast.With, ast.Try, ast.While, ast.Match)
    single = [name for name, body, _ in parts if len(body) == 1 and not isinstance(body[0], branching)]
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [name for path in tests for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))]
    riddle = re.compile(
        r"^test_(what|who|nobody|nothing|those|that|where|which)_"
        r"|_(is|are)_(said|told|taken|left)(_|$)|_(told|said)(_|$)"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    imported = sum(len(imported_lines(path)) for path in MODULES.values())
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return {
        "modules": len(sizes),
        "code lines": sum(sizes.values()),
        "modules under 40 code lines": [name for name in sizes if sizes[name] < 40 and name not in faces],
        "modules over 600 code lines": [name for name in sizes if sizes[name] > 600],
        "import statements, % of code lines": round(100 * imported / sum(sizes.values()), 1),
        "one-statement functions, % of functions": round(100 * len(single) / len(parts), 1),
        "median code lines of a function": median(size for *_, size in parts),
        "functions over 80 code lines": [name for name, _, size in parts if size > 80],
        "public classes and aliases of several definitions": defined_twice(),
        "functions and classes @checked": list(decorated_or_derived("checked")),
        "import hooks": list(decorated_or_derived(r"(MetaPathFinder|Loader)$")),
        "core dependencies": project["dependencies"],
        "bytes of README.md": (ROOT / "README.md").stat().st_size,
        "bytes of CHANGELOG.md": (ROOT / "CHANGELOG.md").stat().st_size,
        "test names over 60 characters": [name for name in names if len(name) > 60],
        "test names that are riddles": [name for name in names if riddle.search(name)],
        "test files": len(tests),
        "pages under docs": pages,
        "words of pages under docs": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
        "names that public packages show and do not own": list(shown_and_not_owned()),
    }


@pytest.mark.slow
def test_package_keeps_its_measures():
    found = measured()
    assert set(found) == set(GOALS)
    values = {name: len(each) if isinstance(each, Collection) else each for name, each in found.items()}
    missed = [name for name, goal in GOALS.items() if values[name] > goal]
    assert not missed, "\n".join(f"{name}: {values[name]}, at most {GOALS[name]}: {found[name]}" for name in missed)


@pytest.mark.slow
def test_median_module_has_120_code_lines():
    assert round(median(len(code_lines(path)) for path in MODULES.values())) >= LEAST_MEDIAN


def is_sentence(node, known):
    """Whether an expression is a sentence of the package: it has such a name, or it is taken from what has one."""
    match node:
        case ast.Name(name):
            return name in known
        case ast.Attribute(inner, name):
            return name in SENTENCES or (name == "str" and is_sentence(inner, known))
        case ast.Subscript(inner, index):
            return is_named(index) or is_sentence(inner, known)
        case ast.Call(ast.Name(name), args):
            return name in SENTENCES or (name == "str" and any(is_sentence(each, known) for each in args))
        case ast.Call(ast.Attribute(inner, name), args):
            named = name == "get" and any(map(is_named, args))
            return named or (name in OF_SAME_TEXT and any(is_sentence(each, known) for each in (inner, *args)))
        case ast.BoolOp(_, parts):
            return any(is_sentence(each, known) for each in parts)
        case ast.IfExp(_, first, second):
            return is_sentence(first, known) or is_sentence(second, known)
        case ast.NamedExpr(_, inner) | ast.GeneratorExp(inner) | ast.ListComp(inner):
            return is_sentence(inner, known)
    return False


def is_named(node):
    return isinstance(node, ast.Constant) and node.value in SENTENCES


def is_column(node):
    """Whether an expression is a sentence in a row or frame, as ``row["note"]`` and ``record.get("note", "")``."""
    match node:
        case ast.Subscript(_, index):
            return is_named(index)
        case ast.Call(ast.Attribute(_, "get"), [index, *_]):
            return is_named(index)
    return False


def sentences_in(nodes):
    """Names of variables that hold sentences, as in ``text = str(row["note"])`` and ``for part in note.split()``."""
    known = set(SENTENCES)
    bound = []
    for node in nodes:
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.NamedExpr(ast.Name(name), value):
                bound.append((name, value))
            case ast.For(ast.Name(name), value) | ast.comprehension(ast.Name(name), value):
                bound.append((name, value))
    while more := {name for name, value in bound if is_sentence(value, known)} - known:
        known |= more
    return known


def is_parsed(node, known):
    """Whether an expression reads something out of a sentence; whether there is one may be asked."""
    match node:
        case ast.Call(ast.Attribute(_, name), args) if name in OF_PATTERNS and any(is_sentence(a, known) for a in args):
            return True
        case ast.Call(ast.Attribute(inner, name)) if name in OF_TEXTS:
            return is_sentence(inner, known)
        case ast.Compare(_, [ast.In() | ast.NotIn()], [text]):
            return is_sentence(text, known - {"notes", "reasons"})  # these may be collections of them
        case ast.Compare(one, [ast.Eq() | ast.NotEq()], [other]):
            empty = any(isinstance(each, ast.Constant) and each.value == "" for each in (one, other))
            return not empty and (is_column(one) or is_column(other))
    return False


def parsed_sentences(tree):
    """Expressions of a module that read something out of a sentence of the package, with their lines."""
    for part in tree.body:
        nodes = list(ast.walk(part))
        names = {getattr(node, "id", getattr(node, "attr", getattr(node, "value", None))) for node in nodes} & SENTENCES
        known = sentences_in(nodes) if names else names
        for node in nodes:
            if names and isinstance(node, ast.Call | ast.Compare) and is_parsed(node, known):
                yield f"{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize(
    "code",
    [
        're.search("above ([0-9]+)", note)',
        'FEW.match(str(row["note"] or ""))',
        '"tipping" in record.get("note", "")',
        'row["method"] == EXACT',
        'rows["method"].str.startswith(EXACT)',
        '[part for part in "; ".join(estimate.note for estimate in all_of_them).split("; ")]',
        'def code(estimate):\n    text = estimate.note.lower()\n    return text.partition(": ")',
        '[clause.removeprefix("tipping point") for clause in reasons]',
        'estimate.note.startswith("undefined")',
        'rows[rows["note"].str.contains("undefined", na=False)]',
        '"may bias" in str(warning.note)',
        'row["sentence"].partition(": ")[0]',
        'cell["verdict"].split("; ")[0]',
        'self.method.replace("t over", "z over")',
        'for text in rows["compared"]:\n    other, reference = str(text).split(" − ")',
    ],
)
def test_parsed_sentence_is_found(code):
    assert len(list(parsed_sentences(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code",
    [
        'row["note"] != ""',
        'method in ("pearson", "kendall")',
        '"; ".join(notes)',
        "name in notes",
        "note.code in CODES",
    ],
)
def test_sentence_may_be_handed_on(code):
    assert list(parsed_sentences(ast.parse(code))) == []


@pytest.mark.slow
def test_no_module_parses_sentences_of_the_package():
    """What is known travels as values; a sentence is written at the end, for people."""
    own = {name: path for name, path in MODULES.items() if room_of(name) not in OF_REPLIES}
    found = [f"{name}:{place}" for name, path in own.items() for place in parsed_sentences(tree_of(path))]
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_no_template_parses_sentences_of_the_package():
    parsed = re.compile(rf"\b({'|'.join(SENTENCES)})\.({'|'.join(OF_TEXTS)})\(")
    found = [
        f"{path.name}: {each[0]}" for path in PACKAGE.rglob("*.j2") for each in parsed.finditer(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)
