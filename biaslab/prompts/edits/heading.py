"""A headline: Markdown's, of the text's own first words."""

from biaslab.prompts.edits.base import edit

_SOURCE = "Chen et al. 2024, Humans or LLMs as the Judge?, §3 (beauty bias); Zhou et al. 2026, JudgeBiasBench (beauty)"


@edit(source=_SOURCE)
def beauty_headline(text: str) -> str:
    """Put the first five words above the text as a headline."""
    words = text.split()[:5]
    return f"## {' '.join(words).rstrip('.,;:')}\n\n{text.lstrip()}" if words else text
