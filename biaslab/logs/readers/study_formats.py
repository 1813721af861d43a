r"""Formats of studies of biases: CoBBLEr and self-recognition.

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

Formats of studies of scores: G-Eval, SocREval, Prometheus and SummEval.

Scores with several samples per item: ``source, system_output, prompt, all_responses`` and, mostly, ``scores``.

The format of G-Eval (Liu et al. 2023, arXiv 2303.16634) and of *A Closer Look into Automatic Evaluation Using LLMs*
(Chiang & Lee 2023, arXiv 2310.05657), a JSON list. The prompt gives attribute, scale, output order and whether there
are evaluation steps (auto-CoT); the judge is the part of the file name before the first underscore.

Scores by a reasoning model, with several samples per item: ``id, human, prompt, responses``.

Replies to prompts of *SocREval* (He et al. 2024, arXiv 2310.00074), as JSON Lines. The prompt gives the scale, such as
``[1, 2, 3, 4, 5]``, and the name of the score, which is the last field of its example, such as ``"overall quality":
5``. In a reply, the score is the first number next to that name after the thinking. If any reply in a file closes
thinking that it did not open, the prompt opened it, and replies that do not close it were cut off. Judge and data set
are the parts of the file name before and after the last underscore.

Scores of SummEval summaries: ``judge, system, aspect, mode, id, resp``, one reply per line.

Published with Shen et al. 2023, *Large Language Models are Not Yet Human-Level Evaluators for Abstractive
Summarization* (arXiv 2305.13091). Modes: ``rts`` and ``altrts`` reason, then score; ``stareval`` gives stars; ``mcq``
and ``altmcq`` choose A (1, worst) to E (5, best). Modes that end in "old" are superseded and left out.

Read LLMBar's ``result.json`` (Zeng et al. 2024, arXiv 2310.07641): a list of pairs, each judged in both orders.

``input, output_1, output_2, label, results``. The last entry of ``results`` is the verdict, ``{"swap = False":
{completion, winner}, "swap = True": …}``; earlier entries are intermediate steps that the judge saw before it decided
(the questions of ``Metrics``, the answer of ``Reference``, or the first round of ``Swap``), not replicates. With swap,
output_2 was shown first; ``winner`` is already mapped back.

If the last entry has ``score_1`` and ``score_2`` (``Rating*``), each output was scored separately, 0 to 9, and
``winner`` derives from the scores, with ties broken by the order: the trials are scores, and ``winner`` is ignored.

The gold ``label`` is the human preference: ``human_gap`` ±1 for pairs, ``human`` 1 or 0 for scores. The prompt is the
context; if several pairs share it, the outputs of the second are called ``output_1 (2)`` and so on. Judge, prompt and
subset are taken from the path, ``<subset>/evaluators/<judge>/<prompt>/result.json``.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.core.schema import count_words
from biaslab.core.trials import Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.readings import UNREAD, each, lettered, number_on, probability, read_answer, scored
from biaslab.logs.readers.rows import LogSource, Rows, measured, plain, strings, trials_of, trials_of_several
from biaslab.prompts.parsing.replies import ParsedScore, is_refusal
from biaslab.prompts.parsing.thoughts import begins_inside

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


_ATTRIBUTE = re.compile(r"^[ \t]*-?[ \t]*(?P<name>[A-Z]\w+):?\s*\Z", re.MULTILINE)
_CRITERION = re.compile(r"\b(?P<name>[A-Z]\w+)[ \t]*\((?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)\)")
_ALL_RESPONSES_SCALE = re.compile(r"scale of (?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)")
_ALL_RESPONSES_NAMES = {
    "summeval": {"coherence", "consistency", "fluency", "relevance"},
    "topicalchat": {"engagingness", "coherence"},
}


_ALL_RESPONSES_COLUMNS = (
    "dataset",
    "context_id",
    "candidate_id",
    "attribute",
    "scale",
    "form",
    "order",
    "configuration",
    "human",
    "words",
    "replicate",
    "reply",
    "value",
    "status",
)


def read_all_responses(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per sample."""
    texts = rows.take_texts("source", "system_output", "prompt")
    context, system = rows.take("context", "text"), rows.take("system_id", "id", "unknown")
    responses, scores = rows.take("all_responses", "list"), rows.take("scores", "any")
    asked = [_question(prompt) if isinstance(prompt, str) else None for prompt in texts["prompt"]]
    rows.refuse(pd.Series([each is None for each in asked]), "the prompt names no attribute with a scale")
    no_text = [not all(isinstance(reply, str | None) for reply in samples) for samples in responses]
    rows.refuse(pd.Series(no_text), "a response is not text")
    values: list[tuple[Any, ...]] = []
    keys: list[str] = []

    @cache
    def reading(text: str, scale: str, attribute: str) -> ParsedScore:
        return read_answer(text, scored(scale_named(scale), attribute, source.score_pattern))

    for place, (question, samples) in enumerate(zip(asked, responses, strict=True)):
        if not rows.good[place] or question is None:
            continue
        attribute, scale, form, order = question
        scale = source.scale or scale
        text, about, output = texts["source"][place], context[place], texts["system_output"][place]
        identity = text_key(*(part.strip() for part in (text, about) if isinstance(part, str)))
        shown = system[place] if system[place] != "unknown" else text_key(output.strip())
        human, words = _human(scores[place], attribute), float(count_words(output))
        fixed = (place, _dataset_of(scores[place]), identity, shown, attribute, scale, form, order, f"{form}, {order}")
        for replicate, reply in enumerate(map(plain, samples)):
            value, status = UNREAD if reply is None else reading(reply, scale, attribute)
            values.append((*fixed, human, words, replicate, reply, value, status))
            keys.append(text_key(text.strip()))
    trials = trials_of_several(values, _ALL_RESPONSES_COLUMNS, judge=source.file.rsplit("/", 1)[-1].split("_")[0])
    return trials.assign(source_key=strings(keys).to_numpy())  # a recorded judge finds the context by this


