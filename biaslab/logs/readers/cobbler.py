"""CoBBLEr (Koo et al. 2024, arXiv 2309.17012): pairs of systems judged in both orders, and counts of wins.

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
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.readings import UNREAD, number_on
from biaslab.logs.readers.rows import Rows, Source
from biaslab.prompts.parsing.numerals import Reading

FIELDS = frozenset({"model", "combination"})
WIN_FIELDS: frozenset[str] = frozenset()
_INVALID = "Invalid response"
_NAME = re.compile(r"(?:true_order|preferences)_(?P<judge>.+?)(?:\.\w+)*$")
#: Result of the swapped order: the probability that the system shown first in it wins.
_MARKS: dict[str, Reading] = {"fo bias": (1.0, "ok"), "lo bias": (0.0, "ok"), "inconsistent": UNREAD}
#: Possible winners of the first order, by mark: the system shown first (0) or second (1).
_WINNERS = {"fo bias": (0,), "lo bias": (1,), "inconsistent": (0, 1)}
_EMPTY = 2  # maximum lines between records of JSON Lines, with one empty line; objects in a list may take more
_FEWEST = 3  # minimum systems of win counts; fewer numbers may be anything
_FOLDER = re.compile(r"[_-]?evaluations?[_-](?P<condition>[a-z]+)", re.IGNORECASE)
#: Systems of the paper; they identify the win counts of judges with many unreadable replies, which do not add up.
_SYSTEMS = re.compile(
    r"gpt|alpaca|baize|cohere|dolly|falcon|koala|llama|mpt|olmo|open-?assist|redpajama|vicuna|wizard", re.IGNORECASE
)


def read(rows: Rows, source: Source) -> pd.DataFrame:
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
    return trials_of_several(trials, names, judge=_judge(source.file), dataset=dataset, template=condition)


def tells_wins(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether at least half of the records are counts of wins by system.

    No record may add up to more than the number of pairs. Some record must add up to it, or, for judges that never
    answered all pairs, most of the systems must be those of the paper.
    """
    (systems, _), *_ = Counter(frozenset(record) for record in records).most_common(1)
    pairs = len(systems) * (len(systems) - 1) // 2
    wins = [record for record in records if set(record) == systems and _are_wins(record)]
    if len(systems) < _FEWEST or 2 * len(wins) < len(records) or any(_total(record) > pairs for record in wins):
        return False
    known = sum(_SYSTEMS.search(str(system)) is not None for system in systems)
    return pairs in map(_total, wins) or 2 * known > len(systems)


def read_wins(rows: Rows, source: Source) -> pd.DataFrame:
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
    about = {"judge": _judge(source.file), "dataset": dataset, "attribute": "wins", "configuration": condition}
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


def _total(record: Mapping[str, Any]) -> int:
    return sum(record.values())


def _judge(file: str) -> str:
    match = _NAME.search(file.rsplit("/", 1)[-1])
    return match["judge"] if match else "unknown"
