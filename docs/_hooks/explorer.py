"""The atlas's explorer and its replications as pages of the site, made as the site is built.

``<!-- explorer: words -->`` and ``<!-- replications: words -->`` become links to them with these words.
"""

import posixpath
import re
from pathlib import PurePosixPath
from typing import Any

from mkdocs.structure.files import File

import biaslab as bl

PAGES = {"explorer": bl.atlas.explorer, "replications": bl.atlas.replication_page}
MARK = re.compile(rf"<!-- ({'|'.join(PAGES)}): (.+?) -->")


def on_files(files: Any, config: Any) -> None:
    """Add the pages."""
    for name, make in PAGES.items():
        page = make().to_html().replace("<main>", '<main>\n<p><a href="../index.html">← biaslab</a></p>', 1)
        files.append(File.generated(config, f"guides/{name}.html", content=page))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link the pages where a page asks for it."""
    here = PurePosixPath(page.file.src_uri).parent
    return MARK.sub(lambda mark: f"[{mark[2]}]({posixpath.relpath(f'guides/{mark[1]}.html', here)})", markdown)