def _question(prompt: str) -> tuple[str, str, str, str] | None:
    """Return attribute, scale, form and output order; None if the prompt names no attribute with a scale."""
    ends = _ATTRIBUTE.search(prompt)
    spans = [span for span in _CRITERION.finditer(prompt) if ends is None or span["name"] == ends["name"]]
    if not spans:
        return None
    span = _ALL_RESPONSES_SCALE.search(prompt) if ends is None else None
    low, high = (int((span or spans[0])[end]) for end in ("low", "high"))
    if not low < high:
        return None
    tail = prompt[-600:]
    rating, reasons = tail.find('"Rating:'), max(tail.find('"Rationale:'), tail.find('"Analysis:'))
    order = "s" if reasons < 0 else "sr" if 0 <= rating < reasons else "rs"
    form = "question" if ends is None else "auto-CoT" if "Evaluation Steps" in prompt else "no auto-CoT"
    return spans[0]["name"].lower(), f"{low}-{high}", form, order


def _human(scores: Any, attribute: str) -> float:
    return measured(scores.get(attribute)) if isinstance(scores, dict) else math.nan


def _dataset_of(scores: Any) -> str:
    names = set(scores) if isinstance(scores, dict) else set()
    return next((name for name, attributes in _ALL_RESPONSES_NAMES.items() if attributes <= names), "unknown")


_SOCREVAL_SCALE = re.compile(r"\[(\d+)(?:, \d+)*, (\d+)\]")
_SOCREVAL_NAME = re.compile(r'"(\w[\w -]*)": ?\d+(?:\.\d+)?\s*\}')
_SOCREVAL_COLUMNS = ("context_id", "attribute", "scale", "human", "replicate", "reply", "value", "status")


