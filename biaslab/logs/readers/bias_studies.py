"""Formats of studies of biases: CoBBLEr and self-recognition.

CoBBLEr (Koo et al. 2024, arXiv 2309.17012): pairs of systems judged in both orders, and counts of wins.

``…_true_order_<judge>.json``: one line per pair, ``{"model": winner, "combination": [shown first, shown second,
mark]}``, with an empty line after each context. The winner is that of the first order; the mark gives the result of the
swapped order: "fo bias", the first label again; "lo bias", the second label again; "inconsistent", an unreadable reply;
no mark, the same winner. For "Invalid response", the result of the swapped order is not recorded.

``…_preferences_<judge>.json``: one object per context, system → number of its pairs that it won. These are scores from
0 to the number of other systems. The file name gives the judge, whose own system has the same name.

Contexts are numbered by records, regardless of the layout of the JSON: the n-th is the n-th instruction in all files.
The folder gives the condition ("bandwagon" in ``n15_evaluations_bandwagon``), which is the template of pairs and the
configuration of scores. The rest of its name becomes part of the data set's name ("cobbler n15"), so that runs with
other systems are not mixed up.

Self-recognition files (Panickssery et al. 2024, arXiv 2404.13076): a judge's own summary against another one.

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
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.logs.readers.readings import UNREAD, number_on, probability
from biaslab.logs.readers.rows import LogSource, Rows, measured, trials_of_several
from biaslab.prompts.parsing.replies import ParsedScore

_INVALID = "Invalid response"
_COBBLER_NAME = re.compile(r"(?:true_order|preferences)_(?P<judge>.+?)(?:\.\w+)*$")
#: Result of the swapped order: the probability that the system shown first in it wins.
_MARKS: dict[str, ParsedScore] = {"fo bias": (1.0, "ok"), "lo bias": (0.0, "ok"), "inconsistent": UNREAD}
#: Possible winners of the first order, by mark: the system shown first (0) or second (1).
_WINNERS = {"fo bias": (0,), "lo bias": (1,), "inconsistent": (0, 1)}
_EMPTY = 2  # maximum lines between records of JSON Lines, with one empty line; objects in a list may take more
_FEWEST = 3  # minimum systems of win counts; fewer numbers may be anything
_FOLDER = re.compile(r"[_-]?evaluations?[_-](?P<condition>[a-z]+)", re.IGNORECASE)
#: Systems of the paper; they identify the win counts of judges with many unreadable replies, which do not add up.
_SYSTEMS = re.compile(
    r"gpt|alpaca|baize|cohere|dolly|falcon|koala|llama|mpt|olmo|open-?assist|redpajama|vicuna|wizard", re.IGNORECASE
)


def read_cobbler(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return two pair trials per record, one per order; only one for an invalid response."""
    winner, shown = rows.take("model", "id"), rows.take("combination", "list")
    whole = [_is_comparison(name, combination) for name, combination in zip(winner, shown, strict=True)]
    rows.refuse(~pd.Series(whole, dtype=bool), "combination is not two systems with the winner and a known mark")
    context = _contexts(rows, list(shown))
    trials: list[tuple[Any, ...]] = []
    for place, name, combination in rows.each(winner, shown):
        first, second, *mark = combination
        if name == _INVALID:
            trials.append((place, context[place], first, second, *UNREAD))
            continue
        reading = _MARKS[mark[0]] if mark else (float(name == second), "ok")
        trials.append((place, context[place], first, second, float(name == first), "ok"))
        trials.append((place, context[place], second, first, *reading))
    names = ("context_id", "candidate_id", "opponent_id", "value", "status")
    dataset, condition = _of_folder(source.file)
    return trials_of_several(trials, names, judge=_cobbler_judge(source.file), dataset=dataset, template=condition)


