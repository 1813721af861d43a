"""Self-recognition files (Panickssery et al. 2024, arXiv 2404.13076): a judge's own summary against another one.

``key, model, self_preference``, where ``model`` wrote the other summary. ``forward_comparison`` is the label chosen
when the judge's own summary is shown first, ``backward_comparison`` when it is shown second; their probabilities, if
any, are in ``…_probability`` (of the chosen label) or ``…_comparison_output`` (of both). ``self_preference``, the mean
over both orders, becomes ``p_both_orders`` if neither order has a probability of its own. Where they have one, the mean
turns out to be something else: in the ``label_wrong`` files, it refers to the summary *labelled* as the judge's, which
is the other one; in Llama-2's ``pairs_`` file, to another question (recognition). If neither order is recorded, the
mean is the judgement and the order is unknown; under wrong or random names it is unclear which text the mean refers to,
so it is left out.

``scores_`` files have ``key, model, target_model, scores``, exact distributions over 1 to 5; the value is the expected
score. Data set, naming of authors and, for pairs, the judge are taken from the file name:
``pairs_xsum_gpt4.json``, ``label_wrong_xsum_gpt4.json``, ``scores_xsum_gpt4.json``. A file may hold rows of both data
sets: a key of 40 hexadecimal digits is a CNN/Daily Mail article, one of eight digits an XSum article.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.logs.readers.field_values import measured
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.readings import number_on, probability
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"key", "model", "self_preference"})
SCORE_FIELDS = frozenset({"key", "model", "target_model", "scores"})
_NAME = re.compile(r"(?:pairs|label_(?P<naming>[a-z]+)|scores)_(?P<dataset>[^_]+)_(?P<judge>[^_.]+)\.")
_NAMINGS = {"correct": "authors named rightly", "wrong": "authors named wrongly", "random": "authors named at random"}
_PAIR = (
    "context_id",
    "dataset",
    "candidate_id",
    "opponent_id",
    "order_known",
    "p_both_orders",
    "value",
    "status",
    "label_mass",
)
_SCORE = ("judge", "context_id", "dataset", "candidate_id", "value", "status", "label_mass")
_PROBABILITIES = ("probability", "comparison_output")
_SCALE = "1-5"
#: Data sets recognised by the form of their identifiers.
_IDS = {"cnn": re.compile(r"[0-9a-f]{40}"), "xsum": re.compile(r"\d{8}")}
_OF_OWN_TEXT = ("recorded", "authors named rightly")  # namings under which a bare mean refers to the judge's own text
_UNCLEAR = "self_preference under wrong or random names does not say which text it refers to"


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one pair trial per order, or one of unknown order if the file has only the mean of both."""
    judge, named, naming = _of_name(source.file)
    key, other, mean = rows.take("key", "id"), rows.take("model", "id"), rows.take("self_preference", "number")
    rows.refuse(other == judge, "the other summary is the judge's own")
    rows.refuse((mean < 0) | (mean > 1), "self_preference is not a probability")
    if naming not in _OF_OWN_TEXT:
        rows.leave_out(pd.Series([not _has_orders(record) for record in rows.records], dtype=bool), _UNCLEAR)
    trials: list[tuple[Any, ...]] = []
    for place, record in enumerate(rows.records):
        if rows.good[place]:
            about = (place, key[place], _dataset(key[place], named))
            trials += [(*about, *row) for row in _orders(record, judge, other[place], mean[place])]
    return trials_of_several(trials, _PAIR, judge=judge, template=naming, judge_system=judge)


def read_scores(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per record."""
    names = {name: rows.take(name, "id") for name in ("key", "model", "target_model")}
    chances = [_distribution(scores) for scores in rows.take("scores", "any")]
    wrong = pd.Series([distribution is None for distribution in chances], dtype=bool)
    rows.refuse(wrong, "scores are not probabilities of integers")
    scale, named = scale_named(source.scale or _SCALE), _of_name(source.file)[1]
    trials: list[tuple[Any, ...]] = []
    for place, distribution in enumerate(chances):
        if rows.good[place] and distribution is not None:
            mass = sum(distribution.values())
            expected = sum(score * chance for score, chance in distribution.items()) / mass if mass > 0 else math.nan
            key = names["key"][place]
            about = (names["model"][place], key, _dataset(key, named), names["target_model"][place])
            trials.append((place, *about, *number_on(scale)(expected), mass))
    return trials_of_several(trials, _SCORE, scale=scale.name, answer="distribution")


def _of_name(file: str) -> tuple[str, str, str]:
    """Return judge, data set and naming of authors, from the file name."""
    match = _NAME.match(file.rsplit("/", 1)[-1])
    if match is None:
        return "unknown", "unknown", "recorded"
    return match["judge"], match["dataset"], _NAMINGS.get(match["naming"] or "", "recorded")


def _dataset(key: str, named: str) -> str:
    """Return the data set of an article, by the form of its identifier or else by the file name."""
    return next((name for name, form in _IDS.items() if form.fullmatch(key)), named)


def _has_orders(record: dict[str, Any]) -> bool:
    return any(f"{order}_comparison" in record for order in ("forward", "backward"))


def _orders(record: dict[str, Any], judge: str, other: str, mean: float) -> Iterator[tuple[Any, ...]]:
    if not _has_orders(record):
        yield judge, other, False, mean, *probability(mean), math.nan
        return
    single = any(f"{order}_{field}" in record for order in ("forward", "backward") for field in _PROBABILITIES)
    for order, shown, own in (("forward", (judge, other), mean), ("backward", (other, judge), 1 - mean)):
        value, mass = _first_wins(record, order)
        yield *shown, True, math.nan if single else own, *probability(value), mass


def _first_wins(record: dict[str, Any], order: str) -> tuple[float, float]:
    """Return the probability of the first label and the total of both, from the distribution or the chosen label."""
    distribution = record.get(f"{order}_comparison_output")
    if isinstance(distribution, dict):
        masses = [_chance(distribution.get(label, 0.0)) for label in ("1", "2")]
        total = sum(masses)
        return (masses[0] / total, total) if total > 0 else (math.nan, math.nan)
    chosen = str(record.get(f"{order}_comparison"))
    if chosen not in ("1", "2"):
        return math.nan, math.nan
    probability = f"{order}_probability"
    sure = _chance(record[probability]) if probability in record else 1.0
    return (sure if chosen == "1" else 1 - sure), math.nan


def _chance(value: Any) -> float:
    """Return a probability; NaN if it is not one."""
    return number if 0 <= (number := measured(value)) <= 1 else math.nan


def _distribution(scores: Any) -> dict[int, float] | None:
    """Return the probability of every score; None if the object is not a distribution."""
    if not isinstance(scores, dict) or not scores:
        return None
    distribution = {
        int(score): _chance(chance) for score, chance in scores.items() if re.fullmatch(r"\d{1,3}", str(score))
    }
    whole = len(distribution) == len(scores) and all(chance == chance for chance in distribution.values())
    return distribution if whole and sum(distribution.values()) <= 1 + 1e-6 else None
