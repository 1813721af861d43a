"""The reference is what is public, from the docstrings: a page for each part of the package in ``data/reference.toml``.

``<!-- public: biaslab.report -->`` becomes the documentation of a module's public names.
``<!-- pages: biaslab.probes.* -->`` gives every module its own page beside the one with the mark, and becomes the list
of these pages; ``.*`` means every public module of a package, and several names are separated by blanks.
``<!-- names -->`` is a table of the names of the package itself. Names of the package that stand as code in docstrings
and pages become links.
"""

import importlib
import inspect
import pkgutil
import posixpath
import re
import tomllib
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File

import biaslab as bl

DOCS = Path(__file__).resolve().parents[1]
PARTS = tomllib.loads((DOCS / "_hooks" / "data" / "reference.toml").read_text(encoding="utf-8"))
PAGES = re.compile(r"^<!-- pages: (.+?) -->$", re.M)


def on_files(files: Any, config: Any) -> None:
    """Add a page for each part of the package, and one for each module that a page names."""
    for name, part in PARTS.items():
        files.append(File.generated(config, f"reference/{_place(name)}", content=part_page(name, part)))
    for file in list(files.documentation_pages()):
        for mark in PAGES.finditer(file.content_string):
            for module, paths in modules(mark[1]).items():
                uri = str(PurePosixPath(file.src_uri).with_name(_page(module)))
                files.append(File.generated(config, uri, content=module_page(module, paths)))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what is public, each name once on a page."""
    if "<!-- names -->" in markdown:
        markdown = markdown.replace("<!-- names -->", names())
    markdown = PAGES.sub(lambda mark: contents(modules(mark[1])), markdown)
    documented: set[str] = set()

    def documentation(mark: re.Match[str]) -> str:
        new = [path for path in public(mark[1]) if path not in documented]
        documented.update(new)
        return directives(new)

    return re.sub(r"^<!-- public: (\S+) -->$", documentation, markdown, flags=re.M)


def on_page_content(html: str, **_: Any) -> str:
    """Link the names that are in the reference."""
    return re.sub(r'(?<!</span>)(?<!<pre>)(?<!">)<code>(?:bl|biaslab)((?:\.\w+)+)</code>', _linked, html)


def modules(named: str) -> dict[str, list[str]]:
    """Return the paths of the public names of some modules, by the module that defines them."""
    grouped: dict[str, list[str]] = {}
    for name in named.split():
        for path in public(name):
            grouped.setdefault(path.rpartition(".")[0], []).append(path)
    return grouped


def part_page(name: str, part: dict[str, list[str]]) -> str:
    """Return the page of a part of the package: what it is, what explains it, and the names of its modules."""
    uri, module = PurePosixPath("reference", _place(name)), f"biaslab.{name}"
    lines = [f"# {module}", _summary(importlib.import_module(module))]
    to = [f"[{_heading(guide)}]({posixpath.relpath(guide, uri.parent)})" for guide in part.get("see", [])]
    lines += [f"See {', '.join(to)}."] if to else []
    lines += [f"<!-- pages: {' '.join(part['pages'])} -->"] if "pages" in part else []
    for named in part.get("public", []):
        if named != module:
            lines += [f"## {named}", _summary(importlib.import_module(named))]
        lines.append(f"<!-- public: {named} -->")
    return "\n\n".join(lines) + "\n"


def module_page(module: str, paths: list[str]) -> str:
    """Return the page of a module."""
    about = _summary(importlib.import_module(module))
    return f"---\ntitle: {_last(module)}\n---\n\n# {module}\n\n{about}\n\n{directives(paths, 2)}\n"


def contents(grouped: dict[str, list[str]]) -> str:
    """Return a table of the pages of modules, with the names that each documents."""
    rows = ["| page | in a line | names |", "|---|---|---|"]
    for module, paths in grouped.items():
        linked = ", ".join(f"[`{path.rpartition('.')[2]}`][{path}]" for path in paths)
        rows.append(f"| [{_last(module)}]({_page(module)}) | {_summary(importlib.import_module(module))} | {linked} |")
    return "\n".join(rows)


def public(name: str) -> list[str]:
    """Return the paths of the public names of a module, or of all public modules of a package."""
    if name.endswith(".*"):
        package = importlib.import_module(name.removesuffix(".*"))
        parts = [part.name for part in pkgutil.iter_modules(package.__path__) if part.name[0] != "_"]
        return [path for part in parts for path in public(f"{package.__name__}.{part}")]
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    members = [getattr(module, each) for each in listed or dir(module) if not each.startswith("_")]
    here = [_path(one) for one in members if inspect.isclass(one) or inspect.isfunction(one)]
    own = [path for path in dict.fromkeys(here) if path.startswith(f"{name}.")]
    return own if listed is not None else sorted(path for path in own if path.rpartition(".")[0] == name)


def directives(paths: list[str], level: int = 3) -> str:
    """Return the directives that document these names, under headings of a level."""
    return "\n\n".join(f"::: {path}\n    options: {{ heading_level: {level} }}" for path in paths)


def names() -> str:
    """Return a table of the names of the package, each with what it is in a line."""
    rows = ["| name | in a line |", "|---|---|"]
    for name in sorted(bl.__all__, key=str.lower):
        one = getattr(bl, name)
        shown = f"[`{name}`]({_part(name)})" if isinstance(one, ModuleType) else f"[`{name}`][{_path(one)}]"
        rows.append(f"| {shown} | {_summary(one)} |")
    return "\n".join(rows)


def _part(name: str) -> str:
    """Return the page of a part of the package: the one of its name, or one that documents it."""
    for place, part in PARTS.items():
        modules_of = (*part.get("pages", ()), *part.get("public", ()))
        documented = [_last(module.removesuffix(".*")) for module in modules_of]
        if name == place.rpartition(".")[2] or name in documented:
            return _place(place)
    return f"{name}.md"


def _place(name: str) -> str:
    """Return where the page of a part is; one whose modules have pages of their own is the index of a folder."""
    last = name.rpartition(".")[2]
    return f"{last}/index.md" if "pages" in PARTS[name] else f"{last}.md"


def _heading(guide: str) -> str:
    return (DOCS / guide).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _page(module: str) -> str:
    return f"{_last(module)}.md"


def _last(module: str) -> str:
    return module.rpartition(".")[2]


def _summary(one: Any) -> str:
    return (inspect.getdoc(one) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def _path(one: Any) -> str:
    return f"{one.__module__}.{one.__qualname__}"


def _linked(found: re.Match[str]) -> str:
    one: Any = bl
    for name in found[1].split(".")[1:]:
        try:
            one = getattr(one, name, None) or importlib.import_module(f"{one.__name__}.{name}")
        except (ImportError, AttributeError):
            return found[0]
    if not (inspect.isclass(one) or inspect.isfunction(one)):
        return found[0]
    return f'<autoref identifier="{_path(one)}" optional>{found[0]}</autoref>'
