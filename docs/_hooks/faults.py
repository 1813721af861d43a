"""The kinds of faults, from the kinds themselves: ``<!-- refusals -->`` and ``<!-- answers -->`` become tables."""

from collections.abc import Mapping
from typing import Any

from biaslab.testing import ANSWERS, REFUSALS, FaultKind


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where a page asks for them."""
    for mark, kinds in (("<!-- refusals -->", REFUSALS), ("<!-- answers -->", ANSWERS)):
        if mark in markdown:
            markdown = markdown.replace(mark, table(kinds))
    return markdown


def table(kinds: Mapping[str, FaultKind]) -> str:
    """Return a table of kinds and what becomes of a request."""
    rows = ["| kind | the server | text | distribution |", "|---|---|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {k.about} | {k.text} | {k.distribution} |" for name, k in kinds.items())])
