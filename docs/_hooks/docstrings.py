"""Definition lists as numpydoc writes them: a line, and under it, indented, what it means."""

import re
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

_TERM = re.compile(r"^(?![ >#*|:-]|\d+\.)(\S.*)\n {4}(?=\S)", re.M)


class Definitions(Extension):
    """Turn them into the definition lists of Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name that Markdown calls
        """Work after code blocks were put aside."""
        md.preprocessors.register(_Marked(md), "numpydoc_definitions", 10)


class _Marked(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        """Write a colon before what a term means."""
        return _TERM.sub(r"\n\1\n:   ", "\n".join(lines)).split("\n")


def on_config(config: Any) -> None:
    """Let pages and docstrings have them."""
    config.markdown_extensions.append(Definitions())
