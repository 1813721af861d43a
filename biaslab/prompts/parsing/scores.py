"""Scores in a text, on a scale, for one or several attributes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache

from biaslab.core.scales import Scale
from biaslab.prompts.parsing import replies
from biaslab.prompts.parsing.replies import NUMBER, NUMERAL, ParsedScore, is_refusal, place_on, without_runs, worth

_ScoreFinder = Callable[[str, Scale], list[float]]

_SCORE = r"(?:score|rating|rate|grade|mark|stars?|verdict|answer)"
_DRESS = r"[ \t\"'*_`]*+"  # formatting that Markdown and JSON put around a word
_OPEN = r"[ \t\"'*_`\[(<]*+"
_CLOSE = r"[ \t\"'*_`\])>.]*+"
_ALONE_ON_LINE = r"(?=(?:weak |strong )?\S{1,60}?(?:[ \t]*(?:out of|/)[ \t]*\S{1,60})?[ \t*_.]*$)"
_NOT = r"(?:\b(?:not|never|cannot|instead of|rather than|than|between|below|above|if)|n['’]t)"
_THEN = r"(?=\s*+(?:$|[^\w\s]|(?:for|in|on|as|because|due|since|based|and|but|with|stars?|points?)\b))"


def parse_score(text: str | None, scale: Scale) -> ParsedScore:
    """Parse the score given in a free text.

    Parameters
    ----------
    text : str or None
        The judge's reply.
    scale : Scale
        The scale of the answer.

    Returns
    -------
    tuple
        The score on the scale, NaN unless the status is ``"ok"``; and the status. ``"out_of_range"``: the text gives a
        score beyond the scale. ``"refused"``: it begins with a refusal and states no score. ``"unparsable"``: it gives
        no score, or several different ones.

    Notes
    -----
    Forms are tried from the most to the least explicit, and the first that occurs decides: a JSON object; ``[[4]]``;
    "Final score: 4"; "Score: 4"; a phrase ("a score of 4", "I rate it a 4", "4 out of 5", "four stars"); a first or
    last line "<Name>: 4"; a number alone at the beginning or end. A number between two labels (3.5 on 1-5) is
    accepted. "4/5" on a scale that does not end at 5 is not an answer on that scale and is not converted.

    Examples
    --------
    >>> from biaslab.core.scales import find_scale
    >>> parse_score("It reads well, so I would give it a score of 4.", find_scale("1-5"))
    (4.0, 'ok')
    >>> parse_score("Rating: strong 3", find_scale("1-5 words"))
    (3.3333333333333335, 'ok')
    >>> parse_score("Score: 9", find_scale("1-5"))
    (nan, 'out_of_range')
    >>> parse_score("Three of the 4 claims are wrong.", find_scale("1-5"))
    (nan, 'unparsable')
    """
    return _read(text, scale, _SCORE)


def parse_scores(text: str | None, attributes: Sequence[str], scale: Scale) -> dict[str, ParsedScore]:
    r"""Parse a score for each attribute.

    Parameters
    ----------
    text : str or None
        The judge's reply: lines such as "coherence: 3", a JSON object with the attributes as keys, or a section for
        each attribute that begins with its name and contains one score.
    attributes : sequence of str
        The attributes, in the order in which they were requested.
    scale : Scale
        The scale of the answer.

    Returns
    -------
    dict
        For each attribute, the result of `parse_score`. With a single attribute, a score without its name counts too.
        With several, only if the text is one bare score per line, one for each attribute.

    Examples
    --------
    >>> from biaslab.core.scales import find_scale
    >>> parse_scores("coherence: 3\nfluency: 5", ["coherence", "fluency"], find_scale("1-5"))
    {'coherence': (3.0, 'ok'), 'fluency': (5.0, 'ok')}
    """
    if len(attributes) == 1:
        name = _spelled(attributes[0])
        return {attributes[0]: _read(text, scale, rf"(?:{name}|{_SCORE})", (_given_for(name),))}
    text = without_runs(text or "")
    lines = [line for line in text.split("\n") if line.strip()]
    listed = [worth(match, scale) for line in lines if (match := _BARE.fullmatch(line))]
    if len(listed) == len(attributes) == len(lines):
        return {name: place_on(scale, value) for name, value in zip(attributes, listed, strict=True)}
    sections = _sections(text, attributes)
    return {name: _read_named(text, scale, name, sections.get(name)) for name in attributes}


def _read(text: str | None, scale: Scale, label: str, first: Sequence[_ScoreFinder] = ()) -> ParsedScore:
    text = without_runs(text or "")
    stated = _first_of(_stated(label), text, scale)
    if stated is None and is_refusal(text):
        return math.nan, "refused"
    readers = (*first, _concluded, _phrased, _name_lines, _at_the_ends)
    return stated or _first_of(readers, text, scale) or (math.nan, "unparsable")


def _first_of(readers: Sequence[_ScoreFinder], text: str, scale: Scale) -> ParsedScore | None:
    """Return the result of the first form that occurs in a text; None if none does."""
    return next((_decide(values, scale) for reader in readers if (values := reader(text, scale))), None)


def _read_named(text: str, scale: Scale, name: str, section: str | None) -> ParsedScore:
    """Parse the score of one attribute among several: next to its name, or alone in its section."""
    if stated := _first_of(_stated(_spelled(name)), text, scale):
        return stated
    if section is not None:
        return _read(section, scale, _SCORE)
    return math.nan, "refused" if is_refusal(text) else "unparsable"


def _decide(values: Sequence[float], scale: Scale) -> ParsedScore:
    return place_on(scale, values[0] if len(set(values)) == 1 else math.nan)


@cache
def _stated(label: str) -> tuple[_ScoreFinder, ...]:
    """Return the parsers of explicit statements, for labels that match a pattern."""
    key = re.compile(rf"(?:final[ _-])?(?:{_SCORE}[ _-](?:for[ _-])?)?{label}(?:[ _-]{_SCORE})?", re.IGNORECASE)
    score = re.compile(rf"(?:\w+[ _-])?{_SCORE}", re.IGNORECASE)
    is_key, is_score = (lambda k: key.fullmatch(k) is not None), (lambda k: score.fullmatch(k) is not None)
    readers: list[_ScoreFinder] = [lambda text, scale: replies.json_scores(text, scale, is_key, is_score)]
    if _SCORE in label:
        readers += [replies.only_entry, _reader(rf"\[\[\s*{NUMERAL}\s*\]\]")]
        readers.append(_reader(rf"<(?:\w+[_-])?{_SCORE}>\s*{NUMERAL}\s*</"))
        readers.append(_reader(_statement(rf"final[ \t]+{label}")))
    boxed = rf"(?: [\w']+){{0,8}}?(?::|\s+is|\s+of)?[\s$*]*\\boxed\{{\s*(?:\\text\{{)?{NUMERAL}"
    return (*readers, _reader(_statement(label)), _reader(rf"\b(?:score|rating|grade|mark){boxed}"))


@cache
def _given_for(name: str) -> _ScoreFinder:
    """Return the parser of "4 out of 5 for coherence"."""
    reader = _reader(rf"(?<![\w.,/:-]){NUMERAL} for (?:its |the )?{name}(?!\w)")
    return lambda text, scale: reader(_DENIED.sub(" ~ ", text), scale)


def _statement(label: str) -> str:
    """Pattern of "<label>: 4", formatted or not; on the next line the number must be alone."""
    named = rf"(?<!\w){label}(?:[ _]+{_SCORE})?(?!\w){_DRESS}(?:\([^()\n]{{0,60}}\){_DRESS})?"
    return rf"{named}(?:[:：=|]|[-–—][ \t]|(?:is|would be)\b)(?:{_OPEN}|\s*+{_OPEN}{_ALONE_ON_LINE}){NUMERAL}"


def _reader(pattern: str) -> _ScoreFinder:
    flags = re.IGNORECASE | re.MULTILINE  # compiled where it is first used, which most commands never do
    return lambda text, scale: [worth(match, scale) for match in re.finditer(pattern, text, flags)]


_GIVES = r"(?:giv(?:e|es|en|ing)|assign(?:s|ed|ing)?|award(?:s|ed|ing)?|rat(?:e|es|ed|ing)|earn(?:s|ed|ing)?"
_GIVES += r"|receiv(?:e|es|ed|ing)|deserv(?:e|es|ing)|gets|scor(?:e|es|ing))"
_SCORE_OF = _reader(rf"(?<!\w){_SCORE}(?: \w+)? of (?:an? |about )?{_OPEN}{NUMERAL}")
_IT = r"(?: (?:it|this|the)(?: \w+){0,2}?)?(?: (?:as|at))?(?: an?|(?<= as)|(?<= at))"
_SCORE_ALONE = _reader(rf"(?<!\w)(?<!above )(?<!below ){_SCORE} {_OPEN}{NUMERAL}(?=[ \t*_)\"']*(?:[.!;\n]|$))")
_MAKES_IT = _reader(rf"\b(?:making|mak(?:es)) (?:it|this|the(?: \w+){{1,2}}?) an? (?:\w+ )?{_OPEN}{NUMERAL}{_THEN}")
_IS_A = _reader(rf"\b(?:score|rating|summary|response|text|answer|story|it)(?: score)? is an? {_OPEN}{NUMERAL}{_THEN}")
_PERFECT = _reader(
    rf"\b{_GIVES}(?: (?:it|this|the)(?: \w+){{0,2}}?)? an? (?:perfect|full)(?: \w+ of)? {_OPEN}{NUMERAL}{_THEN}"
)
_AS = _reader(rf"\b{_GIVES}(?: [\w']+){{1,9}}? as {_OPEN}{NUMERAL}{_THEN}")
_QUALITY = r"(?:perfect|full|complete|excellent|very good|good|high|fair|moderate|low|poor)"
_HAS = rf"(?:{_GIVES}|has|have|having|shows|achieves|demonstrates)"
_DESCRIBED = _reader(
    rf"(?<!not )(?<!never )(?<!n't )(?<!would )(?<!could )(?<!might )(?<!to )\b{_HAS}(?! not\b| no\b)"
    rf"(?: [\w']+){{0,4}}? {_QUALITY} [\w-]+ \({NUMERAL}\)"
)
_SO_SCORE = _reader(
    rf"\b(?:hence|thus|so|therefore|{_GIVES}),?(?: (?:it|an?|the|this)(?: \w+)?)? score {_OPEN}{NUMERAL}{_THEN}"
)
_GIVES_IT = _reader(rf"\b{_GIVES}{_IT} {_OPEN}{NUMERAL}{_THEN}")
_STARS = _reader(rf"(?<![\w.,/:-]){NUMERAL}[ -]stars?\b")
_OUT_OF = re.compile(rf"(?<![\w.,/:-]){NUMERAL}{_THEN}", re.IGNORECASE)
_LINE = re.compile(rf"[^\w\n]*[^\W\d]+{_DRESS}[:=]{_OPEN}{NUMERAL}{_CLOSE}", re.IGNORECASE)
_FIRST = re.compile(rf"(?:yes|no)?[\s,\"'*_`\[(<-]*{NUMERAL}(?:\s*+$|[^\S\n]*+[\n.,:;!)\]>*_`\"'(–—-])", re.IGNORECASE)
_LAST = re.compile(rf"(?:\A|\n|[.!?\"')\]*]\s)\s*+[\[(<*_`\"']*{NUMERAL}{_CLOSE}\s*\Z", re.IGNORECASE)
_CLOSING = re.compile(rf"(?<![\w.,/:-]){NUMERAL}{_CLOSE}\s*\Z", re.IGNORECASE)
_TAKEN_BACK = r"(?:\bnot|n['’]t|\bnever|\bwould|\bcould|\bmight|\bto have)(?: [\w'-]+){1,4} \("
_VERDICT = re.compile(rf"(?![^.!?\n]*{_TAKEN_BACK})[^.!?\n]*\({NUMERAL}\)\s*(?:[.,!]|$)", re.IGNORECASE)
_HYPOTHETICAL = (
    r"(?:\bto (?:make|earn|get|reach|achieve|deserve|be)\b|\b(?:could|might) (?:be|make|earn|get|reach|deserve)\b)"
)
_DENIED = re.compile(
    rf"(?:{_NOT}|{_HYPOTHETICAL})(?: [\w']+){{0,2}}?(?: an?)?(?: an?| perfect)*(?: {_SCORE} of)?(?: an?)? (?:{NUMBER})"
    rf"(?: ?(?:/|out of) ?(?:{NUMBER}))?(?!\w)",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"(?:\A|\n|[.!?]\s)\W{0,80}(?:overall|therefore|in conclusion|in summary|thus|hence)\b[^\n]*", re.IGNORECASE
)
_BARE = re.compile(rf"[\s\"'*_`\[(<]*{NUMERAL}[\s\"'*_`\])>.,;]*", re.IGNORECASE)
_ITEM = re.compile(rf"\s*1\.\s+[^\W\d](?s:.)*\n\s*{NUMERAL}\s*\Z")  # one item of a form, with its answer below
_ENUMERATOR = re.compile(r"^\s*(\d+)[.)]\s", re.MULTILINE)


def _phrased(text: str, scale: Scale) -> list[float]:
    """Parse "a score of 4", "I rate it a 4", "4 stars" and "4 out of 5", unless negated."""
    plain = _DENIED.sub(" ~ ", text)
    forms = (_SCORE_OF, _GIVES_IT, _STARS, _SCORE_ALONE, _MAKES_IT, _IS_A, _PERFECT, _AS, _DESCRIBED, _SO_SCORE)
    values = [value for form in forms for value in form(plain, scale)]
    tops = [worth(match, scale) for match in _OUT_OF.finditer(plain) if match["top"] or match["percent"]]
    return values + [value for value in tops if not math.isnan(value)]


def _concluded(text: str, scale: Scale) -> list[float]:
    """Parse the concluding sentences: "Overall, I give it 4 out of 5"."""
    return [value for match in _CONCLUSION.finditer(text) for value in _phrased(match[0], scale)]


def _name_lines(text: str, scale: Scale) -> list[float]:
    """Parse "<Name>: 4" on the first and on the last line."""
    lines = text.strip().split("\n")
    return [worth(match, scale) for line in {lines[0], lines[-1]} if (match := _LINE.fullmatch(line.strip()))]


def _at_the_ends(text: str, scale: Scale) -> list[float]:
    """Parse the number at the beginning or end of a text, or of its first sentence ("Good (4)."); lists have none."""
    if len(_ENUMERATOR.findall(text)) > 1:
        return []
    matches = (None if _ITEM.match(text) else _FIRST.match(text), _VERDICT.match(text), _LAST.search(text))
    values = [worth(match, scale) for match in matches if match]
    if values and (closing := _CLOSING.search(text)) and scale.low <= worth(closing, scale) <= scale.high:
        values.append(worth(closing, scale))  # "2. The plot is thin, so 4." gives two
    return values


def _sections(text: str, attributes: Sequence[str]) -> dict[str, str]:
    """Split a text at lines that begin with an attribute's name; a repeated name has no section."""
    names = "|".join(f"(?P<a{i}>{_spelled(name)})" for i, name in enumerate(attributes))
    heads = list(re.finditer(rf"^[^\w\n]*(?:{names})(?!\w)", text, re.IGNORECASE | re.MULTILINE))
    ends = [*[head.start() for head in heads][1:], len(text)][: len(heads)]
    sections: dict[str, list[str]] = {}
    for head, end in zip(heads, ends, strict=True):
        sections.setdefault(attributes[int(str(head.lastgroup)[1:])], []).append(text[head.start() : end])
    return {name: parts[0] for name, parts in sections.items() if len(parts) == 1}


def _spelled(name: str) -> str:
    """Pattern of an attribute's name, with spaces, hyphens or underscores between its words."""
    return r"[ _-]".join(re.escape(word) for word in re.split(r"[\s_-]+", name.strip()))
