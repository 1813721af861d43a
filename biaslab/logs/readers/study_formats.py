r"""Formats of studies that a spec cannot declare: self-recognition, G-Eval, SocREval, SummEval and LLMBar.

**Self-recognition** (Panickssery et al. 2024, arXiv 2404.13076), a judge's own summary against another one.

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

**G-Eval**, several samples per item: ``source, system_output, prompt, all_responses`` and, mostly, ``scores``.

The format of G-Eval (Liu et al. 2023, arXiv 2303.16634) and of *A Closer Look into Automatic Evaluation Using LLMs*
(Chiang & Lee 2023, arXiv 2310.05657), a JSON list. The prompt gives attribute, scale, output order and whether there
are evaluation steps (auto-CoT); the judge is the part of the file name before the first underscore.

**SocREval**, scores by a reasoning model, several samples per item: ``id, human, prompt, responses``.

Replies to prompts of *SocREval* (He et al. 2024, arXiv 2310.00074), as JSON Lines. The prompt gives the scale, such as
``[1, 2, 3, 4, 5]``, and the name of the score, which is the last field of its example, such as ``"overall quality":
5``. In a reply, the score is the first number next to that name after the thinking. If any reply in a file closes
thinking that it did not open, the prompt opened it, and replies that do not close it were cut off. Judge and data set
are the parts of the file name before and after the last underscore.

**SummEval**, scores of summaries: ``judge, system, aspect, mode, id, resp``, one reply per line.

Published with Shen et al. 2023, *Large Language Models are Not Yet Human-Level Evaluators for Abstractive
Summarization* (arXiv 2305.13091). Modes: ``rts`` and ``altrts`` reason, then score; ``stareval`` gives stars; ``mcq``
and ``altmcq`` choose A (1, worst) to E (5, best). Modes that end in "old" are superseded and left out.

**LLMBar**, ``result.json`` (Zeng et al. 2024, arXiv 2310.07641): a list of pairs, each judged in both orders.

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.core.schema import count_words
from biaslab.core.trials import Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.readings import UNREAD, each, lettered, number_on, probability, read_answer, scored
from biaslab.logs.readers.rows import (
    Judged,
    LogSource,
    RefusedRecordError,
    Rows,
    measured,
    plain,
    record_trials,
    trials_of,
)
from biaslab.prompts.parsing.replies import ParsedScore, is_refusal
from biaslab.prompts.parsing.thoughts import begins_inside

_SELF_RECOGNITION_NAME = re.compile(r"(?:pairs|label_(?P<naming>[a-z]+)|scores)_(?P<dataset>[^_]+)_(?P<judge>[^_.]+)\.")
_NAMINGS = {"correct": "authors named rightly", "wrong": "authors named wrongly", "random": "authors named at random"}
_PROBABILITIES = ("probability", "comparison_output")
_SELF_RECOGNITION_SCALE = "1-5"
#: Data sets recognised by the form of their identifiers.
_IDS = {"cnn": re.compile(r"[0-9a-f]{40}"), "xsum": re.compile(r"\d{8}")}
_OF_OWN_TEXT = ("recorded", "authors named rightly")  # namings under which a bare mean refers to the judge's own text
_UNCLEAR = "self_preference under wrong or random names does not say which text it refers to"


def read_self_recognition(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one pair trial per order, or one of unknown order if the file has only the mean of both."""
    judge, named, naming = _of_name(source.file)

    def pairs(record: Judged) -> Iterator[Judged | str]:
        key, other = rows.field(record, "key", "id"), rows.field(record, "model", "id")
        mean = rows.field(record, "self_preference", "number")
        if other == judge:
            raise RefusedRecordError("the other summary is the judge's own")
        if mean < 0 or mean > 1:
            raise RefusedRecordError("self_preference is not a probability")
        if naming not in _OF_OWN_TEXT and not _has_orders(record):
            yield _UNCLEAR
            return
        for order in _orders(record, judge, other, mean):
            yield {"context_id": key, "dataset": _dataset(key, named), **order}

    return record_trials(rows, pairs, "self-recognition", judge=judge, template=naming, judge_system=judge)


