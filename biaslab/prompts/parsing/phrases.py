"""Mentions of labels in English sentences, and the phrases that express verdicts about them.

Words are in lists, so that a missing word is easy to add; a pattern's only group is the label it is about.

Every mention becomes a private character, so subsequent rules do not know which label they see: whatever is inferred
about "A" in a sentence is inferred about "B" in the same sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from biaslab.core.files import declared

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
class LabelNames:
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
        before = match.string[max(match.start() - _SEEN, 0) : match.start()]
        starts = _STARTS.search(before) is not None
        if not starts and _is_of_another(before, noun):
            return match[0]
        is_letter = last == self.core(place)
        if is_letter and (starts or last.islower()) and not _SAID_OF.match(match.string, match.end()):
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
    return {place for character in set(masked) if (place := place_of(character)) is not None}


@lru_cache(maxsize=256)
def names_of(labels: tuple[str, ...], tie: str | None = None) -> LabelNames:
    """Return the names of labels; by default a label that means a tie is recognised by its wording."""
    if tie is not None:
        return LabelNames(labels, labels.index(tie))
    ties = [place for place, label in enumerate(labels) if label.strip().casefold() in _TIE_SAID]
    return LabelNames(labels, ties[0] if len(ties) == 1 else -1)


_X = f"({MENTION})"
_OTHER = MENTION[1:-1]
_SIGNS = rf"[^\w{_OTHER}]"


_WORDS: dict[str, str] = declared("biaslab.prompts.parsing", "words.toml")


def _any(words: Iterable[str]) -> str:
    """Pattern of any of some words or patterns."""
    return f"(?:{'|'.join(words)})"


def _words(name: str) -> str:
    """Pattern of any of the words that the table of words has under a name."""
    return _any(re.split(r",\s+", _WORDS[name].strip()))


def _between(most: int, *stops: str) -> str:
    """Pattern of a limited number of words, none of which is a stop word."""
    return rf"(?:\s+(?!{_any(stops)}\b)[\w'’-]+){{0,{most}}}?"


_DENIALS = (r"\w+n['’]t", "not", "no", "never", "less", "neither", "nor")
_BEST = _words("best") + r"\b"
_WORST = _words("worst")
_BE = _words("is") + r"\b"
_WINS = _words("wins")
_GIVES = r"(?:has\s+)?" + _words("gives") + r"\s+(?:an?\s+|the\s+)?"
_WORK = _words("answer")
_CHOOSE = _words("choose")
_LEADS_TO = _words("between_choice_and_label")
_LY = r"(?:[a-z]+ly\s+)?"
_OWN = r"(?:['’]s(?:\s+(?!that\b|there\b)[\w-]+){1,6}?)?"
_STOPS = (*_DENIALS, "than", "by", "and", "but", "while", "that", "there")

OVERALL = [
    re.compile(pattern)
    for pattern in (
        rf"{_X}{_OWN}[\s*_\"]+{_BE}{_between(5, *_STOPS)}\s+{_BEST}",  # B's answer is clearly the better one
        rf"{_X}[\s*_]+{_LY}(?:has\s+)?{_WINS}\b",  # B wins
        rf"{_X}[\s*_]+{_LY}{_GIVES}{_LY}(?:better|best)\s+(?:overall\s+)?{_WORK}\b",  # B gives the better answer
        rf"\b{_CHOOSE}\b(?:\s+{_LEADS_TO})*[\s:*_\"]+{_X}",  # I prefer B
        rf"\b{_BEST}(?:\s+[\w'’-]+){{0,9}}?\s*(?:\bis\b|\bwould be\b|:)[\s:*_\"]*{_X}(?!['’]s)",  # the better one is B
        rf"{MENTION}[\s*_]+(?:is|was|seems|looks)(?:\s+\w+ly)?\s+{_WORST}\b[^.;{_OTHER}]{{0,60}}?\b(?:than|to)\s+{_X}",
        rf"\b(?:outperformed|beaten|surpassed)\s+by\s+{_X}",
        rf"\b(?:vote|point|win|victory|preference)\s+(?:goes\s+)?(?:to|for)\s+{_X}",
    )
]
"""Overall verdicts."""

_MORE = r"(?:more(?!\s+than\b)|better|clearer|stronger|richer|deeper|greater|closer|easier)\b"
_COMPARED = rf"{_X}[*_\"]*(?:['’]s)?{_between(10, *_DENIALS, 'lacks?', 'fails?', 'while', 'but', 'than')}\s+{_MORE}"
_FAULTS = _words("faults")
_CORRECT = rf"{_X}[*_\"]*\s+is\s+(?:the\s+)?(?:only\s+)?(?:correct|right)\b"
COMPARED = [re.compile(_COMPARED), re.compile(_CORRECT)]
"""Comparisons: "B is more coherent", "B gives clearer reasons", "B is correct"."""
COMPARED_WELL = [
    re.compile(rf"{_COMPARED}(?!\s+(?:\w+\s+){{0,2}}{_FAULTS}\w*|\s+(?:of|on)\b|\s+\w+,?\s+but\b)"),
    re.compile(_CORRECT),
]
"""Comparisons, unless about a fault ("more repetitive") or retracted ("more detailed, but")."""

BOTH = re.compile(r"\b(?:they|both|all|two|outputs|responses|answers|summaries|assistants|texts)\b")
_SAME = _words("same")
TIED = re.compile(
    _any(
        (
            r"\b(?:it['’]?s|is|as|call it|declare|verdict)\s+(?:\w+\s+)?(?:tie|draw)\b",
            r"^\W*(?:an?\s+)?(?:tie|draw|tied)\b\W*$",
            rf"{BOTH.pattern}[^.;,]{{0,40}}?\b(?:are|were|is|perform(?:ed)?|did|do)\s+(?:\w+\s+)?{_SAME}\b",
            rf"{BOTH.pattern}\s+tied?\b",
            r"\bno (?:clear |real |significant |overall )?(?:winner|preference)\b",
            r"\b(?:is|are) (?:just )?as good as\b",
            rf"\bneither(?:\s+\w+){{0,4}}?\s+(?:is|was|are)\s+(?:\w+ly\s+)?{_BEST}",
        )
    )
)
NO_TIE = re.compile(r"(?:\b(?:not?|almost|nearly|close to|than)|n['’]t)(?:\s+\w+){0,2}\s*$")

DENIED = re.compile(rf"(?:\b{_words('denied')}|n['’]t)(?:\s+[\w'’-]+){{0,3}}\s*$")
"""Words before a verdict that negate it."""
SET_ASIDE = re.compile(
    rf"\b{_words('set_aside')}\b|\bwhether\b[^,]*$"
    r"|\b(?:some|others|many|most|users|people)(?:\s+\w+){0,2}\s*$"
)
"""Words before a verdict that make it hypothetical or attribute it to somebody else."""
AS_LONG_AS = re.compile(r"[\w\s]{0,12}?\b(?:if|when|unless|for those|in case)\b")
"""Words after a verdict that make it conditional."""

TURN = re.compile(rf"\b{_words('turn')}\b")
CONCLUDES = re.compile(r"^\W*" + _words("concludes"))
FLAT = re.compile(rf"{_SIGNS}*(?:therefore,?\s+)?{_X}{_SIGNS}*\s+is\s+(?:the\s+)?{_BEST}(?:\s+{_WORK})?\W*")
"""A sentence that consists of a verdict only."""

TOGETHER = re.compile(rf"(?:\b(?:both|either|(neither)|between) )?{MENTION} ?(?:/|&|\band\b|\bor\b|\bnor\b) ?{MENTION}")
CLAUSE = re.compile(rf"[.;!?\n]+|,?\s+(?:(?:but|however)\b|(?:and|while|whereas|although|though)(?=\s+{MENTION}))")
SENTENCE = re.compile(r"(?<=[.!?:])[\"'”’)\]*]*\s+|\n+")

PRAISE = re.compile(r"\b" + _words("praise"))
_BLAMES = _words("blames")
_BLAME = rf"(?:{_BLAMES}\b|n['’]t\b)"
BLAME = re.compile(_BLAME)
_WHY = r"\b(?:because|as|since)\b"
BLAMED = re.compile(rf"{_SIGNS}*{MENTION}(?:(?!{_WHY}|\bnot only\b|\bby not\b).)*?\b{_BLAME}")
"""A clause that criticises the label it begins with."""
_REASON = r"\b(?:because|as|since|that|which)\b"
FINE = re.compile(rf"{_SIGNS}*{MENTION}(?:(?!\b{_BLAME}|{_REASON}).)*+(?:$|(?={_REASON}))")
"""A clause without criticism about the label it begins with; reasons may contain any words."""
_LEADS = _words("before_a_label")
NAMED = re.compile(rf"{_SIGNS}*(?:{_LEADS}{_SIGNS}+)*{MENTION}\W*")
"""A text that ends with the only label it names: "I think B"."""
