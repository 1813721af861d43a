"""The reference is what is public: ``<!-- public: biaslab.report -->`` becomes the documentation of its public names.

``biaslab.stats.*`` means every public module in it. ``<!-- names -->`` is a table of the names of the package itself.
Names of the package that stand as code in docstrings and pages become links.
"""

import importlib
import inspect
import pkgutil
import re
from types import ModuleType
from typing import Any

import biaslab as bl


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what is public."""
    if "<!-- names -->" in markdown:
        markdown = markdown.replace("<!-- names -->", names())
    return re.sub(r"^<!-- public: (\S+) -->$", lambda found: public(found[1]), markdown, flags=re.M)


def on_page_content(html: str, **_: Any) -> str:
    """Link the names that are in the reference."""
    return re.sub(r'(?<!</span>)(?<!<pre>)(?<!">)<code>(?:bl|biaslab)((?:\.\w+)+)</code>', _linked, html)


def public(name: str) -> str:
    """Return the directives that document the public names of a module, or of all modules of a package."""
    if name.endswith(".*"):
        package = importlib.import_module(name.removesuffix(".*"))
        parts = [f"{package.__name__}.{m.name}" for m in pkgutil.iter_modules(package.__path__) if m.name[0] != "_"]
        return "\n\n".join(
            f"## {part}\n\n{_summary(importlib.import_module(part))}\n\n{public(part)}" for part in parts
        )
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    members = [getattr(module, each) for each in listed or dir(module) if not each.startswith("_")]
    here = [_path(one) for one in members if inspect.isclass(one) or inspect.isfunction(one)]
    own = [path for path in dict.fromkeys(here) if path.startswith(f"{name}.")]
    if listed is None:
        own = sorted(path for path in own if path.rpartition(".")[0] == name)
    return "\n\n".join(f"::: {path}\n    options: {{ heading_level: 3 }}" for path in own)


def names() -> str:
    """Return a table of the names of the package, each with what it is in a line."""
    rows = ["| name | in a line |", "|---|---|"]
    for name in sorted(bl.__all__, key=str.lower):
        one = getattr(bl, name)
        shown = f"[`{name}`]({name}.md)" if isinstance(one, ModuleType) else f"[`{name}`][{_path(one)}]"
        rows.append(f"| {shown} | {_summary(one)} |")
    return "\n".join(rows)


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
