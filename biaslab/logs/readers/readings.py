"""Parse verdicts and scores in recorded replies, mapped columns and nested records."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, scale_named
from biaslab.core.schema import count_words
from biaslab.datasets._files import text_key
from biaslab.logs.readers.cells import NUMERAL, plain, read_value, strings
from biaslab.logs.readers.rows import Judged, Judgements, LogSource, Rows
from biaslab.logs.readers.trials import counted, record_trials
from biaslab.prompts.parsing import parse_choice, parse_score, parse_scores
from biaslab.prompts.parsing.choice import concluded_better, formatted_at_the_end, in_brackets
from biaslab.prompts.parsing.phrases import UNKNOWN, names_of
from biaslab.prompts.parsing.replies import ParsedScore, is_refusal, place_on
from biaslab.prompts.parsing.thoughts import split_thought

_ASKED = re.compile(r"\[\[\W{0,3}[ABC]\b[^\[\]\n]*\]\]")
_NUMBER = r"(\d+(?:\.\d+)?)(?:\s*/\s*\d+)?"
_WHOSE = r"(?:scores? (?:of|for) )?(?:the )?(?:assistant|response|answer|model)"
_NAMED_SCORES = re.compile(
    rf"{_WHOSE} ?\W{{0,2}}(?:1|A)\b[^\n\d]{{0,20}}{_NUMBER}\W+{_WHOSE} ?\W{{0,2}}(?:2|B)\b[^\n\d]{{0,20}}{_NUMBER}",
    re.IGNORECASE,
)
_TWO_NUMBERS = re.compile(r"\s*(\d+(?:\.\d+)?)[ ,]+(\d+(?:\.\d+)?)\s*(?:\n|$)")
UNREAD: ParsedScore = (math.nan, "unparsable")
_WORTH: dict[str, ParsedScore] = {"A": (1.0, "ok"), "B": (0.0, "ok"), "C": (0.5, "tie")}


def parse_texts(texts: pd.Series, read: Callable[[Any], ParsedScore]) -> pd.DataFrame:
    """Parse texts, each distinct one once; return ``value`` and ``status``, with missing texts as unparsable.

    In replies of reasoning models, only the answer after the thinking counts.
    """
    codes, distinct = pd.factorize(texts)
    readings = [read_answer(text, read) for text in distinct.tolist()] + [UNREAD]  # missing texts have code -1
    values, statuses = np.array([value for value, _ in readings]), np.array([s for _, s in readings], object)
    return pd.DataFrame({"value": values[codes], "status": statuses[codes]}, index=texts.index)


def read_answer(text: Any, read: Callable[[Any], ParsedScore], *, opened: bool = False) -> ParsedScore:
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


def bracketed(text: str) -> ParsedScore:
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
    chosen = concluded_better(text, names) if verdicts else formatted_at_the_end(text, names)
    if chosen is not None:
        return _WORTH["ABC"[chosen]]
    return math.nan, "refused" if is_refusal(text) else "unparsable"


def lettered(text: str, worth: Mapping[str, ParsedScore] = _WORTH) -> ParsedScore:
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
    return _or_two_scores(texts, bracketed if asked else lettered)


def _or_two_scores(texts: pd.Series, parse: Callable[[str], ParsedScore]) -> pd.DataFrame:
    """Parse each text; where that fails, parse the scores of both assistants."""
    read = parse_texts(texts, parse)
    unread = read["status"].eq("unparsable")
    scored = parse_texts(texts[unread], by_two_scores)
    return read if scored["status"].eq("unparsable").all() else pd.concat([read[~unread], scored]).reindex(read.index)


def by_two_scores(text: str) -> ParsedScore:
    r"""Parse the scores of both assistants, named at the end of a reply or alone on its first line, as a verdict.

    Source: the replies that FairEval (arXiv 2305.17926) and Vicuna's evaluation ask for.

    Examples
    --------
    >>> by_two_scores("Both help.\n\nScore of Assistant 1: 8\nScore of Assistant 2: 7.5")
    (1.0, 'ok')
    >>> by_two_scores("7 9\nThe second.")
    (0.0, 'ok')
    """
    match = next(reversed([*_NAMED_SCORES.finditer(text)]), None) or _TWO_NUMBERS.match(text)
    if match is None:
        return UNREAD
    first, second = float(match[1]), float(match[2])
    return (0.5, "tie") if first == second else (float(first > second), "ok")


def scored(scale: Scale, attribute: str | None = None, pattern: str | None = None) -> Callable[[str], ParsedScore]:
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


def number_on(scale: Scale) -> Callable[[float], ParsedScore]:
    """Return a function that reads a recorded number as a score on a scale, with its status; NaN is no score."""
    return lambda value: place_on(scale, value)


def probability(value: float) -> ParsedScore:
    """Read the probability that the candidate shown first wins; ½ is a tie.

    Examples
    --------
    >>> probability(0.7), probability(0.5), probability(7)
    ((0.7, 'ok'), (0.5, 'tie'), (nan, 'out_of_range'))
    """
    if not 0 <= value <= 1:
        return math.nan, "unparsable" if math.isnan(value) else "out_of_range"
    return (0.5, "tie") if value == 0.5 else (value, "ok")


def _by_pattern(text: str, expression: re.Pattern[str], scale: Scale) -> ParsedScore:
    group = first_group(expression, text)
    try:
        value = math.nan if group is None else float(group)
    except ValueError:
        value = math.nan
    return place_on(scale, value)


OUTCOMES = ("winner", "p_first", "score", "reply")
OF_PAIRS = ("winner", "p_first", "reply")
OF_SCORES = ("score", "reply")
_SIDES = {"first": 1.0, "second": 0.0, "tie": 0.5}
_COLUMNS = {"candidate": 1.0, "opponent": 0.0}  # columns of the row, regardless of the order shown


def read_pair(columns: Mapping[str, pd.Series], outcome: str, source: LogSource) -> pd.DataFrame:
    """Return ``value`` and ``status`` of judgements of two candidates.

    Raises
    ------
    InputError
        If the outcome is one of scores.
    """
    if outcome == "p_first":
        return parse_texts(columns["p_first"], probability)
    if outcome == "winner":
        value = sides(columns["winner"], columns["candidate_id"], columns["opponent_id"], columns.get("swapped"))
        status = np.select([value == 0.5, ~np.isnan(value)], ["tie", "ok"], "unparsable")
        return pd.DataFrame({"value": value, "status": status}, index=columns["winner"].index)
    if outcome == "reply":
        read = source.verdicts
        return read(columns["reply"]) if read is not None else _or_two_scores(columns["reply"], lettered)
    raise InputError("mapping", outcome, "winner, p_first or reply, because there is an opponent_id")


def read_score(columns: Mapping[str, pd.Series], outcome: str, source: LogSource) -> pd.DataFrame:
    """Return ``value`` and ``status`` of judgements of one candidate, each on its ``scale``.

    Raises
    ------
    InputError
        If the outcome is one of pairs, or a scale is unknown.
    """
    if outcome not in OF_SCORES:
        raise InputError("mapping", outcome, "score or reply, because there is no opponent_id")
    values = columns[outcome]
    attribute = columns.get("attribute", pd.Series("", index=values.index)).fillna("")

    known = values.reset_index(drop=True)
    reading = pd.DataFrame({"value": math.nan, "status": "unparsable"}, index=known.index)
    for key, places in known.groupby([columns["scale"].fillna("").to_numpy(), attribute.to_numpy()]).groups.items():
        name, about = cast("tuple[str, str]", key)
        scale = scale_named(name)
        read = number_on(scale) if outcome == "score" else scored(scale, about, source.score_pattern)
        reading.loc[places] = parse_texts(known.loc[places], read)
    reading = reading.set_axis(values.index)
    if outcome == "score" and "reply" in columns:
        reading["status"] = with_refusals(reading["status"], columns["reply"])
    return reading


def with_refusals(status: pd.Series, replies: pd.Series) -> pd.Series:
    """Return the statuses, with those of unreadable replies that refuse to judge as "refused"."""
    declined = replies.map(is_refusal, na_action="ignore").eq(True)  # missing ones are no refusals
    return status.mask(declined & (status == "unparsable"), "refused")


def sides(named: pd.Series, first: pd.Series, second: pd.Series, swapped: pd.Series | None = None) -> Floats:
    """Return 1 if the first candidate is named, 0 for the second, ½ for a tie, NaN if unknown.

    A candidate is named by its identifier, by its position as shown ("first" or "second"), or by its column
    ("candidate" or "opponent", whose positions a swapped row exchanges).
    """
    words = named.str.strip().str.lower()
    by_word, by_column = words.map(_SIDES).to_numpy(float), words.map(_COLUMNS).to_numpy(float)
    if swapped is not None:
        by_column = np.where(swapped.to_numpy(bool), 1 - by_column, by_column)
    by_word = np.where(np.isnan(by_word), by_column, by_word)
    name, one, two = (column.reset_index(drop=True) for column in (named, first, second))
    known = name.notna()
    return np.select([(name == one) & known, (name == two) & known], [1.0, 0.0], by_word)


def human_gaps(
    rows: Sequence[Sequence[str]], first: pd.Series, second: pd.Series, swapped: pd.Series | None = None
) -> pd.Series:
    """Return the mean preference for the candidate shown first, -1 to 1, over people with a known preference."""
    most = max(map(len, rows), default=0)
    gaps = np.full((max(most, 1), len(rows)), np.nan)
    for at in range(most):
        named = strings([row[at] if at < len(row) else None for row in rows])
        gaps[at] = 2 * sides(named, first, second, swapped) - 1
    known = ~np.isnan(gaps)
    count = known.sum(axis=0)
    mean = np.where(known, gaps, 0.0).sum(axis=0) / np.maximum(count, 1)
    return pd.Series(np.where(count > 0, mean, np.nan), index=first.index)


def human_ratings(rows: Sequence[Sequence[str]]) -> dict[str, pd.Series]:
    """Return ``human`` (the mean), ``ratings``, and ``annotators`` (numbered by position in the list)."""
    numerals = [[(at, text.strip()) for at, text in enumerate(row) if NUMERAL.fullmatch(text)] for row in rows]
    means = [sum(float(text) for _, text in row) / len(row) if row else math.nan for row in numerals]
    return {
        "human": pd.Series(means, dtype=float),
        "ratings": strings([" ".join(text for _, text in row) for row in numerals]),
        "annotators": strings([" ".join(str(at) for at, _ in row) for row in numerals]),
    }


BY_CODE = "scored by code, not by a model"
"""Reason for leaving out a score that was not given by a model."""

_WORDS = {"pass": 1.0, "passed": 1.0, "true": 1.0, "yes": 1.0, "fail": 0.0, "failed": 0.0, "false": 0.0, "no": 0.0}

_SOME, _FEW = 0.1, 2  # tolerated share and number of scores out of range; beyond both, the scale is another one
_IN_NUMBERS = ("ok", "out_of_range")  # statuses of scores that are numbers


def score_trials(rows: Rows, source: LogSource, scores: Judgements, tool: str) -> pd.DataFrame:
    """Return one score trial per score of each record.

    Parameters
    ----------
    rows : Rows
        Records of a tool.
    source : Source
        The file, and the user's scale.
    scores : callable
        As in `judged_records`: a judgement has ``context_id`` and ``candidate_id`` (identifiers, or the texts or
        objects themselves), ``attribute`` and ``score`` (a number, a boolean, or a word that `number_of` knows;
        anything else counts as unreadable), and may have ``judge``, ``scale`` (default: 0 to 1), ``reply``, the judged
        ``text``, a ``human`` score on the same scale, ``configuration`` and ``dataset``.
    tool : str
        Name of the data set, and of judges without a name.

    Returns
    -------
    pandas.DataFrame
        Repeated scores of one candidate by one judge are numbered as replicates.
    """
    trials = record_trials(rows, lambda record: (_scored(each, source, tool) for each in scores(record)), tool)
    if trials.empty:
        return trials
    trials = counted(trials)
    return trials if source.scale else _on_one_scale(trials)


def _on_one_scale(trials: pd.DataFrame) -> pd.DataFrame:
    """Mark all scores of a judge on an attribute as out of range if many are, because they are on another scale."""
    beyond = (trials["status"] == "out_of_range").astype(float)
    of = [trials["judge"], trials["attribute"]]
    numbers = trials["status"].isin(_IN_NUMBERS).groupby(of).transform("sum")
    other = beyond.groupby(of).transform("sum") > (_SOME * numbers).clip(lower=_FEW)
    status = trials["status"].mask(other & (trials["status"] == "ok"), "out_of_range")
    return trials.assign(value=trials["value"].mask(other), status=status)


def _scored(judged: Judged | str, source: LogSource, tool: str) -> Judged | str:
    """Return the columns of a trial; a reason unchanged."""
    if isinstance(judged, str):
        return judged
    scale, number = scale_named(source.scale or judged.get("scale", "0-1")), number_of(judged["score"])
    value, status = UNREAD if math.isnan(number) else number_on(scale)(number)
    text, reply = judged.get("text"), judged.get("reply")
    return {
        "context_id": identity(judged["context_id"]),
        "candidate_id": identity(judged["candidate_id"]),
        "attribute": str(plain(judged["attribute"])),
        "value": value,
        "status": status,
        "judge": plain(read_value(judged.get("judge"), "id")) or tool,
        "dataset": judged.get("dataset", tool),
        "scale": scale.name,
        "reply": plain(reply) if isinstance(reply, str) else None,
        "human": judged.get("human", math.nan),
        "words": float(count_words(text)) if isinstance(text, str) else math.nan,
        "configuration": judged.get("configuration", "recorded"),
    }


def number_of(score: Any) -> float:
    """Return a score as a number; true, "pass" and "yes" are 1; NaN if it is not a score.

    Examples
    --------
    >>> number_of(0.5), number_of("0.5"), number_of(True), number_of("Fail")
    (0.5, 0.5, 1.0, 0.0)
    """
    if isinstance(score, str):
        word = score.strip().lower()
        return float(word) if NUMERAL.fullmatch(word) else _WORDS.get(word, math.nan)
    if isinstance(score, bool) or (isinstance(score, int | float) and abs(score) < 1e300):
        return float(score)
    return math.nan


def identity(value: Any) -> str:
    """Return a short identifier unchanged, or a hash of a long text or an object; `ValueError` for an empty value.

    Examples
    --------
    >>> identity("q1"), identity(7), len(identity({"question": "What is it?"})) < 20
    ('q1', '7', True)
    """
    named = read_value(value, "id")
    if named is not None and len(named) <= 64 and "\n" not in named:
        return str(plain(named))
    if value is None or value == "" or value != value:
        raise ValueError("no identifier")
    text = named or json.dumps(value, sort_keys=True, default=str)
    return text_key(str(plain(text)))


def text_of(value: Any) -> str | None:
    """Return a text, or that of a message, of the only message of a list, or in an object with a single field."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        value = value["content"] if "content" in value else next(iter(value.values())) if len(value) == 1 else None
    return value if isinstance(value, str) else None
