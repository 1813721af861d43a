"""Parse verdicts and scores in recorded replies; unreadable replies get a status, never a guess."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, scale_named
from biaslab.prompts.parsing import parse_choice, parse_score, parse_scores
from biaslab.prompts.parsing.choice import concluded_better, dressed_at_the_end, in_brackets
from biaslab.prompts.parsing.mentions import UNKNOWN, names_of
from biaslab.prompts.parsing.numerals import Reading, place_on
from biaslab.prompts.parsing.thoughts import split_thought
from biaslab.prompts.parsing.whole_replies import is_refusal

_ASKED = re.compile(r"\[\[\W{0,3}[ABC]\b[^\[\]\n]*\]\]")
_FAILED = re.compile(r"\s*(?:Failed to obtain answer via API|\$ERROR\$)")
UNREAD: Reading = (math.nan, "unparsable")
_WORTH: dict[str, Reading] = {"A": (1.0, "ok"), "B": (0.0, "ok"), "C": (0.5, "tie")}


def each(texts: pd.Series, read: Callable[[Any], Reading]) -> pd.DataFrame:
    """Parse texts, each distinct one once; return ``value`` and ``status``, with missing texts as unparsable.

    In replies of reasoning models, only the answer after the thinking counts.
    """
    codes, distinct = pd.factorize(texts)
    readings = [read_answer(text, read) for text in distinct.tolist()] + [UNREAD]  # missing texts have code -1
    values, statuses = np.array([value for value, _ in readings]), np.array([s for _, s in readings], object)
    return pd.DataFrame({"value": values[codes], "status": statuses[codes]}, index=texts.index)


def read_answer(text: Any, read: Callable[[Any], Reading], *, opened: bool = False) -> Reading:
    """Parse a reply, ignoring any thinking before the answer; values that are not text are parsed as they are.

    Parameters
    ----------
    text : str or object
        The recorded reply.
    read : callable
        Parses an answer.
    opened : bool
        Whether the prompt already opened the thinking; see `biaslab.prompts.parsing.thoughts.split_thought`.

    Examples
    --------
    >>> read_answer("<think>A is long. [[A]]? No.</think> [[B]]", bracketed)
    (0.0, 'ok')
    >>> read_answer("<think>A is long. [[A]], or", bracketed)
    (nan, 'cut_off')
    """
    if not isinstance(text, str):
        return read(text)
    thought, answer = split_thought(text, opened=opened)
    return (math.nan, "cut_off") if thought is not None and not answer else read(answer)


def each_on_scale(
    values: pd.Series,
    scales: pd.Series,
    attributes: pd.Series,
    reader: Callable[[Scale, str], Callable[[Any], Reading]],
) -> pd.DataFrame:
    """Parse each value with the reader for its scale and attribute."""
    known = values.reset_index(drop=True)
    frame = pd.DataFrame({"value": math.nan, "status": "unparsable"}, index=known.index)
    for key, places in known.groupby([scales.to_numpy(), attributes.to_numpy()]).groups.items():
        name, attribute = cast("tuple[str, str]", key)
        frame.loc[places] = each(known.loc[places], reader(scale_named(name), attribute))
    return frame.set_axis(values.index)


def bracketed(text: str) -> Reading:
    """Parse the ``[[A]]``, ``[[B]]`` or ``[[C]]`` (tie) of a pair log, or degrees such as ``[[A>>B]]``, ``[[A=B]]``.

    Returns
    -------
    tuple
        The probability that the candidate shown first wins, and the status. Only brackets count, because the prompts of
        such logs ask for them, and variants at the end of a text: ``**[B]**``, ``<|A|>``. Two different verdicts are
        unparsable, unless the last sentence says which is better: "Therefore, [[B]] is better than [[A]]".

    Examples
    --------
    >>> bracketed("B is too short. Final verdict: [[A]]"), bracketed("Assistant A is better.")[1]
    ((1.0, 'ok'), 'unparsable')
    """
    names = names_of(tuple(_WORTH), "C")
    verdicts = in_brackets(text, names)
    if len(verdicts) == 1 and UNKNOWN not in verdicts:
        return _WORTH["ABC"[verdicts.pop()]]
    chosen = concluded_better(text, names) if verdicts else dressed_at_the_end(text, names)
    if chosen is not None:
        return _WORTH["ABC"[chosen]]
    return math.nan, "refused" if is_refusal(text) else "unparsable"


def lettered(text: str, worth: Mapping[str, Reading] = _WORTH) -> Reading:
    """Parse the label chosen in a text and return its value; default: "A" first shown, "B" second, "C" tie.

    Examples
    --------
    >>> lettered("Choice: B"), lettered("Response 2 is a better answer."), lettered("This is a tie.")
    ((0.0, 'ok'), (0.0, 'ok'), (0.5, 'tie'))
    """
    tie = next((label for label, (_, status) in worth.items() if status == "tie"), None)
    chosen, status = parse_choice(text, tuple(worth), tie)
    if chosen is None:
        return math.nan, "unparsable" if status == "tie" else status  # grades have no tie
    return list(worth.values())[chosen]


def of_pairs(texts: pd.Series) -> pd.DataFrame:
    """Parse the verdicts of a pair log; return ``value`` and ``status``.

    If any reply has double brackets, the prompt asked for them, and only brackets count, as in the analyses that such
    logs come from. Otherwise all forms count ("Choice: A").
    """
    asked = bool(texts.str.contains(_ASKED).any())
    return each(texts, bracketed if asked else lettered)


def scored(scale: Scale, attribute: str | None = None, pattern: str | None = None) -> Callable[[str], Reading]:
    r"""Return a function that parses the score in a text.

    Parameters
    ----------
    scale : Scale
        The scale the judge was asked to use.
    attribute : str, optional
        Attribute whose name may precede the score.
    pattern : str, optional
        A regular expression to use instead of biaslab's parser; its first matching group is the score.

    Raises
    ------
    InputError
        If the pattern is not a valid regular expression, or has no group.

    Examples
    --------
    >>> from biaslab.core.scales import find_scale
    >>> scored(find_scale("1-5"))("Clear, if short. Rating: 4"), scored(find_scale("1-5"), pattern=r"(\d)/10")("9/10")
    ((4.0, 'ok'), (nan, 'out_of_range'))
    """
    if pattern is not None:
        expression = compiled(pattern, "score_pattern")
        return lambda text: _by_pattern(text, expression, scale)
    if not attribute:
        return lambda text: parse_score(text, scale)
    return lambda text: parse_scores(text, [attribute], scale)[attribute]


def compiled(pattern: str, name: str) -> re.Pattern[str]:
    """Compile a user's regular expression; `InputError` if it is invalid or has no group."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise InputError(name, pattern, f"a regular expression ({error})") from error
    if not expression.groups:
        raise InputError(name, pattern, "a regular expression with a group", r"such as 'Rating: (\d)'")
    return expression


