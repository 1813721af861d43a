"""Fallacies: the conclusion stays, what leads to it no longer does."""

import re

from biaslab.prompts.edits._sentences import split
from biaslab.prompts.edits.base import edit

_SOURCE = "Chen et al. 2024, Humans or LLMs as the Judge?, §3 (fallacy oversight); Ye et al. 2024, CALM, Table 1"
_BECAUSE = re.compile(r"^([A-Z][^.!?;:]*?),? because ([^.!?;:]+)(?=[.!?])", re.M)
_SMALL = re.compile(r"(?:An?|He|Her|His|In|Its?|On|Our|She|That|The|Their|There|These|They|This|Those|We)\b")


@edit(source=_SOURCE, quality="lowered")
def fallacy_circular(text: str) -> str:
    """Keep the first sentence, and give it as its own reason in place of all others; a single one stays as it is."""
    claim, *reasons = [part.strip() for part in split(text) if part.strip()] or [text]
    return f"{claim} This is so because of what was just said: {claim}" if reasons else text


@edit(source=_SOURCE, quality="lowered")
def fallacy_reversed(text: str) -> str:
    """Turn "A because B" into "B because A"."""
    return "".join(_BECAUSE.sub(_reverse, part) for part in split(text))


def _reverse(found: re.Match[str]) -> str:
    claim, reason = found.groups()
    first = claim[0].lower() + claim[1:] if _SMALL.match(claim) else claim
    return f"{reason[0].upper()}{reason[1:]} because {first}"
