"""English phrases that express verdicts: patterns over lower-case sentences with masked labels.

Words are in lists, so that a missing word is easy to add; a pattern's only group is the label it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from biaslab.prompts.parsing.mentions import MENTION

_X = f"({MENTION})"
_OTHER = MENTION[1:-1]


def _any(words: Iterable[str] | str) -> str:
    """Pattern of any of some words (or patterns), given as a comma-separated string or a sequence."""
    return "(?:" + "|".join(words.split(", ") if isinstance(words, str) else words) + ")"


def _between(most: int, *stops: str) -> str:
    """Pattern of a limited number of words, none of which is a stop word."""
    return rf"(?:\s+(?!{_any(stops)}\b)[\w'’-]+){{0,{most}}}?"


_DENIALS = (r"\w+n['’]t", "not", "no", "never", "less", "neither", "nor")
_BEST = _any("better, best, superior, preferable, preferred, favou?red, winner, stronger, strongest") + r"\b"
_WORST = _any("worse, inferior, weaker, poorer")
_BE = (
    _any("is, was, are, seems, appears, looks, sounds, reads, remains, stands, would be, will be, to be, be, as")
    + r"\b"
)
_WINS = _any(
    "wins?, won, prevails, outperform(?:s|ed), beats, surpass(?:es|ed), outshines, comes out (?:ahead|on top), "
    "is ahead of, edges out, gets my vote, takes the lead, stands out, "
    r"(?:perform(?:s|ed)|did|does) (?:\w+ly )?better"
)
_GIVES = r"(?:has\s+)?" + _any("provide[sd]?, gives?, gave, given, offer(?:s|ed), has") + r"\s+(?:an?\s+|the\s+)?"
_WORK = _any("answers?, responses?, solutions?, summary, outputs?, one, choice")
_CHOOSE = _any(
    "prefers?, choose, choosing, chose, select, selecting, pick, favou?rs?, go(?:ing)? with, opt for, vote for, "
    "lean towards?, recommend, declare"
)
_LEADS_TO = _any("that, for, the, as, my, to, is, be, say, output, response, answer, summary")
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
_FAULTS = _any(
    "abstract, ambig, basic, complex, complicat, confus, convolut, difficult, error, general, generic, harmful, "
    "inaccura, irrelevan, likely, limited, mislead, mistake, problem, prone, redundan, repetiti, simplistic, "
    "superficial, unclear, vague, verbose, wordy"
)
_CORRECT = rf"{_X}[*_\"]*\s+is\s+(?:the\s+)?(?:only\s+)?(?:correct|right)\b"
COMPARED = [re.compile(_COMPARED), re.compile(_CORRECT)]
"""Comparisons: "B is more coherent", "B gives clearer reasons", "B is correct"."""
COMPARED_WELL = [
    re.compile(rf"{_COMPARED}(?!\s+(?:\w+\s+){{0,2}}{_FAULTS}\w*|\s+(?:of|on)\b|\s+\w+,?\s+but\b)"),
    re.compile(_CORRECT),
]
"""Comparisons, unless about a fault ("more repetitive") or retracted ("more detailed, but")."""

BOTH = re.compile(r"\b(?:they|both|all|two|outputs|responses|answers|summaries|assistants|texts)\b")
_SAME = _any(
    r"equal(?!\s+to\b), equally\s+(?!likely\b|distant\b)\w+, identical, equivalent, tied, indistinguishable, on par, "
    r"the same(?!\s+as\b)"
)
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

DENIED = re.compile(
    rf"(?:\b{_any('not, never, cannot, neither, nor, hardly, without, than')}|n['’]t)(?:\s+[\w'’-]+){{0,3}}\s*$"
)
"""Words before a verdict that negate it."""
_SAYS = "argue[sd]?, claim(?:s|ed), believe[sd], thinks, thought, states?, stated, says, said"
SET_ASIDE = re.compile(
    rf"\b{_any('if, unless, depend(?:s|ing), who, ' + _SAYS)}\b|\bwhether\b[^,]*$"
    r"|\b(?:some|others|many|most|users|people)(?:\s+\w+){0,2}\s*$"
)
"""Words before a verdict that make it hypothetical or attribute it to somebody else."""
AS_LONG_AS = re.compile(r"[\w\s]{0,12}?\b(?:if|when|unless|for those|in case)\b")
"""Words after a verdict that make it conditional."""

TURN = re.compile(rf"\b{_any('but, however, although, though, while, yet, whereas, despite, nevertheless, even if')}\b")
CONCLUDES = re.compile(
    r"^\W*"
    + _any(
        r"therefore, thus, hence, overall, so\b, ultimately, consequently, as a result, "
        r"in (?:conclusion|summary|short|the end), to (?:conclude|sum up), all in all, for these reasons, "
        r"based on, on balance, final, "
        r"(?:verdict|conclusion|decision)\b"
    )
)
FLAT = re.compile(rf"\W*(?:therefore,?\s+)?{_X}\W*\s+is\s+(?:the\s+)?{_BEST}(?:\s+{_WORK})?\W*")
"""A sentence that consists of a verdict only."""

TOGETHER = re.compile(rf"(?:\b(?:both|either|(neither)|between) )?{MENTION} ?(?:/|&|\band\b|\bor\b|\bnor\b) ?{MENTION}")
CLAUSE = re.compile(rf"[.;!?\n]+|,?\s+(?:(?:but|however)\b|(?:and|while|whereas|although|though)(?=\s+{MENTION}))")
SENTENCE = re.compile(r"(?<=[.!?:])[\"'”’)\]*]*\s+|\n+")

PRAISE = re.compile(
    r"\b"
    + _any(
        "accura, appropriate, best, clear, complete, comprehens, concise, correct, creative, detail, divers, "
        "effective, "
        "engaging, excellen, follows, good, great, helpful, perfect, persua, precise, relevan, right, satisf, "
        "specific, "
        "strong, success, suitable, valid, well"
    )
)
_BLAMES = _any(
    r"against, avoid, bad, cannot, dislike, empty, fail\w*, general, generic, hardly, hate, if, irrelevant, "
    r"just (?:an?|the|\w+s)\b, "
    r"lack\w*, less, mis(?:s|sing|sed|ses|leading), neither, never, no, nonsens\w*, nor, not, only, poor\w*, "
    r"redundan\w*, "
    r"reject\w*, repeat\w*, repetit\w*, "
    r"un(?:able|clear|finished|helpful|interesting|necessar|realistic|related|suitable)\w*, vague, weak\w*, "
    r"whether, without, worse, worst, wrong, "
    r"in(?:correct|accurate|complete|appropriate|coherent|consistent|valid)\w*, "
    r""
    r"(?:has|have|had|contain\w*|with|makes?|made)\s+(?:\w+\s+)?(?:\w+\s+)?"
    r"(?:errors?|mistakes?|inaccura\w+|duplicat\w+|typos?|flaws?), "
    r"identical, a copy, the same as"
)
_BLAME = rf"(?:{_BLAMES}\b|n['’]t\b)"
BLAME = re.compile(_BLAME)
_WHY = r"\b(?:because|as|since)\b"
BLAMED = re.compile(rf"\W*{MENTION}(?:(?!{_WHY}|\bnot only\b|\bby not\b).)*?\b{_BLAME}")
"""A clause that criticises the label it begins with."""
_REASON = r"\b(?:because|as|since|that|which)\b"
FINE = re.compile(rf"\W*{MENTION}(?:(?!\b{_BLAME}|{_REASON}).)*+(?:$|(?={_REASON}))")
"""A clause without criticism about the label it begins with; reasons may contain any words."""
_LEADS = _any(
    r"i, i['’](?:d|ll|m), it, it['’]s, is, would, will, be, say, think, guess, believe, probably, definitely, "
    r"clearly, my, for, me, "
    "go, going, so, ok, okay, well, the, choice, answer, then, must, should, has, to, vote, with, in, opinion"
)
NAMED = re.compile(rf"\W*(?:{_LEADS}\W+)*{MENTION}\W*")
"""A text that ends with the only label it names: "I think B"."""