def are_cobbler_wins(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether at least half of the records are counts of wins by system.

    No record may add up to more than the number of pairs. Some record must add up to it, or, for judges that never
    answered all pairs, most of the systems must be those of the paper.
    """
    (systems, _), *_ = Counter(frozenset(record) for record in records).most_common(1)
    pairs = len(systems) * (len(systems) - 1) // 2
    wins = [record for record in records if set(record) == systems and _are_wins(record)]
    if len(systems) < _FEWEST or 2 * len(wins) < len(records) or any(_cobbler_total(record) > pairs for record in wins):
        return False
    known = sum(_SYSTEMS.search(str(system)) is not None for system in systems)
    return pairs in map(_cobbler_total, wins) or 2 * known > len(systems)


def read_cobbler_wins(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per context and system."""
    wrong = pd.Series([not _are_wins(record) for record in rows.records], dtype=bool)
    rows.refuse(wrong, "not numbers of wins of systems")
    most = max((len(record) for _, record in rows.each(rows.records)), default=2) - 1
    scale = scale_named(source.scale or f"0-{max(most, 1)}")
    read_, context = number_on(scale), _numbers(rows)
    trials = [
        (place, context[place], str(system), *read_(float(wins)))
        for place, record in rows.each(rows.records)
        for system, wins in record.items()
    ]
    dataset, condition = _of_folder(source.file)
    about = {"judge": _cobbler_judge(source.file), "dataset": dataset, "attribute": "wins", "configuration": condition}
    return trials_of_several(trials, ("context_id", "candidate_id", "value", "status"), scale=scale.name, **about)


def _is_comparison(winner: Any, combination: list[Any]) -> bool:
    if not 2 <= len(combination) <= 3 or not all(isinstance(system, str) and system.strip() for system in combination):
        return False
    first, second, *mark = combination
    if first == second or winner not in (first, second, _INVALID):
        return False
    return not mark or any(winner == combination[at] for at in _WINNERS.get(mark[0], ()))


def _numbers(rows: Rows) -> list[str]:
    """Return the number of each record in the file, from 1, also counting records that could not be decoded."""
    lost = sorted(problem.line for problem in rows.log.problems if problem.line not in set(rows.lines))
    return [str(place + 1 + bisect_right(lost, line)) for place, line in enumerate(rows.lines)]


def _contexts(rows: Rows, shown: Sequence[Any]) -> list[str]:
    """Return the number of each record's context.

    In JSON Lines, an empty line ends a context, and a malformed line does not. In a JSON list, on one line or with
    several lines per record, the first repeated pair starts the next context.
    """
    gaps = [line - before for before, line in pairwise(rows.lines)]
    if gaps and not 1 <= min(gaps) <= _EMPTY:
        return _by_repetition(shown)
    malformed = {problem.line for problem in rows.log.problems}
    numbers = [1] if rows.records else []
    for before, line in pairwise(rows.lines):
        skipped = any(between not in malformed for between in range(before + 1, line))
        numbers.append(numbers[-1] + skipped)
    return [str(number) for number in numbers]


def _by_repetition(shown: Sequence[Any]) -> list[str]:
    """Return the number of each record's context; a pair that the context already has starts the next one."""
    number, seen, numbers = 1, set[frozenset[str]](), list[str]()
    for combination in shown:
        pair = frozenset(map(str, combination[:2]))
        if pair in seen:
            number, seen = number + 1, set()
        seen.add(pair)
        numbers.append(str(number))
    return numbers


def _of_folder(file: str) -> tuple[str, str]:
    """Return the data set, with the run named by the folder, and the condition.

    Examples
    --------
    >>> _of_folder("n15_evaluations_bandwagon/nC2_preferences_gpt4.json"), _of_folder("nC2_preferences_gpt4.json")
    (('cobbler n15', 'bandwagon'), ('cobbler', 'recorded'))
    """
    folders = [folder for folder in re.split(r"[/\\]", file)[:-1] if folder]
    matches = [match for folder in folders if (match := _FOLDER.search(folder))]
    condition = matches[-1]["condition"].lower() if matches else "recorded"
    others = [_FOLDER.sub("", folder).strip("_-") for folder in folders]
    return " ".join(["cobbler", *(folder for folder in others if folder)]), condition


def _are_wins(record: Mapping[str, Any]) -> bool:
    counts = [wins for wins in record.values() if isinstance(wins, int) and not isinstance(wins, bool)]
    return len(counts) == len(record) > 1 and all(0 <= wins < len(record) for wins in counts)


def _cobbler_total(record: Mapping[str, Any]) -> int:
    return sum(record.values())


def _cobbler_judge(file: str) -> str:
    match = _COBBLER_NAME.search(file.rsplit("/", 1)[-1])
    return match["judge"] if match else "unknown"


_SELF_RECOGNITION_NAME = re.compile(r"(?:pairs|label_(?P<naming>[a-z]+)|scores)_(?P<dataset>[^_]+)_(?P<judge>[^_.]+)\.")
_NAMINGS = {"correct": "authors named rightly", "wrong": "authors named wrongly", "random": "authors named at random"}
_SELF_RECOGNITION_PAIR = (
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
_SELF_RECOGNITION_SCORE = ("judge", "context_id", "dataset", "candidate_id", "value", "status", "label_mass")
_PROBABILITIES = ("probability", "comparison_output")
_SELF_RECOGNITION_SCALE = "1-5"
#: Data sets recognised by the form of their identifiers.
_IDS = {"cnn": re.compile(r"[0-9a-f]{40}"), "xsum": re.compile(r"\d{8}")}
_OF_OWN_TEXT = ("recorded", "authors named rightly")  # namings under which a bare mean refers to the judge's own text
_UNCLEAR = "self_preference under wrong or random names does not say which text it refers to"


def read_self_recognition(rows: Rows, source: LogSource) -> pd.DataFrame:
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
    return trials_of_several(trials, _SELF_RECOGNITION_PAIR, judge=judge, template=naming, judge_system=judge)


def read_self_recognition_scores(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per record."""
    names = {name: rows.take(name, "id") for name in ("key", "model", "target_model")}
    chances = [_distribution(scores) for scores in rows.take("scores", "any")]
    wrong = pd.Series([distribution is None for distribution in chances], dtype=bool)
    rows.refuse(wrong, "scores are not probabilities of integers")
    scale, named = scale_named(source.scale or _SELF_RECOGNITION_SCALE), _of_name(source.file)[1]
    trials: list[tuple[Any, ...]] = []
    for place, distribution in enumerate(chances):
        if rows.good[place] and distribution is not None:
            mass = sum(distribution.values())
            expected = sum(score * chance for score, chance in distribution.items()) / mass if mass > 0 else math.nan
            key = names["key"][place]
            about = (names["model"][place], key, _dataset(key, named), names["target_model"][place])
            trials.append((place, *about, *number_on(scale)(expected), mass))
    return trials_of_several(trials, _SELF_RECOGNITION_SCORE, scale=scale.name, answer="distribution")


def _of_name(file: str) -> tuple[str, str, str]:
    """Return judge, data set and naming of authors, from the file name."""
    match = _SELF_RECOGNITION_NAME.match(file.rsplit("/", 1)[-1])
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
