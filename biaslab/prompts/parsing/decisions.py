"""Verdicts in sentences with masked labels: one of the labels, or a tie."""

from __future__ import annotations

import re
from collections.abc import Sequence

from biaslab.prompts.parsing import phrases
from biaslab.prompts.parsing.mentions import MENTION, TIE, place_of, places_in

_BRIEF = 3  # sentences; in a longer text, passing remarks decide nothing


def decided(masked: str) -> set[int]:
    """Return the verdict of a masked text: places of labels, `TIE`, or nothing if it is undecided.

    The first of these rules that finds anything decides; if it finds several verdicts, the text contradicts itself.

    1. Overall verdicts: "I prefer <label>", "<label> wins", "it is a tie". If they differ, conclusions decide
       ("Therefore …"); a verdict for a label takes precedence over an earlier tie, which then concerned one aspect.
    2. In a brief text or a conclusion, comparisons: "<label> is more coherent".
    3. In a brief text, the only label that is praised, if the other is criticised or not mentioned.

    Examples
    --------
    >>> from biaslab.prompts.parsing.mentions import names_of
    >>> names = names_of(("A", "B"))
    >>> decided(names.mask("Both are equally fluent, but B wins.")), decided(names.mask("A is not better."))
    ({1}, set())
    """
    merged = phrases.TOGETHER.sub(lambda match: "neither of them" if match[1] else "they", masked.lower())
    sentences = [piece for piece in phrases.SENTENCE.split(merged) if piece and piece.strip(" *_#-")]
    stated = [sentence for sentence in sentences if not sentence.endswith("?")]
    return _on_the_whole(stated) or _compared(stated) or _implied(merged, stated)


def _on_the_whole(sentences: Sequence[str]) -> set[int]:
    verdicts = [(sentence, place) for sentence in sentences for place in _verdicts(sentence)]
    if len({place for _, place in verdicts}) > 1:
        verdicts = [(sentence, place) for sentence, place in verdicts if _concludes(sentence, sentences)] or verdicts
    places = [place for _, place in verdicts]
    if TIE not in places:
        return set(places)
    if places[-1] != TIE or any(phrases.FLAT.fullmatch(sentence) for sentence, _ in verdicts):
        return set(places) - {TIE}
    in_one_respect = len(sentences) > _BRIEF or any(
        _matching_labels(sentence, phrases.COMPARED) for sentence in sentences
    )
    return set() if in_one_respect and not _concludes(verdicts[-1][0], sentences) else set(places)


def _concludes(sentence: str, sentences: Sequence[str]) -> bool:
    last = sentence == sentences[-1] and phrases.FLAT.fullmatch(sentence) is not None
    return last or phrases.CONCLUDES.match(sentence) is not None


def _verdicts(sentence: str) -> list[int]:
    """Return the overall verdicts of one sentence; a tie that it retracts does not count."""
    places = _matching_labels(sentence, phrases.OVERALL)
    if (turn := phrases.TURN.search(sentence)) and re.search(MENTION, sentence[turn.end() :]):
        return places
    ties = (match for match in phrases.TIED.finditer(sentence) if not phrases.NO_TIE.search(sentence[: match.start()]))
    return [TIE, *places] if any(ties) else places


def _compared(sentences: Sequence[str]) -> set[int]:
    if len(sentences) > _BRIEF:
        sentences = [sentence for sentence in sentences if phrases.CONCLUDES.match(sentence)]
    places = {place for sentence in sentences for place in _matching_labels(sentence, phrases.COMPARED)}
    good = {place for sentence in sentences for place in _matching_labels(sentence, phrases.COMPARED_WELL)}
    if len(places) > 1 and (len(good) > 1 or any(phrases.BOTH.search(sentence) for sentence in sentences)):
        return places
    return good


def _implied(text: str, sentences: Sequence[str]) -> set[int]:
    """Return the one label that is praised, if every clause is about one label."""
    if phrases.NAMED.fullmatch(text) and not phrases.BLAME.search(text):
        return places_in(text)
    fine, blamed = set(), set()
    for clause in (piece for piece in phrases.CLAUSE.split(text) if piece and piece.strip(" ,*_#\"'")):
        about = places_in(clause)
        if phrases.BLAMED.match(clause):
            blamed.update(about)
        elif phrases.FINE.match(clause):
            fine.update(about)
        else:
            return set()
        if len(about) != 1 or len(sentences) > _BRIEF:
            return set()
    return fine - blamed if len(fine - blamed) == 1 and (blamed or phrases.PRAISE.search(text)) else set()


def _matching_labels(sentence: str, patterns: Sequence[re.Pattern[str]]) -> list[int]:
    """Return the places of labels for which a sentence matches the patterns, neither negated nor conditional."""
    return [
        place
        for pattern in patterns
        for match in pattern.finditer(sentence)
        if (place := place_of(match[1])) is not None
        and not phrases.DENIED.search(sentence[: match.start()])
        and not phrases.SET_ASIDE.search(sentence[: match.start()])
        and not phrases.AS_LONG_AS.match(sentence[match.end() :])
    ]
