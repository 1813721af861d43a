"""The bias card of three recorded judges that were asked the same, made as the site is built.

``<!-- card -->`` becomes its picture, with a link to the card itself.
"""

import posixpath
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

import biaslab as bl

MARK = "<!-- card -->"
PLACE = "guides/card"
JUDGES = ["gpt-4", "llama-2-70b-chat", "palm-2"]
_FOLDER = tempfile.TemporaryDirectory()
_WORDS: dict[str, str] = {}


def on_files(files: Any, config: Any) -> None:
    """Add the card and its picture."""
    rows = bl.atlas.estimates(source="llmbar", judge=JUDGES, breakdowns=False)
    whole = rows[(rows["dataset"] == "llmbar") & (rows["template"] == "Vanilla") & rows["subset"].isna()]
    card = bl.report.card(whole.dropna(axis=1, how="all"))
    for path in card.save(Path(_FOLDER.name) / "card"):
        if path.suffix in (".html", ".png"):
            files.append(File.generated(config, f"{PLACE}{path.suffix}", abs_src_path=str(path)))
    _WORDS.update(card.overall)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show the card where a page asks for it."""
    place = posixpath.relpath(PLACE, str(PurePosixPath(page.file.src_uri).parent))
    words = " ".join(f"{judge}: {said}" for judge, said in _WORDS.items())
    whom = "Bias card of three recorded judges on the same 419 pairs of LLMBar"
    link = f"*{whom}. The [whole card]({place}.html) says what to do.*"
    return markdown.replace(MARK, f"![{words}]({place}.png)\n\n{link}")
