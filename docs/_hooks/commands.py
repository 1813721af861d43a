"""The reference of the command line, as Typer writes it: a page for each command, with its arguments and options.

``<!-- commands -->`` becomes the list of these pages, beside which they are.
"""

import re
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import typer.cli
from mkdocs.structure.files import File
from typer.testing import CliRunner

MARK = "<!-- commands -->"
DOCS = ["biaslab.cli", "utils", "docs", "--name", "biaslab"]  # as in: typer biaslab.cli utils docs --name biaslab


def on_files(files: Any, config: Any) -> None:
    """Add a page for each command beside the page that lists them."""
    for file in list(files.documentation_pages()):
        if MARK in file.content_string:
            for name, page in commands().items():
                uri = str(PurePosixPath(file.src_uri).with_name(f"{name}.md"))
                files.append(File.generated(config, uri, content=page))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """List the commands where a page asks for them."""
    return markdown.replace(MARK, listed()) if MARK in markdown else markdown


@cache
def commands() -> dict[str, str]:
    """Return the page of each command by its name; those of a group are on one page."""
    done = CliRunner().invoke(typer.cli.app, DOCS, catch_exceptions=False)
    if done.exit_code:
        raise RuntimeError(done.output)
    parts = re.split(r"^## `biaslab ([\w-]+)`$", done.stdout, flags=re.M)
    pages = zip(parts[1::2], parts[2::2], strict=True)
    return {name: f"---\ntitle: {name}\n---\n\n# `biaslab {name}`{_raised(text)}" for name, text in pages}


def listed() -> str:
    """Return a table of the commands, each with its first line."""
    rows = ["| command | what it does |", "|---|---|"]
    for name, page in commands().items():
        [line] = re.findall(rf"^# `biaslab {name}`\n\n(.+)$", page, flags=re.M)
        rows.append(f"| [`biaslab {name}`]({name}.md) | {line} |")
    return "\n".join(rows)


def _raised(text: str) -> str:
    """Take a level from each heading, because a page begins with the first one."""
    return re.sub(r"^#(#+ )", r"\1", text, flags=re.M)
