r"""Labels chosen in a text: by a mark, by a statement such as "Answer: A", alone on a line, or in a sentence.

The same parser is used for live text answers and recorded logs. A mark takes precedence over surrounding sentences:
``[[A]]``, ``\boxed{A}``, ``<verdict>A</verdict>``, ``{"winner": "A"}``, "Verdict: A". A mark that names none of the
labels is `UNKNOWN`: then nothing is inferred from the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from biaslab.core.errors import InputError
from biaslab.core.trials import Status
from biaslab.prompts.parsing import phrases
from biaslab.prompts.parsing.phrases import MENTION, TIE, UNKNOWN, LabelNames, names_of, place_of, places_in
from biaslab.prompts.parsing.replies import fields, is_refusal, without_runs

VERDICT = r"(?:answer|choice|verdict|decision|winner|preference|selection|judge?ment|conclusion|pick|vote|result)"
"""Pattern of what a verdict is called."""

_STATED = re.compile(
    r"(?:^|[.!?:,]\s|\n)[^\w\n]{0,80}(?P<adjectives>(?:(?:my|the|so|and|thus|therefore|final|overall|best|better|correct|preferred)"
    rf"[\s,]+){{0,4}}){VERDICT}"
    r"\b[*_\"']*\s*(?::|=|is\b|would be\b|goes to\b)(?=[:*_\s]*(?P<said>[^\n]{0,200}))",
    re.IGNORECASE,
)
_ENDS = r"[.:;!–—]|\s\((?![A-Za-z]\))|\s-\s|,?\s+(?:because|since)\b|,\s+(?:as|for)\b"
_HEAD = re.compile(_ENDS)
_STOP = re.compile(rf"{_ENDS}|(?<=[\"'])\s*[,}}]|\s+(?:is|was|for|over|due|based|by|wins|with)\s")
_LAST = re.compile(r"(?:^|[.!?:]\s+)(\[[^\[\]\n]{1,40}\]|\*\*[^*\n]{1,40}\*\*)[\s.]*$")
_DOUBLE_BRACKETS = re.compile(r"\[\[\s*([^\[\]\n]{1,60}?)\s*\]\]")
_BRACKETS = re.compile(r"\[\[\s*([^\[\]\n]{1,60}?)\s*\]\](?!\**\w)")
_DRESSED = re.compile(r"<\|\s*([A-Za-z0-9])\s*\|>|\*\*\[\s*([A-Za-z0-9])\s*\]\*\*")  # <|A|>, **[B]**
_BOXED = re.compile(r"\\boxed\s*\{\s*(?:\\(?:text|mathrm|mathbf)\w*\s*\{)?\s*([^{}\n]{1,60}?)\s*\}")
_TAGS = re.compile(rf"<((?:final[_ -]?)?{VERDICT})>(.*?)(?:</\1>|$)", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(rf"(?:(?:final|overall|better|best|preferred)[_ -]?)?{VERDICT}", re.IGNORECASE)
_DEGREES = re.compile(r"(.*[^><=])\s*(>>?|=|<<?)\s*([^><=].*)")
_FORMS: tuple[Callable[[str], list[str]], ...] = (
    _BRACKETS.findall,
    _BOXED.findall,
    lambda text: [inside for _, inside in _TAGS.findall(text)],
    lambda text: fields(text, _FIELD),
    lambda text: [one or other for one, other in _DRESSED.findall(text)],
)
_BETTER = re.compile(
    r"\W{1,3}(?:is|was|performs|performed|does|did)\b.*\b(?:better|superior|stronger|preferable)\b.*\b(?:than|to)\b"
)
_SENTENCE_END = re.compile(r"[.!?\n]")
_REACH = 200  # maximum letters of a sentence before, between and after labels that are searched
_FAR = 1000  # maximum letters before a verdict in which it may be negated or attributed to somebody else
_OPEN = re.compile(r"\b(?:if|whether|not|never|would|could|might|unless|when|hardly)\b|n['’]t\b", re.IGNORECASE)


def parse_choice(text: str | None, labels: Sequence[str], tie: str | None = None) -> tuple[int | None, Status]:
    """Parse which label a free text chose.

    Parameters
    ----------
    text : str or None
        The judge's reply.
    labels : sequence of str
        The labels it was asked to choose from, for example ``("Summary A", "Summary B", "Tie")``.
    tie : str, optional
        The label that means a tie, for example "C" in pair logs; by default recognised by its wording ("Tie", "Draw").

    Returns
    -------
    tuple
        Index of the label, or None; and the status. ``"tie"``: the text declares a tie although no label means one.
        ``"refused"``: it begins with a refusal and contains no decision. ``"unparsable"``: it contains no decision, or
        contradictory ones.

    Raises
    ------
    InputError
        If ``tie`` is not one of the labels.

    Notes
    -----
    Forms are tried from the most to the least explicit, and the first that occurs decides: ``[[A]]`` or ``[[A>>B]]``;
    "Answer: A"; a label alone on the first or last line; then the sentences of the text: overall verdicts ("A is
    better", "I prefer A", "it is a tie") before comparisons ("A is more coherent"), and finally praise of one label
    along with criticism of the other, or praise of the only label named.

    A label is named by itself or, if labels differ in their last word, by that word alone. A single letter counts in
    its own case and as a separate word, and at the start of a sentence only if it cannot be an article: "A good
    question." names nothing. All rules see masked labels, so none can favour one of them.

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
    text, names = without_runs(text), names_of(tuple(labels), tie)
    places = marked(text, names)
    if not places:  # a text names labels in its own form, too: "[[A]] is better than [[B]]" is a sentence about both
        bare = _BRACKETS.sub(r"\1", text)
        places = alone(bare, names) or decided(names.mask(bare))
    if len(places) != 1 or UNKNOWN in places:
        return None, "refused" if places <= {UNKNOWN} and is_refusal(text) else "unparsable"
    place = places.pop()
    if place != TIE:
        return place, "ok"
    return (names.tie, "ok") if names.tie >= 0 else (None, "tie")


def marked(text: str, names: LabelNames) -> set[int]:
    r"""Return the labels in the marks of a text: places, `TIE`, `UNKNOWN`; empty if it has no mark.

    The first form that occurs decides. Contradictory marks are resolved by a statement, such as "My final verdict is
    [[A]]"; without one, two labels in brackets are names in a sentence ("[[A]] is better than [[B]]").

    Examples
    --------
    >>> from biaslab.prompts.parsing.phrases import names_of
    >>> names = names_of(("A", "B", "Tie"))
    >>> marked("A is clearer, B is longer. [[C]]", names) == {TIE}, marked("A is better. [[D]]", names) == {UNKNOWN}
    (True, True)
    >>> marked(r"B is longer, so \boxed{A}", names), marked('{"winner": "B", "why": "A is vague"}', names)
    ({0}, {1})
    """
    for form in _FORMS:
        places = _read(form(text), names)
        if len(places) == 1:
            return places
        if TIE in places:
            return stated(text, names) or places
    return stated(text, names)


def in_brackets(text: str, names: LabelNames) -> set[int]:
    """Return the labels in double brackets: ``[[A]]``, ``[[A>B]]``, ``[[A>>B]]``, and `TIE` for ``[[A=B]]``.

    Examples
    --------
    >>> from biaslab.prompts.parsing.phrases import names_of
    >>> in_brackets("My final verdict is [[B>>A]].", names_of(("A", "B")))
    {1}
    """
    return _read(_BRACKETS.findall(text), names)


def formatted_at_the_end(text: str, names: LabelNames) -> int | None:
    r"""Return the label at the end of a text as ``**[B]**`` or ``<|A|>``, if no other label is formatted like that.

    Examples
    --------
    >>> from biaslab.prompts.parsing.phrases import names_of
    >>> names = names_of(("A", "B"))
    >>> formatted_at_the_end("A is vague.\n**[B]**", names), formatted_at_the_end("**[B]** or **[A]**", names) is None
    (1, True)
    """
    marks = list(_DRESSED.finditer(text))
    places = _read([mark[1] or mark[2] for mark in marks], names)
    if not marks or text[marks[-1].end() :].strip(" \t\r\n.*") or len(places) != 1 or UNKNOWN in places:
        return None
    return places.pop()


def concluded_better(text: str, names: LabelNames) -> int | None:
    """Return the first of the last two labels, if the reply calls it better: "Therefore, [[B]] is better than [[A]]".

    Examples
    --------
    >>> from biaslab.prompts.parsing.phrases import names_of
    >>> names = names_of(("A", "B"))
    >>> concluded_better("Both are fine. Therefore, [[B]] is better than [[A]].", names)
    1
    >>> concluded_better("Write [[A]] if [[A]] is better than [[B]].", names) is None
    True
    """
    marks = list(_DOUBLE_BRACKETS.finditer(text))
    if len(marks) < 2 or marks[-1].start() - marks[-2].end() > _REACH:
        return None
    better, other = (names.exactly(mark[1]) for mark in marks[-2:])
    between = text[marks[-2].end() : marks[-1].start()]
    before = _SENTENCE_END.split(text[max(marks[-2].start() - _REACH, 0) : marks[-2].start()])[-1]
    if better is None or other is None or better == other or _SENTENCE_END.search(between):
        return None
    return better if _BETTER.match(between) and not _OPEN.search(f"{before} {between}") else None


def _read(marks: list[str], names: LabelNames) -> set[int]:
    """Return the labels that marks name; `UNKNOWN` only if none of them names one."""
    places = {place for mark in dict.fromkeys(marks) for place in _places(mark, names)}
    return places - {UNKNOWN} or places


def _places(mark: str, names: LabelNames) -> Iterator[int]:
    """Yield the label that one mark names: exactly, by a degree of preference, or in words."""
    place = names.exactly(mark, any_case=True)
    place = _degree(mark, names) if place is None else place
    if place is not None:
        yield place
        return
    places = (stated(mark, names) or alone(mark, names) or decided(names.mask(mark))) if mark.strip() else set()
    yield places.pop() if len(places) == 1 else UNKNOWN


def _degree(inside: str, names: LabelNames) -> int | None:
    compared = _DEGREES.fullmatch(inside) if len(inside) <= _REACH else None
    if compared is None:
        return None
    first, second = names.exactly(compared[1]), names.exactly(compared[3])
    if first is None or second is None or first == second:
        return None
    return TIE if compared[2] == "=" else first if compared[2].startswith(">") else second


def stated(text: str, names: LabelNames) -> set[int]:
    r"""Return the labels after "Answer:", "Choice:", "My final verdict is" and the like.

    `UNKNOWN` means a label-like word that is not a label, as in "Verdict: D"; in a sentence ("The answer is clear")
    nothing is stated.

    Examples
    --------
    >>> from biaslab.prompts.parsing.phrases import names_of
    >>> stated("I weighed both and choose:\n\nChoice: B\nReason: A is shorter.", names_of(("A", "B")))
    {1}
    """
    places: set[int] = set()
    for match in _STATED.finditer(text):
        statement = match["said"]
        if len({names.exactly(label) for label in _DOUBLE_BRACKETS.findall(statement)}) > 1:  # "[[A]] or [[B]]"
            continue
        lead = _lead(statement, _STOP)
        if (place := names.exactly(lead)) is not None:
            places.add(place)
        elif names.resembles(lead) and "correct" not in match["adjectives"].lower():  # "The correct answer is D"
            places.add(UNKNOWN)
    return places - {UNKNOWN} or places


def alone(text: str, names: LabelNames) -> set[int]:
    r"""Return the label that is the whole text, or its beginning or end: "B.", "A: it is clearer", "… [A]".

    Examples
    --------
    >>> from biaslab.prompts.parsing.phrases import names_of
    >>> alone("A: clear\nB: muddled", names_of(("A", "B"))), alone("A: it is clearer", names_of(("A", "B")))
    (set(), {0})
    """
    if (whole := names.exactly(text, any_case=True)) is not None:
        return {whole}
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    opening, closing = names.exactly(_lead(lines[0], _HEAD)), _closing(lines[-1], names)
    heads = {place for line in lines if (place := names.exactly(_lead(line, _HEAD))) is not None}
    if len(heads) > 1 or (len(lines) > 1 and lines[0].rstrip("*_ ").endswith(":")):  # a list, or a heading
        opening = None
    return {place for place in (opening, closing) if place is not None}


def _closing(line: str, names: LabelNames) -> int | None:
    """Return the label in the last line: the whole line, or its last sentence in brackets or bold."""
    last = _LAST.search(line)
    if last is None:
        return names.exactly(line)
    place = names.exactly(last[1])
    return UNKNOWN if place is None and names.resembles(last[1]) else place


def _lead(statement: str, ends: re.Pattern[str]) -> str:
    """Return the beginning of a line, up to the end of the statement."""
    end = ends.search(statement)
    return statement[: end.start()] if end else statement


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
    >>> from biaslab.prompts.parsing.phrases import names_of
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
    in_one_respect = len(sentences) > _BRIEF or any(_matching_labels(each, phrases.COMPARED) for each in sentences)
    return set() if in_one_respect and not _concludes(verdicts[-1][0], sentences) else set(places)


def _concludes(sentence: str, sentences: Sequence[str]) -> bool:
    last = sentence == sentences[-1] and phrases.FLAT.fullmatch(sentence) is not None
    return last or phrases.CONCLUDES.match(sentence) is not None


def _verdicts(sentence: str) -> list[int]:
    """Return the overall verdicts of one sentence; a tie that it retracts does not count."""
    places = _matching_labels(sentence, phrases.OVERALL)
    if (turn := phrases.TURN.search(sentence)) and re.search(MENTION, sentence[turn.end() :]):
        return places
    ties = (match for match in phrases.TIED.finditer(sentence) if not phrases.NO_TIE.search(_before(match)))
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
        and not phrases.DENIED.search(before := _before(match))
        and not phrases.SET_ASIDE.search(before)
        and not phrases.AS_LONG_AS.match(sentence, match.end())
    ]