def first_group(pattern: re.Pattern[str], text: str) -> str | None:
    """Return the first matching group if a pattern is found in a text, else None."""
    match = pattern.search(text)
    return next((group for group in match.groups() if group is not None), None) if match else None


def number_on(scale: Scale) -> Callable[[float], Reading]:
    """Return a function that reads a recorded number as a score on a scale, with its status; NaN is no score."""
    return lambda value: place_on(scale, value)


def probability(value: float) -> Reading:
    """Read the probability that the candidate shown first wins; ½ is a tie.

    Examples
    --------
    >>> probability(0.7), probability(0.5), probability(7)
    ((0.7, 'ok'), (0.5, 'tie'), (nan, 'out_of_range'))
    """
    if not 0 <= value <= 1:
        return math.nan, "unparsable" if math.isnan(value) else "out_of_range"
    return (0.5, "tie") if value == 0.5 else (value, "ok")


def failed(texts: pd.Series) -> pd.Series:
    """Flag texts that report a failed call instead of a reply."""
    return texts.str.match(_FAILED).fillna(value=False).astype(bool)


def _by_pattern(text: str, expression: re.Pattern[str], scale: Scale) -> Reading:
    group = first_group(expression, text)
    try:
        value = math.nan if group is None else float(group)
    except ValueError:
        value = math.nan
    return place_on(scale, value)
