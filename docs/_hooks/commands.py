"""The reference of the command line, as Typer writes it: a page for each command, with its arguments and options.

``<!-- commands -->`` becomes the list of these pages, beside which they are.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from mkdocs.structure.files import File

MARK = "<!-- commands -->"
WRITTEN = [sys.executable, "-m", "typer", "biaslab.cli", "utils", "docs", "--name", "biaslab"]


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
    done = subprocess.run(WRITTEN, capture_output=True, check=True, encoding="utf-8")
    whole = re.split(r"^## `biaslab (\w+)`$", done.stdout, flags=re.M)
    # the headings of a page begin at the first level
    texts = [re.sub(r"^#(#+ )", r"\1", text, flags=re.M) for text in whole[2::2]]
    return {name: f"---\ntitle: {name}\n---\n\n# `biaslab {name}`{text}" for name, text in zip(whole[1::2], texts)}


def listed() -> str:
    """Return a table of the commands, each with its first line."""
    rows = ["| command | what it does |", "|---|---|"]
    for name, page in commands().items():
        [line] = re.findall(rf"^# `biaslab {name}`\n\n(.+)$", page, flags=re.M)
        rows.append(f"| [`biaslab {name}`]({name}.md) | {line} |")
    return "\n".join(rows)
