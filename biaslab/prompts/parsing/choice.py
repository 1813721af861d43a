"""Which label a text chose."""

from __future__ import annotations

from collections.abc import Sequence

from biaslab.core import Status
from biaslab.core.errors import InputError
from biaslab.prompts.parsing.decisions import decided
from biaslab.prompts.parsing.marks import marked, without_brackets
from biaslab.prompts.parsing.mentions import TIE, UNKNOWN, Names, names_of
from biaslab.prompts.parsing.refusal import is_refusal
from biaslab.prompts.parsing.statements import alone


def parse_choice(text: str | None, labels: Sequence[str], tie: str | None = None) -> tuple[int | None, Status]:
    """Read which label a free text chose.

    Parameters
    ----------
    text : str or None
        What the judge wrote.
    labels : sequence of str
        The labels it was asked to choose from, such as ``("Summary A", "Summary B", "Tie")``.
    tie : str, optional
        The label that means a tie, such as "C" in pair logs; by default the one that says so ("Tie", "Draw").

    Returns
    -------
    tuple
        Index of the label, or None; and the status. ``"tie"``: the text says that they tie where no label does.
        ``"refused"``: it opens as a refusal and decides nothing. ``"unparsable"``: it decides nothing, or contradicts
        itself.

    Raises
    ------
    InputError
        If ``tie`` is none of the labels.

    Notes
    -----
    Forms are tried from the most to the least explicit, and the first that occurs decides: ``[[A]]`` or ``[[A>>B]]``;
    "Answer: A"; a label alone on the first or last line; then the sentences of the text, a verdict on the whole ("A is
    better", "I prefer A", "it is a tie") before a comparison ("A is more coherent"), and last praise of one label
    beside blame of the other, or praise of the only one that is named.

    A label is named by itself or, where labels differ in their last word, by that word alone. A single letter counts
    in its own case and as a word of its own, and at the start of a sentence only where no article can stand: "A good
    question." names nothing. All rules read masked labels, so that none can favour one of them.

    Examples
    --------
    >>> parse_choice("Summary B is more coherent than Summary A.", ("Summary A", "Summary B"))
    (1, 'ok')
    >>> parse_choice("I prefer B because it is a clearer summary.", ("Summary A", "Summary B"))
    (1, 'ok')
    >>> parse_choice("My answer: [[A]]", ("Summary A", "Summary B"))
    (0, 'ok')
    >>> parse_choice("This is a tie.", ("Summary A", "Summary B"))
    (None, 'tie')
    >>> parse_choice("Both Summary A and Summary B are fine.", ("Summary A", "Summary B"))
    (None, 'unparsable')
    """
    if tie is not None and tie not in labels:
        raise InputError("tie", tie, f"one of the labels {', '.join(labels)}")
    if not text or not text.strip():
        return None, "unparsable"
    names = names_of(tuple(labels), tie)
    found = marked(text, names) or _worded(without_brackets(text), names)
    if len(found) != 1 or UNKNOWN in found:
        return None, "refused" if found <= {UNKNOWN} and is_refusal(text) else "unparsable"
    place = found.pop()
    if place != TIE:
        return place, "ok"
    return (names.tie, "ok") if names.tie >= 0 else (None, "tie")


def _worded(text: str, names: Names) -> set[int]:
    """Return what a text says in its own form: "[[A]] is better than [[B]]" is a sentence about both."""
    return alone(text, names) or decided(names.mask(text))
