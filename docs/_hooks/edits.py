"""The catalogue of edits, from the edits themselves.

``<!-- edits -->`` and ``<!-- attacks -->`` become tables of those that leave and lower quality, ``<!-- defences -->`` a
table of the defences of a prompt.
"""

from typing import Any

from biaslab.prompts.edits import TextEdit, available
from biaslab.prompts.edits.attacks import SOURCES

PLACES = {"text": "the text", "heading": "behind its name", "note": "before the question"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where a page asks for them."""
    for mark, quality in (("<!-- edits -->", "left"), ("<!-- attacks -->", "lowered")):
        if mark in markdown:
            markdown = markdown.replace(mark, edits(quality))
    return markdown.replace("<!-- defences -->", defences()) if "<!-- defences -->" in markdown else markdown


def edits(quality: str) -> str:
    """Return a table of the edits that leave quality, or of those that lower it."""
    rows = ["| edit | what it does | where | source |", "|---|---|---|---|"]
    rows += [_row(one) for one in available().values() if one.quality == quality]
    return "\n".join(rows)


def defences() -> str:
    """Return a table of the defences."""
    rows = ["| defence | what it does |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {what} |" for name, what in SOURCES.items())])


def _row(one: TextEdit) -> str:
    about = one.about.replace("|", "\\|")
    return f"| `{one.name}` | {about} | {PLACES[one.place]} | {one.source} |"
