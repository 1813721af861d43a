"""The atlas's explorer as a page of the site, made as the site is built.

``<!-- explorer: words -->`` becomes a link to it with these words.
"""

import posixpath
import re
from pathlib import PurePosixPath
from typing import Any

from mkdocs.structure.files import File

import biaslab as bl

PAGE = "guides/explorer.html"
MARK = re.compile(r"<!-- explorer: (.+?) -->")


def on_files(files: Any, config: Any) -> None:
    """Add the page."""
    files.append(File.generated(config, PAGE, content=bl.atlas.explorer().to_html()))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link the page where a page asks for it."""
    place = posixpath.relpath(PAGE, PurePosixPath(page.file.src_uri).parent)
    return MARK.sub(lambda mark: f"[{mark[1]}]({place})", markdown)
