"""Extract scores given by a model from nested records; shared by the readers of evaluation tools."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.core.schema import count_words
from biaslab.datasets._files import text_key
from biaslab.logs.readers.field_values import NUMERAL, plain, read_value
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.readings import UNREAD, number_on
from biaslab.logs.readers.rows import Rows, Source
from biaslab.prompts.parsing.numerals import Reading

BY_CODE = "scored by code, not by a model"
"""Reason for leaving out a score that was not given by a model."""

_NO_SCORE = "contains no score"
_WORDS: dict[str, float] = {
    "pass": 1.0,
    "passed": 1.0,
    "true": 1.0,
    "yes": 1.0,
    "fail": 0.0,
    "failed": 0.0,
    "false": 0.0,
}
_WORDS |= {"no": 0.0}
_BROKEN = (KeyError, TypeError, IndexError, AttributeError, ValueError)
_SOME, _FEW = 0.1, 2  # tolerated share and number of scores out of range; beyond both, the scale is another one
_IN_NUMBERS = ("ok", "out_of_range")  # statuses of scores that are numbers
_NAMES = ("context_id", "candidate_id", "attribute", "value", "status", "judge", "scale", "reply", "human", "words",
          "configuration", "replicate")  # fmt: skip


class Judged(NamedTuple):
    """A candidate's score, given by a model.

    Parameters
    ----------
    context : object
        The question: its identifier, or the text or object itself.
    candidate : object
        The system that answered.
    attribute : str
        The attribute scored.
    score : object
        A number, a boolean, or a word that `number_of` knows; anything else counts as unreadable.
    judge : object
        The scoring model.
    scale : str
        The tool's scale; the user's overrides it.
    reply : object
        The judge's reply.
    text : object
        The judged text, for its word count.
    human : float
        A human score of the same candidate, on the same scale.
    configuration : str
        The prompt configuration.
    """

    context: Any
    candidate: Any
    attribute: str
    score: Any
    judge: Any = None
    scale: str = "0-1"
    reply: Any = None
    text: Any = None
    human: float = math.nan
    configuration: str = "recorded"


Scores = Callable[[Mapping[str, Any]], Iterable[Judged | str]]


def score_trials(rows: Rows, source: Source, scores: Scores, tool: str) -> pd.DataFrame:
    """Return one score trial per score of each record.

    Parameters
    ----------
    rows : Rows
        Records of a tool.
    source : Source
        The file, and the user's scale.
    scores : callable
        Yields the scores of a record, or a string with the reason for leaving one out. Records that lack a required
        field are refused.
    tool : str
        Name of the data set, and of judges without a name.

    Returns
    -------
    pandas.DataFrame
        Repeated scores of one candidate by one judge are numbered as replicates.
    """
    values: list[tuple[Any, ...]] = []
    seen: Counter[tuple[Any, ...]] = Counter()
    for place, record in rows.each(rows.records):
        try:
            judged = list(scores(record))
            ready = [_row(one, source, tool) for one in judged if isinstance(one, Judged)]
        except _BROKEN:
            rows.refuse(pd.Series(range(len(rows.records))) == place, f"not a record of {tool}")
            continue
        rows.log.left_out.update(reason for reason in judged if isinstance(reason, str))
        if not judged:
            rows.log.left_out[_NO_SCORE] += 1
        for row in ready:
            key = (*row[:3], row[5], row[6], row[10])
            values.append((place, *row, seen[key]))
            seen[key] += 1
    trials = trials_of_several(values, _NAMES, dataset=tool)
    return trials if source.scale else _on_one_scale(trials)


def _on_one_scale(trials: pd.DataFrame) -> pd.DataFrame:
    """Mark all scores of a judge on an attribute as out of range if many are, because they are on another scale."""
    beyond = (trials["status"] == "out_of_range").astype(float)
    of = [trials["judge"], trials["attribute"]]
    counted = trials["status"].isin(_IN_NUMBERS).groupby(of).transform("sum")
    other = beyond.groupby(of).transform("sum") > (_SOME * counted).clip(lower=_FEW)
    status = trials["status"].mask(other & (trials["status"] == "ok"), "out_of_range")
    return trials.assign(value=trials["value"].mask(other), status=status)


def _row(judged: Judged, source: Source, tool: str) -> tuple[Any, ...]:
    scale = scale_named(source.scale or judged.scale)
    words = float(count_words(judged.text)) if isinstance(judged.text, str) else math.nan
    judge = plain(read_value(judged.judge, "id")) or tool
    reply = plain(judged.reply) if isinstance(judged.reply, str) else None
    about = (identity(judged.context), identity(judged.candidate), str(plain(judged.attribute)))
    return (*about, *_reading(judged.score, scale), judge, scale.name, reply, judged.human, words,
            judged.configuration)  # fmt: skip


def _reading(score: Any, scale: Any) -> Reading:
    number = number_of(score)
    return UNREAD if math.isnan(number) else number_on(scale)(number)


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


def field(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the value of the first field that a record has; raise `KeyError` if it has none.

    Examples
    --------
    >>> field({"question": "Who?"}, ["user_input", "question"])
    'Who?'
    """
    return record[next((name for name in names if name in record), next(iter(names)))]


def text_of(value: Any) -> str | None:
    """Return the text of an output: the output itself, or the text in an object with a single field; else None."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, str) else None


def people_means(
    rows: Rows,
    is_persons: Callable[[Mapping[str, Any]], bool],
    key: Callable[[Mapping[str, Any]], tuple[Any, ...]],
    score: Callable[[Mapping[str, Any]], Any],
) -> Callable[[Mapping[str, Any]], float]:
    """Return a function that maps a record to the mean human score with the same key; NaN if there is none."""
    numbers: dict[tuple[Any, ...], list[float]] = {}
    for record in rows.records:
        if is_persons(record) and not math.isnan(number := number_of(score(record))):
            numbers.setdefault(key(record), []).append(number)
    means = {each: sum(scores) / len(scores) for each, scores in numbers.items()}
    return lambda record: means.get(key(record), math.nan)