def read_self_recognition_scores(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per record."""
    scale, named = scale_named(source.scale or _SELF_RECOGNITION_SCALE), _of_name(source.file)[1]

    def scores(record: Judged) -> Iterator[Judged]:
        key, judge, system = (rows.field(record, name, "id") for name in ("key", "model", "target_model"))
        if (chances := _distribution(record.get("scores"))) is None:
            raise RefusedRecordError("scores are not probabilities of integers")
        mass = sum(chances.values())
        expected = sum(score * chance for score, chance in chances.items()) / mass if mass > 0 else math.nan
        value, status = number_on(scale)(expected)
        yield {"judge": judge, "context_id": key, "dataset": _dataset(key, named), "candidate_id": system,
               "value": value, "status": status, "label_mass": mass}  # fmt: skip

    return record_trials(rows, scores, "self-recognition", scale=scale.name, answer="distribution")


def _of_name(file: str) -> tuple[str, str, str]:
    """Return judge, data set and naming of authors, from the file name."""
    match = _SELF_RECOGNITION_NAME.match(file.rsplit("/", 1)[-1])
    if match is None:
        return "unknown", "unknown", "recorded"
    return match["judge"], match["dataset"], _NAMINGS.get(match["naming"] or "", "recorded")


def _dataset(key: str, named: str) -> str:
    """Return the data set of an article, by the form of its identifier or else by the file name."""
    return next((name for name, form in _IDS.items() if form.fullmatch(key)), named)


def _has_orders(record: Judged) -> bool:
    return any(f"{order}_comparison" in record for order in ("forward", "backward"))


def _orders(record: Judged, judge: str, other: str, mean: float) -> Iterator[Judged]:
    names = ("candidate_id", "opponent_id", "order_known", "p_both_orders", "value", "status", "label_mass")
    if not _has_orders(record):
        yield dict(zip(names, (judge, other, False, mean, *probability(mean), math.nan), strict=True))
        return
    single = any(f"{order}_{field}" in record for order in ("forward", "backward") for field in _PROBABILITIES)
    for order, shown, own in (("forward", (judge, other), mean), ("backward", (other, judge), 1 - mean)):
        value, mass = _first_wins(record, order)
        both = math.nan if single else own
        yield dict(zip(names, (*shown, True, both, *probability(value), mass), strict=True))


def _first_wins(record: Judged, order: str) -> tuple[float, float]:
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


def read_all_responses(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per sample; a recorded judge finds the context by ``source_key``."""

    def scores(record: Judged) -> Iterator[Judged]:
        text, output, prompt = (rows.text(record, name) for name in ("source", "system_output", "prompt"))
        about, system = rows.field(record, "context", "text"), rows.field(record, "system_id", "id", "unknown")
        samples, people = _samples(rows, record, "all_responses"), record.get("scores")
        if (asked := _question(prompt)) is None:
            raise RefusedRecordError("the prompt names no attribute with a scale")
        attribute, scale, form, order = asked
        scale = source.scale or scale
        fixed = {
            "dataset": _dataset_of(people),
            "context_id": text_key(*(part.strip() for part in (text, about) if part is not None)),
            "candidate_id": system if system != "unknown" else text_key(output.strip()),
            "attribute": attribute,
            "scale": scale,
            "form": form,
            "order": order,
            "configuration": f"{form}, {order}",
            "human": measured(people.get(attribute)) if isinstance(people, dict) else math.nan,
            "words": float(count_words(output)),
            "source_key": text_key(text.strip()),
        }
        read = scored(scale_named(scale), attribute, source.score_pattern)
        yield from (fixed | sample for sample in _read_samples(samples, lambda reply: read_answer(reply, read)))

    judge = source.file.rsplit("/", 1)[-1].split("_")[0]
    return record_trials(rows, scores, "G-Eval", judge=judge)


def _samples(rows: Rows, record: Judged, name: str) -> list[str | None]:
    """Return the replies in a list."""
    samples: list[str | None] = rows.field(record, name, "list")
    if not all(isinstance(reply, str | None) for reply in samples):
        raise RefusedRecordError("a response is not text")
    return samples


def _read_samples(samples: Sequence[str | None], read: Callable[[str], ParsedScore]) -> Iterator[Judged]:
    """Yield the replies as replicates, each with its score."""
    for replicate, reply in enumerate(map(plain, samples)):
        value, status = UNREAD if reply is None else read(reply)
        yield {"replicate": replicate, "reply": reply, "value": value, "status": status}


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


def _dataset_of(scores: Any) -> str:
    names = set(scores) if isinstance(scores, dict) else set()
    return next((name for name, attributes in _ALL_RESPONSES_NAMES.items() if attributes <= names), "unknown")


_SOCREVAL_SCALE = re.compile(r"\[(\d+)(?:, \d+)*, (\d+)\]")
_SOCREVAL_NAME = re.compile(r'"(\w[\w -]*)": ?\d+(?:\.\d+)?\s*\}')


def read_socreval(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per sample."""
    replies = (reply for samples in rows.values("responses") if isinstance(samples, list) for reply in samples)
    opened = any(begins_inside(reply) for reply in replies if isinstance(reply, str))

    def scores(record: Judged) -> Iterator[Judged]:
        identity, prompt = rows.field(record, "id", "id"), rows.field(record, "prompt", "text")
        human, samples = rows.field(record, "human", "number"), _samples(rows, record, "responses")
        if (asked := _name_and_scale(prompt or "")) is None:
            raise RefusedRecordError("the prompt shows no scale, or no example of a score")
        name, stated = asked
        scale = scale_named(source.scale or stated)
        read = scored(scale, pattern=source.score_pattern or _number_after(name))
        fixed = {"context_id": identity, "attribute": name, "scale": scale.name, "human": human}
        for sample in _read_samples(samples, lambda reply: read_answer(reply, read, opened=opened)):
            yield fixed | sample

    judge, _, dataset = source.file.rsplit("/", 1)[-1].partition(".")[0].rpartition("_")
    about = {"judge": judge or "unknown", "dataset": dataset, "candidate_id": "response"}
    return record_trials(rows, scores, "SocREval", **about)


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


class _LlmbarItem(NamedTuple):
    """A record: the names of its outputs, the gold label, and the outputs' word counts."""

    outputs: tuple[str, ...]
    gold: str
    words: tuple[int, int]


def read_llmbar(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record and order, or one score trial per record and output."""
    subset, judge, prompt = _of_path(source.file)
    scale = source.scale or _LLMBAR_SCALE
    number = scored(scale_named(scale), None, source.score_pattern)
    known: dict[str, dict[str, int]] = {}  # prompt → pair of outputs → number of the pair
    nothing = dict.fromkeys(("opponent_id", "scale", "human_scale"))  # which pairs or scores do not have
    nothing |= dict.fromkeys(("human_gap", "human", "opponent_words"), math.nan)

    def judged(record: Judged) -> Iterator[Judged]:
        asked, *shown = (rows.text(record, name) for name in ("input", *_OUTPUTS))
        label, results = rows.field(record, "label", "id"), rows.field(record, "results", "list")
        if label not in ("1", "2"):
            raise RefusedRecordError("label is neither 1 nor 2")
        last: Any = results[-1] if results else None
        is_rating = isinstance(last, dict) and all(name in last for name in _SCORES)
        if not (is_rating or _is_pair(last)):
            raise RefusedRecordError("the last result is neither a verdict in both orders nor two scores")
        key = text_key(asked)
        among = known.setdefault(key, {})
        place = among.setdefault(text_key(*shown), len(among) + 1)
        outputs = tuple(f"{name} ({place})" if place > 1 else name for name in _OUTPUTS)
        item = _LlmbarItem(outputs, label, (count_words(shown[0]), count_words(shown[1])))
        about = nothing | {"context_id": f"{subset}/{key}" if subset else key}
        if is_rating:
            about |= {"configuration": prompt or "recorded", "template": "recorded", "scale": scale}
        else:
            about |= {"configuration": "recorded", "template": prompt or "recorded"}
        for own in _llmbar_scores(item, last, number) if is_rating else _pairs(item, last):
            yield about | own

    return record_trials(rows, judged, "LLMBar", judge=judge or "unknown", dataset="llmbar", subset=subset)


def _of_path(file: str) -> tuple[str, str, str]:
    """Return subset, judge and prompt from a path; empty if not given."""
    parts = file.split("/")
    if len(parts) < 4 or parts[-4] != "evaluators":
        return "", "", ""
    return (parts[-5] if len(parts) > 4 else ""), parts[-3], parts[-2]


def _is_pair(result: Any) -> bool:
    return isinstance(result, dict) and all(isinstance(result.get(f"swap = {swap}"), dict) for swap in (False, True))


def _pairs(item: _LlmbarItem, result: dict[str, Any]) -> Iterator[Judged]:
    """Yield the judgements in both orders."""
    for swap in (False, True):
        verdict, step = result[f"swap = {swap}"], -1 if swap else 1
        (first, second), (words, opponent_words) = item.outputs[::step], item.words[::step]
        text, why = _llmbar_text_of(verdict.get("completion"))
        value, status = _llmbar_verdict(verdict.get("winner"), swap, text, why)
        yield {"candidate_id": first, "opponent_id": second, "human_gap": (1.0 if item.gold == "1" else -1.0) * step,
               "words": words, "opponent_words": opponent_words, "value": value, "status": status,
               "reply": text}  # fmt: skip


def _llmbar_scores(item: _LlmbarItem, result: dict[str, Any], number: Any) -> Iterator[Judged]:
    """Yield the scores of both outputs."""
    for index, (output, name) in enumerate(zip(item.outputs, _SCORES, strict=True)):
        text, why = _llmbar_text_of(result[name])
        value, status = (math.nan, "refused") if why in _FILTERED and not text else number(text)
        yield {"candidate_id": output, "human": float(item.gold == str(index + 1)), "words": item.words[index],
               "human_scale": "0-1", "value": value, "status": status, "reply": text}  # fmt: skip


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