def read_socreval(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per sample."""
    identity, prompts = rows.take("id", "id"), rows.take("prompt", "text")
    human, responses = rows.take("human", "number"), rows.take("responses", "list")
    asked = [_name_and_scale(prompt) if isinstance(prompt, str) else None for prompt in prompts]
    rows.refuse(pd.Series([each is None for each in asked]), "the prompt shows no scale, or no example of a score")
    no_text = [not all(isinstance(reply, str | None) for reply in samples) for samples in responses]
    rows.refuse(pd.Series(no_text), "a response is not text")
    opened = any(begins_inside(reply) for samples in responses for reply in samples if isinstance(reply, str))
    trials: list[tuple[Any, ...]] = []
    for place, (question, samples) in enumerate(zip(asked, responses, strict=True)):
        if not rows.good[place] or question is None:
            continue
        name, stated = question
        scale = scale_named(source.scale or stated)
        read_score = scored(scale, pattern=source.score_pattern or _number_after(name))
        for replicate, reply in enumerate(map(plain, samples)):
            reading = UNREAD if reply is None else read_answer(reply, read_score, opened=opened)
            trials.append((place, identity[place], name, scale.name, human[place], replicate, reply, *reading))
    judge, _, dataset = source.file.rsplit("/", 1)[-1].partition(".")[0].rpartition("_")
    return trials_of_several(
        trials, _SOCREVAL_COLUMNS, judge=judge or "unknown", dataset=dataset, candidate_id="response"
    )


def _name_and_scale(prompt: str) -> tuple[str, str] | None:
    """Return the name of the score and the scale; None if the prompt lacks one of them."""
    scale, name = _SOCREVAL_SCALE.search(prompt), _SOCREVAL_NAME.search(prompt)
    if scale is None or name is None or not int(scale[1]) < int(scale[2]):
        return None
    return name[1], f"{scale[1]}-{scale[2]}"


def _number_after(name: str) -> str:
    """Return a pattern that captures the number after a name, in JSON or Markdown."""
    words = "[ _]".join(map(re.escape, re.split(r"[ _]", name)))
    return rf'(?i){words}"?\s*:?[\s*"]*(\d+(?:\.\d+)?)'


_SUMMEVAL_SCORES_SCALE = "1-5"
_LETTERS: dict[str, ParsedScore] = {letter: (float(worth), "ok") for worth, letter in enumerate("ABCDE", start=1)}
_ORDERS = {"rts": "rs", "altrts": "rs", "stareval": "sr", "mcq": "s", "altmcq": "s"}


def read_summeval_scores(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per record."""
    names = {name: rows.take(name, "id") for name in ("judge", "system", "aspect", "mode", "id")}
    texts, tokens = rows.take("resp", "text"), rows.take("total_len", "number", 0)
    mode = names["mode"].fillna("")
    rows.leave_out(mode.str.endswith("old"), "superseded mode")
    readings = pd.DataFrame({"value": math.nan, "status": "unparsable"}, index=texts.index)
    letters = mode.str.contains("mcq", regex=False)
    readings.loc[letters] = each(texts[letters], lambda text: lettered(text, _LETTERS))
    scale = scale_named(source.scale or _SUMMEVAL_SCORES_SCALE)
    for aspect, part in texts[~letters].groupby(names["aspect"][~letters]):
        readings.loc[part.index] = each(part, scored(scale, str(aspect), source.score_pattern))
    return trials_of(
        {
            "judge": names["judge"],
            "dataset": "summeval",
            "context_id": names["id"],
            "candidate_id": names["system"],
            "attribute": names["aspect"],
            "configuration": mode,
            "form": mode,
            "order": mode.map(_ORDERS),
            "scale": scale.name,
            "tokens": tokens.fillna(0).astype("int64"),
            "reply": texts,
            **readings,
        },
        texts.index,
    )


_OUTPUTS = ("output_1", "output_2")
_SCORES = ("score_1", "score_2")
_LLMBAR_SCALE = "0-9"
_FILTERED = ("content_filter", "content management policy")  # reasons for a missing text
_READING = ("value", "status", "reply")
_LLMBAR_PAIR = ("context_id", "candidate_id", "opponent_id", "human_gap", "words", "opponent_words", *_READING)
_LLMBAR_SCORE = ("context_id", "candidate_id", "human", "words", *_READING)


class _LlmbarItem(NamedTuple):
    """A record: its position, the names of its prompt and outputs, the gold label, and the outputs' word counts."""

    place: int
    name: str
    outputs: tuple[str, ...]
    gold: str
    words: tuple[int, int]


def read_llmbar(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record and order, or one score trial per record and output."""
    texts = rows.take_texts("input", *_OUTPUTS)
    label, results = rows.take("label", "id"), rows.take("results", "list")
    rows.refuse(~label.isin(["1", "2"]), "label is neither 1 nor 2")
    last: list[Any] = [result[-1] if result else None for result in results]
    alone = [_is_rating(result) for result in last]
    whole = [rating or _is_pair(result) for result, rating in zip(last, alone, strict=True)]
    rows.refuse(~pd.Series(whole, dtype=bool), "the last result is neither a verdict in both orders nor two scores")
    subset, judge, prompt = _of_path(source.file)
    pairs: list[tuple[Any, ...]] = []
    scores: list[tuple[Any, ...]] = []
    known: dict[str, dict[str, int]] = {}  # prompt → pair of outputs → number of the pair
    scale = source.scale or _LLMBAR_SCALE
    number = scored(scale_named(scale), None, source.score_pattern)
    for place, gold, result, rating in rows.each(label, last, alone):
        shown = [texts[name][place] for name in _OUTPUTS]
        key, own = text_key(texts["input"][place]), text_key(*shown)
        among = known.setdefault(key, {})
        number_of_pair = among.setdefault(own, len(among) + 1)
        outputs = tuple(f"{name} ({number_of_pair})" if number_of_pair > 1 else name for name in _OUTPUTS)
        words = (count_words(shown[0]), count_words(shown[1]))
        item = _LlmbarItem(place, f"{subset}/{key}" if subset else key, outputs, gold, words)
        if rating:
            scores += _llmbar_scores(item, result, number)
        else:
            pairs += _pairs(item, result)
    about = {"judge": judge or "unknown", "dataset": "llmbar", "subset": subset}
    prompted = prompt or "recorded"
    frames = [
        trials_of_several(pairs, _LLMBAR_PAIR, template=prompted, **about),
        trials_of_several(scores, _LLMBAR_SCORE, configuration=prompted, scale=scale, human_scale="0-1", **about),
    ]
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1])


def _of_path(file: str) -> tuple[str, str, str]:
    """Return subset, judge and prompt from a path; empty if not given."""
    parts = file.split("/")
    if len(parts) < 4 or parts[-4] != "evaluators":
        return "", "", ""
    return (parts[-5] if len(parts) > 4 else ""), parts[-3], parts[-2]


def _is_pair(result: Any) -> bool:
    return isinstance(result, dict) and all(isinstance(result.get(f"swap = {swap}"), dict) for swap in (False, True))


def _is_rating(result: Any) -> bool:
    return isinstance(result, dict) and all(name in result for name in _SCORES)


def _pairs(item: _LlmbarItem, result: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the judgements in both orders."""
    for swap in (False, True):
        verdict, step = result[f"swap = {swap}"], -1 if swap else 1
        shown = item.outputs[::step]
        gap = (1.0 if item.gold == "1" else -1.0) * step
        text, why = _llmbar_text_of(verdict.get("completion"))
        reading = _llmbar_verdict(verdict.get("winner"), swap, text, why)
        yield item.place, item.name, *shown, gap, *item.words[::step], *reading, text


def _llmbar_scores(item: _LlmbarItem, result: dict[str, Any], number: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the scores of both outputs."""
    for index, (output, name) in enumerate(zip(item.outputs, _SCORES, strict=True)):
        text, why = _llmbar_text_of(result[name])
        reading: ParsedScore = (math.nan, "refused") if why in _FILTERED and not text else number(text)
        yield item.place, item.name, output, float(item.gold == str(index + 1)), item.words[index], *reading, text


def _llmbar_verdict(winner: Any, swap: bool, text: str, why: str) -> tuple[float, Status]:
    """Return the probability that the output shown first wins; winners "1" and "2" are outputs, not positions."""
    if isinstance(winner, bool) or winner not in ("1", "2", 1, 2):
        return math.nan, "refused" if why in _FILTERED or is_refusal(text) else "unparsable"
    return float(str(winner) == ("2" if swap else "1")), "ok"


def _llmbar_text_of(completion: Any) -> tuple[str, str]:
    """Return the text and the finish reason of a completion, which is a text or a list of both."""
    pair = [*completion, "", ""] if isinstance(completion, list) else [completion, ""]
    text, why = ((plain(item) or "" if isinstance(item, str) else "") for item in pair[:2])
    return text, why
