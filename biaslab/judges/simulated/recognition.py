"""Which candidates of a data set a prompt shows, and which of its words are the task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from biaslab.judges.simulated.knowledge import Knowledge, paragraphs_of

_LABEL = re.compile(r"^\w+(?: [A-Z])?: ")


class Seen(NamedTuple):
    """What a prompt shows: candidates (as known, as shown), all paragraphs, and those that are no data."""

    candidates: tuple[tuple[str, str], ...]
    paragraphs: frozenset[str]
    task: tuple[str, ...]


def look_at(prompt: str, known: Knowledge) -> Seen:
    """Find the candidates in a prompt.

    A candidate stands in paragraphs of its own, bare or after "Summary: "; after such a label it may stand within a
    longer text, which is then the text that was judged.
    """
    candidates: list[tuple[str, str]] = []
    bare: set[str] = set()
    task: list[str] = []
    parts = paragraphs_of(prompt)
    place = 0
    while place < len(parts):
        part, text = parts[place], _LABEL.sub("", parts[place])
        bare |= {part, text}
        found, length = _begins(text, parts[place:], known)
        source = part in known.source_paragraphs or text in known.source_paragraphs
        if found is None and not source and known.named.match(part):
            found = max((t for t in known.owners if t in text), key=len, default=None)
            candidates += [(found, text)] if found else []
        elif found is not None:
            candidates.append((found, found))
        if found is None and not source:
            task.append(part)
        place += length
    return Seen(tuple(candidates), frozenset(bare), tuple(task))


def context_of(seen: Seen, known: Knowledge) -> str | None:
    """Return the context that all candidates share, one whose source is shown before others; None without any."""
    first, *others = (known.owners[text] for text, _ in seen.candidates)
    shared = [context for context in first if all(context in owner for owner in others)]
    return next((c for c in shared if shows_source(seen, c, known)), shared[0] if shared else None)


def shows_source(seen: Seen, context_id: str, known: Knowledge) -> bool:
    """Say whether the source stands in the prompt; a context without a source lacks nothing."""
    return seen.paragraphs.issuperset(known.source_parts[context_id])


def _begins(text: str, parts: Sequence[str], known: Knowledge) -> tuple[str | None, int]:
    """Return the candidate that begins with a paragraph, the longest one, and how many paragraphs it takes."""
    for candidate, whole in sorted(known.openings.get(text, ()), key=lambda pair: -len(pair[0])):
        if candidate[1:] == tuple(parts[1 : len(candidate)]):
            return whole, len(candidate)
    return None, 1
