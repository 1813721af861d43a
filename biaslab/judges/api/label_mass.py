"""Label probabilities from the top tokens that a server returns, and the probability mass that it omits.

A `LocalJudge` scores every label; a server returns its 20 top tokens at each position of one greedy answer. So a
label's probability is summed over the returned tokens with which an answer begins with it, whatever their white space;
a label that no returned token completes has only an upper bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

MOST_MASS = 1 + 1e-3  # allows for rounding of the servers' numbers
_MOST_HIDDEN = 0.05  # maximum share of the labels' probability that omitted labels may have
_LEAST = 1e-3  # rarer tokens may be different tokens with the same text and the same probability


class Place(NamedTuple):
    """One token position of an answer: the generated token, and the top tokens with their log-probabilities."""

    token: str
    shown: dict[str, float]


class LabelMass(NamedTuple):
    """The probabilities of labels in one answer.

    Attributes
    ----------
    logprobs : tuple of float
        Log-probability of each label, or its upper bound if it was not returned; all ``-inf`` if no label was
        returned.
    unseen : float
        Probability of answers that were not returned, or too short to tell which label they begin.
    bounded : tuple of int
        Indices of labels that were not returned.
    """

    logprobs: tuple[float, ...]
    unseen: float
    bounded: tuple[int, ...]


def read_labels(labels: Sequence[str], places: Sequence[Place]) -> LabelMass:
    """Sum the probability of each label.

    Parameters
    ----------
    labels : sequence of str
        The allowed answers.
    places : sequence of Place
        The greedy answer, token by token.

    Notes
    -----
    For a label L of several tokens, P(L) = P(first token) · P(second | first) · …, known only along the greedy answer;
    that suffices for "Summary A" and "Summary B" if the answer begins with "Summary". A label must not be continued:
    "1" does not count within "10", as far as the next token is known, again only along the greedy answer. The bound
    assumes that an omitted token is at most as likely as the least likely returned one.

    Examples
    --------
    >>> places = [Place("A", {"A": math.log(0.7), " A": math.log(0.1), "The": math.log(0.15)})]
    >>> mass = read_labels(("A", "B"), places)
    >>> [round(math.exp(value), 3) for value in mass.logprobs], round(mass.unseen, 3), mass.bounded
    ([0.8, 0.05], 0.05, (1,))
    """
    seen, hidden = [0.0] * len(labels), [0.0] * len(labels)
    written, path, unseen = "", 1.0, 0.0
    for at, place in enumerate(places):
        open_labels = [i for i, label in enumerate(labels) if len(label) > len(written) and label.startswith(written)]
        ended = next((i for i, label in enumerate(labels) if label == written), None)
        if not open_labels and ended is None:
            break
        chances = {token: path * math.exp(level) for token, level in place.shown.items()}
        if ended is not None:  # a continuation of the label is not the label
            seen[ended] += path - sum(p for token, p in chances.items() if goes_on(written, token))
        rest = max(path - sum(chances.values()), 0.0)
        unseen += rest if open_labels else 0.0
        for i in open_labels:
            hidden[i] += min(rest, min(chances.values(), default=rest))
        for token, p in chances.items():
            text = (written + token).lstrip()
            complete = _completed(labels, written, text)
            follows = token == place.token and at + 1 < len(places)
            begun = [i for i in open_labels if len(labels[i]) > len(text) and labels[i].startswith(text)]
            if complete is not None and not (follows and text == labels[complete]):
                seen[complete] += p
            elif begun and not follows:
                unseen += p
                for i in begun:
                    hidden[i] += p
        path = chances.get(place.token, 0.0)
        written = (written + place.token).lstrip()
    bounded = tuple(i for i, p in enumerate(seen) if p <= 0.0)
    if len(bounded) < len(labels):
        seen = [hidden[i] if i in bounded else p for i, p in enumerate(seen)]
    return LabelMass(tuple(_log(p) for p in seen), min(max(unseen, 0.0), 1.0), bounded)


def impossible(shown: Sequence[tuple[object, float]]) -> str:
    """Return why log-probabilities of tokens are not a valid distribution, or an empty string.

    Different tokens may have the same text, such as "A" and " A" if a server strips white space; one that is listed
    twice with the same probability is invalid.

    Examples
    --------
    >>> impossible([("A", -0.1), ("B", -0.2)])
    'the probabilities of the returned tokens sum to 1.72'
    >>> impossible([("A", -1.0), ("B", -1.5), ("A", -1.0)])
    "the token 'A' occurs twice"
    """
    mass = math.fsum(math.exp(level) for _, level in shown)
    if mass > MOST_MASS:
        return f"the probabilities of the returned tokens sum to {mass:.3g}"
    likely = Counter(entry for entry in shown if entry[1] > math.log(_LEAST))
    return next((f"the token {token!r} occurs twice" for (token, _), times in likely.items() if times > 1), "")


def is_vague(mass: LabelMass) -> bool:
    """Return whether omitted labels may have so much probability that the others' shares are unknown.

    Examples
    --------
    >>> is_vague(LabelMass((math.log(0.7), math.log(0.3)), 0.3, (1,)))
    True
    >>> is_vague(LabelMass((math.log(0.9), math.log(0.01)), 0.05, (1,)))
    False
    """
    if len(mass.bounded) == len(mass.logprobs):  # none was returned, so the answer is not a label
        return False
    bounds = math.fsum(math.exp(mass.logprobs[at]) for at in mass.bounded)
    hidden = min(bounds, mass.unseen)  # together they cannot exceed what was omitted
    return hidden > _MOST_HIDDEN * (math.fsum(map(math.exp, mass.logprobs)) - bounds + hidden)


def goes_on(label: str, text: str) -> bool:
    """Return whether the text after a label continues it, as "0" continues "1", or ".5" does."""
    if not text or not label[-1:].isalnum():
        return False
    return text[0].isalnum() or (label[-1].isdigit() and len(text) > 1 and text[0] in ".," and text[1].isdigit())


def _completed(labels: Sequence[str], written: str, text: str) -> int | None:
    """Return the index of the longest label that the last token completes."""
    fitting = [
        i
        for i, label in enumerate(labels)
        if len(label) > len(written)
        and label.startswith(written)
        and text.startswith(label)
        and not goes_on(label, text[len(label) :])
    ]
    return max(fitting, key=lambda i: len(labels[i]), default=None)


def _log(p: float) -> float:
    return min(math.log(p), 0.0) if p > 0 else -math.inf
