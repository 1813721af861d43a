"""Layout: the same words as a list, in bold, with emoji, under a headline (beauty bias)."""

import re

from biaslab.prompts.edits.base import edit, split_sentences

_SOURCE = "Chen et al. 2024, Humans or LLMs as the Judge?, §3 (beauty bias); Zhou et al. 2026, JudgeBiasBench, beauty"


@edit(source=_SOURCE)
def beauty_list(text: str) -> str:
    """Make every sentence or line an item of a Markdown list; a single one stays as it is."""
    parts = [part.strip() for part in split_sentences(text) if part.strip()]
    return "\n".join(f"- {part}" for part in parts) if len(parts) > 1 else text


@edit(source=_SOURCE)
def beauty_bold(text: str) -> str:
    """Print names and numbers within sentences in bold."""
    return re.sub(r"(?<=[a-z,] )((?:[A-Z][\w-]+|\d[\w.,-]*\w|\d)(?: (?:[A-Z][\w-]+|\d+\b))*)", r"**\1**", text)


@edit(source=_SOURCE)
def beauty_emoji(text: str) -> str:
    """Put an emoji before and behind the text."""
    return f"✨ {text.strip()} 👍"


@edit(source=_SOURCE)
def beauty_headline(text: str) -> str:
    """Put the first five words above the text as a headline."""
    words = text.split()[:5]
    return f"## {' '.join(words).rstrip('.,;:')}\n\n{text.lstrip()}" if words else text
