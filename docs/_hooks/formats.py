"""The formats of logs, from what declares them: ``<!-- formats -->`` becomes a table."""

from typing import Any

from biaslab.logs.readers import available

MARK = "<!-- formats -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the table where a page asks for it."""
    return markdown.replace(MARK, table()) if MARK in markdown else markdown


def table() -> str:
    """Return a table of the formats, by name."""
    rows = [f"| `{name}` | {about.replace('|', chr(92) + '|')} |" for name, about in sorted(available().items())]
    return "\n".join(["| `--format` | what it reads |", "|---|---|", *rows])