def _before(match: re.Match[str]) -> str:
    return match.string[max(match.start() - _FAR, 0) : match.start()]


def settled(text: str, labels: Sequence[str], named: Collection[int]) -> tuple[int | None, Status]:
    """Return the label that a text decides for, among those that it names literally.

    Parameters
    ----------
    text : str
        The judge's reply.
    labels : sequence of str
        All labels.
    named : collection of int
        The places of the labels named in it.

    Returns
    -------
    tuple
        One of these places, or None; and the status: "ambiguous" if the text names several without deciding for one,
        or decides against the only one; "refused" if it begins with a refusal.

    Examples
    --------
    >>> settled("B is better than A.", ("A", "B"), {0, 1}), settled("A is worse.", ("A", "B"), {0})
    ((1, 'ok'), (None, 'ambiguous'))
    >>> settled("Not A.", ("A", "B"), {0}), settled("If any, then B here.", ("A", "B"), {1})
    ((None, 'ambiguous'), (1, 'ok'))
    """
    place, status = parse_choice(text, labels)
    if place in named:
        return place, "ok"
    if status == "refused":
        return None, "refused"
    if (
        place is not None
        or len(set(named)) != 1
        or _is_against(names_of(tuple(labels)).mask(without_runs(text)).lower())
    ):
        return None, "ambiguous"
    return next(iter(named)), "ok"


def _is_against(masked: str) -> bool:
    """Return whether a clause criticises the label that it begins with, or negates one."""
    for clause in filter(None, phrases.CLAUSE.split(masked)):
        label = re.search(MENTION, clause)
        if label and (phrases.BLAMED.match(clause) or phrases.DENIED.search(clause[: label.start()])):
            return True
    return False
