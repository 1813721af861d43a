"""Which label a text chose."""

from __future__ import annotations

import re
from collections.abc import Sequence

from biaslab.core import Status
from biaslab.parsing.refusal import is_refusal

_LEAD = r"^\W*(?:(?:the |my |final )*(?:answer|choice|verdict)(?: is)?\s*:?\s*)?[\W_]*"
_ALONE = r"\s*(?:$|[.:;!)\]*\"'\n])"
_PRAISED = r"\s+is\s+(?:the\s+|clearly\s+|slightly\s+|much\s+)*(?:more|better|best|superior)\b"
_NEGATED = re.compile(r"\b(?:less|worse|worst|not|neither|nor)\b|n['’]t\b", re.IGNORECASE)


def parse_choice(text: str | None, labels: Sequence[str]) -> tuple[int | None, Status]:
    """Read which label a free text chose.

    Parameters
    ----------
    text : str or None
        What the judge wrote.
    labels : sequence of str
        The labels it was asked to choose from, such as ``("Summary A", "Summary B", "Tie")``.

    Returns
    -------
    tuple
        Index of the label, or None; and ``"ok"``, ``"refused"`` or ``"unparsable"``. A text chose a label when it opens
        with the label alone or with "<label> is more …"; when it holds exactly one in double brackets (``[[A]]``); or
        when it mentions exactly one and negates nothing. Where labels differ in their last word, that word alone does
        too.

    Examples
    --------
    >>> parse_choice("Summary B is more coherent than Summary A.", ("Summary A", "Summary B"))
    (1, 'ok')
    >>> parse_choice("My answer: [[A]]", ("Summary A", "Summary B"))
    (0, 'ok')
    >>> parse_choice("Both Summary A and Summary B are fine.", ("Summary A", "Summary B"))
    (None, 'unparsable')
    """
    if not text or not text.strip():
        return None, "unparsable"
    if is_refusal(text):
        return None, "refused"
    short = [label.split()[-1] for label in labels]
    if len(set(short)) < len(labels):
        short = list(labels)
    mentioned = [i for i, name in enumerate(labels) if re.search(_word(name), text, re.IGNORECASE)]
    readings = (
        [i for i, name in enumerate(short) if f"[[{name}]]" in text],
        [i for i, name in enumerate(labels) if _opens(text, name, f"(?:{_ALONE}|{_PRAISED})")],
        [i for i, name in enumerate(short) if _opens(text, name, _ALONE)],
        [] if _NEGATED.search(text) else mentioned,
    )
    for found in readings:
        if found:
            return (found[0], "ok") if len(found) == 1 else (None, "unparsable")
    return None, "unparsable"


def _opens(text: str, name: str, followed_by: str) -> bool:
    return re.match(_LEAD + _word(name) + followed_by, text, re.IGNORECASE) is not None


def _word(name: str) -> str:
    return rf"(?<!\w){re.escape(name)}(?!\w)"
