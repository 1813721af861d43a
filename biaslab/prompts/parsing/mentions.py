"""Mentions of labels in a text: "Summary A", "summary A", "**A**", "Response 2", "Output (b)".

Every mention becomes a private character, so subsequent rules do not know which label they see: whatever is inferred
about "A" in a sentence is inferred about "B" in the same sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

TIE = -1
"""Code for a tie among places of labels."""

UNKNOWN = -2
"""Code, among places of labels, for a verdict that names none of them."""

MENTION = "[\ue000-\ue0ff]"
"""Pattern of one mention in a masked text."""

_KIND = (
    "assistant|answer|candidate|choice|completion|generation|model|option|output|reply|response|solution|story|"
    "summary|system|text|translation|version"
)
_WORD = r"(?<![\w'’./-])"
_END = r"(?!\w|\+|[-/.]\w|['’](?!s\b)\w)"
_OPEN, _SHUT = r"[\"'“‘*_`(\[{<|#]*", r"[\"'”’*_`)\]}>|]*"
_DRESS = re.compile(r"^[\s.!,:;\"'“”‘’*_`(){}\[\]<>|#]+|[\s.!,:;\"'“”‘’*_`(){}\[\]<>|#]+$")
_TAG = re.compile(r"</?[a-z]+>")
_TIE_SAID = frozenset({"tie", "a tie", "it's a tie", "it is a tie", "tied", "draw", "a draw", "equal", "equally good"})
_LETTERED = frozenset({"vitamin", "hepatitis", "plan", "grade", "type", "class", "section", "appendix"})
_SEEN = 40  # characters examined before a letter
_LONGEST = 80  # maximum characters of a name, including formatting
_CASED = re.compile(r"[A-Za-z]")
_STARTS = re.compile(r"(?:^|[.!?:;\n])[\s\"'“‘*_`(\[>#-]*$")
_BEFORE = re.compile(r"([^\W\d_]+)s?[\s\"'“‘*_`(\[{<|]*$")
_SAID_OF = re.compile(  # what can follow the letter A if it is not an article: not an adjective or noun
    rf"{_SHUT}(?:['’]s\b|\s*$|\s*[.,;:!?)\]\n]|\s+(?:\w+ly\s+)?(?!\w*(?:ous|ss|ius)\b|less\b)[a-z]+s\b"
    r"|\s+(?:and|or|nor|over|than|because|since|as|for|due|did|had|could|should|would|will|can|may|must)\b)"
)


@dataclass(frozen=True)
class Names:
    """The labels of a question, and the ways in which a text may name them.

    Parameters
    ----------
    labels : tuple of str
        For example ``("Summary A", "Summary B", "Tie")``.
    tie : int
        Place of the label that means a tie; -1 if there is none.
    """

    labels: tuple[str, ...]
    tie: int

    @cached_property
    def _parts(self) -> list[tuple[str, str]]:
        """Noun and last word of each label; without the noun if last words do not distinguish labels."""
        parts = [(" ".join(label.split()[:-1]), label.split()[-1] if label.split() else label) for label in self.labels]
        if len({last for _, last in parts}) < len(parts):
            return [("", label) for label in self.labels]
        return parts

    def core(self, place: int) -> str:
        """Return the last word of a label without brackets: "b" of "Output (b)"."""
        last = self._parts[place][1]
        return last.strip("()[]{}<>\"'") or last

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        """Pattern of a label with its noun, or with any noun of its kind if it has none."""
        ways = []
        for place, (noun, last) in enumerate(self._parts):
            if place == self.tie:
                continue
            core, numbered = re.escape(self.core(place)), rf"(?:no\.?\s*|number\s+)?{place + 1}"
            kind = r"\s+".join(map(re.escape, noun.split())) if noun else rf"(?:{_KIND})"
            if not _CASED.fullmatch(core):
                name = rf"{_OPEN}(?i:{core}){_SHUT}"
            elif last != self.core(place):
                name = rf"(?:\((?i:{core})\)|{core.upper()})"
            else:  # response numbers may replace letters, as in "Response 2"
                marked = r"[\"'“‘*_`(\[{<|]+"
                name = rf"(?:{_OPEN}{core}|{marked}(?i:{core})(?=[\"'”’*_`)\]}}>|])|{_OPEN}{numbered}){_SHUT}"
                name += rf"|(?i:{kind})\s+(?i:{core})(?=\W*(?:$|[.!?\n]))"
            ways.append(rf"(?P<n{place}>{_WORD}(?:(?i:{kind})s?\s*{name})){_END}")
            if not noun and not _CASED.fullmatch(core) and not core.isdigit():
                ways.append(rf"(?P<m{place}>{_WORD}(?i:{core})){_END}")
        return re.compile("|".join(ways) or r"(?!)")

    @cached_property
    def _letters(self) -> re.Pattern[str]:
        """Pattern of letters, or bracketed last words, that may represent a label on their own."""
        ways = []
        for place, (_, last) in enumerate(self._parts):
            if place == self.tie:
                continue
            if last != self.core(place):
                ways.append(rf"(?P<n{place}>{re.escape(last)})")
            elif _CASED.fullmatch(last):
                ways.append(rf"(?P<n{place}>{_WORD}{last}){_END}")
        return re.compile("|".join(ways) or r"(?!)")

    def mask(self, text: str) -> str:
        """Return a text in which every mention of a label is one private character.

        A single letter counts in its own case, as a separate word, and at the start of a sentence only if the next
        word cannot follow an article.

        Examples
        --------
        >>> names = names_of(("Summary A", "Summary B"))
        >>> masked = names.mask("A good summary is Summary A; I prefer it to B.")
        >>> [place_of(c) for c in masked if place_of(c) is not None]
        [0, 1]
        """
        text = re.sub(MENTION, " ", text)
        text = self._whole.sub(lambda match: chr(0xE000 + int(str(match.lastgroup)[1:])), text)
        return self._letters.sub(self._letter, text)

    def _letter(self, match: re.Match[str]) -> str:
        """Replace a single last word by its private character, unless it names something else."""
        place = int(str(match.lastgroup)[1:])
        noun, last = self._parts[place]
        before, after = match.string[: match.start()][-_SEEN:], match.string[match.end() :]
        starts = _STARTS.search(before) is not None
        if not starts and _is_of_another(before, noun):
            return match[0]
        is_letter = last == self.core(place)
        if is_letter and (starts or last.islower()) and not _SAID_OF.match(after):
            return match[0]
        return chr(0xE000 + place)

    def exactly(self, text: str, *, any_case: bool = False) -> int | None:
        """Return the place of the label that equals a text, formatted or not; `TIE` for a tie, None for neither.

        Examples
        --------
        >>> names = names_of(("Summary A", "Summary B"))
        >>> names.exactly("**B**"), names.exactly("a"), names.exactly("a", any_case=True), names.exactly("summary b")
        (1, None, 0, 1)
        """
        if len(text) > _LONGEST:
            return None
        text = _TAG.sub("", text)
        spellings = (text.strip(), text.strip(" .!\n"), _DRESS.sub("", text))
        places = (self._place(" ".join(one.split()), any_case) for one in spellings)
        return next((place for place in places if place is not None), None)

    def resembles(self, text: str) -> bool:
        """Return whether a text has the form of the labels, such as "C" or "Summary C" next to "Summary A".

        Examples
        --------
        >>> names = names_of(("Summary A", "Summary B"))
        >>> names.resembles("**C**"), names.resembles("Summary C"), names.resembles("clear")
        (True, True, False)
        """
        if self._form is None or len(text) > _LONGEST:
            return False
        return self._form.fullmatch(_DRESS.sub("", _TAG.sub("", text))) is not None

    @cached_property
    def _form(self) -> re.Pattern[str] | None:
        """Pattern of all labels of this kind: a letter or a number, with or without a noun."""
        cores = [self.core(place) for place in range(len(self.labels)) if place != self.tie]
        nouns = "|".join(sorted({re.escape(noun) for noun, _ in self._parts if noun} | {_KIND}))
        for last, every in (("[A-Z]", r"[A-Za-z]"), (r"\d{1,2}", r"\d{1,2}")):
            if all(re.fullmatch(every, core) for core in cores):
                return re.compile(rf"(?:(?i:{nouns})\s*\W?)?{last}")
        return None

    @cached_property
    def _third(self) -> str | None:
        """Letter for a tie next to A and B, as in pair logs; None if no tie is offered."""
        others = [self.core(place).casefold() for place in range(len(self.labels)) if place != self.tie]
        return "C" if self.tie >= 0 and others == ["a", "b"] else None

    def _place(self, text: str, any_case: bool) -> int | None:
        if text in self.labels:  # labels may differ only in case
            place = self.labels.index(text)
            return TIE if place == self.tie else place
        for place, label in enumerate(self.labels):
            core = self.core(place)
            loosely = any_case or len(core) > 1
            if text == core or text.casefold() in (label.casefold(), core.casefold() if loosely else None):
                return TIE if place == self.tie else place
        if text.casefold() in _TIE_SAID or (text.upper() if any_case else text) == self._third:
            return TIE
        masked = self.mask(text)
        return place_of(masked) if len(masked) == 1 else None


def _is_of_another(before: str, noun: str) -> bool:
    """Return whether the word before a letter names something else, such as "Assistant" or "vitamin"."""
    word = _BEFORE.search(before)
    if word is None:
        return False
    kind = word[1].lower()
    if re.fullmatch(_KIND, kind):
        return bool(noun) and kind != noun.lower()
    is_name = len(word[1]) > 1 and word[1][0].isupper() and not _STARTS.search(before[: word.start()])
    return is_name or kind in _LETTERED


def place_of(character: str) -> int | None:
    """Return the index of the label that a private character encodes; None for any other character."""
    return ord(character) - 0xE000 if 0xE000 <= ord(character) <= 0xE0FF else None


def places_in(masked: str) -> set[int]:
    """Return the places of all labels that a masked text mentions."""
    return {place for character in masked if (place := place_of(character)) is not None}


@lru_cache(maxsize=256)
def names_of(labels: tuple[str, ...], tie: str | None = None) -> Names:
    """Return the names of labels; by default a label that means a tie is recognised by its wording."""
    if tie is not None:
        return Names(labels, labels.index(tie))
    ties = [place for place, label in enumerate(labels) if label.strip().casefold() in _TIE_SAID]
    return Names(labels, ties[0] if len(ties) == 1 else -1)
