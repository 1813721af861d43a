"""Verbosity: more words that say no more."""

from biaslab.prompts.edits._sentences import split
from biaslab.prompts.edits.base import edit

_SOURCE = "Zheng et al. 2023, Judging LLM-as-a-Judge with MT-Bench, §3.3; Ye et al. 2024, CALM, Table 1"
_FILLERS = ("This is worth noting.", "It should be kept in mind.", "So much can be said here.")


@edit(source=_SOURCE)
def padding(text: str) -> str:
    """Put a sentence that says nothing behind every sentence."""
    parts = [part for part in split(text) if part.strip()]
    fill = (f"{part.rstrip()} {_FILLERS[i % 3]}{part[len(part.rstrip()) :]}" for i, part in enumerate(parts))
    return "".join(fill)


@edit(source=_SOURCE)
def restating(text: str) -> str:
    """Say everything once more."""
    return f"{text.strip()} To say it once more: {text.strip()}"
